//! `rondo reproduce ITEM`

use std::fmt::Write as _;
use std::path::Path;

use rondo_compiler::cost::sweep::Rule;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::Delay;
use serde_json::{Value, json};

use crate::cli::args::ReproduceArguments;
use crate::cli::commands::write_folder;
use crate::cli::{CommandResult, OutputFormat, Session, Status, report};
use crate::reproduce::{Claim, Item, Point, Reading, Reproduction, Verdict, Worst, reproduce};

/// Reproduces an item, or lists all.
pub fn run(session: &Session, arguments: &ReproduceArguments) -> CommandResult {
    let Some(name) = &arguments.item else { return list(session) };
    let Some(item) = Item::ALL.into_iter().find(|item| item.name() == name) else {
        let mut finding = Diagnostic::error("X005", format!("there is no item `{name}` to reproduce"));
        let nearest = Item::ALL.into_iter().max_by(|a, b| {
            strsim::jaro_winkler(a.name(), name)
                .total_cmp(&strsim::jaro_winkler(b.name(), name))
                .then(b.name().cmp(a.name()))
        });
        if let Some(nearest) = nearest {
            finding = finding.help(format!("the nearest one is {}", nearest.name()));
        }
        return Err(vec![finding.help(format!("allowed: {}", Item::ALL.map(Item::name).join(", ")))]);
    };
    let reproduction = reproduce(item);
    let written = match &arguments.output {
        Some(folder) => write(folder, &reproduction)?,
        None => Vec::new(),
    };
    if session.format == OutputFormat::Text {
        let mut out = text(&reproduction);
        for (name, bytes) in &written {
            let _ = writeln!(out, "wrote {name} ({bytes} bytes)");
        }
        session.print(&out)?;
    } else {
        session.print_json(json!({
            "command": "reproduce", "item": item.name(), "title": item.title(), "settings": item.settings(),
            "claims": reproduction.claims.iter().map(claim_json).collect::<Vec<_>>(),
            "points": reproduction.points.iter().map(point_json).collect::<Vec<_>>(),
            "panels": reproduction.panels.iter().map(|panel| point_json(&panel.highest)).collect::<Vec<_>>(),
            "statistics": statistics_json(&reproduction),
            "files": written.iter().map(|(name, bytes)| json!({ "file": name, "bytes": bytes })).collect::<Vec<_>>(),
        }))?;
    }
    Ok(Status::Done)
}

fn list(session: &Session) -> CommandResult {
    if session.format == OutputFormat::Text {
        let rows: Vec<_> = Item::ALL.iter().map(|item| [item.name().to_owned(), item.title().to_owned()]).collect();
        let mut out = String::new();
        report::table(&mut out, ["item", "what it shows"], &rows);
        session.print(&out)?;
    } else {
        let items: Vec<_> =
            Item::ALL.iter().map(|item| json!({ "item": item.name(), "title": item.title() })).collect();
        session.print_json(json!({ "command": "reproduce", "items": items }))?;
    }
    Ok(Status::Done)
}

/// Writes the points of the item, or of its claims, and its charts.
fn write(folder: &Path, reproduction: &Reproduction) -> Result<Vec<(String, usize)>, Vec<Diagnostic>> {
    let name = reproduction.item.name();
    let mut files = vec![(format!("{name}.csv"), csv(reproduction))];
    for (end, chart) in &reproduction.charts {
        let svg = chart.svg().map_err(|error| vec![undrawn(&format!("{name}-{end}"), &error)])?;
        files.push((format!("{name}-{end}.svg"), svg));
    }
    write_folder(folder, &files)
}

/// A chart that the drawing library refuses.
pub fn undrawn(name: &str, error: &str) -> Diagnostic {
    Diagnostic::error("X027", format!("the chart `{name}` cannot be drawn: {error}"))
}

const COLUMNS: &str = "claim,reading,algorithm,nodes,size_bytes,startup_ns,hop_delay_label_ns,reconfiguration_ns,ring_ns,best_ns,\
                       static_ns,threshold_best,threshold_literal,threshold_from_one,best_beats_ring,speedup_best,\
                       speedup_literal,speedup_from_one,static_over_ring";

fn csv(reproduction: &Reproduction) -> String {
    let mut out = format!("{COLUMNS}\n");
    let claimed = reproduction.claims.iter().flat_map(|claim| claim.points.iter().map(|point| (claim.id, point)));
    for (claim, point) in reproduction.points.iter().map(|point| ("", point)).chain(claimed) {
        let (setting, rules) = (&point.setting, &point.costs.rules);
        let threshold = |rule| point.costs.threshold(rule).map_or_else(String::new, |t: u32| t.to_string());
        let [startup, hop, delta] = [setting.startup, setting.hop_delay, setting.reconfiguration].map(nanoseconds);
        let _ = writeln!(
            out,
            "{claim},{},{},{},{},{startup},{hop},{delta},{},{},{},{},{},{},{},{},{},{},{}",
            point.reading.name(),
            point.pairing.name(),
            setting.nodes,
            setting.size.0,
            in_nanoseconds(point.costs.ring),
            in_nanoseconds(point.best()),
            in_nanoseconds(point.costs.time(point.costs.threshold(Rule::Static))),
            rules.best,
            threshold(Rule::Literal),
            threshold(Rule::FromOne),
            rules.best_beats_ring,
            point.speedup(Rule::Best),
            point.speedup(Rule::Literal),
            point.speedup(Rule::FromOne),
            point.static_over_ring(),
        );
    }
    out
}

/// A delay in nanoseconds.
#[allow(clippy::cast_precision_loss)]
pub fn nanoseconds(delay: Delay) -> f64 {
    delay.femtoseconds() as f64 / 1e6
}

/// Seconds as nanoseconds, to the femtosecond: what lies beyond is the float's.
pub fn in_nanoseconds(seconds: f64) -> f64 {
    let exact = seconds * 1e9;
    let rounded = (exact * 1e6).round() / 1e6;
    if (exact - rounded).abs() <= 1e-15 * exact.abs() { rounded } else { exact }
}

fn point_json(point: &Point) -> Value {
    let (setting, costs) = (&point.setting, &point.costs);
    json!({
        "reading": point.reading.name(), "algorithm": point.pairing.name(), "nodes": setting.nodes, "bytes": setting.size.0,
        "startup_ns": nanoseconds(setting.startup), "hop_delay_label_ns": nanoseconds(setting.hop_delay),
        "reconfiguration_ns": nanoseconds(setting.reconfiguration), "ring_ns": in_nanoseconds(costs.ring),
        "best_ns": in_nanoseconds(point.best()), "static_ns": in_nanoseconds(costs.time(costs.threshold(Rule::Static))),
        "threshold_best": costs.rules.best, "threshold_literal": costs.rules.literal,
        "threshold_from_one": costs.rules.from_one, "best_beats_ring": costs.rules.best_beats_ring,
        "speedup_best": point.speedup(Rule::Best), "speedup_literal": point.speedup(Rule::Literal),
        "speedup_from_one": point.speedup(Rule::FromOne), "static_over_ring": point.static_over_ring(),
        "static_hops": point.static_hops(),
    })
}

fn claim_json(claim: &Claim) -> Value {
    json!({
        "id": claim.id, "place": claim.place, "text": claim.text, "stated": claim.stated, "verdict": claim.verdict.name(),
        "reason": claim.reason, "points": claim.points.iter().map(point_json).collect::<Vec<_>>(),
    })
}

fn statistics_json(reproduction: &Reproduction) -> Value {
    let worst = |worst: &Worst| {
        json!({
            "selects": worst.selects, "suboptimal": worst.suboptimal, "worst_ratio": worst.ratio,
            "worst_at": worst.at.as_ref().map(point_json),
        })
    };
    let list = reproduction.statistics.iter().map(|statistics| {
        json!({
            "algorithm": statistics.pairing.name(), "points": statistics.points, "literal": worst(&statistics.literal),
            "from_one": worst(&statistics.from_one), "literal_falls_back": statistics.literal_falls_back,
        })
    });
    Value::Array(list.collect())
}

fn text(reproduction: &Reproduction) -> String {
    let mut out = String::new();
    let item = reproduction.item;
    report::line(&mut out, "item", &format!("{}: {}", item.name(), item.title()));
    report::line(&mut out, "settings", item.settings());
    report::line(
        &mut out,
        "readings",
        "labelled: a hop takes what the paper's label says; doubled: twice that. Speedups are over Ring, with the best T; \
         static: as labelled, nothing reconfigured",
    );
    for claim in &reproduction.claims {
        let _ = writeln!(out, "\n{}", claim.place);
        report::indented(&mut out, 2, claim.text);
        report::indented(&mut out, 2, &format!("{}: {}", verdict(claim.verdict), claim.reason));
        if item == Item::Claims {
            out.push('\n');
            points(&mut out, &claim.points);
        }
    }
    if !reproduction.panels.is_empty() {
        out.push_str("\nhighest in each panel\n");
        points(&mut out, &reproduction.panels.iter().map(|panel| panel.highest.clone()).collect::<Vec<_>>());
    }
    if !reproduction.points.is_empty() {
        out.push_str("\nthe figure\n");
        points(&mut out, &reproduction.points);
    }
    for statistics in &reproduction.statistics {
        let _ = writeln!(out, "\nrules for the threshold, {}, {} points", statistics.pairing.name(), statistics.points);
        let row = |name: &str, worst: &Worst| {
            let at = worst.at.as_ref().map_or_else(String::new, |point| {
                let s = &point.setting;
                format!(
                    "n = {}, {}, start-up {}, hop {}, reconfiguration {}",
                    s.nodes, s.size, s.startup, s.hop_delay, s.reconfiguration
                )
            });
            [
                name.to_owned(),
                worst.selects.to_string(),
                worst.suboptimal.to_string(),
                format!("{:.2}x", worst.ratio),
                at,
            ]
        };
        let rows = [row("literal", &statistics.literal), row("from-one", &statistics.from_one)];
        report::table(&mut out, ["rule", "takes a T", "a cheaper one exists", "dearest", "there"], &rows);
        let _ = writeln!(
            out,
            "the literal rule falls back to Ring at {} points where a T is cheaper",
            statistics.literal_falls_back
        );
    }
    out
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced as labelled",
        Verdict::OnlyDoubled => "reproduced only with doubled hop delay",
        Verdict::NotReproduced => "not reproduced",
    }
}

/// A table of points, both readings of a setting in one row.
fn points(out: &mut String, points: &[Point]) {
    let key = |point: &Point| (point.pairing, point.setting);
    let mut rows: Vec<[String; 10]> = Vec::new();
    let mut done = vec![false; points.len()];
    for (at, point) in points.iter().enumerate() {
        if done[at] {
            continue;
        }
        let other = (at + 1..points.len()).find(|&i| !done[i] && key(&points[i]) == key(point));
        if let Some(other) = other {
            done[other] = true;
        }
        let both = [Some(point), other.map(|i| &points[i])];
        let in_reading = |reading| both.into_iter().flatten().find(|point| point.reading == reading);
        let shown = |reading| {
            in_reading(reading).map_or_else(
                || "-".to_owned(),
                |p| {
                    let threshold =
                        p.costs.threshold(Rule::Best).map_or_else(|| "Ring".to_owned(), |t| format!("T = {t}"));
                    format!("{:.3}x {threshold}", p.speedup(Rule::Best))
                },
            )
        };
        let literal = point.costs.threshold(Rule::Literal).map_or_else(|| "Ring".to_owned(), |t| t.to_string());
        let s = &point.setting;
        rows.push([
            if point.pairing == rondo_compiler::cost::shortcut::Pairing::Swing { "swing" } else { "halving" }
                .to_owned(),
            s.nodes.to_string(),
            s.size.to_string(),
            s.startup.to_string(),
            s.hop_delay.to_string(),
            s.reconfiguration.to_string(),
            shown(Reading::AsLabelled),
            shown(Reading::Doubled),
            format!("{:.3}x", 1.0 / point.static_over_ring()),
            literal,
        ]);
    }
    let head = ["algorithm", "n", "size", "start-up", "hop", "reconfig.", "labelled", "doubled", "static", "literal T"];
    report::table(out, head, &rows);
}
