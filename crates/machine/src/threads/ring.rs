//! One ring buffer of numbered events per CPU, and their merging into one stream.

use std::{
    collections::BTreeMap,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use trace::{Event, Kind, Numbered};

/// Number, time, (cpu, kind, object), argument.
type Record = [AtomicU64; 4];

/// Records that one CPU writes and one reader takes.
#[derive(Debug)]
pub(super) struct Ring {
    records: Box<[Record]>,
    /// Records ever written, modulo 2^32; the writer's.
    written: AtomicU32,
    /// Records ever taken, modulo 2^32; the reader's.
    taken: AtomicU32,
}

impl Ring {
    /// A ring for `capacity` records, a power of two.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two(), "the counters wrap at 2^32");
        let records = (0..capacity).map(|_| Record::default()).collect();
        Self {
            records,
            written: AtomicU32::new(0),
            taken: AtomicU32::new(0),
        }
    }

    /// Writes a record; `false` when the ring is full.
    pub(super) fn push(&self, Numbered { number, event }: Numbered) -> bool {
        let written = self.written.load(Relaxed);
        if written.wrapping_sub(self.taken.load(Acquire)) as usize >= self.records.len() {
            return false;
        }
        let what = u64::from(event.cpu) | (event.kind as u64) << 16 | u64::from(event.object) << 32;
        let words = [number, event.time_ns, what, event.argument];
        for (cell, word) in self.records[written as usize % self.records.len()]
            .iter()
            .zip(words)
        {
            cell.store(word, Relaxed);
        }
        self.written.store(written.wrapping_add(1), Release);
        true
    }

    /// Takes the oldest record.
    fn pop(&self) -> Option<Numbered> {
        let taken = self.taken.load(Relaxed);
        if taken == self.written.load(Acquire) {
            return None;
        }
        let cells = &self.records[taken as usize % self.records.len()];
        let [number, time_ns, what, argument] = [0, 1, 2, 3].map(|at: usize| cells[at].load(Relaxed));
        self.taken.store(taken.wrapping_add(1), Release);
        let kind = Kind::from_number((what >> 16) as u16).expect("only known kinds are pushed");
        let event = Event {
            time_ns,
            cpu: what as u16,
            kind,
            object: (what >> 32) as u32,
            argument,
        };
        Some(Numbered { number, event })
    }
}

/// Puts the events of all CPUs into the order of their numbers.
#[derive(Debug, Default)]
pub struct Merge {
    /// Taken from a ring, but one with a smaller number is still under way.
    early: BTreeMap<u64, Event>,
    next: u64,
}

impl Merge {
    /// Passes over numbers that a dropped CPU took and never wrote. Only once every CPU has ended.
    pub(super) fn close_gap(&mut self) {
        if let Some(first) = self.early.keys().next() {
            self.next = *first;
        }
    }

    /// Takes what is new in `rings`, and hands out at most `max` events in order, without a gap.
    pub(super) fn drain(&mut self, rings: &[Ring], max: usize) -> Vec<Numbered> {
        if self.early.len() < max {
            for ring in rings {
                while let Some(Numbered { number, event }) = ring.pop() {
                    self.early.insert(number, event);
                }
            }
        }
        let mut ready = Vec::new();
        while ready.len() < max
            && let Some(event) = self.early.remove(&self.next)
        {
            ready.push(Numbered {
                number: self.next,
                event,
            });
            self.next += 1;
        }
        ready
    }
}
