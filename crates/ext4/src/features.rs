//! Feature flags, with the names that mke2fs and dumpe2fs give them.

use crate::Superblock;

/// One feature bit and its usual name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureName {
    /// The bit.
    pub bit: u32,
    /// The name.
    pub name: &'static str,
}

macro_rules! features {
    ($(#[$doc:meta])* $set:ident; $($(#[$bit_doc:meta])* $constant:ident = $bit:literal, $name:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(pub u32);

        impl $set {
            $($(#[$bit_doc])* pub const $constant: Self = Self($bit);)*
            /// All that have a name.
            pub const NAMES: &'static [FeatureName] = &[$(FeatureName { bit: $bit, name: $name },)*];

            /// Whether all bits of `wanted` are set.
            pub fn has(self, wanted: Self) -> bool {
                self.0 & wanted.0 == wanted.0
            }
        }
    };
}

features! {
    /// Features that a driver which does not know them may ignore.
    Compat;
    /// Blocks are preallocated for directories.
    DIR_PREALLOC = 0x1, "dir_prealloc";
    /// Inodes for an AFS server.
    IMAGIC_INODES = 0x2, "imagic_inodes";
    /// There is a journal.
    HAS_JOURNAL = 0x4, "has_journal";
    /// There are extended attributes.
    EXT_ATTR = 0x8, "ext_attr";
    /// Room is kept for the descriptor table to grow.
    RESIZE_INODE = 0x10, "resize_inode";
    /// Directories may be hashed.
    DIR_INDEX = 0x20, "dir_index";
    /// Groups may be made lazily, an early form.
    LAZY_BG = 0x40, "lazy_bg";
    /// An inode is kept out of snapshots.
    EXCLUDE_BITMAP = 0x100, "snapshot_bitmap";
    /// Copies of the superblock lie in two groups only.
    SPARSE_SUPER2 = 0x200, "sparse_super2";
    /// The journal may hold fast commits.
    FAST_COMMIT = 0x400, "fast_commit";
    /// Inode numbers and UUID never change.
    STABLE_INODES = 0x800, "stable_inodes";
    /// There is an orphan file.
    ORPHAN_FILE = 0x1000, "orphan_file";
}

features! {
    /// Features without which nothing may be read.
    Incompat;
    /// Compressed files; never in Linux.
    COMPRESSION = 0x1, "compression";
    /// Directory entries carry the file's type.
    FILETYPE = 0x2, "filetype";
    /// The journal has to be replayed.
    RECOVER = 0x4, "needs_recovery";
    /// This is an external journal, not a file system.
    JOURNAL_DEV = 0x8, "journal_dev";
    /// Descriptors lie beside their groups.
    META_BG = 0x10, "meta_bg";
    /// Files may be mapped by extents.
    EXTENTS = 0x40, "extent";
    /// Block numbers are wide.
    BIT64 = 0x80, "64bit";
    /// Multi-mount protection.
    MMP = 0x100, "mmp";
    /// Bitmaps and tables of several groups lie together.
    FLEX_BG = 0x200, "flex_bg";
    /// Large attributes have inodes of their own.
    EA_INODE = 0x400, "ea_inode";
    /// Data in directory entries; never in Linux.
    DIRDATA = 0x1000, "dirdata";
    /// The checksum seed lies in the superblock.
    CSUM_SEED = 0x2000, "metadata_csum_seed";
    /// Hashed directories may have three levels.
    LARGEDIR = 0x4000, "large_dir";
    /// Small files lie in their inodes.
    INLINE_DATA = 0x8000, "inline_data";
    /// Files may be encrypted.
    ENCRYPT = 0x10000, "encrypt";
    /// Directories may ignore case.
    CASEFOLD = 0x20000, "casefold";
}

features! {
    /// Features without which nothing may be written.
    RoCompat;
    /// Copies of the superblock lie in groups 0, 1 and powers of 3, 5 and 7 only.
    SPARSE_SUPER = 0x1, "sparse_super";
    /// Files may be larger than 2 GiB.
    LARGE_FILE = 0x2, "large_file";
    /// Directories as B-trees; never in Linux.
    BTREE_DIR = 0x4, "btree_dir";
    /// Space may be counted in file system blocks.
    HUGE_FILE = 0x8, "huge_file";
    /// Descriptors have crc16 checksums and may say that a group is uninitialised.
    GDT_CSUM = 0x10, "uninit_bg";
    /// Directories may have more than 65,000 subdirectories.
    DIR_NLINK = 0x20, "dir_nlink";
    /// Inodes have extra fields.
    EXTRA_ISIZE = 0x40, "extra_isize";
    /// There are snapshots; never in Linux.
    HAS_SNAPSHOT = 0x80, "has_snapshot";
    /// Quota is kept in hidden inodes.
    QUOTA = 0x100, "quota";
    /// Space is handed out in clusters of several blocks.
    BIGALLOC = 0x200, "bigalloc";
    /// All metadata has crc32c checksums.
    METADATA_CSUM = 0x400, "metadata_csum";
    /// Blocks may be shared; never in Linux.
    REPLICA = 0x800, "replica";
    /// Must not be written at all.
    READONLY = 0x1000, "read-only";
    /// Project quota.
    PROJECT = 0x2000, "project";
    /// Files share blocks, as Android makes them.
    SHARED_BLOCKS = 0x4000, "shared_blocks";
    /// Files may be protected by fs-verity.
    VERITY = 0x8000, "verity";
    /// The orphan file may hold entries.
    ORPHAN_PRESENT = 0x10000, "orphan_present";
}

impl Superblock {
    /// Features that may be ignored; none in revision 0.
    pub fn compat(&self) -> Compat {
        Compat(if self.s_rev_level == 0 {
            0
        } else {
            self.s_feature_compat
        })
    }

    /// Features that must be known to read; none in revision 0.
    pub fn incompat(&self) -> Incompat {
        Incompat(if self.s_rev_level == 0 {
            0
        } else {
            self.s_feature_incompat
        })
    }

    /// Features that must be known to write; none in revision 0.
    pub fn ro_compat(&self) -> RoCompat {
        RoCompat(if self.s_rev_level == 0 {
            0
        } else {
            self.s_feature_ro_compat
        })
    }
}

/// The names of all features that are on, in the order in which dumpe2fs prints them; bits without a name by number.
pub fn feature_names(superblock: &Superblock) -> Vec<String> {
    let sets = [
        ("compat", superblock.compat().0, Compat::NAMES),
        ("incompat", superblock.incompat().0, Incompat::NAMES),
        ("ro_compat", superblock.ro_compat().0, RoCompat::NAMES),
    ];
    let mut names = Vec::new();
    for (set, bits, known) in sets {
        for bit in (0..32).map(|shift| 1u32 << shift).filter(|bit| bits & bit != 0) {
            match known.iter().find(|feature| feature.bit == bit) {
                Some(feature) => names.push(feature.name.to_owned()),
                None => names.push(format!("{set} {bit:#x}")),
            }
        }
    }
    names
}
