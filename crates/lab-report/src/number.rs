//! How figures are written in the report: thousands grouped by commas, a fixed number of decimals in a
//! column, units beside them. A figure that was not measured is shown as a text, never as a number.

use touchstone_lab::figures::with_thousands_separators;

/// Printed in the place of a figure that is absent or not finite.
pub(super) const NOT_MEASURED: &str = "not measured";

/// A figure with grouped thousands and a fixed number of decimals.
pub(super) fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return NOT_MEASURED.to_owned();
    }
    if value.abs() >= 1e15 {
        // Nothing that was measured is so large; values of a damaged file must not break the page.
        return format!("{value:.2e}");
    }
    let written = format!("{:.*}", decimals, value.abs());
    let is_negative = value < 0.0 && written.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let sign = if is_negative { "\u{2212}" } else { "" };
    format!("{sign}{}", with_thousands_separators(&written))
}

/// A whole number with grouped thousands.
pub(super) fn count(value: u64) -> String {
    if value >= 1_000_000_000_000_000 {
        return grouped(value as f64, 0);
    }
    with_thousands_separators(&value.to_string())
}

/// A rate: whole from a thousand on, with one or two decimals below.
pub(super) fn rate(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    grouped(value, decimals)
}

/// Microseconds, written as milliseconds to the microsecond.
pub(super) fn milliseconds(microseconds: f64) -> String {
    grouped(microseconds / 1000.0, 3)
}

/// A share of 0 to 1 as percent, with the sign.
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{}\u{a0}%", grouped(share * 100.0, 1)) } else { NOT_MEASURED.to_owned() }
}

/// A latency for a sentence, in the unit that suits it.
pub(super) fn latency(microseconds: f64) -> String {
    let (value, unit) = match microseconds.abs() {
        size if size < 1000.0 => (microseconds, "µs"),
        size if size < 1_000_000.0 => (microseconds / 1000.0, "ms"),
        _ => (microseconds / 1_000_000.0, "s"),
    };
    if !value.is_finite() {
        return NOT_MEASURED.to_owned();
    }
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{}\u{a0}{unit}", grouped(value, decimals))
}

/// Bytes with a binary unit, for a sentence or a label.
pub(super) fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    if !value.is_finite() {
        return NOT_MEASURED.to_owned();
    }
    let mut scaled = value;
    let mut unit = 0;
    while scaled.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let decimals = if unit == 0 || scaled.fract() == 0.0 || scaled.abs() >= 100.0 { 0 } else { 1 };
    format!("{}\u{a0}{}", grouped(scaled, decimals), UNITS[unit])
}

/// Seconds for a sentence: `8 s`, `2.5 s`, `10 min`.
pub(super) fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return NOT_MEASURED.to_owned();
    }
    let (scaled, unit) = if value >= 120.0 { (value / 60.0, "min") } else { (value, "s") };
    let decimals = if (scaled - scaled.round()).abs() < 0.005 {
        0
    } else if scaled < 1.0 {
        2
    } else {
        1
    };
    format!("{}\u{a0}{unit}", grouped(scaled, decimals))
}

/// The figure, or [`NOT_MEASURED`].
pub(super) fn optional<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOT_MEASURED.to_owned(), write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(0.0, 0), "0");
        assert_eq!(grouped(999.4, 0), "999");
        assert_eq!(grouped(1000.0, 0), "1,000");
        assert_eq!(grouped(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(grouped(-1234.5, 1), "\u{2212}1,234.5");
        assert_eq!(grouped(-0.01, 1), "0.0");
        assert_eq!(count(999_999_999_999_999), "999,999,999,999,999");
    }

    #[test]
    fn absurd_figures_stay_short() {
        assert_eq!(grouped(f64::MAX, 2), "1.80e308");
        assert_eq!(grouped(-1e15, 0), "-1.00e15");
        assert_eq!(count(u64::MAX), "1.84e19");
    }

    #[test]
    fn what_is_not_finite_was_not_measured() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in [grouped(value, 1), rate(value), milliseconds(value), percent(value), latency(value)]
            {
                assert_eq!(text, NOT_MEASURED);
            }
            assert_eq!(bytes(value), NOT_MEASURED);
            assert_eq!(seconds(value), NOT_MEASURED);
        }
        assert_eq!(optional(None::<f64>, rate), NOT_MEASURED);
    }

    #[test]
    fn units_suit_the_size() {
        assert_eq!(latency(87.25), "87.2\u{a0}µs");
        assert_eq!(latency(1240.0), "1.24\u{a0}ms");
        assert_eq!(latency(2_500_000.0), "2.50\u{a0}s");
        assert_eq!(bytes(2_618_880.0), "2.5\u{a0}MiB");
        assert_eq!(bytes(131_072.0), "128\u{a0}KiB");
        assert_eq!(bytes(256.0), "256\u{a0}bytes");
        assert_eq!(seconds(600.0), "10\u{a0}min");
        assert_eq!(seconds(2.5), "2.5\u{a0}s");
        assert_eq!(percent(0.934), "93.4\u{a0}%");
        assert_eq!(rate(56_312.4), "56,312");
        assert_eq!(rate(86.04), "86.0");
    }
}
