//! The request head: parsed once, in place, without allocation (RFC 9112 sections 2 to 6).
//!
//! [`RequestHead::parse`] reads a head that begins at the start of a buffer and keeps offsets into it, so one
//! `RequestHead` serves a connection for all its requests. While parsing it also notes what every server
//! needs at once: the framing of the body, whether the connection persists, `Expect`, and whether there is a
//! condition or a range. Parsing is strict: anything that two programs could read differently is refused (RFC
//! 9112 sections 2.2, 5.1, 6.3 and 11.2 on request smuggling).

mod build;

pub use build::HeadBuilder;

use crate::content_coding::AcceptEncoding;
use crate::decimal;
use crate::grammar::{field_value_length, is_token, token_length};

/// Offsets of a piece of the buffer that was parsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Heads are limited far below 4 GiB, so 32 bits hold every offset.
    fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// The bytes, from the same buffer that was parsed.
    #[inline]
    pub fn of<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        buffer.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// The request method (RFC 9110 section 9, RFC 5789, RFC 10008).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// QUERY (RFC 10008)
    Query,
    /// Any other token; its bytes are in [`RequestHead::method_span`].
    Other,
}

impl Method {
    /// The method with this name, in the letters that were sent.
    #[inline]
    pub fn from_token(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            b"QUERY" => Method::Query,
            _ => Method::Other,
        }
    }

    /// True for the methods whose purpose is to carry a body.
    fn expects_body(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Patch | Method::Query)
    }

    /// Whether it is a safe method, which requests no change (RFC 9110 section 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace | Method::Query)
    }

    /// Whether it is idempotent: several identical requests have the effect of one, so it may be sent again
    /// (RFC 9110 section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

/// The protocol version of a message. A higher minor version of 1 is answered as 1.1 (RFC 9110 section 2.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
}

/// Field names that the server itself acts on, recognised while parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownField {
    /// Accept-Encoding
    AcceptEncoding,
    /// Connection
    Connection,
    /// Content-Length
    ContentLength,
    /// Expect
    Expect,
    /// Host
    Host,
    /// If-Match
    IfMatch,
    /// If-Modified-Since
    IfModifiedSince,
    /// If-None-Match
    IfNoneMatch,
    /// If-Range
    IfRange,
    /// If-Unmodified-Since
    IfUnmodifiedSince,
    /// Range
    Range,
    /// Referer
    Referer,
    /// Transfer-Encoding
    TransferEncoding,
    /// User-Agent
    UserAgent,
    /// Any other name.
    Other,
}

impl KnownField {
    fn from_name(name: &[u8]) -> KnownField {
        let (is_it, known) = match name.len() {
            4 => (is_name(name, b"host"), KnownField::Host),
            5 => (is_name(name, b"range"), KnownField::Range),
            6 => (is_name(name, b"expect"), KnownField::Expect),
            7 => (is_name(name, b"referer"), KnownField::Referer),
            8 if name[3] | 0x20 == b'r' => (is_name(name, b"if-range"), KnownField::IfRange),
            8 => (is_name(name, b"if-match"), KnownField::IfMatch),
            10 if name[0] | 0x20 == b'c' => (is_name(name, b"connection"), KnownField::Connection),
            10 => (is_name(name, b"user-agent"), KnownField::UserAgent),
            13 => (is_name(name, b"if-none-match"), KnownField::IfNoneMatch),
            14 => (is_name(name, b"content-length"), KnownField::ContentLength),
            15 => (is_name(name, b"accept-encoding"), KnownField::AcceptEncoding),
            17 if name[0] | 0x20 == b't' => {
                (is_name(name, b"transfer-encoding"), KnownField::TransferEncoding)
            }
            17 => (is_name(name, b"if-modified-since"), KnownField::IfModifiedSince),
            19 => (is_name(name, b"if-unmodified-since"), KnownField::IfUnmodifiedSince),
            _ => return KnownField::Other,
        };
        if is_it { known } else { KnownField::Other }
    }
}

/// Whether a token is this name, which consists of small letters and hyphens. The loop has a fixed length and
/// no early exit, so that the compiler turns it into a few wide instructions.
#[inline]
fn is_name<const LENGTH: usize>(token: &[u8], name: &[u8; LENGTH]) -> bool {
    let Ok(token) = <&[u8; LENGTH]>::try_from(token) else { return false };
    let mut difference = 0;
    for index in 0..LENGTH {
        // The bit that makes a letter small is set in a hyphen, and no other token byte becomes a letter or a
        // hyphen by it.
        difference |= (token[index] | 0x20) ^ name[index];
    }
    difference == 0
}

/// One field line of the head.
#[derive(Debug, Clone, Copy)]
pub struct FieldLine {
    /// The name as it was sent.
    pub name: Span,
    /// The value without surrounding white space.
    pub value: Span,
    /// Which name it is, if the server acts on it.
    pub known: KnownField,
}

/// How the body is delimited (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestBody {
    /// There is none.
    #[default]
    None,
    /// This many bytes follow; never 0.
    Length(u64),
    /// Chunks follow.
    Chunked,
}

/// The expectation in `Expect` (RFC 9110 section 10.1.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// `100-continue`.
    Continue,
    /// An unknown expectation (417).
    Unknown,
}

/// Limits of a head.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest request line without its CRLF, bytes (414).
    pub request_line_bytes: usize,
    /// Longest header section, bytes, from after the request line to the empty line (431).
    pub header_bytes: usize,
    /// Most field lines (431).
    pub header_fields: usize,
}

/// Why a head is refused. After any of these errors the connection cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// 400, with the fault.
    Bad(&'static str),
    /// 414
    UriTooLong,
    /// 431
    HeaderTooLarge,
    /// 501: a transfer coding that is not implemented.
    UnknownTransferCoding,
    /// 505
    VersionNotSupported,
}

impl RequestError {
    /// The status code that answers it.
    pub fn status(self) -> u16 {
        match self {
            RequestError::Bad(_) => 400,
            RequestError::UriTooLong => 414,
            RequestError::HeaderTooLarge => 431,
            RequestError::UnknownTransferCoding => 501,
            RequestError::VersionNotSupported => 505,
        }
    }

    /// The fault in words, for the error log.
    pub fn explanation(self) -> &'static str {
        match self {
            RequestError::Bad(what) => what,
            RequestError::UriTooLong => "the request line is longer than limits.request_line_bytes",
            RequestError::HeaderTooLarge => {
                "the header section is larger than limits.header_bytes or limits.header_fields"
            }
            RequestError::UnknownTransferCoding => "a transfer coding other than chunked",
            RequestError::VersionNotSupported => "a major protocol version other than 1",
        }
    }
}

/// The result of parsing a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The head ends before this offset; the body or the next request begins there.
    Complete(usize),
    /// More bytes are needed; the bytes so far are valid.
    Partial,
}

/// A parsed request head. All spans are offsets into the buffer that was parsed.
#[derive(Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The method's bytes.
    pub method_span: Span,
    /// The request target as it was sent.
    pub target: Span,
    /// The whole request line without its CRLF.
    pub request_line: Span,
    /// The protocol version to answer in.
    pub version: Version,
    /// The version's bytes, for example `HTTP/1.1`.
    pub version_span: Span,
    /// Every field line, in order.
    pub fields: Vec<FieldLine>,
    /// The value of Host.
    pub host: Option<Span>,
    /// How the body is delimited.
    pub body: RequestBody,
    /// The expectation in Expect.
    pub expectation: Expectation,
    /// The request has a body whose length is not known: it is of a version that needs Content-Length, and
    /// that is missing. `body` is none, and the request is answered with 411 unless its handler accepts such
    /// requests.
    pub lacks_length: bool,
    /// The client lets the connection persist (RFC 9112 section 9.3).
    pub persistent: bool,
    /// A precondition or Range field is there: the answer may differ from the whole representation.
    pub has_conditions_or_range: bool,
    /// The content codings that the client takes.
    pub accept_encoding: AcceptEncoding,
}

impl RequestHead {
    /// An empty head, to be filled by [`RequestHead::parse`] again and again.
    pub fn new() -> RequestHead {
        RequestHead::default()
    }

    /// Parses the head at the start of `buffer`. Empty lines before it are skipped (RFC 9112 section 2.2).
    ///
    /// On `Partial` nothing in `self` may be used; call again with the same bytes and more.
    pub fn parse(&mut self, buffer: &[u8], limits: &Limits) -> Result<Parsed, RequestError> {
        let Some(start) = skip_empty_lines(buffer)? else { return Ok(Parsed::Partial) };
        let Some(mut at) = self.parse_request_line(buffer, start, limits)? else {
            return Ok(Parsed::Partial);
        };
        let header_start = at;
        let header_limit = header_start.saturating_add(limits.header_bytes);
        let most_bytes = header_limit.saturating_add(2);
        // At most the largest section and its empty line are read, so that the result does not depend on how
        // much was received at once.
        let buffer = &buffer[..buffer.len().min(most_bytes)];
        let partial =
            if buffer.len() == most_bytes { Err(RequestError::HeaderTooLarge) } else { Ok(Parsed::Partial) };
        let mut facts = FieldFacts::default();
        self.fields.clear();
        loop {
            match buffer.get(at) {
                Some(b'\r') => match buffer.get(at + 1) {
                    Some(b'\n') => break,
                    Some(_) => return Err(RequestError::Bad("a bare CR in the header section")),
                    None => return partial,
                },
                Some(_) => {}
                None => return partial,
            }
            let Some((line, next)) = parse_field_line(buffer, at)? else { return partial };
            if next > header_limit || self.fields.len() == limits.header_fields {
                return Err(RequestError::HeaderTooLarge);
            }
            if line.known != KnownField::Other {
                facts.take(buffer, &line)?;
            }
            self.fields.push(line);
            at = next;
        }
        self.conclude(buffer, facts)?;
        Ok(Parsed::Complete(at + 2))
    }

    /// The values of a known field, in order.
    pub fn values<'a>(&'a self, buffer: &'a [u8], known: KnownField) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |line| line.known == known).map(move |line| line.value.of(buffer))
    }

    /// The first value of a known field.
    pub fn value<'a>(&self, buffer: &'a [u8], known: KnownField) -> Option<&'a [u8]> {
        self.fields.iter().find(|line| line.known == known).map(|line| line.value.of(buffer))
    }

    /// `method SP request-target SP HTTP-version CRLF` (RFC 9112 section 3); returns the offset after it.
    fn parse_request_line(
        &mut self,
        buffer: &[u8],
        start: usize,
        limits: &Limits,
    ) -> Result<Option<usize>, RequestError> {
        // One byte past the longest line is enough to distinguish "too long" from "not complete yet".
        let line_limit = start.saturating_add(limits.request_line_bytes);
        let longest = line_limit.min(buffer.len());
        let partial = || {
            if buffer.len() > line_limit.saturating_add(1) { Err(RequestError::UriTooLong) } else { Ok(None) }
        };
        let line = &buffer[..longest];

        let method_end = start + token_length(&line[start..]);
        match buffer.get(method_end) {
            Some(b' ') if method_end > start => {}
            None => return partial(),
            Some(_) if method_end >= line_limit => {
                return Err(RequestError::UriTooLong);
            }
            Some(_) => {
                return Err(RequestError::Bad("the request line does not begin with a method and a space"));
            }
        }
        let target_start = method_end + 1;
        if target_start > longest {
            return partial();
        }
        let target_end = target_start + count_target_bytes(&line[target_start..]);
        match buffer.get(target_end) {
            Some(b' ') if target_end > target_start => {}
            None => return partial(),
            Some(_) if target_end >= line_limit => {
                return Err(RequestError::UriTooLong);
            }
            Some(_) => {
                return Err(RequestError::Bad("the request target is empty or not followed by a version"));
            }
        }
        let version_start = target_end + 1;
        if version_start + b"HTTP/1.1".len() - start > limits.request_line_bytes {
            return Err(RequestError::UriTooLong);
        }
        let Some(rest) = buffer.get(version_start..version_start + 10) else {
            let sent = &buffer[version_start.min(buffer.len())..];
            return if could_become_version(sent) { partial() } else { Err(BAD_VERSION) };
        };
        self.version = match rest {
            b"HTTP/1.1\r\n" => Version::Http11,
            b"HTTP/1.0\r\n" => Version::Http10,
            _ => other_version(rest)?,
        };
        let version_end = version_start + 8;
        if version_end - start > limits.request_line_bytes {
            return Err(RequestError::UriTooLong);
        }
        self.method_span = Span::new(start, method_end);
        self.method = Method::from_token(&buffer[start..method_end]);
        self.target = Span::new(target_start, target_end);
        self.version_span = Span::new(version_start, version_end);
        self.request_line = Span::new(start, version_end);
        Ok(Some(version_end + 2))
    }

    /// Checks what all field lines together mean: Host, framing, persistence.
    fn conclude(&mut self, buffer: &[u8], facts: FieldFacts) -> Result<(), RequestError> {
        let http11 = self.version == Version::Http11;
        self.host = facts.host;
        // RFC 9112 section 3.2: a 1.1 request without Host, or any with an invalid one, is answered with 400.
        match facts.host {
            None if http11 => return Err(RequestError::Bad("an HTTP/1.1 request without Host")),
            Some(host) if !crate::host::is_valid_host(host.of(buffer)) => {
                return Err(RequestError::Bad("an invalid Host"));
            }
            _ => {}
        }
        self.body = match (facts.transfer_encoding, facts.content_length) {
            (true, Some(_)) => return Err(RequestError::Bad("both Transfer-Encoding and Content-Length")),
            (true, None) if !http11 => return Err(RequestError::Bad("Transfer-Encoding in HTTP/1.0")),
            (true, None) => RequestBody::Chunked,
            (false, Some(0)) => RequestBody::None,
            (false, Some(length)) => RequestBody::Length(length),
            (false, None) => RequestBody::None,
        };
        self.lacks_length = !http11
            && !facts.transfer_encoding
            && facts.content_length.is_none()
            && self.method.expects_body();
        // RFC 9110 section 10.1.1: `Expect` of a 1.0 client is ignored.
        self.expectation = if http11 { facts.expectation } else { Expectation::None };
        // If a body has no length, the bytes after the head may be that body, so they are not read as a
        // request.
        self.persistent = !facts.close && (http11 || facts.keep_alive) && !self.lacks_length;
        self.has_conditions_or_range = facts.has_conditions_or_range;
        self.accept_encoding = facts.accept_encoding;
        Ok(())
    }
}

/// The contents of the known field lines, collected while parsing.
#[derive(Default)]
struct FieldFacts {
    host: Option<Span>,
    content_length: Option<u64>,
    transfer_encoding: bool,
    expectation: Expectation,
    close: bool,
    keep_alive: bool,
    has_conditions_or_range: bool,
    accept_encoding: AcceptEncoding,
}

impl FieldFacts {
    fn take(&mut self, buffer: &[u8], line: &FieldLine) -> Result<(), RequestError> {
        let value = line.value.of(buffer);
        match line.known {
            KnownField::Host => {
                if self.host.replace(line.value).is_some() {
                    return Err(RequestError::Bad("more than one Host"));
                }
            }
            KnownField::ContentLength => {
                // Repeated fields are refused even if they are equal: the next program on the way may use
                // another one.
                if self.content_length.replace(parse_content_length(value)?).is_some() {
                    return Err(RequestError::Bad("more than one Content-Length"));
                }
            }
            KnownField::TransferEncoding => {
                // RFC 9112 section 6.1: chunked once and last; no other coding is implemented here.
                if self.transfer_encoding {
                    return Err(RequestError::Bad("more than one Transfer-Encoding"));
                }
                check_transfer_encoding(value)?;
                self.transfer_encoding = true;
            }
            KnownField::Connection => {
                for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            KnownField::AcceptEncoding => self.accept_encoding.add(value),
            KnownField::Expect => {
                let known = value.eq_ignore_ascii_case(b"100-continue");
                self.expectation = match (known, self.expectation) {
                    (true, Expectation::None | Expectation::Continue) => Expectation::Continue,
                    _ => Expectation::Unknown,
                };
            }
            KnownField::IfMatch
            | KnownField::IfModifiedSince
            | KnownField::IfNoneMatch
            | KnownField::IfRange
            | KnownField::IfUnmodifiedSince
            | KnownField::Range => self.has_conditions_or_range = true,
            KnownField::Referer | KnownField::UserAgent | KnownField::Other => {}
        }
        Ok(())
    }
}

const BAD_VERSION: RequestError = RequestError::Bad("the request line does not end with HTTP/x.y and CRLF");

/// Offset of the first byte that is not part of an empty line; `None` when there is none yet.
fn skip_empty_lines(buffer: &[u8]) -> Result<Option<usize>, RequestError> {
    // Four empty lines are more than any client in use sends. Without a limit, a client could send empty
    // lines forever.
    const MOST_EMPTY_LINES: usize = 4;
    let mut at = 0;
    loop {
        match (buffer.get(at), buffer.get(at + 1)) {
            (Some(b'\r'), Some(b'\n')) if at < 2 * MOST_EMPTY_LINES => at += 2,
            (Some(b'\r'), None) => return Ok(None),
            (Some(b'\r' | b'\n'), _) => {
                return Err(RequestError::Bad("a bare CR or LF, or too many empty lines"));
            }
            (Some(_), _) => return Ok(Some(at)),
            (None, _) => return Ok(None),
        }
    }
}

/// A version other than the two usual ones (RFC 9110 section 2.5).
fn other_version(ten_bytes: &[u8]) -> Result<Version, RequestError> {
    match ten_bytes {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b'\r', b'\n']
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            if *major == b'1' {
                Ok(Version::Http11)
            } else {
                Err(RequestError::VersionNotSupported)
            }
        }
        _ => Err(BAD_VERSION),
    }
}

/// True when `sent` (fewer than 10 bytes) is the beginning of a version and its CRLF.
fn could_become_version(sent: &[u8]) -> bool {
    sent.iter().zip(b"HTTP/d.d\r\n").all(|(&byte, &pattern)| match pattern {
        b'd' => byte.is_ascii_digit(),
        exact => byte == exact,
    })
}

/// One `name ":" OWS value OWS CRLF` (RFC 9112 section 5) and the offset after it; `None` when it is
/// incomplete.
#[inline]
fn parse_field_line(buffer: &[u8], start: usize) -> Result<Option<(FieldLine, usize)>, RequestError> {
    let name_length = token_length(&buffer[start..]);
    let name_end = start + name_length;
    match buffer.get(name_end) {
        Some(b':') if name_length > 0 => {}
        None => return Ok(None),
        Some(b' ' | b'\t') if name_length > 0 => {
            return Err(RequestError::Bad("white space between a field name and its colon"));
        }
        Some(b' ' | b'\t') => return Err(RequestError::Bad("a folded or indented field line")),
        Some(_) => return Err(RequestError::Bad("an invalid field name")),
    }
    let mut value_start = name_end + 1;
    while matches!(buffer.get(value_start), Some(b' ' | b'\t')) {
        value_start += 1;
    }
    let line_end = value_start + field_value_length(&buffer[value_start.min(buffer.len())..]);
    match (buffer.get(line_end), buffer.get(line_end + 1)) {
        (Some(b'\r'), Some(b'\n')) => {}
        (None, _) | (Some(b'\r'), None) => return Ok(None),
        (Some(b'\r'), _) => return Err(RequestError::Bad("a bare CR in a field value")),
        (Some(b'\n'), _) => return Err(RequestError::Bad("a bare LF in a field value")),
        _ => return Err(RequestError::Bad("a control byte in a field value")),
    }
    let mut value_end = line_end;
    while value_end > value_start && matches!(buffer[value_end - 1], b' ' | b'\t') {
        value_end -= 1;
    }
    let known = KnownField::from_name(&buffer[start..name_end]);
    let line =
        FieldLine { name: Span::new(start, name_end), value: Span::new(value_start, value_end), known };
    Ok(Some((line, line_end + 2)))
}

/// `1*DIGIT` and nothing else (RFC 9110 section 8.6).
fn parse_content_length(value: &[u8]) -> Result<u64, RequestError> {
    decimal::parse(value).ok_or(RequestError::Bad("a Content-Length that is not a number, or too large"))
}

/// Only `chunked`; an unknown coding is 501, `chunked` in the wrong place or twice is 400.
fn check_transfer_encoding(value: &[u8]) -> Result<(), RequestError> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let codings: Vec<&[u8]> = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    let chunked_count = codings.iter().filter(|coding| is_chunked(coding)).count();
    let is_token = |coding: &&[u8]| {
        let name = coding.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
        is_token(name)
    };
    if !codings.iter().all(is_token) {
        return Err(RequestError::Bad("a malformed Transfer-Encoding"));
    }
    match (chunked_count, codings.last().is_some_and(is_chunked)) {
        (0, _) => Err(RequestError::UnknownTransferCoding),
        (1, true) => Err(RequestError::UnknownTransferCoding),
        _ => Err(RequestError::Bad("chunked must be the last transfer coding, once")),
    }
}

/// How many bytes from the start may be in a request target: no control byte, no space, no DEL. Bytes from
/// 0x80 are accepted, since clients send raw UTF-8; the path module decides what they mean.
///
/// Eight bytes are looked at in one step.
#[inline]
fn count_target_bytes(bytes: &[u8]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // The well-known bit tricks "has a byte less than n" and "has a zero byte"; the lowest flag is exact.
        let below = word.wrapping_sub(LOW * 0x21) & !word;
        let delete = word ^ (LOW * 0x7f);
        let delete = delete.wrapping_sub(LOW) & !delete;
        let flags = (below | delete) & HIGH;
        if flags != 0 {
            return at + (flags.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|&&byte| byte > 0x20 && byte != 0x7f).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { request_line_bytes: 64, header_bytes: 200, header_fields: 5 };

    fn parse(bytes: &[u8]) -> Result<(RequestHead, Parsed), RequestError> {
        let mut head = RequestHead::new();
        head.parse(bytes, &LIMITS).map(|parsed| (head, parsed))
    }

    fn error(bytes: &[u8]) -> u16 {
        match parse(bytes) {
            Err(error) => error.status(),
            Ok((_, parsed)) => panic!("{:?} was {parsed:?}", String::from_utf8_lossy(bytes)),
        }
    }

    #[test]
    fn limits_may_be_as_large_as_numbers_are() {
        let bytes = b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
        for end in 0..bytes.len() {
            let parsed = RequestHead::new().parse(&bytes[..end], &Limits::NONE);
            assert_eq!(parsed, Ok(Parsed::Partial), "{end}");
        }
        assert_eq!(RequestHead::new().parse(bytes, &Limits::NONE), Ok(Parsed::Complete(bytes.len())));
    }

    #[test]
    fn reads_a_head_and_what_it_means() {
        let bytes = b"\r\nGET /a?b HTTP/1.1\r\nHost: h:80 \r\nIF-NONE-match:\t\"x\"\r\n\r\nrest";
        let (head, parsed) = parse(bytes).unwrap();
        assert_eq!(parsed, Parsed::Complete(bytes.len() - 4));
        assert_eq!(head.method, Method::Get);
        assert_eq!(head.target.of(bytes), b"/a?b");
        assert_eq!(head.request_line.of(bytes), b"GET /a?b HTTP/1.1");
        assert_eq!(head.host.unwrap().of(bytes), b"h:80");
        assert_eq!(head.value(bytes, KnownField::IfNoneMatch), Some(&b"\"x\""[..]));
        assert!(head.persistent && head.has_conditions_or_range);
        assert_eq!(head.body, RequestBody::None);
    }

    #[test]
    fn all_accept_encoding_lines_count() {
        let accept = |fields: &str| {
            let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            parse(text.as_bytes()).unwrap().0.accept_encoding
        };
        assert!(accept("").is_absent());
        let mut expected = AcceptEncoding::ABSENT;
        expected.add(b"gzip, br;q=0.5");
        assert_eq!(accept("accept-ENCODING: gzip, br;q=0.5\r\n"), expected);
        assert_eq!(accept("Accept-Encoding: gzip\r\nAccept-Encoding: br;q=0.5\r\n"), expected);
        // A head is filled again by every request.
        let mut head = RequestHead::new();
        for (fields, absent) in [("Accept-Encoding: gzip\r\n", false), ("", true)] {
            let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            head.parse(text.as_bytes(), &LIMITS).unwrap();
            assert_eq!(head.accept_encoding.is_absent(), absent);
        }
    }

    #[test]
    fn persistence_follows_version_and_connection() {
        for (version, connection, expected) in [
            ("1.1", "", true),
            ("1.1", "Connection: close\r\n", false),
            ("1.1", "Connection: x, CLOSE\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
            ("1.0", "Connection: keep-alive, close\r\n", false),
            ("1.7", "", true),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: h\r\n{connection}\r\n");
            assert_eq!(parse(text.as_bytes()).unwrap().0.persistent, expected, "{text}");
        }
    }

    #[test]
    fn framing_is_one_thing_or_refused() {
        let framing = |fields: &str| {
            let text = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            parse(text.as_bytes()).map(|(head, _)| head.body).map_err(RequestError::status)
        };
        assert_eq!(framing("Content-Length: 5\r\n"), Ok(RequestBody::Length(5)));
        assert_eq!(framing("Content-Length: 0\r\n"), Ok(RequestBody::None));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok(RequestBody::Chunked));
        assert_eq!(framing(""), Ok(RequestBody::None));
        for (fields, status) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", 400),
            ("Content-Length: 5, 5\r\n", 400),
            ("Content-Length: +5\r\n", 400),
            ("Content-Length: \r\n", 400),
            ("Content-Length: 18446744073709551616\r\n", 400),
            ("Transfer-Encoding: gzip, chunked\r\n", 501),
            ("Transfer-Encoding: gzip\r\n", 501),
            ("Transfer-Encoding: chunked, gzip\r\n", 400),
            ("Transfer-Encoding: chunked, chunked\r\n", 400),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Transfer-Encoding: \x0bchunked\r\n", 400),
            ("Transfer-Encoding:\r\n", 400),
        ] {
            assert_eq!(framing(fields), Err(status), "{fields:?}");
        }
        for (head, lacks_length) in [
            (&b"POST / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"[..], true),
            (b"POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", false),
            (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", false),
            (b"GET / HTTP/1.0\r\n\r\n", false),
        ] {
            let mut parsed = RequestHead::new();
            assert!(parsed.parse(head, &LIMITS).is_ok());
            assert_eq!(parsed.lacks_length, lacks_length, "{}", head.escape_ascii());
            assert!(!lacks_length || !parsed.persistent, "what follows it is not a request");
        }
        assert_eq!(error(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    }

    #[test]
    fn refuses_what_can_be_read_in_two_ways() {
        for bytes in [
            &b"GET / HTTP/1.1\nHost: h\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nHost: h\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n\n",
            b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n",
            b"GET / HTTP/1.1\r\n Host: h\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n: v\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nA\xffB: v\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET /  HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
            b"GET /\r\n",
            b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
            b" GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET / http/1.1\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.x\r\nHost: h\r\n\r\n",
            b"\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\x16\x03\x01",
        ] {
            assert_eq!(error(bytes), 400, "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(error(b"GET / HTTP/2.0\r\n\r\n"), 505);
        assert_eq!(error(b"GET / HTTP/0.9\r\n\r\n"), 505);
    }

    #[test]
    fn limits_are_exact() {
        let line = |length: usize| {
            let target = "/".to_string() + &"a".repeat(length - "GET / HTTP/1.1".len());
            format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
        };
        assert!(parse(line(64).as_bytes()).is_ok());
        assert_eq!(error(line(65).as_bytes()), 414);
        assert_eq!(error(line(5000).as_bytes()), 414);
        assert_eq!(error(&[b'A'; 5000]), 414);
        assert_eq!(error(format!("GET /{}", "a".repeat(4000)).as_bytes()), 414);
        let fields =
            |count: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(count - 1));
        assert!(parse(fields(5).as_bytes()).is_ok());
        assert_eq!(error(fields(6).as_bytes()), 431);
        let sized = |bytes: usize| {
            let filler = bytes - "Host: h\r\nA: \r\n".len();
            format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(filler))
        };
        assert!(parse(sized(200).as_bytes()).is_ok());
        assert_eq!(error(sized(201).as_bytes()), 431);
        let endless = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}", "x".repeat(500));
        assert_eq!(error(endless.as_bytes()), 431);
    }

    #[test]
    fn limits_do_not_depend_on_how_much_was_read() {
        let head = format!(
            "GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n",
            "x".repeat(200 - "Host: h\r\nA: \r\n".len())
        );
        for cut in 0..head.len() {
            assert_eq!(
                parse(&head.as_bytes()[..cut]).map(|(_, parsed)| parsed),
                Ok(Parsed::Partial),
                "{cut}"
            );
        }
        assert!(parse(head.as_bytes()).is_ok());
    }

    #[test]
    fn expectations() {
        let expectation = |fields: &str| {
            let text = format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n{fields}\r\n");
            parse(text.as_bytes()).unwrap().0.expectation
        };
        assert_eq!(expectation(""), Expectation::None);
        assert_eq!(expectation("Expect: 100-Continue\r\n"), Expectation::Continue);
        assert_eq!(expectation("Expect: 200-ok\r\n"), Expectation::Unknown);
    }

    /// The bit tricks give the same result as the plain definition.
    fn plain_count(bytes: &[u8], least: u8) -> usize {
        bytes.iter().take_while(|&&byte| byte >= least && byte != 0x7f).count()
    }

    proptest! {
        #[test]
        fn names_are_compared_without_case(
            token in "[!#$%&'*+.^_`|~0-9A-Za-z-]{15}",
            upper in any::<[bool; 15]>(),
        ) {
            let name = b"accept-encoding";
            prop_assert_eq!(is_name(token.as_bytes(), name), token.as_bytes().eq_ignore_ascii_case(name));
            let mut mixed = *name;
            for (byte, upper) in mixed.iter_mut().zip(upper) {
                if upper {
                    byte.make_ascii_uppercase();
                }
            }
            prop_assert!(is_name(&mixed, name));
            prop_assert!(KnownField::from_name(&mixed) == KnownField::AcceptEncoding);
            prop_assert!(!is_name(&mixed[1..], name));
        }

        #[test]
        fn one_other_byte_makes_another_name(index in 0usize..15, other in "[!#$%&'*+.^_`|~0-9A-Za-z-]") {
            let name = b"accept-encoding";
            let mut token = *name;
            token[index] = other.as_bytes()[0];
            prop_assert_eq!(is_name(&token, name), token.eq_ignore_ascii_case(name));
        }

        #[test]
        fn counting_agrees_with_its_definition(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(count_target_bytes(&bytes), plain_count(&bytes, 0x21));
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        /// A head that is cut short is `Partial` at every cut, never an error and never something else.
        #[test]
        fn every_prefix_of_a_good_head_is_partial(
            path in "/[a-z0-9/%.]{0,20}",
            fields in proptest::collection::vec(("[A-Za-z-]{1,8}", "[ -~]{0,20}"), 0..3),
        ) {
            let mut text = format!("GET {path} HTTP/1.1\r\nHost: h\r\n");
            for (name, value) in &fields {
                prop_assume!(KnownField::from_name(name.as_bytes()) == KnownField::Other);
                text += &format!("{name}: {value}\r\n");
            }
            text += "\r\n";
            for cut in 0..text.len() {
                prop_assert_eq!(parse(&text.as_bytes()[..cut]).unwrap().1, Parsed::Partial);
            }
            prop_assert_eq!(parse(text.as_bytes()).unwrap().1, Parsed::Complete(text.len()));
        }

        /// More bytes never change the result: an error stays an error, and a complete head stays complete.
        #[test]
        fn more_bytes_never_change_a_verdict(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b' '), Just(b':'), any::<u8>()],
                0..80,
            ),
            more in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let first = parse(&bytes).map(|(_, parsed)| parsed);
            let all = [bytes, more].concat();
            match first {
                Ok(Parsed::Partial) => {}
                verdict => prop_assert_eq!(parse(&all).map(|(_, parsed)| parsed), verdict),
            }
        }
    }
}
