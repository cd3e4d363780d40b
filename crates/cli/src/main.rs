//! ext4lab on the command line. Never writes over an image; knows nothing of the page and its engines.

#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod bytes;
mod commands;
mod finding;
mod image;
mod inode;
mod moment;
mod progress;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser;
use commands::{
    blocks, cat, compare, completions, info, journal, ls, mkfs, orphans, profiles, reproduce, run, scan,
    stat, tree, xattr,
};

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Info(arguments) => info::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        Command::Tree(arguments) => tree::run(&arguments),
        Command::Blocks(arguments) => blocks::run(&arguments),
        Command::Xattr(arguments) => xattr::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Orphans(arguments) => orphans::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Mkfs(arguments) => mkfs::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Profiles(arguments) => profiles::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    answer::exit(done)
}
