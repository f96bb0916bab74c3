//! The plan format of Rondo: JSON with `"format": "rondo.plan"`, self-contained and versioned.
//!
//! A plan holds either a *schedule* with the problem that it solves (topology, placement, circuits, groups, cost model),
//! or a *program* with the collective that it claims to perform. `docs/plan-format.md` describes every field and
//! `docs/plan.schema.json` is the JSON Schema, made from the types that read it.
//!
//! - Writing is deterministic: the same plan gives the same bytes. One flow, link or operation stands on one line.
//! - Reading checks every id once; code behind it may index freely. It judges nothing else: whether the schedule is right is
//!   for `verify` to say, and what a file claims about its price or its checks is handed on as a [claim](Claimed).
//! - Reading what was written gives the same plan. The one exception is where operations stand: the spans of a program that
//!   was read name lines of the plan file.
//!
//! # Example
//! ```
//! use rondo_backends::json::{self, Plan};
//!
//! let text = include_str!("testdata/example.json");
//! let plan = json::parse("example.json", text.as_bytes()).map_err(|errors| errors[0].message.clone())?;
//! let Plan::Schedule { problem, schedule, .. } = &plan else { return Err("a schedule was expected".into()) };
//! assert_eq!(problem.rank_count(), 2);
//! assert_eq!(schedule.flow_count(), 2);
//!
//! let written = json::to_text(plan.as_ref())?;
//! assert_eq!(json::parse("written", written.as_bytes()).as_ref(), Ok(&plan));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use rondo_ir::collective::Collective;
use rondo_ir::problem::Problem;
use rondo_ir::program::Program;
use rondo_ir::schedule::Schedule;
use rondo_ir::units::Time;

mod check;
mod codes;
mod emit;
mod locate;
mod model;
mod parse;
mod schema;
#[cfg(test)]
mod tests;

pub use check::MAX_FAULTS;
pub use codes::CODES;
pub use emit::{EmitError, emit, to_text};
pub use locate::{flow_span, locate};
pub use parse::{looks_like_plan, parse};
pub use schema::schema_text;

/// What stands under `"format"`.
pub const FORMAT: &str = "rondo.plan";

/// What stands under `"version"` in files that this version writes. All of 1.x can be read.
pub const VERSION: &str = "1.0";

/// Loops of a program may be nested this deep in a plan file.
pub const LOOP_DEPTH_LIMIT: usize = 32;

/// A plan that was read, or is to be written.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // there is one at a time
pub enum Plan {
    /// A schedule and the problem that it solves.
    Schedule {
        /// Topology, placement, initial circuits, groups and cost model.
        problem: Arc<Problem>,
        /// The schedule.
        schedule: Schedule,
        /// What the file says about its price and checks; never to be trusted.
        claimed: Option<Claimed>,
    },
    /// A program and what it claims to do.
    Program {
        /// The collective that it claims to perform.
        claim: ProgramHeader,
        /// The program.
        program: Program,
    },
}

impl Plan {
    /// The plan, borrowed for writing.
    #[must_use]
    pub fn as_ref(&self) -> PlanRef<'_> {
        match self {
            Self::Schedule { problem, schedule, claimed } => {
                PlanRef::Schedule { problem, schedule, claimed: claimed.as_ref() }
            }
            Self::Program { claim, program } => PlanRef::Program { claim, program },
        }
    }
}

/// A plan to write, whose parts belong to somebody else.
#[derive(Clone, Copy, Debug)]
pub enum PlanRef<'a> {
    /// As [`Plan::Schedule`].
    Schedule {
        /// Topology, placement, initial circuits, groups and cost model.
        problem: &'a Problem,
        /// The schedule.
        schedule: &'a Schedule,
        /// What to say about its price and checks.
        claimed: Option<&'a Claimed>,
    },
    /// As [`Plan::Program`].
    Program {
        /// The collective that it claims to perform.
        claim: &'a ProgramHeader,
        /// The program.
        program: &'a Program,
    },
}

/// What a program claims to do: a collective at a chunk count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramHeader {
    /// The collective, in or out of place.
    pub collective: Collective,
    /// Chunks a block.
    pub chunks: u32,
}

/// What a plan file says about itself. A reader recomputes it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Claimed {
    /// Time of the schedule under its problem's cost model.
    pub time: Option<Time>,
    /// Time of each step; empty if the file does not say.
    pub steps: Vec<Time>,
    /// Names of the checks that were proved when the file was written, in order.
    pub checks: Vec<String>,
}
