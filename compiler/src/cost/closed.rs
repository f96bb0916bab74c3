//! Closed forms of the topology paper's Table 2, in floating point: for scale and plots, never to choose a schedule.
//!
//! Sides and logarithms are real numbers here, as in the paper; builders use integer shapes. What each formula is worth
//! against a concrete schedule is documented with the builders.

/// Parameters of Table 1 of the topology paper, in seconds and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table2 {
    /// α: latency of a link.
    pub hop_delay: f64,
    /// β: time per byte on a link.
    pub inverse_bandwidth: f64,
    /// γ: time per byte to reduce.
    pub reduce_cost: f64,
    /// m: for all_reduce the whole vector, for all_gather and all_to_all the part for one peer.
    pub message: f64,
}

/// The paper's defaults: 1 µs, 400 Gbit/s, 1 ps/B, 100 MB.
impl Default for Table2 {
    fn default() -> Self {
        Self { hop_delay: 1e-6, inverse_bandwidth: 2e-11, reduce_cost: 1e-12, message: 1e8 }
    }
}

/// Most hops between two of `n` hosts, placed closely, of a three-tier Clos of switches with `radix` ports: 2 within a
/// rack of radix/2, 4 within a pod of radix²/4, else 6.
///
/// `strict` counts a full rack or pod as too large, as the paper's "<" does; physically it still fits.
#[must_use]
pub fn clos_hops(n: u64, radix: u64, strict: bool) -> u32 {
    let fits = |limit: u64| if strict { n < limit } else { n <= limit };
    if fits(radix / 2) {
        2
    } else if fits(radix * radix / 4) {
        4
    } else {
        6
    }
}

/// Hops of all rounds of recursive doubling together when the `n` hosts, a power of two, are placed closely: what the
/// latency of the concrete schedule is, instead of h·log₂ n.
#[must_use]
pub fn clos_recursive_doubling_hops(n: u64, radix: u64) -> Option<u64> {
    if !n.is_power_of_two() {
        return None;
    }
    let (rack, pod) = (radix / 2, radix * radix / 4);
    let round = |t: u32| match 1_u64 << t {
        distance if distance < rack => 2,
        distance if distance < pod => 4,
        _ => 6,
    };
    Some((0..n.trailing_zeros()).map(round).sum())
}

#[allow(clippy::cast_precision_loss)]
impl Table2 {
    /// D = k·n^{1/k}/2, the paper's diameter of a torus of k dimensions.
    #[must_use]
    pub fn diameter(n: u64, dimensions: u32) -> f64 {
        let k = f64::from(dimensions);
        k * Self::side(n, dimensions) / 2.0
    }

    fn side(n: u64, dimensions: u32) -> f64 {
        match dimensions {
            1 => n as f64,
            2 => (n as f64).sqrt(),
            3 => (n as f64).cbrt(),
            _ => (n as f64).powf(1.0 / f64::from(dimensions)),
        }
    }

    /// Clos all_reduce by recursive doubling: log₂ n·(hα + βm + γm).
    #[must_use]
    pub fn clos_all_reduce(&self, n: u64, hops: u32) -> f64 {
        let per_byte = self.inverse_bandwidth + self.reduce_cost;
        (n as f64).log2() * (f64::from(hops) * self.hop_delay + per_byte * self.message)
    }

    /// Clos all_gather: hα + βm(n−1).
    #[must_use]
    pub fn clos_all_gather(&self, n: u64, hops: u32) -> f64 {
        f64::from(hops) * self.hop_delay + self.inverse_bandwidth * self.message * (n - 1) as f64
    }

    /// Clos all_to_all: as all_gather.
    #[must_use]
    pub fn clos_all_to_all(&self, n: u64, hops: u32) -> f64 {
        self.clos_all_gather(n, hops)
    }

    /// Torus all_reduce: D·(α + βm) + log₂ n·γm.
    #[must_use]
    pub fn torus_all_reduce(&self, n: u64, dimensions: u32) -> f64 {
        Self::diameter(n, dimensions) * (self.hop_delay + self.inverse_bandwidth * self.message)
            + (n as f64).log2() * self.reduce_cost * self.message
    }

    /// Torus all_gather: Dα + βm(n−1)/(2k).
    #[must_use]
    pub fn torus_all_gather(&self, n: u64, dimensions: u32) -> f64 {
        Self::diameter(n, dimensions) * self.hop_delay
            + self.inverse_bandwidth * self.message * (n - 1) as f64 / (2.0 * f64::from(dimensions))
    }

    /// Torus all_to_all: Dα + βm(n−1)·n^{1/k}/8.
    #[must_use]
    pub fn torus_all_to_all(&self, n: u64, dimensions: u32) -> f64 {
        Self::diameter(n, dimensions) * self.hop_delay
            + self.inverse_bandwidth * self.message * (n - 1) as f64 * Self::side(n, dimensions) / 8.0
    }

    /// The same with message m/n.
    fn block(&self, n: u64) -> Self {
        Self { message: self.message / n as f64, ..*self }
    }

    fn block_reduction(&self, n: u64) -> f64 {
        (n - 1) as f64 * self.reduce_cost * self.message / n as f64
    }

    /// Clos all_reduce as all_to_all, local sums and all_gather of m/n (section 3's remark, not in the table).
    #[must_use]
    pub fn clos_all_reduce_composed(&self, n: u64, hops: u32) -> f64 {
        let block = self.block(n);
        block.clos_all_to_all(n, hops) + self.block_reduction(n) + block.clos_all_gather(n, hops)
    }

    /// Torus all_reduce as all_to_all, local sums and all_gather of m/n (section 3's remark, not in the table).
    #[must_use]
    pub fn torus_all_reduce_composed(&self, n: u64, dimensions: u32) -> f64 {
        let block = self.block(n);
        block.torus_all_to_all(n, dimensions) + self.block_reduction(n) + block.torus_all_gather(n, dimensions)
    }

    /// Torus all_reduce as all_gather run backwards and forwards on m/n (not in the paper).
    #[must_use]
    pub fn torus_all_reduce_reversed(&self, n: u64, dimensions: u32) -> f64 {
        2.0 * self.block(n).torus_all_gather(n, dimensions) + self.block_reduction(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_agree_with_the_golden_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/a_table2_baseline.json");
        let golden: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let table = Table2::default();
        let eight = Table2 { reduce_cost: 8e-12, ..table };
        let rows = golden["rows"].as_array().unwrap();
        let mut compared = 0;
        for row in rows {
            let n = row["n"].as_u64().unwrap();
            let k = u32::try_from(row["k_t"].as_u64().unwrap()).unwrap();
            let h = clos_hops(n, 128, true);
            assert_eq!(u64::from(h), row["h"].as_u64().unwrap(), "n = {n}");
            assert_eq!(u64::from(clos_hops(n, 128, false)), row["h_le"].as_u64().unwrap(), "n = {n}");
            assert_eq!(clos_recursive_doubling_hops(n, 128), row["clos_AR_sum_hops_exact"].as_u64(), "n = {n}");
            for (key, value) in [
                ("diam", Table2::diameter(n, k)),
                ("clos_AR", table.clos_all_reduce(n, h)),
                ("clos_AG", table.clos_all_gather(n, h)),
                ("clos_ATA", table.clos_all_to_all(n, h)),
                ("torus_AR", table.torus_all_reduce(n, k)),
                ("torus_AG", table.torus_all_gather(n, k)),
                ("torus_ATA", table.torus_all_to_all(n, k)),
                ("clos_AR_gamma8", eight.clos_all_reduce(n, h)),
                ("torus_AR_gamma8", eight.torus_all_reduce(n, k)),
                ("clos_AR_rsag", table.clos_all_reduce_composed(n, h)),
                ("torus_AR_rsag", table.torus_all_reduce_composed(n, k)),
                ("torus_AR_rsag_rev", table.torus_all_reduce_reversed(n, k)),
            ] {
                let expected = row[key].as_f64().unwrap();
                assert!(
                    (value - expected).abs() <= 1e-12 * expected.abs(),
                    "{key} at n = {n}, k = {k}: {value} {expected}"
                );
                compared += 1;
            }
        }
        assert_eq!(compared, 84 * 12);
    }
}
