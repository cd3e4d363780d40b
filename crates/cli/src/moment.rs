//! Moments as people write them: UTC, by the Gregorian calendar.

use std::fmt;

use ext4::Timestamp;
use serde::{Serialize, Serializer};

const DAY: i64 = 86_400;

/// A moment; as text `2026-12-01T06:36:16.123456789Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl Moment {
    /// Seconds since 1970, as superblocks keep them: low half and high byte. `None` for never.
    pub(crate) fn of_seconds(low: u32, high: u8) -> Option<Self> {
        let seconds = i64::from(low) | i64::from(high) << 32;
        let moment = Self(Timestamp {
            seconds,
            nanoseconds: 0,
        });
        (seconds != 0).then_some(moment)
    }

    /// Day and time to the second, as `ls` has it.
    pub(crate) fn short(self) -> String {
        let (date, second) = self.split();
        format!(
            "{date} {:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }

    fn split(self) -> (String, i64) {
        let (days, second) = (self.0.seconds.div_euclid(DAY), self.0.seconds.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        (format!("{year:04}-{month:02}-{day:02}"), second)
    }
}

/// Year, month and day of a number of days since 1970: Howard Hinnant's `civil_from_days`, which counts years from
/// March on, so that the leap day is the last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, second) = self.split();
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let nanoseconds = self.0.nanoseconds;
        write!(f, "{date}T{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}Z")
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_date_prints_them() {
        // `date -u -d @SECONDS`
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (-2_147_483_648, "1901-12-13T20:45:52.000000007Z"),
            (951_782_399, "2000-02-28T23:59:59.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000007Z"),
            (15_032_385_535, "2446-05-10T22:38:55.000000007Z"),
        ] {
            let moment = Moment(Timestamp {
                seconds,
                nanoseconds: 7,
            });
            assert_eq!(moment.to_string(), text);
        }
    }
}
