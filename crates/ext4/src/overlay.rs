//! The copy-on-write overlay: all changes live here, the image is never written.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Block, BlockNumber, Blocks, Geometry, HandleId, ReadAt, ReadError, number::divide_wide};

/// Parts of the map, so that CPUs seldom meet in it. None of them is taken on a path that keeps its blocks.
const SHARDS: u64 = 16;

/// Blocks over an image, read on first use and kept.
#[derive(Debug)]
pub struct Overlay<R> {
    image: R,
    block_bytes: u32,
    shards: Vec<Mutex<BTreeMap<BlockNumber, Arc<Block>>>>,
}

impl<R: ReadAt> Overlay<R> {
    /// An overlay over `image` in which nothing has changed.
    pub fn new(image: R, geometry: &Geometry) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            image,
            block_bytes: geometry.block_bytes,
            shards,
        }
    }

    /// The blocks that somebody has changed, by number.
    pub fn changed_blocks(&self) -> Vec<Arc<Block>> {
        let mut changed = Vec::new();
        for shard in &self.shards {
            changed.extend(lock(shard).values().filter(|block| block.changed()).cloned());
        }
        changed.sort_by_key(|block| block.number());
        changed
    }

    fn offset_of(&self, block: BlockNumber) -> u64 {
        block.0.saturating_mul(u64::from(self.block_bytes))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: ReadAt> Blocks for Overlay<R> {
    fn get(&self, number: BlockNumber) -> Result<Arc<Block>, ReadError> {
        let index = usize::try_from(number.0 % SHARDS).unwrap_or(0);
        let mut bytes = vec![0; usize::try_from(self.block_bytes).unwrap_or(0)];
        let Some(shard) = self.shards.get(index) else {
            return Err(ReadError::failed(self.offset_of(number), &bytes));
        };
        let mut shard = lock(shard);
        if let Some(block) = shard.get(&number) {
            return Ok(block.clone());
        }
        self.image.read_at(self.offset_of(number), &mut bytes)?;
        let block = Arc::new(Block::new(number, &bytes));
        shard.insert(number, block.clone());
        Ok(block)
    }

    fn before_change(&self, block: &Arc<Block>, _handle: HandleId) {
        block.mark_changed();
    }
}

/// The image as changed.
impl<R: ReadAt> ReadAt for Overlay<R> {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.image.read_at(offset, buffer)?;
        let end = offset.saturating_add(buffer.len() as u64);
        let touched = BlockNumber(divide_wide(offset, self.block_bytes).0)
            ..BlockNumber(divide_wide(end, self.block_bytes).0.saturating_add(1));
        for shard in &self.shards {
            for (number, block) in lock(shard)
                .range(touched.clone())
                .filter(|(_, block)| block.changed())
            {
                let bytes = block.to_vec();
                let begin = self.offset_of(*number);
                let from = begin.max(offset);
                let to = begin.saturating_add(bytes.len() as u64).min(end);
                let part = |base: u64| {
                    let from = usize::try_from(from.saturating_sub(base)).unwrap_or(usize::MAX);
                    from..usize::try_from(to.saturating_sub(base)).unwrap_or(usize::MAX)
                };
                if let (Some(target), Some(source)) = (buffer.get_mut(part(offset)), bytes.get(part(begin))) {
                    target.copy_from_slice(source);
                }
            }
        }
        Ok(())
    }
}
