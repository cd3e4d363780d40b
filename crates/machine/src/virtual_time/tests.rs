use std::{cell::Cell, rc::Rc};

use trace::Kind;

use super::*;
use crate::{Cost, CpuId, LineId, Nanoseconds, Profile, Registry, SpinLock, Stream, Task, TaskId, Word};

fn machine(registry: &Registry, seed: u64, cpus: u16) -> Rc<Virtual> {
    Virtual::new(VirtualOptions {
        seed,
        profile: Profile::default(),
        cpus,
        tasks: cpus,
        lines: registry.lines(),
        trace: Trace::On,
    })
}

/// `cpus` tasks add 1 to a counter under one lock, `rounds` times each.
fn count_under_lock(seed: u64, cpus: u16, rounds: u32) -> (u64, Vec<trace::Numbered>) {
    let mut registry = Registry::new(cpus, cpus);
    let lock = Rc::new(SpinLock::new(&mut registry, "counter", 0u64));
    let machine = machine(&registry, seed, cpus);
    let mut tasks: Tasks = Vec::new();
    for cpu in 0..cpus {
        let (task, lock) = (machine.task(TaskId(cpu)), lock.clone());
        tasks.push(Some(Box::pin(async move {
            for _ in 0..rounds {
                for _ in 0..task.random(Stream::Choice) % 3 {
                    task.work(Cost::Hash).await;
                }
                let mut guard = lock.acquire(&task).await;
                let before = *guard.data;
                task.work(Cost::HashChainStep).await;
                *guard.data = before + 1;
                guard.release(&task).await;
            }
        })));
    }
    assert_eq!(machine.step(&mut tasks, u64::MAX), Progress::Finished);
    let total = Rc::into_inner(lock)
        .map(|lock| lock.into_data())
        .unwrap_or_default();
    (total, machine.take_events(usize::MAX))
}

#[test]
fn no_addition_under_the_lock_is_lost() {
    for cpus in [1, 2, 7, 32, 64] {
        assert_eq!(count_under_lock(1, cpus, 50).0, u64::from(cpus) * 50);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    assert_eq!(count_under_lock(5, 8, 40), count_under_lock(5, 8, 40));
    assert_ne!(count_under_lock(5, 8, 40).1, count_under_lock(6, 8, 40).1);
}

#[test]
fn the_queue_is_first_come_first_served() {
    let (_, events) = count_under_lock(3, 16, 30);
    let mut queue = Vec::new();
    let mut contended = 0;
    for event in events.iter().map(|record| record.event) {
        match event.kind {
            Kind::LockContended => queue.push(event.cpu),
            Kind::LockAcquired => {
                if let Some(at) = queue.iter().position(|cpu| *cpu == event.cpu) {
                    // Two CPUs may say "contended" in one order and reach the tail's line in the other.
                    assert!(at <= 1, "CPU {} overtook {at} others", event.cpu);
                    queue.remove(at);
                    contended += 1;
                }
            }
            _ => {}
        }
    }
    assert!(
        contended > 100,
        "only {contended} acquisitions were contended: the test shows nothing"
    );
}

#[test]
fn one_holder_at_a_time_in_the_trace() {
    let (_, events) = count_under_lock(4, 12, 30);
    let mut holder = None;
    for event in events.iter().map(|record| record.event) {
        match event.kind {
            Kind::LockAcquired => assert_eq!(holder.replace(event.cpu), None),
            Kind::LockReleased => assert_eq!(holder.take(), Some(event.cpu)),
            _ => {}
        }
    }
}

#[test]
fn a_failing_try_only_reads() {
    let mut registry = Registry::new(2, 2);
    let lock = Rc::new(SpinLock::new(&mut registry, "tried", ()));
    let machine = machine(&registry, 1, 2);
    let failed = Rc::new(Cell::new(0));
    let (holder, trier) = (machine.task(TaskId(0)), machine.task(TaskId(1)));
    let (lock_a, lock_b, failed_b) = (lock.clone(), lock.clone(), failed.clone());
    let mut tasks: Tasks = vec![
        Some(Box::pin(async move {
            let guard = lock_a.acquire(&holder).await;
            holder.work(Cost::RestOfTruncate).await;
            guard.release(&holder).await;
        })),
        Some(Box::pin(async move {
            trier.work(Cost::InodeFill).await;
            for _ in 0..10 {
                assert!(lock_b.try_acquire(&trier).await.is_none());
                failed_b.set(failed_b.get() + 1);
            }
        })),
    ];
    machine.step(&mut tasks, u64::MAX);
    assert_eq!(failed.get(), 10);
    // One transfer to read it the first time; the other nine read the copy.
    assert_eq!(machine.count(CpuId(1), Kind::LineTransfer), 1);
}

#[test]
fn a_sleeper_wakes_by_change_or_by_deadline() {
    let mut registry = Registry::new(3, 3);
    let line = registry.line();
    let word = Rc::new(Word::new(0, line));
    let machine = machine(&registry, 1, 3);
    let woken: Rc<Cell<[u64; 2]>> = Rc::default();
    let sleeper = |cpu: u16, deadline: Option<Nanoseconds>| {
        let (task, word, woken) = (machine.task(TaskId(cpu)), word.clone(), woken.clone());
        async move {
            task.sleep_while(&word, 0, deadline).await;
            let mut times = woken.get();
            times[usize::from(cpu)] = task.now().0;
            woken.set(times);
        }
    };
    let (changer, changed) = (machine.task(TaskId(2)), word.clone());
    let mut tasks: Tasks = vec![
        Some(Box::pin(sleeper(0, None))),
        Some(Box::pin(sleeper(1, Some(Nanoseconds(2_000))))),
        Some(Box::pin(async move {
            changer.work(Cost::RestOfTruncate).await;
            changer.store(&changed, 1).await;
        })),
    ];
    assert_eq!(machine.step(&mut tasks, u64::MAX), Progress::Finished);
    let profile = Profile::default();
    let (rest_ns, wake_ns) = (profile.costs.rest_of_truncate_ns, profile.scheduler.wake_near_ns);
    let [by_change, by_deadline] = woken.get();
    assert!(by_change >= rest_ns + wake_ns, "woke at {by_change} ns");
    assert!((2_000 + wake_ns..rest_ns + wake_ns).contains(&by_deadline));
}

#[test]
fn a_word_that_nobody_changes_is_a_deadlock() {
    let mut registry = Registry::new(1, 1);
    let word = Rc::new(Word::new(0, LineId(0)));
    registry.line();
    let machine = machine(&registry, 1, 1);
    let task = machine.task(TaskId(0));
    let mut tasks: Tasks = vec![Some(Box::pin(async move {
        task.spin_while(&word, 0).await;
    }))];
    assert_eq!(machine.step(&mut tasks, u64::MAX), Progress::Deadlock);
}
