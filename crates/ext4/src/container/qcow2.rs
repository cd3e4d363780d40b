//! QCOW2 images: that is also what `e2image -Q` writes, with nothing but metadata.

use std::sync::{Mutex, PoisonError};

use flate2::{Decompress, FlushDecompress};

use super::{ContainerError, Image, be32, be64};
use crate::{ReadAt, ReadError};

/// Where a table or a cluster begins, in its entry.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Features of version 3 that do not change where things are: dirty, corrupt.
const HARMLESS: u64 = 3;

/// A QCOW2 image, read as the disk that it stands for.
pub(super) struct Qcow2 {
    image: Image,
    size: u64,
    cluster_bits: u32,
    version: u32,
    l1_at: u64,
    l1_entries: u64,
    /// The compressed cluster that was read last: its entry and bytes.
    unpacked: Mutex<Option<(u64, Vec<u8>)>>,
}

impl Qcow2 {
    pub(super) fn of(image: Image) -> Result<Self, ContainerError> {
        let wrong = |why: String| ContainerError::Unusable {
            what: "a QCOW2 image",
            why,
        };
        let mut header = [0; 104];
        // Version 2 has 72 bytes; more may lie behind them or not.
        let there = usize::try_from(image.size().min(104)).unwrap_or(0);
        image.read_at(0, header.get_mut(..there).unwrap_or_default())?;
        let (version, cluster_bits) = (be32(&header, 4), be32(&header, 20));
        if !(2..=3).contains(&version) {
            return Err(wrong(format!("of version {version}, which is not read")));
        }
        if !(9..=21).contains(&cluster_bits) {
            return Err(wrong(format!(
                "its clusters are said to be of 2^{cluster_bits} bytes"
            )));
        }
        if be64(&header, 8) != 0 {
            return Err(wrong(
                "it is a layer over another file (its backing file); merge them with `qemu-img convert` first".to_owned(),
            ));
        }
        if be32(&header, 32) != 0 {
            return Err(wrong("it is encrypted".to_owned()));
        }
        let features = if version == 3 { be64(&header, 72) } else { 0 };
        if features & !HARMLESS != 0 {
            return Err(wrong(format!(
                "it has features that are not read ({features:#x}); make it plain with `qemu-img convert` first"
            )));
        }
        Ok(Self {
            image,
            size: be64(&header, 24),
            cluster_bits,
            version,
            l1_at: be64(&header, 40),
            l1_entries: be32(&header, 36).into(),
            unpacked: Mutex::default(),
        })
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    fn entry(&self, at: u64) -> Result<u64, ReadError> {
        let mut entry = [0; 8];
        self.image.read_at(at, &mut entry)?;
        Ok(u64::from_be_bytes(entry))
    }

    /// The entry of the cluster that holds this byte; 0 for one that is not there.
    fn cluster(&self, offset: u64) -> Result<u64, ReadError> {
        let index = offset >> self.cluster_bits;
        // A table of the second level fills a cluster with entries of 8 bytes.
        let per_table = self.cluster_bits.saturating_sub(3);
        let (first, second) = (index >> per_table, index & (1u64 << per_table).wrapping_sub(1));
        if first >= self.l1_entries {
            return Ok(0);
        }
        let table = self.entry(self.l1_at.saturating_add(first.saturating_mul(8)))? & OFFSET;
        if table == 0 {
            return Ok(0);
        }
        self.entry(table.saturating_add(second.saturating_mul(8)))
    }

    fn compressed(&self, entry: u64, within: u64, target: &mut [u8]) -> Result<(), ReadError> {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if unpacked.as_ref().is_none_or(|(known, _)| *known != entry) {
            // The offset takes what the length in sectors leaves of 62 bits.
            let bits = 62u32.saturating_sub(self.cluster_bits.saturating_sub(8));
            let offset = entry & (1u64 << bits).wrapping_sub(1);
            let sectors = (entry & !(COMPRESSED | 1 << 63)) >> bits;
            let length = sectors
                .saturating_add(1)
                .saturating_mul(512)
                .saturating_sub(offset & 511)
                .min(self.image.size().saturating_sub(offset))
                .min(self.cluster_bytes().saturating_mul(2));
            let mut packed = vec![0; usize::try_from(length).unwrap_or(0)];
            self.image.read_at(offset, &mut packed)?;
            let mut bytes = vec![0; usize::try_from(self.cluster_bytes()).unwrap_or(0)];
            let mut inflate = Decompress::new(false);
            let unpacked_whole = inflate
                .decompress(&packed, &mut bytes, FlushDecompress::Finish)
                .is_ok_and(|_| inflate.total_out() == self.cluster_bytes());
            // What follows the stream in its last sector is no part of it.
            if !unpacked_whole {
                return Err(ReadError::failed(offset, &packed));
            }
            *unpacked = Some((entry, bytes));
        }
        if let Some((_, bytes)) = unpacked.as_ref() {
            let from = usize::try_from(within).unwrap_or(usize::MAX);
            if let Some(source) = bytes.get(from..).and_then(|bytes| bytes.get(..target.len())) {
                target.copy_from_slice(source);
            }
        }
        Ok(())
    }
}

impl ReadAt for Qcow2 {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        ReadError::unless_inside(self.size, offset, buffer)?;
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let within = at & self.cluster_bytes().wrapping_sub(1);
            let left = usize::try_from(self.cluster_bytes().saturating_sub(within)).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
            let entry = self.cluster(at)?;
            if entry & COMPRESSED != 0 {
                self.compressed(entry, within, now)?;
            } else if entry & OFFSET == 0 || self.version == 3 && entry & ZERO != 0 {
                now.fill(0);
            } else {
                self.image.read_at((entry & OFFSET).saturating_add(within), now)?;
            }
            at = at.saturating_add(now.len() as u64);
            rest = later;
        }
        Ok(())
    }
}
