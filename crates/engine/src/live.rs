//! A run on workers: this worker sets it up, answers for it and takes its events; the others are its CPUs.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex},
};

use kernel::{Lab, Moment};
use machine::{
    CpuId,
    threads::{CpuReport, Dilation, Ending, Options, Pace, Phase, Run, ThreadTask},
};
use protocol::{Clock, Progress};
use trace::{Kind, statistics::Statistics};
use view::changes::ChangedBlocks;
use view::live::{CpuPhase, CpuStatus, Figures, LockStatus, Outcome, Stage, Status, Totals};
use wasm_bindgen::prelude::wasm_bindgen;

/// Records that each CPU may be ahead of the page.
const RING_RECORDS: usize = 1 << 10;

/// The run that the CPU workers of this memory belong to. A memory carries one run: the next gets a fresh one.
static CURRENT: Mutex<Option<Arc<Shared>>> = Mutex::new(None);

/// What the CPU workers need.
struct Shared {
    run: Run,
    lab: Lab,
}

/// A live run, as the answering worker sees it.
pub(crate) struct LiveRun {
    shared: Arc<Shared>,
    stage: Stage,
    statistics: RefCell<Statistics>,
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
    #[wasm_bindgen(thread_local_v2, js_namespace = performance, js_name = timeOrigin)]
    static TIME_ORIGIN: f64;
}

/// Real time in nanoseconds, comparable between workers: each has an origin of its own for `performance.now`.
fn clock() -> u64 {
    let milliseconds = TIME_ORIGIN.with(|origin| *origin) + performance_now();
    (milliseconds * 1e6) as u64
}

impl LiveRun {
    pub(crate) fn new(lab: Lab, stage: Stage, clock_kind: Clock) -> Self {
        let pace = match clock_kind {
            Clock::SlowMotion { dilation } => Pace::SlowMotion(Dilation(dilation)),
            Clock::FlatOut | Clock::Virtual => Pace::FlatOut,
        };
        let options = Options {
            seed: lab.scenario().seed,
            cpus: lab.scenario().cpus,
            locks: lab.lock_names().class_of_lock.len(),
            pace,
            ring_records: RING_RECORDS,
            clock,
        };
        let shared = Arc::new(Shared {
            run: Run::new(options, *stage.scenario.profile.profile()),
            lab,
        });
        *CURRENT.lock().expect("nobody panics while holding it") = Some(shared.clone());
        Self {
            shared,
            stage,
            statistics: RefCell::default(),
        }
    }

    /// What can be told to the run.
    pub(crate) fn run(&self) -> &Run {
        &self.shared.run
    }

    /// At most `max` new events, and how things stand.
    pub(crate) fn progress(&self, max: usize) -> Progress {
        let events = self.run().drain(max);
        for record in &events {
            self.statistics.borrow_mut().add(&record.event);
        }
        let records = events.into_iter().flat_map(|record| record.to_bytes()).collect();
        Progress {
            records,
            status: self.status(),
        }
    }

    /// The blocks that it has changed so far; those of its last commit where it was cut off.
    pub(crate) fn changes(&self) -> ChangedBlocks {
        let moment = match self.run().ending() {
            Some(Ending::Dropped) => Moment::Crash,
            _ => Moment::Now,
        };
        ChangedBlocks::of(
            &self.shared.lab.image_at(moment),
            self.shared.lab.block_bytes(),
            moment == Moment::Crash,
        )
    }

    fn status(&self) -> Status {
        let cpus = (0..self.stage.scenario.cpus).map(CpuId);
        let reports: Vec<CpuReport> = cpus.clone().map(|cpu| self.run().report(cpu)).collect();
        let paused = self.run().paused();
        let cpu_status = |(cpu, report): (CpuId, &CpuReport)| CpuStatus {
            phase: match self.run().phase(cpu) {
                Phase::Starting => CpuPhase::Starting,
                Phase::Finished => CpuPhase::Finished,
                _ if paused => CpuPhase::Paused,
                Phase::Working => CpuPhase::Working,
                Phase::Spinning => CpuPhase::Spinning,
                Phase::Sleeping => CpuPhase::Sleeping,
            },
            operations: report.count(Kind::OperationEnd) + report.count(Kind::InodeRead),
            waited_ns: report.locks.iter().map(|lock| lock.waited_ns).sum(),
        };
        let sum = |kind: Kind| reports.iter().map(|report| report.count(kind)).sum();
        Status {
            elapsed_ns: self.run().elapsed_ns(),
            paused,
            outcome: self.run().ending().map(|ending| match ending {
                Ending::Finished => Outcome::Finished,
                Ending::Drained => Outcome::Drained,
                Ending::Dropped => Outcome::Dropped,
            }),
            dropped: 0,
            fingerprint: None,
            cpus: cpus.zip(&reports).map(cpu_status).collect(),
            locks: self.locks(&reports),
            figures: Figures::of(&self.statistics.borrow()),
            totals: Totals::of(sum),
        }
    }

    fn locks(&self, reports: &[CpuReport]) -> Vec<LockStatus> {
        let mut classes = vec![LockStatus::default(); self.stage.lock_classes.len()];
        for report in reports {
            for (class, lock) in self.stage.class_of_lock.iter().zip(&report.locks) {
                let class = &mut classes[usize::from(*class)];
                class.acquired += lock.acquired;
                class.contended += lock.contended;
                class.failed += lock.failed;
                class.waited_ns += lock.waited_ns;
                class.held_ns += lock.held_ns;
            }
        }
        classes
    }
}

/// Runs one CPU of the current run to its end.
pub(crate) fn run_cpu(cpu: u16) {
    let current = CURRENT.lock().expect("nobody panics while holding it").clone();
    if let Some(shared) = current {
        let cpu = CpuId(cpu);
        let task = ThreadTask::new(&shared.run, cpu);
        shared.run.drive(cpu, shared.lab.run(&task));
    }
}
