//! Replaying one component with values, and comparing what it leaves with the postcondition.

use rondo_ir::collective::{Contribution, Expected};
use rondo_ir::index::GroupId;

use super::{Sorted, Wrong};
use crate::places::{Located, Places};
use crate::values::{LocalMap, Values};
use crate::witness;

/// What the numbers in units and keys stand for. They ascend as the numbers of places do.
pub(super) trait Names {
    /// Whose place it is.
    fn locate(&self, id: u32) -> Located;
    /// The output slot that it is the name of, if it is one that the collective speaks of.
    fn output_slot(&self, id: u32) -> Option<(Located, u32)>;
    /// The input slot that a contribution comes from, if it has a number here.
    fn contribution(&self, group: GroupId, contribution: Contribution) -> Option<u32>;
    /// The number of the place.
    fn number(&self, id: u32) -> u32;
}

impl Names for Places<'_> {
    fn locate(&self, id: u32) -> Located {
        Places::locate(self, id)
    }

    fn output_slot(&self, id: u32) -> Option<(Located, u32)> {
        Places::output_slot(self, id)
    }

    fn contribution(&self, group: GroupId, contribution: Contribution) -> Option<u32> {
        Some(Places::contribution(self, group, contribution))
    }

    fn number(&self, id: u32) -> u32 {
        id
    }
}

/// What came of components.
#[derive(Default)]
pub(super) struct Judged {
    pub checked: u64,
    pub wrong: Vec<Wrong>,
    pub wrong_components: usize,
    pub undecided: Option<String>,
}

/// Replays components, one at a time.
pub(super) struct Judge<'a> {
    places: &'a Places<'a>,
    state: LocalMap,
    values: Values,
    pending: Vec<(u32, u32, bool)>,
    memory: usize,
    /// Contributions (p, slot) of all p, as a bit set, for the slot that was asked for last.
    mask: Vec<u64>,
    mask_slot: Option<u32>,
    mask_full: bool,
    /// The value and slot that were last compared, and the answer.
    last: Option<(u32, u32, bool)>,
}

impl<'a> Judge<'a> {
    pub fn new(places: &'a Places<'a>, state: LocalMap, memory: usize) -> Self {
        Self {
            places,
            state,
            values: Values::new(),
            pending: Vec::new(),
            memory,
            mask: Vec::new(),
            mask_slot: None,
            mask_full: false,
            last: None,
        }
    }

    /// Replays a component and compares the places that belong to it at the end.
    pub fn component(
        &mut self,
        names: &impl Names,
        sorted: &Sorted,
        component: usize,
        limit: usize,
        judged: &mut Judged,
    ) {
        let (units, keys) = (sorted.units(component), sorted.keys(component));
        let group = names.locate(keys[0]).group;
        let idempotent = self.places.layout(group).collective().operator().is_idempotent();
        self.values.start(keys.len(), idempotent);
        self.mask_slot = None;
        self.last = None;
        for (local, &key) in (0_u32..).zip(keys) {
            self.state.set(key, Values::one(local));
        }
        let mut at = 0;
        while at < units.len() {
            let round = units[at].round();
            if units.get(at + 1).is_none_or(|next| next.round() != round) {
                let unit = units[at];
                let value = self.values.retain(self.state.get(unit.src));
                self.write(unit.dst, value, unit.adds());
                at += 1;
            } else {
                let start = at;
                while at < units.len() && units[at].round() == round {
                    at += 1;
                }
                self.pending.clear();
                for unit in &units[start..at] {
                    let value = self.values.retain(self.state.get(unit.src));
                    self.pending.push((unit.dst, value, unit.adds()));
                }
                for index in 0..self.pending.len() {
                    let (dst, value, adds) = self.pending[index];
                    self.write(dst, value, adds);
                }
            }
            if self.memory < self.values.bytes() {
                judged
                    .undecided
                    .get_or_insert_with(|| format!("the values of one component need more than {} bytes", self.memory));
                self.state.clear();
                return;
            }
        }
        let mut wrong = Wrong { component, places: Vec::new(), count: 0 };
        for place in keys.iter().copied().chain(units.iter().map(|unit| unit.dst)) {
            let value = self.state.take(place);
            if value == Values::NONE || sorted.final_component(place) != Some(component) {
                continue;
            }
            let Some((at, slot)) = names.output_slot(place) else { continue };
            match self.compare(names, keys, at, slot, value) {
                None => continue,
                Some(right) => {
                    judged.checked += 1;
                    if !right {
                        wrong.count += 1;
                        if wrong.places.len() < 32 {
                            wrong.places.push(place);
                        }
                    }
                }
            }
        }
        self.state.clear();
        if wrong.count != 0 {
            judged.wrong_components += 1;
            if judged.wrong.len() < limit.max(1) {
                judged.wrong.push(wrong);
            }
        }
    }

    fn write(&mut self, dst: u32, value: u32, adds: bool) {
        let old = self.state.get(dst);
        let new = if adds {
            self.values.add(old, value)
        } else {
            self.values.release(old);
            value
        };
        self.state.set(dst, new);
    }

    /// Whether the value is what the place must hold; `None` if it may hold anything.
    fn compare(&mut self, names: &impl Names, keys: &[u32], at: Located, slot: u32, value: u32) -> Option<bool> {
        let layout = self.places.layout(at.group);
        let position = self.places.of(at.group, at.rank).position;
        let expected = layout.postcondition(position, slot)?;
        let n = layout.collective().ranks();
        let expected = match expected {
            Expected::SumOverAll { slot } if n == 1 => Expected::One(Contribution { origin: 0, slot }),
            other => other,
        };
        Some(match expected {
            Expected::One(contribution) => {
                let due = names.contribution(at.group, contribution);
                Values::as_one(value).is_some_and(|local| Some(keys[local as usize]) == due)
            }
            Expected::SumOverAll { slot } => {
                if let Some((last, last_slot, right)) = self.last
                    && last == value
                    && last_slot == slot
                {
                    return Some(right);
                }
                if self.mask_slot != Some(slot) {
                    self.build_mask(names, keys, at, n, slot);
                }
                let right = self.mask_full && self.values.as_bits(value).is_some_and(|bits| bits == self.mask);
                self.last = Some((value, slot, right));
                right
            }
            Expected::Exactly(list) => {
                let idempotent = layout.collective().operator().is_idempotent();
                let due = witness::normal(self.places, at.group, &list, idempotent);
                let held = self.values.counts(value);
                due.len() == held.len()
                    && due.iter().zip(held).all(|(&(key, count), (local, held))| {
                        names.number(keys[local as usize]) == key && count == held
                    })
            }
        })
    }

    fn build_mask(&mut self, names: &impl Names, keys: &[u32], at: Located, n: u32, slot: u32) {
        self.mask.clear();
        self.mask.resize(keys.len().div_ceil(64), 0);
        self.mask_slot = Some(slot);
        self.mask_full = true;
        for origin in 0..n {
            let guess = origin as usize;
            let local = names.contribution(at.group, Contribution { origin, slot }).and_then(|due| {
                if keys.get(guess) == Some(&due) { Some(guess) } else { keys.binary_search(&due).ok() }
            });
            match local {
                Some(local) => self.mask[local / 64] |= 1 << (local % 64),
                None => self.mask_full = false,
            }
        }
    }
}
