//! The result of one call, on multisets of contributions.

use rondo_ir::collective::{Buffer, Contribution, Multiset, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;
use rustc_hash::FxHashMap;

use super::build::{Graph, NONE};
use super::{NAMES, check};
use crate::program::{Findings, Location};
use crate::{Answer, Check, Claim};

/// Contributions that all values hold together.
const MOST_TERMS: usize = 1 << 24;

/// Values are kept once each and named by number.
struct Values {
    list: Vec<Multiset>,
    known: FxHashMap<Multiset, u32>,
    sums: FxHashMap<(u32, u32), u32>,
    terms: usize,
}

impl Values {
    fn number(&mut self, value: Multiset) -> u32 {
        if let Some(&known) = self.known.get(&value) {
            return known;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(NONE);
        self.terms += value.len();
        self.list.push(value.clone());
        self.known.insert(value, number);
        number
    }

    fn add(&mut self, a: u32, b: u32) -> u32 {
        if let Some(&sum) = self.sums.get(&(a, b)) {
            return sum;
        }
        let (left, right) = (&self.list[a as usize], &self.list[b as usize]);
        let mut sum: Multiset = Vec::with_capacity(left.len() + right.len());
        let (mut i, mut j) = (0, 0);
        while i < left.len() || j < right.len() {
            match (left.get(i), right.get(j)) {
                (Some(&(x, n)), Some(&(y, m))) if x == y => {
                    sum.push((x, n.saturating_add(m)));
                    i += 1;
                    j += 1;
                }
                (Some(&(x, n)), Some(&(y, _))) if x < y => {
                    sum.push((x, n));
                    i += 1;
                }
                (Some(&item), None) => {
                    sum.push(item);
                    i += 1;
                }
                (_, Some(&item)) => {
                    sum.push(item);
                    j += 1;
                }
                (None, None) => break,
            }
        }
        let sum = self.number(sum);
        self.sums.insert((a, b), sum);
        sum
    }
}

/// What a place holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    /// Made of nothing, which was reported.
    Poison,
    Value(u32),
}

pub(super) fn completes(graph: &Graph<'_>, sorted: &[u32], claim: &Claim, findings: &mut Findings) -> Check {
    let places = &graph.places;
    let layout = places.layout;
    let mut values = Values { list: Vec::new(), known: FxHashMap::default(), sums: FxHashMap::default(), terms: 0 };
    let mut held = vec![Held::Nothing; places.len()];
    let mut last: Vec<u32> = vec![NONE; places.len()];
    layout.precondition(|rank, place, contribution| {
        let value = values.number(vec![(contribution, 1)]);
        held[places.locate(rank, place, false, 0) as usize] = Held::Value(value);
    });
    let before = findings.errors();
    let mut moved = 0_u64;
    for &event in sorted {
        if graph.events[event as usize].call != 0 {
            continue;
        }
        let Some((transfer, slot)) = graph.transfer(event) else { continue };
        if slot == NONE {
            continue;
        }
        moved += 1;
        let mut sum = None;
        for site in &transfer.sources {
            let place = graph.place(event, site, slot);
            let value = held[place as usize];
            if value == Held::Nothing {
                let location = graph.location(event);
                let (_, name) = places.name(place, graph.program.slots_per_chunk);
                let message = format!("{location} reads {name}, where nothing was written");
                findings.add(Diagnostic::error("V118", message), vec![(location, "reads it".to_owned())]);
            }
            sum = Some(match (sum, value) {
                (None, Held::Nothing) | (Some(_), Held::Nothing | Held::Poison) | (Some(Held::Poison), _) => {
                    Held::Poison
                }
                (None, value) | (Some(Held::Nothing), value) => value,
                (Some(Held::Value(a)), Held::Value(b)) => Held::Value(values.add(a, b)),
            });
        }
        for site in &transfer.targets {
            let place = graph.place(event, site, slot);
            let rank = site.rank.number();
            let spelt = site.place.offset(slot);
            let canonical = if claim.collective.in_place() { layout.canonical(rank, spelt) } else { spelt };
            if canonical.buffer() == Buffer::Input && !layout.writable(canonical) {
                let location = graph.location(event);
                let message = format!("{location} overwrites the caller's input of {}", RankId::from(rank));
                findings.add(Diagnostic::error("V119", message), vec![(location, "writes it".to_owned())]);
            }
            held[place as usize] = sum.unwrap_or(Held::Nothing);
            last[place as usize] = event;
        }
        if MOST_TERMS < values.terms {
            return check(NAMES[5], Answer::Unknown, "sums became too large to follow");
        }
    }
    let mut promised = 0_u64;
    for rank in 0..claim.collective.ranks() {
        for slot in 0..layout.slots(rank, Buffer::Output) {
            let Some(expected) = layout.postcondition(rank, slot) else { continue };
            promised += 1;
            let place = places.locate(rank, Place::output(slot), false, 0);
            let value = match held[place as usize] {
                Held::Value(value) => Some(&values.list[value as usize]),
                // Reported where it was read.
                Held::Poison => continue,
                Held::Nothing => None,
            };
            let wanted = expected.to_multiset(claim.collective.ranks());
            let right = value.is_some_and(|value| same(value, &wanted, claim));
            if !right {
                wrong(graph, place, value, &wanted, last[place as usize], findings);
            }
        }
    }
    match findings.errors() - before {
        0 if promised == 0 => {
            check(NAMES[5], Answer::Proved, format!("{moved} moves read only what was written; no result is promised"))
        }
        0 => check(NAMES[5], Answer::Proved, format!("{moved} moves lead to all {promised} output slots")),
        faults => check(NAMES[5], Answer::Refuted, format!("{faults} faults")),
    }
}

fn same(value: &Multiset, wanted: &Multiset, claim: &Claim) -> bool {
    if claim.collective.kind().reduces() && claim.collective.operator().is_idempotent() {
        return value.iter().map(|(c, _)| c).eq(wanted.iter().map(|(c, _)| c));
    }
    value == wanted
}

fn wrong(
    graph: &Graph<'_>,
    place: u32,
    value: Option<&Multiset>,
    wanted: &Multiset,
    last: u32,
    findings: &mut Findings,
) {
    let (_, name) = graph.places.name(place, graph.program.slots_per_chunk);
    let words = |list: &Multiset| {
        let word = |&(Contribution { origin, slot }, times): &(Contribution, u64)| {
            let chunk = slot / graph.program.slots_per_chunk.max(1);
            if times == 1 { format!("r{origin}[{chunk}]") } else { format!("{times} x r{origin}[{chunk}]") }
        };
        let mut shown: Vec<String> = list.iter().take(12).map(word).collect();
        if shown.len() < list.len() {
            shown.push("…".to_owned());
        }
        shown.join(" + ")
    };
    let held = value.map_or_else(|| "nothing".to_owned(), words);
    let mut diagnostic = Diagnostic::error("V120", format!("{name} ends with {held}"));
    diagnostic.notes.push(format!("it must hold {}", words(wanted)));
    let mut locations: Vec<(Location, String)> = Vec::new();
    if last != NONE {
        locations.push((graph.location(last), "the last to write it".to_owned()));
    }
    findings.add(diagnostic, locations);
}
