//! A slow interpreter, written from the page of [`rondo_ir::program`] alone: it tries interleavings.
//!
//! A state is how far each threadblock has come; everything else is counted from that. Small programs are explored in all
//! their states, which says what can happen before what, and where a run can get stuck.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rondo_ir::collective::{Buffer, Contribution, Layout, Place};
use rondo_ir::index::RankId;
use rondo_ir::program::{Connection, MoveOp, Operation, OperationKind, Program};

use crate::Claim;

/// One thing that happens at once.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) operation: &'a Operation,
    /// Index in the list of the threadblock.
    top: usize,
    turn: u32,
    /// First slot and number of slots.
    slots: (u32, u32),
    /// For a barrier: whether it leaves.
    leaves: bool,
    /// Whether dependencies are waited for here, and whether the operation is done after it.
    first: bool,
    last: bool,
}

pub(super) struct Oracle<'a> {
    claim: &'a Claim,
    layout: Layout<'a>,
    /// Rank and steps of each threadblock.
    pub(super) blocks: Vec<(u32, Vec<Step<'a>>)>,
    /// First threadblock of each rank.
    first: Vec<usize>,
}

/// What a run ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stuck,
    /// Something undefined was read.
    Undefined,
    /// All output places.
    Held(Vec<Option<Value>>),
}

pub(super) type Value = BTreeMap<Contribution, u64>;

/// How far each threadblock has come.
pub(super) type State = Vec<usize>;

impl<'a> Oracle<'a> {
    /// Messages have one slot each if `split`.
    pub(super) fn new(claim: &'a Claim, program: &'a Program, split: bool) -> Self {
        let mut blocks = Vec::new();
        let mut first = Vec::new();
        for (rank, of_rank) in (0..).zip(&program.ranks) {
            first.push(blocks.len());
            for block in &of_rank.threadblocks {
                let mut steps = Vec::new();
                for (top, operation) in block.operations.iter().enumerate() {
                    unroll(&mut steps, operation, top, 0, split);
                    let index = steps.len() - 1;
                    let last: &mut Step<'_> = &mut steps[index];
                    last.last = true;
                }
                blocks.push((rank, steps));
            }
        }
        Self { claim, layout: claim.collective.layout(claim.chunks).unwrap(), blocks, first }
    }

    fn count(&self, state: &State, of: impl Fn(u32, &Step<'a>) -> bool) -> u64 {
        let done = self
            .blocks
            .iter()
            .zip(state)
            .map(|((rank, steps), &done)| steps[..done].iter().filter(|step| of(*rank, step)).count() as u64);
        done.sum()
    }

    /// Messages sent and received on the connection.
    fn traffic(&self, state: &State, src: u32, dst: u32, channel: u32) -> (u64, u64) {
        let sent = self.count(state, |rank, step| {
            matches!(&step.operation.kind, OperationKind::Move { send: Some(c), .. }
                if rank == src && c.peer.number() == dst && c.channel == channel)
        });
        let received = self.count(state, |rank, step| {
            matches!(&step.operation.kind, OperationKind::Move { receive: Some(c), .. }
                if rank == dst && c.peer.number() == src && c.channel == channel)
        });
        (sent, received)
    }

    /// Whether the next step of the threadblock can happen.
    pub(super) fn enabled(&self, state: &State, block: usize, depth: u64) -> bool {
        let (rank, steps) = &self.blocks[block];
        let Some(step) = steps.get(state[block]) else { return false };
        if step.first {
            for wait in &step.operation.waits_for {
                let other = self.first[*rank as usize] + wait.threadblock as usize;
                let published = self.blocks[other].1[..state[other]]
                    .iter()
                    .any(|done| wait.operation as usize <= done.top && done.last && self.publishes(other, done.top));
                if !published {
                    return false;
                }
            }
        }
        match &step.operation.kind {
            OperationKind::Move { receive, send, .. } => {
                let arrived = receive.is_none_or(|Connection { peer, channel }| {
                    let (sent, received) = self.traffic(state, peer.number(), *rank, channel);
                    received < sent
                });
                let room = send.is_none_or(|Connection { peer, channel }| {
                    let (sent, received) = self.traffic(state, *rank, peer.number(), channel);
                    sent - received < depth
                });
                arrived && room
            }
            OperationKind::Wait { counter, value, stride } => {
                let due = value + stride * u64::from(step.turn);
                let given = self.count(state, |_, step| {
                    matches!(step.operation.kind, OperationKind::Signal { peer, counter: c }
                        if peer == RankId::from(*rank) && c == *counter)
                });
                due <= given
            }
            OperationKind::Barrier { barrier, threadblocks } if step.leaves => {
                let of = |other: usize, leaves: bool| {
                    let done = &self.blocks[other].1[..state[other]];
                    done.iter()
                        .filter(|step| {
                            step.leaves == leaves
                                && matches!(&step.operation.kind, OperationKind::Barrier { barrier: b, .. } if b == barrier)
                        })
                        .count()
                };
                let left = of(block, true);
                threadblocks.iter().all(|&other| left < of(self.first[*rank as usize] + other as usize, false))
            }
            _ => true,
        }
    }

    /// Whether the operation of the list publishes.
    fn publishes(&self, block: usize, top: usize) -> bool {
        self.blocks[block].1.iter().any(|step| step.top == top && step.last && step.publishes())
    }

    pub(super) fn start(&self) -> State {
        vec![0; self.blocks.len()]
    }

    pub(super) fn finished(&self, state: &State) -> bool {
        self.blocks.iter().zip(state).all(|((_, steps), &done)| steps.len() == done)
    }

    /// All states that can be reached; `None` if there are more than `limit`.
    pub(super) fn reachable(&self, depth: u64, limit: usize) -> Option<Vec<State>> {
        let mut known = HashSet::from([self.start()]);
        let mut list = vec![self.start()];
        let mut next = 0;
        while next < list.len() {
            let state = list[next].clone();
            next += 1;
            for block in 0..state.len() {
                if self.enabled(&state, block, depth) {
                    let mut after = state.clone();
                    after[block] += 1;
                    if known.insert(after.clone()) {
                        list.push(after);
                    }
                }
            }
            if limit < list.len() {
                return None;
            }
        }
        Some(list)
    }

    /// Whether some interleaving at this depth gets stuck.
    pub(super) fn can_get_stuck(&self, depth: u64, limit: usize) -> Option<bool> {
        let stuck =
            |state: &State| !self.finished(state) && (0..state.len()).all(|block| !self.enabled(state, block, depth));
        Some(self.reachable(depth, limit)?.iter().any(stuck))
    }

    /// Whether two steps touch a place, one of them writing, and can happen in both orders.
    pub(super) fn has_race(&self, limit: usize) -> Option<bool> {
        let states = self.reachable(u64::MAX, limit)?;
        let precedes =
            |a: (usize, usize), b: (usize, usize)| states.iter().any(|state| a.1 < state[a.0] && state[b.0] <= b.1);
        for (one, (_, steps)) in self.blocks.iter().enumerate() {
            for other in one + 1..self.blocks.len() {
                for a in 0..steps.len() {
                    for b in 0..self.blocks[other].1.len() {
                        let (a, b) = ((one, a), (other, b));
                        if self.conflict(a, b) && precedes(a, b) && precedes(b, a) {
                            return Some(true);
                        }
                    }
                }
            }
        }
        Some(false)
    }

    fn conflict(&self, a: (usize, usize), b: (usize, usize)) -> bool {
        let (a, b) = (self.touched(a), self.touched(b));
        a.iter().any(|(place, writes)| b.iter().any(|(other, also)| place == other && (*writes || *also)))
    }

    /// Canonical places that a step touches, and whether it writes them.
    fn touched(&self, (block, at): (usize, usize)) -> Vec<((u32, Place), bool)> {
        let (rank, steps) = &self.blocks[block];
        let step = &steps[at];
        let mut list = Vec::new();
        for slot in step.slots.0..step.slots.0 + step.slots.1 {
            let mut add = |rank: u32, place: Place, writes: bool| {
                list.push(((rank, self.layout.canonical(rank, place.offset(slot))), writes));
            };
            match &step.operation.kind {
                OperationKind::Move { local, store, .. } => {
                    local.iter().for_each(|&place| add(*rank, place, false));
                    store.iter().for_each(|&place| add(*rank, place, true));
                }
                OperationKind::Reduce { sources, dst, .. } => {
                    sources.iter().for_each(|&place| add(*rank, place, false));
                    add(*rank, *dst, true);
                }
                OperationKind::Put { src, to, .. } => {
                    add(*rank, *src, false);
                    to.iter().for_each(|&(peer, place)| add(peer.number(), place, true));
                }
                OperationKind::Get { from, dst, .. } => {
                    from.iter().for_each(|&(peer, place)| add(peer.number(), place, false));
                    add(*rank, *dst, true);
                }
                _ => {}
            }
        }
        list
    }

    /// Runs with the order that `choose` picks among the threadblocks that can go on.
    pub(super) fn run(&self, depth: u64, mut choose: impl FnMut(usize) -> usize) -> End {
        let mut state = self.start();
        let mut memory: BTreeMap<(u32, Place), Value> = BTreeMap::new();
        let mut fifos: BTreeMap<(u32, u32, u32), Vec<Vec<Value>>> = BTreeMap::new();
        self.layout.precondition(|rank, place, contribution| {
            memory.insert((rank, place), Value::from([(contribution, 1)]));
        });
        while !self.finished(&state) {
            let ready: Vec<usize> = (0..state.len()).filter(|&block| self.enabled(&state, block, depth)).collect();
            if ready.is_empty() {
                return End::Stuck;
            }
            let block = ready[choose(ready.len())];
            let (rank, steps) = &self.blocks[block];
            if self.effect(*rank, &steps[state[block]], &mut memory, &mut fifos).is_none() {
                return End::Undefined;
            }
            state[block] += 1;
        }
        let mut held = Vec::new();
        for rank in 0..self.claim.collective.ranks() {
            for slot in 0..self.layout.slots(rank, Buffer::Output) {
                held.push(memory.get(&(rank, self.layout.canonical(rank, Place::output(slot)))).cloned());
            }
        }
        End::Held(held)
    }

    /// `None`: read something undefined.
    fn effect(
        &self,
        rank: u32,
        step: &Step<'a>,
        memory: &mut BTreeMap<(u32, Place), Value>,
        fifos: &mut BTreeMap<(u32, u32, u32), Vec<Vec<Value>>>,
    ) -> Option<()> {
        let at = |rank: u32, place: Place, slot: u32| (rank, self.layout.canonical(rank, place.offset(slot)));
        let mut writes: Vec<((u32, Place), Value)> = Vec::new();
        match &step.operation.kind {
            OperationKind::Move { receive, local, store, send, .. } => {
                let message = receive.map(|c| fifos.get_mut(&(c.peer.number(), rank, c.channel)).unwrap().remove(0));
                let mut values = Vec::new();
                for slot in step.slots.0..step.slots.0 + step.slots.1 {
                    let received = message.as_ref().map(|message| message[(slot - step.slots.0) as usize].clone());
                    let read = match local {
                        Some(place) => Some(memory.get(&at(rank, *place, slot))?.clone()),
                        None => None,
                    };
                    let value = match (received, read) {
                        (Some(a), Some(b)) => sum(&a, &b),
                        (a, b) => a.or(b).unwrap(),
                    };
                    if let Some(place) = store {
                        writes.push((at(rank, *place, slot), value.clone()));
                    }
                    values.push(value);
                }
                if let Some(c) = send {
                    fifos.entry((rank, c.peer.number(), c.channel)).or_default().push(values);
                }
            }
            OperationKind::Reduce { sources, dst, count } => {
                for slot in 0..*count {
                    let mut value = memory.get(&at(rank, *dst, slot))?.clone();
                    for source in sources {
                        value = sum(&value, memory.get(&at(rank, *source, slot))?);
                    }
                    writes.push((at(rank, *dst, slot), value));
                }
            }
            OperationKind::Put { src, to, op, count } => {
                for slot in 0..*count {
                    let value = memory.get(&at(rank, *src, slot))?.clone();
                    for &(peer, place) in to {
                        let dst = at(peer.number(), place, slot);
                        let value = match op {
                            MoveOp::Copy => value.clone(),
                            MoveOp::Reduce => sum(&value, memory.get(&dst)?),
                        };
                        writes.push((dst, value));
                    }
                }
            }
            OperationKind::Get { from, dst, op, count } => {
                for slot in 0..*count {
                    let mut value = Value::new();
                    for &(peer, place) in from {
                        value = sum(&value, memory.get(&at(peer.number(), place, slot))?);
                    }
                    let dst = at(rank, *dst, slot);
                    if *op == MoveOp::Reduce {
                        value = sum(&value, memory.get(&dst)?);
                    }
                    writes.push((dst, value));
                }
            }
            _ => {}
        }
        memory.extend(writes);
        Some(())
    }

    /// Whether a run ended as the collective asks.
    pub(super) fn is_right(&self, end: &End) -> bool {
        let End::Held(held) = end else { return false };
        let mut held = held.iter();
        for rank in 0..self.claim.collective.ranks() {
            for slot in 0..self.layout.slots(rank, Buffer::Output) {
                let value = held.next().unwrap();
                if let Some(expected) = self.layout.postcondition(rank, slot) {
                    let due: Value = expected.to_multiset(self.claim.collective.ranks()).into_iter().collect();
                    if value.as_ref() != Some(&due) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Runs it `times` times in random orders; gives all different ends.
    pub(super) fn ends(&self, depth: u64, times: usize, random: &mut Random) -> Vec<End> {
        let mut ends: Vec<End> = Vec::new();
        for _ in 0..times {
            let end = self.run(depth, |ready| random.below(ready));
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
        ends
    }
}

impl Step<'_> {
    fn publishes(&self) -> bool {
        self.operation.publishes && self.turn == 0
    }
}

fn unroll<'a>(steps: &mut Vec<Step<'a>>, operation: &'a Operation, top: usize, turn: u32, split: bool) {
    let step = Step { operation, top, turn, slots: (0, 1), leaves: false, first: false, last: false };
    let start = steps.len();
    match &operation.kind {
        OperationKind::Move { receive, send, count, .. } => {
            if split && (receive.is_some() || send.is_some()) {
                steps.extend((0..*count).map(|slot| Step { slots: (slot, 1), ..step }));
            } else {
                steps.push(Step { slots: (0, *count), ..step });
            }
        }
        OperationKind::Reduce { count, .. } | OperationKind::Put { count, .. } | OperationKind::Get { count, .. } => {
            steps.push(Step { slots: (0, *count), ..step });
        }
        OperationKind::Barrier { .. } => {
            steps.push(step);
            steps.push(Step { leaves: true, ..step });
        }
        OperationKind::Loop { times, body } => {
            steps.push(step);
            for turn in 0..*times {
                for operation in body {
                    unroll(steps, operation, top, turn, split);
                }
            }
            steps.push(step);
        }
        OperationKind::Nop | OperationKind::Signal { .. } | OperationKind::Wait { .. } => steps.push(step),
    }
    steps[start].first = true;
}

fn sum(a: &Value, b: &Value) -> Value {
    let mut sum = a.clone();
    for (&contribution, &count) in b {
        *sum.entry(contribution).or_insert(0) += count;
    }
    sum
}

/// Numbers that are the same on every machine (xorshift).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) as usize) % end
    }

    pub(super) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// Kinds of programs that a set of tests has met, to show that it met them.
#[derive(Debug, Default)]
pub(super) struct Met(pub(super) BTreeMap<String, usize>);

impl Met {
    pub(super) fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_insert(0) += 1;
    }

    /// Every one of these was met at least so often.
    pub(super) fn at_least(&self, times: usize, what: &[&str]) {
        let few: BTreeSet<_> = what.iter().filter(|&&what| self.0.get(what).copied().unwrap_or(0) < times).collect();
        assert!(few.is_empty(), "met too rarely: {few:?} of {:?}", self.0);
    }
}
