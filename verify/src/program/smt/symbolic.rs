//! One run with a variable for each input slot: what each output place holds at the end.

use std::collections::BTreeMap;

use rondo_ir::collective::{Buffer, Contribution, Layout, Place};
use rondo_ir::index::{GroupId, RankId};
use rondo_ir::program::{MoveOp, OperationKind};
use rustc_hash::FxHashMap;

use super::Defect;
use super::events::{Event, Events, Memory, Part, number32};
use crate::smt::{Algebra, Node, PlaceCheck, Query};

/// Output places that one query speaks of.
const QUERY: usize = 256;

/// Inputs and sums of them.
pub(crate) struct Terms<'a> {
    layout: Layout<'a>,
    nodes: Vec<Node>,
    inputs: Vec<Contribution>,
    known: FxHashMap<Contribution, u32>,
}

/// What a run computes, or why it is wrong in any case.
pub(super) struct Symbolic<'a> {
    terms: Terms<'a>,
    /// What places hold; a place that is missing is undefined.
    held: FxHashMap<u32, u32>,
    messages: FxHashMap<u32, u32>,
    memory: Memory<'a>,
}

impl<'a> Symbolic<'a> {
    /// Runs all events in this order.
    pub(super) fn run(events: &Events<'_>, order: &[u32], layout: Layout<'a>, defect: Defect) -> Result<Self, String> {
        let mut symbolic = Self {
            terms: Terms::new(layout),
            held: FxHashMap::default(),
            messages: FxHashMap::default(),
            memory: Memory::new(layout),
        };
        for (rank, place, node) in symbolic.terms.start() {
            let cell = symbolic.memory.cell(rank, place, 0);
            symbolic.held.insert(cell, node);
        }
        let mut drop = defect == Defect::DropReduce;
        for &number in order {
            symbolic.event(number, &events.list[number as usize], events, &mut drop)?;
        }
        Ok(symbolic)
    }

    fn read(&mut self, event: &Event<'_>, rank: u32, place: Place, slot: u32) -> Result<u32, String> {
        let cell = self.memory.cell(rank, place, slot);
        self.held.get(&cell).copied().ok_or_else(|| {
            let name = Place::new(place.buffer(), place.slot() + slot);
            format!("{} reads {}.{name}, which is undefined then", event.location(), RankId::from(rank))
        })
    }

    fn write(&mut self, rank: u32, place: Place, slot: u32, node: u32) {
        let cell = self.memory.cell(rank, place, slot);
        self.held.insert(cell, node);
    }

    fn event(&mut self, number: u32, event: &Event<'_>, events: &Events<'_>, drop: &mut bool) -> Result<(), String> {
        let me = event.rank;
        match &event.operation.kind {
            OperationKind::Move { receive, local, store, send, count } => {
                let slots = match event.part {
                    Part::Slot(slot) => slot..slot + 1,
                    _ => 0..*count,
                };
                // All is read before anything is written.
                let mut values = Vec::with_capacity(slots.len());
                for slot in slots.clone() {
                    let message = match (receive, events.sent_by.get(&number)) {
                        (Some(_), Some(sender)) => self.messages.get(sender).copied(),
                        _ => None,
                    };
                    let local = local.map(|place| self.read(event, me, place, slot)).transpose()?;
                    let value = match (message, local) {
                        (Some(_), Some(local)) if std::mem::take(drop) => local,
                        (Some(message), Some(local)) => self.terms.node(Node::Add(local, message)),
                        (Some(value), None) | (None, Some(value)) => value,
                        (None, None) => return Err(format!("{} has no value", event.location())),
                    };
                    values.push(value);
                }
                for (slot, &value) in slots.zip(&values) {
                    if let Some(store) = store {
                        self.write(me, *store, slot, value);
                    }
                }
                if send.is_some()
                    && let Some(&value) = values.first()
                {
                    self.messages.insert(number, value);
                }
            }
            OperationKind::Reduce { sources, dst, count } => {
                let mut values = Vec::with_capacity(*count as usize);
                for slot in 0..*count {
                    let mut value = self.read(event, me, *dst, slot)?;
                    for &source in sources {
                        let term = self.read(event, me, source, slot)?;
                        if !std::mem::take(drop) {
                            value = self.terms.node(Node::Add(value, term));
                        }
                    }
                    values.push(value);
                }
                for (slot, value) in (0_u32..).zip(values) {
                    self.write(me, *dst, slot, value);
                }
            }
            OperationKind::Put { src, to, op, count } => {
                let mut writes = Vec::new();
                for slot in 0..*count {
                    let value = self.read(event, me, *src, slot)?;
                    for &(peer, place) in to {
                        let value = match op {
                            MoveOp::Copy => value,
                            MoveOp::Reduce => {
                                let before = self.read(event, peer.number(), place, slot)?;
                                if std::mem::take(drop) { before } else { self.terms.node(Node::Add(before, value)) }
                            }
                        };
                        writes.push((peer.number(), place, slot, value));
                    }
                }
                for (rank, place, slot, value) in writes {
                    self.write(rank, place, slot, value);
                }
            }
            OperationKind::Get { from, dst, op, count } => {
                let mut values = Vec::with_capacity(*count as usize);
                for slot in 0..*count {
                    let mut value = match op {
                        MoveOp::Copy => None,
                        MoveOp::Reduce => Some(self.read(event, me, *dst, slot)?),
                    };
                    for &(peer, place) in from {
                        let term = self.read(event, peer.number(), place, slot)?;
                        value = Some(match value {
                            None => term,
                            Some(sum) if std::mem::take(drop) => sum,
                            Some(sum) => self.terms.node(Node::Add(sum, term)),
                        });
                    }
                    values.push(value.ok_or_else(|| format!("{} has no value", event.location()))?);
                }
                for (slot, value) in (0_u32..).zip(values) {
                    self.write(me, *dst, slot, value);
                }
            }
            OperationKind::Nop
            | OperationKind::Signal { .. }
            | OperationKind::Wait { .. }
            | OperationKind::Barrier { .. }
            | OperationKind::Loop { .. } => {}
        }
        Ok(())
    }

    /// See [`Terms::queries`].
    pub(super) fn queries(self) -> Result<Vec<Query>, String> {
        let Self { terms, held, mut memory, .. } = self;
        let cells: FxHashMap<(u32, u32), u32> = {
            let layout = terms.layout;
            let ranks = 0..layout.collective().ranks();
            let slots = ranks.flat_map(|rank| (0..layout.slots(rank, Buffer::Output)).map(move |slot| (rank, slot)));
            slots.map(|(rank, slot)| ((rank, slot), memory.cell(rank, Place::output(slot), 0))).collect()
        };
        terms.queries(|rank, slot| held.get(cells.get(&(rank, slot))?).copied())
    }
}

impl<'a> Terms<'a> {
    pub(crate) fn new(layout: Layout<'a>) -> Self {
        Self { layout, nodes: Vec::new(), inputs: Vec::new(), known: FxHashMap::default() }
    }

    /// What places hold at first.
    pub(crate) fn start(&mut self) -> Vec<(u32, Place, u32)> {
        let mut start = Vec::new();
        self.layout.precondition(|rank, place, contribution| start.push((rank, place, contribution)));
        let input = |(rank, place, contribution)| {
            let variable = self.variable(contribution);
            (rank, place, self.node(Node::Input(variable)))
        };
        start.into_iter().map(input).collect()
    }

    fn variable(&mut self, contribution: Contribution) -> u32 {
        let next = number32(self.inputs.len());
        let inputs = &mut self.inputs;
        *self.known.entry(contribution).or_insert_with(|| {
            inputs.push(contribution);
            next
        })
    }

    pub(crate) fn node(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        number32(self.nodes.len() - 1)
    }

    /// The questions whether some output place does not hold what it must, for some inputs.
    pub(crate) fn queries(mut self, held: impl Fn(u32, u32) -> Option<u32>) -> Result<Vec<Query>, String> {
        let layout = self.layout;
        let n = layout.collective().ranks();
        let mut wanted = Vec::new();
        for rank in 0..n {
            for slot in 0..layout.slots(rank, Buffer::Output) {
                let Some(due) = layout.postcondition(rank, slot) else { continue };
                let Some(held) = held(rank, slot) else {
                    return Err(format!("r{rank}.{} is undefined at the end", Place::output(slot)));
                };
                let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
                for (what, count) in due.to_multiset(n).into_iter().filter(|&(_, count)| count != 0) {
                    let all = counts.entry(self.variable(what)).or_default();
                    *all = all.saturating_add(count);
                }
                wanted.push((rank, slot, held, counts.into_iter().collect()));
            }
        }
        // The same slots of all ranks are sums of the same inputs.
        wanted.sort_by_key(|&(rank, slot, ..)| (slot, rank));
        Ok(wanted.chunks(QUERY).map(|places| self.query(places)).collect())
    }

    fn query(&self, places: &[(u32, u32, u32, Vec<(u32, u64)>)]) -> Query {
        let mut needed: Vec<u32> = Vec::new();
        let mut number: FxHashMap<u32, u32> = FxHashMap::default();
        let mut stack: Vec<u32> = places.iter().map(|&(_, _, held, _)| held).collect();
        while let Some(at) = stack.pop() {
            if number.insert(at, 0).is_none() {
                needed.push(at);
                if let Node::Add(a, b) = self.nodes[at as usize] {
                    stack.extend([a, b]);
                }
            }
        }
        // Operands have lower numbers than sums.
        needed.sort_unstable();
        for (new, &old) in (0_u32..).zip(&needed) {
            number.insert(old, new);
        }
        let nodes = needed.iter().map(|&old| match self.nodes[old as usize] {
            Node::Input(variable) => Node::Input(variable),
            Node::Add(a, b) => Node::Add(number[&a], number[&b]),
        });
        let mut expected: Vec<Vec<(u32, u64)>> = Vec::new();
        let mut dues: FxHashMap<&[(u32, u64)], u32> = FxHashMap::default();
        let mut checks = Vec::with_capacity(places.len());
        for (rank, slot, held, due) in places {
            let due = *dues.entry(due).or_insert_with(|| {
                expected.push(due.clone());
                number32(expected.len() - 1)
            });
            checks.push(PlaceCheck { position: *rank, slot: *slot, held: number[held], due });
        }
        let mut inputs = Vec::new();
        let mut renamed: FxHashMap<u32, u32> = FxHashMap::default();
        let mut rename = |variable: u32| {
            *renamed.entry(variable).or_insert_with(|| {
                inputs.push(self.inputs[variable as usize]);
                number32(inputs.len() - 1)
            })
        };
        let nodes = nodes
            .map(|node| match node {
                Node::Input(variable) => Node::Input(rename(variable)),
                Node::Add(a, b) => Node::Add(a, b),
            })
            .collect();
        for (variable, _) in expected.iter_mut().flatten() {
            *variable = rename(*variable);
        }
        Query {
            algebra: if self.layout.collective().operator().is_idempotent() {
                Algebra::Booleans
            } else {
                Algebra::Integers
            },
            group: GroupId::new(0),
            ranks: (0..self.layout.collective().ranks()).map(RankId::from).collect(),
            inputs,
            nodes,
            expected,
            checks,
        }
    }
}
