//! Where each cache line is, and what it costs to reach it.

use crate::{
    Arbitration, CpuId, Distance, LineCosts, LineId, Topology,
    topology::{self, Core},
};

/// All lines of a model, and the cores that fetch them.
///
/// A line has an owner, the core that wrote it last, and sharers, the cores with a copy. Fetching it for writing keeps
/// it from all others for the whole way; a fetch for reading for a part of it. Cores that were never there before
/// find a line that nobody has touched in their own cache.
#[derive(Debug)]
pub(super) struct Lines {
    costs: LineCosts,
    topology: Topology,
    lines: Vec<Line>,
    /// One bit for each core with a copy; this many words for each line.
    sharers: Vec<u64>,
    words: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    owner: Core,
    touched: bool,
    /// When the next transfer for a write can begin, and when the next one for a read.
    free_to_write_ns: u64,
    free_to_read_ns: u64,
}

/// When an access is complete, and how long the line travelled for it: 0 where it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) done_ns: u64,
    pub(super) travelled_ns: u64,
}

impl Lines {
    pub(super) fn new(count: u32, cpus: u16, costs: LineCosts, topology: Topology) -> Self {
        let cores = (0..cpus)
            .map(|cpu| topology.core(CpuId(cpu)).0 + 1)
            .max()
            .unwrap_or(1);
        let words = usize::from(cores).div_ceil(64);
        Self {
            costs,
            topology,
            lines: vec![Line::default(); count as usize],
            sharers: vec![0; count as usize * words],
            words,
        }
    }

    /// A read: leaves the line shared.
    pub(super) fn read(&mut self, line: LineId, core: Core, now_ns: u64) -> Access {
        let at = line.0 as usize;
        let sharer = &mut self.sharers[at * self.words + usize::from(core.0 / 64)];
        let me = 1 << (core.0 % 64);
        let state = &mut self.lines[at];
        if *sharer & me != 0 || !state.touched {
            *sharer |= me;
            if !state.touched {
                *state = Line {
                    owner: core,
                    touched: true,
                    ..Line::default()
                };
            }
            return Access::at_hand(now_ns + self.costs.hit_ns);
        }
        *sharer |= me;
        let distance = self.topology.between(state.owner, core);
        let transfer_ns = self.costs.travel(distance).transfer_ns;
        let begun_ns = state.free_to_read_ns.max(now_ns);
        state.free_to_read_ns = begun_ns + transfer_ns * self.costs.read_occupancy_percent / 100;
        if self.costs.arbitration == Arbitration::InOrder {
            state.free_to_write_ns = state.free_to_read_ns;
        }
        Access {
            done_ns: begun_ns + transfer_ns,
            travelled_ns: transfer_ns,
        }
    }

    /// A write or read-modify-write: leaves the line to this core alone.
    pub(super) fn write(&mut self, line: LineId, core: Core, now_ns: u64) -> Access {
        let at = line.0 as usize;
        let state = &mut self.lines[at];
        let sharers = &mut self.sharers[at * self.words..(at + 1) * self.words];
        let (word, me) = (usize::from(core.0 / 64), 1 << (core.0 % 64));
        let alone = sharers[word] == me
            && (self.words == 1 || sharers.iter().map(|word| word.count_ones()).sum::<u32>() == 1);
        if alone || !state.touched {
            sharers[word] = me;
            (state.owner, state.touched) = (core, true);
            return Access::at_hand(now_ns + self.costs.atomic_ns);
        }
        let travelled_ns = if sharers[word] & me != 0 {
            let far = farthest(&self.topology, sharers, core);
            self.costs.travel(far).upgrade_ns
        } else {
            let distance = self.topology.between(state.owner, core);
            self.costs.travel(distance).transfer_ns
        };
        sharers.fill(0);
        sharers[word] = me;
        let done_ns = state.free_to_write_ns.max(now_ns) + travelled_ns + self.costs.atomic_ns;
        state.owner = core;
        state.free_to_write_ns = done_ns;
        state.free_to_read_ns = match self.costs.arbitration {
            Arbitration::InOrder => state.free_to_read_ns.max(done_ns),
            // Waiters whose reads were on their way begin anew.
            Arbitration::WritesFirst => done_ns,
        };
        Access {
            done_ns,
            travelled_ns,
        }
    }
}

impl Access {
    fn at_hand(done_ns: u64) -> Self {
        Self {
            done_ns,
            travelled_ns: 0,
        }
    }
}

/// How far the copies of other cores are at most: all of them have to go.
fn farthest(topology: &Topology, sharers: &[u64], core: topology::Core) -> Distance {
    let mut far = Distance::SameCore;
    for (index, word) in sharers.iter().enumerate() {
        let mut left = *word;
        while left != 0 {
            let other = Core((index * 64) as u16 + left.trailing_zeros() as u16);
            left &= left - 1;
            far = far.max(topology.between(other, core));
            if far == Distance::OtherSocket {
                return far;
            }
        }
    }
    far
}
