//! Every example job goes all the way: read, built, solved, and its schedule verified.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_compiler::auto::{Algorithm, select};
use rondo_compiler::build::BuildContext;
use rondo_compiler::front::job::{self, build_problem, parse_job};
use rondo_compiler::topology;
use rondo_verify::{Answer, Options, verify_schedule};

fn jobs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    let mut jobs: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path().join("job.toml")).collect();
    jobs.retain(|job| job.is_file());
    jobs.sort();
    assert!(jobs.len() >= 13, "{jobs:?}");
    jobs
}

#[test]
fn every_example_is_compiled_and_verified() {
    for path in jobs() {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).expect("readable");
        let job = parse_job(&name, &text).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let folder = path.parent().expect("a file has a folder").to_owned();
        let read = move |file: &str| std::fs::read_to_string(folder.join(file));
        let built = topology::build(&job.topology, &read).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let problem = build_problem(&job, &built.fabric).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let problem = Arc::new(problem);
        let request = match &job.compile.algorithm {
            job::Algorithm::Auto => Algorithm::Auto,
            job::Algorithm::Named(name) => Algorithm::Named(&name.value),
        };
        let selection = select(&BuildContext::new(&problem, &built.fabric), request, job.compile.chunks)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let outcome = verify_schedule(Arc::clone(&problem), selection.schedule, &Options::default());
        assert_eq!(outcome.answer(), Answer::Proved, "{name}");
    }
}
