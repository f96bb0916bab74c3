//! `rondo thresholds`.

use std::cmp::Ordering;

use num_rational::BigRational;
use num_traits::ToPrimitive;
use rondo_compiler::cost::shortcut::Pairing;
use rondo_compiler::front::job::{SizeRequest, build_problem};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::{Bytes, Delay, Time};
use rondo_verify::Answer;
use serde_json::{Value, json};

use super::compile::failed;
use super::load;
use crate::cli::args::{OutputFormat, ThresholdsArguments};
use crate::cli::{CommandResult, Session, Status, io, report};
use crate::thresholds::{Question, Thresholds, thresholds};

/// Runs it.
pub fn run(session: &Session, arguments: &ThresholdsArguments) -> CommandResult {
    let (loaded, sources) = match load(session, &arguments.job)? {
        Ok(loaded) => loaded,
        Err(status) => return Ok(status),
    };
    let problem = match build_problem(&loaded.job, &loaded.fabric) {
        Ok(problem) => problem,
        Err(diagnostics) => return Ok(session.report(&diagnostics, &sources)),
    };
    let Some(pairing) = Pairing::ALL.into_iter().find(|pairing| pairing.name() == arguments.algorithm) else {
        let names: Vec<_> = Pairing::ALL.iter().map(|pairing| pairing.name()).collect();
        let message = format!("`--algorithm {}` has no thresholds", arguments.algorithm);
        return Err(vec![Diagnostic::error("X005", message).help(format!("write {}", names.join(" or ")))]);
    };
    let sizes = match &arguments.sizes {
        Some(text) => range::<Bytes>("--sizes", text)?,
        None => match loaded.job.sizes(u32::try_from(problem.rank_count()).unwrap_or(u32::MAX)) {
            SizeRequest::Range { low, high } => (low, high),
            SizeRequest::One(_) => (Bytes(1_000), Bytes(1_000_000_000)),
        },
    };
    let devices = problem.topology().devices().iter();
    let own = devices.map(|device| device.reconfiguration_delay.plus(problem.cost().synchronisation)).max();
    let own = own.unwrap_or_default();
    let delays = match &arguments.delays {
        Some(text) => range::<Delay>("--delays", text)?,
        None => (own, own),
    };
    let question = Question { pairing, sizes, delays };
    let found = match thresholds(&loaded, &question) {
        Ok(found) => found,
        Err(failure) => return Ok(failed(session, &failure, &sources)),
    };
    if let Some(path) = &arguments.certificate {
        io::write(path, found.certificate.as_bytes()).map_err(|d| vec![d])?;
    }
    let table = table(&question, &found);
    if let Some(path) = &arguments.output {
        io::write(path, format!("{table:#}\n").as_bytes()).map_err(|d| vec![d])?;
    }
    if session.format == OutputFormat::Text {
        let mut out = String::new();
        report::problem(&mut out, &problem);
        text(&mut out, &question, &found);
        session.print(&out)?;
    } else {
        session.print_json(
            json!({ "command": "thresholds", "problem": report::problem_json(&problem), "table": table }),
        )?;
    }
    Ok(match found.answer {
        Answer::Refuted => Status::Refuted,
        Answer::Unknown if arguments.require_proof => Status::Undecided,
        Answer::Proved | Answer::Unknown => Status::Done,
    })
}

/// `low..high`, or one value.
pub fn range<T: std::str::FromStr + PartialOrd + Copy>(option: &str, text: &str) -> Result<(T, T), Vec<Diagnostic>>
where
    T::Err: std::fmt::Display,
{
    let wrong = |why: String| {
        vec![
            Diagnostic::error("X005", format!("`{option} {text}`: {why}"))
                .help(format!("write {option} LOW..HIGH, with units")),
        ]
    };
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let read = |text: &str| text.trim().parse::<T>().map_err(|error| wrong(error.to_string()));
    let (low, high) = (read(low)?, read(high)?);
    if high < low { Err(wrong("it ends before it begins".to_owned())) } else { Ok((low, high)) }
}

/// A delay in seconds for people.
fn delay(seconds: &BigRational) -> String {
    Time::from_seconds(seconds.clone()).to_string()
}

fn text(out: &mut String, question: &Question, found: &Thresholds) {
    let whole = |bytes: u64| BigRational::from_integer(bytes.into());
    let seconds = found.delay.time().seconds().clone();
    let source = if found.built { "of verified schedules" } else { "by closed forms" };
    report::line(out, "algorithm", &format!("{}, prices {source}", question.pairing.name()));
    report::line(
        out,
        "proof",
        &format!(
            "{} best for sizes {} to {} and delays {} to {}",
            match found.answer {
                Answer::Proved => "the rule is",
                Answer::Refuted => "refuted: the rule is not",
                Answer::Unknown => "unknown whether the rule is",
            },
            question.sizes.0,
            question.sizes.1,
            question.delays.0,
            question.delays.1
        ),
    );
    report::line(out, "", &found.how);
    out.push_str(&format!("\nat a delay of {}\n", found.delay));
    let ring = found.plans.len() - 1;
    let rows: Vec<_> = found
        .pieces
        .iter()
        .map(|piece| {
            let at = |bytes: u64| found.plans[piece.line].price.at(&whole(bytes), &seconds);
            let speed = |bytes: u64| found.plans[ring].price.at(&whole(bytes), &seconds) / at(bytes);
            let factor = |bytes: u64| format!("{:.2}", speed(bytes).to_f64().unwrap_or(f64::INFINITY));
            [
                Bytes(piece.from).to_string(),
                Bytes(piece.to).to_string(),
                found.plans[piece.line].name.clone(),
                found.plans[piece.line].changes.to_string(),
                delay(&at(piece.from)),
                delay(&at(piece.to)),
                format!("{} .. {}", factor(piece.from), factor(piece.to)),
            ]
        })
        .collect();
    report::table(
        out,
        ["from", "to", "best", "changes", "time there", "time at the end", "times as fast as Ring"],
        &rows,
    );
    out.push_str("\nrule: the first that holds, for m bytes and a delay of d\n");
    let rows: Vec<_> = found
        .rule
        .entries
        .iter()
        .map(|entry| {
            let conditions: Vec<_> = entry.conditions.iter().map(|&(a, b)| condition(found, a, b)).collect();
            let conditions = if conditions.is_empty() { "always".to_owned() } else { conditions.join(", ") };
            [found.plans[entry.choice].name.clone(), conditions]
        })
        .collect();
    report::table(out, ["take", "if"], &rows);
}

/// "a is no dearer than b" as a bound on the delay d, or on the size m.
fn condition(found: &Thresholds, a: usize, b: usize) -> String {
    let [x, y] = [a, b].map(|index| &found.plans[index].price);
    let more = &x.per_delay - &y.per_delay;
    let (constant, slope) = (&y.constant - &x.constant, &y.per_byte - &x.per_byte);
    let zero = BigRational::from_integer(0.into());
    if more == zero {
        // constant + slope · m >= 0.
        let bound = || bytes(&(-&constant / &slope));
        return match slope.cmp(&zero) {
            Ordering::Greater => format!("m >= {}", bound()),
            Ordering::Less => format!("m <= {}", bound()),
            Ordering::Equal if zero <= constant => "always".to_owned(),
            Ordering::Equal => "never".to_owned(),
        };
    }
    let (constant, slope) = (constant / &more, slope / &more);
    let base = if constant < zero { format!("-{}", delay(&-&constant)) } else { delay(&constant) };
    let each =
        (if slope < zero { -&slope } else { slope.clone() }) * BigRational::from_integer(1_000_000_000_000_i64.into());
    let sign = if slope < zero { '-' } else { '+' };
    let each = each.to_f64().unwrap_or(f64::INFINITY);
    let affine = if slope == zero { base } else { format!("{base} {sign} m * {each:.4} ps") };
    format!("d {} {affine}", if zero < more { "<=" } else { ">=" })
}

/// A number of bytes that need not be whole.
fn bytes(value: &BigRational) -> String {
    let whole = value.floor().to_integer().to_u64();
    whole.map_or_else(|| format!("{} B", value.floor()), |whole| Bytes(whole).to_string())
}

/// The table that a runtime can load: exact numbers as fractions of seconds.
fn table(question: &Question, found: &Thresholds) -> Value {
    let exact = |value: &BigRational| value.to_string();
    let plans: Vec<_> = found
        .plans
        .iter()
        .map(|plan| {
            json!({
                "name": plan.name, "threshold": plan.threshold, "changes": plan.changes,
                "constant": exact(&plan.price.constant), "per_byte": exact(&plan.price.per_byte),
            })
        })
        .collect();
    let pieces: Vec<_> =
        found.pieces.iter().map(|piece| json!({ "from": piece.from, "to": piece.to, "plan": piece.line })).collect();
    let rule: Vec<_> = found
        .rule
        .entries
        .iter()
        .map(|entry| json!({ "plan": entry.choice, "no_dearer_than": entry.conditions.iter().map(|c| c.1).collect::<Vec<_>>() }))
        .collect();
    json!({
        "format": "rondo.thresholds", "version": "1.0", "algorithm": question.pairing.name(),
        "delay": report::time_json(&found.delay.time()), "plans": plans, "sizes": pieces, "rule": rule,
        "prices": if found.built { "schedules" } else { "closed-forms" },
        "proof": {
            "answer": report::answer(found.answer), "detail": found.how,
            "sizes": [question.sizes.0.0, question.sizes.1.0],
            "delays": [report::time_json(&question.delays.0.time()), report::time_json(&question.delays.1.time())],
        },
    })
}
