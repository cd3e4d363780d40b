//! The hashes that directories are sorted by (`fs/ext4/hash.c`).

/// How a directory hashes its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashVersion {
    /// The first one, characters signed or not.
    Legacy(Chars),
    /// Half of MD4.
    HalfMd4(Chars),
    /// The tiny encryption algorithm.
    Tea(Chars),
    /// Keyed by the encryption key, so that it cannot be computed from the image.
    SipHash,
}

/// How a character above 127 was taken by the machine that made the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chars {
    /// As x86 has it.
    Signed,
    /// As ARM and PowerPC have it.
    Unsigned,
}

impl HashVersion {
    /// The version of this number; 0 to 2 take their characters from the superblock's flags.
    pub fn of(number: u8, superblock_flags: u32) -> Option<Self> {
        let chars = match superblock_flags & 2 {
            0 => Chars::Signed,
            _ => Chars::Unsigned,
        };
        Some(match number {
            0 => Self::Legacy(chars),
            1 => Self::HalfMd4(chars),
            2 => Self::Tea(chars),
            3 => Self::Legacy(Chars::Unsigned),
            4 => Self::HalfMd4(Chars::Unsigned),
            5 => Self::Tea(Chars::Unsigned),
            6 => Self::SipHash,
            _ => return None,
        })
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy(Chars::Signed) => "legacy",
            Self::Legacy(Chars::Unsigned) => "legacy, unsigned",
            Self::HalfMd4(Chars::Signed) => "half MD4",
            Self::HalfMd4(Chars::Unsigned) => "half MD4, unsigned",
            Self::Tea(Chars::Signed) => "tea",
            Self::Tea(Chars::Unsigned) => "tea, unsigned",
            Self::SipHash => "siphash",
        }
    }

    /// A name's hash (its lowest bit is 0) and minor hash; `None` where the key is not on the disk.
    pub fn hash(self, name: &[u8], seed: &[u8; 16]) -> Option<(u32, u32)> {
        let (hash, minor) = match self {
            Self::Legacy(chars) => (legacy(name, chars), 0),
            Self::HalfMd4(chars) => {
                let mut state = start(seed);
                for (part, left) in parts(name, 32) {
                    half_md4(&mut state, &words(part, left, chars));
                }
                (state[1], state[2])
            }
            Self::Tea(chars) => {
                let mut state = start(seed);
                for (part, left) in parts(name, 16) {
                    tea(&mut state, &words(part, left, chars));
                }
                (state[0], state[1])
            }
            Self::SipHash => return None,
        };
        // The last value is kept for the end of the directory.
        let hash = match hash & !1 {
            0xffff_fffe => 0xffff_fffc,
            hash => hash,
        };
        Some((hash, minor))
    }
}

/// The parts that a name is hashed in, each with how much of the name was left: its padding repeats that number.
fn parts(name: &[u8], bytes: usize) -> impl Iterator<Item = (&[u8], usize)> {
    let chunks = name.chunks(bytes).enumerate();
    chunks.map(move |(index, part)| (part, name.len().saturating_sub(index.saturating_mul(bytes))))
}

fn start(seed: &[u8; 16]) -> [u32; 4] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    if seed.iter().any(|byte| *byte != 0) {
        for (word, bytes) in state.iter_mut().zip(seed.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
    }
    state
}

fn character(byte: u8, chars: Chars) -> u32 {
    match chars {
        Chars::Signed => i32::from(byte.cast_signed()).cast_unsigned(),
        Chars::Unsigned => byte.into(),
    }
}

/// `str2hashbuf`: a part of a name as words, padded with its length.
fn words<const N: usize>(part: &[u8], left: usize, chars: Chars) -> [u32; N] {
    let length = u32::try_from(left).unwrap_or(u32::MAX);
    let pad = length | length.wrapping_shl(8);
    let pad = pad | pad.wrapping_shl(16);
    let mut words = [pad; N];
    for (word, bytes) in words.iter_mut().zip(part.chunks(4)) {
        *word = bytes.iter().fold(pad, |value, byte| {
            character(*byte, chars).wrapping_add(value.wrapping_shl(8))
        });
    }
    words
}

fn legacy(name: &[u8], chars: Chars) -> u32 {
    let (mut last, mut before) = (0x12a3_fe2du32, 0x37ab_e8f9u32);
    for byte in name {
        let mut hash = before.wrapping_add(last ^ character(*byte, chars).wrapping_mul(7_152_373));
        if hash & 0x8000_0000 != 0 {
            hash = hash.wrapping_sub(0x7fff_ffff);
        }
        before = last;
        last = hash;
    }
    last << 1
}

fn half_md4(state: &mut [u32; 4], input: &[u32; 8]) {
    const ROUND_2: u32 = 0x5a82_7999;
    const ROUND_3: u32 = 0x6ed9_eba1;
    let [i0, i1, i2, i3, i4, i5, i6, i7] = *input;
    let choose = |x: u32, y: u32, z: u32| z ^ (x & (y ^ z));
    let most = |x: u32, y: u32, z: u32| (x & y).wrapping_add((x ^ y) & z);
    let parity = |x: u32, y: u32, z: u32| x ^ y ^ z;
    let mut s = *state;
    let mut round = |f: &dyn Fn(u32, u32, u32) -> u32, words: [u32; 8], shifts: [u32; 4], add: u32| {
        for four in words.as_chunks::<4>().0 {
            for (word, shift) in four.iter().zip(shifts) {
                let [a, b, c, d] = s;
                let sum = a
                    .wrapping_add(f(b, c, d))
                    .wrapping_add(*word)
                    .wrapping_add(add)
                    .rotate_left(shift);
                s = [d, sum, b, c];
            }
        }
    };
    round(&choose, [i0, i1, i2, i3, i4, i5, i6, i7], [3, 7, 11, 19], 0);
    round(&most, [i1, i3, i5, i7, i0, i2, i4, i6], [3, 5, 9, 13], ROUND_2);
    round(&parity, [i3, i7, i2, i6, i1, i5, i0, i4], [3, 9, 11, 15], ROUND_3);
    for (word, add) in state.iter_mut().zip(s) {
        *word = word.wrapping_add(add);
    }
}

fn tea(state: &mut [u32; 4], input: &[u32; 4]) {
    const DELTA: u32 = 0x9e37_79b9;
    let [a, b, c, d] = *input;
    let (mut b0, mut b1, mut sum) = (state[0], state[1], 0u32);
    let mix = |v: u32, k0: u32, k1: u32, sum: u32| {
        (v << 4).wrapping_add(k0) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(k1)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        b0 = b0.wrapping_add(mix(b1, a, b, sum));
        b1 = b1.wrapping_add(mix(b0, c, d, sum));
    }
    state[0] = state[0].wrapping_add(b0);
    state[1] = state[1].wrapping_add(b1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_never_takes_the_value_kept_for_the_end() {
        let seed = [0; 16];
        for version in [
            HashVersion::Legacy(Chars::Signed),
            HashVersion::HalfMd4(Chars::Signed),
        ] {
            for name in 0u32..2000 {
                let (hash, _) = version
                    .hash(format!("name{name}").as_bytes(), &seed)
                    .expect("it needs no key");
                assert!(hash & 1 == 0 && hash < 0xffff_fffe);
            }
        }
    }
}
