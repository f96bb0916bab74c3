//! Helpers of the builder tests: small fabrics, and a slow replay that knows nothing of the builders.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_compiler::fabric::{Fabric, Router, Shape};
use rondo_ir::collective::{
    Buffer, Collective, CollectiveKind, CollectiveSpec, Contribution, DataType, Place, ReduceOperator,
};
use rondo_ir::cost::CostModel;
use rondo_ir::index::{GroupId, NodeId, RankId, StepId, TreeId};
use rondo_ir::problem::{Problem, ProblemSpec};
use rondo_ir::schedule::{FlowOp, PathKind, Route, Schedule, Tree};
use rondo_ir::topology::{Hop, Node, Topology, TopologyBuilder};
use rondo_ir::units::{Bytes, Delay, PerByte, Rate};

/// Shortest ways over forwarding nodes, the first in link order.
#[derive(Debug)]
pub struct Bfs(pub Arc<Topology>);

impl Router for Bfs {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let t = &self.0;
        let mut came: Vec<Option<Hop>> = vec![None; t.nodes().len()];
        let mut queue = VecDeque::from([src]);
        while let Some(node) = queue.pop_front() {
            if node == dst {
                break;
            }
            if node != src && !t.node(node).forwards {
                continue;
            }
            for &link in t.links_from(node) {
                let to = t.link(link).dst;
                if t.link(link).up && to != src && came[to.index()].is_none() {
                    came[to.index()] = Some(Hop::Link(link));
                    queue.push_back(to);
                }
            }
        }
        let mut hops = Vec::new();
        let mut node = dst;
        while node != src {
            let hop = came[node.index()]?;
            hops.push(hop);
            node = t.ends(hop).0;
        }
        hops.reverse();
        Some(Route::single(hops))
    }
}

pub fn rate() -> Rate {
    "50 GB/s".parse().unwrap()
}

pub fn hop() -> Delay {
    "1 us".parse().unwrap()
}

pub fn fabric(builder: TopologyBuilder, shape: Shape) -> Fabric {
    let topology = Arc::new(builder.finish().unwrap());
    Fabric::new(Arc::clone(&topology), shape, Arc::new(Bfs(topology)))
}

fn nodes(builder: &mut TopologyBuilder, n: u32, forwards: bool) -> Vec<NodeId> {
    (0..n).map(|i| builder.node(Node::compute(format!("n{i}")).forwarding(forwards))).collect()
}

pub fn ring(n: u32, both: bool, forwards: bool) -> Fabric {
    let mut b = TopologyBuilder::new(format!("ring of {n}"));
    let nodes = nodes(&mut b, n, forwards);
    for i in 0..n as usize {
        let j = (i + 1) % n as usize;
        if i != j {
            b.link(nodes[i], nodes[j], rate(), hop());
            if both {
                b.link(nodes[j], nodes[i], rate(), hop());
            }
        }
    }
    fabric(b, Shape::Ring { both })
}

pub fn mesh(n: u32) -> Fabric {
    let mut b = TopologyBuilder::new(format!("mesh of {n}"));
    let nodes = nodes(&mut b, n, false);
    for &x in &nodes {
        for &y in &nodes {
            if x != y {
                b.link(x, y, rate(), hop());
            }
        }
    }
    fabric(b, Shape::Mesh)
}

pub fn switch(n: u32) -> Fabric {
    let mut b = TopologyBuilder::new(format!("switch of {n}"));
    let nodes = nodes(&mut b, n, false);
    let s = b.node(Node::switch("s"));
    for &x in &nodes {
        b.cable(x, s, rate(), hop());
    }
    fabric(b, Shape::Switch)
}

/// A path with branches, nobody forwards: general.
pub fn caterpillar(n: u32) -> Fabric {
    let mut b = TopologyBuilder::new(format!("caterpillar of {n}"));
    let nodes = nodes(&mut b, n, false);
    for i in 1..n as usize {
        b.cable(nodes[i], nodes[if i % 2 == 0 { i - 2 } else { i - 1 }], rate(), hop());
    }
    fabric(b, Shape::General)
}

pub fn torus(sides: &[u32]) -> Fabric {
    let mut b = TopologyBuilder::new(format!("torus {sides:?}"));
    let n: u32 = sides.iter().product();
    let nodes = nodes(&mut b, n, true);
    let mut stride = 1;
    for &side in sides {
        for i in 0..n {
            let x = i / stride % side;
            let up = i - x * stride + (x + 1) % side * stride;
            if up != i {
                b.cable(nodes[i as usize], nodes[up as usize], rate(), hop());
            }
        }
        stride *= side;
    }
    fabric(b, Shape::Torus { sides: sides.to_vec() })
}

pub fn hypercube(dimensions: u32) -> Fabric {
    let mut b = TopologyBuilder::new(format!("hypercube {dimensions}"));
    let nodes = nodes(&mut b, 1 << dimensions, true);
    for i in 0..nodes.len() {
        for d in 0..dimensions {
            b.link(nodes[i], nodes[i ^ (1 << d)], rate(), hop());
        }
    }
    fabric(b, Shape::Hypercube { dimensions })
}

/// Machines whose accelerators are on one switch, each with a NIC of its own to a spine.
pub fn hosts(machines: u32, per_host: u32) -> Fabric {
    let mut b = TopologyBuilder::new(format!("{machines} x {per_host}"));
    let nodes = nodes(&mut b, machines * per_host, false);
    let spine = b.node(Node::switch("spine"));
    let slow: Rate = "10 GB/s".parse().unwrap();
    for m in 0..machines {
        let inner = b.node(Node::switch(format!("inner{m}")));
        for g in 0..per_host {
            let gpu = nodes[(m * per_host + g) as usize];
            b.cable(gpu, inner, rate(), hop());
            b.cable(gpu, spine, slow, hop());
        }
    }
    fabric(b, Shape::Hosts { per_host })
}

/// Groups with a fabric of their own on one spine: a link between every pair, or a torus of these sides.
pub fn hybrid(groups: u32, sides: &[u32], mesh: bool) -> Fabric {
    let per: u32 = sides.iter().product();
    let inner = if mesh { self::mesh(per) } else { torus(sides) };
    let mut b = TopologyBuilder::new(format!("{groups} x {}", inner.topology.name()));
    let nodes = nodes(&mut b, groups * per, !mesh);
    for group in 0..groups {
        for link in inner.topology.links() {
            let [src, dst] = [link.src, link.dst].map(|node| nodes[group as usize * per as usize + node.index()]);
            b.link(src, dst, rate(), hop());
        }
    }
    let spine = b.node(Node::switch("spine"));
    for &node in &nodes {
        b.cable(node, spine, "10 GB/s".parse().unwrap(), hop());
    }
    fabric(b, Shape::Hybrid { group: per, inside: Box::new(inner.shape) })
}

pub fn grid(sides: &[u32]) -> Fabric {
    let mut b = TopologyBuilder::new(format!("grid {sides:?}"));
    let n: u32 = sides.iter().product();
    let nodes = nodes(&mut b, n, true);
    let mut stride = 1;
    for &side in sides {
        for i in (0..n).filter(|i| i / stride % side + 1 < side) {
            b.cable(nodes[i as usize], nodes[(i + stride) as usize], rate(), hop());
        }
        stride *= side;
    }
    fabric(b, Shape::Grid { sides: sides.to_vec() })
}

/// The same, where every node forwards, copies and adds.
pub fn able(fabric: Fabric) -> Fabric {
    let mut b = fabric.topology.to_builder();
    for node in &mut b.nodes {
        (node.forwards, node.multicasts, node.reduces) = (true, true, true);
    }
    self::fabric(b, fabric.shape)
}

pub fn cost() -> CostModel {
    CostModel {
        startup: "2 us".parse().unwrap(),
        reduce_cost: "1 ps/B".parse().unwrap(),
        copy_cost: PerByte::ZERO,
        synchronisation: Delay::ZERO,
        overlap_reconfiguration: false,
    }
}

pub fn collective(kind: CollectiveKind, ranks: u32, bytes: u64, in_place: bool, input_writable: bool) -> Collective {
    Collective::new(CollectiveSpec {
        kind,
        ranks,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(bytes),
        in_place,
        input_writable,
    })
    .unwrap()
}

pub fn problem(fabric: &Fabric, collective: Collective) -> Arc<Problem> {
    Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, cost()).unwrap())
}

/// The same with ranks on these nodes only.
pub fn problem_on(fabric: &Fabric, collective: Collective, nodes: &[u32]) -> Arc<Problem> {
    let placement: Vec<NodeId> = nodes.iter().map(|&node| NodeId::from(node)).collect();
    let ranks = (0..placement.len()).map(RankId::new).collect();
    let (topology, circuits) = (Arc::clone(&fabric.topology), fabric.circuits.clone());
    Arc::new(
        Problem::new(ProblemSpec { topology, placement, circuits, groups: vec![(collective, ranks)], cost: cost() })
            .unwrap(),
    )
}

type Value = BTreeMap<Contribution, u64>;

/// Runs the schedule of a one-group problem by the definition and checks the postcondition, and that routes join what
/// the flows say.
pub fn replay(problem: &Problem, schedule: &Schedule) -> Result<(), String> {
    let group = GroupId::new(0);
    let layout = problem.layout(group, schedule.chunks[0]).map_err(|e| e.to_string())?;
    let ranks = problem.group(group).ranks();
    let n = layout.collective().ranks();
    let mut state: BTreeMap<(u32, Place), Value> = BTreeMap::new();
    layout.precondition(|p, place, c| {
        state.insert((p, place), BTreeMap::from([(c, 1)]));
    });
    let elements = |p: u32, place: Place| -> Option<u64> {
        if place.buffer() == Buffer::Scratch {
            let (at, like) = *schedule.scratch[0].like.get(p as usize)?.get(place.slot() as usize)?;
            Some(layout.elements(at, like))
        } else {
            layout.contains(p, place).then(|| layout.elements(p, layout.canonical(p, place)))
        }
    };
    for step in 0..schedule.steps.len() {
        let mut copies: BTreeMap<(u32, Place), Value> = BTreeMap::new();
        let mut sums: BTreeMap<(u32, Place), Vec<Value>> = BTreeMap::new();
        for flow in schedule.flows(StepId::new(step)) {
            let src = problem.position(group, flow.src).ok_or("source outside the group")?;
            let dst = problem.position(group, flow.dst).ok_or("destination outside the group")?;
            if ranks[src as usize] != flow.src || flow.count == 0 {
                return Err(format!("odd flow {flow:?}"));
            }
            let leaves = |tree: TreeId| -> Result<Vec<u32>, String> {
                let tree = schedule.paths.get_tree(tree).ok_or("no such tree")?;
                tree.leaves
                    .iter()
                    .map(|&leaf| problem.position(group, leaf).ok_or("leaf outside the group".to_owned()))
                    .collect()
            };
            let (mut sources, mut targets) = (vec![src], vec![dst]);
            match flow.path.kind() {
                PathKind::Local if src == dst => {}
                PathKind::Route(route) if src != dst => {
                    let route = schedule.paths.get(route).ok_or("no such route")?;
                    for part in &route.parts {
                        let mut node = problem.node_of(flow.src);
                        for (i, &hop) in part.hops.iter().enumerate() {
                            let (from, to) = problem.topology().ends(hop);
                            if from != node || (i > 0 && !problem.topology().node(from).forwards) {
                                return Err(format!("broken route of {flow:?}"));
                            }
                            node = to;
                        }
                        if node != problem.node_of(flow.dst) {
                            return Err(format!("route of {flow:?} ends elsewhere"));
                        }
                    }
                }
                PathKind::Multicast(tree) => {
                    targets = leaves(tree)?;
                    walk(problem, schedule.paths.get_tree(tree).unwrap(), flow.src, false)?;
                }
                PathKind::Aggregate(tree) => {
                    sources = leaves(tree)?;
                    walk(problem, schedule.paths.get_tree(tree).unwrap(), flow.dst, true)?;
                }
                kind => return Err(format!("path {kind:?} of {flow:?}")),
            }
            if sources.first() != Some(&src) || targets.first() != Some(&dst) {
                return Err(format!("first leaf of {flow:?}"));
            }
            for i in 0..flow.count {
                let (from, to) = (flow.src_place.offset(i), flow.dst_place.offset(i));
                let mut value = Value::new();
                for &src in &sources {
                    let place = layout.canonical(src, from);
                    let one = state.get(&(src, place));
                    let one = one.ok_or_else(|| format!("step {step}: {flow:?} reads undefined {from} of {src}"))?;
                    for (&c, count) in one {
                        *value.entry(c).or_default() += count;
                    }
                }
                for &dst in &targets {
                    for &src in &sources {
                        let sizes = (elements(src, from), elements(dst, to));
                        if sizes.0.is_none() || sizes.0 != sizes.1 {
                            return Err(format!("step {step}: {flow:?} slot {i}: sizes {sizes:?}"));
                        }
                    }
                    let to = layout.canonical(dst, to);
                    if !layout.writable(to) {
                        return Err(format!("step {step}: {flow:?} writes the input"));
                    }
                    match flow.op {
                        FlowOp::Copy => {
                            if copies.insert((dst, to), value.clone()).is_some() {
                                return Err(format!("step {step}: two copies to {dst} {to}"));
                            }
                        }
                        FlowOp::Reduce => sums.entry((dst, to)).or_default().push(value.clone()),
                    }
                }
            }
        }
        for (place, values) in sums {
            if copies.contains_key(&place) {
                return Err(format!("step {step}: copy and reduce to {place:?}"));
            }
            let sum = state.get_mut(&place).ok_or_else(|| format!("step {step}: reduce into undefined {place:?}"))?;
            for (c, count) in values.into_iter().flatten() {
                *sum.entry(c).or_default() += count;
            }
        }
        state.extend(copies);
    }
    for p in 0..n {
        for slot in 0..layout.slots(p, Buffer::Output) {
            let Some(expected) = layout.postcondition(p, slot) else { continue };
            let expected: Value = expected.to_multiset(n).into_iter().collect();
            let place = layout.canonical(p, Place::output(slot));
            if state.get(&(p, place)) != Some(&expected) {
                return Err(format!("rank {p} output {slot}: {:?} instead of {expected:?}", state.get(&(p, place))));
            }
        }
    }
    Ok(())
}

/// Walks a tree from the root's node: every leaf is reached once, no hop is left over, and nodes do what they can.
fn walk(problem: &Problem, tree: &Tree, root: RankId, aggregate: bool) -> Result<(), String> {
    let topology = problem.topology();
    let mut left = tree.hops.clone();
    let mut leaves: Vec<NodeId> = tree.leaves.iter().map(|&rank| problem.node_of(rank)).collect();
    let mut open = vec![problem.node_of(root)];
    while let Some(node) = open.pop() {
        let is_leaf = leaves.iter().position(|&leaf| leaf == node);
        if let Some(at) = is_leaf {
            leaves.swap_remove(at);
        }
        let (on, rest): (Vec<Hop>, Vec<Hop>) = left.into_iter().partition(|&hop| {
            let (src, dst) = topology.ends(hop);
            node == if aggregate { dst } else { src }
        });
        left = rest;
        let facts = topology.node(node);
        let able = if aggregate { facts.reduces } else { facts.multicasts };
        if 1 < on.len() + usize::from(is_leaf.is_some()) && !able || on.is_empty() && is_leaf.is_none() {
            return Err(format!("the tree of {root} breaks at {}", facts.name));
        }
        if node != problem.node_of(root) && !on.is_empty() && !facts.forwards {
            return Err(format!("{} does not forward", facts.name));
        }
        open.extend(on.iter().map(|&hop| if aggregate { topology.ends(hop).0 } else { topology.ends(hop).1 }));
    }
    if left.is_empty() && leaves.is_empty() {
        Ok(())
    } else {
        Err(format!("the tree of {root} does not hold together"))
    }
}
