//! One number for a whole trace: equal for equal traces, on every platform.

use crate::Numbered;

/// The CRC-32C of all events so far, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u32);

impl Fingerprint {
    /// Takes in the next event.
    pub fn add(&mut self, record: &Numbered) {
        self.0 = crc32c::crc32c_append(self.0, &record.to_bytes());
    }

    /// The number so far.
    pub fn value(self) -> u32 {
        self.0
    }
}
