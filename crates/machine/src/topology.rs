//! Sockets, cores and hardware threads, and how far apart two CPUs are.

use serde::Serialize;

use crate::CpuId;

/// Which place the next CPU number names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Numbering {
    /// All cores of the first socket, then those of the next; second hardware threads come after all first ones.
    BySocket,
    /// Sockets take turns; second hardware threads come after all first ones.
    Alternating,
    /// The hardware threads of a core follow one another, as in most virtual machines.
    ByCore,
}

/// The shape of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Sockets.
    pub sockets: u16,
    /// Cores of a socket.
    pub cores: u16,
    /// Hardware threads of a core.
    pub threads: u16,
    /// How CPUs are numbered.
    pub numbering: Numbering,
}

/// How far a cache line travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Distance {
    /// Between the hardware threads of a core, which share their cache.
    SameCore,
    /// Between cores of a socket.
    SameSocket,
    /// Between sockets.
    OtherSocket,
}

/// A core, counted over all sockets: those of the first come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Core(pub(crate) u16);

impl Topology {
    /// CPUs that it has.
    pub fn cpus(&self) -> u16 {
        self.sockets * self.cores * self.threads
    }

    /// The core of a CPU. A run with more CPUs than the machine has sees more sockets of the same kind.
    pub(crate) fn core(&self, cpu: CpuId) -> Core {
        let (sockets, cores) = (self.sockets, self.cores);
        // CPUs of a machine of this size come first; then those of the next such machine.
        let (machine, cpu) = (cpu.0 / self.cpus(), cpu.0 % self.cpus());
        let core = match self.numbering {
            Numbering::BySocket => cpu % (sockets * cores),
            Numbering::Alternating => {
                let place = cpu % (sockets * cores);
                place % sockets * cores + place / sockets
            }
            Numbering::ByCore => cpu / self.threads,
        };
        Core(machine * sockets * cores + core)
    }

    pub(crate) fn socket(&self, core: Core) -> u16 {
        core.0 / self.cores
    }

    pub(crate) fn between(&self, one: Core, other: Core) -> Distance {
        if one == other {
            Distance::SameCore
        } else if self.socket(one) == self.socket(other) {
            Distance::SameSocket
        } else {
            Distance::OtherSocket
        }
    }

    /// How far apart two CPUs are.
    pub fn distance(&self, one: CpuId, other: CpuId) -> Distance {
        self.between(self.core(one), self.core(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xeon(numbering: Numbering) -> Topology {
        Topology {
            sockets: 2,
            cores: 8,
            threads: 2,
            numbering,
        }
    }

    #[test]
    fn each_numbering_puts_two_cpus_on_every_core() {
        for numbering in [Numbering::BySocket, Numbering::Alternating, Numbering::ByCore] {
            let mut on_core = [0; 16];
            for cpu in 0..32 {
                on_core[usize::from(xeon(numbering).core(CpuId(cpu)).0)] += 1;
            }
            assert_eq!(on_core, [2; 16], "{numbering:?}");
        }
    }

    #[test]
    fn the_numbering_decides_how_far_apart_neighbours_are() {
        let between_0_and = |numbering, cpu| xeon(numbering).distance(CpuId(0), CpuId(cpu));
        assert_eq!(between_0_and(Numbering::BySocket, 1), Distance::SameSocket);
        assert_eq!(between_0_and(Numbering::BySocket, 8), Distance::OtherSocket);
        assert_eq!(between_0_and(Numbering::Alternating, 1), Distance::OtherSocket);
        assert_eq!(between_0_and(Numbering::ByCore, 1), Distance::SameCore);
        assert_eq!(between_0_and(Numbering::BySocket, 16), Distance::SameCore);
        // Past the machine's own 32: another machine of the kind, one interconnect away.
        assert_eq!(between_0_and(Numbering::BySocket, 32), Distance::OtherSocket);
    }
}
