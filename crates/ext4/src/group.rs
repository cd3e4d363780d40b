//! Group descriptors.

use crate::{
    BlockNumber, GroupNumber, RoCompat, Seed, Superblock,
    checksum::{crc16, crc32c},
    record::record,
};

record! {
    /// A descriptor as it lies on disk; a 32-byte one ends before the high halves.
    RawGroup, GROUP_FIELDS, 64;
    bg_block_bitmap_lo: u32 = 0x00, "Block bitmap, low half";
    bg_inode_bitmap_lo: u32 = 0x04, "Inode bitmap, low half";
    bg_inode_table_lo: u32 = 0x08, "First block of the inode table, low half";
    bg_free_blocks_count_lo: u16 = 0x0c, "Free blocks (clusters with bigalloc), low half";
    bg_free_inodes_count_lo: u16 = 0x0e, "Free inodes, low half";
    bg_used_dirs_count_lo: u16 = 0x10, "Directories, low half";
    bg_flags: u16 = 0x12, "1: inodes uninitialised; 2: block bitmap uninitialised; 4: inode table zeroed";
    bg_exclude_bitmap_lo: u32 = 0x14, "Unused: bitmap for snapshots, low half";
    bg_block_bitmap_csum_lo: u16 = 0x18, "Checksum of the block bitmap, low half";
    bg_inode_bitmap_csum_lo: u16 = 0x1a, "Checksum of the inode bitmap, low half";
    bg_itable_unused_lo: u16 = 0x1c, "Inodes at the end of the table that were never used, low half";
    bg_checksum: u16 = 0x1e, "crc16, or the low half of crc32c, over group number and descriptor";
    bg_block_bitmap_hi: u32 = 0x20, "Block bitmap, high half";
    bg_inode_bitmap_hi: u32 = 0x24, "Inode bitmap, high half";
    bg_inode_table_hi: u32 = 0x28, "First block of the inode table, high half";
    bg_free_blocks_count_hi: u16 = 0x2c, "Free blocks, high half";
    bg_free_inodes_count_hi: u16 = 0x2e, "Free inodes, high half";
    bg_used_dirs_count_hi: u16 = 0x30, "Directories, high half";
    bg_itable_unused_hi: u16 = 0x32, "Inodes never used, high half";
    bg_exclude_bitmap_hi: u32 = 0x34, "Unused: bitmap for snapshots, high half";
    bg_block_bitmap_csum_hi: u16 = 0x38, "Checksum of the block bitmap, high half";
    bg_inode_bitmap_csum_hi: u16 = 0x3a, "Checksum of the inode bitmap, high half";
    bg_reserved: u32 = 0x3c, "Padding";
}

/// The flags of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFlags(pub u16);

impl GroupFlags {
    /// Inode bitmap and table were never written.
    pub const INODE_UNINIT: Self = Self(1);
    /// The block bitmap was never written.
    pub const BLOCK_UNINIT: Self = Self(2);
    /// The unused part of the inode table is zeroed.
    pub const INODE_ZEROED: Self = Self(4);

    /// Whether all bits of `wanted` are set.
    pub fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// A group descriptor with its halves put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDescriptor {
    /// Where the block bitmap lies.
    pub block_bitmap: BlockNumber,
    /// Where the inode bitmap lies.
    pub inode_bitmap: BlockNumber,
    /// Where the inode table begins.
    pub inode_table: BlockNumber,
    /// Free blocks; clusters with bigalloc.
    pub free_blocks: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub directories: u32,
    /// Inodes at the end of the table that were never used.
    pub unused_inodes: u32,
    /// Flags; none without descriptor checksums, as the kernel has it.
    pub flags: GroupFlags,
    /// Checksum of the block bitmap; 16 bits with 32-byte descriptors.
    pub block_bitmap_checksum: u32,
    /// Checksum of the inode bitmap; 16 bits with 32-byte descriptors.
    pub inode_bitmap_checksum: u32,
    /// Checksum of the descriptor.
    pub checksum: u16,
}

const CHECKSUM_AT: usize = 0x1e;

/// How a file system checks its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DescriptorCheck {
    None,
    Crc16([u8; 16]),
    Crc32c(Seed),
}

impl DescriptorCheck {
    pub(crate) fn of(superblock: &Superblock) -> Self {
        let features = superblock.ro_compat();
        if features.has(RoCompat::METADATA_CSUM) {
            Self::Crc32c(Seed::of_filesystem(superblock))
        } else if features.has(RoCompat::GDT_CSUM) {
            Self::Crc16(superblock.s_uuid)
        } else {
            Self::None
        }
    }

    /// The right checksum of a descriptor; `None` where there is none.
    pub(crate) fn of_descriptor(self, group: GroupNumber, descriptor: &[u8]) -> Option<u16> {
        let before = descriptor.get(..CHECKSUM_AT)?;
        let after = descriptor.get(CHECKSUM_AT.saturating_add(2)..)?;
        let number = group.0.to_le_bytes();
        match self {
            Self::None => None,
            // Nothing follows the checksum in a 32-byte descriptor.
            Self::Crc16(uuid) => Some(crc16(&[&uuid, &number, before, after])),
            Self::Crc32c(seed) => {
                let seed = seed.over(&number).over(before).over(&[0, 0]);
                let [low, high, ..] = crc32c(seed.0, after).to_le_bytes();
                Some(u16::from_le_bytes([low, high]))
            }
        }
    }

    /// Writes the right checksum into a descriptor.
    pub(crate) fn seal(self, group: GroupNumber, descriptor: &mut [u8]) {
        if let Some(checksum) = self.of_descriptor(group, descriptor)
            && let Some(bytes) = descriptor
                .get_mut(CHECKSUM_AT..)
                .and_then(|rest| rest.first_chunk_mut())
        {
            *bytes = checksum.to_le_bytes();
        }
    }
}

fn wide(low: u16, high: u16) -> u32 {
    u32::from(low) | (u32::from(high) << 16)
}

fn block(low: u32, high: u32) -> BlockNumber {
    BlockNumber(u64::from(low) | (u64::from(high) << 32))
}

fn halves(value: u32) -> (u16, u16) {
    let [a, b, c, d] = value.to_le_bytes();
    (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))
}

impl GroupDescriptor {
    /// The descriptor in these bytes: 32, or 64 and more. `check` decides whether the flags count.
    pub(crate) fn decode(bytes: &[u8], check: DescriptorCheck) -> Self {
        let raw = RawGroup::decode(bytes);
        let flags = if check == DescriptorCheck::None {
            0
        } else {
            raw.bg_flags
        };
        Self {
            block_bitmap: block(raw.bg_block_bitmap_lo, raw.bg_block_bitmap_hi),
            inode_bitmap: block(raw.bg_inode_bitmap_lo, raw.bg_inode_bitmap_hi),
            inode_table: block(raw.bg_inode_table_lo, raw.bg_inode_table_hi),
            free_blocks: wide(raw.bg_free_blocks_count_lo, raw.bg_free_blocks_count_hi),
            free_inodes: wide(raw.bg_free_inodes_count_lo, raw.bg_free_inodes_count_hi),
            directories: wide(raw.bg_used_dirs_count_lo, raw.bg_used_dirs_count_hi),
            unused_inodes: wide(raw.bg_itable_unused_lo, raw.bg_itable_unused_hi),
            flags: GroupFlags(flags),
            block_bitmap_checksum: wide(raw.bg_block_bitmap_csum_lo, raw.bg_block_bitmap_csum_hi),
            inode_bitmap_checksum: wide(raw.bg_inode_bitmap_csum_lo, raw.bg_inode_bitmap_csum_hi),
            checksum: raw.bg_checksum,
        }
    }

    /// Writes all of it into a new descriptor; the checksum is left to be sealed.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let parts = |block: BlockNumber| {
            let [a, b, c, d, e, f, g, h] = block.0.to_le_bytes();
            (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
        };
        let mut raw = RawGroup::decode(bytes);
        (raw.bg_block_bitmap_lo, raw.bg_block_bitmap_hi) = parts(self.block_bitmap);
        (raw.bg_inode_bitmap_lo, raw.bg_inode_bitmap_hi) = parts(self.inode_bitmap);
        (raw.bg_inode_table_lo, raw.bg_inode_table_hi) = parts(self.inode_table);
        raw.encode(bytes);
        self.encode_counts(bytes);
    }

    /// Writes what an allocation changes into the descriptor's bytes; the checksum is left to be sealed.
    pub(crate) fn encode_counts(&self, bytes: &mut [u8]) {
        let mut raw = RawGroup::decode(bytes);
        (raw.bg_free_blocks_count_lo, raw.bg_free_blocks_count_hi) = halves(self.free_blocks);
        (raw.bg_free_inodes_count_lo, raw.bg_free_inodes_count_hi) = halves(self.free_inodes);
        (raw.bg_used_dirs_count_lo, raw.bg_used_dirs_count_hi) = halves(self.directories);
        (raw.bg_itable_unused_lo, raw.bg_itable_unused_hi) = halves(self.unused_inodes);
        (raw.bg_block_bitmap_csum_lo, raw.bg_block_bitmap_csum_hi) = halves(self.block_bitmap_checksum);
        (raw.bg_inode_bitmap_csum_lo, raw.bg_inode_bitmap_csum_hi) = halves(self.inode_bitmap_checksum);
        raw.bg_flags = self.flags.0;
        raw.encode(bytes);
    }
}
