//! A run over the open image: who carries it out, and what has come of it so far.

use kernel::Scenario;
use protocol::{Ask, Choice, Clock, Progress};
use trace::{Numbered, RECORD_BYTES};
use view::changes::{ChangedBlocks, Changes};
use view::live::{LiveView, Stage, Status};
use web_sys::Blob;
use yew::Callback;

use crate::engine::{Engine, Module, Role, Said};

/// Events asked for in one frame of a live run.
const EVENTS_A_FRAME: u32 = 4000;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The worker that answers.
    Lead,
    /// A simulated CPU.
    Cpu,
}

/// The workers of one live run. All of them end when this is dropped, and their memory with them.
pub(crate) struct Crew {
    pub(crate) lead: Engine,
    module: Option<Module>,
    cpus: Vec<Engine>,
    file: Blob,
    build: String,
    said: Callback<(Who, Said)>,
}

impl Crew {
    /// Starts the leading worker, and lets it set up the run.
    pub(crate) fn start(
        scenario: Scenario,
        clock: Clock,
        (file, choice): (&Blob, Choice),
        build: &str,
        said: Callback<(Who, Said)>,
    ) -> Result<Self, String> {
        let to_page = said.clone();
        let mut lead = Engine::start(
            &Role::Lead,
            build,
            Callback::from(move |what| to_page.emit((Who::Lead, what))),
        )?;
        lead.open("", choice, file);
        lead.ask(Ask::Prepare {
            scenario,
            clock,
            started_at: now_seconds(),
        });
        Ok(Self {
            lead,
            module: None,
            cpus: Vec::new(),
            file: file.clone(),
            build: build.to_owned(),
            said,
        })
    }

    /// Takes the lead's module and memory.
    pub(crate) fn ready(&mut self, module: Module) {
        self.module = Some(module);
    }

    /// Starts the CPUs: the run is set up.
    pub(crate) fn start_cpus(&mut self, cpus: u16) -> Result<(), String> {
        let module = self
            .module
            .clone()
            .ok_or("the engine has not said that it is up")?;
        for number in 0..cpus {
            let said = self.said.clone();
            let role = Role::Cpu {
                number,
                module: module.clone(),
                file: self.file.clone(),
            };
            let engine = Engine::start(
                &role,
                &self.build,
                Callback::from(move |what| said.emit((Who::Cpu, what))),
            )?;
            self.cpus.push(engine);
        }
        Ok(())
    }
}

/// Seconds since 1970.
pub(crate) fn now_seconds() -> i64 {
    (js_sys::Date::now() / 1000.0) as i64
}

/// What is known of a run.
pub(crate) struct Run {
    pub(crate) scenario: Scenario,
    pub(crate) clock: Clock,
    pub(crate) stage: Option<Stage>,
    pub(crate) view: Option<LiveView>,
    pub(crate) status: Option<Status>,
    /// Nothing more will come of it.
    pub(crate) ended: bool,
    /// Held by the page; a live run also holds its workers.
    pub(crate) paused: bool,
    /// A question is under way: the next waits for its answer.
    pub(crate) asked: bool,
    /// In virtual time: events a second, and what is left of them from the last frame.
    pub(crate) events_a_second: f64,
    pub(crate) events_owed: f64,
    /// The blocks that it has changed, once it has ended.
    pub(crate) changed: Option<ChangedBlocks>,
    /// The same, told.
    pub(crate) changes: Option<Changes>,
}

impl Run {
    pub(crate) fn new(scenario: Scenario, clock: Clock, events_a_second: f64) -> Self {
        Self {
            scenario,
            clock,
            stage: None,
            view: None,
            status: None,
            ended: false,
            paused: false,
            asked: false,
            events_a_second,
            events_owed: 0.0,
            changed: None,
            changes: None,
        }
    }

    pub(crate) fn prepared(&mut self, stage: Stage) {
        self.view = Some(LiveView::new(&stage));
        self.stage = Some(stage);
    }

    /// Takes in what has happened.
    pub(crate) fn progress(&mut self, progress: &Progress) {
        self.asked = false;
        if let Some(view) = &mut self.view {
            for record in progress
                .records
                .as_chunks::<RECORD_BYTES>()
                .0
                .iter()
                .filter_map(Numbered::from_bytes)
            {
                view.apply(record);
            }
        }
        self.status = Some(progress.status.clone());
        if self.clock == Clock::Virtual && progress.status.outcome.is_some() {
            self.ended = true;
        }
    }

    /// How many events to ask for in this frame; `None`: do not ask.
    pub(crate) fn wants(&mut self, frame_seconds: f64) -> Option<u32> {
        if self.asked || self.ended || self.stage.is_none() {
            return None;
        }
        if self.clock != Clock::Virtual {
            return Some(EVENTS_A_FRAME);
        }
        if self.paused {
            return None;
        }
        self.events_owed += self.events_a_second * frame_seconds.min(0.1);
        let events = self.events_owed.floor();
        self.events_owed -= events;
        (events >= 1.0).then_some(events.min(20_000.0) as u32)
    }

    /// Operations per second of modelled time (real time flat out), over all of the run.
    pub(crate) fn operations_a_second(&self) -> Option<f64> {
        let status = self.status.as_ref()?;
        (status.totals.operations > 0)
            .then(|| status.totals.operations as f64 / status.elapsed_ns as f64 * 1e9)
    }
}
