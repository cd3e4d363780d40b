//! A run in virtual time. It goes on only while the page asks for its events.

use kernel::{Lab, Moment, Simulation};
use machine::virtual_time::{self, Trace};
use protocol::Progress;
use trace::{Fingerprint, Kind, statistics::Statistics};
use view::changes::ChangedBlocks;
use view::live::{CpuPhase, CpuStatus, Figures, LiveView, LockStatus, Outcome, Stage, Status, Totals};

/// Resumptions between looks at how many events there are.
const STEP: u64 = 64;

/// A run in virtual time.
pub(crate) struct SimulatedRun {
    simulation: Simulation,
    fingerprint: Fingerprint,
    stage: Stage,
    outcome: Option<Outcome>,
    stopped: bool,
    /// What the events handed out so far add up to.
    view: LiveView,
    statistics: Statistics,
    waited_ns: Vec<u64>,
}

impl SimulatedRun {
    pub(crate) fn new(lab: Lab, stage: Stage) -> Self {
        let cpus = stage.scenario.cpus;
        Self {
            simulation: Simulation::new(lab, Trace::On),
            view: LiveView::new(&stage),
            statistics: Statistics::default(),
            waited_ns: vec![0; usize::from(cpus)],
            fingerprint: Fingerprint::default(),
            stage,
            outcome: None,
            stopped: false,
        }
    }

    /// Goes on until there are `max` events, and hands them out.
    pub(crate) fn progress(&mut self, max: usize) -> Progress {
        let mut ended = false;
        while !ended && self.simulation.machine().events_waiting() < max {
            ended = self.simulation.step(STEP) != virtual_time::Progress::More;
        }
        let events = self.simulation.machine().take_events(max);
        for record in &events {
            self.view.apply(*record);
            self.fingerprint.add(record);
            self.statistics.add(&record.event);
            if record.event.kind == Kind::LockAcquired {
                self.waited_ns[usize::from(record.event.cpu)] += record.event.argument;
            }
        }
        if ended && self.simulation.machine().events_waiting() == 0 {
            self.outcome = Some(if self.stopped {
                Outcome::Drained
            } else {
                Outcome::Finished
            });
        }
        let records = events.into_iter().flat_map(|record| record.to_bytes()).collect();
        Progress {
            records,
            status: self.status(),
        }
    }

    /// Begins no new operation.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.simulation.machine().stop();
    }

    /// The blocks that it has changed so far.
    pub(crate) fn changes(&self) -> ChangedBlocks {
        let lab = self.simulation.lab();
        ChangedBlocks::of(&lab.image_at(Moment::Now), lab.block_bytes(), false)
    }

    fn locks(&self) -> Vec<LockStatus> {
        let mut locks = vec![LockStatus::default(); self.stage.lock_classes.len()];
        let classes = self.statistics.by_class(&self.stage.class_of_lock);
        for (status, lock) in locks.iter_mut().zip(classes) {
            *status = LockStatus {
                acquired: lock.acquired,
                contended: lock.contended,
                failed: lock.failed,
                waited_ns: lock.waiting.sum(),
                held_ns: lock.holding.sum(),
            };
        }
        locks
    }

    fn status(&self) -> Status {
        let cpus = self.view.cpus.iter().zip(&self.waited_ns);
        let sum = |kind: Kind| self.simulation.machine().total(kind);
        Status {
            elapsed_ns: self.view.time_ns,
            paused: false,
            outcome: self.outcome,
            dropped: 0,
            fingerprint: Some(self.fingerprint.value()),
            cpus: cpus
                .map(|(cpu, waited_ns)| CpuStatus {
                    phase: if self.outcome.is_some() {
                        CpuPhase::Finished
                    } else {
                        cpu.phase
                    },
                    operations: cpu.operations,
                    waited_ns: *waited_ns,
                })
                .collect(),
            locks: self.locks(),
            figures: Figures::of(&self.statistics),
            totals: Totals::of(sum),
        }
    }
}
