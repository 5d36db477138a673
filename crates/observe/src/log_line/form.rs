//! The forms of a line: Common, Combined, JSON, or custom.

use std::sync::Arc;

use touchstone_expression::{AvailableFrom, Scope};
use touchstone_http::decimal;

use super::clock::LogClock;
use super::escape::{LARGEST_COMMON, LARGEST_JSON, append_common, append_json};
use super::record::Record;
use super::template::Template;

/// The form of an access log line.
#[derive(Debug, Clone, PartialEq)]
pub enum LineFormat {
    /// The Common Log Format.
    Common,
    /// Common with Referer and User-Agent.
    Combined,
    /// One JSON object a line.
    Json,
    /// According to a format string.
    Template(Arc<Template>),
}

impl LineFormat {
    /// The form that a configuration names: a word, or a format string. The error states what is wrong with
    /// it.
    pub fn parse(text: &str) -> Result<LineFormat, String> {
        LineFormat::parse_in(text, AvailableFrom::Line.into())
    }

    /// The same with the maps of a scope.
    pub fn parse_in(text: &str, scope: Scope<'_>) -> Result<LineFormat, String> {
        match text {
            "common" => Ok(LineFormat::Common),
            "combined" => Ok(LineFormat::Combined),
            "json" => Ok(LineFormat::Json),
            _ => Template::compile(text, scope).map(|template| LineFormat::Template(Arc::new(template))),
        }
    }

    /// Whether a line contains the duration; if not, no clock needs to be read for it.
    pub fn needs_duration(&self) -> bool {
        match self {
            LineFormat::Common | LineFormat::Combined => false,
            LineFormat::Json => true,
            LineFormat::Template(template) => template.needs_duration,
        }
    }

    /// Whether a line contains the request's id; if not, no id needs to be made for it.
    pub fn needs_request_id(&self) -> bool {
        match self {
            LineFormat::Common | LineFormat::Combined => false,
            LineFormat::Json => true,
            LineFormat::Template(template) => template.needs_request_id,
        }
    }

    /// Appends one line, with its end, as it is written in the log.
    #[inline]
    pub fn append(&self, line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
        match self {
            LineFormat::Common => append_common_line(line, clock, record),
            LineFormat::Combined => append_combined_line(line, clock, record),
            LineFormat::Json => append_json_line(line, clock, record),
            LineFormat::Template(template) => template.append(line, clock, record),
        }
    }
}

/// An upper bound for the length of this record's line; `None` if it is not known in advance.
#[inline]
pub fn largest_line(format: &LineFormat, record: &Record<'_>) -> Option<usize> {
    const FIXED: usize = 640;
    let optional = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
    let client = record.client.len();
    let user = record.user.map_or(0, str::len);
    Some(match format {
        LineFormat::Common => FIXED + client + LARGEST_COMMON * (user + record.request_line.len()),
        LineFormat::Combined => {
            let fields = optional(record.referer) + optional(record.user_agent);
            FIXED + client + LARGEST_COMMON * (user + record.request_line.len() + fields)
        }
        LineFormat::Json => {
            let line = record.method.len() + record.target.len() + record.version.len();
            let fields = optional(record.host) + optional(record.referer) + optional(record.user_agent);
            let names = record.site.len() + record.route.len() + record.handler.len() + record.cache.len();
            let tls = record
                .tls
                .map_or(0, |tls| tls.version.len() + tls.cipher.len() + tls.subject.map_or(0, str::len));
            // A valid trace context is no longer than its field may be, for which the fixed part has space.
            let ids = user + optional(record.request_id);
            FIXED + LARGEST_JSON * (client + line + fields + names + tls + ids)
        }
        LineFormat::Template(_) => return None,
    })
}

/// `1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 6250`
fn append_common_line(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    append_common_fields(line, clock, record);
    line.push(b'\n');
}

/// The same, with ` "referer" "user agent"`.
fn append_combined_line(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    append_common_fields(line, clock, record);
    line.extend_from_slice(b" \"");
    append_common(line, record.referer.unwrap_or(b"-"));
    line.extend_from_slice(b"\" \"");
    append_common(line, record.user_agent.unwrap_or(b"-"));
    line.extend_from_slice(b"\"\n");
}

fn append_common_fields(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    line.extend_from_slice(record.client.as_bytes());
    match record.user {
        None => line.extend_from_slice(b" - - ["),
        Some(user) => {
            line.extend_from_slice(b" - ");
            append_user(line, user.as_bytes());
            line.extend_from_slice(b" [");
        }
    }
    line.extend_from_slice(clock.common());
    line.extend_from_slice(b"] \"");
    append_common(line, if record.request_line.is_empty() { b"-" } else { record.request_line });
    line.extend_from_slice(b"\" ");
    decimal::append(u64::from(record.status), line);
    if record.body_bytes == 0 {
        line.extend_from_slice(b" -");
    } else {
        line.push(b' ');
        decimal::append(record.body_bytes, line);
    }
}

/// The user is written without quotes: a space in the name would be taken for the next field.
fn append_user(line: &mut Vec<u8>, user: &[u8]) {
    if user.is_empty() {
        return line.extend_from_slice(b"\"\"");
    }
    for (index, word) in user.split(|byte| *byte == b' ').enumerate() {
        if index > 0 {
            line.extend_from_slice(b"\\x20");
        }
        append_common(line, word);
    }
}

/// One object. Values that every request could have are `null` if this one has none; values that few requests
/// have are left out if there are none.
fn append_json_line(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    let given = |bytes| Some(bytes).filter(|bytes: &&[u8]| !bytes.is_empty());
    line.extend_from_slice(b"{\"time\":\"");
    line.extend_from_slice(clock.rfc3339());
    line.extend_from_slice(b"\",\"client\":\"");
    append_json(line, record.client.as_bytes());
    line.extend_from_slice(b"\",\"user\":");
    append_json_string(line, record.user.map(str::as_bytes));
    line.extend_from_slice(b",\"method\":");
    append_json_string(line, given(record.method));
    line.extend_from_slice(b",\"target\":");
    append_json_string(line, given(record.target));
    line.extend_from_slice(b",\"version\":");
    append_json_string(line, given(record.version.as_bytes()));
    line.extend_from_slice(b",\"status\":");
    decimal::append(u64::from(record.status), line);
    line.extend_from_slice(b",\"body_bytes\":");
    decimal::append(record.body_bytes, line);
    line.extend_from_slice(b",\"duration_us\":");
    decimal::append(record.duration_us, line);
    line.extend_from_slice(b",\"host\":");
    append_json_string(line, record.host);
    line.extend_from_slice(b",\"referer\":");
    append_json_string(line, record.referer);
    line.extend_from_slice(b",\"user_agent\":");
    append_json_string(line, record.user_agent);
    append_known(line, b",\"request_id\":", record.request_id);
    append_known(line, b",\"traceparent\":", record.trace().map(|trace| trace.text()));
    if let Some(ids) = record.trace_ids {
        append_known(line, b",\"trace_id\":", Some(&ids.trace));
        append_known(line, b",\"span_id\":", Some(&ids.span));
    }
    append_known(line, b",\"site\":", given(record.site.as_bytes()));
    append_known(line, b",\"route\":", given(record.route.as_bytes()));
    append_known(line, b",\"handler\":", given(record.handler.as_bytes()));
    append_known(line, b",\"cache\":", given(record.cache.as_bytes()));
    if let Some(tls) = record.tls {
        append_known(line, b",\"tls_version\":", given(tls.version.as_bytes()));
        append_known(line, b",\"tls_cipher\":", given(tls.cipher.as_bytes()));
        append_known(line, b",\"tls_subject\":", tls.subject.map(str::as_bytes));
    }
    line.extend_from_slice(b"}\n");
}

/// Appends fields for the journal of systemd, each after this byte.
pub fn append_journal_fields(line: &mut Vec<u8>, before: u8, record: &Record<'_>) {
    let (status, body_bytes) = (record.status.to_string(), record.body_bytes.to_string());
    let duration = record.duration_us.to_string();
    let fields: [(&str, &[u8]); 14] = [
        ("HTTP_CLIENT", record.client.as_bytes()),
        ("HTTP_USER", record.user.unwrap_or_default().as_bytes()),
        ("HTTP_METHOD", record.method),
        ("HTTP_TARGET", record.target),
        ("HTTP_VERSION", record.version.as_bytes()),
        ("HTTP_STATUS", status.as_bytes()),
        ("HTTP_BODY_BYTES", body_bytes.as_bytes()),
        ("HTTP_DURATION_US", duration.as_bytes()),
        ("HTTP_HOST", record.host.unwrap_or_default()),
        ("HTTP_REFERER", record.referer.unwrap_or_default()),
        ("HTTP_USER_AGENT", record.user_agent.unwrap_or_default()),
        ("HTTP_REQUEST_ID", record.request_id.unwrap_or_default()),
        ("HTTP_SITE", record.site.as_bytes()),
        ("HTTP_ROUTE", record.route.as_bytes()),
    ];
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        line.push(before);
        line.extend_from_slice(name.as_bytes());
        line.push(b'=');
        append_common(line, value);
    }
}

#[inline]
fn append_known(line: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    if value.is_some() {
        line.extend_from_slice(name);
        append_json_string(line, value);
    }
}

fn append_json_string(line: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            line.push(b'"');
            append_json(line, bytes);
            line.push(b'"');
        }
        None => line.extend_from_slice(b"null"),
    }
}
