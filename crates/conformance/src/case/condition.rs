//! Conditions on the answers, on the end of the connection, and on the requests that the origin received.

use touchstone_http::hexadecimal;

/// One alternative. All of its conditions must be true.
pub type Alternative = Vec<Condition>;

/// A test of one of the answers, or of the whole connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The number of the answer, from 1, or of the stream of HTTP/2 or HTTP/3; absent: the case's default.
    pub subject: Option<u64>,
    /// The test.
    pub test: Test,
}

/// A test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// The status is in one of these ranges.
    Status(Vec<(u16, u16)>),
    /// There is a status, and it is in none of these ranges.
    NotStatus(Vec<(u16, u16)>),
    /// A status of 4xx or 5xx, or the connection was closed (or the stream reset) without an answer.
    Refused,
    /// The server closed the connection.
    Closed,
    /// The server did not close the connection.
    Open,
    /// No answer was received.
    Silent,
    /// Exactly this many final answers were received.
    Answers(usize),
    /// An interim answer with this status was received.
    Interim(u16),
    /// No interim answer with this status was received.
    NoInterim(u16),
    /// The field is present.
    Field(String),
    /// The field is absent.
    NoField(String),
    /// The field has this value.
    FieldIs(String, String),
    /// The field contains this text, in any case.
    FieldHas(String, String),
    /// The field does not contain this text, or is absent.
    FieldLacks(String, String),
    /// The field is a date in the preferred format (RFC 9110 section 5.6.7).
    FieldIsDate(String),
    /// The field has this many lines.
    FieldLines(String, usize),
    /// The field is a number in this range.
    FieldWithin(String, u64, u64),
    /// The body has this length: a number or a placeholder.
    BodyLength(String),
    /// This many bytes of the body were received; it need not be complete.
    BodySoFar(usize),
    /// The body contains this text.
    BodyHas(String),
    /// The body does not contain this text.
    BodyLacks(String),
    /// The origin received this many requests.
    Origin(usize),
    /// The origin received at most this many requests.
    OriginAtMost(usize),
    /// A request to the origin (1: the first) contains this text.
    OriginHas(usize, String),
    /// A request to the origin does not contain this text.
    OriginLacks(usize, String),
    /// The connection ended with one of these errors (HTTP/2, HTTP/3).
    ConnectionError(Vec<String>),
    /// The stream was reset with one of these errors.
    StreamError(Vec<String>),
    /// HTTP/2: a frame of this type was received.
    Frame(String),
    /// HTTP/2: a setting has a value in this range, or was not sent.
    Setting(u16, u32, u32),
    /// HTTP/2: this many acknowledgements of SETTINGS were received.
    SettingsAcks(usize),
    /// HTTP/2: an answer to a PING with these bytes was received.
    Pong(Vec<u8>),
    /// HTTP/2, HTTP/3: the first frame of the server (of its control stream) is SETTINGS.
    SettingsFirst,
}

/// Parses alternatives; an error states what is wrong.
pub fn alternatives(texts: &[String]) -> Result<Vec<Alternative>, String> {
    texts.iter().map(|text| text.split(" & ").map(|part| condition(part.trim())).collect()).collect()
}

fn condition(text: &str) -> Result<Condition, String> {
    let (subject, rest) = match text.split_once(": ") {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            (Some(number.parse().map_err(|_| format!("`{number}` is not a number"))?), rest)
        }
        _ => (None, text),
    };
    let test = test(rest).ok_or_else(|| format!("`{rest}` is not a condition"))?;
    Ok(Condition { subject, test })
}

fn test(text: &str) -> Option<Test> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let number = || rest.parse::<usize>().ok();
    Some(match word {
        "refused" => Test::Refused,
        "closed" => Test::Closed,
        "open" => Test::Open,
        "silent" => Test::Silent,
        "not" => Test::NotStatus(statuses(rest)?),
        "answers" => Test::Answers(number()?),
        "interim" => Test::Interim(rest.parse().ok()?),
        "no-interim" => Test::NoInterim(rest.parse().ok()?),
        "field" => field(rest)?,
        "no-field" => Test::NoField(rest.to_ascii_lowercase()),
        "body" => body(rest)?,
        "body-so-far" => Test::BodySoFar(number()?),
        "origin" => origin(rest)?,
        "connection-error" => Test::ConnectionError(names(rest)),
        "stream-error" => Test::StreamError(names(rest)),
        "frame" => Test::Frame(rest.to_owned()),
        "setting" => {
            let mut words = rest.split(' ');
            let id = words.next()?.parse().ok()?;
            Test::Setting(id, words.next()?.parse().ok()?, words.next()?.parse().ok()?)
        }
        "settings-acks" => Test::SettingsAcks(number()?),
        "settings-first" => Test::SettingsFirst,
        "pong" => Test::Pong(hexadecimal::decode(rest)?),
        _ => Test::Status(statuses(text)?),
    })
}

/// `200`, `4xx`, `400/501`.
fn statuses(text: &str) -> Option<Vec<(u16, u16)>> {
    let one = |part: &str| match part.strip_suffix("xx") {
        Some(class) => class
            .parse::<u16>()
            .ok()
            .filter(|class| (1..=9).contains(class))
            .map(|class| (class * 100, class * 100 + 99)),
        None => {
            part.parse().ok().filter(|status| (100..=999).contains(status)).map(|status| (status, status))
        }
    };
    text.split('/').map(one).collect()
}

fn field(text: &str) -> Option<Test> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let name = name.to_ascii_lowercase();
    let (sign, value) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(match sign {
        "" => Test::Field(name),
        "=" => Test::FieldIs(name, value.to_owned()),
        "~" => Test::FieldHas(name, value.to_ascii_lowercase()),
        "!~" => Test::FieldLacks(name, value.to_ascii_lowercase()),
        "is-date" => Test::FieldIsDate(name),
        "lines" => Test::FieldLines(name, value.parse().ok()?),
        "within" => {
            let (least, most) = value.split_once(' ')?;
            Test::FieldWithin(name, least.parse().ok()?, most.parse().ok()?)
        }
        _ => return None,
    })
}

fn body(text: &str) -> Option<Test> {
    Some(match text.split_once(' ') {
        Some(("~", part)) => Test::BodyHas(part.to_owned()),
        Some(("!~", part)) => Test::BodyLacks(part.to_owned()),
        Some(_) => return None,
        None => Test::BodyLength(text.to_owned()),
    })
}

/// `2`, `at-most 1`, `~ part`, `!~ part`, `2 ~ part`.
fn origin(text: &str) -> Option<Test> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if first == "at-most" {
        return Some(Test::OriginAtMost(rest.parse().ok()?));
    }
    let (number, rest) = match first.parse::<usize>() {
        Ok(count) if rest.is_empty() => return Some(Test::Origin(count)),
        Ok(number) => (number, rest),
        Err(_) => (1, text),
    };
    match rest.split_once(' ')? {
        ("~", part) => Some(Test::OriginHas(number, part.to_ascii_lowercase())),
        ("!~", part) => Some(Test::OriginLacks(number, part.to_ascii_lowercase())),
        _ => None,
    }
}

fn names(text: &str) -> Vec<String> {
    text.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Test, String> {
        Ok(alternatives(&[text.to_owned()])?.remove(0).remove(0).test)
    }

    #[test]
    fn conditions_are_read() {
        assert_eq!(one("4xx/501"), Ok(Test::Status(vec![(400, 499), (501, 501)])));
        assert_eq!(one("field Vary ~ Accept"), Ok(Test::FieldHas("vary".into(), "accept".into())));
        assert_eq!(one("origin 2 !~ x-a"), Ok(Test::OriginLacks(2, "x-a".into())));
        assert_eq!(one("pong 00ff"), Ok(Test::Pong(vec![0, 255])));
        assert_eq!(one("body 0"), Ok(Test::BodyLength("0".into())));
        let both = alternatives(&["3: 200 & closed".to_owned()]).unwrap();
        assert_eq!(both[0][0].subject, Some(3));
        assert_eq!(both[0][1], Condition { subject: None, test: Test::Closed });
    }

    #[test]
    fn what_is_no_condition_is_named() {
        assert_eq!(one("perhaps"), Err("`perhaps` is not a condition".to_owned()));
        assert!(one("99").is_err() && one("field X within 1").is_err() && one("pong 0").is_err());
    }
}
