//! The counts of logins.

use std::sync::Arc;

use touchstone_handler::login_counts::{self, LogoutToken, Refusal, Renewal};
use touchstone_handler::service_counts::ServiceCounts;

/// The current counts of a client of a provider.
#[derive(Debug, Clone)]
pub struct LoginTotals {
    /// The provider.
    pub issuer: String,
    /// The client's name there.
    pub client: String,
    /// Browsers that were sent to the provider.
    pub started: u64,
    /// Logins that have ended with a session.
    pub completed: u64,
    /// Sessions that users have ended at this server.
    pub signed_out: u64,
    /// Logins that were refused, by [`Refusal`].
    pub refusals: [u64; Refusal::ALL.len()],
    /// Checks whether sessions continue, by [`Renewal`].
    pub renewals: [u64; Renewal::ALL.len()],
    /// Logout tokens, by [`LogoutToken`].
    pub logout_tokens: [u64; LogoutToken::ALL.len()],
}

/// All clients of providers that are in use.
pub fn login_totals(counts: &ServiceCounts) -> Vec<LoginTotals> {
    let totals = |(name, counts): (login_counts::Name, Arc<login_counts::Counts>)| LoginTotals {
        issuer: name.issuer,
        client: name.client,
        started: counts.started.get(),
        completed: counts.completed.get(),
        signed_out: counts.signed_out.get(),
        refusals: counts.refusals(),
        renewals: counts.renewals(),
        logout_tokens: counts.logout_tokens(),
    };
    counts.logins.all().into_iter().map(totals).collect()
}
