//! The bit lock: one bit of a word that also holds something else, such as the head of a hash chain.

use crate::{LockId, Nanoseconds, Registry, Task, Word};

const LOCKED: u32 = 1 << 31;

/// A lock in the top bit of a word; the other 31 bits are the word's own. No queue: whoever sees it free first has it.
#[derive(Debug)]
pub struct BitLock {
    id: LockId,
    word: Word,
}

/// The lock is held. Give it back with [`BitGuard::release`]; dropping it is for runs that were stopped.
#[must_use = "release it with `release(task).await`"]
#[derive(Debug)]
pub struct BitGuard<'l> {
    lock: &'l BitLock,
    since: Nanoseconds,
}

impl BitLock {
    /// A free lock of this class whose word holds `value`, on a line of its own.
    pub fn new(registry: &mut Registry, class: &str, value: u32) -> Self {
        let line = registry.line();
        Self {
            id: registry.lock(class),
            word: Word::new(value & !LOCKED, line),
        }
    }

    /// Its number in the trace.
    pub fn id(&self) -> LockId {
        self.id
    }

    /// The word's own bits, read without the lock.
    pub async fn load<K: Task>(&self, task: &K) -> u32 {
        task.load(&self.word).await & !LOCKED
    }

    /// Sets the word's own bits before the run begins.
    pub fn preset(&self, value: u32) {
        self.word.preset(value & !LOCKED);
    }

    /// The word's own bits, read from outside the run.
    pub fn peek(&self) -> u32 {
        self.word.peek() & !LOCKED
    }

    /// Takes the lock; spins while it is taken.
    pub async fn acquire<K: Task>(&self, task: &K) -> BitGuard<'_> {
        self.id.attempt(task);
        task.preempt_disable();
        let claim = |word: u32| (word & LOCKED == 0).then_some(word | LOCKED);
        let since = match task.update(&self.word, claim).await {
            Ok(_) => self.id.acquired(task),
            Err(mut seen) => {
                let asked = self.id.contended(task);
                loop {
                    while seen & LOCKED != 0 {
                        seen = task.spin_while(&self.word, seen).await;
                    }
                    match task.update(&self.word, claim).await {
                        Ok(_) => break,
                        Err(word) => seen = word,
                    }
                }
                self.id.acquired_after(task, asked)
            }
        };
        BitGuard { lock: self, since }
    }
}

impl BitGuard<'_> {
    /// Gives the lock back.
    pub async fn release<K: Task>(self, task: &K) {
        self.lock.id.released(task, self.since);
        // Clearing one bit cannot fail; the answer says nothing.
        let _ = task.update(&self.lock.word, |word| Some(word & !LOCKED)).await;
        task.preempt_enable();
    }
}
