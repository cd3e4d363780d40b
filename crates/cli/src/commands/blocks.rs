//! `ext4lab blocks`: where a file's blocks are, and whose a block is.

use std::io::{self, Write};

use clap::Args;
use ext4::{BlockNumber, Filesystem, Finding, InodeNumber, Owner, ReadAt, Scan};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, InImage, Source},
    bytes::Bytes,
    finding::{FindingRow, rows},
    image,
    inode::{NodeRow, RunRow},
    progress::Progress,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab blocks disk.img /var/log/messages
  ext4lab blocks disk.img --owner 34816
";

/// Show where a file's blocks are, or whose a block is
///
/// Of a file: each run of blocks that lie side by side, and the blocks of its extent tree or block map. With --owner:
/// what a block is for. Where that does not follow from where it lies, every inode is looked at, which takes a while on
/// a large image.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    path: InImage,

    /// Tell what this block is for instead.
    #[arg(long, value_name = "BLOCK", conflicts_with = "path")]
    owner: Option<u64>,
}

/// The map of a file.
#[derive(Serialize)]
struct FileMap {
    inode: u32,
    size: u64,
    /// Blocks of data.
    blocks: u64,
    runs: Vec<RunRow>,
    map: Vec<NodeRow>,
    attribute_block: Option<u64>,
    findings: Vec<FindingRow>,
}

/// What a block is for.
#[derive(Serialize)]
struct BlockOwner {
    block: u64,
    /// The group that it belongs to.
    group: Option<u32>,
    /// What it is for: one of the words in docs/json.md.
    owner: &'static str,
    /// The group whose metadata it is.
    of_group: Option<u32>,
    /// The inode whose block it is.
    inode: Option<u32>,
    /// Which block of the file, or of the inode table.
    logical: Option<u32>,
    /// A path to the inode.
    path: Option<Bytes>,
    /// Whether the block bitmap has it in use.
    in_use: Option<bool>,
    findings: Vec<FindingRow>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let format = arguments.source.format();
    if let Some(block) = arguments.owner {
        return answer::give(&owner(&filesystem, BlockNumber(block))?, format);
    }
    let number = filesystem.find(arguments.path.bytes())?;
    answer::give(&file_map(&filesystem, number)?, format)
}

fn file_map<R: ReadAt>(filesystem: &Filesystem<R>, number: InodeNumber) -> Result<FileMap, Failure> {
    let (inode, mut findings) = filesystem.inode(number)?;
    let mapping = filesystem.mapping(number, &inode);
    findings.extend(mapping.findings);
    Ok(FileMap {
        inode: number.get(),
        size: inode.size,
        blocks: mapping.runs.iter().map(|run| u64::from(run.blocks)).sum(),
        runs: mapping.runs.into_iter().map(RunRow::from).collect(),
        map: mapping.nodes.into_iter().map(NodeRow::from).collect(),
        attribute_block: Some(inode.attribute_block).filter(|block| *block != 0),
        findings: rows(findings),
    })
}

fn owner<R: ReadAt>(filesystem: &Filesystem<R>, block: BlockNumber) -> Result<BlockOwner, Failure> {
    let geometry = filesystem.geometry();
    if !geometry.contains(block) {
        let blocks = geometry.blocks;
        return Err(Failure::NotThere(format!(
            "there is no block {block}: the file system has {blocks}"
        )));
    }
    let mut scan = Scan::new(Vec::new());
    let mut findings = Vec::new();
    let known = filesystem.static_owner(block);
    let owner = if known == Owner::Used {
        let mut progress = Progress::new();
        while !scan.index().is_whole() {
            let at = scan.step(filesystem);
            progress.show("who owns what", at.done, at.of);
        }
        if scan.index().is_full() {
            let text = "there are more runs of blocks than are looked through";
            let finding = Finding::error("image", geometry.offset_of(block), text);
            findings.push(finding.with_severity(ext4::Severity::Warning));
        }
        scan.index().owner(filesystem, block)
    } else {
        known
    };
    let index = scan.index();
    let (word, of_group, inode, logical) = parts(owner);
    let group = geometry.group_of(block);
    Ok(BlockOwner {
        block: block.0,
        group: group.map(|group| group.0),
        owner: word,
        of_group,
        inode: inode.map(InodeNumber::get),
        logical,
        path: inode.and_then(|inode| index.path(filesystem, inode)).map(Bytes),
        in_use: group.and_then(|group| filesystem.block_marked(group, block)),
        findings: rows(findings),
    })
}

type Parts = (&'static str, Option<u32>, Option<InodeNumber>, Option<u32>);

/// A word for it; the group, the inode, the block in it.
fn parts(owner: Owner) -> Parts {
    match owner {
        Owner::Superblock(group) => ("superblock", Some(group.0), None, None),
        Owner::Descriptors(group) => ("descriptors", Some(group.0), None, None),
        Owner::ReservedDescriptors(group) => ("reserved descriptors", Some(group.0), None, None),
        Owner::BlockBitmap(group) => ("block bitmap", Some(group.0), None, None),
        Owner::InodeBitmap(group) => ("inode bitmap", Some(group.0), None, None),
        Owner::InodeTable(group, index) => ("inode table", Some(group.0), None, Some(index)),
        Owner::MultiMount => ("multi-mount protection", None, None, None),
        Owner::Data(inode, logical) => ("data", None, Some(inode), Some(logical)),
        Owner::Map(inode) => ("map", None, Some(inode), None),
        Owner::Attributes(inode) => ("attributes", None, Some(inode), None),
        Owner::Used => ("used", None, None, None),
        Owner::Free => ("free", None, None, None),
        Owner::Unknown => ("unknown", None, None, None),
    }
}

impl Answer for FileMap {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let (inode, size, blocks) = (self.inode, self.size, self.blocks);
        writeln!(
            out,
            "inode {inode}: {size} bytes, {blocks} blocks in {} runs",
            self.runs.len()
        )?;
        if !self.runs.is_empty() {
            writeln!(out, "{:>12} {:>14} {:>10}", "logical", "block", "blocks")?;
        }
        for run in &self.runs {
            let mark = if run.unwritten { "  unwritten" } else { "" };
            writeln!(
                out,
                "{:>12} {:>14} {:>10}{mark}",
                run.logical, run.block, run.blocks
            )?;
        }
        for node in &self.map {
            let from = node
                .parent
                .map_or("the inode".to_owned(), |parent| format!("block {parent}"));
            writeln!(
                out,
                "map block {}: level {}, from logical block {} on, {} entries, below {from}",
                node.block, node.depth, node.logical, node.entries
            )?;
        }
        if let Some(block) = self.attribute_block {
            writeln!(out, "attribute block {block}")?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}

impl Answer for BlockOwner {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "block {}", self.block)?;
        if let Some(group) = self.group {
            write!(out, " in group {group}")?;
        }
        match self.owner {
            "used" => write!(out, ": in use, but no inode has it")?,
            "unknown" => write!(out, ": the block bitmap cannot be read")?,
            owner => write!(out, ": {owner}")?,
        }
        if let Some(group) = self.of_group {
            write!(out, " of group {group}")?;
        }
        if let Some(inode) = self.inode {
            write!(out, " of inode {inode}")?;
        }
        if let Some(path) = &self.path {
            write!(out, " ({path})")?;
        }
        if let Some(logical) = self.logical {
            write!(out, ", its block {logical}")?;
        }
        writeln!(out)
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}
