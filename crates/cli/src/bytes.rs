//! Names, targets and values are bytes, not text.

use std::fmt::{self, Write};

use serde::{Serialize, Serializer};

/// Bytes that are text most of the time.
///
/// On a terminal a backslash is doubled, and what cannot be printed is `\x` with two hexadecimal digits for each
/// byte. JSON escapes control characters by itself: there only what is not UTF-8 is written so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    fn escape(&self, out: &mut impl Write, may_stay: impl Fn(char) -> bool) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character == '\\' {
                    out.write_str("\\\\")?;
                } else if may_stay(character) {
                    out.write_char(character)?;
                } else {
                    hex(out, character.encode_utf8(&mut [0; 4]).as_bytes())?;
                }
            }
            hex(out, chunk.invalid())?;
        }
        Ok(())
    }

    /// Whether a terminal shows all of it as it is.
    pub(crate) fn is_printable(&self) -> bool {
        str::from_utf8(&self.0).is_ok_and(|text| text.chars().all(is_printable))
    }
}

fn hex(out: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}

/// Neither a control character, nor one that a terminal does not show or lets turn the line around.
fn is_printable(character: char) -> bool {
    let hidden = matches!(
        u32::from(character),
        0xad | 0x61c | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xe0000..=0xe007f
    );
    !hidden && !character.is_control()
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.escape(f, is_printable)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.0.len());
        self.escape(&mut text, |_| true)
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_escaped_and_the_escape_is_unambiguous() {
        for (bytes, shown, json) in [
            ("größe".as_bytes(), "größe", "\"größe\""),
            (b"a\\x41", "a\\\\x41", "\"a\\\\\\\\x41\""),
            (b"\xff\xfe", "\\xff\\xfe", "\"\\\\xff\\\\xfe\""),
            (b"a\x1b[2Jb\n", "a\\x1b[2Jb\\x0a", "\"a\\u001b[2Jb\\n\""),
            (
                "x\u{202e}gnp".as_bytes(),
                "x\\xe2\\x80\\xaegnp",
                "\"x\u{202e}gnp\"",
            ),
        ] {
            let bytes = Bytes(bytes.to_vec());
            assert_eq!(bytes.to_string(), shown);
            assert_eq!(serde_json::to_string(&bytes).ok().as_deref(), Some(json));
        }
    }
}
