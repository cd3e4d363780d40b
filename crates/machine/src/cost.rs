//! What operations cost: one table of nanoseconds, with the source of every number.

use serde::{Deserialize, Serialize};

macro_rules! costs {
    ($($(#[$doc:meta])* $row:ident, $field:ident = $default:literal;)*) => {
        /// A row of the cost table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cost { $($(#[$doc])* $row,)* }

        /// Nanoseconds for each row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct CostTable { $($(#[$doc])* pub $field: u64,)* }

        impl CostTable {
            /// A two-socket 2.7 GHz Xeon.
            pub const XEON: Self = Self { $($field: $default,)* };

            /// The same table on a machine that needs `percent` of the time for it.
            pub const fn scaled(self, percent: u64) -> Self {
                Self { $($field: self.$field * percent / 100,)* }
            }

            /// Nanoseconds of a row.
            pub fn of(&self, cost: Cost) -> u64 {
                match cost { $(Cost::$row => self.$field,)* }
            }
        }
    };
}

costs! {
    /// One step along a hash chain that is not in the CPU's own cache: 10 in the last-level cache, 100 in memory.
    HashChainStep, hash_chain_step_ns = 10;
    /// Working out the bucket of an inode number: a multiplication and some shifts.
    Hash, hash_ns = 3;
    /// Filling a raw inode and its checksum (`ext4_do_update_inode`); recalled as 500 to 1000.
    InodeFill, inode_fill_ns = 700;
    /// Copying three times of a neighbour into its raw inode; its checksum is the larger part.
    TimesCopy, times_copy_ns = 300;
    /// Reading an inode, as far as the reading job goes.
    InodeRead, inode_read_ns = 500;
    /// All else that a truncate does: system call, directory and size checks, page cache, extent tree.
    /// **Fitted** to the 2020 mail's 10.7 µs of job time per operation.
    RestOfTruncate, rest_of_truncate_ns = 7000;
}

impl Default for CostTable {
    fn default() -> Self {
        Self::XEON
    }
}
