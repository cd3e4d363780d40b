//! The event loop: pops the earliest moment, and polls the task that waits for it.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use trace::{Event, Kind, Numbered};

use super::{lines::Lines, task::VirtualTask};
use crate::{CostTable, CpuId, LineId};

/// What a virtual machine is made of.
#[derive(Clone, Debug)]
pub struct VirtualOptions {
    /// Decides every random draw.
    pub seed: u64,
    /// CPUs, 1 to 64; one task each.
    pub cpus: u16,
    /// Cache lines of the model, as its registry counted them.
    pub lines: u32,
    /// What things cost.
    pub costs: CostTable,
    /// Whether events are kept for [`Virtual::take_events`]. They are numbered either way.
    pub trace: bool,
}

/// The futures of a run, one per CPU; `None` once it has ended.
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
    /// When, order of arming, and who.
    heap: BinaryHeap<Reverse<(u64, u64, Wait)>>,
    armed: u64,
    /// Who waits for a change of the line, by line.
    watchers: Vec<Vec<Wait>>,
    /// How often each task has been resumed.
    resumed: Vec<u64>,
    numbers: u64,
    events: VecDeque<Numbered>,
    /// How often each kind of thing happened, per CPU.
    counts: Vec<[u64; 64]>,
}

/// One wait of one task. It is over once the task has been resumed, whatever else it was armed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    task: u16,
    resumed: u64,
}

impl Virtual {
    /// A machine at time 0 with nothing to do.
    pub fn new(options: VirtualOptions) -> Rc<Self> {
        assert!(
            (1..=64).contains(&options.cpus),
            "a line has one sharer bit for each of 64 CPUs"
        );
        let state = State {
            now_ns: 0,
            stopping: false,
            lines: Lines::new(options.lines),
            heap: (0..options.cpus)
                .map(|task| Reverse((0, u64::from(task), Wait { task, resumed: 0 })))
                .collect(),
            armed: u64::from(options.cpus),
            watchers: vec![Vec::new(); options.lines as usize],
            resumed: vec![0; usize::from(options.cpus)],
            numbers: 0,
            events: VecDeque::new(),
            counts: vec![[0; 64]; usize::from(options.cpus)],
        };
        Rc::new(Self {
            options,
            state: RefCell::new(state),
        })
    }

    /// The task handle of one CPU.
    pub fn task(self: &Rc<Self>, cpu: CpuId) -> VirtualTask {
        VirtualTask::new(self.clone(), cpu)
    }

    /// Runs at most `budget` resumptions of tasks.
    pub fn step(&self, tasks: &mut Tasks, budget: u64) -> Progress {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..budget {
            let next = self.state.borrow_mut().next();
            let Some(number) = next else {
                let ended = tasks.iter().all(Option::is_none);
                return if ended {
                    Progress::Finished
                } else {
                    Progress::Deadlock
                };
            };
            let slot = &mut tasks[usize::from(number)];
            if let Some(task) = slot
                && task.as_mut().poll(&mut context) == Poll::Ready(())
            {
                *slot = None;
            }
        }
        match tasks.iter().all(Option::is_none) {
            true => Progress::Finished,
            false => Progress::More,
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
}

impl State {
    /// The task whose wait ends first; time moves there.
    fn next(&mut self) -> Option<u16> {
        while let Some(Reverse((when_ns, _, wait))) = self.heap.pop() {
            let resumed = &mut self.resumed[usize::from(wait.task)];
            if *resumed == wait.resumed {
                *resumed += 1;
                self.now_ns = when_ns;
                return Some(wait.task);
            }
        }
        None
    }

    fn wait(&self, task: u16) -> Wait {
        Wait {
            task,
            resumed: self.resumed[usize::from(task)],
        }
    }

    /// Resumes the task at this time.
    pub(super) fn arm(&mut self, when_ns: u64, task: u16) {
        let wait = self.wait(task);
        self.push(when_ns, wait);
    }

    fn push(&mut self, when_ns: u64, wait: Wait) {
        self.heap.push(Reverse((when_ns, self.armed, wait)));
        self.armed += 1;
    }

    /// Resumes the task when the line changes.
    pub(super) fn watch(&mut self, line: LineId, task: u16) {
        let wait = self.wait(task);
        self.watchers[line.0 as usize].push(wait);
    }

    /// The line has changed: whoever watches it looks again.
    pub(super) fn changed(&mut self, line: LineId) {
        let mut watchers = std::mem::take(&mut self.watchers[line.0 as usize]);
        for wait in watchers.drain(..) {
            self.push(self.now_ns, wait);
        }
        // Give the allocation back.
        self.watchers[line.0 as usize] = watchers;
    }

    pub(super) fn emit(&mut self, keep: bool, cpu: CpuId, kind: Kind, object: u32, argument: u64) {
        self.counts[cpu.index()][kind as usize] += 1;
        if keep {
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
