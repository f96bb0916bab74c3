//! Boxes of ranks in a torus or grid: all of it, a tile, or every t-th node. Nodes between them only forward.

use rondo_ir::schedule::Schedule;

use crate::build::BuildError;
use crate::build::gather;
use crate::build::site::Site;
use crate::build::spread::{Base, Spread};
use crate::build::whole::{self, Line};
use crate::fabric::Shape;

/// The ranks as a box.
struct Tile {
    /// Ranks along each dimension.
    sides: Vec<u32>,
    /// Whether the ranks along a dimension go all the way round in equal strides.
    round: Vec<bool>,
    /// Coordinate index → position.
    at: Vec<u32>,
}

fn tile(site: &Site, algorithm: &'static str) -> Result<Tile, BuildError> {
    let refuse = |reason: &str| Err(BuildError::DoesNotFit { algorithm, reason: reason.to_owned() });
    let (whole, wraps) = match site.shape() {
        Shape::Torus { sides } => (sides, true),
        Shape::Grid { sides } => (sides, false),
        _ => return refuse("the topology is no torus or grid"),
    };
    let mut strides = Vec::with_capacity(whole.len());
    let mut stride = 1;
    for &side in whole {
        strides.push(stride);
        stride *= side;
    }
    // Which coordinates occur in each dimension.
    let mut coordinates: Vec<Vec<u32>> = vec![Vec::new(); whole.len()];
    for node in &site.nodes {
        for (d, found) in coordinates.iter_mut().enumerate() {
            found.push(node.number() / strides[d] % whole[d]);
        }
    }
    for found in &mut coordinates {
        found.sort_unstable();
        found.dedup();
    }
    let sides: Vec<u32> = coordinates.iter().map(|found| u32::try_from(found.len()).unwrap_or(u32::MAX)).collect();
    let nodes = sides.iter().fold(1_u64, |product, &side| product.saturating_mul(u64::from(side)));
    if nodes != u64::from(site.n) {
        return refuse("the ranks do not fill a box of rows and columns");
    }
    let mut at = vec![0; site.n as usize];
    for (position, node) in (0..).zip(&site.nodes) {
        let (mut index, mut scale) = (0, 1);
        for (d, found) in coordinates.iter().enumerate() {
            let place = found.partition_point(|&known| known < node.number() / strides[d] % whole[d]);
            index += place * scale;
            scale *= found.len();
        }
        at[index] = position;
    }
    let round = coordinates.iter().zip(whole).map(|(found, &side)| {
        let step = side / found.len() as u32;
        wraps && step * found.len() as u32 == side && found.windows(2).all(|pair| pair[1] - pair[0] == step)
    });
    if wraps && &sides == whole {
        return refuse("on a whole torus `torus-rotated` and `torus-gather-reduce` do this");
    }
    Ok(Tile { round: round.collect(), sides, at })
}

/// Blocks in one part for each dimension of the box; part p goes through the dimensions from p on, both ways at once.
///
/// all_gather of blocks b on an a×c tile without a way round: (a−1 + c−1)·(α_s + α_p) and at most half of (a·c − 1)·b·β;
/// reduce_scatter is its reverse, all_reduce both. Dimensions with a way round take ⌊s/2⌋ steps, as `torus-rotated`.
pub(crate) fn gather(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "grid";
    let Tile { sides, round, at } = tile(site, NAME)?;
    let used: Vec<usize> = (0..sides.len()).filter(|&d| 1 < sides[d]).collect();
    let base = |d: usize| (d, if round[d] { Base::TwoWay } else { Base::Line });
    let part = |first: usize| {
        let phases = (0..used.len()).map(|phase| base(used[(first + phase) % used.len()])).collect();
        Spread::new(sides.clone(), phases, at.clone())
    };
    let parts: Vec<_> = (0..used.len()).map(part).collect();
    gather::build(site, NAME, &parts, &parts)
}

/// all_reduce: in each dimension every rank gets the whole vectors of its line, then adds them.
///
/// (a−1 + c−1)·(α_s + α_p + m·β) on an a×c tile, and (a−1 + c−1)·m·γ: Appendix E of the topology paper.
pub(crate) fn gather_then_reduce(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "grid-gather-reduce";
    let Tile { sides, round, at } = tile(site, NAME)?;
    let line = |round: bool| if round { Line::Ring } else { Line::Open };
    let phases: Vec<_> = sides.into_iter().zip(round).map(|(side, round)| (side, line(round))).collect();
    whole::build(site, NAME, &at, &phases, 0)
}

/// Each rank gets each piece once from each part, in halves where an even side goes round.
pub(crate) fn gather_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    match site.shape() {
        Shape::Torus { sides } | Shape::Grid { sides } => 4 * n * n * sides.len() as u64,
        _ => 0,
    }
}

pub(crate) fn gather_then_reduce_flows(site: &Site) -> u64 {
    match site.shape() {
        Shape::Torus { sides } | Shape::Grid { sides } => {
            3 * u64::from(site.n) * sides.iter().map(|&side| u64::from(side)).sum::<u64>()
        }
        _ => 0,
    }
}
