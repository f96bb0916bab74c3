//! Sets of plans: a folder holds one set and nothing else, and is replaced as a whole.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::rondo;
use rondo::ir::units::Bytes;
use rondo::pipeline::{Proof, Request};
use rondo::size_set::{Set, SetRequest, compile_set};

const JOB: &str = "\
[topology]
kind = \"switch\"
nodes = 4
bandwidth = \"300 GB/s\"
latency = \"500 ns\"

[collective]
kind = \"all_reduce\"
buffer_size = \"1 KiB..64 MiB\"

[cost]
startup = \"3 us\"
reduce_cost = \"1 ps/B\"
";

/// Names of the files in a folder and its folders, sorted.
fn listed(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
        if entry.is_dir() {
            names.extend(listed(&entry).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// What the index says that there is.
fn indexed(folder: &Path) -> Vec<String> {
    let index: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
    let files = index["plans"].as_array().unwrap().iter().map(|plan| plan["file"].as_str().unwrap().to_owned());
    let mut names: Vec<_> = files.chain(["index.json".to_owned()]).collect();
    names.sort();
    names
}

#[test]
fn a_set_replaces_an_earlier_set_and_nothing_else() {
    let around = tempfile::tempdir().unwrap();
    let job = around.path().join("job.toml");
    std::fs::write(&job, JOB).unwrap();
    let job = job.to_str().unwrap();
    let folder = around.path().join("out/plans");
    let emit = format!("msccl-xml:azure={}", folder.display());

    rondo(&["compile", job, "--emit", &emit]).expect(0);
    let first = listed(&folder);
    assert_eq!(first, indexed(&folder));
    assert!(2 < first.len(), "{first:?}");

    // One algorithm only: other files, and none of the first run.
    rondo(&["compile", job, "--emit", &emit, "--algorithm", "ring"]).expect(0);
    let second = listed(&folder);
    assert_eq!(second, indexed(&folder));
    assert!(second.iter().all(|name| name == "index.json" || name.contains("-ring-")), "{second:?}");
    assert_eq!(listed(around.path()).len(), second.len() + 1, "something was left beside the folder");

    // A failure leaves what is there.
    rondo(&["compile", job, "--emit", &emit, "--algorithm", "ring", "--chunks", "4000000000"]).expect(2);
    assert_eq!(listed(&folder), second);

    // A file that is not of the set.
    let own = folder.join("algorithms/own.xml");
    std::fs::write(&own, "mine").unwrap();
    rondo(&["compile", job, "--emit", &emit]).expect(2).says("X017").says("algorithms/own.xml");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "mine");

    // A folder that holds something else.
    let other = around.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "mine").unwrap();
    rondo(&["compile", job, "-o", other.to_str().unwrap()]).expect(2).says("X017").says("holds no set of plans");
    assert_eq!(listed(&other), ["notes.txt"]);

    // Two sets for one folder.
    let plans = around.path().join("twice");
    let plans = plans.to_str().unwrap();
    let emit = format!("msccl-xml:azure={plans}");
    rondo(&["compile", job, "-o", plans, "--emit", &emit]).expect(2).says("X005");
    assert!(!Path::new(plans).exists());
}

#[cfg(unix)]
#[test]
fn new_files_have_the_mode_that_the_umask_leaves_and_replaced_ones_keep_theirs() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let around = tempfile::tempdir().unwrap();
    let job = around.path().join("job.toml");
    std::fs::write(&job, JOB).unwrap();
    let run = |umask: &str, arguments: &str| {
        let rondo = env!("CARGO_BIN_EXE_rondo");
        let script = format!("umask {umask}; exec {rondo} compile {arguments}");
        let status = std::process::Command::new("sh")
            .args(["-c", &script])
            .current_dir(around.path())
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.unwrap().success());
    };
    run("077", "job.toml --algorithm ring -o private");
    assert_eq!([mode(&around.path().join("private")), mode(&around.path().join("private/index.json"))], [0o700, 0o600]);
    run("002", "job.toml --algorithm ring -o shared");
    assert_eq!([mode(&around.path().join("shared")), mode(&around.path().join("shared/index.json"))], [0o775, 0o664]);

    std::fs::write(&job, JOB.replace("1 KiB..64 MiB", "1 MiB")).unwrap();
    run("077", "job.toml -o plan.json");
    let plan = around.path().join("plan.json");
    assert_eq!(mode(&plan), 0o600);
    std::fs::set_permissions(&plan, std::fs::Permissions::from_mode(0o640)).unwrap();
    run("022", "job.toml -o plan.json");
    assert_eq!(mode(&plan), 0o640);
}

/// The report says of every range how the other algorithms fare there, and their times are those of a compilation for that size.
#[test]
fn a_set_shows_its_candidates_as_a_single_plan_does() {
    let around = tempfile::tempdir().unwrap();
    let job = around.path().join("job.toml");
    std::fs::write(&job, JOB).unwrap();
    let one = around.path().join("one.toml");
    std::fs::write(&one, JOB.replace("1 KiB..64 MiB", "64 MiB")).unwrap();
    let report = |arguments: &[&str]| -> serde_json::Value {
        let run = rondo(&[&["compile", "--no-smt", "--output-format", "json"], arguments].concat()).expect(0);
        serde_json::from_str(&run.stdout).unwrap()
    };
    let set = report(&[job.to_str().unwrap()]);
    let single = report(&[one.to_str().unwrap()]);
    let plans = set["plans"].as_array().unwrap();
    assert!(2 <= plans.len());
    for plan in plans {
        let candidates = plan["candidates"].as_array().unwrap();
        assert_eq!(candidates[0]["algorithm"], plan["algorithm"]);
        for end in ["at_smallest", "at_largest"] {
            let times: Vec<f64> = candidates.iter().map(|c| c[end]["time"]["seconds"].as_f64().unwrap()).collect();
            assert!(times.iter().all(|&time| times[0] <= time), "{plan:#}");
        }
        let chosen: Vec<_> = candidates.iter().map(|c| c["chosen"] == true).collect();
        assert_eq!(chosen.iter().position(|&chosen| chosen), chosen.iter().rposition(|&chosen| chosen));
        assert!(candidates.iter().all(|c| !c["reason"].as_str().unwrap().is_empty()));
    }
    // 64 MiB are whole elements for every candidate.
    let largest = plans.last().unwrap();
    let mut compared = 0;
    for candidate in largest["candidates"].as_array().unwrap() {
        let same = |c: &&serde_json::Value| {
            c["algorithm"] == candidate["algorithm"] && c["chunks"] == candidate["at_largest"]["chunks"]
        };
        if let Some(single) = single["candidates"].as_array().unwrap().iter().find(same) {
            assert_eq!(single["time"]["exact"], candidate["at_largest"]["time"]["exact"], "{candidate:#}");
            compared += 1;
        }
    }
    assert!(10 <= compared, "{compared}");
    // What fits nowhere is left out for the same reasons.
    let reasons = |list: &serde_json::Value, refused: bool| -> Vec<(String, String)> {
        let list = list.as_array().unwrap().iter().filter(|c| refused || c["time"].is_null());
        list.map(|c| (c["algorithm"].to_string(), c["reason"].to_string())).collect()
    };
    assert_eq!(reasons(&set["refused"], true), reasons(&single["candidates"], false));

    let text = rondo(&["compile", job.to_str().unwrap(), "--no-smt"]).expect(0).stdout;
    for candidate in single["candidates"].as_array().unwrap() {
        let name = candidate["algorithm"].as_str().unwrap();
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name} is missing in:\n{text}");
    }
}

/// Where a runtime takes few files, what is given up for that says so.
#[test]
fn plans_that_are_given_up_for_the_runtime_say_so() {
    let loaded = rondo::pipeline::load_job("job.toml", JOB.as_bytes(), Path::new(".")).unwrap();
    let proof = Proof { smt: false, ..Proof::default() };
    let request = SetRequest { low: Bytes(1 << 10), high: Bytes(1 << 26), request: Request::auto(), proof };
    let compile = |most| compile_set(&loaded, &request, most, |_, _| Ok(()), &()).unwrap();
    let given_up = |set: &Set| {
        set.plans
            .iter()
            .flat_map(|plan| &plan.rivals)
            .filter(|rival| rival.reason.contains("than the runtime takes"))
            .count()
    };
    let (all, one) = (compile(None), compile(Some(1)));
    assert!(2 <= all.plans.len());
    assert_eq!((one.plans.len(), given_up(&all)), (1, 0));
    assert!(1 <= given_up(&one), "{:?}", one.plans[0].rivals);
}
