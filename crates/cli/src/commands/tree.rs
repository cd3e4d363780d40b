//! `ext4lab tree`: everything below a directory.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use clap::Args;
use ext4::{FileType, Filesystem, Finding, Inode, InodeNumber, ReadAt};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Findings, Verdict},
    arguments::{EXIT_STATUS, InImage, Source},
    bytes::Bytes,
    finding::{FindingRow, rows},
    image,
    inode::{target, type_name},
};

const EXAMPLES: &str = "\
Examples:
  ext4lab tree disk.img
  ext4lab tree --depth 2 disk.img /usr
";

/// Show everything below a directory
///
/// Entries are sorted by name, and symbolic links are not followed. A directory that is met twice, which no good image
/// has, is not entered again.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    path: InImage,

    /// Show only this many levels.
    #[arg(long, value_name = "LEVELS", default_value_t = u32::MAX, hide_default_value = true)]
    depth: u32,
}

/// A tree, flat: each directory is followed by what is below it. An image may be deeper than a stack.
#[derive(Serialize)]
struct Tree {
    path: Bytes,
    inode: u32,
    directories: u64,
    files: u64,
    entries: Vec<TreeRow>,
    findings: Vec<FindingRow>,
}

#[derive(Serialize)]
struct TreeRow {
    /// Levels below the beginning, from 1.
    depth: u32,
    inode: u32,
    #[serde(rename = "type")]
    file_type: &'static str,
    name: Bytes,
    target: Option<Bytes>,
    /// The last one in its directory.
    #[serde(skip)]
    is_last: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let number = filesystem.find(arguments.path.bytes())?;
    let (inode, findings) = filesystem.inode(number)?;
    if inode.file_type != Some(FileType::Directory) {
        return Err(Failure::NotThere(format!("inode {number} is no directory")));
    }
    let mut tree = Tree {
        path: Bytes(arguments.path.bytes().to_vec()),
        inode: number.get(),
        directories: 0,
        files: 0,
        entries: Vec::new(),
        findings: rows(findings),
    };
    tree.fill(&filesystem, (number, inode), arguments.depth);
    answer::give(&tree, arguments.source.format())
}

/// An entry that is still to be looked at.
struct Pending {
    row: TreeRow,
    /// None where the inode cannot be read.
    inode: Option<(InodeNumber, Inode)>,
}

impl Tree {
    fn fill<R: ReadAt>(&mut self, filesystem: &Filesystem<R>, root: (InodeNumber, Inode), most: u32) {
        let mut seen = BTreeSet::from([root.0]);
        let mut todo = self.children(filesystem, &root, 1, most);
        while let Some(Pending { row, inode }) = todo.pop() {
            let depth = row.depth;
            self.entries.push(row);
            let directory = inode.filter(|(_, inode)| inode.file_type == Some(FileType::Directory));
            let Some(directory) = directory else {
                self.files += 1;
                continue;
            };
            self.directories += 1;
            if seen.insert(directory.0) {
                todo.extend(self.children(filesystem, &directory, depth.saturating_add(1), most));
            } else {
                let text = "the directory has more than one name".to_owned();
                let offset = filesystem.locate(directory.0);
                let offset = offset.map_or(0, |location| filesystem.inode_offset(&location));
                self.findings
                    .push(Finding::of_inode(directory.0, offset, text).into());
            }
        }
    }

    /// What is in a directory, the last one first.
    fn children<R: ReadAt>(
        &mut self,
        filesystem: &Filesystem<R>,
        (number, inode): &(InodeNumber, Inode),
        depth: u32,
        most: u32,
    ) -> Vec<Pending> {
        if depth > most {
            return Vec::new();
        }
        let (mut entries, findings) = filesystem.entries(*number, inode);
        self.findings.extend(rows(findings));
        entries.retain(|entry| !matches!(entry.name.as_slice(), b"." | b".."));
        entries.sort_by(|one, other| other.name.cmp(&one.name));
        let pending = entries.into_iter().enumerate().map(|(index, entry)| {
            let read = InodeNumber::new(entry.inode)
                .and_then(|number| Some((number, filesystem.inode(number).ok()?.0)));
            let target = read
                .as_ref()
                .and_then(|(number, inode)| target(filesystem, *number, inode));
            let row = TreeRow {
                depth,
                inode: entry.inode,
                file_type: type_name(read.as_ref().and_then(|(_, inode)| inode.file_type)),
                name: Bytes(entry.name),
                target,
                is_last: index == 0,
            };
            Pending { row, inode: read }
        });
        pending.collect()
    }
}

impl Answer for Tree {
    const FINDINGS: Findings = Findings::Aside;

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.path)?;
        // What is drawn before an entry of this level: whether the directories around it go on.
        let mut before: Vec<&str> = Vec::new();
        for entry in &self.entries {
            before.truncate(entry.depth.saturating_sub(1) as usize);
            before
                .iter()
                .try_for_each(|part| out.write_all(part.as_bytes()))?;
            let (branch, below) = match entry.is_last {
                true => ("└── ", "    "),
                false => ("├── ", "│   "),
            };
            write!(out, "{branch}{}", entry.name)?;
            if let Some(target) = &entry.target {
                write!(out, " -> {target}")?;
            }
            writeln!(out)?;
            before.push(below);
        }
        writeln!(out, "\n{} directories, {} files", self.directories, self.files)
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}
