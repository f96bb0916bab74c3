//! A set of plans for a range of sizes: each size is served by the candidate that is cheapest there.

use std::sync::Arc;

use rondo_compiler::auto::{self, Algorithm, Variant, Watch};
use rondo_compiler::build::BuildContext;
use rondo_compiler::cost::evaluate;
use rondo_compiler::front::job::{Job, build_problem_for};
use rondo_compiler::sizes::{Line, lower_envelope};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_ir::units::Bytes;

use crate::pipeline::{Compiled, Failure, Loaded, Proof, Request, finish};

/// What is wanted.
#[derive(Clone, Debug)]
pub struct SetRequest {
    /// Smallest buffer size, included.
    pub low: Bytes,
    /// Largest buffer size, included.
    pub high: Bytes,
    /// Which algorithms.
    pub request: Request,
    /// How hard the SMT proof is tried.
    pub proof: Proof,
}

/// One plan of a set.
#[derive(Debug)]
pub struct SetPlan {
    /// Smallest buffer size that it serves, included.
    pub from: Bytes,
    /// Largest buffer size that it serves, included.
    pub to: Bytes,
    /// The problem at the largest size.
    pub problem: Arc<Problem>,
    /// The plan, verified at the largest size. What it moves does not depend on the size.
    pub compiled: Compiled,
    /// Its price as a function of the size.
    pub line: Line,
}

/// The plans in the order of sizes: they cover every multiple of the element from `low` to `high`, without overlap.
///
/// `usable` says whether a candidate can be written for the runtimes that are asked for; `most` bounds the number of plans (a
/// runtime that loads few files): the candidates whose loss costs least are given up. `watch` hears how far it is; `&()` does not
/// listen.
///
/// # Errors
/// As [`crate::pipeline::compile`]; and if no candidate is usable.
pub fn compile_set(
    loaded: &Loaded,
    set: &SetRequest,
    most: Option<usize>,
    usable: impl Fn(&Problem, &Schedule) -> Result<(), Diagnostic> + Sync,
    watch: &dyn Watch,
) -> Result<Vec<SetPlan>, Failure> {
    let job = &loaded.job;
    let at = |size: Bytes| build_problem_for(job, &loaded.fabric, size).map(Arc::new).map_err(Failure::Input);
    let problem = at(set.high)?;
    let context = BuildContext::new(&problem, &loaded.fabric);
    let variants = auto::variants(&context, Algorithm::parse(&set.request.algorithm), set.request.chunks, watch)
        .map_err(|error| Failure::Input(vec![error.to_diagnostic()]))?;
    let mut refusals = Vec::new();
    let mut candidates: Vec<(Variant, Line)> = Vec::new();
    watch.begin("trying candidates", variants.len());
    for variant in variants {
        watch.done();
        match usable(&problem, &variant.schedule) {
            Ok(()) => {
                let line = price_line(job, loaded, &problem, &variant.schedule)?;
                candidates.push((variant, line));
            }
            Err(reason) => {
                refusals.push(reason.note(format!("candidate {} with {} chunks", variant.name, variant.chunks)))
            }
        }
    }
    if candidates.is_empty() {
        refusals
            .insert(0, Diagnostic::error("X009", "no candidate can be written for the runtimes that are asked for"));
        return Err(Failure::Input(refusals));
    }
    let unit = job.collective.dtype.bytes();
    let keep = thin_out(&candidates, set, unit, most.unwrap_or(usize::MAX).max(1));
    let lines: Vec<Line> = keep.iter().map(|&index| candidates[index].1.clone()).collect();
    let pieces = lower_envelope(&lines, set.low.0, set.high.0, unit);
    watch.begin("verifying schedules", pieces.len());
    pieces
        .into_iter()
        .map(|piece| {
            let (variant, line) = &candidates[keep[piece.line]];
            let problem = at(Bytes(piece.to))?;
            let compiled = finish(&problem, variant.schedule.clone(), Vec::new(), &set.proof)?;
            watch.done();
            Ok(SetPlan { from: Bytes(piece.from), to: Bytes(piece.to), problem, compiled, line: line.clone() })
        })
        .collect()
}

/// The exact affine price: through sizes 0 and one at which every slot, and every part of a split route, is a whole number of
/// elements.
fn price_line(job: &Job, loaded: &Loaded, problem: &Problem, schedule: &Schedule) -> Result<Line, Failure> {
    let at = |size: Bytes| {
        let problem = build_problem_for(job, &loaded.fabric, size).map_err(Failure::Input)?;
        Ok::<_, Failure>(evaluate(&problem, schedule).total)
    };
    let weights = schedule.paths.routes().flat_map(|route| &route.parts).map(|part| *part.weight.denom());
    let parts = weights.fold(1_u64, num_integer::lcm);
    let slots = problem.groups().first().map_or(1, |group| {
        let blocks = u64::from(group.collective().ranks());
        blocks * u64::from(schedule.chunks.first().copied().unwrap_or(1))
    });
    let even = slots.saturating_mul(parts).saturating_mul(job.collective.dtype.bytes());
    Ok(Line::through(&at(Bytes(0))?, even, &at(Bytes(even))?))
}

/// Indices of the candidates that stay when at most `most` plans are wanted: as long as there are more, the one goes whose loss
/// makes the worst size least worse.
fn thin_out(candidates: &[(Variant, Line)], set: &SetRequest, unit: u64, most: usize) -> Vec<usize> {
    let envelope = |keep: &[usize]| {
        let lines: Vec<Line> = keep.iter().map(|&index| candidates[index].1.clone()).collect();
        let pieces = lower_envelope(&lines, set.low.0, set.high.0, unit);
        (lines, pieces)
    };
    let mut keep: Vec<usize> = (0..candidates.len()).collect();
    let (_, pieces) = envelope(&keep);
    let mut used: Vec<usize> = pieces.iter().map(|piece| keep[piece.line]).collect();
    used.sort_unstable();
    used.dedup();
    keep = used;
    loop {
        let (lines, pieces) = envelope(&keep);
        if pieces.len() <= most {
            return keep;
        }
        // A ratio of affine prices is monotone between switch-over points, so its extremes lie at the ends of pieces.
        let loss = |gone: usize| {
            let rest: Vec<usize> = keep.iter().copied().filter(|&index| index != gone).collect();
            let (other_lines, other_pieces) = envelope(&rest);
            let mut sizes: Vec<u64> =
                pieces.iter().chain(&other_pieces).flat_map(|piece| [piece.from, piece.to]).collect();
            sizes.sort_unstable();
            sizes.dedup();
            let least = |lines: &[Line], size: u64| lines.iter().map(|line| line.at(size)).min();
            sizes
                .into_iter()
                .filter_map(|size| {
                    let (best, left) = (least(&lines, size)?, least(&other_lines, size)?);
                    (!num_traits::Zero::is_zero(&best)).then(|| left / best)
                })
                .max()
        };
        let Some(gone) = keep.iter().copied().min_by(|&a, &b| loss(a).cmp(&loss(b)).then(a.cmp(&b))) else {
            return keep;
        };
        keep.retain(|&index| index != gone);
    }
}
