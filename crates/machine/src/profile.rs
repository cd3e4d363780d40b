//! Machines as data: shape, caches, scheduler, block device, and what operations cost.

use serde::{Deserialize, Serialize};

use crate::{CostTable, Distance, Numbering, Topology};

/// A machine. Every field has its unit in its name or its description.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Its name on the command line and in links.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// Where its numbers come from.
    pub source: &'static str,
    /// Sockets, cores, hardware threads.
    pub topology: Topology,
    /// Cache lines.
    pub lines: LineCosts,
    /// Tasks and timers.
    pub scheduler: Scheduler,
    /// The block device under the file system.
    pub device: DeviceSpec,
    /// What operations cost.
    pub costs: CostTable,
}

/// What a line costs that comes from a certain distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Travel {
    /// Fetching it, to read it or for this CPU alone, ns: "blind CAS" in perfbook's tables less the CAS itself.
    pub transfer_ns: u64,
    /// Making a shared copy this CPU's alone ("CAS" less "blind CAS"), ns.
    pub upgrade_ns: u64,
}

/// Cache lines: two inputs for each distance, and how transfers of one line overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LineCosts {
    /// A read-modify-write of a line that the core has to itself, ns.
    pub atomic_ns: u64,
    /// A read of a line that the core has a copy of, ns.
    pub hit_ns: u64,
    /// Between hardware threads of a core.
    pub same_core: Travel,
    /// Between cores of a socket.
    pub same_socket: Travel,
    /// Between sockets.
    pub other_socket: Travel,
    /// How much of its transfer a read keeps the line from others, percent. **Fitted** to the ftruncate table of
    /// the 2020 mail, where half of it or twice as much moves `trylock-break` by 7 %.
    pub read_occupancy_percent: u64,
    /// Who goes first.
    pub arbitration: Arbitration,
}

/// In which order requests for a line are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Arbitration {
    /// As they come: a release waits for the waiters' reads that are on their way.
    InOrder,
    /// Writes before reads, as the model of Boyd-Wickizer et al. assumes.
    WritesFirst,
}

impl LineCosts {
    /// What a line costs from this distance.
    pub fn travel(&self, distance: Distance) -> Travel {
        match distance {
            Distance::SameCore => self.same_core,
            Distance::SameSocket => self.same_socket,
            Distance::OtherSocket => self.other_socket,
        }
    }
}

/// When a running task can be put aside for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Preemption {
    /// On the way back to user space and where code asks (`CONFIG_PREEMPT_NONE`).
    None,
    /// Also wherever code might sleep (`CONFIG_PREEMPT_VOLUNTARY`).
    Voluntary,
    /// Anywhere but while it holds a spin lock (`CONFIG_PREEMPT`).
    Full,
}

/// How the timer wheel rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TimerWheel {
    /// A timer armed in tick c for d ticks fires at tick c + d.
    Before4_8,
    /// It fires at tick c + d + 1.
    Since4_8,
}

/// Tasks and timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Scheduler {
    /// Ticks per second: 100, 250, 300 or 1000.
    pub hz: u32,
    /// How the timer wheel rounds.
    pub timer_wheel: TimerWheel,
    /// When a running task can be put aside.
    pub preemption: Preemption,
    /// How long a task runs while others want its CPU, ns.
    pub time_slice_ns: u64,
    /// From one task to another, ns.
    pub context_switch_ns: u64,
    /// What waking costs the one who wakes (`try_to_wake_up`), ns.
    pub wake_call_ns: u64,
    /// Until a CPU of the same socket that was idle runs the task, switch not counted, ns.
    pub wake_near_ns: u64,
    /// The same for another socket, ns.
    pub wake_far_ns: u64,
}

/// A block device: requests go side by side up to its depth, and share its bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceSpec {
    /// From submission to completion of an empty request, ns.
    pub latency_ns: u64,
    /// Bytes per second.
    pub bandwidth: u64,
    /// Requests that it works on at once.
    pub queue_depth: u16,
    /// A flush of its cache, ns.
    pub flush_ns: u64,
}

const fn travel(transfer_ns: u64, upgrade_ns: u64) -> Travel {
    Travel {
        transfer_ns,
        upgrade_ns,
    }
}

const XEON_LINES: LineCosts = LineCosts {
    atomic_ns: 8,
    hit_ns: 1,
    same_core: travel(8, 8),
    same_socket: travel(50, 40),
    other_socket: travel(130, 100),
    read_occupancy_percent: 20,
    arbitration: Arbitration::InOrder,
};

const BARE_METAL: Scheduler = Scheduler {
    hz: 250,
    timer_wheel: TimerWheel::Since4_8,
    preemption: Preemption::Voluntary,
    time_slice_ns: 3_000_000,
    context_switch_ns: 1_700,
    wake_call_ns: 500,
    wake_near_ns: 2_500,
    wake_far_ns: 4_000,
};

const RAMDISK: DeviceSpec = DeviceSpec {
    latency_ns: 1_000,
    bandwidth: 5_000_000_000,
    queue_depth: 64,
    flush_ns: 0,
};

const SSD: DeviceSpec = DeviceSpec {
    latency_ns: 90_000,
    bandwidth: 500_000_000,
    queue_depth: 32,
    flush_ns: 1_000_000,
};

/// The machines that come with the program. The first is the default.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "xeon-e5-2680",
        title: "2 × Xeon E5-2680, ramdisk",
        source: "Line costs: McKenney, perfbook, X5550 and 8176 tables, rounded; scheduler: recalled for bare metal",
        topology: Topology {
            sockets: 2,
            cores: 8,
            threads: 2,
            numbering: Numbering::Alternating,
        },
        lines: XEON_LINES,
        scheduler: BARE_METAL,
        device: RAMDISK,
        costs: CostTable::XEON,
    },
    Profile {
        name: "laptop-2ghz",
        title: "Laptop of 2010, one core",
        source: "Kernel 2.6.33: HZ 1000 assumed; disk 29 MiB/s derived from the 2010 mail's figures",
        topology: Topology {
            sockets: 1,
            cores: 1,
            threads: 1,
            numbering: Numbering::ByCore,
        },
        lines: LineCosts {
            atomic_ns: 15,
            ..XEON_LINES
        },
        scheduler: Scheduler {
            hz: 1000,
            timer_wheel: TimerWheel::Before4_8,
            wake_near_ns: 8_000,
            wake_far_ns: 8_000,
            context_switch_ns: 3_000,
            ..BARE_METAL
        },
        device: DeviceSpec {
            latency_ns: 8_000_000,
            bandwidth: 30_408_704,
            queue_depth: 31,
            flush_ns: 15_000_000,
        },
        costs: CostTable::XEON.scaled(200),
    },
    Profile {
        name: "c5.2xlarge",
        title: "EC2 c5.2xlarge, 8 vCPUs",
        source: "Line costs: McKenney, perfbook, Xeon Platinum 8176 table; HZ from the 2021 mail; EBS latency recalled, its bandwidth fitted to that mail",
        topology: Topology {
            sockets: 1,
            cores: 4,
            threads: 2,
            numbering: Numbering::BySocket,
        },
        lines: LineCosts {
            atomic_ns: 7,
            same_core: travel(7, 11),
            same_socket: travel(41, 54),
            other_socket: travel(142, 294),
            ..XEON_LINES
        },
        scheduler: Scheduler {
            wake_near_ns: 20_000,
            wake_far_ns: 45_000,
            ..BARE_METAL
        },
        device: DeviceSpec {
            latency_ns: 600_000,
            bandwidth: 1_000_000_000,
            queue_depth: 32,
            flush_ns: 600_000,
        },
        costs: CostTable::XEON,
    },
    Profile {
        name: "c6g.2xlarge",
        title: "EC2 c6g.2xlarge, 8 vCPUs",
        source: "HZ from the 2021 mail; line costs as c5, for want of a table; EBS as c5",
        topology: Topology {
            sockets: 1,
            cores: 8,
            threads: 1,
            numbering: Numbering::BySocket,
        },
        lines: LineCosts {
            atomic_ns: 7,
            same_socket: travel(41, 54),
            ..XEON_LINES
        },
        scheduler: Scheduler {
            hz: 100,
            wake_near_ns: 20_000,
            wake_far_ns: 45_000,
            ..BARE_METAL
        },
        device: DeviceSpec {
            latency_ns: 600_000,
            bandwidth: 1_000_000_000,
            queue_depth: 32,
            flush_ns: 600_000,
        },
        costs: CostTable::XEON,
    },
    Profile {
        name: "vm-8-ssd",
        title: "VM with 8 CPUs, SSD",
        source: "Wake-ups of 45 to 52 µs across idle vCPUs: measured on an EPYC host; the rest recalled",
        topology: Topology {
            sockets: 2,
            cores: 4,
            threads: 1,
            numbering: Numbering::BySocket,
        },
        lines: XEON_LINES,
        scheduler: Scheduler {
            timer_wheel: TimerWheel::Before4_8,
            wake_near_ns: 45_000,
            wake_far_ns: 52_000,
            ..BARE_METAL
        },
        device: SSD,
        costs: CostTable::XEON,
    },
    Profile {
        name: "ramdisk-32",
        title: "32 cores, one socket",
        source: "Same-socket rows of the Xeon tables",
        topology: Topology {
            sockets: 1,
            cores: 32,
            threads: 1,
            numbering: Numbering::BySocket,
        },
        lines: XEON_LINES,
        scheduler: BARE_METAL,
        device: RAMDISK,
        costs: CostTable::XEON,
    },
];

/// One of [`PROFILES`], as messages and links name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileNumber(u8);

impl ProfileNumber {
    /// All of them, in the order of [`PROFILES`].
    pub const ALL: [Self; PROFILES.len()] = {
        let mut all = [Self(0); PROFILES.len()];
        let mut number = 0;
        while number < PROFILES.len() {
            all[number] = Self(number as u8);
            number += 1;
        }
        all
    };

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|number| number.profile().name == name)
    }

    /// The profile; the first where the number is none of ours.
    pub fn profile(self) -> &'static Profile {
        PROFILES.get(usize::from(self.0)).unwrap_or(&PROFILES[0])
    }
}

impl Profile {
    /// The profile with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ProfileNumber::named(name).map(ProfileNumber::profile)
    }

    /// Nanoseconds of a tick.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.scheduler.hz)
    }
}

impl Default for Profile {
    fn default() -> Self {
        PROFILES[0]
    }
}
