//! What the CPUs of a run share, and what its owner can ask and tell.

use std::{
    pin::pin,
    sync::{
        Condvar, Mutex,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use trace::Numbered;

use super::{
    control::{Command, Control, Dilation},
    counters::{Counters, CpuReport},
    ring::{Merge, Ring},
};
use crate::{CpuId, Profile};

/// Waits are cut into pieces of this length, so that Pause, Stop and a new speed are felt.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(100);
/// How long operations under way may take to finish after Stop.
const DRAIN_MAX_NS: u64 = 1_000_000_000;

/// How fast a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Stretched, with every event kept.
    SlowMotion(Dilation),
    /// As fast as the host can, with counters only.
    FlatOut,
}

/// What a run is made of.
#[derive(Clone, Copy)]
pub struct Options {
    /// Decides every random draw.
    pub seed: u64,
    /// CPUs, 1 to 64.
    pub cpus: u16,
    /// Locks of the model, for the counters.
    pub locks: usize,
    /// How fast.
    pub pace: Pace,
    /// Records that each CPU's ring holds, a power of two; only in slow motion.
    pub ring_records: usize,
    /// Real time in nanoseconds, comparable between the threads. Wasm has none of its own.
    pub clock: fn() -> u64,
}

/// What a CPU does right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its thread is not up yet.
    Starting,
    /// It works.
    Working,
    /// It waits on its word, as a spinning CPU would.
    Spinning,
    /// It sleeps.
    Sleeping,
    /// It has finished, or was stopped.
    Finished,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every task came to its end by itself.
    Finished,
    /// Stopped, with every operation complete.
    Drained,
    /// Stopped in the middle of operations.
    Dropped,
}

/// A CPU's place to wait.
#[derive(Debug, Default)]
pub(super) struct Parker {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Parker {
    /// Waits until [`Parker::unpark`], or for `time`.
    pub(super) fn park(&self, time: Duration) {
        let woken = self.woken.lock().expect("nobody panics while holding it");
        let mut woken = match *woken {
            true => woken,
            false => {
                self.bell
                    .wait_timeout(woken, time)
                    .expect("nobody panics while holding it")
                    .0
            }
        };
        *woken = false;
    }

    pub(super) fn unpark(&self) {
        *self.woken.lock().expect("nobody panics while holding it") = true;
        self.bell.notify_one();
    }
}

/// What one CPU has for itself, on lines of its own.
pub(super) struct Cpu {
    pub(super) parker: Parker,
    pub(super) counters: Counters,
    pub(super) phase: AtomicU32,
    /// May take one step although the run is paused.
    pub(super) step: AtomicBool,
    /// One bit for each CPU that spins because this one's task runs.
    pub(super) spinners: AtomicU64,
}

/// A run: shared by its CPUs and its owner.
pub struct Run {
    pub(super) options: Options,
    pub(super) profile: Profile,
    pub(super) control: Control,
    pub(super) cpus: Box<[Cpu]>,
    pub(super) rings: Box<[Ring]>,
    pub(super) numbers: AtomicU64,
    /// The command is not Go: flat out this is all that is looked at.
    pub(super) attention: AtomicBool,
    /// Tasks that came to their end, and tasks that were dropped.
    finished: AtomicU32,
    dropped: AtomicU32,
    merge: Mutex<Merge>,
}

impl Run {
    /// A run that has not begun; its clock starts now.
    pub fn new(options: Options, profile: Profile) -> Self {
        assert!(
            (1..=64).contains(&options.cpus),
            "a word has one waiter bit for each of 64 CPUs"
        );
        let (dilation, ring_records) = match options.pace {
            Pace::SlowMotion(dilation) => (dilation, options.ring_records),
            Pace::FlatOut => (Dilation(1), 0),
        };
        let rings = match ring_records {
            0 => Box::default(),
            records => (0..options.cpus).map(|_| Ring::new(records)).collect(),
        };
        let cpu = |_| Cpu {
            parker: Parker::default(),
            counters: Counters::new(options.locks),
            phase: AtomicU32::new(Phase::Starting as u32),
            step: AtomicBool::new(false),
            spinners: AtomicU64::new(0),
        };
        Self {
            control: Control::new(dilation, (options.clock)()),
            cpus: (0..options.cpus).map(cpu).collect(),
            rings,
            numbers: AtomicU64::new(0),
            attention: AtomicBool::new(false),
            finished: AtomicU32::new(0),
            dropped: AtomicU32::new(0),
            merge: Mutex::default(),
            options,
            profile,
        }
    }

    /// Runs one CPU's task on the calling thread to its end. `None`: the run was stopped in the middle of it.
    pub fn drive<R>(&self, cpu: CpuId, task: impl Future<Output = R>) -> Option<R> {
        let polled = pin!(task).poll(&mut Context::from_waker(Waker::noop()));
        self.cpus[cpu.index()].phase.store(Phase::Finished as u32, SeqCst);
        match polled {
            Poll::Ready(result) => {
                self.finished.fetch_add(1, SeqCst);
                Some(result)
            }
            Poll::Pending => {
                self.dropped.fetch_add(1, SeqCst);
                None
            }
        }
    }

    /// Holds every CPU at its next step.
    pub fn pause(&self) {
        self.command(Command::Pause);
    }

    /// Lets them go on.
    pub fn resume(&self) {
        self.command(Command::Go);
    }

    /// Lets one CPU of a paused run go on to its next event.
    pub fn step(&self, cpu: CpuId) {
        if let Some(cpu) = self.cpus.get(cpu.index()) {
            cpu.step.store(true, SeqCst);
            cpu.parker.unpark();
        }
    }

    /// Ends the run: no new operation, nothing stretched any more, and at most a second for those under way.
    pub fn stop(&self) {
        self.command(Command::Drain {
            until_ns: self.real_now() + DRAIN_MAX_NS,
        });
    }

    /// Changes the speed of a run in slow motion.
    pub fn set_dilation(&self, dilation: Dilation) {
        if matches!(self.options.pace, Pace::SlowMotion(_)) {
            self.control.set_dilation(dilation, self.real_now());
        }
    }

    fn command(&self, command: Command) {
        self.control.set_command(command, self.real_now());
        self.attention
            .store(self.control.command() != Command::Go, SeqCst);
        self.cpus.iter().for_each(|cpu| cpu.parker.unpark());
    }

    /// Whether Pause holds the run.
    pub fn paused(&self) -> bool {
        self.control.command() == Command::Pause
    }

    /// Modelled nanoseconds since the run began; flat out these are real ones. Pauses do not count.
    pub fn elapsed_ns(&self) -> u64 {
        self.control.modelled(self.real_now())
    }

    /// How the run ended; `None` while it goes on.
    pub fn ending(&self) -> Option<Ending> {
        let (finished, dropped) = (self.finished.load(SeqCst), self.dropped.load(SeqCst));
        if finished + dropped < u32::from(self.options.cpus) {
            return None;
        }
        Some(match self.control.command() {
            _ if dropped > 0 => Ending::Dropped,
            Command::Drain { .. } => Ending::Drained,
            _ => Ending::Finished,
        })
    }

    /// At most `max` new events, in the order of the run.
    pub fn drain(&self, max: usize) -> Vec<Numbered> {
        let ended = self.ending().is_some();
        let mut merge = self.merge.lock().expect("nobody panics while holding it");
        let events = merge.drain(&self.rings, max);
        if ended && events.is_empty() {
            merge.close_gap();
            return merge.drain(&self.rings, max);
        }
        events
    }

    /// What a CPU does right now.
    pub fn phase(&self, cpu: CpuId) -> Phase {
        let phases = [
            Phase::Starting,
            Phase::Working,
            Phase::Spinning,
            Phase::Sleeping,
            Phase::Finished,
        ];
        let number = self.cpus[cpu.index()].phase.load(Relaxed);
        phases
            .into_iter()
            .find(|phase| *phase as u32 == number)
            .unwrap_or(Phase::Finished)
    }

    /// What a CPU has done so far.
    pub fn report(&self, cpu: CpuId) -> CpuReport {
        self.cpus[cpu.index()].counters.report()
    }

    pub(super) fn real_now(&self) -> u64 {
        (self.options.clock)()
    }

    /// Wakes the tasks whose bits are set.
    pub(super) fn wake(&self, mut waiters: u64) {
        while waiters != 0 {
            let cpu = waiters.trailing_zeros() as usize;
            waiters &= waiters - 1;
            self.cpus[cpu].parker.unpark();
        }
    }
}
