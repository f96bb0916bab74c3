//! Counterexamples: why an output place does not hold what it should, with the flows that made it.
//!
//! Only called once a place is known to be wrong, so clarity comes before speed.

use std::collections::BTreeMap;

use rondo_ir::collective::{Multiset, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{FlowId, GroupId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_ir::text;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::Code;
use crate::places::Places;
use crate::replay::{Sorted, Unit, Wrong, rounds, units};

/// Contributions (by place number) with counts.
type Counts = BTreeMap<u32, u64>;

/// Flows of a counterexample that are listed.
const LISTED: usize = 12;

/// A condition as sorted (place number, count), zero counts left out; for idempotent operators every count is one.
pub(crate) fn normal(places: &Places<'_>, group: GroupId, list: &Multiset, idempotent: bool) -> Vec<(u32, u64)> {
    let mut counts = Counts::new();
    for &(contribution, count) in list.iter().filter(|&&(_, count)| count != 0) {
        let entry = counts.entry(places.contribution(group, contribution)).or_default();
        *entry = if idempotent { 1 } else { entry.saturating_add(count) };
    }
    counts.into_iter().collect()
}

/// What an output place must hold, by number; `None` if it may hold anything.
fn due(places: &Places<'_>, number: u32) -> Option<Counts> {
    let (at, slot) = places.output_slot(number)?;
    let layout = places.layout(at.group);
    let collective = layout.collective();
    let expected = layout.postcondition(places.of(at.group, at.rank).position, slot)?;
    let list = expected.to_multiset(collective.ranks());
    Some(normal(places, at.group, &list, collective.operator().is_idempotent()).into_iter().collect())
}

/// What an output place must hold, for people.
pub(crate) fn due_text(places: &Places<'_>, number: u32) -> String {
    due(places, number).map_or_else(|| "anything".to_owned(), |counts| value_text(places, &counts))
}

/// `r0.i[3] + 2·r1.i[3] + … (6 in all)`
fn value_text(places: &Places<'_>, counts: &Counts) -> String {
    const SHOWN: usize = 8;
    let part = |(&key, &count): (&u32, &u64)| {
        let name = contribution_name(places, key);
        if count == 1 { name } else { format!("{count}·{name}") }
    };
    let mut parts: Vec<String> = counts.iter().take(SHOWN).map(part).collect();
    if SHOWN < counts.len() {
        parts.push(format!("… ({} in all)", counts.len()));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" + ") }
}

/// `r2.i[3]`: a contribution is named by the input slot that it comes from.
fn contribution_name(places: &Places<'_>, key: u32) -> String {
    match places.input_slot(key) {
        Some((at, slot)) => {
            let group = if at.group.index() == 0 { String::new() } else { format!("{}:", at.group) };
            format!("{group}{}.{}", at.rank, Place::input(slot))
        }
        None => place_name(places, key),
    }
}

fn place_name(places: &Places<'_>, number: u32) -> String {
    let (rank, place) = places.name(number);
    format!("{rank}.{place}")
}

/// Indices of the units that made the last value of `place`, in order.
fn slice(all: &[Unit], place: u32) -> Vec<usize> {
    let mut needed = FxHashSet::from_iter([place]);
    let mut chosen = Vec::new();
    let mut end = all.len();
    while 0 < end {
        let round = all[end - 1].round();
        let start = all[..end].partition_point(|unit| unit.round() < round);
        let marked: Vec<usize> = (start..end).filter(|&index| needed.contains(&all[index].dst)).collect();
        for &index in &marked {
            if !all[index].adds() {
                needed.remove(&all[index].dst);
            }
        }
        needed.extend(marked.iter().map(|&index| all[index].src));
        chosen.extend(marked.into_iter().rev());
        end = start;
    }
    chosen.reverse();
    chosen
}

/// Replays chosen units; calls `after` with each index and the value that it left at its destination.
fn run(
    keys: &[u32],
    all: &[Unit],
    chosen: &[usize],
    idempotent: bool,
    mut after: impl FnMut(usize, &Counts),
) -> FxHashMap<u32, Counts> {
    let mut state: FxHashMap<u32, Counts> = keys.iter().map(|&key| (key, Counts::from([(key, 1)]))).collect();
    let mut at = 0;
    while at < chosen.len() {
        let round = all[chosen[at]].round();
        let end = at + chosen[at..].partition_point(|&index| all[index].round() == round);
        let read: Vec<Counts> =
            chosen[at..end].iter().map(|&index| state.get(&all[index].src).cloned().unwrap_or_default()).collect();
        for (&index, value) in chosen[at..end].iter().zip(read) {
            let unit = all[index];
            let held = state.entry(unit.dst).or_default();
            if unit.adds() {
                for (key, count) in value {
                    let entry = held.entry(key).or_default();
                    *entry = if idempotent { 1 } else { entry.saturating_add(count) };
                }
            } else {
                *held = value;
            }
            after(index, held);
        }
        at = end;
    }
    state
}

/// The flow that moves the unit: its line in the text form.
fn flow_of(problem: &Problem, schedule: &Schedule, places: &Places<'_>, wanted: &[Unit]) -> Vec<String> {
    let mut lines = Vec::new();
    rounds(schedule, |round| {
        let here: FxHashSet<(u32, u32)> =
            wanted.iter().filter(|unit| unit.round() == round.number).map(|unit| (unit.src, unit.dst)).collect();
        if here.is_empty() {
            return;
        }
        for (index, flow) in round.flows.iter().enumerate() {
            let mut moves = false;
            units(places, schedule, flow, |src, dst, _| moves |= here.contains(&(src, dst)));
            if moves {
                let id = FlowId::new(round.first + index);
                lines.push(text::flow_line(problem, schedule, round.step, id, flow));
            }
        }
    });
    lines
}

/// The flow that moves this very unit, also where several of its round move the same.
fn flow_at(problem: &Problem, schedule: &Schedule, places: &Places<'_>, all: &[Unit], index: usize) -> Option<String> {
    let unit = all[index];
    let twins = all[..index].iter().rev().take_while(|other| other.round() == unit.round());
    let mut before = twins.filter(|other| (other.src, other.dst) == (unit.src, unit.dst)).count();
    let mut line = None;
    rounds(schedule, |round| {
        if round.number != unit.round() {
            return;
        }
        for (at, flow) in round.flows.iter().enumerate() {
            units(places, schedule, flow, |src, dst, _| {
                if (src, dst) != (unit.src, unit.dst) || line.is_some() {
                    return;
                }
                if before == 0 {
                    let id = FlowId::new(round.first + at);
                    line = Some(text::flow_line(problem, schedule, round.step, id, flow));
                } else {
                    before -= 1;
                }
            });
        }
    });
    line
}

/// The finding for a component with wrong output places: the one that took the fewest flows to go wrong.
pub(crate) fn explain(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    sorted: &Sorted,
    wrong: &Wrong,
) -> Diagnostic {
    let (all, keys) = (sorted.units(wrong.component), sorted.keys(wrong.component));
    let best = wrong
        .places
        .iter()
        .map(|&place| (slice(all, place), place))
        .min_by(|a, b| (a.0.len(), a.1).cmp(&(b.0.len(), b.1)));
    let Some((chosen, place)) = best else {
        return Diagnostic::error(Code::Missing.as_str(), "an output place is wrong");
    };
    let at = places.locate(place);
    let idempotent = places.layout(at.group).collective().operator().is_idempotent();
    let due = due(places, place).unwrap_or_default();
    let excess = |held: &Counts| {
        held.iter().map(|(&key, &count)| (key, count)).find(|&(key, count)| due.get(&key).copied().unwrap_or(0) < count)
    };
    let mut first_wrong = None;
    let state = run(keys, all, &chosen, idempotent, |index, held| {
        if first_wrong.is_none() && excess(held).is_some() {
            first_wrong = Some((index, held.clone()));
        }
    });
    let nothing = Counts::new();
    let held = state.get(&place).unwrap_or(&nothing);
    let name = place_name(places, place);
    let missing: Vec<u32> =
        due.iter().filter(|&(key, &count)| held.get(key).copied().unwrap_or(0) < count).map(|(&key, _)| key).collect();
    let twice = held.iter().find(|&(key, &count)| due.get(key).is_some_and(|&due| due < count));
    let extra = held.keys().find(|key| !due.contains_key(key));
    let (code, message) = if let Some((&key, &count)) = twice {
        let what = contribution_name(places, key);
        let times = due.get(&key).copied().unwrap_or(0);
        let often = |n: u64| match n {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            n => format!("{n} times"),
        };
        (Code::Twice, format!("{name} counts {what} {}, not {}", often(count), often(times)))
    } else if let Some(&key) = extra {
        (Code::Extra, format!("{name} holds {}, which does not belong there", contribution_name(places, key)))
    } else {
        let first = missing.first().map_or_else(String::new, |&key| contribution_name(places, key));
        let more = match missing.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more contribution{}", count - 1, if count == 2 { "" } else { "s" }),
        };
        (Code::Missing, format!("{name} lacks {first}{more}"))
    };
    let mut finding = Diagnostic::error(code.as_str(), message)
        .note(format!("it holds {}", value_text(places, held)))
        .note(format!("it should hold {}", value_text(places, &due)));
    if let Some((index, held)) = first_wrong {
        if let Some(line) = flow_at(problem, schedule, places, all, index) {
            finding = finding.note(format!(
                "it cannot be right any more after {line}, which leaves {} in {}",
                value_text(places, &held),
                place_name(places, all[index].dst)
            ));
        }
    } else if let Some(&key) = missing.first() {
        finding = finding.note(whereabouts(places, keys, all, key, &name));
    }
    let made: Vec<Unit> = chosen.iter().map(|&index| all[index]).collect();
    let lines = flow_of(problem, schedule, places, &made);
    finding = finding.note(match lines.len() {
        0 => "no flow writes it".to_owned(),
        1 => "its value was made by 1 flow:".to_owned(),
        count => format!("its value was made by {count} flows:"),
    });
    let hidden = lines.len().saturating_sub(LISTED);
    if hidden != 0 {
        finding = finding.note(format!("  … {hidden} earlier ones, then"));
    }
    for line in &lines[hidden..] {
        finding = finding.note(format!("  {line}"));
    }
    if 1 < wrong.count {
        let others: Vec<String> = wrong
            .places
            .iter()
            .filter(|&&other| other != place)
            .take(4)
            .map(|&other| place_name(places, other))
            .collect();
        let plural = if wrong.count == 2 { "place is" } else { "places are" };
        finding = finding.note(format!(
            "{} more output {plural} wrong through the same data: {}{}",
            wrong.count - 1,
            others.join(", "),
            if others.len() < wrong.count - 1 { ", …" } else { "" }
        ));
    }
    finding
}

/// Where a contribution that is missed somewhere is in the end.
fn whereabouts(places: &Places<'_>, keys: &[u32], all: &[Unit], key: u32, target: &str) -> String {
    let what = contribution_name(places, key);
    if keys.binary_search(&key).is_err() {
        return format!("{what} never meets the data of {target}");
    }
    let mut holders = FxHashSet::from_iter([key]);
    let mut last = None;
    let mut at = 0;
    while at < all.len() {
        let round = all[at].round();
        let end = at + all[at..].partition_point(|unit| unit.round() == round);
        let read: Vec<bool> = all[at..end].iter().map(|unit| holders.contains(&unit.src)).collect();
        // What the round replaces goes first; a further source of the same write adds.
        for unit in all[at..end].iter().filter(|unit| !unit.adds()) {
            holders.remove(&unit.dst);
        }
        for (unit, holds) in all[at..end].iter().zip(read) {
            if holds {
                holders.insert(unit.dst);
                last = Some(unit.dst);
            }
        }
        at = end;
    }
    let mut list: Vec<u32> = holders.into_iter().collect();
    list.sort_unstable();
    let names: Vec<String> = list.iter().take(4).map(|&number| place_name(places, number)).collect();
    match (last, names.is_empty()) {
        (None, false) => format!("{what} never leaves {}", names.join(", ")),
        (_, true) => format!("{what} is overwritten everywhere before it gets to {target}"),
        (Some(_), false) => {
            let more = if list.len() <= names.len() { "" } else { ", …" };
            format!("{what} ends in {}{more} and is never brought to {target}", names.join(", "))
        }
    }
}
