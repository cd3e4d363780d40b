//! What an image may be wrapped in: disks with partitions, QCOW2, Android's sparse form, gzip.
//!
//! Each wrapping is [`ReadAt`] over another one, so that nothing is unpacked that need not be; only gzip is, for it
//! cannot be read in its middle.

mod gzip;
mod partitions;
mod qcow2;
mod sparse;

use std::{fmt, sync::Arc};

pub use partitions::Partition;

use crate::{ReadAt, ReadError, record::Stored, superblock::MAGIC};

/// An image, whatever is around it. CPUs of a run may share it.
pub type Image = Arc<dyn ReadAt + Send + Sync>;

/// How many wrappings may lie in each other.
const LAYERS_MAX: usize = 4;

/// What is inside all wrappings.
pub struct Peeled {
    /// The file system's bytes, or a whole disk's.
    pub image: Image,
    /// The wrappings that were taken off, outermost first, as noun phrases.
    pub layers: Vec<String>,
    /// The partitions, where it is a disk; one of them is to be chosen.
    pub partitions: Vec<Partition>,
}

/// Why a wrapping cannot be taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerError {
    /// It is damaged, or of a kind that is not read; a clause that says why.
    Unusable {
        /// The wrapping, as a noun phrase.
        what: &'static str,
        /// The clause.
        why: String,
    },
    /// There is no partition of this number.
    NoSuchPartition(u32),
    /// The storage failed.
    Read(ReadError),
}

impl fmt::Display for ContainerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { what, why } => write!(f, "this is {what}, but {why}"),
            Self::NoSuchPartition(number) => write!(f, "this disk has no partition {number}"),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ContainerError {}

impl From<ReadError> for ContainerError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Takes off everything that an image is wrapped in.
///
/// # Errors
/// [`ContainerError`] where a wrapping is recognised but cannot be read.
pub fn peel(image: Image) -> Result<Peeled, ContainerError> {
    let mut peeled = Peeled {
        image,
        layers: Vec::new(),
        partitions: Vec::new(),
    };
    for _ in 0..LAYERS_MAX {
        if has_superblock(&peeled.image, 0) {
            break;
        }
        let image = peeled.image.clone();
        let mut magic = [0; 4];
        // A file too short for a magic number is not wrapped in anything.
        if image.read_at(0, &mut magic).is_err() {
            break;
        }
        let (layer, image): (String, Image) = match magic {
            [0x1f, 0x8b, 8, _] => {
                let inflated = gzip::Inflated::of(&image)?;
                let layer = if inflated.ends_early() {
                    "a gzip file that ends early"
                } else {
                    "a gzip file"
                };
                (layer.to_owned(), Arc::new(inflated))
            }
            [b'Q', b'F', b'I', 0xfb] => ("a QCOW2 image".to_owned(), Arc::new(qcow2::Qcow2::of(image)?)),
            [0x3a, 0xff, 0x26, 0xed] => (
                "an Android sparse image".to_owned(),
                Arc::new(sparse::Sparse::of(image)?),
            ),
            _ => {
                peeled.partitions = partitions::partitions(&image);
                break;
            }
        };
        peeled.layers.push(layer);
        peeled.image = image;
    }
    Ok(peeled)
}

impl Peeled {
    /// The bytes of a partition, or of everything where there is none to choose.
    ///
    /// Without a number the first partition that holds ext2, ext3 or ext4 is taken.
    ///
    /// # Errors
    /// [`ContainerError::NoSuchPartition`].
    pub fn choose(&self, number: Option<u32>) -> Result<Image, ContainerError> {
        Ok(match self.chosen(number)? {
            Some(partition) => Arc::new(Slice::new(self.image.clone(), partition.start, partition.bytes)),
            None => self.image.clone(),
        })
    }

    /// Where these bytes begin in the file; `None` where they lie wrapped in it.
    ///
    /// # Errors
    /// As for [`Peeled::choose`].
    pub fn begins_at(&self, number: Option<u32>) -> Result<Option<u64>, ContainerError> {
        let start = self.chosen(number)?.map_or(0, |partition| partition.start);
        Ok(self.layers.is_empty().then_some(start))
    }

    fn chosen(&self, number: Option<u32>) -> Result<Option<&Partition>, ContainerError> {
        Ok(match number {
            Some(number) => Some(
                self.partitions
                    .iter()
                    .find(|partition| partition.number == number)
                    .ok_or(ContainerError::NoSuchPartition(number))?,
            ),
            None => self.partitions.iter().find(|partition| partition.is_ext),
        })
    }
}

/// Whether a file system begins at this offset.
fn has_superblock(image: &Image, offset: u64) -> bool {
    let mut magic = [0; 2];
    let at = offset.saturating_add(1024 + 0x38);
    image.read_at(at, &mut magic).is_ok() && u16::get(&magic, 0) == MAGIC
}

/// A part of some storage.
struct Slice {
    image: Image,
    start: u64,
    bytes: u64,
}

impl Slice {
    /// The part from `start` on; what lies past the end is cut off.
    fn new(image: Image, start: u64, bytes: u64) -> Self {
        let left = image.size().saturating_sub(start);
        Self {
            image,
            start,
            bytes: bytes.min(left),
        }
    }
}

impl ReadAt for Slice {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        ReadError::unless_inside(self.bytes, offset, buffer)?;
        self.image.read_at(self.start.saturating_add(offset), buffer)
    }
}

/// A number as the big-endian formats have it; 0 where the record is too short.
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::get(bytes, at).swap_bytes()
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::get(bytes, at).swap_bytes()
}
