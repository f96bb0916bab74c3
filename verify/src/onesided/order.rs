//! Order: one run, and which conflicting accesses happens-before orders.
//!
//! Conflicting accesses of a place are taken in the order of the run; each read is compared with the write before it, each
//! write with the write before it and the reads since. If these pairs are ordered, all are.
//!
//! Events that a whole threadblock or rank takes part in lie on *lanes*, each totally ordered. The clock of an event says how far
//! it has heard of each lane. An event beside the lanes is before another one if a short walk leads to it, or to a lane at
//! a position that the other one has heard of. Clocks are kept only until the last event that needs them.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::index::RankId;
use rondo_ir::onesided::{Elements, OneSidedKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::build::{Edge, Graph, NONE, What};
use super::{NAMES, OneSidedOptions, check};
use crate::program::{Findings, Location};
use crate::{Answer, Check};

/// One run: events in an order in which they can happen. `None` if it gets stuck, which is reported.
pub(super) fn sort(graph: &Graph<'_>, findings: &mut Findings) -> Option<Vec<u32>> {
    let after = After::new(graph);
    let count = graph.events.len();
    let mut open: Vec<u32> = (0..count).map(|event| graph.start[event + 1] - graph.start[event]).collect();
    let mut ready: VecDeque<u32> = VecDeque::new();
    let mut done = vec![false; count];
    // By crowd: signals so far, and waits for more of them.
    let mut signals: FxHashMap<u32, u64> = FxHashMap::default();
    let mut waiting: FxHashMap<u32, BTreeMap<u64, Vec<u32>>> = FxHashMap::default();
    let mut order = Vec::with_capacity(count);
    let reach = |event: u32,
                 ready: &mut VecDeque<u32>,
                 waiting: &mut FxHashMap<u32, BTreeMap<u64, Vec<u32>>>,
                 signals: &FxHashMap<u32, u64>| {
        match graph.crowds.waits.get(&event) {
            Some(&(crowd, needed)) if signals.get(&crowd).copied().unwrap_or(0) < needed => {
                waiting.entry(crowd).or_default().entry(needed).or_default().push(event);
            }
            _ => ready.push_back(event),
        }
    };
    for (event, _) in (0_u32..).zip(&open).filter(|&(_, &open)| open == 0) {
        reach(event, &mut ready, &mut waiting, &signals);
    }
    while let Some(event) = ready.pop_front() {
        order.push(event);
        done[event as usize] = true;
        if let Some(&crowd) = graph.crowds.signals.get(&event) {
            let so_far = signals.entry(crowd).or_default();
            *so_far += 1;
            if let Some(waits) = waiting.get_mut(&crowd).and_then(|waits| waits.remove(so_far)) {
                ready.extend(waits);
            }
        }
        for &(next, _) in after.of(event) {
            open[next as usize] -= 1;
            if open[next as usize] == 0 {
                reach(next, &mut ready, &mut waiting, &signals);
            }
        }
    }
    if order.len() == count {
        return Some(order);
    }
    stuck(graph, &done, findings);
    None
}

/// Names a cycle of waits: from a stuck event always to the first stuck event that it waits for.
fn stuck(graph: &Graph<'_>, done: &[bool], findings: &mut Findings) {
    let stuck = |event: &u32| !done[*event as usize];
    let Some(first) = (0_u32..).zip(done).find(|&(_, &done)| !done).map(|(event, _)| event) else { return };
    let mut crowds: Vec<(u32, u32)> = graph.crowds.signals.iter().map(|(&event, &crowd)| (crowd, event)).collect();
    crowds.sort_unstable();
    let mut seen: Vec<u32> = vec![NONE; done.len()];
    let mut path: Vec<u32> = Vec::new();
    let mut at = first;
    let mut cycle = 0;
    loop {
        if seen[at as usize] != NONE {
            cycle = seen[at as usize] as usize;
            break;
        }
        seen[at as usize] = u32::try_from(path.len()).unwrap_or(NONE);
        path.push(at);
        let crowd = || {
            let &(crowd, _) = graph.crowds.waits.get(&at)?;
            crowds.iter().filter(|&&(of, _)| of == crowd).map(|&(_, event)| event).find(stuck)
        };
        let Some(next) = graph.before(at).iter().map(|&(before, _)| before).find(stuck).or_else(crowd) else {
            break;
        };
        at = next;
    }
    let mut diagnostic = Diagnostic::error("V114", "deadlock: threads wait for each other in a cycle".to_owned());
    let mut locations: Vec<(Location, String)> = Vec::new();
    for &event in &path[cycle..] {
        if graph.operation(event).is_none() {
            continue;
        }
        let location = graph.location(event);
        if locations.iter().all(|(known, _)| *known != location) && locations.len() < 16 {
            diagnostic.notes.push(format!("{location} waits for the next one"));
            locations.push((location, "waits".to_owned()));
        }
    }
    findings.add(diagnostic, locations);
}

/// Edges by their first event.
struct After {
    start: Vec<u32>,
    next: Vec<(u32, Edge)>,
}

impl After {
    fn new(graph: &Graph<'_>) -> Self {
        let count = graph.events.len();
        let mut start = vec![0_u32; count + 1];
        for &(from, _) in &graph.edges {
            start[from as usize + 1] += 1;
        }
        for at in 0..count {
            start[at + 1] += start[at];
        }
        let mut fill = start.clone();
        let mut next = vec![(0, Edge::Progress); graph.edges.len()];
        for (to, _) in (0_u32..).zip(&graph.events) {
            for &(from, edge) in graph.before(to) {
                next[fill[from as usize] as usize] = (to, edge);
                fill[from as usize] += 1;
            }
        }
        Self { start, next }
    }

    fn of(&self, event: u32) -> &[(u32, Edge)] {
        &self.next[self.start[event as usize] as usize..self.start[event as usize + 1] as usize]
    }
}

/// How far an event has heard of each lane, itself included: by strong order, and by any. Shared where events know the same.
#[derive(Clone)]
struct Clock {
    strong: Rc<[u32]>,
    any: Rc<[u32]>,
}

/// How two accesses are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ordered {
    Not,
    Weakly,
    /// Weakly, but over the end of a kernel that the write comes before.
    OverCalls,
    Strongly,
}

struct Races<'a, 'g> {
    graph: &'g Graph<'a>,
    after: After,
    /// By rank and call.
    ends: Vec<Vec<u32>>,
    end_clocks: Vec<Vec<Option<Clock>>>,
    steps: u64,
    limit: u64,
    told: FxHashSet<(&'static str, u32, u32, u32, u32, u32, u32)>,
    pairs: u64,
    /// Worst answers for no-race, contained, repeats.
    answers: [Answer; 3],
    weak_end: u64,
}

#[derive(Clone, Default)]
struct History {
    write: Option<u32>,
    reads: Vec<u32>,
}

pub(super) fn races(
    graph: &Graph<'_>,
    sorted: &[u32],
    options: &OneSidedOptions,
    findings: &mut Findings,
) -> Vec<Check> {
    let lanes = graph.lanes as usize;
    let names = &NAMES[2..5];
    let unknown = |why: &str| names.iter().map(|&name| check(name, Answer::Unknown, why)).collect();
    if options.work_limit.saturating_mul(1024) < (graph.events.len() as u64).saturating_mul(lanes as u64) {
        return unknown("too many events and threadblocks to compare");
    }
    let mut ends: Vec<Vec<u32>> = vec![Vec::new(); graph.program.ranks.len()];
    for (number, event) in (0_u32..).zip(&graph.events) {
        if event.what == What::End {
            ends[event.rank as usize].push(number);
        }
    }
    let end_clocks = ends.iter().map(|ends| vec![None; ends.len()]).collect();
    let mut races = Races {
        graph,
        after: After::new(graph),
        ends,
        end_clocks,
        steps: 0,
        limit: options.work_limit.saturating_mul(64),
        told: FxHashSet::default(),
        pairs: 0,
        answers: [Answer::Proved; 3],
        weak_end: 0,
    };
    let mut clocks: Vec<Option<Clock>> = vec![None; graph.events.len()];
    let mut needed: Vec<u32> = vec![0; graph.events.len()];
    for &(before, _) in graph.edges.iter().filter(|(_, edge)| *edge != Edge::Progress) {
        needed[before as usize] += 1;
    }
    let nothing: Rc<[u32]> = vec![0; lanes].into();
    let mut alive = 0_u64;
    let mut histories = vec![History::default(); graph.places.len()];
    for &event in sorted {
        let mut clock = Clock { strong: Rc::clone(&nothing), any: Rc::clone(&nothing) };
        for &(before, edge) in graph.before(event) {
            if edge != Edge::Progress
                && let Some(other) = &clocks[before as usize]
            {
                join(&mut clock.any, &other.any, &nothing);
                if edge == Edge::Strong {
                    join(&mut clock.strong, &other.strong, &nothing);
                }
            }
        }
        for &(before, edge) in graph.before(event) {
            if edge == Edge::Progress {
                continue;
            }
            needed[before as usize] -= 1;
            if needed[before as usize] == 0 {
                clocks[before as usize] = None;
                alive -= 1;
            }
        }
        let found = graph.events[event as usize];
        if found.lane != NONE {
            for known in [&mut clock.strong, &mut clock.any] {
                let mut raised = known.to_vec();
                raised[found.lane as usize] = raised[found.lane as usize].max(found.at + 1);
                *known = raised.into();
            }
        }
        races.visit(event, &clock, &mut histories, findings);
        if found.what == What::End
            && let Some(place) = races.ends[found.rank as usize].iter().position(|&end| end == event)
        {
            races.end_clocks[found.rank as usize][place] = Some(clock.clone());
        }
        if needed[event as usize] != 0 {
            clocks[event as usize] = Some(clock);
            alive += 1;
        }
        if options.work_limit.saturating_mul(16) < alive.saturating_mul(lanes as u64) {
            return unknown("too many threads run ahead of each other to compare");
        }
        if races.limit < races.steps {
            return unknown("too many threads run ahead of each other to compare");
        }
    }
    let relaxed = match races.weak_end {
        0 => String::new(),
        pairs => format!("; {pairs} of them by something relaxed before the end of a kernel"),
    };
    let detail = |at: usize| match (at, races.answers[at]) {
        (_, Answer::Refuted) => "some accesses are not ordered".to_owned(),
        (1, Answer::Unknown) => "a fast rank may touch a buffer before its owner's call began".to_owned(),
        (_, Answer::Unknown) => "some accesses are ordered by something relaxed, or by a guess, only".to_owned(),
        (0, Answer::Proved) => format!("{} pairs of conflicting accesses, all ordered", races.pairs),
        (1, Answer::Proved) => format!("buffers are touched only between begin and end of their owner's call{relaxed}"),
        (_, Answer::Proved) => format!("{} calls in a row, scratch and counters included", graph.calls),
    };
    (0..3).map(|at| check(names[at], races.answers[at], detail(at))).collect()
}

/// What both have heard.
fn join(into: &mut Rc<[u32]>, from: &Rc<[u32]>, nothing: &Rc<[u32]>) {
    if Rc::ptr_eq(into, nothing) {
        *into = Rc::clone(from);
        return;
    }
    if Rc::ptr_eq(into, from) {
        return;
    }
    match Rc::get_mut(into) {
        Some(own) => own.iter_mut().zip(from.iter()).for_each(|(into, from)| *into = (*into).max(*from)),
        None => *into = into.iter().zip(from.iter()).map(|(a, b)| *a.max(b)).collect(),
    }
}

impl Races<'_, '_> {
    fn visit(&mut self, event: u32, clock: &Clock, histories: &mut [History], findings: &mut Findings) {
        let graph = self.graph;
        let found = graph.events[event as usize];
        if found.what == What::Caller {
            let base = graph.places.base[found.rank as usize];
            let [input, output, _] = graph.places.extents[found.rank as usize];
            for place in base..base + input + output {
                self.access(event, clock, place, true, histories, findings);
            }
            return;
        }
        let Some((transfer, slot)) = graph.transfer(event) else { return };
        if slot == NONE {
            return;
        }
        for site in &transfer.sources {
            self.access(event, clock, graph.place(event, site, slot), false, histories, findings);
        }
        for site in &transfer.targets {
            self.access(event, clock, graph.place(event, site, slot), true, histories, findings);
        }
    }

    fn access(
        &mut self,
        event: u32,
        clock: &Clock,
        place: u32,
        writes: bool,
        histories: &mut [History],
        findings: &mut Findings,
    ) {
        let history = &mut histories[place as usize];
        if let Some(write) = history.write
            && write != event
        {
            self.pair(write, event, clock, place, true, writes, findings);
        }
        if writes {
            let reads = std::mem::take(&mut history.reads);
            for read in reads {
                if read != event {
                    self.pair(read, event, clock, place, false, true, findings);
                }
            }
            history.write = Some(event);
        } else {
            history.reads.push(event);
        }
    }

    fn reaches(&mut self, x: u32, y: u32, clock: &[u32], strong: bool) -> bool {
        let graph = self.graph;
        let heard = |event: u32| {
            let found = graph.events[event as usize];
            (found.lane != NONE).then(|| found.at < clock[found.lane as usize])
        };
        if let Some(heard) = heard(x) {
            return heard;
        }
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        let mut stack = vec![x];
        while let Some(at) = stack.pop() {
            for &(next, edge) in self.after.of(at) {
                let counts = edge == Edge::Strong || edge == Edge::Weak && !strong;
                if !counts {
                    continue;
                }
                if next == y {
                    return true;
                }
                self.steps += 1;
                match heard(next) {
                    Some(true) => return true,
                    Some(false) => {}
                    None => {
                        if seen.insert(next) {
                            stack.push(next);
                        }
                    }
                }
            }
            if self.limit < self.steps {
                return false;
            }
        }
        false
    }

    fn ordered(&mut self, x: u32, y: u32, clock: &Clock, owner: u32) -> Ordered {
        if self.reaches(x, y, &clock.strong, true) {
            return Ordered::Strongly;
        }
        if !self.reaches(x, y, &clock.any, false) {
            return Ordered::Not;
        }
        let first = self.graph.events[x as usize];
        if first.what == What::Caller {
            return Ordered::OverCalls;
        }
        for rank in [first.rank, owner] {
            let Some(&end) = self.ends[rank as usize].get(first.call as usize) else { continue };
            let found = self.graph.events[end as usize];
            let Some(end_clock) = self.end_clocks[rank as usize][first.call as usize].clone() else { continue };
            if found.at < clock.any[found.lane as usize] && self.reaches(x, end, &end_clock.strong, true) {
                return Ordered::OverCalls;
            }
        }
        Ordered::Weakly
    }

    fn pair(
        &mut self,
        x: u32,
        y: u32,
        clock: &Clock,
        place: u32,
        x_writes: bool,
        y_writes: bool,
        findings: &mut Findings,
    ) {
        let graph = self.graph;
        let (first, second) = (graph.events[x as usize], graph.events[y as usize]);
        self.pairs += 1;
        let is_move = matches!(second.what, What::Move { .. });
        if x_writes && !y_writes && is_move && first.call == second.call && self.is_packet(y, place) {
            // The flag is what orders them.
            return;
        }
        let (owner, name) = graph.places.name(place, graph.program.slots_per_chunk);
        let order = self.ordered(x, y, clock, owner);
        let callers = (first.what == What::Caller, second.what == What::Caller);
        if callers == (true, true) {
            return;
        }
        let (code, at, answer) = if callers.0 || callers.1 {
            let (caller, op) = if callers.0 { (first, second) } else { (second, first) };
            if caller.call <= op.call {
                if callers.0 && order != Ordered::Not {
                    return;
                }
                ("V144", 1, Answer::Unknown)
            } else if callers.1 && order != Ordered::Not {
                if x_writes && order == Ordered::Weakly {
                    self.weak_end += 1;
                    ("V146", 1, Answer::Proved)
                } else {
                    return;
                }
            } else {
                ("V143", 1, Answer::Refuted)
            }
        } else if first.call == second.call {
            match order {
                Ordered::Strongly => return,
                Ordered::Not if (first.rank, first.tb) == (second.rank, second.tb) => {
                    // Wide words, all of them, but nobody promises that they are cut alike.
                    let alike = self.wide(x).is_some() && self.wide(x) == self.wide(y);
                    ("V142", 0, if alike { Answer::Unknown } else { Answer::Refuted })
                }
                Ordered::Not => ("V117", 0, Answer::Refuted),
                _ if !x_writes => return,
                _ => ("V146", 0, Answer::Unknown),
            }
        } else {
            match order {
                Ordered::Strongly | Ordered::OverCalls => return,
                Ordered::Weakly if !x_writes => return,
                Ordered::Weakly => ("V146", 2, Answer::Unknown),
                Ordered::Not => ("V145", 2, Answer::Refuted),
            }
        };
        // Where several threads signal one counter, an order may hold that is not known.
        let answer = if answer == Answer::Refuted && !graph.crowds.waits.is_empty() { Answer::Unknown } else { answer };
        let worse = match (self.answers[at], answer) {
            (Answer::Refuted, _) | (_, Answer::Refuted) => Answer::Refuted,
            (Answer::Unknown, _) | (_, Answer::Unknown) => Answer::Unknown,
            _ => Answer::Proved,
        };
        self.answers[at] = worse;
        let key = (code, first.rank, first.tb, first.op, second.rank, second.tb, second.op);
        if !self.told.insert(key) {
            return;
        }
        self.tell(code, answer, (x, x_writes), (y, y_writes), &name, owner, findings);
    }

    /// The slot of a move that handles data in wide words.
    fn wide(&self, event: u32) -> Option<u32> {
        match (self.graph.events[event as usize].what, &self.graph.operation(event)?.kind) {
            (What::Move { slot, .. }, OneSidedKind::Move { elements, .. }) if *elements != Elements::Packet => {
                Some(slot)
            }
            _ => None,
        }
    }

    fn is_packet(&self, event: u32, place: u32) -> bool {
        self.graph.transfer(event).is_some_and(|(transfer, slot)| {
            transfer.sources.iter().any(|site| site.packet && self.graph.place(event, site, slot) == place)
        })
    }

    fn tell(
        &self,
        code: &'static str,
        answer: Answer,
        (x, x_writes): (u32, bool),
        (y, y_writes): (u32, bool),
        name: &str,
        owner: u32,
        findings: &mut Findings,
    ) {
        let graph = self.graph;
        let words = |event: u32, writes: bool| {
            let verb = if writes { "writes" } else { "reads" };
            if graph.events[event as usize].what == What::Caller {
                format!("the caller of r{owner}")
            } else {
                format!("{} {verb} it", graph.location(event))
            }
        };
        let (a, b) = (words(x, x_writes), words(y, y_writes));
        let owner = RankId::from(owner);
        let mut diagnostic = match code {
            "V142" => Diagnostic::error(code, format!("{name}: {a}, {b}, and threads run ahead"))
                .help("put a `nop` between them"),
            "V143" => {
                Diagnostic::error(code, format!("{name}: {owner} does not wait for a peer before its call returns"))
            }
            "V144" => Diagnostic::warning(code, format!("{name}: a peer does not wait for {owner} to begin its call"))
                .help("begin with a signal and a wait"),
            "V145" => Diagnostic::error(code, format!("{name}: {a} in one call, {b} in another, in no order")),
            "V146" => Diagnostic::warning(code, format!("{name}: {a}, then {b}, ordered by something relaxed only"))
                .note("by reading the kernel source; not run on a GPU"),
            _ => Diagnostic::error(code, format!("{name}: {a}, {b}, in no order")),
        };
        if answer != Answer::Refuted {
            diagnostic.severity = Severity::Warning;
        }
        let mut locations = Vec::new();
        for (event, writes) in [(y, y_writes), (x, x_writes)] {
            if graph.operation(event).is_some() {
                locations.push((graph.location(event), if writes { "writes" } else { "reads" }.to_owned()));
            }
        }
        if matches!(code, "V143" | "V144")
            && let Some((location, verb)) = locations.first()
        {
            diagnostic.notes.push(format!("{location} {verb} it"));
        }
        findings.add(diagnostic, locations);
    }
}
