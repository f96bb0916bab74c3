//! The schema is current, and what is written conforms to it.

use serde_json::Value;

use super::super::schema_text;
use super::{fixtures, plan, text_of};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/plan.schema.json");

#[test]
fn the_committed_schema_is_current() {
    let now = schema_text();
    if std::env::var_os("RONDO_UPDATE").is_some() {
        std::fs::write(FILE, &now).unwrap();
    }
    let committed = std::fs::read_to_string(FILE).unwrap();
    let (now, committed): (Value, Value) = (parsed(&now), parsed(&committed));
    assert!(now == committed, "docs/plan.schema.json is out of date; run this test again with RONDO_UPDATE=1");
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_is_written_conforms_to_the_schema() {
    let schema = parsed(&schema_text());
    let check = |name: &str, text: &str| {
        let judged = conforms(&schema, &schema, &parsed(text));
        assert_eq!(judged, Ok(()), "{name}\n{text}");
    };
    for seed in 0..200 {
        check(&format!("seed {seed}"), &text_of(&plan(seed)));
    }
    for (name, text) in fixtures() {
        check(&name, &text);
    }
}

#[test]
fn what_does_not_conform_is_noticed() {
    let schema = parsed(&schema_text());
    let (_, text) = fixtures().remove(0);
    for (from, to) in [
        ("\"1.0\"", "\"2.0\""),
        ("\"chunks\"", "\"chunk\""),
        ("\"duplex\"", "\"half\""),
        ("\"o\",0,1,", "\"q\",0,1,"),
        (",1,\"reduce\"", ",0,\"reduce\""),
        ("\"reduce\",0]", "\"reduce\"]"),
        ("\"placement\": [0,", "\"placement\": [-1,"),
        ("\"in_place\": true", "\"in_place\": 1"),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert!(wrong != text, "{from}");
        assert!(conforms(&schema, &schema, &parsed(&wrong)).is_err(), "{from} -> {to}");
    }
}

/// A validator for the part of JSON Schema that the schema uses; it refuses keywords that it does not know, so that none is
/// skipped in silence.
fn conforms(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Value::Object(keywords) = schema else {
        return if schema == &Value::Bool(true) { Ok(()) } else { Err(format!("{value} is not allowed here")) };
    };
    let fail = |keyword: &str| Err(format!("{value} breaks {keyword} {}", keywords[keyword]));
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => {}
            "$ref" => {
                let pointer = rule.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
                conforms(root, root.pointer(pointer).expect("a definition"), value)?;
            }
            "type" => {
                let is = |name: &Value| match name.as_str().expect("a type name") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    other => panic!("unknown type {other}"),
                };
                let fits = rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is));
                if !fits {
                    return fail(keyword);
                }
            }
            "const" if value == rule => {}
            "enum" if rule.as_array().expect("a list").contains(value) => {}
            "const" | "enum" => return fail(keyword),
            "anyOf" | "oneOf" => {
                let fits = rule.as_array().expect("a list").iter().filter(|s| conforms(root, s, value).is_ok()).count();
                if fits == 0 || (keyword == "oneOf" && fits != 1) {
                    return fail(keyword);
                }
            }
            "minimum" if value.as_i64().is_some_and(|v| i128::from(v) < i128::from(rule.as_i64().unwrap())) => {
                return fail(keyword);
            }
            "maximum" if value.as_u64().is_some_and(|v| rule.as_u64().unwrap() < v) => return fail(keyword),
            "minItems" if value.as_array().is_some_and(|v| (v.len() as u64) < rule.as_u64().unwrap()) => {
                return fail(keyword);
            }
            "maxItems" if value.as_array().is_some_and(|v| rule.as_u64().unwrap() < v.len() as u64) => {
                return fail(keyword);
            }
            "maxLength" if value.as_str().is_some_and(|v| rule.as_u64().unwrap() < v.len() as u64) => {
                return fail(keyword);
            }
            "minimum" | "maximum" | "minItems" | "maxItems" | "maxLength" => {}
            "pattern" => {
                let text = value.as_str().unwrap_or_default();
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let fits = match rule.as_str().unwrap() {
                    r"^1\.[0-9]{1,9}$" => {
                        text.strip_prefix("1.").is_some_and(|minor| digits(minor) && minor.len() < 10)
                    }
                    "^-?[0-9]+/[0-9]+$" => {
                        text.split_once('/').is_some_and(|(n, d)| digits(n.strip_prefix('-').unwrap_or(n)) && digits(d))
                    }
                    other => panic!("unknown pattern {other}"),
                };
                if !fits {
                    return fail(keyword);
                }
            }
            "prefixItems" => {
                for (rule, item) in rule.as_array().unwrap().iter().zip(value.as_array().into_iter().flatten()) {
                    conforms(root, rule, item)?;
                }
            }
            "items" => {
                let prefix = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                for item in value.as_array().into_iter().flatten().skip(prefix) {
                    conforms(root, rule, item)?;
                }
            }
            "properties" => {
                for (key, rule) in rule.as_object().unwrap() {
                    if let Some(member) = value.get(key) {
                        conforms(root, rule, member).map_err(|error| format!("{key}: {error}"))?;
                    }
                }
            }
            "required" => {
                for key in rule.as_array().unwrap() {
                    if value.is_object() && value.get(key.as_str().unwrap()).is_none() {
                        return fail(keyword);
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                let known = keywords["properties"].as_object().unwrap();
                if let Some(key) =
                    value.as_object().and_then(|members| members.keys().find(|key| !known.contains_key(*key)))
                {
                    return Err(format!("unknown key {key}"));
                }
            }
            other => panic!("unknown keyword {other}"),
        }
    }
    Ok(())
}
