//! What the answering worker has open, and its answers.

use std::sync::Arc;

use ext4::{
    BlockNumber, Filesystem, GroupNumber, InodeNumber, OpenError, Opened, ReadFailure, Replayed,
    container::{Image, Peeled, peel},
};
use js_sys::Date;
use kernel::{Lab, Scenario};
use machine::{
    CpuId,
    threads::{Dilation, Run},
};
use protocol::{
    Answer, Ask, CONTENT_MAX, Choice, Clock, GROUPS_MAX, ImageState, SHARES_MAX, TABLE_BLOCKS_MAX, Trouble,
};
use view::{
    changes::changes,
    explore::{self, Reader},
    live::Stage,
};
use web_sys::Blob;

use crate::{file, live::LiveRun, simulated::SimulatedRun};

/// Milliseconds of reading through the disk before other questions have their turn.
const READING_MS: f64 = 25.0;

/// The open image, what is known of it, and the run over it.
#[derive(Default)]
pub(crate) struct Session {
    filesystem: Option<Filesystem<Image>>,
    /// The image as it lies in the file: what runs go over.
    base: Option<Image>,
    /// Where it begins in the file; none where it is wrapped.
    begins_at: Option<u64>,
    reader: Reader,
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

fn inode(number: u32) -> Result<InodeNumber, Failed> {
    InodeNumber::new(number).ok_or(Failed(Trouble::OutOfRange))
}

/// The same image as it would be after its journal has been replayed.
fn replayed(filesystem: &Filesystem<Image>) -> Result<Opened<Image>, Failed> {
    let unusable = |why: String| Failed(Trouble::Unusable { why });
    let journal = filesystem.journal().map_err(|why| unusable(why.to_string()))?;
    let image: Image = Arc::new(Replayed::new(filesystem.image().clone(), &journal));
    Filesystem::open(image).map_err(|why| unusable(why.to_string()))
}

/// Why there is nothing to open, with what there is instead.
fn cannot_open(error: &OpenError, peeled: &Peeled) -> Failed {
    let inside = match peeled.layers.as_slice() {
        [] => String::new(),
        layers => format!(" (inside {})", layers.join(", with ")),
    };
    Failed(match error {
        OpenError::NotExt4 { .. } if !peeled.partitions.is_empty() => {
            let list: Vec<String> = peeled
                .partitions
                .iter()
                .map(|partition| format!("{} ({})", partition.number, partition.kind))
                .collect();
            Trouble::NotExt4 {
                looks_like: format!(
                    "a disk without an ext file system on its partitions {}",
                    list.join(", ")
                ),
            }
        }
        OpenError::NotExt4 { looks_like } => Trouble::NotExt4 {
            looks_like: format!("{looks_like}{inside}"),
        },
        OpenError::Read(error) => Trouble::Unreadable {
            why: error.to_string(),
        },
        OpenError::JournalDevice | OpenError::Unusable { .. } => Trouble::Unusable {
            why: error.to_string(),
        },
    })
}

impl Session {
    pub(crate) fn answer(&mut self, ask: Ask, file: Option<Blob>) -> Answer {
        self.try_answer(ask, file)
            .unwrap_or_else(|Failed(trouble)| Answer::Failed(trouble))
    }

    fn try_answer(&mut self, ask: Ask, file: Option<Blob>) -> Result<Answer, Failed> {
        match ask {
            Ask::Open { name, choice } => self.open(&name, choice, file),
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
            Ask::Changes => Ok(Answer::Changes(match self.run()? {
                AnyRun::Live(run) => run.changes(),
                AnyRun::Simulated(run) => run.changes(),
            })),
            // The threaded engine serves one run and nothing else: it need not carry the explorer.
            _ if cfg!(target_feature = "atomics") => Err(Failed(Trouble::NothingThere)),
            ask => self.explore(ask),
        }
    }

    fn explore(&mut self, ask: Ask) -> Result<Answer, Failed> {
        match ask {
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
            Ask::Inode { number } => Ok(Answer::Inode(Box::new(explore::inode_card(
                self.filesystem()?,
                inode(number)?,
            )?))),
            Ask::Details { number } => {
                let details =
                    explore::inode_details(self.filesystem()?, self.reader.index(), inode(number)?)?;
                Ok(Answer::Details(Box::new(details)))
            }
            Ask::Directory { number, first } => Ok(Answer::Directory(explore::directory_page(
                self.filesystem()?,
                inode(number)?,
                first,
            )?)),
            Ask::Content { number, offset } => Ok(Answer::Content(explore::content(
                self.filesystem()?,
                inode(number)?,
                offset,
            )?)),
            Ask::Whole { number } => {
                let bytes = explore::whole(self.filesystem()?, inode(number)?, CONTENT_MAX)
                    .map_err(|why| Failed(Trouble::Unreadable { why }))?;
                Ok(Answer::Whole { number, bytes })
            }
            Ask::Block { number } => {
                let number = BlockNumber(number);
                let card = explore::block_card(self.filesystem()?, self.reader.index(), number)?;
                Ok(Answer::Block(Box::new(card)))
            }
            Ask::BlockMap { group } => Ok(Answer::BlockMap(explore::block_map(
                self.filesystem()?,
                self.reader.index(),
                GroupNumber(group),
            )?)),
            Ask::Shares { first, count } => {
                let shares = explore::shares(self.filesystem()?, first, count.min(SHARES_MAX));
                Ok(Answer::Shares(first, shares))
            }
            Ask::Journal => Ok(Answer::Journal(Box::new(explore::journal_card(
                self.filesystem()?,
            )))),
            Ask::Orphans => Ok(Answer::Orphans(explore::orphans_card(self.filesystem()?))),
            Ask::ReadOn => self.read_on(),
            Ask::Describe(changed) => {
                let base = self.base.clone().ok_or(Failed(Trouble::NothingThere))?;
                let before = Filesystem::open(base)
                    .map_err(|why| Failed(Trouble::Unusable { why: why.to_string() }))?;
                let told = changes(&before.filesystem, self.reader.index(), &changed, self.begins_at);
                Ok(Answer::Described(told))
            }
            Ask::Find { query } => Ok(Answer::Found(explore::find(self.filesystem()?, &query))),
            _ => Err(Failed(Trouble::NothingThere)),
        }
    }

    fn filesystem(&self) -> Result<&Filesystem<Image>, Failed> {
        self.filesystem.as_ref().ok_or(Failed(Trouble::NothingThere))
    }

    fn run(&mut self) -> Result<&mut AnyRun, Failed> {
        self.run.as_mut().ok_or(Failed(Trouble::NothingThere))
    }

    fn open(&mut self, name: &str, choice: Choice, file: Option<Blob>) -> Result<Answer, Failed> {
        (self.filesystem, self.run, self.base) = (None, None, None);
        let unreadable = || {
            Failed(Trouble::Unreadable {
                why: "the browser gave no file".to_owned(),
            })
        };
        let file = file.and_then(file::set).ok_or_else(unreadable)?;
        let peeled =
            peel(Arc::new(file)).map_err(|why| Failed(Trouble::Unusable { why: why.to_string() }))?;
        let image = peeled
            .choose(choice.partition)
            .map_err(|why| Failed(Trouble::Unusable { why: why.to_string() }))?;
        self.base = Some(image.clone());
        self.begins_at = peeled.begins_at(choice.partition).ok().flatten();
        let Opened { filesystem, findings } =
            Filesystem::open(image).map_err(|error| cannot_open(&error, &peeled))?;
        let Opened { filesystem, findings } = match choice.state {
            ImageState::OnDisk => Opened { filesystem, findings },
            ImageState::Replayed => replayed(&filesystem)?,
        };
        let mut overview = explore::overview(&filesystem, findings.clone(), name);
        explore::wrap(&mut overview, &peeled, choice.partition);
        overview.replayed = choice.state == ImageState::Replayed;
        self.reader = Reader::new(findings);
        self.filesystem = Some(filesystem);
        Ok(Answer::Opened(Box::new(overview)))
    }

    fn read_on(&mut self) -> Result<Answer, Failed> {
        let filesystem = self.filesystem.as_ref().ok_or(Failed(Trouble::NothingThere))?;
        let begun = Date::now();
        let state = self.reader.go_on(filesystem, || Date::now() - begun < READING_MS);
        Ok(Answer::Reading(Box::new(state)))
    }

    fn prepare(&mut self, scenario: Scenario, clock: Clock, started_at: i64) -> Result<Answer, Failed> {
        self.run = None;
        let cannot = |why: String| Failed(Trouble::CannotRun { why });
        // Always over what lies in the file: the run replays its journal by itself.
        let base = self.base.clone().ok_or(Failed(Trouble::NothingThere))?;
        let opened = Filesystem::open(base).map_err(|why| cannot(why.to_string()))?;
        let lab = Lab::prepare(&opened.filesystem, scenario, started_at)
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
