//! `rondo training JOB`

use std::path::Path;

use rondo_ir::diagnostic::Diagnostic;
use serde_json::{Value, json};

use super::{folder_of, sources};
use crate::chart::Quantity;
use crate::cli::args::TrainingArguments;
use crate::cli::progress::Progress;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io, report};
use crate::training::{Axis, Network, Training, read};

/// Prices a training job on its networks.
pub fn run(session: &Session, arguments: &TrainingArguments) -> CommandResult {
    let bytes = io::read(&arguments.job).map_err(|d| vec![d])?;
    let (name, folder) = (io::display_name(&arguments.job), folder_of(&arguments.job));
    let text = String::from_utf8_lossy(&bytes);
    let training = match read(&name, &text) {
        Ok(training) => training,
        Err(diagnostics) => return Ok(session.report(&diagnostics, &sources(&name, &bytes))),
    };
    let mut networks = Vec::new();
    for network in &training.job.network {
        let path = folder.join(&network.file);
        let text = io::read(&path).map_err(|d| vec![d])?;
        let text = String::from_utf8(text).map_err(|_| {
            vec![
                Diagnostic::error("X030", format!("{} is no text", network.file))
                    .help("name a TOML file with [topology]"),
            ]
        })?;
        let progress = Progress::new(session.format);
        let priced = training.price(network, path.parent().unwrap_or(Path::new(".")), &text, &progress);
        drop(progress);
        match priced {
            Ok(network) => networks.push(network),
            Err(failure) => {
                let sources = sources(&network.file, text.as_bytes());
                return Ok(super::compile::failed(session, &failure, &sources));
            }
        }
    }
    if session.format == OutputFormat::Text {
        session.print(&text_of(&training, &networks))?;
    } else {
        session.print_json(as_json(&training, &networks))?;
    }
    Ok(Status::Done)
}

fn text_of(training: &Training, networks: &[Network]) -> String {
    let mut out = String::new();
    let model = &training.job.model;
    report::line(
        &mut out,
        "model",
        &format!("{}, {} layers, {} parameters", model.name, model.layers, model.parameters),
    );
    let layout = Axis::ALL.map(|axis| format!("{} {}", axis.name(), training.ranks(axis))).join(" x ");
    report::line(&mut out, "layout", &format!("{layout} = {} ranks", training.parallelism.ranks()));
    let step = &training.step;
    report::line(
        &mut out,
        "step",
        &format!("{} of computing, {:.0} % of it can hide communication", step.compute, 100.0 * step.overlap),
    );
    out.push_str("\nwhat is sent\n");
    let rows: Vec<_> = Axis::ALL
        .into_iter()
        .filter(|&axis| 1 < training.ranks(axis))
        .map(|axis| {
            let counts = networks.iter().flat_map(|network| &network.parts).find(|part| part.axis == axis);
            [
                axis.name().to_owned(),
                axis.collective().to_owned(),
                training.ranks(axis).to_string(),
                training.size(axis).to_string(),
                counts.map_or(0, |part| part.count).to_string(),
            ]
        })
        .collect();
    report::table(&mut out, ["parallelism", "collective", "ranks", "buffer of a rank", "a step"], &rows);
    out.push_str("\ntime of one, with the cheapest verified schedule; a step in all\n");
    let cell = |network: &Network, axis: Axis| {
        let part = network.parts.iter().find(|part| part.axis == axis);
        part.map_or_else(|| "-".to_owned(), |part| part.time.to_string())
    };
    let rows: Vec<_> = networks
        .iter()
        .map(|network| {
            let [tensor, pipeline, data, expert] = Axis::ALL.map(|axis| cell(network, axis));
            [
                network.name.clone(),
                tensor,
                pipeline,
                data,
                expert,
                network.communication().to_string(),
                Quantity::Seconds.text(network.exposed(step)),
            ]
        })
        .collect();
    report::table(
        &mut out,
        ["network", "all_gather", "send", "all_reduce", "all_to_all", "communication", "exposed"],
        &rows,
    );
    out.push_str("\nthe same by the topology paper's formulas, as its Table 8 reads them\n");
    let printed = |network: &Network, axis: Axis| {
        let part = network.parts.iter().find(|part| part.axis == axis);
        part.and_then(|part| part.printed).map_or_else(|| "-".to_owned(), |value| Quantity::Seconds.text(value))
    };
    let rows: Vec<_> = networks
        .iter()
        .map(|network| {
            let [tensor, pipeline, data, expert] = Axis::ALL.map(|axis| printed(network, axis));
            [network.name.clone(), tensor, pipeline, data, expert]
        })
        .collect();
    report::table(&mut out, ["network", "all_gather", "send", "all_reduce", "all_to_all"], &rows);
    out.push_str("\nhow, and how far from the bound\n");
    let mut rows = Vec::new();
    for network in networks {
        for part in &network.parts {
            let gap = part.time.ratio_to(&part.bound).and_then(|gap| num_traits::ToPrimitive::to_f64(&gap));
            rows.push([
                network.name.clone(),
                network.topology.clone(),
                part.axis.collective().to_owned(),
                part.algorithm.clone(),
                gap.map_or_else(|| "-".to_owned(), |gap| format!("{gap:.2}")),
            ]);
        }
    }
    report::table(&mut out, ["network", "topology", "collective", "algorithm", "over bound"], &rows);
    out.push_str("\none group of each kind by itself: what several groups at once do to each other is not counted\n");
    out
}

fn as_json(training: &Training, networks: &[Network]) -> Value {
    let networks = networks.iter().map(|network| {
        let parts = network.parts.iter().map(|part| {
            json!({
                "parallelism": part.axis.name(), "collective": part.axis.collective(), "ranks": part.ranks,
                "bytes": part.size.0, "count": part.count, "algorithm": part.algorithm,
                "time": report::time_json(&part.time), "bound": report::time_json(&part.bound), "printed_seconds": part.printed,
            })
        });
        json!({
            "name": network.name, "topology": network.topology, "parts": parts.collect::<Vec<_>>(),
            "communication": report::time_json(&network.communication()), "exposed_seconds": network.exposed(&training.step),
        })
    });
    json!({
        "command": "training", "model": training.job.model.name, "ranks": training.parallelism.ranks(),
        "networks": networks.collect::<Vec<_>>(),
    })
}
