//! What can be asked for on the command line, as far as subcommands share it.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::{
    answer::Format,
    commands::{
        blocks, cat, compare, completions, info, journal, ls, mkfs, orphans, profiles, reproduce, run, scan,
        stat, tree, xattr,
    },
};

/// What every subcommand's help ends with.
pub(crate) const EXIT_STATUS: &str = "\
Exit status:
  0  fine; there may be notes and warnings
  1  what was asked for is not there, or is damaged
  2  the image cannot be opened, or the command line is wrong";

/// Shows and checks ext2, ext3 and ext4 images, and runs simulated CPUs over them. An image is never written to.
///
/// An image is a file or block device with a file system on it, or with a partition table, or a QCOW2, Android
/// sparse or gzip file with either in it.
#[derive(Debug, Parser)]
#[command(name = "ext4lab", version, after_long_help = EXIT_STATUS)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Info(info::Arguments),
    Ls(ls::Arguments),
    Stat(stat::Arguments),
    Cat(cat::Arguments),
    Tree(tree::Arguments),
    Blocks(blocks::Arguments),
    Xattr(xattr::Arguments),
    Journal(journal::Arguments),
    Orphans(orphans::Arguments),
    Scan(scan::Arguments),
    Run(run::Arguments),
    Mkfs(mkfs::Arguments),
    Compare(compare::Arguments),
    Reproduce(reproduce::Arguments),
    Profiles(profiles::Arguments),
    Completions(completions::Arguments),
}

/// Which image is read, how, and in what form it is told.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// The image: a file or a block device.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,

    /// Answer with one JSON object; docs/json.md says what is in it.
    #[arg(long)]
    json: bool,

    /// Read the image as it would be after its journal has been replayed. Nothing is written.
    #[arg(long)]
    pub(crate) replayed: bool,

    /// Use the copy of the superblock in this block instead of the primary one.
    #[arg(long, value_name = "BLOCK", conflicts_with = "superblock_at")]
    pub(crate) superblock: Option<u64>,

    /// The block size in bytes that --superblock counts in. Without it all sizes are tried.
    #[arg(long, value_name = "BYTES", requires = "superblock")]
    pub(crate) block_size: Option<u64>,

    /// Use the copy of the superblock at this offset in bytes.
    #[arg(long, value_name = "BYTES")]
    pub(crate) superblock_at: Option<u64>,

    /// Read this partition of a disk, counted as Linux does. Without it: the first with ext2, ext3 or ext4.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partition: Option<u32>,
}

impl Source {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

/// A path in the image.
#[derive(Debug, Args)]
pub(crate) struct InImage {
    /// A path from the root, or the number of an inode in angle brackets, such as '<12>'.
    ///
    /// Symbolic links are followed in its middle, but not at its end.
    #[arg(value_name = "PATH", default_value = "/")]
    path: OsString,
}

impl InImage {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.path.as_bytes()
    }
}
