//! `rondo topology show FILE`, `rondo topology import FILE`

use std::path::Path;

use rondo_compiler::front::import::{ImportOptions, Imported, import_text};
use rondo_compiler::topology::spec::FileFormat;
use rondo_ir::diagnostic::Diagnostic;
use serde_json::json;

use super::{folder_of, load_topology_bytes, sources};
use crate::cli::args::TopologyCommand;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io};
use crate::recognise::{Kind, recognise};

/// Shows or imports.
pub fn run(session: &Session, command: &TopologyCommand) -> CommandResult {
    match command {
        TopologyCommand::Show { file } => show(session, file),
        TopologyCommand::Import { file, output, nvlink } => import_file(session, file, output, nvlink.as_deref()),
    }
}

fn show(session: &Session, file: &Path) -> CommandResult {
    let bytes = io::read(file).map_err(|d| vec![d])?;
    let name = io::display_name(file);
    let sources = sources(&name, &bytes);
    let kind = recognise(&bytes);
    // A foreign XML is refused by the importer, which knows what it is.
    let fabric = match kind {
        _ if matches!(kind, Some(Kind::NcclTopology | Kind::NvidiaSmi))
            || bytes.trim_ascii_start().starts_with(b"<") =>
        {
            match import_bytes(&name, &bytes, &ImportOptions::default()) {
                Ok(imported) => {
                    session.printer.diagnostics(&imported.warnings, &sources);
                    imported.fabric
                }
                Err(diagnostics) => {
                    session.report(&diagnostics, &sources);
                    return Ok(Status::Input);
                }
            }
        }
        _ => match load_topology_bytes(session, &name, &bytes, &folder_of(file)) {
            Ok(fabric) => fabric,
            Err(status) => return Ok(status),
        },
    };
    let description = rondo_compiler::topology::describe(&fabric);
    if session.format == OutputFormat::Text {
        session.print(&format!("{}\n", description.to_string().trim_end()))?;
    } else {
        session.print_json(json!({ "command": "topology show", "topology": description }))?;
    }
    Ok(Status::Done)
}

/// A machine's file, whichever it is.
fn import_bytes(name: &str, bytes: &[u8], options: &ImportOptions) -> Result<Imported, Vec<Diagnostic>> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| vec![Diagnostic::error("X004", format!("{name} is no UTF-8 text"))])?;
    import_text(name, text, FileFormat::Auto, options)
}

fn import_file(session: &Session, file: &Path, output: &Path, nvlink: Option<&str>) -> CommandResult {
    let bytes = io::read(file).map_err(|d| vec![d])?;
    let name = io::display_name(file);
    let sources = sources(&name, &bytes);
    let mut options = ImportOptions::default();
    if let Some(rate) = nvlink {
        let rate = rate.parse().map_err(|error| vec![Diagnostic::error("X005", format!("--nvlink: {error}"))])?;
        options.nvlink_bandwidth = Some(rate);
    }
    match import_bytes(&name, &bytes, &options) {
        Ok(imported) => {
            session.printer.diagnostics(&imported.warnings, &sources);
            let job = rondo_compiler::front::job::write_topology(&imported.fabric.topology);
            io::write(output, job.as_bytes()).map_err(|d| vec![d])?;
            Ok(Status::Done)
        }
        Err(diagnostics) => {
            session.report(&diagnostics, &sources);
            Ok(Status::Input)
        }
    }
}
