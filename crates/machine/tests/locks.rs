//! Every kind of lock under every back end: it excludes, loses no wake-up, and keeps the order that it promises.

#![expect(
    clippy::await_holding_lock,
    reason = "a second task that finds it taken is what the tests look for"
)]

use std::{cell::RefCell, rc::Rc, sync::Arc};

use machine::{
    BitLock, Class, CpuId, Halves, Look, Mutex, Nanoseconds, Preemption, Profile, Rcu, Registry, RwSemaphore,
    SpinLock, Task, TaskId, TestAndSetLock, TicketLock, Waiting, Word, explore,
    threads::{self, Pace, Run, ThreadTask},
    virtual_time::{Progress, Tasks, Trace, Virtual, VirtualOptions, VirtualTask},
};
use trace::{Event, Kind};

/// All kinds of lock around the same counter.
enum AnyLock {
    Queued(SpinLock<u64>),
    Ticket(TicketLock<u64>),
    Set(TestAndSetLock<u64>),
    Bit(BitLock, std::sync::Mutex<u64>),
    Sleeping(Mutex<u64>),
    Shared(RwSemaphore<u64>),
}

const KINDS: [&str; 10] = [
    "queued",
    "ticket in one word",
    "ticket on two lines",
    "test-and-set",
    "test-and-test-and-set",
    "bit",
    "mutex that sleeps",
    "mutex that spins",
    "mutex that hands over",
    "reader-writer semaphore",
];

impl AnyLock {
    fn new(registry: &mut Registry, kind: &str) -> Self {
        let mutex =
            |registry: &mut Registry, waiting| Self::Sleeping(Mutex::new(registry, "counter", waiting, 0));
        let ticket =
            |registry: &mut Registry, halves| Self::Ticket(TicketLock::new(registry, "counter", halves, 0));
        let set =
            |registry: &mut Registry, look| Self::Set(TestAndSetLock::new(registry, "counter", look, 0));
        match kind {
            "queued" => Self::Queued(SpinLock::new(registry, "counter", 0)),
            "ticket in one word" => ticket(registry, Halves::OneLine),
            "ticket on two lines" => ticket(registry, Halves::OwnLines),
            "test-and-set" => set(registry, Look::Never),
            "test-and-test-and-set" => set(registry, Look::First),
            "bit" => Self::Bit(BitLock::new(registry, "counter", 5), std::sync::Mutex::new(0)),
            "mutex that sleeps" => mutex(registry, Waiting::Sleep),
            "mutex that spins" => mutex(registry, Waiting::SpinOnOwner),
            "mutex that hands over" => mutex(registry, Waiting::HandOff),
            _ => Self::Shared(RwSemaphore::new(registry, "counter", 0)),
        }
    }

    /// Reads the counter, works, and writes what it read plus 1: two tasks at once would lose one.
    async fn add<K: Task>(&self, task: &K, work: Nanoseconds) {
        macro_rules! add {
            ($guard:expr) => {{
                let mut guard = $guard;
                let before = *guard.data;
                task.work_for(work).await;
                *guard.data = before + 1;
                guard.release(task).await;
            }};
        }
        match self {
            Self::Queued(lock) => add!(lock.acquire(task).await),
            Self::Ticket(lock) => add!(lock.acquire(task).await),
            Self::Set(lock) => add!(lock.acquire(task).await),
            Self::Sleeping(lock) => add!(lock.acquire(task).await),
            Self::Shared(lock) => add!(lock.write(task).await),
            Self::Bit(lock, data) => {
                let guard = lock.acquire(task).await;
                let mut data = data
                    .try_lock()
                    .expect("a lock that excludes lets one task in at a time");
                let before = *data;
                task.work_for(work).await;
                *data = before + 1;
                drop(data);
                guard.release(task).await;
                assert_eq!(lock.peek(), 5, "the word's other bits are its own");
            }
        }
    }

    fn total(&self) -> u64 {
        match self {
            Self::Queued(lock) => *lock.peek_data(),
            Self::Ticket(lock) => *lock.peek_data(),
            Self::Set(lock) => *lock.peek_data(),
            Self::Bit(_, data) => *data.lock().expect("nobody panics while holding it"),
            Self::Sleeping(lock) => *lock.peek_data(),
            Self::Shared(lock) => *lock.peek_data(),
        }
    }
}

fn virtual_machine(registry: &Registry, profile: Profile, cpus: u16, tasks: u16) -> Rc<Virtual> {
    Virtual::new(VirtualOptions {
        seed: 3,
        profile,
        cpus,
        tasks,
        lines: registry.lines(),
        trace: Trace::On,
    })
}

/// Runs one job per task, and returns what happened.
fn run<F: Future<Output = ()> + 'static>(
    machine: &Rc<Virtual>,
    tasks: u16,
    job: impl Fn(VirtualTask) -> F,
) -> Vec<Event> {
    let mut futures: Tasks = Vec::new();
    for task in 0..tasks {
        futures.push(Some(Box::pin(job(machine.task(TaskId(task))))));
    }
    assert_eq!(machine.step(&mut futures, u64::MAX), Progress::Finished);
    let events = machine.take_events(usize::MAX);
    events.into_iter().map(|record| record.event).collect()
}

fn hammer(kind: &str, profile: Profile, cpus: u16, tasks: u16, rounds: u64) -> (Vec<Event>, u64) {
    let mut registry = Registry::new(cpus, tasks);
    let lock = Rc::new(AnyLock::new(&mut registry, kind));
    let machine = virtual_machine(&registry, profile, cpus, tasks);
    let events = run(&machine, tasks, |task| {
        let lock = lock.clone();
        async move {
            for round in 0..rounds {
                task.work_for(Nanoseconds(100 + u64::from(task.id().0) * 7 + round % 13))
                    .await;
                lock.add(&task, Nanoseconds(300)).await;
            }
        }
    });
    (events, lock.total())
}

#[test]
fn under_every_schedule_of_three_tasks_each_lock_excludes_and_lets_everybody_through() {
    for kind in KINDS {
        let sizes: &[(u16, u32)] = &[(2, 4), (3, 2)];
        for (tasks, preemptions) in sizes {
            let model = || {
                let mut registry = Registry::new(*tasks, *tasks);
                AnyLock::new(&mut registry, kind)
            };
            let explored = explore::explore(
                *tasks,
                *preemptions,
                model,
                |lock, task| {
                    let lock = lock.clone();
                    Box::pin(async move {
                        lock.add(&task, Nanoseconds(1)).await;
                        lock.add(&task, Nanoseconds(1)).await;
                    })
                },
                |lock| assert_eq!(lock.total(), u64::from(*tasks) * 2, "{kind}"),
            );
            assert!(explored.schedules > 50, "{kind}: only {explored:?}");
        }
    }
}

/// Four preemptions are what it takes for a third task to come between two steps of a mutex's queue.
#[test]
fn under_more_preemptions_no_mutex_forgets_a_waiter() {
    for kind in ["mutex that sleeps", "mutex that spins", "mutex that hands over"] {
        let model = || {
            let mut registry = Registry::new(3, 3);
            AnyLock::new(&mut registry, kind)
        };
        let explored = explore::explore(
            3,
            4,
            model,
            |lock, task| {
                let lock = lock.clone();
                Box::pin(async move { lock.add(&task, Nanoseconds(1)).await })
            },
            |lock| assert_eq!(lock.total(), 3, "{kind}"),
        );
        println!("{kind}: {explored:?}");
    }
}

#[test]
#[should_panic = "lets one task in at a time"]
fn exploring_finds_a_lock_that_looks_before_it_takes() {
    struct Broken {
        word: Word,
        data: std::sync::Mutex<u64>,
    }
    explore::explore(
        2,
        2,
        || Broken {
            word: Word::new(0, Registry::new(1, 1).line()),
            data: std::sync::Mutex::new(0),
        },
        |lock, task| {
            let lock = lock.clone();
            Box::pin(async move {
                if task.load(&lock.word).await == 0 {
                    task.store(&lock.word, 1).await;
                    let data = lock.data.try_lock().expect("the lock lets one task in at a time");
                    task.work_for(Nanoseconds(1)).await;
                    drop(data);
                }
            })
        },
        |_| {},
    );
}

#[test]
#[should_panic = "no task can go on"]
fn exploring_finds_a_lost_wake_up() {
    explore::explore(
        2,
        1,
        || {
            (
                Word::new(0, Registry::new(1, 1).line()),
                Word::new(0, Registry::new(1, 1).line()),
            )
        },
        |words, task| {
            let words = words.clone();
            Box::pin(async move {
                let (ready, wake) = (&words.0, &words.1);
                if task.id() == TaskId(0) {
                    // Looks, and only then clears the word on which it is woken.
                    if task.load(ready).await == 0 {
                        task.store(wake, 0).await;
                        task.sleep_while(wake, 0, None).await;
                    }
                } else {
                    task.store(ready, 1).await;
                    task.store(wake, 1).await;
                }
            })
        },
        |_| {},
    );
}

#[test]
fn no_addition_is_lost_in_virtual_time() {
    for kind in KINDS {
        for (cpus, tasks) in [(1, 1), (2, 2), (7, 7), (32, 32), (1, 8), (4, 24)] {
            let (_, total) = hammer(kind, Profile::default(), cpus, tasks, 40);
            assert_eq!(
                total,
                u64::from(tasks) * 40,
                "{kind}, {tasks} tasks on {cpus} CPUs"
            );
        }
    }
}

#[test]
fn no_addition_is_lost_on_threads() {
    for kind in KINDS {
        let cpus = 4;
        let mut registry = Registry::new(cpus, cpus);
        let lock = Arc::new(AnyLock::new(&mut registry, kind));
        let options = threads::Options {
            seed: 1,
            cpus,
            locks: registry.names().class_of_lock.len(),
            pace: Pace::FlatOut,
            ring_records: 0,
            clock: || 0,
        };
        let run = Run::new(options, Profile::default());
        std::thread::scope(|scope| {
            for cpu in 0..cpus {
                let (run, lock) = (&run, &lock);
                scope.spawn(move || {
                    let task = ThreadTask::new(run, CpuId(cpu));
                    run.drive(CpuId(cpu), async {
                        for _ in 0..2_000 {
                            lock.add(&task, Nanoseconds(0)).await;
                        }
                    })
                });
            }
        });
        assert_eq!(lock.total(), 8_000, "{kind}");
    }
}

/// Who waited for the lock longest, in acquisitions by others that asked later.
fn overtaken(events: &[Event]) -> usize {
    let mut waiting: Vec<(u64, usize)> = Vec::new();
    let mut running = std::collections::BTreeMap::new();
    let mut worst = 0;
    for event in events {
        if event.kind == Kind::Run {
            running.insert(event.cpu, event.argument);
        }
        let Some(task) = running.get(&event.cpu).copied() else {
            continue;
        };
        match event.kind {
            Kind::LockContended if event.object == 0 => waiting.push((task, 0)),
            Kind::LockAcquired if event.object == 0 => {
                let place = waiting.iter().position(|(waiter, _)| *waiter == task);
                let before = place.unwrap_or(waiting.len());
                for (_, passed) in waiting.iter_mut().take(before) {
                    *passed += 1;
                    worst = worst.max(*passed);
                }
                if let Some(place) = place {
                    waiting.remove(place);
                }
            }
            _ => {}
        }
    }
    worst
}

#[test]
fn queued_and_ticket_locks_serve_in_order() {
    for kind in ["queued", "ticket in one word", "ticket on two lines"] {
        let (events, _) = hammer(kind, Profile::default(), 16, 16, 60);
        // Whoever says "contended" first may reach the line second.
        let worst = overtaken(&events);
        assert!(worst <= 4, "{kind}: {worst} others went before one that waited");
    }
}

#[test]
fn handing_over_bounds_how_often_a_waiter_is_passed() {
    let passed = |kind| {
        let mut profile = Profile::default();
        profile.scheduler.wake_near_ns = 50_000;
        profile.scheduler.wake_far_ns = 50_000;
        let (events, _) = hammer(kind, profile, 8, 8, 200);
        overtaken(&events)
    };
    let (steals, hands_over) = (passed("mutex that sleeps"), passed("mutex that hands over"));
    assert!(
        steals > 100,
        "stealing is to be seen, but nobody was passed more than {steals} times"
    );
    assert!(hands_over < steals, "handed over {hands_over}, stolen {steals}");
}

#[test]
fn spinners_of_a_mutex_stop_when_its_owner_sleeps() {
    let mut registry = Registry::new(2, 2);
    let mutex = Rc::new(Mutex::new(&mut registry, "slept in", Waiting::SpinOnOwner, ()));
    let machine = virtual_machine(&registry, Profile::default(), 2, 2);
    let events = run(&machine, 2, |task| {
        let mutex = mutex.clone();
        async move {
            if task.id() == TaskId(1) {
                task.work_for(Nanoseconds(1_000)).await;
            }
            let guard = mutex.acquire(&task).await;
            task.work_for(Nanoseconds(10_000)).await;
            task.sleep_until(task.now() + Nanoseconds(1_000_000)).await;
            guard.release(&task).await;
        }
    });
    let slept = events
        .iter()
        .find(|event| event.kind == Kind::Sleep && event.argument == 1)
        .expect("the spinner gives up");
    assert!(
        (10_000..50_000).contains(&slept.time_ns),
        "at {} ns",
        slept.time_ns
    );
}

#[test]
fn readers_go_side_by_side_and_a_writer_alone() {
    let mut registry = Registry::new(8, 8);
    let lock = Rc::new(RwSemaphore::new(&mut registry, "tree", 0u64));
    let inside: Rc<RefCell<(u32, u32)>> = Rc::default();
    let machine = virtual_machine(&registry, Profile::default(), 8, 8);
    run(&machine, 8, |task| {
        let (lock, inside) = (lock.clone(), inside.clone());
        async move {
            for _ in 0..50 {
                if task.id().0 < 6 {
                    let guard = lock.read(&task).await;
                    inside.borrow_mut().0 += 1;
                    let (now, most) = *inside.borrow();
                    inside.borrow_mut().1 = most.max(now);
                    task.work_for(Nanoseconds(5_000)).await;
                    inside.borrow_mut().0 -= 1;
                    guard.release(&task).await;
                } else {
                    let mut guard = lock.write(&task).await;
                    assert_eq!(inside.borrow().0, 0, "a reader is in with a writer");
                    *guard.data += 1;
                    task.work_for(Nanoseconds(2_000)).await;
                    guard.release(&task).await;
                }
            }
        }
    });
    assert_eq!(*lock.peek_data(), 100);
    assert!(inside.borrow().1 > 3, "readers never met");
}

#[test]
fn a_grace_period_outlasts_every_reader_of_before() {
    let registry = Registry::new(4, 4);
    let rcu = Rc::new(Rcu::new(4));
    let left: Rc<RefCell<Vec<u64>>> = Rc::default();
    let freed: Rc<RefCell<u64>> = Rc::default();
    let machine = virtual_machine(&registry, Profile::default(), 4, 4);
    run(&machine, 4, |task| {
        let (rcu, left, freed) = (rcu.clone(), left.clone(), freed.clone());
        async move {
            if task.id() == TaskId(0) {
                task.work_for(Nanoseconds(1_000)).await;
                rcu.synchronize(&task).await;
                *freed.borrow_mut() = task.now().0;
            } else {
                let section = rcu.enter(&task);
                task.work_for(Nanoseconds(9_000_000 * u64::from(task.id().0)))
                    .await;
                section.leave(&task);
                left.borrow_mut().push(task.now().0);
            }
        }
    });
    let last = left.borrow().iter().copied().max().expect("three readers");
    assert!(*freed.borrow() >= last);
}

#[test]
fn a_preemption_model_decides_how_long_a_real_time_task_waits() {
    // A normal task works for 10 ms at a stretch, holding a spin lock for 2 ms of it, with a place to sleep after 5 ms.
    let wait_ns = |preemption| {
        let mut profile = Profile::default();
        profile.scheduler.preemption = preemption;
        let mut registry = Registry::new(1, 2);
        let lock = Rc::new(SpinLock::new(&mut registry, "held", ()));
        let machine = virtual_machine(&registry, profile, 1, 2);
        let late: Rc<RefCell<u64>> = Rc::default();
        run(&machine, 2, |task| {
            let (late, lock) = (late.clone(), lock.clone());
            async move {
                if task.id() == TaskId(0) {
                    task.set_class(Class::RealTime);
                    let due = Nanoseconds(500_000);
                    task.sleep_until(due).await;
                    *late.borrow_mut() = (task.now() - due).0;
                } else {
                    let guard = lock.acquire(&task).await;
                    task.work_for(Nanoseconds(2_000_000)).await;
                    guard.release(&task).await;
                    task.work_for(Nanoseconds(3_000_000)).await;
                    task.might_sleep().await;
                    task.work_for(Nanoseconds(5_000_000)).await;
                    task.cond_resched().await;
                }
            }
        });
        let waited = *late.borrow();
        waited / 1_000_000
    };
    assert_eq!(wait_ns(Preemption::Full), 1, "until the spin lock is given back");
    assert_eq!(
        wait_ns(Preemption::Voluntary),
        4,
        "until the place where it might sleep"
    );
    assert_eq!(wait_ns(Preemption::None), 9, "until it asks");
}

#[test]
fn timers_wait_while_interrupts_are_off() {
    let registry = Registry::new(1, 2);
    let machine = virtual_machine(&registry, Profile::default(), 1, 2);
    let woke: Rc<RefCell<u64>> = Rc::default();
    run(&machine, 2, |task| {
        let woke = woke.clone();
        async move {
            if task.id() == TaskId(0) {
                task.set_class(Class::RealTime);
                task.sleep_until(Nanoseconds(100_000)).await;
                *woke.borrow_mut() = task.now().0;
            } else {
                task.interrupts_off();
                task.work_for(Nanoseconds(1_000_000)).await;
                task.interrupts_on();
                task.cond_resched().await;
                task.work_for(Nanoseconds(1_000)).await;
                task.cond_resched().await;
            }
        }
    });
    assert!(*woke.borrow() > 1_000_000, "woke at {} ns", woke.borrow());
}

#[test]
fn more_tasks_than_cpus_take_turns_fairly() {
    let registry = Registry::new(2, 6);
    let machine = virtual_machine(&registry, Profile::default(), 2, 6);
    let ends: Rc<RefCell<Vec<u64>>> = Rc::default();
    let events = run(&machine, 6, |task| {
        let ends = ends.clone();
        async move {
            for _ in 0..1_000 {
                task.work_for(Nanoseconds(100_000)).await;
                task.cond_resched().await;
            }
            ends.borrow_mut().push(task.now().0);
        }
    });
    let ends = ends.borrow();
    // Three tasks share a CPU: 300 ms each, and all end within a few slices of each other.
    let (first, last) = (ends[0], ends[5]);
    assert!((280_000_000..320_000_000).contains(&last), "{last}");
    assert!(last - first < 20_000_000, "{first} to {last}");
    let preempted = events.iter().filter(|event| event.kind == Kind::Preempt).count();
    assert!(
        (150..260).contains(&preempted),
        "{preempted} switches in 600 ms of work"
    );
}
