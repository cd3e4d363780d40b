//! Discrete events in one thread: virtual nanoseconds, seeded, exactly repeatable on every platform.
//!
//! Every word lies on a cache line that has sharers and an owner; a line that has to travel is busy for that long, so
//! that transfers queue up. There may be more tasks than CPUs: they take turns as the profile's scheduler says.

mod executor;
mod lines;
mod scheduler;
mod task;

pub use executor::{CPUS_MAX, Progress, Tasks, Trace, Virtual, VirtualOptions};
pub use task::VirtualTask;

#[cfg(test)]
mod tests;
