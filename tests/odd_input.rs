//! Odd input: what is legal works, what is not ends with status 2 and a message, nothing panics, and no output is half written.

#![allow(clippy::unwrap_used)]

mod common;

use common::{rondo, rondo_with};

/// A job on a ring.
fn job(nodes: &str, size: &str, bandwidth: &str) -> String {
    format!(
        "[topology]\nkind = \"ring\"\nnodes = {nodes}\nbandwidth = \"{bandwidth}\"\nlatency = \"1 us\"\n\n\
         [collective]\nkind = \"all_reduce\"\nbuffer_size = \"{size}\"\n"
    )
}

fn compile(job: &str) -> common::Run {
    rondo_with(&["compile", "-"], job.as_bytes())
}

#[test]
fn one_rank_is_an_empty_schedule() {
    compile(&job("1", "4 KiB", "25 GB/s")).expect(0);
}

#[test]
fn size_zero_and_sizes_that_do_not_divide_are_legal() {
    for size in ["0 B", "4 B", "20 B", "4000004 B"] {
        compile(&job("7", size, "25 GB/s")).expect(0);
    }
}

#[test]
fn unequal_sides_are_legal() {
    let job = "[topology]\nkind = \"torus\"\nsides = [2, 3, 5]\nbandwidth = \"25 GB/s\"\nlatency = \"1 us\"\n\n\
               [collective]\nkind = \"all_to_all\"\nblock_size = \"4 KiB\"\n";
    compile(job).expect(0);
}

#[test]
fn zero_ranks_and_zero_bandwidth_are_refused() {
    compile(&job("0", "4 KiB", "25 GB/s")).expect(2).says("error");
    compile(&job("8", "4 KiB", "0 GB/s")).expect(2).says("at least 1 B/s");
}

#[test]
fn a_bare_number_is_refused_with_what_to_write() {
    let text = job("8", "4 KiB", "25 GB/s").replace("\"25 GB/s\"", "25");
    compile(&text).expect(2).says("25 GB/s");
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    let text = job("8", "4 KiB", "25 GB/s").replace("bandwidth", "bandwith");
    compile(&text).expect(2).says("bandwidth");
}

#[test]
fn all_errors_of_a_file_come_at_once() {
    let text = job("0", "4 KB/s", "25").replace("all_reduce", "allreduce");
    let run = compile(&text).expect(2);
    assert!(3 < run.stderr.matches("error[").count(), "{}", run.stderr);
}

#[test]
fn empty_binary_cut_and_garbage_files_are_refused() {
    for input in [
        b"".to_vec(),
        vec![0_u8, 159, 146, 150, 255, 0, 1],
        job("8", "4 KiB", "25 GB/s").as_bytes()[..61].to_vec(),
        "garbage = [[[\n".repeat(1_000_000).into_bytes(),
        b"x = 1\n".repeat(1_000_000),
    ] {
        for command in ["compile", "verify", "cost"] {
            let run = rondo_with(&[command, "-"], &input).expect(2);
            assert!(run.stderr.contains("error"), "{}", run.stderr);
            assert!(run.stderr.len() < 100_000, "{} bytes of messages", run.stderr.len());
        }
    }
}

#[test]
fn disconnected_ranks_are_refused_and_the_cut_is_named() {
    let job = "[topology]\nkind = \"custom\"\nnode = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }, { name = \"d\" }]\n\
               link = [{ from = \"a\", to = \"b\", capacity = \"1 GB/s\" },\n\
               { from = \"c\", to = \"d\", capacity = \"1 GB/s\" }]\n\n\
               [collective]\nkind = \"all_reduce\"\nbuffer_size = \"4 KiB\"\n";
    let run = compile(job).expect(2);
    for name in ["a", "b", "c", "d"] {
        assert!(run.stderr.contains(name), "{}", run.stderr);
    }
}

#[test]
fn unknown_and_duplicate_nodes_are_refused() {
    let base = "[topology]\nkind = \"custom\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n\
                link = [{ from = \"a\", to = \"b\", capacity = \"1 GB/s\" }]\n\n\
                [collective]\nkind = \"all_reduce\"\nbuffer_size = \"4 KiB\"\n";
    compile(base).expect(0);
    compile(&base.replace("to = \"b\"", "to = \"bb\"")).expect(2).says("bb");
    compile(&base.replace("{ name = \"b\" }", "{ name = \"a\" }")).expect(2).says("a");
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let text = job("8", "4 KiB", "25 GB/s");
    rondo_with(&["compile", "-", "-o", "/nonexistent-folder/plan.json"], text.as_bytes())
        .expect(2)
        .says("cannot write");
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("taken");
    std::fs::create_dir(&target).unwrap();
    rondo_with(&["compile", "-", "-o", target.to_str().unwrap()], text.as_bytes()).expect(2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left");
}

/// Six hops of the longest delay are beyond 64 bits of femtoseconds; both prices are exact.
#[test]
fn very_long_delays_have_one_price() {
    let text = |latency: &str| {
        format!(
            "[topology]\nkind = \"clos\"\ntiers = 3\nradix = 4\nnodes = 16\nbandwidth = \"25 GB/s\"\nlatency = \"{latency}\"\n\
             [collective]\nkind = \"all_reduce\"\nbuffer_size = \"4 KiB\"\n\
             [cost]\nstartup = \"{latency}\"\nsynchronisation = \"{latency}\"\n"
        )
    };
    rondo_with(&["compile", "-", "--no-smt"], text("3600 s").as_bytes()).expect(0);
    rondo_with(&["compile", "-"], text("3601 s").as_bytes()).expect(2).says("one hour");
}

#[test]
fn missing_files_and_unknown_options_are_status_two() {
    rondo(&["compile", "no-such-job.toml"]).expect(2).says("no-such-job.toml");
    rondo(&["verify", "no-such-plan.json"]).expect(2).says("no-such-plan.json");
    rondo(&["explain", "Z999"]).expect(2).says("Z999");
    rondo(&["compile"]).expect(2);
    rondo(&["frobnicate"]).expect(2);
}

#[cfg(unix)]
#[test]
fn a_closed_standard_output_is_no_error() {
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!(
            "'{}' explain | head -n 0; '{}' compile examples/ring8/job.toml -o - >&-; echo $?",
            env!("CARGO_BIN_EXE_rondo"),
            env!("CARGO_BIN_EXE_rondo")
        ))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&status.stderr);
    assert!(!text.contains("panicked") && !text.contains("internal error"), "{text}");
}

#[test]
fn outputs_never_overwrite_the_job_or_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (job_file, plan) = (path("job.toml"), path("plan.json"));
    let text = job("8", "4 KiB", "25 GB/s");
    std::fs::write(&job_file, &text).unwrap();
    rondo(&["compile", &job_file, "-o", &job_file]).expect(2).says("written over");
    assert_eq!(std::fs::read_to_string(&job_file).unwrap(), text);
    rondo(&["compile", &job_file, "-o", &plan, "--emit", &format!("json={plan}")]).expect(2).says("written over");
    rondo(&["compile", &job_file, "-o", "-", "--emit", "json=-"]).expect(2).says("written over");
}

#[test]
fn more_chunks_than_elements_are_refused() {
    let text = job("8", "64 B", "25 GB/s");
    rondo_with(&["compile", "-", "--chunks", "1000000000"], text.as_bytes()).expect(2).says("16 elements");
    rondo_with(&["compile", "-", "--chunks", "0"], text.as_bytes()).expect(2).says("0 chunks");
}

#[test]
fn every_operator_that_a_runtime_has_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.xml");
    let file = file.to_str().unwrap();
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    for operator in ["sum", "prod", "min", "max"] {
        let text = format!("{}operator = \"{operator}\"\n", job("4", "4 KiB", "25 GB/s"));
        let emit = format!("msccl-xml:rccl={file}");
        rondo_with(&["compile", "-", "-o", plan, "--emit", &emit], text.as_bytes()).expect(0);
        rondo(&["verify", file, "--against", plan]).expect(0);
    }
}

#[test]
fn a_file_named_in_a_job_must_be_a_file() {
    let text = "[topology]\nfile = \"/dev/zero\"\n\n[collective]\nkind = \"all_reduce\"\nbuffer_size = \"4 KiB\"\n";
    compile(text).expect(2).says("/dev/zero");
}
