//! `ext4lab cat`: the content of a file.

use std::io::Write;

use clap::Args;
use ext4::{File, FileType, Filesystem, InodeNumber, ReadAt};

use crate::{
    answer::{Failure, Format, Verdict, output, verdict},
    arguments::{EXIT_STATUS, InImage, Source},
    finding::rows,
    image,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab cat disk.img /etc/fstab
  ext4lab cat disk.img '<8>' > journal
";

/// Read in one piece; a multiple of 3, so that base64 pieces fit together.
const PIECE_BYTES: usize = 768 << 10;
/// Symbolic links that are followed; the kernel's limit.
const LINKS_MAX: usize = 40;

/// Write the content of a file
///
/// Holes are written as zeros. A symbolic link at the end of the path is followed; of one that is given by its inode's
/// number the target is written. The content of an encrypted file is written as it lies there.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    path: InImage,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let number = follow(&filesystem, arguments.path.bytes())?;
    let (inode, mut findings) = filesystem.inode(number)?;
    match inode.file_type {
        Some(FileType::Regular | FileType::Symlink) => {}
        // The journal and other reserved inodes may be without a mode.
        None if filesystem.maps_blocks(&inode) => {}
        Some(FileType::Directory) => {
            return Err(Failure::NotThere(format!(
                "inode {number} is a directory; `ext4lab ls` lists it"
            )));
        }
        _ => {
            return Err(Failure::NotThere(format!(
                "inode {number} is no file, so that it has no content"
            )));
        }
    }
    let file = filesystem.file(number, &inode);
    findings.extend(file.findings().iter().cloned());
    match arguments.source.format() {
        Format::Text => plain(&file)?,
        Format::Json => json(number, &file)?,
    }
    let findings = rows(findings);
    findings
        .iter()
        .for_each(|finding| eprintln!("ext4lab: {finding}"));
    Ok(verdict(&findings))
}

/// The inode at a path; symbolic links are followed at its end too.
fn follow<R: ReadAt>(filesystem: &Filesystem<R>, path: &[u8]) -> Result<InodeNumber, Failure> {
    let mut path = path.to_vec();
    for _ in 0..LINKS_MAX {
        let number = filesystem.find(&path)?;
        let (inode, _) = filesystem.inode(number)?;
        if inode.file_type != Some(FileType::Symlink) || path.starts_with(b"<") {
            return Ok(number);
        }
        let target = filesystem.target(number, &inode);
        let target = target.map_err(|error| Failure::NotThere(error.to_string()))?;
        while path.last() == Some(&b'/') {
            path.pop();
        }
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        path.truncate(if target.starts_with(b"/") { 0 } else { folder });
        path.extend(target);
    }
    Err(ext4::PathError::TooManyLinks.into())
}

/// Hands the content over piece by piece.
fn pieces<R: ReadAt>(
    file: &File<'_, R>,
    mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < file.size() {
        let left = usize::try_from(file.size() - at).unwrap_or(usize::MAX);
        let piece = &mut buffer[..left.min(PIECE_BYTES)];
        file.read_at(at, piece)
            .map_err(|error| Failure::NotThere(format!("its content from byte {at} on: {error}")))?;
        take(piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

fn plain<R: ReadAt>(file: &File<'_, R>) -> Result<(), Failure> {
    let mut out = output();
    pieces(file, |piece| out.write_all(piece))?;
    Ok(out.flush()?)
}

/// The only answer that is written by hand: as a struct it would have to lie in memory whole.
fn json<R: ReadAt>(number: InodeNumber, file: &File<'_, R>) -> Result<(), Failure> {
    let mut out = output();
    write!(
        out,
        "{{\"inode\":{number},\"size\":{},\"content_base64\":\"",
        file.size()
    )?;
    pieces(file, |piece| out.write_all(&base64(piece)))?;
    writeln!(out, "\"}}")?;
    Ok(out.flush()?)
}

/// RFC 4648, with padding at the end of bytes that are no multiple of 3.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= three.len() {
                ALPHABET[value]
            } else {
                b'='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn the_test_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text.as_bytes());
        }
    }
}
