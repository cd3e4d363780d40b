//! File systems that we make, beside those that mke2fs makes with the same options.

mod support {
    pub(crate) mod image;
}

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

use ext4::{
    Compat, Incompat, InodeNumber, NewFilesystem, NewInode, ReadAt, RoCompat, Timestamp, Volume, WriteError,
    Zeros,
};
use support::image::Image;

const UUID: [u8; 16] = [
    1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
];
const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 0,
};

/// Writes what was made into a sparse file.
fn store(volume: &Volume<Zeros>, path: &Path) {
    volume.sync();
    let file = File::create(path).expect("files can be made");
    file.set_len(volume.overlay().size())
        .expect("files can be sparse");
    let block_bytes = u64::from(volume.geometry().block_bytes);
    for block in volume.overlay().changed_blocks() {
        file.write_all_at(&block.to_vec(), block.number().0 * block_bytes)
            .expect("it can be written");
    }
}

fn tool(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .unwrap_or_else(|why| panic!("{name} (package e2fsprogs) does not start: {why}"));
    assert!(output.status.success(), "{name} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What dumpe2fs says, but for what may differ: times, checksums, where the few files lie.
fn dump(path: &Path) -> Vec<String> {
    let said = tool("dumpe2fs", &[path.to_str().expect("plain")]);
    let apart = [
        "created:",
        "write time:",
        "checked:",
        "Checksum:",
        "Hash Seed:",
        "Lifetime writes:",
        "Checksum seed",
    ];
    let mut lines = Vec::new();
    for line in said.lines() {
        if apart.iter().any(|part| line.contains(part)) || line.trim_start().starts_with("Free ") {
            // Totals stay, lists of what is free do not.
            if !(line.starts_with("Free blocks:") || line.starts_with("Free inodes:")) {
                continue;
            }
        }
        let line = line
            .split(" csum 0x")
            .next()
            .unwrap_or(line)
            .trim_end_matches(',');
        lines.push(line.to_owned());
    }
    lines
}

/// Free blocks of groups are compared as a sum: where lost+found and the root lie is not.
fn without_group_counts(lines: &[String]) -> Vec<String> {
    let counts = |line: &str| line.contains(" free blocks, ");
    let kept = lines.iter().map(|line| match counts(line) {
        true => line.split_once(", ").map_or("", |(_, rest)| rest).to_owned(),
        false => line.replace("[INODE_UNINIT, BLOCK_UNINIT", "[INODE_UNINIT"),
    });
    kept.collect()
}

#[test]
fn what_we_make_is_what_mke2fs_makes() {
    let ext4 = |megabytes: u64| NewFilesystem::ext4(megabytes << 20, UUID, NOW);
    let features = |new: NewFilesystem, compat: u32, incompat: u32, ro: u32| NewFilesystem {
        compat: Compat(new.compat.0 ^ compat),
        incompat: Incompat(new.incompat.0 ^ incompat),
        ro_compat: RoCompat(new.ro_compat.0 ^ ro),
        ..new
    };
    let lazy = "-E lazy_itable_init=1,lazy_journal_init=1";
    for (new, options) in [
        (ext4(64), format!("-t ext4 {lazy}")),
        (ext4(1024), format!("-t ext4 {lazy}")),
        (ext4(3000), format!("-t ext4 {lazy}")),
        (ext4(300_000), format!("-t ext4 {lazy}")),
        (
            NewFilesystem {
                block_bytes: 1024,
                ..ext4(100)
            },
            format!("-t ext4 -b 1024 {lazy}"),
        ),
        (
            NewFilesystem {
                block_bytes: 2048,
                inode_bytes: 128,
                ..ext4(200)
            },
            format!("-t ext4 -b 2048 -I 128 {lazy}"),
        ),
        (
            NewFilesystem {
                block_bytes: 1024,
                blocks_per_group: Some(1024),
                inodes: Some(20_480),
                ..ext4(20)
            },
            format!("-t ext4 -b 1024 -g 1024 -N 20480 {lazy}"),
        ),
        (
            NewFilesystem {
                inode_bytes: 1024,
                inodes: Some(9999),
                ..ext4(500)
            },
            format!("-t ext4 -I 1024 -N 9999 {lazy}"),
        ),
        (
            features(ext4(700), Compat::ORPHAN_FILE.0, Incompat::CSUM_SEED.0, 0),
            format!("-t ext4 -O orphan_file,metadata_csum_seed {lazy}"),
        ),
        (
            features(ext4(700), Compat::HAS_JOURNAL.0, 0, 0),
            format!("-t ext4 -O ^has_journal {lazy}"),
        ),
        (
            features(ext4(90), Compat::RESIZE_INODE.0, 0, 0),
            format!("-t ext4 -O ^resize_inode {lazy}"),
        ),
        (
            features(ext4(400), 0, Incompat::FLEX_BG.0, 0),
            format!("-t ext4 -O ^flex_bg {lazy}"),
        ),
        (
            features(ext4(400), 0, 0, RoCompat::METADATA_CSUM.0 | RoCompat::GDT_CSUM.0),
            format!("-t ext4 -O ^metadata_csum,uninit_bg {lazy}"),
        ),
        (NewFilesystem::ext2(50 << 20, UUID, NOW), "-t ext2".to_owned()),
        (
            NewFilesystem {
                block_bytes: 1024,
                inode_bytes: 128,
                ..NewFilesystem::ext2(8 << 20, UUID, NOW)
            },
            "-t ext2 -b 1024 -I 128".to_owned(),
        ),
        (NewFilesystem::ext3(900 << 20, UUID, NOW), "-t ext3".to_owned()),
        (
            NewFilesystem {
                journal_blocks: Some(2048),
                ..NewFilesystem::ext3(200 << 20, UUID, NOW)
            },
            "-t ext3 -J size=8".to_owned(),
        ),
    ] {
        let volume = new.make().unwrap_or_else(|why| panic!("{options}: {why}"));
        let uuid = "-U 01234567-89ab-cdef-0123-456789abcdef -i 16384";
        let uuid = if options.contains("-N ") {
            uuid.replace(" -i 16384", "")
        } else {
            uuid.to_owned()
        };
        let theirs = Image::make(
            &format!("{}k", new.bytes >> 10),
            &format!("{options} {uuid}"),
            |_| (),
        );
        let ours = theirs.beside("ours");
        store(&volume, &ours);
        let said = tool(
            "e2fsck",
            &["-fn", "-E", "no_optimize_extents", ours.to_str().expect("plain")],
        );
        assert!(!said.contains('?'), "{options}: {said}");
        let (a, b) = (
            without_group_counts(&dump(&ours)),
            without_group_counts(&dump(&theirs.path())),
        );
        let first = a.iter().zip(&b).find(|(a, b)| a != b);
        assert_eq!(first, None, "{options}: ours, theirs");
        assert_eq!(a.len(), b.len(), "{options}");
    }
}

#[test]
fn very_large_file_systems_are_made_and_used() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (terabytes, resizable) in [(2u64, true), (15, true)] {
        let mut new = NewFilesystem::ext4(terabytes << 40, UUID, NOW);
        if !resizable {
            new.compat.0 &= !Compat::RESIZE_INODE.0;
        }
        let volume = new.make().unwrap_or_else(|why| panic!("{terabytes} TiB: {why}"));
        let path = folder.path().join("large");
        store(&volume, &path);
        let said = tool(
            "e2fsck",
            &["-fn", "-E", "no_optimize_extents", path.to_str().expect("plain")],
        );
        assert!(!said.contains('?'), "{terabytes} TiB: {said}");
        fs::remove_file(&path).expect("it is there");
    }
    let mut new = NewFilesystem::ext4(64 << 40, UUID, NOW);
    new.compat.0 &= !Compat::RESIZE_INODE.0;
    let volume = new.make().expect("64 TiB fit the overlay");
    let file = NewInode {
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        now: NOW,
    };
    let number = volume
        .create(InodeNumber::ROOT, b"file", &file, None)
        .expect("there is room");
    volume
        .write(number, 1 << 40, b"far out", NOW)
        .expect("there is room");
    volume.sync();
    let opened = ext4::Filesystem::open(volume.overlay().clone()).expect("it is ext4");
    assert_eq!(opened.findings, []);
    let (inode, findings) = opened.filesystem.inode(number).expect("it can be read");
    assert_eq!((findings.len(), inode.size), (0, (1 << 40) + 7));
}

#[test]
fn what_makes_no_file_system_is_refused() {
    let new = NewFilesystem::ext4(64 << 20, UUID, NOW);
    for (odd, why) in [
        (
            NewFilesystem {
                block_bytes: 3000,
                ..new.clone()
            },
            WriteError::Invalid,
        ),
        (
            NewFilesystem {
                inode_bytes: 8192,
                ..new.clone()
            },
            WriteError::Invalid,
        ),
        (
            NewFilesystem {
                bytes: 1000,
                ..new.clone()
            },
            WriteError::Invalid,
        ),
        (
            NewFilesystem {
                blocks_per_group: Some(0),
                ..new.clone()
            },
            WriteError::Invalid,
        ),
        (
            NewFilesystem {
                bytes: 2 << 20,
                inodes: Some(60_000),
                ..new.clone()
            },
            WriteError::NoSpace,
        ),
        (
            NewFilesystem {
                ro_compat: RoCompat(new.ro_compat.0 | RoCompat::BIGALLOC.0),
                ..new.clone()
            },
            WriteError::Feature("bigalloc".to_owned()),
        ),
    ] {
        assert_eq!(odd.make().err(), Some(why), "{odd:?}");
    }
}
