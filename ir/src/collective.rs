//! Collectives: what each place must hold before and after.
//!
//! A [`Collective`] speaks of *positions* 0 … n−1 in a group (see [`crate::problem::Group`] for the ranks behind them).
//! A schedule cuts each block into `chunks` slots; [`Layout`] is the collective at such a chunk count:
//! slots per buffer, elements per slot, aliases, precondition and postcondition.
//!
//! # Slots and elements
//! With n positions and k chunks (a *block* is the whole vector for all_reduce, broadcast and reduce, else what belongs
//! to one peer):
//!
//! | collective | input slots | output slots | output slot o after |
//! | --- | --- | --- | --- |
//! | all_reduce | k | k | Σ over p of (p, o) |
//! | all_gather | k | k·n | (o div k, o mod k) |
//! | reduce_scatter | k·n | k | at r: Σ over p of (p, r·k + o) |
//! | all_to_all | k·n | k·n | at r: (o div k, r·k + o mod k) |
//! | broadcast | k (root) | k | (root, o) |
//! | reduce | k | k (root) | Σ over p of (p, o) |
//! | gather | k | k·n (root) | (o div k, o mod k) |
//! | scatter | k·n (root) | k | at r: (root, r·k + o) |
//! | send_receive | k | k (where somebody sends) | (source of r, o) |
//! | custom | as spelt, each slot cut in k | as spelt | as spelt |
//!
//! An algorithm that needs n blocks of the vector (ring AllReduce) asks for k = c·n; one that moves whole vectors may
//! use k = 1. Slots are the unit of everything: a schedule that pipelines simply has more of them.
//!
//! E elements in the larger buffer spread over its N slots: slot i has ⌊E/N⌋ + (i < E mod N) elements, so slots differ
//! by at most one element and bytes are exact sums. The exception is all_to_all, where every pair must agree on a
//! size that does not depend on the pair's numbers: its block has ⌊E/n⌋ elements (the convention of nccl-tests; the
//! remainder is not sent), cut into k slots by the same rule. With a size matrix, the block p → q has the given number
//! of elements, cut into k slots.
//!
//! A slot of 0 elements holds whatever it likes: it has no postcondition, and a schedule may leave it out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Element type of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum DataType {
    Int8,
    Uint8,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float16,
    #[default]
    Float32,
    Float64,
    Bfloat16,
    Float8,
}

impl DataType {
    /// All types, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Int8,
        Self::Uint8,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Bfloat16,
        Self::Float8,
    ];

    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Int8 | Self::Uint8 | Self::Float8 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Bfloat16 => "bfloat16",
            Self::Float8 => "float8",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reduction operator. Average is a sum with a scaling at the end, which moves no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ReduceOperator {
    #[default]
    Sum,
    Avg,
    Max,
    Min,
    Prod,
}

impl ReduceOperator {
    /// All operators.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Avg, Self::Max, Self::Min, Self::Prod];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Max => "max",
            Self::Min => "min",
            Self::Prod => "prod",
        }
    }

    /// Whether adding a contribution twice changes nothing. The checks ignore counts above one for these.
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        matches!(self, Self::Max | Self::Min)
    }
}

impl fmt::Display for ReduceOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One of the three buffers of a rank (per group).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffer {
    /// What the caller gives.
    Input,
    /// What the caller gets.
    Output,
    /// Working space, undefined at the start.
    Scratch,
}

impl Buffer {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Scratch];

    /// `i`, `o` or `s`.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Input => 'i',
            Self::Output => 'o',
            Self::Scratch => 's',
        }
    }
}

/// A place in one rank's buffers of one group: buffer and slot, packed in 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u32);

impl Place {
    /// Slots are below this.
    pub const SLOT_LIMIT: u32 = 1 << 30;

    /// The place.
    ///
    /// # Panics
    /// If `slot` is 2³⁰ or more; files are checked before.
    #[must_use]
    pub const fn new(buffer: Buffer, slot: u32) -> Self {
        assert!(slot < Self::SLOT_LIMIT, "slot above 2^30");
        Self(((buffer as u32) << 30) | slot)
    }

    /// Input slot.
    #[must_use]
    pub const fn input(slot: u32) -> Self {
        Self::new(Buffer::Input, slot)
    }

    /// Output slot.
    #[must_use]
    pub const fn output(slot: u32) -> Self {
        Self::new(Buffer::Output, slot)
    }

    /// Scratch slot.
    #[must_use]
    pub const fn scratch(slot: u32) -> Self {
        Self::new(Buffer::Scratch, slot)
    }

    /// Its buffer.
    #[must_use]
    pub const fn buffer(self) -> Buffer {
        match self.0 >> 30 {
            0 => Buffer::Input,
            1 => Buffer::Output,
            _ => Buffer::Scratch,
        }
    }

    /// Its slot.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.0 & (Self::SLOT_LIMIT - 1)
    }

    /// The place `by` slots further in the same buffer.
    #[must_use]
    pub const fn offset(self, by: u32) -> Self {
        Self::new(self.buffer(), self.slot() + by)
    }
}

/// `i[3]`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.buffer().letter(), self.slot())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A contribution: the initial content of an input slot, as (position, slot).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Contribution {
    /// Position in the group whose input it was.
    pub origin: u32,
    /// Input slot there.
    pub slot: u32,
}

/// Contributions with how often each occurs, sorted by contribution.
pub type Multiset = Vec<(Contribution, u64)>;

/// What a place must hold at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly this contribution, once.
    One(Contribution),
    /// The contributions (p, slot) of all positions p, each once.
    SumOverAll {
        /// Input slot, the same at every position.
        slot: u32,
    },
    /// Exactly these with these counts, sorted.
    Exactly(Multiset),
}

impl Expected {
    /// As a sorted multiset, for a group of `n` positions.
    #[must_use]
    pub fn to_multiset(&self, n: u32) -> Multiset {
        match self {
            Self::One(contribution) => vec![(*contribution, 1)],
            Self::SumOverAll { slot } => (0..n).map(|origin| (Contribution { origin, slot: *slot }, 1)).collect(),
            Self::Exactly(list) => list.clone(),
        }
    }
}

/// A condition of a custom collective, at chunk count 1: per position, per slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CustomCollective {
    /// Input slots of each position; all are defined at the start.
    pub input_slots: Vec<u32>,
    /// Per position, per output slot: the multiset it must hold, sorted; `None` leaves the slot free.
    pub output: Vec<Vec<Option<Multiset>>>,
}

/// Which collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum CollectiveKind {
    /// Everybody gets the sum of all inputs.
    AllReduce,
    /// Everybody gets all inputs, in order.
    AllGather,
    /// Position r gets block r of the sum.
    ReduceScatter,
    /// Position r gets block r of every input.
    AllToAll {
        /// Elements from p to q as `matrix[p][q]`; `None`: equal blocks.
        matrix: Option<Vec<Vec<u64>>>,
    },
    /// Everybody gets the root's input.
    Broadcast {
        /// Position of the root.
        root: u32,
    },
    /// The root gets the sum of all inputs.
    Reduce {
        /// Position of the root.
        root: u32,
    },
    /// The root gets all inputs, in order.
    Gather {
        /// Position of the root.
        root: u32,
    },
    /// Position r gets block r of the root's input.
    Scatter {
        /// Position of the root.
        root: u32,
    },
    /// Each position sends its input to at most one and receives from at most one.
    SendReceive {
        /// `targets[p]` is where p sends, if it does; no target twice.
        targets: Vec<Option<u32>>,
    },
    /// Both conditions spelt out.
    Custom(CustomCollective),
}

impl CollectiveKind {
    /// The name in files and reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll { .. } => "all_to_all",
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::SendReceive { .. } => "send_receive",
            Self::Custom(_) => "custom",
        }
    }

    /// All names that a job file may give.
    pub const NAMES: [&'static str; 10] = [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "send_receive",
        "custom",
    ];

    /// The root, where there is one.
    #[must_use]
    pub const fn root(&self) -> Option<u32> {
        match self {
            Self::Broadcast { root } | Self::Reduce { root } | Self::Gather { root } | Self::Scatter { root } => {
                Some(*root)
            }
            _ => None,
        }
    }

    /// Whether the result contains sums.
    #[must_use]
    pub const fn reduces(&self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce { .. })
    }

    /// Whether input and output can be one buffer.
    #[must_use]
    pub const fn has_in_place_form(&self) -> bool {
        !matches!(self, Self::AllToAll { .. } | Self::SendReceive { .. } | Self::Custom(_))
    }
}

/// A fault of a described collective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// No participants.
    #[error("a collective needs at least 1 rank")]
    NoRanks,
    /// The root is not a position.
    #[error("root {root} does not exist; there are {ranks} ranks, 0 … {last}")]
    NoRoot {
        /// Given.
        root: u32,
        /// How many.
        ranks: u32,
        /// The last one.
        last: u32,
    },
    /// The size is not a multiple of the element size.
    #[error("{size} is no multiple of {element} B, the size of a {dtype}")]
    PartialElement {
        /// Given.
        size: Bytes,
        /// Bytes of an element.
        element: u64,
        /// Its type.
        dtype: DataType,
    },
    /// A matrix, target list or condition of the wrong shape.
    #[error("{what} has {given} entries; {limit} are needed, one a rank")]
    WrongShape {
        /// Which.
        what: &'static str,
        /// Given.
        given: usize,
        /// Needed.
        limit: u32,
    },
    /// A position that does not exist.
    #[error("{what} names rank {given}; there are {limit}")]
    NoSuchRank {
        /// Where.
        what: &'static str,
        /// Given.
        given: u32,
        /// How many there are.
        limit: u32,
    },
    /// Two senders for one receiver.
    #[error("rank {target} would receive from two ranks")]
    TargetTwice {
        /// The receiver.
        target: u32,
    },
    /// A contribution of a custom condition that no input slot holds.
    #[error(
        "the condition of rank {rank}, output slot {slot}, names input slot {missing} of rank {origin}, which does not exist"
    )]
    NoSuchContribution {
        /// Whose condition.
        rank: u32,
        /// Output slot.
        slot: usize,
        /// Contribution's position.
        origin: u32,
        /// Contribution's slot.
        missing: u32,
    },
    /// In place where there is no such form.
    #[error("{kind} has no in-place form")]
    NoInPlace {
        /// Which.
        kind: &'static str,
    },
    /// More slots than a place can number.
    #[error("{given} slots a buffer; at most {limit} can be numbered")]
    TooManySlots {
        /// Given.
        given: u64,
        /// Limit.
        limit: u32,
    },
    /// No chunk.
    #[error("a block needs at least 1 chunk")]
    NoChunks,
}

/// A collective with its size: well formed by construction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    kind: CollectiveKind,
    ranks: u32,
    operator: ReduceOperator,
    dtype: DataType,
    elements: u64,
    in_place: bool,
    input_writable: bool,
}

/// What a [`Collective`] is made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CollectiveSpec {
    /// Which collective.
    pub kind: CollectiveKind,
    /// Positions in the group.
    pub ranks: u32,
    /// How values are added.
    pub operator: ReduceOperator,
    /// Element type.
    pub dtype: DataType,
    /// The larger of a rank's input and output buffers. Ignored where a size matrix is given.
    pub buffer_size: Bytes,
    /// Whether input and output are one buffer (see [`Layout::canonical`]).
    pub in_place: bool,
    /// Whether the input may be overwritten out of place.
    pub input_writable: bool,
}

impl Collective {
    /// Checks and freezes a description.
    ///
    /// # Errors
    /// The first fault, in the order of [`CollectiveError`].
    pub fn new(spec: CollectiveSpec) -> Result<Self, CollectiveError> {
        let CollectiveSpec { kind, ranks, operator, dtype, buffer_size, in_place, input_writable } = spec;
        if ranks == 0 {
            return Err(CollectiveError::NoRanks);
        }
        if let Some(root) = kind.root()
            && ranks <= root
        {
            return Err(CollectiveError::NoRoot { root, ranks, last: ranks - 1 });
        }
        let per_rank = |what, given: usize| {
            if given == ranks as usize {
                Ok(())
            } else {
                Err(CollectiveError::WrongShape { what, given, limit: ranks })
            }
        };
        let mut elements = buffer_size.0 / dtype.bytes();
        match &kind {
            CollectiveKind::AllToAll { matrix: Some(matrix) } => {
                per_rank("the size matrix", matrix.len())?;
                for row in matrix {
                    per_rank("a row of the size matrix", row.len())?;
                }
                let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0_u64, u64::saturating_add);
                elements = (0..ranks as usize)
                    .map(|r| {
                        let sent = sum(&mut matrix[r].iter().copied());
                        let received = sum(&mut matrix.iter().map(|row| row[r]));
                        sent.max(received)
                    })
                    .max()
                    .unwrap_or(0);
            }
            CollectiveKind::SendReceive { targets } => {
                per_rank("the list of targets", targets.len())?;
                let mut taken = vec![false; ranks as usize];
                for &target in targets.iter().flatten() {
                    let slot = taken.get_mut(target as usize).ok_or(CollectiveError::NoSuchRank {
                        what: "the list of targets",
                        given: target,
                        limit: ranks,
                    })?;
                    if std::mem::replace(slot, true) {
                        return Err(CollectiveError::TargetTwice { target });
                    }
                }
            }
            CollectiveKind::Custom(custom) => {
                per_rank("the precondition", custom.input_slots.len())?;
                per_rank("the postcondition", custom.output.len())?;
                for (rank, slots) in custom.output.iter().enumerate() {
                    for (slot, held) in slots.iter().enumerate() {
                        for &(Contribution { origin, slot: missing }, _) in held.iter().flatten() {
                            let exists = custom.input_slots.get(origin as usize).is_some_and(|&slots| missing < slots);
                            if !exists {
                                let rank = u32::try_from(rank).unwrap_or(u32::MAX);
                                return Err(CollectiveError::NoSuchContribution { rank, slot, origin, missing });
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        let has_matrix = matches!(&kind, CollectiveKind::AllToAll { matrix: Some(_) });
        if !has_matrix && buffer_size.0 % dtype.bytes() != 0 {
            return Err(CollectiveError::PartialElement { size: buffer_size, element: dtype.bytes(), dtype });
        }
        if in_place && !kind.has_in_place_form() {
            return Err(CollectiveError::NoInPlace { kind: kind.name() });
        }
        Ok(Self { kind, ranks, operator, dtype, elements, in_place, input_writable })
    }

    /// Which collective.
    #[must_use]
    pub const fn kind(&self) -> &CollectiveKind {
        &self.kind
    }

    /// Positions in the group (n).
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The operator.
    #[must_use]
    pub const fn operator(&self) -> ReduceOperator {
        self.operator
    }

    /// Element type.
    #[must_use]
    pub const fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Elements of the larger buffer (E).
    #[must_use]
    pub const fn elements(&self) -> u64 {
        self.elements
    }

    /// Whether input and output are one buffer.
    #[must_use]
    pub const fn in_place(&self) -> bool {
        self.in_place
    }

    /// Whether the input may be overwritten out of place.
    #[must_use]
    pub const fn input_writable(&self) -> bool {
        self.input_writable
    }

    /// `buffer_size`: the larger of a rank's input and output buffers.
    #[must_use]
    pub const fn buffer_size(&self) -> Bytes {
        Bytes(self.elements.saturating_mul(self.dtype.bytes()))
    }

    /// The description again.
    #[must_use]
    pub fn to_spec(&self) -> CollectiveSpec {
        CollectiveSpec {
            kind: self.kind.clone(),
            ranks: self.ranks,
            operator: self.operator,
            dtype: self.dtype,
            buffer_size: self.buffer_size(),
            in_place: self.in_place,
            input_writable: self.input_writable,
        }
    }

    /// The same collective for another size.
    ///
    /// # Errors
    /// [`CollectiveError::PartialElement`].
    pub fn with_buffer_size(&self, buffer_size: Bytes) -> Result<Self, CollectiveError> {
        Self::new(CollectiveSpec { buffer_size, ..self.to_spec() })
    }

    /// The collective at `chunks` slots a block.
    ///
    /// # Errors
    /// [`CollectiveError::NoChunks`] and [`CollectiveError::TooManySlots`].
    pub fn layout(&self, chunks: u32) -> Result<Layout<'_>, CollectiveError> {
        if chunks == 0 {
            return Err(CollectiveError::NoChunks);
        }
        let mut layout = Layout { collective: self, chunks, has_empty_slots: false };
        for position in 0..self.ranks {
            let given = layout.wide_slots(position, Buffer::Input).max(layout.wide_slots(position, Buffer::Output));
            if u64::from(Place::SLOT_LIMIT) <= given {
                return Err(CollectiveError::TooManySlots { given, limit: Place::SLOT_LIMIT - 1 });
            }
        }
        layout.has_empty_slots = layout.smallest_block() < u64::from(chunks);
        Ok(layout)
    }
}

/// `all_reduce sum, 8 ranks, 1 MiB float32, in place`
impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.name())?;
        if self.kind.reduces() {
            write!(f, " {}", self.operator)?;
        }
        if let Some(root) = self.kind.root() {
            write!(f, " root {root}")?;
        }
        let place = if self.in_place { "in place" } else { "out of place" };
        let plural = if self.ranks == 1 { "" } else { "s" };
        write!(f, ", {} rank{plural}, {} {}, {place}", self.ranks, self.buffer_size(), self.dtype)
    }
}

/// A collective at a chunk count: the formal pre- and postcondition (see the module's table).
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    collective: &'a Collective,
    chunks: u32,
    has_empty_slots: bool,
}

/// Elements of part `index` when `elements` are spread over `parts`: the first ones get one more.
#[must_use]
pub const fn share(elements: u64, parts: u64, index: u64) -> u64 {
    elements / parts + if index < elements % parts { 1 } else { 0 }
}

/// Slots of the widest buffer, at one chunk a slot.
fn widest(custom: &CustomCollective) -> u64 {
    let slots = custom.input_slots.iter().zip(&custom.output);
    slots.map(|(&input, output)| u64::from(input).max(output.len() as u64)).max().unwrap_or(0)
}

impl<'a> Layout<'a> {
    /// The collective.
    #[must_use]
    pub const fn collective(&self) -> &'a Collective {
        self.collective
    }

    /// Slots a block (k).
    #[must_use]
    pub const fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Whether some input or output slot has no elements. Nothing can be wrong with what such a slot holds, so it has no
    /// postcondition.
    #[must_use]
    pub const fn has_empty_slots(&self) -> bool {
        self.has_empty_slots
    }

    /// Elements of the smallest block, which is cut into [`Self::chunks`] slots.
    fn smallest_block(&self) -> u64 {
        let n = u64::from(self.collective.ranks);
        let total = self.collective.elements;
        match &self.collective.kind {
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Reduce { .. }
            | CollectiveKind::SendReceive { .. } => total,
            CollectiveKind::AllToAll { matrix: Some(matrix) } => matrix.iter().flatten().copied().min().unwrap_or(0),
            CollectiveKind::AllToAll { matrix: None }
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Gather { .. }
            | CollectiveKind::Scatter { .. } => total / n,
            CollectiveKind::Custom(custom) => total / widest(custom).max(1),
        }
    }

    fn wide_slots(&self, position: u32, buffer: Buffer) -> u64 {
        let n = u64::from(self.collective.ranks);
        let k = u64::from(self.chunks);
        let at = position as usize;
        let (input, output) = match &self.collective.kind {
            CollectiveKind::AllReduce => (k, k),
            CollectiveKind::AllToAll { .. } => (n * k, n * k),
            CollectiveKind::AllGather => (k, n * k),
            CollectiveKind::ReduceScatter => (n * k, k),
            CollectiveKind::Broadcast { root } => (if *root == position { k } else { 0 }, k),
            CollectiveKind::Reduce { root } => (k, if *root == position { k } else { 0 }),
            CollectiveKind::Gather { root } => (k, if *root == position { n * k } else { 0 }),
            CollectiveKind::Scatter { root } => (if *root == position { n * k } else { 0 }, k),
            CollectiveKind::SendReceive { targets } => {
                let receives = targets.contains(&Some(position));
                (k, if receives { k } else { 0 })
            }
            CollectiveKind::Custom(custom) => {
                (u64::from(custom.input_slots[at]) * k, custom.output[at].len() as u64 * k)
            }
        };
        match buffer {
            Buffer::Input => input,
            Buffer::Output => output,
            Buffer::Scratch => 0,
        }
    }

    /// Slots of a position's input or output buffer; scratch belongs to the schedule and has 0 here.
    #[must_use]
    pub fn slots(&self, position: u32, buffer: Buffer) -> u32 {
        u32::try_from(self.wide_slots(position, buffer)).expect("checked when the layout was made")
    }

    /// Whether the place is an input or output slot of the position.
    ///
    /// In place the two buffers are one, so a place that exists under either name exists:
    /// broadcast and reduce have their whole buffer at every position.
    #[must_use]
    pub fn contains(&self, position: u32, place: Place) -> bool {
        let place = self.canonical(position, place);
        match place.buffer() {
            Buffer::Scratch => false,
            buffer => {
                place.slot() < self.slots(position, buffer)
                    || (self.collective.in_place
                        && self.has_one_name()
                        && buffer == Buffer::Output
                        && place.slot() < self.in_place_slots(position))
            }
        }
    }

    /// Whether all of an in-place buffer is called output: input slots map to output slots of the same number.
    const fn has_one_name(&self) -> bool {
        matches!(
            self.collective.kind,
            CollectiveKind::AllReduce | CollectiveKind::Broadcast { .. } | CollectiveKind::Reduce { .. }
        )
    }

    /// Slots of the one buffer of an in-place call, under its canonical name.
    fn in_place_slots(&self, position: u32) -> u32 {
        self.slots(position, Buffer::Input).max(self.slots(position, Buffer::Output))
    }

    /// The canonical name of a place: in place, both names of a slot map to one.
    ///
    /// all_reduce, broadcast and reduce: `i[j]` is `o[j]`. all_gather and gather (at the root): `i[j]` is `o[r·k + j]`.
    /// reduce_scatter and scatter (at the root): `o[j]` is `i[r·k + j]`. Out of place, and scratch: itself.
    #[must_use]
    pub fn canonical(&self, position: u32, place: Place) -> Place {
        if !self.collective.in_place {
            return place;
        }
        let shifted = |slot: u32| position * self.chunks + slot;
        match (&self.collective.kind, place.buffer()) {
            (
                CollectiveKind::AllReduce | CollectiveKind::Broadcast { .. } | CollectiveKind::Reduce { .. },
                Buffer::Input,
            ) => Place::output(place.slot()),
            (CollectiveKind::AllGather, Buffer::Input) if place.slot() < self.chunks => {
                Place::output(shifted(place.slot()))
            }
            (CollectiveKind::Gather { root }, Buffer::Input) if *root == position && place.slot() < self.chunks => {
                Place::output(shifted(place.slot()))
            }
            (CollectiveKind::ReduceScatter, Buffer::Output) if place.slot() < self.chunks => {
                Place::input(shifted(place.slot()))
            }
            (CollectiveKind::Scatter { root }, Buffer::Output) if *root == position && place.slot() < self.chunks => {
                Place::input(shifted(place.slot()))
            }
            _ => place,
        }
    }

    /// Whether the (canonical) place may be written: everything but the input of an out-of-place call.
    #[must_use]
    pub fn writable(&self, place: Place) -> bool {
        place.buffer() != Buffer::Input || self.collective.in_place || self.collective.input_writable
    }

    /// Elements of an input or output slot; 0 for a slot that does not exist.
    ///
    /// # Complexity
    /// Constant time.
    #[must_use]
    pub fn elements(&self, position: u32, place: Place) -> u64 {
        let n = u64::from(self.collective.ranks);
        let k = u64::from(self.chunks);
        let total = self.collective.elements;
        let slot = u64::from(place.slot());
        let own = u64::from(position) * k + slot;
        match (&self.collective.kind, place.buffer()) {
            (_, Buffer::Scratch) => 0,
            (CollectiveKind::AllToAll { matrix }, buffer) => {
                let peer = slot / k;
                if n <= peer {
                    return 0;
                }
                let block = match (matrix, buffer) {
                    (None, _) => total / n,
                    (Some(matrix), Buffer::Input) => matrix[position as usize][peer as usize],
                    (Some(matrix), _) => matrix[peer as usize][position as usize],
                };
                share(block, k, slot % k)
            }
            (CollectiveKind::AllGather | CollectiveKind::Gather { .. }, Buffer::Input)
            | (CollectiveKind::ReduceScatter | CollectiveKind::Scatter { .. }, Buffer::Output) => {
                if slot < k {
                    share(total, n * k, own)
                } else {
                    0
                }
            }
            (
                CollectiveKind::AllReduce
                | CollectiveKind::Broadcast { .. }
                | CollectiveKind::Reduce { .. }
                | CollectiveKind::SendReceive { .. },
                _,
            ) => {
                if slot < k {
                    share(total, k, slot)
                } else {
                    0
                }
            }
            (CollectiveKind::Custom(custom), _) => {
                let widest = widest(custom);
                if slot < widest * k { share(total, widest * k, slot) } else { 0 }
            }
            (
                CollectiveKind::AllGather
                | CollectiveKind::Gather { .. }
                | CollectiveKind::ReduceScatter
                | CollectiveKind::Scatter { .. },
                _,
            ) => {
                if slot < n * k {
                    share(total, n * k, slot)
                } else {
                    0
                }
            }
        }
    }

    /// Calls `visit(position, place, contribution)` for every place that is defined at the start, with its canonical name.
    pub fn precondition(&self, mut visit: impl FnMut(u32, Place, Contribution)) {
        for origin in 0..self.collective.ranks {
            for slot in 0..self.slots(origin, Buffer::Input) {
                visit(origin, self.canonical(origin, Place::input(slot)), Contribution { origin, slot });
            }
        }
    }

    /// What output slot `slot` of `position` must hold at the end; `None` if it is free, has no elements, or does not exist.
    #[must_use]
    pub fn postcondition(&self, position: u32, slot: u32) -> Option<Expected> {
        if self.slots(position, Buffer::Output) <= slot
            || (self.has_empty_slots && self.elements(position, Place::output(slot)) == 0)
        {
            return None;
        }
        let k = self.chunks;
        let one = |origin, slot| Some(Expected::One(Contribution { origin, slot }));
        match &self.collective.kind {
            CollectiveKind::AllReduce | CollectiveKind::Reduce { .. } => Some(Expected::SumOverAll { slot }),
            CollectiveKind::AllGather | CollectiveKind::Gather { .. } => one(slot / k, slot % k),
            CollectiveKind::ReduceScatter => Some(Expected::SumOverAll { slot: position * k + slot }),
            CollectiveKind::AllToAll { .. } => one(slot / k, position * k + slot % k),
            CollectiveKind::Broadcast { root } => one(*root, slot),
            CollectiveKind::Scatter { root } => one(*root, position * k + slot),
            CollectiveKind::SendReceive { targets } => {
                let source = targets.iter().position(|&target| target == Some(position))?;
                one(u32::try_from(source).ok()?, slot)
            }
            CollectiveKind::Custom(custom) => {
                let held = custom.output[position as usize][(slot / k) as usize].as_ref()?;
                let part = slot % k;
                let scaled = held.iter().map(|&(c, count)| (Contribution { slot: c.slot * k + part, ..c }, count));
                Some(Expected::Exactly(scaled.collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(kind: CollectiveKind, ranks: u32, bytes: u64, in_place: bool) -> Collective {
        Collective::new(CollectiveSpec {
            kind,
            ranks,
            operator: ReduceOperator::Sum,
            dtype: DataType::Float32,
            buffer_size: Bytes(bytes),
            in_place,
            input_writable: false,
        })
        .unwrap()
    }

    #[test]
    fn elements_add_up_to_the_buffer() {
        for kind in [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::Broadcast { root: 1 },
        ] {
            let c = collective(kind, 3, 4 * 17, true);
            let layout = c.layout(2).unwrap();
            let buffer = if matches!(c.kind(), CollectiveKind::ReduceScatter) { Buffer::Input } else { Buffer::Output };
            let total: u64 = (0..6).map(|s| layout.elements(0, Place::new(buffer, s))).sum();
            assert_eq!(total, 17, "{c}");
        }
    }

    #[test]
    fn aliases_join_blocks_of_equal_size_and_meaning() {
        let c = collective(CollectiveKind::AllGather, 3, 4 * 17, true);
        let layout = c.layout(2).unwrap();
        for position in 0..3 {
            for slot in 0..2 {
                let place = Place::input(slot);
                let canonical = layout.canonical(position, place);
                assert_eq!(layout.elements(position, place), layout.elements(position, canonical));
                assert_eq!(
                    layout.postcondition(position, canonical.slot()),
                    Some(Expected::One(Contribution { origin: position, slot }))
                );
            }
        }
        let c = collective(CollectiveKind::ReduceScatter, 3, 4 * 17, true);
        let layout = c.layout(2).unwrap();
        assert_eq!(layout.canonical(2, Place::output(1)), Place::input(5));
    }

    #[test]
    fn an_in_place_buffer_has_no_more_slots_than_its_larger_name() {
        let c = collective(CollectiveKind::ReduceScatter, 3, 48, true);
        let layout = c.layout(2).unwrap();
        assert!(layout.contains(1, Place::output(1)) && layout.contains(1, Place::input(5)));
        assert!(!layout.contains(1, Place::output(2)), "o[0..2] is all that the call returns");
        let c = collective(CollectiveKind::Gather { root: 0 }, 3, 48, true);
        let layout = c.layout(2).unwrap();
        assert!(layout.contains(1, Place::input(1)) && !layout.contains(1, Place::output(0)), "only the root has one");
        let c = collective(CollectiveKind::Broadcast { root: 0 }, 3, 48, true);
        let layout = c.layout(2).unwrap();
        assert!(layout.contains(1, Place::input(1)) && layout.contains(1, Place::output(1)));
        assert!(!layout.contains(1, Place::input(2)));
    }

    #[test]
    fn all_to_all_with_a_matrix_agrees_on_both_sides() {
        let matrix = vec![vec![1, 2, 0], vec![5, 0, 7], vec![0, 3, 4]];
        let c = collective(CollectiveKind::AllToAll { matrix: Some(matrix) }, 3, 0, false);
        let layout = c.layout(2).unwrap();
        for position in 0..3 {
            for slot in 0..6 {
                let elements = layout.elements(position, Place::output(slot));
                let Some(Expected::One(from)) = layout.postcondition(position, slot) else {
                    assert_eq!(elements, 0, "only a slot without elements is free");
                    continue;
                };
                assert_ne!(elements, 0);
                assert_eq!(elements, layout.elements(from.origin, Place::input(from.slot)));
            }
        }
        assert_eq!(c.elements(), 12);
    }

    /// The postconditions of the module's table, spelt.
    #[test]
    fn postconditions_are_those_of_the_table() {
        let custom = CustomCollective {
            input_slots: vec![1, 1],
            output: vec![
                vec![Some(vec![(Contribution { origin: 1, slot: 0 }, 1)])],
                vec![None, Some(vec![(Contribution { origin: 0, slot: 0 }, 1)])],
            ],
        };
        let one = |origin, slot| Some(Expected::One(Contribution { origin, slot }));
        let sum = |slot| Some(Expected::SumOverAll { slot });
        let exactly = |origin, slot| Some(Expected::Exactly(vec![(Contribution { origin, slot }, 1)]));
        // (kind, ranks, position, what output slots 0, 1, … hold with 2 chunks a block)
        let table: [(CollectiveKind, u32, u32, Vec<Option<Expected>>); 13] = [
            (CollectiveKind::AllReduce, 2, 1, vec![sum(0), sum(1), None]),
            (CollectiveKind::AllGather, 2, 0, vec![one(0, 0), one(0, 1), one(1, 0), one(1, 1), None]),
            (CollectiveKind::ReduceScatter, 2, 1, vec![sum(2), sum(3), None]),
            (CollectiveKind::AllToAll { matrix: None }, 2, 1, vec![one(0, 2), one(0, 3), one(1, 2), one(1, 3), None]),
            (CollectiveKind::Broadcast { root: 1 }, 2, 0, vec![one(1, 0), one(1, 1), None]),
            (CollectiveKind::Reduce { root: 1 }, 2, 1, vec![sum(0), sum(1), None]),
            (CollectiveKind::Reduce { root: 1 }, 2, 0, vec![None]),
            (CollectiveKind::Gather { root: 0 }, 2, 0, vec![one(0, 0), one(0, 1), one(1, 0), one(1, 1), None]),
            (CollectiveKind::Gather { root: 0 }, 2, 1, vec![None]),
            (CollectiveKind::Scatter { root: 0 }, 2, 1, vec![one(0, 2), one(0, 3), None]),
            (CollectiveKind::SendReceive { targets: vec![None, Some(0)] }, 2, 0, vec![one(1, 0), one(1, 1), None]),
            (CollectiveKind::SendReceive { targets: vec![None, Some(0)] }, 2, 1, vec![None]),
            (CollectiveKind::Custom(custom), 2, 1, vec![None, None, exactly(0, 0), exactly(0, 1), None]),
        ];
        for (kind, ranks, position, outputs) in table {
            let c = collective(kind, ranks, 64, false);
            let layout = c.layout(2).unwrap();
            assert!(!layout.has_empty_slots());
            for (slot, due) in (0..).zip(outputs) {
                assert_eq!(layout.postcondition(position, slot), due, "{c}: {position}.o[{slot}]");
            }
        }
    }

    #[test]
    fn slots_without_elements_are_free() {
        // 3 elements in 2 blocks of 2 slots: the last slot has none.
        let c = collective(CollectiveKind::AllGather, 2, 12, false);
        let layout = c.layout(2).unwrap();
        assert!(layout.has_empty_slots());
        assert!((0..3).all(|slot| layout.postcondition(1, slot).is_some()));
        assert_eq!(layout.postcondition(1, 3), None);
        let c = collective(CollectiveKind::AllReduce, 2, 0, true);
        assert_eq!(c.layout(1).unwrap().postcondition(0, 0), None);
    }

    #[test]
    fn faults_are_named() {
        let spec = CollectiveSpec {
            kind: CollectiveKind::Broadcast { root: 8 },
            ranks: 8,
            operator: ReduceOperator::Sum,
            dtype: DataType::Float32,
            buffer_size: Bytes(64),
            in_place: true,
            input_writable: false,
        };
        assert_eq!(
            Collective::new(spec.clone()).unwrap_err().to_string(),
            "root 8 does not exist; there are 8 ranks, 0 … 7"
        );
        let spec = CollectiveSpec { kind: CollectiveKind::AllReduce, buffer_size: Bytes(3), ..spec };
        assert!(Collective::new(spec.clone()).unwrap_err().to_string().contains("no multiple of 4 B"));
        assert!(Collective::new(CollectiveSpec { ranks: 0, ..spec }).is_err());
    }
}
