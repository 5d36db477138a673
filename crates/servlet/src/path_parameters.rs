//! Path parameters, such as `;jsessionid=…`.
//!
//! For the server a semicolon is an ordinary character; Tomcat removes it and the text up to the next slash.
//! So `/shop/x/..;/admin` is one path for the server's access rules and another for Tomcat, which has made
//! many attacks on a Tomcat behind another server possible. Here both use the same path: a request with a
//! semicolon passes through the server's routes once more with the path that Tomcat will read, as with
//! containers behind AJP. Caches do not store the answer.

use std::borrow::Cow;

use touchstone_handler::request::{MOST_DERIVED, Request};
use touchstone_interfaces::ajp::{AmbiguousPath, ServletPath};

/// The path that the rules must judge, if they have judged another one.
///
/// # Errors
/// The value is not a path, or the request is in a loop.
pub fn other_path(request: &Request) -> Result<Option<Vec<u8>>, AmbiguousPath> {
    if !has_any(request) {
        return Ok(None);
    }
    let ServletPath { path, .. } = ServletPath::of(&request.encoded_path)?;
    match path == request.path {
        true => Ok(None),
        false if request.depth >= MOST_DERIVED => Err(AmbiguousPath),
        false => Ok(Some(path)),
    }
}

/// The path for the application, with its parameters.
pub fn as_sent(request: &Request) -> Cow<'_, [u8]> {
    match has_any(request).then(|| ServletPath::of(&request.encoded_path)) {
        Some(Ok(ServletPath { uri, .. })) => Cow::Owned(uri),
        _ => Cow::Borrowed(&request.encoded_path),
    }
}

fn has_any(request: &Request) -> bool {
    request.encoded_path.contains(&b';')
}
