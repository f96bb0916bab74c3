//! The unrolled program with places and connections resolved.

use rondo_ir::collective::{Buffer, Layout, Place};
use rondo_ir::index::RankId;
use rondo_ir::program::{Operation, OperationRef, SourceSpan};

use super::report::Location;

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// A threadblock; its index in [`Flat::tbs`] is its number in the whole program.
#[derive(Clone, Debug)]
pub(super) struct Tb {
    pub(super) rank: u32,
    /// Number in the file.
    pub(super) id: u32,
    pub(super) span: SourceSpan,
    /// First and end in [`Flat::ops`].
    pub(super) ops: std::ops::Range<u32>,
    /// Index of its first operation in [`Flat::top_last`].
    pub(super) tops: u32,
}

/// An operation at one turn of its loops.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlatOp<'a> {
    pub(super) op: &'a Operation,
    pub(super) tb: u32,
    /// Index in the threadblock's list.
    pub(super) top: u32,
    /// Number in the body of the outermost loop, or [`NONE`].
    pub(super) inner: u32,
    /// Turn of the innermost loop.
    pub(super) turn: u32,
    /// Connection on which it sends, or [`NONE`].
    pub(super) send: u32,
    /// Connection on which it receives, or [`NONE`].
    pub(super) receive: u32,
    /// Whether its dependencies are waited for here (not at the end of a loop).
    pub(super) waits: bool,
}

/// A connection with its owners.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conn {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) channel: u32,
    /// Threadblock that sends, or [`NONE`].
    pub(super) sender: u32,
    /// Threadblock that receives, or [`NONE`].
    pub(super) receiver: u32,
}

/// Numbers of places in memory: dense, ranks one after the other.
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    pub(super) layout: Layout<'a>,
    /// First place of each rank, and the end.
    pub(super) base: Vec<u32>,
    /// Slots under canonical names, by rank: input, output, scratch.
    pub(super) extents: Vec<[u32; 3]>,
    in_place: bool,
}

impl<'a> Places<'a> {
    /// Numbers all places, given the scratch slots of each rank, or says how many there are if that is more than `limit`.
    pub(super) fn new(layout: Layout<'a>, scratch: impl Iterator<Item = u32>, limit: u64) -> Result<Self, u64> {
        let in_place = layout.collective().in_place();
        let mut base = Vec::new();
        let mut extents = Vec::new();
        let mut total = 0_u64;
        for (position, scratch) in (0..layout.collective().ranks()).zip(scratch) {
            base.push(u32::try_from(total).unwrap_or(NONE));
            let (input, output) = (layout.slots(position, Buffer::Input), layout.slots(position, Buffer::Output));
            // In place the buffer may be longer than the output that is returned.
            let longest = input.max(output);
            let longer = longest != 0 && layout.contains(position, Place::output(longest - 1));
            let output = if longer { longest } else { output };
            extents.push([input, output, scratch]);
            total += u64::from(input) + u64::from(output) + u64::from(scratch);
        }
        if limit.min(u64::from(NONE) / 2) < total {
            return Err(total);
        }
        base.push(u32::try_from(total).unwrap_or(NONE));
        Ok(Self { layout, base, extents, in_place })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.base.last().map_or(0, |&end| end as usize)
    }

    fn canonical(&self, rank: u32, place: Place) -> Place {
        if self.in_place { self.layout.canonical(rank, place) } else { place }
    }

    /// Whether all `count` slots from `place` exist.
    pub(super) fn contains(&self, rank: u32, place: Place, count: u32) -> bool {
        let end = u64::from(place.slot()) + u64::from(count);
        if u64::from(Place::SLOT_LIMIT) < end || count == 0 {
            return false;
        }
        if place.buffer() == Buffer::Scratch {
            return end <= u64::from(self.extents[rank as usize][2]);
        }
        let exists = |place: Place| self.layout.contains(rank, place);
        exists(place) && exists(place.offset(count - 1))
    }

    /// The number of a place that exists. Slots that follow each other in a buffer have numbers that do so.
    pub(super) fn locate(&self, rank: u32, place: Place) -> u32 {
        let place = self.canonical(rank, place);
        let [input, output, _] = self.extents[rank as usize];
        let before = match place.buffer() {
            Buffer::Input => 0,
            Buffer::Output => input,
            Buffer::Scratch => input + output,
        };
        self.base[rank as usize] + before + place.slot()
    }

    /// Whether both places belong to the rank.
    pub(super) fn same_rank(&self, rank: u32, a: u32, b: u32) -> bool {
        let own = self.base[rank as usize]..self.base[rank as usize + 1];
        own.contains(&a) && own.contains(&b)
    }

    /// Rank and canonical place of a number.
    pub(super) fn place(&self, location: u32) -> (u32, Place) {
        let rank = self.base.partition_point(|&base| base <= location) - 1;
        let slot = location - self.base[rank];
        let [input, output, _] = self.extents[rank];
        let place = if slot < input {
            Place::input(slot)
        } else if slot - input < output {
            Place::output(slot - input)
        } else {
            Place::scratch(slot - input - output)
        };
        (u32::try_from(rank).unwrap_or(NONE), place)
    }
}

/// The unrolled program.
#[derive(Debug)]
pub(super) struct Flat<'a> {
    pub(super) tbs: Vec<Tb>,
    pub(super) ops: Vec<FlatOp<'a>>,
    pub(super) conns: Vec<Conn>,
    pub(super) places: Places<'a>,
    /// First threadblock of each rank, and the end.
    pub(super) rank_tbs: Vec<u32>,
    /// By threadblock and operation of its list: the flat operation after which it is done.
    pub(super) top_last: Vec<u32>,
    /// By threadblock and operation of its list: the first that publishes at or after it, as index in the list, or [`NONE`].
    pub(super) publisher: Vec<u32>,
    /// Whether some message has more than one slot.
    pub(super) wide_messages: bool,
}

impl Flat<'_> {
    /// Where the operation stands.
    pub(super) fn location(&self, op: u32) -> Location {
        let flat = &self.ops[op as usize];
        let tb = &self.tbs[flat.tb as usize];
        Location {
            rank: RankId::from(tb.rank),
            threadblock: Some(tb.id),
            operation: Some(flat.top),
            inner: (flat.inner != NONE).then_some(flat.inner),
            span: flat.op.span,
        }
    }

    /// The flat operation whose end a dependency of the rank waits for: (threadblock, flat operation).
    pub(super) fn awaited(&self, rank: u32, wait: OperationRef) -> (u32, u32) {
        let tb = self.rank_tbs[rank as usize] + wait.threadblock;
        let tops = self.tbs[tb as usize].tops;
        let publisher = self.publisher[(tops + wait.operation) as usize];
        (tb, self.top_last[(tops + publisher) as usize])
    }
}
