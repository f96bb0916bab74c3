//! Index newtypes: dense, never reused, printed as the text form prints them (`r3`, `n12`, `l7`).
//!
//! Ids that come from a file are checked once, at the border ([`crate::text`], a frontend or a
//! parser); after that indexing may be infallible.

/// Defines an index newtype over a private `u32`.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The id with this index.
            ///
            /// # Panics
            /// If `index` does not fit 32 bits; no table of this workspace is that long.
            #[must_use]
            pub const fn new(index: usize) -> Self {
                assert!(index <= u32::MAX as usize, "index does not fit 32 bits");
                Self(index as u32)
            }

            /// The index, for use with slices.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The index as the number that files hold.
            #[must_use]
            pub const fn number(self) -> u32 {
                self.0
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                Self(number)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

index!(
    /// A participant of the job, 0 … N−1; [`crate::problem::Problem::placement`] says on which node.
    RankId, "r"
);
index!(
    /// A vertex of the topology: a compute node or a switch.
    NodeId, "n"
);
index!(
    /// A directed edge of the topology.
    LinkId, "l"
);
index!(
    /// An optical circuit switch or another device that can set circuits.
    DeviceId, "d"
);
index!(
    /// A port of a device, numbered per device.
    PortId, "p"
);
index!(
    /// A step of a schedule.
    StepId, "s"
);
index!(
    /// A flow: its place in the iteration over all steps of a schedule.
    FlowId, "f"
);
index!(
    /// An interned route of a schedule.
    RouteId, "route"
);
index!(
    /// An interned tree (multicast or aggregation) of a schedule.
    TreeId, "tree"
);
index!(
    /// A group of ranks with a collective of its own.
    GroupId, "g"
);
index!(
    /// A symmetry generator of a schedule.
    GeneratorId, "gen"
);
index!(
    /// A medium that several links share.
    MediumId, "m"
);
