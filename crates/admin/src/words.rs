//! Formats numbers for people.

use touchstone_http::decimal::with_thousands_separators;

/// `1,234,567`
pub fn whole(number: u64) -> String {
    with_thousands_separators(&number.to_string())
}

/// A number with three significant digits: `0.12`, `3.4`, `57`, `1,234`.
pub fn rate(number: f64) -> String {
    match number {
        number if number >= 99.95 => whole(number.round() as u64),
        number if number >= 9.995 => format!("{number:.1}"),
        0.0 => "0".to_string(),
        number => format!("{number:.2}"),
    }
}

/// `512 B`, `1.5 KiB`, `20 GiB`
pub fn bytes(number: f64) -> String {
    let mut value = number;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1023.5 || unit == "TiB" {
            return if unit == "B" || value >= 99.5 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{number:.0} B")
}

/// `48 us`, `1.2 ms`, `3.4 s`
pub fn nanoseconds(number: u64) -> String {
    let number = number as f64;
    let (value, unit) = match number {
        number if number < 999_500.0 => (number / 1e3, "\u{b5}s"),
        number if number < 999_500_000.0 => (number / 1e6, "ms"),
        _ => (number / 1e9, "s"),
    };
    match value {
        value if value >= 99.5 => format!("{value:.0} {unit}"),
        value if value >= 9.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `9 d 4 h`
pub fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// `80.5 %`; a hyphen if the whole is zero.
pub fn share(part: u64, whole: u64) -> String {
    ratio((whole > 0).then(|| part as f64 / whole as f64))
}

/// The same for a ratio.
pub fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "\u{2013}".to_string(), |ratio| format!("{:.1} %", ratio * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!([0, 999, 1000, 1_234_567].map(whole), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.126, 9.99, 57.04, 1234.5].map(rate), ["0", "0.13", "9.99", "57.0", "1,235"]);
        assert_eq!(
            [0.0, 1023.0, 1536.0, 21_474_836_480.0].map(bytes),
            ["0 B", "1023 B", "1.5 KiB", "20.0 GiB"]
        );
        assert_eq!(bytes(f64::MAX).split_once(' ').unwrap().1, "TiB");
        assert_eq!([48_000, 999_600, 1_234_000_000].map(nanoseconds), ["48.0 \u{b5}s", "1.00 ms", "1.23 s"]);
        assert_eq!(
            [850, 12_000, 200_000, 7_500_000, 795_600_000].map(age),
            ["850 ms", "12 s", "3 min 20 s", "2 h 5 min", "9 d 5 h"]
        );
        assert_eq!((share(1, 3), share(0, 0)), ("33.3 %".to_string(), "\u{2013}".to_string()));
    }
}
