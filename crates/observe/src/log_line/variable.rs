//! How a variable of the [language](touchstone_expression) is written into a line of the access log.

use touchstone_expression::{Fact, Source, Variable};
use touchstone_http::decimal;

use super::clock::LogClock;
use super::escape::append_common;
use super::number::append_seconds;
use super::record::Record;

/// Appends the value of a variable; an empty one is a hyphen. Values that every line has are written without
/// a copy.
pub(super) fn append(variable: &Variable, line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    match variable.fact {
        Fact::Time => line.extend_from_slice(clock.common()),
        Fact::TimeRfc3339 => line.extend_from_slice(clock.rfc3339()),
        Fact::TimeUnix => clock.append_unix(line),
        Fact::Client => line.extend_from_slice(record.client.as_bytes()),
        Fact::Status => decimal::append(u64::from(record.status), line),
        Fact::BodyBytes => decimal::append(record.body_bytes, line),
        Fact::Duration => decimal::append(record.duration_us, line),
        Fact::DurationSeconds => append_seconds(record.duration_us, line),
        // As requested, with its port.
        Fact::Host => given(line, record.host.unwrap_or_default()),
        _ => given(line, &record.value(variable).unwrap_or_default()),
    }
}

/// A value in the form that a line may contain; an empty one is a hyphen.
pub(super) fn given(line: &mut Vec<u8>, value: &[u8]) {
    append_common(line, if value.is_empty() { b"-" } else { value });
}
