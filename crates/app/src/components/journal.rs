//! The journal with what a replay would change, and the orphans.

use protocol::Choice;
use view::explore::{JournalCard, Link, Moment, Overview, TransactionRow};
use yew::{Context, Html, html};

use super::{
    explore::{link, state_choice},
    findings,
};
use crate::{app::App, format};

pub(crate) fn view(app: &App, overview: &Overview, choice: Choice, context: &Context<App>) -> Html {
    let Some(journal) = &app.explorer.journal else {
        return html! { <p class="quiet">{ "Reading …" }</p> };
    };
    html! {
        <>
            <h2 class="big">{ "Journal" }</h2>
            if let Some(why) = &journal.trouble {
                <p>{ format!("Nothing to show: {why}.") }</p>
            } else {
                { body(journal, overview, choice, context) }
            }
        </>
    }
}

fn body(journal: &JournalCard, overview: &Overview, choice: Choice, context: &Context<App>) -> Html {
    html! {
        <>
            <dl class="counts">{ for journal.facts.iter().map(|(name, value)| html! { <><dt>{ name }</dt><dd>{ value }</dd></> }) }</dl>
            { findings::list(&journal.findings, "Nothing wrong with it", context) }
            if journal.transactions.is_empty() {
                <p>{ "There is no transaction to replay." }</p>
            } else {
                if overview.dirty || overview.replayed { { state_choice(choice, context) } }
                <h2>{ format!("{} that a replay carries out", format::many(journal.transactions_total, "transaction")) }</h2>
                { for journal.transactions.iter().map(|row| transaction(row, context)) }
                <p class="quiet">{ format!("The log ends there: {}.", journal.end) }</p>
                <h2>{ format!("{} that would read differently afterwards", format::many(journal.differing_total, "block")) }</h2>
                <p class="blocks">{ for journal.differing.iter().map(|block| html! { <>{ link(Link::Block(*block), block.to_string(), context) }{ " " }</> }) }</p>
            }
            if !journal.fast_commits.is_empty() {
                <h2>{ "Fast commits" }</h2>
                <p class="quiet">{ "They are listed, but the view after a replay leaves them out." }</p>
                <ol>{ for journal.fast_commits.iter().map(|(what, inode)| html! {
                    <li>{ format!("{what}, ") }{ link(Link::Inode(*inode), format!("inode {inode}"), context) }</li>
                }) }</ol>
            }
        </>
    }
}

fn transaction(row: &TransactionRow, context: &Context<App>) -> Html {
    let when = match row.committed_at {
        0 => String::new(),
        seconds => {
            let moment = Moment {
                seconds: seconds as i64,
                nanoseconds: 0,
            };
            format!(", {}", format::moment(moment))
        }
    };
    html! {
        <details>
            <summary>
                { format!("Transaction {}: {}, {} revoked, from journal block {}{when}", row.sequence, format::many(row.tags_total, "block"), row.revoked.len(), row.first) }
            </summary>
            <p class="blocks">
                { "Writes " }
                { for row.tags.iter().map(|tag| html! {
                    <>
                        { link(Link::Block(tag.block), tag.block.to_string(), context) }
                        if tag.right == Some(false) { <b class="bad">{ " wrong checksum" }</b> }
                        { " " }
                    </>
                }) }
            </p>
            if !row.revoked.is_empty() {
                <p class="blocks">{ "Revokes " }{ for row.revoked.iter().map(|block| html! { <>{ link(Link::Block(*block), block.to_string(), context) }{ " " }</> }) }</p>
            }
        </details>
    }
}

pub(crate) fn orphans(app: &App, context: &Context<App>) -> Html {
    let Some(orphans) = &app.explorer.orphans else {
        return html! { <p class="quiet">{ "Reading …" }</p> };
    };
    html! {
        <>
            <h2 class="big">{ "Orphans" }</h2>
            <p class="quiet">
                { "Inodes without a name that are still to be freed, or files that are still to be cut. The next mount does it, first those of the list, then those of the orphan file." }
            </p>
            { findings::list(&orphans.findings, "Nothing wrong with them", context) }
            if orphans.total == 0 {
                <p>{ if orphans.has_file { "There are none, neither in the list nor in the orphan file." } else { "There are none in the list; this image has no orphan file." } }</p>
            } else {
                <table>
                    <thead><tr><th scope="col">{ "Inode" }</th><th scope="col">{ "Remembered" }</th><th scope="col">{ "At the next mount" }</th></tr></thead>
                    <tbody>{ for orphans.rows.iter().map(|row| html! {
                        <tr>
                            <td>{ link(Link::Inode(row.inode), row.inode.to_string(), context) }</td>
                            <td>{ match row.block {
                                None => html! { { "in the list" } },
                                Some(block) => html! { <>{ format!("slot {} of ", row.slot) }{ link(Link::Block(block), format!("block {block}"), context) }</> },
                            } }</td>
                            <td>{ if row.freed { "freed" } else { "cut to its size" } }</td>
                        </tr>
                    }) }</tbody>
                </table>
            }
        </>
    }
}
