//! One file for each subcommand: its arguments, what it gathers as data, and how that is told to people.

pub(crate) mod blocks;
pub(crate) mod cat;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod info;
pub(crate) mod journal;
pub(crate) mod ls;
pub(crate) mod mkfs;
pub(crate) mod orphans;
pub(crate) mod profiles;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod stat;
pub(crate) mod tree;
pub(crate) mod xattr;

/// A UUID in its usual form.
fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
