//! Every example compiles, and what comes out verifies; every corpus file verifies.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Run, files, path, rondo};

/// A line that a terminal of 100 columns would break.
#[track_caller]
fn fits(run: &Run, what: &str) {
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 100, "{what}: {line}");
    }
}

#[test]
fn every_example_compiles_and_its_plan_verifies() {
    let folder = tempfile::tempdir().unwrap();
    for job in files("examples", ".toml") {
        // Paths as short as a person's.
        let job = job.strip_prefix(path("")).unwrap().to_str().unwrap().to_owned();
        let plan = folder.path().join("plan.json");
        let plan = plan.to_str().unwrap();
        let check = |arguments: &[&str]| fits(&rondo(arguments).expect(0), &arguments.join(" "));
        let text = std::fs::read_to_string(path(&job)).unwrap();
        if text.contains("\n[model]\n") {
            check(&["training", &job]);
            continue;
        }
        if !text.contains("[collective]") {
            check(&["topology", "show", &job]);
            continue;
        }
        check(&["compile", &job, "-o", plan]);
        check(&["cost", &job]);
        check(&["topology", "show", &job]);
        if std::fs::metadata(plan).unwrap().is_file() {
            check(&["verify", plan]);
            check(&["verify", plan, "--against", &job]);
            check(&["cost", plan]);
            std::fs::remove_file(plan).unwrap();
        } else {
            check(&["verify", plan]);
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
    let corpus: Vec<_> = corpus.iter().map(|file| file.strip_prefix(path("")).unwrap()).collect();
    assert_eq!(corpus.len(), 11);
    for file in &corpus {
        fits(&rondo(&["verify", file.to_str().unwrap()]).expect(0), "verify");
    }
    let all = std::iter::once("verify").chain(corpus.iter().map(|file| file.to_str().unwrap()));
    let all = rondo(&all.collect::<Vec<_>>()).expect(0);
    assert!(all.stdout.contains("11 files: 11 verified"), "{}", all.stdout);
}
