//! Runtime profiles: the limits of a runtime and version, as data.
//!
//! Source of the numbers: the public sources of microsoft/msccl (2023-09), Azure/msccl-executor-nccl (2024-12) and
//! ROCm/rccl (2024-10). Newer versions may differ; a profile says which version it describes.

/// How a maximum message size is meant by a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SizeEnd {
    /// The maximum itself is no longer served.
    Exclusive,
    /// The maximum is served, and 0 means "no limit".
    InclusiveZeroUnlimited,
}

/// How data is moved by a FIFO runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Protocol {
    /// Large pieces; FIFO depth 2.
    #[default]
    Simple,
    /// Flags beside every 4 bytes; FIFO depth 8.
    Ll,
    /// Flags beside every 120 bytes; FIFO depth 8.
    Ll128,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 3] = [Self::Simple, Self::Ll, Self::Ll128];

    /// The name in files (case-sensitive).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simple => "Simple",
            Self::Ll => "LL",
            Self::Ll128 => "LL128",
        }
    }

    /// Messages that a connection holds: `Simple` takes 4 of 8 slots a message, the others 1.
    #[must_use]
    pub const fn fifo_depth(self) -> u32 {
        match self {
            Self::Simple => 2,
            Self::Ll | Self::Ll128 => 8,
        }
    }
}

/// Limits of an MSCCL XML runtime. `None` means "no limit".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeProfile {
    /// Name on the command line.
    pub name: &'static str,
    /// What it describes.
    pub version: &'static str,
    /// Instructions a threadblock.
    pub instructions: Option<u32>,
    /// Threadblocks a rank.
    pub threadblocks: Option<u32>,
    /// Threadblocks that send (or receive) on one channel of a rank.
    pub threadblocks_per_channel: Option<u32>,
    /// Channels.
    pub channels: Option<u32>,
    /// Slots an instruction (`cnt`).
    pub count: Option<u32>,
    /// Highest threadblock id that others may wait for (it is stored in a signed byte).
    pub waitable_threadblock: Option<u32>,
    /// XML nodes that a rank loads: `algo`, every `gpu`, its own `tb` and `step` elements.
    pub xml_nodes: Option<u32>,
    /// Children of one XML element.
    pub xml_children: Option<u32>,
    /// Algorithm files that it loads.
    pub files: Option<u32>,
    /// Consecutive `re` that fuse.
    pub fused_reduces: Option<u32>,
    /// Whether more than that leave an array (protocol Simple).
    pub fused_reduces_overrun: bool,
    /// Whether some names of a file mean something, and long ones are cut.
    pub reserved_names: bool,
    /// Whether scratch memory for the largest message is allocated when a communicator is made.
    pub scratch_at_start: bool,
    /// Whether an LL send that published its progress has surely read its source.
    pub ll_sends_finish_reading: bool,
    /// Whether `rcs rrs rrc rrcs` run.
    pub fused_receives: bool,
    /// How reduce_scatter is spelt.
    pub reduce_scatter_name: &'static str,
    /// How `maxBytes` is meant.
    pub size_end: SizeEnd,
    /// Whether `outofplace`, `minBytes` and `maxBytes` must be given.
    pub all_attributes_mandatory: bool,
    /// Whether `i_chunks` and `o_chunks` must be 0 or exactly those of the collective.
    pub exact_buffer_chunks: bool,
    /// Whether all_to_all may be called in place.
    pub in_place_all_to_all: bool,
    /// Whether files are used when the ranks are on several machines.
    pub several_hosts: bool,
    /// Whether any runtime loads such a file.
    pub loadable: bool,
}

impl RuntimeProfile {
    /// microsoft/msccl.
    pub const MSCCL: Self = Self {
        name: "msccl",
        version: "microsoft/msccl, 2023-09 (NCCL 2.12)",
        instructions: Some(256),
        threadblocks: Some(216),
        threadblocks_per_channel: Some(32),
        channels: Some(32),
        count: Some(71),
        waitable_threadblock: Some(127),
        xml_nodes: Some(4095),
        xml_children: Some(1024),
        files: Some(4),
        fused_reduces: Some(16),
        fused_reduces_overrun: true,
        reserved_names: true,
        scratch_at_start: true,
        ll_sends_finish_reading: true,
        fused_receives: true,
        reduce_scatter_name: "reduce_scatter",
        size_end: SizeEnd::Exclusive,
        all_attributes_mandatory: false,
        exact_buffer_chunks: true,
        in_place_all_to_all: false,
        several_hosts: true,
        loadable: true,
    };

    /// Azure/msccl-executor-nccl.
    pub const AZURE: Self = Self {
        name: "azure",
        version: "Azure/msccl-executor-nccl, 2024-12 (NCCL 2.23)",
        instructions: Some(64),
        threadblocks: Some(1024),
        files: Some(1024),
        reduce_scatter_name: "reducescatter",
        size_end: SizeEnd::InclusiveZeroUnlimited,
        all_attributes_mandatory: true,
        exact_buffer_chunks: false,
        in_place_all_to_all: true,
        reserved_names: false,
        scratch_at_start: false,
        ..Self::MSCCL
    };

    /// ROCm/rccl.
    pub const RCCL: Self = Self {
        name: "rccl",
        version: "ROCm/rccl, 2024-10",
        threadblocks: Some(64),
        channels: Some(128),
        fused_reduces_overrun: false,
        ll_sends_finish_reading: false,
        several_hosts: false,
        fused_receives: false,
        ..Self::AZURE
    };

    /// No limits; no runtime loads such a file.
    pub const UNLIMITED: Self = Self {
        name: "unlimited",
        version: "no runtime",
        instructions: None,
        threadblocks: None,
        threadblocks_per_channel: None,
        channels: None,
        count: None,
        waitable_threadblock: None,
        xml_nodes: None,
        xml_children: None,
        files: None,
        fused_reduces: None,
        reserved_names: false,
        scratch_at_start: false,
        exact_buffer_chunks: false,
        loadable: false,
        ..Self::MSCCL
    };

    /// All profiles, in the order of the documentation.
    pub const ALL: [&'static Self; 4] = [&Self::MSCCL, &Self::AZURE, &Self::RCCL, &Self::UNLIMITED];

    /// The profiles of real runtimes.
    pub const LOADABLE: [&'static Self; 3] = [&Self::MSCCL, &Self::AZURE, &Self::RCCL];

    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}
