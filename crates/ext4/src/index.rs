//! Who owns a block, and which path leads to an inode: gathered by a check of everything.

use std::collections::BTreeSet;

use crate::{
    BlockNumber, Filesystem, GroupFlags, GroupNumber, Incompat, InodeNumber, ReadAt, Run, number::divide,
    slot::bit,
};

/// Runs and names that are kept at most: 16 and 8 bytes each.
const KEPT_MAX: usize = 8 << 20;
/// How long a path may be, in directories.
const DEPTH_MAX: usize = 4096;
/// Groups that keep their metadata together, at most.
const FLEX_MAX: u32 = 4096;

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The superblock or a copy of it.
    Superblock(GroupNumber),
    /// Group descriptors, or a copy of them.
    Descriptors(GroupNumber),
    /// Kept for more group descriptors.
    ReservedDescriptors(GroupNumber),
    /// The block bitmap of a group.
    BlockBitmap(GroupNumber),
    /// The inode bitmap of a group.
    InodeBitmap(GroupNumber),
    /// A block of a group's inode table, counted from its beginning.
    InodeTable(GroupNumber, u32),
    /// Multi-mount protection.
    MultiMount,
    /// Data of an inode: which block of it.
    Data(InodeNumber, u32),
    /// A block of an inode's extent tree or block map.
    Map(InodeNumber),
    /// Extended attributes; the first inode that uses them.
    Attributes(InodeNumber),
    /// In use as the bitmap says; by whom is not known, or not known yet.
    Used,
    /// Free as the bitmap says.
    Free,
    /// It lies outside the file system, or its bitmap cannot be read.
    Unknown,
}

/// A run of blocks of an inode.
#[derive(Clone, Copy, Debug)]
struct Owned {
    start: u64,
    blocks: u32,
    inode: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Data(u32),
    Map,
    Attributes,
}

/// Who owns what, as a check has met it: nothing is known before the check has seen all inodes and directories.
#[derive(Debug, Default)]
pub struct Index {
    /// Sorted by where they begin, once it is whole.
    owned: Vec<Owned>,
    /// Inode and the directory that names it first; sorted once it is whole.
    parents: Vec<(u32, u32)>,
    directories: Vec<InodeNumber>,
    whole: bool,
    full: bool,
}

impl Index {
    /// Whether it knows everything.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether there was more than it keeps.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Sorts what was met. Nothing may be added afterwards.
    pub(crate) fn finish(&mut self) {
        self.owned.sort_unstable_by_key(|owned| owned.start);
        self.parents.sort_unstable();
        self.parents.dedup_by_key(|(inode, _)| *inode);
        self.whole = true;
    }

    pub(crate) fn add_directory(&mut self, number: InodeNumber) {
        self.directories.push(number);
    }

    pub(crate) fn add_data(&mut self, inode: InodeNumber, run: &Run) {
        self.own(run.start.0, run.blocks, inode, What::Data(run.logical));
    }

    pub(crate) fn add_map(&mut self, inode: InodeNumber, block: BlockNumber) {
        self.own(block.0, 1, inode, What::Map);
    }

    pub(crate) fn add_attributes(&mut self, inode: InodeNumber, block: BlockNumber) {
        self.own(block.0, 1, inode, What::Attributes);
    }

    /// Remembers that a directory names an inode.
    pub(crate) fn add_name(&mut self, inode: InodeNumber, directory: InodeNumber) {
        if self.parents.len() >= KEPT_MAX {
            self.full = true;
        } else {
            self.parents.push((inode.get(), directory.get()));
        }
    }

    fn own(&mut self, start: u64, blocks: u32, inode: InodeNumber, what: What) {
        if self.owned.len() >= KEPT_MAX {
            self.full = true;
            return;
        }
        self.owned.push(Owned {
            start,
            blocks,
            inode: inode.get(),
            what,
        });
    }

    /// What a block is for, as far as is known.
    pub fn owner<R: ReadAt>(&self, filesystem: &Filesystem<R>, block: BlockNumber) -> Owner {
        let known = filesystem.static_owner(block);
        if known != Owner::Used || !self.whole {
            return known;
        }
        let after = self.owned.partition_point(|owned| owned.start <= block.0);
        // Runs of a good image do not overlap; of a bad one the last that begins before the block is told.
        let found = self
            .owned
            .get(..after)
            .unwrap_or_default()
            .iter()
            .rev()
            .take(64)
            .find(|owned| block.0 < owned.start.saturating_add(owned.blocks.into()));
        let Some(owned) = found else {
            return known;
        };
        let Some(inode) = InodeNumber::new(owned.inode) else {
            return known;
        };
        match owned.what {
            What::Data(logical) => {
                let within = u32::try_from(block.0.saturating_sub(owned.start)).unwrap_or(0);
                Owner::Data(inode, logical.saturating_add(within))
            }
            What::Map => Owner::Map(inode),
            What::Attributes => Owner::Attributes(inode),
        }
    }

    /// Whether an inode is a directory that was met.
    pub fn is_directory(&self, inode: InodeNumber) -> bool {
        self.directories.binary_search(&inode).is_ok()
    }

    /// What of inodes lies in the blocks from `first` to `end`: where it begins, how many blocks, whose.
    pub fn owned_in(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u32, Owner)> {
        // One that begins before may reach in; 2^15 blocks is the longest run of an extent tree.
        let from = self
            .owned
            .partition_point(|owned| owned.start.saturating_add(1 << 16) < first);
        let known = if self.whole { self.owned.get(from..) } else { None };
        known
            .unwrap_or_default()
            .iter()
            .take_while(move |owned| owned.start < end)
            .filter_map(|owned| {
                let inode = InodeNumber::new(owned.inode)?;
                let owner = match owned.what {
                    What::Data(logical) => Owner::Data(inode, logical),
                    What::Map => Owner::Map(inode),
                    What::Attributes => Owner::Attributes(inode),
                };
                Some((owned.start, owned.blocks, owner))
            })
    }

    /// A path that leads to an inode; `None` where there is none, or it is not known yet.
    pub fn path<R: ReadAt>(&self, filesystem: &Filesystem<R>, inode: InodeNumber) -> Option<Vec<u8>> {
        if inode == InodeNumber::ROOT {
            return Some(b"/".to_vec());
        }
        if !self.whole {
            return None;
        }
        let mut parts = Vec::new();
        let mut seen = BTreeSet::new();
        let mut here = inode;
        while here != InodeNumber::ROOT {
            let at = self
                .parents
                .binary_search_by(|(inode, _)| inode.cmp(&here.get()))
                .ok()?;
            let parent = self
                .parents
                .get(at)
                .and_then(|(_, parent)| InodeNumber::new(*parent))?;
            // Directories that lead to each other in a circle lead nowhere.
            if !seen.insert(here) || seen.len() > DEPTH_MAX {
                return None;
            }
            parts.push(filesystem.name_in(parent, here)?);
            here = parent;
        }
        let mut path = Vec::new();
        for part in parts.iter().rev() {
            path.push(b'/');
            path.extend(part);
        }
        Some(path)
    }
}

impl<R: ReadAt> Filesystem<R> {
    /// The name under which a directory holds an inode.
    fn name_in(&self, directory: InodeNumber, wanted: InodeNumber) -> Option<Vec<u8>> {
        let (inode, _) = self.inode(directory).ok()?;
        let mut name = None;
        self.directory(directory, &inode, &mut |_, _, block| {
            name = block
                .entries
                .into_iter()
                .find(|entry| entry.inode == wanted.get() && !matches!(entry.name.as_slice(), b"." | b".."))
                .map(|entry| entry.name);
            name.is_none()
        });
        name
    }

    /// What a block is for, as far as it follows from where it lies; else whether the bitmap has it in use.
    pub fn static_owner(&self, block: BlockNumber) -> Owner {
        let geometry = self.geometry();
        if !geometry.contains(block) {
            return Owner::Unknown;
        }
        if self.superblock().incompat().has(Incompat::MMP) && block.0 == self.superblock().s_mmp_block {
            return Owner::MultiMount;
        }
        let Some(home) = geometry.group_of(block) else {
            // The boot block.
            return Owner::Used;
        };
        let near = self.metadata_near(home).into_iter();
        let found = near
            .filter_map(|(start, blocks, owner)| {
                let within = block.0.checked_sub(start.0).filter(|within| *within < blocks)?;
                Some(match owner {
                    Owner::InodeTable(group, _) => Owner::InodeTable(group, u32::try_from(within).ok()?),
                    other => other,
                })
            })
            .next();
        if let Some(owner) = found {
            return owner;
        }
        match self.block_marked(home, block) {
            Some(true) => Owner::Used,
            Some(false) => Owner::Free,
            None => Owner::Unknown,
        }
    }

    /// The metadata that may lie in a group: what it begins with, and bitmaps and tables of all groups that keep
    /// theirs together with it.
    pub fn metadata_near(&self, home: GroupNumber) -> Vec<(BlockNumber, u64, Owner)> {
        let geometry = self.geometry();
        let leading = self.leading_blocks(home).into_iter();
        let mut parts: Vec<_> = leading
            .map(|(owner, start, blocks)| (start, blocks, owner))
            .collect();
        let flex = 1u32
            .checked_shl(self.superblock().s_log_groups_per_flex.into())
            .filter(|_| self.superblock().incompat().has(Incompat::FLEX_BG))
            .unwrap_or(1)
            .clamp(1, FLEX_MAX);
        let (flex_group, _) = divide(home.0, flex);
        let first = flex_group.saturating_mul(flex);
        for group in (first..first.saturating_add(flex).min(geometry.groups)).map(GroupNumber) {
            let Ok((descriptor, _)) = self.group(group) else {
                break;
            };
            parts.extend([
                (descriptor.block_bitmap, 1, Owner::BlockBitmap(group)),
                (descriptor.inode_bitmap, 1, Owner::InodeBitmap(group)),
                (
                    descriptor.inode_table,
                    geometry.table_blocks_per_group().into(),
                    Owner::InodeTable(group, 0),
                ),
            ]);
        }
        parts
    }

    /// What lies at the beginning of a group: superblock, descriptors, and room for more of these.
    pub fn leading_blocks(&self, group: GroupNumber) -> Vec<(Owner, BlockNumber, u64)> {
        let geometry = self.geometry();
        let superblock = self.superblock();
        let mut parts = Vec::new();
        let mut at = geometry.first_block_of(group).0;
        let mut add = |owner, blocks: u64| {
            if blocks > 0 {
                parts.push((owner, BlockNumber(at), blocks));
                at = at.saturating_add(blocks);
            }
        };
        // With clusters of 1 KiB blocks the boot block belongs to group 0.
        if group.0 == 0 && geometry.block_bytes == 1024 && geometry.first_data_block == 0 {
            add(Owner::Used, 1);
        }
        let has = self.has_backup(group);
        if has {
            add(Owner::Superblock(group), 1);
        }
        let per_block = divide(geometry.block_bytes, geometry.descriptor_bytes).0;
        let table = u64::from(geometry.groups.div_ceil(per_block.max(1)));
        let meta = superblock.incompat().has(Incompat::META_BG);
        let (in_table, place) = divide(group.0, per_block);
        let first_meta = superblock.s_first_meta_bg;
        if meta && in_table >= first_meta {
            if place <= 1 || place == per_block.saturating_sub(1) {
                add(Owner::Descriptors(group), 1);
            }
        } else if has {
            add(
                Owner::Descriptors(group),
                if meta { first_meta.into() } else { table },
            );
            if !meta {
                add(
                    Owner::ReservedDescriptors(group),
                    superblock.s_reserved_gdt_blocks.into(),
                );
            }
        }
        parts
    }

    /// Whether a block's bit is set in the bitmap of its group; computed where that was never written.
    pub fn block_marked(&self, group: GroupNumber, block: BlockNumber) -> Option<bool> {
        let bitmap = self.block_bitmap(group)?;
        let within = block.0.checked_sub(self.geometry().first_block_of(group).0)?;
        let (cluster, _) = divide(u32::try_from(within).ok()?, self.geometry().blocks_per_cluster);
        Some(bit(&bitmap, cluster))
    }

    /// A group's block bitmap; where it was never written, with the bits of its metadata set.
    pub fn block_bitmap(&self, group: GroupNumber) -> Option<Vec<u8>> {
        let (descriptor, _) = self.group(group).ok()?;
        if !descriptor.flags.has(GroupFlags::BLOCK_UNINIT) {
            return self.block(descriptor.block_bitmap).ok();
        }
        let geometry = self.geometry();
        let first = geometry.first_block_of(group).0;
        let mut bitmap = vec![0u8; self.block_bytes()];
        let mut mark = |start: u64, blocks: u64| {
            let end = start.saturating_add(blocks);
            for block in start.max(first)..end.min(first.saturating_add(geometry.blocks_in(group).into())) {
                let within = u32::try_from(block.saturating_sub(first)).unwrap_or(0);
                let (cluster, _) = divide(within, geometry.blocks_per_cluster);
                let byte = usize::try_from(cluster / 8)
                    .ok()
                    .and_then(|at| bitmap.get_mut(at));
                if let Some(byte) = byte {
                    *byte |= 1 << (cluster % 8);
                }
            }
        };
        for (_, start, blocks) in self.leading_blocks(group) {
            mark(start.0, blocks);
        }
        mark(descriptor.block_bitmap.0, 1);
        mark(descriptor.inode_bitmap.0, 1);
        mark(descriptor.inode_table.0, geometry.table_blocks_per_group().into());
        Some(bitmap)
    }
}
