//! The queued spin lock: x86 since Linux 4.2, arm64 since 4.19.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::{
    LockId, Nanoseconds, Registry, Task, Word,
    registry::{QueueNode, name_in_queue},
};

/// Somebody holds it.
const LOCKED: u32 = 1;
/// Somebody waits for it without having queued.
const PENDING: u32 = 2;
/// Where the name of the last CPU in the queue begins.
const TAIL_SHIFT: u32 = 8;

/// A spin lock whose waiters stand in an MCS queue, each watching a line of its own; only the first watches the lock.
///
/// First come, first served, except that nobody queues while it is free. A single waiter sets the pending bit and
/// watches the lock word; only the next one queues.
#[derive(Debug)]
pub struct SpinLock<T> {
    id: LockId,
    word: Word,
    nodes: Arc<[QueueNode]>,
    /// Only ever tried: the modelled lock decides who goes.
    data: Mutex<T>,
}

/// The lock is held. Give it back with [`SpinGuard::release`]; dropping it is for runs that were stopped.
#[must_use = "release it with `release(task).await`"]
#[derive(Debug)]
pub struct SpinGuard<'l, T> {
    lock: &'l SpinLock<T>,
    /// What the lock guards.
    pub data: MutexGuard<'l, T>,
    since: Nanoseconds,
}

impl<T> SpinLock<T> {
    /// A free lock of this class, on a line of its own.
    pub fn new(registry: &mut Registry, class: &str, data: T) -> Self {
        let line = registry.line();
        Self {
            id: registry.lock(class),
            word: Word::new(0, line),
            nodes: registry.nodes(),
            data: Mutex::new(data),
        }
    }

    /// Its number in the trace.
    pub fn id(&self) -> LockId {
        self.id
    }

    /// What it guards, once the run is over.
    pub fn into_data(self) -> T {
        self.data.into_inner().expect("nobody panics while holding it")
    }

    /// What it guards, read from outside while no task runs.
    pub fn peek_data(&self) -> MutexGuard<'_, T> {
        self.data
            .try_lock()
            .expect("no task holds the lock while the run is over")
    }

    /// Takes the lock; spins while it is taken.
    pub async fn acquire<K: Task>(&self, task: &K) -> SpinGuard<'_, T> {
        self.id.attempt(task);
        task.preempt_disable();
        let since = if self.take_free(task).await {
            self.id.acquired(task)
        } else {
            let asked = self.id.contended(task);
            if !self.wait_pending(task).await {
                self.queue(task).await;
            }
            self.id.acquired_after(task, asked)
        };
        self.guard(since)
    }

    /// Takes the lock if it is free and nobody waits. A try that fails only reads.
    pub async fn try_acquire<K: Task>(&self, task: &K) -> Option<SpinGuard<'_, T>> {
        self.id.attempt(task);
        task.preempt_disable();
        if task.load(&self.word).await == 0 && self.take_free(task).await {
            return Some(self.guard(self.id.acquired(task)));
        }
        task.preempt_enable();
        self.id.try_failed(task);
        None
    }

    async fn take_free<K: Task>(&self, task: &K) -> bool {
        let free = |word: u32| (word == 0).then_some(LOCKED);
        task.update(&self.word, free).await.is_ok()
    }

    /// Waits as the only one; `false` where others wait already.
    async fn wait_pending<K: Task>(&self, task: &K) -> bool {
        let alone = |word: u32| (word & !LOCKED == 0).then_some(word | PENDING);
        let Ok(before) = task.update(&self.word, alone).await else {
            return false;
        };
        let mut seen = before | PENDING;
        while seen & LOCKED != 0 {
            seen = task.spin_while(&self.word, seen).await;
        }
        // Nobody but the one with the pending bit may take the lock now.
        let _ = task
            .update(&self.word, |word| Some((word & !PENDING) | LOCKED))
            .await;
        true
    }

    /// Stands in the queue, and returns holding the lock.
    async fn queue<K: Task>(&self, task: &K) {
        let me = name_in_queue(task.cpu());
        let node = self.node(me);
        task.store(&node.at_head, 0).await;
        task.store(&node.next, 0).await;
        let join = |word| Some((word & (LOCKED | PENDING)) | (me << TAIL_SHIFT));
        let before = task.update(&self.word, join).await.unwrap_or_else(|word| word);
        if before >> TAIL_SHIFT != 0 {
            task.store(&self.node(before >> TAIL_SHIFT).next, me).await;
            while task.load(&node.at_head).await == 0 {
                task.spin_while(&node.at_head, 0).await;
            }
        }
        let last = self.claim_as_head(task, me).await;
        if last != me {
            let mut next = task.load(&node.next).await;
            while next == 0 {
                next = task.spin_while(&node.next, 0).await;
            }
            task.store(&self.node(next).at_head, 1).await;
        }
    }

    /// Waits for the holder, takes the lock, and returns who is last in the queue.
    async fn claim_as_head<K: Task>(&self, task: &K, me: u32) -> u32 {
        let mut seen = task.load(&self.word).await;
        loop {
            while seen & (LOCKED | PENDING) != 0 {
                seen = task.spin_while(&self.word, seen).await;
            }
            let claim = |word: u32| match word & (LOCKED | PENDING) {
                0 if word >> TAIL_SHIFT == me => Some(LOCKED),
                0 => Some(word | LOCKED),
                _ => None,
            };
            match task.update(&self.word, claim).await {
                Ok(before) => return before >> TAIL_SHIFT,
                Err(word) => seen = word,
            }
        }
    }

    fn node(&self, name: u32) -> &QueueNode {
        &self.nodes[name as usize - 1]
    }

    fn guard(&self, since: Nanoseconds) -> SpinGuard<'_, T> {
        let data = self
            .data
            .try_lock()
            .expect("a lock that excludes lets one task in at a time");
        SpinGuard {
            lock: self,
            data,
            since,
        }
    }
}

impl<T> SpinGuard<'_, T> {
    /// Gives the lock back.
    pub async fn release<K: Task>(self, task: &K) {
        let Self { lock, data, since } = self;
        drop(data);
        lock.id.released(task, since);
        // Clearing one bit cannot fail; the answer says nothing.
        let _ = task.update(&lock.word, |word| Some(word & !LOCKED)).await;
        task.preempt_enable();
    }
}
