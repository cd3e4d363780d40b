//! Figures side by side in one run, as ratios: the machine is shared and noisy.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    build, setup,
    shell::{Result, command, output, root, run as execute, timed},
    test::loop_mounts,
};

/// Each program runs so often, in turns; the medians are compared.
const ROUNDS: usize = 7;
/// Memory that a scan may take.
const SCAN_KIB_MAX: u32 = 64 * 1024;

/// Two images that cost time to make; they are kept for the next run.
struct Images {
    /// 4 GiB with 240,000 files in 240 directories.
    many: PathBuf,
    /// 2 TiB, sparse, as mkfs leaves it.
    large: PathBuf,
}

/// The command line against e2fsprogs, the machine, then the page in a browser.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let images = images()?;
    native(&images)?;
    writing()?;
    machine()?;
    build::page(build::Threads::Needed)?;
    let mut playwright = command("npx", &["playwright", "test", "--config", "bench.config.mjs"]);
    playwright
        .env("EXT4LAB_BENCH_MANY", &images.many)
        .env("EXT4LAB_BENCH_LARGE", &images.large);
    execute(playwright.current_dir(root().join("web")))
}

fn images() -> Result<Images> {
    let folder = root().join("target/bench");
    let images = Images {
        many: folder.join("many.img"),
        large: folder.join("large.img"),
    };
    if images.many.exists() && images.large.exists() {
        return Ok(images);
    }
    timed("making the images to measure with", || {
        let tree = folder.join("tree");
        for directory in 0..240 {
            let directory = tree.join(format!("directory-{directory}"));
            fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            for file in 0..1000 {
                let file = directory.join(format!("file-{file:04}"));
                fs::write(&file, "").map_err(|error| format!("{}: {error}", file.display()))?;
            }
        }
        let made = ["-q", "-F", "-t", "ext4", "-N", "300000", "-d", text(&tree)?];
        execute(&mut command(
            "mke2fs",
            &[&made, [text(&images.many)?, "4G"].as_slice()].concat(),
        ))?;
        fs::remove_dir_all(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;
        let lazy = "lazy_itable_init=1,lazy_journal_init=1";
        execute(&mut command(
            "mke2fs",
            &["-q", "-F", "-t", "ext4", "-E", lazy, text(&images.large)?, "2T"],
        ))
    })?;
    Ok(images)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| format!("{} is no plain path", path.display()))
}

fn native(images: &Images) -> Result<()> {
    execute(&mut command(
        "cargo",
        &["build", "--quiet", "--release", "-p", "cli"],
    ))?;
    let program = root().join("target/release/ext4lab");
    let program = text(&program)?;
    let (many, large) = (text(&images.many)?, text(&images.large)?);
    compare(
        "scan of 4 GiB with 240,000 files over e2fsck -fn",
        &[program, "scan", many],
        &["e2fsck", "-fn", many],
        1.0,
    )?;
    compare(
        "info on 2 TiB over dumpe2fs",
        &[program, "info", large],
        &["dumpe2fs", large],
        0.5,
    )?;
    let made = root().join("target/bench/made.img");
    let again = "rm -f \"$1\"; exec \"$0\" mkfs \"$1\" 2T";
    let lazy = "rm -f \"$0\"; exec mke2fs -q -F -t ext4 -E lazy_itable_init=1,lazy_journal_init=1 \"$0\" 2T";
    compare(
        "mkfs of 2 TiB over mke2fs",
        &["sh", "-c", again, program, text(&made)?],
        &["sh", "-c", lazy, text(&made)?],
        1.0,
    )?;
    fs::remove_file(&made).map_err(|error| format!("{}: {error}", made.display()))?;
    // The shell's limit is on addresses, of which memory is a part.
    let limited = format!("ulimit -v {SCAN_KIB_MAX} && exec \"$0\" scan \"$1\"");
    match output("sh", &["-c", &limited, program, many]) {
        Some(_) => println!("scan of 4 GiB: fits into {SCAN_KIB_MAX} KiB"),
        None => return Err(format!("a scan of 4 GiB does not fit into {SCAN_KIB_MAX} KiB")),
    }
    Ok(())
}

/// Pairs of create and unlink in directories of 10,000 files, by us in memory and by the kernel on a loop mount.
fn writing() -> Result<()> {
    const PAIR_ROUNDS: usize = 3;
    if !loop_mounts() {
        println!("create and unlink beside the kernel: NOT RUN: no loop mounts here (needs root)");
        return Ok(());
    }
    let example = [
        "build",
        "--quiet",
        "--release",
        "-p",
        "ext4",
        "--example",
        "create_unlink",
    ];
    execute(&mut command("cargo", &example))?;
    let program = root().join("target/release/examples/create_unlink");
    let (image, mount) = (
        root().join("target/bench/pairs.img"),
        root().join("target/bench/pairs"),
    );
    fs::create_dir_all(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..PAIR_ROUNDS {
        let made = [
            "-q",
            "-F",
            "-t",
            "ext4",
            "-I",
            "256",
            "-O",
            "metadata_csum",
            "-N",
            "100000",
            text(&image)?,
            "512M",
        ];
        execute(&mut command("mke2fs", &made))?;
        ours.push(rate(&[text(&program)?, "image", text(&image)?])?);
        execute(&mut command(
            "mount",
            &["-o", "loop", text(&image)?, text(&mount)?],
        ))?;
        let rate = rate(&[text(&program)?, "folder", text(&mount)?]);
        execute(&mut command("umount", &[text(&mount)?]))?;
        theirs.push(rate?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "create and unlink: {ours:.0} / {theirs:.0} pairs a second of the kernel's = {:.2} (wanted: at least 0.5)",
        ours / theirs
    );
    Ok(())
}

/// The number that a program prints.
fn rate(words: &[&str]) -> Result<f64> {
    let (program, arguments) = words.split_first().ok_or("there is no program to run")?;
    let said = output(program, arguments).ok_or_else(|| format!("`{}` failed", words.join(" ")))?;
    said.trim()
        .parse()
        .map_err(|_| format!("`{}` prints {said}", words.join(" ")))
}

/// Events per second of virtual time: wanted are 15 million with the trace off, and half of that at least with it on.
fn machine() -> Result<()> {
    let example = ["--quiet", "--release", "-p", "machine", "--example", "events"];
    execute(&mut command("cargo", &[["build"].as_slice(), &example].concat()))?;
    for arguments in [
        ["1", "20000000", "off"],
        ["32", "20000000", "off"],
        ["32", "20000000", "on"],
        ["1024", "20000000", "off"],
    ] {
        execute(&mut command(
            text(&root().join("target/release/examples/events"))?,
            &arguments,
        ))?;
    }
    Ok(())
}

/// Runs two programs in turns, and prints the ratio of their medians.
fn compare(what: &str, ours: &[&str], theirs: &[&str], wanted: f64) -> Result<()> {
    let (mut our_seconds, mut their_seconds) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_seconds.push(seconds(ours)?);
        their_seconds.push(seconds(theirs)?);
    }
    let (ours, theirs) = (median(our_seconds), median(their_seconds));
    println!(
        "{what}: {ours:.3} s / {theirs:.3} s = {:.2} (wanted: at most {wanted})",
        ours / theirs
    );
    Ok(())
}

fn seconds(words: &[&str]) -> Result<f64> {
    let (program, arguments) = words.split_first().ok_or("there is no program to run")?;
    let begun = Instant::now();
    output(program, arguments).ok_or_else(|| format!("`{}` failed", words.join(" ")))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
