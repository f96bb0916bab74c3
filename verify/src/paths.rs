//! Facts about routes and trees that do not depend on the flow that takes them: where they lead, and what is wrong with them.

use std::sync::Arc;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Zero};
use rondo_ir::index::{DeviceId, NodeId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Route, Schedule, Tree};
use rondo_ir::text;
use rondo_ir::topology::{Configuration, Hop, Topology};

use crate::codes::Code;

/// What is wrong, with its code.
pub(crate) type Fault = (Code, String);

/// A route or a tree, looked at once.
#[derive(Clone, Debug)]
pub(crate) struct PathFacts {
    /// The source's node of a route; the root's of a tree.
    pub root: Option<NodeId>,
    /// The destination's node of a route.
    pub end: Option<NodeId>,
    /// The first fault.
    pub fault: Option<Fault>,
    /// Its circuits.
    pub circuits: Vec<Hop>,
}

/// Whether the hop's link, or device and ports, exist.
pub(crate) fn hop_exists(topology: &Topology, hop: Hop) -> bool {
    match hop {
        Hop::Link(link) => link.index() < topology.links().len(),
        Hop::Circuit(device, circuit) => topology
            .devices()
            .get(device.index())
            .is_some_and(|d| circuit.from.index() < d.ports.len() && circuit.to.index() < d.ports.len()),
    }
}

/// Whether the weights are positive, add up to 1 and can be cut in 128-bit arithmetic.
pub(crate) fn weights_fault(route: &Route) -> Option<String> {
    if let [part] = route.parts.as_slice() {
        return (part.weight.numer() != part.weight.denom() || part.weight.denom().is_zero())
            .then(|| format!("its only part has weight {}/{}, not 1", part.weight.numer(), part.weight.denom()));
    }
    let mut sum = BigRational::zero();
    let mut common = BigInt::one();
    for part in &route.parts {
        let (numerator, denominator) = (*part.weight.numer(), *part.weight.denom());
        if numerator == 0 || denominator == 0 {
            return Some(format!("a part has weight {numerator}/{denominator}, which is not positive"));
        }
        sum += BigRational::new(BigInt::from(numerator), BigInt::from(denominator));
        common = common.lcm(&BigInt::from(denominator));
        if common > BigInt::from(u64::MAX >> 1) {
            return Some("its weights have no common denominator below 2^63".to_owned());
        }
    }
    (!sum.is_one()).then(|| format!("its weights add up to {sum}, not 1"))
}

fn unknown_hop(topology: &Topology, hops: &[Hop]) -> Option<Fault> {
    let &hop = hops.iter().find(|&&hop| !hop_exists(topology, hop))?;
    let what = match hop {
        Hop::Link(link) => format!("link {link}, but the topology has {} links", topology.links().len()),
        Hop::Circuit(device, circuit) => {
            format!("circuit {} > {} of device {device}, which does not exist", circuit.from, circuit.to)
        }
    };
    Some((Code::Connection, format!("uses {what}")))
}

fn repeated_hop(problem: &Problem, hops: &[Hop]) -> Option<Fault> {
    let mut sorted = hops.to_vec();
    sorted.sort_unstable();
    let pair = sorted.windows(2).find(|pair| pair[0] == pair[1])?;
    Some((Code::RepeatedHop, format!("uses {} twice", text::hops_line(problem, &pair[..1]))))
}

fn down(topology: &Topology, hops: &[Hop]) -> Option<Fault> {
    hops.iter().find_map(|&hop| match hop {
        Hop::Link(link) if !topology.link(link).up => {
            Some((Code::LinkDown, format!("uses link {}, which is down", topology.link_name(link))))
        }
        _ => None,
    })
}

fn circuits_of<'a>(hops: impl Iterator<Item = &'a Hop>) -> Vec<Hop> {
    let mut circuits: Vec<Hop> = hops.copied().filter(|hop| matches!(hop, Hop::Circuit(..))).collect();
    circuits.sort_unstable();
    circuits.dedup();
    circuits
}

/// Looks at a route.
pub(crate) fn route_facts(problem: &Problem, route: &Route) -> PathFacts {
    let topology = problem.topology();
    let circuits = circuits_of(route.parts.iter().flat_map(|part| &part.hops));
    let known = route.parts.iter().all(|part| part.hops.iter().all(|&hop| hop_exists(topology, hop)));
    let ends = route.parts.first().filter(|_| known).and_then(|part| {
        let (&first, &last) = (part.hops.first()?, part.hops.last()?);
        Some((topology.ends(first).0, topology.ends(last).1))
    });
    let fault = || -> Option<Fault> {
        if route.parts.is_empty() {
            return Some((Code::Weights, "has no parts".to_owned()));
        }
        for part in &route.parts {
            if let Some(fault) = unknown_hop(topology, &part.hops) {
                return Some(fault);
            }
            let (Some(&first), Some(&last)) = (part.hops.first(), part.hops.last()) else {
                return Some((Code::Connection, "has a part without hops".to_owned()));
            };
            let line = || text::hops_line(problem, &part.hops);
            let own = Some((topology.ends(first).0, topology.ends(last).1));
            if own != ends {
                return Some((Code::Connection, format!("has parts with different ends: {}", line())));
            }
            for pair in part.hops.windows(2) {
                let (here, next) = (topology.ends(pair[0]).1, topology.ends(pair[1]).0);
                if here != next {
                    return Some((
                        Code::Connection,
                        format!(
                            "is broken: one hop ends at {}, the next starts at {}",
                            topology.node(here).name,
                            topology.node(next).name
                        ),
                    ));
                }
            }
            if let Some(fault) = repeated_hop(problem, &part.hops).or_else(|| down(topology, &part.hops)) {
                return Some(fault);
            }
            for &hop in &part.hops[..part.hops.len() - 1] {
                let node = topology.node(topology.ends(hop).1);
                if !node.forwards {
                    return Some((
                        Code::NoForwarding,
                        format!("passes through {}, which does not forward: {}", node.name, line()),
                    ));
                }
            }
        }
        weights_fault(route).map(|message| (Code::Weights, message))
    };
    PathFacts { root: ends.map(|e| e.0), end: ends.map(|e| e.1), fault: fault(), circuits }
}

/// Looks at a tree as a multicast or an aggregation.
pub(crate) fn tree_facts(problem: &Problem, tree: &Tree, aggregate: bool) -> PathFacts {
    let circuits = circuits_of(tree.hops.iter());
    match tree_root(problem, tree, aggregate) {
        Ok(root) => PathFacts { root: Some(root), end: None, fault: None, circuits },
        Err(fault) => PathFacts { root: None, end: None, fault: Some(fault), circuits },
    }
}

/// The root of a tree that is one: every other node has exactly one hop towards the root, all are connected to it, the
/// nodes without a hop away from the root are leaves, inner nodes forward, and where data is copied or added the node can.
fn tree_root(problem: &Problem, tree: &Tree, aggregate: bool) -> Result<NodeId, Fault> {
    let topology = problem.topology();
    let broken = |message: String| (Code::Tree, message);
    if let Some(fault) = unknown_hop(topology, &tree.hops)
        .or_else(|| repeated_hop(problem, &tree.hops))
        .or_else(|| down(topology, &tree.hops))
    {
        return Err(fault);
    }
    let mut leaves = Vec::with_capacity(tree.leaves.len());
    for &leaf in &tree.leaves {
        if problem.rank_count() <= leaf.index() {
            return Err(broken(format!("names rank {leaf}, but there are {}", problem.rank_count())));
        }
        leaves.push(problem.node_of(leaf));
    }
    leaves.sort_unstable();
    if leaves.is_empty() {
        return Err(broken("has no leaves".to_owned()));
    }
    if let Some(pair) = leaves.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(broken(format!("names {} twice as a leaf", topology.node(pair[0]).name)));
    }
    // (upper, lower) from the root's point of view.
    let mut edges: Vec<(NodeId, NodeId)> = tree
        .hops
        .iter()
        .map(|&hop| {
            let (src, dst) = topology.ends(hop);
            if aggregate { (dst, src) } else { (src, dst) }
        })
        .collect();
    edges.sort_unstable();
    let mut below: Vec<NodeId> = edges.iter().map(|e| e.1).collect();
    below.sort_unstable();
    if let Some(pair) = below.windows(2).find(|pair| pair[0] == pair[1]) {
        let way = if aggregate { "leave" } else { "reach" };
        return Err(broken(format!("has two hops that {way} {}", topology.node(pair[0]).name)));
    }
    let mut roots: Vec<NodeId> = edges.iter().map(|e| e.0).filter(|node| below.binary_search(node).is_err()).collect();
    roots.dedup();
    let &[root] = roots.as_slice() else {
        return Err(broken(format!("has {} roots, not 1", roots.len())));
    };
    if leaves.binary_search(&root).is_ok() {
        return Err(broken(format!("names its root {} as a leaf", topology.node(root).name)));
    }
    let mut reached = 0;
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        let from = edges.partition_point(|e| e.0 < node);
        let children = edges[from..].iter().take_while(|e| e.0 == node).map(|e| e.1);
        let before = stack.len();
        stack.extend(children);
        let count = stack.len() - before;
        reached += count;
        let is_leaf = leaves.binary_search(&node).is_ok();
        let facts = topology.node(node);
        if count == 0 && !is_leaf {
            let what = if aggregate { "takes data from" } else { "ends at" };
            return Err(broken(format!("{what} {}, which is not one of its leaves", facts.name)));
        }
        if node != root && count != 0 && !facts.forwards {
            return Err((Code::NoForwarding, format!("passes through {}, which does not forward", facts.name)));
        }
        let able = if aggregate { facts.reduces } else { facts.multicasts };
        if 1 < count + usize::from(is_leaf) && !able {
            let what = if aggregate { "add in the network" } else { "multicast" };
            return Err((Code::Branch, format!("branches at {}, which cannot {what}", facts.name)));
        }
    }
    if reached != edges.len() {
        return Err(broken("is not connected".to_owned()));
    }
    if let Some(&leaf) = leaves.iter().find(|leaf| below.binary_search(leaf).is_err()) {
        return Err(broken(format!("does not reach its leaf {}", topology.node(leaf).name)));
    }
    Ok(root)
}

/// The circuits that are up in each step, and the faults of how they are set.
pub(crate) fn track_circuits(problem: &Problem, schedule: &Schedule) -> (Vec<Arc<Vec<Configuration>>>, Vec<Fault>) {
    let topology = problem.topology();
    let mut current = Arc::new(problem.circuits().to_vec());
    let mut faults = Vec::new();
    let mut up = Vec::with_capacity(schedule.steps.len());
    for (index, step) in schedule.steps.iter().enumerate() {
        if !step.reconfigure.is_empty() {
            let mut next = current.to_vec();
            let mut last: Option<DeviceId> = None;
            for (device, configuration) in &step.reconfigure {
                let Some(facts) = topology.devices().get(device.index()) else {
                    faults.push((
                        Code::Reconfiguration,
                        format!(
                            "step s{index} sets device {device}, but the topology has {}",
                            topology.devices().len()
                        ),
                    ));
                    continue;
                };
                if last.is_some_and(|last| *device <= last) {
                    faults.push((
                        Code::Reconfiguration,
                        format!("step s{index} sets device {} twice or out of order", facts.name),
                    ));
                }
                last = Some(*device);
                if let Err(error) = facts.check_change(&current[device.index()], configuration) {
                    faults.push((Code::Reconfiguration, format!("step s{index}: {error}")));
                }
                next[device.index()] = configuration.clone();
            }
            current = Arc::new(next);
        }
        up.push(Arc::clone(&current));
    }
    if schedule.leaves_circuits != *current {
        let message = if schedule.leaves_circuits.len() == current.len() {
            let device = schedule.leaves_circuits.iter().zip(&*current).position(|(a, b)| a != b).unwrap_or(0);
            format!(
                "the schedule says that it leaves device {} in another configuration than its last change sets",
                topology.devices()[device].name
            )
        } else {
            format!(
                "the schedule lists the final configuration of {} devices, but the topology has {}",
                schedule.leaves_circuits.len(),
                current.len()
            )
        };
        faults.push((Code::Leaves, message));
    }
    (up, faults)
}
