//! The points and charts of the figures.

use rondo_compiler::cost::shortcut::Pairing;
use rondo_compiler::cost::sweep::Rule;
use rondo_ir::units::Delay;

use super::{GB, HOP_DELAYS, Item, KB, MB, Point, Reading};
use crate::chart::{Chart, HeatMap, LineChart, Quantity, Scale, Steps};

/// Reconfigurations of Fig. 4 and 5, in nanoseconds.
const DELTAS: [u64; 6] = [100, 400, 1_000, 4_000, 7_000, 10_000];
/// Start-ups of Fig. 6, in nanoseconds.
const STARTUPS: [u64; 6] = [0, 100, 200, 500, 1_000, 2_000];
/// Reconfigurations of the panels of Fig. 6, in nanoseconds.
const PANELS: [u64; 3] = [100, 4_000, 10_000];
/// Reconfigurations of the curves over sizes, in nanoseconds.
const CURVES: [u64; 3] = [100, 1_000, 10_000];
/// Sizes of the curves.
const SIZES: [u64; 10] = [KB, 10 * KB, 32 * KB, 100 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB, GB];

/// The highest point of a panel of Fig. 6.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Where: start-up and hop delay, and the reading.
    pub highest: Point,
}

/// The points of a figure; each setting as labelled, then with doubled hop delay.
pub fn points(item: Item) -> Vec<Point> {
    let mut settings: Vec<(Pairing, u32, u64, (u64, u64, u64))> = Vec::new();
    let halving = Pairing::Doubling;
    match item {
        Item::Fig3 => {
            settings.extend(HOP_DELAYS.iter().flat_map(|&hop| SIZES.map(|size| (halving, 16, size, (0, hop, 100)))))
        }
        Item::Fig4 => settings
            .extend(DELTAS.iter().flat_map(|&delta| HOP_DELAYS.map(|hop| (halving, 32, 32 * KB, (0, hop, delta))))),
        Item::Fig5 => {
            for size in [32 * KB, MB] {
                settings.extend(
                    DELTAS.iter().flat_map(|&delta| HOP_DELAYS.map(|hop| (halving, 32, size, (0, hop, delta)))),
                );
            }
            for pairing in Pairing::ALL {
                let curve = |delta: &u64| SIZES.map(|size| (pairing, 32, size, (0, 2_000, *delta)));
                settings.extend(CURVES.iter().flat_map(curve));
            }
        }
        Item::Fig6 => {
            for nodes in [8, 128] {
                for delta in PANELS {
                    settings.extend(
                        STARTUPS
                            .iter()
                            .flat_map(|&startup| HOP_DELAYS.map(|hop| (halving, nodes, MB, (startup, hop, delta)))),
                    );
                }
            }
        }
        Item::Claims => {}
    }
    // A point may belong to two parts of a figure.
    let mut unique = Vec::with_capacity(settings.len());
    for setting in settings {
        if !unique.contains(&setting) {
            unique.push(setting);
        }
    }
    let both =
        |(pairing, nodes, size, delays)| Reading::ALL.map(|reading| Point::new(reading, pairing, nodes, size, delays));
    unique.into_iter().flat_map(both).collect()
}

/// The highest point of each panel in each reading.
pub fn panels(points: &[Point]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for point in points {
        let same = |panel: &&mut Panel| {
            let highest = &panel.highest;
            highest.reading == point.reading
                && highest.setting.nodes == point.setting.nodes
                && highest.setting.reconfiguration == point.setting.reconfiguration
        };
        match panels.iter_mut().find(same) {
            Some(panel) if panel.highest.speedup(Rule::Best) < point.speedup(Rule::Best) => {
                panel.highest = point.clone();
            }
            Some(_) => {}
            None => panels.push(Panel { highest: point.clone() }),
        }
    }
    panels
}

/// The charts of a figure, as labelled.
pub fn charts(item: Item, points: &[Point]) -> Vec<(String, Chart)> {
    let points: Vec<&Point> = points.iter().filter(|point| point.reading == Reading::AsLabelled).collect();
    match item {
        Item::Fig3 => {
            let series = HOP_DELAYS.map(|hop| {
                let of = points.iter().filter(|p| p.setting.hop_delay == Delay::from_nanoseconds(hop));
                let values = of.map(|p| (as_number(p.setting.size.0), p.static_over_ring())).collect();
                (format!("hop delay {}", Delay::from_nanoseconds(hop)), values)
            });
            let chart = LineChart {
                title: "Static recursive halving against Ring".to_owned(),
                subtitle: "reduce_scatter, 16 nodes, start-up 0, 800 Gbit/s".to_owned(),
                x: size_scale(),
                y: Scale { label: "time over that of Ring".to_owned(), quantity: Quantity::Ratio, logarithmic: false },
                series: series.to_vec(),
            };
            vec![("static-over-ring".to_owned(), Chart::Line(chart))]
        }
        Item::Fig4 => vec![
            ("threshold".to_owned(), by_delays(&points, 32 * KB, true)),
            ("speedup".to_owned(), by_delays(&points, 32 * KB, false)),
        ],
        Item::Fig5 => {
            let mut charts = vec![
                ("32KB".to_owned(), by_delays(&points, 32 * KB, false)),
                ("1MB".to_owned(), by_delays(&points, MB, false)),
            ];
            for delta in CURVES {
                let delay = Delay::from_nanoseconds(delta);
                charts.push((format!("sizes-{}", delay.to_string().replace(' ', "")), by_size(&points, delay)));
            }
            charts
        }
        Item::Fig6 => {
            let panels =
                [8, 128].into_iter().flat_map(|nodes| PANELS.map(|delta| (nodes, Delay::from_nanoseconds(delta))));
            let name = |nodes, delta: Delay| format!("{nodes}nodes-{}", delta.to_string().replace(' ', ""));
            panels.map(|(nodes, delta)| (name(nodes, delta), by_startup(&points, nodes, delta))).collect()
        }
        Item::Claims => Vec::new(),
    }
}

#[allow(clippy::cast_precision_loss)]
fn as_number(value: u64) -> f64 {
    value as f64
}

fn size_scale() -> Scale {
    Scale { label: "message size".to_owned(), quantity: Quantity::Bytes, logarithmic: true }
}

fn steps(label: &str, nanoseconds: &[u64]) -> Steps {
    let ticks = nanoseconds.iter().map(|&ns| Delay::from_nanoseconds(ns).to_string()).collect();
    Steps { label: label.to_owned(), ticks }
}

/// A heat map by hop delay and reconfiguration: thresholds, or speedups.
fn by_delays(points: &[&Point], size: u64, thresholds: bool) -> Chart {
    let at = |delta: u64, hop: u64| {
        points.iter().find(|p| {
            p.pairing == Pairing::Doubling
                && p.setting.size.0 == size
                && p.setting.hop_delay == Delay::from_nanoseconds(hop)
                && p.setting.reconfiguration == Delay::from_nanoseconds(delta)
        })
    };
    let value = |p: &&&Point| {
        if thresholds { p.costs.threshold(Rule::Best).map(f64::from) } else { Some(p.speedup(Rule::Best)) }
    };
    let row = |&delta: &u64| HOP_DELAYS.iter().map(|&hop| at(delta, hop).as_ref().and_then(value)).collect();
    let (title, label) =
        if thresholds { ("Best threshold T", "threshold T") } else { ("Speedup over Ring", "speedup over Ring") };
    Chart::Heat(HeatMap {
        title: title.to_owned(),
        subtitle: format!(
            "reduce_scatter, recursive halving, 32 nodes, {}, start-up 0, 800 Gbit/s",
            rondo_ir::units::Bytes(size)
        ),
        x: steps("hop delay", &HOP_DELAYS),
        y: steps("reconfiguration delay", &DELTAS),
        cells: DELTAS.iter().map(row).collect(),
        label: label.to_owned(),
        quantity: if thresholds { Quantity::Count } else { Quantity::Ratio },
        missing: "Ring".to_owned(),
    })
}

/// Speedups over sizes: both algorithms, with thresholds and static.
fn by_size(points: &[&Point], delta: Delay) -> Chart {
    let curve = |pairing: Pairing, rule: Rule| {
        let of = points.iter().filter(|p| {
            p.pairing == pairing
                && p.setting.reconfiguration == delta
                && p.setting.hop_delay == Delay::from_nanoseconds(2_000)
                && SIZES.contains(&p.setting.size.0)
        });
        let mut values: Vec<(f64, f64)> = of.map(|p| (as_number(p.setting.size.0), p.speedup(rule))).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        (format!("{}, {}", pairing.name(), if rule == Rule::Best { "best T" } else { "static" }), values)
    };
    let series =
        [Rule::Best, Rule::Static].into_iter().flat_map(|rule| Pairing::ALL.map(|pairing| curve(pairing, rule)));
    Chart::Line(LineChart {
        title: "Speedup over Ring".to_owned(),
        subtitle: format!("reduce_scatter, 32 nodes, hop delay 2 us, start-up 0, reconfiguration {delta}, 800 Gbit/s"),
        x: size_scale(),
        y: Scale { label: "speedup over Ring".to_owned(), quantity: Quantity::Ratio, logarithmic: true },
        series: series.collect(),
    })
}

/// A panel of Fig. 6.
fn by_startup(points: &[&Point], nodes: u32, delta: Delay) -> Chart {
    let at = |startup: u64, hop: u64| {
        points.iter().find(|p| {
            p.setting.nodes == nodes
                && p.setting.reconfiguration == delta
                && p.setting.startup == Delay::from_nanoseconds(startup)
                && p.setting.hop_delay == Delay::from_nanoseconds(hop)
        })
    };
    let row = |&startup: &u64| HOP_DELAYS.iter().map(|&hop| at(startup, hop).map(|p| p.speedup(Rule::Best))).collect();
    Chart::Heat(HeatMap {
        title: "Speedup over Ring".to_owned(),
        subtitle: format!(
            "reduce_scatter, recursive halving, {nodes} nodes, 1 MB, reconfiguration {delta}, 800 Gbit/s"
        ),
        x: steps("hop delay", &HOP_DELAYS),
        y: steps("start-up", &STARTUPS),
        cells: STARTUPS.iter().map(row).collect(),
        label: "speedup over Ring".to_owned(),
        quantity: Quantity::Ratio,
        missing: "Ring".to_owned(),
    })
}
