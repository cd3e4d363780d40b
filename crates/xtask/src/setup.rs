//! Installs what is missing. Looks before it acts: with everything there it takes a moment.

mod debian;
mod rust;

use std::fs;

use crate::{
    shell::{Result, command, output, root, run as execute, timed},
    toolchain::cargo_bin,
};

/// 0.22 needs a newer compiler.
const TRUNK: &str = "0.21.14";
const WASM_OPT: &str = "web/node_modules/binaryen/bin/wasm-opt";

/// Installs what is missing.
pub(crate) fn run() -> Result<()> {
    rust::run()?;
    debian::tools()?;
    wasm_bindgen()?;
    trunk()?;
    node_packages()?;
    wasm_opt()
}

/// The program has to be of the version of the library in Cargo.lock.
fn wasm_bindgen() -> Result<()> {
    let wanted = locked("wasm-bindgen")?;
    let version = output("wasm-bindgen", &["--version"]).unwrap_or_default();
    if version.ends_with(&wanted) {
        return Ok(());
    }
    timed(
        &format!("installing wasm-bindgen-cli {wanted}, about four minutes"),
        || {
            // Not --locked: its lock file names a package that some registries lack.
            cargo_install(&["wasm-bindgen-cli", "--version", &wanted, "--force"])
        },
    )
}

fn trunk() -> Result<()> {
    if output("trunk", &["--version"])
        .unwrap_or_default()
        .ends_with(TRUNK)
    {
        return Ok(());
    }
    timed(&format!("installing Trunk {TRUNK}, about six minutes"), || {
        cargo_install(&[
            "trunk",
            "--version",
            TRUNK,
            "--locked",
            "--no-default-features",
            "--force",
        ])
    })
}

/// These programs wait for files most of the time: compiling them fast matters more than their speed.
pub(crate) fn cargo_install(arguments: &[&str]) -> Result<()> {
    let mut cargo = command("cargo", &[&["install"], arguments].concat());
    cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    execute(&mut cargo)
}

/// The version of a package in Cargo.lock.
pub(crate) fn locked(package: &str) -> Result<String> {
    let lock =
        fs::read_to_string(root().join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let mut lines = lock
        .lines()
        .skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines
        .nth(1)
        .and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version
        .map(str::to_owned)
        .ok_or_else(|| format!("Cargo.lock does not name {package}"))
}

fn node_packages() -> Result<()> {
    let web = root().join("web");
    let lock =
        fs::read(web.join("package-lock.json")).map_err(|error| format!("web/package-lock.json: {error}"))?;
    let stamp = web.join("node_modules/.installed-lock.json");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    if output("npm", &["--version"]).is_none() {
        return Err("npm does not start: please install Node.js 18 or later".to_owned());
    }
    timed("installing the npm packages", || {
        execute(command("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&web))
    })?;
    fs::write(&stamp, lock).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Copies npm's wasm-opt to where a bare `trunk serve` looks for it; what we start ourselves finds npm's own.
///
/// A link would dangle once the checkout is gone. The program is one file that needs nothing beside it.
fn wasm_opt() -> Result<()> {
    let folder = cargo_bin().ok_or("neither CARGO_HOME nor HOME is set")?;
    let to = folder.join("wasm-opt");
    let wanted = output("wasm-opt", &["--version"]).ok_or("npm's wasm-opt does not start")?;
    if !to.is_symlink() && output(&to.to_string_lossy(), &["--version"]) == Some(wanted) {
        return Ok(());
    }
    timed("copying wasm-opt to cargo's programs", || {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Renamed into place: another checkout's Trunk may be starting the old one.
        let new = folder.join(format!("wasm-opt.{}", std::process::id()));
        fs::copy(root().join(WASM_OPT), &new)
            .and_then(|_| fs::rename(&new, &to))
            .map_err(|error| format!("{}: {error}", to.display()))
    })
}
