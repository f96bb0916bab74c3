//! Where in a file something was said.

use std::ops::Range;

/// A range of bytes of the job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Byte offset at which it starts.
    pub start: usize,
    /// Byte offset at which it ends.
    pub end: usize,
}

impl Span {
    /// As a range, for [`rondo_ir::diagnostic::Diagnostic::at`].
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A value with the place where it was given. Equality and order look at both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Spanned<T> {
    /// What was given.
    pub value: T,
    /// Where.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A value at a place.
    #[must_use]
    pub const fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }

    /// A value that no file holds (made by a program): its span is empty.
    #[must_use]
    pub const fn nowhere(value: T) -> Self {
        Self { value, span: Span { start: 0, end: 0 } }
    }

    /// The same place with another value.
    #[must_use]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: f(self.value), span: self.span }
    }
}
