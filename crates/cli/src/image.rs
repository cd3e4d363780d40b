//! Opening an image: what is around it, which partition, which superblock, and whether the journal is replayed.

use std::sync::Arc;

use ext4::{
    Filesystem, Finding, JournalError, NativeFile, OpenError, Replayed, Severity,
    container::{self, Image, Partition},
};

use crate::{answer::Failure, arguments::Source, finding::FindingRow};

/// Block sizes that ext4 may have.
const BLOCK_SIZES: [u64; 7] = [1024, 2048, 4096, 8192, 16384, 32768, 65536];
/// Where the primary superblock lies.
const PRIMARY_AT: u64 = 1024;

/// A file without what was around it, and the partition that is read.
pub(crate) struct Unwrapped {
    /// The bytes of the file system.
    pub(crate) image: Image,
    /// The wrappings that were taken off, outermost first.
    pub(crate) layers: Vec<String>,
    /// The partitions of the disk; none where it is no disk.
    pub(crate) partitions: Vec<Partition>,
    /// The one that is read.
    pub(crate) partition: Option<u32>,
}

/// An open image.
pub(crate) struct Opened {
    pub(crate) filesystem: Filesystem<Image>,
    /// What is wrong with the superblock.
    pub(crate) findings: Vec<Finding>,
    pub(crate) unwrapped: Unwrapped,
}

/// Opens the file, takes off what is around the image, and chooses a partition.
pub(crate) fn unwrap(source: &Source) -> Result<Unwrapped, Failure> {
    let shown = source.image.display();
    let cannot = |why: &dyn std::fmt::Display| Failure::CannotOpen(format!("{shown}: {why}"));
    let file = NativeFile::open(&source.image).map_err(|error| cannot(&error))?;
    let peeled = container::peel(Arc::new(file)).map_err(|error| cannot(&error))?;
    let chosen = peeled.choose(source.partition).map_err(|error| cannot(&error))?;
    let first = peeled.partitions.iter().find(|partition| partition.is_ext);
    Ok(Unwrapped {
        image: chosen,
        partition: source.partition.or(first.map(|partition| partition.number)),
        layers: peeled.layers,
        partitions: peeled.partitions,
    })
}

/// Opens the file system that is asked for.
pub(crate) fn open(source: &Source) -> Result<Opened, Failure> {
    let unwrapped = unwrap(source)?;
    let shown = source.image.display();
    let cannot = |why: String| Failure::CannotOpen(format!("{shown}: {why}"));
    let opened = open_by(source, unwrapped.image.clone()).map_err(|why| cannot(explain(&unwrapped, &why)))?;
    let opened = if source.replayed {
        let image = replayed(&opened.filesystem).map_err(|why| cannot(why.to_string()))?;
        open_by(source, image).map_err(|why| cannot(why.to_string()))?
    } else {
        opened
    };
    Ok(Opened {
        filesystem: opened.filesystem,
        findings: opened.findings,
        unwrapped,
    })
}

/// Opens the file system for a question that is not about the superblock: what is wrong with that goes to standard
/// error at once.
pub(crate) fn open_for_use(source: &Source) -> Result<Filesystem<Image>, Failure> {
    let opened = open(source)?;
    for finding in opened.findings {
        if finding.severity >= Severity::Warning {
            eprintln!("ext4lab: {}", FindingRow::from(finding));
        }
    }
    Ok(opened.filesystem)
}

/// The image as it would be after the replay; as it is where there is no journal.
fn replayed(filesystem: &Filesystem<Image>) -> Result<Image, JournalError> {
    let image = filesystem.image().clone();
    match filesystem.journal() {
        Ok(journal) => Ok(Arc::new(Replayed::new(image, &journal))),
        Err(JournalError::None) => Ok(image),
        Err(why) => Err(why),
    }
}

fn open_by(source: &Source, image: Image) -> Result<ext4::Opened<Image>, OpenError> {
    if let Some(offset) = source.superblock_at {
        return Filesystem::open_at(image, offset);
    }
    let Some(block) = source.superblock else {
        return Filesystem::open(image);
    };
    if let Some(block_bytes) = source.block_size {
        return Filesystem::open_at(image, offset_of(block, block_bytes));
    }
    let mut why = None;
    for block_bytes in BLOCK_SIZES {
        match Filesystem::open_at(image.clone(), offset_of(block, block_bytes)) {
            // Another block size would have to be a coincidence.
            Ok(opened) if u64::from(opened.filesystem.geometry().block_bytes) == block_bytes => {
                return Ok(opened);
            }
            Ok(_) => {}
            // What is wrong with a superblock says more than that there is none.
            Err(error @ OpenError::Unusable { .. }) => why = Some(error),
            Err(error) => {
                why.get_or_insert(error);
            }
        }
    }
    Err(why.unwrap_or(OpenError::NotExt4 {
        looks_like: "something without a superblock there",
    }))
}

/// Where the superblock of a block begins: the primary is not at the beginning of block 0.
fn offset_of(block: u64, block_bytes: u64) -> u64 {
    match block {
        0 => PRIMARY_AT,
        block => block.saturating_mul(block_bytes),
    }
}

/// Why nothing can be opened; on a disk the partitions are the better answer.
fn explain(unwrapped: &Unwrapped, why: &OpenError) -> String {
    let list: Vec<_> = unwrapped
        .partitions
        .iter()
        .map(|partition| format!("{} ({})", partition.number, partition.kind))
        .collect();
    match (unwrapped.partition, why) {
        (None, OpenError::NotExt4 { .. }) if !list.is_empty() => {
            format!(
                "none of its partitions holds ext2, ext3 or ext4: {}",
                list.join(", ")
            )
        }
        (Some(number), why) => format!("partition {number}: {why}"),
        (None, why) => why.to_string(),
    }
}
