//! What is selected: an inode or a block, in words, fields and bytes.

use view::explore::{AttributeRow, BlockCard, FileMap, HashTree, InodeCard, InodeDetails, Link, Slot};
use yew::{Context, Html, html};

use super::{explore::link, findings, hex};
use crate::{
    app::{App, Look, Msg},
    format,
};

/// Rows of a map that are listed.
const ROWS: usize = 200;

pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    match (app.explorer.selected, &app.explorer.card, &app.explorer.block) {
        (Some(Link::Inode(_)), Some(card), _) => inode(app, card, context),
        (Some(Link::Block(_)), _, Some(card)) => block(app, card, context),
        (None, ..) => {
            html! { <p class="quiet">{ "Choose a file, a block or an inode to read what it is." }</p> }
        }
        _ => html! { <p class="quiet">{ "Reading …" }</p> },
    }
}

fn inode(app: &App, card: &InodeCard, context: &Context<App>) -> Html {
    let title = match &card.role {
        Some(role) => format!("Inode {}, {role}", card.number),
        None => format!("Inode {}", card.number),
    };
    html! {
        <>
            <h2 class="big">{ title }</h2>
            <p class="quiet">
                { format!("{}, group {}, ", card.slot.name(), card.group) }
                { link(Link::Block(card.block), format!("block {}", card.block), context) }
                { format!(", byte {}", format::count(card.offset)) }
            </p>
            { inode_body(app, card, context) }
        </>
    }
}

fn inode_body(app: &App, card: &InodeCard, context: &Context<App>) -> Html {
    match card.slot {
        Slot::NeverInitialised => html! {
            <p>{ "This slot was never initialised: nothing has been written here since the file system was made, so its bytes mean nothing." }</p>
        },
        Slot::Missing => html! { <p>{ "This slot lies outside the file, or could not be read." }</p> },
        Slot::Free => html! {
            <>
                <p>{ "This inode is free. What lies here is left over from before." }</p>
                { hex::view(app, &card.bytes, &card.fields, context) }
            </>
        },
        _ => html! {
            <>
                if let Some(details) = &app.explorer.details { { path(details, context) } }
                <dl>
                    <dt>{ "Mode" }</dt><dd class="mono">{ &card.mode }</dd>
                    <dt>{ "Owner" }</dt><dd>{ format!("{} : {}", card.uid, card.gid) }</dd>
                    <dt>{ "Size" }</dt><dd>{ format::bytes(card.size) }</dd>
                    <dt>{ "Links" }</dt><dd>{ card.links }</dd>
                    { for card.times.iter().map(|(name, time)| html! {
                        <><dt>{ capital(name) }</dt><dd class="mono">{ format::moment(*time) }</dd></>
                    }) }
                    <dt>{ "Flags" }</dt>
                    <dd>{ if card.flags.is_empty() { "none".to_owned() } else { card.flags.join(", ") } }</dd>
                    <dt>{ "Checksum" }</dt>
                    <dd>{ match card.checksum_right {
                        Some(true) => "right",
                        Some(false) => "wrong",
                        None => "this image has none",
                    } }</dd>
                </dl>
                { findings::list(&card.findings, "Nothing wrong with it", context) }
                if let Some(details) = &app.explorer.details { { hangs_on(details, context) } }
                <details><summary>{ format!("Fields and its {} bytes", card.bytes.len()) }</summary>{ hex::view(app, &card.bytes, &card.fields, context) }</details>
            </>
        },
    }
}

fn path(details: &InodeDetails, context: &Context<App>) -> Html {
    let number = details.number;
    let into = context
        .link()
        .callback(move |_| Msg::Look(Look::Into(Link::Inode(number))));
    html! {
        <>
            if let Some(path) = &details.path {
                <p class="path"><button class="link mono" onclick={into}>{ format::name(path) }</button></p>
            } else if details.paths_known {
                <p class="quiet">{ "No path leads to it." }</p>
            }
            if let Some(target) = &details.target { <p class="mono">{ format!("→ {}", format::name(target)) }</p> }
            if let Some((major, minor)) = details.device { <p>{ format!("Device {major}, {minor}") }</p> }
        </>
    }
}

/// Map, index and attributes.
fn hangs_on(details: &InodeDetails, context: &Context<App>) -> Html {
    html! {
        <>
            if !details.findings.is_empty() { { findings::list(&details.findings, "", context) } }
            { map(&details.map, context) }
            if let Some(tree) = &details.hash_tree { { hash_tree(tree) } }
            if !details.attributes.is_empty() {
                <details open=true>
                    <summary>{ format!("Extended attributes, {}", details.attributes.len()) }</summary>
                    <dl class="attributes">{ for details.attributes.iter().map(|row| attribute(row, context)) }</dl>
                </details>
            }
        </>
    }
}

fn map(map: &FileMap, context: &Context<App>) -> Html {
    if map.runs.is_empty() && map.nodes.is_empty() {
        return html! { <p class="quiet">{ format!("Data: {}", map.kind) }</p> };
    }
    let more = (map.runs_total as usize).saturating_sub(ROWS);
    html! {
        <details open={map.runs_total <= 12}>
            <summary>{ format!("Blocks: {}, {}, {}", map.kind, format::many(map.runs_total, "piece"), format::many(map.nodes_total, "tree block")) }</summary>
            <div class="scroll" tabindex="0" role="region" aria-label="Blocks of the file">
                if !map.nodes.is_empty() {
                    <table>
                        <thead><tr><th scope="col">{ "Tree block" }</th><th scope="col" class="number">{ "Levels below" }</th><th scope="col" class="number">{ "Entries" }</th></tr></thead>
                        <tbody>{ for map.nodes.iter().take(ROWS).map(|node| html! {
                            <tr>
                                <td>{ link(Link::Block(node.block), node.block.to_string(), context) }</td>
                                <td class="number">{ node.depth }</td>
                                <td class="number">{ node.entries }</td>
                            </tr>
                        }) }</tbody>
                    </table>
                }
                <table>
                    <thead><tr><th scope="col">{ "In the file" }</th><th scope="col">{ "On the disk" }</th><th scope="col" class="number">{ "Blocks" }</th></tr></thead>
                    <tbody>{ for map.runs.iter().take(ROWS).map(|run| html! {
                        <tr>
                            <td>{ run.logical }</td>
                            <td>{ link(Link::Block(run.start), run.start.to_string(), context) }</td>
                            <td class="number">{ run.blocks }{ if run.unwritten { ", never written" } else { "" } }</td>
                        </tr>
                    }) }</tbody>
                </table>
                if more > 0 { <p class="quiet">{ format!("and {more} more") }</p> }
            </div>
        </details>
    }
}

/// The index of a hashed directory, as the tree that it is.
fn hash_tree(tree: &HashTree) -> Html {
    html! {
        <details>
            <summary>{ format!("Index by {} hash, {}, {}", tree.hash, format::many(u32::from(tree.levels) + 1, "level"), format::many(tree.nodes.len() as u32, "node")) }</summary>
            { for tree.wrong.iter().map(|text| html! { <p class="bad">{ text }</p> }) }
            <ul class="hash-tree">
                { for tree.nodes.iter().take(ROWS).map(|node| html! {
                    <li>
                        { format!("block {}, {} of {} children", node.logical, node.children.len(), node.limit) }
                        <ol>
                            { for node.children.iter().take(ROWS).map(|(hash, child)| html! {
                                <li><code>{ format!("{hash:08x}") }</code>{ format!(" → block {child}") }</li>
                            }) }
                        </ol>
                    </li>
                }) }
            </ul>
        </details>
    }
}

fn attribute(row: &AttributeRow, context: &Context<App>) -> Html {
    let value = match (&row.acl, &row.value) {
        (Some(acl), _) => acl.join(", "),
        (None, Some(value)) => match std::str::from_utf8(value) {
            Ok(text) if !text.chars().any(|letter| letter.is_control() && letter != '\0') => {
                text.trim_end_matches('\0').to_owned()
            }
            _ => value.iter().take(64).map(|byte| format!("{byte:02x}")).collect(),
        },
        (None, None) => "cannot be read".to_owned(),
    };
    html! {
        <>
            <dt class="mono">{ format::name(&row.name) }</dt>
            <dd>
                <span class="mono">{ value }</span>
                <small>
                    { match row.link {
                        Some(to) => html! { <>{ " " }{ link(to, row.place.clone(), context) }</> },
                        None => html! { { format!(" {}", row.place) } },
                    } }
                </small>
            </dd>
        </>
    }
}

fn block(app: &App, card: &BlockCard, context: &Context<App>) -> Html {
    html! {
        <>
            <h2 class="big">{ format!("Block {}", card.number) }</h2>
            <p class="quiet">
                { match card.group {
                    Some(group) => format!("group {group}, byte {}", format::count(card.offset)),
                    None => format!("before the first group, byte {}", format::count(card.offset)),
                } }
            </p>
            <p>{ capital(&card.purpose) }</p>
            if let Some((inode, path)) = &card.inode {
                <p>
                    { link(Link::Inode(*inode), format!("inode {inode}"), context) }
                    if let Some(path) = path { { " " }<span class="mono">{ format::name(path) }</span> }
                </p>
            }
            if let Some(why) = &card.trouble { <p class="bad">{ format!("Its bytes cannot be read: {why}") }</p> }
            if !card.bytes.is_empty() { { hex::view(app, &card.bytes, &card.parts, context) } }
        </>
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}
