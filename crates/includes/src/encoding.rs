//! Encodes and decodes values for `encoding` and `decoding` of `echo` and `set`, byte for byte as Apache 2.4.
//!
//! A value is bytes, not characters: a page may use any charset. Decoding ends a value at a zero byte, as in
//! a C string, so that no zero byte reaches the page.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use touchstone_http::percent;

/// One step of encoding or decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// The value is not changed.
    None,
    /// Percent-encoding as for paths.
    Url,
    /// Percent-encoding as for forms (`application/x-www-form-urlencoded`): a space becomes a plus sign.
    UrlEncoded,
    /// Percent-encoding as in nginx: all characters that RFC 3986 section 2.3 does not call unreserved.
    UrlOfNginx,
    /// HTML entities.
    Entity,
    /// Base64.
    Base64,
}

impl Coding {
    fn named(name: &[u8]) -> Option<Coding> {
        let names: [(&[u8], Coding); 5] = [
            (b"none", Coding::None),
            (b"url", Coding::Url),
            (b"urlencoded", Coding::UrlEncoded),
            (b"entity", Coding::Entity),
            (b"base64", Coding::Base64),
        ];
        names.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, coding)| coding)
    }

    /// Parses a list such as `decoding="url, entity"`; the error is the unknown name.
    pub fn list(text: &[u8]) -> Result<Vec<Coding>, String> {
        text.split(|byte| matches!(byte, b',' | b' ' | b'\t'))
            .filter(|name| !name.is_empty())
            .map(|name| Coding::named(name).ok_or_else(|| String::from_utf8_lossy(name).into_owned()))
            .collect()
    }

    /// The value, encoded.
    pub fn encode(self, value: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Coding::None => Cow::Borrowed(value),
            Coding::Url => percent_encode(value, b"$-_.+!*'(),:;@&=/~", false, LOWER_CASE),
            Coding::UrlEncoded => percent_encode(value, b".-*_", true, LOWER_CASE),
            Coding::UrlOfNginx => percent_encode(value, b"-._~", false, UPPER_CASE),
            Coding::Entity => escape_html(value),
            Coding::Base64 => Cow::Owned(BASE64.encode(value).into_bytes()),
        }
    }

    /// The value, decoded.
    pub fn decode(self, value: &[u8]) -> Cow<'_, [u8]> {
        let decoded = match self {
            Coding::None => return Cow::Borrowed(value),
            Coding::Url | Coding::UrlOfNginx => percent::decode(value, false),
            Coding::UrlEncoded => percent::decode(value, true),
            Coding::Entity => unescape_html(value),
            Coding::Base64 => Cow::Owned(decode_base64(value)),
        };
        match memchr::memchr(0, &decoded) {
            Some(end) => Cow::Owned(decoded[..end].to_vec()),
            None => decoded,
        }
    }
}

/// Decodes, then encodes, in the order of the lists.
pub fn recode(value: Vec<u8>, decodings: &[Coding], encodings: &[Coding]) -> Vec<u8> {
    let step = |value: Vec<u8>, changed: Option<Vec<u8>>| changed.unwrap_or(value);
    let owned = |changed: Cow<'_, [u8]>| match changed {
        Cow::Borrowed(_) => None,
        Cow::Owned(bytes) => Some(bytes),
    };
    let decoded = decodings.iter().fold(value, |value, coding| {
        let changed = owned(coding.decode(&value));
        step(value, changed)
    });
    encodings.iter().fold(decoded, |value, coding| {
        let changed = owned(coding.encode(&value));
        step(value, changed)
    })
}

/// Any padding and surplus bits are accepted.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes up to the first byte outside the alphabet.
pub(super) fn decode_base64(value: &[u8]) -> Vec<u8> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = value.iter().position(|byte| !is_digit(byte)).unwrap_or(value.len());
    // A single digit has less than a byte.
    let digits = if digits % 4 == 1 { digits - 1 } else { digits };
    BASE64.decode(&value[..digits]).unwrap_or_default()
}

pub(super) fn encode_base64(value: &[u8]) -> Vec<u8> {
    BASE64.encode(value).into_bytes()
}

/// Escapes the characters that are special in HTML texts and attributes.
pub fn escape_html(value: &[u8]) -> Cow<'_, [u8]> {
    let entity = |byte: u8| -> Option<&'static [u8]> {
        match byte {
            b'<' => Some(b"&lt;"),
            b'>' => Some(b"&gt;"),
            b'&' => Some(b"&amp;"),
            b'"' => Some(b"&quot;"),
            _ => None,
        }
    };
    if !value.iter().any(|&byte| entity(byte).is_some()) {
        return Cow::Borrowed(value);
    }
    let mut escaped = Vec::with_capacity(value.len() + 16);
    for &byte in value {
        match entity(byte) {
            Some(entity) => escaped.extend_from_slice(entity),
            None => escaped.push(byte),
        }
    }
    Cow::Owned(escaped)
}

/// Decodes entities of ISO 8859-1 by name and number. Unknown names are kept; numbers of characters that are
/// not printable are dropped.
pub fn unescape_html(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'&', value) else { return Cow::Borrowed(value) };
    let mut decoded = value[..first].to_vec();
    let mut rest = &value[first..];
    // Searched once: no entity can follow the last semicolon.
    while let Some(start) = memchr::memchr(b'&', rest) {
        decoded.extend_from_slice(&rest[..start]);
        rest = &rest[start..];
        // No name has more than six letters; a number may have several leading zeros.
        let window = &rest[..rest.len().min(LONGEST_ENTITY)];
        let Some(end) = memchr::memchr(b';', window) else {
            decoded.push(b'&');
            rest = &rest[1..];
            continue;
        };
        let name = &rest[1..end];
        match name.strip_prefix(b"#") {
            Some(number) => {
                decoded.extend(character_of(number));
                rest = &rest[end + 1..];
            }
            None => match ENTITIES.iter().find(|(known, _)| known.as_bytes() == name) {
                Some((_, byte)) => {
                    decoded.push(*byte);
                    rest = &rest[end + 1..];
                }
                None => {
                    decoded.push(b'&');
                    rest = &rest[1..];
                }
            },
        }
    }
    decoded.extend_from_slice(rest);
    Cow::Owned(decoded)
}

const LONGEST_ENTITY: usize = 32;

fn character_of(number: &[u8]) -> Option<u8> {
    if !number.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = number.iter().fold(0u32, |value, digit| (value * 10 + u32::from(digit - b'0')).min(1000));
    match value {
        9 | 10 | 32..=126 | 161..=255 => Some(value as u8),
        _ => None,
    }
}

const LOWER_CASE: &[u8; 16] = b"0123456789abcdef";
const UPPER_CASE: &[u8; 16] = b"0123456789ABCDEF";

fn percent_encode<'a>(
    value: &'a [u8],
    kept: &[u8],
    plus_for_space: bool,
    digits: &[u8; 16],
) -> Cow<'a, [u8]> {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || kept.contains(&byte);
    if value.iter().all(|&byte| stays(byte)) {
        return Cow::Borrowed(value);
    }
    let mut encoded = Vec::with_capacity(value.len() * 2);
    for &byte in value {
        match byte {
            b' ' if plus_for_space => encoded.push(b'+'),
            byte if stays(byte) => encoded.push(byte),
            byte => {
                let digit = |value: u8| digits[usize::from(value)];
                encoded.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    Cow::Owned(encoded)
}

/// Puts a backslash before characters that are special to a shell, as in `QUERY_STRING_UNESCAPED`.
pub fn escape_shell(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len() + 8);
    for &byte in value {
        if b"&;`'\"|*?~<>^()[]{}$\\\n".contains(&byte) {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    escaped
}

/// The entities of HTML 2.0 (RFC 1866): the characters of ISO 8859-1.
const ENTITIES: &[(&str, u8)] = &[
    ("lt", b'<'),
    ("gt", b'>'),
    ("amp", b'&'),
    ("quot", b'"'),
    ("ETH", 208),
    ("eth", 240),
    ("Auml", 196),
    ("Euml", 203),
    ("Iuml", 207),
    ("Ouml", 214),
    ("Uuml", 220),
    ("auml", 228),
    ("euml", 235),
    ("iuml", 239),
    ("ouml", 246),
    ("uuml", 252),
    ("yuml", 255),
    ("Acirc", 194),
    ("Aring", 197),
    ("AElig", 198),
    ("Ecirc", 202),
    ("Icirc", 206),
    ("Ocirc", 212),
    ("Ucirc", 219),
    ("THORN", 222),
    ("szlig", 223),
    ("acirc", 226),
    ("aring", 229),
    ("aelig", 230),
    ("ecirc", 234),
    ("icirc", 238),
    ("ocirc", 244),
    ("ucirc", 251),
    ("thorn", 254),
    ("Agrave", 192),
    ("Aacute", 193),
    ("Atilde", 195),
    ("Ccedil", 199),
    ("Egrave", 200),
    ("Eacute", 201),
    ("Igrave", 204),
    ("Iacute", 205),
    ("Ntilde", 209),
    ("Ograve", 210),
    ("Oacute", 211),
    ("Otilde", 213),
    ("Oslash", 216),
    ("Ugrave", 217),
    ("Uacute", 218),
    ("Yacute", 221),
    ("agrave", 224),
    ("aacute", 225),
    ("atilde", 227),
    ("ccedil", 231),
    ("egrave", 232),
    ("eacute", 233),
    ("igrave", 236),
    ("iacute", 237),
    ("ntilde", 241),
    ("ograve", 242),
    ("oacute", 243),
    ("otilde", 245),
    ("oslash", 248),
    ("ugrave", 249),
    ("uacute", 250),
    ("yacute", 253),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: Cow<'_, [u8]>) -> String {
        String::from_utf8_lossy(&value).into_owned()
    }

    #[test]
    fn each_encoding() {
        let value = b"a b<&\">%/+~\xe4";
        assert_eq!(text(Coding::None.encode(b"a<b")), "a<b");
        assert_eq!(text(Coding::Entity.encode(b"a<b>&\"'")), "a&lt;b&gt;&amp;&quot;'");
        assert_eq!(text(Coding::Url.encode(value)), "a%20b%3c&%22%3e%25/+~%e4");
        assert_eq!(text(Coding::UrlEncoded.encode(value)), "a+b%3c%26%22%3e%25%2f%2b%7e%e4");
        assert_eq!(text(Coding::UrlOfNginx.encode(value)), "a%20b%3C%26%22%3E%25%2F%2B~%E4");
        assert_eq!(text(Coding::Base64.encode(b"any")), "YW55");
    }

    #[test]
    fn each_decoding() {
        assert_eq!(text(Coding::Url.decode(b"a%20b+%zz%2")), "a b+%zz%2");
        assert_eq!(text(Coding::UrlEncoded.decode(b"a%20b+c")), "a b c");
        assert_eq!(text(Coding::Url.decode(b"a%00b")), "a");
        assert_eq!(text(Coding::Entity.decode(b"&lt;&#65;&#0;&#128;&bogus;&amp")), "<A&bogus;&amp");
        assert_eq!(Coding::Entity.decode(b"&auml;&#228;").as_ref(), b"\xe4\xe4");
        assert_eq!(text(Coding::Base64.decode(b"YW55")), "any");
        assert_eq!(text(Coding::Base64.decode(b"YW5=")), "an");
        assert_eq!(text(Coding::Base64.decode(b"Y!")), "");
    }

    #[test]
    fn lists_of_codings() {
        assert_eq!(Coding::list(b"url, ENTITY"), Ok(vec![Coding::Url, Coding::Entity]));
        assert_eq!(Coding::list(b""), Ok(vec![]));
        assert_eq!(Coding::list(b"url,rot13"), Err("rot13".to_string()));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_to_the_same(value in proptest::collection::vec(1u8.., 0..60)) {
            for coding in [Coding::Url, Coding::UrlEncoded, Coding::Base64, Coding::Entity] {
                let encoded = coding.encode(&value).into_owned();
                prop_assert_eq!(coding.decode(&encoded).into_owned(), value.clone(), "{:?}", coding);
            }
        }

        #[test]
        fn nothing_makes_decoding_panic(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            for coding in [Coding::Url, Coding::UrlEncoded, Coding::Base64, Coding::Entity] {
                prop_assert!(coding.decode(&value).len() <= value.len());
            }
            escape_shell(&value);
        }
    }
}
