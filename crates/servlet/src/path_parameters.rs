//! Path parameters, such as `;jsessionid=…`.
//!
//! To the server a semicolon is a letter like any other; Tomcat takes it, and what follows up to the next slash, out of the
//! path. So `/shop/x/..;/admin` is one path to the server's access rules and another to Tomcat, which is how many a server
//! in front of a Tomcat was got past. Here both see the same: a request with a semicolon goes through the server's routes
//! once more, without its parameters, and they are handed to Tomcat beside it.

use std::rc::Rc;

use touchstone_http::target::normalise_path;
use touchstone_interfaces::request::Request;

/// The field that carries the path as it was sent. It is never shown to applications, and one that a client sends has no
/// effect but what its path itself would have.
pub const FIELD: &[u8] = b"Touchstone-Path-With-Parameters";

/// Whether a request's path has parameters that were not taken out yet.
pub fn has_any(request: &Request) -> bool {
    request.path_as_sent.contains(&b';')
}

/// The request without its parameters, to be answered from the beginning; `None` where what is left is no path.
pub fn take_out(mut request: Request) -> Option<Request> {
    let sent = std::mem::take(&mut request.path_as_sent);
    let plain = without(&sent);
    let mut path = Vec::with_capacity(plain.len());
    normalise_path(&plain, &mut path).ok()?;
    let is_other = |name: &[u8]| !name.eq_ignore_ascii_case(FIELD);
    request.received = Rc::new(request.received.with_fields(is_other, Some((FIELD, &sent)))?);
    request.path = path.into();
    request.path_as_sent = plain.into();
    request.depth += 1;
    Some(request)
}

/// The path that an application is to see: with its parameters, where they belong to this path.
pub fn as_sent(request: &Request) -> &[u8] {
    let mut values = request.received.values("touchstone-path-with-parameters");
    match values.next() {
        Some(sent) if request.depth > 0 && without(sent) == request.path_as_sent => sent,
        _ => &request.path_as_sent,
    }
}

/// A path without the parameters of its segments.
fn without(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut is_parameter = false;
    for &byte in path {
        match byte {
            b';' => is_parameter = true,
            b'/' => is_parameter = false,
            _ => {}
        }
        if !is_parameter {
            plain.push(byte);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_end_with_their_segment() {
        for (path, plain) in [
            (&b"/a;jsessionid=1"[..], &b"/a"[..]),
            (b"/a;x=1/b;y/c", b"/a/b/c"),
            (b"/a/..;/b", b"/a/../b"),
            (b"/;/a", b"//a"),
            (b"/a", b"/a"),
        ] {
            assert_eq!(without(path), plain);
        }
    }
}
