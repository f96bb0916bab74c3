//! Both engines on good programs, seeded defects, signals of several threads, and certificates. Plans and their mutants meet both
//! in `tests/mscclpp`, which also asks for no disagreement.

#![cfg_attr(not(feature = "smt"), allow(dead_code))]

use rondo_ir::collective::{
    Collective, CollectiveKind, CollectiveSpec, CustomCollective, DataType, Place, ReduceOperator,
};
use rondo_ir::index::RankId;
use rondo_ir::onesided::{
    Counter, Elements, OneSidedKind, OneSidedOperation, OneSidedProgram, OneSidedRank, OneSidedThreadblock, Site,
    Transfer,
};
use rondo_ir::program::SourceSpan;
use rondo_ir::units::Bytes;

use super::super::{OneSidedOptions, with_second_opinion};
use super::{Defect, onesided_certificate};
use crate::program::{Findings, ProgramSmtOptions};
use crate::smt::CertificateError;
use crate::{Answer, Check, Claim, SmtMode};

pub(super) fn sync() -> OneSidedKind {
    OneSidedKind::Sync
}

pub(super) fn signal(counter: u32) -> OneSidedKind {
    OneSidedKind::Signal { counters: vec![counter], relaxed: false }
}

pub(super) fn wait(counter: u32) -> OneSidedKind {
    OneSidedKind::Wait { counters: vec![counter], relaxed: false }
}

pub(super) fn site(rank: u32, place: Place) -> Site {
    Site { rank: RankId::from(rank), place, packet: false }
}

pub(super) fn moves(sources: Vec<Site>, target: Site, count: u32) -> OneSidedKind {
    let elements = if sources.len() == 1 { Elements::Copy } else { Elements::Sum };
    OneSidedKind::Move { transfers: vec![Transfer { sources, targets: vec![target], count }], elements }
}

/// By rank and threadblock.
pub(super) fn program(scratch: u32, counters: usize, ranks: Vec<Vec<Vec<OneSidedKind>>>) -> OneSidedProgram {
    let threadblock = |kinds: Vec<OneSidedKind>| OneSidedThreadblock {
        operations: (0_u32..)
            .zip(kinds)
            .map(|(number, kind)| OneSidedOperation { kind, number: (number, None), span: SourceSpan::default() })
            .collect(),
        span: SourceSpan::default(),
    };
    OneSidedProgram {
        name: "sample".to_owned(),
        chunks: 1,
        slots_per_chunk: 1,
        scratch_halves: 1,
        ranks: ranks
            .into_iter()
            .map(|tbs| OneSidedRank {
                scratch_slots: scratch,
                threadblocks: tbs.into_iter().map(threadblock).collect(),
            })
            .collect(),
        counters: (0..counters).map(|number| Counter { name: format!("counter {number}"), initial: 0 }).collect(),
        queues: 0,
    }
}

fn claim(kind: CollectiveKind, ranks: u32, slots: u64) -> Claim {
    let dtype = DataType::Float32;
    let collective = Collective::new(CollectiveSpec {
        kind,
        ranks,
        operator: ReduceOperator::Sum,
        dtype,
        buffer_size: Bytes(slots * dtype.bytes()),
        in_place: false,
        input_writable: false,
    })
    .unwrap();
    Claim { collective, chunks: 1 }
}

/// Two inputs, two outputs, no promise.
pub(super) fn no_promise(ranks: u32) -> Claim {
    let of_rank = |_| vec![None, None];
    let custom = CustomCollective { input_slots: vec![2; ranks as usize], output: (0..ranks).map(of_rank).collect() };
    claim(CollectiveKind::Custom(custom), ranks, u64::from(ranks) * 4)
}

/// Both add what both have. Counters 0 and 1 end the call, 2 and 3 begin it.
fn all_reduce() -> (Claim, OneSidedProgram) {
    let rank = |me: u32| {
        let sources = vec![site(me, Place::input(0)), site(1 - me, Place::input(0))];
        vec![vec![
            signal(2 + me),
            wait(3 - me),
            sync(),
            moves(sources, site(me, Place::output(0)), 1),
            sync(),
            signal(me),
            wait(1 - me),
        ]]
    };
    (claim(CollectiveKind::AllReduce, 2, 1), program(0, 4, (0..2).map(rank).collect()))
}

/// Two threadblocks fill scratch, meet or not, and signal one counter; a third waits before it reads, and again behind.
fn two_producers(meet: bool, waits_first: usize) -> (Claim, OneSidedProgram) {
    let produce = |slot: u32| {
        let copied = moves(vec![site(0, Place::input(slot))], site(0, Place::scratch(slot)), 1);
        let meeting = if meet { OneSidedKind::Barrier { barrier: 0, threadblocks: 2 } } else { sync() };
        vec![copied, meeting, signal(0)]
    };
    let mut consume = vec![wait(0); waits_first];
    consume.extend([sync(), moves(vec![site(0, Place::scratch(0))], site(0, Place::output(0)), 2), sync()]);
    consume.extend(vec![wait(0); 2 - waits_first]);
    (no_promise(1), program(2, 1, vec![vec![produce(0), produce(1), consume]]))
}

fn asked(
    (claim, program): &(Claim, OneSidedProgram),
    defect: Defect,
    smt: SmtMode,
) -> (Vec<Check>, Vec<(&'static str, usize)>) {
    let mut findings = Findings::new(8);
    let options = OneSidedOptions { smt, ..OneSidedOptions::default() };
    let checks = with_second_opinion(claim, program, &options, defect, &mut findings);
    let codes = findings.finish().iter().map(|finding| (finding.diagnostic.code, finding.locations.len())).collect();
    (checks, codes)
}

fn answer(checks: &[Check], name: &str) -> Answer {
    checks.iter().find(|check| check.name == name).unwrap().answer
}

const ALL: [&str; 8] =
    ["no-deadlock", "no-race", "contained", "repeats", "completes", "smt-no-deadlock", "smt-no-race", "smt-completes"];

#[test]
#[cfg(feature = "smt")]
fn good_programs_are_proved_by_both() {
    for sample in [all_reduce(), two_producers(false, 2), two_producers(true, 2)] {
        let (checks, codes) = asked(&sample, Defect::None, SmtMode::Required);
        for name in ALL {
            assert_eq!(answer(&checks, name), Answer::Proved, "{name}: {checks:#?}");
        }
        assert!(codes.is_empty(), "{codes:?}");
    }
}

/// Whichever signal the wait hears of, both threadblocks met before it: only counting shows that.
#[test]
#[cfg(feature = "smt")]
fn the_solver_decides_whose_signals_are_heard() {
    let met = two_producers(true, 1);
    assert_eq!(answer(&asked(&met, Defect::None, SmtMode::Off).0, "no-race"), Answer::Unknown);
    let (checks, codes) = asked(&met, Defect::None, SmtMode::Auto);
    for name in ALL {
        assert_eq!(answer(&checks, name), Answer::Proved, "{name}: {checks:#?}");
    }
    assert!(codes.is_empty(), "{codes:?}");
    // Nobody met: one of them may still write.
    for waits in [0, 1] {
        let alone = two_producers(false, waits);
        assert_eq!(answer(&asked(&alone, Defect::None, SmtMode::Off).0, "no-race"), Answer::Unknown);
        let (checks, codes) = asked(&alone, Defect::None, SmtMode::Auto);
        assert_eq!([answer(&checks, "no-race"), answer(&checks, "smt-no-race")], [Answer::Refuted; 2], "{checks:#?}");
        // With the two accesses.
        assert!(codes.contains(&("V117", 2)), "{codes:?}");
    }
}

/// One of two who must both signal waits for him who waits for both.
fn stuck_producers() -> (Claim, OneSidedProgram) {
    let tbs = vec![vec![wait(1), signal(0)], vec![signal(0)], vec![wait(0), wait(0), signal(1)]];
    (no_promise(1), program(0, 2, vec![tbs]))
}

#[test]
#[cfg(feature = "smt")]
fn a_defect_of_the_encoder_surfaces_as_a_disagreement() {
    for (defect, sample, exact, name) in [
        (Defect::DropOrder, all_reduce(), ["no-race", "contained", "repeats"], "smt-no-race"),
        (Defect::IgnoreCount, two_producers(false, 2), ["no-race", "contained", "repeats"], "smt-no-race"),
        (Defect::IgnoreCount, stuck_producers(), ["no-deadlock"; 3], "smt-no-deadlock"),
        (Defect::DropTerm, all_reduce(), ["completes"; 3], "smt-completes"),
    ] {
        let (checks, codes) = asked(&sample, Defect::None, SmtMode::Auto);
        assert!(!codes.iter().any(|&(code, _)| code == "V900"), "{checks:#?}");
        assert_ne!(answer(&checks, name), Answer::Unknown, "{checks:#?}");
        let (checks, codes) = asked(&sample, defect, SmtMode::Auto);
        assert!(codes.iter().any(|&(code, _)| code == "V900"), "{defect:?}: {checks:#?}");
        assert_eq!(answer(&checks, name), Answer::Unknown, "{checks:#?}");
        for exact in exact {
            assert_eq!(answer(&checks, exact), Answer::Unknown, "{checks:#?}");
        }
        assert!(checks.iter().find(|check| check.name == name).unwrap().decides);
    }
}

#[test]
fn programs_above_the_limit_are_not_asked_about() {
    let (claim, program) = all_reduce();
    let smt_options = ProgramSmtOptions { max_events: 10, ..ProgramSmtOptions::default() };
    for (smt, decides) in [(SmtMode::Auto, false), (SmtMode::Required, true)] {
        let options = OneSidedOptions { smt, smt_options, ..OneSidedOptions::default() };
        let outcome = super::super::verify_onesided(&claim, &program, &options);
        let of_smt: Vec<&Check> = outcome.checks.iter().filter(|check| check.name.starts_with("smt-")).collect();
        assert_eq!(of_smt.len(), 3);
        assert!(of_smt.iter().all(|check| check.answer == Answer::Unknown && check.decides == decides));
        assert!(of_smt[0].detail.contains("more than 10 events"), "{}", of_smt[0].detail);
        assert_eq!(outcome.answer(), if decides { Answer::Unknown } else { Answer::Proved });
    }
    let options = OneSidedOptions { smt_options, ..OneSidedOptions::default() };
    let refused = onesided_certificate(&claim, &program, &options, &mut Vec::new());
    assert!(matches!(refused, Err(CertificateError::Refused { reason }) if reason.contains("10 events")));
}

#[test]
fn a_certificate_names_the_answer_of_each_query() {
    for (claim, program) in [all_reduce(), two_producers(true, 1)] {
        let mut text = Vec::new();
        let options = OneSidedOptions::default();
        let certificate = onesided_certificate(&claim, &program, &options, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("(check-sat)").count(), certificate.queries);
        assert_eq!(text.matches("(set-info :status unsat)").count(), certificate.queries - 1);
        assert_eq!(text.matches("(set-info :status sat)").count(), 1);
        assert!(certificate.left_out.is_empty(), "{:?}", certificate.left_out);
    }
}
