//! Serving the page.

use crate::shell::{Result, command, run as execute};

/// Builds and serves the page until it is interrupted; rebuilds when a file changes.
pub(crate) fn run() -> Result<()> {
    println!("• building and serving; then open http://127.0.0.1:8080/ (Ctrl+C ends it)");
    execute(command("trunk", &["serve", "--release"]).env("NO_COLOR", "true"))
}
