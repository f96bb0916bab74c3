//! `rondo compile JOB`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_compiler::auto::Watch as _;
use rondo_compiler::fabric::LinkKind;
use rondo_compiler::front::job::{SizeRequest, build_problem};
use rondo_compiler::pass::circuits::Rule;
use rondo_ir::diagnostic::Diagnostic;
use serde_json::json;

use super::{load, proof_of};
use crate::cli::args::CompileArguments;
use crate::cli::progress::Progress;
use crate::cli::render::Sources;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io, report};
use crate::export::{ExportRequest, Exported, Format, export};
use crate::judge::schedule_certificate;
use crate::pipeline::{Compiled, Failure, Loaded, Proof, Request, compile_watched};
use crate::size_set;

/// A file to write besides the plan.
pub struct Target {
    /// What to write.
    pub request: ExportRequest,
    /// Where; `None`: only check that it can be written.
    pub path: PathBuf,
}

/// Compiles a job.
pub fn run(session: &Session, arguments: &CompileArguments) -> CommandResult {
    let (loaded, sources) = match load(session, &arguments.job)? {
        Ok(loaded) => loaded,
        Err(status) => return Ok(status),
    };
    let targets = targets(&loaded, arguments)?;
    distinct(
        &arguments.job,
        arguments.output.iter().chain(&arguments.certificate).chain(targets.iter().map(|target| &target.path)),
    )?;
    let mut request = Request::of(&loaded.job);
    if let Some(name) = &arguments.algorithm {
        request.algorithm.clone_from(name);
    }
    request.chunks = arguments.chunks.or(request.chunks);
    if let Some(rule) = &arguments.circuits {
        request.circuits.rule = circuit_rule(rule)?;
    }
    let proof = proof_of(Proof::of(&loaded.job), &arguments.proof);

    let ranks = match build_problem(&loaded.job, &loaded.fabric) {
        Ok(problem) => problem,
        Err(diagnostics) => return Ok(session.report(&diagnostics, &sources)),
    };
    let size = loaded.job.sizes(u32::try_from(ranks.rank_count()).unwrap_or(u32::MAX));
    if let SizeRequest::Range { low, high } = size {
        if arguments.certificate.is_some() {
            let finding = Diagnostic::error("X020", "a set of plans has no one certificate");
            return Err(vec![finding.help("give one size, or `rondo verify PLAN --certificate FILE` for each plan")]);
        }
        let set = size_set::SetRequest { low, high, request, proof };
        return super::compile_set::run(session, &loaded, &sources, &set, &targets, arguments);
    }
    let problem = Arc::new(ranks);
    let progress = Progress::new(session.format);
    let compiled = match compile_watched(&problem, &loaded.fabric, &request, &proof, &progress) {
        Ok(compiled) => compiled,
        Err(failure) => {
            drop(progress);
            return Ok(failed(session, &failure, &sources));
        }
    };
    progress.aside(|| session.printer.diagnostics(&compiled.findings, &sources));
    progress.begin("writing and verifying files", 1);
    // Everything is made and checked before anything is written.
    let mut written = Vec::new();
    if let Some(path) = &arguments.output {
        let plan = export(&compiled.plan, &ExportRequest::new(Format::Json))?;
        written.push((path.clone(), plan));
    }
    for target in &targets {
        let mut file = export(&compiled.plan, &target.request)?;
        file.warnings.extend(several_hosts(&loaded, &target.request));
        written.push((target.path.clone(), file));
    }
    if let Some(path) = &arguments.certificate {
        let rondo_verify::About::Problem(problem) = compiled.plan.about() else { return Ok(Status::Undecided) };
        let text = schedule_certificate(problem, compiled.plan.value(), &proof).map_err(|finding| vec![*finding])?;
        let checked = "the proof as SMT-LIB 2, for another solver".to_owned();
        written.push((path.clone(), Exported { text, warnings: Vec::new(), checked }));
    }
    drop(progress);
    for (_, file) in &written {
        session.printer.diagnostics(&file.warnings, &sources);
    }
    let outputs: Vec<(&Path, &[u8])> =
        written.iter().map(|(path, file)| (path.as_path(), file.text.as_bytes())).collect();
    let to_stdout = outputs.iter().any(|(path, _)| *path == Path::new("-"));
    io::write_all(&outputs).map_err(|d| vec![d])?;
    // A plan on standard output is the result; the report would mix with it.
    if !to_stdout {
        print(session, &loaded, &sources, &compiled, &written)?;
    }
    Ok(Status::Done)
}

/// A runtime that does not use its plans where the ranks are on several machines.
pub fn several_hosts(loaded: &Loaded, request: &ExportRequest) -> Option<Diagnostic> {
    let Format::MscclXml(profile) = request.format else { return None };
    let several = loaded.fabric.kinds.contains(&LinkKind::Network);
    (several && !profile.several_hosts).then(|| {
        Diagnostic::warning("X019", format!("{} does not use plan files on several machines", profile.name))
            .note(format!("{} switches MSCCL off there, and runs its own algorithms without a word", profile.version))
            .help("RCCL_MSCCL_FORCE_ENABLE=1 switches it on; or write the file for msccl or azure")
    })
}

/// Files that the command line and the job ask for.
fn targets(loaded: &Loaded, arguments: &CompileArguments) -> Result<Vec<Target>, Vec<Diagnostic>> {
    let mut targets = Vec::new();
    for text in &arguments.emit {
        let Some((format, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
            return Err(vec![
                Diagnostic::error("X005", format!("`--emit {text}` names no file"))
                    .help(format!("write --emit FORMAT=FILE, with FORMAT one of {}", crate::export::FORMATS)),
            ]);
        };
        let format: Format = format.parse().map_err(|d| vec![d])?;
        // What the job says of this runtime holds for the command line too.
        let mut request = loaded
            .job
            .export
            .iter()
            .map(super::export_request)
            .find(|request| request.format == format)
            .unwrap_or_else(|| ExportRequest::new(format));
        request.strict_routes = arguments.strict_routes;
        targets.push(Target { request, path: PathBuf::from(path) });
    }
    Ok(targets)
}

/// Outputs must differ from each other and from the job.
fn distinct<'a>(job: &'a Path, outputs: impl Iterator<Item = &'a PathBuf>) -> Result<(), Vec<Diagnostic>> {
    // A file that is not there yet has no canonical path; that of its folder does.
    let canonical = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        std::fs::canonicalize(path).or_else(|_| std::fs::canonicalize(folder).map(|folder| folder.join(name)))
    };
    let mut seen = Vec::new();
    if job != Path::new("-") {
        seen.extend(canonical(job));
    }
    for output in outputs {
        let path = if output == Path::new("-") { PathBuf::from("-") } else { canonical(output).unwrap_or_default() };
        if !path.as_os_str().is_empty() && seen.contains(&path) {
            let message = format!("{} would be written over the job or another output", output.display());
            return Err(vec![Diagnostic::error("X005", message).help("give every output a name of its own")]);
        }
        seen.push(path);
    }
    Ok(())
}

/// Prints why there is no schedule.
pub fn failed(session: &Session, failure: &Failure, sources: &Sources) -> Status {
    match failure {
        Failure::Input(diagnostics) => {
            session.report(diagnostics, sources);
            Status::Input
        }
        Failure::Refuted { checks, findings } => {
            let mut text = String::new();
            report::checks(&mut text, checks);
            session.printer.text(&text);
            session.report(findings, sources);
            Status::Refuted
        }
        Failure::Undecided { checks, findings } => {
            let mut text = String::new();
            report::checks(&mut text, checks);
            session.printer.text(&text);
            session.report(findings, sources);
            session.report(report::undecided(checks).as_slice(), sources);
            Status::Undecided
        }
    }
}

/// Rows of the table of steps that are printed where circuits change.
const MOST_STEPS: usize = 40;

fn print(
    session: &Session,
    loaded: &Loaded,
    sources: &Sources,
    compiled: &Compiled,
    written: &[(PathBuf, Exported)],
) -> Result<(), Vec<Diagnostic>> {
    let rondo_verify::About::Problem(problem) = compiled.plan.about() else { return Ok(()) };
    let schedule = compiled.plan.value();
    let ring = compiled.candidates.iter().find(|c| c.name == "ring").and_then(|c| c.time.as_ref());
    if session.format != OutputFormat::Text {
        let defaults: Vec<_> = loaded
            .job
            .defaults_used()
            .iter()
            .map(|d| json!({ "key": d.key, "value": d.value, "source": d.source }))
            .collect();
        let files: Vec<_> = written
            .iter()
            .map(|(path, file)| json!({ "file": path.display().to_string(), "bytes": file.text.len(), "checked": file.checked }))
            .collect();
        let value = json!({
            "command": "compile", "verdict": "verified", "problem": report::problem_json(problem),
            "schedule": {
                "algorithm": schedule.algorithm, "chunks": schedule.chunks, "steps": schedule.steps.len(), "flows": schedule.flow_count(),
            },
            "price": report::price_json(problem, &compiled.cost, &compiled.bound),
            "circuits": report::circuits_json(problem, schedule, ring),
            "candidates": report::candidates_json(&compiled.candidates), "checks": report::checks_json(&compiled.checks),
            "findings": report::findings_json(&compiled.findings, sources), "defaults": defaults, "files": files,
        });
        return session.print_json(value);
    }
    let mut out = String::new();
    report::problem(&mut out, problem);
    let chosen = format!(
        "{}: {}, {}, {} a block",
        schedule.algorithm,
        report::counted(schedule.steps.len(), "step"),
        report::counted(schedule.flow_count(), "flow"),
        report::counted(schedule.chunks.first().copied().unwrap_or(1) as usize, "chunk")
    );
    report::line(&mut out, "chosen", &chosen);
    report::price(&mut out, problem, &compiled.cost, &compiled.bound);
    report::circuits(&mut out, problem, schedule, &compiled.cost, ring);
    if !problem.topology().devices().is_empty() {
        out.push_str("\nsteps\n");
        report::steps(&mut out, problem, &compiled.cost, MOST_STEPS);
    }
    out.push_str("\ncandidates\n");
    report::candidates(&mut out, &compiled.candidates);
    out.push_str("\nverified\n");
    report::checks(&mut out, &compiled.checks);
    let defaults: Vec<_> =
        loaded.job.cost_defaults().map(|d| format!("{} = {} ({})", d.key, d.value, d.source)).collect();
    if !defaults.is_empty() {
        out.push_str("\ndefaults of the cost model\n");
        for default in defaults {
            report::indented(&mut out, 2, &default);
        }
    }
    for (path, file) in written {
        out.push('\n');
        report::wrote(&mut out, path, file);
    }
    if written.is_empty() {
        out.push_str("\nnothing written; -o PLAN.json keeps the plan, --emit FORMAT=FILE writes it for a runtime");
        let runtimes: Vec<_> =
            loaded.job.export.iter().map(|e| format!("msccl-xml:{}=FILE.xml", e.runtime.name)).collect();
        if !runtimes.is_empty() {
            out.push_str(&format!("\nthe job has [export] options for --emit {}", runtimes.join(" --emit ")));
        }
        out.push('\n');
    }
    session.print(&out)
}

/// The rule that `--circuits` names.
fn circuit_rule(name: &str) -> Result<Rule, Vec<Diagnostic>> {
    let named = Rule::NAMED.iter().find(|(known, _)| *known == name).map(|&(_, rule)| rule);
    named.or_else(|| name.parse().ok().map(Rule::Threshold)).ok_or_else(|| {
        let names: Vec<_> = Rule::NAMED.iter().map(|(name, _)| *name).collect();
        vec![
            Diagnostic::error("X005", format!("`{name}` is no rule for circuits"))
                .help(format!("write {}, or a threshold", names.join(", "))),
        ]
    })
}
