//! Counts of logins, for metrics: by provider and client, because the logins of several sites and routes
//! share sessions.

use crate::count::Count;

/// Why a login was refused, by the status of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The data from the browser is invalid: the state, the code, or it names another provider.
    Callback = 0,
    /// The provider or the user has refused.
    Denied = 1,
    /// The provider cannot be reached, or its answer is invalid.
    Provider = 2,
    /// The provider's metadata are not available, or too many logins wait.
    Busy = 3,
    /// The provider did not answer in time.
    Late = 4,
    /// An error of the server.
    Failed = 5,
}

impl Refusal {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Refusal; 6] = [
        Refusal::Callback,
        Refusal::Denied,
        Refusal::Provider,
        Refusal::Busy,
        Refusal::Late,
        Refusal::Failed,
    ];

    /// The reason for a status.
    pub fn of_status(status: u16) -> Refusal {
        match status {
            403 => Refusal::Denied,
            502 => Refusal::Provider,
            503 => Refusal::Busy,
            504 => Refusal::Late,
            500 | 505.. => Refusal::Failed,
            _ => Refusal::Callback,
        }
    }

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        ["callback", "denied", "provider", "busy", "timeout", "failed"][self as usize]
    }
}

/// The result of a check with the provider whether a session continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// It continues.
    Renewed = 0,
    /// The provider has ended it.
    Ended = 1,
    /// The provider could not be reached, or its answer is invalid: the session continues.
    Failed = 2,
}

impl Renewal {
    /// All results, in the order of their numbers.
    pub const ALL: [Renewal; 3] = [Renewal::Renewed, Renewal::Ended, Renewal::Failed];

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        ["renewed", "ended", "failed"][self as usize]
    }
}

/// The result of a logout token of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogoutToken {
    /// Its sessions have ended.
    Accepted = 0,
    /// It is invalid.
    Refused = 1,
}

impl LogoutToken {
    /// All results, in the order of their numbers.
    pub const ALL: [LogoutToken; 2] = [LogoutToken::Accepted, LogoutToken::Refused];

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        ["accepted", "refused"][self as usize]
    }
}

/// The counts of one client of a provider.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counts {
    /// Browsers that were sent to the provider.
    pub started: Count,
    /// Logins that have ended with a session.
    pub completed: Count,
    /// Sessions that users have ended at this server.
    pub signed_out: Count,
    refusals: [Count; Refusal::ALL.len()],
    renewals: [Count; Renewal::ALL.len()],
    logout_tokens: [Count; LogoutToken::ALL.len()],
}

impl Counts {
    /// Counts a login that was refused with this status.
    pub fn refused(&self, status: u16) {
        self.refusals[Refusal::of_status(status) as usize].add(1);
    }

    /// Counts the result of a check whether a session continues.
    pub fn renewed(&self, renewal: Renewal) {
        self.renewals[renewal as usize].add(1);
    }

    /// Counts a logout token.
    pub fn logout_token_received(&self, token: LogoutToken) {
        self.logout_tokens[token as usize].add(1);
    }

    /// The logins that were refused, by [`Refusal`].
    pub fn refusals(&self) -> [u64; Refusal::ALL.len()] {
        Refusal::ALL.map(|reason| self.refusals[reason as usize].get())
    }

    /// The results of checks whether a session continues, by [`Renewal`].
    pub fn renewals(&self) -> [u64; Renewal::ALL.len()] {
        Renewal::ALL.map(|renewal| self.renewals[renewal as usize].get())
    }

    /// The logout tokens, by [`LogoutToken`].
    pub fn logout_tokens(&self) -> [u64; LogoutToken::ALL.len()] {
        LogoutToken::ALL.map(|token| self.logout_tokens[token as usize].get())
    }
}

/// A client of a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The provider.
    pub issuer: String,
    /// The name of the client there.
    pub client: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_numbers_fit() {
        let counts = Counts::default();
        for status in [400, 403, 502, 503, 504, 500] {
            counts.refused(status);
        }
        assert_eq!(counts.refusals(), [1; Refusal::ALL.len()]);
        for (number, renewal) in Renewal::ALL.into_iter().enumerate() {
            assert_eq!(renewal as usize, number);
            counts.renewed(renewal);
        }
        counts.renewed(Renewal::Ended);
        assert_eq!(counts.renewals(), [1, 2, 1]);
        counts.logout_token_received(LogoutToken::Refused);
        assert_eq!(counts.logout_tokens(), [0, 1]);
    }
}
