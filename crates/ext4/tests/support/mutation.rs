//! Small good images of many kinds, and random changes to them.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

fn run(tool: &str, arguments: &[&str], input: Option<&Path>) {
    let input = match input {
        Some(path) => fs::File::open(path).expect("it is there").into(),
        None => Stdio::null(),
    };
    let output = Command::new(tool)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(input)
        .output();
    output.unwrap_or_else(|error| panic!("{tool} (package e2fsprogs) does not start: {error}"));
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("the path is plain")
}

/// Images of many kinds: maps of both sorts, indexes, attributes, inline data, a dirty journal, an orphan file.
pub(crate) fn images() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("dir/sub")).expect("folders can be made");
    fs::create_dir_all(tree.join("many")).expect("folders can be made");
    for number in 0..60 {
        fs::write(tree.join(format!("many/a-rather-long-name-{number}")), "").expect("files can be written");
    }
    fs::write(tree.join("dir/small"), "small\n").expect("files can be written");
    fs::write(tree.join("dir/medium"), vec![b'm'; 30_000]).expect("files can be written");
    std::os::unix::fs::symlink("dir/small", tree.join("short")).expect("links can be made");
    std::os::unix::fs::symlink("x/".repeat(60), tree.join("long")).expect("links can be made");
    let kinds: [&[&str]; 7] = [
        &["-t", "ext4", "-O", "^has_journal,^resize_inode"],
        &["-t", "ext2", "-O", "^resize_inode"],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,^metadata_csum,uninit_bg,^flex_bg",
        ],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,inline_data,^64bit",
        ],
        &["-t", "ext4", "-O", "^resize_inode,orphan_file", "-J", "size=1"],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,meta_bg,bigalloc",
            "-C",
            "4096",
        ],
        &[
            "-t",
            "ext4",
            "-O",
            "^has_journal,^resize_inode,ea_inode,mmp,sparse_super2",
        ],
    ];
    let made = kinds.iter().enumerate().map(|(number, options)| {
        let image = folder.path().join(format!("{number}.img"));
        let size = if options.contains(&"-J") { "2560k" } else { "512k" };
        let fixed = ["-q", "-F", "-b", "1024", "-N", "128", "-d", plain(&tree)];
        run(
            "mke2fs",
            &[&fixed, *options, &[plain(&image), size]].concat(),
            None,
        );
        // With multi-mount protection every tool waits for some seconds first.
        if !options.iter().any(|option| option.contains("mmp")) {
            let request = "ea_set /dir/small user.comment well-kept";
            run("debugfs", &["-w", "-R", request, plain(&image)], None);
            run("e2fsck", &["-fyD", plain(&image)], None);
        }
        if options.contains(&"-J") {
            let script = folder.path().join("script");
            let requests = format!(
                "jo\njw -b 40,41 {}\njw -r 42\njc\n",
                plain(&tree.join("dir/medium"))
            );
            fs::write(&script, requests).expect("files can be written");
            run("debugfs", &["-w", plain(&image)], Some(&script));
        }
        fs::read(&image).expect("mke2fs made it")
    });
    made.collect()
}

/// One stream of numbers for each image and seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Changes an image: bytes, fields set to their extremes, blocks over each other, an early end.
pub(crate) fn mutate(image: &mut Vec<u8>, random: &mut Random) {
    const EXTREMES: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0xffff, 0x1_0000];
    for _ in 0..1 + random.below(4) {
        // Metadata lies at the beginning of such small images, and is hit more often.
        let end = if random.below(3) > 0 {
            image.len() / 4
        } else {
            image.len()
        };
        let at = random.below(end.saturating_sub(1100));
        match random.below(8) {
            0 => image[at] ^= 1 << random.below(8),
            1 => image[at] = random.next() as u8,
            2 => {
                let field = at / 4 * 4;
                let value = EXTREMES[random.below(8)];
                image[field..field + 4].copy_from_slice(&value.to_le_bytes());
            }
            3 => {
                // A field of the superblock or of a descriptor.
                let field = 1024 + random.below(1024 + 512) / 4 * 4;
                let value = EXTREMES[random.below(8)];
                image[field..field + 4].copy_from_slice(&value.to_le_bytes());
            }
            4 => {
                // A small number, as block and inode numbers are here.
                let field = at / 4 * 4;
                let value = random.below(600) as u32;
                image[field..field + 4].copy_from_slice(&value.to_le_bytes());
            }
            5 => {
                let (from, to) = (random.below(image.len() / 1024), at / 1024);
                image.copy_within(from * 1024..(from + 1) * 1024, to * 1024);
            }
            6 => {
                let block = at / 1024 * 1024;
                image[block..block + 1024].fill(random.next() as u8);
            }
            _ if random.below(20) == 0 => image.truncate(2048 + at),
            _ => image[at + 1] ^= 0xff,
        }
    }
}
