//! The page's own scraps of JavaScript, and what the browser knows of itself.

use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};
use web_sys::Blob;

#[wasm_bindgen(module = "/src/page.js")]
extern "C" {
    #[wasm_bindgen(catch, js_name = openSample)]
    async fn open_sample_js(url: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(js_name = buildNote)]
    async fn build_note_js() -> JsValue;
    /// Whether workers can share memory here.
    pub(crate) fn isolated() -> bool;
    /// An address under which the page can show a picture; the one before is taken back.
    #[wasm_bindgen(js_name = objectUrl)]
    pub(crate) fn object_url(bytes: &[u8]) -> String;
    /// Lets the browser keep these bytes as a file.
    pub(crate) fn download(bytes: &[u8], name: &str);
    /// The same for parts one after the other: bytes, and slices of files.
    pub(crate) fn save(parts: &js_sys::Array, name: &str);
}

/// What the build left beside the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BuildNote {
    /// Names the build, so that page and workers are of the same one.
    pub(crate) build: String,
    /// Why there are no live modes; `None` where there are.
    pub(crate) no_workers: Option<String>,
}

/// A sample image, unpacked.
pub(crate) async fn open_sample(file: &str) -> Result<Blob, String> {
    let blob = open_sample_js(&format!("assets/{file}"))
        .await
        .map_err(|error| text(&error))?;
    blob.dyn_into().map_err(|_| "the browser gave no file".to_owned())
}

/// Reads the build's note, and looks whether memory can be shared.
pub(crate) async fn build_note() -> BuildNote {
    let note = build_note_js().await;
    let field = |name: &str| js_sys::Reflect::get(&note, &JsValue::from_str(name)).unwrap_or_default();
    let no_workers = if field("threads") != JsValue::TRUE {
        Some(format!(
            "the threaded engine is not here: {}",
            field("why").as_string().unwrap_or_default()
        ))
    } else if !isolated() {
        Some(
            "the browser does not let workers share memory here. The server has to send the headers \
             Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp, \
             as `cargo xtask serve` does"
                .to_owned(),
        )
    } else {
        None
    };
    BuildNote {
        build: field("build").as_string().unwrap_or_default(),
        no_workers,
    }
}

/// What a JavaScript error says.
pub(crate) fn text(error: &JsValue) -> String {
    let message = js_sys::Reflect::get(error, &JsValue::from_str("message")).unwrap_or_default();
    message.as_string().unwrap_or_else(|| format!("{error:?}"))
}
