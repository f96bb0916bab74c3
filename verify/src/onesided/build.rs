//! Unrolling: events, their accesses, and the edges between them.

use rondo_ir::collective::{Buffer, Layout, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;
use rondo_ir::onesided::{Elements, OneSidedKind, OneSidedOperation, OneSidedProgram, Site, Transfer};
use rustc_hash::FxHashMap;

use super::OneSidedOptions;
use crate::Claim;
use crate::program::{Findings, Location};

pub(super) const NONE: u32 = u32::MAX;

/// Why there is no graph.
pub(super) enum Stop {
    Refuted,
    Undecided(String),
}

/// How much an edge orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// Everything.
    Strong,
    /// Reads before writes.
    Weak,
    /// Nothing; only that the second cannot finish before the first.
    Progress,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The caller owns all buffers of the rank.
    Caller,
    Begin,
    End,
    /// A sync, arrival or leaving.
    Sync,
    Lane,
    /// Slot `slot` of transfer `transfer`.
    Move {
        transfer: u32,
        slot: u32,
    },
    /// The request of lane `lane` is carried out, slot `slot` of its transfer (all others: `NONE`).
    Carried {
        lane: u32,
        slot: u32,
    },
    /// Joins threads for progress.
    Joint,
}

/// Something that happens at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) what: What,
    pub(super) rank: u32,
    /// Index among the rank's threadblocks, or [`NONE`].
    pub(super) tb: u32,
    /// Index in the threadblock's operations, or [`NONE`].
    pub(super) op: u32,
    pub(super) call: u32,
    /// Lane of a clock and the position there; [`NONE`] if the event has none.
    pub(super) lane: u32,
    pub(super) at: u32,
}

/// Numbers of places: per rank input, output, then scratch and packets for each half.
pub(super) struct Places<'a> {
    pub(super) layout: Layout<'a>,
    /// First place of each rank, and the end.
    pub(super) base: Vec<u32>,
    /// Input, output, scratch slots by rank.
    pub(super) extents: Vec<[u32; 3]>,
    halves: u32,
}

impl Places<'_> {
    pub(super) fn len(&self) -> usize {
        self.base.last().map_or(0, |&end| end as usize)
    }

    fn canonical(&self, rank: u32, place: Place) -> Place {
        if self.layout.collective().in_place() { self.layout.canonical(rank, place) } else { place }
    }

    pub(super) fn locate(&self, rank: u32, place: Place, packet: bool, call: u32) -> u32 {
        let place = self.canonical(rank, place);
        let [input, output, scratch] = self.extents[rank as usize];
        let before = match place.buffer() {
            Buffer::Input => 0,
            Buffer::Output => input,
            Buffer::Scratch => input + output + ((call % self.halves) * 2 + u32::from(packet)) * scratch,
        };
        self.base[rank as usize] + before + place.slot()
    }

    fn contains(&self, rank: u32, place: Place, count: u32) -> bool {
        let Some(extents) = self.extents.get(rank as usize) else { return false };
        let end = u64::from(place.slot()) + u64::from(count);
        let [input, output, scratch] = *extents;
        let exists = |limit: u32| end <= u64::from(limit);
        match place.buffer() {
            Buffer::Scratch => exists(scratch),
            Buffer::Input => exists(input),
            Buffer::Output => exists(output),
        }
    }

    /// Rank and words for a place.
    pub(super) fn name(&self, location: u32, slots_per_chunk: u32) -> (u32, String) {
        let rank = self.base.partition_point(|&base| base <= location) - 1;
        let mut slot = location - self.base[rank];
        let [input, output, scratch] = self.extents[rank];
        let (letter, packet) = if slot < input {
            ("input", false)
        } else if slot - input < output {
            slot -= input;
            ("output", false)
        } else {
            slot -= input + output;
            let part = slot / scratch.max(1);
            slot %= scratch.max(1);
            ("scratch", part % 2 == 1)
        };
        let packets = if packet { " (packets)" } else { "" };
        let name = format!("{letter} chunk {} of r{rank}{packets}", slot / slots_per_chunk.max(1));
        (u32::try_from(rank).unwrap_or(NONE), name)
    }
}

/// The unrolled program.
pub(super) struct Graph<'a> {
    pub(super) program: &'a OneSidedProgram,
    pub(super) places: Places<'a>,
    pub(super) events: Vec<Event>,
    /// Edges by their second event: start in `edges`.
    pub(super) start: Vec<u32>,
    pub(super) edges: Vec<(u32, Edge)>,
    pub(super) lanes: u32,
    pub(super) calls: u32,
    /// Why not every order is known.
    pub(super) open: Vec<String>,
    /// Counters that several threads signal in no fixed order: some orders that hold are not among the edges.
    pub(super) crowds: Crowds,
}

/// Counters with several signallers.
#[derive(Default)]
pub(super) struct Crowds {
    /// By signal: its crowd.
    pub(super) signals: FxHashMap<u32, u32>,
    /// By wait: its crowd and how many signals it needs.
    pub(super) waits: FxHashMap<u32, (u32, u64)>,
}

impl Graph<'_> {
    pub(super) fn before(&self, event: u32) -> &[(u32, Edge)] {
        &self.edges[self.start[event as usize] as usize..self.start[event as usize + 1] as usize]
    }

    pub(super) fn operation(&self, event: u32) -> Option<&OneSidedOperation> {
        let event = &self.events[event as usize];
        let rank = self.program.ranks.get(event.rank as usize)?;
        rank.threadblocks.get(event.tb as usize)?.operations.get(event.op as usize)
    }

    pub(super) fn location(&self, event: u32) -> Location {
        let found = &self.events[event as usize];
        let op = self.operation(event);
        Location {
            rank: RankId::from(found.rank),
            threadblock: (found.tb != NONE).then_some(found.tb),
            operation: op.map(|op| op.number.0),
            inner: op.and_then(|op| op.number.1),
            span: op.map_or_else(Default::default, |op| op.span),
        }
    }

    /// The transfer and slot that an event carries out.
    pub(super) fn transfer(&self, event: u32) -> Option<(&Transfer, u32)> {
        match (self.events[event as usize].what, &self.operation(event)?.kind) {
            (What::Move { transfer, slot }, OneSidedKind::Move { transfers, .. }) => {
                Some((transfers.get(transfer as usize)?, slot))
            }
            (What::Carried { lane, slot }, OneSidedKind::Post { requests }) => {
                Some((requests.get(lane as usize)?.transfer.as_ref()?, slot))
            }
            _ => None,
        }
    }

    /// Place of a site at an event's slot.
    pub(super) fn place(&self, event: u32, site: &Site, slot: u32) -> u32 {
        let call = self.events[event as usize].call;
        self.places.locate(site.rank.number(), site.place.offset(slot), site.packet, call)
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}

/// A counter's history.
#[derive(Default)]
struct History {
    signals: Vec<Use>,
    waits: Vec<Use>,
}

#[derive(Clone, Copy)]
struct Use {
    event: u32,
    /// Who: rank, threadblock, thread (or [`NONE`] for a queue, by its number), and the segment between syncs.
    who: (u32, u32, u32),
    segment: u32,
    call: u32,
    relaxed: bool,
}

/// Whether each use is known to come before the next one.
fn in_order(uses: &[Use]) -> bool {
    uses.windows(2).all(|pair| {
        let (a, b) = (&pair[0], &pair[1]);
        let rank_and_tb = |u: &Use| (u.who.0, u.who.1);
        a.who.0 == b.who.0 && a.call < b.call
            || rank_and_tb(a) == rank_and_tb(b) && (a.segment < b.segment || a.who.2 == b.who.2)
    })
}

struct Builder<'a> {
    program: &'a OneSidedProgram,
    places: Places<'a>,
    events: Vec<Event>,
    edges: Vec<(u32, u32, Edge)>,
    histories: Vec<History>,
    /// By queue: posts in order, with the last event that is carried out for each.
    queues: Vec<Vec<(Use, u32)>>,
    flushes: Vec<(u32, u32, Use, Edge)>,
    /// By packet place and call: who writes it.
    packets: FxHashMap<(u32, u32), Vec<u32>>,
    packet_reads: Vec<(u32, u32, u32)>,
    /// By rank, barrier, call: arrivals and leavings a turn.
    barriers: FxHashMap<(u32, u32, u32), Vec<(Vec<u32>, Vec<u32>)>>,
    lane_length: Vec<u32>,
    open: Vec<String>,
    crowds: Crowds,
    limit: u64,
}

/// State of one threadblock in one call.
struct Walk {
    rank: u32,
    tb: u32,
    call: u32,
    lane: u32,
    last_sync: u32,
    segment: u32,
    in_segment: Vec<u32>,
    threads: FxHashMap<u32, u32>,
    chains: FxHashMap<(Elements, u32), u32>,
    /// Progress: the run of lanes (or moves) that goes on, and what it waits for.
    run: Vec<u32>,
    run_is_lanes: bool,
    joint: u32,
    turns: FxHashMap<u32, usize>,
}

pub(super) fn build<'a>(
    claim: &'a Claim,
    program: &'a OneSidedProgram,
    options: &OneSidedOptions,
    findings: &mut Findings,
) -> Result<Graph<'a>, Stop> {
    let layout = claim.collective.layout(program.chunks).map_err(|error| Stop::Undecided(error.to_string()))?;
    if claim.collective.ranks() as usize != program.ranks.len() {
        findings
            .add(Diagnostic::error("V101", "the collective has another number of ranks than the program"), Vec::new());
        return Err(Stop::Refuted);
    }
    let halves = program.scratch_halves.max(1);
    let calls = halves + 1;
    let (mut base, mut extents, mut total) = (Vec::new(), Vec::new(), 0_u64);
    for (rank, code) in (0_u32..).zip(&program.ranks) {
        base.push(u32::try_from(total).unwrap_or(NONE));
        let (input, output) = (layout.slots(rank, Buffer::Input), layout.slots(rank, Buffer::Output));
        extents.push([input, output, code.scratch_slots]);
        total += u64::from(input) + u64::from(output) + u64::from(code.scratch_slots) * 2 * u64::from(halves);
    }
    if options.work_limit < total {
        return Err(Stop::Undecided(format!("{total} places are more than are followed ({})", options.work_limit)));
    }
    base.push(u32::try_from(total).unwrap_or(NONE));
    let places = Places { layout, base, extents, halves };
    let mut builder = Builder {
        program,
        places,
        events: Vec::new(),
        edges: Vec::new(),
        histories: (0..program.counters.len()).map(|_| History::default()).collect(),
        queues: vec![Vec::new(); program.queues as usize],
        flushes: Vec::new(),
        packets: FxHashMap::default(),
        packet_reads: Vec::new(),
        barriers: FxHashMap::default(),
        lane_length: Vec::new(),
        open: Vec::new(),
        crowds: Crowds::default(),
        limit: options.work_limit,
    };
    builder.form(findings)?;
    builder.unroll(calls)?;
    builder.connect(findings)?;
    Ok(builder.finish(calls))
}

impl<'a> Builder<'a> {
    /// Places exist, counters balance.
    fn form(&self, findings: &mut Findings) -> Result<(), Stop> {
        let mut signals = vec![0_u64; self.program.counters.len()];
        let mut waits = signals.clone();
        let mut work = 0_u64;
        let mut waited: Vec<Option<Location>> = vec![None; self.program.counters.len()];
        let mut refuted = false;
        for (rank, code) in (0_u32..).zip(&self.program.ranks) {
            for (tb, block) in (0_u32..).zip(&code.threadblocks) {
                for op in &block.operations {
                    let location = Location {
                        rank: RankId::from(rank),
                        threadblock: Some(tb),
                        operation: Some(op.number.0),
                        inner: op.number.1,
                        span: op.span,
                    };
                    let mut transfers: Vec<&Transfer> = Vec::new();
                    let mut count = |list: &mut [u64], counter: u32| {
                        waited[counter as usize].get_or_insert(location);
                        list[counter as usize] += 1;
                    };
                    match &op.kind {
                        OneSidedKind::Signal { counters, .. } => counters.iter().for_each(|&c| count(&mut signals, c)),
                        OneSidedKind::Wait { counters, .. } => counters.iter().for_each(|&c| count(&mut waits, c)),
                        OneSidedKind::Move { transfers: list, .. } => transfers.extend(list),
                        OneSidedKind::Post { requests } => {
                            for request in requests {
                                transfers.extend(&request.transfer);
                                if let Some(signal) = request.signal {
                                    count(&mut signals, signal);
                                }
                            }
                        }
                        OneSidedKind::Sync | OneSidedKind::Barrier { .. } | OneSidedKind::Flush { .. } => {}
                    }
                    work += 1;
                    for transfer in transfers {
                        let sites = (transfer.sources.len() + transfer.targets.len()) as u64;
                        work = work.saturating_add(u64::from(transfer.count).saturating_mul(sites));
                        for site in transfer.sources.iter().chain(&transfer.targets) {
                            let in_scratch = site.place.buffer() == Buffer::Scratch;
                            if !self.places.contains(site.rank.number(), site.place, transfer.count)
                                || site.packet && !in_scratch
                            {
                                refuted = true;
                                let message = format!("{location} leaves the buffer at {}", site.rank);
                                findings.add(Diagnostic::error("V102", message), vec![(location, "here".to_owned())]);
                            }
                        }
                    }
                }
            }
        }
        if refuted {
            return Err(Stop::Refuted);
        }
        if self.limit < work.saturating_mul(3) {
            return Err(Stop::Undecided(format!("{work} slots are moved in a call; more than are followed")));
        }
        for (number, counter) in self.program.counters.iter().enumerate() {
            let (signals, waits) = (signals[number], waits[number]);
            if signals == waits {
                continue;
            }
            refuted = true;
            let what = if signals < waits {
                "a wait is never satisfied"
            } else {
                "the next call begins with signals that are left over"
            };
            let message = format!("{}: {signals} signals for {waits} waits in a call; {what}", counter.name);
            let locations = waited[number].iter().map(|&location| (location, "it is used here".to_owned())).collect();
            findings.add(Diagnostic::error("V140", message), locations);
        }
        if refuted { Err(Stop::Refuted) } else { Ok(()) }
    }

    fn event(&mut self, event: Event) -> Result<u32, Stop> {
        if self.limit <= self.events.len() as u64 || self.limit * 8 <= self.edges.len() as u64 {
            return Err(Stop::Undecided(format!("more than {} events are not followed", self.limit)));
        }
        let number = index(self.events.len());
        self.events.push(event);
        Ok(number)
    }

    fn edge(&mut self, from: u32, to: u32, edge: Edge) {
        self.edges.push((from, to, edge));
    }

    fn on_lane(&mut self, lane: u32) -> (u32, u32) {
        let length = &mut self.lane_length[lane as usize];
        *length += 1;
        (lane, *length - 1)
    }

    fn unroll(&mut self, calls: u32) -> Result<(), Stop> {
        let ranks = index(self.program.ranks.len());
        let tbs: usize = self.program.ranks.iter().map(|rank| rank.threadblocks.len()).sum();
        self.lane_length = vec![0; self.program.ranks.len() + tbs];
        let mut first_lane = ranks;
        for (rank, code) in (0_u32..).zip(&self.program.ranks) {
            let whole = |what, call, (lane, at)| Event { what, rank, tb: NONE, op: NONE, call, lane, at };
            let mut last = NONE;
            for call in 0..calls {
                let lane = self.on_lane(rank);
                let caller = self.event(whole(What::Caller, call, lane))?;
                let lane = self.on_lane(rank);
                let begin = self.event(whole(What::Begin, call, lane))?;
                if last != NONE {
                    self.edge(last, caller, Edge::Strong);
                }
                self.edge(caller, begin, Edge::Strong);
                let mut ends = Vec::new();
                for tb in 0..index(code.threadblocks.len()) {
                    let walk = Walk {
                        rank,
                        tb,
                        call,
                        lane: first_lane + tb,
                        last_sync: begin,
                        segment: 0,
                        in_segment: Vec::new(),
                        threads: FxHashMap::default(),
                        chains: FxHashMap::default(),
                        run: Vec::new(),
                        run_is_lanes: false,
                        joint: begin,
                        turns: FxHashMap::default(),
                    };
                    ends.extend(self.threadblock(walk)?);
                }
                let lane = self.on_lane(rank);
                last = self.event(whole(What::End, call, lane))?;
                self.edge(begin, last, Edge::Strong);
                for end in ends {
                    self.edge(end, last, Edge::Strong);
                }
            }
            let lane = self.on_lane(rank);
            let caller = self.event(whole(What::Caller, calls, lane))?;
            self.edge(last, caller, Edge::Strong);
            first_lane += index(code.threadblocks.len());
        }
        Ok(())
    }

    /// Unrolls one threadblock; gives what its kernel's end waits for.
    fn threadblock(&mut self, mut walk: Walk) -> Result<Vec<u32>, Stop> {
        let program = self.program;
        let operations = &program.ranks[walk.rank as usize].threadblocks[walk.tb as usize].operations;
        for (number, op) in (0_u32..).zip(operations) {
            let (rank, tb, call) = (walk.rank, walk.tb, walk.call);
            let event = |what| Event { what, rank, tb, op: number, call, lane: NONE, at: 0 };
            match &op.kind {
                OneSidedKind::Sync => {
                    self.sync(&mut walk, event(What::Sync))?;
                }
                OneSidedKind::Barrier { barrier, .. } => {
                    let arrive = self.sync(&mut walk, event(What::Sync))?;
                    let leave = self.sync(&mut walk, event(What::Sync))?;
                    let turn = walk.turns.entry(*barrier).or_default();
                    let turns = self.barriers.entry((walk.rank, *barrier, walk.call)).or_default();
                    if turns.len() <= *turn {
                        turns.push((Vec::new(), Vec::new()));
                    }
                    turns[*turn].0.push(arrive);
                    turns[*turn].1.push(leave);
                    *turn += 1;
                }
                OneSidedKind::Signal { counters, relaxed } | OneSidedKind::Wait { counters, relaxed } => {
                    let signals = matches!(op.kind, OneSidedKind::Signal { .. });
                    for (thread, &counter) in (0_u32..).zip(counters) {
                        let lane = self.lane(&mut walk, event(What::Lane), thread)?;
                        let used = Self::used(&walk, lane, thread, *relaxed);
                        let history = &mut self.histories[counter as usize];
                        if signals { history.signals.push(used) } else { history.waits.push(used) }
                    }
                }
                OneSidedKind::Flush { queues, suspect } => {
                    let edge = if *suspect { Edge::Weak } else { Edge::Strong };
                    for (thread, &queue) in (0_u32..).zip(queues) {
                        let lane = self.lane(&mut walk, event(What::Lane), thread)?;
                        let used = Self::used(&walk, lane, thread, false);
                        self.flushes.push((queue, index(self.queues[queue as usize].len()), used, edge));
                    }
                }
                OneSidedKind::Post { requests } => {
                    for (thread, request) in (0_u32..).zip(requests) {
                        let post = self.lane(&mut walk, event(What::Lane), thread)?;
                        let mut slots = Vec::new();
                        for slot in 0..request.transfer.as_ref().map_or(0, |transfer| transfer.count) {
                            let carried = self.event(event(What::Carried { lane: thread, slot }))?;
                            self.edge(post, carried, Edge::Strong);
                            self.note_packets(carried, request.transfer.as_ref(), slot, false);
                            slots.push(carried);
                        }
                        // All of it is done, and signalled.
                        let done = self.event(event(What::Carried { lane: thread, slot: NONE }))?;
                        self.edge(post, done, Edge::Strong);
                        for slot in slots {
                            self.edge(slot, done, Edge::Strong);
                        }
                        let used = Self::used(&walk, post, thread, false);
                        self.queues[request.queue as usize].push((used, done));
                        if let Some(signal) = request.signal {
                            self.histories[signal as usize].signals.push(Use { event: done, ..used });
                        }
                    }
                }
                OneSidedKind::Move { transfers, elements } => {
                    for (transfer, moved) in (0_u32..).zip(transfers) {
                        for slot in 0..moved.count {
                            let done = self.event(event(What::Move { transfer, slot }))?;
                            self.edge(walk.last_sync, done, Edge::Strong);
                            self.progress(&mut walk, done, false)?;
                            if let Some(before) = walk.chains.insert((*elements, slot), done) {
                                self.edge(before, done, Edge::Strong);
                            }
                            walk.in_segment.push(done);
                            self.note_packets(done, Some(moved), slot, true);
                        }
                    }
                }
            }
        }
        walk.in_segment.push(walk.last_sync);
        Ok(walk.in_segment)
    }

    const fn used(walk: &Walk, event: u32, thread: u32, relaxed: bool) -> Use {
        Use { event, who: (walk.rank, walk.tb, thread), segment: walk.segment, call: walk.call, relaxed }
    }

    fn note_packets(&mut self, event: u32, transfer: Option<&Transfer>, slot: u32, waits: bool) {
        let Some(transfer) = transfer else { return };
        let call = self.events[event as usize].call;
        for site in transfer.targets.iter().filter(|site| site.packet) {
            let place = self.places.locate(site.rank.number(), site.place.offset(slot), true, call);
            self.packets.entry((place, call)).or_default().push(event);
        }
        for site in transfer.sources.iter().filter(|site| site.packet && waits) {
            let place = self.places.locate(site.rank.number(), site.place.offset(slot), true, call);
            self.packet_reads.push((place, call, event));
        }
    }

    /// All threads meet.
    fn sync(&mut self, walk: &mut Walk, event: Event) -> Result<u32, Stop> {
        let (lane, at) = self.on_lane(walk.lane);
        let sync = self.event(Event { lane, at, ..event })?;
        self.edge(walk.last_sync, sync, Edge::Strong);
        for before in std::mem::take(&mut walk.in_segment) {
            self.edge(before, sync, Edge::Strong);
        }
        walk.last_sync = sync;
        walk.segment += 1;
        walk.threads.clear();
        walk.chains.clear();
        walk.run.clear();
        walk.joint = sync;
        Ok(sync)
    }

    /// One thread does something.
    fn lane(&mut self, walk: &mut Walk, event: Event, thread: u32) -> Result<u32, Stop> {
        let lane = self.event(event)?;
        self.edge(walk.last_sync, lane, Edge::Strong);
        self.progress(walk, lane, true)?;
        if let Some(before) = walk.threads.insert(thread, lane) {
            self.edge(before, lane, Edge::Strong);
        }
        walk.in_segment.push(lane);
        Ok(lane)
    }

    /// Each thread goes through its list in order: a move of all threads is complete only after all moves and lanes before it, and a
    /// lane only after the moves before it. Lanes of different threads do not wait for each other.
    fn progress(&mut self, walk: &mut Walk, event: u32, is_lane: bool) -> Result<(), Stop> {
        if walk.run_is_lanes != is_lane && !walk.run.is_empty() {
            let joint = self.event(Event { what: What::Joint, ..self.events[event as usize] })?;
            for before in std::mem::take(&mut walk.run) {
                self.edge(before, joint, Edge::Progress);
            }
            self.edge(walk.joint, joint, Edge::Progress);
            walk.joint = joint;
        }
        walk.run_is_lanes = is_lane;
        if !is_lane && let Some(before) = walk.run.pop() {
            self.edge(before, event, Edge::Progress);
        } else if walk.joint != walk.last_sync {
            self.edge(walk.joint, event, Edge::Progress);
        }
        walk.run.push(event);
        Ok(())
    }

    fn connect(&mut self, findings: &mut Findings) -> Result<(), Stop> {
        let mut missing = false;
        for (number, history) in std::mem::take(&mut self.histories).into_iter().enumerate() {
            let counter = &self.program.counters[number];
            if !in_order(&history.waits) {
                self.open.push(format!(
                    "{}: several threads wait on it, and which one gets a signal is not fixed",
                    counter.name
                ));
                continue;
            }
            let initial = usize::try_from(counter.initial).unwrap_or(usize::MAX);
            if !in_order(&history.signals) {
                self.crowd(index(number), &history, initial);
                continue;
            }
            for (wait, signal) in history.waits.iter().skip(initial).zip(&history.signals) {
                let edge = if wait.relaxed || signal.relaxed { Edge::Weak } else { Edge::Strong };
                self.edges.push((signal.event, wait.event, edge));
            }
        }
        let mut turns: Vec<_> = std::mem::take(&mut self.barriers).into_iter().collect();
        turns.sort_unstable_by_key(|&(key, _)| key);
        for ((rank, barrier, call), turns) in turns {
            for (arrivals, leavings) in turns {
                let wanted = arrivals.first().map(|&event| &self.events[event as usize]).and_then(|event| {
                    let block = &self.program.ranks[event.rank as usize].threadblocks[event.tb as usize];
                    match block.operations[event.op as usize].kind {
                        OneSidedKind::Barrier { threadblocks, .. } => Some(threadblocks),
                        _ => None,
                    }
                });
                if wanted.is_some_and(|wanted| wanted as usize != arrivals.len()) && call == 0 {
                    missing = true;
                    let message = format!(
                        "barrier {barrier} of r{rank} waits for {} threadblocks, {} come",
                        wanted.unwrap_or(0),
                        arrivals.len()
                    );
                    findings.add(Diagnostic::error("V108", message), Vec::new());
                }
                // All meet in one event, so that the edges are as many as the threadblocks.
                let Some(&first) = arrivals.first() else { continue };
                let meet = self.event(Event { what: What::Joint, lane: NONE, ..self.events[first as usize] })?;
                self.edges.extend(arrivals.iter().map(|&arrive| (arrive, meet, Edge::Strong)));
                self.edges.extend(leavings.iter().map(|&leave| (meet, leave, Edge::Strong)));
            }
        }
        for (number, queue) in self.queues.iter().enumerate() {
            let uses: Vec<Use> = queue.iter().map(|&(used, _)| used).collect();
            if !in_order(&uses) {
                self.open.push(format!("port queue {number}: several threads post to it in no fixed order"));
                continue;
            }
            for pair in queue.windows(2) {
                let (done, next) = (pair[0].1, pair[1].1);
                self.edges.push((done, next, Edge::Strong));
                // The next request's slots come before its end in the list of events, right after its post.
                let post = pair[1].0.event;
                for slot in post + 1..next {
                    self.edges.push((done, slot, Edge::Strong));
                }
            }
        }
        for &(queue, before, used, edge) in &self.flushes {
            let posts = &self.queues[queue as usize][..before as usize];
            if let Some(&(_, done)) = posts.iter().rev().find(|&&(post, _)| in_order(&[post, used])) {
                self.edges.push((done, used.event, edge));
            }
        }
        for &(place, call, reader) in &self.packet_reads {
            match self.packets.get(&(place, call)).map(Vec::as_slice) {
                None => {
                    if call == 0 {
                        missing = true;
                        let (_, name) = self.places.name(place, self.program.slots_per_chunk);
                        let event = self.events[reader as usize];
                        let op = &self.program.ranks[event.rank as usize].threadblocks[event.tb as usize].operations
                            [event.op as usize];
                        let location = Location {
                            rank: RankId::from(event.rank),
                            threadblock: Some(event.tb),
                            operation: Some(op.number.0),
                            inner: op.number.1,
                            span: op.span,
                        };
                        let message = format!("{location} waits for {name}, which nobody writes");
                        findings.add(Diagnostic::error("V141", message), vec![(location, "waits for ever".to_owned())]);
                    }
                }
                Some([writer]) => self.edges.push((*writer, reader, Edge::Weak)),
                Some(_) => {
                    let (_, name) = self.places.name(place, self.program.slots_per_chunk);
                    self.open.push(format!("{name} is written several times in a call, and read as packets"));
                }
            }
        }
        if missing {
            return Err(Stop::Refuted);
        }
        self.open.sort_unstable();
        self.open.dedup();
        self.open.truncate(4);
        Ok(())
    }

    fn finish(self, calls: u32) -> Graph<'a> {
        let mut start = vec![0_u32; self.events.len() + 1];
        for &(_, to, _) in &self.edges {
            start[to as usize + 1] += 1;
        }
        for at in 0..self.events.len() {
            start[at + 1] += start[at];
        }
        let mut next = start.clone();
        let mut edges = vec![(0, Edge::Progress); self.edges.len()];
        for (from, to, edge) in self.edges {
            edges[next[to as usize] as usize] = (from, edge);
            next[to as usize] += 1;
        }
        Graph {
            program: self.program,
            places: self.places,
            events: self.events,
            start,
            edges,
            lanes: index(self.lane_length.len()),
            calls,
            open: self.open,
            crowds: self.crowds,
        }
    }

    /// Several threads signal one counter in no fixed order. All of them belong to one rank, so those of a later call come
    /// after all of an earlier one. The wait that needs v of the S signals of a call comes after the j-th signal of a
    /// thread that gives n of them if j ≤ n − (S − v): without it the counter could not get there.
    fn crowd(&mut self, number: u32, history: &History, initial: usize) {
        let mut by_call: Vec<Vec<Use>> = Vec::new();
        for &signal in &history.signals {
            self.crowds.signals.insert(signal.event, number);
            let call = signal.call as usize;
            if by_call.len() <= call {
                by_call.resize(call + 1, Vec::new());
            }
            by_call[call].push(signal);
        }
        let a_call = by_call.first().map_or(0, Vec::len);
        if self.limit.saturating_mul(16) < (a_call as u64).saturating_mul(history.waits.len() as u64) {
            self.open.push(format!(
                "{}: too many threads signal it in no fixed order",
                self.program.counters[number as usize].name
            ));
            return;
        }
        for (at, wait) in history.waits.iter().enumerate().skip(initial) {
            let before = at - initial;
            self.crowds.waits.insert(wait.event, (number, before as u64 + 1));
            let Some(signals) = before.checked_div(a_call).and_then(|call| by_call.get(call)) else { continue };
            let spare = a_call - (before % a_call + 1);
            let mut left: FxHashMap<(u32, u32, u32), usize> = FxHashMap::default();
            for signal in signals {
                *left.entry(signal.who).or_default() += 1;
            }
            // The last signals of each thread may be missing, as many as there are to spare.
            for signal in signals {
                let left = left.entry(signal.who).or_default();
                *left -= 1;
                if *left == spare {
                    let edge = if wait.relaxed || signal.relaxed { Edge::Weak } else { Edge::Strong };
                    self.edges.push((signal.event, wait.event, edge));
                }
            }
        }
    }
}
