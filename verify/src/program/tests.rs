//! Tests: hand-written programs, and random ones against the oracle.

pub(super) mod build;
mod codes;
mod good;
mod oracle;
mod random;
mod same;
