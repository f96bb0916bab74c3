//! What is claimed of a program as SMT-LIB 2, for any solver: a second opinion, encoded from the program by code of its own.
//!
//! Events are operations, one a message or one a slot of it. Each has an integer *order variable*.
//!
//! - **no-deadlock**: program order, dependencies, the k-th send before the k-th receive, and the k-th receive before the
//!   (k + depth)-th send of a connection. An assignment is an order in which everything happens, so `sat` is the proof.
//! - **no-race**: the same without room in FIFOs, and some two conflicting accesses the other way round. `unsat` says that there
//!   is no such order. Accesses are compared with their neighbours in one order of all events; order is transitive.
//! - **completes**: inputs are variables, operations are terms, and some output differs from what it must hold. `unsat` is the proof
//!   for all inputs.
//!
//! Programs of FIFO operations (move, reduce, nop) are covered; other operations and programs above the limits are left out by
//! name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use rondo_ir::collective::{Buffer, Contribution, Expected, Place};
use rondo_ir::program::{Connection, Operation, OperationKind, Program};

use crate::Claim;

/// Sizes up to which parts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateLimits {
    /// Events of the order parts.
    pub events: usize,
    /// Conflicting accesses of the race part.
    pub conflicts: usize,
    /// Slots that move in the result part.
    pub moves: usize,
}

impl CertificateLimits {
    /// What another solver does in seconds.
    pub const FILE: Self = Self { events: 4000, conflicts: 1000, moves: 200_000 };
    /// What Z3 does at once, as a second opinion beside the exact checks.
    pub const OPINION: Self = Self { events: 1000, conflicts: 300, moves: 6000 };
}

/// A query and the answer that proves the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The check that it is about: `no-deadlock`, `no-race` or `completes`.
    pub check: &'static str,
    /// What it covers, in words.
    pub covers: String,
    /// Whether `sat` is the proof; else `unsat` is.
    pub satisfiable: bool,
    /// Declarations and assertions.
    pub assertions: String,
}

/// The queries of a program, and what was left out.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProgramCertificate {
    /// In the order of the checks.
    pub parts: Vec<Part>,
    /// Check and reason.
    pub omitted: Vec<(&'static str, String)>,
}

impl ProgramCertificate {
    /// One file: each query between `push` and `pop`, with the answer that it must get as `:status`.
    #[must_use]
    pub fn to_text(&self, about: &str) -> String {
        let about: String = about.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut text = format!("; {about}\n; each check-sat must answer what :status says before it\n");
        for (check, reason) in &self.omitted {
            let _ = writeln!(text, "; not covered: {check}: {reason}");
        }
        text.push_str("(set-logic QF_LIA)\n");
        for part in &self.parts {
            let status = if part.satisfiable { "sat" } else { "unsat" };
            let _ = writeln!(text, "; {}: {}", part.check, part.covers);
            let _ = write!(text, "(push 1)\n(set-info :status {status})\n{}(check-sat)\n(pop 1)\n", part.assertions);
        }
        text
    }
}

/// An operation, or one slot of a message.
struct Event<'a> {
    rank: usize,
    tb: usize,
    operation: &'a Operation,
    /// First slot, and how many.
    slots: (u32, u32),
}

/// Events with the edges between threadblocks.
struct Events<'a> {
    list: Vec<Event<'a>>,
    /// (earlier, later).
    order: Vec<(usize, usize)>,
    /// Room in FIFOs.
    room: Vec<(usize, usize)>,
}

type Key = (usize, usize, u32);

/// Ends of a connection that an operation uses, as (source, destination, channel).
fn ends(rank: usize, operation: &Operation) -> (Option<Key>, Option<Key>) {
    let OperationKind::Move { receive, send, .. } = &operation.kind else { return (None, None) };
    let from = receive.map(|Connection { peer, channel }| (peer.index(), rank, channel));
    let to = send.map(|Connection { peer, channel }| (rank, peer.index(), channel));
    (from, to)
}

impl<'a> Events<'a> {
    fn new(program: &'a Program, split: bool, limit: usize) -> Result<Self, String> {
        let mut list: Vec<Event<'a>> = Vec::new();
        let mut order = Vec::new();
        // By rank and threadblock: the last event of each operation.
        let mut last: Vec<Vec<Vec<usize>>> = Vec::new();
        let mut sends: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        let mut receives: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (rank, of_rank) in program.ranks.iter().enumerate() {
            let mut tbs = Vec::new();
            for (tb, threadblock) in of_rank.threadblocks.iter().enumerate() {
                let mut ends_of = Vec::new();
                let first = list.len();
                for operation in &threadblock.operations {
                    let count = match &operation.kind {
                        OperationKind::Nop => 0,
                        OperationKind::Move { count, .. } | OperationKind::Reduce { count, .. } => *count,
                        _ => return Err("an operation other than move, reduce and nop".to_owned()),
                    };
                    let (receive, send) = ends(rank, operation);
                    let message = receive.is_some() || send.is_some();
                    let parts = if split && message { count } else { 1 };
                    for part in 0..parts {
                        let slots = if parts == 1 { (0, count) } else { (part, 1) };
                        for (key, of) in [(receive, &mut receives), (send, &mut sends)] {
                            if let Some(key) = key {
                                of.entry(key).or_default().push(list.len());
                            }
                        }
                        if first < list.len() {
                            order.push((list.len() - 1, list.len()));
                        }
                        list.push(Event { rank, tb, operation, slots });
                        if limit < list.len() {
                            return Err(format!("more than {limit} events"));
                        }
                    }
                    ends_of.push(list.len().saturating_sub(1));
                }
                tbs.push(ends_of);
            }
            last.push(tbs);
        }
        for number in 0..list.len() {
            let event = &list[number];
            // Only the first slot of an operation waits.
            if 0 < event.slots.0 {
                continue;
            }
            for wait in &event.operation.waits_for {
                let tb = wait.threadblock as usize;
                let operations =
                    &program.ranks[event.rank].threadblocks.get(tb).ok_or("a wait for nothing")?.operations;
                let published = (wait.operation as usize..operations.len()).find(|&at| operations[at].publishes);
                order.push((last[event.rank][tb][published.ok_or("a wait for what is never published")?], number));
            }
        }
        let mut room = Vec::new();
        let depth = program.fifo_depth as usize;
        if sends.keys().ne(receives.keys()) {
            return Err("sends without receives".to_owned());
        }
        for (key, sent) in &sends {
            let received = &receives[key];
            if sent.len() != received.len() {
                return Err("sends and receives that do not pair up".to_owned());
            }
            order.extend(sent.iter().copied().zip(received.iter().copied()));
            room.extend(received.iter().copied().zip(sent.iter().skip(depth).copied()));
        }
        Ok(Self { list, order, room })
    }

    /// Declarations and edges.
    fn assertions(&self, room: bool) -> String {
        let mut text = String::new();
        for number in 0..self.list.len() {
            let _ = writeln!(text, "(declare-fun o{number} () Int)");
        }
        let edges: BTreeSet<_> = self.order.iter().chain(self.room.iter().filter(|_| room)).collect();
        for (early, late) in edges {
            let _ = writeln!(text, "(assert (< o{early} o{late}))");
        }
        text
    }

    /// One order of all events that respects what must come before; `None` if there is none.
    fn sorted(&self) -> Option<Vec<usize>> {
        let mut later: Vec<Vec<usize>> = vec![Vec::new(); self.list.len()];
        let mut open = vec![0_usize; self.list.len()];
        for &(early, late) in &self.order {
            later[early].push(late);
            open[late] += 1;
        }
        let mut ready: VecDeque<usize> = (0..self.list.len()).filter(|&event| open[event] == 0).collect();
        let mut sorted = Vec::with_capacity(self.list.len());
        while let Some(event) = ready.pop_front() {
            sorted.push(event);
            for &next in &later[event] {
                open[next] -= 1;
                if open[next] == 0 {
                    ready.push_back(next);
                }
            }
        }
        (sorted.len() == self.list.len()).then_some(sorted)
    }
}

/// Writes the queries of a program that the exact checks have proved.
#[must_use]
pub fn certificate(claim: &Claim, program: &Program, limits: &CertificateLimits) -> ProgramCertificate {
    let mut result = ProgramCertificate::default();
    let wide = program.ranks.iter().flat_map(|rank| &rank.threadblocks).flat_map(|tb| &tb.operations).any(
        |operation| matches!(&operation.kind, OperationKind::Move { count, .. } if ends(0, operation) != (None, None) && 1 < *count),
    );
    let depth = program.fifo_depth;
    let mut deadlock = |split: bool, what: &str| match Events::new(program, split, limits.events) {
        Ok(events) => result.parts.push(Part {
            check: "no-deadlock",
            covers: format!("{} events at FIFO depth {depth}, {what}", events.list.len()),
            satisfiable: true,
            assertions: events.assertions(true),
        }),
        Err(reason) => result.omitted.push(("no-deadlock", reason)),
    };
    if wide {
        deadlock(false, "a message an operation");
    }
    deadlock(true, "a message a slot");
    match race(claim, program, limits) {
        Ok(part) => result.parts.push(part),
        Err(reason) => result.omitted.push(("no-race", reason)),
    }
    match outcome(claim, program, limits) {
        Ok(part) => result.parts.push(part),
        Err(reason) => result.omitted.push(("completes", reason)),
    }
    result
}

/// A place in memory: rank, buffer, slot, under its canonical name.
type Memory = (usize, Buffer, u32);

/// Reads and writes of an event, reads first.
fn accesses(claim: &Claim, event: &Event<'_>) -> Result<(Vec<Memory>, Vec<Memory>), String> {
    let layout = claim.collective.layout(claim.chunks).map_err(|error| error.to_string())?;
    let (first, count) = event.slots;
    let memory = |place: Place| -> Vec<Memory> {
        (first..first + count)
            .map(|slot| {
                let place = layout.canonical(u32::try_from(event.rank).unwrap_or(u32::MAX), place.offset(slot));
                (event.rank, place.buffer(), place.slot())
            })
            .collect()
    };
    Ok(match &event.operation.kind {
        OperationKind::Move { local, store, .. } => {
            (local.map(memory).unwrap_or_default(), store.map(memory).unwrap_or_default())
        }
        OperationKind::Reduce { sources, dst, .. } => {
            let mut reads: Vec<Memory> = sources.iter().flat_map(|&source| memory(source)).collect();
            reads.extend(memory(*dst));
            (reads, memory(*dst))
        }
        _ => (Vec::new(), Vec::new()),
    })
}

fn race(claim: &Claim, program: &Program, limits: &CertificateLimits) -> Result<Part, String> {
    let events = Events::new(program, true, limits.events)?;
    let sorted = events.sorted().ok_or("no order of the events")?;
    let mut writer: BTreeMap<Memory, usize> = BTreeMap::new();
    let mut readers: BTreeMap<Memory, Vec<usize>> = BTreeMap::new();
    let mut conflicts: BTreeSet<(usize, usize)> = BTreeSet::new();
    let place_of = |event: usize| (events.list[event].rank, events.list[event].tb);
    for &event in &sorted {
        let (reads, writes) = accesses(claim, &events.list[event])?;
        let mut conflict = |early: usize| {
            if place_of(early) != place_of(event) {
                conflicts.insert((early, event));
            }
        };
        for at in reads {
            writer.get(&at).copied().map(&mut conflict);
            readers.entry(at).or_default().push(event);
        }
        for at in writes {
            readers.remove(&at).into_iter().flatten().filter(|&reader| reader != event).for_each(&mut conflict);
            writer.insert(at, event).filter(|&before| before != event).map(&mut conflict);
        }
        if limits.conflicts < conflicts.len() {
            return Err(format!("more than {} pairs of conflicting accesses", limits.conflicts));
        }
    }
    let mut assertions = events.assertions(false);
    assertions.push_str("(assert (or false");
    for (early, late) in &conflicts {
        let _ = write!(assertions, "\n  (<= o{late} o{early})");
    }
    assertions.push_str("))\n");
    let covers = format!("{} pairs of conflicting accesses among {} events", conflicts.len(), events.list.len());
    Ok(Part { check: "no-race", covers, satisfiable: false, assertions })
}

fn outcome(claim: &Claim, program: &Program, limits: &CertificateLimits) -> Result<Part, String> {
    let collective = &claim.collective;
    let layout = collective.layout(claim.chunks).map_err(|error| error.to_string())?;
    let events = Events::new(program, true, limits.moves)?;
    let sorted = events.sorted().ok_or("no order of the events")?;
    let (sort, add) = if collective.operator().is_idempotent() { ("Bool", "or") } else { ("Int", "+") };
    let input = |c: Contribution| format!("x{}_{}", c.origin, c.slot);
    let mut text = String::new();
    let mut state: BTreeMap<Memory, String> = BTreeMap::new();
    layout.precondition(|rank, place, contribution| {
        let _ = writeln!(text, "(declare-fun {} () {sort})", input(contribution));
        state.insert((rank as usize, place.buffer(), place.slot()), input(contribution));
    });
    let mut messages: BTreeMap<Key, VecDeque<String>> = BTreeMap::new();
    let mut terms = 0_usize;
    for &event in &sorted {
        let event = &events.list[event];
        let rank = u32::try_from(event.rank).unwrap_or(u32::MAX);
        let at = |place: Place, slot: u32| {
            let place = layout.canonical(rank, place.offset(slot));
            (event.rank, place.buffer(), place.slot())
        };
        let mut sum = |a: String, b: &str| {
            terms += 1;
            let _ = writeln!(text, "(define-fun t{terms} () {sort} ({add} {a} {b}))");
            format!("t{terms}")
        };
        let undefined = || "something undefined is read".to_owned();
        let (from, to) = ends(event.rank, event.operation);
        // All is read before anything is written.
        let mut written: Vec<(Memory, String)> = Vec::new();
        for slot in event.slots.0..event.slots.0 + event.slots.1 {
            match &event.operation.kind {
                OperationKind::Move { local, store, .. } => {
                    let received = match from {
                        Some(key) => Some(messages.get_mut(&key).and_then(VecDeque::pop_front).ok_or_else(undefined)?),
                        None => None,
                    };
                    let local = match local {
                        Some(place) => Some(state.get(&at(*place, slot)).cloned().ok_or_else(undefined)?),
                        None => None,
                    };
                    let value = match (received, local) {
                        (Some(received), Some(local)) => sum(received, &local),
                        (Some(value), None) | (None, Some(value)) => value,
                        (None, None) => continue,
                    };
                    if let Some(key) = to {
                        messages.entry(key).or_default().push_back(value.clone());
                    }
                    if let Some(place) = store {
                        written.push((at(*place, slot), value));
                    }
                }
                OperationKind::Reduce { sources, dst, .. } => {
                    let mut value = state.get(&at(*dst, slot)).cloned().ok_or_else(undefined)?;
                    for source in sources {
                        let other = state.get(&at(*source, slot)).cloned().ok_or_else(undefined)?;
                        value = sum(value, &other);
                    }
                    written.push((at(*dst, slot), value));
                }
                _ => {}
            }
        }
        state.extend(written);
        if limits.moves < terms {
            return Err(format!("more than {} additions", limits.moves));
        }
    }
    let mut outputs = 0;
    let mut wrong = String::from("(assert (or false");
    for rank in 0..collective.ranks() {
        for slot in 0..layout.slots(rank, Buffer::Output) {
            let Some(expected) = layout.postcondition(rank, slot) else { continue };
            outputs += 1;
            let place = layout.canonical(rank, Place::output(slot));
            let held = state.get(&(rank as usize, place.buffer(), place.slot())).ok_or("an output is never written")?;
            let due = match &expected {
                Expected::One(contribution) => input(*contribution),
                other => {
                    let parts: Vec<String> =
                        other
                            .to_multiset(collective.ranks())
                            .into_iter()
                            .map(|(c, count)| {
                                if count == 1 || sort == "Bool" {
                                    input(c)
                                } else {
                                    format!("(* {count} {})", input(c))
                                }
                            })
                            .collect();
                    match parts.as_slice() {
                        [one] => one.clone(),
                        many => format!("({add} {})", many.join(" ")),
                    }
                }
            };
            let _ = write!(wrong, "\n  (not (= {held} {due}))");
        }
    }
    text.push_str(&wrong);
    text.push_str("))\n");
    let covers = format!("{outputs} output slots, for all inputs");
    Ok(Part { check: "completes", covers, satisfiable: false, assertions: text })
}
