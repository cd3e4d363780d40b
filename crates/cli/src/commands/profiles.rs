//! `ext4lab profiles`: the machines that runs can be simulated on.

use std::io::{self, Write};

use clap::Args;
use machine::{PROFILES, Profile};
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Format, Verdict},
    finding::FindingRow,
};

/// List the machines that runs can be simulated on, with every number of theirs
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Answer with one JSON object; docs/json.md says what is in it.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Profiles {
    profiles: &'static [Profile],
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let format = if arguments.json {
        Format::Json
    } else {
        Format::Text
    };
    answer::give(&Profiles { profiles: PROFILES }, format)
}

impl Answer for Profiles {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for profile in self.profiles {
            let Profile {
                name,
                title,
                source,
                topology,
                lines,
                scheduler,
                device,
                ..
            } = profile;
            writeln!(out, "{name}: {title}")?;
            writeln!(
                out,
                "  {} sockets of {} cores of {} threads; HZ {}; preemption {:?}",
                topology.sockets, topology.cores, topology.threads, scheduler.hz, scheduler.preemption
            )?;
            writeln!(
                out,
                "  a cache line from the same core {} ns, the same socket {} ns, another socket {} ns",
                lines.same_core.transfer_ns, lines.same_socket.transfer_ns, lines.other_socket.transfer_ns
            )?;
            writeln!(
                out,
                "  a switch {} ns; waking nearby {} ns, far away {} ns",
                scheduler.context_switch_ns, scheduler.wake_near_ns, scheduler.wake_far_ns
            )?;
            writeln!(
                out,
                "  device: {} ns, {} MB/s, depth {}, flush {} ns",
                device.latency_ns,
                device.bandwidth / 1_000_000,
                device.queue_depth,
                device.flush_ns
            )?;
            writeln!(out, "  {source}")?;
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &[]
    }
}
