//! One engine worker, as the page sees it.

use js_sys::{Object, Reflect, Uint8Array};
use protocol::{Ask, Choice, Reply, Request};
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use web_sys::{Blob, ErrorEvent, MessageEvent, Worker, WorkerOptions, WorkerType};
use yew::Callback;

use crate::page;

/// Every answer takes far less; a slow computer may need some of it to compile the module.
const HANGS_AFTER_SECONDS: f64 = 15.0;
/// What is said of an engine that hangs.
pub(crate) const HANGS: &str = "it has not answered for 15 seconds";

/// What a worker says.
pub(crate) enum Said {
    /// Its module is up.
    Ready(Module),
    /// An answer.
    Reply(Box<Reply>),
    /// A simulated CPU has come to its end.
    Ended,
    /// It cannot go on.
    Died(String),
}

/// The compiled module and its memory, for the workers that share it.
#[derive(Clone)]
pub(crate) struct Module {
    pub(crate) wasm: JsValue,
    pub(crate) memory: JsValue,
}

/// What a worker is to be.
pub(crate) enum Role {
    /// Answers questions, with the plain engine.
    Explorer,
    /// Answers questions about a live run, with the threaded engine and a fresh memory.
    Lead,
    /// One simulated CPU in the memory of a lead.
    Cpu { number: u16, module: Module, file: Blob },
}

/// A worker. It ends when this is dropped.
pub(crate) struct Engine {
    worker: Worker,
    next_id: u32,
    /// Questions without an answer, and for how many seconds of frames none has come.
    unanswered: u32,
    silent_seconds: f64,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_error: Closure<dyn FnMut(ErrorEvent)>,
}

impl Engine {
    /// Starts a worker. Messages that are sent before it is up wait in its queue.
    pub(crate) fn start(role: &Role, build: &str, said: Callback<Said>) -> Result<Self, String> {
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        let worker = Worker::new_with_options(&format!("worker.js?build={build}"), &options)
            .map_err(|error| page::text(&error))?;
        let on_message = {
            let said = said.clone();
            Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
                if let Some(what) = understand(&event.data()) {
                    said.emit(what);
                }
            })
        };
        let on_error = Closure::<dyn FnMut(ErrorEvent)>::new(move |event: ErrorEvent| {
            event.prevent_default();
            said.emit(Said::Died(event.message()));
        });
        worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        let name = if matches!(role, Role::Explorer) {
            "engine"
        } else {
            "engine_threads"
        };
        let module = format!("./{name}.js?build={build}");
        let wasm = format!("./{name}_bg.wasm?build={build}");
        let start = match role {
            Role::Explorer | Role::Lead => object(&[("module", &module.into()), ("wasm", &wasm.into())]),
            Role::Cpu {
                number,
                module: shared,
                file,
            } => object(&[
                ("module", &module.into()),
                ("wasm", &shared.wasm),
                ("memory", &shared.memory),
                ("cpu", &JsValue::from(*number)),
                ("file", file),
            ]),
        };
        worker.post_message(&start).map_err(|error| page::text(&error))?;
        Ok(Self {
            worker,
            next_id: 0,
            unanswered: 0,
            silent_seconds: 0.0,
            _on_message: on_message,
            _on_error: on_error,
        })
    }

    /// Asks something; returns the number that the reply will carry.
    pub(crate) fn ask(&mut self, body: Ask) -> u32 {
        self.send(body, &JsValue::UNDEFINED)
    }

    /// Opens an image.
    pub(crate) fn open(&mut self, name: &str, choice: Choice, file: &Blob) -> u32 {
        self.send(
            Ask::Open {
                name: name.to_owned(),
                choice,
            },
            file,
        )
    }

    /// An answer has come.
    pub(crate) fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.silent_seconds = 0.0;
    }

    /// Another frame has gone by; whether the engine owes an answer for so long that it must hang.
    ///
    /// Frames are counted, not the clock: a tab that sleeps is not an engine that hangs.
    pub(crate) fn hangs(&mut self, frame_seconds: f64) -> bool {
        self.silent_seconds += if self.unanswered > 0 {
            frame_seconds.min(0.1)
        } else {
            0.0
        };
        self.silent_seconds > HANGS_AFTER_SECONDS
    }

    fn send(&mut self, body: Ask, file: &JsValue) -> u32 {
        self.next_id += 1;
        self.unanswered += 1;
        let request = Request {
            id: self.next_id,
            body,
        };
        let bytes = Uint8Array::from(protocol::to_bytes(&request).as_slice());
        // It fails only for what cannot be cloned, and bytes and files can.
        let _ = self
            .worker
            .post_message(&object(&[("bytes", &bytes), ("file", file)]));
        self.next_id
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.worker.set_onmessage(None);
        self.worker.set_onerror(None);
        self.worker.terminate();
    }
}

fn object(fields: &[(&str, &JsValue)]) -> Object {
    let object = Object::new();
    for (name, value) in fields {
        // Setting a property of a fresh plain object cannot fail.
        let _ = Reflect::set(&object, &JsValue::from_str(name), value);
    }
    object
}

fn understand(message: &JsValue) -> Option<Said> {
    let field = |name: &str| Reflect::get(message, &JsValue::from_str(name)).unwrap_or_default();
    if let Some(why) = field("died").as_string() {
        return Some(Said::Died(why));
    }
    if field("ended").is_truthy() {
        return Some(Said::Ended);
    }
    if field("ready").is_truthy() {
        return Some(Said::Ready(Module {
            wasm: field("wasm"),
            memory: field("memory"),
        }));
    }
    let bytes = field("bytes").dyn_into::<Uint8Array>().ok()?.to_vec();
    let reply = protocol::from_bytes(&bytes).map(|reply| Said::Reply(Box::new(reply)));
    Some(reply.unwrap_or_else(|| Said::Died("it speaks another language: reload the page".to_owned())))
}
