//! `rondo sweep`

use std::fmt::Write as _;
use std::str::FromStr;

use rayon::prelude::*;
use rondo_compiler::cost::shortcut::{Pairing, Phases};
use rondo_compiler::cost::sweep::Rule;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::Rate;
use serde_json::{Value, json};

use crate::cli::args::SweepArguments;
use crate::cli::commands::reproduce::{in_nanoseconds, nanoseconds, undrawn};
use crate::cli::commands::write_folder;
use crate::cli::render::Sources;
use crate::cli::{CommandResult, OutputFormat, Session, Status, report};
use crate::sweep::{Axis, MOST_POINTS, Point, Sweep, Swept, phases_name, values};

/// Computes the points, draws the charts.
pub fn run(session: &Session, arguments: &SweepArguments) -> CommandResult {
    let sweep = read(arguments)?;
    let sides = sides(arguments, &sweep)?;
    if sweep.points().is_none() {
        let message = format!("the sweep has more than {MOST_POINTS} points");
        return Err(vec![Diagnostic::error("X028", message).help("give the parameters fewer values")]);
    }
    let points = sweep.run();
    let mut files = Vec::new();
    if let Some(folder) = &arguments.output {
        files.push(("sweep.csv".to_owned(), csv(&points)));
        if let Some((x, y)) = sides {
            let help = "name the sides of the charts with --x and --y, or give the other parameters fewer values";
            let asked = arguments.lines || arguments.x.is_some() || arguments.y.is_some();
            let charts = match sweep.charts(&points, x, y, arguments.lines) {
                Ok(charts) => charts,
                Err(why) if asked => return Err(vec![Diagnostic::error("X028", why).help(help)]),
                Err(why) => {
                    let finding = Diagnostic::warning("X028", format!("no charts are drawn: {why}")).help(help);
                    session.report(&[finding], &Sources::new());
                    Vec::new()
                }
            };
            for (name, chart) in charts {
                files.push((format!("{name}.svg"), chart.svg().map_err(|error| vec![undrawn(&name, &error)])?));
            }
        }
        files = write_folder(folder, &files)?.into_iter().map(|(name, bytes)| (name, bytes.to_string())).collect();
    }
    if session.format == OutputFormat::Text {
        let mut out = text(&sweep, &points);
        for (name, bytes) in &files {
            let _ = writeln!(out, "wrote {name} ({bytes} bytes)");
        }
        if arguments.output.is_none() {
            out.push_str("\nnothing written; -o DIR keeps the points as CSV, and charts\n");
        }
        session.print(&out)?;
    } else {
        let counts = |&pairing: &Pairing| {
            let counts = Sweep::counts(&points, pairing);
            let counts =
                counts.into_iter().map(|(threshold, points)| json!({ "threshold": threshold, "points": points }));
            json!({ "algorithm": pairing.name(), "best": counts.collect::<Vec<_>>() })
        };
        session.print_json(json!({
            "command": "sweep", "collective": phases_name(sweep.phases), "bandwidth": sweep.bandwidth.bytes_per_second(),
            "rows": points.iter().map(point_json).collect::<Vec<_>>(),
            "counts": sweep.pairings.iter().map(counts).collect::<Vec<_>>(),
            "files": files.iter().map(|(name, bytes)| json!({ "file": name, "bytes": bytes.parse::<u64>().ok() })).collect::<Vec<_>>(),
        }))?;
    }
    Ok(Status::Done)
}

/// The sweep that the options describe, or all that is wrong with them.
fn read(arguments: &SweepArguments) -> Result<Sweep, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let nodes = axis(&mut faults, "nodes", &arguments.nodes, "8,32,128 or 8..128");
    let sizes = axis(&mut faults, "size", &arguments.size, "'32 kB,1 MB' or '1 kB..1 GB/13'");
    let delays = "'1 us,10 us' or '100 ns..10 us/6'";
    let startups = axis(&mut faults, "startup", &arguments.startup, delays);
    let hop_delays = axis(&mut faults, "hop-delay", &arguments.hop_delay, delays);
    let reconfigurations = axis(&mut faults, "reconfiguration", &arguments.reconfiguration, delays);
    let bandwidth = Rate::from_str(&arguments.bandwidth).map_err(|error| {
        let message = format!("`--bandwidth {}`: {error}", arguments.bandwidth);
        faults.push(Diagnostic::error("X005", message).help("write for example --bandwidth '800 Gbps'"));
    });
    let mut pairings = Vec::new();
    for name in arguments.algorithm.split(',').map(str::trim) {
        match Pairing::ALL.into_iter().find(|pairing| pairing.name() == name) {
            Some(pairing) if !pairings.contains(&pairing) => pairings.push(pairing),
            Some(_) => {}
            None => {
                let names = Pairing::ALL.map(Pairing::name).join(", ");
                let message = format!("`--algorithm {name}` has no thresholds");
                faults
                    .push(Diagnostic::error("X005", message).help(format!("allowed: {names}, or several with commas")));
            }
        }
    }
    let all = [Phases::Scatter, Phases::Gather, Phases::Both];
    let phases = all.into_iter().find(|&phases| phases_name(phases) == arguments.collective);
    if phases.is_none() {
        let message = format!("`--collective {}` has no thresholds", arguments.collective);
        faults.push(Diagnostic::error("X005", message).help(format!("allowed: {}", all.map(phases_name).join(", "))));
    }
    match (phases, bandwidth) {
        (Some(phases), Ok(bandwidth)) if faults.is_empty() => {
            Ok(Sweep { pairings, phases, nodes, sizes, startups, hop_delays, reconfigurations, bandwidth })
        }
        _ => Err(faults),
    }
}

fn axis<T: Swept>(faults: &mut Vec<Diagnostic>, name: &str, text: &str, example: &str) -> Vec<T> {
    values(text).unwrap_or_else(|why| {
        let message = format!("`--{name} {text}`: {why}");
        faults.push(Diagnostic::error("X005", message).help(format!("write for example --{name} {example}")));
        Vec::new()
    })
}

/// The parameters along the sides of the charts; `None` if nothing varies.
fn sides(arguments: &SweepArguments, sweep: &Sweep) -> Result<Option<(Axis, Option<Axis>)>, Vec<Diagnostic>> {
    let varying: Vec<Axis> = sweep.varying().collect();
    let named = |option: &str, name: &Option<String>| {
        let Some(name) = name else { return Ok(None) };
        let found = varying.iter().find(|axis| axis.name() == name);
        found.map(|&axis| Some(axis)).ok_or_else(|| {
            let names: Vec<_> = varying.iter().map(|axis| axis.name()).collect();
            let allowed = if names.is_empty() { "none has".to_owned() } else { names.join(", ") };
            let message = format!("`--{option} {name}` is no parameter with several values");
            vec![Diagnostic::error("X005", message).help(format!("parameters with several values: {allowed}"))]
        })
    };
    let (x, y) = (named("x", &arguments.x)?, named("y", &arguments.y)?);
    if x.is_some() && x == y {
        let message = "`--x` and `--y` name the same parameter";
        return Err(vec![Diagnostic::error("X005", message).help("name two, or leave one out")]);
    }
    let size = Some(Axis::Size).filter(|axis| arguments.lines && varying.contains(axis) && y != Some(Axis::Size));
    let free = |other: Option<Axis>| varying.iter().rev().copied().find(|&axis| Some(axis) != other);
    let Some(x) = x.or(size).or_else(|| if y.is_some() { free(y) } else { second_last(&varying) }) else {
        return Ok(None);
    };
    Ok(Some((x, y.or_else(|| free(Some(x))))))
}

/// Hop delay below reconfiguration where both vary, as the paper draws them.
fn second_last(varying: &[Axis]) -> Option<Axis> {
    varying.iter().rev().nth(1).or(varying.last()).copied()
}

const COLUMNS: &str = "algorithm,collective,nodes,size_bytes,startup_ns,hop_delay_ns,reconfiguration_ns,ring_ns,best_ns,static_ns,\
                       threshold_best,threshold_literal,threshold_from_one,best_beats_ring,speedup_best,static_over_ring";

fn csv(points: &[Point]) -> String {
    let line = |point: &Point| {
        let (setting, costs) = (&point.setting, &point.costs);
        let threshold = |rule| costs.threshold(rule).map_or_else(String::new, |t: u32| t.to_string());
        let [startup, hop, delta] = [setting.startup, setting.hop_delay, setting.reconfiguration].map(nanoseconds);
        format!(
            "{},{},{},{},{startup},{hop},{delta},{},{},{},{},{},{},{},{},{}\n",
            point.pairing.name(),
            phases_name(point.phases),
            setting.nodes,
            setting.size.0,
            in_nanoseconds(costs.ring),
            in_nanoseconds(point.best()),
            in_nanoseconds(costs.time(costs.threshold(Rule::Static))),
            costs.rules.best,
            threshold(Rule::Literal),
            threshold(Rule::FromOne),
            costs.rules.best_beats_ring,
            point.speedup(),
            point.static_over_ring(),
        )
    };
    let parts: Vec<String> = points.par_chunks(4096).map(|chunk| chunk.iter().map(line).collect()).collect();
    format!("{COLUMNS}\n{}", parts.concat())
}

fn point_json(point: &Point) -> Value {
    let (setting, costs) = (&point.setting, &point.costs);
    json!({
        "algorithm": point.pairing.name(), "nodes": setting.nodes, "bytes": setting.size.0,
        "startup_ns": nanoseconds(setting.startup), "hop_delay_ns": nanoseconds(setting.hop_delay),
        "reconfiguration_ns": nanoseconds(setting.reconfiguration), "ring_ns": in_nanoseconds(costs.ring),
        "best_ns": in_nanoseconds(point.best()), "static_ns": in_nanoseconds(costs.time(costs.threshold(Rule::Static))),
        "threshold_best": costs.rules.best, "threshold_literal": costs.rules.literal,
        "threshold_from_one": costs.rules.from_one, "best_beats_ring": costs.rules.best_beats_ring,
        "speedup_best": point.speedup(), "static_over_ring": point.static_over_ring(),
    })
}

fn text(sweep: &Sweep, points: &[Point]) -> String {
    let mut out = String::new();
    report::line(&mut out, "collective", &format!("{}, links of {}", phases_name(sweep.phases), sweep.bandwidth));
    let varying: Vec<_> =
        sweep.varying().map(|axis| format!("{} values of {}", sweep.values(axis), axis.name())).collect();
    let varying = if varying.is_empty() { String::new() } else { format!(": {}", varying.join(", ")) };
    report::line(&mut out, "points", &format!("{}{varying}", points.len()));
    for &pairing in &sweep.pairings {
        let _ = writeln!(out, "\n{}", pairing.name());
        let counts = Sweep::counts(points, pairing);
        let all: usize = counts.values().sum();
        let of = || points.iter().filter(move |point| point.pairing == pairing);
        #[allow(clippy::cast_precision_loss)]
        let share = |count: usize| format!("{:.1} %", 100.0 * count as f64 / all as f64);
        // Ring last.
        let order = counts.iter().filter(|(t, _)| t.is_some()).chain(counts.iter().filter(|(t, _)| t.is_none()));
        let rows: Vec<_> = order
            .map(|(&threshold, &count)| {
                let name = threshold.map_or_else(|| "Ring".to_owned(), |t| format!("T = {t}"));
                let here = of().filter(|point| point.costs.threshold(Rule::Best) == threshold);
                let best = here.max_by(|a, b| a.speedup().total_cmp(&b.speedup()));
                let (most, place) = best.map_or_else(Default::default, |point| {
                    let s = &point.setting;
                    let delays = format!("start-up {}, hop {}, change {}", s.startup, s.hop_delay, s.reconfiguration);
                    (format!("{:.3}x", point.speedup()), format!("n = {}, {}, {delays}", s.nodes, s.size))
                });
                [name, count.to_string(), share(count), most, place]
            })
            .collect();
        report::table(&mut out, ["best", "points", "share", "most over Ring", "there"], &rows);
    }
    out
}
