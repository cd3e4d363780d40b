//! The full check: every inode, directory, map and bitmap, step by step, so that it can be shown and stopped.
//!
//! It never changes anything. What it looks for is what e2fsck looks for; what it keeps is one bit per block that
//! is in use, six bytes per inode of the groups that were ever used, and the index of who owns what.

mod bitmaps;
mod claims;
mod directories;
mod groups;
mod inodes;
mod links;

use claims::Claims;
use inodes::Inodes;

use crate::{Filesystem, Finding, Index, ReadAt, Severity};

/// The most findings that are kept; the others are counted.
const FINDINGS_MAX: usize = 2_000;

/// What a check is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScanPhase {
    /// Descriptors and where metadata lies.
    Groups,
    /// Inode tables, maps, attributes.
    Inodes,
    /// The entries of directories.
    Directories,
    /// Whether everything in use has a name.
    Links,
    /// Bitmaps and counts.
    Bitmaps,
    /// It is done.
    Done,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanProgress {
    /// What it is doing.
    pub phase: ScanPhase,
    /// Parts of this that are done.
    pub done: u64,
    /// Parts of this in all.
    pub of: u64,
}

/// What a check has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Inodes in use, reserved ones among them.
    pub inodes: u64,
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes and sockets.
    pub special: u64,
    /// Entries of directories, `.` and `..` among them.
    pub entries: u64,
    /// Extents, or runs of blocks side by side.
    pub runs: u64,
    /// Blocks of extent trees and block maps.
    pub map_blocks: u64,
    /// Blocks of files, directories and links.
    pub data_blocks: u64,
    /// Files in more than one piece.
    pub fragmented: u64,
    /// Inodes that remain as orphans.
    pub orphans: u64,
    /// Checksums that were verified.
    pub checksums: u64,
}

/// What a check has found.
#[derive(Clone, Debug, Default)]
pub struct ScanReport {
    /// What it counted.
    pub counts: ScanCounts,
    /// The first findings, at most 2,000.
    pub findings: Vec<Finding>,
    /// Errors, also those that are not kept.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Notes.
    pub notes: u64,
}

impl ScanReport {
    fn push(&mut self, finding: Finding) {
        let count = match finding.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
            Severity::Note => &mut self.notes,
        };
        *count = count.saturating_add(1);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }
}

/// A check under way.
#[derive(Debug)]
pub struct Scan {
    phase: ScanPhase,
    at: u64,
    /// Groups whose descriptors can be read.
    groups: u32,
    claims: Claims,
    /// Blocks of directories that were read: none is read twice, whoever shares it.
    read: Claims,
    inodes: Inodes,
    index: Index,
    report: ScanReport,
}

impl Scan {
    /// A check of a file system, with the findings that opening it gave.
    pub fn new(opened: Vec<Finding>) -> Self {
        let mut report = ScanReport::default();
        report.extend(opened);
        Self {
            phase: ScanPhase::Groups,
            at: 0,
            groups: 0,
            claims: Claims::default(),
            read: Claims::default(),
            inodes: Inodes::default(),
            index: Index::default(),
            report,
        }
    }

    /// Checks a part: a few groups, 256 KiB of an inode table, a directory. Gives how far it is.
    pub fn step<R: ReadAt>(&mut self, filesystem: &Filesystem<R>) -> ScanProgress {
        let of = match self.phase {
            ScanPhase::Groups => groups::step(self, filesystem),
            ScanPhase::Inodes => inodes::step(self, filesystem),
            ScanPhase::Directories => directories::step(self, filesystem),
            ScanPhase::Links => links::step(self, filesystem),
            ScanPhase::Bitmaps => bitmaps::step(self, filesystem),
            ScanPhase::Done => 0,
        };
        let progress = ScanProgress {
            phase: self.phase,
            done: self.at.min(of),
            of,
        };
        if self.at >= of {
            self.at = 0;
            self.phase = match self.phase {
                ScanPhase::Groups => ScanPhase::Inodes,
                ScanPhase::Inodes => ScanPhase::Directories,
                ScanPhase::Directories => {
                    self.index.finish();
                    ScanPhase::Links
                }
                ScanPhase::Links => ScanPhase::Bitmaps,
                ScanPhase::Bitmaps | ScanPhase::Done => ScanPhase::Done,
            };
        }
        progress
    }

    /// What it is doing next.
    pub fn phase(&self) -> ScanPhase {
        self.phase
    }

    /// Who owns what: known once it is past the directories.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// What it has found up to now.
    pub fn report(&self) -> &ScanReport {
        &self.report
    }

    /// Checks everything at once.
    pub fn run<R: ReadAt>(filesystem: &Filesystem<R>, opened: Vec<Finding>) -> ScanReport {
        let mut scan = Self::new(opened);
        while scan.phase != ScanPhase::Done {
            scan.step(filesystem);
        }
        scan.report
    }
}
