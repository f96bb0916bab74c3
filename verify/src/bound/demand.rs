//! Bytes that must cross a cut.
//!
//! Let A be the positions inside, B those outside. A value that crosses is a sum of contributions; nothing is subtracted.
//! What an output place in B holds is a sum of values that crossed and of B's own, so the part of it that stems from A is a
//! sum of the A-parts of crossing values. A crossing value that serves one output therefore has an A-part within that
//! output's A-part: outputs in B whose A-parts are not empty and pairwise disjoint need crossing values of their own.
//! For each collective the largest such family of outputs is:
//!
//! | collective | family | bytes |
//! | --- | --- | --- |
//! | all_reduce | the slots of one rank in B | m |
//! | all_gather, gather | the slots from A at one rank of B (the root) | blocks of A |
//! | reduce_scatter | all output slots in B | blocks of B |
//! | all_to_all, send_receive, scatter | all output slots in B from A | their blocks |
//! | broadcast | the slots of one rank in B, if the root is in A | m |
//! | reduce | the slots of the root, if it is in B | m |
//! | custom | chosen greedily, narrow A-parts first | their slots |

use rondo_ir::collective::{Buffer, CollectiveKind, Contribution, Expected, Layout, Place};
use rondo_ir::problem::Problem;
use rustc_hash::FxHashSet;

use super::BoundError;

/// What one group must move.
pub(super) struct Demand {
    /// Node index of each position.
    pub(super) nodes: Vec<usize>,
    need: Need,
}

enum Need {
    AllReduce { vector: u128 },
    AllGather { blocks: Vec<u128> },
    ReduceScatter { blocks: Vec<u128> },
    EqualPairs { block: u128 },
    Pairs { pairs: Vec<(usize, usize, u128)> },
    Broadcast { root: usize, vector: u128 },
    Reduce { root: usize, vector: u128 },
    Gather { root: usize, blocks: Vec<u128> },
    Custom { outputs: Vec<Output> },
}

struct Output {
    position: usize,
    bytes: u128,
    holds: Vec<Contribution>,
}

/// A demand that maximal flow can answer for: bytes that must leave nodes, and bytes that must reach nodes.
pub(super) struct Commodity {
    pub(super) sources: Vec<(usize, u128)>,
    pub(super) sinks: Vec<(usize, u128)>,
}

/// The demand of each group at its chunk count.
pub(super) fn demands(problem: &Problem, chunks: &[u32]) -> Result<Vec<Demand>, BoundError> {
    let mut demands = Vec::with_capacity(chunks.len());
    for (group, &chunks) in problem.groups().iter().zip(chunks) {
        let layout = group.collective().layout(chunks)?;
        let nodes = group.ranks().iter().map(|&rank| problem.node_of(rank).index()).collect();
        demands.push(Demand { nodes, need: need(&layout) });
    }
    Ok(demands)
}

/// Bytes of `count` places from `first` on.
fn bytes(layout: &Layout<'_>, position: u32, first: Place, count: u32) -> u128 {
    let size = u128::from(layout.collective().dtype().bytes());
    (0..count).map(|slot| u128::from(layout.elements(position, first.offset(slot)))).sum::<u128>() * size
}

fn need(layout: &Layout<'_>) -> Need {
    let collective = layout.collective();
    let (n, k) = (collective.ranks(), layout.chunks());
    let own = |buffer| (0..n).map(|p| bytes(layout, p, Place::new(buffer, 0), k)).collect::<Vec<_>>();
    let vector = u128::from(collective.elements()) * u128::from(collective.dtype().bytes());
    match collective.kind() {
        CollectiveKind::AllReduce => Need::AllReduce { vector },
        CollectiveKind::AllGather => Need::AllGather { blocks: own(Buffer::Input) },
        CollectiveKind::ReduceScatter => Need::ReduceScatter { blocks: own(Buffer::Output) },
        CollectiveKind::AllToAll { matrix: None } => Need::EqualPairs { block: bytes(layout, 0, Place::output(0), k) },
        CollectiveKind::AllToAll { matrix: Some(_) } => {
            let pair = |p: u32, q: u32| (p as usize, q as usize, bytes(layout, p, Place::input(q * k), k));
            let pairs = (0..n).flat_map(|p| (0..n).filter(move |&q| q != p).map(move |q| pair(p, q)));
            Need::Pairs { pairs: pairs.filter(|pair| pair.2 != 0).collect() }
        }
        CollectiveKind::Broadcast { root } => Need::Broadcast { root: *root as usize, vector },
        CollectiveKind::Reduce { root } => Need::Reduce { root: *root as usize, vector },
        CollectiveKind::Gather { root } => Need::Gather { root: *root as usize, blocks: own(Buffer::Input) },
        CollectiveKind::Scatter { root } => {
            let blocks = own(Buffer::Output);
            let root = *root as usize;
            let pairs = blocks.into_iter().enumerate().filter(|&(q, block)| q != root && block != 0);
            Need::Pairs { pairs: pairs.map(|(q, block)| (root, q, block)).collect() }
        }
        CollectiveKind::SendReceive { targets } => {
            let pairs = targets.iter().enumerate().filter_map(|(p, target)| Some((p, (*target)? as usize, vector)));
            Need::Pairs { pairs: pairs.filter(|&(p, q, block)| p != q && block != 0).collect() }
        }
        CollectiveKind::Custom(_) => {
            let mut outputs = Vec::new();
            for position in 0..n {
                for slot in 0..layout.slots(position, Buffer::Output) {
                    let Some(condition) = layout.postcondition(position, slot) else { continue };
                    let list = match condition {
                        Expected::Exactly(list) => list,
                        other => other.to_multiset(n),
                    };
                    let holds: Vec<_> = list.into_iter().filter(|&(_, count)| count != 0).map(|(c, _)| c).collect();
                    let bytes = bytes(layout, position, Place::output(slot), 1);
                    if bytes != 0 {
                        outputs.push(Output { position: position as usize, bytes, holds });
                    }
                }
            }
            Need::Custom { outputs }
        }
    }
}

impl Demand {
    /// Bytes that must cross from inside to outside; `inside` is by node.
    pub(super) fn across(&self, inside: impl Fn(usize) -> bool) -> u128 {
        let at = |position: usize| inside(self.nodes[position]);
        let n = self.nodes.len();
        let any = |side: bool| (0..n).any(|p| at(p) == side);
        let sum = |blocks: &[u128], side: bool| {
            blocks.iter().enumerate().filter(|&(p, _)| at(p) == side).map(|(_, &block)| block).sum::<u128>()
        };
        match &self.need {
            Need::AllReduce { vector } if any(true) && any(false) => *vector,
            Need::AllGather { blocks } if any(false) => sum(blocks, true),
            Need::ReduceScatter { blocks } if any(true) => sum(blocks, false),
            Need::EqualPairs { block } => {
                let count = (0..n).filter(|&p| at(p)).count();
                (count * (n - count)) as u128 * block
            }
            Need::Pairs { pairs } => pairs.iter().filter(|&&(p, q, _)| at(p) && !at(q)).map(|&(_, _, b)| b).sum(),
            Need::Broadcast { root, vector } if at(*root) && any(false) => *vector,
            Need::Reduce { root, vector } if any(true) && !at(*root) => *vector,
            Need::Gather { root, blocks } if !at(*root) => sum(blocks, true),
            Need::Custom { outputs } => disjoint(outputs, &at),
            Need::AllReduce { .. }
            | Need::AllGather { .. }
            | Need::ReduceScatter { .. }
            | Need::Broadcast { .. }
            | Need::Reduce { .. }
            | Need::Gather { .. } => 0,
        }
    }

    /// Visits that one call of [`Self::across`] takes.
    pub(super) fn work(&self) -> usize {
        match &self.need {
            Need::Pairs { pairs } => pairs.len(),
            Need::Custom { outputs } => outputs.iter().map(|output| 1 + output.holds.len()).sum(),
            _ => self.nodes.len(),
        }
    }

    /// For all_reduce over `parts` parts with members: bytes that must pass from part to part in all.
    pub(super) fn gossip(&self, parts: usize) -> u128 {
        match &self.need {
            Need::AllReduce { vector } if 1 < parts => 2 * (parts as u128 - 1) * vector,
            _ => 0,
        }
    }

    /// Positions whose result depends on `from`'s input, other than itself.
    pub(super) fn reaches(&self, from: usize) -> Vec<usize> {
        let n = self.nodes.len();
        let others = || (0..n).filter(move |&q| q != from);
        match &self.need {
            Need::AllReduce { vector: 0 } | Need::EqualPairs { block: 0 } => Vec::new(),
            Need::AllReduce { .. } | Need::EqualPairs { .. } => others().collect(),
            Need::AllGather { blocks } => {
                if blocks[from] == 0 {
                    Vec::new()
                } else {
                    others().collect()
                }
            }
            Need::ReduceScatter { blocks } => others().filter(|&q| blocks[q] != 0).collect(),
            Need::Pairs { pairs } => pairs.iter().filter(|pair| pair.0 == from).map(|pair| pair.1).collect(),
            Need::Broadcast { root, vector } if *root == from && *vector != 0 => others().collect(),
            Need::Reduce { root, vector } if *root != from && *vector != 0 => vec![*root],
            Need::Gather { root, blocks } if *root != from && blocks[from] != 0 => vec![*root],
            Need::Broadcast { .. } | Need::Reduce { .. } | Need::Gather { .. } => Vec::new(),
            Need::Custom { outputs } => {
                let from_there = |output: &&Output| output.holds.iter().any(|c| c.origin as usize == from);
                let mut list: Vec<_> = outputs.iter().filter(from_there).map(|output| output.position).collect();
                list.retain(|&q| q != from);
                list.sort_unstable();
                list.dedup();
                list
            }
        }
    }

    /// Single-commodity demands whose tightest cuts are those of this collective; none for pairs and custom ones.
    pub(super) fn commodities(&self) -> Vec<Commodity> {
        let n = self.nodes.len();
        let node = |p: usize| self.nodes[p];
        let of = |blocks: &[u128], but: usize| -> Vec<(usize, u128)> {
            (0..n).filter(|&p| p != but && blocks[p] != 0).map(|p| (node(p), blocks[p])).collect()
        };
        let total = |list: &[(usize, u128)]| list.iter().map(|entry| entry.1).sum::<u128>();
        let one = |from: usize, to: usize, bytes: u128| Commodity {
            sources: vec![(node(from), bytes)],
            sinks: vec![(node(to), bytes)],
        };
        let into =
            |to: usize, sources: Vec<(usize, u128)>| Commodity { sinks: vec![(node(to), total(&sources))], sources };
        match &self.need {
            // Every cut has position 0 on one side.
            Need::AllReduce { vector } => (1..n).flat_map(|q| [one(0, q, *vector), one(q, 0, *vector)]).collect(),
            Need::AllGather { blocks } => (0..n).map(|t| into(t, of(blocks, t))).collect(),
            Need::ReduceScatter { blocks } => (0..n)
                .map(|s| {
                    let sinks = of(blocks, s);
                    Commodity { sources: vec![(node(s), total(&sinks))], sinks }
                })
                .collect(),
            Need::Broadcast { root, vector } => (0..n).filter(|q| q != root).map(|q| one(*root, q, *vector)).collect(),
            Need::Reduce { root, vector } => (0..n).filter(|p| p != root).map(|p| one(p, *root, *vector)).collect(),
            Need::Gather { root, blocks } => vec![into(*root, of(blocks, *root))],
            Need::EqualPairs { .. } | Need::Pairs { .. } | Need::Custom { .. } => Vec::new(),
        }
    }
}

/// Outputs outside whose parts from inside are disjoint and not empty, narrow ones first.
fn disjoint(outputs: &[Output], at: &impl Fn(usize) -> bool) -> u128 {
    let mut wanted: Vec<(Vec<Contribution>, u128)> = outputs
        .iter()
        .filter(|output| !at(output.position))
        .map(|output| (output.holds.iter().copied().filter(|c| at(c.origin as usize)).collect(), output.bytes))
        .filter(|(part, _): &(Vec<Contribution>, u128)| !part.is_empty())
        .collect();
    wanted.sort_by_key(|(part, bytes)| (part.len(), u128::MAX - bytes));
    let mut taken = FxHashSet::default();
    let mut sum = 0;
    for (part, bytes) in wanted {
        if part.iter().all(|contribution| !taken.contains(contribution)) {
            taken.extend(part);
            sum += bytes;
        }
    }
    sum
}
