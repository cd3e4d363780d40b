//! Images that a test makes with e2fsprogs, and what these say of them.
#![allow(
    dead_code,
    reason = "every test program takes this file in, and none needs all of it"
)]

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use ext4::{Filesystem, Inode, InodeNumber, NativeFile, Opened, PathError, ReadAt, Scan, Severity};
use tempfile::TempDir;

/// Without this each host's own `mke2fs.conf` would count.
const DEFAULTS: &str = "\
[defaults]
	base_features = sparse_super,large_file,filetype,dir_index,ext_attr,resize_inode
	default_mntopts = acl,user_xattr
	enable_periodic_fsck = 0
	blocksize = 4096
	inode_size = 256
	inode_ratio = 16384
[fs_types]
	ext3 = {
		features = has_journal
	}
	ext4 = {
		features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
	}
	small = {
		inode_ratio = 4096
	}
	floppy = {
		inode_ratio = 8192
	}
";

/// Runs a tool of e2fsprogs, whatever its status.
fn run<S: AsRef<OsStr>>(folder: &Path, tool: &str, arguments: &[S]) -> Output {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(folder)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .env("MKE2FS_CONFIG", folder.join("mke2fs.conf"))
        .output();
    output.unwrap_or_else(|error| panic!("{tool} (package e2fsprogs) does not start: {error}"))
}

/// An image in a folder of its own.
pub(crate) struct Image {
    folder: TempDir,
    /// How it was made, for messages.
    pub(crate) options: String,
}

impl Image {
    /// Makes an image of this size with these options of mke2fs, parted by blanks, that holds what `plant` puts
    /// into the folder that it is given.
    pub(crate) fn make(size: &str, options: &str, plant: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::write(folder.path().join("mke2fs.conf"), DEFAULTS).expect("files can be written");
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).expect("folders can be made");
        plant(&tree);
        let mut arguments = vec!["-q", "-F", "-d", "tree"];
        arguments.extend(options.split_whitespace());
        arguments.extend(["image", size]);
        let output = run(folder.path(), "mke2fs", &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mke2fs with {options}: {said}");
        let options = options.to_owned();
        Self { folder, options }
    }

    /// A file beside the image.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What was planted.
    pub(crate) fn tree(&self) -> PathBuf {
        self.beside("tree")
    }

    /// The image.
    pub(crate) fn path(&self) -> PathBuf {
        self.beside("image")
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).expect("it can be read")
    }

    /// Puts other bytes in its place.
    pub(crate) fn replace(&self, bytes: &[u8]) {
        fs::write(self.path(), bytes).expect("it can be written");
    }

    /// Changes some of its bytes.
    pub(crate) fn patch(&self, offset: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options()
            .write(true)
            .open(self.path())
            .expect("it is there");
        file.write_all_at(bytes, offset).expect("it can be written");
    }

    /// The image, opened by us.
    pub(crate) fn open(&self) -> Opened<NativeFile> {
        let file = NativeFile::open(self.path()).expect("it is there");
        Filesystem::open(file).unwrap_or_else(|why| panic!("{}: {why}", self.options))
    }

    /// Another tool of e2fsprogs, with arguments parted by blanks, on the image; status and output.
    pub(crate) fn tool(&self, tool: &str, arguments: &str) -> (i32, String) {
        let mut all: Vec<&str> = arguments.split_whitespace().collect();
        all.push("image");
        let output = run(self.folder.path(), tool, &all);
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// Lets debugfs change the image, a request after the other.
    pub(crate) fn change<S: AsRef<[u8]>>(&self, requests: &[S]) {
        self.debugfs(&["-w"], requests);
    }

    /// What debugfs answers to a request.
    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> String {
        self.ask_all(&[request]).remove(0)
    }

    /// What debugfs answers to each of these requests.
    pub(crate) fn ask_all<S: AsRef<[u8]>>(&self, requests: &[S]) -> Vec<String> {
        let output = self.debugfs(&[], requests);
        let mut rest = output.as_slice();
        let mut answers = Vec::new();
        let echo = |request: &S| [b"debugfs: ", request.as_ref(), b"\n"].concat();
        for (index, request) in requests.iter().enumerate() {
            rest = rest
                .strip_prefix(echo(request).as_slice())
                .expect("debugfs repeats a request");
            // An echo begins a line: the answer before it may be anything.
            let end = requests.get(index + 1).map_or(rest.len(), |next| {
                let next = echo(next);
                let found = rest.windows(next.len()).position(|bytes| bytes == next);
                found.expect("debugfs repeats the next request")
            });
            let (answer, others) = rest.split_at(end);
            // Latin-1 keeps every byte of a name.
            answers.push(answer.iter().copied().map(char::from).collect());
            rest = others;
        }
        answers
    }

    fn debugfs<S: AsRef<[u8]>>(&self, options: &[&str], requests: &[S]) -> Vec<u8> {
        let mut lines = Vec::new();
        for request in requests {
            lines.extend(request.as_ref());
            lines.push(b'\n');
        }
        fs::write(self.beside("requests"), lines).expect("files can be written");
        let arguments = [options, &["-f", "requests", "image"]].concat();
        run(self.folder.path(), "debugfs", &arguments).stdout
    }

    /// Asserts that neither e2fsck nor we find anything wrong.
    pub(crate) fn is_clean(&self) {
        let (status, said) = self.tool("e2fsck", "-fn");
        assert_eq!(status, 0, "e2fsck on {}: {said}", self.options);
        let opened = self.open();
        let report = Scan::run(&opened.filesystem, opened.findings);
        let bad = report
            .findings
            .iter()
            .filter(|finding| finding.severity > Severity::Note);
        let bad: Vec<String> = bad.map(ToString::to_string).collect();
        assert!(bad.is_empty(), "{}: {bad:#?}", self.options);
    }

    /// The errors that we find; e2fsck's status and words beside them.
    pub(crate) fn errors(&self) -> (Vec<String>, i32, String) {
        let (status, said) = self.tool("e2fsck", "-fn");
        (errors_of(self.open()), status, said)
    }
}

/// The errors of a check, in words.
pub(crate) fn errors_of<R: ReadAt>(opened: Opened<R>) -> Vec<String> {
    let report = Scan::run(&opened.filesystem, opened.findings);
    let bad = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    bad.map(ToString::to_string).collect()
}

/// An inode by its path.
pub(crate) fn at<R: ReadAt>(
    filesystem: &Filesystem<R>,
    path: &str,
) -> Result<(InodeNumber, Inode), PathError> {
    let number = filesystem.find(path.as_bytes())?;
    let (inode, _) = filesystem.inode(number).map_err(PathError::Read)?;
    Ok((number, inode))
}

/// All bytes of a file.
pub(crate) fn content<R: ReadAt>(filesystem: &Filesystem<R>, path: &str) -> Vec<u8> {
    let (number, inode) = at(filesystem, path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let file = filesystem.file(number, &inode);
    assert_eq!(file.findings(), [], "{path}");
    let mut bytes = vec![0; usize::try_from(file.size()).expect("test files are small")];
    file.read_at(0, &mut bytes)
        .unwrap_or_else(|why| panic!("{path}: {why}"));
    bytes
}

/// Every inode that a path leads to, with that path, the root first.
pub(crate) fn walk<R: ReadAt>(filesystem: &Filesystem<R>) -> Vec<(Vec<u8>, InodeNumber, Inode)> {
    let (root, _) = filesystem.inode(InodeNumber::ROOT).expect("there is a root");
    let mut found = vec![(b"/".to_vec(), InodeNumber::ROOT, root)];
    let mut next = 0;
    while let Some((path, number, inode)) = found.get(next).cloned() {
        next += 1;
        if inode.file_type != Some(ext4::FileType::Directory) {
            continue;
        }
        let (entries, findings) = filesystem.entries(number, &inode);
        assert_eq!(findings, [], "{}", String::from_utf8_lossy(&path));
        for entry in entries
            .into_iter()
            .filter(|entry| !matches!(entry.name.as_slice(), b"." | b".."))
        {
            let child = InodeNumber::new(entry.inode).expect("entries in use name an inode");
            let (inode, findings) = filesystem.inode(child).expect("it can be read");
            assert_eq!(findings, [], "inode {child}");
            let parent = path.strip_suffix(b"/").unwrap_or(&path);
            found.push(([parent, b"/", &entry.name].concat(), child, inode));
        }
    }
    found
}

/// A path of the host from bytes.
pub(crate) fn host_path(folder: &Path, name: &[u8]) -> PathBuf {
    folder.join(OsStr::from_bytes(name.strip_prefix(b"/").unwrap_or(name)))
}

/// Replays the journal of an image by ourselves and by `debugfs -R jr`: what differs beside the times, counters and state
/// of the superblock and the checksums of the two superblocks; offset, ours and theirs.
pub(crate) fn replays_differ(path: &Path) -> Vec<(usize, u8, u8)> {
    let image = fs::read(path).expect("it can be read");
    let disk = Filesystem::open(image.clone()).expect("it is ext4").filesystem;
    let journal = disk.superblock().s_journal_inum;
    let number = InodeNumber::new(journal).expect("it has a journal");
    let (inode, _) = disk.inode(number).expect("it can be read");
    let journal = disk.file(number, &inode).block_of(0).expect("it has blocks");
    let journal = usize::try_from(disk.geometry().offset_of(journal)).expect("test images are small");
    let overlay = ext4::replay_journal(image).expect("it can be replayed");
    let mut ours = vec![0; usize::try_from(overlay.size()).expect("test images are small")];
    overlay.read_at(0, &mut ours).expect("it can be read");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copy = folder.path().join("image");
    fs::copy(path, &copy).expect("files can be copied");
    run(folder.path(), "debugfs", &["-w", "-R", "jr", "image"]);
    let theirs = fs::read(&copy).expect("it can be read");
    // Write time, mount count, state; last check; KiB written; high bytes of times; checksum: and the journal's.
    let apart = [
        0x2c..0x38,
        0x3a..0x3c,
        0x40..0x44,
        0x178..0x180,
        0x274..0x278,
        0x3fc..0x400,
    ];
    let apart: Vec<_> = apart.map(|field| 1024 + field.start..1024 + field.end).to_vec();
    let checksum = journal + 0xfc..journal + 0x100;
    let differing = ours
        .iter()
        .zip(&theirs)
        .enumerate()
        .filter(|(_, (ours, theirs))| ours != theirs);
    differing
        .map(|(at, (ours, theirs))| (at, *ours, *theirs))
        .filter(|(at, ..)| !apart.iter().any(|field| field.contains(at)) && !checksum.contains(at))
        .collect()
}
