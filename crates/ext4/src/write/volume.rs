//! A file system that can be changed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering::Relaxed},
    },
};

use crate::{
    Block, BlockNumber, Blocks, Compat, Filesystem, Geometry, GroupDescriptor, GroupNumber, Incompat,
    InodeNumber, Overlay, ReadAt, Replayed, RoCompat, SUPERBLOCK_BYTES, Seed, Superblock, Timestamp,
    WriteError,
    checksum::crc32c,
    feature_names,
    group::DescriptorCheck,
    number::{divide_wide, place},
    record::Stored,
};

use super::{groups::Group, orphans::OrphanBlock};

/// More groups than any file system has that the kernel mounts: 64 TiB in 1 KiB blocks.
const GROUPS_MAX: u32 = 1 << 23;
/// Where the superblock lies.
const SUPERBLOCK_AT: u64 = 1024;
const STATE_AT: usize = 0x3a;
const LAST_ORPHAN_AT: usize = 0xe8;

/// A file system over a copy-on-write overlay.
///
/// Its functions are parts of operations, as many as the kernel has steps within a journal handle: they take no lock
/// and wait for nobody, so that a model can put its own locks, and other CPUs, between them. The whole operations
/// (`create`, `unlink`, …) call one part after the other.
///
/// Counters and checksums of groups, inodes, directories and trees are right after every part. The superblock's counters
/// and the checksums of the orphan file are written by [`Volume::sync`], as the kernel leaves them to the commit.
#[derive(Debug)]
pub struct Volume<R> {
    pub(super) overlay: Arc<Overlay<R>>,
    reader: Filesystem<Arc<Overlay<R>>>,
    pub(super) groups: Vec<Group>,
    pub(super) free_blocks: AtomicI64,
    pub(super) free_inodes: AtomicI64,
    pub(super) directories: AtomicI64,
    superblock: Arc<Block>,
    superblock_at: usize,
    /// The inode before each one of the orphan list but the first, as far as it is known: the list on the disk only
    /// leads the other way.
    pub(super) newer_orphans: Mutex<BTreeMap<InodeNumber, InodeNumber>>,
    pub(super) orphan_file: Option<InodeNumber>,
    pub(super) orphan_blocks: Vec<OrphanBlock>,
    pub(super) generation: AtomicU32,
}

/// Features that change nothing about writing, or that are heeded.
const COMPAT_WRITTEN: u32 = Compat::DIR_PREALLOC.0
    | Compat::IMAGIC_INODES.0
    | Compat::HAS_JOURNAL.0
    | Compat::EXT_ATTR.0
    | Compat::RESIZE_INODE.0
    | Compat::DIR_INDEX.0
    | Compat::SPARSE_SUPER2.0
    | Compat::FAST_COMMIT.0
    | Compat::STABLE_INODES.0
    | Compat::ORPHAN_FILE.0;
const INCOMPAT_WRITTEN: u32 = Incompat::FILETYPE.0
    | Incompat::META_BG.0
    | Incompat::EXTENTS.0
    | Incompat::BIT64.0
    | Incompat::MMP.0
    | Incompat::FLEX_BG.0
    | Incompat::CSUM_SEED.0
    | Incompat::LARGEDIR.0;
const RO_COMPAT_WRITTEN: u32 = RoCompat::SPARSE_SUPER.0
    | RoCompat::LARGE_FILE.0
    | RoCompat::HUGE_FILE.0
    | RoCompat::GDT_CSUM.0
    | RoCompat::DIR_NLINK.0
    | RoCompat::EXTRA_ISIZE.0
    | RoCompat::METADATA_CSUM.0
    | RoCompat::ORPHAN_PRESENT.0;

/// An overlay over an image in which its journal, if there is something in it, has been replayed.
///
/// # Errors
/// [`WriteError::Journal`] where it cannot be replayed, and where the image cannot be opened or read.
pub fn replay_journal<R: ReadAt>(image: R) -> Result<Overlay<R>, WriteError> {
    let opened = Filesystem::open(&image)?.filesystem;
    let geometry = *opened.geometry();
    let dirty = opened.superblock().incompat().has(Incompat::RECOVER);
    // Where there is nothing to replay, only the journal's number moves on; one that cannot be read is left alone.
    let journal = match opened.journal() {
        Ok(journal) if dirty || journal.superblock.start == 0 => Some(journal),
        Err(why) if dirty => return Err(WriteError::Journal(why.to_string())),
        _ => None,
    };
    drop(opened);
    let Some(journal) = journal else {
        return Ok(Overlay::new(image, &geometry));
    };
    if dirty && !journal.fast_commits.is_empty() {
        return Err(WriteError::Journal(
            "it ends with fast commits, which are only listed here".to_owned(),
        ));
    }
    let replayed = Replayed::new(&image, &journal);
    let mut blocks = Vec::new();
    for number in replayed.written() {
        let mut bytes = vec![0; place(geometry.block_bytes)];
        replayed.read_at(geometry.offset_of(number), &mut bytes)?;
        blocks.push((number, bytes));
    }
    let overlay = Overlay::new(image, &geometry);
    for (number, bytes) in blocks {
        overlay.fresh(number).store(0, &bytes);
    }
    Ok(overlay)
}

/// All groups, from the blocks that their descriptors lie in.
fn read_groups<R: ReadAt>(
    overlay: &Overlay<R>,
    geometry: &Geometry,
    check: DescriptorCheck,
) -> Result<Vec<Group>, WriteError> {
    let mut groups = Vec::new();
    let mut last: Option<(BlockNumber, Vec<u8>)> = None;
    for group in (0..geometry.groups).map(GroupNumber) {
        let (number, at) = geometry.descriptor_of(group);
        let bytes = match &last {
            Some((block, bytes)) if *block == number => bytes,
            _ => &last.insert((number, overlay.get(number)?.to_vec())).1,
        };
        let from = place(at);
        let descriptor = bytes.get(from..from.saturating_add(place(geometry.descriptor_bytes)));
        groups.push(Group::new(&GroupDescriptor::decode(
            descriptor.unwrap_or_default(),
            check,
        )));
    }
    Ok(groups)
}

/// The first feature that is not written here, by name.
pub fn feature_not_written(superblock: &Superblock) -> Option<String> {
    let mut odd = *superblock;
    odd.s_feature_compat = superblock.compat().0 & !COMPAT_WRITTEN;
    odd.s_feature_incompat = superblock.incompat().0 & !INCOMPAT_WRITTEN;
    odd.s_feature_ro_compat = superblock.ro_compat().0 & !RO_COMPAT_WRITTEN;
    feature_names(&odd).into_iter().next()
}

impl<R: ReadAt> Volume<R> {
    /// Opens an image for changes, none of which ever reaches `image` itself.
    ///
    /// # Errors
    /// [`WriteError::Feature`] where it has a feature that is not written here, among them a journal that is to be
    /// replayed; or where it cannot be opened or read.
    pub fn open(image: R) -> Result<Self, WriteError> {
        let opened = Filesystem::open(&image)?.filesystem;
        if let Some(feature) = feature_not_written(opened.superblock()) {
            return Err(WriteError::Feature(feature));
        }
        let (geometry, superblock_offset) = (*opened.geometry(), opened.superblock_offset());
        if superblock_offset != SUPERBLOCK_AT {
            return Err(WriteError::Feature("a lost primary superblock".to_owned()));
        }
        drop(opened);
        Self::over(Arc::new(Overlay::new(image, &geometry)))
    }

    /// Opens an image as after a mount of it: its journal replayed and its orphans cleaned up, all of it in the overlay.
    ///
    /// # Errors
    /// As [`Volume::open`]; [`WriteError::Journal`] where the journal is not one that can be replayed.
    pub fn mount(image: R, now: Timestamp) -> Result<Self, WriteError> {
        let overlay = replay_journal(image)?;
        let volume = Self::over(Arc::new(overlay))?;
        volume.clean_up_orphans(now)?;
        Ok(volume)
    }

    /// Opens what an overlay holds by now.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn over(overlay: Arc<Overlay<R>>) -> Result<Self, WriteError> {
        let reader = Filesystem::open_at(overlay.clone(), SUPERBLOCK_AT)?.filesystem;
        if let Some(feature) = feature_not_written(reader.superblock()) {
            return Err(WriteError::Feature(feature));
        }
        let (geometry, superblock) = (*reader.geometry(), *reader.superblock());
        let table_bytes = u64::from(geometry.groups).saturating_mul(geometry.descriptor_bytes.into());
        if geometry.groups > GROUPS_MAX || table_bytes > overlay.size() {
            return Err(WriteError::Feature("more groups than there can be".to_owned()));
        }
        let groups = read_groups(&overlay, &geometry, DescriptorCheck::of(&superblock))?;
        let (number, at) = divide_wide(SUPERBLOCK_AT, geometry.block_bytes);
        let block = overlay.get(BlockNumber(number))?;
        let sum = |of: fn(&Group) -> u32| groups.iter().map(|group| i64::from(of(group))).sum::<i64>();
        let mut volume = Self {
            free_blocks: AtomicI64::new(sum(Group::free_blocks)),
            free_inodes: AtomicI64::new(sum(Group::free_inodes)),
            directories: AtomicI64::new(sum(Group::directories)),
            overlay,
            reader,
            groups,
            superblock: block,
            superblock_at: usize::try_from(at).unwrap_or(0),
            newer_orphans: Mutex::default(),
            orphan_file: None,
            orphan_blocks: Vec::new(),
            generation: AtomicU32::new(1),
        };
        // A file system that is just being made has the feature before it has the file.
        if superblock.compat().has(Compat::ORPHAN_FILE) && superblock.s_orphan_file_inum != 0 {
            volume.open_orphan_file(superblock.s_orphan_file_inum)?;
        }
        Ok(volume)
    }

    /// The overlay that the changes live in.
    pub fn overlay(&self) -> &Arc<Overlay<R>> {
        &self.overlay
    }

    /// A view of it for reading. Its superblock is that of the time of opening.
    pub fn reader(&self) -> &Filesystem<Arc<Overlay<R>>> {
        &self.reader
    }

    /// Where things are.
    pub fn geometry(&self) -> &Geometry {
        self.reader.geometry()
    }

    /// The superblock as it was at opening; what changes are counters, state and the orphan list.
    pub fn superblock(&self) -> &Superblock {
        self.reader.superblock()
    }

    pub(super) fn seed(&self) -> Option<Seed> {
        self.reader.seed()
    }

    pub(super) fn block_size(&self) -> usize {
        place(self.geometry().block_bytes)
    }

    /// Announces that a block is about to change, as taking write access to a buffer does.
    pub fn before_change(&self, block: &Arc<Block>) {
        self.overlay.before_change(block);
    }

    /// Changes bytes of a block; `at` and the length are multiples of 4.
    pub(super) fn store(&self, block: &Arc<Block>, at: usize, bytes: &[u8]) {
        self.overlay.before_change(block);
        block.store(at, bytes);
    }

    /// Free blocks, over all groups.
    pub fn free_blocks(&self) -> u64 {
        u64::try_from(self.free_blocks.load(Relaxed)).unwrap_or(0)
    }

    /// Free inodes, over all groups.
    pub fn free_inodes(&self) -> u64 {
        u64::try_from(self.free_inodes.load(Relaxed)).unwrap_or(0)
    }

    /// What [`Volume::allocate_inode`] gives the next inode as its generation, and those after it numbers derived from it.
    pub fn set_generation(&self, first: u32) {
        self.generation.store(first, Relaxed);
    }

    /// Writes the superblock's counters, and all checksums that are left to a commit.
    pub fn sync(&self) {
        self.seal_orphan_blocks();
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        self.superblock.load(self.superblock_at, &mut bytes);
        let before = bytes.clone();
        let free_blocks = self.free_blocks();
        let low = u32::try_from(free_blocks & 0xffff_ffff).unwrap_or(u32::MAX);
        low.put(&mut bytes, 0x0c);
        if self.superblock().incompat().has(Incompat::BIT64) {
            u32::try_from(free_blocks >> 32)
                .unwrap_or(0)
                .put(&mut bytes, 0x158);
        }
        u32::try_from(self.free_inodes())
            .unwrap_or(u32::MAX)
            .put(&mut bytes, 0x10);
        self.store_superblock(&before, &mut bytes);
    }

    /// Ends the running transaction: a crash from now on leaves what there is now. No handle may be open.
    pub fn commit(&self) {
        self.sync();
        self.overlay.commit();
    }

    fn store_superblock(&self, before: &[u8], bytes: &mut [u8]) {
        if self.superblock().ro_compat().has(RoCompat::METADATA_CSUM) {
            let covered = SUPERBLOCK_BYTES.saturating_sub(4);
            let sum = crc32c(u32::MAX, bytes.get(..covered).unwrap_or_default());
            sum.put(bytes, covered);
        }
        if before != bytes {
            self.store(&self.superblock, self.superblock_at, bytes);
        }
    }

    /// Changes the superblock's bytes, and seals it.
    pub(super) fn change_superblock(&self, change: impl FnOnce(&mut [u8])) {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        self.superblock.load(self.superblock_at, &mut bytes);
        let before = bytes.clone();
        change(&mut bytes);
        self.store_superblock(&before, &mut bytes);
    }

    fn superblock_word(&self, at: usize) -> u32 {
        let word = self.superblock.word(self.superblock_at.saturating_add(at));
        word.map_or(0, |word| word.load(Relaxed))
    }

    /// The newest inode of the orphan list.
    pub fn last_orphan(&self) -> Option<InodeNumber> {
        InodeNumber::new(self.superblock_word(LAST_ORPHAN_AT))
    }

    /// Sets the newest inode of the orphan list. The superblock's checksum is left to [`Volume::sync`].
    pub(super) fn set_last_orphan(&self, inode: Option<InodeNumber>) {
        self.overlay.before_change(&self.superblock);
        if let Some(word) = self
            .superblock
            .word(self.superblock_at.saturating_add(LAST_ORPHAN_AT))
        {
            word.store(inode.map_or(0, InodeNumber::get), Relaxed);
        }
    }

    /// Marks the file system as cleanly unmounted, or as in use.
    pub fn mark_clean(&self, clean: bool) {
        self.change_superblock(|bytes| {
            let state = u16::get(bytes, STATE_AT);
            let state = if clean { state | 1 } else { state & !1 };
            state.put(bytes, STATE_AT);
        });
        self.sync();
    }

    /// Says in the superblock whether the orphan file may hold entries, as mounting and unmounting do.
    pub fn mark_orphans_present(&self, present: bool) {
        if self.orphan_file.is_none() {
            return;
        }
        self.change_superblock(|bytes| {
            let features = u32::get(bytes, 0x64);
            let bit = RoCompat::ORPHAN_PRESENT.0;
            let features = if present { features | bit } else { features & !bit };
            features.put(bytes, 0x64);
        });
        self.sync();
    }

    /// Marks the moment of the last write in the superblock.
    pub fn set_write_time(&self, now: Timestamp) {
        let seconds = now.seconds.to_le_bytes();
        self.change_superblock(|bytes| {
            let low = u32::from_le_bytes([seconds[0], seconds[1], seconds[2], seconds[3]]);
            low.put(bytes, 0x30);
            seconds[4].put(bytes, 0x274);
        });
    }
}
