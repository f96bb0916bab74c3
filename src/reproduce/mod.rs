//! The numbers of the two papers beside what their models give: the Shortcut paper here, the other one in [`topology`].
//!
//! The paper's evaluation is simulated packet by packet; here its own cost model (Eq. 1–6) is computed. Four of its headline
//! speedups are met only if the delay of a hop is twice the label of its axis, so everything is computed in both readings.
//!
//! # Source
//! "Shortcut", sections III to VI. Only numbers that its text states are compared; charts are drawn over its settings.

mod claims;
mod figures;
mod statistics;
pub mod topology;

use rondo_compiler::cost::shortcut::{Pairing, Phases};
use rondo_compiler::cost::sweep::{Costs, Rule, Setting};
use rondo_ir::units::{Bytes, Delay, Rate};

use crate::chart::Chart;

pub use claims::{Claim, Verdict};
pub use figures::Panel;
pub use statistics::{Statistics, Worst};

/// What can be reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Static recursive halving against Ring.
    Fig3,
    /// Thresholds at 32 KB.
    Fig4,
    /// Speedups at 32 KB and 1 MB, and over sizes.
    Fig5,
    /// Speedups over start-up and hop delay.
    Fig6,
    /// Everything that the text claims.
    Claims,
}

impl Item {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Fig3, Self::Fig4, Self::Fig5, Self::Fig6, Self::Claims];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fig3 => "shortcut-fig3",
            Self::Fig4 => "shortcut-fig4",
            Self::Fig5 => "shortcut-fig5",
            Self::Fig6 => "shortcut-fig6",
            Self::Claims => "shortcut-claims",
        }
    }

    /// What it shows.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Fig3 => "static recursive halving against Ring, 16 nodes",
            Self::Fig4 => "best thresholds for 32 KB, 32 nodes",
            Self::Fig5 => "speedup over Ring for 32 KB and 1 MB, and over sizes, 32 nodes",
            Self::Fig6 => "speedup over Ring for 1 MB by start-up and hop delay, 8 and 128 nodes",
            Self::Claims => "every number that the text of the paper states, and its rules for the threshold",
        }
    }

    /// What is held fixed.
    #[must_use]
    pub const fn settings(self) -> &'static str {
        match self {
            Self::Fig3 => "reduce_scatter, n = 16, start-up 0, hop delay 100 ns to 2 us, 800 Gbit/s",
            Self::Fig4 => "reduce_scatter, n = 32, 32 KB, start-up 0, hop delay 100 ns to 2 us, 800 Gbit/s",
            Self::Fig5 => {
                "reduce_scatter, n = 32, 32 KB and 1 MB, start-up 0, hop delay 100 ns to 2 us, 800 Gbit/s; over sizes: \
                 hop delay 2 us"
            }
            Self::Fig6 => "reduce_scatter, n = 8 and 128, 1 MB, start-up and hop delay up to 2 us, 800 Gbit/s",
            Self::Claims => "reduce_scatter, 800 Gbit/s, KB and MB decimal; the rest with each claim",
        }
    }
}

/// How the label of the paper's hop-delay axis is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A hop takes what the label says.
    AsLabelled,
    /// A hop takes twice what the label says, as if a flow ended when its acknowledgement is back.
    Doubled,
}

impl Reading {
    /// Both.
    pub const ALL: [Self; 2] = [Self::AsLabelled, Self::Doubled];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AsLabelled => "as-labelled",
            Self::Doubled => "hop-delay-doubled",
        }
    }
}

/// A computed point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// How the hop delay is read.
    pub reading: Reading,
    /// The algorithm.
    pub pairing: Pairing,
    /// The parameters, with the hop delay of the label.
    pub setting: Setting,
    /// What the model gives.
    pub costs: Costs,
}

impl Point {
    /// Computes a point: nodes, bytes, and start-up, hop delay (label) and reconfiguration in nanoseconds.
    #[must_use]
    pub fn new(
        reading: Reading,
        pairing: Pairing,
        nodes: u32,
        size: u64,
        (startup, hop, delta): (u64, u64, u64),
    ) -> Self {
        let setting = Setting {
            nodes,
            size: Bytes(size),
            startup: Delay::from_nanoseconds(startup),
            hop_delay: Delay::from_nanoseconds(hop),
            reconfiguration: Delay::from_nanoseconds(delta),
            bandwidth: RATE,
        };
        let real = match reading {
            Reading::AsLabelled => setting,
            Reading::Doubled => Setting { hop_delay: setting.hop_delay.plus(setting.hop_delay), ..setting },
        };
        Self { reading, pairing, setting, costs: real.costs(pairing, Phases::Scatter) }
    }

    /// Time of Ring over that of what a rule takes.
    #[must_use]
    pub fn speedup(&self, rule: Rule) -> f64 {
        self.costs.ring / self.costs.time(self.costs.threshold(rule))
    }

    /// The cheapest T in 1 … L, whether or not Ring is cheaper.
    #[must_use]
    pub fn best(&self) -> f64 {
        self.costs.time(Some(self.costs.rules.best))
    }

    /// Time without any reconfiguration over that of Ring.
    #[must_use]
    pub fn static_over_ring(&self) -> f64 {
        self.costs.time(self.costs.threshold(Rule::Static)) / self.costs.ring
    }

    /// Hops of all steps together without any reconfiguration.
    #[must_use]
    pub fn static_hops(&self) -> u64 {
        (0..self.setting.steps()).map(|step| self.pairing.shape(step).hops).sum()
    }
}

/// What an item gives.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// Which.
    pub item: Item,
    /// What the text states about it.
    pub claims: Vec<Claim>,
    /// The points of the figure, each reading after the other.
    pub points: Vec<Point>,
    /// Where each panel of Fig. 6 is highest.
    pub panels: Vec<Panel>,
    /// What the rules choose over a grid of parameters.
    pub statistics: Vec<Statistics>,
    /// Charts with the end of their file's name.
    pub charts: Vec<(String, Chart)>,
}

/// Computes an item.
#[must_use]
pub fn reproduce(item: Item) -> Reproduction {
    let points = figures::points(item);
    Reproduction {
        item,
        claims: claims::of(item),
        panels: if item == Item::Fig6 { figures::panels(&points) } else { Vec::new() },
        statistics: if item == Item::Claims {
            Pairing::ALL.map(statistics::over_the_grid).to_vec()
        } else {
            Vec::new()
        },
        charts: figures::charts(item, &points),
        points,
    }
}

/// 800 Gbit/s.
const RATE: Rate = match Rate::new(100_000_000_000) {
    Some(rate) => rate,
    None => panic!("not zero"),
};

const KB: u64 = 1_000;
const MB: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;

/// Hop delays of the paper's axes, in nanoseconds.
const HOP_DELAYS: [u64; 5] = [100, 200, 500, 1_000, 2_000];
