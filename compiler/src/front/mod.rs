//! Frontends: what people write, read and checked.

pub mod job;
