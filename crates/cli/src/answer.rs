//! How an answer leaves: as text or JSON on standard output, with an exit status.

use std::{
    fmt,
    io::{self, BufWriter, Write},
    process::ExitCode,
};

use ext4::{PathError, ReadFailure};
use serde::Serialize;

use crate::finding::FindingRow;

/// In what form an answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Where the findings of an answer go that is told as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Findings {
    /// Behind the text, as a part of the answer.
    Below,
    /// To standard error: the text is a list that may be piped on.
    Aside,
}

/// What a subcommand has gathered: it serialises as the JSON that docs/json.md describes.
pub(crate) trait Answer: Serialize {
    /// Where its findings go.
    const FINDINGS: Findings = Findings::Below;

    /// Tells it to people, without the findings.
    fn print(&self, out: &mut dyn Write) -> io::Result<()>;

    /// What is wrong with what was asked for.
    fn findings(&self) -> &[FindingRow];
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well, notes and warnings aside.
    Fine,
    /// What was asked for is damaged.
    Damaged,
}

/// Why there is no answer, as a sentence.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for is not there, or too damaged to be shown.
    NotThere(String),
    /// The image cannot be opened.
    CannotOpen(String),
    /// The answer could not be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::NotThere(error.to_string())
    }
}

impl From<ReadFailure> for Failure {
    fn from(error: ReadFailure) -> Self {
        Self::NotThere(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(why) | Self::CannotOpen(why) => f.write_str(why),
            Self::Output(error) => write!(f, "the answer cannot be written: {error}"),
        }
    }
}

/// Standard output, buffered: answers have many lines.
pub(crate) fn output() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Tells an answer.
pub(crate) fn give<A: Answer>(answer: &A, format: Format) -> Result<Verdict, Failure> {
    let mut out = output();
    match format {
        Format::Text => {
            answer.print(&mut out)?;
            for finding in answer.findings() {
                match A::FINDINGS {
                    Findings::Below => writeln!(out, "{finding}")?,
                    Findings::Aside => eprintln!("ext4lab: {finding}"),
                }
            }
        }
        Format::Json => {
            serde_json::to_writer(&mut out, answer).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(verdict(answer.findings()))
}

/// Whether one of these findings is an error.
pub(crate) fn verdict(findings: &[FindingRow]) -> Verdict {
    if findings.iter().any(FindingRow::is_error) {
        Verdict::Damaged
    } else {
        Verdict::Fine
    }
}

/// The exit status; a failure is told here, and nowhere else.
pub(crate) fn exit(done: Result<Verdict, Failure>) -> ExitCode {
    match done {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Damaged) => ExitCode::from(1),
        // The reader has seen enough: `ext4lab ls … | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("ext4lab: {why}");
            ExitCode::from(if matches!(why, Failure::CannotOpen(_)) {
                2
            } else {
                1
            })
        }
    }
}
