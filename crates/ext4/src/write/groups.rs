//! Block groups: bitmaps, counters, and where new things are placed.

use std::sync::{
    Arc, Mutex, MutexGuard, TryLockError,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    Block, BlockNumber, Blocks, Compat, GroupDescriptor, GroupFlags, GroupNumber, Incompat, InodeNumber,
    ReadAt, Volume, WriteError,
    number::{divide, place},
};

/// A group in memory.
#[derive(Debug)]
pub(super) struct Group {
    block_bitmap: BlockNumber,
    inode_bitmap: BlockNumber,
    inode_table: BlockNumber,
    free_blocks: AtomicU32,
    free_inodes: AtomicU32,
    directories: AtomicU32,
    unused_inodes: AtomicU32,
    flags: AtomicU32,
    block_sum: AtomicU32,
    inode_sum: AtomicU32,
    /// Taken while bitmaps and counters change. A model's group lock has to keep CPUs apart: nobody waits for this one.
    changing: Mutex<()>,
}

impl Group {
    pub(super) fn new(descriptor: &GroupDescriptor) -> Self {
        Self {
            block_bitmap: descriptor.block_bitmap,
            inode_bitmap: descriptor.inode_bitmap,
            inode_table: descriptor.inode_table,
            free_blocks: AtomicU32::new(descriptor.free_blocks),
            free_inodes: AtomicU32::new(descriptor.free_inodes),
            directories: AtomicU32::new(descriptor.directories),
            unused_inodes: AtomicU32::new(descriptor.unused_inodes),
            flags: AtomicU32::new(descriptor.flags.0.into()),
            block_sum: AtomicU32::new(descriptor.block_bitmap_checksum),
            inode_sum: AtomicU32::new(descriptor.inode_bitmap_checksum),
            changing: Mutex::new(()),
        }
    }

    pub(super) fn free_blocks(&self) -> u32 {
        self.free_blocks.load(Relaxed)
    }

    pub(super) fn free_inodes(&self) -> u32 {
        self.free_inodes.load(Relaxed)
    }

    pub(super) fn directories(&self) -> u32 {
        self.directories.load(Relaxed)
    }

    pub(super) fn inode_table(&self) -> BlockNumber {
        self.inode_table
    }

    pub(super) fn has(&self, flag: GroupFlags) -> bool {
        self.flags.load(Relaxed) & u32::from(flag.0) != 0
    }

    fn set_flag(&self, flag: GroupFlags) {
        self.flags.fetch_or(flag.0.into(), Relaxed);
    }

    fn clear_flag(&self, flag: GroupFlags) {
        self.flags.fetch_and(!u32::from(flag.0), Relaxed);
    }

    fn descriptor(&self) -> GroupDescriptor {
        GroupDescriptor {
            block_bitmap: self.block_bitmap,
            inode_bitmap: self.inode_bitmap,
            inode_table: self.inode_table,
            free_blocks: self.free_blocks(),
            free_inodes: self.free_inodes(),
            directories: self.directories(),
            unused_inodes: self.unused_inodes.load(Relaxed),
            flags: GroupFlags(u16::try_from(self.flags.load(Relaxed) & 0xffff).unwrap_or(0)),
            block_bitmap_checksum: self.block_sum.load(Relaxed),
            inode_bitmap_checksum: self.inode_sum.load(Relaxed),
            checksum: 0,
        }
    }
}

fn add(counter: &AtomicU32, number: u32) {
    counter.store(counter.load(Relaxed).saturating_add(number), Relaxed);
}

fn take(counter: &AtomicU32, number: u32) {
    counter.store(counter.load(Relaxed).saturating_sub(number), Relaxed);
}

/// Bits of a bitmap block; places past its end are set.
fn is_set(block: &Block, bit: u32) -> bool {
    let word = block.words().get(place(bit / 32));
    word.is_none_or(|word| word.load(Relaxed) >> (bit % 32) & 1 != 0)
}

fn change_bits(block: &Block, from: u32, count: u32, set: bool) {
    for bit in from..from.saturating_add(count) {
        if let Some(word) = block.words().get(place(bit / 32)) {
            let mask = 1u32 << (bit % 32);
            match set {
                true => word.fetch_or(mask, Relaxed),
                false => word.fetch_and(!mask, Relaxed),
            };
        }
    }
}

/// The first clear bit in a range.
fn first_clear(block: &Block, from: u32, to: u32) -> Option<u32> {
    let mut bit = from;
    while bit < to {
        let word = block.words().get(place(bit / 32))?.load(Relaxed);
        let clear = !word >> (bit % 32);
        if clear != 0 {
            return Some(bit.saturating_add(clear.trailing_zeros())).filter(|bit| *bit < to);
        }
        bit = (bit | 31).saturating_add(1);
    }
    None
}

/// How many bits from `from` on are clear, up to `most` and the end of the range.
fn clear_run(block: &Block, from: u32, to: u32, most: u32) -> u32 {
    let end = from.saturating_add(most).min(to);
    let clear = (from..end).take_while(|bit| !is_set(block, *bit)).count();
    u32::try_from(clear).unwrap_or(0)
}

impl<R: ReadAt> Volume<R> {
    pub(super) fn group(&self, group: GroupNumber) -> Result<&Group, WriteError> {
        let group = self.groups.get(place(group.0));
        group.ok_or(WriteError::Read(crate::ReadFailure::OutOfRange))
    }

    /// The group for changes, and a proof that nobody else changes it.
    fn change_group(&self, number: GroupNumber) -> Result<(&Group, MutexGuard<'_, ()>), WriteError> {
        let group = self.group(number)?;
        match group.changing.try_lock() {
            Ok(guard) => Ok((group, guard)),
            Err(TryLockError::Poisoned(guard)) => Ok((group, guard.into_inner())),
            Err(TryLockError::WouldBlock) => Err(WriteError::Race(number.0)),
        }
    }

    /// Writes a group's counters, flags and checksums into its descriptor.
    fn store_group(&self, number: GroupNumber, group: &Group) -> Result<(), WriteError> {
        let (block, at) = self.geometry().descriptor_of(number);
        let block = self.overlay.get(block)?;
        let mut bytes = vec![0; place(self.geometry().descriptor_bytes)];
        block.load(place(at), &mut bytes);
        group.descriptor().encode_counts(&mut bytes);
        self.reader().descriptor_check().seal(number, &mut bytes);
        self.store(&block, place(at), &bytes);
        Ok(())
    }

    /// The checksum of the part of a bitmap that means something; short descriptors keep its low half.
    fn bitmap_sum(&self, bitmap: &Block, bits: u32) -> u32 {
        let Some(seed) = self.seed() else {
            return 0;
        };
        let mut bytes = vec![0; place(bits / 8).next_multiple_of(4)];
        bitmap.load(0, &mut bytes);
        let sum = seed.over(bytes.get(..place(bits / 8)).unwrap_or_default()).0;
        match self.geometry().descriptor_bytes > 32 {
            true => sum,
            false => sum & 0xffff,
        }
    }

    fn bitmap_block(&self, block: BlockNumber) -> Result<Arc<Block>, WriteError> {
        if !self.geometry().contains(block) || block.0 == 0 {
            return Err(crate::ReadFailure::BadPointer(block).into());
        }
        Ok(self.overlay.get(block)?)
    }

    /// The inode bitmap, made if it was never written.
    fn inode_bitmap(&self, number: GroupNumber, group: &Group) -> Result<Arc<Block>, WriteError> {
        let bitmap = self.bitmap_block(group.inode_bitmap)?;
        if !group.has(GroupFlags::INODE_UNINIT) {
            return Ok(bitmap);
        }
        let bitmap = self.overlay.fresh(group.inode_bitmap);
        let (used, all) = (
            self.geometry().inodes_per_group,
            self.geometry().block_bytes.saturating_mul(8),
        );
        change_bits(&bitmap, used, all.saturating_sub(used), true);
        group.clear_flag(GroupFlags::INODE_UNINIT);
        group.inode_sum.store(self.bitmap_sum(&bitmap, used), Relaxed);
        if group.has(GroupFlags::BLOCK_UNINIT) {
            self.block_bitmap(number, group)?;
        }
        Ok(bitmap)
    }

    /// The block bitmap, made if it was never written.
    fn block_bitmap(&self, number: GroupNumber, group: &Group) -> Result<Arc<Block>, WriteError> {
        let bitmap = self.bitmap_block(group.block_bitmap)?;
        if !group.has(GroupFlags::BLOCK_UNINIT) {
            return Ok(bitmap);
        }
        let bitmap = self.overlay.fresh(group.block_bitmap);
        let geometry = *self.geometry();
        let first = geometry.first_block_of(number).0;
        let count = geometry.blocks_in(number);
        let mark = |from: u64, blocks: u64| {
            let end = from
                .saturating_add(blocks)
                .min(first.saturating_add(count.into()));
            let from = from.max(first);
            if let (Ok(from), Ok(blocks)) = (
                u32::try_from(from.saturating_sub(first)),
                u32::try_from(end.saturating_sub(from)),
            ) {
                change_bits(&bitmap, from, blocks, true);
            }
        };
        mark(first, self.blocks_at_start(number).into());
        let table = u64::from(geometry.table_blocks_per_group());
        for group in &self.groups {
            mark(group.block_bitmap.0, 1);
            mark(group.inode_bitmap.0, 1);
            mark(group.inode_table.0, table);
        }
        let all = geometry.block_bytes.saturating_mul(8);
        change_bits(&bitmap, count, all.saturating_sub(count), true);
        group.clear_flag(GroupFlags::BLOCK_UNINIT);
        group
            .block_sum
            .store(self.bitmap_sum(&bitmap, geometry.blocks_per_group), Relaxed);
        Ok(bitmap)
    }

    /// Blocks at the start of a group that hold superblock, descriptors, and room for them to grow.
    fn blocks_at_start(&self, number: GroupNumber) -> u32 {
        let (geometry, superblock) = (self.geometry(), self.superblock());
        let sparse2 = superblock.compat().has(Compat::SPARSE_SUPER2);
        let backups = superblock.s_backup_bgs;
        let listed = backups
            .as_chunks::<4>()
            .0
            .iter()
            .any(|group| u32::from_le_bytes(*group) == number.0);
        let copy = match sparse2 {
            true => number.0 == 0 || listed,
            false => geometry.has_superblock(number),
        };
        let per_block = divide(geometry.block_bytes, geometry.descriptor_bytes).0;
        let tables = geometry.groups.div_ceil(per_block.max(1));
        let meta = superblock.incompat().has(Incompat::META_BG);
        let (meta_group, within) = divide(number.0, per_block);
        if meta && meta_group >= superblock.s_first_meta_bg {
            let own = within <= 1 || within == per_block.saturating_sub(1);
            return u32::from(copy).saturating_add(u32::from(own));
        }
        if !copy {
            return 0;
        }
        let tables = if meta {
            tables.min(superblock.s_first_meta_bg)
        } else {
            tables
        };
        1u32.saturating_add(tables)
            .saturating_add(superblock.s_reserved_gdt_blocks.into())
    }

    /// Takes the first free inode of a group, or `None` where it has none.
    ///
    /// # Errors
    /// Where a structure cannot be read, or another CPU changes the group at this moment.
    pub fn allocate_inode_in(
        &self,
        number: GroupNumber,
        directory: bool,
    ) -> Result<Option<InodeNumber>, WriteError> {
        self.allocate_inode_among(number, 0..self.geometry().inodes_per_group, directory)
    }

    /// Takes this inode, if it is free; whether it was.
    ///
    /// # Errors
    /// As for [`Volume::allocate_inode_in`].
    pub fn allocate_this_inode(&self, inode: InodeNumber, directory: bool) -> Result<bool, WriteError> {
        let Some((group, index)) = self.geometry().place_of(inode) else {
            return Ok(false);
        };
        let taken = self.allocate_inode_among(group, index..index.saturating_add(1), directory)?;
        Ok(taken.is_some())
    }

    fn allocate_inode_among(
        &self,
        number: GroupNumber,
        indexes: std::ops::Range<u32>,
        directory: bool,
    ) -> Result<Option<InodeNumber>, WriteError> {
        let (group, _guard) = self.change_group(number)?;
        if group.free_inodes() == 0 {
            return Ok(None);
        }
        let geometry = *self.geometry();
        let bitmap = self.inode_bitmap(number, group)?;
        let reserved = if number.0 == 0 {
            geometry.first_inode.saturating_sub(1)
        } else {
            0
        };
        let Some(index) = first_clear(&bitmap, indexes.start.max(reserved), indexes.end) else {
            return Ok(None);
        };
        let Some(inode) = geometry.inode_at(number, index) else {
            return Ok(None);
        };
        self.overlay.before_change(&bitmap);
        change_bits(&bitmap, index, 1, true);
        take(&group.free_inodes, 1);
        self.free_inodes.fetch_sub(1, Relaxed);
        if directory {
            add(&group.directories, 1);
            self.directories.fetch_add(1, Relaxed);
        }
        let behind = geometry.inodes_per_group.saturating_sub(index.saturating_add(1));
        group.unused_inodes.fetch_min(behind, Relaxed);
        group
            .inode_sum
            .store(self.bitmap_sum(&bitmap, geometry.inodes_per_group), Relaxed);
        self.store_group(number, group)?;
        Ok(Some(inode))
    }

    /// Gives an inode back.
    ///
    /// # Errors
    /// Where it is free already, or as for [`Volume::allocate_inode_in`].
    pub fn release_inode(&self, inode: InodeNumber, directory: bool) -> Result<(), WriteError> {
        let place = self.geometry().place_of(inode);
        let (number, index) = place.ok_or(WriteError::Corrupt(inode, "there is no such inode"))?;
        let (group, _guard) = self.change_group(number)?;
        let bitmap = self.inode_bitmap(number, group)?;
        if !is_set(&bitmap, index) {
            return Err(WriteError::Corrupt(inode, "it is to be freed, but is free"));
        }
        self.overlay.before_change(&bitmap);
        change_bits(&bitmap, index, 1, false);
        add(&group.free_inodes, 1);
        self.free_inodes.fetch_add(1, Relaxed);
        if directory {
            take(&group.directories, 1);
            self.directories.fetch_sub(1, Relaxed);
        }
        let bits = self.geometry().inodes_per_group;
        group.inode_sum.store(self.bitmap_sum(&bitmap, bits), Relaxed);
        self.store_group(number, group)
    }

    /// Counts the root directory, whose inode is among the reserved ones, in its group.
    pub(super) fn count_first_directory(&self) -> Result<(), WriteError> {
        let (group, _guard) = self.change_group(GroupNumber(0))?;
        add(&group.directories, 1);
        self.directories.fetch_add(1, Relaxed);
        self.store_group(GroupNumber(0), group)
    }

    /// Whether an inode's bit is set.
    ///
    /// # Errors
    /// Where its bitmap cannot be read.
    pub fn inode_in_use(&self, inode: InodeNumber) -> Result<bool, WriteError> {
        let Some((number, index)) = self.geometry().place_of(inode) else {
            return Ok(false);
        };
        let group = self.group(number)?;
        if group.has(GroupFlags::INODE_UNINIT) {
            return Ok(false);
        }
        Ok(is_set(&*self.bitmap_block(group.inode_bitmap)?, index))
    }

    /// Takes up to `wanted` blocks side by side: at `goal` if it is free, else the first free run behind it.
    ///
    /// Buddies, preallocation and stripes of the kernel's mballoc are not modelled.
    ///
    /// # Errors
    /// [`WriteError::NoSpace`], or as for [`Volume::allocate_inode_in`].
    pub fn allocate_blocks(&self, goal: BlockNumber, wanted: u32) -> Result<(BlockNumber, u32), WriteError> {
        let geometry = *self.geometry();
        let first = geometry.group_of(goal).unwrap_or_default();
        let within = goal.0.saturating_sub(geometry.first_block_of(first).0);
        let within = u32::try_from(within).unwrap_or(0);
        let groups = (first.0..geometry.groups).chain(0..first.0).map(GroupNumber);
        let tries = groups.map(|group| (group, if group == first { within } else { 0 }));
        for (group, from) in tries.chain([(first, 0)]) {
            if let Some(found) = self.allocate_blocks_in(group, from, wanted.max(1))? {
                return Ok(found);
            }
        }
        Err(WriteError::NoSpace)
    }

    fn allocate_blocks_in(
        &self,
        number: GroupNumber,
        from: u32,
        wanted: u32,
    ) -> Result<Option<(BlockNumber, u32)>, WriteError> {
        if self.group(number)?.free_blocks() == 0 {
            return Ok(None);
        }
        let (group, _guard) = self.change_group(number)?;
        let geometry = *self.geometry();
        let bitmap = self.block_bitmap(number, group)?;
        let blocks = geometry.blocks_in(number);
        let Some(bit) = first_clear(&bitmap, from, blocks) else {
            return Ok(None);
        };
        let count = clear_run(&bitmap, bit, blocks, wanted).min(group.free_blocks());
        self.overlay.before_change(&bitmap);
        change_bits(&bitmap, bit, count, true);
        take(&group.free_blocks, count);
        self.free_blocks.fetch_sub(count.into(), Relaxed);
        group
            .block_sum
            .store(self.bitmap_sum(&bitmap, geometry.blocks_per_group), Relaxed);
        self.store_group(number, group)?;
        let start = geometry.first_block_of(number).0.saturating_add(bit.into());
        Ok(Some((BlockNumber(start), count)))
    }

    /// Gives blocks back.
    ///
    /// # Errors
    /// Where one of them is free already or lies outside, or as for [`Volume::allocate_inode_in`].
    pub fn release_blocks(&self, start: BlockNumber, count: u32) -> Result<(), WriteError> {
        let geometry = *self.geometry();
        let (mut start, mut left) = (start, count);
        while left > 0 {
            let outside = WriteError::CorruptBlock(start, "it is to be freed, but lies outside");
            let number = geometry.group_of(start).ok_or(outside)?;
            let bit = start.0.saturating_sub(geometry.first_block_of(number).0);
            let bit = u32::try_from(bit).unwrap_or(u32::MAX);
            let count = left.min(geometry.blocks_in(number).saturating_sub(bit));
            let (group, _guard) = self.change_group(number)?;
            let bitmap = self.block_bitmap(number, group)?;
            if (bit..bit.saturating_add(count)).any(|bit| !is_set(&bitmap, bit)) {
                return Err(WriteError::CorruptBlock(start, "it is to be freed, but is free"));
            }
            self.overlay.before_change(&bitmap);
            change_bits(&bitmap, bit, count, false);
            add(&group.free_blocks, count);
            self.free_blocks.fetch_add(count.into(), Relaxed);
            group
                .block_sum
                .store(self.bitmap_sum(&bitmap, geometry.blocks_per_group), Relaxed);
            self.store_group(number, group)?;
            start.0 = start.0.saturating_add(count.into());
            left = left.saturating_sub(count);
        }
        Ok(())
    }

    /// Groups per flex group; 1 without them.
    pub fn groups_per_flex(&self) -> u32 {
        let shift = u32::from(self.superblock().s_log_groups_per_flex);
        match self.superblock().incompat().has(Incompat::FLEX_BG) && shift < 31 {
            true => 1 << shift,
            false => 1,
        }
    }

    /// Where a file's first block is looked for: its inode's group; with flex groups behind the one with the tables.
    pub(super) fn goal_of(&self, inode: InodeNumber) -> BlockNumber {
        let geometry = self.geometry();
        let group = geometry.place_of(inode).map_or(0, |(group, _)| group.0);
        let flex = self.groups_per_flex();
        let first = group.saturating_sub(divide(group, flex).1);
        let after_tables = first.saturating_add(1);
        let group = match flex >= 4 && group == first && after_tables < geometry.groups {
            true => after_tables,
            false => group,
        };
        geometry.first_block_of(GroupNumber(group))
    }

    /// The groups in which an inode is looked for, the best first: those of `kernel.md` for files, and an
    /// Orlov-like choice for directories that spreads those under the root and keeps others near their parent.
    pub fn groups_for(&self, parent: InodeNumber, directory: bool) -> Vec<GroupNumber> {
        let groups = self.geometry().groups;
        let parent_group = self.geometry().place_of(parent).map_or(0, |(group, _)| group.0);
        let mut order = Vec::new();
        if directory {
            order.extend(self.group_for_directory(parent, parent_group));
        } else {
            order.push(parent_group);
            let mut step = 1u32;
            while step < groups {
                order.push(divide(parent_group.saturating_add(step), groups).1);
                step = step.saturating_mul(2);
            }
        }
        order.retain(|group| {
            self.groups
                .get(place(*group))
                .is_some_and(|group| group.free_inodes() > 0)
        });
        if order.is_empty() {
            // One is enough, wherever it is.
            let mut from_parent = (parent_group..groups).chain(0..parent_group);
            order.extend(from_parent.find(|group| {
                self.groups
                    .get(place(*group))
                    .is_some_and(|group| group.free_inodes() > 0)
            }));
        }
        order.into_iter().map(GroupNumber).collect()
    }

    fn group_for_directory(&self, parent: InodeNumber, parent_group: u32) -> Option<u32> {
        let geometry = self.geometry();
        let groups = geometry.groups;
        let average =
            |sum: u64| u32::try_from(sum.checked_div(groups.into()).unwrap_or(0)).unwrap_or(u32::MAX);
        let inodes = average(self.free_inodes());
        let blocks = average(self.free_blocks());
        let at = |number: u32| self.groups.get(place(number));
        if parent == InodeNumber::ROOT {
            // The flex group with the fewest directories among those with their share of what is free.
            let flex = self.groups_per_flex();
            let count = u64::from(groups.div_ceil(flex));
            let share = |sum: u64| sum.checked_div(count).unwrap_or(0);
            let (inodes, blocks) = (share(self.free_inodes()), share(self.free_blocks()));
            let mut best: Option<(u64, u32)> = None;
            let mut first = 0u32;
            while first < groups {
                let members = first..first.saturating_add(flex).min(groups);
                let sum = |of: fn(&Group) -> u32| -> u64 {
                    members
                        .clone()
                        .filter_map(at)
                        .map(|group| u64::from(of(group)))
                        .sum()
                };
                let directories = sum(Group::directories);
                let enough = sum(Group::free_inodes) >= inodes.max(1) && sum(Group::free_blocks) >= blocks;
                if enough && best.is_none_or(|(fewest, _)| directories < fewest) {
                    let free = members
                        .clone()
                        .find(|number| at(*number).is_some_and(|group| group.free_inodes() > 0));
                    best = free.map(|free| (directories, free)).or(best);
                }
                first = first.saturating_add(flex);
            }
            if let Some((_, group)) = best {
                return Some(group);
            }
        }
        let directories = u64::try_from(self.directories.load(Relaxed)).unwrap_or(0);
        let most = average(directories).saturating_add(geometry.inodes_per_group / 16);
        let least_inodes = inodes.saturating_sub(geometry.inodes_per_group / 4).max(1);
        let least_blocks = blocks.saturating_sub(geometry.blocks_per_group / 4);
        let from_parent = || (parent_group..groups).chain(0..parent_group);
        let good = |number: &u32| {
            at(*number).is_some_and(|group| {
                group.directories() < most
                    && group.free_inodes() >= least_inodes
                    && group.free_blocks() >= least_blocks
            })
        };
        let average = |number: &u32| at(*number).is_some_and(|group| group.free_inodes() >= inodes.max(1));
        from_parent().find(good).or_else(|| from_parent().find(average))
    }

    /// Takes a free inode for a child of `parent`, in the first group that has one.
    ///
    /// # Errors
    /// [`WriteError::NoInodes`], or as for [`Volume::allocate_inode_in`].
    pub fn allocate_inode_number(
        &self,
        parent: InodeNumber,
        directory: bool,
    ) -> Result<InodeNumber, WriteError> {
        for group in self.groups_for(parent, directory) {
            if let Some(inode) = self.allocate_inode_in(group, directory)? {
                return Ok(inode);
            }
        }
        Err(WriteError::NoInodes)
    }

    /// Whether the unused part of a group's inode table was zeroed.
    ///
    /// # Errors
    /// Where there is no such group.
    pub fn table_is_zeroed(&self, group: GroupNumber) -> Result<bool, WriteError> {
        Ok(self.group(group)?.has(GroupFlags::INODE_ZEROED))
    }

    /// Blocks of a group's inode table that were never used.
    pub fn unused_table_blocks(&self, group: GroupNumber) -> u32 {
        let geometry = self.geometry();
        let blocks = geometry.table_blocks_per_group();
        self.group(group)
            .map_or(0, |group| blocks.saturating_sub(self.used_table_blocks(group)))
    }

    /// Blocks of a group's inode table that hold inodes which were used once.
    fn used_table_blocks(&self, group: &Group) -> u32 {
        let geometry = self.geometry();
        let unused = match group.has(GroupFlags::INODE_UNINIT) {
            true => geometry.inodes_per_group,
            false => group.unused_inodes.load(Relaxed).min(geometry.inodes_per_group),
        };
        let used = geometry.inodes_per_group.saturating_sub(unused);
        used.div_ceil(geometry.slots_per_block().max(1))
    }

    /// Zeroes the unused part of a group's inode table, and says so in its descriptor: one turn of ext4lazyinit.
    /// Returns how many blocks were written; none where it had been zeroed.
    ///
    /// # Errors
    /// As for [`Volume::allocate_inode_in`].
    pub fn zero_inode_table(&self, number: GroupNumber) -> Result<u32, WriteError> {
        let (group, _guard) = self.change_group(number)?;
        if group.has(GroupFlags::INODE_ZEROED) {
            return Ok(0);
        }
        let geometry = *self.geometry();
        // A block that holds inodes in use is left alone.
        let first = self.used_table_blocks(group);
        let blocks = geometry.table_blocks_per_group();
        if !geometry.contains(BlockNumber(group.inode_table.0.saturating_add(blocks.into()))) && blocks > 0 {
            let last = group
                .inode_table
                .0
                .saturating_add(blocks.saturating_sub(1).into());
            if !geometry.contains(BlockNumber(last)) || group.inode_table.0 == 0 {
                return Err(crate::ReadFailure::BadPointer(group.inode_table).into());
            }
        }
        let start = BlockNumber(group.inode_table.0.saturating_add(first.into()));
        self.overlay.zero(start, blocks.saturating_sub(first));
        group.set_flag(GroupFlags::INODE_ZEROED);
        self.store_group(number, group)?;
        Ok(blocks.saturating_sub(first))
    }
}
