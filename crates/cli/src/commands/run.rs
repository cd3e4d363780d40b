//! `ext4lab run`: simulated CPUs work on a copy of the image in memory.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use clap::{Args, ValueEnum};
use ext4::ReadAt;
use kernel::{Design, Lab, LabNames, Lazytime, Placement, ProfileNumber, Reader, Scenario, Simulation};
use machine::{
    CpuId, PROFILES,
    threads::{self, Ending, Pace, ThreadTask},
    virtual_time::{Progress, Trace},
};
use serde::Serialize;
use trace::{Fingerprint, Kind, export::Chrome, statistics::Statistics};

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, Source},
    finding::FindingRow,
    image,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab run disk.img --strategy spin --cpus 32 --ops 100
  ext4lab run disk.img --strategy rcu --cpus 32 --ops 100 --trace rcu.json
  ext4lab run disk.img --strategy rcu --cpus 2 --time 1s --clock flat-out
";

/// Resumptions between two looks at the events.
const STEP: u64 = 4096;

/// Run a scenario over the image: simulated CPUs under a chosen design
///
/// Nothing is written: all changes are made to a copy in memory. In virtual time the same seed gives the same trace,
/// here and in the browser.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// The design under test.
    #[arg(long, value_name = "DESIGN", value_parser = design, default_value = "spin")]
    strategy: Design,

    /// Simulated CPUs, each with one job.
    #[arg(long, value_name = "NUMBER", default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(Scenario::CPUS_MAX)))]
    cpus: u16,

    /// Decides every random choice.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,

    /// Operations that each job does. Without this and --time: 100.
    #[arg(long, value_name = "NUMBER", conflicts_with = "time")]
    ops: Option<u64>,

    /// How long the run lasts, in the time of its clock: a number with ns, us, ms or s.
    #[arg(long, value_name = "TIME", value_parser = span)]
    time: Option<u64>,

    /// Virtual time, or this computer's threads as fast as they can.
    #[arg(long, value_enum, default_value_t = Clock::Virtual)]
    clock: Clock,

    /// The machine that is simulated; `ext4lab profiles` lists them.
    #[arg(long, value_name = "NAME", value_parser = profile, default_value = PROFILES[0].name)]
    profile: ProfileNumber,

    /// The mount option lazytime.
    #[arg(long, value_enum, default_value_t = Switch::On)]
    lazytime: Switch,

    /// Where the files of the jobs lie.
    #[arg(long, value_enum, default_value_t = Files::SameBlock)]
    files: Files,

    /// Let the last CPU read the neighbours, so that there are deferred times to write along.
    #[arg(long)]
    reader: bool,

    /// Write the image as the run has changed it; the files of the jobs have no names in it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the trace, as Perfetto and chrome://tracing open it; virtual time only.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Clock {
    Virtual,
    FlatOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Files {
    SameBlock,
    OwnGroup,
}

pub(super) fn design(name: &str) -> Result<Design, String> {
    Design::from_name(name).ok_or_else(|| {
        let names = Design::ALL.map(Design::name).join(", ");
        format!("there is no design of this name; there are {names}")
    })
}

pub(super) fn profile(name: &str) -> Result<ProfileNumber, String> {
    ProfileNumber::named(name).ok_or_else(|| {
        let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
        format!("there is no machine of this name; there are {}", names.join(", "))
    })
}

/// Nanoseconds.
fn span(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err("a time is a number with ns, us, ms or s, such as 20ms".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a time begins with a whole number, such as 20ms".to_owned())?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "this is longer than 584 years".to_owned())
}

/// What a run came to.
#[derive(Serialize)]
struct Outcome {
    strategy: &'static str,
    cpus: u16,
    seed: u64,
    clock: &'static str,
    profile: &'static str,
    /// Nanoseconds of the run's clock.
    elapsed_ns: u64,
    operations: u64,
    operations_per_second: Option<f64>,
    /// Only in virtual time.
    latency_ns: Option<Latency>,
    fairness: Option<f64>,
    context_switches: Option<u64>,
    fingerprint: Option<String>,
    events: Option<u64>,
    /// Flat out with more CPUs than this computer has threads.
    oversubscribed: bool,
    inode_writes: u64,
    lookups: u64,
    written_along: u64,
    abandoned: u64,
    locks: Vec<LockRow>,
}

#[derive(Serialize)]
struct Latency {
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

#[derive(Serialize)]
struct LockRow {
    class: String,
    acquired: u64,
    contended: u64,
    failed: u64,
    waited_ns: u64,
    /// Absent flat out, where nobody looks at a clock for it.
    held_ns: Option<u64>,
    waiting_p99_ns: Option<u64>,
    waiting_max_ns: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let wrong = |why: &str| Failure::CannotOpen(why.to_owned());
    if arguments.clock == Clock::FlatOut && arguments.trace.is_some() {
        return Err(wrong("a trace is only kept in virtual time"));
    }
    let operations = match (arguments.ops, arguments.time) {
        (None, None) => Some(100),
        (operations, _) => operations,
    };
    let scenario = Scenario {
        seed: arguments.seed,
        cpus: arguments.cpus,
        profile: arguments.profile,
        design: arguments.strategy,
        lazytime: match arguments.lazytime {
            Switch::On => Lazytime::On,
            Switch::Off => Lazytime::Off,
        },
        placement: match arguments.files {
            Files::SameBlock => Placement::SameBlock,
            Files::OwnGroup => Placement::OwnGroup,
        },
        reader: if arguments.reader {
            Reader::Present
        } else {
            Reader::Absent
        },
        operations,
    };
    let filesystem = image::open_for_use(&arguments.source)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let lab = Lab::prepare(&filesystem, scenario, now.as_secs().cast_signed())
        .map_err(|why| Failure::NotThere(why.to_string()))?;
    let outcome = match arguments.clock {
        Clock::Virtual => in_virtual_time(lab, arguments)?,
        Clock::FlatOut => {
            let outcome = flat_out(&lab, arguments.time);
            write_out(&lab, arguments.out.as_deref())?;
            outcome
        }
    };
    answer::give(&outcome, arguments.source.format())
}

fn in_virtual_time(lab: Lab, arguments: &Arguments) -> Result<Outcome, Failure> {
    let names = lab.names();
    let mut simulation = Simulation::new(lab, Trace::On);
    let mut chrome = match &arguments.trace {
        Some(path) => Some(chrome(path, names.clone(), arguments.cpus)?),
        None => None,
    };
    let (mut statistics, mut fingerprint) = (Statistics::default(), Fingerprint::default());
    loop {
        let progress = simulation.step(STEP);
        for record in simulation.machine().take_events(usize::MAX) {
            fingerprint.add(&record);
            statistics.add(&record.event);
            if let Some(chrome) = &mut chrome {
                chrome.add(&record.event)?;
            }
        }
        match progress {
            Progress::Finished => break,
            Progress::More => {}
            Progress::Deadlock => {
                return Err(Failure::NotThere(
                    "the run has come to a deadlock: that is a fault of ext4lab".to_owned(),
                ));
            }
        }
        if arguments
            .time
            .is_some_and(|time| simulation.machine().now_ns() >= time)
        {
            simulation.machine().stop();
        }
    }
    if let Some(chrome) = chrome {
        chrome.finish(statistics.elapsed_ns)?.flush()?;
    }
    write_out(simulation.lab(), arguments.out.as_deref())?;
    Ok(Outcome::told(simulation.lab(), &statistics, fingerprint))
}

/// Writes the changed image; what is zero in it stays a hole.
fn write_out(lab: &Lab, path: Option<&Path>) -> Result<(), Failure> {
    const PART: usize = 1 << 20;
    let Some(path) = path else { return Ok(()) };
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::CannotOpen(format!("{}: the image cannot be written: {why}", path.display()))
    };
    // Never over a file that is there: it might be the image itself.
    let file = File::create_new(path).map_err(|error| cannot(&error))?;
    let image = lab.image();
    let mut part = vec![0; PART];
    for offset in (0..image.size()).step_by(PART) {
        let bytes = PART.min(usize::try_from(image.size() - offset).unwrap_or(PART));
        image
            .read_at(offset, &mut part[..bytes])
            .map_err(|error| cannot(&error))?;
        if part[..bytes].iter().any(|byte| *byte != 0) {
            file.write_all_at(&part[..bytes], offset)
                .map_err(|error| cannot(&error))?;
        }
    }
    file.set_len(image.size()).map_err(|error| cannot(&error))
}

fn chrome(path: &Path, names: LabNames, cpus: u16) -> Result<Chrome<BufWriter<File>, LabNames>, Failure> {
    let cannot = |error: io::Error| {
        Failure::CannotOpen(format!(
            "{}: the trace cannot be written: {error}",
            path.display()
        ))
    };
    let file = File::create(path).map_err(cannot)?;
    Chrome::new(BufWriter::new(file), names, cpus).map_err(cannot)
}

fn clock() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(BEGUN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn flat_out(lab: &Lab, time_ns: Option<u64>) -> Outcome {
    let scenario = lab.scenario();
    let options = threads::Options {
        seed: scenario.seed,
        cpus: scenario.cpus,
        locks: lab.lock_names().class_of_lock.len(),
        pace: Pace::FlatOut,
        ring_records: 0,
        clock,
    };
    let run = threads::Run::new(options, *scenario.profile.profile());
    std::thread::scope(|scope| {
        for cpu in (0..scenario.cpus).map(CpuId) {
            let run = &run;
            scope.spawn(move || {
                let task = ThreadTask::new(run, cpu);
                run.drive(cpu, lab.run(&task))
            });
        }
        if let Some(time_ns) = time_ns {
            std::thread::sleep(std::time::Duration::from_nanos(time_ns));
            run.stop();
        }
    });
    let elapsed_ns = run.elapsed_ns();
    debug_assert!(matches!(run.ending(), Some(Ending::Finished | Ending::Drained)));
    Outcome::measured(lab, &run, elapsed_ns)
}

impl Outcome {
    fn of(scenario: &Scenario) -> Self {
        Self {
            strategy: scenario.design.name(),
            cpus: scenario.cpus,
            seed: scenario.seed,
            clock: "virtual",
            profile: scenario.profile.profile().name,
            elapsed_ns: 0,
            operations: 0,
            operations_per_second: None,
            latency_ns: None,
            fairness: None,
            context_switches: None,
            fingerprint: None,
            events: None,
            oversubscribed: false,
            inode_writes: 0,
            lookups: 0,
            written_along: 0,
            abandoned: 0,
            locks: Vec::new(),
        }
    }

    fn counted(mut self, count: impl Fn(Kind) -> u64) -> Self {
        self.inode_writes = count(Kind::InodeWritten);
        self.lookups = count(Kind::NeighbourLookup);
        self.written_along = count(Kind::NeighbourWritten);
        self.abandoned = count(Kind::NeighboursAbandoned);
        self
    }

    fn told(lab: &Lab, statistics: &Statistics, fingerprint: Fingerprint) -> Self {
        let names = lab.lock_names();
        let latency = &statistics.latency;
        let classes = statistics.by_class(&names.class_of_lock);
        let used = names.classes.iter().zip(classes);
        let used = used.filter(|(_, lock)| lock.acquired + lock.failed > 0);
        let locks = used.map(|(class, lock)| LockRow {
            class: class.clone(),
            acquired: lock.acquired,
            contended: lock.contended,
            failed: lock.failed,
            waited_ns: lock.waiting.sum(),
            held_ns: Some(lock.holding.sum()),
            waiting_p99_ns: Some(lock.waiting.percentile(99.0)),
            waiting_max_ns: Some(lock.waiting.greatest()),
        });
        Self {
            elapsed_ns: statistics.elapsed_ns,
            operations: statistics.operations(),
            operations_per_second: statistics.operations_per_second(),
            latency_ns: latency.mean().map(|mean| Latency {
                mean,
                p50: latency.percentile(50.0),
                p90: latency.percentile(90.0),
                p99: latency.percentile(99.0),
                max: latency.greatest(),
            }),
            fairness: statistics.fairness(),
            context_switches: Some(statistics.context_switches),
            fingerprint: Some(format!("{:08x}", fingerprint.value())),
            events: Some(statistics.events),
            locks: locks.collect(),
            ..Self::of(lab.scenario())
        }
        .counted(|kind| statistics.count(kind))
    }

    fn measured(lab: &Lab, run: &threads::Run, elapsed_ns: u64) -> Self {
        let names = lab.lock_names();
        let cpus = lab.scenario().cpus;
        let reports: Vec<_> = (0..cpus).map(|cpu| run.report(CpuId(cpu))).collect();
        let count = |kind| reports.iter().map(|report| report.count(kind)).sum::<u64>();
        let lock = |(class, name): (usize, &String)| {
            let mut row = LockRow {
                class: name.clone(),
                acquired: 0,
                contended: 0,
                failed: 0,
                waited_ns: 0,
                held_ns: None,
                waiting_p99_ns: None,
                waiting_max_ns: None,
            };
            for report in &reports {
                for (of, lock) in names.class_of_lock.iter().zip(&report.locks) {
                    if usize::from(*of) == class {
                        row.acquired += lock.acquired;
                        row.contended += lock.contended;
                        row.failed += lock.failed;
                        row.waited_ns += lock.waited_ns;
                    }
                }
            }
            row
        };
        let operations = count(Kind::OperationEnd);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            clock: "flat-out",
            elapsed_ns,
            operations,
            operations_per_second: (elapsed_ns > 0).then(|| operations as f64 / elapsed_ns as f64 * 1e9),
            oversubscribed: usize::from(cpus) > threads,
            locks: names
                .classes
                .iter()
                .enumerate()
                .map(lock)
                .filter(|row| row.acquired + row.failed > 0)
                .collect(),
            ..Self::of(lab.scenario())
        }
        .counted(count)
    }
}

impl Answer for Outcome {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let rate = self.operations_per_second.unwrap_or(0.0);
        writeln!(
            out,
            "{}, {} CPUs, {}: {} operations in {:.3} ms, {rate:.0} a second",
            self.strategy,
            self.cpus,
            self.clock,
            self.operations,
            self.elapsed_ns as f64 / 1e6
        )?;
        if self.oversubscribed {
            writeln!(
                out,
                "oversubscribed: this measures the host's scheduler, not the locks"
            )?;
        }
        if let Some(Latency {
            mean,
            p50,
            p90,
            p99,
            max,
        }) = self.latency_ns
        {
            writeln!(
                out,
                "an operation took {mean:.0} ns on average, half of them up to {p50}, 90 % up to {p90}, 99 % up to {p99}, all up to {max}"
            )?;
        }
        writeln!(
            out,
            "{} inode writes looked for {} neighbours, wrote {} along, broke off {} times",
            self.inode_writes, self.lookups, self.written_along, self.abandoned
        )?;
        if let Some(fairness) = self.fairness {
            writeln!(out, "fairness (Jain) {fairness:.3}")?;
        }
        for lock in &self.locks {
            writeln!(
                out,
                "{}: taken {} times, {} after waiting, given up {}; waited {:.3} ms",
                lock.class,
                lock.acquired,
                lock.contended,
                lock.failed,
                lock.waited_ns as f64 / 1e6
            )?;
        }
        if let (Some(fingerprint), Some(events)) = (&self.fingerprint, self.events) {
            writeln!(out, "{events} events, fingerprint {fingerprint}")?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &[]
    }
}
