//! Images that the running kernel has filled, read by us and compared with what the mount shows.
//!
//! Needs root and loop mounts: `cargo xtask test` runs these where there are such, and says so where not.

mod support {
    pub(crate) mod image;
    pub(crate) mod story;
    pub(crate) mod tree;
}

use std::{
    collections::BTreeMap,
    ffi::CString,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, FileTypeExt, MetadataExt, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ext4::{
    FileType, Filesystem, InodeNumber, NativeFile, NewFilesystem, NewInode, ReadAt, Timestamp, Volume,
};
use support::{
    image::{Image, content, host_path, walk},
    story::{At, Content, Model, Mood, Ours, Worker, permissions, sequence},
    tree,
};

/// A mounted image; unmounted when it goes out of scope.
struct Mount {
    folder: PathBuf,
}

impl Mount {
    fn new(image: &Image, options: &str) -> Self {
        let folder = image.beside("mount");
        fs::create_dir_all(&folder).expect("folders can be made");
        let mut why = String::new();
        // Tests side by side want the same free loop device; the one that comes second has to ask again.
        for _ in 0..20 {
            let mounted = Command::new("mount")
                .args(["-o", options])
                .args([image.path(), folder.clone()])
                .output()
                .expect("mount starts");
            if mounted.status.success() {
                return Self { folder };
            }
            why = String::from_utf8_lossy(&mounted.stderr).into_owned();
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{}: {why}", image.options);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.folder).status();
        assert!(
            status.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "cannot unmount"
        );
    }
}

/// Lets the kernel make everything that it can be asked for.
fn fill(folder: &Path, block: u64) {
    tree::plant(folder, block, 700);
    fs::create_dir(folder.join("crowd")).expect("folders can be made");
    for number in 0..6_000 {
        File::create(folder.join(format!("crowd/name-{number}-{}", "x".repeat(number % 60))))
            .expect("files can be made");
    }
    // Holes in the directory: a third goes again.
    for number in (0..6_000).step_by(3) {
        fs::remove_file(folder.join(format!("crowd/name-{number}-{}", "x".repeat(number % 60))))
            .expect("files can go");
    }
    for (name, kind, major, minor) in [("null", "c", "1", "3"), ("disk", "b", "259", "70000")] {
        let status = Command::new("mknod")
            .arg(folder.join(name))
            .args([kind, major, minor])
            .status();
        assert!(status.expect("mknod starts").success());
    }
    let fifo = CString::new(folder.join("fifo").as_os_str().as_bytes()).expect("no zero bytes");
    let status = Command::new("mkfifo")
        .arg(std::ffi::OsStr::from_bytes(fifo.as_bytes()))
        .status();
    assert!(status.expect("mkfifo starts").success());
    symlink("../tiny", folder.join("odd/to tiny")).expect("links can be made");
    let times = |name: &str, moment: SystemTime| {
        let file = File::create(folder.join(name)).expect("files can be made");
        file.set_modified(moment).expect("times can be set");
    };
    times(
        "before 1970",
        UNIX_EPOCH - Duration::new(1_000_000_000, 250_000_000),
    );
    times(
        "after 2038",
        UNIX_EPOCH + Duration::new(6_000_000_000, 123_456_789),
    );
    // Written over and cut: extents that were split and freed.
    let file = File::create(folder.join("cut")).expect("files can be made");
    file.write_all_at(&tree::noise(2_000_000), 0)
        .expect("it can be written");
    file.set_len(70_001).expect("it can be cut");
    file.set_len(900_000).expect("it can grow");
}

/// What `ls` would say of a file.
fn of_host(path: &Path) -> (u32, u64, u64, u32, u32, i64, i64) {
    let metadata = fs::symlink_metadata(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let size = if metadata.file_type().is_block_device() {
        0
    } else {
        metadata.size()
    };
    (
        metadata.mode(),
        size,
        metadata.nlink(),
        metadata.uid(),
        metadata.gid(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    )
}

/// Every name, attribute and byte is the same through the mount and through us.
fn compare(image: &Image, folder: &Path) {
    let opened = Filesystem::open(NativeFile::open(image.path()).expect("it is there")).expect("it is ext4");
    let disk = opened.filesystem;
    let found = walk(&disk);
    let mut names: BTreeMap<Vec<u8>, ()> = BTreeMap::new();
    for (path, _, inode) in &found {
        names.insert(path.clone(), ());
        let host = host_path(folder, path);
        let links = u64::from(inode.raw.i_links_count);
        let ours = (
            u32::from(inode.raw.i_mode),
            inode.size,
            links,
            inode.uid,
            inode.gid,
            inode.modified.seconds,
            i64::from(inode.modified.nanoseconds),
        );
        assert_eq!(ours, of_host(&host), "{}", host.display());
        match inode.file_type {
            Some(FileType::Regular) => {
                let text = String::from_utf8(path.clone());
                // `content` takes a path as text; the odd names are compared by size and time.
                if let Ok(text) = text {
                    let same = content(&disk, &text) == fs::read(&host).expect("it can be read");
                    assert!(same, "{text}: other bytes");
                }
            }
            Some(FileType::Symlink) => {
                let target = fs::read_link(&host).expect("it is a link");
                assert_eq!(inode.size, target.as_os_str().len() as u64);
            }
            Some(FileType::Character | FileType::Block) => {
                let device = fs::symlink_metadata(&host).expect("it is there").rdev();
                let (major, minor) = inode.device().expect("it is a device");
                let theirs = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
                assert_eq!((u64::from(major), u64::from(minor)), theirs);
            }
            _ => {}
        }
    }
    // And nothing is missing.
    let mut left = vec![folder.to_owned()];
    let mut seen = 1;
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).expect("it can be listed") {
            let entry = entry.expect("it can be listed");
            seen += 1;
            if entry.file_type().expect("it has a type").is_dir() {
                left.push(entry.path());
            }
        }
    }
    assert_eq!(found.len(), seen);
    assert_eq!(names.len(), seen);
}

fn filled_by_the_kernel(size: &str, options: &str, block: u64) {
    let image = Image::make(size, options, |_| {});
    let mount = Mount::new(&image, "loop");
    fill(&mount.folder, block);
    drop(mount);
    image.is_clean();
    let mount = Mount::new(&image, "loop,ro");
    compare(&image, &mount.folder);
}

#[test]
#[ignore = "needs root and loop mounts"]
fn what_the_kernel_has_written_with_todays_features_is_what_we_read() {
    filled_by_the_kernel(
        "256M",
        "-t ext4 -b 4096 -O metadata_csum,metadata_csum_seed,orphan_file",
        4096,
    );
}

#[test]
#[ignore = "needs root and loop mounts"]
fn what_the_kernel_has_written_in_small_blocks_is_what_we_read() {
    filled_by_the_kernel(
        "128M",
        "-t ext4 -b 1024 -I 256 -N 20000 -O ^metadata_csum,inline_data",
        1024,
    );
}

#[test]
#[ignore = "needs root and loop mounts"]
fn what_the_kernel_has_written_to_ext2_is_what_we_read() {
    filled_by_the_kernel("128M", "-t ext2 -b 1024 -I 256 -N 20000", 1024);
}

#[test]
#[ignore = "needs root and loop mounts"]
fn a_hashed_directory_of_three_levels_is_clean() {
    let image = Image::make(
        "160M",
        "-t ext4 -b 1024 -N 140000 -O ^has_journal,large_dir",
        |_| {},
    );
    let mount = Mount::new(&image, "loop");
    let folder = mount.folder.join("crowd");
    fs::create_dir(&folder).expect("folders can be made");
    let first = folder.join("first");
    fs::write(&first, "").expect("files can be written");
    for number in 0..70_000 {
        // A link costs less than a file; the kernel allows 65,000 of each.
        let name = folder.join(format!("{number:06}_{}", "x".repeat(200)));
        if number % 60_000 == 0 {
            fs::write(&name, "").expect("files can be written");
            fs::rename(&name, &first).expect("files can be renamed");
        } else {
            fs::hard_link(&first, &name).expect("links can be made");
        }
    }
    drop(mount);
    let disk = image.open().filesystem;
    let (number, inode) = support::image::at(&disk, "/crowd").expect("it is there");
    let index = disk.directory_index(number, &inode).expect("it is hashed");
    assert_eq!(index.levels, 2);
    image.is_clean();
}

/// Pulled out while work was going on: as on disk it is dirty; replayed it is what the kernel makes of it.
#[test]
#[ignore = "needs root and loop mounts"]
fn a_journal_that_the_kernel_left_is_replayed_to_what_the_kernel_mounts() {
    let image = Image::make("64M", "-t ext4 -b 4096", |_| {});
    let mount = Mount::new(&image, "loop,commit=1");
    for number in 0..300 {
        fs::write(
            mount.folder.join(format!("file-{number}")),
            tree::noise(number * 37),
        )
        .expect("files can be written");
        if number % 100 == 0 {
            File::open(&mount.folder)
                .and_then(|folder| folder.sync_all())
                .expect("it can be synced");
        }
    }
    assert!(Command::new("sync").status().is_ok_and(|status| status.success()));
    // A copy of the mounted image is what a power cut would have left.
    let pulled = image.beside("pulled");
    fs::copy(image.path(), &pulled).expect("files can be copied");
    drop(mount);
    fs::rename(&pulled, image.path()).expect("files can be moved");
    let opened = Filesystem::open(NativeFile::open(image.path()).expect("it is there")).expect("it is ext4");
    let disk = opened.filesystem;
    let journal = disk.journal().expect("it has a journal");
    assert!(
        !journal.transactions.is_empty(),
        "the kernel left nothing to replay"
    );
    assert_eq!(support::image::replays_differ(&image.path()), []);
    let replayed = ext4::Replayed::new(NativeFile::open(image.path()).expect("it is there"), &journal);
    let ours = Filesystem::open(replayed).expect("it is ext4").filesystem;
    let ours: BTreeMap<_, _> = walk(&ours)
        .into_iter()
        .map(|(path, number, inode)| (path, (number, inode.size)))
        .collect();
    let mount = Mount::new(&image, "loop");
    for (path, (number, size)) in &ours {
        let metadata = fs::symlink_metadata(host_path(&mount.folder, path)).expect("it is there");
        assert_eq!(
            (metadata.ino(), metadata.size()),
            (u64::from(number.get()), *size),
            "{path:?}"
        );
    }
    assert_eq!(
        ours.len(),
        fs::read_dir(&mount.folder).expect("it can be listed").count() + 1
    );
}

/// The kernel at work on a mounted image.
struct Kernel<'m> {
    folder: &'m Path,
}

impl Kernel<'_> {
    fn path(&self, at: &At, name: &str) -> PathBuf {
        let path = format!("{}/{name}", at.path);
        self.folder.join(path.trim_matches('/'))
    }
}

fn errno(error: std::io::Error) -> String {
    let name = match error.raw_os_error() {
        Some(1) => "EPERM",
        Some(2) => "ENOENT",
        Some(17) => "EEXIST",
        Some(20) => "ENOTDIR",
        Some(21) => "EISDIR",
        Some(22) => "EINVAL",
        Some(27) => "EFBIG",
        Some(28) => "ENOSPC",
        Some(31) => "EMLINK",
        Some(36) => "ENAMETOOLONG",
        Some(39) => "ENOTEMPTY",
        _ => return error.to_string(),
    };
    name.to_owned()
}

impl Worker for Kernel<'_> {
    fn goes_by_path(&self) -> bool {
        true
    }

    fn create(&mut self, directory: &At, name: &str, content: &Content) -> Result<u32, String> {
        let path = self.path(directory, name);
        match content {
            Content::Directory(_) => fs::create_dir(&path).map_err(errno)?,
            Content::File { .. } => drop(File::create_new(&path).map_err(errno)?),
            Content::Symlink(target) => symlink(target, &path).map_err(errno)?,
            Content::Device(major, minor) => {
                if fs::symlink_metadata(&path).is_ok() {
                    return Err("EEXIST".to_owned());
                }
                let (major, minor) = (major.to_string(), minor.to_string());
                let made = Command::new("mknod")
                    .arg(&path)
                    .args(["c", &major, &minor])
                    .output();
                let made = made.expect("mknod starts");
                if !made.status.success() {
                    let full = String::from_utf8_lossy(&made.stderr).contains("No space");
                    return Err(if full { "ENOSPC" } else { "mknod fails" }.to_owned());
                }
            }
        }
        if !matches!(content, Content::Symlink(_)) {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::Permissions::from_mode(permissions(content).into());
            fs::set_permissions(&path, mode).map_err(errno)?;
        }
        let number = fs::symlink_metadata(&path).map_err(errno)?.ino();
        Ok(u32::try_from(number).expect("inodes have 32 bits"))
    }

    fn link(&mut self, file: &At, directory: &At, name: &str) -> Result<(), String> {
        fs::hard_link(self.path(file, ""), self.path(directory, name)).map_err(errno)
    }

    fn unlink(&mut self, directory: &At, name: &str) -> Result<(), String> {
        fs::remove_file(self.path(directory, name)).map_err(errno)
    }

    fn rmdir(&mut self, directory: &At, name: &str) -> Result<(), String> {
        fs::remove_dir(self.path(directory, name)).map_err(errno)
    }

    fn rename(&mut self, from: &At, name: &str, to: &At, new: &str) -> Result<(), String> {
        fs::rename(self.path(from, name), self.path(to, new)).map_err(errno)
    }

    fn truncate(&mut self, file: &At, size: u64) -> Result<(), String> {
        let file = File::options()
            .write(true)
            .open(self.path(file, ""))
            .map_err(errno)?;
        file.set_len(size).map_err(errno)
    }

    fn write(&mut self, file: &At, offset: u64, data: &[u8]) -> Result<usize, String> {
        let file = File::options()
            .write(true)
            .open(self.path(file, ""))
            .map_err(errno)?;
        file.write_at(data, offset).map_err(errno)
    }

    fn chmod(&mut self, file: &At, permissions: u16) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::Permissions::from_mode(permissions.into());
        fs::set_permissions(self.path(file, ""), mode).map_err(errno)
    }
}

/// The model of an empty file system.
fn empty_model(image: &Image) -> Model {
    let disk = image.open().filesystem;
    let (root, _) = disk.inode(InodeNumber::ROOT).expect("there is a root");
    let lost = disk
        .lookup(InodeNumber::ROOT, &root, b"lost+found")
        .expect("it is there");
    let mut model = Model::new(2, &[("lost+found", lost.get())]);
    let id = *model.nodes.keys().last().expect("it was added");
    model.nodes.get_mut(&id).expect("it is there").permissions = 0o700;
    model
}

fn store<R: ReadAt>(image: &Image, volume: &Volume<R>) {
    volume.sync();
    let file = File::options()
        .write(true)
        .open(image.path())
        .expect("it is there");
    let block_bytes = u64::from(volume.geometry().block_bytes);
    for block in volume.overlay().changed_blocks() {
        file.write_all_at(&block.to_vec(), block.number().0 * block_bytes)
            .expect("it can be written");
    }
}

/// We work, the kernel goes on, we go on: after each turn the tree is the model's, and e2fsck is content.
fn by_turns(options: &str, mood: Mood, seed: u64) {
    let image = Image::make("64M", options, |_| {});
    let mut model = empty_model(&image);
    let agree = |image: &Image, model: &Model, who: &str| {
        image.is_clean();
        let filesystem = image.open().filesystem;
        support::story::compare(&filesystem, model).unwrap_or_else(|why| panic!("{options}, {who}: {why}"));
    };
    for turn in 0..4 {
        let ours = sequence(seed * 10 + turn * 2, 500, mood);
        let volume = Volume::open(image.bytes()).expect("it can be written");
        let mut worker = Ours {
            volume: &volume,
            clock: 1_800_000_000,
        };
        for op in &ours {
            model
                .step(op, &mut worker)
                .unwrap_or_else(|why| panic!("{options}, we, {op}: {why}"));
        }
        store(&image, &volume);
        agree(&image, &model, "after us");
        let theirs = sequence(seed * 10 + turn * 2 + 1, 200, mood);
        let mount = Mount::new(&image, "loop");
        compare(&image, &mount.folder);
        let mut worker = Kernel {
            folder: &mount.folder,
        };
        for op in &theirs {
            model
                .step(op, &mut worker)
                .unwrap_or_else(|why| panic!("{options}, the kernel, {op}: {why}"));
        }
        drop(mount);
        agree(&image, &model, "after the kernel");
    }
}

#[test]
#[ignore = "needs root and loop mounts"]
fn the_kernel_goes_on_where_we_stop_and_we_where_it_stops() {
    for (seed, options) in [
        "-t ext4 -b 4096 -O metadata_csum,metadata_csum_seed,orphan_file -E lazy_itable_init=1",
        "-t ext4 -b 1024 -g 4096 -O ^metadata_csum,uninit_bg -E lazy_itable_init=1",
        "-t ext4 -b 1024 -I 512 -O metadata_csum,^has_journal,large_dir",
        "-t ext2 -b 1024 -I 128",
        "-t ext3 -b 2048 -I 256",
    ]
    .into_iter()
    .enumerate()
    {
        for mood in [Mood::Everyday, Mood::Names, Mood::Data] {
            by_turns(options, mood, seed as u64 + 1);
        }
    }
}

/// One sequence, done by the kernel and by us: the same tree, though inodes and blocks may lie elsewhere.
#[test]
#[ignore = "needs root and loop mounts"]
fn one_sequence_leads_the_kernel_and_us_to_the_same_tree() {
    let options = "-t ext4 -b 4096 -O metadata_csum -g 8192 -U 01234567-89ab-cdef-0123-456789abcdef";
    for (mood, seed) in [(Mood::Everyday, 31), (Mood::Names, 32), (Mood::Data, 33)] {
        let image = Image::make("64M", options, |_| {});
        let operations = sequence(seed, 600, mood);
        let volume = Volume::open(image.bytes()).expect("it can be written");
        let mut ours = empty_model(&image);
        let mut worker = Ours {
            volume: &volume,
            clock: 1_800_000_000,
        };
        for op in &operations {
            ours.step(op, &mut worker)
                .unwrap_or_else(|why| panic!("we, {op}: {why}"));
        }
        let mut theirs = empty_model(&image);
        let mount = Mount::new(&image, "loop");
        let mut worker = Kernel {
            folder: &mount.folder,
        };
        for op in &operations {
            theirs
                .step(op, &mut worker)
                .unwrap_or_else(|why| panic!("the kernel, {op}: {why}"));
        }
        drop(mount);
        let kernel = image.open().filesystem;
        support::story::compare(&kernel, &theirs).unwrap_or_else(|why| panic!("{why}"));
        support::story::compare(volume.reader(), &ours).unwrap_or_else(|why| panic!("{why}"));
        let paths = |model: &Model| -> BTreeMap<String, u16> {
            model
                .nodes
                .iter()
                .map(|(id, node)| (model.path(*id), node.permissions))
                .collect()
        };
        assert_eq!(paths(&ours), paths(&theirs));
        // What differs is where things lie: the kernel's mballoc is not modelled, nor when it writes data.
        let moved = ours
            .nodes
            .iter()
            .filter(|(id, node)| theirs.nodes[id].inode != node.inode)
            .count();
        println!(
            "{mood:?}: {} nodes, {moved} of which have another inode than the kernel gave them",
            ours.nodes.len()
        );
    }
}

/// What we leave in the middle of things, the kernel finishes as we would.
#[test]
#[ignore = "needs root and loop mounts"]
fn the_kernel_cleans_up_our_orphans_as_we_do() {
    let now = Timestamp {
        seconds: 1_800_000_000,
        nanoseconds: 0,
    };
    let new = NewInode {
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        now,
    };
    for options in ["-t ext4 -b 4096", "-t ext4 -b 1024 -O orphan_file,metadata_csum"] {
        let image = Image::make("32M", options, |_| {});
        let volume = Volume::open(image.bytes()).expect("it can be written");
        volume.mark_orphans_present(true);
        for number in 0..20u64 {
            let name = format!("file-{number}");
            let file = volume
                .create(InodeNumber::ROOT, name.as_bytes(), &new, None)
                .expect("there is room");
            volume
                .write(file, 0, &tree::noise(50_000), now)
                .expect("there is room");
            match number % 3 {
                0 => drop(
                    volume
                        .unlink_only(InodeNumber::ROOT, name.as_bytes(), now)
                        .expect("it is there"),
                ),
                1 => drop(
                    volume
                        .begin_truncate(file, number * 1000, now)
                        .expect("it is there"),
                ),
                _ => {}
            }
        }
        volume.commit();
        let mut crashed = vec![0; volume.overlay().size() as usize];
        volume
            .overlay()
            .crash_image()
            .read_at(0, &mut crashed)
            .expect("it can be read");
        let sizes = |image: &Image| -> BTreeMap<Vec<u8>, u64> {
            walk(&image.open().filesystem)
                .into_iter()
                .map(|(path, _, inode)| (path, inode.size))
                .collect()
        };
        image.replace(&crashed);
        drop(Mount::new(&image, "loop"));
        image.is_clean();
        let kernel = sizes(&image);
        let ours = Volume::mount(crashed, now).expect("it can be written");
        store(&image, &ours);
        image.is_clean();
        assert_eq!(sizes(&image), kernel, "{options}");
    }
}

/// What we make, the kernel mounts, fills and leaves clean; its thread zeroes the inode tables that we left.
#[test]
#[ignore = "needs root and loop mounts"]
fn the_kernel_works_on_what_we_make() {
    let now = Timestamp {
        seconds: 1_700_000_000,
        nanoseconds: 0,
    };
    let mut todays = NewFilesystem::ext4(192 << 20, [7; 16], now);
    todays.compat.0 |= ext4::Compat::ORPHAN_FILE.0;
    todays.incompat.0 |= ext4::Incompat::CSUM_SEED.0;
    let small = NewFilesystem {
        block_bytes: 1024,
        inodes: Some(20_000),
        ..NewFilesystem::ext4(128 << 20, [8; 16], now)
    };
    let old = NewFilesystem {
        block_bytes: 1024,
        inodes: Some(20_000),
        ..NewFilesystem::ext2(128 << 20, [9; 16], now)
    };
    for new in [todays, small, old] {
        let volume = new.make().expect("the sizes make sense");
        let image = Image::make("1M", "-t ext2", |_| {});
        let mut bytes = vec![0; volume.overlay().size() as usize];
        volume.overlay().read_at(0, &mut bytes).expect("it can be read");
        image.replace(&bytes);
        let mount = Mount::new(&image, "loop");
        fill(&mount.folder, new.block_bytes.into());
        drop(mount);
        image.is_clean();
        let mount = Mount::new(&image, "loop,ro");
        compare(&image, &mount.folder);
    }
}
