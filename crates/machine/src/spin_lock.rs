//! The queued spin lock: x86 since Linux 4.2, arm64 since 4.19.

use std::sync::{Arc, Mutex, MutexGuard};

use trace::Kind;

use crate::{
    LockId, Nanoseconds, Registry, Task, Word,
    registry::{QueueNode, name_in_queue},
};

/// Somebody holds it.
const LOCKED: u32 = 1;
/// Where the name of the last CPU in the queue begins.
const TAIL_SHIFT: u32 = 8;

/// A spin lock whose waiters stand in an MCS queue, each watching a line of its own; only the first watches the lock.
///
/// First come, first served, except that nobody queues while it is free. The pending bit, which spares a single
/// waiter the queue, is not modelled.
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
        task.emit(Kind::LockAttempt, self.id.0, 0);
        let mut waited = Nanoseconds(0);
        if task
            .update(&self.word, |word| (word == 0).then_some(LOCKED))
            .await
            .is_err()
        {
            let asked = task.now();
            task.emit(Kind::LockContended, self.id.0, 0);
            self.queue(task).await;
            waited = task.now() - asked;
        }
        self.guard(task, waited)
    }

    /// Takes the lock if it is free and nobody queues. A try that fails only reads.
    pub async fn try_acquire<K: Task>(&self, task: &K) -> Option<SpinGuard<'_, T>> {
        task.emit(Kind::LockAttempt, self.id.0, 0);
        let free = task.load(&self.word).await == 0;
        if free
            && task
                .update(&self.word, |word| (word == 0).then_some(LOCKED))
                .await
                .is_ok()
        {
            return Some(self.guard(task, Nanoseconds(0)));
        }
        task.emit(Kind::TryFailed, self.id.0, 0);
        None
    }

    /// Stands in the queue, and returns holding the lock.
    async fn queue<K: Task>(&self, task: &K) {
        let me = name_in_queue(task.cpu());
        let node = self.node(me);
        task.store(&node.at_head, 0).await;
        task.store(&node.next, 0).await;
        let join = |word| Some((word & LOCKED) | (me << TAIL_SHIFT));
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
            while seen & LOCKED != 0 {
                seen = task.spin_while(&self.word, seen).await;
            }
            let claim = |word: u32| match word & LOCKED {
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

    fn guard<K: Task>(&self, task: &K, waited: Nanoseconds) -> SpinGuard<'_, T> {
        task.emit(Kind::LockAcquired, self.id.0, waited.0);
        let data = self
            .data
            .try_lock()
            .expect("a lock that excludes lets one task in at a time");
        SpinGuard {
            lock: self,
            data,
            since: task.stamp(),
        }
    }
}

impl<T> SpinGuard<'_, T> {
    /// Gives the lock back.
    pub async fn release<K: Task>(self, task: &K) {
        let Self { lock, data, since } = self;
        drop(data);
        task.emit(Kind::LockReleased, lock.id.0, (task.stamp() - since).0);
        // Clearing one bit cannot fail; the answer says nothing.
        let _ = task.update(&lock.word, |word| Some(word & !LOCKED)).await;
    }
}
