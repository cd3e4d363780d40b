//! What a run came to, from its events one by one; the room that this takes grows with locks and tasks only.

use crate::{Event, Histogram, KINDS, Kind};

/// Locks and tasks with numbers from here on are not told apart: no model has so many.
const NUMBERS_END: usize = 1 << 20;

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
    pub locks: Vec<LockStatistics>,
    /// By task number.
    pub tasks: Vec<TaskStatistics>,
    /// By CPU number.
    pub cpus: Vec<CpuStatistics>,
    /// Changes from one task to another on a CPU, and those to and from idleness, as `vmstat` counts them.
    pub context_switches: u64,
    counts: Vec<u64>,
}

/// The entry with this number; there is one from now on.
fn numbered<T: Default>(list: &mut Vec<T>, number: usize) -> &mut T {
    let number = number.min(NUMBERS_END);
    if list.len() <= number {
        list.resize_with(number + 1, T::default);
    }
    &mut list[number]
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
    holder: Option<usize>,
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
    /// Operations that it began.
    pub begun: u64,
    /// Operations that it completed.
    pub operations: u64,
    /// When it had done its work, ns.
    pub finished_ns: Option<u64>,
    /// By the number of the task that held the lock: how often this one waited for it, and how long.
    pub waited_for: Vec<Blame>,
    waits: Option<Wait>,
    operation_since_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Wait {
    lock: u32,
    holder: Option<usize>,
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
    running: Option<usize>,
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
        self.counts.resize(KINDS, 0);
        self.counts[event.kind as usize] += 1;
        match event.kind {
            Kind::Run => self.run(event),
            Kind::Preempt | Kind::Sleep => self.leave(event),
            Kind::Exit => {
                self.task(event).finished_ns = Some(event.time_ns);
                self.leave(event);
            }
            Kind::LockContended => self.contended(event),
            Kind::LockAcquired => self.acquired(event),
            Kind::LockReleased => {
                let lock = self.lock(event);
                lock.holding.add(event.argument);
                lock.holder = None;
            }
            Kind::TryFailed => self.lock(event).failed += 1,
            Kind::OperationBegin => {
                let task = self.task(event);
                task.begun += 1;
                task.operation_since_ns = Some(event.time_ns);
            }
            Kind::OperationEnd => {
                let task = self.task(event);
                task.operations += 1;
                // A trace that begins in the middle has ends without beginnings.
                if let Some(since_ns) = task.operation_since_ns.take() {
                    self.latency.add(event.time_ns.saturating_sub(since_ns));
                }
            }
            _ => {}
        }
    }

    fn cpu(&mut self, event: &Event) -> &mut CpuStatistics {
        numbered(&mut self.cpus, event.cpu.into())
    }

    fn lock(&mut self, event: &Event) -> &mut LockStatistics {
        numbered(
            &mut self.locks,
            usize::try_from(event.object).unwrap_or(NUMBERS_END),
        )
    }

    /// The number of the task on the event's CPU; before anything is known of it, the CPU's.
    fn task_number(&mut self, event: &Event) -> usize {
        self.cpu(event).running.unwrap_or(event.cpu.into())
    }

    fn task(&mut self, event: &Event) -> &mut TaskStatistics {
        let number = self.task_number(event);
        numbered(&mut self.tasks, number)
    }

    fn run(&mut self, event: &Event) {
        let task = usize::try_from(event.argument).unwrap_or(NUMBERS_END);
        let waits = numbered(&mut self.tasks, task).waits.is_some();
        let cpu = self.cpu(event);
        let switched = cpu.running.replace(task) != Some(task) && event.time_ns > 0;
        cpu.enter(
            if waits { State::Spinning } else { State::Working },
            event.time_ns,
        );
        self.context_switches += u64::from(switched);
    }

    fn leave(&mut self, event: &Event) {
        let cpu = self.cpu(event);
        cpu.running = None;
        cpu.enter(State::Idle, event.time_ns);
        self.context_switches += u64::from(event.kind != Kind::Preempt);
    }

    fn contended(&mut self, event: &Event) {
        let holder = self.lock(event).holder;
        self.task(event).waits = Some(Wait {
            lock: event.object,
            holder,
            since_ns: event.time_ns,
        });
        self.cpu(event).enter(State::Spinning, event.time_ns);
    }

    fn acquired(&mut self, event: &Event) {
        let number = self.task_number(event);
        let lock = self.lock(event);
        lock.acquired += 1;
        lock.holder = Some(number);
        if event.argument > 0 {
            lock.contended += 1;
            lock.waiting.add(event.argument);
        }
        let task = self.task(event);
        if let Some(wait) = task.waits.take_if(|wait| wait.lock == event.object) {
            if let Some(holder) = wait.holder {
                let blame = numbered(&mut task.waited_for, holder);
                blame.waits += 1;
                blame.waited_ns += event.time_ns.saturating_sub(wait.since_ns);
            }
            self.cpu(event).enter(State::Working, event.time_ns);
        }
    }

    /// How often this kind of thing happened.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.get(kind as usize).copied().unwrap_or(0)
    }

    /// Operations completed.
    pub fn operations(&self) -> u64 {
        self.tasks.iter().map(|task| task.operations).sum()
    }

    /// Operations per second of the run's time; `None` before time has passed.
    pub fn operations_per_second(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.operations() as f64 / self.elapsed_ns as f64 * 1e9)
    }

    /// Jain's index of the operations of all tasks that began any: 1 where all completed the same, 1/n where one did
    /// everything.
    pub fn fairness(&self) -> Option<f64> {
        let jobs = self.tasks.iter().filter(|task| task.begun > 0);
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for done in jobs.map(|task| task.operations as f64) {
            count += 1.0;
            sum += done;
            squares += done * done;
        }
        (squares > 0.0).then(|| sum * sum / (count * squares))
    }

    /// When the first and the last task had done their work, ns; `None` before every task has.
    pub fn finish(&self) -> Option<(u64, u64)> {
        let seen = self
            .tasks
            .iter()
            .filter(|task| task.begun > 0 || task.finished_ns.is_some());
        let ends: Option<Vec<u64>> = seen.map(|task| task.finished_ns).collect();
        let ends = ends?;
        Some((ends.iter().copied().min()?, ends.iter().copied().max()?))
    }

    /// The locks of each class together, by the class of each lock number.
    pub fn by_class(&self, class_of_lock: &[u16]) -> Vec<LockStatistics> {
        let mut classes = Vec::new();
        for (lock, class) in self.locks.iter().zip(class_of_lock) {
            numbered::<LockStatistics>(&mut classes, (*class).into()).merge(lock);
        }
        classes
    }

    /// CPUs' time, all together, up to the last event: working, spinning, idle, ns.
    pub fn cpu_use(&self) -> (u64, u64, u64) {
        let mut sum = (0, 0, 0);
        for cpu in &self.cpus {
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
        assert_eq!(statistics.tasks[9].waited_for[7], expected);
        let all = statistics.tasks.iter().flat_map(|task| &task.waited_for);
        assert_eq!(all.map(|blame| blame.waits).sum::<u64>(), 1);
        let lock = &statistics.locks[3];
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
        let begin = |task: u16| (0, task, Kind::OperationBegin, 1, 0);
        let end = |time_ns, task| (time_ns, task, Kind::OperationEnd, 1, 0);
        let same = told(&[begin(0), begin(1), end(5, 0), end(6, 1)]);
        assert_eq!(same.fairness(), Some(1.0));
        let one = told(&[begin(0), begin(1), end(5, 0), end(6, 0)]);
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
        assert_eq!(statistics.locks[9].contended, 1);
    }
}
