//! Topologies: what they are described by, one generator a family, routing, and what can be said about the result.
//!
//! Every generator gives a [`Fabric`](crate::fabric::Fabric): the topology, its shape, and a router. Ids are dense and
//! their order is part of each generator's documentation, so builders of algorithms may compute with it.

pub mod clos;
pub mod connectivity;
pub mod error;
pub mod grid;
pub mod hypercube;
pub mod mesh;
pub mod ring;
pub mod route;
pub mod spec;
pub mod switch;
#[cfg(test)]
mod testing;
pub mod torus;

pub use connectivity::{Cut, connectivity};
pub use error::{BuildError, LINK_LIMIT};

use rondo_ir::topology::{Topology, TopologyBuilder};

/// Freezes what a generator made; its first fault, if it has one.
fn finish(builder: TopologyBuilder) -> Result<Topology, BuildError> {
    builder.finish().map_err(|errors| match errors.into_iter().next() {
        Some(error) => BuildError::Topology(error),
        None => BuildError::TooFew { what: "the number of nodes".into(), given: 0, limit: 1 },
    })
}
