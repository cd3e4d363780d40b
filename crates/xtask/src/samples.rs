//! The sample images: made by mke2fs from a tree that is the same every time, without root.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::shell::{Result, command, root, run as execute};

/// The samples: name, size, and what mke2fs is told.
const SAMPLES: [(&str, &str, &[&str]); 2] = [
    (
        "everyday",
        "64M",
        &[
            "-t", "ext4", "-b", "4096", "-I", "256", "-g", "2048", "-N", "8192", "-L", "everyday", "-J",
            "size=4", "-O",
        ],
    ),
    (
        "classic",
        "24M",
        &[
            "-t", "ext3", "-b", "1024", "-I", "128", "-N", "4096", "-L", "classic", "-J", "size=1", "-O",
        ],
    ),
];
const FEATURES: [&str; 2] = [
    "64bit,metadata_csum,orphan_file,flex_bg,extent,^resize_inode",
    "dir_index,filetype",
];

/// Makes all of them anew in `assets/`.
pub(crate) fn run() -> Result<()> {
    let work = env::temp_dir().join(format!("ext4lab-samples-{}", std::process::id()));
    let made = make(&work);
    // The folder is ours alone; what is left of it does no harm.
    let _ = fs::remove_dir_all(&work);
    made
}

fn make(work: &Path) -> Result<()> {
    let tree = work.join("tree");
    plant(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    for ((name, size, options), features) in SAMPLES.into_iter().zip(FEATURES) {
        let image = work.join(format!("{name}.img"));
        let mut mke2fs = command("mke2fs", &["-q", "-F"]);
        mke2fs.args(options).arg(features);
        mke2fs
            .args(["-U", "e4f1ab00-0000-4000-8000-00000000cafe", "-d"])
            .arg(&tree);
        mke2fs.args([
            "-E",
            "lazy_itable_init=1,hash_seed=e4f1ab00-0000-4000-8000-00000000beef",
        ]);
        mke2fs
            .arg(&image)
            .arg(size)
            .env("E2FSPROGS_FAKE_TIME", "1700000000")
            .env("PATH", with_sbin());
        execute(&mut mke2fs)?;
        execute(command("e2fsck", &["-fn"]).arg(&image).env("PATH", with_sbin()))?;
        execute(command("gzip", &["-9n"]).arg(&image))?;
        let packed = PathBuf::from(format!("{}.gz", image.display()));
        let target = root().join("assets").join(format!("{name}.img.gz"));
        fs::copy(&packed, &target).map_err(|error| format!("{}: {error}", target.display()))?;
        println!(
            "{}: {} bytes",
            target.display(),
            fs::metadata(&target).map(|file| file.len()).unwrap_or_default()
        );
    }
    Ok(())
}

fn with_sbin() -> String {
    format!("/usr/sbin:/sbin:{}", env::var("PATH").unwrap_or_default())
}

/// A home folder: documents, source, mail and pictures, some thousand small files.
fn plant(tree: &Path) -> std::io::Result<()> {
    for (folder, count) in [
        ("documents/letters", 240),
        ("documents/notes", 180),
        ("source/src", 320),
        ("source/tests", 160),
    ] {
        many(tree, folder, count, 40)?;
    }
    for year in 2019..2024 {
        many(tree, &format!("pictures/{year}"), 60, 600)?;
    }
    for folder in ["inbox", "sent", "lists", "drafts"] {
        many(tree, &format!("mail/{folder}"), 150, 90)?;
    }
    fs::write(tree.join("documents/a-file-with-a-hole"), "begins")?;
    let hole = fs::OpenOptions::new()
        .write(true)
        .open(tree.join("documents/a-file-with-a-hole"))?;
    hole.set_len(3 << 20)?;
    fs::write(
        tree.join("source/big.log"),
        "the same line again and again\n".repeat(40_000),
    )?;
    symlink("documents/letters/0007.txt", tree.join("latest"))?;
    symlink("../pictures/2021", tree.join("documents/holidays"))?;
    fs::write(
        tree.join("readme.txt"),
        "A sample image of ext4lab.\nNothing here is anybody's.\n",
    )
}

fn many(tree: &Path, folder: &str, count: u32, bytes: usize) -> std::io::Result<()> {
    fs::create_dir_all(tree.join(folder))?;
    for number in 0..count {
        let text = format!("{folder} {number}\n").repeat(bytes.div_ceil(folder.len()));
        fs::write(tree.join(folder).join(format!("{number:04}.txt")), text)?;
    }
    Ok(())
}
