//! The event loop: pops the earliest moment, and polls the task that waits for it.

use std::{
    cell::RefCell,
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use rand_pcg::{Pcg64, rand_core::Rng};
use trace::{Event, KINDS, Kind, Numbered};

use super::{lines::Lines, scheduler::Scheduler, task::VirtualTask};
use crate::{CpuId, LineId, Profile, TaskId};

/// Whether events are kept. They are numbered and counted either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Only counters.
    Off,
    /// Events wait for [`Virtual::take_events`].
    On,
}

/// What a virtual machine is made of.
#[derive(Clone, Debug)]
pub struct VirtualOptions {
    /// Decides every random draw.
    pub seed: u64,
    /// The machine.
    pub profile: Profile,
    /// CPUs, 1 to 1024; they may be fewer or more than the profile has.
    pub cpus: u16,
    /// Tasks; task n begins on CPU n modulo CPUs.
    pub tasks: u16,
    /// Cache lines of the model, as its registry counted them.
    pub lines: u32,
    /// Whether events are kept.
    pub trace: Trace,
}

/// The most CPUs of a virtual machine.
pub const CPUS_MAX: u16 = 1024;

/// The futures of a run, one per task; `None` once it has ended.
pub type Tasks = Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>;

/// What [`Virtual::step`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The budget is used up; there is more to do.
    More,
    /// Every task has ended.
    Finished,
    /// Nothing can happen any more although some task has not ended.
    Deadlock,
}

/// A virtual machine.
#[derive(Debug)]
pub struct Virtual {
    pub(super) options: VirtualOptions,
    pub(super) state: RefCell<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) now_ns: u64,
    pub(super) stopping: bool,
    pub(super) lines: Lines,
    pub(super) scheduler: Scheduler,
    heap: BinaryHeap<Moment>,
    armed: u64,
    /// Resumptions that the current call of [`Virtual::step`] may still make.
    budget: u64,
    /// Who waits for a change of the line, by line.
    watchers: Vec<Vec<Wait>>,
    /// In which order those who wait for the same line get it.
    arbiter: Pcg64,
    keep: Trace,
    numbers: u64,
    events: VecDeque<Numbered>,
    /// How often each kind of thing happened, per CPU.
    counts: Vec<[u64; KINDS]>,
}

/// One wait of one task. It is over once the task has been resumed, whatever else it was armed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) task: TaskId,
    pub(super) resumed: u32,
}

/// What happens at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A task's wait ends.
    Resume(Wait),
    /// A sleeping task's timer fires.
    Timer(Wait),
    /// A time slice ends.
    Slice { cpu: CpuId, number: u32 },
}

/// Earlier moments come first; of equal ones that which was armed first.
#[derive(Clone, Copy, Debug)]
struct Moment {
    when_ns: u64,
    order: u64,
    what: What,
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.when_ns, other.order).cmp(&(self.when_ns, self.order))
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Moment {}

impl Virtual {
    /// A machine at time 0 whose tasks have not begun.
    pub fn new(options: VirtualOptions) -> Rc<Self> {
        let VirtualOptions {
            cpus,
            tasks,
            lines,
            profile,
            ..
        } = options;
        assert!((1..=CPUS_MAX).contains(&cpus), "1 to {CPUS_MAX} CPUs");
        let mut state = State {
            now_ns: 0,
            stopping: false,
            lines: Lines::new(lines, cpus, profile.lines, profile.topology),
            scheduler: Scheduler::new(&profile, cpus, tasks),
            heap: BinaryHeap::new(),
            armed: 0,
            budget: 0,
            watchers: vec![Vec::new(); lines as usize],
            arbiter: Pcg64::new(u128::from(options.seed), u128::MAX),
            keep: options.trace,
            numbers: 0,
            events: VecDeque::new(),
            counts: vec![[0; KINDS]; usize::from(cpus)],
        };
        state.place();
        Rc::new(Self {
            options,
            state: RefCell::new(state),
        })
    }

    /// The handle of one task.
    pub fn task(self: &Rc<Self>, task: TaskId) -> VirtualTask {
        VirtualTask::new(self.clone(), task)
    }

    /// Runs at most `budget` resumptions of tasks.
    pub fn step(&self, tasks: &mut Tasks, budget: u64) -> Progress {
        let mut context = Context::from_waker(Waker::noop());
        self.state.borrow_mut().budget = budget;
        loop {
            let next = {
                let state = &mut *self.state.borrow_mut();
                if state.scheduler.all_ended() {
                    return Progress::Finished;
                }
                if state.budget == 0 {
                    return Progress::More;
                }
                state.budget -= 1;
                state.next()
            };
            let Some(task) = next else {
                return Progress::Deadlock;
            };
            let slot = &mut tasks[usize::from(task.0)];
            if let Some(future) = slot
                && future.as_mut().poll(&mut context) == Poll::Ready(())
            {
                *slot = None;
                self.state.borrow_mut().end(task);
            }
        }
    }

    /// Lets the tasks finish their operations and begin no other.
    pub fn stop(&self) {
        self.state.borrow_mut().stopping = true;
    }

    /// Virtual nanoseconds since the run began.
    pub fn now_ns(&self) -> u64 {
        self.state.borrow().now_ns
    }

    /// Takes at most `max` events, oldest first. Nothing where the trace is off.
    pub fn take_events(&self, max: usize) -> Vec<Numbered> {
        let events = &mut self.state.borrow_mut().events;
        let max = max.min(events.len());
        events.drain(..max).collect()
    }

    /// Events kept and not yet taken.
    pub fn events_waiting(&self) -> usize {
        self.state.borrow().events.len()
    }

    /// How often this kind of thing has happened on this CPU.
    pub fn count(&self, cpu: CpuId, kind: Kind) -> u64 {
        self.state.borrow().counts[cpu.index()][kind as usize]
    }

    /// How often this kind of thing has happened on all CPUs.
    pub fn total(&self, kind: Kind) -> u64 {
        let counts = &self.state.borrow().counts;
        counts.iter().map(|counts| counts[kind as usize]).sum()
    }
}

impl State {
    /// The task whose wait ends first; time moves there.
    fn next(&mut self) -> Option<TaskId> {
        while let Some(Moment { when_ns, what, .. }) = self.heap.pop() {
            match what {
                What::Resume(wait) => {
                    if self.scheduler.ends(wait) {
                        self.now_ns = when_ns;
                        return Some(wait.task);
                    }
                }
                What::Timer(wait) => {
                    if self.scheduler.wait(wait.task) == wait && !self.scheduler.holds_back(wait) {
                        self.scheduler.ends(wait);
                        self.now_ns = when_ns;
                        return Some(wait.task);
                    }
                }
                What::Slice { cpu, number } => {
                    self.now_ns = when_ns;
                    self.slice_ended(cpu, number);
                }
            }
        }
        None
    }

    pub(super) fn push(&mut self, when_ns: u64, what: What) {
        self.heap.push(Moment {
            when_ns,
            order: self.armed,
            what,
        });
        self.armed += 1;
    }

    /// Moves time on for the running task if nothing else happens before; what would else be a wait and a resumption.
    pub(super) fn advance(&mut self, when_ns: u64) -> bool {
        let first = self.heap.peek().is_none_or(|moment| moment.when_ns > when_ns);
        let may = first && self.budget > 0;
        if may {
            self.budget -= 1;
            self.now_ns = when_ns;
        }
        may
    }

    /// Keeps the running task busy until this time.
    pub(super) fn arm(&mut self, when_ns: u64, task: TaskId) {
        self.scheduler.busy_until(task, when_ns);
        let wait = self.scheduler.wait(task);
        self.push(when_ns, What::Resume(wait));
    }

    /// Wakes a sleeping task at this time.
    pub(super) fn arm_timer(&mut self, when_ns: u64, task: TaskId) {
        let wait = self.scheduler.wait(task);
        self.push(when_ns, What::Timer(wait));
    }

    /// Resumes the task when the line changes: it spins, or sleeps already.
    pub(super) fn watch(&mut self, line: LineId, task: TaskId) {
        if !self.scheduler.is_asleep(task) {
            self.scheduler.spinning(task);
        }
        self.watch_too(line, task);
    }

    /// The same for a task that is armed with something else.
    pub(super) fn watch_too(&mut self, line: LineId, task: TaskId) {
        let wait = self.scheduler.wait(task);
        let watchers = &mut self.watchers[line.0 as usize];
        self.scheduler.drop_stale(watchers);
        watchers.push(wait);
    }

    /// The line was changed by this CPU: whoever watches it looks again, in any order. Returns how many slept.
    pub(super) fn changed(&mut self, line: LineId, by: CpuId) -> u64 {
        if self.watchers[line.0 as usize].is_empty() {
            return 0;
        }
        let mut watchers = std::mem::take(&mut self.watchers[line.0 as usize]);
        let mut slept = 0;
        while !watchers.is_empty() {
            let drawn = if watchers.len() == 1 {
                0
            } else {
                (self.arbiter.next_u64() % watchers.len() as u64) as usize
            };
            let wait = watchers.swap_remove(drawn);
            if self.scheduler.wait(wait.task) == wait && self.scheduler.is_asleep(wait.task) {
                slept += 1;
                self.scheduler.woken_by(wait.task, by);
            }
            self.push(self.now_ns, What::Resume(wait));
        }
        // Give the allocation back.
        self.watchers[line.0 as usize] = watchers;
        slept
    }

    pub(super) fn emit(&mut self, cpu: CpuId, kind: Kind, object: u32, argument: u64) {
        self.counts[cpu.index()][kind as usize] += 1;
        if self.keep == Trace::On {
            let event = Event {
                time_ns: self.now_ns,
                cpu: cpu.0,
                kind,
                object,
                argument,
            };
            self.events.push_back(Numbered {
                number: self.numbers,
                event,
            });
        }
        self.numbers += 1;
    }
}
