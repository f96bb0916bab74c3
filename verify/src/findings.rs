//! A list of findings with a limit, so that a schedule with a million faults still gives a report for people.

use rondo_ir::diagnostic::Diagnostic;

/// Findings up to a limit; those above it are counted.
#[derive(Debug)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    limit: usize,
    more: usize,
}

impl Findings {
    /// None yet; keeps at most `limit`, but at least one.
    pub fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit: limit.max(1), more: 0 }
    }

    /// Adds one, or counts it.
    pub fn add(&mut self, finding: Diagnostic) {
        if self.list.len() < self.limit { self.list.push(finding) } else { self.more += 1 }
    }

    /// Whether another one would be kept.
    pub fn has_room(&self) -> bool {
        self.list.len() < self.limit
    }

    /// Counts some that were not made.
    pub fn skip(&mut self, count: usize) {
        self.more += count;
    }

    /// All that were found.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The findings that were kept; the last one says how many were not.
    pub fn into_list(mut self) -> Vec<Diagnostic> {
        if self.more != 0
            && let Some(last) = self.list.last_mut()
        {
            last.notes.push(format!("{} more findings of this check are not listed", self.more));
        }
        self.list
    }
}
