//! Something that is wrong or odd, as data.

use std::fmt;

use crate::InodeNumber;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Odd, but the image can be used.
    Warning,
    /// Something is wrong.
    Error,
}

/// Something that is wrong or odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The structure, as a noun phrase.
    pub structure: String,
    /// Its field, if one is to blame.
    pub field: Option<&'static str>,
    /// Where it lies, in bytes from the start of the image.
    pub offset: Option<u64>,
    /// The inode that it is about, if it is about one.
    pub inode: Option<InodeNumber>,
    /// One sentence that says what is wrong, with the value.
    pub text: String,
}

impl Finding {
    /// An error in a structure at this offset.
    pub fn error(structure: impl Into<String>, offset: u64, text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            structure: structure.into(),
            field: None,
            offset: Some(offset),
            inode: None,
            text: text.into(),
        }
    }

    /// An error in an inode, or in what hangs on it at this offset.
    pub fn of_inode(inode: InodeNumber, offset: u64, text: impl Into<String>) -> Self {
        Self {
            inode: Some(inode),
            ..Self::error(format!("inode {inode}"), offset, text)
        }
    }

    /// The same, blamed on a field.
    pub fn in_field(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }

    /// The same, less bad.
    pub fn with_severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.structure, self.text)
    }
}
