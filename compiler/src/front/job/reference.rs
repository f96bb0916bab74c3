//! The reference page of job files.

use std::fmt::Write as _;

use super::describe::{Field, Need, Shape, TableInfo, paragraphs};
use super::tables::{JobTable, RESERVED};

/// The reference of job files, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# Job files: reference\n\n\
         <!-- Made from the types of the frontend; `RONDO_UPDATE=1 cargo test -p rondo-compiler --test job_files` renews it. -->\n\n\
         A job file is [TOML](https://toml.io). A JSON Schema for editors stands beside this page: `job.schema.json`.\n\n\
         - **Quantities are texts with their unit**: `\"25 GB/s\"`, `\"400 Gbps\"`, `\"700 ns\"`, `\"32 KiB\"`. A bare number is an error. \
         GB is 10⁹ bytes, GiB is 2³⁰, a small b means bits.\n\
         - Unknown keys are errors, and so are keys that mean nothing for the chosen kind.\n\
         - A default of the cost model is printed in every report, with its source.\n",
    );
    sections(&mut page, JobTable::TABLE, "", "");
    page.push_str("\n## Reserved\n\n");
    for (key, reason) in RESERVED {
        let _ = writeln!(page, "- `[{key}]`: {reason}; this one refuses it.");
    }
    page
}

fn sections(page: &mut String, info: &'static TableInfo, path: &str, header: &str) {
    let title = if path.is_empty() { "The file" } else { header };
    let _ = write!(page, "\n## {title}\n\n");
    for paragraph in paragraphs(info.doc) {
        let _ = writeln!(page, "{paragraph}\n");
    }
    if let Some((tag, words)) = info.tag.as_ref().and_then(|tag| {
        let field = info.fields.iter().find(|field| field.key == tag.key)?;
        match (field.shape)() {
            Shape::Words(words) => Some((tag, words)),
            _ => None,
        }
    }) {
        let _ = writeln!(page, "| {} | | needs |\n| --- | --- | --- |", tag.key);
        for (word, doc) in words {
            let needed = info.fields.iter().filter(|field| {
                field.key != tag.key && matches!(field.need, Need::RequiredFor(_)) && field.is_needed_for(Some(word))
            });
            let needed: Vec<String> = needed.map(|field| format!("`{}`", field.key)).collect();
            let _ = writeln!(page, "| `{word}` | {doc} | {} |", needed.join(", "));
        }
        page.push('\n');
    }
    for field in info.fields {
        entry(page, info, field, path);
    }
    for field in info.fields {
        let below = if path.is_empty() { field.key.to_owned() } else { format!("{path}.{}", field.key) };
        let (table, header) = match (field.shape)() {
            Shape::Table(table) => (table, format!("`[{below}]`")),
            Shape::List(item) => match *item {
                Shape::Table(table) => (table, format!("`[[{below}]]`")),
                _ => continue,
            },
            Shape::OneOf(shapes) => match shapes.first() {
                Some(Shape::Table(table)) => (*table, format!("`[{below}]` or `[[{below}]]`")),
                _ => continue,
            },
            _ => continue,
        };
        sections(page, table, &below, &header);
    }
}

fn entry(page: &mut String, info: &TableInfo, field: &Field, path: &str) {
    let doc = paragraphs(field.doc).join(" ");
    let is_section = path.is_empty() && matches!((field.shape)(), Shape::Table(_) | Shape::OneOf(_));
    let name = if is_section { format!("[{}]", field.key) } else { field.key.to_owned() };
    let _ = write!(page, "- **`{name}`** ({}", describe(&(field.shape)()));
    match field.need {
        Need::Required => {
            let implied = info.tag.as_ref().filter(|tag| tag.key == field.key && !tag.implied_by.is_empty());
            page.push_str(if implied.is_some() { "" } else { ", needed" });
        }
        Need::RequiredFor(variants) if variants.len() == field.only.len() => page.push_str(", needed"),
        Need::RequiredFor(variants) => {
            let _ = write!(page, ", needed for {}", variants.join(", "));
        }
        Need::Optional => {}
    }
    if !field.only.is_empty() {
        let _ = write!(page, "; only {}", field.only.join(", "));
    }
    let _ = write!(page, "). {doc}");
    if let Some(default) = field.default.filter(|default| default.value != "{}") {
        let of = if default.only.is_empty() { String::new() } else { format!(" for {}", default.only.join(", ")) };
        let _ = write!(page, " Default{of}: `{}` ({}).", default.value, default.source);
    }
    let is_tag = info.tag.as_ref().is_some_and(|tag| tag.key == field.key);
    if let (Shape::Words(words), false) = ((field.shape)(), is_tag) {
        let words: Vec<String> = words.iter().map(|(word, doc)| format!("`\"{word}\"`: {doc}")).collect();
        let _ = write!(page, " One of {}.", words.join("; "));
    }
    if !is_section {
        let _ = write!(page, " Example: `{} = {}`", field.key, field.example);
    }
    page.push('\n');
}

fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Boolean => "true or false".to_owned(),
        Shape::Integer { least, .. } => format!("whole number ≥ {least}"),
        Shape::Text { what, .. } => (*what).to_owned(),
        Shape::Words(_) => "word".to_owned(),
        Shape::List(item) => match **item {
            Shape::Table(_) => "tables".to_owned(),
            _ => format!("list of: {}", describe(item)),
        },
        Shape::Pair(item) => format!("two of: {}", describe(item)),
        Shape::Table(_) => "section".to_owned(),
        Shape::OneOf(shapes) => shapes.iter().map(describe).collect::<Vec<_>>().join(", or "),
    }
}
