//! Greedy runs: a total order of the atoms, deadlock, and the FIFO depth that a program needs.

use std::collections::VecDeque;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;

use super::atoms::{Action, Atoms};
use super::flat::{Flat, NONE};
use super::report::{Findings, Location};
use crate::{Answer, Check};

/// A FIFO that never fills.
const UNLIMITED: u32 = u32::MAX;

/// What a run ended with.
struct Run {
    /// Next atom of each threadblock.
    next: Vec<u32>,
    order: Vec<u32>,
    sent: Vec<u32>,
    received: Vec<u32>,
}

impl Run {
    fn finished(&self, atoms: &Atoms) -> bool {
        self.next.iter().zip(&atoms.start[1..]).all(|(next, end)| next == end)
    }
}

/// Runs whatever can run until nothing can. Nothing is taken away from anybody, so the end does not depend on the order.
///
/// `hold` is an atom that is not allowed to run.
fn run(flat: &Flat<'_>, atoms: &Atoms, depth: u32, hold: u32, record: bool) -> Run {
    let blocks = flat.tbs.len();
    let mut next: Vec<u32> = atoms.start[..blocks].to_vec();
    let mut order = Vec::with_capacity(if record { atoms.list.len() } else { 0 });
    let (mut sent, mut received) = (vec![0_u32; flat.conns.len()], vec![0_u32; flat.conns.len()]);
    // Bit 0: the receiver waits; bit 1: the sender waits.
    let mut blocked = vec![0_u8; flat.conns.len()];
    let mut counts = vec![0_u64; atoms.counters.len()];
    let mut count_waiters: Vec<Vec<u32>> = vec![Vec::new(); atoms.counters.len()];
    let mut arrived = vec![0_u32; atoms.barriers.len()];
    let mut opened = vec![0_u32; atoms.barriers.len()];
    let mut barrier_waiters: Vec<Vec<u32>> = vec![Vec::new(); atoms.barriers.len()];
    let mut progress_waiters: Vec<Vec<u32>> = vec![Vec::new(); blocks];
    let mut queue: VecDeque<u32> = (0..super::form::index(blocks)).collect();
    let mut queued = vec![true; blocks];
    while let Some(tb) = queue.pop_front() {
        let tb_index = tb as usize;
        queued[tb_index] = false;
        let mut wake = |tb: u32, queue: &mut VecDeque<u32>| {
            if !std::mem::replace(&mut queued[tb as usize], true) {
                queue.push_back(tb);
            }
        };
        let first = next[tb_index];
        let end = atoms.start[tb_index + 1];
        let mut at = first;
        'steps: while at < end && at != hold {
            let atom = &atoms.list[at as usize];
            let mut action = Action::None;
            if atom.extra != NONE {
                let extra = &atoms.extras[atom.extra as usize];
                action = extra.action;
                for &(other, dep) in &atoms.deps[extra.deps.start as usize..extra.deps.end as usize] {
                    let reached = if other == tb { at } else { next[other as usize] };
                    if reached <= dep {
                        progress_waiters[other as usize].push(tb);
                        break 'steps;
                    }
                }
                match action {
                    Action::Wait(c, value) if counts[c as usize] < value => {
                        count_waiters[c as usize].push(tb);
                        break 'steps;
                    }
                    Action::Leave(b, turn) if opened[b as usize] <= turn => {
                        barrier_waiters[b as usize].push(tb);
                        break 'steps;
                    }
                    Action::None | Action::Signal(_) | Action::Wait(..) | Action::Arrive(_) | Action::Leave(..) => {}
                }
            }
            if atom.receive != NONE && sent[atom.receive as usize] == received[atom.receive as usize] {
                blocked[atom.receive as usize] |= 1;
                break;
            }
            if atom.send != NONE && depth <= sent[atom.send as usize] - received[atom.send as usize] {
                blocked[atom.send as usize] |= 2;
                break;
            }
            if atom.receive != NONE {
                let conn = atom.receive as usize;
                received[conn] += 1;
                if blocked[conn] & 2 != 0 {
                    blocked[conn] &= !2;
                    wake(flat.conns[conn].sender, &mut queue);
                }
            }
            if atom.send != NONE {
                let conn = atom.send as usize;
                sent[conn] += 1;
                if blocked[conn] & 1 != 0 {
                    blocked[conn] &= !1;
                    wake(flat.conns[conn].receiver, &mut queue);
                }
            }
            match action {
                Action::Signal(c) => {
                    counts[c as usize] += 1;
                    for waiter in count_waiters[c as usize].drain(..) {
                        wake(waiter, &mut queue);
                    }
                }
                Action::Arrive(b) => {
                    let b = b as usize;
                    arrived[b] += 1;
                    if arrived[b] == atoms.barriers[b].participants {
                        arrived[b] = 0;
                        opened[b] += 1;
                        for waiter in barrier_waiters[b].drain(..) {
                            wake(waiter, &mut queue);
                        }
                    }
                }
                Action::None | Action::Wait(..) | Action::Leave(..) => {}
            }
            if record {
                order.push(at);
            }
            at += 1;
        }
        next[tb_index] = at;
        if first < at {
            for waiter in std::mem::take(&mut progress_waiters[tb_index]) {
                wake(waiter, &mut queue);
            }
        }
    }
    Run { next, order, sent, received }
}

/// A total order of all atoms that a runtime with deep enough FIFOs may choose; `None` if it gets stuck.
pub(super) fn total_order(flat: &Flat<'_>, atoms: &Atoms) -> Option<Vec<u32>> {
    let run = run(flat, atoms, UNLIMITED, NONE, true);
    run.finished(atoms).then_some(run.order)
}

/// Whether an interleaving exists in which `late` has not run when `early` does.
pub(super) fn can_precede(flat: &Flat<'_>, atoms: &Atoms, early: u32, late: u32) -> bool {
    let run = run(flat, atoms, UNLIMITED, late, false);
    early < run.next[atoms.list[early as usize].tb as usize]
}

/// Atom → its place in the order.
pub(super) fn positions(order: &[u32]) -> Vec<u32> {
    let mut positions = vec![NONE; order.len()];
    for (position, &atom) in (0_u32..).zip(order) {
        positions[atom as usize] = position;
    }
    positions
}

/// What the search for deadlock found. Depths are those from which the program finishes.
pub(super) struct Deadlock {
    whole: u32,
    split: u32,
}

/// Searches the smallest safe depths of a program that finishes with unlimited FIFOs.
pub(super) fn deadlock(flat: &Flat<'_>, whole: Option<&Atoms>, split: &Atoms, depth: u32) -> Deadlock {
    let for_split = safe_from(flat, split, depth);
    Deadlock { whole: whole.map_or(for_split, |whole| safe_from(flat, whole, depth)), split: for_split }
}

/// The smallest depth at which the program finishes; more depth never hurts.
fn safe_from(flat: &Flat<'_>, atoms: &Atoms, depth: u32) -> u32 {
    let most = atoms.messages.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0).max(1);
    let safe = |depth: u32| most <= depth || run(flat, atoms, depth, NONE, false).finished(atoms);
    // Most programs are safe from 1 or 2.
    let mut low = 0;
    let mut high = 1;
    while !safe(high) {
        low = high;
        high = if high < depth && depth < high.saturating_mul(2) { depth } else { high.saturating_mul(2) }.min(most);
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if safe(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

impl Deadlock {
    /// The check and its findings.
    pub(super) fn report(
        &self,
        flat: &Flat<'_>,
        whole: Option<&Atoms>,
        split: &Atoms,
        depth: u32,
        findings: &mut Findings,
    ) -> Check {
        let Self { whole: for_whole, split: for_split } = *self;
        let mut detail = format!("safe from FIFO depth {for_whole}");
        if whole.is_some() {
            detail.push_str(&format!(", from {for_split} when a runtime splits messages into single slots"));
        }
        if flat.conns.is_empty() {
            detail = "uses no FIFO".to_owned();
        } else {
            detail.push_str(&format!("; connections hold {depth}"));
        }
        if depth < for_whole {
            let atoms = whole.unwrap_or(split);
            let what = format!("deadlock at FIFO depth {depth}");
            stuck(flat, atoms, depth, "V115", &what, Some(for_whole), findings);
        } else if depth < for_split {
            let what = format!("deadlock at FIFO depth {depth} when messages are split into single slots");
            stuck(flat, split, depth, "V116", &what, Some(for_split), findings);
        }
        let answer = if for_whole.max(for_split) <= depth { Answer::Proved } else { Answer::Refuted };
        super::check("no-deadlock", answer, detail)
    }
}

/// Reports a program that does not finish even with unlimited FIFOs.
pub(super) fn report_stuck(flat: &Flat<'_>, whole: &Atoms, split: &Atoms, findings: &mut Findings) {
    let finishes = run(flat, whole, UNLIMITED, NONE, false).finished(whole);
    let atoms = if finishes { split } else { whole };
    stuck(flat, atoms, UNLIMITED, "V114", "deadlock at every FIFO depth", None, findings);
}

/// Names the shortest cycle of waits.
fn stuck(
    flat: &Flat<'_>,
    atoms: &Atoms,
    depth: u32,
    code: &'static str,
    what: &str,
    safe_from: Option<u32>,
    findings: &mut Findings,
) {
    let ended = run(flat, atoms, depth, NONE, false);
    let blocked: Vec<u32> = (0..super::form::index(flat.tbs.len()))
        .filter(|&tb| ended.next[tb as usize] < atoms.start[tb as usize + 1])
        .collect();
    let cycle = shortest_cycle(flat, atoms, &ended, depth, &blocked);
    let mut locations: Vec<(Location, String)> = Vec::new();
    let mut diagnostic = Diagnostic::error(code, String::new());
    for &(tb, other) in &cycle {
        let at = ended.next[tb as usize];
        let location = flat.location(atoms.list[at as usize].op);
        let reason = reason(flat, atoms, &ended, depth, at, other);
        if locations.len() < 16 {
            diagnostic.notes.push(format!("{location} waits {reason}"));
        }
        locations.push((location, format!("waits {reason}")));
    }
    let more = cycle.len().saturating_sub(16);
    if more != 0 {
        diagnostic.notes.push(format!("and so on: {more} more, the last of which waits for the first"));
    }
    let first = locations.first().map_or_else(|| "some threadblock".to_owned(), |(location, _)| location.to_string());
    diagnostic.message = format!(
        "{what}: {first} and {} other threadblock{} wait for each other; {} of {} do not finish",
        cycle.len().saturating_sub(1),
        if cycle.len() == 2 { "" } else { "s" },
        blocked.len(),
        flat.tbs.len()
    );
    if let Some(safe) = safe_from {
        diagnostic.help.push(format!("it finishes from FIFO depth {safe} on; or receive before sending more"));
    }
    findings.add(diagnostic, locations);
}

/// What the threadblock that stands before `at` waits for: unfinished threadblocks.
fn waits_for(flat: &Flat<'_>, atoms: &Atoms, ended: &Run, depth: u32, at: u32) -> Vec<u32> {
    let atom = &atoms.list[at as usize];
    let unfinished = |tb: u32| tb != NONE && ended.next[tb as usize] < atoms.start[tb as usize + 1];
    let mut others = Vec::new();
    if atom.extra != NONE {
        let extra = &atoms.extras[atom.extra as usize];
        for &(tb, dep) in &atoms.deps[extra.deps.start as usize..extra.deps.end as usize] {
            if ended.next[tb as usize] <= dep {
                others.push(tb);
            }
        }
        match extra.action {
            Action::Wait(c, _) => {
                let producers = &atoms.counters[c as usize].producers;
                others.extend(
                    producers
                        .iter()
                        .filter(|(tb, signals)| signals.last().is_some_and(|&last| ended.next[*tb as usize] <= last))
                        .map(|&(tb, _)| tb),
                );
            }
            Action::Leave(b, turn) => {
                for &arrival in &atoms.barriers[b as usize].arrivals[turn as usize] {
                    let tb = atoms.list[arrival as usize].tb;
                    if ended.next[tb as usize] <= arrival {
                        others.push(tb);
                    }
                }
            }
            Action::None | Action::Signal(_) | Action::Arrive(_) => {}
        }
    }
    if others.is_empty() && atom.receive != NONE {
        let conn = atom.receive as usize;
        if ended.sent[conn] == ended.received[conn] {
            others.push(flat.conns[conn].sender);
        }
    }
    if others.is_empty() && atom.send != NONE {
        let conn = atom.send as usize;
        if depth <= ended.sent[conn] - ended.received[conn] {
            others.push(flat.conns[conn].receiver);
        }
    }
    others.retain(|&tb| unfinished(tb));
    others
}

/// Words for it.
fn reason(flat: &Flat<'_>, atoms: &Atoms, ended: &Run, depth: u32, at: u32, other: u32) -> String {
    let atom = &atoms.list[at as usize];
    let block = &flat.tbs[other as usize];
    let other_name = format!("{} threadblock {}", RankId::from(block.rank), block.id);
    if atom.extra != NONE {
        let extra = &atoms.extras[atom.extra as usize];
        for &(tb, dep) in &atoms.deps[extra.deps.start as usize..extra.deps.end as usize] {
            if tb == other && ended.next[tb as usize] <= dep {
                return format!("for {} to be done", flat.location(atoms.list[dep as usize].op));
            }
        }
        match extra.action {
            Action::Wait(c, value) if atoms.counters[c as usize].producers.iter().any(|&(tb, _)| tb == other) => {
                return format!("for a counter to reach {value}, with signals of {other_name}");
            }
            Action::Leave(..) => return format!("at a barrier for {other_name}"),
            Action::None | Action::Signal(_) | Action::Wait(..) | Action::Arrive(_) => {}
        }
    }
    if atom.receive != NONE && ended.sent[atom.receive as usize] == ended.received[atom.receive as usize] {
        return format!("for a message of {other_name}");
    }
    let conn = &flat.conns[atom.send as usize];
    let waiting = ended.sent[atom.send as usize] - ended.received[atom.send as usize];
    format!(
        "for room on r{} -> r{} channel {}, where {waiting} of {depth} messages wait for {other_name}",
        conn.src, conn.dst, conn.channel
    )
}

/// The shortest cycle found, as (threadblock, the next one that it waits for).
fn shortest_cycle(flat: &Flat<'_>, atoms: &Atoms, ended: &Run, depth: u32, blocked: &[u32]) -> Vec<(u32, u32)> {
    let mut edges: Vec<Vec<u32>> = vec![Vec::new(); flat.tbs.len()];
    for &tb in blocked {
        edges[tb as usize] = waits_for(flat, atoms, ended, depth, ended.next[tb as usize]);
    }
    let mut best: Vec<(u32, u32)> = Vec::new();
    // A cycle is found from any of its members; a search from all of them may be long, so it stops after some.
    let mut work = 0_usize;
    for &first in blocked {
        let mut parent = vec![NONE; flat.tbs.len()];
        let mut queue = VecDeque::from([first]);
        let mut closed = NONE;
        'search: while let Some(tb) = queue.pop_front() {
            for &other in &edges[tb as usize] {
                work += 1;
                if other == first {
                    closed = tb;
                    break 'search;
                }
                if parent[other as usize] == NONE {
                    parent[other as usize] = tb;
                    queue.push_back(other);
                }
            }
        }
        if closed != NONE {
            let mut cycle = vec![(closed, first)];
            let mut at = closed;
            while at != first {
                let before = parent[at as usize];
                cycle.push((before, at));
                at = before;
            }
            cycle.reverse();
            if best.is_empty() || cycle.len() < best.len() {
                best = cycle;
            }
        }
        work += flat.tbs.len() / 64;
        if best.len() == 1 || (1 << 22 < work && !best.is_empty()) {
            break;
        }
    }
    best
}
