//! `ext4lab completions`: what shells complete command lines with.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::answer::{Failure, Verdict, output};

/// Print completions for a shell
///
/// The output goes where the shell looks for completions, for example:
///
///   ext4lab completions bash > ~/.local/share/bash-completion/completions/ext4lab
///   ext4lab completions zsh  > ~/.zfunc/_ext4lab
///   ext4lab completions fish > ~/.config/fish/completions/ext4lab.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    let mut command = crate::arguments::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "ext4lab", &mut script);
    std::io::Write::write_all(&mut output(), &script)?;
    Ok(Verdict::Fine)
}
