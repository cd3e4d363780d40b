//! Directories, files, where their blocks lie, and their attributes.

use ext4::{
    AttributePlace, FileType, Filesystem, Index, Inode, InodeFlags, InodeNumber, PathError, ReadAt,
    ReadFailure,
};
use serde::{Deserialize, Serialize};

use super::{Finding, Link};

/// Entries on one page of a directory.
const ENTRIES_MAX: usize = 1000;
/// Rows of a file's map.
const MAP_MAX: usize = 2000;
/// Bytes of a content at once.
const CONTENT_MAX: u64 = 64 << 10;
/// Bytes of an attribute's value that are shown.
const VALUE_MAX: usize = 4096;

/// What an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Special,
    /// It does not say.
    Unknown,
}

impl From<Option<FileType>> for EntryKind {
    fn from(file_type: Option<FileType>) -> Self {
        match file_type {
            Some(FileType::Regular) => Self::File,
            Some(FileType::Directory) => Self::Directory,
            Some(FileType::Symlink) => Self::Symlink,
            Some(_) => Self::Special,
            None => Self::Unknown,
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRow {
    /// The inode that it names.
    pub inode: u32,
    /// The name, as bytes.
    pub name: Vec<u8>,
    /// What it names.
    pub kind: EntryKind,
    /// It was deleted, but its bytes are still there.
    pub deleted: bool,
}

/// A part of a directory, sorted by name, deleted entries last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryPage {
    /// The directory.
    pub number: u32,
    /// The first entry that is here.
    pub first: u32,
    /// Entries in all, without `.` and `..`.
    pub total: u32,
    /// The entries.
    pub entries: Vec<EntryRow>,
    /// Where its `..` leads; 0 where there is none.
    pub parent: u32,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// A part of a directory, from entry `first` on.
///
/// # Errors
/// [`ReadFailure`] where there is no such inode, or it is no directory.
pub fn directory_page<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    first: u32,
) -> Result<DirectoryPage, ReadFailure> {
    let (inode, _) = filesystem.inode(number)?;
    if inode.file_type != Some(FileType::Directory) {
        return Err(ReadFailure::OutOfRange);
    }
    let mut rows = Vec::new();
    let mut parent = 0;
    let mut wrong = Vec::new();
    let mut findings = filesystem.directory(number, &inode, &mut |_, block, found| {
        for (entries, deleted) in [(found.entries, false), (found.deleted, true)] {
            for entry in entries {
                match entry.name.as_slice() {
                    b"." => {}
                    b".." => parent = entry.inode,
                    _ => rows.push(EntryRow {
                        inode: entry.inode,
                        // An image without types in its entries has them in the inodes.
                        kind: match entry.file_type {
                            None if !deleted => kind_of(filesystem, entry.inode),
                            known => known.into(),
                        },
                        name: entry.name,
                        deleted,
                    }),
                }
            }
        }
        wrong.extend(found.wrong.into_iter().map(|(at, text)| {
            let offset = block.map_or(0, |block| filesystem.geometry().offset_of(block)) + at as u64;
            ext4::Finding::of_inode(number, offset, text)
        }));
        true
    });
    findings.extend(wrong);
    rows.sort_by(|one, other| (one.deleted, &one.name).cmp(&(other.deleted, &other.name)));
    let total = rows.len() as u32;
    let entries = rows.into_iter().skip(first as usize).take(ENTRIES_MAX).collect();
    Ok(DirectoryPage {
        number: number.get(),
        first,
        total,
        entries,
        parent,
        findings: findings.into_iter().take(100).map(Finding::from).collect(),
    })
}

fn kind_of<R: ReadAt>(filesystem: &Filesystem<R>, number: u32) -> EntryKind {
    let inode = InodeNumber::new(number).and_then(|number| filesystem.inode(number).ok());
    inode.and_then(|(inode, _)| inode.file_type).into()
}

/// What a content looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sort {
    /// Text in UTF-8.
    Text,
    /// A picture that browsers show; its media type is told by its first bytes.
    Picture,
    /// Anything else.
    Bytes,
}

/// A part of a file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The file.
    pub number: u32,
    /// Where the part begins.
    pub offset: u64,
    /// The whole file's size.
    pub size: u64,
    /// The bytes, at most 64 KiB; holes and what was never written are zeros.
    pub bytes: Vec<u8>,
    /// What they look like.
    pub sort: Sort,
    /// Why they could not be read.
    pub trouble: Option<String>,
}

/// A part of an inode's content.
///
/// # Errors
/// [`ReadFailure`] where there is no such inode.
pub fn content<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    offset: u64,
) -> Result<Content, ReadFailure> {
    let (inode, _) = filesystem.inode(number)?;
    let file = filesystem.file(number, &inode);
    let left = file.size().saturating_sub(offset).min(CONTENT_MAX);
    let mut bytes = vec![0; left as usize];
    let trouble = file.read_at(offset, &mut bytes).err().map(|why| why.to_string());
    Ok(Content {
        number: number.get(),
        offset,
        size: file.size(),
        sort: sort(&bytes),
        bytes,
        trouble,
    })
}

/// All of an inode's content, where it is no more than `most` bytes.
///
/// # Errors
/// A clause that says why not.
pub fn whole<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    most: u64,
) -> Result<Vec<u8>, String> {
    let (inode, _) = filesystem.inode(number).map_err(|why| why.to_string())?;
    let file = filesystem.file(number, &inode);
    if file.size() > most {
        return Err(format!(
            "{} bytes are more than the {most} that can be kept at once",
            file.size()
        ));
    }
    let mut bytes = vec![0; file.size() as usize];
    file.read_at(0, &mut bytes).map_err(|why| why.to_string())?;
    Ok(bytes)
}

fn sort(bytes: &[u8]) -> Sort {
    const PICTURES: [&[u8]; 6] = [
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"GIF8",
        b"BM",
        b"RIFF",
        b"<svg",
    ];
    let riff = bytes.starts_with(b"RIFF") && bytes.get(8..12) != Some(b"WEBP");
    if PICTURES.iter().any(|magic| bytes.starts_with(magic)) && !riff {
        return Sort::Picture;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A character may be cut in two at the end of the part.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Sort::Bytes,
    };
    let control =
        |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t' | '\u{1b}' | '\u{c}');
    if text.chars().any(control) {
        Sort::Bytes
    } else {
        Sort::Text
    }
}

/// Blocks side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The first, counted in the file.
    pub logical: u32,
    /// The first, on the disk.
    pub start: u64,
    /// How many.
    pub blocks: u32,
    /// Allocated, but never written.
    pub unwritten: bool,
}

/// A block of a file's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Where it lies.
    pub block: u64,
    /// Levels below it.
    pub depth: u16,
    /// The first block of the file that it speaks for.
    pub logical: u32,
    /// Entries in use.
    pub entries: u32,
}

/// Where a file's blocks lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMap {
    /// "extent tree", "block map", or where else the data lie.
    pub kind: String,
    /// The first of its runs.
    pub runs: Vec<RunRow>,
    /// Runs in all.
    pub runs_total: u32,
    /// The first blocks of its tree.
    pub nodes: Vec<NodeRow>,
    /// Blocks of its tree in all.
    pub nodes_total: u32,
}

/// A node of a directory's index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashTreeNode {
    /// Its block, counted in the directory.
    pub logical: u32,
    /// Levels below it.
    pub level: u8,
    /// Room for children.
    pub limit: u16,
    /// The lowest hash in each child, and its block in the directory.
    pub children: Vec<(u32, u32)>,
}

/// The index of a hashed directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashTree {
    /// The hash in use.
    pub hash: String,
    /// Levels between the root and the blocks with entries.
    pub levels: u8,
    /// The nodes, root first.
    pub nodes: Vec<HashTreeNode>,
    /// What is wrong with it.
    pub wrong: Vec<String>,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeRow {
    /// Its name, as bytes.
    pub name: Vec<u8>,
    /// The first 4 KiB of its value; `None` where it cannot be read.
    pub value: Option<Vec<u8>>,
    /// Bytes of the whole value.
    pub bytes: u32,
    /// Where it lies in words, and what that leads to.
    pub place: String,
    /// Where that is.
    pub link: Option<Link>,
    /// The access control list that it is, entry by entry.
    pub acl: Option<Vec<String>>,
}

/// What hangs on an inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InodeDetails {
    /// The inode.
    pub number: u32,
    /// A path that leads to it, where one is known.
    pub path: Option<Vec<u8>>,
    /// Whether paths are known yet.
    pub paths_known: bool,
    /// What it is.
    pub kind: EntryKind,
    /// The target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
    /// Where its blocks lie.
    pub map: FileMap,
    /// The index of a hashed directory.
    pub hash_tree: Option<HashTree>,
    /// Its extended attributes.
    pub attributes: Vec<AttributeRow>,
    /// What is wrong with these.
    pub findings: Vec<Finding>,
}

/// What hangs on an inode.
///
/// # Errors
/// [`ReadFailure`] where there is no such inode.
pub fn inode_details<R: ReadAt>(
    filesystem: &Filesystem<R>,
    index: &Index,
    number: InodeNumber,
) -> Result<InodeDetails, ReadFailure> {
    let (inode, _) = filesystem.inode(number)?;
    let (attributes, mut findings) = filesystem.attributes(number, &inode);
    let mapping = filesystem.mapping(number, &inode);
    findings.extend(mapping.findings.iter().cloned());
    let hash_tree = inode
        .flags
        .has(InodeFlags::INDEX)
        .then(|| filesystem.directory_index(number, &inode))
        .flatten();
    Ok(InodeDetails {
        number: number.get(),
        path: index.path(filesystem, number),
        paths_known: index.is_whole(),
        kind: inode.file_type.into(),
        target: (inode.file_type == Some(FileType::Symlink))
            .then(|| filesystem.target(number, &inode).ok())
            .flatten(),
        device: inode.device(),
        map: file_map(filesystem, &inode, &mapping),
        hash_tree: hash_tree.map(hash_tree_of),
        attributes: attributes.into_iter().map(attribute_row).collect(),
        findings: findings.into_iter().take(100).map(Finding::from).collect(),
    })
}

fn file_map<R: ReadAt>(filesystem: &Filesystem<R>, inode: &Inode, mapping: &ext4::Mapping) -> FileMap {
    let kind = if inode.flags.has(InodeFlags::INLINE_DATA) {
        "in the inode itself"
    } else if !filesystem.maps_blocks(inode) {
        match inode.file_type {
            Some(FileType::Symlink) => "the target lies in the inode itself",
            _ => "it has no data",
        }
    } else if inode.flags.has(InodeFlags::EXTENTS) {
        "extent tree"
    } else {
        "block map"
    };
    FileMap {
        kind: kind.to_owned(),
        runs: mapping
            .runs
            .iter()
            .take(MAP_MAX)
            .map(|run| RunRow {
                logical: run.logical,
                start: run.start.0,
                blocks: run.blocks,
                unwritten: run.unwritten,
            })
            .collect(),
        runs_total: mapping.runs.len() as u32,
        nodes: mapping
            .nodes
            .iter()
            .take(MAP_MAX)
            .map(|node| NodeRow {
                block: node.block.0,
                depth: node.depth,
                logical: node.logical,
                entries: node.entries,
            })
            .collect(),
        nodes_total: mapping.nodes.len() as u32,
    }
}

fn hash_tree_of(index: ext4::DirectoryIndex) -> HashTree {
    HashTree {
        hash: index
            .version
            .map_or("not known", ext4::HashVersion::name)
            .to_owned(),
        levels: index.levels,
        nodes: index
            .nodes
            .into_iter()
            .take(MAP_MAX)
            .map(|node| HashTreeNode {
                logical: node.logical,
                level: node.level,
                limit: node.limit,
                children: node.children.into_iter().take(MAP_MAX).collect(),
            })
            .collect(),
        wrong: index.wrong.into_iter().map(|(_, text)| text).take(100).collect(),
    }
}

fn attribute_row(attribute: ext4::Attribute) -> AttributeRow {
    let (place, link) = match attribute.place {
        AttributePlace::Inode => ("in the inode".to_owned(), None),
        AttributePlace::Block(block) => (format!("in block {block}"), Some(Link::Block(block.0))),
        AttributePlace::OwnInode(inode) => (format!("in inode {inode}"), Some(Link::Inode(inode.get()))),
    };
    AttributeRow {
        acl: attribute
            .acl()
            .map(|entries| entries.iter().map(ToString::to_string).collect()),
        bytes: attribute.value.as_ref().map_or(0, |value| value.len() as u32),
        value: attribute.value.map(|mut value| {
            value.truncate(VALUE_MAX);
            value
        }),
        name: attribute.name,
        place,
        link,
    }
}

/// What a person looks for: a path, `<12>` or `inode 12`, a block's number, `block 12`.
///
/// # Errors
/// A sentence that says what is not there.
pub fn find<R: ReadAt>(filesystem: &Filesystem<R>, query: &str) -> Result<Link, String> {
    let query = query.trim();
    let geometry = filesystem.geometry();
    let words = query.to_ascii_lowercase();
    let number = |text: &str| {
        let text = text.trim();
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse::<u64>().ok(),
        }
    };
    let block = |number: u64| match geometry.contains(ext4::BlockNumber(number)) {
        true => Ok(Link::Block(number)),
        false => Err(format!(
            "There is no block {number}: the last is {}.",
            geometry.blocks.saturating_sub(1)
        )),
    };
    if let Some(number) = words
        .strip_prefix("block")
        .and_then(number)
        .or_else(|| number(query))
    {
        return block(number);
    }
    let inode = words
        .strip_prefix("inode")
        .and_then(number)
        .map(|number| format!("<{number}>"));
    let path = inode.unwrap_or_else(|| query.to_owned());
    match filesystem.find(path.as_bytes()) {
        Ok(inode) => Ok(Link::Inode(inode.get())),
        Err(why @ PathError::Read(_)) => Err(format!("The way there cannot be read: {why}.")),
        Err(why) => Err(format!("Not found: {why}.")),
    }
}
