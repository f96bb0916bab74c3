//! `rondo cost PLAN | JOB`, `rondo cost JOB --calibrate FILE`

use std::path::Path;
use std::sync::Arc;

use rondo_backends::json;
use rondo_compiler::auto::Algorithm;
use rondo_compiler::build::{self, BuildContext};
use rondo_compiler::cost::Cost;
use rondo_compiler::cost::calibrate::calibrate;
use rondo_compiler::front::job::{SizeRequest, build_problem};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_verify::bound::bound_at;
use serde_json::json;

use super::{load, sources};
use crate::cli::args::CostArguments;
use crate::cli::progress::Progress;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io, report};
use crate::pipeline::{Proof, Request, compile_watched, judge, priced};
use crate::recognise::{Kind, recognise};

/// Prices a plan or job.
pub fn run(session: &Session, arguments: &CostArguments) -> CommandResult {
    let file = &arguments.file;
    if !arguments.calibrate.is_empty() {
        return calibrated(session, file, &arguments.calibrate);
    }
    let bytes = io::read(file).map_err(|d| vec![d])?;
    let name = io::display_name(file);
    if recognise(&bytes) == Some(Kind::Plan) {
        let sources = sources(&name, &bytes);
        let (problem, schedule) = match json::parse(&name, &bytes) {
            Ok(json::Plan::Schedule { problem, schedule, .. }) => (problem, schedule),
            Ok(json::Plan::Program { .. }) => {
                return Err(vec![
                    Diagnostic::error("X007", format!("{name} holds a program, which has no topology and so no price"))
                        .help("name the plan from which the program was made"),
                ]);
            }
            Err(diagnostics) => {
                session.report(&diagnostics, &sources);
                return Ok(Status::Input);
            }
        };
        // A price of a schedule that is wrong would mean nothing.
        let proof = Proof { smt: false, ..Proof::default() };
        let (plan, _, _) = match judge(&problem, schedule, &proof) {
            Ok(judged) => judged,
            Err(failure) => return Ok(super::compile::failed(session, &failure, &sources)),
        };
        let (cost, _) = priced(&problem, plan.value()).map_err(|d| vec![d])?;
        return print(session, arguments, &problem, &cost, plan.value());
    }
    let loaded = match super::load_bytes(session, &name, &bytes, &super::folder_of(file)) {
        Ok((loaded, _)) => loaded,
        Err(status) => return Ok(status),
    };
    let sources = sources(&name, &bytes);
    let problem = match build_problem(&loaded.job, &loaded.fabric) {
        Ok(problem) => Arc::new(problem),
        Err(diagnostics) => return Ok(session.report(&diagnostics, &sources)),
    };
    let ranks = u32::try_from(problem.rank_count()).unwrap_or(u32::MAX);
    if let SizeRequest::Range { low, high } = loaded.job.sizes(ranks) {
        let finding = Diagnostic::warning("X018", format!("the job gives {low} to {high}; this is the price at {low}"))
            .help("`rondo compile` shows which plan is best at which size");
        session.report(&[finding], &sources);
    }
    let proof = Proof { smt: false, ..Proof::default() };
    let progress = Progress::new(session.format);
    let compiled = compile_watched(&problem, &loaded.fabric, &Request::of(&loaded.job), &proof, &progress);
    drop(progress);
    match compiled {
        Ok(compiled) => print(session, arguments, &problem, &compiled.cost, compiled.plan.value()),
        Err(failure) => Ok(super::compile::failed(session, &failure, &sources)),
    }
}

fn print(
    session: &Session,
    arguments: &CostArguments,
    problem: &Problem,
    cost: &Cost,
    schedule: &Schedule,
) -> CommandResult {
    let bound = bound_at(problem, &schedule.chunks).map_err(|error| {
        vec![Diagnostic::error("X006", format!("there is a schedule, but no lower bound: {error}"))]
    })?;
    let algorithm = &schedule.algorithm;
    if session.format == OutputFormat::Text {
        let mut out = String::new();
        report::problem(&mut out, problem);
        report::line(&mut out, "algorithm", algorithm);
        report::price(&mut out, problem, cost, &bound);
        out.push('\n');
        report::steps(&mut out, problem, cost, arguments.steps);
        session.print(&out)?;
    } else {
        session.print_json(json!({
            "command": "cost", "problem": report::problem_json(problem), "algorithm": algorithm,
            "price": report::price_json(problem, cost, &bound),
        }))?;
    }
    Ok(Status::Done)
}

/// Fits the model to measurements of the job's collective.
fn calibrated(session: &Session, job: &Path, measured: &[String]) -> CommandResult {
    let (loaded, job_sources) = match load(session, job)? {
        Ok(loaded) => loaded,
        Err(status) => return Ok(status),
    };
    let problem = match build_problem(&loaded.job, &loaded.fabric) {
        Ok(problem) => Arc::new(problem),
        Err(diagnostics) => return Ok(session.report(&diagnostics, &job_sources)),
    };
    let context = BuildContext::new(&problem, &loaded.fabric);
    // What is used where the tables do not tell hop delay and start-up apart: the job's own links.
    let hop_delay = problem.topology().links().iter().map(|link| link.latency).max().unwrap_or_default();
    let request = Request::of(&loaded.job);
    let (mut tables, mut files) = (Vec::new(), Vec::new());
    for given in measured {
        let named = given.split_once('=').filter(|(name, _)| build::algorithm(name).is_ok());
        let (algorithm, file) = named.unwrap_or((&request.algorithm, given));
        let bytes = io::read(Path::new(file)).map_err(|d| vec![d])?;
        tables.push((String::from_utf8_lossy(&bytes).into_owned(), Algorithm::parse(algorithm)));
        files.push(io::display_name(Path::new(file)));
    }
    let (measurements, fit) = match calibrate(&tables, &context, hop_delay.time().to_f64()) {
        Ok(fitted) => fitted,
        Err((table, error)) => {
            let finding = Diagnostic::error(error.code(), error.to_string()).note(format!("in {}", files[table]));
            session.report(&[finding], &job_sources);
            return Ok(Status::Input);
        }
    };
    if session.format == OutputFormat::Text {
        let mut out = String::new();
        report::problem(&mut out, &problem);
        let source = if fit.hop_delay_fitted {
            "fitted"
        } else {
            "as in the job; a table of another algorithm may tell it from the start-up"
        };
        report::line(&mut out, "start-up", &format!("{:.4} us", fit.startup * 1e6));
        report::line(&mut out, "hop delay", &format!("{:.4} us ({source})", fit.hop_delay * 1e6));
        report::line(&mut out, "rate", &format!("{:.4} GB/s", fit.rate() / 1e9));
        report::line(
            &mut out,
            "residual",
            &format!("{:.2} % (root mean square of predicted / measured − 1)", fit.rms * 100.0),
        );
        let rows: Vec<_> = measurements
            .iter()
            .zip(&fit.residuals)
            .map(|(m, residual)| {
                let time =
                    if problem.groups().first().is_some_and(|g| g.collective().in_place()) { m.in_place } else { None };
                [
                    m.size.to_string(),
                    format!("{:.2} us", time.unwrap_or(m.out_of_place) * 1e6),
                    format!("{:+.2} %", residual * 100.0),
                ]
            })
            .collect();
        out.push('\n');
        report::table(&mut out, ["size", "measured", "residual"], &rows);
        out.push_str(&format!(
            "\nto paste into the job:\n\n  [topology]\n  bandwidth = \"{} MB/s\"\n  latency = \"{} ns\"\n\n  [cost]\n  startup = \"{} ns\"\n",
            (fit.rate() / 1e6).round(),
            (fit.hop_delay * 1e9).round(),
            (fit.startup * 1e9).round(),
        ));
        session.print(&out)?;
    } else {
        session.print_json(json!({
            "command": "cost", "startup_seconds": fit.startup, "hop_delay_seconds": fit.hop_delay,
            "hop_delay_fitted": fit.hop_delay_fitted, "bytes_per_second": fit.rate(), "rms": fit.rms,
            "residuals": measurements.iter().zip(&fit.residuals).map(|(m, r)| json!({ "bytes": m.size.0, "residual": r })).collect::<Vec<_>>(),
        }))?;
    }
    Ok(Status::Done)
}
