//! Plan files written by hand, one for each thing that the format must be able to hold, are read and proved; the copies in
//! `bad/`, each with one fault that its description names, are refuted.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_backends::json::{self, Plan, ProgramHeader};
use rondo_ir::diagnostic::Diagnostic;
use rondo_verify::program::{ProgramOptions, verify_program};
use rondo_verify::{Answer, Claim, Options, price, verify_schedule};

/// The plan files of a folder under `tests/plans`, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans").join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    files
}

fn judge(file: &Path) -> (Answer, Vec<Diagnostic>) {
    let bytes = std::fs::read(file).unwrap();
    match json::parse(&file.display().to_string(), &bytes).unwrap() {
        Plan::Schedule { problem, schedule, .. } => {
            let outcome = verify_schedule(Arc::clone(&problem), schedule, &Options::default());
            (outcome.answer(), outcome.findings)
        }
        Plan::Program { claim: ProgramHeader { collective, chunks }, program } => {
            let outcome = verify_program(Claim { collective, chunks }, program, &ProgramOptions::default());
            (outcome.answer(), outcome.findings)
        }
    }
}

#[test]
fn good_plans_are_proved() {
    for file in files("") {
        let (answer, findings) = judge(&file);
        assert_eq!(answer, Answer::Proved, "{}: {findings:#?}", file.display());
    }
}

#[test]
fn bad_plans_are_refuted() {
    for file in files("bad") {
        let (answer, findings) = judge(&file);
        assert_eq!(answer, Answer::Refuted, "{}: {findings:#?}", file.display());
        assert!(!findings.is_empty(), "{}: refuted without a finding", file.display());
    }
}

#[test]
fn the_price_that_was_worked_out_by_hand_is_the_price() {
    // 1 us start-up + two hops of 500 ns + 1 MiB / (25 GB/s), loaded once: 43.94304 us.
    let file = files("").into_iter().find(|path| path.ends_with("multicast.json")).unwrap();
    let Ok(Plan::Schedule { problem, schedule, claimed }) = json::parse("", &std::fs::read(file).unwrap()) else {
        panic!("multicast.json holds a schedule")
    };
    let computed = price(&problem, &schedule).unwrap();
    assert_eq!(Some(computed.total), claimed.unwrap().time);
}

#[test]
fn every_good_plan_has_a_bad_copy() {
    let names = |folder| files(folder).iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(""), names("bad"));
    assert_eq!(names("").len(), 8);
}
