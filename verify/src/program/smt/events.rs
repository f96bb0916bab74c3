//! A program read anew: events, and what must come before what. Shares no code with the graph algorithm.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_ir::collective::{Layout, Place};
use rondo_ir::index::RankId;
use rondo_ir::program::{Operation, OperationKind, Program, SourceSpan};
use rustc_hash::FxHashMap;

use super::Defect;
use crate::program::Location;

/// What an event is of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// One slot of what is sent or received.
    Slot(u32),
    /// Arriving at a barrier; leaving it is [`Part::Whole`].
    Arrive,
    /// The end of a loop; its beginning is [`Part::Whole`].
    End,
}

/// Something that happens at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub(super) rank: u32,
    /// Counted over all ranks.
    pub(super) thread: u32,
    /// Number of the threadblock in its file.
    id: u32,
    top: u32,
    inner: Option<u32>,
    pub(super) operation: &'a Operation,
    pub(super) part: Part,
    turn: u32,
}

impl Event<'_> {
    pub(super) fn location(&self) -> Location {
        let span: SourceSpan = self.operation.span;
        let rank = RankId::from(self.rank);
        Location { rank, threadblock: Some(self.id), operation: Some(self.top), inner: self.inner, span }
    }
}

/// A wait for some of several threadblocks' signals, whichever come first.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) wait: u32,
    pub(super) signals: Vec<u32>,
    pub(super) needed: u64,
}

/// The unrolled program.
#[derive(Debug)]
pub(super) struct Events<'a> {
    pub(super) list: Vec<Event<'a>>,
    /// (before, after)
    pub(super) orders: Vec<(u32, u32)>,
    /// The same for room in FIFOs, which only a run must respect; data may not rely on it.
    pub(super) room: Vec<(u32, u32)>,
    pub(super) choices: Vec<Choice>,
    /// For each event that receives: the one that sent.
    pub(super) sent_by: FxHashMap<u32, u32>,
    /// Whether some message has several slots.
    pub(super) wide: bool,
}

/// More events than the limit.
#[derive(Debug)]
pub(super) struct TooMany;

/// How a program is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// A message a slot, else a message an operation.
    pub(super) split: bool,
    pub(super) depth: u32,
    pub(super) limit: usize,
    pub(super) defect: Defect,
}

/// What is collected on the way.
#[derive(Default)]
struct Met {
    /// By connection: sends and receives in order.
    connections: BTreeMap<(u32, u32, u32), (Vec<u32>, Vec<u32>)>,
    /// By rank and counter: signals by thread, and waits with their values.
    signals: BTreeMap<(u32, u32), BTreeMap<u32, Vec<u32>>>,
    waits: Vec<(u32, (u32, u32), u64)>,
    /// By rank and barrier: who takes part, and by thread its arrivals and leavings.
    barriers: BTreeMap<(u32, u32), (BTreeSet<u32>, BTreeMap<u32, Vec<(u32, u32)>>)>,
    /// By thread and operation of its list: the last event.
    ends: FxHashMap<(u32, u32), u32>,
    /// Events with an operation whose dependencies are waited for.
    waiting: Vec<u32>,
}

struct Reader<'a> {
    reading: Reading,
    events: Events<'a>,
    met: Met,
    first_thread: u32,
}

impl<'a> Events<'a> {
    pub(super) fn read(program: &'a Program, reading: Reading) -> Result<Self, TooMany> {
        let events = Events {
            list: Vec::new(),
            orders: Vec::new(),
            room: Vec::new(),
            choices: Vec::new(),
            sent_by: FxHashMap::default(),
            wide: false,
        };
        let mut reader = Reader { reading, events, met: Met::default(), first_thread: 0 };
        let mut publishers: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut first_threads = Vec::new();
        for (rank, of_rank) in (0_u32..).zip(&program.ranks) {
            first_threads.push(reader.first_thread);
            for (number, block) in (0_u32..).zip(&of_rank.threadblocks) {
                let thread = reader.first_thread + number;
                let begin = reader.events.list.len();
                for (top, operation) in (0_u32..).zip(&block.operations) {
                    let at =
                        Event { rank, thread, id: block.id, top, inner: None, operation, part: Part::Whole, turn: 0 };
                    reader.operation(at, &mut 0)?;
                    reader.met.ends.insert((thread, top), reader.last());
                    if operation.publishes {
                        publishers.insert((thread, top), reader.last());
                    }
                }
                for at in begin + 1..reader.events.list.len() {
                    reader.events.orders.push((number32(at - 1), number32(at)));
                }
            }
            reader.first_thread += number32(of_rank.threadblocks.len());
        }
        reader.connections();
        reader.counters();
        reader.barriers();
        reader.dependencies(&publishers, &first_threads);
        Ok(reader.events)
    }

    /// A run, as a list of events, that leaves out `hold` and what comes after; `room`: with the room of FIFOs.
    pub(super) fn run(&self, room: bool, hold: &[u32]) -> Vec<u32> {
        self.go_on(room, &[], hold)
    }

    /// Goes on without regard to room where these events have happened.
    pub(super) fn run_after(&self, done: &[bool]) -> Vec<u32> {
        self.go_on(false, done, &[])
    }

    fn go_on(&self, room: bool, done: &[bool], hold: &[u32]) -> Vec<u32> {
        let count = self.list.len();
        let is_done = |event: u32| done.get(event as usize).copied().unwrap_or(false);
        let mut missing = vec![0_u32; count];
        let mut after: Vec<Vec<u32>> = vec![Vec::new(); count];
        for &(a, b) in self.orders.iter().chain(if room { self.room.as_slice() } else { &[] }) {
            if !is_done(a) {
                after[a as usize].push(b);
                missing[b as usize] += 1;
            }
        }
        let mut left: Vec<u64> = self.choices.iter().map(|choice| choice.needed).collect();
        let mut of_signal: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (number, choice) in self.choices.iter().enumerate() {
            let given = choice.signals.iter().filter(|&&signal| is_done(signal)).count() as u64;
            left[number] = left[number].saturating_sub(given);
            if left[number] != 0 {
                missing[choice.wait as usize] += 1;
            }
            for &signal in choice.signals.iter().filter(|&&signal| !is_done(signal)) {
                of_signal.entry(signal).or_default().push(number);
            }
        }
        let mut ready: VecDeque<u32> =
            (0..number32(count)).filter(|&event| missing[event as usize] == 0 && !is_done(event)).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(event) = ready.pop_front() {
            if hold.contains(&event) {
                continue;
            }
            order.push(event);
            let mut done = |event: u32, ready: &mut VecDeque<u32>| {
                missing[event as usize] -= 1;
                if missing[event as usize] == 0 {
                    ready.push_back(event);
                }
            };
            for &next in &after[event as usize] {
                done(next, &mut ready);
            }
            for &choice in of_signal.get(&event).map_or(&[] as &[usize], Vec::as_slice) {
                if left[choice] == 1 {
                    done(self.choices[choice].wait, &mut ready);
                }
                left[choice] = left[choice].saturating_sub(1);
            }
        }
        order
    }
}

pub(super) fn number32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl<'a> Reader<'a> {
    fn last(&self) -> u32 {
        number32(self.events.list.len()).saturating_sub(1)
    }

    fn push(&mut self, event: Event<'a>) -> Result<u32, TooMany> {
        if self.reading.limit <= self.events.list.len() {
            return Err(TooMany);
        }
        self.events.list.push(event);
        Ok(self.last())
    }

    fn operation(&mut self, at: Event<'a>, inner: &mut u32) -> Result<(), TooMany> {
        let first = number32(self.events.list.len());
        match &at.operation.kind {
            OperationKind::Move { receive, send, count, .. } if receive.is_some() || send.is_some() => {
                self.events.wide |= 1 < *count;
                for slot in 0..if self.reading.split { *count } else { 1 } {
                    let part = if self.reading.split { Part::Slot(slot) } else { Part::Whole };
                    let event = self.push(Event { part, ..at })?;
                    if let Some(end) = receive {
                        let key = (end.peer.number(), at.rank, end.channel);
                        self.met.connections.entry(key).or_default().1.push(event);
                    }
                    if let Some(end) = send {
                        let key = (at.rank, end.peer.number(), end.channel);
                        self.met.connections.entry(key).or_default().0.push(event);
                    }
                }
            }
            OperationKind::Signal { peer, counter } => {
                let event = self.push(at)?;
                let of_counter = self.met.signals.entry((peer.number(), *counter)).or_default();
                of_counter.entry(at.thread).or_default().push(event);
            }
            OperationKind::Wait { counter, value, stride } => {
                let event = self.push(at)?;
                let value = value.saturating_add(stride.saturating_mul(u64::from(at.turn)));
                self.met.waits.push((event, (at.rank, *counter), value));
            }
            OperationKind::Barrier { barrier, threadblocks } => {
                let arrive = self.push(Event { part: Part::Arrive, ..at })?;
                let leave = self.push(at)?;
                let first_thread = self.first_thread;
                let (members, visits) = self.met.barriers.entry((at.rank, *barrier)).or_default();
                members.extend(threadblocks.iter().map(|&block| first_thread + block));
                visits.entry(at.thread).or_default().push((arrive, leave));
            }
            OperationKind::Loop { times, body } => {
                self.push(at)?;
                let first_inner = *inner;
                for turn in 0..if body.is_empty() { 0 } else { *times } {
                    *inner = first_inner;
                    for operation in body {
                        let number = *inner;
                        *inner += 1;
                        self.operation(Event { operation, inner: Some(number), turn, ..at }, inner)?;
                    }
                }
                self.push(Event { part: Part::End, ..at })?;
            }
            OperationKind::Nop
            | OperationKind::Move { .. }
            | OperationKind::Reduce { .. }
            | OperationKind::Put { .. }
            | OperationKind::Get { .. } => {
                self.push(at)?;
            }
        }
        if !at.operation.waits_for.is_empty() {
            self.met.waiting.push(first);
        }
        Ok(())
    }

    /// Nothing that could happen makes the event happen.
    fn never(&mut self, event: u32) {
        self.events.orders.push((event, event));
    }

    fn connections(&mut self) {
        let depth = self.reading.depth as usize;
        for (sends, receives) in std::mem::take(&mut self.met.connections).into_values() {
            for (k, &receive) in receives.iter().enumerate() {
                match sends.get(k) {
                    Some(&send) => {
                        self.events.orders.push((send, receive));
                        self.events.sent_by.insert(receive, send);
                    }
                    None => self.never(receive),
                }
            }
            if self.reading.defect == Defect::IgnoreRoom {
                continue;
            }
            for (k, &send) in sends.iter().enumerate().skip(depth) {
                match receives.get(k - depth) {
                    Some(&receive) => self.events.room.push((receive, send)),
                    None => self.never(send),
                }
            }
        }
    }

    fn counters(&mut self) {
        for (wait, counter, needed) in std::mem::take(&mut self.met.waits) {
            let producers = self.met.signals.get(&counter);
            let signals: Vec<&Vec<u32>> = producers.into_iter().flat_map(BTreeMap::values).collect();
            let total: u64 = signals.iter().map(|signals| signals.len() as u64).sum();
            if needed == 0 {
                continue;
            }
            if total <= needed || signals.len() == 1 {
                // All of them, or all up to one of the only threadblock.
                for of_thread in signals {
                    let at = if total == needed { of_thread.len() as u64 - 1 } else { needed - 1 };
                    if let Some(&signal) = usize::try_from(at).ok().and_then(|at| of_thread.get(at)) {
                        self.events.orders.push((signal, wait));
                    }
                }
                if total < needed {
                    self.events.orders.push((wait, wait));
                }
                continue;
            }
            let signals = signals.into_iter().flatten().copied().collect();
            self.events.choices.push(Choice { wait, signals, needed });
        }
    }

    fn barriers(&mut self) {
        for (members, visits) in std::mem::take(&mut self.met.barriers).into_values() {
            for (&thread, own) in &visits {
                for (turn, &(_, leave)) in own.iter().enumerate() {
                    for other in members.iter().filter(|&&other| other != thread) {
                        match visits.get(other).and_then(|theirs| theirs.get(turn)) {
                            Some(&(arrive, _)) => self.events.orders.push((arrive, leave)),
                            None => self.never(leave),
                        }
                    }
                }
            }
        }
    }

    /// A wait is over when the operation, or the first one behind it that publishes, is done.
    fn dependencies(&mut self, publishers: &FxHashMap<(u32, u32), u32>, first_threads: &[u32]) {
        let mut forget = self.reading.defect == Defect::IgnoreDependency;
        for waiter in std::mem::take(&mut self.met.waiting) {
            let Event { rank, operation, .. } = self.events.list[waiter as usize];
            for wait in &operation.waits_for {
                let thread = first_threads[rank as usize] + wait.threadblock;
                let published = (wait.operation..)
                    .take_while(|&top| self.met.ends.contains_key(&(thread, top)))
                    .find_map(|top| publishers.get(&(thread, top)));
                if std::mem::take(&mut forget) {
                    continue;
                }
                match published {
                    Some(&published) => self.events.orders.push((published, waiter)),
                    None => self.never(waiter),
                }
            }
        }
    }
}

/// Numbers of places under the names that memory has.
pub(super) struct Memory<'a> {
    layout: Layout<'a>,
    in_place: bool,
    known: FxHashMap<(u32, Place), u32>,
    /// Rank and name of each.
    pub(super) cells: Vec<(u32, Place)>,
}

impl<'a> Memory<'a> {
    pub(super) fn new(layout: Layout<'a>) -> Self {
        let in_place = layout.collective().in_place();
        Self { layout, in_place, known: FxHashMap::default(), cells: Vec::new() }
    }

    /// The number of the place `by` slots behind this one.
    pub(super) fn cell(&mut self, rank: u32, place: Place, by: u32) -> u32 {
        let place = Place::new(place.buffer(), place.slot() + by);
        let place = if self.in_place { self.layout.canonical(rank, place) } else { place };
        let next = number32(self.cells.len());
        let cells = &mut self.cells;
        *self.known.entry((rank, place)).or_insert_with(|| {
            cells.push((rank, place));
            next
        })
    }
}

/// Calls `visit(rank, place, slot, writes)` for each place that the event touches.
pub(super) fn touches(event: &Event<'_>, mut visit: impl FnMut(u32, Place, u32, bool)) {
    let me = event.rank;
    let mut each = |rank: u32, place: Place, count: u32, writes: bool| {
        for slot in 0..count {
            visit(rank, place, slot, writes);
        }
    };
    match &event.operation.kind {
        OperationKind::Move { receive, local, store, send, count } => {
            let (first, count) = match event.part {
                Part::Slot(slot) => (slot, 1),
                _ => (0, *count),
            };
            debug_assert!(first == 0 || receive.is_some() || send.is_some());
            for (place, writes) in [(local, false), (store, true)] {
                if let Some(place) = place {
                    each(me, Place::new(place.buffer(), place.slot() + first), count, writes);
                }
            }
        }
        OperationKind::Reduce { sources, dst, count } => {
            for &source in sources {
                each(me, source, *count, false);
            }
            each(me, *dst, *count, true);
        }
        OperationKind::Put { src, to, count, .. } => {
            each(me, *src, *count, false);
            for &(peer, place) in to {
                each(peer.number(), place, *count, true);
            }
        }
        OperationKind::Get { from, dst, count, .. } => {
            for &(peer, place) in from {
                each(peer.number(), place, *count, false);
            }
            each(me, *dst, *count, true);
        }
        OperationKind::Nop
        | OperationKind::Signal { .. }
        | OperationKind::Wait { .. }
        | OperationKind::Barrier { .. }
        | OperationKind::Loop { .. } => {}
    }
}

/// Two events of different threadblocks that touch a place, one of them writing: (one, other, a place of them).
pub(super) fn conflicts(
    events: &Events<'_>,
    memory: &mut Memory<'_>,
    limit: usize,
) -> Result<Vec<(u32, u32, u32)>, TooMany> {
    let mut of_cell: BTreeMap<u32, Vec<(u32, bool)>> = BTreeMap::new();
    let mut touched = 0_usize;
    for (number, event) in (0_u32..).zip(&events.list) {
        let mut over = false;
        touches(event, |rank, place, slot, writes| {
            touched += 1;
            over = over || limit.saturating_mul(8) < touched;
            if over {
                return;
            }
            let list = of_cell.entry(memory.cell(rank, place, slot)).or_default();
            match list.last_mut() {
                Some((last, wrote)) if *last == number => *wrote |= writes,
                _ => list.push((number, writes)),
            }
        });
        if over {
            return Err(TooMany);
        }
    }
    let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (cell, list) in of_cell {
        for (index, &(a, a_writes)) in list.iter().enumerate() {
            for &(b, b_writes) in &list[index + 1..] {
                let threads = (events.list[a as usize].thread, events.list[b as usize].thread);
                if (a_writes || b_writes) && threads.0 != threads.1 {
                    pairs.entry((a, b)).or_insert(cell);
                    if limit < pairs.len() {
                        return Err(TooMany);
                    }
                }
            }
        }
    }
    Ok(pairs.into_iter().map(|((a, b), cell)| (a, b, cell)).collect())
}
