//! The conditions of a route on a path, a field value and a request.
//!
//! Everything is compiled once. A wildcard in a path becomes a regular expression, because its match is
//! needed later. Regular expressions take linear time, and work on bytes: a path need not be UTF-8, and a
//! client could evade a rule that matched only UTF-8.

use std::collections::BTreeMap;

use regex::bytes::Regex;
use touchstone_expression::{AvailableFrom, Condition, Variable, pattern};
use touchstone_http::request_view::RequestView;

/// The condition of a route on a path.
#[derive(Debug, Clone)]
pub enum PathMatch {
    /// Any path.
    Any,
    /// This path.
    Exact(Box<[u8]>),
    /// This path, which ends with a slash, or one below it.
    Below(Box<[u8]>),
    /// A path that this expression matches as a whole.
    Expression(Box<Regex>),
}

impl PathMatch {
    /// Compiles the key `path`.
    pub fn from_path(text: &str) -> Result<PathMatch, String> {
        if text.is_empty() {
            return Ok(PathMatch::Any);
        }
        let (text, is_exact) = match text.strip_prefix('=') {
            Some(text) => (text, true),
            None => (text, false),
        };
        if !text.starts_with('/') {
            return Err(format!("{text:?} does not begin with '/'"));
        }
        let pieces = pieces(text)?;
        if is_exact {
            return match pieces.as_slice() {
                [Piece::Bytes(path)] => Ok(PathMatch::Exact(path.as_slice().into())),
                _ => Err(format!("{text:?} has wildcards, but '=' is for a single path")),
            };
        }
        match pieces.as_slice() {
            [Piece::Bytes(path)] if path.ends_with(b"/") => Ok(PathMatch::Below(path.as_slice().into())),
            [Piece::Bytes(path)] => Ok(PathMatch::Exact(path.as_slice().into())),
            _ => pattern::for_path(&expression(&pieces)).map(|regex| PathMatch::Expression(Box::new(regex))),
        }
    }

    /// Compiles the key `pattern`.
    pub fn from_pattern(text: &str) -> Result<PathMatch, String> {
        if text.is_empty() {
            return Ok(PathMatch::Any);
        }
        // First compiled on its own, so that the error refers to the operator's text.
        pattern::for_path(text)?;
        pattern::for_path(&format!(r"\A(?:{text})\z")).map(|regex| PathMatch::Expression(Box::new(regex)))
    }

    /// Whether the path matches.
    #[inline]
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            PathMatch::Any => true,
            PathMatch::Exact(exact) => path == &**exact,
            PathMatch::Below(prefix) => path.starts_with(prefix),
            PathMatch::Expression(regex) => regex.is_match(path),
        }
    }

    /// The names of what `captures` returns, starting at 1; `None` for those without a name.
    pub fn capture_names(&self) -> Vec<Option<String>> {
        match self {
            PathMatch::Any | PathMatch::Exact(_) => Vec::new(),
            PathMatch::Below(_) => vec![None],
            PathMatch::Expression(regex) => {
                regex.capture_names().skip(1).map(|name| name.map(str::to_string)).collect()
            }
        }
    }

    /// The matches of the wildcards, the groups, or the part below in a path that matches, starting at 1.
    pub fn captures<'p>(&self, path: &'p [u8]) -> Vec<&'p [u8]> {
        match self {
            PathMatch::Any | PathMatch::Exact(_) => Vec::new(),
            PathMatch::Below(prefix) => vec![path.get(prefix.len()..).unwrap_or_default()],
            PathMatch::Expression(regex) => match regex.captures(path) {
                None => Vec::new(),
                Some(captures) => captures
                    .iter()
                    .skip(1)
                    .map(|capture| capture.map_or(&[][..], |capture| capture.as_bytes()))
                    .collect(),
            },
        }
    }
}

enum Piece {
    Bytes(Vec<u8>),
    /// `*`
    WithinSegment,
    /// `**`
    Anything,
}

/// Splits a path at its wildcards and decodes the parts between them.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = vec![Piece::Bytes(Vec::new())];
    let mut bytes = text.as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        let rest = bytes.as_slice();
        let literal = match byte {
            b'*' if rest.starts_with(b"*") => {
                bytes.next();
                pieces.push(Piece::Anything);
                continue;
            }
            b'*' => {
                pieces.push(Piece::WithinSegment);
                continue;
            }
            b'%' => {
                let digit = |at: usize| rest.get(at).and_then(|byte| char::from(*byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                    return Err(format!(
                        "{text:?} holds a '%' without two hexadecimal digits; write '%25' for '%'"
                    ));
                };
                bytes.nth(1);
                (high << 4 | low) as u8
            }
            b'?' | b'#' => {
                return Err(format!(
                    "{text:?} contains {:?}; only the path of a request is compared",
                    char::from(byte)
                ));
            }
            _ => byte,
        };
        if literal.is_ascii_control() {
            return Err(format!("{text:?} holds a control character, which no path does"));
        }
        match pieces.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes.push(literal),
            _ => pieces.push(Piece::Bytes(vec![literal])),
        }
    }
    pieces.retain(|piece| !matches!(piece, Piece::Bytes(bytes) if bytes.is_empty()));
    check_segments(text, &pieces)?;
    Ok(pieces)
}

/// A request's path has no such segments when it is matched, so a route with one would never match.
fn check_segments(text: &str, pieces: &[Piece]) -> Result<(), String> {
    let whole: Vec<u8> = pieces
        .iter()
        .flat_map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.as_slice(),
            Piece::WithinSegment | Piece::Anything => b"*",
        })
        .copied()
        .collect();
    let mut segments: Vec<&[u8]> = whole.split(|byte| *byte == b'/').skip(1).collect();
    let last = segments.pop();
    let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
    if segments.iter().any(|segment| segment.is_empty() || is_dots(segment)) || last.is_some_and(is_dots) {
        return Err(format!(
            "{text:?} would never match: repeated slashes and '.' and '..' are resolved before routes are \
             compared"
        ));
    }
    Ok(())
}

fn expression(pieces: &[Piece]) -> String {
    let mut expression = String::from(r"\A");
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => {
                bytes.iter().for_each(|byte| expression.push_str(&format!(r"\x{byte:02X}")));
            }
            Piece::WithinSegment => expression.push_str("([^/]*)"),
            Piece::Anything => expression.push_str("(.*)"),
        }
    }
    expression.push_str(r"\z");
    expression
}

/// The condition of a route on one header field.
#[derive(Debug, Clone)]
pub struct FieldMatch {
    /// In lower case.
    name: Box<[u8]>,
    value: ValueMatch,
}

#[derive(Debug, Clone)]
enum ValueMatch {
    /// Absent or empty.
    Absent,
    /// The parts between the wildcards, in lower case; the first at the beginning and the last at the end.
    Pieces(Vec<Box<[u8]>>),
}

impl FieldMatch {
    /// Compiles a name and a value of the key `request_headers`.
    pub fn new(name: &str, value: &str) -> FieldMatch {
        let value = match value {
            "" => ValueMatch::Absent,
            _ => ValueMatch::Pieces(
                value.split('*').map(|piece| piece.to_ascii_lowercase().into_bytes().into()).collect(),
            ),
        };
        FieldMatch { name: name.to_ascii_lowercase().into_bytes().into(), value }
    }

    /// Whether the request matches: one field of the name is enough; for "absent" none may have a value.
    pub fn matches(&self, request: &RequestView<'_>) -> bool {
        let mut values = touchstone_http::request_view::values(request.fields, &self.name);
        match &self.value {
            ValueMatch::Absent => values.all(<[u8]>::is_empty),
            ValueMatch::Pieces(pieces) => values.any(|value| matches_pieces(pieces, value)),
        }
    }
}

fn matches_pieces(pieces: &[Box<[u8]>], value: &[u8]) -> bool {
    let [first, others @ ..] = pieces else { return false };
    let Some(mut rest) = strip_prefix(value, first) else { return false };
    let Some((last, middle)) = others.split_last() else { return rest.is_empty() };
    for piece in middle {
        // The first match is the best: it leaves the most for the parts that follow.
        let found = (0..=rest.len()).find_map(|at| strip_prefix(&rest[at..], piece));
        match found {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.len() >= last.len() && rest[rest.len() - last.len()..].eq_ignore_ascii_case(last)
}

fn strip_prefix<'v>(value: &'v [u8], lower_case: &[u8]) -> Option<&'v [u8]> {
    let (begin, behind) = value.split_at_checked(lower_case.len())?;
    begin.eq_ignore_ascii_case(lower_case).then_some(behind)
}

/// The conditions of a route on a request besides the `path`.
#[derive(Debug, Clone)]
pub struct RequestMatch {
    pattern: PathMatch,
    suffixes: Box<[Box<[u8]>]>,
    methods: Box<[Box<[u8]>]>,
    fields: Box<[FieldMatch]>,
    when: Option<Box<Condition>>,
}

impl RequestMatch {
    /// The same matcher with a condition.
    pub fn with_condition(self, when: Option<Condition>) -> RequestMatch {
        RequestMatch { when: when.map(Box::new), ..self }
    }

    /// Whether there is a condition.
    pub fn has_condition(&self) -> bool {
        self.when.is_some()
    }

    /// Whether the condition has a variable of the connection.
    pub fn needs_connection(&self) -> bool {
        let is_of_connection = |variable: &Variable| variable.known == AvailableFrom::Connection;
        self.when.as_ref().is_some_and(|when| when.uses(is_of_connection))
    }

    /// Compiles the keys of a route.
    pub fn new(
        pattern: &str,
        suffixes: &[String],
        methods: &[String],
        headers: &BTreeMap<String, String>,
    ) -> Result<RequestMatch, String> {
        let boxed = |texts: &[String]| texts.iter().map(|text| text.as_bytes().into()).collect();
        Ok(RequestMatch {
            pattern: PathMatch::from_pattern(pattern)?,
            suffixes: boxed(suffixes),
            methods: boxed(methods),
            fields: headers.iter().map(|(name, value)| FieldMatch::new(name, value)).collect(),
            when: None,
        })
    }

    /// Whether the request matches.
    #[inline]
    pub fn matches(&self, request: &RequestView<'_>) -> bool {
        let is_method =
            |method: &[u8]| method == request.method || (method == b"GET" && request.method == b"HEAD");
        (self.suffixes.is_empty() || self.suffixes.iter().any(|suffix| request.path.ends_with(suffix)))
            && (self.methods.is_empty() || self.methods.iter().any(|method| is_method(method)))
            && self.fields.iter().all(|field| field.matches(request))
            && self.pattern.matches(request.path)
            && self.when.as_ref().is_none_or(|when| when.holds(request))
    }

    /// The pattern.
    pub fn pattern(&self) -> &PathMatch {
        &self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::request_view::RequestView;

    fn path(text: &str) -> PathMatch {
        PathMatch::from_path(text).unwrap()
    }

    #[test]
    fn paths() {
        for (text, yes, no) in [
            ("", &["/", "/a", "/a/b"][..], &[][..]),
            ("/", &["/", "/a", "/a/b"], &[]),
            ("/a", &["/a"], &["/", "/a/", "/ab", "/A", "/a/b"]),
            ("/a/", &["/a/", "/a/b", "/a/b/c/"], &["/a", "/ab/", "/", "/b/a/"]),
            (
                "/a/*.html",
                &["/a/.html", "/a/b.html"],
                &["/a/b/c.html", "/a/b.htm", "/a/b.html5", "/x/a/b.html"],
            ),
            ("/a/**.html", &["/a/b/c.html"], &["/b/c.html"]),
            ("/**/x", &["/a/x", "/a/b/x", "//x"], &["/x", "/a/xx"]),
            ("/*", &["/", "/a"], &["/a/", "/a/b"]),
            ("/caf%C3%A9", &["/caf\u{e9}"], &["/caf%C3%A9"]),
            ("/caf\u{e9}", &["/caf\u{e9}"], &["/cafe"]),
            ("/50%25", &["/50%"], &["/50%25"]),
            ("/a%2A", &["/a*"], &["/ab"]),
            ("/a.b", &["/a.b"], &["/axb"]),
            ("/a.*", &["/a.b"], &["/axb"]),
        ] {
            for one in yes {
                assert!(path(text).matches(one.as_bytes()), "{text} {one}");
            }
            for one in no {
                assert!(!path(text).matches(one.as_bytes()), "{text} {one}");
            }
        }
    }

    #[test]
    fn paths_refused() {
        let never =
            "would never match: repeated slashes and '.' and '..' are resolved before routes are compared";
        for (text, message) in [
            ("a", "does not begin with '/'"),
            ("*", "does not begin with '/'"),
            ("/a//b", never),
            ("//", never),
            ("/a/../b", never),
            ("/..", never),
            ("/a/%2e%2E/b", never),
            ("/./", never),
            ("/a%", "holds a '%' without two hexadecimal digits; write '%25' for '%'"),
            ("/a%zz", "holds a '%' without two hexadecimal digits; write '%25' for '%'"),
            ("/a?b", "contains '?'; only the path of a request is compared"),
            ("/a#b", "contains '#'; only the path of a request is compared"),
            ("/a%00", "holds a control character, which no path does"),
            ("/a\tb", "holds a control character, which no path does"),
        ] {
            assert_eq!(PathMatch::from_path(text).unwrap_err(), format!("{text:?} {message}"));
        }
    }

    #[test]
    fn patterns_are_for_the_whole_path() {
        let pattern = |text: &str| PathMatch::from_pattern(text).unwrap();
        assert!(pattern("/a|/b").matches(b"/a") && pattern("/a|/b").matches(b"/b"));
        assert!(!pattern("/a|/b").matches(b"/x/b") && !pattern("/a|/b").matches(b"/ab"));
        assert!(!pattern("/a").matches(b"/a/") && !pattern("/a").matches(b"/a\n"));
        assert!(pattern("/.*").matches(b"/\xff\x80") && pattern("(?i)/A").matches(b"/a"));
        assert!(pattern("/caf\u{e9}").matches("/caf\u{e9}".as_bytes()));
        for (text, message) in [
            ("(", "not a regular expression: unclosed group"),
            ("[a", "not a regular expression: unclosed character class"),
            ("*", "not a regular expression: repetition operator missing expression"),
            ("a{1000000}", "the expression is too large when it is compiled"),
            (r"\1", "not a regular expression: backreferences are not supported"),
            (")|(", "not a regular expression: unopened group"),
        ] {
            assert_eq!(PathMatch::from_pattern(text).unwrap_err(), message, "{text}");
        }
        // A comment that would swallow the end.
        assert!(PathMatch::from_pattern("(?x) /a # b").is_err());
    }

    #[test]
    fn captures() {
        let texts = |matcher: PathMatch, path: &str| -> Vec<String> {
            let captures = matcher.captures(path.as_bytes());
            captures.iter().map(|capture| String::from_utf8_lossy(capture).into_owned()).collect()
        };
        assert_eq!(texts(path("/a/"), "/a/b/c"), ["b/c"]);
        assert_eq!(texts(path("/a/"), "/a/"), [""]);
        assert_eq!(texts(path("/*/x/**"), "/a/x/b/c"), ["a", "b/c"]);
        assert!(texts(path("/a"), "/a").is_empty());
        let pattern = PathMatch::from_pattern("/(?<year>[0-9]+)(/x)?/(.*)").unwrap();
        assert_eq!(pattern.capture_names(), [Some("year".to_string()), None, None]);
        assert_eq!(texts(pattern, "/2024/y"), ["2024", "", "y"]);
    }

    #[test]
    fn fields() {
        let matches = |name: &str, wanted: &str, fields: &[(&str, &str)]| {
            let fields = fields.to_vec();
            let request = RequestView { fields: &fields, ..RequestView::example("/") };
            FieldMatch::new(name, wanted).matches(&request)
        };
        let fields = &[("Host", "a"), ("X-One", "Alpha, beta"), ("x-one", "gamma"), ("x-empty", "")];
        for (name, wanted, expected) in [
            ("X-One", "*", true),
            ("x-ONE", "alpha, beta", true),
            ("x-one", "ALPHA*", true),
            ("x-one", "*beta", true),
            ("x-one", "*pha*ta", true),
            ("x-one", "gamma", true),
            ("x-one", "a*a*a", true),
            ("x-one", "beta", false),
            ("x-one", "alpha", false),
            ("x-one", "*alpha, beta, *", false),
            ("x-one", "a*beta*beta", false),
            ("x-one", "", false),
            ("x-empty", "", true),
            ("x-empty", "*", true),
            ("x-none", "*", false),
            ("x-none", "", true),
            ("x-one", "**", true),
        ] {
            assert_eq!(matches(name, wanted, fields), expected, "{name} {wanted}");
        }
    }

    proptest! {
        /// Wildcards in values have the meaning of the corresponding regular expression.
        #[test]
        fn value_wildcards_are_wildcards(wanted in "[ab*]{1,6}", value in "[abAB]{0,8}") {
            let expression: String = wanted.replace('*', ".*");
            let regex = Regex::new(&format!(r"\A(?i:{expression})\z")).unwrap();
            let fields = vec![("x", value.as_str())];
            let request = RequestView { fields: &fields, ..RequestView::example("/") };
            let matches = FieldMatch::new("X", &wanted).matches(&request);
            prop_assert_eq!(matches, regex.is_match(value.as_bytes()));
        }

        #[test]
        fn a_path_without_wildcards_matches_itself(text in "/[a-z%.]{0,8}/?", other in "/[a-z.]{0,3}/?") {
            if let Ok(matcher) = PathMatch::from_path(&text.replace('%', "%25")) {
                prop_assert!(matcher.matches(text.as_bytes()));
                let expected = other == text || text.ends_with('/') && other.starts_with(&text);
                prop_assert_eq!(matcher.matches(other.as_bytes()), expected);
            }
        }

        #[test]
        fn no_text_panics(text in any::<String>(), bytes: Vec<u8>) {
            let matchers = [PathMatch::from_path(&text), PathMatch::from_pattern(&text)];
            for matcher in matchers.into_iter().flatten() {
                let captures = matcher.captures(&bytes);
                if matcher.matches(&bytes) {
                    prop_assert_eq!(captures.len(), matcher.capture_names().len());
                }
            }
        }
    }
}
