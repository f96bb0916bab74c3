//! `rondo verify FILE…`

use std::path::{Path, PathBuf};

use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::profile::RuntimeProfile;
use serde_json::{Value, json};

use super::{Progress, load, proof_of, sources};
use crate::cli::args::VerifyArguments;
use crate::cli::render::Sources;
use crate::cli::{CommandResult, OutputFormat, Session, Status, all_codes, io, report};
use crate::judge::{JudgeOptions, Judgement, Verdict, judge_file};
use crate::pipeline::Proof;

/// Judges every file; the worst verdict decides.
pub fn run(session: &Session, arguments: &VerifyArguments) -> CommandResult {
    let runtime = match &arguments.runtime {
        None => None,
        Some(name) => Some(RuntimeProfile::named(name).ok_or_else(|| {
            let names: Vec<_> = RuntimeProfile::ALL.iter().map(|profile| profile.name).collect();
            vec![
                Diagnostic::error("X005", format!("unknown runtime `{name}`"))
                    .help(format!("allowed: {}", names.join(", "))),
            ]
        })?),
    };
    let loaded = match &arguments.against {
        None => None,
        Some(job) => match load(session, job)? {
            Ok((loaded, _)) => Some(loaded),
            Err(status) => return Ok(status),
        },
    };
    let options =
        JudgeOptions { against: loaded.as_ref(), runtime, proof: proof_of(Proof::default(), &arguments.proof) };
    let files = files(&arguments.files)?;
    let progress = Progress::start("verifying");
    let mut judged: Vec<(String, Judgement)> = Vec::with_capacity(files.len());
    for path in &files {
        let name = io::display_name(path);
        let judgement = match io::read(path) {
            Ok(bytes) => {
                let judgement = judge_file(&name, &bytes, &options);
                if session.format == OutputFormat::Text && !judgement.findings.is_empty() {
                    session.printer.diagnostics(&judgement.findings, &sources(&name, &bytes));
                }
                judgement
            }
            Err(finding) => {
                session.printer.diagnostics(std::slice::from_ref(&finding), &Sources::new());
                Judgement {
                    verdict: Verdict::Unreadable,
                    format: "",
                    against: Vec::new(),
                    checks: Vec::new(),
                    findings: vec![finding],
                }
            }
        };
        judged.push((name, judgement));
    }
    drop(progress);
    let status = judged.iter().map(|(_, judgement)| status(judgement.verdict)).max().unwrap_or(Status::Done);
    let text = match session.format {
        OutputFormat::Text => text(&judged),
        OutputFormat::Json => format!("{}\n", json_report(&judged)),
        OutputFormat::Sarif => format!("{:#}\n", sarif(&judged, &files)),
    };
    io::print(text.as_bytes()).map_err(|d| vec![d])?;
    Ok(status)
}

const fn status(verdict: Verdict) -> Status {
    match verdict {
        Verdict::Verified => Status::Done,
        Verdict::Refuted => Status::Refuted,
        Verdict::Unreadable => Status::Input,
        Verdict::Unknown => Status::Undecided,
    }
}

/// Folders become the plan files in them, sorted; an index beside plans is no plan.
fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>, Vec<Diagnostic>> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
        entries.sort();
        for entry in entries {
            if entry.is_dir() {
                walk(&entry, found)?;
            } else if entry.extension().is_some_and(|e| e == "json" || e == "xml")
                && entry.file_name().is_some_and(|n| n != "index.json")
            {
                found.push(entry);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    for path in given {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        walk(path, &mut found)
            .map_err(|error| vec![Diagnostic::error("X001", format!("cannot read {}: {error}", path.display()))])?;
        if found.len() == before {
            return Err(vec![
                Diagnostic::error("X001", format!("there is no .json or .xml file in {}", path.display()))
                    .help("name the files"),
            ]);
        }
    }
    Ok(found)
}

fn text(judged: &[(String, Judgement)]) -> String {
    let mut out = String::new();
    if let [(name, judgement)] = judged {
        out.push_str(&format!("{name}: {}\n", judgement.verdict.name()));
        for against in &judgement.against {
            out.push_str(&format!("  against {against}\n"));
        }
        report::checks(&mut out, &judgement.checks);
        return out;
    }
    let rows: Vec<_> = judged
        .iter()
        .map(|(name, judgement)| {
            let count = |severity| judgement.findings.iter().filter(|f| f.severity == severity).count();
            [
                judgement.verdict.name().to_owned(),
                name.clone(),
                judgement.format.to_owned(),
                count(Severity::Error).to_string(),
                count(Severity::Warning).to_string(),
                judgement.against.first().cloned().unwrap_or_default(),
            ]
        })
        .collect();
    report::table(&mut out, ["verdict", "file", "format", "errors", "warnings", "against"], &rows);
    let count = |verdict| judged.iter().filter(|(_, judgement)| judgement.verdict == verdict).count();
    out.push_str(&format!(
        "\n{} files: {} verified, {} refuted, {} unreadable, {} unknown\n",
        judged.len(),
        count(Verdict::Verified),
        count(Verdict::Refuted),
        count(Verdict::Unreadable),
        count(Verdict::Unknown)
    ));
    out
}

fn json_report(judged: &[(String, Judgement)]) -> Value {
    let files: Vec<_> = judged
        .iter()
        .map(|(name, judgement)| {
            json!({
                "file": name, "verdict": judgement.verdict.name(), "format": judgement.format, "against": judgement.against,
                "checks": report::checks_json(&judgement.checks), "findings": report::findings_json(&judgement.findings),
            })
        })
        .collect();
    json!({ "command": "verify", "files": files })
}

/// SARIF 2.1.0, so that code-review tools show findings at their line.
fn sarif(judged: &[(String, Judgement)], paths: &[PathBuf]) -> Value {
    let codes = all_codes();
    let mut used: Vec<&str> = judged.iter().flat_map(|(_, j)| &j.findings).map(|f| f.code).collect();
    used.sort_unstable();
    used.dedup();
    let rules: Vec<_> = used
        .iter()
        .map(|code| {
            let entry = codes.iter().find(|entry| entry.code == *code);
            json!({
                "id": code,
                "shortDescription": { "text": entry.map_or("", |e| e.title) },
                "fullDescription": { "text": entry.map_or("", |e| e.explanation) },
            })
        })
        .collect();
    let mut results = Vec::new();
    for ((_, judgement), path) in judged.iter().zip(paths) {
        let bytes = if path == Path::new("-") { Vec::new() } else { std::fs::read(path).unwrap_or_default() };
        for finding in &judgement.findings {
            let level = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            let artifact = json!({ "uri": path.display().to_string() });
            let mut locations: Vec<_> = finding
                .labels
                .iter()
                .map(|label| {
                    let before = &bytes[..label.start.min(bytes.len())];
                    let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
                    let column = 1 + before.iter().rev().take_while(|&&b| b != b'\n').count();
                    json!({ "physicalLocation": { "artifactLocation": artifact, "region": { "startLine": line, "startColumn": column } } })
                })
                .collect();
            if locations.is_empty() {
                locations.push(json!({ "physicalLocation": { "artifactLocation": artifact } }));
            }
            let mut message = finding.message.clone();
            for note in finding.notes.iter().chain(&finding.help) {
                message.push('\n');
                message.push_str(note);
            }
            results.push(json!({ "ruleId": finding.code, "level": level, "message": { "text": message }, "locations": locations }));
        }
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "rondo", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    })
}
