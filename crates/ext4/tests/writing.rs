//! Random operations on images of many sorts: e2fsck agrees with every state, and a plain model with what is in it.

mod support {
    pub(crate) mod image;
    pub(crate) mod story;
}

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use ext4::{InodeNumber, ReadAt, Volume, WriteError};
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
            for checksums in ["metadata_csum", "^metadata_csum,uninit_bg", "^metadata_csum,^uninit_bg"] {
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
                        sorts.push(Sort { options, size: "24M", mood, seed, operations });
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
    let file = File::options().write(true).open(image.path()).expect("it is there");
    let block_bytes = u64::from(volume.geometry().block_bytes);
    for block in volume.overlay().changed_blocks() {
        file.write_all_at(&block.to_vec(), block.number().0 * block_bytes).expect("it can be written");
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
    let lost = volume.lookup(&root, b"lost+found").expect("it can be read").expect("it is there");
    let mut model = Model::new(2, &[("lost+found", lost.inode.get())]);
    // It is no more than a directory that is there.
    let id = *model.nodes.keys().last().expect("it was added");
    model.nodes.get_mut(&id).expect("it is there").permissions = 0o700;
    model
}

/// Runs operations on a fresh copy of an image; where it goes wrong, after how many and how.
fn run(sort: &Sort, operations: &[Op], every: usize) -> Result<(), (usize, String)> {
    let image = Image::make(sort.size, &sort.options, |_| ());
    let volume = Volume::open(image.bytes()).map_err(|why| (0, why.to_string()))?;
    let mut model = model_of(&volume);
    let mut worker = Ours { volume: &volume, clock: 1_800_000_000 };
    for (index, op) in operations.iter().enumerate() {
        model.step(op, &mut worker).map_err(|why| (index + 1, format!("{op}: {why}")))?;
        if (index + 1) % every == 0 || index + 1 == operations.len() {
            checked(&image, &volume).map_err(|why| (index + 1, why))?;
        }
    }
    compare(&image.open().filesystem, &model).map_err(|why| (operations.len(), why))
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
    let why = run(sort, &kept, usize::MAX).err().map_or_else(String::new, |(_, why)| why);
    let lines: Vec<String> = kept.iter().map(ToString::to_string).collect();
    format!("mke2fs {} {}\n{}\n{why}", sort.options, sort.size, lines.join("\n"))
}

/// Runs all sorts on all cores.
fn run_all(sorts: &[Sort]) {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(sort) = sorts.get(next.fetch_add(1, Relaxed)) {
                    let operations = sequence(sort.seed, sort.operations, sort.mood);
                    if let Err((end, why)) = run(sort, &operations, CHECKED_EVERY) {
                        let first = format!("{sort:?} after {end} operations: {why}");
                        failures.lock().expect("nobody panics").push((sort.clone(), operations, end, first));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nobody panics");
    let all: usize = sorts.iter().map(|sort| sort.operations).sum();
    println!("{all} operations on {} images, {} of which went wrong", sorts.len(), failures.len());
    if let Some((sort, operations, end, first)) = failures.first() {
        let others: Vec<&str> = failures.iter().map(|(_, _, _, first)| first.as_str()).collect();
        panic!("{first}\nshrunk:\n{}\nall:\n{}", shrunk(sort, operations, *end), others.join("\n"));
    }
}

#[test]
fn e2fsck_agrees_after_random_operations_on_every_sort_of_image() {
    run_all(&matrix(std::env::var("OPS").map_or(1250, |v| v.parse().unwrap())));
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
        assert_eq!(refused, Some(WriteError::Feature(feature.to_owned())), "{options}");
    }
}
