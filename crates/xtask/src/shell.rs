//! Running other programs, and saying so.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use crate::toolchain;

/// What goes wrong here is told to a person as a sentence.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// The root of the project.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// A command that runs in the root of the project, and finds what set-up installed.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    toolchain::apply(&mut command);
    command
}

/// Runs it; its output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .status()
        .map_err(|error| format!("`{shown}` does not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` failed ({status})"))
    }
}

/// Runs it; returns what it prints, trimmed. `None` where it does not start or fails.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = command(program, arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs it; returns what it prints while also showing it.
pub(crate) fn tee(command: &mut Command) -> Result<(bool, String)> {
    use std::io::{BufRead, BufReader, Write};
    let shown = show(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{shown}` does not start: {error}"))?;
    let mut text = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout)
            .split(b'\n')
            .map_while(std::result::Result::ok)
        {
            let line = String::from_utf8_lossy(&line);
            // A reader that has gone away is no reason to stop.
            let _ = writeln!(std::io::stdout(), "{line}");
            text.push_str(&line);
            text.push('\n');
        }
    }
    let status = child.wait().map_err(|error| format!("`{shown}`: {error}"))?;
    Ok((status.success(), text))
}

/// Does something, and says how long it took.
pub(crate) fn timed<T>(what: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("• {what} …");
    let begun = Instant::now();
    let result = act();
    let word = if result.is_ok() { "done" } else { "failed" };
    println!("  {word} after {:.1} s", begun.elapsed().as_secs_f64());
    result
}

fn show(command: &Command) -> String {
    let arguments = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(command.get_program().to_string_lossy().into_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
