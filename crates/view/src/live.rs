//! A run on the stage: the table blocks in play, the lock and its queue, every CPU, and the totals.
//!
//! [`LiveView`] is a pure fold over the trace: the screen is a function of the stage and the events so far.

mod of_lab;
mod reduce;
mod stage;
mod status;

#[cfg(test)]
mod tests;

pub use reduce::{CpuView, LiveView, LockView, Mark, SlotView};
pub use stage::{Stage, StageBlock, StageSlot};
pub use status::{CpuPhase, CpuStatus, Figures, LockStatus, Outcome, Status, Totals};
