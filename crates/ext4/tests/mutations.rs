//! Small good images, changed at random ten thousand times: whatever is in them, reading ends, without a panic, and
//! without reading more than a bounded number of times what is there.

use std::{
    cell::Cell,
    fs,
    path::Path,
    process::{Command, Stdio},
    rc::Rc,
    time::Instant,
};

use ext4::{
    FileType, Filesystem, GroupNumber, Index, InodeNumber, ReadAt, ReadError, Replayed, Scan, ScanPhase,
};

const MUTATIONS: u32 = 10_000;
/// Bytes that a whole check reads, at most this many times the image's size.
const CHECK_MAX: u64 = 40;
/// Bytes that one question reads, at most this many times the image's size.
const QUESTION_MAX: u64 = 12;

fn run(tool: &str, arguments: &[&str], input: Option<&Path>) {
    let input = match input {
        Some(path) => fs::File::open(path).expect("it is there").into(),
        None => Stdio::null(),
    };
    let output = Command::new(tool)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(input)
        .output();
    output.unwrap_or_else(|error| panic!("{tool} (package e2fsprogs) does not start: {error}"));
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("the path is plain")
}

/// Images of many kinds: maps of both sorts, indexes, attributes, inline data, a dirty journal, an orphan file.
fn images() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("dir/sub")).expect("folders can be made");
    fs::create_dir_all(tree.join("many")).expect("folders can be made");
    for number in 0..60 {
        fs::write(tree.join(format!("many/a-rather-long-name-{number}")), "").expect("files can be written");
    }
    fs::write(tree.join("dir/small"), "small\n").expect("files can be written");
    fs::write(tree.join("dir/medium"), vec![b'm'; 30_000]).expect("files can be written");
    std::os::unix::fs::symlink("dir/small", tree.join("short")).expect("links can be made");
    std::os::unix::fs::symlink("x/".repeat(60), tree.join("long")).expect("links can be made");
    let kinds: [&[&str]; 7] = [
        &["-t", "ext4", "-O", "^has_journal,^resize_inode"],
        &["-t", "ext2", "-O", "^resize_inode"],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,^metadata_csum,uninit_bg,^flex_bg",
        ],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,inline_data,^64bit",
        ],
        &["-t", "ext4", "-O", "^resize_inode,orphan_file", "-J", "size=1"],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,meta_bg,bigalloc",
            "-C",
            "4096",
        ],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,ea_inode,mmp,sparse_super2",
        ],
    ];
    let made = kinds.iter().enumerate().map(|(number, options)| {
        let image = folder.path().join(format!("{number}.img"));
        let size = if options.contains(&"-J") { "2560k" } else { "512k" };
        let fixed = ["-q", "-F", "-b", "1024", "-N", "128", "-d", plain(&tree)];
        run(
            "mke2fs",
            &[&fixed, *options, &[plain(&image), size]].concat(),
            None,
        );
        // With multi-mount protection every tool waits for some seconds first.
        if !options.iter().any(|option| option.contains("mmp")) {
            let request = "ea_set /dir/small user.comment well-kept";
            run("debugfs", &["-w", "-R", request, plain(&image)], None);
            run("e2fsck", &["-fyD", plain(&image)], None);
        }
        if options.contains(&"-J") {
            let script = folder.path().join("script");
            let requests = format!(
                "jo\njw -b 40,41 {}\njw -r 42\njc\n",
                plain(&tree.join("dir/medium"))
            );
            fs::write(&script, requests).expect("files can be written");
            run("debugfs", &["-w", plain(&image)], Some(&script));
        }
        fs::read(&image).expect("mke2fs made it")
    });
    made.collect()
}

/// One stream of numbers for each image and seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Changes an image: bytes, fields set to their extremes, blocks over each other, an early end.
fn mutate(image: &mut Vec<u8>, random: &mut Random) {
    const EXTREMES: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0xffff, 0x1_0000];
    for _ in 0..1 + random.below(4) {
        // Metadata lies at the beginning of such small images, and is hit more often.
        let end = if random.below(3) > 0 {
            image.len() / 4
        } else {
            image.len()
        };
        let at = random.below(end.saturating_sub(1100));
        match random.below(8) {
            0 => image[at] ^= 1 << random.below(8),
            1 => image[at] = random.next() as u8,
            2 => {
                let field = at / 4 * 4;
                let value = EXTREMES[random.below(8)];
                image[field..field + 4].copy_from_slice(&value.to_le_bytes());
            }
            3 => {
                // A field of the superblock or of a descriptor.
                let field = 1024 + random.below(1024 + 512) / 4 * 4;
                let value = EXTREMES[random.below(8)];
                image[field..field + 4].copy_from_slice(&value.to_le_bytes());
            }
            4 => {
                // A small number, as block and inode numbers are here.
                let field = at / 4 * 4;
                let value = random.below(600) as u32;
                image[field..field + 4].copy_from_slice(&value.to_le_bytes());
            }
            5 => {
                let (from, to) = (random.below(image.len() / 1024), at / 1024);
                image.copy_within(from * 1024..(from + 1) * 1024, to * 1024);
            }
            6 => {
                let block = at / 1024 * 1024;
                image[block..block + 1024].fill(random.next() as u8);
            }
            _ if random.below(20) == 0 => image.truncate(2048 + at),
            _ => image[at + 1] ^= 0xff,
        }
    }
}

/// Storage that counts what is read of it.
#[derive(Clone)]
struct Counted {
    bytes: Rc<Vec<u8>>,
    read: Rc<Cell<u64>>,
}

impl ReadAt for Counted {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.read.set(self.read.get() + buffer.len() as u64);
        self.bytes.as_slice().read_at(offset, buffer)
    }
}

/// An image under test, with what was read of it up to now.
struct Patient {
    number: u32,
    storage: Counted,
    most: Cell<u64>,
}

impl Patient {
    /// Asks something, and holds what is read for it against a bound.
    fn ask<T>(&self, what: &str, times_max: u64, act: impl FnOnce() -> T) -> T {
        let before = self.storage.read.get();
        let begun = Instant::now();
        let answer = act();
        let size = self.storage.size().max(128 << 10);
        let times = (self.storage.read.get() - before) / size;
        assert!(
            times <= times_max && begun.elapsed().as_secs() < 5,
            "mutation {}: {what} reads the image {times} times, in {:?}",
            self.number,
            begun.elapsed()
        );
        self.most.set(self.most.get().max(times));
        answer
    }

    fn question<T>(&self, what: &str, act: impl FnOnce() -> T) {
        self.ask(what, QUESTION_MAX, act);
    }

    /// Asks everything that can be asked.
    fn look_through<R: ReadAt>(&self, filesystem: &Filesystem<R>, index: &Index) {
        let geometry = filesystem.geometry();
        self.question("backups", || filesystem.backups(20));
        self.question("orphans", || filesystem.orphans());
        self.question("multi-mount", || filesystem.multi_mount());
        for group in (0..geometry.groups.min(8)).map(GroupNumber) {
            self.question("bitmap", || filesystem.block_bitmap(group));
            self.question("metadata", || filesystem.metadata_near(group));
            self.question("slots", || filesystem.slots(group, 0, 4));
        }
        self.question("path", || filesystem.find(b"/dir/../long/x"));
        for number in (1..=geometry.inodes.min(90)).filter_map(InodeNumber::new) {
            let Ok((inode, _)) = filesystem.inode(number) else {
                continue;
            };
            self.question("attributes", || filesystem.attributes(number, &inode));
            if inode.file_type == Some(FileType::Directory) {
                self.question("entries", || filesystem.entries(number, &inode));
                self.question("index", || filesystem.directory_index(number, &inode));
            }
            self.question("target", || filesystem.target(number, &inode));
            self.question("content", || {
                let file = filesystem.file(number, &inode);
                let mut part = vec![0; file.size().min(4096) as usize];
                file.read_at(0, &mut part)
            });
            self.question("name", || index.path(filesystem, number));
        }
        for block in (0..20).map(|block| ext4::BlockNumber(block * 31)) {
            self.question("owner", || index.owner(filesystem, block));
        }
    }

    /// Opens and reads the image, as it lies there and as after a replay.
    fn read(&self) {
        let Ok(opened) = self.ask("opening", QUESTION_MAX, || Filesystem::open(self.storage.clone())) else {
            return;
        };
        let filesystem = opened.filesystem;
        let mut scan = Scan::new(opened.findings);
        self.ask("the check", CHECK_MAX, || {
            while scan.phase() != ScanPhase::Done {
                scan.step(&filesystem);
            }
        });
        self.look_through(&filesystem, scan.index());
        if let Ok(journal) = self.ask("journal", QUESTION_MAX, || filesystem.journal()) {
            let replayed = Replayed::new(self.storage.clone(), &journal);
            self.question("replay", || replayed.differing());
            if let Ok(opened) = Filesystem::open(&replayed) {
                self.look_through(&opened.filesystem, &Index::default());
            }
        }
    }
}

#[test]
fn ten_thousand_changed_images_are_read_to_their_end() {
    let images = images();
    let begun = Instant::now();
    let mut most = 0;
    for number in 0..MUTATIONS {
        let original = &images[number as usize % images.len()];
        let mut image = original.clone();
        let mut random = Random(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        mutate(&mut image, &mut random);
        let patient = Patient {
            number,
            storage: Counted {
                bytes: Rc::new(image),
                read: Rc::default(),
            },
            most: Cell::default(),
        };
        patient.read();
        most = most.max(patient.most.get());
    }
    println!(
        "{MUTATIONS} changed images in {:?}; nothing read an image more than {most} times",
        begun.elapsed()
    );
}
