//! The time as the logs write it, formatted once a second and copied for every line in between.

use rustix::time::{ClockId, clock_gettime};
use touchstone_http::date::{MONTHS, civil_from_unix};

/// 9999-12-31T23:59:59Z, the last second that both forms can write; the first is 0000-01-01T00:00:00Z.
const LAST_SECOND: i64 = 253_402_300_799;
const FIRST_SECOND: i64 = -62_167_219_200;

/// A moment, and its text in both forms. Times are UTC.
#[derive(Debug, Clone)]
pub struct LogClock {
    unix_seconds: i64,
    milliseconds: u16,
    common: [u8; 26],
    rfc3339: [u8; 24],
}

impl LogClock {
    /// A clock that shows the current time.
    pub fn now() -> LogClock {
        let mut clock = LogClock::at(0, 0);
        clock.tick();
        clock
    }

    /// A clock that shows this time, and can be changed with [`LogClock::set`].
    pub fn at(unix_seconds: i64, milliseconds: u16) -> LogClock {
        let mut clock = LogClock {
            unix_seconds: 0,
            milliseconds: 0,
            common: *b"01/Jan/1970:00:00:00 +0000",
            rfc3339: *b"1970-01-01T00:00:00.000Z",
        };
        clock.set(unix_seconds, milliseconds);
        clock
    }

    /// Shows the current time of the kernel's coarse clock (a few milliseconds old at most, read without
    /// entering the kernel).
    #[inline]
    pub fn tick(&mut self) {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        self.set(now.tv_sec, (now.tv_nsec / 1_000_000) as u16);
    }

    /// Shows this time: seconds since 1970-01-01 00:00:00 UTC, and milliseconds (0 to 999).
    #[inline]
    pub fn set(&mut self, unix_seconds: i64, milliseconds: u16) {
        if unix_seconds != self.unix_seconds {
            self.set_second(unix_seconds);
        }
        if milliseconds != self.milliseconds {
            self.milliseconds = milliseconds.min(999);
            self.rfc3339[20] = b'0' + (self.milliseconds / 100) as u8;
            self.rfc3339[21..23].copy_from_slice(&two_digits((self.milliseconds % 100) as u8));
        }
    }

    /// The form of the Common Log Format: `20/Nov/2026:10:00:00 +0000`.
    #[inline]
    pub fn common(&self) -> &[u8; 26] {
        &self.common
    }

    /// The form of RFC 3339: `2026-11-20T10:00:00.123Z`.
    #[inline]
    pub fn rfc3339(&self) -> &[u8; 24] {
        &self.rfc3339
    }

    /// Appends seconds since 1970, with milliseconds: `1795168800.123`.
    pub fn append_unix(&self, line: &mut Vec<u8>) {
        line.extend_from_slice(self.unix_seconds.to_string().as_bytes());
        line.push(b'.');
        line.extend_from_slice(&self.rfc3339[20..23]);
    }

    #[cold]
    fn set_second(&mut self, unix_seconds: i64) {
        self.unix_seconds = unix_seconds;
        let civil = civil_from_unix(unix_seconds.clamp(FIRST_SECOND, LAST_SECOND));
        let year = [(civil.year / 100) as u8, (civil.year % 100) as u8].map(two_digits);
        let time = [civil.hour, civil.minute, civil.second].map(two_digits);

        self.common[0..2].copy_from_slice(&two_digits(civil.day));
        self.common[3..6].copy_from_slice(MONTHS[usize::from(civil.month) - 1].as_bytes());
        self.common[7..11].copy_from_slice(year.as_flattened());
        self.rfc3339[0..4].copy_from_slice(year.as_flattened());
        self.rfc3339[5..7].copy_from_slice(&two_digits(civil.month));
        self.rfc3339[8..10].copy_from_slice(&two_digits(civil.day));
        for (position, digits) in time.iter().enumerate() {
            let (common, rfc3339) = (12 + 3 * position, 11 + 3 * position);
            self.common[common..common + 2].copy_from_slice(digits);
            self.rfc3339[rfc3339..rfc3339 + 2].copy_from_slice(digits);
        }
    }
}

fn two_digits(value: u8) -> [u8; 2] {
    [b'0' + value / 10 % 10, b'0' + value % 10]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(clock: &LogClock) -> (&str, &str) {
        (std::str::from_utf8(clock.common()).unwrap(), std::str::from_utf8(clock.rfc3339()).unwrap())
    }

    #[test]
    fn both_forms() {
        let mut clock = LogClock::at(0, 0);
        assert_eq!(texts(&clock), ("01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00.000Z"));
        clock.set(1_795_168_800, 123);
        assert_eq!(texts(&clock), ("20/Nov/2026:10:00:00 +0000", "2026-11-20T10:00:00.123Z"));
        clock.set(1_795_168_800, 7);
        assert_eq!(texts(&clock), ("20/Nov/2026:10:00:00 +0000", "2026-11-20T10:00:00.007Z"));
        clock.set(951_782_399, 999);
        assert_eq!(texts(&clock), ("28/Feb/2000:23:59:59 +0000", "2000-02-28T23:59:59.999Z"));
        clock.set(951_782_400, 0);
        assert_eq!(texts(&clock), ("29/Feb/2000:00:00:00 +0000", "2000-02-29T00:00:00.000Z"));
        clock.set(-1, 0);
        assert_eq!(texts(&clock), ("31/Dec/1969:23:59:59 +0000", "1969-12-31T23:59:59.000Z"));
    }

    #[test]
    fn the_present_is_the_present() {
        let before =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        let mut clock = LogClock::at(5, 5);
        clock.tick();
        // The coarse clock may be a tick behind, never ahead.
        assert!(clock.unix_seconds >= before - 1, "{} {before}", clock.unix_seconds);
        let after =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        assert!(clock.unix_seconds <= after);
    }

    proptest! {
        #[test]
        fn no_time_makes_it_panic(seconds in any::<i64>(), milliseconds in any::<u16>()) {
            let clock = LogClock::at(seconds, milliseconds);
            let (common, rfc3339) = texts(&clock);
            prop_assert!(common.ends_with(" +0000"));
            prop_assert!(rfc3339.ends_with('Z'));
        }

        /// Both forms of a clock that showed another time before name the same second.
        #[test]
        fn setting_is_the_same_as_beginning(
            first in -9_999_999_999i64..99_999_999_999,
            second in -9_999_999_999i64..99_999_999_999,
            milliseconds in 0u16..1000,
        ) {
            let mut moved = LogClock::at(first, 1);
            moved.set(second, milliseconds);
            let fresh = LogClock::at(second, milliseconds);
            prop_assert_eq!(texts(&moved), texts(&fresh));
            let (common, rfc3339) = texts(&fresh);
            prop_assert_eq!(&common[12..20], &rfc3339[11..19]);
            prop_assert_eq!(&common[7..11], &rfc3339[0..4]);
            prop_assert_eq!(&common[0..2], &rfc3339[8..10]);
        }
    }
}
