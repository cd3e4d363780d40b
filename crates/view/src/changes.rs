//! What a run has changed of an image: blocks, and the fields in them before and after.

use std::{collections::BTreeMap, sync::Arc};

use ext4::{BlockNumber, Filesystem, Index, Snapshot, container::Image};
use serde::{Deserialize, Serialize};

use crate::explore::block_card;

/// Blocks that are told field by field.
const ROWS_MAX: usize = 400;
/// Fields that are told of one block.
const FIELDS_MAX: usize = 64;

/// The blocks that differ from the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedBlocks {
    /// Bytes per block.
    pub block_bytes: u32,
    /// Runs of blocks that are zeros, first to last plus one, but for those in `blocks`.
    pub zeroed: Vec<(u64, u64)>,
    /// Their numbers, in order, and their bytes.
    pub blocks: Vec<(u64, Vec<u8>)>,
    /// Whether this is what a crash leaves: the run was cut off in the middle of operations.
    pub crash: bool,
}

impl ChangedBlocks {
    /// Those of a snapshot.
    pub fn of(snapshot: &Snapshot<Image>, block_bytes: u32, crash: bool) -> Self {
        Self {
            block_bytes,
            zeroed: snapshot.zeroed().iter().map(|(from, to)| (*from, *to)).collect(),
            blocks: snapshot
                .blocks()
                .iter()
                .map(|(number, bytes)| (number.0, bytes.to_vec()))
                .collect(),
            crash,
        }
    }

    /// The image with these blocks in it.
    pub fn over(&self, image: Image) -> Snapshot<Image> {
        let blocks = self
            .blocks
            .iter()
            .map(|(number, bytes)| (BlockNumber(*number), bytes.clone().into()));
        let zeroed: BTreeMap<u64, u64> = self.zeroed.iter().copied().collect();
        Snapshot::new(image, self.block_bytes, zeroed, blocks.collect())
    }
}

/// A block that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRow {
    /// Its number.
    pub block: u64,
    /// What it is for, in words.
    pub purpose: String,
    /// Fields that differ: name, value before, value after.
    pub fields: Vec<(String, String, String)>,
    /// More fields differ than are told.
    pub more: bool,
}

/// What changed, told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The first of the blocks that differ.
    pub rows: Vec<ChangeRow>,
    /// Where the file system begins in the file; none where the file is packed, so that it cannot be put together again.
    pub begins_at: Option<u64>,
}

/// Tells what changed.
pub fn changes(
    before: &Filesystem<Image>,
    index: &Index,
    changed: &ChangedBlocks,
    begins_at: Option<u64>,
) -> Changes {
    let after: Image = Arc::new(changed.over(before.image().clone()));
    let mut told = Changes {
        rows: Vec::new(),
        begins_at,
    };
    let Ok(after) = Filesystem::open(after) else {
        return told;
    };
    for (number, _) in &changed.blocks {
        let block = BlockNumber(*number);
        let (Ok(old), Ok(new)) = (
            block_card(before, index, block),
            block_card(&after.filesystem, index, block),
        ) else {
            continue;
        };
        if old.bytes == new.bytes {
            continue;
        }
        if told.rows.len() >= ROWS_MAX {
            break;
        }
        let values: BTreeMap<(&str, u32), &str> = old
            .parts
            .iter()
            .map(|part| ((part.name.as_str(), part.offset), part.value.as_str()))
            .collect();
        let differs = new.parts.iter().filter_map(|part| {
            let was = values
                .get(&(part.name.as_str(), part.offset))
                .copied()
                .unwrap_or("–");
            (was != part.value).then(|| (part.name.clone(), was.to_owned(), part.value.clone()))
        });
        let mut fields: Vec<_> = differs.take(FIELDS_MAX + 1).collect();
        let more = fields.len() > FIELDS_MAX;
        fields.truncate(FIELDS_MAX);
        told.rows.push(ChangeRow {
            block: *number,
            purpose: new.purpose,
            fields,
            more,
        });
    }
    told
}

#[cfg(test)]
mod tests {
    use ext4::{InodeNumber, NewFilesystem, NewInode, ReadAt, Timestamp, Volume};

    use super::*;

    #[test]
    fn a_new_file_is_told_as_the_fields_that_it_changes() {
        let now = Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        };
        let made = NewFilesystem::ext4(32 << 20, [7; 16], now)
            .make()
            .expect("it makes sense");
        let mut bytes = vec![0; made.overlay().size() as usize];
        made.overlay().read_at(0, &mut bytes).expect("it can be read");
        let image: Image = Arc::new(bytes);
        let volume = Volume::open(image.clone()).expect("it can be written");
        let new = NewInode {
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            now,
        };
        volume
            .create(InodeNumber::ROOT, b"new", &new, None)
            .expect("there is room");
        volume.sync();
        let changed = ChangedBlocks::of(&volume.overlay().snapshot(), 4096, false);
        let before = Filesystem::open(image).expect("it is ext4").filesystem;
        let told = changes(&before, &Index::default(), &changed, Some(0));
        let fields: Vec<&str> = told
            .rows
            .iter()
            .flat_map(|row| &row.fields)
            .map(|(name, ..)| name.as_str())
            .collect();
        let has = |part: &str| fields.iter().any(|field| field.contains(part));
        assert!(
            has("s_free_inodes_count") && has("bg_free_inodes_count_lo"),
            "{fields:?}"
        );
        assert_eq!(told.rows.len(), changed.blocks.len());
    }
}
