//! `ext4lab journal`: what the journal holds, and what replaying it would change.

use std::io::{self, Write};

use clap::Args;
use ext4::{Incompat, Journal, JournalError, Replayed, Superblock, container::Image};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, Source},
    finding::{FindingRow, rows},
    image,
    moment::Moment,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab journal disk.img
  ext4lab journal --json disk.img | jq '.transactions[].tags[].block'
";

/// Show the journal: superblock, transactions, fast commits, and what a replay would change
///
/// The transactions are those that a replay would carry out, oldest first. An external journal may be given as IMAGE
/// too.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
}

/// A journal.
#[derive(Serialize)]
struct JournalAnswer {
    superblock: SuperblockRow,
    transactions: Vec<TransactionRow>,
    /// Why the log ends where it does.
    end: String,
    fast_commits: Vec<FastCommitRow>,
    /// Blocks that would read differently after a replay; none of an external journal.
    differing: Vec<u64>,
    findings: Vec<FindingRow>,
}

#[derive(Serialize)]
struct SuperblockRow {
    version: u32,
    block_bytes: u32,
    blocks: u32,
    first: u32,
    sequence: u32,
    start: u32,
    errno: u32,
    features: Vec<String>,
    uuid: String,
    users: u32,
    fast_commit_blocks: u32,
}

#[derive(Serialize)]
struct TransactionRow {
    sequence: u32,
    first: u32,
    committed: Option<Moment>,
    tags: Vec<TagRow>,
    revoked: Vec<u64>,
}

#[derive(Serialize)]
struct TagRow {
    block: u64,
    at: u32,
    escaped: bool,
    checksum_right: Option<bool>,
}

#[derive(Serialize)]
struct FastCommitRow {
    operation: &'static str,
    inode: Option<u32>,
    bytes: u16,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let image = image::unwrap(&arguments.source)?.image;
    let (journal, differing) = if is_external(&image) {
        let (journal, _) = ext4::external_journal(&image).map_err(not_there)?;
        (journal, Vec::new())
    } else {
        let filesystem = image::open_for_use(&arguments.source)?;
        let journal = filesystem.journal().map_err(not_there)?;
        let replayed = Replayed::new(filesystem.image(), &journal);
        let differing = replayed.differing().into_iter().map(|block| block.0);
        (journal, differing.collect())
    };
    answer::give(&JournalAnswer::of(journal, differing), arguments.source.format())
}

fn not_there(error: JournalError) -> Failure {
    Failure::NotThere(error.to_string())
}

fn is_external(image: &Image) -> bool {
    let mut bytes = vec![0; ext4::SUPERBLOCK_BYTES];
    let superblock = image
        .read_at(1024, &mut bytes)
        .map(|()| Superblock::decode(&bytes));
    superblock.is_ok_and(|superblock| {
        superblock.s_magic == 0xef53 && superblock.incompat().has(Incompat::JOURNAL_DEV)
    })
}

impl JournalAnswer {
    fn of(journal: Journal, differing: Vec<u64>) -> Self {
        let superblock = journal.superblock;
        let transactions = journal.transactions.into_iter().map(|transaction| {
            let tags = transaction.tags.into_iter().map(|tag| TagRow {
                block: tag.block.0,
                at: tag.at,
                escaped: tag.escaped,
                checksum_right: tag.checksum_right,
            });
            TransactionRow {
                sequence: transaction.sequence,
                first: transaction.first,
                committed: committed(transaction.committed_at),
                tags: tags.collect(),
                revoked: transaction.revoked.into_iter().map(|block| block.0).collect(),
            }
        });
        let fast_commits = journal.fast_commits.into_iter().map(|tag| FastCommitRow {
            operation: tag.name,
            inode: Some(tag.inode).filter(|inode| *inode != 0),
            bytes: tag.bytes,
        });
        Self {
            superblock: SuperblockRow {
                version: superblock.version,
                block_bytes: superblock.block_bytes,
                blocks: superblock.blocks,
                first: superblock.first,
                sequence: superblock.sequence,
                start: superblock.start,
                errno: superblock.errno,
                features: superblock.features.names(),
                uuid: super::uuid(&superblock.uuid),
                users: superblock.users,
                fast_commit_blocks: superblock.fast_commit_blocks,
            },
            transactions: transactions.collect(),
            end: journal.end,
            fast_commits: fast_commits.collect(),
            differing,
            findings: rows(journal.findings),
        }
    }
}

/// When a transaction was committed. Beyond 36,000 years the number is no moment.
fn committed(seconds: u64) -> Option<Moment> {
    let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds < 1 << 40)?;
    Some(Moment(ext4::Timestamp {
        seconds,
        nanoseconds: 0,
    }))
}

impl Answer for JournalAnswer {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let s = &self.superblock;
        let mut row = |name: &str, value: String| writeln!(out, "{name:<16}{value}");
        row("version", s.version.to_string())?;
        row("blocks", format!("{} of {} bytes", s.blocks, s.block_bytes))?;
        row("features", s.features.join(" "))?;
        row("uuid", s.uuid.clone())?;
        row("users", s.users.to_string())?;
        row("log", format!("from block {} on", s.first))?;
        let start = match s.start {
            0 => "empty".to_owned(),
            start => format!("begins at block {start}, transaction {}", s.sequence),
        };
        row("content", start)?;
        if s.errno != 0 {
            row("error", s.errno.to_string())?;
        }
        if s.fast_commit_blocks != 0 {
            row("fast commits", format!("{} blocks", s.fast_commit_blocks))?;
        }
        row("end", self.end.clone())?;
        for transaction in &self.transactions {
            transaction.print(out)?;
        }
        for FastCommitRow {
            operation,
            inode,
            bytes,
        } in &self.fast_commits
        {
            let inode = inode.map_or(String::new(), |inode| format!(", inode {inode}"));
            writeln!(out, "fast commit: {operation}{inode}, {bytes} bytes")?;
        }
        write!(out, "a replay changes {} blocks", self.differing.len())?;
        for (index, block) in self.differing.iter().enumerate() {
            write!(out, "{} {block}", if index == 0 { ":" } else { "" })?;
        }
        writeln!(out)
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}

impl TransactionRow {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let when = self
            .committed
            .map_or(String::new(), |moment| format!(", committed {}", moment.short()));
        writeln!(
            out,
            "transaction {}: from block {} on{when}, {} blocks, {} revoked",
            self.sequence,
            self.first,
            self.tags.len(),
            self.revoked.len()
        )?;
        for tag in &self.tags {
            let escaped = if tag.escaped { ", escaped" } else { "" };
            let checksum = match tag.checksum_right {
                Some(false) => ", its checksum is wrong",
                _ => "",
            };
            writeln!(out, "  block {} from {}{escaped}{checksum}", tag.block, tag.at)?;
        }
        for block in &self.revoked {
            writeln!(out, "  block {block} revoked")?;
        }
        Ok(())
    }
}
