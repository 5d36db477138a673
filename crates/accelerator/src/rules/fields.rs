//! Iterates over field lines, and removes those that are not stored (RFC 9111 section 3.1).

use touchstone_http::grammar::{list_members, trim_optional_white_space};
use touchstone_http::h2::StreamRequest;
use touchstone_http::request_view::HeadFields;

/// The fields of a message: names as they were sent, values without surrounding white space.
pub trait Fields: Copy {
    /// Calls `each` for every field line in order.
    fn each<'a>(&'a self, each: &mut dyn FnMut(&'a [u8], &'a [u8]));

    /// Calls `each` for the value of every line with this name.
    fn values<'a>(&'a self, name: &str, each: &mut dyn FnMut(&'a [u8])) {
        self.each(&mut |other, value| {
            if other.eq_ignore_ascii_case(name.as_bytes()) {
                each(value);
            }
        });
    }

    /// The value of the first line with this name.
    fn first<'a>(&'a self, name: &str) -> Option<&'a [u8]> {
        let mut first = None;
        self.values(name, &mut |value| first = first.or(Some(value)));
        first
    }

    /// Whether there is a line with this name.
    fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }
}

/// Field lines as text, each with its CRLF.
#[derive(Debug, Clone, Copy)]
pub struct FieldText<'t>(pub &'t [u8]);

impl Fields for HeadFields<'_> {
    #[inline]
    fn each<'a>(&'a self, each: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for line in &self.head.fields {
            each(line.name.of(self.buffer), line.value.of(self.buffer));
        }
    }
}

impl Fields for StreamRequest<'_> {
    #[inline]
    fn each<'a>(&'a self, each: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.fields().for_each(|field| each(field.name, field.value));
    }
}

impl Fields for FieldText<'_> {
    fn each<'a>(&'a self, each: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for (name, value) in lines(self.0) {
            each(name, value);
        }
    }
}

/// The names and values of field lines.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], trim_optional_white_space(&line[colon + 1..])))
    })
}

/// Appends a field line.
pub fn append(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for piece in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

/// Fields about one connection or about a proxy, which are never stored.
const NEVER_STORED: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // Its value is new in each answer.
    "age",
];

/// Whether a field has a new value in each answer, or is about one connection.
pub fn is_never_stored(name: &[u8]) -> bool {
    NEVER_STORED.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// Whether a list, such as `Connection`, has this member.
pub fn list_has(list: &[u8], name: &[u8]) -> bool {
    list_members(list).any(|member| member.eq_ignore_ascii_case(name))
}

/// The field lines of a response as they are stored: without those of the connection, `Age`, and the names in
/// `left_out`. `Date` and `Content-Length` are stored separately.
pub fn stored_fields(fields: &[u8], left_out: &[Box<[u8]>]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(fields.len());
    let text = FieldText(fields);
    for (name, value) in lines(fields) {
        let mut is_of_connection = false;
        text.values("connection", &mut |list| is_of_connection |= list_has(list, name));
        let is_apart = [&b"date"[..], b"content-length"].iter().any(|apart| name.eq_ignore_ascii_case(apart));
        let is_left_out = left_out.iter().any(|other| other.eq_ignore_ascii_case(name));
        if !is_never_stored(name) && !is_of_connection && !is_apart && !is_left_out {
            append(&mut stored, name, value);
        }
    }
    stored
}

/// The field lines with one of these names, as they were sent.
pub fn lines_named(fields: &[u8], names: &[Box<[u8]>]) -> Vec<u8> {
    let mut found = Vec::new();
    for (name, value) in lines(fields) {
        if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            append(&mut found, name, value);
        }
    }
    found
}

/// The stored fields, updated by a newer response for the same representation (RFC 9111 section 3.2): each
/// field in it replaces all stored fields with that name, except those that describe the stored body, and
/// `left_out`.
pub fn updated_fields(stored: &[u8], newer: &[u8], left_out: &[Box<[u8]>]) -> Vec<u8> {
    const KEPT: [&str; 5] = ["content-encoding", "content-length", "content-md5", "content-range", "etag"];
    let kept = |name: &[u8]| KEPT.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    let newer = stored_fields(newer, left_out);
    let replaced =
        |name: &[u8]| !kept(name) && lines(&newer).any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut updated = Vec::with_capacity(stored.len() + newer.len());
    for (name, value) in lines(stored).filter(|(name, _)| !replaced(name)) {
        append(&mut updated, name, value);
    }
    for (name, value) in lines(&newer).filter(|(name, _)| !kept(name)) {
        append(&mut updated, name, value);
    }
    updated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_the_connection_is_not_stored() {
        let fields = b"A: 1\r\nConnection: a, b\r\nAGE: 3\r\nB: 2\r\nDate: x\r\nSet-Cookie: k\r\nC:  3 \r\n";
        assert_eq!(stored_fields(fields, &[b"set-cookie".as_slice().into()]), b"C: 3\r\n");
    }

    #[test]
    fn a_newer_head_replaces_fields_but_not_those_of_the_body() {
        let stored = b"ETag: \"a\"\r\nX: 1\r\nX: 2\r\nContent-Encoding: gzip\r\nY: 1\r\n";
        let newer = b"x: 3\r\nETag: \"b\"\r\nContent-Encoding: br\r\nZ: 1\r\n";
        let updated = updated_fields(stored, newer, &[]);
        assert_eq!(
            updated.escape_ascii().to_string(),
            b"ETag: \"a\"\r\nContent-Encoding: gzip\r\nY: 1\r\nx: 3\r\nZ: 1\r\n".escape_ascii().to_string()
        );
        let updated = updated_fields(b"X: 1\r\n", b"Set-Cookie: a\r\n", &[b"set-cookie".as_slice().into()]);
        assert_eq!(updated, b"X: 1\r\n");
    }
}
