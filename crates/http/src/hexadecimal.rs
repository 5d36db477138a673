//! Bytes as pairs of hexadecimal digits.

/// The digits of some bytes, in lower case.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The byte that two digits in upper or lower case write.
pub fn byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// The bytes of a text with two digits for each, and white space anywhere.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| byte(*high, *low)).collect())?
}

/// A random UUID (RFC 9562 section 5.4) of these random bytes, as text.
pub fn random_uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let digits = encode(&random);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms() {
        assert_eq!(encode(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!((byte(b'a', b'F'), byte(b'g', b'0'), byte(b'0', b'/')), (Some(0xaf), None, None));
        assert_eq!(decode(" 0A 1 f\n"), Some(vec![10, 31]));
        assert_eq!((decode("0"), decode("0g"), decode("é")), (None, None, None));
        assert_eq!(random_uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes: Vec<u8>, text: String) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
            let _ = decode(&text);
        }
    }
}
