//! Counts of bots and of visitors that were checked, for metrics: by site and bot.

use crate::count::Count;

/// The result of the rules on crawlers for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Result {
    /// A signature of the bot is valid.
    Verified = 0,
    /// A signature is invalid.
    Invalid = 1,
    /// A signature could not be verified.
    Unverified = 2,
    /// A request falsely claimed to be from the bot.
    Imitated = 3,
    /// The bot has no access.
    Denied = 4,
    /// The bot has made too many requests.
    Limited = 5,
    /// A visitor must pass the check first.
    Challenged = 6,
    /// A visitor has passed by solving a task.
    Worked = 7,
    /// A visitor has passed by waiting.
    Waited = 8,
    /// The visitor's data for passing the check is invalid.
    Failed = 9,
    /// A visitor had passed before.
    Admitted = 10,
}

impl Result {
    /// All results, in the order of their numbers.
    pub const ALL: [Result; 11] = [
        Result::Verified,
        Result::Invalid,
        Result::Unverified,
        Result::Imitated,
        Result::Denied,
        Result::Limited,
        Result::Challenged,
        Result::Worked,
        Result::Waited,
        Result::Failed,
        Result::Admitted,
    ];

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        [
            "verified",
            "invalid",
            "unverified",
            "imitated",
            "denied",
            "limited",
            "challenged",
            "worked",
            "waited",
            "failed",
            "admitted",
        ][self as usize]
    }
}

/// The counts of a bot, or of all other clients, at a site.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counts {
    results: [Count; Result::ALL.len()],
}

impl Counts {
    /// Counts a request.
    pub fn add(&self, result: Result) {
        self.results[result as usize].add(1);
    }

    /// The requests, by [`Result`].
    pub fn results(&self) -> [u64; Result::ALL.len()] {
        Result::ALL.map(|result| self.results[result as usize].get())
    }
}

/// A bot at a site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The site.
    pub site: String,
    /// The bot that the configuration names; `-`: all other clients.
    pub bot: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_numbers_fit() {
        let counts = Counts::default();
        for (number, result) in Result::ALL.into_iter().enumerate() {
            assert_eq!(result as usize, number);
            assert!(!result.label().is_empty());
        }
        counts.add(Result::Limited);
        assert_eq!(counts.results().iter().sum::<u64>(), 1);
        assert_eq!(counts.results()[5], 1);
    }
}
