//! Spreading patterns: how something that each rank has reaches all others.
//!
//! An AllGather is such a pattern; run backwards, with sums instead of copies, it is a ReduceScatter, because each
//! rank receives each piece exactly once. So every pattern here serves all_gather, reduce_scatter and, one after the
//! other, all_reduce.

use crate::build::site::Lane;
use crate::cost::shortcut::Pairing;

/// Which part of the pieces moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Whole,
    First,
    Second,
}

/// One transfer: the pieces of labels `first … + len` go from `src` to `dst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    pub src: u32,
    pub dst: u32,
    pub first: u32,
    pub len: u32,
    pub half: Half,
    pub lane: Lane,
}

/// A pattern over positions 0 … n−1. Each position has a label; what moves are ranges of labels.
pub(crate) trait Pattern: Sync {
    fn steps(&self) -> u32;
    /// All transfers of a step.
    fn visit(&self, step: u32, emit: &mut dyn FnMut(Hand));
    /// Label → position.
    fn by_label(&self) -> &[u32];
    /// Steps that together use every pair of the pattern.
    fn pair_steps(&self) -> Vec<u32> {
        (0..self.steps()).collect()
    }
    /// Whether pieces are cut in halves.
    fn halves(&self) -> bool {
        false
    }
}

/// A pattern among s members of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// s−1 steps: hand on to the next what came last. Source: folklore; Eq. 5 of the Shortcut paper.
    Ring,
    /// The same the other way round: backwards it sends to the next.
    RingDown,
    /// ⌊s/2⌋ steps: both ways at once; the last step of an even side brings half from each side.
    TwoWay,
    /// s−1 steps along a line without a way back: both ways at once, so that step t brings what is t+1 away.
    Line,
    /// One step: everybody to everybody.
    OneStep,
    /// s−1 steps: round t sends to the member t further.
    Rounds,
    /// log₂ s steps, nearest partner first: exchange all that is held with member i ⊕ 2^t. s a power of two.
    Near,
    /// log₂ s steps, farthest partner first: most data moves between nearest members. s a power of two.
    Far,
    /// log₂ s steps, farthest partner first, partners to both sides in turn. s a power of two.
    Swing,
    /// ⌈log₂ s⌉ steps for any s: member i sends to i − 2^t (Bruck et al. 1997).
    Bruck,
}

impl Base {
    pub fn steps(self, s: u32) -> u32 {
        match self {
            _ if s <= 1 => 0,
            Self::Ring | Self::RingDown | Self::Line | Self::Rounds => s - 1,
            Self::TwoWay => s / 2,
            Self::OneStep => 1,
            Self::Near | Self::Far | Self::Swing | Self::Bruck => s.next_power_of_two().trailing_zeros(),
        }
    }

    fn label(self, s: u32, member: u32) -> u32 {
        match self {
            Self::Far if 1 < s => member.reverse_bits() >> (32 - s.trailing_zeros()),
            _ => member,
        }
    }

    /// Steps that use every pair.
    fn pair_steps(self, s: u32) -> Vec<u32> {
        let all = self.steps(s);
        match self {
            Self::Ring | Self::RingDown => (0..all.min(1)).collect(),
            Self::TwoWay if 2 < all => vec![0, all - 1],
            Self::Line => (0..all.min(1)).collect(),
            _ => (0..all).collect(),
        }
    }

    fn visit(self, s: u32, step: u32, emit: &mut dyn FnMut(Hand)) {
        let mut hand = |src, dst, first, len, half, lane| emit(Hand { src, dst, first, len, half, lane });
        let back = |i: u32, by: u32| if by <= i { i - by } else { i + s - by };
        let on = |i: u32, by: u32| if i + by < s { i + by } else { i + by - s };
        match self {
            Self::Ring => {
                for i in 0..s {
                    hand(i, on(i, 1), back(i, step), 1, Half::Whole, Lane::Any);
                }
            }
            Self::RingDown => {
                for i in 0..s {
                    hand(i, back(i, 1), on(i, step), 1, Half::Whole, Lane::Any);
                }
            }
            Self::TwoWay => {
                let last = s.is_multiple_of(2) && step == s / 2 - 1;
                let (up, down) = if last { (Half::First, Half::Second) } else { (Half::Whole, Half::Whole) };
                let (first, second) = if s == 2 { (Lane::First, Lane::Second) } else { (Lane::Any, Lane::Any) };
                for i in 0..s {
                    hand(i, on(i, 1), back(i, step), 1, up, first);
                    hand(i, back(i, 1), on(i, step), 1, down, second);
                }
            }
            Self::Line => {
                for i in 0..s {
                    if step <= i && i + 1 < s {
                        hand(i, i + 1, i - step, 1, Half::Whole, Lane::Any);
                    }
                    if 0 < i && i + step < s {
                        hand(i, i - 1, i + step, 1, Half::Whole, Lane::Any);
                    }
                }
            }
            Self::OneStep => {
                for i in 0..s {
                    for t in 1..s {
                        hand(i, on(i, t), i, 1, Half::Whole, Lane::Any);
                    }
                }
            }
            Self::Rounds => {
                for i in 0..s {
                    hand(i, on(i, step + 1), i, 1, Half::Whole, Lane::Any);
                }
            }
            Self::Near => {
                for i in 0..s {
                    hand(i, i ^ (1 << step), i >> step << step, 1 << step, Half::Whole, Lane::Any);
                }
            }
            Self::Far => {
                let all = self.steps(s);
                for i in 0..s {
                    let first = self.label(s, i) >> step << step;
                    hand(i, i ^ (1 << (all - 1 - step)), first, 1 << step, Half::Whole, Lane::Any);
                }
            }
            Self::Swing => {
                let round = self.steps(s) - 1 - step;
                for (i, held) in (0..s).zip(swing_blocks(s, round + 1)) {
                    for run in held.chunk_by(|a, b| a + 1 == *b) {
                        let len = u32::try_from(run.len()).expect("ranks are counted in 32 bits");
                        hand(i, Pairing::Swing.peer(s, i, round), run[0], len, Half::Whole, Lane::Any);
                    }
                }
            }
            Self::Bruck => {
                let held = 1 << step;
                let len = held.min(s - held);
                for i in 0..s {
                    let straight = len.min(s - i);
                    hand(i, back(i, held), i, straight, Half::Whole, Lane::Any);
                    if straight < len {
                        hand(i, back(i, held), 0, len - straight, Half::Whole, Lane::Any);
                    }
                }
            }
        }
    }
}

/// The blocks that each member answers for after `rounds` rounds of Swing's reduce_scatter, sorted: with R(r, L) = {r},
/// R(r, t) = R(r, t+1) ∪ R(peer(r, t), t+1).
fn swing_blocks(s: u32, rounds: u32) -> Vec<Vec<u32>> {
    let mut blocks: Vec<Vec<u32>> = (0..s).map(|member| vec![member]).collect();
    for round in (rounds..s.ilog2()).rev() {
        blocks = (0..s)
            .map(|member| {
                let peer = Pairing::Swing.peer(s, member, round);
                let mut both = [&blocks[member as usize][..], &blocks[peer as usize]].concat();
                both.sort_unstable();
                both
            })
            .collect();
    }
    blocks
}

/// Phases over the dimensions of a box of positions, one dimension at a time: in each phase every line along the
/// dimension runs a base pattern with all that its members hold by then.
pub(crate) struct Spread {
    sides: Vec<u32>,
    strides: Vec<u32>,
    phases: Vec<(usize, Base)>,
    /// Coordinate index (first dimension fastest) → position.
    at: Vec<u32>,
    by_label: Vec<u32>,
}

impl Spread {
    /// The pattern. `at` maps the coordinate index Σ xᵢ·Π_{j<i} sides\[j\] to a position; each dimension stands in one
    /// phase.
    pub fn new(sides: Vec<u32>, phases: Vec<(usize, Base)>, at: Vec<u32>) -> Self {
        let mut strides = Vec::with_capacity(sides.len());
        let mut stride = 1;
        for &side in &sides {
            strides.push(stride);
            stride *= side;
        }
        let mut spread = Self { sides, strides, phases, at, by_label: Vec::new() };
        let mut by_label = vec![0; spread.at.len()];
        for (index, &position) in (0..).zip(&spread.at) {
            by_label[spread.label_from(0, index) as usize] = position;
        }
        spread.by_label = by_label;
        spread
    }

    /// One line of all positions, in this order.
    pub fn line(order: Vec<u32>, base: Base) -> Self {
        let n = u32::try_from(order.len()).expect("ranks are counted in 32 bits");
        Self::new(vec![n], vec![(0, base)], order)
    }

    /// The part of a coordinate index's label that phases `from …` contribute.
    fn label_from(&self, from: usize, index: u32) -> u32 {
        let mut scale = 1;
        let mut label = 0;
        for (phase, &(dimension, base)) in self.phases.iter().enumerate() {
            let side = self.sides[dimension];
            if from <= phase {
                label += base.label(side, index / self.strides[dimension] % side) * scale;
            }
            scale *= side;
        }
        label
    }

    /// Phase, step within it, labels that a member holds before it.
    fn locate(&self, mut step: u32) -> (usize, u32, u32) {
        let mut scale = 1;
        for (phase, &(dimension, base)) in self.phases.iter().enumerate() {
            let steps = base.steps(self.sides[dimension]);
            if step < steps {
                return (phase, step, scale);
            }
            step -= steps;
            scale *= self.sides[dimension];
        }
        unreachable!("a step of the pattern")
    }
}

impl Pattern for Spread {
    fn steps(&self) -> u32 {
        self.phases.iter().map(|&(dimension, base)| base.steps(self.sides[dimension])).sum()
    }

    fn visit(&self, step: u32, emit: &mut dyn FnMut(Hand)) {
        let (phase, step, scale) = self.locate(step);
        let (dimension, base) = self.phases[phase];
        let (side, stride) = (self.sides[dimension], self.strides[dimension]);
        let n = u32::try_from(self.at.len()).expect("ranks are counted in 32 bits");
        for origin in (0..n).filter(|index| index / stride % side == 0) {
            let beyond = self.label_from(phase + 1, origin);
            base.visit(side, step, &mut |hand| {
                emit(Hand {
                    src: self.at[(origin + hand.src * stride) as usize],
                    dst: self.at[(origin + hand.dst * stride) as usize],
                    first: beyond + hand.first * scale,
                    len: hand.len * scale,
                    ..hand
                });
            });
        }
    }

    fn by_label(&self) -> &[u32] {
        &self.by_label
    }

    fn pair_steps(&self) -> Vec<u32> {
        let mut before = 0;
        let mut steps = Vec::new();
        for &(dimension, base) in &self.phases {
            let side = self.sides[dimension];
            steps.extend(base.pair_steps(side).into_iter().map(|step| before + step));
            before += base.steps(side);
        }
        steps
    }

    fn halves(&self) -> bool {
        self.phases.iter().any(|&(dimension, base)| base == Base::TwoWay && self.sides[dimension].is_multiple_of(2))
    }
}
