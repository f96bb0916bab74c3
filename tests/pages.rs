//! The pages of the repository: their commands run and print what the pages show, their links lead somewhere, and what has to be
//! listed is listed.
//!
//! `RONDO_UPDATE=1 cargo test --test pages` puts what is printed today into the sessions (blocks that begin with `$ rondo`).

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::path;

/// All pages, below the root.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = Vec::new();
    for folder in ["", "docs", "examples", "tests", "fuzz"] {
        let mut open = vec![path(folder)];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap().path();
                if entry.is_dir() && folder != path("") && !entry.ends_with("target") {
                    open.push(entry);
                } else if entry.extension().is_some_and(|ending| ending == "md") {
                    pages.push(entry.strip_prefix(path("")).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
    }
    pages.sort();
    assert!(20 < pages.len(), "{pages:?}");
    pages
}

fn text(page: &str) -> String {
    std::fs::read_to_string(path(page)).unwrap()
}

/// Where a page's commands run: what they read is there, and what they write stays there.
fn playground(page: &str) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap().path();
            let to = to.join(entry.file_name().unwrap());
            if entry.is_dir() {
                copy(&entry, &to);
            } else {
                std::fs::copy(&entry, &to).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for below in ["examples", "tests/corpus"] {
        copy(&path(below), &folder.path().join(below));
    }
    // Files of the reader's own, which these pages speak of.
    let prepared = match page {
        "docs/continuous-integration.md" => {
            "rondo compile examples/size-range/job.toml --emit msccl-xml:rccl=plans && cp plans/algorithms/00* plan.xml"
        }
        "docs/mscclpp.md" => {
            "cp tests/corpus/mscclpp-json/allreduce_packet.json plan.json
             printf '[topology]\nkind = \"mesh\"\nnodes = 2\nbandwidth = \"1 GB/s\"\n' >job.toml
             printf '[collective]\nkind = \"all_reduce\"\nbuffer_size = \"1 KiB\"\nin_place = true\n' >>job.toml"
        }
        _ => "true",
    };
    let (status, _, errors) = shell(prepared, folder.path());
    assert_eq!(status, 0, "{page}: {errors}");
    folder
}

/// Status, standard output and standard error of a line as a shell runs it.
fn shell(line: &str, folder: &Path) -> (i32, String, String) {
    let rondo = Path::new(env!("CARGO_BIN_EXE_rondo")).parent().unwrap();
    let before = std::env::var_os("PATH").unwrap_or_default();
    let search = std::env::join_paths(std::iter::once(rondo.to_owned()).chain(std::env::split_paths(&before))).unwrap();
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", search)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("not ended by a signal"), text(output.stdout), text(output.stderr))
}

/// A block of code: its first line in the page, from 0, and its lines without the indentation.
struct Block {
    at: usize,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fenced = false;
    let mut indented = false;
    for (at, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
            if fenced {
                blocks.push(Block { at: at + 1, lines: Vec::new() });
            }
            continue;
        }
        let code = if fenced { Some(line) } else { line.strip_prefix("    ") };
        match code {
            Some(line) if fenced || indented => blocks.last_mut().unwrap().lines.push(line.to_owned()),
            Some(line) => blocks.push(Block { at, lines: vec![line.to_owned()] }),
            None => {}
        }
        indented = !fenced && code.is_some();
    }
    assert!(!fenced, "a block is not closed");
    blocks
}

/// Whether this build can run it: certificates are made by the solver.
fn can_run(line: &str) -> bool {
    cfg!(feature = "smt") || !line.contains("--certificate")
}

#[test]
fn every_command_of_a_page_ends_as_the_page_says() {
    let mut count = 0;
    for page in pages() {
        let text = text(&page);
        let blocks = blocks(&text);
        let commands = blocks.iter().flat_map(|block| &block.lines).filter(|line| line.starts_with("rondo "));
        let commands: Vec<&String> = commands.filter(|line| can_run(line)).collect();
        if commands.is_empty() {
            continue;
        }
        let folder = playground(&page);
        for line in commands {
            let wanted = line.split_once("# exit status ").map_or("0", |(_, status)| status);
            let (status, _, errors) = shell(line, folder.path());
            assert_eq!(status.to_string(), wanted, "{page}: {line}\n{errors}");
            count += 1;
        }
    }
    assert!(25 < count, "{count}");
}

/// Lines as they can be compared: the version of the solver is the reader's, and where its lines break depends on it. Without the
/// solver its lines are left out, and columns may be as wide as they like.
fn comparable<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for line in lines {
        match whole.last_mut() {
            Some(last) if line.starts_with(&" ".repeat(20)) && last != "…" => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => whole.push(line.trim_end().to_owned()),
        }
    }
    if cfg!(not(feature = "smt")) {
        whole.retain(|line| !line.starts_with("  smt-"));
    }
    let words = |line: String| {
        let mut words: Vec<&str> = line.split(' ').collect();
        if cfg!(not(feature = "smt")) {
            words.retain(|word| !word.is_empty());
        }
        if let Some(at) = words.iter().position(|word| *word == "Z3") {
            words.remove(at + 1);
        }
        words.join(" ")
    };
    whole.into_iter().map(words).collect()
}

/// The shown lines as they would be today: a line with the same first word behind each `…`, and all lines up to the next.
fn refreshed(shown: &[String], printed: &[&str]) -> Vec<String> {
    if !shown.iter().any(|line| line == "…") {
        return printed.iter().map(|line| (*line).to_owned()).collect();
    }
    let mut rest = printed.iter();
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let line = |line: &String| {
        if line == "…" {
            return Some(line.clone());
        }
        rest.find(|printed| first(printed) == first(line)).map(|line| (*line).to_owned())
    };
    shown.iter().filter_map(line).collect()
}

#[test]
fn sessions_show_what_is_printed() {
    let update = std::env::var_os("RONDO_UPDATE").is_some();
    let mut count = 0;
    for page in pages() {
        let before = text(&page);
        let sessions: Vec<Block> = blocks(&before)
            .into_iter()
            .filter(|block| block.lines.first().is_some_and(|line| line.starts_with("$ ")))
            .collect();
        if sessions.is_empty() {
            continue;
        }
        let folder = playground(&page);
        let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
        for Block { at, lines: block } in sessions.iter().rev() {
            let (command, shown) = block.split_first().unwrap();
            let command = command.strip_prefix("$ ").unwrap();
            let (status, printed, errors) = shell(command, folder.path());
            assert_eq!(status, 0, "{page}: {command}\n{errors}");
            let printed: Vec<&str> = printed.lines().collect();
            if update {
                lines.splice(at + 1..at + 1 + shown.len(), refreshed(shown, &printed));
            }
            let mut rest = comparable(printed).into_iter().peekable();
            let mut skips = false;
            for line in comparable(shown.iter().map(String::as_str)).into_iter().filter(|_| !update) {
                if line == "…" {
                    skips = true;
                    continue;
                }
                let found = if skips { rest.find(|printed| *printed == line) } else { rest.next() };
                assert_eq!(found.as_ref(), Some(&line), "{page}: {command}");
                skips = false;
            }
            assert!(skips || update || rest.peek().is_none(), "{page}: {command} prints more: {rest:?}");
            count += 1;
        }
        if update {
            std::fs::write(path(&page), lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(10 < count, "{count}");
}

/// A heading as an anchor, as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings.map(anchor).collect()
}

/// Targets of links.
fn links(page: &str) -> Vec<&str> {
    page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = text(&page);
        for target in links(&text).into_iter().filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let folder = PathBuf::from(&page).parent().unwrap().to_owned();
            let linked = if file.is_empty() { PathBuf::from(&page) } else { folder.join(file) };
            assert!(path(linked.to_str().unwrap()).exists(), "{page}: {target} is not there");
            if !heading.is_empty() {
                let linked = std::fs::read_to_string(path(linked.to_str().unwrap())).unwrap();
                assert!(anchors(&linked).contains(heading), "{page}: {target} has no such heading");
            }
        }
    }
}

/// Words in backquotes that name a file of the repository.
#[test]
fn files_that_are_named_exist() {
    /// Made when the fuzz targets run.
    const LATER: &str = "fuzz/corpus";
    const TOP: [&str; 9] = ["src", "docs", "examples", "tests", "ir", "compiler", "verify", "backends", "fuzz"];
    let mut count = 0;
    for page in pages() {
        let text = text(&page);
        let folder = PathBuf::from(&page).parent().unwrap().to_owned();
        for word in text.split('`').skip(1).step_by(2) {
            let named = word.split_once('/').is_some_and(|(first, _)| TOP.contains(&first));
            let placeholder =
                word.split('/').any(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_uppercase()));
            if !named
                || placeholder
                || word == LATER
                || word.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '…' | '<'))
            {
                continue;
            }
            // In ARCHITECTURE.md, below the crate that the section is about.
            let places = ["", "ir", "compiler", "verify", "backends"].map(|place| Path::new(place).join(word));
            let found = places.iter().chain([&folder.join(word)]).any(|place| path(place.to_str().unwrap()).exists());
            assert!(found, "{page}: `{word}` is not there");
            count += 1;
        }
    }
    assert!(20 < count, "{count}");
}

#[test]
fn codes_that_are_named_exist() {
    let known: BTreeSet<&str> = rondo::cli::all_codes().iter().map(|entry| entry.code).collect();
    for page in pages() {
        let text = text(&page);
        for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
            let (letter, digits) = word.split_at_checked(1).unwrap_or_default();
            if "TCJPBVX".contains(letter) && digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()) {
                assert!(word == "V100" || known.contains(word), "{page}: there is no code {word}");
            }
        }
    }
}

#[test]
fn every_example_and_every_page_is_listed() {
    let page = text("examples/README.md");
    for entry in std::fs::read_dir(path("examples")).unwrap() {
        let entry = entry.unwrap().path();
        let name = entry.file_name().unwrap().to_str().unwrap();
        if name == "README.md" {
            continue;
        }
        assert!(page.contains(&format!("\n## {name}\n")), "examples/README.md says nothing of {name}");
        assert!(page.contains(&format!("| [{name}](#{})", anchor(name))), "{name} is not in the table");
        let read = page.contains(&format!(" examples/{name}/"));
        assert!(!entry.is_dir() || read, "no command of examples/README.md reads a file of {name}");
    }
    let readme = text("README.md");
    for page in pages().iter().filter(|page| page.starts_with("docs/")) {
        assert!(readme.contains(&format!("]({page})")), "README.md does not link {page}");
    }
    assert!(
        readme.contains("](examples/README.md)") || readme.contains("](examples)"),
        "README.md does not link examples"
    );
}
