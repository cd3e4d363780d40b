//! Set-up, build, serve, test, bench and samples: `cargo xtask help`.

mod bench;
mod build;
mod fuzz;
mod samples;
mod serve;
mod setup;
mod shell;
mod test;
mod toolchain;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  serve             set up, build, and serve the page; prints its address
  test              set up, then run every test
  setup             install what is missing
  build             build the page into dist/, and print what it weighs
  engine-threads    build the threaded engine (Trunk calls this)
  e2e [FILTER]      browser tests against the page in dist/
  bench             figures side by side, as ratios
  fuzz [SECONDS]    fuzz the reader, 60 seconds if nothing is said
  samples           make the sample images in assets/ anew
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["serve"] => setup::run().and_then(|()| serve::run()),
        ["test"] => test::run(),
        ["setup"] => setup::run(),
        ["build"] => setup::run().and_then(|()| build::page(build::Threads::IfPossible)),
        ["engine-threads"] => build::engine_threads_for_trunk(),
        ["e2e", rest @ ..] => test::browser(rest).map(drop),
        ["bench"] => bench::run(),
        ["fuzz"] => fuzz::run("60"),
        ["fuzz", seconds] => fuzz::run(seconds),
        ["samples"] => samples::run(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("there is no command {:?}\n\n{HELP}", words.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
