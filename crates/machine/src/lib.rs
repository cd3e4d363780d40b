//! Simulated CPUs, clocks and locks: one interface, several back ends.
//!
//! An algorithm is written once, as `async` code over a [`Task`]. A back end gives the task six awaitable primitives
//! on shared [`Word`]s; every lock is written once over these. [`virtual_time`] runs tasks as discrete events in one
//! thread, exactly repeatable; [`threads`] runs each on a thread or web worker of its own. Knows nothing of ext4.

#![forbid(unsafe_code)]

mod bit_lock;
mod cost;
mod registry;
mod spin_lock;
mod task;
pub mod threads;
pub mod virtual_time;
mod word;

pub use bit_lock::BitLock;
pub use cost::{Cost, CostTable};
pub use registry::{LineId, LockId, LockNames, Registry};
pub use spin_lock::{SpinGuard, SpinLock};
pub use task::{CpuId, Draws, Nanoseconds, Stream, Task};
pub use word::Word;
