//! Tricky images after public reports of other readers' faults, built by the scripts of the project's makers where
//! `EXT4LAB_CASES` names the folder that they were built into: each is read, and held against what e2fsck says of it.

mod support {
    pub(crate) mod image;
}

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use ext4::{
    Filesystem, InodeNumber, NativeFile, Opened, Replayed,
    container::{self, Image},
};
use support::image::{at, content, errors_of, replays_differ};

/// Where e2fsck's verdict and ours differ, and why.
const EXPLAINED: &[(&str, &str)] = &[
    ("c27", "a journal without a file system: neither opens it"),
    (
        "c29",
        "orphans wait for the next mount, which e2fsck -n does not do",
    ),
    (
        "c29r",
        "its repair may have been cut short by a closed pipe: as c29 then",
    ),
    (
        "k1r",
        "its repair may have been cut short by a closed pipe: orphans wait then",
    ),
    (
        "k1d",
        "the journal waits for a replay, which e2fsck -n does not do",
    ),
    ("c40", "quota files are not compared with the usage"),
    (
        "c42_desc16",
        "the kernel refuses this size of descriptors, as we do; e2fsck does not look",
    ),
    (
        "c46",
        "the primary superblock is lost: we read by a copy, and say so",
    ),
    ("c52", "a disk with partitions: e2fsck does not look inside"),
    ("c52s", "an Android sparse image: e2fsck does not look inside"),
];

fn folder() -> Option<PathBuf> {
    let folder = env::var_os("EXT4LAB_CASES").map(PathBuf::from);
    if folder.is_none() {
        println!("NOT RUN: EXT4LAB_CASES NAMES NO FOLDER OF BUILT CASES");
    }
    folder
}

fn open(path: &Path) -> Result<Opened<Image>, String> {
    let file = NativeFile::open(path).map_err(|why| why.to_string())?;
    let peeled = container::peel(Arc::new(file)).map_err(|why| why.to_string())?;
    let image = peeled.choose(None).map_err(|why| why.to_string())?;
    Filesystem::open(image).map_err(|why| why.to_string())
}

fn disk(folder: &Path, name: &str) -> Filesystem<Image> {
    let path = folder.join(name).with_extension("img");
    open(&path)
        .unwrap_or_else(|why| panic!("{name}: {why}"))
        .filesystem
}

#[test]
#[ignore = "needs the built cases"]
fn whoever_e2fsck_finds_clean_we_accuse_of_nothing_and_the_others_we_do() {
    let Some(folder) = folder() else { return };
    let mut differ = BTreeMap::new();
    let mut images = 0;
    for entry in folder.read_dir().expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_none_or(|extension| extension != "img") {
            continue;
        }
        let name = path
            .file_stem()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        let checked = Command::new("e2fsck")
            .args(["-fn", "-E", "no_optimize_extents"])
            .arg(&path)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .output()
            .expect("e2fsck (package e2fsprogs) starts");
        let ours = match open(&path) {
            Ok(opened) => errors_of(opened),
            Err(why) => vec![why],
        };
        images += 1;
        if checked.status.success() != ours.is_empty() {
            differ.insert(name, ours);
        }
    }
    assert!(images > 40, "only {images} cases were built");
    let unexplained: Vec<_> = differ
        .iter()
        .filter(|(name, _)| !EXPLAINED.iter().any(|(known, _)| known == name))
        .collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

#[test]
#[ignore = "needs the built cases"]
fn each_report_has_its_right_result() {
    let Some(folder) = folder() else { return };
    let disk = |name| disk(&folder, name);
    // C04: the seed outlives a change of the UUID.
    let c04 = disk("c04");
    assert_eq!(c04.superblock().s_checksum_seed, 0x688c_b585);
    assert_eq!(c04.seed().map(|seed| seed.0), Some(0x688c_b585));
    // C13: extents that were never written read as zeros.
    let un = content(&disk("c13"), "/un");
    assert!(un[..4096].iter().all(|byte| *byte == b'U') && un[4096..].iter().all(|byte| *byte == 0));
    assert_eq!(un.len(), 40_960);
    // C15: deep extent trees.
    let c15 = disk("c15");
    let (number, inode) = at(&c15, "/frag30k").expect("it is there");
    let mapping = c15.mapping(number, &inode);
    assert_eq!(
        mapping.nodes.iter().map(|node| node.depth).max(),
        Some(2),
        "three levels with the root"
    );
    assert_eq!(mapping.runs.len(), 30_000);
    // C21: two levels of index.
    let c21 = disk("c21");
    let levels = [2u32, 12]
        .into_iter()
        .filter_map(InodeNumber::new)
        .filter_map(|number| Some((number, c21.inode(number).ok()?.0)))
        .filter_map(|(number, inode)| c21.directory_index(number, &inode))
        .map(|index| index.levels)
        .max();
    assert_eq!(levels, Some(1));
    // C24: a dirty journal; both views.
    let c24 = disk("c24");
    assert!(content(&c24, "/s40").iter().all(|byte| *byte == b'A'));
    let journal = c24.journal().expect("it has one");
    assert_eq!(journal.transactions.len(), 1);
    let replayed = Replayed::new(c24.image().clone(), &journal);
    let after = Filesystem::open(replayed).expect("it opens").filesystem;
    assert!(content(&after, "/s40").starts_with(b"JOURNALED"));
    // C24b: what was revoked is not applied.
    let c24b = disk("c24b");
    let journal = c24b.journal().expect("it has one");
    let after = Filesystem::open(Replayed::new(c24b.image().clone(), &journal))
        .expect("it opens")
        .filesystem;
    assert!(content(&after, "/s40").iter().all(|byte| *byte == b'A'));
    // C25: old transactions inside a clean journal are not applied.
    assert!(disk("c25").journal().expect("it has one").transactions.is_empty());
    // C29: the list, newest first.
    let (orphans, _) = disk("c29").orphans();
    assert_eq!(
        orphans
            .iter()
            .map(|orphan| orphan.inode.get())
            .collect::<Vec<_>>(),
        [13, 12]
    );
    // C31: times before 1970 and to 2446.
    let c31 = disk("c31");
    let modified = |path| at(&c31, path).expect("it is there").1.modified;
    assert_eq!(modified("/a").seconds, -(1 << 31));
    assert_eq!(modified("/b").seconds, (1 << 31));
    assert_eq!(modified("/c").seconds, 0x7fff_ffff + (3 << 32));
    assert_eq!(
        (modified("/d").seconds, modified("/d").nanoseconds),
        (-1, 999_999_999)
    );
    // C36: copies in the groups that sparse_super2 names.
    let (backups, _) = disk("c36").backups(16);
    assert_eq!(
        backups.iter().map(|backup| backup.block.0).collect::<Vec<_>>(),
        [8193, 57_345]
    );
}

/// K1: after a crash the orphans may be in the journal alone.
#[test]
#[ignore = "needs the built cases"]
fn orphans_that_a_crash_left_are_found_after_the_replay() {
    let Some(folder) = folder() else { return };
    if !folder.join("k1d.img").exists() {
        println!("NOT RUN: K1 NEEDS LOOP MOUNTS WHERE THE CASES ARE BUILT");
        return;
    }
    // Whether they are in the raw file too depends on what the kernel had written back by then.
    let raw = disk(&folder, "k1d");
    let journal = raw.journal().expect("it has one");
    let after = Filesystem::open(Replayed::new(raw.image().clone(), &journal))
        .expect("it opens")
        .filesystem;
    let orphans: Vec<u32> = after
        .orphans()
        .0
        .iter()
        .map(|orphan| orphan.inode.get())
        .collect();
    assert_eq!(orphans, [63, 64]);
}

#[test]
#[ignore = "needs the built cases"]
fn dirty_journals_are_replayed_to_the_bytes_that_debugfs_leaves() {
    let Some(folder) = folder() else { return };
    for name in ["c24", "c24b", "c25", "k1d"] {
        let path = folder.join(name).with_extension("img");
        if name == "k1d" && !path.exists() {
            println!("NOT RUN: K1 NEEDS ROOT AND LOOP MOUNTS");
            continue;
        }
        assert_eq!(replays_differ(&path), [], "{name}");
    }
}
