//! One module a command, and what they share.

pub mod compare;
pub mod compile;
pub mod compile_set;
pub mod completions;
pub mod cost;
pub mod explain;
pub mod export;
pub mod ocs;
pub mod reproduce;
mod set_folder;
pub mod sweep;
pub mod thresholds;
pub mod topology;
pub mod training;
pub mod verify;

use std::path::{Path, PathBuf};

use rondo_compiler::fabric::Fabric;
use rondo_compiler::front::job::{ExportFormat, ExportOptions, Sizes};
use rondo_ir::diagnostic::Diagnostic;

use super::args::ProofArguments;
use super::render::Sources;
use super::{Session, Status, io};
use crate::export::{ExportRequest, Format};
use crate::pipeline::{Loaded, Proof, load_job, load_topology};
use crate::recognise::{Kind, recognise};

/// A proof with what the options change.
pub fn proof_of(proof: Proof, arguments: &ProofArguments) -> Proof {
    Proof {
        smt: !arguments.no_smt,
        require_smt: !arguments.no_smt && (proof.require_smt || arguments.require_smt),
        smt_ranks: arguments.smt_ranks.unwrap_or(proof.smt_ranks),
        smt_events: arguments.smt_events.unwrap_or(proof.smt_events),
        ..proof
    }
}

/// The folder to which paths in a job are relative.
pub fn folder_of(job: &Path) -> PathBuf {
    match job.parent() {
        Some(parent) if job != Path::new("-") && !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a folder and writes files into it, all or none; their paths and sizes. Other files there are left alone.
pub fn write_folder(folder: &Path, files: &[(String, String)]) -> Result<Vec<(String, usize)>, Vec<Diagnostic>> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let message = format!("cannot make the folder {}: {error}", folder.display());
        vec![Diagnostic::error("X003", message).help("name a folder that can be made, with -o")]
    })?;
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name)).collect();
    let contents: Vec<(&Path, &[u8])> =
        paths.iter().zip(files).map(|(path, (_, text))| (path.as_path(), text.as_bytes())).collect();
    io::write_all(&contents).map_err(|finding| vec![finding])?;
    Ok(paths.iter().zip(files).map(|(path, (_, text))| (path.display().to_string(), text.len())).collect())
}

/// Source texts for messages: one file.
pub fn sources(name: &str, bytes: &[u8]) -> Sources {
    Sources::from([(name.to_owned(), String::from_utf8_lossy(bytes).into_owned())])
}

/// Reads a job and builds its topology; prints what is wrong, or the warnings.
pub fn load(session: &Session, path: &Path) -> Result<Result<(Loaded, Sources), Status>, Vec<Diagnostic>> {
    let bytes = io::read(path).map_err(|d| vec![d])?;
    Ok(load_bytes(session, &io::display_name(path), &bytes, &folder_of(path)))
}

/// The same for a job that was read already.
pub fn load_bytes(session: &Session, name: &str, bytes: &[u8], folder: &Path) -> Result<(Loaded, Sources), Status> {
    load_with(session, name, bytes, folder, load_job, |loaded| &loaded.warnings)
}

/// The same for a file that need not hold more than a topology.
pub fn load_topology_bytes(session: &Session, name: &str, bytes: &[u8], folder: &Path) -> Result<Fabric, Status> {
    let (built, _) = load_with(session, name, bytes, folder, load_topology, |built| &built.warnings)?;
    Ok(built.fabric)
}

fn load_with<T>(
    session: &Session,
    name: &str,
    bytes: &[u8],
    folder: &Path,
    load: fn(&str, &[u8], &Path) -> Result<T, Vec<Diagnostic>>,
    warnings: fn(&T) -> &[Diagnostic],
) -> Result<(T, Sources), Status> {
    let mut sources = sources(name, bytes);
    let other = match recognise(bytes) {
        Some(Kind::Plan) => Some("a plan of rondo; `rondo verify` and `rondo cost` read it"),
        Some(Kind::MscclXml) => Some("MSCCL XML; `rondo verify` reads it"),
        Some(Kind::Mscclpp) => Some("an execution plan of MSCCL++; `rondo verify` reads it"),
        Some(Kind::NcclTopology) => Some("a machine's topology; name it in a job: [topology] file = \"…\""),
        Some(Kind::NvidiaSmi) => Some("a matrix of nvidia-smi; name it in a job: [topology] file = \"…\""),
        Some(Kind::Job) | None => None,
    };
    if let Some(what) = other {
        let finding = Diagnostic::error("X004", format!("{name} is no job file but {what}"));
        session.report(&[finding], &sources);
        return Err(Status::Input);
    }
    match load(name, bytes, folder) {
        Ok(loaded) => {
            add_named(&mut sources, folder, warnings(&loaded));
            session.printer.diagnostics(warnings(&loaded), &sources);
            Ok((loaded, sources))
        }
        Err(diagnostics) => {
            add_named(&mut sources, folder, &diagnostics);
            session.report(&diagnostics, &sources);
            Err(Status::Input)
        }
    }
}

/// Adds the files that the job names and the messages are about. One that cannot be read again is left out.
fn add_named(sources: &mut Sources, folder: &Path, diagnostics: &[Diagnostic]) {
    for label in diagnostics.iter().flat_map(|diagnostic| &diagnostic.labels) {
        if sources.contains_key(&label.file) {
            continue;
        }
        if let Ok(bytes) = io::read(&folder.join(&label.file)) {
            sources.insert(label.file.clone(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// A job's `[export]` as a request.
pub fn export_request(options: &ExportOptions) -> ExportRequest {
    let format = match options.format {
        ExportFormat::Json => Format::Json,
        ExportFormat::MscclXml => Format::MscclXml(options.runtime),
    };
    let sizes = options.sizes.map(|sizes| match sizes {
        Sizes::One(bytes) => (bytes.0, bytes.0),
        Sizes::Range(low, high) => (low.0, high.0),
    });
    ExportRequest {
        format,
        protocol: options.protocol,
        channels: options.channels.unwrap_or(0),
        instances: options.instances,
        sizes,
        in_and_out_of_place: Some((options.in_place, options.out_of_place)),
        name: options.name.clone(),
        strict_routes: false,
    }
}
