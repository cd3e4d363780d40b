//! What we read of files, directories and attributes, held against what debugfs reads of the same image.

#[path = "support/image.rs"]
mod image;
#[path = "support/tree.rs"]
mod tree;

use std::{collections::BTreeMap, fs, os::unix::fs::symlink};

use ext4::{
    AclEntry, BlockNumber, FileType, Filesystem, HashVersion, Inode, InodeFlags, InodeNumber, MapNode,
    Mapping, NativeFile, ReadAt, Run,
};
use image::{Image, at, content, host_path, walk};

type Disk = Filesystem<NativeFile>;

/// An image with the tree in it, devices, attributes and unwritten extents; directories hashed.
fn planted(size: &str, options: &str) -> Image {
    let block = options
        .split("-b ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap_or(4096);
    let pieces = if block > 4096 { 90 } else { 700 };
    let image = Image::make(size, options, |folder| tree::plant(folder, block, pieces));
    fs::write(image.beside("value"), tree::noise(600)).expect("files can be written");
    fs::write(image.beside("acl"), acl()).expect("files can be written");
    let mut requests = vec![
        "cd /folder",
        "mknod pipe p",
        "mknod disk b 8 1",
        "mknod terminal c 5 1",
        "mknod far c 300 5",
        "cd /",
        "sif /medium uid 70000",
        "sif /medium gid 80001",
        "sif /medium mode 0104751",
        "ea_set /tiny user.short value",
        "ea_set /folder user.of_a_folder yes",
        "ea_set /tiny trusted.other \"two words\"",
        "ea_set -f acl /tiny system.posix_acl_access",
        "ea_set -f value /medium user.long",
        "ea_set /medium security.selinux label",
        "ea_set /short user.on_a_link 1",
    ];
    // Only extents can be unwritten.
    if image.ask("stat /fragmented").contains("EXTENTS") {
        requests.extend(["fallocate /five_thousand 5 40", "fallocate /hole_at_its_tail 3 9"]);
        requests.push("sif /five_thousand size 40000");
    }
    image.change(&requests);
    let (status, said) = image.tool("e2fsck", "-fyD");
    assert!(status <= 1, "{options}: {said}");
    image
}

/// `user::rw-,user:1000:r--,group::r-x,mask::rwx,other::---` as the system calls have it.
fn acl() -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in ACL {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

const ACL: [(u16, u16, u32); 5] = [
    (0x01, 6, u32::MAX),
    (0x02, 4, 1000),
    (0x04, 5, u32::MAX),
    (0x10, 7, u32::MAX),
    (0x20, 0, u32::MAX),
];

/// Everything that can be asked of an image.
fn agrees(image: &Image) {
    image.is_clean();
    let opened = image.open();
    let disk = &opened.filesystem;
    let found = walk(disk);
    assert!(found.len() > 400, "{}", image.options);
    let mut inodes: BTreeMap<InodeNumber, Inode> = BTreeMap::new();
    inodes.extend(found.iter().map(|(_, number, inode)| (*number, inode.clone())));
    // Those of the file system itself.
    for number in [1, 7, 8, disk.superblock().s_orphan_file_inum] {
        if let Some(number) = InodeNumber::new(number) {
            inodes.insert(number, disk.inode(number).expect("it is there").0);
        }
    }
    let inodes: Vec<_> = inodes.into_iter().collect();
    stats_agree(image, disk, &inodes);
    maps_agree(image, disk, &inodes);
    listings_agree(image, disk, &found);
    contents_agree(image, disk, &found);
    attributes_agree(image, disk, &inodes);
    indexes_agree(image, disk, &inodes);
}

/// Runs of blanks made one.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn about<T>(inodes: &[(InodeNumber, T)], request: &str) -> Vec<String> {
    inodes
        .iter()
        .map(|(number, _)| format!("{request} <{number}>"))
        .collect()
}

fn stats_agree(image: &Image, disk: &Disk, inodes: &[(InodeNumber, Inode)]) {
    for ((number, inode), text) in inodes.iter().zip(image.ask_all(&about(inodes, "stat"))) {
        let squeezed = squeezed(&text);
        let has = |wanted: String| {
            assert!(
                squeezed.contains(&wanted),
                "{}: no {wanted:?} in\n{text}",
                image.options
            );
        };
        let kind = match inode.file_type {
            Some(FileType::Regular) => "regular",
            Some(FileType::Directory) => "directory",
            Some(FileType::Symlink) => "symlink",
            Some(FileType::Character) => "character special",
            Some(FileType::Block) => "block special",
            Some(FileType::Fifo) => "FIFO",
            Some(FileType::Socket) => "socket",
            None => "bad type",
        };
        let raw = &inode.raw;
        has(format!(
            "Type: {kind} Mode: 0{:03o} Flags: {:#x}",
            raw.i_mode & 0o7777,
            inode.flags.0
        ));
        has(format!("User: {} Group: {}", inode.uid, inode.gid));
        has(format!("Size: {}", inode.size));
        has(format!("File ACL: {}", inode.attribute_block));
        has(format!(
            "Links: {} Blockcount: {}",
            raw.i_links_count, inode.blocks
        ));
        match inode.created {
            Some(created) => {
                has(format!(
                    "crtime: 0x{:08x}:{:08x}",
                    raw.i_crtime, raw.i_crtime_extra
                ));
                assert_eq!(created.seconds, i64::from(raw.i_crtime));
                has(format!("mtime: 0x{:08x}:{:08x}", raw.i_mtime, raw.i_mtime_extra));
            }
            None => has(format!("mtime: 0x{:08x} --", raw.i_mtime)),
        }
        if let Some((major, minor)) = inode.device() {
            has(format!("Device major/minor number: {major:02}:{minor:02}"));
        }
        if inode.has_fast_target() {
            let target = disk.target(*number, inode).expect("it lies in the inode");
            let target = String::from_utf8(target).expect("the targets are plain");
            has(format!("Fast link dest: \"{target}\""));
        }
    }
}

/// A row of `ex`: level, first and last block of the file, block on the disk, length, whether unwritten.
type Row = (u16, u64, u64, u64, bool);

fn rows(text: &str) -> (Vec<u16>, Vec<Row>) {
    let (mut depths, mut rows) = (Vec::new(), Vec::new());
    for line in text.lines().skip(1) {
        let unwritten = line.ends_with("Uninit");
        let plain: String = line
            .chars()
            .map(|c| if c.is_ascii_digit() { c } else { ' ' })
            .collect();
        let n: Vec<u64> = plain
            .split_whitespace()
            .map(|n| n.parse().expect("digits"))
            .collect();
        let [level, depth, _, _, first, last, start, ..] = n[..] else {
            continue;
        };
        depths.push(depth as u16);
        rows.push((level as u16, first, last - first + 1, start, unwritten));
    }
    (depths, rows)
}

/// The same rows from what we read. An index ends where the next begins, so that only beginnings are told.
fn our_rows(mapping: &Mapping) -> (u16, Vec<Row>, Vec<Row>) {
    let depth = mapping.nodes.iter().map(|node| node.depth + 1).max().unwrap_or(0);
    let node = |node: &MapNode| {
        (
            depth - node.depth - 1,
            node.logical.into(),
            0,
            node.block.0,
            false,
        )
    };
    let run = |run: &Run| {
        (
            depth,
            run.logical.into(),
            run.blocks.into(),
            run.start.0,
            run.unwritten,
        )
    };
    (
        depth,
        mapping.nodes.iter().map(node).collect(),
        mapping.runs.iter().map(run).collect(),
    )
}

fn maps_agree(image: &Image, disk: &Disk, inodes: &[(InodeNumber, Inode)]) {
    let maps = |(_, inode): &&(InodeNumber, Inode)| disk.maps_blocks(inode) && inode.size > 0;
    let mapped: Vec<_> = inodes.iter().filter(maps).cloned().collect();
    let blocks = image.ask_all(&about(&mapped, "blocks"));
    for ((number, inode), text) in mapped.iter().zip(blocks) {
        let mapping = disk.mapping(*number, inode);
        assert_eq!(mapping.findings, [], "inode {number} of {}", image.options);
        let mut theirs: Vec<u64> = text
            .split_whitespace()
            .map(|n| n.parse().expect("a block"))
            .collect();
        let runs = mapping
            .runs
            .iter()
            .flat_map(|run| run.start.0..run.start.0 + u64::from(run.blocks));
        let mut ours: Vec<u64> = runs
            .chain(mapping.nodes.iter().map(|node| node.block.0))
            .collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "blocks of inode {number} of {}", image.options);
        let file = disk.file(*number, inode);
        let asked: Vec<u32> = mapping
            .runs
            .iter()
            .filter(|run| !run.unwritten)
            .map(|run| run.logical)
            .collect();
        let asked: Vec<u32> = asked.into_iter().step_by(97).collect();
        let requests: Vec<_> = asked
            .iter()
            .map(|block| format!("bmap <{number}> {block}"))
            .collect();
        for (block, theirs) in asked.iter().zip(image.ask_all(&requests)) {
            let ours = file.block_of(*block).expect("it is no hole").to_string();
            assert_eq!(
                ours,
                theirs.trim(),
                "block {block} of inode {number} of {}",
                image.options
            );
        }
    }
    let trees = |(_, inode): &&(InodeNumber, Inode)| inode.flags.has(InodeFlags::EXTENTS);
    let trees: Vec<_> = mapped.iter().filter(trees).cloned().collect();
    for ((number, inode), text) in trees.iter().zip(image.ask_all(&about(&trees, "ex"))) {
        let (depths, rows) = rows(&text);
        let (depth, nodes, runs) = our_rows(&disk.mapping(*number, inode));
        assert!(
            depths.iter().all(|theirs| *theirs == depth),
            "inode {number}: {depth}\n{text}"
        );
        let (leaves, indexes): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.0 == depth);
        assert_eq!(runs, leaves, "inode {number} of {}", image.options);
        let begins = |rows: Vec<Row>| {
            rows.into_iter()
                .map(|row| (row.0, row.1, row.3))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            begins(nodes),
            begins(indexes),
            "inode {number} of {}",
            image.options
        );
    }
}

fn listings_agree(image: &Image, disk: &Disk, found: &[(Vec<u8>, InodeNumber, Inode)]) {
    let folders = found
        .iter()
        .filter(|(_, _, inode)| inode.file_type == Some(FileType::Directory));
    let folders: Vec<_> = folders
        .map(|(_, number, inode)| (*number, inode.clone()))
        .collect();
    for ((number, inode), text) in folders.iter().zip(image.ask_all(&about(&folders, "ls -p"))) {
        let (entries, _) = disk.entries(*number, inode);
        let line = |entry: &ext4::Entry| {
            let child = InodeNumber::new(entry.inode).expect("it is in use");
            let (inode, _) = disk.inode(child).expect("it can be read");
            let size = match inode.file_type {
                Some(FileType::Directory) => String::new(),
                _ => inode.size.to_string(),
            };
            assert_eq!(
                entry.file_type,
                inode.file_type.filter(|_| entry.file_type.is_some())
            );
            let name: String = entry.name.iter().copied().map(char::from).collect();
            let mode = inode.raw.i_mode;
            format!("/{child}/{mode:06o}/{}/{}/{name}/{size}/", inode.uid, inode.gid)
        };
        let ours: Vec<String> = entries.iter().map(line).collect();
        let in_use = |line: &&str| !line.is_empty() && !line.starts_with("/0/");
        let theirs: Vec<&str> = text.lines().filter(in_use).collect();
        assert_eq!(ours, theirs, "directory {number} of {}", image.options);
        for entry in &entries {
            assert_eq!(
                disk.lookup(*number, inode, &entry.name).map(InodeNumber::get),
                Some(entry.inode)
            );
        }
    }
}

fn contents_agree(image: &Image, disk: &Disk, found: &[(Vec<u8>, InodeNumber, Inode)]) {
    let out = image.beside("out");
    fs::create_dir(&out).expect("folders can be made");
    image.ask("rdump / out");
    let mut compared = 0;
    for (path, number, inode) in found {
        let theirs = host_path(&out, path);
        match inode.file_type {
            Some(FileType::Regular) => {
                let file = disk.file(*number, inode);
                let mut ours = vec![0; usize::try_from(file.size()).expect("test files are small")];
                file.read_at(0, &mut ours).expect("it can be read");
                let mut theirs = fs::read(&theirs).expect("debugfs has written it");
                if inode.flags.has(InodeFlags::INLINE_DATA) {
                    // debugfs writes all that there is room for.
                    theirs.truncate(ours.len());
                }
                assert!(
                    ours == theirs,
                    "{} of {}",
                    String::from_utf8_lossy(path),
                    image.options
                );
                // From any place on it is the same.
                for from in [1, 1023, 4095, 65537, ours.len().saturating_sub(7)] {
                    if let Some(part) = theirs.get(from..(from + 5000).min(theirs.len()).max(from)) {
                        let mut ours = vec![1; part.len()];
                        file.read_at(from as u64, &mut ours).expect("it can be read");
                        assert!(ours == part, "from {from} of {}", String::from_utf8_lossy(path));
                    }
                }
                compared += 1;
            }
            Some(FileType::Symlink) => {
                let ours = disk.target(*number, inode).expect("it can be read");
                let theirs = fs::read_link(&theirs).expect("debugfs has made it");
                assert_eq!(theirs.as_os_str().as_encoded_bytes(), ours, "{}", image.options);
                compared += 1;
            }
            _ => {}
        }
    }
    assert!(compared > 400, "only {compared} files of {}", image.options);
    // What debugfs wrote is what was planted, apart from what was appended by `fallocate`.
    for name in ["medium", "fragmented", "hole_at_its_head"] {
        let [ours, theirs] =
            [image.tree(), out.clone()].map(|folder| fs::read(folder.join(name)).expect("it is there"));
        assert!(ours == theirs, "{name} of {}", image.options);
    }
}

fn attributes_agree(image: &Image, disk: &Disk, inodes: &[(InodeNumber, Inode)]) {
    let mut met = 0;
    for ((number, inode), text) in inodes.iter().zip(image.ask_all(&about(inodes, "ea_list"))) {
        let (attributes, findings) = disk.attributes(*number, inode);
        assert_eq!(findings, [], "inode {number} of {}", image.options);
        let names = text
            .lines()
            .skip(1)
            .filter_map(|line| line.trim_start().split(" (").next());
        let mut theirs: Vec<&str> = names.filter(|name| *name != "system.data").collect();
        let mut ours: Vec<_> = attributes
            .iter()
            .map(|attribute| String::from_utf8_lossy(&attribute.name))
            .collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "inode {number} of {}", image.options);
        for attribute in &attributes {
            let name = String::from_utf8_lossy(&attribute.name);
            image.ask(format!("ea_get -r -f got <{number}> {name}"));
            let theirs = fs::read(image.beside("got")).expect("debugfs has written it");
            assert_eq!(
                attribute.value.as_ref(),
                Some(&theirs),
                "{name} of {}",
                image.options
            );
            if let Some(acl) = attribute.acl() {
                let entry = |(tag, permissions, id): (u16, u16, u32)| {
                    let tag = match tag {
                        1 | 2 => "user",
                        4 => "group",
                        0x10 => "mask",
                        _ => "other",
                    };
                    let id = (id != u32::MAX).then_some(id);
                    AclEntry { tag, id, permissions }
                };
                assert_eq!(acl, ACL.map(entry));
            }
            met += 1;
        }
    }
    assert!(met >= 6, "{met} attributes of {}", image.options);
}

fn hash_of(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?.split([',', '-', ' ']).next()?, 16).ok()
}

fn indexes_agree(image: &Image, disk: &Disk, inodes: &[(InodeNumber, Inode)]) {
    let hashed = |(_, inode): &&(InodeNumber, Inode)| inode.flags.has(InodeFlags::INDEX);
    let hashed: Vec<_> = inodes.iter().filter(hashed).cloned().collect();
    let wanted = disk.geometry().block_bytes < 16384;
    assert_eq!(!hashed.is_empty(), wanted, "{}", image.options);
    for ((number, inode), text) in hashed.iter().zip(image.ask_all(&about(&hashed, "htree"))) {
        index_agrees(disk, *number, inode, &text);
    }
}

fn index_agrees(disk: &Disk, number: InodeNumber, inode: &Inode, text: &str) {
    let index = disk.directory_index(number, inode).expect("it has one");
    assert_eq!(index.wrong, []);
    let value = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
    assert_eq!(
        value("Indirect levels: "),
        Some(index.levels.to_string().as_str())
    );
    assert_eq!(
        value("Number of entries (limit): "),
        Some(index.nodes[0].limit.to_string().as_str())
    );
    let root = text
        .lines()
        .skip_while(|line| !line.starts_with("Entry #0"))
        .take_while(|line| !line.is_empty());
    let child = |line: &str| {
        let (_, rest) = line.split_once("Hash ").expect("every entry has a hash");
        let block = rest.split(" block ").nth(1).expect("every entry has a block");
        (
            hash_of(rest).expect("it is a hash"),
            block.trim().parse().expect("it is a number"),
        )
    };
    let theirs: Vec<(u32, u32)> = root.map(child).collect();
    assert_eq!(index.nodes[0].children, theirs);
    // Each name with its hash and minor hash.
    let version = index.version.expect("it is known");
    let (entries, _) = disk.entries(number, inode);
    let seed = disk.superblock().s_hash_seed;
    let mut met = 0;
    for entry in entries
        .iter()
        .filter(|entry| !matches!(entry.name.as_slice(), b"." | b".."))
    {
        let (hash, minor) = version.hash(&entry.name, &seed).expect("it needs no key");
        let length = entry.length;
        let name: String = entry.name.iter().copied().map(char::from).collect();
        let line = format!("{} 0x{hash:08x}-{minor:08x} ({length}) {name} ", entry.inode);
        assert!(text.contains(&line), "no {line:?} in {text}");
        met += 1;
    }
    assert!(met > 100);
}

#[test]
fn block_maps_up_to_triple_indirect_are_as_debugfs_follows_them() {
    for options in [
        "-t ext2 -b 1024 -I 128",
        "-t ext2 -b 2048 -I 256",
        "-t ext2 -b 4096 -I 1024",
        "-t ext3 -b 1024 -I 128 -J size=2",
        "-t ext3 -b 4096 -I 256 -O ^resize_inode",
        "-t ext4 -b 1024 -O ^extent,^64bit",
    ] {
        agrees(&planted("48M", options));
    }
}

#[test]
fn a_block_behind_three_levels_of_pointers_is_found() {
    use std::os::unix::fs::FileExt;
    for options in [
        "-t ext2 -b 1024 -I 128",
        "-t ext4 -b 1024 -O ^extent,^64bit,^has_journal",
    ] {
        let image = Image::make("24M", options, |tree| {
            let file = fs::File::create(tree.join("tall")).expect("files can be made");
            // Direct, indirect, twice and three times indirect blocks.
            for at in [0, 20 << 10, 300 << 10, 68 << 20, 80 << 20] {
                file.write_all_at(format!("at {at}").as_bytes(), at)
                    .expect("files can be written");
            }
        });
        image.is_clean();
        let disk = image.open().filesystem;
        let (number, inode) = at(&disk, "/tall").expect("it is there");
        assert!(
            disk.mapping(number, &inode)
                .nodes
                .iter()
                .any(|node| node.depth == 2)
        );
        maps_agree(&image, &disk, &[(number, inode)]);
        assert!(content(&disk, "/tall") == fs::read(image.tree().join("tall")).expect("it was planted"));
    }
}

#[test]
fn extent_trees_of_all_block_sizes_are_as_debugfs_follows_them() {
    for (size, options) in [
        ("24M", "-t ext4 -b 1024 -J size=1"),
        ("32M", "-t ext4 -b 2048 -O ^has_journal -I 128"),
        ("48M", "-t ext4 -b 4096 -O ^64bit -I 512"),
        ("128M", "-t ext4 -b 65536 -O ^has_journal"),
        ("128M", "-t ext4 -b 65536 -I 1024 -O ^has_journal,^metadata_csum"),
    ] {
        agrees(&planted(size, options));
    }
}

#[test]
fn inodes_of_all_sizes_are_as_debugfs_prints_them() {
    for options in [
        "-t ext4 -b 1024 -I 128 -J size=1 -O ^64bit",
        "-t ext4 -b 1024 -I 256 -J size=1 -O ^metadata_csum,uninit_bg",
        "-t ext4 -b 1024 -I 1024 -J size=1 -O ^metadata_csum",
        "-t ext4 -b 4096 -I 1024 -O metadata_csum_seed -J size=4",
    ] {
        agrees(&planted("40M", options));
    }
}

#[test]
fn data_in_inodes_are_as_debugfs_reads_them() {
    for options in [
        "-t ext4 -b 1024 -I 256 -O inline_data -J size=1",
        "-t ext4 -b 4096 -I 1024 -O inline_data,^has_journal,^metadata_csum",
        "-t ext4 -b 1024 -I 512 -O inline_data,ea_inode,^has_journal",
    ] {
        agrees(&planted("40M", options));
    }
}

#[test]
fn layouts_that_few_use_are_as_debugfs_reads_them() {
    for (size, options) in [
        (
            "48M",
            "-t ext4 -b 4096 -C 65536 -O bigalloc,^resize_inode,^has_journal",
        ),
        (
            "32M",
            "-t ext4 -b 1024 -C 4096 -O bigalloc,^resize_inode,^has_journal",
        ),
        ("96M", "-t ext4 -b 1024 -O meta_bg,^resize_inode -J size=1"),
        (
            "96M",
            "-t ext4 -b 1024 -O meta_bg,^resize_inode,^64bit,^flex_bg -J size=1",
        ),
        (
            "64M",
            "-t ext4 -b 1024 -O sparse_super2,^sparse_super,^resize_inode,^has_journal -E num_backup_sb=2",
        ),
        (
            "64M",
            "-t ext4 -b 1024 -O ^sparse_super,^resize_inode,^flex_bg,^has_journal",
        ),
        ("24M", "-t ext4 -b 1024 -O ea_inode,large_dir,^has_journal"),
        (
            "24M",
            "-t ext4 -b 1024 -O orphan_file,large_dir,mmp,quota,project -J size=1",
        ),
        ("24M", "-t ext4 -b 1024 -O fast_commit -J size=2"),
        ("24M", "-t ext4 -b 1024 -O encrypt,verity,casefold,^has_journal"),
    ] {
        agrees(&planted(size, options));
    }
}

#[test]
fn values_too_long_for_a_block_lie_in_inodes_of_their_own() {
    for options in [
        "-t ext4 -b 1024 -O ea_inode -J size=1",
        "-t ext4 -b 4096 -O ea_inode,^metadata_csum",
    ] {
        let image = Image::make("24M", options, |tree| {
            fs::write(tree.join("file"), "x").expect("it can be written");
        });
        fs::write(image.beside("value"), tree::noise(9_000)).expect("it can be written");
        image.change(&["ea_set -f value /file user.huge", "ea_set /file user.small 1"]);
        // debugfs does not charge the value to the file.
        image.tool("e2fsck", "-fy");
        image.is_clean();
        let disk = image.open().filesystem;
        let (number, inode) = at(&disk, "/file").expect("it is there");
        let (attributes, findings) = disk.attributes(number, &inode);
        assert_eq!(findings, []);
        let huge = attributes
            .iter()
            .find(|attribute| attribute.name == b"user.huge")
            .expect("it is there");
        assert!(
            matches!(huge.place, ext4::AttributePlace::OwnInode(_)),
            "{huge:?}"
        );
        // debugfs takes no more of a value than fits a block.
        let block = disk.geometry().block_bytes as usize;
        assert_eq!(huge.value, Some(tree::noise(block)));
        assert_eq!(attributes.len(), 2);
    }
}

#[test]
fn every_hash_of_every_kind_of_name_is_as_debugfs_computes_it() {
    let image = Image::make("2M", "-t ext4 -b 1024 -O ^has_journal", |_| {});
    let mut names: Vec<Vec<u8>> = (1..=255)
        .step_by(3)
        .map(|length| vec![b'a' + (length % 26) as u8; length])
        .collect();
    names.extend((1..=80).map(|length| {
        (0..length)
            .map(|at| 0x80 | (at * 37 + length) as u8 | 1)
            .collect()
    }));
    names.extend(
        ["Ünïcödé", "日本語のとても長いファイル名がここにあります"].map(|name| name.as_bytes().to_vec()),
    );
    let seed = "fedcba98-7654-3210-fedc-ba9876543210";
    let seed_bytes = [
        0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10,
    ];
    for (word, number) in [
        ("legacy", 0),
        ("half_md4", 1),
        ("tea", 2),
        // debugfs has no words for those with unsigned characters.
        ("3", 3),
        ("4", 4),
        ("5", 5),
    ] {
        let version = HashVersion::of(number, 1).expect("it is known");
        for (seed, bytes) in [(format!("-s {seed} "), seed_bytes), (String::new(), [0; 16])] {
            let request = |name: &Vec<u8>| [format!("dx_hash -h {word} {seed}").as_bytes(), name].concat();
            let requests: Vec<_> = names.iter().map(request).collect();
            for (name, text) in names.iter().zip(image.ask_all(&requests)) {
                let (hash, minor) = version.hash(name, &bytes).expect("it needs no key");
                assert!(
                    text.contains(&format!(" is 0x{hash:08x} (minor 0x{minor:08x})"))
                        || text.contains(&format!(" is {hash:#x} (minor {minor:#x})")),
                    "{word} of {name:?}: {hash:#x} {minor:#x}, but {text}"
                );
            }
        }
    }
}

#[test]
fn hashed_directories_of_each_hash_and_of_two_levels_are_as_debugfs_shows_them() {
    for (hash, count, length) in [
        ("legacy", 400, 30),
        ("half_md4", 400, 30),
        ("tea", 400, 30),
        ("half_md4", 2_000, 200),
    ] {
        let image = Image::make(
            "16M",
            "-t ext4 -b 1024 -O ^has_journal,large_dir -N 4000",
            |tree| {
                fs::create_dir(tree.join("d")).expect("folders can be made");
                for index in 0..count {
                    let name = format!("{index:06}_{}", "é".repeat(length / 2));
                    symlink("x", tree.join("d").join(name)).expect("links can be made");
                }
            },
        );
        image.tool("tune2fs", &format!("-E hash_alg={hash}"));
        image.tool("e2fsck", "-fyD");
        image.is_clean();
        let disk = image.open().filesystem;
        let (number, inode) = at(&disk, "/d").expect("it is there");
        let text = image.ask("htree /d");
        index_agrees(&disk, number, &inode, &text);
        let index = disk.directory_index(number, &inode).expect("it is hashed");
        assert_eq!(index.levels, u8::from(count > 1000));
        // The index leads to the block that a name is in.
        let file = disk.file(number, &inode);
        let (entries, _) = disk.entries(number, &inode);
        for entry in entries.iter().filter(|entry| entry.name.len() > 2) {
            let (hash, _) = index
                .version
                .expect("it is known")
                .hash(&entry.name, &disk.superblock().s_hash_seed)
                .expect("no key");
            let mut node = &index.nodes[0];
            let leaf = loop {
                let (_, block) = ext4::child_of(node, hash).expect("the first child takes the lowest");
                if node.level == 0 {
                    break *block;
                }
                node = index
                    .nodes
                    .iter()
                    .find(|node| node.logical == *block)
                    .expect("it was read");
            };
            let block: BlockNumber = file.block_of(leaf).expect("it is mapped");
            let mut there = false;
            disk.directory(number, &inode, &mut |_, at, found| {
                there |= at == Some(block) && found.entries.iter().any(|other| other.name == entry.name);
                !there
            });
            assert!(there, "{}", String::from_utf8_lossy(&entry.name));
        }
    }
}
