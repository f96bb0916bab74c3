//! Quantities with their unit in the type: bytes, rates, delays and exact times.
//!
//! Files always spell the unit (`"25 GB/s"`, `"700 ns"`, `"32 KiB"`); a bare number does not parse.
//! GB is 10⁹ bytes, GiB is 2³⁰, and a small `b` (`Gb/s`, `Gbps`, `Gbit/s`) means bits.
//! What is given is kept exactly: bytes and rates as integers, delays as whole femtoseconds.
//! What is computed from them ([`Time`]) is an exact rational, turned into `f64` only for printing.

use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use num_traits::{Signed, ToPrimitive, Zero};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is not a quantity. `Display` says what is wrong and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not begin with a number.
    #[error("`{text}` does not begin with a number; write for example \"{example}\"")]
    NoNumber {
        /// What was given.
        text: String,
        /// A text that would be accepted.
        example: &'static str,
    },
    /// A number without its unit.
    #[error("`{text}` has no unit; write for example \"{example}\"")]
    NoUnit {
        /// What was given.
        text: String,
        /// A text that would be accepted.
        example: &'static str,
    },
    /// A unit that is not known for this quantity.
    #[error("unknown unit `{unit}`; allowed: {allowed}")]
    UnknownUnit {
        /// What was given.
        unit: String,
        /// All allowed units.
        allowed: &'static str,
    },
    /// The value is no whole number of the smallest unit.
    #[error("`{text}` is no whole number of {smallest}")]
    TooFine {
        /// What was given.
        text: String,
        /// The resolution.
        smallest: &'static str,
    },
    /// The value is too large for the quantity.
    #[error("`{text}` is too large; the limit is {limit}")]
    TooLarge {
        /// What was given.
        text: String,
        /// The largest value.
        limit: &'static str,
    },
    /// Zero where something positive is needed.
    #[error("`{text}` must be at least {least}")]
    Zero {
        /// What was given.
        text: String,
        /// The smallest value.
        least: &'static str,
    },
}

/// Splits `"12.5 GB/s"` into the exact number and its unit.
fn split(text: &str, example: &'static str) -> Result<(BigRational, String), UnitError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    // An exponent ("1e-6 s") belongs to the number; "1 eV" does not exist here.
    let mut end = end;
    let rest = &trimmed[end..];
    if end > 0 && (rest.starts_with('e') || rest.starts_with('E')) {
        let digits = rest[1..].trim_start_matches(['+', '-']);
        let count = digits.chars().take_while(char::is_ascii_digit).count();
        if count > 0 {
            end += rest.len() - digits.len() + count;
        }
    }
    let (number, unit) = trimmed.split_at(end);
    let unit = unit.trim();
    let value = parse_decimal(&number.replace('_', ""))
        .ok_or_else(|| UnitError::NoNumber { text: text.to_owned(), example })?;
    if unit.is_empty() {
        return Err(UnitError::NoUnit { text: text.to_owned(), example });
    }
    Ok((value, unit.to_owned()))
}

/// An exact decimal: digits, at most one point, an optional exponent of at most two digits.
fn parse_decimal(text: &str) -> Option<BigRational> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    if !(-99..=99).contains(&exponent) || mantissa.len() > 60 {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value = BigInt::from_str(&digits).ok()?;
    let ten = BigRational::from_integer(BigInt::from(10));
    let shift = exponent - i32::try_from(fraction.len()).ok()?;
    Some(BigRational::from_integer(value) * num_traits::Pow::pow(ten, shift))
}

/// A whole number that fits `u64`.
fn whole(value: &BigRational, text: &str, smallest: &'static str, limit: &'static str) -> Result<u64, UnitError> {
    if !value.is_integer() {
        return Err(UnitError::TooFine { text: text.to_owned(), smallest });
    }
    value.to_integer().to_u64().ok_or_else(|| UnitError::TooLarge { text: text.to_owned(), limit })
}

fn power_of_ten(exponent: u32) -> BigRational {
    BigRational::from_integer(num_traits::Pow::pow(BigInt::from(10), exponent))
}

fn power_of_two(exponent: u32) -> BigRational {
    BigRational::from_integer(BigInt::from(1) << exponent)
}

/// How many bytes (or bits) a prefixed unit stands for: `("G", "i")` is 2³⁰.
fn byte_scale(prefix: &str) -> Option<BigRational> {
    Some(match prefix {
        "" => power_of_ten(0),
        "k" | "K" => power_of_ten(3),
        "M" => power_of_ten(6),
        "G" => power_of_ten(9),
        "T" => power_of_ten(12),
        "P" => power_of_ten(15),
        "Ki" => power_of_two(10),
        "Mi" => power_of_two(20),
        "Gi" => power_of_two(30),
        "Ti" => power_of_two(40),
        "Pi" => power_of_two(50),
        _ => return None,
    })
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const ALLOWED: &str = "B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)";
        let (value, unit) = split(text, "32 KiB")?;
        let scale = unit
            .strip_suffix('B')
            .or(if matches!(unit.as_str(), "byte" | "bytes") { Some("") } else { None })
            .and_then(byte_scale)
            .ok_or(UnitError::UnknownUnit { unit, allowed: ALLOWED })?;
        whole(&(value * scale), text, "bytes", "16 EiB").map(Bytes)
    }
}

/// Prints exactly, in the largest unit that leaves a whole number: `4 KiB`, `100 MB`, `7 B`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units: [(u64, &str); 8] = [
            (1 << 40, "TiB"),
            (1_000_000_000_000, "TB"),
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "KB"),
        ];
        for (scale, unit) in units {
            if self.0 != 0 && self.0.is_multiple_of(scale) {
                return write!(f, "{} {unit}", self.0 / scale);
            }
        }
        write!(f, "{} B", self.0)
    }
}
text_serde!(Bytes);

/// A transfer rate in bytes per second, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// The rate of that many bytes per second; `None` for zero.
    #[must_use]
    pub const fn new(bytes_per_second: u64) -> Option<Self> {
        if bytes_per_second == 0 { None } else { Some(Self(bytes_per_second)) }
    }

    /// Bytes per second.
    #[must_use]
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// The exact time in which `bytes` pass.
    #[must_use]
    pub fn time_for(self, bytes: u128) -> Time {
        Time(BigRational::new(BigInt::from(bytes), BigInt::from(self.0)))
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const ALLOWED: &str = "B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, Mbps, Gbps, Tbps, Gb/s, Gbit/s";
        let (value, unit) = split(text, "25 GB/s")?;
        let unknown = || UnitError::UnknownUnit { unit: unit.clone(), allowed: ALLOWED };
        let per_second = unit
            .strip_suffix("/s")
            .or_else(|| unit.strip_suffix("ps").filter(|rest| rest.ends_with('b') || rest.ends_with('B')))
            .ok_or_else(unknown)?;
        let (prefix, bits) = if let Some(prefix) = per_second.strip_suffix("bit") {
            (prefix, true)
        } else if let Some(prefix) = per_second.strip_suffix('b') {
            (prefix, true)
        } else if let Some(prefix) = per_second.strip_suffix('B') {
            (prefix, false)
        } else {
            return Err(unknown());
        };
        let mut value = value * byte_scale(prefix).ok_or_else(unknown)?;
        if bits {
            value /= BigRational::from_integer(BigInt::from(8));
        }
        let rate = whole(&value, text, "bytes per second", "16 EiB/s")?;
        Self::new(rate).ok_or(UnitError::Zero { text: text.to_owned(), least: "1 B/s" })
    }
}

/// Prints exactly, in the largest decimal unit that leaves at most three decimals: `25 GB/s`, `48.5 GB/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(
            f,
            self.0,
            &[(1_000_000_000_000, "TB/s"), (1_000_000_000, "GB/s"), (1_000_000, "MB/s"), (1_000, "KB/s"), (1, "B/s")],
        )
    }
}
text_serde!(Rate);

/// Writes `value` in the first unit that leaves at most three decimals exactly.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    for &(scale, unit) in units {
        let thousandths = u128::from(value) * 1000;
        if value >= scale && thousandths % u128::from(scale) == 0 {
            let scaled = thousandths / u128::from(scale);
            let (whole, fraction) = (scaled / 1000, scaled % 1000);
            if fraction == 0 {
                return write!(f, "{whole} {unit}");
            }
            let digits = format!("{fraction:03}");
            return write!(f, "{whole}.{} {unit}", digits.trim_end_matches('0'));
        }
    }
    let (_, unit) = units[units.len() - 1];
    write!(f, "{value} {unit}")
}

/// A delay that was given (latency, start-up, reconfiguration): a whole number of femtoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Delay(u64);

impl Delay {
    /// No delay.
    pub const ZERO: Self = Self(0);

    /// A delay of that many femtoseconds (10⁻¹⁵ s).
    #[must_use]
    pub const fn from_femtoseconds(femtoseconds: u64) -> Self {
        Self(femtoseconds)
    }

    /// A delay of that many nanoseconds.
    ///
    /// # Panics
    /// If it is above five hours.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        match nanoseconds.checked_mul(1_000_000) {
            Some(value) => Self(value),
            None => panic!("delay above five hours"),
        }
    }

    /// The delay in femtoseconds.
    #[must_use]
    pub const fn femtoseconds(self) -> u64 {
        self.0
    }

    /// The longest delay that a text can give: an hour. Two of them still add up exactly.
    pub const LONGEST: Self = Self(3_600_000_000_000_000_000);

    /// The sum of two delays, exact for what texts can give ([`Self::LONGEST`]); saturates at about five hours. Longer sums
    /// are those of [`Time::from_femtoseconds`].
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The delay as an exact time.
    #[must_use]
    pub fn time(self) -> Time {
        Time(BigRational::new(BigInt::from(self.0), BigInt::from(1_000_000_000_000_000_u64)))
    }
}

impl FromStr for Delay {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const ALLOWED: &str = "fs, ps, ns, us, ms, s";
        let (value, unit) = split(text, "700 ns")?;
        let exponent = match unit.as_str() {
            "fs" => 0,
            "ps" => 3,
            "ns" => 6,
            "us" | "µs" | "μs" => 9,
            "ms" => 12,
            "s" => 15,
            _ => return Err(UnitError::UnknownUnit { unit, allowed: ALLOWED }),
        };
        const LIMIT: &str = "one hour (3600 s)";
        let delay = whole(&(value * power_of_ten(exponent)), text, "femtoseconds", LIMIT).map(Self)?;
        if Self::LONGEST < delay {
            return Err(UnitError::TooLarge { text: text.to_owned(), limit: LIMIT });
        }
        Ok(delay)
    }
}

/// Prints exactly: `1 us`, `2.5 us`, `700 ns`.
impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return write!(f, "0 s");
        }
        write_scaled(
            f,
            self.0,
            &[
                (1_000_000_000_000_000, "s"),
                (1_000_000_000_000, "ms"),
                (1_000_000_000, "us"),
                (1_000_000, "ns"),
                (1_000, "ps"),
                (1, "fs"),
            ],
        )
    }
}
text_serde!(Delay);

/// A cost per byte (γ, the copy cost): an exact number of femtoseconds per byte. Zero means free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerByte(Ratio<u64>);

impl PerByte {
    /// Nothing per byte.
    pub const ZERO: Self = Self(Ratio::new_raw(0, 1));

    /// That many femtoseconds per byte.
    #[must_use]
    pub const fn from_femtoseconds(femtoseconds: u64) -> Self {
        Self(Ratio::new_raw(femtoseconds, 1))
    }

    /// The inverse of a rate.
    #[must_use]
    pub fn inverse_of(rate: Rate) -> Self {
        Self(Ratio::new(1_000_000_000_000_000, rate.bytes_per_second()))
    }

    /// Whether it is free.
    #[must_use]
    pub fn is_zero(self) -> bool {
        *self.0.numer() == 0
    }

    /// The exact time for `bytes`.
    #[must_use]
    pub fn time_for(self, bytes: u128) -> Time {
        let numerator = BigInt::from(bytes) * BigInt::from(*self.0.numer());
        let denominator = BigInt::from(*self.0.denom()) * BigInt::from(1_000_000_000_000_000_u64);
        Time(BigRational::new(numerator, denominator))
    }

    /// Exact femtoseconds per byte.
    #[must_use]
    pub fn femtoseconds(self) -> Ratio<u64> {
        self.0
    }
}

impl Default for PerByte {
    fn default() -> Self {
        Self::ZERO
    }
}

/// Accepts a time per byte (`"1 ps/B"`) or the rate (`"1 TB/s"`).
impl FromStr for PerByte {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const ALLOWED: &str = "fs/B, ps/B, ns/B, us/B, or a rate such as GB/s";
        let Some(delay) = text.trim().strip_suffix("/B") else {
            return Rate::from_str(text).map(Self::inverse_of).map_err(|error| match error {
                UnitError::UnknownUnit { unit, .. } => UnitError::UnknownUnit { unit, allowed: ALLOWED },
                other => other,
            });
        };
        Delay::from_str(delay).map(|d| Self::from_femtoseconds(d.femtoseconds()))
    }
}

impl fmt::Display for PerByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.0.denom() == 1 {
            return write!(f, "{}/B", Delay::from_femtoseconds(*self.0.numer()));
        }
        // A rate of whole bytes per second whose inverse is no whole number of femtoseconds.
        let rate = Ratio::new(1_000_000_000_000_000, 1) / self.0;
        write!(f, "{}", Rate(rate.to_integer().max(1)))
    }
}
text_serde!(PerByte);

/// An exact time in seconds; whatever is decided or certified is decided on these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(BigRational);

impl Time {
    /// Zero seconds.
    #[must_use]
    pub fn zero() -> Self {
        Self(BigRational::zero())
    }

    /// A time of that many femtoseconds.
    #[must_use]
    pub fn from_femtoseconds(femtoseconds: u128) -> Self {
        Self(BigRational::new(BigInt::from(femtoseconds), BigInt::from(1_000_000_000_000_000_u64)))
    }

    /// A time from exact seconds.
    #[must_use]
    pub fn from_seconds(seconds: BigRational) -> Self {
        Self(seconds)
    }

    /// Exact seconds.
    #[must_use]
    pub fn seconds(&self) -> &BigRational {
        &self.0
    }

    /// The nearest `f64`, in seconds: for printing and plots only.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.0.to_f64().unwrap_or(f64::INFINITY)
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// The exact quotient; `None` if `other` is zero.
    #[must_use]
    pub fn ratio_to(&self, other: &Self) -> Option<BigRational> {
        if other.is_zero() { None } else { Some(&self.0 / &other.0) }
    }
}

impl Default for Time {
    fn default() -> Self {
        Self::zero()
    }
}

impl std::ops::Add for Time {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::ops::AddAssign<&Time> for Time {
    fn add_assign(&mut self, other: &Time) {
        self.0 += &other.0;
    }
}

impl std::ops::Sub for Time {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl std::iter::Sum for Time {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::zero(), |sum, time| sum + time)
    }
}

/// Four significant digits in a readable unit: `12.35 us`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.to_f64();
        let negative = self.0.is_negative();
        let magnitude = seconds.abs();
        let (value, unit) = if self.0.is_zero() {
            (0.0, "s")
        } else if magnitude >= 1.0 {
            (magnitude, "s")
        } else if magnitude >= 1e-3 {
            (magnitude * 1e3, "ms")
        } else if magnitude >= 1e-6 {
            (magnitude * 1e6, "us")
        } else {
            (magnitude * 1e9, "ns")
        };
        let decimals = if value >= 1000.0 {
            0
        } else if value >= 100.0 {
            1
        } else if value >= 10.0 {
            2
        } else {
            3
        };
        let text = format!("{value:.decimals$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        write!(f, "{}{text} {unit}", if negative { "-" } else { "" })
    }
}

/// Exactly, as `"numerator/denominator"` in seconds.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}/{}", self.0.numer(), self.0.denom()))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parse = || {
            let (numerator, denominator) = text.split_once('/')?;
            let numerator = BigInt::from_str(numerator).ok()?;
            let denominator = BigInt::from_str(denominator).ok()?;
            (!denominator.is_zero()).then(|| BigRational::new(numerator, denominator))
        };
        parse().map(Self).ok_or_else(|| {
            de::Error::custom(format!("`{text}` is no exact time; write seconds as \"numerator/denominator\""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_their_exact_value() {
        for (text, expected) in [
            ("25 GB/s", 25_000_000_000),
            ("400 Gbps", 50_000_000_000),
            ("800 Gbit/s", 100_000_000_000),
            ("200 Gb/s", 25_000_000_000),
            ("1 GiB/s", 1 << 30),
            ("48.5GB/s", 48_500_000_000),
            ("1e2 MB/s", 100_000_000),
            ("1 GBps", 1_000_000_000),
        ] {
            assert_eq!(text.parse::<Rate>().map(Rate::bytes_per_second), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bare_and_unknown_units_are_refused_with_what_to_write() {
        assert_eq!("25".parse::<Rate>().unwrap_err().to_string(), "`25` has no unit; write for example \"25 GB/s\"");
        assert!("0 GB/s".parse::<Rate>().unwrap_err().to_string().contains("at least 1 B/s"));
        assert!("3 bps".parse::<Rate>().is_err());
        assert!("-1 us".parse::<Delay>().is_err());
        assert!("".parse::<Bytes>().is_err());
        assert!("1e9999999 B".parse::<Bytes>().is_err());
        assert!("99999999999 TiB".parse::<Bytes>().is_err());
        assert!("0.1 fs".parse::<Delay>().is_err());
        assert_eq!("3600 s".parse::<Delay>(), Ok(Delay::LONGEST));
        assert_eq!(
            "3600.000000000000001 s".parse::<Delay>().unwrap_err().to_string(),
            "`3600.000000000000001 s` is too large; the limit is one hour (3600 s)"
        );
    }

    #[test]
    fn display_parses_back() {
        for text in ["4 KiB", "100 MB", "7 B", "1 GiB", "0 B"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        for text in ["700 ns", "2.5 us", "0 s", "15 ms", "1 s"] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
        for text in ["1 ps/B", "3 GB/s", "0 s/B"] {
            let value: PerByte = text.parse().unwrap();
            assert_eq!(value.to_string().parse::<PerByte>().unwrap(), value, "{text}");
        }
    }

    #[test]
    fn time_is_exact_and_prints_four_digits() {
        let rate = Rate::new(3).unwrap();
        let third = rate.time_for(1);
        assert_eq!(third.clone() + third.clone() + third.clone(), rate.time_for(3));
        assert_eq!(third.to_string(), "333.3 ms");
        assert_eq!(Delay::from_nanoseconds(12_346).time().to_string(), "12.35 us");
    }
}
