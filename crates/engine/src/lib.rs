//! The engine: wasm in workers. Opens the file, answers the page's questions, runs the modelled kernel.
//!
//! `web/worker.js` loads it and passes messages. One worker answers questions through [`handle`]; in a live run there
//! is one more for each simulated CPU, which does nothing but [`run_cpu`].

#![cfg(target_arch = "wasm32")]

mod file;
mod live;
mod session;
mod simulated;

use std::{cell::RefCell, panic};

use js_sys::{Function, Object, Reflect};
use protocol::{Answer, Reply, Request, Trouble};
use session::Session;
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};
use web_sys::Blob;

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
}

/// Sets up what every worker needs: a panic is written to the console and told to the page.
pub fn start() {
    panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        tell_page(&info.to_string());
    }));
}

/// Posts `{ died: text }` to the page. The module is unusable after that.
fn tell_page(text: &str) {
    let message = Object::new();
    let global = js_sys::global();
    let post = Reflect::get(&global, &JsValue::from_str("postMessage")).ok();
    let set = Reflect::set(&message, &JsValue::from_str("died"), &JsValue::from_str(text));
    if let (Ok(_), Some(post)) = (set, post.and_then(|post| post.dyn_into::<Function>().ok())) {
        // If even this fails there is nobody left to tell.
        let _ = post.call1(&global, &message);
    }
}

/// Answers one message; `file` travels beside a request to open an image.
#[wasm_bindgen]
pub fn handle(message: &[u8], file: Option<Blob>) -> Vec<u8> {
    let reply = match protocol::from_bytes::<Request>(message) {
        Some(Request { id, body }) => Reply {
            id,
            body: SESSION.with_borrow_mut(|session| session.answer(body, file)),
        },
        None => Reply {
            id: 0,
            body: Answer::Failed(Trouble::Garbled),
        },
    };
    protocol::to_bytes(&reply)
}

/// Runs one simulated CPU of the run that the answering worker has set up, until it ends. Blocks.
#[wasm_bindgen]
pub fn run_cpu(cpu: u16, file: Blob) {
    file::set(file);
    live::run_cpu(cpu);
}
