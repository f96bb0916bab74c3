//! Tables 1 and 2: what a collective takes on a Clos and on a torus of equal bandwidth a link.
//!
//! D = k·n^{1/k}/2 is the paper's diameter of a torus of k dimensions, h the most hops of the Clos, m the message: the whole vector of
//! all_reduce, the part for one peer of all_gather and all_to_all.
//!
//! | | Clos | torus |
//! | --- | --- | --- |
//! | all_reduce | log₂ n·(hα + βm + γm) | D(α + βm) + log₂ n·γm |
//! | all_gather | hα + βm(n−1) | Dα + βm(n−1)/(2k) |
//! | all_to_all | hα + βm(n−1) | Dα + βm(n−1)·n^{1/k}/8 |
//!
//! What each is worth against a concrete schedule is documented with the builders (D02 … D06).

/// Table 1, in seconds and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
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
impl Default for Parameters {
    fn default() -> Self {
        Self { hop_delay: 1e-6, inverse_bandwidth: 2e-11, reduce_cost: 1e-12, message: 1e8 }
    }
}

/// The collectives of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// all_reduce, by recursive doubling on a Clos and dimension by dimension on a torus, whole vectors.
    AllReduce,
    /// all_gather.
    AllGather,
    /// all_to_all.
    AllToAll,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AllReduce, Self::AllGather, Self::AllToAll];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::AllToAll => "all_to_all",
        }
    }
}

/// Most hops between two of `n` hosts, placed closely, of a three-tier Clos of switches with `radix` ports: 2 within a
/// rack of radix/2, 4 within a pod of radix²/4, else 6.
///
/// `strict` counts a full rack or pod as too large, as the paper's "<" does; physically it still fits. The paper's middle bound
/// is misprinted (D01).
#[must_use]
pub fn clos_hops(n: f64, radix: u64, strict: bool) -> u32 {
    let half = super::real(radix) / 2.0;
    let fits = |limit: f64| if strict { n < limit } else { n <= limit };
    if fits(half) {
        2
    } else if fits(half * half) {
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
    let (rack, pod) = (radix / 2, radix / 2 * (radix / 2));
    let round = |t: u32| match 1_u64 << t {
        distance if distance < rack => 2,
        distance if distance < pod => 4,
        _ => 6,
    };
    Some((0..n.trailing_zeros()).map(round).sum())
}

/// n^{1/k}: the side of a torus, a real number.
#[must_use]
pub fn side(n: f64, dimensions: u32) -> f64 {
    match dimensions {
        1 => n,
        2 => n.sqrt(),
        3 => n.cbrt(),
        _ => n.powf(1.0 / f64::from(dimensions)),
    }
}

/// D = k·n^{1/k}/2.
#[must_use]
pub fn diameter(n: f64, dimensions: u32) -> f64 {
    f64::from(dimensions) * side(n, dimensions) / 2.0
}

impl Parameters {
    /// Time on a Clos with at most `hops` hops between two ranks (Table 2).
    #[must_use]
    pub fn clos(&self, kind: Kind, n: f64, hops: u32) -> f64 {
        let latency = f64::from(hops) * self.hop_delay;
        match kind {
            Kind::AllReduce => n.log2() * (latency + (self.inverse_bandwidth + self.reduce_cost) * self.message),
            Kind::AllGather | Kind::AllToAll => latency + self.inverse_bandwidth * self.message * (n - 1.0),
        }
    }

    /// Time on a torus (Table 2).
    #[must_use]
    pub fn torus(&self, kind: Kind, n: f64, dimensions: u32) -> f64 {
        let d = diameter(n, dimensions);
        let bytes = self.inverse_bandwidth * self.message;
        match kind {
            Kind::AllReduce => d * (self.hop_delay + bytes) + n.log2() * self.reduce_cost * self.message,
            Kind::AllGather => d * self.hop_delay + bytes * (n - 1.0) / (2.0 * f64::from(dimensions)),
            Kind::AllToAll => d * self.hop_delay + bytes * (n - 1.0) * side(n, dimensions) / 8.0,
        }
    }

    /// The same with another message.
    #[must_use]
    pub const fn with_message(self, message: f64) -> Self {
        Self { message, ..self }
    }

    fn block(&self, n: f64) -> Self {
        self.with_message(self.message / n)
    }

    fn block_reduction(&self, n: f64) -> f64 {
        (n - 1.0) * self.reduce_cost * self.message / n
    }

    /// Clos all_reduce as all_to_all, local sums and all_gather of m/n: section 3's remark, not in the table (D02).
    #[must_use]
    pub fn clos_all_reduce_composed(&self, n: f64, hops: u32) -> f64 {
        let block = self.block(n);
        block.clos(Kind::AllToAll, n, hops) + self.block_reduction(n) + block.clos(Kind::AllGather, n, hops)
    }

    /// Torus all_reduce as all_to_all, local sums and all_gather of m/n: section 3's remark, not in the table (D02).
    #[must_use]
    pub fn torus_all_reduce_composed(&self, n: f64, dimensions: u32) -> f64 {
        let block = self.block(n);
        block.torus(Kind::AllToAll, n, dimensions)
            + self.block_reduction(n)
            + block.torus(Kind::AllGather, n, dimensions)
    }

    /// Torus all_reduce as all_gather run backwards and forwards on m/n: what `torus-rotated` reaches; not in the paper (D02).
    #[must_use]
    pub fn torus_all_reduce_reversed(&self, n: f64, dimensions: u32) -> f64 {
        2.0 * self.block(n).torus(Kind::AllGather, n, dimensions) + self.block_reduction(n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{compare, golden};
    use super::*;

    #[test]
    fn table_2_is_the_golden_one() {
        let golden = golden("a_table2_baseline");
        let table = Parameters::default();
        let eight = Parameters { reduce_cost: 8e-12, ..table };
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let ranks = row["n"].as_u64().unwrap();
            let n = super::super::real(ranks);
            let k = u32::try_from(row["k_t"].as_u64().unwrap()).unwrap();
            let h = clos_hops(n, 128, true);
            let winner = |clos: f64, torus: f64| if torus < clos { "torus" } else { "clos" };
            for (key, kind) in [("win_AR", Kind::AllReduce), ("win_AG", Kind::AllGather), ("win_ATA", Kind::AllToAll)] {
                assert_eq!(row[key], winner(table.clos(kind, n, h), table.torus(kind, n, k)), "{row}");
            }
            let sum = clos_recursive_doubling_hops(ranks, 128).map(super::super::real);
            compared += compare(
                row,
                &["n", "k_t", "win_AR", "win_AG", "win_ATA"],
                &[
                    ("h", Some(h.into())),
                    ("h_le", Some(clos_hops(n, 128, false).into())),
                    ("clos_AR_sum_hops_exact", sum),
                    ("diam", Some(diameter(n, k))),
                    ("clos_AR", Some(table.clos(Kind::AllReduce, n, h))),
                    ("clos_AG", Some(table.clos(Kind::AllGather, n, h))),
                    ("clos_ATA", Some(table.clos(Kind::AllToAll, n, h))),
                    ("torus_AR", Some(table.torus(Kind::AllReduce, n, k))),
                    ("torus_AG", Some(table.torus(Kind::AllGather, n, k))),
                    ("torus_ATA", Some(table.torus(Kind::AllToAll, n, k))),
                    ("clos_AR_gamma8", Some(eight.clos(Kind::AllReduce, n, h))),
                    ("torus_AR_gamma8", Some(eight.torus(Kind::AllReduce, n, k))),
                    ("clos_AR_rsag", Some(table.clos_all_reduce_composed(n, h))),
                    ("torus_AR_rsag", Some(table.torus_all_reduce_composed(n, k))),
                    ("torus_AR_rsag_rev", Some(table.torus_all_reduce_reversed(n, k))),
                ],
            );
        }
        assert_eq!(compared, 84 * 15);
    }

    /// Section 3's claims on Table 2 alone.
    #[test]
    fn claims_of_section_3_are_the_golden_ones() {
        let golden = golden("a_claims_section3");
        let table = Parameters::default();
        let row = golden["rows"].as_array().unwrap().iter().find(|row| row["id"] == "k1_all_scales").unwrap();
        for point in row["ours"].as_array().unwrap() {
            let n = point["n"].as_f64().unwrap();
            let values = [
                ("clos_AR", Some(table.clos(Kind::AllReduce, n, 2))),
                ("torus1_AR", Some(table.torus(Kind::AllReduce, n, 1))),
                ("clos_ATA", Some(table.clos(Kind::AllToAll, n, 2))),
                ("torus1_ATA", Some(table.torus(Kind::AllToAll, n, 1))),
            ];
            assert_eq!(compare(point, &["n"], &values), 4);
        }
    }
}
