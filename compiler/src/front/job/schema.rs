//! The JSON Schema of job files, for editors.

use serde_json::{Map, Value as Json, json};

use super::describe::{Need, Shape, TableInfo, paragraphs};
use super::tables::JobTable;

/// The JSON Schema (2020-12) of a job file, as TOML language servers understand it.
#[must_use]
pub fn schema() -> Json {
    let mut root = table(JobTable::TABLE);
    if let Json::Object(map) = &mut root {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".to_owned(), json!("Rondo job"));
    }
    root
}

fn of(shape: &Shape) -> Json {
    match shape {
        Shape::Boolean => json!({ "type": "boolean" }),
        Shape::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Text { what, pattern } => json!({ "type": "string", "pattern": pattern, "title": what }),
        Shape::Words(words) => {
            let each = words.iter().map(|(word, doc)| json!({ "const": word, "description": doc }));
            json!({ "oneOf": each.collect::<Vec<_>>() })
        }
        Shape::List(item) => json!({ "type": "array", "items": of(item) }),
        Shape::Pair(item) => json!({ "type": "array", "items": of(item), "minItems": 2, "maxItems": 2 }),
        Shape::Table(info) => table(info),
        Shape::OneOf(shapes) => json!({ "anyOf": shapes.iter().map(of).collect::<Vec<_>>() }),
    }
}

fn table(info: &TableInfo) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in info.fields {
        let mut schema = of(&(field.shape)());
        if let Json::Object(map) = &mut schema {
            map.insert("description".to_owned(), json!(paragraphs(field.doc).join("\n\n")));
            if let Some(default) = field.default.and_then(|default| to_json(default.value)) {
                map.insert("default".to_owned(), default);
            }
            if let Some(example) = to_json(field.example) {
                map.insert("examples".to_owned(), json!([example]));
            }
        }
        properties.insert(field.key.to_owned(), schema);
        let is_implied = info.tag.as_ref().is_some_and(|tag| tag.key == field.key && !tag.implied_by.is_empty());
        if matches!(field.need, Need::Required) && !is_implied {
            required.push(field.key);
        }
    }
    let mut schema = json!({
        "type": "object",
        "description": paragraphs(info.doc).join("\n\n"),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let variants = variants(info);
    if let (Json::Object(map), false) = (&mut schema, variants.is_empty()) {
        map.insert("allOf".to_owned(), json!(variants));
    }
    schema
}

/// For each value of the tag: which keys must and which cannot be there.
fn variants(info: &TableInfo) -> Vec<Json> {
    let Some(tag) = &info.tag else { return Vec::new() };
    let words = match info.fields.iter().find(|field| field.key == tag.key).map(|field| (field.shape)()) {
        Some(Shape::Words(words)) => words,
        _ => Vec::new(),
    };
    let mut rules = Vec::new();
    for (word, _) in words {
        let is = json!({ "properties": { (tag.key): { "const": word } }, "required": [tag.key] });
        let mut conditions = vec![is];
        for (key, _) in tag.implied_by.iter().filter(|(_, variant)| *variant == word) {
            conditions.push(json!({ "required": [key], "not": { "required": [tag.key] } }));
        }
        if tag.default == Some(word) {
            conditions.push(json!({ "not": { "required": [tag.key] } }));
        }
        let excluded = info.fields.iter().filter(|field| !field.applies_to(Some(word)));
        let excluded: Map<String, Json> = excluded.map(|field| (field.key.to_owned(), Json::Bool(false))).collect();
        let is_extra = |need| matches!(need, Need::RequiredFor(_));
        let needed = info.fields.iter().filter(|field| is_extra(field.need) && field.is_needed_for(Some(word)));
        let needed: Vec<&str> = needed.map(|field| field.key).collect();
        rules.push(json!({ "if": { "anyOf": conditions }, "then": { "properties": excluded, "required": needed } }));
    }
    rules
}

/// A TOML value of the description as JSON.
fn to_json(toml: &str) -> Option<Json> {
    let value: toml::Value = toml::from_str::<toml::Table>(&format!("x = {toml}")).ok()?.remove("x")?;
    serde_json::to_value(value).ok()
}
