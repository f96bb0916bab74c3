//! The problem that a schedule solves: topology, placement, initial circuits, groups, cost model.

use std::sync::Arc;

use crate::collective::{Collective, Layout};
use crate::cost::CostModel;
use crate::index::{GroupId, NodeId, RankId};
use crate::topology::{Configuration, ConfigurationError, Topology};

/// A collective over an ordered subset of the ranks. Each group has buffers of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    collective: Collective,
    ranks: Vec<RankId>,
}

impl Group {
    /// The collective.
    #[must_use]
    pub const fn collective(&self) -> &Collective {
        &self.collective
    }

    /// The ranks in order; a rank's index here is its *position* in the collective.
    #[must_use]
    pub fn ranks(&self) -> &[RankId] {
        &self.ranks
    }
}

/// A fault of a described problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// No rank at all.
    #[error("a problem needs at least 1 rank")]
    NoRanks,
    /// A rank on a node that does not exist.
    #[error("rank {rank} is placed on {node}, but the topology has {limit} nodes")]
    NoSuchNode {
        /// The rank.
        rank: RankId,
        /// Given.
        node: NodeId,
        /// How many there are.
        limit: usize,
    },
    /// Two ranks on one node.
    #[error("ranks {first} and {second} are both placed on node `{node}`")]
    NodeTwice {
        /// The first.
        first: RankId,
        /// The second.
        second: RankId,
        /// The node.
        node: String,
    },
    /// A rank on a switch.
    #[error("rank {rank} is placed on `{node}`, which is a switch")]
    OnSwitch {
        /// The rank.
        rank: RankId,
        /// The node.
        node: String,
    },
    /// A group with a number of ranks other than its collective's.
    #[error("group {group} has {given} ranks, its collective {limit}")]
    GroupSize {
        /// The group.
        group: GroupId,
        /// Ranks listed.
        given: usize,
        /// Positions of the collective.
        limit: u32,
    },
    /// A group that lists a rank twice or one that does not exist.
    #[error("group {group} lists rank {rank}, which {reason}")]
    GroupRank {
        /// The group.
        group: GroupId,
        /// The rank.
        rank: RankId,
        /// `does not exist` or `stands twice in it`.
        reason: &'static str,
    },
    /// Initial configurations that do not fit the devices.
    #[error("the initial circuits are not legal: {0}")]
    Circuits(#[from] ConfigurationError),
    /// A number of initial configurations other than that of devices.
    #[error("{given} initial configurations for {limit} devices")]
    CircuitCount {
        /// Given.
        given: usize,
        /// Devices.
        limit: usize,
    },
}

/// What a [`Problem`] is made from.
#[derive(Clone, Debug)]
pub struct ProblemSpec {
    /// The topology.
    pub topology: Arc<Topology>,
    /// Rank → node.
    pub placement: Vec<NodeId>,
    /// The configuration of each device before the first step, by device.
    pub circuits: Vec<Configuration>,
    /// The groups: each a collective and its ranks in order.
    pub groups: Vec<(Collective, Vec<RankId>)>,
    /// The cost model.
    pub cost: CostModel,
}

/// A well-formed problem.
#[derive(Clone, Debug)]
pub struct Problem {
    topology: Arc<Topology>,
    placement: Vec<NodeId>,
    rank_of_node: Vec<Option<RankId>>,
    circuits: Vec<Configuration>,
    groups: Vec<Group>,
    /// Per group: rank → position.
    positions: Vec<Vec<Option<u32>>>,
    cost: CostModel,
}

impl PartialEq for Problem {
    fn eq(&self, other: &Self) -> bool {
        self.topology == other.topology
            && self.placement == other.placement
            && self.circuits == other.circuits
            && self.groups == other.groups
            && self.cost == other.cost
    }
}

impl Problem {
    /// Checks and freezes a description.
    ///
    /// # Errors
    /// The first fault, in the order of [`ProblemError`].
    pub fn new(spec: ProblemSpec) -> Result<Self, ProblemError> {
        let ProblemSpec { topology, placement, circuits, groups, cost } = spec;
        if placement.is_empty() {
            return Err(ProblemError::NoRanks);
        }
        let mut rank_of_node: Vec<Option<RankId>> = vec![None; topology.nodes().len()];
        for (index, &node) in placement.iter().enumerate() {
            let rank = RankId::new(index);
            let limit = rank_of_node.len();
            let slot = rank_of_node.get_mut(node.index()).ok_or(ProblemError::NoSuchNode { rank, node, limit })?;
            let name = || topology.node(node).name.clone();
            if let Some(first) = slot.replace(rank) {
                return Err(ProblemError::NodeTwice { first, second: rank, node: name() });
            }
            if topology.node(node).kind == crate::topology::NodeKind::Switch {
                return Err(ProblemError::OnSwitch { rank, node: name() });
            }
        }
        if circuits.len() != topology.devices().len() {
            return Err(ProblemError::CircuitCount { given: circuits.len(), limit: topology.devices().len() });
        }
        for (device, configuration) in topology.devices().iter().zip(&circuits) {
            device.check(configuration)?;
        }
        let mut positions = Vec::with_capacity(groups.len());
        for (index, (collective, ranks)) in groups.iter().enumerate() {
            let group = GroupId::new(index);
            if ranks.len() != collective.ranks() as usize {
                return Err(ProblemError::GroupSize { group, given: ranks.len(), limit: collective.ranks() });
            }
            let mut position_of = vec![None; placement.len()];
            for (position, &rank) in (0_u32..).zip(ranks) {
                let slot = position_of.get_mut(rank.index()).ok_or(ProblemError::GroupRank {
                    group,
                    rank,
                    reason: "does not exist",
                })?;
                if slot.replace(position).is_some() {
                    return Err(ProblemError::GroupRank { group, rank, reason: "stands twice in it" });
                }
            }
            positions.push(position_of);
        }
        let groups = groups.into_iter().map(|(collective, ranks)| Group { collective, ranks }).collect();
        Ok(Self { topology, placement, rank_of_node, circuits, groups, positions, cost })
    }

    /// The usual problem: one collective over the first ranks of a topology's compute nodes, no devices configured.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn single(topology: Arc<Topology>, collective: Collective, cost: CostModel) -> Result<Self, ProblemError> {
        let placement: Vec<_> = topology.compute_nodes().take(collective.ranks() as usize).collect();
        let ranks = (0..placement.len()).map(RankId::new).collect();
        let circuits = vec![Configuration::default(); topology.devices().len()];
        Self::new(ProblemSpec { topology, placement, circuits, groups: vec![(collective, ranks)], cost })
    }

    /// The topology.
    #[must_use]
    pub const fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Number of ranks.
    #[must_use]
    pub fn rank_count(&self) -> usize {
        self.placement.len()
    }

    /// Rank → node.
    #[must_use]
    pub fn placement(&self) -> &[NodeId] {
        &self.placement
    }

    /// Where the rank is.
    #[must_use]
    pub fn node_of(&self, rank: RankId) -> NodeId {
        self.placement[rank.index()]
    }

    /// Which rank is on the node.
    #[must_use]
    pub fn rank_on(&self, node: NodeId) -> Option<RankId> {
        self.rank_of_node[node.index()]
    }

    /// Configuration of each device before the first step.
    #[must_use]
    pub fn circuits(&self) -> &[Configuration] {
        &self.circuits
    }

    /// The groups, by [`GroupId`].
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group.
    #[must_use]
    pub fn group(&self, group: GroupId) -> &Group {
        &self.groups[group.index()]
    }

    /// The rank's position in the group, if both exist and it takes part.
    #[must_use]
    pub fn position(&self, group: GroupId, rank: RankId) -> Option<u32> {
        *self.positions.get(group.index())?.get(rank.index())?
    }

    /// The layout of the group's collective at a chunk count.
    ///
    /// # Errors
    /// As [`Collective::layout`].
    pub fn layout(&self, group: GroupId, chunks: u32) -> Result<Layout<'_>, crate::collective::CollectiveError> {
        self.group(group).collective.layout(chunks)
    }

    /// The cost model.
    #[must_use]
    pub const fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// The description again.
    #[must_use]
    pub fn to_spec(&self) -> ProblemSpec {
        ProblemSpec {
            topology: Arc::clone(&self.topology),
            placement: self.placement.clone(),
            circuits: self.circuits.clone(),
            groups: self.groups.iter().map(|g| (g.collective.clone(), g.ranks.clone())).collect(),
            cost: self.cost,
        }
    }
}
