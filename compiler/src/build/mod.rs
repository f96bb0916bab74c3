//! Algorithm builders: from a collective on a fabric to a schedule.
//!
//! Each builder is documented with its source, its steps and its cost in the step-synchronous model
//! ([`rondo_ir::cost`]); α_s is the start-up of a step, α_p the delay of a hop, m the buffer, n the ranks. What a builder
//! makes is judged by `rondo-verify`, never here.
//!
//! | module | algorithms |
//! | --- | --- |
//! | `ring` | `ring`, `ring-two-way` |
//! | `direct` | `direct`, `direct-rounds`, `all-pairs` |
//! | `doubling` | `recursive-doubling`, `halving-doubling`, `swing`, both `-rotated`, `bruck` |
//! | `trees` | `chain`, `binomial-tree`, `double-binary-tree`, `bfs-tree` |
//! | `torus` | `torus`, `torus-rotated`, `torus-gather-reduce`, `torus-shortest` |
//! | `tile` | `grid`, `grid-gather-reduce` |
//! | `hierarchical` | `hierarchical`, `hierarchical-ring`, `hierarchical-direct`, `two-fabrics` |
//! | `network` | `multicast`, `in-network` |
//! | `relay` | `relay` |

mod deliver;
mod direct;
mod doubling;
mod gather;
mod hierarchical;
mod network;
mod relay;
mod ring;
mod site;
mod spread;
mod tile;
mod torus;
mod trees;
mod whole;

use std::sync::Arc;

use rondo_ir::collective::{CollectiveError, CollectiveKind};
use rondo_ir::diagnostic::{CodeEntry, Diagnostic};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{FlowOp, Paths, Schedule};

use crate::cost;
use crate::fabric::Fabric;
use crate::pass::circuits::{self, CircuitOptions, Rule};
use site::Site;

/// What a builder works from.
#[derive(Clone, Copy, Debug)]
pub struct BuildContext<'a> {
    /// The problem; its first and only group is built for.
    pub problem: &'a Arc<Problem>,
    /// The fabric that the problem's topology belongs to.
    pub fabric: &'a Fabric,
    /// Pipelining factor, at least 1: into how many pieces an algorithm cuts what it would otherwise move at once. The
    /// chunk count of the schedule's layout is a multiple of it.
    pub chunks: u32,
    /// Hops that all routes of a schedule together may have, about; `None`: as many as it takes. A direct algorithm on a
    /// long ring writes down n² routes of n/4 hops before it turns out to be slow.
    pub hop_limit: Option<u64>,
    /// How the devices of the topology are set between steps.
    pub circuits: CircuitOptions,
}

impl<'a> BuildContext<'a> {
    /// The context without pipelining.
    #[must_use]
    pub const fn new(problem: &'a Arc<Problem>, fabric: &'a Fabric) -> Self {
        let circuits = CircuitOptions { rule: Rule::Optimal, restore: false };
        Self { problem, fabric, chunks: 1, hop_limit: None, circuits }
    }

    /// The same with another pipelining factor.
    #[must_use]
    pub const fn with_chunks(self, chunks: u32) -> Self {
        Self { chunks, ..self }
    }
}

/// An algorithm, for documentation and for choosing.
#[derive(Clone, Copy)]
pub struct AlgorithmInfo {
    /// Stable name, as in `[compile] algorithm = "…"`.
    pub name: &'static str,
    /// One line: what it does and what it costs.
    pub title: &'static str,
    /// Names of the collectives that it builds.
    pub collectives: &'static [&'static str],
    /// What it asks of topology and ranks; empty if nothing.
    pub needs: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether more chunks can make it faster.
    pub(crate) pipelined: bool,
    /// An upper estimate of its flows.
    pub(crate) flows: fn(&Site) -> u64,
    pub(crate) build: fn(&Site) -> Result<Schedule, BuildError>,
}

impl AlgorithmInfo {
    /// Whether it builds that collective at all.
    #[must_use]
    pub fn serves(&self, kind: &CollectiveKind) -> bool {
        self.collectives.contains(&kind.name())
    }

    /// Whether a pipelining factor above 1 can make it faster.
    #[must_use]
    pub const fn is_pipelined(&self) -> bool {
        self.pipelined
    }
}

impl std::fmt::Debug for AlgorithmInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlgorithmInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No algorithm of that name.
    #[error("unknown algorithm `{name}`")]
    UnknownAlgorithm {
        /// Given.
        name: String,
        /// The most similar known name, if one is similar.
        nearest: Option<&'static str>,
    },
    /// The algorithm does not fit collective, ranks or topology.
    #[error("{algorithm} does not fit: {reason}")]
    DoesNotFit {
        /// Which.
        algorithm: &'static str,
        /// Why.
        reason: String,
    },
    /// Two ranks that the algorithm wants to join have no way between them.
    #[error("no route from `{src}` to `{dst}` over nodes that forward")]
    NoRoute {
        /// Node of the source.
        src: String,
        /// Node of the destination.
        dst: String,
    },
    /// Two ranks that nothing joins, not even through other ranks.
    #[error("nothing leads from `{src}` to `{dst}`, not even through other ranks")]
    Disconnected {
        /// Node of the source.
        src: String,
        /// Node of the destination.
        dst: String,
    },
    /// A schedule that would be too large to try.
    #[error("about {given} flows, more than {limit}")]
    TooManyFlows {
        /// Estimate.
        given: u64,
        /// Limit.
        limit: u64,
    },
    /// Routes that would be too long to try.
    #[error("about {given} hops in all routes, more than {limit}")]
    TooManyHops {
        /// Estimate.
        given: u64,
        /// Limit.
        limit: u64,
    },
    /// A pipelining factor of zero, or one that leads to more slots than can be numbered.
    #[error("a pipelining factor of {given} cannot be built")]
    TooManyChunks {
        /// Given.
        given: u32,
    },
    /// A problem with a number of groups other than one.
    #[error("algorithms are built for one group of ranks; the problem has {given}")]
    Groups {
        /// How many.
        given: usize,
    },
    /// Slots that cannot be numbered.
    #[error(transparent)]
    Layout(#[from] CollectiveError),
    /// No algorithm fits.
    #[error("no algorithm fits this {collective} on this topology")]
    NoCandidate {
        /// Name of the collective.
        collective: &'static str,
        /// Per algorithm: why not.
        reasons: Vec<(&'static str, String)>,
    },
}

impl BuildError {
    /// Its code in the registry.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownAlgorithm { .. } => "P021",
            Self::DoesNotFit { .. } => "P022",
            Self::NoRoute { .. } => "P023",
            Self::Disconnected { .. } => "P024",
            Self::TooManyFlows { .. } | Self::TooManyHops { .. } => "P025",
            Self::TooManyChunks { .. } | Self::Layout(_) => "P026",
            Self::Groups { .. } => "P027",
            Self::NoCandidate { .. } => "P028",
        }
    }

    /// What went wrong, for where the name of the algorithm stands beside it.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::DoesNotFit { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// The same for a person, with what to do about it.
    #[must_use]
    pub fn to_diagnostic(&self) -> Diagnostic {
        let base = Diagnostic::error(self.code(), self.to_string());
        match self {
            Self::UnknownAlgorithm { nearest, .. } => {
                let names: Vec<&str> = algorithms().iter().map(|a| a.name).collect();
                let base = match nearest {
                    Some(nearest) => base.help(format!("did you mean `{nearest}`?")),
                    None => base,
                };
                base.help(format!("known: auto, {}", names.join(", ")))
            }
            Self::DoesNotFit { .. } => base.help("write algorithm = \"auto\" to try all that fit"),
            Self::TooManyFlows { .. } | Self::TooManyHops { .. } => base
                .note("that many would not fit into memory")
                .help("take fewer ranks; `rondo compare` prices large regular networks without building schedules"),
            Self::NoRoute { .. } => base
                .note("accelerators do not forward traffic for others unless the topology says so")
                .help("write algorithm = \"auto\"; `relay` passes data on through other ranks"),
            Self::Disconnected { .. } => base.help("add a link between the two parts, or leave ranks out"),
            Self::TooManyChunks { .. } | Self::Layout(_) => base.help("write a smaller number of chunks, at least 1"),
            Self::Groups { .. } => base.help("compile each group by itself"),
            Self::NoCandidate { reasons, .. } => {
                reasons.iter().fold(base, |base, (name, reason)| base.note(format!("{name}: {reason}")))
            }
        }
    }
}

/// The codes of this module.
pub(crate) const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "P021",
        title: "unknown algorithm",
        explanation: "The job names an algorithm that does not exist. The message lists all names; `auto` tries every one that \
                      fits and takes the cheapest.",
    },
    CodeEntry {
        code: "P022",
        title: "algorithm does not fit",
        explanation: "The named algorithm asks for something that this collective, these ranks or this topology do not have, \
                      for example a torus, or a number of ranks that is a power of two. The message says what. `auto` passes \
                      over such algorithms and reports why.",
    },
    CodeEntry {
        code: "P023",
        title: "no route between two ranks",
        explanation: "The algorithm sends between two ranks whose nodes are joined by no path of links that are up over nodes \
                      that forward. Switches forward; accelerators do not unless the topology says so. Algorithms that pass \
                      data on through other ranks (`ring`, `bfs-tree`, `relay`) may still work.",
    },
    CodeEntry {
        code: "P024",
        title: "ranks are not connected",
        explanation: "Even through other ranks nothing leads from one rank to the other, so no schedule exists. A link is \
                      missing or down, or a rank is placed on the wrong node.",
    },
    CodeEntry {
        code: "P025",
        title: "schedule too large to try",
        explanation: "While choosing, candidates whose flows, or whose routes' hops, would exceed a limit are passed over to keep compilation \
                      fast; name the algorithm in the job to build one anyway. Above 2^27 flows or 2^28 hops none is built, since memory \
                      would not suffice: `rondo compare` prices large Clos networks and tori without building.",
    },
    CodeEntry {
        code: "P026",
        title: "number of chunks cannot be built",
        explanation: "A block needs at least one chunk, and a buffer at most 2^30 slots. Write a number of chunks in between.",
    },
    CodeEntry {
        code: "P027",
        title: "one group expected",
        explanation: "Builders make the schedule of one collective over one group of ranks. A problem with several groups needs \
                      one compilation a group.",
    },
    CodeEntry {
        code: "P028",
        title: "no algorithm fits",
        explanation: "Every algorithm was tried and none fits. The notes give the reason of each. On a topology that connects \
                      all ranks this does not happen; so look for a missing link first.",
    },
    CodeEntry {
        code: "P029",
        title: "measurement cannot be read",
        explanation: "A line of an nccl-tests output begins with a size but is no line of its table: size, count, type, \
                      perhaps redop and root, then time, algbw, busbw and #wrong, out of place and in place.",
    },
    CodeEntry {
        code: "P030",
        title: "too few measurements",
        explanation: "Start-up and rate are fitted to at least two lines of different size. Run nccl-tests over a range, for \
                      example `all_reduce_perf -b 1K -e 1G -f 2`.",
    },
];

/// All algorithms in their stated order, which breaks ties between equally cheap candidates.
#[must_use]
pub const fn algorithms() -> &'static [AlgorithmInfo] {
    ALGORITHMS
}

/// The algorithm of that name.
///
/// # Errors
/// [`BuildError::UnknownAlgorithm`] with the most similar name.
pub fn algorithm(name: &str) -> Result<&'static AlgorithmInfo, BuildError> {
    ALGORITHMS.iter().find(|a| a.name == name).ok_or_else(|| {
        let nearest = ALGORITHMS
            .iter()
            .map(|a| (a.name, strsim::damerau_levenshtein(a.name, &name.to_lowercase())))
            .min_by_key(|&(_, distance)| distance)
            .filter(|&(known, distance)| distance <= 1 + known.len() / 3)
            .map(|(known, _)| known);
        BuildError::UnknownAlgorithm { name: name.to_owned(), nearest }
    })
}

/// Builds the schedule of the named algorithm.
///
/// With one rank every algorithm gives the same: local copies out of place, nothing in place.
///
/// # Errors
/// The reason why the algorithm does not fit, a pair without a route, or an unknown name.
///
/// # Complexity
/// Linear in the flows; steps are made in parallel and do not depend on the number of threads.
pub fn build(name: &str, cx: &BuildContext) -> Result<Schedule, BuildError> {
    build_info(algorithm(name)?, cx)
}

/// Builds, and sets circuits where the topology has devices.
pub(crate) fn build_info(info: &'static AlgorithmInfo, cx: &BuildContext) -> Result<Schedule, BuildError> {
    if cx.problem.topology().devices().is_empty() || cx.circuits.rule == Rule::Off {
        return build_flows(info, cx);
    }
    let ring = match cx.circuits.rule {
        Rule::Paper => build_flows(algorithm("ring")?, &cx.with_chunks(1)).ok(),
        _ => None,
    };
    let ring = ring.map(|ring| cost::evaluate(cx.problem, &ring).total);
    let fabric = circuits::reaching(cx.fabric);
    let schedule = build_flows(info, &BuildContext { fabric: &fabric, ..*cx }).map_err(|error| match error {
        BuildError::NoRoute { .. } => {
            let reason = format!("{error}, and no circuit could lead there{}", circuits::hint(&fabric.topology));
            BuildError::DoesNotFit { algorithm: info.name, reason }
        }
        other => other,
    })?;
    circuits::reconfigure(cx.problem, cx.fabric, schedule, cx.circuits, ring.as_ref())
        .map_err(|error| BuildError::DoesNotFit { algorithm: info.name, reason: error.to_string() })
}

fn build_flows(info: &'static AlgorithmInfo, cx: &BuildContext) -> Result<Schedule, BuildError> {
    let site = Site::new(cx)?;
    if cx.chunks == 0 {
        return Err(BuildError::TooManyChunks { given: 0 });
    }
    if !info.serves(site.kind()) {
        let reason = format!("it builds {}, not {}", info.collectives.join(", "), site.kind().name());
        return Err(BuildError::DoesNotFit { algorithm: info.name, reason });
    }
    if site.n == 1 && !matches!(site.kind(), CollectiveKind::Custom(_)) {
        return alone(&site, info.name);
    }
    (info.build)(&site)
}

/// An estimate of the flows of the algorithm, made without building it.
///
/// # Errors
/// [`BuildError::Groups`].
pub fn flow_estimate(info: &'static AlgorithmInfo, cx: &BuildContext) -> Result<u64, BuildError> {
    let site = Site::new(cx)?;
    Ok(if site.n == 1 { 1 } else { (info.flows)(&site) })
}

/// One rank: what it must have, it has.
fn alone(site: &Site, algorithm: &'static str) -> Result<Schedule, BuildError> {
    use rondo_ir::collective::{Buffer, Expected, Place};
    let layout = site.layout(1)?;
    let mut flows = Vec::new();
    for slot in 0..layout.slots(0, Buffer::Output) {
        if let Some(Expected::One(from)) = layout.postcondition(0, slot).map(|held| match held {
            Expected::SumOverAll { slot } => Expected::One(rondo_ir::collective::Contribution { origin: 0, slot }),
            other => other,
        }) {
            let (src, dst) = (Place::input(from.slot), Place::output(slot));
            if layout.canonical(0, src) != layout.canonical(0, dst) {
                flows.push(site.local(0, src, dst, 1, FlowOp::Copy));
            }
        }
    }
    Ok(site.schedule(algorithm, 1, Vec::new(), Paths::default(), vec![flows]))
}

/// Collectives that spreading patterns build.
const GATHERING: &[&str] = &["all_reduce", "all_gather", "reduce_scatter"];

const ALGORITHMS: &[AlgorithmInfo] = &[
    AlgorithmInfo {
        name: "ring",
        title: "hand blocks on around a ring, one way: n−1 steps of one block (twice for all_reduce)",
        collectives: GATHERING,
        needs: "a cycle of ranks with a route from each to the next",
        source: "Patarasuk and Yuan 2009; Eq. 5 of the Shortcut paper",
        pipelined: false,
        flows: ring::one_way_flows,
        build: ring::one_way,
    },
    AlgorithmInfo {
        name: "ring-two-way",
        title: "hand blocks on both ways around a ring: ⌊n/2⌋ steps, bandwidth-optimal on two-way rings",
        collectives: GATHERING,
        needs: "a cycle of ranks with routes both ways",
        source: "the torus AllGather of the topology paper in one dimension",
        pipelined: false,
        flows: ring::two_way_flows,
        build: ring::two_way,
    },
    AlgorithmInfo {
        name: "direct",
        title: "everybody sends straight to whom it must, in one step (two for all_reduce)",
        collectives: &CollectiveKind::NAMES,
        needs: "a route for every pair that exchanges data",
        source: "Clos column of Table 2 of the topology paper (all_gather, all_to_all)",
        pipelined: false,
        flows: direct::one_step_flows,
        build: direct::one_step,
    },
    AlgorithmInfo {
        name: "direct-rounds",
        title: "the same in n−1 rounds, one peer each a round",
        collectives: &["all_reduce", "all_gather", "reduce_scatter", "all_to_all"],
        needs: "a route for every pair",
        source: "folklore; shift rounds",
        pipelined: false,
        flows: direct::one_step_flows,
        build: direct::rounds,
    },
    AlgorithmInfo {
        name: "all-pairs",
        title: "everybody sends its whole vector to everybody and adds: one step, least latency",
        collectives: &["all_reduce"],
        needs: "a route for every pair",
        source: "one-shot all_reduce of several runtimes",
        pipelined: false,
        flows: direct::all_pairs_flows,
        build: direct::all_pairs,
    },
    AlgorithmInfo {
        name: "recursive-doubling",
        title: "log₂ n exchanges with rank u ⊕ 2^t: whole vectors (all_reduce) or all that is held",
        collectives: GATHERING,
        needs: "a power of two, except for all_reduce, which folds",
        source: "Thakur, Rabenseifner and Gropp 2005; Clos column of Table 2 of the topology paper (all_reduce)",
        pipelined: false,
        flows: doubling::recursive_doubling_flows,
        build: doubling::recursive_doubling,
    },
    AlgorithmInfo {
        name: "halving-doubling",
        title: "recursive halving, then doubling: log₂ n steps a phase, bandwidth-optimal on a switch",
        collectives: GATHERING,
        needs: "a number of ranks that is a power of two",
        source: "Rabenseifner 2004; Eqs. 2 and 3 of the Shortcut paper",
        pipelined: false,
        flows: doubling::halving_doubling_flows,
        build: doubling::halving_doubling,
    },
    AlgorithmInfo {
        name: "halving-doubling-rotated",
        title: "the same in one part per dimension, each beginning with another: all dimensions at once",
        collectives: GATHERING,
        needs: "a torus of two dimensions or more, its sides powers of two, with a rank on every node",
        source: "section V of the Shortcut paper; rotation as in the topology paper",
        pipelined: false,
        flows: doubling::rotated_flows,
        build: doubling::halving_doubling_rotated,
    },
    AlgorithmInfo {
        name: "swing",
        title: "log₂ n steps a phase with partners 1, 1, 3, 5, 11, … apart, to both sides in turn",
        collectives: GATHERING,
        needs: "a number of ranks that is a power of two; of a torus, sides that are",
        source: "De Sensi et al., \"Swing\", 2024; section III of the Shortcut paper",
        pipelined: false,
        flows: doubling::swing_flows,
        build: doubling::swing,
    },
    AlgorithmInfo {
        name: "swing-rotated",
        title: "the same in one part per dimension, each beginning with another: all dimensions at once",
        collectives: GATHERING,
        needs: "a torus of two dimensions or more, its sides powers of two, with a rank on every node",
        source: "De Sensi et al., \"Swing\", 2024",
        pipelined: false,
        flows: doubling::rotated_flows,
        build: doubling::swing_rotated,
    },
    AlgorithmInfo {
        name: "bruck",
        title: "⌈log₂ n⌉ steps a phase for any number of ranks",
        collectives: &["all_reduce", "all_gather", "reduce_scatter", "all_to_all"],
        needs: "routes between ranks 2^t apart",
        source: "Bruck et al. 1997",
        pipelined: false,
        flows: doubling::bruck_flows,
        build: doubling::bruck,
    },
    AlgorithmInfo {
        name: "chain",
        title: "pass chunks along a chain of all ranks",
        collectives: &["broadcast", "reduce", "all_reduce"],
        needs: "a cycle of ranks with a route from each to the next",
        source: "folklore; pipelined ring broadcast",
        pipelined: true,
        flows: trees::flows,
        build: trees::chain,
    },
    AlgorithmInfo {
        name: "binomial-tree",
        title: "⌈log₂ n⌉ rounds down a binomial tree, farthest first",
        collectives: &["broadcast", "reduce", "all_reduce"],
        needs: "routes along the tree",
        source: "folklore",
        pipelined: true,
        flows: trees::flows,
        build: trees::binomial,
    },
    AlgorithmInfo {
        name: "double-binary-tree",
        title: "two binary trees, each for half of the data, pipelined",
        collectives: &["broadcast", "reduce", "all_reduce"],
        needs: "routes along the trees",
        source: "Sanders, Speck and Träff 2009",
        pipelined: true,
        flows: trees::double_flows,
        build: trees::double,
    },
    AlgorithmInfo {
        name: "bfs-tree",
        title: "a breadth-first tree over neighbouring ranks, pipelined",
        collectives: &["broadcast", "reduce", "all_reduce"],
        needs: "connected ranks",
        source: "folklore",
        pipelined: true,
        flows: trees::breadth_first_flows,
        build: trees::breadth_first,
    },
    AlgorithmInfo {
        name: "torus",
        title: "one dimension after the other, both ways, whole blocks",
        collectives: GATHERING,
        needs: "a torus with a rank on every node",
        source: "plain dimension-wise AllGather, section 3 of the topology paper",
        pipelined: false,
        flows: torus::dimension_wise_flows,
        build: torus::dimension_wise,
    },
    AlgorithmInfo {
        name: "torus-rotated",
        title: "blocks in k parts that take the dimensions in rotated order: all 2k links in use",
        collectives: GATHERING,
        needs: "a torus with a rank on every node",
        source: "torus AllGather of Table 2 of the topology paper, and its reverse",
        pipelined: false,
        flows: torus::rotated_flows,
        build: torus::rotated,
    },
    AlgorithmInfo {
        name: "torus-gather-reduce",
        title: "per dimension, gather whole vectors and add them",
        collectives: &["all_reduce"],
        needs: "a torus with a rank on every node",
        source: "torus AllReduce of Table 2 of the topology paper",
        pipelined: false,
        flows: torus::gather_then_reduce_flows,
        build: torus::gather_then_reduce,
    },
    AlgorithmInfo {
        name: "torus-shortest",
        title: "one step along shortest ways, antipodes split in half",
        collectives: &["all_to_all"],
        needs: "a torus with a rank on every node",
        source: "torus AlltoAll of Table 2 of the topology paper",
        pipelined: false,
        flows: torus::all_to_all_flows,
        build: torus::all_to_all,
    },
    AlgorithmInfo {
        name: "grid",
        title: "a tile of a torus or grid: blocks in one part per dimension, both ways at once",
        collectives: GATHERING,
        needs: "ranks that fill a box of rows and columns of a torus or grid",
        source: "Appendix E of the topology paper (tiles without wrap-around)",
        pipelined: false,
        flows: tile::gather_flows,
        build: tile::gather,
    },
    AlgorithmInfo {
        name: "grid-gather-reduce",
        title: "a tile of a torus or grid: per dimension, gather whole vectors and add them",
        collectives: &["all_reduce"],
        needs: "ranks that fill a box of rows and columns of a torus or grid",
        source: "Appendix E of the topology paper (tiles without wrap-around)",
        pipelined: false,
        flows: tile::gather_then_reduce_flows,
        build: tile::gather_then_reduce,
    },
    AlgorithmInfo {
        name: "hierarchical",
        title: "within machines at once, across machines in ⌈log₂⌉ steps",
        collectives: &["all_reduce", "all_gather", "reduce_scatter", "all_to_all"],
        needs: "machines or racks with equally many ranks, at least two each",
        source: "two-level composition, as in NCCL and MSCCL",
        pipelined: false,
        flows: hierarchical::flows,
        build: hierarchical::logarithmic,
    },
    AlgorithmInfo {
        name: "hierarchical-ring",
        title: "within machines at once, across machines round a ring",
        collectives: GATHERING,
        needs: "machines or racks with equally many ranks, at least two each",
        source: "two-level composition, as in NCCL and MSCCL",
        pipelined: false,
        flows: hierarchical::flows,
        build: hierarchical::ring,
    },
    AlgorithmInfo {
        name: "hierarchical-direct",
        title: "within machines at once, across machines at once",
        collectives: GATHERING,
        needs: "machines or racks with equally many ranks, at least two each",
        source: "two-level composition, as in NCCL and MSCCL",
        pipelined: false,
        flows: hierarchical::flows,
        build: hierarchical::direct,
    },
    AlgorithmInfo {
        name: "two-fabrics",
        title: "within racks or pods on their own fabric, between them by index on the Clos",
        collectives: GATHERING,
        needs: "a Clos with a second fabric in each rack or pod, and a rank on every node",
        source: "Table 6 and Appendix D of the topology paper",
        pipelined: false,
        flows: hierarchical::flows,
        build: hierarchical::two_fabrics,
    },
    AlgorithmInfo {
        name: "multicast",
        title: "one step along trees at whose branches the network copies",
        collectives: &["all_gather", "broadcast"],
        needs: "nodes that copy (`multicasts = true`), wherever the trees branch",
        source: "section 8 and Appendix C of the topology paper",
        pipelined: false,
        flows: network::multicast_flows,
        build: network::multicast,
    },
    AlgorithmInfo {
        name: "in-network",
        title: "sums made by the network, spread by multicast; all_reduce pipelined over chunks",
        collectives: &["all_reduce", "reduce_scatter", "reduce"],
        needs: "nodes that add (`reduces = true`); for all_reduce, that copy too",
        source: "NVLink switches; Graham et al. 2016 (SHARP)",
        pipelined: true,
        flows: network::aggregate_flows,
        build: network::aggregate,
    },
    AlgorithmInfo {
        name: "relay",
        title: "store and forward over shortest chains of ranks",
        collectives: &[
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "gather",
            "scatter",
            "send_receive",
            "custom",
        ],
        needs: "connected ranks",
        source: "folklore",
        pipelined: false,
        flows: relay::flows,
        build: relay::build,
    },
];
