//! Making file systems, as mke2fs lays them out.

use std::sync::Arc;

use crate::{
    BlockNumber, Blocks, Compat, Geometry, GroupDescriptor, GroupFlags, GroupNumber, Incompat, InodeNumber,
    NewInode, Overlay, ReadAt, ReadError, RoCompat, SUPERBLOCK_BYTES, Superblock, Timestamp, Volume,
    WriteError,
    group::DescriptorCheck,
    number::{divide, place},
    orphans::{FILE_MAGIC, TAIL},
    record::Stored,
    superblock::MAGIC,
};

use super::memory_inode::{MemoryInode, set_pointer};

/// Copies of the descriptors beyond this many bytes of them are left out: they would only fill memory.
const COPIES_MAX: u64 = 512 << 20;
const FIRST_INODE: u32 = 11;
const JOURNAL_MAGIC: u32 = 0xc03b_3998;
/// Fewer blocks than this behind its tables make a last group not worth having.
const LAST_GROUP_LEAST: u64 = 50;

/// What a file system is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFilesystem {
    /// Its size in bytes; a rest of less than a block, or too small for a group, is left out.
    pub bytes: u64,
    /// Bytes per block, 1 KiB to 64 KiB.
    pub block_bytes: u32,
    /// Bytes per inode, 128 to one block.
    pub inode_bytes: u32,
    /// How many inodes; one for 16 KiB where not given.
    pub inodes: Option<u32>,
    /// Blocks per group, where not as many as a bitmap block has bits.
    pub blocks_per_group: Option<u32>,
    /// Features that may be ignored.
    pub compat: Compat,
    /// Features that must be known to read.
    pub incompat: Incompat,
    /// Features that must be known to write.
    pub ro_compat: RoCompat,
    /// Blocks of the journal, where not as many as its size suggests.
    pub journal_blocks: Option<u32>,
    /// Percent of the blocks that are kept for root.
    pub reserved_percent: u32,
    /// Whether the inode tables are left to ext4lazyinit.
    pub lazy_tables: bool,
    /// Its identity.
    pub uuid: [u8; 16],
    /// What directory hashes begin with.
    pub hash_seed: [u8; 16],
    /// The moment of its making.
    pub now: Timestamp,
}

/// Bytes of zeros that nobody keeps: what a new file system is made over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zeros(pub u64);

impl ReadAt for Zeros {
    fn size(&self) -> u64 {
        self.0
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        ReadError::unless_inside(self.0, offset, buffer)?;
        buffer.fill(0);
        Ok(())
    }
}

impl NewFilesystem {
    /// As `mke2fs -t ext2` makes it, 4096 bytes to a block and 256 to an inode.
    pub fn ext2(bytes: u64, uuid: [u8; 16], now: Timestamp) -> Self {
        Self {
            bytes,
            block_bytes: 4096,
            inode_bytes: 256,
            inodes: None,
            blocks_per_group: None,
            compat: Compat(Compat::EXT_ATTR.0 | Compat::RESIZE_INODE.0 | Compat::DIR_INDEX.0),
            incompat: Incompat::FILETYPE,
            ro_compat: RoCompat(RoCompat::SPARSE_SUPER.0 | RoCompat::LARGE_FILE.0),
            journal_blocks: None,
            reserved_percent: 5,
            lazy_tables: false,
            uuid,
            hash_seed: uuid,
            now,
        }
    }

    /// As `mke2fs -t ext3` makes it.
    pub fn ext3(bytes: u64, uuid: [u8; 16], now: Timestamp) -> Self {
        let mut new = Self::ext2(bytes, uuid, now);
        new.compat.0 |= Compat::HAS_JOURNAL.0;
        new
    }

    /// As `mke2fs -t ext4` of e2fsprogs 1.47 makes it, its inode tables left to ext4lazyinit.
    pub fn ext4(bytes: u64, uuid: [u8; 16], now: Timestamp) -> Self {
        let mut new = Self::ext3(bytes, uuid, now);
        new.incompat.0 |= Incompat::EXTENTS.0 | Incompat::BIT64.0 | Incompat::FLEX_BG.0;
        new.ro_compat.0 |= RoCompat::HUGE_FILE.0
            | RoCompat::DIR_NLINK.0
            | RoCompat::EXTRA_ISIZE.0
            | RoCompat::METADATA_CSUM.0;
        new.lazy_tables = true;
        new
    }

    /// Makes it, in an overlay over nothing.
    ///
    /// # Errors
    /// [`WriteError::Invalid`] where the sizes make no file system, [`WriteError::NoSpace`] where it is too small for
    /// its own tables and journal.
    pub fn make(&self) -> Result<Volume<Zeros>, WriteError> {
        let superblock = self.superblock()?;
        let geometry = Geometry::of(&superblock)?;
        let size = geometry.offset_of(BlockNumber(geometry.blocks));
        let overlay = Arc::new(Overlay::new(Zeros(size), &geometry));
        let groups = lay_out(&superblock, &geometry)?;
        Layout {
            new: self,
            superblock,
            geometry,
            groups,
        }
        .write(&overlay)?;
        let volume = Volume::over(overlay)?;
        self.fill(&volume)?;
        volume.sync();
        copy_descriptors(&volume)?;
        // Once more, with what the superblock says by now.
        Volume::over(volume.overlay)
    }

    /// The superblock, as far as it is known before anything is placed.
    fn superblock(&self) -> Result<Superblock, WriteError> {
        let sane = self.block_bytes.is_power_of_two()
            && (1024..=65536).contains(&self.block_bytes)
            && self.inode_bytes.is_power_of_two()
            && (128..=self.block_bytes).contains(&self.inode_bytes)
            && (1 << 20..=1 << 50).contains(&self.bytes)
            && self.reserved_percent <= 50;
        if !sane {
            return Err(WriteError::Invalid);
        }
        let mut s = Superblock::decode(&[0; SUPERBLOCK_BYTES]);
        s.s_magic = MAGIC;
        s.s_log_block_size = self.block_bytes.trailing_zeros().saturating_sub(10);
        s.s_log_cluster_size = s.s_log_block_size;
        s.s_first_data_block = u32::from(self.block_bytes == 1024);
        s.s_rev_level = 1;
        s.s_first_ino = FIRST_INODE;
        s.s_inode_size = u16::try_from(self.inode_bytes).map_err(|_| WriteError::Invalid)?;
        (s.s_feature_compat, s.s_feature_incompat, s.s_feature_ro_compat) =
            (self.compat.0, self.incompat.0, self.ro_compat.0);
        if let Some(feature) = super::volume::feature_not_written(&s) {
            return Err(WriteError::Feature(feature));
        }
        if s.compat().has(Compat::ORPHAN_FILE) && !s.compat().has(Compat::HAS_JOURNAL) {
            return Err(WriteError::Invalid);
        }
        s.s_errors = 1;
        s.s_state = 1;
        s.s_max_mnt_count = u16::MAX;
        s.s_uuid = self.uuid;
        s.s_hash_seed = self.hash_seed;
        s.s_def_hash_version = 1;
        s.s_flags = 1;
        // Access control lists, and attributes that users may set.
        s.s_default_mount_opts = 0xc;
        let seconds = self.now.encode().0;
        (s.s_mkfs_time, s.s_lastcheck, s.s_wtime) = (seconds, seconds, seconds);
        if self.inode_bytes > 128 {
            (s.s_min_extra_isize, s.s_want_extra_isize) = (32, 32);
        }
        if s.incompat().has(Incompat::FLEX_BG) {
            s.s_log_groups_per_flex = 4;
        }
        if s.ro_compat().has(RoCompat::METADATA_CSUM) {
            s.s_checksum_type = 1;
            if s.incompat().has(Incompat::CSUM_SEED) {
                s.s_checksum_seed = crate::crc32c(u32::MAX, &self.uuid);
            }
        }
        let wide = s.incompat().has(Incompat::BIT64);
        s.s_desc_size = if wide { 64 } else { 0 };
        self.measure(&mut s)?;
        Ok(s)
    }

    /// How many blocks, groups and inodes.
    fn measure(&self, s: &mut Superblock) -> Result<(), WriteError> {
        let most = (u32::from(u16::MAX).saturating_sub(7)).min(self.block_bytes.saturating_mul(8));
        let per_group = self.blocks_per_group.unwrap_or(most);
        if per_group == 0 || per_group > most || !per_group.is_multiple_of(8) {
            return Err(WriteError::Invalid);
        }
        s.s_blocks_per_group = per_group;
        s.s_clusters_per_group = per_group;
        let first = u64::from(s.s_first_data_block);
        let mut blocks = self.bytes.checked_div(self.block_bytes.into()).unwrap_or(0);
        let wanted = self
            .inodes
            .map_or_else(|| (self.bytes / 16384).min(u32::MAX.into()), u64::from);
        let wide = s.incompat().has(Incompat::BIT64);
        if !wide && blocks > u64::from(u32::MAX) {
            return Err(WriteError::TooBig);
        }
        let descriptor = if wide { 64 } else { 32 };
        let per_block = divide(self.block_bytes, descriptor).0;
        loop {
            let in_groups = blocks
                .checked_sub(first)
                .filter(|blocks| *blocks > 0)
                .ok_or(WriteError::NoSpace)?;
            let groups = in_groups.div_ceil(u64::from(per_group).max(1));
            let groups = u32::try_from(groups).map_err(|_| WriteError::TooBig)?;
            let tables = groups.div_ceil(per_block.max(1));
            self.count_inodes(s, wanted, groups)?;
            if s.compat().has(Compat::RESIZE_INODE) {
                s.s_reserved_gdt_blocks = self.room_to_grow(blocks, first, per_group, per_block, tables);
            }
            let [a, b, c, d, e, f, g, h] = blocks.to_le_bytes();
            s.s_blocks_count_lo = u32::from_le_bytes([a, b, c, d]);
            s.s_blocks_count_hi = u32::from_le_bytes([e, f, g, h]);
            let slots = (self.block_bytes).checked_div(self.inode_bytes).unwrap_or(1);
            let table = s.s_inodes_per_group.div_ceil(slots.max(1));
            let last = GroupNumber(groups.saturating_sub(1));
            let geometry = Geometry::of(s)?;
            let copy = match geometry.has_superblock(last) {
                true => 1u32
                    .saturating_add(tables)
                    .saturating_add(s.s_reserved_gdt_blocks.into()),
                false => 0,
            };
            let overhead = u64::from(table.saturating_add(3).saturating_add(copy));
            let rest = in_groups.checked_rem(per_group.into()).unwrap_or(0);
            if groups == 1 && rest > 0 && rest < overhead {
                return Err(WriteError::NoSpace);
            }
            if rest > 0 && rest < overhead.saturating_add(LAST_GROUP_LEAST) && groups > 1 {
                blocks = blocks.saturating_sub(rest);
                continue;
            }
            let reserved = blocks.saturating_mul(self.reserved_percent.into()) / 100;
            s.s_r_blocks_count_lo = u32::try_from(reserved & 0xffff_ffff).unwrap_or(0);
            s.s_r_blocks_count_hi = u32::try_from(reserved >> 32).unwrap_or(0);
            return Ok(());
        }
    }

    /// Inodes per group: as many as fill whole blocks of the table, and a multiple of 8.
    fn count_inodes(&self, s: &mut Superblock, wanted: u64, groups: u32) -> Result<(), WriteError> {
        let slots = self.block_bytes.checked_div(self.inode_bytes).unwrap_or(1).max(1);
        let per_group = wanted
            .max(FIRST_INODE.saturating_add(1).into())
            .div_ceil(u64::from(groups).max(1));
        let most = (self.block_bytes.saturating_mul(8)).min(65536u32.saturating_sub(slots));
        let mut per_group = u32::try_from(per_group).unwrap_or(u32::MAX).min(most);
        loop {
            let in_blocks = per_group.div_ceil(slots).saturating_mul(slots).max(8) & !7;
            let all = u64::from(in_blocks).saturating_mul(groups.into());
            if let Ok(all) = u32::try_from(all) {
                (s.s_inodes_per_group, s.s_inodes_count) = (in_blocks, all);
                return Ok(());
            }
            // One block of the table less, as long as numbers of inodes are too large.
            per_group = in_blocks.checked_sub(slots.max(8)).ok_or(WriteError::TooBig)?;
        }
    }

    /// Blocks that are kept for the descriptors of a file system 1024 times as large.
    fn room_to_grow(&self, blocks: u64, first: u64, per_group: u32, per_block: u32, tables: u32) -> u16 {
        let most = blocks.saturating_mul(1024).min(u32::MAX.into());
        let groups = most.saturating_sub(first).div_ceil(u64::from(per_group).max(1));
        let tables_then = groups.div_ceil(u64::from(per_block).max(1));
        let more = tables_then
            .saturating_sub(tables.into())
            .min(u64::from(self.block_bytes / 4));
        u16::try_from(more).unwrap_or(u16::MAX)
    }

    /// Root, lost+found, and the inodes that have no name.
    fn fill(&self, volume: &Volume<Zeros>) -> Result<(), WriteError> {
        let directory = |mode: u16| NewInode {
            mode: 0o040_000 | mode,
            uid: 0,
            gid: 0,
            now: self.now,
        };
        let mut root = volume.new_inode(InodeNumber::ROOT, &directory(0o755))?;
        root.raw.i_generation = 0;
        volume.begin_directory(&mut root, InodeNumber::ROOT)?;
        volume.write_inode(&mut root);
        volume.count_first_directory()?;
        self.make_lost_and_found(volume, &mut root, &directory(0o700))?;
        if volume.superblock().s_reserved_gdt_blocks > 0 {
            self.make_resize_inode(volume)?;
        }
        if volume.superblock().compat().has(Compat::HAS_JOURNAL) {
            self.make_journal(volume)?;
        }
        if volume.superblock().compat().has(Compat::ORPHAN_FILE) {
            self.make_orphan_file(volume)?;
        }
        Ok(())
    }

    /// The directory for what e2fsck finds, with room for it: 16 KiB, in twelve blocks at most and two at least.
    fn make_lost_and_found(
        &self,
        volume: &Volume<Zeros>,
        root: &mut MemoryInode,
        new: &NewInode,
    ) -> Result<(), WriteError> {
        let number = volume
            .allocate_inode_in(GroupNumber(0), true)?
            .ok_or(WriteError::NoInodes)?;
        let mut inode = volume.new_inode(number, new)?;
        inode.raw.i_generation = 0;
        volume.begin_directory(&mut inode, InodeNumber::ROOT)?;
        let blocks = divide(16384, self.block_bytes).0.clamp(2, 12);
        for _ in 1..blocks {
            volume.append_empty_block(&mut inode)?;
        }
        volume.write_inode(&mut inode);
        volume.add_entry(root, b"lost+found", number, inode.file_type(), self.now)?;
        volume.count_directory(root);
        volume.write_inode(root);
        Ok(())
    }

    fn reserved_inode(&self, volume: &Volume<Zeros>, number: u32) -> Result<MemoryInode, WriteError> {
        let number = InodeNumber::new(number).ok_or(WriteError::Invalid)?;
        let new = NewInode {
            mode: 0o100_600,
            uid: 0,
            gid: 0,
            now: self.now,
        };
        let mut inode = volume.new_inode(number, &new)?;
        inode.raw.i_generation = 0;
        inode.raw.i_links_count = 1;
        Ok(inode)
    }

    /// The inode that owns the room for descriptors to grow: each of these blocks lists its places in the copies.
    fn make_resize_inode(&self, volume: &Volume<Zeros>) -> Result<(), WriteError> {
        let mut inode = self.reserved_inode(volume, 7)?;
        inode.raw.i_flags = 0;
        inode.raw.i_block = [0; 60];
        let geometry = *volume.geometry();
        let per = self.block_bytes / 4;
        let per_block = divide(geometry.block_bytes, geometry.descriptor_bytes).0;
        let tables = geometry.groups.div_ceil(per_block.max(1));
        let copies: Vec<u32> = (1..geometry.groups)
            .filter(|group| geometry.has_superblock(GroupNumber(*group)))
            .collect();
        let double = volume.allocate_blocks(BlockNumber(0), 1)?.0;
        let top = volume.overlay.fresh(double);
        let mut blocks = 1i64;
        for index in 0..u32::from(volume.superblock().s_reserved_gdt_blocks) {
            let at = geometry
                .first_data_block
                .saturating_add(1)
                .saturating_add(tables)
                .saturating_add(index);
            let slot = divide(tables.saturating_add(index), per).1;
            volume.store(&top, place(slot).saturating_mul(4), &at.to_le_bytes());
            let list = volume.overlay.fresh(BlockNumber(at.into()));
            let mut bytes = vec![0; volume.block_size()];
            for (entry, group) in copies.iter().enumerate() {
                let there = at.wrapping_add(group.wrapping_mul(geometry.blocks_per_group));
                there.put(&mut bytes, entry.saturating_mul(4));
            }
            volume.store(&list, 0, &bytes);
            blocks = blocks
                .saturating_add(1)
                .saturating_add(i64::try_from(copies.len()).unwrap_or(0));
        }
        set_pointer(&mut inode, 13, u32::try_from(double.0).unwrap_or(0));
        let reach = u64::from(per)
            .saturating_mul(per.into())
            .saturating_add(per.into())
            .saturating_add(12);
        inode.set_size(reach.saturating_mul(self.block_bytes.into()));
        volume.count_blocks(&mut inode, blocks);
        volume.write_inode(&mut inode);
        Ok(())
    }

    /// The usual size of a journal, in blocks of the file system.
    fn usual_journal(blocks: u64) -> Option<u32> {
        Some(match blocks {
            0..2048 => return None,
            2048..32_768 => 1024,
            32_768..262_144 => 4096,
            262_144..524_288 => 8192,
            524_288..4_194_304 => 16_384,
            4_194_304..8_388_608 => 32_768,
            8_388_608..16_777_216 => 65_536,
            16_777_216..33_554_432 => 131_072,
            _ => 262_144,
        })
    }

    fn make_journal(&self, volume: &Volume<Zeros>) -> Result<(), WriteError> {
        let usual = || Self::usual_journal(volume.geometry().blocks);
        let blocks = self
            .journal_blocks
            .or_else(usual)
            .filter(|blocks| *blocks >= 1024);
        let blocks = blocks.ok_or(WriteError::NoSpace)?;
        let mut inode = self.reserved_inode(volume, 8)?;
        let goal = volume.middle_group();
        let first = volume.fill_file(&mut inode, goal, blocks)?;
        let mut head = vec![0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, value: u32| value.to_be().put(&mut head, at);
        put(0x00, JOURNAL_MAGIC);
        put(0x04, 4);
        put(0x0c, self.block_bytes);
        put(0x10, blocks);
        put(0x14, 1);
        put(0x18, 1);
        put(0x40, 1);
        if let Some(uuid) = head.get_mut(0x30..0x40) {
            uuid.copy_from_slice(&self.uuid);
        }
        let block = volume.overlay.fresh(first);
        volume.store(&block, 0, &head);
        volume.write_inode(&mut inode);
        let mut copy = [0u8; 68];
        copy.iter_mut()
            .zip(inode.raw.i_block)
            .for_each(|(place, byte)| *place = byte);
        inode.raw.i_size_high.put(&mut copy, 60);
        inode.raw.i_size_lo.put(&mut copy, 64);
        volume.change_superblock(|bytes| {
            8u32.put(bytes, 0xe0);
            1u8.put(bytes, 0xfd);
            copy.put(bytes, 0x10c);
        });
        Ok(())
    }

    fn make_orphan_file(&self, volume: &Volume<Zeros>) -> Result<(), WriteError> {
        let blocks = match volume.geometry().blocks {
            blocks @ 0x2_0000..0x20_0000 => u32::try_from(blocks / 4096).unwrap_or(512),
            0..0x2_0000 => 32,
            _ => 512,
        };
        let number = volume.allocate_inode_number(InodeNumber::ROOT, false)?;
        let mut inode = self.reserved_inode(volume, number.get())?;
        volume.fill_file(&mut inode, volume.goal_of(number), blocks)?;
        let seed = volume
            .seed()
            .map(|seed| seed.of_inode(number, inode.raw.i_generation));
        for logical in 0..blocks {
            let block = volume.overlay.fresh(volume.block_at(&inode, logical)?);
            let mut bytes = vec![0; volume.block_size()];
            let tail = bytes.len().saturating_sub(TAIL);
            FILE_MAGIC.put(&mut bytes, tail);
            if let Some(seed) = seed {
                let at = block.number().0.to_le_bytes();
                let sum = seed.over(&at).over(bytes.get(..tail).unwrap_or_default()).0;
                sum.put(&mut bytes, tail.saturating_add(4));
            }
            volume.store(&block, 0, &bytes);
        }
        volume.write_inode(&mut inode);
        volume.change_superblock(|bytes| number.get().put(bytes, 0x280));
        Ok(())
    }
}

impl<R: ReadAt> Volume<R> {
    /// Adds a block without entries to a directory. The caller stores its inode.
    fn append_empty_block(&self, directory: &mut MemoryInode) -> Result<(), WriteError> {
        let block = self.append_block(directory)?;
        let mut bytes = vec![0; self.block_size()];
        let length = self.format_of(directory).stored_length(self.entries_end());
        length.put(&mut bytes, 4);
        self.store_entries(directory, &block, bytes);
        Ok(())
    }

    /// Maps the first blocks of a file, as close together as they can be, and sets its size; what they hold is zeros.
    fn fill_file(
        &self,
        inode: &mut MemoryInode,
        goal: BlockNumber,
        blocks: u32,
    ) -> Result<BlockNumber, WriteError> {
        let mut done = 0u32;
        let mut first = None;
        let mut goal = goal;
        while done < blocks {
            let run = self.allocate_run_at(inode, goal, done, blocks.saturating_sub(done))?;
            self.overlay.zero(run.start, run.blocks);
            first = first.or(Some(run.start));
            done = done.saturating_add(run.blocks);
            goal = BlockNumber(run.start.0.saturating_add(run.blocks.into()));
        }
        inode.set_size(u64::from(blocks).saturating_mul(self.geometry().block_bytes.into()));
        first.ok_or(WriteError::NoSpace)
    }

    /// Where a journal goes: the freest of the groups in the middle.
    fn middle_group(&self) -> BlockNumber {
        let geometry = self.geometry();
        let half = geometry.blocks.saturating_sub(geometry.first_data_block.into()) / 2;
        let middle = half.checked_div(geometry.blocks_per_group.into()).unwrap_or(0);
        let middle = u32::try_from(middle).unwrap_or(0);
        let flex = self.groups_per_flex();
        let free = |group: u32| {
            self.groups
                .get(place(group))
                .map_or(0, super::groups::Group::free_blocks)
        };
        let start = match flex > 1 && middle > flex {
            true => {
                let first = middle.saturating_sub(divide(middle, flex).1);
                (first..geometry.groups)
                    .find(|group| free(*group) > 0)
                    .unwrap_or(0)
            }
            false => middle.saturating_sub(1),
        };
        let end = middle.saturating_add(1).min(geometry.groups.saturating_sub(1));
        let best = (start..=end.max(start)).rev().max_by_key(|group| free(*group));
        geometry.first_block_of(GroupNumber(best.unwrap_or(start)))
    }
}

/// Where the tables of each group lie.
fn lay_out(superblock: &Superblock, geometry: &Geometry) -> Result<Vec<GroupDescriptor>, WriteError> {
    let flex = match superblock.incompat().has(Incompat::FLEX_BG) {
        true => 1u32 << superblock.s_log_groups_per_flex.min(31),
        false => 1,
    };
    let mut groups = Vec::new();
    let mut first = 0u32;
    while first < geometry.groups {
        let members = flex.min(geometry.groups.saturating_sub(first));
        Packing::of(superblock, geometry, first, flex).place(&mut groups)?;
        first = first.saturating_add(members);
    }
    Ok(groups)
}

/// The tables of the groups that are packed together, while they are being placed.
struct Packing<'g> {
    geometry: &'g Geometry,
    first: u32,
    members: u32,
    flex: u32,
    /// Runs that are taken, in order: first, and last plus one.
    taken: Vec<(u64, u64)>,
    end: u64,
}

impl<'g> Packing<'g> {
    fn of(superblock: &Superblock, geometry: &'g Geometry, first: u32, flex: u32) -> Self {
        let members = flex.min(geometry.groups.saturating_sub(first));
        let mut taken = Vec::new();
        for group in (first..first.saturating_add(members)).map(GroupNumber) {
            let start = geometry.first_block_of(group).0;
            let blocks = blocks_at_start(superblock, geometry, group);
            if blocks > 0 {
                taken.push((start, start.saturating_add(blocks.into())));
            }
        }
        let last = GroupNumber(first.saturating_add(members).saturating_sub(1));
        let end = geometry
            .first_block_of(last)
            .0
            .saturating_add(geometry.blocks_in(last).into());
        Self {
            geometry,
            first,
            members,
            flex,
            taken,
            end,
        }
    }

    /// Takes a run: here if it is free, else the first free one of the larger, then of the smaller length.
    fn take(&mut self, here: Option<u64>, length: u64, larger: u64) -> Result<BlockNumber, WriteError> {
        let free_at = |at: u64, length: u64| {
            let end = at.saturating_add(length);
            end <= self.end && self.taken.iter().all(|(from, to)| *to <= at || *from >= end)
        };
        let begin = self.geometry.first_block_of(GroupNumber(self.first)).0;
        let search = |length: u64| {
            let ends = self.taken.iter().map(|(_, to)| *to);
            std::iter::once(begin)
                .chain(ends)
                .filter(|at| free_at(*at, length))
                .min()
        };
        let here = here.filter(|at| free_at(*at, length));
        let at = here
            .or_else(|| search(larger.max(length)))
            .or_else(|| search(length));
        let at = at.ok_or(WriteError::NoSpace)?;
        self.taken.push((at, at.saturating_add(length)));
        self.taken.sort_unstable();
        // Runs that touch are one: the list stays as short as the groups are many.
        self.taken.dedup_by(|next, before| {
            let touch = next.0 == before.1;
            if touch {
                before.1 = next.1;
            }
            touch
        });
        Ok(BlockNumber(at))
    }

    fn place(mut self, groups: &mut Vec<GroupDescriptor>) -> Result<(), WriteError> {
        let table = u64::from(self.geometry.table_blocks_per_group());
        let quarter = u64::from(self.geometry.blocks_per_group / 4);
        let mut before: Option<GroupDescriptor> = None;
        for index in 0..self.members {
            let left = u64::from(self.members.saturating_sub(index));
            // Room for the bitmaps of the others; one group alone leaves as much as a whole flex group would.
            let room = if self.members == 1 { self.flex.into() } else { left };
            let after = |block: BlockNumber, blocks: u64| Some(block.0.saturating_add(blocks));
            let here = before.and_then(|group| after(group.block_bitmap, 1));
            let block_bitmap = self.take(here, 1, left.min(quarter))?;
            let here = before.map_or(after(block_bitmap, room), |group| after(group.inode_bitmap, 1));
            let inode_bitmap = self.take(here, 1, left.min(quarter))?;
            let here = before.map_or(after(inode_bitmap, room), |group| after(group.inode_table, table));
            let inode_table = self.take(here, table, left.saturating_mul(table).min(quarter))?;
            let group = GroupDescriptor {
                block_bitmap,
                inode_bitmap,
                inode_table,
                free_blocks: 0,
                free_inodes: self.geometry.inodes_per_group,
                directories: 0,
                unused_inodes: self.geometry.inodes_per_group,
                flags: GroupFlags(0),
                block_bitmap_checksum: 0,
                inode_bitmap_checksum: 0,
                checksum: 0,
            };
            groups.push(group);
            before = Some(group);
        }
        Ok(())
    }
}

/// Superblock, descriptors and their room to grow at the start of a group of a new file system.
fn blocks_at_start(superblock: &Superblock, geometry: &Geometry, group: GroupNumber) -> u32 {
    if !geometry.has_superblock(group) {
        return 0;
    }
    let per_block = divide(geometry.block_bytes, geometry.descriptor_bytes).0;
    let tables = geometry.groups.div_ceil(per_block.max(1));
    1u32.saturating_add(tables)
        .saturating_add(superblock.s_reserved_gdt_blocks.into())
}

/// Everything that is known before the first file is made.
struct Layout<'n> {
    new: &'n NewFilesystem,
    superblock: Superblock,
    geometry: Geometry,
    groups: Vec<GroupDescriptor>,
}

impl Layout<'_> {
    fn write(mut self, overlay: &Overlay<Zeros>) -> Result<(), WriteError> {
        let check = DescriptorCheck::of(&self.superblock);
        self.count_free(check != DescriptorCheck::None);
        let mut buffer = Vec::new();
        for group in (0..self.geometry.groups).map(GroupNumber) {
            self.write_bitmaps(overlay, group)?;
            let Some(descriptor) = self.groups.get(place(group.0)) else {
                break;
            };
            let mut bytes = vec![0; place(self.geometry.descriptor_bytes)];
            descriptor.encode(&mut bytes);
            check.seal(group, &mut bytes);
            buffer.extend(bytes);
        }
        let first = self.geometry.descriptor_of(GroupNumber(0)).0;
        for (index, bytes) in buffer.chunks(place(self.geometry.block_bytes)).enumerate() {
            let number = first.0.saturating_add(index as u64);
            overlay.fresh(BlockNumber(number)).store(0, bytes);
        }
        self.count_overhead();
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        self.superblock.encode(&mut bytes);
        if self.superblock.ro_compat().has(RoCompat::METADATA_CSUM) {
            self.superblock.s_checksum = crate::crc32c(u32::MAX, bytes.get(..1020).unwrap_or_default());
            self.superblock.encode(&mut bytes);
        }
        let (number, at) = crate::number::divide_wide(1024, self.geometry.block_bytes);
        let block = overlay.fresh(BlockNumber(number));
        block.store(usize::try_from(at).unwrap_or(0), &bytes);
        Ok(())
    }

    /// Free blocks of each group, and which bitmaps can be left unwritten.
    fn count_free(&mut self, may_be_uninitialised: bool) {
        let geometry = self.geometry;
        let table = geometry.table_blocks_per_group();
        let mut used: Vec<u32> = (0..geometry.groups)
            .map(|group| blocks_at_start(&self.superblock, &geometry, GroupNumber(group)))
            .collect();
        let mut foreign = vec![false; used.len()];
        for (number, group) in (0u32..).zip(&self.groups) {
            for (start, blocks) in [
                (group.block_bitmap, 1),
                (group.inode_bitmap, 1),
                (group.inode_table, table),
            ] {
                let mut at = start;
                let mut left = blocks;
                while left > 0 {
                    let Some(here) = geometry.group_of(at) else {
                        break;
                    };
                    let within = at.0.saturating_sub(geometry.first_block_of(here).0);
                    let room = geometry
                        .blocks_in(here)
                        .saturating_sub(u32::try_from(within).unwrap_or(0));
                    let part = left.min(room.max(1));
                    if let Some(used) = used.get_mut(place(here.0)) {
                        *used = used.saturating_add(part);
                    }
                    if here.0 != number
                        && let Some(foreign) = foreign.get_mut(place(here.0))
                    {
                        *foreign = true;
                    }
                    at.0 = at.0.saturating_add(part.into());
                    left = left.saturating_sub(part);
                }
            }
        }
        let last = geometry.groups.saturating_sub(1);
        for (number, ((group, used), foreign)) in (0u32..).zip(self.groups.iter_mut().zip(used).zip(foreign))
        {
            group.free_blocks = geometry.blocks_in(GroupNumber(number)).saturating_sub(used);
            if may_be_uninitialised {
                group.flags.0 |= GroupFlags::INODE_UNINIT.0;
                // The last one's bitmap has to be padded.
                if number != last && !foreign {
                    group.flags.0 |= GroupFlags::BLOCK_UNINIT.0;
                }
                if !self.new.lazy_tables {
                    group.flags.0 |= GroupFlags::INODE_ZEROED.0;
                }
            } else {
                group.unused_inodes = 0;
            }
        }
    }

    /// Writes the bitmaps of a group that have to be: those that say more than its flags do.
    fn write_bitmaps(&mut self, overlay: &Overlay<Zeros>, number: GroupNumber) -> Result<(), WriteError> {
        let geometry = self.geometry;
        let seed = self.superblock.ro_compat().has(RoCompat::METADATA_CSUM);
        let seed = seed.then(|| crate::Seed::of_filesystem(&self.superblock));
        let narrow = geometry.descriptor_bytes <= 32;
        let sum = |bytes: &[u8], bits: u32| {
            let sum = seed.map_or(0, |seed| {
                seed.over(bytes.get(..place(bits / 8)).unwrap_or_default()).0
            });
            if narrow { sum & 0xffff } else { sum }
        };
        let bits = geometry.block_bytes.saturating_mul(8);
        let Some(group) = self.groups.get(place(number.0)).copied() else {
            return Ok(());
        };
        let mut changed = group;
        if number.0 == 0 || !group.flags.has(GroupFlags::INODE_UNINIT) {
            let mut bytes = vec![0u8; place(geometry.block_bytes)];
            set_bits(&mut bytes, geometry.inodes_per_group, bits);
            if number.0 == 0 {
                let reserved = FIRST_INODE.saturating_sub(1);
                set_bits(&mut bytes, 0, reserved);
                changed.flags.0 &= !GroupFlags::INODE_UNINIT.0;
                changed.free_inodes = changed.free_inodes.saturating_sub(reserved);
                changed.unused_inodes = changed.unused_inodes.saturating_sub(reserved);
            }
            changed.inode_bitmap_checksum = sum(&bytes, geometry.inodes_per_group);
            overlay.fresh(group.inode_bitmap).store(0, &bytes);
        }
        if !group.flags.has(GroupFlags::BLOCK_UNINIT) {
            let bytes = self.block_bitmap(number);
            changed.block_bitmap_checksum = sum(&bytes, geometry.blocks_per_group);
            overlay.fresh(group.block_bitmap).store(0, &bytes);
        }
        if let Some(group) = self.groups.get_mut(place(number.0)) {
            *group = changed;
        }
        Ok(())
    }

    fn block_bitmap(&self, number: GroupNumber) -> Vec<u8> {
        let geometry = &self.geometry;
        let mut bytes = vec![0u8; place(geometry.block_bytes)];
        let first = geometry.first_block_of(number).0;
        let count = geometry.blocks_in(number);
        set_bits(&mut bytes, count, geometry.block_bytes.saturating_mul(8));
        set_bits(&mut bytes, 0, blocks_at_start(&self.superblock, geometry, number));
        // Tables lie in the groups that they are packed with.
        let flex = match self.superblock.incompat().has(Incompat::FLEX_BG) {
            true => 1u32 << self.superblock.s_log_groups_per_flex.min(31),
            false => 1,
        };
        let begin = number.0.saturating_sub(divide(number.0, flex).1);
        let members = place(begin)..place(begin.saturating_add(flex).min(geometry.groups));
        let table = u64::from(geometry.table_blocks_per_group());
        for group in self.groups.get(members).unwrap_or_default() {
            for (start, blocks) in [
                (group.block_bitmap, 1),
                (group.inode_bitmap, 1),
                (group.inode_table, table),
            ] {
                let end = start
                    .0
                    .saturating_add(blocks)
                    .min(first.saturating_add(count.into()));
                let from = start.0.max(first);
                if from < end {
                    let bit = |block: u64| u32::try_from(block.saturating_sub(first)).unwrap_or(u32::MAX);
                    set_bits(&mut bytes, bit(from), bit(end));
                }
            }
        }
        bytes
    }

    /// Blocks that the file system needs for itself.
    fn count_overhead(&mut self) {
        let geometry = &self.geometry;
        let starts: u64 = (0..geometry.groups)
            .map(|group| u64::from(blocks_at_start(&self.superblock, geometry, GroupNumber(group))))
            .sum();
        let tables = u64::from(geometry.table_blocks_per_group().saturating_add(2))
            .saturating_mul(geometry.groups.into());
        let journal = match self.superblock.compat().has(Compat::HAS_JOURNAL) {
            true => self
                .new
                .journal_blocks
                .or_else(|| NewFilesystem::usual_journal(geometry.blocks))
                .unwrap_or(0),
            false => 0,
        };
        let all = starts
            .saturating_add(tables)
            .saturating_add(journal.into())
            .saturating_add(geometry.first_data_block.into());
        self.superblock.s_overhead_clusters = u32::try_from(all).unwrap_or(0);
    }
}

fn set_bits(bytes: &mut [u8], from: u32, to: u32) {
    for bit in from..to {
        if let Some(byte) = bytes.get_mut(place(bit / 8)) {
            *byte |= 1 << (bit % 8);
        }
    }
}

/// Copies the superblock and the descriptors to the groups that keep copies of them.
fn copy_descriptors(volume: &Volume<Zeros>) -> Result<(), WriteError> {
    let geometry = *volume.geometry();
    let per_block = divide(geometry.block_bytes, geometry.descriptor_bytes).0;
    let tables = geometry.groups.div_ceil(per_block.max(1));
    let (in_block, at) = crate::number::divide_wide(1024, geometry.block_bytes);
    let mut superblock = vec![0; SUPERBLOCK_BYTES];
    volume
        .overlay
        .get(BlockNumber(in_block))?
        .load(usize::try_from(at).unwrap_or(0), &mut superblock);
    let first = geometry.descriptor_of(GroupNumber(0)).0;
    let mut copied = 0u64;
    for group in (1..geometry.groups).filter(|group| geometry.has_superblock(GroupNumber(*group))) {
        let start = geometry.first_block_of(GroupNumber(group)).0;
        let mut bytes = superblock.clone();
        u16::try_from(group).unwrap_or(u16::MAX).put(&mut bytes, 0x5a);
        if volume.superblock().ro_compat().has(RoCompat::METADATA_CSUM) {
            let sum = crate::crc32c(u32::MAX, bytes.get(..1020).unwrap_or_default());
            sum.put(&mut bytes, 1020);
        }
        volume.overlay.fresh(BlockNumber(start)).store(0, &bytes);
        for table in 0..tables {
            copied = copied.saturating_add(geometry.block_bytes.into());
            if copied > COPIES_MAX {
                return Ok(());
            }
            let from = volume
                .overlay
                .get(BlockNumber(first.0.saturating_add(table.into())))?;
            let to = BlockNumber(start.saturating_add(1).saturating_add(table.into()));
            volume.overlay.fresh(to).store(0, &from.to_vec());
        }
    }
    Ok(())
}
