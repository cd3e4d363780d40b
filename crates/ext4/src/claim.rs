//! Taking a free inode: the part of a create that the inode table sees.

use std::{fmt, sync::Arc};

use crate::{
    Block, BlockNumber, Blocks, Filesystem, GroupDescriptor, GroupFlags, GroupNumber, Incompat, InodeFlags,
    InodeNumber, RawInode, ReadAt, ReadError, ReadFailure, RoCompat, SUPERBLOCK_BYTES, Superblock, Timestamp,
    checksum::crc32c, number::divide_wide, seal_inode, slot::bit,
};

/// Why no inode can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The inode is in use, reserved, or does not exist.
    NotFree(InodeNumber),
    /// A structure in the way cannot be read.
    Read(ReadFailure),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFree(inode) => write!(f, "inode {inode} is not free"),
            Self::Read(failure) => failure.fmt(f),
        }
    }
}

impl<E: Into<ReadFailure>> From<E> for ClaimError {
    fn from(failure: E) -> Self {
        Self::Read(failure.into())
    }
}

/// An empty extent tree: magic 0xF30A, no entries, room for 4, depth 0.
const EMPTY_EXTENTS: [u8; 8] = [0x0a, 0xf3, 0, 0, 4, 0, 0, 0];

/// Takes the free inode `number` for a regular file with one link, no name and no blocks.
///
/// Inode bitmap, group descriptor, superblock and inode are changed through `blocks`, with all counters and checksums
/// right. The only thing that e2fsck will then miss is a name.
///
/// # Errors
/// [`ClaimError`]; nothing is changed then.
pub fn claim_inode<R: ReadAt>(
    filesystem: &Filesystem<R>,
    blocks: &impl Blocks,
    number: InodeNumber,
    now: Timestamp,
) -> Result<(), ClaimError> {
    let geometry = filesystem.geometry();
    let (group, index) = geometry.place_of(number).ok_or(ClaimError::NotFree(number))?;
    if number.get() < geometry.first_inode {
        return Err(ClaimError::NotFree(number));
    }
    let mut claim = Claim::read(filesystem, blocks, group)?;
    if bit(&claim.bitmap, index) || claim.descriptor.free_inodes == 0 {
        return Err(ClaimError::NotFree(number));
    }
    let location = filesystem.locate(number)?;
    let table = blocks.get(location.block)?;
    claim.take(geometry.inodes_per_group, index);
    claim.write(filesystem, blocks, group)?;
    let at = usize::try_from(location.offset).unwrap_or(usize::MAX);
    write_record(blocks, &table, at, &new_inode(filesystem, number, now));
    Ok(())
}

/// The structures that an allocation changes, as they are now.
struct Claim {
    bitmap_block: Arc<Block>,
    bitmap: Vec<u8>,
    descriptor_block: Arc<Block>,
    descriptor_at: usize,
    descriptor_bytes: Vec<u8>,
    descriptor: GroupDescriptor,
}

impl Claim {
    fn read<R: ReadAt>(
        filesystem: &Filesystem<R>,
        blocks: &impl Blocks,
        group: GroupNumber,
    ) -> Result<Self, ReadFailure> {
        let geometry = filesystem.geometry();
        let (block, at) = geometry.descriptor_of(group);
        let descriptor_block = blocks.get(block)?;
        let descriptor_at = usize::try_from(at).unwrap_or(usize::MAX);
        let mut descriptor_bytes = vec![0; usize::try_from(geometry.descriptor_bytes).unwrap_or(32)];
        descriptor_block.load(descriptor_at, &mut descriptor_bytes);
        let descriptor = GroupDescriptor::decode(&descriptor_bytes, filesystem.descriptor_check());
        if !geometry.contains(descriptor.inode_bitmap) {
            return Err(ReadFailure::BadPointer(descriptor.inode_bitmap));
        }
        let bitmap_block = blocks.get(descriptor.inode_bitmap)?;
        let mut bitmap = bitmap_block.to_vec();
        if descriptor.flags.has(GroupFlags::INODE_UNINIT) {
            // Never written: all free, and what lies past the last inode is marked used.
            let used = |at: usize| u32::try_from(at).is_ok_and(|at| at >= geometry.inodes_per_group / 8);
            bitmap
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = if used(at) { 0xff } else { 0 });
        }
        Ok(Self {
            bitmap_block,
            bitmap,
            descriptor_block,
            descriptor_at,
            descriptor_bytes,
            descriptor,
        })
    }

    fn take(&mut self, inodes_per_group: u32, index: u32) {
        if let Some(byte) = usize::try_from(index / 8)
            .ok()
            .and_then(|at| self.bitmap.get_mut(at))
        {
            *byte |= 1 << (index % 8);
        }
        let descriptor = &mut self.descriptor;
        descriptor.free_inodes = descriptor.free_inodes.saturating_sub(1);
        descriptor.flags.0 &= !GroupFlags::INODE_UNINIT.0;
        let behind = inodes_per_group.saturating_sub(index.saturating_add(1));
        descriptor.unused_inodes = descriptor.unused_inodes.min(behind);
    }

    fn write<R: ReadAt>(
        mut self,
        filesystem: &Filesystem<R>,
        blocks: &impl Blocks,
        group: GroupNumber,
    ) -> Result<(), ReadError> {
        let geometry = filesystem.geometry();
        if let Some(seed) = filesystem.seed() {
            let covered = usize::try_from(geometry.inodes_per_group / 8).unwrap_or(0);
            let sum = seed.over(self.bitmap.get(..covered).unwrap_or_default()).0;
            // Descriptors of 32 bytes keep the low half only.
            self.descriptor.inode_bitmap_checksum = if geometry.descriptor_bytes > 32 {
                sum
            } else {
                sum & 0xffff
            };
        }
        self.descriptor.encode_counts(&mut self.descriptor_bytes);
        filesystem
            .descriptor_check()
            .seal(group, &mut self.descriptor_bytes);
        change_superblock(filesystem, blocks, |superblock| {
            superblock.s_free_inodes_count = superblock.s_free_inodes_count.saturating_sub(1);
        })?;
        write_record(blocks, &self.bitmap_block, 0, &self.bitmap);
        write_record(
            blocks,
            &self.descriptor_block,
            self.descriptor_at,
            &self.descriptor_bytes,
        );
        Ok(())
    }
}

fn change_superblock<R: ReadAt>(
    filesystem: &Filesystem<R>,
    blocks: &impl Blocks,
    change: impl FnOnce(&mut Superblock),
) -> Result<(), ReadError> {
    let (number, at) = divide_wide(1024, filesystem.geometry().block_bytes);
    let block = blocks.get(BlockNumber(number))?;
    let at = usize::try_from(at).unwrap_or(0);
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    block.load(at, &mut bytes);
    let mut superblock = Superblock::decode(&bytes);
    change(&mut superblock);
    superblock.encode(&mut bytes);
    if superblock.ro_compat().has(RoCompat::METADATA_CSUM) {
        superblock.s_checksum = crc32c(
            u32::MAX,
            bytes
                .get(..SUPERBLOCK_BYTES.saturating_sub(4))
                .unwrap_or_default(),
        );
        superblock.encode(&mut bytes);
    }
    write_record(blocks, &block, at, &bytes);
    Ok(())
}

fn write_record(blocks: &impl Blocks, block: &Arc<Block>, at: usize, bytes: &[u8]) {
    blocks.before_change(block);
    block.store(at, bytes);
}

fn new_inode<R: ReadAt>(filesystem: &Filesystem<R>, number: InodeNumber, now: Timestamp) -> Vec<u8> {
    let superblock = filesystem.superblock();
    let mut bytes = vec![0; usize::try_from(filesystem.geometry().inode_bytes).unwrap_or(128)];
    let mut raw = RawInode::decode(&bytes);
    raw.i_mode = 0o100_644;
    raw.i_links_count = 1;
    if superblock.incompat().has(Incompat::EXTENTS) {
        raw.i_flags = InodeFlags::EXTENTS.0;
        if let Some(header) = raw.i_block.first_chunk_mut() {
            *header = EMPTY_EXTENTS;
        }
    }
    if bytes.len() > 128 && superblock.ro_compat().has(RoCompat::EXTRA_ISIZE) {
        raw.i_extra_isize = superblock.s_want_extra_isize.clamp(4, 32);
    } else if bytes.len() > 128 {
        raw.i_extra_isize = 32;
    }
    let (seconds, extra) = now.encode();
    (raw.i_atime, raw.i_ctime, raw.i_mtime) = (seconds, seconds, seconds);
    if bytes.len() > 128 {
        (raw.i_atime_extra, raw.i_ctime_extra, raw.i_mtime_extra) = (extra, extra, extra);
        (raw.i_crtime, raw.i_crtime_extra) = (seconds, extra);
    }
    raw.encode(&mut bytes);
    if let Some(seed) = filesystem.seed() {
        seal_inode(seed, number, &mut bytes);
    }
    bytes
}
