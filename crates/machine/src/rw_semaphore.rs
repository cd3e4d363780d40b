//! The reader-writer semaphore: many readers or one writer, waited for asleep.

use std::{
    collections::VecDeque,
    sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{LockId, Nanoseconds, Registry, SpinLock, Task, TaskId, Word};

/// A writer is inside.
const WRITER: u32 = 1 << 31;
/// Somebody queues: whoever comes now queues too.
const WAITERS: u32 = 1 << 30;

/// What a task wants to do inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Read,
    Write,
}

/// Readers side by side or one writer, in the order in which they came.
///
/// Whoever leaves lets the first in the queue in, and all readers right behind a reader. Spinning on a running writer
/// and stealing by writers are not modelled.
#[derive(Debug)]
pub struct RwSemaphore<T> {
    id: LockId,
    count: Word,
    queue: SpinLock<VecDeque<(TaskId, Wish)>>,
    wake_words: Arc<[Word]>,
    /// Only ever tried: the modelled lock decides who goes.
    data: RwLock<T>,
}

/// A reader is inside. Give it back with [`ReadGuard::release`]; dropping it is for runs that were stopped.
#[must_use = "release it with `release(task).await`"]
#[derive(Debug)]
pub struct ReadGuard<'l, T> {
    lock: &'l RwSemaphore<T>,
    /// What it guards.
    pub data: RwLockReadGuard<'l, T>,
    since: Nanoseconds,
}

/// A writer is inside. Give it back with [`WriteGuard::release`]; dropping it is for runs that were stopped.
#[must_use = "release it with `release(task).await`"]
#[derive(Debug)]
pub struct WriteGuard<'l, T> {
    lock: &'l RwSemaphore<T>,
    /// What it guards.
    pub data: RwLockWriteGuard<'l, T>,
    since: Nanoseconds,
}

impl<T> RwSemaphore<T> {
    /// A free semaphore of this class; its count and its queue's lock have lines of their own.
    pub fn new(registry: &mut Registry, class: &str, data: T) -> Self {
        let line = registry.line();
        Self {
            id: registry.lock(class),
            count: Word::new(0, line),
            queue: SpinLock::new(registry, &format!("{class}: wait lock"), VecDeque::new()),
            wake_words: registry.wake_words(),
            data: RwLock::new(data),
        }
    }

    /// Its number in the trace.
    pub fn id(&self) -> LockId {
        self.id
    }

    /// What it guards, read from outside while no task runs.
    pub fn peek_data(&self) -> RwLockReadGuard<'_, T> {
        self.data
            .try_read()
            .expect("no task is inside while the run is over")
    }

    /// Goes in as a reader (`down_read`); sleeps while a writer is inside or anybody queues.
    pub async fn read<K: Task>(&self, task: &K) -> ReadGuard<'_, T> {
        let since = self.enter(task, Wish::Read).await;
        let data = self.data.try_read().expect("no writer is in with a reader");
        ReadGuard {
            lock: self,
            data,
            since,
        }
    }

    /// Goes in as the only one (`down_write`); sleeps while anybody is inside or queues.
    pub async fn write<K: Task>(&self, task: &K) -> WriteGuard<'_, T> {
        let since = self.enter(task, Wish::Write).await;
        let data = self.data.try_write().expect("nobody is in with a writer");
        WriteGuard {
            lock: self,
            data,
            since,
        }
    }

    async fn enter<K: Task>(&self, task: &K, wish: Wish) -> Nanoseconds {
        self.id.attempt(task);
        task.might_sleep().await;
        let free = |count: u32| admit(count, wish);
        if task.update(&self.count, free).await.is_ok() {
            return self.id.acquired(task);
        }
        let asked = self.id.contended(task);
        let (me, wake) = (task.id(), &self.wake_words[usize::from(task.id().0)]);
        let mut queue = self.queue.acquire(task).await;
        queue.data.push_back((me, wish));
        task.store(wake, 0).await;
        let _ = task.update(&self.count, |count| Some(count | WAITERS)).await;
        let admitted = self.admit_first(task, &mut queue.data).await;
        queue.release(task).await;
        self.wake(task, admitted).await;
        loop {
            let queue = self.queue.acquire(task).await;
            let still = queue.data.iter().any(|(waiter, _)| *waiter == me);
            queue.release(task).await;
            if !still {
                return self.id.acquired_after(task, asked);
            }
            task.sleep_while(wake, 0, None).await;
            task.store(wake, 0).await;
        }
    }

    /// Lets in whoever may go in now from the head of the queue; they are to be woken.
    async fn admit_first<K: Task>(&self, task: &K, queue: &mut VecDeque<(TaskId, Wish)>) -> Vec<TaskId> {
        let mut admitted = Vec::new();
        while let Some((waiter, wish)) = queue.front().copied() {
            let enter = |count: u32| admit(count & !WAITERS, wish).map(|entered| entered | WAITERS);
            if task.update(&self.count, enter).await.is_err() {
                break;
            }
            admitted.push(waiter);
            queue.pop_front();
        }
        if queue.is_empty() {
            let _ = task.update(&self.count, |count| Some(count & !WAITERS)).await;
        }
        admitted
    }

    async fn wake<K: Task>(&self, task: &K, admitted: Vec<TaskId>) {
        for waiter in admitted.into_iter().filter(|waiter| *waiter != task.id()) {
            task.store(&self.wake_words[usize::from(waiter.0)], 1).await;
        }
    }

    async fn leave<K: Task>(&self, task: &K, wish: Wish) {
        let leave = |count: u32| match wish {
            Wish::Read => Some(count - 1),
            Wish::Write => Some(count & !WRITER),
        };
        let before = task
            .update(&self.count, leave)
            .await
            .unwrap_or_else(|count| count);
        let last = wish == Wish::Write || before & !WAITERS == 1;
        if before & WAITERS != 0 && last {
            let mut queue = self.queue.acquire(task).await;
            let admitted = self.admit_first(task, &mut queue.data).await;
            queue.release(task).await;
            self.wake(task, admitted).await;
        }
    }
}

/// The count with one more inside; `None` where that is not allowed.
fn admit(count: u32, wish: Wish) -> Option<u32> {
    match wish {
        Wish::Read => (count & (WRITER | WAITERS) == 0).then_some(count + 1),
        Wish::Write => (count == 0).then_some(WRITER),
    }
}

impl<T> ReadGuard<'_, T> {
    /// Goes out (`up_read`).
    pub async fn release<K: Task>(self, task: &K) {
        let Self { lock, data, since } = self;
        drop(data);
        lock.id.released(task, since);
        lock.leave(task, Wish::Read).await;
    }
}

impl<T> WriteGuard<'_, T> {
    /// Goes out (`up_write`).
    pub async fn release<K: Task>(self, task: &K) {
        let Self { lock, data, since } = self;
        drop(data);
        lock.id.released(task, since);
        lock.leave(task, Wish::Write).await;
    }
}
