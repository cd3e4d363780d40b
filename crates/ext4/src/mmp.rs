//! Multi-mount protection: a block that says who has the file system mounted.

use crate::{BlockNumber, Filesystem, Finding, ReadAt, record::record};

record! {
    /// The block, as `struct mmp_struct` has it.
    MultiMount, MMP_FIELDS, 1024;
    mmp_magic: u32 = 0x00, "0x004D4D50 marks it";
    mmp_seq: u32 = 0x04, "Rises while mounted; 0xFF4D4D50: cleanly unmounted; 0xE24D4D50: being checked";
    mmp_time: u64 = 0x08, "When it was last written, in seconds";
    mmp_nodename: [u8; 64] = 0x10, "The host that wrote it";
    mmp_bdevname: [u8; 32] = 0x50, "The device there";
    mmp_check_interval: u16 = 0x70, "Seconds between two writes";
    mmp_checksum: u32 = 0x3fc, "crc32c of all bytes before";
}

const MAGIC: u32 = 0x004d_4d50;
const CHECKSUM_AT: usize = 0x3fc;

impl<R: ReadAt> Filesystem<R> {
    /// The block of multi-mount protection, and what is wrong with it; only with the feature `mmp`.
    pub fn multi_mount(&self) -> (Option<MultiMount>, Vec<Finding>) {
        let block = BlockNumber(self.superblock().s_mmp_block);
        let offset = self.geometry().offset_of(block);
        let error = |text: String| vec![Finding::error("multi-mount block", offset, text)];
        let bytes = match self.block(block) {
            Ok(bytes) => bytes,
            Err(why) => return (None, error(why.to_string())),
        };
        let record = MultiMount::decode(&bytes);
        if record.mmp_magic != MAGIC {
            let magic = record.mmp_magic;
            return (
                Some(record),
                error(format!("its magic number is {magic:#010x}, not {MAGIC:#010x}")),
            );
        }
        let right = self
            .seed()
            .map(|seed| seed.over(bytes.get(..CHECKSUM_AT).unwrap_or_default()).0);
        let findings = match right {
            Some(right) if right != record.mmp_checksum => {
                let stored = record.mmp_checksum;
                error(format!(
                    "its checksum is {stored:#010x}, but should be {right:#010x}"
                ))
            }
            _ => Vec::new(),
        };
        (Some(record), findings)
    }
}
