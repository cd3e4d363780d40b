//! Pause, resume, step, stop, and how much slower than life a run goes.

use std::sync::Mutex;

/// Real time over modelled time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dilation(pub u64);

/// What the CPUs are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Go,
    Pause,
    /// Finish the operation under way, begin no other; after the moment given (real ns) give up.
    Drain {
        until_ns: u64,
    },
}

/// The run's clock and its command, changed together so that no time is lost or counted twice.
#[derive(Debug)]
pub(super) struct Control(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    command: Command,
    dilation: u64,
    /// Modelled time at the last change.
    modelled_ns: u64,
    /// Real time at the last change.
    real_ns: u64,
}

impl State {
    fn modelled_at(&self, real_ns: u64) -> u64 {
        match self.command {
            Command::Pause => self.modelled_ns,
            // While draining nothing is stretched any more: time goes on as it did.
            _ => self.modelled_ns + real_ns.saturating_sub(self.real_ns) / self.dilation,
        }
    }
}

impl Control {
    pub(super) fn new(dilation: Dilation, real_ns: u64) -> Self {
        let state = State {
            command: Command::Go,
            dilation: dilation.0.max(1),
            modelled_ns: 0,
            real_ns,
        };
        Self(Mutex::new(state))
    }

    fn with<R>(&self, read: impl FnOnce(&mut State) -> R) -> R {
        read(&mut self.0.lock().expect("nobody panics while holding it"))
    }

    /// Modelled time at this real time.
    pub(super) fn modelled(&self, real_ns: u64) -> u64 {
        self.with(|state| state.modelled_at(real_ns))
    }

    pub(super) fn command(&self) -> Command {
        self.with(|state| state.command)
    }

    pub(super) fn dilation(&self) -> u64 {
        self.with(|state| state.dilation)
    }

    /// Gives a command. A run that drains keeps draining.
    pub(super) fn set_command(&self, command: Command, real_ns: u64) {
        self.change(real_ns, |state| {
            if !matches!(state.command, Command::Drain { .. }) {
                state.command = command;
            }
        });
    }

    pub(super) fn set_dilation(&self, dilation: Dilation, real_ns: u64) {
        self.change(real_ns, |state| state.dilation = dilation.0.max(1));
    }

    fn change(&self, real_ns: u64, change: impl FnOnce(&mut State)) {
        self.with(|state| {
            state.modelled_ns = state.modelled_at(real_ns);
            state.real_ns = real_ns;
            change(state);
        });
    }
}
