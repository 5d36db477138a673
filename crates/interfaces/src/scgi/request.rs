//! Writes SCGI requests: a netstring of names and values, each ended by a zero byte, then the body.
//!
//! The answer is a CGI response up to the end of the connection, so there is nothing to decode.

/// The bytes before the body. `CONTENT_LENGTH` must come first and `SCGI` must be present, so both are
/// written here and left out of the variables.
pub fn request_head<'v>(
    content_length: u64,
    variables: impl Iterator<Item = (&'v [u8], &'v [u8])>,
) -> Vec<u8> {
    let mut pairs = Vec::with_capacity(4096);
    let mut add = |name: &[u8], value: &[u8]| {
        for piece in [name, b"\0", value, b"\0"] {
            pairs.extend_from_slice(piece);
        }
    };
    add(b"CONTENT_LENGTH", content_length.to_string().as_bytes());
    add(b"SCGI", b"1");
    for (name, value) in variables {
        // A zero byte would end a value early, and let the client choose the name of the next variable.
        let is_good = !name.is_empty() && !name.contains(&0) && !value.contains(&0);
        if is_good && name != b"CONTENT_LENGTH" && name != b"SCGI" {
            add(name, value);
        }
    }
    let mut head = pairs.len().to_string().into_bytes();
    head.reserve(pairs.len() + 2);
    head.push(b':');
    head.append(&mut pairs);
    head.push(b',');
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    /// Reads a request as a program does.
    fn parse(bytes: &[u8]) -> Option<(Pairs, &[u8])> {
        let colon = bytes.iter().position(|&byte| byte == b':')?;
        let length: usize = std::str::from_utf8(&bytes[..colon]).ok()?.parse().ok()?;
        let (pairs, rest) = bytes[colon + 1..].split_at_checked(length)?;
        let mut words = pairs.strip_suffix(b"\0")?.split(|&byte| byte == 0).map(<[u8]>::to_vec);
        let mut read = Vec::new();
        while let Some(name) = words.next() {
            read.push((name, words.next()?));
        }
        Some((read, rest.strip_prefix(b",")?))
    }

    #[test]
    fn the_example_of_the_specification() {
        let variables = [
            (&b"CONTENT_LENGTH"[..], &b"27"[..]),
            (b"REQUEST_METHOD", b"POST"),
            (b"REQUEST_URI", b"/deepthought"),
        ];
        let head = request_head(27, variables.into_iter());
        assert_eq!(
            head,
            b"70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,"
        );
    }

    proptest! {
        #[test]
        fn variables_are_read_back(
            length: u64,
            all in vec((vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..200)), 0..10),
        ) {
            let head = request_head(length, all.iter().map(|(name, value)| (&name[..], &value[..])));
            let (read, rest) = parse(&head).unwrap();
            prop_assert!(rest.is_empty());
            let first = [
                (b"CONTENT_LENGTH".to_vec(), length.to_string().into_bytes()),
                (b"SCGI".to_vec(), b"1".to_vec()),
            ];
            let others = all
                .into_iter()
                .filter(|(name, value)| !name.is_empty() && !name.contains(&0) && !value.contains(&0));
            let expected: Vec<_> = first.into_iter().chain(others).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
