//! `rondo export PLAN --to FORMAT -o FILE`

use std::path::Path;

use rondo_backends::json;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::profile::Protocol;
use rondo_ir::units::Bytes;
use serde_json::json;

use super::sources;
use crate::cli::args::ExportArguments;
use crate::cli::progress::Progress;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io, report};
use crate::export::{ExportRequest, Format, export};
use crate::pipeline::{Proof, judge};

/// Verifies a plan and writes it in another format.
pub fn run(session: &Session, arguments: &ExportArguments) -> CommandResult {
    let format: Format = arguments.to.parse().map_err(|d| vec![d])?;
    let request = request(arguments, format)?;
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
    let progress = Progress::of(session.format, "verifying and writing", 1);
    let proof = Proof { smt: false, ..Proof::default() };
    let (plan, _, _) = match judge(&problem, schedule, &proof) {
        Ok(judged) => judged,
        Err(failure) => {
            drop(progress);
            return Ok(super::compile::failed(session, &failure, &sources));
        }
    };
    let exported = export(&plan, &request);
    drop(progress);
    let exported = exported?;
    session.printer.diagnostics(&exported.warnings, &sources);
    io::write(&arguments.output, exported.text.as_bytes()).map_err(|d| vec![d])?;
    if arguments.output != Path::new("-") {
        if session.format == OutputFormat::Text {
            let mut out = String::new();
            report::wrote(&mut out, &arguments.output, &exported);
            session.print(&out)?;
        } else {
            let file = arguments.output.display().to_string();
            let (bytes, checked) = (exported.text.len(), exported.checked);
            session.print_json(json!({ "command": "export", "file": file, "bytes": bytes, "checked": checked }))?;
        }
    }
    Ok(Status::Done)
}

/// What the options ask for: the same as the keys of a job's `[[export]]`.
fn request(arguments: &ExportArguments, format: Format) -> Result<ExportRequest, Vec<Diagnostic>> {
    if format == Format::Json {
        let given = [
            (arguments.instances.is_some(), "--instances"),
            (arguments.sizes.is_some(), "--sizes"),
            (arguments.in_place, "--in-place"),
            (arguments.out_of_place, "--out-of-place"),
            (arguments.name.is_some(), "--name"),
        ];
        if let Some((_, option)) = given.into_iter().find(|(given, _)| *given) {
            return Err(vec![
                Diagnostic::error("X005", format!("a json plan has nothing that `{option}` could change"))
                    .help("leave it out, or write --to msccl-xml:RUNTIME"),
            ]);
        }
    }
    let places = arguments.in_place || arguments.out_of_place;
    Ok(ExportRequest {
        protocol: protocol(&arguments.protocol)?,
        channels: arguments.channels,
        instances: arguments.instances.unwrap_or(1),
        sizes: arguments.sizes.as_deref().map(sizes).transpose()?,
        in_and_out_of_place: places.then_some((arguments.in_place, arguments.out_of_place)),
        name: arguments.name.clone(),
        strict_routes: arguments.strict_routes,
        ..ExportRequest::new(format)
    })
}

/// `64 KiB..1 GiB`, or one size.
fn sizes(text: &str) -> Result<(u64, u64), Vec<Diagnostic>> {
    let fail = |message: String, help: String| vec![Diagnostic::error("X005", message).help(help)];
    let one = |side: &str| -> Result<u64, Vec<Diagnostic>> {
        let parsed: Result<Bytes, _> = side.parse();
        parsed.map(|Bytes(bytes)| bytes).map_err(|error| {
            fail(format!("`--sizes`: {error}"), "write for example --sizes '64 KiB..1 GiB'".to_owned())
        })
    };
    let Some((low, high)) = text.split_once("..") else {
        let size = one(text)?;
        return Ok((size, size));
    };
    let high = high.trim_start_matches('=');
    let range = (one(low)?, one(high)?);
    if range.1 < range.0 {
        let (low, high) = (low.trim(), high.trim());
        let message = format!("`--sizes` ends at {high}, before it begins at {low}");
        return Err(fail(message, format!("write --sizes '{high}..{low}'")));
    }
    Ok(range)
}

fn protocol(name: &str) -> Result<Protocol, Vec<Diagnostic>> {
    Protocol::ALL.into_iter().find(|p| p.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        vec![Diagnostic::error("X005", format!("unknown protocol `{name}`")).help("allowed: Simple, LL, LL128")]
    })
}
