//! Counterexamples of the SMT proof.

use std::fmt;

use num_bigint::BigUint;
use rondo_ir::collective::{Contribution, Place};
use rondo_ir::index::{FlowId, GroupId, RankId, StepId};

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmtFault {
    /// A flow reads it, or reduces into it, while it is undefined.
    Undefined {
        /// When.
        step: StepId,
        /// By which flow.
        flow: FlowId,
        /// Whether the flow would add to it (else it reads it).
        reduces: bool,
    },
    /// Two flows write it in one step and at least one is a `copy`.
    Conflict {
        /// When.
        step: StepId,
        /// One flow.
        first: FlowId,
        /// The other.
        second: FlowId,
    },
    /// A flow writes it although it is the input of an out-of-place call.
    ReadOnly {
        /// When.
        step: StepId,
        /// Which flow.
        flow: FlowId,
    },
    /// It must hold something at the end and is undefined.
    NeverWritten,
    /// It holds something else than its postcondition.
    Wrong {
        /// Contributions that occur too rarely or too often: (which, held, due). Not empty. For max and min, held and
        /// due are 0 or 1.
        differences: Vec<(Contribution, BigUint, u64)>,
        /// Inputs that show it: these are 1, all others 0; the place then holds the first difference's `held` and not its
        /// `due`.
        model: Vec<(Contribution, u64)>,
    },
}

/// A place at which the schedule is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtCounterexample {
    /// Whose buffers.
    pub group: GroupId,
    /// The rank.
    pub rank: RankId,
    /// Its place; an output place under its own name for faults at the end, else the canonical one.
    pub place: Place,
    /// What is wrong there.
    pub fault: SmtFault,
}

impl SmtCounterexample {
    /// Faults during the run come before those at the end, earlier flows before later ones; then by place.
    pub(super) fn order(&self) -> (u8, u32, GroupId, RankId, Place) {
        let (late, flow) = match &self.fault {
            SmtFault::Undefined { flow, .. } | SmtFault::ReadOnly { flow, .. } => (0, flow.number()),
            SmtFault::Conflict { second, .. } => (0, second.number()),
            SmtFault::NeverWritten | SmtFault::Wrong { .. } => (1, 0),
        };
        (late, flow, self.group, self.rank, self.place)
    }
}

/// `r3.o[1] misses the contribution of position 2, input slot 1: with that input 1 and all others 0 it holds 0, not 1`
impl fmt::Display for SmtCounterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, rank, place, fault } = self;
        if group.index() != 0 {
            write!(f, "group {group}: ")?;
        }
        match fault {
            SmtFault::Undefined { step, flow, reduces } => {
                let does = if *reduces { "reduces into" } else { "reads" };
                write!(f, "{step} {flow} {does} {rank}.{place}, which is undefined then")
            }
            SmtFault::Conflict { step, first, second } => {
                write!(f, "{first} and {second} both write {rank}.{place} in {step}, and not both are reduces")
            }
            SmtFault::ReadOnly { step, flow } => {
                write!(f, "{step} {flow} writes {rank}.{place}, an input that may not be overwritten")
            }
            SmtFault::NeverWritten => write!(f, "{rank}.{place} is undefined at the end"),
            SmtFault::Wrong { differences, .. } => {
                let Some((contribution, held, due)) = differences.first() else {
                    return write!(f, "{rank}.{place} is wrong at the end");
                };
                let Contribution { origin, slot } = contribution;
                let due_big = BigUint::from(*due);
                let how = if *held < due_big {
                    "misses"
                } else if *due == 0 {
                    "holds"
                } else {
                    "holds too often"
                };
                write!(f, "{rank}.{place} {how} the contribution of position {origin}, input slot {slot}")?;
                if *due == 0 {
                    write!(f, ", which does not belong there")?;
                }
                write!(f, ": with that input 1 and all others 0 it holds {held}, not {due}")?;
                match differences.len() - 1 {
                    0 => Ok(()),
                    1 => write!(f, "; 1 more contribution differs"),
                    more => write!(f, "; {more} more contributions differ"),
                }
            }
        }
    }
}
