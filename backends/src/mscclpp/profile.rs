//! Limits of the runtime, as data per version.

/// Limits of a version of MSCCL++'s executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// What it describes.
    pub version: &'static str,
    /// Operations a threadblock, those in pipelines included. The runtime checks this one and refuses the plan.
    pub operations: usize,
    /// Channels of one type a threadblock.
    pub channels: usize,
    /// Remote buffers of one type a threadblock.
    pub remote_buffers: usize,
    /// Channels an operation.
    pub operation_channels: usize,
    /// Operands a side of an operation.
    pub operands: usize,
    /// Barrier numbers.
    pub barriers: u64,
    /// Semaphores an operation.
    pub operation_semaphores: usize,
}

impl Profile {
    /// MSCCL++ from 0.8.0 on.
    pub const V0_8: Self = Self {
        name: "mscclpp",
        version: "microsoft/mscclpp, 0.8.0 (2025-10) to 2026-08",
        operations: 64,
        channels: 16,
        remote_buffers: 16,
        operation_channels: 8,
        operands: 10,
        barriers: 16,
        operation_semaphores: 16,
    };

    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        [&Self::V0_8].into_iter().find(|profile| profile.name == name)
    }
}
