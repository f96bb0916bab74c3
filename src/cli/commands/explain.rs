//! `rondo explain CODE`

use rondo_ir::diagnostic::{CodeEntry, Diagnostic};
use serde_json::{Value, json};

use crate::cli::{CommandResult, OutputFormat, Session, Status, all_codes};

/// Explains one code, or lists all.
pub fn run(session: &Session, code: Option<&str>) -> CommandResult {
    let codes = all_codes();
    let json = session.format != OutputFormat::Text;
    let text = match code {
        None if json => {
            let list = codes.iter().map(entry_json).collect();
            return session.print_json(list).map(|()| Status::Done);
        }
        None => codes.iter().map(|c| format!("{}  {}\n", c.code, c.title)).collect(),
        Some(wanted) => {
            let upper = wanted.trim().trim_matches(['[', ']']).to_uppercase();
            let Some(entry) = codes.iter().find(|c| c.code == upper) else {
                let nearest = codes.iter().max_by(|a, b| {
                    strsim::jaro_winkler(a.code, &upper)
                        .total_cmp(&strsim::jaro_winkler(b.code, &upper))
                        .then(b.code.cmp(a.code))
                });
                let mut diagnostic = Diagnostic::error("X005", format!("there is no code `{wanted}`"));
                if let Some(nearest) = nearest {
                    diagnostic = diagnostic.help(format!("the nearest one is {}: {}", nearest.code, nearest.title));
                }
                return Err(vec![diagnostic.help("`rondo explain` without a code lists all")]);
            };
            if json {
                return session.print_json(entry_json(entry)).map(|()| Status::Done);
            }
            format!("{}: {}\n\n{}\n", entry.code, entry.title, wrap(entry.explanation, 88))
        }
    };
    session.print(&text)?;
    Ok(Status::Done)
}

fn entry_json(entry: &CodeEntry) -> Value {
    json!({ "code": entry.code, "title": entry.title, "explanation": entry.explanation })
}

/// Breaks paragraphs at blanks; lines that begin with a blank (examples) stay as they are.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    for (index, line) in text.lines().enumerate() {
        if 0 < index {
            out.push('\n');
        }
        if line.starts_with(' ') {
            out.push_str(line);
            continue;
        }
        let mut column = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if 0 < column && width < column + 1 + length {
                out.push('\n');
                column = 0;
            } else if 0 < column {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
        }
    }
    out
}
