//! The compiler's evaluator of the step-synchronous model: exact, written from [`rondo_ir::cost`].

pub mod calibrate;
pub mod scale;
pub mod shortcut;
pub mod sweep;
pub mod topology;

use num_bigint::{BigInt, BigUint};
use num_rational::{BigRational, Ratio};
use rayon::prelude::*;
use rondo_ir::collective::{Buffer, Collective, CollectiveKind, Layout, Place};
use rondo_ir::index::{DeviceId, PortId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, Path, PathKind, Paths, Schedule};
use rondo_ir::topology::{Configuration, Hop, Resource, Topology};
use rondo_ir::units::{Bytes, Delay, PerByte, Rate, Time};
use rustc_hash::FxHashSet;

/// The resource that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busiest {
    /// Which; the first in resource order where several are equal.
    pub resource: Resource,
    /// Bytes that pass it in the step.
    pub bytes: u128,
    /// Its rate.
    pub rate: Rate,
}

/// What one step costs, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCost {
    /// Flows of the step.
    pub flows: usize,
    /// Most hops of a flow.
    pub hops: u32,
    /// The resource that takes longest, if any byte moves.
    pub busiest: Option<Busiest>,
    /// Time that the busiest resource needs ÷ time that the slowest flow needs alone; `None` if no byte moves.
    pub congestion: Option<Ratio<u128>>,
    /// Bytes of the largest flow with a path.
    pub bytes: u64,
    /// Most bytes that one rank reduces.
    pub reduced: u128,
    /// Most bytes that one rank copies locally.
    pub copied: u128,
    startup: Delay,
    latency: u128,
    reduce_cost: PerByte,
    copy_cost: PerByte,
    reconfiguration: Time,
    hidden: Time,
}

/// Femtoseconds as a time.
fn femtoseconds(value: u128) -> Time {
    Time::from_seconds(BigRational::new(BigInt::from(value), BigInt::from(1_000_000_000_000_000_u64)))
}

impl StepCost {
    /// Start-up, if the step has a flow with a path.
    #[must_use]
    pub fn startup(&self) -> Time {
        self.startup.time()
    }

    /// Latency of the longest path.
    #[must_use]
    pub fn latency(&self) -> Time {
        femtoseconds(self.latency)
    }

    /// Time of the busiest resource.
    #[must_use]
    pub fn bandwidth(&self) -> Time {
        self.busiest.map_or_else(Time::zero, |busiest| busiest.rate.time_for(busiest.bytes))
    }

    /// Time of the rank that reduces most.
    #[must_use]
    pub fn reduce(&self) -> Time {
        self.reduce_cost.time_for(self.reduced)
    }

    /// Time of the rank that copies most.
    #[must_use]
    pub fn copy(&self) -> Time {
        self.copy_cost.time_for(self.copied)
    }

    /// What the reconfiguration before the step adds, synchronisation included.
    #[must_use]
    pub fn reconfiguration(&self) -> Time {
        self.reconfiguration.clone()
    }

    /// What more it would add if it did not overlap the step before.
    #[must_use]
    pub fn hidden_reconfiguration(&self) -> Time {
        self.hidden.clone()
    }

    /// The step's time: the sum of all terms.
    #[must_use]
    pub fn total(&self) -> Time {
        self.run() + self.reconfiguration()
    }

    /// The step's time without the reconfiguration before it.
    #[must_use]
    pub fn run(&self) -> Time {
        [self.startup(), self.latency(), self.bandwidth(), self.reduce(), self.copy()].into_iter().sum()
    }
}

/// What a schedule costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The schedule's time.
    pub total: Time,
    /// Its steps; with explicit dependencies, its levels.
    pub steps: Vec<StepCost>,
}

impl Cost {
    /// Σ of the start-ups.
    #[must_use]
    pub fn startup(&self) -> Time {
        self.sum(|step| u128::from(step.startup.femtoseconds()))
    }

    /// Σ of the latencies.
    #[must_use]
    pub fn latency(&self) -> Time {
        self.sum(|step| step.latency)
    }

    /// Σ of the bandwidth terms.
    #[must_use]
    pub fn bandwidth(&self) -> Time {
        // Steps mostly wait for resources of one of few rates: whole bytes are added first.
        let mut bytes: std::collections::BTreeMap<Rate, u128> = std::collections::BTreeMap::new();
        let mut sum = Time::zero();
        for busiest in self.steps.iter().filter_map(|step| step.busiest) {
            let entry = bytes.entry(busiest.rate).or_default();
            match entry.checked_add(busiest.bytes) {
                Some(total) => *entry = total,
                None => sum += &busiest.rate.time_for(std::mem::replace(entry, busiest.bytes)),
            }
        }
        bytes.into_iter().map(|(rate, bytes)| rate.time_for(bytes)).fold(sum, |sum, time| sum + time)
    }

    /// Σ of the reduction terms.
    #[must_use]
    pub fn reduce(&self) -> Time {
        self.per_byte(|step| (step.reduce_cost, step.reduced))
    }

    /// Σ of the local copies.
    #[must_use]
    pub fn copy(&self) -> Time {
        self.per_byte(|step| (step.copy_cost, step.copied))
    }

    /// Σ of the reconfigurations.
    #[must_use]
    pub fn reconfiguration(&self) -> Time {
        self.steps.iter().map(|step| &step.reconfiguration).filter(|time| !time.is_zero()).cloned().sum()
    }

    /// Algorithm and bus bandwidth of the collective at this time, in bytes per second (for printing).
    ///
    /// # Source
    /// The conventions of nccl-tests ([`rondo_ir::cost`]). Both are infinite if the time is zero and there is data.
    #[must_use]
    pub fn bandwidths(&self, collective: &Collective) -> Bandwidths {
        bandwidths(collective, &self.total)
    }

    fn sum(&self, term: impl Fn(&StepCost) -> u128) -> Time {
        femtoseconds(self.steps.iter().map(term).sum())
    }

    fn per_byte(&self, term: impl Fn(&StepCost) -> (PerByte, u128)) -> Time {
        let cost = self.steps.first().map_or(PerByte::ZERO, |step| term(step).0);
        cost.time_for(self.steps.iter().map(|step| term(step).1).sum())
    }
}

/// Algorithm and bus bandwidth, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidths {
    /// `buffer_size` / time.
    pub algorithm: f64,
    /// Algorithm bandwidth × the collective's factor.
    pub bus: f64,
}

/// The factor between algorithm and bus bandwidth: 2(n−1)/n for all_reduce, (n−1)/n for the collectives of which each
/// rank keeps its own block, else 1.
#[must_use]
pub fn bus_factor(collective: &Collective) -> Ratio<u64> {
    let n = u64::from(collective.ranks());
    match collective.kind() {
        CollectiveKind::AllReduce => Ratio::new(2 * (n - 1), n),
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Gather { .. }
        | CollectiveKind::Scatter { .. } => Ratio::new(n - 1, n),
        CollectiveKind::Broadcast { .. }
        | CollectiveKind::Reduce { .. }
        | CollectiveKind::SendReceive { .. }
        | CollectiveKind::Custom(_) => Ratio::new(1, 1),
    }
}

/// Bandwidths of the collective when it takes `time`.
#[must_use]
pub fn bandwidths(collective: &Collective, time: &Time) -> Bandwidths {
    let Bytes(size) = collective.buffer_size();
    let factor = bus_factor(collective);
    #[allow(clippy::cast_precision_loss)]
    let (size, factor) = (size as f64, *factor.numer() as f64 / *factor.denom() as f64);
    let seconds = time.to_f64();
    let algorithm = if size <= 0.0 { 0.0 } else { size / seconds };
    Bandwidths { algorithm, bus: algorithm * factor }
}

/// The price of the schedule, step by step.
///
/// Flows that refer to ranks, places or paths that do not exist are not judged here: they count as empty. `verify`
/// refuses them. Orbits are walked: of a schedule that is not trusted, ask [`Schedule::flow_count_at_most`] first.
///
/// # Complexity
/// Linear in flows times the hops of their paths, in parallel over steps.
#[must_use]
pub fn evaluate(problem: &Problem, schedule: &Schedule) -> Cost {
    let evaluator = Evaluator::new(problem, schedule);
    let steps = match &schedule.dependencies {
        None => (0..schedule.steps.len())
            .into_par_iter()
            .with_min_len(4)
            .map_init(
                || Load::new(problem),
                |load, step| {
                    let change = evaluator.reconfiguration(step);
                    evaluator.step(load, schedule.flows(StepId::new(step)), change)
                },
            )
            .collect(),
        Some(_) => evaluator.levels(),
    };
    let mut cost = Cost { total: Time::zero(), steps };
    if problem.cost().overlap_reconfiguration && schedule.dependencies.is_none() {
        for step in 1..cost.steps.len() {
            let charged = evaluator.overlapped(step, || cost.steps[step - 1].run());
            let own = &mut cost.steps[step];
            own.hidden = Time::from_seconds(own.reconfiguration.seconds() - charged.seconds());
            own.reconfiguration = charged;
        }
    }
    cost.total = [cost.startup(), cost.latency(), cost.bandwidth(), cost.reduce(), cost.copy(), cost.reconfiguration()]
        .into_iter()
        .sum();
    cost
}

/// What is known of a path before its bytes are.
struct PathInfo {
    latency: u128,
    hops: u32,
    /// The parts' resources one after the other; each part ends where `ends` says.
    resources: Vec<u32>,
    ends: Vec<u32>,
    /// For a single part: uses of the resource and rate at which a byte takes longest.
    slowest: Option<(u32, u64)>,
}

impl PathInfo {
    fn new(topology: &Topology, latency: u128, hops: u32, parts: Vec<Vec<u32>>) -> Self {
        let slowest = match parts.as_slice() {
            [only] => {
                let mut uses: Vec<u32> = only.clone();
                uses.sort_unstable();
                uses.chunk_by(|a, b| a == b)
                    .map(|same| {
                        let rate = topology.rate(topology.resources()[same[0] as usize]).bytes_per_second();
                        (u32::try_from(same.len()).unwrap_or(u32::MAX), rate)
                    })
                    .reduce(|a, b| if slower((u128::from(a.0), a.1), (u128::from(b.0), b.1)) { a } else { b })
            }
            _ => None,
        };
        let mut ends = Vec::with_capacity(parts.len());
        let mut resources = Vec::with_capacity(parts.iter().map(Vec::len).sum());
        for part in parts {
            resources.extend(part);
            ends.push(u32::try_from(resources.len()).unwrap_or(u32::MAX));
        }
        Self { latency, hops, resources, ends, slowest }
    }

    fn part(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.resources[start..self.ends[index] as usize]
    }
}

/// Whether the first (bytes, rate) takes at least as long as the second.
fn slower(a: (u128, u64), b: (u128, u64)) -> bool {
    match (a.0.checked_mul(u128::from(b.1)), b.0.checked_mul(u128::from(a.1))) {
        (Some(left), Some(right)) => left >= right,
        _ => BigUint::from(a.0) * b.1 >= BigUint::from(b.0) * a.1,
    }
}

/// Counters of one thread, empty between steps.
struct Load {
    bytes: Vec<u128>,
    used: Vec<u32>,
    reduced: Vec<u128>,
    copied: Vec<u128>,
    ranks: Vec<u32>,
    alone: Vec<(u32, u64)>,
}

impl Load {
    fn new(problem: &Problem) -> Self {
        let ranks = problem.rank_count();
        Self {
            bytes: vec![0; problem.topology().resources().len()],
            used: Vec::new(),
            reduced: vec![0; ranks],
            copied: vec![0; ranks],
            ranks: Vec::new(),
            alone: Vec::new(),
        }
    }

    fn add(&mut self, resource: u32, bytes: u64) {
        let slot = &mut self.bytes[resource as usize];
        if *slot == 0 && bytes != 0 {
            self.used.push(resource);
        }
        *slot += u128::from(bytes);
    }
}

struct Evaluator<'a> {
    problem: &'a Problem,
    schedule: &'a Schedule,
    layouts: Vec<Option<Layout<'a>>>,
    routes: Vec<PathInfo>,
    /// Per tree: as the multicast from any source, and as the aggregation; ends are added per flow.
    trees: Vec<[PathInfo; 2]>,
}

impl<'a> Evaluator<'a> {
    fn new(problem: &'a Problem, schedule: &'a Schedule) -> Self {
        let topology = problem.topology();
        let count = |hops: usize| u32::try_from(hops).unwrap_or(u32::MAX);
        let latency = |hop: Hop| u128::from(topology.hop_latency(hop).femtoseconds());
        let routes = schedule
            .paths
            .routes()
            .map(|route| {
                let of = |hops: &[Hop]| hops.iter().map(|&hop| latency(hop)).sum::<u128>();
                let parts = route.parts.iter().map(|part| {
                    let mut resources = Vec::with_capacity(part.hops.len());
                    topology.path_resources(&part.hops, |r| resources.push(count(r)));
                    resources
                });
                PathInfo::new(
                    topology,
                    route.parts.iter().map(|part| of(&part.hops)).max().unwrap_or(0),
                    count(route.parts.iter().map(|part| part.hops.len()).max().unwrap_or(0)),
                    parts.collect(),
                )
            })
            .collect();
        let trees = schedule
            .paths
            .trees()
            .map(|tree| {
                let mut resources = Vec::new();
                for &hop in &tree.hops {
                    topology.hop_resources(hop, |r| resources.push(count(r)));
                }
                [false, true].map(|aggregate| {
                    let (time, hops) = longest_way(topology, &tree.hops, aggregate);
                    PathInfo::new(topology, time, hops, vec![resources.clone()])
                })
            })
            .collect();
        let layouts = (0..problem.groups().len())
            .map(|group| {
                let chunks = *schedule.chunks.get(group)?;
                problem.layout(rondo_ir::index::GroupId::new(group), chunks).ok()
            })
            .collect();
        Self { problem, schedule, layouts, routes, trees }
    }

    /// What the changes before a step cost if nothing overlaps, in femtoseconds.
    fn reconfiguration(&self, step: usize) -> u128 {
        self.changes(step).map(|(device, ..)| self.delay(device)).max().unwrap_or(0)
    }

    /// The same if each change of ports that the step before leaves idle began with that step, which runs for `run`.
    fn overlapped(&self, step: usize, run: impl FnOnce() -> Time) -> Time {
        let changes: Vec<_> = self.changes(step).collect();
        if changes.is_empty() {
            return Time::zero();
        }
        let flows = self.schedule.flows(StepId::new(step - 1));
        let used = ports_of(&self.schedule.paths, flows.map(|flow| flow.path));
        let run = run();
        let charge = |(device, before, after): (DeviceId, Option<&Configuration>, &Configuration)| {
            let busy = moved_ports(before, after).any(|port| used.contains(&(device, port)));
            overlapped(femtoseconds(self.delay(device)), (!busy).then_some(&run))
        };
        changes.into_iter().map(charge).max().unwrap_or_else(Time::zero)
    }

    /// Devices that a step sets anew: from what, to what.
    fn changes(&self, step: usize) -> impl Iterator<Item = (DeviceId, Option<&Configuration>, &Configuration)> {
        let before = move |device: DeviceId| {
            self.schedule.steps[..step]
                .iter()
                .rev()
                .find_map(|earlier| earlier.reconfigure.iter().find(|(d, _)| *d == device))
                .map(|(_, configuration)| configuration)
                .or_else(|| self.problem.circuits().get(device.index()))
        };
        let changes = self.schedule.steps[step].reconfigure.iter();
        changes
            .map(move |(device, after)| (*device, before(*device), after))
            .filter(|(_, before, after)| *before != Some(*after))
    }

    /// Time that a change of the device takes, in femtoseconds.
    fn delay(&self, device: DeviceId) -> u128 {
        let delay = self.problem.topology().device(device).reconfiguration_delay;
        u128::from(delay.femtoseconds()) + u128::from(self.problem.cost().synchronisation.femtoseconds())
    }

    /// Elements and bytes of a flow's source slots.
    fn elements(&self, flow: &Flow) -> (u64, u64) {
        let group = flow.group.index();
        let (Some(Some(layout)), Some(position)) =
            (self.layouts.get(group), self.problem.position(flow.group, flow.src))
        else {
            return (0, 1);
        };
        let size = layout.collective().dtype().bytes();
        if flow.src_place.buffer() == Buffer::Scratch {
            let like = self.schedule.scratch.get(group).and_then(|scratch| scratch.like.get(position as usize));
            let first = flow.src_place.slot() as usize;
            let slots = like.and_then(|like| like.get(first..first + flow.count as usize)).unwrap_or_default();
            return (slots.iter().map(|&(position, place)| layout.elements(position, place)).sum(), size);
        }
        (range(layout, position, flow.src_place, flow.count), size)
    }

    fn step(&self, load: &mut Load, flows: impl Iterator<Item = Flow>, reconfiguration: u128) -> StepCost {
        let topology = self.problem.topology();
        let cost = self.problem.cost();
        let mut step = StepCost {
            flows: 0,
            hops: 0,
            busiest: None,
            congestion: None,
            bytes: 0,
            reduced: 0,
            copied: 0,
            startup: Delay::ZERO,
            latency: 0,
            reduce_cost: cost.reduce_cost,
            copy_cost: cost.copy_cost,
            reconfiguration: if reconfiguration == 0 { Time::zero() } else { femtoseconds(reconfiguration) },
            hidden: Time::zero(),
        };
        // (bytes, rate) of what one flow alone needs, the longest so far.
        let mut alone = (0_u128, 1_u64);
        for flow in flows {
            step.flows += 1;
            let (elements, size) = self.elements(&flow);
            let bytes = elements.saturating_mul(size);
            let mut work = |rank: rondo_ir::index::RankId, copy: bool| {
                let table = if copy { &mut load.copied } else { &mut load.reduced };
                let Some(slot) = table.get_mut(rank.index()) else { return };
                *slot += u128::from(bytes);
                if copy {
                    step.copied = step.copied.max(*slot);
                } else {
                    step.reduced = step.reduced.max(*slot);
                }
                load.ranks.push(rank.number());
            };
            let kind = flow.path.kind();
            match (kind, flow.op) {
                (PathKind::Local, FlowOp::Copy) => work(flow.dst, true),
                (PathKind::Multicast(tree), FlowOp::Reduce) => {
                    for &leaf in self.schedule.paths.get_tree(tree).into_iter().flat_map(|tree| &tree.leaves) {
                        work(leaf, false);
                    }
                }
                (_, FlowOp::Reduce) => work(flow.dst, false),
                (_, FlowOp::Copy) => {}
            }
            let info = match kind {
                PathKind::Local => continue,
                PathKind::Route(route) => self.routes.get(route.index()),
                PathKind::Multicast(tree) => self.trees.get(tree.index()).map(|both| &both[0]),
                PathKind::Aggregate(tree) => self.trees.get(tree.index()).map(|both| &both[1]),
            };
            step.startup = cost.startup;
            step.bytes = step.bytes.max(bytes);
            let Some(info) = info else { continue };
            step.latency = step.latency.max(info.latency);
            step.hops = step.hops.max(info.hops);
            if let PathKind::Route(route) = kind
                && 1 < info.ends.len()
                && let Some(route) = self.schedule.paths.get(route)
            {
                load.alone.clear();
                for (part, share) in route.cut(elements).enumerate() {
                    for &resource in info.part(part) {
                        load.add(resource, share * size);
                        load.alone.push((resource, share * size));
                    }
                }
                load.alone.sort_unstable();
                for same in load.alone.chunk_by(|a, b| a.0 == b.0) {
                    let rate = topology.rate(topology.resources()[same[0].0 as usize]).bytes_per_second();
                    let own = (same.iter().map(|&(_, bytes)| u128::from(bytes)).sum(), rate);
                    if !slower(alone, own) {
                        alone = own;
                    }
                }
                continue;
            }
            for &resource in &info.resources {
                load.add(resource, bytes);
            }
            let mut own = info.slowest.map_or((0, 1), |(uses, rate)| (u128::from(bytes) * u128::from(uses), rate));
            if !matches!(kind, PathKind::Route(_)) {
                self.tree_ends(&flow, |resource| {
                    load.add(resource, bytes);
                    let rate = topology.rate(topology.resources()[resource as usize]).bytes_per_second();
                    if !slower(own, (u128::from(bytes), rate)) {
                        own = (u128::from(bytes), rate);
                    }
                });
            }
            if !slower(alone, own) {
                alone = own;
            }
        }
        load.used.sort_unstable();
        for &resource in &load.used {
            let bytes = std::mem::take(&mut load.bytes[resource as usize]);
            let resource = topology.resources()[resource as usize];
            let rate = topology.rate(resource);
            let known = step.busiest.map(|busiest| (busiest.bytes, busiest.rate.bytes_per_second()));
            if known.is_none_or(|known| !slower(known, (bytes, rate.bytes_per_second()))) {
                step.busiest = Some(Busiest { resource, bytes, rate });
            }
        }
        load.used.clear();
        for rank in load.ranks.drain(..) {
            load.reduced[rank as usize] = 0;
            load.copied[rank as usize] = 0;
        }
        step.congestion = step.busiest.filter(|_| alone.0 != 0).and_then(|busiest| {
            let rate = Ratio::new(u128::from(alone.1), u128::from(busiest.rate.bytes_per_second()));
            let bytes = Ratio::new(busiest.bytes, alone.0);
            Some(Ratio::new(bytes.numer().checked_mul(*rate.numer())?, bytes.denom().checked_mul(*rate.denom())?))
        });
        step
    }

    /// The resources at the ends of a tree: a multicast injects at its source and ejects at each leaf, an aggregation
    /// the other way round.
    fn tree_ends(&self, flow: &Flow, mut visit: impl FnMut(u32)) {
        let topology = self.problem.topology();
        let mut end = |resource| {
            if let Some(index) = topology.resource_index(resource) {
                visit(u32::try_from(index).unwrap_or(u32::MAX));
            }
        };
        let (tree, aggregate) = match flow.path.kind() {
            PathKind::Multicast(tree) => (tree, false),
            PathKind::Aggregate(tree) => (tree, true),
            PathKind::Local | PathKind::Route(_) => return,
        };
        let leaves = self.schedule.paths.get_tree(tree).map_or(&[][..], |tree| &tree.leaves);
        if aggregate {
            leaves.iter().for_each(|&leaf| end(Resource::Injection(self.problem.node_of(leaf))));
            end(Resource::Ejection(self.problem.node_of(flow.dst)));
        } else {
            end(Resource::Injection(self.problem.node_of(flow.src)));
            leaves.iter().for_each(|&leaf| end(Resource::Ejection(self.problem.node_of(leaf))));
        }
    }

    /// Levels of a schedule with dependencies; a reconfiguration is paid with the first flow of its step.
    fn levels(&self) -> Vec<StepCost> {
        let flows: Vec<(StepId, Flow)> = self.schedule.all_flows().collect();
        let mut level = vec![0_usize; flows.len()];
        let pairs = self.schedule.dependencies.as_ref().map_or(&[][..], |d| &d.pairs);
        let mut by_after: Vec<(usize, usize)> = pairs.iter().map(|&(a, b)| (b.index(), a.index())).collect();
        by_after.sort_unstable();
        for (after, before) in by_after {
            if let Some(&known) = level.get(before)
                && let Some(slot) = level.get_mut(after)
            {
                *slot = (*slot).max(known + 1);
            }
        }
        let count = level.iter().max().map_or(0, |&last| last + 1);
        let mut by_level = vec![Vec::new(); count];
        let mut changes = vec![0_u128; count.max(1)];
        let mut seen = vec![false; self.schedule.steps.len()];
        for (&(step, flow), &level) in flows.iter().zip(&level) {
            by_level[level].push(flow);
            if !std::mem::replace(&mut seen[step.index()], true) {
                changes[level] += self.reconfiguration(step.index());
            }
        }
        for step in (0..seen.len()).filter(|&step| !seen[step]) {
            changes[0] += self.reconfiguration(step);
        }
        by_level.resize(changes.len(), Vec::new());
        let mut load = Load::new(self.problem);
        by_level
            .into_iter()
            .zip(changes)
            .map(|(flows, change)| self.step(&mut load, flows.into_iter(), change))
            .collect()
    }
}

/// What is left of a change after a step beside which it runs; all of it if there is none.
pub(crate) fn overlapped(change: Time, beside: Option<&Time>) -> Time {
    match beside {
        None => change,
        Some(run) if change <= *run => Time::zero(),
        Some(run) => Time::from_seconds(change.seconds() - run.seconds()),
    }
}

/// Ports that circuits of these paths use.
pub(crate) fn ports_of(paths: &Paths, flows: impl Iterator<Item = Path>) -> FxHashSet<(DeviceId, PortId)> {
    let mut ports = FxHashSet::default();
    let mut add = |hops: &[Hop]| {
        for hop in hops {
            if let Hop::Circuit(device, circuit) = hop {
                ports.extend([(*device, circuit.from), (*device, circuit.to)]);
            }
        }
    };
    let mut seen = FxHashSet::default();
    for path in flows.filter(|path| seen.insert(*path)) {
        match path.kind() {
            PathKind::Local => {}
            PathKind::Route(route) => {
                paths.get(route).into_iter().flat_map(|route| &route.parts).for_each(|part| add(&part.hops));
            }
            PathKind::Multicast(tree) | PathKind::Aggregate(tree) => {
                paths.get_tree(tree).into_iter().for_each(|tree| add(&tree.hops));
            }
        }
    }
    ports
}

/// Ports at which circuits go or come when a device is set anew.
pub(crate) fn moved_ports<'a>(
    before: Option<&'a Configuration>,
    after: &'a Configuration,
) -> impl Iterator<Item = PortId> + 'a {
    let old = before.into_iter().flat_map(Configuration::circuits).filter(|&&circuit| !after.contains(circuit));
    let new = after.circuits().iter().filter(move |&&circuit| before.is_none_or(|before| !before.contains(circuit)));
    old.chain(new).flat_map(|circuit| [circuit.from, circuit.to])
}

/// Latency in femtoseconds and hops of a tree's longest way between its root and a leaf.
fn longest_way(topology: &Topology, hops: &[Hop], aggregate: bool) -> (u128, u32) {
    let mut below: std::collections::BTreeMap<_, Vec<(Hop, rondo_ir::index::NodeId)>> =
        std::collections::BTreeMap::new();
    let mut has_parent = std::collections::BTreeSet::new();
    for &hop in hops {
        let (src, dst) = topology.ends(hop);
        let (up, down) = if aggregate { (dst, src) } else { (src, dst) };
        below.entry(up).or_default().push((hop, down));
        has_parent.insert(down);
    }
    let mut stack: Vec<_> = below.keys().filter(|node| !has_parent.contains(node)).map(|&node| (node, 0, 0)).collect();
    let (mut time, mut count) = (0_u128, 0_u32);
    let mut visits = 0;
    while let Some((node, so_far, depth)) = stack.pop() {
        time = time.max(so_far);
        count = count.max(depth);
        visits += 1;
        // A tree visits each hop once; anything else is refused by `verify`.
        if hops.len() + 1 < visits {
            break;
        }
        for &(hop, down) in below.get(&node).into_iter().flatten() {
            stack.push((down, so_far + u128::from(topology.hop_latency(hop).femtoseconds()), depth + 1));
        }
    }
    (time, count)
}

/// Elements of `count` slots from `place` on.
fn range(layout: &Layout, position: u32, place: Place, count: u32) -> u64 {
    let one_by_one = || (0..count).map(|i| layout.elements(position, place.offset(i))).sum();
    if count <= 4 {
        return one_by_one();
    }
    let collective = layout.collective();
    let (n, k, total) = (u64::from(collective.ranks()), u64::from(layout.chunks()), collective.elements());
    // Slots of the buffer, slots over which the elements spread, and the first of the buffer among those.
    let (slots, parts, shift) = match (collective.kind(), place.buffer()) {
        (
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Reduce { .. }
            | CollectiveKind::SendReceive { .. },
            _,
        ) => (k, k, 0),
        (CollectiveKind::AllGather | CollectiveKind::Gather { .. }, Buffer::Input)
        | (CollectiveKind::ReduceScatter | CollectiveKind::Scatter { .. }, Buffer::Output) => {
            (k, n * k, u64::from(position) * k)
        }
        (
            CollectiveKind::AllGather
            | CollectiveKind::Gather { .. }
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Scatter { .. },
            _,
        ) => (n * k, n * k, 0),
        (CollectiveKind::AllToAll { .. } | CollectiveKind::Custom(_), _) => return one_by_one(),
    };
    let before = |slot: u64| {
        let index = slot.min(slots) + shift;
        index * (total / parts) + index.min(total % parts)
    };
    let first = u64::from(place.slot());
    before(first + u64::from(count)) - before(first)
}
