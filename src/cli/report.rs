//! Results as text and as JSON: the same facts.

use std::fmt::Write as _;
use std::path::Path;

use num_traits::ToPrimitive;
use rondo_compiler::auto::{CandidateReport, Verdict};
use rondo_compiler::cost::{Cost, StepCost, bandwidths};
use rondo_compiler::pass::circuits::Summary;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_ir::units::{Bytes, Time};
use rondo_verify::bound::Bound;
use rondo_verify::{Answer, Check};
use serde_json::{Value, json};

use super::render::{Sources, located};
use crate::export::Exported;
use crate::size_set::{Refused, Rival, SetPlan};

/// Widest name in the left column.
const LEFT: usize = 12;

/// Columns that a report takes, unless a word is longer.
const WIDTH: usize = 100;

/// The lines of a text, cut between words where they are wider than that; at a punctuation mark, if there is one near.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest = line;
        while width < rest.chars().count() {
            let limit = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
            let spaces = || rest.match_indices(' ').map(|(at, _)| at).filter(|&at| 0 < at);
            let fits = |&at: &usize| at <= limit;
            let marked = |&at: &usize| {
                2 * limit < 3 * at && (rest[..at].ends_with([',', ';', ':']) || rest[at..].starts_with(" ("))
            };
            let last = spaces().filter(fits).rfind(marked).or_else(|| spaces().rfind(fits));
            // A word that is too long stays whole.
            let Some(at) = last.or_else(|| spaces().next()) else { break };
            lines.push(rest[..at].trim_end().to_owned());
            rest = rest[at..].trim_start();
        }
        lines.push(rest.to_owned());
    }
    lines
}

/// A text with each of its lines so far to the right.
pub fn indented(out: &mut String, indent: usize, text: &str) {
    for line in wrapped(text, WIDTH - indent) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}

/// `1 step`, `2 steps`.
#[must_use]
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A line of the form `name         text`, further lines indented.
pub fn line(out: &mut String, name: &str, text: &str) {
    for (index, part) in wrapped(text, WIDTH - LEFT - 1).iter().enumerate() {
        let _ = writeln!(out, "{:LEFT$} {part}", if index == 0 { name } else { "" });
    }
}

/// A rate in GB/s with three decimals; `-` where nothing takes time.
fn gigabytes(rate: f64) -> String {
    if rate.is_finite() { format!("{:.3} GB/s", rate / 1e9) } else { "-".to_owned() }
}

/// Both parts of the bound with what binds.
#[must_use]
pub fn bound_text(bound: &Bound) -> String {
    let Bound { time, synchronous, bandwidth, latency } = bound;
    format!(
        "{time} for any run, {synchronous} step by step\nbandwidth {}: {}\nlatency {}: {}",
        bandwidth.time, bandwidth.cut, latency.time, latency.way
    )
}

/// An exact time for JSON: seconds as a number for people and as an exact ratio.
#[must_use]
pub fn time_json(time: &Time) -> Value {
    json!({ "seconds": time.to_f64(), "exact": time })
}

/// The word for an answer.
#[must_use]
pub const fn answer(answer: Answer) -> &'static str {
    match answer {
        Answer::Proved => "proved",
        Answer::Refuted => "refuted",
        Answer::Unknown => "unknown",
    }
}

/// What the problem is: a line each for collectives and topology.
pub fn problem(out: &mut String, problem: &Problem) {
    for group in problem.groups() {
        let collective = group.collective();
        line(out, "collective", &collective.to_string());
    }
    let topology = problem.topology();
    let text = format!("{} ({} nodes, {} links)", topology.name(), topology.nodes().len(), topology.links().len());
    line(out, "topology", &text);
}

/// The same as JSON.
#[must_use]
pub fn problem_json(problem: &Problem) -> Value {
    let groups: Vec<_> = problem
        .groups()
        .iter()
        .map(|group| {
            let c = group.collective();
            json!({
                "kind": c.kind().name(), "ranks": c.ranks(), "operator": c.operator().name(), "dtype": c.dtype().name(),
                "buffer_bytes": c.buffer_size().0, "in_place": c.in_place(), "root": c.kind().root(),
            })
        })
        .collect();
    let topology = problem.topology();
    json!({
        "collectives": groups,
        "topology": { "name": topology.name(), "nodes": topology.nodes().len(), "links": topology.links().len() },
    })
}

/// Time, bandwidths, bound and gap.
pub fn price(out: &mut String, problem: &Problem, cost: &Cost, bound: &Bound) {
    let rates = problem.groups().first().map(|group| bandwidths(group.collective(), &cost.total));
    let rates = rates.map_or_else(String::new, |r| {
        format!("   algorithm bandwidth {}, bus bandwidth {}", gigabytes(r.algorithm), gigabytes(r.bus))
    });
    line(out, "time", &format!("{}{rates}", cost.total));
    line(out, "shares", &shares(cost));
    line(out, "bound", &bound_text(bound));
    line(out, "gap", &gap(cost, bound));
}

/// `start-up 10 %, latency 20 %, …` without terms that are zero.
fn shares(cost: &Cost) -> String {
    let terms = [
        ("start-up", cost.startup()),
        ("latency", cost.latency()),
        ("bandwidth", cost.bandwidth()),
        ("reduction", cost.reduce()),
        ("copies", cost.copy()),
        ("reconfiguration", cost.reconfiguration()),
    ];
    let total = cost.total.to_f64();
    let parts: Vec<_> = terms
        .iter()
        .filter(|(_, time)| !time.is_zero())
        .map(|(name, time)| format!("{name} {time} ({:.1} %)", 100.0 * time.to_f64() / total))
        .collect();
    if parts.is_empty() { "nothing moves".to_owned() } else { parts.join(", ") }
}

/// Exact ratios, printed with four digits; `exactly 1` only where it is.
fn gap(cost: &Cost, bound: &Bound) -> String {
    let ratio = |time: &Time, least: &Time| match time.ratio_to(least) {
        None if time.is_zero() => "nothing to bound".to_owned(),
        None => "the bound is zero".to_owned(),
        Some(ratio) if num_traits::One::is_one(&ratio) => "exactly 1".to_owned(),
        Some(_) => format!("{:.4}", time.to_f64() / least.to_f64()),
    };
    let (total, bandwidth) = (ratio(&cost.total, &bound.synchronous), ratio(&cost.bandwidth(), &bound.bandwidth.time));
    format!("{total} against the bound step by step; bandwidth term {bandwidth}")
}

/// The same as JSON.
#[must_use]
pub fn price_json(problem: &Problem, cost: &Cost, bound: &Bound) -> Value {
    let rates = problem.groups().first().map(|group| bandwidths(group.collective(), &cost.total));
    let steps: Vec<_> = cost
        .steps
        .iter()
        .map(|step| {
            json!({
                "flows": step.flows, "hops": step.hops, "bytes": step.bytes, "time": time_json(&step.total()),
                "startup": time_json(&step.startup()), "latency": time_json(&step.latency()),
                "bandwidth": time_json(&step.bandwidth()), "reduce": time_json(&step.reduce()), "copy": time_json(&step.copy()),
                "reconfiguration": time_json(&step.reconfiguration()),
                "hidden_reconfiguration": time_json(&step.hidden_reconfiguration()),
                "congestion": step.congestion.map(|c| c.to_string()),
                "busiest": step.busiest.map(|b| json!({
                    "resource": problem.topology().resource_name(b.resource),
                    "bytes": u64::try_from(b.bytes).ok(), "bytes_per_second": b.rate.bytes_per_second(),
                })),
            })
        })
        .collect();
    json!({
        "time": time_json(&cost.total),
        "algorithm_bandwidth": rates.map(|r| r.algorithm).filter(|r| r.is_finite()),
        "bus_bandwidth": rates.map(|r| r.bus).filter(|r| r.is_finite()),
        "bound": {
            "any_run": time_json(&bound.time), "step_by_step": time_json(&bound.synchronous),
            "bandwidth": { "time": time_json(&bound.bandwidth.time), "cut": bound.bandwidth.cut },
            "latency": { "time": time_json(&bound.latency.time), "way": bound.latency.way },
        },
        "gap": cost.total.ratio_to(&bound.synchronous).map(|r| r.to_string()),
        "bandwidth_gap": cost.bandwidth().ratio_to(&bound.bandwidth.time).map(|r| r.to_string()),
        "steps": steps,
    })
}

/// What is done with circuits, where there are any; `ring` is the time of the one-way Ring.
pub fn circuits(out: &mut String, problem: &Problem, schedule: &Schedule, cost: &Cost, ring: Option<&Time>) {
    let Some(summary) = Summary::of(problem, schedule) else { return };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut text = match summary.threshold {
        Some((steps, threshold)) => format!("T = {threshold} of {steps} steps a phase; "),
        None => String::new(),
    };
    let _ = write!(text, "{} change{}, {}", summary.changes, plural(summary.changes), cost.reconfiguration());
    let hidden: Time = cost.steps.iter().map(StepCost::hidden_reconfiguration).sum();
    if problem.cost().overlap_reconfiguration {
        let _ = write!(text, ", and {hidden} beside the steps before them");
    }
    line(out, "circuits", &text);
    if let Some(ratio) = ring.and_then(|ring| ring.ratio_to(&cost.total)).and_then(|ratio| ratio.to_f64()) {
        line(out, "", &format!("{ratio:.2} times as fast as the one-way Ring"));
    }
    let delays = problem.topology().devices().iter().map(|device| device.reconfiguration_delay);
    let back = delays.max().unwrap_or_default().plus(problem.cost().synchronisation);
    line(
        out,
        "",
        &if summary.restored {
            "the circuits of the start are up at the end: ready for the next call".to_owned()
        } else {
            format!("other circuits are up at the end: setting the first ones for the next call takes {back}")
        },
    );
}

/// The same as JSON; null without devices.
#[must_use]
pub fn circuits_json(problem: &Problem, schedule: &Schedule, ring: Option<&Time>) -> Value {
    Summary::of(problem, schedule).map_or(Value::Null, |summary| {
        json!({
            "changes": summary.changes, "restored": summary.restored,
            "phase_steps": summary.threshold.map(|(steps, _)| steps), "threshold": summary.threshold.map(|(_, t)| t),
            "ring": ring.map(time_json),
        })
    })
}

/// A table of the steps; runs of equal steps are one row.
pub fn steps(out: &mut String, problem: &Problem, cost: &Cost, most: usize) {
    let mut rows: Vec<[String; 8]> = Vec::new();
    let switched = !problem.topology().devices().is_empty();
    let mut index = 0;
    let mut hidden = 0;
    while index < cost.steps.len() {
        let step = &cost.steps[index];
        let run = cost.steps[index..].iter().take_while(|other| *other == step).count();
        let number = if run == 1 { format!("s{index}") } else { format!("s{index}..s{}", index + run - 1) };
        index += run;
        if most != 0 && most <= rows.len() {
            hidden += run;
            continue;
        }
        let busiest = step.busiest.map_or_else(
            || "-".to_owned(),
            |b| {
                format!(
                    "{} of {}",
                    Bytes(u64::try_from(b.bytes).unwrap_or(u64::MAX)),
                    problem.topology().resource_name(b.resource)
                )
            },
        );
        rows.push([
            number,
            step.flows.to_string(),
            step.hops.to_string(),
            Bytes(step.bytes).to_string(),
            step.congestion.map_or_else(|| "-".to_owned(), |c| c.to_string()),
            step.total().to_string(),
            match (step.reconfiguration(), step.hidden_reconfiguration()) {
                (paid, hidden) if paid.is_zero() && hidden.is_zero() => "-".to_owned(),
                (paid, hidden) if hidden.is_zero() => paid.to_string(),
                (paid, hidden) => format!("{paid} (+{hidden} before)"),
            },
            busiest,
        ]);
    }
    let head =
        ["step", "flows", "hops", "largest flow", "congestion", "time each", "of that change", "busiest resource"];
    if switched {
        table(out, head, &rows);
    } else {
        let without = |[a, b, c, d, e, f, _, g]: [String; 8]| [a, b, c, d, e, f, g];
        let [a, b, c, d, e, f, _, g] = head;
        table(out, [a, b, c, d, e, f, g], &rows.into_iter().map(without).collect::<Vec<_>>());
    }
    if 0 < hidden {
        let _ = writeln!(out, "… and {hidden} more steps; --steps 0 prints all");
    }
}

/// A table with columns as wide as they need to be. If that is too wide, the widest one is cut into lines.
pub fn table<const N: usize>(out: &mut String, head: [&str; N], rows: &[[String; N]]) {
    let head = head.map(str::to_owned);
    rows_of(out, 0, std::iter::once(&head[..]).chain(rows.iter().map(|row| &row[..])));
}

/// A table with so many columns as the head has.
pub fn columns(out: &mut String, head: &[String], rows: &[Vec<String>]) {
    rows_of(out, 0, std::iter::once(head).chain(rows.iter().map(|row| &row[..])));
}

/// Rows without a head, indented.
fn rows_of<'a>(out: &mut String, indent: usize, rows: impl Iterator<Item = &'a [String]> + Clone) {
    const GAP: usize = 2;
    let count = rows.clone().map(<[String]>::len).max().unwrap_or(0);
    let mut widths = vec![0; count];
    for row in rows.clone() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.lines().map(|line| line.chars().count()).max().unwrap_or(0).max(*width);
        }
    }
    let total = |widths: &[usize]| indent + widths.iter().sum::<usize>() + GAP * count.saturating_sub(1);
    let all = total(&widths);
    if let Some(widest) = widths.iter_mut().max().filter(|_| WIDTH < all) {
        *widest = widest.saturating_sub(all - WIDTH).max(WIDTH / 4);
    }
    // Where one column is not enough, the widest ones in turn.
    while WIDTH < total(&widths)
        && let Some(widest) = widths.iter_mut().max().filter(|widest| WIDTH / 10 < **widest)
    {
        *widest -= 1;
    }
    let rows: Vec<Vec<Vec<String>>> =
        rows.map(|row| row.iter().zip(&widths).map(|(cell, &width)| wrapped(cell, width)).collect()).collect();
    for (column, width) in widths.iter_mut().enumerate() {
        let lines = rows.iter().flat_map(|row| &row[column]).map(|line| line.chars().count());
        *width = lines.max().unwrap_or(0);
    }
    for cells in rows {
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut text = " ".repeat(indent);
            for (cell, &width) in cells.iter().zip(&widths) {
                let cell = cell.get(line).map_or("", String::as_str);
                let _ = write!(text, "{cell:width$}{:GAP$}", "");
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
    }
}

/// All candidates with their times and why they lost.
pub fn candidates(out: &mut String, candidates: &[CandidateReport]) {
    let rows: Vec<_> = candidates
        .iter()
        .map(|c| {
            let built = |text: String| if c.time.is_some() { text } else { "-".to_owned() };
            [
                c.name.to_owned(),
                c.time.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
                built(c.chunks.to_string()),
                built(c.steps.to_string()),
                built(c.flows.to_string()),
                c.reason.clone(),
            ]
        })
        .collect();
    table(out, ["algorithm", "time", "chunks", "steps", "flows", "outcome"], &rows);
}

/// The same as JSON.
#[must_use]
pub fn candidates_json(candidates: &[CandidateReport]) -> Value {
    let list = candidates.iter().map(|c| {
        json!({
            "algorithm": c.name, "chunks": c.chunks, "time": c.time.as_ref().map(time_json), "steps": c.steps, "flows": c.flows,
            "chosen": c.verdict == Verdict::Chosen, "reason": c.reason,
        })
    });
    Value::Array(list.collect())
}

/// The candidates on the sizes of a plan of a set.
pub fn rivals(out: &mut String, plan: &SetPlan) {
    let rows: Vec<_> = plan
        .rivals
        .iter()
        .map(|rival| {
            let ((least, small), (most, large)) = (&rival.smallest, &rival.largest);
            let chunks = if least == most { least.to_string() } else { format!("{least}, {most}") };
            [rival.name.to_owned(), chunks, small.to_string(), large.to_string(), rival.reason.clone()]
        })
        .collect();
    let (from, to) = (format!("at {}", plan.from), format!("at {}", plan.to));
    table(out, ["algorithm", "chunks", &from, &to, "outcome"], &rows);
}

/// The same as JSON.
#[must_use]
pub fn rivals_json(rivals: &[Rival]) -> Value {
    let end = |(chunks, time): &(u32, Time)| json!({ "chunks": chunks, "time": time_json(time) });
    let list = rivals.iter().map(|rival| {
        json!({
            "algorithm": rival.name, "at_smallest": end(&rival.smallest), "at_largest": end(&rival.largest),
            "chosen": rival.chosen, "reason": rival.reason,
        })
    });
    Value::Array(list.collect())
}

/// What cannot be in a set of plans; one line an algorithm.
pub fn refused(out: &mut String, refused: &[Refused]) {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for group in refused.chunk_by(|a, b| a.name == b.name) {
        let Some(first) = group.first() else { continue };
        let chunks: Vec<String> = group.iter().filter_map(|one| Some(one.chunks?.to_string())).collect();
        rows.push([first.name.to_owned(), chunks.join(", "), first.reason.clone()]);
    }
    table(out, ["algorithm", "chunks", "reason"], &rows);
}

/// The same as JSON.
#[must_use]
pub fn refused_json(refused: &[Refused]) -> Value {
    let list = refused.iter().map(|one| json!({ "algorithm": one.name, "chunks": one.chunks, "reason": one.reason }));
    Value::Array(list.collect())
}

/// What was checked and how.
pub fn checks(out: &mut String, checks: &[Check]) {
    let rows: Vec<_> = checks
        .iter()
        .map(|check| {
            let opinion = if check.decides || !check.name.starts_with("smt") { "" } else { " (second opinion)" };
            [check.name.to_owned(), answer(check.answer).to_owned(), format!("{}{opinion}", check.detail)]
        })
        .collect();
    rows_of(out, 2, rows.iter().map(|row| &row[..]));
}

/// What was written and how it was checked.
pub fn wrote(out: &mut String, path: &Path, file: &Exported) {
    let _ = writeln!(out, "wrote {} ({} bytes)", path.display(), file.text.len());
    indented(out, 2, &file.checked);
}

/// Why the checks give no verdict: the deciding ones that were not finished.
#[must_use]
pub fn undecided(checks: &[Check]) -> Option<Diagnostic> {
    let open: Vec<_> = checks.iter().filter(|check| check.decides && check.answer == Answer::Unknown).collect();
    let names: Vec<_> = open.iter().map(|check| check.name).collect();
    let message = format!("the verdict is unknown: not finished: {}", names.join(", "));
    let mut finding = Diagnostic::error("X022", message);
    finding.notes.extend(open.iter().map(|check| format!("{}: {}", check.name, check.detail)));
    if names.iter().any(|name| name.starts_with("smt")) {
        finding =
            finding.help("raise --smt-ranks, --smt-events or smt_budget in [compile], or leave out --require-smt");
    }
    (!open.is_empty()).then_some(finding)
}

/// The same as JSON.
#[must_use]
pub fn checks_json(checks: &[Check]) -> Value {
    let list = checks
        .iter()
        .map(|c| json!({ "name": c.name, "answer": answer(c.answer), "decides": c.decides, "detail": c.detail }));
    Value::Array(list.collect())
}

/// Diagnostics as JSON, with their lines and columns in the sources.
#[must_use]
pub fn findings_json(findings: &[Diagnostic], sources: &Sources) -> Value {
    findings.iter().map(|finding| located(finding, sources)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_words() {
        assert_eq!(wrapped("one two, three four", 12), ["one two,", "three four"]);
        assert_eq!(wrapped("one two three", 9), ["one two", "three"]);
        assert_eq!(wrapped("one\n\ntwo", 9), ["one", "", "two"]);
        assert_eq!(wrapped("a/very/long/path and so on", 8), ["a/very/long/path", "and so", "on"]);
        assert_eq!(wrapped("  äöü äöü", 7), ["  äöü", "äöü"]);
        assert!(wrapped("", 9).is_empty());
    }

    #[test]
    fn the_widest_column_of_a_table_is_cut() {
        let text = "word ".repeat(30);
        let mut out = String::new();
        table(&mut out, ["a", "b", "c"], &[["1".to_owned(), text, "2".to_owned()]]);
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines.len(), 3, "{out}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{out}");
        assert_eq!((lines[1].chars().last(), lines[1].chars().count()), (Some('2'), WIDTH), "{out}");
        assert!(lines[2].starts_with("   word word"), "{out}");
    }
}
