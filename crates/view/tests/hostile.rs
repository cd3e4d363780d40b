//! Small good images, changed at random: whatever is in them, every view of the explorer is made without a panic.

#[path = "../../ext4/tests/support/mutation.rs"]
mod mutation;

use ext4::{BlockNumber, Filesystem, GroupNumber, InodeNumber, Replayed};
use mutation::{Random, images, mutate};
use view::explore::{self, Reader};

const MUTATIONS: u32 = 1_500;
/// Steps of reading through a disk; each does some milliseconds' worth.
const STEPS_MAX: u32 = 10_000;

/// Asks for everything that the page can ask of an image.
fn look_at_everything(image: &Vec<u8>) {
    let Ok(opened) = Filesystem::open(image) else {
        return;
    };
    let (filesystem, findings) = (opened.filesystem, opened.findings);
    let _ = explore::overview(&filesystem, findings.clone(), "hostile.img");
    let mut reader = Reader::new(findings);
    let mut steps = 0;
    reader.go_on(&filesystem, || {
        steps += 1;
        steps < STEPS_MAX
    });
    let index = reader.index();
    let geometry = *filesystem.geometry();
    // The first and the last of everything, and numbers that do not exist.
    let some = |end: u64| {
        (0..end.min(40))
            .chain(end.saturating_sub(3)..end.saturating_add(2))
            .chain([u64::MAX])
    };
    for group in some(geometry.groups.into()) {
        let group = GroupNumber(u32::try_from(group).unwrap_or(u32::MAX));
        let _ = explore::group_row(&filesystem, group);
        let _ = explore::block_map(&filesystem, index, group);
        for first in [0, 1, u32::MAX] {
            let _ = explore::table_window(&filesystem, group, first, 64);
        }
    }
    let _ = explore::shares(&filesystem, 0, 4096);
    let _ = explore::shares(&filesystem, u32::MAX, u32::MAX);
    for number in some(geometry.inodes.into()) {
        let Some(number) = u32::try_from(number).ok().and_then(InodeNumber::new) else {
            continue;
        };
        let _ = explore::inode_card(&filesystem, number);
        let _ = explore::inode_details(&filesystem, index, number);
        for place in [0, 1, u32::MAX] {
            let _ = explore::directory_page(&filesystem, number, place);
            let _ = explore::content(&filesystem, number, u64::from(place) << 12);
        }
        let _ = explore::whole(&filesystem, number, 1 << 20);
    }
    for number in some(geometry.blocks) {
        let _ = explore::block_card(&filesystem, index, BlockNumber(number));
    }
    let _ = explore::journal_card(&filesystem);
    let _ = explore::orphans_card(&filesystem);
    for query in [
        "/",
        "/dir/small",
        "/dir/../dir",
        "//",
        "12",
        "<12>",
        "block 9",
        "inode 4294967295",
        "\u{0}",
        "",
    ] {
        let _ = explore::find(&filesystem, query);
    }
    if let Ok(journal) = filesystem.journal()
        && let Ok(opened) = Filesystem::open(Replayed::new(image, &journal))
    {
        let _ = explore::overview(&opened.filesystem, opened.findings, "replayed.img");
    }
}

#[test]
fn no_image_makes_a_view_panic() {
    let images = images();
    for seed in 0..MUTATIONS {
        let mut random = Random(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut image = images[seed as usize % images.len()].clone();
        mutate(&mut image, &mut random);
        let looked = std::panic::catch_unwind(|| look_at_everything(&image));
        assert!(looked.is_ok(), "the image of seed {seed}");
    }
}
