//! Inodes.

use crate::{
    InodeNumber, Seed, Timestamp,
    map::EXTENT_MAGIC,
    record::{Stored, record},
};

record! {
    /// An inode as it lies on disk, as `struct ext4_inode` has it; a 128-byte one ends before `i_extra_isize`.
    RawInode, INODE_FIELDS, 160;
    i_mode: u16 = 0x00, "Type and permissions";
    i_uid: u16 = 0x02, "Owner, low half";
    i_size_lo: u32 = 0x04, "Size in bytes, low half";
    i_atime: u32 = 0x08, "Last access, seconds";
    i_ctime: u32 = 0x0c, "Last change of the inode, seconds";
    i_mtime: u32 = 0x10, "Last change of the data, seconds";
    i_dtime: u32 = 0x14, "Deletion time; while an orphan, the next older orphan";
    i_gid: u16 = 0x18, "Group owner, low half";
    i_links_count: u16 = 0x1a, "Links; 1 for a directory with too many to count";
    i_blocks_lo: u32 = 0x1c, "Space in use, in 512-byte units or blocks, low part";
    i_flags: u32 = 0x20, "Flags";
    i_version: u32 = 0x24, "Version, low half";
    i_block: [u8; 60] = 0x28, "Extent tree, block map, symlink target or inline data";
    i_generation: u32 = 0x64, "Tells a reused inode number from the old one";
    i_file_acl_lo: u32 = 0x68, "Block of extended attributes, low half";
    i_size_high: u32 = 0x6c, "Size in bytes, high half";
    i_obso_faddr: u32 = 0x70, "Unused: fragment address";
    i_blocks_high: u16 = 0x74, "Space in use, high part";
    i_file_acl_high: u16 = 0x76, "Block of extended attributes, high part";
    i_uid_high: u16 = 0x78, "Owner, high half";
    i_gid_high: u16 = 0x7a, "Group owner, high half";
    i_checksum_lo: u16 = 0x7c, "crc32c over number, generation and inode, low half";
    i_reserved: u16 = 0x7e, "Padding";
    i_extra_isize: u16 = 0x80, "Bytes in use after the first 128";
    i_checksum_hi: u16 = 0x82, "crc32c, high half";
    i_ctime_extra: u32 = 0x84, "Last change of the inode: epoch and nanoseconds";
    i_mtime_extra: u32 = 0x88, "Last change of the data: epoch and nanoseconds";
    i_atime_extra: u32 = 0x8c, "Last access: epoch and nanoseconds";
    i_crtime: u32 = 0x90, "Creation, seconds";
    i_crtime_extra: u32 = 0x94, "Creation: epoch and nanoseconds";
    i_version_hi: u32 = 0x98, "Version, high half";
    i_projid: u32 = 0x9c, "Project";
}

const CHECKSUM_LOW_AT: usize = 0x7c;
const CHECKSUM_HIGH_AT: usize = 0x82;
/// Where the part begins that 128-byte inodes lack.
const EXTRA_AT: usize = 128;
/// Extra bytes needed for the checksum's high half.
const EXTRA_FOR_CHECKSUM: u16 = 4;

/// What sort of file an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Character,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl FileType {
    /// The type in a mode; `None` where the bits mean nothing.
    pub fn of_mode(mode: u16) -> Option<Self> {
        Some(match mode >> 12 {
            0o10 => Self::Regular,
            0o04 => Self::Directory,
            0o12 => Self::Symlink,
            0o02 => Self::Character,
            0o06 => Self::Block,
            0o01 => Self::Fifo,
            0o14 => Self::Socket,
            _ => return None,
        })
    }

    /// The letter that `ls -l` prints.
    pub fn letter(self) -> char {
        match self {
            Self::Regular => '-',
            Self::Directory => 'd',
            Self::Symlink => 'l',
            Self::Character => 'c',
            Self::Block => 'b',
            Self::Fifo => 'p',
            Self::Socket => 's',
        }
    }
}

/// The flags of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeFlags(pub u32);

impl InodeFlags {
    /// Its names are encrypted, or its content.
    pub const ENCRYPTED: Self = Self(0x800);
    /// A directory with an index of hashes.
    pub const INDEX: Self = Self(0x1000);
    /// Space is counted in file system blocks.
    pub const HUGE_FILE: Self = Self(0x4_0000);
    /// Mapped by extents.
    pub const EXTENTS: Self = Self(0x8_0000);
    /// Protected by fs-verity: its tree of hashes lies past the end of the file.
    pub const VERITY: Self = Self(0x10_0000);
    /// Holds the value of an extended attribute.
    pub const EA_INODE: Self = Self(0x20_0000);
    /// Its data lie in the inode.
    pub const INLINE_DATA: Self = Self(0x1000_0000);
    /// A directory whose names ignore case.
    pub const CASEFOLD: Self = Self(0x4000_0000);
    const NAMES: [(u32, &'static str); 25] = [
        (0x1, "secure deletion"),
        (0x2, "undeletable"),
        (0x4, "compressed"),
        (0x8, "synchronous"),
        (0x10, "immutable"),
        (0x20, "append only"),
        (0x40, "no dump"),
        (0x80, "no access time"),
        (0x100, "dirty compressed"),
        (0x200, "compressed clusters"),
        (0x400, "no compression"),
        (0x800, "encrypted"),
        (0x1000, "hashed directory"),
        (0x2000, "AFS directory"),
        (0x4000, "journalled data"),
        (0x8000, "no tail merging"),
        (0x1_0000, "synchronous directory"),
        (0x2_0000, "top of a hierarchy"),
        (0x4_0000, "huge file"),
        (0x8_0000, "extents"),
        (0x10_0000, "verity"),
        (0x20_0000, "extended attribute value"),
        (0x1000_0000, "inline data"),
        (0x2000_0000, "inherits project"),
        (0x4000_0000, "ignores case"),
    ];

    /// Whether all bits of `wanted` are set.
    pub fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The flags that are set, in words; bits without a name by number.
    pub fn names(self) -> Vec<String> {
        let bits = (0..32).map(|shift| 1u32 << shift).filter(|bit| self.0 & bit != 0);
        bits.map(|bit| match Self::NAMES.iter().find(|(known, _)| *known == bit) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("{bit:#x}"),
        })
        .collect()
    }
}

/// An inode with its halves put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The fields as they lie on disk.
    pub raw: RawInode,
    /// What sort of file; `None` where the mode means nothing.
    pub file_type: Option<FileType>,
    /// Size in bytes.
    pub size: u64,
    /// Owner.
    pub uid: u32,
    /// Group owner.
    pub gid: u32,
    /// `i_blocks`: 512-byte units, or blocks with the flag "huge file".
    pub blocks: u64,
    /// Block of extended attributes, 0 for none.
    pub attribute_block: u64,
    /// Flags.
    pub flags: InodeFlags,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the inode.
    pub changed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Creation, where the inode has room for it.
    pub created: Option<Timestamp>,
}

impl Inode {
    /// Whether it is a symbolic link whose target lies in `i_block`, as e2fsprogs tells it: it is short enough.
    ///
    /// One that has an extent tree there nonetheless is read by it.
    pub fn has_fast_target(&self) -> bool {
        let mapped = self.flags.has(InodeFlags::EXTENTS) && u16::get(&self.raw.i_block, 0) == EXTENT_MAGIC;
        self.file_type == Some(FileType::Symlink)
            && self.size < self.raw.i_block.len() as u64
            && !self.flags.has(InodeFlags::INLINE_DATA)
            && !mapped
    }

    /// Major and minor number of a device.
    pub fn device(&self) -> Option<(u32, u32)> {
        if !matches!(self.file_type, Some(FileType::Character | FileType::Block)) {
            return None;
        }
        let old = u32::get(&self.raw.i_block, 0);
        let new = u32::get(&self.raw.i_block, 4);
        Some(match old {
            // The new coding keeps the low byte of the minor number apart from the rest.
            0 => ((new & 0xf_ff00) >> 8, (new & 0xff) | (new >> 12 & 0xf_ff00)),
            _ => (old >> 8 & 0xff, old & 0xff),
        })
    }

    /// The inode in these bytes, 128 or more.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut raw = RawInode::decode(bytes);
        if bytes.len() <= EXTRA_AT {
            raw.i_extra_isize = 0;
        }
        let extra = usize::from(raw.i_extra_isize);
        // A field of the extra part counts only if i_extra_isize reaches to its end.
        let counts = |end: usize| EXTRA_AT.saturating_add(extra) >= end;
        let time = |seconds, field, end| Timestamp::decode(seconds, if counts(end) { field } else { 0 });
        Self {
            file_type: FileType::of_mode(raw.i_mode),
            size: u64::from(raw.i_size_lo) | (u64::from(raw.i_size_high) << 32),
            uid: u32::from(raw.i_uid) | (u32::from(raw.i_uid_high) << 16),
            gid: u32::from(raw.i_gid) | (u32::from(raw.i_gid_high) << 16),
            blocks: u64::from(raw.i_blocks_lo) | (u64::from(raw.i_blocks_high) << 32),
            attribute_block: u64::from(raw.i_file_acl_lo) | (u64::from(raw.i_file_acl_high) << 32),
            flags: InodeFlags(raw.i_flags),
            accessed: time(raw.i_atime, raw.i_atime_extra, 0x90),
            changed: time(raw.i_ctime, raw.i_ctime_extra, 0x88),
            modified: time(raw.i_mtime, raw.i_mtime_extra, 0x8c),
            created: counts(0x98).then(|| Timestamp::decode(raw.i_crtime, raw.i_crtime_extra)),
            raw,
        }
    }
}

/// How much of the checksum an inode has room for.
fn has_high_half(bytes: &[u8]) -> bool {
    bytes.len() > EXTRA_AT && RawInode::decode(bytes).i_extra_isize >= EXTRA_FOR_CHECKSUM
}

/// The right checksum of an inode: 32 bits, of which small inodes keep the low half.
pub(crate) fn checksum(seed: Seed, inode: InodeNumber, bytes: &[u8]) -> u32 {
    let part = |from: usize, to: usize| bytes.get(from..to.min(bytes.len())).unwrap_or_default();
    let seed = seed.of_inode(inode, RawInode::decode(bytes).i_generation);
    let seed = seed
        .over(part(0, CHECKSUM_LOW_AT))
        .over(&[0, 0])
        .over(part(0x7e, CHECKSUM_HIGH_AT));
    if has_high_half(bytes) {
        seed.over(&[0, 0]).over(part(0x84, usize::MAX)).0
    } else {
        seed.over(part(CHECKSUM_HIGH_AT, usize::MAX)).0 & 0xffff
    }
}

/// The checksum that an inode carries.
pub(crate) fn stored_checksum(bytes: &[u8]) -> u32 {
    let raw = RawInode::decode(bytes);
    let high = if has_high_half(bytes) {
        u32::from(raw.i_checksum_hi) << 16
    } else {
        0
    };
    u32::from(raw.i_checksum_lo) | high
}

/// Writes the right checksum into an inode, 16 or 32 bits as it has room for.
pub fn seal_inode(seed: Seed, inode: InodeNumber, bytes: &mut [u8]) {
    let [a, b, c, d] = checksum(seed, inode, bytes).to_le_bytes();
    let high = has_high_half(bytes);
    let mut put = |at: usize, half: [u8; 2]| {
        if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *field = half;
        }
    };
    put(CHECKSUM_LOW_AT, [a, b]);
    if high {
        put(CHECKSUM_HIGH_AT, [c, d]);
    }
}
