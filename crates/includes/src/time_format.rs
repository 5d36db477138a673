//! Formats times for `config timefmt`: the conversions of C's `strftime` in the C locale, with the flags,
//! widths and additional letters of the GNU library, for which pages were written.
//!
//! Local time is that of `TZ` or of the system, determined by the `jiff` crate.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::civil::{DateTime, Weekday};
use jiff::tz::TimeZone;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The maximum width: a larger one is a mistake, or an attempt to fill memory.
const MOST_WIDTH: usize = 255;

/// The time zone of a displayed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The server's.
    Local,
    /// Greenwich mean time.
    Gmt,
}

/// A time, split into the parts of calendar and clock.
struct CalendarTime {
    unix_seconds: i64,
    civil: DateTime,
    offset_seconds: i32,
    zone: String,
}

/// Formats a time.
pub fn format_time(unix_seconds: i64, format: &[u8], zone: Zone) -> Vec<u8> {
    let moment = CalendarTime::at(unix_seconds, zone);
    let mut text = Vec::with_capacity(32);
    moment.write(format, &mut text);
    text
}

/// The parts of the current time that expressions use: year, month, day, hour, minute, second, day of the
/// week.
pub(super) fn local_parts(unix_seconds: i64) -> [i32; 7] {
    let civil = CalendarTime::at(unix_seconds, Zone::Local).civil;
    let weekday = i32::from(civil.weekday().to_sunday_zero_offset());
    [
        i32::from(civil.year()),
        i32::from(civil.month()),
        i32::from(civil.day()),
        i32::from(civil.hour()),
        i32::from(civil.minute()),
        i32::from(civil.second()),
        weekday,
    ]
}

/// The modifiers between the percent sign and the letter.
#[derive(Default)]
struct Modifiers {
    pad: Option<u8>,
    upper: bool,
    swap_case: bool,
    width: usize,
}

impl CalendarTime {
    fn at(unix_seconds: i64, zone: Zone) -> CalendarTime {
        // A time outside the calendar's range is replaced by the nearest one in it.
        let nearest = if unix_seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let timestamp = Timestamp::from_second(unix_seconds).unwrap_or(nearest);
        if zone == Zone::Gmt {
            let civil = TimeZone::UTC.to_datetime(timestamp);
            return CalendarTime { unix_seconds, civil, offset_seconds: 0, zone: "GMT".to_owned() };
        }
        let local = TimeZone::system();
        let information = local.to_offset_info(timestamp);
        let offset = information.offset();
        CalendarTime {
            unix_seconds,
            civil: offset.to_datetime(timestamp),
            offset_seconds: offset.seconds(),
            zone: information.abbreviation().to_owned(),
        }
    }

    fn write(&self, format: &[u8], out: &mut Vec<u8>) {
        let mut rest = format;
        while let Some(percent) = memchr::memchr(b'%', rest) {
            out.extend_from_slice(&rest[..percent]);
            let directive = &rest[percent..];
            let (modifiers, length) = Modifiers::read(&directive[1..]);
            let Some(&letter) = directive.get(1 + length) else {
                out.extend_from_slice(directive);
                return;
            };
            if !self.convert(letter, &modifiers, out) {
                out.extend_from_slice(&directive[..length + 2]);
            }
            rest = &directive[length + 2..];
        }
        out.extend_from_slice(rest);
    }

    /// Returns false for an unknown letter.
    fn convert(&self, letter: u8, modifiers: &Modifiers, out: &mut Vec<u8>) -> bool {
        let civil = self.civil;
        let year = i64::from(civil.year());
        let weekday = civil.weekday();
        let name = |text: &str, out: &mut Vec<u8>| modifiers.text(text, modifiers.swap_case, out);
        // For these two letters the flag selects lower case.
        let lower = |text: &str, out: &mut Vec<u8>| match modifiers.swap_case {
            true => modifiers.text(&text.to_ascii_lowercase(), false, out),
            false => modifiers.text(text, false, out),
        };
        let mut number = |value: i64, width: usize, pad: u8| modifiers.number(value, width, pad, out);
        let twelve = |hour: i8| if hour % 12 == 0 { 12 } else { hour % 12 };
        let from_sunday = i64::from(weekday.to_sunday_zero_offset());
        let from_monday = i64::from(weekday.to_monday_zero_offset());
        let day_of_year = i64::from(civil.day_of_year()) - 1;
        match letter {
            b'C' => number(year.div_euclid(100), 2, b'0'),
            b'd' => number(civil.day().into(), 2, b'0'),
            b'e' => number(civil.day().into(), 2, b' '),
            b'g' => number(self.iso_week().0.rem_euclid(100), 2, b'0'),
            b'G' => number(self.iso_week().0, 1, b'0'),
            b'H' => number(civil.hour().into(), 2, b'0'),
            b'I' => number(twelve(civil.hour()).into(), 2, b'0'),
            b'j' => number(day_of_year + 1, 3, b'0'),
            b'k' => number(civil.hour().into(), 2, b' '),
            b'l' => number(twelve(civil.hour()).into(), 2, b' '),
            b'm' => number(civil.month().into(), 2, b'0'),
            b'M' => number(civil.minute().into(), 2, b'0'),
            b's' => number(self.unix_seconds, 1, b'0'),
            b'S' => number(civil.second().into(), 2, b'0'),
            b'u' => number(from_monday + 1, 1, b'0'),
            b'U' => number((day_of_year + 7 - from_sunday) / 7, 2, b'0'),
            b'V' => number(self.iso_week().1, 2, b'0'),
            b'w' => number(from_sunday, 1, b'0'),
            b'W' => number((day_of_year + 7 - from_monday) / 7, 2, b'0'),
            b'y' => number(year.rem_euclid(100), 2, b'0'),
            b'Y' => number(year, 1, b'0'),
            b'a' => name(&weekday_name(weekday)[..3], out),
            b'A' => name(weekday_name(weekday), out),
            b'b' | b'h' => name(&month_name(civil)[..3], out),
            b'B' => name(month_name(civil), out),
            b'p' => lower(if civil.hour() < 12 { "AM" } else { "PM" }, out),
            b'P' => lower(if civil.hour() < 12 { "am" } else { "pm" }, out),
            b'Z' => lower(&self.zone, out),
            b'z' => lower(&self.numeric_zone(), out),
            b'c' => self.compound("%a %b %e %H:%M:%S %Y", modifiers, out),
            b'D' | b'x' => self.compound("%m/%d/%y", modifiers, out),
            b'F' => self.compound("%Y-%m-%d", modifiers, out),
            b'r' => self.compound("%I:%M:%S %p", modifiers, out),
            b'R' => self.compound("%H:%M", modifiers, out),
            b'T' | b'X' => self.compound("%H:%M:%S", modifiers, out),
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'%' => out.push(b'%'),
            _ => return false,
        }
        true
    }

    fn compound(&self, format: &str, modifiers: &Modifiers, out: &mut Vec<u8>) {
        let mut text = Vec::with_capacity(32);
        self.write(format.as_bytes(), &mut text);
        modifiers.text(&String::from_utf8_lossy(&text), false, out);
    }

    fn iso_week(&self) -> (i64, i64) {
        let week = self.civil.date().iso_week_date();
        (week.year().into(), week.week().into())
    }

    fn numeric_zone(&self) -> String {
        let sign = if self.offset_seconds < 0 { '-' } else { '+' };
        let minutes = self.offset_seconds.abs() / 60;
        let mut text = String::with_capacity(5);
        _ = write!(text, "{sign}{:02}{:02}", minutes / 60, minutes % 60);
        text
    }
}

fn weekday_name(weekday: Weekday) -> &'static str {
    WEEKDAYS[usize::from(weekday.to_sunday_zero_offset().unsigned_abs()) % 7]
}

fn month_name(civil: DateTime) -> &'static str {
    MONTHS[usize::from((civil.month() - 1).unsigned_abs()) % 12]
}

impl Modifiers {
    /// Parses the modifiers before the letter, and returns their length.
    fn read(directive: &[u8]) -> (Modifiers, usize) {
        let mut modifiers = Modifiers::default();
        let mut at = 0;
        while let Some(&byte) = directive.get(at) {
            match byte {
                b'_' | b'-' | b'0' => modifiers.pad = Some(byte),
                b'^' => modifiers.upper = true,
                b'#' => modifiers.swap_case = true,
                _ => break,
            }
            at += 1;
        }
        while let Some(digit) = directive.get(at).filter(|byte| byte.is_ascii_digit()) {
            modifiers.width = (modifiers.width * 10 + usize::from(digit - b'0')).min(MOST_WIDTH);
            at += 1;
        }
        // The alternative forms of the C locale are equal.
        if matches!(directive.get(at), Some(b'E' | b'O')) {
            at += 1;
        }
        (modifiers, at)
    }

    fn number(&self, value: i64, width: usize, pad: u8, out: &mut Vec<u8>) {
        let (pad, width) = match self.pad {
            Some(b'-') => (b'0', self.width),
            Some(b'_') => (b' ', self.width.max(width)),
            Some(zero) => (zero, self.width.max(width)),
            None => (pad, self.width.max(width)),
        };
        let digits = value.unsigned_abs().to_string();
        let sign = usize::from(value < 0);
        let missing = width.saturating_sub(digits.len() + sign);
        if pad == b' ' {
            out.extend(std::iter::repeat_n(pad, missing));
        }
        if value < 0 {
            out.push(b'-');
        }
        if pad != b' ' {
            out.extend(std::iter::repeat_n(pad, missing));
        }
        out.extend_from_slice(digits.as_bytes());
    }

    fn text(&self, text: &str, upper: bool, out: &mut Vec<u8>) {
        let pad = if self.pad == Some(b'0') { b'0' } else { b' ' };
        if self.pad != Some(b'-') {
            out.extend(std::iter::repeat_n(pad, self.width.saturating_sub(text.len())));
        }
        match upper || self.upper {
            true => out.extend(text.bytes().map(|byte| byte.to_ascii_uppercase())),
            false => out.extend_from_slice(text.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2001-09-09 01:46:40 UTC, a Sunday.
    const BILLION: i64 = 1_000_000_000;

    fn gmt(unix_seconds: i64, format: &str) -> String {
        String::from_utf8(format_time(unix_seconds, format.as_bytes(), Zone::Gmt)).unwrap()
    }

    #[test]
    fn the_default_of_apache() {
        assert_eq!(gmt(BILLION, "%A, %d-%b-%Y %H:%M:%S %Z"), "Sunday, 09-Sep-2001 01:46:40 GMT");
    }

    /// The output of the GNU library for the same time in the C locale.
    #[test]
    fn every_letter() {
        let table = [
            ("%a %A %b %B %h", "Sun Sunday Sep September Sep"),
            ("%c", "Sun Sep  9 01:46:40 2001"),
            ("%C %d %D %e %F", "20 09 09/09/01  9 2001-09-09"),
            ("%g %G %V %u %w %U %W", "01 2001 36 7 0 36 36"),
            ("%H %I %k %l %M %S %p %P", "01 01  1  1 46 40 AM am"),
            ("%j %m %n%t%%", "252 09 \n\t%"),
            ("%r|%R|%T|%x|%X", "01:46:40 AM|01:46|01:46:40|09/09/01|01:46:40"),
            ("%s %y %Y %z %Z", "1000000000 01 2001 +0000 GMT"),
            ("%-d %_d %^a %#Z %10Y %-H %03d %Ey %Od", "9  9 SUN gmt 0000002001 1 009 01 09"),
            ("%", "%"),
            ("100%", "100%"),
            ("%Q%!%+", "%Q%!%+"),
            ("%5", "%5"),
        ];
        for (format, expected) in table {
            assert_eq!(gmt(BILLION, format), expected, "{format}");
        }
    }

    #[test]
    fn weeks_around_the_new_year() {
        // 2021-01-03, a Sunday of the last ISO week of 2020.
        assert_eq!(gmt(1_609_632_000, "%G-%V %g %U %W"), "2020-53 20 01 00");
        // 2018-12-31, a Monday of the first ISO week of 2019.
        assert_eq!(gmt(1_546_214_400, "%G-%V %U %W"), "2019-01 52 53");
    }

    #[test]
    fn local_time_is_near() {
        let text = String::from_utf8(format_time(BILLION, b"%s", Zone::Local)).unwrap();
        assert_eq!(text, "1000000000");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            seconds in any::<i64>(),
            format in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let text = format_time(seconds, &format, Zone::Gmt);
            prop_assert!(text.len() <= format.len() * (MOST_WIDTH + 30));
        }

        #[test]
        fn directives_of_all_kinds(
            seconds in -99_999_999_999i64..999_999_999_999,
            format in "(%[-_0^#]{0,2}[0-9]{0,3}[EO]?[a-zA-Z+%] ?){0,5}",
        ) {
            format_time(seconds, format.as_bytes(), Zone::Local);
        }
    }
}
