//! Whole operations, one part after the other, as one CPU alone does them.

use crate::{FileType, InodeNumber, ReadAt, Timestamp, Volume, WriteError, record::Stored};

use super::{
    directory::FoundEntry,
    memory_inode::{MemoryInode, NewInode},
    orphans::OrphanRecord,
};

/// The most bytes of a link's target.
const TARGET_MAX: usize = 4095;
/// Bytes that an inode has room for beside its fields.
const IN_INODE: usize = 60;

/// Permissions and owners to be set; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewAttributes {
    /// Permissions, without the type.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group owner.
    pub gid: Option<u32>,
    /// Last access.
    pub accessed: Option<Timestamp>,
    /// Last change of the data.
    pub modified: Option<Timestamp>,
}

impl<R: ReadAt> Volume<R> {
    /// A new inode, allocated and made, which nothing names yet.
    ///
    /// # Errors
    /// [`WriteError::NoInodes`], or where a structure cannot be read.
    pub fn allocate_inode(&self, parent: &MemoryInode, new: &NewInode) -> Result<MemoryInode, WriteError> {
        let directory = FileType::of_mode(new.mode) == Some(FileType::Directory);
        let number = self.allocate_inode_number(parent.number, directory)?;
        self.new_inode(number, new)
    }

    /// Makes a file, directory, device node, pipe or socket, or a link when `target` is given.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has changed then.
    pub fn create(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode,
        target: Option<&[u8]>,
    ) -> Result<InodeNumber, WriteError> {
        let mut parent = self.inode(directory)?;
        Self::check_name(name)?;
        self.may_change(&parent)?;
        if parent.raw.i_links_count == 0 {
            return Err(WriteError::NotFound);
        }
        if self.lookup(&parent, name)?.is_some() {
            return Err(WriteError::Exists);
        }
        let kind = FileType::of_mode(new.mode).ok_or(WriteError::Invalid)?;
        let is_directory = kind == FileType::Directory;
        if is_directory {
            self.may_link_directory(&parent)?;
        }
        if target.is_some_and(|target| {
            target.is_empty() || target.len() > TARGET_MAX.min(self.block_size().saturating_sub(1))
        }) {
            return Err(WriteError::NameTooLong);
        }
        let mut inode = self.allocate_inode(&parent, new)?;
        let filled = self.fill_new(&mut inode, &parent, target, new.now);
        let named =
            filled.and_then(|()| self.add_entry(&mut parent, name, inode.number, Some(kind), new.now));
        if let Err(why) = named {
            self.free_blocks_from(&mut inode, 0)?;
            self.free_inode(&mut inode, new.now)?;
            return Err(why);
        }
        if is_directory {
            self.count_directory(&mut parent);
        } else {
            inode.raw.i_links_count = 1;
        }
        self.write_inode(&mut inode);
        self.write_inode(&mut parent);
        Ok(inode.number)
    }

    /// Gives a new inode what it begins with.
    fn fill_new(
        &self,
        inode: &mut MemoryInode,
        parent: &MemoryInode,
        target: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        if inode.is_directory() {
            return self.begin_directory(inode, parent.number);
        }
        let Some(target) = target else {
            return Ok(());
        };
        if target.len() < IN_INODE {
            inode.raw.i_flags &= !crate::InodeFlags::EXTENTS.0;
            inode.raw.i_block = [0; IN_INODE];
            inode
                .raw
                .i_block
                .iter_mut()
                .zip(target)
                .for_each(|(place, byte)| *place = *byte);
            inode.set_size(target.len() as u64);
            return Ok(());
        }
        let written = self.write_data(inode, 0, target, now)?;
        if written < target.len() {
            Err(WriteError::NoSpace)
        } else {
            Ok(())
        }
    }

    /// Takes a name away, and what it named if that was its last: an unlink, and the evict that follows when nobody has
    /// the file open.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has changed then, unless a structure makes no sense.
    pub fn unlink(&self, directory: InodeNumber, name: &[u8], now: Timestamp) -> Result<(), WriteError> {
        if let Some((mut inode, record)) = self.unlink_only(directory, name, now)? {
            self.evict(&mut inode, Some(record), now)?;
        }
        Ok(())
    }

    /// An unlink of a file that somebody may have open: what is left to evict, and how it is recorded as an orphan.
    ///
    /// # Errors
    /// As for [`Volume::unlink`].
    pub fn unlink_only(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: Timestamp,
    ) -> Result<Option<(MemoryInode, OrphanRecord)>, WriteError> {
        let mut parent = self.inode(directory)?;
        let entry = self.lookup(&parent, name)?.ok_or(WriteError::NotFound)?;
        let mut inode = self.inode(entry.inode)?;
        if inode.is_directory() {
            return Err(WriteError::IsADirectory);
        }
        self.may_remove(&inode)?;
        self.remove_entry(&mut parent, &entry, now)?;
        self.write_inode(&mut parent);
        Ok(self.drop_link(&mut inode, now).map(|record| (inode, record)))
    }

    /// Immutable and append-only inodes keep their names.
    fn may_remove(&self, inode: &MemoryInode) -> Result<(), WriteError> {
        match self.may_change(inode) {
            Err(WriteError::NotPermitted) => Err(WriteError::NotPermitted),
            _ => Ok(()),
        }
    }

    /// Counts one name less and stores the inode; how it is recorded, if it was the last.
    fn drop_link(&self, inode: &mut MemoryInode, now: Timestamp) -> Option<OrphanRecord> {
        inode.raw.i_links_count = inode.raw.i_links_count.saturating_sub(1);
        inode.set_changed(now);
        let record = (inode.raw.i_links_count == 0).then(|| self.add_orphan(inode));
        self.write_inode(inode);
        record
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has changed then, unless a structure makes no sense.
    pub fn rmdir(&self, directory: InodeNumber, name: &[u8], now: Timestamp) -> Result<(), WriteError> {
        if name == b"." {
            return Err(WriteError::Invalid);
        }
        if name == b".." {
            return Err(WriteError::NotEmpty);
        }
        let mut parent = self.inode(directory)?;
        let entry = self.lookup(&parent, name)?.ok_or(WriteError::NotFound)?;
        let mut inode = self.inode(entry.inode)?;
        if !inode.is_directory() {
            return Err(WriteError::NotADirectory);
        }
        if !self.is_empty(&inode)? {
            return Err(WriteError::NotEmpty);
        }
        self.may_change(&inode)?;
        self.remove_entry(&mut parent, &entry, now)?;
        self.discount_directory(&mut parent);
        self.write_inode(&mut parent);
        self.drop_directory(&mut inode, now)
    }

    fn drop_directory(&self, inode: &mut MemoryInode, now: Timestamp) -> Result<(), WriteError> {
        inode.raw.i_links_count = 0;
        inode.set_size(0);
        inode.set_changed(now);
        let record = self.add_orphan(inode);
        self.write_inode(inode);
        self.evict(inode, Some(record), now)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has changed then.
    pub fn link(
        &self,
        file: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let mut parent = self.inode(directory)?;
        let mut inode = self.inode(file)?;
        if inode.is_directory() {
            return Err(WriteError::IsADirectory);
        }
        self.may_link(&inode)?;
        self.may_remove(&inode)?;
        if self.lookup(&parent, name)?.is_some() {
            return Err(WriteError::Exists);
        }
        let kind = inode.file_type();
        self.add_entry(&mut parent, name, file, kind, now)?;
        self.write_inode(&mut parent);
        inode.raw.i_links_count = inode.raw.i_links_count.saturating_add(1);
        inode.set_changed(now);
        self.write_inode(&mut inode);
        Ok(())
    }

    /// Gives a file or directory another name, in the same directory or another; what had that name goes.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has changed then, unless a structure makes no sense.
    pub fn rename(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let (source, target) = (self.inode(from.0)?, self.inode(to.0)?);
        Self::check_name(to.1)?;
        Self::check_name(from.1)?;
        let entry = self.lookup(&source, from.1)?.ok_or(WriteError::NotFound)?;
        let mut inode = self.inode(entry.inode)?;
        self.may_change(&source)?;
        self.may_change(&target)?;
        self.may_remove(&inode)?;
        let replaced = self.lookup(&target, to.1)?;
        if replaced
            .as_ref()
            .is_some_and(|replaced| replaced.inode == entry.inode)
        {
            return Ok(());
        }
        let moves = inode.is_directory() && from.0 != to.0;
        if inode.is_directory() && self.is_within(to.0, inode.number)? {
            return Err(WriteError::Invalid);
        }
        let old = match &replaced {
            None => None,
            Some(replaced) => Some(self.inode(replaced.inode)?),
        };
        if let Some(old) = &old {
            self.may_remove(old)?;
            match (inode.is_directory(), old.is_directory()) {
                (true, false) => return Err(WriteError::NotADirectory),
                (false, true) => return Err(WriteError::IsADirectory),
                (true, true) if !self.is_empty(old)? => return Err(WriteError::NotEmpty),
                _ => {}
            }
        }
        if moves && old.is_none() {
            self.may_link_directory(&target)?;
        }
        let dots = match moves {
            true => Some(self.lookup(&inode, b"..")?.ok_or(Self::broken(&inode))?),
            false => None,
        };
        self.put_name(to, &inode, replaced.as_ref(), now)?;
        // The entry may have gone elsewhere when a block was split.
        let mut source = self.inode(from.0)?;
        let entry = self.lookup(&source, from.1)?.ok_or(WriteError::NotFound)?;
        self.remove_entry(&mut source, &entry, now)?;
        let replaced_directory = old.as_ref().is_some_and(MemoryInode::is_directory);
        if inode.is_directory() && (moves || replaced_directory) {
            self.discount_directory(&mut source);
        }
        self.write_inode(&mut source);
        if let Some(dots) = dots {
            let mut target = self.inode(to.0)?;
            if !replaced_directory {
                self.count_directory(&mut target);
                self.write_inode(&mut target);
            }
            self.change_entry(&mut inode, &dots, to.0, Some(FileType::Directory), now);
        }
        inode.set_changed(now);
        self.write_inode(&mut inode);
        match old {
            Some(mut old) if replaced_directory => self.drop_directory(&mut old, now),
            Some(mut old) => match self.drop_link(&mut old, now) {
                Some(record) => self.evict(&mut old, Some(record), now),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn put_name(
        &self,
        (directory, name): (InodeNumber, &[u8]),
        inode: &MemoryInode,
        replaced: Option<&FoundEntry>,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let mut target = self.inode(directory)?;
        match replaced {
            Some(entry) => self.change_entry(&mut target, entry, inode.number, inode.file_type(), now),
            None => self.add_entry(&mut target, name, inode.number, inode.file_type(), now)?,
        }
        self.write_inode(&mut target);
        Ok(())
    }

    /// Whether a directory is another or lies below it.
    fn is_within(&self, mut directory: InodeNumber, top: InodeNumber) -> Result<bool, WriteError> {
        // No path is longer than there are inodes.
        for _ in 0..self.geometry().inodes {
            if directory == top {
                return Ok(true);
            }
            if directory == InodeNumber::ROOT {
                return Ok(false);
            }
            let inode = self.inode(directory)?;
            let dots = self.lookup(&inode, b"..")?.ok_or(Self::broken(&inode))?;
            directory = dots.inode;
        }
        Err(WriteError::Corrupt(directory, "its parents are a circle"))
    }

    /// Sets a file's size. While blocks are being freed it is recorded as an orphan.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has changed then, unless a structure makes no sense.
    pub fn set_file_size(&self, file: InodeNumber, size: u64, now: Timestamp) -> Result<(), WriteError> {
        match self.begin_truncate(file, size, now)? {
            Some((inode, record)) => self.finish_truncate(inode, record),
            None => Ok(()),
        }
    }

    /// The first handle of a truncation: the size is set, and a file that shrinks is recorded as an orphan until its
    /// blocks are freed.
    ///
    /// # Errors
    /// As for [`Volume::set_file_size`].
    pub fn begin_truncate(
        &self,
        file: InodeNumber,
        size: u64,
        now: Timestamp,
    ) -> Result<Option<(MemoryInode, OrphanRecord)>, WriteError> {
        let mut inode = self.inode(file)?;
        self.may_write(&inode)?;
        self.may_have_size(&inode, size)?;
        let record = (size < inode.size()).then(|| self.add_orphan(&mut inode));
        inode.set_size(size);
        inode.set_modified(now);
        self.write_inode(&mut inode);
        Ok(record.map(|record| (inode, record)))
    }

    /// The rest of it: blocks are freed, and the record goes.
    ///
    /// # Errors
    /// Where a structure makes no sense.
    pub fn finish_truncate(&self, mut inode: MemoryInode, record: OrphanRecord) -> Result<(), WriteError> {
        self.truncate_blocks(&mut inode)?;
        self.remove_orphan(&mut inode, record)?;
        self.write_inode(&mut inode);
        Ok(())
    }

    /// Whether it is a file that may be written.
    fn may_write(&self, inode: &MemoryInode) -> Result<(), WriteError> {
        match inode.file_type() {
            Some(FileType::Regular) => self.may_change(inode),
            Some(FileType::Directory) => Err(WriteError::IsADirectory),
            _ => Err(WriteError::Invalid),
        }
    }

    /// Writes bytes into a file; how many.
    ///
    /// # Errors
    /// As for [`Volume::write_data`].
    pub fn write(
        &self,
        file: InodeNumber,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Result<usize, WriteError> {
        let mut inode = self.inode(file)?;
        self.may_write(&inode)?;
        let written = self.write_data(&mut inode, offset, data, now)?;
        self.write_inode(&mut inode);
        Ok(written)
    }

    /// Sets permissions, owners and times.
    ///
    /// # Errors
    /// [`WriteError::NotPermitted`] where the inode is immutable.
    pub fn set_attributes(
        &self,
        number: InodeNumber,
        attributes: &NewAttributes,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let mut inode = self.inode(number)?;
        self.may_remove(&inode)?;
        let halves = |value: u32| {
            let [a, b, c, d] = value.to_le_bytes();
            (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))
        };
        if let Some(permissions) = attributes.permissions {
            inode.raw.i_mode = inode.raw.i_mode & 0xf000 | permissions & 0x0fff;
        }
        if let Some(uid) = attributes.uid {
            (inode.raw.i_uid, inode.raw.i_uid_high) = halves(uid);
        }
        if let Some(gid) = attributes.gid {
            (inode.raw.i_gid, inode.raw.i_gid_high) = halves(gid);
        }
        if let Some(modified) = attributes.modified {
            inode.set_modified(modified);
        }
        if let Some(accessed) = attributes.accessed {
            inode.set_accessed(accessed);
        }
        inode.set_changed(now);
        self.write_inode(&mut inode);
        Ok(())
    }

    /// Makes an inode a device node of this number, in memory only.
    pub fn set_device(inode: &mut MemoryInode, major: u32, minor: u32) {
        let old = major < 256 && minor < 256;
        let (first, second) = match old {
            true => (major << 8 | minor, 0),
            false => (0, minor & 0xff | major << 8 | (minor & 0xfff_ff00) << 12),
        };
        first.put(&mut inode.raw.i_block, 0);
        second.put(&mut inode.raw.i_block, 4);
    }
}
