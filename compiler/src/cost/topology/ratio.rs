//! Fig. 2: how much more bandwidth a link of the torus needs to be as fast as the Clos, and where that crosses a value.

use super::baseline::{Kind, Parameters, clos_hops, diameter, side};

/// r_b = β_c/β_t at which torus and Clos take equally long, all else equal: above it the torus is faster. `None` where the
/// latency of the torus alone exceeds the time of the Clos.
///
/// - all_reduce: D·βm / (log₂ n·(hα + βm) − Dα); γ cancels
/// - all_gather: βm(n−1)/(2k) / (hα + βm(n−1) − Dα)
/// - all_to_all: βm(n−1)·n^{1/k}/8 / (hα + βm(n−1) − Dα)
#[must_use]
pub fn bandwidth_ratio(table: &Parameters, kind: Kind, n: f64, dimensions: u32, hops: u32) -> Option<f64> {
    let bytes = table.inverse_bandwidth * table.message;
    let (d, latency) = (diameter(n, dimensions), f64::from(hops) * table.hop_delay);
    let (torus, clos) = match kind {
        Kind::AllReduce => (d * bytes, n.log2() * (latency + bytes)),
        Kind::AllGather => (bytes * (n - 1.0) / (2.0 * f64::from(dimensions)), latency + bytes * (n - 1.0)),
        Kind::AllToAll => (bytes * (n - 1.0) * side(n, dimensions) / 8.0, latency + bytes * (n - 1.0)),
    };
    let left = clos - d * table.hop_delay;
    (0.0 < left).then(|| torus / left)
}

/// Where r_b crosses a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossover {
    /// Ranks, a real number.
    pub n: f64,
    /// Hops of the Clos there.
    pub hops: u32,
    /// Whether the Clos is ahead beyond it (r_b rises through the value).
    pub to_clos: bool,
    /// Whether it is the step of h at a full rack or pod.
    pub step: bool,
}

/// All n from 2 to 2²⁰ at which r_b is `value`, for a Clos of that radix (h strict, as in the paper): roots of the closed form, by
/// bisection on the pieces where it is monotone.
#[must_use]
pub fn crossovers(table: &Parameters, kind: Kind, dimensions: u32, radix: u64, value: f64) -> Vec<Crossover> {
    let half = super::real(radix) / 2.0;
    let most = 1_048_576.0;
    let mut found: Vec<Crossover> = Vec::new();
    let mut before: Option<f64> = None;
    let mut low = 2.0;
    for (high, hops) in [(half, 2), (half * half, 4), (most, 6)] {
        let high = f64::min(high, most);
        if high <= low {
            continue;
        }
        // Where there is no ratio the Clos is ahead whatever the bandwidth.
        let over =
            |n: f64| bandwidth_ratio(table, kind, n, dimensions, hops).map_or(f64::INFINITY, |ratio| ratio) - value;
        if before.is_some_and(|before| (before < 0.0) != (over(low) < 0.0)) {
            found.push(Crossover { n: low, hops, to_clos: 0.0 <= over(low), step: true });
        }
        // The ratio of all_reduce falls and then rises; the others rise.
        let lowest = minimum(&over, low, high);
        for (a, b) in [(low, lowest), (lowest, high)] {
            if (over(a) < 0.0) != (over(b) < 0.0) {
                found.push(Crossover { n: root(&over, a, b), hops, to_clos: over(a) < 0.0, step: false });
            }
        }
        before = Some(over(high));
        low = high;
    }
    // A value that is met exactly where a piece begins counts once.
    found.dedup_by(|b, a| (b.n - a.n).abs() <= 1e-9 * a.n);
    found
}

/// The least r_b of all n from 2 to 2²⁰, and where.
#[must_use]
pub fn least_ratio(table: &Parameters, kind: Kind, dimensions: u32, radix: u64) -> (f64, f64) {
    let half = super::real(radix) / 2.0;
    let pieces = [(2.0, half), (half, half * half), (half * half, 1_048_576.0)];
    let mut best = (f64::INFINITY, 2.0);
    for (low, high) in pieces.into_iter().filter(|(low, high)| low < high) {
        let hops = clos_hops(low, radix, true);
        let at = |n: f64| bandwidth_ratio(table, kind, n, dimensions, hops).unwrap_or(f64::INFINITY);
        let n = minimum(&at, low, high);
        if at(n) < best.0 {
            best = (at(n), n);
        }
    }
    best
}

/// The message at which all_reduce takes equally long on both: the torus is faster below, the Clos above. `None` if one of them is
/// always faster. m* = (h·log₂ n − D)α / ((D − log₂ n)β), section 3 (D10).
#[must_use]
pub fn all_reduce_switch_over(table: &Parameters, n: f64, diameter: f64, hops: u32) -> Option<f64> {
    let rounds = n.log2();
    let (latency, bytes) = (f64::from(hops) * rounds - diameter, diameter - rounds);
    let size = latency * table.hop_delay / (bytes * table.inverse_bandwidth);
    (0.0 < size && size.is_finite()).then_some(size)
}

/// Where a function that falls and then rises is least, by golden sections.
fn minimum(f: &impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..200 {
        let (a, b) = (high - golden * (high - low), low + golden * (high - low));
        if f(a) <= f(b) {
            high = b;
        } else {
            low = a;
        }
    }
    f64::midpoint(low, high)
}

/// A root between two points of different sign, by bisection.
fn root(f: &impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let sign = f(low) < 0.0;
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || high <= middle {
            break;
        }
        if (f(middle) < 0.0) == sign {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{compare, golden};
    use super::*;

    fn kind(name: &str) -> Kind {
        match name {
            "AR" => Kind::AllReduce,
            "AG" => Kind::AllGather,
            _ => Kind::AllToAll,
        }
    }

    #[test]
    fn ratios_and_crossovers_are_the_golden_ones() {
        let golden = golden("a_bandwidth_ratio");
        let table = Parameters::default();
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let n = row["n"].as_f64().unwrap();
            let k = u32::try_from(row["k_t"].as_u64().unwrap()).unwrap();
            let h = clos_hops(n, 128, true);
            let at = |name| bandwidth_ratio(&table, kind(name), n, k, h);
            let values = [("AR", at("AR")), ("AG", at("AG")), ("ATA", at("ATA"))];
            compared += compare(row, &["n", "k_t"], &values);
        }
        assert_eq!(compared, 84 * 3);
        let mut expected = golden["crossovers"].as_array().unwrap().iter().peekable();
        for name in ["AR", "AG", "ATA"] {
            for k in 1..=3 {
                for value in [1.0, 0.5] {
                    for found in crossovers(&table, kind(name), k, 128, value) {
                        let expected = expected.next().unwrap();
                        assert!(!found.step);
                        assert_eq!(expected["collective"], name);
                        assert_eq!(
                            (expected["k_t"].as_u64(), expected["r_b"].as_f64(), expected["h"].as_u64()),
                            (Some(k.into()), Some(value), Some(found.hops.into())),
                            "{expected}"
                        );
                        let n = expected["n"].as_f64().unwrap();
                        assert!((found.n - n).abs() <= 1e-12 * n, "{} {expected}", found.n);
                        let direction = if found.to_clos { "torus->clos" } else { "clos->torus" };
                        assert_eq!(expected["direction"], direction);
                    }
                }
            }
        }
        assert_eq!(expected.next(), None);
    }

    #[test]
    fn section_3_and_its_sizes_are_the_golden_ones() {
        let table = Parameters::default();
        let claims = golden("a_claims_section3");
        let ours = |id: &str| {
            let row = claims["rows"].as_array().unwrap().iter().find(|row| row["id"] == id);
            row.unwrap()["ours"].clone()
        };
        let close = |found: f64, expected: &serde_json::Value| {
            let expected = expected.as_f64().unwrap();
            assert!((found - expected).abs() <= 1e-12 * expected, "{found} {expected}");
        };
        close(crossovers(&table, Kind::AllToAll, 3, 128, 0.5)[0].n, &ours("rb05_ata")["crossover_n"][0]);
        close(crossovers(&table, Kind::AllToAll, 3, 128, 1.0)[0].n, &ours("ata_cross_k3")["r_b=1 crossings"][0][0]);
        let both = crossovers(&table, Kind::AllReduce, 3, 128, 1.0);
        close(both[0].n, &ours("ar_cross_k3")["r_b=1 crossings"][0][0]);
        close(both[1].n, &ours("ar_cross_k3")["r_b=1 crossings"][1][0]);
        // The golden number is the least over n = 2^(i/20).
        let (least, n) = least_ratio(&table, Kind::AllReduce, 3, 128);
        let at = |n: f64| bandwidth_ratio(&table, Kind::AllReduce, n, 3, clos_hops(n, 128, true)).unwrap();
        let grid = (20..380).map(|i| at(2_f64.powf(f64::from(i) / 20.0))).fold(f64::INFINITY, f64::min);
        close(grid, &ours("rb05_ar")["min_r_b_k3"]);
        assert!(least <= grid && grid - least < 1e-4 && (19.0..21.0).contains(&n));
        for (key, n) in [("r_b_n128", 128.0), ("r_b_n512", 512.0)] {
            let found = bandwidth_ratio(&table, Kind::AllGather, n, 3, clos_hops(n, 128, true)).unwrap();
            close(found, &ours("rb_ag")[key]);
        }

        let sizes = golden("a_message_size_n128");
        let mut compared = 0;
        for row in sizes["rows"].as_array().unwrap() {
            let table = table.with_message(row["m_bytes"].as_f64().unwrap());
            let mut values = Vec::new();
            for h in [2, 4, 6] {
                values.push((format!("clos_AR_h{h}"), table.clos(Kind::AllReduce, 128.0, h)));
                values.push((format!("clos_AG_ATA_h{h}"), table.clos(Kind::AllGather, 128.0, h)));
            }
            for k in 1..=3 {
                for (name, kind) in [("AR", Kind::AllReduce), ("AG", Kind::AllGather), ("ATA", Kind::AllToAll)] {
                    values.push((format!("torus_{name}_k{k}"), table.torus(kind, 128.0, k)));
                }
            }
            let values: Vec<_> = values.iter().map(|(name, value)| (name.as_str(), Some(*value))).collect();
            compared += compare(row, &["m_bytes"], &values);
        }
        assert_eq!(compared, 19 * 15);
        for row in sizes["AR_crossover"].as_array().unwrap() {
            let d = match row["k_t"].as_u64() {
                Some(k) => diameter(128.0, u32::try_from(k).unwrap()),
                None => 8.0,
            };
            let h = u32::try_from(row["h"].as_u64().unwrap()).unwrap();
            close(all_reduce_switch_over(&table, 128.0, d, h).unwrap(), &row["m_star_bytes"]);
        }
        assert_eq!(sizes["AR_crossover"].as_array().unwrap().len(), 9);
    }

    #[test]
    fn a_step_of_the_hops_is_a_crossing_too() {
        // Latency rules: at a full rack the Clos becomes twice as slow.
        let table = Parameters { message: 1.0, ..Parameters::default() };
        for value in [1e-4, 1e-3, 1e-2, 0.5, 1.0] {
            for kind in Kind::ALL {
                let found = crossovers(&table, kind, 3, 128, value);
                for crossing in found {
                    let n = crossing.n;
                    let at = |n: f64, hops| bandwidth_ratio(&table, kind, n, 3, hops).unwrap_or(f64::INFINITY);
                    let (left, right) = if crossing.step {
                        (at(n, crossing.hops - 2), at(n, crossing.hops))
                    } else {
                        (at(n * (1.0 - 1e-9), crossing.hops), at(n * (1.0 + 1e-9), crossing.hops))
                    };
                    assert_ne!(left < value, right < value, "{kind:?} {value} {crossing:?}");
                }
            }
        }
    }
}
