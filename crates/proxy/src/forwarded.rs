//! The fields that describe the client and this server to an origin: `X-Forwarded-*`, `Forwarded` (RFC 7239)
//! and `Via`.
//!
//! Origins trust these fields, so values from a client are never forwarded. Values from a proxy in front of
//! this server are kept only if that proxy is trusted and the configuration selects it.

use std::net::IpAddr;

use touchstone_expression::Text;
use touchstone_expression::text::field_value;
use touchstone_http::grammar::{list_members, token_length};
use touchstone_http::request_view::UNIX_CLIENT;

use touchstone_handler::request::{Protocol, Request};

/// The treatment of a field that previous proxies may have set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forward {
    /// It is set to the values of this connection.
    Set,
    /// The value from a trusted proxy is kept, and the values of this connection are appended.
    Append,
    /// It is not sent.
    Off,
}

/// The fields for origins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardRules {
    /// `X-Forwarded-For`, `-Proto` and `-Host`, and `X-Real-IP`.
    pub x_forwarded: Forward,
    /// `Forwarded`.
    pub forwarded: Forward,
    /// The name of this server in `Via`; empty: the field is not sent.
    pub via: String,
    /// Fields that are set, replacing those of the client.
    pub set: Vec<(String, Text)>,
    /// Fields that are removed, in lower case.
    pub remove: Vec<String>,
    /// Protocols that clients may switch to.
    pub upgrades: Vec<String>,
}

/// A request that has passed this server this many times is in a loop.
const MOST_PASSES: usize = 10;

/// The fields that only this server may set.
pub const OWN_FIELDS: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Whether a request is in a loop: it has passed this server too many times, according to `Via`.
pub fn is_in_loop(rules: &ForwardRules, request: &Request) -> bool {
    if rules.via.is_empty() {
        return false;
    }
    let is_own = |member: &&[u8]| member.split(|byte| *byte == b' ').nth(1) == Some(rules.via.as_bytes());
    let passes: usize =
        request.received.values("via").map(|value| list_members(value).filter(is_own).count()).sum();
    passes >= MOST_PASSES
}

/// Appends the field lines.
pub fn append_lines(rules: &ForwardRules, request: &Request, lines: &mut Vec<u8>) {
    let client = request.internet_client().map(|client| client.ip().to_canonical());
    // A received field is used only if it comes from a trusted proxy, whose address is then appended to the
    // list. The peer of a unix socket has no address.
    let is_trusted = request.trusted_proxy.is_some();
    let peer = request.trusted_proxy.filter(|proxy| *proxy != UNIX_CLIENT).map(|proxy| proxy.to_canonical());
    let scheme: &[u8] = if request.is_https() { b"https" } else { b"http" };
    // A value of `set` replaces that of the server.
    let is_set = |name: &str| rules.set.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut add = |name: &str, values: &[&[u8]]| {
        if !is_set(name) {
            append_line(name, values, lines);
        }
    };
    let previous = |name: &str, how: Forward| -> Vec<u8> {
        match how == Forward::Append && is_trusted {
            true => request.received.values(name).collect::<Vec<_>>().join(&b", "[..]),
            false => Vec::new(),
        }
    };
    if rules.x_forwarded != Forward::Off {
        let before = previous("x-forwarded-for", rules.x_forwarded);
        // The address of the proxy is appended to a list; without a list, the client's address is sent.
        let own = if before.is_empty() { client } else { peer };
        if own.is_some() || !before.is_empty() {
            let own = own.map(|address| address.to_string()).unwrap_or_default();
            add("X-Forwarded-For", &[&before, own.as_bytes()]);
        }
        if let Some(client) = client {
            add("X-Real-IP", &[client.to_string().as_bytes()]);
        }
        let previous_scheme = previous("x-forwarded-proto", rules.x_forwarded);
        add("X-Forwarded-Proto", &[if previous_scheme.is_empty() { scheme } else { &previous_scheme }]);
        let previous_host = previous("x-forwarded-host", rules.x_forwarded);
        match (previous_host.is_empty(), &request.host) {
            (false, _) => add("X-Forwarded-Host", &[&previous_host]),
            (true, Some(host)) => add("X-Forwarded-Host", &[host]),
            (true, None) => {}
        }
    }
    if rules.forwarded != Forward::Off {
        let before = previous("forwarded", rules.forwarded);
        // Each element describes one hop: the client's, or the proxy's after a list.
        let (node, scheme) = match before.is_empty() {
            true => (client, scheme),
            false => (peer, if request.tls.is_some() { &b"https"[..] } else { b"http" }),
        };
        add("Forwarded", &[&before, &forwarded_element(node, request.host.as_deref(), scheme)]);
    }
    if !rules.via.is_empty() {
        let version = match request.protocol {
            Protocol::Http10 => "1.0",
            Protocol::Http11 => "1.1",
            Protocol::Http2 => "2",
            Protocol::Http3 => "3",
        };
        let before = request.received.values("via").collect::<Vec<_>>().join(&b", "[..]);
        add("Via", &[&before, format!("{version} {}", rules.via).as_bytes()]);
    }
    for (name, value) in &rules.set {
        // A field with an empty or invalid value is omitted.
        if let Some(value) = field_value(&value.render(request)) {
            append_line(name, &[value], lines);
        }
    }
}

/// Appends a field line with a list of the values that are not empty.
fn append_line(name: &str, values: &[&[u8]], lines: &mut Vec<u8>) {
    lines.extend_from_slice(name.as_bytes());
    lines.extend_from_slice(b": ");
    for (index, value) in values.iter().filter(|value| !value.is_empty()).enumerate() {
        if index > 0 {
            lines.extend_from_slice(b", ");
        }
        lines.extend_from_slice(value);
    }
    lines.extend_from_slice(b"\r\n");
}

/// `for=192.0.2.1;host=example.org;proto=https` (RFC 7239 section 4).
fn forwarded_element(node: Option<IpAddr>, host: Option<&[u8]>, scheme: &[u8]) -> Vec<u8> {
    let node = match node {
        None => "unknown".to_string(),
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("\"[{address}]\""),
    };
    let mut element = format!("for={node};").into_bytes();
    if let Some(host) = host {
        element.extend_from_slice(b"host=");
        if token_length(host) == host.len() && !host.is_empty() {
            element.extend_from_slice(host);
        } else {
            element.push(b'"');
            for &byte in host {
                if matches!(byte, b'"' | b'\\') {
                    element.push(b'\\');
                }
                element.push(byte);
            }
            element.push(b'"');
        }
        element.push(b';');
    }
    element.extend_from_slice(b"proto=");
    element.extend_from_slice(scheme);
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_quote_values_that_are_no_token() {
        let element = |node: &str, host: Option<&[u8]>| {
            String::from_utf8(forwarded_element(node.parse().ok(), host, b"https")).unwrap()
        };
        assert_eq!(element("192.0.2.1", Some(b"a.example")), "for=192.0.2.1;host=a.example;proto=https");
        assert_eq!(
            element("2001:db8::1", Some(b"a.example:81")),
            "for=\"[2001:db8::1]\";host=\"a.example:81\";proto=https"
        );
        assert_eq!(element("", None), "for=unknown;proto=https");
        assert_eq!(element("", Some(b"a\"\\")), "for=unknown;host=\"a\\\"\\\\\";proto=https");
    }
}
