//! Numbers and names for cache lines and locks, handed out while a model is set up.

use std::sync::Arc;

use crate::{CpuId, Word};

/// A cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineId(pub u32);

/// A lock, as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId(pub u32);

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
    /// A registry for a model that runs on `cpus` CPUs.
    pub fn new(cpus: u16) -> Self {
        let nodes: Arc<[QueueNode]> = (0..u32::from(cpus))
            .map(|cpu| QueueNode {
                at_head: Word::new(0, LineId(cpu)),
                next: Word::new(0, LineId(cpu)),
            })
            .collect();
        Self {
            lines: u32::from(cpus),
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

    pub(crate) fn nodes(&self) -> Arc<[QueueNode]> {
        self.nodes.clone()
    }
}

/// The number by which a queue names a CPU: never 0, which means nobody.
pub(crate) fn name_in_queue(cpu: CpuId) -> u32 {
    u32::from(cpu.0) + 1
}
