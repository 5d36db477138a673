//! A request as handlers get it: one form, whichever version of HTTP it came in.
//!
//! The head is that of HTTP/1. Requests of HTTP/2 and HTTP/3 are written out as such before a handler is
//! called, with `Host` for `:authority`, and `Transfer-Encoding: chunked` where a body has no known length;
//! so handlers, routes and logs look at one thing.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use touchstone_http::forwarded::{forwarded_is_https, forwarded_port};
use touchstone_http::path::PathRules;
use touchstone_http::request::{Limits, Method, Parsed, RequestBody as Framing, RequestHead};

use crate::interim::TakesInterim;
use crate::pipe::Receiver;

/// The version of HTTP that the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl Protocol {
    /// As in logs and in SERVER_PROTOCOL.
    pub fn text(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2.0",
            Protocol::Http3 => "HTTP/3.0",
        }
    }
}

/// What is known of the TLS session that a request came through.
#[derive(Debug, Clone, Default)]
pub struct TlsFacts {
    /// Such as `TLSv1.3`.
    pub version: &'static str,
    /// Such as `TLS_AES_128_GCM_SHA256`.
    pub cipher_suite: &'static str,
    /// The host that the client named.
    pub server_name: Option<Box<str>>,
    /// Whether the session was resumed.
    pub resumed: bool,
    /// The subject of the client's verified certificate, as RFC 2253 writes it.
    pub client_subject: Option<Box<str>>,
    /// Its issuer.
    pub client_issuer: Option<Box<str>>,
    /// Its serial number in hexadecimal digits.
    pub client_serial: Option<Box<str>>,
    /// The SHA-256 of it in hexadecimal digits.
    pub client_fingerprint: Option<Box<str>>,
    /// It and those that it was shown with, in DER form; none where none was shown.
    pub client_certificates: Arc<[Vec<u8>]>,
}

/// A head with the bytes that it was parsed from.
#[derive(Debug)]
pub struct ReceivedHead {
    /// The head.
    pub head: RequestHead,
    /// The bytes.
    pub buffer: Bytes,
}

impl ReceivedHead {
    /// A part of the head to be kept for itself: shared with the head's bytes where it lies in them.
    pub fn share(&self, part: &[u8]) -> Bytes {
        let whole = self.buffer.as_ptr_range();
        let ends = part.as_ptr_range();
        if whole.start <= ends.start && ends.end <= whole.end {
            return self.buffer.slice_ref(part);
        }
        // An absolute target without a path stands for one that nobody has written.
        Bytes::copy_from_slice(part)
    }

    /// The method as it was sent.
    pub fn method_text(&self) -> &[u8] {
        self.head.method_span.of(&self.buffer)
    }

    /// The target as it stands in the request line.
    pub fn target(&self) -> &[u8] {
        self.head.target.of(&self.buffer)
    }

    /// The header fields in order: names as they were sent, values without surrounding white space.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.head.fields.iter().map(|line| (line.name.of(&self.buffer), line.value.of(&self.buffer)))
    }

    /// The same head with another path in place of `path`, which is part of it; `None` where that would be no
    /// head.
    pub fn with_path(&self, path: &[u8], written: &[u8]) -> Option<ReceivedHead> {
        let begin = path.as_ptr().addr().checked_sub(self.buffer.as_ptr().addr())?;
        let (before, behind) = (self.buffer.get(..begin)?, self.buffer.get(begin + path.len()..)?);
        let buffer = [before, written, behind].concat();
        ReceivedHead::parse_own(buffer)
    }

    /// The same head with other fields: those whose names are to stay, and one more. `None` where that would
    /// be no head.
    pub fn with_fields(
        &self,
        stays: impl Fn(&[u8]) -> bool,
        added: Option<(&[u8], &[u8])>,
    ) -> Option<ReceivedHead> {
        let mut buffer = Vec::with_capacity(self.buffer.len() + 64);
        buffer.extend_from_slice(self.head.request_line.of(&self.buffer));
        buffer.extend_from_slice(b"\r\n");
        for (name, value) in self.fields().filter(|(name, _)| stays(name)).chain(added) {
            for piece in [name, b": ", value, b"\r\n"] {
                buffer.extend_from_slice(piece);
            }
        }
        buffer.extend_from_slice(b"\r\n");
        ReceivedHead::parse_own(buffer)
    }

    /// A head that was written here, of whatever length.
    fn parse_own(buffer: Vec<u8>) -> Option<ReceivedHead> {
        let mut head = RequestHead::new();
        let length = buffer.len();
        // Its fields have passed the client's limits; what is added is ours.
        let limits = Limits { request_line_bytes: length, header_bytes: length, header_fields: length };
        let is_whole = matches!(head.parse(&buffer, &limits), Ok(Parsed::Complete(whole)) if whole == length);
        is_whole.then(|| ReceivedHead { head, buffer: buffer.into() })
    }

    /// The values of a field.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.fields()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

/// A request: what is known of it, and its body.
pub struct Request {
    /// Shared with whoever needs it while a handler has the request; a change makes a copy of its own.
    details: Rc<RequestDetails>,
    /// The body. Reading it asks the client for it, where that waits to be asked (`Expect: 100-continue`).
    pub body: Receiver,
    /// Where a handler leaves interim responses for the client.
    pub interim: Option<Rc<dyn TakesInterim>>,
}

impl Deref for Request {
    type Target = RequestDetails;

    fn deref(&self) -> &RequestDetails {
        &self.details
    }
}

impl DerefMut for Request {
    fn deref_mut(&mut self) -> &mut RequestDetails {
        Rc::make_mut(&mut self.details)
    }
}

/// What is known of a request before its body.
#[derive(Clone)]
pub struct RequestDetails {
    /// The head, which the connection keeps for its log.
    pub received: Rc<ReceivedHead>,
    /// The version of HTTP that the client speaks.
    pub protocol: Protocol,
    /// The path in its normal form, which rules judge: decoded, without dot segments and repeated slashes; an
    /// escaped slash is a zero byte, which only interfaces get that [take
    /// escapes](crate::handler::Interface::takes_escapes).
    pub path: Bytes,
    /// The same written anew, which is what others are asked for; where `path` is empty, the path as it was
    /// sent.
    pub path_as_sent: Bytes,
    /// The query as it was sent, without its question mark.
    pub query: Option<Bytes>,
    /// The host that was asked for, with its port if it was given.
    pub host: Option<Bytes>,
    /// The position of its site in the configuration.
    pub site: usize,
    /// The client's address, behind proxies that are trusted; the port is 0 where only the address is known.
    pub client: Option<SocketAddr>,
    /// The proxy that brought it, if that is trusted: what its fields say of the client is true.
    pub trusted_proxy: Option<IpAddr>,
    /// The address that the server was reached at, as configured.
    pub server: SocketAddr,
    /// The TLS session; `None`: plain HTTP.
    pub tls: Option<Arc<TlsFacts>>,
    /// The user that the server has authenticated.
    pub user: Option<Box<str>>,
    /// What tells it from others in logs; empty where nobody asked for that.
    pub id: Box<str>,
    /// Requests that were made for the sake of one from a client: 0 for that one itself.
    pub depth: u32,
    /// What a page has set that includes a program: names with values.
    pub page_variables: Option<PageVariables>,
}

/// Variables that a page has set.
pub type PageVariables = Rc<[(Vec<u8>, Vec<u8>)]>;

/// A GET without a body, conditions or expectations, as it lies in the connection's buffer.
pub struct PlainGet<'a> {
    /// The head.
    pub head: &'a RequestHead,
    /// The bytes that it was parsed from.
    pub buffer: &'a [u8],
    /// The version of HTTP that the client speaks.
    pub protocol: Protocol,
    /// The path, which is its own normal form.
    pub path: &'a [u8],
    /// Path and query as they were sent.
    pub target: &'a [u8],
    /// The query as it was sent, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The host that was asked for, with its port if it was given.
    pub host: Option<&'a [u8]>,
    /// The client's address, behind proxies that are trusted; the port is 0 where only the address is known.
    pub client: Option<SocketAddr>,
    /// A trusted proxy brought it: what its fields say of the client is true.
    pub is_from_trusted_proxy: bool,
    /// The address that the server was reached at, as configured.
    pub server: SocketAddr,
    /// The TLS session; `None`: plain HTTP.
    pub tls: Option<&'a TlsFacts>,
    /// The user that the server has authenticated.
    pub user: Option<&'a str>,
    /// What tells it from others in logs; empty where nobody asked for that.
    pub id: &'a str,
    /// The time.
    pub unix_seconds: i64,
    /// When the request was there.
    pub received_at: Instant,
}

impl<'a> PlainGet<'a> {
    /// The header fields in order: names as they were sent, values without surrounding white space.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let (head, buffer) = (self.head, self.buffer);
        head.fields.iter().map(move |line| (line.name.of(buffer), line.value.of(buffer)))
    }

    /// Whether the client asked over HTTPS, see [`Request::is_https`].
    pub fn is_https(&self) -> bool {
        forwarded_is_https(|name| self.said_by_proxy(name)).unwrap_or(self.tls.is_some())
    }

    /// The port that the client has asked at a trusted proxy, where that says it.
    pub fn port_at_proxy(&self) -> Option<u16> {
        forwarded_port(|name| self.said_by_proxy(name))
    }

    /// The first value of a field, where a trusted proxy says it.
    fn said_by_proxy(&self, name: &str) -> Option<&'a [u8]> {
        let is_it = |other: &[u8]| self.is_from_trusted_proxy && other.eq_ignore_ascii_case(name.as_bytes());
        self.fields().find(|(other, _)| is_it(other)).map(|(_, value)| value)
    }
}

impl Request {
    /// A request with this body.
    pub fn new(details: RequestDetails, body: Receiver) -> Request {
        Request { details: Rc::new(details), body, interim: None }
    }

    /// The body, for whoever reads it; the request has none from then on.
    pub fn take_body(&mut self) -> Receiver {
        std::mem::replace(&mut self.body, Receiver::of(Bytes::new()))
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.received.head.method
    }

    /// Whether the client asked over HTTPS: of this server, or of a proxy that is trusted and says so.
    pub fn is_https(&self) -> bool {
        forwarded_is_https(|name| self.said_by_proxy(name)).unwrap_or(self.tls.is_some())
    }

    /// The port that the client has asked at a trusted proxy, where that says it.
    pub fn port_at_proxy(&self) -> Option<u16> {
        forwarded_port(|name| self.said_by_proxy(name))
    }

    /// The first value of a field, where a trusted proxy says it.
    fn said_by_proxy(&self, name: &'static str) -> Option<&[u8]> {
        self.trusted_proxy.and_then(|_| self.received.values(name).next())
    }

    /// The length of the body; `None`: not known before its end.
    pub fn body_length(&self) -> Option<u64> {
        match self.received.head.body {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }

    /// The same request, whose body somebody else has.
    pub fn without_body(&self) -> Request {
        Request { details: self.details.clone(), body: Receiver::of(Bytes::new()), interim: None }
    }

    /// Path and query as they were sent, or as a rewrite made them: what an origin is asked for.
    pub fn path_and_query(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(
            self.path_as_sent.len() + self.query.as_ref().map_or(0, |query| query.len() + 1),
        );
        text.extend_from_slice(&self.path_as_sent);
        if let Some(query) = &self.query {
            text.push(b'?');
            text.extend_from_slice(query);
        }
        text
    }

    /// A request of the server's own, for the sake of this one: GET of a path and query, by the same client,
    /// without a body and without what was meant for this request alone (conditions, ranges, what frames the
    /// body). `None` where the target is no path, leads above the root, or there have been too many.
    pub fn derive(&self, target: &[u8]) -> Option<Request> {
        let is_text = |&byte: &u8| byte > b' ' && byte != 0x7f;
        if self.depth >= MOST_DERIVED || !target.starts_with(b"/") || !target.iter().all(is_text) {
            return None;
        }
        let mut parts = target.splitn(2, |&byte| byte == b'?');
        let read = PathRules::USUAL.read(parts.next().unwrap_or_default()).ok()?;
        let query = parts.next().map(Bytes::copy_from_slice);
        let mut buffer = Vec::with_capacity(self.received.buffer.len() + target.len());
        let (mark, text) = query.as_deref().map_or((&b""[..], &b""[..]), |query| (b"?", query));
        for piece in [b"GET ", &read.written[..], mark, text, b" HTTP/1.1\r\n"] {
            buffer.extend_from_slice(piece);
        }
        for (name, value) in self.received.fields().filter(|(name, _)| !is_of_one_request(name)) {
            for piece in [name, b": ", value, b"\r\n"] {
                buffer.extend_from_slice(piece);
            }
        }
        buffer.extend_from_slice(b"\r\n");
        let details = RequestDetails {
            received: Rc::new(ReceivedHead::parse_own(buffer)?),
            path: read.judged.into(),
            path_as_sent: read.written.into(),
            query,
            depth: self.depth + 1,
            ..RequestDetails::clone(self)
        };
        Some(Request::new(details, Receiver::of(Bytes::new())))
    }
}

/// How deep requests may be made for the sake of others.
pub const MOST_DERIVED: u32 = 16;

/// Fields that speak of one request and its body, or of one connection.
fn is_of_one_request(name: &[u8]) -> bool {
    const NAMES: [&str; 16] = [
        "connection",
        "content-encoding",
        "content-language",
        "content-length",
        "content-type",
        "expect",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "range",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &[u8]) -> Request {
        let buffer = text.to_vec();
        let mut head = RequestHead::new();
        let limits = Limits { request_line_bytes: 100, header_bytes: 1000, header_fields: 20 };
        assert_eq!(head.parse(&buffer, &limits), Ok(Parsed::Complete(text.len())));
        let details = RequestDetails {
            received: Rc::new(ReceivedHead { head, buffer: buffer.into() }),
            protocol: Protocol::Http11,
            path: Bytes::from_static(b"/"),
            path_as_sent: Bytes::from_static(b"/"),
            query: None,
            host: Some(Bytes::from_static(b"a")),
            site: 0,
            client: None,
            trusted_proxy: None,
            server: "127.0.0.1:80".parse().unwrap(),
            tls: None,
            user: None,
            id: "".into(),
            depth: 0,
            page_variables: None,
        };
        Request::new(details, Receiver::of(Bytes::new()))
    }

    #[test]
    fn what_is_derived_has_the_clients_fields_and_no_body() {
        let post = request(
            b"POST /a HTTP/1.1\r\nHost: a\r\nCookie: k=v\r\nContent-Length: 3\r\nRange: bytes=0-1\r\n\r\n",
        );
        let derived = post.derive(b"/b/../c%20d?q=1").unwrap();
        assert_eq!(derived.method(), Method::Get);
        assert_eq!((&derived.path[..], derived.query.as_deref()), (&b"/c d"[..], Some(&b"q=1"[..])));
        assert_eq!(derived.received.values("cookie").collect::<Vec<_>>(), [b"k=v"]);
        assert_eq!(derived.body_length(), Some(0));
        assert_eq!(derived.received.values("range").count(), 0);
    }

    #[test]
    fn fields_can_be_taken_and_added() {
        let get = request(b"GET /a?b HTTP/1.0\r\nHost: a\r\nX-One: 1\r\nAccept: x\r\nx-one: 2\r\n\r\n");
        let stays = |name: &[u8]| !name.eq_ignore_ascii_case(b"x-one");
        let other = get.received.with_fields(stays, Some((b"X-One", b"3"))).unwrap();
        assert_eq!(&other.buffer[..], b"GET /a?b HTTP/1.0\r\nHost: a\r\nAccept: x\r\nX-One: 3\r\n\r\n");
        assert_eq!(other.values("x-one").collect::<Vec<_>>(), [b"3"]);
        assert!(get.received.with_fields(|_| true, Some((b"X", b"a\r\n\r\nb"))).is_none());
    }

    #[test]
    fn targets_that_lead_nowhere_are_not_followed() {
        let get = request(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        for target in [&b"http://other/"[..], b"", b"/../x", b"/a b", b"/a\r\nX: y", b"/a?b HTTP/1.1\r\nX: y"]
        {
            assert!(get.derive(target).is_none(), "{}", target.escape_ascii());
        }
        let mut deep = get.without_body();
        deep.depth = MOST_DERIVED;
        assert!(deep.derive(b"/").is_none());
    }
}
