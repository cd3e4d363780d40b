//! What is wrong or odd, with where and why.

use view::explore::{Finding, Link, ReadPhase, ReadingState, Severity};
use yew::{Context, Html, html};

use super::explore::link;
use crate::{
    app::{App, Look, Msg},
    format,
};

/// The most findings that are listed at once.
const SHOWN_MAX: usize = 500;

/// A reading's result in a sentence.
pub(crate) fn verdict(read: &ReadingState) -> String {
    let so_far = match read.phase {
        ReadPhase::Done => "",
        _ => " so far",
    };
    if read.errors + read.warnings + read.notes == 0 {
        return format!("Nothing wrong{so_far}");
    }
    format!(
        "{}, {}, {}{so_far}",
        format::many(read.errors, "error"),
        format::many(read.warnings, "warning"),
        format::many(read.notes, "note")
    )
}

/// All that the reading has found, worst first.
pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    let explorer = &app.explorer;
    let mut all: Vec<Finding> = explorer.findings.clone();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let more = all.len().saturating_sub(SHOWN_MAX);
    all.truncate(SHOWN_MAX);
    html! {
        <>
            <h2 class="big">{ "Findings" }</h2>
            if let Some(read) = &explorer.read {
                <p>{ verdict(read) }</p>
                { list(&all, "Nothing is wrong with what was read.", context) }
                if more > 0 { <p class="quiet">{ format!("and {more} more") }</p> }
                <h2>{ "What was counted" }</h2>
                <dl class="counts">
                    { for read.counts.iter().map(|(name, number)| html! {
                        <><dt>{ name }</dt><dd>{ format::count(*number) }</dd></>
                    }) }
                </dl>
                if read.owners_full {
                    <p class="warning-text">{ "There are more runs of blocks than are kept: some owners are not known." }</p>
                }
            }
        </>
    }
}

/// A list of findings, or a word that there are none.
pub(crate) fn list(findings: &[Finding], none: &'static str, context: &Context<App>) -> Html {
    if findings.is_empty() {
        return html! { <p class="fine">{ none }</p> };
    }
    html! {
        <ul class="findings">
            { for findings.iter().map(|finding| {
                let (class, word) = match finding.severity {
                    Severity::Note => ("note", "Note"),
                    Severity::Warning => ("warning", "Warning"),
                    Severity::Error => ("error", "Error"),
                };
                html! {
                    <li class={class}>
                        <b>{ word }</b>{ format!(" {}: {} ", finding.structure, finding.text) }
                        { place(finding, context) }
                    </li>
                }
            }) }
        </ul>
    }
}

fn place(finding: &Finding, context: &Context<App>) -> Html {
    let inode = finding
        .inode
        .map(|number| link(Link::Inode(number), format!("inode {number}"), context));
    let byte = finding.offset.map(|offset| {
        let show = context.link().callback(move |_| Msg::Look(Look::Byte(offset)));
        html! { <button class="link" onclick={show}>{ format!("byte {}", format::count(offset)) }</button> }
    });
    html! { <>{ for inode }{ " " }{ for byte }</> }
}
