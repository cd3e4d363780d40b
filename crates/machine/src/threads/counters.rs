//! What each CPU has done, counted without events.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trace::{KINDS, Kind};

/// The counters of one CPU. Only that CPU adds; anybody reads.
#[derive(Debug)]
pub(super) struct Counters {
    kinds: Box<[AtomicU64]>,
    locks: Box<[LockCells]>,
}

#[derive(Debug, Default)]
struct LockCells {
    acquired: AtomicU64,
    /// 1 while the CPU waits: the next acquisition is then one after waiting.
    waiting: AtomicU64,
    contended: AtomicU64,
    failed: AtomicU64,
    waited_ns: AtomicU64,
    held_ns: AtomicU64,
}

/// What one CPU did with one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCount {
    /// Times it took the lock.
    pub acquired: u64,
    /// Times it had to wait first.
    pub contended: u64,
    /// Trylocks that failed.
    pub failed: u64,
    /// Nanoseconds it waited.
    pub waited_ns: u64,
    /// Nanoseconds it held the lock; 0 flat out.
    pub held_ns: u64,
}

/// What one CPU has done so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuReport {
    kinds: Vec<u64>,
    /// Per lock, by number.
    pub locks: Vec<LockCount>,
}

impl CpuReport {
    /// How often this kind of thing happened.
    pub fn count(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }
}

/// Adds to a counter that nobody else writes: no read-modify-write needed.
fn add(cell: &AtomicU64, amount: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
}

impl Counters {
    /// Zeros for a CPU of a model with this many locks.
    pub(super) fn new(locks: usize) -> Self {
        Self {
            kinds: (0..KINDS).map(|_| AtomicU64::new(0)).collect(),
            locks: (0..locks).map(|_| LockCells::default()).collect(),
        }
    }

    /// Counts one event.
    pub(super) fn count(&self, kind: Kind, object: u32, argument: u64) {
        add(&self.kinds[kind as usize], 1);
        let of_lock = matches!(
            kind,
            Kind::LockContended | Kind::LockAcquired | Kind::LockReleased | Kind::TryFailed
        );
        let Some(lock) = of_lock.then(|| self.locks.get(object as usize)).flatten() else {
            return;
        };
        match kind {
            Kind::LockContended => lock.waiting.store(1, Relaxed),
            Kind::LockAcquired => {
                add(&lock.acquired, 1);
                add(&lock.contended, lock.waiting.load(Relaxed));
                lock.waiting.store(0, Relaxed);
                add(&lock.waited_ns, argument);
            }
            Kind::LockReleased => add(&lock.held_ns, argument),
            _ => add(&lock.failed, 1),
        }
    }

    /// What has been counted so far.
    pub(super) fn report(&self) -> CpuReport {
        let get = |cell: &AtomicU64| cell.load(Relaxed);
        CpuReport {
            kinds: self.kinds.iter().map(get).collect(),
            locks: self
                .locks
                .iter()
                .map(|lock| LockCount {
                    acquired: get(&lock.acquired),
                    contended: get(&lock.contended),
                    failed: get(&lock.failed),
                    waited_ns: get(&lock.waited_ns),
                    held_ns: get(&lock.held_ns),
                })
                .collect(),
        }
    }
}
