//! A checked plan to a one-sided program, for a number of turns that every pipeline makes.
//!
//! # Slots
//! A chunk is cut into g · t slots: g is the least common multiple of the sizes of thread-block groups, so that a slice is
//! whole slots, and t the number of turns, so that a turn works on whole slots. Turns of a pipeline work on pieces that
//! follow each other and do not overlap.
//!
//! # Turns
//! How many turns a pipeline makes depends on the message size. What a counter used in a loop can be ahead is what was
//! signalled before the loop; three turns more than twice that show a first, a last and a middle turn, each with all that
//! can reach it, and further ones repeat the middle one. One turn is tried as well.
//!
//! # Collectives
//! allreduce allgather reducescatter alltoall have their usual postcondition; `test`, `custom`, `sendrecv` and every other
//! name promise nothing, and the plan is checked for safety only.

use std::collections::BTreeMap;

use rondo_ir::collective::{
    Buffer, Collective, CollectiveKind, CollectiveSpec, CustomCollective, DataType, Place, ReduceOperator,
};
use rondo_ir::index::RankId;
use rondo_ir::onesided::{
    Counter, Elements, OneSidedKind, OneSidedOperation, OneSidedProgram, OneSidedRank, OneSidedThreadblock, Request,
    Site, Transfer,
};
use rondo_ir::program::SourceSpan;
use rondo_ir::units::Bytes;

use super::model::{ChannelType, Gpu, Op, OpName, Operand, Plan, Tb};
use super::rules::{self, Ordinals};
use super::{Claimed, Lowered};

/// Slots of one buffer that are modelled.
const MOST_SLOTS: u64 = 1 << 22;
/// Turns that are modelled.
const MOST_TURNS: u64 = 32;

/// A chunk number or count that is known to fit.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Why a plan cannot be decided, whatever else is found.
pub(super) fn doubts(plan: &Plan) -> Vec<String> {
    let mut doubts: Vec<String> = Vec::new();
    let mut doubt = |text: String| {
        if !doubts.contains(&text) {
            doubts.push(text);
        }
    };
    let mut loops: Vec<((u64, u64), bool)> = Vec::new();
    let (mut packets, mut data) = (false, false);
    for (rank, gpu) in (0_u32..).zip(&plan.gpus) {
        for tb in &gpu.tbs {
            for op in all_ops(tb) {
                let memory = op.channel_type == Some(ChannelType::Memory);
                match op.name {
                    OpName::PutWithSignal | OpName::PutWithSignalAndFlush if memory => {
                        doubt(format!(
                            "`{}` on a memory channel: as meant it signals, by reading it does not",
                            op.name.name()
                        ));
                    }
                    OpName::Get if op.sources.iter().zip(&op.targets).any(|(s, t)| s.index != t.index) => {
                        doubt("`get` with unequal offsets: by reading the runtime swaps them".to_owned());
                    }
                    OpName::RelaxedSignal if op.channel_type == Some(ChannelType::Port) => {
                        doubt("`rlxsignal` on a port channel: what it orders is not known".to_owned());
                    }
                    _ => {}
                }
                for (operand, packet) in with_packets(op) {
                    let place = rules::resolve(gpu, rank, tb, op, operand);
                    if let Some(rules::Place::One(_, Buffer::Scratch) | rules::Place::Group(_, Buffer::Scratch)) = place
                    {
                        *(if packet { &mut packets } else { &mut data }) = true;
                    }
                }
            }
            for op in tb.ops.iter().filter(|op| op.name == OpName::Pipeline) {
                let Some(context) = op.iteration else { continue };
                let syncs = op.inner.iter().any(|op| {
                    op.name.serves_channels()
                        || matches!(
                            op.name,
                            OpName::SemAcquire
                                | OpName::SemRelease
                                | OpName::Barrier
                                | OpName::PutWithSignal
                                | OpName::PutWithSignalAndFlush
                        )
                        || with_packets(op).any(|(_, packet)| packet)
                });
                loops.push((context, syncs));
                if op.inner.iter().any(|op| op.group.is_some()) {
                    doubt("a thread-block group inside a pipeline: the order of the two cuts is not known".to_owned());
                }
                let sizes =
                    op.inner.iter().flat_map(|op| op.sources.iter().chain(&op.targets)).map(|operand| operand.size);
                if sizes.into_iter().any(|size| size != context.1) {
                    doubt("a pipeline whose operands are not as long as its num_chunks".to_owned());
                }
            }
        }
    }
    if packets && data {
        doubt("scratch holds packets and data, whose places overlap".to_owned());
    }
    if (packets || data) && plan.reuse_resources {
        doubt("reuse_resources: scratch is a ring that large messages wrap around".to_owned());
    }
    let first = loops.first().map(|(context, _)| *context);
    if loops.iter().any(|(_, syncs)| *syncs) && loops.iter().any(|(context, _)| Some(*context) != first) {
        doubt("pipelines of different length synchronise inside".to_owned());
    }
    doubts.extend(group_doubt(plan));
    doubts
}

/// Slices are cut by bytes, so two ops agree about a slice's end only if they cut the same range in the same way.
fn group_doubt(plan: &Plan) -> Option<String> {
    type Cut = (u64, u64, u64);
    let mut cuts: BTreeMap<(u32, Buffer), (Vec<Cut>, Vec<Cut>)> = BTreeMap::new();
    for (rank, gpu) in (0_u32..).zip(&plan.gpus) {
        for tb in &gpu.tbs {
            for op in all_ops(tb) {
                for operand in op.sources.iter().chain(&op.targets) {
                    let owners = match rules::resolve(gpu, rank, tb, op, operand) {
                        Some(rules::Place::One(rank, buffer)) => vec![(rank, buffer)],
                        Some(rules::Place::Group(ranks, buffer)) => {
                            ranks.iter().map(|&r| (narrow(r), buffer)).collect()
                        }
                        None => continue,
                    };
                    let parts = op.group.map_or(1, |(_, parts)| parts);
                    for owner in owners {
                        // In place input and output are one; treating them as one here is never wrong.
                        let key = (owner.0, if owner.1 == Buffer::Scratch { Buffer::Scratch } else { Buffer::Input });
                        let cut = (operand.index, operand.index + operand.size, parts);
                        let (sliced, whole) = cuts.entry(key).or_default();
                        if 1 < parts { sliced.push(cut) } else { whole.push(cut) }
                    }
                }
            }
        }
    }
    let disagrees = cuts.values_mut().any(|(sliced, whole)| {
        sliced.sort_unstable();
        sliced.dedup();
        // Two different cuts of ranges that overlap.
        if sliced.windows(2).any(|pair| pair[1].0 < pair[0].1) {
            return true;
        }
        // A whole operand that begins or ends within a sliced range.
        whole.iter().any(|&(start, end, _)| {
            let at = sliced.partition_point(|&(_, until, _)| until <= start);
            let inside = |edge: u64, cut: &Cut| cut.0 < edge && edge < cut.1;
            sliced.get(at).is_some_and(|cut| inside(start, cut))
                || sliced[..sliced.partition_point(|&(from, ..)| from < end)].last().is_some_and(|cut| inside(end, cut))
        })
    });
    disagrees.then(|| "thread-block groups cut overlapping ranges in different ways".to_owned())
}

fn all_ops(tb: &Tb) -> impl Iterator<Item = &Op> {
    tb.ops.iter().flat_map(|op| std::iter::once(op).chain(&op.inner))
}

/// Operands of an operation, and whether each is packets.
fn with_packets(op: &Op) -> impl Iterator<Item = (&Operand, bool)> {
    let sources = op.sources.iter().enumerate().map(|(at, operand)| (operand, source_is_packet(op, at)));
    sources.chain(op.targets.iter().enumerate().map(|(at, operand)| (operand, target_is_packet(op, at))))
}

fn source_is_packet(op: &Op, at: usize) -> bool {
    match op.name {
        OpName::PutPackets => op.channel_type == Some(ChannelType::Port),
        OpName::ReadPutPackets | OpName::UnpackPackets => true,
        OpName::ReducePackets
        | OpName::ReduceSendPackets
        | OpName::ReduceCopyPackets
        | OpName::ReduceCopySendPackets => 0 < at,
        _ => false,
    }
}

fn target_is_packet(op: &Op, at: usize) -> bool {
    match op.name {
        OpName::PutPackets | OpName::ReadPutPackets | OpName::CopyPackets | OpName::GroupStorePackets => true,
        OpName::ReduceSendPackets | OpName::ReduceCopyPackets | OpName::ReduceCopySendPackets => 0 < at,
        _ => false,
    }
}

/// Numbers of turns that must be tried.
pub(super) fn turns(plan: &Plan) -> Result<Vec<u32>, String> {
    let mut credit = 0_u64;
    let mut any = false;
    let mut syncs = false;
    for gpu in &plan.gpus {
        for tb in &gpu.tbs {
            any |= tb.ops.iter().any(|op| op.name == OpName::Pipeline);
            let inner = tb.ops.iter().flat_map(|op| &op.inner);
            let releases = |op: &Op| op.name.serves_channels() || !op.semaphores.is_empty();
            syncs |= inner.clone().any(|op| releases(op) || with_packets(op).any(|(_, packet)| packet));
        }
    }
    if !any {
        return Ok(vec![1]);
    }
    if syncs {
        for gpu in &plan.gpus {
            credit = gpu.semaphores.iter().fold(credit, |sum, &initial| sum.saturating_add(initial));
            // Signals outside loops of counters that are used inside loops.
            let inside = |wanted: &Op| {
                gpu.tbs.iter().flat_map(|tb| tb.ops.iter().flat_map(|op| &op.inner)).any(|op| op.name == wanted.name)
            };
            let outside = gpu.tbs.iter().flat_map(|tb| &tb.ops);
            let signals = outside.filter(|op| {
                matches!(op.name, OpName::Signal | OpName::RelaxedSignal | OpName::SemRelease) && inside(op)
            });
            credit = credit.saturating_add(signals.count() as u64);
        }
    }
    let most = credit.saturating_mul(2).saturating_add(3);
    if MOST_TURNS < most {
        return Err(format!("pipelines may run {credit} signals ahead of each other; more than are modelled"));
    }
    Ok(vec![1, narrow(most)])
}

/// What the plan says that it does.
pub(super) fn claimed(plan: &Plan, most: u64) -> Result<Claimed, (&'static str, String)> {
    let n = plan.gpus.len() as u64;
    let (input, output) = plan.gpus.first().map_or((0, 0), |gpu| (gpu.input, gpu.output));
    let same = plan.gpus.iter().all(|gpu| (gpu.input, gpu.output) == (input, output));
    let (kind, chunks, due) = match plan.collective.as_str() {
        "allreduce" => (CollectiveKind::AllReduce, input, (input, input)),
        "allgather" => (CollectiveKind::AllGather, input, (input, n.saturating_mul(input))),
        "reducescatter" => (CollectiveKind::ReduceScatter, output, (n.saturating_mul(output), output)),
        "alltoall" => (CollectiveKind::AllToAll { matrix: None }, input / n.max(1), (input / n.max(1) * n, input)),
        _ => return Ok(Claimed { collective: custom(plan, most)?, chunks: 1, promises: false, in_place_open: false }),
    };
    if !same || due != (input, output) || chunks == 0 {
        let wrong = plan.gpus.iter().find(|gpu| (gpu.input, gpu.output) != due).or(plan.gpus.first());
        let (i, o) = wrong.map_or((0, 0), |gpu| (gpu.input, gpu.output));
        return Err((
            "B219",
            format!("input_chunks {i} and output_chunks {o} are none of {} among {n} ranks", plan.collective),
        ));
    }
    let in_place_open = plan.in_place && !kind.has_in_place_form();
    let spec = CollectiveSpec { in_place: plan.in_place && !in_place_open, ..spec(kind, narrow(n), input.max(output)) };
    let collective = Collective::new(spec).map_err(|error| ("B219", error.to_string()))?;
    Ok(Claimed { collective, chunks: narrow(chunks), promises: true, in_place_open })
}

fn spec(kind: CollectiveKind, ranks: u32, chunks: u64) -> CollectiveSpec {
    let dtype = DataType::Float32;
    CollectiveSpec {
        kind,
        ranks,
        operator: ReduceOperator::Sum,
        dtype,
        buffer_size: Bytes(chunks.saturating_mul(dtype.bytes())),
        in_place: false,
        input_writable: false,
    }
}

/// Whether the two buffers of a plan without a promise are one: then everything is called input.
fn one_buffer(plan: &Plan) -> bool {
    plan.in_place
}

/// All input defined, no output promised.
fn custom(plan: &Plan, most: u64) -> Result<Collective, (&'static str, String)> {
    let total = plan.gpus.iter().fold(0_u64, |sum, gpu| sum.saturating_add(gpu.input).saturating_add(gpu.output));
    if most < total {
        return Err(("V160", format!("{total} chunks are too many to follow")));
    }
    let mut custom = CustomCollective { input_slots: Vec::new(), output: Vec::new() };
    for gpu in &plan.gpus {
        let (input, output) = if one_buffer(plan) { (gpu.input.max(gpu.output), 0) } else { (gpu.input, gpu.output) };
        custom.input_slots.push(narrow(input));
        custom.output.push(vec![None; usize::try_from(output).unwrap_or(0)]);
    }
    let ranks = narrow(plan.gpus.len() as u64);
    let spec = CollectiveSpec { input_writable: true, ..spec(CollectiveKind::Custom(custom), ranks, total) };
    Collective::new(spec).map_err(|error| ("B219", error.to_string()))
}

/// Writes the program.
pub(super) fn lower(
    plan: &Plan,
    claimed: &Claimed,
    turns: u32,
    lines: &dyn Fn(usize) -> SourceSpan,
) -> Result<Lowered, String> {
    let groups = plan.gpus.iter().flat_map(|gpu| &gpu.tbs).flat_map(all_ops).filter_map(|op| op.group);
    let mut parts = 1_u64;
    for (_, size) in groups {
        let size = size.max(1);
        parts = parts / num_integer::gcd(parts, size) * size;
        if 1024 < parts {
            return Err("thread-block groups need more than 1024 slices of a chunk".to_owned());
        }
    }
    let factor = parts * u64::from(turns);
    let longest = plan.gpus.iter().map(|gpu| gpu.input.max(gpu.output).max(gpu.scratch)).max().unwrap_or(0);
    if longest.checked_mul(factor).is_none_or(|slots| MOST_SLOTS < slots) {
        return Err(format!("a buffer of {longest} chunks, each cut into {factor}, is too large to follow"));
    }
    let mut lowerer = Lowerer {
        plan,
        factor,
        turns: u64::from(turns),
        counters: Vec::new(),
        channel_counters: BTreeMap::new(),
        semaphores: BTreeMap::new(),
        queues: BTreeMap::new(),
        ordinals: plan.gpus.iter().map(Ordinals::new).collect(),
        one_buffer: !claimed.promises && one_buffer(plan),
        lines,
    };
    let mut ranks = Vec::with_capacity(plan.gpus.len());
    for (rank, gpu) in (0_u32..).zip(&plan.gpus) {
        let mut threadblocks = Vec::with_capacity(gpu.tbs.len());
        for tb in &gpu.tbs {
            let mut operations = Vec::new();
            for (number, op) in (0_u32..).zip(&tb.ops) {
                if op.name == OpName::Pipeline {
                    for turn in 0..turns {
                        for (inner, op) in (0_u32..).zip(&op.inner) {
                            lowerer.op(rank, gpu, tb, op, Some(turn), (number, Some(inner)), &mut operations);
                        }
                    }
                } else {
                    lowerer.op(rank, gpu, tb, op, None, (number, None), &mut operations);
                }
            }
            threadblocks.push(OneSidedThreadblock { operations, span: lines(tb.span.start) });
        }
        ranks.push(OneSidedRank { scratch_slots: narrow(gpu.scratch * factor), threadblocks });
    }
    let chunks = u64::from(claimed.chunks) * factor;
    let program = OneSidedProgram {
        name: plan.name.clone(),
        chunks: narrow(chunks),
        slots_per_chunk: narrow(factor),
        scratch_halves: if plan.double_scratch { 2 } else { 1 },
        ranks,
        queues: narrow(lowerer.queues.len() as u64),
        counters: lowerer.counters,
    };
    Ok(Lowered { program, turns })
}

struct Lowerer<'a> {
    plan: &'a Plan,
    /// Slots a chunk.
    factor: u64,
    turns: u64,
    counters: Vec<Counter>,
    /// (type, waiting rank, signalling rank, ordinal).
    channel_counters: BTreeMap<(ChannelType, u32, u32, u32), u32>,
    semaphores: BTreeMap<(u32, u64), u32>,
    queues: BTreeMap<(u32, usize), u32>,
    ordinals: Vec<Ordinals>,
    one_buffer: bool,
    lines: &'a dyn Fn(usize) -> SourceSpan,
}

impl Lowerer<'_> {
    /// Counter of a channel as used by `rank`.
    fn channel_counter(&mut self, rank: u32, gpu: &Gpu, tb: &Tb, kind: ChannelType, id: u64, waits: bool) -> u32 {
        let (number, peer) = rules::channel(gpu, tb, kind, id).unwrap_or((0, rank));
        let ordinals = self.ordinals.get(rank as usize).and_then(|o| o.of.get(kind as usize));
        let ordinal = ordinals.and_then(|of| of.get(number)).copied().unwrap_or(0);
        let (waiter, signaller) = if waits { (rank, peer) } else { (peer, rank) };
        *self.channel_counters.entry((kind, waiter, signaller, ordinal)).or_insert_with(|| {
            let name = format!("{} channel {ordinal} from r{signaller} to r{waiter}", kind.name());
            self.counters.push(Counter { name, initial: 0 });
            narrow(self.counters.len() as u64) - 1
        })
    }

    fn semaphore(&mut self, rank: u32, gpu: &Gpu, id: u64) -> u32 {
        *self.semaphores.entry((rank, id)).or_insert_with(|| {
            let initial = usize::try_from(id).ok().and_then(|id| gpu.semaphores.get(id)).copied().unwrap_or(0);
            self.counters.push(Counter { name: format!("semaphore {id} of r{rank}"), initial });
            narrow(self.counters.len() as u64) - 1
        })
    }

    fn queue(&mut self, rank: u32, gpu: &Gpu, tb: &Tb, id: u64) -> u32 {
        let number = rules::channel(gpu, tb, ChannelType::Port, id).map_or(0, |(number, _)| number);
        let next = narrow(self.queues.len() as u64);
        *self.queues.entry((rank, number)).or_insert(next)
    }

    /// First slot and number of slots of an operand.
    fn range(&self, op: &Op, operand: &Operand, turn: Option<u32>) -> (u32, u32) {
        let (mut start, mut count) = (operand.index * self.factor, operand.size * self.factor);
        if let Some(turn) = turn {
            count /= self.turns;
            start += count * u64::from(turn);
        }
        if let Some((id, parts)) = op.group {
            count /= parts.max(1);
            start += count * id;
        }
        (narrow(start), narrow(count))
    }

    fn sites(
        &self,
        rank: u32,
        gpu: &Gpu,
        tb: &Tb,
        op: &Op,
        operand: &Operand,
        turn: Option<u32>,
        packet: bool,
    ) -> Vec<Site> {
        let (start, _) = self.range(op, operand, turn);
        let site = |rank: u32, buffer: Buffer| {
            let buffer = if self.one_buffer && buffer == Buffer::Output { Buffer::Input } else { buffer };
            Site { rank: RankId::from(rank), place: Place::new(buffer, start), packet }
        };
        match rules::resolve(gpu, rank, tb, op, operand) {
            Some(rules::Place::One(rank, buffer)) => vec![site(rank, buffer)],
            Some(rules::Place::Group(ranks, buffer)) => ranks.iter().map(|&rank| site(narrow(rank), buffer)).collect(),
            None => Vec::new(),
        }
    }

    fn transfers(&self, rank: u32, gpu: &Gpu, tb: &Tb, op: &Op, turn: Option<u32>) -> Vec<Transfer> {
        let sources = |range: std::ops::Range<usize>| -> Vec<Site> {
            let sites = op.sources.iter().enumerate().skip(range.start).take(range.len());
            sites
                .flat_map(|(at, operand)| self.sites(rank, gpu, tb, op, operand, turn, source_is_packet(op, at)))
                .collect()
        };
        let targets = |range: std::ops::Range<usize>| -> Vec<Site> {
            let sites = op.targets.iter().enumerate().skip(range.start).take(range.len());
            sites
                .flat_map(|(at, operand)| self.sites(rank, gpu, tb, op, operand, turn, target_is_packet(op, at)))
                .collect()
        };
        let count = |at: usize| op.targets.get(at).map_or(0, |operand| self.range(op, operand, turn).1);
        match op.name {
            OpName::Reduce
            | OpName::ReduceSend
            | OpName::ReadReduce
            | OpName::ReadReduceSend
            | OpName::ReducePackets
            | OpName::ReduceSendPackets
            | OpName::ReduceCopyPackets
            | OpName::ReduceCopySendPackets
            | OpName::ReadPutPackets => {
                let (s, t) = (sources(0..op.sources.len()), targets(0..op.targets.len()));
                vec![Transfer { sources: s, targets: t, count: count(0) }]
            }
            _ => (0..op.targets.len())
                .map(|at| Transfer { sources: sources(at..at + 1), targets: targets(at..at + 1), count: count(at) })
                .collect(),
        }
    }

    fn op(
        &mut self,
        rank: u32,
        gpu: &Gpu,
        tb: &Tb,
        op: &Op,
        turn: Option<u32>,
        number: (u32, Option<u32>),
        out: &mut Vec<OneSidedOperation>,
    ) {
        let span = (self.lines)(op.span.start);
        let mut push = |kind: OneSidedKind| out.push(OneSidedOperation { kind, number, span });
        let channel_type = op.channel_type.unwrap_or(ChannelType::Memory);
        let port = channel_type == ChannelType::Port;
        match op.name {
            OpName::Nop => push(OneSidedKind::Sync),
            OpName::Barrier => {
                if let Some((id, count)) = op.barrier {
                    push(OneSidedKind::Barrier { barrier: narrow(id), threadblocks: narrow(count) });
                }
            }
            OpName::Signal | OpName::RelaxedSignal => {
                let ids = op.channel_ids.iter();
                let counters: Vec<u32> =
                    ids.map(|&id| self.channel_counter(rank, gpu, tb, channel_type, id, false)).collect();
                if port {
                    let queues = op.channel_ids.iter().map(|&id| self.queue(rank, gpu, tb, id));
                    let requests = queues.zip(counters).map(|(queue, signal)| Request {
                        queue,
                        transfer: None,
                        signal: Some(signal),
                    });
                    let requests = requests.collect();
                    push(OneSidedKind::Post { requests });
                } else {
                    push(OneSidedKind::Signal { counters, relaxed: op.name == OpName::RelaxedSignal });
                }
            }
            OpName::Wait | OpName::RelaxedWait => {
                let ids = op.channel_ids.iter();
                let counters = ids.map(|&id| self.channel_counter(rank, gpu, tb, channel_type, id, true)).collect();
                push(OneSidedKind::Wait { counters, relaxed: op.name == OpName::RelaxedWait });
            }
            OpName::SemRelease | OpName::SemAcquire => {
                let counters = op.semaphores.iter().map(|&id| self.semaphore(rank, gpu, id)).collect();
                push(match op.name {
                    OpName::SemRelease => OneSidedKind::Signal { counters, relaxed: false },
                    _ => OneSidedKind::Wait { counters, relaxed: false },
                });
            }
            OpName::Flush => {
                let queues = op.channel_ids.iter().map(|&id| self.queue(rank, gpu, tb, id)).collect();
                push(OneSidedKind::Flush { queues, suspect: true });
            }
            OpName::Put | OpName::PutWithSignal | OpName::PutWithSignalAndFlush | OpName::PutPackets if port => {
                let signals = matches!(op.name, OpName::PutWithSignal | OpName::PutWithSignalAndFlush);
                let transfers = self.transfers(rank, gpu, tb, op, turn);
                let requests: Vec<Request> = transfers
                    .into_iter()
                    .zip(&op.channel_ids)
                    .map(|(transfer, &id)| Request {
                        queue: self.queue(rank, gpu, tb, id),
                        transfer: Some(transfer),
                        signal: signals.then(|| self.channel_counter(rank, gpu, tb, channel_type, id, false)),
                    })
                    .collect();
                let queues = requests.iter().map(|request| request.queue).collect();
                push(OneSidedKind::Post { requests });
                if op.name == OpName::PutWithSignalAndFlush {
                    push(OneSidedKind::Flush { queues, suspect: false });
                }
            }
            OpName::Pipeline => {}
            _ => {
                let elements = match op.name {
                    OpName::Put
                    | OpName::PutWithSignal
                    | OpName::PutWithSignalAndFlush
                    | OpName::Get
                    | OpName::Copy => Elements::Copy,
                    OpName::Reduce | OpName::ReduceSend | OpName::ReadReduce | OpName::ReadReduceSend => Elements::Sum,
                    OpName::GroupLoadReduceStore | OpName::GroupStore => Elements::Multicast,
                    _ => Elements::Packet,
                };
                push(OneSidedKind::Move { transfers: self.transfers(rank, gpu, tb, op, turn), elements });
                if matches!(op.name, OpName::PutWithSignal | OpName::PutWithSignalAndFlush) {
                    // As meant; the plan is left undecided for it.
                    push(OneSidedKind::Sync);
                    let ids = op.channel_ids.iter();
                    let counters =
                        ids.map(|&id| self.channel_counter(rank, gpu, tb, channel_type, id, false)).collect();
                    push(OneSidedKind::Signal { counters, relaxed: false });
                }
            }
        }
        debug_assert!(self.plan.gpus.len() == self.ordinals.len());
    }
}
