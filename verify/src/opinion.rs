//! The second opinion: the SMT proof beside the exact checker, and what happens if they disagree.

use rondo_ir::diagnostic::{CodeEntry, Diagnostic};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;

use crate::smt::{SmtOptions, SmtReport, prove_completes};
use crate::{Answer, Check};

/// Whether the SMT proof runs, and whether the verdict rests on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SmtMode {
    /// It does not run.
    Off,
    /// It runs within its limits and is reported; unfinished, it leaves the verdict standing.
    #[default]
    Auto,
    /// It decides too: unfinished, the verdict is unknown.
    Required,
}

pub(crate) const DISAGREE: &str = "V900";
pub(crate) const REFUTED: &str = "V901";

/// The codes of this file.
pub(crate) const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: DISAGREE,
        title: "exact checker and SMT proof disagree",
        explanation: "The exact checker and the SMT proof read the flows, or the instructions, by code of their own, and came to \
                      opposite answers. One of them is wrong, so neither is believed and the verdict is unknown. This is a \
                      fault of Rondo, not of the plan: please report it together with the plan and the problem.",
    },
    CodeEntry {
        code: REFUTED,
        title: "the SMT proof found a counterexample",
        explanation: "The exact checker could not finish within its limits, but the SMT proof found a place that does not hold \
                      its postcondition. The message names the place and a contribution that is missing or counted too often; \
                      with that input 1 and all others 0 the wrong result can be seen. Add the missing flow or remove the \
                      surplus one. For a program the message says which check was undecided and what refutes it.",
    },
];

/// Checks whose meaning the SMT proof shares.
const SHARED: [&str; 3] = ["no-conflict", "no-undefined-read", "completes"];

/// Runs the proof and adds its check; see [`compare`].
pub(crate) fn add(
    problem: &Problem,
    schedule: &Schedule,
    mode: SmtMode,
    options: &SmtOptions,
    checks: &mut Vec<Check>,
    findings: &mut Vec<Diagnostic>,
) {
    if mode == SmtMode::Off {
        return;
    }
    let well_formed = checks.iter().any(|check| check.name == "well-formed" && check.answer == Answer::Proved);
    if !well_formed {
        let detail = "not run: the schedule is not well formed".to_owned();
        let decides = mode == SmtMode::Required;
        checks.push(Check { name: "smt-completes", answer: Answer::Unknown, decides, detail });
        return;
    }
    compare(prove_completes(problem, schedule, options), mode, checks, findings);
}

/// Adds the check `smt-completes`. A counterexample counts even where the exact checker could not finish. If one engine proved what the other refuted, both answers become unknown, and a
/// finding says so: never a verdict.
pub(crate) fn compare(report: SmtReport, mode: SmtMode, checks: &mut Vec<Check>, findings: &mut Vec<Diagnostic>) {
    let exact = |answer: Answer, all: bool, checks: &[Check]| {
        let mut shared = checks.iter().filter(|check| SHARED.contains(&check.name)).map(|check| check.answer == answer);
        if all { shared.all(|is| is) } else { shared.any(|is| is) }
    };
    let exact_proved = exact(Answer::Proved, true, checks);
    // Where the order of flows is explicit, conflicts are about orders that the proof does not look at.
    let ordered = checks.iter().any(|check| check.name == "ordered");
    let exact_refuted = if ordered {
        checks.iter().any(|check| check.name == "completes" && check.answer == Answer::Refuted)
    } else {
        exact(Answer::Refuted, false, checks)
    };
    let disagree = match report.answer {
        Answer::Proved => exact_refuted,
        Answer::Refuted => exact_proved,
        Answer::Unknown => false,
    };
    let decides = mode == SmtMode::Required;
    let mut detail = format!("{}: {}", report.solver, report.detail);
    let mut answer = report.answer;
    if disagree {
        let (exact_says, smt_says) = if exact_proved { ("proves", "refutes") } else { ("refutes", "proves") };
        let message = format!("the exact checker {exact_says} the schedule, but the SMT proof {smt_says} it");
        findings.push(
            Diagnostic::error(DISAGREE, message)
                .note(detail.clone())
                .help("this is a fault of Rondo: please report it with the schedule and the problem"),
        );
        for check in checks.iter_mut().filter(|check| SHARED.contains(&check.name)) {
            check.answer = Answer::Unknown;
            check.detail = format!("disagrees with the SMT proof (internal error); said: {}", check.detail);
        }
        detail = format!("disagrees with the exact checker (internal error); said: {detail}");
        answer = Answer::Unknown;
    }
    let exact_silent = !checks.iter().any(|check| check.answer == Answer::Refuted);
    if answer == Answer::Refuted && exact_silent {
        findings.push(Diagnostic::error(REFUTED, report.detail));
    }
    checks.push(Check { name: "smt-completes", answer, decides: decides || disagree, detail });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::smt::fixtures::{all_reduce_problem, ring_all_reduce};
    use crate::{Options, verify_schedule};

    #[test]
    fn an_unfinished_proof_counts_only_where_it_is_required() {
        for (mode, answer) in
            [(SmtMode::Off, Answer::Proved), (SmtMode::Auto, Answer::Proved), (SmtMode::Required, Answer::Unknown)]
        {
            let problem = all_reduce_problem(4);
            let schedule = ring_all_reduce(&problem, 2);
            // One of four components is proved.
            let smt_options = SmtOptions { max_ranks: 2, chosen_chunks: 1, ..SmtOptions::default() };
            let options = Options { smt: mode, smt_options, ..Options::default() };
            let outcome = verify_schedule(Arc::new(problem), schedule, &options);
            assert_eq!(outcome.answer(), answer, "{mode:?} {:?}", outcome.checks);
            let runs = outcome.checks.iter().any(|check| check.name == "smt-completes");
            assert_eq!(runs, mode != SmtMode::Off);
        }
    }

    #[test]
    fn a_malformed_schedule_is_not_given_to_the_solver() {
        let problem = all_reduce_problem(3);
        let mut schedule = ring_all_reduce(&problem, 1);
        schedule.chunks = vec![];
        let outcome = verify_schedule(Arc::new(problem), schedule, &Options::default());
        assert_eq!(outcome.answer(), Answer::Refuted);
        assert_eq!(outcome.checks.last().unwrap().detail, "not run: the schedule is not well formed");
    }
}

/// Each engine with a defect of its own.
#[cfg(test)]
#[cfg(feature = "smt")]
mod seeded {
    use std::sync::Arc;

    use rondo_ir::schedule::{FlowOp, FlowSet};

    use super::*;
    use crate::replay;
    use crate::schedule::judge;
    use crate::smt::fixtures::{all_reduce_problem, ring_all_reduce};
    use crate::smt::{Defect, prove_with_defect};
    use crate::{About, Options, Outcome, verify_schedule};

    /// What the engines make of a ring all_reduce, each with a defect of its own.
    fn outcome(exact: Defect, smt: Defect) -> Outcome<()> {
        let problem = all_reduce_problem(4);
        let schedule = ring_all_reduce(&problem, 2);
        let (mut checks, mut findings) =
            replay::seeded::with(exact, || judge(&problem, &schedule, &Options::default()));
        let report = prove_with_defect(&problem, &schedule, &SmtOptions::default(), smt);
        compare(report, SmtMode::Auto, &mut checks, &mut findings);
        Outcome::conclude(checks, findings, About::Problem(Arc::new(problem)), ())
    }

    /// The schedule that an engine with the defect would make of a right one.
    fn misread(schedule: &Schedule, defect: Defect) -> Schedule {
        let mut schedule = schedule.clone();
        let rows = |step: &mut rondo_ir::schedule::Step| match &mut step.flows {
            FlowSet::Rows(rows) => std::mem::take(rows),
            FlowSet::Orbits { .. } => panic!("rows"),
        };
        match defect {
            Defect::None => {}
            Defect::DropReduce => {
                let mut first = rows(&mut schedule.steps[0]);
                let at = first.iter().position(|flow| flow.op == FlowOp::Reduce).unwrap();
                first.remove(at);
                schedule.steps[0].flows = FlowSet::Rows(first);
            }
            Defect::WriteLate => {
                let mut late = rows(&mut schedule.steps[0]);
                late.extend(rows(&mut schedule.steps[1]));
                schedule.steps[1].flows = FlowSet::Rows(late);
            }
            Defect::IgnoreCount => {
                for step in &mut schedule.steps {
                    let mut flows = rows(step);
                    for flow in &mut flows {
                        flow.count = 1;
                    }
                    step.flows = FlowSet::Rows(flows);
                }
            }
        }
        schedule
    }

    const DEFECTS: [Defect; 3] = [Defect::DropReduce, Defect::WriteLate, Defect::IgnoreCount];

    #[test]
    fn a_defect_in_either_engine_surfaces_as_a_disagreement() {
        assert_eq!(outcome(Defect::None, Defect::None).answer(), Answer::Proved);
        for defect in DEFECTS {
            for (exact, smt) in [(defect, Defect::None), (Defect::None, defect)] {
                let outcome = outcome(exact, smt);
                assert_eq!(outcome.answer(), Answer::Unknown, "{exact:?} {smt:?} {:?}", outcome.checks);
                assert!(outcome.verified.is_none());
                let found = outcome.findings.iter().find(|finding| finding.code == DISAGREE).expect("V900");
                let proves = if exact == Defect::None { "proves" } else { "refutes" };
                assert!(found.message.starts_with(&format!("the exact checker {proves}")), "{}", found.message);
            }
        }
    }

    #[test]
    fn a_wrong_schedule_is_refuted_by_both() {
        for defect in DEFECTS {
            let problem = all_reduce_problem(4);
            let wrong = misread(&ring_all_reduce(&problem, 2), defect);
            let outcome = verify_schedule(Arc::new(problem), wrong, &Options::default());
            assert_eq!(outcome.answer(), Answer::Refuted, "{defect:?}");
            let smt = outcome.checks.last().unwrap();
            assert_eq!((smt.name, smt.answer, smt.decides), ("smt-completes", Answer::Refuted, false), "{defect:?}");
            assert!(outcome.findings.iter().all(|finding| finding.code != DISAGREE));
        }
    }
}
