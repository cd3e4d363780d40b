//! The copy-on-write overlay: all changes live here, the image is never written.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::{Block, BlockNumber, Blocks, Geometry, ReadAt, ReadError, number::divide_wide};

/// Parts of the map, so that CPUs seldom meet in it. None of them is taken on a path that keeps its blocks.
const SHARDS: u64 = 16;

/// Blocks over an image, read on first use and kept.
#[derive(Debug)]
pub struct Overlay<R> {
    image: R,
    block_bytes: u32,
    shards: Vec<Mutex<BTreeMap<BlockNumber, Arc<Block>>>>,
    /// Runs of blocks that are zeros, first to last plus one, where no block is kept.
    zeroed: Mutex<BTreeMap<u64, u64>>,
    /// The running transaction; 0 while none is kept.
    running: AtomicU32,
    /// Blocks as they were before the running transaction changed them.
    before: Mutex<BTreeMap<BlockNumber, Box<[u8]>>>,
}

impl<R: ReadAt> Overlay<R> {
    /// An overlay over `image` in which nothing has changed.
    pub fn new(image: R, geometry: &Geometry) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            image,
            block_bytes: geometry.block_bytes,
            shards,
            zeroed: Mutex::default(),
            running: AtomicU32::new(0),
            before: Mutex::default(),
        }
    }

    /// The image under it.
    pub fn image(&self) -> &R {
        &self.image
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

    /// Ends the running transaction, and begins another: what was changed so far is what a crash leaves.
    ///
    /// From the first call on, a block is copied before a transaction changes it. No handle may be open.
    pub fn commit(&self) {
        let mut before = lock(&self.before);
        before.clear();
        let next = self.running.load(Relaxed).checked_add(1).unwrap_or(1);
        self.running.store(next, Relaxed);
    }

    /// Fills a run of blocks with zeros, past any transaction, as a device does when it is asked to. Takes no memory
    /// for them.
    pub fn zero(&self, start: BlockNumber, count: u32) {
        let end = start.0.saturating_add(count.into());
        for shard in &self.shards {
            for (_, block) in lock(shard).range(start..BlockNumber(end)) {
                block.mark_changed();
                block.words().iter().for_each(|word| word.store(0, Relaxed));
            }
        }
        add_run(&mut lock(&self.zeroed), start.0, end);
    }

    /// The runs of blocks that were filled with zeros, first to last plus one.
    pub fn zeroed_runs(&self) -> BTreeMap<u64, u64> {
        lock(&self.zeroed).clone()
    }

    /// Blocks that the running transaction has changed.
    pub fn blocks_in_transaction(&self) -> usize {
        lock(&self.before).len()
    }

    fn offset_of(&self, block: BlockNumber) -> u64 {
        block.0.saturating_mul(u64::from(self.block_bytes))
    }

    fn block_size(&self) -> usize {
        usize::try_from(self.block_bytes).unwrap_or(0)
    }

    fn shard(&self, number: BlockNumber) -> Option<MutexGuard<'_, BTreeMap<BlockNumber, Arc<Block>>>> {
        let index = usize::try_from(number.0 % SHARDS).unwrap_or(0);
        self.shards.get(index).map(lock)
    }
}

impl<R: ReadAt + Clone> Overlay<R> {
    /// The image as changed so far. Later changes do not reach it.
    pub fn snapshot(&self) -> Snapshot<R> {
        let changed = self.changed_blocks();
        Snapshot {
            image: self.image.clone(),
            block_bytes: self.block_bytes,
            zeroed: self.zeroed_runs(),
            blocks: changed
                .iter()
                .map(|block| (block.number(), block.to_vec().into_boxed_slice()))
                .collect(),
        }
    }

    /// The image as a crash would leave it now: as it was at the last [`Overlay::commit`].
    pub fn crash_image(&self) -> Snapshot<R> {
        // Held throughout, so that no block gets its first change meanwhile.
        let before = lock(&self.before);
        let mut snapshot = self.snapshot();
        snapshot
            .blocks
            .extend(before.iter().map(|(number, bytes)| (*number, bytes.clone())));
        snapshot
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: ReadAt> Blocks for Overlay<R> {
    fn get(&self, number: BlockNumber) -> Result<Arc<Block>, ReadError> {
        let Some(mut shard) = self.shard(number) else {
            return Err(ReadError::failed(self.offset_of(number), &[]));
        };
        if let Some(block) = shard.get(&number) {
            return Ok(block.clone());
        }
        let mut bytes = vec![0; self.block_size()];
        if !in_run(&lock(&self.zeroed), number.0) {
            self.image.read_at(self.offset_of(number), &mut bytes)?;
        }
        let block = Arc::new(Block::new(number, &bytes));
        shard.insert(number, block.clone());
        Ok(block)
    }

    fn fresh(&self, number: BlockNumber) -> Arc<Block> {
        let new = || Arc::new(Block::zeroed(number, self.block_size()));
        let block = match self.shard(number) {
            Some(mut shard) => shard.entry(number).or_insert_with(new).clone(),
            None => new(),
        };
        self.before_change(&block);
        block.words().iter().for_each(|word| word.store(0, Relaxed));
        block
    }

    fn before_change(&self, block: &Arc<Block>) {
        block.mark_changed();
        let running = self.running.load(Relaxed);
        if running == 0 || block.copied_for() == running {
            return;
        }
        let mut before = lock(&self.before);
        if block.copied_for() != running {
            before.insert(block.number(), block.to_vec().into_boxed_slice());
            block.set_copied_for(running);
        }
    }
}

/// Adds a run to runs that neither overlap nor touch.
fn add_run(runs: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    if start >= end {
        return;
    }
    while let Some((other, last)) = runs.range(..=end).next_back().map(|(start, end)| (*start, *end))
        && last >= start
    {
        runs.remove(&other);
        start = start.min(other);
        end = end.max(last);
    }
    runs.insert(start, end);
}

fn in_run(runs: &BTreeMap<u64, u64>, block: u64) -> bool {
    runs.range(..=block)
        .next_back()
        .is_some_and(|(_, end)| block < *end)
}

/// Zeroes what was read at `offset` where it lies in a run.
fn clear_runs(runs: &BTreeMap<u64, u64>, block_bytes: u32, buffer: &mut [u8], offset: u64) {
    if runs.is_empty() {
        return;
    }
    let touched = touched(block_bytes, offset, buffer.len());
    let bytes = |block: u64| block.saturating_mul(block_bytes.into());
    let end = offset.saturating_add(buffer.len() as u64);
    let overlapping = runs
        .range(..touched.end.0)
        .rev()
        .take_while(|(_, last)| **last > touched.start.0);
    for (first, last) in overlapping {
        let part =
            |at: u64| usize::try_from(at.clamp(offset, end).saturating_sub(offset)).unwrap_or(usize::MAX);
        if let Some(part) = buffer.get_mut(part(bytes(*first))..part(bytes(*last))) {
            part.fill(0);
        }
    }
}

/// Puts over what was read at `offset` the parts of a changed block that lie in it.
fn patch(buffer: &mut [u8], offset: u64, block_at: u64, block: &[u8]) {
    let end = offset.saturating_add(buffer.len() as u64);
    let from = block_at.max(offset);
    let to = block_at.saturating_add(block.len() as u64).min(end);
    let part = |base: u64| {
        let from = usize::try_from(from.saturating_sub(base)).unwrap_or(usize::MAX);
        from..usize::try_from(to.saturating_sub(base)).unwrap_or(usize::MAX)
    };
    if let (Some(target), Some(source)) = (buffer.get_mut(part(offset)), block.get(part(block_at))) {
        target.copy_from_slice(source);
    }
}

/// The blocks that a range of bytes touches.
fn touched(block_bytes: u32, offset: u64, length: usize) -> std::ops::Range<BlockNumber> {
    let end = offset.saturating_add(length as u64);
    BlockNumber(divide_wide(offset, block_bytes).0)
        ..BlockNumber(divide_wide(end, block_bytes).0.saturating_add(1))
}

/// The image as changed.
impl<R: ReadAt> ReadAt for Overlay<R> {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.image.read_at(offset, buffer)?;
        let touched = touched(self.block_bytes, offset, buffer.len());
        clear_runs(&lock(&self.zeroed), self.block_bytes, buffer, offset);
        for shard in &self.shards {
            for (number, block) in lock(shard).range(touched.clone()) {
                if block.changed() {
                    patch(buffer, offset, self.offset_of(*number), &block.to_vec());
                }
            }
        }
        Ok(())
    }
}

/// An image at one moment: the blocks that differ, over what they differ from.
#[derive(Clone, Debug)]
pub struct Snapshot<R> {
    image: R,
    block_bytes: u32,
    zeroed: BTreeMap<u64, u64>,
    blocks: BTreeMap<BlockNumber, Box<[u8]>>,
}

impl<R> Snapshot<R> {
    /// An image in which these runs of blocks are zeros (first to last plus one), and these blocks others.
    pub fn new(
        image: R,
        block_bytes: u32,
        zeroed: BTreeMap<u64, u64>,
        blocks: BTreeMap<BlockNumber, Box<[u8]>>,
    ) -> Self {
        Self {
            image,
            block_bytes,
            zeroed,
            blocks,
        }
    }

    /// Runs of blocks that are zeros, first to last plus one, but for those in [`Snapshot::blocks`].
    pub fn zeroed(&self) -> &BTreeMap<u64, u64> {
        &self.zeroed
    }

    /// The other blocks that differ, by number.
    pub fn blocks(&self) -> &BTreeMap<BlockNumber, Box<[u8]>> {
        &self.blocks
    }
}

impl<R: ReadAt> ReadAt for Snapshot<R> {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.image.read_at(offset, buffer)?;
        let touched = touched(self.block_bytes, offset, buffer.len());
        clear_runs(&self.zeroed, self.block_bytes, buffer, offset);
        for (number, block) in self.blocks.range(touched) {
            let at = number.0.saturating_mul(u64::from(self.block_bytes));
            patch(buffer, offset, at, block);
        }
        Ok(())
    }
}
