//! The character classes and list syntax that every HTTP field shares (RFC 9110 section 5.5 and 5.6).
//!
//! The other modules use these functions for token bytes, the end of a field value and the members of a list,
//! so that each rule is written once.

/// For each byte value, whether it may be in a token.
static TOKEN_BYTES: [bool; 256] = letters_digits_and(b"!#$%&'*+-.^_`|~");

/// A table of the byte values of ASCII letters, digits and `others`.
pub(crate) const fn letters_digits_and(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 0x80 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
}

/// Whether `byte` is a `tchar` (RFC 9110 section 5.6.2): the bytes of methods, field names and codings.
#[inline]
pub fn is_token_byte(byte: u8) -> bool {
    TOKEN_BYTES[usize::from(byte)]
}

/// Whether `value` is a token: one or more [token bytes](is_token_byte).
pub fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|&byte| is_token_byte(byte))
}

/// The length of the token at the beginning of `bytes`; 0 when there is none.
#[inline]
pub fn token_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(bytes.len())
}

/// Whether `byte` may be in a field value (RFC 9110 section 5.5): visible ASCII, space, tab and bytes from
/// 0x80.
#[inline]
pub fn is_field_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// How many bytes at the beginning of `bytes` may be in a field value.
///
/// The byte after them, if there is one, is the CR that ends the line or a control byte that no value may
/// contain: one pass both finds the end and checks what is before it. Eight bytes are checked in one step.
#[inline]
pub fn field_value_length(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        while let Some((word, tail)) = rest.split_first_chunk::<8>() {
            let controls = control_bytes(u64::from_le_bytes(*word));
            if controls != 0 {
                rest = &rest[controls.trailing_zeros() as usize / 8..];
                break;
            }
            rest = tail;
        }
        // Here `rest` begins with a control byte or is shorter than a word.
        match rest.iter().position(|&byte| !is_field_value_byte(byte)) {
            Some(0) => return bytes.len() - rest.len(),
            // A tab ended the word loop: skip it and the valid bytes after it, and continue by words.
            Some(good) => rest = &rest[good..],
            None => return bytes.len(),
        }
    }
}

/// The high bit of each byte of `word` that is below 0x20 or 0x7f; exact up to and with the first such byte.
#[inline]
fn control_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let delete = word ^ (ONES * 0x7f);
    let is_delete = delete.wrapping_sub(ONES) & !delete;
    (below_space | is_delete) & HIGHS
}

/// `value` without the optional white space (spaces and tabs, RFC 9110 section 5.6.3) around it.
#[inline]
pub fn trim_optional_white_space(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The members of a comma-separated list (RFC 9110 section 5.6.1) whose members hold no quoted strings, such
/// as `Connection` or `Transfer-Encoding`. White space is trimmed and empty members are skipped, as section
/// 5.6.1.2 requires.
pub fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim_optional_white_space).filter(|member| !member.is_empty())
}

/// A field line without its end as name and value.
pub fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii_start()))
}

/// The fields of a text of field lines, as names and values. Lines without a colon are left out.
pub fn split_fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter_map(split_field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens() {
        for good in ["a", "GET", "X-Y_z", "!#$%&'*+-.^_`|~09azAZ"] {
            assert!(is_token(good.as_bytes()), "{good}");
        }
        for bad in ["", " ", "a b", "a:", "a\t", "(", "\"a\"", "a/b", "é", "a\0"] {
            assert!(!is_token(bad.as_bytes()), "{bad:?}");
        }
        assert_eq!(token_length(b"Host: x"), 4);
        assert_eq!(token_length(b": x"), 0);
        assert_eq!(token_length(b"abc"), 3);
    }

    #[test]
    fn lists() {
        let members = |value: &'static str| list_members(value.as_bytes()).collect::<Vec<_>>();
        assert_eq!(members("close"), [b"close"]);
        assert_eq!(members(" a ,\tb,, ,c "), [b"a", b"b", b"c"]);
        assert!(members(" , ,").is_empty());
        assert!(members("").is_empty());
    }

    proptest! {
        #[test]
        fn field_value_length_agrees_with_the_byte_rule(
            bytes in proptest::collection::vec(
                prop_oneof![20 => 0x20u8..0x7f, 4 => Just(b'\t'), 2 => 0x80u8.., 1 => any::<u8>()], 0..80)
        ) {
            let slow = bytes.iter().position(|&byte| !is_field_value_byte(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(field_value_length(&bytes), slow);
        }

        #[test]
        fn trimming_leaves_no_white_space_at_the_ends(value in "[ \ta-c]{0,12}") {
            let trimmed = trim_optional_white_space(value.as_bytes());
            prop_assert_eq!(trimmed, value.trim_matches([' ', '\t']).as_bytes());
        }
    }
}
