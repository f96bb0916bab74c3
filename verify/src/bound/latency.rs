//! The cheapest way of the dearest pair.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use num_bigint::BigInt;
use num_rational::BigRational;
use rondo_ir::index::{NodeId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::units::Time;

use super::demand::Demand;
use super::graph::Graph;
use super::{BoundError, LatencyBound, names};

/// Arc visits that the search may take; beyond it, only evenly spaced sources are tried, which is still a bound.
const WORK: usize = 40_000_000;

/// (femtoseconds, flows): the least cost, and the fewest flows at that cost.
type Cost = (u128, u32);

pub(super) fn dearest(problem: &Problem, graph: &Graph, demands: &[Demand]) -> Result<LatencyBound, BoundError> {
    let startup = u128::from(problem.cost().startup.femtoseconds());
    let mut sources: Vec<(usize, usize)> = Vec::new();
    for (group, demand) in demands.iter().enumerate() {
        sources.extend((0..demand.nodes.len()).map(|position| (group, position)));
    }
    let each = graph.arcs.len() + 16 * graph.vertices + 1;
    let affordable = (WORK / each).max(8);
    let tried: Vec<(usize, usize)> = if affordable < sources.len() {
        (0..affordable).map(|index| sources[index * sources.len() / affordable]).collect()
    } else {
        sources
    };
    let mut best: Option<(Cost, usize, usize)> = None;
    for (group, from) in tried {
        let demand = &demands[group];
        let targets = demand.reaches(from);
        if targets.is_empty() {
            continue;
        }
        let cost = cheapest(problem, graph, demand.nodes[from], startup);
        for to in targets {
            let Some(found) = cost[demand.nodes[to]] else {
                return Err(unreachable(problem, graph, demands, &cost));
            };
            if best.is_none_or(|(known, _, _)| known < found) {
                best = Some((found, demand.nodes[from], demand.nodes[to]));
            }
        }
    }
    let time = |femtoseconds: u128| {
        let scale = BigInt::from(1_000_000_000_000_000_u64);
        Time::from_seconds(BigRational::new(BigInt::from(femtoseconds), scale))
    };
    let pair = best.and_then(|(cost, from, to)| {
        Some((cost, problem.rank_on(NodeId::new(from))?, problem.rank_on(NodeId::new(to))?))
    });
    let Some(((cost, steps), from, to)) = pair else {
        return Ok(LatencyBound {
            time: Time::zero(),
            steps: 0,
            startup: Time::zero(),
            propagation: Time::zero(),
            pair: None,
            way: "no two ranks must communicate".to_owned(),
        });
    };
    let startups = startup * u128::from(steps);
    let plural = if steps == 1 { "" } else { "s" };
    Ok(LatencyBound {
        time: time(cost),
        steps,
        startup: time(startups),
        propagation: time(cost - startups),
        pair: Some((from, to)),
        way: format!("from {} to {}, {steps} step{plural}", names(problem, &[from]), names(problem, &[to])),
    })
}

/// What it costs at least to bring data from a rank's node to every vertex.
fn cheapest(problem: &Problem, graph: &Graph, from: usize, startup: u128) -> Vec<Option<Cost>> {
    let topology = problem.topology();
    let mut cost: Vec<Option<Cost>> = vec![None; graph.vertices];
    let mut heap = BinaryHeap::new();
    cost[from] = Some((0, 0));
    heap.push(Reverse(((0, 0), from)));
    while let Some(Reverse((at_cost, at))) = heap.pop() {
        if cost[at] != Some(at_cost) {
            continue;
        }
        // Leaving a rank's node begins a flow, unless the node forwards the one that came in.
        let forwards = graph.nodes <= at || topology.nodes()[at].forwards;
        let begin = if at == from || (!forwards && graph.hosts[at]) {
            (startup, 1)
        } else if forwards {
            (0, 0)
        } else {
            continue;
        };
        for &number in &graph.out[at] {
            let arc = &graph.arcs[number as usize];
            let next = (at_cost.0 + begin.0 + u128::from(arc.latency), at_cost.1 + begin.1);
            if cost[arc.dst].is_none_or(|known| next < known) {
                cost[arc.dst] = Some(next);
                heap.push(Reverse((next, arc.dst)));
            }
        }
    }
    cost
}

fn unreachable(problem: &Problem, graph: &Graph, demands: &[Demand], cost: &[Option<Cost>]) -> BoundError {
    let ranks: Vec<RankId> =
        (0..problem.rank_count()).map(RankId::new).filter(|&r| cost[problem.node_of(r).index()].is_some()).collect();
    let inside = |node: usize| node < graph.nodes && cost[node].is_some();
    let bytes = demands.iter().map(|demand| demand.across(inside)).sum();
    BoundError::Disconnected { cut: format!("out of {}", names(problem, &ranks)), bytes }
}
