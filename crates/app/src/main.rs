//! The page: Yew components over what the engines say. Never changes the model: it sends commands.

mod app;
mod canvas;
mod components;
mod crew;
mod engine;
mod format;
mod page;
mod theme;

fn main() {
    console_error_panic_hook::set_once();
    yew::Renderer::<app::App>::new().render();
}
