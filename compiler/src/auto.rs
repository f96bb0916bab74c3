//! Choosing: builds every candidate that fits, prices it exactly, takes the cheapest.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use rondo_ir::schedule::Schedule;
use rondo_ir::units::Time;

use crate::build::{self, AlgorithmInfo, BuildContext, BuildError};
use crate::cost;
use crate::pass::circuits::{CircuitOptions, Rule};

/// What the job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm<'a> {
    /// The cheapest that fits.
    Auto,
    /// This one.
    Named(&'a str),
}

impl<'a> Algorithm<'a> {
    /// `auto`, or the name of an algorithm.
    #[must_use]
    pub fn parse(name: &'a str) -> Self {
        if name == "auto" { Self::Auto } else { Self::Named(name) }
    }
}

/// Hears how far long work is; whoever shows progress implements it.
///
/// What is heard depends on the number of threads, so nothing else may follow from it.
pub trait Watch: Sync {
    /// Work in this many pieces begins, and what went before it is finished. `what`: for people, such as `building candidates`.
    fn begin(&self, what: &'static str, pieces: usize);

    /// One piece is done.
    fn done(&self);
}

/// Nobody listens.
impl Watch for () {
    fn begin(&self, _: &'static str, _: usize) {}

    fn done(&self) {}
}

/// How a candidate fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Taken.
    Chosen,
    /// Dearer than the chosen one.
    Dearer,
    /// Equally cheap, but with more steps, more flows or later in the stated order.
    Tie,
    /// Could not be built or was not tried.
    Refused(BuildError),
}

/// One candidate of the report.
#[derive(Clone, Debug)]
pub struct CandidateReport {
    /// The algorithm.
    pub name: &'static str,
    /// The pipelining factor that suits it best, or the one asked for.
    pub chunks: u32,
    /// Its exact time; `None` if it was not built.
    pub time: Option<Time>,
    /// Steps with communication and local steps; 0 if it was not built.
    pub steps: usize,
    /// Flows; 0 if it was not built.
    pub flows: usize,
    /// How it fared.
    pub verdict: Verdict,
    /// For people: `chosen`, `1.53x as long`, or why it does not fit.
    pub reason: String,
}

/// The chosen schedule and how it was chosen.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The schedule.
    pub schedule: Schedule,
    /// Its price.
    pub cost: cost::Cost,
    /// All candidates: built ones from cheap to dear, then the refused ones in the stated order.
    pub candidates: Vec<CandidateReport>,
}

/// Candidates above these are passed over, unless all that fit are: then the smallest is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows of a schedule, about.
    pub flows: u64,
    /// Hops of all its routes together, about.
    pub hops: u64,
}

/// 2²² flows (a one-way ring all_reduce of 1024 ranks has half as many) and 2²⁰ hops.
impl Default for Limits {
    fn default() -> Self {
        Self { flows: 1 << 22, hops: 1 << 20 }
    }
}

/// What no schedule may exceed, named or not: about 6 GB of flows, and 4 GB of hops.
const MOST: Limits = Limits { flows: 1 << 27, hops: 1 << 28 };

/// Flows of a pipelined candidate above which no larger pipelining factor is tried.
const PIPELINE_FLOW_LIMIT: u64 = 1 << 18;

/// Pipelining factors that are tried: powers of two up to this one.
const MOST_CHUNKS: u32 = 1024;

/// Builds and prices the candidates and takes the cheapest; ties go to fewer steps, then fewer flows, then the stated
/// order. `chunks` fixes the pipelining factor, else each pipelined algorithm tries 1, 2, 4, … 1024, bounded by the
/// elements of the buffer and by the flows that it would take, until the time rises twice in a row.
///
/// Candidates above the default [`Limits`] are passed over.
///
/// `cx.chunks` and `cx.hop_limit` are ignored. The result does not depend on the number of threads.
///
/// # Errors
/// What keeps the named algorithm from being built, or [`BuildError::NoCandidate`].
pub fn select(cx: &BuildContext, request: Algorithm, chunks: Option<u32>) -> Result<Selection, BuildError> {
    select_within(cx, request, chunks, Limits::default(), &())
}

/// [`select`] with other limits, and with somebody who hears when a candidate is done.
///
/// # Errors
/// As [`select`].
pub fn select_within(
    cx: &BuildContext,
    request: Algorithm,
    chunks: Option<u32>,
    limits: Limits,
    watch: &dyn Watch,
) -> Result<Selection, BuildError> {
    let infos = infos(cx, request)?;
    watch.begin("building candidates", infos.len());
    let named = matches!(request, Algorithm::Named(_));
    let limits = if named { MOST } else { limits };
    let cx = BuildContext { hop_limit: Some(limits.hops), ..*cx };
    // Only the best schedule so far is kept: large ones would fill the memory. Which one that is depends on no order.
    let best: Mutex<Option<(Key, Candidate)>> = Mutex::new(None);
    let tried: Vec<Result<Key, BuildError>> = infos
        .par_iter()
        .enumerate()
        .map(|(index, &info)| {
            let candidate = candidate(info, &cx, chunks, limits.flows);
            watch.done();
            let candidate = candidate?;
            let key = candidate.key(index);
            let mut best = best.lock().unwrap_or_else(PoisonError::into_inner);
            if best.as_ref().is_none_or(|(known, _)| key < *known) {
                *best = Some((key.clone(), candidate));
            }
            Ok(key)
        })
        .collect();
    let mut built: Vec<Key> = Vec::new();
    let mut refused: Vec<(usize, BuildError)> = Vec::new();
    for (index, result) in tried.into_iter().enumerate() {
        match result {
            Ok(key) => built.push(key),
            Err(error) => refused.push((index, error)),
        }
    }
    if let Some(at) = smallest(&refused).filter(|_| built.is_empty()) {
        let (index, _) = refused.remove(at);
        match candidate(infos[index], &BuildContext { hop_limit: Some(MOST.hops), ..cx }, chunks, MOST.flows) {
            Ok(candidate) => {
                let key = candidate.key(index);
                built.push(key.clone());
                *best.lock().unwrap_or_else(PoisonError::into_inner) = Some((key, candidate));
            }
            Err(error) => refused.insert(at, (index, error)),
        }
    }
    built.sort();
    let Some((best, Candidate { schedule, cost, .. })) = best.into_inner().unwrap_or_else(PoisonError::into_inner)
    else {
        return Err(no_candidate(&cx, &infos, refused, named));
    };
    let mut candidates = Vec::with_capacity(infos.len());
    for key in built {
        let (verdict, reason) = if key == best { (Verdict::Chosen, "chosen".to_owned()) } else { why_not(&key, &best) };
        candidates.push(CandidateReport {
            name: infos[key.index].name,
            chunks: key.chunks,
            steps: key.steps,
            flows: key.flows,
            time: Some(key.time),
            verdict,
            reason,
        });
    }
    for (index, error) in refused {
        candidates.push(CandidateReport {
            name: infos[index].name,
            chunks: chunks.unwrap_or(1),
            time: None,
            steps: 0,
            flows: 0,
            reason: error.reason(),
            verdict: Verdict::Refused(error),
        });
    }
    Ok(Selection { schedule, cost, candidates })
}

/// Where everything is too large, the smallest is built all the same: its index among the refused.
fn smallest(refused: &[(usize, BuildError)]) -> Option<usize> {
    let size = |error: &BuildError| match error {
        BuildError::TooManyFlows { given, .. } | BuildError::TooManyHops { given, .. } => Some(*given),
        _ => None,
    };
    (0..refused.len()).filter_map(|at| Some((size(&refused[at].1)?, at))).min().map(|(_, at)| at)
}

/// The algorithms that a request asks for and that build the problem's collective, in the stated order.
fn infos(cx: &BuildContext, request: Algorithm) -> Result<Vec<&'static AlgorithmInfo>, BuildError> {
    let kind = cx.problem.groups().first().map(|group| group.collective().kind());
    match request {
        Algorithm::Named(name) => Ok(vec![build::algorithm(name)?]),
        Algorithm::Auto => {
            Ok(build::algorithms().iter().filter(|info| kind.is_none_or(|kind| info.serves(kind))).collect())
        }
    }
}

/// A schedule of an algorithm at a pipelining factor.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The algorithm.
    pub name: &'static str,
    /// The pipelining factor.
    pub chunks: u32,
    /// What it builds.
    pub schedule: Schedule,
}

/// All candidates of a request, none chosen.
#[derive(Clone, Debug)]
pub struct Variants {
    /// What was built, in the stated order; one algorithm's in the order of their pipelining factors.
    pub built: Vec<Variant>,
    /// What was not, in the stated order.
    pub refused: Vec<(&'static str, BuildError)>,
}

/// All candidates of a request, none chosen: for choosing by size. `chunks` fixes the pipelining factor, else each pipelined
/// algorithm gives one for each of 1, 2, 4, … 1024, bounded by the elements of the buffer and by the flows that it would take.
///
/// # Errors
/// As [`select`].
pub fn variants(
    cx: &BuildContext,
    request: Algorithm,
    chunks: Option<u32>,
    watch: &dyn Watch,
) -> Result<Variants, BuildError> {
    let infos = infos(cx, request)?;
    watch.begin("building candidates", infos.len());
    let named = matches!(request, Algorithm::Named(_));
    let limits = if named { MOST } else { Limits::default() };
    let limited = BuildContext { hop_limit: Some(limits.hops), ..*cx };
    let built: Vec<Result<Vec<Variant>, BuildError>> = infos
        .par_iter()
        .map(|&info| {
            let variants = variants_of(info, &limited, chunks, limits.flows);
            watch.done();
            variants
        })
        .collect();
    let mut variants = Vec::new();
    let mut refused = Vec::new();
    for (index, result) in built.into_iter().enumerate() {
        match result {
            Ok(list) => variants.extend(list),
            Err(error) => refused.push((index, error)),
        }
    }
    if let Some(at) = smallest(&refused).filter(|_| variants.is_empty()) {
        let (index, _) = refused.remove(at);
        match variants_of(infos[index], &BuildContext { hop_limit: Some(MOST.hops), ..*cx }, chunks, MOST.flows) {
            Ok(list) => variants.extend(list),
            Err(error) => refused.insert(at, (index, error)),
        }
    }
    if variants.is_empty() {
        return Err(no_candidate(cx, &infos, refused, named));
    }
    Ok(Variants {
        built: variants,
        refused: refused.into_iter().map(|(index, error)| (infos[index].name, error)).collect(),
    })
}

fn variants_of(
    info: &'static AlgorithmInfo,
    cx: &BuildContext,
    chunks: Option<u32>,
    limit: u64,
) -> Result<Vec<Variant>, BuildError> {
    let at = |chunks: u32| -> Result<Variant, BuildError> {
        Ok(Variant { name: info.name, chunks, schedule: build::build_info(info, &cx.with_chunks(chunks))? })
    };
    let first = chunks.unwrap_or(1);
    let given = build::flow_estimate(info, &cx.with_chunks(first))?;
    if limit < given {
        return Err(BuildError::TooManyFlows { given, limit });
    }
    let mut variants = vec![at(first)?];
    // Which circuits pay depends on the size: every threshold is a variant of its own.
    let by_size = matches!(cx.circuits.rule, Rule::Optimal | Rule::Best | Rule::PerStep);
    if by_size && !cx.problem.topology().devices().is_empty() {
        for threshold in 1.. {
            let circuits = CircuitOptions { rule: Rule::Threshold(threshold), ..cx.circuits };
            match build::build_info(info, &BuildContext { circuits, ..cx.with_chunks(first) }) {
                Ok(schedule) => variants.push(Variant { name: info.name, chunks: first, schedule }),
                Err(_) => break,
            }
        }
    }
    if chunks.is_some() || !info.is_pipelined() {
        return Ok(variants);
    }
    let elements = cx.problem.groups().first().map_or(0, |group| group.collective().elements());
    let mut more = 2;
    while more <= MOST_CHUNKS
        && u64::from(more) <= elements
        && build::flow_estimate(info, &cx.with_chunks(more))? <= PIPELINE_FLOW_LIMIT
    {
        variants.push(at(more)?);
        more *= 2;
    }
    Ok(variants)
}

fn no_candidate(
    cx: &BuildContext,
    infos: &[&'static AlgorithmInfo],
    refused: Vec<(usize, BuildError)>,
    named: bool,
) -> BuildError {
    let disconnected = refused.iter().position(|(_, error)| matches!(error, BuildError::Disconnected { .. }));
    let groups = refused.iter().position(|(_, error)| matches!(error, BuildError::Groups { .. }));
    let large = refused
        .iter()
        .position(|(_, error)| matches!(error, BuildError::TooManyFlows { .. } | BuildError::TooManyHops { .. }));
    let collective = cx.problem.groups().first().map_or("custom", |group| group.collective().kind().name());
    let reasons = refused.iter().map(|(index, error)| (infos[*index].name, error.reason())).collect();
    let single = if named { Some(0) } else { groups.or(disconnected).or(large) };
    match single.and_then(|index| refused.into_iter().nth(index)) {
        Some((_, error)) => error,
        None => BuildError::NoCandidate { collective, reasons },
    }
}

fn why_not(key: &Key, best: &Key) -> (Verdict, String) {
    if key.time == best.time {
        let reason = if best.steps < key.steps {
            format!("as long, but {} steps instead of {}", key.steps, best.steps)
        } else if best.flows < key.flows {
            format!("as long, but {} flows instead of {}", key.flows, best.flows)
        } else {
            "as long, but later in the stated order".to_owned()
        };
        return (Verdict::Tie, reason);
    }
    let reason = if best.time.is_zero() {
        "longer".to_owned()
    } else {
        format!("{:.2}x as long", key.time.to_f64() / best.time.to_f64())
    };
    (Verdict::Dearer, reason)
}

struct Candidate {
    schedule: Schedule,
    cost: cost::Cost,
    chunks: u32,
    flows: usize,
}

/// What candidates are compared by, in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time: Time,
    steps: usize,
    flows: usize,
    index: usize,
    chunks: u32,
}

impl Candidate {
    fn key(&self, index: usize) -> Key {
        Key {
            time: self.cost.total.clone(),
            steps: self.schedule.steps.len(),
            flows: self.flows,
            index,
            chunks: self.chunks,
        }
    }
}

/// The algorithm at its best pipelining factor.
fn candidate(
    info: &'static AlgorithmInfo,
    cx: &BuildContext,
    chunks: Option<u32>,
    limit: u64,
) -> Result<Candidate, BuildError> {
    let at = |chunks: u32| -> Result<Candidate, BuildError> {
        let cx = cx.with_chunks(chunks);
        let schedule = build::build_info(info, &cx)?;
        let cost = cost::evaluate(cx.problem, &schedule);
        Ok(Candidate { flows: schedule.flow_count(), schedule, cost, chunks })
    };
    let first = chunks.unwrap_or(1);
    let given = build::flow_estimate(info, &cx.with_chunks(first))?;
    if limit < given {
        return Err(BuildError::TooManyFlows { given, limit });
    }
    let mut best = at(first)?;
    if chunks.is_some() || !info.is_pipelined() {
        return Ok(best);
    }
    let elements = cx.problem.groups().first().map_or(0, |group| group.collective().elements());
    let mut more = 2;
    // The time falls and then rises: a fixed part for each chunk against a smaller share for each. Two rises in a row
    // (one may come from slots that differ by an element) end the search.
    let mut rises = 0;
    while more <= MOST_CHUNKS && u64::from(more) <= elements {
        if PIPELINE_FLOW_LIMIT < build::flow_estimate(info, &cx.with_chunks(more))? {
            break;
        }
        let next = at(more)?;
        if next.key(0) < best.key(0) {
            best = next;
            rises = 0;
        } else {
            rises += 1;
            if 1 < rises {
                break;
            }
        }
        more *= 2;
    }
    Ok(best)
}
