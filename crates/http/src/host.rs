//! Host and port as they are written in `Host` and in a target (RFC 9110 section 7.2, RFC 3986 section 3.2).
//!
//! If two servers read an unusual authority differently, an attacker can use the difference. Therefore only
//! what the grammar allows is a host: a registered name, an IPv4 address, or an IP literal in brackets, with
//! an optional port.

use std::net::Ipv6Addr;

use crate::decimal;
use crate::grammar::letters_digits_and;

/// Whether `value` is a valid value of `Host`: `uri-host [ ":" port ]`, or empty, which a client must send
/// for a target without authority (RFC 9112 section 3.2).
///
/// The port may be empty, as in `example.org:`, and is at most 65535. User information (`user@`) is refused.
#[inline]
pub fn is_valid_host(value: &[u8]) -> bool {
    let host_length = match value {
        [] => return true,
        [b'[', ..] => match ip_literal_length(value) {
            Some(length) => length,
            None => return false,
        },
        _ => match registered_name_length(value) {
            Some(0) | None => return false,
            Some(length) => length,
        },
    };
    match &value[host_length..] {
        [] => true,
        [b':', port @ ..] => port.is_empty() || parse_port(port).is_some(),
        _ => false,
    }
}

/// Cuts a valid host value into the host and the port. The host keeps the brackets of an IP literal; an
/// absent and an empty port are `None`.
pub fn split_port(value: &[u8]) -> (&[u8], Option<u16>) {
    // Within the brackets of an IP literal colons are part of the address.
    let colon = match value {
        [b'[', ..] => value.iter().position(|&byte| byte == b']').map(|bracket| bracket + 1),
        _ => value.iter().position(|&byte| byte == b':'),
    };
    match colon.map(|colon| value.split_at(colon)) {
        Some((host, [b':', port @ ..])) => (host, parse_port(port)),
        _ => (value, None),
    }
}

/// Whether `host`, in upper or lower case, is the name `lower_case`, which must be in lower case. Hosts are
/// not case-sensitive (RFC 3986 section 6.2.2.1).
#[inline]
pub fn equals_lower_case(host: &[u8], lower_case: &[u8]) -> bool {
    host.len() == lower_case.len()
        && host.iter().zip(lower_case).all(|(byte, lower)| byte.to_ascii_lowercase() == *lower)
}

/// A port: digits, at most 65535. Leading zeros are allowed, as in the grammar.
fn parse_port(digits: &[u8]) -> Option<u16> {
    decimal::parse(digits).and_then(|port| u16::try_from(port).ok())
}

/// For each byte value, whether it may be in a registered name as itself: `unreserved` or `sub-delims`.
static REGISTERED_NAME_BYTES: [bool; 256] = letters_digits_and(b"-._~!$&'()*+,;=");

/// The length of the registered name (or IPv4 address, which has the same form) before the port or the end;
/// `None` if a percent escape in it is broken.
#[inline]
fn registered_name_length(value: &[u8]) -> Option<usize> {
    let mut position = 0;
    while let Some(&byte) = value.get(position) {
        if REGISTERED_NAME_BYTES[usize::from(byte)] {
            position += 1;
        } else if byte == b'%' {
            let digits = value.get(position + 1..position + 3)?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            position += 3;
        } else {
            break;
        }
    }
    Some(position)
}

/// The length of the IP literal at the beginning of `value`, with its brackets, if it is a valid one.
fn ip_literal_length(value: &[u8]) -> Option<usize> {
    let bracket = value.iter().position(|&byte| byte == b']')?;
    let address = value.get(1..bracket)?;
    let is_valid = match address {
        // IPvFuture: "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )
        [b'v' | b'V', rest @ ..] => {
            let dot = rest.iter().position(|&byte| byte == b'.')?;
            let (version, tail) = (&rest[..dot], &rest[dot + 1..]);
            !version.is_empty()
                && version.iter().all(u8::is_ascii_hexdigit)
                && !tail.is_empty()
                && tail.iter().all(|&byte| byte == b':' || REGISTERED_NAME_BYTES[usize::from(byte)])
        }
        _ => std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    };
    is_valid.then_some(bracket + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn valid_hosts() {
        let table: [(&str, &str, Option<u16>); 20] = [
            ("", "", None),
            ("example.org", "example.org", None),
            ("example.org:80", "example.org", Some(80)),
            ("example.org:", "example.org", None),
            ("example.org:0", "example.org", Some(0)),
            ("example.org:65535", "example.org", Some(65535)),
            ("example.org:00080", "example.org", Some(80)),
            ("example.org.", "example.org.", None),
            ("EXAMPLE.org", "EXAMPLE.org", None),
            ("127.0.0.1:8080", "127.0.0.1", Some(8080)),
            ("localhost", "localhost", None),
            ("a_b-c~d", "a_b-c~d", None),
            ("!$&'()*+,;=", "!$&'()*+,;=", None),
            ("ex%41mple", "ex%41mple", None),
            ("[::1]", "[::1]", None),
            ("[::1]:8080", "[::1]", Some(8080)),
            ("[2001:db8::7]:", "[2001:db8::7]", None),
            ("[::ffff:192.0.2.1]:80", "[::ffff:192.0.2.1]", Some(80)),
            ("[v1.fe80::a+en1]", "[v1.fe80::a+en1]", None),
            ("[VF.x]:1", "[VF.x]", Some(1)),
        ];
        for (value, host, port) in table {
            assert!(is_valid_host(value.as_bytes()), "{value}");
            assert_eq!(split_port(value.as_bytes()), (host.as_bytes(), port), "{value}");
        }
    }

    #[test]
    fn invalid_hosts() {
        let table = [
            " ",
            "a b",
            "a\tb",
            "a\0b",
            "a/b",
            "a\\b",
            "a?b",
            "a#b",
            "user@example.org",
            "http://example.org",
            "é.org",
            ":80",
            ":",
            "a:b",
            "a:+80",
            "a:-1",
            "a: 80",
            "a:80 ",
            "a:80:80",
            "a:65536",
            "a:99999999999999999999",
            "a%",
            "a%4",
            "a%zz",
            "a%4g",
            "[",
            "]",
            "[]",
            "[::1",
            "::1",
            "2001:db8::7",
            "[::1]80",
            "[::1]x:80",
            "[::1]:x",
            "[::g]",
            "[1:2:3:4:5:6:7:8:9]",
            "[127.0.0.1]",
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]",
            "[v.x]",
            "[v1]",
            "[v1.]",
            "[vg.x]",
            "[v1.a@b]",
            "[v1.a/b]",
            "a[::1]",
            "a\"b",
            "a<b>",
            "a\x7f",
        ];
        for value in table {
            assert!(!is_valid_host(value.as_bytes()), "{value:?}");
        }
        assert!(!is_valid_host(b"[\xff]"));
    }

    #[test]
    fn case() {
        assert!(equals_lower_case(b"Example.ORG", b"example.org"));
        assert!(equals_lower_case(b"", b""));
        assert!(!equals_lower_case(b"example.org", b"example.com"));
        assert!(!equals_lower_case(b"example.org", b"example.or"));
        // Only letters have case: these differ by the same bit.
        assert!(!equals_lower_case(b"[", b"{"));
    }

    proptest! {
        #[test]
        fn every_ipv6_address_is_valid(address in any::<u128>(), port in any::<u16>()) {
            let host = format!("[{}]", Ipv6Addr::from(address));
            let value = format!("{host}:{port}");
            prop_assert!(is_valid_host(value.as_bytes()));
            prop_assert_eq!(split_port(value.as_bytes()), (host.as_bytes(), Some(port)));
        }

        #[test]
        fn the_parts_of_a_valid_host_make_it_again(
            value in prop_oneof![
                "[a-z0-9.:%\\[\\]-]{0,16}",
                "[a-z.]{1,10}:[0-9]{0,6}",
                "\\[[0-9a-f:.]{0,12}\\](:[0-9]{0,3})?",
            ]
        ) {
            let (host, port) = split_port(value.as_bytes());
            if is_valid_host(value.as_bytes()) {
                prop_assert!(is_valid_host(host));
                prop_assert_eq!(split_port(host), (host, None));
                let rest = &value[host.len()..];
                prop_assert_eq!(port, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
            }
        }

        #[test]
        fn never_panics_and_lets_no_separator_pass(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = split_port(&value);
            if is_valid_host(&value) {
                let passes = |byte: &u8| byte.is_ascii_graphic() && !b"/?#@\\\"<>".contains(byte);
                prop_assert!(value.iter().all(passes));
            }
        }

        #[test]
        fn lower_case_comparison_agrees_with_the_standard_library(
            one in "[A-Za-z\\[{@`.]{0,4}", other in "[a-z\\[{@`.]{0,4}",
        ) {
            prop_assert_eq!(
                equals_lower_case(one.as_bytes(), other.as_bytes()),
                one.eq_ignore_ascii_case(&other)
            );
        }
    }
}
