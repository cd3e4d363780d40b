//! What a file that is not ext4 looks like instead.

use crate::ReadAt;

/// Offset, bytes there, noun phrase. The first match wins.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"XFSB", "an XFS file system"),
    (0, b"hsqs", "a squashfs image"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (0x52, b"FAT32", "a FAT32 file system"),
    (0x36, b"FAT1", "a FAT file system"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (0x400, &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS image"),
    (0x8001, b"CD001", "an ISO 9660 image"),
    (0, &[0x1f, 0x8b], "a gzip file; unpack it first"),
    (0, &[0xfd, b'7', b'z', b'X', b'Z'], "an xz file; unpack it first"),
    (0, &[0x28, 0xb5, 0x2f, 0xfd], "a zstd file; unpack it first"),
    (0, b"BZh", "a bzip2 file; unpack it first"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (0x101, b"ustar", "a tar archive"),
    (0, b"QFI\xfb", "a QCOW2 disk image; convert it to raw first"),
    (
        0,
        &[0x3a, 0xff, 0x26, 0xed],
        "an Android sparse image; unpack it with simg2img first",
    ),
    (0, b"KDMV", "a VMware disk image"),
    (0x40, &[0x7f, 0x10, 0xda, 0xbe], "a VirtualBox disk image"),
    (0, b"LUKS\xba\xbe", "a LUKS encrypted volume"),
    (0x218, b"LVM2 001", "an LVM physical volume"),
    (0xff6, b"SWAPSPACE2", "a swap area"),
    (
        0x200,
        b"EFI PART",
        "a whole disk with a GPT partition table; extract the partition first",
    ),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (0, &[0xff, 0xd8, 0xff], "a JPEG picture"),
    (0, b"GIF8", "a GIF picture"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "an ELF program"),
    (0, b"MZ", "a Windows program"),
    (
        0x1fe,
        &[0x55, 0xaa],
        "a whole disk with an MBR partition table; extract the partition first",
    ),
];

/// What the first bytes of `image` look like, as a noun phrase.
pub fn looks_like(image: &(impl ReadAt + ?Sized)) -> &'static str {
    if image.size() == 0 {
        return "an empty file";
    }
    for (offset, signature, phrase) in SIGNATURES {
        let mut bytes = vec![0; signature.len()];
        if image.read_at(*offset as u64, &mut bytes).is_ok() && bytes == *signature {
            return phrase;
        }
    }
    let mut head = vec![0; usize::try_from(image.size().min(4096)).unwrap_or(0)];
    if image.read_at(0, &mut head).is_err() {
        return "a file that cannot be read";
    }
    if head.iter().all(|byte| *byte == 0) {
        return "nothing but zeros at its beginning";
    }
    let printable = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if head.iter().all(printable) {
        return "a text file";
    }
    if image.size() < 2048 {
        return "a file too short for a superblock";
    }
    "something unknown, without the magic number 0xEF53 at byte 1080"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_called_by_their_name() {
        assert_eq!(looks_like(&Vec::new()), "an empty file");
        assert_eq!(looks_like(&b"\x89PNG\r\n\x1a\n....".to_vec()), "a PNG picture");
        assert_eq!(looks_like(&b"Dear diary,\n".repeat(400)), "a text file");
        assert_eq!(looks_like(&vec![0; 4096]), "nothing but zeros at its beginning");
        assert_eq!(looks_like(&vec![1; 100]), "a file too short for a superblock");
    }
}
