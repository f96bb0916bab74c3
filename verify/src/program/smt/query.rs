//! Questions about order, as SMT-LIB 2: one integer for each event, its time.
//!
//! Solvers are slow to find times for thousands of events, or the few orders among them that contradict each other, and
//! fast to check them. So a question comes with a hint where the graph has one: times, which only make it harder to
//! answer `sat`, or a part of the orders, which only makes it harder to answer `unsat`. A wrong hint can
//! cost the answer, but not make it wrong. Where signals are chosen there is no hint for `unsat`.

use std::fmt::Write as _;

use super::events::{Choice, Events, number32};

/// Whether there are times such that all orders hold and, if pairs are given, both of some pair happen at once.
#[derive(Debug)]
pub(super) struct OrderQuery {
    pub(super) title: String,
    /// What the graph says: whether there are such times.
    pub(super) expected: bool,
    pub(super) orders: Vec<(u32, u32)>,
    pub(super) choices: Vec<Choice>,
    pub(super) pairs: Vec<(u32, u32)>,
    /// Times of events, as a hint.
    pub(super) times: Vec<(u32, u32)>,
}

impl OrderQuery {
    /// Numbers of the events that it speaks of, sorted.
    pub(super) fn events(&self) -> Vec<u32> {
        let ends = self.orders.iter().chain(&self.pairs).flat_map(|&(a, b)| [a, b]);
        let chosen = self.choices.iter().flat_map(|choice| choice.signals.iter().copied().chain([choice.wait]));
        let timed = self.times.iter().map(|&(event, _)| event);
        let mut events: Vec<u32> = ends.chain(chosen).chain(timed).collect();
        events.sort_unstable();
        events.dedup();
        events
    }

    /// How many assertions [`Self::text`] makes.
    pub(super) fn assertions(&self) -> usize {
        let of_choices: usize = self.choices.iter().map(|choice| choice.signals.len() + 1).sum();
        self.orders.len() + self.times.len() + of_choices + usize::from(!self.pairs.is_empty())
    }

    /// Declarations and assertions.
    pub(super) fn text(&self, events: &Events<'_>) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(events, &mut out);
        out
    }

    fn write(&self, events: &Events<'_>, out: &mut String) -> std::fmt::Result {
        for event in self.events() {
            writeln!(out, "(declare-fun e{event} () Int) ; {}", events.list[event as usize].location())?;
        }
        for &(a, b) in &self.orders {
            writeln!(out, "(assert (< e{a} e{b}))")?;
        }
        for (event, time) in &self.times {
            writeln!(out, "(assert (= e{event} {time}))")?;
        }
        for (number, choice) in self.choices.iter().enumerate() {
            let Choice { wait, signals, needed } = choice;
            for signal in signals {
                writeln!(out, "(declare-fun m{number}_{signal} () Bool)")?;
                writeln!(out, "(assert (=> m{number}_{signal} (< e{signal} e{wait})))")?;
            }
            write!(out, "(assert (<= {needed} (+ 0")?;
            for signal in signals {
                write!(out, " (ite m{number}_{signal} 1 0)")?;
            }
            writeln!(out, ")))")?;
        }
        if !self.pairs.is_empty() {
            write!(out, "(assert (or false")?;
            for (a, b) in &self.pairs {
                write!(out, " (= e{a} e{b})")?;
            }
            writeln!(out, "))")?;
        }
        Ok(())
    }
}

/// Asks for a run of all events; for a deadlock there is none.
pub(super) fn finishes(title: String, events: &Events<'_>) -> OrderQuery {
    let run = events.run(true, &[]);
    let all = || events.orders.iter().chain(&events.room).copied();
    let expected = run.len() == events.list.len();
    let cycle = if expected || !events.choices.is_empty() { None } else { cycle(events, all(), &run) };
    OrderQuery {
        title,
        expected,
        orders: cycle.unwrap_or_else(|| all().collect()),
        choices: events.choices.clone(),
        pairs: Vec::new(),
        times: if expected { in_order(run) } else { Vec::new() },
    }
}

/// Each event at the time at which it stands in the run.
fn in_order(run: Vec<u32>) -> Vec<(u32, u32)> {
    let mut times: Vec<(u32, u32)> = run.into_iter().zip(0..).collect();
    times.sort_unstable();
    times
}

/// Orders that go round in a circle, among events that never run.
fn cycle(events: &Events<'_>, orders: impl Iterator<Item = (u32, u32)>, run: &[u32]) -> Option<Vec<(u32, u32)>> {
    let mut runs = vec![false; events.list.len()];
    for &event in run {
        runs[event as usize] = true;
    }
    // What never runs has something before it that never runs.
    let mut before: Vec<Option<u32>> = vec![None; events.list.len()];
    for (a, b) in orders.filter(|&(a, _)| !runs[a as usize]) {
        before[b as usize] = Some(a);
    }
    let mut at = number32(runs.iter().position(|runs| !runs)?);
    let mut met = vec![false; events.list.len()];
    while !std::mem::replace(&mut met[at as usize], true) {
        at = before[at as usize]?;
    }
    let first = at;
    let mut circle = Vec::new();
    loop {
        let earlier = before[at as usize]?;
        circle.push((earlier, at));
        at = earlier;
        if at == first {
            return Some(circle);
        }
    }
}

/// Pairs that one query asks about.
const SLICE: usize = 64;

/// What asks whether some conflicting pair can happen at once.
///
/// Where a chain of orders leads from one to the other, few of all orders suffice to prove that it cannot, and leaving
/// orders out only allows more; so pairs are gathered into small queries with the orders on the shortest chain of each.
/// A chain is only a hint: the solver decides. Pairs without one are asked about last: the first that races with the times of
/// a run in which both happen at once, or, if signals are chosen and none does, all of them with all orders there are.
pub(super) struct RaceQueries {
    pub(super) slices: Vec<OrderQuery>,
    pub(super) rest: Option<OrderQuery>,
}

/// The questions about races. All events must be in `run`.
pub(super) fn races(events: &Events<'_>, conflicts: &[(u32, u32, u32)], run: &[u32]) -> RaceQueries {
    let mut position = vec![0_u32; events.list.len()];
    for (at, &event) in run.iter().enumerate() {
        position[event as usize] = number32(at);
    }
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); events.list.len()];
    for &(a, b) in &events.orders {
        before[b as usize].push(a);
    }
    let mut search = Search { before: &before, position: &position, toward: vec![u32::MAX; events.list.len()] };
    let mut slices: Vec<OrderQuery> = Vec::new();
    let mut open = Vec::new();
    for &(a, b, _) in conflicts {
        let (early, late) = if position[a as usize] < position[b as usize] { (a, b) } else { (b, a) };
        let Some(chain) = search.chain(early, late) else {
            open.push((a, b));
            continue;
        };
        if slices.last().is_none_or(|slice| SLICE <= slice.pairs.len()) {
            slices.push(OrderQuery {
                title: format!("races, part {}", slices.len()),
                expected: false,
                orders: Vec::new(),
                choices: Vec::new(),
                pairs: Vec::new(),
                times: Vec::new(),
            });
        }
        if let Some(slice) = slices.last_mut() {
            slice.pairs.push((a, b));
            slice.orders.extend(chain);
        }
    }
    for slice in &mut slices {
        slice.orders.sort_unstable();
        slice.orders.dedup();
    }
    let racing = open.iter().copied().find_map(|pair| Some((pair, at_once(events, pair)?)));
    let rest = |title: &str, pairs, times: Vec<(u32, u32)>| OrderQuery {
        title: title.to_owned(),
        expected: !times.is_empty(),
        orders: events.orders.clone(),
        choices: events.choices.clone(),
        pairs,
        times,
    };
    let rest = match racing {
        Some((pair, times)) => Some(rest("a race", vec![pair], times)),
        None if open.is_empty() => None,
        None => Some(rest("races, pairs that no chain of orders connects", open, Vec::new())),
    };
    RaceQueries { slices, rest }
}

/// Times of a run in which both events happen at once, if there is one.
fn at_once(events: &Events<'_>, (a, b): (u32, u32)) -> Option<Vec<(u32, u32)>> {
    // Hold both back until nothing else can run. If each can run then, they can at once.
    let without = events.run(false, &[a, b]);
    for (event, other) in [(a, b), (b, a)] {
        if !events.run(false, &[other]).contains(&event) {
            return None;
        }
    }
    let mut done = vec![false; events.list.len()];
    for &event in without.iter().chain([&a, &b]) {
        done[event as usize] = true;
    }
    let mut times: Vec<(u32, u32)> = without.into_iter().zip(0..).collect();
    let now = number32(times.len());
    times.extend([(a, now), (b, now)]);
    let late: Vec<u32> = events.run_after(&done);
    times.extend(late.into_iter().zip(now + 1..));
    times.sort_unstable();
    (times.len() == events.list.len()).then_some(times)
}

struct Search<'a> {
    before: &'a [Vec<u32>],
    position: &'a [u32],
    /// The next event on the way to the goal.
    toward: Vec<u32>,
}

impl Search<'_> {
    /// The orders on a shortest chain from `early` to `late`.
    fn chain(&mut self, early: u32, late: u32) -> Option<Vec<(u32, u32)>> {
        let mut met = vec![late];
        self.toward[late as usize] = late;
        let mut next = 0;
        let mut found = false;
        while let Some(&at) = met.get(next) {
            next += 1;
            if at == early {
                found = true;
                break;
            }
            for &earlier in &self.before[at as usize] {
                let behind = self.position[early as usize] <= self.position[earlier as usize];
                if behind && self.toward[earlier as usize] == u32::MAX {
                    self.toward[earlier as usize] = at;
                    met.push(earlier);
                }
            }
        }
        let chain = found.then(|| {
            let mut chain = Vec::new();
            let mut at = early;
            while at != late {
                let then = self.toward[at as usize];
                chain.push((at, then));
                at = then;
            }
            chain
        });
        for event in met {
            self.toward[event as usize] = u32::MAX;
        }
        chain
    }
}
