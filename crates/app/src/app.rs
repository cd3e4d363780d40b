//! The page's state, and what every message does to it.

use gloo::{events::EventListener, render::AnimationFrame, timers::callback::Timeout};
use kernel::{Design, Lazytime, Placement, Reader, Scenario};
use protocol::{Answer, Ask, Clock, Reply, Trouble};
use view::explore::{GroupRow, InodeCard, Overview, TableWindow};
use wasm_bindgen::JsCast;
use web_sys::{Blob, File, HtmlCanvasElement};
use yew::{Component, Context, Html, NodeRef, html};

use crate::{
    components,
    crew::{Crew, Run, Who, now_seconds},
    engine::{Engine, Role, Said},
    page::{self, BuildNote},
};

/// Groups on one page of the list.
pub(crate) const GROUPS_A_PAGE: u32 = 64;
/// Slots of an inode table on one page.
const SLOTS_A_PAGE: u32 = 8192;
/// How long the workers have to end after Stop.
const STOP_MS: u32 = 2_500;
/// Yew renders at most this often; canvases are drawn in every frame.
const RENDER_MS: f64 = 100.0;
/// The image that is open at first.
pub(crate) const SAMPLES: [(&str, &str, &str); 2] = [
    (
        "everyday.img.gz",
        "everyday.img",
        "ext4, 4 KiB blocks, 256-byte inodes",
    ),
    (
        "classic.img.gz",
        "classic.img",
        "ext3, 1 KiB blocks, 128-byte inodes",
    ),
];

/// Which half of the page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Explore,
    Lab,
}

/// Light, dark, or as the system has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    System,
    Light,
    Dark,
}

/// The image.
pub(crate) enum Image {
    Loading(String),
    Open { overview: Box<Overview>, file: Blob },
    Failed { name: String, trouble: String },
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
    Group(u32),
    GroupsPage(u32),
    TablePage(u32),
    Inode(u32),
    /// Moves the cursor by so many slots, as far as the table goes.
    Move(i64),
    Set(Setting),
    Run,
    Pause,
    Resume,
    Step(u16),
    Stop,
    StopTooLong(u32),
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
    Lazytime(Lazytime),
    Placement(Placement),
    Reader(Reader),
    Seed(u64),
    Clock(ClockChoice),
    Dilation(u64),
}

pub(crate) struct App {
    pub(crate) note: BuildNote,
    explorer: Option<Engine>,
    /// Why the explorer's worker ended.
    pub(crate) explorer_died: Option<String>,
    pending_open: Option<(String, Blob)>,
    pub(crate) image: Image,
    pub(crate) tab: Tab,
    pub(crate) theme: Theme,
    pub(crate) groups: Vec<GroupRow>,
    pub(crate) groups_first: u32,
    pub(crate) group: u32,
    pub(crate) table: Option<TableWindow>,
    pub(crate) card: Option<InodeCard>,
    pub(crate) inode: u32,
    pub(crate) scenario: Scenario,
    pub(crate) clock: ClockChoice,
    pub(crate) dilation: u64,
    pub(crate) run: Option<Run>,
    crew: Option<Crew>,
    generation: u32,
    pub(crate) run_trouble: Option<String>,
    stop_timer: Option<Timeout>,
    frame: Option<AnimationFrame>,
    _on_resize: EventListener,
    last_frame_ms: f64,
    last_render_ms: f64,
    pub(crate) table_canvas: NodeRef,
    pub(crate) stage_canvas: NodeRef,
}

impl Component for App {
    type Message = Msg;
    type Properties = ();

    fn create(context: &Context<Self>) -> Self {
        context
            .link()
            .send_future(async { Msg::Note(page::build_note().await) });
        let link = context.link().clone();
        let on_resize = EventListener::new(&gloo::utils::window(), "resize", move |_| {
            link.send_message(Msg::Resized);
        });
        let mut app = Self {
            note: BuildNote::default(),
            explorer: None,
            explorer_died: None,
            pending_open: None,
            image: Image::Loading(SAMPLES[0].1.to_owned()),
            tab: Tab::Lab,
            theme: stored_theme(),
            groups: Vec::new(),
            groups_first: 0,
            group: 0,
            table: None,
            card: None,
            inode: 0,
            scenario: Scenario::default(),
            clock: ClockChoice::Slow,
            dilation: 100_000,
            run: None,
            crew: None,
            generation: 0,
            run_trouble: None,
            stop_timer: None,
            frame: None,
            _on_resize: on_resize,
            last_frame_ms: 0.0,
            last_render_ms: 0.0,
            table_canvas: NodeRef::default(),
            stage_canvas: NodeRef::default(),
        };
        app.apply_theme();
        app.next_frame(context);
        app
    }

    fn update(&mut self, context: &Context<Self>, message: Msg) -> bool {
        match message {
            Msg::Note(note) => {
                if note.no_workers.is_some() {
                    self.clock = ClockChoice::Virtual;
                }
                self.note = note;
                self.start_explorer(context);
                context.link().send_message(Msg::Sample(0));
            }
            Msg::Sample(number) => self.open_sample(context, number),
            Msg::Unpacked(name, Ok(blob)) => self.open(name, blob),
            Msg::Unpacked(name, Err(trouble)) => self.image = Image::Failed { name, trouble },
            Msg::Open(file) => {
                let name = file.name();
                self.open(name, file.unchecked_into());
            }
            Msg::Explorer(said) => self.explorer_said(context, said),
            Msg::RestartExplorer => {
                self.start_explorer(context);
                context.link().send_message(Msg::Sample(0));
            }
            Msg::Tab(tab) => self.tab = tab,
            Msg::Theme(theme) => {
                self.theme = theme;
                self.apply_theme();
            }
            Msg::Group(group) => self.show_group(group),
            Msg::GroupsPage(first) => {
                self.groups_first = first;
                self.ask(Ask::Groups {
                    first,
                    count: GROUPS_A_PAGE,
                });
            }
            Msg::TablePage(first) => self.ask_table(first),
            Msg::Inode(number) => {
                self.inode = number;
                self.ask(Ask::Inode { number });
            }
            Msg::Move(by) => {
                let Some(window) = &self.table else { return false };
                let last = i64::from(window.first_inode) + window.slots.len() as i64 - 1;
                let to = i64::from(self.inode)
                    .saturating_add(by)
                    .min(last)
                    .max(window.first_inode.into());
                self.inode = to as u32;
                self.ask(Ask::Inode { number: self.inode });
            }
            Msg::Set(setting) => self.set(setting),
            Msg::Run => self.start_run(context),
            Msg::Pause => self.control(Ask::Pause),
            Msg::Resume => self.control(Ask::Resume),
            Msg::Step(cpu) => self.control(Ask::Step { cpu }),
            Msg::Stop => self.stop(context),
            Msg::StopTooLong(generation) => {
                if generation == self.generation && self.crew.is_some() {
                    self.crew = None;
                    self.run_trouble = Some(
                        "The workers did not end by themselves and were ended. Press Run for a fresh start."
                            .to_owned(),
                    );
                    self.end_run();
                }
            }
            Msg::Crew(generation, who, said) if generation == self.generation => self.crew_said(who, said),
            Msg::Crew(..) => return false,
            Msg::Frame(now_ms) => return self.on_frame(context, now_ms),
            // Canvases are drawn anew whenever the page is rendered.
            Msg::Resized => {}
            Msg::DismissTrouble => self.run_trouble = None,
        }
        true
    }

    fn view(&self, context: &Context<Self>) -> Html {
        html! {
            <>
                <a class="skip" href="#main">{ "Skip to the content" }</a>
                { components::header::view(self, context) }
                <main id="main">
                    { match self.tab {
                        Tab::Explore => components::explore::view(self, context),
                        Tab::Lab => components::lab::view(self, context),
                    } }
                </main>
            </>
        }
    }

    fn rendered(&mut self, _context: &Context<Self>, _first: bool) {
        if let Some(canvas) = self.table_canvas.cast::<HtmlCanvasElement>() {
            components::explore::draw(self, &canvas);
        }
        if let Some(canvas) = self.stage_canvas.cast::<HtmlCanvasElement>() {
            components::stage::draw(self, &canvas);
        }
    }
}

impl App {
    fn start_explorer(&mut self, context: &Context<Self>) {
        self.explorer_died = None;
        match Engine::start(
            &Role::Explorer,
            &self.note.build,
            context.link().callback(Msg::Explorer),
        ) {
            Ok(engine) => self.explorer = Some(engine),
            Err(why) => self.explorer_died = Some(why),
        }
    }

    fn ask(&mut self, body: Ask) {
        if let Some(engine) = &mut self.explorer {
            engine.ask(body);
        }
    }

    fn open_sample(&mut self, context: &Context<Self>, number: usize) {
        let (file, name, _) = SAMPLES[number];
        self.image = Image::Loading(name.to_owned());
        context
            .link()
            .send_future(async move { Msg::Unpacked(name.to_owned(), page::open_sample(file).await) });
    }

    fn open(&mut self, name: String, blob: Blob) {
        self.end_run();
        (self.crew, self.run, self.run_trouble) = (None, None, None);
        self.generation += 1;
        self.image = Image::Loading(name.clone());
        (self.groups, self.groups_first, self.table, self.card) = (Vec::new(), 0, None, None);
        self.pending_open = Some((name.clone(), blob.clone()));
        if let Some(engine) = &mut self.explorer {
            engine.open(&name, &blob);
        }
    }

    fn explorer_said(&mut self, context: &Context<Self>, said: Said) {
        match said {
            Said::Ready(_) | Said::Ended => {}
            Said::Died(why) => {
                self.explorer = None;
                self.explorer_died = Some(why);
            }
            Said::Reply(reply) => self.explorer_replied(context, *reply),
        }
    }

    fn explorer_replied(&mut self, context: &Context<Self>, reply: Reply) {
        match reply.body {
            Answer::Opened(overview) => {
                if let Some((_, file)) = self.pending_open.take() {
                    self.image = Image::Open { overview, file };
                    self.ask(Ask::Groups {
                        first: 0,
                        count: GROUPS_A_PAGE,
                    });
                    self.show_group(0);
                }
            }
            Answer::Groups(rows) => self.groups = rows,
            Answer::Table(window) => {
                // Of the very first slots the root directory tells most.
                self.inode = window.first_inode + u32::from(window.first_inode == 1);
                self.table = Some(window);
                context.link().send_message(Msg::Inode(self.inode));
            }
            Answer::Inode(card) if card.number == self.inode => self.card = Some(*card),
            Answer::Inode(_) => {}
            Answer::Prepared(stage) => {
                if let Some(run) = &mut self.run {
                    run.prepared(*stage);
                }
            }
            Answer::Progress(progress) => {
                if let Some(run) = self.run.as_mut().filter(|run| run.clock == Clock::Virtual) {
                    run.progress(&progress);
                }
            }
            Answer::Failed(trouble) => self.explorer_failed(&trouble),
        }
    }

    fn explorer_failed(&mut self, trouble: &Trouble) {
        if let Some((name, _)) = self.pending_open.take() {
            self.image = Image::Failed {
                name,
                trouble: sentence(trouble),
            };
        } else if matches!(trouble, Trouble::CannotRun { .. }) {
            self.run = None;
            self.run_trouble = Some(sentence(trouble));
        } else if matches!(trouble, Trouble::Unusable { .. } | Trouble::Unreadable { .. }) {
            (self.table, self.card) = (None, None);
        }
    }

    fn show_group(&mut self, group: u32) {
        self.group = group;
        self.ask_table(0);
    }

    fn ask_table(&mut self, first: u32) {
        if let Some(count) = self.blocks_a_page() {
            self.ask(Ask::Table {
                group: self.group,
                first,
                count,
            });
        }
    }

    /// Table blocks on one page of the canvas.
    pub(crate) fn blocks_a_page(&self) -> Option<u32> {
        let Image::Open { overview, .. } = &self.image else {
            return None;
        };
        Some((SLOTS_A_PAGE / overview.slots_per_block.max(1)).max(1))
    }

    fn set(&mut self, setting: Setting) {
        match setting {
            Setting::Cpus(cpus) => self.scenario.cpus = cpus.clamp(1, Scenario::CPUS_MAX),
            Setting::Design(design) => self.scenario.design = design,
            Setting::Lazytime(lazytime) => self.scenario.lazytime = lazytime,
            Setting::Placement(placement) => self.scenario.placement = placement,
            Setting::Reader(reader) => self.scenario.reader = reader,
            Setting::Seed(seed) => self.scenario.seed = seed,
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

    fn start_run(&mut self, context: &Context<Self>) {
        let Image::Open { file, .. } = &self.image else {
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
        match Crew::start(self.scenario, clock, file, &self.note.build, said) {
            Ok(crew) => self.crew = Some(crew),
            Err(why) => self.lose_run(&why),
        }
    }

    fn control(&mut self, body: Ask) {
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

    fn stop(&mut self, context: &Context<Self>) {
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

    fn crew_said(&mut self, who: Who, said: Said) {
        match (who, said) {
            (Who::Lead, Said::Ready(module)) => {
                if let Some(crew) = &mut self.crew {
                    crew.ready(module);
                }
            }
            (Who::Lead, Said::Reply(reply)) => match reply.body {
                Answer::Prepared(stage) => self.prepared(*stage),
                Answer::Progress(progress) => {
                    let Some(run) = &mut self.run else { return };
                    let polled = run.asked;
                    run.progress(&progress);
                    let ended = polled && progress.status.outcome.is_some() && progress.records.is_empty();
                    if ended {
                        self.end_run();
                    }
                }
                Answer::Failed(trouble) => {
                    (self.crew, self.run) = (None, None);
                    self.run_trouble = Some(sentence(&trouble));
                }
                _ => {}
            },
            (_, Said::Died(why)) => self.lose_run(&why),
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

    /// The workers have ended, or are not wanted any more.
    fn end_run(&mut self) {
        self.crew = None;
        self.stop_timer = None;
        if let Some(run) = &mut self.run {
            run.ended = true;
        }
    }

    fn next_frame(&mut self, context: &Context<Self>) {
        let link = context.link().clone();
        self.frame = Some(gloo::render::request_animation_frame(move |now_ms| {
            link.send_message(Msg::Frame(now_ms));
        }));
    }

    fn on_frame(&mut self, context: &Context<Self>, now_ms: f64) -> bool {
        self.next_frame(context);
        let seconds = (now_ms - self.last_frame_ms) / 1000.0;
        self.last_frame_ms = now_ms;
        let Some(run) = &mut self.run else { return false };
        if run.ended {
            return false;
        }
        if let Some(events_max) = run.wants(seconds) {
            run.asked = true;
            let engine = if run.clock == Clock::Virtual {
                self.explorer.as_mut()
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

    fn apply_theme(&self) {
        let name = match self.theme {
            Theme::System => "system",
            Theme::Light => "light",
            Theme::Dark => "dark",
        };
        // Neither can fail in a way that a person would notice.
        let _ = gloo::utils::document_element().set_attribute("data-theme", name);
        let _ = <gloo::storage::LocalStorage as gloo::storage::Storage>::set("theme", name);
    }
}

fn stored_theme() -> Theme {
    let stored: Option<String> = <gloo::storage::LocalStorage as gloo::storage::Storage>::get("theme").ok();
    match stored.as_deref() {
        Some("light") => Theme::Light,
        Some("dark") => Theme::Dark,
        _ => Theme::System,
    }
}

/// How many events a second virtual time shows at this dilation; an event is about 50 ns of modelled time.
fn events_a_second(dilation: u64) -> f64 {
    2e7 / dilation as f64
}

/// A trouble as a sentence: what happened, and what to do.
fn sentence(trouble: &Trouble) -> String {
    match trouble {
        Trouble::NotExt4 { looks_like } => {
            format!(
                "This is not an ext2, ext3 or ext4 image: it looks like {looks_like}. Choose another file, or a sample."
            )
        }
        Trouble::Unusable { why } => format!("The image cannot be used: {why}."),
        Trouble::Unreadable { why } => {
            format!("The file could not be read: {why}. It may have changed or moved; choose it again.")
        }
        Trouble::OutOfRange => "There is no such thing in this image.".to_owned(),
        Trouble::NothingThere => "No image is open.".to_owned(),
        Trouble::CannotRun { why } => format!("The run cannot be set up: {why}."),
        Trouble::Garbled => "Page and engine are of different builds: reload the page.".to_owned(),
    }
}
