//! Makes a request of decoded fields, or states why they are not a valid request (RFC 9113 section 8.3).
//!
//! Anything that two programs could read differently is malformed, as in HTTP/1: a server in front of others
//! must not forward it (RFC 9113 section 10.3).

use super::error::StreamError;
use super::hpack::{Field, FieldList, KnownName, Span};
use super::priority::Priority;
use crate::decimal;
use crate::grammar::is_token;
use crate::host::{equals_lower_case, split_port};
use crate::request::{Expectation, Method};

/// The contents of a request; spans refer to the list that holds its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) method_text: Span,
    pub(crate) scheme: Span,
    pub(crate) authority: Span,
    pub(crate) path: Span,
    pub(crate) protocol: Span,
    /// Where its fields begin and end in the list; pseudo-header fields are not among them.
    pub(crate) fields_start: u32,
    pub(crate) fields_end: u32,
    pub(crate) content_length: Option<u64>,
    pub(crate) expectation: Expectation,
    pub(crate) has_conditions_or_range: bool,
    pub(crate) priority: Option<Priority>,
    /// It had more fields than the limits allow; those that are there are the first ones.
    pub(crate) is_too_large: bool,
}

impl RequestHead {
    /// Whether it requests a tunnel, extended CONNECT or not: its directions end independently of each other,
    /// and a length of content has no meaning.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.method == Method::Connect
    }
}

/// The values that are collected while the fields are read.
#[derive(Default)]
struct CollectedFields {
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
    host: Option<Span>,
    content_length: Option<u64>,
    priority: Option<Priority>,
    expectation: Expectation,
    has_conditions_or_range: bool,
    cookies: u32,
}

/// Reads the request whose fields are those of `list` from `start`. Removes the field `host`, since the
/// authority has the same value, and joins cookies to one field (section 8.2.3).
///
/// With `is_too_large`, fields may be missing; missing fields are then no error.
#[inline]
pub(crate) fn read_request(
    list: &mut FieldList,
    start: usize,
    extended_connect: bool,
    is_too_large: bool,
) -> Result<RequestHead, StreamError> {
    let mut collected = CollectedFields::default();
    let fields = list.fields().get(start..).unwrap_or_default();
    let pseudo_fields = fields.iter().take_while(|field| collect_pseudo(&mut collected, field)).count();
    for field in &fields[pseudo_fields..] {
        collect(&mut collected, list, field)?;
    }
    let fields_start = start + pseudo_fields;
    if collected.host.is_some() {
        remove_host(list, fields_start);
    }
    if collected.cookies > 1 {
        join_cookies(list, fields_start);
    }
    let method_text = collected.method.unwrap_or_default();
    let head = RequestHead {
        method: Method::from_token(list.text(method_text)),
        method_text,
        scheme: collected.scheme.unwrap_or_default(),
        authority: collected.authority.or(collected.host).unwrap_or_default(),
        path: collected.path.unwrap_or_default(),
        protocol: collected.protocol.unwrap_or_default(),
        fields_start: fields_start as u32,
        fields_end: list.len() as u32,
        content_length: collected.content_length,
        expectation: collected.expectation,
        has_conditions_or_range: collected.has_conditions_or_range,
        priority: collected.priority,
        is_too_large,
    };
    if !is_too_large {
        check(&head, &collected, list, extended_connect)?;
    }
    Ok(head)
}

/// Notes a field if it is a pseudo-header field of requests and was not seen before.
#[inline]
fn collect_pseudo(collected: &mut CollectedFields, field: &Field) -> bool {
    let place = match field.known {
        KnownName::Method => &mut collected.method,
        KnownName::Scheme => &mut collected.scheme,
        KnownName::Authority => &mut collected.authority,
        KnownName::Path => &mut collected.path,
        KnownName::Protocol => &mut collected.protocol,
        _ => return false,
    };
    let takes = field.is_valid && place.is_none();
    if takes {
        *place = Some(field.value);
    }
    takes
}

/// Notes a field after the pseudo-header fields.
#[inline]
fn collect(collected: &mut CollectedFields, list: &FieldList, field: &Field) -> Result<(), StreamError> {
    if !field.is_valid {
        return Err(StreamError::malformed(match field.known {
            KnownName::Path => "a request whose :path is not a path",
            KnownName::Authority | KnownName::Host => {
                "a request whose authority is not a host and perhaps a port"
            }
            _ => "a field whose name or value holds bytes that it may not hold",
        }));
    }
    match field.known {
        KnownName::Host => match collected.host.replace(field.value) {
            None => {}
            Some(_) => return Err(StreamError::malformed("a request with several Host fields")),
        },
        KnownName::ContentLength => {
            let length = decimal::parse(list.value(field))
                .ok_or(StreamError::malformed("a Content-Length that is not a number, or too large"))?;
            if collected.content_length.replace(length).is_some() {
                return Err(StreamError::malformed("a request with several Content-Length fields"));
            }
        }
        KnownName::Method
        | KnownName::Scheme
        | KnownName::Authority
        | KnownName::Path
        | KnownName::Protocol
        | KnownName::Status => {
            return Err(StreamError::malformed(
                "a pseudo-header field twice, behind other fields, or of responses",
            ));
        }
        KnownName::Te if !list.value(field).eq_ignore_ascii_case(b"trailers") => {
            return Err(StreamError::malformed("a TE field with another value than trailers"));
        }
        KnownName::Expect => {
            let is_continue = list.value(field).eq_ignore_ascii_case(b"100-continue");
            collected.expectation = if is_continue { Expectation::Continue } else { Expectation::Unknown };
        }
        KnownName::IfMatch
        | KnownName::IfModifiedSince
        | KnownName::IfNoneMatch
        | KnownName::IfRange
        | KnownName::IfUnmodifiedSince
        | KnownName::Range => collected.has_conditions_or_range = true,
        KnownName::Cookie => collected.cookies += 1,
        KnownName::Priority => collected.priority = Some(Priority::parse_quickly(list.value(field))),
        known if known.is_connection_specific() => {
            return Err(StreamError::malformed("a field that belongs to a single HTTP/1 connection"));
        }
        _ => {}
    }
    Ok(())
}

/// The rules for the request as a whole.
#[inline]
fn check(
    head: &RequestHead,
    collected: &CollectedFields,
    list: &FieldList,
    extended_connect: bool,
) -> Result<(), StreamError> {
    if head.method == Method::Other && !is_token(list.text(head.method_text)) {
        return Err(StreamError::malformed("a request whose :method is missing or not a token"));
    }
    if collected.protocol.is_some() && !(extended_connect && head.method == Method::Connect) {
        return Err(StreamError::malformed("a request with :protocol that is not an extended CONNECT"));
    }
    if head.method == Method::Connect && collected.protocol.is_none() {
        return check_connect(head, collected, list);
    }
    if collected.protocol.is_some() && !is_token(list.text(head.protocol)) {
        return Err(StreamError::malformed("a request whose :protocol is not a token"));
    }
    check_path(head, list)?;
    let is_http = match list.text(head.scheme) {
        b"https" | b"http" => true,
        scheme => {
            let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
                && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
            if !is_scheme {
                return Err(StreamError::malformed("a request whose :scheme is missing or not a scheme"));
            }
            scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http")
        }
    };
    check_authority(head, collected, list, is_http)
}

/// Section 8.5: an authority with a port, and neither scheme nor path.
fn check_connect(
    head: &RequestHead,
    collected: &CollectedFields,
    list: &FieldList,
) -> Result<(), StreamError> {
    if collected.scheme.is_some() || collected.path.is_some() {
        return Err(StreamError::malformed("a CONNECT request with :scheme or :path"));
    }
    let authority = list.text(collected.authority.unwrap_or_default());
    let (host, port) = split_port(authority);
    if host.is_empty() || port.is_none_or(|port| port == 0) {
        return Err(StreamError::malformed("a CONNECT request whose :authority is not a host and a port"));
    }
    check_host_agrees(head, collected, list)
}

/// There is a path, and the asterisk occurs with OPTIONS only. The form of the path was checked when it was
/// decoded.
#[inline]
fn check_path(head: &RequestHead, list: &FieldList) -> Result<(), StreamError> {
    match list.text(head.path) {
        [b'/', ..] => Ok(()),
        b"*" if head.method == Method::Options => Ok(()),
        _ => Err(StreamError::malformed("a request whose :path is missing, or * without OPTIONS")),
    }
}

/// Section 8.3.1: there is `:authority` or `Host`, and if there are both, they agree. Only `http` and `https`
/// require one. Its form was checked when it was decoded.
#[inline]
fn check_authority(
    head: &RequestHead,
    collected: &CollectedFields,
    list: &FieldList,
    is_http: bool,
) -> Result<(), StreamError> {
    let authority = list.text(head.authority);
    if authority.is_empty() {
        let is_missing = collected.authority.is_none() && collected.host.is_none();
        if is_http || !is_missing {
            return Err(StreamError::malformed("a request without an authority"));
        }
    }
    check_host_agrees(head, collected, list)
}

#[inline]
fn check_host_agrees(
    head: &RequestHead,
    collected: &CollectedFields,
    list: &FieldList,
) -> Result<(), StreamError> {
    let (Some(authority), Some(host)) = (collected.authority, collected.host) else { return Ok(()) };
    let (authority, host) = (list.text(authority), list.text(host));
    if authority.eq_ignore_ascii_case(host) || agree_but_for_the_port(list.text(head.scheme), authority, host)
    {
        Ok(())
    } else {
        Err(StreamError::malformed("a request whose Host is another than its :authority"))
    }
}

/// Whether both name the same host and port, where one may omit the default port of the scheme.
fn agree_but_for_the_port(scheme: &[u8], authority: &[u8], host: &[u8]) -> bool {
    let default_port = if equals_lower_case(scheme, b"https") { 443 } else { 80 };
    let normal = |value: &[u8]| {
        let (name, port) = split_port(value);
        (name.to_ascii_lowercase(), port.unwrap_or(default_port))
    };
    normal(authority) == normal(host)
}

#[cold]
fn remove_host(list: &mut FieldList, fields_start: usize) {
    let place = list.fields()[fields_start..].iter().position(|field| field.known == KnownName::Host);
    if let Some(place) = place {
        list.fields_mut().remove(fields_start + place);
    }
}

/// Joins all `cookie` fields into the first (RFC 9113 section 8.2.3).
fn join_cookies(list: &mut FieldList, fields_start: usize) {
    let is_cookie = |field: &Field| field.known == KnownName::Cookie;
    let crumbs: Vec<Span> = list.fields()[fields_start..]
        .iter()
        .filter(|field| is_cookie(field))
        .map(|field| field.value)
        .collect();
    let joined = list.store_joined(&crumbs, b"; ");
    let mut index = 0;
    let mut is_first = true;
    list.fields_mut().retain_mut(|field| {
        let keeps = index < fields_start || !is_cookie(field) || is_first;
        if index >= fields_start && is_cookie(field) && is_first {
            field.value = joined;
            is_first = false;
        }
        index += 1;
        keeps
    });
}

/// Checks the trailers that are the fields of `list` from `start` (section 8.1).
pub(crate) fn check_trailers(list: &FieldList, start: usize) -> Result<(), StreamError> {
    for field in list.fields().iter().skip(start) {
        if list.name(field).first() == Some(&b':') {
            return Err(StreamError::malformed("a pseudo-header field in trailers"));
        }
        if !field.is_valid {
            return Err(StreamError::malformed(
                "a trailer whose name or value holds bytes that it may not hold",
            ));
        }
        if field.known.is_connection_specific() {
            return Err(StreamError::malformed("a trailer that belongs to a single HTTP/1 connection"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::hpack::{Decoder, decoder::ListLimits, encode_fields_block};
    use super::*;
    use proptest::prelude::*;

    /// Fields as a client would send them. Those that the encoder would change are written by hand.
    fn list_of(fields: &[(&str, &str)]) -> FieldList {
        let mut block = Vec::new();
        for (name, value) in fields {
            let plain = name.bytes().all(|byte| byte.is_ascii_lowercase())
                && KnownName::of(name.as_bytes()) == KnownName::Other;
            if plain {
                encode_fields_block([(name.as_bytes(), value.as_bytes())], &mut block);
            } else {
                block.extend([0, name.len() as u8]);
                block.extend(name.as_bytes());
                block.push(value.len() as u8);
                block.extend(value.as_bytes());
            }
        }
        let mut list = FieldList::new();
        let limits = ListLimits { bytes: usize::MAX, fields: usize::MAX };
        Decoder::new().decode(&block, limits, &mut list).unwrap();
        list
    }

    fn read(fields: &[(&str, &str)]) -> Result<(FieldList, RequestHead), &'static str> {
        let mut list = list_of(fields);
        match read_request(&mut list, 0, true, false) {
            Ok(head) => Ok((list, head)),
            Err(error) => Err(error.reason),
        }
    }

    const GET: &[(&str, &str)] =
        &[(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "h:1")];

    /// GET with more fields.
    fn get_with(fields: &[(&'static str, &'static str)]) -> Result<(FieldList, RequestHead), &'static str> {
        read(&[GET, fields].concat())
    }

    #[test]
    fn a_request_and_what_it_means() {
        let (list, head) = get_with(&[
            ("user-agent", "x"),
            ("priority", "u=1, i"),
            ("if-none-match", "\"a\""),
            ("expect", "100-Continue"),
            ("content-length", "5"),
            ("te", "Trailers"),
        ])
        .unwrap();
        assert_eq!(head.method, Method::Get);
        assert_eq!(list.text(head.method_text), b"GET");
        assert_eq!(list.text(head.scheme), b"https");
        assert_eq!(list.text(head.authority), b"h:1");
        assert_eq!(list.text(head.path), b"/a?b");
        assert_eq!((head.fields_start, head.fields_end), (4, 10));
        assert_eq!(head.content_length, Some(5));
        assert_eq!(head.priority, Some(Priority { urgency: 1, incremental: true }));
        assert!(head.has_conditions_or_range && head.expectation == Expectation::Continue);
        assert!(!head.is_tunnel());
    }

    #[test]
    fn malformed_requests() {
        let without = |name: &str| -> Vec<(&str, &str)> {
            GET.iter().filter(|(other, _)| *other != name).copied().collect()
        };
        let with = |name: &'static str, value: &'static str| -> Vec<(&str, &str)> {
            GET.iter().map(|&(other, old)| if other == name { (name, value) } else { (other, old) }).collect()
        };
        let and = |name: &'static str, value: &'static str| [GET, &[(name, value)]].concat();
        for fields in [
            vec![],
            without(":method"),
            without(":scheme"),
            without(":path"),
            without(":authority"),
            with(":method", ""),
            with(":method", "G T"),
            with(":path", ""),
            with(":path", "a"),
            with(":path", "*"),
            with(":path", "https://h/a"),
            with(":path", "/a b"),
            with(":path", "/a\tb"),
            with(":path", "/a#b"),
            with(":path", "/a\u{7f}"),
            with(":scheme", ""),
            with(":scheme", "1"),
            with(":scheme", "ht tp"),
            with(":authority", ""),
            with(":authority", "user@h"),
            with(":authority", "h/a"),
            with(":authority", "h:x"),
            and(":path", "/a"),
            and(":method", "GET"),
            and(":status", "200"),
            and(":unknown", "x"),
            and(":protocol", "websocket"),
            and("connection", "close"),
            and("keep-alive", "1"),
            and("proxy-connection", "close"),
            and("transfer-encoding", "chunked"),
            and("upgrade", "h2c"),
            and("te", "gzip"),
            and("te", "trailers, gzip"),
            and("te", ""),
            and("X-Upper", "x"),
            and("Host", "h:1"),
            and("", "x"),
            and("a b", "x"),
            and("a", " x"),
            and("a", "x\t"),
            and("a", "x\ry"),
            and("a", "x\0y"),
            and("host", "other"),
            and("host", ""),
            and("host", "h:2"),
            and("content-length", ""),
            and("content-length", "+1"),
            and("content-length", "1, 1"),
            and("content-length", "99999999999999999999"),
            [GET, &[("content-length", "1"), ("content-length", "1")]].concat(),
            [GET, &[("host", "h:1"), ("host", "h:1")]].concat(),
            [&[("a", "b")], GET].concat(),
            [&GET[..3], &[("a", "b")], &GET[3..]].concat(),
        ] {
            assert!(read(&fields).is_err(), "{fields:?}");
        }
        assert!(read(GET).is_ok());
    }

    #[test]
    fn authority_and_host() {
        let without_authority = &GET[..3];
        let (list, head) =
            read(&[without_authority, &[("a", "b"), ("host", "h"), ("c", "d")]].concat()).unwrap();
        assert_eq!(list.text(head.authority), b"h");
        let names: Vec<&[u8]> = list.fields()[3..].iter().map(|field| list.name(field)).collect();
        assert_eq!(names, [b"a", b"c"]);
        assert_eq!((head.fields_start, head.fields_end), (3, 5));

        assert!(get_with(&[("host", "H:1")]).is_ok());
        let with_authority = |authority, scheme, host| {
            read(&[
                (":method", "GET"),
                (":scheme", scheme),
                (":path", "/"),
                (":authority", authority),
                ("host", host),
            ])
        };
        assert!(with_authority("a:443", "https", "A").is_ok());
        assert!(with_authority("a", "http", "a:80").is_ok());
        assert!(with_authority("a", "https", "a:80").is_err());
        // Schemes other than those of HTTP need no authority.
        assert!(read(&[(":method", "GET"), (":scheme", "foo"), (":path", "/")]).is_ok());
        assert!(read(&[(":method", "GET"), (":scheme", "foo"), (":path", "/"), (":authority", "")]).is_err());
        assert!(read(&[(":method", "GET"), (":scheme", "HTTP"), (":path", "/")]).is_err());
    }

    #[test]
    fn asterisk_is_for_options() {
        let options = [(":method", "OPTIONS"), (":scheme", "https"), (":path", "*"), (":authority", "h")];
        assert_eq!(read(&options).unwrap().1.method, Method::Options);
    }

    #[test]
    fn connect() {
        let connect = |fields: &[(&'static str, &'static str)]| {
            read(&[&[(":method", "CONNECT")], fields].concat()).map(|(_, head)| head)
        };
        assert!(connect(&[(":authority", "h:443")]).unwrap().is_tunnel());
        for fields in [
            &[][..],
            &[(":authority", "h")],
            &[(":authority", "h:0")],
            &[(":authority", ":443")],
            &[("host", "h:443")],
            &[(":authority", "h:443"), (":path", "/")],
            &[(":authority", "h:443"), (":scheme", "https")],
            &[(":authority", "h:443"), ("host", "h:80")],
            &[(":protocol", "websocket"), (":authority", "h:443")],
            &[(":protocol", ""), (":scheme", "https"), (":path", "/"), (":authority", "h")],
        ] {
            assert!(connect(fields).is_err(), "{fields:?}");
        }
        let extended =
            &[(":protocol", "websocket"), (":scheme", "https"), (":path", "/chat"), (":authority", "h")];
        assert!(connect(extended).is_ok());
        let mut list = list_of(&[&[(":method", "CONNECT")], &extended[..]].concat());
        assert!(read_request(&mut list, 0, false, false).is_err());
    }

    #[test]
    fn cookies_are_joined() {
        let (list, head) =
            get_with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3"), ("z", "w")])
                .unwrap();
        let fields: Vec<(&[u8], &[u8])> =
            list.fields()[4..].iter().map(|field| (list.name(field), list.value(field))).collect();
        assert_eq!(fields, [(&b"cookie"[..], &b"a=1; b=2; c=3"[..]), (b"x", b"y"), (b"z", b"w")]);
        assert_eq!(head.fields_end, 7);
        let (list, head) = get_with(&[("cookie", "a=1"), ("cookie", "b=2")]).unwrap();
        assert_eq!((head.fields_end, list.value(&list.fields()[4])), (5, &b"a=1; b=2"[..]));
    }

    #[test]
    fn what_is_too_large_may_be_incomplete_but_not_malformed() {
        let mut list = list_of(&GET[..2]);
        assert!(read_request(&mut list, 0, false, true).unwrap().is_too_large);
        let mut list = list_of(&[(":method", "GET"), ("A", "b")]);
        assert!(read_request(&mut list, 0, false, true).is_err());
    }

    #[test]
    fn trailers() {
        let check = |fields: &[(&str, &str)]| check_trailers(&list_of(fields), 0).is_ok();
        assert!(check(&[("a", "b"), ("grpc-status", "0")]));
        assert!(!check(&[("a", "b"), (":path", "/")]));
        assert!(!check(&[(":unknown", "x")]));
        assert!(!check(&[("A", "b")]));
        assert!(!check(&[("connection", "close")]));
    }

    proptest! {
        /// Only well-formed requests are accepted, whatever the input.
        #[test]
        fn accepted_requests_are_well_formed(
            fields in proptest::collection::vec(
                (
                    proptest::sample::select(&[
                        ":method", ":scheme", ":path", ":authority", ":protocol", ":status", ":x", "host",
                        "cookie", "te", "connection", "content-length", "a", "A",
                    ][..]),
                    proptest::sample::select(&[
                        "GET", "CONNECT", "https", "/", "*", "h", "h:1", "", "trailers", "5", " x",
                        "websocket", "a b",
                    ][..]),
                ),
                0..9,
            )
        ) {
            let Ok((list, head)) = read(&fields) else { return Ok(()) };
            let count = |name: &str| fields.iter().filter(|(other, _)| *other == name).count();
            let value = |name: &str| fields.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
            prop_assert_eq!(count(":method"), 1);
            let singles = [":scheme", ":path", ":authority", "host", "content-length"];
            prop_assert!(singles.iter().all(|name| count(name) <= 1));
            prop_assert!([":status", ":x", "connection", "A"].iter().all(|name| count(name) == 0));
            let tunnel = value(":method") == Some("CONNECT") && value(":protocol").is_none();
            prop_assert_eq!(tunnel, value(":path").is_none());
            let authority = value(":authority").or(value("host")).unwrap();
            prop_assert_eq!(list.text(head.authority), authority.as_bytes());
            let first_regular =
                fields.iter().position(|(name, _)| !name.starts_with(':')).unwrap_or(fields.len());
            prop_assert!(fields[first_regular..].iter().all(|(name, _)| !name.starts_with(':')));
            let cookies: Vec<&str> =
                fields.iter().filter(|(name, _)| *name == "cookie").map(|(_, value)| *value).collect();
            let joined = list.fields()[head.fields_start as usize..head.fields_end as usize]
                .iter()
                .find(|field| field.known == KnownName::Cookie)
                .map(|field| String::from_utf8(list.value(field).to_vec()).unwrap());
            prop_assert_eq!(joined, (!cookies.is_empty()).then(|| cookies.join("; ")));
        }
    }
}
