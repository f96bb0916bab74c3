//! Execution plans of MSCCL++: the corpus, hand-written plans, their mutants against an independent simulator, hostile input.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod oracle;
mod plans;
mod rules;
mod solver;

use common::rondo;
use rondo::ir::diagnostic::Severity;
use rondo::judge::{JudgeOptions, Judgement, Verdict, judge_file};
use rondo::verify::{Answer, Check};
use serde_json::Value;

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
        let mut asked = judgement.checks.iter().filter(|check| cfg!(feature = "smt") || check.decides);
        assert!(asked.all(|check| check.answer == Answer::Proved), "{name}");
        let relaxed = judgement.findings.iter().any(|finding| finding.code == "V146");
        assert_eq!(relaxed, name == "reduce_nvls_pipeline.json", "only this one ends with relaxed signals");
    }
}

#[test]
fn hand_written_plans_are_verified() {
    for plan in plans::all() {
        let text = format!("{plan:#}");
        let judgement = judge(&text);
        assert_eq!(judgement.verdict, Verdict::Verified, "{}: {:#?}", plan["name"], judgement);
        for seed in 0..60 {
            oracle::run(&plan, seed).unwrap_or_else(|wrong| panic!("{}: {wrong}", plan["name"]));
        }
    }
}

/// Every way in which one operation can be spoilt, for every operation.
fn mutants(plan: &Value) -> Vec<(String, Value)> {
    let mut mutants = Vec::new();
    let gpus = plan["gpus"].as_array().unwrap().len();
    for gpu in 0..gpus {
        for tb in 0..plan["gpus"][gpu]["threadblocks"].as_array().unwrap().len() {
            let mut lists = vec![format!("/gpus/{gpu}/threadblocks/{tb}/ops")];
            for (at, op) in plan.pointer(&lists[0]).unwrap().as_array().unwrap().iter().enumerate() {
                if op["name"] == "pipeline" {
                    lists.push(format!("/gpus/{gpu}/threadblocks/{tb}/ops/{at}/ops"));
                }
            }
            for list in lists {
                let ops = plan.pointer(&list).unwrap().as_array().unwrap().clone();
                let mut push = |what: String, changed: Vec<Value>| {
                    if changed != ops {
                        let mut mutant = plan.clone();
                        *mutant.pointer_mut(&list).unwrap() = Value::Array(changed);
                        mutants.push((format!("{} {list}: {what}", plan["name"]), mutant));
                    }
                };
                for at in 0..ops.len() {
                    let name = ops[at]["name"].as_str().unwrap();
                    let with = |change: &dyn Fn(&mut Vec<Value>)| {
                        let mut changed = ops.clone();
                        change(&mut changed);
                        changed
                    };
                    push(format!("drop {at} {name}"), with(&|ops| drop(ops.remove(at))));
                    push(format!("repeat {at} {name}"), with(&|ops| ops.insert(at, ops[at].clone())));
                    if at + 1 < ops.len() {
                        push(format!("swap {at} {name}"), with(&|ops| ops.swap(at, at + 1)));
                    }
                    let weaker = [
                        ("signal", "rlxsignal"),
                        ("wait", "rlxwait"),
                        ("pwsf", "pws"),
                        ("pws", "put"),
                        ("rres", "rre"),
                    ];
                    for (from, to) in weaker {
                        if name == from {
                            push(format!("weaken {at} {name}"), with(&|ops| ops[at]["name"] = to.into()));
                        }
                    }
                    for side in ["src_buff", "dst_buff"] {
                        for operand in 0..ops[at][side].as_array().map_or(0, Vec::len) {
                            for by in [1_i64, -1] {
                                let index = ops[at][side][operand]["index"].as_i64().unwrap() + by;
                                if 0 <= index {
                                    push(
                                        format!("shift {at} {name} {side} {operand} to {index}"),
                                        with(&|ops| ops[at][side][operand]["index"] = index.into()),
                                    );
                                }
                            }
                            for buffer in ["i", "o", "s"] {
                                if ops[at][side][operand]["type"].is_string() {
                                    push(
                                        format!("buffer {at} {name} {side} {operand} {buffer}"),
                                        with(&|ops| ops[at][side][operand]["type"] = buffer.into()),
                                    );
                                }
                            }
                            if ops[at][side].as_array().unwrap().len() > 1 {
                                push(
                                    format!("lose {at} {name} {side} {operand}"),
                                    with(&|ops| drop(ops[at][side].as_array_mut().unwrap().remove(operand))),
                                );
                            }
                        }
                    }
                    for id in 0..ops[at]["channel_ids"].as_array().map_or(0, Vec::len) {
                        for other in 0..2 {
                            push(
                                format!("channel {at} {name} {id} to {other}"),
                                with(&|ops| ops[at]["channel_ids"][id] = other.into()),
                            );
                        }
                    }
                    if ops[at]["tbg_info"].is_object() {
                        push(format!("slice {at} {name}"), with(&|ops| ops[at]["tbg_info"]["tb_id"] = 0.into()));
                    }
                }
            }
        }
    }
    mutants
}

/// Whatever the oracle can make go wrong is not verified; what is refuted is explained by the oracle or a rule about the order
/// of accesses that the oracle need not hit.
#[test]
fn mutants_that_go_wrong_are_not_verified() {
    let (mut verified, mut refuted, mut unknown, mut shown, mut all) = (0, 0, 0, 0, 0);
    let mut second = [0; 3];
    let mut failures: Vec<String> = Vec::new();
    let public = ["allreduce_packet.json", "transfer_pack.json", "reduce_nvls_pipeline.json", "allreduce.json"];
    let public = public.map(|name| serde_json::from_str(&corpus(name)).unwrap());
    let either = [plans::allgather_either(true), plans::allgather_either(false)];
    for plan in plans::all().into_iter().chain(public).chain(either) {
        for (what, mutant) in mutants(&plan) {
            all += 1;
            let judgement = judge(&mutant.to_string());
            let rule = judgement.findings.iter().any(|f| f.severity == Severity::Error && f.code.starts_with('B'));
            if rule {
                assert_eq!(judgement.verdict, Verdict::Refuted, "{what}");
                refuted += 1;
                shown += 1;
                continue;
            }
            if judgement.findings.iter().any(|finding| finding.code == "V900") {
                failures.push(format!("{what}: two engines disagree: {:#?}", judgement.checks));
            }
            for (count, name) in second.iter_mut().zip(["smt-no-deadlock", "smt-no-race", "smt-completes"]) {
                let decided = |check: &&Check| check.name == name && check.answer != Answer::Unknown;
                *count += usize::from(judgement.checks.iter().any(|check| decided(&check)));
            }
            let wrong = (0..40).find_map(|seed| oracle::run(&mutant, seed).err());
            match judgement.verdict {
                Verdict::Verified => verified += 1,
                Verdict::Refuted => refuted += 1,
                Verdict::Unknown => unknown += 1,
                Verdict::Unreadable => failures.push(format!("{what}: unreadable")),
            }
            shown += usize::from(wrong.is_some());
            let definite = ["V114", "V118", "V120", "V140", "V141"];
            let certain = judgement.findings.iter().any(|f| definite.contains(&f.code));
            match (judgement.verdict, &wrong) {
                (Verdict::Verified, Some(wrong)) => failures.push(format!("{what}: verified, but {wrong}")),
                (Verdict::Refuted, None) if certain => {
                    let found: Vec<_> = judgement.findings.iter().map(|f| (f.code, &f.message)).collect();
                    failures.push(format!("{what}: refuted, but the oracle sees nothing: {found:?}"));
                }
                _ => {}
            }
        }
    }
    println!(
        "{all} mutants: {refuted} refuted, {unknown} unknown, {verified} verified; {shown} shown wrong or against a rule"
    );
    println!("the solver decides: no-deadlock {}, no-race {}, completes {}", second[0], second[1], second[2]);
    assert!(failures.is_empty(), "{}: {:#?}", failures.len(), &failures[..failures.len().min(20)]);
    assert!(1000 < all && 2 * all < 3 * refuted, "{refuted} of {all} refuted");
    if cfg!(feature = "smt") {
        assert!(second.iter().all(|&decided| 500 < decided), "{second:?}");
    }
}

#[test]
fn a_job_may_ask_for_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let job = |kind: &str, more: &str| {
        let path = folder.path().join(format!("{kind}{}.toml", more.len()));
        let text = format!(
            "[topology]\nkind = \"ring\"\nnodes = 2\nbandwidth = \"25 GB/s\"\nlatency = \"1 us\"\n\n\
             [collective]\nkind = \"{kind}\"\nbuffer_size = \"8 B\"\nin_place = true\n{more}"
        );
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let plan = "tests/corpus/mscclpp-json/allreduce.json";
    let against = |job: &str| rondo(&["verify", plan, "--against", job]);
    against(&job("all_reduce", "")).expect(0);
    against(&job("all_reduce", "operator = \"max\"\n")).expect(1).says("the runtime always adds");
    against(&job("all_gather", "")).expect(1).says("X011");
    rondo(&["verify", plan, "--runtime", "mscclpp"]).expect(0);
    rondo(&["verify", plan, "--runtime", "rccl"]).expect(1).says("X013");
    let sarif = rondo(&["verify", plan, "--output-format", "sarif"]).expect(0).stdout;
    assert!(sarif.contains("2.1.0"));
}
