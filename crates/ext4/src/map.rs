//! Which blocks a file has: extent trees and block maps.

use std::collections::BTreeSet;

use crate::{BlockNumber, Filesystem, Finding, Inode, InodeFlags, InodeNumber, ReadAt, record::Stored};

/// Consecutive blocks of a file that lie side by side on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them, counted in the file.
    pub logical: u32,
    /// The first of them, on the disk.
    pub start: BlockNumber,
    /// How many.
    pub blocks: u32,
    /// Allocated, but never written: they read as zeros.
    pub unwritten: bool,
}

impl Run {
    /// The first block of the file after it.
    pub fn end(&self) -> u64 {
        u64::from(self.logical).saturating_add(u64::from(self.blocks))
    }
}

/// A block of the tree that says where a file's blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapNode {
    /// Where it lies.
    pub block: BlockNumber,
    /// The node that points to it; none where that is the inode.
    pub parent: Option<BlockNumber>,
    /// Levels below it: 0 for a leaf.
    pub depth: u16,
    /// The first block of the file that it speaks for.
    pub logical: u32,
    /// Entries in use.
    pub entries: u32,
}

/// What a walk over a file's map meets, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapItem {
    /// A block of the tree.
    Node(MapNode),
    /// Blocks of the file.
    Run(Run),
    /// Something that is wrong.
    Finding(Finding),
}

/// Whether a walk goes on below what it met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Go on.
    Deeper,
    /// Leave out what is below.
    Past,
}

/// The map of a file, all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Where its blocks are, in the order of the file.
    pub runs: Vec<Run>,
    /// The blocks of its tree.
    pub nodes: Vec<MapNode>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// How deep an extent tree may be.
pub(crate) const DEPTH_MAX: u16 = 5;
/// What an extent header begins with.
pub(crate) const EXTENT_MAGIC: u16 = 0xf30a;
pub(crate) const ENTRY_BYTES: usize = 12;
/// Lengths above this mark unwritten extents.
pub(crate) const WRITTEN_MAX: u16 = 0x8000;
/// Blocks that an inode points to by itself.
pub(crate) const DIRECT: u32 = 12;

impl<R: ReadAt> Filesystem<R> {
    /// Whether an inode's `i_block` maps blocks at all, rather than holding data, a target or a device.
    pub fn maps_blocks(&self, inode: &Inode) -> bool {
        use crate::FileType::{Directory, Regular, Symlink};
        match inode.file_type {
            _ if inode.flags.has(InodeFlags::INLINE_DATA) => false,
            Some(Regular | Directory) => true,
            Some(Symlink) => !inode.has_fast_target(),
            Some(_) => false,
            // Reserved inodes such as that of the bad blocks have no mode.
            None => inode.raw.i_mode == 0,
        }
    }

    /// The whole map of a file. Every block of its tree is read once at most.
    pub fn mapping(&self, number: InodeNumber, inode: &Inode) -> Mapping {
        let mut mapping = Mapping::default();
        let mut seen = BTreeSet::new();
        self.walk_map(number, inode, &mut |item| {
            match item {
                MapItem::Node(node) => {
                    if !seen.insert(node.block) {
                        let text = format!("block {} of its tree is met twice", node.block);
                        let offset = self.geometry().offset_of(node.block);
                        mapping.findings.push(Finding::of_inode(number, offset, text));
                        return Walk::Past;
                    }
                    mapping.nodes.push(node);
                }
                MapItem::Run(run) => mapping.runs.push(run),
                MapItem::Finding(finding) => mapping.findings.push(finding),
            }
            Walk::Deeper
        });
        mapping
    }

    /// Walks over a file's map. `visit` has to answer [`Walk::Past`] for a node that it has met before: that is
    /// what bounds the walk.
    pub fn walk_map(&self, number: InodeNumber, inode: &Inode, visit: &mut dyn FnMut(MapItem) -> Walk) {
        if !self.maps_blocks(inode) {
            return;
        }
        let mut walker = Walker {
            filesystem: self,
            number,
            generation: inode.raw.i_generation,
            next: 0,
            pending: None,
            visit,
        };
        if inode.flags.has(InodeFlags::EXTENTS) {
            walker.extents(&inode.raw.i_block, None, None);
        } else {
            walker.block_map(&inode.raw.i_block);
        }
    }
}

struct Walker<'w, R> {
    filesystem: &'w Filesystem<R>,
    number: InodeNumber,
    generation: u32,
    /// The first block of the file that no extent has mapped yet.
    next: u64,
    /// The run that block pointers are being gathered into.
    pending: Option<Run>,
    visit: &'w mut dyn FnMut(MapItem) -> Walk,
}

impl<R: ReadAt> Walker<'_, R> {
    fn error(&mut self, node: Option<MapNode>, text: String) {
        let filesystem = self.filesystem;
        let finding = match node {
            Some(node) => Finding::of_inode(self.number, filesystem.geometry().offset_of(node.block), text),
            None => filesystem.inode_finding(self.number, text),
        };
        (self.visit)(MapItem::Finding(finding));
    }

    /// A node's header: depth and entries in use; an error and `None` where it is none.
    fn header(&mut self, bytes: &[u8], node: Option<MapNode>, depth: Option<u16>) -> Option<(u16, u16)> {
        let (magic, entries) = (u16::get(bytes, 0), u16::get(bytes, 2));
        let (most, found) = (u16::get(bytes, 4), u16::get(bytes, 6));
        let room = bytes.len().saturating_sub(ENTRY_BYTES) / ENTRY_BYTES;
        let wrong = if magic != EXTENT_MAGIC {
            format!("the magic number of its extent header is {magic:#06x}, not {EXTENT_MAGIC:#06x}")
        } else if found > DEPTH_MAX {
            format!("its extent tree is {found} levels deep, more than {DEPTH_MAX}")
        } else if depth.is_some_and(|depth| depth != found) {
            format!("an extent node says that it is at level {found}, but it is at another")
        } else if entries > most || usize::from(most) > room {
            format!("an extent header speaks of {entries} entries of at most {most}, but {room} have room")
        } else {
            return Some((found, entries));
        };
        self.error(node, wrong);
        None
    }

    fn extents(&mut self, bytes: &[u8], node: Option<MapNode>, depth: Option<u16>) {
        let Some((depth, count)) = self.header(bytes, node, depth) else {
            return;
        };
        if count == 0 && (node.is_some() || depth > 0) {
            self.error(node, "a node of its extent tree is empty".to_owned());
        }
        let entries = bytes.get(ENTRY_BYTES..).unwrap_or_default();
        for (index, entry) in entries.chunks_exact(ENTRY_BYTES).take(count.into()).enumerate() {
            if depth == 0 {
                self.leaf(entry, node, index == 0);
            } else {
                self.index(entry, node, depth);
            }
        }
    }

    fn leaf(&mut self, entry: &[u8], node: Option<MapNode>, first: bool) {
        let logical = u32::get(entry, 0);
        let (length, high, low) = (u16::get(entry, 4), u16::get(entry, 6), u32::get(entry, 8));
        let unwritten = length > WRITTEN_MAX;
        let blocks = if unwritten {
            length.wrapping_sub(WRITTEN_MAX)
        } else {
            length
        };
        let start = u64::from(low) | u64::from(high) << 32;
        let run = Run {
            logical,
            start: BlockNumber(start),
            blocks: blocks.into(),
            unwritten,
        };
        if blocks == 0 {
            return self.error(node, format!("the extent at its block {logical} is empty"));
        }
        if let Some(node) = node.filter(|node| first && node.logical != logical) {
            let said = node.logical;
            self.error(
                Some(node),
                format!("its extent index says block {said}, but the node begins with block {logical}"),
            );
        }
        if u64::from(logical) < self.next {
            self.error(
                node,
                format!("its extents are out of order or overlap at block {logical}"),
            );
        }
        self.next = self.next.max(run.end());
        if !self.inside(start, blocks.into()) {
            let text =
                format!("the extent at its block {logical} points to block {start}, outside the file system");
            return self.error(node, text);
        }
        (self.visit)(MapItem::Run(run));
    }

    fn inside(&self, start: u64, blocks: u64) -> bool {
        let geometry = self.filesystem.geometry();
        start > u64::from(geometry.first_data_block)
            && start
                .checked_add(blocks)
                .is_some_and(|end| end <= geometry.blocks)
    }

    fn index(&mut self, entry: &[u8], parent: Option<MapNode>, depth: u16) {
        let logical = u32::get(entry, 0);
        let block = u64::from(u32::get(entry, 4)) | u64::from(u16::get(entry, 8)) << 32;
        if !self.inside(block, 1) {
            let text = format!(
                "its extent index at block {logical} points to block {block}, outside the file system"
            );
            return self.error(parent, text);
        }
        let depth = depth.saturating_sub(1);
        let Some((bytes, node)) = self.node(block, parent, depth, logical) else {
            return;
        };
        let most = usize::from(u16::get(&bytes, 4));
        let tail = most.saturating_add(1).saturating_mul(ENTRY_BYTES);
        if let Some(seed) = self.filesystem.seed()
            && let Some(covered) = bytes.get(..tail)
            && u16::get(&bytes, 0) == EXTENT_MAGIC
        {
            let seed = seed.of_inode(self.number, self.generation);
            let (right, stored) = (seed.over(covered).0, u32::get(&bytes, tail));
            if right != stored {
                self.error(
                    Some(node),
                    format!(
                        "the checksum of extent block {block} is {stored:#010x}, but should be {right:#010x}"
                    ),
                );
            }
        }
        self.extents(&bytes, Some(node), Some(depth));
    }

    /// Reads and announces a node; `None` where it is to be left out.
    fn node(
        &mut self,
        block: u64,
        parent: Option<MapNode>,
        depth: u16,
        logical: u32,
    ) -> Option<(Vec<u8>, MapNode)> {
        let number = BlockNumber(block);
        let read = self.filesystem.block(number);
        let entries = match &read {
            Ok(bytes) if u16::get(bytes, 0) == EXTENT_MAGIC => u16::get(bytes, 2).into(),
            Ok(bytes) => bytes.as_chunks::<4>().0.iter().fold(0u32, |sum, pointer| {
                sum.saturating_add(u32::from(*pointer != [0; 4]))
            }),
            Err(_) => 0,
        };
        let node = MapNode {
            block: number,
            parent: parent.map(|node| node.block),
            depth,
            logical,
            entries,
        };
        if (self.visit)(MapItem::Node(node)) == Walk::Past {
            return None;
        }
        match read {
            Ok(bytes) => Some((bytes, node)),
            Err(why) => {
                self.error(
                    Some(node),
                    format!("block {block} of its tree cannot be read: {why}"),
                );
                None
            }
        }
    }

    fn block_map(&mut self, i_block: &[u8]) {
        let pointers = self.filesystem.geometry().block_bytes / 4;
        let mut logical = 0u64;
        for (index, pointer) in (0u32..).zip(i_block.as_chunks::<4>().0) {
            let levels = u16::try_from(index.saturating_sub(DIRECT.saturating_sub(1))).unwrap_or(0);
            self.pointer(u32::from_le_bytes(*pointer), levels, logical, None);
            logical = logical.saturating_add(u64::from(pointers).saturating_pow(levels.into()));
        }
        self.flush();
    }

    fn pointer(&mut self, block: u32, levels: u16, logical: u64, parent: Option<MapNode>) {
        let Ok(logical) = u32::try_from(logical) else {
            return;
        };
        if block == 0 {
            return;
        }
        if !self.inside(block.into(), 1) {
            self.flush();
            let text = format!("its block {logical} is said to be block {block}, outside the file system");
            return self.error(parent, text);
        }
        if levels == 0 {
            return self.gather(logical, block);
        }
        self.flush();
        let below = levels.saturating_sub(1);
        let Some((bytes, node)) = self.node(block.into(), parent, below, logical) else {
            return;
        };
        let pointers = u64::try_from(bytes.len() / 4).unwrap_or(0);
        let step = pointers.saturating_pow(below.into());
        let mut at = u64::from(logical);
        for pointer in bytes.as_chunks::<4>().0 {
            self.pointer(u32::from_le_bytes(*pointer), below, at, Some(node));
            at = at.saturating_add(step);
        }
    }

    /// Adds a block to the run at hand, or begins another.
    fn gather(&mut self, logical: u32, block: u32) {
        let block = BlockNumber(block.into());
        if let Some(run) = &mut self.pending
            && run.end() == u64::from(logical)
            && run.start.0.saturating_add(u64::from(run.blocks)) == block.0
        {
            run.blocks = run.blocks.saturating_add(1);
            return;
        }
        self.flush();
        self.pending = Some(Run {
            logical,
            start: block,
            blocks: 1,
            unwritten: false,
        });
    }

    fn flush(&mut self) {
        if let Some(run) = self.pending.take() {
            (self.visit)(MapItem::Run(run));
        }
    }
}
