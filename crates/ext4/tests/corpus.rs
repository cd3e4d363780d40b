//! Broken images of others, where their folder is named by `EXT4LAB_CORPUS`: each is opened and looked through.

use std::{env, fs, path::PathBuf, process::Command, time::Instant};

use ext4::{Filesystem, GroupNumber, InodeNumber};

#[test]
fn no_broken_image_makes_the_reader_panic_or_hang() {
    let Some(folder) = env::var_os("EXT4LAB_CORPUS").map(PathBuf::from) else {
        println!("NOT RUN: EXT4LAB_CORPUS names no folder of broken images");
        return;
    };
    let mut opened_count = 0;
    let mut images: Vec<_> = fs::read_dir(&folder)
        .expect("the folder can be read")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    images.sort();
    images.retain(|path| path.to_string_lossy().ends_with(".img.gz"));
    for path in &images {
        let unpacked = Command::new("gzip")
            .arg("-dc")
            .arg(path)
            .output()
            .expect("gzip starts");
        let begun = Instant::now();
        match Filesystem::open(unpacked.stdout) {
            Err(error) => println!("{}: {error}", path.display()),
            Ok(opened) => {
                opened_count += 1;
                look_through(&opened.filesystem);
            }
        }
        assert!(
            begun.elapsed().as_secs() < 10,
            "{} took {:?}",
            path.display(),
            begun.elapsed()
        );
    }
    println!("{opened_count} of {} broken images could be opened", images.len());
    assert!(opened_count * 2 > images.len());
}

fn look_through(filesystem: &Filesystem<Vec<u8>>) {
    let geometry = filesystem.geometry();
    for group in (0..geometry.groups.min(64)).map(GroupNumber) {
        let _ = filesystem.group(group);
        filesystem.slots(group, 0, 256);
    }
    for number in (1..=geometry.inodes.min(2_000)).filter_map(InodeNumber::new) {
        let _ = filesystem.inode(number);
    }
}
