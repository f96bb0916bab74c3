//! Two levels: machines and the accelerators in them, or racks and the hosts in them.

use rondo_ir::collective::{CollectiveKind, Place};
use rondo_ir::schedule::{Flow, FlowOp, Paths, Schedule};

use crate::build::BuildError;
use crate::build::gather;
use crate::build::site::{Lane, RouteTable, Site, push_merged};
use crate::build::spread::{Base, Half, Hand, Pattern, Spread};
use crate::build::whole::{self, Line};
use crate::fabric::Shape;

/// Positions by machine: `at[machine · per + index]`.
struct Machines {
    per: u32,
    count: u32,
    at: Vec<u32>,
}

fn machines(site: &Site, algorithm: &'static str) -> Result<Machines, BuildError> {
    let refuse = |reason: &str| Err(BuildError::DoesNotFit { algorithm, reason: reason.to_owned() });
    let sizes: Vec<u32> = match site.shape() {
        Shape::Hosts { per_host } => vec![*per_host],
        Shape::Clos { subtree } => subtree.clone(),
        Shape::Hybrid { group, .. } => vec![*group],
        _ => return refuse("the topology has no machines or racks"),
    };
    let mut reason = "all ranks are in one machine or rack";
    // The largest groups that are still several.
    for size in sizes.into_iter().rev().filter(|&size| 0 < size) {
        let mut groups: std::collections::BTreeMap<usize, Vec<u32>> = std::collections::BTreeMap::new();
        for (index, node) in site.topology().compute_nodes().enumerate() {
            if let Some(position) = site.position_on(node) {
                groups.entry(index / size as usize).or_default().push(position);
            }
        }
        let per = groups.values().next().map_or(0, Vec::len);
        if groups.len() < 2 {
            continue;
        }
        if per < 2 {
            reason = "machines or racks have one rank each";
            continue;
        }
        if groups.values().any(|group| group.len() != per) {
            reason = "machines or racks have different numbers of ranks";
            continue;
        }
        let count = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let per = u32::try_from(per).unwrap_or(u32::MAX);
        return Ok(Machines { per, count, at: groups.into_values().flatten().collect() });
    }
    refuse(reason)
}

/// Whether all pairs within each machine have a route.
fn meshed(site: &Site, machines: &Machines) -> bool {
    machines
        .at
        .chunks(machines.per as usize)
        .all(|group| group.iter().all(|&a| group.iter().all(|&b| a == b || site.find_route(a, b, Lane::Any).is_some())))
}

/// all_gather: across machines among accelerators of the same index, then within machines. reduce_scatter: the
/// reverse. all_reduce: both, so that 1/per of the vector crosses each network port twice. all_to_all: within the machine to the
/// accelerator that has the target's index, then across.
///
/// Within a machine everybody sends to everybody in one step, or both ways round a ring where not all pairs have routes.
/// Across it is Bruck: ⌈log₂⌉ steps.
pub(crate) fn logarithmic(site: &Site) -> Result<Schedule, BuildError> {
    build(site, "hierarchical", Base::Bruck)
}

/// The same with a two-way ring across machines: more steps, only neighbours talk.
pub(crate) fn ring(site: &Site) -> Result<Schedule, BuildError> {
    build(site, "hierarchical-ring", Base::TwoWay)
}

/// The same with one step across machines.
pub(crate) fn direct(site: &Site) -> Result<Schedule, BuildError> {
    build(site, "hierarchical-direct", Base::OneStep)
}

pub(crate) fn flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    match site.kind() {
        CollectiveKind::AllReduce => 4 * n * n,
        _ => 2 * n * n,
    }
}

fn build(site: &Site, name: &'static str, across: Base) -> Result<Schedule, BuildError> {
    let machines = machines(site, name)?;
    if matches!(site.kind(), CollectiveKind::AllToAll { .. }) {
        return all_to_all(site, name, &machines);
    }
    if let Some(sides) = tori(site, &machines) {
        // One part for each dimension, as on a single torus.
        let used: Vec<usize> = (0..sides.len()).filter(|&d| 1 < sides[d]).collect();
        let mut all = sides.to_vec();
        all.push(machines.count);
        let part = |first: usize| {
            let inside = (0..used.len()).map(|phase| (used[(first + phase) % used.len()], Base::TwoWay));
            Spread::new(
                all.clone(),
                std::iter::once((sides.len(), across)).chain(inside).collect(),
                machines.at.clone(),
            )
        };
        let spread: Vec<_> = (0..used.len()).map(part).collect();
        return gather::build(site, name, &spread, &spread);
    }
    let inside = if meshed(site, &machines) { Base::OneStep } else { Base::TwoWay };
    let sides = vec![machines.per, machines.count];
    let spread = [Spread::new(sides, vec![(1, across), (0, inside)], machines.at)];
    gather::build(site, name, &spread, &spread)
}

/// The sides of the torus in each group, if there is one and all of its nodes have ranks.
fn tori<'a>(site: &'a Site, machines: &Machines) -> Option<&'a [u32]> {
    match site.shape() {
        Shape::Hybrid { group, inside } if *group == machines.per => match &**inside {
            Shape::Torus { sides } => Some(sides),
            _ => None,
        },
        _ => None,
    }
}

/// The schedules of Table 6: a fabric of its own in each rack or pod, and a Clos between them.
///
/// all_reduce: whole vectors are gathered and added within the group (one step on a mesh, D steps on a torus), then the sums
/// are exchanged log₂ times between groups, by index. On a mesh of R: α_s + α_u + β_u·m + γ·m·(R−1), then
/// log₂(N/R)·(α_s + h·α + β_o·m + γ·m).
///
/// all_gather on a mesh: a block goes to the ranks of the same index in all other groups while it goes to the mates, then
/// what came from other groups goes to the mates: max(h·α + β_o·b·(G−1), α_u + β_u·b), then α_u + β_u·b·(G−1), for G groups.
/// On a torus of P: the exchange between groups takes place while the torus gathers the own blocks, spread over its steps; then the
/// torus gathers what came: about D·h·α + max of the two, then D·α_u + β_u·b·(G−1)(P−1)/(2k).
pub(crate) fn two_fabrics(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "two-fabrics";
    let Shape::Hybrid { group, inside } = site.shape() else {
        let reason = "the topology has no second fabric in its racks or pods".to_owned();
        return Err(BuildError::DoesNotFit { algorithm: NAME, reason });
    };
    let machines = machines(site, NAME)?;
    if machines.per != *group {
        let reason = "not every node of a rack or pod has a rank".to_owned();
        return Err(BuildError::DoesNotFit { algorithm: NAME, reason });
    }
    let Machines { per, count, at } = machines;
    let lines: Vec<(u32, Line)> = match &**inside {
        Shape::Torus { sides } => sides.iter().map(|&side| (side, Line::Ring)).collect(),
        _ => vec![(per, Line::Mesh)],
    };
    match site.kind() {
        CollectiveKind::AllReduce if count.is_power_of_two() => {
            whole::build(site, NAME, &at, &lines, count.trailing_zeros())
        }
        CollectiveKind::AllReduce => {
            let reason =
                format!("{count} racks or pods are no power of two; `hierarchical` does the same for any number");
            Err(BuildError::DoesNotFit { algorithm: NAME, reason })
        }
        _ => {
            let parts: Vec<_> = match &**inside {
                Shape::Torus { sides } => {
                    let used: Vec<usize> = (0..sides.len()).filter(|&d| 1 < sides[d]).collect();
                    let part = |first: usize| {
                        let phases = (0..used.len()).map(|p| (used[(first + p) % used.len()], Base::TwoWay)).collect();
                        TwoFabrics::new(sides, phases, count, &at)
                    };
                    (0..used.len()).map(part).collect()
                }
                _ => vec![TwoFabrics::new(&[per], vec![(0, Base::OneStep)], count, &at)],
            };
            gather::build(site, NAME, &parts, &parts)
        }
    }
}

/// The pattern of [`two_fabrics`]: within every group its own blocks, while every rank sends its block to those of its index
/// elsewhere; then within every group the blocks that came. Label = group · per + label within.
struct TwoFabrics<'a> {
    inside: Spread,
    /// Index within a group → label within.
    label: Vec<u32>,
    count: u32,
    at: &'a [u32],
    by_label: Vec<u32>,
}

impl<'a> TwoFabrics<'a> {
    fn new(sides: &[u32], phases: Vec<(usize, Base)>, count: u32, at: &'a [u32]) -> Self {
        let per: u32 = sides.iter().product();
        let inside = Spread::new(sides.to_vec(), phases, (0..per).collect());
        let mut label = vec![0; per as usize];
        for (number, &index) in (0..).zip(inside.by_label()) {
            label[index as usize] = number;
        }
        let of_group = |group: u32| inside.by_label().iter().map(move |&index| at[(group * per + index) as usize]);
        let by_label = (0..count).flat_map(of_group).collect();
        Self { inside, label, count, at, by_label }
    }
}

impl Pattern for TwoFabrics<'_> {
    fn steps(&self) -> u32 {
        2 * self.inside.steps()
    }

    fn visit(&self, step: u32, emit: &mut dyn FnMut(Hand)) {
        let per = u32::try_from(self.label.len()).expect("ranks are counted in 32 bits");
        let first = self.inside.steps();
        for group in 0..self.count {
            let at = |group: u32, index: u32| self.at[(group * per + index) as usize];
            let mut within = |step: u32, of: u32| {
                self.inside.visit(step, &mut |hand| {
                    let (src, dst) = (at(group, hand.src), at(group, hand.dst));
                    emit(Hand { src, dst, first: of * per + hand.first, ..hand });
                });
            };
            if step < first {
                within(step, group);
            } else {
                (0..self.count).filter(|&of| of != group).for_each(|of| within(step - first, of));
            }
            for by in (1..self.count).filter(|by| (by - 1) % first == step) {
                for (index, &label) in (0..).zip(&self.label) {
                    let (src, dst) = (at(group, index), at((group + by) % self.count, index));
                    let first = group * per + label;
                    emit(Hand { src, dst, first, len: 1, half: Half::Whole, lane: Lane::Any });
                }
            }
        }
    }

    fn by_label(&self) -> &[u32] {
        &self.by_label
    }

    fn halves(&self) -> bool {
        self.inside.halves()
    }
}

fn all_to_all(site: &Site, name: &'static str, machines: &Machines) -> Result<Schedule, BuildError> {
    let Machines { per, count, ref at } = *machines;
    let k = site.cx.chunks;
    site.layout(k)?;
    let rank = |machine: u32, index: u32| at[(machine * per + index) as usize];
    let mut pairs = Vec::new();
    for machine in 0..count {
        for index in 0..per {
            let p = rank(machine, index);
            pairs.extend((0..per).filter(|&other| other != index).map(|other| (p, rank(machine, other), Lane::Any)));
            pairs.extend((0..count).filter(|&other| other != machine).map(|other| (p, rank(other, index), Lane::Any)));
        }
    }
    let mut paths = Paths::default();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    // At (machine, index): the blocks of mates for (other machine, index), by (other machine, mate).
    let held = |machine: u32, index: u32, other: u32, mate: u32| {
        let other = if other < machine { other } else { other - 1 };
        let mate = if mate < index { mate } else { mate - 1 };
        Place::scratch((other * (per - 1) + mate) * k)
    };
    let mut scratch = vec![Vec::new(); site.n as usize];
    let (mut local, mut inside, mut outside): (Vec<Flow>, Vec<Flow>, Vec<Flow>) = Default::default();
    for machine in 0..count {
        for index in 0..per {
            let p = rank(machine, index);
            local.push(site.local(p, Place::input(p * k), Place::output(p * k), k, FlowOp::Copy));
            for shift in 1..per {
                let mate = (index + shift) % per;
                let q = rank(machine, mate);
                let path = routes.path(p, q, Lane::Any);
                let to = (q, Place::output(p * k));
                push_merged(&mut inside, site.flow((p, Place::input(q * k)), to, k, FlowOp::Copy, path));
                for other in (0..count).filter(|&other| other != machine) {
                    let target = rank(other, mate);
                    let to = (q, held(machine, mate, other, index));
                    push_merged(&mut inside, site.flow((p, Place::input(target * k)), to, k, FlowOp::Copy, path));
                }
            }
            for shift in 1..count {
                let other = (machine + shift) % count;
                let target = rank(other, index);
                let path = routes.path(p, target, Lane::Any);
                for mate in 0..per {
                    let origin = rank(machine, mate);
                    let from = if mate == index { Place::input(target * k) } else { held(machine, index, other, mate) };
                    let to = (target, Place::output(origin * k));
                    push_merged(&mut outside, site.flow((p, from), to, k, FlowOp::Copy, path));
                }
            }
            let slots = &mut scratch[p as usize];
            for other in (0..count).filter(|&other| other != machine) {
                for mate in (0..per).filter(|&mate| mate != index) {
                    let target = rank(other, index);
                    slots.extend((0..k).map(|part| (rank(machine, mate), Place::input(target * k + part))));
                }
            }
        }
    }
    Ok(site.schedule(name, k, scratch, paths, vec![local, inside, outside]))
}
