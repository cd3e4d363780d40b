//! The ext4 on-disk format: decode, check, change. Knows nothing of threads, clocks, browsers or strategies.
//!
//! Image bytes are hostile: no function panics, loops without a bound, or allocates what the image chose.
//! [`Filesystem::open`] is the way in; what can be shown is shown, and what is wrong is a [`Finding`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod backup;
mod block;
mod checksum;
pub mod container;
mod directory;
mod features;
mod file;
mod filesystem;
mod finding;
mod geometry;
mod group;
mod hash;
mod htree;
mod index;
mod inode;
mod journal;
mod looks_like;
mod map;
mod mmp;
mod number;
mod orphans;
mod overlay;
mod read;
mod record;
mod scan;
mod slot;
mod superblock;
mod time;
mod write;
mod xattr;

pub use backup::Backup;
pub use block::{Block, Blocks};
pub use checksum::{Seed, crc32c};
pub use directory::{DirectoryBlock, Entry, PathError};
pub use features::{Compat, FeatureName, Incompat, RoCompat, feature_names};
pub use file::File;
pub use filesystem::{Filesystem, InodeLocation, OpenError, Opened, ReadFailure};
pub use finding::{Finding, Severity};
pub use geometry::Geometry;
pub use group::{GROUP_FIELDS, GroupDescriptor, GroupFlags, RawGroup};
pub use hash::{Chars, HashVersion};
pub use htree::{DirectoryIndex, IndexNode, child_of};
pub use index::{Index, Owner};
pub use inode::{FileType, INODE_FIELDS, Inode, InodeFlags, RawInode, seal_inode};
pub use journal::{
    FastCommitTag, Journal, JournalError, JournalFeatures, JournalSuperblock, JournalTag, Replayed,
    Transaction, external_journal,
};
pub use looks_like::looks_like;
pub use map::{MapItem, MapNode, Mapping, Run, Walk};
pub use mmp::{MMP_FIELDS, MultiMount};
pub use number::{BlockNumber, GroupNumber, InodeNumber};
pub use orphans::{Orphan, OrphanFate, OrphanPlace};
pub use overlay::{Overlay, Snapshot};
pub use read::{ReadAt, ReadError};
pub use record::{Field, FieldKind, FieldValue};
pub use scan::{Scan, ScanCounts, ScanPhase, ScanProgress, ScanReport};
pub use slot::SlotState;
pub use superblock::{Label, SUPERBLOCK_BYTES, SUPERBLOCK_FIELDS, Superblock};
pub use time::Timestamp;
pub use write::{
    FoundEntry, MemoryInode, NewAttributes, NewFilesystem, NewInode, OrphanRecord, OrphanSlot,
    OrphansCleaned, Volume, WriteError, Zeros, feature_not_written, replay_journal,
};
pub use xattr::{AclEntry, Attribute, AttributePlace};

#[cfg(not(target_arch = "wasm32"))]
pub use read::NativeFile;
