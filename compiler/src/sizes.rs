//! Which candidate is best at which size: the lower envelope of exact affine prices.
//!
//! The price of a fixed schedule is affine in the message size, m ↦ fixed + per_byte·m, as long as every slot has the
//! same number of elements: each step is a maximum of linear functions through the origin plus constants, and a maximum of
//! such functions is the one with the largest slope. Sizes in between differ from the line by the rounding of a slot to whole
//! elements. The switch-over sizes of this module are exact for the lines, and decided on rationals.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive};
use rondo_ir::units::Time;

/// An exact affine price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Price of a message of 0 bytes, in seconds.
    pub fixed: BigRational,
    /// Seconds a byte.
    pub per_byte: BigRational,
}

impl Line {
    /// The line through the prices at 0 bytes and at `bytes`.
    ///
    /// # Panics
    /// If `bytes` is 0.
    #[must_use]
    pub fn through(at_zero: &Time, bytes: u64, at_bytes: &Time) -> Self {
        assert!(bytes != 0, "a line needs two sizes");
        let per_byte = (at_bytes.seconds() - at_zero.seconds()) / BigRational::from_integer(BigInt::from(bytes));
        Self { fixed: at_zero.seconds().clone(), per_byte }
    }

    /// The price at a size.
    #[must_use]
    pub fn at(&self, bytes: u64) -> BigRational {
        &self.fixed + &self.per_byte * BigRational::from_integer(BigInt::from(bytes))
    }

    /// The smallest multiple of `unit` above `after` at which `other` is strictly cheaper; `None` if it never is.
    fn overtaken_by(&self, other: &Self, after: u64, unit: u64) -> Option<u64> {
        let gain = &self.per_byte - &other.per_byte;
        if !gain.is_positive() {
            return None;
        }
        // self.fixed + p·m > other.fixed + q·m  ⟺  m > (other.fixed − self.fixed) / (p − q)
        let crossing = (&other.fixed - &self.fixed) / gain / BigRational::from_integer(BigInt::from(unit));
        let first = (crossing.floor().to_integer() + BigInt::from(1)).max(BigInt::from(after / unit) + BigInt::from(1));
        (first * BigInt::from(unit)).to_u64()
    }
}

/// An interval of sizes and the line that is cheapest on all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Smallest size, in bytes, inclusive.
    pub from: u64,
    /// Largest size, in bytes, inclusive.
    pub to: u64,
    /// Index of the line.
    pub line: usize,
}

/// The intervals that cover all multiples of `unit` in `from..=to`, without gap or overlap, each with its cheapest line.
///
/// Of lines that are equal at a size, the one with the smaller slope wins, then the one with the smaller index, so the number
/// of pieces is as small as it can be. Ends are multiples of `unit`, except that the first and last are as given.
///
/// # Panics
/// If there is no line, `unit` is 0, or `from` is above `to`.
///
/// # Complexity
/// Quadratic in the number of lines.
#[must_use]
pub fn lower_envelope(lines: &[Line], from: u64, to: u64, unit: u64) -> Vec<Piece> {
    assert!(!lines.is_empty() && unit != 0 && from <= to, "an envelope needs a line and an interval");
    let cheapest = |size: u64| {
        (0..lines.len())
            .min_by(|&a, &b| {
                let (left, right) = (&lines[a], &lines[b]);
                left.at(size).cmp(&right.at(size)).then_with(|| left.per_byte.cmp(&right.per_byte)).then(a.cmp(&b))
            })
            .unwrap_or(0)
    };
    let mut pieces = Vec::new();
    let mut start = from;
    loop {
        let line = cheapest(start);
        let next =
            lines.iter().filter_map(|other| lines[line].overtaken_by(other, start, unit)).filter(|&s| s <= to).min();
        let Some(next) = next else {
            pieces.push(Piece { from: start, to, line });
            return pieces;
        };
        pieces.push(Piece { from: start, to: next - unit, line });
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(fixed: i64, per_byte: i64, scale: i64) -> Line {
        let ratio = |value: i64| BigRational::new(BigInt::from(value), BigInt::from(scale));
        Line { fixed: ratio(fixed), per_byte: ratio(per_byte) }
    }

    #[test]
    fn two_lines_switch_at_the_first_size_that_gains() {
        // 0 + 3m against 12 + m: equal at 6, cheaper from 8 (multiples of 4).
        let pieces = lower_envelope(&[line(0, 3, 1), line(12, 1, 1)], 4, 100, 4);
        assert_eq!(pieces, [Piece { from: 4, to: 4, line: 0 }, Piece { from: 8, to: 100, line: 1 }]);
    }

    proptest! {
        #[test]
        fn agrees_with_trying_every_size(
            parts in proptest::collection::vec((0_i64..40, 0_i64..12), 1..7),
            unit in 1_u64..5,
            from in 0_u64..20,
            length in 0_u64..60,
        ) {
            let lines: Vec<_> = parts.iter().map(|&(fixed, slope)| line(fixed, slope, 7)).collect();
            let (from, to) = (from * unit, (from + length) * unit);
            let pieces = lower_envelope(&lines, from, to, unit);
            prop_assert_eq!(pieces[0].from, from);
            prop_assert_eq!(pieces[pieces.len() - 1].to, to);
            for pair in pieces.windows(2) {
                prop_assert_eq!(pair[0].to + unit, pair[1].from);
                prop_assert_ne!(pair[0].line, pair[1].line);
            }
            for piece in &pieces {
                for size in (piece.from..=piece.to).step_by(usize::try_from(unit).unwrap()) {
                    let least = lines.iter().map(|l| l.at(size)).min().unwrap();
                    prop_assert_eq!(lines[piece.line].at(size), least, "size {}", size);
                }
            }
        }
    }
}
