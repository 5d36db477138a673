//! Percent-encoding of paths (RFC 3986 section 2.1) for Location fields and links.

/// Appends a path; all bytes that RFC 3986 section 3.3 does not allow in a path are percent-encoded.
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    const HEXADECIMAL: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |value: u8| HEXADECIMAL[usize::from(value)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::target::normalise_path;

    proptest! {
        #[test]
        fn what_is_encoded_is_found_again(name in proptest::collection::vec(0x20u8.., 1..30)) {
            prop_assume!(!name.contains(&b'/') && !name.contains(&0x7f) && name != b"." && name != b"..");
            let mut encoded = vec![b'/'];
            encode_path(&name, &mut encoded);
            let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(byte);
            prop_assert!(encoded.iter().all(is_plain));
            let mut decoded = Vec::new();
            prop_assert!(normalise_path(&encoded, &mut decoded).is_ok());
            prop_assert_eq!(&decoded[1..], &name[..]);
        }
    }
}
