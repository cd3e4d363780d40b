//! Read-copy-update: readers pay nothing; who frees waits until every reader of before has left.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::{Nanoseconds, Task};

/// Where readers are. Inside a read section a task is not put aside, as without `CONFIG_PREEMPT_RCU`.
#[derive(Debug)]
pub struct Rcu {
    /// For each task, how often it has entered or left; odd while it is inside.
    passages: Box<[AtomicU32]>,
}

/// A task is inside. End it with [`ReadSection::leave`]; dropping it is for runs that were stopped.
#[must_use = "end it with `leave(task)`"]
#[derive(Debug)]
pub struct ReadSection<'r> {
    passages: &'r AtomicU32,
}

impl Rcu {
    /// Nobody is inside; for a model with this many tasks.
    pub fn new(tasks: u16) -> Self {
        Self {
            passages: (0..tasks).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Enters a read section (`rcu_read_lock`): nothing is written that another CPU reads on its path. Does not nest.
    pub fn enter<K: Task>(&self, task: &K) -> ReadSection<'_> {
        task.preempt_disable();
        let passages = &self.passages[usize::from(task.id().0)];
        let before = passages.fetch_add(1, SeqCst);
        assert!(before.is_multiple_of(2), "read sections do not nest");
        ReadSection { passages }
    }

    /// Waits until every section that is open now is over (`synchronize_rcu`), looking once a tick.
    pub async fn synchronize<K: Task>(&self, task: &K) {
        let open: Vec<(usize, u32)> = self
            .passages
            .iter()
            .enumerate()
            .map(|(reader, passages)| (reader, passages.load(SeqCst)))
            .filter(|(_, passages)| !passages.is_multiple_of(2))
            .collect();
        let tick_ns = task.profile().tick_ns();
        loop {
            task.sleep_until(task.now() + Nanoseconds(tick_ns)).await;
            let left = |(reader, passages): &(usize, u32)| self.passages[*reader].load(SeqCst) != *passages;
            if open.iter().all(left) {
                return;
            }
        }
    }
}

impl ReadSection<'_> {
    /// Leaves it (`rcu_read_unlock`).
    pub fn leave<K: Task>(self, task: &K) {
        self.passages.fetch_add(1, SeqCst);
        task.preempt_enable();
    }
}
