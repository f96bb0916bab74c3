//! Reconfiguration: which circuits are up in which step.
//!
//! A schedule's steps and transfers stay; before each step the devices may be set anew, and its flows take shortest paths over
//! the links and circuits of then. What a step costs under a configuration is the exact price of [`rondo_ir::cost`].
//!
//! # Classes
//! Every rule looks for the cheapest plan of its class, by dynamic programming over steps and configurations:
//!
//! - [`Rule::Threshold`]: in a reduce_scatter the steps before T run on the circuits that are up at the start (or as cheaply on
//!   others), those from T on over circuits between exactly the endpoints that meet in them; an all_gather the other way
//!   round, with T' = L − T; an all_reduce does both. Changes are charged by what the devices hold.
//! - [`Rule::Best`]: the cheapest threshold in 1 … L; [`Rule::Paper`]: the smallest T in 0 … L−1 whose reduce_scatter, every
//!   step from T on charged with a change, is no dearer than Ring (Eq. 6 of the Shortcut paper, as printed).
//! - [`Rule::PerStep`]: each step on the initial circuits or on its own.
//! - [`Rule::Optimal`]: each step on any of: the initial circuits; any step's own circuits, laid over the initial ones; where
//!   ports are left, the circuits of two steps that follow each other, in either order of ports; rings of stride 4, 8, … n/2
//!   along a dimension; the positions of a rotor; where changes may overlap steps, from the start on each step's circuits on
//!   ports that the step before leaves idle. A configuration may be kept for any number of steps.
//!
//! Where changes may overlap the step before ([`rondo_ir::cost`]), every rule counts what is left of them.
//!
//! Collectives without phases of log₂ n steps have no thresholds; there `Best` and `Paper` are `PerStep`.

mod configurations;
mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rayon::prelude::*;
use rondo_ir::collective::CollectiveKind;
use rondo_ir::index::{DeviceId, NodeId, PortId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, Path, PathKind, Paths, Route, Schedule, Step};
use rondo_ir::topology::{Configuration, Hop, Topology};
use rondo_ir::units::Time;
use rustc_hash::FxHashSet;

use crate::cost;
use crate::fabric::{Fabric, Router};
use crate::topology::circuits::{CircuitRouter, free_circuit};

pub use self::configurations::{Class, configurations};
use self::search::{Beside, Costs, Plan};

/// How circuits are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rule {
    /// The circuits stay as they are.
    Off,
    /// This threshold.
    Threshold(u32),
    /// The cheapest threshold.
    Best,
    /// The threshold of Eq. 6 as printed.
    Paper,
    /// Any subset of the steps.
    PerStep,
    /// The cheapest sequence of configurations.
    #[default]
    Optimal,
}

impl Rule {
    /// The rules that a job may name, with what they do.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("optimal", Self::Optimal),
        ("best", Self::Best),
        ("per-step", Self::PerStep),
        ("paper", Self::Paper),
        ("off", Self::Off),
    ];

    /// The name in files; a threshold's is its number.
    #[must_use]
    pub fn name(self) -> String {
        if let Self::Threshold(threshold) = self {
            return threshold.to_string();
        }
        let named = Self::NAMED.iter().find(|(_, rule)| *rule == self);
        named.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

/// What the pass is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CircuitOptions {
    /// How circuits are chosen.
    pub rule: Rule,
    /// Whether the circuits of the start are up again at the end, at the price of a change.
    pub restore: bool,
}

/// Why a schedule cannot be given circuits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CircuitError {
    /// A transfer that no configuration of the class makes possible.
    #[error("{src} cannot reach {dst} in step {step}, whatever circuits are set{hint}")]
    NoWay {
        /// The step, counted over steps with flows between ranks.
        step: usize,
        /// Source node.
        src: String,
        /// Destination node.
        dst: String,
        /// What may help.
        hint: &'static str,
    },
    /// No sequence of configurations serves all steps.
    #[error("no sequence of circuits serves all steps")]
    NoPlan,
    /// A threshold above the number of steps, or steps that do not come in phases.
    #[error("there is no threshold {given}: {reason}")]
    NoThreshold {
        /// Given.
        given: u32,
        /// Why.
        reason: String,
    },
    /// Eq. 6 fails for every threshold: Ring is to be taken.
    #[error("no threshold is as fast as Ring (Eq. 6)")]
    RingWins,
}

/// Routes that are there, or else over circuits that could be set: for building what the pass then completes.
#[derive(Debug)]
struct Reaching {
    inner: Arc<dyn Router>,
    topology: Arc<Topology>,
}

impl Router for Reaching {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        if let Some(route) = self.inner.route(src, dst) {
            return Some(route);
        }
        (0..).zip(self.topology.devices()).find_map(|(index, device)| {
            let circuit = free_circuit(device, (src, dst), |_, _| false)?;
            Some(Route::single(vec![Hop::Circuit(DeviceId::new(index), circuit)]))
        })
    }
}

/// What may help where two endpoints cannot be joined.
pub(crate) fn hint(topology: &Topology) -> &'static str {
    // Endpoints of one parity share a switch, and the others have theirs.
    let apart = |pair: &[rondo_ir::topology::Device]| match pair {
        [a, b] => a.ports.iter().all(|port| b.ports.iter().all(|other| port.node != other.node)),
        _ => false,
    };
    if apart(topology.devices()) {
        "; a switch for each parity cannot hold the ring: design = \"parity-ring\" or \"fixed\" can"
    } else {
        ""
    }
}

/// The fabric with a way between any two nodes that a circuit could join. What is built on it needs [`reconfigure`].
#[must_use]
pub(crate) fn reaching(fabric: &Fabric) -> Fabric {
    let router = Reaching { inner: Arc::clone(&fabric.router), topology: Arc::clone(&fabric.topology) };
    Fabric { router: Arc::new(router), ..fabric.clone() }
}

/// A schedule's steps between ranks, and what meets in them.
pub struct Demands {
    /// Which step of the schedule each is.
    pub steps: Vec<usize>,
    /// Per step: pairs of nodes, sorted.
    pub pairs: Vec<Vec<(NodeId, NodeId)>>,
}

impl Demands {
    /// Looks at the schedule.
    #[must_use]
    pub fn of(problem: &Problem, schedule: &Schedule) -> Self {
        let (mut steps, mut all) = (Vec::new(), Vec::new());
        for step in 0..schedule.steps.len() {
            let ends = |flow: Flow| (problem.node_of(flow.src), problem.node_of(flow.dst));
            let mut pairs: Vec<_> =
                schedule.flows(StepId::new(step)).filter(|flow| !flow.path.is_local()).map(ends).collect();
            pairs.sort_unstable();
            pairs.dedup();
            if !pairs.is_empty() {
                steps.push(step);
                all.push(pairs);
            }
        }
        Self { steps, pairs: all }
    }
}

/// Hops of all routes of one step above which a configuration is not considered for it.
const MOST_HOPS: u64 = 1 << 22;

/// The flows of a step, routed under a configuration; `None` where something cannot be reached, or only by very many hops.
fn routed(
    problem: &Problem,
    schedule: &Schedule,
    step: usize,
    pairs: &[(NodeId, NodeId)],
    router: &CircuitRouter,
    paths: &mut Paths,
) -> Option<Vec<Flow>> {
    let mut hops = 0_u64;
    for &(src, dst) in pairs {
        hops += u64::from(router.hops(src, dst)?);
        if MOST_HOPS < hops {
            return None;
        }
    }
    let ways: Option<Vec<Path>> =
        pairs.iter().map(|&(src, dst)| Some(Path::route(paths.intern(router.route(src, dst)?)))).collect();
    let ways = ways?;
    let flows = schedule.flows(StepId::new(step)).map(|flow| {
        if flow.path.is_local() {
            return Some(flow);
        }
        let ends = (problem.node_of(flow.src), problem.node_of(flow.dst));
        Some(Flow { path: ways[pairs.binary_search(&ends).ok()?], ..flow })
    });
    flows.collect()
}

/// The router over a configuration of all devices.
fn router(fabric: &Fabric, class: &[Configuration]) -> CircuitRouter {
    let orientation = fabric.orientation.clone();
    let orientation =
        orientation.unwrap_or_else(|| Arc::new(crate::topology::circuits::Orientation::natural(&fabric.topology)));
    CircuitRouter::new(Arc::clone(&fabric.topology), class, orientation)
}

/// What each step costs under each configuration of the class, changes apart; `None` where it is not possible. The ports
/// that it uses then are noted where changes may overlap steps.
fn prices(problem: &Problem, fabric: &Fabric, schedule: &Schedule, demands: &Demands, class: &Class) -> Costs {
    let overlaps = problem.cost().overlap_reconfiguration;
    let columns: Vec<Vec<Option<Cell>>> = class
        .configurations
        .par_iter()
        .map(|configuration| {
            let router = router(fabric, configuration);
            let mut trial = Schedule { paths: Paths::default(), steps: Vec::new(), ..schedule.clone() };
            let mut at = Vec::with_capacity(demands.steps.len());
            for (&step, pairs) in demands.steps.iter().zip(&demands.pairs) {
                let flows = routed(problem, schedule, step, pairs, &router, &mut trial.paths);
                at.push(flows.map(|flows| {
                    trial.steps.push(Step::new(flows));
                    trial.steps.len() - 1
                }));
            }
            let cost = cost::evaluate(problem, &trial);
            let cell = |at: usize| {
                let flows = trial.flows(StepId::new(at)).filter(|_| overlaps);
                (cost.steps[at].run(), cost::ports_of(&trial.paths, flows.map(|flow| flow.path)))
            };
            at.into_iter().map(|at| at.map(cell)).collect()
        })
        .collect();
    let rows = 0..demands.steps.len();
    let each = |step: usize| columns.iter().map(move |column| column[step].as_ref());
    Costs {
        by_step: rows.clone().map(|step| each(step).map(|cell| cell.map(|cell| cell.0.clone())).collect()).collect(),
        used: rows
            .filter(|_| overlaps)
            .map(|step| each(step).map(|cell| cell.map(|cell| cell.1.clone()).unwrap_or_default()).collect())
            .collect(),
        beside: if overlaps { beside(problem, schedule, demands) } else { Vec::new() },
    }
}

/// A step's time, and the ports that its flows use.
type Cell = (Time, FxHashSet<(DeviceId, PortId)>);

/// What runs directly before each step of the demands, and at the end, if that is local work.
fn beside(problem: &Problem, schedule: &Schedule, demands: &Demands) -> Vec<Beside> {
    let cost = cost::evaluate(problem, schedule);
    let ends = demands.steps.iter().copied().chain([schedule.steps.len()]);
    let before = |step: usize| match step.checked_sub(1) {
        None => Beside::Nothing,
        Some(before) if demands.steps.binary_search(&before).is_ok() => Beside::Step,
        Some(before) => Beside::Local(cost.steps[before].run()),
    };
    ends.map(before).collect()
}

/// Gives the schedule circuits by a rule; the result is as the class of the rule allows, and no dearer than any other of it.
///
/// `ring` is the time of the one-way Ring for the same collective, for [`Rule::Paper`].
///
/// # Errors
/// [`CircuitError`].
///
/// # Complexity
/// With S steps, C configurations (C ≤ 4S + log₂ n) and n transfers a step: S·C routings of n transfers, in parallel, and
/// S·C² comparisons.
pub fn reconfigure(
    problem: &Problem,
    fabric: &Fabric,
    schedule: Schedule,
    options: CircuitOptions,
    ring: Option<&Time>,
) -> Result<Schedule, CircuitError> {
    if options.rule == Rule::Off || fabric.topology.devices().is_empty() || schedule.dependencies.is_some() {
        return Ok(schedule);
    }
    let travels_alone = |flow: Flow| matches!(flow.path.kind(), PathKind::Local | PathKind::Route(_));
    if !schedule.all_flows().all(|(_, flow)| travels_alone(flow)) {
        return Ok(schedule);
    }
    let demands = Demands::of(problem, &schedule);
    let class = configurations(problem, fabric, &demands, options.rule == Rule::Optimal);
    let costs = prices(problem, fabric, &schedule, &demands, &class);
    if let Some(step) = costs.by_step.iter().position(|row| row.iter().all(Option::is_none)) {
        let routers: Vec<_> = class.configurations.iter().map(|set| router(fabric, set)).collect();
        let reached = |&&(src, dst): &&(NodeId, NodeId)| routers.iter().any(|router| router.hops(src, dst).is_some());
        let &(src, dst) = demands.pairs[step]
            .iter()
            .find(|pair| !reached(pair))
            .or(demands.pairs[step].first())
            .ok_or(CircuitError::NoPlan)?;
        let name = |node: NodeId| fabric.topology.node(node).name.clone();
        let hint = hint(&fabric.topology);
        return Err(CircuitError::NoWay { step, src: name(src), dst: name(dst), hint });
    }
    let search = search::Search::new(problem, &class, &costs, options.restore);
    let phases = Phases::of(problem, demands.steps.len());
    let threshold = |t: u32| phases.and_then(|phases| search.best(&phases.allowed(t, &class, &costs)?));
    let plan = match (options.rule, phases) {
        (Rule::Optimal, _) => search.best(&search.anything()),
        (Rule::PerStep, _) | (Rule::Best | Rule::Paper, None) => search.best(&search::per_step(&class, &costs)),
        (Rule::Best, Some(phases)) => {
            // Ties go to the smaller threshold.
            let plans = (1..=phases.length).filter_map(threshold);
            plans.fold(None, |best: Option<Plan>, plan| match best {
                Some(best) if best.time <= plan.time => Some(best),
                _ => Some(plan),
            })
        }
        (Rule::Paper, Some(phases)) => {
            let ring = ring.ok_or(CircuitError::NoPlan)?;
            let phase_of_ring = if phases.twice {
                Time::from_seconds(ring.seconds() / num_bigint::BigInt::from(2))
            } else {
                ring.clone()
            };
            let change = search.full_change();
            let literal = (0..phases.length)
                .find(|&t| phases.printed(t, &class, &costs, &change).is_some_and(|time| time <= phase_of_ring));
            threshold(literal.ok_or(CircuitError::RingWins)?)
        }
        (Rule::Threshold(given), Some(phases)) => {
            if phases.length < given {
                let reason = format!("a phase has {} steps", phases.length);
                return Err(CircuitError::NoThreshold { given, reason });
            }
            threshold(given)
        }
        (Rule::Threshold(given), None) => {
            let reason = "it belongs to phases of log2 n steps of reduce_scatter, all_gather and all_reduce".to_owned();
            return Err(CircuitError::NoThreshold { given, reason });
        }
        (Rule::Off, _) => None,
    };
    let plan = plan.ok_or(CircuitError::NoPlan)?;
    Ok(finish(problem, fabric, schedule, &demands, &class, &plan, options.restore))
}

/// The phases of a reduce_scatter, all_gather or all_reduce.
#[derive(Clone, Copy)]
struct Phases {
    /// Steps of one phase.
    length: u32,
    /// Whether an all_gather follows.
    twice: bool,
    /// Whether it is an all_gather alone.
    gather: bool,
}

impl Phases {
    /// Phases of log₂ n steps, if that is what the schedule has.
    fn of(problem: &Problem, steps: usize) -> Option<Self> {
        let collective = problem.groups().first()?.collective();
        let length = collective.ranks().is_power_of_two().then(|| collective.ranks().ilog2()).filter(|&l| l != 0)?;
        let (twice, gather) = match collective.kind() {
            CollectiveKind::AllReduce => (true, false),
            CollectiveKind::ReduceScatter => (false, false),
            CollectiveKind::AllGather => (false, true),
            _ => return None,
        };
        (steps == length as usize * if twice { 2 } else { 1 }).then_some(Self { length, twice, gather })
    }

    /// Whether a step runs on circuits of its own at a threshold.
    fn direct(self, step: usize, threshold: u32) -> bool {
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        if self.gather {
            step < self.length - threshold
        } else if step < self.length {
            threshold <= step
        } else {
            step - self.length < self.length - threshold
        }
    }

    /// The configurations that a threshold allows each step.
    fn allowed(self, threshold: u32, class: &Class, costs: &Costs) -> Option<Vec<Vec<usize>>> {
        (0..costs.by_step.len())
            .map(
                |step| {
                    if self.direct(step, threshold) {
                        Some(vec![class.own[step]?])
                    } else {
                        Some(costs.as_initial(step))
                    }
                },
            )
            .collect()
    }

    /// The first phase with every direct step charged, as Eq. 6 prints it.
    fn printed(self, threshold: u32, class: &Class, costs: &Costs, change: &Time) -> Option<Time> {
        (0..self.length as usize)
            .map(|step| {
                if self.direct(step, threshold) {
                    Some(costs.by_step[step][class.own[step]?].clone()? + change.clone())
                } else {
                    costs.by_step[step][0].clone()
                }
            })
            .sum()
    }
}

/// The schedule with the plan's changes and routes.
fn finish(
    problem: &Problem,
    fabric: &Fabric,
    schedule: Schedule,
    demands: &Demands,
    class: &Class,
    plan: &Plan,
    restore: bool,
) -> Schedule {
    let mut out =
        Schedule { paths: Paths::default(), steps: Vec::with_capacity(schedule.steps.len()), ..schedule.clone() };
    let routers: Vec<Option<CircuitRouter>> = (0..class.configurations.len())
        .map(|at| plan.configurations.contains(&at).then(|| router(fabric, &class.configurations[at])))
        .collect();
    let mut held = 0;
    let mut next = 0;
    let advance = |from: &mut usize, to: usize, steps: &mut Vec<Step>| {
        let mut rounds = search::rounds(problem.topology(), &class.configurations[*from], &class.configurations[to])
            .unwrap_or_default();
        *from = to;
        let last = rounds.pop().unwrap_or_default();
        steps.extend(rounds.into_iter().map(|reconfigure| Step { reconfigure, ..Step::default() }));
        last
    };
    for (index, step) in schedule.steps.iter().enumerate() {
        if demands.steps.get(next) != Some(&index) {
            out.steps.push(step.clone());
            continue;
        }
        let configuration = plan.configurations[next];
        let reconfigure = advance(&mut held, configuration, &mut out.steps);
        let flows = routers[configuration]
            .as_ref()
            .and_then(|router| routed(problem, &schedule, index, &demands.pairs[next], router, &mut out.paths));
        out.steps.push(Step { reconfigure, ..Step::new(flows.unwrap_or_default()) });
        next += 1;
    }
    if restore && held != 0 {
        let reconfigure = advance(&mut held, 0, &mut out.steps);
        out.steps.push(Step { reconfigure, ..Step::default() });
    }
    out.leaves_circuits.clone_from(&class.configurations[held]);
    out
}

/// What a schedule does with circuits, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Steps before which circuits change.
    pub changes: usize,
    /// Steps of one phase and its threshold, where there are phases of log₂ n steps: so many of the phase's steps (the first of
    /// a reduce_scatter, the last of an all_gather) run on the circuits of the start.
    pub threshold: Option<(u32, u32)>,
    /// Whether the circuits of the start are up again at the end.
    pub restored: bool,
}

impl Summary {
    /// Looks at the schedule; `None` if the topology has no devices.
    #[must_use]
    pub fn of(problem: &Problem, schedule: &Schedule) -> Option<Self> {
        if problem.topology().devices().is_empty() {
            return None;
        }
        let demands = Demands::of(problem, schedule);
        let mut held = problem.circuits().to_vec();
        let mut as_before = Vec::with_capacity(schedule.steps.len());
        let mut changes = 0;
        for step in &schedule.steps {
            changes += usize::from(!step.reconfigure.is_empty());
            for (device, set) in &step.reconfigure {
                if let Some(held) = held.get_mut(device.index()) {
                    held.clone_from(set);
                }
            }
            as_before.push(held == problem.circuits());
        }
        let threshold = Phases::of(problem, demands.steps.len()).map(|phases| {
            let mut first: Vec<bool> =
                demands.steps[..phases.length as usize].iter().map(|&step| as_before[step]).collect();
            if phases.gather {
                first.reverse();
            }
            let fixed = first.iter().take_while(|&&before| before).count();
            (phases.length, u32::try_from(fixed).unwrap_or(u32::MAX))
        });
        Some(Self { changes, threshold, restored: held == problem.circuits() })
    }
}
