//! The closed forms of [`shortcut`](super::shortcut) at one point of a sweep, exactly and fast.
//!
//! Sizes, delays and rates are whole numbers of bytes, femtoseconds and bytes per second. In the unit
//! 1/(rate · n · 10¹⁵) of a second all costs of a point are whole numbers too: they are compared exactly, in 128 bits where
//! that is enough, and become floats only to be printed.

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use rondo_ir::units::{Bytes, Delay, Rate};

use super::shortcut::{Arcs, Model, Pairing, Phases, Rules, Scalar};

/// How the threshold is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The cheapest T in 1 … L, the smallest on ties; Ring where that is dearer.
    Best,
    /// As printed: the smallest T in 0 … L−1 that is no dearer than Ring, else Ring.
    Literal,
    /// The smallest T in 1 … L that is no dearer than Ring, else Ring.
    FromOne,
    /// T = L: nothing is ever reconfigured, also where Ring would be cheaper.
    Static,
}

impl Rule {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Best, Self::Literal, Self::FromOne, Self::Static];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Literal => "literal",
            Self::FromOne => "from-one",
            Self::Static => "static",
        }
    }
}

/// The parameters of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// n: endpoints of the ring, a power of two from 2 to [`Setting::MOST_NODES`].
    pub nodes: u32,
    /// m: bytes of the whole vector.
    pub size: Bytes,
    /// α_s: start-up of a step.
    pub startup: Delay,
    /// α_p: delay of a hop.
    pub hop_delay: Delay,
    /// δ: one reconfiguration, synchronisation included.
    pub reconfiguration: Delay,
    /// 1/β: rate of a link.
    pub bandwidth: Rate,
}

/// What a collective costs at every threshold, and what each rule takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// The Ring, in seconds.
    pub ring: f64,
    /// T = 0 … L, in seconds.
    pub by_threshold: Vec<f64>,
    /// The choices; exact.
    pub rules: Rules,
}

impl Costs {
    /// T by a rule; `None` is Ring.
    #[must_use]
    pub fn threshold(&self, rule: Rule) -> Option<u32> {
        match rule {
            Rule::Best => self.rules.best_beats_ring.then_some(self.rules.best),
            Rule::Literal => self.rules.literal,
            Rule::FromOne => self.rules.from_one,
            Rule::Static => u32::try_from(self.by_threshold.len() - 1).ok(),
        }
    }

    /// The time of a threshold, in seconds; `None` is Ring.
    #[must_use]
    pub fn time(&self, threshold: Option<u32>) -> f64 {
        threshold.and_then(|t| self.by_threshold.get(t as usize)).copied().unwrap_or(self.ring)
    }
}

impl Setting {
    /// The largest ring.
    pub const MOST_NODES: u32 = 1 << 20;

    /// L = log₂ n.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.nodes.ilog2()
    }

    /// The costs at every threshold: of a reduce_scatter by Eq. 6, where every direct step pays a reconfiguration; of the
    /// others with T' = L − T, charged by the state of the switch, which begins with the ring and is left as it is.
    #[must_use]
    pub fn costs(&self, pairing: Pairing, phases: Phases) -> Costs {
        if self.fits() { self.costs_in::<i128>(pairing, phases) } else { self.costs_in::<BigInt>(pairing, phases) }
    }

    /// How often circuits are changed at a threshold.
    #[must_use]
    pub fn reconfigurations(&self, pairing: Pairing, phases: Phases, threshold: u32) -> u32 {
        let steps = self.steps();
        if phases == Phases::Scatter {
            return steps - threshold;
        }
        let free = Model { hop_delay: 0_i128, startup: 0, per_byte: 0, reconfiguration: 0 };
        free.charged(pairing, Arcs::Same, self.nodes.into(), &0, phases, (threshold, steps - threshold), false).1
    }

    /// Whether 128 bits hold every sum and product of the costs.
    fn fits(&self) -> bool {
        let sum: u128 =
            [self.startup, self.hop_delay, self.reconfiguration].iter().map(|d| u128::from(d.femtoseconds())).sum();
        let nodes = u128::from(self.nodes);
        let delays = sum
            .checked_mul(self.bandwidth.bytes_per_second().into())
            .and_then(|product| product.checked_mul(4 * nodes * nodes));
        let bytes = u128::from(self.size.0)
            .checked_mul(FEMTO.into())
            .and_then(|product| product.checked_mul(4 * nodes * nodes));
        delays.zip(bytes).and_then(|(a, b)| a.checked_add(b)).is_some_and(|total| total < 1 << 126)
    }

    fn costs_in<N: Scalar + ToPrimitive>(&self, pairing: Pairing, phases: Phases) -> Costs {
        let nodes = u64::from(self.nodes);
        let scale = N::whole(self.bandwidth.bytes_per_second()) * N::whole(nodes);
        let delay = |delay: Delay| N::whole(delay.femtoseconds()) * scale.clone();
        let model = Model {
            hop_delay: delay(self.hop_delay),
            startup: delay(self.startup),
            per_byte: N::whole(FEMTO),
            reconfiguration: delay(self.reconfiguration),
        };
        // In n-th parts of a byte, so that the part of every step is whole.
        let message = N::whole(self.size.0) * N::whole(nodes);
        let steps = self.steps();
        let at = |t| model.charged(pairing, Arcs::Same, nodes, &message, phases, (t, steps - t), false).0;
        let mut costs: Vec<N> = match phases {
            Phases::Scatter => model.reduce_scatter(pairing, nodes, &message),
            Phases::Gather | Phases::Both => (0..=steps).map(at).collect(),
        };
        let mut ring = model.ring(nodes, &message) * N::whole(if phases == Phases::Both { 2 } else { 1 });
        let rules = Rules::of(&costs, &ring);
        let unit = (scale * N::whole(FEMTO)).to_f64().unwrap_or(f64::INFINITY);
        let seconds = |units: &mut N| units.to_f64().unwrap_or(f64::INFINITY) / unit;
        Costs { ring: seconds(&mut ring), by_threshold: costs.iter_mut().map(seconds).collect(), rules }
    }
}

/// Femtoseconds in a second.
const FEMTO: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn golden(name: &str) -> Vec<Value> {
        let path = format!("{}/../tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        file["rows"].as_array().unwrap().clone()
    }

    fn setting(row: &Value) -> Setting {
        let number = |at: usize| row[at].as_u64().unwrap();
        Setting {
            nodes: u32::try_from(number(0)).unwrap(),
            size: Bytes(number(4)),
            startup: Delay::from_nanoseconds(number(2)),
            hop_delay: Delay::from_nanoseconds(number(1)),
            reconfiguration: Delay::from_nanoseconds(number(3)),
            bandwidth: Rate::new(100_000_000_000).unwrap(),
        }
    }

    #[track_caller]
    fn close(seconds: f64, nanoseconds: &Value) {
        let expected = nanoseconds.as_f64().unwrap();
        assert!((seconds * 1e9 - expected).abs() <= 1e-12 * expected, "{} instead of {expected}", seconds * 1e9);
    }

    #[test]
    fn phases_and_rules_are_those_of_the_golden_grids() {
        for (file, pairing) in [("b_cost_grid_rd", Pairing::Doubling), ("b_cost_grid_swing", Pairing::Swing)] {
            for row in golden(file) {
                let setting = setting(&row);
                assert!(setting.fits());
                let costs = setting.costs(pairing, Phases::Scatter);
                assert_eq!(costs, setting.costs_in::<BigInt>(pairing, Phases::Scatter));
                close(costs.ring, &row[5]);
                costs
                    .by_threshold
                    .iter()
                    .zip(row[6].as_array().unwrap())
                    .for_each(|(cost, golden)| close(*cost, golden));
                let threshold = |rule| costs.threshold(rule).map_or(Value::Null, Value::from);
                assert_eq!(
                    (threshold(Rule::Literal), threshold(Rule::FromOne)),
                    (row[7].clone(), row[8].clone()),
                    "{row}"
                );
                assert_eq!(
                    (Value::from(costs.rules.best), costs.rules.best_beats_ring.into()),
                    (row[9].clone(), row[10].clone())
                );
            }
        }
        for row in golden("b_allgather_tprime") {
            let setting = setting(&row);
            let costs = setting.costs(Pairing::Doubling, Phases::Gather);
            // The golden rows are by T' = L − T.
            let expected = row[8].as_array().unwrap().iter().rev();
            costs.by_threshold.iter().zip(expected).for_each(|(cost, golden)| close(*cost, golden));
        }
        for row in golden("b_allreduce") {
            let setting = setting(&row);
            let costs = setting.costs(Pairing::Doubling, Phases::Both);
            close(costs.ring, &row[5]);
            costs.by_threshold.iter().zip(row[7].as_array().unwrap()).for_each(|(cost, golden)| close(*cost, golden));
            let changes: Vec<_> =
                (0..=setting.steps()).map(|t| setting.reconfigurations(Pairing::Doubling, Phases::Both, t)).collect();
            assert_eq!(serde_json::to_value(changes).unwrap(), row[8]);
        }
    }

    #[test]
    fn numbers_beyond_128_bits_are_exact_too() {
        let huge = Setting {
            nodes: 1 << 20,
            size: Bytes(u64::MAX),
            startup: Delay::LONGEST,
            hop_delay: Delay::LONGEST,
            reconfiguration: Delay::LONGEST,
            bandwidth: Rate::new(u64::MAX).unwrap(),
        };
        assert!(!huge.fits());
        let costs = huge.costs(Pairing::Doubling, Phases::Scatter);
        // (α_p + α_s)(n−1) + βm(n−1)/n with βm = 1 s.
        let expected = 7200.0 * f64::from((1 << 20) - 1) + f64::from((1 << 20) - 1) / f64::from(1 << 20);
        assert!((costs.ring / expected - 1.0).abs() < 1e-15);
        assert_eq!(costs.threshold(Rule::Best), Some(1));
    }
}
