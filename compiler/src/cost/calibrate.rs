//! Fits start-up, hop delay and rate to what nccl-tests measured.
//!
//! The step-synchronous model says time = startups·α_s + hops·α_p + bytes·β for a schedule ([`Terms::of`]); the fit is the
//! least squares of *relative* residuals over all lines, with no parameter below zero. One table of one algorithm does
//! not tell start-up from hop delay, because both only shift the line: then the hop delay is taken as given. Tables of two
//! algorithms whose steps have different numbers of hops do.

use std::sync::Arc;

use rondo_ir::problem::{Problem, ProblemSpec};
use rondo_ir::units::Bytes;

use crate::auto::{self, Algorithm};
use crate::build::{BuildContext, BuildError};
use crate::cost::{Cost, evaluate};

/// One line of an nccl-tests table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Line of the text, from 1.
    pub line: usize,
    /// First column: `buffer_size`.
    pub size: Bytes,
    /// Out-of-place time in seconds.
    pub out_of_place: f64,
    /// In-place time in seconds, where the table has it.
    pub in_place: Option<f64>,
}

/// Why there is no fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A line of the table that cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// No line with a measurement.
    #[error("no measurement found; a line of nccl-tests begins with size, count and type")]
    Empty,
    /// Lines that do not determine the parameters.
    #[error("{given} lines of different size do not determine start-up and rate; at least 2 are needed")]
    TooFew {
        /// Different sizes above 0.
        given: usize,
    },
    /// No schedule to compare the measurements with.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A measured size that the collective cannot have.
    #[error("line {line}: {reason}")]
    Size {
        /// From 1.
        line: usize,
        /// Why.
        reason: rondo_ir::collective::CollectiveError,
    },
}

impl CalibrateError {
    /// Its code in the registry.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Line { .. } | Self::Size { .. } => "P029",
            Self::Empty | Self::TooFew { .. } => "P030",
            Self::Build(error) => error.code(),
        }
    }
}

/// Reads the tables of an nccl-tests output: `size count type [redop] [root] time algbw busbw #wrong` and, out of place and
/// in place, the last four columns again. Lines that begin with `#` are comments, lines that do not begin with a
/// number are log output.
///
/// # Errors
/// A line that begins with a number but is no line of such a table, by its number; or no line at all.
pub fn parse(text: &str) -> Result<Vec<Measurement>, CalibrateError> {
    let mut found = Vec::new();
    let mut both = true;
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        let trimmed = text.trim();
        if let Some(comment) = trimmed.strip_prefix('#') {
            let times = comment.split_whitespace().filter(|&word| word == "time").count();
            if 0 < times {
                both = 1 < times;
            }
            continue;
        }
        let words: Vec<&str> = trimmed.split_whitespace().collect();
        let Some(size) = words.first().filter(|word| word.bytes().all(|b| b.is_ascii_digit())) else { continue };
        let fault = |reason: String| CalibrateError::Line { line, reason };
        let columns = if both { 8 } else { 4 };
        if words.len() < columns + 3 || columns + 5 < words.len() {
            return Err(fault(format!(
                "{} columns; a line has size, count, type, perhaps redop and root, and {columns} more: time, algbw, busbw \
                 and #wrong{}",
                words.len(),
                if both { " out of place and in place" } else { "" }
            )));
        }
        let size = size.parse().map_err(|_| fault(format!("`{size}` is no size in bytes")))?;
        let seconds = |word: &str| {
            let micros: f64 = word.parse().map_err(|_| fault(format!("`{word}` is no time in microseconds")))?;
            if micros.is_finite() && 0.0 < micros {
                Ok(micros * 1e-6)
            } else {
                Err(fault(format!("`{word}` is no time; a time is above 0")))
            }
        };
        let out_of_place = seconds(words[words.len() - columns])?;
        let in_place = if both { Some(seconds(words[words.len() - 4])?) } else { None };
        found.push(Measurement { line, size: Bytes(size), out_of_place, in_place });
    }
    if found.is_empty() { Err(CalibrateError::Empty) } else { Ok(found) }
}

/// What the model multiplies with start-up, hop delay and inverse bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Steps with communication.
    pub startups: f64,
    /// Σ over steps of the hops of the longest path.
    pub hops: f64,
    /// Σ over steps of the bytes of the busiest resource.
    pub bytes: f64,
}

impl Terms {
    /// The terms of a priced schedule on a fabric of equal links.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn of(cost: &Cost) -> Self {
        let mut terms = Self { startups: 0.0, hops: 0.0, bytes: 0.0 };
        for step in &cost.steps {
            terms.startups += if 0 < step.hops { 1.0 } else { 0.0 };
            terms.hops += f64::from(step.hops);
            terms.bytes += step.busiest.map_or(0.0, |busiest| busiest.bytes as f64);
        }
        terms
    }

    fn row(self) -> [f64; 3] {
        [self.startups, self.hops, self.bytes]
    }
}

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// α_s in seconds.
    pub startup: f64,
    /// α_p in seconds; what was given if the measurements do not tell it from the start-up.
    pub hop_delay: f64,
    /// Whether the hop delay was fitted.
    pub hop_delay_fitted: bool,
    /// β in seconds per byte.
    pub inverse_bandwidth: f64,
    /// Per measurement: (predicted − measured) / measured.
    pub residuals: Vec<f64>,
    /// Root of the mean of the squared residuals.
    pub rms: f64,
}

impl Fit {
    /// 1/β in bytes per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        1.0 / self.inverse_bandwidth
    }
}

/// Fits the model to (terms, measured seconds). Where start-up and hop delay cannot be told apart, the hop delay is
/// `hop_delay`.
///
/// # Errors
/// [`CalibrateError::TooFew`].
pub fn fit(points: &[(Terms, f64)], hop_delay: f64) -> Result<Fit, CalibrateError> {
    let mut sizes: Vec<u64> = points.iter().map(|(terms, _)| terms.bytes.to_bits()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 || points.iter().all(|(terms, _)| terms.startups <= 0.0) {
        return Err(CalibrateError::TooFew { given: sizes.len() });
    }
    // Startups and hops in a fixed proportion shift the line alike.
    let fixed = points.iter().all(|(terms, _)| {
        let (first, _) = points[0];
        (terms.hops * first.startups - first.hops * terms.startups).abs() <= 1e-9 * terms.hops.abs().max(1.0)
    });
    let mut best: Option<([f64; 3], f64)> = None;
    // Least squares without values below zero: with three unknowns every set of positive ones is tried.
    for set in 1..8_u32 {
        let free: Vec<usize> = (0..3).filter(|&i| set >> i & 1 == 1 && !(fixed && i == 1)).collect();
        if fixed && set >> 1 & 1 == 1 {
            continue;
        }
        let known = if fixed { hop_delay } else { 0.0 };
        let Some(solution) = solve(points, &free, known) else { continue };
        let mut values = [0.0, known, 0.0];
        for (&index, value) in free.iter().zip(solution) {
            values[index] = value;
        }
        if values.iter().any(|value| *value < 0.0) {
            continue;
        }
        let error: f64 = points.iter().map(|point| residual(&values, point).powi(2)).sum();
        if best.as_ref().is_none_or(|(_, known)| error < *known) {
            best = Some((values, error));
        }
    }
    let ([startup, hop_delay, inverse_bandwidth], _) = best.ok_or(CalibrateError::TooFew { given: sizes.len() })?;
    let values = [startup, hop_delay, inverse_bandwidth];
    let residuals: Vec<f64> = points.iter().map(|point| residual(&values, point)).collect();
    #[allow(clippy::cast_precision_loss)]
    let rms = (residuals.iter().map(|r| r * r).sum::<f64>() / residuals.len() as f64).sqrt();
    Ok(Fit { startup, hop_delay, hop_delay_fitted: !fixed, inverse_bandwidth, residuals, rms })
}

fn residual(values: &[f64; 3], (terms, measured): &(Terms, f64)) -> f64 {
    let predicted: f64 = terms.row().iter().zip(values).map(|(term, value)| term * value).sum();
    (predicted - measured) / measured
}

/// Normal equations of the relative least squares over the free unknowns, by elimination with pivots; columns are scaled
/// to their largest entry.
fn solve(points: &[(Terms, f64)], free: &[usize], hop_delay: f64) -> Option<Vec<f64>> {
    let size = free.len();
    let scale: Vec<f64> =
        free.iter().map(|&i| points.iter().map(|(t, y)| (t.row()[i] / y).abs()).fold(0.0, f64::max)).collect();
    if scale.iter().any(|s| *s <= 0.0) {
        return None;
    }
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for (terms, measured) in points {
        let row: Vec<f64> = free.iter().zip(&scale).map(|(&i, s)| terms.row()[i] / measured / s).collect();
        let target = 1.0 - if free.contains(&1) { 0.0 } else { terms.hops * hop_delay / measured };
        for i in 0..size {
            for j in 0..size {
                matrix[i][j] += row[i] * row[j];
            }
            matrix[i][size] += row[i] * target;
        }
    }
    for column in 0..size {
        let pivot = (column..size).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        if matrix[column][column].abs() < 1e-12 {
            return None;
        }
        for row in (0..size).filter(|&row| row != column) {
            let factor = matrix[row][column] / matrix[column][column];
            for index in column..=size {
                let above = matrix[column][index];
                matrix[row][index] -= factor * above;
            }
        }
    }
    Some((0..size).map(|i| matrix[i][size] / matrix[i][i] / scale[i]).collect())
}

/// Fits to measured tables of the context's collective, each with its algorithm: every line is compared with that algorithm's
/// schedule at the line's size. `hop_delay` in seconds is used where the tables do not tell it from the start-up: one
/// algorithm's steps and hops are in one proportion, two may have another.
///
/// # Errors
/// The table's index, and as [`parse`] and [`fit`] (for all tables together: the first), or why there is no schedule.
pub fn calibrate(
    tables: &[(String, Algorithm)],
    cx: &BuildContext,
    hop_delay: f64,
) -> Result<(Vec<Measurement>, Fit), (usize, CalibrateError)> {
    let (mut measurements, mut points) = (Vec::new(), Vec::new());
    for (index, (text, algorithm)) in tables.iter().enumerate() {
        let (lines, terms) = compared(text, cx, *algorithm).map_err(|error| (index, error))?;
        measurements.extend(lines);
        points.extend(terms);
    }
    let fit = fit(&points, hop_delay).map_err(|error| (0, error))?;
    Ok((measurements, fit))
}

/// The lines of a table, and what the model says of each.
fn compared(
    text: &str,
    cx: &BuildContext,
    algorithm: Algorithm,
) -> Result<(Vec<Measurement>, Vec<(Terms, f64)>), CalibrateError> {
    let measurements = parse(text)?;
    let [group] = cx.problem.groups() else {
        return Err(BuildError::Groups { given: cx.problem.groups().len() }.into());
    };
    // One algorithm for all sizes: the one for the largest, unless one is named.
    let at = |measurement: &Measurement| -> Result<Arc<Problem>, CalibrateError> {
        let collective = group
            .collective()
            .with_buffer_size(measurement.size)
            .map_err(|reason| CalibrateError::Size { line: measurement.line, reason })?;
        let ranks = group.ranks().to_vec();
        let spec = ProblemSpec { groups: vec![(collective, ranks)], ..cx.problem.to_spec() };
        match Problem::new(spec) {
            Ok(problem) => Ok(Arc::new(problem)),
            Err(_) => Err(BuildError::Groups { given: 1 }.into()),
        }
    };
    let largest = measurements.iter().max_by_key(|m| m.size).ok_or(CalibrateError::Empty)?;
    let problem = at(largest)?;
    let selection = auto::select(&BuildContext { problem: &problem, ..*cx }, algorithm, None)?;
    let in_place = group.collective().in_place();
    let mut points = Vec::with_capacity(measurements.len());
    for measurement in &measurements {
        let problem = at(measurement)?;
        // The schedule speaks of slots, so it serves every size.
        let cost = evaluate(&problem, &selection.schedule);
        let time = if in_place { measurement.in_place } else { None }.unwrap_or(measurement.out_of_place);
        points.push((Terms::of(&cost), time));
    }
    Ok((measurements, points))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
# nThread 1 nGpus 8 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    12.50    0.08    0.14      0    12.25    0.08    0.15      0
host: NCCL INFO something
        2048           512     float     sum      -1    15.00    0.14    0.24    N/A    14.50    0.14    0.25    N/A
# Avg bus bandwidth    : 0.2
";

    #[test]
    fn tables_are_read() {
        let lines = parse(TABLE).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].line, lines[0].size), (5, Bytes(1024)));
        assert!((lines[1].out_of_place - 15e-6).abs() < 1e-18 && (lines[1].in_place.unwrap() - 14.5e-6).abs() < 1e-18);
        // Without redop and root, and without the in-place half.
        let short = "# size count type time algbw busbw #wrong\n 8 2 float 5.5 0.0 0.0 0\n";
        assert_eq!(parse(short).unwrap()[0].in_place, None);
    }

    #[test]
    fn faults_name_their_line() {
        let broken = TABLE.replace("15.00", "abc");
        assert_eq!(parse(&broken).unwrap_err().to_string(), "line 7: `abc` is no time in microseconds");
        let cut = TABLE.replace("14.50    0.14    0.25    N/A", "");
        assert!(parse(&cut).unwrap_err().to_string().starts_with("line 7: 9 columns"));
        assert_eq!(parse("# nothing\n"), Err(CalibrateError::Empty));
        assert!(matches!(parse("8 2 float sum -1 0.0 0 0 0 1.0 0 0 0"), Err(CalibrateError::Line { line: 1, .. })));
    }

    fn terms(startups: f64, hops: f64, bytes: f64) -> Terms {
        Terms { startups, hops, bytes }
    }

    /// Times computed from known parameters must give these parameters back.
    #[test]
    fn exact_times_give_their_parameters() {
        let time = |t: &Terms| 3e-6 * t.startups + 5e-7 * t.hops + 4e-11 * t.bytes;
        let mixed: Vec<_> = [(7.0, 7.0), (3.0, 12.0), (14.0, 14.0)]
            .into_iter()
            .flat_map(|(s, h)| [1e3, 1e6, 1e9].map(|b| terms(s, h, b)))
            .map(|t| (t, time(&t)))
            .collect();
        let fitted = fit(&mixed, 0.0).unwrap();
        assert!(fitted.hop_delay_fitted);
        for (value, expected) in [
            (fitted.startup, 3e-6),
            (fitted.hop_delay, 5e-7),
            (fitted.inverse_bandwidth, 4e-11),
            (fitted.rate(), 2.5e10),
        ] {
            assert!((value - expected).abs() <= 1e-6 * expected, "{value} {expected}");
        }
        assert!(fitted.rms < 1e-9);
        let single: Vec<_> = [1e3, 1e6, 1e9].map(|b| terms(7.0, 7.0, b)).map(|t| (t, time(&t))).to_vec();
        let fitted = fit(&single, 5e-7).unwrap();
        assert!(!fitted.hop_delay_fitted);
        assert!((fitted.startup - 3e-6).abs() <= 1e-12 && (fitted.inverse_bandwidth - 4e-11).abs() <= 1e-17);
        assert_eq!(fit(&single[..1], 0.0), Err(CalibrateError::TooFew { given: 1 }));
    }

    /// Noise shows in the residuals, and no parameter is ever negative.
    #[test]
    fn parameters_are_never_negative() {
        let falling = [(terms(1.0, 1.0, 1e3), 1e-3), (terms(1.0, 1.0, 1e6), 1e-6)];
        let fitted = fit(&falling, 0.0).unwrap();
        assert!(0.0 <= fitted.startup && 0.0 <= fitted.inverse_bandwidth);
        assert!(0.1 < fitted.rms);
    }
}
