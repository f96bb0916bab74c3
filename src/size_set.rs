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
use rondo_ir::units::{Bytes, Time};

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

/// A set of plans and how it was chosen.
#[derive(Debug)]
pub struct Set {
    /// The plans in the order of sizes: they cover every multiple of the element from the smallest to the largest, without overlap.
    pub plans: Vec<SetPlan>,
    /// Candidates that could not be built, then those that could not be written for the runtimes that are asked for.
    pub refused: Vec<Refused>,
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
    /// It and the other algorithms on its sizes: itself first, then from cheap to dear at the largest size.
    pub rivals: Vec<Rival>,
}

/// How an algorithm fares on the sizes of a plan, each time with the pipelining factor that is best there.
#[derive(Clone, Debug)]
pub struct Rival {
    /// The algorithm.
    pub name: &'static str,
    /// At the smallest size that the plan serves: pipelining factor and time.
    pub smallest: (u32, Time),
    /// At the largest size that the plan serves.
    pub largest: (u32, Time),
    /// Whether it is the plan itself.
    pub chosen: bool,
    /// For people: `chosen`, `1.53x to 2.1x as long`, or why it is left out although it is cheaper.
    pub reason: String,
}

/// A candidate that cannot be in the set.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The algorithm.
    pub name: &'static str,
    /// The pipelining factor; `None`: whichever.
    pub chunks: Option<u32>,
    /// Why.
    pub reason: String,
}

/// A candidate that can be in the set.
struct Candidate {
    variant: Variant,
    line: Line,
}

/// Compiles a plan for each range of sizes.
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
) -> Result<Set, Failure> {
    let job = &loaded.job;
    let at = |size: Bytes| build_problem_for(job, &loaded.fabric, size).map(Arc::new).map_err(Failure::Input);
    let problem = at(set.high)?;
    if problem.cost().overlap_reconfiguration && !problem.topology().devices().is_empty() {
        let message = "a range of sizes cannot be compiled where changes of circuits overlap steps";
        let why = "what is left of a change depends on the size, so prices are no straight lines over sizes";
        let help = "name one size, or leave overlap_reconfiguration out of [cost]";
        return Err(Failure::Input(vec![Diagnostic::error("X026", message).note(why).help(help)]));
    }
    let context = BuildContext { circuits: set.request.circuits, ..BuildContext::new(&problem, &loaded.fabric) };
    let variants = auto::variants(&context, Algorithm::parse(&set.request.algorithm), set.request.chunks, watch)
        .map_err(|error| Failure::Input(vec![error.to_diagnostic()]))?;
    let mut refused: Vec<Refused> = variants
        .refused
        .iter()
        .map(|(name, error)| Refused { name, chunks: set.request.chunks, reason: error.reason() })
        .collect();
    let mut findings = Vec::new();
    let mut candidates = Vec::new();
    watch.begin("trying candidates", variants.built.len());
    for variant in variants.built {
        match usable(&problem, &variant.schedule) {
            Ok(()) => {
                let line = price_line(job, loaded, &problem, &variant.schedule)?;
                candidates.push(Candidate { variant, line });
            }
            Err(reason) => {
                let Variant { name, chunks, .. } = variant;
                refused.push(Refused { name, chunks: Some(chunks), reason: reason.message.clone() });
                findings.push(reason.note(format!("candidate {name} with {chunks} chunks")));
            }
        }
        watch.done();
    }
    if candidates.is_empty() {
        findings
            .insert(0, Diagnostic::error("X009", "no candidate can be written for the runtimes that are asked for"));
        return Err(Failure::Input(findings));
    }
    let unit = job.collective.dtype.bytes();
    let keep = thin_out(&candidates, set, unit, most.unwrap_or(usize::MAX).max(1));
    let lines: Vec<Line> = keep.iter().map(|&index| candidates[index].line.clone()).collect();
    let pieces = lower_envelope(&lines, set.low.0, set.high.0, unit);
    watch.begin("verifying schedules", pieces.len());
    let mut plans = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let chosen = keep[piece.line];
        let Candidate { variant, line } = &candidates[chosen];
        let (from, to) = (Bytes(piece.from), Bytes(piece.to));
        let problem = at(to)?;
        let compiled = finish(&problem, variant.schedule.clone(), Vec::new(), &set.proof)?;
        let rivals = rivals(&candidates, chosen, from, to);
        plans.push(SetPlan { from, to, problem, compiled, line: line.clone(), rivals });
        watch.done();
    }
    Ok(Set { plans, refused })
}

/// The chosen candidate and the best of each algorithm's others, at both ends of a range.
fn rivals(candidates: &[Candidate], chosen: usize, from: Bytes, to: Bytes) -> Vec<Rival> {
    let own = &candidates[chosen];
    let at =
        |candidate: &Candidate, size: Bytes| (candidate.variant.chunks, Time::from_seconds(candidate.line.at(size.0)));
    let (smallest, largest) = (at(own, from), at(own, to));
    let mut others: Vec<Rival> = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if index == chosen {
            continue;
        }
        let (low, high) = (at(candidate, from), at(candidate, to));
        // The variants of an algorithm follow each other.
        match others.last_mut().filter(|rival| rival.name == candidate.variant.name) {
            Some(rival) => {
                for (best, new) in [(&mut rival.smallest, low), (&mut rival.largest, high)] {
                    if new.1 < best.1 {
                        *best = new;
                    }
                }
            }
            None => others.push(Rival {
                name: candidate.variant.name,
                smallest: low,
                largest: high,
                chosen: false,
                reason: String::new(),
            }),
        }
    }
    for rival in &mut others {
        rival.reason = why_not(rival, &smallest.1, &largest.1);
    }
    others.sort_by(|a, b| (&a.largest.1, &a.smallest.1).cmp(&(&b.largest.1, &b.smallest.1)));
    let own = Rival { name: own.variant.name, smallest, largest, chosen: true, reason: "chosen".to_owned() };
    std::iter::once(own).chain(others).collect()
}

/// How much longer a rival takes than the chosen one, at both ends.
fn why_not(rival: &Rival, smallest: &Time, largest: &Time) -> String {
    let ends = [(&rival.smallest.1, smallest), (&rival.largest.1, largest)];
    let [low, high] = ends.map(|(time, least)| format!("{:.2}", time.to_f64() / least.to_f64()));
    let times = if ends.iter().all(|(time, least)| time == least) {
        "as long".to_owned()
    } else if ends.iter().any(|(_, least)| least.is_zero()) {
        "longer".to_owned()
    } else if low == high {
        format!("{low}x as long")
    } else {
        format!("{low}x to {high}x as long")
    };
    // Only a bound on the number of plans leaves out what is cheaper.
    let given_up = ends.iter().any(|(time, least)| time < least);
    if given_up { format!("{times}; one plan more than the runtime takes") } else { times }
}

/// The exact affine price: through sizes 0 and one at which every slot, and every part of a split route, is a whole number of
/// elements.
pub(crate) fn price_line(job: &Job, loaded: &Loaded, problem: &Problem, schedule: &Schedule) -> Result<Line, Failure> {
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
fn thin_out(candidates: &[Candidate], set: &SetRequest, unit: u64, most: usize) -> Vec<usize> {
    let envelope = |keep: &[usize]| {
        let lines: Vec<Line> = keep.iter().map(|&index| candidates[index].line.clone()).collect();
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
