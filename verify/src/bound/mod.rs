//! Lower bounds on the time of every schedule for a problem.
//!
//! # Bandwidth
//! For a set S of nodes, at least D(S) bytes must cross from S to the rest: what the ranks outside must hold at the end
//! and only ranks inside have at the start. Sums may be added up before they cross, copies may be made after (see
//! `demand.rs` for the bytes of each collective, and why). They cross over links, circuits and media whose rates add up to
//! C(S); moreover they are injected by ranks inside and ejected by ranks outside. So every schedule takes at least
//! D(S)/C(S), however it is pipelined. Evaluated are: each rank alone; the subtree below each switch (racks, pods,
//! machines); what hangs together by links above each capacity; for each link u → v the nodes that are nearer to u than to
//! v (halves of tori, sides of grids, subtrees of trees) and the nodes within each distance of each node, as far as a
//! fixed budget of work goes; on small topologies the bottleneck cut by maximal flow, and all cuts of at most 14 nodes.
//!
//! Without abilities of the network (no node multicasts or reduces) each transfer carries one value from one rank to one
//! rank. Cut the ranks into c parts that hold members: what all parts together must receive, or send, bounds the sum of
//! their egress and of their ingress, and for all_reduce that is 2(c − 1)·m, since spreading what everybody knows to
//! everybody takes 2(c − 1) one-way messages (merging a part without members into one that has some only removes
//! messages). With parts of one rank and equal rates this is the well-known 2(n − 1)/n. A switch with a total capacity is
//! treated alike: what hangs on it are the parts.
//!
//! # Latency
//! What rank q must hold depends on rank p, so a chain of flows leads from p to q. Each flow pays a start-up, passes through
//! nodes that forward, and takes the latency of its links; relays are other ranks. The cheapest such chain of the
//! dearest pair is the bound. Reductions, copies and reconfigurations are taken as free.
//!
//! # Together
//! [`Bound::time`], the larger of both, holds for every run. [`Bound::synchronous`], their sum, holds for the price as
//! [`rondo_ir::cost`] defines it: Σ over steps of startup + largest latency is at least the latency bound, since the
//! chain's flows lie in different steps (or levels) that each pay for the flow that they hold; and Σ over steps of the
//! largest bytes/rate is at least D/C for every cut: with time tᵢ for the load of step i, each of its resources carries at
//! most rate·tᵢ, hence D ≤ Σᵢ C·tᵢ. The sums run over different terms of the price, so the bounds add.

mod cuts;
mod demand;
mod flow;
mod graph;
mod latency;
#[cfg(test)]
mod tests;

use num_rational::BigRational;
use rondo_ir::collective::CollectiveError;
use rondo_ir::index::RankId;
use rondo_ir::problem::Problem;
use rondo_ir::units::Time;

/// A lower bound; see the module's page for what it holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No run is faster, pipelined or not: the larger of the two parts.
    pub time: Time,
    /// No step-synchronous price (the definition in `rondo_ir::cost`) is lower: the sum of the two parts.
    pub synchronous: Time,
    /// By the bytes that must pass.
    pub bandwidth: BandwidthBound,
    /// By the way that data must go.
    pub latency: LatencyBound,
}

/// The tightest cut found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthBound {
    /// `bytes` / `capacity`.
    pub time: Time,
    /// Which cut, in the user's names: `into gpu3`, `out of {gpu0, gpu1}: up-links of tor0`.
    pub cut: String,
    /// Bytes that must cross it, over all groups together.
    pub bytes: u128,
    /// Bytes per second that can.
    pub capacity: u128,
}

/// The dearest pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyBound {
    /// `startup` + `propagation`.
    pub time: Time,
    /// Flows one after the other that the pair needs.
    pub steps: u32,
    /// Their start-ups.
    pub startup: Time,
    /// Latency of the links on the way.
    pub propagation: Time,
    /// The pair, if any two ranks must communicate.
    pub pair: Option<(RankId, RankId)>,
    /// For people: `from gpu0 to gpu4, 1 step`.
    pub way: String,
}

/// Why there is no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoundError {
    /// No schedule exists, so every time would be a bound.
    #[error("no path leads {cut}, but {bytes} B must pass")]
    Disconnected {
        /// The empty cut: `out of {gpu0, gpu1}`.
        cut: String,
        /// Bytes that must cross it.
        bytes: u128,
    },
    /// Chunk counts that the collectives do not have.
    #[error("{given} chunk counts for {limit} groups")]
    ChunkCount {
        /// Given.
        given: usize,
        /// Groups.
        limit: usize,
    },
    /// A chunk count that the collective cannot have.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
}

/// The bound for blocks that are not cut further (chunk count 1).
///
/// Sizes that n·k divides are the same for every chunk count k; for others use [`bound_at`] with the schedule's.
///
/// # Errors
/// [`BoundError::Disconnected`].
pub fn bound(problem: &Problem) -> Result<Bound, BoundError> {
    bound_at(problem, &vec![1; problem.groups().len()])
}

/// The bound for schedules with these chunk counts, one a group. They matter only through which block gets the elements
/// that do not divide evenly.
///
/// # Errors
/// [`BoundError`].
pub fn bound_at(problem: &Problem, chunks: &[u32]) -> Result<Bound, BoundError> {
    let groups = problem.groups().len();
    if chunks.len() != groups {
        return Err(BoundError::ChunkCount { given: chunks.len(), limit: groups });
    }
    let demands = demand::demands(problem, chunks)?;
    let graph = graph::Graph::new(problem);
    let bandwidth = cuts::tightest(problem, &graph, &demands, cuts::ALL_CUTS)?;
    let latency = latency::dearest(problem, &graph, &demands)?;
    let time = bandwidth.time.clone().max(latency.time.clone());
    let synchronous = bandwidth.time.clone() + latency.time.clone();
    Ok(Bound { time, synchronous, bandwidth, latency })
}

fn quotient(bytes: u128, capacity: u128) -> Time {
    if bytes == 0 {
        return Time::zero();
    }
    Time::from_seconds(BigRational::new(bytes.into(), capacity.into()))
}

/// `gpu3`, `{gpu0, gpu1}`, or `{gpu0, gpu1, gpu2, … 64 ranks}`.
fn names(problem: &Problem, ranks: &[RankId]) -> String {
    let name = |rank: &RankId| problem.topology().node(problem.node_of(*rank)).name.clone();
    match ranks {
        [] => "no rank".to_owned(),
        [one] => name(one),
        few if few.len() <= 8 => format!("{{{}}}", few.iter().map(name).collect::<Vec<_>>().join(", ")),
        many => {
            let first: Vec<_> = many.iter().take(3).map(name).collect();
            format!("{{{}, … {} ranks}}", first.join(", "), many.len())
        }
    }
}
