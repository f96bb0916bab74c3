//! A second, independent proof that a schedule completes, by an SMT solver.
//!
//! # What is proved
//! Every input slot (position, slot) gets a free variable. The encoder reads the flows by code of its own (it shares
//! none with the replay of the exact checker) and builds the term that each place holds after the last step: a `copy`
//! shares the term, a `reduce` adds. The query asks for inputs with *some* place different from its postcondition, so
//! `unsat` says: for every rank and place the postcondition holds, for all inputs.
//!
//! - sum, avg, prod: variables range over the integers and `+` stands for the operator. Two sums of variables are equal
//!   for all integers exactly if each variable occurs equally often in both, hence equal under every operation that is
//!   associative and commutative; a contribution that is missing or counted twice is a counterexample.
//! - max, min: variables are Booleans and `or` stands for the operator. Two maxima of variables over any total order are
//!   equal for all values exactly if they are for two values (compare with every threshold in turn), so this proves the
//!   result for all inputs, and counts above one do not matter, as the semantics says.
//!
//! *Undefined* is a state of a place, kept by the encoder, not a value: reading or reducing into an undefined place, two
//! writes of which one is a `copy`, and writing a read-only input are refuted before any solver runs.
//!
//! With explicit dependencies the flows are encoded in the order of their numbers; that every other order the runtime may
//! choose gives the same is the exact check of races, not this one.
//!
//! # How
//! Places that no flow connects cannot influence each other, so the schedule falls into data-flow components (one a
//! chunk for a ring). Components are gathered, in order, into queries of bounded size, which run in parallel, each with
//! its own solver. Above [`SmtOptions::max_ranks`] only some evenly spaced components are proved; the answer is then
//! `Unknown` with the share, never `Proved`.

mod decode;
mod encode;
#[cfg(test)]
pub(crate) mod fixtures;
mod report;
#[cfg(feature = "smt")]
mod solve;
#[cfg(test)]
mod tests;
mod text;

use std::io;

use rayon::prelude::*;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;

use crate::Answer;
pub(crate) use encode::{Algebra, Node, PlaceCheck, Query};
use encode::{Encoded, Encoder, Refusal};
pub use report::{SmtCounterexample, SmtFault};

/// Budgets of the proof. All but the time-out are reproducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmtOptions {
    /// Up to this many ranks everything is proved; above it only [`Self::chosen_chunks`] components.
    pub max_ranks: usize,
    /// Components that are proved above `max_ranks`, evenly spaced over all of them.
    pub chosen_chunks: usize,
    /// Z3's resource limit for each query; 0 means none.
    pub rlimit: u32,
    /// Milliseconds for each query: a backstop, not a budget; 0 means none.
    pub timeout_ms: u32,
    /// Slots that all flows may move together before the proof is refused.
    pub max_transfers: u64,
    /// Variable occurrences that one query's sums may have when written out, before it is refused: about 100 bytes each.
    pub max_terms: u64,
}

impl Default for SmtOptions {
    fn default() -> Self {
        Self {
            max_ranks: 256,
            chosen_chunks: 16,
            rlimit: 2_000_000_000,
            timeout_ms: 120_000,
            max_transfers: 1 << 26,
            max_terms: 20_000_000,
        }
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtReport {
    /// `Proved` only if every place was.
    pub answer: Answer,
    /// Output places with a postcondition that were proved.
    pub proved_places: u64,
    /// Output places with a postcondition.
    pub all_places: u64,
    /// Solver and version (`Z3 4.8.12`), or why there is none.
    pub solver: String,
    /// For people: how much was proved, in how many queries, or why not.
    pub detail: String,
    /// Present exactly if the answer is `Refuted`.
    pub counterexample: Option<SmtCounterexample>,
}

/// Proves or refutes that every place holds its postcondition after the last step, for all inputs.
///
/// Never panics on a schedule that is not well formed: the answer is then `Unknown`.
#[must_use]
pub fn prove_completes(problem: &Problem, schedule: &Schedule, options: &SmtOptions) -> SmtReport {
    prove_with_defect(problem, schedule, options, Defect::None)
}

/// A deliberate mistake of the encoder, so that tests can show that the exact checker would expose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Defect {
    /// Correct.
    None,
    /// Forgets the first flow that reduces.
    DropReduce,
    /// What the first step writes lands one step too late.
    WriteLate,
    /// Moves the first slot of each flow only.
    IgnoreCount,
}

/// The outcome of one query.
pub(crate) enum QueryOutcome {
    /// `unsat`.
    #[cfg_attr(not(feature = "smt"), allow(dead_code))]
    Proved,
    Refuted(SmtCounterexample),
    Unknown(String),
}

pub(crate) fn prove_with_defect(
    problem: &Problem,
    schedule: &Schedule,
    options: &SmtOptions,
    defect: Defect,
) -> SmtReport {
    let solver = solver_name();
    let unknown = |all_places, detail: String| SmtReport {
        answer: Answer::Unknown,
        proved_places: 0,
        all_places,
        solver: solver.clone(),
        detail,
        counterexample: None,
    };
    let encoder = match Encoder::new(problem, schedule, options, defect) {
        Ok(encoder) => encoder,
        Err(Refusal(reason)) => return unknown(0, reason),
    };
    let outcomes: Vec<(u64, QueryOutcome)> = (0..encoder.batches())
        .into_par_iter()
        .map(|batch| match encoder.encode(batch) {
            Encoded::Query(query) => {
                let weight = query.weight();
                let outcome = if options.max_terms < weight {
                    let limit = options.max_terms;
                    QueryOutcome::Unknown(format!("a query would have {weight} terms; the limit is {limit}"))
                } else {
                    solve(&query, options)
                };
                (query.checks.len() as u64, outcome)
            }
            Encoded::Fault(counterexample) => (0, QueryOutcome::Refuted(counterexample)),
        })
        .collect();
    let all_places = encoder.all_places();
    let mut proved_places = 0;
    let mut worst: Option<SmtCounterexample> = None;
    let mut reasons: Vec<String> = Vec::new();
    for (places, outcome) in outcomes {
        match outcome {
            QueryOutcome::Proved => proved_places += places,
            QueryOutcome::Refuted(found) => {
                if worst.as_ref().is_none_or(|known| found.order() < known.order()) {
                    worst = Some(found);
                }
            }
            QueryOutcome::Unknown(reason) => {
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
    }
    let queries = encoder.batches();
    let plural = |count: usize| if count == 1 { "y" } else { "ies" };
    let order = if schedule.dependencies.is_some() { ", flows in the order of their numbers" } else { "" };
    let share = format!("{proved_places} of {all_places} places in {queries} quer{}{order}", plural(queries));
    let (answer, detail) = if let Some(found) = &worst {
        (Answer::Refuted, found.to_string())
    } else if !reasons.is_empty() {
        (Answer::Unknown, format!("{}; proved {share}", reasons.join("; ")))
    } else if proved_places < all_places {
        let (chosen, components) = (encoder.chosen_components(), encoder.components());
        let (ranks, limit) = (problem.rank_count(), options.max_ranks);
        (
            Answer::Unknown,
            format!(
                "{ranks} ranks are above the limit of {limit}: chose {chosen} of {components} components, proved {share}"
            ),
        )
    } else {
        (Answer::Proved, format!("for all inputs: {share}"))
    };
    SmtReport { answer, proved_places, all_places, solver, detail, counterexample: worst }
}

#[cfg(feature = "smt")]
pub(crate) use solve::{asks, name as solver_name, solve};
pub(crate) use text::query as write_query;

#[cfg(not(feature = "smt"))]
pub(crate) fn solver_name() -> String {
    "none (built without the feature `smt`)".to_owned()
}

#[cfg(not(feature = "smt"))]
pub(crate) fn solve(_: &Query, _: &SmtOptions) -> QueryOutcome {
    QueryOutcome::Unknown("built without the feature `smt`".to_owned())
}

#[cfg(not(feature = "smt"))]
pub(crate) fn asks(_: &str, _: &str, _: usize, _: &SmtOptions) -> Result<bool, String> {
    Err("built without the feature `smt`".to_owned())
}

/// Why no certificate was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The writer failed.
    #[error("cannot write the certificate: {0}")]
    Io(#[from] io::Error),
    /// The schedule is not well formed or above a limit.
    #[error("no certificate: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The schedule is wrong before any solver is asked.
    #[error("no certificate: {0}")]
    Wrong(SmtCounterexample),
}

/// What a certificate covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// Queries, each of which another solver must answer with `unsat`.
    pub queries: usize,
    /// Output places that they speak of.
    pub places: u64,
    /// Output places with a postcondition.
    pub all_places: u64,
}

/// Writes the queries as SMT-LIB 2 text, one `(push 1) … (check-sat) (pop 1)` each, for any other solver to check: every
/// answer must be `unsat`. Needs no solver, and works without the feature `smt`.
///
/// # Errors
/// [`CertificateError`].
pub fn certificate(
    problem: &Problem,
    schedule: &Schedule,
    options: &SmtOptions,
    out: &mut dyn io::Write,
) -> Result<CertificateSummary, CertificateError> {
    let encoder = Encoder::new(problem, schedule, options, Defect::None)
        .map_err(|Refusal(reason)| CertificateError::Refused { reason })?;
    let all_places = encoder.all_places();
    let mut places = 0;
    text::header(out, problem, schedule, encoder.batches())?;
    for batch in 0..encoder.batches() {
        match encoder.encode(batch) {
            Encoded::Query(query) => {
                places += query.checks.len() as u64;
                text::query(out, batch, &query, false)?;
            }
            Encoded::Fault(counterexample) => return Err(CertificateError::Wrong(counterexample)),
        }
    }
    Ok(CertificateSummary { queries: encoder.batches(), places, all_places })
}
