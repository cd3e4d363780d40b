//! What a screen shows, as plain data, and the reducers that compute it. Knows nothing of browsers.

#![forbid(unsafe_code)]

pub mod changes;
pub mod explore;
pub mod live;
