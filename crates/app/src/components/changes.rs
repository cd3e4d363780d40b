//! What a run has changed of the image, and the changed image to keep.

use view::changes::{ChangeRow, Changes};
use yew::{Context, Html, html};

use crate::{
    app::{App, Msg},
    crew::Run,
    format,
};

pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    let Some(run) = app.run.as_ref().filter(|run| run.ended) else {
        return html! {};
    };
    let (Some(changed), Some(changes)) = (&run.changed, &run.changes) else {
        return html! {};
    };
    let save = context.link().callback(|_| Msg::SaveChanged);
    let blocks = changed.blocks.len() as u64;
    html! {
        <section class="changes" aria-label="What the run has changed">
            <h2>{ "What has changed" }</h2>
            <p id="changed">
                { format!("{} blocks of the image differ. Your file is as it was. ", format::count(blocks)) }
                if changed.crash { { "This is what a crash leaves: the state of the last commit. " } }
            </p>
            <p class="buttons">
                <button onclick={save} disabled={changes.begins_at.is_none()}>{ "Download changed image" }</button>
                if changes.begins_at.is_none() {
                    <small>{ "The file is packed, so the page cannot put it together again; `ext4lab run --out` can." }</small>
                }
            </p>
            { list(run, changes) }
        </section>
    }
}

fn list(run: &Run, changes: &Changes) -> Html {
    let all = run.changed.as_ref().map_or(0, |changed| changed.blocks.len());
    html! {
        <>
            { for changes.rows.iter().map(row) }
            if changes.rows.len() < all {
                <p class="quiet">{ format!("The first {} blocks that differ are listed.", changes.rows.len()) }</p>
            }
        </>
    }
}

fn row(row: &ChangeRow) -> Html {
    let fields = match row.fields.len() {
        0 => "its bytes".to_owned(),
        1 => "1 field".to_owned(),
        more => format!("{more} fields"),
    };
    html! {
        <details>
            <summary>{ format!("Block {}: {} ({fields})", row.block, row.purpose) }</summary>
            if !row.fields.is_empty() {
                <table>
                    <thead><tr><th scope="col">{ "Field" }</th><th scope="col">{ "Before" }</th><th scope="col">{ "After" }</th></tr></thead>
                    <tbody>
                        { for row.fields.iter().map(|(name, before, after)| html! {
                            <tr><th scope="row">{ name }</th><td class="mono">{ before }</td><td class="mono">{ after }</td></tr>
                        }) }
                    </tbody>
                </table>
            }
            if row.more { <p class="quiet">{ "And more." }</p> }
        </details>
    }
}
