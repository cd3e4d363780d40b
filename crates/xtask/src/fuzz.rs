//! Fuzzing the reader for a bounded time, from images of many kinds.

use std::{fs, path::Path};

use crate::{
    setup,
    shell::{Result, command, output, root, run as execute, timed},
};

const CARGO_FUZZ: &str = "0.13.1";
/// Larger ones are slow, and hold nothing that smaller ones do not.
const IMAGE_BYTES_MAX: u32 = 640 * 1024;
/// What seeds are made with, beyond `mke2fs -b 1024`.
const KINDS: [(&str, &str); 6] = [
    ("ext2", "^resize_inode"),
    ("ext4", "^has_journal,^resize_inode"),
    ("ext4", "^has_journal,^resize_inode,inline_data,^metadata_csum"),
    ("ext4", "^has_journal,^resize_inode,meta_bg,bigalloc"),
    (
        "ext4",
        "^has_journal,^resize_inode,uninit_bg,^metadata_csum,^64bit",
    ),
    (
        "ext4",
        "^has_journal,^resize_inode,ea_inode,sparse_super2,large_dir",
    ),
];

/// Fuzzes for so many seconds; fails where something is found.
pub(crate) fn run(seconds: &str) -> Result<()> {
    let seconds: u32 = seconds
        .parse()
        .map_err(|_| format!("{seconds:?} is no number of seconds"))?;
    setup::run()?;
    if output("cargo", &["fuzz", "--version"]).is_none_or(|version| !version.ends_with(CARGO_FUZZ)) {
        timed("installing cargo-fuzz, about a minute", || {
            setup::cargo_install(&["cargo-fuzz", "--version", CARGO_FUZZ, "--locked", "--force"])
        })?;
    }
    let corpus = root().join("target/fuzz-corpus");
    seeds(&corpus)?;
    let corpus = corpus.to_string_lossy().into_owned();
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-max_len={IMAGE_BYTES_MAX}"),
        "-timeout=10".to_owned(),
        "-rss_limit_mb=1024".to_owned(),
    ];
    // There is no unsafe code to watch over; without a sanitizer it is several times faster.
    let target = [
        "fuzz",
        "run",
        "--fuzz-dir",
        "crates/ext4/fuzz",
        "-s",
        "none",
        "scan",
        &corpus,
        "--",
    ];
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    // The instrumentation is asked for by flags that stable Rust hides.
    execute(command("cargo", &[&target, limits.as_slice()].concat()).env("RUSTC_BOOTSTRAP", "1"))
}

/// Good images to begin from; what earlier runs found stays.
fn seeds(corpus: &Path) -> Result<()> {
    let tree = corpus.with_file_name("fuzz-tree");
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    for folder in [corpus, &tree.join("dir")] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    write(&tree.join("hello"), "hello\n")?;
    for number in 0..20 {
        write(
            &tree.join(format!("dir/a-rather-long-name-{number}")),
            &"x".repeat(number * 50),
        )?;
    }
    for (number, (kind, features)) in KINDS.iter().enumerate() {
        let image = corpus.join(format!("seed-{number}.img"));
        let (image, tree) = (image.to_string_lossy(), tree.to_string_lossy());
        let options = [
            "-q", "-F", "-b", "1024", "-N", "96", "-t", kind, "-O", features, "-d",
        ];
        execute(&mut command(
            "mke2fs",
            &[&options, [&*tree, &*image, "600k"].as_slice()].concat(),
        ))?;
    }
    Ok(())
}
