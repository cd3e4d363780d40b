//! Rust for wasm: the toolchain that rustup pins or, where rustup can fetch nothing, Debian's.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::debian;
use crate::{
    shell::{Result, command, output, root, run as execute, timed},
    toolchain::{self, DEBIAN_BIN, DEBIAN_WASM},
};

const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's Rust is new enough only under these names. The linker is the one that rust-web-llvm's `rust-lld` means.
const PACKAGES: [&str; 5] = [
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "rust-web-llvm",
    "lld-22",
];

/// What there is.
#[derive(Clone, Debug)]
struct Found {
    /// A compiler starts here.
    compiler: bool,
    /// It has std for wasm, for the page.
    wasm: bool,
    /// It has the source of std, for the threaded engine.
    source: bool,
    rustup: Rustup,
    /// Packages can be installed: this is Debian, and we are root.
    root_on_debian: bool,
    /// Those of [`PACKAGES`] that are not installed.
    missing_packages: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rustup {
    Absent,
    /// It is there, and was not asked yet.
    Untried,
    /// It was asked, and what was missing is missing still.
    InVain,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    UseWhatIsThere,
    FetchByRustup,
    InstallPackages(Vec<&'static str>),
    UsePackages,
    /// Nothing that we may do helps: say what is missing.
    Ask,
}

/// What to do next. Every step that fetches ends the state that asked for it, so this comes to an end.
fn next(found: &Found) -> Step {
    if found.compiler && found.wasm && found.source {
        return Step::UseWhatIsThere;
    }
    // All five are only there where an earlier set-up fell back on them: rustup is not made to fail once more.
    if found.missing_packages.is_empty() {
        return Step::UsePackages;
    }
    match found.rustup {
        Rustup::Untried => Step::FetchByRustup,
        _ if found.root_on_debian => Step::InstallPackages(found.missing_packages.clone()),
        _ => Step::Ask,
    }
}

/// Sees to the target of the page, and to the source of std for the threaded engine.
pub(super) fn run() -> Result<()> {
    let mut rustup = match output("rustup", &["--version"]) {
        Some(_) => Rustup::Untried,
        None => Rustup::Absent,
    };
    let mut may_install = true;
    loop {
        let found = look(rustup, may_install);
        match next(&found) {
            Step::UseWhatIsThere => return Ok(()),
            Step::FetchByRustup => {
                rustup = Rustup::InVain;
                if let Err(why) = fetch(&found) {
                    println!("• rustup could not fetch it: {why}");
                }
            }
            Step::InstallPackages(packages) => {
                may_install = false;
                if let Err(why) = debian::install(&packages) {
                    println!("• Debian's Rust could not be installed: {why}");
                }
            }
            Step::UsePackages => {
                toolchain::use_debian();
                print_fallback();
                return Ok(());
            }
            Step::Ask => return Err(ask(&found)),
        }
    }
}

fn look(rustup: Rustup, may_install: bool) -> Found {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let sysroot = output(&rustc, &["--print", "sysroot"]);
    let has = |path: &Path| {
        sysroot
            .as_ref()
            .is_some_and(|sysroot| Path::new(sysroot).join("lib/rustlib").join(path).exists())
    };
    let wasm = has(&Path::new(TARGET).join("lib"));
    let source = has(Path::new("src/rust/library/std"));
    let complete = wasm && source;
    Found {
        compiler: sysroot.is_some(),
        wasm,
        source,
        rustup,
        root_on_debian: may_install && debian::can_install(),
        // Asking for them takes a moment, and mostly nobody needs to know.
        missing_packages: match complete {
            true => PACKAGES.to_vec(),
            false => debian::missing(&PACKAGES),
        },
    }
}

fn fetch(found: &Found) -> Result<()> {
    if !found.compiler {
        let channel = pinned()?;
        timed(&format!("installing Rust {channel}"), || {
            let arguments = ["toolchain", "install", &channel, "--profile", "minimal"];
            execute(&mut command("rustup", &arguments))
        })?;
    }
    for (there, kind, name) in [
        (found.wasm, "target", TARGET),
        (found.source, "component", "rust-src"),
    ] {
        if !there {
            timed(&format!("adding the Rust {kind} {name}"), || {
                execute(&mut command("rustup", &[kind, "add", name]))
            })?;
        }
    }
    Ok(())
}

/// The version in `rust-toolchain.toml`.
fn pinned() -> Result<String> {
    let file = "rust-toolchain.toml";
    let text = fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'))
        .map(str::to_owned)
        .ok_or_else(|| format!("{file} names no channel"))
}

fn print_fallback() {
    let compiler = PathBuf::from(DEBIAN_BIN).join("rustc");
    let version = output(&compiler.to_string_lossy(), &["--version"]).unwrap_or_default();
    println!("• using Debian's {version}, not the pinned Rust: rustup could not provide that");
    let variables = DEBIAN_WASM.map(|(name, value)| format!("{name}={value}"));
    println!(
        "  a bare `trunk serve` then needs PATH={DEBIAN_BIN}:$PATH {}",
        variables.join(" ")
    );
}

/// What is missing, and how to get it.
fn ask(found: &Found) -> String {
    let missing: Vec<&str> = [
        (found.compiler, "a Rust compiler that starts"),
        (found.wasm, "std for wasm32-unknown-unknown"),
        (found.source, "the source of std (rust-src)"),
    ]
    .into_iter()
    .filter_map(|(there, name)| (!there).then_some(name))
    .collect();
    let rustup = match found.rustup {
        Rustup::Absent => "install rustup from https://rustup.rs and start this again",
        _ => "let rustup reach https://static.rust-lang.org and start this again",
    };
    format!(
        "Rust lacks {}\n  either {rustup}\n  or, on Debian as root, apt-get install {}",
        missing.join(", "),
        PACKAGES.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine where a compiler starts, but has nothing for wasm.
    fn bare(rustup: Rustup, root_on_debian: bool) -> Found {
        Found {
            compiler: true,
            wasm: false,
            source: false,
            rustup,
            root_on_debian,
            missing_packages: PACKAGES.to_vec(),
        }
    }

    #[test]
    fn a_complete_toolchain_is_used_whatever_else_there_is() {
        for rustup in [Rustup::Absent, Rustup::Untried, Rustup::InVain] {
            let found = Found {
                wasm: true,
                source: true,
                missing_packages: Vec::new(),
                ..bare(rustup, true)
            };
            assert_eq!(next(&found), Step::UseWhatIsThere);
        }
    }

    #[test]
    fn rustup_is_asked_before_debian_whichever_part_is_missing() {
        for (compiler, wasm, source) in [
            (false, false, false),
            (true, false, true),
            (true, true, false),
            (true, false, false),
        ] {
            let found = Found {
                compiler,
                wasm,
                source,
                ..bare(Rustup::Untried, true)
            };
            assert_eq!(next(&found), Step::FetchByRustup);
        }
    }

    #[test]
    fn debian_fills_in_where_rustup_is_absent_or_fetches_nothing() {
        for rustup in [Rustup::Absent, Rustup::InVain] {
            let found = Found {
                missing_packages: vec!["lld-22"],
                ..bare(rustup, true)
            };
            assert_eq!(next(&found), Step::InstallPackages(vec!["lld-22"]));
        }
    }

    #[test]
    fn a_fallback_once_made_is_kept_without_root_and_without_asking_rustup() {
        for rustup in [Rustup::Absent, Rustup::Untried, Rustup::InVain] {
            let found = Found {
                missing_packages: Vec::new(),
                ..bare(rustup, false)
            };
            assert_eq!(next(&found), Step::UsePackages);
        }
    }

    #[test]
    fn elsewhere_the_missing_parts_are_named_and_how_to_get_them() {
        let found = Found {
            wasm: true,
            ..bare(Rustup::Absent, false)
        };
        assert_eq!(next(&found), Step::Ask);
        let text = ask(&found);
        assert!(text.contains("rust-src") && text.contains("rustup.rs"), "{text}");
        assert!(!text.contains("std for wasm32"), "{text}");
        let text = ask(&bare(Rustup::InVain, false));
        assert!(text.contains("std for wasm32-unknown-unknown"), "{text}");
        assert!(text.contains("static.rust-lang.org"), "{text}");
    }
}
