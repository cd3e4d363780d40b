//! Random sequences of operations, and a plain model of what they have to lead to.
#![allow(
    dead_code,
    reason = "every test program takes this file in, and none needs all of it"
)]

use std::{collections::BTreeMap, fmt};

use ext4::{
    FileType, Filesystem, InodeNumber, NewAttributes, NewInode, ReadAt, Timestamp, Volume, WriteError,
};

/// A small generator of numbers that come again with the seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end.max(1)
    }
}

/// One operation. Directories and files are meant by a number modulo those that there are, so that any part of a
/// sequence is a sequence too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create {
        directory: u64,
        name: String,
    },
    Mkdir {
        directory: u64,
        name: String,
    },
    Symlink {
        directory: u64,
        name: String,
        target: String,
    },
    Mknod {
        directory: u64,
        name: String,
        major: u32,
        minor: u32,
    },
    Link {
        file: u64,
        directory: u64,
        name: String,
    },
    Unlink {
        directory: u64,
        entry: u64,
    },
    Rmdir {
        directory: u64,
        entry: u64,
    },
    Rename {
        directory: u64,
        entry: u64,
        to: u64,
        name: String,
    },
    Truncate {
        file: u64,
        size: u64,
    },
    Write {
        file: u64,
        offset: u64,
        bytes: u64,
        fill: u8,
    },
    Chmod {
        file: u64,
        permissions: u16,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { directory, name } => write!(f, "create in d{directory} {name}"),
            Self::Mkdir { directory, name } => write!(f, "mkdir in d{directory} {name}"),
            Self::Symlink {
                directory,
                name,
                target,
            } => {
                write!(f, "symlink in d{directory} {name} to {} bytes", target.len())
            }
            Self::Mknod {
                directory,
                name,
                major,
                minor,
            } => {
                write!(f, "mknod in d{directory} {name} {major} {minor}")
            }
            Self::Link {
                file,
                directory,
                name,
            } => write!(f, "link f{file} in d{directory} {name}"),
            Self::Unlink { directory, entry } => write!(f, "unlink in d{directory} entry {entry}"),
            Self::Rmdir { directory, entry } => write!(f, "rmdir in d{directory} entry {entry}"),
            Self::Rename {
                directory,
                entry,
                to,
                name,
            } => {
                write!(f, "rename in d{directory} entry {entry} to d{to} {name}")
            }
            Self::Truncate { file, size } => write!(f, "truncate f{file} to {size}"),
            Self::Write {
                file,
                offset,
                bytes,
                fill,
            } => {
                write!(f, "write f{file} at {offset} {bytes} bytes of {fill}")
            }
            Self::Chmod { file, permissions } => write!(f, "chmod f{file} {permissions:o}"),
        }
    }
}

/// What a sequence is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// A bit of everything.
    Everyday,
    /// Many names in few directories.
    Names,
    /// Few files, large and with holes.
    Data,
    /// The same as names, all of them long.
    LongNames,
}

/// Operations of this mood.
pub(crate) fn sequence(seed: u64, count: usize, mood: Mood) -> Vec<Op> {
    let random = &mut Random::new(seed);
    (0..count).map(|_| operation(random, mood)).collect()
}

fn name(random: &mut Random, mood: Mood) -> String {
    let number = random.below(if matches!(mood, Mood::Names | Mood::LongNames) {
        100_000
    } else {
        400
    });
    let length = match random.below(8) {
        _ if mood == Mood::LongNames => 200 + random.below(56),
        0 => 200 + random.below(56),
        1 => 40 + random.below(60),
        _ => 0,
    };
    let padding = "x".repeat((length as usize).saturating_sub(10));
    format!("{number}-{padding}")
}

fn operation(random: &mut Random, mood: Mood) -> Op {
    let directory = match mood {
        Mood::Names | Mood::LongNames => random.below(3),
        _ => random.below(1000),
    };
    let (file, entry, other) = (random.below(1000), random.below(100_000), random.below(1000));
    let name = name(random, mood);
    let kind = match mood {
        Mood::Everyday => random.below(100),
        // Mostly names; a few more come than go.
        Mood::Names | Mood::LongNames => {
            [0, 0, 0, 0, 0, 0, 10, 20, 27, 30, 40, 40, 40, 40, 60][random.below(15) as usize]
        }
        Mood::Data => [0, 40, 70, 70, 80, 80, 80, 80, 90][random.below(9) as usize],
    };
    match kind {
        0..10 => Op::Create { directory, name },
        10..20 => Op::Mkdir { directory, name },
        20..27 => {
            let bytes = [1, 30, 59, 60, 61, 500, 1000][random.below(7) as usize];
            Op::Symlink {
                directory,
                name,
                target: "t".repeat(bytes),
            }
        }
        27..30 => Op::Mknod {
            directory,
            name,
            major: random.below(4096) as u32,
            minor: random.below(1 << 20) as u32,
        },
        30..38 => Op::Link {
            file,
            directory,
            name,
        },
        38..52 => Op::Unlink { directory, entry },
        52..58 => Op::Rmdir { directory, entry },
        58..70 => Op::Rename {
            directory,
            entry,
            to: other,
            name,
        },
        70..80 => Op::Truncate {
            file,
            size: size(random),
        },
        80..95 => Op::Write {
            file,
            offset: size(random),
            bytes: 1 + random.below(if mood == Mood::Data { 60_000 } else { 9000 }),
            fill: random.below(255) as u8 + 1,
        },
        _ => Op::Chmod {
            file,
            permissions: random.below(0o10000) as u16,
        },
    }
}

/// Sizes from nothing to where triple indirect blocks begin with blocks of 1 KiB.
fn size(random: &mut Random) -> u64 {
    let most = [
        1000, 1000, 20_000, 20_000, 20_000, 400_000, 400_000, 5_000_000, 70_000_000,
    ][random.below(9) as usize];
    random.below(most)
}

/// A file or directory of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Directory(BTreeMap<String, usize>),
    /// The size, and the bytes of blocks of 512 that are not all zero.
    File {
        size: u64,
        data: BTreeMap<u64, Vec<u8>>,
    },
    Symlink(String),
    Device(u32, u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) permissions: u16,
    links: u32,
    parent: usize,
    pub(crate) inode: u32,
}

const PIECE: u64 = 512;

/// What the file system has to hold.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) nodes: BTreeMap<usize, Node>,
    next: usize,
    /// How often each error came that the model leaves to the file system.
    pub(crate) errors: BTreeMap<String, usize>,
}

/// What is to be expected of an operation.
type Expected = Result<(), &'static str>;

impl Model {
    /// A file system with a root that holds these directories, found by name.
    pub(crate) fn new(root: u32, planted: &[(&str, u32)]) -> Self {
        let mut model = Self {
            nodes: BTreeMap::new(),
            next: 0,
            errors: BTreeMap::new(),
        };
        let directory = |inode, parent| Node {
            content: Content::Directory(BTreeMap::new()),
            permissions: 0o755,
            links: 2,
            parent,
            inode,
        };
        model.add(directory(root, 0));
        for (name, inode) in planted {
            let id = model.add(directory(*inode, 0));
            model.children(0).insert((*name).to_owned(), id);
        }
        model
    }

    fn add(&mut self, node: Node) -> usize {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    fn children(&mut self, directory: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.nodes.get_mut(&directory).expect("it is there").content {
            Content::Directory(children) => children,
            _ => panic!("not a directory"),
        }
    }

    fn is_directory(&self, id: usize) -> bool {
        matches!(self.nodes[&id].content, Content::Directory(_))
    }

    fn pick(&self, number: u64, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let all: Vec<usize> = self.nodes.keys().copied().filter(|id| wanted(*id)).collect();
        let at = usize::try_from(number).expect("small").checked_rem(all.len())?;
        Some(all[at])
    }

    fn directory(&self, number: u64) -> usize {
        self.pick(number, |id| self.is_directory(id))
            .expect("there is the root")
    }

    fn file(&self, number: u64) -> Option<usize> {
        self.pick(number, |id| {
            matches!(self.nodes[&id].content, Content::File { .. })
        })
    }

    /// An entry of a directory; lost+found is left in peace.
    fn entry(&self, directory: usize, number: u64) -> Option<(String, usize)> {
        let Content::Directory(children) = &self.nodes[&directory].content else {
            return None;
        };
        let at = usize::try_from(number)
            .expect("small")
            .checked_rem(children.len())?;
        let entry = children.iter().nth(at).map(|(name, id)| (name.clone(), *id));
        entry.filter(|(name, _)| name != "lost+found")
    }

    fn is_within(&self, mut id: usize, top: usize) -> bool {
        loop {
            if id == top {
                return true;
            }
            if id == 0 {
                return false;
            }
            id = self.nodes[&id].parent;
        }
    }

    fn drop_link(&mut self, id: usize) {
        let node = self.nodes.get_mut(&id).expect("it is there");
        node.links -= 1;
        if node.links == 0 || matches!(node.content, Content::Directory(_)) {
            self.nodes.remove(&id);
        }
    }
}

/// Errors that the model leaves to the file system: what it can hold.
const OF_SPACE: [&str; 3] = ["ENOSPC", "EMLINK", "EFBIG"];

/// Something that works on a file system as the operations say.
pub(crate) trait Worker {
    /// Whether it needs [`At::path`].
    fn goes_by_path(&self) -> bool;
    fn create(&mut self, directory: &At, name: &str, content: &Content) -> Result<u32, String>;
    fn link(&mut self, file: &At, directory: &At, name: &str) -> Result<(), String>;
    fn unlink(&mut self, directory: &At, name: &str) -> Result<(), String>;
    fn rmdir(&mut self, directory: &At, name: &str) -> Result<(), String>;
    fn rename(&mut self, from: &At, name: &str, to: &At, new: &str) -> Result<(), String>;
    fn truncate(&mut self, file: &At, size: u64) -> Result<(), String>;
    fn write(&mut self, file: &At, offset: u64, data: &[u8]) -> Result<usize, String>;
    fn chmod(&mut self, file: &At, permissions: u16) -> Result<(), String>;
}

/// A file, by inode and, for those who go by it, a path to it.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub(crate) inode: u32,
    pub(crate) path: String,
}

impl Model {
    /// One of the paths that lead to a node.
    pub(crate) fn path(&self, id: usize) -> String {
        if id == 0 {
            return String::new();
        }
        let parent = self.nodes[&id].parent;
        let name = |directory: usize| {
            let Content::Directory(children) = &self.nodes.get(&directory)?.content else {
                return None;
            };
            children
                .iter()
                .find(|(_, child)| **child == id)
                .map(|(name, _)| name.clone())
        };
        // A file's first name may be gone: then another one leads to it.
        let found = name(parent).map(|name| (parent, name));
        let found = found.or_else(|| {
            self.nodes
                .keys()
                .find_map(|directory| Some((*directory, name(*directory)?)))
        });
        let (parent, name) = found.expect("every node has a name");
        format!("{}/{name}", self.path(parent))
    }

    fn at(&self, id: usize, worker: &impl Worker) -> At {
        let path = if worker.goes_by_path() {
            self.path(id)
        } else {
            String::new()
        };
        At {
            inode: self.nodes[&id].inode,
            path,
        }
    }

    /// Lets a worker do an operation, and the model too if it succeeds. What is not as the model expects is an error.
    pub(crate) fn step(&mut self, op: &Op, worker: &mut impl Worker) -> Result<(), String> {
        match op {
            Op::Create { directory, name } => {
                let content = Content::File {
                    size: 0,
                    data: BTreeMap::new(),
                };
                self.make(*directory, name, content, worker)
            }
            Op::Mkdir { directory, name } => {
                self.make(*directory, name, Content::Directory(BTreeMap::new()), worker)
            }
            Op::Symlink {
                directory,
                name,
                target,
            } => self.make(*directory, name, Content::Symlink(target.clone()), worker),
            Op::Mknod {
                directory,
                name,
                major,
                minor,
            } => self.make(*directory, name, Content::Device(*major, *minor), worker),
            Op::Link {
                file,
                directory,
                name,
            } => {
                let Some(file) = self.file(*file) else {
                    return Ok(());
                };
                let directory = self.directory(*directory);
                let taken = self.children(directory).contains_key(name);
                let expected = if taken { Err("EEXIST") } else { Ok(()) };
                let result = worker.link(&self.at(file, worker), &self.at(directory, worker), name);
                if self.agree(expected, result)?.is_some() {
                    self.children(directory).insert(name.clone(), file);
                    self.nodes.get_mut(&file).expect("it is there").links += 1;
                }
                Ok(())
            }
            Op::Unlink { directory, entry } => {
                let directory = self.directory(*directory);
                let Some((name, id)) = self.entry(directory, *entry) else {
                    return Ok(());
                };
                let expected = if self.is_directory(id) {
                    Err("EISDIR")
                } else {
                    Ok(())
                };
                if self
                    .agree(expected, worker.unlink(&self.at(directory, worker), &name))?
                    .is_some()
                {
                    self.children(directory).remove(&name);
                    self.drop_link(id);
                }
                Ok(())
            }
            Op::Rmdir { directory, entry } => {
                let directory = self.directory(*directory);
                let Some((name, id)) = self.entry(directory, *entry) else {
                    return Ok(());
                };
                let expected = match &self.nodes[&id].content {
                    Content::Directory(children) if children.is_empty() => Ok(()),
                    Content::Directory(_) => Err("ENOTEMPTY"),
                    _ => Err("ENOTDIR"),
                };
                if self
                    .agree(expected, worker.rmdir(&self.at(directory, worker), &name))?
                    .is_some()
                {
                    self.children(directory).remove(&name);
                    self.nodes.remove(&id);
                }
                Ok(())
            }
            Op::Rename {
                directory,
                entry,
                to,
                name,
            } => self.rename(*directory, *entry, *to, name, worker),
            Op::Truncate { file, size } => {
                let Some(file) = self.file(*file) else {
                    return Ok(());
                };
                if self
                    .agree(Ok(()), worker.truncate(&self.at(file, worker), *size))?
                    .is_some()
                {
                    self.set_size(file, *size);
                }
                Ok(())
            }
            Op::Write {
                file,
                offset,
                bytes,
                fill,
            } => {
                let Some(file) = self.file(*file) else {
                    return Ok(());
                };
                let data = vec![*fill; usize::try_from(*bytes).expect("small")];
                if let Some(written) =
                    self.agree(Ok(()), worker.write(&self.at(file, worker), *offset, &data))?
                {
                    self.put(file, *offset, &data[..written]);
                }
                Ok(())
            }
            Op::Chmod { file, permissions } => {
                let Some(file) = self.file(*file) else {
                    return Ok(());
                };
                if self
                    .agree(Ok(()), worker.chmod(&self.at(file, worker), *permissions))?
                    .is_some()
                {
                    self.nodes.get_mut(&file).expect("it is there").permissions = *permissions;
                }
                Ok(())
            }
        }
    }

    fn make(
        &mut self,
        directory: u64,
        name: &str,
        content: Content,
        worker: &mut impl Worker,
    ) -> Result<(), String> {
        let directory = self.directory(directory);
        let taken = self.children(directory).contains_key(name);
        let expected = if taken { Err("EEXIST") } else { Ok(()) };
        let result = worker.create(&self.at(directory, worker), name, &content);
        if let Some(inode) = self.agree(expected, result)? {
            let links = if matches!(content, Content::Directory(_)) {
                2
            } else {
                1
            };
            let permissions = permissions(&content);
            let id = self.add(Node {
                content,
                permissions,
                links,
                parent: directory,
                inode,
            });
            self.children(directory).insert(name.to_owned(), id);
        }
        Ok(())
    }

    fn rename(
        &mut self,
        directory: u64,
        entry: u64,
        to: u64,
        name: &str,
        worker: &mut impl Worker,
    ) -> Result<(), String> {
        let (from, to) = (self.directory(directory), self.directory(to));
        let Some((old, id)) = self.entry(from, entry) else {
            return Ok(());
        };
        let replaced = self.children(to).get(name).copied();
        let moving = self.is_directory(id);
        let expected = match replaced {
            _ if moving && self.is_within(to, id) => Err("EINVAL"),
            Some(other) if other == id => Ok(()),
            Some(other) => match (moving, &self.nodes[&other].content) {
                (true, Content::Directory(children)) if !children.is_empty() => Err("ENOTEMPTY"),
                (true, Content::Directory(_))
                | (false, Content::File { .. } | Content::Symlink(_) | Content::Device(..)) => Ok(()),
                (true, _) => Err("ENOTDIR"),
                (false, Content::Directory(_)) => Err("EISDIR"),
            },
            None => Ok(()),
        };
        let result = worker.rename(&self.at(from, worker), &old, &self.at(to, worker), name);
        if self.agree(expected, result)?.is_none() || replaced == Some(id) {
            return Ok(());
        }
        if let Some(other) = replaced {
            self.drop_link(other);
        }
        self.children(from).remove(&old);
        self.children(to).insert(name.to_owned(), id);
        if moving {
            self.nodes.get_mut(&id).expect("it is there").parent = to;
        }
        Ok(())
    }

    fn set_size(&mut self, file: usize, new: u64) {
        let Content::File { size, data } = &mut self.nodes.get_mut(&file).expect("it is there").content
        else {
            return;
        };
        if new < *size {
            data.retain(|at, _| at * PIECE < new);
            if let Some(piece) = data.get_mut(&(new / PIECE)) {
                piece[(new % PIECE) as usize..].fill(0);
            }
        }
        *size = new;
    }

    fn put(&mut self, file: usize, offset: u64, bytes: &[u8]) {
        let Content::File { size, data } = &mut self.nodes.get_mut(&file).expect("it is there").content
        else {
            return;
        };
        let mut done = 0usize;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % PIECE) as usize;
            let part = (bytes.len() - done).min(PIECE as usize - within);
            let piece = data.entry(at / PIECE).or_insert_with(|| vec![0; PIECE as usize]);
            piece[within..within + part].copy_from_slice(&bytes[done..done + part]);
            done += part;
        }
        *size = (*size).max(offset + bytes.len() as u64);
    }

    fn agree<T>(&mut self, expected: Expected, result: Result<T, String>) -> Result<Option<T>, String> {
        match (expected, result) {
            (Ok(()), Ok(value)) => Ok(Some(value)),
            (_, Err(errno)) if OF_SPACE.contains(&errno.as_str()) => {
                *self.errors.entry(errno).or_insert(0) += 1;
                Ok(None)
            }
            (Err(wanted), Err(errno)) if wanted == errno => Ok(None),
            (Err(wanted), Ok(_)) => Err(format!("it succeeds, but {wanted} was to be expected")),
            (Err(wanted), Err(errno)) => {
                Err(format!("it fails with {errno}, but {wanted} was to be expected"))
            }
            (Ok(()), Err(errno)) => Err(format!("it fails with {errno}")),
        }
    }

    /// The bytes of a file.
    pub(crate) fn bytes_of(size: u64, data: &BTreeMap<u64, Vec<u8>>) -> Vec<u8> {
        let mut bytes = vec![0; size as usize];
        for (at, piece) in data {
            let from = (at * PIECE) as usize;
            let part = PIECE.min(size - at * PIECE) as usize;
            bytes[from..from + part].copy_from_slice(&piece[..part]);
        }
        bytes
    }
}

/// The permissions that a new node gets.
pub(crate) fn permissions(content: &Content) -> u16 {
    match content {
        Content::Directory(_) => 0o755,
        Content::Symlink(_) => 0o777,
        Content::File { .. } | Content::Device(..) => 0o644,
    }
}

/// Our own file system at work.
pub(crate) struct Ours<'v, R> {
    pub(crate) volume: &'v Volume<R>,
    pub(crate) clock: i64,
}

impl<R: ReadAt> Ours<'_, R> {
    fn now(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp {
            seconds: self.clock,
            nanoseconds: 123_456_789,
        }
    }
}

fn inode(number: u32) -> InodeNumber {
    InodeNumber::new(number).expect("inodes are not 0")
}

fn say(error: WriteError) -> String {
    match error {
        WriteError::Corrupt(..)
        | WriteError::CorruptBlock(..)
        | WriteError::Race(_)
        | WriteError::Read(_) => error.to_string(),
        error => error.errno().to_owned(),
    }
}

impl<R: ReadAt> Worker for Ours<'_, R> {
    fn goes_by_path(&self) -> bool {
        false
    }

    fn create(&mut self, directory: &At, name: &str, content: &Content) -> Result<u32, String> {
        let kind = match content {
            Content::Directory(_) => 0o040_000,
            Content::File { .. } => 0o100_000,
            Content::Symlink(_) => 0o120_000,
            Content::Device(..) => 0o020_000,
        };
        let new = NewInode {
            mode: kind | permissions(content),
            uid: 70_000,
            gid: 5,
            now: self.now(),
        };
        let target = match content {
            Content::Symlink(target) => Some(target.as_bytes()),
            _ => None,
        };
        let made = self
            .volume
            .create(inode(directory.inode), name.as_bytes(), &new, target)
            .map_err(say)?;
        if let Content::Device(major, minor) = content {
            let mut node = self.volume.inode(made).map_err(say)?;
            Volume::<R>::set_device(&mut node, *major, *minor);
            self.volume.write_inode(&mut node);
        }
        Ok(made.get())
    }

    fn link(&mut self, file: &At, directory: &At, name: &str) -> Result<(), String> {
        let now = self.now();
        self.volume
            .link(inode(file.inode), inode(directory.inode), name.as_bytes(), now)
            .map_err(say)
    }

    fn unlink(&mut self, directory: &At, name: &str) -> Result<(), String> {
        let now = self.now();
        self.volume
            .unlink(inode(directory.inode), name.as_bytes(), now)
            .map_err(say)
    }

    fn rmdir(&mut self, directory: &At, name: &str) -> Result<(), String> {
        let now = self.now();
        self.volume
            .rmdir(inode(directory.inode), name.as_bytes(), now)
            .map_err(say)
    }

    fn rename(&mut self, from: &At, name: &str, to: &At, new: &str) -> Result<(), String> {
        let now = self.now();
        let (from, to) = (
            (inode(from.inode), name.as_bytes()),
            (inode(to.inode), new.as_bytes()),
        );
        self.volume.rename(from, to, now).map_err(say)
    }

    fn truncate(&mut self, file: &At, size: u64) -> Result<(), String> {
        let now = self.now();
        self.volume
            .set_file_size(inode(file.inode), size, now)
            .map_err(say)
    }

    fn write(&mut self, file: &At, offset: u64, data: &[u8]) -> Result<usize, String> {
        let now = self.now();
        self.volume
            .write(inode(file.inode), offset, data, now)
            .map_err(say)
    }

    fn chmod(&mut self, file: &At, permissions: u16) -> Result<(), String> {
        let now = self.now();
        let attributes = NewAttributes {
            permissions: Some(permissions),
            ..NewAttributes::default()
        };
        self.volume
            .set_attributes(inode(file.inode), &attributes, now)
            .map_err(say)
    }
}

/// Whether an image holds what the model does; where not, what differs.
pub(crate) fn compare<R: ReadAt>(filesystem: &Filesystem<R>, model: &Model) -> Result<(), String> {
    for (id, node) in &model.nodes {
        let path = || model.path(*id);
        let (found, findings) = filesystem
            .inode(inode(node.inode))
            .map_err(|why| why.to_string())?;
        if !findings.is_empty() {
            return Err(format!("{}: {findings:?}", path()));
        }
        let directories = |children: &BTreeMap<String, usize>| {
            children.values().filter(|id| model.is_directory(**id)).count() as u32
        };
        let links = match &node.content {
            Content::Directory(children) => 2 + directories(children),
            _ => node.links,
        };
        // Very many are not counted: 1 stands for them.
        if u32::from(found.raw.i_links_count) != links && found.raw.i_links_count != 1 {
            return Err(format!(
                "{} has {} links, not {links}",
                path(),
                found.raw.i_links_count
            ));
        }
        if *id > 0 && found.raw.i_mode & 0o7777 != node.permissions {
            return Err(format!(
                "{} has mode {:o}, not {:o}",
                path(),
                found.raw.i_mode,
                node.permissions
            ));
        }
        let number = inode(node.inode);
        let right = match &node.content {
            Content::Directory(children) => {
                let (entries, findings) = filesystem.entries(number, &found);
                if !findings.is_empty() {
                    return Err(format!("{}: {findings:?}", path()));
                }
                let here: BTreeMap<String, u32> = entries
                    .iter()
                    .map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.inode))
                    .filter(|(name, _)| ![".", ".."].contains(&name.as_str()))
                    .collect();
                let wanted: BTreeMap<String, u32> = children
                    .iter()
                    .map(|(name, id)| (name.clone(), model.nodes[id].inode))
                    .collect();
                let dots = entries
                    .iter()
                    .find(|entry| entry.name == b"..")
                    .map(|entry| entry.inode);
                here == wanted && dots == Some(model.nodes[&node.parent].inode)
            }
            Content::File { size, data } => {
                let mut bytes = vec![0; found.size as usize];
                let file = filesystem.file(number, &found);
                file.read_at(0, &mut bytes)
                    .map_err(|why| format!("{}: {why}", path()))?;
                found.size == *size && bytes == Model::bytes_of(*size, data)
            }
            Content::Symlink(target) => {
                found.file_type == Some(FileType::Symlink)
                    && filesystem
                        .target(number, &found)
                        .is_ok_and(|found| found == target.as_bytes())
            }
            Content::Device(major, minor) => found.device() == Some((*major, *minor)),
        };
        if !right {
            return Err(format!("{} (inode {number}) is not what the model says", path()));
        }
    }
    Ok(())
}
