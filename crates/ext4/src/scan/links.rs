//! Whether everything in use has a name, and as many as it says.

use super::{Scan, inodes::is_system};
use crate::{
    FileType, Filesystem, Finding, GroupNumber, InodeFlags, InodeNumber, ReadAt, RoCompat, Severity,
};

/// Groups in one step.
const GROUPS: u64 = 64;
/// Links of a directory above which the count is given up.
const LINKS_MAX: u16 = 65_000;

pub(super) fn step<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) -> u64 {
    if scan.at == 0 {
        root(scan, filesystem);
        family(scan, filesystem);
        attribute_blocks(scan, filesystem);
        values(scan, filesystem);
    }
    let of = u64::from(scan.groups);
    let end = scan.at.saturating_add(GROUPS).min(of);
    for group in scan.at..end {
        names(scan, filesystem, GroupNumber(u32::try_from(group).unwrap_or(0)));
    }
    scan.at = end;
    of
}

fn root<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) {
    let root = scan.inodes.state(filesystem, InodeNumber::ROOT);
    if root.is_none_or(|root| root.kind == 0) {
        let text = "the root directory is not in use".to_owned();
        scan.report
            .push(filesystem.inode_finding(InodeNumber::ROOT, text));
        return;
    }
    let Ok((inode, _)) = filesystem.inode(InodeNumber::ROOT) else {
        return;
    };
    let found = filesystem.lookup(InodeNumber::ROOT, &inode, b"lost+found");
    let text = match found.map(|found| scan.inodes.state(filesystem, found)) {
        None => "there is no /lost+found",
        Some(state) if state.is_none_or(|state| state.kind != 2) => "/lost+found is no directory",
        Some(_) => return,
    };
    let finding = filesystem.inode_finding(InodeNumber::ROOT, text.to_owned());
    // Nothing is lost by it: e2fsck makes one when it needs it.
    scan.report.push(finding.with_severity(Severity::Warning));
}

/// Directories that no way leads to, and those whose `..` leads astray.
fn family<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) {
    let states = &scan.inodes.directories;
    let mut findings = Vec::new();
    let place = |number: u32| {
        states
            .binary_search_by(|state| state.number.get().cmp(&number))
            .ok()
    };
    // 0 unknown, 1 on the way, 2 reached from the root, 3 lost.
    let mut marks = vec![0u8; states.len()];
    for begin in 0..states.len() {
        let mut way = Vec::new();
        let mut at = Some(begin);
        let verdict = loop {
            let Some(here) = at else {
                break 3;
            };
            match marks.get(here).copied() {
                Some(0) => {}
                Some(2) => break 2,
                _ => break 3,
            }
            if let Some(mark) = marks.get_mut(here) {
                *mark = 1;
            }
            way.push(here);
            let Some(state) = states.get(here) else {
                break 3;
            };
            if state.number == InodeNumber::ROOT {
                break 2;
            }
            at = place(state.parent);
        };
        for here in way {
            if let Some(mark) = marks.get_mut(here) {
                *mark = verdict;
            }
        }
    }
    for (state, mark) in states.iter().zip(marks) {
        let orphan = scan.inodes.orphans.contains(&state.number);
        if orphan || is_system(filesystem, state.number) {
            continue;
        }
        if mark == 3 {
            let text = "no way leads from the root to this directory".to_owned();
            findings.push(filesystem.inode_finding(state.number, text));
            continue;
        }
        let parent = match state.number {
            InodeNumber::ROOT => InodeNumber::ROOT.get(),
            _ => state.parent,
        };
        if state.dotdot != parent {
            let text = format!("its “..” leads to inode {}, not to {parent}", state.dotdot);
            findings.push(filesystem.inode_finding(state.number, text));
        }
    }
    scan.report.extend(findings);
}

fn attribute_blocks<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) {
    for (block, (said, users)) in &scan.inodes.attribute_blocks {
        if said != users {
            let offset = filesystem.geometry().offset_of(*block);
            let text = format!("it says that {said} inodes use it, but {users} do");
            scan.report
                .push(Finding::error(format!("attribute block {block}"), offset, text));
        }
    }
}

/// The values in inodes of their own, each read once.
fn values<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>) {
    for number in scan.inodes.values.keys() {
        if filesystem.own_value_right(*number) == Some(false) {
            let text = "the hash that it keeps of the value in it is wrong".to_owned();
            scan.report.push(filesystem.inode_finding(*number, text));
        }
    }
}

fn names<R: ReadAt>(scan: &mut Scan, filesystem: &Filesystem<R>, group: GroupNumber) {
    let Some(states) = scan.inodes.group(group.0) else {
        return;
    };
    let mut wrong = Vec::new();
    for (index, state) in (0u32..).zip(states) {
        let Some(number) = filesystem
            .geometry()
            .inode_at(group, index)
            .filter(|_| state.kind != 0)
        else {
            continue;
        };
        if state.names != state.links {
            wrong.push((number, *state));
        }
    }
    let many = filesystem.superblock().ro_compat().has(RoCompat::DIR_NLINK);
    for (number, state) in wrong {
        if is_system(filesystem, number) || scan.inodes.orphans.contains(&number) {
            continue;
        }
        let directory = state.kind == super::inodes::code(Some(FileType::Directory));
        if directory && many && state.links == 1 && state.names > LINKS_MAX {
            continue;
        }
        if let Some(users) = scan.inodes.values.get(&number) {
            // Such an inode counts its users elsewhere; its links are 1.
            if *users > 0 && state.names == 0 {
                continue;
            }
        }
        let value = state.names == 0
            && filesystem
                .inode(number)
                .is_ok_and(|(inode, _)| inode.flags.has(InodeFlags::EA_INODE));
        let text = match (state.names, value) {
            (0, true) => "it holds the value of an attribute, but no attribute names it".to_owned(),
            (0, false) => format!("it has {} links, but no name", state.links),
            (names, _) => format!("it has {} links, but {names} names", state.links),
        };
        let finding = filesystem.inode_finding(number, text).in_field("i_links_count");
        scan.report.push(finding);
    }
}
