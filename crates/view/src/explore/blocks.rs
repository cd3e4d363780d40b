//! The disk block by block: what each is for, and what its bytes say.

use ext4::{BlockNumber, Filesystem, GroupNumber, Index, InodeNumber, Owner, ReadAt, ReadFailure};
use serde::{Deserialize, Serialize};

use super::{FieldRow, annotate};

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BlockKind {
    /// Free.
    Free,
    /// The superblock or a copy of it.
    Superblock,
    /// Group descriptors, or room for more of them.
    Descriptors,
    /// A bitmap.
    Bitmap,
    /// A block of an inode table.
    InodeTable,
    /// Entries of a directory.
    Directory,
    /// Data of a file.
    File,
    /// The journal.
    Journal,
    /// A block of an extent tree or block map.
    Map,
    /// Extended attributes.
    Attributes,
    /// In use; by whom is not known yet.
    Used,
    /// Outside the image, or its bitmap cannot be read.
    Unknown,
}

impl BlockKind {
    /// All, in the legend's order.
    pub const ALL: [Self; 12] = [
        Self::Free,
        Self::Superblock,
        Self::Descriptors,
        Self::Bitmap,
        Self::InodeTable,
        Self::Directory,
        Self::File,
        Self::Journal,
        Self::Map,
        Self::Attributes,
        Self::Used,
        Self::Unknown,
    ];

    /// Its name in the legend.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Superblock => "superblock",
            Self::Descriptors => "group descriptors",
            Self::Bitmap => "bitmap",
            Self::InodeTable => "inode table",
            Self::Directory => "directory",
            Self::File => "file",
            Self::Journal => "journal",
            Self::Map => "extent tree or block map",
            Self::Attributes => "attributes",
            Self::Used => "in use",
            Self::Unknown => "unknown",
        }
    }
}

fn kind<R: ReadAt>(filesystem: &Filesystem<R>, index: &Index, owner: Owner) -> BlockKind {
    match owner {
        Owner::Superblock(_) => BlockKind::Superblock,
        Owner::Descriptors(_) | Owner::ReservedDescriptors(_) => BlockKind::Descriptors,
        Owner::BlockBitmap(_) | Owner::InodeBitmap(_) => BlockKind::Bitmap,
        Owner::InodeTable(..) => BlockKind::InodeTable,
        Owner::Map(_) => BlockKind::Map,
        Owner::Attributes(_) => BlockKind::Attributes,
        Owner::Data(inode, _) if inode.get() == filesystem.superblock().s_journal_inum => BlockKind::Journal,
        Owner::Data(inode, _) if index.is_directory(inode) => BlockKind::Directory,
        Owner::Data(..) => BlockKind::File,
        Owner::Used | Owner::MultiMount => BlockKind::Used,
        Owner::Free => BlockKind::Free,
        Owner::Unknown => BlockKind::Unknown,
    }
}

/// The blocks of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockMap {
    /// The group.
    pub group: u32,
    /// Its first block.
    pub first: u64,
    /// What each is for: at most 65,536, which is all of them but with clusters.
    pub kinds: Vec<BlockKind>,
    /// Whether owners are known.
    pub owners_known: bool,
}

/// The most blocks of a group that are shown.
const BLOCKS_MAX: u32 = 65_536;

/// What each block of a group is for.
///
/// # Errors
/// [`ReadFailure`] where there is no such group.
pub fn block_map<R: ReadAt>(
    filesystem: &Filesystem<R>,
    index: &Index,
    group: GroupNumber,
) -> Result<BlockMap, ReadFailure> {
    let geometry = filesystem.geometry();
    filesystem.group(group)?;
    let first = geometry.first_block_of(group).0;
    let count = geometry.blocks_in(group).min(BLOCKS_MAX);
    let per_cluster = geometry.blocks_per_cluster.max(1);
    let bitmap = filesystem.block_bitmap(group);
    let mut kinds: Vec<BlockKind> = (0..count)
        .map(|within| {
            let cluster = within / per_cluster;
            let byte = bitmap
                .as_ref()
                .and_then(|bitmap| bitmap.get((cluster / 8) as usize));
            match byte {
                None => BlockKind::Unknown,
                Some(byte) if byte >> (cluster % 8) & 1 == 0 => BlockKind::Free,
                Some(_) => BlockKind::Used,
            }
        })
        .collect();
    let end = first + u64::from(count);
    let mut paint = |start: u64, blocks: u64, kind: BlockKind| {
        for block in start.max(first)..start.saturating_add(blocks).min(end) {
            if let Some(slot) = kinds.get_mut((block - first) as usize) {
                *slot = kind;
            }
        }
    };
    for (start, blocks, owner) in index.owned_in(first, end) {
        paint(start, blocks.into(), kind(filesystem, index, owner));
    }
    for (start, blocks, owner) in filesystem.metadata_near(group) {
        paint(start.0, blocks, kind(filesystem, index, owner));
    }
    Ok(BlockMap {
        group: group.0,
        first,
        kinds,
        owners_known: index.is_whole(),
    })
}

/// How full each group is, 0 for empty to 255 for full, from `first` on.
pub fn shares<R: ReadAt>(filesystem: &Filesystem<R>, first: u32, count: u32) -> Vec<u8> {
    let geometry = filesystem.geometry();
    let end = first.saturating_add(count).min(geometry.groups);
    let share = |group: u32| {
        let group = GroupNumber(group);
        let Ok((descriptor, _)) = filesystem.group(group) else {
            return 0;
        };
        let blocks = u64::from(geometry.blocks_in(group)).max(1);
        let free = u64::from(descriptor.free_blocks) * u64::from(geometry.blocks_per_cluster);
        (blocks.saturating_sub(free) * 255 / blocks).min(255) as u8
    };
    (first..end).map(share).collect()
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockCard {
    /// Its number.
    pub number: u64,
    /// Its group; none for the boot block.
    pub group: Option<u32>,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// What it is for.
    pub kind: BlockKind,
    /// The same in words.
    pub purpose: String,
    /// The inode that it belongs to, and a path to that.
    pub inode: Option<(u32, Option<Vec<u8>>)>,
    /// Its bytes; empty where it cannot be read.
    pub bytes: Vec<u8>,
    /// What they say.
    pub parts: Vec<FieldRow>,
    /// Why it cannot be read.
    pub trouble: Option<String>,
}

/// Everything about a block.
///
/// # Errors
/// [`ReadFailure::OutOfRange`] where there is no such block.
pub fn block_card<R: ReadAt>(
    filesystem: &Filesystem<R>,
    index: &Index,
    number: BlockNumber,
) -> Result<BlockCard, ReadFailure> {
    let geometry = filesystem.geometry();
    if !geometry.contains(number) {
        return Err(ReadFailure::OutOfRange);
    }
    let owner = index.owner(filesystem, number);
    let kind = kind(filesystem, index, owner);
    let (bytes, trouble) = match filesystem.block(number) {
        Ok(bytes) => (bytes, None),
        Err(why) => (Vec::new(), Some(why.to_string())),
    };
    let inode = match owner {
        Owner::Data(inode, _) | Owner::Map(inode) | Owner::Attributes(inode) => Some(inode),
        _ => None,
    };
    Ok(BlockCard {
        number: number.0,
        group: geometry.group_of(number).map(|group| group.0),
        offset: geometry.offset_of(number),
        kind,
        purpose: purpose(filesystem, index, owner),
        inode: inode.map(|inode| (inode.get(), index.path(filesystem, inode))),
        parts: annotate::parts(filesystem, owner, &bytes),
        bytes,
        trouble,
    })
}

fn purpose<R: ReadAt>(filesystem: &Filesystem<R>, index: &Index, owner: Owner) -> String {
    let file = |inode: InodeNumber| {
        let role = super::of_image::role(filesystem, inode.get());
        role.map_or_else(
            || format!("inode {inode}"),
            |role| format!("inode {inode}, {role}"),
        )
    };
    match owner {
        Owner::Superblock(GroupNumber(0)) => "the superblock".to_owned(),
        Owner::Superblock(group) => format!("the copy of the superblock in group {group}"),
        Owner::Descriptors(GroupNumber(0)) => "group descriptors".to_owned(),
        Owner::Descriptors(group) => format!("group descriptors, the copy in group {group}"),
        Owner::ReservedDescriptors(_) => "kept for more group descriptors".to_owned(),
        Owner::BlockBitmap(group) => format!("the block bitmap of group {group}"),
        Owner::InodeBitmap(group) => format!("the inode bitmap of group {group}"),
        Owner::InodeTable(group, block) => format!("block {block} of the inode table of group {group}"),
        Owner::MultiMount => "multi-mount protection".to_owned(),
        Owner::Data(inode, logical) => {
            let what = match index.is_directory(inode) {
                true => "directory",
                false => "data",
            };
            format!("block {logical} of the {what} of {}", file(inode))
        }
        Owner::Map(inode) => format!("a block of the tree that maps {}", file(inode)),
        Owner::Attributes(inode) => format!("extended attributes of {}", file(inode)),
        Owner::Used if index.is_whole() => "marked as in use, but nothing that was read uses it".to_owned(),
        Owner::Used => "in use; by whom is known once the disk has been read through".to_owned(),
        Owner::Free => "free".to_owned(),
        Owner::Unknown => "its bitmap cannot be read".to_owned(),
    }
}
