//! Bottleneck cuts by maximal flow, for small topologies.

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};

use super::demand::Commodity;
use super::graph::Graph;

/// The source side of a cut that cannot carry the commodity within `bytes` / `capacity` seconds; `None` if every cut can,
/// or if numbers are too large to tell.
pub(super) fn violated(graph: &Graph, commodity: &Commodity, bytes: u128, capacity: u128) -> Option<Vec<bool>> {
    let mut network: DiGraph<(), u128> = DiGraph::new();
    let vertices: Vec<NodeIndex> = (0..graph.vertices).map(|_| network.add_node(())).collect();
    let (source, sink) = (network.add_node(()), network.add_node(()));
    // In time bytes/capacity an arc of rate c carries c·bytes/capacity; everything is scaled by `capacity`.
    for arc in &graph.arcs {
        network.add_edge(vertices[arc.src], vertices[arc.dst], arc.capacity.checked_mul(bytes)?);
    }
    let mut total = 0_u128;
    for &(node, amount) in &commodity.sources {
        let scaled = amount.checked_mul(capacity)?;
        total = total.checked_add(scaled)?;
        network.add_edge(source, vertices[node], scaled);
    }
    for &(node, amount) in &commodity.sinks {
        network.add_edge(vertices[node], sink, amount.checked_mul(capacity)?);
    }
    // No sum over arcs may overflow while the flow is computed.
    network.edge_weights().try_fold(0_u128, |sum, &weight| sum.checked_add(weight))?;
    if network.edge_weights().any(|&weight| weight == 0) {
        network.retain_edges(|network, edge| network[edge] != 0);
    }
    let (value, carried) = dinics(&network, source, sink);
    if total <= value {
        return None;
    }
    let mut inside = vec![false; network.node_count()];
    inside[source.index()] = true;
    let mut stack = vec![source];
    while let Some(at) = stack.pop() {
        for edge in network.edge_indices() {
            let Some((from, to)) = network.edge_endpoints(edge) else { continue };
            let next = if from == at && carried[edge.index()] < network[edge] {
                to
            } else if to == at && carried[edge.index()] != 0 {
                from
            } else {
                continue;
            };
            if !inside[next.index()] {
                inside[next.index()] = true;
                stack.push(next);
            }
        }
    }
    inside.truncate(graph.nodes);
    Some(inside)
}
