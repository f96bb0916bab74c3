//! Machines with accelerators, alone or joined by their network adapters.

use std::sync::Arc;

use rondo_ir::index::NodeId;
use rondo_ir::topology::{Node, NodeKind, TopologyBuilder};
use rondo_ir::units::{Delay, Rate};

use super::error::{BuildError, LINK_LIMIT};
use super::route::ShortestPaths;
use super::spec::{LinkRates, NetworkSpec};
use crate::fabric::{Fabric, LinkKind, Shape};

/// A machine. Its accelerators come first among `nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Accelerators, then switches (PCIe switches, processors, NVSwitch).
    pub nodes: Vec<Node>,
    /// Directed links between them.
    pub links: Vec<HostLink>,
    /// Network adapters: they become nodes only where several machines are joined.
    pub nics: Vec<Nic>,
}

/// A link inside a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLink {
    /// Index of its first node.
    pub src: usize,
    /// Index of its last node.
    pub dst: usize,
    /// Rate and latency.
    pub rates: LinkRates,
    /// What it is made of.
    pub kind: LinkKind,
}

/// A network adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// What it hangs on, and how fast.
    pub attached: Vec<(usize, LinkRates)>,
    /// Rate to the network, each direction; `None`: not known.
    pub rate: Option<Rate>,
    /// Latency of its cable.
    pub latency: Delay,
}

/// Latency of a network adapter's cable where nothing else is said: two of them make the 1.7 us that are commonly quoted
/// for InfiniBand.
pub const NIC_LATENCY: Delay = Delay::from_nanoseconds(850);

impl Host {
    /// Adds a node.
    pub fn node(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds links both ways.
    pub fn cable(&mut self, a: usize, b: usize, rates: LinkRates, kind: LinkKind) {
        self.links.extend([(a, b), (b, a)].map(|(src, dst)| HostLink { src, dst, rates, kind }));
    }

    /// Number of accelerators.
    #[must_use]
    pub fn accelerators(&self) -> usize {
        self.nodes.iter().filter(|node| node.kind == NodeKind::Compute).count()
    }
}

/// Builds `hosts` such machines.
///
/// One machine stands alone: its nodes have their own names and its network adapters are left out. Of several, machine
/// h's nodes are called `host0/gpu0` and so on, followed by its adapters `host0/nic0` …; after all machines comes the switch
/// `network`, or with rails one switch `rail0` … for each adapter of a machine. The accelerators of machine h are the
/// compute nodes from h times their number on. A number of adapters other than the machine's own is spread evenly over
/// the places where the machine has them, or over the accelerators if it has none. Routes are [`ShortestPaths`];
/// accelerators do not forward.
///
/// # Errors
/// 0 machines; several machines without adapters or with adapters of unknown rate; more than 2²⁴ links.
pub fn assemble(name: String, host: &Host, hosts: u32, network: &NetworkSpec) -> Result<Fabric, BuildError> {
    if hosts == 0 {
        return Err(BuildError::TooFew { what: "the number of hosts".into(), given: 0, limit: 1 });
    }
    let nics = if hosts == 1 { Vec::new() } else { adapters(host, network)? };
    let per_host = host.links.len() + nics.iter().map(|nic| 2 * nic.attached.len() + 2).sum::<usize>();
    let links = (per_host as u64).saturating_mul(u64::from(hosts));
    if LINK_LIMIT < links {
        return Err(BuildError::TooLarge { what: name, given: links });
    }
    let mut builder = TopologyBuilder::new(name);
    let mut kinds = Vec::new();
    let mut ports = Vec::new();
    for h in 0..hosts {
        let first = builder.nodes.len();
        let prefix = if hosts == 1 { String::new() } else { format!("host{h}/") };
        for node in &host.nodes {
            builder.node(Node { name: format!("{prefix}{}", node.name), ..node.clone() });
        }
        for link in &host.links {
            let ends = [link.src, link.dst].map(|end| NodeId::new(first + end));
            builder.link(ends[0], ends[1], link.rates.bandwidth, link.rates.latency);
            kinds.push(link.kind);
        }
        for (i, nic) in nics.iter().enumerate() {
            let node = builder.node(Node::switch(format!("{prefix}nic{i}")));
            for &(at, rates) in &nic.attached {
                builder.cable(NodeId::new(first + at), node, rates.bandwidth, rates.latency);
                kinds.extend([LinkKind::Pcie; 2]);
            }
            ports.push(node);
        }
    }
    let rails = if network.rail_optimized { nics.len() } else { usize::from(!nics.is_empty()) };
    let names = (0..rails).map(|i| if network.rail_optimized { format!("rail{i}") } else { "network".to_owned() });
    let switches: Vec<NodeId> = names.map(|name| builder.node(Node::switch(name))).collect();
    for (port, &node) in ports.iter().enumerate() {
        let (nic, rail) = (&nics[port % nics.len()], port % nics.len() % rails);
        if let Some(rate) = nic.rate {
            builder.cable(node, switches[rail], rate, nic.latency);
            kinds.extend([LinkKind::Network; 2]);
        }
    }
    let topology = Arc::new(super::finish(builder)?);
    let shape = Shape::Hosts { per_host: host.accelerators() as u32 };
    let router = Arc::new(ShortestPaths::new(topology.clone()));
    Ok(Fabric { kinds, ..Fabric::new(topology, shape, router) })
}

/// The machine's adapters as the job wants them.
fn adapters(host: &Host, network: &NetworkSpec) -> Result<Vec<Nic>, BuildError> {
    let own = host.nics.len();
    let count = network.nics.map_or(own, |nics| nics as usize);
    if count == 0 {
        return Err(BuildError::NoNics);
    }
    if LINK_LIMIT < count as u64 {
        return Err(BuildError::TooLarge { what: "the network".into(), given: count as u64 });
    }
    let accelerators = host.accelerators();
    let mut nics = Vec::with_capacity(count);
    for i in 0..count {
        let place = host.nics.get(i * own / count);
        let rate = network.nic_bandwidth.or(place.and_then(|nic| nic.rate)).ok_or(BuildError::NoNicRate { nic: i })?;
        let latency = network.nic_latency.or(place.map(|nic| nic.latency)).unwrap_or(NIC_LATENCY);
        let attached = match place {
            Some(nic) => nic.attached.clone(),
            None => {
                // As many accelerators as adapters, or neighbours that share one.
                let mine =
                    |gpu: &usize| gpu * count / accelerators == i || (accelerators < count && i % accelerators == *gpu);
                let rates = LinkRates { bandwidth: rate, latency: Delay::ZERO };
                (0..accelerators).filter(mine).map(|gpu| (gpu, rates)).collect()
            }
        };
        nics.push(Nic { attached, rate: Some(rate), latency });
    }
    Ok(nics)
}
