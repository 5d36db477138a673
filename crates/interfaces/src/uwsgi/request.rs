//! Writes uwsgi requests: a head of four bytes, then names and values, each after its length, then the body.
//!
//! The answer is an HTTP response without framing, up to the end of the connection.

/// The bytes before the body; `None` if the variables are too long for the protocol.
pub fn request_head<'v>(variables: impl Iterator<Item = (&'v [u8], &'v [u8])>) -> Option<Vec<u8>> {
    let mut head = Vec::with_capacity(4096);
    head.extend_from_slice(&[0; 4]);
    for (name, value) in variables.filter(|(name, _)| !name.is_empty()) {
        head.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
        head.extend_from_slice(name);
        head.extend_from_slice(&u16::try_from(value.len()).ok()?.to_le_bytes());
        head.extend_from_slice(value);
    }
    let length = u16::try_from(head.len() - 4).ok()?;
    // The modifiers, the first byte and the last, are 0: a request of a web server.
    head[1..3].copy_from_slice(&length.to_le_bytes());
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    /// Reads a head as a program does.
    fn parse(head: &[u8]) -> Option<Pairs> {
        let [0, low, high, 0, rest @ ..] = head else { return None };
        if usize::from(u16::from_le_bytes([*low, *high])) != rest.len() {
            return None;
        }
        let mut rest = rest;
        let mut next = || -> Option<Vec<u8>> {
            let (length, behind) = rest.split_first_chunk::<2>()?;
            let (text, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            rest = behind;
            Some(text.to_vec())
        };
        let mut pairs = Vec::new();
        while let Some(name) = next() {
            pairs.push((name, next()?));
        }
        Some(pairs)
    }

    #[test]
    fn a_head_is_bytes_in_this_order() {
        let head = request_head([(&b"REQUEST_METHOD"[..], &b"GET"[..])].into_iter()).unwrap();
        assert_eq!(head, b"\0\x15\0\0\x0e\0REQUEST_METHOD\x03\0GET");
    }

    proptest! {
        #[test]
        fn variables_are_read_back(all in vec((vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..300)), 0..10)) {
            let head = request_head(all.iter().map(|(name, value)| (&name[..], &value[..]))).unwrap();
            let expected: Pairs = all.into_iter().filter(|(name, _)| !name.is_empty()).collect();
            prop_assert_eq!(parse(&head), Some(expected));
        }

        #[test]
        fn what_is_too_long_is_no_request(long in 1usize..70_000) {
            let value = vec![b'a'; long];
            let head = request_head([(&b"A"[..], &value[..])].into_iter());
            prop_assert_eq!(head.is_some(), long + 5 <= usize::from(u16::MAX));
        }
    }
}
