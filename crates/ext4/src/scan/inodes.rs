//! Inode tables: each inode in use, its map, its attributes.

use std::collections::{BTreeMap, BTreeSet};

use super::Scan;
use crate::{
    BlockNumber, Compat, FileType, Filesystem, Finding, GroupFlags, GroupNumber, Incompat, Inode, InodeFlags,
    InodeNumber, MapItem, ReadAt, RoCompat, Walk, inode, number::divide, slot::bit, xattr::OwnValues,
};

/// Bytes of an inode table in one step.
const STEP_BYTES: u32 = 256 << 10;

/// What is remembered of an inode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// 0 while it is free, else [`code`] of its type.
    pub(super) kind: u8,
    /// Its count of links.
    pub(super) links: u16,
    /// Entries that name it.
    pub(super) names: u16,
}

/// A directory, for the search for those that cannot be reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryState {
    pub(super) number: InodeNumber,
    /// Where its `..` leads.
    pub(super) dotdot: u32,
    /// The directory that names it.
    pub(super) parent: u32,
}

/// All inodes that were met.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    groups: Vec<Option<Box<[State]>>>,
    pub(super) directories: Vec<DirectoryState>,
    pub(super) orphans: BTreeSet<InodeNumber>,
    /// Attribute blocks: entries that say how many inodes share them, and how many do.
    pub(super) attribute_blocks: BTreeMap<BlockNumber, (u32, u32)>,
    /// Inodes that hold the values of others' attributes, as often as they are named.
    pub(super) values: BTreeMap<InodeNumber, u32>,
    /// The group at hand, and the first block of its table that has not been read.
    group: u32,
    block: u32,
}

impl Inodes {
    pub(super) fn new(groups: u32) -> Self {
        Self {
            groups: std::iter::repeat_with(|| None)
                .take(usize::try_from(groups).unwrap_or(0))
                .collect(),
            ..Self::default()
        }
    }

    pub(super) fn state<R: ReadAt>(&self, filesystem: &Filesystem<R>, number: InodeNumber) -> Option<State> {
        let (group, index) = filesystem.geometry().place_of(number)?;
        let group = self.groups.get(usize::try_from(group.0).ok()?)?.as_deref()?;
        group.get(usize::try_from(index).ok()?).copied()
    }

    pub(super) fn state_mut<R: ReadAt>(
        &mut self,
        filesystem: &Filesystem<R>,
        number: InodeNumber,
    ) -> Option<&mut State> {
        let geometry = filesystem.geometry();
        let (group, index) = geometry.place_of(number)?;
        let per_group = usize::try_from(geometry.inodes_per_group).unwrap_or(0);
        let states = self.groups.get_mut(usize::try_from(group.0).ok()?)?;
        let states = states.get_or_insert_with(|| vec![State::default(); per_group].into_boxed_slice());
        states.get_mut(usize::try_from(index).ok()?)
    }

    pub(super) fn group(&self, group: u32) -> Option<&[State]> {
        self.groups.get(usize::try_from(group).ok()?)?.as_deref()
    }
}

/// The type in a byte, never 0: that is a free inode.
pub(super) fn code(file_type: Option<FileType>) -> u8 {
    match file_type {
        Some(FileType::Regular) => 1,
        Some(FileType::Directory) => 2,
        Some(FileType::Character) => 3,
        Some(FileType::Block) => 4,
        Some(FileType::Fifo) => 5,
        Some(FileType::Socket) => 6,
        Some(FileType::Symlink) => 7,
        None => 8,
    }
}

pub(super) fn step<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) -> u64 {
    let geometry = filesystem.geometry();
    let of = u64::from(scan.groups);
    let mut left = divide(STEP_BYTES, geometry.block_bytes).0.max(1);
    while left > 0 && u64::from(scan.inodes.group) < of {
        let group = GroupNumber(scan.inodes.group);
        let taken = part(scan, filesystem, group, left);
        // A group whose table was never written costs next to nothing.
        left = left.saturating_sub(taken.max(1));
        scan.at = scan.inodes.group.into();
    }
    of
}

/// Checks at most `most` blocks of a group's table; gives how many it read.
fn part<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>, group: GroupNumber, most: u32) -> u32 {
    let geometry = filesystem.geometry();
    let first = scan.inodes.block;
    let table_blocks = geometry.table_blocks_per_group();
    let next_group = |scan: &mut Scan| {
        scan.inodes.group = scan.inodes.group.saturating_add(1);
        scan.inodes.block = 0;
    };
    let Ok((descriptor, _)) = filesystem.group(group) else {
        next_group(scan);
        return 0;
    };
    let per_block = geometry.slots_per_block().max(1);
    let initialised = match descriptor.flags.has(GroupFlags::INODE_UNINIT) {
        true => 0,
        false => geometry.inodes_per_group.saturating_sub(descriptor.unused_inodes),
    };
    let end = initialised.div_ceil(per_block).min(table_blocks);
    let count = most.min(end.saturating_sub(first));
    if count == 0 {
        next_group(scan);
        return 0;
    }
    let table = filesystem.table_bytes(&descriptor, first, count);
    let bitmap = filesystem.inode_bitmap(group, &descriptor).unwrap_or_default();
    let size = usize::try_from(geometry.inode_bytes).unwrap_or(128);
    let begin = first.saturating_mul(per_block);
    let wanted = count.saturating_mul(geometry.block_bytes);
    if table.len() < usize::try_from(wanted).unwrap_or(usize::MAX) {
        let offset = geometry.offset_of(descriptor.inode_table);
        let text = format!("the inode table of group {group} cannot be read whole");
        scan.report
            .push(Finding::error(format!("group {group}"), offset, text));
    }
    for (index, bytes) in (begin..initialised).zip(table.chunks_exact(size)) {
        let marked = bitmap.is_empty() || bit(&bitmap, index);
        let links = bytes.get(0x1a..0x1c).unwrap_or(&[0, 0]);
        if links == [0, 0] && !marked {
            continue;
        }
        if let Some(number) = geometry.inode_at(group, index) {
            one(scan, filesystem, number, bytes, marked);
        }
    }
    scan.inodes.block = first.saturating_add(count);
    if scan.inodes.block >= end {
        next_group(scan);
    }
    count
}

/// Whether an inode belongs to the file system itself, so that no directory names it.
pub(super) fn is_system<R: ReadAt>(filesystem: &Filesystem<R>, number: InodeNumber) -> bool {
    let superblock = filesystem.superblock();
    let named = [
        superblock.s_usr_quota_inum,
        superblock.s_grp_quota_inum,
        superblock.s_prj_quota_inum,
        superblock.s_journal_inum,
        superblock.s_orphan_file_inum,
        superblock.s_snapshot_inum,
    ];
    number != InodeNumber::ROOT && number.get() < filesystem.geometry().first_inode
        || named.contains(&number.get())
}

fn one<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    bytes: &[u8],
    marked: bool,
) {
    let inode = Inode::decode(bytes);
    let orphan = scan.inodes.orphans.contains(&number);
    let system = is_system(filesystem, number);
    let in_use = inode.raw.i_links_count > 0 || orphan && marked || system && inode.raw.i_mode != 0;
    let mut error = |text: String| scan.report.push(filesystem.inode_finding(number, text));
    let empty = || bytes.iter().all(|byte| *byte == 0);
    if (in_use || inode.raw.i_mode != 0)
        && filesystem.inode_checksum_right(number, bytes) == Some(false)
        && !empty()
    {
        let stored = inode::stored_checksum(bytes);
        error(format!(
            "its checksum is {stored:#x}, but the bytes say otherwise"
        ));
    }
    if !in_use {
        if number.get() == 1 && inode.blocks > 0 {
            // The list of bad blocks has neither mode nor links.
            walk(scan, filesystem, number, &inode);
        } else if !system && inode.raw.i_mode != 0 && inode.raw.i_dtime == 0 {
            error("it has neither links nor a deletion time, and is no orphan".to_owned());
        }
        return;
    }
    let extra_max = filesystem.geometry().inode_bytes.saturating_sub(128);
    let extra = u32::from(inode.raw.i_extra_isize);
    if extra > extra_max || !extra.is_multiple_of(4) || extra != 0 && extra < 4 {
        error(format!(
            "i_extra_isize is {extra}, with room for {extra_max} bytes"
        ));
    }
    if inode.file_type.is_none() && (!system || inode.raw.i_mode != 0) {
        error(format!("mode {:#o} is no sort of file", inode.raw.i_mode));
    }
    if inode.raw.i_dtime != 0 && inode.raw.i_links_count > 0 && !orphan {
        error(format!(
            "it has {} links, but was deleted at {}",
            inode.raw.i_links_count, inode.raw.i_dtime
        ));
    }
    if number == InodeNumber::ROOT && inode.file_type != Some(FileType::Directory) {
        error("it is the root, but no directory".to_owned());
    }
    for text in flags(filesystem, &inode) {
        error(text);
    }
    count(scan, filesystem, number, &inode);
    shape(scan, filesystem, number, &inode);
    attributes(scan, filesystem, number, &inode, bytes);
}

/// Flags that neither the file system nor the sort of file allows.
fn flags<R: ReadAt>(filesystem: &Filesystem<R>, inode: &Inode) -> Vec<String> {
    let superblock = filesystem.superblock();
    let (compat, incompat) = (superblock.compat(), superblock.incompat());
    let mut wrong = Vec::new();
    for (flag, name, feature) in [
        (
            InodeFlags::INLINE_DATA,
            "inline_data",
            incompat.has(Incompat::INLINE_DATA),
        ),
        (InodeFlags::EXTENTS, "extent", incompat.has(Incompat::EXTENTS)),
        (InodeFlags::INDEX, "dir_index", compat.has(Compat::DIR_INDEX)),
        (InodeFlags::ENCRYPTED, "encrypt", incompat.has(Incompat::ENCRYPT)),
        (InodeFlags::CASEFOLD, "casefold", incompat.has(Incompat::CASEFOLD)),
        (
            InodeFlags::VERITY,
            "verity",
            superblock.ro_compat().has(RoCompat::VERITY),
        ),
        (InodeFlags::EA_INODE, "ea_inode", incompat.has(Incompat::EA_INODE)),
    ] {
        if inode.flags.has(flag) && !feature {
            wrong.push(format!(
                "it has a flag of the feature {name}, which the file system has not"
            ));
        }
    }
    if inode
        .flags
        .has(InodeFlags(InodeFlags::INLINE_DATA.0 | InodeFlags::EXTENTS.0))
    {
        wrong.push("it has both inline data and extents".to_owned());
    }
    let of_directories = InodeFlags(InodeFlags::INDEX.0 | InodeFlags::CASEFOLD.0);
    let others = inode.file_type != Some(FileType::Directory);
    if others && inode.flags.0 & of_directories.0 != 0 {
        wrong.push("it has a flag of directories, but is none".to_owned());
    }
    if inode.flags.has(InodeFlags::EA_INODE) && inode.file_type != Some(FileType::Regular) {
        wrong.push("it is marked as the value of an attribute, but is no file".to_owned());
    }
    wrong
}

fn count<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>, number: InodeNumber, inode: &Inode) {
    let counts = &mut scan.report.counts;
    counts.inodes = counts.inodes.saturating_add(1);
    if filesystem.seed().is_some() {
        counts.checksums = counts.checksums.saturating_add(1);
    }
    let system = is_system(filesystem, number);
    let sort = match inode.file_type {
        _ if system => None,
        Some(FileType::Regular) => Some(&mut counts.files),
        Some(FileType::Directory) => Some(&mut counts.directories),
        Some(FileType::Symlink) => Some(&mut counts.symlinks),
        Some(_) => Some(&mut counts.special),
        None => None,
    };
    if let Some(sort) = sort {
        *sort = sort.saturating_add(1);
    }
    if inode.file_type == Some(FileType::Directory) {
        scan.index.add_directory(number);
        scan.inodes.directories.push(DirectoryState {
            number,
            dotdot: 0,
            parent: 0,
        });
    }
    if let Some(state) = scan.inodes.state_mut(filesystem, number) {
        state.kind = code(inode.file_type);
        state.links = inode.raw.i_links_count;
    }
}

/// What a walk over a map adds up to.
#[derive(Default)]
struct Walked {
    /// Blocks of data and of the tree.
    blocks: u64,
    /// The first block of the file after the last that is there.
    end: u64,
    /// The same, without what was never written.
    written_end: u64,
    runs: u64,
    holes: bool,
    broken: bool,
    /// The first block, for links.
    first: Option<BlockNumber>,
}

/// Claims a file's blocks and those of its tree. A tree that was met before is left out: that bounds the work.
fn walk<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    inode: &Inode,
) -> Walked {
    let mut walked = Walked::default();
    let geometry = filesystem.geometry();
    let superblock = filesystem.superblock();
    let shared = superblock.ro_compat().has(RoCompat::SHARED_BLOCKS);
    let per_cluster = u64::from(geometry.blocks_per_cluster);
    // The blocks that the resize inode keeps are those behind each copy of the descriptors.
    let resize = number.get() == 7 && superblock.compat().has(Compat::RESIZE_INODE);
    let mut last_cluster = None;
    let cluster = |block: u64| crate::number::divide_wide(block, geometry.blocks_per_cluster).0;
    let (claims, report, index) = (&mut scan.claims, &mut scan.report, &mut scan.index);
    let mut tree = BTreeSet::new();
    filesystem.walk_map(number, inode, &mut |item| {
        let twice = |block: BlockNumber| {
            let text = format!("its block {block} is also in use by something else");
            Finding::of_inode(number, geometry.offset_of(block), text)
        };
        match item {
            MapItem::Finding(finding) => {
                walked.broken = true;
                report.push(finding);
            }
            MapItem::Node(node) => {
                report.counts.map_blocks = report.counts.map_blocks.saturating_add(1);
                walked.blocks = walked.blocks.saturating_add(per_cluster);
                index.add_map(number, node.block);
                let claimed = claims.claim(node.block, 1);
                if resize {
                    return if tree.insert(node.block) {
                        Walk::Deeper
                    } else {
                        Walk::Past
                    };
                }
                if claimed.is_some() {
                    walked.broken = true;
                    report.push(twice(node.block));
                    return Walk::Past;
                }
            }
            MapItem::Run(run) => {
                let blocks = u64::from(run.blocks);
                index.add_data(number, &run);
                report.counts.runs = report.counts.runs.saturating_add(1);
                report.counts.data_blocks = report.counts.data_blocks.saturating_add(blocks);
                walked.runs = walked.runs.saturating_add(1);
                walked.holes |= u64::from(run.logical) != walked.end;
                walked.end = walked.end.max(run.end());
                if !run.unwritten {
                    walked.written_end = walked.written_end.max(run.end());
                }
                if run.logical == 0 {
                    walked.first = Some(run.start);
                }
                let (first, last) = (
                    cluster(run.start.0),
                    cluster(run.start.0.saturating_add(blocks).saturating_sub(1)),
                );
                let goes_on = per_cluster > 1 && last_cluster == Some(first);
                let clusters = last.saturating_sub(first).saturating_add(u64::from(!goes_on));
                walked.blocks = walked.blocks.saturating_add(clusters.saturating_mul(per_cluster));
                last_cluster = Some(last);
                let start = match goes_on {
                    true => first.saturating_add(1).saturating_mul(per_cluster),
                    false => run.start.0,
                };
                let end = run.start.0.saturating_add(blocks);
                let claimed = claims.claim(BlockNumber(start), end.saturating_sub(start));
                if let Some(block) = claimed.filter(|_| !resize && !shared) {
                    walked.broken = true;
                    report.push(twice(block));
                }
            }
        }
        Walk::Deeper
    });
    if walked.runs > 1 {
        report.counts.fragmented = report.counts.fragmented.saturating_add(1);
    }
    walked
}

/// Size and space against what the map says.
fn shape<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>, number: InodeNumber, inode: &Inode) {
    let geometry = filesystem.geometry();
    let block_bytes = u64::from(geometry.block_bytes);
    let mut walked = walk(scan, filesystem, number, inode);
    let orphan = scan.inodes.orphans.contains(&number);
    let mut error = |text: String| scan.report.push(filesystem.inode_finding(number, text));
    if inode.flags.has(InodeFlags::INLINE_DATA) {
        let data = filesystem.inline_data(number, inode);
        if !filesystem.has_inline_attribute(number) {
            error("its data are said to lie in it, but the attribute system.data is missing".to_owned());
        }
        if inode.size > data.len() as u64 {
            error(format!(
                "its size is {}, but only {} bytes lie in it",
                inode.size,
                data.len()
            ));
        }
        if inode.file_type == Some(FileType::Symlink) && inode.size == 0 {
            error("it is a symbolic link without a target".to_owned());
        }
        return;
    }
    match inode.file_type {
        Some(FileType::Directory) => {
            let blocks = inode.size.div_ceil(block_bytes.max(1));
            if !inode.size.is_multiple_of(block_bytes.max(1)) || blocks != walked.end && !walked.broken {
                error(format!(
                    "the directory's size is {}, but its blocks end at {}",
                    inode.size,
                    walked.end.saturating_mul(block_bytes)
                ));
            } else if walked.holes || walked.end == 0 {
                error("the directory has a hole".to_owned());
            }
        }
        Some(FileType::Regular) => {
            let last = walked.written_end.saturating_sub(1).saturating_mul(block_bytes);
            let past = walked.written_end > 0 && inode.size < last;
            // Blocks of a cluster come together.
            let by_cluster = geometry.blocks_per_cluster > 1;
            if past && !orphan && !inode.flags.has(InodeFlags::VERITY) && !by_cluster {
                error(format!(
                    "its size is {}, but it has data up to {}",
                    inode.size,
                    walked.written_end.saturating_mul(block_bytes)
                ));
            }
        }
        Some(FileType::Symlink) => symlink(scan, filesystem, number, inode, &walked),
        Some(_) => {
            // What follows the device number is not used.
            let rest = inode.raw.i_block.get(8..).unwrap_or_default();
            if inode.size != 0 || rest.iter().any(|byte| *byte != 0) {
                error("it is a device, pipe or socket, but has a size or blocks".to_owned());
            }
        }
        None => {}
    }
    if inode.attribute_block != 0 {
        walked.blocks = walked.blocks.saturating_add(geometry.blocks_per_cluster.into());
    }
    let unit = match inode.flags.has(InodeFlags::HUGE_FILE) {
        true => 1,
        false => block_bytes / 512,
    };
    let right = walked.blocks.saturating_mul(unit);
    // Values in inodes of their own are charged to the file that they belong to.
    let has_values = filesystem.superblock().incompat().has(Incompat::EA_INODE);
    if inode.blocks != right && !walked.broken && !has_values {
        let text = format!("it says that {} units are in use, but {right} are", inode.blocks);
        scan.report
            .push(filesystem.inode_finding(number, text).in_field("i_blocks_lo"));
    }
}

fn symlink<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    inode: &Inode,
    walked: &Walked,
) {
    let geometry = filesystem.geometry();
    let fast = inode.has_fast_target();
    let mut error = |text: &str| {
        scan.report
            .push(filesystem.inode_finding(number, text.to_owned()));
    };
    if inode.size == 0 {
        return error("it is a symbolic link without a target");
    }
    if fast && inode.flags.has(InodeFlags::EXTENTS) {
        return error("it is a short symbolic link, yet marked as mapped by extents");
    }
    if !fast && (inode.size > geometry.block_bytes.into() || walked.first.is_none() || walked.end > 1) {
        return error("it is a symbolic link whose target is not one block");
    }
    // An encrypted target is bytes after its length.
    if inode.flags.has(InodeFlags::ENCRYPTED) {
        return;
    }
    let Ok(target) = filesystem.target(number, inode) else {
        return error("the target of the symbolic link cannot be read");
    };
    if target.contains(&0) {
        error("the target of the symbolic link is shorter than its size");
    }
}

fn attributes<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    inode: &Inode,
    bytes: &[u8],
) {
    let (found, findings) = filesystem.attributes_in_inode(number, bytes, OwnValues::Leave);
    scan.report.extend(findings);
    let mut values = found;
    if inode.attribute_block != 0 {
        let block = BlockNumber(inode.attribute_block);
        let known = scan.inodes.attribute_blocks.get_mut(&block);
        if let Some((_, users)) = known {
            *users = users.saturating_add(1);
        } else if !filesystem.geometry().contains(block) || block.0 == 0 {
            let text = format!("its attributes are said to be in block {block}, outside the file system");
            scan.report.push(filesystem.inode_finding(number, text));
        } else {
            scan.index.add_attributes(number, block);
            if scan.claims.claim(block, 1).is_some() {
                let text = format!("its attribute block {block} is also in use by something else");
                scan.report.push(Finding::of_inode(
                    number,
                    filesystem.geometry().offset_of(block),
                    text,
                ));
            }
            let (in_block, wrong) = filesystem.attribute_block(block, OwnValues::Leave);
            let shared = filesystem.attribute_block_users(block);
            scan.inodes.attribute_blocks.insert(block, (shared, 1));
            values.extend(in_block);
            let offset = filesystem.geometry().offset_of(block);
            scan.report.extend(
                wrong.into_iter().map(|text| {
                    Finding::of_inode(number, offset, format!("attribute block {block}: {text}"))
                }),
            );
        }
    }
    for attribute in values {
        if let crate::AttributePlace::OwnInode(value) = attribute.place {
            let users = scan.inodes.values.entry(value).or_default();
            *users = users.saturating_add(1);
        }
    }
}
