//! What the page is made of: functions from the state to HTML, and drawings.

pub(crate) mod changes;
pub(crate) mod disk;
pub(crate) mod explore;
pub(crate) mod file;
pub(crate) mod findings;
pub(crate) mod header;
pub(crate) mod hex;
pub(crate) mod inspector;
pub(crate) mod journal;
pub(crate) mod lab;
pub(crate) mod numbers;
pub(crate) mod stage;
pub(crate) mod superblock;
pub(crate) mod tables;
pub(crate) mod tree;
