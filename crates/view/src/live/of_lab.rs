//! The stage of a run, as the kernel model has set it up.

use kernel::Lab;

use super::{Stage, StageBlock, StageSlot};
use crate::explore::Slot;

impl Stage {
    /// What is there before this run begins.
    pub fn of(lab: &Lab) -> Self {
        let names = lab.lock_names();
        let hash_class = names
            .classes
            .iter()
            .position(|class| class == lab.hash_lock_class())
            .unwrap_or_default();
        Self {
            scenario: *lab.scenario(),
            slots_per_block: lab.slots_per_block(),
            cached_inodes: lab.cached_inodes(),
            lock_classes: names.classes.clone(),
            class_of_lock: names.class_of_lock.clone(),
            hash_class: hash_class as u16,
            blocks: lab
                .table_blocks()
                .iter()
                .map(|block| stage_block(lab, block))
                .collect(),
        }
    }
}

fn stage_block(lab: &Lab, block: &kernel::TableBlock) -> StageBlock {
    let first = block.first_inode.get();
    let slot = |(number, state): (u32, &ext4::SlotState)| {
        let number = ext4::InodeNumber::new(number);
        let cached = number.and_then(|number| lab.cached(number));
        StageSlot {
            slot: Slot::from(*state),
            cached: cached.is_some(),
            deferred: cached.is_some_and(kernel::CachedInode::times_deferred),
            job: number.and_then(|number| lab.cpu_of(number)),
        }
    };
    StageBlock {
        group: block.group,
        block: block.block.0,
        first_inode: first,
        slots: (first..).zip(&block.slots).map(slot).collect(),
    }
}
