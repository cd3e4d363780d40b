//! The interface that every algorithm is written over.

use std::{
    cell::RefCell,
    ops::{Add, Sub},
};

use rand_pcg::{Pcg64, rand_core::Rng};
use trace::Kind;

use crate::{Cost, Profile, Word};

/// A simulated CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuId(pub u16);

impl CpuId {
    /// Its number, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A task: what runs on a CPU. Worker threads have one each, and it never moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub u16);

/// Which tasks go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Takes turns with others of its class.
    Normal,
    /// Goes before every normal task, and keeps the CPU until it sleeps (`SCHED_FIFO`).
    RealTime,
}

/// A time or a span of time, in the clock of the back end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanoseconds(pub u64);

impl Add for Nanoseconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanoseconds {
    type Output = Self;
    /// Zero where `other` is later: clocks of different workers may disagree by some microseconds.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// What a random number is for. Each purpose has its own sequence, so that two designs get the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// How large something is to become.
    Size,
    /// Which of several things is taken.
    Choice,
}

impl Stream {
    const COUNT: usize = 2;
}

/// The random sequences of one task, one per purpose, decided by seed and task alone.
#[derive(Debug)]
pub struct Draws(RefCell<[Pcg64; Stream::COUNT]>);

impl Draws {
    /// The sequences of task number `task` in the run with this seed.
    pub fn new(seed: u64, task: u16) -> Self {
        let stream = |purpose: u128| {
            Pcg64::new(
                u128::from(seed),
                u128::from(task) * Stream::COUNT as u128 + purpose,
            )
        };
        Self(RefCell::new([stream(0), stream(1)]))
    }

    /// The next number of this purpose, uniform over all of u64.
    pub fn next(&self, stream: Stream) -> u64 {
        self.0.borrow_mut()[stream as usize].next_u64()
    }
}

/// What a back end gives to the code that runs on it.
///
/// An `.await` is a point at which another CPU may run, and the only one at which a run can be stopped: the future is
/// then dropped, and its guards with it.
pub trait Task {
    /// Which task this is.
    fn id(&self) -> TaskId;
    /// Where it runs now; an `.await` may change it.
    fn cpu(&self) -> CpuId;
    /// The machine that it runs on.
    fn profile(&self) -> &Profile;
    /// The time since the run began.
    fn now(&self) -> Nanoseconds;
    /// The time as events carry it: [`Task::now`], or zero where no events are kept (a clock costs more than a lock).
    fn stamp(&self) -> Nanoseconds;
    /// The next random number for this purpose.
    fn random(&self, stream: Stream) -> u64;
    /// Reports that something happened. In slow motion this holds the CPU up while its ring buffer is full.
    fn emit(&self, kind: Kind, object: u32, argument: u64);
    /// Whether the run is ending, so that no new operation is to be begun.
    fn stopping(&self) -> bool;
    /// Whether another task has a CPU right now (the kernel's `on_cpu`).
    fn is_running(&self, task: TaskId) -> bool;
    /// From now on in this class.
    fn set_class(&self, class: Class);
    /// From now on this task is not put aside; calls nest.
    fn preempt_disable(&self);
    /// Ends what [`Task::preempt_disable`] began.
    fn preempt_enable(&self);
    /// Whether another task ought to have this CPU.
    fn need_resched(&self) -> bool;
    /// From now on no timer fires on this CPU; calls nest.
    fn interrupts_off(&self);
    /// Ends what [`Task::interrupts_off`] began; timers that were due fire now.
    fn interrupts_on(&self);
    /// Lets another task have the CPU if one ought to: a call that code makes, or the way back to user space.
    fn cond_resched(&self) -> impl Future<Output = ()>;
    /// The same under all preemption models but `None`: a place at which code might sleep.
    fn might_sleep(&self) -> impl Future<Output = ()>;
    /// Holds the CPU for this time.
    fn work_for(&self, time: Nanoseconds) -> impl Future<Output = ()>;
    /// Holds the CPU for as long as the cost table says.
    fn work(&self, cost: Cost) -> impl Future<Output = ()> {
        self.work_for(Nanoseconds(self.profile().costs.of(cost)))
    }
    /// Reads a word; its line is then shared.
    fn load(&self, word: &Word) -> impl Future<Output = u32>;
    /// Writes a word; its line is then this CPU's alone.
    fn store(&self, word: &Word, value: u32) -> impl Future<Output = ()>;
    /// One atomic read-modify-write: `change` gives the new value, or `None` to leave it.
    ///
    /// Returns `Ok(value before)` when it was changed, `Err(value seen)` when not.
    fn update(
        &self,
        word: &Word,
        change: impl Fn(u32) -> Option<u32>,
    ) -> impl Future<Output = Result<u32, u32>>;
    /// Waits on the CPU until the word is not `seen`; returns what it is then.
    fn spin_while(&self, word: &Word, seen: u32) -> impl Future<Output = u32>;
    /// The same, but also ends when `owner` is no longer running, or this CPU is wanted by another task.
    fn spin_while_running(&self, word: &Word, seen: u32, owner: TaskId) -> impl Future<Output = u32>;
    /// Gives the CPU up until the word is not `seen`, or until `deadline`; returns what it is then.
    fn sleep_while(&self, word: &Word, seen: u32, deadline: Option<Nanoseconds>)
    -> impl Future<Output = u32>;
    /// Gives the CPU up until this moment (a high-resolution timer).
    fn sleep_until(&self, deadline: Nanoseconds) -> impl Future<Output = ()>;
}
