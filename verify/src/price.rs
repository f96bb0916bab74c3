//! The price of a schedule, computed anew from the definition in [`rondo_ir::cost`].
//!
//! Loads are whole bytes; a step's time is an exact rational. Nothing here is shared with the evaluator that chooses.

use std::collections::BTreeSet;

use num_rational::BigRational;
use rayon::prelude::*;
use rondo_ir::collective::{Buffer, CollectiveKind, Place};
use rondo_ir::index::{DeviceId, FlowId, GroupId, PortId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, FlowSet, PathKind, Route, Schedule, Tree};
use rondo_ir::topology::{Circuit, Configuration, Hop, Resource, Topology};
use rondo_ir::units::{Delay, Rate, Time};

use crate::paths::{hop_exists, route_facts, tree_facts, weights_fault};
use crate::places::{Places, PlacesError};
use crate::schedule::{Options, orbits_fit};

/// What one step costs: the terms of the definition, which add up to [`StepPrice::total`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPrice {
    /// Start-up: once, if a flow of the step has a path.
    pub startup: Time,
    /// The longest latency of a path.
    pub latency: Time,
    /// The time of the busiest resource.
    pub bandwidth: Time,
    /// The time of the rank that reduces most.
    pub reduce: Time,
    /// The time of the rank that copies most within itself.
    pub copy: Time,
    /// What the reconfiguration before the step adds, synchronisation included.
    pub reconfiguration: Time,
    /// The resource that takes longest, and the bytes that pass there; the first one in resource order. `None` if no byte
    /// moves.
    pub busiest: Option<(Resource, u128)>,
    /// The most bytes that a rank reduces.
    pub reduced_bytes: u128,
    /// The most bytes that a rank copies within itself.
    pub copied_bytes: u128,
}

impl StepPrice {
    /// The time of the step.
    #[must_use]
    pub fn total(&self) -> Time {
        let Self { startup, latency, bandwidth, reduce, copy, reconfiguration, .. } = self;
        [startup, latency, bandwidth, reduce, copy, reconfiguration].into_iter().cloned().sum()
    }
}

/// What a schedule costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The sum over the steps.
    pub total: Time,
    /// Each step; with explicit dependencies, each level.
    pub steps: Vec<StepPrice>,
}

/// Why a schedule has no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// The schedule's tables do not fit the problem.
    #[error("{reason}")]
    Tables {
        /// What does not fit.
        reason: String,
    },
    /// A flow that is not well formed.
    #[error("{flow} has no price: {reason}")]
    Flow {
        /// The flow.
        flow: FlowId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Orbits that stand for more flows than are walked.
    #[error("the orbits of the schedule stand for more than {limit} flows")]
    Orbits {
        /// The most flows that are walked.
        limit: usize,
    },
    /// A device that does not exist, or configurations that do not fit the devices.
    #[error("step s{step} sets device {device}, which does not exist")]
    Device {
        /// The step.
        step: usize,
        /// The device.
        device: rondo_ir::index::DeviceId,
    },
    /// A dependency that does not lead from an earlier to a later flow.
    #[error("the dependency {before} before {after} does not lead from an earlier to a later flow that exists")]
    Dependency {
        /// The first flow.
        before: FlowId,
        /// The second flow.
        after: FlowId,
    },
    /// Circuits that change in a schedule without steps.
    #[error("step s{step} changes circuits, but with explicit dependencies there are no steps to wait for it")]
    NoSteps {
        /// The step.
        step: usize,
    },
}

/// The exact price of a schedule.
///
/// # Errors
/// The schedule need not be verified; what makes its price meaningless is a [`PriceError`].
///
/// # Complexity
/// Linear in flows times hops; steps are priced in parallel.
///
/// # Source
/// The definition in [`rondo_ir::cost`].
pub fn price(problem: &Problem, schedule: &Schedule) -> Result<Price, PriceError> {
    let places = Places::new(problem, schedule, u64::MAX).map_err(|error| PriceError::Tables {
        reason: match error {
            PlacesError::Shape(reason) => reason,
            PlacesError::TooMany { given, limit } => format!("{given} places, but at most {limit} can be numbered"),
        },
    })?;
    orbits_fit(schedule, &Options::default()).map_err(|limit| PriceError::Orbits { limit })?;
    let cx = Cx {
        problem,
        schedule,
        places: &places,
        routes: schedule.paths.routes().map(|route| RouteUse::new(problem, route)).collect(),
        multicasts: schedule.paths.trees().map(|tree| TreeUse::new(problem, tree, false)).collect(),
        aggregates: schedule.paths.trees().map(|tree| TreeUse::new(problem, tree, true)).collect(),
        groups: (0..problem.groups().len()).map(|g| Sizes::new(&places, GroupId::new(g))).collect(),
    };
    let reconfigurations = cx.reconfigurations()?;
    let steps: Vec<StepPrice> = if schedule.dependencies.is_some() {
        if let Some(step) = reconfigurations.iter().position(|r| !r.is_zero()) {
            return Err(PriceError::NoSteps { step });
        }
        cx.levels()?
            .par_iter()
            .map_init(|| Loads::new(&cx), |loads, flows| cx.level(loads, flows))
            .collect::<Result<_, _>>()?
    } else {
        let counts = schedule.steps.iter().enumerate().map(|(step, s)| match &s.flows {
            FlowSet::Rows(rows) => rows.len(),
            FlowSet::Orbits { .. } => schedule.flows(rondo_ir::index::StepId::new(step)).count(),
        });
        let firsts: Vec<usize> = counts
            .scan(0, |first, count| {
                let own = *first;
                *first += count;
                Some(own)
            })
            .collect();
        (0..schedule.steps.len())
            .into_par_iter()
            .map_init(
                || Loads::new(&cx),
                |loads, step| {
                    let flows = schedule.flows(rondo_ir::index::StepId::new(step));
                    for (index, flow) in flows.enumerate() {
                        cx.add(loads, FlowId::new(firsts[step] + index), &flow)?;
                    }
                    Ok(cx.finish(loads, reconfigurations[step].clone()))
                },
            )
            .collect::<Result<_, _>>()?
    };
    let mut steps = steps;
    if problem.cost().overlap_reconfiguration && schedule.dependencies.is_none() {
        cx.overlap(&mut steps);
    }
    Ok(Price { total: steps.iter().map(StepPrice::total).sum(), steps })
}

/// What a route loads, looked up once.
struct RouteUse {
    /// Resources of each part.
    parts: Vec<Vec<u32>>,
    /// In femtoseconds.
    latency: u128,
    weights: Option<Route>,
}

impl RouteUse {
    /// `None` if the route is broken.
    fn new(problem: &Problem, route: &Route) -> Option<Self> {
        let topology = problem.topology();
        let known = route.parts.iter().flat_map(|part| &part.hops).all(|&hop| hop_exists(topology, hop));
        if !known || weights_fault(route).is_some() || route_facts(problem, route).root.is_none() {
            return None;
        }
        let parts = route.parts.iter().map(|part| {
            let mut used = Vec::new();
            topology.path_resources(&part.hops, |resource| used.push(resource as u32));
            used
        });
        let latency = route.parts.iter().map(|part| path_latency(topology, &part.hops)).max()?;
        Some(Self { parts: parts.collect(), latency, weights: (1 < route.parts.len()).then(|| route.clone()) })
    }
}

/// In femtoseconds, so that no sum overflows.
fn path_latency(topology: &Topology, hops: &[Hop]) -> u128 {
    hops.iter().map(|&hop| u128::from(topology.hop_latency(hop).femtoseconds())).sum()
}

/// What a tree loads, looked up once.
struct TreeUse {
    resources: Vec<u32>,
    /// In femtoseconds, of the leaf that is farthest.
    latency: u128,
    leaves: Vec<RankId>,
}

impl TreeUse {
    /// `None` if the tree is broken in that direction.
    fn new(problem: &Problem, tree: &Tree, aggregate: bool) -> Option<Self> {
        let topology = problem.topology();
        let root = tree_facts(problem, tree, aggregate).root?;
        let mut resources = Vec::new();
        for &hop in &tree.hops {
            topology.hop_resources(hop, |resource| resources.push(resource as u32));
        }
        let mut end = |resource| resources.extend(topology.resource_index(resource).map(|index| index as u32));
        let leaves = tree.leaves.iter().map(|&leaf| problem.node_of(leaf));
        if aggregate {
            leaves.for_each(|leaf| end(Resource::Injection(leaf)));
            end(Resource::Ejection(root));
        } else {
            end(Resource::Injection(root));
            leaves.for_each(|leaf| end(Resource::Ejection(leaf)));
        }
        // (upper, lower, latency); a tree that is one has no cycle, so the walk ends.
        let edges: Vec<_> = tree
            .hops
            .iter()
            .map(|&hop| {
                let (src, dst) = topology.ends(hop);
                let (upper, lower) = if aggregate { (dst, src) } else { (src, dst) };
                (upper, lower, u128::from(topology.hop_latency(hop).femtoseconds()))
            })
            .collect();
        let mut sorted = edges;
        sorted.sort_unstable();
        let mut longest = 0;
        let mut stack = vec![(root, 0)];
        while let Some((node, so_far)) = stack.pop() {
            longest = longest.max(so_far);
            let from = sorted.partition_point(|edge| edge.0 < node);
            stack.extend(sorted[from..].iter().take_while(|e| e.0 == node).map(|e| (e.1, so_far + e.2)));
        }
        Some(Self { resources, latency: longest, leaves: tree.leaves.clone() })
    }
}

/// Elements of ranges of slots of one group.
struct Sizes {
    dtype: u64,
    uniform: Option<u64>,
    /// Where a buffer's slots follow one rule (first slots one more): elements and slots of the whole.
    spread: [Option<(u64, u64)>; 2],
}

impl Sizes {
    fn new(places: &Places<'_>, group: GroupId) -> Self {
        let layout = places.layout(group);
        let collective = layout.collective();
        let (n, k, e) = (u64::from(collective.ranks()), u64::from(layout.chunks()), collective.elements());
        let spread = match collective.kind() {
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Reduce { .. }
            | CollectiveKind::SendReceive { .. } => [Some((e, k)), Some((e, k))],
            CollectiveKind::AllGather | CollectiveKind::Gather { .. } => [None, Some((e, n * k))],
            CollectiveKind::ReduceScatter | CollectiveKind::Scatter { .. } => [Some((e, n * k)), None],
            CollectiveKind::AllToAll { .. } | CollectiveKind::Custom(_) => [None, None],
        };
        Self { dtype: collective.dtype().bytes(), uniform: places.uniform(group), spread }
    }
}

struct Loads {
    resources: Vec<u128>,
    reduced: Vec<u128>,
    copied: Vec<u128>,
    latency: u128,
    travels: bool,
}

impl Loads {
    fn new(cx: &Cx<'_>) -> Self {
        let ranks = cx.problem.rank_count();
        Self {
            resources: vec![0; cx.problem.topology().resources().len()],
            reduced: vec![0; ranks],
            copied: vec![0; ranks],
            latency: 0,
            travels: false,
        }
    }
}

struct Cx<'a> {
    problem: &'a Problem,
    schedule: &'a Schedule,
    places: &'a Places<'a>,
    routes: Vec<Option<RouteUse>>,
    multicasts: Vec<Option<TreeUse>>,
    aggregates: Vec<Option<TreeUse>>,
    groups: Vec<Sizes>,
}

impl Cx<'_> {
    /// The price of the changes before each step.
    fn reconfigurations(&self) -> Result<Vec<Time>, PriceError> {
        let devices = self.problem.topology().devices();
        let mut current: Vec<&Configuration> = self.problem.circuits().iter().collect();
        let mut prices = Vec::with_capacity(self.schedule.steps.len());
        for (index, step) in self.schedule.steps.iter().enumerate() {
            let mut slowest: Option<Delay> = None;
            for (device, configuration) in &step.reconfigure {
                let (Some(facts), Some(now)) = (devices.get(device.index()), current.get_mut(device.index())) else {
                    return Err(PriceError::Device { step: index, device: *device });
                };
                if *now != configuration {
                    slowest = slowest.max(Some(facts.reconfiguration_delay));
                    *now = configuration;
                }
            }
            let synchronisation = self.problem.cost().synchronisation.time();
            prices.push(slowest.map_or_else(Time::zero, |delay| delay.time() + synchronisation));
        }
        Ok(prices)
    }

    /// Takes off what changes overlap: a device whose moving circuits touch no port that the step before uses began with
    /// that step.
    fn overlap(&self, steps: &mut [StepPrice]) {
        let devices = self.problem.topology().devices();
        let synchronisation = self.problem.cost().synchronisation.time();
        let mut current: Vec<Configuration> = self.problem.circuits().to_vec();
        for (index, step) in self.schedule.steps.iter().enumerate() {
            let mut charged = Time::zero();
            for (device, configuration) in &step.reconfigure {
                let now = std::mem::replace(&mut current[device.index()], configuration.clone());
                if now == *configuration {
                    continue;
                }
                let mut charge = devices[device.index()].reconfiguration_delay.time() + synchronisation.clone();
                if 0 < index && !self.touches(index - 1, *device, &now, configuration) {
                    let mut run = steps[index - 1].clone();
                    run.reconfiguration = Time::zero();
                    let run = run.total();
                    charge = if charge <= run { Time::zero() } else { charge - run };
                }
                charged = charged.max(charge);
            }
            steps[index].reconfiguration = charged;
        }
    }

    /// Whether a flow of the step uses a port of the device at which a circuit goes or comes.
    fn touches(&self, step: usize, device: DeviceId, now: &Configuration, then: &Configuration) -> bool {
        let moves = |circuit: &Circuit| now.contains(*circuit) != then.contains(*circuit);
        let all = now.circuits().iter().chain(then.circuits()).filter(|circuit| moves(circuit));
        let ports: BTreeSet<PortId> = all.flat_map(|circuit| [circuit.from, circuit.to]).collect();
        let hits = |hop: &Hop| match *hop {
            Hop::Circuit(on, Circuit { from, to }) => on == device && (ports.contains(&from) || ports.contains(&to)),
            Hop::Link(_) => false,
        };
        self.schedule.flows(rondo_ir::index::StepId::new(step)).any(|flow| match flow.path.kind() {
            PathKind::Local => false,
            PathKind::Route(route) => {
                let route = self.schedule.paths.get(route);
                route.is_some_and(|route| route.parts.iter().any(|part| part.hops.iter().any(hits)))
            }
            PathKind::Multicast(tree) | PathKind::Aggregate(tree) => {
                self.schedule.paths.get_tree(tree).is_some_and(|tree| tree.hops.iter().any(hits))
            }
        })
    }

    /// The flows of each level: level(f) = 1 + the largest level of what f waits for.
    fn levels(&self) -> Result<Vec<Vec<(FlowId, Flow)>>, PriceError> {
        let flows: Vec<Flow> = self.schedule.all_flows().map(|(_, flow)| flow).collect();
        let mut level = vec![0_usize; flows.len()];
        let mut pairs: Vec<(FlowId, FlowId)> =
            self.schedule.dependencies.iter().flat_map(|d| d.pairs.clone()).collect();
        // By the later flow, so that a flow's level is known before it is used.
        pairs.sort_unstable_by_key(|&(before, after)| (after, before));
        for (before, after) in pairs {
            if after <= before || flows.len() <= after.index() {
                return Err(PriceError::Dependency { before, after });
            }
            level[after.index()] = level[after.index()].max(level[before.index()] + 1);
        }
        let mut levels = vec![Vec::new(); level.iter().max().map_or(0, |&most| most + 1)];
        for (index, flow) in flows.into_iter().enumerate() {
            levels[level[index]].push((FlowId::new(index), flow));
        }
        Ok(levels)
    }

    fn level(&self, loads: &mut Loads, flows: &[(FlowId, Flow)]) -> Result<StepPrice, PriceError> {
        for (id, flow) in flows {
            self.add(loads, *id, flow)?;
        }
        Ok(self.finish(loads, Time::zero()))
    }

    /// Elements of the flow, which are those of its source slots.
    fn elements(&self, flow: &Flow, position: u32) -> u64 {
        let sizes = &self.groups[flow.group.index()];
        let buffer = flow.src_place.buffer();
        if buffer != Buffer::Scratch {
            if let Some(each) = sizes.uniform {
                return each.saturating_mul(u64::from(flow.count));
            }
            if let Some((elements, slots)) = sizes.spread[buffer as usize] {
                let below = |slot: u64| slot * (elements / slots) + slot.min(elements % slots);
                let first = u64::from(flow.src_place.slot());
                return below(first + u64::from(flow.count)) - below(first);
            }
        }
        let at = |i: u32| Place::new(buffer, flow.src_place.slot() + i);
        (0..flow.count)
            .map(|i| self.places.elements(self.schedule, flow.group, position, at(i)))
            .fold(0, u64::saturating_add)
    }

    /// Adds a flow to the loads of its step.
    fn add(&self, loads: &mut Loads, id: FlowId, flow: &Flow) -> Result<(), PriceError> {
        let fault = |reason| PriceError::Flow { flow: id, reason };
        let src =
            self.places.find(flow.group, flow.src).ok_or_else(|| fault("its source is no member of its group"))?;
        if self.places.find(flow.group, flow.dst).is_none() {
            return Err(fault("its destination is no member of its group"));
        }
        if !src.holds(flow.src_place, flow.count) {
            return Err(fault("its source slots do not exist"));
        }
        let elements = self.elements(flow, src.position);
        let dtype = self.groups[flow.group.index()].dtype;
        let bytes = |elements: u64| u128::from(elements) * u128::from(dtype);
        let all = bytes(elements);
        let reduces = flow.op == FlowOp::Reduce;
        match flow.path.kind() {
            PathKind::Local => {
                if flow.src != flow.dst {
                    return Err(fault("it has no path"));
                }
                let of = if reduces { &mut loads.reduced } else { &mut loads.copied };
                of[flow.dst.index()] += all;
                return Ok(());
            }
            PathKind::Route(route) => {
                let known = self.routes.get(route.index()).and_then(Option::as_ref);
                let used = known.ok_or_else(|| fault("its route does not exist or is broken"))?;
                match &used.weights {
                    None => {
                        for &resource in used.parts.iter().flatten() {
                            loads.resources[resource as usize] += all;
                        }
                    }
                    Some(route) => {
                        for (part, share) in used.parts.iter().zip(route.cut(elements)) {
                            for &resource in part {
                                loads.resources[resource as usize] += bytes(share);
                            }
                        }
                    }
                }
                loads.latency = loads.latency.max(used.latency);
                if reduces {
                    loads.reduced[flow.dst.index()] += all;
                }
            }
            PathKind::Multicast(tree) | PathKind::Aggregate(tree) => {
                let multicast = matches!(flow.path.kind(), PathKind::Multicast(_));
                let table = if multicast { &self.multicasts } else { &self.aggregates };
                let known = table.get(tree.index()).and_then(Option::as_ref);
                let used = known.ok_or_else(|| fault("its tree does not exist or is broken"))?;
                for &resource in &used.resources {
                    loads.resources[resource as usize] += all;
                }
                loads.latency = loads.latency.max(used.latency);
                if reduces && multicast {
                    for leaf in &used.leaves {
                        loads.reduced[leaf.index()] += all;
                    }
                } else if reduces {
                    loads.reduced[flow.dst.index()] += all;
                }
            }
        }
        loads.travels = true;
        Ok(())
    }

    /// The price of the step that was added up; empties the loads.
    fn finish(&self, loads: &mut Loads, reconfiguration: Time) -> StepPrice {
        let topology = self.problem.topology();
        let cost = self.problem.cost();
        let mut busiest: Option<(Resource, u128, Rate)> = None;
        for (&resource, load) in topology.resources().iter().zip(&mut loads.resources) {
            let bytes = std::mem::take(load);
            if bytes == 0 {
                continue;
            }
            let rate = topology.rate(resource);
            if busiest.is_none_or(|(_, most, of)| slower((bytes, rate), (most, of))) {
                busiest = Some((resource, bytes, rate));
            }
        }
        let drain = |list: &mut Vec<u128>| {
            let most = list.iter().copied().max().unwrap_or(0);
            list.fill(0);
            most
        };
        let reduced_bytes = drain(&mut loads.reduced);
        let copied_bytes = drain(&mut loads.copied);
        let travels = std::mem::take(&mut loads.travels);
        let latency = std::mem::take(&mut loads.latency);
        StepPrice {
            startup: if travels { cost.startup.time() } else { Time::zero() },
            latency: Time::from_femtoseconds(latency),
            bandwidth: busiest.map_or_else(Time::zero, |(_, bytes, rate)| rate.time_for(bytes)),
            reduce: cost.reduce_cost.time_for(reduced_bytes),
            copy: cost.copy_cost.time_for(copied_bytes),
            reconfiguration,
            busiest: busiest.map(|(resource, bytes, _)| (resource, bytes)),
            reduced_bytes,
            copied_bytes,
        }
    }
}

/// Whether the first load takes longer than the second.
fn slower(a: (u128, Rate), b: (u128, Rate)) -> bool {
    let product = |bytes: u128, rate: Rate| bytes.checked_mul(u128::from(rate.bytes_per_second()));
    match (product(a.0, b.1), product(b.0, a.1)) {
        (Some(x), Some(y)) => y < x,
        _ => {
            let time = |(bytes, rate): (u128, Rate)| -> BigRational { rate.time_for(bytes).seconds().clone() };
            time(b) < time(a)
        }
    }
}
