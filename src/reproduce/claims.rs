//! What the paper states, and whether the model gives it.

use rondo_compiler::cost::shortcut::Pairing;
use rondo_compiler::cost::sweep::Rule;

use super::{GB, HOP_DELAYS, Item, KB, MB, Point, Reading};

/// Whether the model gives what the paper states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With the delays of the labels.
    Reproduced,
    /// Only if every hop takes twice as long as its label says.
    OnlyDoubled,
    /// In neither reading.
    NotReproduced,
}

impl Verdict {
    /// The words in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::OnlyDoubled => "only-with-doubled-hop-delay",
            Self::NotReproduced => "not-reproduced",
        }
    }
}

/// A statement of the paper.
#[derive(Clone, Debug)]
pub struct Claim {
    /// A name that stays.
    pub id: &'static str,
    /// Figure or section.
    pub place: &'static str,
    /// What is stated.
    pub text: &'static str,
    /// The number that is stated, if it is a speedup.
    pub stated: Option<f64>,
    /// Whether the model gives it; from the points.
    pub verdict: Verdict,
    /// What the model gives instead, and why.
    pub reason: String,
    /// What was computed.
    pub points: Vec<Point>,
}

/// The claims of a figure, or all.
pub fn of(item: Item) -> Vec<Claim> {
    let all: [(Item, fn() -> Claim); 10] = [
        (Item::Fig5, || {
            headline(
                "abstract_6.0",
                "abstract, VI-C",
                "32 nodes, 32 KB: up to 6.0x over Ring",
                (6.0, 0.05),
                32,
                32 * KB,
                (0, 2_000, 100),
            )
        }),
        (Item::Fig5, || {
            headline(
                "abstract_4.4",
                "abstract, VI-C",
                "32 nodes, 1 MB: 4.4x over Ring",
                (4.4, 0.05),
                32,
                MB,
                (0, 2_000, 100),
            )
        }),
        (Item::Fig6, || {
            headline(
                "max_14.7",
                "I, VI-E",
                "128 nodes, 1 MB: up to 14.7x over Ring",
                (14.7, 0.05),
                128,
                MB,
                (2_000, 2_000, 100),
            )
        }),
        (Item::Fig6, || {
            headline(
                "delta10_7",
                "abstract, VI-E",
                "128 nodes, 1 MB, reconfiguration 10 us: up to 7x over Ring",
                (7.0, 0.5),
                128,
                MB,
                (2_000, 2_000, 10_000),
            )
        }),
        (Item::Fig3, static_gap),
        (Item::Fig3, ring_is_better),
        (Item::Fig4, first_threshold),
        (Item::Fig5, fallback),
        (Item::Fig5, swing),
        (Item::Fig6, small_ring),
    ];
    let mut claims: Vec<Claim> =
        all.iter().filter(|(figure, _)| item == Item::Claims || item == *figure).map(|(_, claim)| claim()).collect();
    if item == Item::Claims {
        claims.push(equal_hops());
    }
    claims
}

/// The verdict of a check of the points in each reading.
fn verdict(points: &[Point], holds: impl Fn(&[&Point]) -> bool) -> Verdict {
    let in_reading = |reading| {
        let points: Vec<&Point> = points.iter().filter(|point| point.reading == reading).collect();
        !points.is_empty() && holds(&points)
    };
    match (in_reading(Reading::AsLabelled), in_reading(Reading::Doubled)) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::OnlyDoubled,
        (false, false) => Verdict::NotReproduced,
    }
}

/// A speedup at one point; the model agrees if it rounds to the digits that are printed.
fn headline(
    id: &'static str,
    place: &'static str,
    text: &'static str,
    (stated, tolerance): (f64, f64),
    nodes: u32,
    size: u64,
    delays: (u64, u64, u64),
) -> Claim {
    let points = Reading::ALL.map(|reading| Point::new(reading, Pairing::Doubling, nodes, size, delays)).to_vec();
    let verdict = verdict(&points, |points| points.iter().all(|p| (p.speedup(Rule::Best) - stated).abs() < tolerance));
    let [labelled, doubled] = [0, 1].map(|at| points.get(at).map_or(f64::NAN, |p: &Point| p.speedup(Rule::Best)));
    let reason = format!(
        "{labelled:.2}x with the hop delay of the label, {doubled:.2}x with twice that, as if a flow ended when its \
         acknowledgement is back, or crossed two links a hop"
    );
    Claim { id, place, text, stated: Some(stated), verdict, reason, points }
}

/// Points as labelled, of recursive halving.
fn labelled(nodes: u32, size: u64, delays: (u64, u64, u64)) -> Point {
    Point::new(Reading::AsLabelled, Pairing::Doubling, nodes, size, delays)
}

fn static_points() -> Vec<Point> {
    let sizes = [KB, 32 * KB, GB];
    HOP_DELAYS.iter().flat_map(|&hop| sizes.map(|size| labelled(16, size, (0, hop, 100)))).collect()
}

fn static_gap() -> Claim {
    let points: Vec<Point> = static_points().into_iter().filter(|p| p.setting.size.0 == 32 * KB).collect();
    let ratios: Vec<f64> = points.iter().map(Point::static_over_ring).collect();
    let holds = |points: &[&Point]| {
        let ratios: Vec<f64> = points.iter().map(|p| p.static_over_ring()).collect();
        ratios.iter().all(|ratio| 1.195 <= *ratio) && ratios.windows(2).all(|pair| pair[0] < pair[1])
    };
    let verdict = verdict(&points, holds);
    let (first, last) = (ratios.first().copied().unwrap_or(f64::NAN), ratios.last().copied().unwrap_or(f64::NAN));
    Claim {
        id: "fig3_gap",
        place: "III-B, Fig. 3",
        text: "16 nodes, 32 KB, start-up 0: static recursive halving at least 1.2x slower than Ring, and the gap widens with hop delay",
        stated: Some(1.2),
        verdict,
        reason: format!(
            "the ratio falls, from {first:.2} at 100 ns to {last:.2} at 2 us: both pay the hop delay n-1 times (Eq. 3 and 5), so \
             the difference in time stays the same while both grow"
        ),
        points,
    }
}

fn ring_is_better() -> Claim {
    let points = static_points();
    let verdict = verdict(&points, |points| points.iter().all(|p| 1.0 < p.static_over_ring()));
    let most = points.iter().map(Point::static_over_ring).fold(0.0, f64::max);
    Claim {
        id: "fig3_ring",
        place: "III-B",
        text: "16 nodes, 1 KB to 1 GB: Ring is faster than static recursive halving",
        stated: None,
        verdict,
        reason: format!(
            "at every size and hop delay, by up to {most:.2}x: static halving moves L/2 vectors over the busiest link, Ring (n-1)/n"
        ),
        points,
    }
}

fn first_threshold() -> Claim {
    let deltas = [100, 1_000, 4_000, 7_000, 10_000];
    let points: Vec<Point> =
        deltas.iter().flat_map(|&delta| [100, 2_000].map(|hop| labelled(32, 4 * MB, (0, hop, delta)))).collect();
    let verdict = verdict(&points, |points| points.iter().all(|p| p.costs.rules.best == 1));
    let dearer = points.iter().filter(|p| !p.costs.rules.best_beats_ring).count();
    Claim {
        id: "T1_4MB",
        place: "VI-B, Fig. 4",
        text: "32 nodes, 4 MB and more: T = 1 is chosen at every delay",
        stated: None,
        verdict,
        reason: format!(
            "true of the cheapest T, not of the smallest T that satisfies Eq. 6, which the text describes; at {dearer} of {} points \
             Ring is cheaper still",
            points.len()
        ),
        points,
    }
}

fn fallback() -> Claim {
    let sizes = [MB, 64 * MB, 256 * MB, GB];
    let points: Vec<Point> = sizes
        .iter()
        .flat_map(|&size| [100, 1_000, 10_000].map(|delta| labelled(32, size, (0, 2_000, delta))))
        .collect();
    let large = |p: &&Point| 256 * MB <= p.setting.size.0;
    let verdict =
        verdict(&points, |points| points.iter().copied().filter(|p| large(p)).all(|p| !p.costs.rules.best_beats_ring));
    let at_256: Vec<f64> =
        points.iter().filter(|p| p.setting.size.0 == 256 * MB).map(|p| p.speedup(Rule::Best)).collect();
    let (low, high) = (at_256.iter().copied().fold(f64::MAX, f64::min), at_256.iter().copied().fold(0.0, f64::max));
    Claim {
        id: "fallback_256MB",
        place: "VI-C, Fig. 5",
        text: "32 nodes, hop delay 2 us: falls back to Ring for 256 MB and more",
        stated: None,
        verdict,
        reason: format!(
            "stays ahead, {low:.3}x to {high:.3}x at 256 MB: with T = 1 both move the same bytes, so Eq. 6 compares \
             delays only, (n-1-L)(hop delay + start-up) with (L-1) reconfigurations, whatever the size"
        ),
        points,
    }
}

fn swing() -> Claim {
    let mut points = Vec::new();
    for nodes in [32, 128] {
        for size in [KB, 32 * KB, MB, 64 * MB] {
            for delta in [100, 10_000] {
                points.extend(
                    Pairing::ALL
                        .map(|pairing| Point::new(Reading::AsLabelled, pairing, nodes, size, (0, 2_000, delta))),
                );
            }
        }
    }
    /// Nearly identical: within so much.
    const NEAR: f64 = 0.02;
    let ahead = |pair: &[&Point]| pair[1].speedup(Rule::Best) / pair[0].speedup(Rule::Best) - 1.0;
    let holds = |points: &[&Point]| {
        points.chunks(2).all(|pair| {
            let quick = pair[0].setting.reconfiguration.femtoseconds() == 100_000_000;
            pair[1].static_over_ring() < pair[0].static_over_ring() && (!quick || ahead(pair).abs() < NEAR)
        })
    };
    let verdict = verdict(&points, holds);
    let all: Vec<&Point> = points.iter().collect();
    let most = all.chunks(2).map(ahead).fold(0.0, f64::max);
    Claim {
        id: "fig5_right",
        place: "VI-C, Fig. 5",
        text: "with thresholds, recursive halving and Swing are nearly identical; static Swing is faster than static halving",
        stated: None,
        verdict,
        reason: format!(
            "within {:.0} % at a reconfiguration of 100 ns; at 10 us Swing is up to {:.0} % faster, for its step 1 runs on the \
             ring's own circuits and saves a reconfiguration",
            NEAR * 100.0,
            most * 100.0
        ),
        points,
    }
}

fn small_ring() -> Claim {
    let corners = [(0, 100), (2_000, 100), (0, 2_000), (2_000, 2_000)];
    let points: Vec<Point> = Reading::ALL
        .iter()
        .flat_map(|&reading| {
            corners.map(|(startup, hop)| Point::new(reading, Pairing::Doubling, 8, MB, (startup, hop, 10_000)))
        })
        .collect();
    let verdict = verdict(&points, |points| points.iter().all(|p| !p.costs.rules.best_beats_ring));
    let most =
        |reading| points.iter().filter(|p| p.reading == reading).map(|p| p.speedup(Rule::Best)).fold(0.0, f64::max);
    let reason = format!(
        "up to {:.2}x where the start-up is high, {:.2}x with doubled hop delay: recursive halving that reconfigures nothing, \
         or little, has fewer steps than Ring",
        most(Reading::AsLabelled),
        most(Reading::Doubled)
    );
    Claim {
        id: "fig6c",
        place: "VI-D, Fig. 6c",
        text: "8 nodes, 1 MB, reconfiguration 10 us: T = log2 n, falls back to Ring, 1x",
        stated: Some(1.0),
        verdict,
        reason,
        points,
    }
}

fn equal_hops() -> Claim {
    let points: Vec<Point> = [8, 16, 32, 64, 128]
        .iter()
        .flat_map(|&n| Pairing::ALL.map(|pairing| Point::new(Reading::AsLabelled, pairing, n, MB, (0, 100, 100))))
        .collect();
    let holds = |points: &[&Point]| {
        let halving = points.iter().filter(|p| p.pairing == Pairing::Doubling);
        halving.into_iter().all(|p| p.static_hops() == u64::from(p.setting.nodes) - 1)
    };
    let verdict = verdict(&points, holds);
    Claim {
        id: "equal_hops",
        place: "IV-A",
        text: "static recursive halving and Ring pay the hop delay equally often (Eq. 3 and 5)",
        stated: None,
        verdict,
        reason: "n-1 times; static Swing about two thirds of that".to_owned(),
        points,
    }
}
