//! A tree of files that is hard to read.
#![allow(
    dead_code,
    reason = "every test program takes this file in, and none needs all of it"
)]

use std::{
    fs,
    os::unix::fs::{FileExt, symlink},
    path::Path,
};

use super::image::host_path;

/// Names that not everybody reads: not UTF-8, with blanks and signs, as long as can be.
pub(crate) fn odd_names() -> Vec<Vec<u8>> {
    vec![
        b"with blank".to_vec(),
        b"-dash\\back'quote".to_vec(),
        b"\xff\xfe not utf-8 \x80".to_vec(),
        "Überlänge über zweiunddreißig Zeichen hinaus".as_bytes().to_vec(),
        b"\x01\x7f".to_vec(),
        vec![b'n'; 255],
    ]
}

/// Bytes that differ from place to place.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (state >> 16) as u8
    };
    (0..bytes).map(next).collect()
}

/// Writes a file of one block in two, so that every block is an extent of its own.
pub(crate) fn fragmented(path: &Path, block: u64, pieces: u64) {
    let file = fs::File::create(path).expect("files can be made");
    for piece in 0..pieces {
        let mut bytes = noise(usize::try_from(block).expect("blocks are small"));
        bytes[..8].copy_from_slice(&(piece + 1).to_le_bytes());
        file.write_all_at(&bytes, piece * 2 * block)
            .expect("files can be written");
    }
}

/// Plants files of every shape; `block` is the size of a block, `pieces` how many a fragmented file has.
pub(crate) fn plant(tree: &Path, block: u64, pieces: u64) {
    let write = |name: &str, bytes: &[u8]| fs::write(tree.join(name), bytes).expect("files can be written");
    write("empty", b"");
    write("tiny", b"sixteen letters.");
    write("hundred", &[b'h'; 100]);
    write("five_thousand", &noise(5_000));
    write("medium", &noise(300_000));
    let holes = |name: &str, at: u64, size: u64| {
        let file = fs::File::create(tree.join(name)).expect("files can be made");
        file.write_all_at(&[b'x'; 100], at).expect("files can be written");
        file.set_len(size).expect("files can grow");
    };
    holes("hole_at_its_tail", 0, 1 << 20);
    holes("hole_at_its_head", 1 << 20, (1 << 20) + 100);
    holes("nothing_but_hole_around", 500_000, 2_000_000);
    fragmented(&tree.join("fragmented"), block, pieces);
    fs::create_dir_all(tree.join("folder/below/deeper")).expect("folders can be made");
    write("folder/below/deeper/file", b"deep");
    for (name, length) in [("short", 5), ("in_inode", 59), ("just_not", 60), ("long", 900)] {
        symlink("t".repeat(length), tree.join(name)).expect("links can be made");
    }
    fs::create_dir(tree.join("odd")).expect("folders can be made");
    for name in odd_names() {
        fs::write(host_path(&tree.join("odd"), &name), &name).expect("files can be written");
    }
    fs::create_dir(tree.join("many")).expect("folders can be made");
    fs::hard_link(tree.join("tiny"), tree.join("folder/second name")).expect("links can be made");
    for index in 0..420 {
        let name = format!("many/{index:03}_{}", "ö".repeat(index % 40));
        write(&name, b"");
    }
}
