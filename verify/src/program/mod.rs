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
pub mod certificate;
mod codes;
mod flat;
mod form;
mod opinion;
mod order;
mod race;
mod report;
mod run;
mod summation;
mod trace;
mod transfers;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::program::Program;

pub use codes::CODES;
pub use opinion::second_opinion;
pub(crate) use report::Findings;
pub use report::{Location, ProgramFinding};
pub use transfers::{TransferReport, same_transfers};

use crate::{About, Answer, Check, Claim, Outcome};
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
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self { fifo_depth: None, work_limit: 1 << 26, findings_a_code: 8 }
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
    let checks = checks(&claim, &program, options, &mut findings);
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

fn checks(claim: &Claim, program: &Program, options: &ProgramOptions, findings: &mut Findings) -> Vec<Check> {
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
    let split = Atoms::new(&flat, true);
    let whole = flat.wide_messages.then(|| Atoms::new(&flat, false));
    let Some(order) = order::total_order(&flat, &split) else {
        order::report_stuck(&flat, whole.as_ref().unwrap_or(&split), &split, findings);
        checks.push(check(NAMES[1], Answer::Refuted, "some threadblocks wait for each other, whatever the FIFO depth"));
        return not_run(checks, "no run finishes");
    };
    let positions = order::positions(&order);
    let (deadlock, (races, result)) = rayon::join(
        || order::deadlock(&flat, whole.as_ref(), &split, depth),
        || {
            rayon::join(
                || race::races(&flat, &split, &order, &positions),
                || run::run(&flat, &split, &order, &claim.collective),
            )
        },
    );
    checks.push(deadlock.report(&flat, whole.as_ref(), &split, depth, findings));
    checks.push(races.report(&flat, &split, (&order, result.is_right()), &claim.collective, findings));
    let race_free = checks[2].answer == Answer::Proved;
    checks.push(result.report(&flat, &split, &order, race_free, findings));
    if checks[3].answer == Answer::Proved {
        checks.extend(result.same_order(findings));
    }
    checks
}

#[cfg(test)]
mod tests;
