//! What every builder looks at: positions, nodes, places and routes of one collective.

use rayon::prelude::*;
use rondo_ir::collective::{Buffer, Collective, CollectiveKind, Layout, Place};
use rondo_ir::index::{GroupId, NodeId, RankId, RouteId};
use rondo_ir::schedule::{Flow, FlowOp, Path, Paths, Route, Schedule, Scratch, Step};
use rondo_ir::topology::{Hop, Topology};

use crate::build::{BuildContext, BuildError};
use crate::fabric::Shape;

/// The group that builders work on.
pub(crate) const GROUP: GroupId = GroupId::new(0);

/// Which of several parallel links a flow takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lane {
    /// What the router says.
    Any,
    /// The first link between the two nodes, where there are two or more.
    First,
    /// The second one.
    Second,
}

/// The collective of the problem's first group, position by position.
pub(crate) struct Site<'a> {
    pub cx: &'a BuildContext<'a>,
    pub collective: &'a Collective,
    /// Number of positions.
    pub n: u32,
    /// Position → rank.
    pub ranks: &'a [RankId],
    /// Position → node.
    pub nodes: Vec<NodeId>,
    /// Node → position.
    at: Vec<Option<u32>>,
}

impl<'a> Site<'a> {
    pub fn new(cx: &'a BuildContext<'a>) -> Result<Self, BuildError> {
        let groups = cx.problem.groups();
        let [group] = groups else {
            return Err(BuildError::Groups { given: groups.len() });
        };
        let collective = group.collective();
        let ranks = group.ranks();
        let nodes: Vec<NodeId> = ranks.iter().map(|&rank| cx.problem.node_of(rank)).collect();
        let mut at = vec![None; cx.problem.topology().nodes().len()];
        for (position, node) in (0..).zip(&nodes) {
            at[node.index()] = Some(position);
        }
        Ok(Self { cx, collective, n: collective.ranks(), ranks, nodes, at })
    }

    pub fn topology(&self) -> &Topology {
        self.cx.problem.topology()
    }

    pub fn shape(&self) -> &Shape {
        &self.cx.fabric.shape
    }

    pub fn kind(&self) -> &'a CollectiveKind {
        self.collective.kind()
    }

    /// The position on the node, if one takes part.
    pub fn position_on(&self, node: NodeId) -> Option<u32> {
        self.at[node.index()]
    }

    pub fn node_name(&self, position: u32) -> &str {
        &self.topology().node(self.nodes[position as usize]).name
    }

    /// Whether the input must stay as it is.
    pub fn keeps_input(&self) -> bool {
        !self.collective.in_place() && !self.collective.input_writable()
    }

    pub fn layout(&self, chunks: u32) -> Result<Layout<'a>, BuildError> {
        Ok(self.collective.layout(chunks)?)
    }

    /// Positions in the order of their nodes if they are exactly the topology's compute nodes.
    pub fn full_order(&self) -> Option<Vec<u32>> {
        let order: Option<Vec<u32>> = self.topology().compute_nodes().map(|node| self.position_on(node)).collect();
        order.filter(|order| order.len() == self.n as usize)
    }

    /// The up links between the nodes of two positions.
    fn parallel_links(&self, src: u32, dst: u32) -> impl Iterator<Item = Hop> + '_ {
        let (from, to) = (self.nodes[src as usize], self.nodes[dst as usize]);
        let topology = self.topology();
        topology
            .links_from(from)
            .iter()
            .filter(move |&&link| topology.link(link).dst == to && topology.link(link).up)
            .map(|&link| Hop::Link(link))
    }

    /// The position of a rank of the group.
    pub fn position_of(&self, rank: RankId) -> u32 {
        self.cx.problem.position(GROUP, rank).expect("flows join ranks of the group")
    }

    /// The way from one position to another.
    pub fn find_route(&self, src: u32, dst: u32, lane: Lane) -> Option<Route> {
        let wanted = match lane {
            Lane::Any => None,
            Lane::First => Some(0),
            Lane::Second => Some(1),
        };
        if let Some(wanted) = wanted {
            let links: Vec<Hop> = self.parallel_links(src, dst).take(2).collect();
            if links.len() == 2 {
                return Some(Route::single(vec![links[wanted]]));
            }
        }
        self.cx.fabric.router.route(self.nodes[src as usize], self.nodes[dst as usize])
    }

    /// Refuses routes that would have more hops than the context allows.
    pub fn check_hops(&self, given: u64) -> Result<(), BuildError> {
        match self.cx.hop_limit {
            Some(limit) if limit < given => Err(BuildError::TooManyHops { given, limit }),
            _ => Ok(()),
        }
    }

    /// The error for a pair without a way.
    pub fn no_route(&self, src: u32, dst: u32) -> BuildError {
        BuildError::NoRoute { src: self.node_name(src).to_owned(), dst: self.node_name(dst).to_owned() }
    }

    /// A flow between two (position, place).
    pub fn flow(&self, src: (u32, Place), dst: (u32, Place), count: u32, op: FlowOp, path: Path) -> Flow {
        Flow {
            src: self.ranks[src.0 as usize],
            dst: self.ranks[dst.0 as usize],
            src_place: src.1,
            dst_place: dst.1,
            count,
            path,
            group: GROUP,
            op,
        }
    }

    /// Local work of a position.
    pub fn local(&self, position: u32, src: Place, dst: Place, count: u32, op: FlowOp) -> Flow {
        self.flow((position, src), (position, dst), count, op, Path::LOCAL)
    }

    /// The schedule of these steps; steps without flows are left out.
    pub fn schedule(
        &self,
        algorithm: &str,
        chunks: u32,
        scratch: Vec<Vec<(u32, Place)>>,
        paths: Paths,
        steps: Vec<Vec<Flow>>,
    ) -> Schedule {
        let mut schedule = Schedule::new(algorithm, self.cx.problem, vec![chunks]);
        if scratch.iter().any(|slots| !slots.is_empty()) {
            schedule.scratch = vec![Scratch { like: scratch }];
        }
        schedule.paths = paths;
        schedule.steps = steps.into_iter().filter(|flows| !flows.is_empty()).map(Step::new).collect();
        schedule
    }
}

/// Routes by (source, destination, lane), interned before flows are made so that steps can be made in parallel.
pub(crate) struct RouteTable {
    start: Vec<u32>,
    entries: Vec<(u32, Lane, RouteId)>,
}

impl RouteTable {
    /// Finds the way for each pair.
    pub fn new(site: &Site, paths: &mut Paths, mut pairs: Vec<(u32, u32, Lane)>) -> Result<Self, BuildError> {
        /// Routes that stand for all others when hops are counted.
        const SAMPLE: usize = 64;
        pairs.sort_unstable();
        pairs.dedup();
        if site.cx.hop_limit.is_some() && SAMPLE < pairs.len() {
            // Spread over the pairs by a step that shares no factor with round numbers of ranks.
            let pick = |i: usize| pairs[(i * pairs.len() / SAMPLE + 37 * i) % pairs.len()];
            let hops = |(src, dst, lane): (u32, u32, Lane)| {
                let route = site.find_route(src, dst, lane);
                route.map_or(0, |route| route.parts.iter().map(|part| part.hops.len()).sum::<usize>())
            };
            let sampled: usize = (0..SAMPLE).map(|i| hops(pick(i))).sum();
            site.check_hops((sampled as u64).saturating_mul(pairs.len() as u64) / SAMPLE as u64)?;
        }
        let routes: Vec<Option<Route>> =
            pairs.par_iter().with_min_len(256).map(|&(src, dst, lane)| site.find_route(src, dst, lane)).collect();
        let mut start = vec![0_u32; site.n as usize + 1];
        let mut entries = Vec::with_capacity(pairs.len());
        for (&(src, dst, lane), route) in pairs.iter().zip(routes) {
            let route = route.ok_or_else(|| site.no_route(src, dst))?;
            entries.push((dst, lane, paths.intern(route)));
            start[src as usize + 1] += 1;
        }
        for index in 0..site.n as usize {
            start[index + 1] += start[index];
        }
        Ok(Self { start, entries })
    }

    /// The path of a pair that the table was made for.
    pub fn path(&self, src: u32, dst: u32, lane: Lane) -> Path {
        let row = &self.entries[self.start[src as usize] as usize..self.start[src as usize + 1] as usize];
        let found = if row.len() <= 8 {
            row.iter().position(|&(d, l, _)| d == dst && l == lane)
        } else {
            row.binary_search_by_key(&(dst, lane), |&(d, l, _)| (d, l)).ok()
        };
        let entry = found.expect("a builder asks for the pairs that it named");
        Path::route(row[entry].2)
    }
}

/// The working vector of a collective: one place for each (position, slot of the vector), which holds the partial or
/// final value of that slot there.
///
/// The vector is the whole buffer: k slots for all_reduce, broadcast and reduce, n·k for all_gather and
/// reduce_scatter.
pub(crate) struct Vector {
    mode: Mode,
    /// Slots of the vector.
    pub slots: u32,
    /// Slots that belong to one position (reduce_scatter, all_gather); all of them otherwise.
    block: u32,
    /// Positions whose contribution is read from the input as long as nothing was added: bit set = was added to.
    touched: Option<Touched>,
}

/// Which slots of which position receive sums.
pub(crate) struct Touched {
    words: usize,
    bits: Vec<u64>,
}

impl Touched {
    pub fn new(n: u32, slots: u32) -> Self {
        let words = (slots as usize).div_ceil(64);
        Self { words, bits: vec![0; words * n as usize] }
    }

    pub fn set(&mut self, position: u32, slot: u32, count: u32) {
        for slot in slot..slot + count {
            self.bits[position as usize * self.words + slot as usize / 64] |= 1 << (slot % 64);
        }
    }

    pub fn get(&self, position: u32, slot: u32) -> bool {
        self.bits[position as usize * self.words + slot as usize / 64] >> (slot % 64) & 1 == 1
    }
}

enum Mode {
    /// Everything in the output.
    Output,
    /// Everything in the input, which is the output too.
    Input,
    /// The own block in the output, the rest in the input.
    OwnOutput,
    /// The own block in the output, what is added to in scratch: (position, slot) → scratch slot.
    Scratch(Vec<Vec<u32>>),
    /// The root in the output, the others in scratch.
    RootOutput { root: u32, index: Vec<Vec<u32>> },
    /// The root in the output, the others in the input.
    RootInput { root: u32 },
}

impl Vector {
    /// The vector of the collective at `chunks`. `touched` says where sums arrive; it is needed for collectives that
    /// reduce out of place.
    pub fn new(site: &Site, chunks: u32, touched: Option<Touched>) -> Self {
        let n = site.n;
        let keeps = site.keeps_input();
        let in_place = site.collective.in_place();
        let numbered = |slots: u32, own: &dyn Fn(u32, u32) -> bool, touched: &Touched| -> Vec<Vec<u32>> {
            (0..n)
                .map(|position| {
                    let mut next = 0;
                    (0..slots)
                        .map(|slot| {
                            let here = next;
                            if touched.get(position, slot) && !own(position, slot) {
                                next += 1;
                            }
                            here
                        })
                        .collect()
                })
                .collect()
        };
        let (mode, slots, block) = match site.kind() {
            CollectiveKind::ReduceScatter => {
                let slots = n * chunks;
                let own = |position: u32, slot: u32| slot / chunks == position;
                let mode = match &touched {
                    _ if in_place => Mode::Input,
                    Some(touched) if keeps => Mode::Scratch(numbered(slots, &own, touched)),
                    _ => Mode::OwnOutput,
                };
                (mode, slots, chunks)
            }
            CollectiveKind::AllGather => (Mode::Output, n * chunks, chunks),
            CollectiveKind::Reduce { root } => {
                let mode = match &touched {
                    _ if in_place => Mode::Output,
                    Some(touched) if keeps => {
                        Mode::RootOutput { root: *root, index: numbered(chunks, &|p, _| p == *root, touched) }
                    }
                    _ => Mode::RootInput { root: *root },
                };
                (mode, chunks, chunks)
            }
            _ => (Mode::Output, chunks, chunks),
        };
        Self { mode, slots, block, touched: touched.filter(|_| !in_place) }
    }

    /// The place of a slot at a position.
    pub fn place(&self, position: u32, slot: u32) -> Place {
        let own = || slot / self.block == position;
        match &self.mode {
            Mode::Output => Place::output(slot),
            Mode::Input => Place::input(slot),
            Mode::OwnOutput if own() => Place::output(slot % self.block),
            Mode::OwnOutput => Place::input(slot),
            Mode::Scratch(_) if own() => Place::output(slot % self.block),
            Mode::Scratch(index) => Place::scratch(index[position as usize][slot as usize]),
            Mode::RootOutput { root, .. } | Mode::RootInput { root } if *root == position => Place::output(slot),
            Mode::RootOutput { index, .. } => Place::scratch(index[position as usize][slot as usize]),
            Mode::RootInput { .. } => Place::input(slot),
        }
    }

    /// Whether the position's value of the slot is still its untouched input when it sends it on to be summed.
    fn reads_input(&self, position: u32, slot: u32) -> bool {
        self.touched.as_ref().is_some_and(|touched| !touched.get(position, slot)) && !self.is_end(position, slot)
    }

    /// Whether the value ends up here.
    fn is_end(&self, position: u32, slot: u32) -> bool {
        match &self.mode {
            Mode::OwnOutput | Mode::Scratch(_) => slot / self.block == position,
            Mode::RootOutput { root, .. } | Mode::RootInput { root } => *root == position,
            Mode::Output | Mode::Input => false,
        }
    }

    /// Where a sum's contribution is read at a position.
    pub fn source(&self, position: u32, slot: u32) -> Place {
        if self.reads_input(position, slot) { Place::input(slot) } else { self.place(position, slot) }
    }

    /// Whether all slots of all positions follow each other in one buffer.
    fn is_contiguous(&self, op: FlowOp) -> bool {
        matches!(self.mode, Mode::Output | Mode::Input) && (op == FlowOp::Copy || self.touched.is_none())
    }

    /// The flows that carry slots `slot … + count` from one position to the same slots of another.
    pub fn transfer(
        &self,
        site: &Site,
        src: u32,
        dst: u32,
        run: (u32, u32),
        op: FlowOp,
        path: Path,
        out: &mut Vec<Flow>,
    ) {
        let (slot, count) = run;
        let read = |s: u32| if op == FlowOp::Reduce { self.source(src, s) } else { self.place(src, s) };
        if count == 1 || self.is_contiguous(op) {
            out.push(site.flow((src, read(slot)), (dst, self.place(dst, slot)), count, op, path));
            return;
        }
        for_runs(
            slot,
            count,
            |s| (read(s), self.place(dst, s)),
            |(from, to), count| {
                out.push(site.flow((src, from), (dst, to), count, op, path));
            },
        );
    }

    /// Local copies that put each position's own contribution where the algorithm works on it, and the scratch table.
    pub fn setup(&self, site: &Site) -> (Vec<Flow>, Vec<Vec<(u32, Place)>>) {
        let mut flows = Vec::new();
        let mut scratch = vec![Vec::new(); site.n as usize];
        if site.collective.in_place() {
            return (flows, scratch);
        }
        match site.kind() {
            CollectiveKind::AllGather => {
                for position in 0..site.n {
                    let to = Place::output(position * self.block);
                    flows.push(site.local(position, Place::input(0), to, self.block, FlowOp::Copy));
                }
            }
            CollectiveKind::Broadcast { root } => {
                flows.push(site.local(*root, Place::input(0), Place::output(0), self.slots, FlowOp::Copy));
            }
            _ => {
                for position in 0..site.n {
                    for slot in 0..self.slots {
                        if self.place(position, slot).buffer() == Buffer::Scratch && !self.reads_input(position, slot) {
                            scratch[position as usize].push((position, Place::input(slot)));
                        }
                    }
                    let ends = |slot| (Place::input(slot), self.source(position, slot));
                    for_runs(0, self.slots, ends, |(from, to), count| {
                        if from != to {
                            flows.push(site.local(position, from, to, count, FlowOp::Copy));
                        }
                    });
                }
            }
        }
        (flows, scratch)
    }
}

/// Calls `emit` for each longest run of slots whose two places follow each other.
pub(crate) fn for_runs(
    first: u32,
    count: u32,
    ends: impl Fn(u32) -> (Place, Place),
    mut emit: impl FnMut((Place, Place), u32),
) {
    let mut slot = first;
    while slot < first + count {
        let start = ends(slot);
        let mut length = 1;
        while slot + length < first + count && ends(slot + length) == (start.0.offset(length), start.1.offset(length)) {
            length += 1;
        }
        emit(start, length);
        slot += length;
    }
}

/// Adds a flow, or lengthens the last one if this one continues it at both ends.
pub(crate) fn push_merged(flows: &mut Vec<Flow>, flow: Flow) {
    if let Some(last) = flows.last_mut() {
        let next = Flow {
            src_place: last.src_place.offset(last.count),
            dst_place: last.dst_place.offset(last.count),
            count: flow.count,
            ..*last
        };
        if next == flow {
            last.count += flow.count;
            return;
        }
    }
    flows.push(flow);
}
