//! Integer shapes of tori and tiles: what holds exactly, beside the paper's readings (section 3 and Appendix E; D05, D06).

use super::FormError;
use super::baseline::{Kind, Parameters};
use super::real;

/// A torus with integer sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides(Vec<u64>);

impl Sides {
    /// The torus with these sides.
    ///
    /// # Errors
    /// [`FormError::NoDimension`], [`FormError::NotPositive`], [`FormError::TooManyNodes`].
    pub fn new(sides: Vec<u64>) -> Result<Self, FormError> {
        if sides.is_empty() {
            return Err(FormError::NoDimension);
        }
        let nodes = sides.iter().try_fold(1_u64, |product, &side| product.checked_mul(side));
        match nodes {
            Some(nodes) if 0 < nodes && nodes <= 1 << 40 => Ok(Self(sides)),
            Some(0) => Err(FormError::NotPositive { what: "a side" }),
            _ => Err(FormError::TooManyNodes),
        }
    }

    /// n.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.0.iter().product()
    }

    /// k.
    #[must_use]
    pub fn dimensions(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Σ sᵢ/2: Appendix E's diameter.
    #[must_use]
    pub fn diameter_printed(&self) -> f64 {
        self.0.iter().map(|&side| real(side)).sum::<f64>() / 2.0
    }

    /// Σ ⌊sᵢ/2⌋, the diameter.
    #[must_use]
    pub fn diameter(&self) -> u64 {
        self.0.iter().map(|side| side / 2).sum()
    }

    /// Vectors that one rank adds in an all_reduce that gathers and then adds in each dimension: Σ (sᵢ − 1).
    #[must_use]
    pub fn serial_reductions(&self) -> u64 {
        self.0.iter().map(|side| side - 1).sum()
    }

    /// Messages that a link of the busiest dimension carries in an all_to_all by shortest ways, and so in any: it is the
    /// bisection bound. n·s/8 for the longest even side, n(s²−1)/(8s) for an odd one.
    #[must_use]
    pub fn all_to_all_load(&self) -> f64 {
        self.loads().fold(0.0, f64::max)
    }

    /// The same as a mean over the dimensions.
    #[must_use]
    pub fn all_to_all_mean_load(&self) -> f64 {
        self.loads().sum::<f64>() / f64::from(self.dimensions())
    }

    fn loads(&self) -> impl Iterator<Item = f64> + '_ {
        let n = real(self.nodes());
        self.0.iter().map(move |&side| {
            let s = real(side);
            if side.is_multiple_of(2) { n * s / 8.0 } else { n * (s * s - 1.0) / (8.0 * s) }
        })
    }

    /// Messages that a link carries across the best cut into two halves along one dimension.
    #[must_use]
    pub fn bisection(&self) -> f64 {
        let n = real(self.nodes());
        let cut = |&side: &u64| {
            let below = n * real(side / 2) / real(side);
            // Each ring along the dimension is cut twice, or once if its two links are parallel.
            let links = 2.0 * n / real(side);
            below * (n - below) / links
        };
        self.0.iter().filter(|side| 1 < **side).map(cut).fold(0.0, f64::max)
    }

    /// The paper's (n−1)·n^{1/k}/8 for equal sides, messages a link.
    #[must_use]
    pub fn all_to_all_equal_sides(&self) -> f64 {
        let n = real(self.nodes());
        (n - 1.0) * super::baseline::side(n, self.dimensions()) / 8.0
    }

    /// Appendix E's reading with the mean side, (n−1)·Σsᵢ/(8k): below the bisection bound where sides differ (D06).
    #[must_use]
    pub fn all_to_all_mean_side(&self) -> f64 {
        (real(self.nodes()) - 1.0) * self.0.iter().map(|&side| real(side)).sum::<f64>()
            / (8.0 * f64::from(self.dimensions()))
    }

    /// Slots of an unsplit all_gather: max(D, ⌈(n−1)/(2k)⌉).
    #[must_use]
    pub fn all_gather_slots(&self) -> u64 {
        self.diameter().max((self.nodes() - 1).div_ceil(2 * u64::from(self.dimensions())))
    }

    /// Time with Appendix E's diameter: ½Σsᵢ for D.
    #[must_use]
    pub fn printed(&self, table: &Parameters, kind: Kind) -> f64 {
        let n = real(self.nodes());
        let (d, bytes) = (self.diameter_printed(), table.inverse_bandwidth * table.message);
        match kind {
            Kind::AllReduce => d * (table.hop_delay + bytes) + n.log2() * table.reduce_cost * table.message,
            Kind::AllGather => d * table.hop_delay + bytes * (n - 1.0) / (2.0 * f64::from(self.dimensions())),
            Kind::AllToAll => d * table.hop_delay + bytes * self.all_to_all_mean_side(),
        }
    }

    /// all_reduce with the steps that there are, Σ⌊sᵢ/2⌋, and log₂ n additions, or Σ(sᵢ−1) one after the other.
    #[must_use]
    pub fn all_reduce(&self, table: &Parameters, serial: bool) -> f64 {
        let additions = if serial { real(self.serial_reductions()) } else { real(self.nodes()).log2() };
        real(self.diameter()) * (table.hop_delay + table.inverse_bandwidth * table.message)
            + additions * table.reduce_cost * table.message
    }

    /// all_to_all by shortest ways in one step: Dα + βm·load.
    #[must_use]
    pub fn all_to_all(&self, table: &Parameters) -> f64 {
        real(self.diameter()) * table.hop_delay + table.inverse_bandwidth * table.message * self.all_to_all_load()
    }
}

/// A tile of a×b ranks of a torus, without a way round (Fig. 12, Appendix E).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Ranks along one side.
    pub a: u64,
    /// Along the other.
    pub b: u64,
}

impl Tile {
    /// (a−1) + (b−1): the diameter, and the steps of an all_reduce that gathers and then adds.
    #[must_use]
    pub const fn steps(self) -> u64 {
        self.a.saturating_sub(1) + self.b.saturating_sub(1)
    }

    /// Messages that the busiest link carries in an all_to_all row by row: ⌊a/2⌋⌈a/2⌉·b along the sides of a, and the same with
    /// a and b exchanged; a²b/4 for even a ≥ b.
    #[must_use]
    pub fn all_to_all_load(self) -> f64 {
        let load = |side: u64, other: u64| real(side / 2) * real(side.div_ceil(2)) * real(other);
        load(self.a, self.b).max(load(self.b, self.a))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{compare, golden};
    use super::*;

    #[test]
    fn integer_shapes_are_the_golden_ones() {
        let golden = golden("a_torus_shapes");
        let table = Parameters::default();
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let sides = row["shape"].as_str().unwrap().split('x').map(|side| side.parse().unwrap()).collect();
            let sides = Sides::new(sides).unwrap();
            compared += compare(
                row,
                &["shape"],
                &[
                    ("n", Some(real(sides.nodes()))),
                    ("diam_paper", Some(sides.diameter_printed())),
                    ("diam_exact", Some(real(sides.diameter()))),
                    ("AR_paper", Some(sides.printed(&table, Kind::AllReduce))),
                    ("AR_steps_exact", Some(real(sides.diameter()))),
                    ("AR_exact_steps_cost", Some(sides.all_reduce(&table, false))),
                    ("AR_reductions_serial", Some(real(sides.serial_reductions()))),
                    ("AR_exact_steps_serial_gamma", Some(sides.all_reduce(&table, true))),
                    ("AG_slots_unsplit", Some(real(sides.all_gather_slots()))),
                    ("AG_paper", Some(sides.printed(&table, Kind::AllGather))),
                    ("ATA_link_load_max", Some(sides.all_to_all_load())),
                    ("ATA_link_load_mean", Some(sides.all_to_all_mean_load())),
                    ("ATA_bisection_bound", Some(sides.bisection())),
                    ("ATA_paper_equal_side", Some(sides.all_to_all_equal_sides())),
                    ("ATA_appendixE_reading", Some(sides.all_to_all_mean_side())),
                    ("ATA_time_exact_load", Some(sides.all_to_all(&table))),
                ],
            );
        }
        assert_eq!(compared, 31 * 16);
        assert!(
            Sides::new(vec![]).is_err() && Sides::new(vec![4, 0]).is_err() && Sides::new(vec![u64::MAX, 2]).is_err()
        );
    }

    /// models.md, Appendix E: 8×8 has load 128 and 14 steps.
    #[test]
    fn tiles() {
        let tile = Tile { a: 8, b: 8 };
        assert_eq!(tile.steps(), 14);
        assert!((tile.all_to_all_load() - 128.0).abs() < 1e-9);
        assert_eq!(Tile { a: 8, b: 6 }.steps(), 12);
        assert!(Tile { a: 1, b: 1 }.all_to_all_load().abs() < 1e-9);
    }
}
