//! How many pairs of create and unlink a second: by us on an image, or by the kernel in a folder.
//!
//! `create_unlink image IMAGE` or `create_unlink folder FOLDER`. Directories `d0` and on hold 10,000 empty files each; of
//! each pair the file is created and taken away again. Prints the rate.

use std::{
    error::Error,
    fs::{self, File},
    path::Path,
    time::Instant,
};

use ext4::{InodeNumber, NewInode, Timestamp, Volume};

const DIRECTORIES: u32 = 4;
const ENTRIES: u32 = 10_000;
const PAIRS: u32 = 40_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rate = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["image", path] => on_image(path)?,
        ["folder", path] => in_folder(Path::new(path))?,
        _ => return Err("image IMAGE or folder FOLDER".into()),
    };
    println!("{rate:.0}");
    Ok(())
}

/// One rate out of the time that all pairs took.
fn rate(begun: Instant) -> f64 {
    f64::from(PAIRS) / begun.elapsed().as_secs_f64()
}

fn on_image(path: &str) -> Result<f64, Box<dyn Error>> {
    let volume = Volume::open(fs::read(path)?)?;
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
    let mut directories = Vec::new();
    for number in 0..DIRECTORIES {
        let directory = NewInode {
            mode: 0o040_755,
            ..new
        };
        let name = format!("d{number}");
        let directory = volume.create(InodeNumber::ROOT, name.as_bytes(), &directory, None)?;
        for entry in 0..ENTRIES {
            volume.create(directory, format!("file-{entry:05}").as_bytes(), &new, None)?;
        }
        directories.push(directory);
    }
    let begun = Instant::now();
    for pair in 0..PAIRS {
        let directory = directories[(pair % DIRECTORIES) as usize];
        let name = format!("new-{pair:05}");
        volume.create(directory, name.as_bytes(), &new, None)?;
        volume.unlink(directory, name.as_bytes(), now)?;
    }
    let rate = rate(begun);
    volume.sync();
    Ok(rate)
}

fn in_folder(folder: &Path) -> Result<f64, Box<dyn Error>> {
    for number in 0..DIRECTORIES {
        let directory = folder.join(format!("d{number}"));
        fs::create_dir(&directory)?;
        for entry in 0..ENTRIES {
            File::create_new(directory.join(format!("file-{entry:05}")))?;
        }
    }
    let begun = Instant::now();
    for pair in 0..PAIRS {
        let file = folder.join(format!("d{}/new-{pair:05}", pair % DIRECTORIES));
        drop(File::create_new(&file)?);
        fs::remove_file(&file)?;
    }
    Ok(rate(begun))
}
