//! The superblock.

use crate::record::{FieldKind, Stored, record};

/// Bytes of a superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;

record! {
    /// The superblock, as `struct ext4_super_block` has it.
    Superblock, SUPERBLOCK_FIELDS, 1024;
    s_inodes_count: u32 = 0x00, "Inodes in all";
    s_blocks_count_lo: u32 = 0x04, "Blocks in all, low half";
    s_r_blocks_count_lo: u32 = 0x08, "Blocks that only root may use, low half";
    s_free_blocks_count_lo: u32 = 0x0c, "Free blocks, low half";
    s_free_inodes_count: u32 = 0x10, "Free inodes";
    s_first_data_block: u32 = 0x14, "First block that belongs to a group: 1 with 1 KiB blocks, else 0";
    s_log_block_size: u32 = 0x18, "Block size is 1024 shifted left by this";
    s_log_cluster_size: u32 = 0x1c, "Cluster size is 1024 shifted left by this";
    s_blocks_per_group: u32 = 0x20, "Blocks in each group";
    s_clusters_per_group: u32 = 0x24, "Clusters in each group";
    s_inodes_per_group: u32 = 0x28, "Inodes in each group";
    s_mtime: u32 = 0x2c, "When it was last mounted";
    s_wtime: u32 = 0x30, "When it was last written";
    s_mnt_count: u16 = 0x34, "Mounts since the last check";
    s_max_mnt_count: u16 = 0x36, "Mounts after which a check is due";
    s_magic: u16 = 0x38, "0xEF53 marks an ext2, ext3 or ext4 file system";
    s_state: u16 = 0x3a, "1: cleanly unmounted; 2: errors found; 4: orphans being recovered";
    s_errors: u16 = 0x3c, "What to do on errors: 1 go on, 2 go read-only, 3 panic";
    s_minor_rev_level: u16 = 0x3e, "Minor revision";
    s_lastcheck: u32 = 0x40, "When it was last checked";
    s_checkinterval: u32 = 0x44, "Seconds after which a check is due";
    s_creator_os: u32 = 0x48, "0 Linux, 1 Hurd, 3 FreeBSD";
    s_rev_level: u32 = 0x4c, "0: fixed inode size, no features; 1: what follows counts";
    s_def_resuid: u16 = 0x50, "User who may use reserved blocks";
    s_def_resgid: u16 = 0x52, "Group that may use reserved blocks";
    s_first_ino: u32 = 0x54, "First inode that is not reserved";
    s_inode_size: u16 = 0x58, "Bytes per inode";
    s_block_group_nr: u16 = 0x5a, "Group that this copy lies in";
    s_feature_compat: u32 = 0x5c, "Features that old drivers may ignore";
    s_feature_incompat: u32 = 0x60, "Features without which nothing may be read";
    s_feature_ro_compat: u32 = 0x64, "Features without which nothing may be written";
    s_uuid: [u8; 16] = 0x68, "UUID of the file system";
    s_volume_name: Label = 0x78, "Label";
    s_last_mounted: [u8; 64] = 0x88, "Where it was last mounted";
    s_algorithm_usage_bitmap: u32 = 0xc8, "For compression; unused";
    s_prealloc_blocks: u8 = 0xcc, "Blocks to preallocate for files; unused";
    s_prealloc_dir_blocks: u8 = 0xcd, "Blocks to preallocate for directories; unused";
    s_reserved_gdt_blocks: u16 = 0xce, "Blocks kept for the descriptor table to grow into";
    s_journal_uuid: [u8; 16] = 0xd0, "UUID of an external journal";
    s_journal_inum: u32 = 0xe0, "Inode of the journal";
    s_journal_dev: u32 = 0xe4, "Device number of an external journal";
    s_last_orphan: u32 = 0xe8, "Newest inode of the orphan list, 0 for none";
    s_hash_seed: [u8; 16] = 0xec, "Seed of directory hashes";
    s_def_hash_version: u8 = 0xfc, "Directory hash: 0 legacy, 1 half MD4, 2 tea, 3 to 5 unsigned, 6 siphash";
    s_jnl_backup_type: u8 = 0xfd, "1: s_jnl_blocks holds a copy of the journal inode's blocks";
    s_desc_size: u16 = 0xfe, "Bytes per group descriptor, with 64bit";
    s_default_mount_opts: u32 = 0x100, "Default mount options";
    s_first_meta_bg: u32 = 0x104, "First group with its descriptors beside it, with meta_bg";
    s_mkfs_time: u32 = 0x108, "When it was made";
    s_jnl_blocks: [u8; 68] = 0x10c, "Copy of the journal inode's blocks and size";
    s_blocks_count_hi: u32 = 0x150, "Blocks in all, high half";
    s_r_blocks_count_hi: u32 = 0x154, "Reserved blocks, high half";
    s_free_blocks_count_hi: u32 = 0x158, "Free blocks, high half";
    s_min_extra_isize: u16 = 0x15c, "Extra inode bytes that every inode has";
    s_want_extra_isize: u16 = 0x15e, "Extra inode bytes that new inodes get";
    s_flags: u32 = 0x160, "1: signed directory hash; 2: unsigned; 4: test file system";
    s_raid_stride: u16 = 0x164, "RAID stride in blocks";
    s_mmp_update_interval: u16 = 0x166, "Seconds between multi-mount checks";
    s_mmp_block: u64 = 0x168, "Block for multi-mount protection";
    s_raid_stripe_width: u32 = 0x170, "RAID stripe in blocks";
    s_log_groups_per_flex: u8 = 0x174, "Groups per flex group is 1 shifted left by this";
    s_checksum_type: u8 = 0x175, "1: crc32c";
    s_encryption_level: u8 = 0x176, "Version of encryption";
    s_reserved_pad: u8 = 0x177, "Padding";
    s_kbytes_written: u64 = 0x178, "KiB written over its lifetime";
    s_snapshot_inum: u32 = 0x180, "Unused: inode of the active snapshot";
    s_snapshot_id: u32 = 0x184, "Unused: number of the active snapshot";
    s_snapshot_r_blocks_count: u64 = 0x188, "Unused: blocks reserved for it";
    s_snapshot_list: u32 = 0x190, "Unused: head of the list of snapshots";
    s_error_count: u32 = 0x194, "Errors seen since the last check";
    s_first_error_time: u32 = 0x198, "When the first of them was seen";
    s_first_error_ino: u32 = 0x19c, "Inode of the first error";
    s_first_error_block: u64 = 0x1a0, "Block of the first error";
    s_first_error_func: [u8; 32] = 0x1a8, "Function that saw the first error";
    s_first_error_line: u32 = 0x1c8, "Line that saw the first error";
    s_last_error_time: u32 = 0x1cc, "When the last of them was seen";
    s_last_error_ino: u32 = 0x1d0, "Inode of the last error";
    s_last_error_line: u32 = 0x1d4, "Line that saw the last error";
    s_last_error_block: u64 = 0x1d8, "Block of the last error";
    s_last_error_func: [u8; 32] = 0x1e0, "Function that saw the last error";
    s_mount_opts: [u8; 64] = 0x200, "Mount options that always apply";
    s_usr_quota_inum: u32 = 0x240, "Inode of user quota";
    s_grp_quota_inum: u32 = 0x244, "Inode of group quota";
    s_overhead_clusters: u32 = 0x248, "Clusters that the file system needs for itself";
    s_backup_bgs: [u8; 8] = 0x24c, "Groups with copies, with sparse_super2";
    s_encrypt_algos: [u8; 4] = 0x254, "Encryption algorithms in use";
    s_encrypt_pw_salt: [u8; 16] = 0x258, "Salt for encryption keys";
    s_lpf_ino: u32 = 0x268, "Inode of lost+found";
    s_prj_quota_inum: u32 = 0x26c, "Inode of project quota";
    s_checksum_seed: u32 = 0x270, "crc32c of the UUID that checksums begin with";
    s_wtime_hi: u8 = 0x274, "High byte of s_wtime";
    s_mtime_hi: u8 = 0x275, "High byte of s_mtime";
    s_mkfs_time_hi: u8 = 0x276, "High byte of s_mkfs_time";
    s_lastcheck_hi: u8 = 0x277, "High byte of s_lastcheck";
    s_first_error_time_hi: u8 = 0x278, "High byte of s_first_error_time";
    s_last_error_time_hi: u8 = 0x279, "High byte of s_last_error_time";
    s_first_error_errcode: u8 = 0x27a, "Kind of the first error";
    s_last_error_errcode: u8 = 0x27b, "Kind of the last error";
    s_encoding: u16 = 0x27c, "Character encoding of names, with casefold";
    s_encoding_flags: u16 = 0x27e, "1: names must be valid in it";
    s_orphan_file_inum: u32 = 0x280, "Inode of the orphan file";
    s_checksum: u32 = 0x3fc, "crc32c of all bytes before";
}

/// Sixteen bytes of text, padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub [u8; 16]);

impl Label {
    /// The text, with what is not UTF-8 replaced.
    pub fn text(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(self.0.get(..end).unwrap_or_default()).into_owned()
    }
}

impl Stored for Label {
    const KIND: FieldKind = FieldKind::Text;

    fn get(record: &[u8], offset: usize) -> Self {
        Self(Stored::get(record, offset))
    }

    fn put(self, record: &mut [u8], offset: usize) {
        self.0.put(record, offset);
    }
}

/// `s_magic` of every ext2, ext3 and ext4 file system.
pub(crate) const MAGIC: u16 = 0xef53;

impl Superblock {
    /// Blocks in all.
    pub fn blocks_count(&self) -> u64 {
        self.wide(self.s_blocks_count_lo, self.s_blocks_count_hi)
    }

    /// Free blocks, as the superblock says.
    pub fn free_blocks_count(&self) -> u64 {
        self.wide(self.s_free_blocks_count_lo, self.s_free_blocks_count_hi)
    }

    /// Bytes per inode; revision 0 fixes it.
    pub fn inode_size(&self) -> u16 {
        if self.s_rev_level == 0 {
            128
        } else {
            self.s_inode_size
        }
    }

    /// First inode that is not reserved; revision 0 fixes it.
    pub fn first_inode(&self) -> u32 {
        if self.s_rev_level == 0 {
            11
        } else {
            self.s_first_ino
        }
    }

    fn wide(&self, low: u32, high: u32) -> u64 {
        let high = if self.incompat().has(crate::Incompat::BIT64) {
            high
        } else {
            0
        };
        u64::from(low) | (u64::from(high) << 32)
    }
}
