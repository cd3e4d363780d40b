//! Small good images, changed at random ten thousand times: whatever is in them, reading ends, without a panic, and
//! without reading more than a bounded number of times what is there.

mod support {
    pub(crate) mod mutation;
}

use std::{cell::Cell, rc::Rc, time::Instant};

use ext4::{
    FileType, Filesystem, GroupNumber, Index, InodeNumber, ReadAt, ReadError, Replayed, Scan, ScanPhase,
};

use support::mutation::{Random, images, mutate};

const MUTATIONS: u32 = 10_000;
/// Bytes that a whole check reads, at most this many times the image's size.
const CHECK_MAX: u64 = 40;
/// Bytes that one question reads, at most this many times the image's size.
const QUESTION_MAX: u64 = 12;

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
