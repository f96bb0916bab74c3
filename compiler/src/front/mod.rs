//! Frontends: what people write, read and checked.

pub mod import;
pub mod job;
