//! The mutation suite of MSCCL XML: right files with one fault each, judged by Rondo and by a small machine that runs them.
//!
//! - What the machine can make go wrong must be refuted (or be unreadable).
//! - What is refuted must go wrong in the machine, or break a rule that is checked here once more.
//! - The right files themselves are verified.
//!
//! `cargo test` takes a seeded sample. All mutants: `RONDO_MUTANTS=all cargo test --release --test mutation -- --nocapture`; with
//! `RONDO_UPDATE=1` the table goes to `docs/mutation-suite.md`.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use common::simulate::{Machine, Simulated};
use common::{attribute, renumbered, with_attribute};
use rayon::prelude::*;
use rondo::compiler::front::job::build_problem;
use rondo::export::{ExportRequest, Format, export};
use rondo::ir::profile::{Protocol, RuntimeProfile};
use rondo::judge::{JudgeOptions, Verdict, judge_file};
use rondo::pipeline::{Proof, Request, compile, load_job};

/// Random orders that a verified mutant must survive, and those in which a refuted one is tried.
const SURVIVES: u64 = 40;
const TRIED: u64 = 120;

/// Every operator, with the least share of all mutants that it must have.
const OPERATORS: [(&str, f64); 14] = [
    ("drop an instruction", 0.02),
    ("drop a dependency", 0.01),
    ("weaken a dependency", 0.005),
    ("drop a publication", 0.01),
    ("shift a source", 0.02),
    ("shift a destination", 0.02),
    ("change a buffer", 0.02),
    ("swap peers", 0.01),
    ("repeat an instruction", 0.02),
    ("swap two instructions", 0.01),
    ("wrong count", 0.02),
    ("wrong channel", 0.01),
    ("lower a limit", 0.01),
    ("cut the file", 0.02),
];

/// Small right files: what Rondo writes, and the corpus.
fn good_files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let cases: [(&str, u32, &str, &str, u32); 18] = [
        ("all_reduce", 2, "ring", "switch", 1),
        ("all_reduce", 3, "ring", "ring", 1),
        ("all_reduce", 4, "ring-two-way", "ring", 1),
        ("all_reduce", 4, "direct", "switch", 1),
        ("all_reduce", 4, "halving-doubling", "switch", 1),
        ("all_reduce", 4, "recursive-doubling", "switch", 2),
        ("all_reduce", 3, "all-pairs", "switch", 1),
        ("all_reduce", 4, "double-tree", "switch", 2),
        ("all_gather", 3, "ring", "ring", 1),
        ("all_gather", 4, "direct", "switch", 1),
        ("all_gather", 4, "bruck", "switch", 1),
        ("all_gather", 4, "recursive-doubling", "switch", 1),
        ("reduce_scatter", 3, "ring", "ring", 1),
        ("reduce_scatter", 4, "direct", "switch", 1),
        ("reduce_scatter", 4, "halving-doubling", "switch", 1),
        ("all_to_all", 3, "direct", "switch", 1),
        ("all_to_all", 4, "bruck", "switch", 1),
        ("all_to_all", 4, "direct", "switch", 2),
    ];
    let profiles = [&RuntimeProfile::MSCCL, &RuntimeProfile::RCCL];
    let mut left_out = 0;
    for (kind, n, algorithm, topology, chunks) in cases {
        for (profile, protocol) in profiles.into_iter().zip([Protocol::Simple, Protocol::Ll]) {
            for in_place in [false, true] {
                if in_place && kind != "all_reduce" {
                    continue;
                }
                let place = if in_place { "in_place = true\n" } else { "" };
                let job = format!(
                    "[topology]\nkind = \"{topology}\"\nnodes = {n}\nbandwidth = \"25 GB/s\"\nlatency = \"1 us\"\n\n[collective]\n\
                     kind = \"{kind}\"\nbuffer_size = \"48 KiB\"\n{place}"
                );
                let loaded = load_job("job.toml", job.as_bytes(), Path::new(".")).unwrap();
                let problem = Arc::new(build_problem(&loaded.job, &loaded.fabric).unwrap());
                let request = Request {
                    algorithm: algorithm.to_owned(),
                    chunks: (1 < chunks).then_some(chunks),
                    ..Request::auto()
                };
                let proof = Proof { smt: false, ..Proof::default() };
                let Ok(compiled) = compile(&problem, &loaded.fabric, &request, &proof) else {
                    left_out += 1;
                    continue;
                };
                let request = ExportRequest { protocol, ..ExportRequest::new(Format::MscclXml(profile)) };
                let Ok(file) = export(&compiled.plan, &request) else {
                    left_out += 1;
                    continue;
                };
                let name = format!("{kind} {n} {algorithm} {} in place {in_place}", profile.name);
                files.push((name, file.text));
            }
        }
    }
    assert!(left_out <= 8, "{left_out} of the cases do not compile");
    for path in common::files("tests/corpus/msccl-xml", "xml") {
        let text = std::fs::read_to_string(&path).unwrap();
        // One element a line is what the machine reads; comments do no harm.
        if text.lines().count() < 400 {
            files.push((path.file_name().unwrap().to_string_lossy().into_owned(), text));
        }
    }
    files
}

/// A mutant: operator, where, text.
struct Mutant {
    operator: &'static str,
    at: String,
    text: String,
}

fn mutants(text: &str) -> Vec<Mutant> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let begins = |line: usize, tag: &str| lines.get(line).is_some_and(|text| text.trim_start().starts_with(tag));
    let mut list: Vec<Mutant> = Vec::new();
    let mut add = |operator: &'static str, line: usize, changed: Vec<String>| {
        if changed != lines {
            list.push(Mutant { operator, at: format!("line {}", line + 1), text: renumbered(&changed) });
        }
    };
    for line in 0..lines.len() {
        let with = |to: String| {
            let mut changed = lines.clone();
            changed[line] = to;
            changed
        };
        let set = |key: &str, value: i64| with_attribute(&lines[line], key, &value.to_string());
        let number = |key: &str| attribute(&lines[line], key).parse::<i64>().unwrap();
        if begins(line, "<step") {
            let mut dropped = lines.clone();
            dropped.remove(line);
            add("drop an instruction", line, dropped);
            let mut repeated = lines.clone();
            repeated.insert(line, lines[line].clone());
            add("repeat an instruction", line, repeated);
            if begins(line + 1, "<step") {
                let mut swapped = lines.clone();
                swapped.swap(line, line + 1);
                add("swap two instructions", line, swapped);
            }
            add("drop a dependency", line, with(with_attribute(&set("depid", -1), "deps", "-1")));
            if 0 < number("deps") {
                add("weaken a dependency", line, with(set("deps", number("deps") - 1)));
            }
            add("drop a publication", line, with(set("hasdep", 0)));
            for by in [1, -1, 2] {
                if 0 <= number("srcoff") + by {
                    add("shift a source", line, with(set("srcoff", number("srcoff") + by)));
                }
                if 0 <= number("dstoff") + by {
                    add("shift a destination", line, with(set("dstoff", number("dstoff") + by)));
                }
            }
            for key in ["srcbuf", "dstbuf"] {
                for buffer in ["i", "o", "s"] {
                    add("change a buffer", line, with(with_attribute(&lines[line], key, buffer)));
                }
            }
            add("wrong count", line, with(set("cnt", number("cnt") + 1)));
            if 1 < number("cnt") {
                add("wrong count", line, with(set("cnt", number("cnt") - 1)));
            }
        } else if begins(line, "<tb") {
            let (send, recv) = (number("send"), number("recv"));
            add("swap peers", line, with(with_attribute(&set("send", recv), "recv", &send.to_string())));
            let ranks = text.matches("<gpu ").count() as i64;
            for (key, peer) in [("send", send), ("recv", recv)] {
                if 0 <= peer {
                    add("swap peers", line, with(set(key, (peer + 1) % ranks)));
                }
            }
            add("wrong channel", line, with(set("chan", number("chan") + 1)));
        } else if begins(line, "<gpu") {
            for key in ["i_chunks", "o_chunks", "s_chunks"] {
                if 0 < number(key) {
                    add("lower a limit", line, with(set(key, number(key) - 1)));
                    add("lower a limit", line, with(set(key, 0)));
                }
            }
        }
    }
    for line in (1..lines.len()).step_by(3) {
        let half = lines[line].get(..lines[line].len() / 2).unwrap_or_default();
        let text = format!("{}\n{half}", lines[..line].join("\n"));
        list.push(Mutant { operator: "cut the file", at: format!("line {}", line + 1), text });
    }
    list
}

/// What the machine says of a mutant.
enum Seen {
    Right,
    Wrong,
    /// No run goes wrong, but two accesses are not ordered.
    Races,
    /// Only with one message a chunk.
    WrongWhenSplit,
}

fn observe(text: &str, orders: u64) -> Result<Seen, String> {
    let machine = Machine::read(text)?;
    let wrong = |machine: &Machine| (0..orders).any(|seed| machine.run(seed) != Simulated::Right);
    if wrong(&machine) {
        return Ok(Seen::Wrong);
    }
    let split = machine.split();
    if wrong(&split) {
        return Ok(Seen::WrongWhenSplit);
    }
    Ok(if split.races(1) || machine.races(2) { Seen::Races } else { Seen::Right })
}

/// Two threadblocks of a rank at one end of a connection: their order decides which message goes where.
fn two_owners(text: &str) -> bool {
    let mut rank = 0;
    let mut ends = BTreeSet::new();
    text.lines().any(|line| {
        let element = line.trim_start();
        if element.starts_with("<gpu") {
            rank += 1;
        }
        let end =
            |key: &str| (rank, key.to_owned(), attribute(line, key).to_owned(), attribute(line, "chan").to_owned());
        element.starts_with("<tb")
            && ["send", "recv"].iter().any(|key| attribute(line, key) != "-1" && !ends.insert(end(key)))
    })
}

/// An instruction that reads and writes ranges of one buffer that overlap without being the same.
fn overlaps(text: &str) -> bool {
    text.lines().filter(|line| line.trim_start().starts_with("<step")).any(|line| {
        let number = |key: &str| attribute(line, key).parse::<i64>().unwrap_or(-1);
        let distance = (number("srcoff") - number("dstoff")).abs();
        matches!(attribute(line, "type"), "re" | "cpy" | "rrc" | "rrcs")
            && attribute(line, "srcbuf") == attribute(line, "dstbuf")
            && 0 < distance
            && distance < number("cnt")
    })
}

#[derive(Default, Clone)]
struct Row {
    mutants: usize,
    unreadable: usize,
    refuted: usize,
    /// Of the refuted: those that a run of the machine shows wrong, those that race, hang when split, or break a rule.
    shown: usize,
    races: usize,
    split: usize,
    by_rule: usize,
    equivalent: usize,
}

/// Judges a mutant and compares; what is wrong with the judgement, if anything is.
fn compare(name: &str, mutant: &Mutant, row: &mut Row) -> Result<(), String> {
    let options = JudgeOptions { proof: Proof { smt: false, ..Proof::default() }, ..JudgeOptions::default() };
    let judged = judge_file("mutant.xml", mutant.text.as_bytes(), &options);
    let codes: Vec<&str> = judged.findings.iter().map(|finding| finding.code).collect();
    let told =
        |what: &str| Err(format!("{name}, {} at {}: {what}; {codes:?}\n{}", mutant.operator, mutant.at, mutant.text));
    row.mutants += 1;
    match judged.verdict {
        // The runtimes refuse the file; nothing runs.
        Verdict::Unreadable => {
            row.unreadable += 1;
            Ok(())
        }
        Verdict::Verified => {
            row.equivalent += 1;
            // Joined reductions are read as the runtime runs them, which the machine does not do.
            match observe(&mutant.text, SURVIVES) {
                _ if codes.contains(&"B017") => Ok(()),
                Ok(Seen::Right) => Ok(()),
                Ok(Seen::Wrong) => told("verified, but a run goes wrong"),
                Ok(Seen::WrongWhenSplit) => told("verified, but a run with one message a chunk goes wrong"),
                Ok(Seen::Races) => told("verified, but two accesses are not ordered"),
                Err(error) => told(&error),
            }
        }
        Verdict::Refuted => {
            row.refuted += 1;
            match observe(&mutant.text, TRIED) {
                Ok(Seen::Wrong) => row.shown += 1,
                Ok(Seen::WrongWhenSplit) => row.split += 1,
                Ok(Seen::Races) => row.races += 1,
                Ok(Seen::Right) if two_owners(&mutant.text) && (codes.contains(&"V104") || codes.contains(&"B078")) => {
                    row.by_rule += 1;
                }
                Ok(Seen::Right) if overlaps(&mutant.text) && codes.contains(&"V110") => row.by_rule += 1,
                Ok(Seen::Right) => return told("refuted, but every run is right"),
                Err(error) => return told(&error),
            }
            Ok(())
        }
        Verdict::Unknown => told("undecided"),
    }
}

#[test]
fn mutants_are_refuted_exactly_where_they_go_wrong() {
    let all = std::env::var("RONDO_MUTANTS").is_ok_and(|value| value == "all");
    let files = good_files();
    for (name, text) in &files {
        let judged = judge_file(name, text.as_bytes(), &JudgeOptions::default());
        assert_eq!(judged.verdict, Verdict::Verified, "{name}: {:#?}", judged.findings);
        assert!(matches!(observe(text, SURVIVES), Ok(Seen::Right)), "{name}: the machine of this test is wrong");
    }
    let mut jobs: Vec<(&str, Mutant)> = Vec::new();
    for (name, text) in &files {
        jobs.extend(mutants(text).into_iter().map(|mutant| (name.as_str(), mutant)));
    }
    let available = jobs.len();
    assert!(10_000 <= available, "only {available} mutants");
    // A fixed, seeded choice: about a fortieth.
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    if !all {
        jobs.retain(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.is_multiple_of(40)
        });
    }
    let judged: Vec<(&'static str, Row, Option<String>)> = jobs
        .par_iter()
        .map(|(name, mutant)| {
            let mut row = Row::default();
            let fault = compare(name, mutant, &mut row).err();
            (mutant.operator, row, fault)
        })
        .collect();
    let faults: Vec<&String> = judged.iter().filter_map(|(.., fault)| fault.as_ref()).collect();
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for (operator, row, _) in &judged {
        let sum = rows.entry(operator).or_default();
        sum.mutants += row.mutants;
        sum.unreadable += row.unreadable;
        sum.refuted += row.refuted;
        sum.shown += row.shown;
        sum.races += row.races;
        sum.split += row.split;
        sum.by_rule += row.by_rule;
        sum.equivalent += row.equivalent;
    }
    let table = table(&rows);
    println!("{} of {available} mutants of {} files\n{table}", jobs.len(), files.len());
    assert!(
        faults.is_empty(),
        "{} of {}:\n{}",
        faults.len(),
        jobs.len(),
        faults.iter().map(|fault| fault.lines().next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
            + "\n"
            + faults[0]
    );
    for (operator, share) in OPERATORS {
        let mutants = rows.get(operator).map_or(0, |row| row.mutants);
        assert!(share <= mutants as f64 / jobs.len() as f64, "{operator}: {mutants} of {}", jobs.len());
    }
    if all && std::env::var_os("RONDO_UPDATE").is_some() {
        std::fs::write(common::path("docs/mutation-suite.md"), page(&table, jobs.len(), files.len())).unwrap();
    }
}

fn table(rows: &BTreeMap<&str, Row>) -> String {
    let mut out = String::from(
        "| operator | mutants | unreadable | refuted | shown by a run | only when split | race without a wrong run | by rule | equivalent | killed |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (operator, _) in OPERATORS {
        let row = rows.get(operator).cloned().unwrap_or_default();
        let killed = 100.0 * (row.unreadable + row.refuted) as f64 / row.mutants.max(1) as f64;
        let _ = writeln!(
            out,
            "| {operator} | {} | {} | {} | {} | {} | {} | {} | {} | {killed:.1} % |",
            row.mutants, row.unreadable, row.refuted, row.shown, row.split, row.races, row.by_rule, row.equivalent
        );
    }
    out
}

fn page(table: &str, mutants: usize, files: usize) -> String {
    format!(
        "# The mutation suite\n\n{mutants} mutants of {files} right MSCCL XML files (written by Rondo for 2 to 4 ranks, and the corpus), each with one \
         fault, judged by\n`rondo verify` and run by a small machine in random orders (`tests/common/simulate.rs`, which shares nothing with \
         Rondo). Made by\n\n    RONDO_MUTANTS=all RONDO_UPDATE=1 cargo test --release --test mutation -- --nocapture\n\n{table}\n\
         *Unreadable*: the runtimes refuse the file. *Shown by a run*: an order in which it hangs, reads what nothing wrote, or ends wrong. \
         *Only\nwhen split*: with one message a chunk, as runtimes cut large messages. *Race*: no run that was tried goes wrong, but clocks over a run \
         leave\ntwo accesses unordered. *By rule*: two threadblocks at one end of a connection, or an instruction \
         whose source and destination overlap. *Equivalent*: verified, and right in every order \
         that was\ntried. No mutant that the machine makes go wrong is verified, and none is refuted without one of these reasons; the test \
         demands it.\n\n`cargo test` takes a fixed sample of about a fortieth.\n"
    )
}
