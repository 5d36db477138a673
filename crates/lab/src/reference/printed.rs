//! A figure as it was printed, with its range before rounding, and sums of such figures.
//!
//! `8.3` is any value from 8.25 to 8.35. Two printed figures agree when their ranges touch: so a ratio that a
//! paper took before it rounded is not called wrong for a last digit.

use std::ops::{Add, Div, Mul, Sub};

/// A number that was read from a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedNumber {
    /// The cell as it was printed.
    pub text: String,
    /// Its number; of `45.8%` it is 45.8.
    pub value: f64,
    /// Half of the last digit's unit.
    pub half_unit: f64,
}

/// The range of values of a printed figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl PrintedNumber {
    /// Reads the number at the beginning of a cell: thousands may be separated, and a unit or a per cent sign
    /// may follow.
    pub fn parse(text: &str) -> Option<PrintedNumber> {
        let digits_end = text.find(|c: char| !matches!(c, '0'..='9' | ',' | '.')).unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        if digits.is_empty() || !(unit.is_empty() || unit == "%" || unit.starts_with(' ')) {
            return None;
        }
        let digits = digits.replace(',', "");
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let value: f64 = digits.parse().ok()?;
        let half_unit = 0.5 * 10f64.powi(-i32::try_from(decimals).ok()?);
        Some(PrintedNumber { text: text.to_owned(), value, half_unit })
    }

    /// The same figure if the words state that it is not exact ("about", "near").
    pub fn about(self, half_unit: f64) -> PrintedNumber {
        PrintedNumber { half_unit, ..self }
    }

    /// Its range.
    pub fn range(&self) -> Range {
        Range { low: self.value - self.half_unit, high: self.value + self.half_unit }
    }
}

impl Range {
    /// A number that is exact.
    pub fn exactly(value: f64) -> Range {
        Range { low: value, high: value }
    }

    /// Whether some value is in both.
    pub fn touches(self, other: Range) -> bool {
        // Sums of halves of decimal units are not exact in binary.
        let slack = 1e-9 * self.high.abs().max(other.high.abs());
        self.low <= other.high + slack && other.low <= self.high + slack
    }

    fn of(corners: [f64; 4]) -> Range {
        Range {
            low: corners.into_iter().fold(f64::INFINITY, f64::min),
            high: corners.into_iter().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Add for Range {
    type Output = Range;
    fn add(self, other: Range) -> Range {
        Range { low: self.low + other.low, high: self.high + other.high }
    }
}

impl Sub for Range {
    type Output = Range;
    fn sub(self, other: Range) -> Range {
        Range { low: self.low - other.high, high: self.high - other.low }
    }
}

impl Mul for Range {
    type Output = Range;
    fn mul(self, other: Range) -> Range {
        Range::of([
            self.low * other.low,
            self.low * other.high,
            self.high * other.low,
            self.high * other.high,
        ])
    }
}

/// Of positive figures, as all of the reports are.
impl Div for Range {
    type Output = Range;
    fn div(self, other: Range) -> Range {
        Range::of([
            self.low / other.low,
            self.low / other.high,
            self.high / other.low,
            self.high / other.high,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cells_are_read_with_their_precision() {
        let read = |text: &str| PrintedNumber::parse(text).map(|printed| (printed.value, printed.half_unit));
        assert_eq!(read("2,759"), Some((2759.0, 0.5)));
        assert_eq!(read("1.80"), Some((1.8, 0.005)));
        assert_eq!(read("45.8%"), Some((45.8, 0.05)));
        assert_eq!(read("1072 Req/Sec"), Some((1072.0, 0.5)));
        for text in ["N/A", "", "95%~100%", "16KB", ".", "1.2.3"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = PrintedNumber::parse(&text);
        }

        #[test]
        fn a_ratio_lies_in_the_range_of_the_ratio(
            a in 1u32..10_000,
            b in 1u32..10_000,
            x in -0.5f64..0.5,
            y in -0.5f64..0.5,
        ) {
            let (true_a, true_b) = (f64::from(a) + x, f64::from(b) + y);
            let range = PrintedNumber::parse(&a.to_string()).unwrap().range()
                / PrintedNumber::parse(&b.to_string()).unwrap().range();
            prop_assert!(range.touches(Range::exactly(true_a / true_b)));
        }
    }
}
