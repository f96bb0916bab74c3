//! `rondo compare JOB…`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use rondo_compiler::cost::topology::price::PriceFunction;
use rondo_compiler::front::job::SizeRequest;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::Bytes;
use serde_json::{Value, json};

use super::{load, write_folder};
use crate::chart::{Chart, LineChart, MOST_CURVES, Quantity, Scale};
use crate::cli::args::CompareArguments;
use crate::cli::commands::reproduce::undrawn;
use crate::cli::commands::thresholds::range;
use crate::cli::progress::Progress;
use crate::cli::{CommandResult, OutputFormat, Session, Status, io, report};
use crate::compare::{Comparison, Design, MOST_BUILT, compare, shares};

/// Ranks designs.
pub fn run(session: &Session, arguments: &CompareArguments) -> CommandResult {
    let function = price_function(&arguments.price)?;
    let mut jobs = Vec::new();
    for path in &arguments.jobs {
        match load(session, path)? {
            Ok(loaded) => jobs.push(loaded),
            Err(status) => return Ok(status),
        }
    }
    let Some((first, _)) = jobs.first() else {
        return Err(vec![Diagnostic::error("X029", "there is nothing to compare").help("name two jobs or more")]);
    };
    let ranks = |loaded: &crate::pipeline::Loaded| {
        let nodes = loaded.fabric.topology.compute_nodes().count();
        u32::try_from(nodes).unwrap_or(u32::MAX)
    };
    let (own, given) = match first.job.sizes(ranks(first)) {
        SizeRequest::One(size) => (size, None),
        SizeRequest::Range { low, high } => (high, Some((low, high))),
    };
    let sizes = match &arguments.sizes {
        Some(text) => range::<Bytes>("--sizes", text)?,
        None => given.unwrap_or((Bytes(1_000), Bytes(1_000_000_000.max(own.0)))),
    };
    let mut designs = Vec::new();
    for (loaded, sources) in &jobs {
        let size = match loaded.job.sizes(ranks(loaded)) {
            SizeRequest::One(size) | SizeRequest::Range { high: size, .. } => size,
        };
        let progress = Progress::new(session.format);
        let design = Design::new(loaded, size, sizes.1, &progress);
        drop(progress);
        match design {
            Ok(design) => designs.push(design),
            Err(failure) => return Ok(super::compile::failed(session, &failure, sources)),
        }
    }
    let comparison = compare(designs, sizes).map_err(|finding| vec![finding])?;
    let written = match &arguments.output {
        Some(folder) => write(folder, &comparison, sizes)?,
        None => Vec::new(),
    };
    if session.format == OutputFormat::Text {
        let mut out = text(&comparison, &function);
        for (name, bytes) in &written {
            let _ = writeln!(out, "wrote {name} ({bytes} bytes)");
        }
        session.print(&out)?;
    } else {
        session.print_json(as_json(&comparison, &function, &written))?;
    }
    Ok(Status::Done)
}

/// A named function, or a file of prices.
fn price_function(text: &str) -> Result<PriceFunction, Vec<Diagnostic>> {
    if let Some(named) = PriceFunction::NAMED.into_iter().find(|function| function.name() == text) {
        return Ok(named);
    }
    let names = PriceFunction::NAMED.iter().map(PriceFunction::name).collect::<Vec<_>>().join(", ");
    let help = format!("name one of {names}, or a file with a line `PORTS,PRICE` for each size of switch");
    let wrong = |message: String| vec![Diagnostic::error("X005", message).help(help.clone())];
    if !Path::new(text).exists() {
        return Err(wrong(format!("`--price {text}` is no price function and no file")));
    }
    let bytes = io::read(Path::new(text)).map_err(|d| vec![d])?;
    let mut prices = BTreeMap::new();
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let entry = line
            .split_once(',')
            .and_then(|(ports, price)| Some((ports.trim().parse::<u64>().ok()?, price.trim().parse::<f64>().ok()?)));
        match entry {
            Some((ports, price)) if 0 < ports && price.is_finite() && 0.0 <= price => prices.insert(ports, price),
            _ => return Err(wrong(format!("{text}:{}: `{line}` is no `PORTS,PRICE`", number + 1))),
        };
    }
    if prices.is_empty() {
        return Err(wrong(format!("{text} has no prices")));
    }
    Ok(PriceFunction::Table(prices))
}

fn factor(value: f64) -> String {
    Quantity::Ratio.text(value)
}

fn text(comparison: &Comparison, function: &PriceFunction) -> String {
    let mut out = String::new();
    let Some(best) = comparison.designs.first() else { return out };
    let names = comparison.names();
    let collective = best.problem.groups().first().map(|group| group.collective().to_string()).unwrap_or_default();
    report::line(&mut out, "collective", &collective);
    report::line(&mut out, "prices", &format!("{} in the ports of a switch", function.name()));
    out.push('\n');
    let rows: Vec<_> = comparison
        .designs
        .iter()
        .zip(&names)
        .map(|(design, name)| {
            let ratio = |over: &rondo_ir::units::Time| {
                let value = design.time().ratio_to(over).and_then(|ratio| num_traits::ToPrimitive::to_f64(&ratio));
                value.map_or_else(|| "-".to_owned(), factor)
            };
            [
                name.clone(),
                design.topology.clone(),
                design.problem.rank_count().to_string(),
                design.algorithm.clone(),
                design.time().to_string(),
                ratio(&best.time()),
                design.bound().map_or_else(|| "-".to_owned(), ToString::to_string),
                design.bound().map_or_else(|| "-".to_owned(), ratio),
                design.printed.as_ref().map_or_else(|| "-".to_owned(), |p| Quantity::Seconds.text(p.seconds)),
            ]
        })
        .collect();
    report::table(
        &mut out,
        ["design", "topology", "ranks", "algorithm", "time", "over best", "bound", "gap", "paper"],
        &rows,
    );
    let unbuilt = comparison.designs.iter().any(|design| design.compiled.is_none());
    if unbuilt {
        report::indented(
            &mut out,
            0,
            &format!(
                "designs of more than {MOST_BUILT} ranks are priced as their schedules would be, without building them: exact, but with \
                 fewer algorithms and no bound"
            ),
        );
    }
    out.push_str("\nwhat it is made of, and what it would need\n");
    let rows: Vec<_> = comparison
        .designs
        .iter()
        .enumerate()
        .map(|(place, design)| {
            let switches: Vec<_> = design.switches.iter().map(|(ports, count)| format!("{count} of {ports}")).collect();
            let rival = if place == 0 { comparison.designs.get(1) } else { Some(best) };
            let need = rival.map(|rival| design.bandwidth_for(&rival.time()));
            [
                names[place].clone(),
                if switches.is_empty() { "none".to_owned() } else { switches.join(", ") },
                design.cables.to_string(),
                format!("{:.4}", design.price(function)),
                match need {
                    None => "-".to_owned(),
                    Some(None) => "no bandwidth is enough".to_owned(),
                    Some(Some(value)) => factor(value),
                },
            ]
        })
        .collect();
    report::table(
        &mut out,
        ["design", "switches", "cables", "price", "bandwidth to equal the best (the best: the second)"],
        &rows,
    );
    out.push_str("\nshares of the time; also per cent that it grows if the parameter grows by one\n");
    let rows: Vec<_> = comparison
        .designs
        .iter()
        .zip(&names)
        .map(|(design, name)| {
            let [startup, latency, bandwidth, reduce, copy, change] = shares(design);
            let per_cent = |value: f64| format!("{:.1} %", 100.0 * value);
            [
                name.clone(),
                per_cent(startup),
                per_cent(latency),
                per_cent(bandwidth),
                per_cent(reduce + copy),
                per_cent(change),
                per_cent(bandwidth + reduce + copy),
                design.twice_the_ranks.map_or_else(|| "-".to_owned(), factor),
            ]
        })
        .collect();
    report::table(
        &mut out,
        ["design", "start-up", "latency", "1/bandwidth", "reduction", "changes", "size", "twice the ranks"],
        &rows,
    );
    out.push_str("\nfastest at which size\n");
    let rows: Vec<_> = comparison
        .segments
        .iter()
        .map(|segment| {
            let name = names[segment.design].clone();
            [segment.from.to_string(), segment.to.to_string(), name, segment.algorithm.to_owned()]
        })
        .collect();
    report::table(&mut out, ["from", "to", "design", "algorithm"], &rows);
    out
}

fn as_json(comparison: &Comparison, function: &PriceFunction, written: &[(String, usize)]) -> Value {
    let best = comparison.designs.first();
    let designs = comparison.designs.iter().enumerate().map(|(place, design)| {
        let rival = if place == 0 { comparison.designs.get(1) } else { best };
        let [startup, latency, bandwidth, reduce, copy, change] = shares(design);
        json!({
            "file": design.file, "topology": design.topology, "ranks": design.problem.rank_count(),
            "algorithm": design.algorithm, "time": report::time_json(&design.time()),
            "price": design.compiled.as_ref().map(|c| report::price_json(&design.problem, &c.cost, &c.bound)),
            "twice_the_ranks": design.twice_the_ranks,
            "printed": design.printed.as_ref().map(|p| json!({ "seconds": p.seconds, "place": p.place })),
            "switches": design.switches.iter().map(|(ports, count)| json!({ "ports": ports, "count": count })).collect::<Vec<_>>(),
            "cables": design.cables, "switch_price": design.price(function),
            "bandwidth_needed": rival.and_then(|rival| design.bandwidth_for(&rival.time())),
            "shares": {
                "startup": startup, "latency": latency, "bandwidth": bandwidth, "reduce": reduce, "copy": copy,
                "reconfiguration": change,
            },
        })
    });
    let segments = comparison.segments.iter().map(|segment| {
        json!({
            "from": segment.from.0, "to": segment.to.0, "file": comparison.designs[segment.design].file,
            "algorithm": segment.algorithm,
        })
    });
    json!({
        "command": "compare", "problem": best.map(|best| report::problem_json(&best.problem)), "price_function": function.name(),
        "designs": designs.collect::<Vec<_>>(), "segments": segments.collect::<Vec<_>>(),
        "files": written.iter().map(|(name, bytes)| json!({ "file": name, "bytes": bytes })).collect::<Vec<_>>(),
    })
}

/// Times over sizes as CSV, and as a chart.
fn write(
    folder: &Path,
    comparison: &Comparison,
    (low, high): (Bytes, Bytes),
) -> Result<Vec<(String, usize)>, Vec<Diagnostic>> {
    let text = format!("{} B..{} B/40", low.0.max(1), high.0.max(2));
    let mut sizes = crate::sweep::values::<Bytes>(&text).unwrap_or_default();
    sizes.extend(comparison.segments.iter().flat_map(|segment| [segment.from, segment.to]));
    sizes.sort_unstable();
    sizes.dedup();
    let mut csv = String::from("size_bytes");
    for name in comparison.names() {
        let _ = write!(csv, ",{}", name.replace([',', '"'], "_"));
    }
    csv.push('\n');
    for &size in &sizes {
        let _ = write!(csv, "{}", size.0);
        for design in &comparison.designs {
            let _ = write!(csv, ",{}", design.time_at(size));
        }
        csv.push('\n');
    }
    let mut files = vec![("compare.csv".to_owned(), csv)];
    if comparison.designs.len() <= MOST_CURVES {
        #[allow(clippy::cast_precision_loss)]
        let curve = |design: &Design| sizes.iter().map(|&size| (size.0 as f64, design.time_at(size))).collect();
        let collective = comparison.designs.first().and_then(|design| design.problem.groups().first());
        let chart = Chart::Line(LineChart {
            title: format!("Time of {}", collective.map_or("", |group| group.collective().kind().name())),
            subtitle: "the cheapest schedule of each design".to_owned(),
            x: Scale { label: "buffer size".to_owned(), quantity: Quantity::Bytes, logarithmic: true },
            y: Scale { label: "time".to_owned(), quantity: Quantity::Seconds, logarithmic: true },
            series: comparison.names().into_iter().zip(comparison.designs.iter().map(curve)).collect(),
        });
        files.push(("compare.svg".to_owned(), chart.svg().map_err(|error| vec![undrawn("compare", &error)])?));
    }
    write_folder(folder, &files)
}
