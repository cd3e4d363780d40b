//! The simplest spin lock: whoever sets the word first has it.

use std::sync::{Mutex, MutexGuard};

use crate::{LockId, Nanoseconds, Registry, Task, Word};

/// A spin lock without any order.
#[derive(Debug)]
pub struct TestAndSetLock<T> {
    id: LockId,
    word: Word,
    look: Look,
    /// Only ever tried: the modelled lock decides who goes.
    data: Mutex<T>,
}

/// What a waiter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It tries to set the word again and again, and takes the line each time.
    Never,
    /// It watches its copy, and tries once the word is clear (test and test-and-set).
    First,
}

/// The lock is held. Give it back with [`TestAndSetGuard::release`]; dropping it is for runs that were stopped.
#[must_use = "release it with `release(task).await`"]
#[derive(Debug)]
pub struct TestAndSetGuard<'l, T> {
    lock: &'l TestAndSetLock<T>,
    /// What the lock guards.
    pub data: MutexGuard<'l, T>,
    since: Nanoseconds,
}

impl<T> TestAndSetLock<T> {
    /// A free lock of this class, on a line of its own.
    pub fn new(registry: &mut Registry, class: &str, look: Look, data: T) -> Self {
        let line = registry.line();
        Self {
            id: registry.lock(class),
            word: Word::new(0, line),
            look,
            data: Mutex::new(data),
        }
    }

    /// Its number in the trace.
    pub fn id(&self) -> LockId {
        self.id
    }

    /// What it guards, read from outside while no task runs.
    pub fn peek_data(&self) -> MutexGuard<'_, T> {
        self.data
            .try_lock()
            .expect("no task holds the lock while the run is over")
    }

    /// Takes the lock; spins while it is taken.
    pub async fn acquire<K: Task>(&self, task: &K) -> TestAndSetGuard<'_, T> {
        self.id.attempt(task);
        task.preempt_disable();
        let since = if self.set(task).await {
            self.id.acquired(task)
        } else {
            let asked = self.id.contended(task);
            loop {
                if self.look == Look::First && task.load(&self.word).await != 0 {
                    task.spin_while(&self.word, 1).await;
                }
                if self.set(task).await {
                    break;
                }
            }
            self.id.acquired_after(task, asked)
        };
        let data = self
            .data
            .try_lock()
            .expect("a lock that excludes lets one task in at a time");
        TestAndSetGuard {
            lock: self,
            data,
            since,
        }
    }

    async fn set<K: Task>(&self, task: &K) -> bool {
        let clear = |word: u32| (word == 0).then_some(1);
        task.update(&self.word, clear).await.is_ok()
    }
}

impl<T> TestAndSetGuard<'_, T> {
    /// Gives the lock back.
    pub async fn release<K: Task>(self, task: &K) {
        let Self { lock, data, since } = self;
        drop(data);
        lock.id.released(task, since);
        task.store(&lock.word, 0).await;
        task.preempt_enable();
    }
}
