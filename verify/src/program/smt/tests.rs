//! Both engines on good programs, seeded defects, choices of signals, and certificates. Random programs meet both in
//! `program::tests::random`.

use rondo_ir::collective::CollectiveKind;
use rondo_ir::program::{MoveOp, Program};

use super::{Defect, ProgramSmtOptions, program_certificate};
use crate::program::report::Findings;
use crate::program::tests::build::*;
use crate::program::{ProgramOptions, with_second_opinion};
use crate::smt::CertificateError;
use crate::{Answer, Check, Claim, SmtMode};

fn asked(
    claim: &Claim,
    program: &Program,
    defect: Defect,
    options: &ProgramOptions,
) -> (Vec<Check>, Vec<&'static str>) {
    let mut findings = Findings::new(8);
    let checks = with_second_opinion(claim, program, options, defect, &mut findings);
    (checks, findings.finish().iter().map(|finding| finding.diagnostic.code).collect())
}

fn auto() -> ProgramOptions {
    ProgramOptions { smt: SmtMode::Auto, ..ProgramOptions::default() }
}

fn answer(checks: &[Check], name: &str) -> Answer {
    checks.iter().find(|check| check.name == name).unwrap().answer
}

fn all_reduce(n: u32, chunks: u32) -> Claim {
    claim(CollectiveKind::AllReduce, n, true, chunks)
}

/// An exchange of two ranks, the reduce in a threadblock of its own.
fn exchange() -> Program {
    let rank =
        |me: u32| vec![vec![s(1 - me, o(0), 1), publish(r(1 - me, sc(0), 1))], vec![after(re(sc(0), o(0), 1), 0, 1)]];
    program(1, 1, 1, (0..2).map(rank).collect())
}

#[test]
#[cfg(feature = "smt")]
fn good_programs_are_proved_by_both() {
    for (claim, program) in [(all_reduce(2, 1), exchange()), (all_reduce(4, 4), ring(4, 2))] {
        let (checks, codes) = asked(&claim, &program, Defect::None, &auto());
        for name in ["no-deadlock", "smt-no-deadlock", "no-race", "smt-no-race", "completes", "smt-completes"] {
            assert_eq!(answer(&checks, name), Answer::Proved, "{name}: {checks:#?}");
        }
        assert!(codes.is_empty(), "{codes:?}");
    }
}

#[test]
#[cfg(feature = "smt")]
fn a_defect_of_the_encoder_surfaces_as_a_disagreement() {
    // Each rank sends two messages before it receives, with room for one: a deadlock that needs room to be seen.
    let stuck = program(
        1,
        1,
        2,
        (0..2)
            .map(|me| vec![vec![s(1 - me, o(0), 1), s(1 - me, o(0), 1), r(1 - me, sc(0), 1), r(1 - me, sc(1), 1)]])
            .collect(),
    );
    for (defect, program, name) in [
        (Defect::IgnoreDependency, exchange(), "no-race"),
        (Defect::IgnoreRoom, stuck, "no-deadlock"),
        (Defect::DropReduce, exchange(), "completes"),
    ] {
        let claim = all_reduce(2, 1);
        let (_, codes) = asked(&claim, &program, Defect::None, &auto());
        assert!(!codes.contains(&"V900"), "{codes:?}");
        let (checks, codes) = asked(&claim, &program, defect, &auto());
        assert!(codes.contains(&"V900"), "{defect:?}: {checks:#?}");
        let second = format!("smt-{name}");
        assert_eq!([answer(&checks, name), answer(&checks, &second)], [Answer::Unknown; 2], "{checks:#?}");
        assert!(checks.iter().find(|check| check.name == second).unwrap().decides);
    }
}

/// Rank 0 writes slots of rank 1 and signals; then a threadblock that waited for it signals too. Rank 1 waits for one signal of
/// the two and reads. Whichever signal it is, the writes are done; the rule of happens-before does not see it.
fn chosen(slots: u32, right: bool) -> (Claim, Program) {
    let mut writer: Vec<_> = (0..slots).map(|slot| put(i(slot), &[(1, sc(slot))], MoveOp::Copy, 1)).collect();
    writer.push(publish(signal(1, 0)));
    let last = writer.len() as u32 - 1;
    let mut other = vec![cpy(i(0), o(0), slots)];
    other.push(if right { after(signal(1, 0), 0, last) } else { signal(1, 0) });
    let mut reader = vec![wait(0, 1)];
    reader.extend((0..slots).map(|slot| cpy(sc(slot), o(slot), 1)));
    let claim = claim(CollectiveKind::Broadcast { root: 0 }, 2, false, slots);
    (claim, program(slots, 1, slots, vec![vec![writer, other], vec![reader]]))
}

#[test]
#[cfg(feature = "smt")]
fn a_choice_of_signals_is_decided() {
    for slots in [2, 300] {
        for right in [true, false] {
            let (claim, program) = chosen(slots, right);
            let exact = ProgramOptions::default();
            let (checks, codes) = asked(&claim, &program, Defect::None, &exact);
            // More pairs than are tried stay open.
            let open = slots == 300 && right;
            assert_eq!(codes.contains(&"V121"), slots == 300, "{codes:?}");
            assert_eq!(answer(&checks, "no-race") == Answer::Unknown, open, "{checks:#?}");
            let (checks, codes) = asked(&claim, &program, Defect::None, &auto());
            let due = if right { Answer::Proved } else { Answer::Refuted };
            assert_eq!(answer(&checks, "smt-no-race"), due, "{checks:#?}");
            assert_eq!(answer(&checks, "no-race"), due, "{checks:#?}");
            assert_eq!(answer(&checks, "completes") == Answer::Proved, right, "{checks:#?}");
            assert!(!codes.contains(&"V121") && !codes.contains(&"V900"), "{codes:?}");
            assert_eq!(codes.contains(&"V117"), !right, "{codes:?}");
        }
    }
}

#[test]
fn what_is_too_large_is_not_asked() {
    let small = |max_events, max_conflicts| ProgramOptions {
        smt_options: ProgramSmtOptions { max_events, max_conflicts, ..ProgramSmtOptions::default() },
        smt: SmtMode::Required,
        ..auto()
    };
    let (checks, _) = asked(&all_reduce(2, 1), &exchange(), Defect::None, &small(5, 100));
    for name in ["smt-no-deadlock", "smt-no-race", "smt-completes"] {
        let check = checks.iter().find(|check| check.name == name).unwrap();
        let detail = "not run: the program has more than 5 events, which is the limit";
        assert_eq!((check.answer, check.decides, check.detail.as_str()), (Answer::Unknown, true, detail));
    }
    let (checks, _) = asked(&all_reduce(2, 1), &exchange(), Defect::None, &small(6, 1));
    assert_eq!(answer(&checks, "smt-no-race"), Answer::Unknown);
    // With choices the solver has to search, which has a limit of its own.
    let (claim, program) = chosen(300, true);
    let mut options = auto();
    options.smt_options.max_chosen_events = 600;
    let (checks, codes) = asked(&claim, &program, Defect::None, &options);
    assert_eq!([answer(&checks, "smt-no-race"), answer(&checks, "no-race")], [Answer::Unknown; 2], "{checks:#?}");
    assert!(codes.contains(&"V121"), "{codes:?}");
}

fn certified(claim: &Claim, program: &Program) -> (usize, String) {
    let mut out = Vec::new();
    let certificate = program_certificate(claim, program, &ProgramOptions::default(), &mut out).unwrap();
    (certificate.queries, String::from_utf8(out).unwrap())
}

#[test]
fn certificates_say_what_each_answer_must_be() {
    let statuses = |text: &str| -> Vec<String> {
        let of = |line: &str| line.strip_prefix("(set-info :status ").map(|rest| rest.trim_end_matches(')').to_owned());
        text.lines().filter_map(of).collect()
    };
    let (queries, text) = certified(&all_reduce(2, 1), &exchange());
    assert_eq!(statuses(&text), ["sat", "unsat", "unsat"]);
    assert_eq!(text.matches("(check-sat)").count(), queries);
    assert_eq!(text.matches("(push 1)").count(), text.matches("(pop 1)").count());

    let (claim, wrong) = chosen(3, false);
    let (_, text) = certified(&claim, &wrong);
    assert_eq!(statuses(&text), ["sat", "sat"], "{text}");
    assert!(text.contains("; left out: completes: runs differ"), "{text}");

    let mut cyclic = exchange();
    for rank in &mut cyclic.ranks {
        rank.threadblocks[0].operations.swap(0, 1);
        rank.threadblocks[1].operations[0].waits_for[0].operation = 0;
    }
    let (_, text) = certified(&all_reduce(2, 1), &cyclic);
    assert_eq!(statuses(&text), ["unsat"], "{text}");

    let mut malformed = exchange();
    malformed.ranks[0].threadblocks[0].operations.pop();
    let refused = program_certificate(&all_reduce(2, 1), &malformed, &ProgramOptions::default(), &mut Vec::new());
    assert!(matches!(refused, Err(CertificateError::Refused { .. })));
}
