//! Simulated CPUs, clocks and locks: one interface, several back ends.
//!
//! An algorithm is written once, as `async` code over a [`Task`]. A back end gives the task six awaitable primitives
//! on shared [`Word`]s; every lock is written once over these. [`virtual_time`] runs tasks as discrete events in one
//! thread, exactly repeatable; [`threads`] runs each on a thread or web worker of its own. Knows nothing of ext4.

#![forbid(unsafe_code)]

mod bit_lock;
mod cost;
mod device;
pub mod explore;
mod mutex;
mod profile;
mod rcu;
mod registry;
mod rw_semaphore;
mod spin_lock;
mod task;
mod test_and_set;
pub mod threads;
mod ticket_lock;
mod timer;
mod topology;
pub mod virtual_time;
mod word;

pub use bit_lock::{BitGuard, BitLock};
pub use cost::{Cost, CostTable};
pub use device::{Device, Request};
pub use mutex::{Mutex, MutexGuard, Waiting};
pub use profile::{
    Arbitration, DeviceSpec, LineCosts, PROFILES, Preemption, Profile, ProfileNumber, Scheduler, TimerWheel,
    Travel,
};
pub use rcu::{Rcu, ReadSection};
pub use registry::{LineId, LockId, LockNames, Registry};
pub use rw_semaphore::{ReadGuard, RwSemaphore, WriteGuard};
pub use spin_lock::{SpinGuard, SpinLock};
pub use task::{Class, CpuId, Draws, Nanoseconds, Stream, Task, TaskId};
pub use test_and_set::{Look, TestAndSetGuard, TestAndSetLock};
pub use ticket_lock::{Halves, TicketGuard, TicketLock};
pub use timer::{expiry, jiffies};
pub use topology::{Distance, Numbering, Topology};
pub use word::Word;
