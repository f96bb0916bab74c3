//! What the tests of this folder share: a brute-force view of a fabric.

use num_rational::Ratio;
use petgraph::graph::{DiGraph, NodeIndex};
use rondo_ir::index::NodeId;
use rondo_ir::topology::{Hop, Topology};
use rondo_ir::units::{Delay, Rate};

use super::spec::LinkRates;
use crate::fabric::Fabric;

/// A link of that many GB/s and 1 us.
pub fn link(gigabytes: u64) -> LinkRates {
    let bandwidth = Rate::new(gigabytes * 1_000_000_000).unwrap();
    LinkRates { bandwidth, latency: Delay::from_nanoseconds(1000) }
}

/// Fewest hops from `src` to every node by petgraph, over links that are up; nodes that do not forward only end paths.
fn distances(topology: &Topology, src: NodeId) -> Vec<Option<usize>> {
    let mut graph = DiGraph::<(), ()>::new();
    for _ in topology.nodes() {
        graph.add_node(());
    }
    for link in topology.links().iter().filter(|link| link.up) {
        if link.src == src || topology.node(link.src).forwards {
            graph.add_edge(NodeIndex::new(link.src.index()), NodeIndex::new(link.dst.index()), ());
        }
    }
    let found = petgraph::algo::dijkstra(&graph, NodeIndex::new(src.index()), None, |_| 1_usize);
    graph.node_indices().map(|node| found.get(&node).copied()).collect()
}

/// Checks every route between compute nodes: joined up, over forwarding nodes and links that are up, as short as
/// petgraph's, shares that add up to 1, and there exactly if petgraph finds a way.
pub fn check_routes(fabric: &Fabric) {
    let topology = &fabric.topology;
    for src in topology.compute_nodes() {
        let oracle = distances(topology, src);
        for dst in topology.compute_nodes().filter(|&dst| dst != src) {
            let route = fabric.router.route(src, dst);
            let names = (&topology.node(src).name, &topology.node(dst).name);
            assert_eq!(route.is_some(), oracle[dst.index()].is_some(), "{names:?}");
            let Some(route) = route else { continue };
            assert_eq!(Some(&route), fabric.router.route(src, dst).as_ref(), "the same again");
            assert_eq!(route.parts.iter().map(|part| part.weight).sum::<Ratio<u64>>(), Ratio::from(1), "{names:?}");
            for part in &route.parts {
                let mut at = src;
                for (place, &hop) in part.hops.iter().enumerate() {
                    let Hop::Link(link) = hop else { panic!("a circuit") };
                    let link = topology.link(link);
                    assert_eq!(link.src, at, "{names:?}");
                    assert!(link.up && (place == 0 || topology.node(at).forwards), "{names:?}");
                    at = link.dst;
                }
                assert_eq!(at, dst, "{names:?}");
                assert_eq!(Some(part.hops.len()), oracle[dst.index()], "{names:?}");
            }
        }
    }
}

/// Most hops between two compute nodes, by petgraph.
pub fn diameter(fabric: &Fabric) -> usize {
    let nodes: Vec<NodeId> = fabric.topology.compute_nodes().collect();
    let far = |&src: &NodeId| {
        let distances = distances(&fabric.topology, src);
        nodes.iter().filter_map(|dst| distances[dst.index()]).max().unwrap_or(0)
    };
    nodes.iter().map(far).max().unwrap_or(0)
}

/// Adds a route's shares to what its links carry.
pub fn add_load(fabric: &Fabric, loads: &mut [Ratio<u64>], src: NodeId, dst: NodeId) {
    for part in fabric.router.route(src, dst).expect("a route").parts {
        for hop in part.hops {
            let Hop::Link(link) = hop else { panic!("a circuit") };
            loads[link.index()] += part.weight;
        }
    }
}

/// Messages that each link carries when every compute node sends one to every other.
pub fn all_pairs(fabric: &Fabric) -> Vec<Ratio<u64>> {
    let mut loads = vec![Ratio::from(0); fabric.topology.links().len()];
    for src in fabric.topology.compute_nodes() {
        for dst in fabric.topology.compute_nodes().filter(|&dst| dst != src) {
            add_load(fabric, &mut loads, src, dst);
        }
    }
    loads
}
