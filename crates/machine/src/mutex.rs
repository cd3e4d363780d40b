//! The sleeping mutex in its three ages.

use std::{
    collections::VecDeque,
    sync::{self, Arc},
};

use crate::{LockId, Nanoseconds, Registry, SpinLock, Task, TaskId, Word};

/// The owner's task number plus 1; 0 while it is free.
const OWNER: u32 = 0x00ff_ffff;
/// Somebody queues.
const WAITERS: u32 = 1 << 31;
/// The first in the queue has lost once and wants it handed over.
const HANDOFF: u32 = 1 << 30;
/// It was handed to the owner named, who has not noticed yet.
const PICKUP: u32 = 1 << 29;

/// What a task does that finds the mutex taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It queues and sleeps (before Linux 2.6.30).
    Sleep,
    /// It spins as long as the owner runs, then queues and sleeps (2.6.30 to 4.9).
    SpinOnOwner,
    /// The same; and the first in the queue that loses to another has it handed over the next time (since 4.10).
    HandOff,
}

/// A lock that is waited for asleep. Whoever finds it free takes it, also past the queue.
///
/// The list on which spinners queue since 3.10 is not modelled: all of them watch the owner.
#[derive(Debug)]
pub struct Mutex<T> {
    id: LockId,
    waiting: Waiting,
    owner: Word,
    queue: SpinLock<VecDeque<TaskId>>,
    wake_words: Arc<[Word]>,
    /// Only ever tried: the modelled lock decides who goes.
    data: sync::Mutex<T>,
}

/// The mutex is held. Give it back with [`MutexGuard::release`]; dropping it is for runs that were stopped.
#[must_use = "release it with `release(task).await`"]
#[derive(Debug)]
pub struct MutexGuard<'l, T> {
    lock: &'l Mutex<T>,
    /// What it guards.
    pub data: sync::MutexGuard<'l, T>,
    since: Nanoseconds,
}

impl<T> Mutex<T> {
    /// A free mutex of this class; its owner and its queue's lock have lines of their own.
    pub fn new(registry: &mut Registry, class: &str, waiting: Waiting, data: T) -> Self {
        let line = registry.line();
        Self {
            id: registry.lock(class),
            waiting,
            owner: Word::new(0, line),
            queue: SpinLock::new(registry, &format!("{class}: wait lock"), VecDeque::new()),
            wake_words: registry.wake_words(),
            data: sync::Mutex::new(data),
        }
    }

    /// Its number in the trace.
    pub fn id(&self) -> LockId {
        self.id
    }

    /// What it guards, read from outside while no task runs.
    pub fn peek_data(&self) -> sync::MutexGuard<'_, T> {
        self.data
            .try_lock()
            .expect("no task holds the lock while the run is over")
    }

    /// Takes the mutex; spins or sleeps while it is taken.
    pub async fn acquire<K: Task>(&self, task: &K) -> MutexGuard<'_, T> {
        self.id.attempt(task);
        task.might_sleep().await;
        let since = if self.take(task).await.is_ok() {
            self.id.acquired(task)
        } else {
            let asked = self.id.contended(task);
            if !self.spin(task).await {
                self.sleep_in_queue(task).await;
            }
            self.id.acquired_after(task, asked)
        };
        let data = self
            .data
            .try_lock()
            .expect("a lock that excludes lets one task in at a time");
        MutexGuard {
            lock: self,
            data,
            since,
        }
    }

    /// Takes it if it is free or was handed to this task. `Err`: what the owner's word says.
    async fn take<K: Task>(&self, task: &K) -> Result<u32, u32> {
        let me = name(task.id());
        let claim = |word: u32| match word & OWNER {
            0 => Some(word & WAITERS | me),
            owner if owner == me && word & PICKUP != 0 => Some(word & WAITERS | me),
            _ => None,
        };
        // A look first: a failed compare-exchange would take the line away from the owner.
        let seen = task.load(&self.owner).await;
        claim(seen).ok_or(seen)?;
        task.update(&self.owner, claim).await
    }

    /// Takes it, or else says in its word that somebody queues, in one step: whoever has it then wakes this task when it
    /// gives it back. In two steps a third task could take it in between, and would wake nobody.
    async fn take_or_mark<K: Task>(&self, task: &K, wants_handoff: bool) -> bool {
        let me = name(task.id());
        let mine = |word: u32| word & OWNER == 0 || word & OWNER == me && word & PICKUP != 0;
        let flags = |word: u32| match wants_handoff && word & PICKUP == 0 {
            true => WAITERS | HANDOFF,
            false => WAITERS,
        };
        let change = |word: u32| match mine(word) {
            true => Some(word & WAITERS | me),
            false => Some(word | flags(word)),
        };
        task.update(&self.owner, change).await.is_ok_and(mine)
    }

    /// Spins while the owner runs; `true` with the mutex taken.
    async fn spin<K: Task>(&self, task: &K) -> bool {
        if self.waiting == Waiting::Sleep {
            return false;
        }
        while !task.need_resched() {
            let Err(seen) = self.take(task).await else {
                return true;
            };
            let Some(owner) = owner(seen).filter(|owner| task.is_running(*owner)) else {
                // Between two owners there is nobody to watch; with an owner that sleeps there is no point in it.
                if seen & OWNER == 0 {
                    continue;
                }
                return false;
            };
            task.spin_while_running(&self.owner, seen, owner).await;
        }
        false
    }

    async fn sleep_in_queue<K: Task>(&self, task: &K) {
        let (me, wake) = (task.id(), &self.wake_words[usize::from(task.id().0)]);
        let mut queue = self.queue.acquire(task).await;
        queue.data.push_back(me);
        let mut woken = false;
        loop {
            task.store(wake, 0).await;
            let first = queue.data.front() == Some(&me);
            let wants_handoff = woken && first && self.waiting == Waiting::HandOff;
            if self.take_or_mark(task, wants_handoff).await {
                break;
            }
            queue.release(task).await;
            task.sleep_while(wake, 0, None).await;
            woken = true;
            if first && self.waiting != Waiting::Sleep && self.spin(task).await {
                queue = self.queue.acquire(task).await;
                break;
            }
            queue = self.queue.acquire(task).await;
        }
        queue.data.retain(|waiter| *waiter != me);
        if queue.data.is_empty() {
            let _ = task
                .update(&self.owner, |word| Some(word & !(WAITERS | HANDOFF)))
                .await;
        } else {
            // Taking it from a free word keeps no flag that came in between.
            let _ = task.update(&self.owner, |word| Some(word | WAITERS)).await;
        }
        queue.release(task).await;
    }

    async fn give_back<K: Task>(&self, task: &K) {
        let plain = |word: u32| (word & HANDOFF == 0).then_some(word & WAITERS);
        let before = task.update(&self.owner, plain).await;
        if before.is_ok_and(|word| word & WAITERS == 0) {
            return;
        }
        let queue = self.queue.acquire(task).await;
        let first = queue.data.front().copied();
        if before.is_err() {
            let heir = first.map_or(0, |first| name(first) | PICKUP | WAITERS);
            task.store(&self.owner, heir).await;
        }
        queue.release(task).await;
        if let Some(first) = first {
            task.store(&self.wake_words[usize::from(first.0)], 1).await;
        }
    }
}

fn name(task: TaskId) -> u32 {
    u32::from(task.0) + 1
}

fn owner(word: u32) -> Option<TaskId> {
    let name = word & OWNER;
    name.checked_sub(1).map(|task| TaskId(task as u16))
}

impl<T> MutexGuard<'_, T> {
    /// Gives the mutex back, and wakes the first in the queue.
    pub async fn release<K: Task>(self, task: &K) {
        let Self { lock, data, since } = self;
        drop(data);
        lock.id.released(task, since);
        lock.give_back(task).await;
    }
}
