//! Serving the page.

use crate::{
    shell::{Result, command, run as execute},
    toolchain,
};

/// Builds and serves the page until it is interrupted; rebuilds when a file changes.
pub(crate) fn run() -> Result<()> {
    println!("• building and serving; then open http://127.0.0.1:8080/ (Ctrl+C ends it)");
    let mut trunk = command("trunk", &["serve", "--release"]);
    execute(toolchain::for_wasm(&mut trunk).env("NO_COLOR", "true"))
}
