//! Why a topology cannot be built.

use rondo_ir::diagnostic::{CodeEntry, Diagnostic};
use rondo_ir::topology::TopologyError;

use super::connectivity::Cut;

/// Links that a generated topology may have at most: 2²⁴.
pub const LINK_LIMIT: u64 = 1 << 24;

/// A parameter of a topology that cannot be, with what was given and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Less than the least.
    #[error("{what} is {given}, but must be at least {limit}")]
    TooFew {
        /// What (`nodes of the ring`).
        what: String,
        /// Given.
        given: u64,
        /// The least.
        limit: u64,
    },
    /// More than the most.
    #[error("{what} is {given}, but must be at most {limit}")]
    TooMany {
        /// What.
        what: String,
        /// Given.
        given: u64,
        /// The most.
        limit: u64,
    },
    /// A topology above [`LINK_LIMIT`].
    #[error("{what} would have {given} links; the limit is {LINK_LIMIT}")]
    TooLarge {
        /// Name of the topology.
        what: String,
        /// Its links, or 2⁶⁴−1 for more than can be counted.
        given: u64,
    },
    /// No side at all.
    #[error("a {family} needs at least 1 side")]
    NoSides {
        /// `torus` or `grid`.
        family: &'static str,
    },
    /// An odd radix.
    #[error("the radix of a Clos must be even, given {given}")]
    OddRadix {
        /// Given.
        given: u32,
    },
    /// More hosts than the Clos holds.
    #[error("a Clos of {tiers} tiers with radix {radix} holds at most {limit} hosts, given {given}")]
    ClosOverfull {
        /// Tiers.
        tiers: u32,
        /// Ports a switch.
        radix: u32,
        /// Hosts that fit.
        limit: u64,
        /// Hosts asked for.
        given: u64,
    },
    /// A switch that has no port left for its uplinks.
    #[error("with oversubscription {over}, a switch of radix {radix} has no port left to go up")]
    NoUplink {
        /// Ports a switch.
        radix: u32,
        /// As given.
        over: String,
    },
    /// A number that must divide another.
    #[error("{what} is {given}, which is no multiple of {limit}")]
    NotMultiple {
        /// What.
        what: String,
        /// Given.
        given: u64,
        /// The divisor.
        limit: u64,
    },
    /// Two things that a topology cannot have at once.
    #[error("{one} cannot be combined with {other}")]
    NotTogether {
        /// One.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// Sides of a torus in each rack or pod that do not make one.
    #[error("the sides of the torus make {given} nodes, but a rack or pod of this Clos has {size}")]
    WrongSides {
        /// Product of the sides.
        given: u64,
        /// Nodes of a rack or pod.
        size: u64,
    },
    /// A name that no preset has.
    #[error("there is no preset `{given}`")]
    UnknownPreset {
        /// Given.
        given: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// Several machines without network adapters.
    #[error("several hosts are to be joined, but a host has no network adapter")]
    NoNics,
    /// A network adapter whose rate is not known.
    #[error("the rate of network adapter {nic} is not known")]
    NoNicRate {
        /// Its number within a host.
        nic: usize,
    },
    /// A link between nodes that are not listed.
    #[error("link {link} names node `{given}`, which does not exist")]
    UnknownNode {
        /// `a -> b`.
        link: String,
        /// The name.
        given: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// A fault of the described nodes and links.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Ranks that cannot reach each other.
    #[error(transparent)]
    Disconnected(#[from] Cut),
}

impl BuildError {
    /// The code that `rondo explain` knows.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooFew { .. } => "T001",
            Self::TooMany { .. } => "T002",
            Self::TooLarge { .. } => "T003",
            Self::NoSides { .. } => "T004",
            Self::OddRadix { .. } => "T005",
            Self::ClosOverfull { .. } => "T006",
            Self::NoUplink { .. } => "T007",
            Self::NotMultiple { .. } => "T008",
            Self::UnknownPreset { .. } => "T009",
            Self::UnknownNode { .. } => "T010",
            Self::NoNics => "T017",
            Self::NoNicRate { .. } => "T018",
            Self::NotTogether { .. } => "T019",
            Self::WrongSides { .. } => "T020",
            Self::Topology(TopologyError::DuplicateNode { .. }) => "T011",
            Self::Topology(TopologyError::SelfLoop { .. }) => "T012",
            Self::Topology(_) => "T013",
            Self::Disconnected(_) => "T014",
        }
    }

    /// The finding without a place in a file; a frontend adds that.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let diagnostic = Diagnostic::error(self.code(), self.to_string());
        match self {
            Self::ClosOverfull { tiers, .. } if *tiers < 3 => {
                diagnostic.help("take fewer hosts, a larger `radix`, or one more of `tiers`")
            }
            Self::ClosOverfull { .. } => diagnostic.help("take fewer hosts or a larger `radix`"),
            Self::OddRadix { given } => diagnostic
                .note("half of a switch's ports go down and half go up")
                .help(format!("write for example `radix = {}`", given.saturating_add(1))),
            Self::UnknownPreset { nearest, .. } => {
                let names = super::spec::Preset::ALL.map(super::spec::Preset::name).join(", ");
                did_you_mean(diagnostic.note(format!("presets: {names}")), nearest.as_deref())
            }
            Self::UnknownNode { nearest, .. } => did_you_mean(diagnostic, nearest.as_deref()),
            Self::NoNics => {
                diagnostic.help("give their number and rate, for example `nics = 8` and `nic_bandwidth = \"400 Gbps\"`")
            }
            Self::NoNicRate { .. } => diagnostic.help("write for example `nic_bandwidth = \"400 Gbps\"`"),
            Self::NotTogether { .. } => diagnostic.help("leave one of them out"),
            Self::WrongSides { size, .. } => diagnostic.help(format!("write sides whose product is {size}")),
            Self::Disconnected(_) => diagnostic
                .note("data cannot get across, so the collective cannot finish")
                .help("add a link across the cut, mark the failed one as up, or leave out ranks of one side"),
            Self::TooFew { .. }
            | Self::TooMany { .. }
            | Self::TooLarge { .. }
            | Self::NoSides { .. }
            | Self::NoUplink { .. }
            | Self::NotMultiple { .. }
            | Self::Topology(_) => diagnostic,
        }
    }
}

fn did_you_mean(diagnostic: Diagnostic, nearest: Option<&str>) -> Diagnostic {
    match nearest {
        Some(name) => diagnostic.help(format!("did you mean `{name}`?")),
        None => diagnostic,
    }
}

/// The known name that is most like `given`, if one is like it at all.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(given, name), name))
        .filter(|(distance, name)| *distance * 3 <= name.len().max(given.len()) + 1)
        .min()
        .map(|(_, name)| name.to_owned())
}

/// The codes T001 … T020.
pub const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "T001",
        title: "a number of the topology is too small",
        explanation: "A count, a side or a radix is below the least that makes sense: a torus side of 0 has no node, \
                      a switch without ports joins nothing. The message says what was given and the least.",
    },
    CodeEntry {
        code: "T002",
        title: "a number of the topology is too large",
        explanation: "A count is above what this kind of topology can have (a Clos has at most three tiers, a host \
                      at most as many accelerators as its rack has rails). The message says what was given and the most.",
    },
    CodeEntry {
        code: "T003",
        title: "the topology is too large",
        explanation: "Generated topologies are kept link by link and end at 2^24 directed links. A mesh of n nodes has \
                      n(n-1) links, a torus of n nodes and k dimensions 2kn, a full three-tier Clos 6n.",
    },
    CodeEntry {
        code: "T004",
        title: "a torus or grid without sides",
        explanation: "Write at least one side, for example `sides = [4, 4]`.",
    },
    CodeEntry {
        code: "T005",
        title: "the radix of a Clos is odd",
        explanation: "A fat tree gives half of each switch's ports to the tier below and half to the tier above, so \
                      the radix must be even.",
    },
    CodeEntry {
        code: "T006",
        title: "more hosts than the Clos holds",
        explanation: "Without oversubscription a Clos of radix k holds k hosts in one tier, k^2/2 in two and k^3/4 in \
                      three. Take fewer hosts, a larger radix or one more tier.",
    },
    CodeEntry {
        code: "T007",
        title: "oversubscription leaves no uplink",
        explanation: "An edge switch of radix k with oversubscription x gives floor(k/(x+1)) ports to uplinks. That \
                      must be at least one.",
    },
    CodeEntry {
        code: "T008",
        title: "a number does not divide evenly",
        explanation: "Accelerators are counted in whole machines: their number must be a multiple of the accelerators \
                      a machine.",
    },
    CodeEntry {
        code: "T009",
        title: "unknown preset",
        explanation: "The presets are machines with published link rates; the message lists them.",
    },
    CodeEntry {
        code: "T010",
        title: "a link names a node that does not exist",
        explanation: "Both ends of a link must be listed as nodes. Names are compared exactly.",
    },
    CodeEntry {
        code: "T011",
        title: "two nodes of one name",
        explanation: "Node names must be unique, because links, ranks and reports refer to nodes by name.",
    },
    CodeEntry {
        code: "T012",
        title: "a link from a node to itself",
        explanation: "A link joins two different nodes; what stays within a node needs no link.",
    },
    CodeEntry {
        code: "T013",
        title: "the topology is not well formed",
        explanation: "A device, port or shared medium refers to something that does not exist, or a device lists a \
                      configuration that it cannot take.",
    },
    CodeEntry {
        code: "T014",
        title: "ranks cannot reach each other",
        explanation: "Some rank has no way to another one: not over links that are up and nodes that forward, and not \
                      by relaying through other ranks either. The message names both sides of the cut. No collective \
                      that needs data to cross it can finish.",
    },
    CodeEntry {
        code: "T015",
        title: "there is no such link",
        explanation: "A failure or a shared medium names a link that the topology does not have, or a number above that \
                      of its parallel links. Links are directed: `a -> b` is not `b -> a`. `rondo topology show` lists \
                      the nodes and links.",
    },
    CodeEntry {
        code: "T016",
        title: "a degraded link is faster than the whole one",
        explanation: "The rate that is left of a degraded link cannot be above its rate when it works.",
    },
    CodeEntry {
        code: "T017",
        title: "several hosts without network adapters",
        explanation: "Several machines are joined by their network adapters. This machine's description has none, so \
                      their number and rate must be given in the job.",
    },
    CodeEntry {
        code: "T018",
        title: "the rate of a network adapter is not known",
        explanation: "Topology files of cloud machines name network adapters without their speed (the runtime asks the \
                      driver). Give it in the job.",
    },
    CodeEntry {
        code: "T019",
        title: "two parts of a topology exclude each other",
        explanation: "A second fabric in each rack or pod (`scale_up`) joins neighbours by number. With `rail_optimized` the \
                      neighbours of a rack are not those of a number, and hosts with a switch inside already have a \
                      second fabric; leave one of the two out.",
    },
    CodeEntry {
        code: "T020",
        title: "a torus that does not fit into a rack or pod",
        explanation: "A torus inside each pod of a three-tier Clos (each rack of a smaller one) has as many nodes as the pod: \
                      radix^2/4 without oversubscription (a rack: radix/2). The product of its sides must be that number.",
    },
];
