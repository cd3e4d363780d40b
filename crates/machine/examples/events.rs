//! Events per second of virtual time: a closed queueing model, `CPUS` customers around one server.
//!
//! Usage: `events [CPUS] [EVENTS] [off|on]`. An event is one resumption of a task.

#![expect(clippy::disallowed_types, reason = "a bench has a clock")]

use std::{rc::Rc, time::Instant};

use machine::{
    Nanoseconds, Profile, Registry, Stream, Task, TaskId,
    virtual_time::{Progress, Tasks, Trace, Virtual, VirtualOptions},
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (cpus, events) = (number(0, 32) as u16, number(1, 20_000_000));
    let trace = match arguments.get(2).map(String::as_str) {
        Some("on") => Trace::On,
        _ => Trace::Off,
    };
    let mut registry = Registry::new(cpus, cpus);
    let lock = Rc::new(machine::SpinLock::new(&mut registry, "server", ()));
    let machine = Virtual::new(VirtualOptions {
        seed: 1,
        profile: Profile::default(),
        cpus,
        tasks: cpus,
        lines: registry.lines(),
        trace,
    });
    let mut tasks: Tasks = Vec::new();
    for number in 0..cpus {
        let (task, lock) = (machine.task(TaskId(number)), lock.clone());
        tasks.push(Some(Box::pin(async move {
            loop {
                task.work_for(Nanoseconds(task.random(Stream::Size) % 40_000))
                    .await;
                let guard = lock.acquire(&task).await;
                task.work_for(Nanoseconds(task.random(Stream::Choice) % 1_000))
                    .await;
                guard.release(&task).await;
            }
        })));
    }
    let begun = Instant::now();
    let mut left = events;
    while left > 0 {
        let part = left.min(100_000);
        assert_eq!(machine.step(&mut tasks, part), Progress::More);
        machine.take_events(usize::MAX);
        left -= part;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{cpus} CPUs, trace {trace:?}: {:.1} M events/s",
        events as f64 / seconds / 1e6
    );
}
