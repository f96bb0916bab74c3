//! All nodes on one non-blocking switch.

use std::sync::Arc;

use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Hop, Node, TopologyBuilder};

use super::error::{BuildError, LINK_LIMIT};
use super::spec::LinkRates;
use crate::fabric::{Fabric, Router, Shape};

/// Builds nodes `n0`, `n1`, …, which do not forward, and after them the node `switch`, which does.
///
/// Cable i is the links 2i (up) and 2i+1 (down). A path crosses two links, so its latency is twice that of `link`.
///
/// # Errors
/// 0 nodes, more than 2²⁴ links.
pub fn switch(nodes: u32, link: LinkRates) -> Result<Fabric, BuildError> {
    if nodes == 0 {
        return Err(BuildError::TooFew { what: "the number of nodes on the switch".into(), given: 0, limit: 1 });
    }
    let name = format!("switch of {nodes}");
    if LINK_LIMIT < 2 * u64::from(nodes) {
        return Err(BuildError::TooLarge { what: name, given: 2 * u64::from(nodes) });
    }
    let mut builder = TopologyBuilder::new(name);
    for n in 0..nodes {
        builder.node(Node::compute(format!("n{n}")));
    }
    let hub = builder.node(Node::switch("switch"));
    for n in 0..nodes as usize {
        builder.cable(NodeId::new(n), hub, link.bandwidth, link.latency);
    }
    let topology = Arc::new(super::finish(builder)?);
    Ok(Fabric::new(topology, Shape::Switch, Arc::new(SwitchRouter { nodes: nodes as usize })))
}

/// Up and down again.
#[derive(Clone, Debug)]
struct SwitchRouter {
    nodes: usize,
}

impl Router for SwitchRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let (up, down) = (LinkId::new(2 * src.index()), LinkId::new(2 * dst.index() + 1));
        (src.index().max(dst.index()) < self.nodes).then(|| Route::single(vec![Hop::Link(up), Hop::Link(down)]))
    }
}

#[cfg(test)]
mod tests {
    use num_rational::Ratio;

    use super::*;
    use crate::topology::testing::{all_pairs, check_routes, link};

    #[test]
    fn every_path_goes_up_and_down() {
        for nodes in [1, 2, 7] {
            let fabric = switch(nodes, link(1)).unwrap();
            assert_eq!(fabric.topology.links().len(), 2 * nodes as usize);
            check_routes(&fabric);
            assert!(all_pairs(&fabric).iter().all(|&load| load == Ratio::from(u64::from(nodes) - 1)));
            let outside = NodeId::new(nodes as usize);
            assert_eq!(fabric.router.route(NodeId::new(0), outside), None, "no rank lives on the switch");
        }
    }
}
