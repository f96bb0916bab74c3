//! Tori (and rings, which are tori of one dimension): generator, coordinates and dimension-order routing.

use std::sync::Arc;

use num_rational::Ratio;
use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::{Route, RoutePart};
use rondo_ir::topology::{Hop, Node, Topology, TopologyBuilder};

use super::error::{BuildError, LINK_LIMIT};
use super::spec::LinkRates;
use crate::fabric::{Fabric, Router, Shape};

/// Direction along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the next higher coordinate, from the last to 0.
    Plus,
    /// To the next lower coordinate, from 0 to the last.
    Minus,
}

/// Which way traffic takes when both ways around a ring are equally long (to the antipode, even sides only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ties {
    /// Half each way: every link of a dimension carries exactly the same in all-to-all.
    #[default]
    Split,
    /// One way, by the parity of the coordinate modulo half the side: exactly balanced when half the side is even, half a
    /// message over when it is odd.
    Parity,
}

/// Coordinates and link numbers of a torus, a ring, or a grid.
///
/// Node number = Σ xᵢ·Π_{j<i} sᵢ: the first dimension grows fastest. Dimensions of side 1 have no links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorusLayout {
    sides: Vec<u32>,
    strides: Vec<u32>,
    /// Per dimension: position among those with links.
    lane: Vec<usize>,
    lanes: usize,
    both: bool,
}

impl TorusLayout {
    /// The layout of a torus with these sides; `both` is false only for a ring that turns one way.
    #[must_use]
    pub fn new(sides: &[u32], both: bool) -> Self {
        let (mut strides, mut lane) = (Vec::new(), Vec::new());
        let (mut stride, mut lanes) = (1_u32, 0);
        for &side in sides {
            strides.push(stride);
            lane.push(lanes);
            stride = stride.saturating_mul(side);
            lanes += usize::from(1 < side);
        }
        Self { sides: sides.to_vec(), strides, lane, lanes, both }
    }

    /// The layout of a fabric whose shape is a ring or a torus, as the generators number it.
    #[must_use]
    pub fn of(fabric: &Fabric) -> Option<Self> {
        match &fabric.shape {
            Shape::Ring { both } => {
                let nodes = u32::try_from(fabric.topology.nodes().len()).ok()?;
                Some(Self::new(&[nodes], *both))
            }
            Shape::Torus { sides } => Some(Self::new(sides, true)),
            _ => None,
        }
    }

    /// Sides.
    #[must_use]
    pub fn sides(&self) -> &[u32] {
        &self.sides
    }

    /// Whether links run in both directions.
    #[must_use]
    pub const fn both(&self) -> bool {
        self.both
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.sides.iter().map(|&side| side as usize).product()
    }

    /// Links that leave each node.
    #[must_use]
    pub const fn degree(&self) -> usize {
        if self.both { 2 * self.lanes } else { self.lanes }
    }

    /// The node's coordinate in a dimension.
    #[must_use]
    pub fn coordinate(&self, node: NodeId, dimension: usize) -> u32 {
        node.number() / self.strides[dimension] % self.sides[dimension]
    }

    /// The node whose coordinate in `dimension` is `value` and that is like `node` otherwise.
    #[must_use]
    pub fn moved(&self, node: NodeId, dimension: usize, value: u32) -> NodeId {
        let stride = self.strides[dimension];
        let base = node.number() - self.coordinate(node, dimension) * stride;
        NodeId::from(base + value % self.sides[dimension] * stride)
    }

    /// The neighbour in a direction; the node itself if the side is 1.
    #[must_use]
    pub fn neighbour(&self, node: NodeId, dimension: usize, direction: Direction) -> NodeId {
        let (side, at) = (self.sides[dimension], self.coordinate(node, dimension));
        let step = match direction {
            Direction::Plus => 1,
            Direction::Minus => side - 1,
        };
        self.moved(node, dimension, ((u64::from(at) + u64::from(step)) % u64::from(side)) as u32)
    }

    /// The link that leaves the node in a direction; `None` if there is none. In a side of 2 the two directions are the
    /// two parallel links to the one neighbour.
    #[must_use]
    pub fn link(&self, node: NodeId, dimension: usize, direction: Direction) -> Option<LinkId> {
        if self.sides[dimension] < 2 || (direction == Direction::Minus && !self.both) {
            return None;
        }
        let lane = self.lane[dimension];
        let place = match (self.both, direction) {
            (false, _) => lane,
            (true, Direction::Plus) => 2 * lane,
            (true, Direction::Minus) => 2 * lane + 1,
        };
        Some(LinkId::new(node.index() * self.degree() + place))
    }
}

/// Builds a torus. Nodes are called `n0`, `n1`, … and forward.
///
/// Every node has a link in both directions of every dimension with a side above 1; a side of 2 gives two parallel links
/// each way. Links are numbered by node, then dimension, then plus before minus ([`TorusLayout::link`]).
///
/// # Errors
/// No side, a side of 0, more than 2²⁴ links.
pub fn torus(sides: &[u32], link: LinkRates) -> Result<Fabric, BuildError> {
    let name = format!("torus {}", shape_name(sides));
    check_sides("torus", sides, &name, |nodes| nodes.saturating_mul(2 * sides.len() as u64))?;
    let layout = TorusLayout::new(sides, true);
    let topology = Arc::new(wire(&layout, name, link)?);
    let router = Arc::new(TorusRouter { layout, ties: Ties::Split });
    Ok(Fabric::new(topology, Shape::Torus { sides: sides.to_vec() }, router))
}

/// Checks sides and the size of what they make.
pub(super) fn check_sides(
    family: &'static str,
    sides: &[u32],
    name: &str,
    links: impl Fn(u64) -> u64,
) -> Result<(), BuildError> {
    if sides.is_empty() {
        return Err(BuildError::NoSides { family });
    }
    if let Some(at) = sides.iter().position(|&side| side == 0) {
        return Err(BuildError::TooFew { what: format!("side {} of the {family}", at + 1), given: 0, limit: 1 });
    }
    let nodes = sides.iter().fold(1_u64, |product, &side| product.saturating_mul(u64::from(side)));
    let given = links(nodes).max(nodes);
    if LINK_LIMIT < given {
        return Err(BuildError::TooLarge { what: name.to_owned(), given });
    }
    Ok(())
}

/// `4x4x8`.
pub(super) fn shape_name(sides: &[u32]) -> String {
    sides.iter().map(u32::to_string).collect::<Vec<_>>().join("x")
}

/// Nodes and links of a layout, in its numbering.
pub(super) fn wire(layout: &TorusLayout, name: String, link: LinkRates) -> Result<Topology, BuildError> {
    let mut builder = TopologyBuilder::new(name);
    let nodes = layout.nodes();
    builder.nodes.reserve(nodes);
    builder.links.reserve(nodes * layout.degree());
    for n in 0..nodes {
        builder.node(Node::compute(format!("n{n}")).forwarding(true));
    }
    for n in (0..nodes).map(NodeId::new) {
        for dimension in 0..layout.sides.len() {
            for direction in [Direction::Plus, Direction::Minus] {
                if layout.link(n, dimension, direction).is_some() {
                    builder.link(n, layout.neighbour(n, dimension, direction), link.bandwidth, link.latency);
                }
            }
        }
    }
    super::finish(builder)
}

/// Shortest paths, dimension by dimension from the first to the last.
///
/// Antipodal ties go by [`Ties`]. A split route has two parts whatever the number of tied dimensions: one goes plus in all
/// of them, the other minus. So all links of a dimension carry the same in all-to-all: n·s/8 messages for an even side s,
/// n(s²−1)/(8s) for an odd one.
#[derive(Clone, Debug)]
pub struct TorusRouter {
    layout: TorusLayout,
    ties: Ties,
}

impl TorusRouter {
    /// A router over a layout.
    #[must_use]
    pub const fn new(layout: TorusLayout, ties: Ties) -> Self {
        Self { layout, ties }
    }

    /// The way with ties decided by `tie(coordinate, side)`, and whether there was a tie.
    fn way(&self, src: NodeId, dst: NodeId, tie: impl Fn(u32, u32) -> Direction) -> (Vec<Hop>, bool) {
        let layout = &self.layout;
        let (mut at, mut hops, mut tied) = (src, Vec::new(), false);
        for dimension in 0..layout.sides.len() {
            let side = layout.sides[dimension];
            let (from, to) = (layout.coordinate(at, dimension), layout.coordinate(dst, dimension));
            let ahead = if from <= to { to - from } else { side - from + to };
            let behind = (side - ahead) % side;
            let (direction, steps) = if !layout.both || ahead < behind {
                (Direction::Plus, ahead)
            } else if behind < ahead {
                (Direction::Minus, behind)
            } else {
                tied |= ahead != 0;
                (tie(from, side), ahead)
            };
            for _ in 0..steps {
                hops.extend(layout.link(at, dimension, direction).map(Hop::Link));
                at = layout.neighbour(at, dimension, direction);
            }
        }
        (hops, tied)
    }
}

impl Router for TorusRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        if self.layout.nodes() <= src.index().max(dst.index()) {
            return None;
        }
        match self.ties {
            Ties::Parity => {
                let parity = |x: u32, side: u32| {
                    if (x % (side / 2).max(1)).is_multiple_of(2) { Direction::Plus } else { Direction::Minus }
                };
                Some(Route::single(self.way(src, dst, parity).0))
            }
            Ties::Split => {
                let (plus, tied) = self.way(src, dst, |_, _| Direction::Plus);
                if !tied {
                    return Some(Route::single(plus));
                }
                let (minus, _) = self.way(src, dst, |_, _| Direction::Minus);
                let half = Ratio::new_raw(1, 2);
                let parts = [plus, minus].map(|hops| RoutePart { weight: half, hops });
                Some(Route { parts: parts.into() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::testing::{all_pairs, check_routes, diameter, link};

    fn build(sides: &[u32]) -> Fabric {
        torus(sides, link(50)).unwrap()
    }

    /// Expected values of `golden/a_torus_shapes.json`: shape, n, exact diameter, largest all-to-all load in eighths.
    #[test]
    fn shapes_diameters_and_all_to_all_loads_are_those_of_the_model() {
        for (sides, n, diam, load) in [
            (&[2][..], 2, 1, Ratio::new(1, 2)),
            (&[3], 3, 1, Ratio::from(1)),
            (&[4], 4, 2, Ratio::from(2)),
            (&[5], 5, 2, Ratio::from(3)),
            (&[8], 8, 4, Ratio::from(8)),
            (&[16], 16, 8, Ratio::from(32)),
            (&[48], 48, 24, Ratio::from(288)),
            (&[4, 4], 16, 4, Ratio::from(8)),
            (&[3, 3], 9, 2, Ratio::from(3)),
            (&[5, 5], 25, 4, Ratio::from(15)),
            (&[8, 8], 64, 8, Ratio::from(64)),
            (&[4, 8], 32, 6, Ratio::from(32)),
            (&[6, 8], 48, 7, Ratio::from(48)),
            (&[9, 9], 81, 8, Ratio::from(90)),
            (&[3, 3, 3], 27, 3, Ratio::from(9)),
            (&[4, 4, 4], 64, 6, Ratio::from(32)),
            (&[4, 4, 8], 128, 8, Ratio::from(128)),
            (&[5, 5, 5], 125, 6, Ratio::from(75)),
            (&[2, 2, 2], 8, 3, Ratio::from(2)),
        ] {
            let fabric = build(sides);
            assert_eq!(fabric.topology.nodes().len(), n, "{sides:?}");
            assert_eq!(fabric.topology.links().len(), 2 * sides.len() * n, "{sides:?}");
            assert_eq!(diameter(&fabric), diam, "{sides:?}");
            let loads = all_pairs(&fabric);
            assert_eq!(loads.iter().max(), Some(&load), "{sides:?}");
            if n <= 64 {
                check_routes(&fabric);
            }
        }
    }

    #[test]
    fn all_to_all_is_balanced_within_each_dimension_whatever_the_sides() {
        for sides in [&[2, 3][..], &[1, 4], &[6, 2, 3], &[2, 5, 4], &[10, 6], &[2, 2, 2, 2], &[1]] {
            let fabric = build(sides);
            let (layout, loads) = (TorusLayout::of(&fabric).unwrap(), all_pairs(&fabric));
            let n = layout.nodes() as u64;
            for node in fabric.topology.compute_nodes() {
                for (dimension, &side) in sides.iter().enumerate() {
                    let side = u64::from(side);
                    let expected = if side % 2 == 0 {
                        Ratio::new(n * side, 8)
                    } else {
                        Ratio::new(n * (side * side - 1), 8 * side)
                    };
                    for direction in [Direction::Plus, Direction::Minus] {
                        let Some(link) = layout.link(node, dimension, direction) else { continue };
                        assert_eq!(loads[link.index()], expected, "{sides:?} {node} {dimension} {direction:?}");
                    }
                }
            }
            check_routes(&fabric);
        }
    }

    #[test]
    fn the_layout_numbers_links_as_the_generator_does() {
        for sides in [&[4, 3][..], &[2, 1, 5], &[2, 2]] {
            let fabric = build(sides);
            let layout = TorusLayout::of(&fabric).unwrap();
            let mut seen = 0;
            for node in fabric.topology.compute_nodes() {
                for dimension in 0..sides.len() {
                    for direction in [Direction::Plus, Direction::Minus] {
                        let Some(link) = layout.link(node, dimension, direction) else { continue };
                        let link = fabric.topology.link(link);
                        assert_eq!((link.src, link.dst), (node, layout.neighbour(node, dimension, direction)));
                        seen += 1;
                    }
                }
            }
            assert_eq!(seen, fabric.topology.links().len());
        }
    }

    /// models.md 3.1: unsplit ties balance when half the side is even; a ring of 6 has 5 instead of 4.5.
    #[test]
    fn unsplit_ties_by_parity() {
        for (side, load) in [(4, 2), (8, 8), (12, 18), (6, 5)] {
            let mut fabric = build(&[side]);
            fabric.router = Arc::new(TorusRouter::new(TorusLayout::new(&[side], true), Ties::Parity));
            assert_eq!(all_pairs(&fabric).into_iter().max(), Some(Ratio::from(load)), "{side}");
            check_routes(&fabric);
        }
    }

    #[test]
    fn impossible_sides_are_refused_with_both_numbers() {
        let error = |sides: &[u32]| torus(sides, link(1)).unwrap_err();
        assert_eq!(error(&[]).code(), "T004");
        assert_eq!(error(&[4, 0]).to_string(), "side 2 of the torus is 0, but must be at least 1");
        assert_eq!(
            error(&[4096, 4096]).to_string(),
            "torus 4096x4096 would have 67108864 links; the limit is 16777216"
        );
        assert_eq!(error(&[u32::MAX; 9]).code(), "T003");
    }
}
