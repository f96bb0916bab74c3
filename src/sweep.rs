//! Thresholds and times over grids of parameters, by closed forms.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;

use rayon::prelude::*;
use rondo_compiler::cost::shortcut::{Pairing, Phases};
use rondo_compiler::cost::sweep::{Costs, Rule, Setting};
use rondo_ir::units::{Bytes, Delay, Rate};

use crate::chart::{Chart, HeatMap, LineChart, MOST_CURVES, MOST_STEPS, Quantity, Scale, Steps};

/// Most points of a sweep.
pub const MOST_POINTS: u64 = 2_000_000;
/// Most charts of a sweep.
pub const MOST_CHARTS: usize = 64;
/// Values of a range that does not say how many.
const VALUES: u32 = 20;

/// A parameter that varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// n.
    Nodes,
    /// m.
    Size,
    /// α_s.
    Startup,
    /// α_p.
    HopDelay,
    /// δ.
    Reconfiguration,
}

impl Axis {
    /// All of them, in the order in which points are listed: the last varies fastest.
    pub const ALL: [Self; 5] = [Self::Nodes, Self::Size, Self::Startup, Self::HopDelay, Self::Reconfiguration];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Size => "size",
            Self::Startup => "startup",
            Self::HopDelay => "hop-delay",
            Self::Reconfiguration => "reconfiguration",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Size => "message size",
            Self::Startup => "start-up",
            Self::HopDelay => "hop delay",
            Self::Reconfiguration => "reconfiguration delay",
        }
    }

    const fn quantity(self) -> Quantity {
        match self {
            Self::Nodes => Quantity::Count,
            Self::Size => Quantity::Bytes,
            Self::Startup | Self::HopDelay | Self::Reconfiguration => Quantity::Seconds,
        }
    }
}

/// What is swept: every combination of these values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The algorithms.
    pub pairings: Vec<Pairing>,
    /// The collective.
    pub phases: Phases,
    /// n, each a power of two.
    pub nodes: Vec<u32>,
    /// m.
    pub sizes: Vec<Bytes>,
    /// α_s.
    pub startups: Vec<Delay>,
    /// α_p.
    pub hop_delays: Vec<Delay>,
    /// δ.
    pub reconfigurations: Vec<Delay>,
    /// The rate of a link.
    pub bandwidth: Rate,
}

/// A computed point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The algorithm.
    pub pairing: Pairing,
    /// The collective.
    pub phases: Phases,
    /// The parameters.
    pub setting: Setting,
    /// What it costs, and what each rule takes.
    pub costs: Costs,
}

impl Point {
    /// Time of the best threshold from 1 on, also where Ring is cheaper.
    #[must_use]
    pub fn best(&self) -> f64 {
        self.costs.time(Some(self.costs.rules.best))
    }

    /// Time of Ring over that of the best threshold, or 1 where Ring is cheaper or nothing takes any time.
    #[must_use]
    pub fn speedup(&self) -> f64 {
        ratio(self.costs.ring, self.costs.time(self.costs.threshold(Rule::Best)))
    }

    /// Time without any reconfiguration over that of Ring.
    #[must_use]
    pub fn static_over_ring(&self) -> f64 {
        ratio(self.costs.time(self.costs.threshold(Rule::Static)), self.costs.ring)
    }
}

impl Sweep {
    /// How many values an axis has.
    #[must_use]
    pub fn values(&self, axis: Axis) -> usize {
        match axis {
            Axis::Nodes => self.nodes.len(),
            Axis::Size => self.sizes.len(),
            Axis::Startup => self.startups.len(),
            Axis::HopDelay => self.hop_delays.len(),
            Axis::Reconfiguration => self.reconfigurations.len(),
        }
    }

    /// The axes with several values.
    pub fn varying(&self) -> impl Iterator<Item = Axis> + '_ {
        Axis::ALL.into_iter().filter(|&axis| 1 < self.values(axis))
    }

    /// How many points there are; `None` above [`MOST_POINTS`].
    #[must_use]
    pub fn points(&self) -> Option<u64> {
        let counts = Axis::ALL.into_iter().map(|axis| self.values(axis)).chain([self.pairings.len()]);
        let product = counts.into_iter().try_fold(1_u64, |product, count| product.checked_mul(count as u64));
        product.filter(|&points| points <= MOST_POINTS)
    }

    /// Computes all points, in parallel: algorithm by algorithm, then in the order of [`Axis::ALL`], the last axis fastest.
    #[must_use]
    pub fn run(&self) -> Vec<Point> {
        let total = usize::try_from(self.points().unwrap_or(0)).unwrap_or(0);
        (0..total)
            .into_par_iter()
            .with_min_len(64)
            .map(|number| {
                let (pairing, at) = self.place(number);
                let setting = Setting {
                    nodes: self.nodes[at[0]],
                    size: self.sizes[at[1]],
                    startup: self.startups[at[2]],
                    hop_delay: self.hop_delays[at[3]],
                    reconfiguration: self.reconfigurations[at[4]],
                    bandwidth: self.bandwidth,
                };
                let pairing = self.pairings[pairing];
                Point { pairing, phases: self.phases, setting, costs: setting.costs(pairing, self.phases) }
            })
            .collect()
    }

    /// Algorithm and position along each axis of a point.
    fn place(&self, number: usize) -> (usize, [usize; 5]) {
        let mut rest = number;
        let mut at = [0; 5];
        for (slot, axis) in Axis::ALL.into_iter().enumerate().rev() {
            at[slot] = rest % self.values(axis);
            rest /= self.values(axis);
        }
        (rest, at)
    }

    fn number(&self, pairing: usize, at: [usize; 5]) -> usize {
        Axis::ALL.into_iter().zip(at).fold(pairing, |number, (axis, at)| number * self.values(axis) + at)
    }

    /// A value of an axis as a text, and as a number: nodes, bytes or seconds.
    #[allow(clippy::cast_precision_loss)]
    fn value(&self, axis: Axis, at: usize) -> (String, f64) {
        let delay = |delay: Delay| (delay.to_string(), delay.femtoseconds() as f64 / 1e15);
        match axis {
            Axis::Nodes => (self.nodes[at].to_string(), f64::from(self.nodes[at])),
            Axis::Size => (self.sizes[at].to_string(), self.sizes[at].0 as f64),
            Axis::Startup => delay(self.startups[at]),
            Axis::HopDelay => delay(self.hop_delays[at]),
            Axis::Reconfiguration => delay(self.reconfigurations[at]),
        }
    }

    /// The charts over one axis or two: a pair of heat maps (speedup and threshold), or curves, for every combination of
    /// the other parameters. The names tell them apart.
    ///
    /// # Errors
    /// More charts or values than can be drawn, in words.
    pub fn charts(
        &self,
        points: &[Point],
        x: Axis,
        y: Option<Axis>,
        lines: bool,
    ) -> Result<Vec<(String, Chart)>, String> {
        let others: Vec<Axis> = self.varying().filter(|&axis| axis != x && Some(axis) != y).collect();
        let panels = others.iter().map(|&axis| self.values(axis)).product::<usize>();
        let curves = lines || y.is_none();
        let each = if curves { panels } else { panels * self.pairings.len() * 2 };
        if MOST_CHARTS < each {
            return Err(format!("{each} charts are more than {MOST_CHARTS}"));
        }
        for axis in [Some(x), y.filter(|_| !curves)].into_iter().flatten() {
            if !curves && MOST_STEPS < self.values(axis) {
                let given = self.values(axis);
                return Err(format!("a heat map shows at most {MOST_STEPS} values of {}, not {given}", axis.name()));
            }
        }
        let series = y.map_or(2, |axis| self.values(axis)) * self.pairings.len();
        if curves && MOST_CURVES < series {
            return Err(format!("{series} curves are more than {MOST_CURVES}; leave out --lines for a heat map"));
        }
        let mut charts = Vec::new();
        for panel in 0..panels {
            let mut at = [0; 5];
            let (mut rest, mut name, mut fixed) = (panel, String::new(), Vec::new());
            for axis in others.iter().rev() {
                at[*axis as usize] = rest % self.values(*axis);
                rest /= self.values(*axis);
            }
            for axis in Axis::ALL.into_iter().filter(|&axis| axis != x && Some(axis) != y) {
                let value = self.value(axis, at[axis as usize]).0;
                if others.contains(&axis) {
                    let _ = write!(name, "-{}-{}", axis.name(), value.replace(' ', ""));
                }
                fixed.push(format!("{} {value}", axis.label()));
            }
            let what = format!(
                "{}, {}, {}/s",
                phases_name(self.phases),
                fixed.join(", "),
                Bytes(self.bandwidth.bytes_per_second())
            );
            if curves {
                charts.push((format!("speedup{name}"), self.curves(points, x, y, at, what)));
                continue;
            }
            let Some(y) = y else { continue };
            for (number, pairing) in self.pairings.iter().enumerate() {
                let what = format!("{what}, {}", pairing.name());
                let name = if 1 < self.pairings.len() { format!("{name}-{}", pairing.name()) } else { name.clone() };
                for thresholds in [false, true] {
                    let kind = if thresholds { "threshold" } else { "speedup" };
                    let map = self.heat(points, (x, y), (number, at), what.clone(), thresholds);
                    charts.push((format!("{kind}{name}"), map));
                }
            }
        }
        Ok(charts)
    }

    fn heat(
        &self,
        points: &[Point],
        (x, y): (Axis, Axis),
        (pairing, mut at): (usize, [usize; 5]),
        subtitle: String,
        thresholds: bool,
    ) -> Chart {
        let mut cells = Vec::with_capacity(self.values(y));
        for row in 0..self.values(y) {
            let mut line = Vec::with_capacity(self.values(x));
            for column in 0..self.values(x) {
                at[x as usize] = column;
                at[y as usize] = row;
                let point = &points[self.number(pairing, at)];
                line.push(if thresholds {
                    point.costs.threshold(Rule::Best).map(f64::from)
                } else {
                    Some(point.speedup())
                });
            }
            cells.push(line);
        }
        let steps = |axis: Axis| Steps {
            label: axis.label().to_owned(),
            ticks: (0..self.values(axis)).map(|at| tick(axis, self.value(axis, at))).collect(),
        };
        let (title, label) =
            if thresholds { ("Best threshold T", "threshold T") } else { ("Speedup over Ring", "speedup over Ring") };
        Chart::Heat(HeatMap {
            title: title.to_owned(),
            subtitle,
            x: steps(x),
            y: steps(y),
            cells,
            label: label.to_owned(),
            quantity: if thresholds { Quantity::Count } else { Quantity::Ratio },
            missing: "Ring".to_owned(),
        })
    }

    /// Speedups over x: a curve for each value of y, or with and without changes where there is no y.
    fn curves(&self, points: &[Point], x: Axis, y: Option<Axis>, at: [usize; 5], subtitle: String) -> Chart {
        let mut series = Vec::new();
        for (number, pairing) in self.pairings.iter().enumerate() {
            for row in 0..y.map_or(2, |axis| self.values(axis)) {
                let mut at = at;
                let name = match y {
                    Some(axis) => {
                        at[axis as usize] = row;
                        self.value(axis, row).0
                    }
                    None => if row == 0 { "best T" } else { "static" }.to_owned(),
                };
                let name = if 1 < self.pairings.len() { format!("{}, {name}", pairing.name()) } else { name };
                let curve = (0..self.values(x)).map(|column| {
                    at[x as usize] = column;
                    let point = &points[self.number(number, at)];
                    let is_static = y.is_none() && row == 1;
                    (self.value(x, column).1, if is_static { 1.0 / point.static_over_ring() } else { point.speedup() })
                });
                series.push((name, curve.collect()));
            }
        }
        Chart::Line(LineChart {
            title: y.map_or("Speedup over Ring".to_owned(), |axis| format!("Speedup over Ring by {}", axis.label())),
            subtitle,
            x: Scale { label: x.label().to_owned(), quantity: x.quantity(), logarithmic: true },
            y: Scale { label: "speedup over Ring".to_owned(), quantity: Quantity::Ratio, logarithmic: true },
            series,
        })
    }

    /// How often each threshold is the best one of an algorithm; `None` is Ring.
    #[must_use]
    pub fn counts(points: &[Point], pairing: Pairing) -> BTreeMap<Option<u32>, usize> {
        let mut counts = BTreeMap::new();
        for point in points.iter().filter(|point| point.pairing == pairing) {
            *counts.entry(point.costs.threshold(Rule::Best)).or_default() += 1;
        }
        counts
    }
}

/// The ratio of two times, 1 where both are nothing.
fn ratio(time: f64, other: f64) -> f64 {
    if time.to_bits() == other.to_bits() { 1.0 } else { time / other }
}

/// How a value is written at the side of a heat map.
fn tick(axis: Axis, (text, number): (String, f64)) -> String {
    if axis == Axis::Size { axis.quantity().text(number) } else { text }
}

/// The collective's name.
#[must_use]
pub const fn phases_name(phases: Phases) -> &'static str {
    match phases {
        Phases::Scatter => "reduce_scatter",
        Phases::Gather => "all_gather",
        Phases::Both => "all_reduce",
    }
}

/// Reads the values of an axis: `8,32,128`, `1 kB..1 GB/13`, or both after one another.
///
/// A range has both ends and values between them at equal ratios, to four digits; from 0 on, at equal distances.
///
/// # Errors
/// What is wrong, and what may be written.
pub fn values<T: Swept>(text: &str) -> Result<Vec<T>, String> {
    let mut values: Vec<T> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let one = |text: &str| T::read(text.trim()).map_err(|error| format!("`{}`: {error}", text.trim()));
        let Some((low, rest)) = part.split_once("..") else {
            values.push(one(part)?);
            continue;
        };
        let (high, count) = match rest.rsplit_once('/') {
            Some((high, count)) => {
                let count: u32 =
                    count.trim().parse().map_err(|_| format!("`{}` is no number of values", count.trim()))?;
                (high, Some(count))
            }
            None => (rest, None),
        };
        let (low, high) = (one(low)?, one(high)?);
        if high.number() < low.number() {
            return Err(format!("`{part}` ends before it begins"));
        }
        if count.is_some_and(|count| !(2..=100_000).contains(&count)) {
            return Err(format!("`{part}` must have 2 to 100000 values"));
        }
        values.extend(T::between(low, high, count));
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

/// The values of an axis.
pub trait Swept: Copy + Ord {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong.
    fn read(text: &str) -> Result<Self, String>;

    /// As a whole number.
    fn number(self) -> u64;

    /// From a whole number.
    fn of(number: u64) -> Self;

    /// Both ends and what lies between.
    fn between(low: Self, high: Self, count: Option<u32>) -> Vec<Self> {
        spaced(low.number(), high.number(), count.unwrap_or(VALUES)).into_iter().map(Self::of).collect()
    }
}

impl Swept for Bytes {
    fn read(text: &str) -> Result<Self, String> {
        Self::from_str(text).map_err(|error| error.to_string())
    }

    fn number(self) -> u64 {
        self.0
    }

    fn of(number: u64) -> Self {
        Self(number)
    }
}

impl Swept for Delay {
    fn read(text: &str) -> Result<Self, String> {
        Self::from_str(text).map_err(|error| error.to_string())
    }

    fn number(self) -> u64 {
        self.femtoseconds()
    }

    fn of(number: u64) -> Self {
        Self::from_femtoseconds(number)
    }
}

/// Numbers of nodes: powers of two; a range has all of them.
impl Swept for u32 {
    fn read(text: &str) -> Result<Self, String> {
        let most = Setting::MOST_NODES;
        let found: Option<Self> = text.parse().ok();
        found
            .filter(|n| n.is_power_of_two() && (2..=most).contains(n))
            .ok_or_else(|| format!("must be a power of two from 2 to {most}"))
    }

    fn number(self) -> u64 {
        self.into()
    }

    fn of(number: u64) -> Self {
        Self::try_from(number).unwrap_or(Self::MAX)
    }

    fn between(low: Self, high: Self, _: Option<Self>) -> Vec<Self> {
        (low.ilog2()..=high.ilog2()).map(|power| 1 << power).collect()
    }
}

/// Values at equal ratios, to four digits, or from 0 on at equal distances; both ends as they are.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn spaced(low: u64, high: u64, count: u32) -> Vec<u64> {
    let last = count - 1;
    (0..count)
        .map(|at| match at {
            0 => low,
            at if at == last => high,
            at if low == 0 => (u128::from(high) * u128::from(at) / u128::from(last)) as u64,
            at => {
                let share = f64::from(at) / f64::from(last);
                let value = (low as f64).powf(1.0 - share) * (high as f64).powf(share);
                // Four digits do not depend on the last bits of a power.
                let unit = 10_f64.powf((value.log10().floor() - 3.0).max(0.0)).round();
                ((value / unit).round() * unit).clamp(low as f64, high as f64) as u64
            }
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_are_lists_and_ranges() {
        let sizes = |text| values::<Bytes>(text).map(|list| list.into_iter().map(|b| b.0).collect::<Vec<_>>());
        assert_eq!(sizes("1 kB, 1 MB,1kB"), Ok(vec![1_000, 1_000_000]));
        assert_eq!(sizes("1 kB..1 GB/3"), Ok(vec![1_000, 1_000_000, 1_000_000_000]));
        assert_eq!(sizes("0 B..9 B/4"), Ok(vec![0, 3, 6, 9]));
        assert_eq!(sizes("1 kB..2 kB").map(|list| list.len()), Ok(20));
        assert_eq!(values::<u32>("8..64, 512"), Ok(vec![8, 16, 32, 64, 512]));
        let delays = values::<Delay>("100 ns..10 us/3").unwrap();
        assert_eq!(delays.iter().map(ToString::to_string).collect::<Vec<_>>(), ["100 ns", "1 us", "10 us"]);
        for bad in ["", "5", "1 kB..", "2 kB..1 kB", "1 kB..2 kB/1", "1 kB..2 kB/x", "1 kB..2 kB/1000000", "..", "-1 B"]
        {
            assert!(sizes(bad).is_err(), "{bad}");
        }
        for bad in ["0", "1", "24", "4..24", "2097152", "8.0"] {
            assert!(values::<u32>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn points_come_in_order_and_are_found_again() {
        let sweep = Sweep {
            pairings: Pairing::ALL.to_vec(),
            phases: Phases::Scatter,
            nodes: vec![8, 16],
            sizes: vec![Bytes(1_000), Bytes(32_000), Bytes(1_000_000)],
            startups: vec![Delay::ZERO],
            hop_delays: values("100 ns..2 us/4").unwrap(),
            reconfigurations: values("100 ns..10 us/5").unwrap(),
            bandwidth: Rate::new(100_000_000_000).unwrap(),
        };
        let points = sweep.run();
        assert_eq!((points.len(), sweep.points()), (240, Some(240)));
        for (number, point) in points.iter().enumerate() {
            let (pairing, at) = sweep.place(number);
            assert_eq!(sweep.number(pairing, at), number);
            assert_eq!((point.pairing, point.setting.nodes), (sweep.pairings[pairing], sweep.nodes[at[0]]));
            assert_eq!(point.setting.reconfiguration, sweep.reconfigurations[at[4]]);
        }
        let charts = sweep.charts(&points, Axis::HopDelay, Some(Axis::Reconfiguration), false).unwrap();
        assert_eq!(charts.len(), 2 * 3 * 2 * 2);
        let names: std::collections::BTreeSet<_> = charts.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), charts.len());
        let Chart::Heat(map) = &charts[0].1 else { panic!("a heat map") };
        assert_eq!(map.cells[3][2], Some(points[2 * 5 + 3].speedup()));
        assert!(sweep.charts(&points, Axis::HopDelay, Some(Axis::Reconfiguration), true).is_err());
        assert_eq!(sweep.charts(&points, Axis::Size, None, true).unwrap().len(), 40);
    }
}
