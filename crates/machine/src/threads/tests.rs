#![expect(clippy::disallowed_types, reason = "a native test has a clock")]

use std::{
    sync::{Arc, LazyLock},
    thread,
    time::{Duration, Instant},
};

use trace::Kind;

use super::*;
use crate::{Cost, CpuId, Profile, Registry, SpinLock, Task};

fn clock() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

struct Counting {
    run: Run,
    lock: SpinLock<u64>,
}

fn counting(cpus: u16, pace: Pace, ring_records: usize) -> Arc<Counting> {
    let mut registry = Registry::new(cpus, cpus);
    let lock = SpinLock::new(&mut registry, "counter", 0);
    let options = Options {
        seed: 1,
        cpus,
        locks: 1,
        pace,
        ring_records,
        clock,
    };
    Arc::new(Counting {
        run: Run::new(options, Profile::default()),
        lock,
    })
}

async fn count<K: Task>(task: &K, lock: &SpinLock<u64>, rounds: u64) -> u64 {
    let mut done = 0;
    while done < rounds && !task.stopping() {
        task.emit(Kind::OperationBegin, 1, 0);
        let mut guard = lock.acquire(task).await;
        let before = *guard.data;
        task.work(Cost::HashChainStep).await;
        *guard.data = before + 1;
        guard.release(task).await;
        task.emit(Kind::OperationEnd, 1, 0);
        done += 1;
    }
    done
}

fn start(model: &Arc<Counting>, rounds: u64) -> Vec<thread::JoinHandle<Option<u64>>> {
    (0..model.run.options.cpus)
        .map(|cpu| {
            let model = model.clone();
            thread::spawn(move || {
                let task = ThreadTask::new(&model.run, CpuId(cpu));
                model.run.drive(CpuId(cpu), count(&task, &model.lock, rounds))
            })
        })
        .collect()
}

fn totals(model: &Counting) -> u64 {
    (0..model.run.options.cpus)
        .map(|cpu| model.run.report(CpuId(cpu)).count(Kind::OperationEnd))
        .sum()
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "waited 20 s for: {what}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn flat_out_no_addition_is_lost() {
    let model = counting(4, Pace::FlatOut, 0);
    let done: u64 = start(&model, 20_000)
        .into_iter()
        .map(|cpu| cpu.join().unwrap().unwrap())
        .sum();
    assert_eq!(done, 80_000);
    assert_eq!(*model.lock.peek_data(), 80_000);
    assert_eq!(totals(&model), 80_000);
    assert_eq!(model.run.ending(), Some(Ending::Finished));
    let locks: u64 = (0..4)
        .map(|cpu| model.run.report(CpuId(cpu)).locks[0].acquired)
        .sum();
    assert_eq!(locks, 80_000);
}

#[test]
fn slow_motion_numbers_every_event_and_shows_one_holder() {
    let model = counting(8, Pace::SlowMotion(Dilation(1_000)), 64);
    let cpus = start(&model, 20);
    let mut events = Vec::new();
    wait_for("the end", || {
        events.extend(model.run.drain(1_000));
        model.run.ending().is_some()
    });
    events.extend(model.run.drain(usize::MAX));
    cpus.into_iter().for_each(|cpu| drop(cpu.join()));
    let mut holder = None;
    for (at, record) in events.iter().enumerate() {
        assert_eq!(record.number, at as u64);
        match record.event.kind {
            Kind::LockAcquired => assert_eq!(holder.replace(record.event.cpu), None),
            Kind::LockReleased => assert_eq!(holder.take(), Some(record.event.cpu)),
            _ => {}
        }
    }
    let ends = events
        .iter()
        .filter(|record| record.event.kind == Kind::OperationEnd)
        .count();
    assert_eq!(ends, 160);
}

#[test]
fn a_full_ring_holds_the_cpu_up_until_somebody_reads() {
    let model = counting(1, Pace::SlowMotion(Dilation(1)), 16);
    let cpus = start(&model, 50);
    thread::sleep(Duration::from_millis(100));
    assert!(totals(&model) < 6, "16 records hold the events of 3 operations");
    wait_for("the end", || {
        model.run.drain(16);
        model.run.ending().is_some()
    });
    cpus.into_iter().for_each(|cpu| drop(cpu.join()));
    assert_eq!(totals(&model), 50);
}

#[test]
fn pause_holds_every_cpu_and_a_step_moves_one() {
    let model = counting(4, Pace::SlowMotion(Dilation(1_000)), 1 << 12);
    let cpus = start(&model, u64::MAX);
    wait_for("some operations", || totals(&model) > 4);
    model.run.pause();
    // On a busy host a thread may have been put aside in the middle of an event.
    thread::sleep(Duration::from_millis(600));
    model.run.drain(usize::MAX);
    let held_at = model.run.elapsed_ns();
    thread::sleep(Duration::from_millis(150));
    assert_eq!(model.run.drain(usize::MAX), []);
    assert_eq!(model.run.elapsed_ns(), held_at);
    // Whoever holds the lock, or nobody: some CPU can move.
    let mut moved = Vec::new();
    for cpu in 0..4 {
        model.run.step(CpuId(cpu));
        thread::sleep(Duration::from_millis(150));
        moved.extend(
            model
                .run
                .drain(usize::MAX)
                .into_iter()
                .map(|record| record.event.cpu),
        );
    }
    assert!(!moved.is_empty() && moved.len() <= 4, "{moved:?}");
    model.run.resume();
    let before = totals(&model);
    wait_for("more operations", || {
        model.run.drain(usize::MAX);
        totals(&model) > before + 4
    });
    model.run.stop();
    cpus.into_iter().for_each(|cpu| drop(cpu.join()));
    assert_eq!(model.run.ending(), Some(Ending::Drained));
}

#[test]
fn stop_finishes_operations_even_while_paused_and_with_nobody_reading() {
    for paused in [true, false] {
        let model = counting(8, Pace::SlowMotion(Dilation(10_000_000)), 1 << 10);
        let cpus = start(&model, u64::MAX);
        thread::sleep(Duration::from_millis(50));
        if paused {
            model.run.pause();
        }
        let begun = Instant::now();
        model.run.stop();
        let done: Vec<_> = cpus.into_iter().map(|cpu| cpu.join().unwrap()).collect();
        assert!(
            begun.elapsed() < Duration::from_millis(1_500),
            "{:?}",
            begun.elapsed()
        );
        assert!(
            done.iter().all(Option::is_some),
            "operations are short: all can be finished"
        );
        assert_eq!(model.run.ending(), Some(Ending::Drained));
        assert_eq!(totals(&model), *model.lock.peek_data());
    }
}

#[test]
fn what_cannot_be_finished_is_dropped_after_a_second() {
    let model = counting(2, Pace::SlowMotion(Dilation(1)), 1 << 12);
    let stuck = {
        let model = model.clone();
        thread::spawn(move || {
            let task = ThreadTask::new(&model.run, CpuId(0));
            model.run.drive(CpuId(0), async {
                let guard = model.lock.acquire(&task).await;
                std::future::pending::<()>().await;
                guard.release(&task).await;
            })
        })
    };
    assert_eq!(stuck.join().unwrap(), None);
    let waiter = {
        let model = model.clone();
        thread::spawn(move || {
            let task = ThreadTask::new(&model.run, CpuId(1));
            model.run.drive(CpuId(1), count(&task, &model.lock, 1))
        })
    };
    wait_for("the spin", || model.run.phase(CpuId(1)) == Phase::Spinning);
    let begun = Instant::now();
    model.run.stop();
    assert_eq!(waiter.join().unwrap(), None);
    assert!(begun.elapsed() < Duration::from_millis(1_500));
    assert_eq!(model.run.ending(), Some(Ending::Dropped));
}
