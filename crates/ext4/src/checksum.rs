//! The checksums of metadata.

use crc::{CRC_16_MODBUS, Crc};

use crate::{Incompat, InodeNumber, Superblock};

/// The raw crc32c: reflected polynomial, neither inverted before nor after.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// The crc16 of old group descriptors: polynomial 0x8005 reflected, starting with all ones.
pub(crate) fn crc16(parts: &[&[u8]]) -> u16 {
    const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_MODBUS);
    let mut digest = CRC.digest();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

/// What the checksums of a structure begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u32);

impl Seed {
    /// The file system's.
    pub fn of_filesystem(superblock: &Superblock) -> Self {
        match superblock.incompat().has(Incompat::CSUM_SEED) {
            true => Self(superblock.s_checksum_seed),
            false => Self(crc32c(u32::MAX, &superblock.s_uuid)),
        }
    }

    /// That of an inode and of what hangs on it.
    pub fn of_inode(self, inode: InodeNumber, generation: u32) -> Self {
        self.over(&inode.get().to_le_bytes())
            .over(&generation.to_le_bytes())
    }

    /// The seed once these bytes have been taken in.
    pub fn over(self, bytes: &[u8]) -> Self {
        Self(crc32c(self.0, bytes))
    }
}
