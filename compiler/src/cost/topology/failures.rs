//! Table 3 and Appendix A: what one failed two-way link adds to a collective of all N ranks.
//!
//! The Clos is the smallest that holds N. "Network" is another route for the same flows, "schedule" other flows. L1 links join edge and
//! aggregation switches, L2 links aggregation and core. Printed values stand beside corrected ones (D11 … D14).

use super::baseline::{Parameters, side};
use super::{Clos, FormError, real};

/// Which links of a Clos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Edge to aggregation.
    L1,
    /// Aggregation to core.
    L2,
}

/// A Clos with a failed link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosFailure<'a> {
    /// α, β, m.
    pub table: &'a Parameters,
    /// N, at most what the Clos holds.
    pub ranks: u64,
    /// The Clos.
    pub clos: Clos,
}

impl<'a> ClosFailure<'a> {
    /// The smallest Clos that holds so many ranks.
    ///
    /// # Errors
    /// [`FormError`]: fewer than 2 ranks, or too many.
    pub fn new(table: &'a Parameters, ranks: u64) -> Result<Self, FormError> {
        if ranks < 2 {
            return Err(FormError::TooFew { given: real(ranks), least: 2.0 });
        }
        Ok(Self { table, ranks, clos: Clos::holding(ranks)? })
    }

    fn bytes(&self) -> f64 {
        self.table.inverse_bandwidth * self.table.message
    }

    /// Ranks below the failed link's lower end: R or P.
    const fn below(&self, tier: Tier) -> u64 {
        match tier {
            Tier::L1 => self.clos.rack(),
            Tier::L2 => self.clos.pod(),
        }
    }

    /// all_reduce, network: log₂(N/R)·βm or log₂(N/P)·βm, as each round that leaves the rack (pod) has a link with two flows.
    #[must_use]
    pub fn all_reduce_network(&self, tier: Tier) -> f64 {
        (real(self.ranks) / real(self.below(tier))).log2() * self.bytes()
    }

    /// all_reduce, schedule: 2α + βm, with one rail (one index in every rack) left out after the rounds within racks. The text
    /// leaves out one node, which does not work (D11).
    #[must_use]
    pub fn all_reduce_schedule(&self) -> f64 {
        2.0 * self.table.hop_delay + self.bytes()
    }

    /// all_gather and all_to_all, network, in messages as printed: ⌈R(N−R)/(R−1)⌉ − (N−1); negative where the tier has slack (D12).
    /// `None` for a rack or pod of one.
    #[must_use]
    pub fn messages_printed(&self, tier: Tier) -> Option<i64> {
        let (n, below) = (i128::from(self.ranks), i128::from(self.below(tier)));
        if below < 2 {
            return None;
        }
        let (flows, links) = (below * (n - below), below - 1);
        i64::try_from(num_integer::Integer::div_ceil(&flows, &links) - (n - 1)).ok()
    }

    /// The same, at least 0.
    #[must_use]
    pub fn messages(&self, tier: Tier) -> Option<i64> {
        self.messages_printed(tier).map(|messages| messages.max(0))
    }

    /// The same as time.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn all_gather_network(&self, tier: Tier) -> Option<f64> {
        self.messages(tier).map(|messages| messages as f64 * self.bytes())
    }

    /// all_gather, schedule: a ring that avoids the link, (N−1)/2·6α as in Table 3 (D13).
    #[must_use]
    pub fn all_gather_schedule(&self) -> f64 {
        6.0 * self.all_gather_schedule_appendix()
    }

    /// The same as in Appendix A.2.2, (N−1)/2·α: what no schedule reaches.
    #[must_use]
    pub fn all_gather_schedule_appendix(&self) -> f64 {
        (real(self.ranks) - 1.0) / 2.0 * self.table.hop_delay
    }
}

/// A torus with a failed link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TorusFailure<'a> {
    /// α, β, m.
    pub table: &'a Parameters,
    /// N.
    pub ranks: u64,
    /// k.
    pub dimensions: u32,
}

impl TorusFailure<'_> {
    fn bytes(&self) -> f64 {
        self.table.inverse_bandwidth * self.table.message
    }

    fn k(&self) -> f64 {
        f64::from(self.dimensions)
    }

    fn n(&self) -> f64 {
        real(self.ranks)
    }

    /// The side, if N is a k-th power.
    #[must_use]
    pub fn side(&self) -> Option<u64> {
        let side = num_integer::Roots::nth_root(&self.ranks, self.dimensions);
        (side.checked_pow(self.dimensions) == Some(self.ranks)).then_some(side)
    }

    /// all_reduce, network: 2α + βm, one detour (D14).
    #[must_use]
    pub fn all_reduce_network(&self) -> f64 {
        2.0 * self.table.hop_delay + self.bytes()
    }

    /// all_reduce, schedule: α + βm, the failed dimension last and the result from a neighbour.
    #[must_use]
    pub fn all_reduce_schedule(&self) -> f64 {
        self.table.hop_delay + self.bytes()
    }

    /// all_gather, network: 2α + (N−1)/(2k)·βm, one detour (D14).
    #[must_use]
    pub fn all_gather_network(&self) -> f64 {
        2.0 * self.table.hop_delay + (self.n() - 1.0) / (2.0 * self.k()) * self.bytes()
    }

    /// all_gather, schedule: (N−1)/(2k(2k−1))·βm; a bound, tight as a fluid.
    #[must_use]
    pub fn all_gather_schedule(&self) -> f64 {
        (self.n() - 1.0) / (2.0 * self.k() * (2.0 * self.k() - 1.0)) * self.bytes()
    }

    /// all_to_all, network, as printed and times βm, which is missing: (N−1)N^{1/k}(k−1)/(8(kN−1)) (D14a).
    #[must_use]
    pub fn all_to_all_printed(&self) -> f64 {
        (self.k() - 1.0) * self.all_to_all_capacity()
    }

    /// The same as the Appendix's own subtraction gives it, without the factor k−1; a weak bound.
    #[must_use]
    pub fn all_to_all_capacity(&self) -> f64 {
        let (n, k) = (self.n(), self.k());
        (n - 1.0) * side(n, self.dimensions) / (8.0 * (k * n - 1.0)) * self.bytes()
    }

    /// all_to_all by the bisection that the link belongs to: the optimum over all routings. `None` unless N is a k-th power.
    #[must_use]
    pub fn all_to_all_bisection(&self) -> Option<f64> {
        let s = self.side().filter(|&side| 1 < side)?;
        let below = self.n() * real(s / 2) / real(s);
        let flows = below * (self.n() - below);
        let links = 2.0 * self.n() / real(s);
        Some((flows / (links - 1.0) - flows / links) * self.bytes())
    }

    /// Slots that an all_reduce gains if its messages take all 2(k−1) detours in turn: ⌈⌊s/2⌋/(2(k−1))⌉.
    #[must_use]
    pub fn detour_slots(&self) -> Option<u64> {
        let around = 2 * u64::from(self.dimensions.checked_sub(1)?);
        (around != 0).then_some((self.side()? / 2).div_ceil(around.max(1)))
    }

    /// all_reduce, network, with balanced detours.
    #[must_use]
    pub fn all_reduce_balanced(&self) -> Option<f64> {
        self.detour_slots().map(|slots| 2.0 * self.table.hop_delay + real(slots) * self.bytes())
    }

    /// all_gather, network, with balanced detours: 2(k−1) times less than printed (D14).
    #[must_use]
    pub fn all_gather_balanced(&self) -> Option<f64> {
        let detours = 2.0 * (self.k() - 1.0);
        let own = (self.n() - 1.0) / (2.0 * self.k()) / detours;
        (0.0 < detours).then(|| 2.0 * self.table.hop_delay + own * self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::baseline::Kind;
    use super::super::testing::{compare, golden};
    use super::*;

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn table_3_is_the_golden_one() {
        let golden = golden("a_failures");
        let table = Parameters::default();
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let ranks = row["N"].as_u64().unwrap();
            let dimensions = u32::try_from(row["k_t"].as_u64().unwrap()).unwrap();
            let clos = ClosFailure::new(&table, ranks).unwrap();
            let torus = TorusFailure { table: &table, ranks, dimensions };
            let n = real(ranks);
            assert_eq!(row["N_fills_clos"], clos.clos.ranks() == ranks);
            let whole = |messages: Option<i64>| messages.map(|messages| messages as f64);
            compared += compare(
                row,
                &["N", "k_t", "N_fills_clos"],
                &[
                    ("k_c", Some(real(clos.clos.radix()))),
                    ("R", Some(real(clos.clos.rack()))),
                    ("P", Some(real(clos.clos.pod()))),
                    ("base_clos_AR", Some(table.clos(Kind::AllReduce, n, 6))),
                    ("base_clos_AG_ATA", Some(table.clos(Kind::AllGather, n, 6))),
                    ("base_torus_AR", Some(table.torus(Kind::AllReduce, n, dimensions))),
                    ("base_torus_AG", Some(table.torus(Kind::AllGather, n, dimensions))),
                    ("base_torus_ATA", Some(table.torus(Kind::AllToAll, n, dimensions))),
                    ("clos_L1_AR_net", Some(clos.all_reduce_network(Tier::L1))),
                    ("clos_L2_AR_net", Some(clos.all_reduce_network(Tier::L2))),
                    ("clos_AR_sched", Some(clos.all_reduce_schedule())),
                    ("clos_L1_AGATA_net_msgs_printed", whole(clos.messages_printed(Tier::L1))),
                    ("clos_L1_AGATA_net_msgs", whole(clos.messages(Tier::L1))),
                    ("clos_L2_AGATA_net_msgs_printed", whole(clos.messages_printed(Tier::L2))),
                    ("clos_L2_AGATA_net_msgs", whole(clos.messages(Tier::L2))),
                    ("clos_L1_AGATA_net", clos.all_gather_network(Tier::L1)),
                    ("clos_L2_AGATA_net", clos.all_gather_network(Tier::L2)),
                    ("clos_AG_sched_table", Some(clos.all_gather_schedule())),
                    ("clos_AG_sched_appendix", Some(clos.all_gather_schedule_appendix())),
                    ("torus_AR_net", Some(torus.all_reduce_network())),
                    ("torus_AR_sched", Some(torus.all_reduce_schedule())),
                    ("torus_AG_net", Some(torus.all_gather_network())),
                    ("torus_AG_sched_lb", Some(torus.all_gather_schedule())),
                    ("torus_ATA_net_printed_times_betam", Some(torus.all_to_all_printed())),
                    ("torus_ATA_net_lb_fixed", Some(torus.all_to_all_capacity())),
                    ("torus_AR_net_detour_slots", torus.detour_slots().map(real)),
                    ("torus_AR_net_balanced_detour", torus.all_reduce_balanced()),
                    ("torus_AG_net_balanced_detour", torus.all_gather_balanced()),
                    ("torus_ATA_net_bisection_exact", torus.all_to_all_bisection()),
                ],
            );
        }
        let entries: usize = golden["rows"].as_array().unwrap().iter().map(|row| row.as_object().unwrap().len()).sum();
        assert_eq!(compared, entries - 3 * 30);
    }

    #[test]
    fn odd_parameters_are_refused_or_have_no_value() {
        let table = Parameters::default();
        assert!(ClosFailure::new(&table, 1).is_err());
        let two = ClosFailure::new(&table, 2).unwrap();
        assert_eq!(two.messages(Tier::L1), None);
        let ring = TorusFailure { table: &table, ranks: 8, dimensions: 1 };
        assert_eq!((ring.detour_slots(), ring.all_gather_balanced()), (None, None));
        assert_eq!(TorusFailure { table: &table, ranks: 10, dimensions: 2 }.all_to_all_bisection(), None);
    }
}
