//! What several subcommands tell of an inode.

use std::fmt;

use ext4::{Attribute, AttributePlace, FileType, Filesystem, Inode, MapNode, ReadAt, Run};
use serde::Serialize;

use crate::bytes::Bytes;

/// The name of a sort of file.
pub(crate) fn type_name(file_type: Option<FileType>) -> &'static str {
    match file_type {
        Some(FileType::Regular) => "regular",
        Some(FileType::Directory) => "directory",
        Some(FileType::Symlink) => "symlink",
        Some(FileType::Character) => "character device",
        Some(FileType::Block) => "block device",
        Some(FileType::Fifo) => "fifo",
        Some(FileType::Socket) => "socket",
        None => "unknown",
    }
}

/// Type and permissions as `ls -l` writes them.
pub(crate) fn mode_text(inode: &Inode) -> String {
    let mode = inode.raw.i_mode;
    let mut text = String::from(inode.file_type.map_or('?', FileType::letter));
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// The target of a symbolic link; `None` where it is none, or cannot be read.
pub(crate) fn target<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: ext4::InodeNumber,
    inode: &Inode,
) -> Option<Bytes> {
    let is_link = inode.file_type == Some(FileType::Symlink);
    is_link.then(|| filesystem.target(number, inode).ok().map(Bytes))?
}

/// Numbers of a device.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Device {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Device {
    pub(crate) fn of(inode: &Inode) -> Option<Self> {
        inode.device().map(|(major, minor)| Self { major, minor })
    }
}

/// Consecutive blocks of a file that lie side by side.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct RunRow {
    /// The first of them, counted in the file.
    pub(crate) logical: u32,
    /// The first of them, on the disk.
    pub(crate) block: u64,
    /// How many.
    pub(crate) blocks: u32,
    /// Allocated, but never written.
    pub(crate) unwritten: bool,
}

impl From<Run> for RunRow {
    fn from(run: Run) -> Self {
        Self {
            logical: run.logical,
            block: run.start.0,
            blocks: run.blocks,
            unwritten: run.unwritten,
        }
    }
}

impl fmt::Display for RunRow {
    /// As debugfs writes it: `(0-3[u]):100-103`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.unwritten { "[u]" } else { "" };
        let more = u64::from(self.blocks.saturating_sub(1));
        let (logical, block) = (u64::from(self.logical), self.block);
        if more == 0 {
            write!(f, "({logical}{mark}):{block}")
        } else {
            write!(f, "({logical}-{}{mark}):{block}-{}", logical + more, block + more)
        }
    }
}

/// A block of an extent tree or block map.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct NodeRow {
    /// Where it lies.
    pub(crate) block: u64,
    /// The node that points to it; none where that is the inode.
    pub(crate) parent: Option<u64>,
    /// Levels below it: 0 for a leaf.
    pub(crate) depth: u16,
    /// The first block of the file that it speaks for.
    pub(crate) logical: u32,
    /// Entries in use.
    pub(crate) entries: u32,
}

impl From<MapNode> for NodeRow {
    fn from(node: MapNode) -> Self {
        Self {
            block: node.block.0,
            parent: node.parent.map(|parent| parent.0),
            depth: node.depth,
            logical: node.logical,
            entries: node.entries,
        }
    }
}

/// An extended attribute.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AttributeRow {
    /// Its name with its prefix.
    pub(crate) name: Bytes,
    /// Its value; none where it cannot be read.
    pub(crate) value: Option<Bytes>,
    /// `inode`, `block` or `own inode`.
    pub(crate) place: &'static str,
    /// The block or the inode that holds the value, if it does not lie in the file's inode.
    pub(crate) at: Option<u64>,
    /// The access control list that the value is, entry by entry as `getfacl` prints it.
    pub(crate) acl: Option<Vec<String>>,
}

impl From<Attribute> for AttributeRow {
    fn from(attribute: Attribute) -> Self {
        let acl = attribute
            .acl()
            .map(|entries| entries.iter().map(ToString::to_string).collect());
        let (place, at) = match attribute.place {
            AttributePlace::Inode => ("inode", None),
            AttributePlace::Block(block) => ("block", Some(block.0)),
            AttributePlace::OwnInode(inode) => ("own inode", Some(inode.get().into())),
        };
        Self {
            name: Bytes(attribute.name),
            value: attribute.value.map(Bytes),
            place,
            at,
            acl,
        }
    }
}

impl AttributeRow {
    /// The value on one line: as text if it is one, else in hexadecimal digits, as `getfattr` does.
    pub(crate) fn value_text(&self) -> String {
        match &self.value {
            None => "unreadable".to_owned(),
            Some(value) if value.is_printable() => format!("\"{}\"", value.to_string().replace('"', "\\\"")),
            Some(value) => {
                let digits = value.0.iter().map(|byte| format!("{byte:02x}"));
                format!("0x{}", digits.collect::<String>())
            }
        }
    }

    /// Where the value lies, in words.
    pub(crate) fn place_text(&self) -> String {
        match self.at {
            None => "in the inode".to_owned(),
            Some(at) if self.place == "block" => format!("in block {at}"),
            Some(at) => format!("in inode {at}"),
        }
    }
}
