//! Extended attributes: in the inode, in a block, in inodes of their own; access control lists.

use crate::{
    BlockNumber, Filesystem, Finding, Inode, InodeFlags, InodeNumber, RawInode, ReadAt, Seed,
    checksum::crc32c, record::Stored,
};

const MAGIC: u32 = 0xea02_0000;
/// Bytes of a block before its first entry.
const BLOCK_HEADER: usize = 32;
/// Bytes of an entry before its name.
const ENTRY_HEADER: usize = 16;
/// Where the block's checksum lies.
const CHECKSUM_AT: usize = 16;
/// The longest value that the kernel reads from an inode of its own.
const VALUE_MAX: u64 = 64 << 10;
/// `system.`, whose `data` is the rest of a file that lies in its inode.
const SYSTEM: u8 = 7;

/// Where an attribute's value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributePlace {
    /// In the inode.
    Inode,
    /// In a block, at this number.
    Block(BlockNumber),
    /// In an inode of its own.
    OwnInode(InodeNumber),
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name with its prefix, such as `user.comment`.
    pub name: Vec<u8>,
    /// Its value; `None` where it cannot be read.
    pub value: Option<Vec<u8>>,
    /// Where the value lies.
    pub place: AttributePlace,
    /// The hash that the entry carries; 0 for none.
    pub hash: u32,
}

/// One entry of an access control list, as `getfacl` would print it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whom it is for: `user`, `group`, `mask` or `other`.
    pub tag: &'static str,
    /// The user or group; `None` for the file's own.
    pub id: Option<u32>,
    /// The lowest three bits: read, write, execute.
    pub permissions: u16,
}

/// What a name's number stands for.
fn prefix(index: u8) -> &'static str {
    match index {
        0 => "",
        1 => "user.",
        2 => "system.posix_acl_access",
        3 => "system.posix_acl_default",
        4 => "trusted.",
        5 => "lustre.",
        6 => "security.",
        SYSTEM => "system.",
        8 => "system.richacl",
        9 => "encryption.",
        10 => "gnu.",
        _ => "unknown.",
    }
}

/// Whether values in inodes of their own are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnValues {
    /// They are.
    Read,
    /// They are left for later, as many attributes may name one.
    Leave,
}

/// An entry as it lies there.
struct RawEntry<'e> {
    name: &'e [u8],
    index: u8,
    value_at: usize,
    value_inode: u32,
    value_bytes: usize,
    hash: u32,
}

/// The entries in a region, up to the first that makes no sense, which is said.
fn raw_entries(region: &[u8], begin: usize) -> (Vec<RawEntry<'_>>, Option<String>) {
    let mut entries = Vec::new();
    let mut at = begin;
    while u32::get(region, at) != 0 {
        let name_bytes = usize::from(u8::get(region, at));
        let name = region
            .get(at.saturating_add(ENTRY_HEADER)..)
            .and_then(|rest| rest.get(..name_bytes));
        let Some(name) = name else {
            return (
                entries,
                Some(format!("an attribute's entry at byte {at} reaches past the end")),
            );
        };
        entries.push(RawEntry {
            name,
            index: u8::get(region, at.saturating_add(1)),
            value_at: u16::get(region, at.saturating_add(2)).into(),
            value_inode: u32::get(region, at.saturating_add(4)),
            value_bytes: usize::try_from(u32::get(region, at.saturating_add(8))).unwrap_or(usize::MAX),
            hash: u32::get(region, at.saturating_add(12)),
        });
        at = at
            .saturating_add(ENTRY_HEADER)
            .saturating_add(name_bytes)
            .next_multiple_of(4);
    }
    (entries, None)
}

/// Where the attributes in an inode begin, if there are any.
fn in_inode(inode: &[u8]) -> Option<&[u8]> {
    if inode.len() <= 128 {
        return None;
    }
    let extra = usize::from(RawInode::decode(inode).i_extra_isize);
    let region = inode.get(128usize.saturating_add(extra)..)?;
    (extra >= 4 && u32::get(region, 0) == MAGIC)
        .then(|| region.get(4..))
        .flatten()
}

/// The part of an inline file that did not fit into `i_block`.
pub(crate) fn inline_tail(inode: &[u8]) -> Vec<u8> {
    let Some(region) = in_inode(inode) else {
        return Vec::new();
    };
    let (entries, _) = raw_entries(region, 0);
    let data = entries
        .iter()
        .find(|entry| entry.index == SYSTEM && entry.name == b"data");
    data.and_then(|data| region.get(data.value_at..)?.get(..data.value_bytes))
        .unwrap_or_default()
        .to_vec()
}

/// `ext4_xattr_hash_entry`: over name and value, characters signed as some machines had them.
fn entry_hash(name: &[u8], words: impl Iterator<Item = u32>, signed: bool) -> u32 {
    let mut hash = 0u32;
    for byte in name {
        let character = match signed {
            true => i32::from(byte.cast_signed()).cast_unsigned(),
            false => u32::from(*byte),
        };
        hash = hash.rotate_left(5) ^ character;
    }
    words.fold(hash, |hash, word| hash.rotate_left(16) ^ word)
}

fn value_words(value: &[u8]) -> impl Iterator<Item = u32> {
    value.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        u32::from_le_bytes(word)
    })
}

fn hash_fits(entry: &RawEntry<'_>, value: &[u8]) -> bool {
    [false, true]
        .into_iter()
        .any(|signed| entry_hash(entry.name, value_words(value), signed) == entry.hash)
}

impl<R: ReadAt> Filesystem<R> {
    /// An inode's extended attributes, and what is wrong with them.
    pub fn attributes(&self, number: InodeNumber, inode: &Inode) -> (Vec<Attribute>, Vec<Finding>) {
        let (mut attributes, mut findings) = match self.inode_bytes(number) {
            Ok(bytes) => self.attributes_in_inode(number, &bytes, OwnValues::Read),
            Err(_) => (Vec::new(), Vec::new()),
        };
        if inode.attribute_block != 0 {
            let block = BlockNumber(inode.attribute_block);
            let offset = self.geometry().offset_of(block);
            let (found, wrong) = self.attribute_block(block, OwnValues::Read);
            attributes.extend(found);
            findings.extend(
                wrong.into_iter().map(|text| {
                    Finding::of_inode(number, offset, format!("attribute block {block}: {text}"))
                }),
            );
        }
        (attributes, findings)
    }

    /// The attributes in an inode's own bytes.
    pub(crate) fn attributes_in_inode(
        &self,
        number: InodeNumber,
        bytes: &[u8],
        values: OwnValues,
    ) -> (Vec<Attribute>, Vec<Finding>) {
        let mut attributes = Vec::new();
        let Some(region) = in_inode(bytes) else {
            return (attributes, Vec::new());
        };
        let mut wrong = Vec::new();
        let source = Region {
            bytes: region,
            entries_at: 0,
            place: AttributePlace::Inode,
            values,
        };
        self.read_entries(&source, &mut attributes, &mut wrong);
        let findings = wrong.into_iter().map(|text| self.inode_finding(number, text));
        (attributes, findings.collect())
    }

    /// How many inodes an attribute block says that it serves.
    pub(crate) fn attribute_block_users(&self, block: BlockNumber) -> u32 {
        self.block(block).map_or(0, |bytes| u32::get(&bytes, 4))
    }

    /// The attributes in a block, and what is wrong with it.
    pub(crate) fn attribute_block(
        &self,
        block: BlockNumber,
        values: OwnValues,
    ) -> (Vec<Attribute>, Vec<String>) {
        let mut attributes = Vec::new();
        let bytes = match self.block(block) {
            Ok(bytes) => bytes,
            Err(why) => return (attributes, vec![why.to_string()]),
        };
        let magic = u32::get(&bytes, 0);
        if magic != MAGIC {
            return (
                attributes,
                vec![format!("its magic number is {magic:#x}, not {MAGIC:#x}")],
            );
        }
        let mut wrong = Vec::new();
        if u32::get(&bytes, 8) != 1 {
            wrong.push(format!("it speaks of {} blocks, not of 1", u32::get(&bytes, 8)));
        }
        if let Some(seed) = self.seed() {
            let right = block_checksum(seed, block, &bytes);
            let stored = u32::get(&bytes, CHECKSUM_AT);
            if right != stored {
                wrong.push(format!(
                    "its checksum is {stored:#010x}, but should be {right:#010x}"
                ));
            }
        }
        let source = Region {
            bytes: &bytes,
            entries_at: BLOCK_HEADER,
            place: AttributePlace::Block(block),
            values,
        };
        self.read_entries(&source, &mut attributes, &mut wrong);
        (attributes, wrong)
    }

    /// Whether an inode has the attribute that an inline file continues in, be it empty.
    pub(crate) fn has_inline_attribute(&self, number: InodeNumber) -> bool {
        self.inode_bytes(number).is_ok_and(|bytes| {
            in_inode(&bytes).is_some_and(|region| {
                let (entries, _) = raw_entries(region, 0);
                entries
                    .iter()
                    .any(|entry| entry.index == SYSTEM && entry.name == b"data")
            })
        })
    }

    fn read_entries(&self, region: &Region<'_>, attributes: &mut Vec<Attribute>, wrong: &mut Vec<String>) {
        let (entries, broken) = raw_entries(region.bytes, region.entries_at);
        wrong.extend(broken);
        wrong.extend(overlap(&entries, region.entries_at));
        for entry in entries {
            let mut name = prefix(entry.index).as_bytes().to_vec();
            name.extend(entry.name);
            let shown = String::from_utf8_lossy(&name).into_owned();
            let (value, place) = match InodeNumber::new(entry.value_inode) {
                Some(inode) => {
                    let value = self.own_value(inode, &entry, region.values);
                    (
                        value.map_err(|why| format!("the value of {shown}: {why}")),
                        AttributePlace::OwnInode(inode),
                    )
                }
                None => {
                    let value = region
                        .bytes
                        .get(entry.value_at..)
                        .and_then(|rest| rest.get(..entry.value_bytes))
                        .filter(|_| entry.value_bytes == 0 || entry.value_at >= region.entries_at);
                    let value = value.ok_or_else(|| {
                        format!(
                            "the value of {shown}, {} bytes at byte {}, does not fit",
                            entry.value_bytes, entry.value_at
                        )
                    });
                    let value = value.map(|value| {
                        let carries = entry.hash != 0 || region.place != AttributePlace::Inode;
                        if carries && !hash_fits(&entry, value) {
                            let stored = entry.hash;
                            wrong.push(format!("the hash of {shown}, {stored:#010x}, is wrong"));
                        }
                        value.to_vec()
                    });
                    (value, region.place)
                }
            };
            if entry.index == SYSTEM && entry.name == b"data" && place == AttributePlace::Inode {
                // The file's own data, not an attribute that anybody set.
                continue;
            }
            attributes.push(Attribute {
                name,
                value: value.map_err(|why| wrong.push(why)).ok(),
                place,
                hash: entry.hash,
            });
        }
    }

    /// Whether the hash that an inode keeps of the value in it is right; older makers left it out.
    pub(crate) fn own_value_right(&self, number: InodeNumber) -> Option<bool> {
        let seed = self.seed()?;
        let (inode, _) = self.inode(number).ok()?;
        let bytes = usize::try_from(inode.size.min(VALUE_MAX)).unwrap_or(0);
        let mut value = vec![0; bytes];
        self.file(number, &inode).read_at(0, &mut value).ok()?;
        Some(inode.raw.i_atime == 0 || crc32c(seed.0, &value) == inode.raw.i_atime)
    }

    /// The value in an inode of its own.
    fn own_value(
        &self,
        number: InodeNumber,
        entry: &RawEntry<'_>,
        values: OwnValues,
    ) -> Result<Vec<u8>, String> {
        let (inode, _) = self.inode(number).map_err(|why| why.to_string())?;
        if !inode.flags.has(InodeFlags::EA_INODE) {
            return Err(format!("inode {number} is not one that holds values"));
        }
        if inode.size != entry.value_bytes as u64 {
            let size = inode.size;
            return Err(format!(
                "inode {number} holds {size} bytes, but {} are spoken of",
                entry.value_bytes
            ));
        }
        if inode.size > VALUE_MAX {
            return Err(format!(
                "inode {number} holds {} bytes, more than {VALUE_MAX}",
                inode.size
            ));
        }
        if values == OwnValues::Leave {
            return Ok(Vec::new());
        }
        let mut value = vec![0; entry.value_bytes];
        self.file(number, &inode)
            .read_at(0, &mut value)
            .map_err(|why| why.to_string())?;
        if let Some(seed) = self.seed() {
            let right = crc32c(seed.0, &value);
            let stored = inode.raw.i_atime;
            let name_hash =
                [false, true].map(|signed| entry_hash(entry.name, std::iter::once(right), signed));
            if right != stored && !name_hash.contains(&entry.hash) {
                return Err(format!("its hash in inode {number} is wrong"));
            }
        }
        Ok(value)
    }
}

/// Whether two values, or a value and the entries, lie over each other.
fn overlap(entries: &[RawEntry<'_>], begin: usize) -> Option<String> {
    let bytes = |entry: &RawEntry<'_>| ENTRY_HEADER.saturating_add(entry.name.len()).next_multiple_of(4);
    let entries_end = entries
        .iter()
        .fold(begin, |end, entry| end.saturating_add(bytes(entry)))
        .saturating_add(4);
    let values = entries
        .iter()
        .filter(|entry| entry.value_inode == 0 && entry.value_bytes > 0);
    let mut taken: Vec<_> = values
        .map(|entry| (entry.value_at, entry.value_at.saturating_add(entry.value_bytes)))
        .chain([(begin, entries_end)])
        .collect();
    taken.sort_unstable();
    let two = taken.array_windows::<2>().find(|[one, next]| next.0 < one.1)?;
    Some(format!(
        "two values, or a value and the entries, lie over each other at byte {}",
        two[1].0
    ))
}

struct Region<'r> {
    bytes: &'r [u8],
    entries_at: usize,
    place: AttributePlace,
    values: OwnValues,
}

fn block_checksum(seed: Seed, block: BlockNumber, bytes: &[u8]) -> u32 {
    let before = bytes.get(..CHECKSUM_AT).unwrap_or_default();
    let after = bytes.get(CHECKSUM_AT.saturating_add(4)..).unwrap_or_default();
    seed.over(&block.0.to_le_bytes())
        .over(before)
        .over(&[0; 4])
        .over(after)
        .0
}

impl Attribute {
    /// The access control list that the value is, if it is one.
    pub fn acl(&self) -> Option<Vec<AclEntry>> {
        if !self.name.starts_with(b"system.posix_acl_") {
            return None;
        }
        let value = self.value.as_deref()?;
        if u32::get(value, 0) != 1 {
            return None;
        }
        let mut entries = Vec::new();
        let mut at = 4usize;
        while at.saturating_add(4) <= value.len() {
            let (number, permissions) = (u16::get(value, at), u16::get(value, at.saturating_add(2)));
            let (tag, named) = match number {
                0x01 => ("user", false),
                0x02 => ("user", true),
                0x04 => ("group", false),
                0x08 => ("group", true),
                0x10 => ("mask", false),
                0x20 => ("other", false),
                _ => return None,
            };
            let id = named.then(|| u32::get(value, at.saturating_add(4)));
            at = at.saturating_add(if named { 8 } else { 4 });
            entries.push(AclEntry { tag, id, permissions });
        }
        Some(entries)
    }
}

impl std::fmt::Display for AclEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.id.map(|id| id.to_string()).unwrap_or_default();
        let bit = |mask, letter| if self.permissions & mask == 0 { '-' } else { letter };
        write!(
            f,
            "{}:{id}:{}{}{}",
            self.tag,
            bit(4, 'r'),
            bit(2, 'w'),
            bit(1, 'x')
        )
    }
}

/// Takes one reference away from a block of attributes: how many are left, or `None` where it is no such block.
pub(crate) fn release_attribute_block(
    seed: Option<Seed>,
    block: BlockNumber,
    bytes: &mut [u8],
) -> Option<u32> {
    const REFERENCES_AT: usize = 4;
    if u32::get(bytes, 0) != MAGIC {
        return None;
    }
    let left = u32::get(bytes, REFERENCES_AT).saturating_sub(1);
    left.put(bytes, REFERENCES_AT);
    if let Some(seed) = seed {
        block_checksum(seed, block, bytes).put(bytes, CHECKSUM_AT);
    }
    Some(left)
}
