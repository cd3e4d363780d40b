//! Why a change was refused.

use std::fmt;

use crate::{BlockNumber, InodeNumber, OpenError, ReadError, ReadFailure};

/// Why a change was refused. What it would have changed is then as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The file system has a feature that is read here, but not written.
    Feature(String),
    /// No free block is left.
    NoSpace,
    /// No free inode is left.
    NoInodes,
    /// The index of a directory can grow no further.
    DirectoryFull,
    /// The inode has as many links as there can be.
    TooManyLinks,
    /// A name is longer than 255 bytes, or a link's target longer than a block.
    NameTooLong,
    /// A name is empty, or has a zero byte or a slash in it, or is `.` or `..`; or a directory would go into itself.
    Invalid,
    /// The name is taken.
    Exists,
    /// There is no such name.
    NotFound,
    /// A directory was needed.
    NotADirectory,
    /// A directory cannot be had here.
    IsADirectory,
    /// The directory has entries.
    NotEmpty,
    /// The inode is immutable or append-only.
    NotPermitted,
    /// The file would be larger than its map can say.
    TooBig,
    /// Two CPUs changed one group at once: the model does not exclude them.
    Race(u32),
    /// An inode's structures make no sense.
    Corrupt(InodeNumber, &'static str),
    /// A block's state makes no sense, as that of one that is freed twice.
    CorruptBlock(BlockNumber, &'static str),
    /// The journal cannot be replayed.
    Journal(String),
    /// The image cannot be opened.
    Open(OpenError),
    /// A structure in the way cannot be read.
    Read(ReadFailure),
}

impl WriteError {
    /// The kernel's name for it.
    pub fn errno(&self) -> &'static str {
        match self {
            Self::Feature(_) => "EROFS",
            Self::NoSpace | Self::NoInodes | Self::DirectoryFull => "ENOSPC",
            Self::TooManyLinks => "EMLINK",
            Self::NameTooLong => "ENAMETOOLONG",
            Self::Invalid => "EINVAL",
            Self::Exists => "EEXIST",
            Self::NotFound => "ENOENT",
            Self::NotADirectory => "ENOTDIR",
            Self::IsADirectory => "EISDIR",
            Self::NotEmpty => "ENOTEMPTY",
            Self::NotPermitted => "EPERM",
            Self::TooBig => "EFBIG",
            Self::Race(_) => "EBUSY",
            Self::Corrupt(..) | Self::CorruptBlock(..) | Self::Journal(_) => "EUCLEAN",
            Self::Open(_) | Self::Read(_) => "EIO",
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(feature) => write!(
                f,
                "this file system has the feature \"{feature}\", which is read here but not written"
            ),
            Self::NoSpace => write!(f, "no free block is left"),
            Self::NoInodes => write!(f, "no free inode is left"),
            Self::DirectoryFull => write!(f, "the directory's index can grow no further"),
            Self::TooManyLinks => write!(f, "it has as many links as there can be"),
            Self::NameTooLong => write!(f, "the name is too long"),
            Self::Invalid => write!(f, "that name cannot be used here"),
            Self::Exists => write!(f, "the name is taken"),
            Self::NotFound => write!(f, "there is no such name"),
            Self::NotADirectory => write!(f, "it is not a directory"),
            Self::IsADirectory => write!(f, "it is a directory"),
            Self::NotEmpty => write!(f, "the directory is not empty"),
            Self::NotPermitted => write!(f, "it is immutable or append-only"),
            Self::TooBig => write!(f, "the file would be too large"),
            Self::Race(group) => write!(f, "two CPUs changed group {group} at once"),
            Self::Corrupt(inode, what) => write!(f, "inode {inode}: {what}"),
            Self::CorruptBlock(block, what) => write!(f, "block {block}: {what}"),
            Self::Journal(why) => write!(f, "its journal cannot be replayed: {why}"),
            Self::Open(error) => error.fmt(f),
            Self::Read(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<ReadFailure> for WriteError {
    fn from(failure: ReadFailure) -> Self {
        Self::Read(failure)
    }
}

impl From<ReadError> for WriteError {
    fn from(error: ReadError) -> Self {
        Self::Read(error.into())
    }
}

impl From<OpenError> for WriteError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}
