//! From flows to terms: own place numbers, own data-flow components, own step semantics.

use std::borrow::Cow;

use rondo_ir::collective::{Buffer, Contribution, Layout, Place};
use rondo_ir::index::{FlowId, GroupId, RankId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, FlowSet, PathKind, Schedule};
use rustc_hash::FxHashMap;

use super::{Defect, SmtCounterexample, SmtFault, SmtOptions};

/// Why nothing can be encoded.
pub(super) struct Refusal(pub(super) String);

/// Transfers and places that a query has before the next one is begun.
const QUERY_SIZE: usize = 8192;
/// Places that can be numbered within reasonable memory.
const PLACE_LIMIT: u64 = 1 << 27;
const NOWHERE: u32 = u32::MAX;

/// What the operator of a query is encoded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algebra {
    /// Integers and `+`.
    Integers,
    /// Booleans and `or`.
    Booleans,
}

/// A node of the term graph; operands come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A variable.
    Input(u32),
    /// Both operands added.
    Add(u32, u32),
}

/// An output place, what it holds and what it must hold.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "smt"), allow(dead_code))]
pub(crate) struct PlaceCheck {
    pub(crate) position: u32,
    pub(crate) slot: u32,
    /// A node.
    pub(crate) held: u32,
    /// An index into [`Query::expected`].
    pub(crate) due: u32,
}

/// One query: is there an input for which some place is wrong?
#[cfg_attr(not(feature = "smt"), allow(dead_code))]
pub(crate) struct Query {
    pub(crate) algebra: Algebra,
    pub(crate) group: GroupId,
    pub(crate) ranks: Vec<RankId>,
    /// The contribution behind each variable.
    pub(crate) inputs: Vec<Contribution>,
    /// Operands come before the nodes that use them; unused nodes are left out.
    pub(crate) nodes: Vec<Node>,
    /// What is due, as (variable, count), each variable once.
    pub(crate) expected: Vec<Vec<(u32, u64)>>,
    pub(crate) checks: Vec<PlaceCheck>,
}

impl Query {
    /// Distinct (held, due) pairs, sorted: places that share a term need one comparison.
    pub(crate) fn pairs(&self) -> Vec<(u32, u32)> {
        let mut pairs: Vec<_> = self.checks.iter().map(|check| (check.held, check.due)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Variable occurrences if every node were written as a flat sum.
    pub(crate) fn weight(&self) -> u64 {
        let most = self.inputs.len() as u64;
        let mut widths: Vec<u64> = Vec::with_capacity(self.nodes.len());
        let mut total: u64 = self.expected.iter().map(|due| due.len() as u64).sum();
        for node in &self.nodes {
            let width = match *node {
                Node::Input(_) => 1,
                Node::Add(a, b) => most.min(widths[a as usize] + widths[b as usize]),
            };
            total = total.saturating_add(width);
            widths.push(width);
        }
        total
    }
}

/// What a batch of components gives.
pub(super) enum Encoded {
    Query(Query),
    /// Wrong without asking anybody.
    Fault(SmtCounterexample),
}

/// Dense numbers for all places under their canonical names.
struct Places<'a> {
    layouts: Vec<Layout<'a>>,
    /// Per group and position: first number and slots of each buffer.
    ranges: Vec<Vec<[(u32, u32); 3]>>,
    total: u32,
}

impl<'a> Places<'a> {
    fn new(problem: &'a Problem, schedule: &Schedule) -> Result<Self, Refusal> {
        let groups = problem.groups().len();
        if schedule.chunks.len() != groups {
            return Err(Refusal(format!("{} chunk counts for {groups} groups", schedule.chunks.len())));
        }
        let mut layouts = Vec::with_capacity(groups);
        let mut ranges = Vec::with_capacity(groups);
        let mut total: u64 = 0;
        for (index, &chunks) in schedule.chunks.iter().enumerate() {
            let group = GroupId::new(index);
            let layout = problem.layout(group, chunks).map_err(|error| Refusal(error.to_string()))?;
            let in_place = layout.collective().in_place();
            let mut of_group = Vec::with_capacity(layout.collective().ranks() as usize);
            for position in 0..layout.collective().ranks() {
                let (input, output) = (layout.slots(position, Buffer::Input), layout.slots(position, Buffer::Output));
                let whole = |buffer| {
                    let first = Place::new(buffer, 0);
                    // In place only the canonical one of the two buffers has places of its own.
                    if !in_place {
                        layout.slots(position, buffer)
                    } else if layout.canonical(position, first) == first {
                        input.max(output)
                    } else {
                        0
                    }
                };
                let sizes = [whole(Buffer::Input), whole(Buffer::Output), schedule.scratch_slots(group, position)];
                let mut at = [(0, 0); 3];
                for (range, size) in at.iter_mut().zip(sizes) {
                    *range = (u32::try_from(total).unwrap_or(NOWHERE), size);
                    total += u64::from(size);
                }
                of_group.push(at);
            }
            ranges.push(of_group);
            layouts.push(layout);
            if PLACE_LIMIT < total {
                return Err(Refusal(format!("{total} places; the limit is {PLACE_LIMIT}")));
            }
        }
        let total = u32::try_from(total).map_err(|_| Refusal(format!("{total} places; the limit is {PLACE_LIMIT}")))?;
        Ok(Self { layouts, ranges, total })
    }

    /// The number of a place; `None` if it does not exist.
    fn number(&self, group: GroupId, position: u32, place: Place) -> Option<u32> {
        let ranges = self.ranges.get(group.index())?.get(position as usize)?;
        let place = if place.buffer() == Buffer::Scratch {
            place
        } else {
            let layout = &self.layouts[group.index()];
            if !layout.contains(position, place) {
                return None;
            }
            layout.canonical(position, place)
        };
        let (first, slots) = ranges[place.buffer() as usize];
        (place.slot() < slots).then(|| first + place.slot())
    }

    /// The place behind a number.
    fn place(&self, group: GroupId, number: u32) -> (u32, Place) {
        let ranges = &self.ranges[group.index()];
        // Positions without any place share their first number with the next one, which the last match skips.
        let position = ranges.partition_point(|at| at[0].0 <= number).saturating_sub(1);
        let inside = |buffer: &Buffer| {
            let (first, slots) = ranges[position][*buffer as usize];
            first <= number && number - first < slots
        };
        let buffer = Buffer::ALL.into_iter().find(inside).unwrap_or(Buffer::Scratch);
        (small(position), Place::new(buffer, number - ranges[position][buffer as usize].0))
    }
}

/// Disjoint sets of places.
struct Union(Vec<u32>);

impl Union {
    fn root(&mut self, mut at: u32) -> u32 {
        while self.0[at as usize] != at {
            let above = self.0[self.0[at as usize] as usize];
            self.0[at as usize] = above;
            at = above;
        }
        at
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        self.0[high as usize] = low;
    }
}

/// One slot of one flow.
#[derive(Clone, Copy)]
struct Transfer {
    step: u32,
    row: u32,
    slot: u32,
}

#[derive(Default)]
struct Batch {
    group: u32,
    size: usize,
    transfers: Vec<Transfer>,
    inputs: Vec<(u32, Contribution)>,
    /// (position, output slot)
    checks: Vec<(u32, u32)>,
}

/// The schedule cut into queries.
pub(super) struct Encoder<'a> {
    problem: &'a Problem,
    schedule: &'a Schedule,
    places: Places<'a>,
    steps: Vec<Cow<'a, [Flow]>>,
    /// Number of the first flow of each step.
    first_flow: Vec<u32>,
    batches: Vec<Batch>,
    all_places: u64,
    components: usize,
    chosen: usize,
    defect: Defect,
    /// The flow that [`Defect::DropReduce`] forgets.
    dropped: Option<(u32, u32)>,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(
        problem: &'a Problem,
        schedule: &'a Schedule,
        options: &SmtOptions,
        defect: Defect,
    ) -> Result<Self, Refusal> {
        // A flow moves a slot or more, and orbits must not be written out before they are counted.
        let limit = usize::try_from(options.max_transfers).unwrap_or(usize::MAX);
        if schedule.flow_count_at_most(limit).is_none() {
            return Err(Refusal(format!("the schedule has more than {limit} flows, which is the limit")));
        }
        let places = Places::new(problem, schedule)?;
        let mut steps = Vec::with_capacity(schedule.steps.len());
        let mut first_flow = Vec::with_capacity(schedule.steps.len());
        let mut flows = 0_usize;
        for (index, step) in schedule.steps.iter().enumerate() {
            let rows: Cow<'a, [Flow]> = match &step.flows {
                FlowSet::Rows(rows) => Cow::Borrowed(rows.as_slice()),
                FlowSet::Orbits { .. } => Cow::Owned(schedule.flows(StepId::new(index)).collect()),
            };
            first_flow.push(u32::try_from(flows).map_err(|_| Refusal("more than 2^32 flows".to_owned()))?);
            flows += rows.len();
            steps.push(rows);
        }
        let mut encoder = Self {
            problem,
            schedule,
            places,
            steps,
            first_flow,
            batches: Vec::new(),
            all_places: 0,
            components: 0,
            chosen: 0,
            defect,
            dropped: None,
        };
        encoder.cut(options)?;
        Ok(encoder)
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    pub(super) const fn all_places(&self) -> u64 {
        self.all_places
    }

    pub(super) const fn components(&self) -> usize {
        self.components
    }

    pub(super) const fn chosen_components(&self) -> usize {
        self.chosen
    }

    /// Finds components, chooses among them, and deals transfers, inputs and postconditions out to batches.
    fn cut(&mut self, options: &SmtOptions) -> Result<(), Refusal> {
        let mut union = Union((0..self.places.total).collect());
        let mut transfers: u64 = 0;
        let mut ends = Ends::default();
        for step in 0..self.steps.len() {
            for row in 0..self.steps[step].len() {
                let flow = &self.steps[step][row];
                transfers += u64::from(flow.count);
                if options.max_transfers < transfers {
                    let limit = options.max_transfers;
                    return Err(Refusal(format!("flows move more than {limit} slots, the limit of the SMT proof")));
                }
                if self.dropped.is_none() && flow.op == FlowOp::Reduce {
                    self.dropped = Some((small(step), small(row)));
                }
                self.ends(flow, &mut ends).map_err(|reason| {
                    let id = FlowId::new(self.first_flow[step] as usize + row);
                    Refusal(format!("{} {id} is not well formed: {reason}", StepId::new(step)))
                })?;
                for slot in 0..flow.count {
                    let mut first = None;
                    for &(position, place) in ends.sources.iter().chain(&ends.targets) {
                        let number = shifted(place, slot)
                            .and_then(|place| self.places.number(flow.group, position, place))
                            .ok_or_else(|| {
                                let id = FlowId::new(self.first_flow[step] as usize + row);
                                let rank = self.problem.group(flow.group).ranks()[position as usize];
                                Refusal(format!(
                                    "{} {id} is not well formed: {rank} has no place {slot} after {place}",
                                    StepId::new(step)
                                ))
                            })?;
                        union.join(*first.get_or_insert(number), number);
                    }
                }
            }
        }

        // Sizes of components, and which have postconditions.
        let total = self.places.total as usize;
        let mut size = vec![0_u32; total];
        for step in 0..self.steps.len() {
            for flow in self.steps[step].iter() {
                let Some(position) = self.problem.position(flow.group, self.any_source(flow)) else { continue };
                for slot in 0..flow.count {
                    if let Some(at) = self.places.number(flow.group, position, flow.src_place.offset(slot)) {
                        let root = union.root(at) as usize;
                        size[root] = size[root].saturating_add(1);
                    }
                }
            }
        }
        let mut wanted = vec![0_u32; total];
        let mut obligations = 0_u64;
        for (index, layout) in self.places.layouts.iter().enumerate() {
            for position in 0..layout.collective().ranks() {
                for slot in 0..layout.slots(position, Buffer::Output) {
                    if layout.postcondition(position, slot).is_none() {
                        continue;
                    }
                    obligations += 1;
                    if let Some(at) = self.places.number(GroupId::new(index), position, Place::output(slot)) {
                        let root = union.root(at) as usize;
                        wanted[root] = wanted[root].saturating_add(1);
                    }
                }
            }
        }
        self.all_places = obligations;
        let with_checks: Vec<u32> = (0..self.places.total).filter(|&at| wanted[at as usize] != 0).collect();
        self.components = with_checks.len();
        let everything = self.problem.rank_count() <= options.max_ranks || with_checks.len() <= options.chosen_chunks;
        let mut taken = vec![everything; total];
        if everything {
            self.chosen = with_checks.len();
        } else {
            self.chosen = options.chosen_chunks;
            for index in 0..options.chosen_chunks {
                taken[with_checks[index * with_checks.len() / options.chosen_chunks] as usize] = true;
            }
        }

        // Deal out: a component is met at its root first, since the root is its lowest place.
        let mut batch_of = vec![NOWHERE; total];
        for (index, ranges) in self.places.ranges.iter().enumerate() {
            let low = ranges.first().map_or(0, |at| at[0].0);
            let high = ranges.last().map_or(0, |at| at[2].0 + at[2].1);
            let mut open = false;
            for at in low..high {
                let root = union.root(at);
                if root != at {
                    batch_of[at as usize] = batch_of[root as usize];
                    continue;
                }
                let work = size[at as usize] as usize + wanted[at as usize] as usize;
                if work == 0 || !taken[at as usize] {
                    continue;
                }
                if !open || self.batches.last().is_some_and(|batch| QUERY_SIZE <= batch.size) {
                    self.batches.push(Batch { group: small(index), ..Batch::default() });
                    open = true;
                }
                if let Some(batch) = self.batches.last_mut() {
                    batch.size += work;
                }
                batch_of[at as usize] = small(self.batches.len() - 1);
            }
        }
        drop((union, size, wanted, taken));
        for step in 0..self.steps.len() {
            for row in 0..self.steps[step].len() {
                let flow = self.steps[step][row];
                let Some(position) = self.problem.position(flow.group, self.any_source(&flow)) else { continue };
                for slot in 0..flow.count {
                    if self.defect == Defect::IgnoreCount && slot != 0 {
                        break;
                    }
                    let at = self.places.number(flow.group, position, flow.src_place.offset(slot));
                    let batch = at.map_or(NOWHERE, |at| batch_of[at as usize]);
                    if let Some(batch) = self.batches.get_mut(batch as usize) {
                        batch.transfers.push(Transfer { step: small(step), row: small(row), slot });
                    }
                }
            }
        }
        for (index, layout) in self.places.layouts.iter().enumerate() {
            let group = GroupId::new(index);
            layout.precondition(|position, place, contribution| {
                if let Some(at) = self.places.number(group, position, place)
                    && let Some(batch) = self.batches.get_mut(batch_of[at as usize] as usize)
                {
                    batch.inputs.push((at, contribution));
                }
            });
            for position in 0..layout.collective().ranks() {
                for slot in 0..layout.slots(position, Buffer::Output) {
                    if layout.postcondition(position, slot).is_some()
                        && let Some(at) = self.places.number(group, position, Place::output(slot))
                        && let Some(batch) = self.batches.get_mut(batch_of[at as usize] as usize)
                    {
                        batch.checks.push((position, slot));
                    }
                }
            }
        }
        Ok(())
    }

    /// A rank that the flow reads from: all its places are in one component.
    fn any_source(&self, flow: &Flow) -> RankId {
        if let PathKind::Aggregate(tree) = flow.path.kind()
            && let Some(&leaf) = self.schedule.paths.get_tree(tree).and_then(|tree| tree.leaves.first())
        {
            return leaf;
        }
        flow.src
    }

    /// Positions and first places that the flow reads and writes.
    fn ends(&self, flow: &Flow, ends: &mut Ends) -> Result<(), String> {
        ends.sources.clear();
        ends.targets.clear();
        if self.problem.groups().len() <= flow.group.index() {
            return Err(format!("there is no group {}", flow.group));
        }
        if flow.count == 0 {
            return Err("it moves no slot".to_owned());
        }
        let position = |rank: RankId| {
            let known = rank.index() < self.problem.rank_count();
            known
                .then(|| self.problem.position(flow.group, rank))
                .flatten()
                .ok_or_else(|| format!("{rank} does not take part in group {}", flow.group))
        };
        let tree = |tree| self.schedule.paths.get_tree(tree).ok_or_else(|| format!("there is no {tree}"));
        match flow.path.kind() {
            PathKind::Local | PathKind::Route(_) => {
                ends.sources.push((position(flow.src)?, flow.src_place));
                ends.targets.push((position(flow.dst)?, flow.dst_place));
            }
            PathKind::Multicast(id) => {
                ends.sources.push((position(flow.src)?, flow.src_place));
                for &leaf in &tree(id)?.leaves {
                    ends.targets.push((position(leaf)?, flow.dst_place));
                }
            }
            PathKind::Aggregate(id) => {
                for &leaf in &tree(id)?.leaves {
                    ends.sources.push((position(leaf)?, flow.src_place));
                }
                ends.targets.push((position(flow.dst)?, flow.dst_place));
            }
        }
        if ends.sources.is_empty() || ends.targets.is_empty() {
            return Err("its tree has no leaf".to_owned());
        }
        Ok(())
    }

    /// Builds the terms of one batch.
    pub(super) fn encode(&self, batch: usize) -> Encoded {
        let batch = &self.batches[batch];
        let group = GroupId::new(batch.group as usize);
        let mut run = Run {
            encoder: self,
            group,
            nodes: Vec::new(),
            variables: FxHashMap::default(),
            inputs: Vec::new(),
            state: FxHashMap::default(),
        };
        for &(at, contribution) in &batch.inputs {
            let variable = run.variable(contribution);
            let node = run.node(Node::Input(variable));
            run.state.insert(at, node);
        }
        // Without barriers each flow is a phase of its own, in the order of flow numbers.
        let same_phase =
            |a: &Transfer, b: &Transfer| a.step == b.step && (self.schedule.dependencies.is_none() || a.row == b.row);
        let mut late: Vec<Write> = Vec::new();
        for (index, phase) in batch.transfers.chunk_by(same_phase).enumerate() {
            let mut writes = match run.read(phase) {
                Ok(writes) => writes,
                Err(fault) => return Encoded::Fault(fault),
            };
            let before = std::mem::take(&mut late);
            if self.defect == Defect::WriteLate && index == 0 {
                late = std::mem::take(&mut writes);
            }
            for writes in [before, writes] {
                if let Err(fault) = run.write(writes) {
                    return Encoded::Fault(fault);
                }
            }
        }
        if let Err(fault) = run.write(late) {
            return Encoded::Fault(fault);
        }
        run.finish(batch)
    }
}

fn shifted(place: Place, by: u32) -> Option<Place> {
    let slot = place.slot().checked_add(by)?;
    (slot < Place::SLOT_LIMIT).then(|| Place::new(place.buffer(), slot))
}

fn small(index: usize) -> u32 {
    u32::try_from(index).expect("flows and batches are numbered in 32 bits")
}

#[derive(Default)]
struct Ends {
    sources: Vec<(u32, Place)>,
    targets: Vec<(u32, Place)>,
}

#[derive(Clone, Copy)]
struct Write {
    at: u32,
    transfer: Transfer,
    op: FlowOp,
    value: u32,
}

struct Run<'e, 'a> {
    encoder: &'e Encoder<'a>,
    group: GroupId,
    nodes: Vec<Node>,
    variables: FxHashMap<Contribution, u32>,
    inputs: Vec<Contribution>,
    /// What defined places hold.
    state: FxHashMap<u32, u32>,
}

impl Run<'_, '_> {
    fn variable(&mut self, contribution: Contribution) -> u32 {
        let next = small(self.inputs.len());
        let inputs = &mut self.inputs;
        *self.variables.entry(contribution).or_insert_with(|| {
            inputs.push(contribution);
            next
        })
    }

    fn node(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        small(self.nodes.len() - 1)
    }

    fn flow_id(&self, transfer: Transfer) -> FlowId {
        FlowId::from(self.encoder.first_flow[transfer.step as usize] + transfer.row)
    }

    fn fault(&self, at: u32, fault: SmtFault) -> SmtCounterexample {
        let (position, place) = self.encoder.places.place(self.group, at);
        let rank = self.encoder.problem.group(self.group).ranks()[position as usize];
        SmtCounterexample { group: self.group, rank, place, fault }
    }

    /// What the flows of a phase read, all from the state before it.
    fn read(&mut self, phase: &[Transfer]) -> Result<Vec<Write>, SmtCounterexample> {
        let mut ends = Ends::default();
        let mut writes = Vec::with_capacity(phase.len());
        for &transfer in phase {
            if self.encoder.defect == Defect::DropReduce && self.encoder.dropped == Some((transfer.step, transfer.row))
            {
                continue;
            }
            let flow = &self.encoder.steps[transfer.step as usize][transfer.row as usize];
            // Checked when the schedule was cut.
            if self.encoder.ends(flow, &mut ends).is_err() {
                continue;
            }
            let number = |(position, place): (u32, Place)| {
                self.encoder.places.number(flow.group, position, place.offset(transfer.slot))
            };
            let mut value = None;
            for source in ends.sources.iter().copied().filter_map(number) {
                let Some(&held) = self.state.get(&source) else {
                    let step = StepId::from(transfer.step);
                    let flow = self.flow_id(transfer);
                    return Err(self.fault(source, SmtFault::Undefined { step, flow, reduces: false }));
                };
                value = Some(match value {
                    None => held,
                    Some(sum) => self.node(Node::Add(sum, held)),
                });
            }
            let Some(value) = value else { continue };
            writes.extend(ends.targets.iter().copied().filter_map(number).map(|at| Write {
                at,
                transfer,
                op: flow.op,
                value,
            }));
        }
        writes.sort_by_key(|write| write.at);
        Ok(writes)
    }

    /// Lands the writes of a phase; they are sorted by place.
    fn write(&mut self, writes: Vec<Write>) -> Result<(), SmtCounterexample> {
        let layout = self.encoder.places.layouts[self.group.index()];
        for together in writes.chunk_by(|a, b| a.at == b.at) {
            let first = together[0];
            let step = StepId::from(first.transfer.step);
            let (_, place) = self.encoder.places.place(self.group, first.at);
            if !layout.writable(place) {
                let flow = self.flow_id(first.transfer);
                return Err(self.fault(first.at, SmtFault::ReadOnly { step, flow }));
            }
            if 1 < together.len() && together.iter().any(|write| write.op == FlowOp::Copy) {
                let (first_flow, second) = (self.flow_id(first.transfer), self.flow_id(together[1].transfer));
                return Err(self.fault(first.at, SmtFault::Conflict { step, first: first_flow, second }));
            }
            let mut value = self.state.get(&first.at).copied();
            for write in together {
                value = Some(match write.op {
                    FlowOp::Copy => write.value,
                    FlowOp::Reduce => {
                        let Some(before) = value else {
                            let flow = self.flow_id(write.transfer);
                            return Err(self.fault(first.at, SmtFault::Undefined { step, flow, reduces: true }));
                        };
                        self.node(Node::Add(before, write.value))
                    }
                });
            }
            if let Some(value) = value {
                self.state.insert(first.at, value);
            }
        }
        Ok(())
    }

    /// Compares with the postcondition, and leaves out what no comparison needs.
    fn finish(mut self, batch: &Batch) -> Encoded {
        let layout = self.encoder.places.layouts[self.group.index()];
        let n = layout.collective().ranks();
        let mut known: FxHashMap<Vec<(u32, u64)>, u32> = FxHashMap::default();
        let mut expected: Vec<Vec<(u32, u64)>> = Vec::new();
        let mut sums: FxHashMap<u32, u32> = FxHashMap::default();
        let mut checks = Vec::with_capacity(batch.checks.len());
        for &(position, slot) in &batch.checks {
            let Some(held) = self
                .encoder
                .places
                .number(self.group, position, Place::output(slot))
                .and_then(|at| self.state.get(&at).copied())
            else {
                return Encoded::Fault(SmtCounterexample {
                    group: self.group,
                    rank: self.encoder.problem.group(self.group).ranks()[position as usize],
                    place: Place::output(slot),
                    fault: SmtFault::NeverWritten,
                });
            };
            let Some(condition) = layout.postcondition(position, slot) else { continue };
            // Sums over everybody are long and shared by many places: look them up by their slot.
            let shared = match &condition {
                rondo_ir::collective::Expected::SumOverAll { slot } => Some(*slot),
                _ => None,
            };
            let due = match shared.and_then(|slot| sums.get(&slot).copied()) {
                Some(due) => due,
                None => {
                    let mut counts: FxHashMap<u32, u64> = FxHashMap::default();
                    for (contribution, count) in condition.to_multiset(n) {
                        let entry = counts.entry(self.variable(contribution)).or_default();
                        *entry = entry.saturating_add(count);
                    }
                    let mut list: Vec<_> = counts.into_iter().filter(|&(_, count)| count != 0).collect();
                    list.sort_unstable();
                    let next = small(expected.len());
                    let due = *known.entry(list).or_insert_with_key(|list| {
                        expected.push(list.clone());
                        next
                    });
                    if let Some(slot) = shared {
                        sums.insert(slot, due);
                    }
                    due
                }
            };
            checks.push(PlaceCheck { position, slot, held, due });
        }
        let mut used = vec![false; self.nodes.len()];
        for check in &checks {
            used[check.held as usize] = true;
        }
        for index in (0..self.nodes.len()).rev() {
            if used[index]
                && let Node::Add(a, b) = self.nodes[index]
            {
                used[a as usize] = true;
                used[b as usize] = true;
            }
        }
        let mut renamed = vec![NOWHERE; self.nodes.len()];
        let mut nodes = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if used[index] {
                renamed[index] = small(nodes.len());
                nodes.push(match *node {
                    Node::Input(variable) => Node::Input(variable),
                    Node::Add(a, b) => Node::Add(renamed[a as usize], renamed[b as usize]),
                });
            }
        }
        for check in &mut checks {
            check.held = renamed[check.held as usize];
        }
        let idempotent = layout.collective().operator().is_idempotent();
        Encoded::Query(Query {
            algebra: if idempotent { Algebra::Booleans } else { Algebra::Integers },
            group: self.group,
            ranks: self.encoder.problem.group(self.group).ranks().to_vec(),
            inputs: self.inputs,
            nodes,
            expected,
            checks,
        })
    }
}
