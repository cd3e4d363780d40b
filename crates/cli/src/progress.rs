//! How far something is that takes a while: one line on standard error, if that is a terminal.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// How often the line is written anew.
const EVERY: Duration = Duration::from_millis(100);

/// The line. It is wiped out in the end.
pub(crate) struct Progress {
    is_terminal: bool,
    shown: Option<Instant>,
    begun: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            shown: None,
            begun: Instant::now(),
        }
    }

    /// Says that `done` of `of` parts of something are done.
    pub(crate) fn show(&mut self, what: &str, done: u64, of: u64) {
        let last = self.shown.unwrap_or(self.begun);
        if !self.is_terminal || last.elapsed() < EVERY {
            return;
        }
        self.shown = Some(Instant::now());
        let percent = (done.saturating_mul(100)).checked_div(of).unwrap_or(100);
        // A terminal that has gone away is no reason to stop.
        let _ = write!(io::stderr(), "\r\x1b[K{what}: {percent} %");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
