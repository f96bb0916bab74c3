//! Execution plans of MSCCL++: the corpus, hand-written plans, their mutants against an independent simulator, hostile input.
#![allow(clippy::unwrap_used)]

use rondo::judge::{JudgeOptions, Judgement, Verdict, judge_file};
use rondo::verify::Answer;

fn judge(text: &str) -> Judgement {
    judge_file("plan.json", text.as_bytes(), &JudgeOptions::default())
}

fn corpus(name: &str) -> String {
    let path = format!("{}/tests/corpus/mscclpp-json/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn corpus_files_are_right() {
    for name in ["allreduce.json", "allreduce_packet.json", "reduce_nvls_pipeline.json", "transfer_pack.json"] {
        let judgement = judge(&corpus(name));
        assert_eq!(judgement.verdict, Verdict::Verified, "{name}: {:#?}", judgement.findings);
        assert!(judgement.checks.iter().all(|check| check.answer == Answer::Proved), "{name}");
        let relaxed = judgement.findings.iter().any(|finding| finding.code == "V146");
        assert_eq!(relaxed, name == "reduce_nvls_pipeline.json", "only this one ends with relaxed signals");
    }
}
