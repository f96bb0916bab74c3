//! Exact switch-over points for circuits: which threshold is best at which size and delay, as a rule that every rank can
//! evaluate alone, with a proof that it is best in a region.

use std::sync::Arc;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};
use rondo_compiler::build::{BuildContext, build};
use rondo_compiler::cost::shortcut::{Arcs, Model, Pairing, Phases};
use rondo_compiler::fabric::Shape;
use rondo_compiler::front::job::{CollectiveChoice, build_problem_for};
use rondo_compiler::pass::circuits::{CircuitOptions, Rule as CircuitRule, Summary};
use rondo_compiler::sizes::{Line, Piece, lower_envelope};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::NodeId;
use rondo_ir::schedule::Schedule;
use rondo_ir::topology::Hop;
use rondo_ir::units::{Bytes, Delay};
use rondo_verify::Answer;
use rondo_verify::region::{Affine, Entry, Region, Rule, certificate, prove};
use rondo_verify::smt::SmtOptions;

use crate::pipeline::{Failure, Loaded, Proof, judge};
use crate::size_set::price_line;

/// Up to this many ranks every plan is built and verified, and its price is the schedule's; above, prices are closed forms.
pub const MOST_BUILT: u32 = 128;

/// A plan that the rule may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// `T = 2`, or `ring`.
    pub name: String,
    /// Its threshold; `None`: Ring.
    pub threshold: Option<u32>,
    /// Reconfigurations of a call.
    pub changes: u32,
    /// Its price.
    pub price: Affine,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which algorithm has the thresholds.
    pub pairing: Pairing,
    /// Sizes of the table, and of the proof.
    pub sizes: (Bytes, Bytes),
    /// Delays of the proof, synchronisation and stragglers included.
    pub delays: (Delay, Delay),
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Thresholds {
    /// T = 1 … L, then Ring.
    pub plans: Vec<Plan>,
    /// The delay of the job, synchronisation and stragglers included.
    pub delay: Delay,
    /// At the job's delay: sizes and the plan that is best there, an index into `plans`.
    pub pieces: Vec<Piece>,
    /// First entry that holds.
    pub rule: Rule,
    /// Whether the prices are those of verified schedules.
    pub built: bool,
    /// Whether the rule is best for all sizes and delays of the question.
    pub answer: Answer,
    /// By what.
    pub how: String,
    /// The question to the solver, for another one.
    pub certificate: String,
}

impl Thresholds {
    /// The delay up to which plan `a` is no dearer than plan `b` at a size, in seconds: `Err(true)` if at every delay,
    /// `Err(false)` if at none.
    ///
    /// # Errors
    /// See above: there is no such delay.
    pub fn break_even(&self, a: usize, b: usize, bytes: &BigRational) -> Result<BigRational, bool> {
        let [a, b] = [a, b].map(|index| &self.plans[index].price);
        let zero = BigRational::zero();
        let gain = b.at(bytes, &zero) - a.at(bytes, &zero);
        let more = &a.per_delay - &b.per_delay;
        if more.is_positive() && !gain.is_negative() {
            return Ok(gain / more);
        }
        Err(!more.is_positive() && !gain.is_negative())
    }
}

fn refuse(message: impl Into<String>, help: &str) -> Failure {
    Failure::Input(vec![Diagnostic::error("X024", message).help(help)])
}

/// Finds the rule for the job's collective on its topology.
///
/// # Errors
/// [`Failure`]: a job without circuits or phases, a schedule that is not right.
pub fn thresholds(loaded: &Loaded, question: &Question) -> Result<Thresholds, Failure> {
    let job = &loaded.job;
    let phases = match job.collective.kind {
        CollectiveChoice::AllReduce => Phases::Both,
        CollectiveChoice::ReduceScatter => Phases::Scatter,
        CollectiveChoice::AllGather => Phases::Gather,
        _ => {
            return Err(refuse(
                "this collective has no thresholds",
                "thresholds belong to reduce_scatter, all_gather and all_reduce",
            ));
        }
    };
    let problem = build_problem_for(job, &loaded.fabric, question.sizes.1).map_err(Failure::Input)?;
    let devices = problem.topology().devices();
    let Some(first) = devices.first() else {
        return Err(refuse("the topology has no circuits", "take kind = \"optical-ring\", or add [[topology.device]]"));
    };
    if devices.iter().any(|device| device.reconfiguration_delay != first.reconfiguration_delay) {
        return Err(refuse(
            "the devices take different times to change",
            "one delay for all is what thresholds are about",
        ));
    }
    if problem.cost().overlap_reconfiguration {
        return Err(refuse(
            "with overlapping changes, prices have no thresholds that are straight lines",
            "leave overlap_reconfiguration out of [cost], or compile for the sizes that matter",
        ));
    }
    let n = u32::try_from(problem.rank_count()).unwrap_or(u32::MAX);
    if !n.is_power_of_two() || n < 2 {
        return Err(refuse(format!("{n} ranks are no power of two"), "take 2, 4, 8, … ranks"));
    }
    let delay = first.reconfiguration_delay.plus(problem.cost().synchronisation);
    let restore = job.compile.circuits.restore;
    let built = n <= MOST_BUILT;
    let plans = if built {
        built_plans(loaded, question, n, delay)?
    } else {
        closed_plans(loaded, question, n, phases, restore)?
    };
    let seconds = |delay: Delay| delay.time().seconds().clone();
    let whole = |bytes: Bytes| BigRational::from_integer(BigInt::from(bytes.0));
    let at_delay = |price: &Affine| Line {
        fixed: &price.constant + &price.per_delay * seconds(delay),
        per_byte: price.per_byte.clone(),
    };
    let lines: Vec<Line> = plans.iter().map(|plan| at_delay(&plan.price)).collect();
    let pieces = lower_envelope(&lines, question.sizes.0.0, question.sizes.1.0, job.collective.dtype.bytes());
    let prices: Vec<Affine> = plans.iter().map(|plan| plan.price.clone()).collect();
    let region = Region {
        bytes: (whole(question.sizes.0), whole(question.sizes.1)),
        delay: (seconds(question.delays.0), seconds(question.delays.1)),
    };
    let options = SmtOptions::default();
    let mut rule = short_rule(plans.len());
    let (mut answer, mut how) = prove(&prices, &rule, &region, &options);
    // The short rule is taken only with a proof; the full one needs none to be right.
    if answer != Answer::Proved {
        rule = full_rule(plans.len());
        (answer, how) = prove(&prices, &rule, &region, &options);
    }
    let certificate = certificate(&prices, &rule, &region).0;
    Ok(Thresholds { plans, delay, pieces, rule, built, answer, how, certificate })
}

/// In O(log n): the first T that is no dearer than T + 1, than T = L, and than Ring.
fn short_rule(plans: usize) -> Rule {
    let (last, ring) = (plans - 2, plans - 1);
    let entry = |choice: usize| {
        let mut rivals = vec![choice + 1, last, ring];
        rivals.retain(|&rival| rival != choice);
        rivals.dedup();
        Entry { conditions: rivals.into_iter().map(|rival| (choice, rival)).collect(), choice }
    };
    let mut entries: Vec<Entry> = (0..last).map(entry).collect();
    entries.push(Entry { conditions: vec![(last, ring)], choice: last });
    entries.push(Entry { conditions: Vec::new(), choice: ring });
    Rule { entries }
}

/// Everything against everything.
fn full_rule(plans: usize) -> Rule {
    let entry = |choice: usize| {
        let rivals = (0..plans).filter(|&rival| rival != choice);
        Entry { conditions: rivals.map(|rival| (choice, rival)).collect(), choice }
    };
    Rule { entries: (0..plans).map(entry).collect() }
}

/// Prices of schedules that the verifier has passed.
fn built_plans(loaded: &Loaded, question: &Question, n: u32, delay: Delay) -> Result<Vec<Plan>, Failure> {
    let job = &loaded.job;
    let problem = Arc::new(build_problem_for(job, &loaded.fabric, question.sizes.1).map_err(Failure::Input)?);
    let proof = Proof { smt: false, ..Proof::default() };
    let plan = |algorithm: &str, rule: CircuitRule| -> Result<(Schedule, Affine, u32), Failure> {
        let circuits = CircuitOptions { rule, restore: job.compile.circuits.restore };
        let cx = BuildContext { circuits, ..BuildContext::new(&problem, &loaded.fabric) };
        let schedule = build(algorithm, &cx).map_err(|error| Failure::Input(vec![error.to_diagnostic()]))?;
        let (plan, ..) = judge(&problem, schedule, &proof)?;
        let schedule = plan.value().clone();
        let line = price_line(job, loaded, &problem, &schedule)?;
        let changes = Summary::of(&problem, &schedule).map_or(0, |summary| summary.changes);
        let per_delay = BigRational::from_integer(BigInt::from(changes));
        let constant = line.fixed - &per_delay * delay.time().seconds();
        let changes = u32::try_from(changes).unwrap_or(u32::MAX);
        Ok((schedule, Affine { constant, per_byte: line.per_byte, per_delay }, changes))
    };
    let mut plans = Vec::new();
    for threshold in 1..=n.ilog2() {
        let (_, price, changes) = plan(question.pairing.name(), CircuitRule::Threshold(threshold))?;
        plans.push(Plan { name: format!("T = {threshold}"), threshold: Some(threshold), changes, price });
    }
    let (_, price, changes) = plan("ring", CircuitRule::PerStep)?;
    plans.push(Plan { name: "ring".to_owned(), threshold: None, changes, price });
    Ok(plans)
}

/// Prices by the closed forms of a ring.
fn closed_plans(
    loaded: &Loaded,
    question: &Question,
    n: u32,
    phases: Phases,
    restore: bool,
) -> Result<Vec<Plan>, Failure> {
    let only = "plans for more ranks are priced by closed forms, which are for one optical ring, design \"fixed\"";
    let one_ring = matches!(&loaded.fabric.shape, Shape::Optical { sides } if sides.len() == 1);
    let topology = &loaded.fabric.topology;
    let cabled = topology.links().len() == n as usize && topology.devices().len() == 1;
    let (Some(link), true, true) = (topology.links().first(), one_ring, cabled) else {
        return Err(refuse(format!("{n} ranks are more than {MOST_BUILT}"), only));
    };
    let route = loaded.fabric.router.route(NodeId::new(0), NodeId::new(1));
    let hop = route.and_then(|route| route.parts.first()?.hops.first().copied()).unwrap_or(Hop::Link(0_u32.into()));
    let cost = &loaded.job.cost;
    if !cost.reduce_cost.is_zero() && phases != Phases::Gather {
        return Err(refuse(
            "closed forms have no cost of reduction",
            "write reduce_cost = \"0 s/B\" in [cost], as \"Shortcut\" does, or ask for fewer ranks",
        ));
    }
    let price = |bytes: BigRational, delay: BigRational, threshold: Option<u32>| {
        let model = Model {
            hop_delay: topology.hop_latency(hop).time().seconds().clone(),
            startup: cost.startup.time().seconds().clone(),
            per_byte: BigRational::new(BigInt::one(), BigInt::from(link.capacity.bytes_per_second())),
            reconfiguration: delay,
        };
        let steps = n.ilog2();
        match threshold {
            Some(t) => {
                let thresholds = (t, steps - t);
                model.charged(question.pairing, Arcs::Both, n.into(), &bytes, phases, thresholds, restore)
            }
            None => {
                let twice = if phases == Phases::Both { 2 } else { 1 };
                (model.ring(n.into(), &bytes) * BigRational::from_integer(BigInt::from(twice)), 0)
            }
        }
    };
    let plan = |threshold: Option<u32>| {
        let (zero, one) = (BigRational::zero, BigRational::one);
        let (constant, changes) = price(zero(), zero(), threshold);
        let per_byte = price(one(), zero(), threshold).0 - &constant;
        let per_delay = BigRational::from_integer(BigInt::from(changes));
        let name = threshold.map_or_else(|| "ring".to_owned(), |t| format!("T = {t}"));
        Plan { name, threshold, changes, price: Affine { constant, per_byte, per_delay } }
    };
    Ok((1..=n.ilog2()).map(Some).chain([None]).map(plan).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::pipeline::load_job;

    fn job(nodes: u32, kind: &str) -> Loaded {
        let text = format!(
            "[topology]\nkind = \"optical-ring\"\nnodes = {nodes}\nbandwidth = \"800 Gbps\"\nlatency = \"2 us\"\n\
             reconfiguration_delay = \"4 us\"\n\n[collective]\nkind = \"{kind}\"\nbuffer_size = \"32 kB\"\n\n\
             [cost]\nreduce_cost = \"0 s/B\"\nstartup = \"700 ns\"\n"
        );
        load_job("job.toml", text.as_bytes(), Path::new(".")).unwrap()
    }

    fn question(pairing: Pairing) -> Question {
        Question {
            pairing,
            sizes: (Bytes(4096), Bytes(1 << 30)),
            delays: (Delay::from_nanoseconds(100), Delay::from_nanoseconds(40_000)),
        }
    }

    #[test]
    fn prices_of_verified_schedules_are_the_closed_forms() {
        for pairing in Pairing::ALL {
            for (kind, phases) in
                [("reduce_scatter", Phases::Scatter), ("all_gather", Phases::Gather), ("all_reduce", Phases::Both)]
            {
                for nodes in [8, 32] {
                    let (loaded, question) = (job(nodes, kind), question(pairing));
                    let delay = Delay::from_nanoseconds(4_000);
                    let built = built_plans(&loaded, &question, nodes, delay).unwrap();
                    assert_eq!(
                        built,
                        closed_plans(&loaded, &question, nodes, phases, false).unwrap(),
                        "{kind} {nodes}"
                    );
                }
            }
        }
    }

    #[test]
    fn table_and_rule_agree_with_brute_force() {
        for (pairing, kind, nodes) in [
            (Pairing::Doubling, "reduce_scatter", 32),
            (Pairing::Swing, "all_reduce", 16),
            (Pairing::Doubling, "all_reduce", 4096),
        ] {
            let found = thresholds(&job(nodes, kind), &question(pairing)).unwrap();
            if cfg!(feature = "smt") {
                assert_eq!(found.answer, Answer::Proved, "{}", found.how);
            }
            let prices: Vec<Affine> = found.plans.iter().map(|plan| plan.price.clone()).collect();
            let mut size = 4096_u64;
            while size <= 1 << 30 {
                let bytes = BigRational::from_integer(BigInt::from(size));
                for nanoseconds in [100, 777, 4_000, 11_111, 40_000] {
                    let delay = Delay::from_nanoseconds(nanoseconds).time().seconds().clone();
                    let least = prices.iter().map(|price| price.at(&bytes, &delay)).min();
                    let taken = found.rule.choose(&prices, &bytes, &delay).unwrap();
                    assert_eq!(Some(prices[taken].at(&bytes, &delay)), least, "{size} {nanoseconds}");
                }
                let piece = found.pieces.iter().find(|piece| piece.from <= size && size <= piece.to).unwrap();
                let delay = found.delay.time().seconds().clone();
                let least = prices.iter().map(|price| price.at(&bytes, &delay)).min();
                assert_eq!(Some(prices[piece.line].at(&bytes, &delay)), least, "{size}");
                size = size / 4 * 5 / 4 * 4;
            }
        }
    }

    /// models.md 14: δ ≤ (n−1−L)/(L−1)·(α_p + α_s), for every size.
    #[test]
    fn the_break_even_delay_with_ring_is_free_of_size() {
        let found = thresholds(&job(32, "reduce_scatter"), &question(Pairing::Doubling)).unwrap();
        let expected = BigRational::new(BigInt::from(65 * 27), BigInt::from(100)) / BigInt::from(1_000_000);
        for size in [4096, 1 << 20, 1 << 30] {
            let bytes = BigRational::from_integer(BigInt::from(size));
            assert_eq!(found.break_even(0, found.plans.len() - 1, &bytes), Ok(expected.clone()));
        }
    }
}
