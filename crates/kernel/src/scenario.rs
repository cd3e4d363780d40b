//! What to run: everything a person can choose before pressing Run.

use machine::ProfileNumber;
use serde::{Deserialize, Serialize};

/// How the neighbours of an inode that is written are looked up in the inode hash (`ext4_update_other_inodes_time`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Design {
    /// Linux 4.0 to 5.7: the global hash lock is taken for every neighbour.
    Spin,
    /// Monakhov, 18 October 2017: a trylock for every neighbour; a failing one skips that neighbour only.
    TrylockSkip,
    /// Khlebnikov, 29 January 2020: one static lock is tried around the whole loop; inside, the hash lock is spun for.
    StaticTrylock,
    /// Khlebnikov, 30 January 2020: a trylock for every neighbour; the first that fails ends the loop.
    TrylockBreak,
    /// Howells, Linux 5.8: the chains are walked under RCU, without the lock.
    Rcu,
    /// Chinner, April 2021 (proposed): a bit lock in each bucket's head.
    BucketLock,
}

impl Design {
    /// All designs, oldest first.
    pub const ALL: [Self; 6] = [
        Self::Spin,
        Self::TrylockSkip,
        Self::StaticTrylock,
        Self::TrylockBreak,
        Self::Rcu,
        Self::BucketLock,
    ];

    /// The name in links, on the command line and on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::TrylockSkip => "trylock-skip",
            Self::StaticTrylock => "static-trylock",
            Self::TrylockBreak => "trylock-break",
            Self::Rcu => "rcu",
            Self::BucketLock => "bucket-lock",
        }
    }

    /// The design with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|design| design.name() == name)
    }

    /// Who and when.
    pub fn origin(self) -> &'static str {
        match self {
            Self::Spin => "Linux 4.0 to 5.7",
            Self::TrylockSkip => "Monakhov, October 2017, not merged",
            Self::StaticTrylock => "Khlebnikov, 29 January 2020, not merged",
            Self::TrylockBreak => "Khlebnikov, 30 January 2020, not merged",
            Self::Rcu => "Howells, Linux 5.8",
            Self::BucketLock => "Chinner, April 2021, not merged",
        }
    }

    /// What it does, in a sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Spin => {
                "Every look-up of a neighbour takes the one hash lock, and waits for it. 32 jobs did 50,000 operations \
                 a second (mail of 30 January 2020)."
            }
            Self::TrylockSkip => {
                "Every look-up tries the hash lock; where it is taken, that neighbour is skipped."
            }
            Self::StaticTrylock => {
                "One CPU at a time may look for neighbours; that one still waits for the hash lock."
            }
            Self::TrylockBreak => {
                "Every look-up tries the hash lock; the first time it is taken, the writer stops looking. \
                 32 jobs did 3,000,000 operations a second (mail of 30 January 2020)."
            }
            Self::Rcu => "Look-ups walk the chains without any lock; only hits take the inode's own lock.",
            Self::BucketLock => "Every look-up takes a lock of its own bucket, so only equal buckets meet.",
        }
    }
}

/// Whether the file system is mounted with `lazytime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lazytime {
    /// Timestamps are deferred, and neighbours written along.
    On,
    /// Every inode write writes that inode alone.
    Off,
}

/// Where the jobs' files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Each job's file in a block group of its own where there are enough, as the directories of the mail lie.
    OwnGroup,
    /// All files in as few blocks of one inode table as hold them.
    SameBlock,
}

/// Whether one more job reads files, so that cached neighbours have deferred access times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reader {
    /// No job reads: next to nothing is ever written along, as in the mail.
    Absent,
    /// The last CPU reads the neighbours of the jobs' files.
    Present,
}

/// Everything that decides what a run does. Same image and scenario, same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// Decides every random draw.
    pub seed: u64,
    /// Simulated CPUs, 1 to [`Scenario::CPUS_MAX`]; each runs one job.
    pub cpus: u16,
    /// The machine that it runs on.
    pub profile: ProfileNumber,
    /// How neighbours are looked up.
    pub design: Design,
    /// The mount option.
    pub lazytime: Lazytime,
    /// Where the files lie.
    pub placement: Placement,
    /// Whether the last CPU reads instead.
    pub reader: Reader,
    /// Operations that each job does; `None`: until it is stopped.
    pub operations: Option<u64>,
}

impl Scenario {
    /// The most CPUs that a run may have.
    pub const CPUS_MAX: u16 = 64;
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 7,
            cpus: 8,
            profile: ProfileNumber::default(),
            design: Design::Spin,
            lazytime: Lazytime::On,
            placement: Placement::SameBlock,
            reader: Reader::Present,
            operations: None,
        }
    }
}
