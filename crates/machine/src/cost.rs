//! What things cost: one table of nanoseconds, with the source of every number.

use serde::{Deserialize, Serialize};

/// A row of the cost table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One step along a hash chain that is not in the CPU's own cache.
    HashChainStep,
    /// Working out the bucket of an inode number.
    Hash,
    /// Filling a raw inode and its checksum (`ext4_do_update_inode`).
    InodeFill,
    /// Copying three times of a neighbour into its raw inode, with its checksum.
    TimesCopy,
    /// Reading an inode, as far as the reading job goes.
    InodeRead,
    /// All else that a truncate does: system call, directory and size checks, page cache, extent tree.
    RestOfTruncate,
}

/// Nanoseconds for each row, and for what the back ends charge by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostTable {
    /// A read-modify-write of a line that the CPU has to itself. 7 to 12 in perfbook's tables.
    pub atomic_ns: u64,
    /// A read of a line that the CPU has a copy of.
    pub hit_ns: u64,
    /// A line that comes from another core of the same socket. 50 to 100 in perfbook's tables.
    pub transfer_ns: u64,
    /// Row [`Cost::HashChainStep`]: 10 where the chain is in the last-level cache, 100 in memory.
    pub hash_chain_step_ns: u64,
    /// Row [`Cost::Hash`]: a multiplication and some shifts.
    pub hash_ns: u64,
    /// Row [`Cost::InodeFill`]: recalled as 500 to 1000.
    pub inode_fill_ns: u64,
    /// Row [`Cost::TimesCopy`]: its checksum is the larger part.
    pub times_copy_ns: u64,
    /// Row [`Cost::InodeRead`].
    pub inode_read_ns: u64,
    /// Row [`Cost::RestOfTruncate`]. **Fitted** to the 2020 mail's 10.7 µs of job time per operation.
    pub rest_of_truncate_ns: u64,
    /// Waking a sleeping task. Recalled as 3 to 6 µs on bare metal.
    pub wake_ns: u64,
}

impl Default for CostTable {
    /// A two-socket 2.7 GHz Xeon, seen as one socket.
    fn default() -> Self {
        Self {
            atomic_ns: 8,
            hit_ns: 1,
            transfer_ns: 75,
            hash_chain_step_ns: 10,
            hash_ns: 3,
            inode_fill_ns: 700,
            times_copy_ns: 300,
            inode_read_ns: 500,
            rest_of_truncate_ns: 7000,
            wake_ns: 5000,
        }
    }
}

impl CostTable {
    /// Nanoseconds of a row.
    pub fn of(&self, cost: Cost) -> u64 {
        match cost {
            Cost::HashChainStep => self.hash_chain_step_ns,
            Cost::Hash => self.hash_ns,
            Cost::InodeFill => self.inode_fill_ns,
            Cost::TimesCopy => self.times_copy_ns,
            Cost::InodeRead => self.inode_read_ns,
            Cost::RestOfTruncate => self.rest_of_truncate_ns,
        }
    }
}
