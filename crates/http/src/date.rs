//! Dates as HTTP writes them (RFC 9110 section 5.6.7), and the calendar behind them.
//!
//! Time is a number of seconds since 1970-01-01 00:00:00 UTC, as the operating system returns it; nothing
//! here reads a clock. [`format_imf_fixdate`] writes `Date` and `Last-Modified`; [`parse_http_date`] reads
//! the three forms that a recipient must accept; [`civil_from_unix`] returns the parts from which the access
//! log makes its own form; [`retry_after_seconds`] reads `Retry-After`.

/// The names of the days, beginning with Sunday as [`Civil::weekday`] does.
pub const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// The names of the months, January first.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const LONG_WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const SECONDS_PER_DAY: i64 = 86_400;

/// 0000-01-01 00:00:00 and 9999-12-31 23:59:59, the first and last second that four digits of year can name.
const FIRST_SECOND: i64 = -62_167_219_200;
const LAST_SECOND: i64 = 253_402_300_799;

/// A moment as a calendar and a clock show it, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// Year of the proleptic Gregorian calendar.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59; system time has no leap seconds.
    pub second: u8,
    /// 0 is Sunday.
    pub weekday: u8,
}

/// The calendar date and time of day of a moment.
pub fn civil_from_unix(unix_seconds: i64) -> Civil {
    let days = unix_seconds.div_euclid(SECONDS_PER_DAY);
    let second_of_day = unix_seconds.rem_euclid(SECONDS_PER_DAY);

    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": eras of 400 years that begin on 1 March,
    // so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);

    Civil {
        year,
        month: month as u8,
        day: day as u8,
        hour: (second_of_day / 3_600) as u8,
        minute: (second_of_day / 60 % 60) as u8,
        second: (second_of_day % 60) as u8,
        // 1970-01-01 was a Thursday.
        weekday: (days + 4).rem_euclid(7) as u8,
    }
}

/// The days from 1970-01-01 to a date; the inverse of the calendar in [`civil_from_unix`].
fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    let year_from_march = if month <= 2 { year - 1 } else { year };
    let era = year_from_march.div_euclid(400);
    let year_of_era = year_from_march.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Writes a moment as an IMF-fixdate, the form that a sender must use: `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// A moment outside the years 0000 to 9999 is written as the nearest that four digits can name.
pub fn format_imf_fixdate(unix_seconds: i64) -> [u8; 29] {
    let civil = civil_from_unix(unix_seconds.clamp(FIRST_SECOND, LAST_SECOND));
    let mut text = *b"Sun, 00 Jan 0000 00:00:00 GMT";
    text[..3].copy_from_slice(WEEKDAYS[usize::from(civil.weekday)].as_bytes());
    text[5..7].copy_from_slice(&two_digits(civil.day));
    text[8..11].copy_from_slice(MONTHS[usize::from(civil.month) - 1].as_bytes());
    text[12..14].copy_from_slice(&two_digits((civil.year / 100) as u8));
    text[14..16].copy_from_slice(&two_digits((civil.year % 100) as u8));
    text[17..19].copy_from_slice(&two_digits(civil.hour));
    text[20..22].copy_from_slice(&two_digits(civil.minute));
    text[23..25].copy_from_slice(&two_digits(civil.second));
    text
}

fn two_digits(value: u8) -> [u8; 2] {
    [b'0' + value / 10, b'0' + value % 10]
}

/// Reads an HTTP-date in any of its three forms: IMF-fixdate, the obsolete form of RFC 850, and that of C's
/// `asctime`.
///
/// `now_unix_seconds` determines the century of RFC 850's two-digit years: the latest one that is not more
/// than 50 years ahead of it (RFC 9110 section 5.6.7). A day name must be valid, but it need not match the
/// date, as in other servers. Second 60, a leap second, is the first second of the next minute. Names may be
/// in upper or lower case, as RFC 9111 section 4.2 requires of caches. Anything else returns `None`,
/// including a zone other than `GMT` and white space around the date.
pub fn parse_http_date(value: &[u8], now_unix_seconds: i64) -> Option<i64> {
    match value.get(3)? {
        b',' => parse_imf_fixdate(value),
        b' ' => parse_asctime(value),
        _ => parse_rfc850(value, now_unix_seconds),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn parse_imf_fixdate(value: &[u8]) -> Option<i64> {
    let text: &[u8; 29] = value.try_into().ok()?;
    index_of(&text[..3], &WEEKDAYS)?;
    let separators = [&text[3..5], &text[7..8], &text[11..12], &text[16..17], &text[25..26]];
    if separators != [b", ".as_slice(), b" ", b" ", b" ", b" "] || !is_gmt(&text[26..]) {
        return None;
    }
    let year = number(&text[12..16])?;
    unix_from_parts(year, parse_month(&text[8..11])?, number(&text[5..7])?, parse_time(&text[17..25])?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn parse_rfc850(value: &[u8], now_unix_seconds: i64) -> Option<i64> {
    let comma = value.iter().position(|&byte| byte == b',')?;
    index_of(&value[..comma], &LONG_WEEKDAYS)?;
    let text: &[u8; 24] = value[comma..].try_into().ok()?;
    let separators = [&text[..2], &text[4..5], &text[8..9], &text[11..12], &text[20..21]];
    if separators != [b", ".as_slice(), b"-", b"-", b" ", b" "] || !is_gmt(&text[21..]) {
        return None;
    }
    let day = number(&text[2..4])?;
    let month = parse_month(&text[5..8])?;
    let year_of_century = number(&text[9..11])?;
    let time = parse_time(&text[12..20])?;

    let now = civil_from_unix(now_unix_seconds.clamp(FIRST_SECOND, LAST_SECOND));
    let second_of_day = now_unix_seconds.rem_euclid(SECONDS_PER_DAY);
    let latest = days_from_civil(now.year + 50, now.month, now.day) * SECONDS_PER_DAY + second_of_day;
    let century = now.year - now.year % 100;
    [century + 100, century, century - 100]
        .into_iter()
        .filter_map(|century| unix_from_parts(century + year_of_century, month, day, time))
        .find(|&candidate| candidate <= latest)
}

/// `Sun Nov  6 08:49:37 1994`
fn parse_asctime(value: &[u8]) -> Option<i64> {
    let text: &[u8; 24] = value.try_into().ok()?;
    index_of(&text[..3], &WEEKDAYS)?;
    let separators = [&text[3..4], &text[7..8], &text[10..11], &text[19..20]];
    if separators.iter().any(|separator| separator != b" ") {
        return None;
    }
    let day = if text[8] == b' ' { number(&text[9..10])? } else { number(&text[8..10])? };
    unix_from_parts(number(&text[20..])?, parse_month(&text[4..7])?, day, parse_time(&text[11..19])?)
}

/// `08:49:37`, as the second of the day.
fn parse_time(text: &[u8]) -> Option<i64> {
    if text[2] != b':' || text[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (number(&text[..2])?, number(&text[3..5])?, number(&text[6..8])?);
    (hour <= 23 && minute <= 59 && second <= 60).then_some(hour * 3_600 + minute * 60 + second)
}

/// 1 for `Jan`.
fn parse_month(text: &[u8]) -> Option<u8> {
    Some(index_of(text, &MONTHS)? as u8 + 1)
}

fn index_of(text: &[u8], names: &[&str]) -> Option<usize> {
    names.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(text))
}

/// Only GMT is accepted; a recipient must not guess another zone (RFC 9111 section 4.2).
fn is_gmt(zone: &[u8]) -> bool {
    zone.eq_ignore_ascii_case(b"GMT")
}

/// A number of a few digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

/// The moment that the parts name, or `None` where the calendar has no such day.
fn unix_from_parts(year: i64, month: u8, day: i64, second_of_day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=days_in_month)
        .contains(&day)
        .then(|| days_from_civil(year, month, day as u8) * SECONDS_PER_DAY + second_of_day)
}

/// Writes a moment in the form of RFC 3339, in UTC: `2026-01-02T03:04:05Z`.
pub fn format_rfc3339(unix_seconds: i64) -> String {
    let time = civil_from_unix(unix_seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}

/// Reads `Retry-After`, which has seconds or a date (RFC 9110 section 10.2.3): the seconds to wait.
pub fn retry_after_seconds(value: &[u8], now_unix_seconds: i64) -> Option<u64> {
    let value = value.trim_ascii();
    if let Some(seconds) = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) {
        return Some(seconds);
    }
    let until = parse_http_date(value, now_unix_seconds)?;
    Some(u64::try_from(until.saturating_sub(now_unix_seconds)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-20 10:00:00 UTC, a Friday.
    const NOW: i64 = 1_795_168_800;

    fn text(unix_seconds: i64) -> String {
        String::from_utf8(format_imf_fixdate(unix_seconds).to_vec()).expect("a date is ASCII")
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        for (value, expected) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(retry_after_seconds(value.as_bytes(), 784_111_777), expected, "{value:?}");
        }
        assert_eq!(retry_after_seconds(b"\xff", 0), None);
    }

    #[test]
    fn writes_known_dates() {
        let table = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (NOW, "Fri, 20 Nov 2026 10:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (FIRST_SECOND, "Sat, 01 Jan 0000 00:00:00 GMT"),
            (LAST_SECOND, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (i64::MIN, "Sat, 01 Jan 0000 00:00:00 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (unix_seconds, expected) in table {
            assert_eq!(text(unix_seconds), expected);
        }
    }

    #[test]
    fn reads_the_three_forms() {
        for form in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_http_date(form.as_bytes(), NOW), Some(784_111_777), "{form}");
        }
        assert_eq!(parse_http_date(b"Wed Nov 16 08:49:37 1994", NOW), Some(784_111_777 + 10 * 86_400));
        assert_eq!(
            parse_http_date(b"Sat, 31 Dec 2016 23:59:60 GMT", NOW),
            parse_http_date(b"Sun, 01 Jan 2017 00:00:00 GMT", NOW),
        );
        // RFC 9111 section 4.2: names are matched whatever their case.
        for form in [
            "SUN, 06 nov 1994 08:49:37 GMT",
            "sun, 06 NOV 1994 08:49:37 gmt",
            "sUNDAY, 06-nOV-94 08:49:37 gMT",
            "sun nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_http_date(form.as_bytes(), NOW), Some(784_111_777), "{form}");
        }
        // A wrong day name is accepted.
        assert_eq!(parse_http_date(b"Mon, 06 Nov 1994 08:49:37 GMT", NOW), Some(784_111_777));
    }

    #[test]
    fn refuses_what_is_no_date() {
        let table = [
            "",
            "0",
            "Sun",
            "Sun,",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 AEST",
            "Sun, 06 Nov 1994 08:49:37 EST",
            "Sun, 06 Nov 1994 08:49:37 +00",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            " Sun, 06 Nov 1994 08:49:37 GMT",
            "Sub, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Non 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 08-49-37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov -994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37",
            "Sunday, 06-Nov-94 08:49:37 UTC",
            "Someday, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06 Nov 94 08:49:37 GMT",
            "Sun Nov 06 08:49:37 94",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun Nov 6  08:49:37 1994",
            "1994-11-06T08:49:37Z",
        ];
        for bad in table {
            assert_eq!(parse_http_date(bad.as_bytes(), NOW), None, "{bad:?}");
        }
    }

    #[test]
    fn two_digit_years_are_at_most_fifty_years_ahead() {
        let year = |value: &str, now| {
            parse_http_date(value.as_bytes(), now).map(|moment| civil_from_unix(moment).year)
        };
        let table = [
            ("Friday, 20-Nov-76 10:00:00 GMT", NOW, 2076),
            ("Friday, 20-Nov-76 10:00:01 GMT", NOW, 1976),
            ("Friday, 21-Nov-76 00:00:00 GMT", NOW, 1976),
            ("Friday, 31-Dec-99 00:00:00 GMT", NOW, 1999),
            ("Friday, 01-Jan-00 00:00:00 GMT", NOW, 2000),
            ("Friday, 01-Jan-26 00:00:00 GMT", NOW, 2026),
            // From 2090 the year 10 is that of the next century, 20 years ahead.
            ("Friday, 01-Jan-10 00:00:00 GMT", 3_786_912_000, 2110),
            // 2100 has no 29 February.
            ("Friday, 29-Feb-00 00:00:00 GMT", 3_786_912_000, 2000),
        ];
        for (value, now, expected) in table {
            assert_eq!(year(value, now), Some(expected), "{value}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(unix_seconds in FIRST_SECOND..=LAST_SECOND) {
            prop_assert_eq!(parse_http_date(&format_imf_fixdate(unix_seconds), NOW), Some(unix_seconds));
        }

        #[test]
        fn all_three_forms_name_the_same_moment(unix_seconds in 1_000_000_000i64..3_000_000_000) {
            let civil = civil_from_unix(unix_seconds);
            let month = MONTHS[usize::from(civil.month) - 1];
            let time = format!("{:02}:{:02}:{:02}", civil.hour, civil.minute, civil.second);
            let weekday = usize::from(civil.weekday);
            let asctime = format!("{} {month} {:2} {time} {}", WEEKDAYS[weekday], civil.day, civil.year);
            let long_weekday = LONG_WEEKDAYS[weekday];
            let (day, year) = (civil.day, civil.year % 100);
            let rfc850 = format!("{long_weekday}, {day:02}-{month}-{year:02} {time} GMT");
            prop_assert_eq!(parse_http_date(asctime.as_bytes(), NOW), Some(unix_seconds));
            prop_assert_eq!(parse_http_date(rfc850.as_bytes(), unix_seconds), Some(unix_seconds));
        }

        #[test]
        fn case_does_not_matter(unix_seconds in FIRST_SECOND..=LAST_SECOND, upper in any::<u32>()) {
            let mut text = format_imf_fixdate(unix_seconds);
            for (position, byte) in text.iter_mut().enumerate() {
                let is_upper = upper >> position & 1 == 1;
                *byte = if is_upper { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
            }
            prop_assert_eq!(parse_http_date(&text, NOW), Some(unix_seconds));
        }

        #[test]
        fn the_calendar_goes_both_ways(unix_seconds in any::<i64>()) {
            let civil = civil_from_unix(unix_seconds);
            prop_assert!((1..=12).contains(&civil.month) && (1..=31).contains(&civil.day));
            prop_assert_eq!(
                days_from_civil(civil.year, civil.month, civil.day),
                unix_seconds.div_euclid(SECONDS_PER_DAY)
            );
        }

        #[test]
        fn each_day_follows_the_one_before(unix_seconds in FIRST_SECOND..LAST_SECOND - SECONDS_PER_DAY) {
            let (today, tomorrow) =
                (civil_from_unix(unix_seconds), civil_from_unix(unix_seconds + SECONDS_PER_DAY));
            prop_assert_eq!((today.weekday + 1) % 7, tomorrow.weekday);
            let next_day = (today.year, today.month, today.day + 1);
            let next_month = if today.month == 12 {
                (today.year + 1, 1, 1)
            } else {
                (today.year, today.month + 1, 1)
            };
            let found = (tomorrow.year, tomorrow.month, tomorrow.day);
            let is_next = found == next_day || today.day >= 28 && found == next_month;
            prop_assert!(is_next, "{:?} {:?}", today, found);
        }

        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..40), now in any::<i64>()) {
            let _ = parse_http_date(&value, now);
        }

        #[test]
        fn never_panics_near_a_date(
            mut value in prop_oneof![
                Just(b"Sun, 06 Nov 1994 08:49:37 GMT".to_vec()),
                Just(b"Sunday, 06-Nov-94 08:49:37 GMT".to_vec()),
                Just(b"Sun Nov  6 08:49:37 1994".to_vec()),
            ],
            position in 0usize..30, byte in any::<u8>(), now in any::<i64>(),
        ) {
            if let Some(place) = value.get_mut(position) {
                *place = byte;
            }
            let _ = parse_http_date(&value, now);
        }
    }
}
