//! An inode in the cache.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use ext4::{Block, InodeNumber, RawInode, Seed, Timestamp, seal_inode};
use machine::{Registry, SpinLock, Word};

/// Bits of `i_state`, as far as the neighbour update looks at them. The values are the model's own.
pub(crate) mod state {
    /// Real changes wait to be written (`I_DIRTY_SYNC` or `I_DIRTY_DATASYNC`).
    pub(crate) const DIRTY: u32 = 1;
    /// Only timestamps wait (`I_DIRTY_TIME`).
    pub(crate) const DIRTY_TIME: u32 = 2;
    /// Being created (`I_NEW`).
    pub(crate) const NEW: u32 = 4;
    /// Being freed (`I_FREEING` or `I_WILL_FREE`).
    pub(crate) const FREEING: u32 = 8;
}

/// An inode in the cache.
#[derive(Debug)]
pub struct CachedInode {
    /// Its number.
    pub number: InodeNumber,
    /// The table block that it lies in, kept as the kernel keeps a buffer head.
    pub(crate) block: Arc<Block>,
    /// `i_state`.
    pub(crate) state: Word,
    /// The next inode in the hash chain: its place in the slab plus 1, 0 at the end.
    pub(crate) next: Word,
    /// `i_lock`: guards the transitions of `i_state`.
    pub(crate) lock: SpinLock<()>,
    /// `i_raw_lock`: guards the raw inode in its table block.
    pub(crate) raw: SpinLock<RawSlot>,
    /// The times in memory. Read without a lock, as the kernel does.
    pub(crate) times: Times,
    /// The size in memory.
    pub(crate) size: AtomicU64,
}

/// Three timestamps in memory.
#[derive(Debug, Default)]
pub struct Times {
    accessed: Moment,
    changed: Moment,
    modified: Moment,
}

#[derive(Debug, Default)]
struct Moment {
    seconds: AtomicU64,
    nanoseconds: AtomicU32,
}

impl Moment {
    fn get(&self) -> Timestamp {
        let seconds = self.seconds.load(Relaxed).cast_signed();
        Timestamp {
            seconds,
            nanoseconds: self.nanoseconds.load(Relaxed),
        }
    }

    fn set(&self, time: Timestamp) {
        self.seconds.store(time.seconds.cast_unsigned(), Relaxed);
        self.nanoseconds.store(time.nanoseconds, Relaxed);
    }
}

impl Times {
    pub(crate) fn set_accessed(&self, time: Timestamp) {
        self.accessed.set(time);
    }

    pub(crate) fn set_modified(&self, time: Timestamp) {
        self.modified.set(time);
        self.changed.set(time);
    }
}

/// An inode's place in its table block.
#[derive(Debug)]
pub(crate) struct RawSlot {
    number: InodeNumber,
    block: Arc<Block>,
    offset: usize,
    /// Room to work in, so that no operation allocates.
    bytes: Vec<u8>,
}

impl RawSlot {
    /// Changes the raw inode, and gives it the right checksum.
    fn change(&mut self, seed: Option<Seed>, change: impl FnOnce(&mut RawInode, bool)) {
        self.block.load(self.offset, &mut self.bytes);
        let mut raw = RawInode::decode(&self.bytes);
        change(&mut raw, self.bytes.len() > 128);
        raw.encode(&mut self.bytes);
        if let Some(seed) = seed {
            seal_inode(seed, self.number, &mut self.bytes);
        }
        self.block.store(self.offset, &self.bytes);
    }

    /// Writes size and times (`ext4_fill_raw_inode`, as far as truncate changes it).
    pub(crate) fn fill(&mut self, seed: Option<Seed>, inode: &CachedInode) {
        let size = inode.size.load(Relaxed);
        self.change(seed, |raw, extra| {
            raw.i_size_lo = (size & u64::from(u32::MAX)) as u32;
            raw.i_size_high = (size >> 32) as u32;
            put_times(raw, &inode.times, extra);
        });
    }

    /// Writes the times alone, as a neighbour's writer does.
    pub(crate) fn fill_times(&mut self, seed: Option<Seed>, inode: &CachedInode) {
        self.change(seed, |raw, extra| put_times(raw, &inode.times, extra));
    }
}

fn put_times(raw: &mut RawInode, times: &Times, extra: bool) {
    let ((atime, atime_extra), (ctime, ctime_extra), (mtime, mtime_extra)) = (
        times.accessed.get().encode(),
        times.changed.get().encode(),
        times.modified.get().encode(),
    );
    (raw.i_atime, raw.i_ctime, raw.i_mtime) = (atime, ctime, mtime);
    if extra {
        (raw.i_atime_extra, raw.i_ctime_extra, raw.i_mtime_extra) = (atime_extra, ctime_extra, mtime_extra);
    }
}

impl CachedInode {
    /// Reads the inode that lies at `offset` of `block` into the cache.
    pub(crate) fn load(
        registry: &mut Registry,
        number: InodeNumber,
        block: Arc<Block>,
        offset: usize,
        inode_bytes: usize,
    ) -> Self {
        let mut bytes = vec![0; inode_bytes];
        block.load(offset, &mut bytes);
        let inode = ext4::Inode::decode(&bytes);
        let times = Times::default();
        times.accessed.set(inode.accessed);
        times.changed.set(inode.changed);
        times.modified.set(inode.modified);
        // State and link share the inode's first line; its two locks have lines of their own.
        let line = registry.line();
        Self {
            number,
            block: block.clone(),
            state: Word::new(0, line),
            next: Word::new(0, line),
            lock: SpinLock::new(registry, "i_lock", ()),
            raw: SpinLock::new(
                registry,
                "raw inode lock",
                RawSlot {
                    number,
                    block,
                    offset,
                    bytes,
                },
            ),
            times,
            size: AtomicU64::new(inode.size),
        }
    }

    /// Whether its times are deferred right now; read from outside the run.
    pub fn times_deferred(&self) -> bool {
        self.state.peek() & state::DIRTY_TIME != 0
    }
}
