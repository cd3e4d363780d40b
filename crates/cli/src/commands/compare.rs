//! `ext4lab compare`: designs over numbers of CPUs and seeds, in virtual time.

use std::{
    io::{self, Write},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use clap::Args;
use ext4::{Filesystem, container::Image};
use kernel::{Design, Lab, Lazytime, Placement, ProfileNumber, Reader, Scenario, Simulation};
use machine::{
    PROFILES,
    virtual_time::{Progress, Trace},
};
use serde::Serialize;
use trace::statistics::Statistics;

use super::run::{design, profile};
use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, Source},
    finding::FindingRow,
    image,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab compare disk.img --strategies spin,trylock-break,rcu --cpus 1,2,4,8,16,32
  ext4lab compare disk.img --strategies spin,rcu --cpus 32 --seeds 10 --csv > spread.csv
";
/// Resumptions between two looks at the events.
const STEP: u64 = 4096;

/// Compare designs over numbers of CPUs, with the spread over seeds
///
/// Every run is in virtual time, over its own copy of the image in memory; runs use all cores of this computer.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// The designs, parted by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = design,
        default_value = "spin,trylock-break,rcu")]
    strategies: Vec<Design>,

    /// Numbers of CPUs, parted by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32],
        value_parser = clap::value_parser!(u16).range(1..=i64::from(Scenario::CPUS_MAX)))]
    cpus: Vec<u16>,

    /// Seeds for each of them, from 1 on.
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Operations that each job does.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,

    /// The machine that is simulated; `ext4lab profiles` lists them.
    #[arg(long, value_name = "NAME", value_parser = profile, default_value = PROFILES[0].name)]
    profile: ProfileNumber,

    /// Answer with comma-separated values.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Serialize)]
struct Compared {
    profile: &'static str,
    seeds: u64,
    operations_per_job: u64,
    rows: Vec<Row>,
    #[serde(skip)]
    csv: bool,
}

/// One design on one number of CPUs.
#[derive(Serialize)]
struct Row {
    strategy: &'static str,
    cpus: u16,
    operations_per_second: Spread,
    latency_p50_ns: Spread,
    latency_p99_ns: Spread,
    fairness: Spread,
    waited_percent: Spread,
    /// Share of all waiting, by class of lock, over all seeds.
    waiting: Vec<(String, f64)>,
}

/// A number over the seeds.
#[derive(Clone, Copy, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        Self {
            median: at(sorted.len() / 2),
            least: at(0),
            greatest: at(sorted.len().saturating_sub(1)),
        }
    }
}

/// What one run came to.
struct Measured {
    per_second: f64,
    p50_ns: u64,
    p99_ns: u64,
    fairness: f64,
    waited_ns: u64,
    elapsed_ns: u64,
    by_class: Vec<(String, u64)>,
}

fn measure(filesystem: &Filesystem<Image>, scenario: Scenario, now: i64) -> Result<Measured, String> {
    let lab = Lab::prepare(filesystem, scenario, now).map_err(|why| why.to_string())?;
    let mut simulation = Simulation::new(lab, Trace::On);
    let mut statistics = Statistics::default();
    loop {
        let progress = simulation.step(STEP);
        for record in simulation.machine().take_events(usize::MAX) {
            statistics.add(&record.event);
        }
        match progress {
            Progress::Finished => break,
            Progress::More => {}
            Progress::Deadlock => {
                return Err("the run has come to a deadlock: that is a fault of ext4lab".to_owned());
            }
        }
    }
    let names = simulation.lab().lock_names();
    let classes = statistics.by_class(&names.class_of_lock);
    let by_class: Vec<(String, u64)> = names
        .classes
        .iter()
        .zip(&classes)
        .map(|(name, lock)| (name.clone(), lock.waiting.sum()))
        .filter(|(_, waited)| *waited > 0)
        .collect();
    Ok(Measured {
        per_second: statistics.operations_per_second().unwrap_or(0.0),
        p50_ns: statistics.latency.percentile(50.0),
        p99_ns: statistics.latency.percentile(99.0),
        fairness: statistics.fairness().unwrap_or(1.0),
        waited_ns: by_class.iter().map(|(_, waited)| waited).sum(),
        elapsed_ns: statistics.elapsed_ns,
        by_class,
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = now.as_secs().cast_signed();
    let mut scenarios = Vec::new();
    for design in &arguments.strategies {
        for cpus in &arguments.cpus {
            scenarios.extend((1..=arguments.seeds).map(|seed| Scenario {
                seed,
                cpus: *cpus,
                profile: arguments.profile,
                design: *design,
                lazytime: Lazytime::On,
                placement: Placement::OwnGroup,
                reader: Reader::Absent,
                operations: Some(arguments.ops),
            }));
        }
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    let Some(scenario) = scenarios.get(at) else { break };
                    let measured = measure(&filesystem, *scenario, now);
                    results
                        .lock()
                        .expect("nobody panics while holding it")
                        .push((at, measured));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("nobody panics while holding it");
    results.sort_by_key(|(at, _)| *at);
    let measured: Result<Vec<Measured>, String> = results.into_iter().map(|(_, measured)| measured).collect();
    let measured = measured.map_err(Failure::NotThere)?;
    let seeds = usize::try_from(arguments.seeds).unwrap_or(1);
    let rows = scenarios.chunks(seeds).zip(measured.chunks(seeds));
    let compared = Compared {
        profile: arguments.profile.profile().name,
        seeds: arguments.seeds,
        operations_per_job: arguments.ops,
        rows: rows
            .map(|(scenarios, measured)| row(&scenarios[0], measured))
            .collect(),
        csv: arguments.csv,
    };
    let format = arguments.source.format();
    answer::give(&compared, format)
}

fn row(scenario: &Scenario, measured: &[Measured]) -> Row {
    let spread = |of: fn(&Measured) -> f64| Spread::of(measured.iter().map(of));
    let cpus = f64::from(scenario.cpus);
    let waited = measured
        .iter()
        .map(|run| run.waited_ns as f64 / (run.elapsed_ns as f64 * cpus).max(1.0) * 100.0);
    let mut waiting: Vec<(String, f64)> = Vec::new();
    let all: u64 = measured.iter().map(|run| run.waited_ns).sum();
    for (class, waited) in measured.iter().flat_map(|run| &run.by_class) {
        let share = *waited as f64 / all.max(1) as f64 * 100.0;
        match waiting.iter_mut().find(|(name, _)| name == class) {
            Some((_, sum)) => *sum += share,
            None => waiting.push((class.clone(), share)),
        }
    }
    waiting.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Row {
        strategy: scenario.design.name(),
        cpus: scenario.cpus,
        operations_per_second: spread(|run| run.per_second),
        latency_p50_ns: spread(|run| run.p50_ns as f64),
        latency_p99_ns: spread(|run| run.p99_ns as f64),
        fairness: spread(|run| run.fairness),
        waited_percent: Spread::of(waited),
        waiting,
    }
}

impl Compared {
    fn print_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "strategy,cpus")?;
        for name in [
            "operations_per_second",
            "latency_p50_ns",
            "latency_p99_ns",
            "fairness",
            "waited_percent",
        ] {
            write!(out, ",{name},{name}_least,{name}_greatest")?;
        }
        writeln!(out)?;
        for row in &self.rows {
            write!(out, "{},{}", row.strategy, row.cpus)?;
            for spread in [
                row.operations_per_second,
                row.latency_p50_ns,
                row.latency_p99_ns,
                row.fairness,
                row.waited_percent,
            ] {
                write!(
                    out,
                    ",{:.3},{:.3},{:.3}",
                    spread.median, spread.least, spread.greatest
                )?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

impl Answer for Compared {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.csv {
            return self.print_csv(out);
        }
        writeln!(
            out,
            "{}, medians of {} seeds, {} operations of each job",
            self.profile, self.seeds, self.operations_per_job
        )?;
        writeln!(
            out,
            "{:<16} {:>4} {:>14} {:>20} {:>10} {:>10} {:>8} {:>7}  waits for",
            "design", "CPUs", "operations/s", "least to greatest", "p50 ns", "p99 ns", "fairness", "waits"
        )?;
        for row in &self.rows {
            let rate = row.operations_per_second;
            let range = format!("{:.0} to {:.0}", rate.least, rate.greatest);
            let most = row.waiting.first().map_or("–", |(class, _)| class.as_str());
            writeln!(
                out,
                "{:<16} {:>4} {:>14.0} {range:>20} {:>10.0} {:>10.0} {:>8.3} {:>6.1}%  {most}",
                row.strategy,
                row.cpus,
                rate.median,
                row.latency_p50_ns.median,
                row.latency_p99_ns.median,
                row.fairness.median,
                row.waited_percent.median
            )?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &[]
    }
}
