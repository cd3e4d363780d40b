//! Directories: every block and entry, and the index of hashes.

use std::collections::BTreeMap;

use super::{Scan, inodes};
use crate::{
    BlockNumber, DirectoryIndex, Entry, FileType, Filesystem, HashVersion, Inode, InodeFlags, InodeNumber,
    ReadAt,
    directory::{BlockKind, EntryFormat, Slack},
    htree::index_at,
};

pub(super) fn step<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) -> u64 {
    let of = scan.inodes.directories.len() as u64;
    let state = usize::try_from(scan.at)
        .ok()
        .and_then(|at| scan.inodes.directories.get(at));
    if let Some(state) = state {
        let number = state.number;
        if let Ok((inode, _)) = filesystem.inode(number) {
            Directory::check(scan, filesystem, number, &inode);
        }
    }
    scan.at = scan.at.saturating_add(1);
    of
}

struct Directory<'d, R> {
    scan: &'d mut Scan,
    filesystem: &'d Filesystem<R>,
    number: InodeNumber,
    inode: &'d Inode,
    format: EntryFormat,
    /// The hashes that each block may hold: the lowest, and the lowest of the next.
    ranges: BTreeMap<u32, (u32, u32)>,
    version: Option<HashVersion>,
}

impl<R: ReadAt> Directory<'_, R> {
    fn check(scan: &mut Scan, filesystem: &Filesystem<R>, number: InodeNumber, inode: &Inode) {
        let mut directory = Directory {
            scan,
            filesystem,
            number,
            inode,
            format: filesystem.entry_format(inode),
            ranges: BTreeMap::new(),
            version: None,
        };
        if inode.flags.has(InodeFlags::INLINE_DATA) {
            let mut found = None;
            filesystem.directory(number, inode, &mut |_, _, block| {
                found = Some(block);
                false
            });
            if let Some(found) = found {
                directory.wrong(None, &found.wrong);
                directory.entries(0, None, &found.entries);
            }
            return;
        }
        if inode.flags.has(InodeFlags::INDEX) {
            directory.index();
        }
        // What is wrong with the map was said when its inode was checked.
        for run in filesystem.mapping(number, inode).runs {
            for index in 0..run.blocks {
                let block = BlockNumber(run.start.0.saturating_add(index.into()));
                // A cluster is read block by block, but claimed as one.
                let alone = filesystem.geometry().blocks_per_cluster == 1;
                if directory.scan.read.claim(block, 1).is_some() && alone {
                    continue;
                }
                directory.block(run.logical.saturating_add(index), block);
            }
        }
    }

    fn error(&mut self, block: Option<BlockNumber>, at: usize, text: String) {
        let finding = self.filesystem.directory_finding(self.number, block, at, text);
        self.scan.report.push(finding);
    }

    fn wrong(&mut self, block: Option<BlockNumber>, wrong: &[(usize, String)]) {
        for (at, text) in wrong {
            self.error(block, *at, text.clone());
        }
    }

    fn index(&mut self) {
        let Some(index) = self.filesystem.directory_index(self.number, self.inode) else {
            return self.error(None, 0, "it is marked as hashed, but has no index".to_owned());
        };
        for (logical, text) in &index.wrong {
            let text = format!("the index in its block {logical}: {text}");
            self.error(None, 0, text);
        }
        self.version = index.version;
        self.ranges = ranges(&index);
    }

    fn block(&mut self, logical: u32, block: BlockNumber) {
        let bytes = match self.filesystem.block(block) {
            Ok(bytes) => bytes,
            Err(why) => return self.error(Some(block), 0, why.to_string()),
        };
        let checked = self
            .filesystem
            .directory_checksum(self.number, self.inode, &bytes);
        if let Some(checked) = checked {
            let counts = &mut self.scan.report.counts;
            counts.checksums = counts.checksums.saturating_add(1);
            if let Err(why) = checked {
                self.error(Some(block), 0, why);
            }
        }
        let found = self.format.block(&bytes, 0, Slack::Ignore);
        self.wrong(Some(block), &found.wrong);
        self.entries(logical, Some(block), &found.entries);
        let hashed = self.inode.flags.has(InodeFlags::INDEX);
        if hashed && index_at(&bytes, hashed) == BlockKind::Leaf && !self.ranges.is_empty() {
            self.hashes(logical, block, &found.entries);
        }
    }

    fn hashes(&mut self, logical: u32, block: BlockNumber, entries: &[Entry]) {
        let Some((lowest, next)) = self.ranges.get(&logical).copied() else {
            return self.error(Some(block), 0, format!("no hash leads to its block {logical}"));
        };
        // The hash of a name that ignores case is that of its folded form.
        let plain = !self.inode.flags.has(InodeFlags::CASEFOLD);
        let Some(version) = self.version.filter(|_| plain) else {
            return;
        };
        let seed = self.filesystem.superblock().s_hash_seed;
        for entry in entries {
            let Some((hash, _)) = version.hash(&entry.name, &seed) else {
                return;
            };
            // Names of one hash may go on in the next block, which then begins with the lowest bit set.
            if hash < lowest & !1 || hash > next {
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                let text = format!(
                    "the hash of “{name}” is {hash:#010x}, but the block is for {lowest:#010x} to {next:#010x}"
                );
                self.error(Some(block), entry.at, text);
            }
        }
    }

    fn entries(&mut self, logical: u32, block: Option<BlockNumber>, entries: &[Entry]) {
        let counts = &mut self.scan.report.counts;
        counts.entries = counts.entries.saturating_add(entries.len() as u64);
        let mut names: Vec<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows::<2>().find(|[one, other]| one == other) {
            let text = format!("“{}” is in it twice", String::from_utf8_lossy(name));
            self.error(block, 0, text);
        }
        if logical == 0 {
            let at = |place: usize, name: &[u8]| entries.get(place).is_some_and(|entry| entry.name == name);
            if !at(0, b".") || !at(1, b"..") {
                self.error(block, 0, "it does not begin with “.” and “..”".to_owned());
            }
        }
        for (place, entry) in entries.iter().enumerate() {
            self.entry(logical == 0 && place < 2, block, entry);
        }
    }

    /// Checks an entry; `first` for the two that lead to the directory itself and to its parent.
    fn entry(&mut self, first: bool, block: Option<BlockNumber>, entry: &Entry) {
        let name = || String::from_utf8_lossy(&entry.name).into_owned();
        let geometry = self.filesystem.geometry();
        let number = InodeNumber::new(entry.inode).filter(|number| number.get() <= geometry.inodes);
        let Some(number) = number else {
            let text = format!("“{}” leads to inode {}, which cannot be", name(), entry.inode);
            return self.error(block, entry.at, text);
        };
        let dots = matches!(entry.name.as_slice(), b"." | b"..");
        if !dots {
            self.scan.index.add_name(number, self.number);
        }
        if dots && !first {
            self.error(block, entry.at, format!("“{}” is not at its beginning", name()));
        }
        let encrypted = self.inode.flags.has(InodeFlags::ENCRYPTED) && !dots;
        if !encrypted && entry.name.iter().any(|byte| matches!(byte, 0 | b'/')) || entry.name.is_empty() {
            self.error(block, entry.at, format!("“{}” is no name", name().escape_debug()));
        }
        let strict = self.inode.flags.has(InodeFlags::CASEFOLD)
            && self.filesystem.superblock().s_encoding_flags & 1 != 0;
        if strict && !encrypted && std::str::from_utf8(&entry.name).is_err() {
            let text = format!("“{}” is no UTF-8, which this directory demands", name());
            self.error(block, entry.at, text);
        }
        if encrypted && entry.name.len() < 16 {
            self.error(
                block,
                entry.at,
                format!("an encrypted name is only {} bytes long", entry.name.len()),
            );
        }
        if number.get() < geometry.first_inode && number != InodeNumber::ROOT {
            let text = format!("“{}” leads to inode {number}, which is reserved", name());
            return self.error(block, entry.at, text);
        }
        let Some(state) = self
            .scan
            .inodes
            .state(self.filesystem, number)
            .filter(|state| state.kind != 0)
        else {
            let text = format!("“{}” leads to inode {number}, which is not in use", name());
            return self.error(block, entry.at, text);
        };
        let stated = entry.file_type.map(|file_type| inodes::code(Some(file_type)));
        if self.format.has_types() && stated.unwrap_or(0) != state.kind && state.kind != 8 {
            let text = format!(
                "“{}” is said to be of type {}, but inode {number} is of type {}",
                name(),
                stated.unwrap_or(0),
                state.kind
            );
            self.error(block, entry.at, text);
        }
        if let Some(state) = self.scan.inodes.state_mut(self.filesystem, number) {
            state.names = state.names.saturating_add(1);
        }
        self.family(
            block,
            entry,
            number,
            state.kind == inodes::code(Some(FileType::Directory)),
        );
    }

    /// Keeps who is whose parent.
    fn family(&mut self, block: Option<BlockNumber>, entry: &Entry, number: InodeNumber, directory: bool) {
        let ours = self.number;
        let states = &mut self.scan.inodes.directories;
        let find = |wanted: InodeNumber| move |state: &inodes::DirectoryState| state.number.cmp(&wanted);
        match entry.name.as_slice() {
            b"." if number != ours => {
                let text = format!("“.” leads to inode {number}, not to {ours}");
                self.error(block, entry.at, text);
            }
            b"." => {}
            b".." => {
                if let Ok(at) = states.binary_search_by(find(ours))
                    && let Some(state) = states.get_mut(at)
                {
                    state.dotdot = number.get();
                }
            }
            name if directory => {
                let state = states
                    .binary_search_by(find(number))
                    .ok()
                    .and_then(|at| states.get_mut(at));
                match state {
                    Some(state) if state.parent == 0 && number != InodeNumber::ROOT => {
                        state.parent = ours.get();
                    }
                    _ => {
                        let text = format!(
                            "“{}” is one more name of the directory in inode {number}",
                            String::from_utf8_lossy(name)
                        );
                        self.error(block, entry.at, text);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The hashes of each block that the index leads to, up to and with the lowest of the next.
fn ranges(index: &DirectoryIndex) -> BTreeMap<u32, (u32, u32)> {
    let mut leaves = Vec::new();
    // Where each node begins. A node comes after the one that leads to it.
    let mut begins = BTreeMap::from([(0, 0)]);
    for node in &index.nodes {
        let begin = begins.get(&node.logical).copied().unwrap_or(0);
        for (place, (lowest, block)) in node.children.iter().enumerate() {
            // The first child of a node has no hash of its own: it begins where the node does.
            let lowest = if place == 0 { begin } else { *lowest };
            if node.level == 0 {
                leaves.push((lowest, *block));
            } else {
                begins.insert(*block, lowest);
            }
        }
    }
    leaves.sort_unstable();
    let nexts = leaves.iter().skip(1).map(|(lowest, _)| *lowest).chain([u32::MAX]);
    leaves
        .iter()
        .zip(nexts)
        .map(|((lowest, block), next)| (*block, (*lowest, next)))
        .collect()
}
