//! Random operations on images of many sorts: e2fsck agrees with every state, and a plain model with what is in it.

mod support {
    pub(crate) mod image;
    pub(crate) mod mutation;
    pub(crate) mod story;
}

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use ext4::{InodeNumber, MemoryInode, NewInode, OrphanRecord, ReadAt, Timestamp, Volume, WriteError};
use support::{
    image::Image,
    story::{Model, Mood, Op, Ours, compare, sequence},
};

/// Operations after which everything is checked.
const CHECKED_EVERY: usize = 300;

/// What an image is like.
#[derive(Clone, Debug)]
struct Sort {
    options: String,
    size: &'static str,
    mood: Mood,
    seed: u64,
    operations: usize,
}

/// The matrix: block size × inode size × checksums × map × journal.
fn matrix(operations: usize) -> Vec<Sort> {
    let mut sorts = Vec::new();
    let mut seed = 0;
    for block in [1024, 2048, 4096] {
        for inode in [128, 256, 512] {
            for checksums in [
                "metadata_csum",
                "^metadata_csum,uninit_bg",
                "^metadata_csum,^uninit_bg",
            ] {
                for map in ["extent", "^extent,^64bit,^flex_bg"] {
                    for journal in ["^has_journal", "has_journal", "has_journal,orphan_file"] {
                        seed += 1;
                        let mood = [Mood::Everyday, Mood::Names, Mood::Data][seed as usize % 3];
                        // Small groups: there are several, some of them never initialised.
                        let group = if block == 1024 { "-g 4096" } else { "-g 2048" };
                        let options = format!(
                            "-t ext4 -b {block} -I {inode} -O {checksums},{map},{journal} {group} -i 4096 \
                             -E lazy_itable_init=1 -J size=4 -U 01234567-89ab-cdef-0123-456789abcdef"
                        );
                        let options = match journal {
                            "^has_journal" => options.replace("-J size=4 ", ""),
                            _ => options,
                        };
                        sorts.push(Sort {
                            options,
                            size: "24M",
                            mood,
                            seed,
                            operations,
                        });
                    }
                }
            }
        }
    }
    sorts
}

/// The image's state, written into its file, and what e2fsck says of it beyond the names of its passes.
fn checked<R: ReadAt>(image: &Image, volume: &Volume<R>) -> Result<(), String> {
    volume.sync();
    let file = File::options()
        .write(true)
        .open(image.path())
        .expect("it is there");
    let block_bytes = u64::from(volume.geometry().block_bytes);
    for block in volume.overlay().changed_blocks() {
        file.write_all_at(&block.to_vec(), block.number().0 * block_bytes)
            .expect("it can be written");
    }
    e2fsck(image)
}

fn e2fsck(image: &Image) -> Result<(), String> {
    let (status, said) = image.tool("e2fsck", "-fn -E no_optimize_extents");
    let usual = |line: &str| {
        line.is_empty()
            || line.starts_with("Pass ")
            || line.starts_with("e2fsck ")
            || line.contains(" files (") && line.ends_with(" blocks")
    };
    let odd: Vec<&str> = said.lines().filter(|line| !usual(line)).collect();
    match status == 0 && odd.is_empty() {
        true => Ok(()),
        false => Err(format!("e2fsck ends with {status}:\n{said}")),
    }
}

fn model_of<R: ReadAt>(volume: &Volume<R>) -> Model {
    let root = volume.inode(InodeNumber::ROOT).expect("there is a root");
    let lost = volume
        .lookup(&root, b"lost+found")
        .expect("it can be read")
        .expect("it is there");
    let mut model = Model::new(2, &[("lost+found", lost.inode.get())]);
    // It is no more than a directory that is there.
    let id = *model.nodes.keys().last().expect("it was added");
    model.nodes.get_mut(&id).expect("it is there").permissions = 0o700;
    model
}

/// Runs operations on a fresh copy of an image: how often they came to an error that the model leaves to the file
/// system, or where it goes wrong, after how many and how.
fn run(sort: &Sort, operations: &[Op], every: usize) -> Result<BTreeMap<String, usize>, (usize, String)> {
    let image = Image::make(sort.size, &sort.options, |_| ());
    let volume = Volume::open(image.bytes()).map_err(|why| (0, why.to_string()))?;
    let mut model = model_of(&volume);
    let mut worker = Ours {
        volume: &volume,
        clock: 1_800_000_000,
    };
    for (index, op) in operations.iter().enumerate() {
        model
            .step(op, &mut worker)
            .map_err(|why| (index + 1, format!("{op}: {why}")))?;
        if (index + 1) % every == 0 || index + 1 == operations.len() {
            checked(&image, &volume).map_err(|why| (index + 1, why))?;
        }
    }
    compare(&image.open().filesystem, &model).map_err(|why| (operations.len(), why))?;
    Ok(model.errors)
}

/// A short sequence that goes wrong too, as a script.
fn shrunk(sort: &Sort, operations: &[Op], end: usize) -> String {
    let mut kept = operations[..end.min(operations.len())].to_vec();
    let mut part = kept.len().div_ceil(2).max(1);
    let mut tries = 0;
    while tries < 150 {
        let mut at = 0;
        let mut shorter = false;
        while at < kept.len() && tries < 150 {
            let mut without = kept.clone();
            without.drain(at..(at + part).min(kept.len()));
            tries += 1;
            if !without.is_empty() && run(sort, &without, usize::MAX).is_err() {
                kept = without;
                shorter = true;
            } else {
                at += part;
            }
        }
        if part == 1 && !shorter {
            break;
        }
        part = (part / 2).max(1);
    }
    let why = run(sort, &kept, usize::MAX)
        .err()
        .map_or_else(String::new, |(_, why)| why);
    let lines: Vec<String> = kept.iter().map(ToString::to_string).collect();
    format!(
        "mke2fs {} {}\n{}\n{why}",
        sort.options,
        sort.size,
        lines.join("\n")
    )
}

/// Runs all sorts on all cores; how often each error came that the model leaves to the file system.
fn run_all(sorts: &[Sort]) -> BTreeMap<String, usize> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let errors = Mutex::new(BTreeMap::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(sort) = sorts.get(next.fetch_add(1, Relaxed)) {
                    let operations = sequence(sort.seed, sort.operations, sort.mood);
                    match run(sort, &operations, CHECKED_EVERY) {
                        Ok(found) => {
                            let mut errors = errors.lock().expect("nobody panics");
                            found
                                .into_iter()
                                .for_each(|(errno, count)| *errors.entry(errno).or_insert(0) += count);
                        }
                        Err((end, why)) => {
                            let first = format!("{sort:?} after {end} operations: {why}");
                            failures.lock().expect("nobody panics").push((
                                sort.clone(),
                                operations,
                                end,
                                first,
                            ));
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nobody panics");
    let all: usize = sorts.iter().map(|sort| sort.operations).sum();
    println!(
        "{all} operations on {} images, {} of which went wrong",
        sorts.len(),
        failures.len()
    );
    if let Some((sort, operations, end, first)) = failures.first() {
        let others: Vec<&str> = failures.iter().map(|(_, _, _, first)| first.as_str()).collect();
        panic!(
            "{first}\nshrunk:\n{}\nall:\n{}",
            shrunk(sort, operations, *end),
            others.join("\n")
        );
    }
    errors.into_inner().expect("nobody panics")
}

#[test]
fn e2fsck_agrees_after_random_operations_on_every_sort_of_image() {
    run_all(&matrix(1250));
}

/// A full disk, no free inodes: what cannot be done leaves nothing half done.
#[test]
fn e2fsck_agrees_when_space_and_inodes_run_out() {
    let mut sorts = Vec::new();
    for (index, options) in [
        "-t ext4 -b 1024 -O ^has_journal -N 64",
        "-t ext4 -b 1024 -O ^has_journal,^extent,^64bit -N 64",
        "-t ext4 -b 1024 -O ^has_journal -N 2000",
        "-t ext2 -b 1024 -N 800",
        "-t ext4 -b 4096 -O ^has_journal,metadata_csum -N 400",
        "-t ext4 -b 2048 -g 512 -O ^has_journal,metadata_csum,^flex_bg -N 512",
    ]
    .into_iter()
    .enumerate()
    {
        for (mood, operations) in [(Mood::Everyday, 3000), (Mood::LongNames, 3000), (Mood::Data, 600)] {
            let seed = 1000 + index as u64 * 3 + mood as u64;
            sorts.push(Sort {
                options: options.to_owned(),
                size: "2M",
                mood,
                seed,
                operations,
            });
        }
    }
    let report = run_all(&sorts);
    assert!(report.contains_key("ENOSPC"), "space does run out: {report:?}");
}

/// Directories with names so long that the index gets its second level, and with `large_dir` its third.
#[test]
fn e2fsck_agrees_with_deep_indexes() {
    for (options, names, levels) in [
        ("-t ext4 -b 1024 -O ^has_journal,^metadata_csum", 3000u32, 1),
        ("-t ext4 -b 1024 -O ^has_journal,metadata_csum,large_dir", 3000, 1),
        (
            "-t ext4 -b 1024 -O ^has_journal,metadata_csum,large_dir",
            60_000,
            2,
        ),
    ] {
        let image = Image::make("64M", options, |_| ());
        let volume = Volume::open(image.bytes()).expect("it can be written");
        let now = Timestamp {
            seconds: 1_800_000_000,
            nanoseconds: 0,
        };
        let new = NewInode {
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            now,
        };
        let root = InodeNumber::ROOT;
        let directory = NewInode {
            mode: 0o040_755,
            ..new
        };
        let directory = volume
            .create(root, b"names", &directory, None)
            .expect("there is room");
        let file = volume.create(root, b"file", &new, None).expect("there is room");
        let name = |number: u32| format!("{number:0>240}").into_bytes();
        for number in 0..names {
            volume
                .link(file, directory, &name(number), now)
                .unwrap_or_else(|why| panic!("{options}: {number}: {why}"));
        }
        let inode = volume.inode(directory).expect("it is there");
        assert_eq!(volume.index_levels(&inode), Ok(Some(levels)), "{options}");
        for number in (0..names).step_by(97) {
            let found = volume.lookup(&inode, &name(number)).expect("it can be read");
            assert_eq!(
                found.map(|found| found.inode),
                Some(file),
                "{options}: name {number}"
            );
        }
        assert!(
            volume
                .lookup(&inode, b"not there")
                .expect("it can be read")
                .is_none()
        );
        checked(&image, &volume).unwrap_or_else(|why| panic!("{options}: {why}"));
        for number in 0..names {
            volume
                .unlink(directory, &name(number), now)
                .unwrap_or_else(|why| panic!("{options}: {number}: {why}"));
        }
        checked(&image, &volume).unwrap_or_else(|why| panic!("{options}: {why}"));
        volume.rmdir(root, b"names", now).expect("it is empty");
        checked(&image, &volume).unwrap_or_else(|why| panic!("{options}: {why}"));
    }
}

/// Files in so many pieces that the tree of their extents, or their indirect blocks, get as deep as they can.
#[test]
fn e2fsck_agrees_with_files_in_many_pieces() {
    for options in [
        "-t ext4 -b 1024 -O ^has_journal,metadata_csum",
        "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^extent,^64bit",
    ] {
        let image = Image::make("64M", options, |_| ());
        let volume = Volume::open(image.bytes()).expect("it can be written");
        let now = Timestamp {
            seconds: 1_800_000_000,
            nanoseconds: 0,
        };
        let new = NewInode {
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            now,
        };
        let file = volume
            .create(InodeNumber::ROOT, b"pieces", &new, None)
            .expect("there is room");
        // Every second block of 80 MB at the most, in an order without order.
        let mut random = support::story::Random::new(7);
        let mut written = BTreeMap::new();
        for piece in 0..20_000u32 {
            let logical = random.below(40_000) * 2;
            let data = piece.to_le_bytes();
            volume
                .write(file, logical * 1024 + 100, &data, now)
                .unwrap_or_else(|why| panic!("{options}: {why}"));
            written.insert(logical, data);
        }
        let check = |written: &BTreeMap<u64, [u8; 4]>| {
            checked(&image, &volume).unwrap_or_else(|why| panic!("{options}: {why}"));
            let filesystem = image.open().filesystem;
            let (inode, _) = filesystem.inode(file).expect("it is there");
            let mapping = filesystem.mapping(file, &inode);
            let content = filesystem.file(file, &inode);
            for (logical, data) in written {
                let mut found = [0; 4];
                content
                    .read_at(logical * 1024 + 100, &mut found)
                    .expect("it can be read");
                assert_eq!(&found, data, "{options}: block {logical}");
            }
            assert_eq!(mapping.runs.len(), written.len(), "{options}");
            mapping.nodes.iter().map(|node| node.depth).max()
        };
        assert_eq!(check(&written), Some(2), "{options}");
        for keep in [61_000u64, 60_999, 30_000, 3000, 300, 30, 0] {
            volume
                .set_file_size(file, keep * 1024, now)
                .expect("it can be cut");
            written.retain(|logical, _| *logical < keep);
            check(&written);
        }
    }
}

/// Files that are open or half cut when the machine dies: what the last commit holds is a file system that e2fsck and
/// we repair alike, by freeing or cutting exactly the orphans of that moment.
#[test]
fn a_crash_leaves_the_last_commit_and_its_orphans() {
    let mut all = 0;
    for (seed, options) in [
        "-t ext4 -b 1024 -J size=1",
        "-t ext4 -b 1024 -J size=1 -O orphan_file",
        "-t ext4 -b 4096 -I 512 -J size=4 -O orphan_file,metadata_csum_seed",
        "-t ext4 -b 4096 -J size=4 -O ^metadata_csum,uninit_bg",
        "-t ext3 -b 1024 -I 128 -J size=1",
    ]
    .into_iter()
    .enumerate()
    {
        for crash in 0..6 {
            all += crash_once(options, seed as u64 * 100 + crash);
        }
    }
    assert!(all > 100, "only {all} orphans");
}

/// A file of the story below.
type Files = BTreeMap<String, (InodeNumber, u64)>;

/// Works, crashes, repairs; how many orphans there were.
fn crash_once(options: &str, seed: u64) -> usize {
    let image = Image::make("24M", options, |_| ());
    let volume = Volume::open(image.bytes()).expect("it can be written");
    let random = &mut support::story::Random::new(seed + 1);
    let now = Timestamp {
        seconds: 1_800_000_000,
        nanoseconds: 0,
    };
    let new = NewInode {
        mode: 0o100_600,
        uid: 0,
        gid: 0,
        now,
    };
    let root = InodeNumber::ROOT;
    let (mut files, mut pending): (Files, Vec<(MemoryInode, OrphanRecord)>) = Default::default();
    volume.mark_orphans_present(true);
    volume.commit();
    let mut committed = (files.clone(), pending.clone());
    for step in 0..400 + random.below(400) {
        let some = |files: &Files, at: u64| {
            let at = usize::try_from(at).expect("small").checked_rem(files.len())?;
            files
                .iter()
                .nth(at)
                .map(|(name, (inode, size))| (name.clone(), *inode, *size))
        };
        let at = random.next() >> 20;
        let busy = |inode: InodeNumber, pending: &[(MemoryInode, OrphanRecord)]| {
            pending.iter().any(|(other, _)| other.number == inode)
        };
        match random.below(10) {
            0..3 => {
                let name = format!("file-{step}");
                let inode = volume
                    .create(root, name.as_bytes(), &new, None)
                    .expect("there is room");
                let bytes = random.below(60_000);
                volume
                    .write(inode, 0, &vec![7; bytes as usize], now)
                    .expect("there is room");
                files.insert(name, (inode, bytes));
            }
            3..6 => {
                let Some((name, inode, _)) = some(&files, at) else {
                    continue;
                };
                if busy(inode, &pending) {
                    continue;
                }
                pending.extend(
                    volume
                        .unlink_only(root, name.as_bytes(), now)
                        .expect("it is there"),
                );
                files.remove(&name);
            }
            6 => {
                let Some((name, inode, size)) = some(&files, at) else {
                    continue;
                };
                if busy(inode, &pending) {
                    continue;
                }
                let cut = random.below(size + 1);
                pending.extend(volume.begin_truncate(inode, cut, now).expect("it is there"));
                files.insert(name, (inode, cut));
            }
            7 | 8 if !pending.is_empty() => {
                let (inode, record) = pending.remove(random.below(pending.len() as u64) as usize);
                // What is in memory may be older than what is on the disk: a neighbour in the list may have changed it.
                let mut inode = volume.inode(inode.number).expect("it is there");
                match inode.raw.i_links_count {
                    0 => volume
                        .evict(&mut inode, Some(record), now)
                        .expect("it can be freed"),
                    _ => volume.finish_truncate(inode, record).expect("it can be cut"),
                }
            }
            9 if random.below(4) == 0 => {
                volume.commit();
                committed = (files.clone(), pending.clone());
            }
            _ => {}
        }
    }
    let crashed = volume.overlay().crash_image();
    let mut bytes = vec![0; crashed.size() as usize];
    crashed.read_at(0, &mut bytes).expect("it can be read");
    image.replace(&bytes);
    let (files, pending) = committed;
    let (status, said) = image.tool("e2fsck", "-fy -E no_optimize_extents");
    assert!(status <= 1, "{options}: {said}");
    for (inode, _) in &pending {
        let verb = if inode.raw.i_links_count == 0 {
            "Clearing"
        } else {
            "Truncating"
        };
        let line = format!("{verb} orphaned inode {} ", inode.number);
        assert!(said.contains(&line), "{options}: no {line:?} in\n{said}");
    }
    assert_eq!(
        said.matches(" orphaned inode ").count(),
        pending.len(),
        "{options}: {said}"
    );
    e2fsck(&image).unwrap_or_else(|why| panic!("{options}: {why}\n{said}"));
    holds(&image, &files);
    // The same by ourselves.
    image.replace(&bytes);
    let mounted = Volume::mount(bytes, now).unwrap_or_else(|why| panic!("{options}: {why}"));
    checked(&image, &mounted).unwrap_or_else(|why| panic!("{options}: {why}"));
    holds(&image, &files);
    pending.len()
}

fn holds(image: &Image, files: &Files) {
    let filesystem = image.open().filesystem;
    let (root, _) = filesystem.inode(InodeNumber::ROOT).expect("there is a root");
    let (entries, _) = filesystem.entries(InodeNumber::ROOT, &root);
    let found: Files = entries
        .iter()
        .filter(|entry| entry.name.starts_with(b"file-"))
        .map(|entry| {
            let number = InodeNumber::new(entry.inode).expect("not 0");
            let (inode, _) = filesystem.inode(number).expect("it can be read");
            (
                String::from_utf8_lossy(&entry.name).into_owned(),
                (number, inode.size),
            )
        })
        .collect();
    assert_eq!(&found, files, "{}", image.options);
}

#[test]
fn features_that_are_not_written_are_refused_by_name() {
    for (options, feature) in [
        ("-t ext4 -O bigalloc", "bigalloc"),
        ("-t ext4 -I 256 -O inline_data", "inline_data"),
        ("-t ext4 -O encrypt", "encrypt"),
        ("-t ext4 -O casefold", "casefold"),
        ("-t ext4 -O quota", "quota"),
        ("-t ext4 -O verity", "verity"),
        ("-t ext4 -O ea_inode", "ea_inode"),
        ("-t ext4 -O quota,project", "quota"),
    ] {
        let image = Image::make("16M", options, |_| ());
        let refused = Volume::open(image.bytes()).err();
        assert_eq!(
            refused,
            Some(WriteError::Feature(feature.to_owned())),
            "{options}"
        );
    }
}

/// What the kernel calls EMLINK, ENAMETOOLONG, ENOTEMPTY and so on, and that nothing has changed then.
#[test]
fn what_cannot_be_is_refused_by_the_kernels_names() {
    let image = Image::make("32M", "-t ext4 -b 1024 -O ^has_journal,metadata_csum", |_| ());
    let volume = Volume::open(image.bytes()).expect("it can be written");
    let now = Timestamp {
        seconds: 1_800_000_000,
        nanoseconds: 0,
    };
    let file = NewInode {
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        now,
    };
    let folder = NewInode {
        mode: 0o040_755,
        ..file
    };
    let root = InodeNumber::ROOT;
    let one = volume.create(root, b"one", &file, None).expect("there is room");
    let sub = volume.create(root, b"sub", &folder, None).expect("there is room");
    let inner = volume
        .create(sub, b"inner", &folder, None)
        .expect("there is room");
    // As many links as there can be, said rather than made.
    let links = |number: InodeNumber, links: u16| {
        let mut inode = volume.inode(number).expect("it is there");
        inode.raw.i_links_count = links;
        volume.write_inode(&mut inode);
    };
    links(one, 65_000);
    links(inner, 65_000);
    volume.sync();
    let before: Vec<_> = volume
        .overlay()
        .changed_blocks()
        .iter()
        .map(|block| block.to_vec())
        .collect();
    let long = [b'n'; 256];
    let target = [b't'; 5000];
    let errno = |result: Result<(), WriteError>| result.err().map(|why| why.errno());
    let made = |result: Result<InodeNumber, WriteError>| errno(result.map(|_| ()));
    assert_eq!(errno(volume.link(one, root, b"more", now)), Some("EMLINK"));
    assert_eq!(made(volume.create(inner, b"deep", &folder, None)), Some("EMLINK"));
    assert_eq!(
        made(volume.create(root, &long, &file, None)),
        Some("ENAMETOOLONG")
    );
    let link = NewInode {
        mode: 0o120_777,
        ..file
    };
    assert_eq!(
        made(volume.create(root, b"far", &link, Some(&target))),
        Some("ENAMETOOLONG")
    );
    assert_eq!(made(volume.create(root, b"a/b", &file, None)), Some("EINVAL"));
    assert_eq!(made(volume.create(root, b"one", &file, None)), Some("EEXIST"));
    assert_eq!(
        made(volume.create(one, b"in a file", &file, None)),
        Some("ENOTDIR")
    );
    assert_eq!(errno(volume.rmdir(root, b"sub", now)), Some("ENOTEMPTY"));
    assert_eq!(errno(volume.rmdir(root, b"one", now)), Some("ENOTDIR"));
    assert_eq!(errno(volume.unlink(root, b"sub", now)), Some("EISDIR"));
    assert_eq!(errno(volume.unlink(root, b"none", now)), Some("ENOENT"));
    assert_eq!(
        errno(volume.rename((root, b"sub"), (inner, b"sub"), now)),
        Some("EINVAL")
    );
    assert_eq!(errno(volume.write(sub, 0, b"x", now).map(|_| ())), Some("EISDIR"));
    assert_eq!(errno(volume.set_file_size(one, 1 << 50, now)), Some("EFBIG"));
    volume.sync();
    let after: Vec<_> = volume
        .overlay()
        .changed_blocks()
        .iter()
        .map(|block| block.to_vec())
        .collect();
    assert!(before == after, "nothing has changed");
}

/// With dir_nlink a hashed directory stops counting: 1 stands for very many, and stays.
#[test]
fn very_many_directories_are_not_counted() {
    let image = Image::make("32M", "-t ext4 -b 1024 -O ^has_journal", |_| ());
    let volume = Volume::open(image.bytes()).expect("it can be written");
    let now = Timestamp {
        seconds: 1_800_000_000,
        nanoseconds: 0,
    };
    let folder = NewInode {
        mode: 0o040_755,
        uid: 0,
        gid: 0,
        now,
    };
    let top = volume
        .create(InodeNumber::ROOT, b"top", &folder, None)
        .expect("there is room");
    let links = || volume.inode(top).expect("it is there").raw.i_links_count;
    // Enough names that it is hashed.
    for number in 0..40 {
        volume
            .create(
                top,
                format!("folder-with-a-long-name-{number}").as_bytes(),
                &folder,
                None,
            )
            .expect("there is room");
    }
    let mut inode = volume.inode(top).expect("it is there");
    assert_eq!(volume.index_levels(&inode), Ok(Some(0)));
    inode.raw.i_links_count = 65_000;
    volume.write_inode(&mut inode);
    volume
        .create(top, b"one more", &folder, None)
        .expect("they are not counted");
    assert_eq!(links(), 1);
    volume
        .create(top, b"and another", &folder, None)
        .expect("they are not counted");
    assert_eq!(links(), 1);
    volume.rmdir(top, b"one more", now).expect("it is empty");
    assert_eq!(links(), 1);
    // e2fsck takes 1 for "not counted".
    checked(&image, &volume).unwrap_or_else(|why| panic!("{why}"));
}

/// Blocks that were set aside but never written: each write makes up to three extents of one.
#[test]
fn writes_into_what_was_only_set_aside_are_exact() {
    for (options, size) in [
        ("-t ext4 -b 1024 -O ^has_journal,metadata_csum", "16M"),
        ("-t ext4 -b 4096 -O ^has_journal", "16M"),
    ] {
        let image = Image::make(size, options, |tree| {
            std::fs::write(tree.join("file"), b"").expect("files can be written");
        });
        image.change(&["fallocate /file 10 700"]);
        e2fsck(&image)
            .or_else(|_| {
                // debugfs leaves the size to be set.
                image.change(&["sif /file size 6000000"]);
                e2fsck(&image)
            })
            .unwrap_or_else(|why| panic!("{options}: {why}"));
        let volume = Volume::open(image.bytes()).expect("it can be written");
        let now = Timestamp {
            seconds: 1_800_000_000,
            nanoseconds: 0,
        };
        let root = volume.inode(InodeNumber::ROOT).expect("it is there");
        let file = volume
            .lookup(&root, b"file")
            .expect("it can be read")
            .expect("it is there")
            .inode;
        let (before, _) = volume.reader().inode(file).expect("it is there");
        let unwritten = volume
            .reader()
            .mapping(file, &before)
            .runs
            .iter()
            .filter(|run| run.unwritten)
            .count();
        assert!(unwritten > 0, "{options}: debugfs sets blocks aside");
        let mut random = support::story::Random::new(5);
        let block = u64::from(volume.geometry().block_bytes);
        let mut model = vec![0u8; (720 * block) as usize];
        for number in 0..400u32 {
            let at = random.below(710 * block);
            let bytes = vec![number as u8 | 1; 1 + random.below(3000) as usize];
            let written = volume.write(file, at, &bytes, now).expect("there is room");
            let from = at as usize;
            model.resize(model.len().max(from + written), 0);
            model[from..from + written].copy_from_slice(&bytes[..written]);
        }
        checked(&image, &volume).unwrap_or_else(|why| panic!("{options}: {why}"));
        let filesystem = image.open().filesystem;
        let (inode, _) = filesystem.inode(file).expect("it is there");
        let mut found = vec![0; inode.size as usize];
        filesystem
            .file(file, &inode)
            .read_at(0, &mut found)
            .expect("it can be read");
        model.resize(found.len(), 0);
        assert!(found == model, "{options}: other bytes");
    }
}

/// Images that nothing can be expected of: every operation comes back, whatever it says, and none panics.
#[test]
fn operations_on_hostile_images_come_back() {
    let images = support::mutation::images();
    let now = Timestamp {
        seconds: 1_800_000_000,
        nanoseconds: 0,
    };
    let new = NewInode {
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        now,
    };
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..600u64 {
        let mut image = images[seed as usize % images.len()].clone();
        support::mutation::mutate(&mut image, &mut support::mutation::Random(seed * 77 + 1));
        let Ok(volume) = Volume::mount(image, now) else {
            refused += 1;
            continue;
        };
        opened += 1;
        let root = InodeNumber::ROOT;
        let directory = NewInode {
            mode: 0o040_755,
            ..new
        };
        let folder = volume.create(root, b"folder", &directory, None).unwrap_or(root);
        for number in 0..40u32 {
            let name = format!("{number}-{}", "n".repeat(200));
            if let Ok(file) = volume.create(folder, name.as_bytes(), &new, None) {
                let _ = volume.write(file, u64::from(number) * 5000, &[1; 3000], now);
                let _ = volume.rename((folder, name.as_bytes()), (root, name.as_bytes()), now);
            }
        }
        for number in 1..60 {
            let file = InodeNumber::new(number).expect("not 0");
            let _ = volume.set_file_size(file, 100, now);
            let _ = volume.write(file, 1 << 20, b"x", now);
            let _ = volume.link(file, root, format!("link-{number}").as_bytes(), now);
        }
        let names: Vec<Vec<u8>> = match volume.reader().inode(root) {
            Ok((inode, _)) => volume
                .reader()
                .entries(root, &inode)
                .0
                .into_iter()
                .map(|entry| entry.name)
                .take(200)
                .collect(),
            Err(_) => Vec::new(),
        };
        for name in &names {
            if volume.unlink(root, name, now).is_err() {
                let _ = volume.rmdir(root, name, now);
            }
        }
        for group in 0..volume.geometry().groups.min(4) {
            let _ = volume.zero_inode_table(ext4::GroupNumber(group));
        }
        volume.commit();
    }
    assert!(opened > 100, "{opened} were opened, {refused} refused");
}
