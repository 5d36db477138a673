//! What a configuration says of active checks.

use std::time::Duration;

/// How origins are asked whether they are well.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckRules {
    /// What is asked for: path and query.
    pub path: String,
    /// What `Host` says; `None`: the origin's own name.
    pub host: Option<String>,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take, from the beginning.
    pub timeout: Duration,
    /// The statuses of one that is well: the least and the most.
    pub statuses: (u16, u16),
    /// So many good answers in a row bring one back.
    pub rise: u32,
    /// So many bad ones in a row take it out.
    pub fall: u32,
}

impl CheckRules {
    /// Reads `200` or `200-399`.
    pub fn parse_statuses(text: &str) -> Result<(u16, u16), String> {
        let status = |text: &str| text.parse().ok().filter(|status| (100..=599).contains(status));
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (status(least), status(most)) {
            (Some(least), Some(most)) if least <= most => Ok((least, most)),
            _ => Err(format!("{text:?} is no status such as \"200\", and no range such as \"200-399\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read() {
        assert_eq!(CheckRules::parse_statuses("200"), Ok((200, 200)));
        assert_eq!(CheckRules::parse_statuses("200-399"), Ok((200, 399)));
        for text in ["", "99", "600", "300-200", "2xx", "200-", "-200"] {
            assert!(CheckRules::parse_statuses(text).is_err(), "{text}");
        }
    }
}
