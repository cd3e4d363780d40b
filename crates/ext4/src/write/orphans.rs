//! Inodes that a crash would leave half done: the linked list and the orphan file.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use crate::{
    Block, BlockNumber, Blocks, Compat, InodeNumber, ReadAt, Timestamp, Volume, WriteError,
    number::{divide_wide, place},
    orphans::{FILE_MAGIC, TAIL},
    record::Stored,
};

use super::memory_inode::MemoryInode;

/// The most blocks of an orphan file: the kernel's limit of 8 MiB in blocks of 1 KiB.
const FILE_BLOCKS_MAX: u64 = 8192;

/// A block of the orphan file.
#[derive(Debug)]
pub(super) struct OrphanBlock {
    block: Arc<Block>,
    free: AtomicU32,
    dirty: AtomicBool,
    seed: Option<crate::Seed>,
}

/// A slot of the orphan file: which block of it, and which place in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanSlot {
    /// The block, counted in the file.
    pub block: usize,
    /// The place.
    pub slot: usize,
}

/// How an inode is kept as an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanRecord {
    /// In the list that begins in the superblock.
    List,
    /// In the orphan file.
    File(OrphanSlot),
    /// Not at all: without a journal there is no promise to keep.
    Nowhere,
}

/// What the clean-up of a mount did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphansCleaned {
    /// Inodes without links that were freed.
    pub freed: u32,
    /// Inodes whose truncation was finished.
    pub truncated: u32,
}

impl<R: ReadAt> Volume<R> {
    /// Reads the orphan file's blocks, as a mount does.
    pub(super) fn open_orphan_file(&mut self, number: u32) -> Result<(), WriteError> {
        let number = InodeNumber::new(number).ok_or(crate::ReadFailure::OutOfRange)?;
        let inode = self.inode(number)?;
        let seed = self
            .seed()
            .map(|seed| seed.of_inode(number, inode.raw.i_generation));
        let blocks = divide_wide(inode.size(), self.geometry().block_bytes).0;
        let mut found = Vec::new();
        for logical in 0..u32::try_from(blocks.min(FILE_BLOCKS_MAX)).unwrap_or(0) {
            let block = self.overlay.get(self.block_at(&inode, logical)?)?;
            let bytes = block.to_vec();
            let tail = bytes.len().saturating_sub(TAIL);
            if u32::get(&bytes, tail) != FILE_MAGIC {
                return Err(WriteError::CorruptBlock(
                    block.number(),
                    "it should be of the orphan file, but is not",
                ));
            }
            let slots = bytes.get(..tail).unwrap_or_default().as_chunks::<4>().0;
            let free = slots.iter().filter(|slot| **slot == [0; 4]).count();
            found.push(OrphanBlock {
                block,
                free: AtomicU32::new(u32::try_from(free).unwrap_or(0)),
                dirty: AtomicBool::new(false),
                seed,
            });
        }
        self.orphan_file = Some(number);
        self.orphan_blocks = found;
        Ok(())
    }

    /// Blocks of the orphan file; 0 where there is none.
    pub fn orphan_file_blocks(&self) -> usize {
        self.orphan_blocks.len()
    }

    /// Slots in each of them.
    pub fn orphan_slots_per_block(&self) -> usize {
        self.block_size().saturating_sub(TAIL) / 4
    }

    /// How many slots of a block nobody has claimed.
    pub fn free_orphan_slots(&self, block: usize) -> u32 {
        self.orphan_blocks
            .get(block)
            .map_or(0, |block| block.free.load(Relaxed))
    }

    /// Claims one slot of a block, not yet which: whether there was one.
    pub fn claim_orphan_slot(&self, block: usize) -> bool {
        let Some(block) = self.orphan_blocks.get(block) else {
            return false;
        };
        block
            .free
            .fetch_update(Relaxed, Relaxed, |free| free.checked_sub(1))
            .is_ok()
    }

    /// Gives a claim back.
    pub fn unclaim_orphan_slot(&self, block: usize) {
        if let Some(block) = self.orphan_blocks.get(block) {
            block.free.fetch_add(1, Relaxed);
        }
    }

    /// Announces a change of a block of the orphan file. Its checksum is left to [`Volume::sync`].
    pub fn before_orphan_change(&self, block: usize) {
        if let Some(block) = self.orphan_blocks.get(block) {
            self.overlay.before_change(&block.block);
            block.dirty.store(true, Relaxed);
        }
    }

    /// What a slot holds: 0 where it is free.
    pub fn orphan_slot(&self, at: OrphanSlot) -> u32 {
        let block = self.orphan_blocks.get(at.block);
        let word = block.and_then(|block| block.block.word(at.slot.saturating_mul(4)));
        word.map_or(u32::MAX, |word| word.load(Relaxed))
    }

    /// Puts an inode into a free slot, if it still is.
    pub fn fill_orphan_slot(&self, at: OrphanSlot, inode: InodeNumber) -> bool {
        let block = self.orphan_blocks.get(at.block);
        let word = block.and_then(|block| block.block.word(at.slot.saturating_mul(4)));
        word.is_some_and(|word| word.compare_exchange(0, inode.get(), Relaxed, Relaxed).is_ok())
    }

    /// Empties a slot, and gives its claim back.
    pub fn clear_orphan_slot(&self, at: OrphanSlot) {
        self.before_orphan_change(at.block);
        let block = self.orphan_blocks.get(at.block);
        if let Some(word) = block.and_then(|block| block.block.word(at.slot.saturating_mul(4))) {
            word.store(0, Relaxed);
        }
        self.unclaim_orphan_slot(at.block);
    }

    pub(super) fn seal_orphan_blocks(&self) {
        for block in &self.orphan_blocks {
            if !block.dirty.swap(false, Relaxed) {
                continue;
            }
            if let Some(seed) = block.seed {
                let mut bytes = block.block.to_vec();
                let tail = bytes.len().saturating_sub(TAIL);
                let number = block.block.number().0.to_le_bytes();
                let sum = seed.over(&number).over(bytes.get(..tail).unwrap_or_default()).0;
                sum.put(&mut bytes, tail.saturating_add(4));
                self.store(&block.block, 0, &bytes);
            }
        }
    }

    fn newer_orphans(&self) -> MutexGuard<'_, BTreeMap<InodeNumber, InodeNumber>> {
        self.newer_orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an inode at the head of the linked list: superblock and inode change. The caller stores the inode.
    pub fn link_orphan(&self, inode: &mut MemoryInode) {
        let head = self.last_orphan();
        if let Some(head) = head {
            self.newer_orphans().insert(head, inode.number);
        }
        inode.raw.i_dtime = head.map_or(0, InodeNumber::get);
        self.set_last_orphan(Some(inode.number));
    }

    /// Takes an inode out of the linked list. `newer` is the one before it, whose link has to be rewritten, or none where
    /// it is the head. The caller stores the inode.
    ///
    /// # Errors
    /// Where the newer one cannot be read.
    pub fn unlink_orphan(
        &self,
        inode: &mut MemoryInode,
        newer: Option<InodeNumber>,
    ) -> Result<(), WriteError> {
        let older = inode.raw.i_dtime;
        match newer {
            None => self.set_last_orphan(InodeNumber::new(older)),
            Some(newer) => {
                let mut newer = self.inode(newer)?;
                newer.raw.i_dtime = older;
                self.write_inode(&mut newer);
            }
        }
        inode.raw.i_dtime = 0;
        let mut known = self.newer_orphans();
        known.remove(&inode.number);
        if let Some(older) = InodeNumber::new(older) {
            match newer {
                Some(newer) => known.insert(older, newer),
                None => known.remove(&older),
            };
        }
        Ok(())
    }

    /// The inode before this one in the list; `None` where it is the head.
    ///
    /// # Errors
    /// Where the list on the disk does not have it.
    pub fn newer_orphan(&self, inode: InodeNumber) -> Result<Option<InodeNumber>, WriteError> {
        let mut here = self.last_orphan();
        if here == Some(inode) {
            return Ok(None);
        }
        if let Some(newer) = self.newer_orphans().get(&inode) {
            return Ok(Some(*newer));
        }
        // A list that was there before: it is read once. None is longer than there are inodes.
        let mut known = BTreeMap::new();
        for _ in 0..self.geometry().inodes {
            let Some(number) = here else {
                break;
            };
            here = InodeNumber::new(self.inode(number)?.raw.i_dtime);
            // A circle, or a number past the end, ends it.
            if let Some(next) = here.filter(|next| next.get() <= self.geometry().inodes)
                && known.insert(next, number).is_some()
            {
                break;
            }
        }
        let newer = known.get(&inode).copied();
        self.newer_orphans().extend(known);
        newer
            .map(Some)
            .ok_or(WriteError::Corrupt(inode, "it is not in the orphan list"))
    }

    /// Records an inode as an orphan: in the orphan file where there is one with room, else in the list. The caller
    /// stores the inode.
    pub fn add_orphan(&self, inode: &mut MemoryInode) -> OrphanRecord {
        if !self.superblock().compat().has(Compat::HAS_JOURNAL) {
            return OrphanRecord::Nowhere;
        }
        for block in 0..self.orphan_blocks.len() {
            if !self.claim_orphan_slot(block) {
                continue;
            }
            self.before_orphan_change(block);
            for slot in 0..self.orphan_slots_per_block() {
                let at = OrphanSlot { block, slot };
                if self.fill_orphan_slot(at, inode.number) {
                    return OrphanRecord::File(at);
                }
            }
            self.unclaim_orphan_slot(block);
        }
        self.link_orphan(inode);
        OrphanRecord::List
    }

    /// Takes the record away. The caller stores the inode.
    ///
    /// # Errors
    /// Where the list on the disk does not have it.
    pub fn remove_orphan(&self, inode: &mut MemoryInode, record: OrphanRecord) -> Result<(), WriteError> {
        match record {
            OrphanRecord::File(at) => {
                self.clear_orphan_slot(at);
                Ok(())
            }
            OrphanRecord::Nowhere => Ok(()),
            OrphanRecord::List => {
                let newer = self.newer_orphan(inode.number)?;
                self.unlink_orphan(inode, newer)
            }
        }
    }

    /// Finishes what the orphans are in the middle of, as a mount does: frees those without links, truncates the others.
    ///
    /// # Errors
    /// Where one of them makes no sense; the list is then left where it was come to.
    pub fn clean_up_orphans(&self, now: Timestamp) -> Result<OrphansCleaned, WriteError> {
        let mut cleaned = OrphansCleaned::default();
        while let Some(number) = self.last_orphan() {
            if number.get() < self.geometry().first_inode || !self.inode_in_use(number)? {
                return Err(WriteError::Corrupt(
                    number,
                    "it is in the orphan list, but not in use",
                ));
            }
            self.finish_orphan(number, OrphanRecord::List, now, &mut cleaned)?;
        }
        for block in 0..self.orphan_blocks.len() {
            for slot in 0..self.orphan_slots_per_block() {
                let at = OrphanSlot { block, slot };
                let Some(number) = InodeNumber::new(self.orphan_slot(at)) else {
                    continue;
                };
                if number.get() < self.geometry().first_inode || !self.inode_in_use(number)? {
                    return Err(WriteError::Corrupt(
                        number,
                        "it is in the orphan file, but not in use",
                    ));
                }
                self.finish_orphan(number, OrphanRecord::File(at), now, &mut cleaned)?;
            }
        }
        self.mark_orphans_present(false);
        self.sync();
        Ok(cleaned)
    }

    fn finish_orphan(
        &self,
        number: InodeNumber,
        record: OrphanRecord,
        now: Timestamp,
        cleaned: &mut OrphansCleaned,
    ) -> Result<(), WriteError> {
        let mut inode = self.inode(number)?;
        if inode.raw.i_links_count == 0 {
            self.evict(&mut inode, Some(record), now)?;
            cleaned.freed = cleaned.freed.saturating_add(1);
        } else {
            self.truncate_blocks(&mut inode)?;
            self.remove_orphan(&mut inode, record)?;
            self.write_inode(&mut inode);
            cleaned.truncated = cleaned.truncated.saturating_add(1);
        }
        Ok(())
    }

    /// Frees an inode that nobody names or has open: its blocks, its record as an orphan, itself.
    ///
    /// # Errors
    /// Where its structures make no sense.
    pub fn evict(
        &self,
        inode: &mut MemoryInode,
        record: Option<OrphanRecord>,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        // The size tells links whose target lies in the inode: it goes last.
        self.free_blocks_from(inode, 0)?;
        inode.set_size(0);
        // The deletion time takes the place of the link to the next orphan: out of the list first.
        if let Some(record) = record {
            self.remove_orphan(inode, record)?;
        }
        self.free_inode(inode, now)
    }
}

/// The number of the block of the orphan file that lies here.
impl OrphanBlock {
    pub(super) fn number(&self) -> BlockNumber {
        self.block.number()
    }
}

impl<R: ReadAt> Volume<R> {
    /// Where the blocks of the orphan file lie.
    pub fn orphan_file_places(&self) -> Vec<BlockNumber> {
        self.orphan_blocks.iter().map(OrphanBlock::number).collect()
    }

    /// Slots of the orphan file that hold an inode.
    pub fn orphans_in_file(&self) -> u64 {
        let slots = place(u32::try_from(self.orphan_slots_per_block()).unwrap_or(0));
        let used = |block: &OrphanBlock| {
            let words = block.block.words().get(..slots).unwrap_or_default();
            words.iter().filter(|word| word.load(Relaxed) != 0).count() as u64
        };
        self.orphan_blocks.iter().map(used).sum()
    }
}
