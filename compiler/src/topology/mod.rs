//! Topologies: what they are described by, generators, presets and importers.

pub mod spec;
