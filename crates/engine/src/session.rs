//! What the answering worker has open, and its answers.

use ext4::{Filesystem, GroupNumber, InodeNumber, OpenError, Opened, ReadFailure};
use kernel::{Lab, Scenario};
use machine::{
    CpuId,
    threads::{Dilation, Run},
};
use protocol::{Answer, Ask, Clock, GROUPS_MAX, TABLE_BLOCKS_MAX, Trouble};
use view::{explore, live::Stage};
use web_sys::Blob;

use crate::{
    file::{self, BrowserFile},
    live::LiveRun,
    simulated::SimulatedRun,
};

/// The open image and the run over it.
#[derive(Default)]
pub(crate) struct Session {
    filesystem: Option<Filesystem<BrowserFile>>,
    run: Option<AnyRun>,
}

enum AnyRun {
    Live(LiveRun),
    Simulated(SimulatedRun),
}

impl From<ReadFailure> for Failed {
    fn from(failure: ReadFailure) -> Self {
        Self(match failure {
            ReadFailure::OutOfRange => Trouble::OutOfRange,
            ReadFailure::BadPointer(_) => Trouble::Unusable {
                why: failure.to_string(),
            },
            ReadFailure::Read(error) => Trouble::Unreadable {
                why: error.to_string(),
            },
        })
    }
}

struct Failed(Trouble);

impl Session {
    pub(crate) fn answer(&mut self, ask: Ask, file: Option<Blob>) -> Answer {
        self.try_answer(ask, file)
            .unwrap_or_else(|Failed(trouble)| Answer::Failed(trouble))
    }

    fn try_answer(&mut self, ask: Ask, file: Option<Blob>) -> Result<Answer, Failed> {
        match ask {
            Ask::Open { name } => self.open(&name, file),
            Ask::Groups { first, count } => {
                let filesystem = self.filesystem()?;
                let end = first
                    .saturating_add(count.min(GROUPS_MAX))
                    .min(filesystem.geometry().groups);
                let rows = (first..end).map(|group| explore::group_row(filesystem, GroupNumber(group)));
                Ok(Answer::Groups(rows.collect::<Result<_, _>>()?))
            }
            Ask::Table { group, first, count } => {
                let count = count.min(TABLE_BLOCKS_MAX);
                Ok(Answer::Table(explore::table_window(
                    self.filesystem()?,
                    GroupNumber(group),
                    first,
                    count,
                )?))
            }
            Ask::Inode { number } => {
                let number = InodeNumber::new(number).ok_or(Failed(Trouble::OutOfRange))?;
                Ok(Answer::Inode(Box::new(explore::inode_card(
                    self.filesystem()?,
                    number,
                )?)))
            }
            Ask::Prepare {
                scenario,
                clock,
                started_at,
            } => self.prepare(scenario, clock, started_at),
            Ask::Poll { events_max } => match self.run()? {
                AnyRun::Live(run) => Ok(Answer::Progress(Box::new(run.progress(events_max as usize)))),
                AnyRun::Simulated(run) => Ok(Answer::Progress(Box::new(run.progress(events_max as usize)))),
            },
            Ask::Pause => self.control(|run| run.pause()),
            Ask::Resume => self.control(|run| run.resume()),
            Ask::Step { cpu } => self.control(|run| run.step(CpuId(cpu))),
            Ask::Dilation { factor } => self.control(|run| run.set_dilation(Dilation(factor))),
            Ask::Stop => self.stop(),
        }
    }

    fn filesystem(&self) -> Result<&Filesystem<BrowserFile>, Failed> {
        self.filesystem.as_ref().ok_or(Failed(Trouble::NothingThere))
    }

    fn run(&mut self) -> Result<&mut AnyRun, Failed> {
        self.run.as_mut().ok_or(Failed(Trouble::NothingThere))
    }

    fn open(&mut self, name: &str, file: Option<Blob>) -> Result<Answer, Failed> {
        (self.filesystem, self.run) = (None, None);
        let unreadable = || {
            Failed(Trouble::Unreadable {
                why: "the browser gave no file".to_owned(),
            })
        };
        let file = file.and_then(file::set).ok_or_else(unreadable)?;
        let Opened { filesystem, findings } = Filesystem::open(file).map_err(|error| {
            Failed(match error {
                OpenError::NotExt4 { looks_like } => Trouble::NotExt4 {
                    looks_like: looks_like.to_owned(),
                },
                OpenError::Read(error) => Trouble::Unreadable {
                    why: error.to_string(),
                },
                OpenError::JournalDevice | OpenError::Unusable { .. } => Trouble::Unusable {
                    why: error.to_string(),
                },
            })
        })?;
        let overview = explore::overview(&filesystem, findings, name);
        self.filesystem = Some(filesystem);
        Ok(Answer::Opened(Box::new(overview)))
    }

    fn prepare(&mut self, scenario: Scenario, clock: Clock, started_at: i64) -> Result<Answer, Failed> {
        self.run = None;
        let cannot = |why: String| Failed(Trouble::CannotRun { why });
        let lab = Lab::prepare(self.filesystem()?, scenario, started_at)
            .map_err(|error| cannot(error.to_string()))?;
        let stage = Stage::of(&lab);
        self.run = Some(match clock {
            Clock::Virtual => AnyRun::Simulated(SimulatedRun::new(lab, stage.clone())),
            Clock::SlowMotion { .. } | Clock::FlatOut if cfg!(target_feature = "atomics") => {
                AnyRun::Live(LiveRun::new(lab, stage.clone(), clock))
            }
            _ => {
                return Err(cannot(
                    "workers with shared memory are not to be had here".to_owned(),
                ));
            }
        });
        Ok(Answer::Prepared(Box::new(stage)))
    }

    fn control(&mut self, act: impl FnOnce(&Run)) -> Result<Answer, Failed> {
        match self.run()? {
            AnyRun::Live(run) => {
                act(run.run());
                Ok(Answer::Progress(Box::new(run.progress(0))))
            }
            // Virtual time goes on only when it is polled: there is nothing to hold.
            AnyRun::Simulated(run) => Ok(Answer::Progress(Box::new(run.progress(0)))),
        }
    }

    fn stop(&mut self) -> Result<Answer, Failed> {
        if let AnyRun::Simulated(run) = self.run()? {
            run.stop();
        }
        self.control(|run| run.stop())
    }
}
