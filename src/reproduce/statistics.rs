//! How the rules for the threshold do over a grid of parameters.

use rondo_compiler::cost::shortcut::Pairing;
use rondo_compiler::cost::sweep::Rule;

use super::{GB, KB, MB, Point, Reading};

/// What one rule does over the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Points at which it takes a threshold, not Ring.
    pub selects: usize,
    /// Of these, points at which another threshold is cheaper.
    pub suboptimal: usize,
    /// The most that its choice costs, over that of the cheapest threshold.
    pub ratio: f64,
    /// Where that is.
    pub at: Option<Point>,
}

/// How the rules do for an algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The algorithm.
    pub pairing: Pairing,
    /// Points of the grid.
    pub points: usize,
    /// The rule as printed.
    pub literal: Worst,
    /// The smallest T from 1 on that satisfies Eq. 6.
    pub from_one: Worst,
    /// Points at which the printed rule falls back to Ring although a threshold is cheaper.
    pub literal_falls_back: usize,
}

/// Computes 3240 points: rings of 8 to 128 nodes, 1 KB to 1 GB, delays from a fast switch to 3D MEMS.
pub fn over_the_grid(pairing: Pairing) -> Statistics {
    let mut points = Vec::new();
    for nodes in [8, 16, 32, 64, 128] {
        for hop in [100, 500, 1_000, 2_000] {
            for startup in [0, 700, 2_000] {
                for delta in [100, 1_000, 4_000, 7_000, 10_000, 15_000_000] {
                    for size in [KB, 32 * KB, 100 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB, GB] {
                        points.push(Point::new(Reading::AsLabelled, pairing, nodes, size, (startup, hop, delta)));
                    }
                }
            }
        }
    }
    let worst = |rule| {
        let mut worst = Worst { selects: 0, suboptimal: 0, ratio: 1.0, at: None };
        for point in &points {
            let Some(threshold) = point.costs.threshold(rule) else { continue };
            worst.selects += 1;
            let ratio = point.costs.time(Some(threshold)) / point.best();
            worst.suboptimal += usize::from(1.0 < ratio);
            if worst.ratio < ratio {
                (worst.ratio, worst.at) = (ratio, Some(point.clone()));
            }
        }
        worst
    };
    let falls_back =
        |point: &&Point| point.costs.threshold(Rule::Literal).is_none() && point.costs.rules.best_beats_ring;
    Statistics {
        pairing,
        points: points.len(),
        literal: worst(Rule::Literal),
        from_one: worst(Rule::FromOne),
        literal_falls_back: points.iter().filter(falls_back).count(),
    }
}
