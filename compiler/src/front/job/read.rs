//! Reads TOML values into described types, and collects what is wrong with them.

use std::collections::BTreeMap;

use rondo_ir::diagnostic::{Diagnostic, Severity};
use toml::de::{DeTable, DeValue};

use super::describe::{Default, Field, Need, Shape, TableInfo};
use super::suggest;
use crate::span::{Span, Spanned};

/// How many findings are kept before the rest is only counted.
pub(super) const LIMIT: usize = 50;

/// A value of a job file.
pub trait Value: Sized {
    /// What it looks like.
    fn shape() -> Shape;

    /// Reads it; where it is wrong, reports that and gives `None`. `path` is how messages call it.
    fn read(reader: &mut Reader<'_>, path: &str, value: &toml::Spanned<DeValue<'_>>) -> Option<Self>;
}

/// A default that was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultUsed {
    /// The key: `cost.startup`.
    pub key: String,
    /// The value, as it would stand in the file.
    pub value: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether it is a parameter of the cost model.
    pub prices: bool,
}

/// `cost.startup = "0 s" (default: …)`
impl std::fmt::Display for DefaultUsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {} (default: {})", self.key, self.value, self.source)
    }
}

/// Collects findings while a file is read.
pub struct Reader<'a> {
    file: &'a str,
    diagnostics: Vec<Diagnostic>,
    /// Where findings go that are not reported.
    scratch: Diagnostic,
    dropped: usize,
    defaults: Vec<DefaultUsed>,
    /// Lines with syntax errors, from and to, in order.
    unreadable: Vec<(usize, usize)>,
    /// Whether a file without a collective will do.
    topology_only: bool,
}

/// A table that is being read.
pub struct Open<'v, 'i> {
    info: &'static TableInfo,
    path: String,
    span: Span,
    variant: Option<String>,
    table: &'v DeTable<'i>,
    /// Keys that misspelt ones were probably meant to be: they are not reported as missing too.
    meant: Vec<&'static str>,
}

/// Where a TOML value stands.
pub(super) fn span_of<T>(value: &toml::Spanned<T>) -> Span {
    value.span().into()
}

/// What a TOML value is, in words.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            file,
            diagnostics: Vec::new(),
            scratch: Diagnostic::error("J001", ""),
            dropped: 0,
            defaults: Vec::new(),
            unreadable: Vec::new(),
            topology_only: false,
        }
    }

    /// A reader of a file that need not hold more than a topology.
    pub(super) fn for_topology(file: &'a str) -> Self {
        Self { topology_only: true, ..Self::new(file) }
    }

    /// Says that these lines (from, to; in order) could not be parsed: what seems to be missing may only be unreadable,
    /// and what the parser makes of those lines is not reported.
    pub(super) fn set_unreadable(&mut self, lines: Vec<(usize, usize)>) {
        self.unreadable = lines;
    }

    fn is_unreadable(&self, span: Span) -> bool {
        let at = self.unreadable.partition_point(|&(_, end)| end < span.start);
        self.unreadable.get(at).is_some_and(|&(start, _)| start < span.end)
    }

    /// How the user calls the file.
    pub(super) fn file(&self) -> &'a str {
        self.file
    }

    /// Reports an error at a place; `text` stands under the marked piece.
    pub(super) fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        text: impl Into<String>,
    ) -> &mut Diagnostic {
        let diagnostic = Diagnostic::error(code, message).at(self.file, span.range(), text);
        if self.is_unreadable(span) {
            self.scratch = diagnostic;
            return &mut self.scratch;
        }
        // Once there is more than anybody reads, the rest is only counted: memory stays bounded.
        if self.is_full() {
            self.dropped += 1;
            self.scratch = diagnostic;
            return &mut self.scratch;
        }
        self.diagnostics.push(diagnostic);
        let last = self.diagnostics.len() - 1;
        &mut self.diagnostics[last]
    }

    /// Whether further findings are only counted, so that nobody need look for what was meant.
    pub(super) fn is_full(&self) -> bool {
        4 * LIMIT <= self.diagnostics.len()
    }

    /// Whether an error was reported.
    pub(super) fn failed(&self) -> bool {
        self.dropped > 0 || self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// What was found, in the order of the text and cut to [`LIMIT`], and the defaults that were used.
    pub(super) fn finish(mut self) -> (Vec<Diagnostic>, Vec<DefaultUsed>) {
        self.diagnostics.sort_by_key(|d| d.labels.first().map_or(0, |label| label.start));
        let more = self.dropped + self.diagnostics.len().saturating_sub(LIMIT);
        self.diagnostics.truncate(LIMIT);
        if more > 0 {
            self.diagnostics.push(
                Diagnostic::error("J099", format!("… and {more} more errors in `{}`", self.file))
                    .help("correct those above and try again"),
            );
        }
        (self.diagnostics, self.defaults)
    }

    /// Opens a table: reports keys that it cannot have.
    pub(crate) fn open<'v, 'i>(
        &mut self,
        info: &'static TableInfo,
        path: &str,
        value: &'v toml::Spanned<DeValue<'i>>,
    ) -> Option<Open<'v, 'i>> {
        let DeValue::Table(table) = value.get_ref() else {
            self.error(
                "J006",
                span_of(value),
                format!("`{path}` is {}, but must be a table", type_name(value.get_ref())),
                "must be a table",
            )
            .help
            .push(format!("write it as {} with its keys below, or as `{{ key = value, … }}`", header(path)));
            return None;
        };
        Some(self.open_table(info, path, span_of(value), table))
    }

    /// As [`Self::open`] for what is known to be a table.
    pub(super) fn open_table<'v, 'i>(
        &mut self,
        info: &'static TableInfo,
        path: &str,
        span: Span,
        table: &'v DeTable<'i>,
    ) -> Open<'v, 'i> {
        let text_of = |key: &str| table.get(key).and_then(|v| v.get_ref().as_str()).map(str::to_owned);
        let variant = info.tag.as_ref().and_then(|tag| {
            text_of(tag.key)
                .or_else(|| {
                    let implied = tag.implied_by.iter().find(|(key, _)| table.contains_key(*key));
                    implied.filter(|_| !table.contains_key(tag.key)).map(|(_, variant)| (*variant).to_owned())
                })
                .or_else(|| tag.default.filter(|_| !table.contains_key(tag.key)).map(str::to_owned))
        });
        // A word that the tag does not know says nothing about the other keys.
        let variant = variant.filter(|variant| known_variants(info).contains(&variant.as_str()));
        let mut open = Open { info, path: path.to_owned(), span, variant, table, meant: Vec::new() };
        open.meant = self.check_keys(&open);
        open
    }

    /// Reports keys that the table cannot have; gives those that were probably meant.
    fn check_keys(&mut self, open: &Open<'_, '_>) -> Vec<&'static str> {
        let mut meant = Vec::new();
        let variant = open.variant.as_deref();
        let mut keys: BTreeMap<usize, &toml::Spanned<_>> = BTreeMap::new();
        for key in open.table.keys() {
            keys.insert(key.span().start, key);
        }
        for key in keys.into_values() {
            let name: &str = key.get_ref().as_ref();
            let field = open.info.fields.iter().find(|field| field.key == name);
            match field {
                Some(field) if field.applies_to(variant) => {}
                Some(field) => self.misplaced_key(open, field, span_of(key)),
                None => meant.extend(self.unknown_key(open, name, span_of(key))),
            }
        }
        meant
    }

    fn misplaced_key(&mut self, open: &Open<'_, '_>, field: &Field, span: Span) {
        let (Some(tag), Some(variant)) = (&open.info.tag, &open.variant) else { return };
        let here: Vec<&str> = keys_for(open.info, Some(variant));
        let nearest = suggest::nearest(field.key, here.iter().copied().filter(|key| *key != field.key));
        let diagnostic = self.error(
            "J005",
            span,
            format!("`{}` means nothing for {} = \"{variant}\"", field.key, tag.key),
            format!("belongs to {}", suggest::list(field.only)),
        );
        if let Some(nearest) = nearest {
            diagnostic.help.push(format!("did you mean `{nearest}`?"));
        }
        diagnostic.help.push(format!("keys of {} = \"{variant}\": {}", tag.key, here.join(", ")));
    }

    fn unknown_key(&mut self, open: &Open<'_, '_>, name: &str, span: Span) -> Option<&'static str> {
        let at = if open.path.is_empty() { "a job file".to_owned() } else { header(&open.path) };
        let reserved = super::tables::RESERVED.iter().find(|(key, _)| open.path.is_empty() && *key == name);
        if let Some((key, reason)) = reserved {
            self.error("J007", span, format!("this version does not read `[{key}]`"), *reason)
                .help
                .push(format!("delete `[{key}]` and what belongs to it"));
            return None;
        }
        if self.is_full() {
            self.error("J003", span, "", "");
            return None;
        }
        let known = keys_for(open.info, open.variant.as_deref());
        let nearest = suggest::nearest(name, known.iter().copied());
        let shown = suggest::shorten(name);
        let text = nearest.map_or_else(|| "unknown key".to_owned(), |key| format!("did you mean `{key}`?"));
        let diagnostic = self.error("J003", span, format!("unknown key `{shown}` in {at}"), text);
        diagnostic.help.push(match nearest {
            Some(key) => format!("write `{key}`; all keys here: {}", known.join(", ")),
            None => format!("keys here: {}", known.join(", ")),
        });
        nearest
    }

    /// Reads a key of an open table: its value, else its default, else nothing; reports a missing key.
    pub(crate) fn field<T: Value>(&mut self, open: &Open<'_, '_>, key: &str) -> Option<Spanned<T>> {
        let field = open.info.fields.iter().find(|field| field.key == key)?;
        let path = if open.path.is_empty() { key.to_owned() } else { format!("{}.{key}", open.path) };
        let variant = open.variant.as_deref();
        if let Some(value) = open.table.get(key) {
            if !field.applies_to(variant) {
                return None;
            }
            let read = T::read(self, &path, value)?;
            return Some(Spanned::new(read, span_of(value)));
        }
        // The tag itself is not missed where something else implies it.
        let implied = variant.is_some() && open.info.tag.as_ref().is_some_and(|tag| tag.key == key);
        if field.is_needed_for(variant) && !implied {
            self.missing(open, field);
            return None;
        }
        let default = field.default.filter(|_| field.applies_to(variant))?;
        let holds = |only: &[&str]| only.is_empty() || variant.is_some_and(|variant| only.contains(&variant));
        if !holds(field.only) || !holds(default.only) {
            return None;
        }
        let value = DeValue::parse(default.value).ok()?;
        let read = T::read(self, &path, &value)?;
        // The entries of a list share one line: `topology.link.both`.
        let listed = path.contains('[');
        let key = if listed { without_indices(&path) } else { path };
        if default.value != "{}" && (!listed || self.defaults.iter().all(|used| used.key != key)) {
            let Default { value, source, prices, only: _ } = default;
            self.defaults.push(DefaultUsed { key, value, source, prices });
        }
        Some(Spanned::nowhere(read))
    }

    /// Notes a default of the cost model that no single key declares; once for each key.
    pub(super) fn use_default(&mut self, key: &str, value: &'static str, source: &'static str) {
        if self.defaults.iter().all(|used| used.key != key) {
            self.defaults.push(DefaultUsed { key: key.to_owned(), value, source, prices: true });
        }
    }

    /// Reports a collective without any size.
    pub(super) fn missing_size(&mut self, section: Span) {
        if self.unreadable.is_empty() && !self.failed_in(section, "_size") {
            self.error("J013", section, "`[collective]` has no size", "missing here").help.push(
                "add buffer_size = \"1 MiB\" (the larger of a rank's buffers), or block_size = \"128 KiB\" (the part for one peer)"
                    .to_owned(),
            );
        }
    }

    /// Whether an error within `section` already speaks of a key that ends like that.
    fn failed_in(&self, section: Span, key: &str) -> bool {
        self.diagnostics.iter().flat_map(|d| d.labels.first().map(|label| (d, label))).any(|(diagnostic, label)| {
            section.start <= label.start && (diagnostic.message.contains(key) || label.text.contains(key))
        })
    }

    fn missing(&mut self, open: &Open<'_, '_>, field: &Field) {
        if !self.unreadable.is_empty() || open.meant.contains(&field.key) {
            return;
        }
        let is_section = matches!((field.shape)(), Shape::Table(_)) && open.path.is_empty();
        let key = field.key;
        if is_section && self.topology_only && key == "collective" {
            return;
        }
        let (what, write) = if is_section {
            (format!("the job has no `[{key}]`"), format!("add `[{key}]` with its keys; {}", first_sentence(field.doc)))
        } else {
            let for_variant = match (&open.info.tag, &open.variant, field.need) {
                (Some(tag), Some(variant), Need::RequiredFor(_)) if tag.key != key => {
                    format!(" for {} = \"{variant}\"", tag.key)
                }
                _ => String::new(),
            };
            let message = format!("{} has no `{key}`, which is needed{for_variant}", header(&open.path));
            (message, format!("add for example: {key} = {}", field.example))
        };
        self.error("J004", open.span, what, "missing here").help.push(write);
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong_type(&mut self, path: &str, value: &toml::Spanned<DeValue<'_>>, needed: &str, example: &str) {
        let found = type_name(value.get_ref());
        self.error(
            "J006",
            span_of(value),
            format!("`{path}` is {found}, but must be {needed}"),
            format!("must be {needed}"),
        )
        .help
        .push(format!("write for example {example}"));
    }
}

/// `[topology]`, or `topology.link[0]` for the entry of a list.
fn header(path: &str) -> String {
    if path.contains('[') { format!("`{path}`") } else { format!("`[{path}]`") }
}

fn without_indices(path: &str) -> String {
    path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

fn first_sentence(doc: &str) -> String {
    let text = super::describe::paragraphs(doc).into_iter().next().unwrap_or_default();
    let text = text.strip_suffix('.').unwrap_or(&text).to_owned();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn known_variants(info: &TableInfo) -> Vec<&'static str> {
    let tag = info.tag.as_ref().and_then(|tag| info.fields.iter().find(|field| field.key == tag.key));
    match tag.map(|field| (field.shape)()) {
        Some(Shape::Words(words)) => words.into_iter().map(|(word, _)| word).collect(),
        _ => Vec::new(),
    }
}

fn keys_for(info: &TableInfo, variant: Option<&str>) -> Vec<&'static str> {
    info.fields.iter().filter(|field| field.applies_to(variant)).map(|field| field.key).collect()
}
