//! What is there before the run begins.

use kernel::Scenario;
use serde::{Deserialize, Serialize};

use crate::explore::Slot;

/// The structures that a run plays on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// What was asked for.
    pub scenario: Scenario,
    /// Inode slots per table block.
    pub slots_per_block: u32,
    /// Inodes in the modelled cache.
    pub cached_inodes: u32,
    /// Names of the kinds of lock, such as "inode hash lock" or "i_lock".
    pub lock_classes: Vec<String>,
    /// The class of each lock, by the lock's number in the trace.
    pub class_of_lock: Vec<u16>,
    /// The class of the inode hash lock (or of the bucket locks, in that design).
    pub hash_class: u16,
    /// The table blocks in play, by block number.
    pub blocks: Vec<StageBlock>,
}

/// A block of an inode table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageBlock {
    /// The group whose table it belongs to.
    pub group: u32,
    /// Its block number.
    pub block: u64,
    /// The inode number of its first slot.
    pub first_inode: u32,
    /// Its slots.
    pub slots: Vec<StageSlot>,
}

/// A slot of a table block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSlot {
    /// What it holds on disk.
    pub slot: Slot,
    /// Whether the inode is in the modelled cache.
    pub cached: bool,
    /// Whether its times were deferred when the run began.
    pub deferred: bool,
    /// The CPU whose job's file it is.
    pub job: Option<u16>,
}

impl Stage {
    /// The name of the lock with this number; `None` when there is none.
    pub fn lock_name(&self, lock: u32) -> Option<&str> {
        let class = *self.class_of_lock.get(usize::try_from(lock).ok()?)?;
        self.lock_classes.get(usize::from(class)).map(String::as_str)
    }

    /// Whether the lock guards the inode hash, wholly or in part.
    pub fn guards_hash(&self, lock: u32) -> bool {
        usize::try_from(lock)
            .ok()
            .and_then(|lock| self.class_of_lock.get(lock))
            == Some(&self.hash_class)
    }
}
