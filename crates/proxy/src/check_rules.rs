//! The settings of active checks.

use std::time::Duration;

/// How origins are checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckRules {
    /// The check only connects, with TLS if the origin uses it, and sends no request.
    pub connects_only: bool,
    /// The path and query of the request.
    pub path: String,
    /// The value of `Host`; `None`: the origin's own name.
    pub host: Option<String>,
    /// The time between two checks.
    pub interval: Duration,
    /// The time limit for the whole check.
    pub timeout: Duration,
    /// The lowest and the highest status of a healthy origin.
    pub statuses: (u16, u16),
    /// The number of successful checks in a row after which an origin is up.
    pub rise: u32,
    /// The number of failed checks in a row after which an origin is down.
    pub fall: u32,
}

impl CheckRules {
    /// Parses `200` or `200-399`.
    pub fn parse_statuses(text: &str) -> Result<(u16, u16), String> {
        let status = |text: &str| text.parse().ok().filter(|status| (100..=599).contains(status));
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (status(least), status(most)) {
            (Some(least), Some(most)) if least <= most => Ok((least, most)),
            _ => Err(format!("{text:?} is neither a status such as \"200\" nor a range such as \"200-399\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_parsed() {
        assert_eq!(CheckRules::parse_statuses("200"), Ok((200, 200)));
        assert_eq!(CheckRules::parse_statuses("200-399"), Ok((200, 399)));
        for text in ["", "99", "600", "300-200", "2xx", "200-", "-200"] {
            assert!(CheckRules::parse_statuses(text).is_err(), "{text}");
        }
    }
}
