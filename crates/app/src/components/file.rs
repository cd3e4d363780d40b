//! What a file or a directory holds.

use view::explore::{Content, DirectoryPage, EntryKind, InodeDetails, Link, Sort};
use yew::{Context, Html, classes, html};

use super::findings;
use crate::{
    app::{App, CONTENT_A_PAGE, Look, Msg, PICTURE_MAX, Show, Wanted},
    format,
};

pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    let Some(details) = &app.explorer.details else {
        return html! { <p class="quiet">{ "Choose a file in the tree to see what it holds." }</p> };
    };
    html! {
        <>
            <h2 class="big">{ title(details) }</h2>
            { match (&app.explorer.listing, &app.explorer.content) {
                (Some(page), _) => listing(page, context),
                (None, Some(content)) => bytes(app, content, context),
                (None, None) if details.kind == EntryKind::Special => html! { <p>{ "A device, pipe or socket: it holds nothing on the disk." }</p> },
                (None, None) => html! { <p class="quiet">{ "Reading …" }</p> },
            } }
        </>
    }
}

fn title(details: &InodeDetails) -> String {
    match &details.path {
        Some(path) => format::name(path),
        None => format!("Inode {}", details.number),
    }
}

fn listing(page: &DirectoryPage, context: &Context<App>) -> Html {
    let link = context.link();
    let into = |inode: u32| link.callback(move |_| Msg::Look(Look::Into(Link::Inode(inode))));
    let turn = |to: u32| link.callback(move |_| Msg::Look(Look::ListingAt(to)));
    let shown = page.entries.len() as u32;
    html! {
        <>
            <p class="quiet">
                { format!("Directory with {} entries ", format::count(page.total.into())) }
                if page.parent != 0 { <button class="link" onclick={into(page.parent)}>{ "up" }</button> }
            </p>
            if !page.findings.is_empty() { { findings::list(&page.findings, "", context) } }
            if page.total > shown {
                <p class="pager">
                    <button disabled={page.first == 0} onclick={turn(page.first.saturating_sub(1000))}>{ "Previous" }</button>
                    { format!(" {} to {} ", page.first, (page.first + shown).saturating_sub(1)) }
                    <button disabled={page.first + shown >= page.total} onclick={turn(page.first + shown)}>{ "Next" }</button>
                </p>
            }
            <table class="listing">
                <thead><tr><th scope="col">{ "Name" }</th><th scope="col">{ "Kind" }</th><th scope="col" class="number">{ "Inode" }</th></tr></thead>
                <tbody>
                    { for page.entries.iter().map(|entry| html! {
                        <tr class={classes!(entry.deleted.then_some("deleted"))}>
                            <td><button class="link mono" onclick={into(entry.inode)}>{ format::name(&entry.name) }</button></td>
                            <td>{ kind(entry.kind) }{ if entry.deleted { ", deleted" } else { "" } }</td>
                            <td class="number">{ entry.inode }</td>
                        </tr>
                    }) }
                </tbody>
            </table>
        </>
    }
}

fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symbolic link",
        EntryKind::Special => "device, pipe or socket",
        EntryKind::Unknown => "not said",
    }
}

fn bytes(app: &App, content: &Content, context: &Context<App>) -> Html {
    let link = context.link();
    let look = |look: Look| link.callback(move |_| Msg::Look(look.clone()));
    let (begin, end) = (content.offset, content.offset + content.bytes.len() as u64);
    let show = match app.explorer.show {
        Show::Fitting if content.sort == Sort::Bytes => Show::Hex,
        Show::Fitting if content.sort == Sort::Text => Show::Text,
        chosen => chosen,
    };
    let way = |show: Show, name: &'static str, on: bool| {
        html! { <button class={classes!(on.then_some("on"))} aria-pressed={on.to_string()} onclick={look(Look::Show(show))}>{ name }</button> }
    };
    html! {
        <>
            <p class="pager">
                { format::bytes(content.size) }
                if content.sort == Sort::Picture { { way(Show::Fitting, "Picture", show == Show::Fitting) } }
                { way(Show::Text, "Text", show == Show::Text) }
                { way(Show::Hex, "Bytes", show == Show::Hex) }
                <button onclick={look(Look::Whole(Wanted::Download))} disabled={content.size > protocol::CONTENT_MAX}>{ "Save…" }</button>
            </p>
            if let Some(why) = &content.trouble { <p class="bad">{ format!("This part cannot be read: {why}") }</p> }
            if content.size > CONTENT_A_PAGE && show != Show::Fitting {
                <p class="pager">
                    <button disabled={begin == 0} onclick={look(Look::ContentAt(begin.saturating_sub(CONTENT_A_PAGE)))}>{ "Previous" }</button>
                    { format!(" bytes {} to {} ", format::count(begin), format::count(end.saturating_sub(1))) }
                    <button disabled={end >= content.size} onclick={look(Look::ContentAt(end))}>{ "Next" }</button>
                </p>
            }
            { match show {
                Show::Fitting => picture(app, content),
                Show::Text => html! { <pre class="content" tabindex="0" aria-label="Text">{ String::from_utf8_lossy(&content.bytes).replace('\0', "␀") }</pre> },
                Show::Hex => html! { <pre class="content" tabindex="0" aria-label="Bytes">{ plain_hex(content) }</pre> },
            } }
        </>
    }
}

fn picture(app: &App, content: &Content) -> Html {
    match &app.explorer.picture {
        Some(url) => html! { <img class="picture" src={url.clone()} alt="The file as a picture" /> },
        None if content.size > PICTURE_MAX => {
            html! { <p class="quiet">{ "The picture is too large to be shown here." }</p> }
        }
        None => html! { <p class="quiet">{ "Reading …" }</p> },
    }
}

fn plain_hex(content: &Content) -> String {
    let line = |(number, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = line
            .iter()
            .map(|byte| match byte.is_ascii_graphic() {
                true => char::from(*byte),
                false => '.',
            })
            .collect();
        let at = content.offset + number as u64 * 16;
        format!("{at:08x}  {:<47}  {text}\n", hex.join(" "))
    };
    content.bytes.chunks(16).enumerate().map(line).collect()
}
