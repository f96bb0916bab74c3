//! Closed forms of the paper "On Topology's Role in ML Training Performance", in floating point: for scale, plots and
//! comparison, never to choose a schedule.
//!
//! Times are in seconds, sizes in bytes. Numbers of ranks are real numbers, as sides and logarithms are in the paper; builders
//! use integer shapes. Where the paper contradicts itself, or a formula is not what a schedule costs, both readings are here,
//! side by side; the discrepancies have the numbers D01 … D22.
//!
//! | module | of the paper |
//! | --- | --- |
//! | [`baseline`] | Tables 1 and 2, section 3's remark on all_reduce |
//! | [`ratio`] | Fig. 2: bandwidth ratios and where they cross; sizes at which the winner changes |
//! | [`shapes`] | Appendix E: integer sides, tiles |
//! | [`failures`] | Table 3 and Appendix A |
//! | [`placement`] | Table 4 and Appendix B |
//! | [`price`] | Table 5 and section 6 |
//! | [`hybrid`] | Table 6 and Appendix D |
//! | [`multicast`] | section 8 and Appendix C |
//! | [`training`] | Tables 7 and 8, section 9 |

pub mod baseline;
pub mod failures;
pub mod hybrid;
pub mod multicast;
pub mod placement;
pub mod price;
pub mod ratio;
pub mod shapes;
pub mod training;

pub use baseline::{Kind, Parameters, clos_hops};

/// A parameter that a formula is not defined for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// A radix that is odd or too small.
    #[error("the radix of a three-tier Clos must be even and at least 2, given {given}")]
    Radix {
        /// Given.
        given: u64,
    },
    /// More ranks than the Clos holds.
    #[error("a three-tier Clos of radix {radix} holds {limit} ranks, given {given}")]
    ClosOverfull {
        /// Ports a switch.
        radix: u64,
        /// What it holds.
        limit: u64,
        /// Given.
        given: f64,
    },
    /// No dimension, or no side.
    #[error("a torus needs at least one dimension")]
    NoDimension,
    /// Too few ranks.
    #[error("{given} ranks are too few; at least {least}")]
    TooFew {
        /// Given.
        given: f64,
        /// The least.
        least: f64,
    },
    /// More than 2⁴⁰ nodes.
    #[error("the sides make more than 2^40 nodes")]
    TooManyNodes,
    /// Something that must divide something else.
    #[error("{what} is {given}, which {divisor} does not divide")]
    NotMultiple {
        /// What.
        what: &'static str,
        /// Given.
        given: u64,
        /// The divisor.
        divisor: u64,
    },
    /// A number that must be positive.
    #[error("{what} must be positive")]
    NotPositive {
        /// What.
        what: &'static str,
    },
}

/// A three-tier Clos of switches with k ports (k even): R = k/2 ranks a rack, P = k²/4 a pod, k³/4 in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clos {
    radix: u64,
}

impl Clos {
    /// The Clos of that radix.
    ///
    /// # Errors
    /// [`FormError::Radix`]: odd, less than 2, or above 2²⁰.
    pub const fn new(radix: u64) -> Result<Self, FormError> {
        if radix < 2 || !radix.is_multiple_of(2) || 1 << 20 < radix {
            return Err(FormError::Radix { given: radix });
        }
        Ok(Self { radix })
    }

    /// The smallest one that holds so many ranks.
    ///
    /// # Errors
    /// [`FormError::TooFew`]: no rank; [`FormError::Radix`]: more than a radix of 2²⁰ holds.
    pub fn holding(ranks: u64) -> Result<Self, FormError> {
        if ranks == 0 {
            return Err(FormError::TooFew { given: 0.0, least: 1.0 });
        }
        let mut low = 1_u64;
        let mut high = 1 << 19;
        // In halves of a radix: h = k/2 holds 2h³.
        while low < high {
            let half = u64::midpoint(low, high);
            if u128::from(ranks) <= 2 * u128::from(half).pow(3) {
                high = half;
            } else {
                low = half + 1;
            }
        }
        let found = Self { radix: 2 * low };
        if u128::from(found.ranks()) < u128::from(ranks) {
            return Err(FormError::Radix { given: found.radix });
        }
        Ok(found)
    }

    /// k.
    #[must_use]
    pub const fn radix(self) -> u64 {
        self.radix
    }

    /// R = k/2.
    #[must_use]
    pub const fn rack(self) -> u64 {
        self.radix / 2
    }

    /// P = k²/4.
    #[must_use]
    pub const fn pod(self) -> u64 {
        self.rack() * self.rack()
    }

    /// N = k³/4.
    #[must_use]
    pub const fn ranks(self) -> u64 {
        2 * self.pod() * self.rack()
    }

    /// 5k²/4: k²/2 edge and aggregation switches each, k²/4 core switches.
    #[must_use]
    pub const fn switches(self) -> u64 {
        5 * self.pod()
    }
}

/// The number as a float: exact up to 2⁵³.
#[allow(clippy::cast_precision_loss)]
const fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod testing {
    use serde_json::Value;

    pub fn golden(name: &str) -> Value {
        let path = format!("{}/../tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Compares a row's entries, and demands that all but the `parameters` are compared.
    pub fn compare(row: &Value, parameters: &[&str], values: &[(&str, Option<f64>)]) -> usize {
        let entries = row.as_object().unwrap();
        for key in entries.keys() {
            let known = parameters.contains(&key.as_str()) || values.iter().any(|(name, _)| name == key);
            assert!(known, "`{key}` of {row} is not compared");
        }
        let mut compared = 0;
        for (key, value) in values {
            let Some(expected) = entries.get(*key) else { continue };
            match (expected.as_f64(), value) {
                (Some(expected), Some(value)) => {
                    let fault = (value - expected).abs();
                    assert!(fault <= 1e-12 * expected.abs(), "{key}: {value} instead of {expected} in {row}");
                }
                (expected, value) => assert_eq!(expected, *value, "{key} of {row}"),
            }
            compared += 1;
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clos_is_as_large_as_it_must_be() {
        for (ranks, radix) in
            [(1, 2), (2, 2), (3, 4), (16, 4), (17, 6), (54, 6), (55, 8), (524_288, 128), (524_289, 130)]
        {
            assert_eq!(Clos::holding(ranks).unwrap().radix(), radix, "{ranks}");
        }
        assert!(Clos::holding(0).is_err() && Clos::holding(u64::MAX).is_err());
        assert!(Clos::new(7).is_err() && Clos::new(0).is_err() && Clos::new(u64::MAX - 1).is_err());
        let clos = Clos::new(128).unwrap();
        assert_eq!((clos.rack(), clos.pod(), clos.ranks(), clos.switches()), (64, 4096, 524_288, 20_480));
    }
}
