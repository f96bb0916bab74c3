//! Worlds for the tests: small problems with a link between every pair of ranks, a switch that can copy and add, and schedules
//! written by hand.
#![allow(dead_code)]

use std::sync::Arc;

use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::{GroupId, LinkId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, Path, PathKind, Route, Schedule, Step, Tree};
use rondo_ir::topology::{Hop, Node, Topology, TopologyBuilder};
use rondo_ir::units::{Bytes, Delay, Rate};
use rondo_verify::{Answer, Options, Outcome, verify_schedule};

pub fn rank(r: u32) -> RankId {
    RankId::from(r)
}

pub fn rate(gb: u64) -> Rate {
    Rate::new(gb * 1_000_000_000).unwrap()
}

/// Nodes `n0 …`, each linked to every other and to the switch `sw` in both directions.
pub fn mesh(n: u32) -> TopologyBuilder {
    let mut builder = TopologyBuilder::new("mesh");
    let nodes: Vec<_> = (0..n).map(|r| builder.node(Node::compute(format!("n{r}")))).collect();
    let switch = builder.node(Node { multicasts: true, reduces: true, ..Node::switch("sw") });
    for &a in &nodes {
        for &b in &nodes {
            if a != b {
                builder.link(a, b, rate(1), Delay::from_nanoseconds(100));
            }
        }
    }
    for &a in &nodes {
        builder.cable(a, switch, rate(1), Delay::from_nanoseconds(200));
    }
    builder
}

pub fn spec(kind: CollectiveKind, ranks: u32, elements: u64, in_place: bool) -> CollectiveSpec {
    CollectiveSpec {
        kind,
        ranks,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(elements * 4),
        in_place,
        input_writable: false,
    }
}

pub fn problem(spec: CollectiveSpec) -> Arc<Problem> {
    let topology = Arc::new(mesh(spec.ranks).finish().unwrap());
    Arc::new(Problem::single(topology, Collective::new(spec).unwrap(), CostModel::FREE).unwrap())
}

pub fn link_between(topology: &Topology, src: &str, dst: &str) -> LinkId {
    let (src, dst) = (topology.node_named(src).unwrap(), topology.node_named(dst).unwrap());
    *topology.links_from(src).iter().find(|&&l| topology.link(l).dst == dst).unwrap()
}

/// Builds flows over the direct links of a mesh.
pub struct Builder<'a> {
    pub problem: &'a Problem,
    pub schedule: Schedule,
}

impl<'a> Builder<'a> {
    pub fn new(problem: &'a Problem, chunks: u32) -> Self {
        let schedule = Schedule::new("by hand", problem, vec![chunks; problem.groups().len()]);
        Self { problem, schedule }
    }

    pub fn name(&self, r: u32) -> String {
        let topology = self.problem.topology();
        topology.node(self.problem.node_of(rank(r))).name.clone()
    }

    pub fn path(&mut self, src: u32, dst: u32) -> Path {
        if src == dst {
            return Path::LOCAL;
        }
        let link = link_between(self.problem.topology(), &self.name(src), &self.name(dst));
        Path::route(self.schedule.paths.intern(Route::single(vec![Hop::Link(link)])))
    }

    pub fn flow(&mut self, src: (u32, Place), dst: (u32, Place), count: u32, op: FlowOp) -> Flow {
        Flow {
            src: rank(src.0),
            dst: rank(dst.0),
            src_place: src.1,
            dst_place: dst.1,
            count,
            path: self.path(src.0, dst.0),
            group: GroupId::new(0),
            op,
        }
    }

    fn tree(&mut self, root: u32, leaves: &[u32], aggregate: bool) -> Tree {
        let topology = self.problem.topology();
        let mut hops = Vec::new();
        let mut add = |r: u32, up: bool| {
            let name = self.name(r);
            let (a, b) = if up { (name.as_str(), "sw") } else { ("sw", name.as_str()) };
            hops.push(Hop::Link(link_between(topology, a, b)));
        };
        add(root, !aggregate);
        for &leaf in leaves {
            add(leaf, aggregate);
        }
        Tree { hops, leaves: leaves.iter().map(|&r| rank(r)).collect() }
    }

    pub fn multicast(&mut self, src: (u32, Place), leaves: &[u32], dst: Place, count: u32, op: FlowOp) -> Flow {
        let tree = self.tree(src.0, leaves, false);
        let tree = self.schedule.paths.intern_tree(tree);
        Flow {
            src: rank(src.0),
            dst: rank(leaves[0]),
            src_place: src.1,
            dst_place: dst,
            count,
            path: Path::new(PathKind::Multicast(tree)),
            group: GroupId::new(0),
            op,
        }
    }

    pub fn aggregate(&mut self, leaves: &[u32], src: Place, dst: (u32, Place), count: u32, op: FlowOp) -> Flow {
        let tree = self.tree(dst.0, leaves, true);
        let tree = self.schedule.paths.intern_tree(tree);
        Flow {
            src: rank(leaves[0]),
            dst: rank(dst.0),
            src_place: src,
            dst_place: dst.1,
            count,
            path: Path::new(PathKind::Aggregate(tree)),
            group: GroupId::new(0),
            op,
        }
    }

    pub fn step(&mut self, flows: Vec<Flow>) {
        self.schedule.steps.push(Step::new(flows));
    }
}

/// Ring AllReduce in place: n−1 steps of reductions, n−1 of copies, over k = n slots.
pub fn ring(problem: &Problem) -> Schedule {
    let n = u32::try_from(problem.rank_count()).unwrap();
    let mut b = Builder::new(problem, n);
    for phase in [FlowOp::Reduce, FlowOp::Copy] {
        for t in 0..n.saturating_sub(1) {
            let flows = (0..n)
                .map(|r| {
                    let first = if phase == FlowOp::Reduce { r } else { r + 1 };
                    let place = Place::output((first + n - t) % n);
                    b.flow((r, place), ((r + 1) % n, place), 1, phase)
                })
                .collect();
            b.step(flows);
        }
    }
    b.schedule
}

/// Recursive doubling AllReduce in place with whole vectors of `k` slots; n a power of two.
pub fn doubling(problem: &Problem, k: u32) -> Schedule {
    let n = u32::try_from(problem.rank_count()).unwrap();
    let mut b = Builder::new(problem, k);
    let mut distance = 1;
    while distance < n {
        let flows = (0..n)
            .map(|r| b.flow((r, Place::output(0)), (r ^ distance, Place::output(0)), k, FlowOp::Reduce))
            .collect();
        b.step(flows);
        distance *= 2;
    }
    b.schedule
}

pub fn verify(problem: &Arc<Problem>, schedule: &Schedule) -> Outcome<Schedule> {
    verify_schedule(Arc::clone(problem), schedule.clone(), &Options::default())
}

/// Verified, or the findings are shown.
pub fn assert_verified(problem: &Arc<Problem>, schedule: &Schedule) {
    let outcome = verify(problem, schedule);
    assert_eq!(outcome.answer(), Answer::Proved, "{:#?} {:#?}", outcome.checks, outcome.findings);
}

/// Codes that were found, each once.
pub fn codes(outcome: &Outcome<Schedule>) -> Vec<&'static str> {
    let mut codes: Vec<_> = outcome.findings.iter().map(|f| f.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}
