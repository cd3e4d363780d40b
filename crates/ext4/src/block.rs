//! Cached blocks that several CPUs may touch at once.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::{BlockNumber, ReadError};

/// One cached block: little-endian words, so that CPUs may write different records of a block at once.
#[derive(Debug)]
pub struct Block {
    number: BlockNumber,
    words: Box<[AtomicU32]>,
    changed: AtomicBool,
    /// The transaction that keeps a copy of it as it was before; 0 for none.
    copied_for: AtomicU32,
}

/// What images are changed through.
pub trait Blocks {
    /// The block, read on first use. Keep the `Arc` where the kernel keeps its buffer head.
    ///
    /// # Errors
    /// As [`crate::ReadAt::read_at`].
    fn get(&self, block: BlockNumber) -> Result<Arc<Block>, ReadError>;

    /// The block filled with zeros, for new content: what lies on the disk is not read.
    fn fresh(&self, block: BlockNumber) -> Arc<Block>;

    /// Announces that the block is about to change (`jbd2_journal_get_write_access`).
    fn before_change(&self, block: &Arc<Block>);
}

impl Block {
    /// A block with these bytes; a rest of less than four bytes is dropped.
    pub(crate) fn new(number: BlockNumber, bytes: &[u8]) -> Self {
        let words = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| AtomicU32::new(u32::from_le_bytes(*word)))
            .collect();
        Self {
            number,
            words,
            changed: AtomicBool::new(false),
            copied_for: AtomicU32::new(0),
        }
    }

    /// A block of zeros.
    pub(crate) fn zeroed(number: BlockNumber, bytes: usize) -> Self {
        Self {
            number,
            words: (0..bytes / 4).map(|_| AtomicU32::new(0)).collect(),
            changed: AtomicBool::new(false),
            copied_for: AtomicU32::new(0),
        }
    }

    /// Which block it is.
    pub fn number(&self) -> BlockNumber {
        self.number
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.words.len().saturating_mul(4)
    }

    /// Copies bytes out. `at` and the length are multiples of 4; what lies outside the block is left as it is.
    pub fn load(&self, at: usize, out: &mut [u8]) {
        let words = self.words.get(at / 4..).unwrap_or_default();
        for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
    }

    /// Copies bytes in, under the same conditions.
    pub fn store(&self, at: usize, bytes: &[u8]) {
        let words = self.words.get(at / 4..).unwrap_or_default();
        for (bytes, word) in bytes.as_chunks::<4>().0.iter().zip(words) {
            word.store(u32::from_le_bytes(*bytes), Relaxed);
        }
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes()];
        self.load(0, &mut bytes);
        bytes
    }

    /// Whether somebody has announced a change.
    pub fn changed(&self) -> bool {
        self.changed.load(Relaxed)
    }

    /// The word at byte `at`, for changes that several CPUs make at once; `None` past the end.
    pub fn word(&self, at: usize) -> Option<&AtomicU32> {
        self.words.get(at / 4)
    }

    /// All words, in the order of the block.
    pub(crate) fn words(&self) -> &[AtomicU32] {
        &self.words
    }

    /// The transaction that has a copy of it.
    pub(crate) fn copied_for(&self) -> u32 {
        self.copied_for.load(Acquire)
    }

    pub(crate) fn set_copied_for(&self, transaction: u32) {
        self.copied_for.store(transaction, Release);
    }

    pub(crate) fn mark_changed(&self) {
        // Look first: a store would take the line away from everybody else who writes here.
        if !self.changed.load(Relaxed) {
            self.changed.store(true, Relaxed);
        }
    }
}
