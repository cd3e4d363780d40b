//! Hashed directories that grow: leaves that split, index nodes that split, one level more.

use std::sync::Arc;

use crate::{
    Block, HashVersion, Incompat, InodeFlags, ReadAt, Volume, WriteError,
    directory::{ENTRY_HEADER, EntryFormat},
    htree::{INDEX_ENTRY, NODE_COUNTS, ROOT_COUNTS, ROOT_INFO, seal_index},
    record::Stored,
};

use super::{
    directory::{FoundEntry, Naming, insert_entry, places, put_entry},
    memory_inode::MemoryInode,
};

const INFO_BYTES: u8 = 8;
const VERSION_AT: usize = ROOT_INFO + 4;
const INFO_BYTES_AT: usize = ROOT_INFO + 5;
const LEVELS_AT: usize = ROOT_INFO + 6;
const FLAGS_AT: usize = ROOT_INFO + 7;
/// Set in the hash of an index entry whose leaf goes on where the one before ended: equal hashes on both sides.
const CONTINUED: u32 = 1;

/// A node of the index on the way to a leaf.
#[derive(Debug)]
struct Frame {
    block: Arc<Block>,
    bytes: Vec<u8>,
    /// Where its counts lie: another place in the root.
    counts_at: usize,
    limit: usize,
    /// Lowest hash and block in the directory of each child; the first one's hash is not stored.
    children: Vec<(u32, u32)>,
    /// The child that the way goes on by.
    at: usize,
}

/// The way to where a hash belongs.
struct Way {
    version: HashVersion,
    frames: Vec<Frame>,
    leaf: u32,
}

impl<R: ReadAt> Volume<R> {
    /// The hash that new indexes get; none where it cannot be computed.
    pub(super) fn name_hash_version(&self) -> Option<HashVersion> {
        let version = HashVersion::of(self.superblock().s_def_hash_version, self.superblock().s_flags)?;
        version.hash(b"", &self.superblock().s_hash_seed).map(|_| version)
    }

    fn index_levels_max(&self) -> usize {
        match self.superblock().incompat().has(Incompat::LARGEDIR) {
            true => 3,
            false => 2,
        }
    }

    /// Where a block's counts lie, if it is of an index.
    pub(super) fn index_counts_at(&self, bytes: &[u8]) -> Option<usize> {
        match crate::htree::index_at(bytes, true) {
            crate::directory::BlockKind::Index(at) => Some(at),
            crate::directory::BlockKind::Leaf => None,
        }
    }

    pub(super) fn seal_index_block(&self, directory: &MemoryInode, bytes: &mut [u8]) {
        if let (Some(seed), Some(at)) = (self.seed(), self.index_counts_at(bytes)) {
            let seed = seed.of_inode(directory.number, directory.raw.i_generation);
            seal_index(bytes, at, seed);
        }
    }

    /// Children that a node has room for, its counts lying here.
    fn index_limit(&self, counts_at: usize) -> usize {
        let tail = if self.seed().is_some() { INDEX_ENTRY } else { 0 };
        self.block_size().saturating_sub(counts_at).saturating_sub(tail) / INDEX_ENTRY
    }

    fn frame(
        &self,
        directory: &MemoryInode,
        block: Arc<Block>,
        counts_at: usize,
        hash: u32,
    ) -> Result<Frame, WriteError> {
        let corrupt = |what| WriteError::Corrupt(directory.number, what);
        let bytes = block.to_vec();
        let (limit, count) = (
            u16::get(&bytes, counts_at),
            u16::get(&bytes, counts_at.saturating_add(2)),
        );
        let (limit, count) = (usize::from(limit), usize::from(count));
        if limit != self.index_limit(counts_at) || count > limit || count == 0 {
            return Err(corrupt("a node of the directory's index makes no sense"));
        }
        let children: Vec<(u32, u32)> = (0..count)
            .map(|index| {
                let entry = counts_at.saturating_add(index.saturating_mul(INDEX_ENTRY));
                let lowest = if index == 0 { 0 } else { u32::get(&bytes, entry) };
                (lowest, u32::get(&bytes, entry.saturating_add(4)) & 0x0fff_ffff)
            })
            .collect();
        let after = children.partition_point(|(lowest, _)| *lowest <= hash);
        let at = after.saturating_sub(1);
        Ok(Frame {
            block,
            bytes,
            counts_at,
            limit,
            children,
            at,
        })
    }

    fn way_to(&self, directory: &MemoryInode, name: &[u8]) -> Result<(Way, u32), WriteError> {
        let corrupt = |what| WriteError::Corrupt(directory.number, what);
        let root = self.directory_block(directory, 0)?;
        let mut head = [0; ROOT_COUNTS];
        root.load(0, &mut head);
        let levels = usize::from(u8::get(&head, LEVELS_AT));
        if u8::get(&head, INFO_BYTES_AT) != INFO_BYTES
            || u8::get(&head, FLAGS_AT) & 1 != 0
            || levels >= self.index_levels_max()
        {
            return Err(corrupt("the root of the directory's index makes no sense"));
        }
        let version = HashVersion::of(u8::get(&head, VERSION_AT), self.superblock().s_flags);
        let version = version.ok_or(corrupt("the directory's hash is unknown"))?;
        let hash = version.hash(name, &self.superblock().s_hash_seed);
        let (hash, _) = hash.ok_or(WriteError::Feature("casefold".to_owned()))?;
        let blocks = self.directory_blocks(directory)?;
        let mut frames = Vec::new();
        let (mut block, mut counts_at) = (root, ROOT_COUNTS);
        loop {
            let frame = self.frame(directory, block, counts_at, hash)?;
            let child = frame.children.get(frame.at).map_or(0, |(_, child)| *child);
            if child == 0 || child >= blocks {
                return Err(corrupt("the directory's index points outside of it"));
            }
            frames.push(frame);
            if frames.len() > levels {
                return Ok((
                    Way {
                        version,
                        frames,
                        leaf: child,
                    },
                    hash,
                ));
            }
            (block, counts_at) = (self.directory_block(directory, child)?, NODE_COUNTS);
        }
    }

    /// Goes on to the next leaf, if it may hold the same hash; whether it does.
    fn next_leaf(&self, directory: &MemoryInode, way: &mut Way, hash: u32) -> Result<bool, WriteError> {
        let corrupt = WriteError::Corrupt(directory.number, "the directory's index points outside of it");
        let Some(level) = way
            .frames
            .iter()
            .rposition(|frame| frame.at.saturating_add(1) < frame.children.len())
        else {
            return Ok(false);
        };
        let Some(frame) = way.frames.get_mut(level) else {
            return Ok(false);
        };
        frame.at = frame.at.saturating_add(1);
        let Some((lowest, mut child)) = frame.children.get(frame.at).copied() else {
            return Ok(false);
        };
        if lowest & CONTINUED == 0 || lowest & !CONTINUED != hash {
            return Ok(false);
        }
        let levels = way.frames.len();
        way.frames.truncate(level.saturating_add(1));
        let blocks = self.directory_blocks(directory)?;
        while way.frames.len() < levels {
            if child == 0 || child >= blocks {
                return Err(corrupt);
            }
            let mut frame = self.frame(directory, self.directory_block(directory, child)?, NODE_COUNTS, 0)?;
            frame.at = 0;
            child = frame.children.first().map_or(0, |(_, child)| *child);
            way.frames.push(frame);
        }
        if child == 0 || child >= blocks {
            return Err(corrupt);
        }
        way.leaf = child;
        Ok(true)
    }

    pub(super) fn lookup_hashed(
        &self,
        directory: &MemoryInode,
        name: &[u8],
    ) -> Result<Option<FoundEntry>, WriteError> {
        let (mut way, hash) = self.way_to(directory, name)?;
        loop {
            let block = self.directory_block(directory, way.leaf)?;
            if let Some(found) = self.lookup_in(directory, &block, name)? {
                return Ok(Some(found));
            }
            if !self.next_leaf(directory, &mut way, hash)? {
                return Ok(None);
            }
        }
    }

    fn store_frame(&self, directory: &MemoryInode, frame: &mut Frame) {
        let at = frame.counts_at;
        for (index, (lowest, child)) in frame.children.iter().enumerate() {
            let entry = at.saturating_add(index.saturating_mul(INDEX_ENTRY));
            if index > 0 {
                lowest.put(&mut frame.bytes, entry);
            }
            child.put(&mut frame.bytes, entry.saturating_add(4));
        }
        u16::try_from(frame.limit)
            .unwrap_or(u16::MAX)
            .put(&mut frame.bytes, at);
        let count = u16::try_from(frame.children.len()).unwrap_or(u16::MAX);
        count.put(&mut frame.bytes, at.saturating_add(2));
        if let Some(seed) = self.seed() {
            let seed = seed.of_inode(directory.number, directory.raw.i_generation);
            seal_index(&mut frame.bytes, at, seed);
        }
        self.store(&frame.block, 0, &frame.bytes);
    }

    pub(super) fn add_hashed(
        &self,
        directory: &mut MemoryInode,
        naming: &Naming<'_>,
    ) -> Result<(), WriteError> {
        let (mut way, hash) = self.way_to(directory, naming.name)?;
        let format = self.format_of(directory);
        let block = self.directory_block(directory, way.leaf)?;
        let mut bytes = block.to_vec();
        if insert_entry(&format, &mut bytes, self.entries_end(), naming).ok_or(Self::broken(directory))? {
            self.store_entries(directory, &block, bytes);
            return Ok(());
        }
        // All blocks that this takes, before anything changes: one leaf, and one node for each level that is full.
        let full = way
            .frames
            .iter()
            .rev()
            .take_while(|frame| frame.children.len() >= frame.limit)
            .count();
        if full == way.frames.len() && way.frames.len() >= self.index_levels_max() {
            return Err(WriteError::DirectoryFull);
        }
        let mut blocks = self.append_blocks(directory, full.saturating_add(1))?;
        self.make_room(directory, &mut way.frames, &mut blocks)?;
        let (logical, new) = blocks.pop().ok_or(WriteError::NoSpace)?;
        let version = way.version;
        let bottom = way.frames.last_mut().ok_or(Self::broken(directory))?;
        self.split_leaf(
            directory,
            &format,
            version,
            bottom,
            (&block, bytes),
            (logical, &new),
            (naming, hash),
        )
    }

    /// Makes room for one more child in the lowest node of the way: splits what is full, from the top down.
    fn make_room(
        &self,
        directory: &MemoryInode,
        frames: &mut Vec<Frame>,
        blocks: &mut Vec<(u32, Arc<Block>)>,
    ) -> Result<(), WriteError> {
        let is_full = |frame: &Frame| frame.children.len() >= frame.limit;
        let full = frames.iter().rev().take_while(|frame| is_full(frame)).count();
        let mut level = frames.len().saturating_sub(full);
        if full > 0 && level == 0 {
            // The root is full: its children go one level down.
            let (logical, block) = blocks.pop().ok_or(WriteError::NoSpace)?;
            let root = frames.first_mut().ok_or(Self::broken(directory))?;
            let mut node = self.empty_node(directory, block);
            node.children = std::mem::replace(&mut root.children, vec![(0, logical)]);
            node.at = std::mem::replace(&mut root.at, 0);
            let levels = u8::get(&root.bytes, LEVELS_AT).saturating_add(1);
            levels.put(&mut root.bytes, LEVELS_AT);
            self.store_frame(directory, &mut node);
            self.store_frame(directory, root);
            frames.insert(1, node);
            // The new node has room for a few more than the root had.
            level = 2;
        }
        while level < frames.len() {
            let (logical, block) = blocks.pop().ok_or(WriteError::NoSpace)?;
            let (above, below) = frames.split_at_mut(level);
            let (Some(parent), Some(frame)) = (above.last_mut(), below.first_mut()) else {
                return Err(Self::broken(directory));
            };
            let middle = frame.children.len() / 2;
            let mut right = self.empty_node(directory, block);
            right.children = frame.children.split_off(middle);
            let lowest = right.children.first().map_or(0, |(lowest, _)| *lowest);
            parent
                .children
                .insert(parent.at.saturating_add(1), (lowest, logical));
            self.store_frame(directory, &mut right);
            self.store_frame(directory, frame);
            self.store_frame(directory, parent);
            if frame.at >= middle {
                right.at = frame.at.saturating_sub(middle);
                parent.at = parent.at.saturating_add(1);
                *frame = right;
            }
            level = level.saturating_add(1);
        }
        Ok(())
    }

    /// A node without children: one empty entry over the whole block, and counts behind it.
    fn empty_node(&self, directory: &MemoryInode, block: Arc<Block>) -> Frame {
        let mut bytes = vec![0; self.block_size()];
        let length = self.format_of(directory).stored_length(bytes.len());
        length.put(&mut bytes, 4);
        Frame {
            block,
            bytes,
            counts_at: NODE_COUNTS,
            limit: self.index_limit(NODE_COUNTS),
            children: Vec::new(),
            at: 0,
        }
    }

    /// Moves the upper half of a leaf's entries, by bytes, to a new block, and adds the new entry to its half.
    #[expect(
        clippy::too_many_arguments,
        reason = "the two leaves, the node above, and what is added"
    )]
    fn split_leaf(
        &self,
        directory: &MemoryInode,
        format: &EntryFormat,
        version: HashVersion,
        above: &mut Frame,
        (old, bytes): (&Arc<Block>, Vec<u8>),
        (logical, new): (u32, &Arc<Block>),
        (naming, hash): (&Naming<'_>, u32),
    ) -> Result<(), WriteError> {
        let end = self.entries_end();
        let seed = self.superblock().s_hash_seed;
        let mut entries: Vec<(u32, &[u8])> = Vec::new();
        for place in places(format, &bytes, end).ok_or(Self::broken(directory))? {
            if place.inode == 0 {
                continue;
            }
            let begin = place.at.saturating_add(ENTRY_HEADER);
            let name = bytes
                .get(begin..begin.saturating_add(place.name_bytes))
                .unwrap_or_default();
            let (hash, _) = version.hash(name, &seed).ok_or(Self::broken(directory))?;
            let used = format.least(place.name_bytes);
            let entry = bytes.get(place.at..place.at.saturating_add(used));
            entries.push((hash, entry.ok_or(Self::broken(directory))?));
        }
        entries.sort_by_key(|(hash, _)| *hash);
        let half = self.block_size() / 2;
        let mut moved = 0usize;
        let mut size = 0usize;
        for (_, entry) in entries.iter().rev() {
            if size.saturating_add(entry.len() / 2) > half {
                break;
            }
            size = size.saturating_add(entry.len());
            moved = moved.saturating_add(1);
        }
        let mut split = entries.len().saturating_sub(moved);
        if split == 0 {
            split = entries.len() / 2;
        }
        let upper = entries.split_off(split);
        let lowest = upper.first().ok_or(Self::broken(directory))?.0;
        let continued = entries.last().is_some_and(|(last, _)| *last == lowest);
        let mut left = self.packed(format, &entries);
        let mut right = self.packed(format, &upper);
        let target = if hash >= lowest { &mut right } else { &mut left };
        if !insert_entry(format, target, end, naming).ok_or(Self::broken(directory))? {
            return Err(WriteError::DirectoryFull);
        }
        let mark = lowest | if continued { CONTINUED } else { 0 };
        above.children.insert(above.at.saturating_add(1), (mark, logical));
        self.store_entries(directory, new, right);
        self.store_entries(directory, old, left);
        self.store_frame(directory, above);
        Ok(())
    }

    /// A block with these entries side by side, the last one reaching to the end.
    fn packed(&self, format: &EntryFormat, entries: &[(u32, &[u8])]) -> Vec<u8> {
        let end = self.entries_end();
        let mut bytes = vec![0; self.block_size()];
        if entries.is_empty() {
            format.stored_length(end).put(&mut bytes, 4);
        }
        let mut at = 0usize;
        for (index, (_, entry)) in entries.iter().enumerate() {
            let last = index.saturating_add(1) == entries.len();
            let length = if last { end.saturating_sub(at) } else { entry.len() };
            if let Some(target) = bytes.get_mut(at..at.saturating_add(entry.len())) {
                target.copy_from_slice(entry);
            }
            format.stored_length(length).put(&mut bytes, at.saturating_add(4));
            at = at.saturating_add(length);
        }
        bytes
    }

    /// Makes a directory of one full block a hashed one, and adds an entry.
    pub(super) fn begin_index(
        &self,
        directory: &mut MemoryInode,
        naming: &Naming<'_>,
    ) -> Result<(), WriteError> {
        let format = self.format_of(directory);
        let version = self.name_hash_version().ok_or(Self::broken(directory))?;
        let seed = self.superblock().s_hash_seed;
        let (hash, _) = version.hash(naming.name, &seed).ok_or(Self::broken(directory))?;
        let block = self.directory_block(directory, 0)?;
        let bytes = block.to_vec();
        let old = places(&format, &bytes, self.entries_end()).ok_or(Self::broken(directory))?;
        // `.` and `..` have to be the first two, where the root will have them.
        let dots = matches!(old.as_slice(), [dot, dots, ..] if dot.length == 12 && dots.at == 12 && dots.name_bytes == 2);
        let parent = u32::get(&bytes, 12);
        let Some(parent) = crate::InodeNumber::new(parent).filter(|_| dots) else {
            return Err(Self::broken(directory));
        };
        let mut blocks = self.append_blocks(directory, 2)?;
        let (Some((second, new)), Some((first, leaf))) = (blocks.pop(), blocks.pop()) else {
            return Err(WriteError::NoSpace);
        };
        let mut root = vec![0; self.block_size()];
        let kind = Some(crate::FileType::Directory);
        put_entry(
            &format,
            &mut root,
            0,
            12,
            &Naming {
                name: b".",
                inode: directory.number,
                kind,
            },
        );
        let rest = root.len().saturating_sub(12);
        put_entry(
            &format,
            &mut root,
            12,
            rest,
            &Naming {
                name: b"..",
                inode: parent,
                kind,
            },
        );
        self.superblock().s_def_hash_version.put(&mut root, VERSION_AT);
        INFO_BYTES.put(&mut root, INFO_BYTES_AT);
        let mut frame = Frame {
            block,
            bytes: root,
            counts_at: ROOT_COUNTS,
            limit: self.index_limit(ROOT_COUNTS),
            children: vec![(0, first)],
            at: 0,
        };
        let mut moved = Vec::new();
        for place in old.iter().skip(2).filter(|place| place.inode != 0) {
            let used = format.least(place.name_bytes);
            moved.push((
                0,
                bytes
                    .get(place.at..place.at.saturating_add(used))
                    .unwrap_or_default(),
            ));
        }
        let packed = self.packed(&format, &moved);
        directory.raw.i_flags |= InodeFlags::INDEX.0;
        self.split_leaf(
            directory,
            &format,
            version,
            &mut frame,
            (&leaf, packed),
            (second, &new),
            (naming, hash),
        )
    }

    /// Levels between the root of a directory's index and its leaves; `None` where it has no index.
    ///
    /// # Errors
    /// Where the root cannot be read.
    pub fn index_levels(&self, directory: &MemoryInode) -> Result<Option<u8>, WriteError> {
        if !self.is_hashed(directory) {
            return Ok(None);
        }
        let root = self.directory_block(directory, 0)?;
        let mut head = [0; ROOT_COUNTS];
        root.load(0, &mut head);
        Ok(Some(u8::get(&head, LEVELS_AT)))
    }
}
