//! Topologies: nodes, directed links, circuit devices, shared media, and the resources they form.
//!
//! A [`Topology`] is immutable and well formed: [`TopologyBuilder::finish`] reports *all* faults of
//! what was described, and only it makes one. Reachability between ranks is not its business.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::index::{DeviceId, LinkId, MediumId, NodeId, PortId};
use crate::units::{Delay, Rate};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// May host a rank.
    Compute,
    /// Moves data only.
    Switch,
}

/// A vertex of the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Unique name, as the user knows it (`gpu3`, `tor1`).
    pub name: String,
    /// Compute or switch.
    pub kind: NodeKind,
    /// Whether routes may pass through the node. Switches and torus nodes do; a GPU in a file or preset does not.
    pub forwards: bool,
    /// Whether the node can copy one incoming flow to several outgoing links (multicast).
    pub multicasts: bool,
    /// Whether the node can add incoming flows (in-network reduction).
    pub reduces: bool,
    /// Limit on what routes that *start* here send, over all links together.
    pub injection: Option<Rate>,
    /// Limit on what routes that *end* here receive, over all links together.
    pub ejection: Option<Rate>,
    /// Limit on what passes *through* the node (a switch's total capacity).
    pub throughput: Option<Rate>,
}

impl Node {
    /// A compute node without limits of its own that does not forward.
    #[must_use]
    pub fn compute(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: NodeKind::Compute,
            forwards: false,
            multicasts: false,
            reduces: false,
            injection: None,
            ejection: None,
            throughput: None,
        }
    }

    /// A non-blocking switch: forwards, neither copies nor adds.
    #[must_use]
    pub fn switch(name: impl Into<String>) -> Self {
        Self { kind: NodeKind::Switch, forwards: true, ..Self::compute(name) }
    }

    /// The same node, forwarding or not.
    #[must_use]
    pub fn forwarding(self, forwards: bool) -> Self {
        Self { forwards, ..self }
    }
}

/// A directed edge. A two-way cable is two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Where it starts.
    pub src: NodeId,
    /// Where it ends.
    pub dst: NodeId,
    /// Bytes per second.
    pub capacity: Rate,
    /// Time that a byte needs to cross it (hop delay).
    pub latency: Delay,
    /// Whether it works. A link that is down may not be used by any route.
    pub up: bool,
}

/// A medium whose links share one capacity: half-duplex cables, a PCIe switch's upstream port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Medium {
    /// Unique name.
    pub name: String,
    /// Bytes per second over all its links together.
    pub capacity: Rate,
    /// The links that share it.
    pub links: Vec<LinkId>,
}

/// Which directions a port of a device serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortDirection {
    /// The node sends into the device.
    Tx,
    /// The node receives from the device.
    Rx,
    /// Both: a circuit joins two duplex ports in both directions at once.
    Duplex,
}

/// A port of a device, wired to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The node at the other end of the fibre.
    pub node: NodeId,
    /// Directions that it serves.
    pub direction: PortDirection,
    /// Bytes per second, each direction.
    pub capacity: Rate,
    /// Latency that a circuit through this port adds; a circuit's latency is the sum over its two ports.
    pub latency: Delay,
}

/// A directed circuit through a device: data that enters at `from` leaves at `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Circuit {
    /// Port where the data enters the device.
    pub from: PortId,
    /// Port where it leaves.
    pub to: PortId,
}

/// The circuits that a device holds at once, sorted.
///
/// A circuit between duplex ports is listed in both directions. Each port sends at most once and
/// receives at most once: [`Device::check`] says so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Configuration(Vec<Circuit>);

impl Configuration {
    /// The configuration with these circuits; sorts and removes duplicates.
    #[must_use]
    pub fn new(mut circuits: Vec<Circuit>) -> Self {
        circuits.sort_unstable();
        circuits.dedup();
        Self(circuits)
    }

    /// Its circuits in order.
    #[must_use]
    pub fn circuits(&self) -> &[Circuit] {
        &self.0
    }

    /// Whether the circuit is up.
    #[must_use]
    pub fn contains(&self, circuit: Circuit) -> bool {
        self.0.binary_search(&circuit).is_ok()
    }
}

/// Which configurations a device can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum LegalConfigurations {
    /// Any matching between ports.
    AnyMatching,
    /// Any matching that uses only these circuits (a wavelength map).
    Only {
        /// Sorted.
        circuits: Vec<Circuit>,
    },
    /// Exactly one of these (a rotor's cycle). Changing from one to the next in cyclic order is the only move.
    Cycle {
        /// In the order of the cycle.
        configurations: Vec<Configuration>,
    },
}

/// A device that sets circuits between its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Unique name.
    pub name: String,
    /// Its ports, by [`PortId`].
    pub ports: Vec<Port>,
    /// Time that one change takes.
    pub reconfiguration_delay: Delay,
    /// What it can be set to.
    pub legal: LegalConfigurations,
}

/// Why a configuration is not legal for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A port that the device does not have.
    #[error("device {device} has no port {port}; it has {ports}")]
    NoPort {
        /// Device name.
        device: String,
        /// The port.
        port: PortId,
        /// How many there are.
        ports: usize,
    },
    /// A port in two circuits of the same direction.
    #[error("port {port} of device {device} would carry two circuits")]
    PortBusy {
        /// Device name.
        device: String,
        /// The port.
        port: PortId,
    },
    /// A circuit against the direction of a port.
    #[error("port {port} of device {device} does not serve that direction")]
    WrongDirection {
        /// Device name.
        device: String,
        /// The port.
        port: PortId,
    },
    /// A circuit from a port to itself.
    #[error("a circuit of device {device} joins port {port} to itself")]
    SelfLoop {
        /// Device name.
        device: String,
        /// The port.
        port: PortId,
    },
    /// A duplex pair joined in one direction only.
    #[error("duplex ports {from} and {to} of device {device} must be joined in both directions")]
    HalfDuplex {
        /// Device name.
        device: String,
        /// From.
        from: PortId,
        /// To.
        to: PortId,
    },
    /// The device cannot take this configuration.
    #[error("device {device} cannot be set to this configuration")]
    NotAllowed {
        /// Device name.
        device: String,
    },
    /// A rotor that would skip a position.
    #[error("device {device} can only move to the next configuration of its cycle")]
    NotNext {
        /// Device name.
        device: String,
    },
}

impl Device {
    /// Checks that `configuration` is legal: ports exist, serve their direction, carry at most one circuit, and
    /// the rule of the device allows it.
    ///
    /// # Errors
    /// The first violation in circuit order.
    pub fn check(&self, configuration: &Configuration) -> Result<(), ConfigurationError> {
        let device = || self.name.clone();
        let mut sends = vec![false; self.ports.len()];
        let mut receives = vec![false; self.ports.len()];
        for &Circuit { from, to } in configuration.circuits() {
            for port in [from, to] {
                if port.index() >= self.ports.len() {
                    return Err(ConfigurationError::NoPort { device: device(), port, ports: self.ports.len() });
                }
            }
            if from == to {
                return Err(ConfigurationError::SelfLoop { device: device(), port: from });
            }
            let (a, b) = (self.ports[from.index()].direction, self.ports[to.index()].direction);
            if a == PortDirection::Rx {
                return Err(ConfigurationError::WrongDirection { device: device(), port: from });
            }
            if b == PortDirection::Tx {
                return Err(ConfigurationError::WrongDirection { device: device(), port: to });
            }
            if std::mem::replace(&mut sends[from.index()], true) {
                return Err(ConfigurationError::PortBusy { device: device(), port: from });
            }
            if std::mem::replace(&mut receives[to.index()], true) {
                return Err(ConfigurationError::PortBusy { device: device(), port: to });
            }
            let duplex = a == PortDirection::Duplex && b == PortDirection::Duplex;
            if duplex && !configuration.contains(Circuit { from: to, to: from }) {
                return Err(ConfigurationError::HalfDuplex { device: device(), from, to });
            }
        }
        let allowed = match &self.legal {
            LegalConfigurations::AnyMatching => true,
            LegalConfigurations::Only { circuits } => {
                configuration.circuits().iter().all(|c| circuits.binary_search(c).is_ok())
            }
            LegalConfigurations::Cycle { configurations } => configurations.contains(configuration),
        };
        if allowed { Ok(()) } else { Err(ConfigurationError::NotAllowed { device: device() }) }
    }

    /// Checks that the device can go from `before` to `after` in one reconfiguration.
    ///
    /// # Errors
    /// As [`Device::check`] for `after`, and [`ConfigurationError::NotNext`].
    pub fn check_change(&self, before: &Configuration, after: &Configuration) -> Result<(), ConfigurationError> {
        self.check(after)?;
        if let LegalConfigurations::Cycle { configurations } = &self.legal {
            let next = configurations
                .iter()
                .position(|c| c == before)
                .map(|at| &configurations[(at + 1) % configurations.len()]);
            if before != after && next != Some(after) {
                return Err(ConfigurationError::NotNext { device: self.name.clone() });
            }
        }
        Ok(())
    }
}

/// One hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hop {
    /// A fixed link.
    Link(LinkId),
    /// A circuit, which must be up during the step.
    Circuit(DeviceId, Circuit),
}

/// Something whose rate limits what passes in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// A directed link.
    Link(LinkId),
    /// What routes that start at the node send.
    Injection(NodeId),
    /// What routes that end at the node receive.
    Ejection(NodeId),
    /// What passes through the node.
    Throughput(NodeId),
    /// A shared medium.
    Medium(MediumId),
    /// The sending side of a device's port.
    PortTx(DeviceId, PortId),
    /// The receiving side of a device's port.
    PortRx(DeviceId, PortId),
}

/// A well-formed topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    media: Vec<Medium>,
    devices: Vec<Device>,
    by_name: FxHashMap<String, NodeId>,
    /// Links that leave each node, in link order, in one array with offsets.
    out_start: Vec<u32>,
    out_links: Vec<LinkId>,
    media_of_link: BTreeMap<LinkId, Vec<MediumId>>,
    resources: Vec<Resource>,
    resource_index: FxHashMap<Resource, u32>,
}

impl Topology {
    /// A name for reports (`ring of 8`, `dgx-a100`).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All nodes, by [`NodeId`].
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All links, by [`LinkId`].
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// All shared media, by [`MediumId`].
    #[must_use]
    pub fn media(&self) -> &[Medium] {
        &self.media
    }

    /// All circuit devices, by [`DeviceId`].
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The node.
    #[must_use]
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// The link.
    #[must_use]
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.index()]
    }

    /// The device.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> &Device {
        &self.devices[device.index()]
    }

    /// The node with this name.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Compute nodes in node order.
    pub fn compute_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.kind == NodeKind::Compute)
            .map(|(index, _)| NodeId::new(index))
    }

    /// Links that leave the node, in link order; also those that are down.
    #[must_use]
    pub fn links_from(&self, node: NodeId) -> &[LinkId] {
        let range = self.out_start[node.index()] as usize..self.out_start[node.index() + 1] as usize;
        &self.out_links[range]
    }

    /// How a link is named in reports: `gpu3 -> gpu4`, with `#1` for the second of parallel links, and so on.
    #[must_use]
    pub fn link_name(&self, link: LinkId) -> String {
        let Link { src, dst, .. } = *self.link(link);
        let parallel = self.links_from(src).iter().filter(|&&l| l < link && self.link(l).dst == dst).count();
        let name = format!("{} -> {}", self.node(src).name, self.node(dst).name);
        if parallel == 0 { name } else { format!("{name} #{parallel}") }
    }

    /// How a resource is named in reports.
    #[must_use]
    pub fn resource_name(&self, resource: Resource) -> String {
        match resource {
            Resource::Link(link) => self.link_name(link),
            Resource::Injection(node) => format!("injection of {}", self.node(node).name),
            Resource::Ejection(node) => format!("ejection of {}", self.node(node).name),
            Resource::Throughput(node) => format!("throughput of {}", self.node(node).name),
            Resource::Medium(medium) => format!("shared medium {}", self.media[medium.index()].name),
            Resource::PortTx(device, port) => format!("port {port} of {} (sending)", self.device(device).name),
            Resource::PortRx(device, port) => format!("port {port} of {} (receiving)", self.device(device).name),
        }
    }

    /// All resources, in the order of [`Resource`]; the position is the dense index of a resource.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The dense index of a resource that exists.
    #[must_use]
    pub fn resource_index(&self, resource: Resource) -> Option<usize> {
        // Links come first, in link order.
        if let Resource::Link(link) = resource {
            return (link.index() < self.links.len()).then(|| link.index());
        }
        self.resource_index.get(&resource).map(|&index| index as usize)
    }

    /// The rate of a resource that exists.
    ///
    /// # Panics
    /// If the topology does not have that resource.
    #[must_use]
    pub fn rate(&self, resource: Resource) -> Rate {
        let limit = |rate: Option<Rate>| rate.expect("the resource exists");
        match resource {
            Resource::Link(link) => self.link(link).capacity,
            Resource::Injection(node) => limit(self.node(node).injection),
            Resource::Ejection(node) => limit(self.node(node).ejection),
            Resource::Throughput(node) => limit(self.node(node).throughput),
            Resource::Medium(medium) => self.media[medium.index()].capacity,
            Resource::PortTx(device, port) | Resource::PortRx(device, port) => {
                self.device(device).ports[port.index()].capacity
            }
        }
    }

    /// Where a hop starts and ends.
    #[must_use]
    pub fn ends(&self, hop: Hop) -> (NodeId, NodeId) {
        match hop {
            Hop::Link(link) => (self.link(link).src, self.link(link).dst),
            Hop::Circuit(device, Circuit { from, to }) => {
                let ports = &self.device(device).ports;
                (ports[from.index()].node, ports[to.index()].node)
            }
        }
    }

    /// Latency of a hop.
    #[must_use]
    pub fn hop_latency(&self, hop: Hop) -> Delay {
        match hop {
            Hop::Link(link) => self.link(link).latency,
            Hop::Circuit(device, Circuit { from, to }) => {
                let ports = &self.device(device).ports;
                ports[from.index()].latency.plus(ports[to.index()].latency)
            }
        }
    }

    /// The one function that maps hops to what they load: calls `visit` with the dense index of each resource that
    /// a path over `hops` uses, once for each use. The path's first node injects, its last one ejects, those between
    /// are passed through. For a tree, call it once per hop with [`Topology::hop_resources`] instead and add the ends.
    pub fn path_resources(&self, hops: &[Hop], mut visit: impl FnMut(usize)) {
        let (Some(&first), Some(&last)) = (hops.first(), hops.last()) else { return };
        for &hop in hops {
            self.hop_resources(hop, &mut visit);
        }
        let mut end = |resource| {
            if let Some(index) = self.resource_index(resource) {
                visit(index);
            }
        };
        end(Resource::Injection(self.ends(first).0));
        for pair in hops.windows(2) {
            end(Resource::Throughput(self.ends(pair[0]).1));
        }
        end(Resource::Ejection(self.ends(last).1));
    }

    /// The resources of one hop alone: the link or the two ports, and the media that the link shares.
    pub fn hop_resources(&self, hop: Hop, mut visit: impl FnMut(usize)) {
        match hop {
            Hop::Link(link) => {
                visit(link.index());
                if !self.media.is_empty() {
                    for &medium in self.media_of_link.get(&link).into_iter().flatten() {
                        visit(self.resource_index[&Resource::Medium(medium)] as usize);
                    }
                }
            }
            Hop::Circuit(device, Circuit { from, to }) => {
                visit(self.resource_index[&Resource::PortTx(device, from)] as usize);
                visit(self.resource_index[&Resource::PortRx(device, to)] as usize);
            }
        }
    }

    /// The parts again, to change and [`TopologyBuilder::finish`] anew (failures, degraded links).
    #[must_use]
    pub fn to_builder(&self) -> TopologyBuilder {
        TopologyBuilder {
            name: self.name.clone(),
            nodes: self.nodes.clone(),
            links: self.links.clone(),
            media: self.media.clone(),
            devices: self.devices.clone(),
        }
    }
}

/// A fault of a described topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes of one name.
    #[error("two nodes are named `{name}`")]
    DuplicateNode {
        /// The name.
        name: String,
    },
    /// A link from a node to itself.
    #[error("a link joins node `{name}` to itself")]
    SelfLoop {
        /// The node.
        name: String,
    },
    /// A link, port or medium that names a node or link which does not exist.
    #[error("{what} refers to {target}, which does not exist")]
    Dangling {
        /// What refers.
        what: String,
        /// What is missing.
        target: String,
    },
    /// A device whose rule lists an illegal configuration.
    #[error("device `{device}` lists an illegal configuration: {reason}")]
    IllegalRule {
        /// The device.
        device: String,
        /// Why.
        reason: ConfigurationError,
    },
}

/// Collects the parts of a topology.
#[derive(Clone, Debug, Default)]
pub struct TopologyBuilder {
    /// A name for reports.
    pub name: String,
    /// Nodes so far.
    pub nodes: Vec<Node>,
    /// Links so far.
    pub links: Vec<Link>,
    /// Media so far.
    pub media: Vec<Medium>,
    /// Devices so far.
    pub devices: Vec<Device>,
}

impl TopologyBuilder {
    /// An empty topology of that name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Adds a node.
    pub fn node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId::new(self.nodes.len() - 1)
    }

    /// Adds a directed link that is up.
    pub fn link(&mut self, src: NodeId, dst: NodeId, capacity: Rate, latency: Delay) -> LinkId {
        self.links.push(Link { src, dst, capacity, latency, up: true });
        LinkId::new(self.links.len() - 1)
    }

    /// Adds a two-way cable: the link `a -> b`, then `b -> a`.
    pub fn cable(&mut self, a: NodeId, b: NodeId, capacity: Rate, latency: Delay) -> (LinkId, LinkId) {
        (self.link(a, b, capacity, latency), self.link(b, a, capacity, latency))
    }

    /// Adds a shared medium.
    pub fn medium(&mut self, medium: Medium) -> MediumId {
        self.media.push(medium);
        MediumId::new(self.media.len() - 1)
    }

    /// Adds a circuit device.
    pub fn device(&mut self, device: Device) -> DeviceId {
        self.devices.push(device);
        DeviceId::new(self.devices.len() - 1)
    }

    /// Checks everything and freezes it.
    ///
    /// # Errors
    /// All faults, in the order nodes, links, media, devices.
    pub fn finish(self) -> Result<Topology, Vec<TopologyError>> {
        let Self { name, nodes, links, media, devices } = self;
        let mut errors = Vec::new();
        let mut by_name = FxHashMap::default();
        for (index, node) in nodes.iter().enumerate() {
            if by_name.insert(node.name.clone(), NodeId::new(index)).is_some() {
                errors.push(TopologyError::DuplicateNode { name: node.name.clone() });
            }
        }
        let missing = |node: NodeId| nodes.len() <= node.index();
        for (index, link) in links.iter().enumerate() {
            for node in [link.src, link.dst] {
                if missing(node) {
                    errors.push(TopologyError::Dangling {
                        what: format!("link {}", LinkId::new(index)),
                        target: format!("node {node}"),
                    });
                }
            }
            if link.src == link.dst && !missing(link.src) {
                errors.push(TopologyError::SelfLoop { name: nodes[link.src.index()].name.clone() });
            }
        }
        let mut media_of_link: BTreeMap<LinkId, Vec<MediumId>> = BTreeMap::new();
        for (index, medium) in media.iter().enumerate() {
            for &link in &medium.links {
                if links.len() <= link.index() {
                    errors.push(TopologyError::Dangling {
                        what: format!("medium `{}`", medium.name),
                        target: format!("link {link}"),
                    });
                }
                media_of_link.entry(link).or_default().push(MediumId::new(index));
            }
        }
        for device in &devices {
            for port in &device.ports {
                if missing(port.node) {
                    errors.push(TopologyError::Dangling {
                        what: format!("a port of device `{}`", device.name),
                        target: format!("node {}", port.node),
                    });
                }
            }
            if let LegalConfigurations::Cycle { configurations } = &device.legal {
                for configuration in configurations {
                    if let Err(reason) = device.check(configuration) {
                        errors.push(TopologyError::IllegalRule { device: device.name.clone(), reason });
                    }
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut out_start = vec![0_u32; nodes.len() + 1];
        for link in &links {
            out_start[link.src.index() + 1] += 1;
        }
        for index in 0..nodes.len() {
            out_start[index + 1] += out_start[index];
        }
        let mut next = out_start.clone();
        let mut out_links = vec![LinkId::new(0); links.len()];
        for (index, link) in links.iter().enumerate() {
            let slot = &mut next[link.src.index()];
            out_links[*slot as usize] = LinkId::new(index);
            *slot += 1;
        }
        let mut resources: Vec<Resource> = (0..links.len()).map(|l| Resource::Link(LinkId::new(l))).collect();
        for (index, node) in nodes.iter().enumerate() {
            let id = NodeId::new(index);
            resources.extend(node.injection.map(|_| Resource::Injection(id)));
            resources.extend(node.ejection.map(|_| Resource::Ejection(id)));
            resources.extend(node.throughput.map(|_| Resource::Throughput(id)));
        }
        resources.extend((0..media.len()).map(|m| Resource::Medium(MediumId::new(m))));
        for (d, device) in devices.iter().enumerate() {
            for p in 0..device.ports.len() {
                resources.push(Resource::PortTx(DeviceId::new(d), PortId::new(p)));
                resources.push(Resource::PortRx(DeviceId::new(d), PortId::new(p)));
            }
        }
        resources.sort_unstable();
        let resource_index = resources
            .iter()
            .enumerate()
            .filter(|(_, r)| !matches!(r, Resource::Link(_)))
            .map(|(index, &r)| (r, u32::try_from(index).expect("fewer than 2^32 resources")))
            .collect();
        Ok(Topology {
            name,
            nodes,
            links,
            media,
            devices,
            by_name,
            out_start,
            out_links,
            media_of_link,
            resources,
            resource_index,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(gb: u64) -> Rate {
        Rate::new(gb * 1_000_000_000).unwrap()
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let mut builder = TopologyBuilder::new("bad");
        let a = builder.node(Node::compute("a"));
        builder.node(Node::compute("a"));
        builder.link(a, a, rate(1), Delay::ZERO);
        builder.link(a, NodeId::new(9), rate(1), Delay::ZERO);
        let errors = builder.finish().unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }

    #[test]
    fn a_path_loads_links_media_and_ends() {
        let mut builder = TopologyBuilder::new("line");
        let a = builder.node(Node { injection: Some(rate(1)), ..Node::compute("a") });
        let s = builder.node(Node { throughput: Some(rate(5)), ..Node::switch("s") });
        let b = builder.node(Node { ejection: Some(rate(2)), ..Node::compute("b") });
        let l0 = builder.link(a, s, rate(1), Delay::ZERO);
        let l1 = builder.link(s, b, rate(1), Delay::ZERO);
        builder.medium(Medium { name: "bus".into(), capacity: rate(1), links: vec![l0] });
        let topology = builder.finish().unwrap();
        let mut seen = Vec::new();
        topology.path_resources(&[Hop::Link(l0), Hop::Link(l1)], |index| {
            seen.push(topology.resource_name(topology.resources()[index]))
        });
        assert_eq!(
            seen,
            ["a -> s", "shared medium bus", "s -> b", "injection of a", "throughput of s", "ejection of b"]
        );
    }

    #[test]
    fn a_port_carries_one_circuit_each_way() {
        let mut builder = TopologyBuilder::new("ocs");
        let nodes: Vec<_> = (0..4).map(|i| builder.node(Node::compute(format!("n{i}")))).collect();
        let ports = nodes
            .iter()
            .map(|&node| Port { node, direction: PortDirection::Duplex, capacity: rate(1), latency: Delay::ZERO })
            .collect();
        let device = Device {
            name: "ocs".into(),
            ports,
            reconfiguration_delay: Delay::from_nanoseconds(10),
            legal: LegalConfigurations::AnyMatching,
        };
        let pair = |a: usize, b: usize| {
            [Circuit { from: PortId::new(a), to: PortId::new(b) }, Circuit { from: PortId::new(b), to: PortId::new(a) }]
        };
        assert!(device.check(&Configuration::new([pair(0, 1), pair(2, 3)].concat())).is_ok());
        assert!(matches!(
            device.check(&Configuration::new([pair(0, 1), pair(1, 2)].concat())),
            Err(ConfigurationError::PortBusy { .. })
        ));
        assert!(matches!(
            device.check(&Configuration::new(pair(0, 1)[..1].to_vec())),
            Err(ConfigurationError::HalfDuplex { .. })
        ));
        assert!(matches!(
            device.check(&Configuration::new(pair(0, 7).to_vec())),
            Err(ConfigurationError::NoPort { .. })
        ));
    }
}
