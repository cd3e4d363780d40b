//! The map of the disk: all groups, and the blocks of one of them.

use view::explore::{BlockKind, Link, Overview};
use web_sys::{HtmlCanvasElement, KeyboardEvent, MouseEvent};
use yew::{Callback, Context, Html, NodeRef, html};

use crate::{
    app::{App, Look, Msg},
    canvas::{CellGrid, Pencil},
    format,
};

pub(crate) fn view(app: &App, overview: &Overview, context: &Context<App>) -> Html {
    let explorer = &app.explorer;
    let shown = explorer.shares.len() as u32;
    let first = explorer.shares_first;
    let page = |to: u32| context.link().callback(move |_| Msg::Look(Look::SharesPage(to)));
    html! {
        <>
            <div class="title">
                <h2>{ format!("All {} block groups", format::count(overview.groups.into())) }</h2>
                <p class="quiet">{ "The fuller a group, the darker. Choose one to see its blocks." }</p>
            </div>
            if overview.groups > shown && shown > 0 {
                <p class="pager">
                    <button disabled={first == 0} onclick={page(first.saturating_sub(protocol::SHARES_MAX))}>{ "Previous" }</button>
                    { format!(" groups {} to {} ", format::count(first.into()), format::count((first + shown).saturating_sub(1).into())) }
                    <button disabled={first + shown >= overview.groups} onclick={page(first + shown)}>{ "Next" }</button>
                </p>
            }
            <canvas ref={app.disk_canvas.clone()} class="table" tabindex="0" role="application"
                aria-label="Block groups. Arrow keys move from group to group."
                aria-describedby="group-now"
                onclick={pointed_group(app, context)}
                onkeydown={keys(&app.disk_canvas, group_cell(app), Look::MoveGroup, context)} />
            <p id="group-now" class="now" role="status" aria-live="polite">{ group_now(app, overview) }</p>
            { group_blocks(app, context) }
        </>
    }
}

fn group_now(app: &App, overview: &Overview) -> String {
    let explorer = &app.explorer;
    let group = explorer.group;
    let share = explorer
        .shares
        .get(group.saturating_sub(explorer.shares_first) as usize);
    let first =
        u64::from(overview.first_data_block) + u64::from(group) * u64::from(overview.blocks_per_group);
    let last = (first + u64::from(overview.blocks_per_group))
        .min(overview.blocks)
        .saturating_sub(1);
    match share {
        Some(share) => format!(
            "Group {group}: blocks {first} to {last}, {:.0} % in use",
            f64::from(*share) / 2.55
        ),
        None => format!("Group {group}: blocks {first} to {last}"),
    }
}

fn group_blocks(app: &App, context: &Context<App>) -> Html {
    let Some(map) = &app.explorer.map else {
        return html! { <p class="quiet">{ "The blocks of this group are not there yet, or cannot be read." }</p> };
    };
    html! {
        <>
            <div class="title">
                <h2>{ format!("Blocks of group {}", map.group) }</h2>
                if !map.owners_known {
                    <p class="quiet">{ "What files own is coloured once the disk has been read through." }</p>
                }
            </div>
            <canvas ref={app.map_canvas.clone()} class="table" tabindex="0" role="application"
                aria-label={format!("Blocks of group {}. Arrow keys move from block to block; the block is told beside.", map.group)}
                aria-describedby="block-now"
                onclick={pointed_block(app, context)}
                onkeydown={keys(&app.map_canvas, block_cell(map.kinds.len()), Look::MoveBlock, context)} />
            <p id="block-now" class="now" role="status" aria-live="polite">{ block_now(app) }</p>
            <ul class="legend" aria-label="Legend">
                { for BlockKind::ALL.iter().map(|kind| html! {
                    <li><i style={format!("background:var(--{})", token(*kind))}></i>{ kind.name() }</li>
                }) }
            </ul>
        </>
    }
}

fn block_now(app: &App) -> String {
    let (Some(Link::Block(number)), Some(map)) = (app.explorer.selected, &app.explorer.map) else {
        return String::new();
    };
    let within = number.checked_sub(map.first);
    match within.and_then(|within| map.kinds.get(within as usize)) {
        Some(kind) => format!("Block {number}: {}", kind.name()),
        None => String::new(),
    }
}

/// The colour token of a block.
fn token(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Free => "free",
        BlockKind::Superblock => "hold-busy",
        BlockKind::Descriptors => "dirty",
        BlockKind::Bitmap => "time",
        BlockKind::InodeTable => "hold",
        BlockKind::Directory => "directory",
        BlockKind::File => "used",
        BlockKind::Journal => "sleep",
        BlockKind::Map => "along",
        BlockKind::Attributes => "symlink",
        BlockKind::Used => "reserved",
        BlockKind::Unknown => "missing",
    }
}

fn group_cell(app: &App) -> f64 {
    match app.explorer.shares.len() {
        0..=600 => 18.0,
        601..=4_000 => 11.0,
        _ => 6.0,
    }
}

fn block_cell(blocks: usize) -> f64 {
    match blocks {
        0..=2_048 => 11.0,
        2_049..=8_192 => 7.0,
        _ => 4.0,
    }
}

fn grid(canvas: &NodeRef, cell: f64) -> Option<CellGrid> {
    let canvas = canvas.cast::<HtmlCanvasElement>()?;
    Some(CellGrid::new(canvas.get_bounding_client_rect().width(), cell))
}

fn pointed_group(app: &App, context: &Context<App>) -> Callback<MouseEvent> {
    let (canvas, cell) = (app.disk_canvas.clone(), group_cell(app));
    let (first, count) = (app.explorer.shares_first, app.explorer.shares.len());
    context.link().batch_callback(move |event: MouseEvent| {
        let index = grid(&canvas, cell)?.at(event.offset_x().into(), event.offset_y().into(), count)?;
        Some(Msg::Look(Look::Group(first + index as u32)))
    })
}

fn pointed_block(app: &App, context: &Context<App>) -> Callback<MouseEvent> {
    let canvas = app.map_canvas.clone();
    let map = app.explorer.map.as_ref();
    let (first, count) = map.map_or((0, 0), |map| (map.first, map.kinds.len()));
    context.link().batch_callback(move |event: MouseEvent| {
        let grid = grid(&canvas, block_cell(count))?;
        let index = grid.at(event.offset_x().into(), event.offset_y().into(), count)?;
        Some(Msg::Look(Look::At(Link::Block(first + index as u64))))
    })
}

fn keys(
    canvas: &NodeRef,
    cell: f64,
    look: fn(i64) -> Look,
    context: &Context<App>,
) -> Callback<KeyboardEvent> {
    let canvas = canvas.clone();
    context.link().batch_callback(move |event: KeyboardEvent| {
        let down = grid(&canvas, cell)?.columns as i64;
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
        Some(Msg::Look(look(by)))
    })
}

/// Draws all groups, each as dark as it is full.
pub(crate) fn draw_disk(app: &App, canvas: &HtmlCanvasElement) {
    let shares = &app.explorer.shares;
    let width = canvas.get_bounding_client_rect().width();
    let grid = CellGrid::new(width, group_cell(app));
    let Some(pencil) = prepare(canvas, &grid, shares.len()) else {
        return;
    };
    // Nine shades: more could not be told apart, and each is set once.
    for shade in 0..=8u8 {
        pencil.context.set_global_alpha(f64::from(shade) / 8.0);
        pencil.context.set_fill_style_str(&pencil.colour("work"));
        for (index, _) in shares
            .iter()
            .enumerate()
            .filter(|(_, share)| **share / 29 == shade)
        {
            let [x, y, w, h] = grid.cell(index);
            pencil.context.fill_rect(x, y, w, h);
        }
    }
    pencil.context.set_global_alpha(1.0);
    if grid.size > 8.0 {
        for index in 0..shares.len() {
            pencil.outline("line", 1.0, grid.cell(index));
        }
    }
    let here = app.explorer.group.checked_sub(app.explorer.shares_first);
    if let Some(index) = here.filter(|index| (*index as usize) < shares.len()) {
        pencil.outline("accent", 2.5, grid.cell(index as usize));
    }
}

/// Draws the blocks of the group.
pub(crate) fn draw_group(app: &App, canvas: &HtmlCanvasElement) {
    let Some(map) = &app.explorer.map else { return };
    let width = canvas.get_bounding_client_rect().width();
    let grid = CellGrid::new(width, block_cell(map.kinds.len()));
    let Some(pencil) = prepare(canvas, &grid, map.kinds.len()) else {
        return;
    };
    for kind in BlockKind::ALL {
        pencil.context.set_fill_style_str(&pencil.colour(token(kind)));
        for (index, _) in map.kinds.iter().enumerate().filter(|(_, other)| **other == kind) {
            let [x, y, w, h] = grid.cell(index);
            pencil.context.fill_rect(x, y, w, h);
        }
    }
    outline_selected(app, &pencil, &grid, map.first, map.kinds.len());
}

/// Outlines the selected block, or those of the selected file that lie here.
fn outline_selected(app: &App, pencil: &Pencil, grid: &CellGrid, first: u64, count: usize) {
    let outline = |block: u64| {
        if let Some(index) = block.checked_sub(first).filter(|index| *index < count as u64) {
            pencil.outline("accent", 2.0, grid.cell(index as usize));
        }
    };
    match (app.explorer.selected, &app.explorer.details) {
        (Some(Link::Block(number)), _) => outline(number),
        (Some(Link::Inode(_)), Some(details)) => {
            let end = first + count as u64;
            for run in &details.map.runs {
                for block in run.start.max(first)..(run.start + u64::from(run.blocks)).min(end) {
                    outline(block);
                }
            }
        }
        _ => {}
    }
}

fn prepare(canvas: &HtmlCanvasElement, grid: &CellGrid, count: usize) -> Option<Pencil> {
    let height = grid.height(count);
    // It is as high as the grid, whatever the style sheet says.
    let _ = canvas.style().set_property("height", &format!("{height}px"));
    Pencil::new(canvas, height)
}
