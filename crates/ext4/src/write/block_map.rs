//! Indirect blocks that come and go.

use crate::{
    BlockNumber, Blocks, ReadAt, Run, Volume, WriteError,
    map::DIRECT,
    number::{divide_wide, place},
    record::Stored,
};

use super::memory_inode::{MemoryInode, pointer, set_pointer};

impl<R: ReadAt> Volume<R> {
    fn pointers_per_block(&self) -> u64 {
        u64::from(self.geometry().block_bytes / 4)
    }

    /// The way to a block of a file: its place in the inode, then its place in each indirect block.
    fn block_path(&self, logical: u32) -> Result<Vec<usize>, WriteError> {
        let direct = u64::from(DIRECT);
        let mut rest = u64::from(logical);
        if rest < direct {
            return Ok(vec![usize::try_from(rest).unwrap_or(0)]);
        }
        rest = rest.saturating_sub(direct);
        let per = self.pointers_per_block();
        for levels in 1u32..=3 {
            let reach = per.saturating_pow(levels);
            if rest < reach {
                let mut path = vec![place(DIRECT.saturating_add(levels).saturating_sub(1))];
                for level in (0..levels).rev() {
                    let step = u32::try_from(per.saturating_pow(level)).unwrap_or(u32::MAX);
                    let (at, below) = divide_wide(rest, step);
                    path.push(usize::try_from(at).unwrap_or(usize::MAX));
                    rest = below;
                }
                return Ok(path);
            }
            rest = rest.saturating_sub(reach);
        }
        Err(WriteError::TooBig)
    }

    fn pointer_block(
        &self,
        inode: &MemoryInode,
        block: u32,
    ) -> Result<std::sync::Arc<crate::Block>, WriteError> {
        let number = BlockNumber(block.into());
        if !self.geometry().contains(number) {
            return Err(WriteError::Corrupt(
                inode.number,
                "its block map points outside the file system",
            ));
        }
        Ok(self.overlay.get(number)?)
    }

    /// The disk's block behind a block of the file, and how many levels of the way to it exist.
    fn walk_block_map(&self, inode: &MemoryInode, path: &[usize]) -> Result<(u32, usize), WriteError> {
        let mut block = path.first().map_or(0, |at| pointer(inode, *at));
        let mut levels = 0usize;
        for at in path.iter().skip(1) {
            if block == 0 {
                return Ok((0, levels));
            }
            levels = levels.saturating_add(1);
            let node = self.pointer_block(inode, block)?;
            let mut bytes = [0; 4];
            node.load(at.saturating_mul(4), &mut bytes);
            block = u32::from_le_bytes(bytes);
        }
        Ok((block, levels))
    }

    /// The block of the disk behind a block of the file.
    pub(super) fn mapped_block(&self, inode: &MemoryInode, logical: u32) -> Result<Option<Run>, WriteError> {
        let Ok(path) = self.block_path(logical) else {
            return Ok(None);
        };
        let (block, _) = self.walk_block_map(inode, &path)?;
        Ok((block != 0).then(|| Run {
            logical,
            start: BlockNumber(block.into()),
            blocks: 1,
            unwritten: false,
        }))
    }

    /// Indirect blocks that are missing on the way to a block.
    pub(super) fn map_blocks_needed(&self, inode: &MemoryInode, logical: u32) -> Result<usize, WriteError> {
        let path = self.block_path(logical)?;
        let (block, levels) = self.walk_block_map(inode, &path)?;
        let missing = path.len().saturating_sub(1).saturating_sub(levels);
        Ok(if block == 0 { missing } else { 0 })
    }

    /// Maps one block where nothing is mapped. `spare` are blocks for the way to it.
    pub(super) fn map_block(
        &self,
        inode: &mut MemoryInode,
        logical: u32,
        block: BlockNumber,
        spare: &mut Vec<BlockNumber>,
    ) -> Result<(), WriteError> {
        let path = self.block_path(logical)?;
        let narrow = |block: BlockNumber| u32::try_from(block.0).map_err(|_| WriteError::TooBig);
        let last = path.len().saturating_sub(1);
        let mut node: Option<std::sync::Arc<crate::Block>> = None;
        for (level, at) in path.iter().enumerate() {
            let offset = at.saturating_mul(4);
            let mut next = match &node {
                None => pointer(inode, *at),
                Some(node) => {
                    let mut bytes = [0; 4];
                    node.load(offset, &mut bytes);
                    u32::from_le_bytes(bytes)
                }
            };
            let missing = next == 0;
            if level == last {
                next = narrow(block)?;
            } else if missing {
                let number = spare.pop().ok_or(WriteError::NoSpace)?;
                next = narrow(number)?;
                self.overlay.fresh(number);
                self.count_blocks(inode, 1);
            }
            if level == last || missing {
                match &node {
                    None => set_pointer(inode, *at, next),
                    Some(node) => self.store(node, offset, &next.to_le_bytes()),
                }
            }
            if level < last {
                node = Some(self.pointer_block(inode, next)?);
            }
        }
        Ok(())
    }

    /// Frees all blocks of the file from `from` on, and the indirect blocks that are empty then.
    pub(super) fn unmap_blocks(&self, inode: &mut MemoryInode, from: u64) -> Result<(), WriteError> {
        let mut first = 0u64;
        for index in 0..15usize {
            let levels = u32::try_from(index)
                .unwrap_or(0)
                .saturating_sub(DIRECT.saturating_sub(1));
            let reach = self.pointers_per_block().saturating_pow(levels);
            let block = pointer(inode, index);
            if block != 0 && first.saturating_add(reach) > from {
                let empty = self.unmap_branch(inode, block, levels, first, from)?;
                if empty {
                    set_pointer(inode, index, 0);
                }
            }
            first = first.saturating_add(reach);
        }
        Ok(())
    }

    /// The same below one pointer; whether nothing is left of it.
    fn unmap_branch(
        &self,
        inode: &mut MemoryInode,
        block: u32,
        levels: u32,
        first: u64,
        from: u64,
    ) -> Result<bool, WriteError> {
        if levels > 0 {
            let node = self.pointer_block(inode, block)?;
            let mut bytes = node.to_vec();
            let below = levels.saturating_sub(1);
            let reach = self.pointers_per_block().saturating_pow(below);
            let mut at = first;
            let mut changed = false;
            for index in 0..bytes.len() / 4 {
                let offset = index.saturating_mul(4);
                let next = u32::get(&bytes, offset);
                if next != 0
                    && at.saturating_add(reach) > from
                    && self.unmap_branch(inode, next, below, at, from)?
                {
                    0u32.put(&mut bytes, offset);
                    changed = true;
                }
                at = at.saturating_add(reach);
            }
            if bytes.iter().any(|byte| *byte != 0) {
                if changed {
                    self.store(&node, 0, &bytes);
                }
                return Ok(false);
            }
        }
        self.release_blocks(BlockNumber(block.into()), 1)?;
        self.count_blocks(inode, -1);
        Ok(true)
    }
}
