//! The replay of a right schedule, one bin of columns at a time.
//!
//! A *column* is one slot name at all positions of a group: in all_reduce, slot 7 of every rank. For collectives in which
//! the place of a block depends on the position, names are shifted so that a block keeps its column. Columns between which a
//! flow moves something are joined; what is left apart never meets, so each *bin* of joined columns is a schedule of its own,
//! with the rules of the whole ([`super::write`], [`super::sort`], [`super::judge`]).
//!
//! Which places share a column is a matter of speed alone: any function from places to columns would do, because joining
//! follows every slot that moves. That no output place is left out is checked by counting them.
//!
//! The flows are read in pieces, in parallel; each piece is sorted by bin. A bin then takes its share from every piece in
//! order. No step depends on the number of threads.

use std::ops::Range;

use rayon::prelude::*;
use rondo_ir::collective::{Buffer, CollectiveKind, Contribution, Place};
use rondo_ir::index::{GroupId, RankId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowSet, Schedule};

use super::judge::{Judge, Judged, Names};
use super::{Cell, FlowPass, Kind, NONE, StepSize, Unit, Written, ends, find, read_only, sort, union, write};
use crate::places::{Located, Places};
use crate::values::LocalMap;

/// Most columns, and most bins.
const COLUMNS: usize = 1 << 20;
const BINS: usize = 1 << 14;
/// Slots that a piece moves, about.
const PIECE: u128 = 1 << 18;
/// Above that many slots, a bin must not have most of them: it would be slower than the general way.
const LARGE: usize = 1 << 20;

/// Proves that a well-formed schedule without conflicts or undefined reads leaves what it must, and gives the number of its
/// components. `None` if anything is wrong, or if the columns are not worth it.
pub(super) fn prove(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    sizes: &[StepSize],
    options: &crate::schedule::Options,
) -> Option<usize> {
    let slots = usize::try_from(sizes.iter().map(|size| size.slots).sum::<u128>()).ok()?;
    // So that the numbers below fit 32 bits.
    if 1 << 31 < slots || sizes.iter().map(|size| size.flows.max(1)).sum::<usize>() >= 1 << 30 {
        return None;
    }
    let columns = Columns::new(problem, places)?;
    let pieces = pieces(schedule, sizes);
    let bins = Bins::new(schedule, &columns, &pieces)?;
    let read_only = read_only(problem);
    let sorted: Option<Vec<Sheet>> =
        pieces.par_iter().map(|piece| bins.sheet(schedule, &columns, piece, &read_only)).collect();
    let sheets = sorted?;
    let size = |bin: usize| sheets.iter().map(|sheet| sheet.of(bin).len()).sum::<usize>();
    if LARGE < slots && (0..bins.len()).any(|bin| slots / 2 < size(bin)) {
        return None;
    }
    let judge = || (Judge::new(places, LocalMap::dense(), options.memory), Vec::new());
    let (components, checked) = (0..bins.len())
        .into_par_iter()
        .map_init(judge, |(judge, moves), bin| {
            moves.clear();
            for sheet in &sheets {
                moves.extend_from_slice(sheet.of(bin));
            }
            Bin { bins: &bins, columns: &columns, places, bin }.prove(moves, judge)
        })
        .try_reduce(|| (0, 0), |a, b| Some((a.0 + b.0, a.1 + b.1)))?;
    // Every output place was compared, each in one bin.
    let due: u64 = places.positions().map(|(_, _, at)| u64::from(at.outputs)).sum();
    (checked == due).then_some(components)
}

/// Flows of one step that are read together.
struct Part {
    step: StepId,
    /// Which of its flows.
    flows: Range<usize>,
    /// Number of the first flow of the step.
    first: usize,
}

type Piece = Vec<Part>;

fn pieces(schedule: &Schedule, sizes: &[StepSize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut piece = Piece::new();
    let (mut slots, mut first) = (0, 0);
    for (index, (size, step)) in sizes.iter().zip(&schedule.steps).enumerate() {
        // Flows of orbits can only be had in order.
        let cuts = match step.flows {
            FlowSet::Rows(_) => usize::try_from(size.slots / PIECE).unwrap_or(usize::MAX).clamp(1, size.flows.max(1)),
            FlowSet::Orbits { .. } => 1,
        };
        let length = size.flows.div_ceil(cuts);
        for start in (0..size.flows).step_by(length.max(1)) {
            let flows = start..size.flows.min(start + length);
            piece.push(Part { step: StepId::new(index), flows, first });
            slots += size.slots / cuts as u128;
            if PIECE <= slots {
                pieces.push(std::mem::take(&mut piece));
                slots = 0;
            }
        }
        first += size.flows;
    }
    pieces.push(piece);
    pieces
}

/// Visits the flows of a piece with the numbers of their rounds.
fn flows(schedule: &Schedule, piece: &Piece, mut visit: impl FnMut(u32, &Flow)) {
    for part in piece {
        let round = |index: usize| {
            if schedule.dependencies.is_some() { (part.first + index + 1) as u32 } else { part.step.number() + 1 }
        };
        match &schedule.steps[part.step.index()].flows {
            FlowSet::Rows(rows) => {
                for index in part.flows.clone() {
                    visit(round(index), &rows[index]);
                }
            }
            FlowSet::Orbits { .. } => {
                for (index, flow) in schedule.flows(part.step).enumerate() {
                    visit(round(index), &flow);
                }
            }
        }
    }
}

/// The columns that slots of one family have at a position, and the number of the place in the first of them.
#[derive(Clone, Copy)]
struct Window {
    start: u32,
    end: u32,
    number: u32,
}

impl Window {
    const EMPTY: Self = Self { start: 0, end: 0, number: 0 };

    fn new(start: u32, count: u32, number: u32) -> Self {
        Self { start, end: start + count, number }
    }

    /// The number of the place in that column.
    fn at(&self, column: u32) -> Option<u32> {
        (self.start <= column && column < self.end).then(|| self.number + (column - self.start))
    }
}

/// Where a rank of a group keeps its places.
#[derive(Clone, Copy)]
struct Seat {
    position: u32,
    /// By buffer: the column of slot 0.
    column: [u32; 3],
}

const NOBODY: Seat = Seat { position: u32::MAX, column: [0; 3] };

struct GroupColumns {
    /// By rank.
    seats: Vec<Seat>,
    /// By position: its rank, and its windows; the family of input names (and of output names, where both are names of the same
    /// places), that of other output names, and scratch. Numbers ascend from family to family.
    positions: Vec<(RankId, [Window; 3])>,
}

/// The columns of all groups.
struct Columns {
    groups: Vec<GroupColumns>,
    /// Columns that are joined from the start: input and output of one name.
    joined: Vec<(u32, u32)>,
    /// By column: its group.
    group_of: Vec<GroupId>,
}

impl Columns {
    /// `None` if the collective has no use for columns, or there are too many.
    fn new(problem: &Problem, places: &Places<'_>) -> Option<Self> {
        let mut all = Self { groups: Vec::new(), joined: Vec::new(), group_of: Vec::new() };
        for (index, group) in problem.groups().iter().enumerate() {
            let id = GroupId::new(index);
            let layout = places.layout(id);
            let kind = layout.collective().kind();
            if layout.has_empty_slots() {
                return None;
            }
            // How far a position shifts its names.
            let shifts = |position: u32| match kind {
                CollectiveKind::AllReduce | CollectiveKind::Broadcast { .. } | CollectiveKind::Reduce { .. } => {
                    Some((0, 0))
                }
                CollectiveKind::AllGather | CollectiveKind::Gather { .. } => Some((position * layout.chunks(), 0)),
                CollectiveKind::ReduceScatter | CollectiveKind::Scatter { .. } => Some((0, position * layout.chunks())),
                CollectiveKind::AllToAll { .. } | CollectiveKind::SendReceive { .. } | CollectiveKind::Custom(_) => {
                    None
                }
            };
            let mut windows = Vec::with_capacity(group.ranks().len());
            let mut width = [0_u32; 3];
            for (position, &rank) in (0_u32..).zip(group.ranks()) {
                let at = places.of(id, rank);
                let (input_shift, output_shift) = shifts(position)?;
                let number = |buffer| at.known(Place::new(buffer, 0));
                let input = Window::new(input_shift, at.limit(Buffer::Input), number(Buffer::Input));
                let output = Window::new(output_shift, at.limit(Buffer::Output), number(Buffer::Output));
                let scratch = Window::new(0, at.limit(Buffer::Scratch), number(Buffer::Scratch));
                let shared = overlap(input, output);
                let families = if shared {
                    // One place has one column under either name.
                    if i64::from(input.number) - i64::from(input.start)
                        != i64::from(output.number) - i64::from(output.start)
                    {
                        return None;
                    }
                    let first = if input.start <= output.start { input } else { output };
                    [Window { end: input.end.max(output.end), ..first }, Window::EMPTY, scratch]
                } else {
                    [input, output, scratch]
                };
                for (width, window) in width.iter_mut().zip(families) {
                    *width = (*width).max(window.end);
                }
                let shift = [input_shift, output_shift];
                windows.push((rank, position, shared, shift, families));
            }
            let base = u32::try_from(all.group_of.len()).ok()?;
            let starts = [base, base.checked_add(width[0])?, base.checked_add(width[0])?.checked_add(width[1])?];
            let end = starts[2].checked_add(width[2])? as usize;
            if COLUMNS < end {
                return None;
            }
            all.group_of.resize(end, id);
            all.joined.extend((0..width[0].min(width[1])).map(|name| (starts[0] + name, starts[1] + name)));
            let mut seats = vec![NOBODY; problem.rank_count()];
            let mut positions = Vec::with_capacity(windows.len());
            for (rank, position, shared, shift, families) in windows {
                let output = if shared { starts[0] } else { starts[1] };
                seats[rank.index()] = Seat { position, column: [starts[0] + shift[0], output + shift[1], starts[2]] };
                let mut moved = families;
                for (window, start) in moved.iter_mut().zip(starts) {
                    *window = Window { start: window.start + start, end: window.end + start, ..*window };
                }
                positions.push((rank, moved));
            }
            all.groups.push(GroupColumns { seats, positions });
        }
        Some(all)
    }

    /// Visits the runs of columns between which a flow moves: (position, column), twice, and how many slots.
    fn runs(&self, schedule: &Schedule, flow: &Flow, mut visit: impl FnMut((u32, u32), (u32, u32), Kind)) {
        let seats = &self.groups[flow.group.index()].seats;
        let at = |rank: RankId, place: Place| {
            let seat = &seats[rank.index()];
            (seat.position, seat.column[place.buffer() as usize] + place.slot())
        };
        ends(schedule, flow, |src, dst, kind| visit(at(src, flow.src_place), at(dst, flow.dst_place), kind));
    }
}

fn overlap(a: Window, b: Window) -> bool {
    let end = |window: Window| window.number + (window.end - window.start);
    a.start != a.end && b.start != b.end && a.number < end(b) && b.number < end(a)
}

/// One slot that moves within a bin.
#[derive(Clone, Copy)]
struct Move {
    src: u32,
    dst: u32,
    /// Round · 4 + kind.
    tag: u32,
}

impl Move {
    fn round(self) -> u32 {
        self.tag >> 2
    }

    fn kind(self) -> Kind {
        match self.tag & 3 {
            0 => Kind::Copy,
            1 => Kind::Reduce,
            _ => Kind::More,
        }
    }
}

/// What a piece moves, by bin, in order.
struct Sheet {
    moves: Vec<Move>,
    start: Vec<u32>,
}

impl Sheet {
    fn of(&self, bin: usize) -> &[Move] {
        &self.moves[self.start[bin] as usize..self.start[bin + 1] as usize]
    }
}

/// Which columns are together.
struct Bins {
    /// By column: its bin, and its index there.
    of: Vec<(u32, u32)>,
    /// By bin: its columns, ascending.
    columns: Vec<Vec<u32>>,
}

impl Bins {
    /// `None` if all is in one bin, or a bin has too many places.
    fn new(schedule: &Schedule, columns: &Columns, pieces: &[Piece]) -> Option<Self> {
        let mut start: Vec<u32> = (0..).take(columns.group_of.len()).collect();
        for &(a, b) in &columns.joined {
            union(&mut start, a, b);
        }
        let join = |mut parent: Vec<u32>, piece: &Piece| {
            flows(schedule, piece, |_, flow| {
                columns.runs(schedule, flow, |(_, src), (_, dst), _| {
                    if src != dst {
                        for i in 0..flow.count {
                            union(&mut parent, src + i, dst + i);
                        }
                    }
                });
            });
            parent
        };
        let both = |mut a: Vec<u32>, b: Vec<u32>| {
            for (column, above) in (0..).zip(b) {
                union(&mut a, column, above);
            }
            a
        };
        let cut = pieces.len().div_ceil(16).max(1);
        let mut parent =
            pieces.par_chunks(cut).map(|pieces| pieces.iter().fold(start.clone(), join)).reduce(|| start.clone(), both);
        // Classes in the order of their first columns, which fill the bins; none holds two groups.
        let all = parent.len() as u32;
        let classes = (0..all).filter(|&column| parent[column as usize] == column).count();
        let each = classes.div_ceil(BINS).max(1);
        let mut bins = Self { of: vec![(0, 0); parent.len()], columns: Vec::new() };
        let mut held = each;
        for column in 0..all {
            let root = find(&mut parent, column);
            let group = columns.group_of[column as usize];
            if root == column {
                let last = bins.columns.last().and_then(|list: &Vec<u32>| list.first());
                if held == each || last.is_some_and(|&first| columns.group_of[first as usize] != group) {
                    bins.columns.push(Vec::new());
                    held = 0;
                }
                held += 1;
            }
            let bin = if root == column { bins.columns.len() - 1 } else { bins.of[root as usize].0 as usize };
            bins.of[column as usize] = (bin as u32, bins.columns[bin].len() as u32);
            bins.columns[bin].push(column);
        }
        let fits = |list: &Vec<u32>| {
            let positions = columns.groups[columns.group_of[list[0] as usize].index()].positions.len();
            list.len().checked_mul(positions).is_some_and(|size| size < 1 << 30)
        };
        (1 < bins.len() && bins.columns.iter().all(fits)).then_some(bins)
    }

    fn len(&self) -> usize {
        self.columns.len()
    }

    /// Sorts what a piece moves by bin; `None` if it writes where it may not.
    fn sheet(&self, schedule: &Schedule, columns: &Columns, piece: &Piece, read_only: &[bool]) -> Option<Sheet> {
        let mut start = vec![0_u32; self.len() + 1];
        let mut right = true;
        flows(schedule, piece, |_, flow| {
            right &= flow.dst_place.buffer() != Buffer::Input || !read_only[flow.group.index()];
            columns.runs(schedule, flow, |_, (_, dst), _| {
                for &(bin, _) in &self.of[dst as usize..(dst + flow.count) as usize] {
                    start[bin as usize + 1] += 1;
                }
            });
        });
        if !right {
            return None;
        }
        for bin in 0..self.len() {
            start[bin + 1] += start[bin];
        }
        let mut next = start.clone();
        let mut moves = vec![Move { src: 0, dst: 0, tag: 0 }; start[self.len()] as usize];
        flows(schedule, piece, |round, flow| {
            columns.runs(schedule, flow, |(from, src), (to, dst), kind| {
                let count = flow.count as usize;
                let tag = round << 2 | kind as u32;
                let sources = &self.of[src as usize..src as usize + count];
                let targets = &self.of[dst as usize..dst as usize + count];
                for (&(_, src), &(bin, dst)) in sources.iter().zip(targets) {
                    let width = self.columns[bin as usize].len() as u32;
                    let slot = &mut next[bin as usize];
                    moves[*slot as usize] = Move { src: from * width + src, dst: to * width + dst, tag };
                    *slot += 1;
                }
            });
        });
        Some(Sheet { moves, start })
    }
}

/// One bin. Its places are numbered by position, then column.
struct Bin<'a> {
    bins: &'a Bins,
    columns: &'a Columns,
    places: &'a Places<'a>,
    bin: usize,
}

impl Bin<'_> {
    fn list(&self) -> &[u32] {
        &self.bins.columns[self.bin]
    }

    fn group(&self) -> GroupId {
        self.columns.group_of[self.list()[0] as usize]
    }

    /// Its position, and which place it is.
    fn place(&self, id: u32) -> (u32, Option<u32>) {
        let width = self.list().len() as u32;
        let (position, index) = (id / width, id % width);
        let column = self.list()[index as usize];
        let (_, windows) = &self.columns.groups[self.group().index()].positions[position as usize];
        (position, windows.iter().find_map(|window| window.at(column)))
    }

    /// Components and output places compared, if all is right.
    fn prove(&self, moves: &[Move], judge: &mut Judge<'_>) -> Option<(usize, u64)> {
        let group = &self.columns.groups[self.group().index()];
        let width = self.list().len();
        let size = group.positions.len() * width;
        let mut cells = vec![Cell { node: NONE, stamp: 0 }; size];
        let mut parent = vec![NONE; size];
        for (position, &(rank, _)) in group.positions.iter().enumerate() {
            let first = group.seats[rank.index()].column[Buffer::Input as usize];
            let inputs = first..first + self.places.of(self.group(), rank).inputs;
            let from = self.list().partition_point(|&column| column < inputs.start);
            for index in (from..width).take_while(|&index| inputs.contains(&self.list()[index])) {
                let id = position * width + index;
                cells[id].node = id as u32;
                parent[id] = id as u32;
            }
        }
        let mut handles: Vec<u32> = Vec::with_capacity(moves.len());
        for round in moves.chunk_by(|a, b| a.round() == b.round()) {
            let start = handles.len();
            handles.extend(round.iter().map(|unit| cells[unit.src as usize].node));
            for (unit, &node) in round.iter().zip(&handles[start..]) {
                if node == NONE {
                    return None;
                }
                match write(&mut cells, &mut parent, unit.dst, node, unit.kind(), unit.round()) {
                    Written::Fine => {}
                    Written::Conflict { .. } | Written::Undefined => return None,
                }
            }
        }
        let sorted = sort(FlowPass { cells, parent, handles }, |visit| {
            for unit in moves {
                visit(Unit::new(unit.src, unit.dst, unit.round(), unit.kind()));
            }
        });
        let mut judged = Judged::default();
        for component in 0..sorted.len() {
            judge.component(self, &sorted, component, 0, &mut judged);
        }
        (judged.wrong_components == 0 && judged.undecided.is_none()).then_some((sorted.len(), judged.checked))
    }
}

impl Names for Bin<'_> {
    fn locate(&self, id: u32) -> Located {
        let group = self.group();
        let position = id / self.list().len() as u32;
        Located { group, rank: self.columns.groups[group.index()].positions[position as usize].0 }
    }

    fn output_slot(&self, id: u32) -> Option<(Located, u32)> {
        let at = self.locate(id);
        let places = self.places.of(at.group, at.rank);
        let slot = self.place(id).1?.checked_sub(places.known(Place::output(0)))?;
        (slot < places.outputs).then_some((at, slot))
    }

    fn contribution(&self, group: GroupId, contribution: Contribution) -> Option<u32> {
        let columns = &self.columns.groups[group.index()];
        let &(rank, _) = columns.positions.get(contribution.origin as usize)?;
        let column = columns.seats[rank.index()].column[Buffer::Input as usize] + contribution.slot;
        let &(bin, index) = self.bins.of.get(column as usize)?;
        (bin as usize == self.bin).then(|| contribution.origin * self.list().len() as u32 + index)
    }

    fn number(&self, id: u32) -> u32 {
        self.place(id).1.unwrap_or(NONE)
    }
}

#[cfg(test)]
#[cfg(feature = "smt")]
mod tests {
    use rondo_ir::collective::{Expected, ReduceOperator};
    use rondo_ir::schedule::{FlowOp, Step};

    use super::*;
    use crate::findings::Findings;
    use crate::replay::{Replay, step_sizes, whole};
    use crate::schedule::Options;
    use crate::smt::fixtures::{problem, ring_all_reduce, send};

    /// Everything straight from where it is to where it must be: first what is copied, then what is added.
    fn direct(problem: &Problem, chunks: u32) -> Schedule {
        let mut schedule = Schedule::new("direct", problem, vec![chunks]);
        let layout = problem.layout(GroupId::new(0), chunks).unwrap();
        let n = layout.collective().ranks();
        let (mut copies, mut sums) = (Vec::new(), Vec::new());
        for position in 0..n {
            for slot in 0..layout.slots(position, Buffer::Output) {
                let to = (position, Place::output(slot));
                let mut place = |origin: u32, slot: u32, op: FlowOp| {
                    let from = Place::input(slot);
                    let there = origin == position
                        && layout.canonical(position, from) == layout.canonical(position, Place::output(to.1.slot()));
                    (!there).then(|| send(&mut schedule, problem, (origin, from), to, 1, op))
                };
                match layout.postcondition(position, slot) {
                    Some(Expected::One(c)) => copies.extend(place(c.origin, c.slot, FlowOp::Copy)),
                    Some(Expected::SumOverAll { slot }) => {
                        copies.extend(place(position, slot, FlowOp::Copy));
                        let others = (0..n).filter(|&origin| origin != position);
                        sums.extend(others.filter_map(|origin| place(origin, slot, FlowOp::Reduce)));
                    }
                    _ => {}
                }
            }
        }
        schedule.steps = vec![Step::new(copies), Step::new(sums)];
        schedule
    }

    /// Components by the general way if all is right, and by columns.
    fn both(problem: &Problem, schedule: &Schedule) -> (Option<usize>, Option<usize>) {
        let options = Options::default();
        let places = Places::new(problem, schedule, options.places).unwrap();
        let none = || Findings::new(1);
        let mut general = Replay {
            conflicts: none(),
            undefined: none(),
            incomplete: none(),
            undecided: None,
            transfers: 0,
            components: 0,
        };
        whole(problem, schedule, &places, &options, &mut general);
        let right = general.conflicts.is_empty()
            && general.undefined.is_empty()
            && general.incomplete.is_empty()
            && general.undecided.is_none();
        (right.then_some(general.components), prove(problem, schedule, &places, &step_sizes(schedule), &options))
    }

    fn rows(schedule: &mut Schedule, step: usize) -> &mut Vec<Flow> {
        match &mut schedule.steps[step].flows {
            FlowSet::Rows(rows) => rows,
            FlowSet::Orbits { .. } => panic!("rows"),
        }
    }

    /// Right schedules are proved with the same components; whatever is done to a flow, nothing is proved that is wrong.
    #[test]
    fn columns_prove_what_the_general_way_proves() {
        let kinds = [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::Broadcast { root: 1 },
            CollectiveKind::Reduce { root: 1 },
            CollectiveKind::Gather { root: 2 },
            CollectiveKind::Scatter { root: 2 },
        ];
        let mut schedules = Vec::new();
        for kind in kinds {
            for (in_place, operator) in
                [(false, ReduceOperator::Sum), (true, ReduceOperator::Sum), (true, ReduceOperator::Max)]
            {
                let problem = problem(kind.clone(), 4, operator, in_place);
                let schedule = direct(&problem, 2);
                schedules.push((problem, schedule));
            }
        }
        let ring = problem(CollectiveKind::AllReduce, 4, ReduceOperator::Sum, true);
        let schedule = ring_all_reduce(&ring, 3);
        schedules.push((ring, schedule));
        let (mut refused, mut harmless) = (0, 0);
        for (problem, schedule) in schedules {
            let (general, columns) = both(&problem, &schedule);
            assert!(general.is_some(), "{:?}", schedule.algorithm);
            assert_eq!(general, columns);
            for step in 0..schedule.steps.len() {
                for at in 0..rows(&mut schedule.clone(), step).len() {
                    for change in 0..6 {
                        let mut mutant = schedule.clone();
                        let later = (step + 1) % schedule.steps.len();
                        let flow = rows(&mut mutant, step)[at];
                        let list = rows(&mut mutant, step);
                        match change {
                            0 => drop(list.remove(at)),
                            1 => list.push(flow),
                            2 => list[at].op = if flow.op == FlowOp::Copy { FlowOp::Reduce } else { FlowOp::Copy },
                            3 => list[at].src_place = Place::new(flow.src_place.buffer(), flow.src_place.slot() ^ 1),
                            4 => list[at].dst_place = Place::new(flow.dst_place.buffer(), flow.dst_place.slot() ^ 1),
                            _ => {
                                list.remove(at);
                                rows(&mut mutant, later).push(flow);
                            }
                        }
                        let (general, columns) = both(&problem, &mutant);
                        assert!(columns.is_none() || general == columns, "{flow:?} after change {change}");
                        if general.is_some() { harmless += 1 } else { refused += 1 }
                    }
                }
            }
        }
        assert!(harmless != 0 && harmless * 2 < refused, "{harmless} harmless, {refused} refused");
    }
}
