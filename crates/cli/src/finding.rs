//! Findings, as they are told.

use std::fmt;

use ext4::{Finding, Severity};
use serde::Serialize;

/// Something that is wrong or odd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FindingRow {
    /// `note`, `warning` or `error`.
    severity: &'static str,
    /// The structure, as a noun phrase.
    structure: String,
    /// Its field, if one is to blame.
    field: Option<&'static str>,
    /// Where it lies, in bytes from the start of the file system.
    offset: Option<u64>,
    /// The inode that it is about, if it is about one.
    inode: Option<u32>,
    /// One sentence that says what is wrong, with the value.
    text: String,
}

impl FindingRow {
    pub(crate) fn is_error(&self) -> bool {
        self.severity == "error"
    }
}

impl From<Finding> for FindingRow {
    fn from(finding: Finding) -> Self {
        Self {
            severity: match finding.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            },
            structure: finding.structure,
            field: finding.field,
            offset: finding.offset,
            inode: finding.inode.map(ext4::InodeNumber::get),
            text: finding.text,
        }
    }
}

/// The rows of these findings.
pub(crate) fn rows(findings: impl IntoIterator<Item = Finding>) -> Vec<FindingRow> {
    findings.into_iter().map(FindingRow::from).collect()
}

impl fmt::Display for FindingRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.structure, self.text)?;
        match self.offset {
            Some(offset) => write!(f, " (at byte {offset})"),
            None => Ok(()),
        }
    }
}
