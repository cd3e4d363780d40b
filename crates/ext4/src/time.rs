//! Timestamps.

/// A moment: seconds and nanoseconds since 1970-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds, from 1901-12-13 to 2446-05-10.
    pub seconds: i64,
    /// Nanoseconds within the second, below 10^9 unless the image is wrong.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// What the two fields say: signed seconds, then two bits of epoch below thirty of nanoseconds.
    pub fn decode(seconds: u32, extra: u32) -> Self {
        let epoch = i64::from(extra & 3) << 32;
        let seconds = i64::from(seconds.cast_signed()).saturating_add(epoch);
        Self {
            seconds,
            nanoseconds: extra >> 2,
        }
    }

    /// The two fields. Moments outside their range wrap, as in the kernel's encoding.
    pub fn encode(self) -> (u32, u32) {
        let [s0, s1, s2, s3, e0, ..] = self.seconds.to_le_bytes();
        let low = u32::from_le_bytes([s0, s1, s2, s3]);
        // The epoch counts from the sign-extended low half.
        let carry = u32::from(low.cast_signed() < 0);
        let epoch = u32::from(e0).wrapping_add(carry) & 3;
        (low, self.nanoseconds << 2 | epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moments_of_case_c31() {
        let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        // 1901-12-13 20:45:52, 2038-01-19 03:14:08, 2446-05-10 22:38:55, 1969-12-31 23:59:59.999999999
        for (fields, moment) in [
            ((0x8000_0000, 0), at(-2_147_483_648, 0)),
            ((0x8000_0000, 1), at(2_147_483_648, 0)),
            ((0x7fff_ffff, 3), at(15_032_385_535, 0)),
            ((0xffff_ffff, 0xee6b_27fc), at(-1, 999_999_999)),
        ] {
            assert_eq!(Timestamp::decode(fields.0, fields.1), moment);
            assert_eq!(moment.encode(), fields);
        }
    }
}
