//! The lab's half of the page's state: choosing, starting, watching and ending a run.

use gloo::timers::callback::Timeout;
use kernel::Scenario;
use protocol::{Answer, Ask, Clock};
use web_sys::HtmlCanvasElement;
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
                    self.end_run();
                }
            }
            Answer::Failed(trouble) => {
                (self.crew, self.run) = (None, None);
                self.run_trouble = Some(sentence(&trouble));
            }
            _ => {}
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
