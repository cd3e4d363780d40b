//! Runs of the machine against results that are known in closed form.

use std::{cell::Cell, rc::Rc};

use machine::{
    Arbitration, Halves, LineCosts, Nanoseconds, Profile, Registry, SpinLock, Stream, Task, TaskId,
    TicketLock, Travel, Word,
    virtual_time::{Progress, Tasks, Trace, Virtual, VirtualOptions, VirtualTask},
};

/// A machine on which only `transfer_ns` of a line costs anything, and reads queue up fully.
fn bare(transfer_ns: u64) -> Profile {
    let travel = Travel {
        transfer_ns,
        upgrade_ns: 0,
    };
    let mut profile = *Profile::named("ramdisk-32").expect("it comes with the program");
    profile.topology.cores = 64;
    profile.lines = LineCosts {
        atomic_ns: 0,
        hit_ns: 0,
        same_core: travel,
        same_socket: travel,
        other_socket: travel,
        read_occupancy_percent: 200,
        arbitration: Arbitration::WritesFirst,
    };
    profile
}

fn machine(profile: Profile, registry: &Registry, cpus: u16) -> Rc<Virtual> {
    Virtual::new(VirtualOptions {
        seed: 11,
        profile,
        cpus,
        tasks: cpus,
        lines: registry.lines(),
        trace: Trace::Off,
    })
}

/// Exponentially distributed, with this mean.
fn exponential(task: &impl Task, mean_ns: f64) -> Nanoseconds {
    let uniform = (task.random(Stream::Size) >> 11) as f64 / (1u64 << 53) as f64;
    Nanoseconds((-libm::log(1.0 - uniform) * mean_ns) as u64)
}

/// Runs one task per CPU, and returns the rounds per nanosecond of all together.
fn throughput<F: Future<Output = ()> + 'static>(
    machine: &Rc<Virtual>,
    cpus: u16,
    rounds: u64,
    job: impl Fn(VirtualTask) -> F,
) -> f64 {
    let mut tasks: Tasks = Vec::new();
    for task in 0..cpus {
        tasks.push(Some(Box::pin(job(machine.task(TaskId(task))))));
    }
    assert_eq!(machine.step(&mut tasks, u64::MAX), Progress::Finished);
    (rounds * u64::from(cpus)) as f64 / machine.now_ns() as f64
}

fn close(what: &str, got: f64, wanted: f64, percent: f64) {
    let off = (got / wanted - 1.0) * 100.0;
    assert!(
        off.abs() <= percent,
        "{what}: {got:.6} instead of {wanted:.6}, {off:+.2} %"
    );
}

/// The chain of Boyd-Wickizer et al. 2012: throughput of `n` cores that ask for a lock `a_ns` after they gave it
/// back, hold it for `s_ns`, and with `k` waiting need `c_ns * k / 2` more to hand it over. `c_ns` = 0 is M/M/1//n.
fn chain(n: u16, a_ns: f64, s_ns: f64, c_ns: f64) -> f64 {
    let service = |k: u16| 1.0 / (s_ns + c_ns * f64::from(k) / 2.0);
    let mut weights = vec![1.0];
    for k in 0..n {
        let arrival = f64::from(n - k) / a_ns;
        weights.push(weights[usize::from(k)] * arrival / service(k));
    }
    let sum: f64 = weights.iter().sum();
    (0..n)
        .map(|k| weights[usize::from(k) + 1] / sum * service(k))
        .sum()
}

#[test]
fn one_lock_with_free_transfers_is_the_machine_repair_model() {
    for (cpus, rounds) in [
        (1, 200_000),
        (2, 100_000),
        (4, 60_000),
        (16, 30_000),
        (64, 10_000),
    ] {
        let mut registry = Registry::new(cpus, cpus);
        let lock = Rc::new(SpinLock::new(&mut registry, "server", ()));
        let machine = machine(bare(0), &registry, cpus);
        let got = throughput(&machine, cpus, rounds, |task| {
            let lock = lock.clone();
            async move {
                for _ in 0..rounds {
                    task.work_for(exponential(&task, 8_000.0)).await;
                    let guard = lock.acquire(&task).await;
                    task.work_for(exponential(&task, 1_000.0)).await;
                    guard.release(&task).await;
                }
            }
        });
        close(
            &format!("{cpus} CPUs"),
            got,
            chain(cpus, 8_000.0, 1_000.0, 0.0),
            1.0,
        );
    }
}

/// Rounds per nanosecond of `cpus` CPUs that think for 20 µs and hold the lock for 0.4 µs, exponentially.
macro_rules! under_lock {
    ($cpus:expr, $transfer_ns:expr, $lock:expr) => {{
        let cpus: u16 = $cpus;
        let rounds = 200_000 / u64::from(cpus);
        let mut registry = Registry::new(cpus, cpus);
        let lock = Rc::new(($lock)(&mut registry));
        let machine = machine(bare($transfer_ns), &registry, cpus);
        throughput(&machine, cpus, rounds, |task| {
            let lock = lock.clone();
            async move {
                for _ in 0..rounds {
                    task.work_for(exponential(&task, THINK_NS)).await;
                    let guard = lock.acquire(&task).await;
                    task.work_for(exponential(&task, HOLD_NS)).await;
                    guard.release(&task).await;
                }
            }
        })
    }};
}

const THINK_NS: f64 = 20_000.0;
const HOLD_NS: f64 = 400.0;
/// A read keeps its line for twice its way in [`bare`].
const TRANSFER_NS: u64 = 50;

fn tickets(halves: Halves) -> impl Fn(&mut Registry) -> TicketLock<()> {
    move |registry| TicketLock::new(registry, "ticket", halves, ())
}

#[test]
fn tickets_follow_the_chain_of_boyd_wickizer_and_collapse() {
    let mut best: f64 = 0.0;
    let mut last = 0.0;
    for cpus in [1, 2, 4, 8, 16, 24, 32, 40, 48, 64] {
        let got = under_lock!(cpus, TRANSFER_NS, tickets(Halves::OwnLines));
        let knee = cpus == 32;
        let wanted = chain(cpus, THINK_NS, HOLD_NS, 2.0 * TRANSFER_NS as f64);
        close(
            &format!("{cpus} CPUs"),
            got,
            wanted,
            if knee { 10.0 } else { 5.0 },
        );
        best = best.max(got);
        last = got;
    }
    assert!(
        last < 0.3 * best,
        "64 CPUs do {last}, fewer did {best}: no collapse"
    );
}

#[test]
fn tickets_in_one_word_collapse_earlier() {
    let own = under_lock!(32, TRANSFER_NS, tickets(Halves::OwnLines));
    let one = under_lock!(32, TRANSFER_NS, tickets(Halves::OneLine));
    assert!(one < 0.9 * own, "in one word {one}, on two lines {own}");
}

#[test]
fn a_queued_lock_does_not_collapse() {
    let queued = |registry: &mut Registry| SpinLock::new(registry, "queued", ());
    let mut best: f64 = 0.0;
    for cpus in [1, 8, 16, 24, 32, 40, 48, 64, 128, 256] {
        let got = under_lock!(cpus, TRANSFER_NS, queued);
        assert!(got > 0.97 * best, "{cpus} CPUs do {got}, fewer did {best}");
        best = best.max(got);
    }
    // Saturated, a hand-over costs a few transfers, whatever the number of waiters.
    let handover_ns = 1.0 / best - HOLD_NS;
    assert!(
        (0.0..6.0 * TRANSFER_NS as f64).contains(&handover_ns),
        "{handover_ns} ns"
    );
}

#[test]
fn what_is_serial_bounds_the_rest() {
    // A tenth of the work is under the lock: Amdahl's limit is ten.
    let speedup = |cpus| {
        let mut registry = Registry::new(cpus, cpus);
        let lock = Rc::new(SpinLock::new(&mut registry, "serial", ()));
        let machine = machine(bare(0), &registry, cpus);
        throughput(&machine, cpus, 2_000, |task| {
            let lock = lock.clone();
            async move {
                for _ in 0..2_000 {
                    task.work_for(Nanoseconds(9_000)).await;
                    let guard = lock.acquire(&task).await;
                    task.work_for(Nanoseconds(1_000)).await;
                    guard.release(&task).await;
                }
            }
        }) * 10_000.0
    };
    close("1 CPU", speedup(1), 1.0, 0.1);
    close("10 CPUs", speedup(10), 10.0, 1.0);
    close("64 CPUs", speedup(64), 10.0, 1.0);
}

/// McKenney's table for the Xeon Platinum 8176, in ns. The compare-exchanges are what the profile's inputs were taken
/// from; the pair of lock and unlock is predicted.
#[test]
fn what_a_lock_costs_follows_from_what_lines_cost() {
    let profile = *Profile::named("c5.2xlarge").expect("it comes with the program");
    // A load and a compare-exchange on a line that CPU 0 has written.
    let exchange = |cpu: u16| {
        let mut registry = Registry::new(16, 16);
        let word = Rc::new(Word::new(0, registry.line()));
        let machine = machine(profile, &registry, 16);
        let took: Rc<Cell<u64>> = Rc::default();
        throughput(&machine, 16, 1, |task| {
            let (word, took) = (word.clone(), took.clone());
            async move {
                if task.id() == TaskId(0) {
                    task.store(&word, 1).await;
                } else if task.id() == TaskId(cpu) {
                    task.work_for(Nanoseconds(10_000)).await;
                    let begun = task.now();
                    let seen = task.load(&word).await;
                    let swapped = task.update(&word, |value| (value == seen).then_some(2)).await;
                    assert_eq!(swapped, Ok(1));
                    took.set((task.now() - begun).0);
                }
            }
        });
        took.get() as f64
    };
    let pair = {
        let mut registry = Registry::new(1, 1);
        let lock = Rc::new(SpinLock::new(&mut registry, "own", ()));
        let machine = machine(profile, &registry, 1);
        1.0 / throughput(&machine, 1, 1_000, |task| {
            let lock = lock.clone();
            async move {
                for _ in 0..1_000 {
                    lock.acquire(&task).await.release(&task).await;
                }
            }
        })
    };
    for (what, simulated, published, percent) in [
        ("lock and unlock, own cache", pair, 15.4, 10.0),
        ("compare-exchange, other core", exchange(1), 101.9, 1.0),
        ("compare-exchange, other socket", exchange(8), 442.9, 1.0),
    ] {
        println!("{what}: {simulated:.1} ns, published {published} ns");
        close(what, simulated, published, percent);
    }
}
