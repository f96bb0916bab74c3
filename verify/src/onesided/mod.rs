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
//! counter could not have its value; what is not ordered by that is left undecided, not refuted.

mod build;
mod codes;
mod order;
mod run;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::onesided::OneSidedProgram;

use crate::program::{Findings, ProgramFinding};
use crate::{Answer, Check, Claim};

pub use codes::CODES;

/// How a one-sided program is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneSidedOptions {
    /// Events, places and clock entries, each at most this many.
    pub work_limit: u64,
    /// Findings of one code that are told in full.
    pub findings_a_code: usize,
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
        Self { work_limit: 1 << 22, findings_a_code: 8 }
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
    let checks = checks(claim, program, options, &mut findings);
    OneSidedOutcome { checks, findings: findings.finish() }
}

fn not_run(mut checks: Vec<Check>, why: &str) -> Vec<Check> {
    for name in NAMES.into_iter().skip(checks.len()) {
        checks.push(check(name, Answer::Unknown, format!("not run: {why}")));
    }
    checks
}

fn checks(claim: &Claim, program: &OneSidedProgram, options: &OneSidedOptions, findings: &mut Findings) -> Vec<Check> {
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
    checks.extend(order::races(&graph, &sorted, options, findings));
    checks.push(run::completes(&graph, &sorted, claim, findings));
    checks
}
