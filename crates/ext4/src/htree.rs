//! Hashed directories: the index in front of the blocks.

use std::collections::BTreeSet;

use crate::{
    Filesystem, HashVersion, Incompat, Inode, InodeNumber, ReadAt, Seed, directory::BlockKind, record::Stored,
};

/// Where the root's information lies: behind `.` and `..`.
pub(crate) const ROOT_INFO: usize = 24;
/// Where its counts lie.
pub(crate) const ROOT_COUNTS: usize = 32;
/// Where a node's counts lie: behind an empty entry.
pub(crate) const NODE_COUNTS: usize = 8;
pub(crate) const INDEX_ENTRY: usize = 8;

/// A node of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexNode {
    /// Its block, counted in the directory.
    pub logical: u32,
    /// Levels below it: 0 where its children hold entries.
    pub level: u8,
    /// Room for children.
    pub limit: u16,
    /// Its children: the lowest hash in each, and its block in the directory.
    pub children: Vec<(u32, u32)>,
}

/// The index of a hashed directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryIndex {
    /// The hash in use; none where its number is not known.
    pub version: Option<HashVersion>,
    /// Levels between the root and the blocks with entries: 0 to 2.
    pub levels: u8,
    /// Root first, then level by level as they are met.
    pub nodes: Vec<IndexNode>,
    /// What is wrong, each with the block in the directory.
    pub wrong: Vec<(u32, String)>,
}

/// Whether a block is an index node: its entries are then dressed up as one empty one.
pub(crate) fn index_at(block: &[u8], hashed: bool) -> BlockKind {
    let length = usize::from(u16::get(block, 4));
    let whole = |length: usize, of: usize| length == of || of >= 65536 && matches!(length, 0 | 65535);
    if !hashed {
        return BlockKind::Leaf;
    }
    if u32::get(block, 0) == 0 && whole(length, block.len()) {
        return BlockKind::Index(NODE_COUNTS);
    }
    let second = usize::from(u16::get(block, 16));
    let is_root = length == 12
        && whole(second, block.len().saturating_sub(12))
        && u32::get(block, ROOT_INFO) == 0
        && u8::get(block, 29) == 8;
    if is_root {
        BlockKind::Index(ROOT_COUNTS)
    } else {
        BlockKind::Leaf
    }
}

/// Checks an index node's checksum, which lies behind the room for its children.
pub(crate) fn check_index(block: &[u8], at: usize, seed: Seed) -> Result<(), String> {
    let (limit, count) = (
        usize::from(u16::get(block, at)),
        usize::from(u16::get(block, at.saturating_add(2))),
    );
    let end = |entries: usize| at.saturating_add(entries.saturating_mul(INDEX_ENTRY));
    let tail = end(limit);
    if count > limit || tail.saturating_add(INDEX_ENTRY) > block.len() {
        return Err("it has no room for its checksum".to_owned());
    }
    let covered = block.get(..end(count)).unwrap_or_default();
    let reserved = block.get(tail..tail.saturating_add(4)).unwrap_or_default();
    let right = seed.over(covered).over(reserved).over(&[0; 4]).0;
    let stored = u32::get(block, tail.saturating_add(4));
    if right == stored {
        Ok(())
    } else {
        Err(format!(
            "the index's checksum is {stored:#010x}, but should be {right:#010x}"
        ))
    }
}

/// Writes an index node's checksum.
pub(crate) fn seal_index(block: &mut [u8], at: usize, seed: Seed) {
    let (limit, count) = (
        usize::from(u16::get(block, at)),
        usize::from(u16::get(block, at.saturating_add(2))),
    );
    let end = |entries: usize| at.saturating_add(entries.saturating_mul(INDEX_ENTRY));
    let tail = end(limit);
    let covered = block.get(..end(count)).unwrap_or_default();
    let reserved = block.get(tail..tail.saturating_add(4)).unwrap_or_default();
    let sum = seed.over(covered).over(reserved).over(&[0; 4]).0;
    sum.put(block, tail.saturating_add(4));
}

impl<R: ReadAt> Filesystem<R> {
    /// The index of a hashed directory, if its root is one.
    pub fn directory_index(&self, number: InodeNumber, inode: &Inode) -> Option<DirectoryIndex> {
        let file = self.file(number, inode);
        let root = self.block(file.block_of(0)?).ok()?;
        if u8::get(&root, 29) != 8 {
            return None;
        }
        let flags = self.superblock().s_flags;
        let version = u8::get(&root, 28);
        let levels = u8::get(&root, 30);
        let mut index = DirectoryIndex {
            version: HashVersion::of(version, flags),
            levels,
            nodes: Vec::new(),
            wrong: Vec::new(),
        };
        if index.version.is_none() {
            index
                .wrong
                .push((0, format!("there is no directory hash number {version}")));
        }
        let most = match self.superblock().incompat().has(Incompat::LARGEDIR) {
            true => 2,
            false => 1,
        };
        if levels > most {
            index
                .wrong
                .push((0, format!("it has {levels} levels, more than {most}")));
            index.levels = most;
        }
        let mut todo = vec![(0u32, index.levels, root, ROOT_COUNTS)];
        let mut seen = BTreeSet::from([0]);
        let blocks = inode.size.div_ceil(u64::from(self.geometry().block_bytes).max(1));
        while let Some((logical, level, bytes, at)) = todo.pop() {
            let node = index_node(&bytes, logical, level, at, &mut index.wrong);
            for (_, child) in &node.children {
                if u64::from(*child) >= blocks {
                    index.wrong.push((
                        logical,
                        format!("it points to block {child} of the directory, which has {blocks}"),
                    ));
                } else if !seen.insert(*child) {
                    index
                        .wrong
                        .push((logical, format!("block {child} of the directory is in it twice")));
                } else if level > 0 {
                    match file.block_of(*child).map(|block| self.block(block)) {
                        Some(Ok(bytes)) => todo.push((*child, level.saturating_sub(1), bytes, NODE_COUNTS)),
                        _ => index
                            .wrong
                            .push((logical, format!("block {child} of the directory cannot be read"))),
                    }
                }
            }
            index.nodes.push(node);
        }
        Some(index)
    }

    /// A name's hash in this file system's own version, as new directories have it; `None` where a key is missing.
    pub fn name_hash(&self, name: &[u8]) -> Option<(HashVersion, u32, u32)> {
        let superblock = self.superblock();
        let version = HashVersion::of(superblock.s_def_hash_version, superblock.s_flags)?;
        let (hash, minor) = version.hash(name, &superblock.s_hash_seed)?;
        Some((version, hash, minor))
    }
}

fn index_node(bytes: &[u8], logical: u32, level: u8, at: usize, wrong: &mut Vec<(u32, String)>) -> IndexNode {
    let (limit, count) = (u16::get(bytes, at), u16::get(bytes, at.saturating_add(2)));
    let room = bytes.len().saturating_sub(at) / INDEX_ENTRY;
    if count > limit || usize::from(limit) > room || count == 0 {
        wrong.push((
            logical,
            format!("it speaks of {count} children of at most {limit}, with room for {room}"),
        ));
    }
    let mut children = Vec::new();
    for index in 0..usize::from(count).min(room) {
        let entry = at.saturating_add(index.saturating_mul(INDEX_ENTRY));
        // The counts take the place of the first child's hash, which is the lowest there can be.
        let hash = if index == 0 { 0 } else { u32::get(bytes, entry) };
        let block = u32::get(bytes, entry.saturating_add(4)) & 0x0fff_ffff;
        if children.last().is_some_and(|(before, _)| *before > hash) {
            wrong.push((logical, format!("its hashes are out of order at child {index}")));
        }
        children.push((hash, block));
    }
    IndexNode {
        logical,
        level,
        limit,
        children,
    }
}

/// Where the leaf that a hash belongs to begins in its node's children: the last that is not above it.
pub fn child_of(node: &IndexNode, hash: u32) -> Option<&(u32, u32)> {
    node.children.iter().rev().find(|(lowest, _)| *lowest <= hash)
}
