//! Evaluates conditions.

use super::Subject;
use super::observed::{Answer, ParsedTranscript, latin1};
use crate::case::{Condition, Facts, Test};
use touchstone_http::date::parse_http_date;

/// Whether the condition is true for what was received.
pub(super) fn holds(
    condition: &Condition,
    usual: Subject,
    observed: &ParsedTranscript,
    facts: &Facts,
) -> bool {
    let subject = match (condition.subject, usual) {
        (None, usual) => usual,
        (Some(stream), Subject::Stream(_)) => Subject::Stream(stream),
        (Some(number), _) => Subject::Number(number),
    };
    let answer = answer(observed, subject);
    let status = answer.map(|answer| answer.status);
    let is_in = |ranges: &[(u16, u16)], status: u16| {
        ranges.iter().any(|(least, most)| (*least..=*most).contains(&status))
    };
    match &condition.test {
        Test::Status(ranges) => status.is_some_and(|status| is_in(ranges, status)),
        Test::NotStatus(ranges) => status.is_some_and(|status| !is_in(ranges, status)),
        Test::Refused => match status {
            Some(status) => status >= 400,
            None => {
                observed.closed
                    || observed.connection_error.is_some()
                    || !resets(observed, subject).is_empty()
            }
        },
        Test::Closed => observed.closed || observed.connection_error.is_some(),
        Test::Open => !observed.closed && observed.connection_error.is_none(),
        Test::Silent => observed.answers.is_empty() && observed.malformed.is_none(),
        Test::Answers(count) => observed.answers.len() == *count && observed.malformed.is_none(),
        Test::Interim(status) => observed.interim.contains(status),
        Test::NoInterim(status) => !observed.interim.contains(status),
        Test::Origin(count) => observed.origin.len() == *count,
        Test::OriginAtMost(count) => observed.origin.len() <= *count,
        Test::OriginHas(number, part) => origin(observed, *number).is_some_and(|text| text.contains(part)),
        Test::OriginLacks(number, part) => origin(observed, *number).is_none_or(|text| !text.contains(part)),
        Test::ConnectionError(names) => observed.connection_error.as_ref().is_some_and(|error| {
            names.is_empty() || names.contains(error) || error == "closed without GOAWAY"
        }),
        Test::StreamError(names) => {
            let resets = resets(observed, subject);
            resets.iter().any(|error| names.is_empty() || names.iter().any(|name| name == error))
        }
        Test::Frame(name) => crate::case::http2_type(name)
            .is_some_and(|kind| observed.frames.iter().any(|&f| u64::from(f) == kind)),
        Test::Setting(id, least, most) => {
            let mut values = observed.settings.iter().filter(|(own, _)| own == id);
            values.all(|(_, value)| (*least..=*most).contains(value)) && observed.settings_first
        }
        Test::SettingsAcks(count) => observed.settings_acks == *count,
        Test::SettingsFirst => observed.settings_first,
        Test::Pong(bytes) => observed.pongs.iter().any(|pong| pong[..] == bytes[..]),
        of_answer => answer.is_some_and(|answer| holds_of(of_answer, answer, facts)),
    }
}

/// Whether a condition on fields or body is true for an answer.
fn holds_of(test: &Test, answer: &Answer, facts: &Facts) -> bool {
    let has = |name: &str, part: &str| {
        answer.field(name).is_some_and(|value| value.to_ascii_lowercase().contains(&filled(part, facts)))
    };
    match test {
        Test::Field(name) => answer.field(name).is_some(),
        Test::NoField(name) => answer.field(name).is_none(),
        Test::FieldIs(name, value) => answer.field(name).is_some_and(|own| own == facts.fill(value, "", 0)),
        Test::FieldHas(name, part) => has(name, part),
        Test::FieldLacks(name, part) => !has(name, part),
        Test::FieldIsDate(name) => answer.field(name).is_some_and(|value| is_preferred_date(&value)),
        Test::FieldLines(name, count) => answer.lines(name).count() == *count,
        Test::FieldWithin(name, least, most) => answer
            .field(name)
            .and_then(|value| value.parse::<u64>().ok())
            .is_some_and(|value| (*least..=*most).contains(&value)),
        Test::BodyLength(length) => {
            answer.complete && facts.fill(length, "", 0).parse() == Ok(answer.body.len())
        }
        Test::BodySoFar(length) => answer.body.len() == *length,
        Test::BodyHas(part) => latin1(&answer.body).contains(&facts.fill(part, "", 0)),
        Test::BodyLacks(part) => !latin1(&answer.body).contains(&facts.fill(part, "", 0)),
        _ => false,
    }
}

/// A text with its placeholders filled in, in lower case.
fn filled(part: &str, facts: &Facts) -> String {
    facts.fill(part, "", 0).to_ascii_lowercase()
}

/// Whether a text is an IMF-fixdate with a valid date.
fn is_preferred_date(value: &str) -> bool {
    value.len() == 29 && value.ends_with(" GMT") && parse_http_date(value.as_bytes(), 0).is_some()
}

fn answer(observed: &ParsedTranscript, subject: Subject) -> Option<&Answer> {
    match subject {
        Subject::Number(number) => observed.answers.get(usize::try_from(number).ok()?.checked_sub(1)?),
        Subject::Last => observed.answers.last(),
        Subject::Stream(stream) => observed.answers.iter().find(|answer| answer.stream == stream),
    }
}

fn resets(observed: &ParsedTranscript, subject: Subject) -> Vec<&str> {
    let is_of_subject = |stream: u64| match subject {
        Subject::Stream(wanted) => wanted == stream,
        _ => true,
    };
    observed
        .resets
        .iter()
        .filter(|(stream, _)| is_of_subject(*stream))
        .map(|(_, error)| error.as_str())
        .collect()
}

fn origin(observed: &ParsedTranscript, number: usize) -> Option<&str> {
    observed.origin.get(number.checked_sub(1)?).map(String::as_str)
}
