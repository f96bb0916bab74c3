//! Places of a problem as dense numbers.
//!
//! Every place of every group has one number under its canonical name ([`rondo_ir::collective::Layout::canonical`]), so
//! that the checks can use flat tables. A number belongs to one (group, position); the numbers of a group are disjoint from
//! those of any other.

use rondo_ir::collective::{Buffer, CollectiveKind, Contribution, Layout, Place};
use rondo_ir::index::{GroupId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;

/// Numbers of the places of one position of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionPlaces {
    /// By buffer: number of slot 0 under that name.
    base: [u32; 3],
    /// By buffer: slots that exist under that name.
    limit: [u32; 3],
    /// Output slots with a meaning to the collective: those that may have a postcondition.
    pub outputs: u32,
    /// Input slots, all defined at the start.
    pub inputs: u32,
    /// The position in the group.
    pub position: u32,
}

impl PositionPlaces {
    /// The number of a place; `None` if it does not exist.
    pub fn number(&self, place: Place) -> Option<u32> {
        let buffer = place.buffer() as usize;
        (place.slot() < self.limit[buffer]).then(|| self.base[buffer] + place.slot())
    }

    /// The number of a place that was checked before.
    pub fn known(&self, place: Place) -> u32 {
        self.base[place.buffer() as usize] + place.slot()
    }

    /// Slots under the name of that buffer.
    pub fn limit(&self, buffer: Buffer) -> u32 {
        self.limit[buffer as usize]
    }

    /// Whether all `count` slots from `place` on exist, and at least one.
    pub fn holds(&self, place: Place, count: u32) -> bool {
        count != 0 && u64::from(place.slot()) + u64::from(count) <= u64::from(self.limit(place.buffer()))
    }
}

/// Why places could not be numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacesError {
    /// A table of the schedule has another length than there are groups or positions.
    Shape(String),
    /// More places than the budget.
    TooMany { given: u64, limit: u64 },
}

/// A span of numbers that belongs to one position.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    group: GroupId,
    rank: RankId,
}

/// All places of a problem at a schedule's chunk counts and scratch tables.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    layouts: Vec<Layout<'a>>,
    /// Per group: rank → its places there.
    by_rank: Vec<Vec<Option<PositionPlaces>>>,
    /// Per group: position → number of its input slot 0.
    by_position: Vec<Vec<u32>>,
    spans: Vec<Span>,
    total: u32,
}

/// What one place number stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub group: GroupId,
    pub rank: RankId,
}

impl<'a> Places<'a> {
    /// Numbers the places.
    pub fn new(problem: &'a Problem, schedule: &Schedule, limit: u64) -> Result<Self, PlacesError> {
        let groups = problem.groups().len();
        for (what, given) in [("chunk counts", schedule.chunks.len()), ("scratch tables", schedule.scratch.len())] {
            if given != groups {
                return Err(PlacesError::Shape(format!(
                    "the schedule has {given} {what}, but the problem has {groups} group{}",
                    if groups == 1 { "" } else { "s" }
                )));
            }
        }
        let limit = limit.min(u64::from(Place::SLOT_LIMIT));
        let mut total = 0_u64;
        let mut layouts = Vec::with_capacity(groups);
        let mut by_rank = Vec::with_capacity(groups);
        let mut by_position = Vec::with_capacity(groups);
        let mut spans = Vec::new();
        for (index, group) in problem.groups().iter().enumerate() {
            let id = GroupId::new(index);
            let layout = problem.layout(id, schedule.chunks[index]).map_err(|error| {
                PlacesError::Shape(format!("group {id} at {} chunks: {error}", schedule.chunks[index]))
            })?;
            let scratch = &schedule.scratch[index].like;
            if !scratch.is_empty() && scratch.len() != group.ranks().len() {
                return Err(PlacesError::Shape(format!(
                    "the scratch table of group {id} has {} entries, but the group has {} ranks",
                    scratch.len(),
                    group.ranks().len()
                )));
            }
            let mut table = vec![None; problem.rank_count()];
            let mut inputs = Vec::with_capacity(group.ranks().len());
            for (position, &rank) in (0_u32..).zip(group.ranks()) {
                let own_scratch = scratch.get(position as usize).map_or(0, Vec::len) as u64;
                let names = names_of(&layout, position);
                let size = u64::from(names.size) + own_scratch;
                if limit < total + size || u64::from(Place::SLOT_LIMIT) <= own_scratch {
                    return Err(PlacesError::TooMany { given: total + size, limit });
                }
                // Below 2^32 by the check above.
                let start = total as u32;
                table[rank.index()] = Some(PositionPlaces {
                    base: [start + names.base[0], start + names.base[1], start + names.size],
                    limit: [names.limit[0], names.limit[1], own_scratch as u32],
                    outputs: layout.slots(position, Buffer::Output),
                    inputs: layout.slots(position, Buffer::Input),
                    position,
                });
                inputs.push(start + names.base[0]);
                spans.push(Span { start, group: id, rank });
                total += size;
            }
            layouts.push(layout);
            by_rank.push(table);
            by_position.push(inputs);
        }
        Ok(Self { layouts, by_rank, by_position, spans, total: total as u32 })
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.total as usize
    }

    /// The layout of a group.
    pub fn layout(&self, group: GroupId) -> &Layout<'a> {
        &self.layouts[group.index()]
    }

    /// Places of a rank in a group, if both exist and it takes part.
    pub fn find(&self, group: GroupId, rank: RankId) -> Option<&PositionPlaces> {
        self.by_rank.get(group.index())?.get(rank.index())?.as_ref()
    }

    /// Places of a rank in a group of which it is known that it takes part.
    ///
    /// # Panics
    /// If that was not checked.
    pub fn of(&self, group: GroupId, rank: RankId) -> &PositionPlaces {
        self.by_rank[group.index()][rank.index()].as_ref().expect("form was checked first")
    }

    /// The number of the input slot that a contribution comes from.
    pub fn contribution(&self, group: GroupId, contribution: Contribution) -> u32 {
        self.by_position[group.index()][contribution.origin as usize] + contribution.slot
    }

    /// Whose place the number is.
    pub fn locate(&self, number: u32) -> Located {
        let after = self.spans.partition_point(|span| span.start <= number);
        let span = self.spans[after - 1];
        Located { group: span.group, rank: span.rank }
    }

    /// The output slot that the number is the name of, if it is one that the collective speaks of.
    pub fn output_slot(&self, number: u32) -> Option<(Located, u32)> {
        let at = self.locate(number);
        let places = self.of(at.group, at.rank);
        let slot = number.checked_sub(places.base[Buffer::Output as usize])?;
        (slot < places.outputs).then_some((at, slot))
    }

    /// The number as a person names it: rank and place, output before input where both are names of it.
    pub fn name(&self, number: u32) -> (RankId, Place) {
        let at = self.locate(number);
        let places = self.of(at.group, at.rank);
        let named = [Buffer::Output, Buffer::Input, Buffer::Scratch].into_iter().find_map(|buffer| {
            let slot = number.checked_sub(places.base[buffer as usize])?;
            (slot < places.limit[buffer as usize]).then(|| Place::new(buffer, slot))
        });
        (at.rank, named.expect("a span holds only slots of its buffers"))
    }

    /// The input slot that starts at this number, if there is one.
    pub fn input_slot(&self, number: u32) -> Option<(Located, u32)> {
        let at = self.locate(number);
        let places = self.of(at.group, at.rank);
        let slot = number.checked_sub(places.base[Buffer::Input as usize])?;
        (slot < places.inputs).then_some((at, slot))
    }

    /// All (group, rank, places), in the order of their numbers.
    pub fn positions(&self) -> impl Iterator<Item = (GroupId, RankId, &PositionPlaces)> {
        self.spans.iter().map(|span| (span.group, span.rank, self.of(span.group, span.rank)))
    }

    /// Elements of a place; scratch slots are as large as the place that the schedule names. 0 where it names none.
    pub fn elements(&self, schedule: &Schedule, group: GroupId, position: u32, place: Place) -> u64 {
        let layout = self.layout(group);
        if place.buffer() != Buffer::Scratch {
            return layout.elements(position, place);
        }
        let like = &schedule.scratch[group.index()].like;
        match like.get(position as usize).and_then(|slots| slots.get(place.slot() as usize)) {
            Some(&(like, place)) if like < layout.collective().ranks() => layout.elements(like, place),
            _ => 0,
        }
    }

    /// Elements that every input and output slot of the group has, if they all have the same number.
    pub fn uniform(&self, group: GroupId) -> Option<u64> {
        let layout = self.layout(group);
        let collective = layout.collective();
        let (n, k, e) = (u64::from(collective.ranks()), u64::from(layout.chunks()), collective.elements());
        let even = |elements: u64, parts: u64| elements.is_multiple_of(parts).then(|| elements / parts);
        match collective.kind() {
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Reduce { .. }
            | CollectiveKind::SendReceive { .. } => even(e, k),
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Gather { .. }
            | CollectiveKind::Scatter { .. } => even(e, n * k),
            CollectiveKind::AllToAll { matrix: None } => even(e / n, k),
            CollectiveKind::AllToAll { matrix: Some(_) } | CollectiveKind::Custom(_) => None,
        }
    }

    /// Whether the elements of a slot in that buffer depend on the slot alone, not on the position.
    pub fn same_everywhere(&self, group: GroupId, buffer: Buffer) -> bool {
        match (self.layout(group).collective().kind(), buffer) {
            (_, Buffer::Scratch) | (CollectiveKind::AllToAll { .. }, _) => false,
            (CollectiveKind::AllGather | CollectiveKind::Gather { .. }, buffer) => buffer == Buffer::Output,
            (CollectiveKind::ReduceScatter | CollectiveKind::Scatter { .. }, buffer) => buffer == Buffer::Input,
            (
                CollectiveKind::AllReduce
                | CollectiveKind::Broadcast { .. }
                | CollectiveKind::Reduce { .. }
                | CollectiveKind::SendReceive { .. }
                | CollectiveKind::Custom(_),
                _,
            ) => true,
        }
    }
}

/// Offsets of a position's input and output names, and how many numbers both need together.
struct Names {
    base: [u32; 2],
    limit: [u32; 2],
    size: u32,
}

/// In place, one buffer is a window of the other; [`Layout::canonical`] says where it begins.
fn names_of(layout: &Layout<'_>, position: u32) -> Names {
    let most = layout.slots(position, Buffer::Input).max(layout.slots(position, Buffer::Output));
    let count = |buffer: Buffer| {
        // Slots that exist are those below a bound.
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low) / 2;
            if layout.contains(position, Place::new(buffer, middle)) { low = middle + 1 } else { high = middle }
        }
        low
    };
    let (inputs, outputs) = (count(Buffer::Input), count(Buffer::Output));
    let canonical = |buffer: Buffer| layout.canonical(position, Place::new(buffer, 0));
    let (input, output) = (canonical(Buffer::Input), canonical(Buffer::Output));
    if inputs != 0 && input.buffer() == Buffer::Output {
        Names { base: [input.slot(), 0], limit: [inputs, outputs], size: outputs.max(input.slot() + inputs) }
    } else if outputs != 0 && output.buffer() == Buffer::Input {
        Names { base: [0, output.slot()], limit: [inputs, outputs], size: inputs.max(output.slot() + outputs) }
    } else {
        Names { base: [0, inputs], limit: [inputs, outputs], size: inputs + outputs }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rondo_ir::collective::{Collective, CollectiveSpec, DataType, ReduceOperator};
    use rondo_ir::cost::CostModel;
    use rondo_ir::topology::{Node, TopologyBuilder};
    use rondo_ir::units::Bytes;

    use super::*;

    /// Two names have one number exactly if they have one canonical name, for every collective in and out of place.
    #[test]
    fn numbers_follow_canonical_names() {
        let kinds = [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll { matrix: None },
            CollectiveKind::Broadcast { root: 1 },
            CollectiveKind::Reduce { root: 1 },
            CollectiveKind::Gather { root: 1 },
            CollectiveKind::Scatter { root: 1 },
            CollectiveKind::SendReceive { targets: vec![Some(1), None, Some(0)] },
        ];
        for kind in kinds {
            for in_place in [false, true] {
                let spec = CollectiveSpec {
                    kind: kind.clone(),
                    ranks: 3,
                    operator: ReduceOperator::Sum,
                    dtype: DataType::Float32,
                    buffer_size: Bytes(68),
                    in_place,
                    input_writable: false,
                };
                let Ok(collective) = Collective::new(spec) else { continue };
                let mut topology = TopologyBuilder::new("t");
                for r in 0..3 {
                    topology.node(Node::compute(format!("n{r}")));
                }
                let topology = Arc::new(topology.finish().unwrap());
                let problem = Problem::single(topology, collective, CostModel::FREE).unwrap();
                let schedule = Schedule::new("none", &problem, vec![2]);
                let places = Places::new(&problem, &schedule, 1 << 20).unwrap();
                let layout = places.layout(GroupId::new(0));
                let mut seen: Vec<(u32, (u32, Place))> = Vec::new();
                for (_, _, at) in places.positions() {
                    for buffer in [Buffer::Input, Buffer::Output] {
                        for slot in 0..20 {
                            let place = Place::new(buffer, slot);
                            let number = at.number(place);
                            assert_eq!(number.is_some(), layout.contains(at.position, place), "{kind:?} {place}");
                            if let Some(number) = number {
                                assert!((number as usize) < places.total());
                                seen.push((number, (at.position, layout.canonical(at.position, place))));
                            }
                        }
                    }
                }
                for a in &seen {
                    for b in &seen {
                        assert_eq!(a.0 == b.0, a.1 == b.1, "{kind:?} {in_place} {a:?} {b:?}");
                    }
                }
            }
        }
    }
}
