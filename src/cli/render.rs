//! The only printer of diagnostics and results.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use rondo_ir::diagnostic::{Diagnostic, Severity};
use serde_json::{Value, json};

use super::args::ColorChoice;

/// At most this many diagnostics are printed one by one.
const SHOWN: usize = 50;

/// Source texts by the name that labels use.
pub type Sources = BTreeMap<String, String>;

/// Prints diagnostics on standard error, and keeps them where a report in JSON may need them.
pub struct Printer {
    renderer: Renderer,
    kept: Option<RefCell<Vec<Value>>>,
}

impl Printer {
    /// A printer for the choice of colour; `keeps` what it prints, or not.
    #[must_use]
    pub fn new(choice: ColorChoice, keeps: bool) -> Self {
        let colour = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self {
            renderer: if colour { Renderer::styled() } else { Renderer::plain() },
            kept: keeps.then(RefCell::default),
        }
    }

    /// What was printed so far, with lines and columns, if it is kept.
    pub fn kept(&self) -> Vec<Value> {
        self.kept.as_ref().map_or_else(Vec::new, |kept| kept.borrow().clone())
    }

    /// Prints them in order. Nobody listening is no error.
    pub fn diagnostics(&self, diagnostics: &[Diagnostic], sources: &Sources) {
        if let Some(kept) = &self.kept {
            kept.borrow_mut().extend(diagnostics.iter().take(SHOWN).map(|diagnostic| located(diagnostic, sources)));
        }
        let mut text = String::new();
        for diagnostic in diagnostics.iter().take(SHOWN) {
            text.push_str(&self.one(diagnostic, sources));
            text.push_str("\n\n");
        }
        if SHOWN < diagnostics.len() {
            text.push_str(&format!("… and {} more\n", diagnostics.len() - SHOWN));
        }
        // It has colours; `one` made visible what came from outside.
        self.write(&text);
    }

    /// Prints a text on standard error, without what a terminal would obey. Nobody listening is no error.
    pub fn text(&self, text: &str) {
        self.write(&visible(text));
    }

    fn write(&self, text: &str) {
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// One diagnostic as text.
    #[must_use]
    pub fn one(&self, diagnostic: &Diagnostic, sources: &Sources) -> String {
        let shown = Diagnostic {
            message: visible(&diagnostic.message).into_owned(),
            notes: diagnostic.notes.iter().map(|note| visible(note).into_owned()).collect(),
            help: diagnostic.help.iter().map(|help| visible(help).into_owned()).collect(),
            ..diagnostic.clone()
        };
        let diagnostic = &shown;
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let mut group = level
            .primary_title(diagnostic.message.as_str())
            .id(diagnostic.code)
            .elements(Vec::<Snippet<'_, annotate_snippets::Annotation<'_>>>::new());
        let windows: Vec<_> = diagnostic.labels.iter().map(|label| window(label, sources)).collect();
        for (index, (label, part)) in diagnostic.labels.iter().zip(&windows).enumerate() {
            let Some(Window { text, first_line, start, end }) = part else {
                let place = format!("in {}", visible(&label.file));
                group = group.element(Level::NOTE.message(place));
                continue;
            };
            let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            let annotation = kind.span(*start..*end).label(visible(&label.text).into_owned());
            group = group.element(
                Snippet::source(text.as_str())
                    .line_start(*first_line)
                    .path(visible(&label.file).into_owned())
                    .annotation(annotation),
            );
        }
        for note in &diagnostic.notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        for help in &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        self.renderer.render(&[group])
    }
}

/// Line and column of a byte of a text, both from 1.
#[must_use]
pub fn line_and_column(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let column = 1 + before.iter().rev().take_while(|&&byte| byte != b'\n').count();
    (line, column)
}

/// A diagnostic as JSON: its places with line and column where the text is known, the main one also on its own.
#[must_use]
pub fn located(diagnostic: &Diagnostic, sources: &Sources) -> Value {
    let places: Vec<_> = diagnostic
        .labels
        .iter()
        .map(|label| {
            let at = sources.get(&label.file).map(|text| line_and_column(text.as_bytes(), label.start));
            json!({ "file": label.file, "line": at.map(|at| at.0), "column": at.map(|at| at.1), "text": label.text })
        })
        .collect();
    let main = |key: &str| places.first().map_or(Value::Null, |place| place[key].clone());
    json!({
        "code": diagnostic.code, "severity": diagnostic.severity, "message": diagnostic.message,
        "file": main("file"), "line": main("line"), "column": main("column"), "places": places,
        "notes": diagnostic.notes, "help": diagnostic.help,
    })
}

/// Text that a terminal shows and does not obey: control characters of file contents and names become visible.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && c != '\n';
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// The lines around a label, so that a line of a megabyte or a file of a gigabyte prints as little.
struct Window {
    text: String,
    first_line: usize,
    start: usize,
    end: usize,
}

/// Longest excerpt of a line, in bytes.
const LINE_LIMIT: usize = 200;

fn window(label: &rondo_ir::diagnostic::Label, sources: &Sources) -> Option<Window> {
    let source = sources.get(&label.file)?;
    let floor = |mut at: usize| {
        at = at.min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (start, end) = (floor(label.start), floor(label.end.max(label.start)));
    let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = source[start..].find('\n').map_or(source.len(), |at| start + at);
    let from = if LINE_LIMIT < start - line_start { floor(start - LINE_LIMIT / 2) } else { line_start };
    let until = floor(line_end.min(from + 2 * LINE_LIMIT));
    let end = end.clamp(start, until.max(start));
    let first_line = 1 + source[..line_start].bytes().filter(|&b| b == b'\n').count();
    let text = source[from..until].replace('\t', " ");
    Some(Window { start: start - from, end: end - from, text, first_line })
}
