//! The journal (jbd2): what it holds, and what replaying it would change.
//!
//! Numbers in it are big-endian, except in the area of fast commits.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    BlockNumber, Filesystem, Finding, InodeNumber, ReadAt, ReadError, Run, Seed, Superblock,
    checksum::crc32c, number::divide_wide,
};

const MAGIC: u32 = 0xc03b_3998;
/// Bytes of the header of every block.
const HEADER: usize = 12;
/// Bytes of its superblock.
const SUPERBLOCK: usize = 1024;
/// Where a journal's superblock says what comes next, and where the log begins.
const SEQUENCE_AT: usize = 24;
const START_AT: usize = 28;
const SUPERBLOCK_CHECKSUM_AT: usize = 0xfc;
const COMMIT_CHECKSUM_AT: usize = 16;

/// Features of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFeatures(pub u32);

impl JournalFeatures {
    /// There are revoke blocks.
    pub const REVOKE: Self = Self(1);
    /// Block numbers are wide.
    pub const BIT64: Self = Self(2);
    /// Commit blocks are not waited for.
    pub const ASYNC_COMMIT: Self = Self(4);
    /// Checksums, with 16 bits for each block.
    pub const CSUM_V2: Self = Self(8);
    /// Checksums, with 32 bits for each block.
    pub const CSUM_V3: Self = Self(16);
    /// There is an area for fast commits at the end.
    pub const FAST_COMMIT: Self = Self(32);
    const NAMES: [(Self, &str); 6] = [
        (Self::REVOKE, "journal_incompat_revoke"),
        (Self::BIT64, "journal_64bit"),
        (Self::ASYNC_COMMIT, "journal_async_commit"),
        (Self::CSUM_V2, "journal_checksum_v2"),
        (Self::CSUM_V3, "journal_checksum_v3"),
        (Self::FAST_COMMIT, "fast_commit"),
    ];

    /// Whether all bits of `wanted` are set.
    pub fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The names that dumpe2fs gives them; bits without a name by number.
    pub fn names(self) -> Vec<String> {
        let bits = (0..32).map(|shift| 1u32 << shift).filter(|bit| self.0 & bit != 0);
        bits.map(|bit| match Self::NAMES.iter().find(|(known, _)| known.0 == bit) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("journal incompat {bit:#x}"),
        })
        .collect()
    }

    fn checks(self) -> bool {
        self.has(Self::CSUM_V2) || self.has(Self::CSUM_V3)
    }

    /// Bytes of a tag, without a UUID.
    fn tag_bytes(self) -> usize {
        if self.has(Self::CSUM_V3) {
            return 16;
        }
        let checksum = if self.has(Self::CSUM_V2) { 2usize } else { 0 };
        let wide = if self.has(Self::BIT64) { 4usize } else { 0 };
        checksum.saturating_add(wide).saturating_add(8)
    }
}

/// The superblock of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSuperblock {
    /// Bytes per block.
    pub block_bytes: u32,
    /// Blocks in all, the superblock among them.
    pub blocks: u32,
    /// First block of the log.
    pub first: u32,
    /// The first transaction expected in the log.
    pub sequence: u32,
    /// The block where the log begins; 0 for an empty one.
    pub start: u32,
    /// The error that the kernel noted.
    pub errno: u32,
    /// Features without which it may not be replayed; none in version 1.
    pub features: JournalFeatures,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// File systems that use it.
    pub users: u32,
    /// Blocks at the end for fast commits.
    pub fast_commit_blocks: u32,
    /// 1 or 2.
    pub version: u32,
}

/// A block that a transaction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalTag {
    /// The block that is changed.
    pub block: BlockNumber,
    /// Where its new content lies, counted in the journal.
    pub at: u32,
    /// Its content began like a journal block, so that its first four bytes were cleared there.
    pub escaped: bool,
    /// Whether its checksum is right; `None` where it has none.
    pub checksum_right: Option<bool>,
}

/// A transaction in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Its number.
    pub sequence: u32,
    /// Its first block, counted in the journal.
    pub first: u32,
    /// What it changes.
    pub tags: Vec<JournalTag>,
    /// Blocks whose older content in the log must not be replayed.
    pub revoked: Vec<BlockNumber>,
    /// When it was committed, in seconds since 1970.
    pub committed_at: u64,
}

/// An operation in the area of fast commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastCommitTag {
    /// What it does.
    pub name: &'static str,
    /// The inode that it is about; 0 for none.
    pub inode: u32,
    /// Bytes that follow it.
    pub bytes: u16,
}

/// A journal, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Its superblock.
    pub superblock: JournalSuperblock,
    /// The transactions that a replay would carry out, oldest first.
    pub transactions: Vec<Transaction>,
    /// Why the log ends where it does, in words.
    pub end: String,
    /// Operations in the area of fast commits that belong to the transaction after the last.
    pub fast_commits: Vec<FastCommitTag>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
    blocks: JournalBlocks,
}

/// Where the journal's blocks lie.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JournalBlocks {
    runs: Vec<Run>,
    block_bytes: u32,
}

impl JournalBlocks {
    /// Where a block of the journal begins in the image.
    fn offset_of(&self, block: u32) -> Option<u64> {
        let skip = self.runs.partition_point(|run| run.end() <= u64::from(block));
        let run = self.runs.get(skip).filter(|run| run.logical <= block)?;
        let number = run
            .start
            .0
            .saturating_add(u64::from(block.saturating_sub(run.logical)));
        number.checked_mul(u64::from(self.block_bytes))
    }

    fn read(&self, image: &(impl ReadAt + ?Sized), block: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.block_bytes).ok()?];
        image.read_at(self.offset_of(block)?, &mut bytes).ok()?;
        Some(bytes)
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u16::from_be_bytes(*field))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_be_bytes(*field))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at.saturating_add(4)))
}

/// Why a journal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The file system has none.
    None,
    /// It lies on another device, of this UUID.
    External([u8; 16]),
    /// The inode that should hold it cannot be read, or holds none.
    Unusable(String),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "this file system has no journal"),
            Self::External(uuid) => {
                write!(f, "the journal is on another device, with the UUID ")?;
                uuid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Unusable(why) => write!(f, "the journal cannot be read: {why}"),
        }
    }
}

impl std::error::Error for JournalError {}

impl JournalSuperblock {
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (magic, version) = (be32(bytes, 0), be32(bytes, 4));
        if magic != MAGIC {
            return Err(format!("its magic number is {magic:#010x}, not {MAGIC:#010x}"));
        }
        let version = match version {
            3 => 1,
            4 => 2,
            other => return Err(format!("its first block is of type {other}, no superblock")),
        };
        let of_version_2 = |value: u32| if version == 2 { value } else { 0 };
        let superblock = Self {
            block_bytes: be32(bytes, 12),
            blocks: be32(bytes, 16),
            first: be32(bytes, 20),
            sequence: be32(bytes, SEQUENCE_AT),
            start: be32(bytes, START_AT),
            errno: be32(bytes, 32),
            features: JournalFeatures(of_version_2(be32(bytes, 40))),
            uuid: bytes
                .get(48..)
                .and_then(|rest| rest.first_chunk())
                .copied()
                .unwrap_or_default(),
            users: of_version_2(be32(bytes, 64)),
            fast_commit_blocks: of_version_2(be32(bytes, 84)),
            version,
        };
        if superblock.first == 0 || superblock.first >= superblock.blocks {
            return Err(format!(
                "its log is said to begin at block {} of {}",
                superblock.first, superblock.blocks
            ));
        }
        if superblock.start >= superblock.blocks {
            return Err(format!(
                "its oldest transaction is said to be at block {} of {}",
                superblock.start, superblock.blocks
            ));
        }
        Ok(superblock)
    }

    fn seed(&self) -> Seed {
        Seed(crc32c(u32::MAX, &self.uuid))
    }

    /// The first block after the log.
    fn log_end(&self) -> u32 {
        let fast = match self.features.has(JournalFeatures::FAST_COMMIT) {
            true if self.fast_commit_blocks == 0 => 256,
            true => self.fast_commit_blocks,
            false => 0,
        };
        let end = self.blocks.saturating_sub(fast);
        if end > self.first { end } else { self.blocks }
    }
}

impl<R: ReadAt> Filesystem<R> {
    /// Reads the journal in the file system's own journal inode.
    ///
    /// # Errors
    /// [`JournalError`] where there is none, or it makes no sense.
    pub fn journal(&self) -> Result<Journal, JournalError> {
        let superblock = self.superblock();
        if !superblock.compat().has(crate::Compat::HAS_JOURNAL) {
            return Err(JournalError::None);
        }
        let Some(number) = InodeNumber::new(superblock.s_journal_inum) else {
            return Err(JournalError::External(superblock.s_journal_uuid));
        };
        let (inode, _) = self
            .inode(number)
            .map_err(|why| JournalError::Unusable(why.to_string()))?;
        if inode.raw.i_links_count == 0 || inode.file_type != Some(crate::FileType::Regular) {
            return Err(JournalError::Unusable(format!(
                "inode {number} is no file in use"
            )));
        }
        let mapping = self.mapping(number, &inode);
        let blocks = JournalBlocks {
            runs: mapping.runs,
            block_bytes: self.geometry().block_bytes,
        };
        let mut journal = Journal::read(self.image(), blocks, 0).map_err(JournalError::Unusable)?;
        journal.findings.extend(mapping.findings);
        let wanted =
            u64::from(journal.superblock.blocks).saturating_mul(u64::from(self.geometry().block_bytes));
        if inode.size < wanted {
            let text = format!(
                "the journal speaks of {} blocks, but its inode holds {} bytes",
                journal.superblock.blocks, inode.size
            );
            journal.findings.push(self.inode_finding(number, text));
        }
        Ok(journal)
    }
}

/// Opens an external journal: a device that holds nothing else. The second value is the file system's superblock
/// that it begins with.
///
/// # Errors
/// As [`Filesystem::journal`].
pub fn external_journal(image: &(impl ReadAt + ?Sized)) -> Result<(Journal, Superblock), JournalError> {
    let unusable = |why: ReadError| JournalError::Unusable(why.to_string());
    let mut bytes = vec![0; SUPERBLOCK];
    image.read_at(1024, &mut bytes).map_err(unusable)?;
    let superblock = Superblock::decode(&bytes);
    if superblock.s_log_block_size > 6 {
        return Err(JournalError::Unusable("its block size makes no sense".to_owned()));
    }
    let block_bytes = 1024u32 << superblock.s_log_block_size;
    // The journal's own superblock follows the block with the file system's.
    let first = if block_bytes == 1024 { 2 } else { 1 };
    let runs = vec![Run {
        logical: 0,
        start: BlockNumber(0),
        blocks: u32::MAX,
        unwritten: false,
    }];
    let blocks = JournalBlocks { runs, block_bytes };
    let journal = Journal::read(image, blocks, first).map_err(JournalError::Unusable)?;
    Ok((journal, superblock))
}

impl Journal {
    fn read(image: &(impl ReadAt + ?Sized), blocks: JournalBlocks, at: u32) -> Result<Self, String> {
        let bytes = blocks.read(image, at).ok_or("its superblock cannot be read")?;
        let superblock = JournalSuperblock::decode(&bytes)?;
        if superblock.block_bytes != blocks.block_bytes {
            return Err(format!(
                "its blocks are said to be of {} bytes, those of the file system are of {}",
                superblock.block_bytes, blocks.block_bytes
            ));
        }
        let mut journal = Self {
            superblock,
            transactions: Vec::new(),
            end: String::new(),
            fast_commits: Vec::new(),
            findings: Vec::new(),
            blocks,
        };
        journal.check_superblock(&bytes, at);
        if superblock.start == 0 {
            journal.end = "the log is empty".to_owned();
        } else {
            journal.scan(image);
        }
        journal.read_fast_commits(image);
        Ok(journal)
    }

    fn error(&mut self, block: u32, text: String) {
        let offset = self.blocks.offset_of(block).unwrap_or(0);
        self.findings.push(Finding::error("journal", offset, text));
    }

    fn check_superblock(&mut self, bytes: &[u8], at: u32) {
        let features = self.superblock.features;
        if features.has(JournalFeatures::CSUM_V2) && features.has(JournalFeatures::CSUM_V3) {
            self.error(at, "it has two kinds of checksums at once".to_owned());
        }
        if features.checks() {
            let mut covered = bytes.get(..SUPERBLOCK).unwrap_or_default().to_vec();
            let stored = be32(&covered, SUPERBLOCK_CHECKSUM_AT);
            put_be32(&mut covered, SUPERBLOCK_CHECKSUM_AT, 0);
            let right = crc32c(u32::MAX, &covered);
            if stored != right {
                self.error(
                    at,
                    format!("its superblock's checksum is {stored:#010x}, but should be {right:#010x}"),
                );
            }
        }
        let unknown = features.0 & !63;
        if unknown != 0 {
            self.error(at, format!("it has features that are not known: {unknown:#x}"));
        }
        if self.superblock.errno != 0 {
            let errno = self.superblock.errno.cast_signed();
            self.error(at, format!("the kernel noted error {errno} in it"));
        }
        if self.superblock.users > 48 {
            let users = self.superblock.users;
            self.error(
                at,
                format!("{users} file systems are said to use it, more than 48"),
            );
        }
    }

    /// Follows the log from its start, transaction by transaction.
    fn scan(&mut self, image: &(impl ReadAt + ?Sized)) {
        let (first, end) = (self.superblock.first, self.superblock.log_end());
        let length = end.saturating_sub(first);
        let mut at = self.superblock.start;
        let mut current = Transaction {
            sequence: self.superblock.sequence,
            first: at,
            ..Transaction::default()
        };
        let mut doubt = None;
        let next = |at: u32, by: u32| {
            let to = u64::from(at).saturating_add(u64::from(by));
            let to = if to >= u64::from(end) {
                to.saturating_sub(u64::from(length))
            } else {
                to
            };
            u32::try_from(to).unwrap_or(first).clamp(first, end)
        };
        // Once around is all that there can be.
        let mut left = length;
        while left > 0 {
            let Some(bytes) = self.blocks.read(image, at) else {
                self.error(at, format!("journal block {at} cannot be read"));
                self.end = format!("journal block {at} cannot be read");
                return;
            };
            let (magic, kind, sequence) = (be32(&bytes, 0), be32(&bytes, 4), be32(&bytes, 8));
            if magic != MAGIC {
                self.end = format!("block {at} is no journal block");
                break;
            }
            if sequence != current.sequence {
                self.end = format!(
                    "block {at} is of transaction {sequence}, not {}",
                    current.sequence
                );
                break;
            }
            let mut used = 1u32;
            match kind {
                1 => {
                    if let Err(why) = self.check_tail(&bytes) {
                        doubt.get_or_insert((at, format!("the descriptor in block {at}: {why}")));
                    }
                    let tags = self.tags(image, &bytes, at, sequence, &next);
                    used = used.saturating_add(u32::try_from(tags.len()).unwrap_or(u32::MAX));
                    current.tags.extend(tags);
                }
                5 => {
                    if let Err(why) = self.check_tail(&bytes) {
                        doubt.get_or_insert((at, format!("the revoke block {at}: {why}")));
                    }
                    current.revoked.extend(self.revoked(&bytes));
                }
                2 => {
                    if let Err(why) = self.check_commit(&bytes) {
                        doubt.get_or_insert((at, format!("the commit in block {at}: {why}")));
                    }
                    if let Some((block, why)) = doubt.take() {
                        self.error(block, why.clone());
                        self.end = why;
                        return;
                    }
                    current.committed_at = be64(&bytes, 48);
                    let following = Transaction {
                        sequence: sequence.wrapping_add(1),
                        first: next(at, 1),
                        ..Transaction::default()
                    };
                    self.transactions.push(std::mem::replace(&mut current, following));
                }
                other => {
                    self.end = format!("block {at} is of type {other}");
                    break;
                }
            }
            left = left.saturating_sub(used);
            at = next(at, used);
        }
        if let Some((block, why)) = doubt {
            self.error(block, why);
        }
        let bad: Vec<_> = self
            .transactions
            .iter()
            .flat_map(|transaction| &transaction.tags)
            .filter(|tag| tag.checksum_right == Some(false))
            .map(|tag| (tag.at, tag.block))
            .collect();
        for (at, block) in bad {
            self.error(
                at,
                format!("the checksum of the new content of block {block} is wrong"),
            );
        }
    }

    /// Checks the checksum at the end of a descriptor or revoke block.
    fn check_tail(&self, bytes: &[u8]) -> Result<(), String> {
        if !self.superblock.features.checks() {
            return Ok(());
        }
        self.check_at(bytes, bytes.len().saturating_sub(4))
    }

    fn check_commit(&self, bytes: &[u8]) -> Result<(), String> {
        if !self.superblock.features.checks() {
            return Ok(());
        }
        self.check_at(bytes, COMMIT_CHECKSUM_AT)
    }

    fn check_at(&self, bytes: &[u8], at: usize) -> Result<(), String> {
        let stored = be32(bytes, at);
        let mut covered = bytes.to_vec();
        put_be32(&mut covered, at, 0);
        let right = self.superblock.seed().over(&covered).0;
        if stored == right {
            Ok(())
        } else {
            Err(format!(
                "its checksum is {stored:#010x}, but should be {right:#010x}"
            ))
        }
    }

    fn tags(
        &self,
        image: &(impl ReadAt + ?Sized),
        bytes: &[u8],
        descriptor: u32,
        sequence: u32,
        next: &dyn Fn(u32, u32) -> u32,
    ) -> Vec<JournalTag> {
        let features = self.superblock.features;
        let v3 = features.has(JournalFeatures::CSUM_V3);
        let tail = if features.checks() { 4 } else { 0 };
        let end = bytes.len().saturating_sub(tail);
        let mut tags = Vec::new();
        let mut at = HEADER;
        while at.saturating_add(features.tag_bytes()) <= end {
            let (flags, checksum, high_at) = match v3 {
                true => (
                    be32(bytes, at.saturating_add(4)),
                    be32(bytes, at.saturating_add(12)),
                    at.saturating_add(8),
                ),
                false => (
                    be16(bytes, at.saturating_add(6)).into(),
                    be16(bytes, at.saturating_add(4)).into(),
                    at.saturating_add(8),
                ),
            };
            let wide = features.has(JournalFeatures::BIT64);
            let high = if wide { be32(bytes, high_at) } else { 0 };
            let block = u64::from(be32(bytes, at)) | u64::from(high) << 32;
            let count = u32::try_from(tags.len()).unwrap_or(u32::MAX);
            let data_at = next(descriptor, count.saturating_add(1));
            let checksum_right = features.checks().then(|| {
                let Some(data) = self.blocks.read(image, data_at) else {
                    return false;
                };
                let right = self.superblock.seed().over(&sequence.to_be_bytes()).over(&data).0;
                if v3 {
                    checksum == right
                } else {
                    checksum == right & 0xffff
                }
            });
            tags.push(JournalTag {
                block: BlockNumber(block),
                at: data_at,
                escaped: flags & 1 != 0,
                checksum_right,
            });
            at = at.saturating_add(features.tag_bytes());
            if flags & 2 == 0 {
                at = at.saturating_add(16);
            }
            if flags & 8 != 0 {
                break;
            }
        }
        tags
    }

    fn revoked(&self, bytes: &[u8]) -> Vec<BlockNumber> {
        let width = if self.superblock.features.has(JournalFeatures::BIT64) {
            8
        } else {
            4
        };
        let used = usize::try_from(be32(bytes, HEADER)).unwrap_or(0);
        let records = bytes
            .get(HEADER.saturating_add(4)..used.min(bytes.len()))
            .unwrap_or_default();
        let number = |record: &[u8]| match width {
            8 => be64(record, 0),
            _ => be32(record, 0).into(),
        };
        records
            .chunks_exact(width)
            .map(|record| BlockNumber(number(record)))
            .collect()
    }

    /// The operations in the fast-commit area that follow the last transaction.
    fn read_fast_commits(&mut self, image: &(impl ReadAt + ?Sized)) {
        use crate::record::Stored;
        if !self.superblock.features.has(JournalFeatures::FAST_COMMIT) {
            return;
        }
        let wanted = self
            .transactions
            .last()
            .map_or(self.superblock.sequence, |last| last.sequence.wrapping_add(1));
        let mut pending = Vec::new();
        for block in self.superblock.log_end()..self.superblock.blocks {
            let Some(bytes) = self.blocks.read(image, block) else {
                return;
            };
            let mut at = 0usize;
            while at.saturating_add(4) <= bytes.len() {
                let (kind, length) = (u16::get(&bytes, at), u16::get(&bytes, at.saturating_add(2)));
                let value = at.saturating_add(4);
                let name = match kind {
                    1 => "add a range",
                    2 => "remove a range",
                    3 => "create an entry",
                    4 => "link an entry",
                    5 => "unlink an entry",
                    6 => "write an inode",
                    7 => "padding",
                    8 => "end of a fast commit",
                    9 => "begin of a fast commit",
                    _ => return,
                };
                let inode = match kind {
                    1 | 2 | 6 => u32::get(&bytes, value),
                    3..=5 => u32::get(&bytes, value.saturating_add(4)),
                    _ => 0,
                };
                if kind == 9 && u32::get(&bytes, value.saturating_add(4)) != wanted {
                    return;
                }
                if kind == 8 {
                    if u32::get(&bytes, value) != wanted {
                        return;
                    }
                    self.fast_commits.append(&mut pending);
                } else if !matches!(kind, 7 | 9) {
                    pending.push(FastCommitTag {
                        name,
                        inode,
                        bytes: length,
                    });
                }
                at = value.saturating_add(length.into());
                // What is left of a block after the end of a commit is not used.
                if kind == 8 {
                    break;
                }
            }
        }
    }

    /// The blocks that a replay would write, and where their content lies: revoked ones are left out.
    fn replay(&self) -> BTreeMap<BlockNumber, JournalTag> {
        let mut revoked = BTreeMap::new();
        for transaction in &self.transactions {
            for block in &transaction.revoked {
                revoked.insert(*block, transaction.sequence);
            }
        }
        let mut replay = BTreeMap::new();
        for transaction in &self.transactions {
            for tag in &transaction.tags {
                let last = revoked.get(&tag.block);
                // Sequence numbers wrap.
                let stands =
                    last.is_none_or(|last| transaction.sequence.wrapping_sub(*last).cast_signed() > 0);
                if stands && tag.checksum_right != Some(false) {
                    replay.insert(tag.block, *tag);
                }
            }
        }
        replay
    }
}

fn put_be32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *field = value.to_be_bytes();
    }
}

/// An image as it would be after its journal has been replayed. Nothing is written.
#[derive(Debug)]
pub struct Replayed<R> {
    image: R,
    block_bytes: u32,
    /// Where the new content of each changed block begins.
    changed: BTreeMap<BlockNumber, (u64, JournalTag)>,
    /// The two superblocks, which no longer say that there is something to replay: offset and bytes.
    superblocks: Vec<(u64, Vec<u8>)>,
}

impl<R: ReadAt> Replayed<R> {
    /// The image as it would be after the replay of this journal.
    pub fn new(image: R, journal: &Journal) -> Self {
        let changed = journal
            .replay()
            .into_iter()
            .filter_map(|(block, tag)| Some((block, (journal.blocks.offset_of(tag.at)?, tag))));
        let mut replayed = Self {
            image,
            block_bytes: journal.blocks.block_bytes,
            changed: changed.collect(),
            superblocks: Vec::new(),
        };
        let superblocks = [replayed.recovered_superblock(), replayed.emptied_journal(journal)];
        replayed.superblocks = superblocks.into_iter().flatten().collect();
        replayed
    }

    /// The journal's superblock, with an empty log that goes on after the last transaction.
    fn emptied_journal(&self, journal: &Journal) -> Option<(u64, Vec<u8>)> {
        let offset = journal.blocks.offset_of(0)?;
        let mut bytes = vec![0; SUPERBLOCK];
        self.image.read_at(offset, &mut bytes).ok()?;
        let replayed = journal
            .transactions
            .last()
            .filter(|_| journal.superblock.start != 0);
        let last = replayed.map(|transaction| transaction.sequence);
        let last = last.unwrap_or(journal.superblock.sequence.wrapping_sub(1));
        // One number is left out, so that nothing in the log can be taken for what comes.
        put_be32(&mut bytes, SEQUENCE_AT, last.wrapping_add(2));
        put_be32(&mut bytes, START_AT, 0);
        if journal.superblock.features.checks() {
            put_be32(&mut bytes, SUPERBLOCK_CHECKSUM_AT, 0);
            let checksum = crc32c(u32::MAX, &bytes);
            put_be32(&mut bytes, SUPERBLOCK_CHECKSUM_AT, checksum);
        }
        Some((offset, bytes))
    }

    fn recovered_superblock(&self) -> Option<(u64, Vec<u8>)> {
        let mut bytes = vec![0; SUPERBLOCK];
        self.read_at(1024, &mut bytes).ok()?;
        let mut superblock = Superblock::decode(&bytes);
        superblock.s_feature_incompat &= !crate::Incompat::RECOVER.0;
        superblock.encode(&mut bytes);
        if superblock.ro_compat().has(crate::RoCompat::METADATA_CSUM) {
            superblock.s_checksum = crc32c(u32::MAX, bytes.get(..SUPERBLOCK.saturating_sub(4))?);
            superblock.encode(&mut bytes);
        }
        Some((1024, bytes))
    }

    /// The blocks whose content a replay changes, and those that it writes as they are already.
    pub fn blocks(&self) -> impl Iterator<Item = BlockNumber> {
        self.changed.keys().copied()
    }

    /// All blocks that a replay writes, those of the two superblocks among them.
    pub(crate) fn written(&self) -> BTreeSet<BlockNumber> {
        let block_of = |offset: u64| BlockNumber(divide_wide(offset, self.block_bytes).0);
        let superblocks = self.superblocks.iter().map(|(offset, _)| block_of(*offset));
        self.blocks().chain(superblocks).collect()
    }

    /// The blocks that would read differently afterwards.
    pub fn differing(&self) -> BTreeSet<BlockNumber> {
        let differs = |block: &BlockNumber| {
            let offset = block.0.saturating_mul(u64::from(self.block_bytes));
            let mut before = vec![0; usize::try_from(self.block_bytes).unwrap_or(0)];
            let mut after = before.clone();
            let read = self.image.read_at(offset, &mut before).is_ok();
            read && self.read_at(offset, &mut after).is_ok() && before != after
        };
        self.blocks().filter(differs).collect()
    }
}

impl<R: ReadAt> ReadAt for Replayed<R> {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.image.read_at(offset, buffer)?;
        let end = offset.saturating_add(buffer.len() as u64);
        let block_bytes = u64::from(self.block_bytes);
        let first = BlockNumber(divide_wide(offset, self.block_bytes).0);
        let last = BlockNumber(divide_wide(end, self.block_bytes).0);
        let mut put = |begin: u64, bytes: &[u8]| {
            let from = begin.max(offset);
            let to = begin.saturating_add(bytes.len() as u64).min(end);
            let part = |base: u64| {
                let from = usize::try_from(from.saturating_sub(base)).unwrap_or(usize::MAX);
                from..usize::try_from(to.saturating_sub(base)).unwrap_or(usize::MAX)
            };
            if from < to
                && let (Some(target), Some(source)) = (buffer.get_mut(part(offset)), bytes.get(part(begin)))
            {
                target.copy_from_slice(source);
            }
        };
        for (block, (at, tag)) in self.changed.range(first..=last) {
            let mut bytes = vec![0; usize::try_from(self.block_bytes).unwrap_or(0)];
            self.image.read_at(*at, &mut bytes)?;
            if tag.escaped
                && let Some(magic) = bytes.first_chunk_mut::<4>()
            {
                *magic = MAGIC.to_be_bytes();
            }
            put(block.0.saturating_mul(block_bytes), &bytes);
        }
        for (offset, superblock) in &self.superblocks {
            put(*offset, superblock);
        }
        Ok(())
    }
}
