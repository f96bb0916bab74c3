//! Which configurations are considered.

use std::collections::BTreeSet;

use rondo_ir::index::{DeviceId, NodeId, PortId};
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
        own.push(joining(topology, &initial, &[pairs], &BTreeSet::new()).map(&mut add));
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
                if let Some(configuration) = joining(topology, &initial, &both, &BTreeSet::new()) {
                    add(configuration);
                }
            }
        }
        for ring in strided(topology, fabric) {
            if let Some(configuration) = joining(topology, &initial, &[&ring], &BTreeSet::new()) {
                add(configuration);
            }
        }
    }
    if wide && problem.cost().overlap_reconfiguration {
        // Each step's circuits on ports that the step before leaves idle.
        let mut held = initial.clone();
        for (step, pairs) in demands.pairs.iter().enumerate() {
            let before = step.checked_sub(1).and_then(|before| direct(topology, &held, &demands.pairs[before]));
            let beside = before.and_then(|busy| joining(topology, &held, &[pairs], &busy));
            let next = beside.or_else(|| joining(topology, &initial, &[pairs], &BTreeSet::new()));
            // The first step has none before it; what it needs may be up already.
            if let Some(next) = next.filter(|_| step != 0 || direct(topology, &held, pairs).is_none()) {
                add(next.clone());
                held = next;
            }
        }
    }
    Class { configurations: all, own }
}

/// Ports of the circuits that join these pairs directly; `None` if some pair has neither a circuit nor a link.
fn direct(
    topology: &Topology,
    held: &[Configuration],
    pairs: &[(NodeId, NodeId)],
) -> Option<BTreeSet<(DeviceId, PortId)>> {
    let mut ports = BTreeSet::new();
    for &(src, dst) in pairs.iter().filter(|&&pair| !linked(topology, pair)) {
        let (device, circuit) = (0..).zip(topology.devices()).zip(held).find_map(|((index, device), set)| {
            let joins = |circuit: &&Circuit| {
                device.ports[circuit.from.index()].node == src && device.ports[circuit.to.index()].node == dst
            };
            Some((DeviceId::new(index), *set.circuits().iter().find(joins)?))
        })?;
        ports.extend([(device, circuit.from), (device, circuit.to)]);
    }
    Some(ports)
}

/// Whether a link that is up joins the pair.
fn linked(topology: &Topology, (src, dst): (NodeId, NodeId)) -> bool {
    topology.links_from(src).iter().any(|&link| topology.link(link).dst == dst && topology.link(link).up)
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

/// Circuits for all pairs that no link that is up joins, group after group, laid over others: those whose ports are free
/// stay. Busy ports keep what they have. `None` if ports do not suffice, or a device cannot be set so.
fn joining(
    topology: &Topology,
    over: &[Configuration],
    groups: &[&[(NodeId, NodeId)]],
    busy: &BTreeSet<(DeviceId, PortId)>,
) -> Option<Vec<Configuration>> {
    let devices = topology.devices();
    let mut set: Vec<Vec<Circuit>> = vec![Vec::new(); devices.len()];
    let mut taken: Vec<[BTreeSet<PortId>; 2]> = vec![Default::default(); devices.len()];
    let side = |direction: PortDirection| usize::from(direction == PortDirection::Rx);
    for group in groups {
        let mut joined: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
        for &(src, dst) in group.iter().filter(|&&pair| !linked(topology, pair)) {
            if joined.contains(&(src, dst)) {
                continue;
            }
            let found = (0..devices.len()).find_map(|at| {
                let taken = |port: PortId, direction| {
                    taken[at][side(direction)].contains(&port) || busy.contains(&(DeviceId::new(at), port))
                };
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
            configuration.push(over[at].clone());
            continue;
        }
        let free = |circuit: &&Circuit| !taken[at][0].contains(&circuit.from) && !taken[at][1].contains(&circuit.to);
        let kept = over[at].circuits().iter().filter(free).copied();
        let made = Configuration::new(set[at].iter().copied().chain(kept).collect());
        device.check(&made).ok()?;
        configuration.push(made);
    }
    Some(configuration)
}
