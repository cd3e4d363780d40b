//! Each CPU is a thread or a web worker of its own; locks are real atomics.
//!
//! A whole run is one poll: a primitive that waits blocks inside it. The only `Pending` is "stopped": the driver then
//! drops the future, which drops its guards, so that Stop works without unwinding. In **slow motion** `work` holds the
//! CPU for cost × dilation of real time, a word that another CPU has changed costs a transfer, and a CPU that spins waits on the word instead of burning the host's core.
//! **Flat out** `work` costs nothing, and only counters are kept.

mod control;
mod counters;
mod ring;
mod run;
mod task;

pub use control::Dilation;
pub use counters::{CpuReport, LockCount};
pub use ring::Merge;
pub use run::{Ending, Options, Pace, Phase, Run};
pub use task::ThreadTask;

#[cfg(test)]
mod tests;
