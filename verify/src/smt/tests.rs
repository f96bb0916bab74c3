use rondo_ir::collective::{CollectiveKind, Contribution, CustomCollective, Place, ReduceOperator};
use rondo_ir::index::{FlowId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Dependencies, Flow, FlowOp, Path, PathKind, Schedule, Scratch, Step, Tree};

use super::fixtures::{problem, ring_all_reduce, send};
use super::*;

fn rows(schedule: &mut Schedule, step: usize) -> &mut Vec<Flow> {
    match &mut schedule.steps[step].flows {
        rondo_ir::schedule::FlowSet::Rows(rows) => rows,
        rondo_ir::schedule::FlowSet::Orbits { .. } => panic!("rows"),
    }
}

fn prove(problem: &Problem, schedule: &Schedule) -> SmtReport {
    let report = prove_completes(problem, schedule, &SmtOptions::default());
    assert_eq!(report.counterexample.is_some(), report.answer == Answer::Refuted, "{report:?}");
    report
}

/// What a proof must answer: with the feature it is `Proved`, without it `Unknown`.
const PROVED: Answer = if cfg!(feature = "smt") { Answer::Proved } else { Answer::Unknown };
/// What a wrong value must answer.
const WRONG: Answer = if cfg!(feature = "smt") { Answer::Refuted } else { Answer::Unknown };

#[test]
fn ring_all_reduce_is_proved_for_all_operators() {
    for operator in ReduceOperator::ALL {
        for n in [1, 2, 3, 8, 32] {
            let problem = problem(CollectiveKind::AllReduce, n, operator, true);
            let report = prove(&problem, &ring_all_reduce(&problem, 2));
            assert_eq!(report.answer, PROVED, "{operator} {n}: {report:?}");
            assert_eq!(report.all_places, u64::from(n * n * 2));
        }
    }
}

#[test]
fn a_dropped_flow_names_the_first_wrong_place_and_what_is_missing() {
    let problem = problem(CollectiveKind::AllReduce, 4, ReduceOperator::Sum, true);
    let mut schedule = ring_all_reduce(&problem, 1);
    // In step 0 rank 1 sends block 1 to rank 2: without it the contribution of rank 1 to block 1 is lost, but for rank 1
    // itself, whose block is then replaced by the incomplete sum that ends at rank 0.
    rows(&mut schedule, 0).remove(1);
    let report = prove(&problem, &schedule);
    assert_eq!(report.answer, WRONG, "{report:?}");
    if let Some(found) = report.counterexample {
        assert_eq!((found.rank, found.place), (RankId::new(0), Place::output(1)));
        let contribution = Contribution { origin: 1, slot: 1 };
        let SmtFault::Wrong { differences, model } = &found.fault else { panic!("{found:?}") };
        assert_eq!(differences.as_slice(), [(contribution, 0_u8.into(), 1)]);
        assert_eq!(model.as_slice(), [(contribution, 1)]);
        assert_eq!(
            found.to_string(),
            "r0.o[1] misses the contribution of position 1, input slot 1: with that input 1 and all others 0 it holds 0, not 1"
        );
    }
}

#[test]
fn a_contribution_counted_twice_is_wrong_for_sum_and_right_for_max() {
    for (operator, answer) in [
        (ReduceOperator::Sum, WRONG),
        (ReduceOperator::Prod, WRONG),
        (ReduceOperator::Avg, WRONG),
        (ReduceOperator::Max, PROVED),
        (ReduceOperator::Min, PROVED),
    ] {
        let problem = problem(CollectiveKind::AllReduce, 3, operator, true);
        let mut schedule = ring_all_reduce(&problem, 1);
        // Block 0 of rank 0 is what rank 1 gets in step 0; get it once more in step 1.
        let again = rows(&mut schedule, 0)[0];
        schedule.steps.insert(1, Step::new(vec![again]));
        let report = prove(&problem, &schedule);
        assert_eq!(report.answer, answer, "{operator}: {report:?}");
        if let Some(found) = report.counterexample {
            let SmtFault::Wrong { differences, .. } = &found.fault else { panic!("{found:?}") };
            assert_eq!(differences[0].1, 2_u8.into());
            assert!(found.to_string().contains("holds too often"), "{found}");
        }
    }
    // A missing contribution is wrong for max, too.
    let problem = problem(CollectiveKind::AllReduce, 3, ReduceOperator::Max, true);
    let mut schedule = ring_all_reduce(&problem, 1);
    rows(&mut schedule, 0).remove(0);
    assert_eq!(prove(&problem, &schedule).answer, WRONG);
}

#[test]
fn all_flows_of_a_step_read_the_state_before_it() {
    // Two ranks swap their blocks at once; one after the other would lose one.
    let targets = vec![Some(1), Some(0)];
    let problem = problem(CollectiveKind::SendReceive { targets }, 2, ReduceOperator::Sum, false);
    let mut schedule = Schedule::new("swap", &problem, vec![1]);
    schedule.scratch = vec![Scratch { like: vec![vec![(0, Place::input(0))]; 2] }];
    let copy = |r: u32| Flow::local(RankId::from(r), Place::input(0), Place::scratch(0), 1, FlowOp::Copy);
    let swap = vec![
        send(&mut schedule, &problem, (0, Place::scratch(0)), (1, Place::scratch(0)), 1, FlowOp::Copy),
        send(&mut schedule, &problem, (1, Place::scratch(0)), (0, Place::scratch(0)), 1, FlowOp::Copy),
    ];
    let out = |r: u32| Flow::local(RankId::from(r), Place::scratch(0), Place::output(0), 1, FlowOp::Copy);
    schedule.steps = vec![Step::new(vec![copy(0), copy(1)]), Step::new(swap.clone()), Step::new(vec![out(0), out(1)])];
    assert_eq!(prove(&problem, &schedule).answer, PROVED);
    // The same flows one after the other (explicit order): rank 1's block is overwritten before it is sent.
    schedule.dependencies =
        Some(Dependencies { pairs: (0..5).map(|f| (FlowId::new(f), FlowId::new(f + 1))).collect() });
    assert_eq!(prove(&problem, &schedule).answer, WRONG);
}

#[test]
fn undefined_reads_conflicts_and_read_only_inputs_are_refuted_by_place() {
    let problem = problem(CollectiveKind::AllGather, 2, ReduceOperator::Sum, false);
    let base = |flows: &dyn Fn(&mut Schedule) -> Vec<Vec<Flow>>| {
        let mut schedule = Schedule::new("test", &problem, vec![1]);
        schedule.steps = flows(&mut schedule).into_iter().map(Step::new).collect();
        prove(&problem, &schedule)
    };
    let own = |r: u32| Flow::local(RankId::from(r), Place::input(0), Place::output(r), 1, FlowOp::Copy);
    let good = |s: &mut Schedule| {
        vec![vec![
            own(0),
            own(1),
            send(s, &problem, (0, Place::input(0)), (1, Place::output(0)), 1, FlowOp::Copy),
            send(s, &problem, (1, Place::input(0)), (0, Place::output(1)), 1, FlowOp::Copy),
        ]]
    };
    assert_eq!(base(&good).answer, PROVED);
    let report = base(&|s: &mut Schedule| {
        let mut steps = good(s);
        steps[0][2].src_place = Place::output(0);
        steps
    });
    assert_eq!(report.answer, Answer::Refuted);
    assert_eq!(report.detail, "s0 f2 reads r0.o[0], which is undefined then");
    let report = base(&|s: &mut Schedule| {
        let mut steps = good(s);
        steps[0][2].op = FlowOp::Reduce;
        steps
    });
    assert_eq!(report.detail, "s0 f2 reduces into r1.o[0], which is undefined then");
    let report = base(&|s: &mut Schedule| {
        let mut steps = good(s);
        let twice = steps[0][2];
        steps[0].push(twice);
        steps
    });
    assert_eq!(report.detail, "f2 and f4 both write r1.o[0] in s0, and not both are reduces");
    let report = base(&|s: &mut Schedule| {
        let mut steps = good(s);
        steps[0][2].dst_place = Place::input(0);
        steps
    });
    assert_eq!(report.detail, "s0 f2 writes r1.i[0], an input that may not be overwritten");
    let report = base(&|s: &mut Schedule| {
        let mut steps = good(s);
        steps[0].pop();
        steps
    });
    assert_eq!(report.detail, "r0.o[1] is undefined at the end");
    // Not well formed: no answer, and no panic.
    for spoil in [
        |f: &mut Flow| f.count = 0,
        |f: &mut Flow| f.count = u32::MAX,
        |f: &mut Flow| f.dst = RankId::new(9),
        |f: &mut Flow| f.src_place = Place::scratch(0),
        |f: &mut Flow| f.group = rondo_ir::index::GroupId::new(3),
        |f: &mut Flow| f.path = Path::new(PathKind::Multicast(rondo_ir::index::TreeId::new(0))),
    ] {
        let report = base(&|s: &mut Schedule| {
            let mut steps = good(s);
            spoil(&mut steps[0][3]);
            steps
        });
        assert_eq!(report.answer, Answer::Unknown, "{report:?}");
    }
}

#[test]
fn multicast_and_aggregation_are_encoded() {
    let problem = problem(CollectiveKind::AllReduce, 3, ReduceOperator::Sum, true);
    let mut schedule = Schedule::new("in-network", &problem, vec![4]);
    let leaves: Vec<RankId> = (0..3).map(RankId::new).collect();
    let tree = schedule.paths.intern_tree(Tree { hops: Vec::new(), leaves: leaves[1..].to_vec() });
    let up = Flow {
        src: RankId::new(1),
        dst: RankId::new(0),
        src_place: Place::output(0),
        dst_place: Place::output(0),
        count: 4,
        path: Path::new(PathKind::Aggregate(tree)),
        group: rondo_ir::index::GroupId::new(0),
        op: FlowOp::Reduce,
    };
    let down = Flow {
        src: RankId::new(0),
        dst: RankId::new(1),
        path: Path::new(PathKind::Multicast(tree)),
        op: FlowOp::Copy,
        ..up
    };
    schedule.steps = vec![Step::new(vec![up]), Step::new(vec![down])];
    assert_eq!(prove(&problem, &schedule).answer, PROVED);
    // Without the way down, ranks 1 and 2 keep their own.
    schedule.steps.pop();
    let report = prove(&problem, &schedule);
    assert_eq!(report.answer, WRONG);
    if let Some(found) = report.counterexample {
        assert_eq!((found.rank, found.place), (RankId::new(1), Place::output(0)));
    }
}

#[test]
fn custom_conditions_count() {
    let c = |origin, slot| Contribution { origin, slot };
    // Rank 1 must hold 2·(0, 0) + (1, 0); rank 0's first slot is free, its second must hold its own.
    let custom = CustomCollective {
        input_slots: vec![1, 1],
        output: vec![vec![None, Some(vec![(c(0, 0), 1)])], vec![Some(vec![(c(0, 0), 2), (c(1, 0), 1)])]],
    };
    let problem = problem(CollectiveKind::Custom(custom), 2, ReduceOperator::Sum, false);
    let mut schedule = Schedule::new("custom", &problem, vec![3]);
    let local = |r: u32, to| Flow::local(RankId::from(r), Place::input(0), to, 3, FlowOp::Copy);
    let add = send(&mut schedule, &problem, (0, Place::input(0)), (1, Place::output(0)), 3, FlowOp::Reduce);
    schedule.steps =
        vec![Step::new(vec![local(0, Place::output(3)), local(1, Place::output(0))]), Step::new(vec![add, add])];
    let report = prove(&problem, &schedule);
    assert_eq!(report.answer, PROVED, "{report:?}");
    assert_eq!(report.all_places, 6);
    schedule.steps.pop();
    schedule.steps.push(Step::new(vec![add]));
    assert_eq!(prove(&problem, &schedule).answer, WRONG);
}

#[test]
fn above_the_limit_a_share_is_proved_and_the_answer_is_unknown() {
    let problem = problem(CollectiveKind::AllReduce, 8, ReduceOperator::Sum, true);
    let schedule = ring_all_reduce(&problem, 1);
    let options = SmtOptions { max_ranks: 4, chosen_chunks: 2, ..SmtOptions::default() };
    let report = prove_completes(&problem, &schedule, &options);
    assert_eq!(report.answer, Answer::Unknown);
    if cfg!(feature = "smt") {
        assert_eq!((report.proved_places, report.all_places), (16, 64));
        assert!(report.detail.contains("chose 2 of 8 components"), "{}", report.detail);
    }
    // A fault in a chosen component is found all the same.
    let mut wrong = schedule.clone();
    rows(&mut wrong, 0).remove(0);
    assert_eq!(prove_completes(&problem, &wrong, &options).answer, WRONG);
    let small = SmtOptions { max_transfers: 10, ..SmtOptions::default() };
    assert_eq!(prove_completes(&problem, &schedule, &small).answer, Answer::Unknown);
    let small = SmtOptions { max_terms: 10, ..SmtOptions::default() };
    assert_eq!(prove_completes(&problem, &schedule, &small).answer, Answer::Unknown);
}

fn text(problem: &Problem, schedule: &Schedule) -> (CertificateSummary, String) {
    let mut out = Vec::new();
    let summary = certificate(problem, schedule, &SmtOptions::default(), &mut out).unwrap();
    (summary, String::from_utf8(out).unwrap())
}

#[test]
fn a_certificate_says_all_that_another_solver_needs() {
    let problem = problem(CollectiveKind::AllReduce, 2, ReduceOperator::Sum, true);
    let (summary, text) = text(&problem, &ring_all_reduce(&problem, 1));
    assert_eq!(summary, CertificateSummary { queries: 1, places: 4, all_places: 4 });
    assert_eq!(
        text,
        "; every place holds its postcondition, for all inputs: each check-sat must answer unsat\n\
         ; collective: all_reduce sum, 2 ranks, 128 B float32, in place\n\
         ; algorithm: ring; steps: 2; queries: 1\n\
         ; x_P_S is the input slot S of position P; every t is the sum (max, min: the or) of two terms\n\
         (set-logic QF_LIA)\n\
         ; query 0: group 0, 4 places\n\
         (push 1)\n\
         (declare-fun x_0_0 () Int)\n\
         (declare-fun x_0_1 () Int)\n\
         (declare-fun x_1_0 () Int)\n\
         (declare-fun x_1_1 () Int)\n\
         (define-fun t4 () Int (+ x_0_1 x_1_1))\n\
         (define-fun t5 () Int (+ x_1_0 x_0_0))\n\
         (define-fun due0 () Int (+ x_0_0 x_1_0))\n\
         (define-fun due1 () Int (+ x_0_1 x_1_1))\n\
         (assert (or false\n  \
           (not (= t4 due1))\n  \
           (not (= t5 due0))))\n\
         (set-info :status unsat)\n\
         (check-sat)\n\
         (pop 1)\n"
    );
}

/// The text read back by the solver's own parser must be `unsat` for a right schedule and `sat` for a wrong one.
#[cfg(feature = "smt")]
#[test]
fn certificates_hold_when_parsed_again() {
    let check = |text: &str| -> Vec<z3::SatResult> {
        let body = text.replace("(set-logic QF_LIA)\n", "");
        body.split("(push 1)")
            .skip(1)
            .map(|query| {
                let solver = z3::Solver::new();
                let end = query.find("(check-sat)").unwrap();
                solver.from_string(&query[..end]);
                assert_eq!(solver.get_assertions().len(), 1);
                solver.check()
            })
            .collect()
    };
    for operator in [ReduceOperator::Sum, ReduceOperator::Max] {
        let problem = problem(CollectiveKind::AllReduce, 6, operator, true);
        let schedule = ring_all_reduce(&problem, 3);
        assert_eq!(check(&text(&problem, &schedule).1), [z3::SatResult::Unsat]);
        let mut wrong = schedule.clone();
        rows(&mut wrong, 2).remove(3);
        assert_eq!(check(&text(&problem, &wrong).1), [z3::SatResult::Sat]);
    }
}

#[cfg(feature = "smt")]
#[test]
fn a_small_budget_ends_unknown() {
    let problem = problem(CollectiveKind::AllReduce, 24, ReduceOperator::Max, true);
    let options = SmtOptions { rlimit: 1, ..SmtOptions::default() };
    // A right ring needs no search at all, a wrong one does.
    let mut wrong = ring_all_reduce(&problem, 1);
    rows(&mut wrong, 3).remove(5);
    let report = prove_completes(&problem, &wrong, &options);
    assert_eq!(report.answer, Answer::Unknown, "{report:?}");
    assert!(report.detail.contains("gave up"), "{}", report.detail);
}

#[cfg(feature = "smt")]
#[test]
fn each_defect_of_the_encoder_changes_the_answer() {
    let problem = problem(CollectiveKind::AllReduce, 4, ReduceOperator::Sum, true);
    let schedule = ring_all_reduce(&problem, 2);
    for (defect, answer) in [
        (Defect::None, Answer::Proved),
        (Defect::DropReduce, Answer::Refuted),
        (Defect::WriteLate, Answer::Refuted),
        (Defect::IgnoreCount, Answer::Refuted),
    ] {
        assert_eq!(prove_with_defect(&problem, &schedule, &SmtOptions::default(), defect).answer, answer, "{defect:?}");
    }
}
