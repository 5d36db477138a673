//! The reason phrase of a program or an origin for its status (RFC 9112 section 4). Clients of HTTP/1 receive
//! it; HTTP/2 and HTTP/3 have none.

/// The longest phrase in bytes that is passed on.
pub const LONGEST_BYTES: usize = 256;

/// A phrase that may be written into a status line, and that is not the registered one of its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonPhrase(Box<[u8]>);

impl ReasonPhrase {
    /// `None` if the registered phrase should be sent: `phrase` equals it, is empty, is too long, or holds
    /// other bytes than visible characters, spaces and bytes from 0x80.
    pub fn new(status: u16, phrase: &[u8]) -> Option<ReasonPhrase> {
        let phrase = phrase.trim_ascii();
        let may_be_sent = |byte: &u8| *byte >= b' ' && *byte != 0x7f;
        (!phrase.is_empty()
            && phrase.len() <= LONGEST_BYTES
            && phrase != touchstone_http::status::reason(status).as_bytes()
            && phrase.iter().all(may_be_sent))
        .then(|| ReasonPhrase(phrase.into()))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(status: u16, phrase: &[u8]) -> Option<Vec<u8>> {
        ReasonPhrase::new(status, phrase).map(|phrase| phrase.as_bytes().to_vec())
    }

    #[test]
    fn phrases_of_their_own_are_taken() {
        let longest = [b'x'; LONGEST_BYTES];
        for (status, phrase, expected) in [
            (404, &b"Gone fishing"[..], Some(&b"Gone fishing"[..])),
            (404, b"  Gone fishing \r", Some(b"Gone fishing")),
            (299, b"caf\xc3\xa9 \xff", Some(b"caf\xc3\xa9 \xff")),
            (404, &longest, Some(&longest)),
            (404, &[b'x'; LONGEST_BYTES + 1], None),
            (404, b"Not Found", None),
            (404, b"", None),
            (404, b" ", None),
            (404, b"a\tb", None),
            (404, b"a\r\nX-A: b", None),
            (404, b"a\0b", None),
            (404, b"a\x7fb", None),
        ] {
            assert_eq!(taken(status, phrase).as_deref(), expected, "{}", phrase.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn nothing_that_ends_a_line_is_taken(status in 100u16..1000, phrase: Vec<u8>) {
            if let Some(phrase) = taken(status, &phrase) {
                prop_assert!(!phrase.is_empty() && phrase.len() <= LONGEST_BYTES);
                prop_assert!(phrase.iter().all(|byte| !byte.is_ascii_control()));
            }
        }
    }
}
