//! Numbers and names for cache lines and locks, handed out while a model is set up.

use std::sync::Arc;

use trace::Kind;

use crate::{CpuId, Nanoseconds, Task, Word};

/// A cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineId(pub u32);

/// A lock, as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId(pub u32);

/// What a lock says in the trace.
impl LockId {
    pub(crate) fn attempt<K: Task>(self, task: &K) {
        task.emit(Kind::LockAttempt, self.0, 0);
    }

    pub(crate) fn try_failed<K: Task>(self, task: &K) {
        task.emit(Kind::TryFailed, self.0, 0);
    }

    /// Returns when the wait began.
    pub(crate) fn contended<K: Task>(self, task: &K) -> Nanoseconds {
        let asked = task.now();
        task.emit(Kind::LockContended, self.0, 0);
        asked
    }

    /// The task has the lock without having waited. Returns since when.
    pub(crate) fn acquired<K: Task>(self, task: &K) -> Nanoseconds {
        task.emit(Kind::LockAcquired, self.0, 0);
        task.stamp()
    }

    /// The same after a wait that began at `asked`. Waits of no time at all count as one nanosecond.
    pub(crate) fn acquired_after<K: Task>(self, task: &K, asked: Nanoseconds) -> Nanoseconds {
        let waited = task.now() - asked;
        task.emit(Kind::LockAcquired, self.0, waited.0.max(1));
        task.stamp()
    }

    pub(crate) fn released<K: Task>(self, task: &K, since: Nanoseconds) {
        task.emit(Kind::LockReleased, self.0, (task.stamp() - since).0);
    }
}

/// A place in a queue of waiters; each CPU has one, on a line of its own.
#[derive(Debug)]
pub(crate) struct QueueNode {
    /// 1 once the one before in the queue has let this CPU to the head.
    pub(crate) at_head: Word,
    /// The number of the CPU behind, plus 1.
    pub(crate) next: Word,
}

/// Hands out lines and locks, and remembers what the locks are called.
#[derive(Debug)]
pub struct Registry {
    lines: u32,
    names: LockNames,
    nodes: Arc<[QueueNode]>,
    wake_words: Arc<[Word]>,
}

/// What the locks of a model are called. Locks of a kind share a class, as in lockdep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockNames {
    /// The classes' names.
    pub classes: Vec<String>,
    /// The class of each lock, by lock number.
    pub class_of_lock: Vec<u16>,
}

impl Registry {
    /// A registry for a model that runs `tasks` tasks on `cpus` CPUs.
    pub fn new(cpus: u16, tasks: u16) -> Self {
        let nodes: Arc<[QueueNode]> = (0..u32::from(cpus))
            .map(|cpu| QueueNode {
                at_head: Word::new(0, LineId(cpu)),
                next: Word::new(0, LineId(cpu)),
            })
            .collect();
        let first = u32::from(cpus);
        let wake_words: Arc<[Word]> = (0..u32::from(tasks))
            .map(|task| Word::new(0, LineId(first + task)))
            .collect();
        Self {
            lines: first + u32::from(tasks),
            wake_words,
            names: LockNames::default(),
            nodes,
        }
    }

    /// A new cache line.
    pub fn line(&mut self) -> LineId {
        let line = LineId(self.lines);
        self.lines += 1;
        line
    }

    /// A new lock of this class.
    pub fn lock(&mut self, class: &str) -> LockId {
        let classes = &mut self.names.classes;
        let number = classes.iter().position(|name| name == class).unwrap_or_else(|| {
            classes.push(class.to_owned());
            classes.len() - 1
        });
        let id = LockId(
            u32::try_from(self.names.class_of_lock.len()).expect("a model has far fewer locks than 2^32"),
        );
        self.names
            .class_of_lock
            .push(u16::try_from(number).expect("a model has a handful of lock classes"));
        id
    }

    /// The lines handed out so far.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// The locks handed out so far.
    pub fn names(&self) -> &LockNames {
        &self.names
    }

    /// One word for each task, on which it sleeps while it waits in a queue.
    pub(crate) fn wake_words(&self) -> Arc<[Word]> {
        self.wake_words.clone()
    }

    pub(crate) fn nodes(&self) -> Arc<[QueueNode]> {
        self.nodes.clone()
    }
}

/// The number by which a queue names a CPU: never 0, which means nobody.
pub(crate) fn name_in_queue(cpu: CpuId) -> u32 {
    u32::from(cpu.0) + 1
}
