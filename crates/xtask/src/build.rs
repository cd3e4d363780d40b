//! Building the page, and the threaded engine beside it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    shell::{Result, command, output, root, run, timed},
    toolchain,
};

/// What Chromium, Firefox and Safari take; `--all-features` would make modules that they refuse.
const WASM_FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
    "--enable-reference-types",
    "--enable-multivalue",
];

/// Whether a page without its live modes will do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// It will, with a word on why.
    IfPossible,
    /// It will not.
    Needed,
}

/// Tells Trunk's hook that [`Threads::Needed`].
const NEEDS_THREADS: &str = "EXT4LAB_NEEDS_THREADS";

/// Builds the page into `dist/`, and prints what it weighs.
pub(crate) fn page(threads: Threads) -> Result<()> {
    let mut trunk = command("trunk", &["build", "--release"]);
    toolchain::for_wasm(&mut trunk).env("NO_COLOR", "true");
    if threads == Threads::Needed {
        trunk.env(NEEDS_THREADS, "1");
    }
    timed("building the page", || run(&mut trunk))?;
    print_sizes();
    Ok(())
}

/// Trunk's hook: puts the threaded engine, and a note that says whether it is there, into what Trunk builds.
///
/// Where it cannot be built the page still is: its live modes are then off.
pub(crate) fn engine_threads_for_trunk() -> Result<()> {
    let staging =
        env::var_os("TRUNK_STAGING_DIR").ok_or("this is for Trunk: TRUNK_STAGING_DIR is not set")?;
    let staging = PathBuf::from(staging);
    let built = engine_threads(&staging);
    let why = built.as_ref().err().cloned().unwrap_or_default();
    if !why.is_empty() {
        eprintln!("xtask: the threaded engine was not built, so the live modes will be off: {why}");
        if env::var_os(NEEDS_THREADS).is_some() {
            return Err(why);
        }
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|since| since.as_millis())
        .unwrap_or_default();
    let note = format!(
        "{{\"build\":\"{now:x}\",\"threads\":{},\"why\":{why:?}}}\n",
        built.is_ok()
    );
    fs::write(staging.join("build.json"), note).map_err(|error| format!("build.json: {error}"))
}

fn engine_threads(staging: &Path) -> Result<()> {
    let target = root().join("target/threads");
    let mut cargo = command(
        "cargo",
        &[
            "build",
            "--profile",
            "wasm",
            "-p",
            "engine",
            "--bin",
            "engine_threads",
            "--target",
        ],
    );
    cargo
        .args([
            "wasm32-unknown-unknown",
            "-Z",
            "build-std=std,panic_abort",
            "--target-dir",
        ])
        .arg(&target);
    // Only this module needs std rebuilt for atomics, and only for this is an unstable flag of cargo's used.
    cargo
        .env("RUSTC_BOOTSTRAP", "1")
        .env("EXT4LAB_SHARED_MEMORY", "1");
    cargo.env(
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
        "-C target-feature=+atomics,+bulk-memory,+mutable-globals",
    );
    // Trunk may have set these for its own build.
    cargo
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR");
    run(&mut cargo)?;
    let module = target.join("wasm32-unknown-unknown/wasm/engine_threads.wasm");
    let mut bindgen = command(
        "wasm-bindgen",
        &[
            "--target",
            "web",
            "--no-typescript",
            "--out-name",
            "engine_threads",
        ],
    );
    run(bindgen.arg("--out-dir").arg(staging).arg(module))?;
    if env::var("TRUNK_PROFILE").as_deref() != Ok("release") {
        return Ok(());
    }
    let bound = staging.join("engine_threads_bg.wasm");
    let mut optimise = command("wasm-opt", &["-O3", "--enable-threads"]);
    run(optimise.args(WASM_FEATURES).arg("-o").arg(&bound).arg(&bound))
}

/// What travels to a browser, compressed as a server would.
fn print_sizes() {
    println!("{:<28} {:>10} {:>10}", "file", "bytes", "gzip");
    let (mut sum, mut threaded) = (0, 0);
    let files = [
        "app.js",
        "app_bg.wasm",
        "engine.js",
        "engine_bg.wasm",
        "engine_threads.js",
        "engine_threads_bg.wasm",
    ];
    for name in files.into_iter().chain(["style.css", "worker.js", "index.html"]) {
        let path = root().join("dist").join(name);
        let Ok(bytes) = fs::metadata(&path).map(|metadata| metadata.len()) else {
            continue;
        };
        let path = path.to_string_lossy().into_owned();
        let packed = output("sh", &["-c", "gzip -9c \"$0\" | wc -c", &path]);
        let packed: u64 = packed.and_then(|text| text.parse().ok()).unwrap_or_default();
        sum += packed;
        if name.starts_with("engine_threads") {
            threaded += packed;
        }
        println!("{name:<28} {bytes:>10} {packed:>10}");
    }
    // Wanted: at most 700 KiB for the page with the explorer, at most 900 KiB in all.
    let explorer = sum - threaded;
    println!("{:<28} {:>10} {explorer:>10}", "page and plain engine", "");
    println!("{:<28} {:>10} {sum:>10}", "in all", "");
}
