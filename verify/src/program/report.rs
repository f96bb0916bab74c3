//! Findings with places in the program.

use std::fmt;

use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::index::RankId;
use rondo_ir::program::SourceSpan;

/// An instruction of a program, or a threadblock or rank of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Whose program.
    pub rank: RankId,
    /// Threadblock, by its number in the file.
    pub threadblock: Option<u32>,
    /// Index in [`rondo_ir::program::Threadblock::operations`].
    pub operation: Option<u32>,
    /// For an operation in a loop: its number in the body, counted from 0 through nested loops.
    pub inner: Option<u32>,
    /// Where it stands in its file; line 0: no file.
    pub span: SourceSpan,
}

/// `r3 threadblock 1 instruction 4 (line 77)`
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rank)?;
        if let Some(threadblock) = self.threadblock {
            write!(f, " threadblock {threadblock}")?;
        }
        if let Some(operation) = self.operation {
            write!(f, " instruction {operation}")?;
        }
        if let Some(inner) = self.inner {
            write!(f, ".{inner}")?;
        }
        if self.span.line != 0 {
            write!(f, " (line {})", self.span.line)?;
        }
        Ok(())
    }
}

/// A finding and the instructions that it is about, the main one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFinding {
    /// For people. Its labels are empty: a program does not know the name of its file.
    pub diagnostic: Diagnostic,
    /// Instructions with a few words each.
    pub locations: Vec<(Location, String)>,
}

/// Collects findings and keeps the number of each code in bounds.
#[derive(Debug)]
pub(crate) struct Findings {
    list: Vec<ProgramFinding>,
    limit: usize,
    counts: Vec<(&'static str, usize)>,
    errors: usize,
}

impl Findings {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit, counts: Vec::new(), errors: 0 }
    }

    /// Errors so far, those that are not told in full included.
    pub(crate) const fn errors(&self) -> usize {
        self.errors
    }

    /// Adds one; the first of each code are kept, the others counted.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic, locations: Vec<(Location, String)>) {
        let code = diagnostic.code;
        if diagnostic.severity == Severity::Error {
            self.errors += 1;
        }
        let index = self.counts.iter().position(|&(known, _)| known == code).unwrap_or_else(|| {
            self.counts.push((code, 0));
            self.counts.len() - 1
        });
        self.counts[index].1 += 1;
        if self.counts[index].1 <= self.limit.max(1) {
            self.list.push(ProgramFinding { diagnostic, locations });
        }
    }

    /// Adds all of another list.
    pub(crate) fn extend(&mut self, other: Self) {
        for found in other.finish() {
            self.add(found.diagnostic, found.locations);
        }
    }

    /// All findings; the last of a code says how many more there are.
    pub(crate) fn finish(mut self) -> Vec<ProgramFinding> {
        for &(code, count) in &self.counts {
            let told = self.list.iter().filter(|finding| finding.diagnostic.code == code).count();
            if told < count
                && let Some(last) = self.list.iter_mut().rev().find(|finding| finding.diagnostic.code == code)
            {
                last.diagnostic.notes.push(format!("{} more of this kind", count - told));
            }
        }
        self.list
    }
}
