//! Orphans: inodes without a name that are still to be freed or truncated.

use std::collections::BTreeSet;

use crate::{BlockNumber, Compat, Filesystem, Finding, InodeNumber, ReadAt, record::Stored};

pub(crate) const FILE_MAGIC: u32 = 0x0b10_ca04;
/// Bytes at the end of an orphan file's block: magic number and checksum.
pub(crate) const TAIL: usize = 8;

/// What becomes of an orphan at the next mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanFate {
    /// It has no link: it is freed.
    Freed,
    /// It has links: what lies past its size is cut off.
    Truncated,
}

/// Where an orphan is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanPlace {
    /// In the list that begins in the superblock.
    List,
    /// In a slot of a block of the orphan file.
    File {
        /// The block, on the disk.
        block: BlockNumber,
        /// The slot in it.
        slot: u32,
    },
}

/// An orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The inode.
    pub inode: InodeNumber,
    /// Where it is remembered.
    pub place: OrphanPlace,
    /// What becomes of it.
    pub fate: OrphanFate,
}

impl<R: ReadAt> Filesystem<R> {
    /// The orphans in the list and in the orphan file, in the order of recovery, and what is wrong with them.
    pub fn orphans(&self) -> (Vec<Orphan>, Vec<Finding>) {
        let mut orphans = Vec::new();
        let mut findings = Vec::new();
        self.orphan_list(&mut orphans, &mut findings);
        self.orphan_file(&mut orphans, &mut findings);
        (orphans, findings)
    }

    fn orphan_list(&self, orphans: &mut Vec<Orphan>, findings: &mut Vec<Finding>) {
        let mut seen = BTreeSet::new();
        let mut next = self.superblock().s_last_orphan;
        let mut from = "s_last_orphan".to_owned();
        while let Some(number) = InodeNumber::new(next) {
            if number.get() > self.geometry().inodes || number.get() < self.geometry().first_inode {
                let text = format!("the orphan list is broken: {from} points to inode {number}");
                findings.push(Finding::error("orphan list", self.superblock_offset(), text));
                return;
            }
            if !seen.insert(number) {
                let text = format!("the orphan list is a circle: {from} points to inode {number} again");
                findings.push(Finding::error("orphan list", self.superblock_offset(), text));
                return;
            }
            let Ok((inode, _)) = self.inode(number) else {
                let text = "it is in the orphan list, but cannot be read";
                findings.push(self.inode_finding(number, text.to_owned()));
                return;
            };
            orphans.push(Orphan {
                inode: number,
                place: OrphanPlace::List,
                fate: fate(inode.raw.i_links_count),
            });
            // The deletion time is the next one's number while an inode is in the list.
            next = inode.raw.i_dtime;
            from = format!("inode {number}");
        }
    }

    fn orphan_file(&self, orphans: &mut Vec<Orphan>, findings: &mut Vec<Finding>) {
        if !self.superblock().compat().has(Compat::ORPHAN_FILE) {
            return;
        }
        let number = InodeNumber::new(self.superblock().s_orphan_file_inum);
        let read = number.and_then(|number| Some((number, self.inode(number).ok()?.0)));
        let Some((number, inode)) = read else {
            let inode = self.superblock().s_orphan_file_inum;
            let text = format!("the orphan file, inode {inode}, cannot be read");
            findings.push(Finding::error("orphan file", self.superblock_offset(), text));
            return;
        };
        let mapping = self.mapping(number, &inode);
        findings.extend(mapping.findings);
        let seed = self
            .seed()
            .map(|seed| seed.of_inode(number, inode.raw.i_generation));
        let blocks = mapping
            .runs
            .iter()
            .flat_map(|run| (0..run.blocks).map(|index| run.start.0.saturating_add(index.into())));
        for block in blocks.map(BlockNumber) {
            let offset = self.geometry().offset_of(block);
            let mut error = |text: String| {
                findings.push(Finding::of_inode(
                    number,
                    offset,
                    format!("orphan file block {block}: {text}"),
                ));
            };
            let bytes = match self.block(block) {
                Ok(bytes) => bytes,
                Err(why) => {
                    error(why.to_string());
                    continue;
                }
            };
            let tail = bytes.len().saturating_sub(TAIL);
            let magic = u32::get(&bytes, tail);
            if magic != FILE_MAGIC {
                error(format!(
                    "its magic number is {magic:#010x}, not {FILE_MAGIC:#010x}"
                ));
                continue;
            }
            let slots = bytes.get(..tail).unwrap_or_default();
            if let Some(seed) = seed {
                let right = seed.over(&block.0.to_le_bytes()).over(slots).0;
                let stored = u32::get(&bytes, tail.saturating_add(4));
                if right != stored {
                    error(format!(
                        "its checksum is {stored:#010x}, but should be {right:#010x}"
                    ));
                }
            }
            for (slot, entry) in (0u32..).zip(slots.as_chunks::<4>().0) {
                let Some(inode) = InodeNumber::new(u32::from_le_bytes(*entry)) else {
                    continue;
                };
                match self.inode(inode) {
                    Ok((found, _)) => orphans.push(Orphan {
                        inode,
                        place: OrphanPlace::File { block, slot },
                        fate: fate(found.raw.i_links_count),
                    }),
                    Err(why) => error(format!("slot {slot} names inode {inode}: {why}")),
                }
            }
        }
    }
}

fn fate(links: u16) -> OrphanFate {
    match links {
        0 => OrphanFate::Freed,
        _ => OrphanFate::Truncated,
    }
}
