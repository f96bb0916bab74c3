//! Job files: good ones, bad ones with the findings that they must give, and the pages made from the description.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rondo_compiler::front::job::{keys, parse_job, parse_job_bytes, reference, schema};
use rondo_ir::diagnostic::Diagnostic;

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Files below the folder that end with `.toml`, sorted.
fn files(path: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder(path)];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("the folder exists") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no files in {path}");
    found
}

fn good_files() -> Vec<PathBuf> {
    // Training jobs and their networks are no jobs of one collective.
    let job = |path: &PathBuf| read(path).contains("[collective");
    [files("../examples"), files("tests/jobs/good")].concat().into_iter().filter(job).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("readable")
}

/// `line:column code message`, one line a finding.
fn render(text: &str, diagnostics: &[Diagnostic]) -> String {
    let mut lines = String::new();
    for diagnostic in diagnostics {
        let place = diagnostic.labels.first().map_or_else(
            || "-".to_owned(),
            |label| {
                let before = &text[..label.start];
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                format!("{line}:{column}")
            },
        );
        let _ = writeln!(lines, "{place} {} {}", diagnostic.code, diagnostic.message);
    }
    lines
}

/// Bad files say on their last lines, each after `#!`, what must be found.
#[test]
fn bad_files_give_the_findings_that_they_state() {
    let mut wrong = String::new();
    for path in files("tests/jobs/bad") {
        let text = read(&path);
        let expected: String =
            text.lines().filter_map(|line| line.strip_prefix("#! ")).map(|l| format!("{l}\n")).collect();
        let found = match parse_job("job.toml", &text) {
            Ok(_) => String::new(),
            Err(diagnostics) => render(&text, &diagnostics),
        };
        if found != expected {
            let _ = writeln!(wrong, "{}:\n--- expected\n{expected}--- found\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_finding_has_a_place_help_and_an_explained_code() {
    let known: BTreeSet<&str> = rondo_compiler::codes().iter().map(|entry| entry.code).collect();
    for path in files("tests/jobs/bad") {
        let text = read(&path);
        for diagnostic in parse_job("job.toml", &text).unwrap_err() {
            assert!(known.contains(diagnostic.code), "{}: {diagnostic:?}", path.display());
            assert!(!diagnostic.message.ends_with('.'), "{diagnostic:?}");
            assert!(!diagnostic.help.is_empty(), "{}: {diagnostic:?}", path.display());
            assert!(!diagnostic.labels.is_empty() || diagnostic.code == "J099", "{diagnostic:?}");
        }
    }
}

#[test]
fn good_files_are_read() {
    for path in good_files() {
        let text = read(&path);
        if let Err(diagnostics) = parse_job("job.toml", &text) {
            panic!("{}:\n{}", path.display(), render(&text, &diagnostics));
        }
    }
}

#[test]
fn every_key_is_used_by_a_good_file() {
    let mut used = BTreeSet::new();
    fn walk(value: &toml::Value, path: &str, used: &mut BTreeSet<String>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    used.insert(path.clone());
                    walk(value, &path, used);
                }
            }
            toml::Value::Array(items) => items.iter().for_each(|item| walk(item, path, used)),
            _ => {}
        }
    }
    for path in good_files() {
        let table: toml::Table = toml::from_str(&read(&path)).expect("good files are TOML");
        walk(&toml::Value::Table(table), "", &mut used);
    }
    let unused: Vec<String> = keys().into_iter().map(|(key, ..)| key).filter(|key| !used.contains(key)).collect();
    assert!(unused.is_empty(), "no good file uses {unused:?}");
}

#[test]
fn every_example_of_the_description_is_read() {
    // The example of each key, put into a file of nothing else, gives no finding about that key's value.
    for (path, example, _) in keys() {
        let (mut head, key) =
            path.rsplit_once('.').map_or((String::new(), path.as_str()), |(head, key)| (head.into(), key));
        let mut value = format!("{{ {key} = {example} }}");
        if head.is_empty() {
            value = example.to_owned();
            head = key.to_owned();
        }
        // Lists of tables stand in single brackets around one table.
        let mut parts: Vec<&str> = head.split('.').collect();
        while 1 < parts.len() {
            let part = parts.pop().expect("not empty");
            let listed = ["node", "link", "medium", "device", "ports"].contains(&part);
            value = if listed { format!("{{ {part} = [{value}] }}") } else { format!("{{ {part} = {value} }}") };
        }
        let text = format!("{} = {value}\n", parts[0]);
        let toml: Result<toml::Table, _> = toml::from_str(&text);
        assert!(toml.is_ok(), "{text}");
        for diagnostic in parse_job("job.toml", &text).err().unwrap_or_default() {
            let about_value = ["J006", "J008", "J009", "J010", "J011", "J012", "C008", "J003", "J001"];
            assert!(!about_value.contains(&diagnostic.code), "{text}\n{diagnostic:?}");
        }
    }
}

#[test]
fn the_reference_and_the_schema_are_current() {
    let schema = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    for (path, made) in [("../docs/job-reference.md", reference()), ("../docs/job.schema.json", schema)] {
        let path = folder(path);
        if std::env::var_os("RONDO_UPDATE").is_some() {
            std::fs::write(&path, &made).expect("writable");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == made, "{} is not current; run with RONDO_UPDATE=1", path.display());
    }
}

#[test]
fn odd_input_is_refused_in_words() {
    let first = |bytes: &[u8]| parse_job_bytes("job.toml", bytes).unwrap_err().remove(0);
    assert_eq!(first(b"").code, "J015");
    assert_eq!(first(b"\n  # nothing\n\n").code, "J015");
    assert_eq!(first(b"\x7fELF\x02\xff\xfe").code, "J014");
    assert_eq!(first(b"a = 1\n\xff").message, "`job.toml` is no text: byte 6 (line 2) is 0xff");
    assert_eq!(first(b"[topology]\nkind = \"ri").code, "J001");
    assert_eq!(first(b"\xef\xbb\xbf").code, "J015");
    let deep = format!("a = {}", "[".repeat(100_000));
    assert_eq!(first(deep.as_bytes()).code, "J001");
}

#[test]
fn a_million_lines_of_garbage_give_fifty_findings_and_a_count() {
    for line in ["!!! no job file\n", "x = 1\n", "[[topology]]\n", "[topology.node.a]\nb = 5\n"] {
        let text = line.repeat(200_000);
        let found = parse_job("job.toml", &text).unwrap_err();
        assert!(found.len() <= 51, "{line}: {}", found.len());
        if found.len() == 51 {
            assert_eq!(found[50].code, "J099");
        }
    }
    // Unknown keys by the thousand are no syntax error.
    let text: String = (0..300_000).map(|key| format!("x{key} = 1\n")).collect();
    let found = parse_job("job.toml", &text).unwrap_err();
    assert_eq!(found.len(), 51);
    assert_eq!(found[50].message, "… and 299952 more errors in `job.toml`");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files_never_panic(file in 0_usize..64, edits in prop::collection::vec((0_usize..100_000, 0_u8..=255, 0_u8..3), 1..8)) {
        let files = good_files();
        let mut bytes = std::fs::read(&files[file % files.len()]).expect("readable");
        for (at, byte, what) in edits {
            let at = at % (bytes.len() + 1);
            match what {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        if let Err(found) = parse_job_bytes("job.toml", &bytes) {
            prop_assert!(!found.is_empty() && found.len() <= 51);
            for label in found.iter().flat_map(|d| &d.labels) {
                prop_assert!(label.start <= label.end && label.end <= bytes.len());
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    prop_assert!(text.is_char_boundary(label.start) && text.is_char_boundary(label.end));
                }
            }
        }
    }

    #[test]
    fn mutated_words_never_panic(file in 0_usize..64, at in 0_usize..10_000, word in "[a-z_\"\\[\\]{}=.0-9 ]{0,12}") {
        let files = good_files();
        let text = read(&files[file % files.len()]);
        let words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
        let at = at % words.len();
        let mutated: String = words.iter().enumerate().map(|(i, w)| if i == at { word.as_str() } else { *w }).collect();
        let _ = parse_job("job.toml", &mutated);
    }
}
