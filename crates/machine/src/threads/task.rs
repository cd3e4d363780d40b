//! The primitives over real atomics.

use std::{
    cell::Cell,
    future::pending,
    hint::spin_loop,
    sync::atomic::Ordering::{Relaxed, SeqCst},
    time::Duration,
};

use trace::{Event, Kind, Numbered};

use super::{
    control::Command,
    run::{Cpu, Pace, Phase, Run, WAIT_MAX},
};
use crate::{Class, CpuId, Draws, LineId, Nanoseconds, Profile, Stream, Task, TaskId, Word};

/// Looks at a word before parking, flat out: some microseconds.
const SPINS: u32 = 2000;
/// Real time that a task in slow motion may owe before it sleeps.
const OWED_MAX_NS: u64 = 1_000_000;

/// The task of one CPU, on its own thread.
pub struct ThreadTask<'r> {
    run: &'r Run,
    cpu: CpuId,
    draws: Draws,
    /// Modelled time that was used but not yet waited for.
    owed_ns: Cell<u64>,
}

impl<'r> ThreadTask<'r> {
    /// The task of this CPU. Its worker is up now.
    pub fn new(run: &'r Run, cpu: CpuId) -> Self {
        let task = Self {
            run,
            cpu,
            draws: Draws::new(run.options.seed, cpu.0),
            owed_ns: Cell::new(0),
        };
        task.set_phase(Phase::Working);
        task.emit(Kind::Run, 0, u64::from(cpu.0));
        task
    }

    fn own(&self) -> &'r Cpu {
        &self.run.cpus[self.cpu.index()]
    }

    fn set_phase(&self, phase: Phase) {
        self.own().phase.store(phase as u32, SeqCst);
        if phase == Phase::Sleeping {
            self.run.wake(self.own().spinners.swap(0, SeqCst));
        }
    }

    fn slow(&self) -> bool {
        matches!(self.run.options.pace, Pace::SlowMotion(_))
    }

    /// Waits while the run is paused; never comes back once it is stopped.
    async fn checkpoint(&self) {
        if self.run.attention.load(Relaxed) && self.held_until_gone() {
            pending::<()>().await;
        }
    }

    /// Waits while paused; `true` once the run is to be dropped.
    fn held_until_gone(&self) -> bool {
        loop {
            match self.run.control.command() {
                Command::Go => return false,
                Command::Pause if self.own().step.load(SeqCst) => return false,
                Command::Pause => self.own().parker.park(WAIT_MAX),
                Command::Drain { until_ns } => return self.run.real_now() > until_ns,
            }
        }
    }

    /// Charges modelled time, and waits once a millisecond of real time is owed. Does nothing flat out.
    async fn charge(&self, cost_ns: u64) {
        if self.slow() {
            self.owed_ns.set(self.owed_ns.get() + cost_ns);
            self.pay().await;
        }
        self.checkpoint().await;
    }

    /// What a read costs in slow motion: a transfer, unless this CPU has a copy already.
    fn read_ns(&self, word: &Word) -> u64 {
        if !self.slow() {
            return 0;
        }
        let before = word.sharers.fetch_or(self.bit(), SeqCst);
        if before & self.bit() != 0 {
            self.run.profile.lines.hit_ns
        } else {
            self.transfer_ns(before)
        }
    }

    /// What a write costs in slow motion: a transfer, unless this CPU has the word alone.
    fn write_ns(&self, word: &Word) -> u64 {
        if !self.slow() {
            return 0;
        }
        let before = word.sharers.swap(self.bit(), SeqCst);
        if before & !self.bit() == 0 {
            self.run.profile.lines.atomic_ns
        } else {
            self.transfer_ns(before & !self.bit())
        }
    }

    fn bit(&self) -> u64 {
        1 << self.cpu.0
    }

    /// A transfer from the first of these CPUs.
    fn transfer_ns(&self, sharers: u64) -> u64 {
        let profile = &self.run.profile;
        let from = CpuId(sharers.trailing_zeros().min(63) as u16);
        let distance = profile.topology.distance(from, self.cpu);
        profile.lines.travel(distance).transfer_ns
    }

    async fn pay(&self) {
        loop {
            if matches!(self.run.control.command(), Command::Drain { .. }) {
                self.owed_ns.set(0);
            }
            let dilation = self.run.control.dilation();
            let owed_real_ns = self.owed_ns.get().saturating_mul(dilation);
            if owed_real_ns < OWED_MAX_NS {
                return;
            }
            let begun_ns = self.run.real_now();
            self.own()
                .parker
                .park(Duration::from_nanos(owed_real_ns).min(WAIT_MAX));
            let paid_ns = self.run.real_now().saturating_sub(begun_ns) / dilation;
            self.owed_ns.set(self.owed_ns.get().saturating_sub(paid_ns));
            self.checkpoint().await;
        }
    }

    fn wake_waiters(&self, word: &Word) {
        let waiters = word.waiters.load(SeqCst);
        if waiters != 0 {
            self.run.wake(word.waiters.swap(0, SeqCst));
        }
    }

    /// Waits in pieces until the word is not `seen`, or `patience` has no more time for it.
    async fn wait_while(
        &self,
        word: &Word,
        seen: u32,
        phase: Phase,
        patience: impl Fn() -> Option<Duration>,
    ) -> u32 {
        let spins = if self.slow() || phase == Phase::Sleeping {
            0
        } else {
            SPINS
        };
        for _ in 0..spins {
            let value = word.value.load(SeqCst);
            if value != seen {
                return value;
            }
            spin_loop();
        }
        self.set_phase(phase);
        let value = loop {
            // First say so, then look again: so no wake-up is lost.
            word.waiters.fetch_or(1 << self.cpu.0, SeqCst);
            let value = word.value.load(SeqCst);
            let Some(patience) = patience().filter(|_| value == seen) else {
                break value;
            };
            self.checkpoint().await;
            self.own().parker.park(patience);
        };
        self.set_phase(Phase::Working);
        // Time went by while it waited: nothing is owed for it but for seeing the new value.
        self.owed_ns.set(0);
        self.charge(self.read_ns(word)).await;
        value
    }
}

impl Task for ThreadTask<'_> {
    fn id(&self) -> TaskId {
        TaskId(self.cpu.0)
    }

    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn profile(&self) -> &Profile {
        &self.run.profile
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds(self.run.elapsed_ns())
    }

    fn stamp(&self) -> Nanoseconds {
        if self.run.rings.is_empty() {
            Nanoseconds(0)
        } else {
            self.now()
        }
    }

    fn random(&self, stream: Stream) -> u64 {
        self.draws.next(stream)
    }

    fn emit(&self, kind: Kind, object: u32, argument: u64) {
        self.own().counters.count(kind, object, argument);
        let Some(ring) = self.run.rings.get(self.cpu.index()) else {
            return;
        };
        if self.run.attention.load(Relaxed) {
            // Paused between two events that lie between two awaits. If the run is dropped, the next await says so.
            self.held_until_gone();
        }
        let event = Event {
            time_ns: self.now().0,
            cpu: self.cpu.0,
            kind,
            object,
            argument,
        };
        let number = self.run.numbers.fetch_add(1, SeqCst);
        while !ring.push(Numbered { number, event }) {
            // The reader is behind. A run that is being dropped has no use for the event.
            if self.run.attention.load(Relaxed)
                && let Command::Drain { until_ns } = self.run.control.command()
                && self.run.real_now() > until_ns
            {
                break;
            }
            self.own().parker.park(Duration::from_millis(5));
        }
        self.own().step.store(false, SeqCst);
    }

    fn stopping(&self) -> bool {
        self.run.attention.load(Relaxed) && matches!(self.run.control.command(), Command::Drain { .. })
    }

    fn is_running(&self, task: TaskId) -> bool {
        !matches!(self.run.phase(CpuId(task.0)), Phase::Sleeping | Phase::Finished)
    }

    // Each task has a CPU of its own: nobody else wants it, whatever the class.
    fn set_class(&self, _: Class) {}

    fn preempt_disable(&self) {}

    fn preempt_enable(&self) {}

    fn need_resched(&self) -> bool {
        false
    }

    // A sleeping task is woken by the host.
    fn interrupts_off(&self) {}

    fn interrupts_on(&self) {}

    async fn cond_resched(&self) {
        self.checkpoint().await;
    }

    async fn might_sleep(&self) {
        self.checkpoint().await;
    }

    async fn work_for(&self, time: Nanoseconds) {
        self.charge(time.0).await;
    }

    async fn load(&self, word: &Word) -> u32 {
        self.charge(self.read_ns(word)).await;
        word.value.load(SeqCst)
    }

    async fn store(&self, word: &Word, value: u32) {
        self.charge(self.write_ns(word)).await;
        word.value.store(value, SeqCst);
        self.wake_waiters(word);
    }

    async fn update(&self, word: &Word, change: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        self.charge(self.write_ns(word)).await;
        let result = word.change(change);
        if result.is_ok() {
            self.wake_waiters(word);
        }
        result
    }

    async fn spin_while(&self, word: &Word, seen: u32) -> u32 {
        self.wait_while(word, seen, Phase::Spinning, || Some(WAIT_MAX))
            .await
    }

    async fn spin_while_running(&self, word: &Word, seen: u32, owner: TaskId) -> u32 {
        let while_running = || {
            if let Some(owner) = self.run.cpus.get(usize::from(owner.0)) {
                owner.spinners.fetch_or(self.bit(), SeqCst);
            }
            self.is_running(owner).then_some(WAIT_MAX)
        };
        self.wait_while(word, seen, Phase::Spinning, while_running).await
    }

    async fn sleep_while(&self, word: &Word, seen: u32, deadline: Option<Nanoseconds>) -> u32 {
        self.emit(Kind::Sleep, 0, u64::from(self.cpu.0));
        let left = || {
            let Some(deadline) = deadline else {
                return Some(WAIT_MAX);
            };
            let left_ns = (deadline - self.now())
                .0
                .saturating_mul(self.run.control.dilation());
            (left_ns > 0).then(|| Duration::from_nanos(left_ns).min(WAIT_MAX))
        };
        let value = self.wait_while(word, seen, Phase::Sleeping, left).await;
        self.emit(Kind::Wake, u32::from(self.cpu.0), u64::from(self.cpu.0));
        value
    }

    async fn sleep_until(&self, deadline: Nanoseconds) {
        let nobody_changes = Word::new(0, LineId(0));
        self.sleep_while(&nobody_changes, 0, Some(deadline)).await;
    }
}
