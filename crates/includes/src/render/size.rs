//! Formats sizes of files for `fsize`.

/// A size in four characters: bytes, or K, M and so on with a decimal below ten, rounded as in Apache.
pub(super) fn abbreviated(size: u64) -> String {
    if size < 973 {
        return format!("{size:3} ");
    }
    let mut size = size;
    let mut unit = "KMGTPE".chars();
    loop {
        let remainder = size & 1023;
        size >>= 10;
        let letter = unit.next().unwrap_or('E');
        if size >= 973 && letter != 'E' {
            continue;
        }
        if size < 9 || (size == 9 && remainder < 973) {
            let tenths = (remainder * 5 + 256) / 512;
            let (whole, tenths) = if tenths >= 10 { (size + 1, 0) } else { (size, tenths) };
            return format!("{whole}.{tenths}{letter}");
        }
        let rounded = size + u64::from(remainder >= 512);
        return format!("{rounded:3}{letter}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::decimal::with_thousands_separators;

    #[test]
    fn sizes() {
        let table: [(u64, &str, &str); 12] = [
            (0, "  0 ", "0"),
            (972, "972 ", "972"),
            (973, "1.0K", "973"),
            (1000, "1.0K", "1,000"),
            (1536, "1.5K", "1,536"),
            (6250, "6.1K", "6,250"),
            (10_189, " 10K", "10,189"),
            (10_240, " 10K", "10,240"),
            (999_999, "1.0M", "999,999"),
            (1_234_567, "1.2M", "1,234,567"),
            (5_000_000_000, "4.7G", "5,000,000,000"),
            (u64::MAX, " 16E", "18,446,744,073,709,551,615"),
        ];
        for (size, short, long) in table {
            assert_eq!(abbreviated(size), short, "{size}");
            assert_eq!(with_thousands_separators(&size.to_string()), long);
        }
    }
}
