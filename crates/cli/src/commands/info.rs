//! `ext4lab info`: the file system as a whole.

use std::io::{self, Write};

use clap::Args;
use ext4::{
    Compat, FieldValue, Filesystem, Finding, GroupFlags, GroupNumber, Incompat, ReadAt, SUPERBLOCK_FIELDS,
    feature_names,
};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, Source},
    bytes::Bytes,
    finding::{FindingRow, rows},
    image::{self, Opened},
    moment::Moment,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab info disk.img
  ext4lab info --groups disk.img
  ext4lab info --json disk.img | jq .superblock.s_mnt_count
";

/// Copies of the superblock that are looked for.
const BACKUPS_MAX: usize = 64;

/// Show the file system as a whole: label, features, sizes, state, journal
///
/// What the image is wrapped in and the partitions of a disk are shown too, and which copies of the superblock there
/// are, for --superblock.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// Show every block group too.
    #[arg(long)]
    groups: bool,

    /// Show every field of the superblock too. JSON has them always.
    #[arg(long)]
    fields: bool,
}

/// A file system.
#[derive(Serialize)]
struct Info {
    layers: Vec<String>,
    partitions: Vec<PartitionRow>,
    partition: Option<u32>,
    /// Where the superblock in use begins.
    superblock_at: u64,
    /// `ext2`, `ext3` or `ext4`, by its features.
    family: &'static str,
    label: Bytes,
    uuid: String,
    last_mounted_on: Bytes,
    features: Vec<String>,
    /// `clean`, `errors`, `orphans`: those that hold.
    state: Vec<&'static str>,
    needs_recovery: bool,
    block_bytes: u32,
    cluster_bytes: u64,
    blocks: u64,
    reserved_blocks: u64,
    free_blocks: u64,
    inode_bytes: u32,
    inodes: u32,
    free_inodes: u32,
    first_inode: u32,
    block_groups: u32,
    blocks_per_group: u32,
    inodes_per_group: u32,
    descriptor_bytes: u32,
    made: Option<Moment>,
    mounted: Option<Moment>,
    written: Option<Moment>,
    checked: Option<Moment>,
    mounts: u16,
    kib_written: u64,
    /// Inode of the journal; none where there is none, or it is external.
    journal_inode: Option<u32>,
    error_count: u32,
    /// Blocks with a good copy of the superblock.
    backups: Vec<u64>,
    superblock: serde_json::Map<String, serde_json::Value>,
    /// Only with `--groups`.
    groups: Option<Vec<GroupRow>>,
    findings: Vec<FindingRow>,
    #[serde(skip)]
    shows_fields: bool,
}

#[derive(Serialize)]
struct PartitionRow {
    number: u32,
    start: u64,
    bytes: u64,
    name: String,
    kind: String,
    is_ext: bool,
}

#[derive(Serialize)]
struct GroupRow {
    number: u32,
    first_block: u64,
    blocks: u32,
    free_blocks: u32,
    free_inodes: u32,
    directories: u32,
    unused_inodes: u32,
    block_bitmap: u64,
    inode_bitmap: u64,
    inode_table: u64,
    flags: Vec<&'static str>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let opened = image::open(&arguments.source)?;
    answer::give(&Info::of(opened, arguments), arguments.source.format())
}

impl Info {
    fn of(opened: Opened, arguments: &Arguments) -> Self {
        let Opened {
            filesystem,
            mut findings,
            unwrapped,
        } = opened;
        let (backups, wrong) = filesystem.backups(BACKUPS_MAX);
        findings.extend(wrong);
        let groups = arguments.groups.then(|| groups(&filesystem, &mut findings));
        let geometry = *filesystem.geometry();
        let s = *filesystem.superblock();
        let partitions = unwrapped.partitions.into_iter().map(|partition| PartitionRow {
            number: partition.number,
            start: partition.start,
            bytes: partition.bytes,
            name: partition.name,
            kind: partition.kind,
            is_ext: partition.is_ext,
        });
        Self {
            layers: unwrapped.layers,
            partitions: partitions.collect(),
            partition: unwrapped.partition,
            superblock_at: filesystem.superblock_offset(),
            family: family(&filesystem),
            label: text(&s.s_volume_name.0),
            uuid: super::uuid(&s.s_uuid),
            last_mounted_on: text(&s.s_last_mounted),
            features: feature_names(&s),
            state: [(1, "clean"), (2, "errors"), (4, "orphans")]
                .into_iter()
                .filter(|(bit, _)| s.s_state & bit != 0)
                .map(|(_, name)| name)
                .collect(),
            needs_recovery: s.incompat().has(Incompat::RECOVER),
            block_bytes: geometry.block_bytes,
            cluster_bytes: u64::from(geometry.block_bytes) * u64::from(geometry.blocks_per_cluster),
            blocks: geometry.blocks,
            reserved_blocks: u64::from(s.s_r_blocks_count_lo)
                | if s.incompat().has(Incompat::BIT64) {
                    u64::from(s.s_r_blocks_count_hi) << 32
                } else {
                    0
                },
            free_blocks: s.free_blocks_count(),
            inode_bytes: geometry.inode_bytes,
            inodes: geometry.inodes,
            free_inodes: s.s_free_inodes_count,
            first_inode: geometry.first_inode,
            block_groups: geometry.groups,
            blocks_per_group: geometry.blocks_per_group,
            inodes_per_group: geometry.inodes_per_group,
            descriptor_bytes: geometry.descriptor_bytes,
            made: Moment::of_seconds(s.s_mkfs_time, s.s_mkfs_time_hi),
            mounted: Moment::of_seconds(s.s_mtime, s.s_mtime_hi),
            written: Moment::of_seconds(s.s_wtime, s.s_wtime_hi),
            checked: Moment::of_seconds(s.s_lastcheck, s.s_lastcheck_hi),
            mounts: s.s_mnt_count,
            kib_written: s.s_kbytes_written,
            journal_inode: Some(s.s_journal_inum)
                .filter(|inode| *inode != 0 && s.compat().has(Compat::HAS_JOURNAL)),
            error_count: s.s_error_count,
            backups: backups.iter().map(|backup| backup.block.0).collect(),
            superblock: fields(filesystem.superblock_bytes()),
            groups,
            findings: rows(findings),
            shows_fields: arguments.fields,
        }
    }
}

/// Text up to the first zero byte.
fn text(bytes: &[u8]) -> Bytes {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Bytes(bytes[..end].to_vec())
}

fn family<R: ReadAt>(filesystem: &Filesystem<R>) -> &'static str {
    let s = filesystem.superblock();
    let ext4 = [
        Incompat::EXTENTS,
        Incompat::BIT64,
        Incompat::FLEX_BG,
        Incompat::INLINE_DATA,
    ];
    let huge = s.ro_compat().has(ext4::RoCompat::HUGE_FILE) || s.ro_compat().has(ext4::RoCompat::GDT_CSUM);
    let checked = s.ro_compat().has(ext4::RoCompat::METADATA_CSUM);
    if huge || checked || ext4.iter().any(|feature| s.incompat().has(*feature)) {
        "ext4"
    } else if s.compat().has(Compat::HAS_JOURNAL) {
        "ext3"
    } else {
        "ext2"
    }
}

/// Every field of the superblock by the kernel's name.
fn fields(bytes: &[u8]) -> serde_json::Map<String, serde_json::Value> {
    let value = |field: &ext4::Field| match field.value(bytes)? {
        FieldValue::Number(number) => Some(number.into()),
        FieldValue::Text(text) => Some(text.into()),
        FieldValue::Uuid(uuid) => Some(super::uuid(&uuid).into()),
        FieldValue::Bytes(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            Some(digits.collect::<String>().into())
        }
    };
    let fields = SUPERBLOCK_FIELDS.iter();
    fields
        .filter_map(|field| Some((field.name.to_owned(), value(field)?)))
        .collect()
}

fn groups<R: ReadAt>(filesystem: &Filesystem<R>, findings: &mut Vec<Finding>) -> Vec<GroupRow> {
    let geometry = filesystem.geometry();
    let mut rows = Vec::new();
    for group in (0..geometry.groups).map(GroupNumber) {
        let (descriptor, wrong) = match filesystem.group(group) {
            Ok(read) => read,
            // Descriptors lie in rising order: where one cannot be read, none behind it can.
            Err(why) => {
                let text = format!("it cannot be read: {why}");
                let offset = geometry.offset_of(geometry.descriptor_of(group).0);
                findings.push(Finding::error(format!("group descriptor {group}"), offset, text));
                break;
            }
        };
        findings.extend(wrong);
        let flags = [
            (GroupFlags::INODE_UNINIT, "inodes uninitialised"),
            (GroupFlags::BLOCK_UNINIT, "block bitmap uninitialised"),
            (GroupFlags::INODE_ZEROED, "inode table zeroed"),
        ];
        rows.push(GroupRow {
            number: group.0,
            first_block: geometry.first_block_of(group).0,
            blocks: geometry.blocks_in(group),
            free_blocks: descriptor.free_blocks,
            free_inodes: descriptor.free_inodes,
            directories: descriptor.directories,
            unused_inodes: descriptor.unused_inodes,
            block_bitmap: descriptor.block_bitmap.0,
            inode_bitmap: descriptor.inode_bitmap.0,
            inode_table: descriptor.inode_table.0,
            flags: flags
                .into_iter()
                .filter(|(flag, _)| descriptor.flags.has(*flag))
                .map(|(_, name)| name)
                .collect(),
        });
    }
    rows
}

impl Answer for Info {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut row = |name: &str, value: String| writeln!(out, "{name:<18}{value}");
        for layer in &self.layers {
            row("inside", layer.clone())?;
        }
        for partition in &self.partitions {
            let chosen = match self.partition == Some(partition.number) {
                true => "; this one is shown",
                false => "",
            };
            let PartitionRow {
                number,
                bytes,
                kind,
                name,
                ..
            } = partition;
            row(
                &format!("partition {number}"),
                format!("{kind} {name:?}, {bytes} bytes{chosen}"),
            )?;
        }
        row("file system", self.family.to_owned())?;
        row("label", self.label.to_string())?;
        row("uuid", self.uuid.clone())?;
        row("last mounted on", self.last_mounted_on.to_string())?;
        row("features", self.features.join(" "))?;
        let recovery = match self.needs_recovery {
            true => "; the journal has to be replayed",
            false => "",
        };
        row("state", format!("{}{recovery}", self.state.join(", ")))?;
        let cluster = match self.cluster_bytes > u64::from(self.block_bytes) {
            true => format!(", clusters of {}", self.cluster_bytes),
            false => String::new(),
        };
        row(
            "blocks",
            format!(
                "{} of {} bytes{cluster}; {} free, {} reserved",
                self.blocks, self.block_bytes, self.free_blocks, self.reserved_blocks
            ),
        )?;
        row(
            "inodes",
            format!(
                "{} of {} bytes; {} free; from {} on for files",
                self.inodes, self.inode_bytes, self.free_inodes, self.first_inode
            ),
        )?;
        row(
            "groups",
            format!(
                "{} of {} blocks and {} inodes; descriptors of {} bytes",
                self.block_groups, self.blocks_per_group, self.inodes_per_group, self.descriptor_bytes
            ),
        )?;
        for (name, moment) in [
            ("made", self.made),
            ("mounted", self.mounted),
            ("written", self.written),
            ("checked", self.checked),
        ] {
            row(name, moment.map_or("never".to_owned(), Moment::short))?;
        }
        row("mounts", format!("{} since the last check", self.mounts))?;
        row("written in all", format!("{} KiB", self.kib_written))?;
        if let Some(inode) = self.journal_inode {
            row("journal", format!("inode {inode}"))?;
        }
        if self.error_count > 0 {
            row(
                "errors",
                format!("{} seen since the last check", self.error_count),
            )?;
        }
        row("superblock", format!("at byte {}", self.superblock_at))?;
        let backups: Vec<_> = self.backups.iter().map(ToString::to_string).collect();
        row("copies in blocks", backups.join(", "))?;
        if self.shows_fields {
            for (name, value) in &self.superblock {
                row(name, value.to_string())?;
            }
        }
        for group in self.groups.iter().flatten() {
            group.print(out)?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}

impl GroupRow {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "group {}: blocks {}-{}, bitmaps {} and {}, inode table {}; {} blocks and {} inodes free, {} directories{}{}",
            self.number,
            self.first_block,
            self.first_block + u64::from(self.blocks.saturating_sub(1)),
            self.block_bitmap,
            self.inode_bitmap,
            self.inode_table,
            self.free_blocks,
            self.free_inodes,
            self.directories,
            if self.flags.is_empty() { "" } else { "; " },
            self.flags.join(", ")
        )
    }
}
