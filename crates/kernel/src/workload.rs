//! What the CPUs do: fio's ftruncate jobs of the 2020 mail, and a job that reads.

use std::sync::atomic::Ordering::Relaxed;

use ext4::Timestamp;
use machine::{Cost, Stream, Task, TaskId};
use trace::Kind;

use crate::{
    CachedInode, Lab, Lazytime,
    inode::state::{DIRTY, DIRTY_TIME},
};

/// Sizes are multiples of this, as fio's `bs=4k`.
const SIZE_STEP: u64 = 4096;
/// Sizes are below this, as fio's `filesize=16m`.
const SIZE_END: u64 = 16 << 20;
/// Inode writes of a truncate to a smaller size.
const WRITES_SHRINKING: u32 = 4;
/// Inode writes of a truncate to a larger size.
const WRITES_GROWING: u32 = 2;
/// The kernel's clock for timestamps moves once a tick; HZ = 250.
const TICK_NS: u64 = 4_000_000;

impl Lab {
    /// Everything that one CPU does in a run.
    pub async fn run<K: Task>(&self, task: &K) {
        let mut done = 0;
        while !task.stopping()
            && self
                .scenario
                .operations
                .is_none_or(|operations| done < operations)
        {
            match self.job_of(task.id()) {
                Some(file) => self.truncate(task, file).await,
                None => self.read(task).await,
            }
            done += 1;
        }
        task.emit(Kind::Exit, 0, done);
    }

    /// The file of this task's job; `None` for the job that reads.
    fn job_of(&self, task: TaskId) -> Option<&CachedInode> {
        self.jobs
            .get(usize::from(task.0))
            .map(|at| &self.cache.inodes()[*at])
    }

    /// One ftruncate to a random size. There is no journal (`noload`), so nothing becomes an orphan.
    async fn truncate<K: Task>(&self, task: &K, file: &CachedInode) {
        let size = task.random(Stream::Size) % (SIZE_END / SIZE_STEP) * SIZE_STEP;
        let begun = task.stamp();
        task.emit(Kind::OperationBegin, file.number.get(), size);
        task.work(Cost::RestOfTruncate).await;
        let writes = if size < file.size.load(Relaxed) {
            WRITES_SHRINKING
        } else {
            WRITES_GROWING
        };
        file.size.store(size, Relaxed);
        file.times.set_modified(self.current_time(task));
        self.mark_dirty(task, file).await;
        for _ in 0..writes {
            self.do_update_inode(task, file).await;
        }
        task.emit(Kind::OperationEnd, file.number.get(), (task.stamp() - begun).0);
    }

    /// Reads one of the files that are read. With lazytime its access time is deferred, else written at once.
    async fn read<K: Task>(&self, task: &K) {
        let choice = task.random(Stream::Choice) % self.read_files.len() as u64;
        let file = &self.cache.inodes()[self.read_files[choice as usize]];
        task.work(Cost::InodeRead).await;
        file.times.set_accessed(self.current_time(task));
        match self.scenario.lazytime {
            Lazytime::On => self.set_state(task, file, DIRTY_TIME, 0).await,
            Lazytime::Off => self.do_update_inode(task, file).await,
        }
        task.emit(Kind::InodeRead, file.number.get(), 0);
    }

    /// `ext4_do_update_inode`, on every `ext4_mark_inode_dirty`.
    async fn do_update_inode<K: Task>(&self, task: &K, inode: &CachedInode) {
        self.volume.before_change(&inode.block);
        let mut raw = inode.raw.acquire(task).await;
        task.work(Cost::InodeFill).await;
        raw.data.fill(self.seed, inode);
        raw.release(task).await;
        task.emit(Kind::InodeWritten, inode.number.get(), inode.block.number().0);
        if self.scenario.lazytime == Lazytime::On {
            self.update_other_inodes_time(task, inode).await;
        }
    }

    /// Real dirt drops deferred times: the write will carry them along.
    async fn mark_dirty<K: Task>(&self, task: &K, inode: &CachedInode) {
        if task.load(&inode.state).await & DIRTY == 0 {
            self.set_state(task, inode, DIRTY, DIRTY_TIME).await;
        }
    }

    async fn set_state<K: Task>(&self, task: &K, inode: &CachedInode, set: u32, clear: u32) {
        let guard = inode.lock.acquire(task).await;
        // Setting bits cannot fail; the answer says nothing.
        let _ = task
            .update(&inode.state, |state| Some(state & !clear | set))
            .await;
        guard.release(task).await;
    }

    /// What the kernel would stamp on a file now.
    fn current_time<K: Task>(&self, task: &K) -> Timestamp {
        let since_ns = task.now().0 / TICK_NS * TICK_NS;
        let seconds = self.started_at + (since_ns / 1_000_000_000).cast_signed();
        Timestamp {
            seconds,
            nanoseconds: (since_ns % 1_000_000_000) as u32,
        }
    }
}
