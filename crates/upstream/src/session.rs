//! Finds the container that keeps the session of a request.
//!
//! Containers append the name of their route to the identifier of a session: `1A2B3C.worker1`. The client
//! sends it back in a cookie or, without cookies, as a parameter of the path.

use touchstone_handler::request::ReceivedHead;

use crate::path_parameters;

/// How sessions are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRules {
    /// The name of the cookie.
    pub cookie: String,
    /// The name of the path's parameter.
    pub parameter: String,
    /// If the container of a session is down, the request is not sent to another one.
    pub is_binding: bool,
}

impl SessionRules {
    /// The index of the route that a request's session names. Cookies take precedence over the path, as with
    /// containers.
    pub fn owner(&self, head: &ReceivedHead, encoded_path: &[u8], routes: &[&str]) -> Option<usize> {
        let parameter = path_parameters::parameter(encoded_path, &self.parameter);
        let named = cookies(head, &self.cookie).chain(parameter).filter_map(route);
        let position =
            |named: &[u8]| routes.iter().position(|route| !route.is_empty() && route.as_bytes() == named);
        named.filter_map(position).next()
    }
}

/// The values of the cookies with this name.
fn cookies<'h>(head: &'h ReceivedHead, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    let pairs = head.values("cookie").flat_map(|value| value.split(|&byte| byte == b';'));
    pairs.filter_map(move |pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

/// The part after the first dot of a session's identifier.
fn route(session: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memchr(b'.', session)?;
    Some(&session[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::request::{Limits, RequestHead};

    fn owner(cookies: &[&str], path: &str) -> Option<usize> {
        let fields: String = cookies.iter().map(|cookie| format!("Cookie: {cookie}\r\n")).collect();
        let buffer = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
        let mut head = RequestHead::new();
        let limits = Limits { request_line_bytes: 100, header_bytes: 1000, header_fields: 20 };
        head.parse(&buffer, &limits).unwrap();
        let rules = SessionRules {
            cookie: "JSESSIONID".to_string(),
            parameter: "jsessionid".to_string(),
            is_binding: false,
        };
        rules.owner(
            &ReceivedHead { head, buffer: buffer.into() },
            path.as_bytes(),
            &["", "one", "two", "a.b"],
        )
    }

    #[test]
    fn routes_of_sessions() {
        for (cookies, path, expected) in [
            (&["JSESSIONID=1F.one"][..], "/", Some(1)),
            (&["a=b; JSESSIONID=\"1F.two\"; c=d"], "/", Some(2)),
            (&["JSESSIONID=1F.gone; JSESSIONID=2F.one"], "/", Some(1)),
            (&["x=y", "JSESSIONID=1F.a.b"], "/", Some(3)),
            (&[], "/a;jsessionid=1F.two", Some(2)),
            (&["JSESSIONID=1F.one"], "/a;jsessionid=1F.two", Some(1)),
            (&["JSESSIONID=1F.gone"], "/a;jsessionid=1F.two", Some(2)),
            (&["JSESSIONID=1F"], "/", None),
            (&["JSESSIONID=1F."], "/", None),
            (&["jsessionid=1F.one"], "/", None),
            (&["XJSESSIONID=1F.one"], "/a.one", None),
        ] {
            assert_eq!(owner(cookies, path), expected, "{cookies:?} {path}");
        }
    }
}
