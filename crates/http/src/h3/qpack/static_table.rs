//! The static table (RFC 9204 appendix A): fields that both sides have from the start. Its indexes begin with
//! 0.

use crate::h2::hpack::KnownName;

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Its value; empty for entries that only provide a name.
    pub value: &'static str,
    /// Which name it is, if it is recognised.
    pub known: KnownName,
}

const fn entry(known: KnownName, name: &'static str, value: &'static str) -> Entry {
    Entry { name, value, known }
}

/// How many there are.
const COUNT: usize = 99;

/// All of them.
#[rustfmt::skip]
pub static ENTRIES: [Entry; COUNT] = TABLE;

#[rustfmt::skip]
const TABLE: [Entry; COUNT] = [
    entry(KnownName::Authority, ":authority", ""),
    entry(KnownName::Path, ":path", "/"),
    entry(KnownName::Age, "age", "0"),
    entry(KnownName::ContentDisposition, "content-disposition", ""),
    entry(KnownName::ContentLength, "content-length", "0"),
    entry(KnownName::Cookie, "cookie", ""),
    entry(KnownName::Date, "date", ""),
    entry(KnownName::Etag, "etag", ""),
    entry(KnownName::IfModifiedSince, "if-modified-since", ""),
    entry(KnownName::IfNoneMatch, "if-none-match", ""),
    entry(KnownName::LastModified, "last-modified", ""),
    entry(KnownName::Link, "link", ""),
    entry(KnownName::Location, "location", ""),
    entry(KnownName::Referer, "referer", ""),
    entry(KnownName::SetCookie, "set-cookie", ""),
    entry(KnownName::Method, ":method", "CONNECT"),
    entry(KnownName::Method, ":method", "DELETE"),
    entry(KnownName::Method, ":method", "GET"),
    entry(KnownName::Method, ":method", "HEAD"),
    entry(KnownName::Method, ":method", "OPTIONS"),
    entry(KnownName::Method, ":method", "POST"),
    entry(KnownName::Method, ":method", "PUT"),
    entry(KnownName::Scheme, ":scheme", "http"),
    entry(KnownName::Scheme, ":scheme", "https"),
    entry(KnownName::Status, ":status", "103"),
    entry(KnownName::Status, ":status", "200"),
    entry(KnownName::Status, ":status", "304"),
    entry(KnownName::Status, ":status", "404"),
    entry(KnownName::Status, ":status", "503"),
    entry(KnownName::Accept, "accept", "*/*"),
    entry(KnownName::Accept, "accept", "application/dns-message"),
    entry(KnownName::AcceptEncoding, "accept-encoding", "gzip, deflate, br"),
    entry(KnownName::AcceptRanges, "accept-ranges", "bytes"),
    entry(KnownName::Other, "access-control-allow-headers", "cache-control"),
    entry(KnownName::Other, "access-control-allow-headers", "content-type"),
    entry(KnownName::AccessControlAllowOrigin, "access-control-allow-origin", "*"),
    entry(KnownName::CacheControl, "cache-control", "max-age=0"),
    entry(KnownName::CacheControl, "cache-control", "max-age=2592000"),
    entry(KnownName::CacheControl, "cache-control", "max-age=604800"),
    entry(KnownName::CacheControl, "cache-control", "no-cache"),
    entry(KnownName::CacheControl, "cache-control", "no-store"),
    entry(KnownName::CacheControl, "cache-control", "public, max-age=31536000"),
    entry(KnownName::ContentEncoding, "content-encoding", "br"),
    entry(KnownName::ContentEncoding, "content-encoding", "gzip"),
    entry(KnownName::ContentType, "content-type", "application/dns-message"),
    entry(KnownName::ContentType, "content-type", "application/javascript"),
    entry(KnownName::ContentType, "content-type", "application/json"),
    entry(KnownName::ContentType, "content-type", "application/x-www-form-urlencoded"),
    entry(KnownName::ContentType, "content-type", "image/gif"),
    entry(KnownName::ContentType, "content-type", "image/jpeg"),
    entry(KnownName::ContentType, "content-type", "image/png"),
    entry(KnownName::ContentType, "content-type", "text/css"),
    entry(KnownName::ContentType, "content-type", "text/html; charset=utf-8"),
    entry(KnownName::ContentType, "content-type", "text/plain"),
    entry(KnownName::ContentType, "content-type", "text/plain;charset=utf-8"),
    entry(KnownName::Range, "range", "bytes=0-"),
    entry(KnownName::StrictTransportSecurity, "strict-transport-security", "max-age=31536000"),
    entry(
        KnownName::StrictTransportSecurity,
        "strict-transport-security",
        "max-age=31536000; includesubdomains",
    ),
    entry(
        KnownName::StrictTransportSecurity,
        "strict-transport-security",
        "max-age=31536000; includesubdomains; preload",
    ),
    entry(KnownName::Vary, "vary", "accept-encoding"),
    entry(KnownName::Vary, "vary", "origin"),
    entry(KnownName::Other, "x-content-type-options", "nosniff"),
    entry(KnownName::Other, "x-xss-protection", "1; mode=block"),
    entry(KnownName::Status, ":status", "100"),
    entry(KnownName::Status, ":status", "204"),
    entry(KnownName::Status, ":status", "206"),
    entry(KnownName::Status, ":status", "302"),
    entry(KnownName::Status, ":status", "400"),
    entry(KnownName::Status, ":status", "403"),
    entry(KnownName::Status, ":status", "421"),
    entry(KnownName::Status, ":status", "425"),
    entry(KnownName::Status, ":status", "500"),
    entry(KnownName::AcceptLanguage, "accept-language", ""),
    entry(KnownName::Other, "access-control-allow-credentials", "FALSE"),
    entry(KnownName::Other, "access-control-allow-credentials", "TRUE"),
    entry(KnownName::Other, "access-control-allow-headers", "*"),
    entry(KnownName::Other, "access-control-allow-methods", "get"),
    entry(KnownName::Other, "access-control-allow-methods", "get, post, options"),
    entry(KnownName::Other, "access-control-allow-methods", "options"),
    entry(KnownName::Other, "access-control-expose-headers", "content-length"),
    entry(KnownName::Other, "access-control-request-headers", "content-type"),
    entry(KnownName::Other, "access-control-request-method", "get"),
    entry(KnownName::Other, "access-control-request-method", "post"),
    entry(KnownName::Other, "alt-svc", "clear"),
    entry(KnownName::Authorization, "authorization", ""),
    entry(
        KnownName::Other,
        "content-security-policy",
        "script-src 'none'; object-src 'none'; base-uri 'none'",
    ),
    entry(KnownName::Other, "early-data", "1"),
    entry(KnownName::Other, "expect-ct", ""),
    entry(KnownName::Other, "forwarded", ""),
    entry(KnownName::IfRange, "if-range", ""),
    entry(KnownName::Other, "origin", ""),
    entry(KnownName::Other, "purpose", "prefetch"),
    entry(KnownName::Server, "server", ""),
    entry(KnownName::Other, "timing-allow-origin", "*"),
    entry(KnownName::Other, "upgrade-insecure-requests", "1"),
    entry(KnownName::UserAgent, "user-agent", ""),
    entry(KnownName::Other, "x-forwarded-for", ""),
    entry(KnownName::Other, "x-frame-options", "deny"),
    entry(KnownName::Other, "x-frame-options", "sameorigin"),
];

/// The part of a field that the table contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableMatch {
    /// Name and value, at this index.
    Field(usize),
    /// The name, at this index.
    Name(usize),
    /// Neither name nor value.
    Nothing,
}

/// Searches for a field, whose name is in lower case.
pub fn find(name: &[u8], value: &[u8]) -> TableMatch {
    let mut best = TableMatch::Nothing;
    let Some(range) = BY_LENGTH.starts.get(name.len()..name.len() + 2) else { return best };
    for &index in &BY_LENGTH.indexes[usize::from(range[0])..usize::from(range[1])] {
        let index = usize::from(index);
        let entry = &ENTRIES[index];
        if entry.name.as_bytes() != name {
            continue;
        }
        if entry.value.as_bytes() == value {
            return TableMatch::Field(index);
        }
        if best == TableMatch::Nothing {
            best = TableMatch::Name(index);
        }
    }
    best
}

/// The longest name: `access-control-allow-credentials`.
const LONGEST_NAME: usize = 32;

/// The indexes in the order of their names' lengths, so that few names must be compared.
struct ByLength {
    indexes: [u8; COUNT],
    /// Where the names of each length begin.
    starts: [u8; LONGEST_NAME + 2],
}

static BY_LENGTH: ByLength = by_length();

const fn by_length() -> ByLength {
    let mut sorted = ByLength { indexes: [0; COUNT], starts: [0; LONGEST_NAME + 2] };
    let mut place = 0;
    let mut length = 0;
    while length <= LONGEST_NAME {
        sorted.starts[length] = place as u8;
        let mut index = 0;
        while index < COUNT {
            if TABLE[index].name.len() == length {
                sorted.indexes[place] = index as u8;
                place += 1;
            }
            index += 1;
        }
        length += 1;
    }
    sorted.starts[LONGEST_NAME + 1] = place as u8;
    assert!(place == COUNT);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(find(entry.name.as_bytes(), entry.value.as_bytes()), TableMatch::Field(index));
            let first = ENTRIES.iter().position(|other| other.name == entry.name).unwrap();
            assert_eq!(find(entry.name.as_bytes(), b"something else"), TableMatch::Name(first));
            assert_eq!(entry.known, KnownName::of(entry.name.as_bytes()), "{}", entry.name);
        }
        for name in [&b""[..], b"x", b"content-typf", &[b'a'; 32], &[b'a'; 33], &[b'a'; 500]] {
            assert_eq!(find(name, b""), TableMatch::Nothing);
        }
    }
}
