//! Path parameters, such as `;jsessionid=…`.
//!
//! To the server a semicolon is a letter like any other; Tomcat takes it, and what follows up to the next
//! slash, out of the path. So `/shop/x/..;/admin` is one path to the server's access rules and another to
//! Tomcat, which is how many a server in front of a Tomcat was got past. Here both see the same: a request
//! with a semicolon goes through the server's routes once more under the path that Tomcat will read, as it
//! does with containers behind AJP. No cache keeps its answer.

use std::borrow::Cow;

use touchstone_handler::request::{MOST_DERIVED, Request};
use touchstone_interfaces::ajp::{Ambiguous, ServletPath};

/// The path that rules must be asked about, where they were asked about another.
///
/// # Errors
/// It is no path, or goes in circles.
pub fn other_path(request: &Request) -> Result<Option<Vec<u8>>, Ambiguous> {
    if !has_any(request) {
        return Ok(None);
    }
    let ServletPath { path, .. } = ServletPath::of(&request.path_as_sent)?;
    match path == request.path {
        true => Ok(None),
        false if request.depth >= MOST_DERIVED => Err(Ambiguous),
        false => Ok(Some(path)),
    }
}

/// The path that an application is to see, with its parameters.
pub fn as_sent(request: &Request) -> Cow<'_, [u8]> {
    match has_any(request).then(|| ServletPath::of(&request.path_as_sent)) {
        Some(Ok(ServletPath { uri, .. })) => Cow::Owned(uri),
        _ => Cow::Borrowed(&request.path_as_sent),
    }
}

fn has_any(request: &Request) -> bool {
    request.path_as_sent.contains(&b';')
}
