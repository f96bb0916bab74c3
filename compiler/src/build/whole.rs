//! all_reduce of whole vectors: gather them along a line of ranks, add them, and go on with the sums.

use rondo_ir::collective::Place;
use rondo_ir::schedule::{Flow, FlowOp, Paths, Schedule};

use crate::build::BuildError;
use crate::build::site::{Lane, RouteTable, Site};

/// How the vectors of a line of s ranks reach all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// ⌊s/2⌋ steps both ways round; of an even s the farthest vector comes from one side only.
    Ring,
    /// s−1 steps both ways, without a way round.
    Open,
    /// One step, everybody to everybody.
    Mesh,
}

/// One phase for each (side, line) along the dimensions of a box of positions, then `doublings` exchanges of sums.
///
/// `at` maps the coordinate index Σ xᵢ·Π_{j<i} sideⱼ to a position, for as many boxes in a row as there are positions; doubling
/// t exchanges the sums of boxes whose numbers differ in bit t.
pub(crate) fn build(
    site: &Site,
    algorithm: &'static str,
    at: &[u32],
    phases: &[(u32, Line)],
    doublings: u32,
) -> Result<Schedule, BuildError> {
    let (n, k) = (site.n, site.cx.chunks);
    site.layout(k)?;
    let mut strides = Vec::with_capacity(phases.len());
    let mut size = 1;
    for &(side, _) in phases {
        strides.push(size);
        size *= side;
    }
    // Index of the rank `offset` further along a dimension.
    let further = |index: u32, d: usize, offset: u32| {
        let (side, stride) = (phases[d].0, strides[d]);
        let x = index / stride % side;
        index - x * stride + (x + offset) % side * stride
    };
    let lane = |d: usize| if phases[d] == (2, Line::Ring) { Lane::First } else { Lane::Any };
    let mut pairs = Vec::new();
    for (d, &(side, line)) in phases.iter().enumerate().filter(|(_, (side, _))| 1 < *side) {
        for index in 0..n {
            let x = index / strides[d] % side;
            let offsets: Vec<u32> = match line {
                Line::Ring => vec![1, side - 1],
                Line::Open => {
                    [(x + 1 < side).then_some(1), (0 < x).then_some(side - 1)].into_iter().flatten().collect()
                }
                Line::Mesh => (1..side).collect(),
            };
            pairs.extend(offsets.into_iter().map(|o| (at[index as usize], at[further(index, d, o) as usize], lane(d))));
        }
    }
    let partner = |index: u32, t: u32| index % size + ((index / size) ^ (1 << t)) * size;
    for t in 0..doublings {
        pairs.extend((0..n).map(|index| (at[index as usize], at[partner(index, t) as usize], Lane::Any)));
    }
    let mut paths = Paths::default();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    let own = Place::output(0);
    // The vector whose origin is `offset` further down the line, seen as a ring.
    let held = |offset: u32| if offset == 0 { own } else { Place::scratch((offset - 1) * k) };
    let mut rows: Vec<Vec<Flow>> = Vec::new();
    if !site.collective.in_place() {
        rows.push((0..n).map(|p| site.local(p, Place::input(0), own, k, FlowOp::Copy)).collect());
    }
    for (d, &(side, line)) in phases.iter().enumerate() {
        let steps = match line {
            Line::Ring => side / 2,
            Line::Open => side - 1,
            Line::Mesh => 1.min(side - 1),
        };
        for step in 0..steps {
            let mut flows = Vec::with_capacity(2 * n as usize);
            for index in 0..n {
                let src = at[index as usize];
                let x = index / strides[d] % side;
                let mut send = |by: u32, from: u32, to: u32| {
                    let dst = at[further(index, d, by) as usize];
                    let path = routes.path(src, dst, lane(d));
                    flows.push(site.flow((src, held(from)), (dst, held(to)), k, FlowOp::Copy, path));
                };
                match line {
                    Line::Ring => {
                        send(1, step, step + 1);
                        if side % 2 == 1 || step + 1 < steps {
                            send(side - 1, (side - step) % side, side - step - 1);
                        }
                    }
                    Line::Open => {
                        if step <= x && x + 1 < side {
                            send(1, step, step + 1);
                        }
                        if 0 < x && x + step < side {
                            send(side - 1, (side - step) % side, side - step - 1);
                        }
                    }
                    Line::Mesh => (1..side).for_each(|offset| send(offset, 0, offset)),
                }
            }
            rows.push(flows);
        }
        let add = |p: u32| (1..side).map(move |offset| (p, offset));
        rows.push((0..n).flat_map(add).map(|(p, o)| site.local(p, held(o), own, k, FlowOp::Reduce)).collect());
    }
    for t in 0..doublings {
        let exchange = |index: u32| {
            let (src, dst) = (at[index as usize], at[partner(index, t) as usize]);
            site.flow((src, own), (dst, own), k, FlowOp::Reduce, routes.path(src, dst, Lane::Any))
        };
        rows.push((0..n).map(exchange).collect());
    }
    let slots = phases.iter().map(|&(side, _)| (side - 1) * k).max().unwrap_or(0);
    let scratch = (0..n).map(|p| (0..slots).map(|slot| (p, Place::output(slot % k))).collect()).collect();
    Ok(site.schedule(algorithm, k, scratch, paths, rows))
}
