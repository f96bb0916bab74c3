//! Order of summation: whether all ranks add the same numbers in the same order, so that their results are equal bit by bit.
//!
//! Floating-point addition commutes but does not associate. So a sum is a tree whose two branches may change places, and two
//! slots are bitwise equal for all inputs if their trees are the same. Equal trees get equal numbers (hash-consing).

use rondo_ir::collective::Contribution;
use rustc_hash::FxHashMap;

use super::flat::NONE;
use super::form::index;

/// Sums of a component, each with a number.
pub(super) struct Sums {
    nodes: Vec<Node>,
    numbers: FxHashMap<Node, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    Input(Contribution),
    /// The smaller number first.
    Sum(u32, u32),
}

/// Two ranks whose results differ in the order of their summands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) slot: u32,
    /// Rank and its sum in words.
    pub(super) first: (u32, String),
    pub(super) second: (u32, String),
}

impl Sums {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::new(), numbers: FxHashMap::default() }
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.numbers.clear();
    }

    fn number(&mut self, node: Node) -> u32 {
        *self.numbers.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            index(self.nodes.len()) - 1
        })
    }

    pub(super) fn input(&mut self, contribution: Contribution) -> u32 {
        self.number(Node::Input(contribution))
    }

    /// The sum of two defined values; what is undefined stays so.
    pub(super) fn add(&mut self, a: u32, b: u32) -> u32 {
        if a == NONE || b == NONE { NONE } else { self.number(Node::Sum(a.min(b), a.max(b))) }
    }

    /// `((r0 + r1) + r2)`, cut off where it gets long.
    pub(super) fn in_words(&self, number: u32) -> String {
        /// Characters that a person still reads.
        const LONGEST: usize = 120;
        enum Part {
            Value(u32),
            Text(&'static str),
        }
        let mut text = String::new();
        let mut stack = vec![Part::Value(number)];
        while let Some(part) = stack.pop() {
            match part {
                Part::Text(word) => text.push_str(word),
                Part::Value(number) => match self.nodes.get(number as usize) {
                    None => text.push('?'),
                    Some(Node::Input(contribution)) => text.push_str(&format!("r{}", contribution.origin)),
                    Some(Node::Sum(a, b)) => {
                        text.push('(');
                        stack.extend([Part::Text(")"), Part::Value(*b), Part::Text(" + "), Part::Value(*a)]);
                    }
                },
            }
            if LONGEST < text.len() {
                text.push('…');
                break;
            }
        }
        text
    }
}
