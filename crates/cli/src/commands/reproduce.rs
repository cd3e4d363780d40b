//! `ext4lab reproduce`: published tables, cell by cell, beside what the models say.

use std::{
    io::{self, Write},
    sync::Mutex,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use clap::Args;
use kernel::{Experiment, PUBLISHED, SOURCES, Setup, Source};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Format, Verdict},
    arguments::EXIT_STATUS,
    finding::FindingRow,
};

/// Seeds of which the median is told.
const SEEDS: u64 = 5;

/// Run published experiments again: published, simulated, error
///
/// Every number that was fitted is named, with what it was fitted to and how much each cell moves when it is 20 %
/// larger. All others come from the machine's cost table.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_STATUS)]
pub(crate) struct Arguments {
    /// The table; without it all of them.
    #[arg(value_name = "TABLE", value_parser = table)]
    table: Option<&'static str>,

    /// Answer with one JSON object; docs/json.md says what is in it.
    #[arg(long)]
    json: bool,
}

fn table(name: &str) -> Result<&'static str, String> {
    let found = SOURCES.iter().find(|source| source.table == name);
    found.map(|source| source.table).ok_or_else(|| {
        let names: Vec<&str> = SOURCES.iter().map(|source| source.table).collect();
        format!("there is no table of this name; there are {}", names.join(", "))
    })
}

#[derive(Serialize)]
struct Reproduced {
    tables: Vec<Table>,
}

#[derive(Serialize)]
struct Table {
    table: &'static str,
    shows: &'static str,
    citation: &'static str,
    /// How much of the published work was done.
    share: &'static str,
    seeds: u64,
    cells: Vec<Cell>,
    rms_error_percent: Option<f64>,
    fitted: Vec<Fitted>,
}

#[derive(Serialize)]
struct Cell {
    cell: &'static str,
    unit: &'static str,
    /// Absent where only the order was published.
    published: Option<f64>,
    /// The median over the seeds.
    simulated: f64,
    least: f64,
    greatest: f64,
    error_percent: Option<f64>,
}

#[derive(Serialize)]
struct Fitted {
    name: &'static str,
    value: u64,
    fitted_to: &'static str,
    /// How much each cell moves when it is 20 % larger, in percent, in the order of the cells.
    moves_percent: Vec<f64>,
}

/// What one run is: which cell, on which machine, with which seed.
struct Job {
    experiment: Experiment,
    setup: Setup,
    seed: u64,
}

/// Runs jobs on all cores; the results in their order.
fn run_all(jobs: &[Job]) -> Vec<f64> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![0.0; jobs.len()]);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    let result = job.experiment.run(&job.setup, job.seed);
                    results.lock().expect("nobody panics while holding it")[at] = result;
                }
            });
        }
    });
    results.into_inner().expect("nobody panics while holding it")
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let wanted = |source: &&Source| arguments.table.is_none_or(|table| table == source.table);
    let tables = SOURCES.iter().filter(wanted).map(reproduce).collect();
    let format = if arguments.json {
        Format::Json
    } else {
        Format::Text
    };
    answer::give(&Reproduced { tables }, format)
}

fn reproduce(source: &Source) -> Table {
    let experiments = Experiment::of(source.table);
    let fitted = experiments
        .first()
        .map_or(&[][..], |(_, experiment)| experiment.fitted());
    let mut jobs = Vec::new();
    for (_, experiment) in &experiments {
        jobs.extend((1..=SEEDS).map(|seed| Job {
            experiment: *experiment,
            setup: experiment.setup(),
            seed,
        }));
        for number in fitted {
            let mut setup = experiment.setup();
            (number.scale)(&mut setup, 120);
            jobs.push(Job {
                experiment: *experiment,
                setup,
                seed: 1,
            });
        }
    }
    let results = run_all(&jobs);
    let mut moves = vec![Vec::new(); fitted.len()];
    let mut cells = Vec::new();
    let seeds = SEEDS as usize;
    for ((name, _), results) in experiments.iter().zip(results.chunks(seeds + fitted.len())) {
        let (runs, moved) = results.split_at(seeds);
        for (moves, moved) in moves.iter_mut().zip(moved) {
            moves.push((moved / runs[0] - 1.0) * 100.0);
        }
        cells.push(cell(source.table, name, runs));
    }
    let errors: Vec<f64> = cells.iter().filter_map(|cell| cell.error_percent).collect();
    let squares: f64 = errors.iter().map(|error| error * error).sum();
    let first = experiments.first().map(|(_, experiment)| *experiment);
    Table {
        table: source.table,
        shows: source.shows,
        citation: source.citation,
        share: first.map_or("", |experiment| experiment.share()),
        seeds: SEEDS,
        cells,
        rms_error_percent: (!errors.is_empty()).then(|| (squares / errors.len() as f64).sqrt()),
        fitted: fitted
            .iter()
            .zip(moves)
            .map(|(number, moves_percent)| Fitted {
                name: number.name,
                value: first.map_or(0, |experiment| (number.value)(&experiment.setup())),
                fitted_to: number.fitted_to,
                moves_percent,
            })
            .collect(),
    }
}

fn cell(table: &str, name: &'static str, runs: &[f64]) -> Cell {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let simulated = sorted[sorted.len() / 2];
    let published = PUBLISHED
        .iter()
        .find(|number| number.table == table && number.cell == name);
    let unit = PUBLISHED
        .iter()
        .find(|number| number.table == table)
        .map_or("", |number| number.unit);
    Cell {
        cell: name,
        unit,
        published: published.map(|number| number.value),
        simulated,
        least: sorted[0],
        greatest: sorted[sorted.len() - 1],
        error_percent: published.map(|number| (simulated / number.value - 1.0) * 100.0),
    }
}

impl Answer for Reproduced {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for table in &self.tables {
            writeln!(out, "{}: {}", table.table, table.shows)?;
            writeln!(out, "  {}", table.citation)?;
            writeln!(
                out,
                "  simulated: the median of {} seeds; {}",
                table.seeds, table.share
            )?;
            writeln!(
                out,
                "  {:<30} {:>12} {:>12} {:>8}",
                "", "published", "simulated", "error"
            )?;
            for cell in &table.cells {
                let published = cell
                    .published
                    .map_or("–".to_owned(), |value| format!("{value:.0}"));
                let error = cell
                    .error_percent
                    .map_or(String::new(), |error| format!("{error:+.1} %"));
                writeln!(
                    out,
                    "  {:<30} {published:>12} {:>12.0} {error:>8}  {}",
                    cell.cell, cell.simulated, cell.unit
                )?;
            }
            if let Some(rms) = table.rms_error_percent {
                writeln!(out, "  root mean square of the errors: {rms:.1} %")?;
            }
            for number in &table.fitted {
                let moves: Vec<String> = number
                    .moves_percent
                    .iter()
                    .map(|by| format!("{by:+.1}"))
                    .collect();
                writeln!(
                    out,
                    "  fitted: {} = {}, to {}; 20 % more moves the cells by {} %",
                    number.name,
                    number.value,
                    number.fitted_to,
                    moves.join(", ")
                )?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &[]
    }
}
