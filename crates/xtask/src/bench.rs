//! Figures side by side in one run, as ratios: the machine is shared and noisy.

use crate::shell::{Result, command, root, run as execute};

/// Flat out in the browser, `rcu` over `spin`, 2 workers, median of 5.
pub(crate) fn run() -> Result<()> {
    let mut playwright = command("npx", &["playwright", "test", "--config", "bench.config.mjs"]);
    execute(playwright.current_dir(root().join("web")))
}
