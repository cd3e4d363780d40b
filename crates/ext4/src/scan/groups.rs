//! Descriptors, and the blocks that metadata take before any file does.

use super::{Claims, Inodes, Scan};
use crate::{
    BlockNumber, Compat, Filesystem, Finding, GroupDescriptor, GroupNumber, Incompat, InodeNumber,
    JournalError, ReadAt, ReadFailure, RoCompat, Severity, number::divide,
};

/// Groups in one step.
const GROUPS: u64 = 256;
/// Superblock copies that are compared.
const BACKUPS: usize = 64;

pub(super) fn step<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) -> u64 {
    if scan.at == 0 {
        begin(scan, filesystem);
    }
    let of = u64::from(scan.groups);
    let end = scan.at.saturating_add(GROUPS).min(of);
    for group in scan.at..end {
        let group = GroupNumber(u32::try_from(group).unwrap_or(u32::MAX));
        claim_superblocks(scan, filesystem, group);
    }
    for group in scan.at..end {
        let group = GroupNumber(u32::try_from(group).unwrap_or(u32::MAX));
        if let Ok((descriptor, findings)) = filesystem.group(group) {
            scan.report.extend(findings);
            claim_tables(scan, filesystem, group, &descriptor);
        }
    }
    scan.at = end;
    of
}

/// What is checked before any group.
fn begin<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) {
    let geometry = filesystem.geometry();
    scan.groups = readable_groups(filesystem);
    if scan.groups < geometry.groups {
        let text = format!(
            "of {} group descriptors only the first {} can be read",
            geometry.groups, scan.groups
        );
        let at = filesystem.superblock_offset();
        scan.report.push(Finding::error("group descriptors", at, text));
    }
    scan.claims = Claims::new(geometry, scan.groups, filesystem.image());
    scan.read = Claims::new(geometry, scan.groups, filesystem.image());
    scan.inodes = Inodes::new(scan.groups);
    let (_, findings) = filesystem.backups(BACKUPS);
    scan.report.extend(findings);
    scan.report.extend(filesystem.feature_findings());
    let at = filesystem.superblock_offset();
    match filesystem.journal() {
        Ok(journal) => scan.report.extend(journal.findings),
        Err(JournalError::None) => {}
        Err(why @ JournalError::External(_)) => {
            let note = Finding::error("journal", at, why.to_string());
            scan.report.push(note.with_severity(Severity::Note));
        }
        Err(why @ JournalError::Unusable(_)) => {
            scan.report.push(Finding::error("journal", at, why.to_string()));
        }
    }
    let (orphans, findings) = filesystem.orphans();
    scan.report.extend(findings);
    scan.report.counts.orphans = orphans.len() as u64;
    scan.inodes.orphans = orphans.into_iter().map(|orphan| orphan.inode).collect();
    if filesystem.superblock().incompat().has(Incompat::MMP) {
        scan.report.extend(filesystem.multi_mount().1);
        let block = BlockNumber(filesystem.superblock().s_mmp_block);
        scan.claims.claim(block, 1);
    }
}

/// Groups whose descriptors lie in the image: no more work than it has bytes.
fn readable_groups<R: ReadAt>(filesystem: &Filesystem<R>) -> u32 {
    let readable = |group: u32| {
        let read = filesystem.group(GroupNumber(group));
        !matches!(read, Err(ReadFailure::Read(_)))
    };
    // Descriptors lie in rising order, so that the first that cannot be read ends them.
    let (mut low, mut high) = (0, filesystem.geometry().groups);
    while low < high {
        let middle = low.saturating_add(high.saturating_sub(low) / 2);
        if readable(middle) {
            low = middle.saturating_add(1);
        } else {
            high = middle;
        }
    }
    low
}

fn claim_superblocks<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>, group: GroupNumber) {
    let geometry = filesystem.geometry();
    let most = u64::from(geometry.blocks_in(group));
    for (_, start, blocks) in filesystem.leading_blocks(group) {
        // These may meet each other only if blocks are shared by clusters.
        scan.claims.claim(start, blocks.min(most));
    }
}

fn claim_tables<R: ReadAt>(
    scan: &mut Scan,
    filesystem: &Filesystem<R>,
    group: GroupNumber,
    descriptor: &GroupDescriptor,
) {
    let geometry = filesystem.geometry();
    let (block, at) = geometry.descriptor_of(group);
    let offset = geometry.offset_of(block).saturating_add(at.into());
    let clusters = filesystem.superblock().ro_compat().has(RoCompat::BIGALLOC);
    for (what, start, blocks) in [
        ("block bitmap", descriptor.block_bitmap, 1),
        ("inode bitmap", descriptor.inode_bitmap, 1),
        (
            "inode table",
            descriptor.inode_table,
            geometry.table_blocks_per_group().into(),
        ),
    ] {
        if let Some(block) = scan.claims.claim(start, blocks)
            && !clusters
        {
            let text = format!("its {what} lies over other metadata, at block {block}");
            scan.report
                .push(Finding::error(format!("group descriptor {group}"), offset, text));
        }
    }
}

impl<R: ReadAt> Filesystem<R> {
    /// What is odd about the features and the numbers of the superblock.
    fn feature_findings(&self) -> Vec<Finding> {
        let superblock = self.superblock();
        let at = self.superblock_offset();
        let mut findings = Vec::new();
        let known = |names: &[crate::FeatureName]| names.iter().fold(0, |bits, feature| bits | feature.bit);
        for (field, bits, known) in [
            (
                "s_feature_incompat",
                superblock.incompat().0,
                known(Incompat::NAMES),
            ),
            (
                "s_feature_ro_compat",
                superblock.ro_compat().0,
                known(RoCompat::NAMES),
            ),
        ] {
            if bits & !known != 0 {
                let text = format!("it needs features that are not known: {:#x}", bits & !known);
                findings.push(Finding::error("superblock", at, text).in_field(field));
            }
        }
        let reserved =
            u64::from(superblock.s_r_blocks_count_lo) | u64::from(superblock.s_r_blocks_count_hi) << 32;
        if reserved > superblock.blocks_count() {
            let text = format!("{reserved} blocks are reserved, more than there are");
            findings.push(Finding::error("superblock", at, text).in_field("s_r_blocks_count_lo"));
        }
        if superblock.s_rev_level > 0 && superblock.s_first_ino < 11 {
            let text = format!(
                "the first inode for files is {}, below 11",
                superblock.s_first_ino
            );
            findings.push(Finding::error("superblock", at, text).in_field("s_first_ino"));
        }
        let mut error = |field, text: String| {
            findings.push(Finding::error("superblock", at, text).in_field(field));
        };
        let inodes = self.geometry().inodes;
        for (field, inode, right) in [
            ("s_usr_quota_inum", superblock.s_usr_quota_inum, 3),
            ("s_grp_quota_inum", superblock.s_grp_quota_inum, 4),
        ] {
            if superblock.ro_compat().has(RoCompat::QUOTA) && inode != 0 && inode != right {
                error(
                    field,
                    format!("{field} is {inode}, but quota is kept in inode {right}"),
                );
            }
        }
        let project = superblock.s_prj_quota_inum;
        if superblock.ro_compat().has(RoCompat::QUOTA) && project > inodes {
            error(
                "s_prj_quota_inum",
                format!("s_prj_quota_inum is {project}, but there are {inodes} inodes"),
            );
        }
        let journal = superblock.s_journal_inum;
        if !superblock.compat().has(Compat::HAS_JOURNAL)
            && (journal != 0 || superblock.incompat().has(Incompat::RECOVER))
        {
            error(
                "s_feature_compat",
                format!("it has no journal, yet names inode {journal} for one or asks for a replay"),
            );
        }
        let tables = divide(self.geometry().block_bytes, self.geometry().descriptor_bytes).0;
        let tables = self.geometry().groups.div_ceil(tables.max(1));
        if superblock.incompat().has(Incompat::META_BG) && superblock.s_first_meta_bg > tables {
            let first = superblock.s_first_meta_bg;
            error(
                "s_first_meta_bg",
                format!("s_first_meta_bg is {first}, but there are {tables} blocks of descriptors"),
            );
        }
        let resize = superblock.compat().has(Compat::RESIZE_INODE);
        if superblock.s_reserved_gdt_blocks > 0 && !resize {
            let reserved = superblock.s_reserved_gdt_blocks;
            error(
                "s_reserved_gdt_blocks",
                format!("{reserved} blocks are kept for descriptors, but without resize_inode"),
            );
        }
        if resize
            && superblock.s_reserved_gdt_blocks > 0
            && let Some(number) = InodeNumber::new(7)
            && let Ok((inode, _)) = self.inode(number)
        {
            let dind = inode.raw.i_block.get(52..56).unwrap_or_default();
            if inode.file_type != Some(crate::FileType::Regular)
                || dind == [0; 4]
                || inode.raw.i_links_count == 0
            {
                let text = "it should keep blocks for more descriptors, but does not".to_owned();
                findings.push(self.inode_finding(number, text));
            }
        }
        let both = superblock.ro_compat().has(RoCompat::METADATA_CSUM)
            && superblock.ro_compat().has(RoCompat::GDT_CSUM);
        if both {
            let text = "metadata_csum and uninit_bg are both set: crc32c counts";
            let finding = Finding::error("superblock", at, text).in_field("s_feature_ro_compat");
            findings.push(finding.with_severity(Severity::Warning));
        }
        findings
    }
}
