//! The lab: what to run, the stage, and what every CPU does.

use kernel::{Design, Lazytime, Placement, ProfileNumber, Reader, Scenario};
use protocol::Clock;
use view::live::{CpuPhase, CpuView, Outcome, Stage, Status};
use wasm_bindgen::JsCast;
use web_sys::{Event, HtmlInputElement, HtmlSelectElement, InputEvent};
use yew::{Callback, Context, Html, classes, html};

use super::{changes, explore, numbers, stage};
use crate::{
    app::{App, ClockChoice, Image, Msg, Setting},
    crew::Run,
    format,
};

/// Below this the host cannot sleep finely enough.
const DILATION_TRUE: u64 = 1_000;

pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    if !matches!(app.image, Image::Open { .. }) {
        return explore::empty(app);
    }
    html! {
        <div class="lab">
            <section class="controls" aria-label="What to run">{ controls(app, context) }</section>
            <section class="work" aria-label="Stage">
                { head(app) }
                { stage::view(app) }
                { cpus(app, context) }
                { changes::view(app, context) }
            </section>
            <section class="inspector" aria-label="Numbers">{ numbers::view(app) }</section>
        </div>
    }
}

fn selected<T: Copy + 'static>(
    context: &Context<App>,
    choices: &'static [T],
    setting: fn(T) -> Setting,
) -> Callback<Event> {
    context.link().batch_callback(move |event: Event| {
        let select: HtmlSelectElement = event.target()?.dyn_into().ok()?;
        let number: usize = select.value().parse().ok()?;
        choices.get(number).map(|choice| Msg::Set(setting(*choice)))
    })
}

fn select<T: Copy + PartialEq + 'static>(
    label: &'static str,
    help: &'static str,
    choices: &'static [T],
    name: impl Fn(T) -> String,
    now: T,
    disabled: bool,
    onchange: Callback<Event>,
) -> Html {
    html! {
        <label class="field" title={help}>
            <span>{ label }</span>
            <select {disabled} {onchange}>
                { for choices.iter().enumerate().map(|(number, choice)| html! {
                    <option value={number.to_string()} selected={*choice == now}>{ name(*choice) }</option>
                }) }
            </select>
        </label>
    }
}

fn number_field(
    context: &Context<App>,
    (label, help): (&'static str, &'static str),
    (value, [least, most]): (u64, [u64; 2]),
    disabled: bool,
    setting: fn(u64) -> Setting,
) -> Html {
    // Each keystroke counts: what is not in the state yet is lost when the page is rendered anew.
    let oninput = context.link().batch_callback(move |event: InputEvent| {
        let input: HtmlInputElement = event.target()?.dyn_into().ok()?;
        input.value().parse().ok().map(|number| Msg::Set(setting(number)))
    });
    html! {
        <label class="field" title={help}>
            <span>{ label }</span>
            <input type="number" min={least.to_string()} max={most.to_string()} value={value.to_string()} {disabled} {oninput} />
        </label>
    }
}

const LAZYTIMES: &[Lazytime] = &[Lazytime::On, Lazytime::Off];
const PLACEMENTS: &[Placement] = &[Placement::SameBlock, Placement::OwnGroup];
const READERS: &[Reader] = &[Reader::Present, Reader::Absent];
const CLOCKS: &[ClockChoice] = &[ClockChoice::Slow, ClockChoice::Flat, ClockChoice::Virtual];
const CLOCKS_WITHOUT_WORKERS: &[ClockChoice] = &[ClockChoice::Virtual];

fn controls(app: &App, context: &Context<App>) -> Html {
    let (s, fixed) = (&app.scenario, app.running());
    let clocks = if app.note.no_workers.is_some() {
        CLOCKS_WITHOUT_WORKERS
    } else {
        CLOCKS
    };
    html! {
        <>
            <h2>{ "Lazytime neighbours" }</h2>
            <p class="quiet">
                { "Whoever writes an inode also looks for its neighbours in the same block, to write their deferred times along. \
                   Every CPU sets files to random sizes, as fio did in the mail of January 2020." }
            </p>
            { select("Design", "How the neighbours are looked up in the inode hash", &Design::ALL,
                |design| design.name().to_owned(), s.design, fixed, selected(context, &Design::ALL, Setting::Design)) }
            <p class="design"><b>{ s.design.origin() }</b>{ ". " }{ s.design.summary() }</p>
            { number_field(context, ("CPUs", "Simulated CPUs, 1 to 64; each is a web worker"),
                (s.cpus.into(), [1, Scenario::CPUS_MAX.into()]), fixed,
                |number| Setting::Cpus(number.min(u64::from(Scenario::CPUS_MAX)) as u16)) }
            { select("Machine", "What things cost: distances between CPUs, waking, the device", &ProfileNumber::ALL,
                |number| number.profile().title.to_owned(), s.profile, fixed, selected(context, &ProfileNumber::ALL, Setting::Profile)) }
            { select("Lazytime", "Without lazytime nobody looks for neighbours", LAZYTIMES,
                |choice| match choice { Lazytime::On => "on", Lazytime::Off => "off" }.to_owned(),
                s.lazytime, fixed, selected(context, LAZYTIMES, Setting::Lazytime)) }
            { select("Files", "Where the files of the jobs lie", PLACEMENTS,
                |choice| match choice { Placement::SameBlock => "in the same table blocks", Placement::OwnGroup => "each in a group of its own" }.to_owned(),
                s.placement, fixed, selected(context, PLACEMENTS, Setting::Placement)) }
            { select("Last CPU", "A CPU that reads defers access times: without it there is nothing to write along", READERS,
                |choice| match choice { Reader::Present => "reads the neighbours", Reader::Absent => "writes like the others" }.to_owned(),
                s.reader, fixed, selected(context, READERS, Setting::Reader)) }
            { number_field(context, ("Seed", "Decides every random choice"), (s.seed, [0, 1 << 32]), fixed, Setting::Seed) }
            { number_field(context, ("Operations", "How many each CPU does; 0: until it is stopped"),
                (s.operations.unwrap_or(0), [0, 1 << 32]), fixed, Setting::Operations) }
            { select("Clock", "In which time the run goes", clocks,
                |choice| match choice {
                    ClockChoice::Slow => "workers, slow motion",
                    ClockChoice::Flat => "workers, flat out",
                    ClockChoice::Virtual => "virtual time",
                }.to_owned(),
                app.clock, fixed, selected(context, clocks, Setting::Clock)) }
            if let Some(why) = &app.note.no_workers {
                <p class="warning-text">{ format!("The live modes are off: {why}.") }</p>
            }
            if app.clock != ClockChoice::Flat { { speed(app, context) } }
            { buttons(app, context) }
        </>
    }
}

fn speed(app: &App, context: &Context<App>) -> Html {
    let oninput = context.link().batch_callback(|event: InputEvent| {
        let input: HtmlInputElement = event.target()?.dyn_into().ok()?;
        let tenths: i32 = input.value().parse().ok()?;
        // From right to left slower: 10^3 to 10^7.
        Some(Msg::Set(Setting::Dilation(
            10f64.powf(f64::from(100 - tenths) / 10.0) as u64,
        )))
    });
    let value = (100.0 - (app.dilation as f64).log10() * 10.0).round().to_string();
    let text = format!("1 µs takes {}", format::span(app.dilation * 1_000));
    html! {
        <label class="field wide" title="How much slower than life the run goes; can be changed while it runs">
            <span>{ "Speed" }</span>
            <input type="range" min="30" max="70" {value} {oninput} aria-valuetext={text.clone()} />
            <small>
                { text }
                if app.dilation <= DILATION_TRUE { { ": near the limit, short steps may be lost" } }
            </small>
        </label>
    }
}

fn buttons(app: &App, context: &Context<App>) -> Html {
    let link = context.link();
    let paused = app.run.as_ref().is_some_and(|run| run.paused);
    if !app.running() {
        return html! { <p class="buttons"><button class="primary" onclick={link.callback(|_| Msg::Run)}>{ "Run" }</button></p> };
    }
    let step_virtual = paused && app.run.as_ref().is_some_and(|run| run.clock == Clock::Virtual);
    html! {
        <p class="buttons">
            if paused {
                <button class="primary" onclick={link.callback(|_| Msg::Resume)}>{ "Resume" }</button>
            } else {
                <button class="primary" onclick={link.callback(|_| Msg::Pause)}>{ "Pause" }</button>
            }
            if step_virtual { <button onclick={link.callback(|_| Msg::Step(0))}>{ "Next event" }</button> }
            <button onclick={link.callback(|_| Msg::Stop)}>{ "Stop" }</button>
        </p>
    }
}

/// One sentence on how things stand.
fn head(app: &App) -> Html {
    let text = match &app.run {
        None => "Ready. Press Run.".to_owned(),
        Some(run) => state(run),
    };
    html! { <p class="state" role="status" aria-live="polite" id="run-state">{ text }</p> }
}

fn state(run: &Run) -> String {
    let Some(status) = &run.status else {
        return "Setting up …".to_owned();
    };
    let time = match run.clock {
        Clock::FlatOut => format!("{} of real time", format::span(status.elapsed_ns)),
        _ => format!("{} of the CPUs' time", format::span(status.elapsed_ns)),
    };
    match status.outcome {
        Some(Outcome::Finished) => format!("Finished after {time}."),
        Some(Outcome::Drained) => format!("Stopped after {time}; every operation was completed."),
        Some(Outcome::Dropped) => {
            format!("Stopped after {time} in the middle of operations: the image is as after a crash.")
        }
        None if run.ended => format!("Ended after {time}."),
        None if run.paused => format!("Paused at {time}."),
        None => format!("Running: {time}."),
    }
}

fn cpus(app: &App, context: &Context<App>) -> Html {
    let Some(run) = &app.run else { return html! {} };
    let (Some(stage), Some(status), Some(view)) = (&run.stage, &run.status, &run.view) else {
        return html! {};
    };
    let live_step = run.paused && matches!(run.clock, Clock::SlowMotion { .. });
    html! {
        <table class="cpus">
            <caption>{ "What every CPU does" }</caption>
            <thead><tr>
                <th scope="col">{ "CPU" }</th><th scope="col">{ "State" }</th><th scope="col">{ "Doing" }</th>
                <th scope="col" class="number">{ "Operations" }</th><th scope="col" class="number">{ "Waited" }</th>
            </tr></thead>
            <tbody>
                { for view.cpus.iter().enumerate().map(|(number, cpu)| {
                    let (word, class) = phase(run, status, cpu, number);
                    let now = status.cpus.get(number);
                    let step = context.link().callback(move |_| Msg::Step(number as u16));
                    html! {
                        <tr>
                            <th scope="row">{ number }</th>
                            <td><i class={classes!("phase", class)} aria-hidden="true"></i>{ word }</td>
                            <td class="doing">
                                { if run.clock == Clock::FlatOut { String::new() } else { doing(stage, cpu, number, view.time_ns) } }
                                if live_step { <button class="small" onclick={step}>{ format!("Step CPU {number}") }</button> }
                            </td>
                            <td class="number">{ format::count(now.map_or(0, |cpu| cpu.operations)) }</td>
                            <td class="number">{ format::span(now.map_or(0, |cpu| cpu.waited_ns)) }</td>
                        </tr>
                    }
                }) }
            </tbody>
        </table>
    }
}

/// A CPU's state in a word, and the class of its sign.
fn phase(run: &Run, status: &Status, cpu: &CpuView, number: usize) -> (&'static str, &'static str) {
    let now = status.cpus.get(number).map_or(cpu.phase, |now| now.phase);
    let phase = match now {
        CpuPhase::Starting | CpuPhase::Paused | CpuPhase::Finished => now,
        // Without events the counters are all there is; with them they say more.
        _ if run.clock == Clock::FlatOut => now,
        _ => cpu.phase,
    };
    match phase {
        CpuPhase::Starting => ("starting", "is-idle"),
        CpuPhase::Paused => ("paused", "is-idle"),
        CpuPhase::Finished => ("finished", "is-idle"),
        CpuPhase::Sleeping => ("sleeping", "is-sleeping"),
        CpuPhase::Spinning => ("spinning", "is-waiting"),
        CpuPhase::Working if !cpu.holds.is_empty() => ("holding", "is-holding"),
        CpuPhase::Working => ("working", "is-working"),
    }
}

/// What a CPU does in words.
fn doing(stage: &Stage, cpu: &CpuView, number: usize, now_ns: u64) -> String {
    let lock = |number: u32| stage.lock_name(number).unwrap_or("a lock").to_owned();
    let errand = match (cpu.neighbour, cpu.inode) {
        (Some(neighbour), Some(inode)) => {
            format!("looks for inode {neighbour}, a neighbour of inode {inode}")
        }
        (None, Some(inode)) => format!("is at inode {inode}"),
        _ if reads(stage, number) => "reads files".to_owned(),
        _ => "between operations".to_owned(),
    };
    match (cpu.waits_for, cpu.holds.last()) {
        (Some(wanted), _) => {
            let waited = format::span(now_ns.saturating_sub(cpu.since_ns));
            format!("has waited {waited} for the {}: {errand}", lock(wanted))
        }
        (None, Some(held)) => format!("holds the {}: {errand}", lock(*held)),
        (None, None) => errand,
    }
}

/// Whether this CPU's job is the one that reads: no file is its own.
fn reads(stage: &Stage, cpu: usize) -> bool {
    let mut slots = stage.blocks.iter().flat_map(|block| &block.slots);
    !slots.any(|slot| slot.job.is_some_and(|job| usize::from(job) == cpu))
}
