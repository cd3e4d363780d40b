//! A word of memory that CPUs share.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::LineId;

/// A 32-bit word on a named cache line. Words with the same line travel together.
#[derive(Debug)]
pub struct Word {
    pub(crate) value: AtomicU32,
    pub(crate) line: LineId,
    /// `threads`: one bit for each task that waits for a change.
    pub(crate) waiters: AtomicU64,
    /// `threads` in slow motion: one bit for each CPU that has a copy of the word.
    pub(crate) sharers: AtomicU64,
}

impl Word {
    /// A word on `line`.
    pub fn new(value: u32, line: LineId) -> Self {
        Self {
            value: AtomicU32::new(value),
            line,
            waiters: AtomicU64::new(0),
            sharers: AtomicU64::new(0),
        }
    }

    /// The value, read from outside the run: no CPU pays for it.
    pub fn peek(&self) -> u32 {
        self.value.load(SeqCst)
    }

    /// Sets the value before the run begins: no CPU pays for it, and nobody is woken.
    pub fn preset(&self, value: u32) {
        self.value.store(value, SeqCst);
    }

    /// The plain read-modify-write under [`crate::Task::update`].
    pub(crate) fn change(&self, change: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        self.value.fetch_update(SeqCst, SeqCst, change)
    }
}
