//! Delayed-allocation writeback under a periodic real-time wake-up: a `dd` of a big file beside `cyclictest`.
//!
//! What is counted is done: blocks are taken from the volume, 2048 at most at a time, as mballoc gives them. Not modelled:
//! the page cache as such, the journal, and what the rest of that kernel did with preemption off; the last is one task
//! with sections of random length.

use std::{cell::RefCell, rc::Rc};

use ext4::{InodeNumber, NewInode, ReadAt, Timestamp, Volume, WriteError};
use machine::{
    Class, Device, Nanoseconds, Profile, Registry, Request, Stream, Task, TaskId,
    virtual_time::{Progress, Tasks, Trace, Virtual, VirtualOptions},
};

/// How dirty pages with delayed blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writeback {
    /// Up to 2.6.34: all contiguous dirty pages are gathered; those beyond what was mapped are made dirty again, one after
    /// the other.
    PerPage,
    /// Schmidt, March 2010, not merged: the same, with a place to reschedule in the loop.
    PerPageResched,
    /// 2.6.35: no more pages are gathered than can be mapped.
    Capped,
    /// Ts'o's proposal of March 2010, 2.6.37: one request for each mapped extent.
    BioPerExtent,
    /// Kara, 3.11: no more pages than can be mapped, in batches, and one request.
    Batched,
}

impl Writeback {
    /// All designs, oldest first.
    pub const ALL: [Self; 5] = [
        Self::PerPage,
        Self::PerPageResched,
        Self::Capped,
        Self::BioPerExtent,
        Self::Batched,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerPage => "per-page",
            Self::PerPageResched => "per-page-resched",
            Self::Capped => "capped",
            Self::BioPerExtent => "bio-per-extent",
            Self::Batched => "batched",
        }
    }
}

/// What a page costs, and what else keeps the CPU; of a 2 GHz laptop of 2010.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritebackCosts {
    /// Making a page dirty again that was gathered but not mapped, ns. **Fitted** to the greatest latency of per-page.
    pub redirty_ns: u64,
    /// The longest section of the rest of the kernel with preemption off, ns. **Fitted** to the greatest latency of
    /// per-page-resched.
    pub section_ns: u64,
    /// Milliseconds between such sections, on average. **Fitted** to the average latency of per-page-resched.
    pub section_every_ms: u64,
    /// A turn of `cyclictest`: timer, system calls, and its own work, the switch of tasks not counted, ns. **Fitted** to
    /// the two least latencies.
    pub turn_ns: u64,
    /// Copying into a page and making it dirty, ns.
    pub dirty_ns: u64,
    /// Looking up and locking a page, ns.
    pub gather_ns: u64,
    /// Writing a page by itself, ns; there are places to sleep in it.
    pub write_ns: u64,
    /// Adding a page to a request, ns.
    pub add_ns: u64,
    /// Finding and taking blocks for an extent, ns.
    pub map_ns: u64,
}

impl Default for WritebackCosts {
    fn default() -> Self {
        Self {
            redirty_ns: 2290,
            section_ns: 12_600_000,
            section_every_ms: 330,
            turn_ns: 10_500,
            dirty_ns: 2000,
            gather_ns: 200,
            write_ns: 2000,
            add_ns: 100,
            map_ns: 50_000,
        }
    }
}

/// Which samples a wake-up that comes late gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// `cyclictest` of 2010: every period has its sample; those that were missed come at once.
    EveryPeriod,
    /// Later ones: missed periods are left out.
    SkipMissed,
}

/// What `cyclictest` prints, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latencies {
    /// The least.
    pub least_us: f64,
    /// The average.
    pub average_us: f64,
    /// The greatest.
    pub greatest_us: f64,
}

/// `cyclictest -i5000`.
const PERIOD_NS: u64 = 5_000_000;
/// Pages of a file that are dirty at once: 128 MiB.
const DIRTY_PAGES: u32 = 32_768;
/// Blocks that are mapped at once at most.
const MAPPED_MAX: u32 = 2048;
/// Pages that are looked up at once.
const BATCH: u32 = 14;
const PAGE: u64 = 4096;

/// Writes a big file over and over while a real-time task wakes up so often; what that one sees.
///
/// # Errors
/// Where the volume has no room for the file.
pub fn cyclictest<R: ReadAt + 'static>(
    volume: Volume<R>,
    profile: &Profile,
    costs: WritebackCosts,
    design: Writeback,
    counting: Counting,
    samples: u64,
    seed: u64,
) -> Result<Latencies, WriteError> {
    let now = Timestamp {
        seconds: 1_267_000_000,
        nanoseconds: 0,
    };
    let new = NewInode {
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        now,
    };
    let file = volume.create(InodeNumber::ROOT, b"dummy", &new, None)?;
    let mut registry = Registry::new(1, 3);
    let device = Device::new(&mut registry, profile.device);
    let machine = Virtual::new(VirtualOptions {
        seed,
        profile: *profile,
        cpus: 1,
        tasks: 3,
        lines: registry.lines(),
        trace: Trace::Off,
    });
    let (writing, waking, resting) = (
        machine.task(TaskId(0)),
        machine.task(TaskId(1)),
        machine.task(TaskId(2)),
    );
    let (seen, failed) = (
        Rc::new(RefCell::new(Latencies::default())),
        Rc::new(RefCell::new(None)),
    );
    let (told, why, ender) = (seen.clone(), failed.clone(), machine.clone());
    let writer = async move {
        let mut writer = Writer {
            task: &writing,
            volume: &volume,
            file,
            device: &device,
            costs,
            design,
            under_way: None,
        };
        while !writing.stopping() {
            if let Err(error) = writer.write_again(now).await {
                *why.borrow_mut() = Some(error);
                break;
            }
        }
    };
    let waker = async move {
        *told.borrow_mut() = wake_up(&waking, costs, counting, samples).await;
        ender.stop();
    };
    let rest = async move { sections(&resting, costs).await };
    let mut tasks: Tasks = vec![
        Some(Box::pin(writer) as _),
        Some(Box::pin(waker) as _),
        Some(Box::pin(rest) as _),
    ];
    while machine.step(&mut tasks, u64::MAX) == Progress::More {}
    if let Some(error) = failed.take() {
        return Err(error);
    }
    Ok(seen.take())
}

/// `cyclictest`: wakes up every period at the highest priority, and looks how late it is.
async fn wake_up<K: Task>(task: &K, costs: WritebackCosts, counting: Counting, samples: u64) -> Latencies {
    task.set_class(Class::RealTime);
    let (mut least, mut sum, mut greatest) = (u64::MAX, 0u64, 0u64);
    let mut target = task.now().0 + PERIOD_NS;
    for _ in 0..samples {
        if task.now().0 < target {
            task.sleep_until(Nanoseconds(target)).await;
        }
        task.work_for(Nanoseconds(costs.turn_ns)).await;
        let late = task.now().0 - target;
        least = least.min(late);
        greatest = greatest.max(late);
        sum += late;
        target += PERIOD_NS;
        if counting == Counting::SkipMissed && task.now().0 > target {
            target += (task.now().0 - target).div_ceil(PERIOD_NS) * PERIOD_NS;
        }
    }
    let microseconds = |ns: u64| ns as f64 / 1e3;
    Latencies {
        least_us: microseconds(least),
        average_us: microseconds(sum) / samples.max(1) as f64,
        greatest_us: microseconds(greatest),
    }
}

/// The rest of the kernel, as far as it keeps others from the CPU.
async fn sections<K: Task>(task: &K, costs: WritebackCosts) {
    while !task.stopping() {
        let pause_ns = task.random(Stream::Size) % (2_000_000 * costs.section_every_ms).max(1);
        task.sleep_until(Nanoseconds(task.now().0 + pause_ns)).await;
        // Many short ones and few long ones: the cube of a uniform number, so that the mean is a quarter of the longest.
        let uniform = u128::from(task.random(Stream::Choice) >> 44);
        let length = (u128::from(costs.section_ns) * uniform * uniform * uniform) >> 60;
        task.preempt_disable();
        task.work_for(Nanoseconds(length as u64)).await;
        task.preempt_enable();
        task.cond_resched().await;
    }
}

/// `dd` and the flusher behind it.
struct Writer<'w, K, R> {
    task: &'w K,
    volume: &'w Volume<R>,
    file: InodeNumber,
    device: &'w Device,
    costs: WritebackCosts,
    design: Writeback,
    /// The request before: the device has one more while it is waited for.
    under_way: Option<Request>,
}

impl<K: Task, R: ReadAt> Writer<'_, K, R> {
    async fn work(&self, ns: u64) {
        self.task.work_for(Nanoseconds(ns)).await;
    }

    /// `dd` makes the file anew: its blocks are given back, its pages get dirty, and are written.
    async fn write_again(&mut self, now: Timestamp) -> Result<(), WriteError> {
        self.volume.set_file_size(self.file, 0, now)?;
        for _ in 0..DIRTY_PAGES {
            self.work(self.costs.dirty_ns).await;
            self.task.cond_resched().await;
        }
        let mut next = 0;
        while next < DIRTY_PAGES && !self.task.stopping() {
            next = self.write_extent(next).await?;
        }
        Ok(())
    }

    /// One turn of the loop: pages are gathered, mapped and written; the first page that is left.
    async fn write_extent(&mut self, first: u32) -> Result<u32, WriteError> {
        let left = DIRTY_PAGES - first;
        let gathered = match self.design {
            Writeback::PerPage | Writeback::PerPageResched | Writeback::BioPerExtent => left,
            Writeback::Capped | Writeback::Batched => left.min(MAPPED_MAX),
        };
        for page in 0..gathered {
            self.work(self.costs.gather_ns).await;
            if page % BATCH == BATCH - 1 {
                self.task.cond_resched().await;
            }
        }
        let mut done = 0;
        loop {
            let mapped = self.map(first + done, gathered - done).await?;
            self.write(mapped).await;
            let request = self.device.submit(self.task, u64::from(mapped) * PAGE).await;
            self.make_dirty_again(gathered - done - mapped).await;
            if let Some(before) = self.under_way.replace(request) {
                before.complete(self.task).await;
            }
            done += mapped;
            // Only one request for each extent goes on with what was gathered.
            if self.design != Writeback::BioPerExtent || done >= gathered || self.task.stopping() {
                return Ok(first + done);
            }
        }
    }

    /// Takes blocks for at most so many pages; for how many.
    async fn map(&self, first: u32, pages: u32) -> Result<u32, WriteError> {
        self.work(self.costs.map_ns).await;
        let mut inode = self.volume.inode(self.file)?;
        let run = self
            .volume
            .allocate_run(&mut inode, first, pages.min(MAPPED_MAX))?;
        inode.set_size(run.end() * PAGE);
        self.volume.write_inode(&mut inode);
        Ok(run.blocks)
    }

    /// The pages that are mapped go into a request.
    async fn write(&self, mapped: u32) {
        match self.design {
            Writeback::PerPage | Writeback::PerPageResched | Writeback::Capped => {
                for _ in 0..mapped {
                    self.work(self.costs.write_ns).await;
                    self.task.might_sleep().await;
                }
            }
            Writeback::BioPerExtent | Writeback::Batched => {
                for _ in 0..mapped {
                    self.work(self.costs.add_ns).await;
                }
                self.task.might_sleep().await;
            }
        }
    }

    /// The pages that were gathered but not mapped are made dirty again, where the design does that.
    async fn make_dirty_again(&self, beyond: u32) {
        let pages = match self.design {
            Writeback::PerPage | Writeback::PerPageResched => beyond,
            Writeback::Capped | Writeback::BioPerExtent | Writeback::Batched => 0,
        };
        for _ in 0..pages {
            self.work(self.costs.redirty_ns).await;
            if self.design == Writeback::PerPageResched {
                self.task.cond_resched().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ext4::NewFilesystem;

    use super::*;

    fn run(design: Writeback, counting: Counting, samples: u64) -> Latencies {
        let now = Timestamp {
            seconds: 1_267_000_000,
            nanoseconds: 0,
        };
        let volume = NewFilesystem::ext4(1 << 30, [7; 16], now)
            .make()
            .expect("the size makes sense");
        let profile = Profile::named("laptop-2ghz").expect("it is there");
        cyclictest(
            volume,
            profile,
            WritebackCosts::default(),
            design,
            counting,
            samples,
            1,
        )
        .expect("there is room")
    }

    /// 30,720 pages are made dirty again in one go, and only the first design cannot be interrupted in it.
    #[test]
    fn what_is_made_dirty_again_keeps_the_cpu_only_without_a_place_to_reschedule() {
        let window_us = 30_720.0 * 2.29;
        let samples = 2000;
        let per_page = run(Writeback::PerPage, Counting::EveryPeriod, samples);
        assert!(
            (per_page.greatest_us / window_us - 1.0).abs() < 0.1,
            "{per_page:?}"
        );
        for design in [
            Writeback::PerPageResched,
            Writeback::Capped,
            Writeback::BioPerExtent,
            Writeback::Batched,
        ] {
            let other = run(design, Counting::EveryPeriod, samples);
            assert!(other.greatest_us < 12_700.0, "{design:?}: {other:?}");
            assert!(
                other.average_us < per_page.average_us / 20.0,
                "{design:?}: {other:?}"
            );
        }
        // Whoever leaves missed periods out has one sample for a window, not fourteen.
        let skipping = run(Writeback::PerPage, Counting::SkipMissed, samples);
        assert!(skipping.average_us < per_page.average_us, "{skipping:?}");
    }
}
