//! Directories that change.

use std::sync::Arc;

use crate::{
    Block, Blocks, Compat, FileType, InodeFlags, InodeNumber, ReadAt, RoCompat, Timestamp, Volume,
    WriteError,
    directory::{ENTRY_HEADER, EntryFormat, TAIL_BYTES, TAIL_TYPE},
    number::divide_wide,
    record::Stored,
};

use super::memory_inode::MemoryInode;

/// The most bytes of a name.
const NAME_MAX: usize = 255;
/// Links from which on a directory's are not counted any more, or no more can be had.
const LINKS_MAX: u16 = 65000;

/// An entry that was found.
#[derive(Clone, Debug)]
pub struct FoundEntry {
    /// The inode that it names.
    pub inode: InodeNumber,
    pub(super) block: Arc<Block>,
    pub(super) at: usize,
    pub(super) before: Option<usize>,
}

/// An entry in a block, in use or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) length: usize,
    pub(super) inode: u32,
    pub(super) name_bytes: usize,
}

/// What goes into an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming<'n> {
    pub(super) name: &'n [u8],
    pub(super) inode: InodeNumber,
    pub(super) kind: Option<FileType>,
}

/// The entries of a block up to `end`, in use or not; `None` where they make no sense.
pub(super) fn places(format: &EntryFormat, bytes: &[u8], end: usize) -> Option<Vec<Place>> {
    let mut found = Vec::new();
    let mut at = 0usize;
    while at < end {
        let length = format.length(u16::get(bytes, at.saturating_add(4)));
        let name_bytes = match format.has_types() {
            true => u8::get(bytes, at.saturating_add(6)).into(),
            false => usize::from(u16::get(bytes, at.saturating_add(6))),
        };
        let inode = u32::get(bytes, at);
        let next = at.saturating_add(length);
        let least = if inode == 0 { 12 } else { format.least(name_bytes) };
        if length < least || !length.is_multiple_of(4) || next > end {
            return None;
        }
        found.push(Place {
            at,
            length,
            inode,
            name_bytes,
        });
        at = next;
    }
    Some(found)
}

/// Writes an entry of this length.
pub(super) fn put_entry(
    format: &EntryFormat,
    bytes: &mut [u8],
    at: usize,
    length: usize,
    naming: &Naming<'_>,
) {
    naming.inode.get().put(bytes, at);
    format.stored_length(length).put(bytes, at.saturating_add(4));
    let count = u8::try_from(naming.name.len()).unwrap_or(u8::MAX);
    count.put(bytes, at.saturating_add(6));
    let kind = naming
        .kind
        .filter(|_| format.has_types())
        .map_or(0, FileType::entry_number);
    kind.put(bytes, at.saturating_add(7));
    let begin = at.saturating_add(ENTRY_HEADER);
    if let Some(target) = bytes.get_mut(begin..begin.saturating_add(naming.name.len())) {
        target.copy_from_slice(naming.name);
    }
}

/// Puts an entry where there is room for it; whether there was.
pub(super) fn insert_entry(
    format: &EntryFormat,
    bytes: &mut [u8],
    end: usize,
    naming: &Naming<'_>,
) -> Option<bool> {
    let wanted = format.least(naming.name.len());
    for place in places(format, bytes, end)? {
        let used = if place.inode == 0 {
            0
        } else {
            format.least(place.name_bytes)
        };
        if place.length.saturating_sub(used) < wanted {
            continue;
        }
        let mut at = place.at;
        if used > 0 {
            format.stored_length(used).put(bytes, place.at.saturating_add(4));
            at = at.saturating_add(used);
        }
        put_entry(format, bytes, at, place.length.saturating_sub(used), naming);
        return Some(true);
    }
    Some(false)
}

impl<R: ReadAt> Volume<R> {
    pub(super) fn format_of(&self, directory: &MemoryInode) -> EntryFormat {
        self.reader().entry_format(&directory.decoded())
    }

    /// Where the entries of a block end: before the checksum, where there is one.
    pub(super) fn entries_end(&self) -> usize {
        let tail = if self.seed().is_some() { TAIL_BYTES } else { 0 };
        self.block_size().saturating_sub(tail)
    }

    /// Whether a directory's index is to be used.
    pub(super) fn is_hashed(&self, directory: &MemoryInode) -> bool {
        directory.flags().has(InodeFlags::INDEX) && self.superblock().compat().has(Compat::DIR_INDEX)
    }

    /// Writes the checksum at the end of a block with entries.
    pub(super) fn seal_entries(&self, directory: &MemoryInode, bytes: &mut [u8]) {
        let Some(seed) = self.seed() else {
            return;
        };
        let end = self.entries_end();
        0u32.put(bytes, end);
        12u16.put(bytes, end.saturating_add(4));
        0u8.put(bytes, end.saturating_add(6));
        TAIL_TYPE.put(bytes, end.saturating_add(7));
        let seed = seed.of_inode(directory.number, directory.raw.i_generation);
        let sum = seed.over(bytes.get(..end).unwrap_or_default()).0;
        sum.put(bytes, end.saturating_add(8));
    }

    pub(super) fn store_entries(&self, directory: &MemoryInode, block: &Arc<Block>, mut bytes: Vec<u8>) {
        self.seal_entries(directory, &mut bytes);
        self.store(block, 0, &bytes);
    }

    /// How many blocks a directory has.
    pub(super) fn directory_blocks(&self, directory: &MemoryInode) -> Result<u32, WriteError> {
        if !directory.is_directory() {
            return Err(WriteError::NotADirectory);
        }
        let blocks = divide_wide(directory.size(), self.geometry().block_bytes).0;
        let most = divide_wide(self.overlay.size(), self.geometry().block_bytes).0;
        let corrupt = WriteError::Corrupt(directory.number, "the directory is larger than the disk");
        u32::try_from(blocks)
            .ok()
            .filter(|_| blocks <= most)
            .ok_or(corrupt)
    }

    pub(super) fn directory_block(
        &self,
        directory: &MemoryInode,
        logical: u32,
    ) -> Result<Arc<Block>, WriteError> {
        Ok(self.overlay.get(self.block_at(directory, logical)?)?)
    }

    pub(super) fn broken(directory: &MemoryInode) -> WriteError {
        WriteError::Corrupt(directory.number, "a block of the directory makes no sense")
    }

    /// The entry of this name.
    ///
    /// # Errors
    /// Where the directory makes no sense or cannot be read.
    pub fn lookup(&self, directory: &MemoryInode, name: &[u8]) -> Result<Option<FoundEntry>, WriteError> {
        self.may_name(directory)?;
        if name.len() > NAME_MAX {
            return Err(WriteError::NameTooLong);
        }
        // The root of an index holds `.` and `..` too.
        if self.is_hashed(directory) && name != b"." && name != b".." {
            return self.lookup_hashed(directory, name);
        }
        for logical in 0..self.directory_blocks(directory)? {
            let block = self.directory_block(directory, logical)?;
            if let Some(found) = self.lookup_in(directory, &block, name)? {
                return Ok(Some(found));
            }
            if self.is_hashed(directory) {
                break;
            }
        }
        Ok(None)
    }

    /// Whether names of the directory can be read as they are.
    fn may_name(&self, directory: &MemoryInode) -> Result<(), WriteError> {
        for (flag, feature) in [
            (InodeFlags::ENCRYPTED, "encrypt"),
            (InodeFlags::CASEFOLD, "casefold"),
            (InodeFlags::INLINE_DATA, "inline_data"),
        ] {
            if directory.flags().has(flag) {
                return Err(WriteError::Feature(feature.to_owned()));
            }
        }
        Ok(())
    }

    pub(super) fn lookup_in(
        &self,
        directory: &MemoryInode,
        block: &Arc<Block>,
        name: &[u8],
    ) -> Result<Option<FoundEntry>, WriteError> {
        let format = self.format_of(directory);
        let bytes = block.to_vec();
        // In the root of an index `..` reaches to the end of the block.
        let end = match places(&format, &bytes, self.entries_end()) {
            Some(_) => self.entries_end(),
            None => bytes.len(),
        };
        let entries = places(&format, &bytes, end).ok_or(Self::broken(directory))?;
        let mut before = None;
        for entry in entries {
            let begin = entry.at.saturating_add(ENTRY_HEADER);
            if entry.inode != 0
                && entry.name_bytes == name.len()
                && bytes.get(begin..begin.saturating_add(name.len())) == Some(name)
            {
                let inode =
                    InodeNumber::new(entry.inode).filter(|inode| inode.get() <= self.geometry().inodes);
                let inode = inode.ok_or(Self::broken(directory))?;
                return Ok(Some(FoundEntry {
                    inode,
                    block: block.clone(),
                    at: entry.at,
                    before,
                }));
            }
            before = Some(entry.at);
        }
        Ok(None)
    }

    /// Adds a name, which must not be there yet. The caller stores the directory's inode.
    ///
    /// # Errors
    /// [`WriteError::NoSpace`] or [`WriteError::DirectoryFull`]; nothing has changed then. [`WriteError::Invalid`] and
    /// [`WriteError::NameTooLong`] for names that cannot be.
    pub fn add_entry(
        &self,
        directory: &mut MemoryInode,
        name: &[u8],
        inode: InodeNumber,
        kind: Option<FileType>,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        Self::check_name(name)?;
        self.may_change(directory)?;
        let naming = Naming { name, inode, kind };
        if self.is_hashed(directory) {
            self.add_hashed(directory, &naming)?;
        } else {
            directory.raw.i_flags &= !InodeFlags::INDEX.0;
            self.add_linear(directory, &naming)?;
        }
        directory.set_modified(now);
        Ok(())
    }

    pub(super) fn check_name(name: &[u8]) -> Result<(), WriteError> {
        if name.len() > NAME_MAX {
            return Err(WriteError::NameTooLong);
        }
        let odd = name.is_empty()
            || name == b"."
            || name == b".."
            || name.iter().any(|byte| matches!(byte, 0 | b'/'));
        if odd { Err(WriteError::Invalid) } else { Ok(()) }
    }

    fn add_linear(&self, directory: &mut MemoryInode, naming: &Naming<'_>) -> Result<(), WriteError> {
        let format = self.format_of(directory);
        let blocks = self.directory_blocks(directory)?;
        let end = self.entries_end();
        for logical in 0..blocks {
            let block = self.directory_block(directory, logical)?;
            let mut bytes = block.to_vec();
            if insert_entry(&format, &mut bytes, end, naming).ok_or(Self::broken(directory))? {
                self.store_entries(directory, &block, bytes);
                return Ok(());
            }
        }
        if blocks == 1
            && self.superblock().compat().has(Compat::DIR_INDEX)
            && self.name_hash_version().is_some()
        {
            return self.begin_index(directory, naming);
        }
        let block = self.append_block(directory)?;
        let mut bytes = block.to_vec();
        put_entry(&format, &mut bytes, 0, end, naming);
        self.store_entries(directory, &block, bytes);
        Ok(())
    }

    /// Adds an empty block to a directory.
    pub(super) fn append_block(&self, directory: &mut MemoryInode) -> Result<Arc<Block>, WriteError> {
        let logical = self.directory_blocks(directory)?;
        let grown = directory
            .size()
            .saturating_add(self.geometry().block_bytes.into());
        if grown > self.size_max(directory) || grown > u64::from(u32::MAX) {
            return Err(WriteError::TooBig);
        }
        let run = self.allocate_run(directory, logical, 1)?;
        directory.set_size(grown);
        Ok(self.overlay.fresh(run.start))
    }

    /// Several at once, all or none.
    pub(super) fn append_blocks(
        &self,
        directory: &mut MemoryInode,
        count: usize,
    ) -> Result<Vec<(u32, Arc<Block>)>, WriteError> {
        let (size, first) = (directory.size(), self.directory_blocks(directory)?);
        let mut blocks = Vec::new();
        let mut logical = first;
        while blocks.len() < count {
            match self.append_block(directory) {
                Ok(block) => blocks.push((logical, block)),
                Err(why) => {
                    directory.set_size(size);
                    self.free_blocks_from(directory, first.into())?;
                    return Err(why);
                }
            }
            logical = logical.saturating_add(1);
        }
        Ok(blocks)
    }

    /// Takes a name away. The caller stores the directory's inode.
    ///
    /// # Errors
    /// Where the block makes no sense any more.
    pub fn remove_entry(
        &self,
        directory: &mut MemoryInode,
        entry: &FoundEntry,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        self.may_change(directory)?;
        let format = self.format_of(directory);
        let mut bytes = entry.block.to_vec();
        let length = format.length(u16::get(&bytes, entry.at.saturating_add(4)));
        match entry.before {
            Some(before) => {
                let at = before.saturating_add(4);
                let both = format.length(u16::get(&bytes, at)).saturating_add(length);
                format.stored_length(both).put(&mut bytes, at);
            }
            None => 0u32.put(&mut bytes, entry.at),
        }
        self.store_entries(directory, &entry.block, bytes);
        directory.set_modified(now);
        Ok(())
    }

    /// Makes an entry name another inode. The caller stores the directory's inode.
    pub fn change_entry(
        &self,
        directory: &mut MemoryInode,
        entry: &FoundEntry,
        inode: InodeNumber,
        kind: Option<FileType>,
        now: Timestamp,
    ) {
        let format = self.format_of(directory);
        let mut bytes = entry.block.to_vec();
        inode.get().put(&mut bytes, entry.at);
        if format.has_types() {
            kind.map_or(0, FileType::entry_number)
                .put(&mut bytes, entry.at.saturating_add(7));
        }
        // The root of an index has another checksum: `..` lies there.
        if self.is_hashed(directory) && self.index_counts_at(&bytes).is_some() {
            self.seal_index_block(directory, &mut bytes);
            self.store(&entry.block, 0, &bytes);
        } else {
            self.store_entries(directory, &entry.block, bytes);
        }
        directory.set_modified(now);
    }

    /// Whether a directory has no entry but `.` and `..`.
    ///
    /// # Errors
    /// Where it makes no sense or cannot be read.
    pub fn is_empty(&self, directory: &MemoryInode) -> Result<bool, WriteError> {
        let format = self.format_of(directory);
        for logical in 0..self.directory_blocks(directory)? {
            let bytes = self.directory_block(directory, logical)?.to_vec();
            let entries = places(&format, &bytes, self.entries_end())
                .or_else(|| places(&format, &bytes, bytes.len()))
                .ok_or(Self::broken(directory))?;
            let named = |place: &Place| {
                let begin = place.at.saturating_add(ENTRY_HEADER);
                let name = bytes
                    .get(begin..begin.saturating_add(place.name_bytes))
                    .unwrap_or_default();
                place.inode != 0 && name != b"." && name != b".."
            };
            if entries.iter().any(named) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives a new directory its first block, with `.` and `..`. The caller stores its inode.
    ///
    /// # Errors
    /// [`WriteError::NoSpace`].
    pub fn begin_directory(
        &self,
        directory: &mut MemoryInode,
        parent: InodeNumber,
    ) -> Result<(), WriteError> {
        let block = self.append_block(directory)?;
        let format = self.format_of(directory);
        let mut bytes = block.to_vec();
        let kind = Some(FileType::Directory);
        put_entry(
            &format,
            &mut bytes,
            0,
            12,
            &Naming {
                name: b".",
                inode: directory.number,
                kind,
            },
        );
        let rest = self.entries_end().saturating_sub(12);
        put_entry(
            &format,
            &mut bytes,
            12,
            rest,
            &Naming {
                name: b"..",
                inode: parent,
                kind,
            },
        );
        self.store_entries(directory, &block, bytes);
        directory.raw.i_links_count = 2;
        Ok(())
    }

    /// Whether a directory may get one more directory.
    pub(super) fn may_link_directory(&self, directory: &MemoryInode) -> Result<(), WriteError> {
        let uncounted = self.superblock().ro_compat().has(RoCompat::DIR_NLINK) && self.is_hashed(directory);
        match directory.raw.i_links_count >= LINKS_MAX && !uncounted {
            true => Err(WriteError::TooManyLinks),
            false => Ok(()),
        }
    }

    /// Counts one more `..` that leads to a directory. Very many are not counted: 1 stands for them.
    pub(super) fn count_directory(&self, directory: &mut MemoryInode) {
        let links = directory.raw.i_links_count.saturating_add(1);
        let many = self.is_hashed(directory) && (links > LINKS_MAX || links == 2);
        directory.raw.i_links_count = if many { 1 } else { links };
    }

    /// Counts one less.
    pub(super) fn discount_directory(&self, directory: &mut MemoryInode) {
        if directory.raw.i_links_count > 2 {
            directory.raw.i_links_count = directory.raw.i_links_count.saturating_sub(1);
        }
    }

    /// Whether a file may get one more name.
    pub(super) fn may_link(&self, inode: &MemoryInode) -> Result<(), WriteError> {
        match inode.raw.i_links_count >= LINKS_MAX {
            true => Err(WriteError::TooManyLinks),
            false => Ok(()),
        }
    }
}
