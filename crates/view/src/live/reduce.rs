//! The fold from events to what the stage shows.

use std::collections::{BTreeMap, VecDeque};

use trace::{Event, Kind, Numbered, SkipReason};

use super::{CpuPhase, Stage};

/// Events kept for the list of what happened last.
const RECENT_MAX: usize = 64;

/// What the stage shows after some events.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveView {
    /// The number of the next event that is wanted.
    pub next: u64,
    /// The time of the newest event, in nanoseconds since the run began.
    pub time_ns: u64,
    /// Every CPU.
    pub cpus: Vec<CpuView>,
    /// The locks that anybody has touched, by number.
    pub locks: BTreeMap<u32, LockView>,
    /// The inode slots that anything has happened to, by inode number.
    pub slots: BTreeMap<u32, SlotView>,
    /// The newest events, oldest first.
    pub recent: VecDeque<Numbered>,
}

/// A CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuView {
    /// What it does.
    pub phase: CpuPhase,
    /// The lock that it waits for.
    pub waits_for: Option<u32>,
    /// The inode that it writes or truncates.
    pub inode: Option<u32>,
    /// The neighbour that it looks for.
    pub neighbour: Option<u32>,
    /// Locks that it holds, in the order in which it got them.
    pub holds: Vec<u32>,
    /// When it came into this phase.
    pub since_ns: u64,
    /// Operations that it has completed.
    pub operations: u64,
}

/// A lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockView {
    /// Who holds it.
    pub holder: Option<u16>,
    /// Who spins or sleeps for it, longest first.
    pub waiting: Vec<u16>,
    /// Times it was taken.
    pub acquired: u64,
    /// Times it was taken only after waiting.
    pub contended: u64,
    /// Trylocks that failed.
    pub failed: u64,
}

/// The last thing that happened to an inode slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Its raw inode was written by its own writer.
    Written,
    /// A neighbour's writer looks for it.
    LookedUp,
    /// Its times were written along.
    WrittenAlong,
    /// It was left alone.
    Skipped(SkipReason),
    /// It was read, which deferred its access time.
    Read,
}

/// An inode slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The last thing that happened.
    pub mark: Mark,
    /// Whether its times are deferred now.
    pub deferred: bool,
    /// Times it was written by its own writer.
    pub written: u32,
    /// Times it was written along.
    pub along: u32,
}

impl LiveView {
    /// The stage before the first event.
    pub fn new(stage: &Stage) -> Self {
        let cpu = CpuView {
            phase: CpuPhase::Starting,
            waits_for: None,
            inode: None,
            neighbour: None,
            holds: Vec::new(),
            since_ns: 0,
            operations: 0,
        };
        Self {
            next: 0,
            time_ns: 0,
            cpus: vec![cpu; usize::from(stage.scenario.cpus)],
            locks: BTreeMap::new(),
            slots: BTreeMap::new(),
            recent: VecDeque::new(),
        }
    }

    /// Takes the next event in. Events of CPUs that the stage does not have are passed over.
    pub fn apply(&mut self, record: Numbered) {
        let Numbered { number, event } = record;
        self.next = number + 1;
        self.time_ns = self.time_ns.max(event.time_ns);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(record);
        if usize::from(event.cpu) >= self.cpus.len() {
            return;
        }
        self.apply_to_lock(event);
        self.apply_to_cpu(event);
        self.apply_to_slot(event);
    }

    fn apply_to_lock(&mut self, event: Event) {
        let waits = matches!(
            event.kind,
            Kind::LockContended | Kind::LockAcquired | Kind::LockReleased | Kind::TryFailed
        );
        if !waits {
            return;
        }
        let lock = self.locks.entry(event.object).or_default();
        match event.kind {
            Kind::LockContended => lock.waiting.push(event.cpu),
            Kind::LockAcquired => {
                let before = lock.waiting.len();
                lock.waiting.retain(|cpu| *cpu != event.cpu);
                lock.contended += u64::from(lock.waiting.len() < before);
                lock.acquired += 1;
                lock.holder = Some(event.cpu);
            }
            Kind::LockReleased if lock.holder == Some(event.cpu) => lock.holder = None,
            Kind::TryFailed => lock.failed += 1,
            _ => {}
        }
    }

    fn apply_to_cpu(&mut self, event: Event) {
        let cpu = &mut self.cpus[usize::from(event.cpu)];
        let phase = match event.kind {
            Kind::LockContended => CpuPhase::Spinning,
            Kind::Sleep => CpuPhase::Sleeping,
            Kind::Exit => CpuPhase::Finished,
            _ => CpuPhase::Working,
        };
        cpu.waits_for = (phase == CpuPhase::Spinning).then_some(event.object);
        if phase != cpu.phase {
            cpu.phase = phase;
            cpu.since_ns = event.time_ns;
        }
        match event.kind {
            Kind::LockAcquired => cpu.holds.push(event.object),
            Kind::LockReleased => cpu.holds.retain(|lock| *lock != event.object),
            Kind::OperationBegin => {
                cpu.inode = Some(event.object);
                cpu.neighbour = None;
            }
            Kind::OperationEnd => {
                cpu.inode = None;
                cpu.neighbour = None;
                cpu.operations += 1;
            }
            Kind::InodeWritten => cpu.neighbour = None,
            Kind::NeighbourLookup => cpu.neighbour = Some(event.object),
            Kind::NeighbourWritten | Kind::NeighbourSkipped | Kind::NeighboursAbandoned => {
                cpu.neighbour = None;
            }
            _ => {}
        }
    }

    fn apply_to_slot(&mut self, event: Event) {
        let mark = match event.kind {
            Kind::InodeWritten => Mark::Written,
            Kind::InodeRead => Mark::Read,
            Kind::NeighbourLookup => Mark::LookedUp,
            Kind::NeighbourWritten => Mark::WrittenAlong,
            Kind::NeighbourSkipped => match SkipReason::from_number(event.argument) {
                Some(reason) => Mark::Skipped(reason),
                None => return,
            },
            _ => return,
        };
        let slot = self.slots.entry(event.object).or_insert(SlotView {
            mark,
            deferred: false,
            written: 0,
            along: 0,
        });
        slot.mark = mark;
        match mark {
            Mark::Written => {
                slot.deferred = false;
                slot.written += 1;
            }
            Mark::WrittenAlong => {
                slot.deferred = false;
                slot.along += 1;
            }
            Mark::Read => slot.deferred = true,
            Mark::LookedUp | Mark::Skipped(_) => {}
        }
    }
}
