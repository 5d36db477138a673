//! The format of numbers for readers.

/// Formats a number with thousands separators: `61,234.5`.
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
    use super::with_thousands_separators;

    #[test]
    fn only_digits_before_the_point_are_grouped() {
        let cases = [("0", "0"), ("999", "999"), ("1000", "1,000"), ("-1234567.8901", "-1,234,567.8901")];
        for (number, apart) in cases {
            assert_eq!(with_thousands_separators(number), apart);
        }
    }
}
