//! A plan of version 2 as the file spells it. Numbers are in range of their type, nothing else is promised.

use std::ops::Range;

use rondo_ir::collective::Buffer;

/// Bytes in the file.
pub(super) type Span = Range<usize>;

/// The kind of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ChannelType {
    Memory,
    Port,
    Switch,
}

impl ChannelType {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Port, Self::Switch];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Port => "port",
            Self::Switch => "switch",
        }
    }
}

/// An operation's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OpName {
    Nop,
    Barrier,
    Signal,
    Wait,
    RelaxedSignal,
    RelaxedWait,
    SemRelease,
    SemAcquire,
    Put,
    PutWithSignal,
    PutWithSignalAndFlush,
    Flush,
    Get,
    Copy,
    Reduce,
    ReduceSend,
    ReadReduce,
    ReadReduceSend,
    PutPackets,
    ReadPutPackets,
    CopyPackets,
    UnpackPackets,
    ReducePackets,
    ReduceSendPackets,
    ReduceCopyPackets,
    ReduceCopySendPackets,
    GroupLoadReduceStore,
    GroupStore,
    GroupStorePackets,
    Pipeline,
}

impl OpName {
    pub(super) const ALL: [(&'static str, Self); 30] = [
        ("nop", Self::Nop),
        ("barrier", Self::Barrier),
        ("signal", Self::Signal),
        ("wait", Self::Wait),
        ("rlxsignal", Self::RelaxedSignal),
        ("rlxwait", Self::RelaxedWait),
        ("sem_release", Self::SemRelease),
        ("sem_acquire", Self::SemAcquire),
        ("put", Self::Put),
        ("pws", Self::PutWithSignal),
        ("pwsf", Self::PutWithSignalAndFlush),
        ("flush", Self::Flush),
        ("get", Self::Get),
        ("copy", Self::Copy),
        ("re", Self::Reduce),
        ("res", Self::ReduceSend),
        ("rre", Self::ReadReduce),
        ("rres", Self::ReadReduceSend),
        ("ppkt", Self::PutPackets),
        ("rppkt", Self::ReadPutPackets),
        ("cpkt", Self::CopyPackets),
        ("upkt", Self::UnpackPackets),
        ("repkt", Self::ReducePackets),
        ("respkt", Self::ReduceSendPackets),
        ("recpkt", Self::ReduceCopyPackets),
        ("recspkt", Self::ReduceCopySendPackets),
        ("glres", Self::GroupLoadReduceStore),
        ("gstore", Self::GroupStore),
        ("gstorepkt", Self::GroupStorePackets),
        ("pipeline", Self::Pipeline),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, op)| op)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|&&(_, op)| op == self).map_or("", |&(name, _)| name)
    }

    /// Whether it signals, waits, or flushes by threads that each serve one channel.
    pub(super) const fn serves_channels(self) -> bool {
        matches!(self, Self::Signal | Self::Wait | Self::RelaxedSignal | Self::RelaxedWait | Self::Flush)
    }
}

/// What an operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A buffer of the own rank.
    Local(Buffer),
    /// The threadblock's reference of this number, among those of the operation's channel type.
    Remote(u64),
    /// The threadblock's switch channel of this number.
    Switch(u64),
}

/// Chunks `index` … `index + size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) target: Target,
    pub(super) index: u64,
    pub(super) size: u64,
    pub(super) span: Span,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) name: OpName,
    pub(super) span: Span,
    pub(super) channel_type: Option<ChannelType>,
    pub(super) channel_ids: Vec<u64>,
    pub(super) sources: Vec<Operand>,
    pub(super) targets: Vec<Operand>,
    /// (slice, slices).
    pub(super) group: Option<(u64, u64)>,
    /// (slot, threadblocks).
    pub(super) barrier: Option<(u64, u64)>,
    pub(super) semaphores: Vec<u64>,
    /// (bytes a turn, chunks).
    pub(super) iteration: Option<(u64, u64)>,
    pub(super) inner: Vec<Op>,
    pub(super) reduce_op: Option<String>,
}

/// A threadblock: its operations use indices into its own lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tb {
    pub(super) ops: Vec<Op>,
    /// By [`ChannelType`]: gpu-level numbers of channels.
    pub(super) channels: [Vec<u64>; 3],
    /// Memory and port: gpu-level numbers of remote buffers.
    pub(super) references: [Vec<u64>; 2],
    pub(super) span: Span,
}

/// A multicast channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    pub(super) buffer: Buffer,
    pub(super) ranks: Vec<u64>,
    pub(super) span: Span,
}

/// A buffer of a peer that the rank may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) rank: u64,
    pub(super) buffer: Buffer,
    /// Memory, port.
    pub(super) access: [bool; 2],
}

/// What one rank runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    pub(super) span: Span,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) scratch: u64,
    pub(super) tbs: Vec<Tb>,
    /// Memory and port: the peer of each channel.
    pub(super) peers: [Vec<u64>; 2],
    pub(super) switches: Vec<Switch>,
    pub(super) remotes: Vec<Remote>,
    /// Initial values.
    pub(super) semaphores: Vec<u64>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) collective: String,
    pub(super) collective_span: Span,
    pub(super) packets: bool,
    pub(super) in_place: bool,
    pub(super) reuse_resources: bool,
    pub(super) threads: u64,
    pub(super) double_scratch: bool,
    pub(super) alignment: u64,
    pub(super) min_bytes: u64,
    pub(super) max_bytes: u64,
    pub(super) gpus: Vec<Gpu>,
}
