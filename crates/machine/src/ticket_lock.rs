//! The ticket spin lock: x86 from Linux 2.6.25 to 4.1.

use std::sync::{Mutex, MutexGuard};

use crate::{LockId, Nanoseconds, Registry, Task, Word};

/// A spin lock that serves tickets in order. All waiters watch the same line, so that each release makes all of them
/// fetch it again.
#[derive(Debug)]
pub struct TicketLock<T> {
    id: LockId,
    next: Word,
    owner: Word,
    /// Only ever tried: the modelled lock decides who goes.
    data: Mutex<T>,
}

/// Where the two halves of a ticket lock lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halves {
    /// In one word, as in Linux: whoever draws a ticket takes the line from all who wait, who fetch it again.
    OneLine,
    /// On lines of their own, as the model of Boyd-Wickizer et al. assumes: drawing disturbs nobody.
    OwnLines,
}

/// The lock is held. Give it back with [`TicketGuard::release`]; dropping it is for runs that were stopped.
#[must_use = "release it with `release(task).await`"]
#[derive(Debug)]
pub struct TicketGuard<'l, T> {
    lock: &'l TicketLock<T>,
    /// What the lock guards.
    pub data: MutexGuard<'l, T>,
    ticket: u32,
    since: Nanoseconds,
}

impl<T> TicketLock<T> {
    /// A free lock of this class.
    pub fn new(registry: &mut Registry, class: &str, halves: Halves, data: T) -> Self {
        let line = registry.line();
        let owner_line = match halves {
            Halves::OneLine => line,
            Halves::OwnLines => registry.line(),
        };
        Self {
            id: registry.lock(class),
            next: Word::new(0, line),
            owner: Word::new(0, owner_line),
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

    /// Takes the next ticket, and spins until it is served.
    pub async fn acquire<K: Task>(&self, task: &K) -> TicketGuard<'_, T> {
        self.id.attempt(task);
        task.preempt_disable();
        let draw = |ticket: u32| Some(ticket.wrapping_add(1));
        let ticket = task
            .update(&self.next, draw)
            .await
            .unwrap_or_else(|ticket| ticket);
        let mut served = task.load(&self.owner).await;
        let since = if served == ticket {
            self.id.acquired(task)
        } else {
            let asked = self.id.contended(task);
            while served != ticket {
                served = task.spin_while(&self.owner, served).await;
            }
            self.id.acquired_after(task, asked)
        };
        let data = self
            .data
            .try_lock()
            .expect("a lock that excludes lets one task in at a time");
        TicketGuard {
            lock: self,
            data,
            ticket,
            since,
        }
    }
}

impl<T> TicketGuard<'_, T> {
    /// Serves the next ticket.
    pub async fn release<K: Task>(self, task: &K) {
        let Self {
            lock,
            data,
            ticket,
            since,
        } = self;
        drop(data);
        lock.id.released(task, since);
        task.store(&lock.owner, ticket.wrapping_add(1)).await;
        task.preempt_enable();
    }
}
