//! From what a plan file holds to the types of `rondo-ir`: quantities are read, every id is looked at once, and the
//! checked constructors of topology, collective and problem have the last word.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use num_integer::Integer;
use num_rational::Ratio;
use rondo_ir::collective::{Buffer, Collective, CollectiveKind, CollectiveSpec, Contribution, CustomCollective, Place};
use rondo_ir::cost::CostModel;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{DeviceId, FlowId, GeneratorId, LinkId, NodeId, PortId, RankId, RouteId, TreeId};
use rondo_ir::problem::{Problem, ProblemError, ProblemSpec};
use rondo_ir::program::{Operation, OperationKind, Program, RankProgram, SourceSpan, Threadblock};
use rondo_ir::schedule::{
    Dependencies, Flow, FlowSet, Generator, PathKind, Paths, Route, RoutePart, Schedule, Scratch, Step, Tree,
};
use rondo_ir::topology::{
    Circuit, Configuration, Device, Hop, LegalConfigurations, Link, Medium, Node, Port, Topology, TopologyBuilder,
    TopologyError,
};
use rondo_ir::units::{Bytes, Delay, PerByte, Rate, UnitError};
use rustc_hash::FxBuildHasher;

use super::locate::shorten;
use super::model::{
    ClaimFile, ClaimedFile, CollectiveFile, CollectiveName, CostFile, DeviceFile, ExactTime, FlowRow, Format,
    GeneratorFile, GroupFile, HeldRow, HopRow, Letter, LinkRow, Located, MediumFile, NodeFile, OperationRow, PartFile,
    PlanFile, PortRow, ProblemFile, ProgramFile, RankFile, RouteRow, RuleName, ScheduleFile, SplitRoute, StepFile,
    ThreadblockFile, TopologyFile, TreeFile, Version, address_of,
};
use super::{Claimed, LOOP_DEPTH_LIMIT, Plan, ProgramHeader};

/// Faults that are listed, each with its place; more are only counted.
pub const MAX_FAULTS: usize = 20;

/// Groups × ranks of a problem, whose product is what a problem allocates.
const GROUP_RANK_LIMIT: usize = 1 << 24;

/// Parts of a split route, and their common denominator: with these, cutting any number of elements fits 128 bits.
const PART_LIMIT: usize = 1 << 16;
const DENOMINATOR_LIMIT: u64 = 1 << 40;

/// What is wrong with a file: the path of each fault, and the fault.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) list: Vec<(String, Diagnostic)>,
    pub(super) beyond: usize,
}

impl Faults {
    fn add(&mut self, code: &'static str, path: impl FnOnce() -> String, message: impl Display) {
        if MAX_FAULTS <= self.list.len() {
            self.beyond += 1;
            return;
        }
        let path = path();
        let shown = shorten(&message.to_string(), 300);
        let message = if path.is_empty() { shown } else { format!("{path}: {shown}") };
        self.list.push((path, Diagnostic::error(code, message)));
    }

    /// Whether `id` is below `limit`; says so if not.
    fn id(&mut self, path: impl FnOnce() -> String, what: &str, id: u32, limit: usize) -> bool {
        let exists = (id as usize) < limit;
        if !exists {
            self.add("B106", path, Missing { what, id, limit });
        }
        exists
    }

    fn length(&mut self, path: impl FnOnce() -> String, given: usize, limit: usize, what: &str) -> bool {
        if given != limit {
            self.add("B107", path, format_args!("{given} entries; {limit} are needed, one a {what}"));
        }
        given == limit
    }

    fn clean(&self) -> bool {
        self.list.is_empty()
    }
}

/// "rank 9 does not exist; there are 8".
struct Missing<'a> {
    what: &'a str,
    id: u32,
    limit: usize,
}

impl Display for Missing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, id, limit } = self;
        match limit {
            0 => write!(f, "{what} {id} does not exist; there are none"),
            1 => write!(f, "{what} {id} does not exist; there is only {what} 0"),
            _ => write!(f, "{what} {id} does not exist; there are {limit}, 0 … {}", limit - 1),
        }
    }
}

/// The plan, or all faults.
pub(super) fn build(file: PlanFile<'_>, text: &str) -> Result<Plan, Faults> {
    let mut faults = Faults::default();
    let PlanFile { format: Format, version: Version, _description: _, claimed, problem, schedule, claim, program } =
        file;
    let plan = match (problem, schedule, claimed, claim, program) {
        (Some(problem), Some(schedule), claimed, None, None) => {
            let sizes = Sizes::of(&problem, &schedule);
            let problem = build_problem(&mut faults, problem);
            let schedule = build_schedule(&mut faults, &sizes, schedule);
            if let Some(problem) = &problem {
                check_layouts(&mut faults, problem, &schedule);
            }
            problem.map(|problem| Plan::Schedule {
                problem: Arc::new(problem),
                schedule,
                claimed: claimed.map(|ClaimedFile { time, steps, checks }| Claimed {
                    time: time.map(|ExactTime(time)| time),
                    steps: steps.into_iter().map(|ExactTime(time)| time).collect(),
                    checks,
                }),
            })
        }
        (None, None, None, Some(claim), Some(program)) => build_program(&mut faults, claim, program, text),
        (problem, schedule, claimed, claim, program) => {
            let there: Vec<_> = [
                ("problem", problem.is_some()),
                ("schedule", schedule.is_some()),
                ("claimed", claimed.is_some()),
                ("claim", claim.is_some()),
                ("program", program.is_some()),
            ]
            .into_iter()
            .filter_map(|(key, there)| there.then_some(key))
            .collect();
            let there = if there.is_empty() { "none of them".to_owned() } else { there.join(", ") };
            faults.add(
                "B107",
                String::new,
                format_args!(
                    "a plan has `problem` and `schedule`, with or without `claimed`, or it has `claim` and `program`; this one has {there}"
                ),
            );
            None
        }
    };
    match plan {
        Some(plan) if faults.clean() => Ok(plan),
        _ => Err(faults),
    }
}

/// Lengths of the lists that ids point into.
struct Sizes {
    ranks: usize,
    links: usize,
    /// Ports, by device.
    ports: Vec<usize>,
    /// Ranks, by group.
    groups: Vec<usize>,
    routes: usize,
    trees: usize,
    generators: usize,
}

impl Sizes {
    fn of(problem: &ProblemFile<'_>, schedule: &ScheduleFile) -> Self {
        Self {
            ranks: problem.placement.len(),
            links: problem.topology.links.len(),
            ports: problem.topology.devices.iter().map(|device| device.ports.len()).collect(),
            groups: problem.groups.iter().map(|group| group.ranks.len()).collect(),
            routes: schedule.routes.len(),
            trees: schedule.trees.len(),
            generators: schedule.generators.len(),
        }
    }

    /// Whether the ports of a hop or its link exist.
    fn hop(&self, faults: &mut Faults, path: impl Fn() -> String, hop: Hop) {
        match hop {
            Hop::Link(link) => {
                faults.id(path, "link", link.number(), self.links);
            }
            Hop::Circuit(device, circuit) => {
                if faults.id(&path, "device", device.number(), self.ports.len()) {
                    let ports = self.ports[device.index()];
                    let _ = faults.id(&path, "port", circuit.from.number(), ports)
                        && faults.id(&path, "port", circuit.to.number(), ports);
                }
            }
        }
    }

    fn flow(&self, faults: &mut Faults, path: impl Fn() -> String, flow: &Flow) {
        let column = |column: usize| format!("{}[{column}]", path());
        faults.id(|| column(0), "rank", flow.src.number(), self.ranks);
        faults.id(|| column(3), "rank", flow.dst.number(), self.ranks);
        match flow.path.kind() {
            PathKind::Local => {}
            PathKind::Route(route) => {
                faults.id(|| column(8), "route", route.number(), self.routes);
            }
            PathKind::Multicast(tree) | PathKind::Aggregate(tree) => {
                faults.id(|| column(8), "tree", tree.number(), self.trees);
            }
        }
        faults.id(|| column(9), "group", flow.group.number(), self.groups.len());
    }
}

/// Reads each different text once: files have thousands of links and a handful of rates.
struct Memo<T>(HashMap<String, T, FxBuildHasher>);

impl<T: FromStr<Err = UnitError> + Copy> Memo<T> {
    fn new() -> Self {
        Self(HashMap::default())
    }

    fn read(&mut self, faults: &mut Faults, path: impl FnOnce() -> String, text: &str) -> Option<T> {
        if let Some(&value) = self.0.get(text) {
            return Some(value);
        }
        let value = quantity(faults, path, text)?;
        self.0.insert(text.to_owned(), value);
        Some(value)
    }
}

fn quantity<T: FromStr<Err = UnitError>>(faults: &mut Faults, path: impl FnOnce() -> String, text: &str) -> Option<T> {
    text.parse().map_err(|error| faults.add("B105", path, error)).ok()
}

fn configuration(circuits: &[[u32; 2]]) -> Configuration {
    Configuration::new(circuit_list(circuits))
}

fn circuit_list(circuits: &[[u32; 2]]) -> Vec<Circuit> {
    circuits.iter().map(|&[from, to]| Circuit { from: PortId::from(from), to: PortId::from(to) }).collect()
}

fn build_problem(faults: &mut Faults, file: ProblemFile<'_>) -> Option<Problem> {
    let ProblemFile { topology, placement, circuits, groups, cost } = file;
    let CostFile { startup, reduce_cost, copy_cost, synchronisation, overlap_reconfiguration } = &cost;
    let at = |key: &str| format!("problem.cost.{key}");
    let startup: Option<Delay> = quantity(faults, || at("startup"), startup);
    let reduce_cost: Option<PerByte> = quantity(faults, || at("reduce_cost"), reduce_cost);
    let copy_cost: Option<PerByte> = quantity(faults, || at("copy_cost"), copy_cost);
    let synchronisation: Option<Delay> = quantity(faults, || at("synchronisation"), synchronisation);

    let pairs = groups.len().saturating_mul(placement.len());
    if GROUP_RANK_LIMIT < pairs {
        let message = format!(
            "{} groups over {} ranks are too many; the product is at most {GROUP_RANK_LIMIT}",
            groups.len(),
            placement.len()
        );
        faults.add("B111", || "problem.groups".into(), message);
        return None;
    }
    let mut built = Vec::with_capacity(groups.len());
    for (index, GroupFile { collective, ranks }) in groups.into_iter().enumerate() {
        for (position, &rank) in ranks.iter().enumerate() {
            let path = || format!("problem.groups[{index}].ranks[{position}]");
            faults.id(path, "rank", rank, placement.len());
        }
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        let path = || format!("problem.groups[{index}].collective");
        if let Some(collective) = build_collective(faults, path, collective, count) {
            built.push((collective, ranks.into_iter().map(RankId::from).collect()));
        }
    }
    let topology = build_topology(faults, topology)?;
    for (rank, &node) in placement.iter().enumerate() {
        faults.id(|| format!("problem.placement[{rank}]"), "node", node, topology.nodes().len());
    }
    if !faults.length(|| "problem.circuits".into(), circuits.len(), topology.devices().len(), "device") {
        return None;
    }
    let cost = CostModel {
        startup: startup?,
        reduce_cost: reduce_cost?,
        copy_cost: copy_cost?,
        synchronisation: synchronisation?,
        overlap_reconfiguration: *overlap_reconfiguration,
    };
    if !faults.clean() {
        return None;
    }
    let spec = ProblemSpec {
        topology: Arc::new(topology),
        placement: placement.into_iter().map(NodeId::from).collect(),
        circuits: circuits.iter().map(|circuits| configuration(circuits)).collect(),
        groups: built,
        cost,
    };
    Problem::new(spec)
        .map_err(|error| {
            let path = match &error {
                ProblemError::NoRanks => "problem.placement".into(),
                ProblemError::NodeTwice { second: rank, .. } | ProblemError::OnSwitch { rank, .. } => {
                    format!("problem.placement[{}]", rank.number())
                }
                ProblemError::GroupSize { group, .. } | ProblemError::GroupRank { group, .. } => {
                    format!("problem.groups[{}].ranks", group.number())
                }
                ProblemError::Circuits(_) | ProblemError::CircuitCount { .. } => "problem.circuits".into(),
                _ => "problem".into(),
            };
            faults.add("B110", || path, error);
        })
        .ok()
}

fn build_topology(faults: &mut Faults, file: TopologyFile<'_>) -> Option<Topology> {
    let TopologyFile { name, nodes, links, media, devices } = file;
    let at = |rest: std::fmt::Arguments<'_>| format!("problem.topology.{rest}");
    let mut rates = Memo::<Rate>::new();
    let mut delays = Memo::<Delay>::new();
    let mut builder = TopologyBuilder::new(name);
    for (index, node) in nodes.into_iter().enumerate() {
        let NodeFile { name, kind, forwards, multicasts, reduces, injection, ejection, throughput } = node;
        let mut rate = |key: &str, text: Option<String>| {
            text.and_then(|text| rates.read(faults, || at(format_args!("nodes[{index}].{key}")), &text))
        };
        let injection = rate("injection", injection);
        let ejection = rate("ejection", ejection);
        let throughput = rate("throughput", throughput);
        builder.node(Node { name, kind, forwards, multicasts, reduces, injection, ejection, throughput });
    }
    let node_count = builder.nodes.len();
    for (index, LinkRow { src, dst, capacity, latency, up }) in links.into_iter().enumerate() {
        let column = |column: usize| at(format_args!("links[{index}][{column}]"));
        let _ = faults.id(|| column(0), "node", src, node_count);
        let _ = faults.id(|| column(1), "node", dst, node_count);
        if src == dst {
            faults.add("B108", || at(format_args!("links[{index}]")), "a link joins a node to itself");
        }
        let capacity = rates.read(faults, || column(2), &capacity.0);
        let latency = delays.read(faults, || column(3), &latency.0);
        if let (Some(capacity), Some(latency)) = (capacity, latency) {
            builder.links.push(Link { src: NodeId::from(src), dst: NodeId::from(dst), capacity, latency, up });
        }
    }
    for (index, MediumFile { name, capacity, links }) in media.into_iter().enumerate() {
        for (place, &link) in links.iter().enumerate() {
            faults.id(|| at(format_args!("media[{index}].links[{place}]")), "link", link, builder.links.len());
        }
        if let Some(capacity) = rates.read(faults, || at(format_args!("media[{index}].capacity")), &capacity) {
            builder.medium(Medium { name, capacity, links: links.into_iter().map(LinkId::from).collect() });
        }
    }
    for (index, device) in devices.into_iter().enumerate() {
        let path = |rest: std::fmt::Arguments<'_>| at(format_args!("devices[{index}].{rest}"));
        let DeviceFile { name, reconfiguration_delay, ports, legal } = device;
        let delay = delays.read(faults, || path(format_args!("reconfiguration_delay")), &reconfiguration_delay);
        let mut built = Vec::with_capacity(ports.len());
        for (port, PortRow { node, direction, capacity, latency }) in ports.into_iter().enumerate() {
            let column = |column: usize| path(format_args!("ports[{port}][{column}]"));
            faults.id(|| column(0), "node", node, node_count);
            let capacity = rates.read(faults, || column(2), &capacity.0);
            let latency = delays.read(faults, || column(3), &latency.0);
            if let (Some(capacity), Some(latency)) = (capacity, latency) {
                built.push(Port { node: NodeId::from(node), direction, capacity, latency });
            }
        }
        let legal = match (legal.rule, legal.circuits, legal.configurations) {
            (RuleName::AnyMatching, None, None) => Some(LegalConfigurations::AnyMatching),
            (RuleName::Only, Some(circuits), None) => {
                let mut circuits = circuit_list(&circuits);
                circuits.sort_unstable();
                circuits.dedup();
                Some(LegalConfigurations::Only { circuits })
            }
            (RuleName::Cycle, None, Some(list)) => Some(LegalConfigurations::Cycle {
                configurations: list.iter().map(|circuits| configuration(circuits)).collect(),
            }),
            _ => {
                let message = "`only` has `circuits`, `cycle` has `configurations`, `any-matching` has neither";
                faults.add("B107", || path(format_args!("legal")), message);
                None
            }
        };
        if let (Some(reconfiguration_delay), Some(legal)) = (delay, legal) {
            builder.device(Device { name, ports: built, reconfiguration_delay, legal });
        }
    }
    if !faults.clean() {
        return None;
    }
    let names: Vec<String> = builder.nodes.iter().map(|node| node.name.clone()).collect();
    builder
        .finish()
        .map_err(|errors| {
            for error in errors {
                let path = match &error {
                    TopologyError::DuplicateNode { name } => {
                        let second = names.iter().rposition(|other| other == name).unwrap_or(0);
                        at(format_args!("nodes[{second}].name"))
                    }
                    TopologyError::IllegalRule { .. } => at(format_args!("devices")),
                    _ => "problem.topology".into(),
                };
                faults.add("B108", || path, error);
            }
        })
        .ok()
}

fn build_collective(
    faults: &mut Faults,
    path: impl Fn() -> String,
    file: CollectiveFile,
    ranks: u32,
) -> Option<Collective> {
    let CollectiveFile {
        kind: name,
        mut root,
        mut matrix,
        mut targets,
        mut input_slots,
        mut output,
        operator,
        dtype,
        buffer_size,
        in_place,
        input_writable,
    } = file;
    let mut missing = None;
    let mut the_root = || {
        let given = root.take();
        if given.is_none() {
            missing = Some("root");
        }
        given.unwrap_or(0)
    };
    let kind = match name {
        CollectiveName::AllReduce => CollectiveKind::AllReduce,
        CollectiveName::AllGather => CollectiveKind::AllGather,
        CollectiveName::ReduceScatter => CollectiveKind::ReduceScatter,
        CollectiveName::AllToAll => CollectiveKind::AllToAll { matrix: matrix.take() },
        CollectiveName::Broadcast => CollectiveKind::Broadcast { root: the_root() },
        CollectiveName::Reduce => CollectiveKind::Reduce { root: the_root() },
        CollectiveName::Gather => CollectiveKind::Gather { root: the_root() },
        CollectiveName::Scatter => CollectiveKind::Scatter { root: the_root() },
        CollectiveName::SendReceive => match targets.take() {
            Some(targets) => CollectiveKind::SendReceive { targets },
            None => {
                missing = Some("targets");
                CollectiveKind::AllReduce
            }
        },
        CollectiveName::Custom => match (input_slots.take(), output.take()) {
            (Some(input_slots), Some(rows)) => {
                let output = rows
                    .into_iter()
                    .enumerate()
                    .map(|(position, slots)| {
                        let mut held = |(slot, rows): (usize, Option<Vec<HeldRow>>)| {
                            rows.map(|rows| {
                                let at = || format!("{}.output[{position}][{slot}]", path());
                                multiset(faults, at, rows)
                            })
                        };
                        slots.into_iter().enumerate().map(&mut held).collect()
                    })
                    .collect();
                CollectiveKind::Custom(CustomCollective { input_slots, output })
            }
            (slots, _) => {
                missing = Some(if slots.is_none() { "input_slots" } else { "output" });
                CollectiveKind::AllReduce
            }
        },
    };
    if let Some(key) = missing {
        faults.add("B109", &path, format_args!("this kind of collective needs `{key}`"));
        return None;
    }
    let surplus = [
        ("root", root.is_some()),
        ("matrix", matrix.is_some()),
        ("targets", targets.is_some()),
        ("input_slots", input_slots.is_some()),
        ("output", output.is_some()),
    ];
    if let Some((key, _)) = surplus.iter().find(|(_, there)| *there) {
        faults.add("B109", || format!("{}.{key}", path()), format_args!("{} has no `{key}`", kind.name()));
    }
    let sized_by_matrix = matches!(kind, CollectiveKind::AllToAll { matrix: Some(_) });
    let buffer_size = match (buffer_size, sized_by_matrix) {
        (Some(text), false) => quantity(faults, || format!("{}.buffer_size", path()), &text)?,
        (None, true) => Bytes(0),
        (None, false) => {
            faults.add("B109", &path, "a collective needs `buffer_size`");
            return None;
        }
        (Some(_), true) => {
            faults.add("B109", || format!("{}.buffer_size", path()), "a `matrix` gives the size already");
            return None;
        }
    };
    Collective::new(CollectiveSpec { kind, ranks, operator, dtype, buffer_size, in_place, input_writable })
        .map_err(|error| faults.add("B109", &path, error))
        .ok()
}

fn multiset(faults: &mut Faults, path: impl Fn() -> String, rows: Vec<HeldRow>) -> Vec<(Contribution, u64)> {
    let held: Vec<_> =
        rows.into_iter().map(|HeldRow(origin, slot, count)| (Contribution { origin, slot }, count)).collect();
    if !held.is_sorted_by(|a, b| a.0 < b.0) {
        faults.add("B109", &path, "contributions are listed in order of origin and slot, none twice");
    }
    if held.iter().any(|&(_, count)| count == 0) {
        faults.add("B109", &path, "a contribution that is listed occurs at least once");
    }
    held
}

fn build_schedule(faults: &mut Faults, sizes: &Sizes, file: ScheduleFile) -> Schedule {
    let ScheduleFile { algorithm, chunks, scratch, routes, trees, generators, steps, dependencies, leaves_circuits } =
        file;
    faults.length(|| "schedule.chunks".into(), chunks.len(), sizes.groups.len(), "group");
    let scratch = match scratch {
        None => vec![Scratch::default(); sizes.groups.len()],
        Some(groups) => {
            faults.length(|| "schedule.scratch".into(), groups.len(), sizes.groups.len(), "group");
            groups
                .into_iter()
                .enumerate()
                .map(|(group, like)| build_scratch(faults, group, sizes.groups.get(group).copied(), like))
                .collect()
        }
    };
    let paths = build_paths(faults, sizes, routes, trees);
    let generators = generators
        .into_iter()
        .enumerate()
        .map(|(index, generator)| build_generator(faults, sizes, index, generator))
        .collect();
    let mut only_rows = true;
    let mut flow_count = 0;
    let mut built = Vec::with_capacity(steps.len());
    for (index, step) in steps.into_iter().enumerate() {
        let step = build_step(faults, sizes, index, step);
        match &step.flows {
            FlowSet::Rows(rows) => flow_count += rows.len(),
            FlowSet::Orbits { .. } => only_rows = false,
        }
        built.push(step);
    }
    let dependencies = dependencies.map(|pairs| {
        // How many flows orbits stand for is for `verify` to find out: a small file can name very large ones.
        if only_rows {
            for (index, &[before, after]) in pairs.iter().enumerate() {
                let column = |column: usize| format!("schedule.dependencies[{index}][{column}]");
                let _ = faults.id(|| column(0), "flow", before, flow_count);
                let _ = faults.id(|| column(1), "flow", after, flow_count);
            }
        }
        let pairs = pairs.into_iter().map(|[before, after]| (FlowId::from(before), FlowId::from(after))).collect();
        Dependencies { pairs }
    });
    faults.length(|| "schedule.leaves_circuits".into(), leaves_circuits.len(), sizes.ports.len(), "device");
    for (device, circuits) in leaves_circuits.iter().enumerate() {
        check_circuits(faults, sizes, || format!("schedule.leaves_circuits[{device}]"), device, circuits);
    }
    let leaves_circuits = leaves_circuits.iter().map(|circuits| configuration(circuits)).collect();
    Schedule { algorithm, chunks, scratch, paths, generators, steps: built, dependencies, leaves_circuits }
}

fn build_scratch(
    faults: &mut Faults,
    group: usize,
    positions: Option<usize>,
    like: Vec<Vec<(u32, Letter, u32)>>,
) -> Scratch {
    let positions = positions.unwrap_or(0);
    if positions < like.len() {
        let message = format_args!("{} entries for {positions} positions", like.len()).to_string();
        faults.add("B107", || format!("schedule.scratch[{group}]"), message);
    }
    let mut row = |position: usize, slot: usize, (other, Letter(buffer), number): (u32, Letter, u32)| {
        let path = || format!("schedule.scratch[{group}][{position}][{slot}]");
        faults.id(path, "position", other, positions);
        if buffer == Buffer::Scratch {
            faults.add(
                "B106",
                path,
                "a scratch slot is as large as an input or output slot, not as another scratch slot",
            );
        }
        (other, checked_place(faults, path, buffer, number))
    };
    let like = like
        .into_iter()
        .enumerate()
        .map(|(position, slots)| slots.into_iter().enumerate().map(|(slot, like)| row(position, slot, like)).collect())
        .collect();
    Scratch { like }
}

/// The place; slot 0 and a fault if its number is too large.
fn checked_place(faults: &mut Faults, path: impl FnOnce() -> String, buffer: Buffer, slot: u32) -> Place {
    if slot < Place::SLOT_LIMIT {
        return Place::new(buffer, slot);
    }
    faults.add(
        "B104",
        path,
        format_args!("slot {slot} is out of range; a buffer has fewer than {}", Place::SLOT_LIMIT),
    );
    Place::new(buffer, 0)
}

fn check_circuits(faults: &mut Faults, sizes: &Sizes, path: impl Fn() -> String, device: usize, circuits: &[[u32; 2]]) {
    let Some(&ports) = sizes.ports.get(device) else { return };
    for (index, circuit) in circuits.iter().enumerate() {
        for (end, &port) in circuit.iter().enumerate() {
            faults.id(|| format!("{}[{index}][{end}]", path()), "port", port, ports);
        }
    }
}

fn build_paths(faults: &mut Faults, sizes: &Sizes, routes: Vec<RouteRow>, trees: Vec<TreeFile>) -> Paths {
    let mut paths = Paths::default();
    for (index, route) in routes.into_iter().enumerate() {
        let path = || format!("schedule.routes[{index}]");
        let route = match route {
            RouteRow::Whole(hops) => Route::single(build_hops(faults, sizes, path, hops)),
            RouteRow::Split(SplitRoute { parts }) => build_split(faults, sizes, path, parts),
        };
        let id = paths.intern(route);
        if id != RouteId::new(index) {
            faults.add("B107", path, format_args!("this route is already there as number {}", id.number()));
            break;
        }
    }
    for (index, TreeFile { hops, leaves }) in trees.into_iter().enumerate() {
        let path = || format!("schedule.trees[{index}]");
        let hops = build_hops(faults, sizes, || format!("{}.hops", path()), hops);
        for (leaf, &rank) in leaves.iter().enumerate() {
            faults.id(|| format!("{}.leaves[{leaf}]", path()), "rank", rank, sizes.ranks);
        }
        let id = paths.intern_tree(Tree { hops, leaves: leaves.into_iter().map(RankId::from).collect() });
        if id != TreeId::new(index) {
            faults.add("B107", path, format_args!("this tree is already there as number {}", id.number()));
            break;
        }
    }
    paths
}

fn build_hops(faults: &mut Faults, sizes: &Sizes, path: impl Fn() -> String, hops: Vec<HopRow>) -> Vec<Hop> {
    hops.into_iter()
        .enumerate()
        .map(|(index, HopRow(hop))| {
            sizes.hop(faults, || format!("{}[{index}]", path()), hop);
            hop
        })
        .collect()
}

fn build_split(faults: &mut Faults, sizes: &Sizes, path: impl Fn() -> String, parts: Vec<PartFile>) -> Route {
    if PART_LIMIT < parts.len() {
        faults.add("B111", &path, format_args!("{} parts; a route has at most {PART_LIMIT}", parts.len()));
        return Route { parts: Vec::new() };
    }
    let mut common = 1_u64;
    let mut built = Vec::with_capacity(parts.len());
    for (index, PartFile { weight: text, hops }) in parts.into_iter().enumerate() {
        let at = || format!("{}.parts[{index}].weight", path());
        let hops = build_hops(faults, sizes, || format!("{}.parts[{index}].hops", path()), hops);
        let fraction = text.split_once('/').and_then(|(n, d)| Some((whole(n)?, whole(d)?)));
        let Some((numerator, denominator)) = fraction else {
            let text = shorten(&text, 40);
            faults.add("B105", at, format_args!("`{text}` is no fraction; write for example \"1/3\""));
            continue;
        };
        if denominator == 0 || denominator < numerator {
            faults.add("B105", at, format_args!("a share is between 0 and 1, not {numerator}/{denominator}"));
            continue;
        }
        let weight = Ratio::new(numerator, denominator);
        let factor = weight.denom() / weight.denom().gcd(&common);
        match common.checked_mul(factor).filter(|&common| common <= DENOMINATOR_LIMIT) {
            Some(product) => common = product,
            None => {
                let message = "the shares of this route have a common denominator above 2^40";
                faults.add("B111", at, message);
                continue;
            }
        }
        built.push(RoutePart { weight, hops });
    }
    Route { parts: built }
}

/// Digits only: `u64::from_str` also takes a sign.
fn whole(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn build_generator(faults: &mut Faults, sizes: &Sizes, index: usize, file: GeneratorFile) -> Generator {
    let path = |rest: &str| format!("schedule.generators[{index}].{rest}");
    let GeneratorFile { ranks, slots, routes, trees } = file;
    let mut table = |key: &str, what: &str, table: &[u32], limit: usize| {
        faults.length(|| path(key), table.len(), limit, what);
        for (from, &to) in table.iter().enumerate() {
            faults.id(|| format!("{}[{from}]", path(key)), what, to, limit);
        }
    };
    table("ranks", "rank", &ranks, sizes.ranks);
    table("routes", "route", &routes, sizes.routes);
    table("trees", "tree", &trees, sizes.trees);
    faults.length(|| path("slots"), slots.len(), sizes.groups.len(), "group");
    for (group, tables) in slots.iter().enumerate() {
        for (buffer, table) in tables.iter().enumerate() {
            for (from, &to) in table.iter().enumerate() {
                let path = || format!("{}[{group}][{buffer}][{from}]", path("slots"));
                faults.id(path, "slot", to, table.len());
            }
        }
    }
    Generator {
        ranks: ranks.into_iter().map(RankId::from).collect(),
        slots,
        routes: routes.into_iter().map(RouteId::from).collect(),
        trees: trees.into_iter().map(TreeId::from).collect(),
    }
}

fn build_step(faults: &mut Faults, sizes: &Sizes, index: usize, file: StepFile) -> Step {
    let path = |rest: std::fmt::Arguments<'_>| format!("schedule.steps[{index}].{rest}");
    let StepFile { set, flows, representatives, generators } = file;
    for (place, (device, circuits)) in set.iter().enumerate() {
        if faults.id(|| path(format_args!("set[{place}][0]")), "device", *device, sizes.ports.len()) {
            let path = || path(format_args!("set[{place}][1]"));
            check_circuits(faults, sizes, path, *device as usize, circuits);
        }
    }
    let reconfigure =
        set.into_iter().map(|(device, circuits)| (DeviceId::from(device), configuration(&circuits))).collect();
    let mut rows = |key: &str, rows: Vec<FlowRow>| -> Vec<Flow> {
        for (place, FlowRow(flow)) in rows.iter().enumerate() {
            sizes.flow(faults, || path(format_args!("{key}[{place}]")), flow);
        }
        rows.into_iter().map(|FlowRow(flow)| flow).collect()
    };
    let flows = match (flows, representatives, generators) {
        (Some(flows), None, None) => FlowSet::Rows(rows("flows", flows)),
        (None, Some(representatives), Some(generators)) => {
            let representatives = rows("representatives", representatives);
            for (place, &generator) in generators.iter().enumerate() {
                let path = || path(format_args!("generators[{place}]"));
                faults.id(path, "generator", generator, sizes.generators);
            }
            FlowSet::Orbits { representatives, generators: generators.into_iter().map(GeneratorId::from).collect() }
        }
        _ => {
            let message = "a step has `flows`, or it has `representatives` and `generators`";
            faults.add("B107", || format!("schedule.steps[{index}]"), message);
            FlowSet::default()
        }
    };
    Step { reconfigure, flows }
}

/// Whether each group has a layout at its chunk count: slots can be numbered.
fn check_layouts(faults: &mut Faults, problem: &Problem, schedule: &Schedule) {
    for (index, (group, &chunks)) in problem.groups().iter().zip(&schedule.chunks).enumerate() {
        if let Err(error) = group.collective().layout(chunks) {
            faults.add("B109", || format!("schedule.chunks[{index}]"), error);
        }
    }
}

fn build_program(faults: &mut Faults, claim: ClaimFile, program: ProgramFile, text: &str) -> Option<Plan> {
    let ClaimFile { collective, ranks: rank_count, chunks: claimed_chunks } = claim;
    let ProgramFile { name, chunks, fifo_depth, ranks } = program;
    let same = faults.length(|| "program.ranks".into(), ranks.len(), rank_count as usize, "rank of the claim");
    let mut builder =
        ProgramBuilder { faults, ranks: ranks.len(), places: Places { text, offset: 0, line: 1, start: 0 } };
    let ranks = ranks.into_iter().enumerate().map(|(rank, file)| builder.rank(rank, file)).collect();
    if !same {
        return None;
    }
    let collective = build_collective(faults, || "claim.collective".into(), collective, rank_count)?;
    let chunks = chunks.unwrap_or(claimed_chunks);
    for (path, chunks) in [("claim.chunks", claimed_chunks), ("program.chunks", chunks)] {
        if let Err(error) = collective.layout(chunks) {
            faults.add("B109", || path.into(), error);
            break;
        }
    }
    let claim = ProgramHeader { collective, chunks: claimed_chunks };
    Some(Plan::Program { claim, program: Program { name, chunks, fifo_depth, ranks } })
}

/// Turns addresses in the text to lines and columns; cheap because they come in order.
struct Places<'a> {
    text: &'a str,
    /// Up to here lines are counted.
    offset: usize,
    line: u32,
    /// Where that line starts.
    start: usize,
}

impl Places<'_> {
    /// Line and column of the bracket before the key at `address`.
    fn find(&mut self, address: usize) -> SourceSpan {
        let Some(key) = address.checked_sub(self.text.as_ptr() as usize).filter(|&at| at <= self.text.len()) else {
            return SourceSpan::default();
        };
        let before = self.text.as_bytes()[..key].strip_suffix(b"\"").unwrap_or_default().trim_ascii_end();
        let bracket = before.len().saturating_sub(1);
        if bracket < self.offset {
            (self.offset, self.line, self.start) = (0, 1, 0);
        }
        let piece = &self.text.as_bytes()[self.offset..bracket];
        let lines = piece.iter().filter(|&&b| b == b'\n').count();
        if lines != 0 {
            self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
            self.start = self.offset + piece.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        }
        self.offset = bracket;
        let column = u32::try_from(bracket - self.start + 1).unwrap_or(u32::MAX);
        SourceSpan { line: self.line, column }
    }
}

struct ProgramBuilder<'a, 'f> {
    faults: &'f mut Faults,
    ranks: usize,
    places: Places<'a>,
}

impl ProgramBuilder<'_, '_> {
    fn rank(&mut self, rank: usize, Located { address, value }: Located<RankFile>) -> RankProgram {
        let RankFile { scratch_slots, threadblocks } = value;
        let span = self.places.find(address);
        let path = || format!("program.ranks[{rank}]");
        if Place::SLOT_LIMIT <= scratch_slots {
            let limit = Place::SLOT_LIMIT - 1;
            let message = format!("{scratch_slots} scratch slots; a buffer has at most {limit}");
            self.faults.add("B104", || format!("{}.scratch_slots", path()), message);
        }
        let lengths: Vec<usize> = threadblocks.iter().map(|tb| tb.value.operations.len()).collect();
        let threadblocks = threadblocks
            .into_iter()
            .enumerate()
            .map(|(index, Located { address, value: ThreadblockFile { id, operations } })| {
                let span = self.places.find(address);
                let mut operations: Vec<Operation> = operations.into_iter().map(|OperationRow(op)| op).collect();
                let path = || format!("{}.threadblocks[{index}].operations", path());
                self.operations(&path, &lengths, &mut operations, 0);
                Threadblock { id, operations, span }
            })
            .collect();
        RankProgram { scratch_slots, threadblocks, span }
    }

    fn operations(&mut self, path: &dyn Fn() -> String, lengths: &[usize], operations: &mut [Operation], depth: usize) {
        for (index, operation) in operations.iter_mut().enumerate() {
            operation.span = self.places.find(address_of(operation.span));
            let at = |rest: std::fmt::Arguments<'_>| format!("{}[{index}]{rest}", path());
            let mut peer = |key: std::fmt::Arguments<'_>, rank: RankId| {
                self.faults.id(|| at(key), "rank", rank.number(), self.ranks);
            };
            match &mut operation.kind {
                OperationKind::Nop | OperationKind::Reduce { .. } | OperationKind::Wait { .. } => {}
                OperationKind::Move { receive, send, .. } => {
                    if let Some(connection) = receive {
                        peer(format_args!(".receive[0]"), connection.peer);
                    }
                    if let Some(connection) = send {
                        peer(format_args!(".send[0]"), connection.peer);
                    }
                }
                OperationKind::Put { to, .. } => {
                    for (place, (rank, _)) in to.iter().enumerate() {
                        peer(format_args!(".to[{place}][0]"), *rank);
                    }
                }
                OperationKind::Get { from, .. } => {
                    for (place, (rank, _)) in from.iter().enumerate() {
                        peer(format_args!(".from[{place}][0]"), *rank);
                    }
                }
                OperationKind::Signal { peer: rank, .. } => peer(format_args!(".peer"), *rank),
                OperationKind::Barrier { threadblocks, .. } => {
                    for (place, &threadblock) in threadblocks.iter().enumerate() {
                        let path = || at(format_args!(".threadblocks[{place}]"));
                        self.faults.id(path, "threadblock", threadblock, lengths.len());
                    }
                }
                OperationKind::Loop { body, .. } => {
                    if depth < LOOP_DEPTH_LIMIT {
                        self.operations(&|| at(format_args!(".body")), lengths, body, depth + 1);
                    } else {
                        let message = format!("loops are nested more than {LOOP_DEPTH_LIMIT} deep");
                        self.faults.add("B111", || at(format_args!("")), message);
                    }
                }
            }
            for (place, wait) in operation.waits_for.iter().enumerate() {
                let column = |column: usize| at(format_args!(".after[{place}][{column}]"));
                if self.faults.id(|| column(0), "threadblock", wait.threadblock, lengths.len()) {
                    let operations = lengths[wait.threadblock as usize];
                    self.faults.id(|| column(1), "operation", wait.operation, operations);
                }
            }
        }
    }
}
