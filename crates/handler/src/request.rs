//! A request as handlers get it. Its form is the same for all versions of HTTP.
//!
//! The head is that of HTTP/1. Heads of HTTP/2 and HTTP/3 are built in this form before a handler is called,
//! with `Host` for `:authority`, and `Transfer-Encoding: chunked` if the length of the body is not
//! known. So handlers, routes and logs need only one form.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use touchstone_http::forwarded::{forwarded_is_https, forwarded_port};
use touchstone_http::path::PathRules;
use touchstone_http::request::{HeadBuilder, Limits, Method, RequestBody as Framing, RequestHead};
use touchstone_http::request_view::{AddressLocator, UNIX_CLIENT};

use crate::answer::Answer;
use crate::interim::TakesInterim;
use crate::pipe::Receiver;
use crate::trace::RequestTrace;

/// The version of HTTP that the client uses.
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
    /// The text in logs and in SERVER_PROTOCOL.
    pub fn text(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2.0",
            Protocol::Http3 => "HTTP/3.0",
        }
    }
}

/// The facts about the TLS session of a request.
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
    /// The subject of the client's verified certificate, in the form of RFC 2253.
    pub client_subject: Option<Box<str>>,
    /// Its issuer.
    pub client_issuer: Option<Box<str>>,
    /// Its serial number in hexadecimal digits.
    pub client_serial: Option<Box<str>>,
    /// Its SHA-256 in hexadecimal digits.
    pub client_fingerprint: Option<Box<str>>,
    /// The certificates that the client has sent, in DER form; empty if it sent none.
    pub client_certificates: Arc<[Vec<u8>]>,
}

impl TlsFacts {
    /// The number of bits of the cipher's key, from the name of the suite; `None`: it is not known.
    pub fn key_bits(&self) -> Option<u16> {
        let has = |part| self.cipher_suite.contains(part);
        if has("AES128") || has("AES_128") {
            return Some(128);
        }
        (has("AES256") || has("AES_256") || has("CHACHA20")).then_some(256)
    }
}

/// A head with the bytes that its spans refer to. Only an HTTP/1 head is stored there as it was sent.
#[derive(Debug)]
pub struct ReceivedHead {
    /// The head.
    pub head: RequestHead,
    /// The bytes.
    pub buffer: Bytes,
}

impl ReceivedHead {
    /// Returns a part of the head that can be kept. It shares the head's bytes if it is a part of them.
    pub fn share(&self, part: &[u8]) -> Bytes {
        let whole = self.buffer.as_ptr_range();
        let ends = part.as_ptr_range();
        if whole.start <= ends.start && ends.end <= whole.end {
            return self.buffer.slice_ref(part);
        }
        // An absolute target without a path has an implied one, which is not a part of the head's bytes.
        Bytes::copy_from_slice(part)
    }

    /// The method as the client sent it.
    pub fn method_text(&self) -> &[u8] {
        self.head.method_span.of(&self.buffer)
    }

    /// The target of the request line.
    pub fn target(&self) -> &[u8] {
        self.head.target.of(&self.buffer)
    }

    /// The header fields in order: names as they were sent, values without surrounding white space.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.head.fields.iter().map(|line| (line.name.of(&self.buffer), line.value.of(&self.buffer)))
    }

    /// The same head with another path in place of `path`, which must be a slice of its target; `None` if the
    /// result is not a valid head.
    pub fn with_path(&self, path: &[u8], written: &[u8]) -> Option<ReceivedHead> {
        let target = self.target();
        let begin = path.as_ptr().addr().checked_sub(target.as_ptr().addr())?;
        let (before, behind) = (target.get(..begin)?, target.get(begin + path.len()..)?);
        let builder = HeadBuilder::like(&self.head, &self.buffer, &[before, written, behind].concat());
        ReceivedHead::build(builder, self.fields())
    }

    /// The same head with the fields for which `stays` returns true, and added fields; `None` if the result
    /// is not a valid head.
    pub fn with_fields<'a>(
        &'a self,
        stays: impl Fn(&[u8]) -> bool,
        added: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Option<ReceivedHead> {
        let builder = HeadBuilder::like(&self.head, &self.buffer, self.target());
        ReceivedHead::build(builder, self.fields().filter(|(name, _)| stays(name)).chain(added))
    }

    /// The head that `builder` makes with these fields; `None` if it is not valid.
    fn build<'a>(
        mut builder: HeadBuilder,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Option<ReceivedHead> {
        fields.for_each(|(name, value)| builder.field(name, value));
        let (head, buffer, outcome) = builder.finish();
        outcome.is_ok().then(|| ReceivedHead { head, buffer: buffer.into() })
    }

    /// The values of a field.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.fields()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

/// Answers a request on behalf of a handler that is placed before another action.
pub trait NextHandler {
    /// Answers the request. Its path, query and method must be those of the request that the handler
    /// received, because the rules were applied to these.
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer>>>;
}

/// A request: its details and its body.
pub struct Request {
    /// Shared with other parts of the server while a handler has the request. A change copies them.
    details: Rc<RequestDetails>,
    /// The body. Reading it sends 100 (Continue) to a client that has sent `Expect: 100-continue`.
    pub body: Receiver,
    /// Takes the interim responses that a handler has for the client.
    pub interim: Option<Rc<dyn TakesInterim>>,
    /// The action after this handler, if the handler is placed before one.
    pub next: Option<Rc<dyn NextHandler>>,
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

/// The claims of a token or a provider about a user.
pub trait ClaimValues: Send + Sync {
    /// The value of a claim as text; `None`: there is none, or it is not text.
    fn value(&self, name: &str) -> Option<String>;
}

/// The facts about the bot that has signed a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotFacts {
    /// Its name; empty: the signature is not verified.
    pub name: Arc<str>,
    /// The state of the signature: `verified`, `invalid` or `unverified`; empty: there is none.
    pub state: &'static str,
}

/// A request without its body.
#[derive(Clone)]
pub struct RequestDetails {
    /// The head, which the connection keeps for its log.
    pub received: Rc<ReceivedHead>,
    /// The version of HTTP that the client uses.
    pub protocol: Protocol,
    /// The path in its normal form, which rules are applied to: decoded, without dot segments and repeated
    /// slashes. An escaped slash is a zero byte; only interfaces that [take
    /// escapes](crate::handler::Interface::takes_escapes) get such a path.
    pub path: Bytes,
    /// The same path in encoded form, for requests to origins and programs. If `path` is empty, it is the
    /// path as the client sent it.
    pub encoded_path: Bytes,
    /// The query as the client sent it, without its question mark.
    pub query: Option<Bytes>,
    /// The requested host, with its port if the client sent one.
    pub host: Option<Bytes>,
    /// The position of its site in the configuration.
    pub site: usize,
    /// The address of the client behind trusted proxies, to which rules apply: also
    /// [`UNIX_CLIENT`](touchstone_http::request_view::UNIX_CLIENT). The port is 0 if only the address is
    /// known.
    pub client: Option<SocketAddr>,
    /// Finds the location of the client; `None`: the server has no files for that.
    pub locator: Option<Arc<dyn AddressLocator>>,
    /// The proxy that forwarded it, if trusted. The server trusts the proxy's fields about the client.
    pub trusted_proxy: Option<IpAddr>,
    /// The configured address at which the request arrived.
    pub server: SocketAddr,
    /// The TLS session; `None`: plain HTTP.
    pub tls: Option<Arc<TlsFacts>>,
    /// The user that the server has authenticated.
    pub user: Option<Box<str>>,
    /// The claims of a token or a provider about that user.
    pub claims: Option<Arc<dyn ClaimValues>>,
    /// The facts about the bot that has signed it; without a state: no bot has, and the rules have admitted
    /// it. `None`: no rule has checked it.
    pub bot: Option<BotFacts>,
    /// An authority has allowed it, so answers to it may be for this client only.
    pub is_admitted: bool,
    /// The session of the user who has signed in, for requests that are derived from this one.
    pub session: Option<Rc<dyn Any>>,
    /// The request's id in logs; empty if ids are not configured.
    pub id: Box<str>,
    /// How often it was derived from a request of a client; 0: it is the client's own.
    pub depth: u32,
    /// The number of its connection, which no other connection of the process has.
    pub connection: u64,
    /// The identifier of its stream, in HTTP/2 and HTTP/3.
    pub stream: Option<u64>,
    /// The variables that were set by the page that includes a program.
    pub page_variables: Option<PageVariables>,
    /// The index of the route that matched it, once known.
    pub route: Option<usize>,
    /// The trace that it belongs to, if requests are traced.
    pub trace: Option<Rc<RequestTrace>>,
}

impl RequestDetails {
    /// The client's internet address, for programs and origins; `None`: it has none, because it uses a unix
    /// socket, or it is not known.
    pub fn internet_client(&self) -> Option<SocketAddr> {
        internet_address(self.client)
    }
}

fn internet_address(client: Option<SocketAddr>) -> Option<SocketAddr> {
    client.filter(|client| client.ip() != UNIX_CLIENT)
}

/// Variables that a page has set.
pub type PageVariables = Rc<[(Vec<u8>, Vec<u8>)]>;

/// A GET without a body, conditions or expectations, in the connection's buffer.
pub struct PlainGet<'a> {
    /// The head.
    pub head: &'a RequestHead,
    /// The bytes from which it was parsed.
    pub buffer: &'a [u8],
    /// The version of HTTP that the client uses.
    pub protocol: Protocol,
    /// The path, which is already in its normal form.
    pub path: &'a [u8],
    /// Path and query as the client sent them.
    pub target: &'a [u8],
    /// The query as the client sent it, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The requested host, with its port if the client sent one.
    pub host: Option<&'a [u8]>,
    /// The address of the client behind trusted proxies, to which rules apply: also
    /// [`UNIX_CLIENT`](touchstone_http::request_view::UNIX_CLIENT). The port is 0 if only the address is
    /// known.
    pub client: Option<SocketAddr>,
    /// A trusted proxy forwarded it. The server trusts the proxy's fields about the client.
    pub is_from_trusted_proxy: bool,
    /// The configured address at which the request arrived.
    pub server: SocketAddr,
    /// The TLS session; `None`: plain HTTP.
    pub tls: Option<&'a TlsFacts>,
    /// The user that the server has authenticated.
    pub user: Option<&'a str>,
    /// The request's id in logs; empty if ids are not configured.
    pub id: &'a str,
    /// The current time.
    pub unix_seconds: i64,
    /// When the whole request had arrived.
    pub received_at: Instant,
    /// The number of its connection, see [`RequestDetails::connection`].
    pub connection: u64,
}

impl<'a> PlainGet<'a> {
    /// The client's internet address, see [`RequestDetails::internet_client`].
    pub fn internet_client(&self) -> Option<SocketAddr> {
        internet_address(self.client)
    }

    /// The header fields in order: names as they were sent, values without surrounding white space.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let (head, buffer) = (self.head, self.buffer);
        head.fields.iter().map(move |line| (line.name.of(buffer), line.value.of(buffer)))
    }

    /// Whether the client used HTTPS, see [`Request::is_https`].
    pub fn is_https(&self) -> bool {
        forwarded_is_https(|name| self.proxy_field(name)).unwrap_or(self.tls.is_some())
    }

    /// The port that the client used at a trusted proxy, if the proxy reports it.
    pub fn port_at_proxy(&self) -> Option<u16> {
        forwarded_port(|name| self.proxy_field(name))
    }

    /// The first value of a field, if a trusted proxy sent it.
    fn proxy_field(&self, name: &str) -> Option<&'a [u8]> {
        let is_it = |other: &[u8]| self.is_from_trusted_proxy && other.eq_ignore_ascii_case(name.as_bytes());
        self.fields().find(|(other, _)| is_it(other)).map(|(_, value)| value)
    }
}

impl Request {
    /// A request with this body.
    pub fn new(details: RequestDetails, body: Receiver) -> Request {
        Request { details: Rc::new(details), body, interim: None, next: None }
    }

    /// Takes the body, and leaves the request without one.
    pub fn take_body(&mut self) -> Receiver {
        std::mem::replace(&mut self.body, Receiver::of(Bytes::new()))
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.received.head.method
    }

    /// Whether the client uses HTTPS, to this server or, as reported by a trusted proxy, to that proxy.
    pub fn is_https(&self) -> bool {
        forwarded_is_https(|name| self.proxy_field(name)).unwrap_or(self.tls.is_some())
    }

    /// The port that the client used at a trusted proxy, if the proxy reports it.
    pub fn port_at_proxy(&self) -> Option<u16> {
        forwarded_port(|name| self.proxy_field(name))
    }

    /// The first value of a field, if a trusted proxy sent it.
    fn proxy_field(&self, name: &'static str) -> Option<&[u8]> {
        self.trusted_proxy.and_then(|_| self.received.values(name).next())
    }

    /// The length of the body; `None`: unknown before its end.
    pub fn body_length(&self) -> Option<u64> {
        match self.received.head.body {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }

    /// The same request without its body, which stays with `self`.
    pub fn without_body(&self) -> Request {
        Request { details: self.details.clone(), body: Receiver::of(Bytes::new()), interim: None, next: None }
    }

    /// Path and query as the client sent them or a rewrite changed them, for the request to an origin.
    pub fn path_and_query(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(
            self.encoded_path.len() + self.query.as_ref().map_or(0, |query| query.len() + 1),
        );
        text.extend_from_slice(&self.encoded_path);
        if let Some(query) = &self.query {
            text.push(b'?');
            text.extend_from_slice(query);
        }
        text
    }

    /// Derives a request that the server makes in order to answer this one: a GET of a path and query, from
    /// the same client, without a body and without the fields for this request alone (conditions, ranges,
    /// framing). `None` if the target is not a path, leads above the root, or the request would be derived
    /// too deep.
    pub fn derive(&self, target: &[u8]) -> Option<Request> {
        let is_text = |&byte: &u8| byte > b' ' && byte != 0x7f;
        if self.depth >= MOST_DERIVED || !target.starts_with(b"/") || !target.iter().all(is_text) {
            return None;
        }
        let mut parts = target.splitn(2, |&byte| byte == b'?');
        let read = PathRules::USUAL.read(parts.next().unwrap_or_default()).ok()?;
        let query = parts.next().map(Bytes::copy_from_slice);
        let (mark, text) = query.as_deref().map_or((&b""[..], &b""[..]), |query| (b"?", query));
        let written = [&read.encoded[..], mark, text].concat();
        let builder = HeadBuilder::new(b"GET", &written, Limits::NONE);
        let fields = self.received.fields().filter(|(name, _)| !is_of_one_request(name));
        let details = RequestDetails {
            received: Rc::new(ReceivedHead::build(builder, fields)?),
            path: read.decoded.into(),
            encoded_path: read.encoded.into(),
            query,
            depth: self.depth + 1,
            ..RequestDetails::clone(self)
        };
        Some(Request::new(details, Receiver::of(Bytes::new())))
    }
}

/// The greatest depth of derived requests.
pub const MOST_DERIVED: u32 = 16;

/// Whether a field describes one request, its body or its connection.
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
    use touchstone_http::request::Parsed;

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
            encoded_path: Bytes::from_static(b"/"),
            query: None,
            host: Some(Bytes::from_static(b"a")),
            site: 0,
            client: None,
            locator: None,
            trusted_proxy: None,
            server: "127.0.0.1:80".parse().unwrap(),
            tls: None,
            user: None,
            claims: None,
            bot: None,
            is_admitted: false,
            session: None,
            id: "".into(),
            depth: 0,
            connection: 1,
            stream: None,
            page_variables: None,
            route: None,
            trace: None,
        };
        Request::new(details, Receiver::of(Bytes::new()))
    }

    #[test]
    fn key_sizes() {
        for (cipher_suite, expected) in [
            ("TLS_AES_128_GCM_SHA256", Some(128)),
            ("TLS_AES_256_GCM_SHA384", Some(256)),
            ("TLS_CHACHA20_POLY1305_SHA256", Some(256)),
            ("ECDHE-ECDSA-AES128-GCM-SHA256", Some(128)),
            ("ECDHE-RSA-CHACHA20-POLY1305", Some(256)),
            ("", None),
        ] {
            let facts = TlsFacts { cipher_suite, ..TlsFacts::default() };
            assert_eq!(facts.key_bits(), expected, "{cipher_suite}");
        }
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
        let other = get.received.with_fields(stays, [(&b"X-One"[..], &b"3"[..])]).unwrap();
        assert_eq!(other.head.request_line.of(&other.buffer), b"GET /a?b HTTP/1.0");
        let fields: Vec<_> = other.fields().collect();
        assert_eq!(fields, [(&b"Host"[..], &b"a"[..]), (b"Accept", b"x"), (b"X-One", b"3")]);
        assert_eq!(other.values("x-one").collect::<Vec<_>>(), [b"3"]);
        assert!(get.received.with_fields(|_| true, [(&b"X"[..], &b"a\r\n\r\nb"[..])]).is_none());
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
