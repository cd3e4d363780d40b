//! What the slots of an inode table hold.

use crate::{FileType, Filesystem, GroupFlags, GroupNumber, Inode, ReadAt};

/// What an inode slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Free; its bytes were written once.
    Free,
    /// Never initialised: its bytes mean nothing.
    NeverInitialised,
    /// A reserved inode.
    Reserved,
    /// In use, by a file of this sort; `None` where the mode means nothing.
    Used(Option<FileType>),
    /// In use, but without a link.
    Orphan,
    /// Unreadable, or past the end of the image.
    Missing,
}

impl<R: ReadAt> Filesystem<R> {
    /// The states of the slots in `count` blocks of a group's inode table from block `first` of it on.
    ///
    /// `first` and `count` are cut to the table. At most `count` blocks are read.
    pub fn slots(&self, group: GroupNumber, first: u32, count: u32) -> Vec<SlotState> {
        let geometry = self.geometry();
        let per_block = geometry.slots_per_block();
        let begin = first.saturating_mul(per_block).min(geometry.inodes_per_group);
        let end = begin
            .saturating_add(count.saturating_mul(per_block))
            .min(geometry.inodes_per_group);
        let indexes = begin..end;
        let Ok((descriptor, _)) = self.group(group) else {
            return indexes.map(|_| SlotState::Missing).collect();
        };
        let bitmap = self.inode_bitmap(group, &descriptor);
        let initialised = match descriptor.flags.has(GroupFlags::INODE_UNINIT) {
            true => 0,
            false => geometry.inodes_per_group.saturating_sub(descriptor.unused_inodes),
        };
        let table = self.table_bytes(&descriptor, first, count);
        let size = usize::try_from(geometry.inode_bytes).unwrap_or(usize::MAX);
        let state = |index: u32| {
            let Ok(bitmap) = &bitmap else {
                return SlotState::Missing;
            };
            if geometry
                .inode_at(group, index)
                .is_some_and(|inode| inode.get() < geometry.first_inode)
            {
                return SlotState::Reserved;
            }
            let used = bit(bitmap, index);
            if !used {
                return if index < initialised {
                    SlotState::Free
                } else {
                    SlotState::NeverInitialised
                };
            }
            let at = usize::try_from(index.saturating_sub(begin))
                .unwrap_or(usize::MAX)
                .saturating_mul(size);
            match table
                .get(at..)
                .and_then(|rest| rest.get(..size))
                .map(Inode::decode)
            {
                None => SlotState::Missing,
                Some(inode) if inode.raw.i_links_count == 0 => SlotState::Orphan,
                Some(inode) => SlotState::Used(inode.file_type),
            }
        };
        indexes.map(state).collect()
    }
}

/// Bit number `index` of a bitmap; past its end every bit is set.
pub(crate) fn bit(bitmap: &[u8], index: u32) -> bool {
    let byte = usize::try_from(index / 8).ok().and_then(|at| bitmap.get(at));
    byte.is_none_or(|byte| byte >> (index % 8) & 1 != 0)
}
