//! Schedules: steps of flows over interned routes.
//!
//! A schedule is plain data. Nothing here is trusted: `verify` checks every sentence of this page on the result.
//!
//! - All flows of a step read the state from before it; their writes land together at its end.
//! - With [`Schedule::dependencies`] the barriers between steps are gone: a flow may start when all that it waits for have
//!   ended, and steps are only a way to write flows down. Dependencies point from a lower to a higher flow number.
//! - A place may be written twice in one step only by `reduce` flows; these add in order of (source rank, source place).
//! - Reading an undefined place, or reducing into one, is an error.
//! - Slots of source and destination agree in elements, one by one.

use indexmap::IndexSet;
use num_rational::Ratio;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::collective::{Buffer, Place};
use crate::index::{DeviceId, FlowId, GeneratorId, GroupId, NodeId, RankId, RouteId, StepId, TreeId};
use crate::problem::Problem;
use crate::topology::{Configuration, Hop};

/// What a flow does at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowOp {
    /// Replaces what is there.
    Copy,
    /// Adds to what is there.
    Reduce,
}

/// How a flow travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathKind {
    /// Within the rank.
    Local,
    /// From one rank to another.
    Route(RouteId),
    /// From one rank to many; each link of the tree is loaded once.
    Multicast(TreeId),
    /// From many ranks to one, added on the way; each link of the tree is loaded once.
    Aggregate(TreeId),
}

/// A [`PathKind`] in 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(u32);

impl Path {
    /// No path: local work.
    pub const LOCAL: Self = Self(0);
    const LIMIT: u32 = 1 << 30;

    /// Packs a kind.
    ///
    /// # Panics
    /// If the id is 2³⁰ or more.
    #[must_use]
    pub fn new(kind: PathKind) -> Self {
        let (tag, id) = match kind {
            PathKind::Local => (0, 0),
            PathKind::Route(route) => (1, route.number()),
            PathKind::Multicast(tree) => (2, tree.number()),
            PathKind::Aggregate(tree) => (3, tree.number()),
        };
        assert!(id < Self::LIMIT, "more than 2^30 routes");
        Self(tag << 30 | id)
    }

    /// Along a route.
    #[must_use]
    pub fn route(route: RouteId) -> Self {
        Self::new(PathKind::Route(route))
    }

    /// Unpacks it.
    #[must_use]
    pub fn kind(self) -> PathKind {
        let id = self.0 & (Self::LIMIT - 1);
        match self.0 >> 30 {
            0 => PathKind::Local,
            1 => PathKind::Route(RouteId::from(id)),
            2 => PathKind::Multicast(TreeId::from(id)),
            _ => PathKind::Aggregate(TreeId::from(id)),
        }
    }

    /// Whether it is local work.
    #[must_use]
    pub const fn is_local(self) -> bool {
        self.0 >> 30 == 0
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind().fmt(f)
    }
}

/// One transfer of a step: 32 bytes.
///
/// Slots `src_place … + count` at `src` go to `dst_place … + count` at `dst`.
/// A multicast writes `dst_place` at every leaf of its tree, and `dst` is the first leaf; an aggregation reads
/// `src_place` at every leaf (source) of its tree, and `src` is the first one; what arrives is the sum of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Source rank.
    pub src: RankId,
    /// Destination rank.
    pub dst: RankId,
    /// First source slot.
    pub src_place: Place,
    /// First destination slot.
    pub dst_place: Place,
    /// Number of slots, at least 1.
    pub count: u32,
    /// How it travels.
    pub path: Path,
    /// Whose buffers.
    pub group: GroupId,
    /// Copy or reduce.
    pub op: FlowOp,
}

impl Flow {
    /// A unicast flow of the first group.
    #[must_use]
    pub fn unicast(src: (RankId, Place), dst: (RankId, Place), count: u32, op: FlowOp, route: RouteId) -> Self {
        Self {
            src: src.0,
            dst: dst.0,
            src_place: src.1,
            dst_place: dst.1,
            count,
            path: Path::route(route),
            group: GroupId::new(0),
            op,
        }
    }

    /// Local work of the first group.
    #[must_use]
    pub fn local(rank: RankId, src_place: Place, dst_place: Place, count: u32, op: FlowOp) -> Self {
        Self { src: rank, dst: rank, src_place, dst_place, count, path: Path::LOCAL, group: GroupId::new(0), op }
    }
}

/// A part of a route: a share of the data and the way it takes.
#[derive(Clone, Debug, Eq, Hash)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal shares have equal hashes, also those with denominator 0")]
pub struct RoutePart {
    /// Share of the data; the shares of a route add up to 1.
    pub weight: Ratio<u64>,
    /// The way, from the source's node to the destination's.
    pub hops: Vec<Hop>,
}

/// Shares are equal as numbers. One that is none, with denominator 0, is refused by the verifier, and until then equal to
/// itself only; `Ratio` would divide by it.
impl PartialEq for RoutePart {
    fn eq(&self, other: &Self) -> bool {
        let parts = |weight: &Ratio<u64>| (*weight.numer(), *weight.denom());
        let (a, b) = (parts(&self.weight), parts(&other.weight));
        let number = a.1 != 0 && b.1 != 0;
        (if number { self.weight == other.weight } else { a == b }) && self.hops == other.hops
    }
}

/// A way from node to node, possibly split.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Its parts, in the order in which they cut the data.
    pub parts: Vec<RoutePart>,
}

impl Route {
    /// A route that is not split.
    #[must_use]
    pub fn single(hops: Vec<Hop>) -> Self {
        Self { parts: vec![RoutePart { weight: Ratio::new_raw(1, 1), hops }] }
    }

    /// Elements that each part carries when the flow has `elements`: cut at ⌊E·(w₁+…+w_i)⌋.
    pub fn cut(&self, elements: u64) -> impl Iterator<Item = u64> + '_ {
        let mut sum = Ratio::new_raw(0_u128, 1);
        let mut before = 0_u64;
        self.parts.iter().map(move |part| {
            sum += Ratio::new(u128::from(*part.weight.numer()), u128::from(*part.weight.denom()));
            let exact = u128::from(elements) * sum.numer() / sum.denom();
            let until = u64::try_from(exact).unwrap_or(u64::MAX);
            let share = until.saturating_sub(before);
            before = until;
            share
        })
    }
}

/// A multicast or aggregation tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// Its hops, in any order; directed away from the root for multicast, towards it for aggregation.
    pub hops: Vec<Hop>,
    /// Ranks at its leaves: destinations of a multicast, sources of an aggregation.
    pub leaves: Vec<RankId>,
}

impl Tree {
    /// Nodes at which the tree branches: there a multicast is copied or an aggregation added.
    #[must_use]
    pub fn branch_nodes(&self, topology: &crate::topology::Topology, aggregate: bool) -> Vec<NodeId> {
        let mut ends: Vec<NodeId> =
            self.hops.iter().map(|&hop| if aggregate { topology.ends(hop).1 } else { topology.ends(hop).0 }).collect();
        ends.sort_unstable();
        let mut branches: Vec<NodeId> = ends.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        branches.dedup();
        branches
    }
}

/// Interned routes and trees of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    routes: IndexSet<Route, FxBuildHasher>,
    trees: IndexSet<Tree, FxBuildHasher>,
}

impl Paths {
    /// The id of the route, new or known.
    pub fn intern(&mut self, route: Route) -> RouteId {
        RouteId::new(self.routes.insert_full(route).0)
    }

    /// The id of the tree, new or known.
    pub fn intern_tree(&mut self, tree: Tree) -> TreeId {
        TreeId::new(self.trees.insert_full(tree).0)
    }

    /// The route, if the id exists.
    #[must_use]
    pub fn get(&self, route: RouteId) -> Option<&Route> {
        self.routes.get_index(route.index())
    }

    /// The tree, if the id exists.
    #[must_use]
    pub fn get_tree(&self, tree: TreeId) -> Option<&Tree> {
        self.trees.get_index(tree.index())
    }

    /// All routes in id order.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = &Route> {
        self.routes.iter()
    }

    /// All trees in id order.
    pub fn trees(&self) -> impl ExactSizeIterator<Item = &Tree> {
        self.trees.iter()
    }
}

/// A symmetry that makes flows from a representative: it maps ranks, places and paths.
///
/// A flow's image has the images of its ranks, of its first places and of its path, and the same count, operation and
/// group. `verify` checks that each generator is an automorphism of topology, circuits, placement and collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    /// Rank → rank, a permutation.
    pub ranks: Vec<RankId>,
    /// Per group: slot → slot for input, output and scratch, each a permutation.
    pub slots: Vec<[Vec<u32>; 3]>,
    /// Route → route.
    pub routes: Vec<RouteId>,
    /// Tree → tree.
    pub trees: Vec<TreeId>,
}

impl Generator {
    /// The image of a flow; `None` if an index is outside the generator's tables.
    #[must_use]
    pub fn apply(&self, flow: &Flow) -> Option<Flow> {
        let slots = self.slots.get(flow.group.index())?;
        let place = |place: Place| -> Option<Place> {
            let table = match place.buffer() {
                Buffer::Input => &slots[0],
                Buffer::Output => &slots[1],
                Buffer::Scratch => &slots[2],
            };
            let image = *table.get(place.slot() as usize)?;
            (image < Place::SLOT_LIMIT).then(|| Place::new(place.buffer(), image))
        };
        let path = match flow.path.kind() {
            PathKind::Local => PathKind::Local,
            PathKind::Route(route) => PathKind::Route(*self.routes.get(route.index())?),
            PathKind::Multicast(tree) => PathKind::Multicast(*self.trees.get(tree.index())?),
            PathKind::Aggregate(tree) => PathKind::Aggregate(*self.trees.get(tree.index())?),
        };
        Some(Flow {
            src: *self.ranks.get(flow.src.index())?,
            dst: *self.ranks.get(flow.dst.index())?,
            src_place: place(flow.src_place)?,
            dst_place: place(flow.dst_place)?,
            path: Path::new(path),
            ..*flow
        })
    }
}

/// The flows of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowSet {
    /// Every flow by itself.
    Rows(Vec<Flow>),
    /// Representatives and the generators that act on them: the flows are all images, each once.
    Orbits {
        /// One flow of each orbit.
        representatives: Vec<Flow>,
        /// Which generators act.
        generators: Vec<GeneratorId>,
    },
}

impl Default for FlowSet {
    fn default() -> Self {
        Self::Rows(Vec::new())
    }
}

/// A step: circuits change first, then all flows run at once.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Step {
    /// Devices that are set before the flows, and to what; devices in order, none twice.
    pub reconfigure: Vec<(DeviceId, Configuration)>,
    /// The flows.
    pub flows: FlowSet,
}

impl Step {
    /// A step of these flows without reconfiguration.
    #[must_use]
    pub fn new(flows: Vec<Flow>) -> Self {
        Self { reconfigure: Vec::new(), flows: FlowSet::Rows(flows) }
    }
}

/// Explicit order instead of barriers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Dependencies {
    /// (before, after), before < after, sorted, without duplicates.
    pub pairs: Vec<(FlowId, FlowId)>,
}

/// Scratch slots of one group: the size of each, per rank of the group.
///
/// `like[position][slot]` names an input or output place of that same position whose number of elements the slot has,
/// or of another position.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Scratch {
    /// Per position: elements of each scratch slot, given by a place of the collective that is as large.
    pub like: Vec<Vec<(u32, Place)>>,
}

/// A schedule. See the module's page for what it means.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Which algorithm made it, for reports.
    pub algorithm: String,
    /// Per group: chunks a block ([`crate::collective::Collective::layout`]).
    pub chunks: Vec<u32>,
    /// Per group: its scratch slots; empty tables where there are none.
    pub scratch: Vec<Scratch>,
    /// Interned routes and trees.
    pub paths: Paths,
    /// Symmetry generators, by [`GeneratorId`].
    pub generators: Vec<Generator>,
    /// The steps.
    pub steps: Vec<Step>,
    /// `None`: a barrier after each step.
    pub dependencies: Option<Dependencies>,
    /// The configuration of each device that the schedule claims to leave behind; empty without devices.
    pub leaves_circuits: Vec<Configuration>,
}

impl Schedule {
    /// An empty schedule for the problem's groups, each at its chunk count, without scratch; leaves the circuits as they
    /// are.
    #[must_use]
    pub fn new(algorithm: impl Into<String>, problem: &Problem, chunks: Vec<u32>) -> Self {
        Self {
            algorithm: algorithm.into(),
            scratch: vec![Scratch::default(); chunks.len()],
            chunks,
            leaves_circuits: problem.circuits().to_vec(),
            ..Self::default()
        }
    }

    /// Scratch slots of a position of a group.
    #[must_use]
    pub fn scratch_slots(&self, group: GroupId, position: u32) -> u32 {
        let slots = self.scratch.get(group.index()).and_then(|s| s.like.get(position as usize)).map_or(0, Vec::len);
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// The flows of a step in flow order: representatives in order, each followed by its images in the order in which
    /// breadth-first application of the generators finds them.
    ///
    /// A representative whose image is outside a generator's tables ends its orbit there; `verify` refuses such a schedule.
    #[must_use]
    pub fn flows(&self, step: StepId) -> FlowIter<'_> {
        match &self.steps[step.index()].flows {
            FlowSet::Rows(rows) => FlowIter(Inner::Rows(rows.iter())),
            FlowSet::Orbits { representatives, generators } => {
                // A generator that is named again adds nothing but work.
                let mut named = FxHashSet::default();
                let generators = generators
                    .iter()
                    .filter(|&&g| named.insert(g))
                    .filter_map(|g| self.generators.get(g.index()))
                    .collect();
                FlowIter(Inner::Orbits(Box::new(OrbitIter {
                    representatives: representatives.iter(),
                    generators,
                    queue: Vec::new(),
                    next: 0,
                    seen: FxHashSet::default(),
                })))
            }
        }
    }

    /// All flows with their step, in flow order; the position in this iteration is the [`FlowId`].
    pub fn all_flows(&self) -> impl Iterator<Item = (StepId, Flow)> + '_ {
        (0..self.steps.len()).map(StepId::new).flat_map(|step| self.flows(step).map(move |flow| (step, flow)))
    }

    /// Number of flows.
    ///
    /// # Complexity
    /// Constant a step for rows; orbits are walked.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        (0..self.steps.len())
            .map(|step| match &self.steps[step].flows {
                FlowSet::Rows(rows) => rows.len(),
                FlowSet::Orbits { .. } => self.flows(StepId::new(step)).count(),
            })
            .sum()
    }

    /// Number of flows, or `None` if there are more than `limit`.
    ///
    /// A few generators can stand for very many flows, so whoever walks the flows of a schedule that is not trusted asks
    /// here first.
    ///
    /// # Complexity
    /// Constant a step for rows. Orbits are walked up to the limit, with memory for as many flows: about 128 bytes each.
    #[must_use]
    pub fn flow_count_at_most(&self, limit: usize) -> Option<usize> {
        // What costs nothing comes first: rows alone may be too many.
        let rows = |step: &Step| match &step.flows {
            FlowSet::Rows(rows) => rows.len(),
            FlowSet::Orbits { .. } => 0,
        };
        let mut left = limit.checked_sub(self.steps.iter().map(rows).sum())?;
        for (index, step) in self.steps.iter().enumerate() {
            if matches!(step.flows, FlowSet::Orbits { .. }) {
                let count = self.flows(StepId::new(index)).take(left.saturating_add(1)).count();
                left = left.checked_sub(count)?;
            }
        }
        Some(limit - left)
    }
}

/// Iterates over the flows of a step.
pub struct FlowIter<'a>(Inner<'a>);

enum Inner<'a> {
    Rows(std::slice::Iter<'a, Flow>),
    Orbits(Box<OrbitIter<'a>>),
}

struct OrbitIter<'a> {
    representatives: std::slice::Iter<'a, Flow>,
    generators: Vec<&'a Generator>,
    queue: Vec<Flow>,
    next: usize,
    seen: FxHashSet<Flow>,
}

impl Iterator for OrbitIter<'_> {
    type Item = Flow;
    fn next(&mut self) -> Option<Flow> {
        while self.next == self.queue.len() {
            let &representative = self.representatives.next()?;
            self.queue.clear();
            self.next = 0;
            if self.seen.insert(representative) {
                self.queue.push(representative);
            }
        }
        let flow = self.queue[self.next];
        self.next += 1;
        for generator in &self.generators {
            if let Some(image) = generator.apply(&flow)
                && self.seen.insert(image)
            {
                self.queue.push(image);
            }
        }
        Some(flow)
    }
}

impl Iterator for FlowIter<'_> {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        match &mut self.0 {
            Inner::Rows(rows) => rows.next().copied(),
            Inner::Orbits(orbits) => orbits.next(),
        }
    }

    fn fold<B, F: FnMut(B, Flow) -> B>(self, init: B, f: F) -> B {
        match self.0 {
            Inner::Rows(rows) => rows.copied().fold(init, f),
            Inner::Orbits(orbits) => orbits.fold(init, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_small() {
        assert_eq!(std::mem::size_of::<Flow>(), 32);
    }

    #[test]
    fn shares_that_are_no_numbers_can_be_compared() {
        let part = |numer, denom| RoutePart { weight: Ratio::new_raw(numer, denom), hops: Vec::new() };
        assert_eq!(part(1, 2), part(2, 4));
        assert_ne!(part(1, 2), part(1, 3));
        assert_eq!(part(1, 0), part(1, 0));
        assert_ne!(part(1, 0), part(2, 0));
        assert_ne!(part(1, 0), part(0, 1));
        let mut paths = Paths::default();
        let route = |numer| Route { parts: vec![part(numer, 0)] };
        assert_eq!(paths.intern(route(1)), paths.intern(route(1)));
        assert_ne!(paths.intern(route(1)), paths.intern(route(2)));
    }

    #[test]
    fn split_routes_cut_whole_elements_that_add_up() {
        let part = |weight| RoutePart { weight, hops: Vec::new() };
        let route = Route { parts: vec![part(Ratio::new(1, 3)), part(Ratio::new(1, 3)), part(Ratio::new(1, 3))] };
        assert_eq!(route.cut(10).collect::<Vec<_>>(), [3, 3, 4]);
        assert_eq!(route.cut(0).collect::<Vec<_>>(), [0, 0, 0]);
    }

    #[test]
    fn orbits_list_each_image_once() {
        let n = 5;
        let rotate = |r: u32| (r + 1) % n;
        let generator = Generator {
            ranks: (0..n).map(|r| RankId::from(rotate(r))).collect(),
            slots: vec![[Vec::new(), (0..n).map(rotate).collect(), Vec::new()]],
            routes: (0..n).map(|r| RouteId::from(rotate(r))).collect(),
            trees: Vec::new(),
        };
        let first = Flow::unicast(
            (RankId::new(0), Place::output(0)),
            (RankId::new(1), Place::output(0)),
            1,
            FlowOp::Copy,
            RouteId::new(0),
        );
        let schedule = Schedule {
            generators: vec![generator],
            steps: vec![Step {
                reconfigure: Vec::new(),
                flows: FlowSet::Orbits { representatives: vec![first, first], generators: vec![GeneratorId::new(0)] },
            }],
            ..Schedule::default()
        };
        let flows: Vec<_> = schedule.flows(StepId::new(0)).collect();
        assert_eq!(flows.len(), 5);
        for (r, flow) in flows.iter().enumerate() {
            assert_eq!((flow.src.index(), flow.dst.index(), flow.src_place.slot() as usize), (r, (r + 1) % 5, r));
        }
        assert_eq!(schedule.flow_count(), 5);
        assert_eq!([4, 5, usize::MAX].map(|limit| schedule.flow_count_at_most(limit)), [None, Some(5), Some(5)]);
    }

    #[test]
    fn counting_stops_at_the_limit() {
        // Rotations of the slots at either end: all 2³² pairs, were they walked.
        let n = 1 << 16;
        let rotate = |on: bool| -> Vec<u32> { (0..n).map(|slot| if on { (slot + 1) % n } else { slot }).collect() };
        let generator = |input| Generator {
            ranks: vec![RankId::new(0)],
            slots: vec![[rotate(input), rotate(!input), Vec::new()]],
            routes: Vec::new(),
            trees: Vec::new(),
        };
        let flow = Flow::local(RankId::new(0), Place::input(0), Place::output(0), 1, FlowOp::Copy);
        let generators = vec![GeneratorId::new(0), GeneratorId::new(1)];
        let schedule = Schedule {
            generators: vec![generator(true), generator(false)],
            steps: vec![
                Step::new(vec![flow; 10]),
                Step { reconfigure: Vec::new(), flows: FlowSet::Orbits { representatives: vec![flow], generators } },
            ],
            ..Schedule::default()
        };
        assert_eq!(schedule.flow_count_at_most(9), None);
        assert_eq!(schedule.flow_count_at_most(100_000), None);
    }
}
