//! The journal and the orphans.

use ext4::{Filesystem, OrphanFate, OrphanPlace, ReadAt, Replayed};
use serde::{Deserialize, Serialize};

use super::Finding;

/// Transactions, and tags of one of them, that are shown.
const ROWS_MAX: usize = 500;

/// A block that a transaction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRow {
    /// The block.
    pub block: u64,
    /// Where its new content lies, counted in the journal.
    pub at: u32,
    /// Whether its checksum is right; `None` where it has none.
    pub right: Option<bool>,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionRow {
    /// Its number.
    pub sequence: u32,
    /// Its first block, counted in the journal.
    pub first: u32,
    /// When it was committed, in seconds since 1970.
    pub committed_at: u64,
    /// What it changes: the first 500.
    pub tags: Vec<TagRow>,
    /// What it changes in all.
    pub tags_total: u32,
    /// Blocks whose older content must not be replayed: the first 500.
    pub revoked: Vec<u64>,
}

/// The journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalCard {
    /// Why there is nothing to show.
    pub trouble: Option<String>,
    /// Its numbers: name and value.
    pub facts: Vec<(String, String)>,
    /// The first 500 transactions that a replay would carry out.
    pub transactions: Vec<TransactionRow>,
    /// Transactions in all.
    pub transactions_total: u32,
    /// Why the log ends where it does.
    pub end: String,
    /// Operations of fast commits, in words, with their inode.
    pub fast_commits: Vec<(String, u32)>,
    /// Blocks that would read differently after a replay: the first 500.
    pub differing: Vec<u64>,
    /// Such blocks in all.
    pub differing_total: u32,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// The journal of a file system.
pub fn journal_card<R: ReadAt>(filesystem: &Filesystem<R>) -> JournalCard {
    let journal = match filesystem.journal() {
        Ok(journal) => journal,
        Err(why) => {
            return JournalCard {
                trouble: Some(why.to_string()),
                ..JournalCard::default()
            };
        }
    };
    let superblock = &journal.superblock;
    let features = superblock.features.names();
    let facts = [
        ("Version", superblock.version.to_string()),
        ("Blocks", superblock.blocks.to_string()),
        ("First block of the log", superblock.first.to_string()),
        ("Next transaction", superblock.sequence.to_string()),
        (
            "The log begins at",
            match superblock.start {
                0 => "nothing to replay".to_owned(),
                start => format!("block {start}"),
            },
        ),
        (
            "Features",
            match features.as_slice() {
                [] => "none".to_owned(),
                features => features.join(", "),
            },
        ),
    ];
    let differing = Replayed::new(filesystem.image(), &journal).differing();
    JournalCard {
        trouble: None,
        facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        transactions: journal
            .transactions
            .iter()
            .take(ROWS_MAX)
            .map(|transaction| TransactionRow {
                sequence: transaction.sequence,
                first: transaction.first,
                committed_at: transaction.committed_at,
                tags: transaction
                    .tags
                    .iter()
                    .take(ROWS_MAX)
                    .map(|tag| TagRow {
                        block: tag.block.0,
                        at: tag.at,
                        right: tag.checksum_right,
                    })
                    .collect(),
                tags_total: transaction.tags.len() as u32,
                revoked: transaction
                    .revoked
                    .iter()
                    .take(ROWS_MAX)
                    .map(|block| block.0)
                    .collect(),
            })
            .collect(),
        transactions_total: journal.transactions.len() as u32,
        end: journal.end,
        fast_commits: journal
            .fast_commits
            .iter()
            .take(ROWS_MAX)
            .map(|tag| (tag.name.to_owned(), tag.inode))
            .collect(),
        differing: differing.iter().take(ROWS_MAX).map(|block| block.0).collect(),
        differing_total: differing.len() as u32,
        findings: journal.findings.into_iter().map(Finding::from).collect(),
    }
}

/// An orphan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanRow {
    /// The inode.
    pub inode: u32,
    /// The orphan file's block that remembers it; `None` for the list.
    pub block: Option<u64>,
    /// The slot in that block.
    pub slot: u32,
    /// It has no links: the next mount frees it. Otherwise it is cut to its size.
    pub freed: bool,
}

/// All orphans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphansCard {
    /// The orphans, in the order of recovery: the first 500.
    pub rows: Vec<OrphanRow>,
    /// Orphans in all.
    pub total: u32,
    /// Whether there is an orphan file.
    pub has_file: bool,
    /// What is wrong with them.
    pub findings: Vec<Finding>,
}

/// The orphans of a file system.
pub fn orphans_card<R: ReadAt>(filesystem: &Filesystem<R>) -> OrphansCard {
    let (orphans, findings) = filesystem.orphans();
    OrphansCard {
        total: orphans.len() as u32,
        rows: orphans
            .into_iter()
            .take(ROWS_MAX)
            .map(|orphan| {
                let (block, slot) = match orphan.place {
                    OrphanPlace::List => (None, 0),
                    OrphanPlace::File { block, slot } => (Some(block.0), slot),
                };
                OrphanRow {
                    inode: orphan.inode.get(),
                    block,
                    slot,
                    freed: orphan.fate == OrphanFate::Freed,
                }
            })
            .collect(),
        has_file: filesystem.superblock().compat().has(ext4::Compat::ORPHAN_FILE),
        findings: findings.into_iter().map(Finding::from).collect(),
    }
}
