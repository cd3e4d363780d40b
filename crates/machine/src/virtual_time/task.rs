//! The primitives in virtual time.

use std::{future::poll_fn, rc::Rc, sync::atomic::Ordering::SeqCst, task::Poll};

use trace::Kind;

use super::executor::{State, Virtual};
use crate::{Cost, CpuId, Draws, Nanoseconds, Stream, Task, Word};

/// The task of one CPU of a virtual machine.
#[derive(Debug)]
pub struct VirtualTask {
    machine: Rc<Virtual>,
    cpu: CpuId,
    draws: Draws,
}

impl VirtualTask {
    pub(super) fn new(machine: Rc<Virtual>, cpu: CpuId) -> Self {
        let draws = Draws::new(machine.options.seed, cpu.0);
        Self { machine, cpu, draws }
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

    async fn until(&self, when_ns: u64) {
        self.suspend(|state| state.arm(when_ns, self.cpu.0)).await;
    }

    /// Waits for the line, to write it.
    async fn own(&self, word: &Word) {
        let access = {
            let state = &mut *self.machine.state.borrow_mut();
            state
                .lines
                .write(word.line, self.cpu, state.now_ns, &self.machine.options.costs)
        };
        self.report(word, access.travelled);
        self.until(access.done_ns).await;
    }

    fn report(&self, word: &Word, travelled: bool) {
        if travelled {
            self.emit(
                Kind::LineTransfer,
                word.line.0,
                self.machine.options.costs.transfer_ns,
            );
        }
    }
}

impl Task for VirtualTask {
    fn cpu(&self) -> CpuId {
        self.cpu
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
        let keep = self.machine.options.trace;
        self.machine
            .state
            .borrow_mut()
            .emit(keep, self.cpu, kind, object, argument);
    }

    fn stopping(&self) -> bool {
        self.machine.state.borrow().stopping
    }

    async fn work(&self, cost: Cost) {
        let when_ns = self.machine.now_ns() + self.machine.options.costs.of(cost);
        self.until(when_ns).await;
    }

    async fn load(&self, word: &Word) -> u32 {
        let access = {
            let state = &mut *self.machine.state.borrow_mut();
            state
                .lines
                .read(word.line, self.cpu, state.now_ns, &self.machine.options.costs)
        };
        self.report(word, access.travelled);
        self.until(access.done_ns).await;
        word.value.load(SeqCst)
    }

    async fn store(&self, word: &Word, value: u32) {
        self.own(word).await;
        word.value.store(value, SeqCst);
        self.machine.state.borrow_mut().changed(word.line);
    }

    async fn update(&self, word: &Word, change: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        self.own(word).await;
        let result = word.change(change);
        if result.is_ok() {
            self.machine.state.borrow_mut().changed(word.line);
        }
        result
    }

    async fn spin_while(&self, word: &Word, seen: u32) -> u32 {
        loop {
            let value = self.load(word).await;
            if value != seen {
                return value;
            }
            self.suspend(|state| state.watch(word.line, self.cpu.0)).await;
        }
    }

    async fn sleep_while(&self, word: &Word, seen: u32, deadline: Option<Nanoseconds>) -> u32 {
        self.emit(Kind::Sleep, 0, u64::from(self.cpu.0));
        let late = |now: Nanoseconds| deadline.is_some_and(|deadline| now >= deadline);
        let mut value = self.load(word).await;
        while value == seen && !late(self.now()) {
            self.suspend(|state| {
                state.watch(word.line, self.cpu.0);
                if let Some(deadline) = deadline {
                    state.arm(deadline.0, self.cpu.0);
                }
            })
            .await;
            value = self.load(word).await;
        }
        self.until(self.machine.now_ns() + self.machine.options.costs.wake_ns)
            .await;
        self.emit(Kind::Wake, u32::from(self.cpu.0), u64::from(self.cpu.0));
        value
    }
}
