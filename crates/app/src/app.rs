//! The page's state, and what every message does to it.

mod message;
mod run;

use gloo::{events::EventListener, render::AnimationFrame, timers::callback::Timeout};
use kernel::Scenario;
use protocol::{Answer, Ask, Clock, Reply, Trouble};
use view::explore::{GroupRow, InodeCard, TableWindow};
use wasm_bindgen::JsCast;
use web_sys::{Blob, DragEvent, HtmlCanvasElement};
use yew::{Callback, Component, Context, Html, NodeRef, html};

pub(crate) use message::{ClockChoice, Image, Msg, Setting, Tab};

use crate::{
    components,
    crew::{Crew, Run},
    engine::{Engine, Role, Said},
    page::{self, BuildNote},
    theme::Theme,
};

/// Groups on one page of the list.
pub(crate) const GROUPS_A_PAGE: u32 = 64;
/// Slots of an inode table on one page.
const SLOTS_A_PAGE: u32 = 8192;
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
    _on_system_theme: Option<EventListener>,
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
        let link = context.link().clone();
        let on_system_theme = Theme::on_system_change(move || link.send_message(Msg::Theme(Theme::stored())));
        let mut app = Self {
            note: BuildNote::default(),
            explorer: None,
            explorer_died: None,
            pending_open: None,
            image: Image::Loading(SAMPLES[0].1.to_owned()),
            tab: Tab::Lab,
            theme: Theme::stored(),
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
            _on_system_theme: on_system_theme,
            last_frame_ms: 0.0,
            last_render_ms: 0.0,
            table_canvas: NodeRef::default(),
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
                self.theme.apply();
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
            Said::Reply(reply) => {
                if let Some(engine) = &mut self.explorer {
                    engine.answered();
                }
                self.explorer_replied(context, *reply);
            }
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
