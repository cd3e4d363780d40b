//! What we read of images that mke2fs makes, held against what dumpe2fs and debugfs say of them.

use std::{fs, path::PathBuf, process::Command};

use ext4::{
    Blocks, Filesystem, GroupFlags, GroupNumber, InodeNumber, NativeFile, Overlay, Severity, SlotState,
    feature_names,
};
use tempfile::TempDir;

/// Runs a tool; its output, whatever its status.
fn run(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output();
    let output = output.unwrap_or_else(|error| panic!("{tool} (package e2fsprogs) does not start: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct Image {
    _folder: TempDir,
    path: PathBuf,
}

impl Image {
    fn make(size: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (path, tree) = (folder.path().join("image"), folder.path().join("tree"));
        fs::create_dir_all(tree.join("dir/sub")).expect("folders can be made");
        fs::write(tree.join("hello"), "hello\n").expect("files can be written");
        fs::write(tree.join("dir/big"), vec![7; 300_000]).expect("files can be written");
        std::os::unix::fs::symlink("../hello", tree.join("dir/link")).expect("links can be made");
        let mut arguments = vec!["-q", "-F", "-d", tree.to_str().expect("the path is plain")];
        arguments.extend(options);
        arguments.extend([path.to_str().expect("the path is plain"), size]);
        run("mke2fs", &arguments);
        assert!(path.exists(), "mke2fs made nothing with {options:?}");
        Self {
            _folder: folder,
            path,
        }
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("the path is plain")
    }

    fn open(&self) -> Filesystem<NativeFile> {
        let opened =
            Filesystem::open(NativeFile::open(&self.path).expect("it is there")).expect("it is ext4");
        assert_eq!(opened.findings, [], "{}", self.path());
        opened.filesystem
    }

    fn debugfs(&self, request: &str) -> String {
        run("debugfs", &["-R", request, self.path()])
    }
}

/// The value behind `name:` in dumpe2fs's list.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// Every combination that mke2fs takes of block size, inode size and features.
fn matrix() -> Vec<Vec<&'static str>> {
    let mut all = Vec::new();
    for block in ["1024", "2048", "4096", "65536"] {
        for inode in ["128", "256", "512"] {
            for features in [
                "^64bit,metadata_csum,^metadata_csum_seed",
                "64bit,metadata_csum,metadata_csum_seed,orphan_file",
                "^64bit,^metadata_csum,uninit_bg",
                "^64bit,^metadata_csum,^uninit_bg,^extent,^flex_bg",
            ] {
                all.push(vec![
                    "-t",
                    "ext4",
                    "-b",
                    block,
                    "-I",
                    inode,
                    "-O",
                    features,
                    "-E",
                    "lazy_itable_init=1",
                ]);
            }
        }
    }
    all.push(vec!["-t", "ext2", "-r", "0", "-b", "1024", "-I", "128"]);
    all.push(vec!["-t", "ext3", "-b", "1024", "-I", "128"]);
    all.push(vec!["-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"]);
    all.push(vec![
        "-t",
        "ext4",
        "-O",
        "bigalloc,^resize_inode",
        "-C",
        "65536",
        "-b",
        "4096",
    ]);
    all
}

#[test]
fn superblock_and_groups_are_as_dumpe2fs_prints_them() {
    for options in matrix() {
        let image = Image::make("96M", &options);
        let filesystem = image.open();
        let (text, s, geometry) = (
            run("dumpe2fs", &[image.path()]),
            filesystem.superblock(),
            filesystem.geometry(),
        );
        for (name, ours) in [
            ("Inode count", u64::from(s.s_inodes_count)),
            ("Block count", s.blocks_count()),
            ("Free blocks", s.free_blocks_count()),
            ("Free inodes", u64::from(s.s_free_inodes_count)),
            ("First block", u64::from(s.s_first_data_block)),
            ("Block size", u64::from(geometry.block_bytes)),
            ("Blocks per group", u64::from(geometry.blocks_per_group)),
            ("Inodes per group", u64::from(geometry.inodes_per_group)),
            (
                "Inode blocks per group",
                u64::from(geometry.table_blocks_per_group()),
            ),
            ("Inode size", u64::from(geometry.inode_bytes)),
            ("First inode", u64::from(s.first_inode())),
        ] {
            if let Some(theirs) = value(&text, name) {
                assert_eq!(theirs, ours.to_string(), "{name} with {options:?}");
            } else {
                assert!(
                    s.s_rev_level == 0,
                    "dumpe2fs does not print {name} with {options:?}"
                );
            }
        }
        if s.s_rev_level > 0 {
            let features = value(&text, "Filesystem features").expect("dumpe2fs prints features");
            assert_eq!(features, feature_names(s).join(" "), "{options:?}");
        }
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("Group ") && line.contains(": (Blocks"))
                .count(),
            geometry.groups as usize
        );
        for group in 0..geometry.groups {
            check_group(&filesystem, GroupNumber(group), &text, &options);
        }
    }
}

fn check_group(filesystem: &Filesystem<NativeFile>, number: GroupNumber, text: &str, options: &[&str]) {
    let (group, findings) = filesystem.group(number).expect("the descriptor is there");
    assert_eq!(findings, [], "group {number} with {options:?}");
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with(&format!("Group {number}:")));
    let head = lines.next().expect("dumpe2fs prints every group");
    let body: Vec<&str> = lines
        .take_while(|line| !line.starts_with("Group "))
        .map(str::trim)
        .collect();
    for (flag, name) in [
        (GroupFlags::INODE_UNINIT, "INODE_UNINIT"),
        (GroupFlags::BLOCK_UNINIT, "BLOCK_UNINIT"),
        (GroupFlags::INODE_ZEROED, "ITABLE_ZEROED"),
    ] {
        assert_eq!(
            group.flags.has(flag),
            head.contains(name),
            "{head} with {options:?}"
        );
    }
    for (name, block) in [
        ("Block bitmap at ", group.block_bitmap),
        ("Inode bitmap at ", group.inode_bitmap),
        ("Inode table at ", group.inode_table),
    ] {
        let found = body
            .iter()
            .find_map(|line| line.split(name).nth(1))
            .unwrap_or_else(|| panic!("no {name:?} of group {number} with {options:?} in {body:?}"));
        let theirs: String = found.chars().take_while(char::is_ascii_digit).collect();
        assert_eq!(
            theirs,
            block.to_string(),
            "{name} of group {number} with {options:?}"
        );
    }
    let counts = body
        .iter()
        .find(|line| line.contains("free inodes"))
        .expect("dumpe2fs prints the counts");
    let per_cluster = filesystem.geometry().blocks_per_cluster;
    let unit = if per_cluster > 1 { "clusters" } else { "blocks" };
    let mut ours = format!(
        "{} free {unit}, {} free inodes, {} directories",
        group.free_blocks, group.free_inodes, group.directories
    );
    if group.unused_inodes > 0 {
        ours += &format!(", {} unused inodes", group.unused_inodes);
    }
    assert_eq!(
        counts.trim_end_matches(' '),
        ours,
        "group {number} with {options:?}"
    );
}

#[test]
fn inodes_are_as_debugfs_stat_prints_them() {
    for options in matrix() {
        let image = Image::make("64M", &options);
        let filesystem = image.open();
        for path in ["/", "/hello", "/dir", "/dir/big", "/dir/link", "<7>", "<8>"] {
            let text = image.debugfs(&format!("stat {path}"));
            let Some(number) = text
                .strip_prefix("Inode: ")
                .and_then(|rest| rest.split_whitespace().next())
            else {
                continue;
            };
            let number = InodeNumber::new(number.parse().expect("a number")).expect("not 0");
            let (inode, findings) = filesystem.inode(number).expect("it is there");
            assert_eq!(findings, [], "inode {number} with {options:?}");
            let has = |wanted: String| {
                assert!(
                    squeezed(&text).contains(&wanted),
                    "{path}: no {wanted:?} in\n{text}\nwith {options:?}"
                );
            };
            has(format!("Mode: {:04o}", inode.raw.i_mode & 0o7777));
            has(format!("Flags: {:#x}", inode.flags.0));
            has(format!("Generation: {}", inode.raw.i_generation));
            has(format!("User: {} Group: {}", inode.uid, inode.gid));
            has(format!("Size: {}", inode.size));
            has(format!(
                "Links: {} Blockcount: {}",
                inode.raw.i_links_count, inode.blocks
            ));
            let raw = &inode.raw;
            if inode.created.is_some() {
                has(format!("ctime: 0x{:08x}:{:08x}", raw.i_ctime, raw.i_ctime_extra));
                has(format!(
                    "crtime: 0x{:08x}:{:08x}",
                    raw.i_crtime, raw.i_crtime_extra
                ));
                has(format!("Size of extra inode fields: {}", raw.i_extra_isize));
            } else {
                has(format!("ctime: 0x{:08x}", raw.i_ctime));
            }
        }
    }
}

/// Runs of blanks made one.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn slots_are_free_used_or_never_initialised_as_debugfs_says() {
    let image = Image::make(
        "64M",
        &[
            "-t",
            "ext4",
            "-b",
            "4096",
            "-g",
            "4096",
            "-E",
            "lazy_itable_init=1",
        ],
    );
    let filesystem = image.open();
    let geometry = *filesystem.geometry();
    let mut used = 0;
    for group in 0..geometry.groups {
        let slots = filesystem.slots(GroupNumber(group), 0, geometry.table_blocks_per_group());
        assert_eq!(slots.len(), geometry.inodes_per_group as usize);
        used += slots
            .iter()
            .filter(|slot| matches!(slot, SlotState::Used(_) | SlotState::Reserved))
            .count();
        let (descriptor, _) = filesystem.group(GroupNumber(group)).expect("it is there");
        let unused = slots
            .iter()
            .filter(|slot| **slot == SlotState::NeverInitialised)
            .count();
        let wanted = match descriptor.flags.has(GroupFlags::INODE_UNINIT) {
            true => geometry.inodes_per_group,
            false => descriptor.unused_inodes,
        };
        assert_eq!(unused, wanted as usize, "group {group}");
    }
    let free = filesystem.superblock().s_free_inodes_count;
    assert_eq!(used, (geometry.inodes - free) as usize);
    assert!(image.debugfs("testi <2>").contains("marked in use"));
}

#[test]
fn hostile_superblocks_are_refused_with_field_and_value() {
    let image = Image::make("8M", &["-t", "ext4", "-b", "1024"]);
    let good = fs::read(&image.path).expect("it can be read");
    for (offset, bytes, field) in [
        (0x18, &[0xff; 4][..], "s_log_block_size"),
        (0x20, &[0; 4], "s_blocks_per_group"),
        (0x28, &[0; 4], "s_inodes_per_group"),
        (0x58, &[0; 2], "s_inode_size"),
        (0x58, &[100, 0], "s_inode_size"),
        (0x14, &[0xff; 4], "s_first_data_block"),
        (0xfe, &[16, 0], "s_desc_size"),
        (0x00, &[0xff; 4], "s_inodes_count"),
        (0x150, &[0xff; 4], "s_blocks_count"),
    ] {
        let mut bad = good.clone();
        bad[1024 + offset..][..bytes.len()].copy_from_slice(bytes);
        let error = Filesystem::open(bad).err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|error| error.contains(field)),
            "{field}: {error:?}"
        );
    }
}

#[test]
fn a_group_that_was_never_used_but_lacks_free_inodes_is_an_error_to_us_and_to_e2fsck() {
    let options = [
        "-t",
        "ext4",
        "-b",
        "1024",
        "-O",
        "^metadata_csum,uninit_bg,^64bit",
    ];
    let image = Image::make("64M", &options);
    let mut bad = fs::read(&image.path).expect("it can be read");
    // Group 2 of 32-byte descriptors in block 2: the high byte of bg_free_inodes_count_lo.
    let at = 2 * 1024 + 2 * 32 + 0x0f;
    bad[at] = bad[at].wrapping_sub(1);
    fs::write(&image.path, &bad).expect("it can be written");
    let filesystem = Filesystem::open(bad).expect("the superblock is good").filesystem;
    let (group, findings) = filesystem.group(GroupNumber(2)).expect("it is there");
    assert!(group.flags.has(GroupFlags::INODE_UNINIT));
    let fields: Vec<_> = findings.iter().filter_map(|finding| finding.field).collect();
    assert_eq!(fields, ["bg_checksum", "bg_free_inodes_count"]);
    assert!(run("e2fsck", &["-fn", image.path()]).contains("Group descriptor 2"));
}

#[test]
fn flipped_bytes_are_findings_and_never_a_panic() {
    let image = Image::make("2M", &["-t", "ext4", "-b", "1024", "-N", "128"]);
    let good = fs::read(&image.path).expect("it can be read");
    let mut random = 1u64;
    let mut next = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).expect("31 bits") % below
    };
    let mut with_findings = 0;
    for _ in 0..2_000 {
        let mut bad = good.clone();
        for _ in 0..1 + next(8) {
            let at = if next(2) == 0 {
                1024 + next(2048)
            } else {
                next(200 * 1024)
            };
            bad[at] = next(256) as u8;
        }
        bad.truncate(if next(4) == 0 {
            1024 + next(good.len() - 1024)
        } else {
            good.len()
        });
        let Ok(opened) = Filesystem::open(bad) else {
            continue;
        };
        let mut findings = opened.findings;
        let filesystem = opened.filesystem;
        for group in 0..filesystem.geometry().groups.min(4) {
            if let Ok((_, more)) = filesystem.group(GroupNumber(group)) {
                findings.extend(more);
            }
            filesystem.slots(GroupNumber(group), 0, 64);
        }
        for number in 1..=64 {
            if let Ok((_, more)) = filesystem.inode(InodeNumber::new(number).expect("not 0")) {
                findings.extend(more);
            }
        }
        with_findings += u32::from(findings.iter().any(|finding| finding.severity == Severity::Error));
        let overlay = Overlay::new(filesystem.image(), filesystem.geometry());
        let _ = overlay.get(ext4::BlockNumber(u64::MAX));
    }
    assert!(
        with_findings > 200,
        "only {with_findings} of 2000 mutations were noticed"
    );
}
