//! The request target (RFC 9112 section 3.2) and the path in it.
//!
//! [`parse_target`] distinguishes the four forms. [`is_plain_path`] finds in one fast pass whether a path is
//! already what [`normalise_path`] would return, as nearly every path is; only other paths are decoded.

use memchr::memchr;

use crate::host::{is_valid_host, split_port};

/// The target of a request, in one of the four forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTarget<'a> {
    /// `/path?query`, for the authority that `Host` names.
    Origin {
        /// The path as received, percent-encoded; it begins with a slash.
        path: &'a [u8],
        /// The part after the first question mark, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `http://authority/path?query`; its authority replaces `Host` (RFC 9112 section 3.2.2).
    Absolute {
        /// The scheme, in the case in which it was received.
        scheme: &'a [u8],
        /// Host and perhaps port: [valid](is_valid_host) and not empty.
        authority: &'a [u8],
        /// The path as received, percent-encoded; `/` if the URI has none.
        path: &'a [u8],
        /// The part after the first question mark, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `host:port`, with CONNECT only.
    Authority(&'a [u8]),
    /// `*`, with OPTIONS only: the server as a whole.
    Asterisk,
}

/// Why a request target is refused, with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetError {
    /// It is empty.
    Empty,
    /// It holds white space or a control byte.
    ForbiddenByte,
    /// It holds a fragment (`#`), which is never sent.
    Fragment,
    /// It has none of the four forms, or one that the method does not allow.
    Form,
    /// Its authority is missing or not a host with perhaps a port; with CONNECT the port is missing.
    Authority,
}

impl std::fmt::Display for TargetError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            TargetError::Empty => "request target is empty",
            TargetError::ForbiddenByte => "request target holds white space or a control byte",
            TargetError::Fragment => "request target holds a fragment",
            TargetError::Form => "request target does not have a form that the method allows",
            TargetError::Authority => "request target does not name a valid host and port",
        })
    }
}

impl std::error::Error for TargetError {}

/// Reads a request target. `CONNECT` allows the authority form only, `*` goes with `OPTIONS` only.
///
/// Accepts bytes from 0x80, and the ASCII characters that a URI should escape but browsers do not, such as
/// `|`.
pub fn parse_target(
    method_is_connect: bool,
    method_is_options: bool,
    target: &[u8],
) -> Result<RequestTarget<'_>, TargetError> {
    match target {
        [] => return Err(TargetError::Empty),
        _ if target.iter().any(|&byte| byte <= b' ' || byte == 0x7f) => {
            return Err(TargetError::ForbiddenByte);
        }
        _ if memchr(b'#', target).is_some() => return Err(TargetError::Fragment),
        _ => {}
    }
    if method_is_connect {
        return parse_authority_form(target);
    }
    match target {
        [b'/', ..] => {
            let (path, query) = split_query(target);
            Ok(RequestTarget::Origin { path, query })
        }
        b"*" if method_is_options => Ok(RequestTarget::Asterisk),
        _ => parse_absolute_form(target),
    }
}

/// `uri-host ":" port`, both present (RFC 9112 section 3.2.3, RFC 9110 section 9.3.6).
fn parse_authority_form(target: &[u8]) -> Result<RequestTarget<'_>, TargetError> {
    let (host, port) = split_port(target);
    let names_a_port = port.is_some_and(|port| port != 0);
    if host.is_empty() || !names_a_port || !is_valid_host(target) {
        return Err(TargetError::Authority);
    }
    Ok(RequestTarget::Authority(target))
}

/// `scheme "://" authority path-abempty [ "?" query ]` (RFC 9112 section 3.2.2).
fn parse_absolute_form(target: &[u8]) -> Result<RequestTarget<'_>, TargetError> {
    let colon = memchr(b':', target).ok_or(TargetError::Form)?;
    let (scheme, rest) = (&target[..colon], &target[colon..]);
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    let after_slashes = rest.strip_prefix(b"://").filter(|_| is_scheme).ok_or(TargetError::Form)?;

    let authority_length =
        after_slashes.iter().position(|byte| b"/?".contains(byte)).unwrap_or(after_slashes.len());
    let (authority, path_and_query) = after_slashes.split_at(authority_length);
    if authority.is_empty() || !is_valid_host(authority) {
        return Err(TargetError::Authority);
    }
    let (path, query) = split_query(path_and_query);
    let path = if path.is_empty() { b"/" } else { path };
    Ok(RequestTarget::Absolute { scheme, authority, path, query })
}

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr(b'?', target) {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (target, None),
    }
}

/// Whether `path` is its own [normal form](normalise_path), found in one pass: it begins with a slash, has no
/// percent escape, no two slashes in a row, no segment that begins with a dot, and only visible ASCII except
/// `#`, `?`, and the backslash and the semicolon, which other programs may read differently.
///
/// A path that is not plain may still be valid: [`normalise_path`] decides. A plain path is safe to append to
/// a directory, and names no hidden file.
#[inline]
pub fn is_plain_path(path: &[u8]) -> bool {
    let [b'/', rest @ ..] = path else { return false };
    let mut not_plain = 0;
    // Each byte is looked at beside the one before it, eight pairs in one step: `before` is `rest` moved by
    // one byte.
    let mut before = path;
    let mut current = rest;
    while let (Some((before_word, before_tail)), Some((word, tail))) =
        (before.split_first_chunk::<8>(), current.split_first_chunk::<8>())
    {
        not_plain |= not_plain_bytes(u64::from_le_bytes(*before_word), u64::from_le_bytes(*word));
        (before, current) = (before_tail, tail);
    }
    if not_plain != 0 || current.is_empty() {
        return not_plain == 0;
    }
    // The last bytes: as the end of a word that overlaps the previous one, or byte by byte if there is none.
    if let (Some(before_word), Some(word)) =
        (path[..path.len() - 1].last_chunk::<8>(), rest.last_chunk::<8>())
    {
        not_plain_bytes(u64::from_le_bytes(*before_word), u64::from_le_bytes(*word)) == 0
    } else {
        path.iter().zip(rest).all(|pair| match pair {
            (b'/', b'/' | b'.') => false,
            (_, b'%' | b'#' | b'?' | b'\\' | b';') => false,
            (_, byte) => byte.is_ascii_graphic(),
        })
    }
}

/// The high bits of the bytes of `word` that make a path not plain; `before` holds the bytes one place to the
/// left.
///
/// Exact for words of ASCII. A byte from 0x80 may set the bits of its neighbours, but it makes the path not
/// plain in any case.
#[inline]
fn not_plain_bytes(before: u64, word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Sets the high bit of each byte that equals `byte`, if the high bits of the word are clear: 0x80 minus
    // the difference keeps its high bit only if the difference is 0, and no byte borrows from the next.
    let equals = |word: u64, byte: u8| (HIGHS - ((word ^ (ONES * u64::from(byte))) & !HIGHS)) & HIGHS;
    // Adding 0x5f carries into the high bit from 0x21 on.
    let up_to_space = !((word & !HIGHS) + ONES * 0x5f) & HIGHS;
    // A dot differs from a slash in the lowest bit only.
    let doubled = equals(before, b'/') & equals(word | ONES, b'/');
    (word & HIGHS)
        | up_to_space
        | doubled
        | equals(word, b'%')
        | equals(word, b'#')
        | equals(word, b'?')
        | equals(word, b'\\')
        | equals(word, b';')
        | equals(word, 0x7f)
}

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// A `%` that is not followed by two hexadecimal digits: 400.
    BadEscape,
    /// A control byte, plain or escaped, a plain `?` or `#`, or no slash at the beginning: 400.
    ForbiddenByte,
    /// An escaped slash, which no file name can hold: 404.
    EncodedSlash,
    /// The dot segments lead above the root: 400.
    AboveRoot,
    /// Another program may resolve it to another path: 400.
    Ambiguous,
}

impl std::fmt::Display for PathError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            PathError::BadEscape => "path holds a malformed percent escape",
            PathError::ForbiddenByte => "path holds a byte that no path may hold",
            PathError::EncodedSlash => "path holds an escaped slash",
            PathError::AboveRoot => "path leads above the root",
            PathError::Ambiguous => "path can be read as two different paths",
        })
    }
}

impl std::error::Error for PathError {}

/// Replaces the contents of `out` with the path that `path` names: percent escapes decoded, once; repeated
/// slashes counted as one; then `.` and `..` segments resolved, escaped ones too. A slash at the end stays,
/// and a dot segment at the end leaves one (RFC 3986 section 5.2.4).
///
/// The result begins with a slash, and none of its segments is `.`, `..` or, except for the last, empty. Its
/// bytes are those of a file name: any but control bytes, not necessarily UTF-8. The first fault from the
/// left is reported. The contents of `out` after an error are not specified.
pub fn normalise_path(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    let [b'/', rest @ ..] = path else { return Err(PathError::ForbiddenByte) };
    out.push(b'/');
    let mut bytes = rest.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'/' => end_segment(out, true)?,
            b'?' | b'#' => return Err(PathError::ForbiddenByte),
            b'%' => match decode_escape(bytes.as_slice())? {
                b'/' => return Err(PathError::EncodedSlash),
                decoded => {
                    push_visible(decoded, out)?;
                    bytes = bytes.as_slice()[2..].iter();
                }
            },
            _ => push_visible(byte, out)?,
        }
    }
    end_segment(out, false)
}

fn push_visible(byte: u8, out: &mut Vec<u8>) -> Result<(), PathError> {
    // A space is not a control byte: escaped, it is part of many file names. A request line cannot contain an
    // unescaped one.
    if byte < b' ' || byte == 0x7f {
        return Err(PathError::ForbiddenByte);
    }
    out.push(byte);
    Ok(())
}

/// The byte that the two hexadecimal digits at the beginning of `bytes` stand for.
pub(crate) fn decode_escape(bytes: &[u8]) -> Result<u8, PathError> {
    let digit = |index: usize| {
        let byte = *bytes.get(index).ok_or(PathError::BadEscape)?;
        (byte as char).to_digit(16).ok_or(PathError::BadEscape)
    };
    Ok((digit(0)? << 4 | digit(1)?) as u8)
}

/// Processes the segment at the end of `out`, which begins with a slash and holds only finished segments
/// before it.
pub(crate) fn end_segment(out: &mut Vec<u8>, slash_follows: bool) -> Result<(), PathError> {
    let start = segment_start(out);
    match &out[start..] {
        // A repeated slash.
        b"" => {}
        b"." => out.truncate(start),
        b".." => {
            if start == 1 {
                return Err(PathError::AboveRoot);
            }
            out.truncate(start - 1);
            let parent = segment_start(out);
            out.truncate(parent);
        }
        _ if slash_follows => out.push(b'/'),
        _ => {}
    }
    Ok(())
}

/// Where the last segment of `path` begins: after its last slash.
fn segment_start(path: &[u8]) -> usize {
    memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1)
}

/// Whether a path equals another one or is below it: `/a` and `/a/b` are at or below `/a`, `/ab` is not. This
/// is the rule for the paths of routes, and of cookies (RFC 6265 section 5.1.4).
pub fn is_at_or_below(path: &[u8], of: &[u8]) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || of.ends_with(b"/") || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn origin<'a>(path: &'a str, query: Option<&'a str>) -> RequestTarget<'a> {
        RequestTarget::Origin { path: path.as_bytes(), query: query.map(str::as_bytes) }
    }

    fn absolute<'a>(
        scheme: &'a str,
        authority: &'a str,
        path: &'a str,
        query: Option<&'a str>,
    ) -> RequestTarget<'a> {
        RequestTarget::Absolute {
            scheme: scheme.as_bytes(),
            authority: authority.as_bytes(),
            path: path.as_bytes(),
            query: query.map(str::as_bytes),
        }
    }

    #[test]
    fn targets_of_get() {
        use TargetError::*;
        let table = [
            ("/", Ok(origin("/", None))),
            ("/index.html", Ok(origin("/index.html", None))),
            ("/a?b=c", Ok(origin("/a", Some("b=c")))),
            ("/a?", Ok(origin("/a", Some("")))),
            ("/a?b?c", Ok(origin("/a", Some("b?c")))),
            ("/?http://x/", Ok(origin("/", Some("http://x/")))),
            ("//x/y", Ok(origin("//x/y", None))),
            ("/a|b\"<>^`{}\\", Ok(origin("/a|b\"<>^`{}\\", None))),
            ("/é", Ok(origin("/é", None))),
            ("/%00", Ok(origin("/%00", None))),
            ("http://example.org/", Ok(absolute("http", "example.org", "/", None))),
            ("http://example.org", Ok(absolute("http", "example.org", "/", None))),
            ("http://example.org?q", Ok(absolute("http", "example.org", "/", Some("q")))),
            ("HTTPS://[::1]:8443/a?b", Ok(absolute("HTTPS", "[::1]:8443", "/a", Some("b")))),
            ("x+1-.://h/p", Ok(absolute("x+1-.", "h", "/p", None))),
            ("", Err(Empty)),
            ("*", Err(Form)),
            ("**", Err(Form)),
            ("a", Err(Form)),
            ("index.html", Err(Form)),
            ("?a", Err(Form)),
            ("example.org:80", Err(Form)),
            ("http:/example.org/", Err(Form)),
            ("http:example.org", Err(Form)),
            ("://example.org/", Err(Form)),
            ("1http://example.org/", Err(Form)),
            ("ht_tp://example.org/", Err(Form)),
            ("http:///", Err(Authority)),
            ("http://", Err(Authority)),
            ("http://:80/", Err(Authority)),
            ("http://user@example.org/", Err(Authority)),
            ("http://example.org:port/", Err(Authority)),
            ("http://exa\\mple.org/", Err(Authority)),
            ("/#", Err(Fragment)),
            ("/a#b", Err(Fragment)),
            ("/?a#b", Err(Fragment)),
            ("http://example.org/#", Err(Fragment)),
            ("/a b", Err(ForbiddenByte)),
            ("/a\tb", Err(ForbiddenByte)),
            ("/a\0", Err(ForbiddenByte)),
            ("/a\x7f", Err(ForbiddenByte)),
            ("/?\r", Err(ForbiddenByte)),
        ];
        for (target, expected) in table {
            assert_eq!(parse_target(false, false, target.as_bytes()), expected, "{target:?}");
        }
    }

    #[test]
    fn targets_of_options_and_connect() {
        assert_eq!(parse_target(false, true, b"*"), Ok(RequestTarget::Asterisk));
        assert_eq!(parse_target(false, true, b"/a"), Ok(origin("/a", None)));
        assert_eq!(parse_target(false, true, b"http://h"), Ok(absolute("http", "h", "/", None)));
        assert_eq!(parse_target(false, true, b"**"), Err(TargetError::Form));

        for good in ["example.org:443", "[::1]:1", "127.0.0.1:65535"] {
            let expected = Ok(RequestTarget::Authority(good.as_bytes()));
            assert_eq!(parse_target(true, false, good.as_bytes()), expected);
        }
        for bad in [
            "example.org",
            "example.org:",
            ":443",
            "h:0",
            "h:65536",
            "/",
            "*",
            "http://h:80/",
            "a@h:80",
            "h:80/",
        ] {
            assert_eq!(parse_target(true, false, bad.as_bytes()), Err(TargetError::Authority), "{bad}");
        }
        assert_eq!(parse_target(true, false, b""), Err(TargetError::Empty));
    }

    /// A simple version of the rule of [`is_plain_path`].
    fn is_plain_slowly(path: &[u8]) -> bool {
        path.starts_with(b"/")
            && path.iter().all(|byte| byte.is_ascii_graphic() && !b"%#?\\;".contains(byte))
            && !path.windows(2).any(|pair| pair == b"//" || pair == b"/.")
    }

    #[test]
    fn paths_at_or_below_others() {
        for (path, of, expected) in [
            ("/a/b", "/a/", true),
            ("/a/", "/a/", true),
            ("/a", "/a/", false),
            ("/ab", "/a", false),
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/b", "/a", false),
            ("/b", "/", true),
        ] {
            assert_eq!(is_at_or_below(path.as_bytes(), of.as_bytes()), expected, "{path} {of}");
        }
    }

    #[test]
    fn plain_paths() {
        for plain in
            ["/", "/a", "/index.html", "/a/b/c/", "/class3/file_07.gif", "/a.b/c..d/e.", "/a~!$&'()*+,=:@|{}"]
        {
            assert!(is_plain_path(plain.as_bytes()), "{plain}");
        }
        let not_plain = [
            "",
            "a",
            "*",
            "//",
            "/a//b",
            "/.",
            "/..",
            "/a/.b",
            "/.well-known/x",
            "/a%20b",
            "/é",
            "/a b",
            "/a;b",
            "/a\\b",
        ];
        for path in not_plain {
            assert!(!is_plain_path(path.as_bytes()), "{path}");
        }
    }

    /// Each byte value at each place of paths of each length around the word size.
    #[test]
    fn plain_paths_at_every_place() {
        for length in 1..36 {
            for place in 0..length {
                for byte in 0..=255 {
                    let mut path = vec![b'a'; length];
                    path[0] = b'/';
                    path[place] = byte;
                    assert_eq!(is_plain_path(&path), is_plain_slowly(&path), "{path:?}");
                    if place + 1 < length {
                        path[place + 1] = b'/';
                        assert_eq!(is_plain_path(&path), is_plain_slowly(&path), "{path:?}");
                        path[place + 1] = b'.';
                        assert_eq!(is_plain_path(&path), is_plain_slowly(&path), "{path:?}");
                    }
                }
            }
        }
    }

    fn normalise(path: &[u8]) -> Result<Vec<u8>, PathError> {
        let mut out = b"left from before".to_vec();
        normalise_path(path, &mut out).map(|()| out)
    }

    #[test]
    fn normal_forms() {
        let table = [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/a/b/c", "/a/b/c"),
            ("//", "/"),
            ("//a///b//", "/a/b/"),
            ("/.", "/"),
            ("/./", "/"),
            ("/a/.", "/a/"),
            ("/a/./b", "/a/b"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/b/../../c", "/c"),
            ("/a//../b", "/b"),
            ("/a/./../b", "/b"),
            ("/a/%2e%2e/b", "/b"),
            ("/a/.%2E/b", "/b"),
            ("/a/%2e/b", "/a/b"),
            ("/...", "/..."),
            ("/a..", "/a.."),
            ("/..a/.b", "/..a/.b"),
            ("/.well-known/x", "/.well-known/x"),
            ("/%61%62", "/ab"),
            ("/a%20b", "/a b"),
            ("/a+b", "/a+b"),
            ("/%3F%23", "/?#"),
            ("/a%5Cb", "/a\\b"),
            // Decoded once.
            ("/%2525", "/%25"),
            ("/%252e%252e/a", "/%2e%2e/a"),
            ("/%252F", "/%2F"),
            ("/é", "/é"),
            ("/%C3%A9", "/é"),
        ];
        for (path, expected) in table {
            assert_eq!(normalise(path.as_bytes()).as_deref(), Ok(expected.as_bytes()), "{path}");
        }
        assert_eq!(normalise(b"/%FF\xfe").as_deref(), Ok(b"/\xff\xfe".as_slice()));
    }

    #[test]
    fn refused_paths() {
        use PathError::*;
        let table = [
            ("", ForbiddenByte),
            ("a", ForbiddenByte),
            ("%2Fa", ForbiddenByte),
            ("/a?b", ForbiddenByte),
            ("/a#b", ForbiddenByte),
            ("/a\0", ForbiddenByte),
            ("/a\n", ForbiddenByte),
            ("/a\x7f", ForbiddenByte),
            ("/%00", ForbiddenByte),
            ("/%0d%0a", ForbiddenByte),
            ("/%1f", ForbiddenByte),
            ("/%7F", ForbiddenByte),
            ("/%", BadEscape),
            ("/%4", BadEscape),
            ("/%4/", BadEscape),
            ("/%zz", BadEscape),
            ("/%+1", BadEscape),
            ("/%u0041", BadEscape),
            ("/%%41", BadEscape),
            ("/%2F", EncodedSlash),
            ("/a%2fb", EncodedSlash),
            ("/..%2f", EncodedSlash),
            ("/..", AboveRoot),
            ("/../", AboveRoot),
            ("/../x", AboveRoot),
            ("/a/../../x", AboveRoot),
            ("/a/../..", AboveRoot),
            ("//../x", AboveRoot),
            ("/./../x", AboveRoot),
            ("/%2e%2e/x", AboveRoot),
            ("/%2e./x", AboveRoot),
            // A path that leaves the root is refused even if it returns.
            ("/../x/y/z", AboveRoot),
        ];
        for (path, error) in table {
            assert_eq!(normalise(path.as_bytes()), Err(error), "{path:?}");
        }
    }

    /// Paths with many of the bytes that matter.
    fn path() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => Just("/".to_owned()),
            3 => Just(".".to_owned()),
            2 => Just("..".to_owned()),
            2 => Just("%2e".to_owned()),
            1 => Just("%2F".to_owned()),
            3 => "[a-z]{1,3}",
            1 => "%[0-9a-fA-F]{2}",
            1 => any::<char>().prop_map(String::from),
        ];
        proptest::collection::vec(piece, 0..14)
            .prop_map(|pieces| format!("/{}", pieces.concat()).into_bytes())
    }

    proptest! {
        #[test]
        fn a_normal_path_stays_below_the_root(path in path()) {
            if let Ok(normal) = normalise(&path) {
                prop_assert!(normal.starts_with(b"/"));
                prop_assert!(normal.len() <= path.len());
                prop_assert!(normal.iter().all(|&byte| byte >= b' ' && byte != 0x7f));
                let segments: Vec<&[u8]> = normal[1..].split(|&byte| byte == b'/').collect();
                prop_assert!(!segments.iter().any(|segment| segment == b"." || segment == b".."));
                prop_assert!(!segments[..segments.len() - 1].contains(&b"".as_slice()), "empty segment");
            }
        }

        #[test]
        fn a_normal_path_is_its_own_normal_form(path in path()) {
            if let Ok(normal) = normalise(&path) {
                let escape = |&byte: &u8| match byte {
                    b'%' | b'?' | b'#' => format!("%{byte:02x}").into_bytes(),
                    _ => vec![byte],
                };
                let escaped: Vec<u8> = normal.iter().flat_map(escape).collect();
                prop_assert_eq!(normalise(&escaped), Ok(normal));
            }
        }

        #[test]
        fn escaping_changes_nothing(path in path(), escape in proptest::collection::vec(any::<bool>(), 60)) {
            // Escaping any byte except the slash and the bytes of an escape does not change the meaning.
            if !path.contains(&b'%') && !path.contains(&b'?') && !path.contains(&b'#') {
                let escaped: Vec<u8> = path.iter().zip(escape.iter().cycle())
                    .flat_map(|(&byte, &escape)| {
                        if escape && byte != b'/' { format!("%{byte:02X}").into_bytes() } else { vec![byte] }
                    })
                    .collect();
                prop_assert_eq!(normalise(&escaped), normalise(&path));
            }
        }

        #[test]
        fn a_plain_path_is_its_own_normal_form(
            path in prop_oneof![path(), "/[a-z/.]{0,40}".prop_map(String::into_bytes)],
        ) {
            prop_assert_eq!(is_plain_path(&path), is_plain_slowly(&path));
            if is_plain_path(&path) {
                prop_assert_eq!(normalise(&path), Ok(path));
            }
        }

        #[test]
        fn plain_paths_of_any_bytes(
            tail in proptest::collection::vec(
                prop_oneof![9 => b'a'..=b'z', 1 => any::<u8>(), 2 => Just(b'/'), 1 => Just(b'.')],
                0..50,
            )
        ) {
            let path = [b"/".as_slice(), &tail].concat();
            prop_assert_eq!(is_plain_path(&path), is_plain_slowly(&path));
        }

        #[test]
        fn the_parts_of_a_target_make_it_again(
            target in prop_oneof![
                "/[ -~]{0,20}",
                "https?://[a-z:0-9@]{0,8}[ -~]{0,12}",
                "[a-z:0-9.]{0,12}",
                "[*]",
            ],
            connect in any::<bool>(), options in any::<bool>(),
        ) {
            let query_text = |query: Option<&[u8]>| {
                query.map(|query| [b"?".as_slice(), query].concat()).unwrap_or_default()
            };
            match parse_target(connect, options, target.as_bytes()) {
                Ok(RequestTarget::Origin { path, query }) => {
                    prop_assert!(path.starts_with(b"/") && !path.contains(&b'?') && !connect);
                    prop_assert_eq!([path, &query_text(query)].concat(), target.as_bytes());
                }
                Ok(RequestTarget::Absolute { scheme, authority, path, query }) => {
                    prop_assert!(path.starts_with(b"/") && !connect);
                    let whole = [scheme, b"://", authority, path, &query_text(query)].concat();
                    let without_path = [scheme, b"://", authority, &query_text(query)].concat();
                    let target = target.as_bytes();
                    prop_assert!(whole == target || path == b"/" && without_path == target);
                }
                Ok(RequestTarget::Authority(authority)) => {
                    prop_assert!(connect);
                    prop_assert_eq!(authority, target.as_bytes());
                }
                Ok(RequestTarget::Asterisk) => prop_assert!(options && target == "*"),
                Err(_) => {}
            }
        }

        #[test]
        fn never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            connect in any::<bool>(), options in any::<bool>(),
        ) {
            let _ = parse_target(connect, options, &bytes);
            let _ = normalise(&bytes);
            let _ = is_plain_path(&bytes);
        }
    }
}
