//! What of a head goes on, and what is said about the client.
//!
//! Fields that belong to one connection end here (RFC 9110 section 7.6.1). What a client says of itself in the fields that
//! proxies add (`X-Forwarded-For` and its kin) is replaced by what the server knows: an origin trusts these fields.

use touchstone_http::date::{format_imf_fixdate, parse_http_date};
use touchstone_http::grammar::list_members;
use touchstone_http::response::ResponseHead;

use super::settings::{HostField, ProxySettings};
use crate::request::Request;

/// Fields of one connection.
const CONNECTION_FIELDS: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that are said anew, or are none of the origin's business.
const REPLACED_FIELDS: [&str; 9] = [
    "content-length",
    "expect",
    "forwarded",
    "host",
    "proxy-authorization",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Whether the client asks to speak another protocol.
pub fn wants_to_switch(request: &Request) -> bool {
    let names_upgrade = |value: &[u8]| list_has(value, b"upgrade");
    request.received.values("upgrade").next().is_some()
        && request.received.values("connection").any(names_upgrade)
}

/// The head of the request to the origin; `None` where the path has not the prefix that is to be left out.
pub fn request_head(settings: &ProxySettings, request: &Request) -> Option<Vec<u8>> {
    let target = request.path_and_query();
    let target = match settings.strip_prefix.as_slice() {
        b"" => &target[..],
        prefix => target.strip_prefix(prefix)?,
    };
    let mut head = Vec::with_capacity(512);
    let mut add = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| head.extend_from_slice(piece));
    add(&[request.received.method_text(), b" ", settings.origin.base_path.as_bytes()]);
    if !target.starts_with(b"/") {
        add(&[b"/"]);
    }
    add(&[target, b" HTTP/1.1\r\n"]);
    let host = match settings.host {
        HostField::Client => request.host.as_deref().unwrap_or(settings.origin.authority.as_bytes()),
        HostField::Origin => settings.origin.authority.as_bytes(),
    };
    add(&[b"Host: ", host, b"\r\n"]);
    let connection: Vec<&[u8]> = request.received.values("connection").collect();
    for (name, value) in request.received.fields() {
        let ends_here = is_one_of(name, &CONNECTION_FIELDS) || is_one_of(name, &REPLACED_FIELDS);
        if !ends_here && !connection.iter().any(|list| list_has(list, name)) {
            add(&[name, b": ", value, b"\r\n"]);
        }
    }
    if let Some(client) = request.client {
        let client = client.ip().to_canonical().to_string();
        add(&[b"X-Forwarded-For: ", client.as_bytes(), b"\r\n"]);
        add(&[b"X-Real-IP: ", client.as_bytes(), b"\r\n"]);
    }
    add(&[b"X-Forwarded-Proto: ", if request.tls.is_some() { b"https" } else { b"http" }, b"\r\n"]);
    if let Some(host) = &request.host {
        add(&[b"X-Forwarded-Host: ", host, b"\r\n"]);
    }
    if wants_to_switch(request) {
        add(&[b"Connection: upgrade\r\n"]);
        request.received.values("upgrade").for_each(|value| add(&[b"Upgrade: ", value, b"\r\n"]));
    }
    match request.body_length() {
        None => add(&[b"Transfer-Encoding: chunked\r\n"]),
        Some(0) if request.received.values("content-length").next().is_none() => {}
        Some(length) => add(&[b"Content-Length: ", length.to_string().as_bytes(), b"\r\n"]),
    }
    add(&[b"\r\n"]);
    Some(head)
}

/// The field lines of a response that go on to the client.
pub fn response_fields(head: &ResponseHead) -> Vec<u8> {
    let mut lines = Vec::with_capacity(256);
    let connection = head.field(b"connection").unwrap_or_default();
    for (name, value) in head.fields() {
        let is_said_anew = is_one_of(name, &["content-length", "date", "server"]);
        if !is_said_anew && !is_one_of(name, &CONNECTION_FIELDS) && !list_has(connection, name) {
            for piece in [name, b": ", value, b"\r\n"] {
                lines.extend_from_slice(piece);
            }
        }
    }
    if head.status == 101 {
        lines.extend_from_slice(b"Connection: upgrade\r\n");
        if let Some(protocol) = head.field(b"upgrade") {
            for piece in [b"Upgrade: ", protocol, b"\r\n"] {
                lines.extend_from_slice(piece);
            }
        }
    }
    lines
}

/// When the origin says that its response was made: who passes it on must not say otherwise (RFC 9110 section 6.6.1).
pub fn response_date(head: &ResponseHead) -> Option<[u8; 29]> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0));
    let date = parse_http_date(head.field(b"date")?, now)?;
    Some(format_imf_fixdate(date))
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

fn list_has(list: &[u8], name: &[u8]) -> bool {
    list_members(list).any(|member| member.eq_ignore_ascii_case(name))
}
