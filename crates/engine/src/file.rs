//! The browser's file, read in a worker, in chunks.

use std::cell::RefCell;

use ext4::{ReadAt, ReadError};
use js_sys::Uint8Array;
use web_sys::{Blob, FileReaderSync};

/// A call costs the same for 4 KiB as for this much.
const CHUNK_BYTES: u64 = 256 * 1024;
/// Chunks that are read at once where the one before was read last: a call costs as much as reading half a MiB.
const AHEAD: u64 = 8;
/// Chunks that a worker keeps.
const CHUNKS_MAX: usize = 64;

/// The open file. The `Blob` itself is this worker's own; every worker of a run has its own handle on the same file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserFile {
    size: u64,
}

thread_local! {
    static OPEN: RefCell<Option<Chunks>> = const { RefCell::new(None) };
}

struct Chunks {
    blob: Blob,
    reader: FileReaderSync,
    /// Number and bytes, the one used last at the end.
    kept: Vec<(u64, Vec<u8>)>,
    /// The chunk after the last that came from the file.
    next: u64,
}

/// Makes this file the worker's open one.
pub(crate) fn set(blob: Blob) -> Option<BrowserFile> {
    let size = blob.size() as u64;
    let reader = FileReaderSync::new().ok()?;
    OPEN.set(Some(Chunks {
        blob,
        reader,
        kept: Vec::new(),
        next: 0,
    }));
    Some(BrowserFile { size })
}

impl Chunks {
    /// The chunk with this number, from the file where it is not kept.
    fn get(&mut self, number: u64) -> Option<&[u8]> {
        if let Some(at) = self.kept.iter().position(|(kept, _)| *kept == number) {
            self.kept[at..].rotate_left(1);
        } else {
            let count = if number == self.next { AHEAD } else { 1 };
            let begin = number * CHUNK_BYTES;
            let end = begin + count * CHUNK_BYTES;
            let slice = self.blob.slice_with_f64_and_f64(begin as f64, end as f64).ok()?;
            let bytes = Uint8Array::new(&self.reader.read_as_array_buffer(&slice).ok()?.into()).to_vec();
            let chunks = bytes.chunks(CHUNK_BYTES as usize).map(<[u8]>::to_vec);
            // The one that is asked for goes last, where it is looked for.
            for (ahead, chunk) in (0..count).zip(chunks).collect::<Vec<_>>().into_iter().rev() {
                if self.kept.len() == CHUNKS_MAX {
                    self.kept.remove(0);
                }
                self.kept.push((number + ahead, chunk));
            }
            self.next = number + count;
        }
        self.kept.last().map(|(_, bytes)| bytes.as_slice())
    }
}

impl ReadAt for BrowserFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        ReadError::unless_inside(self.size, offset, buffer)?;
        let failed = ReadError::failed(offset, buffer);
        OPEN.with_borrow_mut(|open| {
            let chunks = open.as_mut().ok_or(failed)?;
            let mut at = offset;
            let mut rest = buffer;
            while !rest.is_empty() {
                let chunk = chunks.get(at / CHUNK_BYTES).ok_or(failed)?;
                let from = chunk
                    .get((at % CHUNK_BYTES) as usize..)
                    .filter(|from| !from.is_empty())
                    .ok_or(failed)?;
                let count = from.len().min(rest.len());
                let (now, later) = rest.split_at_mut(count);
                now.copy_from_slice(&from[..count]);
                (rest, at) = (later, at + count as u64);
            }
            Ok(())
        })
    }
}
