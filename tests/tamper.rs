//! Plans and files with one fault put in after they were compiled. Each is refuted with the spot named, or it is right all the
//! same: then a slow replay that shares nothing with Rondo says so too. Never is a wrong one called verified.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::replay::replay;
use common::simulate::{Machine, Simulated};
use common::{rondo, rondo_with};
use rondo::export::{ExportRequest, Format, check_written, export};
use rondo::pipeline::{Proof, Request, compile, load_job};
use rondo_compiler::front::job::build_problem;
use rondo_ir::profile::RuntimeProfile;
use serde_json::{Value, json};

/// A job: topology section, collective section.
fn job(topology: &str, collective: &str) -> String {
    format!(
        "[topology]\n{topology}\nbandwidth = \"25 GB/s\"\nlatency = \"700 ns\"\n\n[collective]\n{collective}\n\n[cost]\nstartup = \"2 us\"\n"
    )
}

const CUSTOM: &str = "[topology]\nkind = \"custom\"\nforwards = true\nnode = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }]\n\
    link = [{ from = \"a\", to = \"b\", capacity = \"10 GB/s\" }, { from = \"b\", to = \"c\", capacity = \"25 GB/s\" }]\n\n\
    [collective]\nkind = \"custom\"\nbuffer_size = \"4 MiB\"\ninput_slots = [1, 1, 1]\n\
    output = [[\"r0[0] + r1[0]\"], [\"r2[0]\"], [\"r0[0] + r1[0] + r2[0]\"]]\n";

/// Name, job, options of `compile`.
fn jobs() -> Vec<(&'static str, String, Vec<&'static str>)> {
    let all_reduce = "kind = \"all_reduce\"\nbuffer_size = \"1 MiB\"";
    let in_place = "kind = \"all_reduce\"\nbuffer_size = \"1 MiB\"\nin_place = true";
    let all_gather = "kind = \"all_gather\"\nbuffer_size = \"1152 KiB\"";
    let all_to_all = "kind = \"all_to_all\"\nblock_size = \"64 KiB\"";
    let scatter = "kind = \"reduce_scatter\"\nblock_size = \"64 KiB\"";
    vec![
        ("ring", job("kind = \"ring\"\nnodes = 8", all_reduce), vec!["--algorithm", "ring-two-way", "--chunks", "1"]),
        ("ring in place", job("kind = \"ring\"\nnodes = 5", in_place), vec!["--algorithm", "ring"]),
        ("torus", job("kind = \"torus\"\nsides = [3, 3]", all_gather), vec!["--algorithm", "torus-rotated"]),
        (
            "halving-doubling",
            job("kind = \"hypercube\"\ndimensions = 3", in_place),
            vec!["--algorithm", "halving-doubling"],
        ),
        ("folded", job("kind = \"switch\"\nnodes = 6", all_reduce), vec!["--algorithm", "recursive-doubling"]),
        ("all_to_all", job("kind = \"torus\"\nsides = [2, 3]", all_to_all), vec![]),
        ("reduce_scatter", job("kind = \"mesh\"\nnodes = 4", scatter), vec!["--algorithm", "direct"]),
        ("custom", CUSTOM.to_owned(), vec![]),
    ]
}

/// The plan of a job, without what it claims to cost.
fn plan(job: &str, options: &[&str]) -> Value {
    let mut arguments = vec!["compile", "-", "-o", "-", "--no-smt"];
    arguments.extend(options);
    let run = rondo_with(&arguments, job.as_bytes()).expect(0);
    let mut plan: Value = serde_json::from_str(&run.stdout).expect("JSON");
    plan.as_object_mut().expect("an object").remove("claimed").expect("a plan claims its price");
    plan
}

fn flows(plan: &mut Value, step: usize) -> &mut Vec<Value> {
    plan["schedule"]["steps"][step]["flows"].as_array_mut().expect("flows")
}

/// Every way to change one flow, with its name.
fn changes(row: &Value, routes: u64) -> Vec<(&'static str, Value)> {
    let number = |column: usize| row[column].as_u64().expect("a number");
    let with = |column: usize, value: Value| {
        let mut changed = row.clone();
        changed[column] = value;
        changed
    };
    let mut list = vec![
        ("source moved", with(2, json!(number(2) + 1))),
        ("destination moved", with(5, json!(number(5) + 1))),
        ("one more slot", with(6, json!(number(6) + 1))),
        ("copy and reduce exchanged", with(7, json!(if row[7] == "copy" { "reduce" } else { "copy" }))),
    ];
    if 0 < number(5) {
        list.push(("destination moved back", with(5, json!(number(5) - 1))));
    }
    if 1 < number(6) {
        list.push(("one slot less", with(6, json!(number(6) - 1))));
    }
    if let Some(route) = row[8].as_u64() {
        list.push(("another route", with(8, json!((route + 1) % routes))));
        list.push(("no route", with(8, json!("local"))));
    } else {
        list.push(("a route for local work", with(8, json!(0))));
    }
    list
}

/// All plans with one fault: name and content. Every `stride`-th flow is changed.
fn mutants(plan: &Value, stride: usize) -> Vec<(String, Value)> {
    let steps = plan["schedule"]["steps"].as_array().expect("steps").len();
    let routes = plan["schedule"]["routes"].as_array().expect("routes").len() as u64;
    let mut list = Vec::new();
    let mut number = 0;
    for step in 0..steps {
        let rows = flows(&mut plan.clone(), step).clone();
        for (index, row) in rows.iter().enumerate() {
            number += 1;
            if number % stride != 0 {
                continue;
            }
            let mut add = |name: String, change: &dyn Fn(&mut Value)| {
                let mut changed = plan.clone();
                change(&mut changed);
                list.push((format!("step {step}, flow {index} {row}: {name}"), changed));
            };
            add("dropped".to_owned(), &|p| drop(flows(p, step).remove(index)));
            add("repeated at once".to_owned(), &|p| flows(p, step).push(row.clone()));
            if step + 1 < steps {
                add("repeated a step later".to_owned(), &|p| flows(p, step + 1).push(row.clone()));
                add("a step later".to_owned(), &|p| {
                    let moved = flows(p, step).remove(index);
                    flows(p, step + 1).push(moved);
                });
            }
            for (name, changed) in changes(row, routes) {
                add(format!("{name}: {changed}"), &|p| flows(p, step)[index] = changed.clone());
            }
        }
    }
    for first in 0..steps {
        for second in first + 1..steps {
            let mut changed = plan.clone();
            changed["schedule"]["steps"].as_array_mut().expect("steps").swap(first, second);
            list.push((format!("steps {first} and {second} swapped"), changed));
        }
    }
    list
}

/// Writes the files and verifies all of them in one run; the report of each.
fn verify_all(folder: &Path, ending: &str, texts: &[String], options: &[&str]) -> (i32, Vec<Value>) {
    let paths: Vec<PathBuf> = (0..texts.len()).map(|index| folder.join(format!("{index:05}.{ending}"))).collect();
    for (path, text) in paths.iter().zip(texts) {
        std::fs::write(path, text).expect("written");
    }
    let mut arguments = vec!["verify", "--output-format", "json", "--no-smt"];
    arguments.extend(options);
    arguments.extend(paths.iter().map(|path| path.to_str().expect("text")));
    let run = rondo(&arguments);
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    let files = report["files"].as_array().expect("files").clone();
    assert_eq!(files.len(), texts.len());
    (run.code, files)
}

/// Whether findings name a flow, a step, a rank or a place.
fn names_the_spot(report: &Value) -> bool {
    let findings = report["findings"].as_array().expect("findings");
    let numbered = |word: &str, letter: char| {
        word.strip_prefix(letter).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    findings.iter().any(|finding| {
        let text = finding["message"].as_str().expect("a message");
        text.split(|c: char| !c.is_alphanumeric()).any(|word| ['f', 's', 'r'].iter().any(|&c| numbered(word, c)))
    })
}

#[test]
fn every_change_of_a_plan_is_refuted_with_the_spot_or_harmless() {
    let mut harmless = 0;
    let mut refuted = 0;
    for (name, job, options) in jobs() {
        let plan = plan(&job, &options);
        assert_eq!(replay(&plan), Ok(()), "{name}: the replay of this test is wrong");
        let flow_count: usize =
            plan["schedule"]["steps"].as_array().unwrap().iter().map(|s| s["flows"].as_array().unwrap().len()).sum();
        let mutants = mutants(&plan, 1 + flow_count / 40);
        let texts: Vec<String> = mutants.iter().map(|(_, plan)| plan.to_string()).collect();
        let folder = tempfile::tempdir().unwrap();
        let (code, reports) = verify_all(folder.path(), "json", &texts, &[]);
        assert_eq!(code, 1);
        for ((what, mutant), report) in mutants.iter().zip(&reports) {
            let truth = replay(mutant);
            match report["verdict"].as_str().unwrap() {
                "verified" => {
                    assert_eq!(truth, Ok(()), "{name}, {what}: called verified");
                    harmless += 1;
                }
                "refuted" => {
                    assert_ne!(truth, Ok(()), "{name}, {what}: right, but refuted: {report:#}");
                    assert!(names_the_spot(report), "{name}, {what}: no spot in {report:#}");
                    refuted += 1;
                }
                other => panic!("{name}, {what}: {other}: {report:#}"),
            }
        }
    }
    assert!(1500 < refuted && 0 < harmless, "{refuted} refuted, {harmless} harmless");
}

/// The same faults, one at a time, as a person meets them: status 1, and standard error shows the line of the file.
#[test]
fn a_person_sees_where_the_fault_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    let path = file.to_str().unwrap();
    rondo(&["compile", "examples/ring8/job.toml", "-o", path]).expect(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let reduces: Vec<usize> = (0..lines.len()).filter(|&line| lines[line].contains("\"reduce\",")).collect();
    assert!(20 < reduces.len());
    let line = reduces[10];
    let verify = |lines: &[String]| {
        std::fs::write(&file, lines.join("\n")).unwrap();
        rondo(&["verify", path]).expect(1)
    };
    let owned: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();

    let mut dropped = owned.clone();
    dropped.remove(line);
    let run = verify(&dropped).says("lacks");
    assert!(run.stderr.contains("plan.json:"), "{}", run.stderr);
    assert!(run.stdout.contains("refuted"), "{}", run.stdout);

    let mut exchanged = owned.clone();
    exchanged[line] = exchanged[line].replace("\"reduce\"", "\"copy\"");
    verify(&exchanged).says("plan.json:");

    let mut repeated = owned.clone();
    repeated.insert(line, owned[line].clone());
    verify(&repeated).says("plan.json:");

    // A place that no buffer has: the very line is shown.
    let mut outside = owned.clone();
    outside[line] = owned[line].replacen("\"o\",", "\"o\",1000", 1);
    assert_ne!(outside[line], owned[line]);
    verify(&outside).says(&format!("plan.json:{}:", line + 1));

    let mut route = owned.clone();
    let (head, tail) = owned[line].rsplit_once(',').unwrap_or_else(|| panic!("{}", owned[line]));
    let (head, tail) = if tail.is_empty() { head.rsplit_once(',').unwrap() } else { (head, tail) };
    let other = if tail.starts_with("0]") { "1]" } else { "0]" };
    route[line] = format!("{head},{other}{}", if owned[line].ends_with(',') { "," } else { "" });
    verify(&route).says(&format!("plan.json:{}:", line + 1)).says("over a route");
}

#[test]
fn false_claims_are_refuted_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    let path = file.to_str().unwrap();
    rondo(&["compile", "examples/ring8/job.toml", "-o", path]).expect(0);
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let claims = |change: &dyn Fn(&mut Value)| {
        let mut changed = plan.clone();
        change(&mut changed);
        std::fs::write(&file, changed.to_string()).unwrap();
        rondo(&["verify", path])
    };
    let time = plan["claimed"]["time"].as_str().unwrap().to_owned();
    claims(&|p| p["claimed"]["time"] = json!("1/1000000")).expect(1).says("claims a time").says("X010");
    claims(&|p| p["claimed"]["steps"] = json!([time])).expect(1).says("the times of 1 steps").says("X010");
    claims(&|p| p["problem"]["cost"]["startup"] = json!("3 us")).expect(1).says("claims a time");
    claims(&|p| p["problem"]["topology"]["links"][0][2] = json!("24 GB/s")).expect(1).says("claims a time");
    claims(&|p| p["claimed"]["time"] = json!("about a minute")).expect(2).says("claimed");

    let collective = |name: &str| {
        claims(&|p| {
            p.as_object_mut().unwrap().remove("claimed");
            p["problem"]["groups"][0]["collective"]["kind"] = json!(name);
        })
    };
    for name in ["all_gather", "reduce_scatter", "all_to_all"] {
        collective(name).expect(1);
    }
    collective("send_receive").expect(2).says("targets");
    collective("allreduce").expect(2).says("all_reduce");
    // In place the copies from input to output are of no effect, and the plan is right still.
    let in_place = |p: &mut Value| p["problem"]["groups"][0]["collective"]["in_place"] = json!(true);
    let mut changed = plan.clone();
    in_place(&mut changed);
    assert_eq!(replay(&changed), Ok(()));
    claims(&in_place).expect(0);
    claims(&|p| p["problem"]["groups"][0]["collective"]["operator"] = json!("avg")).expect(0);
    claims(&|p| p["schedule"]["chunks"] = json!([15])).expect(1);
    claims(&|p| p["schedule"]["chunks"] = json!([17])).expect(1);
    claims(&|p| p["problem"]["topology"]["links"][0] = json!([0, 1, "25 GB/s", "700 ns", "down"]))
        .expect(1)
        .says("down");
    claims(&|p| p["problem"]["placement"] = json!([1, 0, 2, 3, 4, 5, 6, 7])).expect(1);
    claims(&|_| {}).expect(0);
}

#[test]
fn a_plan_for_another_job_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    let path = file.to_str().unwrap();
    rondo(&["compile", "examples/ring8/job.toml", "-o", path]).expect(0);
    rondo(&["verify", path, "--against", "examples/ring8/job.toml"]).expect(0);
    let text = std::fs::read_to_string(common::path("examples/ring8/job.toml")).unwrap();
    let other = folder.path().join("job.toml");
    let against = |from: &str, to: &str| {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        std::fs::write(&other, changed).unwrap();
        rondo(&["verify", path, "--against", other.to_str().unwrap()]).expect(1).says("X011")
    };
    against("nodes = 8", "nodes = 9");
    against("1 MiB", "2 MiB").says("2 MiB");
    against("all_reduce", "all_gather").says("all_gather");
    against("25 GB/s", "50 GB/s").says("topology");
    against("startup = \"2 us\"", "startup = \"1 us\"").says("cost");
    against("buffer_size = \"1 MiB\"", "buffer_size = \"1 MiB\"\noperator = \"max\"").says("max");
    against("buffer_size = \"1 MiB\"", "buffer_size = \"1 MiB\"\nin_place = true").says("in place");
}

/// Files written from jobs: name, XML.
fn xml_files() -> Vec<(&'static str, String)> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (index, (name, job, options)) in jobs().into_iter().enumerate() {
        if name == "custom" {
            continue;
        }
        let format = ["msccl-xml:msccl", "msccl-xml:rccl", "msccl-xml:azure"][index % 3];
        let path = folder.path().join("plan.xml");
        let emit = format!("{format}={}", path.display());
        let mut arguments = vec!["compile", "-", "--no-smt", "--emit", &emit];
        arguments.extend(options);
        rondo_with(&arguments, job.as_bytes()).expect(0);
        files.push((name, std::fs::read_to_string(&path).unwrap()));
    }
    files
}

/// Files with one fault: name and text.
fn xml_mutants(text: &str, stride: usize) -> Vec<(String, String)> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_step = |line: usize| lines.get(line).is_some_and(|text| text.trim_start().starts_with("<step"));
    let mut list = Vec::new();
    let mut add = |name: String, changed: &[String]| {
        if changed != lines {
            list.push((name, common::renumbered(changed)));
        }
    };
    let steps: Vec<usize> = (0..lines.len()).filter(|&line| is_step(line)).collect();
    for &line in steps.iter().step_by(stride) {
        let what = lines[line].trim();
        let mut with = |name: &str, to: String| {
            let mut changed = lines.clone();
            changed[line] = to;
            add(format!("line {} {what}: {name}", line + 1), &changed);
        };
        let number = |key: &str| common::attribute(&lines[line], key).parse::<i64>().unwrap();
        let set = |key: &str, value: &str| common::with_attribute(&lines[line], key, value);
        with("destination shifted", set("dstoff", &(number("dstoff") + 1).to_string()));
        with("source shifted", set("srcoff", &(number("srcoff") + 1).to_string()));
        with("waits for nothing", common::with_attribute(&set("depid", "-1"), "deps", "-1"));
        if 0 < number("deps") {
            with("waits for an earlier one", set("deps", &(number("deps") - 1).to_string()));
        }
        with("does not say that it is done", set("hasdep", "0"));
        let kind = common::attribute(&lines[line], "type");
        for (from, to) in
            [("rrc", "r"), ("r", "rrc"), ("re", "cpy"), ("cpy", "re"), ("s", "nop"), ("rrcs", "rcs"), ("rrs", "rrcs")]
        {
            if kind == from {
                with(&format!("{to} instead"), set("type", to));
            }
        }
        with("one chunk more", set("cnt", &(number("cnt") + 1).to_string()));
        let mut dropped = lines.clone();
        dropped.remove(line);
        add(format!("line {} {what}: dropped", line + 1), &dropped);
        if is_step(line + 1) {
            let mut swapped = lines.clone();
            swapped.swap(line, line + 1);
            add(format!("line {} {what}: swapped with the next", line + 1), &swapped);
        }
        let mut repeated = lines.clone();
        repeated.insert(line, lines[line].clone());
        add(format!("line {} {what}: repeated", line + 1), &repeated);
    }
    list
}

#[test]
fn every_change_of_an_xml_file_is_refuted_or_runs_right_in_every_order_tried() {
    let mut refuted = 0;
    let mut harmless = 0;
    for (name, text) in xml_files() {
        let machine = Machine::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for seed in 0..20 {
            assert_eq!(machine.run(seed), Simulated::Right, "{name}: the machine of this test is wrong");
        }
        let steps = text.matches("<step").count();
        let mutants = xml_mutants(&text, 1 + steps / 16);
        let texts: Vec<String> = mutants.iter().map(|(_, text)| text.clone()).collect();
        let folder = tempfile::tempdir().unwrap();
        let (code, reports) = verify_all(folder.path(), "xml", &texts, &[]);
        assert_eq!(code, 1, "{name}");
        for ((what, text), report) in mutants.iter().zip(&reports) {
            match report["verdict"].as_str().unwrap() {
                "verified" => {
                    let machine = Machine::read(text).unwrap_or_else(|error| panic!("{name}, {what}: {error}"));
                    for seed in 0..30 {
                        let outcome = machine.run(seed);
                        assert_eq!(outcome, Simulated::Right, "{name}, {what}: called verified");
                    }
                    harmless += 1;
                }
                "refuted" => {
                    assert!(names_the_spot(report), "{name}, {what}: no spot in {report:#}");
                    refuted += 1;
                }
                // Some faults make a file that the runtime's reader refuses.
                "unreadable" => {
                    assert!(report["findings"][0]["message"].is_string(), "{name}, {what}");
                    refuted += 1;
                }
                other => panic!("{name}, {what}: {other}: {report:#}"),
            }
        }
    }
    assert!(500 < refuted && 0 < harmless, "{refuted} refuted, {harmless} harmless");
}

/// Two correct AllReduces of one job: the file of one is not taken for the other.
#[test]
fn another_correct_all_reduce_is_not_this_schedule() {
    let text = std::fs::read(common::path("examples/ring8/job.toml")).unwrap();
    let loaded = load_job("job.toml", &text, Path::new(".")).unwrap();
    let problem = Arc::new(build_problem(&loaded.job, &loaded.fabric).unwrap());
    let collective = problem.groups()[0].collective().clone();
    let proof = Proof { smt: false, ..Proof::default() };
    let algorithms = ["ring", "ring-two-way", "direct", "halving-doubling", "recursive-doubling", "all-pairs"];
    let plans: Vec<_> = algorithms
        .iter()
        .map(|name| {
            let request = Request { algorithm: (*name).to_owned(), chunks: None, ..Request::auto() };
            let compiled = compile(&problem, &loaded.fabric, &request, &proof).unwrap();
            let format = Format::MscclXml(&RuntimeProfile::MSCCL);
            let file = export(&compiled.plan, &ExportRequest::new(format)).unwrap();
            (compiled.plan, file.text)
        })
        .collect();
    for (a, (plan, _)) in plans.iter().enumerate() {
        for (b, (_, text)) in plans.iter().enumerate() {
            let answer = check_written(plan, &collective, text);
            let case = format!("plan {}, file {}", algorithms[a], algorithms[b]);
            assert_eq!(answer.is_ok(), a == b, "{case}: {answer:?}");
            if let Err(findings) = answer {
                assert!(!findings[0].message.is_empty(), "{case}");
            }
        }
    }
    // The ring file with every rank called by the number of the next: a correct AllReduce, but each block starts elsewhere.
    let (plan, text) = &plans[0];
    let mut turned = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        let keys: &[&str] = match line.trim_start().split(' ').next() {
            Some("<gpu") => &["id"],
            Some("<tb") => &["send", "recv"],
            _ => &[],
        };
        for key in keys {
            if let Ok(rank) = common::attribute(&line, key).parse::<u32>() {
                line = common::with_attribute(&line, key, &((rank + 1) % 8).to_string());
            }
        }
        turned.push_str(&line);
        turned.push('\n');
    }
    rondo_with(&["verify", "-"], turned.as_bytes()).expect(0);
    assert!(check_written(plan, &collective, text).is_ok());
    if let Ok(checked) = check_written(plan, &collective, &turned) {
        panic!("each block takes another way, but: {checked}");
    }
}

#[test]
fn a_file_is_compared_with_the_plan_that_it_should_be() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| folder.path().join(file).display().to_string();
    let (plan, own, other) = (name("plan.json"), name("own.xml"), name("other.xml"));
    let job = "examples/ring8/job.toml";
    let emit = format!("msccl-xml:azure={own}");
    rondo(&["compile", job, "--no-smt", "--algorithm", "ring", "-o", &plan, "--emit", &emit]).expect(0);
    let emit = format!("msccl-xml:azure={other}");
    rondo(&["compile", job, "--no-smt", "--algorithm", "direct", "--emit", &emit]).expect(0);
    rondo(&["verify", &own, &other]).expect(0);
    rondo(&["verify", &own, "--against", &plan]).expect(0);
    rondo(&["verify", &other, "--against", &plan]).expect(1);
}
