//! Queries the provider whether a session continues, with its refresh token.

use std::sync::Arc;

use touchstone_handler::login_counts;

use crate::flows::{self, Client, Failure, now_s};
use crate::provider::{DiscoveredProvider, Provider};
use crate::renewal_table::Renewal;
use crate::session::Session;

/// Queries the provider, or waits for the answer to the same query.
pub async fn renew(
    provider: &Arc<Provider>,
    client: &Arc<Client>,
    session: &Session,
    report: &touchstone_access::Report,
) -> Renewal {
    let outcome = provider.renewals.outcome(session, |question| {
        let discovered = provider.discovered()?;
        let (client, session, report) = (client.clone(), session.clone(), report.clone());
        provider.run(move |http| async move {
            question.send_replace(Some(query(http, client, discovered, session, &report).await));
        })?;
        Some(())
    });
    let Some(mut outcome) = outcome else { return Renewal::NotQueried };
    // The job has a time limit too, but it may wait for other jobs first.
    let found = tokio::time::timeout(client.timeout * 2, outcome.wait_for(Option::is_some)).await;
    match found {
        Ok(Ok(renewal)) => renewal.clone().unwrap_or(Renewal::NotQueried),
        _ => Renewal::NotQueried,
    }
}

async fn query(
    http: touchstone_client::HttpClient,
    client: Arc<Client>,
    discovered: Arc<DiscoveredProvider>,
    session: Session,
    report: &touchstone_access::Report,
) -> Renewal {
    let (counts, refresh_token) = (client.counts.clone(), session.refresh_token.clone());
    match flows::with_refresh_token(http, client, discovered, refresh_token, session.claims.clone()).await {
        Ok(granted) => {
            let now_s = now_s();
            let mut renewed = Session { renewed_s: now_s, seen_s: now_s, ..session };
            if let Some(claims) = granted.claims {
                // A logout token names the session, whether later ID tokens do or not.
                let session = renewed.claims.remove("sid");
                renewed.claims = Session::kept_claims(claims);
                if let Some(session) = session {
                    renewed.claims.entry("sid").or_insert(session);
                }
            }
            if let Some(refresh_token) = granted.refresh_token {
                renewed.refresh_token = refresh_token;
            }
            if let Some(id_token) = granted.id_token.filter(|_| !renewed.id_token.is_empty()) {
                renewed.id_token = id_token;
            }
            counts.renewed(login_counts::Renewal::Renewed);
            Renewal::Continues(Arc::new(renewed))
        }
        Err(Failure::Refused(_)) => {
            counts.renewed(login_counts::Renewal::Ended);
            Renewal::Ended
        }
        Err(failure) => {
            counts.renewed(login_counts::Renewal::Failed);
            report(&format!("a session could not be renewed: {}", failure.text()));
            Renewal::NotQueried
        }
    }
}
