//! One inode in words, fields and bytes.

use view::explore::{FieldRow, InodeCard, Slot};
use yew::{Html, html};

use super::explore::findings;
use crate::{app::App, format};

pub(crate) fn view(app: &App) -> Html {
    let Some(card) = &app.card else {
        return html! { <p class="quiet">{ "Move over the table to read what an inode is." }</p> };
    };
    let title = match &card.role {
        Some(role) => format!("Inode {}, {role}", card.number),
        None => format!("Inode {}", card.number),
    };
    html! {
        <>
            <h2 class="big">{ title }</h2>
            <p class="quiet">
                { format!("{}, group {}, block {}, byte {}", card.slot.name(), card.group, card.block, format::count(card.offset)) }
            </p>
            { body(card) }
        </>
    }
}

fn body(card: &InodeCard) -> Html {
    match card.slot {
        Slot::NeverInitialised => html! {
            <p>{ "This slot was never initialised: nothing has been written here since the file system was made, so its bytes mean nothing." }</p>
        },
        Slot::Missing => html! { <p>{ "This slot lies outside the file, or could not be read." }</p> },
        Slot::Free => html! {
            <>
                <p>{ "This inode is free. What lies here is left over from before." }</p>
                { bytes(card) }
            </>
        },
        _ => html! {
            <>
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
                { findings(&card.findings, "Nothing wrong with it") }
                <details><summary>{ "All fields" }</summary>{ fields(&card.fields) }</details>
                { bytes(card) }
            </>
        },
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// A table of fields.
pub(crate) fn fields(rows: &[FieldRow]) -> Html {
    html! {
        <table class="fields">
            <thead><tr><th scope="col">{ "Field" }</th><th scope="col">{ "Value" }</th></tr></thead>
            <tbody>
                { for rows.iter().map(|row| html! {
                    <tr>
                        <th scope="row" title={format!("{} bytes at {:#x}", row.width, row.offset)}>
                            <code>{ &row.name }</code><small>{ &row.meaning }</small>
                        </th>
                        <td class="mono">{ &row.value }</td>
                    </tr>
                }) }
            </tbody>
        </table>
    }
}

fn bytes(card: &InodeCard) -> Html {
    let line = |(number, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = line
            .iter()
            .map(|byte| {
                if byte.is_ascii_graphic() {
                    char::from(*byte)
                } else {
                    '.'
                }
            })
            .collect();
        format!("{:04x}  {:<47}  {text}\n", number * 16, hex.join(" "))
    };
    let text: String = card.bytes.chunks(16).enumerate().map(line).collect();
    html! {
        <details>
            <summary>{ format!("Its {} bytes", card.bytes.len()) }</summary>
            <pre class="hex" tabindex="0">{ text }</pre>
        </details>
    }
}
