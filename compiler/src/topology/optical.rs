//! Endpoints joined in rings through optical circuit switches (OCS): rings, tori and photonic rails.
//!
//! Each ring of endpoints has two perfect matchings; a [`Design`] says which of them are cables and which are circuits, and
//! how many switches hold the circuits. The circuits before the first step make the ring, where the design can.
//!
//! # Source
//! "Shortcut", section V (Eqs. 8–15) and Table I. The paper's parity-split design cannot hold the ring (its second matching
//! joins odd to even endpoints); [`Design::ParityRing`] is the repaired one.

use std::sync::Arc;

use rondo_ir::index::{NodeId, PortId};
use rondo_ir::topology::{
    Circuit, Configuration, Device, LegalConfigurations, Node, Port, PortDirection, TopologyBuilder,
};
use rondo_ir::units::Delay;

use super::circuits::{CircuitRouter, Orientation};
use super::error::BuildError;
use super::spec::LinkRates;
use super::torus::{check_sides, shape_name};
use crate::fabric::{Fabric, Shape};

/// Which matchings of a ring are cables, and which are circuits of which switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Design {
    /// Both through one switch: two ports an endpoint (p = 2n).
    AllPorts,
    /// {j, j+1} for even j are cables, the others circuits of one switch: one port an endpoint (p = n; Eqs. 8 and 9).
    Fixed,
    /// The same with a switch for even endpoints and one for odd ones (p = n/2 each). It cannot hold the ring; no circuit is
    /// up at first.
    ParitySplit,
    /// The cables of [`Design::Fixed`], and a switch for each parity that joins {4j, 4j+2} and {4j+3, 4j+5}: a ring in the
    /// order 1, 0, 2, 3, 5, 4, 6, 7, …
    ParityRing,
    /// One port an endpoint and no cable: circuits must be set for every step.
    SinglePort,
}

impl Design {
    /// All designs, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::AllPorts, Self::Fixed, Self::ParitySplit, Self::ParityRing, Self::SinglePort];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllPorts => "all-ports",
            Self::Fixed => "fixed",
            Self::ParitySplit => "parity-split",
            Self::ParityRing => "parity-ring",
            Self::SinglePort => "single-port",
        }
    }

    /// Switches of one ring.
    #[must_use]
    pub const fn switches(self) -> u32 {
        match self {
            Self::ParitySplit | Self::ParityRing => 2,
            Self::AllPorts | Self::Fixed | Self::SinglePort => 1,
        }
    }

    /// Ports that a ring of `n` endpoints takes of each of its switches.
    #[must_use]
    pub const fn ports(self, n: u64) -> u64 {
        match self {
            Self::AllPorts => 2 * n,
            Self::Fixed | Self::SinglePort => n,
            Self::ParitySplit | Self::ParityRing => n / 2,
        }
    }

    /// What the number of endpoints of a ring must be a multiple of.
    #[must_use]
    pub const fn divisor(self) -> u32 {
        match self {
            Self::AllPorts => 1,
            Self::Fixed | Self::ParitySplit | Self::SinglePort => 2,
            Self::ParityRing => 4,
        }
    }
}

/// A switching technology: Table I of the Shortcut paper, and the photonic MEMS that its text quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Technology {
    /// Arrayed waveguide gratings and tunable lasers.
    WavelengthRouted,
    /// Micro-electro-mechanical mirrors on a photonic chip.
    PhotonicMems,
    /// Mach–Zehnder or ring switches on a chip.
    SiliconPhotonics,
    /// Rotor switches.
    Rotor,
    /// Free-space mirrors.
    Mems3d,
}

impl Technology {
    /// All of them, from fast to slow.
    pub const ALL: [Self; 5] =
        [Self::WavelengthRouted, Self::PhotonicMems, Self::SiliconPhotonics, Self::Rotor, Self::Mems3d];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WavelengthRouted => "wavelength-routed",
            Self::PhotonicMems => "photonic-mems",
            Self::SiliconPhotonics => "silicon-photonics",
            Self::Rotor => "rotor",
            Self::Mems3d => "3d-mems",
        }
    }

    /// Time that one change of circuits takes.
    #[must_use]
    pub const fn delay(self) -> Delay {
        Delay::from_nanoseconds(match self {
            Self::WavelengthRouted => 100,
            Self::PhotonicMems => 400,
            Self::SiliconPhotonics | Self::Rotor => 7_000,
            Self::Mems3d => 15_000_000,
        })
    }

    /// Ports of one switch.
    #[must_use]
    pub const fn ports(self) -> u64 {
        match self {
            Self::WavelengthRouted => 8,
            Self::PhotonicMems => 240,
            Self::SiliconPhotonics => 32,
            Self::Rotor => 128,
            Self::Mems3d => 320,
        }
    }

    /// The largest ring, of a power of two endpoints, that one set of its switches holds.
    #[must_use]
    pub fn largest_ring(self, design: Design) -> u64 {
        let fits = |exponent: &u32| design.ports(1 << exponent) <= self.ports();
        (1..32).take_while(fits).last().map_or(0, |exponent| 1 << exponent)
    }
}

/// Which endpoints form rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rings {
    /// All, in one ring.
    Ring {
        /// Endpoints.
        nodes: u32,
    },
    /// A ring along each dimension of a torus.
    Torus {
        /// Sides; a side of 1 has no ring.
        sides: Vec<u32>,
    },
    /// Servers of accelerators on a switch of their own; accelerator i of every server is on ring i.
    Rails {
        /// Servers.
        servers: u32,
        /// Accelerators of a server.
        per_server: u32,
        /// Link of each accelerator to the switch of its server.
        inside: LinkRates,
    },
}

/// An optical topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpticalSpec {
    /// Which endpoints form rings.
    pub rings: Rings,
    /// How each ring is wired.
    pub design: Design,
    /// Whether each port sends only or receives only, so that circuits need not be paired.
    pub split_ports: bool,
    /// Rings of one dimension that share their switches.
    pub rings_per_switch: u32,
    /// Every cable, and every circuit.
    pub link: LinkRates,
    /// Time that one change of circuits takes.
    pub delay: Delay,
    /// Ports that a switch has at most.
    pub most_ports: Option<u64>,
}

/// The switches of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Which dimension, from 0.
    pub dimension: usize,
    /// Endpoints of a ring (d_k).
    pub side: u64,
    /// Rings along it (n / d_k).
    pub rings: u64,
    /// Rings that share a switch, or a pair of switches (b_k).
    pub rings_per_switch: u64,
    /// Switches.
    pub switches: u64,
    /// Ports of each.
    pub ports: u64,
}

impl Rings {
    /// Sides of the box of endpoints, and the first dimension that has rings.
    fn sides(&self) -> (Vec<u32>, usize) {
        match self {
            Self::Ring { nodes } => (vec![*nodes], 0),
            Self::Torus { sides } => (sides.clone(), 0),
            Self::Rails { servers, per_server, .. } => (vec![*per_server, *servers], 1),
        }
    }

    /// Endpoints.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.sides().0.iter().map(|&side| u64::from(side)).product()
    }

    /// The switches of each dimension, with as many rings to a switch as `group` says for the number of rings and the ports of
    /// one ring (rounded down to a divisor of the number of rings, at least 1).
    ///
    /// # Source
    /// "Shortcut", section V-B: dimension k needs 2n/(b_k·d_k) switches of b_k·d_k/2 ports, b_k dividing n/d_k (parity designs).
    #[must_use]
    pub fn partition(&self, design: Design, group: impl Fn(u64, u64) -> u64) -> Vec<Partition> {
        let (sides, first) = self.sides();
        let n = self.nodes();
        let of = |(dimension, &side): (usize, &u32)| {
            let side = u64::from(side);
            let rings = n / side;
            let wanted = group(rings, design.ports(side)).clamp(1, rings);
            let rings_per_switch = (1..=wanted).rev().find(|&b| rings.is_multiple_of(b)).unwrap_or(1);
            Partition {
                dimension,
                side,
                rings,
                rings_per_switch,
                switches: u64::from(design.switches()) * rings / rings_per_switch,
                ports: rings_per_switch * design.ports(side),
            }
        };
        sides.iter().enumerate().skip(first).filter(|(_, side)| **side != 1).map(of).collect()
    }
}

/// Builds it. Endpoints are `n0 …` and forward; of rails, `s0/gpu0 …`, numbered by server. Switches are `ocs`, or `ocs0 …` by
/// dimension, then ring (or group of rings), then parity. Ports are numbered by ring, then by endpoint along it;
/// with split ports, each is two: sending, then receiving. A circuit's latency is that of a cable, half from each port.
///
/// # Errors
/// Rings that the design cannot have, more ports than the technology has, a latency that has no half.
pub fn optical(spec: &OpticalSpec) -> Result<Fabric, BuildError> {
    let (sides, first) = spec.rings.sides();
    let name = match &spec.rings {
        Rings::Ring { nodes } => format!("optical ring of {nodes}"),
        Rings::Torus { sides } => format!("optical torus {}", shape_name(sides)),
        Rings::Rails { servers, per_server, .. } => format!("photonic rails, {servers} servers of {per_server}"),
    };
    check_sides("optical torus", &sides, &name, |nodes| nodes * sides.len() as u64)?;
    for (dimension, &side) in sides.iter().enumerate().filter(|&(d, &side)| side != 1 && first <= d) {
        let limit = spec.design.divisor();
        if side % limit != 0 {
            return Err(BuildError::NotMultiple {
                what: format!("side {} of the {name} ({} design)", dimension + 1, spec.design.name()),
                given: u64::from(side),
                limit: u64::from(limit),
            });
        }
    }
    let femtoseconds = spec.link.latency.femtoseconds();
    if femtoseconds % 2 == 1 {
        return Err(BuildError::NotMultiple {
            what: "the latency in femtoseconds, half of which each port of a circuit adds,".into(),
            given: femtoseconds,
            limit: 2,
        });
    }
    let n: u32 = sides.iter().product();
    let mut work = Work { spec, builder: TopologyBuilder::new(name), circuits: Vec::new() };
    let mut position: Vec<u32> = (0..n).collect();
    let mut odd = vec![false; n as usize];
    if let Rings::Rails { servers, per_server, inside } = spec.rings {
        for server in 0..servers {
            let switch = NodeId::from(n + server);
            for gpu in 0..per_server {
                let node = work.builder.node(Node::compute(format!("s{server}/gpu{gpu}")).forwarding(true));
                work.builder.cable(node, switch, inside.bandwidth, inside.latency);
            }
        }
        for server in 0..servers {
            work.builder.node(Node::switch(format!("s{server}/switch")));
        }
    } else {
        for node in 0..n {
            work.builder.node(Node::compute(format!("n{node}")).forwarding(true));
        }
    }
    let mut stride = 1;
    for (dimension, &side) in sides.iter().enumerate() {
        if side != 1 && first <= dimension {
            let rings: Vec<Vec<NodeId>> = (0..n)
                .filter(|node| node / stride % side == 0)
                .map(|first| (0..side).map(|x| NodeId::from(first + x * stride)).collect())
                .collect();
            for ring in &rings {
                for node in ring.iter().skip(1).step_by(2) {
                    odd[node.index()] ^= true;
                }
            }
            for group in rings.chunks(spec.rings_per_switch.max(1) as usize) {
                work.switches(group)?;
            }
        }
        stride *= side;
    }
    if spec.design == Design::ParityRing && sides.len() == 1 {
        // The cycle is 1, 0, 2, 3, 5, 4, 6, 7, …: in each four the first two change places.
        for node in &mut position {
            *node ^= u32::from(*node % 4 < 2);
        }
        // Along it, every second endpoint.
        for node in 0..n as usize {
            odd[node] = position[node] % 2 == 1;
        }
    }
    let Work { builder, circuits, .. } = work;
    let nodes = builder.nodes.len();
    position.extend(n..u32::try_from(nodes).unwrap_or(u32::MAX));
    odd.resize(nodes, false);
    let topology = Arc::new(super::finish(builder)?);
    let orientation = Arc::new(Orientation { position, odd });
    let router = CircuitRouter::new(Arc::clone(&topology), &circuits, Arc::clone(&orientation));
    let shape = match &spec.rings {
        Rings::Rails { per_server, .. } => Shape::Hosts { per_host: *per_server },
        Rings::Ring { .. } | Rings::Torus { .. } => Shape::Optical { sides },
    };
    Ok(Fabric { circuits, orientation: Some(orientation), ..Fabric::new(topology, shape, Arc::new(router)) })
}

struct Work<'a> {
    spec: &'a OpticalSpec,
    builder: TopologyBuilder,
    circuits: Vec<Configuration>,
}

impl Work<'_> {
    /// The cables, ports and circuits of rings that share their switches.
    fn switches(&mut self, rings: &[Vec<NodeId>]) -> Result<(), BuildError> {
        let (design, link) = (self.spec.design, self.spec.link);
        let count = design.switches() as usize;
        let mut ports: Vec<Vec<NodeId>> = vec![Vec::new(); count];
        let mut pairs: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
        for ring in rings {
            let side = ring.len();
            if design != Design::AllPorts && design != Design::SinglePort {
                for pair in ring.chunks(2) {
                    self.builder.cable(pair[0], pair[1], link.bandwidth, link.latency);
                }
            }
            let base: Vec<usize> = ports.iter().map(Vec::len).collect();
            for (j, &node) in ring.iter().enumerate() {
                match design {
                    Design::AllPorts => ports[0].extend([node, node]),
                    Design::Fixed | Design::SinglePort => ports[0].push(node),
                    Design::ParitySplit | Design::ParityRing => ports[j % 2].push(node),
                }
            }
            // Port of endpoint j in its switch where it has one.
            match design {
                Design::AllPorts => {
                    pairs[0].extend((0..side).map(|j| (base[0] + 2 * j, base[0] + 2 * ((j + 1) % side) + 1)));
                }
                Design::Fixed => {
                    pairs[0].extend((1..side).step_by(2).map(|j| (base[0] + j, base[0] + (j + 1) % side)));
                }
                Design::SinglePort => {
                    pairs[0].extend((0..side).step_by(2).map(|j| (base[0] + j, base[0] + j + 1)));
                }
                Design::ParitySplit => {}
                Design::ParityRing => {
                    // {4j, 4j+2} among the even, {4j+3, 4j+5} among the odd endpoints.
                    let half = side / 2;
                    pairs[0].extend((0..half).step_by(2).map(|j| (base[0] + j, base[0] + j + 1)));
                    pairs[1].extend((1..half).step_by(2).map(|j| (base[1] + j, base[1] + (j + 1) % half)));
                }
            }
        }
        let half = Delay::from_femtoseconds(link.latency.femtoseconds() / 2);
        let split = self.spec.split_ports;
        for (ports, pairs) in ports.into_iter().zip(pairs) {
            let name = format!("ocs{}", self.builder.devices.len());
            if let Some(limit) = self.spec.most_ports.filter(|&limit| limit < ports.len() as u64) {
                return Err(BuildError::TooMany {
                    what: format!("the number of ports of switch {name}"),
                    given: ports.len() as u64,
                    limit,
                });
            }
            let port = |node: NodeId, direction| Port { node, direction, capacity: link.bandwidth, latency: half };
            let directions: &[_] =
                if split { &[PortDirection::Tx, PortDirection::Rx] } else { &[PortDirection::Duplex] };
            let circuit = |from: usize, to: usize| {
                let [from, to] = if split { [2 * from, 2 * to + 1] } else { [from, to] };
                Circuit { from: PortId::new(from), to: PortId::new(to) }
            };
            let both = |&(a, b): &(usize, usize)| [circuit(a, b), circuit(b, a)];
            self.circuits.push(Configuration::new(pairs.iter().flat_map(both).collect()));
            self.builder.device(Device {
                name,
                ports: ports.into_iter().flat_map(|node| directions.iter().map(move |&d| port(node, d))).collect(),
                reconfiguration_delay: self.spec.delay,
                legal: LegalConfigurations::AnyMatching,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn counts_and_radix_are_the_golden_ones() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/b_ocs.json");
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for row in file["torus"].as_array().unwrap() {
            let rings = Rings::Torus { sides: serde_json::from_value(row["dims"].clone()).unwrap() };
            let least = rings.partition(Design::ParitySplit, |_, _| 1);
            assert_eq!(least.iter().map(|part| part.switches).sum::<u64>(), row["total_OCS"].as_u64().unwrap());
            for (found, wanted) in least.iter().zip(row["min_radix_OCS"].as_array().unwrap()) {
                let found = serde_json::json!([found.dimension + 1, found.side, found.switches, found.ports]);
                assert_eq!(found, serde_json::json!([wanted["dim"], wanted["d_k"], wanted["count"], wanted["ports"]]));
            }
            for wanted in row["grouping"].as_array().unwrap() {
                let together = wanted["b_k"].as_u64().unwrap();
                let found = rings.partition(Design::ParitySplit, |_, _| together);
                let found = found.iter().find(|part| part.dimension as u64 + 1 == wanted["dim"]).unwrap();
                assert_eq!(found.rings_per_switch, together);
                assert_eq!(
                    serde_json::json!([found.switches, found.ports]),
                    serde_json::json!([wanted["count"], wanted["ports"]])
                );
            }
        }
        for row in file["equal_sided"].as_array().unwrap() {
            let sides = vec![row["d"].as_u64().unwrap() as u32; row["D"].as_u64().unwrap() as usize];
            let parts = Rings::Torus { sides }.partition(Design::ParityRing, |_, _| 1);
            assert_eq!(parts.iter().map(|part| part.switches).sum::<u64>(), row["OCS_total"].as_u64().unwrap());
            assert!(parts.iter().all(|part| part.ports == row["ports_each"].as_u64().unwrap()));
        }
    }

    #[test]
    fn technologies_are_those_of_table_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/b_ocs.json");
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for (row, technology) in file["table_I"].as_array().unwrap().iter().zip([
            Technology::WavelengthRouted,
            Technology::SiliconPhotonics,
            Technology::Rotor,
            Technology::Mems3d,
        ]) {
            let largest = [Design::AllPorts, Design::Fixed, Design::ParitySplit].map(|d| technology.largest_ring(d));
            let keys = ["max_ring_single_OCS_2n", "max_ring_fixed_plus_dynamic_n", "max_ring_parity_split_n/2"];
            assert_eq!(serde_json::json!(largest), serde_json::json!(keys.map(|key| row[key].clone())), "{row}");
            assert_eq!(technology.delay(), Delay::from_nanoseconds(row["delta_ns"].as_u64().unwrap()));
            assert_eq!(technology.ports(), row["ports"].as_u64().unwrap());
        }
    }
}
