//! A run's whole state: the overlay over the image, the inode cache, and who works on what.

use std::{collections::BTreeMap, fmt, sync::Arc};

use ext4::{
    Block, BlockNumber, Filesystem, InodeNumber, NewInode, Overlay, ReadAt, ReadFailure, Seed, SlotState,
    Snapshot, Timestamp, Volume, WriteError, container::Image,
};
use machine::{LockNames, Registry, SpinLock};

use crate::{
    CachedInode, Design, Reader, Scenario, cache::InodeCache, inode::state::DIRTY_TIME, place::plan,
};

/// Everything that the CPUs of a run share.
pub struct Lab {
    pub(crate) scenario: Scenario,
    pub(crate) volume: Volume<Image>,
    pub(crate) blocks_by_number: BTreeMap<BlockNumber, Arc<Block>>,
    pub(crate) cache: InodeCache,
    /// The static lock of [`Design::StaticTrylock`].
    pub(crate) static_lock: SpinLock<()>,
    /// Each job's file, as a place in the cache, by CPU.
    pub(crate) jobs: Vec<usize>,
    /// The files of the job that reads, as places in the cache.
    pub(crate) read_files: Vec<usize>,
    pub(crate) seed: Option<Seed>,
    pub(crate) slots_per_block: u32,
    pub(crate) started_at: i64,
    table_blocks: Vec<TableBlock>,
    names: LockNames,
    lines: u32,
}

/// A table block in play, as it was when the run was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableBlock {
    /// The group whose table it belongs to.
    pub group: u32,
    /// Its number.
    pub block: BlockNumber,
    /// The first inode in it.
    pub first_inode: InodeNumber,
    /// What its slots hold, claimed inodes included.
    pub slots: Vec<SlotState>,
}

/// Why a run cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareError {
    /// The number of CPUs is not one that can be had.
    Cpus(u16),
    /// The image has too few free inodes.
    TooFewFreeInodes {
        /// How many a run needs.
        wanted: u16,
        /// How many were found.
        found: u16,
    },
    /// A structure cannot be read.
    Read(ReadFailure),
    /// The file system cannot be written, or has no room for the files of the jobs.
    Write(WriteError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(cpus) => write!(
                f,
                "{cpus} CPUs were asked for; 1 to {} can be had",
                Scenario::CPUS_MAX
            ),
            Self::TooFewFreeInodes { wanted, found } => {
                write!(
                    f,
                    "the run needs {wanted} free inodes, but only {found} were found in this image"
                )
            }
            Self::Read(failure) => failure.fmt(f),
            Self::Write(error) => write!(f, "no run over this image: {error}"),
        }
    }
}

impl std::error::Error for PrepareError {}

impl From<ReadFailure> for PrepareError {
    fn from(failure: ReadFailure) -> Self {
        Self::Read(failure)
    }
}

impl From<WriteError> for PrepareError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

/// The directory in the root that the files of the jobs get.
const FOLDER: &str = "ext4lab";

impl Lab {
    /// Sets up a run over the image. `started_at` (seconds since 1970) is the modelled "now" for timestamps.
    ///
    /// # Errors
    /// [`PrepareError`] where the scenario makes no sense or the image cannot carry it.
    pub fn prepare<R>(
        filesystem: &Filesystem<R>,
        scenario: Scenario,
        started_at: i64,
    ) -> Result<Self, PrepareError>
    where
        R: ReadAt + Clone + Send + Sync + 'static,
    {
        if !(1..=Scenario::CPUS_MAX).contains(&scenario.cpus) {
            return Err(PrepareError::Cpus(scenario.cpus));
        }
        // A CPU that reads needs another one that writes.
        let reads = scenario.reader == Reader::Present && scenario.cpus > 1;
        let wanted = scenario.cpus - u16::from(reads);
        let now = Timestamp {
            seconds: started_at,
            nanoseconds: 0,
        };
        let image: Image = Arc::new(filesystem.image().clone());
        let volume = Volume::mount(image, now)?;
        let folder = make_folder(&volume, now)?;
        let plans = plan(volume.reader(), &scenario, usize::from(wanted), reads);
        let found: usize = plans.iter().map(|plan| plan.jobs.len()).sum();
        if found < usize::from(wanted) {
            return Err(PrepareError::TooFewFreeInodes {
                wanted,
                found: found as u16,
            });
        }
        let geometry = *volume.geometry();
        make_files(&volume, folder, &plans, now)?;
        let mut registry = Registry::new(scenario.cpus, scenario.cpus);
        let mut set = Setting::new(&volume);
        let mut slab = Vec::new();
        let (mut jobs, mut read_files) = (Vec::new(), Vec::new());
        for plan in &plans {
            for number in &plan.jobs {
                jobs.push(slab.len());
                slab.push(set.load(&mut registry, *number)?);
            }
            for number in plan.used.iter().chain(&plan.claimed) {
                read_files.push(slab.len());
                let inode = set.load(&mut registry, *number)?;
                if scenario.lazytime == crate::Lazytime::On {
                    // They were read before the run began.
                    inode.times.set_accessed(now);
                    inode.state.preset(DIRTY_TIME);
                }
                slab.push(inode);
            }
        }
        let cache = InodeCache::new(&mut registry, slab);
        let static_lock = SpinLock::new(&mut registry, "static neighbour lock", ());
        let table_blocks = set.table_blocks(&plans.iter().map(|plan| plan.jobs[0]).collect::<Vec<_>>())?;
        Ok(Self {
            scenario,
            blocks_by_number: set.blocks,
            cache,
            static_lock,
            jobs,
            read_files,
            seed: volume.reader().seed(),
            slots_per_block: geometry.slots_per_block(),
            started_at,
            table_blocks,
            names: registry.names().clone(),
            lines: registry.lines(),
            volume,
        })
    }

    /// What is run.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The names of its locks.
    pub fn lock_names(&self) -> &LockNames {
        &self.names
    }

    /// The same for an export of the trace.
    pub fn names(&self) -> LabNames {
        LabNames(self.names.clone())
    }

    /// The name of the class of lock that guards look-ups in the hash.
    pub fn hash_lock_class(&self) -> &'static str {
        match self.scenario.design {
            Design::BucketLock => "bucket lock",
            _ => "inode hash lock",
        }
    }

    /// The image with all changes of the run so far, as a commit at this moment would leave it.
    pub fn image(&self) -> &Arc<Overlay<Image>> {
        self.volume.sync();
        self.volume.overlay()
    }

    /// The image at a moment, as its own thing: what the run does later does not reach it.
    pub fn image_at(&self, moment: Moment) -> Snapshot<Image> {
        match moment {
            Moment::Now => self.image().snapshot(),
            Moment::Crash => self.volume.overlay().crash_image(),
        }
    }

    /// Bytes per block of the image.
    pub fn block_bytes(&self) -> u32 {
        self.volume.geometry().block_bytes
    }

    /// Cache lines of the model.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// Inode slots per table block.
    pub fn slots_per_block(&self) -> u32 {
        self.slots_per_block
    }

    /// The table blocks in play.
    pub fn table_blocks(&self) -> &[TableBlock] {
        &self.table_blocks
    }

    /// Inodes in the modelled cache.
    pub fn cached_inodes(&self) -> u32 {
        self.cache.inodes().len() as u32
    }

    /// The inode in the cache.
    pub fn cached(&self, number: InodeNumber) -> Option<&CachedInode> {
        self.cache.find_from_outside(number)
    }

    /// The CPU whose job's file this is.
    pub fn cpu_of(&self, number: InodeNumber) -> Option<u16> {
        let at = self
            .jobs
            .iter()
            .position(|at| self.cache.inodes()[*at].number == number)?;
        u16::try_from(at).ok()
    }

    /// A table block in play, as it is now.
    pub fn block(&self, number: BlockNumber) -> Option<&Block> {
        self.blocks_by_number.get(&number).map(|block| &**block)
    }
}

/// Which image of a run is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// As it is now, which has to be between operations.
    Now,
    /// As the last commit left it.
    Crash,
}

/// What the numbers of locks in a trace are called.
#[derive(Clone, Debug)]
pub struct LabNames(LockNames);

impl trace::export::Names for LabNames {
    fn lock(&self, lock: u32) -> String {
        let class = self.0.class_of_lock.get(lock as usize);
        let class = class.and_then(|class| self.0.classes.get(usize::from(*class)));
        match class {
            Some(class) => format!("{class} ({lock})"),
            None => format!("lock {lock}"),
        }
    }
}

/// Makes the directory for the files of the jobs, under a name that is free.
fn make_folder(volume: &Volume<Image>, now: Timestamp) -> Result<InodeNumber, WriteError> {
    let new = NewInode {
        mode: 0o040_755,
        uid: 0,
        gid: 0,
        now,
    };
    let mut name = FOLDER.to_owned();
    loop {
        match volume.create(InodeNumber::ROOT, name.as_bytes(), &new, None) {
            // At most as often as there are such names in the root, and until names are too long.
            Err(WriteError::Exists) => name.push('-'),
            made => return made,
        }
    }
}

/// Makes a file of every free inode that a run uses, and gives it a name.
fn make_files(
    volume: &Volume<Image>,
    folder: InodeNumber,
    plans: &[crate::place::BlockPlan],
    now: Timestamp,
) -> Result<(), WriteError> {
    let new = NewInode {
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        now,
    };
    let jobs = plans
        .iter()
        .flat_map(|plan| &plan.jobs)
        .map(|number| ("job", *number));
    let read = plans
        .iter()
        .flat_map(|plan| &plan.claimed)
        .map(|number| ("neighbour", *number));
    let mut directory = volume.inode(folder)?;
    for (index, (word, number)) in jobs.chain(read).enumerate() {
        if !volume.allocate_this_inode(number, false)? {
            return Err(WriteError::Corrupt(number, "it is free and is not"));
        }
        let mut inode = volume.new_inode(number, &new)?;
        let name = format!("{word}-{index}");
        volume.add_entry(&mut directory, name.as_bytes(), number, inode.file_type(), now)?;
        inode.raw.i_links_count = 1;
        volume.write_inode(&mut inode);
    }
    volume.write_inode(&mut directory);
    volume.commit();
    Ok(())
}

/// What [`Lab::prepare`] needs while it loads inodes.
struct Setting<'v> {
    volume: &'v Volume<Image>,
    blocks: BTreeMap<BlockNumber, Arc<Block>>,
}

impl<'v> Setting<'v> {
    fn new(volume: &'v Volume<Image>) -> Self {
        Self {
            volume,
            blocks: BTreeMap::new(),
        }
    }

    fn load(&mut self, registry: &mut Registry, number: InodeNumber) -> Result<CachedInode, WriteError> {
        let inode = self.volume.inode(number)?;
        let (block, offset) = inode.place();
        self.blocks.insert(block.number(), block.clone());
        let inode_bytes = self.volume.geometry().inode_bytes as usize;
        Ok(CachedInode::load(
            registry,
            number,
            block.clone(),
            offset,
            inode_bytes,
        ))
    }

    /// The blocks that these inodes lie in, with what they hold by now.
    fn table_blocks(&self, inodes: &[InodeNumber]) -> Result<Vec<TableBlock>, PrepareError> {
        let (filesystem, geometry) = (self.volume.reader(), self.volume.geometry());
        let mut blocks = Vec::new();
        for number in inodes {
            let location = filesystem.locate(*number)?;
            let first = location.index / geometry.slots_per_block();
            let begin = first * geometry.slots_per_block();
            blocks.push(TableBlock {
                group: location.group.0,
                block: location.block,
                first_inode: geometry
                    .inode_at(location.group, begin)
                    .ok_or(ReadFailure::OutOfRange)?,
                slots: filesystem.slots(location.group, first, 1),
            });
        }
        Ok(blocks)
    }
}
