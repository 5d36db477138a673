//! Escapes bytes from outside for a log line, so that they cannot end the line, close a quote or control a
//! terminal.

/// How a byte is written in a quoted field of the Common Log Format.
const CLEAN: u8 = 0;
const BACKSLASHED: u8 = 1;
const HEXADECIMAL: u8 = 2;

/// The class of each byte.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [CLEAN; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte < 0x20 || byte >= 0x7F {
            classes[byte] = HEXADECIMAL;
        } else if byte == b'"' as usize || byte == b'\\' as usize {
            classes[byte] = BACKSLASHED;
        }
        byte += 1;
    }
    classes
}

/// Appends a field of the Common Log Format as Apache's does: `\"`, `\\`, and `\xhh` for control bytes and
/// all that is not ASCII.
#[inline]
pub(super) fn append_common(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_clean(bytes) {
        out.extend_from_slice(bytes);
    } else {
        append_common_escaped(out, bytes);
    }
}

/// Appends the inside of a JSON string (RFC 8259 section 7). Bytes that are not UTF-8 become U+FFFD, one for
/// each maximal part that could have begun a character, as in `String::from_utf8_lossy`.
#[inline]
pub(super) fn append_json(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_clean(bytes) {
        out.extend_from_slice(bytes);
    } else {
        append_json_escaped(out, bytes);
    }
}

/// The most bytes that one byte becomes in [`append_common`].
pub(super) const LARGEST_COMMON: usize = 4;

/// The most bytes that one byte becomes in [`append_json`].
pub(super) const LARGEST_JSON: usize = 6;

/// Whether every byte is printable ASCII other than `"` and `\`. It has no early end, so that the compiler
/// can test many bytes at a time: nearly every field is clean, and most are some tens of bytes long.
#[inline]
fn is_clean(bytes: &[u8]) -> bool {
    let unclean =
        |byte: u8| u8::from(!(0x20..0x7F).contains(&byte)) | u8::from(byte == b'"') | u8::from(byte == b'\\');
    bytes.iter().fold(0, |found, byte| found | unclean(*byte)) == 0
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cold]
fn append_common_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match CLASSES[usize::from(byte)] {
            CLEAN => out.push(byte),
            BACKSLASHED => out.extend_from_slice(&[b'\\', byte]),
            _ => {
                let [high, low] = hexadecimal(byte);
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
}

#[cold]
fn append_json_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            append_json_character(out, character);
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
}

fn append_json_character(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        // JSON requires this below U+0020 only; the others (DEL and U+0080 to U+009F) control terminals too.
        _ if character.is_control() => {
            let [high, low] = hexadecimal(character as u8);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn hexadecimal(byte: u8) -> [u8; 2] {
    [HEX_DIGITS[usize::from(byte >> 4)], HEX_DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn common(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        append_common(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    fn json(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        append_json(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn common_as_apache_does() {
        assert_eq!(common(b""), "");
        assert_eq!(common(b"GET /a?b=c HTTP/1.1"), "GET /a?b=c HTTP/1.1");
        assert_eq!(common(b"a\"b\\c"), r#"a\"b\\c"#);
        assert_eq!(common(b"\0\n\r\t\x1b[2J\x7f\x80\xff"), r"\x00\x0a\x0d\x09\x1b[2J\x7f\x80\xff");
        assert_eq!(common("\u{e9}".as_bytes()), r"\xc3\xa9");
    }

    #[test]
    fn json_strings() {
        assert_eq!(json(b"plain"), "plain");
        assert_eq!(json(b"a\"b\\c/\n\r\t\0\x1b\x7f"), r#"a\"b\\c/\n\r\t\u0000\u001b\u007f"#);
        assert_eq!(json("caf\u{e9} \u{1f600} \u{9b}".as_bytes()), "caf\u{e9} \u{1f600} \\u009b");
        assert_eq!(json(b"\xffa\xc3"), "\u{fffd}a\u{fffd}");
    }

    proptest! {
        #[test]
        fn common_is_one_quoted_line_that_can_be_read_back(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let text = common(&bytes);
            prop_assert!(text.len() <= bytes.len() * LARGEST_COMMON);
            prop_assert!(text.bytes().all(|byte| (0x20..0x7F).contains(&byte)));
            let mut read = Vec::new();
            let mut rest = text.as_bytes();
            while let Some((&first, after)) = rest.split_first() {
                rest = after;
                prop_assert_ne!(first, b'"');
                match (first, rest.first()) {
                    (b'\\', Some(b'x')) => {
                        read.push(u8::from_str_radix(std::str::from_utf8(&rest[1..3]).unwrap(), 16).unwrap());
                        rest = &rest[3..];
                    }
                    (b'\\', Some(&escaped)) => {
                        read.push(escaped);
                        rest = &rest[1..];
                    }
                    _ => read.push(first),
                }
            }
            prop_assert_eq!(read, bytes);
        }

        #[test]
        fn json_is_what_serde_reads(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            text in any::<String>(),
        ) {
            for bytes in [&bytes[..], text.as_bytes()] {
                let written = json(bytes);
                prop_assert!(written.len() <= bytes.len() * LARGEST_JSON);
                prop_assert!(!written.contains(char::is_control));
                let read: String = serde_json::from_str(&format!("\"{written}\"")).unwrap();
                prop_assert_eq!(read, String::from_utf8_lossy(bytes).into_owned());
            }
        }
    }
}
