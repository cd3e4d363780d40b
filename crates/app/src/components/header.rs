//! The bar at the top: where one is, which image is open, how to open another.

use wasm_bindgen::JsCast;
use web_sys::{DragEvent, Event, HtmlInputElement, HtmlSelectElement};
use yew::{Callback, Context, Html, html};

use crate::{
    app::{App, Image, Msg, SAMPLES, Tab},
    format,
    theme::Theme,
};

pub(crate) fn view(app: &App, context: &Context<App>) -> Html {
    let link = context.link();
    let tab = |tab: Tab, name: &'static str| {
        let current = (app.tab == tab).then_some("page");
        html! { <button class="tab" aria-current={current} onclick={link.callback(move |_| Msg::Tab(tab))}>{ name }</button> }
    };
    html! {
        <>
            <header>
                <h1 class="brand">{ "ext4" }<i>{ "lab" }</i></h1>
                <nav aria-label="Views">{ tab(Tab::Lab, "Lab") }{ tab(Tab::Explore, "Explore") }</nav>
                { chip(app) }
                <label class="button">
                    { "Open image…" }
                    <input class="hidden-input" type="file" aria-label="Open an ext4 image" onchange={chosen(context)} />
                </label>
                { sample_select(app, context) }
                { theme_select(app, context) }
            </header>
            { troubles(app, context) }
        </>
    }
}

fn chip(app: &App) -> Html {
    let text = match &app.image {
        Image::Loading(name) => html! { <span>{ format!("Opening {name} …") }</span> },
        Image::Failed { name, .. } => html! { <span>{ format!("{name} could not be opened") }</span> },
        Image::Open { overview, .. } => html! {
            <>
                <b>{ &overview.file_name }</b>
                <span>
                    { format!(
                        "{} · {} · {} blocks · {} B inodes",
                        format::bytes(overview.file_bytes), overview.family,
                        format::bytes(overview.block_bytes.into()), overview.inode_bytes,
                    ) }
                </span>
            </>
        },
    };
    html! { <p class="chip" role="status" aria-live="polite">{ text }<span class="quiet">{ "Nothing leaves this tab" }</span></p> }
}

fn chosen(context: &Context<App>) -> Callback<Event> {
    context.link().batch_callback(|event: Event| {
        let input: HtmlInputElement = event.target()?.dyn_into().ok()?;
        let file = input.files()?.get(0);
        // So that the same file can be chosen again.
        input.set_value("");
        file.map(Msg::Open)
    })
}

/// What to do with a file that is dropped here.
pub(crate) fn dropped(context: &Context<App>) -> Callback<DragEvent> {
    context.link().batch_callback(|event: DragEvent| {
        event.prevent_default();
        event.data_transfer()?.files()?.get(0).map(Msg::Open)
    })
}

fn sample_select(app: &App, context: &Context<App>) -> Html {
    let open = match &app.image {
        Image::Open { overview, .. } => overview.file_name.clone(),
        _ => String::new(),
    };
    let onchange = context.link().batch_callback(|event: Event| {
        let select: HtmlSelectElement = event.target()?.dyn_into().ok()?;
        select.value().parse().ok().map(Msg::Sample)
    });
    html! {
        <select aria-label="Sample images" {onchange}>
            <option value="" selected={SAMPLES.iter().all(|(_, name, _)| *name != open)}>{ "Samples" }</option>
            { for SAMPLES.iter().enumerate().map(|(number, (_, name, about))| html! {
                <option value={number.to_string()} selected={*name == open}>{ format!("{name}: {about}") }</option>
            }) }
        </select>
    }
}

fn theme_select(app: &App, context: &Context<App>) -> Html {
    let onchange = context.link().batch_callback(|event: Event| {
        let select: HtmlSelectElement = event.target()?.dyn_into().ok()?;
        Theme::from_name(&select.value()).map(Msg::Theme)
    });
    html! {
        <select aria-label="Colours" {onchange}>
            { for Theme::ALL.iter().map(|theme| html! {
                <option value={theme.name()} selected={*theme == app.theme}>{ theme.name() }</option>
            }) }
        </select>
    }
}

fn troubles(app: &App, context: &Context<App>) -> Html {
    let link = context.link();
    html! {
        <>
            if let Some(why) = &app.explorer_died {
                <p class="trouble" role="alert">
                    { format!("The engine ended unexpectedly ({why}). ") }
                    <button onclick={link.callback(|_| Msg::RestartExplorer)}>{ "Start a fresh engine" }</button>
                </p>
            }
            if let Image::Failed { name, trouble } = &app.image {
                <p class="trouble" role="alert">
                    <b>{ format!("{name}: ") }</b>{ trouble }{ " " }
                    <button onclick={link.callback(|_| Msg::Sample(0))}>{ "Open the sample" }</button>
                </p>
            }
            if let Some(why) = &app.run_trouble {
                <p class="trouble" role="alert">
                    { why }{ " " }
                    <button onclick={link.callback(|_| Msg::DismissTrouble)}>{ "Dismiss" }</button>
                </p>
            }
        </>
    }
}
