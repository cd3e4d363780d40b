//! The kinds of event: one table gives each its number, legend, text and colour token.

/// Kinds have numbers below this: the length of a table with a place for each.
pub const KINDS: usize = 128;

/// Which sort of number the `object` of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing: 0.
    Nothing,
    /// A lock, named in the table beside the trace.
    Lock,
    /// A cache line.
    Line,
    /// An inode number.
    Inode,
    /// Another CPU or task.
    Cpu,
    /// A block group.
    Group,
}

/// A colour by its role; the style sheet says which colour that is in each theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A CPU that does its own work.
    Work,
    /// A lock that is held with nobody waiting.
    Hold,
    /// A CPU that spins or has given up on a lock.
    Wait,
    /// A CPU that sleeps or has nothing to do.
    Sleep,
    /// An inode that is written.
    Dirty,
    /// A neighbour that is looked up or written along.
    Neighbour,
    /// Deferred timestamps.
    Time,
}

impl Token {
    /// The name of the custom property in the style sheet, without its dashes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Hold => "hold",
            Self::Wait => "wait",
            Self::Sleep => "sleep",
            Self::Dirty => "dirty",
            Self::Neighbour => "neigh",
            Self::Time => "time",
        }
    }
}

/// What the legend, the event list and the canvas need to know of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Legend {
    /// A short name, sentence case.
    pub name: &'static str,
    /// What it means, as a clause that follows "CPU 3".
    pub text: &'static str,
    /// What `object` counts.
    pub object: Meaning,
    /// What `argument` means; empty when it is always 0.
    pub argument: &'static str,
    /// The colour.
    pub token: Token,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal, $text:literal, $object:ident, $argument:literal, $token:ident;)*) => {
        /// What happened. The numbers are part of the trace format and never change their meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Kind { $($(#[$doc])* $kind = $number,)* }

        impl Kind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// The kind with this number.
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$kind),)* _ => None }
            }

            /// Its legend.
            pub fn legend(self) -> Legend {
                match self {
                    $(Self::$kind => Legend { name: $name, text: $text, object: Meaning::$object, argument: $argument, token: Token::$token },)*
                }
            }
        }
    };
}

kinds! {
    /// A task began to run.
    Run = 1, "Run", "begins to run", Nothing, "task", Work;
    /// A running task was put aside for another.
    Preempt = 2, "Preempt", "is taken off the CPU", Nothing, "task", Sleep;
    /// A task gave up its CPU to wait.
    Sleep = 3, "Sleep", "goes to sleep", Nothing, "task", Sleep;
    /// A sleeping task was woken, by the CPU that is the object; it wants to run here.
    Wake = 4, "Wake", "is to run a task that was woken by", Cpu, "task", Work;
    /// A task moved to another CPU.
    Migrate = 5, "Migrate", "moves to another CPU", Cpu, "task", Work;
    /// A task has nothing more to do.
    Exit = 6, "Finish", "has finished its work", Nothing, "operations done", Sleep;

    /// A task asks for a lock.
    LockAttempt = 16, "Ask", "asks for", Lock, "", Work;
    /// The lock was taken, so the task waits.
    LockContended = 17, "Spin", "waits for", Lock, "", Wait;
    /// The task has the lock.
    LockAcquired = 18, "Acquire", "gets", Lock, "nanoseconds waited", Hold;
    /// The task gave the lock back.
    LockReleased = 19, "Release", "gives back", Lock, "nanoseconds held", Work;
    /// A trylock found the lock taken.
    TryFailed = 20, "Give up", "finds taken and goes on without", Lock, "", Wait;

    /// A cache line came from another CPU.
    LineTransfer = 32, "Transfer", "fetches a cache line", Line, "nanoseconds", Wait;

    /// A request went to the block device.
    RequestSubmitted = 40, "Submit", "submits a request", Nothing, "bytes", Work;
    /// The task that waited for a request goes on.
    RequestCompleted = 41, "Complete", "sees a request complete", Nothing, "bytes", Work;
    /// The device's cache was flushed.
    Flushed = 42, "Flush", "has flushed the device's cache", Nothing, "nanoseconds", Sleep;

    /// An operation of the workload begins.
    OperationBegin = 48, "Begin", "begins an operation on inode", Inode, "new size in bytes", Work;
    /// An operation of the workload is complete.
    OperationEnd = 49, "End", "completes an operation on inode", Inode, "nanoseconds it took", Work;
    /// The raw inode was filled in its table block.
    InodeWritten = 50, "Write inode", "writes inode", Inode, "block number", Dirty;
    /// An inode was read by the workload, which defers its access time.
    InodeRead = 51, "Read inode", "defers the access time of inode", Inode, "", Time;
    /// A neighbour in the same table block is looked for in the hash.
    NeighbourLookup = 52, "Look up", "looks for the neighbour", Inode, "inode being written", Neighbour;
    /// A neighbour's deferred times were written along.
    NeighbourWritten = 53, "Write along", "writes along the times of inode", Inode, "inode being written", Neighbour;
    /// A neighbour was not written along; the argument is a [`SkipReason`].
    NeighbourSkipped = 54, "Skip", "leaves alone inode", Inode, "reason", Sleep;
    /// The rest of the neighbours are left alone because the lock is taken.
    NeighboursAbandoned = 55, "Break off", "leaves the other neighbours of inode", Inode, "neighbours not looked for", Wait;
    /// The rest of a group's inode table has been zeroed.
    GroupZeroed = 60, "Zero table", "has zeroed the inode table of group", Group, "blocks", Dirty;
}

/// Why a neighbour was not written along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SkipReason {
    /// It is not in the inode cache.
    NotCached = 0,
    /// It is being created or freed.
    NewOrFreeing = 1,
    /// It has real changes that will be written anyway.
    Dirty = 2,
    /// It has no deferred times.
    NothingDeferred = 3,
    /// The lock that guards the look-up was taken.
    LockBusy = 4,
}

impl SkipReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::NotCached,
        Self::NewOrFreeing,
        Self::Dirty,
        Self::NothingDeferred,
        Self::LockBusy,
    ];

    /// The reason with this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u64 == number)
    }

    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotCached => "not in the inode cache",
            Self::NewOrFreeing => "being created or freed",
            Self::Dirty => "has changes of its own to write",
            Self::NothingDeferred => "has no deferred times",
            Self::LockBusy => "the lock was taken",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_one_kind_each_and_ascend() {
        assert!(
            Kind::ALL
                .windows(2)
                .all(|pair| (pair[0] as u16) < (pair[1] as u16))
        );
        for kind in Kind::ALL {
            assert!((*kind as usize) < KINDS);
            assert_eq!(Kind::from_number(*kind as u16), Some(*kind));
        }
    }
}
