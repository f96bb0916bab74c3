//! Verification of programs: what a runtime executes, in every interleaving that it may choose.
//!
//! # Definition
//! A program (see [`rondo_ir::program`]) is unrolled into *atoms*, the smallest things that happen at once. An operation is
//! one atom, except that one that sends or receives `count` slots is `count` atoms of one slot each, because runtimes split
//! messages that are too large; a program that is right for one message a slot is right for every coarser split as well.
//! A barrier is two atoms: arriving and leaving.
//!
//! **Happens-before** is the smallest order with: program order in a threadblock; the k-th send of a connection before its k-th
//! receive; the first operation at or after the one waited for that publishes before the waiter; all arrivals at a barrier
//! before each leaving; and signals before waits: of a counter that gets S signals in all, the wait for v happens after the
//! j-th signal of a threadblock that sends n of them if j ≤ n − (S − v), since without it the counter could not reach v.
//! Room in a FIFO gives no order that data may rely on.
//!
//! - **well-formed**: everything named exists, each end of a connection has one owner, sends and receives pair up.
//! - **no-deadlock**: nothing in a program chooses, and no atom takes away what lets another one run (each connection end has one
//!   owner, counters only grow), so if one run finishes, every run does. One greedy run at the FIFO depth decides.
//! - **no-race**: any two accesses to one place, one of them a write, are ordered by happens-before. Places are those in memory:
//!   under aliases both names of a place are one, and what put and get touch counts at the peer.
//! - **completes**: without races all linear extensions of happens-before compute the same, so one is executed, slot by slot,
//!   on multisets of contributions, and must end in the postcondition.
//!
//! An SMT solver may be asked for a second opinion on the last three (see [`ProgramOptions::smt`]); it reads the program by code of
//! its own, and decides races where the rule for signals leaves something open.
//!
//! Beside these, `same-order` says whether all ranks of an all_reduce add in the same order, so that their results are equal bit
//! by bit. If not, that is a finding (V122) and no refutation.
//!
//! Room for messages: an atom that receives and sends takes its incoming message only when the outgoing one has room, and frees
//! the incoming slot then; so it happens as a whole. `no-deadlock` runs it both ways: a message an operation, and a
//! message a slot. The smallest depth at which the program finishes is found by search.
//!
//! Operations in loops cannot be waited for (they have no number); that they publish is ignored. Numbers of threadblocks in
//! dependencies and barriers are indices in [`rondo_ir::program::RankProgram::threadblocks`].

mod atoms;
mod codes;
mod flat;
mod form;
mod order;
mod race;
mod report;
mod run;
pub(crate) mod smt;
mod summation;
mod trace;
mod transfers;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::program::Program;

pub use codes::CODES;
pub(crate) use report::Findings;
pub use report::{Location, ProgramFinding};
pub use smt::{ProgramCertificate, ProgramSmtOptions, program_certificate};
pub use transfers::{TransferReport, same_transfers};

use crate::{About, Answer, Check, Claim, Outcome, SmtMode};
use atoms::Atoms;

/// How a program is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOptions {
    /// Messages that a connection holds; `None`: what the program says.
    pub fifo_depth: Option<u32>,
    /// Atoms after unrolling, slots in all buffers, and slots touched, each at most this many; a program that is larger is
    /// left undecided by name.
    pub work_limit: u64,
    /// Findings of one code that are told in full.
    pub findings_a_code: usize,
    /// Whether an SMT solver gives a second opinion, and whether the verdict rests on it. Off by default.
    pub smt: SmtMode,
    /// Its limits.
    pub smt_options: ProgramSmtOptions,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self {
            fifo_depth: None,
            work_limit: 1 << 26,
            findings_a_code: 8,
            smt: SmtMode::Off,
            smt_options: ProgramSmtOptions::default(),
        }
    }
}

/// An outcome together with where its findings are.
#[derive(Debug)]
pub struct ProgramOutcome {
    /// The outcome. `findings[i]` of it is the diagnostic of `findings[i]` here.
    pub outcome: Outcome<Program>,
    /// The findings with the instructions they are about.
    pub findings: Vec<ProgramFinding>,
}

/// Verifies a program against what it claims, or is asked, to do.
///
/// A program that may run in place and out of place is verified once for each.
#[must_use]
pub fn verify_program(claim: Claim, program: Program, options: &ProgramOptions) -> Outcome<Program> {
    verify_program_located(claim, program, options).outcome
}

/// The same, with the instructions that each finding is about, for labels in the file.
#[must_use]
pub fn verify_program_located(claim: Claim, program: Program, options: &ProgramOptions) -> ProgramOutcome {
    let mut findings = Findings::new(options.findings_a_code);
    let checks = with_second_opinion(&claim, &program, options, smt::Defect::None, &mut findings);
    let findings = findings.finish();
    let diagnostics: Vec<Diagnostic> = findings.iter().map(|finding| finding.diagnostic.clone()).collect();
    ProgramOutcome { outcome: Outcome::conclude(checks, diagnostics, About::Claim(claim), program), findings }
}

const NAMES: [&str; 4] = ["well-formed", "no-deadlock", "no-race", "completes"];

/// Fills up with checks that were not run.
fn not_run(mut checks: Vec<Check>, why: &str) -> Vec<Check> {
    for name in NAMES.into_iter().skip(checks.len()) {
        checks.push(check(name, Answer::Unknown, format!("not run: {why}")));
    }
    checks
}

fn check(name: &'static str, answer: Answer, detail: impl Into<String>) -> Check {
    Check { name, answer, decides: true, detail: detail.into() }
}

/// All checks, and those of the second opinion if one is asked for.
fn with_second_opinion(
    claim: &Claim,
    program: &Program,
    options: &ProgramOptions,
    defect: smt::Defect,
    findings: &mut Findings,
) -> Vec<Check> {
    let mut opinions = None;
    let mut checks = checks(claim, program, options, defect, findings, &mut opinions);
    if options.smt != SmtMode::Off {
        let answers = match opinions {
            Some(opinions) => opinions,
            None => [(); 3].map(|()| Err("the program is not well formed, or too large".to_owned())),
        };
        smt::compare(smt::SHARED, answers, options.smt, &mut checks, findings);
    }
    checks
}

fn checks(
    claim: &Claim,
    program: &Program,
    options: &ProgramOptions,
    defect: smt::Defect,
    findings: &mut Findings,
    opinions: &mut Option<[Result<smt::Opinion, String>; 3]>,
) -> Vec<Check> {
    let flat = match form::check(claim, program, options, findings) {
        Ok(flat) => flat,
        Err(form::Stop::Refuted) => {
            let well_formed = check(NAMES[0], Answer::Refuted, format!("{} faults", findings.errors()));
            return not_run(vec![well_formed], "the program is not well formed");
        }
        Err(form::Stop::TooLarge(why)) => {
            let answer = if findings.errors() == 0 { Answer::Unknown } else { Answer::Refuted };
            return not_run(vec![check(NAMES[0], answer, why.clone())], &why);
        }
    };
    let form_answer = if findings.errors() == 0 { Answer::Proved } else { Answer::Refuted };
    let mut checks = vec![check(
        NAMES[0],
        form_answer,
        format!(
            "{} operations ({} unrolled) in {} threadblocks of {} ranks, {} connections",
            program.operation_count(),
            flat.ops.len(),
            flat.tbs.len(),
            program.ranks.len(),
            flat.conns.len()
        ),
    )];
    let depth = options.fifo_depth.unwrap_or(program.fifo_depth);
    let second = match options.smt {
        SmtMode::Off => Err(String::new()),
        SmtMode::Auto | SmtMode::Required => smt::Second::new(claim, program, depth, options.smt_options, defect),
    };
    let split = Atoms::new(&flat, true);
    let whole = flat.wide_messages.then(|| Atoms::new(&flat, false));
    let Some(order) = order::total_order(&flat, &split) else {
        order::report_stuck(&flat, whole.as_ref().unwrap_or(&split), &split, findings);
        checks.push(check(NAMES[1], Answer::Refuted, "some threadblocks wait for each other, whatever the FIFO depth"));
        let why = || Err("no run finishes".to_owned());
        *opinions = Some([second.map(|second| second.no_deadlock()), why(), why()]);
        return not_run(checks, "no run finishes");
    };
    let positions = order::positions(&order);
    let (deadlock, (mut races, result)) = rayon::join(
        || order::deadlock(&flat, whole.as_ref(), &split, depth),
        || {
            rayon::join(
                || race::races(&flat, &split, &order, &positions),
                || run::run(&flat, &split, &order, &claim.collective),
            )
        },
    );
    checks.push(deadlock.report(&flat, whole.as_ref(), &split, depth, findings));
    let race_opinion = second.as_ref().map(smt::Second::no_race).map_err(Clone::clone);
    let race_opinion = race_opinion.map(|(opinion, racing)| {
        if opinion.answer != Answer::Unknown {
            races.settle(racing.as_ref().map(smt::race_finding));
        }
        opinion
    });
    checks.push(races.report(&flat, &split, (&order, result.is_right()), &claim.collective, findings));
    let race_free = checks[2].answer == Answer::Proved;
    checks.push(result.report(&flat, &split, &order, race_free, findings));
    *opinions = Some(match second {
        Ok(second) => {
            let completes = if checks[2].answer == Answer::Refuted {
                Err("with races, runs may differ".to_owned())
            } else {
                Ok(second.completes())
            };
            [Ok(second.no_deadlock()), race_opinion, completes]
        }
        Err(why) => [Err(why.clone()), race_opinion, Err(why)],
    });
    if checks[3].answer == Answer::Proved {
        checks.extend(result.same_order(findings));
    }
    checks
}

#[cfg(test)]
mod tests;
