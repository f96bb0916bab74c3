//! Routing over links and the circuits that are up.

use std::sync::{Arc, OnceLock};

use rondo_ir::index::{DeviceId, NodeId, PortId};
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Circuit, Configuration, Device, Hop, LegalConfigurations, PortDirection, Topology};

use crate::fabric::Router;

/// Which way round the endpoints lie, so that ties can be broken evenly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orientation {
    /// Node → its place in clockwise order.
    pub position: Vec<u32>,
    /// Node → whether it is an odd one along its rings.
    pub odd: Vec<bool>,
}

impl Orientation {
    /// Nodes in the order of their numbers.
    #[must_use]
    pub fn natural(topology: &Topology) -> Self {
        let nodes = topology.nodes().len();
        Self { position: (0..).take(nodes).collect(), odd: (0..nodes).map(|node| node % 2 == 1).collect() }
    }
}

/// Which of several shortest paths is taken, seen from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// Clockwise for even sources, the other way for odd ones: both directions of a ring carry half.
    Alternate,
    /// Always clockwise.
    Clockwise,
    /// Clockwise from the earlier of the two endpoints, and back the same way.
    SameArc,
}

/// Paths of fewest hops over links that are up and circuits that are set, through nodes that forward.
///
/// Of parallel hops to one neighbour the one with least latency counts, then the widest, then the first.
#[derive(Debug)]
pub struct CircuitRouter {
    topology: Arc<Topology>,
    orientation: Arc<Orientation>,
    ties: Ties,
    /// Neighbours in clockwise order.
    out: Vec<Vec<(NodeId, Hop)>>,
    into: Vec<Vec<NodeId>>,
    /// Hops to each destination, by destination; `u32::MAX` where there is no way.
    distances: Vec<OnceLock<Vec<u32>>>,
}

impl CircuitRouter {
    /// A router over the topology with its devices set like this.
    #[must_use]
    pub fn new(topology: Arc<Topology>, circuits: &[Configuration], orientation: Arc<Orientation>) -> Self {
        let nodes = topology.nodes().len();
        let mut out: Vec<Vec<(NodeId, Hop)>> = vec![Vec::new(); nodes];
        let links = (0..).zip(topology.links()).filter(|(_, link)| link.up);
        let links = links.map(|(index, _)| Hop::Link(rondo_ir::index::LinkId::new(index)));
        let set = circuits.iter().enumerate().flat_map(|(device, configuration)| {
            configuration.circuits().iter().map(move |&circuit| Hop::Circuit(DeviceId::new(device), circuit))
        });
        for hop in links.chain(set) {
            let (src, dst) = topology.ends(hop);
            out[src.index()].push((dst, hop));
        }
        let capacity = |hop: Hop| match hop {
            Hop::Link(link) => topology.link(link).capacity,
            Hop::Circuit(device, Circuit { from, to }) => {
                let ports = &topology.device(device).ports;
                ports[from.index()].capacity.min(ports[to.index()].capacity)
            }
        };
        let mut into = vec![Vec::new(); nodes];
        for (src, neighbours) in out.iter_mut().enumerate() {
            let from = orientation.position[src];
            let turn = |node: NodeId| {
                let to = orientation.position[node.index()];
                if from <= to { to - from } else { u32::MAX - (from - to) }
            };
            neighbours.sort_by_key(|&(dst, hop)| {
                (turn(dst), topology.hop_latency(hop).femtoseconds(), std::cmp::Reverse(capacity(hop)), hop)
            });
            neighbours.dedup_by_key(|&mut (dst, _)| dst);
            for &(dst, _) in neighbours.iter() {
                into[dst.index()].push(NodeId::new(src));
            }
        }
        let distances = (0..nodes).map(|_| OnceLock::new()).collect();
        Self { topology, orientation, ties: Ties::Alternate, out, into, distances }
    }

    /// The same with other ties.
    #[must_use]
    pub fn with_ties(self, ties: Ties) -> Self {
        Self { ties, ..self }
    }

    fn distances(&self, dst: NodeId) -> &[u32] {
        self.distances[dst.index()].get_or_init(|| {
            let mut distances = vec![u32::MAX; self.out.len()];
            distances[dst.index()] = 0;
            let mut layer = vec![dst];
            let mut hops = 0;
            while !layer.is_empty() {
                hops += 1;
                let mut next = Vec::new();
                for &node in layer.iter().filter(|&&node| node == dst || self.topology.node(node).forwards) {
                    for &before in &self.into[node.index()] {
                        let known = &mut distances[before.index()];
                        if *known == u32::MAX {
                            *known = hops;
                            next.push(before);
                        }
                    }
                }
                layer = next;
            }
            distances
        })
    }

    /// Hops of the shortest path, if there is one.
    #[must_use]
    pub fn hops(&self, src: NodeId, dst: NodeId) -> Option<u32> {
        Some(self.distances(dst)[src.index()]).filter(|&hops| hops != u32::MAX)
    }
}

impl Router for CircuitRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let distances = self.distances(dst);
        let mut left = distances[src.index()];
        if left == u32::MAX || src == dst {
            return None;
        }
        let position = &self.orientation.position;
        let counter = match self.ties {
            Ties::Alternate => self.orientation.odd[src.index()],
            Ties::Clockwise => false,
            Ties::SameArc => position[dst.index()] < position[src.index()],
        };
        let (mut at, mut hops) = (src, Vec::with_capacity(left as usize));
        while at != dst {
            left -= 1;
            let leads = |&&(node, _): &&(NodeId, Hop)| {
                distances[node.index()] == left && (node == dst || self.topology.node(node).forwards)
            };
            let neighbours = &self.out[at.index()];
            let found = if counter { neighbours.iter().rev().find(leads) } else { neighbours.iter().find(leads) };
            let &(next, hop) = found?;
            hops.push(hop);
            at = next;
        }
        Some(Route::single(hops))
    }
}

/// A circuit that a device could set from one node to another over ports that are not `taken` in a direction; between duplex
/// ports both directions must be free. The first in port order.
pub(crate) fn free_circuit(
    device: &Device,
    (src, dst): (NodeId, NodeId),
    taken: impl Fn(PortId, PortDirection) -> bool,
) -> Option<Circuit> {
    use PortDirection::{Duplex, Rx, Tx};
    let direction = |port: PortId| device.ports[port.index()].direction;
    let ports_of = |node: NodeId, side: PortDirection| {
        (0..device.ports.len()).map(PortId::new).filter(move |&port| {
            let (owner, direction) = (device.ports[port.index()].node, device.ports[port.index()].direction);
            owner == node && (direction == side || direction == Duplex)
        })
    };
    let free = |port: PortId, side: PortDirection| match direction(port) {
        Duplex => !taken(port, Tx) && !taken(port, Rx),
        _ => !taken(port, side),
    };
    let possible = |circuit: Circuit| match &device.legal {
        LegalConfigurations::AnyMatching => true,
        LegalConfigurations::Only { circuits } => {
            let back = Circuit { from: circuit.to, to: circuit.from };
            let listed = |circuit: &Circuit| circuits.binary_search(circuit).is_ok();
            listed(&circuit) && (direction(circuit.from) != Duplex || listed(&back))
        }
        LegalConfigurations::Cycle { configurations } => configurations.iter().any(|set| set.contains(circuit)),
    };
    ports_of(src, Tx).filter(|&from| free(from, Tx)).find_map(|from| {
        ports_of(dst, Rx)
            .filter(|&to| free(to, Rx) && (direction(from) == Duplex) == (direction(to) == Duplex) && from != to)
            .map(|to| Circuit { from, to })
            .find(|&circuit| possible(circuit))
    })
}
