//! One-sided programs: what a runtime executes that lets the threads of a threadblock run ahead of each other, moves data by
//! plain stores, loads, packets and a proxy, and orders it by counters.
//!
//! [`crate::program`] is for runtimes whose threadblocks are sequential. Here a threadblock is many threads:
//!
//! - **Move**: by all threads. Element e of each transfer is handled by thread e mod T, so two moves of the same element
//!   size are ordered element by element where they stand at the same distance from their beginnings, and nowhere else.
//! - **Sync**: all threads of the threadblock wait for each other.
//! - **Barrier**: as a sync, among `threadblocks` threadblocks of the rank that use the same number.
//! - **Signal** and **Wait**: thread j serves lane j. The n-th wait on a counter needs n signals; counters outlive the
//!   call. A signal releases what *its thread* did or learnt before, so data of other threads needs a sync before it; a wait
//!   likewise needs a sync after it. *Relaxed* ones count in the same way, and order no data that was written.
//! - **Post**: thread j hands request j to a queue (a port's proxy) and goes on. The requests of a queue happen in the order
//!   in which they were posted: read, write at the peer, then signal.
//! - **Flush**: thread j waits until all that was posted to queue j before has happened.
//! - **Packets**: a place may hold packets, data with a flag for the call. A move that reads a packet waits until it was
//!   written in the same call; a post does not look at flags.
//!
//! A rank's kernel ends when all its threads end; a post may happen later. The next call of a rank begins after its
//! kernel ended, and ranks do not wait for each other between calls. The caller owns input and output of a rank
//! before its kernel begins and after it ends.

use crate::collective::Place;
use crate::index::RankId;
use crate::program::SourceSpan;

/// Slots at a rank; the other fields say how they are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Whose memory.
    pub rank: RankId,
    /// First slot.
    pub place: Place,
    /// Whether packets are held there; places of packets and of data are different places.
    pub packet: bool,
}

/// For each of `count` slots: every target gets the sum of all sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Read; more than one: added up, in this order.
    pub sources: Vec<Site>,
    /// Written.
    pub targets: Vec<Site>,
    /// Slots.
    pub count: u32,
}

/// How a move cuts data into elements. Moves of different kinds never agree on which thread handles what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Elements {
    /// Copies: wide words.
    Copy,
    /// Sums.
    Sum,
    /// Packets.
    Packet,
    /// Multicast loads and stores.
    Multicast,
}

/// A request to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which queue.
    pub queue: u32,
    /// Moved; none for a mere signal.
    pub transfer: Option<Transfer>,
    /// Then incremented.
    pub signal: Option<u32>,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OneSidedKind {
    /// All threads of the threadblock wait for each other.
    Sync,
    /// All threads of these many threadblocks of the rank wait for each other.
    Barrier {
        /// Which.
        barrier: u32,
        /// How many take part.
        threadblocks: u32,
    },
    /// Thread j increments counter `counters[j]`.
    Signal {
        /// Counters by thread.
        counters: Vec<u32>,
        /// Orders no data that was written.
        relaxed: bool,
    },
    /// Thread j waits for the next increment of counter `counters[j]`.
    Wait {
        /// Counters by thread.
        counters: Vec<u32>,
        /// Orders no data that was written.
        relaxed: bool,
    },
    /// All threads move data.
    Move {
        /// One after the other for each thread.
        transfers: Vec<Transfer>,
        /// How they cut it.
        elements: Elements,
    },
    /// Thread j posts request j.
    Post {
        /// Requests by thread.
        requests: Vec<Request>,
    },
    /// Thread j waits until queue `queues[j]` has done what was posted before.
    Flush {
        /// Queues by thread.
        queues: Vec<u32>,
        /// The runtime is suspected not to wait; then it orders no more than something relaxed.
        suspect: bool,
    },
}

/// One operation of a threadblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneSidedOperation {
    /// What it does.
    pub kind: OneSidedKind,
    /// Number of the operation in the file's list, and in the inner list of a loop.
    pub number: (u32, Option<u32>),
    /// Where it stands in its file.
    pub span: SourceSpan,
}

/// A threadblock.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OneSidedThreadblock {
    /// In order.
    pub operations: Vec<OneSidedOperation>,
    /// Where it stands in its file.
    pub span: SourceSpan,
}

/// What one rank runs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OneSidedRank {
    /// Slots of scratch.
    pub scratch_slots: u32,
    /// Run at once.
    pub threadblocks: Vec<OneSidedThreadblock>,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What users call it.
    pub name: String,
    /// Value before the first call.
    pub initial: u64,
}

/// A program for all ranks of one group.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OneSidedProgram {
    /// A name for reports.
    pub name: String,
    /// Chunks a block, as in [`crate::collective::Collective::layout`].
    pub chunks: u32,
    /// Slots that one chunk of the file was cut into.
    pub slots_per_chunk: u32,
    /// Calls that use scratch in turn: 1, or 2 if there are two halves.
    pub scratch_halves: u32,
    /// By rank.
    pub ranks: Vec<OneSidedRank>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Number of queues.
    pub queues: u32,
}
