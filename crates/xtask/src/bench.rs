//! Figures side by side in one run, as ratios: the machine is shared and noisy.

use crate::{
    build, setup,
    shell::{Result, command, root, run as execute},
};

/// Flat out in the browser, 2 workers, median of 5: `rcu` over `spin`.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    build::page(build::Threads::Needed)?;
    let mut playwright = command("npx", &["playwright", "test", "--config", "bench.config.mjs"]);
    execute(playwright.current_dir(root().join("web")))
}
