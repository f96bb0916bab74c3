//! Plans with circuits, as files: right ones verify, and each way of getting circuits wrong is refuted with its step and port.

#![allow(clippy::unwrap_used)]

mod common;

use common::{rondo, rondo_with};
use serde_json::{Value, json};

const JOB: &str = "examples/ocs-ring-32.toml";

/// The plan of the example, with the options given.
fn plan(options: &[&str]) -> Value {
    let arguments = [&["compile", JOB, "--algorithm", "halving-doubling", "--no-smt", "-o", "-"], options].concat();
    serde_json::from_str(&rondo(&arguments).expect(0).stdout).unwrap()
}

#[track_caller]
fn refuted(plan: &Value, says: &[&str]) {
    let run = rondo_with(&["verify", "-", "--no-smt"], plan.to_string().as_bytes()).expect(1);
    let text = format!("{}{}", run.stdout, run.stderr);
    for word in says {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
}

/// The pairs that a step sets on its first device.
fn set(plan: &mut Value, step: usize) -> &mut Vec<Value> {
    plan["schedule"]["steps"][step]["set"][0][1].as_array_mut().unwrap()
}

#[test]
fn right_plans_verify_whatever_the_rule() {
    for rule in ["optimal", "best", "per-step", "paper", "off", "1", "5"] {
        let plan = plan(&["--circuits", rule]);
        rondo_with(&["verify", "-", "--no-smt", "--against", JOB], plan.to_string().as_bytes()).expect(0);
    }
}

#[test]
fn wrong_circuits_are_refuted_with_step_and_port() {
    let right = plan(&[]);
    // Step 3 is the first whose circuits change: 4 apart.
    let changes: Vec<bool> = (0..6).map(|step| !right["schedule"]["steps"][step]["set"].is_null()).collect();
    assert_eq!(changes, [false, false, false, true, true, true]);

    // A port used twice.
    let mut twice = right.clone();
    set(&mut twice, 3).push(json!([0, 9]));
    set(&mut twice, 3).push(json!([9, 0]));
    refuted(&twice, &["V012", "step s3", "port p0 of device ocs0 would carry two circuits"]);

    // A circuit that joins duplex ports one way only.
    let mut half = right.clone();
    set(&mut half, 4).remove(0);
    refuted(&half, &["V012", "step s4", "both directions"]);

    // A port that is not there.
    let mut far = right.clone();
    set(&mut far, 3).push(json!([40, 41]));
    let run = rondo_with(&["verify", "-", "--no-smt"], far.to_string().as_bytes()).expect(2);
    run.says("steps[3].set[0]").says("port 40 does not exist");

    // Circuits moved too early: step 2 still needs the ring.
    let mut early = right.clone();
    let moved = early["schedule"]["steps"][3].as_object_mut().unwrap().remove("set").unwrap();
    early["schedule"]["steps"][2]["set"] = moved;
    refuted(&early, &["V013", "step s2", "not up"]);

    // Moved too late, or never: a dark circuit is used.
    let mut dark = right.clone();
    dark["schedule"]["steps"][4].as_object_mut().unwrap().remove("set");
    refuted(&dark, &["V013", "step s4", "ocs0"]);

    // Says that the ring is restored, and it is not.
    let mut left = right.clone();
    left["schedule"]["leaves_circuits"] = left["problem"]["circuits"].clone();
    assert!(!left["problem"]["circuits"].is_null());
    refuted(&left, &["V014", "ocs0"]);

    // A cheaper price than the changes allow.
    let mut cheap = right;
    cheap["claimed"]["time"] = json!("1239/100000000");
    refuted(&cheap, &["claimed"]);
}

#[test]
fn the_ring_is_restored_where_the_job_asks_for_it_and_paid() {
    let text = std::fs::read_to_string(common::path(JOB)).unwrap();
    let job =
        format!("{text}\n[compile]\nalgorithm = \"halving-doubling\"\ncircuits = \"best\"\nrestore_circuits = true\n");
    let run = rondo_with(&["compile", "-", "--no-smt", "--output-format", "json"], job.as_bytes()).expect(0);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    // Three changes and one back, 4 us each; golden cost of T = 2: 24.39 us.
    assert_eq!(report["circuits"]["changes"], 4);
    assert_eq!(report["circuits"]["restored"], true);
    assert_eq!(report["price"]["time"]["exact"], "2839/100000000");
}

#[test]
fn changes_that_overlap_are_paid_by_the_ports_in_use() {
    let text = std::fs::read_to_string(common::path(JOB)).unwrap();
    let job = |design: &str, overlap: bool| {
        let text = text.replace("[topology]", &format!("[topology]\ndesign = \"{design}\""));
        text.replace("[cost]", &format!("[cost]\noverlap_reconfiguration = {overlap}"))
    };
    assert_ne!(job("fixed", true), job("fixed", false));
    let options = ["compile", "-", "--algorithm", "halving-doubling", "--no-smt", "-o", "-"];
    let plan =
        |job: &str| -> Value { serde_json::from_str(&rondo_with(&options, job.as_bytes()).expect(0).stdout).unwrap() };
    let seconds = |plan: &Value| {
        let text = plan["claimed"]["time"].as_str().unwrap();
        let (a, b) = text.split_once('/').unwrap_or((text, "1"));
        a.parse::<f64>().unwrap() / b.parse::<f64>().unwrap()
    };
    let (beside, apart) = (plan(&job("all-ports", true)), plan(&job("all-ports", false)));
    assert!(seconds(&beside) < seconds(&apart));
    rondo_with(&["verify", "-", "--no-smt"], beside.to_string().as_bytes()).expect(0);
    // Without the option, or with a cheaper price, the claim does not hold.
    let mut without = beside.clone();
    without["problem"]["cost"].as_object_mut().unwrap().remove("overlap_reconfiguration").unwrap();
    refuted(&without, &["claimed"]);
    let mut cheaper = beside;
    cheaper["claimed"]["time"] = json!("1/100000");
    refuted(&cheaper, &["claimed"]);
    // One switched port an endpoint: every change moves ports that the step before uses, and is paid in full.
    let mut fixed = plan(&job("fixed", false));
    fixed["problem"]["cost"]["overlap_reconfiguration"] = json!(true);
    let changes = |plan: &Value, step: usize| !plan["schedule"]["steps"][step]["set"].is_null();
    assert!(changes(&fixed, 4) && changes(&fixed, 5));
    rondo_with(&["verify", "-", "--no-smt"], fixed.to_string().as_bytes()).expect(0);
    // Neither thresholds nor ranges of sizes.
    rondo_with(&["thresholds", "-"], job("fixed", true).as_bytes()).expect(2).says("overlap_reconfiguration");
    let range = job("fixed", true).replace("\"32 kB\"", "\"1 kB..32 kB\"");
    rondo_with(&["compile", "-"], range.as_bytes()).expect(2).says("X026").says("overlap_reconfiguration");
}
