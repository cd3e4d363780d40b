//! Jiffies, and when a timer of the wheel fires.

use crate::{Nanoseconds, Profile, TimerWheel};

/// Ticks since the run began.
pub fn jiffies(profile: &Profile, now: Nanoseconds) -> u64 {
    now.0 / profile.tick_ns()
}

/// When a timer fires that is armed now for `ticks` ticks (`schedule_timeout`).
///
/// Since 4.8 the wheel rounds up: armed in tick c it fires at tick c + ticks + 1.
pub fn expiry(profile: &Profile, now: Nanoseconds, ticks: u64) -> Nanoseconds {
    let rounding = match profile.scheduler.timer_wheel {
        TimerWheel::Before4_8 => 0,
        TimerWheel::Since4_8 => 1,
    };
    Nanoseconds((jiffies(profile, now) + ticks + rounding) * profile.tick_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_has_waited_one_tick_longer_since_4_8() {
        let mut profile = Profile::default();
        profile.scheduler.hz = 100;
        let now = Nanoseconds(73_000_000);
        assert_eq!(jiffies(&profile, now), 7);
        assert_eq!(expiry(&profile, now, 10), Nanoseconds(180_000_000));
        profile.scheduler.timer_wheel = TimerWheel::Before4_8;
        assert_eq!(expiry(&profile, now, 10), Nanoseconds(170_000_000));
    }
}
