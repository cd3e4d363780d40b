//! What files hold, changed.

use crate::{
    BlockNumber, Blocks, FileType, InodeFlags, ReadAt, Run, Timestamp, Volume, WriteError,
    number::{divide_wide, place},
};

use super::memory_inode::MemoryInode;

/// The most blocks that one extent holds.
const RUN_MAX: u32 = 32768;

impl<R: ReadAt> Volume<R> {
    /// Where a block of a file lies; `None` for a hole.
    ///
    /// # Errors
    /// Where the file's map makes no sense or cannot be read.
    pub fn run_at(&self, inode: &MemoryInode, logical: u32) -> Result<Option<Run>, WriteError> {
        if inode.has_extents() {
            Ok(self.extent_at(inode, logical)?.ok())
        } else {
            self.mapped_block(inode, logical)
        }
    }

    /// The disk's block of a block that has to be there, as those of a directory have.
    pub(super) fn block_at(&self, inode: &MemoryInode, logical: u32) -> Result<BlockNumber, WriteError> {
        let run = self.run_at(inode, logical)?;
        let run = run.ok_or(WriteError::Corrupt(inode.number, "a block of it is missing"))?;
        let number = BlockNumber(
            run.start
                .0
                .saturating_add(logical.saturating_sub(run.logical).into()),
        );
        if !self.geometry().contains(number) || number.0 == 0 {
            return Err(WriteError::Corrupt(
                inode.number,
                "a block of it lies outside the file system",
            ));
        }
        Ok(number)
    }

    /// Whether it has blocks that are mapped, unlike devices and links with their target in the inode.
    pub(super) fn maps(&self, inode: &MemoryInode) -> bool {
        match inode.file_type() {
            Some(FileType::Regular | FileType::Directory) => true,
            Some(FileType::Symlink) => !inode.decoded().has_fast_target(),
            _ => false,
        }
    }

    /// Takes blocks one at a time, all or none.
    fn spare_blocks(&self, goal: BlockNumber, count: usize) -> Result<Vec<BlockNumber>, WriteError> {
        let mut blocks = Vec::new();
        while blocks.len() < count {
            match self.allocate_blocks(goal, 1) {
                Ok((block, _)) => blocks.push(block),
                Err(why) => {
                    self.give_back(blocks)?;
                    return Err(why);
                }
            }
        }
        Ok(blocks)
    }

    fn give_back(&self, blocks: Vec<BlockNumber>) -> Result<(), WriteError> {
        blocks
            .into_iter()
            .try_for_each(|block| self.release_blocks(block, 1))
    }

    /// Where a new block of a file should lie: behind the one before it.
    fn goal_at(&self, inode: &MemoryInode, logical: u32) -> Result<BlockNumber, WriteError> {
        let before = match logical.checked_sub(1) {
            Some(before) => self.run_at(inode, before)?,
            None => None,
        };
        Ok(match before {
            Some(run) => {
                let distance = u64::from(logical).saturating_sub(run.logical.into());
                BlockNumber(run.start.0.saturating_add(distance))
            }
            None => self.goal_of(inode.number),
        })
    }

    /// Maps up to `wanted` blocks where there is a hole, side by side on the disk; the caller stores the inode.
    ///
    /// # Errors
    /// [`WriteError::NoSpace`]; nothing has changed then.
    pub fn allocate_run(
        &self,
        inode: &mut MemoryInode,
        logical: u32,
        wanted: u32,
    ) -> Result<Run, WriteError> {
        let goal = self.goal_at(inode, logical)?;
        self.allocate_run_at(inode, goal, logical, wanted)
    }

    /// The same, from this block on.
    pub(super) fn allocate_run_at(
        &self,
        inode: &mut MemoryInode,
        goal: BlockNumber,
        logical: u32,
        wanted: u32,
    ) -> Result<Run, WriteError> {
        let wanted = match inode.has_extents() {
            true => wanted.min(RUN_MAX),
            false => 1,
        };
        let (start, blocks) = self.allocate_blocks(goal, wanted)?;
        let run = Run {
            logical,
            start,
            blocks,
            unwritten: false,
        };
        let mapped = self.map_run(inode, &run);
        if mapped.is_err() {
            self.release_blocks(start, blocks)?;
        }
        mapped.map(|()| run)
    }

    fn map_run(&self, inode: &mut MemoryInode, run: &Run) -> Result<(), WriteError> {
        let needed = match inode.has_extents() {
            true => self.extent_blocks_needed(inode, run.logical)?,
            false => self.map_blocks_needed(inode, run.logical)?,
        };
        let goal = BlockNumber(run.start.0.saturating_add(run.blocks.into()));
        let mut spare = self.spare_blocks(goal, needed)?;
        match inode.has_extents() {
            true => self.insert_extent(inode, run, &mut spare)?,
            false => self.map_block(inode, run.logical, run.start, &mut spare)?,
        }
        self.count_blocks(inode, run.blocks.into());
        self.give_back(spare)
    }

    /// Frees the blocks of a file from block `from` on; the caller stores the inode.
    ///
    /// # Errors
    /// Where the file's map makes no sense.
    pub fn free_blocks_from(&self, inode: &mut MemoryInode, from: u64) -> Result<(), WriteError> {
        if !self.maps(inode) {
            return Ok(());
        }
        match inode.has_extents() {
            true => self.remove_extents(inode, from),
            false => self.unmap_blocks(inode, from),
        }
    }

    /// The most bytes that a file may have.
    pub fn size_max(&self, inode: &MemoryInode) -> u64 {
        let block = u64::from(self.geometry().block_bytes);
        if inode.has_extents() {
            return u64::from(u32::MAX).saturating_mul(block);
        }
        let per = block / 4;
        let map = (0..=3).fold(11u64, |sum, levels| {
            sum.saturating_add(per.saturating_pow(levels))
        });
        map.min(u64::from(u32::MAX)).saturating_mul(block)
    }

    /// Whether a file may have this size.
    pub(super) fn may_have_size(&self, inode: &MemoryInode, size: u64) -> Result<(), WriteError> {
        match size > self.size_max(inode) || self.needs_large_file(inode, size) {
            true => Err(WriteError::TooBig),
            false => Ok(()),
        }
    }

    /// Sizes from 2 GiB on need the feature, which is not turned on here.
    fn needs_large_file(&self, inode: &MemoryInode, size: u64) -> bool {
        let large = self.superblock().ro_compat().has(crate::RoCompat::LARGE_FILE);
        inode.file_type() == Some(FileType::Regular) && size > 0x7fff_ffff && !large
    }

    /// Frees what lies past a file's size: the part of a truncation that an orphan still has to come to.
    ///
    /// # Errors
    /// Where the file's map makes no sense.
    pub fn truncate_blocks(&self, inode: &mut MemoryInode) -> Result<(), WriteError> {
        let (size, block_bytes) = (inode.size(), self.geometry().block_bytes);
        let (last, within) = divide_wide(size, block_bytes);
        if within > 0
            && self.maps(inode)
            && let Ok(last) = u32::try_from(last)
            && let Some(run) = self.run_at(inode, last)?
            && !run.unwritten
        {
            let block = self.overlay.get(self.block_at(inode, last)?)?;
            let mut bytes = block.to_vec();
            let tail = usize::try_from(within).unwrap_or(0);
            bytes.get_mut(tail..).unwrap_or_default().fill(0);
            self.store(&block, 0, &bytes);
        }
        self.free_blocks_from(inode, size.div_ceil(u64::from(block_bytes).max(1)))
    }

    /// Whether an inode may be changed at all.
    pub(super) fn may_change(&self, inode: &MemoryInode) -> Result<(), WriteError> {
        const IMMUTABLE: InodeFlags = InodeFlags(0x10);
        const APPEND_ONLY: InodeFlags = InodeFlags(0x20);
        let flags = inode.flags();
        if flags.has(IMMUTABLE) || flags.has(APPEND_ONLY) {
            return Err(WriteError::NotPermitted);
        }
        for (flag, feature) in [
            (InodeFlags::ENCRYPTED, "encrypt"),
            (InodeFlags::VERITY, "verity"),
            (InodeFlags::INLINE_DATA, "inline_data"),
            (InodeFlags::CASEFOLD, "casefold"),
            (InodeFlags::EA_INODE, "ea_inode"),
        ] {
            if flags.has(flag) {
                return Err(WriteError::Feature(feature.to_owned()));
            }
        }
        Ok(())
    }

    /// Writes bytes into a file from `offset` on, up to where space ends. The caller stores the inode.
    ///
    /// # Errors
    /// [`WriteError::NoSpace`] where not even the first block has room, [`WriteError::TooBig`]; else how many bytes
    /// were written.
    pub fn write_data(
        &self,
        inode: &mut MemoryInode,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Result<usize, WriteError> {
        self.may_change(inode)?;
        let end = offset.saturating_add(data.len() as u64);
        self.may_have_size(inode, end)?;
        let block_bytes = self.geometry().block_bytes;
        let size = u64::from(block_bytes);
        let mut done = 0usize;
        while done < data.len() {
            let at = offset.saturating_add(done as u64);
            let (logical, within) = divide_wide(at, block_bytes);
            let logical = u32::try_from(logical).map_err(|_| WriteError::TooBig)?;
            let left = data.len().saturating_sub(done);
            let wanted = within.saturating_add(left as u64).div_ceil(size.max(1));
            let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            let run = match self.run_to_write(inode, logical, wanted) {
                Ok(run) => run,
                Err(WriteError::NoSpace) if done > 0 => break,
                Err(why) => return Err(why),
            };
            let within = usize::try_from(within).unwrap_or(0);
            let part = left.min(place(block_bytes).saturating_sub(within));
            let number = BlockNumber(
                run.start
                    .0
                    .saturating_add(logical.saturating_sub(run.logical).into()),
            );
            let block = self.overlay.get(number)?;
            let mut bytes = block.to_vec();
            let source = data.get(done..done.saturating_add(part)).unwrap_or_default();
            if let Some(target) = bytes.get_mut(within..within.saturating_add(part)) {
                target.copy_from_slice(source);
            }
            self.store(&block, 0, &bytes);
            done = done.saturating_add(part);
            let end = offset.saturating_add(done as u64);
            if end > inode.size() {
                inode.set_size(end);
            }
        }
        if done > 0 {
            inode.set_modified(now);
        }
        Ok(done)
    }

    /// The run that a block to be written lies in, mapped, marked as written, and zeros where it is new.
    fn run_to_write(&self, inode: &mut MemoryInode, logical: u32, wanted: u32) -> Result<Run, WriteError> {
        let hole = if inode.has_extents() {
            match self.extent_at(inode, logical)? {
                Ok(run) if !run.unwritten => return Ok(run),
                Ok(run) => return self.begin_unwritten(inode, &run, logical),
                Err(next) => next.map_or(wanted, |next| next.saturating_sub(logical).min(wanted)),
            }
        } else {
            if let Some(run) = self.mapped_block(inode, logical)? {
                return Ok(run);
            }
            1
        };
        let run = self.allocate_run(inode, logical, hole.max(1))?;
        for block in 0..run.blocks {
            self.overlay
                .fresh(BlockNumber(run.start.0.saturating_add(block.into())));
        }
        Ok(run)
    }

    /// Marks one block of a run as written. Where there is no room for the extents that this makes, all of the run is
    /// filled with zeros instead, as the kernel does.
    fn begin_unwritten(&self, inode: &mut MemoryInode, run: &Run, logical: u32) -> Result<Run, WriteError> {
        let distance = logical.saturating_sub(run.logical);
        let start = BlockNumber(run.start.0.saturating_add(distance.into()));
        let block = Run {
            logical,
            start,
            blocks: 1,
            unwritten: false,
        };
        // Two more extents at most, each with a split on every level and a new root.
        let levels = usize::from(crate::map::DEPTH_MAX).saturating_add(1);
        let (part, mut spare) = match self.spare_blocks(start, levels.saturating_mul(2)) {
            Ok(spare) => (block, spare),
            Err(WriteError::NoSpace) => (
                Run {
                    unwritten: false,
                    ..*run
                },
                Vec::new(),
            ),
            Err(why) => return Err(why),
        };
        for block in 0..part.blocks {
            self.overlay
                .fresh(BlockNumber(part.start.0.saturating_add(block.into())));
        }
        let marked = self.mark_written(inode, &part, &mut spare);
        self.give_back(spare)?;
        marked.map(|()| part)
    }
}
