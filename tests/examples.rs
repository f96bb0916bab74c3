//! Every example compiles, and what comes out verifies; every corpus file verifies.

#![allow(clippy::unwrap_used)]

mod common;

use common::{files, rondo};

#[test]
fn every_example_compiles_and_its_plan_verifies() {
    let folder = tempfile::tempdir().unwrap();
    for job in files("examples", ".toml") {
        let job = job.to_str().unwrap().to_owned();
        let plan = folder.path().join("plan.json");
        let plan = plan.to_str().unwrap();
        rondo(&["compile", &job, "-o", plan]).expect(0);
        if std::fs::metadata(plan).unwrap().is_file() {
            rondo(&["verify", plan]).expect(0);
            rondo(&["verify", plan, "--against", &job]).expect(0);
            rondo(&["cost", plan]).expect(0);
            std::fs::remove_file(plan).unwrap();
        } else {
            rondo(&["verify", plan]).expect(0);
            std::fs::remove_dir_all(plan).unwrap();
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_on_any_number_of_threads() {
    for job in ["examples/ring8/job.toml", "examples/two-hosts/job.toml", "examples/clos64/job.toml"] {
        let one = rondo(&["compile", job, "-o", "-", "--threads", "1"]).expect(0);
        let many = rondo(&["compile", job, "-o", "-", "--threads", "7"]).expect(0);
        assert_eq!(one.stdout, many.stdout);
    }
}

#[test]
fn the_third_party_msccl_files_are_all_correct() {
    let corpus = files("tests/corpus/msccl-xml", ".xml");
    assert_eq!(corpus.len(), 11);
    for file in corpus {
        rondo(&["verify", file.to_str().unwrap()]).expect(0);
    }
}
