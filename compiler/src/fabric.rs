//! A topology with what a builder wants to know about it: its shape, and how its traffic is routed.

use std::sync::Arc;

use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Configuration, Topology};

use crate::topology::circuits::Orientation;

/// The structure of a topology, where there is one that algorithms can use.
///
/// Ranks are the compute nodes in node order unless the job places them otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Compute nodes in a cycle, each linked to the next and, if `both`, back.
    Ring {
        /// Whether links run both ways.
        both: bool,
    },
    /// A torus; node number = Σ xᵢ·Π_{j<i} sides\[j\] (the first dimension grows fastest).
    Torus {
        /// Sides, each at least 1; a side of 2 has two parallel links each way.
        sides: Vec<u32>,
    },
    /// As a torus, without wrap-around.
    Grid {
        /// Sides.
        sides: Vec<u32>,
    },
    /// A link between every ordered pair.
    Mesh,
    /// All compute nodes on one switch.
    Switch,
    /// 2^d nodes; u and u ⊕ 2^i are linked.
    Hypercube {
        /// d.
        dimensions: u32,
    },
    /// A tree of switches.
    Clos {
        /// Compute nodes below one switch of each tier, from the lowest tier up.
        subtree: Vec<u32>,
    },
    /// A ring or torus of circuits and cables; node numbers as in [`Shape::Torus`].
    Optical {
        /// Sides.
        sides: Vec<u32>,
    },
    /// Machines with accelerators: compute node number = machine · `per_host` + index.
    Hosts {
        /// Accelerators a machine.
        per_host: u32,
    },
    /// Groups of neighbours with a fabric of their own, and a Clos between all: compute node number = group · `group` +
    /// number within.
    Hybrid {
        /// Compute nodes of a group.
        group: u32,
        /// The shape of each group's fabric.
        inside: Box<Shape>,
    },
    /// Nothing known.
    General,
}

/// Finds the way between two compute nodes.
pub trait Router: Send + Sync + std::fmt::Debug {
    /// The route from `src` to `dst` over forwarding nodes and links that are up; `None` if there is none.
    /// Deterministic. `src` and `dst` differ.
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route>;
}

/// What a link is made of: for reports only, nothing is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Nothing known: a link of a generated or described topology.
    Link,
    /// NVLink, between accelerators or to an NVSwitch.
    #[serde(rename = "nvlink")]
    NvLink,
    /// AMD's Infinity Fabric between accelerators.
    Xgmi,
    /// NVLink-C2C between a processor and its accelerator.
    C2c,
    /// PCI Express.
    Pcie,
    /// Between the processors of a machine (UPI, Infinity Fabric, X-Bus).
    Socket,
    /// Between machines: a cable of a network adapter or of a network switch.
    Network,
}

impl LinkKind {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::NvLink => "NVLink",
            Self::Xgmi => "xGMI",
            Self::C2c => "C2C",
            Self::Pcie => "PCIe",
            Self::Socket => "between sockets",
            Self::Network => "network",
        }
    }
}

/// A topology, its shape and its routing.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// The topology.
    pub topology: Arc<Topology>,
    /// Its structure.
    pub shape: Shape,
    /// Its routing.
    pub router: Arc<dyn Router>,
    /// Initial configuration of each device.
    pub circuits: Vec<Configuration>,
    /// Which way round the endpoints of its rings lie; `None` without devices.
    pub orientation: Option<Arc<Orientation>>,
    /// What each link is made of, by [`LinkId`]; empty if all are [`LinkKind::Link`].
    pub kinds: Vec<LinkKind>,
}

impl Fabric {
    /// A fabric without circuits whose links are of no particular kind.
    #[must_use]
    pub fn new(topology: Arc<Topology>, shape: Shape, router: Arc<dyn Router>) -> Self {
        Self { topology, shape, router, circuits: Vec::new(), orientation: None, kinds: Vec::new() }
    }

    /// What the link is made of.
    #[must_use]
    pub fn kind(&self, link: LinkId) -> LinkKind {
        self.kinds.get(link.index()).copied().unwrap_or(LinkKind::Link)
    }
}
