//! `ext4lazyinit`: a thread that zeroes inode tables, a group at a time, and rests in between.
//!
//! Not modelled: bitmaps that it reads ahead since 5.13, and a file system that is frozen or remounted meanwhile.

use std::rc::Rc;

use ext4::{GroupNumber, ReadAt, Volume};
use machine::{
    Device, Profile, Registry, Stream, Task, TaskId, expiry, jiffies,
    virtual_time::{Progress, Trace, Virtual, VirtualOptions},
};
use trace::Kind;

/// How the thread measures how long it has to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Linux 2.6.37 to 5.15: in jiffies, so that a turn shorter than a tick counts as nothing.
    Jiffies,
    /// Xu, Linux 5.16: in nanoseconds.
    Ktime,
}

impl Pacing {
    /// Both, the older first.
    pub const ALL: [Self; 2] = [Self::Jiffies, Self::Ktime];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jiffies => "jiffies",
            Self::Ktime => "ktime",
        }
    }
}

/// The mount option `init_itable`'s usual number: the thread rests this many times as long as a turn took.
pub const USUAL_MULTIPLIER: u32 = 10;
/// Seconds within which the first turn begins, at random (`EXT4_DEF_LI_MAX_START_DELAY`).
const START_DELAY_S: u64 = 5;

/// What the thread came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyInitOutcome {
    /// From the mount to its end, in ns.
    pub elapsed_ns: u64,
    /// Groups that it zeroed.
    pub groups: u64,
    /// The rest that it kept to from some turn on, in ticks.
    pub latched_ticks: u64,
}

/// A file system whose tables are to be zeroed.
struct Request<'v, R> {
    volume: &'v Volume<R>,
    device: Device,
    next_group: u32,
    next_sched: u64,
    /// Ticks of rest; 0 while none has been measured.
    timeout: u64,
    zeroed: u64,
}

/// Runs the thread over file systems that were just mounted, each on a device of its own, until none is left.
///
/// # Panics
/// If a group is changed by somebody else meanwhile.
pub fn lazyinit<R: ReadAt + 'static>(
    volumes: Vec<Volume<R>>,
    profile: &Profile,
    pacing: Pacing,
    multiplier: u32,
    seed: u64,
) -> Vec<LazyInitOutcome> {
    let mut registry = Registry::new(1, 1);
    let devices: Vec<Device> = volumes
        .iter()
        .map(|_| Device::new(&mut registry, profile.device))
        .collect();
    let machine = Virtual::new(VirtualOptions {
        seed,
        profile: *profile,
        cpus: 1,
        tasks: 1,
        lines: registry.lines(),
        trace: Trace::Off,
    });
    let outcomes = Rc::new(std::cell::RefCell::new(Vec::new()));
    let (task, told) = (machine.task(TaskId(0)), outcomes.clone());
    let thread = async move {
        let requests: Vec<Request<'_, R>> = volumes
            .iter()
            .zip(devices)
            .map(|(volume, device)| Request {
                volume,
                device,
                next_group: 0,
                next_sched: task.random(Stream::Choice)
                    % (START_DELAY_S * u64::from(task.profile().scheduler.hz)),
                timeout: 0,
                zeroed: 0,
            })
            .collect();
        *told.borrow_mut() = thread(&task, requests, pacing, multiplier).await;
    };
    let mut tasks: machine::virtual_time::Tasks = vec![Some(Box::pin(thread) as _)];
    while machine.step(&mut tasks, u64::MAX) == Progress::More {}
    outcomes.take()
}

/// `ext4_lazyinit_thread`.
async fn thread<K: Task, R: ReadAt>(
    task: &K,
    mut requests: Vec<Request<'_, R>>,
    pacing: Pacing,
    multiplier: u32,
) -> Vec<LazyInitOutcome> {
    let mut outcomes = Vec::new();
    while !requests.is_empty() {
        let mut next = u64::MAX;
        let mut at = 0;
        while let Some(request) = requests.get_mut(at) {
            let now = jiffies(task.profile(), task.now());
            if now < request.next_sched || request.run(task, pacing, multiplier).await {
                next = next.min(request.next_sched);
                at += 1;
            } else {
                outcomes.push(LazyInitOutcome {
                    elapsed_ns: task.now().0,
                    groups: request.zeroed,
                    latched_ticks: request.timeout,
                });
                requests.remove(at);
            }
        }
        let now = jiffies(task.profile(), task.now());
        if next > now && next < u64::MAX {
            task.sleep_until(expiry(task.profile(), task.now(), next - now))
                .await;
        }
    }
    outcomes
}

impl<R: ReadAt> Request<'_, R> {
    /// `ext4_run_li_request`: one turn; whether there was a group left.
    async fn run<K: Task>(&mut self, task: &K, pacing: Pacing, multiplier: u32) -> bool {
        let groups = self.volume.geometry().groups;
        let left = |group: &u32| self.volume.table_is_zeroed(GroupNumber(*group)) == Ok(false);
        let Some(group) = (self.next_group..groups).find(left) else {
            return false;
        };
        let begun = task.now();
        // What lies on the disk is written by the device; the descriptor says so when it has.
        let blocks = self.volume.unused_table_blocks(GroupNumber(group));
        let bytes = u64::from(blocks) * u64::from(self.volume.geometry().block_bytes);
        self.device.submit(task, bytes).await.complete(task).await;
        if self.timeout == 0 {
            self.device.flush(task).await;
        }
        let zeroed = self.volume.zero_inode_table(GroupNumber(group));
        zeroed.expect("nobody else changes the group");
        self.zeroed += 1;
        task.emit(Kind::GroupZeroed, group, u64::from(blocks));
        if self.timeout == 0 {
            let profile = task.profile();
            self.timeout = match pacing {
                Pacing::Jiffies => {
                    (jiffies(profile, task.now()) - jiffies(profile, begun)) * u64::from(multiplier)
                }
                Pacing::Ktime => (task.now() - begun).0 * u64::from(multiplier) / profile.tick_ns(),
            };
        }
        self.next_sched = jiffies(task.profile(), task.now()) + self.timeout;
        self.next_group = group + 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use ext4::{NewFilesystem, Timestamp};

    use super::*;

    /// Zeroes a file system of this many groups on a device that takes this long for a group; the outcome.
    fn zero(groups: u64, hz: u32, zeroing_ns: u64, pacing: Pacing, multiplier: u32) -> LazyInitOutcome {
        let now = Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        };
        let new = NewFilesystem::ext4(groups * (128 << 20), [7; 16], now);
        let volume = new.make().expect("the size makes sense");
        let mut profile = Profile::default();
        profile.scheduler.hz = hz;
        profile.scheduler.wake_near_ns = 0;
        profile.scheduler.wake_far_ns = 0;
        profile.device.latency_ns = zeroing_ns;
        profile.device.bandwidth = u64::MAX;
        profile.device.flush_ns = 0;
        let outcomes = lazyinit(vec![volume], &profile, pacing, multiplier, 3);
        outcomes[0]
    }

    /// `kernel.md` 4.6: T = groups × tick × (w + 1), the random start left out.
    #[test]
    fn the_thread_takes_as_long_as_the_formula_says() {
        for (hz, pacing, ticks) in [
            (100, Pacing::Jiffies, 10),
            (250, Pacing::Jiffies, 10),
            (100, Pacing::Ktime, 3),
            (250, Pacing::Ktime, 8),
        ] {
            let outcome = zero(400, hz, 3_300_000, pacing, USUAL_MULTIPLIER);
            assert_eq!(
                (outcome.groups, outcome.latched_ticks),
                (400, ticks),
                "{hz} {pacing:?}"
            );
            let wanted_s = 400.0 * f64::from(ticks as u32 + 1) / f64::from(hz);
            let found_s = outcome.elapsed_ns as f64 / 1e9;
            assert!(
                found_s > wanted_s * 0.98 && found_s < wanted_s * 1.01 + 5.0,
                "{hz} {pacing:?}: {found_s} s, not {wanted_s}"
            );
        }
    }

    /// A first turn that crosses two ticks is kept to for good: about 21/11 times as long.
    #[test]
    fn a_slow_first_turn_is_latched() {
        let outcome = zero(100, 250, 9_000_000, Pacing::Jiffies, USUAL_MULTIPLIER);
        assert_eq!(outcome.latched_ticks, 20);
    }

    /// Turns so short that the rest rounds to nothing: no rest at all.
    #[test]
    fn without_a_rest_the_thread_goes_on_at_once() {
        let outcome = zero(100, 100, 900_000, Pacing::Ktime, USUAL_MULTIPLIER);
        assert_eq!(outcome.latched_ticks, 0);
        assert!(outcome.elapsed_ns < 5_000_000_000 + 100 * 1_000_000);
    }
}
