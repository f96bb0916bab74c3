//! all_gather, reduce_scatter and all_reduce from spreading patterns.

use rayon::prelude::*;
use rondo_ir::collective::CollectiveKind;
use rondo_ir::schedule::{Flow, FlowOp, Paths, Schedule};

use crate::build::BuildError;
use crate::build::site::{Lane, RouteTable, Site, Touched, Vector};
use crate::build::spread::{Half, Hand, Pattern};

/// Builds the collective from patterns that run side by side, each on its own part of every piece.
///
/// all_gather runs `spread`, reduce_scatter runs `collect` backwards with sums, all_reduce one after the other. The two
/// have the same labels and differ only where a direction matters (on a one-way ring both must go the same way round).
/// A piece of a part has `width` slots: the pipelining factor, doubled where halves are needed.
///
/// # Shape
/// all_reduce labels the blocks of its vector so that what moves together lies together; all_gather and
/// reduce_scatter, whose block r belongs to rank r, may need several flows for it.
pub(crate) fn build<P: Pattern>(
    site: &Site,
    algorithm: &str,
    spread: &[P],
    collect: &[P],
) -> Result<Schedule, BuildError> {
    let plan = Plan::new(site, spread)?;
    let mut paths = Paths::default();
    let mut pairs = Vec::new();
    let forwards = !matches!(site.kind(), CollectiveKind::ReduceScatter);
    let backwards = !matches!(site.kind(), CollectiveKind::AllGather);
    for part in spread.iter().filter(|_| forwards) {
        for step in part.pair_steps() {
            part.visit(step, &mut |hand| pairs.push((hand.src, hand.dst, hand.lane)));
        }
        dedup_if_large(&mut pairs);
    }
    for part in collect.iter().filter(|_| backwards) {
        for step in part.pair_steps() {
            part.visit(step, &mut |hand| pairs.push((hand.dst, hand.src, hand.lane)));
        }
        dedup_if_large(&mut pairs);
    }
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    let touched = (backwards && !site.collective.in_place()).then(|| plan.touched(site, collect));
    let vector = Vector::new(site, plan.chunks, touched);
    let (setup, scratch) = vector.setup(site);
    let longest = |parts: &[P]| parts.iter().map(Pattern::steps).max().unwrap_or(0);
    let mut steps = vec![setup];
    if backwards {
        let length = longest(collect);
        steps.par_extend((0..length).into_par_iter().map(|step| {
            plan.flows(site, collect, length - 1 - step, |hand, run, out| {
                let path = routes.path(hand.dst, hand.src, hand.lane);
                vector.transfer(site, hand.dst, hand.src, run, FlowOp::Reduce, path, out);
            })
        }));
    }
    if forwards {
        steps.par_extend((0..longest(spread)).into_par_iter().map(|step| {
            plan.flows(site, spread, step, |hand, run, out| {
                let path = routes.path(hand.src, hand.dst, hand.lane);
                vector.transfer(site, hand.src, hand.dst, run, FlowOp::Copy, path, out);
            })
        }));
    }
    Ok(site.schedule(algorithm, plan.chunks, scratch, paths, steps))
}

/// An upper estimate of the flows that [`build`] makes.
pub(crate) fn flow_estimate<P: Pattern>(site: &Site, parts: &[P]) -> u64 {
    let all_reduce = matches!(site.kind(), CollectiveKind::AllReduce);
    let n = u64::from(site.n);
    let each = parts.iter().map(|part| {
        // Steps of one phase are alike: the first one stands for it; each rank receives each piece once.
        let halves = if part.halves() { 2 } else { 1 };
        let pieces = n * (n - 1) * halves;
        if all_reduce { pieces.min(n * u64::from(part.steps()) * n) } else { pieces }
    });
    each.sum::<u64>() * if all_reduce { 2 } else { 1 }
}

fn dedup_if_large(pairs: &mut Vec<(u32, u32, Lane)>) {
    if 1 << 20 < pairs.len() {
        pairs.sort_unstable();
        pairs.dedup();
    }
}

struct Plan<'a> {
    /// Per part: label → position.
    by_label: Vec<&'a [u32]>,
    n: u32,
    /// Slots of a piece.
    width: u32,
    /// Chunks of the layout.
    chunks: u32,
    /// Whether pieces lie in the order of labels (all_reduce).
    free: bool,
}

impl<'a> Plan<'a> {
    fn new<P: Pattern>(site: &Site, parts: &'a [P]) -> Result<Self, BuildError> {
        let halves = if parts.iter().any(Pattern::halves) { 2 } else { 1 };
        let free = matches!(site.kind(), CollectiveKind::AllReduce);
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let width = site.cx.chunks.checked_mul(halves);
        let block = width.and_then(|width| width.checked_mul(count));
        let chunks = if free { block.and_then(|block| block.checked_mul(site.n)) } else { block };
        let too_many = || BuildError::TooManyChunks { given: site.cx.chunks };
        let (width, chunks) = (width.ok_or_else(too_many)?, chunks.ok_or_else(too_many)?);
        site.layout(chunks)?;
        Ok(Self { by_label: parts.iter().map(Pattern::by_label).collect(), n: site.n, width, chunks, free })
    }

    /// Calls `emit` for each longest run of vector slots that the transfer moves.
    fn runs(&self, part: u32, hand: &Hand, mut emit: impl FnMut((u32, u32))) {
        let all = hand.len * self.width;
        let (from, to) = match hand.half {
            Half::Whole => (0, all),
            Half::First => (0, all / 2),
            Half::Second => (all / 2, all),
        };
        if from == to {
            return;
        }
        if self.free {
            emit(((part * self.n + hand.first) * self.width + from, to - from));
            return;
        }
        let by_label = self.by_label[part as usize];
        let count = u32::try_from(self.by_label.len()).expect("few parts");
        let block = count * self.width;
        let mut open: Option<(u32, u32)> = None;
        for index in from / self.width..to.div_ceil(self.width) {
            let start = from.max(index * self.width) - index * self.width;
            let end = to.min((index + 1) * self.width) - index * self.width;
            let base = by_label[(hand.first + index) as usize] * block + part * self.width;
            match &mut open {
                Some((slot, length)) if *slot + *length == base + start => *length += end - start,
                _ => {
                    if let Some(run) = open.replace((base + start, end - start)) {
                        emit(run);
                    }
                }
            }
        }
        if let Some(run) = open {
            emit(run);
        }
    }

    /// The flows of a step of all parts.
    fn flows<P: Pattern>(
        &self,
        site: &Site,
        parts: &[P],
        step: u32,
        add: impl Fn(&Hand, (u32, u32), &mut Vec<Flow>),
    ) -> Vec<Flow> {
        let mut rows = Vec::with_capacity(site.n as usize * parts.len());
        for (index, part) in (0..).zip(parts).filter(|(_, part)| step < part.steps()) {
            part.visit(step, &mut |hand| self.runs(index, &hand, |run| add(&hand, run, &mut rows)));
        }
        rows
    }

    /// Where sums arrive when the patterns run backwards.
    fn touched<P: Pattern>(&self, site: &Site, parts: &[P]) -> Touched {
        let slots = if self.free { self.chunks } else { self.n * self.chunks };
        let mut touched = Touched::new(site.n, slots);
        for (index, part) in (0..).zip(parts) {
            for step in 0..part.steps() {
                part.visit(step, &mut |hand| {
                    self.runs(index, &hand, |(slot, count)| touched.set(hand.src, slot, count));
                });
            }
        }
        touched
    }
}
