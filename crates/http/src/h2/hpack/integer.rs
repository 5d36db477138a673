//! HPACK integers: a prefix within a byte, and seven bits in each byte after it (RFC 7541 section 5.1).

use super::HpackError;

/// The most bytes that may follow the prefix: 28 bits, far more than any index, length or table size that is
/// allowed. It also bounds the zeros with which an integer can be padded.
const MAX_CONTINUATION_BYTES: usize = 4;

/// Reads an integer whose prefix is the lowest `prefix_bits` of `first`, a byte that was taken from `input`
/// already.
#[inline]
pub(crate) fn decode(first: u8, prefix_bits: u32, input: &mut &[u8]) -> Result<usize, HpackError> {
    let mask = 0xff >> (8 - prefix_bits);
    let prefix = first & mask;
    if prefix < mask { Ok(usize::from(prefix)) } else { decode_continuation(prefix, input) }
}

fn decode_continuation(prefix: u8, input: &mut &[u8]) -> Result<usize, HpackError> {
    let mut value = usize::from(prefix);
    for position in 0..MAX_CONTINUATION_BYTES {
        let (&byte, rest) = input.split_first().ok_or(HpackError::Truncated)?;
        *input = rest;
        value += usize::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::IntegerTooLarge)
}

/// Appends `value` with a prefix of `prefix_bits`; the bits above the prefix are those of `pattern`.
#[inline]
pub(crate) fn encode(value: usize, prefix_bits: u32, pattern: u8, out: &mut Vec<u8>) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode_all(bytes: &[u8], prefix_bits: u32) -> Result<(usize, usize), HpackError> {
        let (&first, mut rest) = bytes.split_first().unwrap();
        decode(first, prefix_bits, &mut rest).map(|value| (value, rest.len()))
    }

    /// RFC 7541 appendix C.1.
    #[test]
    fn examples_of_the_standard() {
        for (value, prefix_bits, bytes) in
            [(10, 5, &[0x0a][..]), (1337, 5, &[0x1f, 0x9a, 0x0a]), (42, 8, &[0x2a])]
        {
            let mut out = Vec::new();
            encode(value, prefix_bits, 0, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decode_all(bytes, prefix_bits), Ok((value, 0)));
        }
    }

    #[test]
    fn refuses_what_is_cut_short_or_too_long() {
        assert_eq!(decode_all(&[0x1f], 5), Err(HpackError::Truncated));
        assert_eq!(decode_all(&[0x1f, 0x80], 5), Err(HpackError::Truncated));
        assert_eq!(decode_all(&[0x1f, 0xff, 0xff, 0xff, 0x7f], 5), Ok((31 + (1 << 28) - 1, 0)));
        assert_eq!(decode_all(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x00], 5), Err(HpackError::IntegerTooLarge));
        assert_eq!(decode_all(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00], 5), Err(HpackError::IntegerTooLarge));
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(
            value in prop_oneof![0usize..300, 0usize..1 << 28],
            prefix_bits in 4u32..=8,
            pattern in any::<u8>(),
        ) {
            let pattern = (u16::from(pattern) << prefix_bits) as u8;
            let mut out = Vec::new();
            encode(value, prefix_bits, pattern, &mut out);
            prop_assert_eq!(u16::from(out[0]) >> prefix_bits, u16::from(pattern) >> prefix_bits);
            prop_assert_eq!(decode_all(&out, prefix_bits), Ok((value, 0)));
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 1..10), prefix_bits in 1u32..=8) {
            let _ = decode_all(&bytes, prefix_bits);
        }
    }
}
