//! MSCCL XML as a program.

use std::ops::Range;

use rondo_ir::collective::{Buffer, Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::index::RankId;
use rondo_ir::profile::Protocol;
use rondo_ir::program::{
    Connection, Operation, OperationKind, OperationRef, Program, RankProgram, SourceSpan, Threadblock,
};
use rondo_ir::units::Bytes;

use super::scan::{Attribute, Event, Fault, Scanner, Tag};

/// Chunks of a buffer that are read; far above what a runtime's file can address.
const MOST_CHUNKS: i64 = 1 << 24;
/// Faults that are reported before reading stops.
const MOST_FAULTS: usize = 50;
/// Ranks without an element that are filled in.
const MOST_IDLE: usize = 1 << 12;
/// Nested unknown elements.
const DEEPEST: usize = 64;

/// A collective that the file claims to be, at the file's chunk count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The collective, in or out of place; sum of float32, one element a chunk (the file names neither operator nor
    /// size).
    pub collective: Collective,
    /// Chunks a block.
    pub chunks: u32,
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The program; every operation has the line and column of its element.
    pub program: Program,
    /// What the program must do: in place, out of place, or, where the file is for both kinds of calls, both.
    pub headers: Vec<Header>,
    /// Free text of the file.
    pub name: String,
    /// How data is moved.
    pub protocol: Protocol,
    /// Channels that the communicator must have.
    pub channels: u32,
    /// Whether in-place calls may use the file.
    pub in_place: bool,
    /// Whether out-of-place calls may use the file.
    pub out_of_place: bool,
    /// Smallest message in bytes, where given.
    pub min_bytes: Option<u64>,
    /// `maxBytes` as written, where given; what it means differs between runtimes.
    pub max_bytes: Option<u64>,
    /// What of the text decides whether a runtime loads it.
    pub facts: Facts,
    /// Warnings and notes, in file order as far as they have places.
    pub warnings: Vec<Diagnostic>,
}

/// What the text says beyond the program, because runtimes differ in what they take.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Facts {
    /// Where `<algo …>` stands.
    pub algo: Range<usize>,
    /// Whether `<algo>` has a `name`.
    pub has_name: bool,
    /// Which of `outofplace`, `minBytes` and `maxBytes` `<algo>` lacks.
    pub absent: Vec<&'static str>,
    /// `coll` as it is spelt.
    pub collective: String,
    /// `nchunksperloop`.
    pub total_chunks: u32,
    /// Per rank: `i_chunks` and `o_chunks`, and where they stand.
    pub declared_chunks: Vec<((u32, u32), Range<usize>)>,
    /// Most instructions of a threadblock, those that the runtime drops included, or highest `s` + 1.
    pub instructions: Worst,
    /// Most threadblocks of a rank.
    pub threadblocks: Worst,
    /// Most threadblocks of a rank that send (or receive) on one channel; `threadblock` is the channel.
    pub ends: Worst,
    /// Threadblocks of a rank that name one end of a connection, at most one of which uses it.
    pub idle_ends: Worst,
    /// Highest channel.
    pub channel: Worst,
    /// Highest `cnt`.
    pub count: Worst,
    /// Most XML elements that a rank loads.
    pub nodes: Worst,
    /// Most children of an element.
    pub children: Worst,
    /// Number of fused receives, and the first.
    pub fused_receives: Worst,
    /// Most reductions that are joined.
    pub joined: Worst,
    /// Highest threadblock that an instruction waits for.
    pub waited: Worst,
    /// Number of instructions that wait for a send and overwrite what it reads, and the first.
    pub late_reads: Worst,
}

/// The largest of some numbers, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Worst {
    /// The number; 0 if there is none.
    pub number: u64,
    /// Rank.
    pub rank: u32,
    /// Threadblock.
    pub threadblock: u32,
    /// Where it stands; empty if there is none.
    pub at: Range<usize>,
}

impl Worst {
    /// Keeps the first of the largest.
    fn raise(&mut self, number: impl TryInto<u64>, rank: u32, threadblock: u32, at: &Range<usize>) {
        let number = number.try_into().unwrap_or(u64::MAX);
        if self.number < number || self.at.is_empty() {
            *self = Self { number, rank, threadblock, at: at.clone() };
        }
    }

    /// Counts one more, and keeps where the first stands.
    fn add(&mut self, rank: u32, threadblock: u32, at: &Range<usize>) {
        if self.number == 0 {
            *self = Self { number: 0, rank, threadblock, at: at.clone() };
        }
        self.number += 1;
    }
}

/// Reads a file. `file` is what messages call it.
///
/// The four place attributes of an instruction are read as local, as the runtimes do. Dependencies become
/// [`Operation::waits_for`], also those that `nop`s carry; a reference to an instruction or threadblock that does not
/// exist is kept, beyond the end of what exists, for the verifier to name. Where the runtime joins `re` instructions in a
/// way that changes what they do, the joined reduction is returned.
///
/// # Errors
/// All faults that could be found, at most 50, with their places.
pub fn parse(file: &str, text: &str) -> Result<Parsed, Vec<Diagnostic>> {
    let mut reader = Reader {
        file,
        scanner: Scanner::new(text),
        faults: Vec::new(),
        warnings: Vec::new(),
        seen: Vec::new(),
        odd: Odd::default(),
        facts: Facts::default(),
        halted: false,
    };
    let parsed = reader.read();
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    match parsed {
        Some(mut parsed) => {
            reader.summarise();
            parsed.warnings = reader.warnings;
            Ok(parsed)
        }
        None => Err(vec![Diagnostic::error("B032", "the file holds no <algo> element")]),
    }
}

/// Attributes of an element, in the order of a list of names.
type Fields<'a, const N: usize> = [Option<Attribute<'a>>; N];

const ALGO: [&str; 10] =
    ["name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace", "minBytes", "maxBytes"];
/// Written by generators and read by no runtime, or by one only.
const ALGO_IGNORED: [&str; 4] = ["nthreads", "redop", "nthreadblocks", "maxcount"];
const GPU: [&str; 4] = ["id", "i_chunks", "o_chunks", "s_chunks"];
const TB: [&str; 4] = ["id", "send", "recv", "chan"];
const STEP: [&str; 10] = ["s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"];

/// What `<algo>` says.
struct Algo<'a> {
    name: &'a str,
    protocol: Protocol,
    channels: u32,
    total_chunks: u32,
    ranks: u32,
    coll: Attribute<'a>,
    in_place: bool,
    out_of_place: bool,
    min_bytes: Option<u64>,
    max_bytes: Option<u64>,
    span: Range<usize>,
}

/// A rank and where it stands.
struct Gpu {
    id: u32,
    chunks: [u32; 3],
    blocks: Vec<Block>,
    span: SourceSpan,
    range: Range<usize>,
    sends: bool,
    receives: bool,
}

/// A threadblock in file order, before references are resolved.
struct Block {
    id: u32,
    send: Option<Connection>,
    receive: Option<Connection>,
    operations: Vec<Operation>,
    /// Position of an instruction → operation.
    positions: Vec<u32>,
    /// Dependencies of `nop`s that wait for their instruction.
    pending: Vec<OperationRef>,
    /// Where the current run of `re` that the runtime joins begins, and its members so far.
    joined: Option<(usize, usize)>,
    /// `re` so far.
    reduces: usize,
    /// Instructions in the file.
    steps: u64,
    span: SourceSpan,
    range: Range<usize>,
}

/// Things that are reported once, with how often they occur.
#[derive(Default)]
struct Odd {
    unused_half: (usize, Range<usize>),
    order: (usize, Range<usize>),
    joined: (usize, Range<usize>),
    empty_nops: (usize, Range<usize>),
    lost_nops: (usize, Range<usize>),
    past_end: (usize, Range<usize>),
}

fn count(entry: &mut (usize, Range<usize>), span: &Range<usize>) {
    if entry.0 == 0 {
        entry.1 = span.clone();
    }
    entry.0 += 1;
}

struct Reader<'a> {
    file: &'a str,
    scanner: Scanner<'a>,
    faults: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// Unknown names that were reported.
    seen: Vec<&'a str>,
    odd: Odd,
    facts: Facts,
    /// Whether a fault of the text ended the reading.
    halted: bool,
}

impl<'a> Reader<'a> {
    fn fault(&mut self, code: &'static str, span: Range<usize>, message: impl Into<String>) -> &mut Diagnostic {
        self.faults.push(Diagnostic::error(code, message).at(self.file, span, ""));
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }

    /// A fault after which nothing can be read.
    fn halt(&mut self, code: &'static str, span: Range<usize>, message: impl Into<String>) -> &mut Diagnostic {
        self.halted = true;
        self.fault(code, span, message)
    }

    fn full(&self) -> bool {
        MOST_FAULTS <= self.faults.len()
    }

    fn warn(
        &mut self,
        severity: Severity,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let diagnostic = Diagnostic { severity, ..Diagnostic::warning(code, message) };
        self.warnings.push(diagnostic.at(self.file, span, ""));
        let last = self.warnings.len() - 1;
        &mut self.warnings[last]
    }

    /// The next event; `None` after a fault of the text, which ends everything.
    fn event(&mut self) -> Option<Event<'a>> {
        if self.stopped() {
            return None;
        }
        match self.scanner.next() {
            Ok(event) => Some(event),
            Err(Fault { code, span, message, help }) => {
                let fault = self.halt(code, span, message);
                if !help.is_empty() {
                    fault.help.push(help.to_owned());
                }
                None
            }
        }
    }

    /// The next child of `parent`; `None` at its end or after a fault.
    fn child(&mut self, parent: &str, span: &Range<usize>) -> Option<Tag<'a>> {
        match self.event()? {
            Event::Open(tag) => Some(tag),
            Event::Close(name, at) => {
                if name != parent {
                    self.halt("B029", at, format!("`</{name}>` does not close `<{parent}>`"));
                }
                None
            }
            Event::End => {
                self.halt("B029", span.clone(), format!("`<{parent}>` is never closed; is the file cut off?"));
                None
            }
        }
    }

    /// Skips an element that the runtimes do not know.
    fn skip(&mut self, tag: &Tag<'a>, parent: &str) -> bool {
        if !self.seen.contains(&tag.name) && self.seen.len() < 16 {
            self.seen.push(tag.name);
            let message = format!("`<{}>` inside `<{parent}>` is ignored by the runtimes", tag.name);
            self.warn(Severity::Note, "B015", tag.span.clone(), message);
        }
        let mut open = if tag.closed { Vec::new() } else { vec![tag.name] };
        while let Some(&name) = open.last() {
            if DEEPEST < open.len() {
                self.halt("B031", tag.span.clone(), "elements are nested too deeply");
                return false;
            }
            match self.event() {
                Some(Event::Open(tag)) if !tag.closed => open.push(tag.name),
                Some(Event::Open(_)) => {}
                Some(Event::Close(closed, _)) if closed == name => {
                    open.pop();
                }
                Some(Event::Close(closed, at)) => {
                    self.halt("B029", at, format!("`</{closed}>` does not close `<{name}>`"));
                    return false;
                }
                Some(Event::End) => {
                    self.halt("B029", tag.span.clone(), format!("`<{name}>` is never closed; is the file cut off?"));
                    return false;
                }
                None => return false,
            }
        }
        true
    }

    fn fields<const N: usize>(&mut self, names: &[&'static str; N], tag: &Tag<'a>, ignored: &[&str]) -> Fields<'a, N> {
        let mut fields = [None; N];
        let mut strange = None;
        for (index, &attribute) in self.scanner.attributes().iter().enumerate() {
            // Nearly always in the usual order.
            let at = if names.get(index) == Some(&attribute.name) {
                Some(index)
            } else {
                names.iter().position(|&name| name == attribute.name)
            };
            match at {
                Some(at) if fields[at].is_none() => fields[at] = Some(attribute),
                Some(_) => strange = Some(attribute),
                None if ignored.contains(&attribute.name) => {}
                None => strange = Some(attribute),
            }
        }
        if let Some(attribute) = strange
            && !self.seen.contains(&attribute.name)
            && self.seen.len() < 16
        {
            self.seen.push(attribute.name);
            let message = format!("attribute `{}` of `<{}>` is ignored by the runtimes", attribute.name, tag.name);
            self.warn(Severity::Note, "B015", attribute.span(), message);
        }
        fields
    }

    fn missing(&mut self, tag: &Tag<'a>, name: &str) {
        self.fault("B033", tag.span.clone(), format!("`<{}>` has no attribute `{name}`", tag.name))
            .help
            .push(format!("all runtimes refuse a file without it; add {name}=\"…\""));
    }

    fn required(&mut self, field: Option<Attribute<'a>>, name: &str, tag: &Tag<'a>) -> Option<Attribute<'a>> {
        if field.is_none() {
            self.missing(tag, name);
        }
        field
    }

    /// A whole number within bounds.
    fn number(&mut self, field: Option<Attribute<'a>>, name: &str, tag: &Tag<'a>, bounds: (i64, i64)) -> Option<i64> {
        let attribute = self.required(field, name, tag)?;
        match whole_number(attribute.value) {
            Some(number) if (bounds.0..=bounds.1).contains(&number) => Some(number),
            Some(number) => {
                let message = format!("`{name}` is {number}; it must be {} … {}", bounds.0, bounds.1);
                self.fault("B035", attribute.span(), message);
                None
            }
            None => {
                let message = format!("`{name}` is `{}`, which is no whole number", attribute.value);
                self.fault("B034", attribute.span(), message)
                    .notes
                    .push("the runtimes read the digits at its start, or 0, and say nothing".to_owned());
                None
            }
        }
    }

    fn small(&mut self, field: Option<Attribute<'a>>, name: &str, tag: &Tag<'a>, bounds: (i64, i64)) -> Option<u32> {
        self.number(field, name, tag, bounds).and_then(|number| u32::try_from(number).ok())
    }

    fn flag(&mut self, field: Option<Attribute<'a>>, name: &str, tag: &Tag<'a>) -> Option<bool> {
        self.number(field, name, tag, (0, 1)).map(|number| number == 1)
    }

    fn read(&mut self) -> Option<Parsed> {
        let tag = match self.event()? {
            Event::Open(tag) => tag,
            Event::Close(_, span) => {
                self.halt("B029", span, "a closing tag without an opening one");
                return None;
            }
            Event::End => return None,
        };
        if tag.name != "algo" {
            let message = format!("the first element is `<{}>`; an MSCCL XML file begins with `<algo>`", tag.name);
            self.halt("B032", tag.span.clone(), message);
            return None;
        }
        let algo = self.algo(&tag);
        if algo.is_none() && tag.closed {
            return None;
        }
        let ranks = algo.as_ref().map_or(u32::MAX, |algo| algo.ranks);
        let mut gpus: Vec<Gpu> = Vec::new();
        if !tag.closed {
            while let Some(child) = self.child("algo", &tag.span) {
                let fine = match child.name {
                    "gpu" => match self.gpu(&child, ranks) {
                        Some(gpu) => {
                            gpus.push(gpu);
                            true
                        }
                        None => !self.full() && !self.stopped(),
                    },
                    _ => self.skip(&child, "algo"),
                };
                if !fine {
                    return None;
                }
            }
        }
        if self.faults.is_empty() {
            match self.event()? {
                Event::End => {}
                Event::Open(Tag { span, .. }) | Event::Close(_, span) => {
                    self.halt("B032", span, "something stands after `</algo>`");
                }
            }
        }
        let algo = algo?;
        self.finish(algo, gpus)
    }

    /// Whether reading cannot go on.
    const fn stopped(&self) -> bool {
        self.halted
    }

    fn algo(&mut self, tag: &Tag<'a>) -> Option<Algo<'a>> {
        let [name, proto, channels, chunks, ranks, coll, in_place, out_of_place, min, max] =
            self.fields(&ALGO, tag, &ALGO_IGNORED);
        let protocol = self.required(proto, "proto", tag).and_then(|proto| {
            let found = match proto.value {
                "Simple" => Some(Protocol::Simple),
                "LL" => Some(Protocol::Ll),
                "LL128" => Some(Protocol::Ll128),
                _ => None,
            };
            if found.is_none() {
                let message = format!("`proto` is `{}`; it must be Simple, LL or LL128, spelt so", proto.value);
                self.fault("B036", proto.span(), message);
            }
            found
        });
        let channels = self.small(channels, "nchannels", tag, (1, i64::from(i32::MAX)));
        let total_chunks = self.small(chunks, "nchunksperloop", tag, (1, MOST_CHUNKS));
        let ranks = self.small(ranks, "ngpus", tag, (1, i64::from(i32::MAX)));
        let coll = self.required(coll, "coll", tag);
        let in_place = self.flag(in_place, "inplace", tag);
        let sizes = [("outofplace", out_of_place), ("minBytes", min), ("maxBytes", max)];
        self.facts.absent = sizes.into_iter().filter(|(_, field)| field.is_none()).map(|(name, _)| name).collect();
        let out_of_place = match out_of_place {
            Some(_) => self.flag(out_of_place, "outofplace", tag),
            None => in_place.map(|in_place| !in_place),
        };
        let mut size = |field: Option<Attribute<'a>>, name| match field {
            Some(_) => self.number(field, name, tag, (0, i64::MAX)).map(|size| u64::try_from(size).ok()),
            None => Some(None),
        };
        let (min_bytes, max_bytes) = (size(min, "minBytes"), size(max, "maxBytes"));
        self.facts.algo = tag.span.clone();
        self.facts.has_name = name.is_some();
        self.facts.collective = coll.as_ref().map_or_else(String::new, |coll| coll.value.to_owned());
        self.facts.total_chunks = total_chunks.unwrap_or(0);
        Some(Algo {
            name: name.map_or("", |name| name.value),
            protocol: protocol?,
            channels: channels?,
            total_chunks: total_chunks?,
            ranks: ranks?,
            coll: coll?,
            in_place: in_place?,
            out_of_place: out_of_place?,
            min_bytes: min_bytes?,
            max_bytes: max_bytes?,
            span: tag.span.clone(),
        })
    }

    fn gpu(&mut self, tag: &Tag<'a>, ranks: u32) -> Option<Gpu> {
        let [id, input, output, scratch] = self.fields(&GPU, tag, &[]);
        let id = self.small(id, "id", tag, (0, i64::from(ranks) - 1));
        let mut chunks = [0; 3];
        for (value, (field, name)) in
            chunks.iter_mut().zip([(input, "i_chunks"), (output, "o_chunks"), (scratch, "s_chunks")])
        {
            *value = self.small(field, name, tag, (0, MOST_CHUNKS)).unwrap_or(u32::MAX);
        }
        let mut gpu = Gpu {
            id: id.unwrap_or(u32::MAX),
            chunks,
            blocks: Vec::new(),
            span: SourceSpan { line: tag.line, column: tag.column },
            range: tag.span.clone(),
            sends: false,
            receives: false,
        };
        if !tag.closed {
            while let Some(child) = self.child("gpu", &tag.span) {
                let fine = match child.name {
                    "tb" => match self.block(&child, &mut gpu, ranks) {
                        Some(block) => {
                            gpu.blocks.push(block);
                            true
                        }
                        None => !self.full() && !self.stopped(),
                    },
                    _ => self.skip(&child, "gpu"),
                };
                if !fine {
                    return None;
                }
            }
        }
        id.filter(|_| self.faults.is_empty())?;
        gpu.blocks.sort_by_key(|block| block.id);
        if let Some(pair) = gpu.blocks.windows(2).find(|pair| pair[0].id == pair[1].id) {
            let (id, span) = (pair[0].id, pair[1].range.clone());
            self.fault("B043", span, format!("rank {} has two threadblocks with id {id}", gpu.id));
            return None;
        }
        if let Some((expected, block)) = (0..).zip(&gpu.blocks).find(|(expected, block)| block.id != *expected) {
            let span = block.range.clone();
            let message = format!("rank {} has no threadblock {expected}, but one with id {}", gpu.id, block.id);
            self.fault("B043", span, message).help.push("number the threadblocks of a rank 0, 1, 2, …".to_owned());
            return None;
        }
        Some(gpu)
    }

    fn block(&mut self, tag: &Tag<'a>, gpu: &mut Gpu, ranks: u32) -> Option<Block> {
        let [id, send, receive, channel] = self.fields(&TB, tag, &[]);
        let id = self.small(id, "id", tag, (0, i64::from(i32::MAX)));
        let last = i64::from(ranks) - 1;
        let mut peer = |field: Option<Attribute<'a>>, name| {
            let number = self.number(field, name, tag, (-1, last))?;
            let peer = u32::try_from(number).ok();
            if peer == Some(gpu.id) {
                let span = field.map_or(tag.span.clone(), |field| field.span());
                self.fault("B044", span, format!("`{name}` is {number}, the rank itself"));
                return None;
            }
            Some(peer)
        };
        let (send, receive) = (peer(send, "send"), peer(receive, "recv"));
        let channel_number = self.small(channel, "chan", tag, (0, i64::from(i32::MAX) - 1));
        let own = id.unwrap_or(0);
        if let Some(number) = channel_number {
            let at = channel.map_or(tag.span.clone(), |channel| channel.span());
            self.facts.channel.raise(number, gpu.id, own, &at);
        }
        let connection = |peer: Option<u32>| Some(Connection { peer: RankId::from(peer?), channel: channel_number? });
        let mut block = Block {
            id: id.unwrap_or(0),
            send: connection(send.flatten()),
            receive: connection(receive.flatten()),
            operations: Vec::new(),
            positions: Vec::new(),
            pending: Vec::new(),
            joined: None,
            reduces: 0,
            steps: 0,
            span: SourceSpan { line: tag.line, column: tag.column },
            range: tag.span.clone(),
        };
        let known = id.is_some() && send.is_some() && receive.is_some() && channel_number.is_some();
        let mut steps = 0_i64;
        if !tag.closed {
            while let Some(child) = self.child("tb", &tag.span) {
                if child.name == "step" {
                    self.step(&child, gpu, &mut block, steps, known);
                    steps += 1;
                    if !child.closed && !self.step_end(&child) {
                        return None;
                    }
                } else if !self.skip(&child, "tb") {
                    return None;
                }
                if self.full() {
                    return None;
                }
            }
        }
        block.steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.facts.instructions.raise(block.steps, gpu.id, own, &tag.span);
        self.facts.children.raise(block.steps, gpu.id, own, &tag.span);
        if !block.pending.is_empty() {
            count(&mut self.odd.lost_nops, &tag.span);
            // The runtime drops them; whoever waits for one waits for something that never comes.
            let lost = block.pending.len();
            block.positions.truncate(block.positions.len().saturating_sub(lost));
        }
        known.then_some(block)
    }

    /// `</step>` after `<step …>`.
    fn step_end(&mut self, tag: &Tag<'a>) -> bool {
        match self.event() {
            Some(Event::Close("step", _)) => true,
            Some(Event::Open(child)) => {
                self.halt("B030", child.span, "a `<step>` has no children; the runtimes crash at one");
                false
            }
            Some(_) => {
                self.halt("B029", tag.span.clone(), "`<step>` is never closed");
                false
            }
            None => false,
        }
    }

    /// One instruction. `known`: the threadblock's attributes could be read.
    fn step(&mut self, tag: &Tag<'a>, gpu: &mut Gpu, block: &mut Block, number: i64, known: bool) {
        let [s, kind, src_buffer, src_offset, dst_buffer, dst_offset, slots, depid, deps, hasdep] =
            self.fields(&STEP, tag, &[]);
        let most = i64::from(i32::MAX);
        let s = self.number(s, "s", tag, (0, most));
        let kind = self.required(kind, "type", tag);
        let src_buffer = self.required(src_buffer, "srcbuf", tag);
        let dst_buffer = self.required(dst_buffer, "dstbuf", tag);
        let src_at = self.number(src_offset, "srcoff", tag, (-1, most));
        let dst_at = self.number(dst_offset, "dstoff", tag, (-1, most));
        let slots_number = self.number(slots, "cnt", tag, (0, MOST_CHUNKS));
        let depid = self.number(depid, "depid", tag, (-most, most));
        let deps = self.number(deps, "deps", tag, (-most, most));
        let (Some(s), Some(kind), Some(src_buffer), Some(dst_buffer), Some(src_at), Some(dst_at), Some(slots_number)) =
            (s, kind, src_buffer, dst_buffer, src_at, dst_at, slots_number)
        else {
            return;
        };
        let (Some(depid), Some(deps)) = (depid, deps) else { return };
        self.facts.instructions.raise(s.saturating_add(1), gpu.id, block.id, &tag.span);
        if s != number {
            count(&mut self.odd.order, &tag.span);
        }
        let waits_for = match (u32::try_from(depid), u32::try_from(deps)) {
            (Ok(threadblock), Ok(operation)) => {
                self.facts.waited.raise(threadblock, gpu.id, block.id, &tag.span);
                Some(OperationRef { threadblock, operation })
            }
            (Ok(_), Err(_)) => {
                let message = format!("`depid` is {depid} but `deps` is {deps}");
                self.fault("B049", tag.span.clone(), message).help.push(
                    "`deps` is the position of the instruction to wait for; without a dependency both are -1"
                        .to_owned(),
                );
                return;
            }
            (Err(_), _) => None,
        };
        if kind.value == "nop" {
            // What `hasdep` of a nop says is not looked at.
            if hasdep.is_none() {
                self.missing(tag, "hasdep");
            }
            match waits_for {
                Some(wait) => {
                    block.positions.push(u32::try_from(block.operations.len()).unwrap_or(u32::MAX));
                    block.pending.push(wait);
                    block.joined = None;
                }
                None => count(&mut self.odd.empty_nops, &tag.span),
            }
            return;
        }
        let Some(publishes) = self.flag(hasdep, "hasdep", tag) else { return };
        let uses = match kind.value {
            "s" => Uses { receive: false, read: true, write: false, send: true, checked: [true, false] },
            "r" => Uses { receive: true, read: false, write: true, send: false, checked: [false, true] },
            "cpy" | "re" => Uses { receive: false, read: true, write: true, send: false, checked: [true, true] },
            "rcs" => Uses { receive: true, read: false, write: true, send: true, checked: [false, true] },
            "rrs" => Uses { receive: true, read: true, write: false, send: true, checked: [true, false] },
            "rrc" => Uses { receive: true, read: true, write: true, send: false, checked: [false, false] },
            "rrcs" => Uses { receive: true, read: true, write: true, send: true, checked: [true, true] },
            other => {
                let message =
                    format!("`{other}` is no instruction; there are s, r, cpy, re, rcs, rrs, rrc, rrcs and nop");
                let fault = self.fault("B037", kind.span(), message);
                if other == "ra" {
                    fault.notes.push("msccl reads `ra`, then leaves the threadblock without a word".to_owned());
                }
                return;
            }
        };
        if slots_number == 0 {
            let span = slots.map_or(tag.span.clone(), |slots| slots.span());
            self.fault("B050", span, format!("`cnt` of `{}` is 0", kind.value))
                .notes
                .push("it would move nothing, and makes msccl write before an array".to_owned());
            return;
        }
        let src = self.place((src_buffer, src_at, src_offset), slots_number, uses.read, uses.checked[0], gpu);
        let dst = self.place((dst_buffer, dst_at, dst_offset), slots_number, uses.write, uses.checked[1], gpu);
        let (Some(src), Some(dst)) = (src, dst) else { return };
        if uses.read != uses.write && src.is_some() && dst.is_some() && src != dst {
            count(&mut self.odd.unused_half, &tag.span);
        }
        for (needed, end, attribute, verb) in
            [(uses.send, block.send, "send", "sends"), (uses.receive, block.receive, "recv", "receives")]
        {
            if known && needed && end.is_none() {
                let message = format!("`{}` {verb}, but `{attribute}` of its threadblock is -1", kind.value);
                self.fault("B045", kind.span(), message);
                return;
            }
        }
        self.facts.count.raise(slots_number, gpu.id, block.id, &tag.span);
        if uses.receive && (uses.send || uses.read) {
            self.facts.fused_receives.add(gpu.id, block.id, &tag.span);
        }
        gpu.sends |= uses.send;
        gpu.receives |= uses.receive;
        let reads = if uses.read { src } else { None };
        let writes = if uses.write { dst } else { None };
        let slots_number = u32::try_from(slots_number).unwrap_or(u32::MAX);
        if !block.pending.is_empty() && waits_for.is_none() {
            let message =
                format!("`nop` instructions before `{}` carry dependencies, but it has none itself", kind.value);
            self.fault("B048", tag.span.clone(), message)
                .help
                .push("put the last dependency on the instruction itself: the runtimes refuse the file".to_owned());
            return;
        }
        let span = SourceSpan { line: tag.line, column: tag.column };
        if let ("re", Some(source), Some(dst)) = (kind.value, reads, writes) {
            self.reduce(gpu.id, block, tag, (source, dst, slots_number), waits_for, publishes, span);
            return;
        }
        block.joined = None;
        let kind = OperationKind::Move {
            receive: block.receive.filter(|_| uses.receive),
            local: reads,
            store: writes,
            send: block.send.filter(|_| uses.send),
            count: slots_number,
        };
        block.push(kind, waits_for, publishes, span);
    }

    /// A local reduction, which the runtime may join with the ones before it.
    fn reduce(
        &mut self,
        rank: u32,
        block: &mut Block,
        tag: &Tag<'a>,
        (source, dst, slots): (Place, Place, u32),
        waits_for: Option<OperationRef>,
        publishes: bool,
        span: SourceSpan,
    ) {
        // Only when the running total of the threadblock reaches 16 does the runtime begin anew.
        let may_join = waits_for.is_none() && block.reduces != 16;
        block.reduces += 1;
        let run = block.joined.filter(|&(first, _)| {
            may_join
                && match (&block.operations[first].kind, block.operations.last().map(|op| &op.kind)) {
                    (OperationKind::Reduce { dst: other, sources: before, .. }, Some(OperationKind::Reduce { .. })) => {
                        *other == dst && before.first().is_some_and(|b| b.buffer() == source.buffer())
                    }
                    _ => false,
                }
        });
        let Some((first, members)) = run else {
            block.push(OperationKind::Reduce { sources: vec![source], dst, count: slots }, waits_for, publishes, span);
            block.joined = (!publishes).then_some((block.operations.len() - 1, 1));
            return;
        };
        self.facts.joined.raise(members + 1, rank, block.id, &tag.span);
        let overlaps = source.buffer() == dst.buffer() && source.slot().abs_diff(dst.slot()) < slots;
        let (already, same_count) = match &block.operations[first].kind {
            OperationKind::Reduce { sources, count, .. } => (1 < sources.len(), *count == slots),
            _ => (false, true),
        };
        if already || overlaps || !same_count {
            // Joined it means something else than one by one: return what the runtime does.
            count(&mut self.odd.joined, &tag.span);
            let later = block.operations.split_off(first + 1);
            let operation = &mut block.operations[first];
            if let OperationKind::Reduce { sources, count, .. } = &mut operation.kind {
                for other in later {
                    if let OperationKind::Reduce { sources: more, .. } = other.kind {
                        sources.extend(more);
                    }
                }
                sources.push(source);
                *count = slots;
            }
            operation.publishes = publishes;
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            for position in block.positions.iter_mut().rev().take_while(|position| first < **position) {
                *position = first;
            }
            block.positions.push(first);
        } else {
            block.push(OperationKind::Reduce { sources: vec![source], dst, count: slots }, None, publishes, span);
        }
        block.joined = (!publishes).then_some((first, members + 1));
    }

    /// A place; `Some(None)` for an unused half that names none.
    #[allow(clippy::option_option)]
    fn place(
        &mut self,
        (name, offset, at): (Attribute<'a>, i64, Option<Attribute<'a>>),
        slots: i64,
        used: bool,
        checked: bool,
        gpu: &Gpu,
    ) -> Option<Option<Place>> {
        let (buffer, declared) = match name.value {
            "i" => (Buffer::Input, gpu.chunks[0]),
            "o" => (Buffer::Output, gpu.chunks[1]),
            "s" => (Buffer::Scratch, gpu.chunks[2]),
            other => {
                self.fault("B038", name.span(), format!("`{other}` is no buffer; there are i, o and s"));
                return None;
            }
        };
        let span = at.unwrap_or(name).span();
        let most = i64::from(Place::SLOT_LIMIT) - MOST_CHUNKS - 1;
        if offset < 0 || most < offset {
            if used {
                let message = format!("offset {offset} is no place in buffer `{}`", buffer.letter());
                self.fault("B046", span, message);
                return None;
            }
            return Some(None);
        }
        if used && checked && declared != u32::MAX {
            if i64::from(declared) <= offset {
                let message = format!(
                    "offset {offset} is past the end of buffer `{}`, which has {declared} chunks",
                    buffer.letter()
                );
                self.fault("B046", span, message)
                    .help
                    .push(format!("raise `{}_chunks` of the `<gpu>`, or correct the offset", buffer.letter()));
                return None;
            }
            if i64::from(declared) < offset + slots {
                count(&mut self.odd.past_end, &span);
            }
        }
        u32::try_from(offset).ok().map(|offset| Some(Place::new(buffer, offset)))
    }

    fn finish(&mut self, algo: Algo<'a>, mut gpus: Vec<Gpu>) -> Option<Parsed> {
        if !self.faults.is_empty() {
            return None;
        }
        gpus.sort_by_key(|gpu| gpu.id);
        if let Some(pair) = gpus.windows(2).find(|pair| pair[0].id == pair[1].id) {
            let message = format!(
                "there are two `<gpu>` with id {}, at lines {} and {}",
                pair[0].id, pair[0].span.line, pair[1].span.line
            );
            self.fault("B041", algo.span.clone(), message);
            return None;
        }
        if gpus.len() != algo.ranks as usize {
            let absent =
                (0..algo.ranks).zip(&gpus).find(|(r, gpu)| *r != gpu.id).map_or(gpus.len(), |(r, _)| r as usize);
            let message =
                format!("`ngpus` is {}, but there are {} `<gpu>`; rank {absent} has none", algo.ranks, gpus.len());
            let help = "give every rank a `<gpu>`, an empty one if it has nothing to do, or correct `ngpus`".to_owned();
            if MOST_IDLE < algo.ranks as usize - gpus.len() {
                self.fault("B042", algo.span.clone(), message).help.push(help);
                return None;
            }
            self.warn(Severity::Warning, "B042", algo.span.clone(), message).help.push(help);
            for id in 0..algo.ranks {
                if gpus.get(id as usize).is_none_or(|gpu| gpu.id != id) {
                    gpus.insert(id as usize, Gpu::idle(id, &algo.span));
                }
            }
        }
        let headers = self.headers(&algo, &gpus)?;
        let mut facts = std::mem::take(&mut self.facts);
        facts.declared_chunks = gpus.iter().map(|gpu| ((gpu.chunks[0], gpu.chunks[1]), gpu.range.clone())).collect();
        facts.children.raise(gpus.len(), 0, 0, &algo.span);
        for gpu in &gpus {
            measure(gpu, gpus.len(), &mut facts);
        }
        let ranks: Vec<_> = gpus.into_iter().map(resolve).collect();
        for (rank, program) in (0..).zip(&ranks) {
            late_reads(rank, program, &mut facts.late_reads, |span| self.scanner.offset(span));
        }
        let chunks = headers.first()?.chunks;
        Some(Parsed {
            program: Program { name: algo.name.to_owned(), chunks, fifo_depth: algo.protocol.fifo_depth(), ranks },
            headers,
            name: algo.name.to_owned(),
            protocol: algo.protocol,
            channels: algo.channels,
            in_place: algo.in_place,
            out_of_place: algo.out_of_place,
            min_bytes: algo.min_bytes,
            max_bytes: algo.max_bytes,
            facts,
            warnings: Vec::new(),
        })
    }

    /// What the file claims to be, once for each kind of call that may use it.
    fn headers(&mut self, algo: &Algo<'a>, gpus: &[Gpu]) -> Option<Vec<Header>> {
        let n = algo.ranks;
        let only = |wanted: fn(&Gpu) -> bool| {
            let mut found = gpus.iter().filter(|gpu| wanted(gpu)).map(|gpu| gpu.id);
            found.next().filter(|_| found.next().is_none())
        };
        let mut root = None;
        let (kind, blocks) = match algo.coll.value {
            "allreduce" => (CollectiveKind::AllReduce, 1),
            "allgather" => (CollectiveKind::AllGather, n),
            "reduce_scatter" | "reducescatter" => (CollectiveKind::ReduceScatter, n),
            "alltoall" => (CollectiveKind::AllToAll { matrix: None }, n),
            "broadcast" => {
                let guess = only(|gpu| !gpu.receives && gpu.sends).unwrap_or(0);
                root = Some(guess);
                (CollectiveKind::Broadcast { root: guess }, 1)
            }
            "reduce" => {
                let guess = only(|gpu| gpu.receives && !gpu.sends).unwrap_or(0);
                root = Some(guess);
                (CollectiveKind::Reduce { root: guess }, 1)
            }
            other => {
                let message = format!("collective `{other}` is not supported");
                self.fault("B039", algo.coll.span(), message).notes.push(
                    "supported are allreduce, allgather, reducescatter (reduce_scatter), alltoall, broadcast and reduce".to_owned(),
                );
                return None;
            }
        };
        if let Some(root) = root
            && 1 < n
        {
            let message = format!("the file names no root; rank {root} is taken for it");
            self.warn(Severity::Warning, "B018", algo.coll.span(), message);
        }
        if !algo.total_chunks.is_multiple_of(blocks) {
            let message = format!("`nchunksperloop` is {}, which {n} ranks do not divide", algo.total_chunks);
            self.fault("B040", algo.span.clone(), message);
            return None;
        }
        let chunks = algo.total_chunks / blocks;
        let has_in_place = kind.has_in_place_form();
        if algo.in_place && !has_in_place {
            if !algo.out_of_place {
                let message = format!("an in-place {} is not supported", kind.name());
                self.fault("B039", algo.coll.span(), message)
                    .help
                    .push("check it as `inplace=\"0\" outofplace=\"1\"`".to_owned());
                return None;
            }
            let message = format!("only the out-of-place use of this {} is checked", kind.name());
            self.warn(Severity::Warning, "B077", algo.coll.span(), message);
        }
        let mut headers = Vec::new();
        for in_place in [true, false] {
            let claimed = if in_place { algo.in_place && has_in_place } else { algo.out_of_place || !algo.in_place };
            if !claimed {
                continue;
            }
            let dtype = DataType::Float32;
            let collective = Collective::new(CollectiveSpec {
                kind: kind.clone(),
                ranks: n,
                operator: ReduceOperator::Sum,
                dtype,
                buffer_size: Bytes(u64::from(algo.total_chunks) * dtype.bytes()),
                in_place,
                input_writable: false,
            });
            match collective {
                Ok(collective) => headers.push(Header { collective, chunks }),
                Err(error) => {
                    self.fault("B035", algo.span.clone(), error.to_string());
                    return None;
                }
            }
        }
        Some(headers)
    }

    /// One finding for what may occur in every line.
    fn summarise(&mut self) {
        let odd = std::mem::take(&mut self.odd);
        let times = |n: usize| if n == 1 { String::new() } else { format!(" ({n} times)") };
        let list = [
            (odd.order, Severity::Note, "B073", "`s` is not the position; the order of the file counts"),
            (odd.empty_nops, Severity::Warning, "B074", "a `nop` without a dependency is dropped and not numbered"),
            (odd.lost_nops, Severity::Warning, "B075", "`nop` instructions at the end of a threadblock are dropped"),
            (
                odd.unused_half,
                Severity::Note,
                "B016",
                "the half of the places that is not used differs from the one that is",
            ),
            (odd.joined, Severity::Warning, "B017", "the runtime joins reductions here, which changes what they do"),
            (odd.past_end, Severity::Warning, "B047", "an instruction reaches past the declared chunks of a buffer"),
        ];
        for ((n, span), severity, code, message) in list {
            if 0 < n {
                self.warn(severity, code, span, format!("{message}{}", times(n)));
            }
        }
        let dropped = std::mem::take(&mut self.scanner.dropped);
        if let Some(span) = dropped.into_iter().next() {
            self.warn(Severity::Warning, "B076", span, "the runtimes drop attributes after the 16th of an element");
        }
    }
}

/// What an instruction does with its places and peers.
struct Uses {
    receive: bool,
    read: bool,
    write: bool,
    send: bool,
    /// Whether the runtimes compare source and destination with the declared chunks.
    checked: [bool; 2],
}

impl Block {
    fn push(&mut self, kind: OperationKind, wait: Option<OperationRef>, publishes: bool, span: SourceSpan) {
        self.positions.push(u32::try_from(self.operations.len()).unwrap_or(u32::MAX));
        let mut waits_for = std::mem::take(&mut self.pending);
        waits_for.extend(wait);
        self.operations.push(Operation { kind, waits_for, publishes, span });
    }
}

impl Gpu {
    /// A rank without an element: it does nothing.
    fn idle(id: u32, at: &Range<usize>) -> Self {
        let span = SourceSpan::default();
        Self { id, chunks: [0; 3], blocks: Vec::new(), span, range: at.clone(), sends: false, receives: false }
    }
}

/// Numbers of a rank that runtimes limit.
fn measure(gpu: &Gpu, ranks: usize, facts: &mut Facts) {
    facts.threadblocks.raise(gpu.blocks.len(), gpu.id, 0, &gpu.range);
    facts.children.raise(gpu.blocks.len(), gpu.id, 0, &gpu.range);
    let steps: u64 = gpu.blocks.iter().map(|block| 1 + block.steps).sum();
    facts.nodes.raise(1 + ranks as u64 + steps, gpu.id, 0, &gpu.range);
    idle_ends(gpu, facts);
    for end in [|block: &Block| block.send, |block: &Block| block.receive] {
        let mut channels: Vec<(u32, &Range<usize>)> =
            gpu.blocks.iter().filter_map(|block| Some((end(block)?.channel, &block.range))).collect();
        channels.sort_by_key(|&(channel, _)| channel);
        for run in channels.chunk_by(|a, b| a.0 == b.0) {
            facts.ends.raise(run.len(), gpu.id, run[0].0, run[run.len() - 1].1);
        }
    }
}

/// Ends of connections that several threadblocks name. Where two use one, the program is wrong and the verifier says so.
fn idle_ends(gpu: &Gpu, facts: &mut Facts) {
    fn named(block: &Block, is_send: bool) -> Option<Connection> {
        if is_send { block.send } else { block.receive }
    }
    let uses = |block: &Block, is_send: bool| {
        block.operations.iter().any(|operation| match &operation.kind {
            OperationKind::Move { receive, send, .. } => {
                if is_send {
                    send.is_some()
                } else {
                    receive.is_some()
                }
            }
            _ => false,
        })
    };
    for is_send in [true, false] {
        let mut blocks: Vec<(Connection, &Block)> =
            gpu.blocks.iter().filter_map(|block| Some((named(block, is_send)?, block))).collect();
        blocks.sort_by_key(|(end, _)| (end.channel, end.peer));
        for run in blocks.chunk_by(|a, b| a.0 == b.0) {
            let users = run.iter().filter(|(_, block)| uses(block, is_send)).count();
            let idle = run.iter().rev().find(|(_, block)| !uses(block, is_send));
            if 1 < run.len()
                && users < 2
                && let Some((_, block)) = idle
            {
                facts.idle_ends.raise(run.len(), gpu.id, block.id, &block.range);
            }
        }
    }
}

/// Instructions that wait for a plain send and overwrite what it reads.
fn late_reads(rank: u32, program: &RankProgram, worst: &mut Worst, offset: impl Fn(SourceSpan) -> Range<usize>) {
    for tb in &program.threadblocks {
        for operation in &tb.operations {
            let written = match &operation.kind {
                OperationKind::Move { store: Some(place), count, .. } => (*place, *count),
                OperationKind::Reduce { dst, count, .. } => (*dst, *count),
                _ => continue,
            };
            for wait in &operation.waits_for {
                let target = program
                    .threadblocks
                    .get(wait.threadblock as usize)
                    .and_then(|tb| tb.operations.get(wait.operation as usize));
                if let Some(OperationKind::Move { receive: None, local: Some(read), store: None, send: Some(_), count }) =
                    target.map(|target| &target.kind)
                    && read.buffer() == written.0.buffer()
                    && u64::from(read.slot()) < u64::from(written.0.slot()) + u64::from(written.1)
                    && u64::from(written.0.slot()) < u64::from(read.slot()) + u64::from(*count)
                {
                    let at = if worst.number == 0 { offset(operation.span) } else { worst.at.clone() };
                    worst.add(rank, tb.id, &at);
                }
            }
        }
    }
}

/// Threadblock ids become indices, positions become operations.
fn resolve(gpu: Gpu) -> RankProgram {
    let ends: Vec<(Vec<u32>, u32)> = gpu
        .blocks
        .iter()
        .map(|block| (block.positions.clone(), u32::try_from(block.operations.len()).unwrap_or(u32::MAX)))
        .collect();
    let threadblocks = gpu.blocks.into_iter().map(|mut block| {
        for wait in block.operations.iter_mut().flat_map(|operation| &mut operation.waits_for) {
            let Some((positions, operations)) = ends.get(wait.threadblock as usize) else { continue };
            wait.operation = match positions.get(wait.operation as usize) {
                Some(&operation) => operation,
                // Beyond the end stays beyond the end.
                None => {
                    let beyond = wait.operation - u32::try_from(positions.len()).unwrap_or(0);
                    operations.saturating_add(beyond)
                }
            };
        }
        Threadblock { id: block.id, operations: block.operations, span: block.span }
    });
    RankProgram { scratch_slots: gpu.chunks[2], threadblocks: threadblocks.collect(), span: gpu.span }
}

/// What `strtol` with base 0 reads, but only if all of the text is a number: decimal, `0x…`, or octal with a leading 0.
fn whole_number(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if let [first @ b'1'..=b'9', rest @ ..] = bytes
        && rest.len() < 18
    {
        let mut number = i64::from(first - b'0');
        for &byte in rest {
            if !byte.is_ascii_digit() {
                return None;
            }
            number = number * 10 + i64::from(byte - b'0');
        }
        return Some(number);
    }
    match bytes {
        b"0" => return Some(0),
        b"-1" => return Some(-1),
        _ => {}
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.bytes().next()?.is_ascii_digit() {
        return None;
    }
    let number = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        if !hex.bytes().next()?.is_ascii_hexdigit() {
            return None;
        }
        i64::from_str_radix(hex, 16).ok()?
    } else if 1 < digits.len() && digits.starts_with('0') {
        i64::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { -number } else { number })
}
