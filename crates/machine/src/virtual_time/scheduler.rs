//! Who runs where: run queues, time slices, waking, and what a preemption model allows.
//!
//! A CPU that becomes idle takes a task from the longest queue. A task that wakes goes back to its CPU, or to an idle
//! one if that is busy. A normal task that wakes puts no other aside; a real-time task does, as soon as it may.

use std::collections::VecDeque;

use trace::Kind;

use super::executor::{State, Wait, What};
use crate::{
    Class, CpuId, Distance, LineId, Preemption, Profile, TaskId,
    topology::{Core, Topology},
};

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// It has a CPU, and is busy until the moment given or, where there is none, waits there for a change.
    Running(Option<u64>),
    /// It wants a CPU, and has this much to do before its code goes on, ns.
    Ready(u64),
    Sleeping,
    Ended,
}

#[derive(Debug)]
struct TaskState {
    cpu: CpuId,
    run: Run,
    /// How often it has been resumed: a wait that was armed before is over.
    resumed: u32,
    class: Class,
    /// Spin locks held, and other reasons not to be put aside.
    preempt_count: u16,
    /// Who changed what it slept on.
    woken_by: CpuId,
    /// Tasks that spin while it runs.
    spinners: Vec<Wait>,
}

#[derive(Debug)]
struct Cpu {
    core: Core,
    current: Option<TaskId>,
    last: Option<TaskId>,
    realtime: VecDeque<TaskId>,
    ready: VecDeque<TaskId>,
    need_resched: bool,
    /// A slice's end is armed; it counts only with this number.
    slice: u32,
    slice_armed: bool,
    interrupts_off: u16,
    /// Timers that fired meanwhile.
    held_timers: Vec<Wait>,
}

/// All tasks and CPUs.
#[derive(Debug)]
pub(super) struct Scheduler {
    topology: Topology,
    costs: crate::profile::Scheduler,
    tasks: Vec<TaskState>,
    cpus: Vec<Cpu>,
    /// CPUs with nothing to do, and tasks that wait for a CPU.
    idle: u32,
    waiting: u32,
}

impl Scheduler {
    pub(super) fn new(profile: &Profile, cpus: u16, tasks: u16) -> Self {
        let cpu = |cpu| Cpu {
            core: profile.topology.core(CpuId(cpu)),
            current: None,
            last: None,
            realtime: VecDeque::new(),
            ready: VecDeque::new(),
            need_resched: false,
            slice: 0,
            slice_armed: false,
            interrupts_off: 0,
            held_timers: Vec::new(),
        };
        let task = |task: u16| TaskState {
            cpu: CpuId(task % cpus),
            run: Run::Ready(0),
            resumed: 0,
            class: Class::Normal,
            preempt_count: 0,
            woken_by: CpuId(task % cpus),
            spinners: Vec::new(),
        };
        Self {
            topology: profile.topology,
            costs: profile.scheduler,
            tasks: (0..tasks).map(task).collect(),
            cpus: (0..cpus).map(cpu).collect(),
            idle: u32::from(cpus),
            waiting: 0,
        }
    }

    fn task(&mut self, task: TaskId) -> &mut TaskState {
        &mut self.tasks[usize::from(task.0)]
    }

    pub(super) fn cpu_of(&self, task: TaskId) -> CpuId {
        self.tasks[usize::from(task.0)].cpu
    }

    pub(super) fn core_of(&self, task: TaskId) -> Core {
        self.cpus[self.cpu_of(task).index()].core
    }

    pub(super) fn is_running(&self, task: TaskId) -> bool {
        self.tasks
            .get(usize::from(task.0))
            .is_some_and(|task| matches!(task.run, Run::Running(_)))
    }

    pub(super) fn is_asleep(&self, task: TaskId) -> bool {
        self.tasks[usize::from(task.0)].run == Run::Sleeping
    }

    pub(super) fn all_ended(&self) -> bool {
        self.tasks.iter().all(|task| task.run == Run::Ended)
    }

    pub(super) fn wait(&self, task: TaskId) -> Wait {
        Wait {
            task,
            resumed: self.tasks[usize::from(task.0)].resumed,
        }
    }

    /// Whether the wait is still the one that the task is in; if so it is over now.
    pub(super) fn ends(&mut self, wait: Wait) -> bool {
        let task = self.task(wait.task);
        let current = task.resumed == wait.resumed;
        task.resumed = task.resumed.wrapping_add(u32::from(current));
        current
    }

    /// Keeps a timer back while its CPU takes no interrupts.
    pub(super) fn holds_back(&mut self, wait: Wait) -> bool {
        let cpu = self.cpu_of(wait.task);
        let cpu = &mut self.cpus[cpu.index()];
        let off = cpu.interrupts_off > 0;
        if off {
            cpu.held_timers.push(wait);
        }
        off
    }

    pub(super) fn busy_until(&mut self, task: TaskId, when_ns: u64) {
        self.task(task).run = Run::Running(Some(when_ns));
    }

    pub(super) fn spinning(&mut self, task: TaskId) {
        self.task(task).run = Run::Running(None);
    }

    pub(super) fn woken_by(&mut self, task: TaskId, cpu: CpuId) {
        self.task(task).woken_by = cpu;
    }

    pub(super) fn spins_while_running(&mut self, owner: TaskId, spinner: TaskId) {
        let wait = self.wait(spinner);
        let mut spinners = std::mem::take(&mut self.task(owner).spinners);
        self.drop_stale(&mut spinners);
        spinners.push(wait);
        self.task(owner).spinners = spinners;
    }

    /// Forgets waits that are over, once there are more than can be going on.
    pub(super) fn drop_stale(&self, waits: &mut Vec<Wait>) {
        if waits.len() > 2 * self.tasks.len() {
            waits.retain(|wait| self.wait(wait.task) == *wait);
        }
    }

    pub(super) fn set_class(&mut self, task: TaskId, class: Class) {
        self.task(task).class = class;
    }

    pub(super) fn preempt_disable(&mut self, task: TaskId) {
        self.task(task).preempt_count += 1;
    }

    pub(super) fn preempt_enable(&mut self, task: TaskId) {
        let count = &mut self.task(task).preempt_count;
        *count = count.checked_sub(1).expect("every enable has its disable");
    }

    pub(super) fn need_resched(&self, task: TaskId) -> bool {
        self.cpus[self.cpu_of(task).index()].need_resched
    }

    /// Whether the task is to be put aside at its next step, without having asked.
    pub(super) fn due_to_yield(&self, task: TaskId) -> bool {
        self.costs.preemption == Preemption::Full && self.need_resched(task) && self.preemptible(task)
    }

    /// Whether a scheduling point lets another task run now.
    pub(super) fn yields_at_point(&self, task: TaskId) -> bool {
        self.need_resched(task) && self.preemptible(task)
    }

    fn preemptible(&self, task: TaskId) -> bool {
        self.tasks[usize::from(task.0)].preempt_count == 0
    }

    pub(super) fn interrupts_off(&mut self, task: TaskId) {
        let cpu = self.cpu_of(task);
        self.cpus[cpu.index()].interrupts_off += 1;
    }

    /// Interrupts are on again: the timers that were held back.
    pub(super) fn interrupts_on(&mut self, task: TaskId) -> Vec<Wait> {
        let cpu = self.cpu_of(task);
        let cpu = &mut self.cpus[cpu.index()];
        cpu.interrupts_off = cpu.interrupts_off.checked_sub(1).expect("every on has its off");
        match cpu.interrupts_off {
            0 => std::mem::take(&mut cpu.held_timers),
            _ => Vec::new(),
        }
    }

    /// An idle CPU for the task: its own, else one of its socket, else any.
    fn idle_cpu(&self, task: TaskId) -> Option<CpuId> {
        if self.idle == 0 {
            return None;
        }
        let own = self.cpu_of(task);
        let idle = |cpu: &Cpu| cpu.current.is_none() && cpu.ready.is_empty() && cpu.realtime.is_empty();
        if idle(&self.cpus[own.index()]) {
            return Some(own);
        }
        let socket = self.topology.socket(self.cpus[own.index()].core);
        let find = |same: bool| {
            let fits = |cpu: &Cpu| idle(cpu) && (!same || self.topology.socket(cpu.core) == socket);
            self.cpus.iter().position(fits)
        };
        find(true).or_else(|| find(false)).map(|cpu| CpuId(cpu as u16))
    }

    /// The next task for a CPU that has none, from its own queues or from the longest other one.
    fn pick(&mut self, cpu: CpuId) -> Option<TaskId> {
        if self.waiting == 0 {
            return None;
        }
        let own = &mut self.cpus[cpu.index()];
        let picked = own
            .realtime
            .pop_front()
            .or_else(|| own.ready.pop_front())
            .or_else(|| {
                let longest = self.cpus.iter_mut().rev().max_by_key(|cpu| cpu.ready.len())?;
                longest.ready.pop_front()
            })?;
        self.waiting -= 1;
        Some(picked)
    }
}

impl State {
    /// Puts every task on its CPU at the beginning.
    pub(super) fn place(&mut self) {
        for task in (0..self.scheduler.tasks.len()).map(|task| TaskId(task as u16)) {
            let cpu = self.scheduler.cpu_of(task);
            self.enqueue(task, cpu);
            if self.scheduler.cpus[cpu.index()].current.is_none() {
                self.switch(cpu, 0);
            }
        }
    }

    fn enqueue(&mut self, task: TaskId, cpu: CpuId) {
        let scheduler = &mut self.scheduler;
        let class = scheduler.task(task).class;
        scheduler.waiting += 1;
        let queues = &mut scheduler.cpus[cpu.index()];
        match class {
            Class::RealTime => queues.realtime.push_back(task),
            Class::Normal => queues.ready.push_back(task),
        }
        self.arm_slice(cpu);
    }

    /// Lets the CPU's next task begin, `latency_ns` and a switch from now.
    fn switch(&mut self, cpu: CpuId, latency_ns: u64) {
        let Some(task) = self.scheduler.pick(cpu) else {
            return;
        };
        self.scheduler.idle -= 1;
        let own = &mut self.scheduler.cpus[cpu.index()];
        let first = own.last.is_none();
        let switched = own.last.replace(task) != Some(task);
        own.current = Some(task);
        own.need_resched = false;
        let switch_ns = if switched && !first {
            self.scheduler.costs.context_switch_ns
        } else {
            0
        };
        let moved = self.scheduler.cpu_of(task) != cpu;
        let state = self.scheduler.task(task);
        state.cpu = cpu;
        let Run::Ready(left_ns) = state.run else {
            unreachable!("queues hold tasks that are ready");
        };
        if moved {
            self.emit(cpu, Kind::Migrate, u32::from(cpu.0), u64::from(task.0));
        }
        self.emit(cpu, Kind::Run, 0, u64::from(task.0));
        self.arm(self.now_ns + latency_ns + switch_ns + left_ns, task);
        self.arm_slice(cpu);
    }

    fn arm_slice(&mut self, cpu: CpuId) {
        let slice_ns = self.scheduler.costs.time_slice_ns;
        let own = &mut self.scheduler.cpus[cpu.index()];
        if own.current.is_some() && !own.ready.is_empty() && !own.slice_armed {
            own.slice_armed = true;
            let number = own.slice;
            self.push(self.now_ns + slice_ns, What::Slice { cpu, number });
        }
    }

    /// The running task's time is up.
    pub(super) fn slice_ended(&mut self, cpu: CpuId, number: u32) {
        let own = &mut self.scheduler.cpus[cpu.index()];
        if own.slice != number {
            return;
        }
        own.slice_armed = false;
        let Some(task) = own.current else { return };
        if own.ready.is_empty() || self.scheduler.task(task).class == Class::RealTime {
            return;
        }
        self.put_aside_if_allowed(cpu, task);
    }

    fn put_aside_if_allowed(&mut self, cpu: CpuId, task: TaskId) {
        self.scheduler.cpus[cpu.index()].need_resched = true;
        if self.scheduler.due_to_yield(task) {
            self.put_aside(task);
        }
    }

    /// Takes a running task off its CPU for the next one there; it goes on later where it was.
    pub(super) fn put_aside(&mut self, task: TaskId) {
        let (now_ns, cpu) = (self.now_ns, self.scheduler.cpu_of(task));
        let state = self.scheduler.task(task);
        let left_ns = match state.run {
            Run::Running(Some(until_ns)) => until_ns.saturating_sub(now_ns),
            _ => 0,
        };
        state.run = Run::Ready(left_ns);
        state.resumed = state.resumed.wrapping_add(1);
        self.emit(cpu, Kind::Preempt, 0, u64::from(task.0));
        self.leave(task);
        self.enqueue(task, cpu);
        self.switch(cpu, 0);
    }

    /// The task's CPU is free for others, and whoever spun because it ran looks again.
    fn leave(&mut self, task: TaskId) {
        let cpu = self.scheduler.cpu_of(task);
        let own = &mut self.scheduler.cpus[cpu.index()];
        own.current = None;
        own.slice = own.slice.wrapping_add(1);
        own.slice_armed = false;
        self.scheduler.idle += 1;
        for wait in std::mem::take(&mut self.scheduler.task(task).spinners) {
            self.push(self.now_ns, What::Resume(wait));
        }
    }

    /// The task gives up its CPU until it is woken.
    pub(super) fn fall_asleep(&mut self, task: TaskId) {
        let cpu = self.scheduler.cpu_of(task);
        let state = self.scheduler.task(task);
        (state.run, state.woken_by) = (Run::Sleeping, cpu);
        self.emit(cpu, Kind::Sleep, 0, u64::from(task.0));
        self.leave(task);
        self.switch(cpu, 0);
    }

    /// The task has come to its end.
    pub(super) fn end(&mut self, task: TaskId) {
        let cpu = self.scheduler.cpu_of(task);
        self.scheduler.task(task).run = Run::Ended;
        self.leave(task);
        self.switch(cpu, 0);
    }

    /// What the task slept for has come: it wants a CPU.
    pub(super) fn wake(&mut self, task: TaskId) {
        let idle = self.scheduler.idle_cpu(task);
        let cpu = idle.unwrap_or(self.scheduler.cpu_of(task));
        let state = self.scheduler.task(task);
        state.run = Run::Ready(0);
        let (waker, class) = (state.woken_by, state.class);
        self.emit(cpu, Kind::Wake, u32::from(waker.0), u64::from(task.0));
        self.enqueue(task, cpu);
        if idle.is_some() {
            let latency_ns = match self.scheduler.topology.distance(waker, cpu) {
                Distance::OtherSocket => self.scheduler.costs.wake_far_ns,
                _ => self.scheduler.costs.wake_near_ns,
            };
            self.switch(cpu, latency_ns);
        } else if class == Class::RealTime
            && let Some(running) = self.scheduler.cpus[cpu.index()].current
            && self.scheduler.task(running).class == Class::Normal
        {
            self.put_aside_if_allowed(cpu, running);
        }
    }

    /// Resumes a spinning task once the line changes or the owner no longer runs.
    pub(super) fn watch_owner(&mut self, line: LineId, task: TaskId, owner: TaskId) {
        self.watch(line, task);
        self.scheduler.spins_while_running(owner, task);
    }
}
