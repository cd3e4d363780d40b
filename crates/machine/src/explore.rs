//! Every schedule of a few tasks, up to a number of preemptions: the back end that looks for faults.
//!
//! Each primitive is one indivisible step, as sequentially consistent atomics are, so that trying all orders of steps
//! misses nothing that real CPUs could do to code written over the primitives. Most faults need two or three
//! preemptions; switches at a step that waits are free. Time is the number of steps, and sleeps with a deadline may end
//! at any moment. loom does not fit here: it takes sequentially consistent accesses for weaker ones.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use trace::Kind;

use crate::{Class, CpuId, Draws, Nanoseconds, Profile, Stream, Task, TaskId, Word};

/// Steps after which a schedule is taken for one that never ends.
const STEPS_MAX: usize = 5_000;

/// The futures of one run.
pub type Futures = Vec<Pin<Box<dyn Future<Output = ()>>>>;

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Schedules.
    pub schedules: u64,
    /// Steps of all schedules.
    pub steps: u64,
}

/// How a task stands before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It can take a step.
    Ready,
    /// It has tried the same in vain before, and nothing has changed since the write of this number.
    Yielding(u64),
    /// It waits for a change; asked anew before each step.
    Waiting {
        asleep: bool,
    },
    Ended,
}

struct Shared {
    standing: RefCell<Vec<Standing>>,
    /// A waiting task is polled only to say whether it could go on.
    asking: Cell<bool>,
    could_go_on: Cell<bool>,
    steps: Cell<u64>,
    writes: Cell<u64>,
}

/// A task under exploration.
pub struct ExploreTask {
    shared: Rc<Shared>,
    id: TaskId,
    draws: Draws,
    profile: Profile,
    /// The word of the last step if that was an update in vain.
    in_vain: Cell<Option<*const Word>>,
}

/// One decision: which of how many options was taken.
#[derive(Clone, Copy, Debug)]
struct Decision {
    taken: usize,
    options: usize,
}

/// Runs the tasks that `model` makes under every schedule with at most `preemptions` switches away from a task that
/// could have gone on. `after` looks at the outcome of each.
///
/// Panics, and prints the order of tasks, where a task does, where none can go on, or where a schedule does not end.
pub fn explore<M>(
    tasks: u16,
    preemptions: u32,
    model: impl Fn() -> M,
    job: impl Fn(&Rc<M>, ExploreTask) -> Pin<Box<dyn Future<Output = ()>>>,
    after: impl Fn(&M),
) -> Explored {
    let mut explored = Explored::default();
    let mut decisions: Vec<Decision> = Vec::new();
    loop {
        let model = Rc::new(model());
        let shared = Rc::new(Shared {
            standing: RefCell::new(vec![Standing::Ready; usize::from(tasks)]),
            asking: Cell::new(false),
            could_go_on: Cell::new(false),
            steps: Cell::new(0),
            writes: Cell::new(0),
        });
        let task = |task| ExploreTask::new(shared.clone(), TaskId(task));
        let futures: Futures = (0..tasks).map(|number| job(&model, task(number))).collect();
        explored.steps += run(&shared, futures, &mut decisions, preemptions);
        explored.schedules += 1;
        after(&model);
        // The next schedule differs in the last decision that has another option left.
        while decisions
            .last()
            .is_some_and(|last| last.taken + 1 == last.options)
        {
            decisions.pop();
        }
        match decisions.last_mut() {
            Some(last) => last.taken += 1,
            None => return explored,
        }
    }
}

/// Prints the order of tasks if the run panics.
#[derive(Default)]
struct Order(Vec<usize>);

impl Drop for Order {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let order: Vec<String> = self.0.iter().take(300).map(usize::to_string).collect();
            #[expect(clippy::print_stderr, reason = "whoever looks for a fault needs the schedule")]
            {
                eprintln!("The tasks took their steps in this order: {}", order.join(" "));
            }
        }
    }
}

fn run(shared: &Shared, mut futures: Futures, decisions: &mut Vec<Decision>, preemptions: u32) -> u64 {
    let mut order = Order::default();
    let mut depth = 0;
    let mut left = preemptions;
    let mut current = None;
    loop {
        let (options, preempts) = options(shared, &mut futures, current, left);
        if options.is_empty() {
            let standing = shared.standing.borrow();
            assert!(
                standing.iter().all(|standing| *standing == Standing::Ended),
                "no task can go on: {standing:?}"
            );
            return shared.steps.get();
        }
        assert!(order.0.len() < STEPS_MAX, "the schedule does not end");
        let taken = if options.len() == 1 {
            0
        } else {
            if depth == decisions.len() {
                decisions.push(Decision {
                    taken: 0,
                    options: options.len(),
                });
            }
            depth += 1;
            decisions[depth - 1].taken
        };
        let task = options[taken];
        left -= u32::from(preempts && taken > 0);
        current = Some(task);
        order.0.push(task);
        shared.steps.set(shared.steps.get() + 1);
        if poll(&mut futures[task]).is_ready() {
            shared.standing.borrow_mut()[task] = Standing::Ended;
        }
    }
}

/// Who may take the next step, the one that took the last first; and whether any other choice is a preemption.
fn options(shared: &Shared, futures: &mut Futures, current: Option<usize>, left: u32) -> (Vec<usize>, bool) {
    let able: Vec<usize> = (0..futures.len())
        .filter(|task| {
            let standing = shared.standing.borrow()[*task];
            match standing {
                Standing::Ready => true,
                Standing::Yielding(writes) => writes != shared.writes.get(),
                Standing::Ended => false,
                Standing::Waiting { .. } => {
                    shared.asking.set(true);
                    shared.could_go_on.set(false);
                    let _ = poll(&mut futures[*task]);
                    shared.asking.set(false);
                    shared.could_go_on.get()
                }
            }
        })
        .collect();
    match current.filter(|current| able.contains(current)) {
        Some(current) if left == 0 => (vec![current], true),
        Some(current) => {
            let others = able.into_iter().filter(|task| *task != current);
            (std::iter::once(current).chain(others).collect(), true)
        }
        None if able.is_empty() => {
            // Nobody else is able: who yielded goes on, in vain or not.
            let standing = shared.standing.borrow();
            let yielding = (0..futures.len()).filter(|task| matches!(standing[*task], Standing::Yielding(_)));
            (yielding.collect(), false)
        }
        None => (able, false),
    }
}

fn poll(future: &mut Pin<Box<dyn Future<Output = ()>>>) -> Poll<()> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

impl ExploreTask {
    fn new(shared: Rc<Shared>, id: TaskId) -> Self {
        Self {
            shared,
            id,
            draws: Draws::new(1, id.0),
            profile: Profile::default(),
            in_vain: Cell::new(None),
        }
    }

    fn stand(&self, standing: Standing) {
        self.shared.standing.borrow_mut()[usize::from(self.id.0)] = standing;
    }

    /// Lets others go between the last step and the next.
    async fn step(&self) {
        self.in_vain.set(None);
        self.give_way(Standing::Ready).await;
    }

    fn written(&self) {
        self.shared.writes.set(self.shared.writes.get() + 1);
    }

    async fn give_way(&self, standing: Standing) {
        let mut given = false;
        poll_fn(|_| {
            if given {
                return Poll::Ready(());
            }
            given = true;
            self.stand(standing);
            Poll::Pending
        })
        .await;
    }

    /// Waits until `over`.
    async fn wait(&self, asleep: bool, over: impl Fn() -> bool) {
        let mut begun = false;
        poll_fn(|_| {
            if !begun {
                begun = true;
                self.stand(Standing::Waiting { asleep });
                return Poll::Pending;
            }
            if self.shared.asking.get() {
                self.shared.could_go_on.set(over());
                return Poll::Pending;
            }
            self.stand(Standing::Ready);
            Poll::Ready(())
        })
        .await;
    }
}

impl Task for ExploreTask {
    fn id(&self) -> TaskId {
        self.id
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.id.0)
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds(self.shared.steps.get())
    }

    fn stamp(&self) -> Nanoseconds {
        self.now()
    }

    fn random(&self, stream: Stream) -> u64 {
        self.draws.next(stream)
    }

    fn emit(&self, _: Kind, _: u32, _: u64) {}

    fn stopping(&self) -> bool {
        false
    }

    fn is_running(&self, task: TaskId) -> bool {
        let standing = self.shared.standing.borrow()[usize::from(task.0)];
        !matches!(standing, Standing::Ended | Standing::Waiting { asleep: true })
    }

    fn set_class(&self, _: Class) {}

    fn preempt_disable(&self) {}

    fn preempt_enable(&self) {}

    fn need_resched(&self) -> bool {
        false
    }

    fn interrupts_off(&self) {}

    fn interrupts_on(&self) {}

    async fn cond_resched(&self) {}

    async fn might_sleep(&self) {}

    async fn work_for(&self, _: Nanoseconds) {
        self.step().await;
    }

    async fn load(&self, word: &Word) -> u32 {
        self.step().await;
        word.peek()
    }

    async fn store(&self, word: &Word, value: u32) {
        self.step().await;
        self.written();
        word.preset(value);
    }

    async fn update(&self, word: &Word, change: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        let again = self.in_vain.take() == Some(std::ptr::from_ref(word));
        self.give_way(match again {
            true => Standing::Yielding(self.shared.writes.get()),
            false => Standing::Ready,
        })
        .await;
        let result = word.change(change);
        match result {
            Ok(_) => self.written(),
            Err(_) => self.in_vain.set(Some(std::ptr::from_ref(word))),
        }
        result
    }

    async fn spin_while(&self, word: &Word, seen: u32) -> u32 {
        self.wait(false, || word.peek() != seen).await;
        word.peek()
    }

    async fn spin_while_running(&self, word: &Word, seen: u32, owner: TaskId) -> u32 {
        self.wait(false, || word.peek() != seen || !self.is_running(owner))
            .await;
        word.peek()
    }

    async fn sleep_while(&self, word: &Word, seen: u32, deadline: Option<Nanoseconds>) -> u32 {
        self.wait(true, || word.peek() != seen || deadline.is_some())
            .await;
        word.peek()
    }

    async fn sleep_until(&self, _: Nanoseconds) {
        self.step().await;
    }
}
