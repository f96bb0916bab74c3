//! The result: symbolic execution on multisets of contributions.
//!
//! Places, messages and a few temporaries are *cells*. An operation becomes *moves* of one slot: a cell gets what another
//! holds, or the sum of two. Cells that moves connect form a component; components have nothing to do with each
//! other and are executed in parallel, each in the one total order.

use rayon::prelude::*;
use rondo_ir::collective::{Buffer, Collective, CollectiveKind, Contribution, Expected, Layout, Multiset, Place};
use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::index::RankId;
use rondo_ir::program::{MoveOp, OperationKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::atoms::Atoms;
use super::flat::{Flat, NONE};
use super::form::index;
use super::report::{Findings, Location};
use super::summation::{Difference, Sums};
use super::trace;
use crate::{Answer, Check};

/// A move of one slot: `dst ← a`, or `dst ← a + b`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) atom: u32,
    pub(super) a: u32,
    /// [`NONE`] for a copy.
    pub(super) b: u32,
    pub(super) dst: u32,
}

/// Numbers of cells: places, then messages, then temporaries.
pub(super) struct Cells {
    pub(super) places: u32,
    pub(super) messages: u32,
    pub(super) temporaries: u32,
}

impl Cells {
    /// Those that exist before moves ask for temporaries.
    pub(super) fn new(flat: &Flat<'_>, atoms: &Atoms) -> Self {
        Self { places: index(flat.places.len()), messages: index(atoms.sender.len()), temporaries: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.places as usize + self.messages as usize + self.temporaries as usize
    }

    /// Whether the cell is a message.
    pub(super) const fn is_message(&self, cell: u32) -> bool {
        self.places <= cell && cell < self.places + self.messages
    }
}

/// Visits all moves in the total order, without holding them. Temporaries come in the order of their numbers, each
/// written before it is read.
pub(super) fn each_move(flat: &Flat<'_>, atoms: &Atoms, order: &[u32], mut visit: impl FnMut(Move)) -> Cells {
    let mut cells = Cells::new(flat, atoms);
    let first_temporary = cells.places + cells.messages;
    let places = &flat.places;
    for &number in order {
        let atom = &atoms.list[number as usize];
        let me = flat.tbs[atom.tb as usize].rank;
        let mut push = |a: u32, b: u32, dst: u32| visit(Move { atom: number, a, b, dst });
        match &flat.ops[atom.op as usize].op.kind {
            OperationKind::Move { receive, local, store, send, count } => {
                let slots = if receive.is_some() || send.is_some() { 1 } else { *count };
                for slot in atom.offset..atom.offset + slots {
                    let local = local.map(|place| places.locate(me, place) + slot);
                    let store = store.map(|place| places.locate(me, place) + slot);
                    let message = receive.map(|_| cells.places + atom.in_message);
                    let out = send.map(|_| cells.places + atom.out_message);
                    let (a, b) = match (local, message) {
                        (Some(local), Some(message)) => (local, message),
                        (Some(only), None) | (None, Some(only)) => (only, NONE),
                        (None, None) => continue,
                    };
                    match (store, out) {
                        (Some(store), Some(out)) => {
                            push(a, b, store);
                            push(store, NONE, out);
                        }
                        (Some(store), None) => push(a, b, store),
                        (None, Some(out)) if b != NONE => {
                            let temporary = first_temporary + cells.temporaries;
                            cells.temporaries += 1;
                            push(a, b, temporary);
                            push(temporary, NONE, out);
                        }
                        (None, Some(out)) => push(a, NONE, out),
                        (None, None) => {}
                    }
                }
            }
            OperationKind::Reduce { sources, dst, count } => {
                let dst = places.locate(me, *dst);
                for &source in sources {
                    let source = places.locate(me, source);
                    for slot in 0..*count {
                        push(dst + slot, source + slot, dst + slot);
                    }
                }
            }
            OperationKind::Put { src, to, op, count } => {
                let src = places.locate(me, *src);
                for slot in 0..*count {
                    let mut value = src + slot;
                    if 1 < to.len() {
                        // A target may be the source itself.
                        let temporary = first_temporary + cells.temporaries;
                        cells.temporaries += 1;
                        push(value, NONE, temporary);
                        value = temporary;
                    }
                    for &(peer, place) in to {
                        let dst = places.locate(peer.number(), place) + slot;
                        match op {
                            MoveOp::Copy => push(value, NONE, dst),
                            MoveOp::Reduce => push(dst, value, dst),
                        }
                    }
                }
            }
            OperationKind::Get { from, dst, op, count } => {
                let dst = places.locate(me, *dst);
                for slot in 0..*count {
                    let source = |&(peer, place): &(RankId, Place)| places.locate(peer.number(), place) + slot;
                    let (Some(first), rest) = (from.first().map(source), from.get(1..).unwrap_or_default()) else {
                        continue;
                    };
                    let mut value = first;
                    if !rest.is_empty() {
                        // A source may be the destination itself.
                        value = first_temporary + cells.temporaries;
                        cells.temporaries += 1;
                        push(first, NONE, value);
                        for other in rest {
                            push(value, source(other), value);
                        }
                    }
                    match op {
                        MoveOp::Copy => push(value, NONE, dst + slot),
                        MoveOp::Reduce => push(dst + slot, value, dst + slot),
                    }
                }
            }
            OperationKind::Nop
            | OperationKind::Signal { .. }
            | OperationKind::Wait { .. }
            | OperationKind::Barrier { .. }
            | OperationKind::Loop { .. } => {}
        }
    }
    cells
}

/// What went wrong in a component.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    /// The move reads the cell, which holds nothing.
    Undefined { atom: u32, cell: u32 },
    /// The output slot ends with this; `None`: undefined.
    Wrong { rank: u32, slot: u32, held: Option<Multiset>, last: u32, blame: Option<u32> },
    /// The multisets became too large.
    TooLarge,
}

/// What the execution found.
pub(super) struct Executed {
    faults: Vec<Fault>,
    moves: usize,
    components: usize,
    outputs: usize,
    /// For sums that every rank gets: slots that are not added in the same order everywhere. `None` for other
    /// collectives.
    unlike: Option<Vec<Difference>>,
}

/// A list of items by component, one after the other.
struct Grouped<T> {
    start: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Grouped<T> {
    /// Groups items by a key below `keys`, keeping their order.
    fn new(keys: usize, items: &[T], key: impl Fn(&T) -> u32) -> Self {
        let mut start = vec![0_u32; keys + 1];
        for item in items {
            start[key(item) as usize + 1] += 1;
        }
        for at in 0..keys {
            start[at + 1] += start[at];
        }
        let mut next = start.clone();
        let mut sorted: Vec<T> = items.to_vec();
        for &item in items {
            let slot = &mut next[key(&item) as usize];
            sorted[*slot as usize] = item;
            *slot += 1;
        }
        Self { start, items: sorted }
    }

    fn of(&self, key: usize) -> &[T] {
        &self.items[self.start[key] as usize..self.start[key + 1] as usize]
    }
}

/// The program cut into components.
struct Components {
    /// By cell: its number among the cells of its component.
    local: Vec<u32>,
    /// By component: number of cells.
    sizes: Vec<u32>,
    moves: Grouped<Move>,
    /// Cells that are defined at the start.
    initial: Grouped<(u32, Contribution)>,
    /// (cell, rank, output slot).
    outputs: Grouped<(u32, u32, u32)>,
}

impl Components {
    fn new(moves: &[Move], cells: &Cells, flat: &Flat<'_>) -> Self {
        let layout = flat.places.layout;
        let mut parent: Vec<u32> = (0..index(cells.len())).collect();
        for step in moves {
            let root = unite(&mut parent, step.dst, step.a);
            if step.b != NONE {
                unite(&mut parent, root, step.b);
            }
        }
        let mut component = vec![NONE; cells.len()];
        let mut local = vec![0; cells.len()];
        let mut sizes: Vec<u32> = Vec::new();
        for cell in 0..index(cells.len()) {
            let root = find(&mut parent, cell) as usize;
            if component[root] == NONE {
                component[root] = index(sizes.len());
                sizes.push(0);
            }
            let number = component[root];
            component[cell as usize] = number;
            local[cell as usize] = sizes[number as usize];
            sizes[number as usize] += 1;
        }
        drop(parent);
        let mut initial: Vec<(u32, Contribution)> = Vec::new();
        layout.precondition(|rank, place, contribution| {
            initial.push((flat.places.locate(rank, place), contribution));
        });
        let mut outputs = Vec::new();
        for rank in 0..layout.collective().ranks() {
            for slot in 0..layout.slots(rank, Buffer::Output) {
                outputs.push((flat.places.locate(rank, Place::output(slot)), rank, slot));
            }
        }
        let of = |cell: u32| component[cell as usize];
        Self {
            moves: Grouped::new(sizes.len(), moves, |step| of(step.dst)),
            initial: Grouped::new(sizes.len(), &initial, |&(cell, _)| of(cell)),
            outputs: Grouped::new(sizes.len(), &outputs, |&(cell, ..)| of(cell)),
            local,
            sizes,
        }
    }
}

fn find(parent: &mut [u32], mut at: u32) -> u32 {
    while parent[at as usize] != at {
        parent[at as usize] = parent[parent[at as usize] as usize];
        at = parent[at as usize];
    }
    at
}

/// Joins two sets under the smaller root, which is given back.
fn unite(parent: &mut [u32], a: u32, b: u32) -> u32 {
    let (a, b) = (find(parent, a), find(parent, b));
    let (low, high) = (a.min(b), a.max(b));
    parent[high as usize] = low;
    low
}

/// Nothing was ever written there.
const UNDEFINED: u32 = 0;
/// Made from something undefined, which was reported.
const POISON: u32 = 1;
/// Contributions that the slow multisets of a component may hold in all.
const SLOW_LIMIT: usize = 1 << 24;

/// Values of a component. Value numbers are positions in `keys`.
struct Arena {
    words: usize,
    idempotent: bool,
    /// Input slot that all contributions of the value share; or, with [`Self::SLOW`], an index in `slow`.
    keys: Vec<u32>,
    /// By value: one bit a rank, set if the contribution of that rank is there, once.
    bits: Vec<u64>,
    uses: Vec<u32>,
    free: Vec<u32>,
    slow: Vec<Multiset>,
    slow_free: Vec<u32>,
    slow_size: usize,
}

impl Arena {
    const SLOW: u32 = 1 << 31;

    fn new(collective: &Collective) -> Self {
        let words = (collective.ranks() as usize).div_ceil(64);
        let mut arena = Self {
            words,
            idempotent: collective.operator().is_idempotent(),
            keys: Vec::new(),
            bits: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            slow: Vec::new(),
            slow_free: Vec::new(),
            slow_size: 0,
        };
        arena.clear();
        arena
    }

    fn clear(&mut self) {
        let Self { words, idempotent: _, keys, bits, uses, free, slow, slow_free, slow_size } = self;
        keys.clear();
        bits.clear();
        uses.clear();
        free.clear();
        slow.clear();
        slow_free.clear();
        *slow_size = 0;
        // Undefined and poison hold nothing.
        keys.resize(2, 0);
        uses.resize(2, 1);
        bits.resize(2 * *words, 0);
    }

    fn allocate(&mut self, key: u32) -> u32 {
        if let Some(id) = self.free.pop() {
            self.keys[id as usize] = key;
            let first = id as usize * self.words;
            self.bits[first..first + self.words].fill(0);
            return id;
        }
        self.keys.push(key);
        self.uses.push(0);
        self.bits.resize(self.bits.len() + self.words, 0);
        index(self.keys.len()) - 1
    }

    fn single(&mut self, contribution: Contribution) -> u32 {
        let id = self.allocate(contribution.slot);
        self.bits[id as usize * self.words + contribution.origin as usize / 64] |= 1 << (contribution.origin % 64);
        id
    }

    fn row(&self, id: u32) -> &[u64] {
        &self.bits[id as usize * self.words..(id as usize + 1) * self.words]
    }

    fn set(&mut self, cell: &mut u32, id: u32) {
        self.uses[id as usize] += 1;
        let old = std::mem::replace(cell, id);
        self.uses[old as usize] -= 1;
        if self.uses[old as usize] == 0 {
            let key = self.keys[old as usize];
            if key & Self::SLOW != 0 {
                let list = std::mem::take(&mut self.slow[(key & !Self::SLOW) as usize]);
                self.slow_size -= list.len();
                self.slow_free.push(key & !Self::SLOW);
            }
            self.free.push(old);
        }
    }

    /// A new value with all contributions of both.
    fn add(&mut self, a: u32, b: u32) -> u32 {
        if a == UNDEFINED || a == POISON || b == UNDEFINED || b == POISON {
            return POISON;
        }
        let (key, other) = (self.keys[a as usize], self.keys[b as usize]);
        if key == other && key & Self::SLOW == 0 {
            let disjoint = self.row(a).iter().zip(self.row(b)).all(|(a, b)| a & b == 0);
            if disjoint || self.idempotent {
                let id = self.allocate(key);
                let words = self.words;
                for word in 0..words {
                    self.bits[id as usize * words + word] =
                        self.bits[a as usize * words + word] | self.bits[b as usize * words + word];
                }
                return id;
            }
        }
        let sum = self.merged(&self.to_multiset(a), &self.to_multiset(b));
        self.slow_size += sum.len();
        let at = match self.slow_free.pop() {
            Some(at) => {
                self.slow[at as usize] = sum;
                at
            }
            None => {
                self.slow.push(sum);
                index(self.slow.len()) - 1
            }
        };
        self.allocate(Self::SLOW | at)
    }

    fn merged(&self, a: &Multiset, b: &Multiset) -> Multiset {
        let mut sum = Multiset::with_capacity(a.len() + b.len());
        let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
        while let (Some(&&left), Some(&&right)) = (a.peek(), b.peek()) {
            match left.0.cmp(&right.0) {
                std::cmp::Ordering::Less => {
                    sum.push(left);
                    a.next();
                }
                std::cmp::Ordering::Greater => {
                    sum.push(right);
                    b.next();
                }
                std::cmp::Ordering::Equal => {
                    let count = if self.idempotent { 1 } else { left.1.saturating_add(right.1) };
                    sum.push((left.0, count));
                    a.next();
                    b.next();
                }
            }
        }
        sum.extend(a);
        sum.extend(b);
        sum
    }

    fn to_multiset(&self, id: u32) -> Multiset {
        let key = self.keys[id as usize];
        if key & Self::SLOW != 0 {
            return self.slow[(key & !Self::SLOW) as usize].clone();
        }
        let row = self.row(id);
        (0..index(row.len() * 64))
            .filter(|origin| row[*origin as usize / 64] >> (origin % 64) & 1 != 0)
            .map(|origin| (Contribution { origin, slot: key }, 1))
            .collect()
    }

    /// Whether the value is exactly what is expected, for `n` ranks.
    fn is(&self, id: u32, expected: &Expected, n: u32) -> bool {
        if id == UNDEFINED || id == POISON {
            return false;
        }
        let key = self.keys[id as usize];
        let fast = key & Self::SLOW == 0;
        match expected {
            Expected::SumOverAll { slot } if fast => {
                let full = |word: usize| {
                    let ranks = n as usize - word * 64;
                    if 64 <= ranks { u64::MAX } else { (1 << ranks) - 1 }
                };
                key == *slot && self.row(id).iter().enumerate().all(|(word, &bits)| bits == full(word))
            }
            Expected::One(contribution) if fast => {
                let wanted = |word: usize| {
                    let at = contribution.origin as usize;
                    if at / 64 == word { 1_u64 << (at % 64) } else { 0 }
                };
                key == contribution.slot && self.row(id).iter().enumerate().all(|(word, &bits)| bits == wanted(word))
            }
            Expected::SumOverAll { .. } | Expected::One(_) | Expected::Exactly(_) => {
                let due = self.due(expected, n);
                let held = self.to_multiset(id);
                // A count that ran over is no count.
                held == due && held.iter().all(|&(_, count)| count != u64::MAX)
            }
        }
    }

    fn due(&self, expected: &Expected, n: u32) -> Multiset {
        let mut due = expected.to_multiset(n);
        if self.idempotent {
            due.iter_mut().for_each(|(_, count)| *count = (*count).min(1));
        }
        due
    }
}

/// Executes everything.
pub(super) fn run(flat: &Flat<'_>, atoms: &Atoms, order: &[u32], collective: &Collective) -> Executed {
    let mut moves: Vec<Move> = Vec::with_capacity(order.len());
    let cells = each_move(flat, atoms, order, |step| moves.push(step));
    let components = Components::new(&moves, &cells, flat);
    // From here on the moves sorted by component are enough.
    drop(moves);
    let count = components.sizes.len();
    let batch = count.div_ceil(64).max(1);
    let layout = flat.places.layout;
    // The order matters where all ranks end with one sum.
    let replicated = matches!(collective.kind(), CollectiveKind::AllReduce) && !collective.operator().is_idempotent();
    let found: Vec<(Vec<Fault>, Vec<Difference>)> = (0..count.div_ceil(batch))
        .into_par_iter()
        .map(|number| {
            let mut arena = Arena::new(collective);
            let mut sums = Sums::new();
            let mut values = Vec::new();
            let mut faults = Vec::new();
            let mut unlike = Vec::new();
            for component in number * batch..count.min((number + 1) * batch) {
                arena.clear();
                execute(&components, component, &layout, &mut arena, &mut values, &mut faults);
                if replicated && faults.is_empty() {
                    sums.clear();
                    compare_sums(&components, component, &mut sums, &mut values, &mut unlike);
                }
            }
            (faults, unlike)
        })
        .collect();
    let (faults, unlike): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    Executed {
        faults: faults.into_iter().flatten().collect(),
        moves: components.moves.items.len(),
        components: count,
        outputs: components.outputs.items.len(),
        unlike: replicated.then(|| unlike.into_iter().flatten().collect()),
    }
}

/// Finds the slots that some ranks add in another order than the first of them.
fn compare_sums(
    components: &Components,
    component: usize,
    sums: &mut Sums,
    values: &mut Vec<u32>,
    unlike: &mut Vec<Difference>,
) {
    values.clear();
    values.resize(components.sizes[component] as usize, NONE);
    let local = |cell: u32| components.local[cell as usize] as usize;
    for &(cell, contribution) in components.initial.of(component) {
        values[local(cell)] = sums.input(contribution);
    }
    for step in components.moves.of(component) {
        let a = values[local(step.a)];
        values[local(step.dst)] = if step.b == NONE { a } else { sums.add(a, values[local(step.b)]) };
    }
    let mut first: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
    let mut told: FxHashSet<u32> = FxHashSet::default();
    for &(cell, rank, slot) in components.outputs.of(component) {
        let sum = values[local(cell)];
        let &mut (other, its) = first.entry(slot).or_insert((rank, sum));
        if its != sum && told.insert(slot) {
            let (first, second) = ((other, sums.in_words(its)), (rank, sums.in_words(sum)));
            unlike.push(Difference { slot, first, second });
        }
    }
}

/// Executes a component.
fn execute(
    components: &Components,
    component: usize,
    layout: &Layout<'_>,
    arena: &mut Arena,
    values: &mut Vec<u32>,
    faults: &mut Vec<Fault>,
) {
    values.clear();
    values.resize(components.sizes[component] as usize, UNDEFINED);
    // Undefined and poison are used for ever.
    arena.uses[UNDEFINED as usize] = u32::MAX / 2;
    arena.uses[POISON as usize] = u32::MAX / 2;
    let local = |cell: u32| components.local[cell as usize] as usize;
    for &(cell, contribution) in components.initial.of(component) {
        let id = arena.single(contribution);
        arena.set(&mut values[local(cell)], id);
    }
    for step in components.moves.of(component) {
        let a = values[local(step.a)];
        let mut poisoned = false;
        for (cell, value) in [(step.a, a), (step.b, if step.b == NONE { a } else { values[local(step.b)] })] {
            if value == UNDEFINED && !poisoned && cell != NONE {
                poisoned = true;
                faults.push(Fault::Undefined { atom: step.atom, cell });
            }
        }
        let id = if poisoned {
            POISON
        } else if step.b == NONE {
            a
        } else {
            arena.add(a, values[local(step.b)])
        };
        arena.set(&mut values[local(step.dst)], id);
        if SLOW_LIMIT < arena.slow_size {
            faults.push(Fault::TooLarge);
            return;
        }
    }
    let n = layout.collective().ranks();
    for &(cell, rank, slot) in components.outputs.of(component) {
        let Some(expected) = layout.postcondition(rank, slot) else { continue };
        let held = values[local(cell)];
        // What comes from something undefined was reported there.
        if held != POISON && !arena.is(held, &expected, n) {
            let held = (held != UNDEFINED).then(|| arena.to_multiset(held));
            let (last, blame) = blame(components, component, arena.idempotent, cell, held.as_ref(), &expected, n);
            faults.push(Fault::Wrong { rank, slot, held, last, blame });
        }
    }
}

/// The last atom that wrote the cell, and the one that counted something twice.
fn blame(
    components: &Components,
    component: usize,
    idempotent: bool,
    cell: u32,
    held: Option<&Multiset>,
    expected: &Expected,
    n: u32,
) -> (u32, Option<u32>) {
    let steps = components.moves.of(component);
    let Some(last) = steps.iter().rposition(|step| step.dst == cell) else { return (NONE, None) };
    let due = expected.to_multiset(n);
    let surplus = held.into_iter().flatten().find(|(contribution, count)| {
        let wanted = due.binary_search_by_key(contribution, |&(c, _)| c).map_or(0, |at| due[at].1);
        wanted < *count && 1 < *count
    });
    let (Some(&(contribution, _)), false) = (surplus, idempotent) else { return (steps[last].atom, None) };
    // How often each cell holds it after each step; then back to where both operands had it.
    let mut counts = vec![0_u64; components.sizes[component] as usize];
    let mut writers = vec![NONE; counts.len()];
    let local = |cell: u32| components.local[cell as usize] as usize;
    for &(cell, initial) in components.initial.of(component) {
        counts[local(cell)] = u64::from(initial == contribution);
    }
    let mut history = Vec::with_capacity(last + 1);
    for (number, step) in steps[..=last].iter().enumerate() {
        let a = (counts[local(step.a)], writers[local(step.a)]);
        let b = if step.b == NONE { (0, NONE) } else { (counts[local(step.b)], writers[local(step.b)]) };
        history.push((a, b));
        counts[local(step.dst)] = a.0.saturating_add(b.0);
        writers[local(step.dst)] = index(number);
    }
    let mut at = last;
    loop {
        let (a, b) = history[at];
        if a.0 != 0 && b.0 != 0 {
            return (steps[last].atom, Some(steps[at].atom));
        }
        let writer = if a.0 != 0 { a.1 } else { b.1 };
        if writer == NONE {
            return (steps[last].atom, None);
        }
        at = writer as usize;
    }
}

impl Executed {
    /// Whether nothing went wrong in the order that was executed.
    pub(super) const fn is_right(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether all ranks add in the same order: a check that decides nothing, or a finding that refutes nothing. Nothing for
    /// collectives to which it does not matter, or where the result is not sure.
    pub(super) fn same_order(&self, findings: &mut Findings) -> Option<Check> {
        let unlike = self.unlike.as_ref()?;
        let Some(Difference { slot, first, second }) = unlike.iter().min_by_key(|difference| difference.slot) else {
            let detail = "all ranks add in the same order: their results are equal bit by bit".to_owned();
            return Some(Check { name: "same-order", answer: Answer::Proved, decides: false, detail });
        };
        let count = match unlike.len() {
            1 => "1 slot is".to_owned(),
            n => format!("{n} slots are"),
        };
        let note = |(rank, sum): &(u32, String)| format!("{}.o[{slot}] = {sum}", RankId::from(*rank));
        let diagnostic = Diagnostic {
            severity: Severity::Note,
            ..Diagnostic::warning("V122", format!("{count} not added in the same order on all ranks"))
        };
        findings.add(diagnostic.note(note(first)).note(note(second)), Vec::new());
        None
    }

    /// The check and its findings.
    pub(super) fn report(
        &self,
        flat: &Flat<'_>,
        atoms: &Atoms,
        order: &[u32],
        race_free: bool,
        findings: &mut Findings,
    ) -> Check {
        let Self { faults, moves, components, outputs, unlike: _ } = self;
        let positions = super::order::positions(order);
        let when = |fault: &Fault| match fault {
            Fault::Undefined { atom, .. } => (0, positions[*atom as usize], 0),
            Fault::Wrong { rank, slot, .. } => (1, *rank, *slot),
            Fault::TooLarge => (2, 0, 0),
        };
        let mut sorted: Vec<&Fault> = faults.iter().collect();
        sorted.sort_by_key(|fault| when(fault));
        let (mut wrong, mut large) = (0, false);
        let mut told = None;
        for fault in sorted {
            match fault {
                Fault::Undefined { atom, cell } => {
                    wrong += 1;
                    let op = atoms.list[*atom as usize].op;
                    if told != Some(op) {
                        told = Some(op);
                        undefined(flat, atoms, &positions, *atom, *cell, findings);
                    }
                }
                Fault::Wrong { rank, slot, held, last, blame } => {
                    wrong += 1;
                    self.wrong(flat, atoms, &positions, (*rank, *slot), held.as_ref(), *last, *blame, findings);
                }
                Fault::TooLarge => large = true,
            }
        }
        let detail = format!("{outputs} output slots, {moves} moves of one slot in {components} independent parts");
        if wrong != 0 {
            super::check("completes", Answer::Refuted, format!("{wrong} faults; {detail}"))
        } else if large {
            let message = "the sums became too large to follow";
            findings.add(Diagnostic::warning("V111", message), Vec::new());
            super::check("completes", Answer::Unknown, format!("{message}; {detail}"))
        } else if race_free {
            super::check("completes", Answer::Proved, detail)
        } else {
            let why = "right in one order, but races leave the result open";
            super::check("completes", Answer::Unknown, format!("{why}; {detail}"))
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one fault")]
    fn wrong(
        &self,
        flat: &Flat<'_>,
        atoms: &Atoms,
        positions: &[u32],
        (rank, slot): (u32, u32),
        held: Option<&Multiset>,
        last: u32,
        blame: Option<u32>,
        findings: &mut Findings,
    ) {
        let layout = flat.places.layout;
        let n = layout.collective().ranks();
        let Some(expected) = layout.postcondition(rank, slot) else { return };
        let due = expected.to_multiset(n);
        let place = format!("{}.{}", RankId::from(rank), Place::output(slot));
        let mut locations: Vec<(Location, String)> = Vec::new();
        let mut parts = Vec::new();
        match held {
            None => parts.push("is never written".to_owned()),
            Some(held) => {
                let of = |list: &Multiset, contribution: Contribution| {
                    list.binary_search_by_key(&contribution, |&(c, _)| c).map_or(0, |at| list[at].1)
                };
                let missing: Vec<String> =
                    due.iter().filter(|&&(c, count)| of(held, c) < count).map(|&(c, _)| name(c)).collect();
                let foreign: Vec<String> =
                    held.iter().filter(|&&(c, _)| of(&due, c) == 0).map(|&(c, _)| name(c)).collect();
                let surplus: Vec<String> = held
                    .iter()
                    .filter(|&&(c, count)| of(&due, c) != 0 && of(&due, c) < count)
                    .map(|&(c, count)| format!("{} {count} times", name(c)))
                    .collect();
                for (what, list) in [("lacks", missing), ("holds", surplus), ("wrongly holds", foreign)] {
                    if !list.is_empty() {
                        parts.push(format!("{what} {}", few(&list)));
                    }
                }
            }
        }
        let mut message = format!("{place} {}", parts.join(", and "));
        let mut notes = vec![format!(
            "it should end with {}",
            few(&due
                .iter()
                .map(|&(c, count)| if count == 1 { name(c) } else { format!("{count} x {}", name(c)) })
                .collect::<Vec<_>>())
        )];
        if let Some(held) = held {
            let held: Vec<String> = held
                .iter()
                .map(|&(c, count)| if count == 1 { name(c) } else { format!("{count} x {}", name(c)) })
                .collect();
            notes.push(format!("it ends with {}", few(&held)));
        }
        if let Some(blame) = blame {
            let location = flat.location(atoms.list[blame as usize].op);
            message.push_str(&format!("; {location} adds what is there already"));
            locations.push((location, "adds what is there already".to_owned()));
        }
        if last == NONE {
            notes.push("no instruction writes it".to_owned());
        } else {
            let location = flat.location(atoms.list[last as usize].op);
            if blame.is_none() {
                message.push_str(&format!("; {location} writes it last"));
            } else if blame != Some(last) {
                notes.push(format!("{location} writes it last"));
            }
            if blame != Some(last) {
                locations.push((location, "writes it last".to_owned()));
            }
            let target = blame.unwrap_or(last);
            if let Some(run) = trace::shortest(flat, atoms, positions, target) {
                notes.push(format!("the shortest run to {}: {run}", flat.location(atoms.list[target as usize].op)));
            }
        }
        let diagnostic = Diagnostic { notes, ..Diagnostic::error("V120", message) };
        findings.add(diagnostic, locations);
    }
}

fn undefined(flat: &Flat<'_>, atoms: &Atoms, positions: &[u32], atom: u32, cell: u32, findings: &mut Findings) {
    let location = flat.location(atoms.list[atom as usize].op);
    let what = if (cell as usize) < flat.places.len() {
        let (rank, place) = flat.places.place(cell);
        format!("{}.{place}", RankId::from(rank))
    } else {
        "a message".to_owned()
    };
    let mut diagnostic = Diagnostic::error("V118", format!("{location} reads {what}, which holds nothing yet"))
        .note("scratch and output are undefined until something is written to them");
    if let Some(run) = trace::shortest(flat, atoms, positions, atom) {
        diagnostic = diagnostic.note(format!("the shortest run that leads there: {run}"));
    }
    findings.add(diagnostic, vec![(location, format!("reads {what}"))]);
}

/// `r3.i[1]`
fn name(contribution: Contribution) -> String {
    format!("{}.{}", RankId::from(contribution.origin), Place::input(contribution.slot))
}

/// The first few of a list.
fn few(list: &[String]) -> String {
    const FEW: usize = 6;
    if list.len() <= FEW + 1 {
        return if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
    }
    format!("{} and {} more", list[..FEW].join(", "), list.len() - FEW)
}
