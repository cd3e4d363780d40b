//! Published experiments, run again.

use std::sync::Arc;

use ext4::{Compat, Filesystem, NewFilesystem, Timestamp, Volume, Zeros, container::Image};
use machine::{
    Profile,
    virtual_time::{Progress, Trace},
};
use trace::Kind;

use crate::{
    Counting, Design, Lab, Lazytime, Pacing, Placement, Reader, Scenario, Simulation, USUAL_MULTIPLIER,
    Writeback, WritebackCosts, cyclictest, lazyinit,
};

/// One run of a published experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// 32 fio jobs truncate files under lazytime.
    Ftruncate(Design),
    /// `ext4lazyinit` after the mount of a fresh file system of so many TiB, on a machine of this name.
    Lazyinit(Pacing, u64, &'static str),
    /// `cyclictest` of 2010 beside a `dd`, and which of its three numbers is meant.
    Cyclictest(Writeback, Statistic),
}

/// One of the numbers that `cyclictest` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The least.
    Least,
    /// The average.
    Average,
    /// The greatest.
    Greatest,
}

/// What an experiment runs on.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The machine.
    pub profile: Profile,
    /// What pages cost in writeback, and what else kept that kernel's CPU.
    pub writeback: WritebackCosts,
}

/// A number that is fitted, not looked up.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// What it is.
    pub name: &'static str,
    /// To which published number it was fitted.
    pub fitted_to: &'static str,
    /// Its value, in its own unit.
    pub value: fn(&Setup) -> u64,
    /// Changes it by so many percent.
    pub scale: fn(&mut Setup, u64),
}

fn percent(value: u64, percent: u64) -> u64 {
    value * percent / 100
}

const REST: Fitted = Fitted {
    name: "rest_of_truncate_ns",
    fitted_to: "3,000,000 operations a second with trylock-break",
    value: |setup| setup.profile.costs.rest_of_truncate_ns,
    scale: |setup, by| {
        setup.profile.costs.rest_of_truncate_ns = percent(setup.profile.costs.rest_of_truncate_ns, by);
    },
};

const OCCUPANCY: Fitted = Fitted {
    name: "read_occupancy_percent",
    fitted_to: "3,000,000 operations a second with trylock-break",
    value: |setup| setup.profile.lines.read_occupancy_percent,
    scale: |setup, by| {
        let scaled = percent(setup.profile.lines.read_occupancy_percent, by);
        setup.profile.lines.read_occupancy_percent = scaled.min(100);
    },
};

const BANDWIDTH: Fitted = Fitted {
    name: "device.bandwidth",
    fitted_to: "all eight cells: 3.3 ms for the first group and its flush",
    value: |setup| setup.profile.device.bandwidth,
    scale: |setup, by| setup.profile.device.bandwidth = percent(setup.profile.device.bandwidth, by),
};

const REDIRTY: Fitted = Fitted {
    name: "redirty_ns",
    fitted_to: "the greatest latency without the patch, 70.5 ms",
    value: |setup| setup.writeback.redirty_ns,
    scale: |setup, by| setup.writeback.redirty_ns = percent(setup.writeback.redirty_ns, by),
};

const SECTION: Fitted = Fitted {
    name: "section_ns",
    fitted_to: "the greatest latency with the patch, 11.0 ms",
    value: |setup| setup.writeback.section_ns,
    scale: |setup, by| setup.writeback.section_ns = percent(setup.writeback.section_ns, by),
};

const EVERY: Fitted = Fitted {
    name: "section_every_ms",
    fitted_to: "the average latency with the patch, 49 µs",
    value: |setup| setup.writeback.section_every_ms,
    scale: |setup, by| setup.writeback.section_every_ms = percent(setup.writeback.section_every_ms, by),
};

const TURN: Fitted = Fitted {
    name: "turn_ns",
    fitted_to: "the two least latencies, 12 and 13 µs",
    value: |setup| setup.writeback.turn_ns,
    scale: |setup, by| setup.writeback.turn_ns = percent(setup.writeback.turn_ns, by),
};

impl Experiment {
    /// The cells of a published table, in its order: name and experiment. Empty where there is no such table.
    pub fn of(table: &str) -> Vec<(&'static str, Self)> {
        let all = [
            ("spin", Self::Ftruncate(Design::Spin)),
            ("trylock-break", Self::Ftruncate(Design::TrylockBreak)),
            (
                "jiffies, 2 TiB, c6g.2xlarge",
                Self::Lazyinit(Pacing::Jiffies, 2, "c6g.2xlarge"),
            ),
            (
                "jiffies, 2 TiB, c5.2xlarge",
                Self::Lazyinit(Pacing::Jiffies, 2, "c5.2xlarge"),
            ),
            (
                "jiffies, 3 TiB, c6g.2xlarge",
                Self::Lazyinit(Pacing::Jiffies, 3, "c6g.2xlarge"),
            ),
            (
                "jiffies, 3 TiB, c5.2xlarge",
                Self::Lazyinit(Pacing::Jiffies, 3, "c5.2xlarge"),
            ),
            (
                "ktime, 2 TiB, c6g.2xlarge",
                Self::Lazyinit(Pacing::Ktime, 2, "c6g.2xlarge"),
            ),
            (
                "ktime, 2 TiB, c5.2xlarge",
                Self::Lazyinit(Pacing::Ktime, 2, "c5.2xlarge"),
            ),
            (
                "ktime, 3 TiB, c6g.2xlarge",
                Self::Lazyinit(Pacing::Ktime, 3, "c6g.2xlarge"),
            ),
            (
                "ktime, 3 TiB, c5.2xlarge",
                Self::Lazyinit(Pacing::Ktime, 3, "c5.2xlarge"),
            ),
            (
                "without the patch, least",
                Self::Cyclictest(Writeback::PerPage, Statistic::Least),
            ),
            (
                "without the patch, average",
                Self::Cyclictest(Writeback::PerPage, Statistic::Average),
            ),
            (
                "without the patch, greatest",
                Self::Cyclictest(Writeback::PerPage, Statistic::Greatest),
            ),
            (
                "with the patch, least",
                Self::Cyclictest(Writeback::PerPageResched, Statistic::Least),
            ),
            (
                "with the patch, average",
                Self::Cyclictest(Writeback::PerPageResched, Statistic::Average),
            ),
            (
                "with the patch, greatest",
                Self::Cyclictest(Writeback::PerPageResched, Statistic::Greatest),
            ),
            // Published for no number of jobs, but it has to be no slower.
            ("rcu", Self::Ftruncate(Design::Rcu)),
        ];
        all.into_iter()
            .filter(|(_, experiment)| experiment.table() == table)
            .collect()
    }

    /// The table that it belongs to.
    pub fn table(&self) -> &'static str {
        match self {
            Self::Ftruncate(_) => "ftruncate",
            Self::Lazyinit(..) => "lazyinit",
            Self::Cyclictest(..) => "cyclictest",
        }
    }

    /// The numbers that are fitted in it.
    pub fn fitted(&self) -> &'static [Fitted] {
        match self {
            Self::Ftruncate(_) => &[REST, OCCUPANCY],
            Self::Lazyinit(..) => &[BANDWIDTH],
            Self::Cyclictest(..) => &[REDIRTY, SECTION, EVERY, TURN],
        }
    }

    /// What it runs on.
    ///
    /// # Panics
    /// If the experiment names a machine that there is not: a fault of the table above.
    pub fn setup(&self) -> Setup {
        let named = |name| *Profile::named(name).expect("the table names machines that there are");
        Setup {
            profile: match self {
                Self::Ftruncate(_) => Profile::default(),
                Self::Lazyinit(_, _, machine) => named(machine),
                Self::Cyclictest(..) => named("laptop-2ghz"),
            },
            writeback: WritebackCosts::default(),
        }
    }

    /// How much of the published work a run does, in words.
    pub fn share(&self) -> &'static str {
        match self {
            Self::Ftruncate(_) => "60 to 300 operations of each job; the rate is steady",
            Self::Lazyinit(..) | Self::Cyclictest(..) => "all of it",
        }
    }

    /// Runs it, on this machine; the number as it was published.
    ///
    /// # Panics
    /// If the file system of the experiment cannot be made, which would be a fault of this table.
    pub fn run(&self, setup: &Setup, seed: u64) -> f64 {
        let profile = &setup.profile;
        match *self {
            Self::Ftruncate(design) => ftruncate(design, profile, seed),
            Self::Lazyinit(pacing, terabytes, _) => {
                let volume = fresh(NewFilesystem::ext4(terabytes << 40, [7; 16], MADE));
                let outcomes = lazyinit(vec![volume], profile, pacing, USUAL_MULTIPLIER, seed);
                outcomes
                    .first()
                    .map_or(0.0, |outcome| outcome.elapsed_ns as f64 / 1e9)
            }
            Self::Cyclictest(design, statistic) => {
                let volume = fresh(NewFilesystem::ext4(1 << 30, [7; 16], MADE));
                let seen = cyclictest(
                    volume,
                    profile,
                    setup.writeback,
                    design,
                    Counting::EveryPeriod,
                    20_000,
                    seed,
                );
                let seen = seen.expect("it has room for the file");
                match statistic {
                    Statistic::Least => seen.least_us,
                    Statistic::Average => seen.average_us,
                    Statistic::Greatest => seen.greatest_us,
                }
            }
        }
    }
}

const MADE: Timestamp = Timestamp {
    seconds: 1_580_000_000,
    nanoseconds: 0,
};

fn fresh(new: NewFilesystem) -> Volume<Zeros> {
    new.make().expect("the sizes make sense")
}

/// Operations a second of 32 jobs, each in a group of its own, as the mail's directories lie.
fn ftruncate(design: Design, profile: &Profile, seed: u64) -> f64 {
    let mut new = NewFilesystem {
        blocks_per_group: Some(512),
        inodes: Some(2048),
        ..NewFilesystem::ext4(64 << 20, [7; 16], MADE)
    };
    new.compat.0 &= !(Compat::HAS_JOURNAL.0 | Compat::RESIZE_INODE.0);
    let image: Image = Arc::new(fresh(new).overlay().snapshot());
    let filesystem = Filesystem::open(image).expect("it was just made").filesystem;
    let operations = if design == Design::Spin { 60 } else { 300 };
    let scenario = Scenario {
        seed,
        cpus: 32,
        design,
        lazytime: Lazytime::On,
        placement: Placement::OwnGroup,
        reader: Reader::Absent,
        operations: Some(operations),
        ..Scenario::default()
    };
    let lab = Lab::prepare(&filesystem, scenario, MADE.seconds).expect("it has free inodes");
    let mut simulation = Simulation::on(lab, *profile, Trace::Off);
    while simulation.step(u64::MAX) == Progress::More {}
    let machine = simulation.machine();
    machine.total(Kind::OperationEnd) as f64 / machine.now_ns() as f64 * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PUBLISHED;

    /// The table of the mail of September 2021: the errors' root mean square is at most 5 %, as the model's two formulas
    /// (a wait of ten ticks, and one of ten times the first turn) with one fitted time give it.
    #[test]
    fn the_times_of_ext4lazyinit_are_as_published() {
        let mut squares = 0.0;
        let cells = Experiment::of("lazyinit");
        for (name, experiment) in &cells {
            let published = PUBLISHED
                .iter()
                .find(|number| number.cell == *name)
                .expect("it was published");
            let simulated = experiment.run(&experiment.setup(), 1);
            squares += (simulated / published.value - 1.0).powi(2);
        }
        let rms = (squares / cells.len() as f64).sqrt() * 100.0;
        assert!(rms <= 5.0, "{rms:.1} %");
    }

    /// The table of the mail of March 2010, each number within 15 %; the median of three seeds.
    #[test]
    fn the_latencies_of_cyclictest_are_as_published() {
        for (design, wanted) in [
            (Writeback::PerPage, [12.0, 3166.0, 70_524.0]),
            (Writeback::PerPageResched, [13.0, 49.0, 11_009.0]),
        ] {
            let setup = Experiment::Cyclictest(design, Statistic::Least).setup();
            let mut runs: [Vec<f64>; 3] = Default::default();
            for seed in 1..=3 {
                let volume = fresh(NewFilesystem::ext4(1 << 30, [7; 16], MADE));
                let seen = cyclictest(
                    volume,
                    &setup.profile,
                    setup.writeback,
                    design,
                    Counting::EveryPeriod,
                    20_000,
                    seed,
                );
                let seen = seen.expect("it has room for the file");
                for (runs, value) in runs
                    .iter_mut()
                    .zip([seen.least_us, seen.average_us, seen.greatest_us])
                {
                    runs.push(value);
                }
            }
            for (mut runs, wanted) in runs.into_iter().zip(wanted) {
                runs.sort_by(f64::total_cmp);
                assert!(
                    (runs[1] / wanted - 1.0).abs() <= 0.15,
                    "{design:?}: {} for {wanted}",
                    runs[1]
                );
            }
        }
    }

    #[test]
    fn every_published_number_has_an_experiment_and_a_source() {
        for number in PUBLISHED {
            let cells = Experiment::of(number.table);
            assert!(cells.iter().any(|(name, _)| *name == number.cell), "{number:?}");
            assert!(
                crate::SOURCES.iter().any(|source| source.table == number.table),
                "{number:?}"
            );
        }
    }
}
