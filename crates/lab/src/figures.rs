//! Formats figures for readers: separated thousands, three significant digits, plural words.

pub use touchstone_http::decimal::with_thousands_separators;

/// A number with separated thousands: `61,234`.
pub fn count(number: u64) -> String {
    with_thousands_separators(&number.to_string())
}

/// A rate, whole from 100 on: `61,234`, `57.3`.
pub fn rate(a_second: f64) -> String {
    // A damaged result file can hold any number; beyond 2^53 not even the unit's digit is true.
    if (100.0..9e15).contains(&a_second) { count(a_second.round() as u64) } else { significant(a_second) }
}

/// Microseconds as milliseconds: `0.312`, `14.2`, `1,204`.
pub fn milliseconds(microseconds: f64) -> String {
    rate(microseconds / 1000.0)
}

/// Three significant digits, in exponents only from 10^15 on: `0.0312`, `4.61`, `98.2`, `1,234`.
pub fn significant(number: f64) -> String {
    if !number.is_finite() {
        return "-".to_string();
    }
    if number.abs() >= 1e15 {
        return format!("{number:.2e}");
    }
    let magnitude = if number == 0.0 { 0 } else { number.abs().log10().floor() as i32 };
    let decimals = (2 - magnitude).clamp(0, 6) as usize;
    with_thousands_separators(&format!("{number:.decimals$}"))
}

/// A share of 1 as percent: `98 %`, `4.3 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !(-1e6..1e6).contains(&percent) {
        return format!("{} %", significant(percent));
    }
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `1 client`, `16 clients`.
pub fn clients(number: u64) -> String {
    format!("{} client{}", count(number), if number == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A number of people with the two digits that an estimate can have: `46,000`.
pub fn people_estimate(people: f64) -> String {
    let people = people.max(0.0);
    if people < 100.0 {
        return count(people.floor() as u64);
    }
    let step = 10f64.powi(people.log10().floor() as i32 - 1);
    count(((people / step).floor() * step) as u64)
}

/// Seconds until an end, as a person reads them: `42 s`, `1 min 32 s`.
pub fn time_left(seconds: f64) -> String {
    let seconds = seconds.max(0.0).ceil() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([61_234.4, 57.31, 0.5, 0.0].map(rate), ["61,234", "57.3", "0.500", "0.00"]);
        assert_eq!([312.0, 14_200.0, 1_204_000.0].map(milliseconds), ["0.312", "14.2", "1,204"]);
        assert_eq!([0.98, 0.043, 1.0].map(percent), ["98 %", "4.3 %", "100 %"]);
        assert_eq!(
            [0.0312, 98.25, 1234.4, -56_789.0].map(significant),
            ["0.0312", "98.2", "1,234", "-56,789"]
        );
        assert_eq!([f64::NAN, f64::INFINITY, 1e300].map(significant), ["-", "-", "1.00e300"]);
        assert_eq!([f64::NAN, f64::INFINITY, 1e300].map(rate), ["-", "-", "1.00e300"]);
        assert_eq!([f64::NAN, 1e300].map(percent), ["- %", "1.00e302 %"]);
        assert_eq!([1, 1600].map(clients), ["1 client", "1,600 clients"]);
        assert_eq!(list(&["a".to_string(), "b".to_string(), "c".to_string()]), "a, b and c");
    }

    #[test]
    fn people_are_rounded_down_to_two_digits() {
        let cases = [
            (-1.0, "0"),
            (0.0, "0"),
            (99.9, "99"),
            (935.06, "930"),
            (46_753.2, "46,000"),
            (1_234_567.0, "1,200,000"),
        ];
        for (people, expected) in cases {
            assert_eq!(people_estimate(people), expected);
        }
    }
}
