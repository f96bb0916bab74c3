//! The text form: one flow or operation a line, for errors, logs and tests.
//!
//! `s2 f41: r3.o[1] -> r4.o[1] reduce, 4 MiB via gpu3 -> gpu4`

use std::fmt;

use crate::collective::{Buffer, Place};
use crate::index::{FlowId, GroupId, RankId, StepId};
use crate::problem::Problem;
use crate::program::{Connection, Operation, OperationKind};
use crate::schedule::{Flow, FlowOp, PathKind, Schedule};
use crate::topology::Hop;
use crate::units::Bytes;

/// `r3.o[1]`, or `r3.o[1..4]` for three slots.
#[must_use]
pub fn place_range(rank: RankId, place: Place, count: u32) -> String {
    format!("{rank}.{}", local_range(place, count))
}

fn local_range(place: Place, count: u32) -> String {
    if count == 1 {
        return place.to_string();
    }
    let end = u64::from(place.slot()) + u64::from(count);
    format!("{}[{}..{end}]", place.buffer().letter(), place.slot())
}

/// Elements of one slot, scratch included; 0 if it does not exist.
#[must_use]
pub fn slot_elements(problem: &Problem, schedule: &Schedule, flow: &Flow, rank: RankId, place: Place) -> u64 {
    range_elements(problem, schedule, flow.group, rank, place, 1)
}

/// Elements of `count` slots from `place` on, scratch included; slots that do not exist count as 0.
#[must_use]
pub fn range_elements(
    problem: &Problem,
    schedule: &Schedule,
    group: GroupId,
    rank: RankId,
    place: Place,
    count: u32,
) -> u64 {
    let find = || {
        let position = problem.position(group, rank)?;
        let chunks = *schedule.chunks.get(group.index())?;
        let layout = problem.layout(group, chunks).ok()?;
        let scratch = schedule.scratch.get(group.index()).and_then(|s| s.like.get(position as usize));
        let end = match place.buffer() {
            Buffer::Scratch => u64::try_from(scratch?.len()).ok()?,
            buffer => u64::from(layout.slots(position, Buffer::Input).max(layout.slots(position, buffer))),
        };
        let slots = u64::from(place.slot())..end.min(u64::from(place.slot()) + u64::from(count));
        let elements = slots.filter_map(|slot| u32::try_from(slot).ok()).map(|slot| match place.buffer() {
            Buffer::Scratch => match scratch.and_then(|like| like.get(slot as usize)) {
                Some(&(like, place)) if like < layout.collective().ranks() => layout.elements(like, place),
                _ => 0,
            },
            buffer => layout.elements(position, Place::new(buffer, slot)),
        });
        Some(elements.fold(0, u64::saturating_add))
    };
    find().unwrap_or(0)
}

/// The flow as one line.
#[must_use]
pub fn flow_line(problem: &Problem, schedule: &Schedule, step: StepId, id: FlowId, flow: &Flow) -> String {
    let elements = range_elements(problem, schedule, flow.group, flow.src, flow.src_place, flow.count);
    let dtype = problem.groups().get(flow.group.index()).map_or(0, |g| g.collective().dtype().bytes());
    let op = match flow.op {
        FlowOp::Copy => "copy",
        FlowOp::Reduce => "reduce",
    };
    let via = match flow.path.kind() {
        PathKind::Local => "locally".to_owned(),
        PathKind::Route(route) => match schedule.paths.get(route) {
            Some(found) => {
                let parts: Vec<_> = found.parts.iter().map(|part| hops_line(problem, &part.hops)).collect();
                format!("via {}", parts.join(" | "))
            }
            None => format!("via {route} (unknown)"),
        },
        PathKind::Multicast(tree) => format!("via multicast {tree}"),
        PathKind::Aggregate(tree) => format!("via aggregation {tree}"),
    };
    let group = if flow.group.index() == 0 { String::new() } else { format!(" {}", flow.group) };
    format!(
        "{step} {id}{group}: {} -> {} {op}, {} {via}",
        place_range(flow.src, flow.src_place, flow.count),
        place_range(flow.dst, flow.dst_place, flow.count),
        Bytes(elements.saturating_mul(dtype)),
    )
}

/// `gpu3 -> tor0 -> gpu4`; a circuit is `gpu3 =ocs0=> gpu4`.
#[must_use]
pub fn hops_line(problem: &Problem, hops: &[Hop]) -> String {
    let topology = problem.topology();
    let mut line = String::new();
    for (index, &hop) in hops.iter().enumerate() {
        let known = match hop {
            Hop::Link(link) => link.index() < topology.links().len(),
            Hop::Circuit(device, circuit) => topology
                .devices()
                .get(device.index())
                .is_some_and(|d| circuit.from.index() < d.ports.len() && circuit.to.index() < d.ports.len()),
        };
        if !known {
            line.push_str(&format!("{hop:?} (unknown) "));
            continue;
        }
        let (src, dst) = topology.ends(hop);
        if index == 0 {
            line.push_str(&topology.node(src).name);
        }
        match hop {
            Hop::Link(_) => line.push_str(" -> "),
            Hop::Circuit(device, _) => line.push_str(&format!(" ={}=> ", topology.device(device).name)),
        }
        line.push_str(&topology.node(dst).name);
    }
    line
}

/// All flows of the schedule, one a line; reconfigurations before their step.
///
/// # Errors
/// Those of the writer.
pub fn write_schedule(out: &mut impl fmt::Write, problem: &Problem, schedule: &Schedule) -> fmt::Result {
    let mut id = 0;
    for (index, step) in schedule.steps.iter().enumerate() {
        let step_id = StepId::new(index);
        for (device, configuration) in &step.reconfigure {
            let name = problem.topology().devices().get(device.index()).map_or("?", |d| d.name.as_str());
            write!(out, "{step_id} set {name}:")?;
            for circuit in configuration.circuits() {
                write!(out, " {}>{}", circuit.from, circuit.to)?;
            }
            writeln!(out)?;
        }
        for flow in schedule.flows(step_id) {
            writeln!(out, "{}", flow_line(problem, schedule, step_id, FlowId::new(id), &flow))?;
            id += 1;
        }
    }
    for (before, after) in schedule.dependencies.iter().flat_map(|d| &d.pairs) {
        writeln!(out, "{before} before {after}")?;
    }
    Ok(())
}

/// The operation as one line, without rank and threadblock: `r<-r3#0 + i[1] -> o[1] -> r5#0`.
#[must_use]
pub fn operation_line(operation: &Operation) -> String {
    let end = |c: &Connection| format!("{}#{}", c.peer, c.channel);
    let mut line = match &operation.kind {
        OperationKind::Nop => "nop".to_owned(),
        OperationKind::Move { receive, local, store, send, count } => {
            let mut value = Vec::new();
            value.extend(receive.as_ref().map(|c| format!("from {}", end(c))));
            value.extend(local.map(|place| local_range(place, *count)));
            let mut line = value.join(" + ");
            if let Some(place) = store {
                line.push_str(&format!(" -> {}", local_range(*place, *count)));
            }
            if let Some(c) = send {
                line.push_str(&format!(" -> to {}", end(c)));
            }
            line
        }
        OperationKind::Reduce { sources, dst, count } => {
            let sources: Vec<_> = sources.iter().map(|&place| local_range(place, *count)).collect();
            format!("{} += {}", local_range(*dst, *count), sources.join(" + "))
        }
        OperationKind::Put { src, to, op, count } => {
            let to: Vec<_> = to.iter().map(|&(rank, place)| place_range(rank, place, *count)).collect();
            format!("put {} -> {}{}", local_range(*src, *count), to.join(", "), adds(*op))
        }
        OperationKind::Get { from, dst, op, count } => {
            let from: Vec<_> = from.iter().map(|&(rank, place)| place_range(rank, place, *count)).collect();
            format!("get {} -> {}{}", from.join(" + "), local_range(*dst, *count), adds(*op))
        }
        OperationKind::Signal { peer, counter } => format!("signal {peer} counter {counter}"),
        OperationKind::Wait { counter, value, .. } => format!("wait counter {counter} >= {value}"),
        OperationKind::Barrier { barrier, threadblocks } => format!("barrier {barrier} among {threadblocks:?}"),
        OperationKind::Loop { times, body } => format!("loop {times} times, {} operations", body.len()),
    };
    for wait in &operation.waits_for {
        line.push_str(&format!(", after tb{} op{}", wait.threadblock, wait.operation));
    }
    if operation.publishes {
        line.push_str(", publishes");
    }
    line
}

const fn adds(op: FlowOp) -> &'static str {
    match op {
        FlowOp::Copy => "",
        FlowOp::Reduce => " reduce",
    }
}
