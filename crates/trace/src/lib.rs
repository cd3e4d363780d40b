//! What happened in a run: the event schema and its texts.
//!
//! Knows nothing of ext4's format or of browsers: locks, blocks and inodes are objects by number.

#![forbid(unsafe_code)]

mod event;
pub mod export;
mod fingerprint;
mod histogram;
mod kind;
pub mod statistics;

pub use event::{EVENT_BYTES, Event, Numbered, RECORD_BYTES};
pub use fingerprint::Fingerprint;
pub use histogram::Histogram;
pub use kind::{KINDS, Kind, Legend, Meaning, SkipReason, Token};
