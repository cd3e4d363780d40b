//! Which inodes a run uses: free ones for its jobs, and others of the same table blocks for the job that reads.

use ext4::{Filesystem, GroupNumber, InodeNumber, ReadAt, SlotState};

use crate::{Placement, Scenario};

/// Files that the reading job gets in each table block, if there is room.
const READ_PER_BLOCK: usize = 4;
/// Groups looked at.
const GROUPS_MAX: u32 = 1 << 16;
/// Table blocks looked at in one group before it counts as full.
const LOOK_BLOCKS: u32 = 4096;

/// The inodes of one table block that a run uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockPlan {
    /// Free inodes, one for each of some jobs.
    pub(crate) jobs: Vec<InodeNumber>,
    /// Inodes in use that are to be read.
    pub(crate) used: Vec<InodeNumber>,
    /// Free inodes that are to be claimed and read.
    pub(crate) claimed: Vec<InodeNumber>,
}

/// Chooses inodes for `jobs` jobs. Fewer than that where the image has no more.
pub(crate) fn plan<R: ReadAt>(
    filesystem: &Filesystem<R>,
    scenario: &Scenario,
    jobs: usize,
    reads: bool,
) -> Vec<BlockPlan> {
    let geometry = filesystem.geometry();
    // Half of the slots at most for jobs, so that there are neighbours of other sorts.
    let half = (geometry.slots_per_block() as usize / 2).max(1);
    let per_block = match scenario.placement {
        Placement::SameBlock => half,
        Placement::OwnGroup => jobs.div_ceil(geometry.groups as usize).min(half),
    };
    let groups = geometry.groups.min(GROUPS_MAX);
    let mut groups: Vec<_> = (0..groups)
        .map(|group| BlockPlans::new(filesystem, GroupNumber(group), per_block, reads))
        .collect();
    // One block of each group, then another of each; or each group to its end before the next.
    let blocks_a_round = match scenario.placement {
        Placement::OwnGroup => 1,
        Placement::SameBlock => usize::MAX,
    };
    let mut plans = Vec::new();
    let mut left = jobs;
    loop {
        let before = plans.len();
        for group in &mut groups {
            for plan in group.by_ref().take(blocks_a_round) {
                let plan = plan.cut_to(left);
                left -= plan.jobs.len();
                plans.push(plan);
                if left == 0 {
                    return plans;
                }
            }
        }
        if plans.len() == before {
            return plans;
        }
    }
}

impl BlockPlan {
    fn cut_to(mut self, jobs: usize) -> Self {
        self.jobs.truncate(jobs);
        self
    }
}

/// The table blocks of a group that have a free slot, as plans.
struct BlockPlans<'f, R> {
    filesystem: &'f Filesystem<R>,
    group: GroupNumber,
    next: u32,
    per_block: usize,
    reads: bool,
}

impl<'f, R: ReadAt> BlockPlans<'f, R> {
    fn new(filesystem: &'f Filesystem<R>, group: GroupNumber, per_block: usize, reads: bool) -> Self {
        Self {
            filesystem,
            group,
            next: 0,
            per_block,
            reads,
        }
    }

    fn plan(&self, block: u32, slots: &[SlotState]) -> Option<BlockPlan> {
        let geometry = self.filesystem.geometry();
        let begin = block * geometry.slots_per_block();
        let with = |wanted: fn(&SlotState) -> bool| {
            let matching = (begin..).zip(slots).filter(move |(_, slot)| wanted(slot));
            matching
                .filter_map(|(index, _)| geometry.inode_at(self.group, index))
                .collect::<Vec<_>>()
        };
        let mut free = with(|slot| matches!(slot, SlotState::Free | SlotState::NeverInitialised));
        let mut plan = BlockPlan::default();
        if self.reads {
            plan.used = with(|slot| matches!(slot, SlotState::Used(_)));
            plan.used.truncate(READ_PER_BLOCK);
        }
        // Jobs on every other free slot: their neighbours are then of both sorts.
        let stride = if free.len() >= 2 * self.per_block { 2 } else { 1 };
        plan.jobs = free
            .iter()
            .copied()
            .step_by(stride)
            .take(self.per_block)
            .collect();
        free.retain(|number| !plan.jobs.contains(number));
        if self.reads {
            plan.claimed = free
                .into_iter()
                .take(READ_PER_BLOCK.saturating_sub(plan.used.len()))
                .collect();
        }
        (!plan.jobs.is_empty()).then_some(plan)
    }
}

impl<R: ReadAt> Iterator for BlockPlans<'_, R> {
    type Item = BlockPlan;

    fn next(&mut self) -> Option<BlockPlan> {
        let blocks = self
            .filesystem
            .geometry()
            .table_blocks_per_group()
            .min(LOOK_BLOCKS);
        while self.next < blocks {
            let block = self.next;
            self.next += 1;
            let slots = self.filesystem.slots(self.group, block, 1);
            if let Some(plan) = self.plan(block, &slots) {
                return Some(plan);
            }
        }
        None
    }
}
