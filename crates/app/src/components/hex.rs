//! Bytes and the fields that they are: each lights up the other.

use view::explore::{FieldRow, Link};
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, MouseEvent};
use yew::{Callback, Context, Html, classes, html};

use super::explore::link;
use crate::app::{App, Look, Msg};

/// Bytes that are shown at once.
const PAGE: usize = 4096;
/// Bytes on a line: as many as fit beside the disk.
const LINE: usize = 8;

/// Fields above the bytes that they come from.
pub(crate) fn view(app: &App, bytes: &[u8], rows: &[FieldRow], context: &Context<App>) -> Html {
    let pages = bytes.len().div_ceil(PAGE).max(1);
    let page = app.explorer.hex_page.min(pages - 1);
    let begin = page * PAGE;
    let end = (begin + PAGE).min(bytes.len());
    let turn = |to: usize| context.link().callback(move |_| Msg::Look(Look::HexPage(to)));
    let here = |row: &FieldRow| (begin..end).contains(&(row.offset as usize));
    let rows: Vec<(usize, &FieldRow)> = rows.iter().enumerate().filter(|(_, row)| here(row)).collect();
    html! {
        <>
            if pages > 1 {
                <p class="pager">
                    <button disabled={page == 0} onclick={turn(page.saturating_sub(1))}>{ "Previous" }</button>
                    { format!(" bytes {begin} to {} of {} ", end.saturating_sub(1), bytes.len()) }
                    <button disabled={page + 1 == pages} onclick={turn(page + 1)}>{ "Next" }</button>
                </p>
            }
            if !rows.is_empty() { { lit_fields(app, &rows, context) } }
            { dump(app, bytes, begin, end, &rows, context) }
        </>
    }
}

fn lit_fields(app: &App, rows: &[(usize, &FieldRow)], context: &Context<App>) -> Html {
    let light = |place: Option<usize>| context.link().callback(move |_| Msg::Look(Look::Lit(place)));
    html! {
        <div class="scroll" tabindex="0" role="region" aria-label="Fields">
            <table class="fields" onmouseleave={context.link().callback(|_| Msg::Look(Look::Lit(None)))}>
                <thead><tr><th scope="col">{ "Field" }</th><th scope="col">{ "Value" }</th></tr></thead>
                <tbody>
                    { for rows.iter().map(|(place, row)| html! {
                        <tr class={classes!((app.explorer.lit == Some(*place)).then_some("lit"))} onmouseenter={light(Some(*place)).reform(|_: MouseEvent| ())}>
                            { name(row) }
                            { value(row, context) }
                        </tr>
                    }) }
                </tbody>
            </table>
        </div>
    }
}

/// A table of fields, without their bytes.
pub(crate) fn fields(rows: &[FieldRow], context: &Context<App>) -> Html {
    html! {
        <table class="fields">
            <thead><tr><th scope="col">{ "Field" }</th><th scope="col">{ "Value" }</th></tr></thead>
            <tbody>{ for rows.iter().map(|row| html! { <tr>{ name(row) }{ value(row, context) }</tr> }) }</tbody>
        </table>
    }
}

fn name(row: &FieldRow) -> Html {
    html! {
        <th scope="row" title={format!("{} bytes at {:#x}", row.width, row.offset)}>
            <code>{ &row.name }</code><small>{ &row.meaning }</small>
        </th>
    }
}

fn value(row: &FieldRow, context: &Context<App>) -> Html {
    match row.link {
        Some(to @ (Link::Inode(1..) | Link::Block(1..))) => {
            html! { <td class="mono">{ link(to, row.value.clone(), context) }</td> }
        }
        _ => html! { <td class="mono">{ &row.value }</td> },
    }
}

/// Lines of bytes. Bytes of one field are one piece, so that it can light up.
fn dump(
    app: &App,
    bytes: &[u8],
    begin: usize,
    end: usize,
    rows: &[(usize, &FieldRow)],
    context: &Context<App>,
) -> Html {
    let mut owners = vec![None; end - begin];
    for (place, row) in rows.iter().rev() {
        let from = row.offset as usize - begin;
        for owner in owners.iter_mut().skip(from).take(row.width as usize) {
            *owner = Some(*place);
        }
    }
    // One listener for all pieces: each says in its data whose bytes it holds.
    let onmouseover: Callback<MouseEvent> = context.link().batch_callback(|event: MouseEvent| {
        let target: HtmlElement = event.target()?.dyn_into().ok()?;
        let place = target.get_attribute("data-field")?.parse().ok();
        Some(Msg::Look(Look::Lit(place)))
    });
    let lit = app.explorer.lit;
    let line = |number: usize| {
        let from = begin + number * LINE;
        let to = (from + LINE).min(end);
        let owned = &owners[from - begin..to - begin];
        let mut pieces = Vec::new();
        let mut at = 0;
        for run in owned.chunk_by(|one, other| one == other) {
            let text: String = bytes[from + at..from + at + run.len()]
                .iter()
                .map(|byte| format!("{byte:02x} "))
                .collect();
            at += run.len();
            pieces.push(match run[0] {
                Some(place) => html! {
                    <span data-field={place.to_string()} class={classes!("piece", (lit == Some(place)).then_some("lit"))}>{ text }</span>
                },
                None => html! { { text } },
            });
        }
        let letters: String = bytes[from..to]
            .iter()
            .map(|byte| match byte.is_ascii_graphic() {
                true => char::from(*byte),
                false => '.',
            })
            .collect();
        let room = " ".repeat((LINE - (to - from)) * 3);
        html! { <>{ format!("{from:05x}  ") }{ for pieces }{ format!("{room} {letters}\n") }</> }
    };
    html! {
        <pre class="hex" tabindex="0" aria-label="Bytes" {onmouseover}>{ for (0..(end - begin).div_ceil(LINE)).map(line) }</pre>
    }
}
