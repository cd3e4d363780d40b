//! Partition tables: MBR with its chain of logical partitions, and GPT.

use super::{Image, has_superblock};
use crate::{ReadAt, record::Stored};

/// A partition of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1, as Linux counts.
    pub number: u32,
    /// Where it begins, in bytes.
    pub start: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// Its name; empty where the table knows no names.
    pub name: String,
    /// What the table says of its kind.
    pub kind: String,
    /// Whether ext2, ext3 or ext4 is on it.
    pub is_ext: bool,
}

const ENTRY: usize = 16;
const TABLE: usize = 446;
/// Logical partitions that are followed.
const LOGICAL_MAX: u32 = 128;
/// Entries of a GPT that are read.
const GPT_ENTRIES_MAX: u32 = 1024;

/// The partitions of a disk; none where it has no table that makes sense.
pub(super) fn partitions(image: &Image) -> Vec<Partition> {
    [512, 4096]
        .into_iter()
        .find_map(|sector| gpt(image, sector))
        .unwrap_or_else(|| mbr(image))
}

fn sector(image: &Image, number: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut sector = vec![0; usize::try_from(bytes).ok()?];
    image.read_at(number.checked_mul(bytes)?, &mut sector).ok()?;
    Some(sector)
}

fn partition(image: &Image, number: u32, start: u64, bytes: u64) -> Option<Partition> {
    (bytes > 0 && start < image.size()).then(|| Partition {
        number,
        start,
        bytes,
        name: String::new(),
        kind: String::new(),
        is_ext: has_superblock(image, start),
    })
}

struct MbrEntry {
    kind: u8,
    start: u64,
    sectors: u64,
}

fn mbr_entries(sector: &[u8]) -> Option<[MbrEntry; 4]> {
    (u16::get(sector, 510) == 0xaa55).then(|| {
        [0usize, 1, 2, 3].map(|index| {
            let at = TABLE.saturating_add(index.saturating_mul(ENTRY));
            MbrEntry {
                kind: u8::get(sector, at.saturating_add(4)),
                start: u32::get(sector, at.saturating_add(8)).into(),
                sectors: u32::get(sector, at.saturating_add(12)).into(),
            }
        })
    })
}

fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0f | 0x85)
}

fn mbr_kind(kind: u8) -> String {
    match kind {
        0x01 | 0x04 | 0x06 | 0x0e => "FAT".to_owned(),
        0x07 => "NTFS or exFAT".to_owned(),
        0x0b | 0x0c => "FAT32".to_owned(),
        0x82 => "Linux swap".to_owned(),
        0x83 => "Linux".to_owned(),
        0x8e => "Linux LVM".to_owned(),
        0xef => "EFI system".to_owned(),
        0xfd => "Linux RAID".to_owned(),
        kind => format!("type {kind:#04x}"),
    }
}

fn mbr(image: &Image) -> Vec<Partition> {
    let Some(entries) = sector(image, 0, 512).and_then(|sector| mbr_entries(&sector)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut add = |number, start: u64, entry: &MbrEntry| {
        let start = start.saturating_mul(512);
        let bytes = entry.sectors.saturating_mul(512);
        if let Some(partition) = partition(image, number, start, bytes) {
            found.push(Partition {
                kind: mbr_kind(entry.kind),
                ..partition
            });
        }
    };
    let mut extended = None;
    for (number, entry) in (1..).zip(&entries) {
        if is_extended(entry.kind) {
            extended = Some(entry.start);
        } else if entry.kind != 0 {
            add(number, entry.start, entry);
        }
    }
    // Each logical partition has a table of its own that leads to the next.
    let mut at = extended;
    let mut number = 5u32;
    while let (Some(base), Some(here)) = (extended, at) {
        let entries = sector(image, here, 512).and_then(|sector| mbr_entries(&sector));
        let Some([first, next, ..]) = entries.filter(|_| number < LOGICAL_MAX) else {
            break;
        };
        if first.kind != 0 {
            add(number, here.saturating_add(first.start), &first);
        }
        number = number.saturating_add(1);
        at = (is_extended(next.kind) && next.start > 0).then(|| base.saturating_add(next.start));
    }
    found
}

/// What a type's identifier stands for: the first four bytes tell those apart that are met most.
fn gpt_kind(guid: &[u8]) -> String {
    match u32::get(guid, 0) {
        0x0fc6_3daf => "Linux".to_owned(),
        0xc12a_7328 => "EFI system".to_owned(),
        0xebd0_a0a2 => "Windows data".to_owned(),
        0x0657_fd6d => "Linux swap".to_owned(),
        0xe6d6_d379 => "Linux LVM".to_owned(),
        0xa19d_880f => "Linux RAID".to_owned(),
        0x4f68_bce3 => "Linux root, x86-64".to_owned(),
        0xb921_b045 => "Linux root, ARM 64".to_owned(),
        0x2168_6148 => "BIOS boot".to_owned(),
        0x933a_c7e1 => "Linux home".to_owned(),
        other => format!("type {other:08x}"),
    }
}

fn gpt(image: &Image, sector_bytes: u64) -> Option<Vec<Partition>> {
    let last = image
        .size()
        .checked_div(sector_bytes)
        .unwrap_or(0)
        .saturating_sub(1);
    // The copy at the end serves where the first is lost.
    let header = [1, last]
        .into_iter()
        .filter_map(|number| sector(image, number, sector_bytes))
        .find(|header| header.starts_with(b"EFI PART"))?;
    let (table, count, width) = (
        u64::get(&header, 72),
        u32::get(&header, 80).min(GPT_ENTRIES_MAX),
        u32::get(&header, 84),
    );
    if !(128..=4096).contains(&width) {
        return None;
    }
    let mut found = Vec::new();
    for index in 0..count {
        let at = table
            .saturating_mul(sector_bytes)
            .saturating_add(u64::from(index).saturating_mul(width.into()));
        let mut entry = [0; 128];
        if image.read_at(at, &mut entry).is_err() {
            break;
        }
        let (first, end) = (u64::get(&entry, 32), u64::get(&entry, 40).saturating_add(1));
        if entry.first_chunk::<16>() == Some(&[0; 16]) || end <= first {
            continue;
        }
        let start = first.saturating_mul(sector_bytes);
        let bytes = end.saturating_sub(first).saturating_mul(sector_bytes);
        if let Some(partition) = partition(image, index.saturating_add(1), start, bytes) {
            let letters: Vec<u16> = entry
                .get(56..)
                .unwrap_or_default()
                .as_chunks::<2>()
                .0
                .iter()
                .map(|letter| u16::from_le_bytes(*letter))
                .take_while(|letter| *letter != 0)
                .collect();
            found.push(Partition {
                name: String::from_utf16_lossy(&letters),
                kind: gpt_kind(&entry),
                ..partition
            });
        }
    }
    Some(found)
}
