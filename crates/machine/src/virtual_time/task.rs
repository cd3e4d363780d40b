//! The primitives in virtual time.

use std::{future::poll_fn, rc::Rc, sync::atomic::Ordering::SeqCst, task::Poll};

use trace::Kind;

use super::{
    executor::{State, Virtual},
    lines::Access,
};
use crate::{Arbitration, Class, CpuId, Draws, Nanoseconds, Preemption, Profile, Stream, Task, TaskId, Word};

/// A task of a virtual machine.
#[derive(Debug)]
pub struct VirtualTask {
    machine: Rc<Virtual>,
    id: TaskId,
    draws: Draws,
}

impl VirtualTask {
    pub(super) fn new(machine: Rc<Virtual>, id: TaskId) -> Self {
        let draws = Draws::new(machine.options.seed, id.0);
        Self { machine, id, draws }
    }

    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.machine.state.borrow_mut())
    }

    /// Gives way once; `arm` says to what it is to come back.
    async fn suspend(&self, arm: impl Fn(&mut State)) {
        let mut armed = false;
        poll_fn(|_| {
            if armed {
                return Poll::Ready(());
            }
            armed = true;
            arm(&mut self.machine.state.borrow_mut());
            Poll::Pending
        })
        .await;
    }

    /// Keeps the CPU until this time, unless the preemption model takes it away.
    async fn until(&self, when_ns: u64) {
        if self.with(|state| state.scheduler.due_to_yield(self.id)) {
            let left_ns = when_ns - self.machine.now_ns();
            self.suspend(|state| state.put_aside(self.id)).await;
            // What was left to do is done after the return.
            let when_ns = self.machine.now_ns() + left_ns;
            self.suspend(|state| state.arm(when_ns, self.id)).await;
        } else if !self.with(|state| state.advance(when_ns)) {
            self.suspend(|state| state.arm(when_ns, self.id)).await;
        }
    }

    fn report(&self, word: &Word, access: Access) {
        if access.travelled_ns > 0 {
            self.emit(Kind::LineTransfer, word.line.0, access.travelled_ns);
        }
    }

    async fn complete(&self, word: &Word, access: Access) {
        self.report(word, access);
        self.until(access.done_ns).await;
    }

    /// Waits for the line, to write it.
    async fn own(&self, word: &Word) {
        let access = self.with(|state| {
            let core = state.scheduler.core_of(self.id);
            state.lines.write(word.line, core, state.now_ns)
        });
        self.complete(word, access).await;
    }

    /// Tells whoever watches the line, and pays for those whom that wakes.
    async fn announce(&self, word: &Word) {
        let woken = self.with(|state| {
            let cpu = state.scheduler.cpu_of(self.id);
            state.changed(word.line, cpu)
        });
        if woken > 0 {
            let call_ns = self.machine.options.profile.scheduler.wake_call_ns;
            self.until(self.machine.now_ns() + woken * call_ns).await;
        }
    }

    /// Reads the word for a task that spins on it.
    async fn look(&self, word: &Word) -> u32 {
        if self.profile().lines.arbitration == Arbitration::InOrder {
            return self.load(word).await;
        }
        loop {
            let access = self.read(word);
            self.suspend(|state| {
                state.arm(access.done_ns, self.id);
                state.watch_too(word.line, self.id);
            })
            .await;
            if self.machine.now_ns() >= access.done_ns {
                self.report(word, access);
                return word.value.load(SeqCst);
            }
            // A write went first, and this read begins anew.
        }
    }

    fn read(&self, word: &Word) -> Access {
        self.with(|state| {
            let core = state.scheduler.core_of(self.id);
            state.lines.read(word.line, core, state.now_ns)
        })
    }

    async fn yield_if_due(&self) {
        if self.with(|state| state.scheduler.yields_at_point(self.id)) {
            self.suspend(|state| state.put_aside(self.id)).await;
        }
    }
}

impl Task for VirtualTask {
    fn id(&self) -> TaskId {
        self.id
    }

    fn cpu(&self) -> CpuId {
        self.with(|state| state.scheduler.cpu_of(self.id))
    }

    fn profile(&self) -> &Profile {
        &self.machine.options.profile
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds(self.machine.now_ns())
    }

    fn stamp(&self) -> Nanoseconds {
        self.now()
    }

    fn random(&self, stream: Stream) -> u64 {
        self.draws.next(stream)
    }

    fn emit(&self, kind: Kind, object: u32, argument: u64) {
        self.with(|state| {
            let cpu = state.scheduler.cpu_of(self.id);
            state.emit(cpu, kind, object, argument);
        });
    }

    fn stopping(&self) -> bool {
        self.with(|state| state.stopping)
    }

    fn is_running(&self, task: TaskId) -> bool {
        self.with(|state| state.scheduler.is_running(task))
    }

    fn set_class(&self, class: Class) {
        self.with(|state| state.scheduler.set_class(self.id, class));
    }

    fn preempt_disable(&self) {
        self.with(|state| state.scheduler.preempt_disable(self.id));
    }

    fn preempt_enable(&self) {
        self.with(|state| state.scheduler.preempt_enable(self.id));
    }

    fn need_resched(&self) -> bool {
        self.with(|state| state.scheduler.need_resched(self.id))
    }

    fn interrupts_off(&self) {
        self.with(|state| state.scheduler.interrupts_off(self.id));
    }

    fn interrupts_on(&self) {
        self.with(|state| {
            for wait in state.scheduler.interrupts_on(self.id) {
                state.push(state.now_ns, super::executor::What::Timer(wait));
            }
        });
    }

    async fn cond_resched(&self) {
        self.yield_if_due().await;
    }

    async fn might_sleep(&self) {
        if self.machine.options.profile.scheduler.preemption != Preemption::None {
            self.yield_if_due().await;
        }
    }

    async fn work_for(&self, time: Nanoseconds) {
        self.until(self.machine.now_ns() + time.0).await;
    }

    async fn load(&self, word: &Word) -> u32 {
        self.complete(word, self.read(word)).await;
        word.value.load(SeqCst)
    }

    async fn store(&self, word: &Word, value: u32) {
        self.own(word).await;
        word.value.store(value, SeqCst);
        self.announce(word).await;
    }

    async fn update(&self, word: &Word, change: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        self.own(word).await;
        let result = word.change(change);
        if result.is_ok() {
            self.announce(word).await;
        }
        result
    }

    async fn spin_while(&self, word: &Word, seen: u32) -> u32 {
        loop {
            let value = self.look(word).await;
            if value != seen {
                return value;
            }
            self.suspend(|state| state.watch(word.line, self.id)).await;
        }
    }

    async fn spin_while_running(&self, word: &Word, seen: u32, owner: TaskId) -> u32 {
        loop {
            let value = self.load(word).await;
            if value != seen || !self.is_running(owner) || self.need_resched() {
                return value;
            }
            self.suspend(|state| state.watch_owner(word.line, self.id, owner))
                .await;
        }
    }

    async fn sleep_while(&self, word: &Word, seen: u32, deadline: Option<Nanoseconds>) -> u32 {
        let late = |now: Nanoseconds| deadline.is_some_and(|deadline| now >= deadline);
        let value = self.load(word).await;
        if value != seen || late(self.now()) {
            return value;
        }
        self.with(|state| state.fall_asleep(self.id));
        loop {
            self.suspend(|state| {
                state.watch(word.line, self.id);
                if let Some(deadline) = deadline {
                    state.arm_timer(deadline.0, self.id);
                }
            })
            .await;
            if word.peek() != seen || late(self.now()) {
                break;
            }
        }
        self.suspend(|state| state.wake(self.id)).await;
        self.load(word).await
    }

    async fn sleep_until(&self, deadline: Nanoseconds) {
        if self.now() >= deadline {
            return;
        }
        self.with(|state| state.fall_asleep(self.id));
        self.suspend(|state| state.arm_timer(deadline.0, self.id)).await;
        self.suspend(|state| state.wake(self.id)).await;
    }
}
