//! gzip: unpacked into memory, for it cannot be read in its middle. Zeros take no room.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;

use super::{ContainerError, Image};
use crate::{ReadAt, ReadError, number::divide_wide};

const CHUNK: usize = 64 << 10;
/// The most bytes that are kept, those of empty chunks not counted.
const KEPT_MAX: u64 = 1 << 30;
/// The longest image: even an empty chunk costs some memory.
const SIZE_MAX: u64 = 1 << 42;

/// What a gzip file holds.
pub(super) struct Inflated {
    /// `None` for one that is all zeros.
    chunks: Vec<Option<Box<[u8]>>>,
    size: u64,
    ends_early: bool,
}

/// Reads an image from its beginning on.
struct Stream {
    image: Image,
    at: u64,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.image.size().saturating_sub(self.at);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let part = buffer.get_mut(..count).unwrap_or_default();
        self.image
            .read_at(self.at, part)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

impl Inflated {
    /// Unpacks a file. One that ends early gives what is there.
    pub(super) fn of(image: &Image) -> Result<Self, ContainerError> {
        let wrong = |why: String| ContainerError::Unusable {
            what: "a gzip file",
            why,
        };
        let stream = Stream {
            image: image.clone(),
            at: 0,
        };
        let mut decoder = MultiGzDecoder::new(BufReader::with_capacity(256 << 10, stream));
        let mut inflated = Self {
            chunks: Vec::new(),
            size: 0,
            ends_early: false,
        };
        let mut kept = 0u64;
        loop {
            let mut chunk = vec![0; CHUNK];
            let (count, failed) = fill(&mut decoder, &mut chunk);
            if count > 0 {
                let bytes = chunk.get(..count).unwrap_or_default();
                let full = bytes.iter().any(|byte| *byte != 0);
                if full {
                    kept = kept.saturating_add(CHUNK as u64);
                }
                inflated.chunks.push(full.then(|| chunk.into_boxed_slice()));
                inflated.size = inflated.size.saturating_add(count as u64);
            }
            if kept > KEPT_MAX || inflated.size > SIZE_MAX {
                return Err(wrong(
                    "more than 1 GiB of it is not empty: unpack it with `gunzip` first".to_owned(),
                ));
            }
            if let Some(why) = failed {
                if inflated.size == 0 {
                    return Err(wrong(format!("it cannot be unpacked: {why}")));
                }
                inflated.ends_early = true;
                return Ok(inflated);
            }
            if count < CHUNK {
                return Ok(inflated);
            }
        }
    }

    /// Whether it broke off.
    pub(super) fn ends_early(&self) -> bool {
        self.ends_early
    }
}

/// Reads until the buffer is full, the end, or a failure.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut count = 0usize;
    while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(more) => count = count.saturating_add(more),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (count, Some(error)),
        }
    }
    (count, None)
}

impl ReadAt for Inflated {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        ReadError::unless_inside(self.size, offset, buffer)?;
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let (index, within) = divide_wide(at, 64 << 10);
            let within = usize::try_from(within).unwrap_or(0);
            let left = CHUNK.saturating_sub(within);
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
            let chunk = usize::try_from(index)
                .ok()
                .and_then(|index| self.chunks.get(index));
            match chunk {
                Some(Some(chunk)) => {
                    let source = chunk.get(within..).and_then(|bytes| bytes.get(..now.len()));
                    now.copy_from_slice(source.ok_or(ReadError::failed(at, now))?);
                }
                Some(None) => now.fill(0),
                None => return Err(ReadError::failed(at, now)),
            }
            at = at.saturating_add(now.len() as u64);
            rest = later;
        }
        Ok(())
    }
}
