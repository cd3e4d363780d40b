//! Inode tables: the groups, and one group's table as blocks of slots.

use view::explore::{GroupRow, Link, Overview, Slot, TableWindow};
use web_sys::{HtmlCanvasElement, KeyboardEvent, MouseEvent};
use yew::{Callback, Context, Html, classes, html};

use super::findings;
use crate::{
    app::{App, GROUPS_A_PAGE, Image, Look, Msg},
    canvas::{Pencil, SlotGrid},
    format,
};

/// A slot's size in CSS pixels.
const CELL: [f64; 2] = [10.0, 12.0];

pub(crate) fn view(app: &App, overview: &Overview, context: &Context<App>) -> Html {
    html! {
        <div class="tables">
            <div>{ groups(app, overview, context) }</div>
            <div>{ table(app, overview, context) }</div>
        </div>
    }
}

fn groups(app: &App, overview: &Overview, context: &Context<App>) -> Html {
    let link = context.link();
    let (first, count) = (app.explorer.groups_first, overview.groups);
    let page = |to: u32| link.callback(move |_| Msg::Look(Look::GroupsPage(to)));
    html! {
        <>
            <h2>{ format!("Block groups, {} in all", format::count(count.into())) }</h2>
            if count > GROUPS_A_PAGE {
                <p class="pager">
                    <button disabled={first == 0} onclick={page(first.saturating_sub(GROUPS_A_PAGE))}>{ "Previous" }</button>
                    { format!(" {first} to {} ", (first + GROUPS_A_PAGE).min(count) - 1) }
                    <button disabled={first + GROUPS_A_PAGE >= count} onclick={page(first + GROUPS_A_PAGE)}>{ "Next" }</button>
                </p>
            }
            <div class="rows">{ for app.explorer.groups.iter().map(|row| group(app, overview, row, context)) }</div>
        </>
    }
}

fn group(app: &App, overview: &Overview, row: &GroupRow, context: &Context<App>) -> Html {
    let number = row.number;
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole.max(1)) * 100.0;
    let used = share(row.used_inodes, overview.inodes_per_group);
    let untouched = if row.inode_uninit {
        100.0
    } else {
        share(row.unused_inodes, overview.inodes_per_group)
    };
    let state = match (row.inode_uninit, row.zeroed) {
        (true, _) => "never used",
        (false, true) => "table zeroed",
        (false, false) => "table not zeroed",
    };
    let chosen = app.explorer.group == number;
    html! {
        <button class={classes!("group", chosen.then_some("on"))} aria-pressed={chosen.to_string()}
            onclick={context.link().callback(move |_| Msg::Look(Look::Group(number)))}>
            <span class="name">{ format!("Group {number}") }</span>
            <span class="bar" aria-hidden="true">
                <i class="used" style={format!("width:{used:.1}%")}></i>
                <i class="uninit" style={format!("width:{untouched:.1}%")}></i>
            </span>
            <small>
                { format!("{} of {} inodes used, {} free blocks, {state}", row.used_inodes, overview.inodes_per_group, row.free_blocks) }
                if !row.findings.is_empty() { <b class="bad">{ " damaged" }</b> }
            </small>
        </button>
    }
}

fn table(app: &App, overview: &Overview, context: &Context<App>) -> Html {
    let Some(window) = &app.explorer.table else {
        return html! { <p class="quiet">{ "The inode table of this group is not there yet, or cannot be read." }</p> };
    };
    let per_page = app.explorer.blocks_a_page(overview);
    let blocks = overview.table_blocks_per_group;
    let shown = (window.slots.len() as u32).div_ceil(overview.slots_per_block.max(1));
    let page = |to: u32| context.link().callback(move |_| Msg::Look(Look::TablePage(to)));
    let group = app.explorer.groups.iter().find(|row| row.number == window.group);
    html! {
        <>
            <div class="title">
                <h2>{ format!("Inode table of group {}", window.group) }</h2>
                <p class="quiet">
                    { format!("Blocks {} to {}: {} of {blocks}", window.first_block, window.first_block + u64::from(shown.max(1)) - 1, shown) }
                </p>
                if blocks > per_page {
                    <p class="pager">
                        <button disabled={window.first == 0} onclick={page(window.first.saturating_sub(per_page))}>{ "Previous" }</button>
                        <button disabled={window.first + per_page >= blocks} onclick={page(window.first + per_page)}>{ "Next" }</button>
                    </p>
                }
            </div>
            if let Some(group) = group.filter(|group| !group.findings.is_empty()) {
                { findings::list(&group.findings, "", context) }
            }
            <canvas ref={app.table_canvas.clone()} class="table" tabindex="0" role="application"
                aria-label={format!("Inode slots of group {}. Arrow keys move from slot to slot; the inode is told beside.", window.group)}
                aria-describedby="slot-now"
                onclick={pointed(app, context)} onmousemove={pointed(app, context)} onkeydown={keys(app, context)} />
            <p id="slot-now" class="now" role="status" aria-live="polite">{ slot_now(app, window, overview) }</p>
            { legend() }
        </>
    }
}

/// The slot under the cursor in words.
fn slot_now(app: &App, window: &TableWindow, overview: &Overview) -> String {
    let inode = selected(app);
    let index = inode.saturating_sub(window.first_inode);
    let Some(slot) = window.slots.get(index as usize) else {
        return String::new();
    };
    let block = window.first_block + u64::from(index / overview.slots_per_block.max(1));
    format!(
        "Inode {}: {}, block {block}, slot {}",
        inode,
        slot.name(),
        index % overview.slots_per_block.max(1)
    )
}

fn pointed(app: &App, context: &Context<App>) -> Callback<MouseEvent> {
    let (canvas, table) = (app.table_canvas.clone(), app.explorer.table.clone());
    let slots = slots_per_block(app);
    let current = selected(app);
    context.link().batch_callback(move |event: MouseEvent| {
        let (canvas, window) = (canvas.cast::<HtmlCanvasElement>()?, table.as_ref()?);
        let grid = SlotGrid::new(canvas.get_bounding_client_rect().width(), slots, CELL, 0.0);
        let index = grid.at(
            event.offset_x().into(),
            event.offset_y().into(),
            window.slots.len(),
        )?;
        let number = window.first_inode + index as u32;
        match event.type_() == "click" {
            true => Some(Msg::Look(Look::At(Link::Inode(number)))),
            false => (number != current).then_some(Msg::Look(Look::Over(number))),
        }
    })
}

fn keys(app: &App, context: &Context<App>) -> Callback<KeyboardEvent> {
    let canvas = app.table_canvas.clone();
    let slots = slots_per_block(app);
    context.link().batch_callback(move |event: KeyboardEvent| {
        let width = canvas
            .cast::<HtmlCanvasElement>()?
            .get_bounding_client_rect()
            .width();
        let down = SlotGrid::new(width, slots, CELL, 0.0).down() as i64;
        let by = match event.key().as_str() {
            "ArrowRight" => 1,
            "ArrowLeft" => -1,
            "ArrowDown" => down,
            "ArrowUp" => -down,
            "PageDown" => 16 * down,
            "PageUp" => -16 * down,
            "Home" => i64::MIN,
            "End" => i64::MAX,
            _ => return None,
        };
        event.prevent_default();
        Some(Msg::Look(Look::Move(by)))
    })
}

/// The inode that is selected; 0 for none.
fn selected(app: &App) -> u32 {
    match app.explorer.selected {
        Some(Link::Inode(number)) => number,
        _ => 0,
    }
}

fn slots_per_block(app: &App) -> usize {
    match &app.image {
        Image::Open { overview, .. } => overview.slots_per_block as usize,
        _ => 1,
    }
}

/// The colour token of a slot.
pub(crate) fn token(slot: Slot) -> &'static str {
    match slot {
        Slot::Free => "free",
        Slot::NeverInitialised => "uninit",
        Slot::File => "used",
        Slot::Directory => "directory",
        Slot::Symlink => "symlink",
        Slot::Reserved => "reserved",
        Slot::Orphan => "orphan",
        Slot::Missing => "missing",
    }
}

fn legend() -> Html {
    html! {
        <ul class="legend" aria-label="Legend">
            { for Slot::ALL.iter().map(|slot| html! {
                <li><i style={format!("background:var(--{})", token(*slot))}></i>{ slot.name() }</li>
            }) }
        </ul>
    }
}

/// Draws the inode table.
pub(crate) fn draw(app: &App, canvas: &HtmlCanvasElement) {
    let Some(window) = &app.explorer.table else { return };
    let width = canvas.get_bounding_client_rect().width();
    let slots = slots_per_block(app);
    let grid = SlotGrid::new(width, slots, CELL, 0.0);
    let height = grid.height(window.slots.len().div_ceil(slots.max(1)));
    // It is as high as the grid, whatever the style sheet says.
    let _ = canvas.style().set_property("height", &format!("{height}px"));
    let Some(pencil) = Pencil::new(canvas, height) else {
        return;
    };
    for kind in Slot::ALL {
        pencil.context.set_fill_style_str(&pencil.colour(token(kind)));
        for (index, _) in window.slots.iter().enumerate().filter(|(_, slot)| **slot == kind) {
            let [x, y, w, h] = grid.cell(index);
            pencil.context.fill_rect(x, y, w, h);
        }
    }
    for (index, slot) in window.slots.iter().enumerate() {
        match slot {
            Slot::NeverInitialised => pencil.outline("line", 1.0, inset(grid.cell(index), 0.5)),
            Slot::Orphan | Slot::Missing => pencil.slash("ink", grid.cell(index)),
            _ => {}
        }
    }
    let index = selected(app).saturating_sub(window.first_inode) as usize;
    if index < window.slots.len() {
        pencil.outline("accent", 2.5, inset(grid.cell(index), 0.75));
    }
}

fn inset([x, y, w, h]: [f64; 4], by: f64) -> [f64; 4] {
    [x + by, y + by, w - 2.0 * by, h - 2.0 * by]
}
