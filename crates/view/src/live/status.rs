//! Totals and states right now, as the back end counts them; there also when no events are recorded.

use serde::{Deserialize, Serialize};
use trace::{Kind, statistics::Statistics};

/// A run right now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Nanoseconds since the run began: modelled in virtual time, real otherwise (pauses left out).
    pub elapsed_ns: u64,
    /// Whether the run is held by Pause.
    pub paused: bool,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// Events that were dropped; always 0 but for a trace of a flat-out run.
    pub dropped: u64,
    /// The fingerprint of the events so far; only of virtual time, where the same seed gives the same.
    pub fingerprint: Option<u32>,
    /// One per CPU.
    pub cpus: Vec<CpuStatus>,
    /// One per lock class, in the order of [`Stage::lock_classes`](super::Stage::lock_classes).
    pub locks: Vec<LockStatus>,
    /// Sums over all CPUs.
    pub totals: Totals,
    /// What only events tell; none flat out.
    pub figures: Option<Figures>,
}

/// How operations went, as their events tell it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How long an operation took on average, ns.
    pub mean_ns: f64,
    /// How long at most half of them took, ns; at most 1/32 too high.
    pub half_ns: u64,
    /// How long at most 99 % of them took, ns; at most 1/32 too high.
    pub most_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// Jain's index of the jobs' operations: 1 where all did the same.
    pub fairness: f64,
    /// CPUs' time that went into spinning, percent of what was not idle.
    pub spinning_percent: f64,
}

impl Figures {
    /// The figures of a run so far; `None` before an operation is complete.
    pub fn of(statistics: &Statistics) -> Option<Self> {
        let latency = &statistics.latency;
        let (working_ns, spinning_ns, _) = statistics.cpu_use();
        Some(Self {
            mean_ns: latency.mean()?,
            half_ns: latency.percentile(50.0),
            most_ns: latency.percentile(99.0),
            longest_ns: latency.greatest(),
            fairness: statistics.fairness()?,
            spinning_percent: spinning_ns as f64 / (working_ns + spinning_ns).max(1) as f64 * 100.0,
        })
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Every job did its operations.
    Finished,
    /// Stop: the operations under way were finished.
    Drained,
    /// Stop: they could not be finished within a second; the image is as after a crash.
    Dropped,
}

/// One CPU right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStatus {
    /// What it does.
    pub phase: CpuPhase,
    /// Operations that it has completed.
    pub operations: u64,
    /// Nanoseconds that it has waited for locks.
    pub waited_ns: u64,
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CpuPhase {
    /// Its worker is not up yet.
    Starting,
    /// It works.
    Working,
    /// It spins for a lock.
    Spinning,
    /// It sleeps.
    Sleeping,
    /// Held by Pause.
    Paused,
    /// It is done.
    Finished,
}

/// The totals of a lock class over all its locks and all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockStatus {
    /// Times it was taken.
    pub acquired: u64,
    /// Times it was taken only after waiting.
    pub contended: u64,
    /// Trylocks that failed.
    pub failed: u64,
    /// Nanoseconds waited for it.
    pub waited_ns: u64,
    /// Nanoseconds held.
    pub held_ns: u64,
}

/// Sums over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Operations of the workload completed.
    pub operations: u64,
    /// Raw inodes written.
    pub inode_writes: u64,
    /// Neighbours looked for.
    pub lookups: u64,
    /// Neighbours written along.
    pub written_along: u64,
    /// Neighbours left alone.
    pub skipped: u64,
    /// Loops broken off.
    pub abandoned: u64,
    /// Reads by the reading job.
    pub reads: u64,
}

impl Totals {
    /// The sums, given how often each kind of thing happened on all CPUs.
    pub fn of(count: impl Fn(Kind) -> u64) -> Self {
        Self {
            operations: count(Kind::OperationEnd),
            inode_writes: count(Kind::InodeWritten),
            lookups: count(Kind::NeighbourLookup),
            written_along: count(Kind::NeighbourWritten),
            skipped: count(Kind::NeighbourSkipped),
            abandoned: count(Kind::NeighboursAbandoned),
            reads: count(Kind::InodeRead),
        }
    }

    /// Acquisitions of the hash lock per inode write; `None` before the first write.
    pub fn acquisitions_per_write(&self, hash_lock: &LockStatus) -> Option<f64> {
        (self.inode_writes > 0).then(|| hash_lock.acquired as f64 / self.inode_writes as f64)
    }
}
