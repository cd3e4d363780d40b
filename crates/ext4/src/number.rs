//! Numbers that may not be mixed up.

use std::{fmt, num::NonZeroU32};

/// An inode's number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNumber(NonZeroU32);

impl InodeNumber {
    /// The root directory's.
    pub const ROOT: Self = Self(NonZeroU32::MIN.saturating_add(1));

    /// The number, if it is not 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The plain number.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Its place among all inodes, from 0.
    pub fn index(self) -> u32 {
        self.get().saturating_sub(1)
    }
}

/// A block's number, from the start of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNumber(pub u64);

/// A block group's number, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupNumber(pub u32);

impl fmt::Display for InodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for GroupNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Quotient and rest; both 0 where the divisor is.
pub(crate) fn divide(number: u32, by: u32) -> (u32, u32) {
    (
        number.checked_div(by).unwrap_or(0),
        number.checked_rem(by).unwrap_or(0),
    )
}

/// The same for wide numbers.
pub(crate) fn divide_wide(number: u64, by: u32) -> (u64, u64) {
    (
        number.checked_div(by.into()).unwrap_or(0),
        number.checked_rem(by.into()).unwrap_or(0),
    )
}

/// A number as a place in memory; where memory is too small for it, past every end.
pub(crate) fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
