//! Changes, as a kernel would make them.
//!
//! Each file has one sort of structure; [`Volume`] is what they all change.

mod block_map;
mod directory;
mod error;
mod extents;
mod file;
mod groups;
mod hashed;
mod make;
mod memory_inode;
mod operations;
mod orphans;
mod volume;

pub use directory::FoundEntry;
pub use error::WriteError;
pub use make::{NewFilesystem, Zeros};
pub use memory_inode::{MemoryInode, NewInode};
pub use operations::NewAttributes;
pub use orphans::{OrphanRecord, OrphanSlot, OrphansCleaned};
pub use volume::{Volume, feature_not_written, replay_journal};
