//! Verification of schedules: which checks there are, in which order, and what they rest on.

use std::sync::Arc;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{FlowSet, Schedule};

use crate::codes::Code;
use crate::findings::Findings;
use crate::opinion::SmtMode;
use crate::places::{Places, PlacesError};
use crate::smt::SmtOptions;
use crate::{About, Answer, Check, Outcome};
use crate::{dependencies, form, opinion, replay};

/// Limits of a verification. Reaching one gives `unknown`, never a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Findings listed for each check; those beyond are counted. At least one is listed.
    pub findings: usize,
    /// Places (slots of all ranks and groups) that may be numbered; at most 2³⁰.
    pub places: u64,
    /// Slots that flows may move, in all.
    pub transfers: u64,
    /// Bytes that the values of one component may need, for each thread; also those that the flows of orbits may need.
    pub memory: usize,
    /// Dependencies that may be followed to show that flows are ordered, in all.
    pub dependency_visits: u64,
    /// Whether the SMT proof runs as a second opinion, or decides too.
    pub smt: SmtMode,
    /// Limits of the SMT proof.
    pub smt_options: SmtOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            findings: 20,
            places: 1 << 28,
            transfers: 1 << 28,
            memory: 4 << 30,
            dependency_visits: 1 << 30,
            smt: SmtMode::default(),
            smt_options: SmtOptions::default(),
        }
    }
}

impl Options {
    /// Flows that a schedule with orbits may stand for: walking one holds them in a set of about 128 bytes each.
    pub(crate) fn orbit_flows(&self) -> usize {
        usize::try_from(self.transfers).unwrap_or(usize::MAX).min(self.memory / 128)
    }
}

/// `Err` with the limit if the schedule's orbits stand for so many flows that walking them is refused.
pub(crate) fn orbits_fit(schedule: &Schedule, options: &Options) -> Result<(), usize> {
    let limit = options.orbit_flows();
    let walked = schedule.steps.iter().any(|step| matches!(step.flows, FlowSet::Orbits { .. }));
    if walked && schedule.flow_count_at_most(limit).is_none() { Err(limit) } else { Ok(()) }
}

/// Verifies a schedule against its problem: form, circuits, order, conflicts, definedness, and that the postcondition holds
/// exactly.
///
/// # Checks
/// `well-formed` and `circuits` (see `form.rs`); `ordered`, if the schedule has explicit dependencies (see
/// `dependencies.rs`); `no-conflict`, `no-undefined-read` and `completes` (see `replay/mod.rs`). All of them decide.
/// Last comes `smt-completes`, an independent second opinion (see [`crate::smt`]), which decides only if it is required. If it
/// contradicts the exact checks, that is an internal error: all of them become unknown, and `V900` says so.
/// A check that others made meaningless is [`Answer::Unknown`] and says so.
///
/// # Complexity
/// Near-linear in the slots that flows move, plus one word operation for 64 contributions of a value that is added.
#[must_use]
pub fn verify_schedule(problem: Arc<Problem>, schedule: Schedule, options: &Options) -> Outcome<Schedule> {
    let (mut checks, mut findings) = judge(&problem, &schedule, options);
    opinion::add(&problem, &schedule, options.smt, &options.smt_options, &mut checks, &mut findings);
    Outcome::conclude(checks, findings, About::Problem(problem), schedule)
}

struct Report {
    checks: Vec<Check>,
    findings: Vec<Diagnostic>,
}

impl Report {
    fn add(&mut self, name: &'static str, answer: Answer, detail: impl Into<String>) {
        self.checks.push(Check { name, answer, decides: true, detail: detail.into() });
    }

    /// A check that is refuted if it found something, and else what `rest` says.
    fn conclude(&mut self, name: &'static str, found: Findings, rest: Result<String, String>) {
        let count = found.count();
        if count != 0 {
            self.add(name, Answer::Refuted, format!("{count} finding{}", if count == 1 { "" } else { "s" }));
        } else {
            match rest {
                Ok(detail) => self.add(name, Answer::Proved, detail),
                Err(why) => self.add(name, Answer::Unknown, why),
            }
        }
        self.findings.extend(found.into_list());
    }
}

const LATER: [&str; 3] = ["no-conflict", "no-undefined-read", "completes"];

/// All checks and findings.
pub(crate) fn judge(problem: &Problem, schedule: &Schedule, options: &Options) -> (Vec<Check>, Vec<Diagnostic>) {
    let mut report = Report { checks: Vec::new(), findings: Vec::new() };
    let ordered = schedule.dependencies.is_some();
    let not_run = |report: &mut Report, why: &str| {
        for name in ordered.then_some("ordered").into_iter().chain(LATER) {
            report.add(name, Answer::Unknown, format!("not run: {why}"));
        }
    };
    let places = match Places::new(problem, schedule, options.places) {
        Ok(places) => places,
        Err(PlacesError::Shape(message)) => {
            let mut found = Findings::new(1);
            found.add(Diagnostic::error(Code::Tables.as_str(), message));
            report.conclude("well-formed", found, Ok(String::new()));
            report.add("circuits", Answer::Unknown, "not run: the schedule is not well formed");
            not_run(&mut report, "the schedule is not well formed");
            return (report.checks, report.findings);
        }
        Err(PlacesError::TooMany { given, limit }) => {
            let why = format!("the schedule has {given} or more places, but the limit is {limit}");
            report.add("well-formed", Answer::Unknown, why.clone());
            report.add("circuits", Answer::Unknown, "not run");
            not_run(&mut report, &why);
            return (report.checks, report.findings);
        }
    };
    if let Err(limit) = orbits_fit(schedule, options) {
        let why = format!("the orbits of the schedule stand for more than {limit} flows, which is the limit");
        report.add("well-formed", Answer::Unknown, why.clone());
        report.add("circuits", Answer::Unknown, "not run");
        not_run(&mut report, &why);
        return (report.checks, report.findings);
    }
    let found = form::check(problem, schedule, &places, options.findings);
    let well_formed = found.form.is_empty();
    let flows = found.flows;
    report.conclude("well-formed", found.form, Ok(format!("{flows} flows in {} steps", schedule.steps.len())));
    let changes = schedule.steps.iter().map(|step| step.reconfigure.len()).sum::<usize>();
    let circuits = if !well_formed {
        Err("not decided: the schedule is not well formed".to_owned())
    } else if ordered && changes != 0 {
        Err("circuits that change need barriers between steps, but the schedule has explicit dependencies".to_owned())
    } else if problem.topology().devices().is_empty() {
        Ok("the topology has no devices".to_owned())
    } else {
        Ok(format!("{} devices, {changes} changes", problem.topology().devices().len()))
    };
    report.conclude("circuits", found.circuits, circuits);
    if !well_formed {
        not_run(&mut report, "the schedule is not well formed");
        return (report.checks, report.findings);
    }
    let mut all_ordered = true;
    if let Some(given) = &schedule.dependencies {
        let order = dependencies::check(problem, schedule, &places, given, options);
        all_ordered = order.findings.is_empty() && order.undecided.is_none();
        let rest = match order.undecided {
            Some(why) => Err(why),
            None => Ok(format!("{} pairs of flows that touch one place", order.pairs)),
        };
        report.conclude("ordered", order.findings, rest);
    }
    let found = replay::replay(problem, schedule, &places, options);
    let rest = |what: String| match &found.undecided {
        // The flow pass is complete unless it was never run.
        Some(why) if found.transfers == 0 => Err(why.clone()),
        _ => Ok(what),
    };
    let conflicts = rest(format!("{} slot transfers", found.transfers));
    let undefined = rest(format!("{} slot transfers", found.transfers));
    let completes = match &found.undecided {
        Some(why) => Err(format!("not decided: {why}")),
        None if !all_ordered => Err("not decided: the order of flows is open".to_owned()),
        None => Ok(format!("exact symbolic execution of {} components", found.components)),
    };
    report.conclude(LATER[0], found.conflicts, conflicts);
    report.conclude(LATER[1], found.undefined, undefined);
    report.conclude(LATER[2], found.incomplete, completes);
    (report.checks, report.findings)
}
