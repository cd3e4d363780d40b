//! The page's state, and what every message does to it.

mod explorer;
mod message;
mod run;

use gloo::{events::EventListener, render::AnimationFrame, timers::callback::Timeout};
use kernel::Scenario;
use protocol::{Answer, Ask, Choice, Clock, Reply, Trouble};
use view::explore::{Link, ReadPhase};
use wasm_bindgen::JsCast;
use web_sys::{Blob, DragEvent, HtmlCanvasElement};
use yew::{Callback, Component, Context, Html, NodeRef, html};

pub(crate) use explorer::{
    CONTENT_A_PAGE, Explorer, GROUPS_A_PAGE, Look, PICTURE_MAX, Show, TreeRow, View, Wanted,
};
pub(crate) use message::{ClockChoice, Image, Msg, Setting, Tab};

use crate::{
    components,
    crew::{Crew, Run},
    engine::{Engine, Role, Said},
    page::{self, BuildNote},
    theme::Theme,
};

/// Progress of the reading through the disk is shown this often.
const PROGRESS_MS: f64 = 200.0;
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

pub(crate) struct App {
    pub(crate) note: BuildNote,
    engine: Option<Engine>,
    /// Why the explorer's worker ended.
    pub(crate) explorer_died: Option<String>,
    pending_open: Option<(String, Blob, Choice)>,
    pub(crate) image: Image,
    pub(crate) tab: Tab,
    pub(crate) theme: Theme,
    pub(crate) explorer: Explorer,
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
    _on_system_theme: Option<EventListener>,
    last_frame_ms: f64,
    last_render_ms: f64,
    last_progress_ms: f64,
    pub(crate) table_canvas: NodeRef,
    pub(crate) disk_canvas: NodeRef,
    pub(crate) map_canvas: NodeRef,
    pub(crate) tree: NodeRef,
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
        let link = context.link().clone();
        let on_system_theme = Theme::on_system_change(move || link.send_message(Msg::Theme(Theme::stored())));
        let mut app = Self {
            note: BuildNote::default(),
            engine: None,
            explorer_died: None,
            pending_open: None,
            image: Image::Loading(SAMPLES[0].1.to_owned()),
            tab: Tab::Lab,
            theme: Theme::stored(),
            explorer: Explorer::default(),
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
            _on_system_theme: on_system_theme,
            last_frame_ms: 0.0,
            last_render_ms: 0.0,
            last_progress_ms: 0.0,
            table_canvas: NodeRef::default(),
            disk_canvas: NodeRef::default(),
            map_canvas: NodeRef::default(),
            tree: NodeRef::default(),
            stage_canvas: NodeRef::default(),
        };
        app.theme.apply();
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
            Msg::Unpacked(name, Ok(blob)) => self.open(name, blob, Choice::default()),
            Msg::Unpacked(name, Err(trouble)) => self.image = Image::Failed { name, trouble },
            Msg::Open(file) => {
                let name = file.name();
                self.open(name, file.unchecked_into(), Choice::default());
            }
            Msg::Explorer(said) => return self.explorer_said(said),
            Msg::RestartExplorer => {
                self.start_explorer(context);
                context.link().send_message(Msg::Sample(0));
            }
            Msg::Tab(tab) => self.tab = tab,
            Msg::Theme(theme) => {
                self.theme = theme;
                self.theme.apply();
            }
            Msg::Look(look) => {
                if let Image::Open { overview, .. } = &self.image {
                    let asks = self.explorer.look(overview, look);
                    self.ask_all(asks);
                }
            }
            Msg::Choose(choice) => self.choose(choice),
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
            Msg::SaveChanged => self.save_changed(),
            Msg::DismissTrouble => self.run_trouble = None,
        }
        true
    }

    fn view(&self, context: &Context<Self>) -> Html {
        html! {
            <div ondragover={Callback::from(|event: DragEvent| event.prevent_default())} ondrop={components::header::dropped(context)}>
                <a class="skip" href="#main">{ "Skip to the content" }</a>
                { components::header::view(self, context) }
                <main id="main">
                    { match self.tab {
                        Tab::Explore => components::explore::view(self, context),
                        Tab::Lab => components::lab::view(self, context),
                    } }
                </main>
            </div>
        }
    }

    fn rendered(&mut self, _context: &Context<Self>, _first: bool) {
        if let Some(canvas) = self.table_canvas.cast::<HtmlCanvasElement>() {
            components::tables::draw(self, &canvas);
        }
        if let Some(canvas) = self.disk_canvas.cast::<HtmlCanvasElement>() {
            components::disk::draw_disk(self, &canvas);
        }
        if let Some(canvas) = self.map_canvas.cast::<HtmlCanvasElement>() {
            components::disk::draw_group(self, &canvas);
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
            Ok(engine) => self.engine = Some(engine),
            Err(why) => self.explorer_died = Some(why),
        }
    }

    fn ask(&mut self, body: Ask) {
        if let Some(engine) = &mut self.engine {
            engine.ask(body);
        }
    }

    fn ask_all(&mut self, asks: Vec<Ask>) {
        asks.into_iter().for_each(|ask| self.ask(ask));
    }

    fn open_sample(&mut self, context: &Context<Self>, number: usize) {
        let (file, name, _) = SAMPLES[number];
        self.image = Image::Loading(name.to_owned());
        context
            .link()
            .send_future(async move { Msg::Unpacked(name.to_owned(), page::open_sample(file).await) });
    }

    fn open(&mut self, name: String, blob: Blob, choice: Choice) {
        self.end_run();
        (self.crew, self.run, self.run_trouble) = (None, None, None);
        self.generation += 1;
        self.image = Image::Loading(name.clone());
        if let Some(engine) = &mut self.engine {
            engine.open(&name, choice, &blob);
        }
        self.pending_open = Some((name, blob, choice));
    }

    /// Opens the same file again, another part of it or in another state.
    fn choose(&mut self, choice: Choice) {
        if let Image::Open { overview, file, .. } = &self.image {
            self.open(overview.file_name.clone(), file.clone(), choice);
        }
    }

    /// Says whether the page has to be rendered anew.
    fn explorer_said(&mut self, said: Said) -> bool {
        match said {
            Said::Ready(_) | Said::Ended => false,
            Said::Died(why) => {
                self.engine = None;
                self.explorer_died = Some(why);
                true
            }
            Said::Reply(reply) => {
                if let Some(engine) = &mut self.engine {
                    engine.answered();
                }
                let reading = match &reply.body {
                    Answer::Reading(state) => state.phase != ReadPhase::Done,
                    _ => false,
                };
                self.explorer_replied(*reply);
                !reading || self.reading_is_seen()
            }
        }
    }

    /// Progress is shown a few times a second, and not in the lab.
    fn reading_is_seen(&mut self) -> bool {
        let now = js_sys::Date::now();
        let due = self.tab == Tab::Explore && now - self.last_progress_ms >= PROGRESS_MS;
        if due {
            self.last_progress_ms = now;
        }
        due
    }

    fn explorer_replied(&mut self, reply: Reply) {
        match reply.body {
            Answer::Opened(overview) => {
                if let Some((_, file, choice)) = self.pending_open.take() {
                    let asks = self.explorer.opened(&overview);
                    self.image = Image::Open {
                        overview,
                        file,
                        choice,
                    };
                    self.ask_all(asks);
                }
            }
            Answer::Prepared(stage) => {
                if let Some(run) = &mut self.run {
                    run.prepared(*stage);
                }
            }
            Answer::Progress(progress) => {
                if let Some(run) = self.run.as_mut().filter(|run| run.clock == Clock::Virtual) {
                    run.progress(&progress);
                    if run.ended && run.changed.is_none() {
                        self.ask(Ask::Changes);
                    }
                }
            }
            Answer::Changes(changed) => self.changed(changed),
            Answer::Described(changes) => {
                if let Some(run) = &mut self.run {
                    run.changes = Some(changes);
                }
            }
            Answer::Whole { number, bytes } => self.whole(number, &bytes),
            Answer::Failed(trouble) => self.explorer_failed(&trouble),
            answer => {
                if let Image::Open { overview, .. } = &self.image {
                    let asks = self.explorer.answered(overview, answer);
                    self.ask_all(asks);
                }
            }
        }
    }

    /// A whole file has come: to be shown, or to be kept.
    fn whole(&mut self, number: u32, bytes: &[u8]) {
        let wanted = self.explorer.wanted.take();
        if self.explorer.selected != Some(Link::Inode(number)) {
            return;
        }
        match wanted {
            Some(Wanted::Picture) => self.explorer.picture = Some(page::object_url(bytes)),
            Some(Wanted::Download) => page::download(bytes, &self.explorer.file_name()),
            None => {}
        }
    }

    fn explorer_failed(&mut self, trouble: &Trouble) {
        if let Some((name, ..)) = self.pending_open.take() {
            self.image = Image::Failed {
                name,
                trouble: sentence(trouble),
            };
        } else if matches!(trouble, Trouble::CannotRun { .. }) {
            self.run = None;
            self.run_trouble = Some(sentence(trouble));
        } else {
            self.explorer.failed(sentence(trouble));
        }
    }
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
