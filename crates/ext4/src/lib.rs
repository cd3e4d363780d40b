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

mod block;
mod checksum;
mod claim;
mod features;
mod filesystem;
mod finding;
mod geometry;
mod group;
mod inode;
mod looks_like;
mod number;
mod overlay;
mod read;
mod record;
mod slot;
mod superblock;
mod time;

pub use block::{Block, Blocks, HandleId};
pub use checksum::{Seed, crc32c};
pub use claim::{ClaimError, claim_inode};
pub use features::{Compat, FeatureName, Incompat, RoCompat, feature_names};
pub use filesystem::{Filesystem, InodeLocation, OpenError, Opened, ReadFailure};
pub use finding::{Finding, Severity};
pub use geometry::Geometry;
pub use group::{GROUP_FIELDS, GroupDescriptor, GroupFlags, RawGroup};
pub use inode::{FileType, INODE_FIELDS, Inode, InodeFlags, RawInode, seal_inode};
pub use looks_like::looks_like;
pub use number::{BlockNumber, GroupNumber, InodeNumber};
pub use overlay::Overlay;
pub use read::{ReadAt, ReadError};
pub use record::{Field, FieldKind, FieldValue};
pub use slot::SlotState;
pub use superblock::{Label, SUPERBLOCK_BYTES, SUPERBLOCK_FIELDS, Superblock};
pub use time::Timestamp;

#[cfg(not(target_arch = "wasm32"))]
pub use read::NativeFile;
