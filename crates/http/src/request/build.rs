//! Builds request heads from values: for requests of HTTP/2 and HTTP/3, and for requests that the server
//! derives from another one.
//!
//! The result equals what [`RequestHead::parse`] makes of the same request in HTTP/1, with the same refusals;
//! tests compare both. The request is not written as text and parsed again: names and values are stored in a
//! buffer one after the other, with spans.

use super::{
    FieldFacts, FieldLine, KnownField, Limits, Method, RequestError, RequestHead, Span, Version,
    count_target_bytes,
};
use crate::grammar::{field_value_length, is_token};

/// Builds a head. The first error is kept, and [`HeadBuilder::finish`] returns it.
pub struct HeadBuilder {
    head: RequestHead,
    buffer: Vec<u8>,
    facts: FieldFacts,
    /// The bytes that the header section would have in HTTP/1.
    header_bytes: usize,
    limits: Limits,
    error: Option<RequestError>,
}

impl Limits {
    /// No limits, for heads whose parts have already passed the limits for clients.
    pub const NONE: Limits =
        Limits { request_line_bytes: usize::MAX, header_bytes: usize::MAX, header_fields: usize::MAX };
}

impl HeadBuilder {
    /// A head of HTTP/1.1 with this method and target, and no fields yet.
    pub fn new(method: &[u8], target: &[u8], limits: Limits) -> HeadBuilder {
        HeadBuilder::begin(method, target, (Version::Http11, b"HTTP/1.1"), limits)
    }

    /// A head with the method and version of another head, whose bytes are in `buffer`, and this target.
    pub fn like(head: &RequestHead, buffer: &[u8], target: &[u8]) -> HeadBuilder {
        let version = (head.version, head.version_span.of(buffer));
        HeadBuilder::begin(head.method_span.of(buffer), target, version, Limits::NONE)
    }

    fn begin(method: &[u8], target: &[u8], version: (Version, &[u8]), limits: Limits) -> HeadBuilder {
        let mut buffer = Vec::with_capacity(256.max(method.len() + target.len() + 16));
        let mut head = RequestHead { version: version.0, ..RequestHead::default() };
        let line_bytes = method.len() + target.len() + version.1.len() + 2;
        let error = if !is_token(method) {
            Some(RequestError::Bad("the method is not a token"))
        } else if target.is_empty() || count_target_bytes(target) != target.len() {
            Some(RequestError::Bad("the request target is empty or has bytes that no target has"))
        } else if line_bytes > limits.request_line_bytes {
            Some(RequestError::UriTooLong)
        } else {
            None
        };
        if error.is_none() {
            head.method = Method::from_token(method);
            head.method_span = push(&mut buffer, method);
            buffer.push(b' ');
            head.target = push(&mut buffer, target);
            buffer.push(b' ');
            head.version_span = push(&mut buffer, version.1);
            head.request_line = Span::new(0, buffer.len());
        }
        HeadBuilder { head, buffer, facts: FieldFacts::default(), header_bytes: 0, limits, error }
    }

    /// Adds a field line. White space around the value is removed.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.error.is_none()
            && let Err(error) = self.add(name, value)
        {
            self.error = Some(error);
        }
    }

    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), RequestError> {
        if !is_token(name) {
            return Err(RequestError::Bad("an invalid field name"));
        }
        if field_value_length(value) != value.len() {
            return Err(RequestError::Bad("a control byte in a field value"));
        }
        self.header_bytes += name.len() + value.len() + b": \r\n".len();
        if self.header_bytes > self.limits.header_bytes || self.head.fields.len() == self.limits.header_fields
        {
            return Err(RequestError::HeaderTooLarge);
        }
        let known = KnownField::from_name(name);
        let name = push(&mut self.buffer, name);
        let line = FieldLine { name, value: push(&mut self.buffer, without_white_space(value)), known };
        if known != KnownField::Other {
            self.facts.take(&self.buffer, &line)?;
        }
        self.head.fields.push(line);
        Ok(())
    }

    /// The head and the bytes of its parts. If the head is not valid, there is also the error, and the head
    /// holds the parts before it.
    pub fn finish(mut self) -> (RequestHead, Vec<u8>, Result<(), RequestError>) {
        let outcome = match self.error {
            Some(error) => Err(error),
            None => self.head.conclude(&self.buffer, self.facts),
        };
        (self.head, self.buffer, outcome)
    }
}

/// Appends a piece; returns its position.
fn push(buffer: &mut Vec<u8>, piece: &[u8]) -> Span {
    let start = buffer.len();
    buffer.extend_from_slice(piece);
    Span::new(start, buffer.len())
}

/// A value without the white space around it (RFC 9112 section 5).
fn without_white_space(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Parsed;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { request_line_bytes: 60, header_bytes: 120, header_fields: 5 };

    fn build(
        method: &[u8],
        target: &[u8],
        fields: &[(Vec<u8>, Vec<u8>)],
    ) -> (RequestHead, Vec<u8>, Result<(), RequestError>) {
        let mut builder = HeadBuilder::new(method, target, LIMITS);
        for (name, value) in fields {
            builder.field(name, value);
        }
        builder.finish()
    }

    /// The properties of a head, without the positions of its parts.
    fn facts(head: &RequestHead, buffer: &[u8]) -> String {
        let text = |span: Span| span.of(buffer).escape_ascii().to_string();
        let fields: Vec<_> =
            head.fields.iter().map(|line| (text(line.name), text(line.value), line.known)).collect();
        let line = (head.method, text(head.method_span), text(head.target), text(head.request_line));
        let version = (head.version, text(head.version_span), head.host.map(text), head.body);
        let rest = (head.expectation, head.lacks_length, head.persistent, head.has_conditions_or_range);
        format!("{line:?} {version:?} {rest:?} {:?} {fields:?}", head.accept_encoding)
    }

    /// The status and the head's properties for both ways of building it.
    fn both(method: &[u8], target: &[u8], fields: &[(Vec<u8>, Vec<u8>)]) -> [Result<String, u16>; 2] {
        let (head, buffer, outcome) = build(method, target, fields);
        let built = outcome.map(|()| facts(&head, &buffer)).map_err(RequestError::status);
        let mut text = [method, b" ", target, b" HTTP/1.1\r\n"].concat();
        for (name, value) in fields {
            text.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
        }
        text.extend_from_slice(b"\r\n");
        let mut head = RequestHead::new();
        let parsed = match head.parse(&text, &LIMITS) {
            Ok(Parsed::Complete(length)) => {
                assert_eq!(length, text.len());
                Ok(facts(&head, &text))
            }
            Ok(Parsed::Partial) => Err(0),
            Err(error) => Err(error.status()),
        };
        [built, parsed]
    }

    fn lines(fields: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_head_that_is_built_is_the_one_that_is_parsed() {
        let good: [&[(&str, &str)]; 6] = [
            &[("host", "a")],
            &[("host", "a:80"), ("cookie", "b=c; d=e"), ("x", "")],
            &[("host", "a"), ("Content-Length", "3"), ("expect", "100-continue")],
            &[("host", "a"), ("transfer-encoding", "chunked"), ("connection", "close, x")],
            &[("host", "a"), ("accept-encoding", "gzip;q=0.5"), ("accept-encoding", "br")],
            &[("host", "a"), ("if-none-match", " \"x\"\t"), ("range", "bytes=0-1")],
        ];
        for fields in good {
            let [built, parsed] = both(b"POST", b"/a?b", &lines(fields));
            assert!(built.is_ok(), "{fields:?}: {built:?}");
            assert_eq!(built, parsed);
        }
    }

    #[test]
    fn an_invalid_head_is_refused_as_by_the_parser() {
        let long = "x".repeat(60);
        let host = ("host", "a");
        /// Method, target, fields, and the status of the refusal.
        type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16);
        let table: [Row<'_>; 12] = [
            ("GET", "/", &[], 400),
            ("GET", "/", &[host, host], 400),
            ("GET", "/", &[("host", "a b")], 400),
            ("GET", "/", &[host, ("content-length", "x")], 400),
            ("GET", "/", &[host, ("content-length", "1"), ("content-length", "1")], 400),
            ("GET", "/", &[host, ("content-length", "1"), ("transfer-encoding", "chunked")], 400),
            ("GET", "/", &[host, ("transfer-encoding", "gzip")], 501),
            ("GET", "/", &[host, ("a b", "c")], 400),
            ("G T", "/", &[host], 400),
            ("GET", &long, &[host], 414),
            ("GET", "/", &[host, ("a", &long), ("b", &long)], 431),
            ("GET", "/", &[host, ("a", ""), ("b", ""), ("c", ""), ("d", ""), ("e", "")], 431),
        ];
        for (method, target, fields, status) in table {
            let [built, parsed] = both(method.as_bytes(), target.as_bytes(), &lines(fields));
            assert_eq!(built, Err(status), "{method} {target} {fields:?}");
            assert_eq!(built, parsed, "{method} {target} {fields:?}");
        }
        // HTTP/1 cannot express these.
        for (method, target, name, value) in [
            (&b""[..], &b"/"[..], &b"a"[..], &b"b"[..]),
            (b"GET", b"", b"a", b"b"),
            (b"GET", b"/ HTTP/1.1\r\nx: y", b"a", b"b"),
            (b"GET", b"/", b"", b"b"),
            (b"GET", b"/", b"a: b\r\nc", b"d"),
            (b"GET", b"/", b"a", b"b\r\nc: d"),
            (b"GET", b"/", b"a", b"b\0"),
        ] {
            let fields = [(b"host".to_vec(), b"a".to_vec()), (name.to_vec(), value.to_vec())];
            let (_, _, outcome) = build(method, target, &fields);
            assert_eq!(outcome.map_err(RequestError::status), Err(400), "{}", target.escape_ascii());
        }
    }

    #[test]
    fn a_head_like_another_has_its_method_and_version() {
        let text = b"\r\nPUT /a HTTP/1.0\r\nHost: a\r\nA: b\r\n\r\n";
        let mut head = RequestHead::new();
        assert_eq!(head.parse(text, &LIMITS), Ok(Parsed::Complete(text.len())));
        let mut builder = HeadBuilder::like(&head, text, b"/c?d");
        builder.field(b"a", b"b");
        let (other, buffer, outcome) = builder.finish();
        assert_eq!(outcome, Ok(()));
        assert_eq!(other.request_line.of(&buffer), b"PUT /c?d HTTP/1.0");
        assert_eq!((other.method, other.version, other.fields.len()), (Method::Put, Version::Http10, 1));
        assert!(other.lacks_length);
    }

    proptest! {
        #[test]
        fn building_and_parsing_agree(
            method in "[A-Z]{1,8}",
            target in "/[!-~]{0,50}",
            fields in proptest::collection::vec(
                (
                    "host|content-length|transfer-encoding|connection|expect|range|[a-zA-Z-]{1,9}",
                    "a|3|chunked|close|keep-alive|100-continue|[ -~]{0,20}",
                ),
                0..6,
            ),
        ) {
            let fields: Vec<_> =
                fields.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect();
            let [built, parsed] = both(method.as_bytes(), target.as_bytes(), &fields);
            prop_assert_eq!(built, parsed);
        }

        #[test]
        fn random_bytes_never_panic_and_stay_one_line(
            method in proptest::collection::vec(any::<u8>(), 0..8),
            target in proptest::collection::vec(any::<u8>(), 0..20),
            name in proptest::collection::vec(any::<u8>(), 0..8),
            value in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let fields = [(b"host".to_vec(), b"a".to_vec()), (name, value)];
            let (head, buffer, outcome) = build(&method, &target, &fields);
            if outcome.is_ok() {
                let is_line = |bytes: &[u8]| !bytes.iter().any(|byte| b"\r\n\0".contains(byte));
                prop_assert!(is_line(&buffer));
                prop_assert_eq!(head.fields.len(), 2);
            }
        }
    }
}
