//! What the page is made of: functions from the state to HTML, and drawings.

pub(crate) mod explore;
pub(crate) mod header;
pub(crate) mod inode;
pub(crate) mod lab;
pub(crate) mod numbers;
pub(crate) mod stage;
