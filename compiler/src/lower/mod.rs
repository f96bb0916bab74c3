//! Lowering: a schedule becomes a program for a runtime with FIFOs between ranks and dependencies within them.
//!
//! # Shape of the program
//! Flows between the same two ranks in one step whose slots are contiguous become one *transfer*, cut again into *pieces*
//! of at most the profile's slots an instruction, at both ends alike. A rank has one threadblock for each (peer,
//! channel, direction) and one for local work on each channel, so every end of a connection has one owner. Each
//! threadblock keeps the order of the schedule. Between threadblocks every read after write, write after read and
//! write after write is ordered by a dependency, unless others imply it.
//!
//! # A step in three phases
//! All flows of a step read the state from before it, so a rank runs a step as:
//!
//! - *A*: sends, and receives. A receive may write its destination only if nobody at this rank reads it in this step,
//!   nothing else writes it in this step, and the runtime can add an arriving value where the flow reduces. Any other
//!   receive goes to scratch: it is *staged*.
//! - *B*: local flows whose source is written in this step copy it to scratch.
//! - *C*: local flows and staged values are copied or added to their destination, in order of (source rank, source
//!   place).
//!
//! # No deadlock, at any depth from 1, for any number of slots
//! Take the events of all ranks (a piece of c slots may be run as up to c transfers at both ends) and give each the
//! number (step, phase, piece, transfer, end) with send < receive; pieces are numbered alike at both ends. Whatever
//! one event can wait for has a smaller number, in lexicographic order:
//!
//! - *program order*: operations are appended to threadblocks in this order;
//! - *dependencies*: as said above, they point to operations that were appended earlier at the same rank. Within phase A
//!   there are none: sends and direct receives of a step touch no common place, by what "staged" means;
//! - *pairing*: the k-th receive on a connection waits for the k-th send, the same piece and transfer, send < receive;
//! - *room*: the k-th send waits for the (k − depth)-th receive, an earlier transfer on the same connection, so an earlier
//!   (step, A, piece, transfer).
//!
//! So the graph of waiting has no cycle. The argument needs neither one threadblock for each direction nor a depth above 1.
//!
//! # Channels
//! If a threadblock would hold more instructions than the profile allows, the transfers of each connection go round
//! over more channels; if too many threadblocks would send on one channel, the peers are spread over channels. Both ends
//! compute the same channel. If that does not suffice, lowering fails and names the number and the limit.

mod pieces;
mod rank;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use rondo_ir::collective::{CollectiveError, CollectiveKind, Place};
use rondo_ir::diagnostic::{CodeEntry, Diagnostic};
use rondo_ir::index::{FlowId, GroupId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::profile::{Protocol, RuntimeProfile};
use rondo_ir::program::{OperationKind, Program, RankProgram};
use rondo_ir::schedule::Schedule;

use pieces::{Spread, Transfers};

/// What to lower for.
#[derive(Clone, Copy, Debug)]
pub struct LowerOptions {
    /// Limits and abilities of the runtime.
    pub profile: &'static RuntimeProfile,
    /// How it moves data; decides the FIFO depth.
    pub protocol: Protocol,
    /// Lanes over which each transfer is cut, at most one a slot; 0 and 1 leave it whole. More channels than that are
    /// used only where a limit of the profile asks for them.
    pub channels: u32,
}

impl LowerOptions {
    /// For this profile, protocol `Simple`, transfers left whole.
    #[must_use]
    pub const fn new(profile: &'static RuntimeProfile) -> Self {
        Self { profile, protocol: Protocol::Simple, channels: 0 }
    }
}

/// A program and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The program.
    pub program: Program,
    /// Its figures and warnings.
    pub report: LowerReport,
}

/// Figures of a lowered program.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LowerReport {
    /// Channels in use.
    pub channels: u32,
    /// Most threadblocks of a rank.
    pub threadblocks: usize,
    /// Most instructions of a threadblock, as a file counts them.
    pub instructions: usize,
    /// Most scratch slots of a rank that lowering added to those of the schedule.
    pub staged_slots: u32,
    /// What the runtime or the user must see to.
    pub warnings: Vec<Diagnostic>,
}

/// Why a schedule cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// Several groups at once.
    #[error("the job has {given} groups; a program runs 1")]
    Groups {
        /// Given.
        given: usize,
    },
    /// A flow from one rank to many.
    #[error("flow {flow} is a multicast; {profile} moves data between two ranks only")]
    Multicast {
        /// Which.
        flow: FlowId,
        /// For which profile.
        profile: &'static str,
    },
    /// A flow that is added on its way.
    #[error("flow {flow} is reduced inside the network; {profile} moves data between two ranks only")]
    Aggregate {
        /// Which.
        flow: FlowId,
        /// For which profile.
        profile: &'static str,
    },
    /// Blocks of different sizes.
    #[error("the size matrix has blocks of different sizes; {profile} cuts a message into equal chunks")]
    UnequalBlocks {
        /// For which profile.
        profile: &'static str,
    },
    /// A chunk count that the collective cannot have.
    #[error(transparent)]
    Layout(#[from] CollectiveError),
    /// A flow of a rank that takes no part, of a group that does not exist or over places that do not exist.
    #[error("flow {flow} names {what}, which does not exist")]
    Malformed {
        /// Which.
        flow: FlowId,
        /// `rank r9`, `r3.o[7]`, …
        what: String,
    },
    /// Too long a threadblock.
    #[error(
        "rank {rank} needs {given} instructions in a threadblock on {channels} channels; {profile} allows {limit} a \
         threadblock and {channel_limit} channels"
    )]
    Instructions {
        /// Where.
        rank: RankId,
        /// Needed.
        given: usize,
        /// With so many channels.
        channels: u32,
        /// For which profile.
        profile: &'static str,
        /// Allowed.
        limit: u32,
        /// Channels allowed.
        channel_limit: u32,
    },
    /// Too many threadblocks.
    #[error("rank {rank} needs {given} threadblocks; {profile} allows {limit}")]
    Threadblocks {
        /// Where.
        rank: RankId,
        /// Needed.
        given: usize,
        /// For which profile.
        profile: &'static str,
        /// Allowed.
        limit: u32,
    },
    /// Too many threadblocks that send or receive on one channel.
    #[error(
        "rank {rank} needs {given} threadblocks that send or receive on one of {channels} channels; {profile} allows \
         {limit} a channel and {channel_limit} channels"
    )]
    ThreadblocksOfChannel {
        /// Where.
        rank: RankId,
        /// Needed.
        given: usize,
        /// With so many channels.
        channels: u32,
        /// For which profile.
        profile: &'static str,
        /// Allowed.
        limit: u32,
        /// Channels allowed.
        channel_limit: u32,
    },
    /// More lanes than channels.
    #[error("{given} channels were asked for; {profile} allows {limit}")]
    Channels {
        /// Asked for.
        given: u32,
        /// For which profile.
        profile: &'static str,
        /// Allowed.
        limit: u32,
    },
    /// Too many threadblocks that others wait for.
    #[error("rank {rank} has {given} threadblocks that others wait for; {profile} can wait for {limit}")]
    Waitable {
        /// Where.
        rank: RankId,
        /// Needed.
        given: usize,
        /// For which profile.
        profile: &'static str,
        /// Allowed.
        limit: u32,
    },
    /// Too large a file for the runtime's reader.
    #[error("rank {rank} loads {given} XML elements; {profile} reads {limit}")]
    XmlNodes {
        /// Where.
        rank: RankId,
        /// Needed.
        given: usize,
        /// For which profile.
        profile: &'static str,
        /// Allowed.
        limit: u32,
    },
    /// Too many children of one element.
    #[error("{what} has {given} children; {profile} reads {limit}")]
    XmlChildren {
        /// Which element.
        what: String,
        /// Needed.
        given: usize,
        /// For which profile.
        profile: &'static str,
        /// Allowed.
        limit: u32,
    },
    /// More scratch than a place can number.
    #[error("rank {rank} needs {given} scratch slots; at most {limit} can be numbered")]
    Scratch {
        /// Where.
        rank: RankId,
        /// Needed.
        given: u64,
        /// Limit.
        limit: u32,
    },
}

impl LowerError {
    /// Its code in the registry.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Groups { .. } => "P001",
            Self::Multicast { .. } | Self::Aggregate { .. } => "P002",
            Self::UnequalBlocks { .. } => "P003",
            Self::Layout(_) | Self::Malformed { .. } | Self::Scratch { .. } => "P004",
            Self::Instructions { .. }
            | Self::Threadblocks { .. }
            | Self::ThreadblocksOfChannel { .. }
            | Self::Channels { .. }
            | Self::Waitable { .. }
            | Self::XmlNodes { .. }
            | Self::XmlChildren { .. } => "P005",
        }
    }

    /// As a finding for a person, with what to do.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let diagnostic = Diagnostic::error(self.code(), self.to_string());
        match self {
            Self::Groups { .. } => diagnostic.help("export each group from a job of its own"),
            Self::Multicast { .. } | Self::Aggregate { .. } => {
                diagnostic.help("choose an algorithm without in-network copies and sums, or export the plan as JSON")
            }
            Self::UnequalBlocks { .. } => {
                diagnostic.help("export the plan as JSON, or give all blocks the size of the largest")
            }
            Self::Layout(_) | Self::Malformed { .. } | Self::Scratch { .. } => {
                diagnostic.help("`rondo verify` names what is wrong with the schedule")
            }
            Self::Instructions { .. } | Self::XmlNodes { .. } | Self::XmlChildren { .. } => diagnostic
                .note("a runtime ignores a file above its limits, or stops at it")
                .help("choose an algorithm with fewer steps, fewer chunks, or a runtime with higher limits")
                .help("format `msccl-xml:unlimited` (`--emit msccl-xml:unlimited=FILE`) writes the file all the same; no runtime loads it"),
            Self::Threadblocks { .. } | Self::ThreadblocksOfChannel { .. } | Self::Waitable { .. } => diagnostic
                .note("all threadblocks of a rank run at once, so there can be no more than the device holds")
                .help("choose an algorithm with fewer peers a rank, fewer channels, or a runtime with higher limits")
                .help("format `msccl-xml:unlimited` (`--emit msccl-xml:unlimited=FILE`) writes the file all the same; no runtime loads it"),
            Self::Channels { limit, .. } => diagnostic.help(format!("ask for at most {limit} channels")),
        }
    }
}

/// The codes of this module.
pub const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "P001",
        title: "a program runs one group",
        explanation: "The job has several groups, each with a collective of its own. A program for a FIFO runtime is one \
                      collective call of one communicator. Export each group from a job of its own.",
    },
    CodeEntry {
        code: "P002",
        title: "the runtime has no in-network operations",
        explanation: "The schedule copies (multicast) or adds (aggregation) data inside the network. FIFO runtimes only \
                      send from one rank to another. Choose another algorithm, or a format that carries such flows.",
    },
    CodeEntry {
        code: "P003",
        title: "the runtime needs blocks of equal size",
        explanation: "The runtime cuts a message into equal chunks and knows no size for a single pair of ranks. A \
                      size matrix with different entries cannot be expressed.",
    },
    CodeEntry {
        code: "P004",
        title: "the schedule cannot be lowered because it is not well formed",
        explanation: "A flow names a rank, group or place that does not exist, or the chunk count is outside what the \
                      collective can have. `rondo verify` says more.",
    },
    CodeEntry {
        code: "P005",
        title: "the program does not fit the runtime",
        explanation: "The runtime's limits (instructions a threadblock, threadblocks a rank and a channel, channels, \
                      threadblocks that others may wait for, XML elements) are those of its public sources. Lowering \
                      spreads the steps over channels first; the message gives what would be needed and what is \
                      allowed. Fewer chunks, fewer peers or fewer steps help, and so may another runtime.",
    },
    CodeEntry {
        code: "P006",
        title: "the runtime must do something that the program cannot say",
        explanation: "A program for a FIFO runtime does not hold circuits. Where the schedule changes circuits between \
                      steps, whoever drives the switch must change them at the right time.",
    },
    CodeEntry {
        code: "P007",
        title: "an ordering that this runtime may not keep under LL",
        explanation: "With protocols LL and LL128, RCCL does not promise that all threads have read a send's source \
                      when it publishes the send's progress (by reading of its public sources). The program overwrites a \
                      place after such a send. Protocol Simple is safe.",
    },
];

/// Lowers a schedule with one group to a program for the runtime; see the module's page.
///
/// The schedule is taken to be verified; a malformed one is refused, a wrong one becomes a wrong program.
///
/// # Errors
/// [`LowerError`]: what the runtime cannot express, and which limit is passed by how much.
pub fn lower(problem: &Problem, schedule: &Schedule, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let LowerOptions { profile, protocol: _, channels } = *options;
    if problem.groups().len() != 1 || schedule.chunks.len() != 1 {
        return Err(LowerError::Groups { given: problem.groups().len().max(schedule.chunks.len()) });
    }
    let group = GroupId::new(0);
    let collective = problem.group(group).collective();
    if let CollectiveKind::AllToAll { matrix: Some(matrix) } = collective.kind() {
        let mut sizes = matrix.iter().flatten();
        let first = sizes.next();
        if sizes.any(|size| Some(size) != first) {
            return Err(LowerError::UnequalBlocks { profile: profile.name });
        }
    }
    let layout = problem.layout(group, schedule.chunks[0])?;
    let channel_limit = profile.channels.unwrap_or(u32::MAX);
    let lanes = channels.max(1);
    if channel_limit < lanes {
        return Err(LowerError::Channels { given: lanes, profile: profile.name, limit: channel_limit });
    }

    let transfers = Transfers::collect(problem, schedule, profile.name)?;
    let mut spread = Spread { rounds: 1, peer_classes: 1, lanes };
    loop {
        let pieces = transfers.cut(spread, profile.count.unwrap_or(u32::MAX));
        let ranks: Vec<_> = (0..collective.ranks())
            .into_par_iter()
            .map(|position| rank::lower_rank(layout, schedule, &pieces, position, profile))
            .collect::<Result<_, _>>()?;
        let Some(wider) = fit(spread, &ranks, problem, profile, pieces.channels())? else {
            return Ok(finish(problem, schedule, options, ranks, pieces.channels()));
        };
        spread = wider;
    }
}

/// `None` if all ranks are within the limits, else a spread over more channels to try next.
fn fit(
    spread: Spread,
    ranks: &[rank::Lowered],
    problem: &Problem,
    profile: &'static RuntimeProfile,
    used: u32,
) -> Result<Option<Spread>, LowerError> {
    let channel_limit = profile.channels.unwrap_or(u32::MAX);
    let group = problem.group(GroupId::new(0));
    let at = |position: usize| group.ranks()[position];
    let worst = |figure: fn(&rank::Lowered) -> usize| {
        ranks.iter().enumerate().map(|(r, rank)| (figure(rank), std::cmp::Reverse(r))).max().map(|(n, r)| (n, at(r.0)))
    };
    let over = |figure, limit: Option<u32>| {
        let (given, rank) = worst(figure)?;
        limit.filter(|&limit| (limit as usize) < given).map(|limit| (rank, given, limit))
    };
    // More channels never lower the number of threadblocks, so this one is final.
    if let Some((rank, given, limit)) = over(|r| r.program.threadblocks.len(), profile.threadblocks) {
        return Err(LowerError::Threadblocks { rank, given, profile: profile.name, limit });
    }
    let times = |factor: u32, given: usize, limit: u32| -> u32 {
        let grown = (factor as usize * given).div_ceil((limit as usize).max(1));
        u32::try_from(grown).unwrap_or(u32::MAX).max(factor + 1)
    };
    if let Some((rank, given, limit)) = over(|r| r.threadblocks_per_channel, profile.threadblocks_per_channel) {
        let wider = Spread { peer_classes: times(spread.peer_classes, given, limit), ..spread };
        if u64::from(channel_limit) < wider.channels() {
            return Err(LowerError::ThreadblocksOfChannel {
                rank,
                given,
                channels: used,
                profile: profile.name,
                limit,
                channel_limit,
            });
        }
        return Ok(Some(wider));
    }
    if let Some((rank, given, limit)) = over(|r| r.instructions, profile.instructions) {
        // Estimates overshoot where one step alone fills a threadblock, so approach the limit by small steps at its end.
        let grown = times(spread.rounds, given, limit);
        let most = u64::from(channel_limit) / (spread.channels() / u64::from(spread.rounds));
        let rounds = u64::from(grown).min(most);
        if rounds <= u64::from(spread.rounds) {
            return Err(LowerError::Instructions {
                rank,
                given,
                channels: used,
                profile: profile.name,
                limit,
                channel_limit,
            });
        }
        return Ok(Some(Spread { rounds: u32::try_from(rounds).unwrap_or(u32::MAX), ..spread }));
    }
    if let Some((rank, given, limit)) = over(|r| r.waited_for, profile.waitable_threadblock.map(|last| last + 1)) {
        return Err(LowerError::Waitable { rank, given, profile: profile.name, limit });
    }
    let nodes = |rank: &rank::Lowered| rank.program.threadblocks.len() + rank.total_instructions;
    if let Some((given, rank)) = worst(nodes)
        && let Some(limit) = profile.xml_nodes
        && (limit as usize) < given + ranks.len() + 1
    {
        return Err(LowerError::XmlNodes { rank, given: given + ranks.len() + 1, profile: profile.name, limit });
    }
    if let Some(limit) = profile.xml_children {
        let children = |what: String, given: usize| {
            if given <= limit as usize {
                Ok(())
            } else {
                Err(LowerError::XmlChildren { what, given, profile: profile.name, limit })
            }
        };
        children("the file's `algo`".to_owned(), ranks.len())?;
        if let Some((given, rank)) = worst(|r| r.program.threadblocks.len()) {
            children(format!("the `gpu` of rank {rank}"), given)?;
        }
        if let Some((given, rank)) = worst(|r| r.instructions) {
            children(format!("a `tb` of rank {rank}"), given)?;
        }
    }
    Ok(None)
}

fn finish(
    problem: &Problem,
    schedule: &Schedule,
    options: &LowerOptions,
    ranks: Vec<rank::Lowered>,
    channels: u32,
) -> Lowered {
    let mut warnings = Vec::new();
    let changes: Vec<_> =
        schedule.steps.iter().enumerate().filter(|(_, s)| !s.reconfigure.is_empty()).map(|(i, _)| i).collect();
    if let Some(first) = changes.first() {
        let text = format!("the schedule changes circuits before {} of its steps; the program cannot", changes.len());
        warnings.push(
            Diagnostic::warning("P006", text)
                .note(format!("the first change is before step s{first}"))
                .help("let the controller of the switch change the circuits between the steps"),
        );
    }
    if options.protocol != Protocol::Simple
        && options.profile.name == RuntimeProfile::RCCL.name
        && let Some(position) = ranks.iter().position(|rank| waits_for_a_send(&rank.program))
    {
        let rank = problem.group(GroupId::new(0)).ranks()[position];
        let text = format!("rank {rank} overwrites a place after a send with {}", options.protocol.name());
        warnings.push(
            Diagnostic::warning("P007", text)
                .note("RCCL may publish such a send before all threads have read its source")
                .help("use protocol Simple"),
        );
    }
    let most = |figure: fn(&rank::Lowered) -> usize| ranks.iter().map(figure).max().unwrap_or(0);
    let report = LowerReport {
        channels,
        threadblocks: most(|r| r.program.threadblocks.len()),
        instructions: most(|r| r.instructions),
        staged_slots: ranks.iter().map(|r| r.staged_slots).max().unwrap_or(0),
        warnings,
    };
    let program = Program {
        name: schedule.algorithm.clone(),
        chunks: schedule.chunks[0],
        fifo_depth: options.protocol.fifo_depth(),
        ranks: ranks.into_iter().map(|rank| rank.program).collect(),
    };
    Lowered { program, report }
}

fn waits_for_a_send(rank: &RankProgram) -> bool {
    rank.threadblocks
        .iter()
        .flat_map(|tb| &tb.operations)
        .filter(|op| op.publishes)
        .any(|op| matches!(op.kind, OperationKind::Move { send: Some(_), .. }))
}

/// `r3.o[7]` for a place of the schedule, for messages.
fn place_name(rank: RankId, place: Place) -> String {
    format!("{rank}.{place}")
}
