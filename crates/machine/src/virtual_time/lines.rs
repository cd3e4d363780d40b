//! Where each cache line is, and what it costs to reach it.

use crate::{CostTable, CpuId, LineId};

/// One cache line: who has a copy, and until when it travels.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// One bit for each CPU with a copy.
    sharers: u64,
    busy_until_ns: u64,
}

/// All lines of a model.
#[derive(Debug)]
pub(super) struct Lines(Vec<Line>);

/// When an access is complete, and whether the line had to travel.
pub(super) struct Access {
    pub(super) done_ns: u64,
    pub(super) travelled: bool,
}

impl Lines {
    pub(super) fn new(count: u32) -> Self {
        Self(vec![Line::default(); count as usize])
    }

    /// A read: leaves the line shared.
    pub(super) fn read(&mut self, line: LineId, cpu: CpuId, now_ns: u64, costs: &CostTable) -> Access {
        let line = &mut self.0[line.0 as usize];
        let me = 1 << cpu.0;
        if line.sharers & me != 0 {
            return Access {
                done_ns: now_ns + costs.hit_ns,
                travelled: false,
            };
        }
        line.sharers |= me;
        line.travel(now_ns, costs.transfer_ns)
    }

    /// A write or read-modify-write: leaves the line to this CPU alone.
    pub(super) fn write(&mut self, line: LineId, cpu: CpuId, now_ns: u64, costs: &CostTable) -> Access {
        let line = &mut self.0[line.0 as usize];
        let me = 1 << cpu.0;
        let alone = line.sharers == me || line.sharers == 0;
        line.sharers = me;
        match alone {
            true => Access {
                done_ns: now_ns.max(line.busy_until_ns) + costs.atomic_ns,
                travelled: false,
            },
            false => line.travel(now_ns, costs.transfer_ns),
        }
    }
}

impl Line {
    fn travel(&mut self, now_ns: u64, transfer_ns: u64) -> Access {
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + transfer_ns;
        Access {
            done_ns: self.busy_until_ns,
            travelled: true,
        }
    }
}
