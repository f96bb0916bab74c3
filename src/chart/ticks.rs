//! Where axes have ticks, and how values are written.

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes, in powers of 1000.
    Bytes,
    /// Seconds.
    Seconds,
    /// Bytes a second, in powers of 1000.
    Rate,
    /// A ratio.
    Ratio,
    /// A whole number.
    Count,
}

impl Quantity {
    /// A value with its unit, in three digits.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        const DECIMAL: [(f64, &str); 6] =
            [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")];
        const TIME: [(f64, &str); 6] =
            [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"), (1e-15, "fs")];
        let scaled = |units: &[(f64, &str)], per: &str| {
            if value == 0.0 {
                return "0".to_owned();
            }
            // A value that rounds up to the next unit takes that.
            let unit = units.iter().find(|(scale, _)| 0.9995 <= value.abs() / scale).or(units.last());
            unit.map_or_else(String::new, |(scale, unit)| format!("{} {unit}{per}", digits(value / scale)))
        };
        match self {
            Self::Bytes => scaled(&DECIMAL, ""),
            Self::Rate => scaled(&DECIMAL, "/s"),
            Self::Seconds => scaled(&TIME, ""),
            Self::Ratio => format!("{}×", digits(value)),
            Self::Count => digits(value),
        }
    }
}

/// Three digits, without zeros at the end.
fn digits(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = [100.0, 10.0, 1.0, 0.1, 0.01].iter().position(|least| *least <= size).unwrap_or(5);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Ticks from `low` to `high` at powers of ten; where these are few, at 1, 2 and 5 times them.
pub fn logarithmic(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    let decades = high.log10() - low.log10();
    let parts: &[f64] = if decades < 1.0 {
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]
    } else if decades < 3.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let every = (decades / 9.0).ceil().max(1.0);
    let mut ticks = Vec::new();
    let mut power = first;
    while power <= last {
        ticks.extend(parts.iter().map(|part| part * 10_f64.powf(power)));
        power += every;
    }
    let slack = 1e-9;
    ticks.retain(|tick| low * (1.0 - slack) <= *tick && *tick <= high * (1.0 + slack));
    ticks
}

/// About six round ticks from `low` to `high`.
pub fn linear(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    if !rough.is_finite() || rough <= 0.0 {
        return vec![low];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|part| part * power).find(|step| rough <= *step).unwrap_or(rough);
    let mut ticks = Vec::new();
    let mut at = (low / step).ceil();
    while at * step <= high + step * 1e-9 {
        ticks.push(at * step);
        at += 1.0;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_with_three_digits_and_their_unit() {
        let cases = [
            (Quantity::Bytes, 1778.0, "1.78 KB"),
            (Quantity::Bytes, 999_999.0, "1 MB"),
            (Quantity::Bytes, 1e9, "1 GB"),
            (Quantity::Bytes, 0.0, "0"),
            (Quantity::Seconds, 1e-7, "100 ns"),
            (Quantity::Seconds, 2.5e-5, "25 us"),
            (Quantity::Rate, 1e11, "100 GB/s"),
            (Quantity::Ratio, 5.8179, "5.82×"),
            (Quantity::Ratio, 1.0, "1×"),
            (Quantity::Ratio, 0.681, "0.681×"),
            (Quantity::Count, 12.0, "12"),
        ];
        for (quantity, value, text) in cases {
            assert_eq!(quantity.text(value), text);
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(logarithmic(1e3, 1e6), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(logarithmic(1.0, 20.0), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(linear(0.0, 6.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(linear(3.0, 3.0), [3.0]);
        assert!(logarithmic(1e-15, 1e15).len() < 12);
    }
}
