//! From a job to a schedule to a program: frontends, topologies, builders, cost, passes, lowering.
//!
//! Nothing here judges its own work: `rondo-verify` reads the result and trusts nothing that built it.

pub mod auto;
pub mod build;
pub mod cost;
pub mod fabric;
pub mod front;
pub mod lower;
pub mod pass;
pub mod sizes;
pub mod span;
pub mod topology;

use rondo_ir::diagnostic::CodeEntry;

/// The codes of this crate, for `rondo explain`.
#[must_use]
pub fn codes() -> Vec<CodeEntry> {
    [front::job::CODES, topology::error::CODES, front::import::CODES, build::CODES, lower::CODES, pass::CODES].concat()
}
