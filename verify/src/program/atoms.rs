//! Atoms: the smallest things that happen at once, and the edges of happens-before between threadblocks.

use rondo_ir::program::OperationKind;
use rustc_hash::FxHashMap;

use super::flat::{Flat, NONE};
use super::form::{index, waited_value};

/// One atom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atom {
    /// Flat operation.
    pub(super) op: u32,
    pub(super) tb: u32,
    /// Slot of the operation, for one that sends or receives a slot at a time.
    pub(super) offset: u32,
    /// Connection on which it receives, or [`NONE`].
    pub(super) receive: u32,
    /// Connection on which it sends, or [`NONE`].
    pub(super) send: u32,
    /// The message that it receives.
    pub(super) in_message: u32,
    /// The message that it sends.
    pub(super) out_message: u32,
    /// Index in [`Atoms::extras`], or [`NONE`].
    pub(super) extra: u32,
}

/// What an atom does besides moving data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    /// Adds 1 to this counter.
    Signal(u32),
    /// Waits until this counter has this value.
    Wait(u32, u64),
    /// Arrives at this barrier.
    Arrive(u32),
    /// Leaves this barrier at this turn, counted from 0.
    Leave(u32, u32),
}

/// Dependencies and action of an atom.
#[derive(Clone, Debug)]
pub(super) struct Extra {
    /// In [`Atoms::deps`].
    pub(super) deps: std::ops::Range<u32>,
    pub(super) action: Action,
}

/// A counter of a rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    /// Per threadblock that signals it: its signals in order.
    pub(super) producers: Vec<(u32, Vec<u32>)>,
    pub(super) total: u64,
}

/// A barrier of a rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Barrier {
    pub(super) participants: u32,
    /// Per turn: the arrivals.
    pub(super) arrivals: Vec<Vec<u32>>,
}

/// All atoms, those of a threadblock next to each other.
#[derive(Debug)]
pub(super) struct Atoms {
    pub(super) list: Vec<Atom>,
    /// First atom of each threadblock, and the end.
    pub(super) start: Vec<u32>,
    pub(super) extras: Vec<Extra>,
    /// Dependencies: (threadblock, atom after which they are fulfilled).
    pub(super) deps: Vec<(u32, u32)>,
    pub(super) counters: Vec<Counter>,
    pub(super) barriers: Vec<Barrier>,
    /// First message of each connection, and the end.
    pub(super) messages: Vec<u32>,
    /// By message: the atom that sends it.
    pub(super) sender: Vec<u32>,
    /// Whether some wait happens after signals that the rule of happens-before does not see.
    pub(super) approximate: bool,
    /// By atom: whether a dependency, a wait or a barrier may hear of it.
    pub(super) heard: Vec<bool>,
    /// Whether each message has one slot.
    pub(super) split: bool,
}

impl Atoms {
    /// The atoms; each message a slot if `split`, else a message an operation.
    pub(super) fn new(flat: &Flat<'_>, split: bool) -> Self {
        let mut list: Vec<Atom> = Vec::with_capacity(flat.ops.len());
        let mut start = Vec::with_capacity(flat.tbs.len() + 1);
        let mut extras: Vec<Extra> = Vec::new();
        let mut counters: Vec<Counter> = Vec::new();
        let mut barriers: Vec<Barrier> = Vec::new();
        let mut known_counters: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut known_barriers: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut turns: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut last_atom: Vec<u32> = Vec::with_capacity(flat.ops.len());
        let mut sends = vec![0_u32; flat.conns.len()];
        let mut receives = vec![0_u32; flat.conns.len()];
        let mut waiting: Vec<(u32, u32)> = Vec::new();
        for (number, tb) in (0_u32..).zip(&flat.tbs) {
            start.push(index(list.len()));
            for op in tb.ops.clone() {
                let flat_op = &flat.ops[op as usize];
                let mut atom = Atom {
                    op,
                    tb: number,
                    offset: 0,
                    receive: flat_op.receive,
                    send: flat_op.send,
                    in_message: NONE,
                    out_message: NONE,
                    extra: NONE,
                };
                let waits = flat_op.waits && !flat_op.op.waits_for.is_empty();
                let mut counter = |rank: u32, counter: u32| {
                    *known_counters.entry((rank, counter)).or_insert_with(|| {
                        counters.push(Counter::default());
                        index(counters.len()) - 1
                    })
                };
                let mut parts = 1;
                let action = match &flat_op.op.kind {
                    OperationKind::Signal { peer, counter: c } => Action::Signal(counter(peer.number(), *c)),
                    OperationKind::Wait { counter: c, .. } => Action::Wait(counter(tb.rank, *c), waited_value(flat_op)),
                    OperationKind::Barrier { barrier, threadblocks } => {
                        let b = *known_barriers.entry((tb.rank, *barrier)).or_insert_with(|| {
                            barriers.push(Barrier { participants: index(threadblocks.len()), arrivals: Vec::new() });
                            index(barriers.len()) - 1
                        });
                        Action::Arrive(b)
                    }
                    OperationKind::Move { count, .. } => {
                        if split && (atom.receive != NONE || atom.send != NONE) {
                            parts = *count;
                        }
                        Action::None
                    }
                    OperationKind::Nop
                    | OperationKind::Reduce { .. }
                    | OperationKind::Put { .. }
                    | OperationKind::Get { .. }
                    | OperationKind::Loop { .. } => Action::None,
                };
                if waits || action != Action::None {
                    atom.extra = index(extras.len());
                    if waits {
                        waiting.push((atom.extra, op));
                    }
                    extras.push(Extra { deps: 0..0, action });
                }
                match action {
                    Action::Signal(c) => {
                        let counter = &mut counters[c as usize];
                        counter.total += 1;
                        let own = index(list.len());
                        match counter.producers.iter_mut().rev().find(|(tb, _)| *tb == number) {
                            Some((_, signals)) => signals.push(own),
                            None => counter.producers.push((number, vec![own])),
                        }
                    }
                    Action::Arrive(b) => {
                        let turn = turns.entry((number, b)).or_insert(0);
                        let barrier = &mut barriers[b as usize];
                        if barrier.arrivals.len() <= *turn as usize {
                            barrier.arrivals.push(Vec::new());
                        }
                        barrier.arrivals[*turn as usize].push(index(list.len()));
                        list.push(atom);
                        atom.extra = index(extras.len());
                        extras.push(Extra { deps: 0..0, action: Action::Leave(b, *turn) });
                        *turn += 1;
                    }
                    Action::None | Action::Wait(..) | Action::Leave(..) => {}
                }
                for offset in 0..parts {
                    atom.offset = offset;
                    if atom.receive != NONE {
                        let count = &mut receives[atom.receive as usize];
                        atom.in_message = *count;
                        *count += 1;
                    }
                    if atom.send != NONE {
                        let count = &mut sends[atom.send as usize];
                        atom.out_message = *count;
                        *count += 1;
                    }
                    list.push(atom);
                    atom.extra = NONE;
                }
                last_atom.push(index(list.len()) - 1);
            }
        }
        start.push(index(list.len()));
        let mut deps = Vec::new();
        for (extra, op) in waiting {
            let first = index(deps.len());
            let flat_op = &flat.ops[op as usize];
            let rank = flat.tbs[flat_op.tb as usize].rank;
            for &wait in &flat_op.op.waits_for {
                let (tb, op) = flat.awaited(rank, wait);
                deps.push((tb, last_atom[op as usize]));
            }
            extras[extra as usize].deps = first..index(deps.len());
        }
        let mut messages = Vec::with_capacity(sends.len() + 1);
        let mut total = 0;
        for &count in &sends {
            messages.push(total);
            total += count;
        }
        messages.push(total);
        let mut sender = vec![NONE; total as usize];
        for (number, atom) in (0_u32..).zip(&mut list) {
            if atom.receive != NONE {
                atom.in_message += messages[atom.receive as usize];
            }
            if atom.send != NONE {
                atom.out_message += messages[atom.send as usize];
                sender[atom.out_message as usize] = number;
            }
        }
        let approximate = extras.iter().any(|extra| match extra.action {
            Action::Wait(c, value) => {
                let counter = &counters[c as usize];
                1 < counter.producers.len() && value != 0 && value < counter.total
            }
            _ => false,
        });
        let mut heard = vec![false; list.len()];
        for &(_, dep) in &deps {
            heard[dep as usize] = true;
        }
        for signals in counters.iter().flat_map(|counter| &counter.producers).map(|(_, signals)| signals) {
            signals.iter().for_each(|&signal| heard[signal as usize] = true);
        }
        for arrivals in barriers.iter().flat_map(|barrier| &barrier.arrivals) {
            arrivals.iter().for_each(|&arrival| heard[arrival as usize] = true);
        }
        Self { list, start, extras, deps, counters, barriers, messages, sender, approximate, heard, split }
    }

    /// Calls `visit` with each atom of another threadblock that directly happens before this one.
    pub(super) fn before(&self, atom: &Atom, mut visit: impl FnMut(u32)) {
        if atom.receive != NONE {
            visit(self.sender[atom.in_message as usize]);
        }
        if atom.extra == NONE {
            return;
        }
        let extra = &self.extras[atom.extra as usize];
        for &(_, dep) in &self.deps[extra.deps.start as usize..extra.deps.end as usize] {
            visit(dep);
        }
        match extra.action {
            Action::Wait(c, value) => self.signals_before(c, value, visit),
            Action::Leave(b, turn) => {
                for &arrival in &self.barriers[b as usize].arrivals[turn as usize] {
                    visit(arrival);
                }
            }
            Action::None | Action::Signal(_) | Action::Arrive(_) => {}
        }
    }

    /// The signals without which the counter could not have the value.
    fn signals_before(&self, counter: u32, value: u64, mut visit: impl FnMut(u32)) {
        let counter = &self.counters[counter as usize];
        if value == 0 {
            return;
        }
        let spare = counter.total.saturating_sub(value);
        for (_, signals) in &counter.producers {
            if let Some(needed) = (signals.len() as u64).checked_sub(spare).filter(|&needed| needed != 0)
                && let Ok(needed) = usize::try_from(needed)
            {
                visit(signals[needed - 1]);
            }
        }
    }
}
