//! A link between every ordered pair.

use std::sync::Arc;

use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Hop, Node, TopologyBuilder};

use super::error::{BuildError, LINK_LIMIT};
use super::spec::LinkRates;
use crate::fabric::{Fabric, Router, Shape};

/// Builds a mesh: nodes `n0`, `n1`, …, which need not forward. The link u → v is number u·(n−1) + v, one less if u < v.
///
/// # Errors
/// 0 nodes, more than 2²⁴ links.
pub fn mesh(nodes: u32, link: LinkRates) -> Result<Fabric, BuildError> {
    if nodes == 0 {
        return Err(BuildError::TooFew { what: "the number of nodes of the mesh".into(), given: 0, limit: 1 });
    }
    let name = format!("mesh of {nodes}");
    let links = u64::from(nodes) * u64::from(nodes - 1);
    if LINK_LIMIT < links {
        return Err(BuildError::TooLarge { what: name, given: links });
    }
    let mut builder = TopologyBuilder::new(name);
    for n in 0..nodes {
        builder.node(Node::compute(format!("n{n}")));
    }
    for src in 0..nodes {
        for dst in (0..nodes).filter(|&dst| dst != src) {
            builder.link(NodeId::from(src), NodeId::from(dst), link.bandwidth, link.latency);
        }
    }
    let topology = Arc::new(super::finish(builder)?);
    Ok(Fabric::new(topology, Shape::Mesh, Arc::new(MeshRouter { nodes: nodes as usize })))
}

#[derive(Clone, Debug)]
struct MeshRouter {
    nodes: usize,
}

impl Router for MeshRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let (u, v) = (src.index(), dst.index());
        let link = u * (self.nodes - 1) + v - usize::from(u < v);
        (u != v && u.max(v) < self.nodes).then(|| Route::single(vec![Hop::Link(LinkId::new(link))]))
    }
}

#[cfg(test)]
mod tests {
    use num_rational::Ratio;

    use super::*;
    use crate::topology::testing::{all_pairs, check_routes, link};

    #[test]
    fn every_pair_has_a_link_of_its_own() {
        for nodes in [1, 2, 6] {
            let fabric = mesh(nodes, link(1)).unwrap();
            assert_eq!(fabric.topology.links().len(), (nodes * (nodes - 1)) as usize);
            assert!(all_pairs(&fabric).iter().all(|&load| load == Ratio::from(1)));
            check_routes(&fabric);
        }
        assert_eq!(mesh(0, link(1)).unwrap_err().code(), "T001");
        assert_eq!(mesh(5000, link(1)).unwrap_err().code(), "T003");
    }
}
