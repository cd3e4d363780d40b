//! What a run came to, from its events one by one; the room that this takes grows with locks and tasks only.

use std::collections::BTreeMap;

use crate::{Event, Histogram, Kind};

/// What is known of the events so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The time of the last event, ns.
    pub elapsed_ns: u64,
    /// Events.
    pub events: u64,
    /// Operations, and how long each took, ns.
    pub latency: Histogram,
    /// By lock number.
    pub locks: BTreeMap<u32, LockStatistics>,
    /// Who waited for whom: waiter and holder by task, how often and how long, ns.
    pub blame: BTreeMap<(u64, u64), Blame>,
    /// By task number.
    pub tasks: BTreeMap<u64, TaskStatistics>,
    /// By CPU number.
    pub cpus: BTreeMap<u16, CpuStatistics>,
    /// Changes from one task to another on a CPU, and those to and from idleness, as `vmstat` counts them.
    pub context_switches: u64,
    /// How often each kind of thing happened.
    pub counts: BTreeMap<Kind, u64>,
    running: BTreeMap<u16, u64>,
    holders: BTreeMap<u32, u64>,
}

/// One lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockStatistics {
    /// Times it was taken.
    pub acquired: u64,
    /// Times it was taken after waiting.
    pub contended: u64,
    /// Trylocks that failed.
    pub failed: u64,
    /// The waits, ns; acquisitions without one are not among them.
    pub waiting: Histogram,
    /// How long it was held, ns.
    pub holding: Histogram,
}

impl LockStatistics {
    /// Takes in another lock of the same class.
    pub fn merge(&mut self, other: &Self) {
        self.acquired += other.acquired;
        self.contended += other.contended;
        self.failed += other.failed;
        self.waiting.merge(&other.waiting);
        self.holding.merge(&other.holding);
    }
}

/// Waits of one task for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    /// How many.
    pub waits: u64,
    /// How long together, ns.
    pub waited_ns: u64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskStatistics {
    /// Operations that it completed.
    pub operations: u64,
    /// When it had done its work, ns.
    pub finished_ns: Option<u64>,
    waits: Option<Wait>,
    operation_since_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Wait {
    lock: u32,
    holder: Option<u64>,
    since_ns: u64,
}

/// Where a CPU's time went, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStatistics {
    /// With a task that got on.
    pub working_ns: u64,
    /// With a task that spun for a lock.
    pub spinning_ns: u64,
    /// Without a task.
    pub idle_ns: u64,
    state: State,
    since_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Working,
    Spinning,
}

impl CpuStatistics {
    fn enter(&mut self, state: State, now_ns: u64) {
        let spent_ns = now_ns.saturating_sub(self.since_ns);
        match self.state {
            State::Idle => self.idle_ns += spent_ns,
            State::Working => self.working_ns += spent_ns,
            State::Spinning => self.spinning_ns += spent_ns,
        }
        (self.state, self.since_ns) = (state, now_ns);
    }
}

impl Statistics {
    /// Takes in the next event.
    pub fn add(&mut self, event: &Event) {
        self.elapsed_ns = self.elapsed_ns.max(event.time_ns);
        self.events += 1;
        *self.counts.entry(event.kind).or_default() += 1;
        match event.kind {
            Kind::Run => self.run(event),
            Kind::Preempt | Kind::Sleep => self.leave(event),
            Kind::Exit => {
                let task = self.task_of(event);
                self.tasks.entry(task).or_default().finished_ns = Some(event.time_ns);
                self.leave(event);
            }
            Kind::LockContended => self.contended(event),
            Kind::LockAcquired => self.acquired(event),
            Kind::LockReleased => {
                let lock = self.locks.entry(event.object).or_default();
                lock.holding.add(event.argument);
                self.holders.remove(&event.object);
            }
            Kind::TryFailed => self.locks.entry(event.object).or_default().failed += 1,
            Kind::OperationBegin => {
                let task = self.task_of(event);
                self.tasks.entry(task).or_default().operation_since_ns = Some(event.time_ns);
            }
            Kind::OperationEnd => {
                let task = self.task_of(event);
                let task = self.tasks.entry(task).or_default();
                task.operations += 1;
                // A trace that begins in the middle has ends without beginnings.
                if let Some(since_ns) = task.operation_since_ns.take() {
                    self.latency.add(event.time_ns.saturating_sub(since_ns));
                }
            }
            _ => {}
        }
    }

    /// The task on the event's CPU; before anything is known of it, one with the CPU's number.
    fn task_of(&self, event: &Event) -> u64 {
        let running = self.running.get(&event.cpu).copied();
        running.unwrap_or(u64::from(event.cpu))
    }

    fn run(&mut self, event: &Event) {
        let before = self.running.insert(event.cpu, event.argument);
        if before != Some(event.argument) && event.time_ns > 0 {
            self.context_switches += 1;
        }
        let waits = self
            .tasks
            .get(&event.argument)
            .is_some_and(|task| task.waits.is_some());
        let state = if waits { State::Spinning } else { State::Working };
        self.cpus
            .entry(event.cpu)
            .or_default()
            .enter(state, event.time_ns);
    }

    fn leave(&mut self, event: &Event) {
        self.running.remove(&event.cpu);
        self.context_switches += u64::from(event.kind != Kind::Preempt);
        self.cpus
            .entry(event.cpu)
            .or_default()
            .enter(State::Idle, event.time_ns);
    }

    fn contended(&mut self, event: &Event) {
        let task = self.task_of(event);
        let wait = Wait {
            lock: event.object,
            holder: self.holders.get(&event.object).copied(),
            since_ns: event.time_ns,
        };
        self.tasks.entry(task).or_default().waits = Some(wait);
        self.cpus
            .entry(event.cpu)
            .or_default()
            .enter(State::Spinning, event.time_ns);
    }

    fn acquired(&mut self, event: &Event) {
        let task = self.task_of(event);
        let lock = self.locks.entry(event.object).or_default();
        lock.acquired += 1;
        if event.argument > 0 {
            lock.contended += 1;
            lock.waiting.add(event.argument);
        }
        let waits = &mut self.tasks.entry(task).or_default().waits;
        if let Some(wait) = waits.take_if(|wait| wait.lock == event.object) {
            if let Some(holder) = wait.holder {
                let blame = self.blame.entry((task, holder)).or_default();
                blame.waits += 1;
                blame.waited_ns += event.time_ns.saturating_sub(wait.since_ns);
            }
            self.cpus
                .entry(event.cpu)
                .or_default()
                .enter(State::Working, event.time_ns);
        }
        self.holders.insert(event.object, task);
    }

    /// Operations completed.
    pub fn operations(&self) -> u64 {
        self.tasks.values().map(|task| task.operations).sum()
    }

    /// Operations per second of the run's time; `None` before time has passed.
    pub fn operations_per_second(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.operations() as f64 / self.elapsed_ns as f64 * 1e9)
    }

    /// Jain's index of the operations of all tasks: 1 where all did the same, 1/n where one did everything.
    pub fn fairness(&self) -> Option<f64> {
        let done = self.tasks.values().map(|task| task.operations as f64);
        let (sum, squares) = done.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        (squares > 0.0).then(|| sum * sum / (self.tasks.len() as f64 * squares))
    }

    /// When the first and the last task had done their work, ns; `None` before every task has.
    pub fn finish(&self) -> Option<(u64, u64)> {
        let ends: Option<Vec<u64>> = self.tasks.values().map(|task| task.finished_ns).collect();
        let ends = ends?;
        Some((ends.iter().copied().min()?, ends.iter().copied().max()?))
    }

    /// The locks of each class together, by the class of each lock number.
    pub fn by_class(&self, class_of_lock: &[u16]) -> BTreeMap<u16, LockStatistics> {
        let mut classes: BTreeMap<u16, LockStatistics> = BTreeMap::new();
        for (lock, statistics) in &self.locks {
            let class = usize::try_from(*lock)
                .ok()
                .and_then(|lock| class_of_lock.get(lock));
            if let Some(class) = class {
                classes.entry(*class).or_default().merge(statistics);
            }
        }
        classes
    }

    /// CPUs' time, all together, up to the last event: working, spinning, idle, ns.
    pub fn cpu_use(&self) -> (u64, u64, u64) {
        let mut sum = (0, 0, 0);
        for cpu in self.cpus.values() {
            let mut cpu = cpu.clone();
            cpu.enter(cpu.state, self.elapsed_ns);
            sum = (
                sum.0 + cpu.working_ns,
                sum.1 + cpu.spinning_ns,
                sum.2 + cpu.idle_ns,
            );
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: &[(u64, u16, Kind, u32, u64)]) -> Statistics {
        let mut statistics = Statistics::default();
        for (time_ns, cpu, kind, object, argument) in events.iter().copied() {
            statistics.add(&Event {
                time_ns,
                cpu,
                kind,
                object,
                argument,
            });
        }
        statistics
    }

    #[test]
    fn a_wait_is_laid_to_the_holder_and_the_spinning_cpu() {
        let statistics = told(&[
            (0, 0, Kind::Run, 0, 7),
            (0, 1, Kind::Run, 0, 9),
            (10, 0, Kind::LockAcquired, 3, 0),
            (20, 1, Kind::LockContended, 3, 0),
            (50, 0, Kind::LockReleased, 3, 40),
            (60, 1, Kind::LockAcquired, 3, 40),
            (100, 1, Kind::LockReleased, 3, 40),
            (120, 0, Kind::Exit, 0, 1),
            (120, 1, Kind::Exit, 0, 1),
        ]);
        let expected = Blame {
            waits: 1,
            waited_ns: 40,
        };
        assert_eq!(statistics.blame.get(&(9, 7)), Some(&expected));
        assert_eq!(statistics.blame.len(), 1);
        let lock = &statistics.locks[&3];
        assert_eq!((lock.acquired, lock.contended), (2, 1));
        assert_eq!((lock.waiting.sum(), lock.holding.sum()), (40, 80));
        assert_eq!(statistics.cpu_use(), (200, 40, 0));
        assert_eq!(statistics.finish(), Some((120, 120)));
    }

    #[test]
    fn a_task_is_followed_over_cpus_and_sleep_is_idle_time() {
        let statistics = told(&[
            (0, 0, Kind::Run, 0, 5),
            (0, 0, Kind::OperationBegin, 12, 0),
            (100, 0, Kind::Sleep, 0, 5),
            (300, 1, Kind::Run, 0, 5),
            (400, 1, Kind::OperationEnd, 12, 400),
            (400, 1, Kind::Exit, 0, 1),
        ]);
        assert_eq!(statistics.operations(), 1);
        assert_eq!(statistics.latency.sum(), 400);
        let (working_ns, spinning_ns, idle_ns) = statistics.cpu_use();
        assert_eq!((working_ns, spinning_ns), (200, 0));
        assert_eq!(idle_ns, 300 + 300);
        // Off at 100 and 400, on at 300.
        assert_eq!(statistics.context_switches, 3);
    }

    #[test]
    fn jain_says_one_when_all_do_the_same_and_one_nth_when_one_does_all() {
        let begin = |task: u16| (0, task, Kind::Run, 0, u64::from(task));
        let end = |time_ns, task| (time_ns, task, Kind::OperationEnd, 1, 0);
        let same = told(&[begin(0), begin(1), end(5, 0), end(6, 1)]);
        assert_eq!(same.fairness(), Some(1.0));
        let mut one = told(&[begin(0), begin(1), end(5, 0), end(6, 0)]);
        one.tasks.entry(1).or_default();
        assert_eq!(one.fairness(), Some(0.5));
    }

    #[test]
    fn a_trace_that_begins_in_the_middle_is_no_trouble() {
        let statistics = told(&[
            (1_000, 3, Kind::LockReleased, 9, 70),
            (1_001, 3, Kind::OperationEnd, 1, 5),
            (1_002, 2, Kind::LockAcquired, 9, 12),
            (1_003, 2, Kind::Sleep, 0, 2),
        ]);
        assert_eq!(statistics.operations(), 1);
        assert_eq!(statistics.latency.count(), 0);
        assert_eq!(statistics.locks[&9].contended, 1);
    }
}
