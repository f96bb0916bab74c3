//! Every algorithm on several fabrics, lowered for every runtime, written as MSCCL XML, read again, verified from the file alone
//! and shown to be the schedule that it came from. Files of other tools are verified against their own claims.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use rondo_backends::msccl_xml::{self, Options};
use rondo_compiler::build::{self, BuildContext};
use rondo_compiler::fabric::Fabric;
use rondo_compiler::lower::{LowerOptions, lower};
use rondo_compiler::topology::spec::LinkRates;
use rondo_compiler::topology::{hypercube, mesh, ring, switch, torus};
use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::problem::Problem;
use rondo_ir::profile::{Protocol, RuntimeProfile};
use rondo_ir::units::{Bytes, Delay, Rate};
use rondo_verify::program::{ProgramOptions, same_transfers, verify_program};
use rondo_verify::{Answer, Claim, SmtMode, verify_schedule};

fn fabrics() -> Vec<(&'static str, Fabric)> {
    let link = LinkRates { bandwidth: Rate::new(25_000_000_000).unwrap(), latency: Delay::from_nanoseconds(500) };
    vec![
        ("ring of 5", ring::ring(5, true, link).unwrap()),
        ("mesh of 6", mesh::mesh(6, link).unwrap()),
        ("switch of 8", switch::switch(8, link).unwrap()),
        ("torus 3 x 4", torus::torus(&[3, 4], link).unwrap()),
        ("hypercube of 8", hypercube::hypercube(3, link).unwrap()),
    ]
}

fn kinds() -> [CollectiveKind; 6] {
    [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll { matrix: None },
        CollectiveKind::Broadcast { root: 1 },
        CollectiveKind::Reduce { root: 0 },
    ]
}

#[test]
fn every_written_file_is_the_verified_schedule() {
    let mut files = 0;
    let mut refused = Vec::new();
    for (name, fabric) in fabrics() {
        let ranks = u32::try_from(fabric.topology.compute_nodes().count()).unwrap();
        for kind in kinds() {
            for in_place in [false, true] {
                if in_place && !kind.has_in_place_form() {
                    continue;
                }
                let collective = Collective::new(CollectiveSpec {
                    kind: kind.clone(),
                    ranks,
                    operator: ReduceOperator::Sum,
                    dtype: DataType::Float32,
                    buffer_size: Bytes(4 * 27_720),
                    in_place,
                    input_writable: false,
                })
                .unwrap();
                let problem =
                    Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, CostModel::FREE).unwrap());
                for algorithm in build::algorithms().iter().filter(|algorithm| algorithm.serves(&kind)) {
                    let chunks = if algorithm.is_pipelined() { 3 } else { 1 };
                    let cx = BuildContext::new(&problem, &fabric).with_chunks(chunks);
                    let Ok(schedule) = build::build(algorithm.name, &cx) else { continue };
                    let case = format!("{} on a {name}, {}", kind.name(), algorithm.name);
                    check(&case, &problem, schedule, &mut files, &mut refused);
                }
            }
        }
    }
    assert!(400 < files, "{files}");
    assert!(refused.is_empty(), "{refused:#?}");
}

fn check(
    case: &str,
    problem: &Arc<Problem>,
    schedule: rondo_ir::schedule::Schedule,
    files: &mut usize,
    refused: &mut Vec<String>,
) {
    let collective = problem.groups()[0].collective();
    let options = rondo_verify::Options { smt: SmtMode::Off, ..rondo_verify::Options::default() };
    let outcome = verify_schedule(Arc::clone(problem), schedule, &options);
    let findings = outcome.findings;
    let verified = outcome.verified.unwrap_or_else(|| panic!("{case}: {findings:#?}"));
    for profile in RuntimeProfile::ALL {
        for (protocol, channels) in [(Protocol::Simple, 0), (Protocol::Ll, 2)] {
            let case = format!("{case}, for {}", profile.name);
            let lowered = match lower(problem, verified.value(), &LowerOptions { profile, protocol, channels }) {
                Ok(lowered) => lowered,
                Err(error) => {
                    refused.push(format!("{case}: {error}"));
                    continue;
                }
            };
            let options =
                Options { max_bytes: Some(collective.buffer_size().0), ..Options::new(profile, protocol, collective) };
            let emitted = msccl_xml::emit(collective, &lowered.program, &options)
                .unwrap_or_else(|error| panic!("{case}: {error}"));
            let parsed =
                msccl_xml::parse("plan.xml", &emitted.text).unwrap_or_else(|faults| panic!("{case}: {faults:#?}"));
            let [header] = &parsed.headers[..] else { panic!("{case}: one kind of calls") };
            assert_eq!(header.collective.kind(), collective.kind(), "{case}");
            assert_eq!(header.collective.in_place(), collective.in_place(), "{case}");
            let claim = Claim { collective: header.collective.clone(), chunks: header.chunks };
            for depth in [1, 2] {
                let options = ProgramOptions { fifo_depth: Some(depth), ..ProgramOptions::default() };
                let outcome = verify_program(claim.clone(), parsed.program.clone(), &options);
                let findings = outcome.findings;
                let program = outcome.verified.unwrap_or_else(|| panic!("{case}, depth {depth}: {findings:#?}"));
                if let Err(findings) = same_transfers(&verified, &program) {
                    panic!("{case}: {findings:#?}\n{}", emitted.text);
                }
            }
            *files += 1;
        }
    }
}

#[test]
fn the_files_of_other_tools_do_what_they_claim() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/msccl-xml");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 11);
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        let parsed = msccl_xml::parse(&name, &text).unwrap_or_else(|faults| panic!("{faults:#?}"));
        for header in parsed.headers {
            let claim = Claim { collective: header.collective, chunks: header.chunks };
            let outcome = verify_program(claim, parsed.program.clone(), &ProgramOptions::default());
            assert_eq!(outcome.answer(), Answer::Proved, "{name}: {:#?}", outcome.findings);
            // Of the corpus only the one-shot file adds in an order of its own on each rank (its SOURCES.md says so).
            let one_shot = name.contains("1step");
            let all_reduce = parsed.facts.collective == "allreduce";
            let same = outcome.checks.iter().any(|check| check.name == "same-order" && check.answer == Answer::Proved);
            assert_eq!(same, all_reduce && !one_shot, "{name}");
            assert_eq!(outcome.findings.iter().any(|finding| finding.code == "V122"), one_shot, "{name}");
        }
    }
}
