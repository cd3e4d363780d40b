//! Extent trees that grow and shrink.

use std::sync::Arc;

use crate::{
    Block, BlockNumber, Blocks, ReadAt, Run, Volume, WriteError,
    map::{DEPTH_MAX, ENTRY_BYTES, EXTENT_MAGIC, WRITTEN_MAX},
    record::Stored,
};

use super::memory_inode::{EMPTY_EXTENTS, MemoryInode};

/// Entries that an inode has room for.
const ROOT_ENTRIES: usize = 4;
/// Blocks of the longest extent that was written, and of the longest that was not.
const LONGEST_WRITTEN: u32 = WRITTEN_MAX as u32;
const LONGEST_UNWRITTEN: u32 = LONGEST_WRITTEN - 1;

/// An entry of a node: of a leaf an extent, else the child that begins with `logical`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    logical: u32,
    block: u64,
    /// Length as stored, with the mark of what was never written; 0 in an index.
    length: u16,
}

/// A node on the way from the root to a leaf.
#[derive(Debug)]
struct Step {
    /// Where it lies; the root lies in the inode.
    block: Option<Arc<Block>>,
    depth: u16,
    entries: Vec<Entry>,
    /// The entry that the way goes on by; in a leaf the last that is not behind what is looked for.
    at: Option<usize>,
    most: usize,
}

impl Entry {
    fn run(&self) -> Run {
        let unwritten = self.length > WRITTEN_MAX;
        let blocks = if unwritten {
            self.length.wrapping_sub(WRITTEN_MAX)
        } else {
            self.length
        };
        Run {
            logical: self.logical,
            start: BlockNumber(self.block),
            blocks: blocks.into(),
            unwritten,
        }
    }

    fn of(run: &Run) -> Self {
        let length = u16::try_from(run.blocks).unwrap_or(WRITTEN_MAX);
        Self {
            logical: run.logical,
            block: run.start.0,
            length: if run.unwritten {
                length.saturating_add(WRITTEN_MAX)
            } else {
                length
            },
        }
    }

    fn decode(bytes: &[u8], leaf: bool) -> Self {
        let (low, high, length) = match leaf {
            true => (u32::get(bytes, 8), u16::get(bytes, 6), u16::get(bytes, 4)),
            false => (u32::get(bytes, 4), u16::get(bytes, 8), 0),
        };
        Self {
            logical: u32::get(bytes, 0),
            block: u64::from(low) | u64::from(high) << 32,
            length,
        }
    }

    fn encode(&self, bytes: &mut [u8], leaf: bool) {
        let [a, b, c, d, e, f, ..] = self.block.to_le_bytes();
        let (low, high) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
        self.logical.put(bytes, 0);
        if leaf {
            self.length.put(bytes, 4);
            high.put(bytes, 6);
            low.put(bytes, 8);
        } else {
            low.put(bytes, 4);
            high.put(bytes, 8);
            0u16.put(bytes, 10);
        }
    }
}

/// One extent out of two, if the second continues the first.
fn merged(left: &Entry, right: &Entry) -> Option<Entry> {
    let (a, b) = (left.run(), right.run());
    let blocks = a.blocks.saturating_add(b.blocks);
    let longest = if a.unwritten {
        LONGEST_UNWRITTEN
    } else {
        LONGEST_WRITTEN
    };
    let fits = a.unwritten == b.unwritten
        && a.end() == u64::from(b.logical)
        && a.start.0.saturating_add(a.blocks.into()) == b.start.0
        && blocks <= longest;
    fits.then(|| Entry::of(&Run { blocks, ..a }))
}

impl<R: ReadAt> Volume<R> {
    fn entries_per_node(&self) -> usize {
        self.block_size().saturating_sub(ENTRY_BYTES) / ENTRY_BYTES
    }

    fn extent_step(
        &self,
        inode: &MemoryInode,
        bytes: &[u8],
        block: Option<Arc<Block>>,
        depth: Option<u16>,
        logical: u32,
    ) -> Result<Step, WriteError> {
        let corrupt = |what| WriteError::Corrupt(inode.number, what);
        let (count, most, found) = (u16::get(bytes, 2), u16::get(bytes, 4), u16::get(bytes, 6));
        let room = bytes.len().saturating_sub(ENTRY_BYTES) / ENTRY_BYTES;
        if u16::get(bytes, 0) != EXTENT_MAGIC
            || found > DEPTH_MAX
            || depth.is_some_and(|depth| depth != found)
        {
            return Err(corrupt("a node of its extent tree is none"));
        }
        if count > most || usize::from(most) > room {
            return Err(corrupt("a node of its extent tree has more entries than room"));
        }
        let leaf = found == 0;
        let entries: Vec<Entry> = bytes
            .get(ENTRY_BYTES..)
            .unwrap_or_default()
            .chunks_exact(ENTRY_BYTES)
            .take(count.into())
            .map(|bytes| Entry::decode(bytes, leaf))
            .collect();
        let after = entries.partition_point(|entry| entry.logical <= logical);
        // The first child also speaks for what lies before it.
        let at = after
            .checked_sub(1)
            .or_else(|| (!leaf && !entries.is_empty()).then_some(0));
        Ok(Step {
            block,
            depth: found,
            entries,
            at,
            most: most.into(),
        })
    }

    /// The nodes from the root to the leaf that `logical` belongs to.
    fn extent_path(&self, inode: &MemoryInode, logical: u32) -> Result<Vec<Step>, WriteError> {
        let corrupt = |what| WriteError::Corrupt(inode.number, what);
        let mut path = vec![self.extent_step(inode, &inode.raw.i_block, None, None, logical)?];
        while let Some(step) = path.last().filter(|step| step.depth > 0) {
            let entry = step.at.and_then(|at| step.entries.get(at));
            let entry = entry.ok_or(corrupt("a node of its extent tree is empty"))?;
            let number = BlockNumber(entry.block);
            if !self.geometry().contains(number) || number.0 == 0 {
                return Err(corrupt("its extent tree points outside the file system"));
            }
            let block = self.overlay.get(number)?;
            let depth = step.depth.saturating_sub(1);
            path.push(self.extent_step(inode, &block.to_vec(), Some(block.clone()), Some(depth), logical)?);
        }
        Ok(path)
    }

    /// The extent that holds a block, or else the first block behind it that is mapped.
    pub(super) fn extent_at(
        &self,
        inode: &MemoryInode,
        logical: u32,
    ) -> Result<Result<Run, Option<u32>>, WriteError> {
        let path = self.extent_path(inode, logical)?;
        let Some(leaf) = path.last() else {
            return Ok(Err(None));
        };
        let run = leaf.at.and_then(|at| leaf.entries.get(at)).map(Entry::run);
        if let Some(run) = run.filter(|run| run.end() > u64::from(logical)) {
            return Ok(Ok(run));
        }
        let after = |step: &Step| step.at.map_or(0, |at| at.saturating_add(1));
        let next = path.iter().rev().find_map(|step| step.entries.get(after(step)));
        Ok(Err(next.map(|entry| entry.logical)))
    }

    fn store_step(&self, inode: &mut MemoryInode, step: &Step) {
        let leaf = step.depth == 0;
        let length = match step.block {
            Some(_) => self.block_size(),
            None => inode.raw.i_block.len(),
        };
        let mut bytes = vec![0; length];
        EXTENT_MAGIC.put(&mut bytes, 0);
        u16::try_from(step.entries.len()).unwrap_or(0).put(&mut bytes, 2);
        u16::try_from(step.most).unwrap_or(0).put(&mut bytes, 4);
        step.depth.put(&mut bytes, 6);
        let places = bytes.get_mut(ENTRY_BYTES..).unwrap_or_default();
        for (entry, place) in step.entries.iter().zip(places.chunks_exact_mut(ENTRY_BYTES)) {
            entry.encode(place, leaf);
        }
        match &step.block {
            None => {
                if let Ok(root) = bytes.try_into() {
                    inode.raw.i_block = root;
                }
            }
            Some(block) => {
                let tail = step.most.saturating_add(1).saturating_mul(ENTRY_BYTES);
                if let Some(seed) = self.seed() {
                    let seed = seed.of_inode(inode.number, inode.raw.i_generation);
                    let sum = seed.over(bytes.get(..tail).unwrap_or_default()).0;
                    sum.put(&mut bytes, tail);
                }
                self.store(block, 0, &bytes);
            }
        }
    }

    /// Tells the nodes above that the first entry of `path[level]` has changed.
    fn correct_indexes(&self, inode: &mut MemoryInode, path: &mut [Step], level: usize) {
        let mut level = level;
        while let Some(first) = path
            .get(level)
            .and_then(|step| step.entries.first())
            .map(|entry| entry.logical)
            && let Some(above) = level.checked_sub(1)
            && let Some(step) = path.get_mut(above)
            && let Some(at) = step.at
            && let Some(entry) = step.entries.get_mut(at)
            && entry.logical != first
        {
            entry.logical = first;
            self.store_step(inode, step);
            if at > 0 {
                return;
            }
            level = above;
        }
    }

    /// Blocks that an insertion at `logical` may need for the tree.
    pub(super) fn extent_blocks_needed(
        &self,
        inode: &MemoryInode,
        logical: u32,
    ) -> Result<usize, WriteError> {
        let path = self.extent_path(inode, logical)?;
        Ok(path
            .iter()
            .rev()
            .take_while(|step| step.entries.len() >= step.most)
            .count())
    }

    /// Adds an extent where nothing is mapped. `spare` are blocks for the tree, as many as
    /// [`Volume::extent_blocks_needed`] says; those that are used are taken from it and counted.
    pub(super) fn insert_extent(
        &self,
        inode: &mut MemoryInode,
        run: &Run,
        spare: &mut Vec<BlockNumber>,
    ) -> Result<(), WriteError> {
        let mut path = self.extent_path(inode, run.logical)?;
        let new = Entry::of(run);
        let level = path.len().saturating_sub(1);
        if let Some(leaf) = path.last_mut() {
            let at = leaf.at.map_or(0, |at| at.saturating_add(1));
            if merge_into(&mut leaf.entries, at, &new) {
                self.store_step(inode, leaf);
                self.correct_indexes(inode, &mut path, level);
                return Ok(());
            }
        }
        if path.iter().all(|step| step.entries.len() >= step.most) {
            self.grow_extents(inode, &path, spare)?;
            path = self.extent_path(inode, run.logical)?;
        }
        let mut carried = new;
        for level in (0..path.len()).rev() {
            let room = self.entries_per_node();
            let Some(step) = path.get_mut(level) else {
                break;
            };
            let at = step
                .at
                .map_or(0, |at| at.saturating_add(1))
                .min(step.entries.len());
            // A leaf may begin behind the new entry; an index never does.
            if step.entries.len() < step.most {
                step.entries.insert(at, carried);
                self.store_step(inode, step);
                self.correct_indexes(inode, &mut path, level);
                return Ok(());
            }
            let mut right = step.entries.split_off(at);
            if right.is_empty() {
                right.push(carried);
            } else {
                step.entries.push(carried);
            }
            self.store_step(inode, step);
            let number = spare.pop().ok_or(WriteError::NoSpace)?;
            self.count_blocks(inode, 1);
            let node = Step {
                block: Some(self.overlay.fresh(number)),
                depth: path.get(level).map_or(0, |step| step.depth),
                at: None,
                most: room,
                entries: right,
            };
            self.store_step(inode, &node);
            self.correct_indexes(inode, &mut path, level);
            carried = Entry {
                logical: node.entries.first().map_or(0, |entry| entry.logical),
                block: number.0,
                length: 0,
            };
        }
        Err(WriteError::Corrupt(
            inode.number,
            "the root of its extent tree is full",
        ))
    }

    /// Moves the root into a block of its own, one level down.
    fn grow_extents(
        &self,
        inode: &mut MemoryInode,
        path: &[Step],
        spare: &mut Vec<BlockNumber>,
    ) -> Result<(), WriteError> {
        let Some(root) = path.first() else {
            return Ok(());
        };
        if root.depth >= DEPTH_MAX {
            return Err(WriteError::TooBig);
        }
        let number = spare.pop().ok_or(WriteError::NoSpace)?;
        self.count_blocks(inode, 1);
        let child = Step {
            block: Some(self.overlay.fresh(number)),
            depth: root.depth,
            entries: root.entries.clone(),
            at: None,
            most: self.entries_per_node(),
        };
        self.store_step(inode, &child);
        let root = Step {
            block: None,
            depth: root.depth.saturating_add(1),
            entries: vec![Entry {
                logical: root.entries.first().map_or(0, |entry| entry.logical),
                block: number.0,
                length: 0,
            }],
            at: None,
            most: ROOT_ENTRIES,
        };
        self.store_step(inode, &root);
        Ok(())
    }

    /// Says that a part of an extent that was never written now is. `spare` as for [`Volume::insert_extent`], twice.
    pub(super) fn mark_written(
        &self,
        inode: &mut MemoryInode,
        part: &Run,
        spare: &mut Vec<BlockNumber>,
    ) -> Result<(), WriteError> {
        let mut path = self.extent_path(inode, part.logical)?;
        let level = path.len().saturating_sub(1);
        let corrupt = WriteError::Corrupt(inode.number, "an extent is not where it was");
        let leaf = path.last_mut().ok_or(corrupt.clone())?;
        let at = leaf.at.ok_or(corrupt.clone())?;
        let whole = leaf.entries.get(at).ok_or(corrupt)?.run();
        leaf.entries.remove(at);
        let cut = |from: u64, to: u64, unwritten: bool| Run {
            logical: u32::try_from(from).unwrap_or(u32::MAX),
            start: BlockNumber(
                whole
                    .start
                    .0
                    .saturating_add(from.saturating_sub(whole.logical.into())),
            ),
            blocks: u32::try_from(to.saturating_sub(from)).unwrap_or(0),
            unwritten,
        };
        let (begin, end) = (u64::from(whole.logical), whole.end());
        let (from, to) = (u64::from(part.logical).max(begin), part.end().min(end));
        let pieces = [cut(begin, from, true), cut(from, to, false), cut(to, end, true)];
        let mut pieces = pieces.into_iter().filter(|piece| piece.blocks > 0);
        // The first piece takes the place of the whole, so that no node is ever empty.
        if let Some(first) = pieces.next() {
            let entry = Entry::of(&first);
            if !merge_into(&mut leaf.entries, at, &entry) {
                leaf.entries.insert(at, entry);
            }
            self.store_step(inode, leaf);
            self.correct_indexes(inode, &mut path, level);
        }
        for piece in pieces {
            self.insert_extent(inode, &piece, spare)?;
        }
        Ok(())
    }

    /// Frees all blocks of the file from `from` on, and the nodes that are empty then.
    pub(super) fn remove_extents(&self, inode: &mut MemoryInode, from: u64) -> Result<(), WriteError> {
        loop {
            let mut path = self.extent_path(inode, u32::MAX)?;
            let Some(leaf) = path.last_mut() else {
                return Ok(());
            };
            let mut done = leaf.entries.is_empty();
            while let Some(run) = leaf.entries.last().map(Entry::run) {
                if run.end() <= from {
                    done = true;
                    break;
                }
                let kept = u32::try_from(from.saturating_sub(run.logical.into())).unwrap_or(0);
                let freed = run.blocks.saturating_sub(kept);
                self.release_blocks(BlockNumber(run.start.0.saturating_add(kept.into())), freed)?;
                self.count_blocks(inode, i64::from(freed).saturating_neg());
                leaf.entries.pop();
                if kept > 0 {
                    leaf.entries.push(Entry::of(&Run { blocks: kept, ..run }));
                    done = true;
                    break;
                }
            }
            self.store_step(inode, leaf);
            // Empty nodes go, from the leaf up.
            let mut level = path.len().saturating_sub(1);
            while level > 0 && path.get(level).is_some_and(|step| step.entries.is_empty()) {
                if let Some(block) = path.get(level).and_then(|step| step.block.as_ref()) {
                    self.release_blocks(block.number(), 1)?;
                    self.count_blocks(inode, -1);
                }
                level = level.saturating_sub(1);
                if let Some(step) = path.get_mut(level) {
                    step.entries.pop();
                    self.store_step(inode, step);
                }
            }
            if path.first().is_none_or(|root| root.entries.is_empty()) {
                if let Some(header) = inode.raw.i_block.first_chunk_mut() {
                    *header = EMPTY_EXTENTS;
                }
                return Ok(());
            }
            if done {
                return Ok(());
            }
        }
    }
}

/// Joins a new entry with its neighbours, if it continues one of them.
fn merge_into(entries: &mut Vec<Entry>, at: usize, new: &Entry) -> bool {
    let left = at
        .checked_sub(1)
        .and_then(|left| Some((left, merged(entries.get(left)?, new)?)));
    let right = entries.get(at).and_then(|right| merged(new, right));
    match (left, right) {
        (Some((left, both)), right) => {
            if right.is_some()
                && let Some(all) = entries.get(at).and_then(|right| merged(&both, right))
            {
                entries.remove(at);
                set(entries, left, all);
            } else {
                set(entries, left, both);
            }
            true
        }
        (None, Some(both)) => {
            set(entries, at, both);
            true
        }
        (None, None) => false,
    }
}

fn set(entries: &mut [Entry], at: usize, entry: Entry) {
    if let Some(place) = entries.get_mut(at) {
        *place = entry;
    }
}
