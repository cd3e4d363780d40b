//! Images inside other files: what is read through the wrapping is what was put in.

use std::{fs, path::Path, process::Command, sync::Arc};

use ext4::{
    Filesystem, NativeFile, ReadAt, Scan,
    container::{ContainerError, Image, Peeled, peel},
};
use tempfile::TempDir;

fn run(folder: &Path, tool: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(folder)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .unwrap_or_else(|error| panic!("{tool} does not start: {error}"));
    assert!(output.status.success(), "{tool} {arguments:?}: {output:?}");
    output.stdout
}

/// A folder with `image`, an ext4 of 8 MiB that holds /hello.
fn made() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    fs::create_dir(folder.path().join("tree")).expect("folders can be made");
    fs::write(folder.path().join("tree/hello"), "hello\n".repeat(3000)).expect("files can be written");
    run(
        folder.path(),
        "mke2fs",
        &["-q", "-t", "ext4", "-F", "-d", "tree", "image", "8M"],
    );
    folder
}

fn bytes(folder: &TempDir) -> Vec<u8> {
    fs::read(folder.path().join("image")).expect("it is there")
}

fn open(folder: &TempDir, name: &str) -> Peeled {
    let file = NativeFile::open(folder.path().join(name)).expect("it is there");
    peel(Arc::new(file)).expect("it can be peeled")
}

fn all(image: &Image) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(image.size()).expect("it is small")];
    image.read_at(0, &mut bytes).expect("it can be read");
    bytes
}

/// Reads /hello and checks the whole.
fn is_whole(image: Image) {
    let opened = Filesystem::open(image).expect("it is ext4");
    let filesystem = &opened.filesystem;
    let number = filesystem.find(b"/hello").expect("it is there");
    let (inode, _) = filesystem.inode(number).expect("it can be read");
    let file = filesystem.file(number, &inode);
    let mut content = vec![0; 18_000];
    file.read_at(0, &mut content).expect("it can be read");
    assert_eq!(content, "hello\n".repeat(3000).into_bytes());
    let report = Scan::run(filesystem, opened.findings);
    assert_eq!((report.errors, report.warnings), (0, 0), "{:?}", report.findings);
}

#[test]
fn a_gzip_file_reads_as_what_was_packed() {
    let folder = made();
    run(folder.path(), "gzip", &["-k", "image"]);
    let peeled = open(&folder, "image.gz");
    assert_eq!(peeled.layers, ["a gzip file"]);
    assert_eq!(all(&peeled.image), bytes(&folder));
    is_whole(peeled.choose(None).expect("there is one"));
}

#[test]
fn a_gzip_file_that_ends_early_shows_its_beginning() {
    let folder = made();
    run(folder.path(), "gzip", &["-k", "image"]);
    let packed = fs::read(folder.path().join("image.gz")).expect("it is there");
    fs::write(folder.path().join("cut.gz"), &packed[..packed.len() / 2]).expect("files can be written");
    let peeled = open(&folder, "cut.gz");
    assert_eq!(peeled.layers, ["a gzip file that ends early"]);
    let whole = bytes(&folder);
    let part = all(&peeled.image);
    assert!(!part.is_empty() && part.len() < whole.len() && whole.starts_with(&part));
}

#[test]
fn what_e2image_writes_holds_the_metadata() {
    let folder = made();
    run(folder.path(), "e2image", &["-Q", "image", "dump.qcow2"]);
    let peeled = open(&folder, "dump.qcow2");
    assert_eq!(peeled.layers, ["a QCOW2 image"]);
    let opened = Filesystem::open(peeled.image).expect("it is ext4");
    let report = Scan::run(&opened.filesystem, opened.findings);
    assert_eq!(report.errors, 0, "{:?}", report.findings);
    assert!(opened.filesystem.find(b"/hello").is_ok());
}

#[test]
fn qcow2_images_of_both_versions_plain_and_compressed_read_as_their_disk() {
    let folder = made();
    if Command::new("qemu-img").arg("--version").output().is_err() {
        println!("NOT RUN: QEMU-IMG IS NOT INSTALLED");
        return;
    }
    for options in [
        ["-o", "compat=0.10", "-q"].as_slice(),
        &["-o", "compat=1.1", "-q"],
        &["-c", "-o", "compat=1.1"],
        &["-c", "-o", "compat=1.1,cluster_size=4096"],
    ] {
        let arguments = [&["convert", "-O", "qcow2"], options, &["image", "disk.qcow2"]].concat();
        run(folder.path(), "qemu-img", &arguments);
        let peeled = open(&folder, "disk.qcow2");
        assert!(all(&peeled.image) == bytes(&folder), "{options:?}");
    }
}

#[test]
fn a_layer_over_another_file_is_refused_with_the_reason() {
    let mut header = vec![0; 1 << 16];
    header[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    header[8..16].copy_from_slice(&0x200u64.to_be_bytes());
    header[20..24].copy_from_slice(&16u32.to_be_bytes());
    let why = peel(Arc::new(header)).err().expect("it cannot be read");
    assert!(why.to_string().contains("backing file"), "{why}");
}

#[test]
fn android_sparse_images_read_as_what_they_stand_for() {
    let folder = made();
    let raw = bytes(&folder);
    let mut sparse = Vec::new();
    let blocks = u32::try_from(raw.len() / 4096).expect("it is small");
    for number in [0xed26_ff3au32, 1, 28 | 12 << 16, 4096, blocks, blocks, 0] {
        sparse.extend(number.to_le_bytes());
    }
    for block in raw.chunks(4096) {
        let word: [u8; 4] = block[..4].try_into().expect("four bytes");
        let filled = block.chunks(4).all(|part| part == word);
        let (kind, data): (u16, &[u8]) = match filled {
            true if word == [0; 4] => (0xcac3, &[]),
            true => (0xcac2, &word),
            false => (0xcac1, block),
        };
        sparse.extend(u32::from(kind).to_le_bytes());
        sparse.extend(1u32.to_le_bytes());
        sparse.extend((12 + data.len() as u32).to_le_bytes());
        sparse.extend(data);
    }
    let peeled = peel(Arc::new(sparse)).expect("it can be peeled");
    assert_eq!(peeled.layers, ["an Android sparse image"]);
    assert!(all(&peeled.image) == raw);
    is_whole(peeled.choose(None).expect("there is one"));
}

fn mbr_entry(kind: u8, start: u32, sectors: u32) -> Vec<u8> {
    let mut entry = vec![0, 0, 0, 0, kind, 0, 0, 0];
    entry.extend(start.to_le_bytes());
    entry.extend(sectors.to_le_bytes());
    entry
}

fn mbr(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut sector = vec![0; 446];
    sector.extend(entries.concat());
    sector.resize(510, 0);
    sector.extend([0x55, 0xaa]);
    sector
}

#[test]
fn a_disk_with_an_mbr_offers_its_partitions_logical_ones_too() {
    let folder = made();
    let raw = bytes(&folder);
    let sectors = u32::try_from(raw.len() / 512).expect("it is small");
    let mut disk = mbr(&[
        mbr_entry(0x0c, 64, 64),
        mbr_entry(0x05, 2048, sectors + 64),
        mbr_entry(0x82, 256, 8),
    ]);
    disk.resize(2048 * 512, 0);
    disk.extend(mbr(&[mbr_entry(0x83, 64, sectors)]));
    disk.resize((2048 + 64) * 512, 0);
    disk.extend(&raw);
    let peeled = peel(Arc::new(disk)).expect("it can be peeled");
    let list: Vec<_> = peeled
        .partitions
        .iter()
        .map(|partition| (partition.number, partition.kind.as_str(), partition.is_ext))
        .collect();
    assert_eq!(
        list,
        [(1, "FAT32", false), (3, "Linux swap", false), (5, "Linux", true)]
    );
    is_whole(peeled.choose(None).expect("the one with ext4"));
    is_whole(peeled.choose(Some(5)).expect("it is there"));
    let missing = peeled.choose(Some(9)).err();
    assert_eq!(missing, Some(ContainerError::NoSuchPartition(9)));
}

#[test]
fn a_disk_with_a_gpt_offers_its_partitions_by_name_packed_or_not() {
    let folder = made();
    let raw = bytes(&folder);
    let mut disk = vec![0; 2048 * 512];
    disk[..512].copy_from_slice(&mbr(&[mbr_entry(0xee, 1, u32::MAX)]));
    let header = &mut disk[512..1024];
    header[..8].copy_from_slice(b"EFI PART");
    header[72..80].copy_from_slice(&2u64.to_le_bytes());
    header[80..84].copy_from_slice(&128u32.to_le_bytes());
    header[84..88].copy_from_slice(&128u32.to_le_bytes());
    let entry = &mut disk[1024 + 128..1024 + 256];
    entry[..4].copy_from_slice(&0x0fc6_3dafu32.to_le_bytes());
    entry[32..40].copy_from_slice(&2048u64.to_le_bytes());
    entry[40..48].copy_from_slice(&(2047 + raw.len() as u64 / 512).to_le_bytes());
    for (at, letter) in "rootfs".encode_utf16().enumerate() {
        entry[56 + 2 * at..58 + 2 * at].copy_from_slice(&letter.to_le_bytes());
    }
    disk.extend(&raw);
    fs::write(folder.path().join("disk"), &disk).expect("files can be written");
    run(folder.path(), "gzip", &["-k", "disk"]);
    for (name, layers) in [("disk", 0), ("disk.gz", 1)] {
        let peeled = open(&folder, name);
        assert_eq!(peeled.layers.len(), layers);
        let [partition] = peeled.partitions.as_slice() else {
            panic!("one partition is there, not {:?}", peeled.partitions);
        };
        assert_eq!(
            (partition.number, partition.name.as_str(), partition.kind.as_str()),
            (2, "rootfs", "Linux")
        );
        is_whole(peeled.choose(Some(2)).expect("it is there"));
    }
}

#[test]
fn hostile_wrappings_neither_panic_nor_take_memory() {
    let seeds: [&[u8]; 4] = [
        b"QFI\xfb\0\0\0\x03",
        b"\x1f\x8b\x08\0",
        b"\x3a\xff\x26\xed\x01\0\0\0",
        &[0; 4],
    ];
    for seed in seeds {
        for round in 0..400u32 {
            let mut random = round.wrapping_mul(2_654_435_761) | 1;
            let mut file = seed.to_vec();
            while file.len() < 3000 {
                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                // Mostly small numbers, so that some of them make sense.
                file.push(if round % 3 == 0 {
                    (random & 3) as u8
                } else {
                    random as u8
                });
            }
            file[510] = 0x55;
            file[511] = 0xaa;
            if let Ok(peeled) = peel(Arc::new(file))
                && let Ok(image) = peeled.choose(None)
            {
                let mut head = [0; 4096];
                let _ = image.read_at(0, &mut head);
                let _ = image.read_at(image.size().saturating_sub(10), &mut head[..10]);
            }
        }
    }
}
