//! The tree of directories. Only the rows that can be seen are in the document.

use view::explore::{EntryKind, Link};
use web_sys::{Element, Event, KeyboardEvent};
use yew::{Callback, Context, Html, classes, html};

use crate::{
    app::{App, Look, Msg, TreeRow},
    format,
};

/// A row's height in CSS pixels, as the style sheet has it.
const ROW: i32 = 24;
/// Rows that are there beyond those that can be seen.
const SPARE: usize = 12;
/// Rows that fit, at most.
const FIT: usize = 60;

pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    let rows = app.explorer.tree_rows();
    let first = ((app.explorer.tree_scroll / ROW).max(0) as usize).saturating_sub(SPARE);
    let shown = rows.iter().enumerate().skip(first).take(FIT + 2 * SPARE);
    let here = app.explorer.tree_row.min(rows.len().saturating_sub(1));
    let root = context.link().callback(|_| Msg::Look(Look::Into(Link::Inode(2))));
    html! {
        <>
            <h2><button class="link" onclick={root}>{ "Files, from /" }</button></h2>
            <div ref={app.tree.clone()} class="tree" role="tree" aria-label="Files" tabindex="0"
                aria-activedescendant={(!rows.is_empty()).then(|| format!("tree-{here}"))}
                onscroll={scrolled(app, context)} onkeydown={keys(app, &rows, context)}>
                if rows.is_empty() { <p role="treeitem" class="quiet">{ "The root directory is empty, or cannot be read." }</p> }
                <div role="presentation" style={format!("height:{}px", rows.len() as i32 * ROW)}>
                    { for shown.map(|(place, row)| tree_row(app, place, row, here == place, context)) }
                </div>
            </div>
        </>
    }
}

fn tree_row(app: &App, place: usize, row: &TreeRow<'_>, here: bool, context: &Context<App>) -> Html {
    let level = row.way.len() + usize::from(row.entry.is_none());
    let style = format!(
        "top:{}px;padding-left:{}px",
        place as i32 * ROW,
        (level.min(40) as i32 - 1) * 14 + 6
    );
    let Some(entry) = row.entry else {
        let way = row.way.clone();
        let more = context
            .link()
            .callback(move |_| Msg::Look(Look::More(way.clone())));
        return html! {
            <div id={format!("tree-{place}")} role="treeitem" aria-level={level.to_string()} class={classes!("more", here.then_some("here"))} {style} onclick={more}>
                { format!("… {} more", format::count((row.of - row.place) as u64)) }
            </div>
        };
    };
    let directory = entry.kind == EntryKind::Directory && !entry.deleted;
    let selected = app.explorer.selected == Some(Link::Inode(entry.inode));
    let way = row.way.clone();
    let inode = entry.inode;
    let onclick = context.link().batch_callback(move |_| {
        let mut messages = vec![
            Msg::Look(Look::TreeRow(place)),
            Msg::Look(Look::Into(Link::Inode(inode))),
        ];
        if directory {
            messages.push(Msg::Look(Look::Toggle(way.clone())));
        }
        messages
    });
    let mark = match entry.kind {
        EntryKind::Directory if row.open => "▾",
        EntryKind::Directory => "▸",
        EntryKind::Symlink => "↗",
        EntryKind::Special => "◆",
        EntryKind::File | EntryKind::Unknown => "·",
    };
    let damaged = app
        .explorer
        .branches
        .get(&entry.inode)
        .is_some_and(|branch| directory && branch.damaged);
    html! {
        <div id={format!("tree-{place}")} role="treeitem" aria-level={level.to_string()}
            aria-setsize={row.of.to_string()} aria-posinset={(row.place + 1).to_string()}
            aria-expanded={directory.then(|| row.open.to_string())} aria-selected={selected.to_string()}
            class={classes!(here.then_some("here"), selected.then_some("on"), entry.deleted.then_some("deleted"))}
            {style} {onclick}>
            <i aria-hidden="true">{ mark }</i>{ format::name(&entry.name) }
            if entry.deleted { <small>{ " deleted" }</small> }
            if damaged { <small class="bad">{ " damaged" }</small> }
        </div>
    }
}

fn scrolled(app: &App, context: &Context<App>) -> Callback<Event> {
    let tree = app.tree.clone();
    context.link().batch_callback(move |_| {
        let top = tree.cast::<Element>()?.scroll_top();
        Some(Msg::Look(Look::TreeScroll(top)))
    })
}

fn keys(app: &App, rows: &[TreeRow<'_>], context: &Context<App>) -> Callback<KeyboardEvent> {
    let tree = app.tree.clone();
    let here = app.explorer.tree_row.min(rows.len().saturating_sub(1));
    let last = rows.len().saturating_sub(1);
    // What the keys may do to the row at hand, and where its parent is.
    let current = rows.get(here).map(|row| {
        let directory = row
            .entry
            .is_some_and(|entry| entry.kind == EntryKind::Directory && !entry.deleted);
        (
            row.way.clone(),
            row.entry.map(|entry| entry.inode),
            directory,
            row.open,
        )
    });
    let parent = rows.get(here).and_then(|row| {
        let above = &row.way[..row.way.len().saturating_sub(1)];
        rows.iter()
            .position(|other| other.entry.is_some() && other.way == above)
    });
    context.link().batch_callback(move |event: KeyboardEvent| {
        let to = |row: usize| {
            if let Some(tree) = tree.cast::<Element>() {
                let (top, height) = (tree.scroll_top(), tree.client_height());
                let at = row as i32 * ROW;
                if at < top {
                    tree.set_scroll_top(at);
                } else if at + ROW > top + height {
                    tree.set_scroll_top(at + ROW - height);
                }
            }
            vec![Msg::Look(Look::TreeRow(row))]
        };
        let Some((way, inode, directory, open)) = current.clone() else {
            return Vec::new();
        };
        let messages = match event.key().as_str() {
            "ArrowDown" => to((here + 1).min(last)),
            "ArrowUp" => to(here.saturating_sub(1)),
            "Home" => to(0),
            "End" => to(last),
            "PageDown" => to((here + 15).min(last)),
            "PageUp" => to(here.saturating_sub(15)),
            "ArrowRight" if directory && !open => vec![Msg::Look(Look::Toggle(way))],
            "ArrowRight" if directory => to((here + 1).min(last)),
            "ArrowLeft" if directory && open => vec![Msg::Look(Look::Toggle(way))],
            "ArrowLeft" => to(parent.unwrap_or(here)),
            "Enter" | " " => match inode {
                Some(inode) => vec![Msg::Look(Look::Into(Link::Inode(inode)))],
                None => vec![Msg::Look(Look::More(way))],
            },
            _ => return Vec::new(),
        };
        event.prevent_default();
        messages
    })
}
