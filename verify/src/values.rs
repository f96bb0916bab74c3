//! Values of one component: multisets over its contributions, shared between places and counted.
//!
//! A value is 32 bits: nothing, one contribution, a set (bits), or a multiset with counts where something is held twice.
//! Copies share, so only additions cost. Sets and multisets are freed when the last place lets go of them.

/// Marks a set.
const SET: u32 = 1 << 31;
/// Marks a multiset with counts.
const COUNTED: u32 = 3 << 30;
const INDEX: u32 = (1 << 30) - 1;

/// The values.
pub(crate) struct Values {
    words: usize,
    idempotent: bool,
    bits: Vec<u64>,
    set_refs: Vec<u32>,
    free_sets: Vec<u32>,
    counted: Vec<Vec<(u32, u64)>>,
    counted_refs: Vec<u32>,
    free_counted: Vec<u32>,
    counted_entries: usize,
}

impl Values {
    /// No value.
    pub const NONE: u32 = 0;

    pub fn new() -> Self {
        Self {
            words: 0,
            idempotent: false,
            bits: Vec::new(),
            set_refs: Vec::new(),
            free_sets: Vec::new(),
            counted: Vec::new(),
            counted_refs: Vec::new(),
            free_counted: Vec::new(),
            counted_entries: 0,
        }
    }

    /// Forgets all values; from now on there are `contributions`.
    pub fn start(&mut self, contributions: usize, idempotent: bool) {
        self.words = contributions.div_ceil(64);
        self.idempotent = idempotent;
        self.bits.clear();
        self.set_refs.clear();
        self.free_sets.clear();
        self.counted.clear();
        self.counted_refs.clear();
        self.free_counted.clear();
        self.counted_entries = 0;
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.bits.len() * 8 + self.counted_entries * 16
    }

    /// The value that holds one contribution once. Contributions are below 2³⁰, as places are.
    pub fn one(local: u32) -> u32 {
        local + 1
    }

    /// The contribution, if the value is just one of them, once.
    pub fn as_one(value: u32) -> Option<u32> {
        (value != Self::NONE && value < SET).then(|| value - 1)
    }

    /// The set, if the value is one of at least two contributions, each once.
    pub fn as_bits(&self, value: u32) -> Option<&[u64]> {
        is_set(value).then(|| self.set(value))
    }

    /// The contributions with their counts, ascending.
    pub fn counts(&self, value: u32) -> Vec<(u32, u64)> {
        if let Some(local) = Self::as_one(value) {
            return vec![(local, 1)];
        }
        if is_counted(value) {
            return self.counted[(value & INDEX) as usize].clone();
        }
        let Some(bits) = self.as_bits(value) else { return Vec::new() };
        let mut counts = Vec::new();
        for (word, &bits) in (0_u32..).zip(bits) {
            let mut rest = bits;
            while rest != 0 {
                counts.push((word * 64 + rest.trailing_zeros(), 1));
                rest &= rest - 1;
            }
        }
        counts
    }

    /// One more place holds the value.
    pub fn retain(&mut self, value: u32) -> u32 {
        if is_set(value) {
            self.set_refs[(value & INDEX) as usize] += 1;
        } else if is_counted(value) {
            self.counted_refs[(value & INDEX) as usize] += 1;
        }
        value
    }

    /// One place less holds the value.
    pub fn release(&mut self, value: u32) {
        let index = value & INDEX;
        if is_set(value) {
            let refs = &mut self.set_refs[index as usize];
            *refs -= 1;
            if *refs == 0 {
                self.free_sets.push(index);
            }
        } else if is_counted(value) {
            let refs = &mut self.counted_refs[index as usize];
            *refs -= 1;
            if *refs == 0 {
                let list = std::mem::take(&mut self.counted[index as usize]);
                self.counted_entries -= list.len();
                self.free_counted.push(index);
            }
        }
    }

    /// The sum of two values that are given up.
    pub fn add(&mut self, a: u32, b: u32) -> u32 {
        if is_counted(a) || is_counted(b) {
            return self.add_counted(a, b);
        }
        match (Self::as_one(a), Self::as_one(b)) {
            (Some(x), Some(y)) => {
                if x == y {
                    return if self.idempotent { a } else { self.new_counted(vec![(x, 2)]) };
                }
                let set = self.new_set();
                for local in [x, y] {
                    self.insert(set, local);
                }
                set
            }
            (None, Some(local)) => self.add_one(a, b, local),
            (Some(local), None) => self.add_one(b, a, local),
            (None, None) => self.add_sets(a, b),
        }
    }

    fn add_one(&mut self, set: u32, one: u32, local: u32) -> u32 {
        let held = self.set(set)[local as usize / 64] >> (local % 64) & 1 == 1;
        if held {
            return if self.idempotent { set } else { self.add_counted(set, one) };
        }
        let own = self.make_own(set);
        self.insert(own, local);
        own
    }

    fn add_sets(&mut self, a: u32, b: u32) -> u32 {
        let overlap = self.set(a).iter().zip(self.set(b)).any(|(x, y)| x & y != 0);
        if overlap && !self.idempotent {
            return self.add_counted(a, b);
        }
        // Write into whichever nobody else holds.
        let (into, from) = if self.set_refs[(a & INDEX) as usize] == 1 { (a, b) } else { (b, a) };
        let own = self.make_own(into);
        if own != from {
            let (x, y) = ((own & INDEX) as usize * self.words, (from & INDEX) as usize * self.words);
            let (low, high) = (x.min(y), x.max(y));
            let (left, right) = self.bits.split_at_mut(high);
            let (left, right) = (&mut left[low..low + self.words], &mut right[..self.words]);
            if x < y {
                left.iter_mut().zip(&*right).for_each(|(x, y)| *x |= y);
            } else {
                right.iter_mut().zip(&*left).for_each(|(x, y)| *x |= y);
            }
        }
        self.release(from);
        own
    }

    /// Adds with counts. Counts above 2⁶⁴ − 1 stay there; no postcondition is that large ([`crate::witness::normal`]).
    fn add_counted(&mut self, a: u32, b: u32) -> u32 {
        let (x, y) = (self.counts(a), self.counts(b));
        self.release(a);
        self.release(b);
        let sum = merge(&x, &y);
        self.new_counted(sum)
    }

    fn new_counted(&mut self, list: Vec<(u32, u64)>) -> u32 {
        self.counted_entries += list.len();
        if let Some(index) = self.free_counted.pop() {
            self.counted[index as usize] = list;
            self.counted_refs[index as usize] = 1;
            return COUNTED | index;
        }
        self.counted.push(list);
        self.counted_refs.push(1);
        COUNTED | (self.counted.len() - 1) as u32
    }

    /// An empty set with one holder.
    fn new_set(&mut self) -> u32 {
        if let Some(index) = self.free_sets.pop() {
            self.set_refs[index as usize] = 1;
            let at = index as usize * self.words;
            self.bits[at..at + self.words].fill(0);
            return SET | index;
        }
        self.set_refs.push(1);
        self.bits.resize(self.bits.len() + self.words, 0);
        SET | (self.set_refs.len() - 1) as u32
    }

    /// The set itself if nobody else holds it, else a copy; the caller's hold moves to it.
    fn make_own(&mut self, set: u32) -> u32 {
        if self.set_refs[(set & INDEX) as usize] == 1 {
            return set;
        }
        let from = (set & INDEX) as usize * self.words;
        let copy = if let Some(index) = self.free_sets.pop() {
            self.set_refs[index as usize] = 1;
            self.bits.copy_within(from..from + self.words, index as usize * self.words);
            SET | index
        } else {
            self.set_refs.push(1);
            self.bits.extend_from_within(from..from + self.words);
            SET | (self.set_refs.len() - 1) as u32
        };
        self.release(set);
        copy
    }

    fn set(&self, set: u32) -> &[u64] {
        let at = (set & INDEX) as usize * self.words;
        &self.bits[at..at + self.words]
    }

    fn insert(&mut self, set: u32, local: u32) {
        self.bits[(set & INDEX) as usize * self.words + local as usize / 64] |= 1 << (local % 64);
    }
}

const fn is_set(value: u32) -> bool {
    value & COUNTED == SET
}

const fn is_counted(value: u32) -> bool {
    value & COUNTED == COUNTED
}

/// The sum of two sorted multisets.
pub(crate) fn merge(a: &[(u32, u64)], b: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let mut sum: Vec<(u32, u64)> = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let from_a = j == b.len() || (i < a.len() && a[i].0 <= b[j].0);
        let (key, count) = if from_a { a[i] } else { b[j] };
        if from_a {
            i += 1
        } else {
            j += 1
        }
        match sum.last_mut() {
            Some(last) if last.0 == key => last.1 = last.1.saturating_add(count),
            _ => sum.push((key, count)),
        }
    }
    sum
}

/// Place → value for the places that one component touches: open addressing, emptied by what was touched.
pub(crate) struct LocalMap {
    slots: Vec<(u32, u32)>,
    touched: Vec<u32>,
    shift: u32,
    /// Spreads places that come at any distance, or keeps apart those that are numbered densely.
    spread: Option<u32>,
}

const EMPTY: u32 = u32::MAX;

impl LocalMap {
    pub fn new() -> Self {
        Self { slots: vec![(EMPTY, 0); 64], touched: Vec::new(), shift: 32 - 6, spread: Some(0x9E37_79B9) }
    }

    /// A map for places that are numbered from zero on.
    pub fn dense() -> Self {
        Self { spread: None, ..Self::new() }
    }

    fn position(&self, place: u32) -> usize {
        let mut at = match self.spread {
            Some(factor) => (place.wrapping_mul(factor) >> self.shift) as usize,
            None => place as usize & (self.slots.len() - 1),
        };
        loop {
            let key = self.slots[at].0;
            if key == place || key == EMPTY {
                return at;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The value there, or none.
    pub fn get(&self, place: u32) -> u32 {
        let (key, value) = self.slots[self.position(place)];
        if key == place { value } else { Values::NONE }
    }

    /// Sets the value there.
    pub fn set(&mut self, place: u32, value: u32) {
        let at = self.position(place);
        if self.slots[at].0 == EMPTY {
            self.slots[at].0 = place;
            self.touched.push(at as u32);
            self.slots[at].1 = value;
            if self.slots.len() < self.touched.len() * 2 {
                self.grow();
            }
            return;
        }
        self.slots[at].1 = value;
    }

    /// The value there, which is then none.
    pub fn take(&mut self, place: u32) -> u32 {
        let at = self.position(place);
        if self.slots[at].0 == place { std::mem::replace(&mut self.slots[at].1, Values::NONE) } else { Values::NONE }
    }

    /// Empties the map, in time proportional to what was in it.
    pub fn clear(&mut self) {
        for &at in &self.touched {
            self.slots[at as usize] = (EMPTY, 0);
        }
        self.touched.clear();
    }

    fn grow(&mut self) {
        let old: Vec<(u32, u32)> = self.touched.iter().map(|&at| self.slots[at as usize]).collect();
        let size = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(size, (EMPTY, 0));
        self.shift -= 1;
        self.touched.clear();
        for (place, value) in old {
            let at = self.position(place);
            self.slots[at] = (place, value);
            self.touched.push(at as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Random copies and additions, against maps of counts.
        #[test]
        fn values_behave_as_multisets(ops in prop::collection::vec((0_u32..12, 0_u32..12, any::<bool>()), 0..60), idempotent: bool) {
            let n = 12;
            let mut values = Values::new();
            values.start(70, idempotent);
            let mut held: Vec<u32> = (0..n).map(|i| Values::one(i * 6)).collect();
            let mut oracle: Vec<BTreeMap<u32, u64>> = (0..n).map(|i| BTreeMap::from([(i * 6, 1)])).collect();
            for (src, dst, adds) in ops {
                let (src, dst) = (src as usize, dst as usize);
                let value = values.retain(held[src]);
                let from = oracle[src].clone();
                if adds {
                    held[dst] = values.add(held[dst], value);
                    for (key, count) in from {
                        let entry = oracle[dst].entry(key).or_default();
                        *entry = if idempotent { 1 } else { entry.saturating_add(count) };
                    }
                } else {
                    values.release(held[dst]);
                    held[dst] = value;
                    oracle[dst] = from;
                }
                for (value, due) in held.iter().zip(&oracle) {
                    let due: Vec<_> = due.iter().map(|(&k, &c)| (k, c)).collect();
                    prop_assert_eq!(values.counts(*value), due);
                }
            }
        }

        #[test]
        fn the_map_behaves_as_a_map(ops in prop::collection::vec((0_u32..500, 1_u32..9), 0..400)) {
            let (mut spread, mut dense) = (LocalMap::new(), LocalMap::dense());
            for turn in 0..4 {
                let map = if turn < 2 { &mut spread } else { &mut dense };
                let mut oracle = HashMap::new();
                for &(place, value) in &ops {
                    map.set(place, value);
                    oracle.insert(place, value);
                }
                for place in 0..500 {
                    prop_assert_eq!(map.get(place), oracle.get(&place).copied().unwrap_or(0));
                }
                map.clear();
            }
        }
    }
}
