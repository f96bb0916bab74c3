//! The cost model: what a step costs, by definition. The evaluators (`compiler` to choose, `verify` to check) are
//! written from this page, each on its own.
//!
//! # Definition
//! The time of a schedule is the sum over its steps of
//!
//! ```text
//! step = startup                          if the step has a flow with a path
//!      + max over flows with a path of the latency of that flow's longest path
//!      + max over resources of bytes(resource) / rate(resource)
//!      + reduce_cost · max over ranks of bytes that the rank reduces
//!      + copy_cost   · max over ranks of bytes that the rank copies locally
//!      + max over devices that change of reconfiguration_delay, + synchronisation   if a device changes
//! ```
//!
//! - The latency of a path is the sum over its hops; of a tree, that of its longest root-to-leaf path.
//! - `bytes(resource)`: each part of a route that uses the resource adds the bytes of that part, once per use; each hop
//!   of a tree adds the bytes of the flow once; [`Topology::path_resources`](crate::topology::Topology::path_resources)
//!   says which resources a path uses. A tree injects once at each root end and ejects once at each leaf end.
//! - A flow's bytes are the elements of its source slots times the element size. A route with weights w₁ … w_p (sum 1)
//!   cuts E elements at ⌊E·(w₁+…+w_i)⌋, so parts are whole elements and add up.
//! - A rank reduces the bytes of every `reduce` flow that arrives at it, local or not. A flow with source rank =
//!   destination rank has no path: it costs only its reduce or copy bytes.
//! - The price of a device change is paid before the step; a device whose configuration is set to what it already is
//!   does not change.
//! - With `overlap_reconfiguration`, a device may change while the step before runs, if none of the ports at which circuits go
//!   or come is used by a flow of that step: the last line is then max over devices that change of
//!   reconfiguration_delay + synchronisation − (for such a device) the other lines of the step before, at least 0. A change
//!   reaches back no farther than one step; before the first step there is none. Schedules with explicit
//!   dependencies have no step before, so nothing overlaps.
//! - A schedule with explicit dependencies is priced by levels: level(f) = 1 + the largest level among what f waits for,
//!   and the flows of one level form a step. That is an upper bound for the unsynchronised run.
//!
//! All of it is exact: whole bytes, rational seconds ([`Time`](crate::units::Time)).
//!
//! # Bandwidths
//! Algorithm bandwidth = `buffer_size` / time. Bus bandwidth = algorithm bandwidth × 2(n−1)/n for all_reduce, (n−1)/n for
//! all_gather, reduce_scatter and all_to_all, gather and scatter; 1 for the others (the conventions of nccl-tests).

use serde::{Deserialize, Serialize};

use crate::units::{Delay, PerByte};

/// Parameters that belong to no link or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostModel {
    /// Fixed cost of a step with communication (α_s).
    pub startup: Delay,
    /// Time per byte to reduce (γ).
    pub reduce_cost: PerByte,
    /// Time per byte to copy within a rank.
    pub copy_cost: PerByte,
    /// Added to each reconfiguration: synchronisation and an allowance for stragglers.
    pub synchronisation: Delay,
    /// Whether a device may change ports that the step before leaves idle while that step runs.
    pub overlap_reconfiguration: bool,
}

impl CostModel {
    /// Everything free: only links cost.
    pub const FREE: Self = Self {
        startup: Delay::ZERO,
        reduce_cost: PerByte::ZERO,
        copy_cost: PerByte::ZERO,
        synchronisation: Delay::ZERO,
        overlap_reconfiguration: false,
    };
}

impl Default for CostModel {
    fn default() -> Self {
        Self::FREE
    }
}
