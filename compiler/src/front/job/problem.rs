//! From a job and its topology to the problem that a schedule solves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_ir::collective::{
    Collective, CollectiveError, CollectiveKind, CollectiveSpec, Contribution, CustomCollective, Multiset,
};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{NodeId, RankId};
use rondo_ir::problem::{Problem, ProblemSpec};
use rondo_ir::topology::{Hop, LegalConfigurations, Node, NodeKind, PortDirection, Topology};
use rondo_ir::units::Bytes;

use super::options::{CollectiveChoice, Job, SizeGiven, SizeRequest};
use super::read::Reader;
use super::values::{NodeRef, PerRank, RankChoice, SlotCondition, Target};
use super::{suggest, topology};
use crate::fabric::Fabric;
use crate::span::{Span, Spanned};
use crate::topology::connectivity;

/// The problem of a job on its topology: placement, chosen ranks, collective, cost model. For a range of sizes, at the
/// smallest; [`build_problem_for`] gives it for another, and [`Collective::with_buffer_size`] changes the size later.
///
/// The problem's ranks are those that take part, in the order of the job: position r of its one group is rank r.
///
/// # Errors
/// Everything that is wrong: unknown or repeated nodes, a root that takes no part, conditions of the wrong shape, ranks
/// that cannot reach each other, and so on.
pub fn build_problem(job: &Job, fabric: &Fabric) -> Result<Problem, Vec<Diagnostic>> {
    build(job, fabric, None)
}

/// As [`build_problem`], for a buffer size of its own (the larger of a rank's buffers).
///
/// # Errors
/// As [`build_problem`].
pub fn build_problem_for(job: &Job, fabric: &Fabric, buffer_size: Bytes) -> Result<Problem, Vec<Diagnostic>> {
    build(job, fabric, Some(buffer_size))
}

fn build(job: &Job, fabric: &Fabric, buffer_size: Option<Bytes>) -> Result<Problem, Vec<Diagnostic>> {
    let mut reader = Reader::new(&job.file);
    let problem = problem(&mut reader, job, fabric, buffer_size);
    let failed = reader.failed();
    match problem {
        Some(problem) if !failed => Ok(problem),
        _ => Err(reader.finish().0),
    }
}

fn problem(reader: &mut Reader<'_>, job: &Job, fabric: &Fabric, buffer_size: Option<Bytes>) -> Option<Problem> {
    let topology = &fabric.topology;
    let nodes: Vec<NodeId> = topology.compute_nodes().collect();
    if nodes.is_empty() {
        reader
            .error(
                "C001",
                job.topology.span,
                format!("{} has no compute node", topology.name()),
                "no rank can live here",
            )
            .help
            .push("add a [[topology.node]]".to_owned());
        return None;
    }
    let placed = match &job.placement {
        None => nodes,
        Some(listed) => choose(reader, topology, &nodes, &listed.value, "the topology has", "compute nodes")?,
    };
    let placement = match &job.collective.ranks {
        None => placed,
        Some(Spanned { value: RankChoice::First(count), span }) => {
            let Some(first) = placed.get(..*count as usize) else {
                let limit = placed.len();
                reader
                    .error(
                        "C013",
                        *span,
                        format!("{count} ranks are wanted on {limit} nodes"),
                        format!("at most {limit}"),
                    )
                    .help
                    .push(format!("write {limit} or less, or make the topology larger"));
                return None;
            };
            first.to_vec()
        }
        Some(Spanned { value: RankChoice::Listed(listed), .. }) => {
            let has = if job.placement.is_some() { "the placement has" } else { "the topology has" };
            choose(reader, topology, &placed, listed, has, "nodes")?
        }
    };
    let ranks = u32::try_from(placement.len()).ok()?;
    let kind = kind(reader, job, topology, &placement)?;
    let size = match (buffer_size, job.sizes(ranks)) {
        (Some(size), _) | (None, SizeRequest::One(size) | SizeRequest::Range { low: size, .. }) => size,
    };
    if let SizeGiven::Block(block) = &job.collective.size
        && matches!(
            job.sizes(ranks),
            SizeRequest::One(Bytes(u64::MAX)) | SizeRequest::Range { high: Bytes(u64::MAX), .. }
        )
    {
        reader
            .error("C014", block.span, format!("{ranks} such blocks make a buffer of more than 16 EiB"), "too large")
            .help
            .push("write a smaller block_size".to_owned());
        return None;
    }
    let spec = CollectiveSpec {
        kind,
        ranks,
        operator: job.collective.operator,
        dtype: job.collective.dtype,
        buffer_size: size,
        in_place: job.collective.in_place,
        input_writable: job.collective.input_writable,
    };
    let collective = match Collective::new(spec) {
        Ok(collective) => collective,
        Err(error) => {
            faulty(reader, job, &error);
            return None;
        }
    };
    connected(reader, job, topology, &placement, &collective)?;
    let group = (collective, (0..placement.len()).map(RankId::new).collect());
    let spec = ProblemSpec {
        topology: topology.clone(),
        placement,
        circuits: fabric.circuits.clone(),
        groups: vec![group],
        cost: job.cost,
    };
    match Problem::new(spec) {
        Ok(problem) => Some(problem),
        Err(error) => {
            reader.error("C015", job.collective.span, error.to_string(), "").help.push(
                "check [placement], `ranks` and the `initial` circuits of the devices against the topology".to_owned(),
            );
            None
        }
    }
}

/// Reports what the vocabulary itself refuses; most of it was reported before, at a better place.
fn faulty(reader: &mut Reader<'_>, job: &Job, error: &CollectiveError) {
    let (code, help) = match error {
        CollectiveError::NoRanks => ("C001", "let at least one node take part"),
        CollectiveError::NoRoot { .. } => ("C002", "write the number of a rank that takes part"),
        CollectiveError::PartialElement { .. } => ("C003", "write a multiple of the element's size"),
        CollectiveError::WrongShape { .. } => ("C004", "write one entry for each rank"),
        CollectiveError::NoSuchRank { .. } => ("C005", "write the number of a rank that takes part"),
        CollectiveError::TargetTwice { .. } => ("C006", "let each rank receive from one rank at most"),
        CollectiveError::NoSuchContribution { .. } => ("C007", "name an input slot that exists"),
        CollectiveError::NoInPlace { .. } => ("C009", "delete in_place"),
        _ => ("C010", "describe a smaller collective"),
    };
    reader.error(code, job.collective.span, error.to_string(), "").help.push(help.to_owned());
}

/// The nodes that a list names, in its order.
fn choose(
    reader: &mut Reader<'_>,
    topology: &Topology,
    among: &[NodeId],
    listed: &[Spanned<NodeRef>],
    has: &str,
    what: &str,
) -> Option<Vec<NodeId>> {
    let mut chosen = Vec::with_capacity(listed.len());
    let mut seen: BTreeMap<NodeId, Span> = BTreeMap::new();
    let members: BTreeSet<NodeId> = among.iter().copied().collect();
    let mut whole = true;
    for entry in listed {
        let Some(node) = resolve(reader, topology, among, &members, entry, has, what) else {
            whole = false;
            continue;
        };
        if let Some(first) = seen.insert(node, entry.span) {
            let name = topology.node(node).name.clone();
            let file = reader.file().to_owned();
            let diagnostic = reader.error("C016", entry.span, format!("node `{name}` is listed twice"), "the second");
            *diagnostic = diagnostic.clone().at(file, first.range(), "the first");
            diagnostic.help.push("one node hosts one rank: delete one of the two".to_owned());
            whole = false;
        }
        chosen.push(node);
    }
    whole.then_some(chosen)
}

fn resolve(
    reader: &mut Reader<'_>,
    topology: &Topology,
    among: &[NodeId],
    members: &BTreeSet<NodeId>,
    entry: &Spanned<NodeRef>,
    has: &str,
    what: &str,
) -> Option<NodeId> {
    match &entry.value {
        NodeRef::Number(number) => {
            let node = among.get(*number as usize).copied();
            if node.is_none() {
                let count = among.len();
                reader
                    .error(
                        "C005",
                        entry.span,
                        format!("there is no node {number}; {has} {count} {what}"),
                        "does not exist",
                    )
                    .help
                    .push(format!("write a number from 0 to {}, or a name", count.saturating_sub(1)));
            }
            node
        }
        NodeRef::Name(name) => {
            let names = among.iter().map(|&node| topology.node(node).name.as_str());
            let Some(node) = topology.node_named(name) else {
                topology::unknown_node(reader, "C017", &Spanned::new(name.clone(), entry.span), names);
                return None;
            };
            if topology.node(node).kind == NodeKind::Switch {
                reader
                    .error("C018", entry.span, format!("`{name}` is a switch"), "cannot host a rank")
                    .help
                    .push(suggest::some("compute nodes", names));
                return None;
            }
            if !members.contains(&node) {
                reader
                    .error("C019", entry.span, format!("node `{name}` takes no part"), "not among the chosen nodes")
                    .help
                    .push(suggest::some("nodes that take part", names));
                return None;
            }
            Some(node)
        }
    }
}

/// The rank that an entry means: by number, or by the name of its node.
fn rank(
    reader: &mut Reader<'_>,
    topology: &Topology,
    placement: &[NodeId],
    what: &str,
    code: &'static str,
    entry: &Spanned<NodeRef>,
) -> Option<u32> {
    if let NodeRef::Number(number) = entry.value {
        let count = placement.len();
        if count <= number as usize {
            let last = count.saturating_sub(1);
            reader
                .error(
                    code,
                    entry.span,
                    format!("{what} {number} does not exist; there are {count} ranks"),
                    format!("must be 0 to {last}"),
                )
                .help
                .push(format!("write a rank from 0 to {last}, or the name of its node"));
            return None;
        }
        return Some(number);
    }
    let members = placement.iter().copied().collect();
    let node = resolve(reader, topology, placement, &members, entry, "", "")?;
    placement.iter().position(|&at| at == node).and_then(|at| u32::try_from(at).ok())
}

/// Reports a list that should have one entry a rank and has not.
fn one_each(reader: &mut Reader<'_>, what: &str, given: usize, ranks: usize, span: Span) -> bool {
    if given != ranks {
        reader
            .error("C004", span, format!("`{what}` has {given} entries for {ranks} ranks"), format!("needs {ranks}"))
            .help
            .push(format!("write one entry for each rank: {ranks}"));
    }
    given == ranks
}

fn kind(reader: &mut Reader<'_>, job: &Job, topology: &Topology, placement: &[NodeId]) -> Option<CollectiveKind> {
    let ranks = placement.len();
    let mut root = |root: &Spanned<NodeRef>| rank(reader, topology, placement, "root", "C002", root);
    Some(match &job.collective.kind {
        CollectiveChoice::AllReduce => CollectiveKind::AllReduce,
        CollectiveChoice::AllGather => CollectiveKind::AllGather,
        CollectiveChoice::ReduceScatter => CollectiveKind::ReduceScatter,
        CollectiveChoice::AllToAll => CollectiveKind::AllToAll { matrix: matrix(reader, job, ranks)? },
        CollectiveChoice::Broadcast { root: at } => CollectiveKind::Broadcast { root: root(at)? },
        CollectiveChoice::Reduce { root: at } => CollectiveKind::Reduce { root: root(at)? },
        CollectiveChoice::Gather { root: at } => CollectiveKind::Gather { root: root(at)? },
        CollectiveChoice::Scatter { root: at } => CollectiveKind::Scatter { root: root(at)? },
        CollectiveChoice::SendReceive { targets } => {
            let mut whole = one_each(reader, "collective.targets", targets.value.len(), ranks, targets.span);
            let mut receives: BTreeMap<u32, Span> = BTreeMap::new();
            let mut resolved = Vec::with_capacity(ranks);
            for Spanned { value: Target(target), span } in &targets.value {
                let Some(target) = target else {
                    resolved.push(None);
                    continue;
                };
                let entry = Spanned::new(target.clone(), *span);
                let Some(target) = rank(reader, topology, placement, "target", "C005", &entry) else {
                    whole = false;
                    continue;
                };
                if let Some(first) = receives.insert(target, *span) {
                    let file = reader.file().to_owned();
                    let message = format!("rank {target} would receive from two ranks");
                    let diagnostic = reader.error("C006", *span, message, "the second");
                    *diagnostic = diagnostic.clone().at(file, first.range(), "the first");
                    diagnostic
                        .help
                        .push("name each rank once at most; write \"none\" for ranks that send nothing".to_owned());
                    whole = false;
                }
                resolved.push(Some(target));
            }
            if !whole {
                return None;
            }
            CollectiveKind::SendReceive { targets: resolved }
        }
        CollectiveChoice::Custom { input_slots, output } => {
            CollectiveKind::Custom(custom(reader, ranks, input_slots, output)?)
        }
    })
}

/// Elements from each rank to each other, if a matrix is given.
fn matrix(reader: &mut Reader<'_>, job: &Job, ranks: usize) -> Option<Option<Vec<Vec<u64>>>> {
    let SizeGiven::Matrix(matrix) = &job.collective.size else { return Some(None) };
    let mut whole = one_each(reader, "collective.matrix", matrix.value.len(), ranks, matrix.span);
    for (row, sizes) in matrix.value.iter().enumerate() {
        whole &= one_each(reader, &format!("collective.matrix[{row}]"), sizes.value.len(), ranks, sizes.span);
    }
    let element = job.collective.dtype.bytes();
    let elements =
        |sizes: &Spanned<Vec<Spanned<Bytes>>>| sizes.value.iter().map(|size| size.value.0 / element).collect();
    whole.then(|| Some(matrix.value.iter().map(elements).collect()))
}

fn custom(
    reader: &mut Reader<'_>,
    ranks: usize,
    input_slots: &Spanned<PerRank>,
    output: &Spanned<Vec<Spanned<Vec<Spanned<SlotCondition>>>>>,
) -> Option<CustomCollective> {
    let slots: Vec<u32> = match &input_slots.value {
        PerRank::All(slots) => vec![*slots; ranks],
        PerRank::Each(listed) => listed.iter().map(|slots| slots.value).collect(),
    };
    let mut whole = one_each(reader, "collective.input_slots", slots.len(), ranks, input_slots.span)
        & one_each(reader, "collective.output", output.value.len(), ranks, output.span);
    if !whole {
        return None;
    }
    let mut conditions = Vec::with_capacity(ranks);
    for row in &output.value {
        let mut held = Vec::with_capacity(row.value.len());
        for condition in &row.value {
            let terms: Vec<(u32, u32, u64)> = match &condition.value {
                SlotCondition::Free => {
                    held.push(None);
                    continue;
                }
                SlotCondition::Sum(slot) => (0_u32..).zip(&slots).map(|(rank, _)| (rank, *slot, 1)).collect(),
                SlotCondition::Exactly(terms) => terms.clone(),
            };
            let missing =
                terms.iter().find(|(rank, slot, _)| slots.get(*rank as usize).is_none_or(|&has| has <= *slot));
            if let Some((rank, slot, _)) = missing {
                let has = slots.get(*rank as usize).map_or_else(
                    || format!("there are {ranks} ranks"),
                    |has| format!("rank {rank} has {has} input slots"),
                );
                reader
                    .error("C007", condition.span, format!("input slot {slot} of rank {rank} does not exist"), has)
                    .help
                    .push("name a slot below `input_slots`, or raise that number".to_owned());
                whole = false;
            }
            let set: Multiset =
                terms.into_iter().map(|(origin, slot, count)| (Contribution { origin, slot }, count)).collect();
            held.push(Some(set));
        }
        conditions.push(held);
    }
    whole.then_some(CustomCollective { input_slots: slots, output: conditions })
}

/// Which ranks need something from which: (from, to).
fn needs(collective: &Collective) -> Vec<(u32, u32)> {
    let n = collective.ranks();
    let around = || (0..n).map(|rank| (rank, (rank + 1) % n)).collect();
    match collective.kind() {
        // Everybody needs something of everybody: a cycle through all says the same.
        CollectiveKind::AllReduce
        | CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll { matrix: None } => around(),
        CollectiveKind::AllToAll { matrix: Some(matrix) } => (0_u32..)
            .zip(matrix)
            .flat_map(|(from, row)| (0_u32..).zip(row).filter(|(_, size)| **size > 0).map(move |(to, _)| (from, to)))
            .collect(),
        CollectiveKind::Broadcast { root } | CollectiveKind::Scatter { root } => (0..n).map(|to| (*root, to)).collect(),
        CollectiveKind::Reduce { root } | CollectiveKind::Gather { root } => (0..n).map(|from| (from, *root)).collect(),
        CollectiveKind::SendReceive { targets } => {
            (0_u32..).zip(targets).filter_map(|(from, to)| Some((from, (*to)?))).collect()
        }
        CollectiveKind::Custom(custom) => {
            let mut pairs = BTreeSet::new();
            for (to, held) in (0_u32..).zip(&custom.output) {
                pairs.extend(held.iter().flatten().flatten().map(|(contribution, _)| (contribution.origin, to)));
            }
            pairs.into_iter().collect()
        }
    }
}

/// Checks that what one rank needs of another has a way: over links that are up and circuits that can be set, through
/// nodes that forward or host a rank (which may relay). Otherwise names the cut.
fn connected(
    reader: &mut Reader<'_>,
    job: &Job,
    topology: &Topology,
    placement: &[NodeId],
    collective: &Collective,
) -> Option<()> {
    if connectivity(topology, placement).is_none() {
        return Some(());
    }
    let mut relays: Vec<bool> = topology.nodes().iter().map(|node| node.forwards).collect();
    for node in placement {
        relays[node.index()] = true;
    }
    let edges = out_edges(topology, &circuits(topology));
    let mut reached: Option<(u32, Vec<bool>)> = None;
    for (from, to) in needs(collective) {
        let seen = match &reached {
            Some((rank, seen)) if *rank == from => seen,
            _ => &reached.insert((from, reach(&edges, &relays, placement[from as usize]))).1,
        };
        if seen[placement[to as usize].index()] {
            continue;
        }
        let name = |node: NodeId| topology.node(node).name.as_str();
        let (near, far): (Vec<NodeId>, Vec<NodeId>) = placement.iter().partition(|node| seen[node.index()]);
        let down = topology
            .links()
            .iter()
            .filter(|link| !link.up && seen[link.src.index()] && !seen[link.dst.index()])
            .map(|link| format!("{} -> {}", name(link.src), name(link.dst)));
        let down: Vec<String> = down.collect();
        let (source, target) = (name(placement[from as usize]), name(placement[to as usize]));
        let nodes = |list: &[NodeId]| suggest::some("ranks", list.iter().map(|&node| name(node)));
        let message = format!("no path leads from {source} to {target}, but {} needs one", collective.kind().name());
        let diagnostic = reader.error("C011", job.topology.span, message, "disconnected");
        diagnostic.notes.push(format!(
            "nothing that starts at {} can leave them; cut off are {}",
            nodes(&near),
            nodes(&far)
        ));
        if down.is_empty() {
            let ends: Vec<&Node> = topology.nodes().iter().filter(|node| !node.forwards).collect();
            if !ends.is_empty() && ends.len() < topology.nodes().len() {
                let names = suggest::some("nodes that do not forward", ends.into_iter().map(|node| node.name.as_str()));
                diagnostic.notes.push(names);
            }
            diagnostic.help.push("add a link between the two sides, or let the node between them forward".to_owned());
        } else {
            diagnostic.notes.push(format!("links between the two sides that are down: {}", down.join(", ")));
            diagnostic
                .help
                .push("take one of these links out of [failures], or leave the ranks behind the cut out".to_owned());
        }
        return None;
    }
    Some(())
}

/// Node to node, over every circuit that some legal configuration has.
fn circuits(topology: &Topology) -> Vec<Vec<NodeId>> {
    let mut jumps = vec![Vec::new(); topology.nodes().len()];
    for (index, device) in topology.devices().iter().enumerate() {
        let id = rondo_ir::index::DeviceId::new(index);
        let mut add = |circuit| {
            let (from, to) = topology.ends(Hop::Circuit(id, circuit));
            jumps[from.index()].push(to);
        };
        match &device.legal {
            LegalConfigurations::AnyMatching => {
                for (from, a) in device.ports.iter().enumerate().filter(|(_, p)| p.direction != PortDirection::Rx) {
                    for (to, b) in device.ports.iter().enumerate().filter(|(_, p)| p.direction != PortDirection::Tx) {
                        if from != to && a.node != b.node {
                            jumps[a.node.index()].push(b.node);
                        }
                    }
                }
            }
            LegalConfigurations::Only { circuits } => circuits.iter().copied().for_each(&mut add),
            LegalConfigurations::Cycle { configurations } => {
                configurations.iter().flat_map(|c| c.circuits()).copied().for_each(&mut add);
            }
        }
    }
    jumps
}

fn out_edges(topology: &Topology, jumps: &[Vec<NodeId>]) -> Vec<Vec<NodeId>> {
    let mut edges = jumps.to_vec();
    for link in topology.links().iter().filter(|link| link.up) {
        edges[link.src.index()].push(link.dst);
    }
    edges
}

/// What can be reached from `start` along the edges, through nodes that relay.
fn reach(edges: &[Vec<NodeId>], relays: &[bool], start: NodeId) -> Vec<bool> {
    let mut seen = vec![false; relays.len()];
    seen[start.index()] = true;
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        if node != start && !relays[node.index()] {
            continue;
        }
        for &next in &edges[node.index()] {
            if !std::mem::replace(&mut seen[next.index()], true) {
                queue.push_back(next);
            }
        }
    }
    seen
}
