//! What a plan must keep to before it can mean anything: indices, shapes, limits. And what is only suspected.

use std::collections::BTreeMap;

use rondo_ir::collective::Buffer;
use rondo_ir::diagnostic::Diagnostic;

use super::Faults;
use super::model::{ChannelType, Gpu, Op, OpName, Operand, Plan, Target, Tb};
use super::profile::Profile;

/// What stands on a side of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A buffer of the own rank.
    Local,
    /// Scratch of the own rank.
    LocalScratch,
    /// A buffer of a peer.
    Remote,
    /// Scratch of a peer.
    RemoteScratch,
    /// A multicast place.
    Switch,
}

impl Kind {
    const fn words(self) -> &'static str {
        match self {
            Self::Local => "a local buffer",
            Self::LocalScratch => "local scratch",
            Self::Remote => "a buffer of a peer",
            Self::RemoteScratch => "scratch of a peer",
            Self::Switch => "a place of a switch channel",
        }
    }
}

/// Operands that an operation takes: the first ones, then any number of the last kind.
struct Shape {
    sources: (&'static [Kind], Option<Kind>),
    targets: (&'static [Kind], Option<Kind>),
    /// Source j belongs to target j, so there must be as many.
    pairs: bool,
    channels: &'static [ChannelType],
}

const fn shape(op: OpName) -> Shape {
    use ChannelType::{Memory, Port, Switch};
    const L: Kind = Kind::Local;
    const S: Kind = Kind::LocalScratch;
    const R: Kind = Kind::Remote;
    const P: Kind = Kind::RemoteScratch;
    const M: Kind = Kind::Switch;
    let (sources, targets, pairs, channels): ((&[Kind], Option<Kind>), (&[Kind], Option<Kind>), bool, &[ChannelType]) =
        match op {
            OpName::Nop | OpName::Barrier | OpName::SemRelease | OpName::SemAcquire | OpName::Pipeline => {
                ((&[], None), (&[], None), false, &[])
            }
            OpName::Signal | OpName::Wait | OpName::RelaxedSignal | OpName::RelaxedWait => {
                ((&[], None), (&[], None), false, &[Memory, Port])
            }
            OpName::Flush => ((&[], None), (&[], None), false, &[Port]),
            OpName::Put | OpName::PutWithSignal => ((&[L], Some(L)), (&[R], Some(R)), true, &[Memory, Port]),
            OpName::PutWithSignalAndFlush => ((&[L], Some(L)), (&[R], Some(R)), true, &[Memory, Port]),
            OpName::Get => ((&[R], Some(R)), (&[L], Some(L)), true, &[Memory]),
            OpName::Copy => ((&[L], Some(L)), (&[L], Some(L)), true, &[]),
            OpName::Reduce => ((&[L, L], Some(L)), (&[L], None), false, &[]),
            OpName::ReduceSend => ((&[L, L], Some(L)), (&[L, R], Some(R)), false, &[Memory]),
            OpName::ReadReduce => ((&[L, R], Some(R)), (&[L], None), false, &[Memory]),
            OpName::ReadReduceSend => ((&[L, R], Some(R)), (&[L, R], Some(R)), false, &[Memory]),
            OpName::PutPackets => ((&[L], Some(L)), (&[P], Some(P)), true, &[Memory, Port]),
            OpName::ReadPutPackets => ((&[S], None), (&[P], Some(P)), false, &[Memory]),
            OpName::CopyPackets => ((&[L], Some(L)), (&[S], Some(S)), true, &[]),
            OpName::UnpackPackets => ((&[S], Some(S)), (&[L], Some(L)), true, &[]),
            OpName::ReducePackets => ((&[L, S], Some(S)), (&[L], None), false, &[]),
            OpName::ReduceSendPackets => ((&[L, S], Some(S)), (&[L, P], Some(P)), false, &[Memory]),
            OpName::ReduceCopyPackets => ((&[L, S], Some(S)), (&[L, S], None), false, &[]),
            OpName::ReduceCopySendPackets => ((&[L, S], Some(S)), (&[L, S, P], Some(P)), false, &[Memory]),
            OpName::GroupLoadReduceStore => ((&[M], Some(M)), (&[M], Some(M)), true, &[Switch]),
            OpName::GroupStore | OpName::GroupStorePackets => ((&[L], Some(L)), (&[M], Some(M)), true, &[Switch]),
        };
    Shape { sources, targets, pairs, channels }
}

/// Where an operand leads: the rank and buffer (of a switch channel: of every rank of its group).
pub(super) enum Place<'p> {
    One(u32, Buffer),
    Group(&'p [u64], Buffer),
}

/// Resolves an operand; `None` if an index on the way is out of range.
pub(super) fn resolve<'p>(gpu: &'p Gpu, rank: u32, tb: &Tb, op: &Op, operand: &Operand) -> Option<Place<'p>> {
    match operand.target {
        Target::Local(buffer) => Some(Place::One(rank, buffer)),
        Target::Remote(id) => {
            let kind = op.channel_type.filter(|&kind| kind != ChannelType::Switch)? as usize;
            let reference = *tb.references[kind].get(usize::try_from(id).ok()?)?;
            let remote = gpu.remotes.get(usize::try_from(reference).ok()?)?;
            Some(Place::One(u32::try_from(remote.rank).ok()?, remote.buffer))
        }
        Target::Switch(id) => {
            let channel = *tb.channels[2].get(usize::try_from(id).ok()?)?;
            let switch = gpu.switches.get(usize::try_from(channel).ok()?)?;
            Some(Place::Group(&switch.ranks, switch.buffer))
        }
    }
}

/// Channel of the gpu that a threadblock calls `id`, with its peer.
pub(super) fn channel(gpu: &Gpu, tb: &Tb, kind: ChannelType, id: u64) -> Option<(usize, u32)> {
    let number = usize::try_from(*tb.channels[kind as usize].get(usize::try_from(id).ok()?)?).ok()?;
    let peer = *gpu.peers.get(kind as usize)?.get(number)?;
    Some((number, u32::try_from(peer).ok()?))
}

/// The channels of one rank, by number: how many earlier ones of the type lead to the same peer; and how many lead to each
/// peer in all.
pub(super) struct Ordinals {
    pub(super) of: [Vec<u32>; 2],
    counts: [BTreeMap<u64, u32>; 2],
}

impl Ordinals {
    pub(super) fn new(gpu: &Gpu) -> Self {
        let mut counts = [BTreeMap::new(), BTreeMap::new()];
        let of = [0, 1].map(|kind| {
            let number = |&peer: &u64| {
                let count: &mut u32 = counts[kind].entry(peer).or_default();
                *count += 1;
                *count - 1
            };
            gpu.peers[kind].iter().map(number).collect()
        });
        Self { of, counts }
    }

    pub(super) fn channels_to(&self, kind: ChannelType, peer: u64) -> u32 {
        self.counts.get(kind as usize).and_then(|counts| counts.get(&peer)).copied().unwrap_or(0)
    }
}

struct Rules<'a> {
    plan: &'a Plan,
    faults: &'a mut Faults,
    profile: &'a Profile,
    /// Limits that the runtime does not check are errors.
    strict: bool,
    ordinals: Vec<Ordinals>,
    /// By rank: how often it lists each switch group.
    groups: Vec<BTreeMap<(&'a [u64], Buffer), u32>>,
}

/// Checks a plan. Warnings do not stop it.
pub(super) fn check(plan: &Plan, profile: &Profile, strict: bool, faults: &mut Faults) {
    let ordinals = plan.gpus.iter().map(Ordinals::new).collect();
    let groups = plan.gpus.iter().map(|gpu| {
        let mut groups = BTreeMap::new();
        for switch in &gpu.switches {
            *groups.entry((switch.ranks.as_slice(), switch.buffer)).or_default() += 1;
        }
        groups
    });
    Rules { plan, faults, profile, strict, ordinals, groups: groups.collect() }.plan();
}

impl Rules<'_> {
    fn fault(&mut self, code: &'static str, span: &std::ops::Range<usize>, message: impl Into<String>) {
        self.faults.add(Diagnostic::error(code, message), span.clone());
    }

    fn suspect(&mut self, code: &'static str, span: &std::ops::Range<usize>, message: impl Into<String>) {
        let finding = Diagnostic::warning(code, message).note("by reading the kernel source; not run on a GPU");
        self.faults.add(finding, span.clone());
    }

    fn over(&mut self, span: &std::ops::Range<usize>, what: &str, given: u64, limit: u64) {
        if given <= limit {
            return;
        }
        let message = format!("{what}: {given}, but the runtime has room for {limit} and does not check");
        let finding = Diagnostic::error("B213", message).note(self.profile.version);
        let finding = if self.strict {
            finding
        } else {
            Diagnostic { severity: rondo_ir::diagnostic::Severity::Warning, ..finding }
        };
        self.faults.add(finding.note("by reading the kernel source; not run on a GPU"), span.clone());
    }

    fn plan(&mut self) {
        let plan = self.plan;
        let start = 0..1;
        if plan.gpus.is_empty() {
            self.fault("B204", &start, "the plan has no gpus");
        }
        if plan.max_bytes < plan.min_bytes {
            let message = format!("no size is between {} and {} bytes", plan.min_bytes, plan.max_bytes);
            self.fault("B218", &start, message);
        }
        if plan.alignment == 0 {
            self.fault("B218", &start, "buffer_alignment is 0");
        } else if !plan.alignment.is_multiple_of(16) {
            let message = format!(
                "buffer_alignment is {}: tails that are no multiple of 16 bytes are summed wrongly",
                plan.alignment
            );
            self.suspect("B236", &start, message);
        }
        if plan.threads == 0 || 1024 < plan.threads {
            self.fault(
                "B218",
                &start,
                format!("num_threads_per_block is {}; a block has 1 to 1024 threads", plan.threads),
            );
        }
        for (rank, gpu) in (0_u32..).zip(&plan.gpus) {
            self.gpu(rank, gpu);
        }
    }

    fn gpu(&mut self, rank: u32, gpu: &Gpu) {
        let plan = self.plan;
        let ranks = plan.gpus.len() as u64;
        for (what, given) in [("input_chunks", gpu.input), ("output_chunks", gpu.output)] {
            if given == 0 {
                self.fault("B205", &gpu.span, format!("{what} of gpu {rank} is 0, by which the runtime divides"));
            }
        }
        let wrong = |peer: u64| ranks <= peer || peer == u64::from(rank);
        for peer in gpu.peers.iter().flatten().copied().filter(|&peer| wrong(peer)) {
            self.fault(
                "B206",
                &gpu.span,
                format!("a channel of gpu {rank} leads to rank {peer}; there are {ranks} ranks"),
            );
        }
        for remote in gpu.remotes.iter().filter(|remote| wrong(remote.rank)) {
            let message = format!("a remote buffer of gpu {rank} is at rank {}; there are {ranks} ranks", remote.rank);
            self.fault("B206", &gpu.span, message);
        }
        for switch in &gpu.switches {
            let mut sorted = switch.ranks.clone();
            sorted.sort_unstable();
            let message = if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                "names a rank twice".to_owned()
            } else if sorted.last().is_none_or(|&last| ranks <= last) {
                format!("names a rank that does not exist; there are {ranks}")
            } else if !sorted.contains(&u64::from(rank)) {
                format!("does not contain its own rank {rank}")
            } else {
                let key = (switch.ranks.as_slice(), switch.buffer);
                let count = |rank: usize| self.groups.get(rank).and_then(|groups| groups.get(&key)).copied();
                let own = count(rank as usize);
                let peer = switch.ranks.iter().find(|&&peer| usize::try_from(peer).ok().and_then(count) != own);
                match peer {
                    None => continue,
                    Some(peer) => format!("is not the same at rank {peer}"),
                }
            };
            self.fault("B214", &switch.span, format!("a switch group of gpu {rank} {message}"));
        }
        for (number, tb) in gpu.tbs.iter().enumerate() {
            self.threadblock(rank, gpu, number, tb);
        }
        self.barriers(rank, gpu);
    }

    fn threadblock(&mut self, rank: u32, gpu: &Gpu, number: usize, tb: &Tb) {
        let what = format!("threadblock {number} of gpu {rank}");
        for kind in ChannelType::ALL {
            let list = &tb.channels[kind as usize];
            let all = match kind {
                ChannelType::Switch => gpu.switches.len(),
                _ => gpu.peers[kind as usize].len(),
            };
            for id in list.iter().filter(|&&id| all as u64 <= id) {
                let message = format!("{what} names {} channel {id}; the gpu has {all}", kind.name());
                self.fault("B206", &tb.span, message);
            }
            self.over(
                &tb.span,
                &format!("{} channels of {what}", kind.name()),
                list.len() as u64,
                self.profile.channels as u64,
            );
            let Some(list) = tb.references.get(kind as usize) else { continue };
            for &id in list {
                match usize::try_from(id).ok().and_then(|id| gpu.remotes.get(id)) {
                    None => {
                        let message = format!("{what} names remote buffer {id}; the gpu has {}", gpu.remotes.len());
                        self.fault("B206", &tb.span, message);
                    }
                    Some(remote) if !remote.access[kind as usize] => {
                        let message = format!(
                            "{what} reaches remote buffer {id} by {} channel, which its access_channel_types lack",
                            kind.name()
                        );
                        self.fault("B209", &tb.span, message);
                    }
                    Some(_) => {}
                }
            }
            let what = format!("remote buffers by {} channel of {what}", kind.name());
            self.over(&tb.span, &what, list.len() as u64, self.profile.remote_buffers as u64);
        }
        let operations: usize = tb.ops.iter().map(|op| op.inner.len().max(1)).sum();
        if self.profile.operations < operations {
            let limit = self.profile.operations;
            self.fault("B212", &tb.span, format!("{what} has {operations} operations; the runtime takes {limit}"));
        }
        for op in &tb.ops {
            self.op(rank, gpu, tb, op);
            for inner in &op.inner {
                self.op(rank, gpu, tb, inner);
            }
        }
    }

    fn op(&mut self, rank: u32, gpu: &Gpu, tb: &Tb, op: &Op) {
        let shape = shape(op.name);
        let name = op.name.name();
        match op.channel_type {
            None if shape.channels.is_empty() => {}
            None => {
                self.fault("B209", &op.span, format!("`{name}` has no channel_type"));
                return;
            }
            // A local operation does not look at it.
            Some(_) if shape.channels.is_empty() => {}
            Some(kind) if !shape.channels.contains(&kind) => {
                self.fault("B209", &op.span, format!("`{name}` does not run on a {} channel", kind.name()));
                return;
            }
            Some(_) => {}
        }
        self.sides(rank, gpu, tb, op, &shape);
        self.channels(rank, gpu, tb, op);
        let semaphores = matches!(op.name, OpName::SemRelease | OpName::SemAcquire);
        if semaphores {
            if op.semaphores.is_empty() {
                self.fault("B208", &op.span, format!("`{name}` names no semaphore"));
            }
            for id in op.semaphores.iter().filter(|&&id| gpu.semaphores.len() as u64 <= id) {
                let message = format!("`{name}` names semaphore {id}; the gpu has {}", gpu.semaphores.len());
                self.fault("B206", &op.span, message);
            }
            self.duplicates(op, &op.semaphores, "semaphore");
            self.threads(op, op.semaphores.len());
            let limit = self.profile.operation_semaphores as u64;
            self.over(&op.span, &format!("semaphores of a `{name}`"), op.semaphores.len() as u64, limit);
        }
        if let Some((id, size)) = op.group
            && size <= id
        {
            self.fault("B216", &op.span, format!("`{name}` does slice {id} of {size}"));
        }
        if let Some((unit, chunks)) = op.iteration {
            if unit == 0 || chunks == 0 {
                self.fault(
                    "B215",
                    &op.span,
                    format!("a pipeline of {chunks} chunks in units of {unit} bytes makes no turns"),
                );
            } else if !unit.is_multiple_of(self.plan.alignment.max(1)) {
                let message = format!("unit_size {unit} is no multiple of buffer_alignment {}", self.plan.alignment);
                self.suspect("B236", &op.span, message);
            }
        }
        self.suspicions(op);
    }

    fn suspicions(&mut self, op: &Op) {
        let memory = op.channel_type == Some(ChannelType::Memory);
        match op.name {
            OpName::Get => {
                if let Some((source, target)) = op.sources.iter().zip(&op.targets).find(|(s, t)| s.index != t.index) {
                    let message = format!(
                        "`get` from chunk {} to chunk {}: the runtime swaps the two offsets, so only equal ones are safe",
                        source.index, target.index
                    );
                    self.suspect("B231", &op.span, message);
                }
            }
            OpName::Flush => {
                self.suspect(
                    "B232",
                    &op.span,
                    "`flush` does nothing: it loops over outputs, of which it has none; use `pwsf`",
                );
            }
            OpName::PutWithSignal | OpName::PutWithSignalAndFlush if memory => {
                let message = format!("`{}` on a memory channel is a plain put: the signal is dropped", op.name.name());
                self.suspect("B233", &op.span, message);
            }
            OpName::GroupLoadReduceStore | OpName::GroupStore | OpName::GroupStorePackets => {
                let message = format!("`{}` needs sm_90; on anything older it silently does nothing", op.name.name());
                self.suspect("B235", &op.span, message);
            }
            _ => {}
        }
        if let Some(reduce) = &op.reduce_op
            && reduce != "sum"
        {
            let shown: String = reduce.chars().take(40).collect();
            self.suspect("B234", &op.span, format!("reduce_op `{shown}` is never read: the runtime adds"));
        }
        let put = matches!(op.name, OpName::Put | OpName::PutWithSignal | OpName::PutWithSignalAndFlush);
        if put && memory && op.sources.windows(2).any(|pair| pair[0].target != pair[1].target) {
            self.suspect("B237", &op.span, "a put over memory takes the buffer of its first source for all of them");
        }
    }

    /// Each entry of a list is served by a thread of its own.
    fn threads(&mut self, op: &Op, entries: usize) {
        if self.plan.threads < entries as u64 {
            let message = format!("`{}` needs {entries} threads; a block has {}", op.name.name(), self.plan.threads);
            self.fault("B218", &op.span, message);
        }
    }

    fn duplicates(&mut self, op: &Op, ids: &[u64], what: &str) {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            self.fault("B217", &op.span, format!("`{}` names {what} {} twice", op.name.name(), pair[0]));
        }
    }

    fn channels(&mut self, rank: u32, gpu: &Gpu, tb: &Tb, op: &Op) {
        let name = op.name.name();
        let Some(kind) = op.channel_type.filter(|&kind| kind != ChannelType::Switch) else { return };
        let with_channels = op.name.serves_channels()
            || matches!(op.name, OpName::PutWithSignal | OpName::PutWithSignalAndFlush)
            || (kind == ChannelType::Port && !op.targets.is_empty());
        if !with_channels {
            return;
        }
        if op.channel_ids.is_empty() {
            self.fault("B208", &op.span, format!("`{name}` names no channel"));
        }
        if op.name.serves_channels() {
            self.duplicates(op, &op.channel_ids, "channel");
        } else if op.channel_ids.len() != op.targets.len() {
            let message =
                format!("`{name}` has {} channels for {} destinations", op.channel_ids.len(), op.targets.len());
            self.fault("B208", &op.span, message);
        }
        self.threads(op, op.channel_ids.len());
        let limit = self.profile.operation_channels as u64;
        self.over(&op.span, &format!("channels of a `{name}`"), op.channel_ids.len() as u64, limit);
        for (at, &id) in op.channel_ids.iter().enumerate() {
            let Some((number, peer)) = channel(gpu, tb, kind, id) else {
                let count = tb.channels[kind as usize].len();
                if count as u64 <= id {
                    let message = format!("`{name}` names {} channel {id}; the threadblock has {count}", kind.name());
                    self.fault("B206", &op.span, message);
                }
                continue;
            };
            let Some(other) = self.ordinals.get(peer as usize) else { continue };
            let own = self.ordinals[rank as usize].of[kind as usize][number];
            let waits = matches!(op.name, OpName::Wait | OpName::RelaxedWait);
            let partners = other.channels_to(kind, u64::from(rank));
            if waits && partners <= own {
                let message = format!(
                    "`{name}` on {} channel {own} to rank {peer} has no partner: rank {peer} lists {partners} channels to rank {rank}",
                    kind.name()
                );
                self.fault("B210", &op.span, message);
            }
            if let Some(Place::One(owner, _)) = op.targets.get(at).and_then(|to| resolve(gpu, rank, tb, op, to))
                && owner != peer
            {
                let message = format!("`{name}` goes by a channel to rank {peer}, but its buffer is at rank {owner}");
                self.fault("B210", &op.span, message);
            }
        }
    }

    fn sides(&mut self, rank: u32, gpu: &Gpu, tb: &Tb, op: &Op, shape: &Shape) {
        let name = op.name.name();
        for (side, operands, (first, more)) in
            [("source", &op.sources, shape.sources), ("destination", &op.targets, shape.targets)]
        {
            let fits = first.len() <= operands.len() && (more.is_some() || operands.len() == first.len());
            if !fits {
                let at_least = if more.is_some() { "at least " } else { "" };
                let message = format!("`{name}` takes {at_least}{} {side}s, not {}", first.len(), operands.len());
                self.fault("B208", &op.span, message);
                return;
            }
            let limit = self.profile.operands as u64;
            self.over(&op.span, &format!("{side}s of a `{name}`"), operands.len() as u64, limit);
            for (at, operand) in operands.iter().enumerate() {
                if let Some(kind) = first.get(at).copied().or(more) {
                    self.operand(rank, gpu, tb, op, operand, kind, side);
                }
            }
        }
        if shape.pairs && op.sources.len() != op.targets.len() {
            let message = format!("`{name}` has {} sources for {} destinations", op.sources.len(), op.targets.len());
            let finding =
                Diagnostic::error("B208", message).note("the runtime takes offset 0 for a source that is missing");
            self.faults.add(finding, op.span.clone());
        }
        let both = || op.sources.iter().chain(&op.targets);
        let unequal = if shape.pairs {
            op.sources.iter().zip(&op.targets).find(|(s, t)| s.size != t.size).map(|(s, t)| (s.size, t.size, t))
        } else {
            both().zip(both().skip(1)).find(|(a, b)| a.size != b.size).map(|(a, b)| (a.size, b.size, b))
        };
        if let Some((a, b, operand)) = unequal {
            self.fault("B208", &operand.span, format!("`{name}` moves {a} chunks and {b} chunks at once"));
        }
        if op.name == OpName::PutPackets && op.channel_type == Some(ChannelType::Port) {
            let data = op.sources.iter().find(|source| source.target != Target::Local(Buffer::Scratch));
            if let Some(source) = data {
                self.fault("B208", &source.span, "`ppkt` on a port channel sends packets that lie in scratch already");
            }
        }
        if op.name == OpName::GroupLoadReduceStore {
            for (source, target) in op.sources.iter().zip(&op.targets) {
                if source.target != target.target {
                    self.fault("B208", &target.span, "`glres` loads and stores through two switch channels");
                }
            }
        }
    }

    fn operand(&mut self, rank: u32, gpu: &Gpu, tb: &Tb, op: &Op, operand: &Operand, kind: Kind, side: &str) {
        let name = op.name.name();
        let is = match operand.target {
            Target::Local(_) => matches!(kind, Kind::Local | Kind::LocalScratch),
            Target::Remote(_) => matches!(kind, Kind::Remote | Kind::RemoteScratch),
            Target::Switch(_) => kind == Kind::Switch,
        };
        if !is {
            self.fault("B208", &operand.span, format!("this {side} of `{name}` must be {}", kind.words()));
            return;
        }
        if operand.size == 0 {
            self.fault("B220", &operand.span, format!("`{name}` moves 0 chunks"));
        }
        let Some(place) = resolve(gpu, rank, tb, op, operand) else {
            let (id, count, what) = match operand.target {
                Target::Remote(id) => {
                    let kind = op.channel_type.map_or(0, |kind| kind as usize);
                    (id, tb.references.get(kind).map_or(0, Vec::len), "remote buffer")
                }
                Target::Switch(id) => (id, tb.channels[2].len(), "switch channel"),
                Target::Local(_) => return,
            };
            if count as u64 <= id {
                self.fault("B206", &operand.span, format!("`{name}` names {what} {id}; the threadblock has {count}"));
            }
            return;
        };
        let (owners, buffer) = match place {
            Place::One(rank, buffer) => (vec![rank as usize], buffer),
            Place::Group(ranks, buffer) => {
                (ranks.iter().filter_map(|&rank| usize::try_from(rank).ok()).collect(), buffer)
            }
        };
        if matches!(kind, Kind::LocalScratch | Kind::RemoteScratch) && buffer != Buffer::Scratch {
            self.fault("B208", &operand.span, format!("this {side} of `{name}` must be {}", kind.words()));
        }
        if op.name == OpName::GroupStorePackets && kind == Kind::Switch && buffer != Buffer::Scratch {
            self.fault("B208", &operand.span, "`gstorepkt` stores packets, which lie in scratch");
        }
        for owner in owners {
            let Some(gpu) = self.plan.gpus.get(owner) else { continue };
            let chunks = match buffer {
                Buffer::Input => gpu.input,
                Buffer::Output => gpu.output,
                Buffer::Scratch => gpu.scratch,
            };
            if operand.index.checked_add(operand.size).is_none_or(|end| chunks < end) {
                let message = format!(
                    "`{name}` touches {} chunks from {} on, but {} of rank {owner} has {chunks}",
                    operand.size,
                    operand.index,
                    buffer_name(buffer)
                );
                self.fault("B207", &operand.span, message);
            }
        }
    }

    fn barriers(&mut self, rank: u32, gpu: &Gpu) {
        /// Participants by the file, a place, and how often each threadblock comes.
        type Use = (u64, std::ops::Range<usize>, BTreeMap<usize, u64>);
        let mut uses: BTreeMap<u64, Use> = BTreeMap::new();
        for (number, tb) in gpu.tbs.iter().enumerate() {
            for op in tb.ops.iter().flat_map(|op| std::iter::once(op).chain(&op.inner)) {
                let Some((id, count)) = op.barrier else { continue };
                self.over(&op.span, "highest barrier_id", id, self.profile.barriers - 1);
                let (known, _, came) = uses.entry(id).or_insert_with(|| (count, op.span.clone(), BTreeMap::new()));
                if *known != count {
                    let message =
                        format!("barrier {id} of gpu {rank} is for {known} threadblocks elsewhere, here for {count}");
                    self.fault("B211", &op.span, message);
                }
                *came.entry(number).or_default() += 1;
            }
        }
        for (id, (count, span, came)) in uses {
            let first = came.iter().next().map_or((0, 0), |(&tb, &times)| (tb, times));
            if came.len() as u64 != count {
                let message =
                    format!("barrier {id} of gpu {rank} is for {count} threadblocks, but {} come to it", came.len());
                self.fault("B211", &span, message);
            } else if let Some((uneven, times)) = came.iter().find(|&(_, &times)| times != first.1) {
                let message = format!(
                    "threadblock {} of gpu {rank} comes {} times to barrier {id}, threadblock {uneven} {times} times",
                    first.0, first.1
                );
                self.fault("B211", &span, message);
            }
        }
    }
}

fn buffer_name(buffer: Buffer) -> &'static str {
    match buffer {
        Buffer::Input => "the input",
        Buffer::Output => "the output",
        Buffer::Scratch => "scratch",
    }
}
