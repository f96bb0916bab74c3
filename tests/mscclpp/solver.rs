//! What only the solver decides, and certificates.

use rondo::ir::diagnostic::Severity;
use rondo::judge::{JudgeOptions, Judgement, Verdict, judge_file};
use rondo::pipeline::Proof;
use rondo::verify::Answer;
use serde_json::Value;

use super::{corpus, judge, oracle, plans};

fn without_solver(plan: &Value) -> Judgement {
    let options = JudgeOptions { proof: Proof { smt: false, ..Proof::default() }, ..JudgeOptions::default() };
    judge_file("plan.json", format!("{plan:#}").as_bytes(), &options)
}

#[test]
fn either_of_two_signals_is_enough_where_their_threadblocks_met() {
    let right = plans::allgather_either(true);
    // As a file, for `tests/recheck-certificates`.
    let path = format!("{}/tests/mscclpp/allgather_either.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RONDO_UPDATE").is_some() {
        std::fs::write(&path, format!("{right:#}\n")).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{right:#}\n"));
    for seed in 0..200 {
        oracle::run(&right, seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert_eq!(without_solver(&right).verdict, Verdict::Unknown);
    let judgement = judge(&format!("{right:#}"));
    if cfg!(feature = "smt") {
        assert_eq!(judgement.verdict, Verdict::Verified, "{judgement:#?}");
        assert!(judgement.checks.iter().all(|check| check.answer == Answer::Proved), "{:#?}", judgement.checks);
    } else {
        assert_eq!(judgement.verdict, Verdict::Unknown);
    }
}

#[test]
fn either_of_two_signals_is_not_enough_where_they_did_not() {
    let wrong = plans::allgather_either(false);
    assert!((0..200).any(|seed| oracle::run(&wrong, seed).is_err()), "the interpreter sees no fault");
    assert_eq!(without_solver(&wrong).verdict, Verdict::Unknown);
    let judgement = judge(&format!("{wrong:#}"));
    if cfg!(feature = "smt") {
        assert_eq!(judgement.verdict, Verdict::Refuted, "{judgement:#?}");
        let finding = judgement.findings.iter().find(|finding| finding.severity == Severity::Error).unwrap();
        // The put of a peer, and the copy that reads it.
        assert_eq!((finding.code, finding.labels.len()), ("V117", 2), "{finding:?}");
        let text = format!("{wrong:#}");
        let names: Vec<bool> = finding
            .labels
            .iter()
            .map(|label| text[label.start..].split("\"name\": ").nth(1).unwrap().starts_with("\"put\""))
            .collect();
        assert!(names.contains(&true) && names.contains(&false), "{names:?}");
    } else {
        assert_eq!(judgement.verdict, Verdict::Unknown);
    }
}

#[test]
fn a_verified_plan_has_a_certificate_for_each_number_of_turns() {
    let options = JudgeOptions { certificate: true, ..JudgeOptions::default() };
    for (name, turns) in [("allreduce.json", 1), ("reduce_nvls_pipeline.json", 2), ("transfer_pack.json", 1)] {
        let judgement = judge_file(name, corpus(name).as_bytes(), &options);
        assert_eq!(judgement.certificates.len(), turns, "{name}");
        for text in &judgement.certificates {
            let queries = text.matches("(check-sat)").count();
            assert!(3 <= queries && text.matches("(set-info :status ").count() == queries, "{text}");
            assert!(!text.contains("; left out"), "{text}");
        }
    }
    let wrong = format!("{:#}", plans::allgather_either(false));
    assert!(judge_file("plan.json", wrong.as_bytes(), &options).certificates.is_empty());
}
