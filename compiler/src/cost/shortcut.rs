//! Closed forms of the Shortcut paper (Eqs. 1–7): collectives on a ring whose circuits can change between steps.
//!
//! n = 2^L endpoints in a ring of two-way links, one of its two perfect matchings through an optical circuit switch (OCS).
//! Step i of a reduce_scatter either runs on the ring as it stands (*static*: h_i hops, c_i flows on the busiest link) or on
//! circuits set for it (*direct*: one hop, no congestion, one reconfiguration). A *threshold* T makes the steps i < T static
//! and the others direct.
//!
//! Everything is generic over the number: `f64` for sweeps and plots, [`BigRational`](num_rational::BigRational) where
//! something is decided or printed as exact. Times are in whatever unit the [`Model`] is given in; sizes are bytes of the
//! whole vector, and the part of a step, m/2^{i+1}, is a real number here (builders cut on elements).
//!
//! # Source
//! "Shortcut", sections III–V; corrected where it errs: the exponent of Eq. 7, the choice of T, reconfigurations counted by
//! the state of the switch.

use num_traits::{FromPrimitive, Num};

/// A number that the formulas can be computed in.
pub trait Scalar: Clone + PartialOrd + Num + FromPrimitive {
    /// A whole number.
    fn whole(value: u64) -> Self {
        Self::from_u64(value).unwrap_or_else(Self::zero)
    }
}

impl<N: Clone + PartialOrd + Num + FromPrimitive> Scalar for N {}

/// Algorithms of log₂ n steps that pair endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pairing {
    /// Recursive halving (and doubling backwards): step i pairs u with u ⊕ 2^i.
    Doubling,
    /// Swing: step i pairs even u with u + ρ(i), odd u with u − ρ(i), ρ(i) = (1 − (−2)^{i+1})/3 = 1, −1, 3, −5, 11, …
    Swing,
}

/// What a static step meets on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Most hops of a flow (h).
    pub hops: u64,
    /// Most flows on one directed link (c).
    pub congestion: u64,
}

impl Pairing {
    /// Both, in the order of the documentation.
    pub const ALL: [Self; 2] = [Self::Doubling, Self::Swing];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Doubling => "halving-doubling",
            Self::Swing => "swing",
        }
    }

    /// ρ(i) of Swing.
    #[must_use]
    pub const fn rho(step: u32) -> i64 {
        (1 - (-2_i64).pow(step + 1)) / 3
    }

    /// Whom `rank` meets in a step; `n` is a power of two above the step.
    #[must_use]
    pub fn peer(self, n: u32, rank: u32, step: u32) -> u32 {
        match self {
            Self::Doubling => rank ^ 1 << step,
            Self::Swing => {
                let rho = if rank.is_multiple_of(2) { Self::rho(step) } else { -Self::rho(step) };
                u32::try_from((i64::from(rank) + rho).rem_euclid(i64::from(n))).unwrap_or(rank)
            }
        }
    }

    /// h and c of a static step on the ring, both partners of an antipodal pair on the same arc: 2^i and 2^i, or |ρ(i)| and
    /// (|ρ(i)|+1)/2.
    #[must_use]
    pub fn shape(self, step: u32) -> StepShape {
        match self {
            Self::Doubling => StepShape { hops: 1 << step, congestion: 1 << step },
            Self::Swing => {
                let rho = Self::rho(step).unsigned_abs();
                StepShape { hops: rho, congestion: rho.div_ceil(2) }
            }
        }
    }
}

/// What a static step meets on the ring as it is routed: both partners of an antipodal pair on one arc as in [`Pairing::shape`],
/// or, as builders do, even sources clockwise and odd ones the other way, which halves the congestion of halving's last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arcs {
    /// The paper's.
    Same,
    /// The builders'.
    Both,
}

impl Pairing {
    /// h and c of a static step among `n` endpoints.
    #[must_use]
    pub fn routed(self, n: u64, step: u32, arcs: Arcs) -> StepShape {
        let shape = self.shape(step);
        if arcs == Arcs::Both && 2 * shape.hops == n {
            return StepShape { congestion: (shape.congestion / 2).max(1), ..shape };
        }
        shape
    }
}

/// The phases of a collective, each of log₂ n steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// reduce_scatter.
    Scatter,
    /// all_gather.
    Gather,
    /// all_reduce: the one, then the other.
    Both,
}

/// Which reading of Eq. 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherForm {
    /// As printed: static step j has 2^{L−j} hops, twice what the reversed schedule has.
    AsPrinted,
    /// Static step j has 2^{L−1−j} hops: the reduce_scatter backwards.
    Reversed,
    /// The same with one reconfiguration back to the ring, unless only the fixed matching's step is static.
    Returning,
}

/// Parameters of Eq. 1, in one unit of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Model<N> {
    /// α_p: delay of a hop.
    pub hop_delay: N,
    /// α_s: start-up of a step.
    pub startup: N,
    /// β: time of a byte on a link.
    pub per_byte: N,
    /// δ: one reconfiguration, synchronisation included.
    pub reconfiguration: N,
}

impl<N: Scalar> Model<N> {
    /// The part of step i: m/2^{i+1} bytes.
    fn part(message: &N, step: u32) -> N {
        message.clone() / N::whole(1 << (step + 1))
    }

    fn step(&self, shape: StepShape, bytes: N) -> N {
        self.hop_delay.clone() * N::whole(shape.hops)
            + self.startup.clone()
            + self.per_byte.clone() * bytes * N::whole(shape.congestion)
    }

    /// Step i on the ring as it stands: α_p·h_i + α_s + β·m/2^{i+1}·c_i (Eq. 2).
    pub fn static_step(&self, pairing: Pairing, step: u32, message: &N) -> N {
        self.step(pairing.shape(step), Self::part(message, step))
    }

    /// Step i over circuits of its own: α_p + α_s + β·m/2^{i+1}, without the reconfiguration.
    pub fn direct_step(&self, step: u32, message: &N) -> N {
        self.step(StepShape { hops: 1, congestion: 1 }, Self::part(message, step))
    }

    /// A phase of the one-way Ring: (α_p + α_s)(n−1) + βm(n−1)/n (Eq. 5).
    pub fn ring(&self, n: u64, message: &N) -> N {
        let steps = N::whole(n - 1);
        (self.hop_delay.clone() + self.startup.clone()) * steps.clone()
            + self.per_byte.clone() * message.clone() * steps / N::whole(n)
    }

    /// The reduce_scatter at every threshold T = 0 … L (left side of Eq. 6); every direct step pays a reconfiguration.
    pub fn reduce_scatter(&self, pairing: Pairing, n: u64, message: &N) -> Vec<N> {
        let steps = n.ilog2();
        let direct = |i: u32| self.direct_step(i, message) + self.reconfiguration.clone();
        (0..=steps)
            .map(|threshold| {
                (0..steps).fold(N::zero(), |sum, i| {
                    sum + if i < threshold { self.static_step(pairing, i, message) } else { direct(i) }
                })
            })
            .collect()
    }

    /// The all_gather by recursive doubling at every threshold T' = 0 … L, its first T' steps direct (left side of Eq. 7).
    pub fn all_gather(&self, n: u64, message: &N, form: GatherForm) -> Vec<N> {
        let steps = n.ilog2();
        (0..=steps)
            .map(|threshold| {
                let mut sum = N::zero();
                for j in 0..steps {
                    // Step j carries m·2^j/n: the part of step L−1−j of the reduce_scatter.
                    let mirrored = steps - 1 - j;
                    let bytes = Self::part(message, mirrored);
                    sum = sum
                        + if j < threshold {
                            self.direct_step(mirrored, message) + self.reconfiguration.clone()
                        } else {
                            let distance = if form == GatherForm::AsPrinted { mirrored + 1 } else { mirrored };
                            self.step(Pairing::Doubling.shape(distance), bytes)
                        };
                }
                if form == GatherForm::Returning && 0 < threshold && threshold + 1 < steps {
                    sum = sum + self.reconfiguration.clone();
                }
                sum
            })
            .collect()
    }

    /// An all_reduce whose reduce_scatter has threshold T and whose all_gather has T', with reconfigurations charged by the
    /// state of the switch: the time, and how many there are.
    pub fn all_reduce(&self, pairing: Pairing, n: u64, message: &N, thresholds: (u32, u32), restore: bool) -> (N, u32) {
        self.charged(pairing, Arcs::Same, n, message, Phases::Both, thresholds, restore)
    }

    /// A collective at thresholds T (reduce_scatter) and T' (all_gather), with reconfigurations charged by the state of the
    /// switch: the time, and how many there are.
    ///
    /// Step 0 runs on the fixed matching, whatever the switch holds. `restore` sets the ring again at the end.
    pub fn charged(
        &self,
        pairing: Pairing,
        arcs: Arcs,
        n: u64,
        message: &N,
        phases: Phases,
        thresholds: (u32, u32),
        restore: bool,
    ) -> (N, u32) {
        /// What the switch holds: the ring's matching or that of a step. Swing's step 1 is the ring's.
        const RING: Option<u32> = None;
        let steps = n.ilog2();
        let matching = |i: u32| if pairing == Pairing::Swing && i == 1 { RING } else { Some(i) };
        let (mut state, mut time, mut changes) = (RING, N::zero(), 0);
        let mut set = |wanted: Option<u32>, time: &mut N| {
            if state != wanted {
                state = wanted;
                changes += 1;
                *time = time.clone() + self.reconfiguration.clone();
            }
        };
        let forwards = (0..if phases == Phases::Gather { 0 } else { steps }).map(|i| (i, i < thresholds.0));
        let backwards = 0..if phases == Phases::Scatter { 0 } else { steps };
        let backwards = backwards.map(|j| (steps - 1 - j, thresholds.1 <= j));
        for (i, is_static) in forwards.chain(backwards) {
            if !is_static {
                set(matching(i), &mut time);
            } else if i != 0 {
                set(RING, &mut time);
            }
            let shape = if is_static { pairing.routed(n, i, arcs) } else { StepShape { hops: 1, congestion: 1 } };
            time = time + self.step(shape, Self::part(message, i));
        }
        if restore {
            set(RING, &mut time);
        }
        (time, changes)
    }

    /// Largest δ at which recursive halving with T = 1 is no slower than Ring, for every size:
    /// (n−1−L)/(L−1)·(α_p + α_s). `None` below 4 endpoints, where nothing is reconfigured.
    pub fn break_even(&self, n: u64) -> Option<N> {
        let steps = u64::from(n.checked_ilog2()?);
        (1 < steps)
            .then(|| (self.hop_delay.clone() + self.startup.clone()) * N::whole(n - 1 - steps) / N::whole(steps - 1))
    }

    /// What circuits of its own save step i: α_p(h_i − 1) + β·m/2^{i+1}·(c_i − 1).
    pub fn saving(&self, pairing: Pairing, step: u32, message: &N) -> N {
        self.static_step(pairing, step, message) - self.direct_step(step, message)
    }

    /// The best threshold in O(log n), as every endpoint can find it alone: the first step i ≥ 1 whose circuits save at
    /// least δ, else L. Savings do not fall from step to step, so it is the smallest T ≥ 1 of least cost.
    pub fn first_worth_it(&self, pairing: Pairing, n: u64, message: &N) -> u32 {
        let steps = n.ilog2();
        (1..steps).find(|&i| self.reconfiguration <= self.saving(pairing, i, message)).unwrap_or(steps)
    }
}

/// What each rule takes, of costs by threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// As printed (Eq. 6): the smallest T in 0 … L−1 that is no dearer than Ring; `None`: Ring.
    pub literal: Option<u32>,
    /// The smallest T in 1 … L that is no dearer than Ring; `None`: Ring.
    pub from_one: Option<u32>,
    /// The cheapest T in 1 … L, the smallest on ties.
    pub best: u32,
    /// Whether `best` is no dearer than Ring; otherwise Ring is taken.
    pub best_beats_ring: bool,
}

impl Rules {
    /// Looks at costs for T = 0 … L; L ≥ 1.
    pub fn of<N: PartialOrd>(costs: &[N], ring: &N) -> Self {
        let steps = costs.len() - 1;
        let passes = |range: std::ops::Range<usize>| {
            range.clone().find(|&t| costs[t] <= *ring).and_then(|t| u32::try_from(t).ok())
        };
        let best = (1..=steps).fold(1, |best, t| if costs[t] < costs[best] { t } else { best });
        Self {
            literal: passes(0..steps),
            from_one: passes(1..steps + 1),
            best: u32::try_from(best).unwrap_or(u32::MAX),
            best_beats_ring: costs[best] <= *ring,
        }
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use num_traits::ToPrimitive;
    use serde_json::Value;

    use super::*;

    fn golden(name: &str) -> Vec<Value> {
        let path = format!("{}/../tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        file["rows"].as_array().unwrap().clone()
    }

    fn exact(value: &Value) -> BigRational {
        BigRational::from_integer(BigInt::from(value.as_u64().unwrap()))
    }

    /// n, the model and m of a golden row: ns and bytes, β = 0.01 ns/B.
    fn case(row: &Value) -> (u64, Model<BigRational>, BigRational) {
        let model = Model {
            hop_delay: exact(&row[1]),
            startup: exact(&row[2]),
            per_byte: BigRational::new(1.into(), 100.into()),
            reconfiguration: exact(&row[3]),
        };
        (row[0].as_u64().unwrap(), model, exact(&row[4]))
    }

    #[track_caller]
    fn close(found: &BigRational, expected: &Value) {
        let (found, expected) = (found.to_f64().unwrap(), expected.as_f64().unwrap());
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} instead of {expected}");
    }

    #[track_caller]
    fn all_close(found: &[BigRational], expected: &Value) {
        let expected = expected.as_array().unwrap();
        assert_eq!(found.len(), expected.len());
        found.iter().zip(expected).for_each(|(found, expected)| close(found, expected));
    }

    fn threshold(value: &Value) -> Option<u32> {
        value.as_u64().map(|t| u32::try_from(t).unwrap())
    }

    #[test]
    fn the_grids_are_met_by_cost_and_rule() {
        let mut seen = 0;
        for (file, pairing) in [
            ("b_cost_grid_rd", Pairing::Doubling),
            ("b_cost_grid_rd_binary_sizes", Pairing::Doubling),
            ("b_cost_grid_swing", Pairing::Swing),
        ] {
            for row in golden(file) {
                let (n, model, m) = case(&row);
                let (costs, ring) = (model.reduce_scatter(pairing, n, &m), model.ring(n, &m));
                close(&ring, &row[5]);
                all_close(&costs, &row[6]);
                let rules = Rules::of(&costs, &ring);
                assert_eq!(rules.literal, threshold(&row[7]), "{row}");
                assert_eq!(rules.from_one, threshold(&row[8]), "{row}");
                assert_eq!(Some(rules.best), threshold(&row[9]), "{row}");
                assert_eq!(Some(rules.best_beats_ring), row[10].as_bool(), "{row}");
                assert_eq!(model.first_worth_it(pairing, n, &m), rules.best, "{row}");
                // `best` is never dearer than what the printed rule takes, nor than Ring.
                let best = if rules.best_beats_ring { &costs[rules.best as usize] } else { &ring };
                assert!(*best <= rules.literal.map_or(&ring, |t| &costs[t as usize]).clone() && *best <= ring);
                // Floats tell the same.
                let float = Model {
                    hop_delay: row[1].as_f64().unwrap(),
                    startup: row[2].as_f64().unwrap(),
                    per_byte: 0.01,
                    reconfiguration: row[3].as_f64().unwrap(),
                };
                for (float, exact) in float.reduce_scatter(pairing, n, &row[4].as_f64().unwrap()).iter().zip(&costs) {
                    assert!((float / exact.to_f64().unwrap() - 1.0).abs() < 1e-12);
                }
                seen += 1;
            }
        }
        assert!(2 * 3240 < seen);
    }

    #[test]
    fn all_gathers_are_met() {
        for row in golden("b_allgather_tprime") {
            let (n, model, m) = case(&row);
            close(&model.ring(n, &m), &row[5]);
            for (form, at) in [(GatherForm::AsPrinted, 6), (GatherForm::Reversed, 7), (GatherForm::Returning, 8)] {
                all_close(&model.all_gather(n, &m, form), &row[at]);
            }
            let mirrored: Vec<_> = model.reduce_scatter(Pairing::Doubling, n, &m).into_iter().rev().collect();
            assert_eq!(model.all_gather(n, &m, GatherForm::Reversed), mirrored);
        }
    }

    #[test]
    fn all_reduces_are_met_with_their_reconfigurations() {
        for row in golden("b_allreduce") {
            let (n, model, m) = case(&row);
            let steps = n.ilog2();
            let two = BigRational::from_integer(2.into());
            close(&(model.ring(n, &m) * &two), &row[5]);
            let paper: Vec<_> = model.reduce_scatter(Pairing::Doubling, n, &m).iter().map(|cost| cost * &two).collect();
            all_close(&paper, &row[6]);
            let run = |t, u, restore| model.all_reduce(Pairing::Doubling, n, &m, (t, u), restore);
            let (times, changes): (Vec<_>, Vec<_>) = (0..=steps).map(|t| run(t, steps - t, false)).unzip();
            all_close(&times, &row[7]);
            assert_eq!(serde_json::to_value(changes).unwrap(), row[8]);
            for (restore, at) in [(false, 10), (true, 11)] {
                let best = (1..=steps)
                    .flat_map(|t| (0..steps).map(move |u| (t, u)))
                    .map(|(t, u)| (run(t, u, restore).0, t, u))
                    .min()
                    .unwrap();
                assert_eq!((best.1.into(), best.2.into()), (row[at][0].clone(), row[at][1].clone()), "{row}");
                close(&best.0, &row[at][2]);
            }
        }
    }

    #[test]
    fn peers_and_shapes_are_those_of_the_golden_steps() {
        for row in golden("b_steps") {
            let pairing = if row["alg"] == "RD" { Pairing::Doubling } else { Pairing::Swing };
            let (n, step) = (row["n"].as_u64().unwrap() as u32, row["step"].as_u64().unwrap() as u32);
            let shape = pairing.shape(step);
            assert_eq!(serde_json::json!([shape.hops, shape.congestion]), row["h_c_low_half_cw"], "{row}");
            if let Some(peers) = row["peers"].as_array() {
                for (rank, peer) in (0..).zip(peers) {
                    assert_eq!(u64::from(pairing.peer(n, rank, step)), peer.as_u64().unwrap(), "{row}");
                }
            }
        }
    }

    #[test]
    fn break_even_delays_are_met() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/b_ocs.json");
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for row in file["break_even"]["rows"].as_array().unwrap() {
            let zero = BigRational::from_integer(0.into());
            let one = BigRational::from_integer(1.into());
            let model = Model { hop_delay: one, startup: zero.clone(), per_byte: zero.clone(), reconfiguration: zero };
            close(&model.break_even(row["n"].as_u64().unwrap()).unwrap(), &row["delta_over_(alpha_p+alpha_s)"]);
        }
    }
}
