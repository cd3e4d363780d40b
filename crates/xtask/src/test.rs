//! Every test, tier by tier, with a table at the end.

use std::{env, fs, path::PathBuf, time::Instant};

use crate::{
    build, setup,
    shell::{Result, command, output, root, run as execute, tee},
    toolchain,
};

/// The crates that run natively.
const NATIVE: [&str; 8] = [
    "ext4", "trace", "machine", "kernel", "view", "protocol", "cli", "xtask",
];
/// The crates that are wasm only.
const WASM: [&str; 2] = ["app", "engine"];
/// The folder of broken images that the project's makers share; `EXT4LAB_SHARED` names another.
const SHARED: &str = "../shared";

enum Verdict {
    Passed,
    Failed(String),
    NotRun(String),
}

struct Tier {
    name: &'static str,
    verdict: Verdict,
    seconds: f64,
    tests: Count,
}

/// Tests passed and failed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    passed: u64,
    failed: u64,
}

/// Sets up, and runs every tier whatever became of the one before.
pub(crate) fn run() -> Result<()> {
    print_versions();
    setup::run()?;
    let mut tiers = vec![
        pinned_tier("formatting", || check("cargo", &["fmt", "--all", "--check"])),
        pinned_tier("clippy, native", || clippy(&NATIVE, &["--all-targets"])),
        pinned_tier("clippy, wasm", || {
            clippy(&WASM, &["--target", "wasm32-unknown-unknown"])
        }),
        tier("documentation", documentation),
        tier("native tests", native),
        tier("tidiness", tidy),
    ];
    let built = tier("page", || {
        build::page(build::Threads::Needed).map(|()| Count { passed: 1, failed: 0 })
    });
    let page_is_there = matches!(built.verdict, Verdict::Passed);
    tiers.push(built);
    tiers.push(match (page_is_there, chromium()) {
        (true, Some(_)) => tier("browser tests", || browser(&[])),
        (false, _) => not_run("browser tests", "the page was not built"),
        (true, None) => not_run("browser tests", "Chromium is not installed"),
    });
    if loop_mounts() {
        tiers.push(tier("the running kernel", kernel));
    } else {
        tiers.push(not_run("the running kernel", "no loop mounts here (needs root)"));
    }
    let shared = env::var_os("EXT4LAB_SHARED").map_or_else(|| root().join(SHARED), PathBuf::from);
    if !shared.join("corpus").is_dir() {
        tiers.push(not_run("broken images of others", "their folder is not there"));
    } else {
        tiers.push(tier("broken images of others", || corpus(&shared.join("corpus"))));
    }
    if !shared.join("cases").is_dir() {
        tiers.push(not_run("cases after public reports", "their folder is not there"));
    } else if output("python3", &["--version"]).is_none() {
        tiers.push(not_run(
            "cases after public reports",
            "they are built with python3",
        ));
    } else {
        tiers.push(tier("cases after public reports", || {
            cases(&shared.join("cases"))
        }));
    }
    summary(&tiers)
}

fn print_versions() {
    for (program, arguments) in [
        ("cargo", ["--version"]),
        ("rustc", ["--version"]),
        ("trunk", ["--version"]),
        ("wasm-bindgen", ["--version"]),
        ("node", ["--version"]),
        ("chromium", ["--version"]),
    ] {
        println!(
            "{program}: {}",
            output(program, &arguments).unwrap_or_else(|| "not there yet".to_owned())
        );
    }
}

fn tier(name: &'static str, act: impl FnOnce() -> Result<Count>) -> Tier {
    println!("\n=== {name}");
    let begun = Instant::now();
    let (verdict, tests) = match act() {
        Ok(tests) => (Verdict::Passed, tests),
        Err(why) => (Verdict::Failed(why), Count { passed: 0, failed: 1 }),
    };
    if let Verdict::Failed(why) = &verdict {
        println!("FAILED: {why}");
    }
    Tier {
        name,
        verdict,
        seconds: begun.elapsed().as_secs_f64(),
        tests,
    }
}

/// A tier whose verdict hangs on the version of Rust: another one has other lints.
fn pinned_tier(name: &'static str, act: impl FnOnce() -> Result<Count>) -> Tier {
    match toolchain::is_debian() {
        true => not_run(name, "the pinned Rust is not here"),
        false => tier(name, act),
    }
}

fn not_run(name: &'static str, why: &str) -> Tier {
    Tier {
        name,
        verdict: Verdict::NotRun(why.to_owned()),
        seconds: 0.0,
        tests: Count::default(),
    }
}

/// A program that says yes or no.
fn check(program: &str, arguments: &[&str]) -> Result<Count> {
    crate::shell::run(&mut command(program, arguments)).map(|()| Count { passed: 1, failed: 0 })
}

fn packages<'p>(names: &[&'p str]) -> Vec<&'p str> {
    names.iter().flat_map(|name| ["-p", name]).collect()
}

fn clippy(names: &[&str], target: &[&str]) -> Result<Count> {
    let arguments = [
        &["clippy", "--quiet"],
        target,
        &packages(names),
        &["--", "-D", "warnings"],
    ]
    .concat();
    check("cargo", &arguments)
}

fn documentation() -> Result<Count> {
    let mut doc = command(
        "cargo",
        &[&["doc", "--quiet", "--no-deps"], packages(&NATIVE).as_slice()].concat(),
    );
    crate::shell::run(doc.env("RUSTDOCFLAGS", "-D warnings")).map(|()| Count { passed: 1, failed: 0 })
}

fn native() -> Result<Count> {
    let arguments = [&["test", "--no-fail-fast"], packages(&NATIVE).as_slice()].concat();
    let (success, text) = tee(&mut command("cargo", &arguments))?;
    let tests = cargo_tests(&text);
    match success {
        true if tests.passed > 0 => Ok(tests),
        true => Err("no test ran".to_owned()),
        false => Err(format!(
            "{} native tests failed, or could not be compiled",
            tests.failed
        )),
    }
}

/// The sums of cargo's lines "test result: ok. 3 passed; 0 failed; …".
fn cargo_tests(text: &str) -> Count {
    let mut sum = Count::default();
    for line in text.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number_before = |word: &str| -> u64 {
            let before = line.split(word).next().unwrap_or_default();
            before
                .split([' ', '.', ';'])
                .filter_map(|part| part.parse().ok())
                .next_back()
                .unwrap_or_default()
        };
        sum.passed += number_before(" passed");
        sum.failed += number_before(" failed");
    }
    sum
}

fn chromium() -> Option<PathBuf> {
    let named = env::var_os("EXT4LAB_CHROMIUM").map(PathBuf::from);
    named
        .or_else(|| Some(PathBuf::from("/usr/bin/chromium")))
        .filter(|path| path.exists())
}

/// The browser tests; `filter` goes to Playwright.
pub(crate) fn browser(filter: &[&str]) -> Result<Count> {
    let chromium = chromium().ok_or("Chromium is not installed")?;
    // Runs in the browser are held against the same runs of the program.
    execute(&mut command("cargo", &["build", "--quiet", "-p", "cli"]))?;
    let mut playwright = command("npx", &[&["playwright", "test"], filter].concat());
    playwright
        .current_dir(root().join("web"))
        .env("EXT4LAB_CHROMIUM", chromium);
    let (success, text) = tee(&mut playwright)?;
    let number = |word: &str| -> u64 {
        let line = text
            .lines()
            .rev()
            .find(|line| line.trim().trim_start_matches(char::is_numeric).starts_with(word));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
            .unwrap_or_default()
    };
    match success {
        true => Ok(Count {
            passed: number(" passed"),
            failed: 0,
        }),
        false => Err(format!("{} browser tests failed", number(" failed"))),
    }
}

/// What no compiler checks: what a newcomer reads, and what must not be in the tree.
fn tidy() -> Result<Count> {
    let read = |name: &str| fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"));
    let readme = read("README.md")?;
    let architecture = read("ARCHITECTURE.md")?;
    let mut wrong = Vec::new();
    for said in ["cargo xtask serve", "cargo xtask test"] {
        if !readme.contains(said) {
            wrong.push(format!("README.md does not say `{said}`"));
        }
    }
    for name in NATIVE.iter().chain(&WASM) {
        if !architecture.contains(&format!("`{name}`")) {
            wrong.push(format!("ARCHITECTURE.md does not name the crate `{name}`"));
        }
    }
    for line in read("Cargo.toml")?
        .lines()
        .filter(|line| line.contains("version = \"") && line.contains('{'))
    {
        if !line.contains("version = \"=") {
            wrong.push(format!("Cargo.toml does not pin: {line}"));
        }
    }
    for name in ["assets/everyday.img.gz", "assets/classic.img.gz"] {
        match fs::metadata(root().join(name)) {
            Ok(file) if file.len() <= 300 * 1024 => {}
            Ok(file) => wrong.push(format!("{name} is {} bytes, more than 300 KiB", file.len())),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    if wrong.is_empty() {
        Ok(Count { passed: 1, failed: 0 })
    } else {
        Err(wrong.join("; "))
    }
}

/// Whether an image can be mounted here.
pub(crate) fn loop_mounts() -> bool {
    let folder = root().join("target/mount");
    let image = folder.join("image");
    let on = folder.join("on");
    let (Some(image), Some(on)) = (image.to_str(), on.to_str()) else {
        return false;
    };
    fs::create_dir_all(on).is_ok()
        && output("mke2fs", &["-q", "-F", "-t", "ext4", image, "8M"]).is_some()
        && output("mount", &["-o", "loop", image, on]).is_some()
        && output("umount", &[on]).is_some()
}

/// Lets the running kernel fill images, and compares what it shows with what we read.
fn kernel() -> Result<Count> {
    let arguments = [
        "test",
        "--quiet",
        "-p",
        "ext4",
        "--test",
        "kernel",
        "--",
        "--ignored",
    ];
    let (success, text) = tee(&mut command("cargo", &arguments))?;
    match success {
        true => Ok(cargo_tests(&text)),
        false => Err("what the kernel shows is not what we read".to_owned()),
    }
}

/// Builds the tricky images, reads them, and holds that against e2fsck and the right results.
fn cases(scripts: &std::path::Path) -> Result<Count> {
    let built = root().join("target/cases");
    if built.exists() {
        fs::remove_dir_all(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    }
    fs::create_dir_all(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    let folder = built
        .to_str()
        .ok_or("the folder of the project is no plain path")?;
    for part in 1..=4 {
        let script = scripts.join(format!("part{part}.sh"));
        let script = script
            .to_str()
            .ok_or("the folder of the cases is no plain path")?;
        // What it prints is for people; whether it has built what it can is seen by the tests.
        let _ = output("bash", &[script, folder]);
    }
    let arguments = [
        "test",
        "--quiet",
        "-p",
        "ext4",
        "--test",
        "cases",
        "--",
        "--ignored",
        "--nocapture",
    ];
    let (success, text) = tee(command("cargo", &arguments).env("EXT4LAB_CASES", &built))?;
    match success {
        true => Ok(cargo_tests(&text)),
        false => Err("a tricky image was not read right".to_owned()),
    }
}

/// Opens every broken image; the reader's example says what it finds, and must not fall over.
fn corpus(folder: &std::path::Path) -> Result<Count> {
    let mut cargo = command(
        "cargo",
        &[
            "test",
            "--quiet",
            "-p",
            "ext4",
            "--test",
            "corpus",
            "--",
            "--nocapture",
        ],
    );
    let (success, text) = tee(cargo.env("EXT4LAB_CORPUS", folder))?;
    if success {
        Ok(cargo_tests(&text))
    } else {
        Err("a broken image was not taken well".to_owned())
    }
}

fn summary(tiers: &[Tier]) -> Result<()> {
    println!("\n{:<28} {:>8}  verdict", "tier", "seconds");
    let mut sum = Count::default();
    for tier in tiers {
        let verdict = match &tier.verdict {
            Verdict::Passed => format!("passed ({})", tier.tests.passed),
            Verdict::Failed(why) => format!("FAILED: {why}"),
            Verdict::NotRun(why) => format!("NOT RUN: {}", why.to_uppercase()),
        };
        println!("{:<28} {:>8.1}  {verdict}", tier.name, tier.seconds);
        sum.passed += tier.tests.passed;
        sum.failed += tier.tests.failed;
    }
    println!("\n{} passed, {} failed", sum.passed, sum.failed);
    if sum.failed == 0 {
        Ok(())
    } else {
        Err("not all tests passed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_results_are_added_up() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored\nx\ntest result: FAILED. 10 passed; 2 failed; 0 ignored\n";
        let sum = cargo_tests(text);
        assert_eq!((sum.passed, sum.failed), (13, 2));
    }
}
