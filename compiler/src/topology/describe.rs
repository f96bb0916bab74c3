//! What a fabric is, as a person sees it: for `rondo topology show`.

use std::collections::BTreeMap;

use rondo_ir::index::LinkId;
use rondo_ir::topology::NodeKind;
use rondo_ir::units::{Delay, Rate};
use serde::Serialize;

use super::connectivity::connectivity;
use crate::fabric::{Fabric, LinkKind, Shape};

/// A fabric in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopologyDescription {
    /// Name of the topology.
    pub name: String,
    /// Structure, in words (`torus 4x4x8`, `2 hosts of 8`).
    pub shape: String,
    /// Nodes that may host a rank.
    pub compute_nodes: usize,
    /// Of these, how many forward traffic of others.
    pub forwarding: usize,
    /// Nodes that only move data.
    pub switches: usize,
    /// Machines, where the structure is one of machines.
    pub hosts: Option<usize>,
    /// Directed links, by what they are.
    pub links: Vec<LinkClass>,
    /// Directed links that are down.
    pub down: usize,
    /// Circuit devices, by name, with their number of ports and their reconfiguration delay.
    pub devices: Vec<DeviceClass>,
    /// Shared media.
    pub media: usize,
    /// Most hops of a route between two compute nodes, if there are few enough to look (1024).
    pub longest_route: Option<usize>,
    /// Pairs of compute nodes (source, destination) without a route of forwarding nodes, if there are few enough to look.
    pub pairs_without_route: Option<usize>,
    /// Where the compute nodes are cut apart, if they are.
    pub cut: Option<String>,
}

/// Links of one kind, rate and latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkClass {
    /// What they are made of.
    pub kind: LinkKind,
    /// Bytes per second of each.
    pub rate: Rate,
    /// Latency of each.
    pub latency: Delay,
    /// How many directed links.
    pub count: usize,
}

/// A circuit device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceClass {
    /// Its name.
    pub name: String,
    /// Ports.
    pub ports: usize,
    /// Time that one change takes.
    pub reconfiguration_delay: Delay,
}

/// Compute nodes up to which all pairs are looked at.
const PAIRS_LIMIT: usize = 1024;

/// Describes a fabric.
///
/// # Complexity
/// Linear in the topology, and one route for each pair of compute nodes while there are at most 1024.
#[must_use]
pub fn describe(fabric: &Fabric) -> TopologyDescription {
    let topology = &fabric.topology;
    let compute: Vec<_> = topology.compute_nodes().collect();
    let mut classes: BTreeMap<(LinkKind, Rate, Delay), usize> = BTreeMap::new();
    for (index, link) in topology.links().iter().enumerate() {
        *classes.entry((fabric.kind(LinkId::new(index)), link.capacity, link.latency)).or_default() += 1;
    }
    let (mut longest, mut without) = (0, 0);
    if compute.len() <= PAIRS_LIMIT {
        for &src in &compute {
            for &dst in compute.iter().filter(|&&dst| dst != src) {
                match fabric.router.route(src, dst) {
                    Some(route) => longest = route.parts.iter().map(|part| part.hops.len()).fold(longest, usize::max),
                    None => without += 1,
                }
            }
        }
    }
    let looked = compute.len() <= PAIRS_LIMIT;
    let hosts = match &fabric.shape {
        Shape::Hosts { per_host } => compute.len().checked_div(*per_host as usize),
        _ => None,
    };
    TopologyDescription {
        name: topology.name().to_owned(),
        shape: shape(&fabric.shape, hosts),
        compute_nodes: compute.len(),
        forwarding: compute.iter().filter(|&&node| topology.node(node).forwards).count(),
        switches: topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch).count(),
        hosts,
        links: classes
            .into_iter()
            .map(|((kind, rate, latency), count)| LinkClass { kind, rate, latency, count })
            .collect(),
        down: topology.links().iter().filter(|link| !link.up).count(),
        devices: topology
            .devices()
            .iter()
            .map(|device| DeviceClass {
                name: device.name.clone(),
                ports: device.ports.len(),
                reconfiguration_delay: device.reconfiguration_delay,
            })
            .collect(),
        media: topology.media().len(),
        longest_route: looked.then_some(longest),
        pairs_without_route: looked.then_some(without),
        cut: connectivity(topology, &compute).map(|cut| cut.to_string()),
    }
}

fn shape(shape: &Shape, hosts: Option<usize>) -> String {
    match shape {
        Shape::Ring { both: true } => "ring, both directions".into(),
        Shape::Ring { both: false } => "ring, one direction".into(),
        Shape::Torus { sides } => format!("torus {}", super::torus::shape_name(sides)),
        Shape::Optical { sides } if sides.len() == 1 => "ring of cables and circuits".into(),
        Shape::Optical { sides } => format!("torus {} of cables and circuits", super::torus::shape_name(sides)),
        Shape::Grid { sides } => format!("grid {}", super::torus::shape_name(sides)),
        Shape::Mesh => "mesh: a link between every pair".into(),
        Shape::Switch => "one switch".into(),
        Shape::Hypercube { dimensions } => format!("hypercube of {dimensions} dimensions"),
        Shape::Clos { subtree } => {
            let below = subtree.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            format!("tree of switches with {below} nodes below one switch of each tier")
        }
        Shape::Hosts { per_host } => format!("{} of {per_host}", plural(hosts.unwrap_or(0), "host")),
        Shape::Hybrid { group, inside } => {
            format!("groups of {group} with a fabric each ({}), and a Clos between", self::shape(inside, None))
        }
        Shape::General => "no regular structure".into(),
    }
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A few lines of text; the last one has no line end.
impl std::fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.name)?;
        writeln!(f, "  structure   {}", self.shape)?;
        let forwarding = match self.forwarding {
            0 => "none forwards",
            all if all == self.compute_nodes => "all forward",
            _ => "some forward",
        };
        write!(f, "  nodes       {} compute ({forwarding}), {}", self.compute_nodes, self.switches)?;
        write!(f, "{}", if self.switches == 1 { " switch" } else { " switches" })?;
        for (place, class) in self.links.iter().enumerate() {
            let LinkClass { kind, rate, latency, count } = class;
            let label = if place == 0 { "links" } else { "" };
            write!(f, "\n  {label:<11} {count:>5} x {rate}, {latency} ({})", kind.name())?;
        }
        if self.links.is_empty() {
            write!(f, "\n  links       none")?;
        }
        if self.down != 0 {
            write!(f, "\n  down        {}", plural(self.down, "link"))?;
        }
        for DeviceClass { name, ports, reconfiguration_delay } in &self.devices {
            write!(f, "\n  circuits    {name}: {}, {reconfiguration_delay} to change", plural(*ports, "port"))?;
        }
        if self.media != 0 {
            write!(
                f,
                "\n  shared      {} of several links",
                if self.media == 1 { "1 medium".to_owned() } else { format!("{} media", self.media) }
            )?;
        }
        if let Some(hops) = self.longest_route.filter(|&hops| hops != 0) {
            write!(f, "\n  routes      at most {}", plural(hops, "hop"))?;
        }
        match self.pairs_without_route {
            None | Some(0) => {}
            Some(pairs) => write!(f, "\n  no route    for {} of compute nodes", plural(pairs, "ordered pair"))?,
        }
        match &self.cut {
            Some(cut) => write!(f, "\n  cut         {cut}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::presets::preset;
    use crate::topology::spec::{NetworkSpec, Preset, PresetSpec};
    use crate::topology::testing::link;

    #[test]
    fn a_preset_reads_well() {
        let network = NetworkSpec::default();
        let spec = PresetSpec { preset: Preset::DgxA100, hosts: 2, bandwidth: None, latency: None, network };
        let description = describe(&preset(&spec).unwrap());
        assert_eq!(
            description.to_string(),
            "2 x dgx-a100\n\
             \x20 structure   2 hosts of 8\n\
             \x20 nodes       16 compute (none forwards), 31 switches\n\
             \x20 links          32 x 300 GB/s, 350 ns (NVLink)\n\
             \x20                80 x 24 GB/s, 500 ns (PCIe)\n\
             \x20                 4 x 16 GB/s, 500 ns (between sockets)\n\
             \x20                32 x 25 GB/s, 850 ns (network)\n\
             \x20 routes      at most 6 hops"
        );
        assert_eq!(serde_json::to_value(&description).unwrap()["links"][0]["kind"], "nvlink");
    }

    #[test]
    fn what_is_missing_is_said() {
        let whole = crate::topology::ring::ring(4, false, link(1)).unwrap();
        let mut builder = whole.topology.to_builder();
        builder.links[1].up = false;
        let topology = std::sync::Arc::new(builder.finish().unwrap());
        let router = std::sync::Arc::new(crate::topology::route::ShortestPaths::new(topology.clone()));
        let text = describe(&Fabric { topology, router, ..whole }).to_string();
        assert!(text.contains("down        1 link"), "{text}");
        assert!(text.contains("no route    for 6 ordered pairs of compute nodes"), "{text}");
        assert!(
            text.contains("cut         no path leads from n0 to n2: {n0, n1} and {n2, n3} are not joined"),
            "{text}"
        );
    }
}
