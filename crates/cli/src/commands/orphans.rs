//! `ext4lab orphans`: inodes that are still to be freed or truncated.

use std::io::{self, Write};

use clap::Args;
use ext4::{Filesystem, Orphan, OrphanFate, OrphanPlace, ReadAt};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, Source},
    finding::{FindingRow, rows},
    image,
    inode::type_name,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab orphans disk.img
  ext4lab orphans --replayed disk.img
";

/// Show inodes that the next mount frees or truncates
///
/// They are remembered in a list that begins in the superblock, and with the feature orphan_file in slots of a file.
/// They are shown in the order of recovery.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
}

/// All orphans.
#[derive(Serialize)]
struct Orphans {
    orphans: Vec<OrphanRow>,
    findings: Vec<FindingRow>,
}

#[derive(Serialize)]
struct OrphanRow {
    inode: u32,
    /// `list` or `file`.
    place: &'static str,
    /// The block of the orphan file, and the slot in it.
    block: Option<u64>,
    slot: Option<u32>,
    /// `freed` or `truncated`.
    fate: &'static str,
    #[serde(rename = "type")]
    file_type: &'static str,
    links: u16,
    size: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let (orphans, findings) = filesystem.orphans();
    let orphans = Orphans {
        orphans: orphans
            .iter()
            .map(|orphan| OrphanRow::of(&filesystem, orphan))
            .collect(),
        findings: rows(findings),
    };
    answer::give(&orphans, arguments.source.format())
}

impl OrphanRow {
    fn of<R: ReadAt>(filesystem: &Filesystem<R>, orphan: &Orphan) -> Self {
        let inode = filesystem.inode(orphan.inode).ok().map(|(inode, _)| inode);
        let (place, block, slot) = match orphan.place {
            OrphanPlace::List => ("list", None, None),
            OrphanPlace::File { block, slot } => ("file", Some(block.0), Some(slot)),
        };
        Self {
            inode: orphan.inode.get(),
            place,
            block,
            slot,
            fate: match orphan.fate {
                OrphanFate::Freed => "freed",
                OrphanFate::Truncated => "truncated",
            },
            file_type: type_name(inode.as_ref().and_then(|inode| inode.file_type)),
            links: inode.as_ref().map_or(0, |inode| inode.raw.i_links_count),
            size: inode.as_ref().map_or(0, |inode| inode.size),
        }
    }
}

impl Answer for Orphans {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.orphans.is_empty() {
            return writeln!(out, "there are no orphans");
        }
        for orphan in &self.orphans {
            let place = match (orphan.block, orphan.slot) {
                (Some(block), Some(slot)) => format!("slot {slot} of block {block} of the orphan file"),
                _ => "the list".to_owned(),
            };
            let OrphanRow {
                inode,
                fate,
                file_type,
                links,
                size,
                ..
            } = orphan;
            writeln!(
                out,
                "inode {inode}: {file_type}, {links} links, {size} bytes, to be {fate}; in {place}"
            )?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}
