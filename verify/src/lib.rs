//! Every check of Rondo. This crate trusts nothing that made what it checks: it knows `rondo-ir` only, and shares no
//! code with the compiler.
//!
//! # Answers
//! A check proves, refutes with a counterexample, or says that it could not decide. [`Outcome::verified`] is there only
//! when every check that decides was finished and none found a fault; [`Verified`] has private fields and is made
//! nowhere but here, so whoever holds one holds the proof together with the problem it is about.

pub mod bound;
mod codes;
mod dependencies;
mod findings;
mod form;
pub mod onesided;
mod opinion;
mod paths;
mod places;
mod price;
pub mod program;
pub mod region;
mod replay;
mod schedule;
pub mod smt;
mod symmetry;
mod values;
mod witness;

pub use opinion::SmtMode;
pub use price::{Price, PriceError, StepPrice, price};
pub use schedule::{Options, verify_schedule};

use std::sync::Arc;

use rondo_ir::collective::Collective;
use rondo_ir::diagnostic::{CodeEntry, Diagnostic, Severity};
use rondo_ir::problem::Problem;

/// How a property was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds.
    Proved,
    /// It does not.
    Refuted,
    /// Not finished, or outside what the check can decide.
    Unknown,
}

/// One check of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Stable kebab-case name: `well-formed`, `completes`, `smt-completes`, `no-deadlock`, …
    pub name: &'static str,
    /// What came out.
    pub answer: Answer,
    /// Whether the verdict rests on it. A second opinion (SMT) does not decide, unless it is required.
    pub decides: bool,
    /// For people: how it was decided, over how much, by which solver and version, or why not.
    pub detail: String,
}

/// What a verification gives.
#[derive(Debug)]
pub struct Outcome<T> {
    /// All checks that were run, in order.
    pub checks: Vec<Check>,
    /// Faults and warnings. Each refuted check has at least one error here.
    pub findings: Vec<Diagnostic>,
    /// The proof, if all deciding checks are proved.
    pub verified: Option<Verified<T>>,
}

impl<T> Outcome<T> {
    /// Refuted if any check is, proved if there is a proof, else unknown.
    #[must_use]
    pub fn answer(&self) -> Answer {
        if self.checks.iter().any(|c| c.answer == Answer::Refuted) {
            Answer::Refuted
        } else if self.verified.is_some() {
            Answer::Proved
        } else {
            Answer::Unknown
        }
    }

    /// Puts an outcome together: the proof is made only if all deciding checks are proved, there is at least one,
    /// and no finding is an error.
    pub(crate) fn conclude(checks: Vec<Check>, findings: Vec<Diagnostic>, about: About, value: T) -> Self {
        let proved = checks.iter().filter(|c| c.decides).all(|c| c.answer == Answer::Proved);
        let some = checks.iter().any(|c| c.decides);
        let clean = findings.iter().all(|f| f.severity < Severity::Error);
        let refuted = checks.iter().any(|c| c.answer == Answer::Refuted);
        let verified = (proved && some && clean && !refuted).then(|| Verified { about, value });
        Self { checks, findings, verified }
    }
}

/// What a program file claims, or what it is checked against: a collective at a chunk count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The collective, in or out of place.
    pub collective: Collective,
    /// Chunks a block.
    pub chunks: u32,
}

/// What a proof is about.
#[derive(Clone, Debug)]
pub enum About {
    /// A schedule for this problem.
    Problem(Arc<Problem>),
    /// A program that does this.
    Claim(Claim),
}

/// A schedule or program together with what it was proved to do. Only this crate makes one.
#[derive(Debug)]
pub struct Verified<T> {
    about: About,
    value: T,
}

impl<T> Verified<T> {
    /// What it was proved against.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// What was proved.
    #[must_use]
    pub const fn value(&self) -> &T {
        &self.value
    }
}

/// The codes of this crate, for `rondo explain`.
#[must_use]
pub fn codes() -> Vec<CodeEntry> {
    [codes::CODES, opinion::CODES, program::CODES, onesided::CODES].concat()
}
