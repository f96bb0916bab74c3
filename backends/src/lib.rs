//! Plan formats: one module a format, each with `emit` and, where files of that kind exist in the wild, `parse`.
//!
//! Emitter and parser of a format share types but no mapping code or tables, so that one mistake cannot hide in both.

use rondo_ir::diagnostic::CodeEntry;

pub mod json;
pub mod msccl_xml;
pub mod mscclpp;

/// The codes of this crate, for `rondo explain`.
#[must_use]
pub fn codes() -> Vec<CodeEntry> {
    [json::CODES, msccl_xml::CODES, &msccl_xml::rule_codes(), mscclpp::CODES].concat()
}
