//! Job files: TOML in, a checked description out.
//!
//! [`parse_job`] reads a file and reports everything that is wrong with it at once. What can only be known once the
//! topology stands (names of its nodes, how many there are) is checked by [`build_problem`].
//!
//! What a file may hold is written once, in `tables.rs`: the reader, the suggestions in its messages, the reference page
//! ([`reference()`]) and the JSON Schema ([`schema()`]) are made from it.
//!
//! # Example
//! ```
//! use rondo_compiler::front::job::{SizeRequest, parse_job};
//! use rondo_ir::units::Bytes;
//!
//! let job = parse_job(
//!     "ring8.toml",
//!     r#"
//!     [topology]
//!     kind = "ring"
//!     nodes = 8
//!     bandwidth = "25 GB/s"
//!
//!     [collective]
//!     kind = "all_reduce"
//!     buffer_size = "1 MiB"
//!     "#,
//! )
//! .expect("a good job");
//! assert_eq!(job.sizes(8), SizeRequest::One(Bytes(1 << 20)));
//!
//! let errors = parse_job("bad.toml", "[topology]\nkind = \"rign\"\n").unwrap_err();
//! assert_eq!(errors[0].message, "the job has no `[collective]`");
//! assert_eq!(errors[1].message, "unknown kind of topology \"rign\"");
//! ```

mod codes;
mod describe;
mod options;
mod problem;
mod read;
mod reference;
mod schema;
mod suggest;
mod tables;
mod topology;
mod values;
mod write;

use rondo_ir::diagnostic::Diagnostic;
use toml::de::DeTable;

pub use codes::CODES;
pub use options::{
    Algorithm, CollectiveChoice, CollectiveJob, CompileOptions, ExportOptions, Job, SizeGiven, SizeRequest,
};
pub use problem::{build_problem, build_problem_for};
pub use read::DefaultUsed;
pub use reference::reference;
pub use schema::schema;
pub use values::{ExportFormat, NodeRef, PerRank, RankChoice, Sizes, SlotCondition, Target};
pub use write::write_topology;

use crate::span::{Span, Spanned};
use crate::topology::spec::TopologySpec;
use read::{Reader, Value};
use tables::JobTable;

/// Reads a job file. `file_name` is how the user calls it (`-` for standard input).
///
/// # Errors
/// Everything that is wrong, in the order of the text, with places; at most 50 findings and one that counts the rest.
pub fn parse_job(file_name: &str, text: &str) -> Result<Job, Vec<Diagnostic>> {
    let mut reader = Reader::new(file_name);
    let job = read(&mut reader, text).and_then(Result::ok);
    let failed = reader.failed();
    let (diagnostics, defaults) = reader.finish();
    match job {
        Some(job) if !failed => Ok(Job { defaults, ..job }),
        _ => Err(diagnostics),
    }
}

/// As [`parse_job`], for bytes that may be no text.
///
/// # Errors
/// As [`parse_job`].
pub fn parse_job_bytes(file_name: &str, bytes: &[u8]) -> Result<Job, Vec<Diagnostic>> {
    parse_job(file_name, text_of(file_name, bytes)?)
}

/// Reads a file of which only the topology is wanted: one without `[collective]`, as `rondo topology import` writes it, or a
/// whole job, all of which must be right.
///
/// # Errors
/// As [`parse_job`].
pub fn parse_topology_bytes(file_name: &str, bytes: &[u8]) -> Result<TopologySpec, Vec<Diagnostic>> {
    let text = text_of(file_name, bytes)?;
    let mut reader = Reader::for_topology(file_name);
    let topology = match read(&mut reader, text) {
        Some(Ok(job)) => Some(job.topology),
        Some(Err(topology)) => topology.map(|topology| *topology),
        None => None,
    };
    let failed = reader.failed();
    match topology {
        Some(topology) if !failed => Ok(topology),
        _ => Err(reader.finish().0),
    }
}

fn text_of<'a>(file_name: &str, bytes: &'a [u8]) -> Result<&'a str, Vec<Diagnostic>> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let byte = bytes.get(at).copied().unwrap_or_default();
        let line = bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        vec![
            Diagnostic::error("J014", format!("`{file_name}` is no text: byte {at} (line {line}) is 0x{byte:02x}"))
                .at(file_name, at..at, "not UTF-8")
                .note("a job file is TOML, written in UTF-8")
                .help("check that this is the right file; if it is in another encoding, save it as UTF-8"),
        ]
    })
}

/// Syntax errors that are told one by one.
const SYNTAX_ERRORS: usize = 5;

/// The job, or its topology if that is all that can be read.
fn read(reader: &mut Reader<'_>, text: &str) -> Option<Result<Job, Option<Box<TopologySpec>>>> {
    let whole = Span { start: 0, end: text.lines().next().map_or(0, str::len) };
    let is_empty = text
        .trim_start_matches('\u{feff}')
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_empty {
        reader
            .error("J015", Span::default(), format!("`{}` is empty", reader.file()), "nothing here")
            .help
            .push("a job needs at least [topology] and [collective]".to_owned());
        return None;
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    // Line breaks: what the parser makes of a line with a syntax error is not worth a message of its own.
    let mut wrong_lines = Vec::new();
    // One mistake often makes many of the lines after it unreadable.
    for error in errors.iter().take(SYNTAX_ERRORS) {
        let span = error.span().map_or(whole, Span::from);
        let start = span.start.min(text.len());
        if wrong_lines.last().is_none_or(|&(_, end)| end <= start) {
            let begin = text.as_bytes()[..start].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
            let end = text.as_bytes()[start..].iter().position(|&b| b == b'\n').map_or(text.len(), |at| start + at);
            wrong_lines.push((begin, end));
        }
        syntax(reader, span, error.message(), text);
    }
    if SYNTAX_ERRORS < errors.len() {
        let rest = errors.len() - SYNTAX_ERRORS;
        let start = errors[SYNTAX_ERRORS].span().map_or(0, |span| span.start).min(text.len());
        let start = (0..=start).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let next = Span { start, end: start };
        let finding = reader.error("J099", next, format!("{rest} more places are no TOML"), "the next one");
        finding.help.push("mend the first ones and run again".to_owned());
        return None;
    }
    if !errors.is_empty() {
        reader.set_unreadable(wrong_lines);
    }
    let table = reader.open_table(JobTable::TABLE, "", whole, document.get_ref());
    let job = JobTable::read_open(reader, &table);
    Some(options::check(reader, job))
}

fn syntax(reader: &mut Reader<'_>, span: Span, message: &str, text: &str) {
    // A span may begin at the end of the text or within a letter; reports cut the text there.
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let span = Span { start, end };
    if message.contains("duplicate key") {
        let key = suggest::shorten(text.get(start..end).unwrap_or_default());
        reader
            .error("J002", span, format!("`{key}` is given twice"), "the second")
            .help
            .push("delete one of the two; entries of a list are written with [[double]] brackets".to_owned());
        return;
    }
    let marked = text.get(start..end).unwrap_or_default();
    let bare = message.contains("must be quoted") && !marked.is_empty() && !marked.contains(['"', '\'', '\n', '\\']);
    let diagnostic = reader.error("J001", span, format!("this is no TOML: {message}"), "not understood");
    diagnostic.help.push(if bare {
        format!("write it in quotes: \"{}\"", suggest::shorten(marked))
    } else {
        "texts and quantities stand in \"quotes\", a section begins with [name], a key with key = value".to_owned()
    });
}

/// The value without its place.
fn plain<T>(value: Option<Spanned<T>>) -> Option<T> {
    value.map(|given| given.value)
}

/// Keys of all tables, as `section.key`, with an example value in TOML and the values of the tag for which the key makes
/// sense (none: all). For tests and tools.
#[must_use]
pub fn keys() -> Vec<(String, &'static str, &'static [&'static str])> {
    fn walk(shape: &describe::Shape, path: &str, keys: &mut Vec<(String, &'static str, &'static [&'static str])>) {
        match shape {
            describe::Shape::Table(info) => {
                for field in info.fields {
                    let path = if path.is_empty() { field.key.to_owned() } else { format!("{path}.{}", field.key) };
                    keys.push((path.clone(), field.example, field.only));
                    walk(&(field.shape)(), &path, keys);
                }
            }
            describe::Shape::List(item) | describe::Shape::Pair(item) => walk(item, path, keys),
            describe::Shape::OneOf(shapes) => {
                // One table or a list of them: the same keys.
                let table = shapes.iter().find(|shape| matches!(shape, describe::Shape::Table(_)));
                if let Some(table) = table {
                    walk(table, path, keys);
                }
            }
            _ => {}
        }
    }
    let mut keys = Vec::new();
    walk(&JobTable::shape(), "", &mut keys);
    keys
}
