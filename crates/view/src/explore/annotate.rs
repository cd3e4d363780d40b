//! What the bytes of a block say, field by field.

use ext4::{
    BlockNumber, FileType, Filesystem, GROUP_FIELDS, INODE_FIELDS, InodeNumber, MMP_FIELDS, Owner, ReadAt,
    SUPERBLOCK_FIELDS,
};

use super::{FieldRow, Link, of_image::fields};

/// The most rows for one block.
const ROWS_MAX: usize = 4096;

/// The fields of a block that is used so.
pub(super) fn parts<R: ReadAt>(filesystem: &Filesystem<R>, owner: Owner, bytes: &[u8]) -> Vec<FieldRow> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let mut rows = match owner {
        Owner::Superblock(group) => {
            // In larger blocks the first one begins after the boot sector.
            let at = if group.0 == 0 && bytes.len() > 1024 {
                1024
            } else {
                0
            };
            shifted(fields(SUPERBLOCK_FIELDS, &bytes[at..]), at, "")
        }
        Owner::Descriptors(_) => records(
            bytes,
            filesystem.geometry().descriptor_bytes as usize,
            |index, record| (fields(GROUP_FIELDS, record), format!("descriptor {index}: ")),
        ),
        Owner::InodeTable(group, block) => {
            let geometry = filesystem.geometry();
            let first = block * geometry.slots_per_block();
            records(bytes, geometry.inode_bytes as usize, |index, record| {
                let number = geometry.inode_at(group, first + index);
                let title = number.map_or_else(String::new, |number| format!("inode {number}: "));
                let mut rows = fields(INODE_FIELDS, record);
                if let (Some(row), Some(number)) = (rows.first_mut(), number) {
                    row.link = Some(Link::Inode(number.get()));
                }
                (rows, title)
            })
        }
        Owner::MultiMount => fields(MMP_FIELDS, bytes),
        Owner::Map(_) => map(bytes),
        Owner::Attributes(_) => attributes(bytes),
        Owner::Data(inode, logical) => data(filesystem, inode, logical, bytes),
        _ => Vec::new(),
    };
    rows.truncate(ROWS_MAX);
    rows
}

fn shifted(mut rows: Vec<FieldRow>, by: usize, title: &str) -> Vec<FieldRow> {
    for row in &mut rows {
        row.offset += by as u32;
        row.name.insert_str(0, title);
    }
    rows
}

/// Records of one width, side by side.
fn records(
    bytes: &[u8],
    width: usize,
    rows: impl Fn(u32, &[u8]) -> (Vec<FieldRow>, String),
) -> Vec<FieldRow> {
    let chunks = (0u32..).zip(bytes.chunks_exact(width.max(1)));
    let used = chunks.filter(|(_, record)| record.iter().any(|byte| *byte != 0));
    used.flat_map(|(index, record)| {
        let (rows, title) = rows(index, record);
        shifted(rows, index as usize * width, &title)
    })
    .take(ROWS_MAX)
    .collect()
}

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.get(..width));
    field.map_or(0, |field| {
        field
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    })
}

/// Gathers rows of a record that starts somewhere in a block.
struct Rows<'b> {
    bytes: &'b [u8],
    rows: Vec<FieldRow>,
}

impl Rows<'_> {
    fn text(&mut self, at: usize, width: usize, name: impl Into<String>, value: String, meaning: &str) {
        self.rows.push(FieldRow {
            name: name.into(),
            offset: at as u32,
            width: width as u32,
            value,
            meaning: meaning.to_owned(),
            link: None,
        });
    }

    fn number(&mut self, at: usize, width: usize, name: impl Into<String>, meaning: &str) -> u64 {
        let value = number(self.bytes, at, width);
        self.text(at, width, name, value.to_string(), meaning);
        value
    }

    fn hex(&mut self, at: usize, name: impl Into<String>, meaning: &str) {
        let value = number(self.bytes, at, 4);
        self.text(at, 4, name, format!("{value:#010x}"), meaning);
    }

    fn link(&mut self, link: Link) {
        if let Some(row) = self.rows.last_mut() {
            row.link = Some(link);
        }
    }
}

/// A block of an extent tree, or of pointers.
fn map(bytes: &[u8]) -> Vec<FieldRow> {
    let mut rows = Rows {
        bytes,
        rows: Vec::new(),
    };
    if number(bytes, 0, 2) != 0xf30a {
        for at in (0..bytes.len()).step_by(4) {
            let block = number(bytes, at, 4);
            if block != 0 {
                rows.number(
                    at,
                    4,
                    format!("pointer {}", at / 4),
                    "A block, of data or of more pointers",
                );
                rows.link(Link::Block(block));
            }
        }
        return rows.rows;
    }
    let value = number(bytes, 0, 2);
    rows.text(
        0,
        2,
        "eh_magic",
        format!("{value:#06x}"),
        "0xF30A marks an extent header",
    );
    let entries = rows.number(2, 2, "eh_entries", "Entries in use");
    let most = rows.number(4, 2, "eh_max", "Room for entries");
    let depth = rows.number(6, 2, "eh_depth", "Levels below: 0 for a leaf");
    rows.number(8, 4, "eh_generation", "Unused");
    for index in 0..(entries as usize).min(bytes.len() / 12) {
        let at = 12 + index * 12;
        if depth == 0 {
            rows.number(
                at,
                4,
                format!("extent {index}: ee_block"),
                "First block, in the file",
            );
            rows.number(
                at + 4,
                2,
                format!("extent {index}: ee_len"),
                "Blocks; above 32,768 they were never written",
            );
            rows.number(
                at + 6,
                2,
                format!("extent {index}: ee_start_hi"),
                "First block on the disk, high part",
            );
            rows.number(
                at + 8,
                4,
                format!("extent {index}: ee_start_lo"),
                "First block on the disk, low part",
            );
            let block = number(bytes, at + 8, 4) | number(bytes, at + 6, 2) << 32;
            rows.link(Link::Block(block));
        } else {
            rows.number(
                at,
                4,
                format!("index {index}: ei_block"),
                "First block, in the file",
            );
            rows.number(
                at + 4,
                4,
                format!("index {index}: ei_leaf_lo"),
                "The node below, low part",
            );
            let block = number(bytes, at + 4, 4) | number(bytes, at + 8, 2) << 32;
            rows.link(Link::Block(block));
            rows.number(
                at + 8,
                2,
                format!("index {index}: ei_leaf_hi"),
                "The node below, high part",
            );
        }
    }
    let tail = 12 + most as usize * 12;
    if tail + 4 <= bytes.len() {
        rows.hex(tail, "et_checksum", "crc32c of inode, generation and this block");
    }
    rows.rows
}

fn attributes(bytes: &[u8]) -> Vec<FieldRow> {
    let mut rows = Rows {
        bytes,
        rows: Vec::new(),
    };
    rows.hex(0, "h_magic", "0xEA020000 marks a block of attributes");
    rows.number(4, 4, "h_refcount", "Inodes that share it");
    rows.number(8, 4, "h_blocks", "Always 1");
    rows.hex(12, "h_hash", "Hash of all attributes");
    rows.hex(16, "h_checksum", "crc32c of block number and block");
    let mut at = 32;
    while at + 16 <= bytes.len() && number(bytes, at, 4) != 0 {
        let name_bytes = number(bytes, at, 1) as usize;
        let Some(name) = bytes.get(at + 16..at + 16 + name_bytes) else {
            break;
        };
        let title = String::from_utf8_lossy(name).into_owned();
        rows.number(at, 1, format!("{title}: e_name_len"), "Bytes of the name");
        rows.number(
            at + 1,
            1,
            format!("{title}: e_name_index"),
            "Prefix: 1 user., 4 trusted., 6 security., 7 system.",
        );
        let value_at = rows.number(
            at + 2,
            2,
            format!("{title}: e_value_offs"),
            "Where the value lies",
        ) as usize;
        let inode = rows.number(
            at + 4,
            4,
            format!("{title}: e_value_inum"),
            "Inode that holds the value, 0 for this block",
        );
        if inode != 0 {
            rows.link(Link::Inode(inode as u32));
        }
        let value_bytes =
            rows.number(at + 8, 4, format!("{title}: e_value_size"), "Bytes of the value") as usize;
        rows.hex(at + 12, format!("{title}: e_hash"), "Hash of name and value");
        rows.text(
            at + 16,
            name_bytes,
            format!("{title}: e_name"),
            title.clone(),
            "The name, without its prefix",
        );
        if inode == 0 && bytes.get(value_at..value_at + value_bytes).is_some() {
            let value = String::from_utf8_lossy(&bytes[value_at..value_at + value_bytes]).into_owned();
            rows.text(
                value_at,
                value_bytes,
                format!("{title}: value"),
                value,
                "The value",
            );
        }
        at = (at + 16 + name_bytes).next_multiple_of(4);
    }
    rows.rows
}

fn data<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    logical: u32,
    bytes: &[u8],
) -> Vec<FieldRow> {
    let superblock = filesystem.superblock();
    if number.get() == superblock.s_journal_inum {
        return journal(logical, bytes);
    }
    if number.get() == superblock.s_orphan_file_inum {
        return orphan_file(bytes);
    }
    match filesystem.inode(number) {
        Ok((inode, _)) if inode.file_type == Some(FileType::Directory) => {
            directory(filesystem, number, &inode, logical, bytes)
        }
        _ => Vec::new(),
    }
}

fn directory<R: ReadAt>(
    filesystem: &Filesystem<R>,
    number: InodeNumber,
    inode: &ext4::Inode,
    logical: u32,
    bytes: &[u8],
) -> Vec<FieldRow> {
    let mut rows = Rows {
        bytes,
        rows: Vec::new(),
    };
    if let Some(index) = filesystem
        .directory_index(number, inode)
        .filter(|_| inode.flags.has(ext4::InodeFlags::INDEX))
        && let Some(node) = index.nodes.iter().find(|node| node.logical == logical)
    {
        let root = logical == 0;
        let at = if root { 32 } else { 8 };
        if root {
            rows.number(
                28,
                1,
                "hash_version",
                "0 legacy, 1 half MD4, 2 tea, 3 to 5 unsigned, 6 siphash",
            );
            rows.number(29, 1, "info_length", "Always 8");
            rows.number(
                30,
                1,
                "indirect_levels",
                "Levels between the root and the blocks with entries",
            );
        }
        rows.number(at, 2, "limit", "Room for children");
        rows.number(at + 2, 2, "count", "Children");
        for (place, (hash, child)) in node.children.iter().enumerate() {
            let entry = at + place * 8;
            if place > 0 {
                rows.text(
                    entry,
                    4,
                    format!("child {place}: hash"),
                    format!("{hash:#010x}"),
                    "Lowest hash in it",
                );
            }
            rows.text(
                entry + 4,
                4,
                format!("child {place}: block"),
                child.to_string(),
                "Its block, in the directory",
            );
        }
        return rows.rows;
    }
    let first = BlockNumber(0);
    let mut found = None;
    filesystem.directory(number, inode, &mut |at, block, entries| {
        let here = at == logical && block.unwrap_or(first) != first;
        if here {
            found = Some(entries);
        }
        !here
    });
    let Some(found) = found else {
        return rows.rows;
    };
    let mut entries: Vec<_> = found
        .entries
        .into_iter()
        .map(|entry| (entry, ""))
        .chain(found.deleted.into_iter().map(|entry| (entry, "deleted, ")))
        .collect();
    entries.sort_by_key(|(entry, _)| entry.at);
    for (entry, mark) in entries {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let title = format!("{mark}“{name}”: ");
        rows.number(entry.at, 4, format!("{title}inode"), "The inode that it names");
        rows.link(Link::Inode(entry.inode));
        rows.number(
            entry.at + 4,
            2,
            format!("{title}rec_len"),
            "Bytes to the next entry",
        );
        rows.number(entry.at + 6, 1, format!("{title}name_len"), "Bytes of the name");
        rows.number(
            entry.at + 7,
            1,
            format!("{title}file_type"),
            "1 file, 2 directory, 7 symbolic link, …",
        );
        rows.text(
            entry.at + 8,
            entry.name.len(),
            format!("{title}name"),
            name,
            "The name",
        );
    }
    let tail = bytes.len().saturating_sub(12);
    if number_at(bytes, tail + 7) == 0xde {
        rows.hex(
            tail + 8,
            "det_checksum",
            "crc32c of inode, generation and the entries",
        );
    }
    rows.rows
}

fn number_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

fn big(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_be_bytes(*field))
}

fn journal(logical: u32, bytes: &[u8]) -> Vec<FieldRow> {
    let mut rows = Rows {
        bytes,
        rows: Vec::new(),
    };
    if big(bytes, 0) != 0xc03b_3998 {
        return rows.rows;
    }
    let mut add = |at: usize, name: &str, meaning: &str| {
        rows.text(at, 4, name, big(bytes, at).to_string(), meaning);
    };
    add(0, "h_magic", "0xC03B3998 marks a block of the journal's own");
    add(
        4,
        "h_blocktype",
        "1 descriptor, 2 commit, 3 and 4 superblock, 5 revoke",
    );
    add(8, "h_sequence", "The transaction");
    if logical == 0 {
        for (at, name, meaning) in [
            (12, "s_blocksize", "Bytes per block"),
            (16, "s_maxlen", "Blocks in all"),
            (20, "s_first", "First block of the log"),
            (24, "s_sequence", "First transaction expected in the log"),
            (28, "s_start", "Where the log begins; 0: it is empty"),
            (32, "s_errno", "An error that the kernel noted"),
            (36, "s_feature_compat", "Features that may be ignored"),
            (
                40,
                "s_feature_incompat",
                "1 revoke, 2 64-bit, 4 async commit, 8 csum v2, 16 csum v3, 32 fast commit",
            ),
            (
                44,
                "s_feature_ro_compat",
                "Features without which nothing may be written",
            ),
            (64, "s_nr_users", "File systems that use it"),
            (252, "s_checksum", "crc32c of the superblock"),
        ] {
            add(at, name, meaning);
        }
    }
    rows.rows
}

fn orphan_file(bytes: &[u8]) -> Vec<FieldRow> {
    let mut rows = Rows {
        bytes,
        rows: Vec::new(),
    };
    let tail = bytes.len().saturating_sub(8);
    for at in (0..tail).step_by(4) {
        let inode = number(bytes, at, 4);
        if inode != 0 {
            rows.number(at, 4, format!("slot {}", at / 4), "An orphan");
            rows.link(Link::Inode(inode as u32));
        }
    }
    rows.hex(tail, "ob_magic", "0x0B10CA04 marks a block of the orphan file");
    rows.hex(
        tail + 4,
        "ob_checksum",
        "crc32c of inode, generation, block number and slots",
    );
    rows.rows
}
