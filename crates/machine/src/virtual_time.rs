//! Discrete events in one thread: virtual nanoseconds, seeded, exactly repeatable on every platform.
//!
//! One task per CPU. Every word lies on a cache line that has sharers and an owner; a line that has to travel is busy
//! for that long, so that transfers queue up.

mod executor;
mod lines;
mod task;

pub use executor::{Progress, Tasks, Virtual, VirtualOptions};
pub use task::VirtualTask;

#[cfg(test)]
mod tests;
