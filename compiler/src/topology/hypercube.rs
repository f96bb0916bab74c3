//! Hypercubes.

use std::sync::Arc;

use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Hop, Node, TopologyBuilder};

use super::error::{BuildError, LINK_LIMIT};
use super::spec::LinkRates;
use crate::fabric::{Fabric, Router, Shape};

/// Most dimensions of a hypercube.
pub const DIMENSION_LIMIT: u32 = 20;

/// Builds 2^d nodes `n0`, `n1`, …, which forward; u and u ⊕ 2^i are linked both ways. The link from u along bit i is
/// number u·d + i.
///
/// # Errors
/// More than 20 dimensions or 2²⁴ links.
pub fn hypercube(dimensions: u32, link: LinkRates) -> Result<Fabric, BuildError> {
    if DIMENSION_LIMIT < dimensions {
        return Err(BuildError::TooMany {
            what: "the number of dimensions of the hypercube".into(),
            given: u64::from(dimensions),
            limit: u64::from(DIMENSION_LIMIT),
        });
    }
    let name = format!("hypercube of {dimensions} dimensions");
    let nodes = 1_u32 << dimensions;
    let links = u64::from(nodes) * u64::from(dimensions);
    if LINK_LIMIT < links {
        return Err(BuildError::TooLarge { what: name, given: links });
    }
    let mut builder = TopologyBuilder::new(name);
    for n in 0..nodes {
        builder.node(Node::compute(format!("n{n}")).forwarding(true));
    }
    for n in 0..nodes {
        for bit in 0..dimensions {
            builder.link(NodeId::from(n), NodeId::from(n ^ 1 << bit), link.bandwidth, link.latency);
        }
    }
    let topology = Arc::new(super::finish(builder)?);
    Ok(Fabric::new(topology, Shape::Hypercube { dimensions }, Arc::new(HypercubeRouter { dimensions })))
}

/// Corrects the bits that differ, from the lowest to the highest.
#[derive(Clone, Debug)]
struct HypercubeRouter {
    dimensions: u32,
}

impl Router for HypercubeRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        if 1 << self.dimensions <= src.number().max(dst.number()) {
            return None;
        }
        let (mut at, mut hops) = (src.number(), Vec::new());
        for bit in (0..self.dimensions).filter(|bit| (src.number() ^ dst.number()) >> bit & 1 == 1) {
            hops.push(Hop::Link(LinkId::new((at * self.dimensions + bit) as usize)));
            at ^= 1 << bit;
        }
        Some(Route::single(hops))
    }
}

#[cfg(test)]
mod tests {
    use num_rational::Ratio;

    use super::*;
    use crate::topology::testing::{all_pairs, check_routes, diameter, link};

    #[test]
    fn every_link_carries_half_the_nodes_in_all_to_all() {
        for dimensions in 0..=5 {
            let fabric = hypercube(dimensions, link(1)).unwrap();
            assert_eq!(fabric.topology.links().len(), (dimensions << dimensions) as usize);
            assert_eq!(diameter(&fabric), dimensions as usize);
            assert!(all_pairs(&fabric).iter().all(|&load| load == Ratio::new(1 << dimensions, 2)));
            check_routes(&fabric);
        }
        assert_eq!(hypercube(21, link(1)).unwrap_err().code(), "T002");
    }
}
