//! Inodes in memory.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use crate::{
    Block, BlockNumber, Blocks, FileType, Incompat, Inode, InodeFlags, InodeNumber, RawInode, ReadAt,
    ReadFailure, RoCompat, Timestamp, Volume, WriteError,
    number::{divide, place},
    record::Stored,
    seal_inode,
    xattr::release_attribute_block,
};

/// An inode in memory, with its place in the table. Changes count when [`Volume::write_inode`] has stored them.
#[derive(Clone, Debug)]
pub struct MemoryInode {
    /// Its number.
    pub number: InodeNumber,
    /// Its fields as they are to be stored.
    pub raw: RawInode,
    block: Arc<Block>,
    at: usize,
    bytes: Vec<u8>,
}

/// What a new inode is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// Type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group owner.
    pub gid: u32,
    /// The moment of its creation.
    pub now: Timestamp,
}

/// An extent header: magic, no entries, room for 4, depth 0.
pub(super) const EMPTY_EXTENTS: [u8; 12] = [0x0a, 0xf3, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];

fn low_high(value: u32) -> (u16, u16) {
    let [a, b, c, d] = value.to_le_bytes();
    (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))
}

impl MemoryInode {
    /// What sort of file it is.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::of_mode(self.raw.i_mode)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.raw.i_size_lo) | u64::from(self.raw.i_size_high) << 32
    }

    /// Sets its size.
    pub fn set_size(&mut self, size: u64) {
        let [a, b, c, d, e, f, g, h] = size.to_le_bytes();
        self.raw.i_size_lo = u32::from_le_bytes([a, b, c, d]);
        self.raw.i_size_high = u32::from_le_bytes([e, f, g, h]);
    }

    /// Its flags.
    pub fn flags(&self) -> InodeFlags {
        InodeFlags(self.raw.i_flags)
    }

    /// Whether its blocks are mapped by extents.
    pub fn has_extents(&self) -> bool {
        self.flags().has(InodeFlags::EXTENTS)
    }

    /// It, decoded.
    pub fn decoded(&self) -> Inode {
        let mut bytes = self.bytes.clone();
        self.raw.encode(&mut bytes);
        Inode::decode(&bytes)
    }

    /// Where it lies: the block of the table, and the offset in it.
    pub fn place(&self) -> (&Arc<Block>, usize) {
        (&self.block, self.at)
    }

    /// Whether a field that ends `end` bytes into the inode counts.
    fn has_field(&self, end: u16) -> bool {
        self.bytes.len() > 128 && self.raw.i_extra_isize.saturating_add(128) >= end
    }

    /// Sets the time of the last change of the inode.
    pub fn set_changed(&mut self, now: Timestamp) {
        let (seconds, extra) = now.encode();
        self.raw.i_ctime = seconds;
        if self.has_field(0x88) {
            self.raw.i_ctime_extra = extra;
        }
    }

    /// Sets the times of the last change of the data and of the inode.
    pub fn set_modified(&mut self, now: Timestamp) {
        self.set_changed(now);
        let (seconds, extra) = now.encode();
        self.raw.i_mtime = seconds;
        if self.has_field(0x8c) {
            self.raw.i_mtime_extra = extra;
        }
    }

    /// Sets the time of the last access.
    pub fn set_accessed(&mut self, now: Timestamp) {
        let (seconds, extra) = now.encode();
        self.raw.i_atime = seconds;
        if self.has_field(0x90) {
            self.raw.i_atime_extra = extra;
        }
    }
}

impl<R: ReadAt> Volume<R> {
    /// An inode, as it lies in its table.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn inode(&self, number: InodeNumber) -> Result<MemoryInode, WriteError> {
        let geometry = self.geometry();
        let (group, index) = geometry.place_of(number).ok_or(ReadFailure::OutOfRange)?;
        let (table_block, slot) = divide(index, geometry.slots_per_block());
        let table = self.group(group)?.inode_table();
        let block = BlockNumber(table.0.saturating_add(table_block.into()));
        if !geometry.contains(block) || table.0 == 0 {
            return Err(ReadFailure::BadPointer(block).into());
        }
        let block = self.overlay.get(block)?;
        let at = place(slot.saturating_mul(geometry.inode_bytes));
        let mut bytes = vec![0; place(geometry.inode_bytes)];
        block.load(at, &mut bytes);
        let raw = RawInode::decode(&bytes);
        Ok(MemoryInode {
            number,
            raw,
            block,
            at,
            bytes,
        })
    }

    /// Makes a free inode a new one, in memory only. Its links are 0: nothing names it yet.
    ///
    /// # Errors
    /// Where its slot cannot be read.
    pub fn new_inode(&self, number: InodeNumber, new: &NewInode) -> Result<MemoryInode, WriteError> {
        let mut inode = self.inode(number)?;
        inode.bytes.fill(0);
        let mut raw = RawInode::decode(&inode.bytes);
        raw.i_mode = new.mode;
        (raw.i_uid, raw.i_uid_high) = low_high(new.uid);
        (raw.i_gid, raw.i_gid_high) = low_high(new.gid);
        raw.i_generation = self.next_generation();
        let superblock = self.superblock();
        let room = u16::try_from(inode.bytes.len().saturating_sub(128)).unwrap_or(u16::MAX);
        if room > 0 {
            // What a kernel knows of an inode: up to i_projid.
            let wanted = match superblock.ro_compat().has(RoCompat::EXTRA_ISIZE) {
                true => superblock.s_want_extra_isize.clamp(4, 32),
                false => 32,
            };
            raw.i_extra_isize = wanted.min(room) & !3;
        }
        let kind = FileType::of_mode(new.mode);
        let mapped = matches!(
            kind,
            Some(FileType::Regular | FileType::Directory | FileType::Symlink)
        );
        if mapped && superblock.incompat().has(Incompat::EXTENTS) {
            raw.i_flags = InodeFlags::EXTENTS.0;
            if let Some(header) = raw.i_block.first_chunk_mut() {
                *header = EMPTY_EXTENTS;
            }
        }
        inode.raw = raw;
        inode.set_modified(new.now);
        inode.set_accessed(new.now);
        if inode.has_field(0x98) {
            (inode.raw.i_crtime, inode.raw.i_crtime_extra) = new.now.encode();
        }
        Ok(inode)
    }

    fn next_generation(&self) -> u32 {
        // A step of a generator with full period; what matters is that numbers differ and come again with the seed.
        let next = |now: u32| now.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let before = self
            .generation
            .fetch_update(Relaxed, Relaxed, |now| Some(next(now)));
        before.unwrap_or_else(|before| before)
    }

    /// Stores an inode in its table block, with its checksum.
    pub fn write_inode(&self, inode: &mut MemoryInode) {
        inode.raw.encode(&mut inode.bytes);
        if let Some(seed) = self.seed() {
            seal_inode(seed, inode.number, &mut inode.bytes);
        }
        self.store(&inode.block, inode.at, &inode.bytes);
    }

    /// Adds to the space that an inode uses, in blocks; takes away where negative.
    pub(super) fn count_blocks(&self, inode: &mut MemoryInode, blocks: i64) {
        let unit = match inode.flags().has(InodeFlags::HUGE_FILE) {
            true => 1,
            false => i64::from(self.geometry().block_bytes / 512),
        };
        let now = u64::from(inode.raw.i_blocks_lo) | u64::from(inode.raw.i_blocks_high) << 32;
        let [a, b, c, d, e, f, ..] = now
            .saturating_add_signed(blocks.saturating_mul(unit))
            .to_le_bytes();
        inode.raw.i_blocks_lo = u32::from_le_bytes([a, b, c, d]);
        inode.raw.i_blocks_high = u16::from_le_bytes([e, f]);
    }

    /// Frees what belongs to an inode without links, and the inode: the part of an unlink that comes when nobody has it
    /// open any more. It must not be in an orphan list by now.
    ///
    /// # Errors
    /// Where its structures make no sense, or as for [`Volume::release_inode`].
    pub fn free_inode(&self, inode: &mut MemoryInode, now: Timestamp) -> Result<(), WriteError> {
        let attributes = u64::from(inode.raw.i_file_acl_lo) | u64::from(inode.raw.i_file_acl_high) << 32;
        if attributes != 0 {
            self.release_attributes(BlockNumber(attributes))?;
            (inode.raw.i_file_acl_lo, inode.raw.i_file_acl_high) = (0, 0);
            self.count_blocks(inode, -1);
        }
        let directory = inode.is_directory();
        inode.raw.i_links_count = 0;
        inode.raw.i_dtime = now.encode().0.max(1);
        inode.set_size(0);
        self.write_inode(inode);
        self.release_inode(inode.number, directory)
    }

    /// Takes one reference away from a block of attributes, and frees it with the last.
    fn release_attributes(&self, number: BlockNumber) -> Result<(), WriteError> {
        if !self.geometry().contains(number) {
            return Err(ReadFailure::BadPointer(number).into());
        }
        let block = self.overlay.get(number)?;
        let mut bytes = block.to_vec();
        match release_attribute_block(self.seed(), number, &mut bytes) {
            None => Err(WriteError::CorruptBlock(
                number,
                "it should hold attributes, but does not",
            )),
            Some(0) => self.release_blocks(number, 1),
            Some(_) => {
                self.store(&block, 0, &bytes);
                Ok(())
            }
        }
    }
}

/// A field of 32 bits in an inode's `i_block`.
pub(super) fn pointer(inode: &MemoryInode, index: usize) -> u32 {
    u32::get(&inode.raw.i_block, index.saturating_mul(4))
}

pub(super) fn set_pointer(inode: &mut MemoryInode, index: usize, block: u32) {
    block.put(&mut inode.raw.i_block, index.saturating_mul(4));
}
