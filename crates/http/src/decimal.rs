//! Decimal numbers as HTTP writes them: only digits (`1*DIGIT`, as in `Content-Length`); and as readers like
//! them.

/// The most digits that a `u64` has.
pub const MAX_DIGITS: usize = 20;

/// Writes `value` into the end of `buffer` and returns the digits.
#[inline]
pub fn write(value: u64, buffer: &mut [u8; MAX_DIGITS]) -> &[u8] {
    let mut rest = value;
    let mut start = MAX_DIGITS;
    loop {
        start -= 1;
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &buffer[start..];
        }
    }
}

/// Appends the digits of `value` to `out`.
pub fn append(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(write(value, &mut [0; MAX_DIGITS]));
}

/// How many digits [`write`](fn@write) writes for `value`.
pub fn digits(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Reads a decimal number: one or more digits and no other byte, that fits in a `u64`.
///
/// Signs, spaces and an empty value are refused: two readers that disagree about such a length can be made to
/// disagree about where a message ends (RFC 9112 section 11.2).
#[inline]
pub fn parse(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A number with separated thousands, for readers: `61,234.5`.
pub fn with_thousands_separators(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut apart = String::with_capacity(number.len() + number.len() / 3);
    apart.push_str(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    if !fraction.is_empty() {
        apart.push('.');
        apart.push_str(fraction);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_digits_before_the_point_are_grouped() {
        let cases = [("0", "0"), ("999", "999"), ("1000", "1,000"), ("-1234567.8901", "-1,234,567.8901")];
        for (number, apart) in cases {
            assert_eq!(with_thousands_separators(number), apart);
        }
    }

    #[test]
    fn refuses_what_is_not_a_number() {
        for bad in [
            "",
            "+5",
            "-5",
            " 5",
            "5 ",
            "5,5",
            "0x5",
            "5a",
            "18446744073709551616",
            "99999999999999999999999",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse(b"0000000000000000000000005"), Some(5));
    }

    proptest! {
        #[test]
        fn writes_what_it_reads(value in prop_oneof![any::<u64>(), 0u64..1000, Just(u64::MAX)]) {
            let mut buffer = [0; MAX_DIGITS];
            let text = write(value, &mut buffer);
            let expected = value.to_string();
            prop_assert_eq!(text, expected.as_bytes());
            prop_assert_eq!(text.len(), digits(value));
            prop_assert_eq!(parse(text), Some(value));
        }

        #[test]
        fn agrees_with_the_standard_parser_on_any_digits(text in "[0-9]{1,25}") {
            prop_assert_eq!(parse(text.as_bytes()), text.parse::<u64>().ok());
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = parse(&bytes);
        }
    }
}
