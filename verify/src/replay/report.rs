//! What is said of flows that read nothing, write twice or write where they may not.

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::FlowId;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_ir::text;

use super::{Round, rounds, units};
use crate::codes::Code;
use crate::findings::Findings;
use crate::places::Places;

fn line_of(problem: &Problem, schedule: &Schedule, round: &Round<'_>, index: usize) -> String {
    text::flow_line(problem, schedule, round.step, FlowId::new(round.first + index), &round.flows[index])
}

pub(super) fn place_name(places: &Places<'_>, number: u32) -> String {
    let (rank, place) = places.name(number);
    format!("{rank}.{place}")
}

/// A flow reads a place that is undefined, or adds to one.
pub(super) fn report_undefined(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    round: &Round<'_>,
    index: usize,
    place: u32,
    code: Code,
    findings: &mut Findings,
) {
    if !findings.has_room() {
        findings.skip(1);
        return;
    }
    let adds = code == Code::UndefinedReduce;
    let what = if adds { "adds to" } else { "reads" };
    let (name, number) = (place_name(places, place), round.first + index);
    let message = format!("{name} is undefined when f{number} in step {} {what} it", round.step);
    let finding = Diagnostic::error(code.as_str(), message)
        .note(format!("the flow is {}", line_of(problem, schedule, round, index)));
    findings.add(if adds {
        finding.help("make the first flow that writes the place a copy".to_owned())
    } else {
        finding.note(match first_write(problem, schedule, places, place, round.number) {
            Some(line) => format!("too late, it is first written by {line}"),
            None => "no flow writes it".to_owned(),
        })
    });
}

/// The first flow from that round on that writes the place.
fn first_write(problem: &Problem, schedule: &Schedule, places: &Places<'_>, place: u32, from: u32) -> Option<String> {
    let mut found = None;
    rounds(schedule, |round| {
        if found.is_some() || round.number < from {
            return;
        }
        for (index, flow) in round.flows.iter().enumerate() {
            let mut writes = false;
            units(places, schedule, flow, |_, dst, _| writes |= dst == place);
            if writes {
                found = Some(line_of(problem, schedule, &round, index));
                return;
            }
        }
    });
    found
}

pub(super) fn report_read_only(
    problem: &Problem,
    schedule: &Schedule,
    round: &Round<'_>,
    index: usize,
    findings: &mut Findings,
) {
    if !findings.has_room() {
        findings.skip(1);
        return;
    }
    let flow = &round.flows[index];
    let target = text::place_range(flow.dst, flow.dst_place, flow.count);
    findings.add(
        Diagnostic::error(
            Code::ReadOnly.as_str(),
            format!("f{} in step {} writes {target}, which is read-only", round.first + index, round.step),
        )
        .note(format!("the flow is {}", line_of(problem, schedule, round, index)))
        .help("write to output or scratch, or let the job say that its input may be overwritten".to_owned()),
    );
}

pub(super) fn report_conflict(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    round: &Round<'_>,
    index: usize,
    dst: u32,
    findings: &mut Findings,
) {
    if !findings.has_room() {
        findings.skip(1);
        return;
    }
    let other = (0..index).find(|&other| {
        let mut writes = false;
        units(places, schedule, &round.flows[other], |_, place, _| writes |= place == dst);
        writes
    });
    let name = place_name(places, dst);
    let number = round.first + index;
    let message = match other {
        Some(other) => {
            format!("f{} and f{number} both write {name} in step {}", round.first + other, round.step)
        }
        None => format!("f{number} writes {name} twice in step {}", round.step),
    };
    let mut finding = Diagnostic::error(Code::Conflict.as_str(), message);
    for flow in other.into_iter().chain([index]) {
        finding = finding.note(format!("the flow is {}", line_of(problem, schedule, round, flow)));
    }
    findings.add(finding.help("move one of them to a later step".to_owned()));
}
