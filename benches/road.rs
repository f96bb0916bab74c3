//! The whole road, timed: build, verify, write, read back and verify the file.
//!
//! `cargo bench` runs every case in a process of its own, so that peak memory belongs to the case, and prints a table.
//! `cargo bench -- ring` runs the cases whose name contains `ring`. Times are the best of a few runs for short cases.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo::export::{ExportRequest, Format, export};
use rondo::pipeline::{Loaded, Proof, load_job};
use rondo_compiler::build::{self, BuildContext};
use rondo_compiler::front::job::build_problem;
use rondo_compiler::lower::LowerOptions;
use rondo_ir::problem::Problem;
use rondo_ir::profile::RuntimeProfile;

/// A family of cases.
struct Family {
    name: &'static str,
    algorithm: &'static str,
    collective: &'static str,
    /// Topology of `n`.
    topology: fn(u32) -> String,
    sizes: &'static [u32],
    /// Largest n that is written as XML too.
    written: u32,
}

const FAMILIES: &[Family] = &[
    Family {
        name: "ring all_reduce",
        algorithm: "ring",
        collective: "all_reduce",
        topology: |n| format!("kind = \"ring\"\nnodes = {n}"),
        sizes: &[8, 16, 32, 64, 128, 256, 512, 1024, 4096],
        written: 1024,
    },
    Family {
        name: "halving-doubling all_reduce",
        algorithm: "halving-doubling",
        collective: "all_reduce",
        topology: |n| format!("kind = \"switch\"\nnodes = {n}"),
        sizes: &[64, 256, 1024, 4096],
        written: 1024,
    },
    Family {
        name: "all-pairs all_reduce",
        algorithm: "all-pairs",
        collective: "all_reduce",
        topology: |n| format!("kind = \"switch\"\nnodes = {n}"),
        sizes: &[8, 64, 256],
        written: 256,
    },
    Family {
        name: "direct all_to_all",
        algorithm: "direct",
        collective: "all_to_all",
        topology: |n| format!("kind = \"switch\"\nnodes = {n}"),
        sizes: &[8, 64, 256],
        written: 256,
    },
    Family {
        name: "torus all_gather (side)",
        algorithm: "torus-rotated",
        collective: "all_gather",
        topology: |n| format!("kind = \"torus\"\nsides = [{n}, {n}, {n}]"),
        sizes: &[4, 8, 16],
        written: 8,
    },
];

fn load(family: &Family, n: u32) -> (Loaded, Arc<Problem>) {
    let job = format!(
        "[topology]\n{}\nbandwidth = \"25 GB/s\"\nlatency = \"1 us\"\n\n[collective]\nkind = \"{}\"\nbuffer_size = \"1 GiB\"\n{}",
        (family.topology)(n),
        family.collective,
        if family.collective == "all_to_all" { "" } else { "in_place = true\n" },
    );
    let loaded = load_job("bench.toml", job.as_bytes(), std::path::Path::new(".")).expect("a good job");
    let problem = Arc::new(build_problem(&loaded.job, &loaded.fabric).expect("a good problem"));
    (loaded, problem)
}

fn time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Runs one case and prints its figures on one line.
fn case(family: &Family, n: u32) {
    let once = || {
        let ((loaded, problem), setup) = time(|| load(family, n));
        let context = BuildContext::new(&problem, &loaded.fabric);
        let (schedule, building) = time(|| build::build(family.algorithm, &context).expect("it fits"));
        let flows = schedule.flow_count();
        let proof = Proof { smt: false, ..Proof::default() };
        let (judged, verifying) = time(|| rondo::pipeline::judge(&problem, schedule, &proof).expect("it is right"));
        let (plan, _, _) = judged;
        let (file, writing) = time(|| {
            (n <= family.written).then(|| {
                let request = ExportRequest::new(Format::MscclXml(&RuntimeProfile::UNLIMITED));
                export(&plan, &request).expect("it can be written").text.len()
            })
        });
        (flows, setup, building, verifying, writing, file)
    };
    let first = once();
    let total = |r: &(usize, Duration, Duration, Duration, Duration, Option<usize>)| r.1 + r.2 + r.3 + r.4;
    let mut best = first;
    if total(&best) < Duration::from_secs(1) {
        for _ in 0..4 {
            let next = once();
            if total(&next) < total(&best) {
                best = next;
            }
        }
    }
    let (flows, setup, building, verifying, writing, file) = best;
    let seconds = |d: Duration| format!("{:.4}", d.as_secs_f64());
    println!(
        "{}\t{n}\t{flows}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
        family.name,
        seconds(setup),
        seconds(building),
        seconds(verifying),
        if file.is_some() { seconds(writing) } else { "-".into() },
        seconds(setup + building + verifying + writing),
        file.map_or("-".into(), |bytes| format!("{:.1}", bytes as f64 / 1e6)),
        peak_megabytes().map_or("-".into(), |mb| format!("{mb:.0}")),
    );
}

/// Peak resident memory of this process, where the system says it.
fn peak_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb * 1024.0 / 1e6)
}

/// The largest n, of powers of two, that a runtime loads.
fn largest_loadable() {
    println!("\nlargest number of ranks (powers of two) whose file a runtime's limits allow");
    for family in FAMILIES.iter().filter(|family| !family.name.starts_with("torus")) {
        let mut line = format!("{:30}", family.name);
        for profile in [&RuntimeProfile::MSCCL, &RuntimeProfile::AZURE, &RuntimeProfile::RCCL] {
            let loads = |n: u32| {
                let (loaded, problem) = load(family, n);
                let schedule =
                    build::build(family.algorithm, &BuildContext::new(&problem, &loaded.fabric)).expect("it fits");
                rondo_compiler::lower::lower(&problem, &schedule, &LowerOptions::new(profile)).is_ok()
            };
            let largest = (1..=9).map(|power| 1_u32 << power).take_while(|&n| loads(n)).last();
            line.push_str(&format!("  {} {}", profile.name, largest.map_or("-".into(), |n| n.to_string())));
        }
        println!("{line}");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [flag, family, n] = &arguments[..]
        && flag == "--case"
    {
        case(&FAMILIES[family.parse::<usize>().unwrap()], n.parse().unwrap());
        return;
    }
    println!("case\tn\tflows\tsetup s\tbuild s\tverify s\twrite+read+verify file s\ttotal s\tfile MB\tpeak MB");
    for (index, family) in FAMILIES.iter().enumerate() {
        if !arguments.iter().all(|wanted| family.name.contains(wanted.as_str())) {
            continue;
        }
        for n in family.sizes {
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--case", &index.to_string(), &n.to_string()])
                .status()
                .unwrap();
            assert!(status.success(), "{} at {n} failed", family.name);
        }
    }
    if arguments.is_empty() {
        largest_loadable();
    }
}
