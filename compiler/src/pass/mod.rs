//! Passes: functions from a schedule to a schedule. None has to be trusted; `verify` runs on what comes out.

pub mod circuits;
mod refine;

pub(crate) use refine::CODES;
pub use refine::{RefineError, refine};
