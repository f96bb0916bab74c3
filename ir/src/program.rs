//! Programs: what a runtime executes, rank by rank.
//!
//! A rank runs its threadblocks at once, each one operation after the other. Whatever interleaving the runtime
//! chooses must end, and must end with the same result; `verify` decides that. All places are local to the rank that
//! executes the operation, unless the operation says "at the peer".
//!
//! - **FIFO**: (source rank, destination rank, channel) names a connection, a queue of depth [`Program::fifo_depth`].
//!   The k-th send on it pairs with the k-th receive; one threadblock owns each end. A send waits while the
//!   queue holds `fifo_depth` messages. An operation that receives and sends holds its incoming message until the outgoing
//!   one has room.
//! - **One-sided**: put and get move data between a local and a remote place; nobody at the peer takes part.
//! - **Counters**: signal adds 1 to a counter of the peer; wait blocks until a counter of its own rank has reached a value.
//!   A signal releases what its threadblock did before; a wait acquires it.
//! - **Barrier**: the k-th arrival of each of its threadblocks leaves together. Barriers are per rank.
//! - **Loop**: its body runs `times` times in order; waits inside add `stride` to their value on each turn.

use crate::collective::Place;
use crate::index::RankId;

/// Where something stands in a source file, from 1; `line` 0 means that there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct SourceSpan {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// One end of a connection as seen by the rank that executes the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The rank at the other end.
    pub peer: RankId,
    /// The lane.
    pub channel: u32,
}

/// Copy or add at the destination.
pub use crate::schedule::FlowOp as MoveOp;

/// What an operation does. Every place stands for the `count` slots that begin there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Nothing; carries dependencies.
    Nop,
    /// A value passes through: received, or read at `local`, or the sum of both; then stored, or sent, or both.
    ///
    /// MSCCL: `s` = local + send, `r` = receive + store, `rcs` = receive + store + send, `rrs` = receive + local + send,
    /// `rrc` = receive + local + store, `rrcs` = all four, `cpy` = local + store.
    Move {
        /// Takes the next message of this connection.
        receive: Option<Connection>,
        /// Reads here; added to the message if both are there.
        local: Option<Place>,
        /// Writes the value here.
        store: Option<Place>,
        /// Sends the value.
        send: Option<Connection>,
        /// Slots.
        count: u32,
    },
    /// `dst ← dst ⊕ src₀ ⊕ src₁ …` within the rank; sources are read before the write.
    Reduce {
        /// Read.
        sources: Vec<Place>,
        /// Read and written.
        dst: Place,
        /// Slots.
        count: u32,
    },
    /// Local places to places at peers.
    Put {
        /// Read here.
        src: Place,
        /// Written at each of these peers (more than one: a multicast store).
        to: Vec<(RankId, Place)>,
        /// Replace or add.
        op: MoveOp,
        /// Slots.
        count: u32,
    },
    /// Places at peers to a local place (more than one: their sum).
    Get {
        /// Read at each of these peers.
        from: Vec<(RankId, Place)>,
        /// Written here.
        dst: Place,
        /// Replace or add.
        op: MoveOp,
        /// Slots.
        count: u32,
    },
    /// Adds 1 to counter `counter` of `peer` (which may be the own rank).
    Signal {
        /// Whose counter.
        peer: RankId,
        /// Which.
        counter: u32,
    },
    /// Waits until counter `counter` of the own rank is at least `value`.
    Wait {
        /// Which.
        counter: u32,
        /// At least this.
        value: u64,
        /// Added to `value` on each further turn of the innermost loop.
        stride: u64,
    },
    /// Waits for the other threadblocks that take part in barrier `barrier` of this rank.
    Barrier {
        /// Which.
        barrier: u32,
        /// Threadblocks that take part.
        threadblocks: Vec<u32>,
    },
    /// Runs `body` `times` times.
    Loop {
        /// How often.
        times: u32,
        /// What.
        body: Vec<Operation>,
    },
}

/// A dependency on an operation of another threadblock of the same rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationRef {
    /// Index in [`RankProgram::threadblocks`].
    pub threadblock: u32,
    /// Index in [`Threadblock::operations`].
    pub operation: u32,
}

/// One operation of a threadblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// Waits for these to have published.
    pub waits_for: Vec<OperationRef>,
    /// Whether others may learn that it is done. A wait for an operation that never publishes is satisfied by a later one of
    /// the same threadblock that does.
    pub publishes: bool,
    /// Where it stands in its file.
    pub span: SourceSpan,
}

impl Operation {
    /// An operation without dependencies, that does not publish, from no file.
    #[must_use]
    pub fn new(kind: OperationKind) -> Self {
        Self { kind, waits_for: Vec::new(), publishes: false, span: SourceSpan::default() }
    }

    /// Instructions that a FIFO runtime's file spends on the operation: an instruction waits for at most one other, so
    /// each further dependency is a `nop` of its own, and a reduce takes one instruction a source.
    #[must_use]
    pub fn instruction_count(&self) -> usize {
        let work = match &self.kind {
            OperationKind::Reduce { sources, .. } => sources.len().max(1),
            _ => 1,
        };
        work + self.waits_for.len().saturating_sub(1)
    }
}

/// A sequential list of operations.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Threadblock {
    /// Its number in the file.
    pub id: u32,
    /// What it does, in order.
    pub operations: Vec<Operation>,
    /// Where it stands in its file.
    pub span: SourceSpan,
}

/// What one rank runs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RankProgram {
    /// Slots of the scratch buffer. Those of input and output follow from the collective.
    pub scratch_slots: u32,
    /// Run at once.
    pub threadblocks: Vec<Threadblock>,
    /// Where it stands in its file.
    pub span: SourceSpan,
}

/// A program for all ranks of one group; rank r is position r of the collective.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Program {
    /// A name for reports and files.
    pub name: String,
    /// Chunks a block, as in [`crate::collective::Collective::layout`].
    pub chunks: u32,
    /// Messages that a connection holds.
    pub fifo_depth: u32,
    /// By rank.
    pub ranks: Vec<RankProgram>,
}

impl Program {
    /// Number of operations, those in loops counted once.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        fn count(operations: &[Operation]) -> usize {
            operations
                .iter()
                .map(|operation| match &operation.kind {
                    OperationKind::Loop { body, .. } => 1 + count(body),
                    _ => 1,
                })
                .sum()
        }
        self.ranks.iter().flat_map(|rank| &rank.threadblocks).map(|tb| count(&tb.operations)).sum()
    }
}
