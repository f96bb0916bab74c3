//! Text to plans: recognition, JSON, and faults with their place.

use rondo_ir::diagnostic::Diagnostic;
use serde::Deserialize;

use super::check::{Faults, build};
use super::locate::{bracket_at, last_before, shorten};
use super::model::{PlanFile, WRONG_FORMAT, WRONG_VERSION};
use super::{FORMAT, Plan};

/// Whether the bytes look like the beginning of a plan: a JSON object that says `rondo.plan` in its first 4 KiB.
///
/// # Example
/// ```
/// use rondo_backends::json::looks_like_plan;
/// assert!(looks_like_plan(br#"{"format": "rondo.plan", "version": "1.0"}"#));
/// assert!(!looks_like_plan(b"<algo name=\"ring\">"));
/// ```
#[must_use]
pub fn looks_like_plan(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let bytes = bytes.get(..4096).unwrap_or(bytes).trim_ascii_start();
    let quoted = format!("\"{FORMAT}\"");
    bytes.first() == Some(&b'{') && bytes.windows(quoted.len()).any(|window| window == quoted.as_bytes())
}

/// Reads a plan. Every id is checked; whether the plan is right is not asked.
///
/// `file_name` is what diagnostics call the file.
///
/// # Errors
/// Faults with codes B100 … B111, each with the bytes that it is about. A fault of the JSON itself stops at once; others
/// are all reported, the first [`MAX_FAULTS`](super::MAX_FAULTS) with their places.
///
/// # Complexity
/// Linear in the text, also for hostile input: nothing is allocated from a number that the file claims.
pub fn parse(file_name: &str, bytes: &[u8]) -> Result<Plan, Vec<Diagnostic>> {
    let whole = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let fault = Diagnostic::error("B100", "the file is no plan of Rondo: it is not UTF-8 text");
        vec![fault.at(file_name, at..(at + 1).min(bytes.len()), format!("byte 0x{:02x}", bytes[at]))]
    })?;
    let text = whole.strip_prefix('\u{feff}').unwrap_or(whole);
    let skipped = whole.len() - text.len();
    if text.trim_ascii().is_empty() {
        let message = if whole.is_empty() { "the file is empty" } else { "the file holds nothing but white space" };
        return Err(vec![
            Diagnostic::error("B100", message).help("write a plan with: rondo compile JOB.toml -o PLAN.json"),
        ]);
    }
    let start = whole.len() - text.trim_ascii_start().len();
    if whole.as_bytes()[start] != b'{' {
        let found = whole[start..].chars().next().unwrap_or(' ');
        return Err(vec![
            Diagnostic::error(
                "B100",
                format!("the file is no plan of Rondo: it begins with `{}`", found.escape_default()),
            )
            .at(file_name, start..start + found.len_utf8(), "a plan begins with {"),
        ]);
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = PlanFile::deserialize(&mut deserializer).and_then(|plan| deserializer.end().map(|()| plan));
    let file = read.map_err(|error| vec![fault_of(file_name, text, skipped, &error)])?;
    build(file, text).map_err(|faults| faults.located(file_name, whole))
}

/// A diagnostic from what serde_json says.
fn fault_of(file_name: &str, text: &str, skipped: usize, error: &serde_json::Error) -> Diagnostic {
    let full = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = full.strip_suffix(&place).unwrap_or(&full);
    let end = offset(text, error.line(), error.column());
    // A type error is reported before an array or object is read, any other one behind the value.
    let opens = ["invalid type: sequence", "invalid type: map"].iter().any(|start| message.starts_with(start));
    let spot = opens.then(|| bracket_at(text, end)).flatten().or_else(|| last_before(text, end));
    let shown = |path: &str| if path.is_empty() { String::new() } else { format!("{path}: ") };
    let char_before = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
    match error.classify() {
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => Diagnostic::error(
            "B101",
            format!("the plan is no well-formed JSON: {}", shorten(message, 200)),
        )
        .at(file_name, char_before + skipped..end + skipped, "here"),
        serde_json::error::Category::Eof => {
            Diagnostic::error("B101", "the plan ends too early: the file was cut off or a bracket is missing")
                .at(file_name, char_before + skipped..end + skipped, shorten(message, 200))
                .note("nothing of it was used")
        }
        serde_json::error::Category::Data => {
            let (path, span) = spot.map_or((String::new(), char_before..end), |spot| (spot.path, spot.span));
            let span = first_line(text, span);
            let span = span.start + skipped..span.end + skipped;
            if let Some((key, known)) = unknown_key(message) {
                let fault = Diagnostic::error("B103", format!("{}unknown key `{}`", shown(&path), shorten(key, 60)));
                let fault = fault.at(file_name, span, "");
                return match nearest(key, &known) {
                    Some(name) => fault.help(format!("did you mean `{name}`?")),
                    None => fault.help(format!("known here: {}", known.join(", "))),
                };
            }
            if message.starts_with(WRONG_FORMAT) {
                return Diagnostic::error("B100", message).at(file_name, span, "");
            }
            if message.starts_with(WRONG_VERSION) {
                return Diagnostic::error("B102", message)
                    .at(file_name, span, "")
                    .help("use a rondo that writes and reads this version");
            }
            let fault = Diagnostic::error("B104", format!("{}{}", shown(&path), shorten(message, 300)));
            let fault = fault.at(file_name, span, "");
            if message.contains("`format`") {
                return fault
                    .help(format!("a plan of Rondo begins with \"format\": \"{FORMAT}\", \"version\": \"1.0\""));
            }
            fault
        }
    }
}

/// The byte behind a place that serde_json names, at a character boundary.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start = if line <= 1 {
        0
    } else {
        text.bytes().enumerate().filter(|(_, b)| *b == b'\n').nth(line - 2).map_or(text.len(), |(at, _)| at + 1)
    };
    let mut end = start.saturating_add(column).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    end
}

/// The span up to the end of its first line.
fn first_line(text: &str, span: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let length = text.get(span.clone()).and_then(|piece| piece.find('\n')).unwrap_or(span.len());
    span.start..span.start + length
}

/// Key and known keys out of serde's message ``unknown field `a`, expected one of `b`, `c` ``.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, known) = rest.rsplit_once("`, expected ")?;
    Some((key, known.split('`').skip(1).step_by(2).collect()))
}

/// The known name that a misspelt one most likely means.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if 60 < name.len() {
        return None;
    }
    let scored = known.iter().map(|&candidate| (strsim::damerau_levenshtein(name, candidate), candidate));
    scored.min().filter(|(distance, candidate)| *distance * 3 <= candidate.len().max(3)).map(|(_, candidate)| candidate)
}

impl Faults {
    /// The faults as diagnostics, each with the bytes that its path leads to.
    fn located(self, file_name: &str, text: &str) -> Vec<Diagnostic> {
        let Self { list, beyond } = self;
        let mut diagnostics: Vec<Diagnostic> = list
            .into_iter()
            .map(|(path, fault)| match super::locate(text, &path) {
                Some(span) => fault.at(file_name, first_line(text, span), ""),
                None => fault,
            })
            .collect();
        if 0 < beyond
            && let Some(last) = diagnostics.last_mut()
        {
            last.notes.push(format!("{beyond} more faults of this file are not listed"));
        }
        diagnostics
    }
}
