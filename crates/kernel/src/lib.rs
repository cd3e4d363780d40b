//! The modelled kernel: inode cache, lazytime and the neighbour update in its old and new designs, over a real image.
//!
//! Every algorithm is written once over [`machine::Task`]. What is not modelled: the flusher and its timers, inode
//! eviction, the page cache, and the directory of each file; their time is one fitted row of the cost table.

#![forbid(unsafe_code)]

mod cache;
mod inode;
mod lab;
mod lazyinit;
mod neighbours;
mod place;
mod published;
mod reproduce;
mod scenario;
mod simulation;
mod workload;
mod writeback;

pub use inode::{CachedInode, Times};
/// Which machine a scenario runs on.
pub use machine::ProfileNumber;

pub use lab::{Lab, LabNames, Moment, PrepareError, TableBlock};
pub use lazyinit::{LazyInitOutcome, Pacing, USUAL_MULTIPLIER, lazyinit};
pub use published::{PUBLISHED, Published, SOURCES, Source};
pub use reproduce::{Experiment, Fitted, Setup, Statistic};
pub use scenario::{Design, Lazytime, Placement, Reader, Scenario};
pub use simulation::Simulation;
pub use writeback::{Counting, Latencies, Writeback, WritebackCosts, cyclictest};

#[cfg(test)]
mod tests;
