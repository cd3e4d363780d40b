//! Broken images of others, where their folder is named by `EXT4LAB_CORPUS`: each is checked, and our verdict held
//! against that of e2fsck, which lies beside them in `index.tsv`.

use std::{collections::BTreeMap, env, fs, path::PathBuf, process::Command, time::Instant};

use ext4::{Filesystem, OpenError, Scan, ScanReport, Severity};

/// What e2fsck said of an image.
struct Verdict {
    status: Option<u32>,
    quiet: bool,
}

fn verdicts(index: &str) -> BTreeMap<&str, Verdict> {
    let verdict = |line| {
        let mut columns = str::split(line, '\t');
        let name = columns.next()?;
        let status = columns.nth(1)?.parse().ok();
        let quiet = columns.next() == Some("quiet");
        Some((name, Verdict { status, quiet }))
    };
    index.lines().skip(1).filter_map(verdict).collect()
}

fn check(image: Vec<u8>) -> Result<ScanReport, OpenError> {
    let opened = Filesystem::open(image)?;
    Ok(Scan::run(&opened.filesystem, opened.findings))
}

#[test]
fn broken_images_are_told_from_good_ones_as_e2fsck_tells_them() {
    let Some(folder) = env::var_os("EXT4LAB_CORPUS").map(PathBuf::from) else {
        println!("NOT RUN: EXT4LAB_CORPUS names no folder of broken images");
        return;
    };
    let index = fs::read_to_string(folder.join("index.tsv")).expect("the verdicts are beside the images");
    let (mut broken, mut seen, mut good, mut accused) = (0, 0, 0, 0);
    let mut missed = Vec::new();
    for (name, verdict) in verdicts(&index) {
        let path = folder.join(format!("{name}.img.gz"));
        let unpacked = Command::new("gzip")
            .arg("-dc")
            .arg(path)
            .output()
            .expect("gzip starts");
        let begun = Instant::now();
        let report = check(unpacked.stdout);
        let took = begun.elapsed();
        assert!(took.as_secs() < 20, "{name} took {took:?}");
        let errors: Vec<_> = match &report {
            Err(why) => vec![why.to_string()],
            Ok(report) => {
                let errors = report
                    .findings
                    .iter()
                    .filter(|finding| finding.severity == Severity::Error);
                errors
                    .filter(|finding| finding.structure != "journal" || !verdict.quiet)
                    .map(ToString::to_string)
                    .collect()
            }
        };
        if verdict.status.is_some_and(|status| status >= 4) {
            broken += 1;
            if errors.is_empty() {
                missed.push(name);
            } else {
                seen += 1;
            }
        }
        if verdict.status == Some(0) && verdict.quiet {
            good += 1;
            if !errors.is_empty() {
                accused += 1;
                println!("{name} is good, but: {errors:#?}");
            }
        }
    }
    println!("of {broken} broken images {seen} have an error; missed: {missed:?}");
    println!("of {good} good images {accused} have an error outside the journal");
    assert_eq!(accused, 0);
    assert!(seen * 100 >= broken * 80);
}
