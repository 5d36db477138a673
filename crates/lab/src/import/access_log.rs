//! Access logs: the Common Log Format, the Combined one, and JSON as our own server writes it, one request a line.
//!
//! A log has no bodies, so that requests of methods that send one are left out; and it has no fields, so that all requests are as plain
//! as a load generator sends them.

use super::{ImportError, Kind, LeftOut, REQUESTS_MAX, RecordedRequest, Recording, is_method, origin_form};
use serde_json::Value;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// The longest line, in bytes; what is longer is left out.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Of a file that is no log, it is no use to look at every line.
const BAD_LINES_FIRST: usize = 100;
/// `10/Oct/2000:13:55:36 -0700`.
const COMMON_TIME: &[BorrowedFormatItem<'_>] = format_description!(
    "[day]/[month repr:short]/[year]:[hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute]"
);

/// Reads a log; `file` names it in messages.
pub fn read(file: &str, text: &str) -> Result<Recording, ImportError> {
    let (mut recording, mut left_out) = (Recording::default(), LeftOut::default());
    let mut times: Vec<Option<OffsetDateTime>> = Vec::new();
    let mut bad = 0;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = if line.len() > LINE_BYTES_MAX { None } else { entry(line) };
        let Some(Entry { request, time }) = entry else {
            bad += 1;
            if recording.requests.is_empty() && bad == BAD_LINES_FIRST {
                break;
            }
            left_out.note("lines that are no entry of a log", number + 1);
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
        let reasons = left_out.notes().join("; ");
        let message = format!(
            "there is no request in it that can be taken over{}{reasons}. A line is one of the Common or Combined Log Format, or a JSON object \
             with `method`, `target` and `status`",
            if reasons.is_empty() { "" } else { ": " }
        );
        return Err(ImportError::new(file, 0, message));
    }
    recording.notes = left_out.notes();
    set_moments(&mut recording, &times);
    Ok(recording)
}

struct Entry {
    /// The request, or why it is left out, in the plural.
    request: Result<RecordedRequest, String>,
    time: Option<OffsetDateTime>,
}

fn entry(line: &str) -> Option<Entry> {
    if line.starts_with('{') { json_entry(line) } else { common_entry(line) }
}

/// `host ident user [time] "request" status bytes ...`
fn common_entry(line: &str) -> Option<Entry> {
    let (before, rest) = line.split_once('[')?;
    // Host, identity and user; a user may have spaces in it.
    (before.split_ascii_whitespace().count() >= 3).then_some(())?;
    let (time, rest) = rest.split_once(']')?;
    let time = OffsetDateTime::parse(time.trim(), COMMON_TIME).ok();
    let (line, rest) = quoted(rest.trim_start())?;
    let mut words = rest.split_ascii_whitespace();
    let status: u16 = words.next()?.parse().ok().filter(|status| (100..1000).contains(status))?;
    let bytes = match words.next()? {
        "-" => 0,
        digits => digits.parse().ok()?,
    };
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Some(Entry { request: request(method, target, status, bytes), time })
}

/// A text in quotes with its escapes (`\"` of Apache, `\x22` of nginx), and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    loop {
        match *bytes.get(at)? {
            b'"' => return Some((String::from_utf8_lossy(&out).into_owned(), text.get(at + 1..)?)),
            b'\\' => {
                let hex = text.get(at + 2..at + 4).filter(|_| bytes.get(at + 1) == Some(&b'x'));
                match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                    Some(byte) => {
                        out.push(byte);
                        at += 4;
                    }
                    None => {
                        out.push(*bytes.get(at + 1)?);
                        at += 2;
                    }
                }
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

/// An object with the names of our own server's log, or those that are common in others.
fn json_entry(line: &str) -> Option<Entry> {
    let value: Value = serde_json::from_str(line).ok()?;
    let object = value.as_object()?;
    let first = |names: &[&str]| names.iter().find_map(|name| object.get(*name));
    let text = |names: &[&str]| first(names).and_then(Value::as_str).map(str::to_string);
    let number = |names: &[&str]| {
        let value = first(names)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let request_line = text(&["request"]);
    let mut words = request_line.as_deref().unwrap_or_default().split(' ');
    let method = text(&["method", "request_method"]).or_else(|| words.next().map(str::to_string))?;
    let target =
        text(&["target", "request_uri", "uri", "path"]).or_else(|| words.next().map(str::to_string))?;
    let status = number(&["status"]).and_then(|status| u16::try_from(status).ok())?;
    let bytes = number(&["body_bytes", "body_bytes_sent", "bytes", "size"]).unwrap_or(0);
    let time = text(&["time", "time_iso8601", "timestamp", "ts"]);
    let time = time.and_then(|time| {
        OffsetDateTime::parse(&time, &Rfc3339).or_else(|_| OffsetDateTime::parse(&time, COMMON_TIME)).ok()
    });
    Some(Entry { request: request(&method, &target, status, bytes), time })
}

/// A request of a log, or why it is left out.
fn request(method: &str, target: &str, status: u16, bytes: u64) -> Result<RecordedRequest, String> {
    if !is_method(method) {
        return Err("requests that were no HTTP".to_string());
    }
    if !["GET", "HEAD"].contains(&method) {
        return Err(format!("{method} requests, whose bodies a log does not have"));
    }
    if !(200..600).contains(&status) || status == 499 {
        return Err("requests that were not answered".to_string());
    }
    let path = origin_form(target).ok_or("requests whose target is no path that can be sent")?;
    Ok(RecordedRequest {
        method: method.to_string(),
        kind: Kind::of_path(&path),
        // A part, or nothing because it was known already, says nothing of the whole.
        bytes: (status == 200 && method == "GET").then_some(bytes),
        status: Some(status),
        ..RecordedRequest::get(path)
    })
}

/// Gives every request its moment, from the first on. Servers write a line when a request ends, so that lines may be out of order;
/// and most write whole seconds: what is of one second is spread over it evenly, since a burst at its beginning was never there.
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

    const COMBINED: &str = r#"127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a.html HTTP/1.0" 200 2326 "http://x/\"y" "Mozilla/4.08 [en]"
::1 - frank doe [10/Oct/2000:13:55:36 -0700] "GET /a.html?q=\x22 HTTP/1.1" 304 -
10.0.0.1 - - [10/Oct/2000:13:55:38 -0700] "POST /form HTTP/1.1" 200 5 "-" "-"
10.0.0.1 - - [10/Oct/2000:13:55:38 -0700] "HEAD http://www.example/b.png HTTP/1.1" 200 0 "-" "-"
10.0.0.1 - - [10/Oct/2000:13:55:39 -0700] "\x16\x03\x01" 400 150 "-" "-"
10.0.0.1 - - [10/Oct/2000:13:55:39 -0700] "GET /c.css HTTP/1.1" 499 0 "-" "-"
nonsense
"#;

    #[test]
    fn common_and_combined_lines_are_read() {
        let recording = read("access.log", COMBINED).unwrap();
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
        for said in [
            "1 POST requests, whose bodies a log does not have (the first in line 3)",
            "1 requests that were no HTTP (the first in line 5)",
            "1 requests that were not answered (the first in line 6)",
            "1 lines that are no entry of a log (the first in line 7)",
        ] {
            assert!(notes.contains(said), "{notes}");
        }
    }

    #[test]
    fn json_lines_keep_their_milliseconds() {
        let text = r#"{"time":"2026-11-22T08:00:00.250Z","method":"GET","target":"/x","status":200,"body_bytes":5}
{"time":"2026-11-22T08:00:00.125Z","request":"GET /y.js HTTP/1.1","status":"200","bytes":"7"}"#;
        let recording = read("access.json", text).unwrap();
        let seen: Vec<_> = recording
            .requests
            .iter()
            .map(|r| (r.path.as_str(), r.bytes, r.after.unwrap().as_millis()))
            .collect();
        assert_eq!(seen, [("/y.js", Some(7), 0), ("/x", Some(5), 125)]);
    }

    #[test]
    fn what_is_no_log_says_so() {
        for text in
            ["", "one\ntwo\n", "10.0.0.1 - - [10/Oct/2000:13:55:38 -0700] \"POST /form HTTP/1.1\" 200 5"]
        {
            let message = read("x.log", text).unwrap_err().to_string();
            assert!(message.starts_with("x.log: there is no request in it"), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,300}") {
            let _ = read("any.log", &text);
        }

        #[test]
        fn no_damage_to_a_good_log_makes_the_reader_panic(at in 0..COMBINED.len(), put in "[\\x20-\\x7e\\n\\\\\"]{0,8}") {
            let mut text = COMBINED.to_string();
            text.replace_range(at..(at + 1), &put);
            if let Ok(recording) = read("any.log", &text) {
                prop_assert!(recording.requests.iter().all(|request| crate::suite::path_problem(&request.path).is_none()));
                prop_assert!(recording.requests.windows(2).all(|pair| pair[0].after <= pair[1].after));
            }
        }
    }
}
