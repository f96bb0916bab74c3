//! The reader below [`parse`](super::parse): elements, attributes and comments, as the runtimes read them.
//!
//! Accepted: elements with attributes in double quotes, comments between elements, blanks and line breaks between elements.
//! Everything else is refused by name. Entities stay as they are written.

use std::ops::Range;

use rondo_ir::program::SourceSpan;

/// Attributes that the runtimes keep of an element; a surplus blank takes the room of one.
const ATTRIBUTE_SLOTS: usize = 16;
/// Longest name and value that fit the runtimes' buffers.
const LONGEST: usize = 255;

/// Why the text is not of the accepted subset.
#[derive(Debug)]
pub(super) struct Fault {
    pub code: &'static str,
    pub span: Range<usize>,
    pub message: String,
    pub help: &'static str,
}

/// One attribute, where its value stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute<'a> {
    pub name: &'a str,
    pub value: &'a str,
    /// Offset of the value.
    pub start: usize,
}

impl Attribute<'_> {
    pub fn span(&self) -> Range<usize> {
        self.start..self.start + self.value.len()
    }
}

/// An opening tag; its attributes are in [`Scanner::attributes`].
#[derive(Clone, Debug)]
pub(super) struct Tag<'a> {
    pub name: &'a str,
    pub span: Range<usize>,
    pub line: u32,
    pub column: u32,
    /// `<a/>`.
    pub closed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Event<'a> {
    Open(Tag<'a>),
    Close(&'a str, Range<usize>),
    End,
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    attributes: Vec<Attribute<'a>>,
    /// Spans of attributes that no runtime keeps.
    pub dropped: Vec<Range<usize>>,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            line_start: 0,
            attributes: Vec::with_capacity(ATTRIBUTE_SLOTS),
            dropped: Vec::new(),
        }
    }

    /// Attributes of the last opening tag.
    pub fn attributes(&self) -> &[Attribute<'a>] {
        &self.attributes
    }

    /// Where in the text the tag with this place begins; its first byte.
    pub fn offset(&self, span: SourceSpan) -> Range<usize> {
        let lines = span.line.saturating_sub(1) as usize;
        let start: usize = self.text.split_inclusive('\n').take(lines).map(str::len).sum();
        let at = start + span.column.saturating_sub(1) as usize;
        at..(at + 1).min(self.text.len())
    }

    /// The next tag, or the end of the text.
    pub fn next(&mut self) -> Result<Event<'a>, Fault> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                None => return Ok(Event::End),
                Some(b' ' | b'\r') => self.at += 1,
                Some(b'\n') => self.line_break(),
                Some(b'<') => match bytes.get(self.at + 1) {
                    Some(b'!') => self.comment()?,
                    Some(b'?') => {
                        return Err(self.refuse(
                            "B020",
                            2,
                            "an XML prolog",
                            "delete this line: the runtimes cannot read it",
                        ));
                    }
                    Some(b'/') => return self.close(),
                    Some(_) => return self.open(),
                    None => return Err(self.fault("B029", self.at..self.at + 1, "the file ends inside a tag", "")),
                },
                Some(b'\t') => {
                    return Err(self.refuse(
                        "B021",
                        1,
                        "a tab between elements",
                        "indent with blanks: the runtimes stop at tabs",
                    ));
                }
                Some(_) => {
                    let length = self.text[self.at..].chars().next().map_or(1, char::len_utf8);
                    return Err(self.refuse(
                        "B024",
                        length,
                        "text between elements",
                        "only elements and comments may stand here",
                    ));
                }
            }
        }
    }

    fn line_break(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    fn fault(&self, code: &'static str, span: Range<usize>, message: impl Into<String>, help: &'static str) -> Fault {
        Fault { code, span: span.start..span.end.min(self.text.len()), message: message.into(), help }
    }

    fn refuse(&self, code: &'static str, length: usize, what: &str, help: &'static str) -> Fault {
        self.fault(code, self.at..self.at + length, format!("{what} is not part of what the runtimes read"), help)
    }

    fn comment(&mut self) -> Result<(), Fault> {
        let rest = &self.text[self.at..];
        let Some(body) = rest.strip_prefix("<!--") else {
            let what = if rest.starts_with("<!DOCTYPE") {
                "a DOCTYPE"
            } else if rest.starts_with("<![CDATA[") {
                "a CDATA section"
            } else {
                "a declaration"
            };
            return Err(self.refuse("B022", 2, what, "delete it; the runtimes read elements and comments only"));
        };
        let Some(length) = body.find("-->") else {
            return Err(self.fault("B029", self.at..self.at + 4, "the comment is never closed", "close it with `-->`"));
        };
        let body = &body[..length];
        let first = body.split_ascii_whitespace().next().unwrap_or("");
        if first.contains('=') {
            return Err(self.refuse(
                "B023",
                4 + length,
                "a comment whose first word holds `=`",
                "begin the comment with another word: the runtimes stop at this one",
            ));
        }
        for (offset, byte) in body.bytes().enumerate() {
            if byte == b'\n' {
                self.line = self.line.saturating_add(1);
                self.line_start = self.at + 4 + offset + 1;
            }
        }
        self.at += 4 + length + 3;
        Ok(())
    }

    fn close(&mut self) -> Result<Event<'a>, Fault> {
        let start = self.at;
        let from = start + 2;
        let name = self.name(from);
        let end = from + name.len();
        if name.is_empty() || self.text.as_bytes().get(end) != Some(&b'>') {
            return Err(self.fault("B028", start..end + 1, "a closing tag is not finished", "write it as `</name>`"));
        }
        self.at = end + 1;
        Ok(Event::Close(name, start..end + 1))
    }

    /// The longest run of characters that a name may have.
    fn name(&self, from: usize) -> &'a str {
        let rest = &self.text[from..];
        let ends = |b: &u8| matches!(b, b' ' | b'/' | b'>' | b'=' | b'"' | b'<' | b'\n' | b'\r' | b'\t');
        let length = rest.as_bytes().iter().position(ends).unwrap_or(rest.len());
        &rest[..length]
    }

    fn open(&mut self) -> Result<Event<'a>, Fault> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let (line, line_start) = (self.line, self.line_start);
        let name = self.name(start + 1);
        if name.is_empty() || LONGEST < name.len() {
            return Err(self.fault(
                if name.is_empty() { "B028" } else { "B027" },
                start..start + 1,
                "an element has no name, or one above 255 characters",
                "",
            ));
        }
        let mut at = start + 1 + name.len();
        self.attributes.clear();
        let mut slots = 0;
        let closed = loop {
            match bytes.get(at) {
                Some(b'>') => break false,
                Some(b'/') if bytes.get(at + 1) == Some(&b'>') => {
                    at += 1;
                    break true;
                }
                Some(b' ') => {
                    at += 1;
                    match bytes.get(at) {
                        // A blank before the end is free; a surplus one takes the room of an attribute.
                        Some(b'>' | b'/') => continue,
                        Some(b' ') => {
                            slots += 1;
                            continue;
                        }
                        _ => {}
                    }
                }
                Some(b'\n' | b'\r' | b'\t') => {
                    let help = "write the whole tag on one line, with one blank between attributes";
                    return Err(self.fault(
                        "B025",
                        at..at + 1,
                        "a line break or tab inside a tag is not part of what the runtimes read",
                        help,
                    ));
                }
                None => return Err(self.fault("B029", start..at, format!("the file ends inside `<{name}`"), "")),
                Some(_) => {
                    let length = self.text[at..].chars().next().map_or(1, char::len_utf8);
                    return Err(self.fault("B028", at..at + length, "a blank or `>` is missing here", ""));
                }
            }
            let key = self.name(at);
            let value_start = at + key.len() + 2;
            match (bytes.get(at + key.len()), bytes.get(at + key.len() + 1)) {
                (Some(b'='), Some(b'"')) if !key.is_empty() && key.len() <= LONGEST => {}
                (Some(b'='), Some(b'\'')) => {
                    let help = "use double quotes: the runtimes read on until the next one";
                    return Err(self.fault("B026", at..value_start, "a value in single quotes", help));
                }
                _ => {
                    let end = (at + key.len()).max(at + 1);
                    let end = (end..=self.text.len()).find(|&end| self.text.is_char_boundary(end)).unwrap_or(at);
                    return Err(self.fault("B028", at..end, "an attribute is not written as name=\"value\"", ""));
                }
            }
            let rest = &bytes[value_start..];
            let Some(length) = rest.iter().position(|&b| b == b'"') else {
                return Err(self.fault("B029", at..value_start, "a value is never closed", "close it with `\"`"));
            };
            let value = &self.text[value_start..value_start + length];
            if LONGEST < length || value.contains(['\n', '\r']) {
                let (code, message) = if LONGEST < length {
                    ("B027", "a value has more than 255 characters")
                } else {
                    ("B025", "a value has a line break")
                };
                return Err(self.fault(code, at..value_start, message, "is a `\"` missing?"));
            }
            at = value_start + length + 1;
            if slots < ATTRIBUTE_SLOTS {
                self.attributes.push(Attribute { name: key, value, start: value_start });
            } else if self.dropped.len() < 16 {
                self.dropped.push(value_start..value_start + length);
            }
            slots += 1;
        };
        self.at = at + 1;
        let column = u32::try_from(start - line_start + 1).unwrap_or(u32::MAX);
        Ok(Event::Open(Tag { name, span: start..at + 1, line, column, closed }))
    }
}
