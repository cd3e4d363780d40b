//! Directories: entries, and what their blocks still hold of deleted ones.

use crate::{
    BlockNumber, FileType, Filesystem, Finding, Incompat, Inode, InodeFlags, InodeNumber, ReadAt,
    ReadFailure, htree::index_at, record::Stored,
};

/// Bytes of an entry before its name.
pub(crate) const ENTRY_HEADER: usize = 8;
/// Bytes of the checksum at the end of a block, made to look like an entry.
pub(crate) const TAIL_BYTES: usize = 12;
/// The "type" of that entry.
pub(crate) const TAIL_TYPE: u8 = 0xde;
/// Bytes before the entries of a directory that lies in its inode: the parent's number.
const INLINE_PARENT: usize = 4;
/// Bytes of a directory that are in the inode's `i_block`.
const INLINE_FIRST: usize = 60;
/// The most blocks of a directory that are read; the kernel's limit is lower.
const BLOCKS_MAX: u64 = 1 << 24;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode that it names.
    pub inode: u32,
    /// The name, as bytes; anything but `/` and zero bytes may be in it.
    pub name: Vec<u8>,
    /// The type that it carries; `None` where it carries none.
    pub file_type: Option<FileType>,
    /// Where it lies in its block.
    pub at: usize,
    /// Bytes up to the next entry.
    pub length: usize,
}

/// What one block of a directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryBlock {
    /// The entries in use, in the order of the block.
    pub entries: Vec<Entry>,
    /// Entries that were deleted and not yet overwritten.
    pub deleted: Vec<Entry>,
    /// What is wrong with it: where in the block, and a sentence.
    pub wrong: Vec<(usize, String)>,
}

/// Whether the room between entries is searched for deleted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slack {
    /// It is.
    Search,
    /// It is not: it holds an index of hashes, or nobody asks.
    Ignore,
}

/// How a file system's directory blocks are to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryFormat {
    has_types: bool,
    block_bytes: usize,
    inodes: u32,
    /// Encrypted names that ignore case are followed by their hash.
    hash_bytes: usize,
}

impl FileType {
    /// The number that stands for it in directory entries.
    pub fn entry_number(self) -> u8 {
        match self {
            Self::Regular => 1,
            Self::Directory => 2,
            Self::Character => 3,
            Self::Block => 4,
            Self::Fifo => 5,
            Self::Socket => 6,
            Self::Symlink => 7,
        }
    }

    /// The type that a directory entry's number stands for.
    pub fn of_entry(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::Character,
            4 => Self::Block,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::Symlink,
            _ => return None,
        })
    }
}

impl EntryFormat {
    /// `rec_len`: lengths that do not fit 16 bits have their high bits in the lowest two.
    pub(crate) fn length(&self, stored: u16) -> usize {
        let stored = usize::from(stored);
        if self.block_bytes < 65536 {
            stored
        } else if stored == 0 || stored == 65535 {
            65536
        } else {
            stored & 0xfffc | (stored & 3) << 16
        }
    }

    /// A length as `rec_len` stores it.
    pub(crate) fn stored_length(&self, length: usize) -> u16 {
        match u16::try_from(length) {
            Ok(length) => length,
            Err(_) if length == self.block_bytes => u16::MAX,
            Err(_) => u16::try_from(length & 0xfffc | length >> 16 & 3).unwrap_or(u16::MAX),
        }
    }

    /// Whether entries carry the type of what they name.
    pub(crate) fn has_types(&self) -> bool {
        self.has_types
    }

    /// The least bytes that an entry with a name of this length takes.
    pub(crate) fn least(&self, name: usize) -> usize {
        ENTRY_HEADER
            .saturating_add(name)
            .saturating_add(self.hash_bytes)
            .next_multiple_of(4)
    }

    fn entry(&self, block: &[u8], at: usize) -> Option<Entry> {
        let header = block.get(at..)?.get(..ENTRY_HEADER)?;
        let (name_bytes, number) = if self.has_types {
            (u8::get(header, 6).into(), u8::get(header, 7))
        } else {
            (usize::from(u16::get(header, 6)), 0)
        };
        let name = block
            .get(at.saturating_add(ENTRY_HEADER)..)?
            .get(..name_bytes)?
            .to_vec();
        Some(Entry {
            inode: u32::get(header, 0),
            name,
            file_type: FileType::of_entry(number),
            at,
            length: self.length(u16::get(header, 4)),
        })
    }

    /// The entries from `begin` on, up to the first that makes no sense.
    pub(crate) fn block(&self, block: &[u8], begin: usize, slack: Slack) -> DirectoryBlock {
        let mut found = DirectoryBlock::default();
        let mut at = begin;
        while at < block.len() {
            let left = block.len().saturating_sub(at);
            let length = self.length(u16::get(block, at.saturating_add(4)));
            let name_bytes = match self.has_types {
                true => u8::get(block, at.saturating_add(6)).into(),
                false => usize::from(u16::get(block, at.saturating_add(6))),
            };
            let in_use = u32::get(block, at) != 0;
            let wrong = if left < ENTRY_HEADER.saturating_add(4) {
                Some(format!("{left} bytes at its end are too few for an entry"))
            } else if length < ENTRY_HEADER.saturating_add(4) || !length.is_multiple_of(4) {
                Some(format!(
                    "the entry at byte {at} is said to be {length} bytes long"
                ))
            } else if length > left {
                Some(format!(
                    "the entry at byte {at} is {length} bytes long, past the end of the block"
                ))
            } else if in_use && ENTRY_HEADER.saturating_add(name_bytes).next_multiple_of(4) > length {
                Some(format!(
                    "the entry at byte {at} is {length} bytes long, too short for a name of {name_bytes}"
                ))
            } else {
                None
            };
            if let Some(wrong) = wrong {
                found.wrong.push((at, wrong));
                break;
            }
            let entry = self.entry(block, at);
            let mut free = at;
            match entry {
                Some(entry) if in_use => {
                    free = at.saturating_add(self.least(name_bytes));
                    found.entries.push(entry);
                }
                Some(entry)
                    if slack == Slack::Search && name_bytes > 0 && self.plausible_name(&entry.name) =>
                {
                    found.deleted.push(entry);
                    free = at.saturating_add(self.least(name_bytes));
                }
                _ => {}
            }
            let end = at.saturating_add(length);
            if slack == Slack::Search {
                self.deleted(block, free, end, &mut found.deleted);
            }
            at = end;
        }
        found
    }

    fn plausible_name(&self, name: &[u8]) -> bool {
        !name.is_empty() && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
    }

    /// What looks like an entry between two others.
    fn deleted(&self, block: &[u8], from: usize, to: usize, deleted: &mut Vec<Entry>) {
        let mut at = from;
        while at.saturating_add(ENTRY_HEADER) < to {
            let entry = self.entry(block, at).filter(|entry| {
                let least = self.least(entry.name.len());
                (1..=self.inodes).contains(&entry.inode)
                    && entry.length >= least
                    && entry.length.is_multiple_of(4)
                    && at.saturating_add(least) <= to
                    && (!self.has_types || entry.file_type.is_some())
                    && self.plausible_name(&entry.name)
            });
            match entry {
                Some(entry) => {
                    at = at.saturating_add(self.least(entry.name.len()));
                    deleted.push(entry);
                }
                None => at = at.saturating_add(4),
            }
        }
    }
}

/// A block of a directory, with what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Entries, and room for a checksum at the end or not.
    Leaf,
    /// A node of the index of hashes; where its counts lie.
    Index(usize),
}

impl<R: ReadAt> Filesystem<R> {
    pub(crate) fn entry_format(&self, directory: &Inode) -> EntryFormat {
        let hashed = InodeFlags(InodeFlags::ENCRYPTED.0 | InodeFlags::CASEFOLD.0);
        EntryFormat {
            has_types: self.superblock().incompat().has(Incompat::FILETYPE),
            block_bytes: self.block_bytes(),
            inodes: self.geometry().inodes,
            hash_bytes: if directory.flags.has(hashed) { 8 } else { 0 },
        }
    }

    /// Reads a directory, block by block: `visit` gets each block's number in the directory, its number on the
    /// disk (none for one that lies in its inode), and what it holds; it says whether to go on.
    ///
    /// Blocks that are wrong give what is before the wrong place, and findings.
    pub fn directory(
        &self,
        number: InodeNumber,
        inode: &Inode,
        visit: &mut dyn FnMut(u32, Option<BlockNumber>, DirectoryBlock) -> bool,
    ) -> Vec<Finding> {
        let format = self.entry_format(inode);
        if inode.flags.has(InodeFlags::INLINE_DATA) {
            return self.inline_directory(number, inode, format, visit);
        }
        let mapping = self.mapping(number, inode);
        let mut findings = mapping.findings;
        // Runs that lie over each other could make more blocks than there are.
        let mut left = self.geometry().blocks.min(BLOCKS_MAX);
        for run in &mapping.runs {
            for index in 0..run.blocks {
                let logical = run.logical.saturating_add(index);
                let Some(rest) = left.checked_sub(1) else {
                    return findings;
                };
                left = rest;
                let block = BlockNumber(run.start.0.saturating_add(index.into()));
                let found = match self.block(block) {
                    Ok(bytes) => {
                        let hashed = inode.flags.has(InodeFlags::INDEX);
                        let slack = match index_at(&bytes, hashed) {
                            BlockKind::Leaf => Slack::Search,
                            BlockKind::Index(_) => Slack::Ignore,
                        };
                        format.block(&bytes, 0, slack)
                    }
                    Err(why) => {
                        let offset = self.geometry().offset_of(block);
                        let text = format!("block {block} of the directory cannot be read: {why}");
                        findings.push(Finding::of_inode(number, offset, text));
                        continue;
                    }
                };
                if !visit(logical, Some(block), found) {
                    return findings;
                }
            }
        }
        findings
    }

    fn inline_directory(
        &self,
        number: InodeNumber,
        inode: &Inode,
        format: EntryFormat,
        visit: &mut dyn FnMut(u32, Option<BlockNumber>, DirectoryBlock) -> bool,
    ) -> Vec<Finding> {
        let data = self.inline_data(number, inode);
        let size = usize::try_from(inode.size).unwrap_or(usize::MAX).min(data.len());
        let data = data.get(..size).unwrap_or_default();
        let parent = u32::get(data, 0);
        let mut found = DirectoryBlock::default();
        // Neither `.` nor `..` is on the disk.
        for (name, inode) in [(".", number.get()), ("..", parent)] {
            found.entries.push(Entry {
                inode,
                name: name.into(),
                file_type: Some(FileType::Directory),
                at: 0,
                length: 0,
            });
        }
        let split = data.len().min(INLINE_FIRST);
        // The part in `i_block` and the part among the attributes are read each for itself.
        for (begin, part) in [
            (INLINE_PARENT, data.get(..split).unwrap_or_default()),
            (0, data.get(split..).unwrap_or_default()),
        ] {
            let part = format.block(part, begin, Slack::Search);
            found.entries.extend(part.entries);
            found.deleted.extend(part.deleted);
            found.wrong.extend(part.wrong);
        }
        visit(0, None, found);
        Vec::new()
    }

    /// All entries in use of a directory, `.` and `..` among them.
    pub fn entries(&self, number: InodeNumber, inode: &Inode) -> (Vec<Entry>, Vec<Finding>) {
        let mut entries = Vec::new();
        let mut wrong = Vec::new();
        let mut findings = self.directory(number, inode, &mut |_, block, found| {
            wrong.extend(
                found
                    .wrong
                    .into_iter()
                    .map(|(at, text)| self.directory_finding(number, block, at, text)),
            );
            entries.extend(found.entries);
            true
        });
        findings.extend(wrong);
        (entries, findings)
    }

    pub(crate) fn directory_finding(
        &self,
        number: InodeNumber,
        block: Option<BlockNumber>,
        at: usize,
        text: String,
    ) -> Finding {
        match block {
            None => self.inode_finding(number, text),
            Some(block) => {
                let offset = self.geometry().offset_of(block).saturating_add(at as u64);
                Finding::of_inode(number, offset, format!("directory block {block}: {text}"))
            }
        }
    }

    /// The inode that `name` leads to from a directory.
    pub fn lookup(&self, number: InodeNumber, inode: &Inode, name: &[u8]) -> Option<InodeNumber> {
        let mut found = None;
        self.directory(number, inode, &mut |_, _, block| {
            found = block
                .entries
                .iter()
                .find(|entry| entry.name == name)
                .map(|entry| entry.inode);
            found.is_none()
        });
        found.and_then(InodeNumber::new)
    }

    /// The inode at a path from the root, through symbolic links in its middle; `<12>` is inode 12.
    ///
    /// # Errors
    /// [`PathError`] says which part leads nowhere.
    pub fn find(&self, path: &[u8]) -> Result<InodeNumber, PathError> {
        let number = path.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">"));
        if let Some(number) = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()) {
            let inode = InodeNumber::new(number).filter(|inode| inode.get() <= self.geometry().inodes);
            return inode.ok_or(PathError::NoSuchInode(number));
        }
        let mut links = 0u8;
        self.find_from(InodeNumber::ROOT, path, &mut links)
    }

    fn find_from(&self, from: InodeNumber, path: &[u8], links: &mut u8) -> Result<InodeNumber, PathError> {
        const LINKS_MAX: u8 = 40;
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let mut here = if path.starts_with(b"/") {
            InodeNumber::ROOT
        } else {
            from
        };
        let mut parts = path
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty())
            .peekable();
        while let Some(part) = parts.next() {
            let (inode, _) = self.inode(here).map_err(PathError::Read)?;
            if inode.file_type != Some(FileType::Directory) {
                return Err(PathError::NotADirectory(text(part)));
            }
            let next = self
                .lookup(here, &inode, part)
                .ok_or_else(|| PathError::NotFound(text(part)))?;
            let (inode, _) = self.inode(next).map_err(PathError::Read)?;
            if inode.file_type == Some(FileType::Symlink) && parts.peek().is_some() {
                *links = links.saturating_add(1);
                if *links > LINKS_MAX {
                    return Err(PathError::TooManyLinks);
                }
                let target = self
                    .target(next, &inode)
                    .map_err(|error| PathError::Read(error.into()))?;
                here = self.find_from(here, &target, links)?;
            } else {
                here = next;
            }
        }
        Ok(here)
    }

    /// What a block of a directory is, and whether its checksum is right; `None` where it has none.
    pub(crate) fn directory_checksum(
        &self,
        number: InodeNumber,
        inode: &Inode,
        block: &[u8],
    ) -> Option<Result<(), String>> {
        let seed = self.seed()?.of_inode(number, inode.raw.i_generation);
        if let BlockKind::Index(at) = index_at(block, inode.flags.has(InodeFlags::INDEX)) {
            return Some(crate::htree::check_index(block, at, seed));
        }
        let tail = block.len().saturating_sub(TAIL_BYTES);
        let is_tail = u32::get(block, tail) == 0
            && u16::get(block, tail.saturating_add(4)) == 12
            && u8::get(block, tail.saturating_add(6)) == 0
            && u8::get(block, tail.saturating_add(7)) == TAIL_TYPE;
        if !is_tail {
            return Some(Err("it has no checksum".to_owned()));
        }
        let right = seed.over(block.get(..tail).unwrap_or_default()).0;
        let stored = u32::get(block, tail.saturating_add(8));
        Some(
            (right == stored)
                .then_some(())
                .ok_or_else(|| format!("its checksum is {stored:#010x}, but should be {right:#010x}")),
        )
    }
}

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// There is no such name.
    NotFound(String),
    /// What this name is looked for in is no directory.
    NotADirectory(String),
    /// There is no inode of this number.
    NoSuchInode(u32),
    /// Symbolic links lead in a circle, or nearly.
    TooManyLinks,
    /// Something on the way cannot be read.
    Read(ReadFailure),
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound(name) => write!(f, "there is no “{name}”"),
            Self::NotADirectory(name) => {
                write!(f, "“{name}” is looked for in something that is no directory")
            }
            Self::NoSuchInode(number) => write!(f, "there is no inode {number}"),
            Self::TooManyLinks => write!(f, "more than 40 symbolic links on the way"),
            Self::Read(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for PathError {}
