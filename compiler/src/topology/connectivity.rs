//! Whether ranks can reach each other at all, and where they are cut apart if not.

use rondo_ir::index::NodeId;
use rondo_ir::topology::{PortDirection, Topology};

/// Two sets of ranks with no way from the first to the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// A rank's node on the near side.
    pub from: NodeId,
    /// A rank's node on the far side, which `from` cannot reach.
    pub to: NodeId,
    /// Names of the ranks' nodes on the near side, in rank order.
    pub near: Vec<String>,
    /// Names on the far side.
    pub far: Vec<String>,
    from_name: String,
    to_name: String,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no path leads from {} to {}: ", self.from_name, self.to_name)?;
        write!(f, "{} and {} are not joined", set(&self.near), set(&self.far))
    }
}

impl std::error::Error for Cut {}

/// `{a, b, c, … (12 in all)}`.
fn set(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() <= SHOWN { format!("{{{shown}}}") } else { format!("{{{shown}, … ({} in all)}}", names.len()) }
}

/// Looks for ranks that cannot reach each other; `ranks[r]` is the node of rank r. `None` if all can.
///
/// Data may pass over links that are up, circuits that some device could set, nodes that forward, and ranks, which
/// relay in further steps. So `None` does not promise a route between every pair.
///
/// # Complexity
/// Linear in nodes and links; quadratic in the ports of a device.
#[must_use]
pub fn connectivity(topology: &Topology, ranks: &[NodeId]) -> Option<Cut> {
    let &first = ranks.first()?;
    let (forward, backward) = adjacency(topology);
    let mut relays: Vec<bool> = topology.nodes().iter().map(|node| node.forwards).collect();
    for rank in ranks {
        relays[rank.index()] = true;
    }
    let reached = reach(&forward, &relays, first);
    if let Some(&to) = ranks.iter().find(|rank| !reached[rank.index()]) {
        return Some(cut(topology, ranks, &reached, first, to));
    }
    let reaches = reach(&backward, &relays, first);
    let &from = ranks.iter().find(|rank| !reaches[rank.index()])?;
    let stuck: Vec<bool> = reaches.iter().map(|reaches| !reaches).collect();
    Some(cut(topology, ranks, &stuck, from, first))
}

fn cut(topology: &Topology, ranks: &[NodeId], near: &[bool], from: NodeId, to: NodeId) -> Cut {
    let names = |side: bool| {
        let of_side = ranks.iter().filter(|rank| near[rank.index()] == side);
        of_side.map(|&rank| topology.node(rank).name.clone()).collect()
    };
    Cut {
        from,
        to,
        near: names(true),
        far: names(false),
        from_name: topology.node(from).name.clone(),
        to_name: topology.node(to).name.clone(),
    }
}

/// Neighbours over links that are up and possible circuits, forwards and backwards.
fn adjacency(topology: &Topology) -> (Vec<Vec<NodeId>>, Vec<Vec<NodeId>>) {
    let mut forward = vec![Vec::new(); topology.nodes().len()];
    let mut backward = forward.clone();
    let mut join = |src: NodeId, dst: NodeId| {
        forward[src.index()].push(dst);
        backward[dst.index()].push(src);
    };
    for link in topology.links().iter().filter(|link| link.up) {
        join(link.src, link.dst);
    }
    for device in topology.devices() {
        for (a, from) in device.ports.iter().enumerate().filter(|(_, port)| port.direction != PortDirection::Rx) {
            for (b, to) in device.ports.iter().enumerate().filter(|(_, port)| port.direction != PortDirection::Tx) {
                if a != b {
                    join(from.node, to.node);
                }
            }
        }
    }
    (forward, backward)
}

fn reach(neighbours: &[Vec<NodeId>], relays: &[bool], start: NodeId) -> Vec<bool> {
    let mut seen = vec![false; neighbours.len()];
    seen[start.index()] = true;
    let mut todo = vec![start];
    while let Some(node) = todo.pop() {
        if node != start && !relays[node.index()] {
            continue;
        }
        for &next in &neighbours[node.index()] {
            if !std::mem::replace(&mut seen[next.index()], true) {
                todo.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use rondo_ir::topology::{Node, TopologyBuilder};
    use rondo_ir::units::{Delay, Rate};

    use super::*;

    fn line(links: &[(usize, usize)], nodes: usize) -> Topology {
        let mut builder = TopologyBuilder::new("test");
        for n in 0..nodes {
            builder.node(Node::compute(format!("gpu{n}")));
        }
        for &(a, b) in links {
            builder.link(NodeId::new(a), NodeId::new(b), Rate::new(1).unwrap(), Delay::ZERO);
        }
        builder.finish().unwrap()
    }

    #[test]
    fn the_cut_is_named_in_the_direction_that_is_missing() {
        let all: Vec<NodeId> = (0..4).map(NodeId::new).collect();
        let two_way = [(0, 1), (1, 0), (2, 3), (3, 2)];
        let apart = connectivity(&line(&two_way, 4), &all).unwrap();
        assert_eq!(apart.to_string(), "no path leads from gpu0 to gpu2: {gpu0, gpu1} and {gpu2, gpu3} are not joined");
        let one_way = [&two_way[..], &[(1, 2)]].concat();
        let stuck = connectivity(&line(&one_way, 4), &all).unwrap();
        assert_eq!((stuck.near, stuck.far), (vec!["gpu2".into(), "gpu3".into()], vec!["gpu0".into(), "gpu1".into()]));
        let joined = [&one_way[..], &[(3, 0)]].concat();
        assert_eq!(connectivity(&line(&joined, 4), &all), None);
        // Ranks relay, other nodes that do not forward do not.
        assert!(connectivity(&line(&joined, 4), &[NodeId::new(0), NodeId::new(3)]).is_some());
        assert_eq!(connectivity(&line(&[], 1), &[NodeId::new(0)]), None);
        assert_eq!(connectivity(&line(&[], 1), &[]), None);
    }
}
