//! Well-formedness of schedules: after it, the other checks may index freely.
//!
//! # Definition
//! A schedule is well formed for a problem if
//!
//! - it has a chunk count and a scratch table for each group; scratch slots name existing places as their size;
//! - every flow names a group, members of it as its ends, and `count` ≥ 1 slots that exist at both ends and agree in elements
//!   one by one (at every leaf of a tree);
//! - a flow between two ranks has a path and local work has none; the path exists, leads over hops that exist, are up and
//!   not repeated, from the node of the source to the node of the destination; nodes in between forward; shares are positive
//!   and add up to 1; trees are trees, end exactly at their leaves and branch where the node can copy or add;
//! - every generator is a symmetry ([`crate::symmetry`]) and can be applied to every flow that it acts on;
//! - dependencies name existing flows, the earlier one first, sorted, none twice.
//!
//! The check `circuits` adds: devices are set to legal configurations, each at most once a step; every circuit that a flow
//! uses is up in its step; what the schedule says it leaves behind is what it leaves behind.

use std::sync::Arc;

use rayon::prelude::*;
use rondo_ir::collective::Place;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{FlowId, RankId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowSet, PathKind, Schedule};
use rondo_ir::text;
use rondo_ir::topology::{Configuration, Hop};
use rustc_hash::FxHashSet;

use crate::codes::Code;
use crate::findings::Findings;
use crate::paths::{Fault, PathFacts, hop_exists, route_facts, track_circuits, tree_facts};
use crate::places::{Places, PositionPlaces};
use crate::symmetry;

/// What the two checks found.
pub(crate) struct Form {
    /// Faults of `well-formed`.
    pub form: Findings,
    /// Faults of `circuits`; complete only if the form is good.
    pub circuits: Findings,
    /// Flows looked at.
    pub flows: usize,
}

/// Checks everything that can be seen without running the schedule.
pub(crate) fn check(problem: &Problem, schedule: &Schedule, places: &Places<'_>, limit: usize) -> Form {
    let mut form = Findings::new(limit);
    let mut circuits = Findings::new(limit);
    scratch(problem, schedule, places, &mut form);
    let (up, faults) = track_circuits(problem, schedule);
    for (code, message) in faults {
        circuits.add(Diagnostic::error(code.as_str(), message));
    }
    let routes: Vec<PathFacts> = schedule.paths.routes().map(|route| route_facts(problem, route)).collect();
    let multicasts: Vec<PathFacts> = schedule.paths.trees().map(|tree| tree_facts(problem, tree, false)).collect();
    let aggregates: Vec<PathFacts> = schedule.paths.trees().map(|tree| tree_facts(problem, tree, true)).collect();
    unused_paths(problem, schedule, &mut form);
    symmetry::check(problem, schedule, places, &routes, &mut form);
    let cx = Cx {
        problem,
        schedule,
        places,
        routes,
        multicasts,
        aggregates,
        up,
        uniform: (0..problem.groups().len())
            .map(|g| places.uniform(rondo_ir::index::GroupId::new(g)).is_some())
            .collect(),
        limit,
    };
    let steps: Vec<StepFaults> =
        (0..schedule.steps.len()).into_par_iter().map(|step| cx.step(StepId::new(step))).collect();
    let mut first = 0;
    let mut seen = FxHashSet::default();
    for (step, found) in steps.into_iter().enumerate() {
        let step = StepId::new(step);
        for (position, flow, about) in found.faults {
            let id = FlowId::new(first + position);
            if about.path.is_some_and(|path| !seen.insert((about.fault.0, path))) {
                continue;
            }
            let line = text::flow_line(problem, schedule, step, id, &flow);
            let (code, message) = about.fault;
            let diagnostic =
                Diagnostic::error(code.as_str(), format!("{id} {message}")).note(format!("the flow is {line}"));
            let target = if code == Code::CircuitDown { &mut circuits } else { &mut form };
            target.add(diagnostic);
        }
        form.skip(found.more);
        first += found.flows;
    }
    dependencies(schedule, first, &mut form);
    Form { form, circuits, flows: first }
}

fn scratch(problem: &Problem, schedule: &Schedule, places: &Places<'_>, form: &mut Findings) {
    for (group, rank, at) in places.positions() {
        let slots = schedule.scratch[group.index()].like.get(at.position as usize).into_iter().flatten();
        for (slot, &(like, place)) in slots.enumerate() {
            let exists = like < problem.group(group).collective().ranks() && places.layout(group).contains(like, place);
            if !exists {
                form.add(Diagnostic::error(
                    Code::ScratchTable.as_str(),
                    format!("scratch slot {rank}.s[{slot}] of group {group} is as large as {place} of position {like}, which does not exist"),
                ));
            }
        }
    }
}

/// Paths that no flow uses harm nobody, but others index by their hops.
fn unused_paths(problem: &Problem, schedule: &Schedule, form: &mut Findings) {
    let routes = schedule.paths.routes().flat_map(|r| r.parts.iter().flat_map(|p| &p.hops));
    let trees = schedule.paths.trees().flat_map(|t| &t.hops);
    let unknown: FxHashSet<Hop> =
        routes.chain(trees).copied().filter(|&hop| !hop_exists(problem.topology(), hop)).collect();
    let mut unknown: Vec<Hop> = unknown.into_iter().collect();
    unknown.sort_unstable();
    for hop in unknown {
        let what = match hop {
            Hop::Link(link) => format!("link {link}"),
            Hop::Circuit(device, circuit) => format!("circuit {} > {} of device {device}", circuit.from, circuit.to),
        };
        form.add(Diagnostic::error(
            Code::Connection.as_str(),
            format!("the paths of the schedule use {what}, which the topology does not have"),
        ));
    }
}

fn dependencies(schedule: &Schedule, flows: usize, form: &mut Findings) {
    let Some(dependencies) = &schedule.dependencies else { return };
    let mut last = None;
    for &(before, after) in &dependencies.pairs {
        let fault = if flows <= after.index().max(before.index()) {
            Some(format!("names a flow that does not exist; there are {flows}"))
        } else if after <= before {
            Some("does not name the earlier flow first".to_owned())
        } else if last.is_some_and(|last| (before, after) <= last) {
            Some("is out of order or listed twice".to_owned())
        } else {
            None
        };
        last = Some((before, after));
        if let Some(fault) = fault {
            form.add(Diagnostic::error(
                Code::Dependencies.as_str(),
                format!("the dependency {before} before {after} {fault}"),
            ));
        }
    }
}

/// A fault of one flow; those of a path are reported once for the path.
struct FlowFault {
    fault: Fault,
    path: Option<u64>,
}

struct StepFaults {
    faults: Vec<(usize, Flow, FlowFault)>,
    more: usize,
    flows: usize,
}

struct Cx<'a> {
    problem: &'a Problem,
    schedule: &'a Schedule,
    places: &'a Places<'a>,
    routes: Vec<PathFacts>,
    multicasts: Vec<PathFacts>,
    aggregates: Vec<PathFacts>,
    up: Vec<Arc<Vec<Configuration>>>,
    uniform: Vec<bool>,
    limit: usize,
}

const ROUTE: u64 = 0;
const MULTICAST: u64 = 1 << 32;
const AGGREGATE: u64 = 2 << 32;

impl Cx<'_> {
    fn step(&self, step: StepId) -> StepFaults {
        // Large steps are cut, so that one step of many flows uses all threads too.
        const CUT: usize = 1 << 14;
        if let FlowSet::Rows(rows) = &self.schedule.steps[step.index()].flows
            && CUT < rows.len()
        {
            let parts: Vec<StepFaults> =
                rows.par_chunks(CUT).map(|part| self.some(step, part.iter().copied())).collect();
            let mut all = StepFaults { faults: Vec::new(), more: 0, flows: 0 };
            for part in parts {
                all.faults.extend(part.faults.into_iter().map(|(at, flow, fault)| (at + all.flows, flow, fault)));
                all.more += part.more;
                all.flows += part.flows;
            }
            return all;
        }
        self.some(step, self.schedule.flows(step))
    }

    fn some(&self, step: StepId, flows: impl Iterator<Item = Flow>) -> StepFaults {
        let mut found = StepFaults { faults: Vec::new(), more: 0, flows: 0 };
        for flow in flows {
            let fault = self.flow(&flow).or_else(|| self.circuits(step, &flow));
            if let Some(fault) = fault {
                if found.faults.len() < self.limit.saturating_add(1) {
                    found.faults.push((found.flows, flow, fault));
                } else {
                    found.more += 1;
                }
            }
            found.flows += 1;
        }
        found
    }

    fn member(&self, flow: &Flow, rank: RankId) -> Result<&PositionPlaces, FlowFault> {
        self.places.find(flow.group, rank).ok_or_else(|| {
            let message = if self.problem.groups().len() <= flow.group.index() {
                format!("names group {}, but there are {}", flow.group, self.problem.groups().len())
            } else if self.problem.rank_count() <= rank.index() {
                format!("names rank {rank}, but there are {}", self.problem.rank_count())
            } else {
                format!("names rank {rank}, which is no member of group {}", flow.group)
            };
            own(Code::Member, message)
        })
    }

    fn range(&self, at: &PositionPlaces, rank: RankId, place: Place, count: u32) -> Result<(), FlowFault> {
        if at.holds(place, count) {
            return Ok(());
        }
        let message = if count == 0 {
            "moves 0 slots".to_owned()
        } else {
            let given = text::place_range(rank, place, count);
            format!("names {given}, but the buffer there has {} slots", at.limit(place.buffer()))
        };
        Err(own(Code::Slots, message))
    }

    fn flow(&self, flow: &Flow) -> Option<FlowFault> {
        self.try_flow(flow).err()
    }

    fn try_flow(&self, flow: &Flow) -> Result<(), FlowFault> {
        let src = self.member(flow, flow.src)?;
        let dst = self.member(flow, flow.dst)?;
        self.range(src, flow.src, flow.src_place, flow.count)?;
        self.range(dst, flow.dst, flow.dst_place, flow.count)?;
        let unknown = |what: &dyn std::fmt::Display| own(Code::Unknown, format!("takes {what}, which does not exist"));
        match flow.path.kind() {
            PathKind::Local => {
                if flow.src != flow.dst {
                    return Err(own(Code::PathKind, format!("goes from {} to {} without a path", flow.src, flow.dst)));
                }
                self.elements(flow, src, flow.src, dst, flow.dst)
            }
            PathKind::Route(route) => {
                let facts = self.routes.get(route.index()).ok_or_else(|| unknown(&route))?;
                self.not_local(flow)?;
                path_fault(facts, ROUTE | u64::from(route.number()), &route)?;
                let (from, to) = (self.problem.node_of(flow.src), self.problem.node_of(flow.dst));
                if facts.root != Some(from) || facts.end != Some(to) {
                    return Err(self.wrong_ends(flow, facts));
                }
                self.elements(flow, src, flow.src, dst, flow.dst)
            }
            PathKind::Multicast(tree) => {
                let facts = self.multicasts.get(tree.index()).ok_or_else(|| unknown(&tree))?;
                self.not_local(flow)?;
                path_fault(facts, MULTICAST | u64::from(tree.number()), &tree)?;
                self.tree_end(flow, tree, facts, flow.src, flow.dst)?;
                for &leaf in self.schedule.paths.get_tree(tree).map_or(&[][..], |t| &t.leaves) {
                    let at = self.member(flow, leaf)?;
                    self.range(at, leaf, flow.dst_place, flow.count)?;
                    self.elements(flow, src, flow.src, at, leaf)?;
                }
                Ok(())
            }
            PathKind::Aggregate(tree) => {
                let facts = self.aggregates.get(tree.index()).ok_or_else(|| unknown(&tree))?;
                self.not_local(flow)?;
                path_fault(facts, AGGREGATE | u64::from(tree.number()), &tree)?;
                self.tree_end(flow, tree, facts, flow.dst, flow.src)?;
                for &leaf in self.schedule.paths.get_tree(tree).map_or(&[][..], |t| &t.leaves) {
                    let at = self.member(flow, leaf)?;
                    self.range(at, leaf, flow.src_place, flow.count)?;
                    self.elements(flow, at, leaf, dst, flow.dst)?;
                }
                Ok(())
            }
        }
    }

    fn not_local(&self, flow: &Flow) -> Result<(), FlowFault> {
        if flow.src == flow.dst {
            return Err(own(Code::PathKind, format!("stays at {} but has a path", flow.src)));
        }
        Ok(())
    }

    fn wrong_ends(&self, flow: &Flow, facts: &PathFacts) -> FlowFault {
        let name = |node: Option<rondo_ir::index::NodeId>| {
            node.map_or("nowhere", |node| self.problem.topology().node(node).name.as_str())
        };
        let due = |rank| name(Some(self.problem.node_of(rank)));
        own(
            Code::Connection,
            format!(
                "goes from {} to {} over a route from {} to {}",
                due(flow.src),
                due(flow.dst),
                name(facts.root),
                name(facts.end)
            ),
        )
    }

    /// The root must be at `root`, and `first` the first leaf.
    fn tree_end(
        &self,
        flow: &Flow,
        tree: rondo_ir::index::TreeId,
        facts: &PathFacts,
        root: RankId,
        first: RankId,
    ) -> Result<(), FlowFault> {
        if facts.root != Some(self.problem.node_of(root)) {
            let found = facts.root.map_or("nowhere", |node| self.problem.topology().node(node).name.as_str());
            let due = &self.problem.topology().node(self.problem.node_of(root)).name;
            return Err(own(Code::Tree, format!("takes {tree}, whose root is {found}, not {due}")));
        }
        let leaf = self.schedule.paths.get_tree(tree).and_then(|t| t.leaves.first().copied());
        if leaf != Some(first) {
            let end = if root == flow.src { "destination" } else { "source" };
            return Err(own(Code::Tree, format!("names {first} as its {end}, which is not the first leaf of {tree}")));
        }
        Ok(())
    }

    fn elements(
        &self,
        flow: &Flow,
        src: &PositionPlaces,
        src_rank: RankId,
        dst: &PositionPlaces,
        dst_rank: RankId,
    ) -> Result<(), FlowFault> {
        use rondo_ir::collective::Buffer::Scratch;
        let (from, to) = (flow.src_place, flow.dst_place);
        let plain = from.buffer() != Scratch && to.buffer() != Scratch;
        if plain
            && (self.uniform[flow.group.index()]
                || from == to && self.places.same_everywhere(flow.group, from.buffer()))
        {
            return Ok(());
        }
        for i in 0..flow.count {
            let given = self.places.elements(self.schedule, flow.group, src.position, from.offset(i));
            let due = self.places.elements(self.schedule, flow.group, dst.position, to.offset(i));
            if given != due {
                return Err(own(
                    Code::Elements,
                    format!(
                        "moves {}.{} ({given} elements) to {}.{} ({due} elements)",
                        src_rank,
                        from.offset(i),
                        dst_rank,
                        to.offset(i)
                    ),
                ));
            }
        }
        Ok(())
    }

    fn circuits(&self, step: StepId, flow: &Flow) -> Option<FlowFault> {
        let (facts, key) = match flow.path.kind() {
            PathKind::Local => return None,
            PathKind::Route(id) => (self.routes.get(id.index())?, ROUTE | u64::from(id.number())),
            PathKind::Multicast(id) => (self.multicasts.get(id.index())?, MULTICAST | u64::from(id.number())),
            PathKind::Aggregate(id) => (self.aggregates.get(id.index())?, AGGREGATE | u64::from(id.number())),
        };
        let missing = facts.circuits.iter().find(|hop| match hop {
            Hop::Link(_) => false,
            Hop::Circuit(device, circuit) => {
                !self.up[step.index()].get(device.index()).is_some_and(|up| up.contains(*circuit))
            }
        })?;
        let line = text::hops_line(self.problem, &[*missing]);
        let fault = (Code::CircuitDown, format!("uses the circuit {line}, which is not up in step {step}"));
        // Once per path and step.
        Some(FlowFault { fault, path: Some(key | u64::from(step.number()) << 34) })
    }
}

fn own(code: Code, message: String) -> FlowFault {
    FlowFault { fault: (code, message), path: None }
}

fn path_fault(facts: &PathFacts, key: u64, id: &dyn std::fmt::Display) -> Result<(), FlowFault> {
    match &facts.fault {
        None => Ok(()),
        Some((code, message)) => {
            Err(FlowFault { fault: (*code, format!("takes {id}, which {message}")), path: Some(key) })
        }
    }
}
