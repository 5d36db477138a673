//! The table of the metrics of logins.

use touchstone_handler::login_counts::{LogoutToken, Refusal, Renewal};

use super::login_totals::LoginTotals;
use super::metric::{Definition, Kind};

const ISSUER: (&str, &str) = ("issuer", "the provider");
const CLIENT: (&str, &str) = ("client", "`client_id`; all logins of this client are counted together");

fn labels(login: &LoginTotals) -> [&str; 2] {
    [&login.issuer, &login.client]
}

/// Every metric of logins, in the order of the exposition.
pub static LOGIN_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_logins_begun",
        kind: Kind::Counter,
        help: "Browsers that were sent to a provider. Some do not return.",
        labels: &[ISSUER, CLIENT],
        collect: |totals, samples| samples.each(&totals.logins, labels, |login| login.started),
    },
    Definition {
        name: "touchstone_logins_completed",
        kind: Kind::Counter,
        help: "Logins that have ended with a session.",
        labels: &[ISSUER, CLIENT],
        collect: |totals, samples| samples.each(&totals.logins, labels, |login| login.completed),
    },
    Definition {
        name: "touchstone_logins_refused",
        kind: Kind::Counter,
        help: "Logins that have ended without a session; the error log has the reason of each.",
        labels: &[
            ISSUER,
            CLIENT,
            (
                "reason",
                "`callback`: the data that the browser returned is invalid (400); `denied`: by the \
                 provider or the user (403); `provider`: it cannot be reached, or its answer is invalid \
                 (502); `busy`: its metadata are not available, or too many logins wait (503); `timeout`: \
                 it did not answer in time (504); `failed`: an error of the server (500)",
            ),
        ],
        collect: |totals, samples| {
            samples.each_of(&totals.logins, labels, Refusal::ALL.map(Refusal::label), |login| login.refusals);
        },
    },
    Definition {
        name: "touchstone_login_renewals",
        kind: Kind::Counter,
        help: "Requests to a provider, with refresh tokens, whether sessions continue.",
        labels: &[
            ISSUER,
            CLIENT,
            (
                "result",
                "`renewed`: it continues; `ended`: the provider has ended it; `failed`: there was no valid \
                 answer, and the session continues",
            ),
        ],
        collect: |totals, samples| {
            samples.each_of(&totals.logins, labels, Renewal::ALL.map(Renewal::label), |login| login.renewals);
        },
    },
    Definition {
        name: "touchstone_login_sign_outs",
        kind: Kind::Counter,
        help: "Sessions that users have ended at this server.",
        labels: &[ISSUER, CLIENT],
        collect: |totals, samples| samples.each(&totals.logins, labels, |login| login.signed_out),
    },
    Definition {
        name: "touchstone_login_logout_tokens",
        kind: Kind::Counter,
        help: "Logout tokens that were received by the back channel. One may end many sessions; this \
             process does not know their number, because a session is in its cookie.",
        labels: &[ISSUER, CLIENT, ("result", "`accepted`, or `refused`: the error log has the reason")],
        collect: |totals, samples| {
            samples.each_of(&totals.logins, labels, LogoutToken::ALL.map(LogoutToken::label), |login| {
                login.logout_tokens
            });
        },
    },
];
