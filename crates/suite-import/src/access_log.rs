//! Access logs, one request a line: the Common Log Format, the Combined one, JSON as our own server and
//! others write it, the W3C's Extended Log File Format, and any other that is described by a [`LogFormat`].
//!
//! A log has no bodies, so that requests of methods that send one are left out; and it has no fields, so that
//! all requests are as plain as a load generator sends them.

use super::log_format::{Field, LogFormat};
use super::{
    ImportError, Kind, OmittedEntries, REQUESTS_MAX, RecordedRequest, Recording, is_method, origin_form,
};
use serde_json::Value;
use std::time::Duration;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// The longest line, in bytes; longer lines are left out.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// If a file is not a log, checking every line is useless.
const BAD_LINES_FIRST: usize = 100;
/// `10/Oct/2000:13:55:36 -0700`.
const COMMON_TIME: &[BorrowedFormatItem<'_>] = format_description!(
    "[day]/[month repr:short]/[year]:[hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute]"
);

/// `2026-11-20 10:00:00`, optionally with a fraction of a second.
const COLUMN_TIME: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second][optional [.[subsecond]]]");

/// Reads a log; `file` names it in messages. Without a format, it is detected from the lines.
pub fn read(file: &str, text: &str, format: Option<&LogFormat>) -> Result<Recording, ImportError> {
    let mut format = format.cloned();
    let (mut recording, mut left_out) = (Recording::default(), OmittedEntries::default());
    let mut times: Vec<Option<OffsetDateTime>> = Vec::new();
    let mut bad = 0;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(directive) = line.strip_prefix('#') {
            format = directive.strip_prefix("Fields:").and_then(LogFormat::of_columns).or(format);
            continue;
        }
        let entry = if line.len() > LINE_BYTES_MAX { None } else { entry(line, format.as_ref()) };
        let Some(Entry { request, time }) = entry else {
            bad += 1;
            if recording.requests.is_empty() && bad == BAD_LINES_FIRST {
                break;
            }
            left_out.note("lines that are not entries of a log", number + 1);
            continue;
        };
        match request {
            Err(reason) => left_out.note(reason, number + 1),
            Ok(_) if recording.requests.len() == REQUESTS_MAX => {
                return Err(ImportError::new(
                    file,
                    number + 1,
                    format!("more than {REQUESTS_MAX} requests; import a part of the log"),
                ));
            }
            Ok(request) => {
                recording.requests.push(request);
                times.push(time);
            }
        }
    }
    if recording.requests.is_empty() {
        return Err(ImportError::new(file, 0, no_requests(&left_out)));
    }
    recording.notes = left_out.notes();
    set_moments(&mut recording, &times);
    Ok(recording)
}

fn no_requests(left_out: &OmittedEntries) -> String {
    let reasons = left_out.notes().join("; ");
    format!(
        "no request of the file can be imported{}{reasons}. A line is one of the Common or \
         Combined Log Format, a JSON object with `method`, `target` and `status`, or of the format that \
         --log-format describes",
        if reasons.is_empty() { "" } else { ": " }
    )
}

struct Entry {
    /// The request, or why it is left out, in the plural.
    request: Result<RecordedRequest, String>,
    time: Option<OffsetDateTime>,
}

fn entry(line: &str, format: Option<&LogFormat>) -> Option<Entry> {
    match format {
        Some(format) => formatted_entry(format, line),
        None if line.starts_with('{') => json_entry(line),
        None => common_entry(line),
    }
}

/// A line of the stated format.
fn formatted_entry(format: &LogFormat, line: &str) -> Option<Entry> {
    let values = format.values(line)?;
    let value = |field| {
        let found = values.iter().find(|(of, value)| *of == field && !["", "-"].contains(value));
        found.map(|(_, value)| unescaped(value))
    };
    let (method, target) = match value(Field::Request) {
        Some(line) => {
            let mut words = line.split(' ').map(str::to_string);
            (words.next(), words.next())
        }
        None => (value(Field::Method), value(Field::Target).or_else(|| value(Field::Path))),
    };
    let (method, target) = (method.unwrap_or_default(), target.unwrap_or_default());
    let target = with_query(target, value(Field::Query));
    let status = value(Field::Status)?.parse().ok()?;
    let bytes = value(Field::Bytes).and_then(|bytes| bytes.parse().ok());
    let time = match (value(Field::Time), value(Field::Date), value(Field::TimeOfDay)) {
        (Some(time), ..) => moment(&time),
        (None, Some(date), Some(time)) => {
            let moment = PrimitiveDateTime::parse(&format!("{date} {time}"), COLUMN_TIME);
            moment.ok().map(PrimitiveDateTime::assume_utc)
        }
        _ => None,
    };
    Some(Entry { request: request(&method, &target, status, bytes), time })
}

/// The path with the query, if a log has them in separate columns.
fn with_query(path: String, query: Option<String>) -> String {
    match query.filter(|query| !["", "-"].contains(&query.as_str()) && !path.contains('?')) {
        Some(query) => format!("{path}?{}", query.trim_start_matches('?')),
        None => path,
    }
}

/// A moment in any of the usual forms: that of the Common Log Format, RFC 3339, seconds since 1970.
fn moment(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim();
    OffsetDateTime::parse(text, COMMON_TIME)
        .or_else(|_| OffsetDateTime::parse(text, &Rfc3339))
        .ok()
        .or_else(|| since_1970(text.parse().ok()?))
}

fn since_1970(seconds: f64) -> Option<OffsetDateTime> {
    // Some logs have milliseconds: the year 5138 is far.
    let seconds = if seconds.abs() > 1e11 { seconds / 1000.0 } else { seconds };
    seconds.is_finite().then_some(())?;
    OffsetDateTime::from_unix_timestamp_nanos((seconds * 1e6).round() as i128 * 1000).ok()
}

/// `host ident user [time] "request" status bytes ...`
fn common_entry(line: &str) -> Option<Entry> {
    // Host, identity and user; a user may have spaces in it, and a host or a user brackets.
    let begins = line.match_indices('[').map(|(at, _)| line.split_at(at));
    let mut begins = begins.filter(|(before, _)| before.split_ascii_whitespace().count() >= 3);
    let (time, line, rest) = begins.find_map(|(_, rest)| {
        let (time, rest) = rest[1..].split_once(']')?;
        let (line, rest) = quoted(rest.trim_start())?;
        Some((moment(time), line, rest))
    })?;
    let mut words = rest.split_ascii_whitespace();
    let status: u16 = words.next()?.parse().ok().filter(|status| (100..1000).contains(status))?;
    let bytes = match words.next()? {
        "-" => 0,
        digits => digits.parse().ok()?,
    };
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Some(Entry { request: request(method, target, status, Some(bytes)), time })
}

/// A text in quotes, without its escapes, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some((unescaped(&text[..end]), &text[end + 1..]))
}

/// A text without the escapes of a log: `\"` of Apache, `\x22` of nginx and our own.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = text.get(at + 2..at + 4).filter(|_| bytes[at..].starts_with(b"\\x"));
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()), bytes.get(at + 1)) {
            (b'\\', Some(byte), _) => {
                out.push(byte);
                at += 4;
            }
            (b'\\', None, Some(&escaped)) => {
                out.push(escaped);
                at += 2;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An object with the names of our own server's log, or of others: nginx's variables, Caddy, Traefik, Envoy.
fn json_entry(line: &str) -> Option<Entry> {
    let value: Value = serde_json::from_str(line).ok()?;
    let object = value.as_object()?;
    // Caddy has the request in a separate object.
    let request_object = object.get("request").and_then(Value::as_object);
    let get = |name: &&str| object.get(*name).or_else(|| request_object?.get(*name));
    let first = |names: &[&str]| names.iter().find_map(get).filter(|value| !value.is_null());
    let text = |names: &[&str]| first(names).and_then(Value::as_str).map(str::to_string);
    let number = |names: &[&str]| {
        let value = first(names)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let request_line = text(&["request"]);
    let mut words = request_line.as_deref().unwrap_or_default().split(' ');
    let method =
        text(&["method", "request_method", "RequestMethod"]).or_else(|| words.next().map(str::to_string))?;
    let target = text(&["target", "request_uri", "uri", "path", "RequestPath"]);
    let target = target.or_else(|| words.next().map(str::to_string))?;
    let target = with_query(target, text(&["query", "query_string", "args"]));
    let status = number(&["status", "response_code", "DownstreamStatus"]);
    let status = status.and_then(|status| u16::try_from(status).ok())?;
    let bytes =
        number(&["body_bytes", "body_bytes_sent", "bytes", "size", "bytes_sent", "DownstreamContentSize"]);
    let time = first(&[
        "time",
        "time_iso8601",
        "time_local",
        "timestamp",
        "@timestamp",
        "ts",
        "msec",
        "StartUTC",
        "start_time",
    ]);
    let time = time.and_then(|time| match time {
        Value::String(time) => moment(time),
        time => since_1970(time.as_f64()?),
    });
    Some(Entry { request: request(&method, &target, status, bytes), time })
}

/// A request of a log, or why it is left out.
fn request(method: &str, target: &str, status: u16, bytes: Option<u64>) -> Result<RecordedRequest, String> {
    if !is_method(method) {
        return Err("requests that were no HTTP".to_string());
    }
    if !["GET", "HEAD"].contains(&method) {
        return Err(format!("{method} requests, whose bodies a log does not have"));
    }
    if !(200..600).contains(&status) || status == 499 {
        return Err("requests that were not answered".to_string());
    }
    let path = origin_form(target).ok_or("requests whose target is not a path that can be sent")?;
    Ok(RecordedRequest {
        method: method.to_string(),
        kind: Kind::of_path(&path),
        // A partial answer, or one without a body because the client had it already, does not show the whole
        // length.
        bytes: bytes.filter(|_| status == 200 && method == "GET"),
        status: Some(status),
        ..RecordedRequest::get(path)
    })
}

/// Gives every request its time, from the first on. Servers write a line when a request ends, so lines may be
/// out of order; most write whole seconds. Requests of one second are spread over it evenly, because there
/// was no burst at its beginning.
fn set_moments(recording: &mut Recording, times: &[Option<OffsetDateTime>]) {
    let Some(first) = times.iter().flatten().min().copied() else { return };
    if times.iter().any(Option::is_none) {
        recording
            .notes
            .push("some lines have no time, so that the recording cannot be replayed in time".to_string());
        return;
    }
    let is_whole_seconds = times.iter().flatten().all(|time| time.nanosecond() == 0);
    let second = |time: &OffsetDateTime| (*time - first).whole_seconds().max(0) as u64;
    let mut in_second: std::collections::HashMap<u64, (u32, u32)> = std::collections::HashMap::new();
    for time in times.iter().flatten() {
        in_second.entry(second(time)).or_default().0 += 1;
    }
    for (request, time) in recording.requests.iter_mut().zip(times.iter().flatten()) {
        let after = match in_second.get_mut(&second(time)) {
            Some((count, taken)) if is_whole_seconds => {
                *taken += 1;
                Duration::from_secs(second(time)) + Duration::from_secs(1) * (*taken - 1) / *count
            }
            _ => (*time - first).try_into().unwrap_or_default(),
        };
        request.after = Some(after);
    }
    recording.requests.sort_by_key(|request| request.after);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_lab::suite::path_problem;

    const COMBINED: &str = concat!(
        r#"127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a.html HTTP/1.0" 200 2326 "http://x/\"y" "#,
        r#""Mozilla/4.08 [en]"
::1 - frank doe [10/Oct/2000:13:55:36 -0700] "GET /a.html?q=\x22 HTTP/1.1" 304 -
10.0.0.1 - - [10/Oct/2000:13:55:38 -0700] "POST /form HTTP/1.1" 200 5 "-" "-"
10.0.0.1 - - [10/Oct/2000:13:55:38 -0700] "HEAD http://www.example/b.png HTTP/1.1" 200 0 "-" "-"
10.0.0.1 - - [10/Oct/2000:13:55:39 -0700] "\x16\x03\x01" 400 150 "-" "-"
10.0.0.1 - - [10/Oct/2000:13:55:39 -0700] "GET /c.css HTTP/1.1" 499 0 "-" "-"
nonsense
"#
    );

    #[test]
    fn common_and_combined_lines_are_read() {
        let recording = read("access.log", COMBINED, None).unwrap();
        let seen: Vec<_> = recording
            .requests
            .iter()
            .map(|r| (r.method.as_str(), r.path.as_str(), r.bytes, r.status, r.after.unwrap().as_millis()))
            .collect();
        assert_eq!(
            seen,
            [
                ("GET", "/a.html", Some(2326), Some(200), 0),
                ("GET", "/a.html?q=\"", None, Some(304), 500),
                ("HEAD", "/b.png", None, Some(200), 2000),
            ]
        );
        let notes = recording.notes.join("\n");
        for expected in [
            "1 POST requests, whose bodies a log does not have (the first in line 3)",
            "1 requests that were no HTTP (the first in line 5)",
            "1 requests that were not answered (the first in line 6)",
            "1 lines that are not entries of a log (the first in line 7)",
        ] {
            assert!(notes.contains(expected), "{notes}");
        }
    }

    #[test]
    fn json_lines_keep_their_milliseconds() {
        let text = concat!(
            r#"{"time":"2026-11-22T08:00:00.250Z","method":"GET","target":"/x","status":200,"#,
            r#""body_bytes":5}
{"time":"2026-11-22T08:00:00.125Z","request":"GET /y.js HTTP/1.1","status":"200","bytes":"7"}"#
        );
        let recording = read("access.json", text, None).unwrap();
        let seen: Vec<_> = recording
            .requests
            .iter()
            .map(|r| (r.path.as_str(), r.bytes, r.after.unwrap().as_millis()))
            .collect();
        assert_eq!(seen, [("/y.js", Some(7), 0), ("/x", Some(5), 125)]);
    }

    #[test]
    fn objects_of_other_servers_are_read() {
        for (line, path, bytes) in [
            // nginx with a log_format of its own variables
            (
                r#"{"time_iso8601":"2026-11-22T08:00:00+00:00","request_method":"GET","uri":"/n","args":"a=b","status":"200","body_bytes_sent":"12"}"#,
                "/n?a=b",
                Some(12),
            ),
            // Caddy 2
            (
                r#"{"level":"info","ts":1795334400.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"::1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/c?x=1","headers":{}},"duration":0.000929,"size":10900,"status":200}"#,
                "/c?x=1",
                Some(10_900),
            ),
            // Traefik 3
            (
                r#"{"ClientAddr":"10.0.0.1:1","DownstreamContentSize":17,"DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/t","StartUTC":"2026-11-22T08:00:00.123456789Z"}"#,
                "/t",
                Some(17),
            ),
            // our own, where nothing was sent
            (
                r#"{"time":"2026-11-22T08:00:00.250Z","method":"GET","target":"/x","status":200,"body_bytes":null}"#,
                "/x",
                None,
            ),
        ] {
            let recording = read("access.json", line, None).unwrap();
            let request = &recording.requests[0];
            assert_eq!((request.path.as_str(), request.bytes), (path, bytes), "{line}");
            assert!(request.after.is_some(), "{line}");
        }
    }

    #[test]
    fn a_log_that_names_its_columns_is_read() {
        let text = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n\
                    #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query c-ip sc-status sc-bytes \
                    time-taken\n\
                    2026-11-20 10:00:00 10.0.0.1 GET /a.html - 10.0.0.2 200 512 15\n\
                    2026-11-20 10:00:02 10.0.0.1 GET /b q=1 10.0.0.2 404 9 15\n\
                    #Fields: date time cs-method cs-uri-stem sc-status\n\
                    2026-11-20 10:00:04 GET /c 200\n";
        let recording = read("u_ex.log", text, None).unwrap();
        let seen: Vec<_> = recording
            .requests
            .iter()
            .map(|r| (r.path.as_str(), r.bytes, r.status, r.after.unwrap().as_millis()))
            .collect();
        assert_eq!(
            seen,
            [
                ("/a.html", Some(512), Some(200), 0),
                ("/b?q=1", None, Some(404), 2000),
                ("/c", None, Some(200), 4000)
            ]
        );
    }

    #[test]
    fn a_format_that_is_told_is_read() {
        let format = LogFormat::parse("$client [$time_unix] $status $body_bytes \"$request\"").unwrap();
        let text = "::1 [1795334400.250] 200 7 \"GET /a?b=\\x22 HTTP/1.1\"\n\
                    ::1 [1795334400.500] 304 - \"GET /a HTTP/1.1\"\nelse\n";
        let recording = read("mine.log", text, Some(&format)).unwrap();
        let seen: Vec<_> = recording
            .requests
            .iter()
            .map(|r| (r.path.as_str(), r.bytes, r.after.unwrap().as_millis()))
            .collect();
        assert_eq!(seen, [("/a?b=\"", Some(7), 0), ("/a", None, 250)]);
        assert_eq!(recording.notes.len(), 1);
    }

    #[test]
    fn odd_lines_are_read_or_named() {
        let long = format!(
            "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /{} HTTP/1.1\" 200 1",
            "a".repeat(LINE_BYTES_MAX)
        );
        let text = [
            // A virtual host first, an address in brackets, a user with one.
            "www.example:80 1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /vhost HTTP/1.1\" 200 1",
            "[::1] - - [10/Oct/2000:13:55:36 -0700] \"GET /address HTTP/1.1\" 200 1",
            "::1 - a[b]c [10/Oct/2000:13:55:36 -0700] \"GET /user HTTP/1.1\" 200 1",
            // HTTP/0.9, a quote and a backslash in the target, a byte that is not text.
            "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /nine\" 200 1",
            r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /\"\\ HTTP/1.1" 200 1"#,
            "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /\u{fffd} HTTP/1.1\" 200 1",
            &long,
        ];
        let recording = read("odd.log", &text.join("\r\n"), None).unwrap();
        let paths: Vec<&str> = recording.requests.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, ["/vhost", "/address", "/user", "/nine", "/\"\\"]);
        assert_eq!(
            recording.notes,
            [
                "left out: 1 lines that are not entries of a log (the first in line 7)",
                "left out: 1 requests whose target is not a path that can be sent (the first in line 6)"
            ]
        );
    }

    #[test]
    fn what_is_no_log_says_so() {
        for text in
            ["", "one\ntwo\n", "10.0.0.1 - - [10/Oct/2000:13:55:38 -0700] \"POST /form HTTP/1.1\" 200 5"]
        {
            let message = read("x.log", text, None).unwrap_err().to_string();
            assert!(message.starts_with("x.log: no request of the file can be imported"), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,300}") {
            let _ = read("any.log", &text, None);
            let format = LogFormat::parse("$method $target $status $time $query").unwrap();
            let _ = read("any.log", &text, Some(&format));
        }

        #[test]
        fn no_damage_to_a_good_log_makes_the_reader_panic(
            at in 0..COMBINED.len(),
            put in "[\\x20-\\x7e\\n\\\\\"]{0,8}",
        ) {
            let mut text = COMBINED.to_string();
            text.replace_range(at..(at + 1), &put);
            if let Ok(recording) = read("any.log", &text, None) {
                prop_assert!(recording.requests.iter().all(|request| path_problem(&request.path).is_none()));
                prop_assert!(recording.requests.windows(2).all(|pair| pair[0].after <= pair[1].after));
            }
        }
    }
}
