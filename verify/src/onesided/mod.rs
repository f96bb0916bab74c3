//! Verification of one-sided programs (see [`rondo_ir::onesided`]): every interleaving of threads, ranks and calls.
//!
//! # Events
//! The program is unrolled into events for two calls in a row (three where scratch has two halves), so that what one call
//! leaves behind meets the next one. A move is one event a slot; a signal, wait or request one event a lane; a sync one event;
//! a barrier an arrival and a leaving; a request also the event at which its queue carries it out. Each rank has an event
//! at which a call's kernel begins and one at which it ends, and the caller, who reads and writes input and output, between.
//!
//! **Happens-before** holds between: a sync and everything before and after it in its threadblock; consecutive lanes of one thread;
//! moves of the same element size at the same distance from their beginning (element by element); the n-th signal and the n-th
//! wait of a counter; a packet's write and its read in the same call; requests of one queue, in the order of posting; a
//! request and the flush behind it; kernel begin and end.
//!
//! An order is *strong* unless it runs over something relaxed, a suspected flush, or a packet (whose flag orders only the packet).
//! A read before a write needs any order. A write before an access needs a strong one, or one that passes the end of a
//! kernel between two calls.
//!
//! # Checks
//! - **well-formed**: counters balance in each call, places exist.
//! - **no-deadlock**: nothing chooses (counters only grow; one thread waits on each), so one greedy run decides.
//! - **no-race**: conflicting accesses within a call are ordered.
//! - **contained**: nobody touches a rank's buffers after its call returned, or before it began.
//! - **repeats**: accesses of different calls are ordered. Periodic programs: what holds for neighbouring uses of a place holds for
//!   all of them.
//! - **completes**: without races all runs compute the same, so one is executed on multisets of contributions.
//!
//! # Not decided
//! Several threads that wait on one counter, a queue used by several threads at once, two writes to one packet: the answer is unknown,
//! and says so. Where several threads signal one counter in no fixed order, a wait comes after the signals without which the
//! counter could not have its value; what is not ordered by that is left undecided here, and the SMT encoding (`smt`) decides.

mod build;
mod codes;
mod order;
mod run;
mod smt;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::onesided::OneSidedProgram;

use crate::program::smt::Opinion;
use crate::program::{Findings, ProgramFinding, ProgramSmtOptions};
use crate::{Answer, Check, Claim, SmtMode};
use smt::{Defect, Second};

pub use codes::CODES;
pub use smt::onesided_certificate;

/// How a one-sided program is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneSidedOptions {
    /// Events, places and clock entries, each at most this many.
    pub work_limit: u64,
    /// Findings of one code that are told in full.
    pub findings_a_code: usize,
    /// Whether to ask an SMT solver for a second opinion, and whether the program must then have its proof.
    pub smt: SmtMode,
    /// Limits of the second opinion.
    pub smt_options: ProgramSmtOptions,
}

impl OneSidedOptions {
    /// Work in proportion to the text of a program: what a few bytes claim cannot ask for much memory.
    #[must_use]
    pub fn for_text(bytes: usize) -> Self {
        let in_proportion = (bytes as u64).saturating_mul(16).clamp(1 << 17, 1 << 22);
        Self { work_limit: in_proportion, ..Self::default() }
    }
}

impl Default for OneSidedOptions {
    fn default() -> Self {
        Self { work_limit: 1 << 22, findings_a_code: 8, smt: SmtMode::Off, smt_options: ProgramSmtOptions::default() }
    }
}

/// What was found.
#[derive(Debug)]
pub struct OneSidedOutcome {
    /// All checks, in order.
    pub checks: Vec<Check>,
    /// Faults and warnings with the operations they are about.
    pub findings: Vec<ProgramFinding>,
}

impl OneSidedOutcome {
    /// Refuted if any check is, proved if all that decide are.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let any = |answer| self.checks.iter().any(|check| check.decides && check.answer == answer);
        if any(Answer::Refuted) {
            Answer::Refuted
        } else if any(Answer::Unknown) || self.checks.is_empty() {
            Answer::Unknown
        } else {
            Answer::Proved
        }
    }
}

const NAMES: [&str; 6] = ["well-formed", "no-deadlock", "no-race", "contained", "repeats", "completes"];

fn check(name: &'static str, answer: Answer, detail: impl Into<String>) -> Check {
    Check { name, answer, decides: true, detail: detail.into() }
}

/// Verifies a program against a claim; a claim with a free output asks for safety only.
#[must_use]
pub fn verify_onesided(claim: &Claim, program: &OneSidedProgram, options: &OneSidedOptions) -> OneSidedOutcome {
    let mut findings = Findings::new(options.findings_a_code);
    let checks = with_second_opinion(claim, program, options, Defect::None, &mut findings);
    OneSidedOutcome { checks, findings: findings.finish() }
}

fn not_run(mut checks: Vec<Check>, why: &str) -> Vec<Check> {
    for name in NAMES.into_iter().skip(checks.len()) {
        checks.push(check(name, Answer::Unknown, format!("not run: {why}")));
    }
    checks
}

/// All checks, and those of the second opinion if one is asked for.
fn with_second_opinion(
    claim: &Claim,
    program: &OneSidedProgram,
    options: &OneSidedOptions,
    defect: Defect,
    findings: &mut Findings,
) -> Vec<Check> {
    let mut opinions = [(); 3].map(|()| Err("the program is not well formed, or not modelled".to_owned()));
    let mut checks = checks(claim, program, options, defect, findings, &mut opinions);
    if options.smt != SmtMode::Off {
        smt::compare(opinions, options.smt, &mut checks, findings);
    }
    checks
}

fn checks(
    claim: &Claim,
    program: &OneSidedProgram,
    options: &OneSidedOptions,
    defect: Defect,
    findings: &mut Findings,
    opinions: &mut [Result<Opinion, String>; 3],
) -> Vec<Check> {
    let graph = match build::build(claim, program, options, findings) {
        Ok(graph) => graph,
        Err(build::Stop::Refuted) => {
            let faults = format!("{} faults", findings.errors());
            return not_run(vec![check(NAMES[0], Answer::Refuted, faults)], "the program is not well formed");
        }
        Err(build::Stop::Undecided(why)) => {
            findings.add(Diagnostic::warning("V160", why.clone()), Vec::new());
            return not_run(vec![check(NAMES[0], Answer::Unknown, why.clone())], &why);
        }
    };
    let tbs: usize = program.ranks.iter().map(|rank| rank.threadblocks.len()).sum();
    let mut checks = vec![check(
        NAMES[0],
        Answer::Proved,
        format!(
            "{} events in {tbs} threadblocks of {} ranks over {} calls; {} counters balance",
            graph.events.len(),
            program.ranks.len(),
            graph.calls,
            program.counters.len()
        ),
    )];
    let second = match options.smt {
        SmtMode::Off => Err(String::new()),
        SmtMode::Auto | SmtMode::Required => Second::new(claim, program, options.smt_options, defect),
    };
    opinions[0] = second.as_ref().map(Second::no_deadlock).map_err(Clone::clone);
    for opinion in &mut opinions[1..] {
        *opinion = Err(second.as_ref().err().cloned().unwrap_or_else(|| "no run finishes".to_owned()));
    }
    let Some(sorted) = order::sort(&graph, findings) else {
        checks.push(check(NAMES[1], Answer::Refuted, "some threads wait for ever"));
        return not_run(checks, "no run finishes");
    };
    if !graph.open.is_empty() {
        let why = graph.open.join("; ");
        findings.add(Diagnostic::warning("V160", why.clone()), Vec::new());
        checks.push(check(NAMES[1], Answer::Unknown, why.clone()));
        return not_run(checks, &why);
    }
    checks.push(check(NAMES[1], Answer::Proved, "one run finishes, and nothing chooses, so every run does"));
    let mut told = Findings::new(options.findings_a_code);
    let mut races = order::races(&graph, &sorted, options, &mut told);
    if let Ok(second) = &second {
        let (opinion, race) = second.no_race();
        if !graph.crowds.waits.is_empty() {
            settle(second, &opinion, race.as_ref(), &mut races, &mut told, options);
        }
        opinions[1] = Ok(opinion);
    }
    findings.extend(told);
    let free = races.iter().all(|check| check.answer == Answer::Proved);
    checks.extend(races);
    checks.push(run::completes(&graph, &sorted, claim, findings));
    if let Ok(second) = &second {
        opinions[2] = if free { Ok(second.completes()) } else { Err("runs may differ".to_owned()) };
    }
    checks
}

/// Where a run decides which signals a wait hears of, the graph algorithm leaves open what the solver decides.
fn settle(
    second: &Second<'_>,
    opinion: &Opinion,
    race: Option<&smt::Conflict>,
    races: &mut [Check],
    told: &mut Findings,
    options: &OneSidedOptions,
) {
    const OPEN: [&str; 4] = ["V117", "V142", "V143", "V145"];
    let undecided = |check: &Check| check.answer == Answer::Unknown;
    if !races.iter().any(undecided) || opinion.answer == Answer::Unknown {
        return;
    }
    let before = std::mem::replace(told, Findings::new(options.findings_a_code));
    for found in before.finish() {
        // Between two operations; the one with the caller is a warning in any case.
        let relaxed = found.diagnostic.code == "V146" && 1 < found.locations.len() && opinion.answer == Answer::Proved;
        if !OPEN.contains(&found.diagnostic.code) && !relaxed {
            told.add(found.diagnostic, found.locations);
        }
    }
    match race {
        Some(race) => {
            let (name, diagnostic, locations) = second.race_finding(race);
            let named = races.iter().position(|check| check.name == name && undecided(check));
            let at = named.or_else(|| races.iter().position(undecided));
            if let Some(check) = at.and_then(|at| races.get_mut(at)) {
                check.answer = Answer::Refuted;
                check.detail = "some runs leave accesses without an order (by SMT)".to_owned();
            }
            told.add(diagnostic, locations);
        }
        None => {
            for check in races.iter_mut().filter(|check| undecided(check)) {
                check.answer = Answer::Proved;
                check.detail = "in every run, whichever signals the waits hear of (by SMT)".to_owned();
            }
        }
    }
}
