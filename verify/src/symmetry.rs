//! Symmetry generators: whether they may be believed.
//!
//! # Definition
//! A generator is a permutation φ of the ranks with a permutation of the slots of each buffer of each group, and an image for
//! each route and tree. It is a symmetry if
//!
//! - hop by hop, routes and trees map to their images, which defines φ on links, circuits and nodes: one-to-one, with rates,
//!   latencies, state and media kept, and the node of rank r mapped to the node of φ(r);
//! - whatever else the topology has between two mapped nodes has its like between their images;
//! - each group maps onto itself, and with it pre- and postcondition, aliases, and the elements of every slot;
//! - circuits that are up at the start stay up.

use std::collections::BTreeMap;
use std::hash::Hash;

use rondo_ir::collective::{Buffer, Contribution, Expected, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{GroupId, NodeId, RankId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowSet, Generator, Schedule};
use rondo_ir::topology::{Hop, Topology};
use rustc_hash::FxHashMap;

use crate::codes::Code;
use crate::findings::Findings;
use crate::paths::{PathFacts, hop_exists};
use crate::places::Places;

/// Checks every generator, and that it can be applied where it is used.
pub(crate) fn check(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    routes: &[PathFacts],
    form: &mut Findings,
) {
    if schedule.generators.is_empty() && !schedule.steps.iter().any(|s| matches!(s.flows, FlowSet::Orbits { .. })) {
        return;
    }
    let broken = routes.iter().any(|r| r.fault.is_some());
    let mut faulty = vec![false; schedule.generators.len()];
    for (index, generator) in schedule.generators.iter().enumerate() {
        let result =
            tables(problem, schedule, places, generator).map_err(|message| (Code::Orbit, message)).and_then(|()| {
                if broken {
                    return Ok(()); // The broken route is reported; its image means nothing.
                }
                network(problem, schedule, generator)
                    .and_then(|()| groups(problem, schedule, places, generator))
                    .map_err(|message| (Code::Symmetry, message))
            });
        if let Err((code, message)) = result {
            faulty[index] = true;
            form.add(Diagnostic::error(code.as_str(), format!("gen{index} {message}")));
        }
    }
    for (index, step) in schedule.steps.iter().enumerate() {
        let FlowSet::Orbits { generators, .. } = &step.flows else { continue };
        if let Some(unknown) = generators.iter().find(|g| schedule.generators.len() <= g.index()) {
            form.add(Diagnostic::error(
                Code::Orbit.as_str(),
                format!("step s{index} uses {unknown}, but the schedule has {} generators", schedule.generators.len()),
            ));
            continue;
        }
        // What a faulty generator makes of a flow means nothing.
        if generators.iter().any(|g| faulty[g.index()]) {
            continue;
        }
        let fault = schedule.flows(StepId::new(index)).find_map(|flow| {
            generators.iter().find_map(|&g| applies(&schedule.generators[g.index()], &flow).err().map(|why| (g, why)))
        });
        if let Some((generator, why)) = fault {
            form.add(Diagnostic::error(
                Code::Orbit.as_str(),
                format!("{generator} cannot be applied to a flow of step s{index}: {why}"),
            ));
        }
    }
}

/// Whether all slots of the flow are mapped to neighbours.
fn applies(generator: &Generator, flow: &Flow) -> Result<(), String> {
    if generator.apply(flow).is_none() {
        return Err("it names a rank, slot or path outside the generator's tables".to_owned());
    }
    let Some(slots) = generator.slots.get(flow.group.index()) else { return Ok(()) };
    for place in [flow.src_place, flow.dst_place] {
        let table = &slots[place.buffer() as usize];
        let first = place.slot() as usize;
        let range = first.checked_add(flow.count as usize).and_then(|end| table.get(first..end));
        let Some(range) = range else { return Err(format!("slots from {place} on are outside its tables")) };
        if range.windows(2).any(|pair| pair[0].checked_add(1) != Some(pair[1])) {
            return Err(format!("{} slots from {place} on do not stay neighbours", flow.count));
        }
    }
    Ok(())
}

fn is_permutation(values: impl ExactSizeIterator<Item = usize>) -> bool {
    let mut seen = vec![false; values.len()];
    for value in values {
        match seen.get_mut(value) {
            Some(seen) if !*seen => *seen = true,
            _ => return false,
        }
    }
    true
}

fn tables(problem: &Problem, schedule: &Schedule, places: &Places<'_>, generator: &Generator) -> Result<(), String> {
    let Generator { ranks, slots, routes, trees } = generator;
    if ranks.len() != problem.rank_count() || !is_permutation(ranks.iter().map(|r| r.index())) {
        return Err(format!("is no permutation of the {} ranks", problem.rank_count()));
    }
    if slots.len() != problem.groups().len() {
        return Err(format!("maps the slots of {} groups, but there are {}", slots.len(), problem.groups().len()));
    }
    for (group, tables) in slots.iter().enumerate() {
        for buffer in Buffer::ALL {
            let table = &tables[buffer as usize];
            if !is_permutation(table.iter().map(|&slot| slot as usize)) {
                return Err(format!("is no permutation of the {} slots of group g{group}", buffer.letter()));
            }
        }
    }
    for (group, rank, at) in places.positions() {
        for buffer in Buffer::ALL {
            let given = slots[group.index()][buffer as usize].len();
            if given < at.limit(buffer) as usize {
                return Err(format!(
                    "maps {given} {} slots of group {group}, but {rank} has {}",
                    buffer.letter(),
                    at.limit(buffer)
                ));
            }
        }
    }
    let all_routes = schedule.paths.routes().len();
    if routes.len() != all_routes || routes.iter().any(|r| all_routes <= r.index()) {
        return Err(format!("does not map each of the {all_routes} routes to one of them"));
    }
    let all_trees = schedule.paths.trees().len();
    if trees.len() != all_trees || trees.iter().any(|t| all_trees <= t.index()) {
        return Err(format!("does not map each of the {all_trees} trees to one of them"));
    }
    Ok(())
}

/// A one-to-one map that is learnt pair by pair.
struct Pairing<T> {
    there: FxHashMap<T, T>,
    back: FxHashMap<T, T>,
}

impl<T: Copy + Eq + Hash> Pairing<T> {
    fn new() -> Self {
        Self { there: FxHashMap::default(), back: FxHashMap::default() }
    }

    /// Whether the pair fits what is known.
    fn join(&mut self, a: T, b: T) -> bool {
        *self.there.entry(a).or_insert(b) == b && *self.back.entry(b).or_insert(a) == a
    }
}

fn network(problem: &Problem, schedule: &Schedule, generator: &Generator) -> Result<(), String> {
    let topology = problem.topology();
    let mut nodes = Pairing::new();
    let mut hops = Pairing::new();
    for (rank, &image) in generator.ranks.iter().enumerate() {
        let (a, b) = (problem.node_of(RankId::new(rank)), problem.node_of(image));
        join_nodes(topology, &mut nodes, a, b)?;
    }
    let mut walk = |a: &[Hop], b: &[Hop], what: &dyn Fn() -> String| -> Result<(), String> {
        if a.len() != b.len() {
            return Err(format!("maps {}, of {} hops, to one of {}", what(), a.len(), b.len()));
        }
        for (&a, &b) in a.iter().zip(b) {
            if !hop_exists(topology, a) || !hop_exists(topology, b) || !hops.join(a, b) {
                return Err(format!("does not map hops one to one along {}", what()));
            }
            alike(problem, a, b).map_err(|why| format!("maps {} to one whose {why}", what()))?;
            let ((from, to), (from_image, to_image)) = (topology.ends(a), topology.ends(b));
            join_nodes(topology, &mut nodes, from, from_image)?;
            join_nodes(topology, &mut nodes, to, to_image)?;
        }
        Ok(())
    };
    for (index, route) in schedule.paths.routes().enumerate() {
        let what = || format!("route{index}");
        let Some(image) = schedule.paths.get(generator.routes[index]) else { continue };
        if route.parts.len() != image.parts.len() {
            return Err(format!("maps {} to a route with another number of parts", what()));
        }
        for (a, b) in route.parts.iter().zip(&image.parts) {
            if (a.weight.numer(), a.weight.denom()) != (b.weight.numer(), b.weight.denom()) {
                return Err(format!("maps {} to a route with other shares", what()));
            }
            walk(&a.hops, &b.hops, &what)?;
        }
    }
    for (index, tree) in schedule.paths.trees().enumerate() {
        let what = || format!("tree{index}");
        let Some(image) = schedule.paths.get_tree(generator.trees[index]) else { continue };
        walk(&tree.hops, &image.hops, &what)?;
        let mapped = tree.leaves.iter().map(|leaf| generator.ranks.get(leaf.index()).copied());
        if !mapped.eq(image.leaves.iter().map(|&leaf| Some(leaf))) {
            return Err(format!("does not map the leaves of {} to those of its image", what()));
        }
    }
    neighbourhood(topology, &nodes)
}

fn join_nodes(topology: &Topology, nodes: &mut Pairing<NodeId>, a: NodeId, b: NodeId) -> Result<(), String> {
    let (x, y) = (topology.node(a), topology.node(b));
    if !nodes.join(a, b) {
        return Err(format!("does not map nodes one to one: {} to {}", x.name, y.name));
    }
    let facts = |n: &rondo_ir::topology::Node| {
        (n.kind, n.forwards, n.multicasts, n.reduces, n.injection, n.ejection, n.throughput)
    };
    if facts(x) != facts(y) {
        return Err(format!("maps node {} to {}, which is another kind of node", x.name, y.name));
    }
    Ok(())
}

fn alike(problem: &Problem, a: Hop, b: Hop) -> Result<(), &'static str> {
    let topology = problem.topology();
    match (a, b) {
        (Hop::Link(a), Hop::Link(b)) => {
            let (x, y) = (topology.link(a), topology.link(b));
            if x.capacity != y.capacity {
                return Err("rates differ");
            }
            if x.latency != y.latency {
                return Err("latencies differ");
            }
            if x.up != y.up {
                return Err("links are not all up");
            }
            let media = |link| -> Vec<_> {
                let of = topology.media().iter().filter(|m| m.links.contains(&link));
                let mut rates: Vec<_> = of.map(|m| (m.capacity, m.links.len())).collect();
                rates.sort_unstable();
                rates
            };
            if !topology.media().is_empty() && media(a) != media(b) {
                return Err("shared media differ");
            }
        }
        (Hop::Circuit(da, ca), Hop::Circuit(db, cb)) => {
            let (x, y) = (topology.device(da), topology.device(db));
            let port = |d: &rondo_ir::topology::Device, p: rondo_ir::index::PortId| {
                let port = d.ports[p.index()];
                (port.direction, port.capacity, port.latency)
            };
            if port(x, ca.from) != port(y, cb.from) || port(x, ca.to) != port(y, cb.to) {
                return Err("ports differ");
            }
            if x.reconfiguration_delay != y.reconfiguration_delay {
                return Err("reconfiguration delays differ");
            }
            let up = |d: rondo_ir::index::DeviceId, c| problem.circuits()[d.index()].contains(c);
            if up(da, ca) != up(db, cb) {
                return Err("initial circuits differ");
            }
        }
        (Hop::Link(_), Hop::Circuit(..)) | (Hop::Circuit(..), Hop::Link(_)) => {
            return Err("hops are of another kind");
        }
    }
    Ok(())
}

/// All links between mapped nodes must have their likes between the images.
fn neighbourhood(topology: &Topology, nodes: &Pairing<NodeId>) -> Result<(), String> {
    let mut balance: BTreeMap<(NodeId, NodeId, u64, u64, bool), i64> = BTreeMap::new();
    for link in topology.links() {
        let rest = (link.capacity.bytes_per_second(), link.latency.femtoseconds(), link.up);
        if let (Some(&a), Some(&b)) = (nodes.there.get(&link.src), nodes.there.get(&link.dst)) {
            *balance.entry((a, b, rest.0, rest.1, rest.2)).or_default() += 1;
        }
        if nodes.back.contains_key(&link.src) && nodes.back.contains_key(&link.dst) {
            *balance.entry((link.src, link.dst, rest.0, rest.1, rest.2)).or_default() -= 1;
        }
    }
    match balance.into_iter().find(|&(_, count)| count != 0) {
        None => Ok(()),
        Some(((a, b, ..), _)) => Err(format!(
            "does not map the links of the topology onto each other: those from {} to {}",
            topology.node(a).name,
            topology.node(b).name
        )),
    }
}

fn groups(problem: &Problem, schedule: &Schedule, places: &Places<'_>, generator: &Generator) -> Result<(), String> {
    for (index, group) in problem.groups().iter().enumerate() {
        let id = GroupId::new(index);
        let image_of = |position: u32| -> Option<u32> {
            let rank = *group.ranks().get(position as usize)?;
            problem.position(id, generator.ranks[rank.index()])
        };
        for position in 0..group.collective().ranks() {
            let image = image_of(position).ok_or_else(|| format!("does not map group {id} onto itself"))?;
            position_maps(problem, schedule, places, generator, (id, position, image), &image_of)?;
        }
    }
    Ok(())
}

fn position_maps(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    generator: &Generator,
    (id, position, image): (GroupId, u32, u32),
    image_of: &dyn Fn(u32) -> Option<u32>,
) -> Result<(), String> {
    let group = problem.group(id);
    let layout = places.layout(id);
    let slots = &generator.slots[id.index()];
    let (here, there) = (group.ranks()[position as usize], group.ranks()[image as usize]);
    let (at, to) = (places.of(id, here), places.of(id, there));
    let map = |place: Place| -> Option<Place> {
        let &slot = slots[place.buffer() as usize].get(place.slot() as usize)?;
        (slot < Place::SLOT_LIMIT).then(|| Place::new(place.buffer(), slot))
    };
    if at.inputs != to.inputs || at.outputs != to.outputs {
        return Err(format!("maps {here} to {there}, which has other buffers in group {id}"));
    }
    // Images of all names; two names of one place must stay two names of one place.
    let mut numbers: Vec<(u32, u32)> = Vec::new();
    for buffer in Buffer::ALL {
        for slot in 0..at.limit(buffer) {
            let place = Place::new(buffer, slot);
            let moved = map(place).filter(|&moved| to.number(moved).is_some());
            let Some(moved) = moved else {
                return Err(format!("maps {here}.{place} to a slot that {there} does not have in group {id}"));
            };
            let (given, due) =
                (places.elements(schedule, id, position, place), places.elements(schedule, id, image, moved));
            if given != due {
                return Err(format!("maps {here}.{place} ({given} elements) to {there}.{moved} ({due} elements)"));
            }
            numbers.push((at.known(place), to.known(moved)));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("maps two names of one place of {here} to different places of {there}"));
    }
    for slot in 0..at.inputs {
        let moved = map(Place::input(slot)).map_or(u32::MAX, Place::slot);
        if to.inputs <= moved {
            return Err(format!("maps input {here}.i[{slot}] to a slot that {there} does not have"));
        }
    }
    let contribution = |c: Contribution| -> Option<Contribution> {
        Some(Contribution { origin: image_of(c.origin)?, slot: *slots[Buffer::Input as usize].get(c.slot as usize)? })
    };
    let n = group.collective().ranks();
    for slot in 0..at.outputs {
        let due = layout.postcondition(position, slot);
        let moved = map(Place::output(slot)).map_or(u32::MAX, Place::slot);
        let given = layout.postcondition(image, moved);
        let same = match (&due, &given) {
            (None, None) => true,
            (Some(Expected::SumOverAll { slot }), Some(Expected::SumOverAll { slot: moved })) => {
                slots[Buffer::Input as usize].get(*slot as usize) == Some(moved)
            }
            (Some(due), Some(given)) => {
                let mapped: Option<Vec<_>> =
                    due.to_multiset(n).into_iter().map(|(c, count)| Some((contribution(c)?, count))).collect();
                mapped.is_some_and(|mut mapped| {
                    mapped.sort_unstable();
                    let mut given = given.to_multiset(n);
                    given.sort_unstable();
                    mapped == given
                })
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            return Err(format!("does not map what {here}.o[{slot}] must hold to what its image must hold"));
        }
    }
    Ok(())
}
