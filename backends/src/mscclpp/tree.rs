//! JSON with the place of every value.
//!
//! serde_json decides what is well formed (and bounds the nesting); what it accepted is then cut into values that remember
//! their bytes. Memory is proportional to the text: nothing is allocated from a number that the text claims.

use std::ops::Range;

use serde::de::IgnoredAny;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// A value. Numbers keep their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number,
    Text(String),
    List(Vec<Tree>),
    /// Keys in the order of the text, with their places.
    Object(Vec<(String, Range<usize>, Tree)>),
}

/// Where and why a text is no JSON.
#[derive(Debug)]
pub(super) struct NoJson {
    pub(super) message: String,
    pub(super) at: usize,
    /// The text ends too early.
    pub(super) cut: bool,
}

impl Tree {
    /// What it is, in words.
    pub(super) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a truth value",
            Value::Number => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// Reads a text.
pub(super) fn read(text: &str) -> Result<Tree, NoJson> {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        let full = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let start = match error.line() {
            0 | 1 => 0,
            line => {
                text.bytes().enumerate().filter(|(_, b)| *b == b'\n').nth(line - 2).map_or(text.len(), |(i, _)| i + 1)
            }
        };
        let message = full.strip_suffix(&place).unwrap_or(&full).to_owned();
        let mut at = (start + error.column().saturating_sub(1)).min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        return Err(NoJson { message, at, cut: error.is_eof() });
    }
    let mut cursor = Cursor { text, at: 0 };
    let tree = cursor.value();
    Ok(tree)
}

/// Walks over text that is known to be well formed; on any other text it stops early, but never panics.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Depth is bounded: serde_json refused the text otherwise.
    fn value(&mut self) -> Tree {
        let first = self.peek();
        let start = self.at;
        let value = match first {
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                while self.peek() == b'"' {
                    let from = self.at;
                    let key = self.string();
                    let span = from..self.at;
                    if self.peek() == b':' {
                        self.at += 1;
                    }
                    members.push((key, span, self.value()));
                    if self.peek() == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Value::Object(members)
            }
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while !matches!(self.peek(), b']' | 0) {
                    items.push(self.value());
                    if self.peek() == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Value::List(items)
            }
            b'"' => Value::Text(self.string()),
            _ => {
                let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b']' | b'}' | b':');
                let rest = &self.text.as_bytes()[self.at..];
                self.at += rest.iter().position(ends).unwrap_or(rest.len()).max(1);
                self.at = self.at.min(self.text.len());
                match self.text.get(start..self.at) {
                    Some("true") => Value::Bool(true),
                    Some("false") => Value::Bool(false),
                    Some("null") => Value::Null,
                    _ => Value::Number,
                }
            }
        };
        Tree { span: start..self.at.min(self.text.len()), value }
    }

    fn string(&mut self) -> String {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(&byte) = bytes.get(self.at) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        self.at = self.at.min(bytes.len());
        self.text.get(start..self.at).and_then(|quoted| serde_json::from_str(quoted).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_bytes() {
        let text = "{\"a\": [1, -2.5e3, \"x\\\"]\"], \"b\": {}, \"c\": null}";
        let tree = read(text).unwrap();
        let Value::Object(members) = &tree.value else { panic!("an object") };
        let shown: Vec<_> = members.iter().map(|(key, _, tree)| (key.as_str(), &text[tree.span.clone()])).collect();
        assert_eq!(shown, [("a", "[1, -2.5e3, \"x\\\"]\"]"), ("b", "{}"), ("c", "null")]);
        let Value::List(items) = &members[0].2.value else { panic!("a list") };
        assert_eq!(items[2].value, Value::Text("x\"]".to_owned()));
        assert_eq!(&text[items[1].span.clone()], "-2.5e3");
    }

    #[test]
    fn broken_and_deep_text_is_refused_with_a_place() {
        let cut = read("{\"a\": [1,").unwrap_err();
        assert!(cut.cut);
        assert!(read(&"[".repeat(100_000)).is_err(), "nesting is bounded");
        let wrong = read("{\"a\": ?}").unwrap_err();
        assert_eq!((wrong.at, wrong.cut), (6, false));
    }
}
