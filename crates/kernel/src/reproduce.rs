//! Published experiments, run again.

use std::sync::Arc;

use ext4::{Compat, Filesystem, NewFilesystem, Timestamp, Volume, Zeros, container::Image};
use machine::{
    Profile,
    virtual_time::{Progress, Trace},
};
use trace::Kind;

use crate::{
    Design, Lab, Lazytime, Pacing, Placement, Reader, Scenario, Simulation, USUAL_MULTIPLIER, lazyinit,
};

/// One run of a published experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// 32 fio jobs truncate files under lazytime.
    Ftruncate(Design),
    /// `ext4lazyinit` after the mount of a fresh file system of so many TiB, on a machine of this name.
    Lazyinit(Pacing, u64, &'static str),
}

/// A number that is fitted, not looked up.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// What it is.
    pub name: &'static str,
    /// To which published number it was fitted.
    pub fitted_to: &'static str,
    /// Its value, in its own unit.
    pub value: fn(&Profile) -> u64,
    /// Changes it by so many percent.
    pub scale: fn(&mut Profile, u64),
}

fn percent(value: u64, percent: u64) -> u64 {
    value * percent / 100
}

const REST: Fitted = Fitted {
    name: "rest_of_truncate_ns",
    fitted_to: "3,000,000 operations a second with trylock-break",
    value: |profile| profile.costs.rest_of_truncate_ns,
    scale: |profile, by| {
        profile.costs.rest_of_truncate_ns = percent(profile.costs.rest_of_truncate_ns, by);
    },
};

const OCCUPANCY: Fitted = Fitted {
    name: "read_occupancy_percent",
    fitted_to: "3,000,000 operations a second with trylock-break",
    value: |profile| profile.lines.read_occupancy_percent,
    scale: |profile, by| {
        let scaled = percent(profile.lines.read_occupancy_percent, by);
        profile.lines.read_occupancy_percent = scaled.min(100);
    },
};

const BANDWIDTH: Fitted = Fitted {
    name: "device.bandwidth",
    fitted_to: "all eight cells: 3.3 ms for the first group and its flush",
    value: |profile| profile.device.bandwidth,
    scale: |profile, by| profile.device.bandwidth = percent(profile.device.bandwidth, by),
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
        }
    }

    /// The numbers that are fitted in it.
    pub fn fitted(&self) -> &'static [Fitted] {
        match self {
            Self::Ftruncate(_) => &[REST, OCCUPANCY],
            Self::Lazyinit(..) => &[BANDWIDTH],
        }
    }

    /// The machine that it runs on.
    ///
    /// # Panics
    /// If the experiment names a machine that there is not: a fault of the table above.
    pub fn profile(&self) -> Profile {
        match self {
            Self::Ftruncate(_) => Profile::default(),
            Self::Lazyinit(_, _, machine) => {
                *Profile::named(machine).expect("the table names machines that there are")
            }
        }
    }

    /// How much of the published work a run does, in words.
    pub fn share(&self) -> &'static str {
        match self {
            Self::Ftruncate(_) => "60 to 300 operations of each job; the rate is steady",
            Self::Lazyinit(..) => "all of it",
        }
    }

    /// Runs it, on this machine; the number as it was published.
    ///
    /// # Panics
    /// If the file system of the experiment cannot be made, which would be a fault of this table.
    pub fn run(&self, profile: &Profile, seed: u64) -> f64 {
        match *self {
            Self::Ftruncate(design) => ftruncate(design, profile, seed),
            Self::Lazyinit(pacing, terabytes, _) => {
                let volume = fresh(NewFilesystem::ext4(terabytes << 40, [7; 16], MADE));
                let outcomes = lazyinit(vec![volume], profile, pacing, USUAL_MULTIPLIER, seed);
                outcomes
                    .first()
                    .map_or(0.0, |outcome| outcome.elapsed_ns as f64 / 1e9)
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
            let simulated = experiment.run(&experiment.profile(), 1);
            squares += (simulated / published.value - 1.0).powi(2);
        }
        let rms = (squares / cells.len() as f64).sqrt() * 100.0;
        assert!(rms <= 5.0, "{rms:.1} %");
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
