//! A one-sided program read anew: events, and what must come before what. Shares no code with the graph algorithm.

use std::collections::BTreeMap;

use rondo_ir::collective::{Buffer, Layout, Place};
use rondo_ir::index::RankId;
use rondo_ir::onesided::{Elements, OneSidedKind, OneSidedOperation, OneSidedProgram, Site, Transfer};
use rustc_hash::FxHashMap;

use super::Defect;
use crate::program::Location;

/// What an order holds for; each includes the ones behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scale {
    /// Written data is visible afterwards.
    Strong,
    /// A read is over before a later write.
    Any,
    /// The second finishes later; nobody may rely on it.
    Run,
}

impl Scale {
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Strong => 's',
            Self::Any => 't',
            Self::Run => 'p',
        }
    }
}

/// Something that happens at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub(super) rank: u32,
    pub(super) call: u32,
    /// Threadblock and operation; none for what a whole rank does.
    pub(super) code: Option<(u32, &'a OneSidedOperation)>,
    /// What it moves, and the slot of it.
    pub(super) moves: Option<(&'a Transfer, u32)>,
    /// Carried out by a queue.
    pub(super) queued: bool,
}

impl Event<'_> {
    pub(super) fn location(&self) -> Location {
        let op = self.code.map(|(_, op)| op);
        Location {
            rank: RankId::from(self.rank),
            threadblock: self.code.map(|(tb, _)| tb),
            operation: op.map(|op| op.number.0),
            inner: op.and_then(|op| op.number.1),
            span: op.map_or_else(Default::default, |op| op.span),
        }
    }

    /// Whether two events are pieces at one distance of moves in wide words: probably one thread's.
    pub(super) fn alike(&self, other: &Self) -> bool {
        let piece = |event: &Self| {
            let (_, op) = event.code?;
            match op.kind {
                OneSidedKind::Move { elements, .. } if elements != Elements::Packet => {
                    event.moves.map(|(_, slot)| slot)
                }
                _ => None,
            }
        };
        piece(self).is_some() && piece(self) == piece(other)
    }
}

/// A wait on a counter that several threads signal in no fixed order.
#[derive(Clone, Debug)]
pub(super) struct Count {
    pub(super) wait: u32,
    /// Signals that must have come.
    pub(super) needed: u64,
    /// All signals of the counter, and whether hearing of one orders everything.
    pub(super) signals: Vec<(u32, Scale)>,
}

/// The unrolled program.
#[derive(Debug)]
pub(super) struct Events<'a> {
    pub(super) list: Vec<Event<'a>>,
    /// (before, after), and what for.
    pub(super) orders: Vec<(u32, u32, Scale)>,
    pub(super) counts: Vec<Count>,
    /// By rank and call, the last one being after the last call: the caller has the buffers.
    pub(super) callers: Vec<Vec<u32>>,
    /// By rank and call: the kernel ends.
    pub(super) ends: Vec<Vec<u32>>,
}

/// Who does something between two meetings of a threadblock's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doer {
    Thread(u32),
    Piece(Elements, u32),
}

/// A use of a counter or a queue.
#[derive(Clone, Copy, Debug)]
struct Use {
    event: u32,
    rank: u32,
    call: u32,
    tb: u32,
    /// Meetings of the threadblock's threads before it.
    epoch: u32,
    thread: u32,
    scale: Scale,
    queue: Option<u32>,
}

impl Use {
    /// Whether it always comes before the other one.
    fn always_before(&self, other: &Self) -> bool {
        if self.rank != other.rank || self.queue != other.queue {
            return false;
        }
        let issued = (self.call, self.tb, self.epoch);
        match issued.0.cmp(&other.call) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => {
                issued.1 == other.tb && (issued.2 < other.epoch || self.thread == other.thread)
            }
        }
    }
}

fn in_fixed_order<'u>(uses: impl IntoIterator<Item = &'u Use>) -> bool {
    let mut before: Option<&Use> = None;
    uses.into_iter().all(|used| before.replace(used).is_none_or(|before| before.always_before(used)))
}

/// A request of a queue.
struct Posted {
    used: Use,
    pieces: Vec<u32>,
    done: u32,
}

/// A threadblock on its way through a call.
struct Walker {
    rank: u32,
    call: u32,
    tb: u32,
    /// The last meeting of its threads.
    met: u32,
    epoch: u32,
    last: BTreeMap<Doer, u32>,
    last_piece: Option<u32>,
    lanes: Vec<u32>,
    turns: FxHashMap<u32, u32>,
}

#[derive(Default)]
struct Met {
    /// By counter.
    signals: BTreeMap<u32, Vec<Use>>,
    waits: BTreeMap<u32, Vec<Use>>,
    queues: BTreeMap<u32, Vec<Posted>>,
    /// By rank, barrier, call and turn.
    barriers: BTreeMap<(u32, u32, u32, u32), u32>,
    /// By rank, slot and call.
    packet_writes: BTreeMap<(u32, u32, u32), Vec<u32>>,
    packet_reads: Vec<((u32, u32, u32), u32)>,
}

struct Reader<'a> {
    program: &'a OneSidedProgram,
    limit: usize,
    defect: Defect,
    events: Events<'a>,
    met: Met,
}

pub(super) fn number32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl<'a> Events<'a> {
    /// Unrolls a program whose counters and places are known to be right; or says why it is not asked about.
    pub(super) fn read(program: &'a OneSidedProgram, limit: usize, defect: Defect) -> Result<Self, String> {
        let events =
            Events { list: Vec::new(), orders: Vec::new(), counts: Vec::new(), callers: Vec::new(), ends: Vec::new() };
        let mut reader = Reader { program, limit, defect, events, met: Met::default() };
        for rank in 0..number32(program.ranks.len()) {
            reader.rank(rank)?;
        }
        reader.queues()?;
        reader.counters()?;
        reader.packets()?;
        Ok(reader.events)
    }

    /// One run, without events that are held back: all that can happen.
    pub(super) fn run(&self) -> Vec<u32> {
        let count = self.list.len();
        let mut after: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut missing = vec![0_u64; count];
        for &(a, b, _) in &self.orders {
            after[a as usize].push(b);
            missing[b as usize] += 1;
        }
        // A wait with a choice misses one more thing until enough signals came.
        let mut heard: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        let mut came = vec![0_u64; self.counts.len()];
        for (number, count) in self.counts.iter().enumerate() {
            if 0 < count.needed {
                missing[count.wait as usize] += 1;
                for &(signal, _) in &count.signals {
                    heard.entry(signal).or_default().push(number);
                }
            }
        }
        let mut ready: Vec<u32> = (0..number32(count)).filter(|&event| missing[event as usize] == 0).rev().collect();
        let mut run = Vec::with_capacity(count);
        while let Some(event) = ready.pop() {
            run.push(event);
            let mut free = |event: u32, ready: &mut Vec<u32>| {
                missing[event as usize] -= 1;
                if missing[event as usize] == 0 {
                    ready.push(event);
                }
            };
            for &next in &after[event as usize] {
                free(next, &mut ready);
            }
            for &number in heard.get(&event).map_or(&[][..], Vec::as_slice) {
                came[number] += 1;
                if came[number] == self.counts[number].needed {
                    free(self.counts[number].wait, &mut ready);
                }
            }
        }
        run
    }
}

impl<'a> Reader<'a> {
    fn event(&mut self, event: Event<'a>) -> Result<u32, String> {
        if self.limit <= self.events.list.len() {
            return Err(format!("the program has more than {} events, which is the limit", self.limit));
        }
        self.events.list.push(event);
        Ok(number32(self.events.list.len() - 1))
    }

    fn order(&mut self, before: u32, after: u32, scale: Scale) {
        self.events.orders.push((before, after, scale));
    }

    /// All calls of a rank, one after the other.
    fn rank(&mut self, rank: u32) -> Result<(), String> {
        let program = self.program;
        let calls = program.scratch_halves.max(1) + 1;
        let (mut callers, mut ends) = (Vec::new(), Vec::new());
        let whole = |call| Event { rank, call, code: None, moves: None, queued: false };
        for call in 0..calls {
            let caller = self.event(whole(call))?;
            if let Some(&end) = ends.last() {
                self.order(end, caller, Scale::Strong);
            }
            callers.push(caller);
            let begin = self.event(whole(call))?;
            self.order(caller, begin, Scale::Strong);
            let mut finished = vec![begin];
            for tb in 0..number32(program.ranks[rank as usize].threadblocks.len()) {
                let walker = Walker {
                    rank,
                    call,
                    tb,
                    met: begin,
                    epoch: 0,
                    last: BTreeMap::new(),
                    last_piece: None,
                    lanes: Vec::new(),
                    turns: FxHashMap::default(),
                };
                finished.extend(self.walk(walker)?);
            }
            let end = self.event(whole(call))?;
            for before in finished {
                self.order(before, end, Scale::Strong);
            }
            ends.push(end);
        }
        let caller = self.event(whole(calls))?;
        if let Some(&end) = ends.last() {
            self.order(end, caller, Scale::Strong);
        }
        callers.push(caller);
        self.events.callers.push(callers);
        self.events.ends.push(ends);
        Ok(())
    }

    /// One threadblock in one call; gives what its end comes after.
    fn walk(&mut self, mut walker: Walker) -> Result<Vec<u32>, String> {
        let program = self.program;
        let operations = &program.ranks[walker.rank as usize].threadblocks[walker.tb as usize].operations;
        for op in operations {
            let base =
                Event { rank: walker.rank, call: walker.call, code: Some((walker.tb, op)), moves: None, queued: false };
            match &op.kind {
                OneSidedKind::Sync => {
                    let meeting = self.event(base)?;
                    self.meet(&mut walker, meeting);
                }
                OneSidedKind::Barrier { barrier, .. } => {
                    let turn = walker.turns.entry(*barrier).or_default();
                    let key = (walker.rank, *barrier, walker.call, *turn);
                    *turn += 1;
                    let meeting = match self.met.barriers.get(&key) {
                        Some(&known) => known,
                        None => {
                            let meeting = self.event(base)?;
                            self.met.barriers.insert(key, meeting);
                            meeting
                        }
                    };
                    self.meet(&mut walker, meeting);
                }
                OneSidedKind::Signal { counters, relaxed } | OneSidedKind::Wait { counters, relaxed } => {
                    let scale = if *relaxed { Scale::Any } else { Scale::Strong };
                    for (thread, &counter) in (0_u32..).zip(counters) {
                        let event = self.lane(&mut walker, base, thread)?;
                        let used = Self::used(&walker, event, thread, scale);
                        let signals = matches!(op.kind, OneSidedKind::Signal { .. });
                        let uses = if signals { &mut self.met.signals } else { &mut self.met.waits };
                        uses.entry(counter).or_default().push(used);
                    }
                }
                OneSidedKind::Flush { queues, suspect } => {
                    let scale = if *suspect { Scale::Any } else { Scale::Strong };
                    for (thread, &queue) in (0_u32..).zip(queues) {
                        let event = self.lane(&mut walker, base, thread)?;
                        let used = Use { queue: Some(queue), ..Self::used(&walker, event, thread, scale) };
                        let posted = self.met.queues.get(&queue).map_or(&[][..], Vec::as_slice);
                        let last = posted.iter().rev().find(|posted| posted.used.always_before(&used));
                        if let Some(done) = last.map(|posted| posted.done) {
                            self.order(done, event, scale);
                        }
                    }
                }
                OneSidedKind::Post { requests } => {
                    for (thread, request) in (0_u32..).zip(requests) {
                        let post = self.lane(&mut walker, base, thread)?;
                        let carried = Event { queued: true, ..base };
                        let mut pieces = Vec::new();
                        if let Some(transfer) = &request.transfer {
                            for slot in 0..transfer.count {
                                let piece = self.event(Event { moves: Some((transfer, slot)), ..carried })?;
                                self.order(post, piece, Scale::Strong);
                                self.note_packets(piece);
                                pieces.push(piece);
                            }
                        }
                        let done = self.event(carried)?;
                        for &before in pieces.iter().chain([&post]) {
                            self.order(before, done, Scale::Strong);
                        }
                        let queue = Some(request.queue);
                        let used = Use { queue, ..Self::used(&walker, post, thread, Scale::Strong) };
                        if let Some(signal) = request.signal {
                            self.met.signals.entry(signal).or_default().push(Use { event: done, ..used });
                        }
                        self.met.queues.entry(request.queue).or_default().push(Posted { used, pieces, done });
                    }
                }
                OneSidedKind::Move { transfers, elements } => {
                    for transfer in transfers {
                        for slot in 0..transfer.count {
                            let piece = self.event(Event { moves: Some((transfer, slot)), ..base })?;
                            self.does(&mut walker, Doer::Piece(*elements, slot), piece);
                            // All threads take part, each in the order of its list.
                            for before in walker.last_piece.replace(piece).into_iter().chain(walker.lanes.drain(..)) {
                                self.order(before, piece, Scale::Run);
                            }
                            self.note_packets(piece);
                        }
                    }
                }
            }
        }
        Ok(walker.last.into_values().chain([walker.met]).collect())
    }

    const fn used(walker: &Walker, event: u32, thread: u32, scale: Scale) -> Use {
        let Walker { rank, call, tb, epoch, .. } = *walker;
        Use { event, rank, call, tb, epoch, thread, scale, queue: None }
    }

    /// After what the same thread did before, or after the last meeting.
    fn does(&mut self, walker: &mut Walker, doer: Doer, event: u32) {
        let before = walker.last.insert(doer, event).unwrap_or(walker.met);
        self.order(before, event, Scale::Strong);
    }

    fn lane(&mut self, walker: &mut Walker, base: Event<'a>, thread: u32) -> Result<u32, String> {
        let event = self.event(base)?;
        self.does(walker, Doer::Thread(thread), event);
        if let Some(piece) = walker.last_piece {
            self.order(piece, event, Scale::Run);
        }
        walker.lanes.push(event);
        Ok(event)
    }

    fn meet(&mut self, walker: &mut Walker, meeting: u32) {
        for before in std::mem::take(&mut walker.last).into_values().chain([walker.met]) {
            self.order(before, meeting, Scale::Strong);
        }
        walker.met = meeting;
        walker.epoch += 1;
        walker.last_piece = None;
        walker.lanes.clear();
    }

    fn note_packets(&mut self, event: u32) {
        let Event { call, moves, queued, .. } = self.events.list[event as usize];
        let Some((transfer, slot)) = moves else { return };
        let key = |site: &Site| (site.rank.number(), site.place.slot() + slot, call);
        for site in transfer.targets.iter().filter(|site| site.packet) {
            self.met.packet_writes.entry(key(site)).or_default().push(event);
        }
        // A queue does not look at flags.
        for site in transfer.sources.iter().filter(|site| site.packet && !queued) {
            self.met.packet_reads.push((key(site), event));
        }
    }

    fn queues(&mut self) -> Result<(), String> {
        for (number, queue) in std::mem::take(&mut self.met.queues) {
            if !in_fixed_order(queue.iter().map(|posted| &posted.used)) {
                return Err(format!("queue {number}: several threads post to it in no fixed order"));
            }
            for pair in queue.windows(2) {
                for &piece in pair[1].pieces.iter().chain([&pair[1].done]) {
                    self.order(pair[0].done, piece, Scale::Strong);
                }
            }
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<(), String> {
        let mut forget = self.defect == Defect::DropOrder;
        for (number, counter) in (0_u32..).zip(&self.program.counters) {
            let signals = self.met.signals.remove(&number).unwrap_or_default();
            let waits = self.met.waits.remove(&number).unwrap_or_default();
            if !in_fixed_order(&waits) {
                return Err(format!("{}: several threads wait on it", counter.name));
            }
            let fixed = in_fixed_order(&signals);
            for (place, wait) in (1_u64..).zip(&waits) {
                let Some(needed) = place.checked_sub(counter.initial).filter(|&needed| 0 < needed) else { continue };
                let heard = |signal: &Use| (signal.event, signal.scale.max(wait.scale));
                if fixed {
                    let nth = usize::try_from(needed - 1).ok().and_then(|at| signals.get(at));
                    let Some((signal, scale)) = nth.map(heard) else {
                        return Err(format!("{} gets too few signals", counter.name));
                    };
                    if !std::mem::take(&mut forget) {
                        self.order(signal, wait.event, scale);
                    }
                } else {
                    let needed = if self.defect == Defect::IgnoreCount { 0 } else { needed };
                    let signals = signals.iter().map(heard).collect();
                    self.events.counts.push(Count { wait: wait.event, needed, signals });
                }
            }
        }
        Ok(())
    }

    fn packets(&mut self) -> Result<(), String> {
        for (key, reader) in std::mem::take(&mut self.met.packet_reads) {
            match self.met.packet_writes.get(&key).map_or(&[][..], Vec::as_slice) {
                &[writer] => self.order(writer, reader, Scale::Any),
                writers => {
                    let (rank, slot, _) = key;
                    let times = writers.len();
                    return Err(format!("a packet of {} (slot {slot}) is written {times} times", RankId::from(rank)));
                }
            }
        }
        Ok(())
    }
}

/// What two conflicting accesses need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::onesided) enum Need {
    /// Of one call.
    SameCall,
    /// The owner's caller before a peer's access: its lack is no error.
    Begins,
    /// An access before the owner's caller gets its buffers back.
    Returned,
    /// Of different calls.
    Repeats,
}

/// Two conflicting accesses.
#[derive(Clone, Copy, Debug)]
pub(in crate::onesided) struct Conflict {
    /// In this order: as in a run, or as the caller expects.
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) first_writes: bool,
    pub(super) need: Need,
    /// Whose memory.
    pub(super) owner: u32,
    /// First place at which they meet.
    pub(super) place: Place,
}

impl Conflict {
    /// Whether written data must be visible.
    pub(super) fn needs_strong(&self) -> bool {
        self.first_writes && matches!(self.need, Need::SameCall | Need::Repeats)
    }
}

/// Places, with both names of one place as one.
pub(super) struct Cells<'a> {
    layout: Layout<'a>,
    halves: u32,
}

impl<'a> Cells<'a> {
    pub(super) const fn new(layout: Layout<'a>, halves: u32) -> Self {
        Self { layout, halves }
    }

    /// A name for what a site is at a slot in a call; packets and halves have names of their own.
    pub(super) fn cell(&self, site: &Site, slot: u32, call: u32) -> (u32, Place, bool, u32) {
        let place = Place::new(site.place.buffer(), site.place.slot() + slot);
        let half = if place.buffer() == Buffer::Scratch { call % self.halves } else { 0 };
        (site.rank.number(), self.canonical(site.rank.number(), place), site.packet, half)
    }

    pub(super) fn canonical(&self, rank: u32, place: Place) -> Place {
        if self.layout.collective().in_place() { self.layout.canonical(rank, place) } else { place }
    }
}

/// All conflicting pairs; at most `limit`. All events must be in `run`.
pub(super) fn conflicts(
    events: &Events<'_>,
    cells: &Cells<'_>,
    run: &[u32],
    limit: usize,
) -> Result<Vec<Conflict>, String> {
    let mut position = vec![0_u32; events.list.len()];
    for (at, &event) in (0_u32..).zip(run) {
        position[event as usize] = at;
    }
    let mut accesses: BTreeMap<(u32, Place, bool, u32), Vec<(u32, bool)>> = BTreeMap::new();
    for &event in run {
        let Event { call, moves, .. } = events.list[event as usize];
        let Some((transfer, slot)) = moves else { continue };
        for (sites, writes) in [(&transfer.sources, false), (&transfer.targets, true)] {
            for site in sites {
                accesses.entry(cells.cell(site, slot, call)).or_default().push((event, writes));
            }
        }
    }
    let mut found: BTreeMap<(u32, u32, bool, Need), Conflict> = BTreeMap::new();
    let mut steps = 0_usize;
    for ((owner, place, packet, _), list) in accesses {
        let mut add = |conflict: Conflict| {
            let Conflict { first, second, need, .. } = conflict;
            found.entry((first, second, conflict.needs_strong(), need)).or_insert(conflict);
            steps += 1;
            if limit < found.len() || limit.saturating_mul(8) < steps {
                return Err(format!("there are more than {limit} pairs of conflicting accesses, which is the limit"));
            }
            Ok(())
        };
        let shared = place.buffer() == Buffer::Scratch;
        for (at, &(one, one_writes)) in list.iter().enumerate() {
            let call = events.list[one as usize].call;
            if !shared {
                let callers = &events.callers[owner as usize];
                let with_caller =
                    Conflict { first: one, second: one, first_writes: one_writes, need: Need::Begins, owner, place };
                add(Conflict { first: callers[call as usize], first_writes: true, ..with_caller })?;
                add(Conflict { second: callers[call as usize + 1], need: Need::Returned, ..with_caller })?;
            }
            for &(other, other_writes) in &list[at + 1..] {
                if one == other || !one_writes && !other_writes {
                    continue;
                }
                let (a, b) = (&events.list[one as usize], &events.list[other as usize]);
                let same = a.call == b.call;
                if !same && !shared {
                    // The caller stands between.
                    continue;
                }
                let (first, second) =
                    if position[one as usize] < position[other as usize] { (one, other) } else { (other, one) };
                let (first_writes, second_writes) =
                    if first == one { (one_writes, other_writes) } else { (other_writes, one_writes) };
                if same && packet && first_writes && !second_writes && !events.list[second as usize].queued {
                    // The packet's flag orders them.
                    continue;
                }
                let need = if same { Need::SameCall } else { Need::Repeats };
                add(Conflict { first, second, first_writes, need, owner, place })?;
            }
        }
    }
    Ok(found.into_values().collect())
}
