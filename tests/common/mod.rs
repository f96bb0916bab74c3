//! Runs the binary as a person would.

#![allow(dead_code, clippy::expect_used, clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run gave.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// The run, if it ended with this status; else everything it printed.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("internal error"), "{}", self.stderr);
        self
    }

    /// The run, if standard error holds the text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is missing in:\n{}", self.stderr);
        self
    }
}

/// Runs `rondo` in the root of the repository with this standard input.
pub fn rondo_with(arguments: &[&str], stdin: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rondo"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("piped");
    let input = stdin.to_vec();
    let writer = std::thread::spawn(move || {
        // A program that does not read its input closes the pipe.
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer ends");
    Run {
        code: output.status.code().expect("not ended by a signal"),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Runs `rondo` without input.
pub fn rondo(arguments: &[&str]) -> Run {
    rondo_with(arguments, b"")
}

/// A path below the root of the repository.
pub fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// All files below a folder whose names end so, sorted.
pub fn files(relative: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![path(relative)];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder exists") {
            let entry = entry.expect("readable").path();
            if entry.is_dir() {
                open.push(entry);
            } else if entry.to_string_lossy().ends_with(ending) {
                found.push(entry);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {ending} in {relative}");
    found
}

/// An MSCCL XML file from its lines, its steps numbered by their places in their threadblocks.
pub fn renumbered(lines: &[String]) -> String {
    let mut next = 0;
    let mut out = String::new();
    for line in lines {
        if line.trim_start().starts_with("<step") {
            out.push_str(&with_attribute(line, "s", &next.to_string()));
            next += 1;
        } else {
            next = 0;
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

pub mod replay;
pub mod simulate;

/// The value of an attribute of an XML element on this line.
#[track_caller]
pub fn attribute<'a>(line: &'a str, key: &str) -> &'a str {
    let from = format!(" {key}=\"");
    let start = line.find(&from).unwrap_or_else(|| panic!("no {key} in {line}")) + from.len();
    &line[start..start + line[start..].find('"').expect("a closing quote")]
}

/// The line with another value of the attribute.
#[track_caller]
pub fn with_attribute(line: &str, key: &str, value: &str) -> String {
    let old = attribute(line, key);
    line.replacen(&format!(" {key}=\"{old}\""), &format!(" {key}=\"{value}\""), 1)
}
