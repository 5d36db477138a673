//! The dates that a server writes, read back: IMF-fixdate (RFC 9110 section 5.6.7), the Common Log Format's
//! and RFC 3339, each to seconds since 1970 and each refused unless it is exact to the byte.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// The time now, in seconds since 1970.
pub(crate) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    i64::try_from(since.as_secs()).expect("seconds fit")
}

/// `Fri, 02 Jan 2026 03:04:05 GMT`, with the right day of the week.
pub(crate) fn parse_http_date(text: &str) -> Option<i64> {
    let text = text.strip_suffix(" GMT")?;
    let (day_name, rest) = text.split_once(", ")?;
    let [day, month, year, clock] = split_exactly::<4>(rest, ' ')?;
    let days = days_since_1970(digits(year, 4)?, month_number(month)?, digits(day, 2)?);
    if DAYS[usize::try_from(days.rem_euclid(7)).ok()?] != day_name {
        return None;
    }
    Some(days * 86_400 + clock_seconds(clock)?)
}

/// `20/Nov/2026:10:00:00 +0000`.
pub(crate) fn parse_common_log_date(text: &str) -> Option<i64> {
    let (date_and_clock, zone) = text.split_once(' ')?;
    let (date, clock) = date_and_clock.split_once(':')?;
    let [day, month, year] = split_exactly::<3>(date, '/')?;
    let days = days_since_1970(digits(year, 4)?, month_number(month)?, digits(day, 2)?);
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if zone.len() != 5 {
        return None;
    }
    let offset = sign * (digits(&zone[1..3], 2)? * 3600 + digits(&zone[3..5], 2)? * 60);
    Some(days * 86_400 + clock_seconds(clock)? - offset)
}

/// `2026-11-20T10:00:00.123Z`: milliseconds and `Z` are required, as the log's documentation promises.
pub(crate) fn parse_rfc_3339(text: &str) -> Option<i64> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = split_exactly::<3>(date, '-')?;
    let (clock, milliseconds) = clock.split_once('.')?;
    digits(milliseconds, 3)?;
    Some(
        days_since_1970(digits(year, 4)?, digits(month, 2)?, digits(day, 2)?) * 86_400
            + clock_seconds(clock)?,
    )
}

fn clock_seconds(text: &str) -> Option<i64> {
    let [hours, minutes, seconds] = split_exactly::<3>(text, ':')?;
    Some(digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60 + digits(seconds, 2)?)
}

fn month_number(name: &str) -> Option<i64> {
    Some(i64::try_from(MONTHS.iter().position(|month| *month == name)?).ok()? + 1)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn split_exactly<const COUNT: usize>(text: &str, separator: char) -> Option<[&str; COUNT]> {
    text.split(separator).collect::<Vec<_>>().try_into().ok()
}

/// Days in the proleptic Gregorian calendar, counted from years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
