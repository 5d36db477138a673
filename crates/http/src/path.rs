//! The path of a request in two forms: the form that rules judge, and a normal spelling that is sent on.
//!
//! Programs and origins receive the path that the rules have judged. [`PathRules::read`] gives both forms.
//! Some paths can still be read as two different paths (an escaped slash, a backslash, parameters after a
//! semicolon). Such a path has [`other_readings`]: it may pass only if the rules decide the same for all of
//! them. If one reader would find a dot segment where another finds none, the path is refused.

use memchr::memchr;

use crate::target::{PathError, decode_escape, end_segment};

/// Represents an escaped slash in the form that rules judge. A path cannot contain a zero byte otherwise.
pub const ESCAPED_SLASH: u8 = 0;

/// How paths are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathRules {
    /// Repeated slashes are sent on unchanged. Rules treat them as one.
    pub keep_slashes: bool,
    /// Escaped slashes, tabs and line ends are refused.
    pub refuse_escapes: bool,
}

/// The two forms of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadPath {
    /// What rules judge: decoded, without dot segments and repeated slashes; [`ESCAPED_SLASH`] for `%2F`.
    pub decoded: Vec<u8>,
    /// The form that is sent on: only the bytes that must be escaped are escaped, with digits in upper case.
    pub encoded: Vec<u8>,
}

impl PathRules {
    /// Repeated slashes become one, and valid escapes pass.
    pub const USUAL: PathRules = PathRules { keep_slashes: false, refuse_escapes: false };

    /// Reads a path.
    ///
    /// # Errors
    /// The value is not a path, leads above the root, or means different things to different readers.
    pub fn read(self, path: &[u8]) -> Result<ReadPath, PathError> {
        let [b'/', rest @ ..] = path else { return Err(PathError::ForbiddenByte) };
        let mut reader = Reader { read: ReadPath::default(), rules: self, kept: false, moved: false };
        reader.read.decoded.reserve(path.len());
        reader.read.encoded.reserve(path.len() + 8);
        reader.push(b'/', b"/");
        let mut bytes = rest.iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                b'/' => reader.end_segment(true)?,
                b'?' | b'#' => return Err(PathError::ForbiddenByte),
                b'%' => {
                    reader.push_escaped(decode_escape(bytes.as_slice())?)?;
                    bytes = bytes.as_slice()[2..].iter();
                }
                byte if byte.is_ascii_graphic() && byte != b'\\' => reader.push(byte, &[byte]),
                byte if byte < b' ' || byte == 0x7f => return Err(PathError::ForbiddenByte),
                byte => reader.push(byte, &escape(byte)),
            }
        }
        reader.end_segment(false)?;
        if is_ambiguous(&reader.read.decoded) {
            return Err(PathError::Ambiguous);
        }
        Ok(reader.read)
    }
}

struct Reader {
    read: ReadPath,
    rules: PathRules,
    /// A repeated slash was kept.
    kept: bool,
    /// A dot segment was resolved.
    moved: bool,
}

impl Reader {
    fn push(&mut self, decoded: u8, encoded: &[u8]) {
        self.read.decoded.push(decoded);
        self.read.encoded.extend_from_slice(encoded);
    }

    fn push_escaped(&mut self, byte: u8) -> Result<(), PathError> {
        match byte {
            b'/' if self.rules.refuse_escapes => return Err(PathError::EncodedSlash),
            b'/' => self.push(ESCAPED_SLASH, b"%2F"),
            b'\t' | b'\n' | b'\r' if !self.rules.refuse_escapes => self.push(byte, &escape(byte)),
            byte if byte < b' ' || byte == 0x7f => return Err(PathError::ForbiddenByte),
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => self.push(byte, &[byte]),
            byte => self.push(byte, &escape(byte)),
        }
        Ok(())
    }

    fn end_segment(&mut self, slash_follows: bool) -> Result<(), PathError> {
        let segment = self.read.decoded.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let is_empty = segment.is_empty();
        self.moved |= segment == b"." || segment == b"..";
        self.kept |= is_empty && slash_follows && self.rules.keep_slashes;
        // A reader that counts repeated slashes resolves a dot segment differently. Two slashes at the
        // beginning can be read as the name of a server.
        if self.kept && (self.moved || self.read.decoded.len() == 1) {
            return Err(PathError::Ambiguous);
        }
        if is_empty && slash_follows && self.kept {
            self.read.encoded.push(b'/');
            return Ok(());
        }
        end_segment(&mut self.read.decoded, slash_follows)?;
        if self.kept {
            self.read.encoded.extend_from_slice(if slash_follows { b"/" } else { b"" });
            return Ok(());
        }
        end_segment(&mut self.read.encoded, slash_follows)
    }
}

fn escape(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// A text with escapes for all bytes but those that are never escaped (`unreserved`, RFC 3986 section 2.3),
/// for queries and forms.
pub fn escaped_for_query(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => out.push(char::from(byte)),
            byte => out.extend(escape(byte).map(char::from)),
        }
    }
    out
}

/// Appends a decoded path with escapes, [`ESCAPED_SLASH`] as `%2F`; the bytes of `stays`, letters and digits
/// are not escaped.
pub fn append_escaped(path: &[u8], stays: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        match byte {
            ESCAPED_SLASH => out.extend_from_slice(b"%2F"),
            byte if byte.is_ascii_alphanumeric() || stays.contains(&byte) => out.push(byte),
            byte => out.extend_from_slice(&escape(byte)),
        }
    }
}

/// Whether a decoded path contains an escaped slash, tab or line end, which not every handler understands.
pub fn needs_escapes(decoded: &[u8]) -> bool {
    decoded.iter().any(|&byte| byte < b' ')
}

/// Whether one reader of a decoded path finds a dot segment where another finds none, or finds other
/// parameters than another reader.
fn is_ambiguous(decoded: &[u8]) -> bool {
    let is_slash = |byte: &u8| matches!(*byte, ESCAPED_SLASH | b'\\');
    // Some readers drop tabs and line ends.
    let is_dots = |piece: &[u8]| {
        let name = piece.split(|&byte| byte == b';').next().unwrap_or_default();
        let mut kept = name.iter().filter(|byte| !is_dropped(**byte));
        let first = [kept.next(), kept.next(), kept.next()];
        matches!(first, [Some(b'.'), None | Some(b'.'), None])
    };
    features(decoded) != 0
        && decoded.split(|&byte| byte == b'/').any(|segment| {
            let parameters = memchr(b';', segment).map_or(&[][..], |begin| &segment[begin..]);
            parameters.iter().any(is_slash) || segment.split(is_slash).any(is_dots)
        })
}

/// Tabs and line ends, which some readers drop.
fn is_dropped(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r')
}

const ESCAPED: u8 = 1;
const BACKSLASH: u8 = 2;
const PARAMETERS: u8 = 4;
const DROPPED: u8 = 8;

/// Which parts of a decoded path can be read in two ways.
fn features(decoded: &[u8]) -> u8 {
    decoded.iter().fold(0, |found, &byte| {
        found
            | match byte {
                ESCAPED_SLASH => ESCAPED,
                b'\\' => BACKSLASH,
                b';' => PARAMETERS,
                byte if is_dropped(byte) => DROPPED,
                _ => 0,
            }
    })
}

/// The other paths that a reader may find in a decoded path: an escaped slash or a backslash as a slash, a
/// segment without its parameters, and each combination of these. Most paths have no other reading. Readings
/// without parameters are left out if the handler checks the rules for them itself.
pub fn other_readings(decoded: &[u8], with_parameters: bool) -> impl Iterator<Item = Vec<u8>> + '_ {
    let found = features(decoded) & if with_parameters { !0 } else { !PARAMETERS };
    (1..=found).filter(move |reading| reading & !found == 0).map(move |reading| read_as(decoded, reading))
}

fn read_as(decoded: &[u8], reading: u8) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(decoded.len());
    let mut in_parameters = false;
    for &byte in decoded {
        let byte = match byte {
            ESCAPED_SLASH if reading & ESCAPED != 0 => b'/',
            b'\\' if reading & BACKSLASH != 0 => b'/',
            byte => byte,
        };
        in_parameters = byte != b'/' && (in_parameters || byte == b';' && reading & PARAMETERS != 0);
        let is_repeated = byte == b'/' && out.ends_with(b"/");
        let is_left_out = in_parameters || is_repeated || is_dropped(byte) && reading & DROPPED != 0;
        if !is_left_out {
            out.push(byte);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(rules: PathRules, path: &str) -> Result<(String, String), PathError> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        rules.read(path.as_bytes()).map(|read| (text(read.decoded), text(read.encoded)))
    }

    #[test]
    fn a_text_is_escaped_for_a_query() {
        assert_eq!(escaped_for_query(b"aZ09-._~"), "aZ09-._~");
        assert_eq!(escaped_for_query("a b/c?d=&%+\u{e9}\0".as_bytes()), "a%20b%2Fc%3Fd%3D%26%25%2B%C3%A9%00");
    }

    #[test]
    fn the_encoded_path_is_the_decoded_one() {
        for (path, decoded, encoded) in [
            ("/", "/", "/"),
            ("/a//b/", "/a/b/", "/a/b/"),
            ("/admin//../secret", "/secret", "/secret"),
            ("/x/%2e%2E/a", "/a", "/a"),
            ("/%7Euser/%61", "/~user/a", "/~user/a"),
            ("/caf\u{e9}", "/caf\u{e9}", "/caf%C3%A9"),
            ("/caf%c3%a9", "/caf\u{e9}", "/caf%C3%A9"),
            ("/a;b=c", "/a;b=c", "/a;b=c"),
            ("/a%3bb", "/a;b", "/a%3Bb"),
            ("/a\\b", "/a\\b", "/a%5Cb"),
            ("/a%2fb", "/a\0b", "/a%2Fb"),
            ("/api/%2F/x", "/api/\0/x", "/api/%2F/x"),
            ("/a%252Fb", "/a%2Fb", "/a%252Fb"),
            ("/a%09%0A%0D", "/a\t\n\r", "/a%09%0A%0D"),
            ("/a|b\"%27'", "/a|b\"''", "/a|b\"%27'"),
        ] {
            assert_eq!(read(PathRules::USUAL, path), Ok((decoded.into(), encoded.into())), "{path}");
        }
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        use PathError::*;
        for (path, error) in [
            ("/x/..;/a", Ambiguous),
            ("/x/.;y/a", Ambiguous),
            ("/x/..%3b/a", Ambiguous),
            ("/x/%2e%2e;a=b/c", Ambiguous),
            ("/x/..%2fa", Ambiguous),
            ("/x%2f..", Ambiguous),
            ("/..\\..\\a", Ambiguous),
            ("/x%5C.%5Ca", Ambiguous),
            ("/x/.%0A./a", Ambiguous),
            ("/a;%2Fb", Ambiguous),
            ("/a;b\\c", Ambiguous),
            ("/..", AboveRoot),
            ("/a%00", ForbiddenByte),
            ("/a%7f", ForbiddenByte),
            ("/a%2", BadEscape),
            ("a", ForbiddenByte),
        ] {
            assert_eq!(read(PathRules::USUAL, path), Err(error), "{path}");
        }
        let refusing = PathRules { refuse_escapes: true, ..PathRules::USUAL };
        assert_eq!(read(refusing, "/a%2Fb"), Err(EncodedSlash));
        assert_eq!(read(refusing, "/a%09b"), Err(ForbiddenByte));
    }

    #[test]
    fn repeated_slashes_can_be_kept() {
        let keeping = PathRules { keep_slashes: true, ..PathRules::USUAL };
        for (path, decoded, encoded) in [
            ("/a//b", "/a/b", "/a//b"),
            ("/a///", "/a/", "/a///"),
            ("/a/b/", "/a/b/", "/a/b/"),
            ("/x/../a", "/a", "/a"),
        ] {
            assert_eq!(read(keeping, path), Ok((decoded.into(), encoded.into())), "{path}");
        }
        for path in ["//a", "/a//../b", "/a/../b//c", "/a//b/.", "///"] {
            assert_eq!(read(keeping, path), Err(PathError::Ambiguous), "{path}");
        }
    }

    #[test]
    fn readings_of_others() {
        let readings = |path: &str| {
            let read = PathRules::USUAL.read(path.as_bytes()).unwrap();
            other_readings(&read.decoded, true)
                .map(|path| String::from_utf8(path).unwrap())
                .collect::<Vec<_>>()
        };
        assert!(readings("/a/b").is_empty());
        assert_eq!(readings("/admin%2Fx"), ["/admin/x"]);
        assert_eq!(readings("/admin\\x"), ["/admin/x"]);
        assert_eq!(readings("/admin;a/x"), ["/admin/x"]);
        assert_eq!(readings("/;/admin"), ["/admin"]);
        assert_eq!(readings("/ad%0amin"), ["/admin"]);
        assert_eq!(readings("/a%2Fb%5Cc"), ["/a/b\\c", "/a\0b/c", "/a/b/c"]);
    }

    proptest! {
        #[test]
        fn an_encoded_path_is_its_own(
            path in "/(/|[a-c]|\\.|;|\\\\|%2[eEfF5]|%3[bB]|%5[cC]|%0[9Aad]|\u{e9}){0,16}",
            keep_slashes: bool,
        ) {
            let rules = PathRules { keep_slashes, refuse_escapes: false };
            if let Ok(read) = rules.read(path.as_bytes()) {
                prop_assert_eq!(rules.read(&read.encoded), Ok(read.clone()));
                for reading in other_readings(&read.decoded, true).chain([read.decoded.clone()]) {
                    let dots = |segment: &[u8]| segment == b"." || segment == b"..";
                    prop_assert!(!reading.split(|&byte| byte == b'/').any(dots));
                }
            }
        }

        #[test]
        fn any_bytes_cause_no_panic(path: Vec<u8>, keep_slashes: bool, refuse_escapes: bool) {
            let _ = PathRules { keep_slashes, refuse_escapes }.read(&path);
        }
    }
}
