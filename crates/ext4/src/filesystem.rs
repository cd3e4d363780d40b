//! An open image.

use std::fmt;

use crate::{
    BlockNumber, Finding, Geometry, GroupDescriptor, GroupFlags, GroupNumber, Incompat, Inode, InodeNumber,
    ReadAt, ReadError, RoCompat, SUPERBLOCK_BYTES, Seed, Severity, Superblock, backup,
    checksum::crc32c,
    group::DescriptorCheck,
    inode, looks_like,
    number::{divide, divide_wide},
    superblock::MAGIC,
};

/// Where the superblock lies.
const SUPERBLOCK_AT: u64 = 1024;
/// The most bytes of an inode table that are read at once.
const TABLE_READ_MAX: usize = 32 << 20;

/// An ext2, ext3 or ext4 file system in some storage.
#[derive(Debug)]
pub struct Filesystem<R> {
    image: R,
    superblock: Superblock,
    raw_superblock: Vec<u8>,
    superblock_at: u64,
    geometry: Geometry,
    check: DescriptorCheck,
}

/// What [`Filesystem::open`] gives.
#[derive(Debug)]
pub struct Opened<R> {
    /// The file system.
    pub filesystem: Filesystem<R>,
    /// What is wrong with its superblock.
    pub findings: Vec<Finding>,
}

/// Why an image cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no superblock; what the file looks like instead, as a noun phrase.
    NotExt4 {
        /// The noun phrase.
        looks_like: &'static str,
    },
    /// It is the journal of some other file system.
    JournalDevice,
    /// A field of the superblock has a value that makes no sense.
    Unusable {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// The storage failed.
    Read(ReadError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExt4 { looks_like } => {
                write!(f, "this is not an ext4 image: it looks like {looks_like}")
            }
            Self::JournalDevice => write!(f, "this is an external journal, without a file system of its own"),
            Self::Unusable { field, value, wanted } => {
                write!(
                    f,
                    "the superblock is damaged: {field} is {value} ({value:#x}), but has to be {wanted}"
                )
            }
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Why a structure cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// There is no such group or inode.
    OutOfRange,
    /// A block number in the way points outside the file system.
    BadPointer(BlockNumber),
    /// The storage failed, or ends before it.
    Read(ReadError),
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => write!(f, "there is no such thing in this file system"),
            Self::BadPointer(block) => write!(f, "block {block} lies outside the file system"),
            Self::Read(error) => error.fmt(f),
        }
    }
}

/// The bytes of a superblock whose magic number and geometry make sense.
fn read_superblock(image: &(impl ReadAt + ?Sized), offset: u64) -> Result<Vec<u8>, OpenError> {
    let mut raw = vec![0; SUPERBLOCK_BYTES];
    let not_ext4 = || OpenError::NotExt4 {
        looks_like: looks_like(image),
    };
    match image.read_at(offset, &mut raw) {
        Err(error) if error.past_end => return Err(not_ext4()),
        Err(error) => return Err(OpenError::Read(error)),
        Ok(()) => {}
    }
    let superblock = Superblock::decode(&raw);
    if superblock.s_magic != MAGIC {
        return Err(not_ext4());
    }
    if superblock.incompat().has(Incompat::JOURNAL_DEV) {
        return Err(OpenError::JournalDevice);
    }
    Geometry::of(&superblock)?;
    Ok(raw)
}

/// Where an inode lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeLocation {
    /// Its group.
    pub group: GroupNumber,
    /// Its place in the group, from 0.
    pub index: u32,
    /// The block of the inode table that it lies in.
    pub block: BlockNumber,
    /// Where in that block, in bytes.
    pub offset: u32,
}

impl<R: ReadAt> Filesystem<R> {
    /// Opens an image. Where its superblock is lost or makes no sense, a copy of it is searched for and used.
    ///
    /// # Errors
    /// [`OpenError`] where there is no file system, or its superblock makes no sense and there is no good copy.
    pub fn open(image: R) -> Result<Opened<R>, OpenError> {
        let why = match read_superblock(&image, SUPERBLOCK_AT) {
            Ok(raw) => return Self::with_superblock(image, raw, SUPERBLOCK_AT),
            Err(why @ (OpenError::JournalDevice | OpenError::Read(_))) => return Err(why),
            Err(why) => why,
        };
        let Some(offset) = backup::search(&image) else {
            return Err(why);
        };
        let raw = read_superblock(&image, offset)?;
        let mut opened = Self::with_superblock(image, raw, offset)?;
        let why = match why {
            OpenError::NotExt4 { .. } => "there is none".to_owned(),
            why => why.to_string(),
        };
        let copy = opened.filesystem.superblock.s_block_group_nr;
        let text = format!("{why}; the copy in group {copy}, at byte {offset}, is used instead");
        opened
            .findings
            .insert(0, Finding::error("superblock", SUPERBLOCK_AT, text));
        Ok(opened)
    }

    /// Opens an image by the superblock at this offset in bytes.
    ///
    /// # Errors
    /// [`OpenError`] where there is none, or it makes no sense.
    pub fn open_at(image: R, offset: u64) -> Result<Opened<R>, OpenError> {
        let raw = read_superblock(&image, offset)?;
        Self::with_superblock(image, raw, offset)
    }

    fn with_superblock(image: R, raw_superblock: Vec<u8>, offset: u64) -> Result<Opened<R>, OpenError> {
        let superblock = Superblock::decode(&raw_superblock);
        let geometry = Geometry::of(&superblock)?;
        let check = DescriptorCheck::of(&superblock);
        let filesystem = Self {
            image,
            superblock,
            raw_superblock,
            superblock_at: offset,
            geometry,
            check,
        };
        let findings = filesystem.superblock_findings();
        Ok(Opened { filesystem, findings })
    }

    fn superblock_findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut error = |field, severity, text: String| {
            let finding = Finding::error("superblock", self.superblock_at, text).in_field(field);
            findings.push(finding.with_severity(severity));
        };
        if let Some(right) = self.superblock_checksum()
            && right != self.superblock.s_checksum
        {
            let stored = self.superblock.s_checksum;
            error(
                "s_checksum",
                Severity::Error,
                format!("its checksum is {stored:#010x}, but should be {right:#010x}"),
            );
        }
        let needed = self.geometry.offset_of(BlockNumber(self.geometry.blocks));
        if self.image.size() < needed {
            let (size, blocks) = (self.image.size(), self.geometry.blocks);
            let text = format!(
                "it speaks of {blocks} blocks, {needed} bytes, but the image ends after {size} bytes"
            );
            error("s_blocks_count_lo", Severity::Error, text);
        }
        if self.superblock.s_state & 2 != 0 {
            error(
                "s_state",
                Severity::Warning,
                "the kernel saw errors in this file system".to_owned(),
            );
        }
        if self.superblock.incompat().has(Incompat::RECOVER) {
            let text = "it was not unmounted cleanly: the journal holds changes that are not shown here";
            error("s_feature_incompat", Severity::Warning, text.to_owned());
        }
        findings
    }

    /// The right checksum of the superblock; `None` where there is none.
    fn superblock_checksum(&self) -> Option<u32> {
        let checked = self.raw_superblock.get(..SUPERBLOCK_BYTES.saturating_sub(4))?;
        self.superblock
            .ro_compat()
            .has(RoCompat::METADATA_CSUM)
            .then(|| crc32c(u32::MAX, checked))
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The superblock's 1024 bytes.
    pub fn superblock_bytes(&self) -> &[u8] {
        &self.raw_superblock
    }

    /// Where things are.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The storage.
    pub fn image(&self) -> &R {
        &self.image
    }

    /// Whether metadata carries crc32c checksums.
    pub fn seed(&self) -> Option<Seed> {
        let checked = self.superblock.ro_compat().has(RoCompat::METADATA_CSUM);
        checked.then(|| Seed::of_filesystem(&self.superblock))
    }

    pub(crate) fn descriptor_check(&self) -> DescriptorCheck {
        self.check
    }

    /// A group's descriptor, and what is wrong with it.
    ///
    /// # Errors
    /// [`ReadFailure`] where there is no such group, or it cannot be read.
    pub fn group(&self, group: GroupNumber) -> Result<(GroupDescriptor, Vec<Finding>), ReadFailure> {
        if group.0 >= self.geometry.groups {
            return Err(ReadFailure::OutOfRange);
        }
        let (block, at) = self.geometry.descriptor_of(group);
        let offset = self.geometry.offset_of(block).saturating_add(u64::from(at));
        let mut bytes = vec![0; usize::try_from(self.geometry.descriptor_bytes).unwrap_or(32)];
        self.image.read_at(offset, &mut bytes)?;
        let descriptor = GroupDescriptor::decode(&bytes, self.check);
        Ok((
            descriptor,
            self.group_findings(group, offset, &descriptor, &bytes),
        ))
    }

    fn group_findings(
        &self,
        group: GroupNumber,
        offset: u64,
        descriptor: &GroupDescriptor,
        bytes: &[u8],
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut error = |field, text: String| {
            findings.push(Finding::error(format!("group descriptor {group}"), offset, text).in_field(field));
        };
        if let Some(right) = self.check.of_descriptor(group, bytes)
            && right != descriptor.checksum
        {
            let stored = descriptor.checksum;
            error(
                "bg_checksum",
                format!("its checksum is {stored:#06x}, but should be {right:#06x}"),
            );
        }
        for (field, block, blocks) in [
            ("bg_block_bitmap", descriptor.block_bitmap, 1),
            ("bg_inode_bitmap", descriptor.inode_bitmap, 1),
            (
                "bg_inode_table",
                descriptor.inode_table,
                self.geometry.table_blocks_per_group(),
            ),
        ] {
            let end = block.0.saturating_add(u64::from(blocks));
            if block.0 <= u64::from(self.geometry.first_data_block) || end > self.geometry.blocks {
                error(
                    field,
                    format!("{field} is block {block}, outside the file system"),
                );
            }
        }
        let per_group = self.geometry.inodes_per_group;
        if descriptor.flags.has(GroupFlags::INODE_UNINIT) && descriptor.free_inodes != per_group {
            let free = descriptor.free_inodes;
            let text = format!("its inodes were never initialised, yet only {free} of {per_group} are free");
            error("bg_free_inodes_count", text);
        }
        for (field, count, most) in [
            (
                "bg_free_inodes_count",
                descriptor.free_inodes,
                self.geometry.inodes_per_group,
            ),
            (
                "bg_itable_unused",
                descriptor.unused_inodes,
                self.geometry.inodes_per_group,
            ),
            (
                "bg_free_blocks_count",
                descriptor.free_blocks,
                self.geometry.blocks_per_group,
            ),
        ] {
            if count > most {
                error(
                    field,
                    format!("{field} is {count}, but the group has only {most}"),
                );
            }
        }
        findings
    }

    /// A group's inode bitmap, one bit per inode; all clear where it was never written.
    ///
    /// # Errors
    /// [`ReadFailure`] where it cannot be read.
    pub fn inode_bitmap(
        &self,
        group: GroupNumber,
        descriptor: &GroupDescriptor,
    ) -> Result<Vec<u8>, ReadFailure> {
        let bytes = usize::try_from(self.geometry.inodes_per_group.div_ceil(8)).unwrap_or(0);
        let mut bitmap = vec![0; bytes];
        if group.0 >= self.geometry.groups {
            return Err(ReadFailure::OutOfRange);
        }
        if !descriptor.flags.has(GroupFlags::INODE_UNINIT) {
            self.check_pointer(descriptor.inode_bitmap)?;
            self.image
                .read_at(self.geometry.offset_of(descriptor.inode_bitmap), &mut bitmap)?;
        }
        Ok(bitmap)
    }

    /// Blocks of a group's inode table; what cannot be read is left out at the end.
    pub(crate) fn table_bytes(&self, descriptor: &GroupDescriptor, first: u32, count: u32) -> Vec<u8> {
        let block_bytes = u64::from(self.geometry.block_bytes);
        let begin = BlockNumber(descriptor.inode_table.0.saturating_add(u64::from(first)));
        let offset = self.geometry.offset_of(begin);
        let (left, _) = divide_wide(
            self.image.size().saturating_sub(offset),
            self.geometry.block_bytes,
        );
        let count = u64::from(count.min(self.geometry.table_blocks_per_group())).min(left);
        let bytes = usize::try_from(count.saturating_mul(block_bytes))
            .unwrap_or(usize::MAX)
            .min(TABLE_READ_MAX);
        let mut table = vec![0; bytes];
        match self.image.read_at(offset, &mut table) {
            Ok(()) => table,
            Err(_) => Vec::new(),
        }
    }

    /// Where an inode lies.
    ///
    /// # Errors
    /// [`ReadFailure`] where there is no such inode, or its group's descriptor is unusable.
    pub fn locate(&self, inode: InodeNumber) -> Result<InodeLocation, ReadFailure> {
        let (group, index) = self.geometry.place_of(inode).ok_or(ReadFailure::OutOfRange)?;
        let (descriptor, _) = self.group(group)?;
        let (table_block, slot) = divide(index, self.geometry.slots_per_block());
        let block = BlockNumber(descriptor.inode_table.0.saturating_add(u64::from(table_block)));
        self.check_pointer(block)?;
        let offset = slot.saturating_mul(self.geometry.inode_bytes);
        Ok(InodeLocation {
            group,
            index,
            block,
            offset,
        })
    }

    /// An inode's bytes.
    ///
    /// # Errors
    /// As [`Filesystem::locate`], or where the bytes cannot be read.
    pub fn inode_bytes(&self, inode: InodeNumber) -> Result<Vec<u8>, ReadFailure> {
        let location = self.locate(inode)?;
        let mut bytes = vec![0; usize::try_from(self.geometry.inode_bytes).unwrap_or(128)];
        self.image.read_at(self.inode_offset(&location), &mut bytes)?;
        Ok(bytes)
    }

    /// Where an inode's bytes begin in the image.
    pub fn inode_offset(&self, location: &InodeLocation) -> u64 {
        self.geometry
            .offset_of(location.block)
            .saturating_add(u64::from(location.offset))
    }

    /// Whether an inode's checksum is right; `None` where there is none.
    pub fn inode_checksum_right(&self, inode: InodeNumber, bytes: &[u8]) -> Option<bool> {
        let seed = self.seed()?;
        Some(inode::stored_checksum(bytes) == inode::checksum(seed, inode, bytes))
    }

    /// An inode, and what is wrong with it. A free slot's content is given as it lies there.
    ///
    /// # Errors
    /// As [`Filesystem::inode_bytes`].
    pub fn inode(&self, number: InodeNumber) -> Result<(Inode, Vec<Finding>), ReadFailure> {
        let bytes = self.inode_bytes(number)?;
        let inode = Inode::decode(&bytes);
        let offset = self.inode_offset(&self.locate(number)?);
        let mut findings = Vec::new();
        let mut error = |field, text: String| {
            findings.push(Finding::of_inode(number, offset, text).in_field(field));
        };
        let empty = bytes.iter().all(|byte| *byte == 0);
        if !empty && self.inode_checksum_right(number, &bytes) == Some(false) {
            let stored = inode::stored_checksum(&bytes);
            error(
                "i_checksum_lo",
                format!("its checksum is {stored:#x}, but the bytes say otherwise"),
            );
        }
        let extra_max = self.geometry.inode_bytes.saturating_sub(128);
        if u32::from(inode.raw.i_extra_isize) > extra_max {
            let extra = inode.raw.i_extra_isize;
            error(
                "i_extra_isize",
                format!("i_extra_isize is {extra}, but only {extra_max} bytes are there"),
            );
        }
        if inode.raw.i_links_count > 0
            && inode.file_type.is_none()
            && number.get() >= self.geometry.first_inode
        {
            error(
                "i_mode",
                format!("mode {:#o} is no sort of file", inode.raw.i_mode),
            );
        }
        Ok((inode, findings))
    }

    /// A finding about an inode itself.
    pub(crate) fn inode_finding(&self, number: InodeNumber, text: String) -> Finding {
        let offset = self
            .locate(number)
            .map_or(0, |location| self.inode_offset(&location));
        Finding::of_inode(number, offset, text)
    }

    /// Where the superblock that is used lies, in bytes.
    pub fn superblock_offset(&self) -> u64 {
        self.superblock_at
    }

    pub(crate) fn check_pointer(&self, block: BlockNumber) -> Result<(), ReadFailure> {
        self.geometry
            .contains(block)
            .then_some(())
            .ok_or(ReadFailure::BadPointer(block))
    }
}
