//! What must hold of any bytes whatever that a reader is given. Shared by the short run of the tests and the fuzz targets.
//!
//! None of these may panic. Every finding has a code that `rondo explain` knows, and places inside the text. A file that is read
//! and can be written again is the same when it is read back.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::str::FromStr;

use rondo::backends::{json, msccl_xml, mscclpp};
use rondo::compiler::cost::calibrate;
use rondo::compiler::front::import::{ImportOptions, combine, import_nccl_xml, import_nvidia_smi};
use rondo::compiler::front::job::parse_job_bytes;
use rondo::ir::diagnostic::Diagnostic;
use rondo::ir::profile::RuntimeProfile;
use rondo::ir::program::{Operation, Program};
use rondo::ir::units::{Bytes, Delay, PerByte, Rate};
use rondo::judge::{JudgeOptions, Verdict, judge_file};
use rondo::pipeline::Proof;
use rondo::verify::onesided::{OneSidedOptions, onesided_certificate, verify_onesided};
use rondo::verify::{Answer, Claim};

/// A reader and its check.
pub struct Check {
    /// Name of the fuzz target.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&[u8]),
    /// Folders and files of the repository that it begins with.
    pub seeds: &'static [&'static str],
}

/// All readers.
pub const CHECKS: &[Check] = &[
    Check { name: "msccl_xml", run: msccl_xml, seeds: &["tests/corpus/msccl-xml"] },
    Check {
        name: "mscclpp",
        run: mscclpp,
        seeds: &["tests/corpus/mscclpp-json", "tests/mscclpp/allgather_either.json"],
    },
    Check { name: "rondo_plan", run: rondo_plan, seeds: &["tests/plans"] },
    Check { name: "job", run: job, seeds: &["examples"] },
    Check { name: "topology", run: topology, seeds: &["tests/corpus/nccl-topo-xml", "examples"] },
    Check { name: "units", run: units, seeds: &["tests/hostile/units"] },
    Check { name: "measurements", run: measurements, seeds: &["tests/hostile/measurements"] },
    Check { name: "judge", run: judge, seeds: &["tests/corpus/msccl-xml", "tests/plans", "tests/corpus/mscclpp-json"] },
];

/// Findings have known codes and places inside the text, on its character boundaries.
fn findings(bytes: &[u8], findings: &[Diagnostic]) {
    for finding in findings {
        assert!(rondo::cli::all_codes().iter().any(|entry| entry.code == finding.code), "{}", finding.code);
        assert!(!finding.message.is_empty(), "{}", finding.code);
        for label in &finding.labels {
            assert!(label.start <= label.end && label.end <= bytes.len(), "{finding:?}");
            if let Ok(text) = std::str::from_utf8(bytes) {
                assert!(text.is_char_boundary(label.start) && text.is_char_boundary(label.end), "{finding:?}");
            }
        }
    }
}

pub fn msccl_xml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match msccl_xml::parse("file.xml", text) {
        Err(faults) => {
            assert!(!faults.is_empty());
            findings(bytes, &faults);
        }
        Ok(parsed) => {
            findings(bytes, &parsed.warnings);
            let (broken, services) = msccl_xml::examine("file.xml", &parsed, &RuntimeProfile::LOADABLE);
            assert_eq!(services.len(), 3);
            let broken: Vec<Diagnostic> = broken.into_iter().map(|rule| rule.diagnostic).collect();
            findings(bytes, &broken);
            let header = &parsed.headers[0];
            let options = msccl_xml::Options {
                max_bytes: Some(1 << 20),
                ..msccl_xml::Options::new(&RuntimeProfile::UNLIMITED, parsed.protocol, &header.collective)
            };
            if let Ok(emitted) = msccl_xml::emit(&header.collective, &parsed.program, &options) {
                let again = msccl_xml::parse("again.xml", &emitted.text).unwrap_or_else(|f| panic!("{f:#?}"));
                // A joined reduction may come back as several.
                assert_eq!(instructions(&again.program), instructions(&parsed.program));
            }
        }
    }
}

/// The parser, the two verifiers of one-sided programs, and that the second one can write down all that it asks.
pub fn mscclpp(bytes: &[u8]) {
    let profile = &mscclpp::Profile::V0_8;
    let parsed = match mscclpp::parse("plan.json", bytes, profile, false) {
        Err(
            mscclpp::Failure::Unreadable(faults)
            | mscclpp::Failure::Refuted(faults)
            | mscclpp::Failure::TooLarge(faults),
        ) => {
            assert!(!faults.is_empty());
            return findings(bytes, &faults);
        }
        Ok(parsed) => parsed,
    };
    findings(bytes, &parsed.warnings);
    let mut options = OneSidedOptions::for_text(bytes.len());
    options.smt_options.max_events = 2000;
    options.smt_options.max_conflicts = 2000;
    for turns in parsed.turns().unwrap_or_default() {
        let Ok(lowered) = parsed.lower(turns) else { continue };
        let claim = Claim { collective: parsed.claimed.collective.clone(), chunks: lowered.program.chunks };
        let outcome = verify_onesided(&claim, &lowered.program, &options);
        assert!(!outcome.checks.is_empty());
        for found in &outcome.findings {
            findings(bytes, std::slice::from_ref(&found.diagnostic));
        }
        let refuted = outcome.checks.iter().any(|check| check.answer == Answer::Refuted);
        assert!(!refuted || !outcome.findings.is_empty(), "a refusal without a reason: {:#?}", outcome.checks);
        let mut text = Vec::new();
        if onesided_certificate(&claim, &lowered.program, &options, &mut text).is_ok() {
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.matches("(check-sat)").count(), text.matches("(set-info :status ").count());
        }
    }
}

fn instructions(program: &Program) -> usize {
    let operations = program.ranks.iter().flat_map(|rank| &rank.threadblocks).flat_map(|tb| &tb.operations);
    operations.map(Operation::instruction_count).sum()
}

pub fn rondo_plan(bytes: &[u8]) {
    match json::parse("plan.json", bytes) {
        Err(faults) => {
            assert!(!faults.is_empty());
            findings(bytes, &faults);
        }
        Ok(plan) => {
            if let Ok(text) = json::to_text(plan.as_ref()) {
                let again = json::parse("again.json", text.as_bytes()).unwrap_or_else(|f| panic!("{f:#?}"));
                assert_eq!(json::to_text(again.as_ref()).unwrap(), text);
            }
        }
    }
}

pub fn job(bytes: &[u8]) {
    if let Err(faults) = parse_job_bytes("job.toml", bytes) {
        assert!(!faults.is_empty());
        findings(bytes, &faults);
    }
}

pub fn topology(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let options = ImportOptions::default();
    for imported in [import_nccl_xml("topo", text, &options), import_nvidia_smi("topo", text, &options)] {
        match imported {
            Err(faults) => {
                assert!(!faults.is_empty());
                findings(bytes, &faults);
            }
            Ok(imported) => findings(bytes, &imported.warnings),
        }
    }
    // Both halves of one input, as a machine that is described twice.
    let middle = (0..=text.len() / 2).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let _ = combine(("topo.xml", &text[..middle]), ("topo.txt", &text[middle..]), &options);
}

pub fn units(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for line in text.lines() {
        if let Ok(size) = Bytes::from_str(line) {
            assert_eq!(Bytes::from_str(&size.to_string()), Ok(size), "{line}");
        }
        if let Ok(rate) = Rate::from_str(line) {
            assert_eq!(Rate::from_str(&rate.to_string()), Ok(rate), "{line}");
        }
        if let Ok(delay) = Delay::from_str(line) {
            assert_eq!(Delay::from_str(&delay.to_string()), Ok(delay), "{line}");
        }
        let _ = PerByte::from_str(line);
    }
}

pub fn measurements(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = calibrate::parse(text);
}

pub fn judge(bytes: &[u8]) {
    let options = JudgeOptions { proof: Proof { smt: false, ..Proof::default() }, ..JudgeOptions::default() };
    let judgement = judge_file("file", bytes, &options);
    findings(bytes, &judgement.findings);
    if matches!(judgement.verdict, Verdict::Refuted | Verdict::Unreadable) {
        assert!(!judgement.findings.is_empty() || !judgement.checks.is_empty(), "a refusal without a reason");
    }
}
