//! Where things are, worked out once from a superblock that makes sense.

use crate::{
    BlockNumber, Compat, GroupNumber, Incompat, InodeNumber, OpenError, RoCompat, Superblock,
    number::{divide, divide_wide},
    superblock::MAGIC,
};

/// The layout of a file system. All divisors are at least 1, all products fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes per block: a power of two, 1 KiB to 64 KiB.
    pub block_bytes: u32,
    /// Bytes per inode: a power of two, 128 to one block.
    pub inode_bytes: u32,
    /// Bytes per group descriptor, 32 to 1024.
    pub descriptor_bytes: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// First block that belongs to a group.
    pub first_data_block: u32,
    /// Blocks per group, except the last.
    pub blocks_per_group: u32,
    /// Blocks that one bit of a block bitmap stands for.
    pub blocks_per_cluster: u32,
    /// Block groups, at least 1.
    pub groups: u32,
    /// Inodes in all.
    pub inodes: u32,
    /// Inodes per group.
    pub inodes_per_group: u32,
    /// First inode that is not reserved.
    pub first_inode: u32,
    first_meta_group: Option<u32>,
    sparse: bool,
}

/// What `check` demands of a number.
fn wrong(field: &'static str, value: impl Into<u64>, wanted: &'static str) -> OpenError {
    OpenError::Unusable {
        field,
        value: value.into(),
        wanted,
    }
}

impl Geometry {
    /// The layout that this superblock describes.
    ///
    /// # Errors
    /// [`OpenError::Unusable`] names the first field whose value makes no sense.
    pub fn of(superblock: &Superblock) -> Result<Self, OpenError> {
        let s = superblock;
        if s.s_magic != MAGIC {
            return Err(wrong("s_magic", s.s_magic, "0xEF53"));
        }
        if s.s_log_block_size > 6 {
            return Err(wrong(
                "s_log_block_size",
                s.s_log_block_size,
                "at most 6, for blocks of 64 KiB",
            ));
        }
        let block_bytes = 1024u32 << s.s_log_block_size;
        let bits = block_bytes.saturating_mul(8);
        let inode_bytes = u32::from(s.inode_size());
        if !inode_bytes.is_power_of_two() || !(128..=block_bytes).contains(&inode_bytes) {
            return Err(wrong(
                "s_inode_size",
                inode_bytes,
                "a power of two from 128 to the block size",
            ));
        }
        let wide = s.incompat().has(Incompat::BIT64);
        let descriptor_bytes = if wide { u32::from(s.s_desc_size) } else { 32 };
        if wide && (!descriptor_bytes.is_power_of_two() || !(64..=1024).contains(&descriptor_bytes)) {
            return Err(wrong(
                "s_desc_size",
                descriptor_bytes,
                "a power of two from 64 to 1024",
            ));
        }
        let bigalloc = s.ro_compat().has(RoCompat::BIGALLOC);
        let cluster_shift = if bigalloc {
            s.s_log_cluster_size.checked_sub(s.s_log_block_size)
        } else {
            Some(0)
        };
        let cluster_shift = cluster_shift.filter(|shift| *shift <= 16).ok_or_else(|| {
            wrong(
                "s_log_cluster_size",
                s.s_log_cluster_size,
                "that of a block up to 16 more",
            )
        })?;
        let blocks_per_cluster = 1u32 << cluster_shift;
        let blocks_per_group = s.s_blocks_per_group;
        if blocks_per_group == 0 || blocks_per_group > bits.saturating_mul(blocks_per_cluster) {
            return Err(wrong(
                "s_blocks_per_group",
                blocks_per_group,
                "1 to as many as one bitmap block has bits",
            ));
        }
        let inodes_per_group = s.s_inodes_per_group;
        if inodes_per_group == 0 || inodes_per_group > bits {
            return Err(wrong(
                "s_inodes_per_group",
                inodes_per_group,
                "1 to as many as one bitmap block has bits",
            ));
        }
        let blocks = s.blocks_count();
        let first_data_block = s.s_first_data_block;
        let in_groups = blocks
            .checked_sub(u64::from(first_data_block))
            .filter(|count| *count > 0);
        let in_groups = in_groups.ok_or_else(|| {
            wrong(
                "s_first_data_block",
                first_data_block,
                "less than the number of blocks",
            )
        })?;
        if blocks > 1 << 48 {
            return Err(wrong("s_blocks_count", blocks, "at most 2^48"));
        }
        let groups = in_groups.div_ceil(u64::from(blocks_per_group).max(1));
        let groups =
            u32::try_from(groups).map_err(|_| wrong("s_blocks_per_group", blocks_per_group, "enough"))?;
        let inodes = s.s_inodes_count;
        if u64::from(inodes) != u64::from(groups).saturating_mul(u64::from(inodes_per_group)) {
            return Err(wrong(
                "s_inodes_count",
                inodes,
                "the number of groups times s_inodes_per_group",
            ));
        }
        Ok(Self {
            block_bytes,
            inode_bytes,
            descriptor_bytes,
            blocks,
            first_data_block,
            blocks_per_group,
            blocks_per_cluster,
            groups,
            inodes,
            inodes_per_group,
            first_inode: s.first_inode(),
            first_meta_group: s.incompat().has(Incompat::META_BG).then_some(s.s_first_meta_bg),
            sparse: s.ro_compat().has(RoCompat::SPARSE_SUPER) || s.compat().has(Compat::SPARSE_SUPER2),
        })
    }

    /// Inode slots per block of an inode table.
    pub fn slots_per_block(&self) -> u32 {
        divide(self.block_bytes, self.inode_bytes).0
    }

    /// Blocks of each group's inode table.
    pub fn table_blocks_per_group(&self) -> u32 {
        self.inodes_per_group.div_ceil(self.slots_per_block().max(1))
    }

    /// Blocks that belong to this group: fewer in the last.
    pub fn blocks_in(&self, group: GroupNumber) -> u32 {
        let left = self.blocks.saturating_sub(self.first_block_of(group).0);
        u32::try_from(left).unwrap_or(u32::MAX).min(self.blocks_per_group)
    }

    /// The first block of a group.
    pub fn first_block_of(&self, group: GroupNumber) -> BlockNumber {
        let before = u64::from(group.0).saturating_mul(u64::from(self.blocks_per_group));
        BlockNumber(before.saturating_add(u64::from(self.first_data_block)))
    }

    /// The group that a block belongs to; `None` before the first and past the last.
    pub fn group_of(&self, block: BlockNumber) -> Option<GroupNumber> {
        let within = block.0.checked_sub(self.first_data_block.into())?;
        let (group, _) = divide_wide(within, self.blocks_per_group);
        let group = u32::try_from(group).ok().filter(|group| *group < self.groups)?;
        self.contains(block).then_some(GroupNumber(group))
    }

    /// The group that an inode belongs to, and its place in it; `None` past the last inode.
    pub fn place_of(&self, inode: InodeNumber) -> Option<(GroupNumber, u32)> {
        (inode.get() <= self.inodes).then(|| {
            let (group, index) = divide(inode.index(), self.inodes_per_group);
            (GroupNumber(group), index)
        })
    }

    /// The inode at this place of this group.
    pub fn inode_at(&self, group: GroupNumber, index: u32) -> Option<InodeNumber> {
        let before = group.0.checked_mul(self.inodes_per_group)?;
        InodeNumber::new(before.checked_add(index)?.checked_add(1)?)
            .filter(|inode| inode.get() <= self.inodes)
    }

    /// Where a block begins, in bytes.
    pub fn offset_of(&self, block: BlockNumber) -> u64 {
        block.0.saturating_mul(u64::from(self.block_bytes))
    }

    /// Whether this block exists.
    pub fn contains(&self, block: BlockNumber) -> bool {
        block.0 < self.blocks
    }

    /// The block that a group's descriptor lies in, and where in it.
    pub fn descriptor_of(&self, group: GroupNumber) -> (BlockNumber, u32) {
        let per_block = divide(self.block_bytes, self.descriptor_bytes).0;
        let (number, index) = divide(group.0, per_block);
        let offset = index.saturating_mul(self.descriptor_bytes);
        if self.first_meta_group.is_some_and(|first| number >= first) {
            let first_group = GroupNumber(number.saturating_mul(per_block));
            let after_superblock = u64::from(self.has_superblock(first_group));
            let block = self
                .first_block_of(first_group)
                .0
                .saturating_add(after_superblock);
            // With 1 KiB blocks and first_data_block 0, as bigalloc has it, group 0 begins one block late.
            let late =
                u64::from(first_group.0 == 0 && self.block_bytes == 1024 && self.first_data_block == 0);
            return (BlockNumber(block.saturating_add(late)), offset);
        }
        // The table follows the block that holds the superblock, which lies at byte 1024.
        let (superblock_in, _) = divide_wide(1024, self.block_bytes);
        (
            BlockNumber(superblock_in.saturating_add(1).saturating_add(u64::from(number))),
            offset,
        )
    }

    /// Whether a group begins with a superblock by the rule of powers of 3, 5 and 7.
    pub(crate) fn has_superblock(&self, group: GroupNumber) -> bool {
        let power_of = |base: u32| {
            let mut power = base;
            while power < group.0 {
                power = power.saturating_mul(base);
            }
            power == group.0
        };
        !self.sparse || group.0 <= 1 || power_of(3) || power_of(5) || power_of(7)
    }
}
