//! Reading through the whole disk, part by part: the check, and who owns what.

use ext4::{Filesystem, Index, ReadAt, Scan, ScanPhase};
use serde::{Deserialize, Serialize};

use super::Finding;

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadPhase {
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

impl ReadPhase {
    /// What it is doing, in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Groups => "group descriptors",
            Self::Inodes => "inode tables",
            Self::Directories => "directories",
            Self::Links => "names and links",
            Self::Bitmaps => "bitmaps",
            Self::Done => "done",
        }
    }
}

/// How far it is, and what it has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadingState {
    /// What it is doing.
    pub phase: ReadPhase,
    /// The part of everything that is done, 0 to 1, roughly.
    pub share: f32,
    /// What it counted: name and number.
    pub counts: Vec<(String, u64)>,
    /// Findings since the last time.
    pub findings: Vec<Finding>,
    /// Errors in all, also those that are not kept.
    pub errors: u64,
    /// Warnings in all.
    pub warnings: u64,
    /// Notes in all.
    pub notes: u64,
    /// There are more owners than are kept.
    pub owners_full: bool,
}

/// The reading, under way or done.
#[derive(Debug)]
pub struct Reader {
    scan: Scan,
    told: usize,
    share: f32,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Reader {
    /// A reading that has not begun, with the findings that opening the image gave.
    pub fn new(opened: Vec<ext4::Finding>) -> Self {
        Self {
            scan: Scan::new(opened),
            told: 0,
            share: 0.0,
        }
    }

    /// Who owns what, as far as is known.
    pub fn index(&self) -> &Index {
        self.scan.index()
    }

    /// Goes on while `more` says so, at least for one part; gives what is new.
    pub fn go_on<R: ReadAt>(
        &mut self,
        filesystem: &Filesystem<R>,
        mut more: impl FnMut() -> bool,
    ) -> ReadingState {
        while self.scan.phase() != ScanPhase::Done {
            self.step(filesystem);
            if !more() {
                break;
            }
        }
        self.state()
    }

    fn step<R: ReadAt>(&mut self, filesystem: &Filesystem<R>) {
        let progress = self.scan.step(filesystem);
        let part = match progress.of {
            0 => 1.0,
            of => progress.done as f32 / of as f32,
        };
        // Inodes and directories are most of the work.
        let (from, width) = match progress.phase {
            ScanPhase::Groups => (0.0, 0.05),
            ScanPhase::Inodes => (0.05, 0.5),
            ScanPhase::Directories => (0.55, 0.3),
            ScanPhase::Links => (0.85, 0.05),
            ScanPhase::Bitmaps => (0.9, 0.1),
            ScanPhase::Done => (1.0, 0.0),
        };
        self.share = from + width * part;
    }

    fn state(&mut self) -> ReadingState {
        let report = self.scan.report();
        let counts = &report.counts;
        let new = report.findings.get(self.told..).unwrap_or_default();
        let findings = new.iter().cloned().map(Finding::from).collect();
        self.told = report.findings.len();
        let phase = match self.scan.phase() {
            ScanPhase::Groups => ReadPhase::Groups,
            ScanPhase::Inodes => ReadPhase::Inodes,
            ScanPhase::Directories => ReadPhase::Directories,
            ScanPhase::Links => ReadPhase::Links,
            ScanPhase::Bitmaps => ReadPhase::Bitmaps,
            ScanPhase::Done => ReadPhase::Done,
        };
        ReadingState {
            phase,
            share: if phase == ReadPhase::Done { 1.0 } else { self.share },
            counts: [
                ("files", counts.files),
                ("directories", counts.directories),
                ("symbolic links", counts.symlinks),
                ("devices, pipes and sockets", counts.special),
                ("directory entries", counts.entries),
                ("blocks of data", counts.data_blocks),
                ("blocks of trees", counts.map_blocks),
                ("pieces of files", counts.runs),
                ("files in more than one piece", counts.fragmented),
                ("orphans", counts.orphans),
                ("checksums verified", counts.checksums),
            ]
            .map(|(name, number)| (name.to_owned(), number))
            .into(),
            findings,
            errors: report.errors,
            warnings: report.warnings,
            notes: report.notes,
            owners_full: self.scan.index().is_full(),
        }
    }
}
