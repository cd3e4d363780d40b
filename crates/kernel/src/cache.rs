//! The inode cache: a hash of chains under one global lock.

use ext4::InodeNumber;
use machine::{BitLock, Cost, Registry, SpinLock, Task};

use crate::CachedInode;

/// Buckets of the hash. The kernel has one per 16 KiB of memory; what counts is inodes per bucket.
const BUCKETS: u32 = 1024;

/// The inode cache.
#[derive(Debug)]
pub(crate) struct InodeCache {
    /// `inode_hash_lock`: one for the whole system.
    pub(crate) lock: SpinLock<()>,
    /// Heads of the chains: place in the slab plus 1. Their top bit is the lock of the design that has one per bucket.
    heads: Vec<BitLock>,
    slab: Vec<CachedInode>,
}

impl InodeCache {
    /// A cache that holds these inodes.
    pub(crate) fn new(registry: &mut Registry, slab: Vec<CachedInode>) -> Self {
        let lock = SpinLock::new(registry, "inode hash lock", ());
        let heads: Vec<_> = (0..BUCKETS)
            .map(|_| BitLock::new(registry, "bucket lock", 0))
            .collect();
        for (name, inode) in (1..).zip(&slab) {
            let head = &heads[bucket(inode.number)];
            inode.next.preset(head.peek());
            head.preset(name);
        }
        Self { lock, heads, slab }
    }

    pub(crate) fn inodes(&self) -> &[CachedInode] {
        &self.slab
    }

    pub(crate) fn find_from_outside(&self, number: InodeNumber) -> Option<&CachedInode> {
        self.slab.iter().find(|inode| inode.number == number)
    }

    /// The head of the chain that this number belongs to.
    pub(crate) async fn head<K: Task>(&self, task: &K, number: InodeNumber) -> &BitLock {
        task.work(Cost::Hash).await;
        &self.heads[bucket(number)]
    }

    /// The inode with this name in a chain; `None` at its end.
    pub(crate) async fn follow<K: Task>(&self, task: &K, name: u32) -> Option<&CachedInode> {
        if name == 0 {
            return None;
        }
        task.work(Cost::HashChainStep).await;
        self.slab.get(name as usize - 1)
    }
}

/// Fibonacci hashing: consecutive numbers spread as they do with the kernel's function.
fn bucket(number: InodeNumber) -> usize {
    (number.get().wrapping_mul(0x9e37_79b9) >> (32 - BUCKETS.trailing_zeros())) as usize
}
