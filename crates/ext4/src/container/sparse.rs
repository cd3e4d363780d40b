//! Android's sparse images: chunks that are raw, filled with a word, or left out.

use super::{ContainerError, Image};
use crate::{ReadAt, ReadError, record::Stored};

const RAW: u16 = 0xcac1;
const FILL: u16 = 0xcac2;
const LEFT_OUT: u16 = 0xcac3;
const CHECKSUM: u16 = 0xcac4;

/// A sparse image, read as what it stands for.
pub(super) struct Sparse {
    image: Image,
    size: u64,
    /// In the order of where they begin.
    chunks: Vec<Chunk>,
}

struct Chunk {
    start: u64,
    bytes: u64,
    source: Source,
}

enum Source {
    /// At this offset of the file.
    Raw(u64),
    Fill([u8; 4]),
}

impl Sparse {
    pub(super) fn of(image: Image) -> Result<Self, ContainerError> {
        let wrong = |why: String| ContainerError::Unusable {
            what: "an Android sparse image",
            why,
        };
        let mut header = [0; 28];
        image.read_at(0, &mut header)?;
        let (major, header_bytes, chunk_header) =
            (u16::get(&header, 4), u16::get(&header, 8), u16::get(&header, 10));
        let (block, blocks, count) = (
            u64::from(u32::get(&header, 12)),
            u32::get(&header, 16),
            u32::get(&header, 20),
        );
        if major != 1 || header_bytes < 28 || chunk_header < 12 {
            return Err(wrong(format!("of version {major}, which is not read")));
        }
        if block == 0 || !block.is_multiple_of(4) {
            return Err(wrong(format!("its blocks are said to be of {block} bytes")));
        }
        let mut at = u64::from(header_bytes);
        let mut start = 0u64;
        let mut chunks = Vec::new();
        for _ in 0..count {
            let mut chunk = [0; 12];
            // A file that ends early has no more chunks: what they held is missing.
            if image.read_at(at, &mut chunk).is_err() {
                break;
            }
            let (kind, bytes, total) = (
                u16::get(&chunk, 0),
                u64::from(u32::get(&chunk, 4)).saturating_mul(block),
                u64::from(u32::get(&chunk, 8)),
            );
            let data = at.saturating_add(chunk_header.into());
            let source = match kind {
                RAW => Some(Source::Raw(data)),
                FILL => {
                    let mut word = [0; 4];
                    image.read_at(data, &mut word)?;
                    Some(Source::Fill(word))
                }
                LEFT_OUT | CHECKSUM => None,
                other => return Err(wrong(format!("it has a chunk of type {other:#06x} at byte {at}"))),
            };
            if total < u64::from(chunk_header) {
                return Err(wrong(format!("the chunk at byte {at} is {total} bytes long")));
            }
            if let Some(source) = source.filter(|_| bytes > 0) {
                chunks.push(Chunk { start, bytes, source });
            }
            if kind != CHECKSUM {
                start = start.saturating_add(bytes);
            }
            at = at.saturating_add(total);
        }
        Ok(Self {
            image,
            size: u64::from(blocks).saturating_mul(block),
            chunks,
        })
    }
}

impl ReadAt for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        ReadError::unless_inside(self.size, offset, buffer)?;
        buffer.fill(0);
        let end = offset.saturating_add(buffer.len() as u64);
        let skip = self
            .chunks
            .partition_point(|chunk| chunk.start.saturating_add(chunk.bytes) <= offset);
        for chunk in self.chunks.iter().skip(skip) {
            let from = chunk.start.max(offset);
            let to = chunk.start.saturating_add(chunk.bytes).min(end);
            if from >= to {
                break;
            }
            let part = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
            let Some(target) = buffer.get_mut(part(from)..part(to)) else {
                break;
            };
            let within = from.saturating_sub(chunk.start);
            match chunk.source {
                Source::Raw(data) => self.image.read_at(data.saturating_add(within), target)?,
                Source::Fill(word) => {
                    let skip = usize::try_from(within % 4).unwrap_or(0);
                    let bytes = word.iter().cycle().skip(skip);
                    for (target, byte) in target.iter_mut().zip(bytes) {
                        *target = *byte;
                    }
                }
            }
        }
        Ok(())
    }
}
