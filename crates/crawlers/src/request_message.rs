//! A request of a client in the form for signatures.

use touchstone_handler::request::Request;
use touchstone_http::request_view::RequestFields;

use crate::signature::{Message, Start, Target};

/// The parts of the target that a client has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetParts<'r> {
    path: &'r [u8],
    query: Option<&'r [u8]>,
}

/// The parts of the target of a request.
pub fn target_parts(request: &Request) -> TargetParts<'_> {
    split(request.received.target())
}

/// A target in origin or absolute form (RFC 9112 section 3.2).
fn split(target: &[u8]) -> TargetParts<'_> {
    let mut rest = target;
    if let Some(at) = memchr::memmem::find(target, b"://")
        && !target.starts_with(b"/")
    {
        let behind = &target[at + 3..];
        let end = behind.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(behind.len());
        rest = &behind[end..];
    }
    match memchr::memchr(b'?', rest) {
        Some(mark) => TargetParts { path: &rest[..mark], query: Some(&rest[mark + 1..]) },
        None => TargetParts { path: rest, query: None },
    }
}

/// The message of a request.
pub fn as_message<'r>(
    request: &'r Request,
    parts: &TargetParts<'r>,
    fields: &'r dyn RequestFields,
) -> Message<'r> {
    let target = Target {
        method: request.received.method_text(),
        scheme: if request.is_https() { "https" } else { "http" },
        authority: request.host.as_deref().unwrap_or_default(),
        path: parts.path,
        query: parts.query,
        request_target: request.received.target(),
    };
    Message { start: Start::Request(target), fields, request: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_both_forms_have_parts() {
        for (target, path, query) in [
            ("/a?b=c?d", "/a", Some("b=c?d")),
            ("/", "/", None),
            ("/a?", "/a", Some("")),
            ("http://a.example/x?u=http://b/", "/x", Some("u=http://b/")),
            ("https://a.example", "", None),
            ("https://a.example?b", "", Some("b")),
            ("/http://a/b", "/http://a/b", None),
            ("*", "*", None),
        ] {
            let expected = TargetParts { path: path.as_bytes(), query: query.map(str::as_bytes) };
            assert_eq!(split(target.as_bytes()), expected, "{target}");
        }
    }
}
