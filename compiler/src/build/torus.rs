//! Algorithms for tori (section 3.1 of the topology paper).

use num_rational::Ratio;
use rayon::prelude::*;
use rondo_ir::collective::{CollectiveKind, Place};
use rondo_ir::schedule::{FlowOp, Path, Paths, Route, RoutePart, Schedule};
use rondo_ir::topology::Hop;

use crate::build::BuildError;
use crate::build::gather;
use crate::build::site::Site;
use crate::build::spread::{Base, Spread};
use crate::build::whole::{self, Line};
use crate::fabric::Shape;

/// Sides of the torus, and positions in the order of its nodes.
fn frame(site: &Site, algorithm: &'static str) -> Result<(Vec<u32>, Vec<u32>), BuildError> {
    let refuse = |reason: String| Err(BuildError::DoesNotFit { algorithm, reason });
    let sides = match site.shape() {
        Shape::Torus { sides } => sides.clone(),
        Shape::Ring { both: true } => {
            return refuse("on a ring `ring-two-way` or `direct` does this".to_owned());
        }
        _ => return refuse("the topology is no torus".to_owned()),
    };
    let nodes: u64 = sides.iter().map(|&side| u64::from(side)).product();
    match site.full_order() {
        Some(order) if order.len() as u64 == nodes => Ok((sides, order)),
        _ => refuse(format!("it needs a rank on each of the {nodes} nodes of the torus; there are {}", site.n)),
    }
}

/// One dimension after the other, both ways at once, whole blocks.
///
/// Phase j moves all blocks gathered so far, so about (n−1)/2 blocks pass a link: k times what `torus-rotated` needs, with
/// the same steps but without splitting.
pub(crate) fn dimension_wise(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "torus";
    let (sides, at) = frame(site, NAME)?;
    let phases = (0..sides.len()).map(|d| (d, Base::TwoWay)).collect();
    let spread = [Spread::new(sides, phases, at)];
    gather::build(site, NAME, &spread, &spread)
}

pub(crate) fn dimension_wise_flows(site: &Site) -> u64 {
    gather_flows(site, 1)
}

/// Blocks cut in k parts; part p goes through the dimensions from p on, so that all 2k links of a rank are in use.
///
/// all_gather of blocks b on equal sides: D·(α_s + α_p) + b·β·(n−1)/(2k), Table 2 of the topology paper; reduce_scatter is
/// its reverse, all_reduce both.
pub(crate) fn rotated(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "torus-rotated";
    let (sides, at) = frame(site, NAME)?;
    let k = sides.len();
    let parts: Vec<Spread> = (0..k)
        .map(|part| {
            let phases = (0..k).map(|phase| ((part + phase) % k, Base::TwoWay)).collect();
            Spread::new(sides.clone(), phases, at.clone())
        })
        .collect();
    gather::build(site, NAME, &parts, &parts)
}

pub(crate) fn rotated_flows(site: &Site) -> u64 {
    match site.shape() {
        Shape::Torus { sides } => gather_flows(site, sides.len() as u64),
        _ => 0,
    }
}

fn gather_flows(site: &Site, parts: u64) -> u64 {
    let n = u64::from(site.n);
    let each = match (site.kind(), site.shape()) {
        (CollectiveKind::AllReduce, Shape::Torus { sides }) => {
            4 * n * sides.iter().map(|&side| u64::from(side)).max().unwrap_or(1) * sides.len() as u64
        }
        (_, Shape::Torus { .. }) => 2 * n * n,
        _ => 0,
    };
    each * parts
}

/// Table 2's all_reduce: in each dimension every rank gets the whole vectors of its ring, then adds them.
///
/// D·(α_s + α_p + m·β) for even sides, and Σ(sᵢ−1)·m·γ. Kept for comparison: `torus-rotated` moves far less.
pub(crate) fn gather_then_reduce(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "torus-gather-reduce";
    let (sides, at) = frame(site, NAME)?;
    let phases: Vec<_> = sides.into_iter().map(|side| (side, Line::Ring)).collect();
    whole::build(site, NAME, &at, &phases, 0)
}

pub(crate) fn gather_then_reduce_flows(site: &Site) -> u64 {
    match site.shape() {
        Shape::Torus { sides } => 3 * u64::from(site.n) * sides.iter().map(|&side| u64::from(side)).sum::<u64>(),
        _ => 0,
    }
}

/// all_to_all in one step along shortest ways, dimension by dimension; the two ways to an antipode get half each.
///
/// D·α_p + α_s + max over dimensions of n·sᵢ/8 (even) or n(sᵢ²−1)/(8sᵢ) (odd) blocks: the bisection bound.
pub(crate) fn all_to_all(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "torus-shortest";
    let (sides, at) = frame(site, NAME)?;
    let k = site.cx.chunks;
    site.layout(k)?;
    let n = site.n;
    let mean = sides.iter().map(|&side| u64::from(side)).sum::<u64>().div_ceil(4);
    site.check_hops(u64::from(n) * u64::from(n) * mean)?;
    let links = Links::new(site, NAME, &sides, &at)?;
    let routes: Vec<Vec<Route>> =
        (0..n).into_par_iter().map(|src| (1..n).map(|t| links.route(src, (src + t) % n)).collect()).collect();
    let mut paths = Paths::default();
    let local = (0..n).map(|p| site.local(p, Place::input(p * k), Place::output(p * k), k, FlowOp::Copy)).collect();
    let mut flows = Vec::with_capacity(n as usize * (n as usize - 1));
    for (src, row) in (0..n).zip(routes) {
        for (t, route) in (1..).zip(row) {
            let (p, q) = (at[src as usize], at[((src + t) % n) as usize]);
            let path = Path::route(paths.intern(route));
            flows.push(site.flow((p, Place::input(q * k)), (q, Place::output(p * k)), k, FlowOp::Copy, path));
        }
    }
    Ok(site.schedule(NAME, k, Vec::new(), paths, vec![local, flows]))
}

pub(crate) fn all_to_all_flows(site: &Site) -> u64 {
    u64::from(site.n) * u64::from(site.n)
}

/// The links of a torus by coordinate index, dimension and direction.
struct Links {
    sides: Vec<u32>,
    /// `[index][2·d + down]`.
    table: Vec<Vec<Option<Hop>>>,
}

impl Links {
    fn new(site: &Site, algorithm: &'static str, sides: &[u32], at: &[u32]) -> Result<Self, BuildError> {
        let topology = site.topology();
        // Ways of more than one hop pass nodes of other ranks.
        if 1 < sides.iter().map(|side| side / 2).sum::<u32>()
            && let Some(&position) = at.iter().find(|&&position| !topology.node(site.nodes[position as usize]).forwards)
        {
            let reason = format!("node `{}` does not forward the traffic of others", site.node_name(position));
            return Err(BuildError::DoesNotFit { algorithm, reason });
        }
        let mut table = Vec::with_capacity(at.len());
        for index in 0..site.n {
            let mut row = Vec::with_capacity(2 * sides.len());
            let mut stride = 1;
            for &side in sides {
                let x = index / stride % side;
                for to in [(x + 1) % side, (x + side - 1) % side] {
                    let other = index - x * stride + to * stride;
                    let (from, to) = (at[index as usize], at[other as usize]);
                    let (a, b) = (site.nodes[from as usize], site.nodes[to as usize]);
                    let mut parallel =
                        topology.links_from(a).iter().filter(|&&l| topology.link(l).dst == b && topology.link(l).up);
                    // The second of two parallel links goes down.
                    let link = match (parallel.next(), parallel.next(), row.len() % 2) {
                        (_, Some(&second), 1) if side == 2 => Some(second),
                        (first, _, _) => first.copied(),
                    };
                    if link.is_none() && 1 < side {
                        let (src, dst) = (site.node_name(from), site.node_name(to));
                        let reason = format!("the link from `{src}` to `{dst}` is missing or down");
                        return Err(BuildError::DoesNotFit { algorithm, reason });
                    }
                    row.push(link.map(Hop::Link));
                }
                stride *= side;
            }
            table.push(row);
        }
        Ok(Self { sides: sides.to_vec(), table })
    }

    /// The minimal route between two coordinate indices, first dimension first. If it has ties, half goes up in all
    /// tied dimensions and half down.
    fn route(&self, src: u32, dst: u32) -> Route {
        let way = |tie_down: bool| {
            let (mut index, mut stride, mut tied, mut hops) = (src, 1, false, Vec::new());
            for (d, &side) in self.sides.iter().enumerate() {
                let up = (dst / stride % side + side - src / stride % side) % side;
                let tie = 2 * up == side;
                tied |= tie;
                let down = if tie { tie_down } else { side < 2 * up };
                for _ in 0..if down { side - up } else { up } {
                    hops.extend(self.table[index as usize][2 * d + usize::from(down)]);
                    let x = index / stride % side;
                    let to = if down { (x + side - 1) % side } else { (x + 1) % side };
                    index = index - x * stride + to * stride;
                }
                stride *= side;
            }
            (hops, tied)
        };
        let (up, tied) = way(false);
        if !tied {
            return Route::single(up);
        }
        let weight = Ratio::new_raw(1, 2);
        Route { parts: [up, way(true).0].map(|hops| RoutePart { weight, hops }).into() }
    }
}
