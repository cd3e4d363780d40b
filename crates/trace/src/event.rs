//! One thing that happened on one CPU, in 24 bytes.

use crate::Kind;

/// Bytes of an event on the wire.
pub const EVENT_BYTES: usize = 24;

/// Bytes of an event with its number, as the ring buffers carry it.
pub const RECORD_BYTES: usize = EVENT_BYTES + 8;

/// One thing that happened: when, where, what, to which object.
///
/// Locks, blocks and inodes are objects by number; a table beside the trace has their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the run began, in the clock of the back end.
    pub time_ns: u64,
    /// The CPU that it happened on.
    pub cpu: u16,
    /// What happened.
    pub kind: Kind,
    /// What it happened to; the kind says what sort of number this is.
    pub object: u32,
    /// A number that belongs to it; the kind says what it means.
    pub argument: u64,
}

/// An event and its place in the order of the whole run.
///
/// Slow-motion events are numbered from one shared counter, since the workers' clocks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The place in the order of the run, from 0, without gaps.
    pub number: u64,
    /// The event.
    pub event: Event,
}

impl Event {
    /// The little-endian form: time u64, cpu u16, kind u16, object u32, argument u64.
    pub fn to_bytes(self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes[0..8].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.cpu.to_le_bytes());
        bytes[10..12].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.object.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.argument.to_le_bytes());
        bytes
    }

    /// The event in `bytes`; `None` when the kind is not one that we know.
    pub fn from_bytes(bytes: &[u8; EVENT_BYTES]) -> Option<Self> {
        let [
            t0,
            t1,
            t2,
            t3,
            t4,
            t5,
            t6,
            t7,
            c0,
            c1,
            k0,
            k1,
            o0,
            o1,
            o2,
            o3,
            a @ ..,
        ] = *bytes;
        Some(Self {
            time_ns: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            cpu: u16::from_le_bytes([c0, c1]),
            kind: Kind::from_number(u16::from_le_bytes([k0, k1]))?,
            object: u32::from_le_bytes([o0, o1, o2, o3]),
            argument: u64::from_le_bytes(a),
        })
    }
}

impl Numbered {
    /// The little-endian form: number u64, then the event.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.event.to_bytes());
        bytes
    }

    /// The numbered event in `bytes`; `None` when the kind is not one that we know.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let (number, event) = bytes.split_first_chunk::<8>()?;
        let event = event.first_chunk::<EVENT_BYTES>()?;
        Some(Self {
            number: u64::from_le_bytes(*number),
            event: Event::from_bytes(event)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_way_through_bytes() {
        for kind in Kind::ALL {
            let event = Event {
                time_ns: u64::MAX - 1,
                cpu: 31,
                kind: *kind,
                object: 7,
                argument: 1 << 40,
            };
            let record = Numbered { number: 9, event };
            assert_eq!(Numbered::from_bytes(&record.to_bytes()), Some(record));
        }
    }

    #[test]
    fn a_kind_that_is_not_ours_is_not_an_event() {
        let mut bytes = [0; EVENT_BYTES];
        bytes[10..12].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(Event::from_bytes(&bytes), None);
    }
}
