//! Numbers in log lines: seconds, and numbers with a fixed count of digits.

use touchstone_http::decimal;

/// Seconds with microseconds.
pub(super) fn append_seconds(microseconds: u64, line: &mut Vec<u8>) {
    decimal::append(microseconds / 1_000_000, line);
    line.push(b'.');
    append_padded::<6>(line, microseconds % 1_000_000);
}

/// A number with this many digits.
pub(super) fn append_padded<const DIGITS: usize>(line: &mut Vec<u8>, mut value: u64) {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    line.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded() {
        let mut line = Vec::new();
        append_padded::<6>(&mut line, 48);
        append_padded::<3>(&mut line, 1234);
        assert_eq!(line, b"000048234");
    }
}
