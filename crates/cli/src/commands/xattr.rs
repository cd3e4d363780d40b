//! `ext4lab xattr`: the extended attributes of an inode.

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;

use crate::{
    answer::{self, Answer, Failure, Verdict},
    arguments::{EXIT_STATUS, InImage, Source},
    finding::{FindingRow, rows},
    image,
    inode::AttributeRow,
};

const EXAMPLES: &str = "\
Examples:
  ext4lab xattr disk.img /home
  ext4lab xattr --json disk.img '<12>' | jq '.attributes[].name'
";

/// Show extended attributes, access control lists among them
///
/// A value is shown as text if it is one, else in hexadecimal digits, as getfattr does. Access control lists are shown
/// as getfacl prints them, users and groups as numbers.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    path: InImage,
}

/// The attributes of an inode.
#[derive(Serialize)]
struct Attributes {
    inode: u32,
    attributes: Vec<AttributeRow>,
    findings: Vec<FindingRow>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let filesystem = image::open_for_use(&arguments.source)?;
    let number = filesystem.find(arguments.path.bytes())?;
    let (inode, mut findings) = filesystem.inode(number)?;
    let (attributes, wrong) = filesystem.attributes(number, &inode);
    findings.extend(wrong);
    let attributes = Attributes {
        inode: number.get(),
        attributes: attributes.into_iter().map(AttributeRow::from).collect(),
        findings: rows(findings),
    };
    answer::give(&attributes, arguments.source.format())
}

impl Answer for Attributes {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for attribute in &self.attributes {
            let (name, place) = (&attribute.name, attribute.place_text());
            match &attribute.acl {
                None => writeln!(out, "{name}={}  ({place})", attribute.value_text())?,
                Some(entries) => {
                    writeln!(out, "{name}:  ({place})")?;
                    for entry in entries {
                        writeln!(out, "  {entry}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn findings(&self) -> &[FindingRow] {
        &self.findings
    }
}
