//! A run in virtual time.

use std::rc::Rc;

use machine::{
    Profile, TaskId,
    virtual_time::{Progress, Tasks, Trace, Virtual, VirtualOptions},
};

use crate::Lab;

/// A lab whose tasks run in virtual time, as far as they are asked to.
pub struct Simulation {
    lab: Rc<Lab>,
    machine: Rc<Virtual>,
    tasks: Tasks,
}

impl Simulation {
    /// A run that has not begun.
    pub fn new(lab: Lab, trace: Trace) -> Self {
        let profile = *lab.scenario().profile.profile();
        Self::on(lab, profile, trace)
    }

    /// The same on a machine that is none of the profiles.
    pub fn on(lab: Lab, profile: Profile, trace: Trace) -> Self {
        let scenario = lab.scenario();
        let machine = Virtual::new(VirtualOptions {
            seed: scenario.seed,
            profile,
            cpus: scenario.cpus,
            tasks: scenario.cpus,
            lines: lab.lines(),
            trace,
        });
        let (tasks, lab) = (scenario.cpus, Rc::new(lab));
        let task = |number| -> Option<std::pin::Pin<Box<dyn Future<Output = ()>>>> {
            let (task, lab) = (machine.task(TaskId(number)), lab.clone());
            Some(Box::pin(async move { lab.run(&task).await }))
        };
        Self {
            tasks: (0..tasks).map(task).collect(),
            lab,
            machine,
        }
    }

    /// Goes on for at most `budget` resumptions of tasks.
    pub fn step(&mut self, budget: u64) -> Progress {
        self.machine.step(&mut self.tasks, budget)
    }

    /// The machine: its clock, events and counters.
    pub fn machine(&self) -> &Virtual {
        &self.machine
    }

    /// What it runs.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }
}
