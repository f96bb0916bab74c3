//! Rondo compiles collective communication schedules and proves them right before anybody runs them.
//!
//! This crate is the one place where the parts meet: [`rondo_compiler`] makes schedules, [`rondo_verify`] judges them,
//! [`rondo_backends`] writes and reads files. The `rondo` command uses nothing but what is public here.
//!
//! # Example
//! ```
#![doc = include_str!("../examples/compile.rs")]
//! ```

pub mod chart;
pub mod cli;
pub mod compare;
pub mod export;
pub mod judge;
mod judge_mscclpp;
pub mod ocs;
pub mod pipeline;
pub mod recognise;
pub mod reproduce;
pub mod size_set;
pub mod sweep;
pub mod thresholds;
pub mod training;

pub use rondo_backends as backends;
pub use rondo_compiler as compiler;
pub use rondo_ir as ir;
pub use rondo_verify as verify;
