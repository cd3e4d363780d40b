//! A block device: latency, bandwidth, queue depth, flush.

use std::sync::Mutex;

use trace::Kind;

use crate::{DeviceSpec, LineId, Nanoseconds, Registry, Task, Word};

/// A block device. Requests go side by side up to its depth, and share its bandwidth.
#[derive(Debug)]
pub struct Device {
    spec: DeviceSpec,
    /// The line that submissions of all CPUs write.
    doorbell: Word,
    /// Never held across an await.
    busy: Mutex<Busy>,
}

#[derive(Debug)]
struct Busy {
    /// When each place in the queue is free.
    places_ns: Box<[u64]>,
    /// When the last byte so far has gone.
    bytes_ns: u64,
    /// When the last request so far is complete.
    all_ns: u64,
}

/// A request on its way.
#[must_use = "wait for it with `complete(task).await`, or let it go with `detach`"]
#[derive(Debug)]
pub struct Request {
    bytes: u64,
    done: Nanoseconds,
}

impl Device {
    /// An idle device.
    pub fn new(registry: &mut Registry, spec: DeviceSpec) -> Self {
        let line: LineId = registry.line();
        let places = usize::from(spec.queue_depth.max(1));
        Self {
            spec,
            doorbell: Word::new(0, line),
            busy: Mutex::new(Busy {
                places_ns: vec![0; places].into(),
                bytes_ns: 0,
                all_ns: 0,
            }),
        }
    }

    /// Submits a request of `bytes`.
    pub async fn submit<K: Task>(&self, task: &K, bytes: u64) -> Request {
        let _ = task
            .update(&self.doorbell, |rung| Some(rung.wrapping_add(1)))
            .await;
        task.emit(Kind::RequestSubmitted, 0, bytes);
        let transfer_ns = bytes.saturating_mul(1_000_000_000) / self.spec.bandwidth.max(1);
        let mut busy = self.busy.lock().expect("nobody panics while holding it");
        let busy = &mut *busy;
        let place = busy
            .places_ns
            .iter_mut()
            .min()
            .expect("a device has at least one place");
        let begun_ns = task.now().0.max(*place);
        let done_ns = (begun_ns + self.spec.latency_ns).max(busy.bytes_ns) + transfer_ns;
        (*place, busy.bytes_ns) = (done_ns, done_ns);
        busy.all_ns = busy.all_ns.max(done_ns);
        Request {
            bytes,
            done: Nanoseconds(done_ns),
        }
    }

    /// Waits, asleep, until everything submitted so far is on stable storage.
    pub async fn flush<K: Task>(&self, task: &K) {
        let all_ns = self.busy.lock().expect("nobody panics while holding it").all_ns;
        let done_ns = all_ns.max(task.now().0) + self.spec.flush_ns;
        task.sleep_until(Nanoseconds(done_ns)).await;
        task.emit(Kind::Flushed, 0, self.spec.flush_ns);
    }
}

impl Request {
    /// When it will be complete.
    pub fn done(&self) -> Nanoseconds {
        self.done
    }

    /// Waits for it, asleep.
    pub async fn complete<K: Task>(self, task: &K) {
        task.sleep_until(self.done).await;
        task.emit(Kind::RequestCompleted, 0, self.bytes);
    }

    /// Nobody waits for it.
    pub fn detach(self) {}
}
