//! A request in the form for Java: numbers, then texts, then header fields, in one piece of memory.
//!
//! ```text
//! 0 flags  4 fields  8 server port  12 client port  16 local port  20 key bits  24 body length (8)
//! 32 number  36 connection (8)  44 stream (8; -1: none)
//! 52 texts: method, path, query, protocol, host, client, local, user, TLS version, cipher suite,
//!    client's subject; then the name and the value of each field; then a number, and this many certificates
//!    of the client in DER form, its own first; each text is a length (-1: none) and its bytes
//! ```
//!
//! All numbers are little-endian. `RequestReader.java` reads it.

use std::net::{IpAddr, SocketAddr};

use touchstone_handler::request::{PlainGet, Protocol, Request, TlsFacts};
use touchstone_http::host::split_port;
use touchstone_http::ip_text::IpText;
use touchstone_http::request::{Expectation, RequestHead};

/// The client uses TLS.
const IS_SECURE: u32 = 1;
/// The client waits for `100 Continue` before it sends its body.
const EXPECTS_CONTINUE: u32 = 2;
/// There is a body.
const HAS_BODY: u32 = 4;
/// The client requests a switch of protocols.
const MAY_SWITCH: u32 = 8;
/// The answer has no body.
const IS_HEAD: u32 = 16;

/// The offset of the request's number.
const NUMBER_AT: usize = 32;

/// The offset of the texts.
const TEXTS_AT: usize = 52;

/// The facts that a handler adds to a request.
#[derive(Debug, Clone, Copy)]
pub struct HandlerFacts<'a> {
    /// The path for the application.
    pub path: &'a [u8],
    /// There is a body.
    pub has_body: bool,
    /// The client requests a switch of protocols.
    pub may_switch: bool,
}

/// The request that is written.
pub struct Source<'a> {
    head: &'a RequestHead,
    buffer: &'a [u8],
    protocol: Protocol,
    query: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
    client: Option<SocketAddr>,
    port_at_proxy: Option<u16>,
    is_https: bool,
    server: SocketAddr,
    tls: Option<&'a TlsFacts>,
    user: Option<&'a [u8]>,
    body_length: Option<u64>,
    connection: u64,
    stream: Option<u64>,
}

impl<'a> From<&'a Request> for Source<'a> {
    fn from(request: &'a Request) -> Source<'a> {
        Source {
            head: &request.received.head,
            buffer: &request.received.buffer,
            protocol: request.protocol,
            query: request.query.as_deref(),
            host: request.host.as_deref(),
            client: request.internet_client(),
            port_at_proxy: request.port_at_proxy(),
            is_https: request.is_https(),
            server: request.server,
            tls: request.tls.as_deref(),
            user: request.user.as_deref().map(str::as_bytes),
            body_length: request.body_length(),
            connection: request.connection,
            stream: request.stream,
        }
    }
}

impl<'a> From<&PlainGet<'a>> for Source<'a> {
    fn from(get: &PlainGet<'a>) -> Source<'a> {
        Source {
            head: get.head,
            buffer: get.buffer,
            protocol: get.protocol,
            query: get.query,
            host: get.host,
            client: get.internet_client(),
            port_at_proxy: get.port_at_proxy(),
            is_https: get.is_https(),
            server: get.server,
            tls: get.tls,
            user: get.user.map(str::as_bytes),
            body_length: Some(0),
            connection: get.connection,
            stream: None,
        }
    }
}

impl Source<'_> {
    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.head.fields.iter().map(|line| (line.name.of(self.buffer), line.value.of(self.buffer)))
    }
}

/// Writes a request.
pub fn write(out: &mut Vec<u8>, request: &Source<'_>, handler_facts: HandlerFacts<'_>) {
    out.clear();
    let method = request.head.method_span.of(request.buffer);
    let is_set = |flag: u32, is: bool| if is { flag } else { 0 };
    let is_secure = request.is_https;
    let flags = is_set(IS_SECURE, is_secure)
        | is_set(EXPECTS_CONTINUE, request.head.expectation != Expectation::None)
        | is_set(HAS_BODY, handler_facts.has_body)
        | is_set(MAY_SWITCH, handler_facts.may_switch)
        | is_set(IS_HEAD, method == b"HEAD");
    let (host, port) = split_port(request.host.unwrap_or_default());
    let usual_port = if is_secure { 443 } else { 80 };
    let server_port = request.port_at_proxy.or(port).unwrap_or(if host.is_empty() {
        request.server.port()
    } else {
        usual_port
    });
    let has_length = || request.fields().any(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
    let length = match (handler_facts.has_body, request.body_length) {
        (true, Some(length)) => i64::try_from(length).unwrap_or(i64::MAX),
        (true, None) => -1,
        // RFC 9110 section 8.6: a GET without a length has no body, and a server must not add a length.
        (false, _) if has_length() => 0,
        (false, _) => -1,
    };
    number(out, flags);
    number(out, 0);
    number(out, u32::from(server_port));
    number(out, request.client.map_or(0, |client| u32::from(client.port())));
    number(out, u32::from(request.server.port()));
    number(out, request.tls.and_then(TlsFacts::key_bits).map_or(0, u32::from));
    out.extend_from_slice(&length.to_le_bytes());
    number(out, 0);
    out.extend_from_slice(&request.connection.to_le_bytes());
    let stream = request.stream.and_then(|stream| i64::try_from(stream).ok()).unwrap_or(-1);
    out.extend_from_slice(&stream.to_le_bytes());

    text(out, method);
    text(out, handler_facts.path);
    optional(out, request.query);
    text(
        out,
        if request.protocol == Protocol::Http10 { b"HTTP/1.0" } else { request.protocol.text().as_bytes() },
    );
    address(out, host, request.server.ip());
    match request.client {
        Some(client) => address(out, b"", client.ip()),
        None => text(out, b"0.0.0.0"),
    }
    address(out, b"", request.server.ip());
    optional(out, request.user);
    let tls = request.tls;
    optional(out, tls.map(|tls| tls.version.as_bytes()));
    optional(out, tls.map(|tls| tls.cipher_suite.as_bytes()));
    optional(out, tls.and_then(|tls| tls.client_subject.as_deref()).map(str::as_bytes));

    let mut fields: u32 = 0;
    for (name, value) in request.fields() {
        text(out, name);
        text(out, value);
        fields += 1;
    }
    out[4..8].copy_from_slice(&fields.to_le_bytes());
    let certificates = tls.map_or(&[][..], |tls| &tls.client_certificates);
    number(out, u32::try_from(certificates.len()).unwrap_or(0));
    certificates.iter().for_each(|certificate| text(out, certificate));
}

/// Sets the number of a request, by which later events refer to it.
pub fn set_number(request: &mut [u8], value: i32) {
    if let Some(place) = request.get_mut(NUMBER_AT..NUMBER_AT + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// Method and path of a request, for the log.
pub fn description(request: &[u8]) -> String {
    let text = |at: usize| {
        let (length, rest) = request.get(at..)?.split_first_chunk::<4>()?;
        rest.get(..u32::from_le_bytes(*length) as usize)
    };
    let method = text(TEXTS_AT).unwrap_or_default();
    let path = text(TEXTS_AT + 4 + method.len()).unwrap_or_default();
    format!("{} {}", method.escape_ascii(), path.escape_ascii())
}

fn number(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, u32::try_from(bytes.len()).unwrap_or(0));
    out.extend_from_slice(bytes);
}

fn optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => text(out, bytes),
        None => out.extend_from_slice(&(-1i32).to_le_bytes()),
    }
}

/// A host name, or the IP address if there is none; IPv6 without brackets if it is not a host.
fn address(out: &mut Vec<u8>, name: &[u8], ip: IpAddr) {
    match name {
        b"" => text(out, IpText::of(ip).as_bytes()),
        name => text(out, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_from_an_address_of_version_6() {
        for (host, name, port) in [
            (&b"a"[..], &b"a"[..], None),
            (b"a:8080", b"a", Some(8080)),
            (b"[::1]", b"[::1]", None),
            (b"[::1]:81", b"[::1]", Some(81)),
            (b"a:", b"a", None),
        ] {
            assert_eq!(split_port(host), (name, port));
        }
    }

    #[test]
    fn addresses_are_written_as_everybody_writes_them() {
        for written in ["0.0.0.0", "127.0.0.1", "10.20.99.100", "255.109.200.9", "2001:db8::1", "::1"] {
            let mut out = Vec::new();
            address(&mut out, b"", written.parse().unwrap());
            assert_eq!(&out[4..], written.as_bytes());
            assert_eq!(out[..4], (written.len() as u32).to_le_bytes());
        }
        let mut out = Vec::new();
        address(&mut out, b"", "::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(&out[4..], b"192.0.2.1");
    }

    #[test]
    fn numbers_are_set_where_java_looks_for_them() {
        let mut request = vec![0; 40];
        set_number(&mut request, 0x0102_0304);
        assert_eq!(request[32..36], [4, 3, 2, 1]);
        set_number(&mut [0; 3], 1);
    }
}
