//! The vocabulary of Rondo and its formal meaning.
//!
//! One road: job → [`Problem`](problem::Problem) → [`Schedule`](schedule::Schedule) → passes → verified →
//! [`Program`](program::Program) → file → verified again. This crate holds the types on that road, what they mean, and
//! nothing else: no algorithm, no solver, no I/O beyond serde.
//!
//! # Places and values
//! A *place* is (rank, buffer, slot) of a group, with buffer ∈ input, output, scratch. It is *undefined*, or holds a
//! multiset of *contributions* (position, input slot) → count. A [collective] says which places hold what
//! before ([precondition](collective::Layout::precondition): each input slot holds its own contribution once) and what
//! output places must hold after ([postcondition](collective::Layout::postcondition)). In place, two names of one slot
//! are one place ([canonical](collective::Layout::canonical)). Out of place the input may not be written, unless the
//! collective says so.
//!
//! # Meaning of a schedule
//! Let σ be the map from places to values. A step with flows F maps σ to σ′:
//!
//! - every flow reads from σ: v(f, i) = σ(src, src_place + i) for i < count; for an aggregation the sum over its
//!   sources. An undefined value is an error.
//! - σ′(p) = v if exactly one `copy` writes p; σ(p) + Σ v if only `reduce` flows write p, which must be defined in σ; an
//!   error if a `copy` and any other flow write p; σ(p) if none does.
//!
//! A schedule is *complete* if after its last step every output place holds exactly its postcondition: no contribution
//! missing, none twice. For max and min counts above one are counted as one.
//!
//! With [dependencies](schedule::Schedule::dependencies) there are no steps but a partial order: any two flows that touch
//! one place, one of them writing, must be ordered (two `reduce` flows too: a runtime that adds two arrivals at once may
//! lose one). Then every order that the runtime may choose gives what the order of flow numbers gives.
//!
//! Sums are multisets: addition is taken as associative and commutative. The order in which it happens is fixed
//! (program order; within a step by source rank, then source place), so a run is reproducible bit by bit.
//!
//! # Meaning of a program
//! See [`program`]. It is correct for a collective if every interleaving ends (no deadlock), no two unordered
//! accesses conflict (no race), and the result, which is then the same for all, is the postcondition.
//!
//! # Cost
//! See [`cost`].
//!
//! # Example
//! ```
//! use rondo_ir::units::{Bytes, Delay, Rate};
//! let rate: Rate = "400 Gbps".parse()?;
//! assert_eq!(rate.bytes_per_second(), 50_000_000_000);
//! assert_eq!("1 MiB".parse::<Bytes>()?, Bytes(1 << 20));
//! assert!("25".parse::<Rate>().is_err(), "a bare number has no meaning");
//! # Ok::<(), rondo_ir::units::UnitError>(())
//! ```

pub mod collective;
pub mod cost;
pub mod diagnostic;
pub mod index;
pub mod onesided;
pub mod problem;
pub mod profile;
pub mod program;
pub mod schedule;
pub mod text;
pub mod topology;
pub mod units;
