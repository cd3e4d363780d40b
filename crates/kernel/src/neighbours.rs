//! The neighbour update: writing along the deferred times of inodes in the same table block.

use machine::{BitLock, Cost, Task};
use trace::{Kind, SkipReason};

use crate::{
    CachedInode, Design, Lab,
    inode::state::{DIRTY, DIRTY_TIME, FREEING, NEW},
};

/// What came of the look at one inode of a chain.
enum Match {
    /// Its times were written, or its state changed in between: the walk ends (the kernel's -1).
    Handled(Option<SkipReason>),
    /// Not eligible: the walk goes on to the end of the chain (the kernel's 0).
    Passed(SkipReason),
}

impl Lab {
    /// `ext4_update_other_inodes_time`: called for every write of an inode on a lazytime mount, after the raw inode
    /// was filled and before its block is dirtied, with no lock held.
    pub(crate) async fn update_other_inodes_time<K: Task>(&self, task: &K, writer: &CachedInode) {
        if self.scenario.design != Design::StaticTrylock {
            self.visit_neighbours(task, writer).await;
            return;
        }
        let Some(guard) = self.static_lock.try_acquire(task).await else {
            let left = u64::from(self.slots_per_block) - 1;
            task.emit(Kind::NeighboursAbandoned, writer.number.get(), left);
            return;
        };
        self.visit_neighbours(task, writer).await;
        guard.release(task).await;
    }

    async fn visit_neighbours<K: Task>(&self, task: &K, writer: &CachedInode) {
        let orig = writer.number.get();
        let first = writer.number.index() / self.slots_per_block * self.slots_per_block + 1;
        for number in (first..first + self.slots_per_block).filter(|number| *number != orig) {
            task.emit(Kind::NeighbourLookup, number, u64::from(orig));
            let skipped = match self.find_inode_nowait(task, number).await {
                Ok(skipped) => skipped,
                Err(LockBusy) if self.scenario.design == Design::TrylockBreak => {
                    task.emit(Kind::NeighbourSkipped, number, SkipReason::LockBusy as u64);
                    let left = first + self.slots_per_block - number - 1;
                    task.emit(Kind::NeighboursAbandoned, orig, u64::from(left));
                    return;
                }
                Err(LockBusy) => Some(SkipReason::LockBusy),
            };
            match skipped {
                Some(reason) => task.emit(Kind::NeighbourSkipped, number, reason as u64),
                None => task.emit(Kind::NeighbourWritten, number, u64::from(orig)),
            }
        }
    }

    /// `find_inode_nowait`, or `find_inode_by_ino_rcu` since 5.8. `Ok(None)`: the neighbour was written along.
    async fn find_inode_nowait<K: Task>(
        &self,
        task: &K,
        number: u32,
    ) -> Result<Option<SkipReason>, LockBusy> {
        let number = ext4::InodeNumber::new(number).expect("neighbours are numbered from 1");
        let head = self.cache.head(task, number).await;
        match self.scenario.design {
            Design::Spin | Design::StaticTrylock => {
                let guard = self.cache.lock.acquire(task).await;
                let skipped = self.walk(task, head, number).await;
                guard.release(task).await;
                Ok(skipped)
            }
            Design::TrylockSkip | Design::TrylockBreak => {
                let guard = self.cache.lock.try_acquire(task).await.ok_or(LockBusy)?;
                let skipped = self.walk(task, head, number).await;
                guard.release(task).await;
                Ok(skipped)
            }
            // Reading under RCU is free: it only keeps inodes from being freed, and nothing here frees any.
            Design::Rcu => Ok(self.walk(task, head, number).await),
            Design::BucketLock => {
                let guard = head.acquire(task).await;
                let skipped = self.walk(task, head, number).await;
                guard.release(task).await;
                Ok(skipped)
            }
        }
    }

    /// Walks a chain, and writes the neighbour's times if it is there and eligible.
    async fn walk<K: Task>(&self, task: &K, head: &BitLock, number: ext4::InodeNumber) -> Option<SkipReason> {
        let mut reason = SkipReason::NotCached;
        let mut name = head.load(task).await;
        while let Some(inode) = self.cache.follow(task, name).await {
            if inode.number == number {
                match self.other_inode_match(task, inode).await {
                    Match::Handled(skipped) => return skipped,
                    Match::Passed(why) => reason = why,
                }
            }
            name = task.load(&inode.next).await;
        }
        Some(reason)
    }

    /// `other_inode_match`: a look without a lock, then another under `i_lock`.
    async fn other_inode_match<K: Task>(&self, task: &K, inode: &CachedInode) -> Match {
        if let Some(reason) = ineligible(task.load(&inode.state).await) {
            return Match::Passed(reason);
        }
        let guard = inode.lock.acquire(task).await;
        let clear = |state: u32| ineligible(state).is_none().then_some(state & !DIRTY_TIME);
        let cleared = task.update(&inode.state, clear).await;
        guard.release(task).await;
        if let Err(state) = cleared {
            return Match::Handled(ineligible(state));
        }
        let mut raw = inode.raw.acquire(task).await;
        task.work(Cost::TimesCopy).await;
        raw.data.fill_times(self.seed, inode);
        raw.release(task).await;
        Match::Handled(None)
    }
}

/// The hash lock was taken and the design does not wait for it.
struct LockBusy;

/// Why an inode in this state may not be written along; as in 4.0 to 5.11.
fn ineligible(state: u32) -> Option<SkipReason> {
    if state & (FREEING | NEW) != 0 {
        Some(SkipReason::NewOrFreeing)
    } else if state & DIRTY != 0 {
        Some(SkipReason::Dirty)
    } else if state & DIRTY_TIME == 0 {
        Some(SkipReason::NothingDeferred)
    } else {
        None
    }
}
