//! A problem and a schedule for tests, built by hand.

use std::sync::Arc;

use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::{NodeId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, Route, Schedule, Step};
use rondo_ir::topology::{Hop, Node, TopologyBuilder};
use rondo_ir::units::{Bytes, Delay, Rate};

/// all_reduce sum in place on a one-way ring.
pub(crate) fn all_reduce_problem(n: u32) -> Problem {
    problem(CollectiveKind::AllReduce, n, ReduceOperator::Sum, true)
}

pub(crate) fn problem(kind: CollectiveKind, n: u32, operator: ReduceOperator, in_place: bool) -> Problem {
    let mut builder = TopologyBuilder::new("ring");
    let nodes: Vec<NodeId> = (0..n).map(|i| builder.node(Node::compute(format!("gpu{i}")).forwarding(true))).collect();
    for i in 0..n as usize {
        if 1 < n {
            builder.link(nodes[i], nodes[(i + 1) % n as usize], Rate::new(1_000_000_000).unwrap(), Delay::ZERO);
        }
    }
    let buffer_size = Bytes(u64::from(n) * 64);
    let dtype = DataType::Float32;
    let spec = CollectiveSpec { kind, ranks: n, operator, dtype, buffer_size, in_place, input_writable: false };
    Problem::single(Arc::new(builder.finish().unwrap()), Collective::new(spec).unwrap(), CostModel::FREE).unwrap()
}

pub(crate) fn send(
    schedule: &mut Schedule,
    problem: &Problem,
    (src, from): (u32, Place),
    (dst, to): (u32, Place),
    count: u32,
    op: FlowOp,
) -> Flow {
    let n = u32::try_from(problem.rank_count()).unwrap();
    let hops =
        (0..(dst + n - src) % n).map(|i| Hop::Link(rondo_ir::index::LinkId::new(((src + i) % n) as usize))).collect();
    let route = schedule.paths.intern(Route::single(hops));
    Flow::unicast((RankId::from(src), from), (RankId::from(dst), to), count, op, route)
}

/// Ring all_reduce in place with `lanes` slots a block, moved by one flow (the textbook algorithm).
pub(crate) fn ring_all_reduce(problem: &Problem, lanes: u32) -> Schedule {
    let n = u32::try_from(problem.rank_count()).unwrap();
    let mut schedule = Schedule::new("ring", problem, vec![n * lanes]);
    for t in 0..2 * (n - 1) {
        let op = if t < n - 1 { FlowOp::Reduce } else { FlowOp::Copy };
        let flows = (0..n)
            .map(|r| {
                let block = if t < n - 1 { (r + n - t) % n } else { (r + 1 + n - (t - (n - 1))) % n };
                let place = Place::output(block * lanes);
                send(&mut schedule, problem, (r, place), ((r + 1) % n, place), lanes, op)
            })
            .collect();
        schedule.steps.push(Step::new(flows));
    }
    schedule
}
