//! Table 4 and Appendix B: two collectives, one after the other, of groups of √N on a √N×√N torus; t = N^{1/4}.
//!
//! Typical: a group is a row or column. Locality-optimised: the first collective, an all_to_all, runs on t×t tiles, the second one on the
//! members of equal place in each tile. What the table says of the second one is not reached by its schedules (D17); link loads of what they do are beside it.

use super::baseline::{Kind, Parameters};

/// The second collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// all_reduce.
    AllReduce,
    /// all_gather.
    AllGather,
}

impl Second {
    const fn kind(self) -> Kind {
        match self {
            Self::AllReduce => Kind::AllReduce,
            Self::AllGather => Kind::AllGather,
        }
    }
}

/// N^{1/4}.
#[must_use]
pub fn tile_side(n: f64) -> f64 {
    n.sqrt().sqrt()
}

/// Time of both with typical placement, as printed.
#[must_use]
pub fn typical(table: &Parameters, n: f64, second: Second) -> f64 {
    let (side, bytes) = (n.sqrt(), table.inverse_bandwidth * table.message);
    let sums = match second {
        Second::AllReduce => 0.5 * table.reduce_cost * table.message * n.log2(),
        Second::AllGather => 0.0,
    };
    table.hop_delay * side + bytes * (n / 8.0 + side / 2.0) + sums
}

/// The same by Table 2 with k = 1 and √N ranks, n − 1 not replaced by n.
#[must_use]
pub fn typical_by_table_2(table: &Parameters, n: f64, second: Second) -> f64 {
    table.torus(Kind::AllToAll, n.sqrt(), 1) + table.torus(second.kind(), n.sqrt(), 1)
}

/// Time of both with locality-optimised placement, as printed.
#[must_use]
pub fn locality(table: &Parameters, n: f64, second: Second) -> f64 {
    let (side, t, bytes) = (n.sqrt(), tile_side(n), table.inverse_bandwidth * table.message);
    let latency = 2.0 * table.hop_delay * (side + t);
    match second {
        Second::AllReduce => {
            latency + bytes * (t + side * t / 4.0) + 0.5 * table.reduce_cost * table.message * n.log2()
        }
        Second::AllGather => latency + bytes / 4.0 * (side + side * t),
    }
}

/// The same for all_reduce by the link loads of the schedules that the paper describes, for integer t: 2(t−1) hops within a tile and √N
/// for the spread all_reduce.
#[must_use]
pub fn locality_by_loads(table: &Parameters, t: u64) -> f64 {
    let n = super::real(t).powi(4);
    let bytes = table.inverse_bandwidth * table.message;
    let hops = super::real(t * t) + 2.0 * (super::real(t) - 1.0);
    hops * table.hop_delay
        + bytes * (spread_all_reduce(t)[1] + tile_all_to_all(t))
        + 0.5 * table.reduce_cost * table.message * n.log2()
}

/// Messages on the busiest link of a tile's all_to_all, row by row: ⌊t/2⌋⌈t/2⌉t; N^{3/4}/4 for even t.
#[must_use]
pub fn tile_all_to_all(t: u64) -> f64 {
    super::real(t / 2) * super::real(t.div_ceil(2)) * super::real(t)
}

/// Messages on a link of the spread all_reduce: as printed t; as described 2⌊t/2⌋·t; by a two-way ring ReduceScatter and AllGather
/// 2t(t−1)/t.
#[must_use]
pub fn spread_all_reduce(t: u64) -> [f64; 3] {
    let side = super::real(t);
    [side, 2.0 * super::real(t / 2) * side, 2.0 * side * (side - 1.0) / side]
}

/// Messages on a link of the spread all_gather: as printed √N/4; by evenly spread spanning trees (√N−1)t/4; at least √N·t/8.
#[must_use]
pub fn spread_all_gather(t: u64) -> [f64; 3] {
    let side = super::real(t);
    let root = side * side;
    [root / 4.0, (root - 1.0) * side / 4.0, root * side / 8.0]
}

/// 2⌊√N/2⌋: the diameter of the torus, for integer t; the paper charges 2√N hops for the spread collective.
#[must_use]
pub fn torus_diameter(t: u64) -> f64 {
    2.0 * super::real(t * t / 2)
}

/// The N above which locality is faster than typical placement, by the printed formulas; by bisection between 16 and 2⁴⁰ where the
/// difference changes its sign once, else `None`.
#[must_use]
pub fn switch_over(table: &Parameters, second: Second) -> Option<f64> {
    let over = |n: f64| locality(table, n, second) - typical(table, n, second);
    let (mut low, mut high) = (16.0_f64, 1_099_511_627_776.0);
    if over(low) <= 0.0 || 0.0 <= over(high) {
        return None;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || high <= middle {
            break;
        }
        if 0.0 < over(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::super::real;
    use super::super::testing::{compare, golden};
    use super::*;

    #[test]
    fn table_4_is_the_golden_one() {
        let golden = golden("a_placement");
        let table = Parameters::default();
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let ranks = row["N"].as_u64().unwrap();
            let n = real(ranks);
            let t = num_integer::Roots::nth_root(&ranks, 4);
            let whole = |value: f64| (t.pow(4) == ranks).then_some(value);
            let winner = |typical: f64, local: f64| if local < typical { "local" } else { "typical" };
            for (key, second) in
                [("winner_ATA_AR_paper", Second::AllReduce), ("winner_ATA_AG_paper", Second::AllGather)]
            {
                assert_eq!(row[key], winner(typical(&table, n, second), locality(&table, n, second)), "{row}");
            }
            if let Some(expected) = row.get("winner_ATA_AR_linkload") {
                let found = winner(typical(&table, n, Second::AllReduce), locality_by_loads(&table, t));
                assert_eq!(expected, found, "{row}");
            }
            let winners = ["N", "winner_ATA_AR_paper", "winner_ATA_AG_paper", "winner_ATA_AR_linkload"];
            let ([ar_paper, ar_load, ar_ring], [ag_paper, ag_trees, ag_bound]) =
                (spread_all_reduce(t), spread_all_gather(t));
            compared += compare(
                row,
                &winners,
                &[
                    ("typical_ATA_AR", Some(typical(&table, n, Second::AllReduce))),
                    ("typical_ATA_AG", Some(typical(&table, n, Second::AllGather))),
                    ("local_ATA_AR", Some(locality(&table, n, Second::AllReduce))),
                    ("local_ATA_AG", Some(locality(&table, n, Second::AllGather))),
                    ("typical_ATA_AR_table2_exact", Some(typical_by_table_2(&table, n, Second::AllReduce))),
                    ("typical_ATA_AG_table2_exact", Some(typical_by_table_2(&table, n, Second::AllGather))),
                    ("secondary_AR_bw_paper", whole(ar_paper)),
                    ("secondary_AR_bw_linkload", whole(ar_load)),
                    ("secondary_AR_bw_rsag_ring", whole(ar_ring)),
                    ("secondary_AG_bw_paper", whole(ag_paper)),
                    ("secondary_AG_bw_mst", whole(ag_trees)),
                    ("secondary_AG_bw_rigorous_lb", whole(ag_bound)),
                    ("primary_ATA_tile_bw_paper", whole(real(t).powi(3) / 4.0)),
                    ("primary_ATA_tile_bw_xy_exact", whole(tile_all_to_all(t))),
                    ("diameter_torus", whole(torus_diameter(t))),
                    ("secondary_latency_hops_paper", whole(2.0 * n.sqrt())),
                    ("local_ATA_AR_linkload", whole(locality_by_loads(&table, t))),
                ],
            );
        }
        let entries: usize = golden["rows"].as_array().unwrap().iter().map(|row| row.as_object().unwrap().len()).sum();
        let named =
            |row: &serde_json::Value| row.as_object().unwrap().keys().filter(|key| key.starts_with("winner")).count();
        let winners: usize = golden["rows"].as_array().unwrap().iter().map(named).sum();
        assert_eq!(compared, entries - winners - 12);
        let found = switch_over(&table, Second::AllReduce).unwrap();
        let expected = golden["crossover_N"]["ATA_AR"][0].as_f64().unwrap();
        assert!((found - expected).abs() <= 1e-12 * expected);
        assert_eq!(switch_over(&table, Second::AllGather), None);
        assert!(golden["crossover_N"]["ATA_AG"].as_array().unwrap().is_empty());
    }
}
