//! MSCCL XML: the file format of microsoft/msccl, Azure/msccl-executor-nccl and ROCm/rccl.
//!
//! [`emit`] writes a program in the dialect of a [`RuntimeProfile`](rondo_ir::profile::RuntimeProfile); [`parse`] reads
//! what the runtimes read, foreign files included. The two share types, but no tables and no mapping, so that a mistake
//! cannot hide in both.
//!
//! # What the format says
//! `<algo>` cuts a message into `nchunksperloop` equal chunks and holds one `<gpu>` a rank, with the chunks of its three
//! buffers; a `<gpu>` holds threadblocks `<tb>`, each with at most one peer to send to and one to receive from on one
//! channel; a `<tb>` holds instructions `<step>`. The k-th send on (source, destination, channel) pairs with the k-th
//! receive. An instruction may wait for one instruction of another threadblock of its rank (`depid`, `deps`) that
//! publishes its progress (`hasdep`); further dependencies are `nop`s before it. All places are local: also those of
//! which an instruction makes no use.
//!
//! # What it does not say
//! Routes, circuits, the reduction operator, the root of a broadcast or reduce: the runtime or the caller decides.

mod emit;
mod parse;
mod rules;
mod scan;
#[cfg(test)]
mod tests;

pub use emit::{EmitError, Emitted, Options, emit};
pub use parse::{Facts, Header, Parsed, Worst, parse};
pub use rules::codes as rule_codes;
pub use rules::{Broken, Effect, Fate, RULES, Rule, Service, examine};

use rondo_ir::diagnostic::CodeEntry;

/// The codes of this format.
pub const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "B001",
        title: "the collective cannot be written as MSCCL XML",
        explanation: "The runtimes know all_reduce, all_gather, reduce_scatter, all_to_all, broadcast and reduce, each \
                      over all ranks of a communicator, with sum, product, minimum or maximum. Export the plan as \
                      JSON, or compile another collective.",
    },
    CodeEntry {
        code: "B002",
        title: "the program cannot be written as MSCCL XML",
        explanation: "An operation has no counterpart in the format, or would not run as the program means it. Programs \
                      that lowering made for the same runtime do not have this fault.",
    },
    CodeEntry {
        code: "B003",
        title: "the program is above a limit of the runtime",
        explanation: "A runtime ignores such a file, stops at it, or overruns an array. The limits are those of the \
                      runtime's public sources; the message gives the number and the limit. Lower for this runtime, or \
                      choose one that allows more.",
    },
    CodeEntry {
        code: "B004",
        title: "the range of message sizes cannot be written",
        explanation: "The smallest size is above the largest, the largest is 0, or the runtime needs a largest size \
                      because it allocates scratch memory for it when it starts.",
    },
    CodeEntry {
        code: "B005",
        title: "the runtime does not look at the root",
        explanation: "No selector of these runtimes compares the root of a broadcast or reduce: the file is used for \
                      every root, and gives a wrong result for all but one. Use it only where the root never changes.",
    },
    CodeEntry {
        code: "B006",
        title: "the runtime falls back silently for some sizes",
        explanation: "A file is used only for messages whose number of elements its chunks divide. For all others the \
                      runtime runs its own algorithm and says nothing.",
    },
    CodeEntry {
        code: "B015",
        title: "something in the file is ignored",
        explanation: "The runtimes skip unknown elements and attributes without a word.",
    },
    CodeEntry {
        code: "B016",
        title: "a place that is not used means something else elsewhere",
        explanation: "All four place attributes of an instruction are local. Where the unused half differs from the used \
                      one, a tool that takes it for the peer's place reads another program.",
    },
    CodeEntry {
        code: "B017",
        title: "consecutive reductions are joined by the runtime",
        explanation: "The runtimes join consecutive `re` instructions with the same destination and source buffer: all \
                      sources are read before the one write, and the last `cnt` holds for all. The program was read as \
                      the runtime runs it.",
    },
    CodeEntry {
        code: "B018",
        title: "the root was guessed",
        explanation: "The file does not name the root of a broadcast or reduce. The rank that only sends (or only \
                      receives) was taken.",
    },
];
