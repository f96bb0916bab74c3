//! Table 5 and section 6: ports, switches, bandwidth and price of a full Clos and a torus of as many ranks.

use std::collections::BTreeMap;

use super::baseline::{Kind, Parameters};
use super::{Clos, FormError, real};

/// What a switch costs by its ports, in any unit.
#[derive(Clone, Debug, PartialEq)]
pub enum PriceFunction {
    /// p.
    Linear,
    /// p².
    Quadratic,
    /// √p, one of the sublinear functions; the paper does not say which it takes (D18).
    Root,
    /// log₂ p.
    Log,
    /// log₂(1 + p).
    LogOfNext,
    /// A user's table: ports → price. Between two entries prices are interpolated; outside, the nearest entry's price a port holds.
    Table(BTreeMap<u64, f64>),
}

impl PriceFunction {
    /// Those with a name.
    pub const NAMED: [Self; 5] = [Self::Linear, Self::Quadratic, Self::Root, Self::Log, Self::LogOfNext];

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Quadratic => "quadratic",
            Self::Root => "sqrt",
            Self::Log => "log2",
            Self::LogOfNext => "log2_1p",
            Self::Table(_) => "table",
        }
    }

    /// The price of a switch with so many ports.
    #[must_use]
    pub fn of(&self, ports: u64) -> f64 {
        let p = real(ports);
        match self {
            Self::Linear => p,
            Self::Quadratic => p * p,
            Self::Root => p.sqrt(),
            Self::Log => p.log2(),
            Self::LogOfNext => (1.0 + p).log2(),
            Self::Table(prices) => {
                let (below, above) = (prices.range(..=ports).next_back(), prices.range(ports..).next());
                match (below, above) {
                    (Some((&a, &low)), Some((&b, &high))) if a < b => {
                        low + (high - low) * real(ports - a) / real(b - a)
                    }
                    (Some((&a, &price)), _) | (None, Some((&a, &price))) if a != 0 => price * p / real(a),
                    (Some((_, &price)), _) | (None, Some((_, &price))) => price,
                    (None, None) => 0.0,
                }
            }
        }
    }
}

/// What a design needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    /// Ports of a switch.
    pub ports: u64,
    /// Switches; in a torus every rank is one.
    pub switches: u64,
    /// Two-way cables.
    pub cables: u64,
    /// Total bandwidth, bytes per second, each cable counted once.
    pub bandwidth: f64,
}

impl Bill {
    /// A full Clos: 5k²/4 switches of k ports, 3N cables, 3N/β.
    #[must_use]
    pub fn clos(clos: Clos, inverse_bandwidth: f64) -> Self {
        let cables = 3 * clos.ranks();
        Self { ports: clos.radix(), switches: clos.switches(), cables, bandwidth: real(cables) / inverse_bandwidth }
    }

    /// A torus of k dimensions: N switches of 2k ports, Nk cables, Nk/β.
    ///
    /// # Errors
    /// [`FormError::NoDimension`]; [`FormError::TooManyNodes`].
    pub fn torus(ranks: u64, dimensions: u32, inverse_bandwidth: f64) -> Result<Self, FormError> {
        if dimensions == 0 {
            return Err(FormError::NoDimension);
        }
        let cables = ranks.checked_mul(dimensions.into()).ok_or(FormError::TooManyNodes)?;
        let bandwidth = real(cables) / inverse_bandwidth;
        Ok(Self { ports: 2 * u64::from(dimensions), switches: ranks, cables, bandwidth })
    }

    /// Switches times what one costs.
    #[must_use]
    pub fn price(&self, function: &PriceFunction) -> f64 {
        real(self.switches) * function.of(self.ports)
    }
}

/// A full Clos beside a torus of as many ranks (Fig. 10).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The Clos.
    pub clos: Bill,
    /// The torus.
    pub torus: Bill,
    ranks: f64,
    dimensions: u32,
    hops: u32,
}

impl Comparison {
    /// Compares them.
    ///
    /// # Errors
    /// As [`Bill::torus`].
    pub fn new(clos: Clos, dimensions: u32, table: &Parameters) -> Result<Self, FormError> {
        let torus = Bill::torus(clos.ranks(), dimensions, table.inverse_bandwidth)?;
        let bill = Bill::clos(clos, table.inverse_bandwidth);
        Ok(Self { clos: bill, torus, ranks: real(clos.ranks()), dimensions, hops: 6 })
    }

    /// p: price of the Clos over that of the torus.
    #[must_use]
    pub fn price_ratio(&self, function: &PriceFunction) -> f64 {
        self.clos.price(function) / self.torus.price(function)
    }

    /// s_c: time on the torus over time on the Clos.
    #[must_use]
    pub fn speedup(&self, table: &Parameters, kind: Kind) -> f64 {
        table.torus(kind, self.ranks, self.dimensions) / table.clos(kind, self.ranks, self.hops)
    }

    /// p/s_c: price of the Clos for what it gains; Fig. 10(b) for quadratic prices.
    #[must_use]
    pub fn price_per_speedup(&self, function: &PriceFunction, table: &Parameters, kind: Kind) -> f64 {
        self.price_ratio(function) / self.speedup(table, kind)
    }
}

/// The sides of the smallest torus of k dimensions that holds so many ranks, as equal as can be: of all with the least nodes, the one of
/// smallest diameter. Descending.
///
/// # Errors
/// [`FormError::TooFew`], [`FormError::NoDimension`], [`FormError::TooManyNodes`] (above 2²⁴ ranks or 6 dimensions).
pub fn smallest_torus(ranks: u64, dimensions: u32) -> Result<Vec<u64>, FormError> {
    if ranks == 0 {
        return Err(FormError::TooFew { given: 0.0, least: 1.0 });
    }
    if dimensions == 0 {
        return Err(FormError::NoDimension);
    }
    if 1 << 24 < ranks || 6 < dimensions {
        return Err(FormError::TooManyNodes);
    }
    // No side above the next cube root and one: a torus of equal sides holds them, so longer ones only add to the diameter
    // unless they save nodes.
    for nodes in ranks.. {
        let most_even = factors(nodes, dimensions, nodes);
        let even = real(ranks).powf(1.0 / f64::from(dimensions)).ceil();
        // A shape with a side of more than twice the even one is no torus that anybody builds.
        if let Some(sides) = most_even.filter(|sides| sides.iter().all(|&side| real(side) <= 2.0 * even)) {
            return Ok(sides);
        }
    }
    Err(FormError::TooManyNodes)
}

/// The factorisation of `nodes` into so many sides, none above `most`, with the smallest sum.
fn factors(nodes: u64, dimensions: u32, most: u64) -> Option<Vec<u64>> {
    if dimensions == 1 {
        return (nodes <= most).then(|| vec![nodes]);
    }
    let mut best: Option<Vec<u64>> = None;
    let mut consider = |side: u64| {
        if side <= most
            && let Some(rest) = factors(nodes / side, dimensions - 1, side)
        {
            let found: Vec<u64> = std::iter::once(side).chain(rest).collect();
            if best.as_ref().is_none_or(|best| found.iter().sum::<u64>() < best.iter().sum()) {
                best = Some(found);
            }
        }
    };
    let mut divisor = 1;
    while divisor * divisor <= nodes {
        if nodes.is_multiple_of(divisor) {
            consider(divisor);
            consider(nodes / divisor);
        }
        divisor += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::testing::{compare, golden};
    use super::*;

    #[test]
    fn table_5_is_the_golden_one() {
        let golden = golden("a_cost");
        let table = Parameters::default();
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let clos = Clos::new(row["k_c"].as_u64().unwrap()).unwrap();
            let dimensions = u32::try_from(row["k_t"].as_u64().unwrap()).unwrap();
            let both = Comparison::new(clos, dimensions, &table).unwrap();
            let pod = real(clos.pod());
            let functions = PriceFunction::NAMED;
            let prices = functions.iter().map(|function| format!("price_{}", function.name())).collect::<Vec<_>>();
            let mut parameters = vec!["k_c", "k_t", "speedup"];
            parameters.extend(prices.iter().map(String::as_str));
            compared += compare(
                row,
                &parameters,
                &[
                    ("N", Some(real(clos.ranks()))),
                    ("torus_ports", Some(real(both.torus.ports))),
                    ("clos_ports", Some(real(both.clos.ports))),
                    ("torus_switches", Some(real(both.torus.switches))),
                    ("clos_switches", Some(real(both.clos.switches))),
                    ("clos_edge", Some(2.0 * pod)),
                    ("clos_agg", Some(2.0 * pod)),
                    ("clos_core", Some(pod)),
                    ("torus_links", Some(real(both.torus.cables))),
                    ("clos_links", Some(real(both.clos.cables))),
                    ("torus_total_bw_Bps", Some(both.torus.bandwidth)),
                    ("clos_total_bw_Bps", Some(both.clos.bandwidth)),
                ],
            );
            let kinds = [("AR", Kind::AllReduce), ("AG", Kind::AllGather), ("ATA", Kind::AllToAll)];
            compared +=
                compare(&row["speedup"], &[], &kinds.map(|(name, kind)| (name, Some(both.speedup(&table, kind)))));
            for (function, key) in functions.iter().zip(&prices) {
                let Some(prices) = row.get(key) else { continue };
                compared += compare(
                    prices,
                    &["p_over_s"],
                    &[
                        ("torus", Some(both.torus.price(function))),
                        ("clos", Some(both.clos.price(function))),
                        ("p", Some(both.price_ratio(function))),
                    ],
                );
                let per = kinds.map(|(name, kind)| (name, Some(both.price_per_speedup(function, &table, kind))));
                compared += compare(&prices["p_over_s"], &[], &per);
            }
        }
        assert_eq!(compared, 14 * (12 + 3 + 5 * 6));
    }

    #[test]
    fn a_table_of_prices_is_interpolated() {
        let table = PriceFunction::Table(BTreeMap::from([(32, 1000.0), (64, 3000.0)]));
        let of =
            |ports: u64, price: f64| assert!((table.of(ports) - price).abs() < 1e-9, "{ports}: {}", table.of(ports));
        for (ports, price) in [(16, 500.0), (32, 1000.0), (48, 2000.0), (64, 3000.0), (128, 6000.0)] {
            of(ports, price);
        }
        assert!(PriceFunction::Table(BTreeMap::new()).of(4).abs() < 1e-9);
    }

    #[test]
    fn the_smallest_torus_is_as_even_as_can_be() {
        for (ranks, dimensions, sides) in [
            (512, 3, vec![8, 8, 8]),
            (128, 3, vec![8, 4, 4]),
            (100, 2, vec![10, 10]),
            (97, 2, vec![14, 7]),
            (6144, 3, vec![24, 16, 16]),
            (1, 3, vec![1, 1, 1]),
            (7, 1, vec![7]),
        ] {
            assert_eq!(smallest_torus(ranks, dimensions).unwrap(), sides, "{ranks}");
        }
        assert!(smallest_torus(0, 3).is_err() && smallest_torus(8, 0).is_err() && smallest_torus(u64::MAX, 3).is_err());
    }
}
