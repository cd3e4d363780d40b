//! Bitmaps and counts against what was found to be in use.

use super::Scan;
use crate::{
    Filesystem, Finding, GroupDescriptor, GroupFlags, GroupNumber, ReadAt, Severity, number::divide,
};

/// Groups in one step.
const GROUPS: u64 = 64;
/// The most differences of one bitmap that are told one by one.
const SHOWN: usize = 8;

/// What the groups add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    free_clusters: u64,
    free_inodes: u64,
}

pub(super) fn step<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) -> u64 {
    let of = u64::from(scan.groups);
    let end = scan.at.saturating_add(GROUPS).min(of);
    for group in scan.at..end {
        let group = GroupNumber(u32::try_from(group).unwrap_or(0));
        if let Ok((descriptor, _)) = filesystem.group(group) {
            blocks(scan, filesystem, group, &descriptor);
            inodes(scan, filesystem, group, &descriptor);
        }
    }
    if end == of {
        totals(scan, filesystem);
    }
    scan.at = end;
    of
}

fn error<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    group: GroupNumber,
    field: &'static str,
    text: String,
) {
    let (block, at) = filesystem.geometry().descriptor_of(group);
    let offset = filesystem.geometry().offset_of(block).saturating_add(at.into());
    scan.report
        .push(Finding::error(format!("group {group}"), offset, text).in_field(field));
}

/// Numbers as ranges, the first few of them.
fn shown(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.saturating_add(1) == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let mut text: Vec<String> = ranges
        .iter()
        .take(SHOWN)
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        })
        .collect();
    if ranges.len() > SHOWN {
        text.push(format!("{} more", ranges.len().saturating_sub(SHOWN)));
    }
    text.join(", ")
}

/// Differences between a bitmap and what is in use, both as words: too few bits, too many.
///
/// Bit number `n` of the first `count` stands for `first + n * step`. Most words are the same, and are not looked
/// into.
fn differences(
    count: u32,
    (first, step): (u64, u32),
    marked: &[u8],
    in_use: impl Fn(usize) -> u64,
) -> [Vec<u64>; 2] {
    let mut differences = [Vec::new(), Vec::new()];
    let [missing, extra] = &mut differences;
    let words = usize::try_from(count.div_ceil(64)).unwrap_or(0);
    let chunks = marked.chunks(8).take(words).enumerate();
    for (at, chunk) in chunks {
        let marked = chunk
            .iter()
            .rev()
            .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let used = in_use(at);
        let mut differing = marked ^ used;
        while differing != 0 {
            let bit = differing.trailing_zeros();
            differing &= differing.wrapping_sub(1);
            let index = (at as u64).saturating_mul(64).saturating_add(bit.into());
            if index >= count.into() {
                break;
            }
            let list = if used >> bit & 1 == 1 {
                &mut *missing
            } else {
                &mut *extra
            };
            list.push(first.saturating_add(index.saturating_mul(step.into())));
        }
    }
    differences
}

/// Whether all bits from number `count` on are set.
fn rest_is_set(bitmap: &[u8], count: u32) -> bool {
    let (bytes, bits) = divide(count, 8);
    let mut rest = bitmap
        .get(usize::try_from(bytes).unwrap_or(usize::MAX)..)
        .unwrap_or_default()
        .iter();
    let begun = bits == 0 || rest.next().is_none_or(|byte| byte >> bits == u8::MAX >> bits);
    begun && rest.all(|byte| *byte == u8::MAX)
}

fn blocks<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    group: GroupNumber,
    descriptor: &GroupDescriptor,
) {
    let geometry = filesystem.geometry();
    let clusters = geometry
        .blocks_in(group)
        .div_ceil(geometry.blocks_per_cluster.max(1));
    let first = geometry.first_block_of(group).0;
    let bits = scan.claims.bits(group.0);
    let used = bits.map_or(0, |bits| {
        bits.iter()
            .fold(0u32, |sum, word| sum.saturating_add(word.count_ones()))
    });
    let free = clusters.saturating_sub(used);
    let uninit = descriptor.flags.has(GroupFlags::BLOCK_UNINIT);
    if !uninit {
        let bitmap = match filesystem.block(descriptor.block_bitmap) {
            Ok(bitmap) => bitmap,
            Err(why) => {
                let text = format!("its block bitmap cannot be read: {why}");
                return error(scan, filesystem, group, "bg_block_bitmap_lo", text);
            }
        };
        let [missing, extra] = differences(clusters, (first, geometry.blocks_per_cluster), &bitmap, |word| {
            bits.and_then(|bits| bits.get(word)).copied().unwrap_or(0)
        });
        let per_group = geometry
            .blocks_per_group
            .div_ceil(geometry.blocks_per_cluster.max(1));
        let covered = usize::try_from(per_group / 8).unwrap_or(0);
        let right = filesystem
            .seed()
            .map(|seed| seed.over(bitmap.get(..covered).unwrap_or(&bitmap)).0);
        bitmap_checksum(
            scan,
            filesystem,
            group,
            ("block", "bg_block_bitmap_csum_lo"),
            right,
            descriptor.block_bitmap_checksum,
        );
        for (list, what) in [
            (missing, "in use, but marked free"),
            (extra, "marked as in use, but nothing uses them"),
        ] {
            if !list.is_empty() {
                let text = format!("block bitmap: blocks {} are {what}", shown(&list));
                error(scan, filesystem, group, "bg_block_bitmap_lo", text);
            }
        }
        if !rest_is_set(&bitmap, clusters) {
            let text = "block bitmap: the bits behind the last block are not set".to_owned();
            error(scan, filesystem, group, "bg_block_bitmap_lo", text);
        }
    }
    if descriptor.free_blocks != free {
        let text = format!(
            "it says that {} clusters are free, but {free} are",
            descriptor.free_blocks
        );
        error(scan, filesystem, group, "bg_free_blocks_count_lo", text);
    }
}

fn bitmap_checksum<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    group: GroupNumber,
    (what, field): (&str, &'static str),
    right: Option<u32>,
    stored: u32,
) {
    let Some(right) = right else {
        return;
    };
    let counts = &mut scan.report.counts;
    counts.checksums = counts.checksums.saturating_add(1);
    let mask = if filesystem.geometry().descriptor_bytes >= 64 {
        u32::MAX
    } else {
        0xffff
    };
    if right & mask != stored & mask {
        let text = format!(
            "the checksum of its {what} bitmap is {stored:#x}, but should be {:#x}",
            right & mask
        );
        error(scan, filesystem, group, field, text);
    }
}

fn inodes<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    group: GroupNumber,
    descriptor: &GroupDescriptor,
) {
    let geometry = filesystem.geometry();
    let count = geometry.inodes_per_group;
    let states = scan.inodes.group(group.0);
    let reserved = |index: u32| {
        geometry
            .inode_at(group, index)
            .is_some_and(|number| number.get() < geometry.first_inode)
    };
    let kind = |index: u32| {
        let state = usize::try_from(index).ok().and_then(|index| states?.get(index));
        state.map_or(0, |state| state.kind)
    };
    let in_use = |index: u32| kind(index) != 0 || reserved(index);
    // Most groups of a large disk hold nothing: they are not looked through.
    let occupied = states.is_some() || reserved(0);
    let indexes = || 0..if occupied { count } else { 0 };
    let used = u32::try_from(indexes().filter(|index| in_use(*index)).count()).unwrap_or(u32::MAX);
    let directories = u32::try_from(indexes().filter(|index| kind(*index) == 2).count()).unwrap_or(u32::MAX);
    let free = count.saturating_sub(used);
    let mut wrong = Vec::new();
    if !descriptor.flags.has(GroupFlags::INODE_UNINIT) {
        let bitmap = match filesystem.block(descriptor.inode_bitmap) {
            Ok(bitmap) => bitmap,
            Err(why) => {
                let text = format!("its inode bitmap cannot be read: {why}");
                return error(scan, filesystem, group, "bg_inode_bitmap_lo", text);
            }
        };
        let first = u64::from(group.0).saturating_mul(count.into()).saturating_add(1);
        let [missing, extra] = differences(count, (first, 1), &bitmap, |word| {
            let begin = u32::try_from(word).unwrap_or(u32::MAX).saturating_mul(64);
            (0..64).fold(0, |bits, bit| {
                bits | u64::from(in_use(begin.saturating_add(bit))) << bit
            })
        });
        for (list, what) in [
            (missing, "in use, but marked free"),
            (extra, "marked as in use, but nothing is in them"),
        ] {
            if !list.is_empty() {
                wrong.push((
                    "bg_inode_bitmap_lo",
                    format!("inode bitmap: inodes {} are {what}", shown(&list)),
                ));
            }
        }
        if !rest_is_set(&bitmap, count) {
            wrong.push((
                "bg_inode_bitmap_lo",
                "inode bitmap: the bits behind the last inode are not set".to_owned(),
            ));
        }
        let (bytes, _) = divide(count, 8);
        let covered = bitmap
            .get(..usize::try_from(bytes).unwrap_or(0))
            .unwrap_or(&bitmap);
        let right = filesystem.seed().map(|seed| seed.over(covered).0);
        bitmap_checksum(
            scan,
            filesystem,
            group,
            ("inode", "bg_inode_bitmap_csum_lo"),
            right,
            descriptor.inode_bitmap_checksum,
        );
    }
    if descriptor.free_inodes != free {
        let text = format!(
            "it says that {} inodes are free, but {free} are",
            descriptor.free_inodes
        );
        wrong.push(("bg_free_inodes_count_lo", text));
    }
    if descriptor.directories != directories {
        let text = format!(
            "it says that it has {} directories, but {directories} are there",
            descriptor.directories
        );
        wrong.push(("bg_used_dirs_count_lo", text));
    }
    for (field, text) in wrong {
        error(scan, filesystem, group, field, text);
    }
}

/// The totals in the superblock. The kernel counts anew at each mount, so that a stale one is no error.
fn totals<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) {
    let geometry = filesystem.geometry();
    let mut sums = Sums::default();
    for group in (0..scan.groups).map(GroupNumber) {
        if let Ok((descriptor, _)) = filesystem.group(group) {
            sums.free_clusters = sums.free_clusters.saturating_add(descriptor.free_blocks.into());
            sums.free_inodes = sums.free_inodes.saturating_add(descriptor.free_inodes.into());
        }
    }
    let superblock = filesystem.superblock();
    let free_blocks = sums
        .free_clusters
        .saturating_mul(geometry.blocks_per_cluster.into());
    for (field, said, sum, what) in [
        (
            "s_free_blocks_count_lo",
            superblock.free_blocks_count(),
            free_blocks,
            "blocks",
        ),
        (
            "s_free_inodes_count",
            superblock.s_free_inodes_count.into(),
            sums.free_inodes,
            "inodes",
        ),
    ] {
        if said != sum {
            let text = format!("it says that {said} {what} are free; the groups add up to {sum}");
            let finding = Finding::error("superblock", filesystem.superblock_offset(), text).in_field(field);
            scan.report.push(finding.with_severity(Severity::Warning));
        }
    }
}
