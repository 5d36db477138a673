//! The values of options of `touchstone load` as they are typed.

use super::StageList;
use crate::commands::bench::duration;
use std::ops::RangeInclusive;
use std::time::Duration;
use touchstone_http::hexadecimal;
use touchstone_load::{MessageForm, Stage, TimeSpread, TlsVersions};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteCount(pub(super) usize);

impl std::fmt::Display for ByteCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 > 0 && self.0.is_multiple_of(1024) {
            write!(f, "{}k", self.0 / 1024)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// Reads `4096`, `64k` or `1m`.
pub(super) fn byte_count(text: &str) -> Result<ByteCount, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1024,
        "m" => 1024 * 1024,
        _ => return Err("write a number of bytes such as 4096, 64k or 1m".to_string()),
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(factor));
    number.map(ByteCount).ok_or_else(|| "write a number of bytes such as 4096, 64k or 1m".to_string())
}

/// A figure, and whether every value is this one or only their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Varying<T> {
    pub(super) value: T,
    pub(super) spread: TimeSpread,
}

/// Reads `2s`, or `~2s` for random times.
pub(super) fn varying_time(text: &str) -> Result<Varying<Duration>, String> {
    let (text, spread) = spread_of(text);
    Ok(Varying { value: duration(text)?, spread })
}

/// Reads `5`, or `~5` for random numbers.
pub(super) fn varying_number(text: &str) -> Result<Varying<f64>, String> {
    let (text, spread) = spread_of(text);
    match text.parse::<f64>() {
        Ok(value) if spread == TimeSpread::Exponential || value.fract() == 0.0 => {
            Ok(Varying { value, spread })
        }
        _ => Err("write a whole number such as 5, or ~5 for a mean".to_string()),
    }
}

fn spread_of(text: &str) -> (&str, TimeSpread) {
    match text.strip_prefix('~') {
        Some(rest) => (rest, TimeSpread::Exponential),
        None => (text, TimeSpread::Fixed),
    }
}

/// Reads `10s:100` (hold) and `10s:0-100` (from one to the other), several with commas.
pub(super) fn stages(text: &str) -> Result<StageList, String> {
    text.split(',').map(stage).collect::<Result<Vec<_>, _>>().map(StageList)
}

fn stage(text: &str) -> Result<Stage, String> {
    let form = || {
        format!(
            "{text:?} is not a stage: write 10s:100 to hold a value, or 10s:0-100 to go from one to another"
        )
    };
    let (length, values) = text.trim().split_once(':').ok_or_else(form)?;
    let (from, to) = values.split_once('-').unwrap_or((values, values));
    let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(form);
    Ok(Stage { length: duration(length)?, from: number(from)?, to: number(to)? })
}

/// Reads `events` or `lines`.
pub(super) fn message_form(text: &str) -> Result<MessageForm, String> {
    match text {
        "events" => Ok(MessageForm::Events),
        "lines" => Ok(MessageForm::Lines),
        _ => Err("the forms are events and lines; for gRPC there is --grpc".to_string()),
    }
}

/// How many messages are sent on a WebSocket; `None`: as many as there is time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sends(pub(super) Option<u64>);

/// Reads a number, or `all`.
pub(super) fn sends(text: &str) -> Result<Sends, String> {
    match text {
        "all" => Ok(Sends(None)),
        _ => text.parse().map(|sends| Sends(Some(sends))).map_err(|_| "write a number, or all".to_string()),
    }
}

/// The statuses of valid answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statuses(pub(super) Vec<RangeInclusive<u16>>);

/// Reads `200,404,500-599`.
pub(super) fn statuses(text: &str) -> Result<Statuses, String> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number =
            |text: &str| text.trim().parse::<u16>().ok().filter(|status| (200..=999).contains(status));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(first..=last),
            _ => Err(format!("{text:?} is not a final status: write a list such as 200,404 or 200-299")),
        }
    };
    text.split(',').map(range).collect::<Result<Vec<_>, _>>().map(Statuses)
}

/// Reads a share above 0 and below 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| "write a share above 0 and below 1, for example 0.1".to_string())
}

/// Reads a share from 0 to 1.
pub(super) fn whole_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share from 0 to 1, for example 0.9".to_string())
}

pub(super) fn tls_version(text: &str) -> Result<TlsVersions, String> {
    match text {
        "1.2" => Ok(TlsVersions::Tls12),
        "1.3" => Ok(TlsVersions::Tls13),
        _ => Err("the versions are 1.2 and 1.3".to_string()),
    }
}

/// A hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sha256Sum(pub(super) [u8; 32]);

/// Reads 64 hexadecimal digits.
pub(super) fn sha256(text: &str) -> Result<Sha256Sum, String> {
    let bytes = hexadecimal::decode(text).filter(|_| text.len() == 64);
    let sum = bytes.and_then(|bytes| bytes.try_into().ok()).map(Sha256Sum);
    sum.ok_or_else(|| "a SHA-256 is written as 64 hexadecimal digits".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_are_read_with_their_units() {
        for (text, bytes) in [("1", 1), ("4096", 4096), ("64k", 65_536), ("64K", 65_536), ("1m", 1_048_576)] {
            assert_eq!(byte_count(text), Ok(ByteCount(bytes)));
        }
        for bad in ["", "k", "-1", "1.5k", "1g", "1 k", "99999999999999999999", "18446744073709551615k"] {
            assert!(byte_count(bad).is_err(), "{bad}");
        }
        assert_eq!(ByteCount(65_536).to_string(), "64k");
        assert_eq!(ByteCount(1000).to_string(), "1000");
    }

    #[test]
    fn stages_hold_or_go_from_one_value_to_another() {
        let Ok(StageList(list)) = stages("10s:100, 500ms:0-50.5,1m:0") else { panic!("good stages") };
        assert_eq!(list[0], Stage::constant(Duration::from_secs(10), 100.0));
        assert_eq!(list[1], Stage { length: Duration::from_millis(500), from: 0.0, to: 50.5 });
        assert_eq!(list[2], Stage::constant(Duration::from_secs(60), 0.0));
        for bad in ["", "10s", "10s:", "10s:a", "x:1", "10s:1-", "10s:inf", "10s:5,"] {
            assert!(stages(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tilde_means_on_average() {
        let time = varying_time("~2s").expect("a good time");
        assert_eq!((time.value, time.spread), (Duration::from_secs(2), TimeSpread::Exponential));
        assert_eq!(varying_time("5ms").expect("a good time").spread, TimeSpread::Fixed);
        assert_eq!(varying_number("~2.5").expect("a good number").value, 2.5);
        assert!(
            varying_number("2.5").is_err() && varying_number("~x").is_err() && varying_number("").is_err()
        );
    }

    #[test]
    fn statuses_shares_and_hashes_are_read_strictly() {
        assert_eq!(statuses("200,404-410"), Ok(Statuses(vec![200..=200, 404..=410])));
        for bad in ["", "99", "100", "300-200", "200,", "1000", "ok"] {
            assert!(statuses(bad).is_err(), "{bad}");
        }
        assert!(share("0").is_err() && share("1").is_err() && share("NaN").is_err() && share("0.5").is_ok());
        assert!(whole_share("1.01").is_err() && whole_share("0").is_ok() && whole_share("1").is_ok());
        let sum = sha256(&"aF".repeat(32)).expect("a good hash");
        assert_eq!(sum.0, [0xaf; 32]);
        assert!(sha256(&"g".repeat(64)).is_err() && sha256("aa").is_err());
    }
}
