//! The lab's half of the page's state: choosing, starting, watching and ending a run.

use gloo::timers::callback::Timeout;
use js_sys::{Array, Uint8Array};
use kernel::Scenario;
use protocol::{Answer, Ask, Clock};
use view::changes::ChangedBlocks;
use web_sys::{Blob, HtmlCanvasElement};
use yew::Context;

use super::{
    App,
    message::{ClockChoice, Image, Msg, Setting},
    sentence,
};
use crate::{
    components,
    crew::{Crew, Run, Who, now_seconds},
    engine::{HANGS, Said},
    page,
};

/// How long the workers have to end after Stop.
const STOP_MS: u32 = 2_500;
/// Yew renders at most this often; canvases are drawn in every frame.
const RENDER_MS: f64 = 100.0;

impl App {
    pub(super) fn set(&mut self, setting: Setting) {
        match setting {
            Setting::Cpus(cpus) => self.scenario.cpus = cpus.clamp(1, Scenario::CPUS_MAX),
            Setting::Design(design) => self.scenario.design = design,
            Setting::Profile(profile) => self.scenario.profile = profile,
            Setting::Lazytime(lazytime) => self.scenario.lazytime = lazytime,
            Setting::Placement(placement) => self.scenario.placement = placement,
            Setting::Reader(reader) => self.scenario.reader = reader,
            Setting::Seed(seed) => self.scenario.seed = seed,
            Setting::Operations(number) => self.scenario.operations = (number > 0).then_some(number),
            Setting::Clock(clock) => self.clock = clock,
            Setting::Dilation(factor) => {
                self.dilation = factor;
                if let Some(run) = &mut self.run {
                    run.events_a_second = events_a_second(factor);
                }
                if let Some(crew) = &mut self.crew {
                    crew.lead.ask(Ask::Dilation { factor });
                }
            }
        }
    }

    pub(super) fn start_run(&mut self, context: &Context<Self>) {
        let Image::Open { file, choice, .. } = &self.image else {
            return;
        };
        self.run_trouble = None;
        self.crew = None;
        self.generation += 1;
        let clock = match self.clock {
            ClockChoice::Slow => Clock::SlowMotion {
                dilation: self.dilation,
            },
            ClockChoice::Flat => Clock::FlatOut,
            ClockChoice::Virtual => Clock::Virtual,
        };
        self.run = Some(Run::new(self.scenario, clock, events_a_second(self.dilation)));
        if clock == Clock::Virtual {
            self.ask(Ask::Prepare {
                scenario: self.scenario,
                clock,
                started_at: now_seconds(),
            });
            return;
        }
        let generation = self.generation;
        let said = context
            .link()
            .callback(move |(who, said)| Msg::Crew(generation, who, said));
        match Crew::start(self.scenario, clock, (file, *choice), &self.note.build, said) {
            Ok(crew) => self.crew = Some(crew),
            Err(why) => self.lose_run(&why),
        }
    }

    pub(super) fn control(&mut self, body: Ask) {
        let Some(run) = &mut self.run else { return };
        match body {
            Ask::Pause => run.paused = true,
            Ask::Resume => run.paused = false,
            // In virtual time a step is the next event, whoever's it is.
            Ask::Step { .. } if run.clock == Clock::Virtual => {
                run.asked = true;
                self.ask(Ask::Poll { events_max: 1 });
                return;
            }
            _ => {}
        }
        if let Some(crew) = &mut self.crew {
            crew.lead.ask(body);
        }
    }

    pub(super) fn stop(&mut self, context: &Context<Self>) {
        let Some(run) = &mut self.run else { return };
        run.paused = false;
        match &mut self.crew {
            Some(crew) => {
                crew.lead.ask(Ask::Stop);
                let (link, generation) = (context.link().clone(), self.generation);
                self.stop_timer = Some(Timeout::new(STOP_MS, move || {
                    link.send_message(Msg::StopTooLong(generation));
                }));
            }
            None => {
                // What is left of the operations is a moment's work.
                run.events_owed = 20_000.0;
                self.ask(Ask::Stop);
            }
        }
    }

    pub(super) fn crew_said(&mut self, who: Who, said: Said) {
        match (who, said) {
            (Who::Lead, Said::Ready(module)) => {
                if let Some(crew) = &mut self.crew {
                    crew.ready(module);
                }
            }
            (Who::Lead, Said::Reply(reply)) => {
                if let Some(crew) = &mut self.crew {
                    crew.lead.answered();
                }
                self.lead_replied(reply.body);
            }
            (_, Said::Died(why)) => self.lose_run(&why),
            _ => {}
        }
    }

    fn lead_replied(&mut self, answer: Answer) {
        match answer {
            Answer::Prepared(stage) => self.prepared(*stage),
            Answer::Progress(progress) => {
                let Some(run) = &mut self.run else { return };
                let polled = run.asked;
                run.progress(&progress);
                if polled && progress.status.outcome.is_some() && progress.records.is_empty() {
                    // The workers' memory goes with them: what they changed comes first.
                    run.asked = true;
                    match &mut self.crew {
                        Some(crew) => drop(crew.lead.ask(Ask::Changes)),
                        None => self.end_run(),
                    }
                }
            }
            Answer::Changes(changed) => {
                self.changed(changed);
                self.end_run();
            }
            Answer::Failed(trouble) => {
                (self.crew, self.run) = (None, None);
                self.run_trouble = Some(sentence(&trouble));
            }
            _ => {}
        }
    }

    /// The run has changed these blocks: to be told, and to be kept if somebody wants to.
    pub(super) fn changed(&mut self, changed: ChangedBlocks) {
        if let Some(run) = &mut self.run {
            run.changed = Some(changed.clone());
            self.ask(Ask::Describe(changed));
        }
    }

    /// Lets the browser keep the image as the run has changed it: parts of the file, and the changed blocks.
    pub(super) fn save_changed(&self) {
        let Image::Open { file, overview, .. } = &self.image else {
            return;
        };
        let Some(run) = &self.run else { return };
        if let (Some(changed), Some(Some(begin))) = (
            &run.changed,
            run.changes.as_ref().map(|changes| changes.begins_at),
        ) {
            page::save(
                &parts(file, begin, changed),
                &format!("changed-{}", overview.file_name),
            );
        }
    }

    fn prepared(&mut self, stage: view::live::Stage) {
        let cpus = stage.scenario.cpus;
        if let Some(run) = &mut self.run {
            run.prepared(stage);
        }
        if let Some(Err(why)) = self.crew.as_mut().map(|crew| crew.start_cpus(cpus)) {
            self.lose_run(&why);
        }
    }

    /// A worker is dead: all of them go, and their memory.
    fn lose_run(&mut self, why: &str) {
        self.crew = None;
        self.end_run();
        self.run_trouble = Some(format!(
            "A worker of the run ended unexpectedly ({why}). Press Run for a fresh start."
        ));
    }

    /// Ends engines that do not answer any more; says whether there were any.
    fn lose_what_hangs(&mut self, frame_seconds: f64) -> bool {
        let explorer = self
            .engine
            .take_if(|engine| engine.hangs(frame_seconds))
            .is_some();
        if explorer {
            self.explorer_died = Some(HANGS.to_owned());
        }
        let crew = self.crew.take_if(|crew| crew.lead.hangs(frame_seconds)).is_some();
        if crew {
            self.lose_run(HANGS);
        }
        explorer || crew
    }

    /// The workers have ended, or are not wanted any more.
    pub(super) fn end_run(&mut self) {
        self.crew = None;
        self.stop_timer = None;
        if let Some(run) = &mut self.run {
            run.ended = true;
        }
    }

    pub(super) fn next_frame(&mut self, context: &Context<Self>) {
        let link = context.link().clone();
        self.frame = Some(gloo::render::request_animation_frame(move |now_ms| {
            link.send_message(Msg::Frame(now_ms));
        }));
    }

    pub(super) fn on_frame(&mut self, context: &Context<Self>, now_ms: f64) -> bool {
        self.next_frame(context);
        let seconds = (now_ms - self.last_frame_ms) / 1000.0;
        self.last_frame_ms = now_ms;
        if self.lose_what_hangs(seconds) {
            return true;
        }
        let Some(run) = &mut self.run else { return false };
        if run.ended {
            return false;
        }
        if let Some(events_max) = run.wants(seconds) {
            run.asked = true;
            let engine = if run.clock == Clock::Virtual {
                self.engine.as_mut()
            } else {
                self.crew.as_mut().map(|crew| &mut crew.lead)
            };
            if let Some(engine) = engine {
                engine.ask(Ask::Poll { events_max });
            }
        }
        if let Some(canvas) = self.stage_canvas.cast::<HtmlCanvasElement>() {
            components::stage::draw(self, &canvas);
        }
        let due = now_ms - self.last_render_ms >= RENDER_MS;
        if due {
            self.last_render_ms = now_ms;
        }
        due
    }

    /// Whether a run goes on, so that its choices are fixed.
    pub(crate) fn running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.ended)
    }
}

/// How many events a second virtual time shows at this dilation; an event is about 50 ns of modelled time.
fn events_a_second(dilation: u64) -> f64 {
    2e7 / dilation as f64
}

/// Zeros that are handed to the browser at once.
const ZEROS: u64 = 1 << 20;

/// The file with changed blocks in it, as parts one after the other.
fn parts(file: &Blob, begin: u64, changed: &ChangedBlocks) -> Array {
    let size = u64::from(changed.block_bytes);
    let parts = Array::new();
    let mut at = 0;
    let keep = |from: u64, to: u64| {
        if let Ok(slice) = file.slice_with_f64_and_f64(from as f64, to as f64)
            && from < to
        {
            parts.push(&slice);
        }
    };
    // Runs of zeros and blocks, in the order of the file; blocks lie in front of the zeros around them.
    let mut pieces: Vec<(u64, u64, Option<&[u8]>)> = Vec::new();
    for (first, end) in &changed.zeroed {
        let mut from = *first;
        for (number, _) in changed
            .blocks
            .iter()
            .filter(|(number, _)| (*first..*end).contains(number))
        {
            pieces.push((from, *number, None));
            from = number + 1;
        }
        pieces.push((from, *end, None));
    }
    pieces.extend(
        changed
            .blocks
            .iter()
            .map(|(number, bytes)| (*number, number + 1, Some(bytes.as_slice()))),
    );
    pieces.sort_by_key(|(first, ..)| *first);
    for (first, end, bytes) in pieces {
        let (from, to) = (begin + first * size, begin + end * size);
        keep(at, from);
        match bytes {
            Some(bytes) => drop(parts.push(&Uint8Array::from(bytes))),
            None => {
                let mut left = to.saturating_sub(from);
                while left > 0 {
                    let part = left.min(ZEROS);
                    parts.push(&Uint8Array::new_with_length(part as u32));
                    left -= part;
                }
            }
        }
        at = at.max(to);
    }
    keep(at, file.size() as u64);
    parts
}
