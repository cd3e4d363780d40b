//! `ext4lab ls`: the entries of a directory.

use std::io::{self, Write};

use clap::Args;
use ext4::{FileType, Filesystem, Inode, InodeNumber, ReadAt};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Findings, Verdict},
    arguments::{EXIT_STATUS, InImage, Source},
    bytes::Bytes,
    finding::{FindingRow, rows},
    image,
    inode::{Device, mode_text, target, type_name},
    moment::Moment,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab ls disk.img /etc
  ext4lab ls --deleted --json disk.img '<2>' | jq '.entries[] | select(.deleted)'
";

/// List a directory, like `ls -lai`
///
/// Each line: inode, type and permissions, links, owner, group, size, time of the last change of the data in UTC,
/// name. Owner and group are numbers: an image does not say who they are. Of a device the size is its major and
/// minor number. Entries are sorted by name.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    path: InImage,

    /// List deleted entries too whose bytes are still in the directory. Their inodes may be in use by other files.
    #[arg(long)]
    deleted: bool,
}

/// A directory.
#[derive(Serialize)]
struct Listing {
    /// The directory's inode, or that of the file.
    inode: u32,
    entries: Vec<EntryRow>,
    findings: Vec<FindingRow>,
}

/// An entry, with what its inode says.
#[derive(Serialize)]
struct EntryRow {
    name: Bytes,
    inode: u32,
    deleted: bool,
    /// None where the inode cannot be read.
    attributes: Option<EntryInode>,
}

#[derive(Serialize)]
struct EntryInode {
    #[serde(rename = "type")]
    file_type: &'static str,
    mode: u16,
    mode_text: String,
    links: u16,
    uid: u32,
    gid: u32,
    size: u64,
    device: Option<Device>,
    modified: Moment,
    target: Option<Bytes>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let number = filesystem.find(arguments.path.bytes())?;
    let listing = listing(&filesystem, number, arguments)?;
    answer::give(&listing, arguments.source.format())
}

fn listing<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    arguments: &Arguments,
) -> Result<Listing, Failure> {
    let (inode, findings) = filesystem.inode(number)?;
    let mut findings = rows(findings);
    let mut entries = Vec::new();
    if inode.file_type == Some(FileType::Directory) {
        let mut wrong = Vec::new();
        let found = filesystem.directory(number, &inode, &mut |_, block, found| {
            let offset = block.map(|block| filesystem.geometry().offset_of(block));
            let texts = found.wrong.into_iter().map(|(at, text)| {
                let at = offset.unwrap_or(0).saturating_add(at as u64);
                ext4::Finding::of_inode(number, at, text)
            });
            wrong.extend(texts);
            let deleted = if arguments.deleted {
                found.deleted
            } else {
                Vec::new()
            };
            let all = found.entries.into_iter().map(|entry| (entry, false));
            for (entry, deleted) in all.chain(deleted.into_iter().map(|entry| (entry, true))) {
                entries.push(EntryRow::of(filesystem, entry.name, entry.inode, deleted));
            }
            true
        });
        findings.extend(rows(found.into_iter().chain(wrong)));
        entries.sort_by(|one, other| (&one.name, one.deleted).cmp(&(&other.name, other.deleted)));
    } else {
        let name = arguments.path.bytes().to_vec();
        entries.push(EntryRow::of(filesystem, name, number.get(), false));
    }
    Ok(Listing {
        inode: number.get(),
        entries,
        findings,
    })
}

impl EntryRow {
    fn of<R: ReadAt>(filesystem: &Filesystem<R>, name: Vec<u8>, inode: u32, deleted: bool) -> Self {
        let number = InodeNumber::new(inode);
        let read = number.and_then(|number| Some((number, filesystem.inode(number).ok()?.0)));
        Self {
            name: Bytes(name),
            inode,
            deleted,
            attributes: read.map(|(number, inode)| EntryInode::of(filesystem, number, &inode)),
        }
    }
}

impl EntryInode {
    fn of<R: ReadAt>(filesystem: &Filesystem<R>, number: InodeNumber, inode: &Inode) -> Self {
        Self {
            file_type: type_name(inode.file_type),
            mode: inode.raw.i_mode,
            mode_text: mode_text(inode),
            links: inode.raw.i_links_count,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size,
            device: Device::of(inode),
            modified: Moment(inode.modified),
            target: target(filesystem, number, inode),
        }
    }

    fn size_text(&self) -> String {
        match self.device {
            Some(Device { major, minor }) => format!("{major}, {minor}"),
            None => self.size.to_string(),
        }
    }
}

/// How wide the columns are.
#[derive(Default)]
struct Widths {
    inode: usize,
    links: usize,
    uid: usize,
    gid: usize,
    size: usize,
}

impl Widths {
    fn of(entries: &[EntryRow]) -> Self {
        let mut widths = Self::default();
        let wider = |width: &mut usize, text: String| *width = text.len().max(*width);
        for entry in entries {
            wider(&mut widths.inode, entry.inode.to_string());
            if let Some(inode) = &entry.attributes {
                wider(&mut widths.links, inode.links.to_string());
                wider(&mut widths.uid, inode.uid.to_string());
                wider(&mut widths.gid, inode.gid.to_string());
                wider(&mut widths.size, inode.size_text());
            }
        }
        widths
    }
}

impl Answer for Listing {
    const FINDINGS: Findings = Findings::Aside;

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let widths = Widths::of(&self.entries);
        for entry in &self.entries {
            let Some(inode) = &entry.attributes else {
                writeln!(
                    out,
                    "{:>1$} ?????????? {2}",
                    entry.inode, widths.inode, entry.name
                )?;
                continue;
            };
            write!(
                out,
                "{:>w$} {} {:>links$} {:>uid$} {:>gid$} {:>size$} {} {}",
                entry.inode,
                inode.mode_text,
                inode.links,
                inode.uid,
                inode.gid,
                inode.size_text(),
                inode.modified.short(),
                entry.name,
                w = widths.inode,
                links = widths.links,
                uid = widths.uid,
                gid = widths.gid,
                size = widths.size,
            )?;
            if let Some(target) = &inode.target {
                write!(out, " -> {target}")?;
            }
            writeln!(out, "{}", if entry.deleted { " (deleted)" } else { "" })?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}
