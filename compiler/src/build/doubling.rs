//! Algorithms of ⌈log₂ n⌉ steps: recursive doubling and halving, Bruck.

use rondo_ir::collective::{CollectiveKind, Place};
use rondo_ir::schedule::{Flow, FlowOp, Paths, Schedule};

use crate::build::BuildError;
use crate::build::gather;
use crate::build::site::{Lane, RouteTable, Site, push_merged};
use crate::build::spread::{Base, Spread};
use crate::fabric::Shape;

/// log₂ n of a power of two, else the reason.
fn exponent(site: &Site, algorithm: &'static str) -> Result<u32, BuildError> {
    if site.n.is_power_of_two() {
        return Ok(site.n.trailing_zeros());
    }
    let reason = format!("{} ranks are no power of two; `bruck` does the same for any number", site.n);
    Err(BuildError::DoesNotFit { algorithm, reason })
}

/// Recursive doubling: step t pairs u with u ⊕ 2^t.
///
/// all_reduce exchanges whole vectors: log₂ n·(α_s + h·α_p + m·β + m·γ), the Clos column of Table 2 of the topology paper.
/// Other numbers of ranks fold: those above the largest power of two hand their vector to a partner first and
/// get the result last. all_gather exchanges all that is held, and reduce_scatter runs that backwards; both need a
/// power of two.
pub(crate) fn recursive_doubling(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "recursive-doubling";
    if !matches!(site.kind(), CollectiveKind::AllReduce) {
        exponent(site, NAME)?;
        let spread = [Spread::line((0..site.n).collect(), Base::Near)];
        return gather::build(site, NAME, &spread, &spread);
    }
    let k = site.cx.chunks;
    site.layout(k)?;
    let steps = 31 - site.n.leading_zeros();
    let core = 1 << steps;
    let extra = site.n - core;
    let mut pairs = Vec::new();
    for t in 0..steps {
        pairs.extend((0..core).map(|p| (p, p ^ (1 << t), Lane::Any)));
    }
    for p in 0..extra {
        pairs.push((core + p, p, Lane::Any));
        pairs.push((p, core + p, Lane::Any));
    }
    let mut paths = Paths::default();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    let own = Place::output(0);
    let send = |src, from, dst, op| site.flow((src, from), (dst, own), k, op, routes.path(src, dst, Lane::Any));
    let mut rows: Vec<Vec<Flow>> = Vec::new();
    if !site.collective.in_place() {
        rows.push((0..core).map(|p| site.local(p, Place::input(0), own, k, FlowOp::Copy)).collect());
    }
    rows.push((0..extra).map(|p| send(core + p, Place::input(0), p, FlowOp::Reduce)).collect());
    for t in 0..steps {
        rows.push((0..core).map(|p| send(p, own, p ^ (1 << t), FlowOp::Reduce)).collect());
    }
    rows.push((0..extra).map(|p| send(p, own, core + p, FlowOp::Copy)).collect());
    Ok(site.schedule(NAME, k, Vec::new(), paths, rows))
}

pub(crate) fn recursive_doubling_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    match site.kind() {
        CollectiveKind::AllReduce => n * u64::from(33 - site.n.leading_zeros()),
        _ => n * n,
    }
}

/// Recursive halving (reduce_scatter) and doubling (all_gather), most data between nearest ranks.
///
/// Step i of the reduce_scatter pairs u with v = u ⊕ 2^i and sends the blocks b ≡ v mod 2^{i+1}; the all_gather reverses
/// it. On a ring h = c = 2^i, except that the way to the opposite rank is split, which halves the last c. Cost of a phase
/// on a full crossbar: log₂ n·(α_s + h·α_p) + (n−1)/n·m·β.
///
/// # Source
/// Rabenseifner 2004; Thakur et al. 2005; Eqs. 2 and 3 of the Shortcut paper.
pub(crate) fn halving_doubling(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "halving-doubling";
    exponent(site, NAME)?;
    let spread = [Spread::line((0..site.n).collect(), Base::Far)];
    gather::build(site, NAME, &spread, &spread)
}

pub(crate) fn halving_doubling_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    match site.kind() {
        CollectiveKind::AllReduce => 2 * n * u64::from(32 - site.n.leading_zeros()),
        _ => n * n,
    }
}

/// The sides of a torus whose dimensions an algorithm takes one by one, and its positions by coordinate; one side for all
/// other shapes. The reason why not, if a side is no power of two.
fn lines(site: &Site, algorithm: &'static str) -> Result<(Vec<u32>, Vec<u32>), BuildError> {
    exponent(site, algorithm)?;
    if let Shape::Torus { sides } | Shape::Optical { sides } = site.shape()
        && let Some(at) = site.full_order()
    {
        return Ok((sides.clone(), at));
    }
    Ok((vec![site.n], (0..site.n).collect()))
}

/// One part for each dimension, part p's reduce_scatter beginning with dimension p.
fn rotated(site: &Site, algorithm: &'static str, base: Base) -> Result<Schedule, BuildError> {
    let (sides, at) = lines(site, algorithm)?;
    let used: Vec<usize> = (0..sides.len()).filter(|&dimension| sides[dimension] != 1).collect();
    if used.len() < 2 {
        let reason = "it needs a torus of two dimensions or more, with a rank on every node".to_owned();
        return Err(BuildError::DoesNotFit { algorithm, reason });
    }
    let part = |first: usize| {
        let mut phases: Vec<_> = (0..used.len()).map(|i| (used[(first + i) % used.len()], base)).collect();
        // The pattern spreads; the reduce_scatter is the pattern backwards.
        phases.reverse();
        Spread::new(sides.clone(), phases, at.clone())
    };
    let parts: Vec<_> = (0..used.len()).map(part).collect();
    gather::build(site, algorithm, &parts, &parts)
}

/// Recursive halving and doubling on a torus, cut into one part for each dimension; part p begins with dimension p, so that
/// on equal sides every dimension carries one part in every step.
///
/// # Source
/// Section V of the Shortcut paper (Eqs. 12–15) for the dimensions; the rotation as in the topology paper's AllGather.
pub(crate) fn halving_doubling_rotated(site: &Site) -> Result<Schedule, BuildError> {
    rotated(site, "halving-doubling-rotated", Base::Far)
}

/// Swing on a torus, cut into one part for each dimension; part p begins with dimension p.
///
/// # Source
/// De Sensi, Bonato, Saam and Hoefler, "Swing: Short-cutting Rings for Higher Bandwidth Allreduce", 2024.
pub(crate) fn swing_rotated(site: &Site) -> Result<Schedule, BuildError> {
    rotated(site, "swing-rotated", Base::Swing)
}

pub(crate) fn rotated_flows(site: &Site) -> u64 {
    2 * u64::from(site.n) * u64::from(site.n)
}

/// Swing: step i of the reduce_scatter pairs even r with r + ρ(i), odd r with r − ρ(i), ρ = 1, −1, 3, −5, 11, …, along one
/// dimension after the other of a torus, else along all ranks.
///
/// On a ring h = |ρ| and c = (|ρ|+1)/2, about two thirds and one third of what halving with the same data meets. r sends the
/// blocks that its peer answers for from then on; they are not contiguous.
///
/// # Source
/// De Sensi, Bonato, Saam and Hoefler, "Swing: Short-cutting Rings for Higher Bandwidth Allreduce", 2024; the Swing
/// reference of the Shortcut paper.
pub(crate) fn swing(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "swing";
    let (sides, at) = lines(site, NAME)?;
    let phases = (0..sides.len()).rev().map(|dimension| (dimension, Base::Swing)).collect();
    let spread = [Spread::new(sides, phases, at)];
    gather::build(site, NAME, &spread, &spread)
}

pub(crate) fn swing_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    match site.kind() {
        CollectiveKind::AllReduce => 2 * n * n,
        _ => n * n,
    }
}

/// Bruck's algorithm: ⌈log₂ n⌉ steps for any n.
///
/// all_gather: step t sends all that is held, at most what the receiver lacks, 2^t ranks down; reduce_scatter runs it
/// backwards; all_reduce does both. all_to_all: step t passes on, 2^t ranks up, every block whose remaining distance
/// has bit t, through scratch; each block is sent as often as its distance has bits, about n/2·log₂ n blocks a rank.
///
/// # Source
/// Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997.
pub(crate) fn bruck(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "bruck";
    if !matches!(site.kind(), CollectiveKind::AllToAll { .. }) {
        let spread = [Spread::line((0..site.n).collect(), Base::Bruck)];
        return gather::build(site, NAME, &spread, &spread);
    }
    let (n, k) = (site.n, site.cx.chunks);
    site.layout(k)?;
    let steps = n.next_power_of_two().trailing_zeros();
    let pairs = (0..steps).flat_map(|t| (0..n).map(move |p| (p, (p + (1 << t)) % n, Lane::Any))).collect();
    let mut paths = Paths::default();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    // Scratch blocks are numbered alike at every rank: (step after which it is there, distance it travels in all).
    let mut number = std::collections::BTreeMap::new();
    for t in 0..steps {
        for d in (1..n).filter(|d| d >> t & 1 == 1 && d >> (t + 1) != 0) {
            let next = u32::try_from(number.len()).unwrap_or(u32::MAX);
            number.insert((t, d), next);
        }
    }
    let mut by_number: Vec<(u32, u32)> = number.keys().copied().collect();
    by_number.sort_by_key(|key| number[key]);
    let scratch = (0..n)
        .map(|p| {
            let mut slots = Vec::with_capacity(by_number.len() * k as usize);
            for &(t, d) in &by_number {
                let origin = (p + n - d % (2 << t)) % n;
                slots.extend((0..k).map(|part| (origin, Place::input((origin + d) % n * k + part))));
            }
            slots
        })
        .collect();
    let mut rows: Vec<Vec<Flow>> =
        vec![(0..n).map(|p| site.local(p, Place::input(p * k), Place::output(p * k), k, FlowOp::Copy)).collect()];
    for t in 0..steps {
        let mut flows = Vec::new();
        for p in 0..n {
            let to = (p + (1 << t)) % n;
            let path = routes.path(p, to, Lane::Any);
            for d in (1..n).filter(|d| d >> t & 1 == 1) {
                let passed = d % (1 << t);
                let origin = (p + n - passed) % n;
                let from = if passed == 0 {
                    Place::input((origin + d) % n * k)
                } else {
                    let last = 31 - passed.leading_zeros();
                    Place::scratch(number[&(last, d)] * k)
                };
                let target =
                    if d >> (t + 1) == 0 { Place::output(origin * k) } else { Place::scratch(number[&(t, d)] * k) };
                push_merged(&mut flows, site.flow((p, from), (to, target), k, FlowOp::Copy, path));
            }
        }
        rows.push(flows);
    }
    Ok(site.schedule(NAME, k, scratch, paths, rows))
}

pub(crate) fn bruck_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    let steps = u64::from(32 - site.n.leading_zeros());
    match site.kind() {
        CollectiveKind::AllReduce => 4 * n * steps,
        CollectiveKind::AllToAll { .. } => n * n * steps.div_ceil(2),
        _ => n * n,
    }
}
