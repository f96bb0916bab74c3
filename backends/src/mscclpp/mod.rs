//! MSCCL++ execution plans (JSON, version 2): what microsoft/mscclpp's executor loads from 0.8.0 on.
//!
//! [`parse`] reads a plan with the place of every value, checks what the executor does not, and [`Plan::lower`] turns
//! it into a [`OneSidedProgram`] that `rondo-verify` proves or refutes. Plans are read only.
//!
//! # What the format says
//! `gpus[r]` is rank r: chunks of its three buffers, channels (memory, port, switch; the k-th of a type from a to b is the
//! partner of the k-th from b to a), buffers of peers, semaphores, and threadblocks. A threadblock lists which of these it uses,
//! and operations that name entries of those lists. Index and size of an operand are in chunks.
//!
//! # Severity
//! - *Unreadable*: no JSON, a key missing, version 1.
//! - *Error*: the executor refuses it, reads beyond an array, or hangs.
//! - *Warning*: what is suspected from reading the kernel source and nobody ran. Where the verdict would rest on it, the plan is
//!   left undecided ([`Plan::doubts`]).
//!
//! The layers: `tree` (JSON with places), `model`, `read` (tree to model), `rules` (indices, shapes, limits), `lower`.

mod codes;
mod lower;
mod model;
mod profile;
mod read;
mod rules;
mod tree;

use std::ops::Range;

use rondo_ir::collective::Collective;
use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::onesided::OneSidedProgram;
use rondo_ir::program::SourceSpan;

pub use codes::CODES;
pub use profile::Profile;

use tree::Value;

/// Faults of one file that are told with their place.
const MOST_FAULTS: usize = 64;

/// Collects findings; each code a few times.
struct Faults {
    list: Vec<(Diagnostic, Range<usize>)>,
    beyond: usize,
    beyond_errors: usize,
}

impl Faults {
    fn add(&mut self, finding: Diagnostic, span: Range<usize>) {
        let same = self.list.iter().filter(|(known, _)| known.code == finding.code).count();
        if self.list.len() < MOST_FAULTS && same < 8 {
            self.list.push((finding, span));
        } else {
            self.beyond += 1;
            self.beyond_errors += usize::from(finding.severity == Severity::Error);
        }
    }

    fn errors(&self) -> bool {
        0 < self.beyond_errors || self.list.iter().any(|(finding, _)| finding.severity == Severity::Error)
    }

    fn finish(self, file: &str, text: &str) -> Vec<Diagnostic> {
        let mut findings: Vec<Diagnostic> = Vec::with_capacity(self.list.len());
        for (finding, span) in self.list {
            let start = letter(text, span.start).start;
            let span = start..letter(text, span.end.max(start)).start;
            findings.push(finding.at(file, span, ""));
        }
        if 0 < self.beyond
            && let Some(last) = findings.last_mut()
        {
            last.notes.push(format!("{} more findings of this file are not listed", self.beyond));
        }
        findings
    }
}

/// What a plan says that it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The collective; where nothing is promised, one with a free output.
    pub collective: Collective,
    /// Chunks a block.
    pub chunks: u32,
    /// Whether the name of the collective means something.
    pub promises: bool,
    /// Whether calls in place are claimed too, which cannot be decided for this collective.
    pub in_place_open: bool,
}

/// A plan as a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The program; its slots are pieces of chunks.
    pub program: OneSidedProgram,
    /// Turns that each pipeline makes in it.
    pub turns: u32,
}

/// A plan that keeps all rules.
#[derive(Debug)]
pub struct Plan {
    plan: model::Plan,
    lines: Vec<usize>,
    /// What it says that it does.
    pub claimed: Claimed,
    /// Name of the collective in the file.
    pub collective: String,
    /// Why the plan cannot be proved, whatever else is found.
    pub doubts: Vec<String>,
    /// Findings that do not stop it.
    pub warnings: Vec<Diagnostic>,
}

/// Why there is no plan.
#[derive(Debug)]
pub enum Failure {
    /// The text cannot be read as a plan of version 2.
    Unreadable(Vec<Diagnostic>),
    /// It can be read, and the runtime refuses it, hangs, or leaves its memory.
    Refuted(Vec<Diagnostic>),
    /// It is too large to follow.
    TooLarge(Vec<Diagnostic>),
}

/// Whether the bytes look like an execution plan of MSCCL++: a JSON object with `gpus` and `collective`, of either version.
#[must_use]
pub fn looks_like_plan(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
    let has = |bytes: &[u8], key: &[u8]| bytes.windows(key.len()).any(|window| window == key);
    let head = &bytes[..bytes.len().min(64 << 10)];
    bytes.first() == Some(&b'{') && (has(head, b"\"gpus\"") || has(bytes, b"\"gpus\"")) && has(bytes, b"\"collective\"")
}

/// Reads a plan and checks its rules. With `strict`, limits that the runtime does not check itself are errors too.
///
/// # Errors
/// Findings with their places, codes B200 … B220.
///
/// # Complexity
/// Near linear in the text; nothing is allocated from a number that the file claims.
pub fn parse(file: &str, bytes: &[u8], profile: &Profile, strict: bool) -> Result<Plan, Failure> {
    let unreadable = |finding: Diagnostic, span: Range<usize>| Failure::Unreadable(vec![finding.at(file, span, "")]);
    let whole = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        unreadable(Diagnostic::error("B200", "the plan is not UTF-8 text"), at..(at + 1).min(bytes.len()))
    })?;
    let skipped = whole.len() - whole.strip_prefix('\u{feff}').unwrap_or(whole).len();
    // Blanks in place of the mark keep all places right.
    let text = format!("{}{}", " ".repeat(skipped), &whole[skipped..]);
    let text = text.as_str();
    let tree = tree::read(text).map_err(|error| {
        let message = if error.cut {
            format!("the plan ends too early: {}", error.message)
        } else {
            format!("the plan is no well-formed JSON: {}", error.message)
        };
        unreadable(Diagnostic::error("B200", message), letter(text, error.at))
    })?;
    if let Some(span) = version_1(&tree) {
        let finding =
            Diagnostic::error("B201", "this is a plan of version 1 (MSCCL++ up to 0.7), which says `inputChunks`")
                .note("`cpkt` means unpacking there and packing in version 2")
                .help("write the plan again with the DSL of MSCCL++ 0.8 or newer");
        return Err(unreadable(finding, span));
    }
    let mut faults = Faults { list: Vec::new(), beyond: 0, beyond_errors: 0 };
    let plan = read::Reader { text, faults: &mut faults }.plan(&tree);
    drop(tree);
    let unread = |finding: &Diagnostic| finding.code == "B202";
    let Some(plan) = plan else { return Err(Failure::Unreadable(faults.finish(file, text))) };
    if faults.list.iter().any(|(finding, _)| unread(finding)) {
        return Err(Failure::Unreadable(faults.finish(file, text)));
    }
    if faults.errors() {
        return Err(Failure::Refuted(faults.finish(file, text)));
    }
    rules::check(&plan, profile, strict, &mut faults);
    if faults.errors() {
        return Err(Failure::Refuted(faults.finish(file, text)));
    }
    let claimed = match lower::claimed(&plan, (bytes.len() as u64).saturating_mul(16).clamp(1 << 17, 1 << 22)) {
        Ok(claimed) => claimed,
        Err((code, message)) => {
            faults.add(Diagnostic::error(code, message), plan.collective_span.clone());
            let findings = faults.finish(file, text);
            return Err(if code == "B219" { Failure::Refuted(findings) } else { Failure::TooLarge(findings) });
        }
    };
    let mut doubts = lower::doubts(&plan);
    if claimed.in_place_open {
        doubts.push("the file claims calls in place, which cannot be decided for this collective".to_owned());
    }
    let lines = std::iter::once(0).chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1));
    Ok(Plan {
        lines: lines.collect(),
        claimed,
        collective: plan.collective.clone(),
        doubts,
        warnings: faults.finish(file, text),
        plan,
    })
}

impl Plan {
    /// Turns that pipelines make, each to be tried.
    ///
    /// # Errors
    /// Why there would be too many.
    pub fn turns(&self) -> Result<Vec<u32>, String> {
        lower::turns(&self.plan)
    }

    /// The program in which each pipeline makes `turns` turns.
    ///
    /// # Errors
    /// Why it would be too large.
    pub fn lower(&self, turns: u32) -> Result<Lowered, String> {
        let place = |at: usize| {
            let line = self.lines.partition_point(|&start| start <= at);
            let start = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied().unwrap_or(0);
            let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            SourceSpan { line: number(line), column: number(at - start + 1) }
        };
        lower::lower(&self.plan, &self.claimed, turns.max(1), &place)
    }
}

/// The letter at or around a byte; empty at the end of the text.
fn letter(text: &str, at: usize) -> Range<usize> {
    let at = at.min(text.len());
    let start = (0..=at).rev().find(|&start| text.is_char_boundary(start)).unwrap_or(0);
    start..start + text[start..].chars().next().map_or(0, char::len_utf8)
}

/// Where a plan shows that it is of version 1.
fn version_1(tree: &tree::Tree) -> Option<Range<usize>> {
    let Value::Object(top) = &tree.value else { return None };
    let (_, _, gpus) = top.iter().find(|(key, ..)| key == "gpus")?;
    let Value::List(gpus) = &gpus.value else { return None };
    let Value::Object(gpu) = &gpus.first()?.value else { return None };
    let (_, span, _) = gpu.iter().find(|(key, ..)| key == "inputChunks")?;
    Some(span.clone())
}
