//! What files hold.

use crate::{
    BlockNumber, Filesystem, Finding, Inode, InodeFlags, InodeNumber, Mapping, ReadAt, ReadError,
    ReadFailure, number::divide_wide,
};

/// The most bytes of a symbolic link's target; the kernel's limit.
const TARGET_MAX: u64 = 4096;

/// A file whose content can be read at any place.
#[derive(Debug)]
pub struct File<'f, R> {
    filesystem: &'f Filesystem<R>,
    size: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The bytes lie in the inode.
    Inline(Vec<u8>),
    Mapped(Mapping),
}

impl<R: ReadAt> Filesystem<R> {
    /// Opens an inode's content: that of a file, the blocks of a directory, the target of a link.
    pub fn file(&self, number: InodeNumber, inode: &Inode) -> File<'_, R> {
        let source = if inode.flags.has(InodeFlags::INLINE_DATA) {
            Source::Inline(self.inline_data(number, inode))
        } else if inode.has_fast_target() {
            Source::Inline(inode.raw.i_block.to_vec())
        } else {
            Source::Mapped(self.mapping(number, inode))
        };
        File {
            filesystem: self,
            size: inode.size,
            source,
        }
    }

    /// The bytes that lie in the inode: `i_block`, and the attribute `system.data` behind it.
    pub fn inline_data(&self, number: InodeNumber, inode: &Inode) -> Vec<u8> {
        let mut data = inode.raw.i_block.to_vec();
        if let Ok(bytes) = self.inode_bytes(number) {
            data.extend(crate::xattr::inline_tail(&bytes));
        }
        data
    }

    /// The target of a symbolic link, as bytes; at most 4096 of them.
    ///
    /// # Errors
    /// Where its block cannot be read.
    pub fn target(&self, number: InodeNumber, inode: &Inode) -> Result<Vec<u8>, ReadError> {
        let file = self.file(number, inode);
        let mut target = vec![0; usize::try_from(file.size().min(TARGET_MAX)).unwrap_or(0)];
        file.read_at(0, &mut target)?;
        Ok(target)
    }

    /// A block's bytes.
    ///
    /// # Errors
    /// [`ReadFailure`] where it lies outside the file system, or cannot be read.
    pub fn block(&self, block: BlockNumber) -> Result<Vec<u8>, ReadFailure> {
        self.check_pointer(block)?;
        let mut bytes = vec![0; self.block_bytes()];
        self.image()
            .read_at(self.geometry().offset_of(block), &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn block_bytes(&self) -> usize {
        usize::try_from(self.geometry().block_bytes).unwrap_or(1024)
    }
}

impl<R: ReadAt> File<'_, R> {
    /// Where its blocks are; empty where the inode holds the bytes.
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.source {
            Source::Inline(_) => None,
            Source::Mapped(mapping) => Some(mapping),
        }
    }

    /// What is wrong with its map.
    pub fn findings(&self) -> &[Finding] {
        self.mapping().map_or(&[], |mapping| &mapping.findings)
    }

    /// The disk's block that holds a block of the file; `None` for a hole, and for what was never written.
    pub fn block_of(&self, logical: u32) -> Option<BlockNumber> {
        let runs = &self.mapping()?.runs;
        // Good runs are sorted by where they begin and do not overlap; of others some are not found.
        let skip = runs.partition_point(|run| run.end() <= u64::from(logical));
        let run = runs.get(skip).filter(|run| run.logical <= logical)?;
        let within = u64::from(logical.saturating_sub(run.logical));
        (!run.unwritten).then(|| BlockNumber(run.start.0.saturating_add(within)))
    }
}

/// The content, holes and what was never written as zeros.
impl<R: ReadAt> ReadAt for File<'_, R> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        ReadError::unless_inside(self.size, offset, buffer)?;
        buffer.fill(0);
        let end = offset.saturating_add(buffer.len() as u64);
        let mapping = match &self.source {
            Source::Inline(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                for (target, byte) in buffer.iter_mut().zip(bytes.iter().skip(from)) {
                    *target = *byte;
                }
                return Ok(());
            }
            Source::Mapped(mapping) => mapping,
        };
        let geometry = self.filesystem.geometry();
        let block_bytes = u64::from(geometry.block_bytes);
        let first = divide_wide(offset, geometry.block_bytes).0;
        // Good runs are sorted by where they begin and do not overlap.
        let skip = mapping.runs.partition_point(|run| run.end() <= first);
        for run in mapping.runs.get(skip..).unwrap_or_default() {
            let begin = u64::from(run.logical).saturating_mul(block_bytes);
            let from = begin.max(offset);
            let to = run.end().saturating_mul(block_bytes).min(end);
            if begin >= end {
                break;
            }
            if run.unwritten || from >= to {
                continue;
            }
            let part = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
            if let Some(target) = buffer.get_mut(part(from)..part(to)) {
                let on_disk = geometry
                    .offset_of(run.start)
                    .saturating_add(from.saturating_sub(begin));
                self.filesystem.image().read_at(on_disk, target)?;
            }
        }
        Ok(())
    }
}
