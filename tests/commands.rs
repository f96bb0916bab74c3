//! Every command and option, as a person or a script meets them.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{path, rondo, rondo_with};
use serde_json::Value;

const JOB: &str = "examples/ring8/job.toml";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Keys of an error, a finding and a message.
const FINDING: &[&str] = &["code", "severity", "message", "file", "line", "column", "places", "notes", "help"];

/// Demands exactly these keys.
#[track_caller]
fn has_keys(value: &Value, keys: &[&str]) {
    let mut found: Vec<_> = value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().collect();
    let mut wanted = keys.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// A folder with the plan of the example, and its files.
fn compiled() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json").display().to_string();
    let xml = folder.path().join("plan.xml").display().to_string();
    rondo(&["compile", JOB, "--no-smt", "-o", &plan, "--emit", &format!("msccl-xml:azure={xml}")]).expect(0);
    (folder, plan, xml)
}

#[test]
fn every_command_has_help_that_names_its_options() {
    let commands: [&[&str]; 15] = [
        &[],
        &["compile"],
        &["verify"],
        &["export"],
        &["cost"],
        &["thresholds"],
        &["topology"],
        &["topology", "show"],
        &["topology", "import"],
        &["reproduce"],
        &["sweep"],
        &["compare"],
        &["training"],
        &["explain"],
        &["completions"],
    ];
    for command in commands {
        for flag in ["--help", "-h"] {
            let run = rondo(&[command, &[flag]].concat()).expect(0);
            assert!(run.stdout.contains("Usage: rondo"), "{command:?}: {}", run.stdout);
            assert!(run.stdout.contains("--output-format"), "{command:?}: {}", run.stdout);
            assert!(run.stderr.is_empty(), "{command:?}: {}", run.stderr);
            assert!(run.stdout.lines().all(|line| line.chars().count() <= 100), "{command:?}: a line is too wide");
        }
    }
    let version = rondo(&["--version"]).expect(0);
    assert_eq!(version.stdout, format!("rondo {}\n", env!("CARGO_PKG_VERSION")));
    let bare = rondo(&[]).expect(2);
    assert!((bare.stdout + &bare.stderr).contains("Usage"));
}

/// The commands that the help texts recommend are right, where they name files of the repository.
#[test]
fn examples_in_help_texts_run() {
    let mut ran = 0;
    for command in ["compile", "cost", "topology show"] {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = rondo(&arguments).expect(0).stdout;
        for line in help.lines().filter_map(|line| line.trim().strip_prefix("rondo ")) {
            let words: Vec<&str> = line.split(' ').collect();
            let runs = words.iter().any(|word| word.starts_with("examples/")) && !line.contains('=');
            if runs && !words.contains(&"-o") {
                rondo(&words).expect(0);
                ran += 1;
            }
        }
    }
    assert!(3 <= ran, "{ran}");
}

#[test]
fn compile_reports_as_json() {
    let (folder, plan, xml) = compiled();
    let emit = format!("msccl-xml:rccl={xml}");
    let run = rondo(&["compile", JOB, "--output-format", "json", "-o", &plan, "--emit", &emit]).expect(0);
    let report = json(&run.stdout);
    has_keys(
        &report,
        &[
            "command",
            "verdict",
            "problem",
            "schedule",
            "price",
            "circuits",
            "candidates",
            "checks",
            "findings",
            "defaults",
            "files",
            "messages",
        ],
    );
    assert_eq!(report["command"], "compile");
    assert_eq!(report["verdict"], "verified");
    assert_eq!(report["problem"]["collectives"][0]["buffer_bytes"], 1 << 20);
    let candidates = report["candidates"].as_array().unwrap();
    assert_eq!(candidates.iter().filter(|c| c["chosen"] == true).count(), 1);
    let times: Vec<f64> = candidates.iter().filter_map(|c| c["time"]["seconds"].as_f64()).collect();
    assert!(5 < times.len() && times.is_sorted(), "{times:?}");
    assert!(candidates.iter().all(|c| !c["reason"].as_str().unwrap().is_empty()));
    // The report's price is the plan's claim.
    let text = std::fs::read_to_string(&plan).unwrap();
    assert_eq!(json(&text)["claimed"]["time"], report["price"]["time"]["exact"]);
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    for file in files {
        has_keys(file, &["file", "bytes", "checked"]);
        assert_eq!(std::fs::metadata(file["file"].as_str().unwrap()).unwrap().len(), file["bytes"].as_u64().unwrap());
    }
    drop(folder);
}

#[test]
fn verify_reports_as_json_and_as_sarif() {
    let (folder, plan, xml) = compiled();
    let bad = folder.path().join("bad.json").display().to_string();
    let text = std::fs::read_to_string(&plan).unwrap();
    let line = text.lines().position(|line| line.contains("\"reduce\"")).unwrap();
    let broken: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(at, text)| if at == line { text.replacen("\"o\",", "\"o\",99", 1) } else { text.to_owned() })
        .collect();
    std::fs::write(&bad, broken.join("\n")).unwrap();

    let run = rondo(&["verify", &plan, &xml, &bad, "/no/such/file.json", "--output-format", "json"]).expect(1);
    let report = json(&run.stdout);
    has_keys(&report, &["command", "files", "messages"]);
    assert_eq!(report["command"], "verify");
    let files = report["files"].as_array().unwrap();
    let verdicts: Vec<_> = files.iter().map(|file| file["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["verified", "verified", "refuted", "unreadable"]);
    for file in files {
        has_keys(file, &["file", "verdict", "format", "against", "checks", "findings", "runtimes"]);
    }

    let finding = &files[2]["findings"][0];
    has_keys(finding, FINDING);
    assert_eq!((&finding["file"], &finding["line"]), (&bad.as_str().into(), &(line + 1).into()));

    let run = rondo(&["verify", &plan, &bad, "--output-format", "sarif"]).expect(1);
    let report = json(&run.stdout);
    has_keys(&report, &["$schema", "version", "runs"]);
    assert_eq!(report["version"], "2.1.0");
    let driver = &report["runs"][0]["tool"]["driver"];
    assert_eq!(driver["name"], "rondo");
    let results = report["runs"][0]["results"].as_array().unwrap();
    assert!(!results.is_empty());
    let rules: Vec<_> = driver["rules"].as_array().unwrap().iter().map(|rule| rule["id"].clone()).collect();
    for result in results {
        assert!(rules.contains(&result["ruleId"]), "{result}");
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
    }
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"].as_str().unwrap(), bad);
    assert_eq!(place["region"]["startLine"].as_u64().unwrap(), line as u64 + 1);
    let good = json(&rondo(&["verify", &plan, "--output-format", "sarif"]).expect(0).stdout);
    assert_eq!(good["runs"][0]["results"].as_array().unwrap().len(), 0);
}

#[test]
fn the_other_commands_report_as_json() {
    let (folder, plan, _) = compiled();
    for file in [JOB, &plan] {
        let report = json(&rondo(&["cost", file, "--output-format", "json"]).expect(0).stdout);
        has_keys(&report, &["command", "problem", "algorithm", "price", "messages"]);
        has_keys(
            &report["price"],
            &["time", "algorithm_bandwidth", "bus_bandwidth", "bound", "gap", "bandwidth_gap", "steps"],
        );
        assert_eq!(report["price"]["bandwidth_gap"], "1", "a two-way ring reaches the bound of its links");
    }
    let xml = folder.path().join("out.xml").display().to_string();
    let run = rondo(&["export", &plan, "--to", "msccl-xml:msccl", "-o", &xml, "--output-format", "json"]).expect(0);
    has_keys(&json(&run.stdout), &["command", "file", "bytes", "checked", "messages"]);
    let report = json(&rondo(&["topology", "show", JOB, "--output-format", "json"]).expect(0).stdout);
    has_keys(&report, &["command", "topology", "messages"]);
    assert_eq!(report["topology"]["compute_nodes"], 8);
    assert!(json(&rondo(&["explain", "--output-format", "json"]).expect(0).stdout).is_array());
}

/// The sources without their tests and comments.
fn sources() -> String {
    let mut out = String::new();
    for folder in ["src", "ir/src", "compiler/src", "backends/src", "verify/src"] {
        for file in common::files(folder, ".rs") {
            let name = file.strip_prefix(path("")).unwrap().to_str().unwrap();
            if name.contains("/tests/") || name.ends_with("/tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let code =
                text.split("\nmod tests {").next().unwrap().lines().filter(|line| !line.trim_start().starts_with("//"));
            code.for_each(|line| out.extend([line, "\n"]));
        }
    }
    out
}

/// Each code of the registry stands in the sources where something is found, too, or a rule of MSCCL XML has it (its own tests
/// break every rule); and each code in the sources is in the registry.
#[test]
fn every_code_can_come_and_every_code_is_known() {
    let sources = sources();
    let known: Vec<&str> = rondo::cli::all_codes().iter().map(|entry| entry.code).collect();
    let rules: Vec<&str> = rondo::backends::msccl_xml::RULES.iter().map(|rule| rule.entry.code).collect();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for code in &known {
        let literal = format!("\"{code}\"");
        // `const NAME: &str = "V900"`, or `Name = "V001"` in the table that makes an enum.
        let name = sources.split_once(&format!(" = {literal}")).map(|(before, _)| {
            let (before, constant) = before.strip_suffix(": &str").map_or((before, ""), |before| (before, "const "));
            let name = &before[before.rfind(|c| !word(c)).map_or(0, |at| at + 1)..];
            if constant.is_empty() { format!("Code::{name}") } else { name.to_owned() }
        });
        let uses = match &name {
            Some(name) => sources.split(name.as_str()).skip(1).filter(|rest| !rest.starts_with(word)).count(),
            None => sources.matches(&literal).count(),
        };
        let declared = usize::from(!name.as_ref().is_some_and(|name| name.starts_with("Code::")));
        assert!(declared < uses || rules.contains(code), "nothing gives {code}");
    }
    let quoted = sources.split('"').filter(|text| {
        let (letter, digits) = text.split_at_checked(1).unwrap_or_default();
        "TCJPBVX".contains(letter) && digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit())
    });
    for code in quoted {
        // The V100 is a GPU.
        assert!(code == "V100" || known.contains(&code), "{code} is not in the registry");
    }
}

#[test]
fn every_code_is_explained() {
    let list = json(&rondo(&["explain", "--output-format", "json"]).expect(0).stdout);
    let list = list.as_array().unwrap();
    let text = rondo(&["explain"]).expect(0).stdout;
    assert!(100 < list.len() && text.lines().count() == list.len());
    let mut codes: Vec<&str> = list.iter().map(|entry| entry["code"].as_str().unwrap()).collect();
    // One run a letter; the others are the same table.
    for entry in list {
        has_keys(entry, &["code", "title", "explanation"]);
        assert!(20 < entry["explanation"].as_str().unwrap().len(), "{entry}");
    }
    for code in &codes {
        let shown = rondo(&["explain", &code.to_lowercase()]).expect(0).stdout;
        assert!(shown.starts_with(&format!("{code}: ")), "{shown}");
    }
    let count = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), count, "a code stands for two things");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = rondo(&["completions", shell]).expect(0).stdout;
        for word in ["compile", "verify", "--against", "topology"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    rondo(&["completions", "tcsh"]).expect(2).says("bash");
}

#[test]
fn calibration_finds_the_parameters_that_made_the_table() {
    // A ring over 8 GPUs on a switch: 14 steps of 2 hops at 0.5 us; an eighth of the message each. The table is made
    // with a start-up of 5 us and 20 GB/s, while the job says otherwise.
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.toml");
    std::fs::write(
        &job,
        "[topology]\nkind = \"switch\"\nnodes = 8\nbandwidth = \"25 GB/s\"\nlatency = \"500 ns\"\n\n[collective]\n\
         kind = \"all_reduce\"\nbuffer_size = \"1 MiB\"\n\n[compile]\nalgorithm = \"ring\"\nchunks = 8\n\n\
         [cost]\nstartup = \"1 us\"\nreduce_cost = \"0 s/B\"\n",
    )
    .unwrap();
    let mut table = String::from(
        "# nThread 1 nGpus 8\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n",
    );
    for exponent in 10..28 {
        let size = 1_u64 << exponent;
        let time = 14.0 * (5.0 + 2.0 * 0.5) + 14.0 / 8.0 * size as f64 / 20_000.0;
        table.push_str(&format!(
            "{size:>12} {:>12}     float     sum      -1 {time:>8.2}    1.00    1.00      0 {time:>8.2}    1.00    1.00      0\n",
            size / 4
        ));
    }
    table.push_str("# Avg bus bandwidth    : 1.0\n");
    let file = folder.path().join("table.txt");
    std::fs::write(&file, table).unwrap();
    let (job, file) = (job.to_str().unwrap(), file.to_str().unwrap());
    let report = json(&rondo(&["cost", job, "--calibrate", file, "--output-format", "json"]).expect(0).stdout);
    let close = |key: &str, wanted: f64| {
        let found = report[key].as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 0.01, "{key}: {found}, not {wanted}");
    };
    close("startup_seconds", 5e-6);
    close("bytes_per_second", 20e9);
    assert!(report["rms"].as_f64().unwrap() < 0.001, "{report:#}");
    assert_eq!(report["residuals"].as_array().unwrap().len(), 18);
    let text = rondo(&["cost", job, "--calibrate", file]).expect(0).stdout;
    assert!(text.contains("start-up") && text.contains("residual"), "{text}");
    assert!(text.contains("startup = \"5000 ns\"") && text.contains("bandwidth = \"20000 MB/s\""), "{text}");
    rondo(&["cost", job, "--calibrate", job]).expect(2);
    rondo(&["cost", job, "--calibrate", "/no/such/table"]).expect(2).says("/no/such/table");
}

#[test]
fn tables_of_two_algorithms_tell_the_hop_delay_from_the_start_up() {
    // A ring of 8: `ring` takes 14 steps of 1 hop and an eighth each; halving and doubling takes 3 and 3 steps of 1, 2 and 4
    // hops, whose busiest links carry 1/2, 2·1/4 and 2·1/8 (the way to the opposite rank is split) of the vector.
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, text).unwrap();
        path
    };
    let job = file(
        "job.toml",
        "[topology]\nkind = \"ring\"\nnodes = 8\nbandwidth = \"25 GB/s\"\nlatency = \"500 ns\"\n\n[collective]\n\
         kind = \"all_reduce\"\nbuffer_size = \"1 MiB\"\n\n[cost]\nreduce_cost = \"0 s/B\"\n",
    );
    let table = |steps: f64, hops: f64, share: f64| {
        let line = |exponent: u32| {
            let size = 1_u64 << exponent;
            let time = steps * 3.0 + hops * 0.7 + share * size as f64 / 40_000.0;
            format!("{size} {} float sum -1 {time} 1 1 0 {time} 1 1 0\n", size / 4)
        };
        (10..28).map(line).collect::<String>()
    };
    let ring = format!("ring={}", file("ring.txt", &table(14.0, 14.0, 14.0 / 8.0)));
    let halving = format!("halving-doubling={}", file("halving.txt", &table(6.0, 14.0, 2.0 * (0.5 + 0.5 + 0.25))));
    let report = |files: &[&str]| {
        let files = files.iter().flat_map(|file| ["--calibrate", file]);
        let arguments: Vec<&str> = ["cost", &job, "--output-format", "json"].into_iter().chain(files).collect();
        json(&rondo(&arguments).expect(0).stdout)
    };
    let both = report(&[&ring, &halving]);
    assert_eq!(both["hop_delay_fitted"], true);
    for (key, wanted) in [("startup_seconds", 3e-6), ("hop_delay_seconds", 0.7e-6), ("bytes_per_second", 40e9)] {
        let found = both[key].as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 0.01, "{key}: {found}, not {wanted}");
    }
    assert_eq!(report(&[&ring])["hop_delay_fitted"], false);
    rondo(&["cost", &job, "--calibrate", &ring, "--calibrate", &format!("halving-doubling={job}")])
        .expect(2)
        .says("job.toml");
}

#[test]
fn against_a_job_a_file_is_right_or_wrong() {
    let (folder, plan, xml) = compiled();
    rondo(&["verify", &plan, &xml, "--against", JOB]).expect(0);
    let text = std::fs::read_to_string(path(JOB)).unwrap();
    let other = folder.path().join("other.toml").display().to_string();
    for (from, to) in
        [("all_reduce", "all_gather"), ("nodes = 8", "nodes = 4"), ("\"1 MiB\"", "\"1 MiB\"\nin_place = true")]
    {
        std::fs::write(&other, text.replace(from, to)).unwrap();
        for file in [&plan, &xml] {
            rondo(&["verify", file, "--against", &other]).expect(1).says("X011");
        }
    }
    std::fs::write(&other, "nonsense").unwrap();
    rondo(&["verify", &plan, "--against", &other]).expect(2);
    rondo(&["verify", &plan, "--against", "/no/such/job.toml"]).expect(2).says("/no/such/job.toml");
}

#[test]
fn a_named_runtime_must_be_able_to_load_the_file() {
    let (folder, plan, xml) = compiled();
    // The example has rrc, which RCCL's reader takes and its kernel does not run.
    let text = std::fs::read_to_string(&xml).unwrap();
    assert!(text.contains("\"rrc\""));
    for runtime in ["azure", "msccl"] {
        rondo(&["verify", &xml, "--runtime", runtime]).expect(0);
    }
    rondo(&["verify", &xml, "--runtime", "rccl"]).expect(1).says("rrc");
    rondo(&["verify", &xml, "--runtime", "nccl"]).expect(2).says("msccl, azure, rccl");
    rondo(&["verify", &plan, "--runtime", "azure"]).expect(1).says("export");
    // For azure 0 means "no limit", also beside a smallest size; msccl would never use such a file.
    let endless = folder.path().join("endless.xml").display().to_string();
    let first = text.lines().next().unwrap();
    let open = common::with_attribute(&common::with_attribute(first, "minBytes", "1024"), "maxBytes", "0");
    std::fs::write(&endless, text.replacen(first, &open, 1)).unwrap();
    rondo(&["verify", &endless, "--runtime", "azure"]).expect(0);
    rondo(&["verify", &endless, "--runtime", "msccl"]).expect(1).says("maxBytes");
    // Without sizes only msccl loads it.
    let bare = folder.path().join("bare.xml").display().to_string();
    let first = text.lines().next().unwrap();
    let end = first.find(" minBytes").unwrap();
    std::fs::write(&bare, text.replacen(&first[end..], ">", 1)).unwrap();
    rondo(&["verify", &bare]).expect(0);
    rondo(&["verify", &bare, "--runtime", "azure"]).expect(1).says("minBytes");
}

#[test]
fn files_can_be_piped_and_a_plan_goes_to_standard_output_alone() {
    let run = rondo(&["compile", JOB, "--no-smt", "-o", "-"]).expect(0);
    assert!(json(&run.stdout)["format"] == "rondo.plan");
    rondo_with(&["verify", "-"], run.stdout.as_bytes()).expect(0);
    rondo_with(&["cost", "-"], run.stdout.as_bytes()).expect(0);
    let xml = rondo_with(&["export", "-", "--to", "msccl-xml:azure", "-o", "-"], run.stdout.as_bytes()).expect(0);
    rondo_with(&["verify", "-", "--runtime", "azure"], xml.stdout.as_bytes()).expect(0);
    let again = rondo_with(&["export", "-", "--to", "json", "-o", "-"], run.stdout.as_bytes()).expect(0);
    assert_eq!(again.stdout, run.stdout, "a plan that is read and written is the same plan");
    for (option, value) in [("--protocol", "LL3"), ("--to", "msccl-xml:nccl")] {
        let mut arguments = vec!["export", "-", "-o", "-", option, value];
        if option != "--to" {
            arguments.extend(["--to", "msccl-xml:msccl"]);
        }
        rondo_with(&arguments, run.stdout.as_bytes()).expect(2).says("allowed");
    }
}

/// The sizes that a file of a set serves, both ends included.
fn served(folder: &Path, file: &str, runtime: &str) -> (u64, u64) {
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let number = |key: &str| common::attribute(text.lines().next().unwrap(), key).parse::<u64>().unwrap();
    let (low, high) = (number("minBytes"), number("maxBytes"));
    assert_ne!(high, 0, "0 would mean no limit, or never");
    // msccl no longer serves the number that stands there; the others do.
    (low, if runtime == "msccl" { high - 1 } else { high })
}

#[test]
fn a_set_of_plans_covers_its_sizes_without_overlap() {
    // Start-up against rate: several algorithms win, each somewhere. Sizes that are no power of two; an element of 2 bytes.
    let job = "[topology]\nkind = \"hypercube\"\ndimensions = 3\nbandwidth = \"25 GB/s\"\nlatency = \"500 ns\"\n\n[collective]\n\
               kind = \"all_reduce\"\nbuffer_size = \"LOW..HIGH\"\ndtype = \"float16\"\n\n[cost]\nstartup = \"3 us\"\n";
    for (low, high, least) in [(0_u64, 1_u64 << 26, 2), (1000, 99_999_998, 2), (64, 64, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let folders: Vec<_> = ["msccl", "azure", "rccl"].map(|name| (name, folder.path().join(name))).into();
        let emits: Vec<String> =
            folders.iter().map(|(name, folder)| format!("msccl-xml:{name}={}", folder.display())).collect();
        let mut arguments = vec!["compile", "-", "--no-smt"];
        for emit in &emits {
            arguments.extend(["--emit", emit]);
        }
        let job = job.replace("LOW", &format!("{low} B")).replace("HIGH", &format!("{high} B"));
        rondo_with(&arguments, job.as_bytes()).expect(0);
        for (runtime, folder) in &folders {
            let index = json(&std::fs::read_to_string(folder.join("index.json")).unwrap());
            assert_eq!(index["format"], "rondo.set");
            let how = index["how_to_load"].to_string();
            assert!(how.contains(if *runtime == "msccl" { "MSCCL_XML_FILES=" } else { "MSCCL_ALGO_DIR=" }), "{how}");
            let plans = index["plans"].as_array().unwrap();
            assert!((least..=4).contains(&plans.len()), "{runtime}: {} plans", plans.len());
            // Every multiple of the element is served by exactly one file: each begins one element after the last.
            let mut next = low;
            for plan in plans {
                let (from, to) = served(folder, plan["file"].as_str().unwrap(), runtime);
                assert_eq!(plan["from_bytes"], from, "{runtime}");
                // A message of 0 bytes never comes to a file; its range may end at 1.
                assert!(plan["to_bytes"] == to || (plan["to_bytes"] == 0 && to <= 1), "{runtime}: {plan} {to}");
                assert_eq!(from, next, "{runtime}: a gap or an overlap");
                next = plan["to_bytes"].as_u64().unwrap() + 2;
            }
            assert_eq!(next, high + 2, "{runtime}");
            // Nothing else lies in the folder that a runtime reads.
            assert_eq!(std::fs::read_dir(folder.join("algorithms")).unwrap().count(), plans.len());
            rondo(&["verify", folder.to_str().unwrap(), "--runtime", runtime]).expect(0);
        }
    }
}

/// At a switch-over size the two prices meet: on each side the plan that serves it is no dearer than its neighbour.
#[test]
fn the_plans_of_a_set_change_where_their_prices_cross() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("set");
    rondo(&["compile", "examples/size-range/job.toml", "--no-smt", "-o", out.to_str().unwrap()]).expect(0);
    let index = json(&std::fs::read_to_string(out.join("index.json")).unwrap());
    let plans = index["plans"].as_array().unwrap();
    assert!(2 <= plans.len());
    let ratio = |text: &Value| -> (u128, u128) {
        let text = text.as_str().unwrap();
        let (a, b) = text.split_once('/').unwrap_or((text, "1"));
        (a.parse().unwrap(), b.parse().unwrap())
    };
    // fixed + per_byte · size, as a fraction.
    let price = |plan: &Value, size: u128| {
        let ((a, b), (c, d)) = (ratio(&plan["seconds_at_0_bytes"]), ratio(&plan["seconds_a_byte"]));
        (a * d + c * b * size, b * d)
    };
    let at_most = |x: (u128, u128), y: (u128, u128)| x.0 * y.1 <= y.0 * x.1;
    for pair in plans.windows(2) {
        let (last, first) = (pair[0]["to_bytes"].as_u64().unwrap(), pair[1]["from_bytes"].as_u64().unwrap());
        assert_eq!(last + 4, first);
        let (last, first) = (u128::from(last), u128::from(first));
        assert!(at_most(price(&pair[0], last), price(&pair[1], last)), "{pair:#?}");
        assert!(at_most(price(&pair[1], first), price(&pair[0], first)), "{pair:#?}");
    }
    for plan in plans {
        let file = out.join(plan["file"].as_str().unwrap());
        let text = json(&std::fs::read_to_string(file).unwrap());
        let size = u128::from(plan["to_bytes"].as_u64().unwrap());
        if size % 1024 == 0 {
            let claimed = ratio(&text["claimed"]["time"]);
            let (a, b) = price(plan, size);
            assert_eq!(a * claimed.1, claimed.0 * b, "the price of the line is that of the plan");
        }
    }
}

#[test]
fn errors_come_as_json_too() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.toml");
    std::fs::write(&job, "[topology]\nkind = \"ring\"\nnodes = 0\n").unwrap();
    let job = job.to_str().unwrap();
    for arguments in [vec!["compile", job], vec!["cost", job], vec!["export", job, "--to", "json", "-o", "-"]] {
        let run = rondo(&[&arguments[..], &["--output-format", "json"]].concat()).expect(2);
        let report = json(&run.stdout);
        has_keys(&report, &["command", "verdict", "status", "errors"]);
        assert_eq!((&report["command"], &report["verdict"]), (&arguments[0].into(), &"unreadable".into()));
        let errors = report["errors"].as_array().unwrap();
        assert!(!errors.is_empty());
        for error in errors {
            has_keys(error, FINDING);
        }
    }
    let report = json(&rondo(&["compile", job, "--output-format", "json"]).expect(2).stdout);
    let nodes = report["errors"].as_array().unwrap().iter().find(|error| error["line"] == 3).unwrap();
    assert_eq!(nodes["column"], 9);
    let missing = json(&rondo(&["topology", "show", "nowhere.toml", "--output-format", "json"]).expect(2).stdout);
    assert_eq!(missing["errors"][0]["code"], "X001");
    // Wrong usage too.
    for arguments in [&["compile", job, "--nonsense"][..], &["completions", "tcsh"], &["frobnicate"], &["verify"]] {
        for format in [&["--output-format", "json"][..], &["--output-format=json"]] {
            let report = json(&rondo(&[arguments, format].concat()).expect(2).stdout);
            has_keys(&report, &["command", "verdict", "status", "errors"]);
            assert_eq!((&report["status"], &report["errors"][0]["code"]), (&2.into(), &"X023".into()));
        }
        assert!(rondo(arguments).expect(2).stdout.is_empty());
    }
    // A result is a result, with nothing after it.
    let right = rondo(&["compile", "examples/ring8/job.toml", "--output-format", "json"]).expect(0);
    assert_eq!(json(&right.stdout)["verdict"], "verified");
}

#[test]
fn sarif_is_for_verify() {
    let run = rondo(&["compile", "examples/ring8/job.toml", "--output-format", "sarif"]).expect(2);
    assert!(run.stdout.is_empty());
    run.says("--output-format json");
}

#[test]
fn many_files_are_judged_in_their_order() {
    let files: Vec<String> = (0..3)
        .flat_map(|_| ["tests/plans/multicast.json", "tests/plans/pipeline.json", "tests/plans/two-groups.json"])
        .map(str::to_owned)
        .collect();
    let arguments: Vec<&str> =
        ["verify"].into_iter().chain(files.iter().map(String::as_str)).chain(["--output-format", "json"]).collect();
    let report = json(&rondo(&arguments).expect(0).stdout);
    let names: Vec<_> = report["files"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(names, files);
}

#[test]
fn a_topology_alone_is_shown() {
    let topology = b"[topology]\nkind = \"ring\"\nnodes = 4\nbandwidth = \"25 GB/s\"\nlatency = \"1 us\"\n";
    let shown = rondo_with(&["topology", "show", "-"], topology).expect(0).stdout;
    assert!(shown.contains('4'), "{shown}");
    // What is wrong with it is still said, and that alone: nobody misses a collective here.
    let wrong =
        rondo_with(&["topology", "show", "-"], b"[topology]\nkind = \"rign\"\nnodes = 4\n").expect(2).says("ring");
    assert!(!wrong.stderr.contains("collective"), "{}", wrong.stderr);
    // What else stands there must be right, a collective too.
    let more = |rest: &str| rondo_with(&["topology", "show", "-"], &[topology, rest.as_bytes()].concat()).expect(2);
    more("[cost]\nstartup = 3\n").says("startup");
    more("[collective]\nkind = \"all_reduce\"\n").says("`[collective]` has no size");
    rondo_with(&["topology", "show", "-"], b"[cost]\n").expect(2).says("the job has no `[topology]`");
    // Elsewhere the collective is missed.
    rondo_with(&["cost", "-"], topology).expect(2).says("the job has no `[collective]`");
}

#[test]
fn control_characters_are_shown_and_not_obeyed() {
    let text = "[topology]\nkind = \"ri\\u001b[31mng\"\nnodes = 4\n";
    let run = rondo_with(&["compile", "-"], text.as_bytes()).expect(2);
    assert!(!run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
    let run = rondo(&["verify", "no\u{1b}[31msuch.xml"]).expect(2);
    assert!(!run.stderr.contains('\u{1b}') && run.stderr.contains("\\u{1b}"), "{:?}", run.stderr);
}

#[test]
fn reports_show_control_characters_too() {
    let job = "[topology]\nkind = \"custom\"\nname = \"x\\u001b[31m\"\nnode = [{ name = \"a\" }, { name = \"b\\u001b[2J\" }]\n\
               link = [{ from = \"a\", to = \"b\\u001b[2J\", capacity = \"1 GB/s\" }]\n\n\
               [collective]\nkind = \"all_reduce\"\nbuffer_size = \"4 KiB\"\n";
    for command in [&["compile", "-"][..], &["cost", "-"], &["topology", "show", "-"]] {
        let run = rondo_with(command, job.as_bytes()).expect(0);
        assert!(!run.stdout.contains('\u{1b}') && run.stdout.contains("\\u{1b}"), "{:?}", run.stdout);
        let report = rondo_with(&[command, &["--output-format", "json"]].concat(), job.as_bytes()).expect(0);
        assert!(json(&report.stdout).to_string().contains("\\u001b"), "JSON has escapes of its own");
    }
}

#[test]
fn a_required_proof_that_is_not_finished_says_so() {
    // 16 ranks; the proof may cover every chunk of 2.
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json").display().to_string();
    rondo(&["compile", "examples/torus4x4/job.toml", "--no-smt", "-o", &plan]).expect(0);
    let limits = ["--require-smt", "--smt-ranks", "2"];
    for command in [["compile", "examples/torus4x4/job.toml"], ["verify", &plan]] {
        let run = rondo(&[&command[..], &limits].concat()).expect(3);
        run.says("error[X022]: the verdict is unknown: not finished: smt-completes").says("--smt-ranks");
        rondo(&command).expect(0);
    }
    let arguments = [&["compile", "examples/torus4x4/job.toml", "--output-format", "json"][..], &limits].concat();
    let report = json(&rondo(&arguments).expect(3).stdout);
    assert_eq!((&report["status"], &report["errors"][0]["code"]), (&3.into(), &"X022".into()));
}

#[test]
fn outputs_without_a_place_are_refused() {
    rondo(&["compile", "examples/ring8/job.toml", "--emit", "msccl-xml="]).expect(2).says("names no file");
    let run =
        rondo(&["compile", "examples/ring8/job.toml", "-o", "nowhere/plan.json"]).expect(2).says("nowhere/plan.json");
    assert!(!run.stderr.contains(".rondo-"), "{}", run.stderr);
}

#[test]
fn garbage_is_refused_in_a_few_words() {
    let garbage = "%&/( = §\n".repeat(400);
    let run = rondo_with(&["compile", "-"], garbage.as_bytes()).expect(2);
    assert!(run.stderr.matches("error[").count() <= 8, "{}", run.stderr);
    run.says("more places are no TOML");
}

#[test]
fn two_exports_for_one_runtime_are_refused() {
    let mut job = std::fs::read_to_string("examples/ring8/job.toml").unwrap();
    job.push_str("\n[[export]]\nruntime = \"azure\"\n\n[[export]]\nruntime = \"azure\"\nprotocol = \"LL\"\n");
    rondo_with(&["compile", "-"], job.as_bytes()).expect(2).says("two [[export]] for azure");
    let two = job.replacen("azure", "rccl", 1);
    rondo_with(&["compile", "-"], two.as_bytes()).expect(0);
}

#[test]
fn rccl_files_for_several_machines_come_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let job = |hosts: u32| {
        format!(
            "[topology]\npreset = \"dgx-a100\"\nhosts = {hosts}\n\n[collective]\nkind = \"all_gather\"\nbuffer_size = \"1 MiB\"\n"
        )
    };
    let out = folder.path().join("plan.xml");
    for (hosts, runtime, warns) in [(1, "rccl", false), (2, "rccl", true), (2, "azure", false)] {
        let emit = format!("msccl-xml:{runtime}={}", out.display());
        let run =
            rondo_with(&["compile", "-", "--algorithm", "ring", "--emit", &emit], job(hosts).as_bytes()).expect(0);
        assert_eq!(run.stderr.contains("X019"), warns, "{hosts} {runtime}: {}", run.stderr);
        let arguments = ["compile", "-", "--algorithm", "ring", "--emit", &emit, "--output-format", "json"];
        let report = json(&rondo_with(&arguments, job(hosts).as_bytes()).expect(0).stdout);
        let messages = report["messages"].as_array().unwrap();
        assert_eq!(messages.iter().any(|message| message["code"] == "X019"), warns, "{messages:?}");
    }
}

#[test]
fn certificates_are_written_for_what_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof.smt2");
    let path = proof.to_str().unwrap();
    let corpus = "tests/corpus/msccl-xml/rccl-allreduce_1step_mccl_4_2_2048_LL.xml";
    rondo(&["verify", corpus, "--certificate", path]).expect(0);
    let text = std::fs::read_to_string(&proof).unwrap();
    // Deadlock with whole and with split messages, races in several parts, result.
    let answers: Vec<&str> = text.lines().filter(|line| line.starts_with("(set-info :status")).collect();
    assert!(4 <= answers.len(), "{answers:?}");
    assert!(answers[..2].iter().all(|answer| answer.ends_with(" sat)")), "{answers:?}");
    assert!(answers[2..].iter().all(|answer| answer.ends_with(" unsat)")), "{answers:?}");
    assert_eq!(text.matches("(check-sat)").count(), answers.len());
    let run = rondo(&["compile", JOB, "--certificate", path]).expect(0);
    assert!(run.stdout.contains(&format!("wrote {path} (")), "{}", run.stdout);
    assert!(std::fs::read_to_string(&proof).unwrap().contains("(check-sat)"));
    // Right, but above the limit: what was asked for is missing.
    rondo(&["verify", corpus, "--no-smt", "--smt-events", "3", "--certificate", path]).expect(2).says("X020");
    // None for what is wrong, and nothing is left behind.
    std::fs::remove_file(&proof).unwrap();
    let wrong = std::fs::read_to_string(corpus).unwrap().replacen(
        "type=\"re\" srcbuf=\"s\" srcoff=\"0\"",
        "type=\"re\" srcbuf=\"s\" srcoff=\"1\"",
        1,
    );
    rondo_with(&["verify", "-", "--certificate", path], wrong.as_bytes()).expect(1).says("X020");
    assert!(!proof.exists());
    rondo(&["compile", "examples/size-range/job.toml", "--certificate", path]).expect(2).says("no one certificate");
}

/// Where one output cannot be written, none is, and an earlier one stays.
#[test]
fn outputs_are_written_together_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).display().to_string();
    let listed = || std::fs::read_dir(folder.path()).unwrap().count();
    let emit = |path: &str| format!("msccl-xml:azure={path}");
    std::fs::write(name("plan.json"), "mine").unwrap();
    let job = |more: &[&str], status: i32| {
        rondo(&[&["compile", JOB, "--no-smt", "-o", &name("plan.json")], more].concat()).expect(status)
    };
    job(&["--emit", &emit(&name("plan.xml")), "--emit", &emit(&name("none/plan.xml"))], 2).says("cannot write");
    job(&["--emit", &emit(&name("plan.xml")), "--emit", &emit(&name(""))], 2).says("cannot write");
    if cfg!(feature = "smt") {
        job(&["--certificate", &name("proof.smt2"), "--emit", &emit(&name("none/plan.xml"))], 2).says("cannot write");
        // A plan that azure has no room for.
        let many = ["--algorithm", "chain", "--chunks", "1024"];
        let more = ["--certificate", &name("proof.smt2"), "--emit", &emit(&name("plan.xml"))];
        job(&[&many[..], &more].concat(), 2).says("azure");
    }
    assert_eq!((listed(), std::fs::read_to_string(name("plan.json")).unwrap().as_str()), (1, "mine"));
    // A set of plans: the second folder cannot be made, so the first one is not written.
    if cfg!(target_os = "linux") {
        let set = ["compile", "examples/size-range/job.toml", "--no-smt", "-o", &name("set"), "--emit"];
        rondo(&[&set[..], &[&emit("/proc/none/set")]].concat()).expect(2).says("cannot write");
    }
    assert_eq!(listed(), 1);
    job(&["--emit", &emit(&name("plan.xml"))], 0);
    assert_eq!(listed(), 2);
}

#[test]
fn an_all_to_all_says_what_it_leaves_out() {
    let job = |elements: u32| {
        format!(
            "[topology]\nkind = \"switch\"\nnodes = 3\nbandwidth = \"25 GB/s\"\nlatency = \"1 us\"\n\n[collective]\n\
             kind = \"all_to_all\"\nbuffer_size = \"{} B\"\n",
            4 * elements
        )
    };
    let report = json(&rondo_with(&["compile", "-", "--output-format", "json"], job(11).as_bytes()).expect(0).stdout);
    let finding = &report["findings"][0];
    assert_eq!(
        (finding["code"].as_str(), finding["message"].as_str()),
        (Some("X021"), Some("2 of 11 elements are not sent"))
    );
    rondo_with(&["compile", "-"], job(11).as_bytes()).expect(0).says("2 of 11 elements are not sent");
    let even = rondo_with(&["compile", "-"], job(12).as_bytes()).expect(0);
    assert!(!even.stderr.contains("X021"), "{}", even.stderr);
}

#[test]
#[cfg(feature = "smt")]
fn a_program_above_the_limit_of_the_second_opinion_says_so() {
    let file = "tests/corpus/msccl-xml/azure-ncv4-ar_hier_12_Simple.xml";
    let prints = |more: &[&str], status: i32| rondo(&[&["verify", file], more].concat()).expect(status).stdout;
    assert!(prints(&["--require-smt"], 0).contains("smt-no-race      proved"));
    let limit = "not run: the program has more than 100 events, which is the limit";
    assert!(prints(&["--smt-events", "100"], 0).contains(limit));
    // Required and not finished: undecided.
    assert!(prints(&["--smt-events", "100", "--require-smt"], 3).contains(limit));
    assert!(!prints(&["--no-smt"], 0).contains("smt-"));
}

#[test]
fn thresholds_give_a_rule_with_its_proof() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (table, certificate) = (file("table.json"), file("proof.smt2"));
    let run = rondo(&[
        "thresholds",
        "examples/ocs-ring-32.toml",
        "--delays",
        "100 ns..10 us",
        "--certificate",
        &certificate,
        "-o",
        &table,
    ])
    .expect(0);
    // models.md 14: step 1 has h = c = 2 and m/4 bytes, so its circuits save 2 us + m * 10 ps / 4, which is 4 us at 800 kB; and
    // Ring loses up to 6.5 * 2 us.
    for line in ["1 KB      800 KB  T = 2  3        24.01 us", "d <= 13 us"] {
        assert!(run.stdout.contains(line), "{}", run.stdout);
    }
    let written = json(&std::fs::read_to_string(&table).unwrap());
    assert_eq!(written["sizes"][1]["from"], 800_004);
    assert_eq!(written["plans"].as_array().unwrap().len(), 6);
    let text = std::fs::read_to_string(&certificate).unwrap();
    assert!(text.contains("(set-logic QF_LRA)") && text.ends_with("(check-sat)\n"), "{text}");
    rondo(&["thresholds", "examples/ring8/job.toml"]).expect(2).says("X024").says("optical-ring");
    rondo(&["thresholds", "examples/ocs-ring-32.toml", "--algorithm", "ring"])
        .expect(2)
        .says("halving-doubling or swing");
    rondo(&["thresholds", "examples/ocs-ring-32.toml", "--sizes", "2 KB..1 KB"])
        .expect(2)
        .says("ends before it begins");
    rondo(&["thresholds", "examples/ocs-ring-32.toml", "--delays", "5"]).expect(2).says("--delays LOW..HIGH");
}
