//! `rondo compare` and `rondo training`: against closed forms and brute force, and on wrong input.

#![allow(clippy::unwrap_used)]

mod common;

use common::{rondo, rondo_with};
use serde_json::Value;

const DESIGNS: [&str; 3] =
    ["examples/clos-or-torus/clos.toml", "examples/clos-or-torus/torus.toml", "examples/clos-or-torus/hybrid.toml"];

fn report(arguments: &[&str]) -> Value {
    serde_json::from_str(&rondo(&[arguments, &["--output-format", "json"]].concat()).expect(0).stdout).unwrap()
}

/// The order and the segments are those of `rondo cost` of each job at each size.
#[test]
fn the_winner_of_each_size_is_the_cheapest_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (name, topology) in [
        ("ring", "kind = \"ring\"\nnodes = 8\nlatency = \"100 ns\"\nbandwidth = \"20 GB/s\""),
        ("switch", "kind = \"switch\"\nnodes = 8\nlatency = \"300 ns\"\nbandwidth = \"25 GB/s\""),
    ] {
        let file = folder.path().join(format!("{name}.toml"));
        let text = |size: &str| {
            format!(
                "[topology]\n{topology}\n\n[collective]\nkind = \"all_gather\"\nbuffer_size = \"{size}\"\n\n[cost]\nstartup = \"1 us\"\n"
            )
        };
        std::fs::write(&file, text("1 MiB")).unwrap();
        files.push((file.display().to_string(), text("SIZE")));
    }
    let found = report(&["compare", &files[0].0, &files[1].0, "--sizes", "256 B..16 MiB"]);
    let segments = found["segments"].as_array().unwrap();
    assert!(2 <= segments.len());
    assert_eq!((segments[0]["from"].as_u64(), segments.last().unwrap()["to"].as_u64()), (Some(256), Some(16 << 20)));
    let time = |text: &str, size: u64| -> f64 {
        let job = text.replace("SIZE", &format!("{size} B"));
        let run = rondo_with(&["cost", "-", "--output-format", "json"], job.as_bytes()).expect(0);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        report["price"]["time"]["seconds"].as_f64().unwrap()
    };
    for (at, segment) in segments.iter().enumerate() {
        if 0 < at {
            assert_eq!(segment["from"].as_u64(), segments[at - 1]["to"].as_u64().map(|to| to + 4));
        }
        // Whole blocks, as for sizes in between a slot is rounded to elements.
        for size in
            [segment["from"].as_u64().unwrap().next_multiple_of(256), segment["to"].as_u64().unwrap() / 256 * 256]
        {
            let times: Vec<f64> = files.iter().map(|(_, text)| time(text, size)).collect();
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            let winner = files.iter().position(|(file, _)| *file == segment["file"].as_str().unwrap()).unwrap();
            assert!(times[winner] <= least * (1.0 + 1e-9), "{segment} {size} {times:?}");
        }
    }
}

/// Table 2 and Table 6 beside the schedule and the bound; price by a table of one's own.
#[test]
fn three_answers_and_a_price() {
    let found = report(&["compare", DESIGNS[0], DESIGNS[1], DESIGNS[2]]);
    let designs = found["designs"].as_array().unwrap();
    let times: Vec<f64> = designs.iter().map(|d| d["price"]["time"]["seconds"].as_f64().unwrap()).collect();
    assert!(times.is_sorted());
    let of = |name: &str| designs.iter().find(|d| d["file"].as_str().unwrap().ends_with(name)).unwrap();
    // 6·(6 us + 2 ms + 0.1 ms) and 6·(1 us + 2 ms) + 6·0.1 ms: D = 6, log2 n = 6.
    for (name, seconds) in [("clos.toml", 6.0 * (6e-6 + 2.1e-3)), ("torus.toml", 6.0 * (1e-6 + 2e-3) + 6e-4)] {
        let printed = of(name)["printed"]["seconds"].as_f64().unwrap();
        assert!((printed / seconds - 1.0).abs() < 1e-12, "{name} {printed}");
    }
    assert_eq!(of("torus.toml")["switches"], serde_json::json!([{ "ports": 6, "count": 64 }]));
    // 16 edge switches, 4 in each of 4 pods above them, 16 core switches.
    assert_eq!(of("clos.toml")["switches"], serde_json::json!([{ "ports": 8, "count": 48 }]));
    let folder = tempfile::tempdir().unwrap();
    let prices = folder.path().join("prices.csv");
    std::fs::write(&prices, "# dollars\n4, 100\n8, 900\n").unwrap();
    let priced = report(&["compare", DESIGNS[0], DESIGNS[1], "--price", prices.to_str().unwrap()]);
    let price = |name: &str| {
        let all = priced["designs"].as_array().unwrap().iter();
        all.filter(|d| d["file"].as_str().unwrap().ends_with(name)).find_map(|d| d["switch_price"].as_f64()).unwrap()
    };
    assert!((price("clos.toml") - 48.0 * 900.0).abs() < 1e-6 && (price("torus.toml") - 64.0 * 500.0).abs() < 1e-6);
    rondo(&["compare", DESIGNS[0], "examples/ring8/job.toml"]).expect(2).says("X029");
    rondo(&["compare", DESIGNS[0], "--price", "cubic"]).expect(2).says("quadratic");
    std::fs::write(&prices, "4;100\n").unwrap();
    rondo(&["compare", DESIGNS[0], "--price", prices.to_str().unwrap()]).expect(2).says("prices.csv:1");
    rondo(&["compare", DESIGNS[0], "--sizes", "2 KB..1 KB"]).expect(2).says("ends before it begins");
}

/// The case studies: D19's value of the tensor-parallel all_gather on the Clos, and the paper's own reading of it.
#[test]
fn case_studies_give_both_readings() {
    let part = |file: &str, network: &str, collective: &str| {
        let found = report(&["training", file]);
        let networks = found["networks"].as_array().unwrap();
        let parts = networks.iter().find(|n| n["name"] == network).unwrap()["parts"].as_array().unwrap().clone();
        parts.into_iter().find(|part| part["collective"] == collective).unwrap()
    };
    let seconds = |value: &Value| value["seconds"].as_f64().unwrap();
    let gather = part("examples/training/megatron.toml", "Clos", "all_gather");
    // 7/8 of 2·4096·18432 B at 50 GB/s, and two hops.
    assert!((seconds(&gather["time"]) - (132_120_576.0 * 2e-11 + 2e-6)).abs() < 1e-9);
    assert!((gather["printed_seconds"].as_f64().unwrap() - (7.0 * 132_120_576.0 * 2e-11 + 2e-6)).abs() < 1e-9);
    let all = part("examples/training/deepseek.toml", "torus", "all_to_all");
    // 32α + βm·63·64/8 with m = 4096·7168 B.
    let printed = 32e-6 + 29_360_128.0 * 2e-11 * 63.0 * 8.0;
    assert!((all["printed_seconds"].as_f64().unwrap() / printed - 1.0).abs() < 1e-9);
}

#[test]
fn wrong_training_jobs_say_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ring.toml"), "[topology]\nkind = \"ring\"\nnodes = 4\nbandwidth = \"1 GB/s\"\n")
        .unwrap();
    let good = "[model]\nname = \"m\"\nsequence = 64\nhidden = 64\nlayers = 4\nmicro_batch = 1\nparameters = 100000\n\n\
                [parallelism]\ntensor = 4\n\n[[network]]\nname = \"ring\"\nfile = \"ring.toml\"\n";
    let try_it = |text: &str| {
        let job = folder.path().join("job.toml");
        std::fs::write(&job, text).unwrap();
        rondo(&["training", job.to_str().unwrap()])
    };
    try_it(good).expect(0);
    for (from, to, says) in [
        ("layers = 4", "layers = 0", "0 layers"),
        ("hidden = 64", "hidden = 0", "hidden size must be positive"),
        ("tensor = 4", "tensor = 5", "does not divide"),
        ("tensor = 4", "tensor = 8", "has 8 ranks"),
        ("tensor = 4", "tensor = 0", "tensor parallelism must be positive"),
        ("tensor = 4", "pipeline = 8", "8 pipeline stages"),
        ("sequence", "sequense", "sequense"),
        ("[parallelism]", "[step]\ncompute = \"5\"\noverlap = 2.0\n\n[parallelism]", "a share from 0 to 1"),
        ("file = \"ring.toml\"", "file = \"none.toml\"", "none.toml"),
        ("file = \"ring.toml\"", "file = \"job.toml\"", "has [model]"),
        ("name = \"ring\"", "name = \"ring\"\norder = [\"tensor\"]", "once"),
        ("[[network]]", "[network", "X030"),
    ] {
        assert!(good.contains(from), "{from}");
        try_it(&good.replace(from, to)).expect(2).says(says);
    }
    rondo(&["training", "examples/training/none.toml"]).expect(2);
}

const LARGE: &str = "[topology]\nkind = \"clos\"\ntiers = 3\nradix = 128\nnodes = 100352\nbundled = true\nbandwidth = \"400 Gbps\"\n\
                     latency = \"1 us\"\n\n[collective]\nkind = \"all_to_all\"\nbuffer_size = \"100352 KB\"\n";

/// A hundred thousand ranks: priced without a schedule, and refused where one would have to be built.
#[test]
fn very_many_ranks_are_priced_and_not_built() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("large.toml");
    std::fs::write(&job, LARGE).unwrap();
    let found = report(&["compare", job.to_str().unwrap()]);
    let design = &found["designs"][0];
    // 6 us and (n−1) blocks of 1 kB at 50 GB/s.
    let expected = 6e-6 + 100_351.0 * 1e3 / 50e9;
    assert!((design["time"]["seconds"].as_f64().unwrap() / expected - 1.0).abs() < 1e-12, "{design}");
    assert!(design["price"].is_null());
    for algorithm in ["auto", "direct", "relay"] {
        let run = rondo_with(&["compile", "-", "--algorithm", algorithm], LARGE.as_bytes()).expect(2);
        run.says("P025").says("rondo compare");
    }
    rondo_with(&["compile", "-"], LARGE.replace("all_to_all", "all_gather").as_bytes()).expect(2).says("P025");
}
