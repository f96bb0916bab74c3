//! Cuts every slot into several.

use rondo_ir::collective::Place;
use rondo_ir::diagnostic::{CodeEntry, Diagnostic};
use rondo_ir::schedule::{Flow, FlowSet, Generator, Schedule, Scratch, Step};

/// Why a schedule cannot be cut finer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefineError {
    /// More slots than a place can number.
    #[error("{factor} instances of a schedule with {slots} slots need more than {limit} slots", limit = Place::SLOT_LIMIT - 1)]
    TooManySlots {
        /// Asked for.
        factor: u32,
        /// Highest slot number of the schedule, plus one.
        slots: u64,
    },
}

impl RefineError {
    /// For people.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::error("P090", self.to_string()).help("ask for fewer instances or chunks")
    }
}

/// The codes of this module.
pub(crate) const CODES: &[CodeEntry] = &[CodeEntry {
    code: "P090",
    title: "more slots than can be numbered",
    explanation: "Instances cut every slot of a schedule into as many; a buffer can have at most 2^30 − 1 slots. Ask for fewer instances, or for \
                  fewer chunks a block.",
}];

/// The same schedule with every slot cut into `factor` slots: chunks, places, counts and scratch are multiplied.
///
/// Sizes of slots follow from the collective, so a slot's elements may go to its parts one more or less than before. Routes, steps
/// and dependencies stay as they are.
///
/// # Errors
/// [`RefineError::TooManySlots`].
pub fn refine(schedule: &Schedule, factor: u32) -> Result<Schedule, RefineError> {
    let highest = schedule
        .all_flows()
        .map(|(_, flow)| u64::from(flow.src_place.slot().max(flow.dst_place.slot())) + u64::from(flow.count))
        .max()
        .unwrap_or(0)
        .max(schedule.chunks.iter().copied().map(u64::from).max().unwrap_or(0));
    if factor == 0 || u64::from(Place::SLOT_LIMIT) <= highest * u64::from(factor) {
        return Err(RefineError::TooManySlots { factor, slots: highest });
    }
    let place = |place: Place| Place::new(place.buffer(), place.slot() * factor);
    let flow = |flow: &Flow| Flow {
        src_place: place(flow.src_place),
        dst_place: place(flow.dst_place),
        count: flow.count * factor,
        ..*flow
    };
    let steps = schedule.steps.iter().map(|step| Step {
        reconfigure: step.reconfigure.clone(),
        flows: match &step.flows {
            FlowSet::Rows(rows) => FlowSet::Rows(rows.iter().map(flow).collect()),
            FlowSet::Orbits { representatives, generators } => FlowSet::Orbits {
                representatives: representatives.iter().map(flow).collect(),
                generators: generators.clone(),
            },
        },
    });
    let parts = |like: &(u32, Place)| {
        let (position, like) = *like;
        let first = place(like);
        (0..factor).map(move |part| (position, first.offset(part)))
    };
    let scratch = schedule.scratch.iter().map(|scratch| Scratch {
        like: scratch.like.iter().map(|slots| slots.iter().flat_map(parts).collect()).collect(),
    });
    let generators = schedule.generators.iter().map(|generator| Generator {
        slots: generator
            .slots
            .iter()
            .map(|tables| {
                tables.clone().map(|table| {
                    table.iter().flat_map(|&image| (0..factor).map(move |part| image * factor + part)).collect()
                })
            })
            .collect(),
        ..generator.clone()
    });
    Ok(Schedule {
        chunks: schedule.chunks.iter().map(|&chunks| chunks * factor).collect(),
        steps: steps.collect(),
        scratch: scratch.collect(),
        generators: generators.collect(),
        ..schedule.clone()
    })
}
