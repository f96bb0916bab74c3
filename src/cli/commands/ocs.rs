//! `rondo ocs plan JOB`, `rondo ocs program PLAN`

use std::path::Path;

use rondo_backends::json;
use rondo_compiler::front::job::build_problem;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::topology::Circuit;
use serde_json::{Value, json};

use super::{load, sources};
use crate::cli::args::OcsCommand;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io, report};
use crate::ocs::{Row, once, plan, programs};
use crate::pipeline::{Proof, judge};
use crate::recognise::{Kind, recognise};

/// Runs it.
pub fn run(session: &Session, command: &OcsCommand) -> CommandResult {
    match command {
        OcsCommand::Plan { job } => plan_job(session, job),
        OcsCommand::Program { plan } => program(session, plan),
    }
}

fn plan_job(session: &Session, job: &Path) -> CommandResult {
    let (loaded, sources) = match load(session, job)? {
        Ok(loaded) => loaded,
        Err(status) => return Ok(status),
    };
    let problem = match build_problem(&loaded.job, &loaded.fabric) {
        Ok(problem) => problem,
        Err(diagnostics) => return Ok(session.report(&diagnostics, &sources)),
    };
    let rows = plan(&loaded).map_err(|finding| vec![finding])?;
    if session.format != OutputFormat::Text {
        let rows: Vec<_> = rows.iter().map(row_json).collect();
        let problem = report::problem_json(&problem);
        session.print_json(json!({ "command": "ocs plan", "problem": problem, "designs": rows }))?;
        return Ok(Status::Done);
    }
    let mut out = String::new();
    report::problem(&mut out, &problem);
    out.push('\n');
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let joined = |text: Vec<String>| text.join(" + ");
            let switches = row.switches.iter().map(|part| format!("{} x {} ports", part.switches, part.ports));
            let rings = row.switches.iter().map(|part| part.rings_per_switch.to_string());
            [
                row.design.name().to_owned(),
                row.technology.map_or("the job's", |technology| technology.name()).to_owned(),
                row.technology.map_or_else(|| "-".to_owned(), |technology| technology.delay().to_string()),
                if row.fits { joined(switches.collect()) } else { "too few ports".to_owned() },
                if row.fits { joined(rings.collect()) } else { "-".to_owned() },
                row.technology
                    .map_or_else(|| "-".to_owned(), |technology| technology.largest_ring(row.design).to_string()),
                row.timed.as_ref().map_or_else(|| "-".to_owned(), |timed| timed.time.to_string()),
                row.timed.as_ref().map_or_else(|| "-".to_owned(), |timed| timed.changes.to_string()),
                row.timed.as_ref().map_or_else(|| "-".to_owned(), |timed| timed.algorithm.clone()),
            ]
        })
        .collect();
    let head =
        ["design", "technology", "delay", "switches", "rings each", "largest ring", "time", "changes", "algorithm"];
    report::table(&mut out, head, &cells);
    session.print(&out)?;
    Ok(Status::Done)
}

fn row_json(row: &Row) -> Value {
    let switches: Vec<_> = row
        .switches
        .iter()
        .map(|part| {
            json!({
                "dimension": part.dimension, "side": part.side, "rings": part.rings,
                "rings_per_switch": part.rings_per_switch, "switches": part.switches, "ports": part.ports,
            })
        })
        .collect();
    json!({
        "design": row.design.name(), "technology": row.technology.map(|technology| technology.name()),
        "fits": row.fits, "switches": switches,
        "largest_ring": row.technology.map(|technology| technology.largest_ring(row.design)),
        "time": row.timed.as_ref().map(|timed| report::time_json(&timed.time)),
        "algorithm": row.timed.as_ref().map(|timed| &timed.algorithm),
        "changes": row.timed.as_ref().map(|timed| timed.changes),
    })
}

fn program(session: &Session, path: &Path) -> CommandResult {
    let bytes = io::read(path).map_err(|d| vec![d])?;
    let name = io::display_name(path);
    let sources = sources(&name, &bytes);
    if recognise(&bytes) != Some(Kind::Plan) {
        let finding = Diagnostic::error("X004", format!("{name} is no plan of Rondo"));
        return Err(vec![finding.help("rondo compile JOB -o PLAN.json writes one")]);
    }
    let (problem, schedule) = match json::parse(&name, &bytes) {
        Ok(json::Plan::Schedule { problem, schedule, .. }) => (problem, schedule),
        Ok(json::Plan::Program { .. }) => {
            return Err(vec![
                Diagnostic::error("X007", format!("{name} holds a program, which knows no circuits"))
                    .help("name the plan from which the program was made"),
            ]);
        }
        Err(diagnostics) => {
            session.report(&diagnostics, &sources);
            return Ok(Status::Input);
        }
    };
    if problem.topology().devices().is_empty() {
        let finding = Diagnostic::error("X025", "the topology of the plan has no devices");
        return Err(vec![finding.help("compile a job with circuits, such as examples/ocs-ring-32.toml")]);
    }
    // What a wrong plan tells its switches would mean nothing.
    let proof = Proof { smt: false, ..Proof::default() };
    let plan = match judge(&problem, schedule, &proof) {
        Ok((plan, ..)) => plan,
        Err(failure) => return Ok(super::compile::failed(session, &failure, &sources)),
    };
    let programs = programs(&problem, plan.value());
    let devices = problem.topology().devices();
    let node = |device: usize, port: rondo_ir::index::PortId| {
        let node = devices[device].ports[port.index()].node;
        problem.topology().node(node).name.clone()
    };
    if session.format != OutputFormat::Text {
        let list = |device: usize, circuits: &[Circuit]| -> Value {
            let circuit = |c: &Circuit| json!({ "from": c.from.index(), "to": c.to.index(), "from_node": node(device, c.from), "to_node": node(device, c.to) });
            circuits.iter().map(circuit).collect()
        };
        let programs: Vec<_> = programs
            .iter()
            .map(|program| {
                let changes: Vec<_> = program
                    .changes
                    .iter()
                    .map(|change| {
                        json!({
                            "before_step": change.before, "after_step": change.after,
                            "disconnect": list(program.device, &change.disconnect),
                            "connect": list(program.device, &change.connect),
                        })
                    })
                    .collect();
                json!({
                    "device": devices[program.device].name, "initial": list(program.device, program.initial.circuits()),
                    "changes": changes,
                })
            })
            .collect();
        session.print_json(json!({ "command": "ocs program", "programs": programs }))?;
        return Ok(Status::Done);
    }
    let mut out = String::new();
    for program in &programs {
        let device = &devices[program.device];
        let show = |circuits: &[Circuit]| {
            let pairs: Vec<_> =
                once(device, circuits).iter().map(|c| format!("{}-{}", c.from.index(), c.to.index())).collect();
            if pairs.is_empty() { "none".to_owned() } else { pairs.join(" ") }
        };
        out.push_str(&format!("{} ({} ports)\n", device.name, device.ports.len()));
        out.push_str(&format!("  at the start            {}\n", show(program.initial.circuits())));
        for change in &program.changes {
            let when = match change.after {
                Some(after) => format!("after s{after}, before s{}", change.before),
                None => format!("before s{}", change.before),
            };
            out.push_str(&format!("  {when:<22}  disconnect {}\n", show(&change.disconnect)));
            out.push_str(&format!("  {:<22}  connect    {}\n", "", show(&change.connect)));
        }
    }
    out.push_str(&format!(
        "\nevery rank has finished a step before its circuits change, and waits for {} after\n",
        devices
            .iter()
            .map(|device| device.reconfiguration_delay)
            .max()
            .unwrap_or_default()
            .plus(problem.cost().synchronisation)
    ));
    session.print(&out)?;
    Ok(Status::Done)
}
