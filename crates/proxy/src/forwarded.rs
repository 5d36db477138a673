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

use touchstone_handler::request::{PlainGet, Protocol, Request};

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

/// What is known about the client of a request, and the fields that it sent.
pub struct ClientFacts<'a, F> {
    /// The fields, in order.
    pub fields: F,
    /// The address of the client behind trusted proxies.
    client: Option<IpAddr>,
    /// Whether a trusted proxy forwarded the request.
    is_from_trusted_proxy: bool,
    /// The address of that proxy. The peer of a unix socket has none.
    proxy: Option<IpAddr>,
    /// Whether the client uses HTTPS, to this server or to the proxy.
    is_https: bool,
    /// Whether the connection to this server uses TLS.
    is_tls: bool,
    host: Option<&'a [u8]>,
    protocol: Protocol,
}

/// The facts about the client of a request.
pub fn client_of(request: &Request) -> ClientFacts<'_, impl Iterator<Item = (&[u8], &[u8])> + Clone> {
    let proxy = request.trusted_proxy.filter(|proxy| *proxy != UNIX_CLIENT);
    ClientFacts {
        fields: request.received.fields(),
        client: request.internet_client().map(|client| client.ip().to_canonical()),
        is_from_trusted_proxy: request.trusted_proxy.is_some(),
        proxy: proxy.map(|proxy| proxy.to_canonical()),
        is_https: request.is_https(),
        is_tls: request.tls.is_some(),
        host: request.host.as_deref(),
        protocol: request.protocol,
    }
}

/// The same for a plain GET, of which the address of a trusted proxy is not known.
pub fn client_of_plain_get<'a>(
    get: &PlainGet<'a>,
) -> ClientFacts<'a, impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone> {
    ClientFacts {
        fields: get.fields(),
        client: get.internet_client().map(|client| client.ip().to_canonical()),
        is_from_trusted_proxy: get.is_from_trusted_proxy,
        proxy: None,
        is_https: get.is_https(),
        is_tls: get.tls.is_some(),
        host: get.host,
        protocol: get.protocol,
    }
}

impl<'a, F: Iterator<Item = (&'a [u8], &'a [u8])> + Clone> ClientFacts<'a, F> {
    /// The values of a field.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> + use<'a, F> {
        let is_it = move |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name.as_bytes());
        self.fields.clone().filter(is_it).map(|(_, value)| value)
    }

    /// The values of a field as one list.
    fn list(&self, name: &'static str) -> Vec<u8> {
        let mut list = Vec::new();
        for (index, value) in self.values(name).enumerate() {
            if index > 0 {
                list.extend_from_slice(b", ");
            }
            list.extend_from_slice(value);
        }
        list
    }

    /// Whether the request is in a loop: it has passed this server too many times, according to `Via`.
    pub fn is_in_loop(&self, rules: &ForwardRules) -> bool {
        if rules.via.is_empty() {
            return false;
        }
        let is_own = |member: &&[u8]| member.split(|byte| *byte == b' ').nth(1) == Some(rules.via.as_bytes());
        let passes: usize = self.values("via").map(|value| list_members(value).filter(is_own).count()).sum();
        passes >= MOST_PASSES
    }

    /// Appends the field lines, without those of [`ForwardRules::set`].
    pub fn append_lines(&self, rules: &ForwardRules, lines: &mut Vec<u8>) {
        let scheme: &[u8] = if self.is_https { b"https" } else { b"http" };
        // A value of `set` replaces that of the server.
        let is_set = |name: &str| rules.set.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut add = |name: &str, values: &[&[u8]]| {
            if !is_set(name) {
                append_line(name, values, lines);
            }
        };
        // A received field is used only if it comes from a trusted proxy, whose address is then appended to
        // the list.
        let previous = |name: &'static str, how: Forward| match how == Forward::Append {
            true if self.is_from_trusted_proxy => self.list(name),
            _ => Vec::new(),
        };
        if rules.x_forwarded != Forward::Off {
            let before = previous("x-forwarded-for", rules.x_forwarded);
            let client = self.client.map(|address| address.to_string());
            let proxy = self.proxy.filter(|_| !before.is_empty()).map(|address| address.to_string());
            // The address of the proxy is appended to a list; without a list, the client's address is sent.
            let own = if before.is_empty() { &client } else { &proxy };
            if own.is_some() || !before.is_empty() {
                add("X-Forwarded-For", &[&before, own.as_deref().unwrap_or_default().as_bytes()]);
            }
            if let Some(client) = &client {
                add("X-Real-IP", &[client.as_bytes()]);
            }
            let previous_scheme = previous("x-forwarded-proto", rules.x_forwarded);
            add("X-Forwarded-Proto", &[if previous_scheme.is_empty() { scheme } else { &previous_scheme }]);
            let previous_host = previous("x-forwarded-host", rules.x_forwarded);
            match (previous_host.is_empty(), self.host) {
                (false, _) => add("X-Forwarded-Host", &[&previous_host]),
                (true, Some(host)) => add("X-Forwarded-Host", &[host]),
                (true, None) => {}
            }
        }
        if rules.forwarded != Forward::Off {
            let before = previous("forwarded", rules.forwarded);
            // Each element describes one hop: the client's, or the proxy's after a list.
            let (node, scheme) = match before.is_empty() {
                true => (self.client, scheme),
                false => (self.proxy, if self.is_tls { &b"https"[..] } else { b"http" }),
            };
            add("Forwarded", &[&before, &forwarded_element(node, self.host, scheme)]);
        }
        if !rules.via.is_empty() {
            let version = match self.protocol {
                Protocol::Http10 => "1.0 ",
                Protocol::Http11 => "1.1 ",
                Protocol::Http2 => "2 ",
                Protocol::Http3 => "3 ",
            };
            let own = [version.as_bytes(), rules.via.as_bytes()].concat();
            add("Via", &[&self.list("via"), &own]);
        }
    }
}

/// Appends the field lines of [`ForwardRules::set`].
pub fn append_set_lines(rules: &ForwardRules, request: &Request, lines: &mut Vec<u8>) {
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
