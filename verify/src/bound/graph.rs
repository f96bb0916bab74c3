//! The topology as the bounds see it: arcs over links that are up, and over every circuit that a device could ever hold.

use rondo_ir::problem::Problem;
use rondo_ir::topology::{Circuit, LegalConfigurations, PortDirection};

/// A directed arc.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) src: usize,
    pub(super) dst: usize,
    /// Bytes per second.
    pub(super) capacity: u128,
    /// Femtoseconds.
    pub(super) latency: u64,
    /// The shared medium whose capacity it is counted against, if any.
    pub(super) medium: Option<usize>,
    /// Whether it is a link (else part of a device).
    pub(super) link: bool,
}

/// Ports as (node, bytes per second).
type Ports = Vec<(usize, u128)>;

/// Nodes, then one vertex a device.
pub(super) struct Graph {
    /// Vertices that are nodes of the topology.
    pub(super) nodes: usize,
    /// All vertices.
    pub(super) vertices: usize,
    pub(super) arcs: Vec<Arc>,
    /// Arcs that leave and enter each vertex.
    pub(super) out: Vec<Vec<u32>>,
    pub(super) into: Vec<Vec<u32>>,
    /// Per device: ports that can send, and that can receive, as (node, bytes per second).
    pub(super) devices: Vec<(Ports, Ports)>,
    /// Capacity of each medium.
    pub(super) media: Vec<u128>,
    /// Nodes that host a rank.
    pub(super) hosts: Vec<bool>,
    /// No node multicasts or reduces.
    pub(super) plain: bool,
}

impl Graph {
    pub(super) fn new(problem: &Problem) -> Self {
        let topology = problem.topology();
        let nodes = topology.nodes().len();
        let vertices = nodes + topology.devices().len();
        // A link in two media is counted against the first only; that can only raise the capacity.
        let mut medium_of = vec![None; topology.links().len()];
        for (index, medium) in topology.media().iter().enumerate() {
            for &link in &medium.links {
                medium_of[link.index()].get_or_insert(index);
            }
        }
        let mut arcs = Vec::new();
        for (index, link) in topology.links().iter().enumerate().filter(|(_, link)| link.up) {
            arcs.push(Arc {
                src: link.src.index(),
                dst: link.dst.index(),
                capacity: u128::from(link.capacity.bytes_per_second()),
                latency: link.latency.femtoseconds(),
                medium: medium_of[index],
                link: true,
            });
        }
        let mut devices = Vec::new();
        for (index, device) in topology.devices().iter().enumerate() {
            let circuits: Option<Vec<Circuit>> = match &device.legal {
                LegalConfigurations::AnyMatching => None,
                LegalConfigurations::Only { circuits } => Some(circuits.clone()),
                LegalConfigurations::Cycle { configurations } => {
                    Some(configurations.iter().flat_map(|c| c.circuits().iter().copied()).collect())
                }
            };
            let hub = nodes + index;
            let (mut senders, mut receivers) = (Ports::new(), Ports::new());
            for (number, port) in device.ports.iter().enumerate() {
                let capacity = u128::from(port.capacity.bytes_per_second());
                let (node, latency) = (port.node.index(), port.latency.femtoseconds());
                let used = |wanted: &dyn Fn(&Circuit) -> usize| {
                    circuits.as_ref().is_none_or(|list| list.iter().any(|circuit| wanted(circuit) == number))
                };
                let arc = |src, dst| Arc { src, dst, capacity, latency, medium: None, link: false };
                if port.direction != PortDirection::Rx && used(&|c| c.from.index()) {
                    senders.push((node, capacity));
                    arcs.push(arc(node, hub));
                }
                if port.direction != PortDirection::Tx && used(&|c| c.to.index()) {
                    receivers.push((node, capacity));
                    arcs.push(arc(hub, node));
                }
            }
            devices.push((senders, receivers));
        }
        let mut out = vec![Vec::new(); vertices];
        let mut into = vec![Vec::new(); vertices];
        for (number, arc) in (0_u32..).zip(&arcs) {
            out[arc.src].push(number);
            into[arc.dst].push(number);
        }
        let mut hosts = vec![false; nodes];
        for node in problem.placement() {
            hosts[node.index()] = true;
        }
        let media = topology.media().iter().map(|medium| u128::from(medium.capacity.bytes_per_second())).collect();
        let plain = topology.nodes().iter().all(|node| !node.multicasts && !node.reduces);
        Self { nodes, vertices, arcs, out, into, devices, media, hosts, plain }
    }

    /// Arcs from each vertex to `to`: the fewest, `None` if there is no way.
    pub(super) fn distances_to(&self, to: usize) -> Vec<Option<u32>> {
        self.spread(to, &self.into, |arc| arc.src)
    }

    /// Arcs from `from` to each vertex.
    pub(super) fn distances_from(&self, from: usize) -> Vec<Option<u32>> {
        self.spread(from, &self.out, |arc| arc.dst)
    }

    fn spread(&self, start: usize, arcs: &[Vec<u32>], end: impl Fn(&Arc) -> usize) -> Vec<Option<u32>> {
        let mut distance = vec![None; self.vertices];
        distance[start] = Some(0);
        let mut queue = vec![start];
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            let further = distance[at].map(|d: u32| d + 1);
            for &arc in &arcs[at] {
                let to = end(&self.arcs[arc as usize]);
                if distance[to].is_none() {
                    distance[to] = further;
                    queue.push(to);
                }
            }
        }
        distance
    }

    /// Connected components, ignoring direction, of the vertices and arcs that are kept; `None` for vertices that are not.
    pub(super) fn components(
        &self,
        keep: impl Fn(usize) -> bool,
        arc: impl Fn(&Arc) -> bool,
    ) -> (Vec<Option<u32>>, u32) {
        let mut component = vec![None; self.vertices];
        let mut count = 0;
        for start in 0..self.vertices {
            if component[start].is_some() || !keep(start) {
                continue;
            }
            component[start] = Some(count);
            let mut stack = vec![start];
            while let Some(at) = stack.pop() {
                for &number in self.out[at].iter().chain(&self.into[at]) {
                    let edge = &self.arcs[number as usize];
                    let to = if edge.src == at { edge.dst } else { edge.src };
                    if component[to].is_none() && keep(to) && arc(edge) {
                        component[to] = Some(count);
                        stack.push(to);
                    }
                }
            }
            count += 1;
        }
        (component, count)
    }
}
