//! A program as MSCCL XML.

use rondo_ir::collective::{Buffer, Collective, CollectiveError, CollectiveKind, Layout, Place, ReduceOperator};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;
use rondo_ir::profile::{Protocol, RuntimeProfile, SizeEnd};
use rondo_ir::program::{Connection, Operation, OperationKind, OperationRef, Program, Threadblock};

/// How to write the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// For which runtime.
    pub profile: &'static RuntimeProfile,
    /// How it moves data.
    pub protocol: Protocol,
    /// Smallest message, in bytes of [`Collective::buffer_size`].
    pub min_bytes: u64,
    /// Largest message, itself included; `None` for no limit.
    pub max_bytes: Option<u64>,
    /// Free text; characters that the reader of the runtime does not take become `_`.
    pub name: String,
    /// Whether in-place calls may use the file.
    pub in_place: bool,
    /// Whether out-of-place calls may use the file.
    pub out_of_place: bool,
}

impl Options {
    /// For this profile and protocol, every size, in or out of place as the collective says.
    #[must_use]
    pub fn new(profile: &'static RuntimeProfile, protocol: Protocol, collective: &Collective) -> Self {
        Self {
            profile,
            protocol,
            min_bytes: 0,
            max_bytes: None,
            name: collective.kind().name().to_owned(),
            in_place: collective.in_place(),
            out_of_place: !collective.in_place(),
        }
    }
}

/// A written file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The file.
    pub text: String,
    /// What its user has to know.
    pub warnings: Vec<Diagnostic>,
}

/// Why a program cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// A collective that no runtime has.
    #[error("MSCCL XML has no {kind}")]
    Kind {
        /// Which.
        kind: &'static str,
    },
    /// An operator that never selects a file.
    #[error("no runtime uses a file for {operator}; files are used for sum, prod, min and max")]
    Operator {
        /// Which.
        operator: ReduceOperator,
    },
    /// Calls that the file is for.
    #[error("{problem}")]
    Calls {
        /// What does not fit.
        problem: &'static str,
    },
    /// The program is not one for the collective.
    #[error("the program has {given} ranks, the collective {limit}")]
    Ranks {
        /// Of the program.
        given: usize,
        /// Of the collective.
        limit: u32,
    },
    /// A chunk count that the collective cannot have.
    #[error(transparent)]
    Layout(#[from] CollectiveError),
    /// A size range that cannot be written.
    #[error("{problem}")]
    Sizes {
        /// What does not fit.
        problem: String,
    },
    /// An operation without a counterpart.
    #[error("rank {rank}, threadblock {threadblock}, operation {operation}: {problem}")]
    Operation {
        /// Rank.
        rank: RankId,
        /// Threadblock.
        threadblock: u32,
        /// Operation.
        operation: usize,
        /// What does not fit.
        problem: String,
    },
    /// A limit of the runtime.
    #[error("{what} has {given} {things}; {profile} allows {limit}")]
    Limit {
        /// Which element.
        what: String,
        /// Given.
        given: usize,
        /// Of what.
        things: &'static str,
        /// Which runtime.
        profile: &'static str,
        /// Allowed.
        limit: u32,
    },
}

impl EmitError {
    /// Its code in the registry.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Kind { .. } | Self::Operator { .. } | Self::Calls { .. } => "B001",
            Self::Ranks { .. } | Self::Layout(_) | Self::Operation { .. } => "B002",
            Self::Limit { .. } => "B003",
            Self::Sizes { .. } => "B004",
        }
    }

    /// As a finding for a person, with what to do.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let diagnostic = Diagnostic::error(self.code(), self.to_string());
        match self {
            Self::Kind { .. } => diagnostic
                .note("it has all_reduce, all_gather, reduce_scatter, all_to_all, broadcast and reduce")
                .help("export the plan with `--to json`"),
            Self::Operator { .. } => diagnostic.help("compile for `operator = \"sum\"` and scale the result"),
            Self::Calls { .. } => diagnostic.help("set `in_place` and `out_of_place` in `[export]` accordingly"),
            Self::Ranks { .. } | Self::Layout(_) | Self::Operation { .. } => {
                diagnostic.help("lower the schedule for the runtime that the file is for")
            }
            Self::Sizes { .. } => diagnostic.help("give a size or a range, as in `size = \"1 KiB..1 GiB\"`"),
            Self::Limit { .. } => diagnostic.help("lower the schedule for the runtime that the file is for"),
        }
    }
}

/// Writes the program as a file for one runtime.
///
/// The text depends on nothing but the arguments. `nchunksperloop` and the chunks of the buffers are those of the
/// collective at `program.chunks` chunks a block.
///
/// # Errors
/// [`EmitError`]: what the format or the runtime does not have, and which limit is passed by how much.
pub fn emit(collective: &Collective, program: &Program, options: &Options) -> Result<Emitted, EmitError> {
    let profile = options.profile;
    let n = collective.ranks();
    if program.ranks.len() != n as usize {
        return Err(EmitError::Ranks { given: program.ranks.len(), limit: n });
    }
    let layout = collective.layout(program.chunks)?;
    let coll = collective_name(collective, profile)?;
    check_calls(collective, options)?;
    let scratch = program.ranks.iter().any(|rank| 0 < rank.scratch_slots);
    let max_bytes = largest_size(options, scratch)?;
    let total = (0..n).map(|r| layout.slots(r, Buffer::Input).max(layout.slots(r, Buffer::Output))).max().unwrap_or(0);

    let limit = |what: &dyn Fn() -> String, given: usize, things, limit: Option<u32>| match limit {
        Some(limit) if (limit as usize) < given => {
            Err(EmitError::Limit { what: what(), given, things, profile: profile.name, limit })
        }
        _ => Ok(()),
    };
    let mut files = Vec::with_capacity(program.ranks.len());
    let mut channels = 1;
    for (r, rank) in program.ranks.iter().enumerate() {
        let id = RankId::new(r);
        let name = || format!("rank {id}");
        limit(&name, rank.threadblocks.len(), "threadblocks", profile.threadblocks)?;
        limit(&name, rank.threadblocks.len(), "XML children", profile.xml_children)?;
        let mut blocks = Vec::with_capacity(rank.threadblocks.len());
        let mut nodes = 1 + program.ranks.len();
        for (t, tb) in rank.threadblocks.iter().enumerate() {
            let block = Block::of(id, tb)?;
            let name = || format!("threadblock {t} of rank {id}");
            limit(&name, block.instructions as usize, "instructions", profile.instructions)?;
            limit(&name, block.instructions as usize, "XML children", profile.xml_children)?;
            nodes += 1 + block.instructions as usize;
            channels = channels.max(block.channel().saturating_add(1));
            blocks.push(block);
        }
        limit(&name, nodes, "XML elements to load", profile.xml_nodes)?;
        check_ends(id, &blocks, profile)?;
        files.push(blocks);
    }
    limit(&|| "the file".to_owned(), program.ranks.len(), "XML children", profile.xml_children)?;
    limit(&|| "the file".to_owned(), channels as usize, "channels", profile.channels)?;

    let operations = program.operation_count();
    let mut out = Writer { out: Vec::with_capacity(operations * 128 + program.ranks.len() * 256 + 512) };
    if !profile.loadable {
        out.text("<!-- no runtime loads this file: it was written without limits -->\n");
    }
    out.text("<algo name=\"");
    out.text(&file_name(&options.name, coll));
    out.text("\" proto=\"");
    out.text(options.protocol.name());
    out.attribute("\" nchannels=\"", channels);
    out.attribute("\" nchunksperloop=\"", total);
    out.attribute("\" ngpus=\"", n);
    out.text("\" coll=\"");
    out.text(coll);
    out.attribute("\" inplace=\"", u32::from(options.in_place));
    out.attribute("\" outofplace=\"", u32::from(options.out_of_place));
    out.attribute("\" minBytes=\"", options.min_bytes);
    out.attribute("\" maxBytes=\"", max_bytes);
    out.text("\">\n");
    for (r, (rank, blocks)) in program.ranks.iter().zip(&files).enumerate() {
        let position = u32::try_from(r).unwrap_or(u32::MAX);
        let chunks = chunks_of(layout, position, options);
        out.attribute("  <gpu id=\"", position);
        out.attribute("\" i_chunks=\"", chunks[0]);
        out.attribute("\" o_chunks=\"", chunks[1]);
        out.attribute("\" s_chunks=\"", rank.scratch_slots);
        out.text("\">\n");
        for (t, (tb, block)) in rank.threadblocks.iter().zip(blocks).enumerate() {
            out.attribute("    <tb id=\"", u32::try_from(t).unwrap_or(u32::MAX));
            out.peer("\" send=\"", block.send);
            out.peer("\" recv=\"", block.receive);
            out.attribute("\" chan=\"", block.channel());
            out.text("\">\n");
            let mut position = 0;
            for (o, operation) in tb.operations.iter().enumerate() {
                let fault = |problem: String| EmitError::Operation {
                    rank: RankId::new(r),
                    threadblock: u32::try_from(t).unwrap_or(u32::MAX),
                    operation: o,
                    problem,
                };
                let next = tb.operations.get(o + 1);
                out.operation(operation, next, blocks, chunks, rank.scratch_slots, profile, &mut position)
                    .map_err(fault)?;
            }
            out.text("    </tb>\n");
        }
        out.text("  </gpu>\n");
    }
    out.text("</algo>\n");
    let text = String::from_utf8(out.out).expect("only text was written");
    Ok(Emitted { text, warnings: warnings(collective, options, total) })
}

fn collective_name(collective: &Collective, profile: &RuntimeProfile) -> Result<&'static str, EmitError> {
    if collective.kind().reduces() && collective.operator() == ReduceOperator::Avg {
        return Err(EmitError::Operator { operator: ReduceOperator::Avg });
    }
    match collective.kind() {
        CollectiveKind::AllReduce => Ok("allreduce"),
        CollectiveKind::AllGather => Ok("allgather"),
        CollectiveKind::ReduceScatter => Ok(profile.reduce_scatter_name),
        CollectiveKind::AllToAll { .. } => Ok("alltoall"),
        CollectiveKind::Broadcast { .. } => Ok("broadcast"),
        CollectiveKind::Reduce { .. } => Ok("reduce"),
        kind @ (CollectiveKind::Gather { .. }
        | CollectiveKind::Scatter { .. }
        | CollectiveKind::SendReceive { .. }
        | CollectiveKind::Custom(_)) => Err(EmitError::Kind { kind: kind.name() }),
    }
}

fn check_calls(collective: &Collective, options: &Options) -> Result<(), EmitError> {
    let all_to_all = matches!(collective.kind(), CollectiveKind::AllToAll { .. });
    let problem = if !options.in_place && !options.out_of_place {
        "a file for neither in-place nor out-of-place calls is never used"
    } else if options.in_place && all_to_all && !options.profile.in_place_all_to_all {
        "this runtime does not take in-place all_to_all"
    } else if options.in_place
        && options.out_of_place
        && !options.profile.all_attributes_mandatory
        && options.profile.loadable
    {
        "this runtime uses a file for in-place calls or for out-of-place calls, not for both"
    } else {
        return Ok(());
    };
    Err(EmitError::Calls { problem })
}

/// `maxBytes` in the convention of the runtime.
fn largest_size(options: &Options, scratch: bool) -> Result<u64, EmitError> {
    let fault = |problem: String| Err(EmitError::Sizes { problem });
    const MOST: u64 = i64::MAX as u64;
    let Some(max) = options.max_bytes else {
        return match options.profile.size_end {
            SizeEnd::InclusiveZeroUnlimited => Ok(0),
            SizeEnd::Exclusive if scratch && options.profile.loadable => fault(format!(
                "{} allocates scratch memory for the largest message when it starts, and none is given",
                options.profile.name
            )),
            SizeEnd::Exclusive => Ok(MOST),
        };
    };
    if max < options.min_bytes {
        return fault(format!("the smallest message has {} bytes, the largest {max}", options.min_bytes));
    }
    let written = match options.profile.size_end {
        SizeEnd::Exclusive => max.saturating_add(1),
        // 0 would mean "no limit"; a message of 0 bytes never comes to a selector.
        SizeEnd::InclusiveZeroUnlimited => max.max(1),
    };
    if MOST < written {
        fault(format!("the largest message has {max} bytes; at most {} can be written", MOST - 1))
    } else {
        Ok(written)
    }
}

/// Chunks of the input and output buffers, as declared.
fn chunks_of(layout: Layout<'_>, position: u32, options: &Options) -> [u32; 2] {
    let (input, output) = (layout.slots(position, Buffer::Input), layout.slots(position, Buffer::Output));
    match layout.collective().kind() {
        // In place the one buffer exists at every rank, under both names.
        CollectiveKind::Broadcast { .. } | CollectiveKind::Reduce { .. } if options.in_place => {
            let both = input.max(output);
            [both, both]
        }
        _ => [input, output],
    }
}

fn warnings(collective: &Collective, options: &Options, total: u32) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    if let CollectiveKind::Broadcast { root } | CollectiveKind::Reduce { root } = collective.kind() {
        let kind = collective.kind().name();
        warnings.push(
            Diagnostic::warning("B005", format!("the file does {kind} with root {root}, and is used for every root"))
                .note(format!("no runtime compares the root: a {kind} with another root gives a wrong result"))
                .help("use it only where the root never changes"),
        );
    }
    let serves_own_size = collective.elements().is_multiple_of(u64::from(total.max(1)));
    if !serves_own_size || (1 < total && options.max_bytes != Some(options.min_bytes)) {
        let multiple = u64::from(total) * collective.dtype().bytes();
        let message = format!("the runtime uses the file only for multiples of {multiple} bytes ({total} chunks)");
        let mut found = Diagnostic::warning("B006", message);
        if serves_own_size {
            found.severity = rondo_ir::diagnostic::Severity::Note;
        } else {
            let below = collective.buffer_size().0 / multiple * multiple;
            found = found
                .note(format!(
                    "{} is none, so such calls fall back to the runtime's own algorithm",
                    collective.buffer_size()
                ))
                .help(format!(
                    "the nearest sizes are {below} and {} bytes; or ask for another number of chunks",
                    below + multiple
                ));
        }
        warnings.push(found);
    }
    warnings
}

/// The name, with what the reader of the runtime does not take replaced.
fn file_name(name: &str, coll: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.+,:/() ".contains(c) { c } else { '_' };
    let mut name: String = name.chars().map(plain).take(63).collect();
    // msccl runs code of its own for an alltoall of this name, whatever the instructions say.
    if name.is_empty() || (name == "2D" && coll == "alltoall") {
        name.push_str(coll);
    }
    name
}

/// What a `<tb>` says about itself.
struct Block {
    send: Option<Connection>,
    receive: Option<Connection>,
    instructions: u32,
    /// Per operation, the position of its last instruction.
    positions: Vec<u32>,
    publishes: Vec<bool>,
}

impl Block {
    fn of(rank: RankId, tb: &Threadblock) -> Result<Self, EmitError> {
        let mut block = Self {
            send: None,
            receive: None,
            instructions: 0,
            positions: Vec::with_capacity(tb.operations.len()),
            publishes: Vec::with_capacity(tb.operations.len()),
        };
        for (index, operation) in tb.operations.iter().enumerate() {
            let fault = |problem: &str| {
                Err(EmitError::Operation { rank, threadblock: tb.id, operation: index, problem: problem.to_owned() })
            };
            if let OperationKind::Move { receive, send, .. } = &operation.kind {
                for (end, here) in [(&mut block.receive, receive), (&mut block.send, send)] {
                    let Some(here) = here else { continue };
                    if here.peer == rank {
                        return fault("the peer is the own rank");
                    }
                    if *end.get_or_insert(*here) != *here {
                        return fault("a threadblock has one peer to send to and one to receive from");
                    }
                }
                if let (Some(receive), Some(send)) = (block.receive, block.send)
                    && receive.channel != send.channel
                {
                    return fault("a threadblock has one channel");
                }
            }
            let count = u32::try_from(operation.instruction_count()).unwrap_or(u32::MAX);
            block.instructions = block.instructions.saturating_add(count);
            block.positions.push(block.instructions - 1);
            block.publishes.push(operation.publishes);
        }
        Ok(block)
    }

    fn channel(&self) -> u32 {
        self.send.or(self.receive).map_or(0, |connection| connection.channel)
    }
}

/// One owner for each end of a connection, and not too many ends on a channel.
fn check_ends(rank: RankId, blocks: &[Block], profile: &RuntimeProfile) -> Result<(), EmitError> {
    for (end, direction) in [(0, "send"), (1, "receive")] {
        let mut ends: Vec<(u32, RankId)> = blocks
            .iter()
            .filter_map(|block| if end == 0 { block.send } else { block.receive })
            .map(|connection| (connection.channel, connection.peer))
            .collect();
        ends.sort_unstable();
        if let Some(pair) = ends.windows(2).find(|pair| pair[0] == pair[1]) {
            let threadblock = u32::try_from(
                blocks
                    .iter()
                    .rposition(|block| {
                        let connection = if end == 0 { block.send } else { block.receive };
                        connection.is_some_and(|c| (c.channel, c.peer) == pair[0])
                    })
                    .unwrap_or(0),
            )
            .unwrap_or(u32::MAX);
            let problem = format!("two threadblocks {direction} with {} on channel {}", pair[0].1, pair[0].0);
            return Err(EmitError::Operation { rank, threadblock, operation: 0, problem });
        }
        let most = ends.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0);
        if let Some(limit) = profile.threadblocks_per_channel
            && (limit as usize) < most
        {
            return Err(EmitError::Limit {
                what: format!("rank {rank}"),
                given: most,
                things: if end == 0 {
                    "threadblocks that send on one channel"
                } else {
                    "threadblocks that receive on one channel"
                },
                profile: profile.name,
                limit,
            });
        }
    }
    Ok(())
}

struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[at..]);
    }

    fn attribute(&mut self, before: &str, number: impl Into<u64>) {
        self.text(before);
        self.number(number.into());
    }

    fn peer(&mut self, before: &str, connection: Option<Connection>) {
        self.text(before);
        match connection {
            Some(connection) => self.number(u64::from(connection.peer.number())),
            None => self.text("-1"),
        }
    }

    /// One `<step>`; `waits` is (threadblock, position).
    fn step(
        &mut self,
        position: &mut u32,
        kind: &str,
        places: Option<(Place, Place)>,
        count: u32,
        waits: Option<(u32, u32)>,
        publishes: bool,
    ) {
        self.attribute("      <step s=\"", *position);
        *position += 1;
        self.text("\" type=\"");
        self.text(kind);
        if let Some((src, dst)) = places {
            self.text("\" srcbuf=\"");
            self.out.push(src.buffer().letter() as u8);
            self.attribute("\" srcoff=\"", src.slot());
            self.text("\" dstbuf=\"");
            self.out.push(dst.buffer().letter() as u8);
            self.attribute("\" dstoff=\"", dst.slot());
        } else {
            self.text("\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"o\" dstoff=\"-1");
        }
        self.attribute("\" cnt=\"", count);
        match waits {
            Some((threadblock, position)) => {
                self.attribute("\" depid=\"", threadblock);
                self.attribute("\" deps=\"", position);
            }
            None => self.text("\" depid=\"-1\" deps=\"-1"),
        }
        self.text(if publishes { "\" hasdep=\"1\"/>\n" } else { "\" hasdep=\"0\"/>\n" });
    }

    /// An operation as one instruction or, with several dependencies or sources, several.
    #[allow(clippy::too_many_arguments)]
    fn operation(
        &mut self,
        operation: &Operation,
        next: Option<&Operation>,
        blocks: &[Block],
        chunks: [u32; 2],
        scratch: u32,
        profile: &RuntimeProfile,
        position: &mut u32,
    ) -> Result<(), String> {
        let target = |wait: &OperationRef| -> Result<(u32, u32), String> {
            let missing = || {
                format!(
                    "it waits for threadblock {}, operation {}, which does not exist",
                    wait.threadblock, wait.operation
                )
            };
            let block = blocks.get(wait.threadblock as usize).ok_or_else(missing)?;
            let at = wait.operation as usize;
            let position = *block.positions.get(at).ok_or_else(missing)?;
            if !block.publishes[at..].contains(&true) {
                return Err(format!(
                    "it waits for threadblock {}, which never publishes that it is so far",
                    wait.threadblock
                ));
            }
            if profile.waitable_threadblock.is_some_and(|last| last < wait.threadblock) {
                return Err(format!(
                    "it waits for threadblock {}; {} can wait for ids up to {}",
                    wait.threadblock,
                    profile.name,
                    profile.waitable_threadblock.unwrap_or(0)
                ));
            }
            Ok((wait.threadblock, position))
        };
        let check = |place: Place, count: u32| {
            let limit = match place.buffer() {
                Buffer::Input => chunks[0],
                Buffer::Output => chunks[1],
                Buffer::Scratch => scratch,
            };
            let end = u64::from(place.slot()) + u64::from(count);
            if end <= u64::from(limit) {
                Ok(())
            } else {
                Err(format!("{} slots from {place} on end at {end}; the buffer has {limit}", count))
            }
        };
        let counted = |count: u32| match profile.count {
            Some(limit) if limit < count => {
                Err(format!("it moves {count} slots at once; {} allows {limit}", profile.name))
            }
            _ if count == 0 => Err("it moves 0 slots".to_owned()),
            _ => Ok(()),
        };
        let last_wait = match operation.waits_for.split_last() {
            Some((last, others)) => {
                for wait in others {
                    let wait = target(wait)?;
                    self.step(position, "nop", None, 0, Some(wait), false);
                }
                Some(target(last)?)
            }
            None => None,
        };
        match &operation.kind {
            OperationKind::Move { receive, local, store, send, count } => {
                let (kind, src, dst, fused) = match (receive.is_some(), *local, *store, send.is_some()) {
                    (false, Some(local), None, true) => ("s", local, local, false),
                    (true, None, Some(store), false) => ("r", store, store, false),
                    (false, Some(local), Some(store), false) => ("cpy", local, store, false),
                    (true, None, Some(store), true) => ("rcs", store, store, true),
                    (true, Some(local), None, true) => ("rrs", local, local, true),
                    (true, Some(local), Some(store), false) => ("rrc", local, store, true),
                    (true, Some(local), Some(store), true) => ("rrcs", local, store, true),
                    _ => return Err("no instruction moves data this way".to_owned()),
                };
                if fused && !profile.fused_receives {
                    return Err(format!("{} refuses to run `{kind}`", profile.name));
                }
                counted(*count)?;
                check(src, *count)?;
                check(dst, *count)?;
                self.step(position, kind, Some((src, dst)), *count, last_wait, operation.publishes);
            }
            OperationKind::Reduce { sources, dst, count } => {
                counted(*count)?;
                check(*dst, *count)?;
                if sources.is_empty() {
                    return Err("it has no source".to_owned());
                }
                for (index, &source) in sources.iter().enumerate() {
                    check(source, *count)?;
                    let last = index + 1 == sources.len();
                    let wait = if index == 0 { last_wait } else { None };
                    self.step(position, "re", Some((source, *dst)), *count, wait, operation.publishes && last);
                }
                check_fusion(sources, *dst, *count, operation.publishes, next)?;
            }
            OperationKind::Nop => {
                return Err(
                    "a `nop` only carries dependencies of the operation after it; give them to that one".to_owned()
                );
            }
            OperationKind::Put { .. }
            | OperationKind::Get { .. }
            | OperationKind::Signal { .. }
            | OperationKind::Wait { .. }
            | OperationKind::Barrier { .. }
            | OperationKind::Loop { .. } => {
                return Err(
                    "the format has no such operation; it has sends, receives, copies and reductions".to_owned()
                );
            }
        }
        Ok(())
    }
}

/// The runtime joins consecutive `re`; what it makes of them must be what the program says.
fn check_fusion(
    sources: &[Place],
    dst: Place,
    count: u32,
    publishes: bool,
    next: Option<&Operation>,
) -> Result<(), String> {
    let overlaps = |source: &Place| source.buffer() == dst.buffer() && source.slot().abs_diff(dst.slot()) < count;
    // Sources from different buffers are not joined: done one after the other, a later one must not be overwritten.
    let joined = sources.iter().all(|source| source.buffer() == sources[0].buffer());
    if !joined && sources[1..].iter().any(overlaps) {
        return Err("the runtime writes the destination before it reads a later source".to_owned());
    }
    let Some(next) = next else { return Ok(()) };
    if publishes || !next.waits_for.is_empty() {
        return Ok(());
    }
    let OperationKind::Reduce { sources: later, dst: next_dst, count: next_count } = &next.kind else { return Ok(()) };
    let (Some(last), Some(first)) = (sources.last(), later.first()) else { return Ok(()) };
    if *next_dst != dst || last.buffer() != first.buffer() {
        return Ok(());
    }
    if *next_count != count || later.iter().any(overlaps) {
        return Err("the runtime joins it with the next reduction, which changes the result; let it publish".to_owned());
    }
    Ok(())
}
