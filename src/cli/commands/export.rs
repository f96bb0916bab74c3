//! `rondo export PLAN --to FORMAT -o FILE`

use std::path::Path;

use rondo_backends::json;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::profile::Protocol;
use serde_json::json;

use super::{Progress, sources};
use crate::cli::args::ExportArguments;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io};
use crate::export::{ExportRequest, Format, export};
use crate::pipeline::{Proof, judge};

/// Verifies a plan and writes it in another format.
pub fn run(session: &Session, arguments: &ExportArguments) -> CommandResult {
    let format: Format = arguments.to.parse().map_err(|d| vec![d])?;
    let protocol = protocol(&arguments.protocol)?;
    let bytes = io::read(&arguments.plan).map_err(|d| vec![d])?;
    let name = io::display_name(&arguments.plan);
    let sources = sources(&name, &bytes);
    let plan = match json::parse(&name, &bytes) {
        Ok(plan) => plan,
        Err(diagnostics) => {
            session.report(&diagnostics, &sources);
            return Ok(Status::Input);
        }
    };
    let json::Plan::Schedule { problem, schedule, .. } = plan else {
        return Err(vec![
            Diagnostic::error("X007", format!("{name} holds a program; only schedules can be exported"))
                .help("name the plan from which the program was made"),
        ]);
    };
    let progress = Progress::start("verifying and writing");
    let proof = Proof { smt: false, ..Proof::default() };
    let (plan, _, _) = match judge(&problem, schedule, &proof) {
        Ok(judged) => judged,
        Err(failure) => {
            drop(progress);
            return Ok(super::compile::failed(session, &failure, &sources));
        }
    };
    let request = ExportRequest {
        protocol,
        channels: arguments.channels,
        strict_routes: arguments.strict_routes,
        ..ExportRequest::new(format)
    };
    let exported = export(&plan, &request);
    drop(progress);
    let exported = exported?;
    session.printer.diagnostics(&exported.warnings, &sources);
    io::write(&arguments.output, exported.text.as_bytes()).map_err(|d| vec![d])?;
    if arguments.output != Path::new("-") {
        let file = arguments.output.display().to_string();
        let text = if session.format == OutputFormat::Text {
            format!("wrote {file} ({} bytes)\n  {}\n", exported.text.len(), exported.checked)
        } else {
            let value =
                json!({ "command": "export", "file": file, "bytes": exported.text.len(), "checked": exported.checked });
            format!("{value}\n")
        };
        io::print(text.as_bytes()).map_err(|d| vec![d])?;
    }
    Ok(Status::Done)
}

fn protocol(name: &str) -> Result<Protocol, Vec<Diagnostic>> {
    Protocol::ALL.into_iter().find(|p| p.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        vec![Diagnostic::error("X005", format!("unknown protocol `{name}`")).help("allowed: Simple, LL, LL128")]
    })
}
