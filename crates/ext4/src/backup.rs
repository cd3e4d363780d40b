//! Copies of the superblock: where they should be, what they say, and the search for one where the primary is lost.

use std::collections::BTreeSet;

use crate::{
    BlockNumber, Compat, Filesystem, Finding, Geometry, GroupNumber, Incompat, ReadAt, SUPERBLOCK_BYTES,
    Severity, Superblock, record::Stored, superblock::MAGIC,
};

/// How far a lost superblock is searched for.
const SEARCH_MAX: u64 = 64 << 20;
const CHUNK: usize = 256 << 10;
const STEP: usize = 1024;

/// A copy of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The group that it lies in.
    pub group: GroupNumber,
    /// Its block.
    pub block: BlockNumber,
    /// The fields in which it says something else than the one in use, though it should not.
    pub differing: Vec<&'static str>,
}

/// Fields that change while a file system is in use, and that only the primary keeps up to date.
const KEPT_BY_PRIMARY: [&str; 42] = [
    "s_free_blocks_count_lo",
    "s_free_blocks_count_hi",
    "s_free_inodes_count",
    "s_mtime",
    "s_mtime_hi",
    "s_wtime",
    "s_wtime_hi",
    "s_mnt_count",
    "s_max_mnt_count",
    "s_state",
    "s_errors",
    "s_lastcheck",
    "s_lastcheck_hi",
    "s_checkinterval",
    "s_block_group_nr",
    "s_volume_name",
    "s_last_mounted",
    "s_last_orphan",
    "s_kbytes_written",
    "s_default_mount_opts",
    "s_mount_opts",
    "s_jnl_backup_type",
    "s_jnl_blocks",
    "s_error_count",
    "s_first_error_time",
    "s_first_error_time_hi",
    "s_first_error_ino",
    "s_first_error_block",
    "s_first_error_func",
    "s_first_error_line",
    "s_first_error_errcode",
    "s_last_error_time",
    "s_last_error_time_hi",
    "s_last_error_ino",
    "s_last_error_block",
    "s_last_error_func",
    "s_last_error_line",
    "s_last_error_errcode",
    "s_def_hash_version",
    "s_flags",
    "s_checksum",
    "s_overhead_clusters",
];

impl<R: ReadAt> Filesystem<R> {
    /// The copies of the superblock that can be read, in the first `most` groups that should have one, and what
    /// is wrong with them.
    pub fn backups(&self, most: usize) -> (Vec<Backup>, Vec<Finding>) {
        let mut backups = Vec::new();
        let mut findings = Vec::new();
        for group in self.backup_groups().into_iter().take(most) {
            let block = self.geometry().first_block_of(group);
            let offset = self.geometry().offset_of(block);
            let mut warn = |text: String| {
                let finding = Finding::error(format!("superblock copy in group {group}"), offset, text);
                findings.push(finding.with_severity(Severity::Warning));
            };
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            if let Err(why) = self.image().read_at(offset, &mut bytes) {
                warn(why.to_string());
                continue;
            }
            let copy = Superblock::decode(&bytes);
            if copy.s_magic != MAGIC {
                warn(format!("its magic number is {:#06x}, not 0xef53", copy.s_magic));
                continue;
            }
            let differing = self.differing(&bytes);
            if !differing.is_empty() {
                warn(format!(
                    "it says something else than the superblock in {}",
                    differing.join(", ")
                ));
            }
            backups.push(Backup {
                group,
                block,
                differing,
            });
        }
        (backups, findings)
    }

    /// The groups that should have a copy, without group 0; without `sparse_super` only the first 1,000.
    fn backup_groups(&self) -> BTreeSet<GroupNumber> {
        let mut groups = BTreeSet::new();
        let mut add = |group: u32| {
            let group = GroupNumber(group);
            let wanted = group.0 > 0 && group.0 < self.geometry().groups && self.has_backup(group);
            wanted.then(|| groups.insert(group)).is_some()
        };
        for group in 0..1000 {
            add(group);
        }
        for base in [3u32, 5, 7] {
            for power in 1..20 {
                add(base.saturating_pow(power));
            }
        }
        let [a0, a1, a2, a3, b0, b1, b2, b3] = self.superblock().s_backup_bgs;
        add(u32::from_le_bytes([a0, a1, a2, a3]));
        add(u32::from_le_bytes([b0, b1, b2, b3]));
        groups
    }

    fn differing(&self, copy: &[u8]) -> Vec<&'static str> {
        let mut ours = self.superblock_bytes().to_vec();
        let mut copy = copy.to_vec();
        for bytes in [&mut ours, &mut copy] {
            let mut superblock = Superblock::decode(bytes);
            // What changes with mounting, with the first large file and with orphans.
            superblock.s_feature_incompat &= !Incompat::RECOVER.0;
            superblock.s_feature_ro_compat &= !(crate::RoCompat::LARGE_FILE.0
                | crate::RoCompat::DIR_NLINK.0
                | crate::RoCompat::ORPHAN_PRESENT.0);
            superblock.s_feature_compat &= !(Compat::EXT_ATTR.0 | Compat::DIR_INDEX.0);
            superblock.encode(bytes);
        }
        crate::SUPERBLOCK_FIELDS
            .iter()
            .filter(|field| !KEPT_BY_PRIMARY.contains(&field.name))
            .filter(|field| field.value(&ours) != field.value(&copy))
            .map(|field| field.name)
            .collect()
    }

    /// Whether a group begins with a copy of the superblock.
    pub fn has_backup(&self, group: GroupNumber) -> bool {
        let superblock = self.superblock();
        if superblock.compat().has(Compat::SPARSE_SUPER2) {
            let [a0, a1, a2, a3, b0, b1, b2, b3] = superblock.s_backup_bgs;
            let at = [[a0, a1, a2, a3], [b0, b1, b2, b3]].map(u32::from_le_bytes);
            return group.0 == 0 || at.contains(&group.0);
        }
        self.geometry().has_superblock(group)
    }
}

/// Searches for a copy of a superblock that is consistent with where it lies; gives its offset in bytes.
pub(crate) fn search(image: &(impl ReadAt + ?Sized)) -> Option<u64> {
    let end = image.size().min(SEARCH_MAX);
    let mut chunk = vec![0; CHUNK];
    let mut begin = 0u64;
    let mut best = None;
    while begin < end {
        let bytes = usize::try_from(end.saturating_sub(begin))
            .unwrap_or(CHUNK)
            .min(CHUNK);
        let part = chunk.get_mut(..bytes)?;
        // Where a part cannot be read the next one may be.
        if image.read_at(begin, part).is_ok() {
            for at in (0..bytes).step_by(STEP) {
                let record = part.get(at..).unwrap_or_default();
                let offset = begin.saturating_add(at as u64);
                if u16::get(record, 0x38) == MAGIC && is_copy(record, offset) {
                    best.get_or_insert(offset);
                }
            }
        }
        if best.is_some() {
            break;
        }
        begin = begin.saturating_add(CHUNK as u64);
    }
    best
}

/// Whether these bytes are a superblock that says of itself that it lies here.
fn is_copy(record: &[u8], offset: u64) -> bool {
    let superblock = Superblock::decode(record);
    let Ok(geometry) = Geometry::of(&superblock) else {
        return false;
    };
    let group = GroupNumber(superblock.s_block_group_nr.into());
    group.0 > 0 && group.0 < geometry.groups && geometry.offset_of(geometry.first_block_of(group)) == offset
}
