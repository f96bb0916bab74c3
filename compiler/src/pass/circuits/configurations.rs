//! Which configurations are considered.

use std::collections::BTreeSet;

use rondo_ir::index::{NodeId, PortId};
use rondo_ir::problem::Problem;
use rondo_ir::topology::{Circuit, Configuration, Device, LegalConfigurations, PortDirection, Topology};

use super::Demands;
use crate::fabric::{Fabric, Shape};
use crate::topology::circuits::free_circuit;

/// The configurations of a search, and which of them each step calls its own.
pub struct Class {
    /// Settings of all devices; the first is that of the start.
    pub configurations: Vec<Vec<Configuration>>,
    /// Per step: the one that joins exactly what meets in it, laid over the initial one; `None` if there are not enough ports.
    pub own: Vec<Option<usize>>,
}

/// The configurations for these demands; `wide` adds those that only [`super::Rule::Optimal`] looks at.
#[must_use]
pub fn configurations(problem: &Problem, fabric: &Fabric, demands: &Demands, wide: bool) -> Class {
    let topology = &*fabric.topology;
    let initial = problem.circuits().to_vec();
    let mut all = vec![initial.clone()];
    let mut add = |configuration: Vec<Configuration>| {
        if let Some(known) = all.iter().position(|known| *known == configuration) {
            return known;
        }
        all.push(configuration);
        all.len() - 1
    };
    let mut distinct: Vec<&[(NodeId, NodeId)]> = Vec::new();
    let mut own = Vec::with_capacity(demands.pairs.len());
    for pairs in &demands.pairs {
        own.push(joining(topology, &initial, &[pairs]).map(&mut add));
        if !distinct.contains(&&pairs[..]) {
            distinct.push(pairs);
        }
    }
    // Rotors: their positions.
    let cycles = topology.devices().iter().map(|device| match &device.legal {
        LegalConfigurations::Cycle { configurations } => configurations.len(),
        _ => 0,
    });
    for position in 0..cycles.max().unwrap_or(0) {
        let set = |(device, initial): (&Device, &Configuration)| match &device.legal {
            LegalConfigurations::Cycle { configurations } if !configurations.is_empty() => {
                configurations[position % configurations.len()].clone()
            }
            _ => initial.clone(),
        };
        add(topology.devices().iter().zip(&initial).map(set).collect());
    }
    if wide {
        for pair in distinct.windows(2) {
            for both in [[pair[0], pair[1]], [pair[1], pair[0]]] {
                if let Some(configuration) = joining(topology, &initial, &both) {
                    add(configuration);
                }
            }
        }
        for ring in strided(topology, fabric) {
            if let Some(configuration) = joining(topology, &initial, &[&ring]) {
                add(configuration);
            }
        }
    }
    Class { configurations: all, own }
}

/// Rings of stride 4, 8, … along each dimension: the pairs that circuits join.
///
/// With one switched port, cable and circuit take turns: the circuit leads from the odd endpoint j to j − 1 + s, so that every
/// two hops advance by s. With two, from j to j + s.
fn strided(topology: &Topology, fabric: &Fabric) -> Vec<Vec<(NodeId, NodeId)>> {
    let Shape::Optical { sides } = &fabric.shape else { return Vec::new() };
    let n: u32 = sides.iter().product();
    let cabled = !topology.links().is_empty();
    let mut rings = Vec::new();
    let mut stride = 1;
    for &side in sides {
        let mut jump = 4;
        while jump < side {
            let mut pairs = Vec::new();
            for node in 0..n {
                let x = node / stride % side;
                let target = |x: u32| NodeId::from(node - node / stride % side * stride + x % side * stride);
                if !cabled {
                    pairs.push((NodeId::from(node), target(x + jump)));
                } else if x % 2 == 1 {
                    pairs.push((NodeId::from(node), target(x - 1 + jump)));
                }
            }
            let back: Vec<_> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            pairs.extend(back);
            rings.push(pairs);
            jump *= 2;
        }
        stride *= side;
    }
    rings
}

/// Circuits for all pairs that no link that is up joins, group after group, laid over the initial ones: those whose ports
/// are free stay. `None` if ports do not suffice, or a device cannot be set so.
fn joining(
    topology: &Topology,
    initial: &[Configuration],
    groups: &[&[(NodeId, NodeId)]],
) -> Option<Vec<Configuration>> {
    let devices = topology.devices();
    let mut set: Vec<Vec<Circuit>> = vec![Vec::new(); devices.len()];
    let mut taken: Vec<[BTreeSet<PortId>; 2]> = vec![Default::default(); devices.len()];
    let side = |direction: PortDirection| usize::from(direction == PortDirection::Rx);
    let linked = |&(src, dst): &(NodeId, NodeId)| {
        topology.links_from(src).iter().any(|&link| topology.link(link).dst == dst && topology.link(link).up)
    };
    for group in groups {
        let mut joined: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
        for &(src, dst) in group.iter().filter(|pair| !linked(pair)) {
            if joined.contains(&(src, dst)) {
                continue;
            }
            let found = (0..devices.len()).find_map(|at| {
                let taken = |port: PortId, direction| taken[at][side(direction)].contains(&port);
                free_circuit(&devices[at], (src, dst), taken).map(|circuit| (at, circuit))
            });
            let (at, circuit) = found?;
            let duplex = devices[at].ports[circuit.from.index()].direction == PortDirection::Duplex;
            set[at].push(circuit);
            joined.insert((src, dst));
            taken[at][0].insert(circuit.from);
            taken[at][1].insert(circuit.to);
            if duplex {
                set[at].push(Circuit { from: circuit.to, to: circuit.from });
                joined.insert((dst, src));
                taken[at][0].insert(circuit.to);
                taken[at][1].insert(circuit.from);
            }
        }
    }
    let mut configuration = Vec::with_capacity(devices.len());
    for (at, device) in devices.iter().enumerate() {
        if set[at].is_empty() {
            configuration.push(initial[at].clone());
            continue;
        }
        let free = |circuit: &&Circuit| !taken[at][0].contains(&circuit.from) && !taken[at][1].contains(&circuit.to);
        let kept = initial[at].circuits().iter().filter(free).copied();
        let made = Configuration::new(set[at].iter().copied().chain(kept).collect());
        device.check(&made).ok()?;
        configuration.push(made);
    }
    Some(configuration)
}
