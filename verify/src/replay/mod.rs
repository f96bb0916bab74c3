//! Exact symbolic execution of schedules.
//!
//! # Definition
//! A value is a multiset of contributions, the initial contents of input slots. σ maps places, under their canonical names, to
//! values or to *undefined*; at the start each input slot holds its own contribution once and all else is undefined. A
//! round is a step, or with explicit dependencies one flow (every order that they allow gives the same, see
//! [`crate::dependencies`]). A round with flows F maps σ to σ′:
//!
//! - v(f, i) = σ(source place + i), for an aggregation the sum over its sources; undefined is a fault (`no-undefined-read`);
//! - σ′(p) = v if one copy writes p; σ(p) + Σ v if only reductions do, where undefined σ(p) is a fault (`no-undefined-read`);
//!   a copy and any other write of p is a fault, and so is a write of a read-only input (`no-conflict`);
//! - σ′(p) = σ(p) otherwise.
//!
//! The schedule `completes` if at the end each output place with a postcondition holds exactly that multiset. For idempotent
//! operators counts above one are one, on both sides.
//!
//! # How it is computed
//! Whether a place is defined, and who writes it, does not depend on values: one pass in schedule order ([`flow_pass`]) decides
//! `no-conflict` and `no-undefined-read`. The same pass joins, with union-find over contributions, all that ever meet in one
//! value, so that every version of a place belongs to one *component*. No value holds contributions of two components, so
//! each is replayed by itself, in parallel, with bit sets over its own contributions ([`crate::values`]): memory is bounded by
//! the flows and one component a thread.
//!
//! Before that, [`columns`] tries to prove the same piecewise: most schedules move data between places of few names, so that
//! the passes above can run on one column of places after the other, in parallel and within a processor's cache. It only
//! ever proves; whatever is not right is found again, and reported, by the passes over the whole.

mod columns;
mod judge;
mod report;

use rayon::prelude::*;
use rondo_ir::collective::{Buffer, CollectiveKind, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{RankId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, FlowSet, PathKind, Schedule};

use self::judge::{Judge, Judged};
use self::report::{place_name, report_conflict, report_read_only, report_undefined};
use crate::codes::Code;
use crate::findings::Findings;
use crate::places::Places;
use crate::values::LocalMap;
use crate::witness;

/// What the replay found.
pub(crate) struct Replay {
    /// Faults of `no-conflict`.
    pub conflicts: Findings,
    /// Faults of `no-undefined-read`.
    pub undefined: Findings,
    /// Faults of `completes`.
    pub incomplete: Findings,
    /// Why something could not be decided.
    pub undecided: Option<String>,
    /// Slot transfers, components and places, for the report.
    pub transfers: usize,
    /// See `transfers`.
    pub components: usize,
}

/// How one slot arrives at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Replaces.
    Copy,
    /// Adds.
    Reduce,
    /// A further source of an aggregation: adds to what its first source has just written or added.
    More,
}

/// One slot that a flow moves, in place numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub src: u32,
    pub dst: u32,
    /// Round · 2 + (1 if it adds).
    tag: u32,
}

impl Unit {
    fn new(src: u32, dst: u32, round: u32, kind: Kind) -> Self {
        Self { src, dst, tag: round << 1 | u32::from(kind != Kind::Copy) }
    }

    pub fn round(self) -> u32 {
        self.tag >> 1
    }

    pub fn adds(self) -> bool {
        self.tag & 1 == 1
    }
}

/// Flows that run at once.
pub(crate) struct Round<'a> {
    /// 1, 2, …
    pub number: u32,
    pub step: StepId,
    /// Number of the first of its flows.
    pub first: usize,
    pub flows: &'a [Flow],
}

/// Visits the rounds of a schedule in order.
pub(crate) fn rounds(schedule: &Schedule, mut visit: impl FnMut(Round<'_>)) {
    let mut first = 0;
    let mut number = 0;
    let mut orbit = Vec::new();
    for (index, step) in schedule.steps.iter().enumerate() {
        let step_id = StepId::new(index);
        let flows = match &step.flows {
            FlowSet::Rows(rows) => rows.as_slice(),
            FlowSet::Orbits { .. } => {
                orbit.clear();
                orbit.extend(schedule.flows(step_id));
                orbit.as_slice()
            }
        };
        if schedule.dependencies.is_some() {
            for flow in flows {
                number += 1;
                visit(Round { number, step: step_id, first, flows: std::slice::from_ref(flow) });
                first += 1;
            }
        } else {
            number += 1;
            visit(Round { number, step: step_id, first, flows });
            first += flows.len();
        }
    }
}

/// Visits the slots that a well-formed flow moves: (source, destination, kind).
pub(crate) fn units(places: &Places<'_>, schedule: &Schedule, flow: &Flow, mut visit: impl FnMut(u32, u32, Kind)) {
    let count = flow.count;
    #[cfg(all(test, feature = "smt"))]
    let count = seeded::count(count);
    ends(schedule, flow, |src, dst, kind| {
        let src = places.of(flow.group, src).known(flow.src_place);
        let dst = places.of(flow.group, dst).known(flow.dst_place);
        for i in 0..count {
            visit(src + i, dst + i, kind);
        }
    });
}

/// Visits the pairs of ranks between which a flow moves its slots, and how they arrive.
fn ends(schedule: &Schedule, flow: &Flow, mut visit: impl FnMut(RankId, RankId, Kind)) {
    let kind = match flow.op {
        FlowOp::Copy => Kind::Copy,
        FlowOp::Reduce => Kind::Reduce,
    };
    match flow.path.kind() {
        PathKind::Local | PathKind::Route(_) => visit(flow.src, flow.dst, kind),
        PathKind::Multicast(tree) => {
            for &leaf in schedule.paths.get_tree(tree).map_or(&[][..], |t| &t.leaves) {
                visit(flow.src, leaf, kind);
            }
        }
        PathKind::Aggregate(tree) => {
            for (index, &leaf) in schedule.paths.get_tree(tree).map_or(&[][..], |t| &t.leaves).iter().enumerate() {
                visit(leaf, flow.dst, if index == 0 { kind } else { Kind::More });
            }
        }
    }
}

const NONE: u32 = u32::MAX;
/// The value of a place after a fault: read without further complaint.
const POISON: u32 = u32::MAX - 1;
/// The same after a conflict, which is reported once a place and round.
const CONFLICT: u32 = u32::MAX - 2;

#[derive(Clone, Copy)]
struct Cell {
    /// A contribution (the number of its place) that the value there contains, or `NONE`, `POISON` or `CONFLICT`.
    node: u32,
    /// Round · 2 + (1 if a copy) of the last write. Once the pass is over: component of the contribution of this number.
    stamp: u32,
}

struct FlowPass {
    cells: Vec<Cell>,
    /// Union-find over contributions, by the number of their place; `NONE` where there is none.
    parent: Vec<u32>,
    /// Per unit: a contribution that its source holds.
    handles: Vec<u32>,
}

fn find(parent: &mut [u32], mut node: u32) -> u32 {
    while parent[node as usize] != node {
        let above = parent[parent[node as usize] as usize];
        parent[node as usize] = above;
        node = above;
    }
    node
}

/// The smaller number stays the root, so that components come in the order of their first contribution.
fn union(parent: &mut [u32], a: u32, b: u32) -> u32 {
    let (a, b) = (find(parent, a), find(parent, b));
    let (low, high) = (a.min(b), a.max(b));
    parent[high as usize] = low;
    low
}

/// What came of one write.
enum Written {
    Fine,
    /// Another flow of the round writes the place; fresh the first time.
    Conflict {
        fresh: bool,
    },
    /// It adds to a place that is undefined.
    Undefined,
}

/// One write of a round, whose source held the contribution `node`.
fn write(cells: &mut [Cell], parent: &mut [u32], dst: u32, node: u32, kind: Kind, round: u32) -> Written {
    let cell = &mut cells[dst as usize];
    let written = cell.stamp >> 1 == round;
    let conflict = match kind {
        Kind::Copy => written,
        Kind::Reduce => written && cell.stamp & 1 == 1,
        Kind::More => false,
    };
    let copied = round << 1 | 1;
    if conflict {
        let fresh = cell.node != CONFLICT;
        *cell = Cell { node: CONFLICT, stamp: copied };
        return Written::Conflict { fresh };
    }
    match kind {
        Kind::Copy => *cell = Cell { node, stamp: copied },
        Kind::Reduce | Kind::More => {
            if kind == Kind::Reduce {
                cell.stamp = round << 1;
            }
            if cell.node == NONE {
                cell.node = POISON;
                return Written::Undefined;
            } else if CONFLICT <= cell.node || CONFLICT <= node {
                cell.node = POISON;
            } else if cell.node != node {
                cell.node = union(parent, cell.node, node);
            }
        }
    }
    Written::Fine
}

/// Replays a well-formed schedule.
pub(crate) fn replay(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    options: &crate::schedule::Options,
) -> Replay {
    let limit = options.findings;
    let mut result = Replay {
        conflicts: Findings::new(limit),
        undefined: Findings::new(limit),
        incomplete: Findings::new(limit),
        undecided: None,
        transfers: 0,
        components: 0,
    };
    let sizes = step_sizes(schedule);
    let transfers = match u64::try_from(sizes.iter().map(|size| size.slots).sum::<u128>()).ok() {
        Some(count) if count <= options.transfers => count,
        count => {
            let given = count.map_or("more than 2^64".to_owned(), |count| count.to_string());
            result.undecided = Some(format!("{given} slots move, but the limit is {}", options.transfers));
            return result;
        }
    };
    let Ok(transfers) = usize::try_from(transfers) else { return result };
    if u32::MAX as usize >> 2 < schedule.steps.len() {
        result.undecided = Some(format!("{} steps are more than can be numbered", schedule.steps.len()));
        return result;
    }
    if problem.groups().iter().any(|group| has_endless_count(group.collective().kind())) {
        result.undecided = Some(format!("the collective asks for a count of {} or more", u64::MAX));
        return result;
    }
    result.transfers = transfers;
    // Seeded defects are those of the general way.
    #[cfg(all(test, feature = "smt"))]
    let sound = !seeded::active();
    #[cfg(not(all(test, feature = "smt")))]
    let sound = true;
    if sound && let Some(components) = columns::prove(problem, schedule, places, &sizes, options) {
        result.components = components;
    } else {
        whole(problem, schedule, places, options, &mut result);
    }
    result
}

/// Decides everything by passes over the whole schedule.
fn whole(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    options: &crate::schedule::Options,
    result: &mut Replay,
) {
    let pass = flow_pass(problem, schedule, places, result);
    if !result.conflicts.is_empty() || !result.undefined.is_empty() {
        result.undecided = Some("values are not defined after the faults above".to_owned());
        return;
    }
    complete(problem, schedule, places, options, pass, result);
}

/// Counts are kept up to 2⁶⁴ − 2; a condition that asks for more cannot be decided.
fn has_endless_count(kind: &CollectiveKind) -> bool {
    let CollectiveKind::Custom(custom) = kind else { return false };
    let sums = custom
        .output
        .iter()
        .flatten()
        .flatten()
        .map(|list| list.iter().fold(0_u64, |sum, &(_, count)| sum.saturating_add(count)));
    sums.max() == Some(u64::MAX)
}

/// What one step moves.
#[derive(Clone, Copy)]
struct StepSize {
    flows: usize,
    /// Slots, over all flows.
    slots: u128,
}

fn step_sizes(schedule: &Schedule) -> Vec<StepSize> {
    let of = |flow: &Flow| -> u128 {
        let ends = match flow.path.kind() {
            PathKind::Local | PathKind::Route(_) => 1,
            PathKind::Multicast(tree) | PathKind::Aggregate(tree) => {
                schedule.paths.get_tree(tree).map_or(0, |t| t.leaves.len())
            }
        };
        // Both are below 2^64, and no memory holds 2^32 flows: the sum cannot overflow.
        ends as u128 * u128::from(flow.count)
    };
    let step = |(index, step): (usize, &rondo_ir::schedule::Step)| match &step.flows {
        FlowSet::Rows(rows) => StepSize { flows: rows.len(), slots: rows.iter().map(of).sum() },
        FlowSet::Orbits { .. } => {
            schedule.flows(StepId::new(index)).fold(StepSize { flows: 0, slots: 0 }, |sum, flow| StepSize {
                flows: sum.flows + 1,
                slots: sum.slots + of(&flow),
            })
        }
    };
    schedule.steps.par_iter().enumerate().map(step).collect()
}

/// By group: whether its input may not be written.
fn read_only(problem: &Problem) -> Vec<bool> {
    problem.groups().iter().map(|g| !g.collective().in_place() && !g.collective().input_writable()).collect()
}

/// Decides `no-conflict` and `no-undefined-read`, and joins contributions that meet.
fn flow_pass(problem: &Problem, schedule: &Schedule, places: &Places<'_>, result: &mut Replay) -> FlowPass {
    let mut cells = vec![Cell { node: NONE, stamp: 0 }; places.total()];
    let mut parent = vec![NONE; places.total()];
    for (_, _, at) in places.positions() {
        for slot in 0..at.inputs {
            let number = at.known(Place::input(slot));
            cells[number as usize].node = number;
            parent[number as usize] = number;
        }
    }
    let read_only = read_only(problem);
    let mut handles: Vec<u32> = Vec::with_capacity(result.transfers);
    rounds(schedule, |round| {
        let start = handles.len();
        for (index, flow) in round.flows.iter().enumerate() {
            units(places, schedule, flow, |src, _, _| {
                let node = cells[src as usize].node;
                if node == NONE {
                    handles.push(POISON);
                    let code = Code::UndefinedRead;
                    report_undefined(problem, schedule, places, &round, index, src, code, &mut result.undefined);
                } else {
                    handles.push(node);
                }
            });
        }
        let mut unit = start;
        for (index, flow) in round.flows.iter().enumerate() {
            if flow.dst_place.buffer() == Buffer::Input && read_only[flow.group.index()] {
                report_read_only(problem, schedule, &round, index, &mut result.conflicts);
            }
            units(places, schedule, flow, |_, dst, kind| {
                let node = handles[unit];
                unit += 1;
                match write(&mut cells, &mut parent, dst, node, kind, round.number) {
                    Written::Fine | Written::Conflict { fresh: false } => {}
                    Written::Conflict { fresh: true } => {
                        report_conflict(problem, schedule, places, &round, index, dst, &mut result.conflicts);
                    }
                    Written::Undefined => {
                        let code = Code::UndefinedReduce;
                        report_undefined(problem, schedule, places, &round, index, dst, code, &mut result.undefined);
                    }
                }
            });
        }
    });
    FlowPass { cells, parent, handles }
}

/// Everything that the components need, sorted by component.
pub(crate) struct Sorted {
    units: Vec<Unit>,
    unit_start: Vec<usize>,
    keys: Vec<u32>,
    key_start: Vec<u32>,
    cells: Vec<Cell>,
}

impl Sorted {
    /// Number of components.
    pub fn len(&self) -> usize {
        self.unit_start.len() - 1
    }

    /// Its units in schedule order.
    pub fn units(&self, component: usize) -> &[Unit] {
        &self.units[self.unit_start[component]..self.unit_start[component + 1]]
    }

    /// Its contributions, as place numbers, ascending.
    pub fn keys(&self, component: usize) -> &[u32] {
        &self.keys[self.key_start[component] as usize..self.key_start[component + 1] as usize]
    }

    /// The component that the place belongs to at the end.
    fn final_component(&self, place: u32) -> Option<usize> {
        let node = self.cells[place as usize].node;
        (node != NONE).then(|| self.cells[node as usize].stamp as usize)
    }
}

/// Sorts by component. `visit` calls back with every unit, in the order of the handles.
fn sort(pass: FlowPass, visit: impl FnOnce(&mut dyn FnMut(Unit))) -> Sorted {
    let FlowPass { mut cells, mut parent, mut handles } = pass;
    let mut components = 0_u32;
    let mut key_start: Vec<u32> = vec![0];
    for place in 0..parent.len() {
        if parent[place] == NONE {
            continue;
        }
        // Places fit 32 bits; a root comes before all that it stands for.
        let root = find(&mut parent, place as u32) as usize;
        if root == place {
            cells[place].stamp = components;
            components += 1;
            key_start.push(0);
        } else {
            cells[place].stamp = cells[root].stamp;
        }
        key_start[cells[place].stamp as usize + 1] += 1;
    }
    for component in 0..components as usize {
        key_start[component + 1] += key_start[component];
    }
    let mut next = key_start.clone();
    let mut keys = vec![0_u32; key_start[components as usize] as usize];
    for place in 0..parent.len() {
        if parent[place] != NONE {
            let slot = &mut next[cells[place].stamp as usize];
            keys[*slot as usize] = place as u32;
            *slot += 1;
        }
    }
    drop((parent, next));
    let mut unit_start = vec![0_usize; components as usize + 1];
    for handle in &mut handles {
        *handle = cells[*handle as usize].stamp;
        unit_start[*handle as usize + 1] += 1;
    }
    for component in 0..components as usize {
        unit_start[component + 1] += unit_start[component];
    }
    let mut next = unit_start.clone();
    let mut units_sorted = vec![Unit { src: 0, dst: 0, tag: 0 }; handles.len()];
    let mut at = 0;
    visit(&mut |unit| {
        let slot = &mut next[handles[at] as usize];
        units_sorted[*slot] = unit;
        *slot += 1;
        at += 1;
    });
    Sorted { units: units_sorted, unit_start, keys, key_start, cells }
}

/// Defects for the test that a disagreement with the SMT proof surfaces.
#[cfg(all(test, feature = "smt"))]
pub(crate) mod seeded {
    use std::cell::Cell;

    use super::Unit;
    use crate::smt::Defect;

    thread_local! {
        static DEFECT: Cell<Defect> = const { Cell::new(Defect::None) };
        static DROPPED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs something while this engine has the defect.
    pub(crate) fn with<T>(defect: Defect, run: impl FnOnce() -> T) -> T {
        DROPPED.set(false);
        DEFECT.set(defect);
        let result = run();
        DEFECT.set(Defect::None);
        result
    }

    /// Whether it has one.
    pub(super) fn active() -> bool {
        DEFECT.get() != Defect::None
    }

    /// The slots of a flow, of which one with [`Defect::IgnoreCount`] is seen.
    pub(super) fn count(count: u32) -> u32 {
        if DEFECT.get() == Defect::IgnoreCount { count.min(1) } else { count }
    }

    /// A slot that moves: the first addition is forgotten, or what the first round writes lands with the second.
    pub(super) fn unit(unit: Unit) -> Unit {
        match DEFECT.get() {
            Defect::DropReduce if unit.adds() && !DROPPED.replace(true) => {
                Unit { src: unit.dst, tag: unit.round() << 1, ..unit }
            }
            Defect::WriteLate if unit.round() == 1 => Unit { tag: unit.tag + 2, ..unit },
            _ => unit,
        }
    }
}

/// Wrong output places of one component.
pub(crate) struct Wrong {
    pub component: usize,
    /// The first ones.
    pub places: Vec<u32>,
    /// All.
    pub count: usize,
}

fn complete(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    options: &crate::schedule::Options,
    pass: FlowPass,
    result: &mut Replay,
) {
    let sorted = sort(pass, |visit| {
        rounds(schedule, |round| {
            for flow in round.flows {
                units(places, schedule, flow, |src, dst, kind| {
                    let unit = Unit::new(src, dst, round.number, kind);
                    #[cfg(all(test, feature = "smt"))]
                    let unit = seeded::unit(unit);
                    visit(unit);
                });
            }
        });
    });
    result.components = sorted.len();
    // Work is cut where it is even, in the order of components.
    let parts = 64.min(sorted.len()).max(1);
    let total = sorted.units.len() + sorted.keys.len();
    let load = |component: usize| sorted.unit_start[component] + sorted.key_start[component] as usize;
    let mut bounds = vec![0];
    for component in 0..sorted.len() {
        if total * bounds.len() / parts < load(component) {
            bounds.push(component);
        }
    }
    bounds.push(sorted.len());
    let judged: Vec<Judged> = bounds
        .par_windows(2)
        .map_init(
            || Judge::new(places, LocalMap::new(), options.memory),
            |judge, range| {
                let mut judged = Judged::default();
                for component in range[0]..range[1] {
                    judge.component(places, &sorted, component, options.findings, &mut judged);
                }
                judged
            },
        )
        .collect();
    let (due, unwritten) = unwritten(places, &sorted, options.findings);
    let unwritten_count = unwritten.1;
    for number in unwritten.0 {
        result.incomplete.add(
            Diagnostic::error(Code::Unwritten.as_str(), format!("{} is never written", place_name(places, number)))
                .note(format!("it should hold {}", witness::due_text(places, number))),
        );
    }
    result.incomplete.skip((unwritten_count as usize).saturating_sub(result.incomplete.count()));
    let mut checked = unwritten_count;
    for part in judged {
        checked += part.checked;
        let found = part.wrong.len();
        for wrong in part.wrong {
            if result.incomplete.has_room() {
                result.incomplete.add(witness::explain(problem, schedule, places, &sorted, &wrong));
            } else {
                result.incomplete.skip(1);
            }
        }
        result.incomplete.skip(part.wrong_components - found);
        result.undecided = result.undecided.take().or(part.undecided);
    }
    if checked != due && result.undecided.is_none() {
        result.undecided = Some(format!("only {checked} of {due} output places were compared; please report this"));
    }
}

/// Output places with a postcondition, and those of them that are undefined at the end.
fn unwritten(places: &Places<'_>, sorted: &Sorted, limit: usize) -> (u64, (Vec<u32>, u64)) {
    let mut due = 0_u64;
    let mut count = 0_u64;
    let mut list = Vec::new();
    for (group, _, at) in places.positions() {
        let layout = places.layout(group);
        let every = !layout.has_empty_slots() && !matches!(layout.collective().kind(), CollectiveKind::Custom(_));
        for slot in 0..at.outputs {
            let number = at.known(Place::output(slot));
            let defined = sorted.cells[number as usize].node != NONE;
            if every && defined {
                due += 1;
            } else if layout.postcondition(at.position, slot).is_some() {
                due += 1;
                if !defined {
                    count += 1;
                    if list.len() < limit.max(1) {
                        list.push(number);
                    }
                }
            }
        }
    }
    (due, (list, count))
}
