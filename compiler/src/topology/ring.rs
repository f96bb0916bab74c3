//! Rings.

use std::sync::Arc;

use super::error::BuildError;
use super::spec::LinkRates;
use super::torus::{Ties, TorusLayout, TorusRouter, check_sides, wire};
use crate::fabric::{Fabric, Shape};

/// Builds a ring: a torus of one dimension, with links to the next node and, if `both`, to the previous one.
///
/// Nodes are called `n0`, `n1`, … and forward. A ring of 2 that runs both ways has two parallel links each way, a ring
/// of 1 has none. Links are numbered by node, forward before backward.
///
/// # Errors
/// 0 nodes, more than 2²⁴ links.
pub fn ring(nodes: u32, both: bool, link: LinkRates) -> Result<Fabric, BuildError> {
    if nodes == 0 {
        return Err(BuildError::TooFew { what: "the number of nodes of the ring".into(), given: 0, limit: 1 });
    }
    let name = if both { format!("ring of {nodes}") } else { format!("one-way ring of {nodes}") };
    check_sides("ring", &[nodes], &name, |nodes| if both { 2 * nodes } else { nodes })?;
    let layout = TorusLayout::new(&[nodes], both);
    let topology = Arc::new(wire(&layout, name, link)?);
    Ok(Fabric::new(topology, Shape::Ring { both }, Arc::new(TorusRouter::new(layout, Ties::Split))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::testing::{check_routes, diameter, link};

    #[test]
    fn rings_of_all_sizes_have_shortest_routes() {
        for both in [false, true] {
            for nodes in 1..=9 {
                let fabric = ring(nodes, both, link(1)).unwrap();
                let degree = if nodes == 1 { 0 } else { 1 + usize::from(both) };
                assert_eq!(fabric.topology.links().len(), degree * nodes as usize);
                assert_eq!(diameter(&fabric), if both { nodes / 2 } else { nodes - 1 } as usize);
                check_routes(&fabric);
            }
        }
        assert_eq!(ring(0, true, link(1)).unwrap_err().code(), "T001");
    }
}
