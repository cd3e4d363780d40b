//! Which Rust and which tools the programs that we start find.

use std::{
    env,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::shell::root;

/// Debian has no std for wasm: cargo is told to compile it, which only an unstable flag does.
pub(crate) const DEBIAN_WASM: [(&str, &str); 2] = [
    ("RUSTC_BOOTSTRAP", "1"),
    ("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort"),
];
/// Where Debian's packages put their programs.
pub(crate) const DEBIAN_BIN: &str = "/usr/bin";

static DEBIAN: AtomicBool = AtomicBool::new(false);

/// From now on, what we start uses Debian's Rust, whatever rustup says.
pub(crate) fn use_debian() {
    DEBIAN.store(true, Ordering::Relaxed);
}

/// Whether set-up fell back on Debian's Rust.
pub(crate) fn is_debian() -> bool {
    DEBIAN.load(Ordering::Relaxed)
}

/// Lets a program find what set-up installed: npm's wasm-opt first, and cargo's programs also where their folder is
/// not on the path.
pub(crate) fn apply(command: &mut Command) {
    let mut folders = vec![root().join("web/node_modules/.bin")];
    if is_debian() {
        let bin = PathBuf::from(DEBIAN_BIN);
        command
            .env("CARGO", bin.join("cargo"))
            .env("RUSTC", bin.join("rustc"));
        folders.push(bin);
    }
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    folders.extend(cargo_bin());
    // It fails where a folder's name holds a colon; then the path stays as it is.
    if let Ok(path) = env::join_paths(folders) {
        command.env("PATH", path);
    }
}

/// For a command that compiles nothing but wasm.
pub(crate) fn for_wasm(command: &mut Command) -> &mut Command {
    if is_debian() {
        command.envs(DEBIAN_WASM);
    }
    command
}

/// Where `cargo install` puts programs; `None` where there is no home.
pub(crate) fn cargo_bin() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))
        .map(|home| home.join("bin"))
}
