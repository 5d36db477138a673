//! The path and query that a program or an origin gets in place of those of the client.
//!
//! A target is made of a request by the pattern of its route, where the program or origin is called: it does
//! not change which rules apply. Values from the request are encoded for their position, so they add neither
//! a parameter nor a segment.

use touchstone_expression::scope::FindsMaps;
use touchstone_expression::{AvailableFrom, Scope, Source, Text};
use touchstone_http::path::PathRules;

use crate::matcher::PathMatch;
use crate::template::{Template, Values};

/// The target for requests of one route.
#[derive(Debug, Clone)]
pub struct RouteTarget {
    template: Template,
    captured: PathMatch,
    /// The `path` and `pattern` of the route.
    written: (String, String),
}

/// The parts of a request that a target is made of.
pub struct TargetRequest<'r> {
    /// The path in its normal form.
    pub path: &'r [u8],
    /// The query as it was sent.
    pub query: Option<&'r [u8]>,
    /// The host that the client requested.
    pub host: Option<&'r [u8]>,
    /// The values of all other variables.
    pub source: &'r dyn Source,
}

impl PartialEq for RouteTarget {
    fn eq(&self, other: &RouteTarget) -> bool {
        self.template == other.template && self.written == other.written
    }
}

impl Eq for RouteTarget {}

impl RouteTarget {
    /// Reads the target of a route with these values of `path` and `pattern`.
    ///
    /// # Errors
    /// The problem of the text.
    pub fn new(
        text: &str,
        (path, pattern): (&str, &str),
        maps: Option<&dyn FindsMaps>,
    ) -> Result<RouteTarget, String> {
        let captured = match pattern {
            "" => PathMatch::from_path(path)?,
            pattern => PathMatch::from_pattern(pattern)?,
        };
        let names = captured.capture_names();
        let template =
            Template::rewrite(text, Scope { known: AvailableFrom::Connection, maps, captures: &names })?;
        Ok(RouteTarget { template, captured, written: (path.to_string(), pattern.to_string()) })
    }

    /// Whether it is made of the path, the query and the host alone.
    pub fn is_of_url(&self) -> bool {
        !self.template.has_values()
    }

    /// Its texts with variables besides those of the URL.
    pub fn values(&self) -> impl Iterator<Item = &Text> {
        self.template.values()
    }

    /// The query; `None`: the request lacks a value that is needed.
    pub fn query(&self, request: &TargetRequest<'_>) -> Option<Vec<u8>> {
        Some(self.target(request)?.1.unwrap_or_default())
    }

    /// The path and query for an origin. `None`: the request lacks a value that is needed, or the path would
    /// have a dot segment, or could be read as another one.
    pub fn path_and_query(&self, request: &TargetRequest<'_>) -> Option<Vec<u8>> {
        let (mut path, query) = self.target(request)?;
        // Two slashes at the beginning could be read as the name of a server.
        let slashes = path.iter().take_while(|byte| **byte == b'/').count();
        path.drain(..slashes - 1);
        PathRules { keep_slashes: true, ..PathRules::USUAL }.read(&path).ok()?;
        if path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b"..")) {
            return None;
        }
        let own = query.as_deref().filter(|_| self.template.has_query());
        if let Some(query) = own.or(request.query.filter(|_| !self.template.has_query())) {
            path.push(b'?');
            path.extend_from_slice(query);
        }
        Some(path)
    }

    fn target(&self, request: &TargetRequest<'_>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        // A component before the program may have changed the path.
        if !self.captured.matches(request.path) {
            return None;
        }
        let captures = self.captured.captures(request.path);
        let TargetRequest { path, query, host, source } = *request;
        self.template.target(&Values { captures: &captures, path, query, host, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::request_view::RequestView;

    fn of<T>(
        target: &RouteTarget,
        path: &[u8],
        query: Option<&[u8]>,
        make: fn(&RouteTarget, &TargetRequest<'_>) -> Option<T>,
    ) -> Option<T> {
        let view = RequestView { query, ..RequestView::example("/") };
        make(target, &TargetRequest { path, query, host: Some(b"a.example:80"), source: &view })
    }

    fn sent(text: &str, (path, pattern): (&str, &str), request: &str) -> Option<String> {
        let target = RouteTarget::new(text, (path, pattern), None).unwrap();
        let (path, query) =
            request.split_once('?').map_or((request, None), |(path, query)| (path, Some(query)));
        let sent = of(&target, path.as_bytes(), query.map(str::as_bytes), RouteTarget::path_and_query);
        sent.map(|sent| String::from_utf8(sent).unwrap())
    }

    fn query(text: &str, pattern: &str, request: &str) -> String {
        let target = RouteTarget::new(text, ("", pattern), None).unwrap();
        let (path, query) =
            request.split_once('?').map_or((request, None), |(path, query)| (path, Some(query)));
        let query = of(&target, path.as_bytes(), query.map(str::as_bytes), RouteTarget::query);
        String::from_utf8(query.unwrap()).unwrap()
    }

    #[test]
    fn parameters_are_made_of_the_path() {
        for (text, pattern, request, expected) in [
            ("/i.php?url=$path&$query", "", "/a b/c", "url=/a%20b/c"),
            ("/i.php?url=$path&$query", "", "/a?x=1&y=2", "url=/a&x=1&y=2"),
            ("/i.php?q=$1", "/(.*)", "/a/b?x=1", "q=a/b"),
            // No byte of the path ends the parameter, or is decoded twice.
            ("/i.php?q=$1", "/(.*)", "/a&admin=1", "q=a%26admin=1".replace("=1", "%3D1").as_str()),
            ("/i.php?q=$1", "/(.*)", "/a+b%41#c\r\nX: y", "q=a%2Bb%2541%23c%0D%0AX:%20y"),
            ("/i.php?q=$1", "/(.*)", "/\u{e9}", "q=%C3%A9"),
            ("/i.php?host=$host&m=$method", "", "/", "host=a.example&m=GET"),
            ("/i.php?", "", "/?x=1", ""),
        ] {
            assert_eq!(query(text, pattern, request), expected, "{text} {request}");
        }
    }

    #[test]
    fn a_prefix_is_replaced_byte_by_byte() {
        for (text, path, request, expected) in [
            ("/c$1", "/a**", "/a", Some("/c")),
            ("/c$1", "/a**", "/a/x", Some("/c/x")),
            ("/c$1", "/a**", "/ax?y=1", Some("/cx?y=1")),
            ("/c/$1", "/a**", "/a/x", Some("/c//x")),
            ("/c$1", "/a/", "/a/x", Some("/cx")),
            ("/$1", "/a**", "/a/x", Some("/x")),
            ("/$1", "/a**", "/a", Some("/")),
            ("/c", "/a", "/a?b", Some("/c?b")),
            ("/c?", "/a", "/a?b", Some("/c")),
            ("/c?p=$path", "/a", "/a?b", Some("/c?p=/a")),
            // Dot segments that a replacement would make.
            ("/c/$1", "/a**", "/a../x", None),
            ("/c/$1", "/a**", "/a..", None),
            ("/c/.$1", "/a**", "/a./x", None),
            ("/c/$1", "/a**", "/a..;/x", None),
            ("/c/$1", "/a**", "/a..\\x", None),
        ] {
            assert_eq!(sent(text, (path, ""), request).as_deref(), expected, "{text} {path} {request}");
        }
        assert_eq!(sent("/b/$2/$1", ("", "/([a-z]+)/(.*)"), "/x/y/z\0w"), Some("/b/y/z%2Fw/x".to_string()));
        // The path is not one of the route.
        assert_eq!(sent("/c$1", ("/a/", ""), "/b"), None);
    }

    #[test]
    fn what_is_no_target_is_refused() {
        let new = |text: &str| RouteTarget::new(text, ("/a/", ""), None).unwrap_err();
        assert!(new("/i.php?q=$2").contains("$2"), "{}", new("/i.php?q=$2"));
        assert!(new("/i.php?q=$user").contains("user"));
        assert!(new("i.php").contains("begin with"));
        assert!(new("/a b").contains("percent-encoded"));
        assert!(RouteTarget::new("/$1", ("", "/("), None).is_err());
        let target = |path: &str| RouteTarget::new("/c$1", (path, ""), None).unwrap();
        assert!(target("/a/") == target("/a/") && target("/a/") != target("/b/"));
    }

    proptest! {
        /// Whatever the path is: one parameter, without a byte that ends it or a line.
        #[test]
        fn a_path_is_one_parameter(path in prop::collection::vec(any::<u8>(), 0..24)) {
            let path = [b"/", &path[..]].concat();
            let target = RouteTarget::new("/i.php?q=$path", ("", ""), None).unwrap();
            let query = of(&target, &path, None, RouteTarget::query).unwrap();
            let value = query.strip_prefix(b"q=").unwrap();
            prop_assert!(value.iter().all(|byte| byte.is_ascii_graphic() && !b"&=+;#?\"<>".contains(byte)));
        }

        /// A path for an origin has no dot segments, and does not begin with the name of a server.
        #[test]
        fn a_path_for_an_origin_stays_below_its_beginning(rest in "[a./;\\\\%-]{0,10}") {
            let path = format!("/a{rest}");
            let target = RouteTarget::new("/c/$1", ("/a**", ""), None).unwrap();
            if let Some(sent) = of(&target, path.as_bytes(), None, RouteTarget::path_and_query) {
                let sent = String::from_utf8(sent).unwrap();
                let has_dots = sent.split('/').any(|part| part == ".." || part == ".");
                prop_assert!(sent.starts_with("/c/") && !has_dots);
            }
        }
    }
}
