//! `ext4lab mkfs`: a new file system in a new file.

use std::{
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::{Args, ValueEnum};
use ext4::{Compat, Incompat, NewFilesystem, RoCompat, Timestamp, Volume, Zeros};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Format, Verdict},
    arguments::EXIT_STATUS,
    finding::FindingRow,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab mkfs disk.img 1G
  ext4lab mkfs disk.img 2T --features orphan_file,metadata_csum_seed
  ext4lab mkfs disk.img 64M --type ext2 --block-size 1024 --inode-size 128
";

/// Make a file system in a new, sparse file
///
/// It is laid out as mke2fs of e2fsprogs 1.47 does; inode tables are left to ext4lazyinit where they can be.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    /// The file to make; nothing is written over one that is there.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Its size: a number of bytes, or one with K, M, G or T.
    #[arg(value_name = "SIZE", value_parser = size)]
    size: u64,

    /// The features to begin with.
    #[arg(long = "type", value_enum, default_value_t = Style::Ext4)]
    style: Style,

    /// Features to add, or with ^ before the name to leave out, parted by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    features: Vec<String>,

    /// Bytes per block, 1024 to 65536.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    block_size: u32,

    /// Bytes per inode, 128 to the block size.
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    inode_size: u32,

    /// How many inodes. Without it one for every 16 KiB.
    #[arg(long, value_name = "NUMBER")]
    inodes: Option<u32>,

    /// Blocks per group. Without it as many as a bitmap has bits.
    #[arg(long, value_name = "NUMBER")]
    blocks_per_group: Option<u32>,

    /// Blocks of the journal. Without it as many as the size suggests.
    #[arg(long, value_name = "NUMBER")]
    journal_blocks: Option<u32>,

    /// Say that the inode tables are zeroed, as a new sparse file is.
    #[arg(long)]
    zeroed: bool,

    /// The UUID. Without it a random one.
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    uuid: Option<[u8; 16]>,

    /// Answer with one JSON object; docs/json.md says what is in it.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Style {
    Ext2,
    Ext3,
    Ext4,
}

fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("a size is a number, or one with K, M, G or T, such as 64M".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a size begins with a whole number, such as 64M".to_owned())?;
    let bytes = number.checked_mul(1 << shift);
    bytes
        .filter(|bytes| *bytes >= 1 << 20)
        .ok_or_else(|| "a file system has at least 1M".to_owned())
}

fn uuid(text: &str) -> Result<[u8; 16], String> {
    let wrong = || "a UUID is 32 hexadecimal digits, with or without hyphens".to_owned();
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return Err(wrong());
    }
    let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
    Ok(number.to_be_bytes())
}

/// A random UUID, of the sort that says so.
fn random_uuid() -> [u8; 16] {
    let half = || RandomState::new().build_hasher().finish();
    let mut bytes = (u128::from(half()) << 64 | u128::from(half())).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// Adds a feature or leaves it out.
fn apply(new: &mut NewFilesystem, word: &str) -> Result<(), String> {
    let (name, on) = match word.strip_prefix('^') {
        Some(name) => (name, false),
        None => (word, true),
    };
    let sets = [
        (Compat::NAMES, &mut new.compat.0),
        (Incompat::NAMES, &mut new.incompat.0),
        (RoCompat::NAMES, &mut new.ro_compat.0),
    ];
    for (names, bits) in sets {
        if let Some(feature) = names.iter().find(|feature| feature.name == name) {
            *bits = if on {
                *bits | feature.bit
            } else {
                *bits & !feature.bit
            };
            return Ok(());
        }
    }
    Err(format!(
        "there is no feature {name}; `ext4lab info` shows those of an image"
    ))
}

#[derive(Serialize)]
struct Made {
    file: String,
    bytes: u64,
    blocks: u64,
    block_bytes: u32,
    groups: u32,
    inodes: u32,
    inodes_per_group: u32,
    free_blocks: u64,
    features: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp {
        seconds: now.as_secs().cast_signed(),
        nanoseconds: 0,
    };
    let id = arguments.uuid.unwrap_or_else(random_uuid);
    let begin = match arguments.style {
        Style::Ext2 => NewFilesystem::ext2,
        Style::Ext3 => NewFilesystem::ext3,
        Style::Ext4 => NewFilesystem::ext4,
    };
    let mut new = NewFilesystem {
        block_bytes: arguments.block_size,
        inode_bytes: arguments.inode_size,
        inodes: arguments.inodes,
        blocks_per_group: arguments.blocks_per_group,
        journal_blocks: arguments.journal_blocks,
        hash_seed: random_uuid(),
        ..begin(arguments.size, id, now)
    };
    new.lazy_tables &= !arguments.zeroed;
    for word in &arguments.features {
        apply(&mut new, word).map_err(Failure::CannotOpen)?;
    }
    let why = |why: &dyn std::fmt::Display| {
        Failure::CannotOpen(format!(
            "{}: no file system is made: {why}",
            arguments.file.display()
        ))
    };
    let volume = new.make().map_err(|error| why(&error))?;
    store(&volume, &arguments.file).map_err(|error| why(&error))?;
    let geometry = *volume.geometry();
    let made = Made {
        file: arguments.file.display().to_string(),
        bytes: geometry.blocks * u64::from(geometry.block_bytes),
        blocks: geometry.blocks,
        block_bytes: geometry.block_bytes,
        groups: geometry.groups,
        inodes: geometry.inodes,
        inodes_per_group: geometry.inodes_per_group,
        free_blocks: volume.free_blocks(),
        features: ext4::feature_names(volume.superblock()),
    };
    answer::give(
        &made,
        if arguments.json {
            Format::Json
        } else {
            Format::Text
        },
    )
}

/// Writes what is not zero; the rest stays a hole.
fn store(volume: &Volume<Zeros>, path: &Path) -> io::Result<()> {
    let file = File::create_new(path)?;
    let geometry = volume.geometry();
    file.set_len(geometry.blocks * u64::from(geometry.block_bytes))?;
    // Blocks that follow each other are written at once.
    let (mut begin, mut run): (u64, Vec<u8>) = (0, Vec::new());
    for block in volume.overlay().changed_blocks() {
        let at = geometry.offset_of(block.number());
        if at != begin + run.len() as u64 || run.len() > RUN {
            write_run(&file, begin, &run)?;
            (begin, run) = (at, Vec::new());
        }
        run.extend(block.to_vec());
    }
    write_run(&file, begin, &run)
}

/// Bytes that are written at once, give or take a block.
const RUN: usize = 1 << 20;

fn write_run(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    match bytes.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => file.write_all_at(bytes, at),
    }
}

impl Answer for Made {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self {
            file,
            blocks,
            block_bytes,
            groups,
            inodes,
            inodes_per_group,
            ..
        } = self;
        writeln!(
            out,
            "{file}: {blocks} blocks of {block_bytes} bytes in {groups} groups"
        )?;
        writeln!(out, "{inodes} inodes, {inodes_per_group} to a group")?;
        writeln!(out, "{}", self.features.join(" "))
    }

    fn findings(&self) -> &[FindingRow] {
        &[]
    }
}
