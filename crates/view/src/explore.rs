//! The explorer's screens: overview, groups, inode tables, one inode.

use serde::{Deserialize, Serialize};

mod annotate;
mod blocks;
mod contents;
mod journal;
mod of_image;
mod reading;

pub use blocks::{BlockCard, BlockKind, BlockMap, block_card, block_map, shares};
pub use contents::{
    AttributeRow, Content, DirectoryPage, EntryKind, EntryRow, FileMap, HashTree, HashTreeNode, InodeDetails,
    NodeRow, RunRow, Sort, content, directory_page, find, inode_details, whole,
};
pub use journal::{JournalCard, OrphanRow, OrphansCard, TagRow, TransactionRow, journal_card, orphans_card};
pub use of_image::{group_row, inode_card, overview, table_window, wrap};
pub use reading::{ReadPhase, Reader, ReadingState};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Odd, but the image can be used.
    Warning,
    /// Something is wrong.
    Error,
}

/// Something that is wrong or odd in the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The structure, as a noun phrase: "group descriptor 3".
    pub structure: String,
    /// The structure's field, if one is to blame.
    pub field: Option<String>,
    /// Where it lies, in bytes from the start of the image.
    pub offset: Option<u64>,
    /// The inode that it is about, if it is about one.
    pub inode: Option<u32>,
    /// One sentence with the value.
    pub text: String,
}

/// The image as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// The file's name.
    pub file_name: String,
    /// The file's size in bytes.
    pub file_bytes: u64,
    /// The volume label; may be empty.
    pub label: String,
    /// The file system's UUID, as text.
    pub uuid: String,
    /// "ext2", "ext3" or "ext4", by its features.
    pub family: String,
    /// Bytes per block.
    pub block_bytes: u32,
    /// Bytes per inode.
    pub inode_bytes: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks, as the superblock says.
    pub free_blocks: u64,
    /// Inodes in all.
    pub inodes: u32,
    /// Free inodes, as the superblock says.
    pub free_inodes: u32,
    /// Block groups.
    pub groups: u32,
    /// First block that belongs to a group.
    pub first_data_block: u32,
    /// Blocks per group, except the last.
    pub blocks_per_group: u32,
    /// Inodes per group.
    pub inodes_per_group: u32,
    /// Inode slots per block of the inode table.
    pub slots_per_block: u32,
    /// Blocks per group's inode table.
    pub table_blocks_per_group: u32,
    /// Features by their usual names.
    pub features: Vec<String>,
    /// Every field of the superblock.
    pub superblock: Vec<FieldRow>,
    /// What was found wrong on opening.
    pub findings: Vec<Finding>,
    /// What the image was wrapped in, outermost first: "a gzip file".
    pub layers: Vec<String>,
    /// The disk's partitions; empty where it is no disk.
    pub partitions: Vec<PartitionRow>,
    /// The partition that is open.
    pub partition: Option<u32>,
    /// Whether the journal holds changes that lie nowhere else yet.
    pub dirty: bool,
    /// Whether the image is shown as it would be after replaying the journal.
    pub replayed: bool,
}

/// One field of an on-disk structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldRow {
    /// The kernel's name of it.
    pub name: String,
    /// Bytes from the start of the structure.
    pub offset: u32,
    /// Its width in bytes.
    pub width: u32,
    /// Its value as text.
    pub value: String,
    /// What it is for, in a phrase.
    pub meaning: String,
    /// What the value leads to.
    pub link: Option<Link>,
}

/// Something that can be shown: where a number leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// An inode.
    Inode(u32),
    /// A block.
    Block(u64),
}

/// A partition of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRow {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Bytes.
    pub bytes: u64,
    /// Name and kind, as the table has them.
    pub title: String,
    /// Whether ext2, ext3 or ext4 is on it.
    pub is_ext: bool,
}

/// One block group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRow {
    /// Its number.
    pub number: u32,
    /// Blocks that belong to it.
    pub blocks: u32,
    /// Free blocks in it.
    pub free_blocks: u32,
    /// Inodes in use.
    pub used_inodes: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories in it.
    pub directories: u32,
    /// Inodes at the end of its table that were never used.
    pub unused_inodes: u32,
    /// First block of its inode table.
    pub inode_table: u64,
    /// The block bitmap was never written.
    pub block_uninit: bool,
    /// The inode bitmap and table were never written.
    pub inode_uninit: bool,
    /// The rest of the inode table is zeroed.
    pub zeroed: bool,
    /// What is wrong with its descriptor.
    pub findings: Vec<Finding>,
}

/// What an inode slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Slot {
    /// Free, and its bytes were written once.
    Free,
    /// Never initialised: nobody may look at its bytes.
    NeverInitialised,
    /// A file of another kind than those below.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// One of the reserved inodes: bad blocks, journal, resize, …
    Reserved,
    /// Marked used, but its link count is zero.
    Orphan,
    /// Outside the image, or unreadable.
    Missing,
}

impl Slot {
    /// All, in the legend's order.
    pub const ALL: [Self; 8] = [
        Self::Free,
        Self::NeverInitialised,
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Reserved,
        Self::Orphan,
        Self::Missing,
    ];

    /// Its name in the legend.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::NeverInitialised => "never initialised",
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::Reserved => "reserved",
            Self::Orphan => "orphan",
            Self::Missing => "missing",
        }
    }
}

/// A run of blocks of one inode table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableWindow {
    /// The group.
    pub group: u32,
    /// The first block, counted from the start of the table.
    pub first: u32,
    /// The inode number of the first slot.
    pub first_inode: u32,
    /// The block number of the first block.
    pub first_block: u64,
    /// One per inode, block after block.
    pub slots: Vec<Slot>,
}

/// One inode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InodeCard {
    /// Its number.
    pub number: u32,
    /// Its group.
    pub group: u32,
    /// The table block that it lies in.
    pub block: u64,
    /// Where in the image its bytes begin.
    pub offset: u64,
    /// What the slot holds.
    pub slot: Slot,
    /// What a reserved inode is for: "root directory", "journal".
    pub role: Option<String>,
    /// Type and permissions as `ls -l` prints them; empty for a free or uninitialised slot.
    pub mode: String,
    /// Owner.
    pub uid: u32,
    /// Group owner.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Link count.
    pub links: u32,
    /// Space in use, in 512-byte units.
    pub sectors: u64,
    /// Times: name and moment, in UTC.
    pub times: Vec<(String, Moment)>,
    /// Flags by name.
    pub flags: Vec<String>,
    /// Whether the checksum is right; `None` where the image has none.
    pub checksum_right: Option<bool>,
    /// Every field.
    pub fields: Vec<FieldRow>,
    /// The raw bytes; empty for a slot that was never initialised.
    pub bytes: Vec<u8>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}
