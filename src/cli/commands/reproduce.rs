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
use crate::reproduce::topology::{self, Entry, Sheet};
use crate::reproduce::{Claim, Item, Point, Reading, Reproduction, Verdict, Worst, reproduce};

/// Reproduces an item, or lists all.
pub fn run(session: &Session, arguments: &ReproduceArguments) -> CommandResult {
    let Some(name) = &arguments.item else { return list(session) };
    if let Some(item) = topology::Item::ALL.into_iter().find(|item| item.name() == name) {
        return sheet(session, arguments, &topology::reproduce(item));
    }
    let Some(item) = Item::ALL.into_iter().find(|item| item.name() == name) else {
        let mut finding = Diagnostic::error("X005", format!("there is no item `{name}` to reproduce"));
        let names: Vec<&str> = items().map(|(name, _)| name).collect();
        let nearest = names
            .iter()
            .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)).then(b.cmp(a)));
        if let Some(nearest) = nearest {
            finding = finding.help(format!("the nearest one is {nearest}"));
        }
        if name.starts_with("topology-fig") {
            finding = finding.note("figures that the text gives no values of, and schematics, cannot be compared");
        }
        return Err(vec![finding.help(format!("allowed: {}", names.join(", ")))]);
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

/// Names and titles of all items.
fn items() -> impl Iterator<Item = (&'static str, &'static str)> {
    let shortcut = Item::ALL.into_iter().map(|item| (item.name(), item.title()));
    shortcut.chain(topology::Item::ALL.into_iter().map(|item| (item.name(), item.title())))
}

/// Prints a table or figure of the topology paper.
fn sheet(session: &Session, arguments: &ReproduceArguments, sheet: &Sheet) -> CommandResult {
    let name = sheet.item.name();
    let written = match &arguments.output {
        Some(folder) => {
            let mut files = vec![(format!("{name}.csv"), sheet_csv(sheet))];
            for (end, chart) in &sheet.charts {
                let svg = chart.svg().map_err(|error| vec![undrawn(&format!("{name}-{end}"), &error)])?;
                files.push((format!("{name}-{end}.svg"), svg));
            }
            write_folder(folder, &files)?
        }
        None => Vec::new(),
    };
    if session.format == OutputFormat::Text {
        let mut out = String::new();
        report::line(&mut out, "item", &format!("{name}: {}", sheet.item.title()));
        report::line(&mut out, "settings", &sheet.settings);
        for stated in &sheet.statements {
            let _ = writeln!(out, "\n{}: {}", stated.place, stated.verdict.name());
            report::indented(&mut out, 2, &format!("paper: {}", stated.stated));
            report::indented(&mut out, 2, &format!("model: {}", stated.ours));
            if !stated.reason.is_empty() {
                report::indented(&mut out, 2, &stated.reason);
            }
        }
        // Few columns side by side; the CSV has all.
        let shown: Vec<usize> = (0..sheet.columns.len()).collect();
        for part in shown.chunks(6) {
            let keys = usize::from(!part.contains(&0)) * 2;
            let part: Vec<usize> = (0..keys.min(part[0])).chain(part.iter().copied()).collect();
            out.push('\n');
            let cell = |entry: &Entry| match entry {
                Entry::Number(value, quantity) => quantity.text(*value),
                Entry::Text(text) if text.is_empty() => "-".to_owned(),
                Entry::Text(text) => text.clone(),
                Entry::Nothing => "-".to_owned(),
            };
            let heading = |column: &String| {
                let words = column.strip_suffix("_s").or(column.strip_suffix("_bytes")).unwrap_or(column);
                let kinds = ["all_reduce", "all_gather", "all_to_all"];
                let kept =
                    kinds.iter().fold(words.to_owned(), |text, kind| text.replace(kind, &kind.replace('_', "-")));
                kinds.iter().fold(kept.replace('_', " "), |text, kind| text.replace(&kind.replace('_', "-"), kind))
            };
            let head: Vec<String> = part.iter().map(|&at| heading(&sheet.columns[at])).collect();
            let rows: Vec<Vec<String>> =
                sheet.rows.iter().map(|row| part.iter().map(|&at| cell(&row[at])).collect()).collect();
            report::columns(&mut out, &head, &rows);
        }
        for (file, bytes) in &written {
            let _ = writeln!(out, "wrote {file} ({bytes} bytes)");
        }
        session.print(&out)?;
    } else {
        let value = |entry: &Entry| match entry {
            Entry::Number(value, _) => json!({ "number": twelve_digits(*value), "text": null }),
            Entry::Text(text) => json!({ "number": null, "text": text }),
            Entry::Nothing => json!({ "number": null, "text": null }),
        };
        let statements = sheet.statements.iter().map(|stated| {
            json!({
                "place": stated.place, "stated": stated.stated, "ours": stated.ours,
                "verdict": stated.verdict.name(), "reason": stated.reason,
            })
        });
        session.print_json(json!({
            "command": "reproduce", "item": name, "title": sheet.item.title(), "settings": sheet.settings,
            "statements": statements.collect::<Vec<_>>(), "columns": sheet.columns,
            "rows": sheet.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>()).collect::<Vec<_>>(),
            "files": written.iter().map(|(name, bytes)| json!({ "file": name, "bytes": bytes })).collect::<Vec<_>>(),
        }))?;
    }
    Ok(Status::Done)
}

/// The value to twelve digits: what lies beyond depends on the machine's logarithms.
fn twelve_digits(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

fn sheet_csv(sheet: &Sheet) -> String {
    let mut out = format!("{}\n", sheet.columns.join(","));
    for row in &sheet.rows {
        let cells = row.iter().map(|entry| match entry {
            Entry::Number(value, _) => twelve_digits(*value).to_string(),
            Entry::Text(text) if text.contains([',', '"']) => format!("\"{}\"", text.replace('"', "\"\"")),
            Entry::Text(text) => text.clone(),
            Entry::Nothing => String::new(),
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join(","));
    }
    out
}

fn list(session: &Session) -> CommandResult {
    if session.format == OutputFormat::Text {
        let rows: Vec<_> = items().map(|(name, title)| [name.to_owned(), title.to_owned()]).collect();
        let mut out = String::new();
        report::table(&mut out, ["item", "what it shows"], &rows);
        session.print(&out)?;
    } else {
        let items: Vec<_> = items().map(|(name, title)| json!({ "item": name, "title": title })).collect();
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
