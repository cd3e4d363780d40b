//! The one seam to storage.

use std::{fmt, sync::Arc};

/// Bytes that can be read at any place: a native file, memory, a `File` in a worker, or a container around one.
pub trait ReadAt {
    /// The length in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// [`ReadError`] where the range is not wholly inside, or the storage fails; `buffer` is then undefined.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError>;
}

/// Bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Where the range begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Whether the range reaches past the end, as in a truncated image.
    pub past_end: bool,
}

impl ReadError {
    /// The storage failed on this range.
    pub fn failed(offset: u64, buffer: &[u8]) -> Self {
        Self {
            offset,
            bytes: buffer.len() as u64,
            past_end: false,
        }
    }

    /// Fails where the range of `buffer` from `offset` on is not wholly inside storage of `size` bytes.
    ///
    /// # Errors
    /// That it reaches past the end.
    pub fn unless_inside(size: u64, offset: u64, buffer: &[u8]) -> Result<(), Self> {
        let inside = offset
            .checked_add(buffer.len() as u64)
            .is_some_and(|end| end <= size);
        inside.then_some(()).ok_or(Self::past_end(offset, buffer))
    }

    /// The range is not wholly inside.
    pub fn past_end(offset: u64, buffer: &[u8]) -> Self {
        Self {
            offset,
            bytes: buffer.len() as u64,
            past_end: true,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset,
            bytes,
            past_end,
        } = self;
        let why = if *past_end {
            "reach past the end of the file"
        } else {
            "could not be read"
        };
        write!(f, "{bytes} bytes at offset {offset} {why}")
    }
}

impl std::error::Error for ReadError {}

impl ReadAt for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let error = ReadError::past_end(offset, buffer);
        let from = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get(offset..))
            .ok_or(error)?;
        let bytes = from.get(..buffer.len()).ok_or(error)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Arc<R> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        (**self).read_at(offset, buffer)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        (**self).read_at(offset, buffer)
    }
}

/// A file of the host.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
pub struct NativeFile {
    file: std::fs::File,
    size: u64,
}

#[cfg(not(target_arch = "wasm32"))]
impl NativeFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`std::fs::File::open`].
    pub fn open(path: impl AsRef<std::path::Path>) -> std::io::Result<Self> {
        use std::io::{Seek, SeekFrom};
        let mut file = std::fs::File::open(path)?;
        // Seeking tells the size of block devices too.
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, size })
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl ReadAt for NativeFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        use std::os::unix::fs::FileExt;
        ReadError::unless_inside(self.size, offset, buffer)?;
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|_| ReadError::failed(offset, buffer))
    }
}
