//! The stage: the lock and its queue, and the table blocks in play.

use protocol::Clock;
use view::{
    explore::Slot,
    live::{LiveView, Mark, Stage, StageSlot},
};
use web_sys::HtmlCanvasElement;
use yew::{Html, html};

use super::tables;
use crate::{
    app::App,
    canvas::{Pencil, SlotGrid},
};

const CELL: [f64; 2] = [24.0, 26.0];
/// Room for the lock and its queue.
const LOCK_HEIGHT: f64 = 58.0;
/// Room above a block for its label.
const LABEL: f64 = 20.0;
const FONT: &str = "11px ui-monospace, monospace";
const FONT_BOLD: &str = "600 11px ui-monospace, monospace";

pub(crate) fn view(app: &App) -> Html {
    let Some(stage) = app.run.as_ref().and_then(|run| run.stage.as_ref()) else {
        return html! {
            <div class="empty small">
                <p>{ "Here the table blocks that the CPUs write will appear: who holds the hash lock, who waits, \
                      which neighbours are looked for, and which are written along." }</p>
            </div>
        };
    };
    let label = format!(
        "{} inode table blocks in play, {} inodes cached. The numbers and the last events beside it say the same in words.",
        stage.blocks.len(),
        stage.cached_inodes,
    );
    let flat = app.run.as_ref().is_some_and(|run| run.clock == Clock::FlatOut);
    html! {
        <>
            if flat {
                <p class="quiet">{ "Flat out no events are kept: the stage shows the beginning, the counters beside it show now." }</p>
            }
            <canvas ref={app.stage_canvas.clone()} class="stage" role="img" aria-label={label} />
            <ul class="legend" aria-label="Legend">
                { for [("hold", "being written"), ("neigh", "looked for"), ("along", "written along"), ("dirty", "written"), ("time", "times deferred"),
                       ("used", "in use"), ("free", "free"), ("uninit", "never initialised")]
                    .into_iter().map(|(token, name)| html! { <li><i style={format!("background:var(--{token})")}></i>{ name }</li> }) }
            </ul>
        </>
    }
}

/// Draws the stage.
pub(crate) fn draw(app: &App, canvas: &HtmlCanvasElement) {
    let Some(run) = &app.run else { return };
    let (Some(stage), Some(view)) = (&run.stage, &run.view) else {
        return;
    };
    let width = canvas.get_bounding_client_rect().width();
    let slots = stage.slots_per_block as usize;
    let grid = SlotGrid::new(width, slots, CELL, LABEL);
    let height = LOCK_HEIGHT + grid.height(stage.blocks.len());
    // It is as high as the grid, whatever the style sheet says.
    let _ = canvas.style().set_property("height", &format!("{height}px"));
    let Some(pencil) = Pencil::new(canvas, height) else {
        return;
    };
    lock(&pencil, stage, view, width);
    for (number, block) in stage.blocks.iter().enumerate() {
        let [x, y] = grid.corner(number);
        let text = format!("group {}, block {}", block.group, block.block);
        pencil.text("ink-2", FONT, &text, x, y + LOCK_HEIGHT + 13.0);
        for (slot, held) in block.slots.iter().enumerate() {
            let [x, y, w, h] = grid.cell(number * slots + slot);
            self::slot(
                &pencil,
                view,
                block.first_inode + slot as u32,
                held,
                [x, y + LOCK_HEIGHT, w, h],
            );
        }
    }
}

/// The hash lock with its holder, and the queue behind it.
fn lock(pencil: &Pencil, stage: &Stage, view: &LiveView, width: f64) {
    pencil.text(
        "ink-2",
        FONT,
        stage
            .lock_classes
            .get(usize::from(stage.hash_class))
            .map_or("", String::as_str),
        0.0,
        12.0,
    );
    // The busiest of the locks that guard the hash: there is one, except in the design with a lock for each bucket.
    let guards = view
        .locks
        .iter()
        .filter(|(number, _)| stage.guards_hash(**number));
    let busiest = guards.max_by_key(|(_, lock)| (lock.waiting.len(), lock.holder.is_some(), lock.acquired));
    let holder = busiest.and_then(|(_, lock)| lock.holder);
    let waiting = busiest
        .map(|(_, lock)| lock.waiting.as_slice())
        .unwrap_or_default();
    let body = [0.5, 20.5, 72.0, 26.0];
    match holder {
        Some(cpu) => {
            pencil.fill(if waiting.is_empty() { "hold" } else { "hold-busy" }, body);
            pencil.text("on-colour", FONT_BOLD, &format!("CPU {cpu}"), 10.0, 38.0);
        }
        None if !waiting.is_empty() => {
            pencil.outline("hold-busy", 1.0, body);
            pencil.text("ink-2", FONT, "hand-over", 6.0, 38.0);
        }
        None => {
            pencil.outline("line", 1.0, body);
            pencil.text("ink-3", FONT, "free", 22.0, 38.0);
        }
    }
    let room = ((width - 160.0) / 28.0).max(0.0) as usize;
    for (place, cpu) in waiting.iter().take(room).enumerate() {
        let x = 84.0 + place as f64 * 28.0;
        pencil.outline("wait", 2.0, [x, 22.0, 22.0, 22.0]);
        pencil.slash("wait", [x + 14.0, 22.0, 8.0, 8.0]);
        pencil.text("ink", FONT, &cpu.to_string(), x + 4.0, 38.0);
    }
    if !waiting.is_empty() {
        let x = 90.0 + waiting.len().min(room) as f64 * 28.0;
        pencil.text("ink-2", FONT, &format!("{} wait", waiting.len()), x, 38.0);
    }
}

fn slot(pencil: &Pencil, view: &LiveView, inode: u32, held: &StageSlot, cell: [f64; 4]) {
    let [x, y, w, h] = cell;
    let seen = view.slots.get(&inode);
    let deferred = seen.map_or(held.deferred, |slot| {
        slot.deferred || (held.deferred && slot.written + slot.along == 0)
    });
    let now = view.cpus.iter().position(|cpu| cpu.inode == Some(inode));
    let sought = view
        .cpus
        .iter()
        .filter(|cpu| cpu.neighbour == Some(inode))
        .count();
    let token = match seen.map(|slot| slot.mark) {
        _ if now.is_some() => "hold",
        Some(Mark::WrittenAlong) => "along",
        _ if deferred => "time",
        Some(Mark::Written) => "dirty",
        _ => tables::token(held.slot),
    };
    pencil.fill(token, cell);
    if held.slot == Slot::NeverInitialised || held.slot == Slot::Free {
        pencil.outline("line", 1.0, [x + 0.5, y + 0.5, w - 1.0, h - 1.0]);
    }
    if deferred {
        pencil.slash("ink-2", [x + w - 9.0, y, 9.0, 9.0]);
    }
    if let Some(cpu) = held.job {
        let token = if token == "hold" || token == "dirty" || token == "along" {
            "on-colour"
        } else {
            "ink"
        };
        pencil.text(token, FONT_BOLD, &format!("{cpu}"), x + 3.0, y + h - 7.0);
    }
    if sought > 0 {
        pencil.outline("neigh", 2.5, [x + 1.0, y + 1.0, w - 2.0, h - 2.0]);
    }
}
