//! `rondo compile JOB` where the job gives a range of sizes: a set of plans.

use std::path::{Path, PathBuf};

use rondo_compiler::auto::Watch as _;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use serde_json::{Value, json};

use super::compile::{Target, failed, several_hosts};
use super::set_folder;
use crate::cli::args::CompileArguments;
use crate::cli::progress::Progress;
use crate::cli::render::Sources;
use crate::cli::{CommandResult, OutputFormat, Session, Status, report};
use crate::export::{ExportRequest, Format, can_export, export};
use crate::pipeline::Loaded;
use crate::size_set::{Set, SetPlan, SetRequest, compile_set};

/// Compiles the set and writes it.
pub fn run(
    session: &Session,
    loaded: &Loaded,
    sources: &Sources,
    set: &SetRequest,
    targets: &[Target],
    arguments: &CompileArguments,
) -> CommandResult {
    check_folders(arguments, targets)?;
    let files_limit = targets
        .iter()
        .filter_map(|target| match target.request.format {
            Format::MscclXml(profile) => profile.files,
            Format::Json => None,
        })
        .min();
    let usable = |problem: &Problem, schedule: &Schedule| -> Result<(), Diagnostic> {
        targets.iter().try_for_each(|target| can_export(problem, schedule, &target.request))
    };
    let progress = Progress::new(session.format);
    let set = compile_set(loaded, set, files_limit.map(|limit| limit as usize), usable, &progress);
    drop(progress);
    let set = match set {
        Ok(set) => set,
        Err(failure) => return Ok(failed(session, &failure, sources)),
    };
    // Everything is exported before anything is written.
    let mut folders = Vec::new();
    if let Some(folder) = &arguments.output {
        folders.push(export_set(session, sources, &set.plans, &ExportRequest::new(Format::Json), folder)?);
    }
    for target in targets {
        session.printer.diagnostics(several_hosts(loaded, &target.request).as_slice(), sources);
        folders.push(export_set(session, sources, &set.plans, &target.request, &target.path)?);
    }
    let contents: Vec<_> = folders.iter().map(|folder| (folder.path.as_path(), folder.files.as_slice())).collect();
    set_folder::replace(&contents).map_err(|d| vec![d])?;
    print(session, &set, &folders)?;
    Ok(Status::Done)
}

/// Folders that are asked for, before any work is done for them.
fn check_folders(arguments: &CompileArguments, targets: &[Target]) -> Result<(), Vec<Diagnostic>> {
    let mut seen: Vec<&Path> = Vec::new();
    for folder in arguments.output.as_ref().into_iter().chain(targets.iter().map(|target| &target.path)) {
        if folder == Path::new("-") {
            return Err(vec![
                Diagnostic::error("X005", "a set of plans cannot go to standard output").help("name a folder"),
            ]);
        }
        if seen.contains(&folder.as_path()) {
            return Err(vec![
                Diagnostic::error("X005", format!("two sets of plans cannot both go to {}", folder.display()))
                    .help("name a folder for each"),
            ]);
        }
        seen.push(folder);
        set_folder::check(folder).map_err(|d| vec![d])?;
    }
    Ok(())
}

/// A folder to write.
struct Folder {
    path: PathBuf,
    /// Path below it, and content.
    files: Vec<(String, String)>,
    index: Value,
    how_to_load: Vec<String>,
}

/// One file a plan, and the index beside them: the plans in `FOLDER/algorithms`, since some runtimes take every file of a folder for an
/// algorithm.
fn export_set(
    session: &Session,
    sources: &Sources,
    plans: &[SetPlan],
    request: &ExportRequest,
    folder: &Path,
) -> Result<Folder, Vec<Diagnostic>> {
    let ending = match request.format {
        Format::Json => "json",
        Format::MscclXml(_) => "xml",
    };
    // A gap below the first size or above the last would be served by the runtime's own algorithms.
    let (low, high) = request.sizes.unwrap_or((0, u64::MAX));
    let mut entries = Vec::new();
    let mut files = Vec::new();
    let progress = Progress::of(session.format, "verifying and writing", plans.len());
    for (index, plan) in plans.iter().enumerate() {
        let (from, to) = (plan.from.0.max(low), plan.to.0.min(high));
        if to < from {
            continue;
        }
        let algorithm = &plan.compiled.plan.value().algorithm;
        let name = format!("{}/{index:02}-{algorithm}-{from}-{to}.{ending}", set_folder::PLANS);
        let request = ExportRequest { sizes: Some((from, to)), ..request.clone() };
        let file = export(&plan.compiled.plan, &request)?;
        progress.aside(|| session.printer.diagnostics(&file.warnings, sources));
        entries.push(json!({
            "file": name, "from_bytes": from, "to_bytes": to, "algorithm": algorithm,
            "chunks": plan.compiled.plan.value().chunks, "seconds_at_0_bytes": plan.line.fixed.to_string(),
            "seconds_a_byte": plan.line.per_byte.to_string(), "checked": file.checked,
        }));
        files.push((name, file.text));
        progress.done();
    }
    let names: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name)).collect();
    let how_to_load = how_to_load(request.format, &folder.join(set_folder::PLANS), &names);
    let index = json!({
        "format": set_folder::FORMAT, "version": "1.0",
        "sizes": "bytes of the larger of a rank's buffers, both ends included; prices are exact for sizes that divide evenly",
        "plans": entries, "how_to_load": how_to_load,
    });
    files.push((set_folder::INDEX.to_owned(), format!("{index:#}\n")));
    Ok(Folder { path: folder.to_owned(), files, index, how_to_load })
}

/// What a user has to set so that the runtime picks the files up.
fn how_to_load(format: Format, folder: &Path, names: &[PathBuf]) -> Vec<String> {
    let Format::MscclXml(profile) = format else {
        return vec!["rondo export each plan for a runtime".to_owned()];
    };
    let folder = folder.display();
    match profile.name {
        "msccl" => {
            let list: Vec<_> = names.iter().map(|name| name.display().to_string()).collect();
            vec![
                format!("export MSCCL_XML_FILES={}", list.join(":")),
                "export NCCL_ALGO=MSCCL,RING,TREE".to_owned(),
                "use absolute paths if the job starts in another folder; the ends of size ranges are exclusive in these files".to_owned(),
            ]
        }
        "azure" => vec![
            format!("export MSCCL_ALGO_DIR={folder}"),
            "one GPU a process; every file in the folder is loaded".to_owned(),
        ],
        "rccl" => vec![
            format!("export MSCCL_ALGO_DIR={folder}"),
            "export RCCL_MSCCL_FORCE_ENABLE=1 if the machine's topology model does not enable MSCCL; one host only"
                .to_owned(),
        ],
        _ => vec![format!("no runtime loads these ({} has no limits)", profile.name)],
    }
}

fn print(session: &Session, set: &Set, folders: &[Folder]) -> Result<(), Vec<Diagnostic>> {
    let Set { plans, refused } = set;
    if session.format != OutputFormat::Text {
        let list: Vec<_> = plans
            .iter()
            .map(|plan| {
                json!({
                    "from_bytes": plan.from.0, "to_bytes": plan.to.0,
                    "algorithm": plan.compiled.plan.value().algorithm, "chunks": plan.compiled.plan.value().chunks,
                    "time_at_largest": report::time_json(&plan.compiled.price.total),
                    "candidates": report::rivals_json(&plan.rivals), "checks": report::checks_json(&plan.compiled.checks),
                })
            })
            .collect();
        let folders: Vec<_> = folders
            .iter()
            .map(|folder| json!({ "folder": folder.path.display().to_string(), "index": folder.index }))
            .collect();
        let value = json!({
            "command": "compile", "verdict": "verified", "problem": plans.last().map(|plan| report::problem_json(&plan.problem)),
            "plans": list, "refused": report::refused_json(refused), "folders": folders,
        });
        return session.print_json(value);
    }
    let mut out = String::new();
    if let Some(plan) = plans.last() {
        report::problem(&mut out, &plan.problem);
        if let Some(first) = plans.first() {
            report::line(
                &mut out,
                "sizes",
                &format!("{} to {} (the collective above is the largest)", first.from, plan.to),
            );
        }
    }
    let rows: Vec<_> = plans
        .iter()
        .map(|plan| {
            [
                plan.from.to_string(),
                plan.to.to_string(),
                plan.compiled.plan.value().algorithm.clone(),
                plan.compiled.plan.value().chunks.first().copied().unwrap_or(1).to_string(),
                plan.compiled.price.total.to_string(),
                plan.compiled.bound.time.to_string(),
            ]
        })
        .collect();
    out.push('\n');
    report::table(&mut out, ["from", "to", "algorithm", "chunks", "time at the largest", "bound there"], &rows);
    out.push_str("\nthe candidates, at both ends of each range; prices are exact for sizes that divide evenly\n");
    for plan in plans {
        out.push('\n');
        report::rivals(&mut out, plan);
    }
    if !refused.is_empty() {
        out.push_str("\nleft out\n");
        report::refused(&mut out, refused);
    }
    out.push_str("\nevery plan was verified; the checks of the last one:\n");
    if let Some(plan) = plans.last() {
        report::checks(&mut out, &plan.compiled.checks);
    }
    for folder in folders {
        out.push_str(&format!("\nwrote {}, with index.json; to load it:\n", folder.path.display()));
        for line in &folder.how_to_load {
            report::indented(&mut out, 2, line);
        }
    }
    if folders.is_empty() {
        out.push_str(
            "\nnothing written; -o FOLDER keeps the plans, --emit msccl-xml:msccl=FOLDER writes them for a runtime\n",
        );
    }
    session.print(&out)
}
