//! What can happen to the page, and the choices that its controls offer.

use kernel::{Design, Lazytime, Placement, ProfileNumber, Reader};
use protocol::Choice;
use view::explore::Overview;
use web_sys::{Blob, File};

use super::Look;
use crate::{crew::Who, engine::Said, page::BuildNote, theme::Theme};

/// Which half of the page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Explore,
    Lab,
}

/// The image.
pub(crate) enum Image {
    Loading(String),
    Open {
        overview: Box<Overview>,
        file: Blob,
        choice: Choice,
    },
    Failed {
        name: String,
        trouble: String,
    },
}

/// Which clock is chosen; the speed is beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockChoice {
    Slow,
    Flat,
    Virtual,
}

/// What happened.
pub(crate) enum Msg {
    Note(BuildNote),
    Sample(usize),
    Unpacked(String, Result<Blob, String>),
    Open(File),
    Explorer(Said),
    RestartExplorer,
    Tab(Tab),
    Theme(Theme),
    Look(Look),
    /// Opens another part of the same file, or another state of it.
    Choose(Choice),
    Set(Setting),
    Run,
    Pause,
    Resume,
    Step(u16),
    Stop,
    StopTooLong(u32),
    /// Lets the browser keep the image as the run has changed it.
    SaveChanged,
    Crew(u32, Who, Said),
    Frame(f64),
    Resized,
    DismissTrouble,
}

/// A control of the lab.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    Cpus(u16),
    Design(Design),
    Profile(ProfileNumber),
    Lazytime(Lazytime),
    Placement(Placement),
    Reader(Reader),
    Seed(u64),
    /// For each job; 0: until it is stopped.
    Operations(u64),
    Clock(ClockChoice),
    Dilation(u64),
}
