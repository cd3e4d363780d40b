//! Debian's packages.

use std::path::Path;

use crate::shell::{Result, command, output, run as execute, timed};

/// What the tests and the browser need: a program that shows it is there, and the package.
const TOOLS: [(&str, &str); 2] = [("chromium", "chromium"), ("mke2fs", "e2fsprogs")];

/// Whether packages can be installed.
pub(super) fn can_install() -> bool {
    output("id", &["-u"]).as_deref() == Some("0") && Path::new("/usr/bin/apt-get").exists()
}

/// Those of `packages` that are not installed.
pub(super) fn missing<'p>(packages: &[&'p str]) -> Vec<&'p str> {
    let installed = |package: &str| {
        output("dpkg-query", &["-W", "-f=${db:Status-Status}", package]).as_deref() == Some("installed")
    };
    packages
        .iter()
        .copied()
        .filter(|package| !installed(package))
        .collect()
}

pub(super) fn install(packages: &[&str]) -> Result<()> {
    timed(&format!("installing Debian's {}", packages.join(", ")), || {
        execute(&mut command("apt-get", &["update", "-qq"]))?;
        let arguments = [&["install", "-y", "-qq", "--no-install-recommends"], packages].concat();
        execute(command("apt-get", &arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    })
}

/// Installs what the tests need, or asks for it: the page does without.
pub(super) fn tools() -> Result<()> {
    let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    let there = |program: &str| {
        folders
            .iter()
            .any(|folder| Path::new(folder).join(program).exists())
    };
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|(program, _)| !there(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if can_install() {
        return install(&missing);
    }
    println!(
        "• please install with your package manager: {}",
        missing.join(", ")
    );
    println!("  (the browser tests need Chromium, the tests of the image reader need e2fsprogs)");
    Ok(())
}
