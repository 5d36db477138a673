//! Variable-length integers (RFC 9000 section 16): the two highest bits of the first byte are the number of
//! bytes.

/// The largest value.
pub const MAX: u64 = (1 << 62) - 1;

/// How many bytes the integer that begins with `first` has.
#[inline]
pub fn encoded_bytes(first: u8) -> usize {
    1 << (first >> 6)
}

/// Takes an integer from the front of `input`; `None`, and nothing is taken, if it is incomplete.
#[inline]
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let &first = input.first()?;
    let (bytes, rest) = input.split_at_checked(encoded_bytes(first))?;
    let value = bytes[1..].iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte));
    *input = rest;
    Some(value)
}

/// Appends an integer in its shortest form. It must not be larger than [`MAX`].
#[inline]
pub fn append(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= MAX);
    let bytes = value.to_be_bytes();
    match value {
        0..0x40 => out.push(bytes[7]),
        0x40..0x4000 => out.extend_from_slice(&[0x40 | bytes[6], bytes[7]]),
        0x4000..0x4000_0000 => out.extend_from_slice(&[0x80 | bytes[4], bytes[5], bytes[6], bytes[7]]),
        _ => {
            out.push(0xc0 | (bytes[0] & 0x3f));
            out.extend_from_slice(&bytes[1..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn examples_of_the_standard() {
        for (value, bytes) in [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ] {
            let mut out = Vec::new();
            append(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(take(&mut &out[..]), Some(value));
        }
        // Longer than necessary, which is allowed.
        assert_eq!(take(&mut &[0x40, 0x25][..]), Some(37));
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(value in prop_oneof![0..=MAX, 0..70_000u64], rest in any::<Vec<u8>>()) {
            let mut out = Vec::new();
            append(value, &mut out);
            for length in 0..out.len() {
                prop_assert_eq!(take(&mut &out[..length]), None);
            }
            out.extend_from_slice(&rest);
            let mut input = &out[..];
            prop_assert_eq!(take(&mut input), Some(value));
            prop_assert_eq!(input, &rest[..]);
        }
    }
}
