//! `rondo verify FILE…`

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rondo_backends::{json, mscclpp};
use rondo_compiler::auto::Watch as _;
use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::profile::RuntimeProfile;
use rondo_ir::schedule::Schedule;
use rondo_verify::Verified;
use serde_json::Value;

use super::{folder_of, load_bytes, proof_of, sources};
use crate::cli::args::VerifyArguments;
use crate::cli::progress::Progress;
use crate::cli::render::{Sources, line_and_column};
use crate::cli::{CommandResult, OutputFormat, Session, Status, all_codes, io, report};
use crate::judge::{JudgeOptions, Judgement, Verdict, judge_file};
use crate::pipeline::{Proof, judge};
use crate::recognise::{Kind, recognise};

/// Judges every file; the worst verdict decides.
pub fn run(session: &Session, arguments: &VerifyArguments) -> CommandResult {
    let mscclpp = arguments.runtime.as_deref().and_then(mscclpp::Profile::named);
    let runtime = match &arguments.runtime {
        None => None,
        Some(_) if mscclpp.is_some() => None,
        Some(name) => Some(RuntimeProfile::named(name).ok_or_else(|| {
            let names: Vec<_> = RuntimeProfile::ALL.iter().map(|profile| profile.name).collect();
            vec![
                Diagnostic::error("X005", format!("unknown runtime `{name}`"))
                    .help(format!("allowed: {}, mscclpp", names.join(", "))),
            ]
        })?),
    };
    let proof = proof_of(Proof::default(), &arguments.proof);
    let (mut loaded, mut plan) = (None, None);
    if let Some(path) = &arguments.against {
        let bytes = io::read(path).map_err(|d| vec![d])?;
        let name = io::display_name(path);
        if recognise(&bytes) == Some(Kind::Plan) {
            plan = match reference(session, &name, &bytes)? {
                Ok(verified) => Some((name, verified)),
                Err(status) => return Ok(status),
            };
        } else {
            loaded = match load_bytes(session, &name, &bytes, &folder_of(path)) {
                Ok((loaded, _)) => Some(loaded),
                Err(status) => return Ok(status),
            };
        }
    }
    let options = JudgeOptions {
        against: loaded.as_ref(),
        against_plan: plan.as_ref().map(|(name, verified)| (name.as_str(), verified)),
        runtime,
        mscclpp,
        proof,
        certificate: arguments.certificate.is_some(),
    };
    let files = files(&arguments.files)?;
    let progress = Progress::of(session.format, "verifying", files.len());
    let mut judged: Vec<(String, Judgement)> = Vec::with_capacity(files.len());
    // Findings as JSON: their lines and columns are known while the text is.
    let mut located: Vec<Value> = Vec::new();
    // A few at once, so that not all are in memory.
    for some in files.chunks(4 * rayon::current_num_threads()) {
        let some: Vec<_> = some
            .par_iter()
            .map(|path| {
                let name = io::display_name(path);
                let (mut judgement, bytes) = match io::read(path) {
                    Ok(bytes) => (judge_file(&name, &bytes, &options), bytes),
                    Err(finding) => (Judgement::unreadable("", vec![finding]), Vec::new()),
                };
                if judgement.verdict == Verdict::Unknown {
                    judgement.findings.extend(report::undecided(&judgement.checks));
                }
                progress.done();
                (name, judgement, bytes)
            })
            .collect();
        for (name, judgement, bytes) in some {
            if !judgement.findings.is_empty() && session.format == OutputFormat::Text {
                progress.aside(|| session.printer.diagnostics(&judgement.findings, &sources(&name, &bytes)));
            }
            if session.format == OutputFormat::Json {
                located.push(report::findings_json(&judgement.findings, &sources(&name, &bytes)));
            }
            judged.push((name, judgement));
        }
    }
    drop(progress);
    let mut status = judged.iter().map(|(_, judgement)| status(judgement.verdict)).max().unwrap_or(Status::Done);
    if let Some(path) = &arguments.certificate {
        let texts: Vec<&str> = judged.iter().flat_map(|(_, j)| &j.certificates).map(String::as_str).collect();
        if judged.iter().any(|(_, judgement)| judgement.certificates.is_empty()) {
            let finding = Diagnostic::error("X020", "no certificate is written: not every file has a proof");
            status = status.max(session.report(&[finding], &Sources::new()));
        } else {
            // Each text sets the logic anew.
            io::write(path, texts.join("(reset)\n").as_bytes()).map_err(|d| vec![d])?;
        }
    }
    match session.format {
        OutputFormat::Text => session.print(&text(&judged))?,
        OutputFormat::Json => session.print_json(json_report(&judged, &located))?,
        OutputFormat::Sarif => {
            io::print(format!("{:#}\n", sarif(&judged, &files)).as_bytes()).map_err(|finding| vec![finding])?;
        }
    }
    Ok(status)
}

/// Reads and verifies the plan that files are compared with.
fn reference(
    session: &Session,
    name: &str,
    bytes: &[u8],
) -> Result<Result<Verified<Schedule>, Status>, Vec<Diagnostic>> {
    let sources = sources(name, bytes);
    let (problem, schedule) = match json::parse(name, bytes) {
        Ok(json::Plan::Schedule { problem, schedule, .. }) => (problem, schedule),
        Ok(json::Plan::Program { .. }) => {
            return Err(vec![Diagnostic::error(
                "X011",
                format!("{name} holds a program; --against needs a schedule or a job"),
            )]);
        }
        Err(diagnostics) => {
            session.report(&diagnostics, &sources);
            return Ok(Err(Status::Input));
        }
    };
    let proof = Proof { smt: false, ..Proof::default() };
    match judge(&problem, schedule, &proof) {
        Ok((verified, _, _)) => Ok(Ok(verified)),
        Err(failure) => Ok(Err(super::compile::failed(session, &failure, &sources))),
    }
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
            report::indented(&mut out, 2, &format!("against {against}"));
        }
        report::checks(&mut out, &judgement.checks);
        if !judgement.runtimes.is_empty() {
            out.push('\n');
            let rows: Vec<_> = judgement
                .runtimes
                .iter()
                .map(|service| {
                    let calls = if service.calls.is_empty() { "none" } else { &service.calls };
                    [
                        service.runtime.name.to_owned(),
                        service.fate.name().to_owned(),
                        calls.to_owned(),
                        service.reasons.join(" "),
                    ]
                })
                .collect();
            report::table(&mut out, ["runtime", "file", "calls that use it", "reasons"], &rows);
        }
        return out;
    }
    let rows: Vec<_> = judged
        .iter()
        .map(|(name, judgement)| {
            let count = |severity, what: &str| {
                let count = judgement.findings.iter().filter(|f| f.severity == severity).count();
                (count != 0).then(|| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
            };
            let errors = count(Severity::Error, "error");
            let format = (!judgement.format.is_empty()).then(|| judgement.format.to_owned());
            let against = judgement.against.first().map(|against| format!("against {against}"));
            let facts = [format, errors, count(Severity::Warning, "warning"), against];
            let facts: Vec<_> = facts.into_iter().flatten().collect();
            [judgement.verdict.name().to_owned(), format!("{name}\n{}", facts.join(", "))]
        })
        .collect();
    report::table(&mut out, ["verdict", "file"], &rows);
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

fn json_report(judged: &[(String, Judgement)], located: &[Value]) -> Value {
    let files: Vec<_> = judged
        .iter()
        .zip(located)
        .map(|((name, judgement), findings)| {
            serde_json::json!({
                "file": name, "verdict": judgement.verdict.name(), "format": judgement.format, "against": judgement.against,
                "checks": report::checks_json(&judgement.checks), "findings": findings, "runtimes": runtimes_json(judgement),
            })
        })
        .collect();
    serde_json::json!({ "command": "verify", "files": files })
}

fn runtimes_json(judgement: &Judgement) -> Vec<Value> {
    let services = judgement.runtimes.iter().map(|service| {
        serde_json::json!({
            "name": service.runtime.name, "version": service.runtime.version, "fate": service.fate.name(),
            "calls": service.calls, "reasons": service.reasons,
        })
    });
    services.collect()
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
            serde_json::json!({
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
            let artifact = serde_json::json!({ "uri": path.display().to_string() });
            let mut locations: Vec<_> = finding
                .labels
                .iter()
                .map(|label| {
                    let (line, column) = line_and_column(&bytes, label.start);
                    serde_json::json!({ "physicalLocation": { "artifactLocation": artifact, "region": { "startLine": line, "startColumn": column } } })
                })
                .collect();
            if locations.is_empty() {
                locations.push(serde_json::json!({ "physicalLocation": { "artifactLocation": artifact } }));
            }
            let mut message = finding.message.clone();
            for note in finding.notes.iter().chain(&finding.help) {
                message.push('\n');
                message.push_str(note);
            }
            results.push(serde_json::json!({ "ruleId": finding.code, "level": level, "message": { "text": message }, "locations": locations }));
        }
    }
    serde_json::json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "rondo", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    })
}
