//! Grids: tori without wrap-around.

use std::sync::Arc;

use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Hop, Node, TopologyBuilder};

use super::error::BuildError;
use super::spec::LinkRates;
use super::torus::{Direction, TorusLayout, check_sides, shape_name};
use crate::fabric::{Fabric, Router, Shape};

/// Builds a grid. Nodes are called `n0`, `n1`, … as in a torus (the first dimension grows fastest) and forward.
///
/// Links are numbered by node, then dimension, then plus before minus; there are none beyond the borders.
///
/// # Errors
/// No side, a side of 0, more than 2²⁴ links.
pub fn grid(sides: &[u32], link: LinkRates) -> Result<Fabric, BuildError> {
    let name = format!("grid {}", shape_name(sides));
    check_sides("grid", sides, &name, |nodes| nodes.saturating_mul(2 * sides.len() as u64))?;
    let layout = TorusLayout::new(sides, true);
    let mut builder = TopologyBuilder::new(name);
    for n in 0..layout.nodes() {
        builder.node(Node::compute(format!("n{n}")).forwarding(true));
    }
    let mut links = Vec::with_capacity(2 * sides.len() * layout.nodes());
    for n in (0..layout.nodes()).map(NodeId::new) {
        for (dimension, &side) in sides.iter().enumerate() {
            let at = layout.coordinate(n, dimension);
            for (direction, inside) in [(Direction::Plus, at + 1 < side), (Direction::Minus, 0 < at)] {
                let neighbour = layout.neighbour(n, dimension, direction);
                links.push(inside.then(|| builder.link(n, neighbour, link.bandwidth, link.latency)));
            }
        }
    }
    let topology = Arc::new(super::finish(builder)?);
    let router = Arc::new(GridRouter { layout, links });
    Ok(Fabric::new(topology, Shape::Grid { sides: sides.to_vec() }, router))
}

/// The shortest path, dimension by dimension.
#[derive(Clone, Debug)]
struct GridRouter {
    layout: TorusLayout,
    /// By node, dimension, direction.
    links: Vec<Option<LinkId>>,
}

impl Router for GridRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let layout = &self.layout;
        if layout.nodes() <= src.index().max(dst.index()) {
            return None;
        }
        let (mut at, mut hops) = (src, Vec::new());
        let dimensions = layout.sides().len();
        for dimension in 0..dimensions {
            let (from, to) = (layout.coordinate(at, dimension), layout.coordinate(dst, dimension));
            let (direction, lane) = if from <= to { (Direction::Plus, 0) } else { (Direction::Minus, 1) };
            for _ in 0..from.abs_diff(to) {
                hops.push(Hop::Link(self.links[2 * (at.index() * dimensions + dimension) + lane]?));
                at = layout.neighbour(at, dimension, direction);
            }
        }
        Some(Route::single(hops))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::testing::{check_routes, diameter, link};

    #[test]
    fn grids_have_no_wrap_around() {
        for sides in [&[1][..], &[5], &[3, 4], &[2, 1, 3], &[2, 2]] {
            let fabric = grid(sides, link(1)).unwrap();
            let n: u32 = sides.iter().product();
            let links: u32 = sides.iter().map(|side| 2 * n / side * (side - 1)).sum();
            assert_eq!(fabric.topology.links().len(), links as usize, "{sides:?}");
            assert_eq!(diameter(&fabric), sides.iter().map(|side| *side as usize - 1).sum::<usize>());
            check_routes(&fabric);
        }
        assert_eq!(grid(&[], link(1)).unwrap_err().code(), "T004");
    }
}
