//! The explorer's screens, computed from an open image.

use ext4::{
    Compat, Field, FieldValue, FileType, Filesystem, GroupFlags, GroupNumber, INODE_FIELDS, Incompat,
    InodeNumber, ReadAt, ReadFailure, SUPERBLOCK_FIELDS, SlotState, Timestamp, container::Peeled,
    feature_names,
};

use super::{
    FieldRow, Finding, GroupRow, InodeCard, Moment, Overview, PartitionRow, Severity, Slot, TableWindow,
};

impl From<ext4::Finding> for Finding {
    fn from(finding: ext4::Finding) -> Self {
        let severity = match finding.severity {
            ext4::Severity::Note => Severity::Note,
            ext4::Severity::Warning => Severity::Warning,
            ext4::Severity::Error => Severity::Error,
        };
        Self {
            severity,
            structure: finding.structure,
            field: finding.field.map(str::to_owned),
            offset: finding.offset,
            inode: finding.inode.map(ext4::InodeNumber::get),
            text: finding.text,
        }
    }
}

impl From<SlotState> for Slot {
    fn from(state: SlotState) -> Self {
        match state {
            SlotState::Free => Self::Free,
            SlotState::NeverInitialised => Self::NeverInitialised,
            SlotState::Reserved => Self::Reserved,
            SlotState::Used(Some(FileType::Directory)) => Self::Directory,
            SlotState::Used(Some(FileType::Symlink)) => Self::Symlink,
            SlotState::Used(_) => Self::File,
            SlotState::Orphan => Self::Orphan,
            SlotState::Missing => Self::Missing,
        }
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        }
    }
}

/// The image as a whole. `findings` are those of opening it.
pub fn overview<R: ReadAt>(
    filesystem: &Filesystem<R>,
    findings: Vec<ext4::Finding>,
    file_name: &str,
) -> Overview {
    let (s, geometry) = (filesystem.superblock(), filesystem.geometry());
    let ext4_only = Incompat::EXTENTS.0 | Incompat::BIT64.0 | Incompat::FLEX_BG.0 | Incompat::INLINE_DATA.0;
    let family = if s.incompat().0 & ext4_only != 0 || s.ro_compat().0 & !0x7 != 0 {
        "ext4"
    } else if s.compat().has(Compat::HAS_JOURNAL) {
        "ext3"
    } else {
        "ext2"
    };
    Overview {
        file_name: file_name.to_owned(),
        file_bytes: filesystem.image().size(),
        label: s.s_volume_name.text(),
        uuid: uuid(&s.s_uuid),
        family: family.to_owned(),
        block_bytes: geometry.block_bytes,
        inode_bytes: geometry.inode_bytes,
        blocks: geometry.blocks,
        free_blocks: s.free_blocks_count(),
        inodes: geometry.inodes,
        free_inodes: s.s_free_inodes_count,
        groups: geometry.groups,
        first_data_block: geometry.first_data_block,
        blocks_per_group: geometry.blocks_per_group,
        inodes_per_group: geometry.inodes_per_group,
        slots_per_block: geometry.slots_per_block(),
        table_blocks_per_group: geometry.table_blocks_per_group(),
        features: feature_names(s),
        superblock: fields(SUPERBLOCK_FIELDS, filesystem.superblock_bytes()),
        findings: findings.into_iter().map(Finding::from).collect(),
        layers: Vec::new(),
        partitions: Vec::new(),
        partition: None,
        dirty: s.incompat().has(Incompat::RECOVER),
        replayed: false,
    }
}

/// Adds what the image was wrapped in. `chosen` is the partition that was asked for.
pub fn wrap(overview: &mut Overview, peeled: &Peeled, chosen: Option<u32>) {
    overview.layers = peeled.layers.clone();
    overview.partitions = peeled
        .partitions
        .iter()
        .map(|partition| {
            let parts = [partition.name.as_str(), partition.kind.as_str()];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            PartitionRow {
                number: partition.number,
                bytes: partition.bytes,
                title: parts.join(", "),
                is_ext: partition.is_ext,
            }
        })
        .collect();
    let first = peeled.partitions.iter().find(|partition| partition.is_ext);
    overview.partition = chosen.or_else(|| first.map(|partition| partition.number));
}

/// One row of the group list.
///
/// # Errors
/// [`ReadFailure`] where there is no such group, or its descriptor cannot be read.
pub fn group_row<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: GroupNumber,
) -> Result<GroupRow, ReadFailure> {
    let geometry = filesystem.geometry();
    let (group, findings) = filesystem.group(number)?;
    Ok(GroupRow {
        number: number.0,
        blocks: geometry.blocks_in(number),
        free_blocks: group.free_blocks.saturating_mul(geometry.blocks_per_cluster),
        used_inodes: geometry.inodes_per_group.saturating_sub(group.free_inodes),
        free_inodes: group.free_inodes,
        directories: group.directories,
        unused_inodes: group.unused_inodes,
        inode_table: group.inode_table.0,
        block_uninit: group.flags.has(GroupFlags::BLOCK_UNINIT),
        inode_uninit: group.flags.has(GroupFlags::INODE_UNINIT),
        zeroed: group.flags.has(GroupFlags::INODE_ZEROED),
        findings: findings.into_iter().map(Finding::from).collect(),
    })
}

/// The states of the slots in some blocks of a group's inode table.
///
/// # Errors
/// [`ReadFailure`] where there is no such group or block.
pub fn table_window<R: ReadAt>(
    filesystem: &Filesystem<R>,
    group: GroupNumber,
    first: u32,
    count: u32,
) -> Result<TableWindow, ReadFailure> {
    let geometry = filesystem.geometry();
    let (descriptor, _) = filesystem.group(group)?;
    let begin = first
        .checked_mul(geometry.slots_per_block())
        .ok_or(ReadFailure::OutOfRange)?;
    let first_inode = geometry.inode_at(group, begin).ok_or(ReadFailure::OutOfRange)?;
    Ok(TableWindow {
        group: group.0,
        first,
        first_inode: first_inode.get(),
        first_block: descriptor.inode_table.0.saturating_add(u64::from(first)),
        slots: filesystem
            .slots(group, first, count)
            .into_iter()
            .map(Slot::from)
            .collect(),
    })
}

/// Everything about one inode.
///
/// # Errors
/// [`ReadFailure`] where there is no such inode, or it cannot be read.
pub fn inode_card<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: InodeNumber,
) -> Result<InodeCard, ReadFailure> {
    let location = filesystem.locate(number)?;
    let per_block = filesystem.geometry().slots_per_block().max(1);
    let slots = filesystem.slots(location.group, location.index / per_block, 1);
    let slot = slots
        .get((location.index % per_block) as usize)
        .copied()
        .unwrap_or(SlotState::Missing);
    let mut card = InodeCard {
        number: number.get(),
        group: location.group.0,
        block: location.block.0,
        offset: filesystem.inode_offset(&location),
        slot: slot.into(),
        role: role(filesystem, number.get()).map(str::to_owned),
        mode: String::new(),
        uid: 0,
        gid: 0,
        size: 0,
        links: 0,
        sectors: 0,
        times: Vec::new(),
        flags: Vec::new(),
        checksum_right: None,
        fields: Vec::new(),
        bytes: Vec::new(),
        findings: Vec::new(),
    };
    if matches!(slot, SlotState::NeverInitialised | SlotState::Missing) {
        // Its bytes mean nothing, or are not there.
        return Ok(card);
    }
    let bytes = filesystem.inode_bytes(number)?;
    let (inode, findings) = filesystem.inode(number)?;
    card.fields = fields(INODE_FIELDS, &bytes);
    if slot != SlotState::Free {
        card.mode = mode(inode.file_type, inode.raw.i_mode);
        (card.uid, card.gid, card.size) = (inode.uid, inode.gid, inode.size);
        (card.links, card.sectors) = (u32::from(inode.raw.i_links_count), inode.blocks);
        card.flags = inode.flags.names();
        let mut times = vec![
            ("accessed", inode.accessed),
            ("changed", inode.changed),
            ("modified", inode.modified),
        ];
        times.extend(inode.created.map(|created| ("created", created)));
        card.times = times
            .into_iter()
            .map(|(name, time)| (name.to_owned(), time.into()))
            .collect();
        card.checksum_right = filesystem.inode_checksum_right(number, &bytes);
        card.findings = findings.into_iter().map(Finding::from).collect();
    }
    card.bytes = bytes;
    Ok(card)
}

pub(super) fn fields(fields: &[Field], record: &[u8]) -> Vec<FieldRow> {
    let row = |field: &Field| {
        let value = match field.value(record)? {
            FieldValue::Number(number) if field.name.contains("flags") || field.name.contains("checksum") => {
                format!("{number:#x}")
            }
            FieldValue::Number(number) => number.to_string(),
            FieldValue::Text(text) => text,
            FieldValue::Uuid(bytes) => uuid(&bytes),
            FieldValue::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        Some(FieldRow {
            name: field.name.to_owned(),
            offset: field.offset as u32,
            width: field.width as u32,
            value,
            meaning: field.meaning.to_owned(),
            link: None,
        })
    };
    fields.iter().filter_map(row).collect()
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// What a reserved or hidden inode is for.
pub(super) fn role<R: ReadAt>(filesystem: &Filesystem<R>, number: u32) -> Option<&'static str> {
    let s = filesystem.superblock();
    Some(match number {
        1 => "bad blocks",
        2 => "root directory",
        3 => "user quota",
        4 => "group quota",
        5 => "boot loader",
        6 => "undelete directory, unused",
        7 => "blocks kept for more group descriptors",
        8 => "journal",
        9 => "snapshots, unused",
        10 => "replica, unused",
        _ if number == s.s_orphan_file_inum => "orphan file",
        _ if number == s.s_prj_quota_inum => "project quota",
        _ => return None,
    })
}

/// Type and permissions as `ls -l` prints them.
fn mode(file_type: Option<FileType>, mode: u16) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut text = String::from(file_type.map_or('?', FileType::letter));
    for (shift, (bit, with, without)) in [6, 3, 0].into_iter().zip(special) {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & bit != 0, bits & 1 != 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_as_ls_prints_them() {
        assert_eq!(mode(Some(FileType::Directory), 0o041_777), "drwxrwxrwt");
        assert_eq!(mode(Some(FileType::Regular), 0o104_755), "-rwsr-xr-x");
        assert_eq!(mode(None, 0o640), "?rw-r-----");
    }
}
