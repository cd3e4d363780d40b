//! The explorer: the tree of files beside, the disk in the middle, what is selected on the right.

use protocol::{Choice, ImageState};
use view::explore::{Link, Overview, ReadPhase};
use wasm_bindgen::JsCast;
use web_sys::{Event, HtmlInputElement, HtmlSelectElement, InputEvent, SubmitEvent};
use yew::{Callback, Context, Html, html};

use super::{disk, file, findings, inspector, journal, superblock, tables, tree};
use crate::{
    app::{App, Image, Look, Msg, View},
    format,
};

pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    let Image::Open { overview, choice, .. } = &app.image else {
        return empty(app);
    };
    html! {
        <div class="explore">
            <section class="side" aria-label="Image">
                { search(app, context) }
                { choices(overview, *choice, context) }
                { tree::view(app, context) }
                { reading(app, context) }
                { facts(overview) }
            </section>
            <section class="work" aria-label="Disk">
                { views(app, context) }
                { crumbs(app, overview, context) }
                if let Some(why) = &app.explorer.trouble { <p class="warning-text" role="status">{ why }</p> }
                { match app.explorer.view {
                    View::Disk => disk::view(app, overview, context),
                    View::File => file::view(app, context),
                    View::Tables => tables::view(app, overview, context),
                    View::Journal => journal::view(app, overview, *choice, context),
                    View::Orphans => journal::orphans(app, context),
                    View::Superblock => superblock::view(overview, context),
                    View::Findings => findings::view(app, context),
                } }
            </section>
            <section class="inspector" aria-label="Selected">{ inspector::view(app, context) }</section>
        </div>
    }
}

/// Shown while nothing is open.
pub(crate) fn empty(app: &App) -> Html {
    let text = match &app.image {
        Image::Loading(name) => format!("Opening {name} …"),
        _ => "Drop an ext4 image here, or choose one above. It is read in this tab and goes nowhere."
            .to_owned(),
    };
    let busy = matches!(app.image, Image::Loading(_));
    html! {
        <div class="empty" aria-busy={busy.to_string()}>
            <p>{ text }</p>
        </div>
    }
}

/// A button that leads somewhere.
pub(crate) fn link(to: Link, text: String, context: &Context<App>) -> Html {
    html! {
        <button class="link" onclick={context.link().callback(move |_| Msg::Look(Look::At(to)))}>{ text }</button>
    }
}

fn views(app: &App, context: &Context<App>) -> Html {
    let errors = app
        .explorer
        .read
        .as_ref()
        .map_or(0, |read| read.errors + read.warnings);
    html! {
        <nav class="views" aria-label="What to look at">
            { for View::ALL.iter().map(|view| {
                let view = *view;
                let current = (app.explorer.view == view).then_some("page");
                let name = match view {
                    View::Findings if errors > 0 => format!("Findings ({})", format::count(errors)),
                    view => view.name().to_owned(),
                };
                html! {
                    <button class="tab" aria-current={current}
                        onclick={context.link().callback(move |_| Msg::Look(Look::View(view)))}>{ name }</button>
                }
            }) }
        </nav>
    }
}

/// Where one is: each crumb is a way back.
fn crumbs(app: &App, overview: &Overview, context: &Context<App>) -> Html {
    let crumb = |look: Look, text: String| {
        html! {
            <li><button class="link" onclick={context.link().callback(move |_| Msg::Look(look.clone()))}>{ text }</button></li>
        }
    };
    let explorer = &app.explorer;
    let per_block = overview.slots_per_block.max(1);
    html! {
        <nav class="crumbs" aria-label="Where one is">
            <button disabled={!explorer.can_go_back()} onclick={context.link().callback(|_| Msg::Look(Look::Back))}>{ "Back" }</button>
            <ol>
                { crumb(Look::View(View::Disk), "disk".to_owned()) }
                { crumb(Look::View(View::Disk), format!("group {}", explorer.group)) }
                { match explorer.selected {
                    Some(Link::Inode(number)) => {
                        let index = number.saturating_sub(1) % overview.inodes_per_group.max(1);
                        html! {
                            <>
                                { crumb(Look::View(View::Tables), format!("inode table, block {}", index / per_block)) }
                                { crumb(Look::Into(Link::Inode(number)), format!("inode {number}")) }
                                if let Some(path) = explorer.details.as_ref().and_then(|details| details.path.as_ref()) {
                                    <li class="mono">{ format::name(path) }</li>
                                }
                            </>
                        }
                    }
                    Some(Link::Block(number)) => crumb(Look::Into(Link::Block(number)), format!("block {number}")),
                    None => html! {},
                } }
            </ol>
        </nav>
    }
}

fn search(app: &App, context: &Context<App>) -> Html {
    let oninput = context.link().batch_callback(|event: InputEvent| {
        let input: HtmlInputElement = event.target()?.dyn_into().ok()?;
        Some(Msg::Look(Look::Query(input.value())))
    });
    let onsubmit = context.link().callback(|event: SubmitEvent| {
        event.prevent_default();
        Msg::Look(Look::Find)
    });
    html! {
        <form class="search" role="search" {onsubmit}>
            <input type="search" aria-label="Find a path, an inode or a block" placeholder="/path, inode 12, block 5000"
                value={app.explorer.query.clone()} {oninput} />
            <button type="submit">{ "Find" }</button>
            <p role="status" class="warning-text">{ app.explorer.not_found.clone().unwrap_or_default() }</p>
        </form>
    }
}

/// Partitions of a disk, and the two states of an image with changes in its journal.
fn choices(overview: &Overview, choice: Choice, context: &Context<App>) -> Html {
    let partition = context.link().batch_callback(move |event: Event| {
        let select: HtmlSelectElement = event.target()?.dyn_into().ok()?;
        let partition = select.value().parse().ok()?;
        Some(Msg::Choose(Choice {
            partition: Some(partition),
            ..choice
        }))
    });
    html! {
        <>
            if !overview.layers.is_empty() {
                <p class="quiet">{ format!("Inside {}", overview.layers.join(", inside ")) }</p>
            }
            if !overview.partitions.is_empty() {
                <label class="field"><span>{ "Partition" }</span>
                    <select onchange={partition}>
                        { for overview.partitions.iter().map(|row| html! {
                            <option value={row.number.to_string()} disabled={!row.is_ext} selected={overview.partition == Some(row.number)}>
                                { format!("{}: {}, {}", row.number, row.title, format::bytes(row.bytes)) }
                            </option>
                        }) }
                    </select>
                </label>
            }
            if overview.dirty || overview.replayed { { state_choice(choice, context) } }
        </>
    }
}

/// As it lies on the disk, or as after replay.
pub(crate) fn state_choice(choice: Choice, context: &Context<App>) -> Html {
    let onchange: Callback<Event> = context.link().batch_callback(move |event: Event| {
        let select: HtmlSelectElement = event.target()?.dyn_into().ok()?;
        let state = match select.value().as_str() {
            "replayed" => ImageState::Replayed,
            _ => ImageState::OnDisk,
        };
        Some(Msg::Choose(Choice { state, ..choice }))
    });
    let replayed = choice.state == ImageState::Replayed;
    html! {
        <label class="field"><span>{ "Shown" }</span>
            <select {onchange}>
                <option value="disk" selected={!replayed}>{ "as it lies on the disk" }</option>
                <option value="replayed" selected={replayed}>{ "as after replaying the journal" }</option>
            </select>
            <small>{ "The file is not changed by this." }</small>
        </label>
    }
}

/// How far the reading through the disk is.
fn reading(app: &App, context: &Context<App>) -> Html {
    let Some(read) = &app.explorer.read else {
        return html! {};
    };
    let done = read.phase == ReadPhase::Done;
    let percent = (read.share * 100.0).round();
    let turn = |on: bool| context.link().callback(move |_| Msg::Look(Look::Read(on)));
    html! {
        <div class="reading">
            <h2>{ "Check of the whole disk" }</h2>
            if !done {
                <progress max="100" value={percent.to_string()} aria-label="Check of the whole disk"></progress>
                <p class="quiet">
                    { format!("{percent} %: {} ", read.phase.name()) }
                    if app.explorer.reading {
                        <button class="small" onclick={turn(false)}>{ "Cancel" }</button>
                    } else {
                        <button class="small" onclick={turn(true)}>{ "Go on" }</button>
                    }
                </p>
            }
            <p class={if read.errors > 0 { "bad" } else if done { "fine" } else { "quiet" }} role="status">
                { findings::verdict(read) }
            </p>
        </div>
    }
}

fn facts(overview: &Overview) -> Html {
    let free_share = overview.free_blocks as f64 / overview.blocks.max(1) as f64 * 100.0;
    html! {
        <>
            <h2>{ "Image" }</h2>
            <dl>
                <dt>{ "Label" }</dt><dd>{ if overview.label.is_empty() { "none" } else { &overview.label } }</dd>
                <dt>{ "UUID" }</dt><dd class="mono">{ &overview.uuid }</dd>
                <dt>{ "Blocks" }</dt><dd>{ format!("{}, {free_share:.0} % free", format::count(overview.blocks)) }</dd>
                <dt>{ "Inodes" }</dt>
                <dd>{ format!("{}, {} free", format::count(overview.inodes.into()), format::count(overview.free_inodes.into())) }</dd>
                <dt>{ "Table blocks" }</dt>
                <dd>{ format!("{} a group, {} inodes each", overview.table_blocks_per_group, overview.slots_per_block) }</dd>
                <dt>{ "Features" }</dt><dd class="features">{ if overview.features.is_empty() { "none".to_owned() } else { overview.features.join(", ") } }</dd>
            </dl>
        </>
    }
}
