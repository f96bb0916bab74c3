//! Where things stand in the text of a plan: a path such as `schedule.steps[3].flows[41]` to bytes, and bytes to a path.
//!
//! Used when there is something to report, and to give operations their place. Nothing here recurses or trusts the text.

use std::ops::Range;

/// Bytes of the value at a path (`schedule.steps[3].flows[41]`); `None` if the text has no such value.
///
/// # Complexity
/// Linear in the text before the end of the value.
#[must_use]
pub fn locate(text: &str, path: &str) -> Option<Range<usize>> {
    let text = text.as_bytes();
    let mut at = skip_space(text, 0);
    if text.starts_with("\u{feff}".as_bytes()) {
        at = skip_space(text, 3);
    }
    for segment in path.split(['.', '[']).filter(|segment| !segment.is_empty()) {
        at = match segment.strip_suffix(']') {
            Some(index) => element(text, at, index.parse().ok()?)?,
            None => member(text, at, segment)?,
        };
    }
    Some(at..value_end(text, at))
}

/// Bytes of a flow in the text of a schedule plan, by step and place in that step's list.
///
/// A step of orbits lists its representatives instead; `index` then counts these.
#[must_use]
pub fn flow_span(text: &str, step: usize, index: usize) -> Option<Range<usize>> {
    ["flows", "representatives"]
        .iter()
        .find_map(|list| locate(text, &format!("schedule.steps[{step}].{list}[{index}]")))
}

/// Start of the member's value in the object that begins at `at`.
fn member(text: &[u8], at: usize, key: &str) -> Option<usize> {
    let mut at = skip_space(text, expect(text, at, b'{')?);
    while text.get(at) == Some(&b'"') {
        let end = string_end(text, at);
        let found = text.get(at + 1..end.checked_sub(1)?) == Some(key.as_bytes());
        at = skip_space(text, expect(text, skip_space(text, end), b':')?);
        if found {
            return Some(at);
        }
        at = skip_space(text, value_end(text, at));
        at = skip_space(text, expect(text, at, b',')?);
    }
    None
}

/// Start of the element in the array that begins at `at`.
fn element(text: &[u8], at: usize, index: usize) -> Option<usize> {
    let mut at = skip_space(text, expect(text, at, b'[')?);
    for _ in 0..index {
        at = skip_space(text, value_end(text, at));
        at = skip_space(text, expect(text, at, b',')?);
    }
    (at < text.len() && text[at] != b']').then_some(at)
}

fn expect(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    (text.get(at) == Some(&byte)).then_some(at + 1)
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// End of the string that begins with a quote at `at`.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < text.len() {
        match text[end] {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    text.len()
}

/// End of a number or word that begins at `at`; past it even if it is empty.
fn scalar_end(text: &[u8], at: usize) -> usize {
    let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b':' | b'[' | b']' | b'{' | b'}' | b'"');
    let length = text.get(at..).unwrap_or_default().iter().position(ends).unwrap_or(text.len().saturating_sub(at));
    at + length
}

/// End of the value that begins at `at`; the end of the text if it is cut off.
fn value_end(text: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut end = at;
    while end < text.len() {
        match text[end] {
            b'"' => end = string_end(text, end),
            b'[' | b'{' => {
                depth += 1;
                end += 1;
            }
            b']' | b'}' => {
                if depth == 0 {
                    return end;
                }
                depth -= 1;
                end += 1;
            }
            b',' | b':' => end += 1,
            b if b.is_ascii_whitespace() => end += 1,
            _ => end = scalar_end(text, end),
        }
        if depth == 0 {
            return end;
        }
    }
    text.len()
}

/// A key or value of the text with its path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// `schedule.steps[3].flows[41][0]`; for a key, the path of its object.
    pub(super) path: String,
    /// Its bytes.
    pub(super) span: Range<usize>,
}

/// An array or object that is still open.
struct Frame {
    start: usize,
    array: bool,
    index: usize,
    key: Range<usize>,
    wants_key: bool,
}

/// The last key or value that ends at or before `until`; a comma behind it does not count.
pub(super) fn last_before(text: &str, until: usize) -> Option<Spot> {
    let bytes = text.as_bytes();
    let before = bytes.get(..until).unwrap_or(bytes);
    let ignored = before.iter().rev().take_while(|b| b.is_ascii_whitespace() || **b == b',').count();
    let (stack, last) = walk(bytes, before.len() - ignored);
    let (span, frames) = last?;
    Some(Spot { path: path_of(bytes, &stack[..frames.min(stack.len())]), span })
}

/// The array or object whose bracket is the last byte before `until`, or the first one behind it.
pub(super) fn bracket_at(text: &str, until: usize) -> Option<Spot> {
    let bytes = text.as_bytes();
    let is_bracket = |at: usize| matches!(bytes.get(at), Some(b'[' | b'{'));
    let start = until.checked_sub(1).filter(|&at| is_bracket(at)).unwrap_or_else(|| skip_space(bytes, until));
    if !is_bracket(start) {
        return None;
    }
    let (stack, _) = walk(bytes, start);
    Some(Spot { path: path_of(bytes, &stack), span: start..value_end(bytes, start) })
}

/// Arrays and objects that are open at `until`, and the last key or value before it: its bytes and how many frames are
/// around it.
fn walk(text: &[u8], until: usize) -> (Vec<Frame>, Option<(Range<usize>, usize)>) {
    let until = until.min(text.len());
    let mut stack: Vec<Frame> = Vec::new();
    let mut last = None;
    let mut at = 0;
    while at < until {
        let start = at;
        match text[at] {
            b'"' => {
                at = string_end(text, at);
                if until < at {
                    break;
                }
                let mut frames = stack.len();
                if let Some(frame) = stack.last_mut()
                    && frame.wants_key
                {
                    frame.key = start + 1..at - 1;
                    frames -= 1;
                }
                last = Some((start..at, frames));
            }
            b'[' | b'{' => {
                let array = text[at] == b'[';
                stack.push(Frame { start, array, index: 0, key: 0..0, wants_key: !array });
                at += 1;
            }
            b']' | b'}' => {
                at += 1;
                if let Some(frame) = stack.pop() {
                    last = Some((frame.start..at, stack.len()));
                }
            }
            b',' => {
                at += 1;
                if let Some(frame) = stack.last_mut() {
                    frame.index += 1;
                    frame.wants_key = !frame.array;
                }
            }
            b':' => {
                at += 1;
                if let Some(frame) = stack.last_mut() {
                    frame.wants_key = false;
                }
            }
            b if b.is_ascii_whitespace() => at += 1,
            _ => {
                at = scalar_end(text, at).max(at + 1);
                if until < at {
                    break;
                }
                last = Some((start..at, stack.len()));
            }
        }
    }
    (stack, last)
}

fn path_of(text: &[u8], frames: &[Frame]) -> String {
    let mut path = String::new();
    for frame in frames {
        if frame.array {
            path.push_str(&format!("[{}]", frame.index));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&String::from_utf8_lossy(&text[frame.key.clone()]));
        }
        if PATH_LIMIT < path.len() {
            return shorten(&path, PATH_LIMIT);
        }
    }
    path
}

/// Longest path that is printed, in bytes.
const PATH_LIMIT: usize = 160;

/// [`str::floor_char_boundary`] for the oldest compiler that is supported.
trait FloorCharBoundary {
    fn floor_char_boundary_at(&self, at: usize) -> usize;
}

impl FloorCharBoundary for str {
    fn floor_char_boundary_at(&self, at: usize) -> usize {
        (0..=at.min(self.len())).rev().find(|&i| self.is_char_boundary(i)).unwrap_or(0)
    }
}

/// The text cut to at most `limit` bytes, marked where it was cut.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary_at(limit)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#" {"a": [1, [2, "x,]"], {"b": null}], "c\"d": {}, "e": -3.5e2} "#;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        assert_eq!(locate(TEXT, path).map(|span| &TEXT[span]), expected, "{path}");
    }

    #[test]
    fn paths_lead_to_values() {
        check("a", Some(r#"[1, [2, "x,]"], {"b": null}]"#));
        check("a[1][1]", Some("\"x,]\""));
        check("a[2].b", Some("null"));
        check("e", Some("-3.5e2"));
        check("a[3]", None);
        check("a.b", None);
        check("f", None);
        check("e[0]", None);
    }

    #[test]
    fn bytes_lead_to_paths() {
        let spot = |needle: &str| {
            let end = TEXT.find(needle).unwrap() + needle.len();
            let spot = last_before(TEXT, end).unwrap();
            (spot.path, TEXT[spot.span].to_owned())
        };
        assert_eq!(spot("2"), ("a[1][0]".into(), "2".into()));
        assert_eq!(spot("\"x,]\""), ("a[1][1]".into(), "\"x,]\"".into()));
        assert_eq!(spot("null"), ("a[2].b".into(), "null".into()));
        assert_eq!(spot("null}"), ("a[2]".into(), r#"{"b": null}"#.into()));
        assert_eq!(spot("\"e\""), (String::new(), "\"e\"".into()));
    }

    #[test]
    fn broken_text_is_walked_to_its_end() {
        for text in ["", "{", "[[[[", "]]]", "\"", "\"\\", "{\"a\"", "{:,", "[1,,2", "{\"a\":}", "nul"] {
            for end in 0..=text.len() {
                let _ = last_before(text, end);
            }
            for path in ["", "a", "[0]", "a[0].b", "[1][2]", "x.]"] {
                let _ = locate(text, path);
            }
        }
    }
}
