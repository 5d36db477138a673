//! Checks that names and values contain only allowed bytes.
//!
//! The check is made once, when a field is decoded from a literal; the dynamic table stores the result for
//! later references. Therefore the fields of every request whose values have a special form, the path and the
//! authority, are checked here as well.

use super::known_name::KnownName;
use crate::grammar::{field_value_length, letters_digits_and};
use crate::host::is_valid_host;

/// The bytes that a valid field name is made of: those of a token, except for upper case (RFC 9113 section
/// 8.2.1).
static NAME_BYTES: [bool; 256] = {
    let mut table = letters_digits_and(b"!#$%&'*+-.^_`|~");
    let mut byte = b'A';
    while byte <= b'Z' {
        table[byte as usize] = false;
        byte += 1;
    }
    table
};

/// Whether `name` may be the name of a field.
pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| NAME_BYTES[usize::from(byte)])
}

/// Whether `value` may be the value of a field of this name.
#[inline]
pub(crate) fn is_valid_value(known: KnownName, value: &[u8]) -> bool {
    match known {
        KnownName::Path => is_valid_path(value),
        KnownName::Authority | KnownName::Host => is_valid_host(value),
        _ => is_valid_text(value),
    }
}

/// No control bytes, and no white space at the ends (RFC 9113 section 8.2.1, RFC 9110 section 5.5).
#[inline]
fn is_valid_text(value: &[u8]) -> bool {
    let outer_white_space = matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t']);
    !outer_white_space && field_value_length(value) == value.len()
}

/// A path with an optional query, or the asterisk of OPTIONS (RFC 9113 section 8.3.1). It contains no control
/// byte, no white space and no fragment. Bytes from 0x80 and some others should be escaped, but are accepted,
/// because browsers send them unescaped.
#[inline]
fn is_valid_path(value: &[u8]) -> bool {
    match value {
        [b'/', ..] => {
            let mut rest = value;
            while let Some((word, tail)) = rest.split_first_chunk::<8>() {
                if forbidden_path_bytes(u64::from_le_bytes(*word)) != 0 {
                    return false;
                }
                rest = tail;
            }
            rest.iter().all(|byte| !matches!(byte, 0..=b' ' | b'#' | 0x7f))
        }
        b"*" => true,
        _ => false,
    }
}

/// Not 0 if a byte of `word` is at most 0x20, `#` or 0x7f. It uses the well-known bit tricks "has a byte less
/// than n" and "has a zero byte". The marked bytes are not exact; whether any byte is marked is exact.
#[inline]
fn forbidden_path_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let up_to_space = word.wrapping_sub(ONES * 0x21) & !word;
    (up_to_space | has_zero(word ^ (ONES * u64::from(b'#'))) | has_zero(word ^ (ONES * 0x7f))) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        for good in ["a", "x-y_z", "!#$%&'*+-.^_`|~09"] {
            assert!(is_valid_name(good.as_bytes()), "{good}");
        }
        for bad in ["", "A", "aB", "a b", ":a", "a:", "a\0", "é", "a\r"] {
            assert!(!is_valid_name(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn values() {
        let valid = |value: &str| is_valid_value(KnownName::Other, value.as_bytes());
        assert!(["", "a", "a b", "a\tb", "é", "\u{80}"].iter().all(|value| valid(value)));
        for bad in [" ", "\t", " a", "a ", "a\t", "\ta", "a\0b", "a\rb", "a\nb", "\x7f", "\x1f"] {
            assert!(!valid(bad), "{bad:?}");
        }
    }

    #[test]
    fn paths_and_authorities() {
        let path = |value: &[u8]| is_valid_value(KnownName::Path, value);
        assert!(path(b"/") && path(b"*") && path(b"/a?b=/c") && path(b"/\xff|{}\"%zz"));
        assert!(!path(b"") && !path(b"a") && !path(b"**") && !path(b"http://h/"));
        for known in [KnownName::Authority, KnownName::Host] {
            assert!(is_valid_value(known, b"h:80") && is_valid_value(known, b""));
            assert!(!is_valid_value(known, b"u@h") && !is_valid_value(known, b"h "));
        }
    }

    proptest! {
        #[test]
        fn the_bit_tricks_say_the_same_as_the_definition(
            bytes in proptest::collection::vec(
                prop_oneof![30 => 0x21u8..0x7f, 4 => 0x80u8.., 1 => any::<u8>()], 0..40)
        ) {
            let path = [b"/", &bytes[..]].concat();
            let forbidden = path.iter().any(|&byte| byte <= b' ' || byte == b'#' || byte == 0x7f);
            prop_assert_eq!(is_valid_value(KnownName::Path, &path), !forbidden);
        }
    }
}
