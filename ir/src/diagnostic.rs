//! Diagnostics: what every crate reports and only the command line prints.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not meant.
    Warning,
    /// Wrong.
    Error,
}

/// A piece of a named source text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Label {
    /// File as the user named it (`-` for standard input).
    pub file: String,
    /// Byte offset at which it starts.
    pub start: usize,
    /// Byte offset at which it ends.
    pub end: usize,
    /// What is to be said at this place; may be empty.
    pub text: String,
}

/// One finding for a person, with a code that `rondo explain` knows.
///
/// `message` is one line: what is wrong, with the user's own names and values, lower case, no full stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Diagnostic {
    /// `T012`, `J003`, …: the letter names the crate or area.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// Where; the first one is the main place. Empty where there is no text.
    pub labels: Vec<Label>,
    /// Why it matters.
    pub notes: Vec<String>,
    /// What to do or type.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error without places.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            labels: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A warning without places.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// The same with a place.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, span: std::ops::Range<usize>, text: impl Into<String>) -> Self {
        self.labels.push(Label { file: file.into(), start: span.start, end: span.end, text: text.into() });
        self
    }

    /// The same with a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same with a help line.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}

/// An entry of the registry behind `rondo explain CODE`. Each crate has a table `CODES` of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeEntry {
    /// The code.
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// A paragraph or two: what it means, why it matters, what to do.
    pub explanation: &'static str,
}
