//! `ext4lab scan`: verifies everything.

use std::io::{self, Write};

use clap::Args;
use ext4::{Scan, ScanPhase, ScanReport};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, Source},
    finding::{FindingRow, rows},
    image::{self, Opened},
    progress::Progress,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab scan disk.img
  ext4lab scan --replayed --json disk.img | jq '.counts'
";

/// Verify everything: maps, directories, attributes, links, bitmaps, checksums
///
/// It looks for what e2fsck -fn looks for, and never changes anything. An image whose journal has not been replayed
/// is best scanned with --replayed: on its own it is in the middle of a change.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
}

/// What was found.
#[derive(Serialize)]
struct Verification {
    counts: Counts,
    errors: u64,
    warnings: u64,
    notes: u64,
    /// The first 2,000; the three numbers count the others too.
    findings: Vec<FindingRow>,
}

#[derive(Serialize)]
struct Counts {
    inodes: u64,
    files: u64,
    directories: u64,
    symlinks: u64,
    special: u64,
    entries: u64,
    runs: u64,
    map_blocks: u64,
    data_blocks: u64,
    fragmented: u64,
    orphans: u64,
    checksums: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let Opened {
        filesystem, findings, ..
    } = image::open(&arguments.source)?;
    let mut scan = Scan::new(findings);
    let mut progress = Progress::new();
    while scan.phase() != ScanPhase::Done {
        let at = scan.step(&filesystem);
        progress.show(phase_name(at.phase), at.done, at.of);
    }
    drop(progress);
    let report = scan.report();
    let verification = Verification::from(report);
    answer::give(&verification, arguments.source.format())?;
    // Errors beyond the findings that are kept count too.
    Ok(if report.errors > 0 {
        Verdict::Damaged
    } else {
        Verdict::Fine
    })
}

fn phase_name(phase: ScanPhase) -> &'static str {
    match phase {
        ScanPhase::Groups => "group descriptors",
        ScanPhase::Inodes => "inodes",
        ScanPhase::Directories => "directories",
        ScanPhase::Links => "links",
        ScanPhase::Bitmaps => "bitmaps",
        ScanPhase::Done => "done",
    }
}

impl From<&ScanReport> for Verification {
    fn from(report: &ScanReport) -> Self {
        let counts = report.counts;
        Self {
            counts: Counts {
                inodes: counts.inodes,
                files: counts.files,
                directories: counts.directories,
                symlinks: counts.symlinks,
                special: counts.special,
                entries: counts.entries,
                runs: counts.runs,
                map_blocks: counts.map_blocks,
                data_blocks: counts.data_blocks,
                fragmented: counts.fragmented,
                orphans: counts.orphans,
                checksums: counts.checksums,
            },
            errors: report.errors,
            warnings: report.warnings,
            notes: report.notes,
            findings: rows(report.findings.iter().cloned()),
        }
    }
}

impl Answer for Verification {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Counts {
            inodes,
            files,
            directories,
            symlinks,
            special,
            entries,
            runs,
            map_blocks,
            data_blocks,
            fragmented,
            orphans,
            checksums,
        } = self.counts;
        writeln!(
            out,
            "inodes        {inodes} in use: {files} files, {directories} directories, {symlinks} symbolic links, \
             {special} special"
        )?;
        writeln!(out, "entries       {entries}")?;
        writeln!(
            out,
            "blocks        {data_blocks} of data in {runs} runs, {map_blocks} of maps; {fragmented} files in pieces"
        )?;
        writeln!(out, "orphans       {orphans}")?;
        writeln!(out, "checksums     {checksums} verified")?;
        let (errors, warnings, notes) = (self.errors, self.warnings, self.notes);
        writeln!(
            out,
            "findings      {errors} errors, {warnings} warnings, {notes} notes"
        )?;
        let kept = self.findings.len() as u64;
        let all = errors + warnings + notes;
        if kept < all {
            writeln!(out, "              the first {kept} of them follow")?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}
