//! Real machines: the four topology files of the corpus, one machine and two of them, AllReduce, AllGather and AlltoAll, exported
//! for every runtime, and the written files verified again.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Run, path, rondo, rondo_with};
use serde_json::Value;

/// File, GPUs of a machine, and what a job has to add: NVLinks, NICs for several machines.
const MACHINES: [(&str, u64, &str, &str); 4] = [
    ("aws-p4d-24xl-topo.xml", 8, "nvlink = { bandwidth = \"300 GB/s\" }", "nics = 4\nnic_bandwidth = \"100 Gbps\""),
    (
        "azure-ncv4-topo.xml",
        4,
        "nvlink = { wiring = \"mesh\", bandwidth = \"25 GB/s\" }\npcie_bandwidth = \"24 GB/s\"",
        "nics = 1\nnic_bandwidth = \"80 Gbps\"",
    ),
    ("azure-ndv4-topo.xml", 8, "nvlink = { bandwidth = \"300 GB/s\" }", "nic_bandwidth = \"200 Gbps\""),
    ("rccl-topo_8p_940.xml", 8, "", ""),
];

const KINDS: [&str; 3] = ["all_reduce", "all_gather", "all_to_all"];

const RUNTIMES: [&str; 3] = ["msccl", "azure", "rccl"];

fn topology(file: &str, more: &str) -> String {
    format!("[topology]\nfile = \"{}\"\n{more}\n", path("tests/corpus/nccl-topo-xml").join(file).display())
}

fn collective(kind: &str) -> String {
    format!("\n[collective]\nkind = \"{kind}\"\nbuffer_size = \"16 MiB\"\n\n[cost]\nstartup = \"3 us\"\n")
}

/// What `compile` says about the job as JSON; the plan is written to the path.
fn compile(job: &str, plan: &Path) -> Value {
    let arguments = ["compile", "-", "--no-smt", "--output-format", "json", "-o", plan.to_str().unwrap()];
    let run = rondo_with(&arguments, job.as_bytes()).expect(0);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Exports for the runtime and verifies the file as one that it must load; or the refusal.
fn export(plan: &Path, runtime: &str, folder: &Path) -> Result<String, Run> {
    let file = folder.join(format!("{runtime}.xml"));
    let (plan, file) = (plan.to_str().unwrap(), file.to_str().unwrap());
    let run = rondo(&["export", plan, "--to", &format!("msccl-xml:{runtime}"), "-o", file]);
    if run.code != 0 {
        assert!(!Path::new(file).exists(), "a refused file was written");
        return Err(run.expect(2));
    }
    rondo(&["verify", file, "--runtime", runtime]).expect(0);
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::remove_file(file).unwrap();
    Ok(text)
}

/// Every collective on these machines, for every runtime.
fn check(hosts: u64) {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    for (file, gpus, nvlink, nics) in MACHINES {
        let joined = if hosts == 1 { String::new() } else { format!("hosts = {hosts}\n{nics}\n") };
        for kind in KINDS {
            let job = format!("{}{}", topology(file, &format!("{nvlink}\n{joined}")), collective(kind));
            let report = compile(&job, &plan);
            assert_eq!(report["verdict"], "verified");
            assert_eq!(report["problem"]["collectives"][0]["ranks"], gpus * hosts, "{file}");
            rondo(&["verify", "--no-smt", plan.to_str().unwrap()]).expect(0);
            for runtime in RUNTIMES {
                let text = export(&plan, runtime, folder.path())
                    .unwrap_or_else(|run| panic!("{file}, {kind}, {runtime}: {}", run.stderr));
                // Every rank is in the file, and it serves calls up to the size of the job.
                assert_eq!(text.matches("<gpu id=").count() as u64, gpus * hosts);
                let name = common::attribute(&text, "coll");
                assert_eq!(name, kind.replace('_', ""), "{file}, {runtime}");
                let end = if runtime == "msccl" { (16 << 20) + 1 } else { 16 << 20 };
                assert_eq!(common::attribute(&text, "maxBytes"), end.to_string());
            }
        }
    }
}

#[test]
fn collectives_on_each_real_machine_for_each_runtime() {
    check(1);
}

#[test]
fn collectives_on_two_real_machines_for_each_runtime() {
    check(2);
}

#[test]
fn a_rate_that_the_file_lacks_is_asked_for_by_name() {
    let job = format!("{}{}", topology("azure-ndv4-topo.xml", "hosts = 2"), collective("all_reduce"));
    rondo_with(&["compile", "-"], job.as_bytes()).expect(2).says("nic_bandwidth");
    // Without NVLinks only PCIe is left, which works and is said.
    let job = format!("{}{}", topology("azure-ndv4-topo.xml", ""), collective("all_reduce"));
    rondo_with(&["compile", "-", "--no-smt"], job.as_bytes()).expect(0).says("no NVLinks");
}

/// A refusal gives the number and the limit; the format without limits takes the same plan.
#[test]
fn what_a_runtime_cannot_hold_is_refused_with_number_and_limit() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    // 70 ranks that all send to all others: RCCL has 64 threadblocks for the 69 peers of a rank, the others have more.
    let all = "[topology]\nkind = \"switch\"\nnodes = 70\nbandwidth = \"25 GB/s\"\n\n[collective]\nkind = \"all_to_all\"\n\
               block_size = \"4 KiB\"\n\n[compile]\nalgorithm = \"direct\"\nchunks = 1\n";
    compile(all, &plan);
    let Err(run) = export(&plan, "rccl", folder.path()) else { panic!("rccl has 64 threadblocks") };
    run.says("threadblocks").says("rccl").says("64");
    for runtime in ["msccl", "azure"] {
        let text = export(&plan, runtime, folder.path()).unwrap_or_else(|run| panic!("{runtime}: {}", run.stderr));
        assert_eq!(text.matches("<gpu id=").count(), 70);
    }
    // More ranks than an element of any of the three readers has room for: 1024.
    let wide = "[topology]\nkind = \"switch\"\nnodes = 1030\nbandwidth = \"25 GB/s\"\n\n[collective]\nkind = \"broadcast\"\n\
                buffer_size = \"4 KiB\"\n\n[compile]\nalgorithm = \"binomial-tree\"\nchunks = 1\n";
    compile(wide, &plan);
    for runtime in RUNTIMES {
        let Err(run) = export(&plan, runtime, folder.path()) else { panic!("{runtime} loads 1030 ranks") };
        run.says("1030").says("1024").says(runtime);
    }
    let file = folder.path().join("unlimited.xml");
    rondo(&["export", plan.to_str().unwrap(), "--to", "msccl-xml:unlimited", "-o", file.to_str().unwrap()])
        .expect(0)
        .says("no runtime loads this");
    assert!(std::fs::read_to_string(&file).unwrap().contains("no runtime loads this"));
    rondo(&["verify", file.to_str().unwrap()]).expect(0);
    rondo(&["verify", file.to_str().unwrap(), "--runtime", "rccl"]).expect(1).says("1024");
}

#[test]
fn show_describes_and_import_gives_a_job_section_that_compiles_to_the_same_plan() {
    let folder = tempfile::tempdir().unwrap();
    for (file, gpus, ..) in MACHINES {
        let source = path("tests/corpus/nccl-topo-xml").join(file);
        let source = source.to_str().unwrap();
        let shown = rondo(&["topology", "show", source]).expect(0);
        assert!(shown.stdout.contains(&format!("{gpus} compute")), "{}", shown.stdout);
        let shown = rondo(&["topology", "show", source, "--output-format", "json"]).expect(0);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(shown["command"], "topology show");

        let section = folder.path().join("machine.toml");
        rondo(&["topology", "import", source, "-o", section.to_str().unwrap()]).expect(0);
        let section = std::fs::read_to_string(&section).unwrap();
        let printed = rondo(&["topology", "import", source]).expect(0);
        assert_eq!(printed.stdout, section, "the same to a file and to standard output");
        for kind in KINDS {
            let imported = rondo_with(
                &["compile", "-", "--no-smt", "--output-format", "json"],
                format!("{section}{}", collective(kind)).as_bytes(),
            );
            let direct = rondo_with(
                &["compile", "-", "--no-smt", "--output-format", "json"],
                format!("{}{}", topology(file, ""), collective(kind)).as_bytes(),
            );
            let facts = |run: Run| {
                let report: Value = serde_json::from_str(&run.expect(0).stdout).unwrap();
                let topology = &report["problem"]["topology"];
                (topology["nodes"].clone(), topology["links"].clone(), report["price"]["bound"]["any_run"].clone())
            };
            let (nodes, links, bound) = facts(imported);
            assert_eq!((nodes, links, bound), facts(direct), "{file}, {kind}");
        }
        let job = format!("{section}{}", collective("all_reduce"));
        let again = rondo_with(&["topology", "show", "-", "--output-format", "json"], job.as_bytes()).expect(0);
        let again: Value = serde_json::from_str(&again.stdout).unwrap();
        assert_eq!(facts_of(&again), facts_of(&shown), "{file}");
    }
}

/// Nodes, routes, and links by rate and latency (a job does not say of which kind a link is).
fn facts_of(shown: &Value) -> (Vec<Value>, BTreeMap<(String, String), u64>) {
    let topology = &shown["topology"];
    let keys = ["compute_nodes", "switches", "longest_route", "pairs_without_route", "down", "forwarding"];
    let mut links = BTreeMap::new();
    for link in topology["links"].as_array().unwrap() {
        let text = |key: &str| link[key].as_str().unwrap().to_owned();
        *links.entry((text("rate"), text("latency"))).or_default() += link["count"].as_u64().unwrap();
    }
    assert!(!links.is_empty());
    let facts = keys.map(|key| {
        assert!(topology[key].is_u64(), "{key} in {topology:#}");
        topology[key].clone()
    });
    (facts.to_vec(), links)
}

#[test]
fn a_matrix_of_nvidia_smi_is_imported_with_the_rate_that_is_given() {
    let matrix = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\nGPU0\t X \tNV1\tNV2\tSYS\t0-31\nGPU1\tNV1\t X \tSYS\tNV2\t0-31\n\
                  GPU2\tNV2\tSYS\t X \tNV1\t32-63\nGPU3\tSYS\tNV2\tNV1\t X \t32-63\n";
    let run = rondo_with(&["topology", "import", "-", "--nvlink", "25 GB/s"], matrix.as_bytes()).expect(0);
    let job = format!("{}{}", run.stdout, collective("all_reduce"));
    rondo_with(&["compile", "-", "--no-smt"], job.as_bytes()).expect(0);
    let file = rondo_with(&["topology", "import", "-", "--nvlink", "25"], matrix.as_bytes()).expect(2);
    file.says("--nvlink");
}

#[test]
fn a_fault_in_a_file_that_a_job_names_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("topo.xml"), "<system version=\"1\">\n  <cpu numaid=>\n</system>\n").unwrap();
    let job = folder.path().join("job.toml");
    std::fs::write(&job, format!("[topology]\nfile = \"topo.xml\"\n{}", collective("all_reduce"))).unwrap();
    let job = job.to_str().unwrap();
    rondo(&["compile", job]).expect(2).says("topo.xml:2:15");
    let run = rondo(&["compile", job, "--output-format", "json"]).expect(2);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let error = &report["errors"][0];
    assert_eq!((&error["file"], &error["line"], &error["column"]), (&"topo.xml".into(), &2.into(), &15.into()));
}

#[test]
fn a_foreign_xml_is_refused_by_name() {
    let hwloc = "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\"><object type=\"Machine\"/></topology>\n";
    for command in ["show", "import"] {
        rondo_with(&["topology", command, "-"], hwloc.as_bytes()).expect(2).says("hwloc");
    }
    rondo_with(&["verify", "-"], hwloc.as_bytes()).expect(2);
}
