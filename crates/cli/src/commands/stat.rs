//! `ext4lab stat`: everything about an inode.

use std::io::{self, Write};

use clap::Args;
use ext4::{Filesystem, Inode, InodeNumber, ReadAt};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, InImage, Source},
    bytes::Bytes,
    finding::{FindingRow, rows},
    image,
    inode::{AttributeRow, Device, NodeRow, RunRow, mode_text, target, type_name},
    moment::Moment,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab stat disk.img /etc/passwd
  ext4lab stat --json disk.img '<8>' | jq .runs
";

/// Extra bytes of an inode up to a field's end: what debugfs goes by to show the field.
const EXTRA_FOR_CHECKSUM: u16 = 4;
const EXTRA_FOR_VERSION: u16 = 28;
const EXTRA_FOR_PROJECT: u16 = 32;

/// Show everything about an inode, as debugfs stat does
///
/// Times are in UTC with nanoseconds; flags are written out. What is wrong with the inode, its map and its attributes
/// follows.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    path: InImage,
}

/// An inode.
#[derive(Serialize)]
struct Stat {
    inode: u32,
    location: Location,
    /// Whether the inode bitmap has it in use; none where that cannot be read.
    in_use: Option<bool>,
    #[serde(rename = "type")]
    file_type: &'static str,
    mode: u16,
    mode_text: String,
    flags: u32,
    flag_names: Vec<String>,
    generation: u32,
    version: u64,
    uid: u32,
    gid: u32,
    project: Option<u32>,
    size: u64,
    links: u16,
    /// `i_blocks`, and the bytes that one of them stands for.
    blocks: u64,
    block_unit: u32,
    attribute_block: Option<u64>,
    fragment_address: u32,
    accessed: Moment,
    changed: Moment,
    modified: Moment,
    created: Option<Moment>,
    /// `i_dtime`: the moment of deletion, or while it is an orphan the number of the next one.
    deletion: u32,
    extra_bytes: u16,
    checksum: Option<Checksum>,
    device: Option<Device>,
    target: Option<Bytes>,
    attributes: Vec<AttributeRow>,
    runs: Vec<RunRow>,
    map: Vec<NodeRow>,
    findings: Vec<FindingRow>,
}

/// Where the inode lies.
#[derive(Serialize)]
struct Location {
    group: u32,
    index: u32,
    block: u64,
    offset: u32,
}

#[derive(Serialize)]
struct Checksum {
    stored: u32,
    right: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let number = filesystem.find(arguments.path.bytes())?;
    answer::give(&Stat::of(&filesystem, number)?, arguments.source.format())
}

impl Stat {
    fn of<R: ReadAt>(filesystem: &Filesystem<R>, number: InodeNumber) -> Result<Self, Failure> {
        let location = filesystem.locate(number)?;
        let bytes = filesystem.inode_bytes(number)?;
        let (inode, mut findings) = filesystem.inode(number)?;
        let (attributes, wrong) = filesystem.attributes(number, &inode);
        findings.extend(wrong);
        let mapping = filesystem.mapping(number, &inode);
        findings.extend(mapping.findings);
        let raw = inode.raw;
        let has = |extra: u16| raw.i_extra_isize >= extra;
        let version_high = if has(EXTRA_FOR_VERSION) {
            raw.i_version_hi
        } else {
            0
        };
        Ok(Self {
            inode: number.get(),
            in_use: in_use(filesystem, &location),
            location: Location {
                group: location.group.0,
                index: location.index,
                block: location.block.0,
                offset: location.offset,
            },
            file_type: type_name(inode.file_type),
            mode: raw.i_mode,
            mode_text: mode_text(&inode),
            flags: inode.flags.0,
            flag_names: inode.flags.names(),
            generation: raw.i_generation,
            version: u64::from(raw.i_version) | u64::from(version_high) << 32,
            uid: inode.uid,
            gid: inode.gid,
            project: has(EXTRA_FOR_PROJECT).then_some(raw.i_projid),
            size: inode.size,
            links: raw.i_links_count,
            blocks: inode.blocks,
            block_unit: match inode.flags.has(ext4::InodeFlags::HUGE_FILE) {
                true => filesystem.geometry().block_bytes,
                false => 512,
            },
            attribute_block: Some(inode.attribute_block).filter(|block| *block != 0),
            fragment_address: raw.i_obso_faddr,
            accessed: Moment(inode.accessed),
            changed: Moment(inode.changed),
            modified: Moment(inode.modified),
            created: inode.created.map(Moment),
            deletion: raw.i_dtime,
            extra_bytes: raw.i_extra_isize,
            checksum: filesystem
                .inode_checksum_right(number, &bytes)
                .map(|right| Checksum {
                    stored: stored_checksum(&inode),
                    right,
                }),
            device: Device::of(&inode),
            target: target(filesystem, number, &inode),
            attributes: attributes.into_iter().map(AttributeRow::from).collect(),
            runs: mapping.runs.into_iter().map(RunRow::from).collect(),
            map: mapping.nodes.into_iter().map(NodeRow::from).collect(),
            findings: rows(findings),
        })
    }
}

fn stored_checksum(inode: &Inode) -> u32 {
    let high = if inode.raw.i_extra_isize >= EXTRA_FOR_CHECKSUM {
        inode.raw.i_checksum_hi
    } else {
        0
    };
    u32::from(inode.raw.i_checksum_lo) | u32::from(high) << 16
}

/// What the bitmap says.
fn in_use<R: ReadAt>(filesystem: &Filesystem<R>, location: &ext4::InodeLocation) -> Option<bool> {
    let (descriptor, _) = filesystem.group(location.group).ok()?;
    let bitmap = filesystem.inode_bitmap(location.group, &descriptor).ok()?;
    let byte = bitmap.get((location.index / 8) as usize)?;
    Some(byte >> (location.index % 8) & 1 != 0)
}

impl Answer for Stat {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut row = |name: &str, value: String| writeln!(out, "{name:<16}{value}");
        let Location {
            group,
            index,
            block,
            offset,
        } = self.location;
        row("inode", self.inode.to_string())?;
        row(
            "location",
            format!("group {group}, index {index}: block {block}, byte {offset}"),
        )?;
        let in_use = match self.in_use {
            Some(true) => "in use",
            Some(false) => "free",
            None => "unreadable",
        };
        row("bitmap", in_use.to_owned())?;
        row("type", self.file_type.to_owned())?;
        row("mode", format!("{} ({:04o})", self.mode_text, self.mode & 0o7777))?;
        row(
            "flags",
            format!("{:#x} ({})", self.flags, self.flag_names.join(", ")),
        )?;
        row("generation", self.generation.to_string())?;
        row("version", format!("{:#x}", self.version))?;
        row("user", self.uid.to_string())?;
        row("group", self.gid.to_string())?;
        if let Some(project) = self.project {
            row("project", project.to_string())?;
        }
        row("size", self.size.to_string())?;
        row("links", self.links.to_string())?;
        row("blocks", format!("{} of {} bytes", self.blocks, self.block_unit))?;
        if let Some(block) = self.attribute_block {
            row("attribute block", block.to_string())?;
        }
        if self.fragment_address != 0 {
            row("fragment", self.fragment_address.to_string())?;
        }
        row("accessed", self.accessed.to_string())?;
        row("changed", self.changed.to_string())?;
        row("modified", self.modified.to_string())?;
        if let Some(created) = self.created {
            row("created", created.to_string())?;
        }
        if self.deletion != 0 {
            let moment = Moment::of_seconds(self.deletion, 0).map(Moment::short);
            let moment = moment.unwrap_or_default();
            row("deleted", format!("{moment}, or next orphan {}", self.deletion))?;
        }
        row("extra bytes", self.extra_bytes.to_string())?;
        if let Some(Checksum { stored, right }) = self.checksum {
            let word = if right { "right" } else { "wrong" };
            row("checksum", format!("{stored:#010x}, {word}"))?;
        }
        if let Some(Device { major, minor }) = self.device {
            row("device", format!("{major}, {minor}"))?;
        }
        if let Some(target) = &self.target {
            row("target", format!("\"{target}\""))?;
        }
        for attribute in &self.attributes {
            let value = match &attribute.acl {
                Some(entries) => entries.join(","),
                None => attribute.value_text(),
            };
            row(
                "attribute",
                format!("{}={value}  ({})", attribute.name, attribute.place_text()),
            )?;
        }
        for node in &self.map {
            row("map block", node_text(node))?;
        }
        if !self.runs.is_empty() {
            let runs: Vec<_> = self.runs.iter().map(ToString::to_string).collect();
            row("runs", runs.join(", "))?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}

fn node_text(node: &NodeRow) -> String {
    let NodeRow {
        block,
        depth,
        logical,
        entries,
        ..
    } = node;
    format!("{block}, level {depth}, from logical block {logical} on, {entries} entries")
}
