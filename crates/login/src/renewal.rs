//! Asks the provider whether sessions go on: one request at a time for each session, also when several
//! requests with the same cookie come at once. A provider that gives a new refresh token each time takes the
//! old one for stolen when it comes again, so what was granted is known for a while, for requests that were
//! on their way with the old cookie.
//!
//! This is of one process. Machines that share a key file may each ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::flows::{self, Client, Failure, now_s};
use crate::provider::{Known, Provider};
use crate::session::Session;

/// How long the outcome for a session is known. After a failure the provider is left alone for this time.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The most sessions with a known outcome; others go on without a question.
const MOST_KNOWN: usize = 16_384;

/// What the provider says of a session.
#[derive(Debug, Clone)]
pub enum Renewal {
    /// It goes on, with these contents.
    GoesOn(Arc<Session>),
    /// It has ended.
    Ended,
    /// It goes on as it is: the provider could not be asked.
    NotAsked,
}

/// The sessions that are asked for, or were so a short time ago.
#[derive(Default)]
pub struct Renewals {
    known: Mutex<HashMap<[u8; 16], (Instant, Outcome)>>,
}

type Outcome = watch::Receiver<Option<Renewal>>;

impl Renewals {
    /// Asks the provider, or waits for the answer to the same question.
    pub async fn renew(
        &self,
        provider: &Arc<Provider>,
        client: &Arc<Client>,
        session: &Session,
        report: &touchstone_access::Report,
    ) -> Renewal {
        let Some(mut outcome) = self.outcome(provider, client, session, report) else {
            return Renewal::NotAsked;
        };
        // The job has a time limit too, but it may wait for its turn.
        let found = tokio::time::timeout(client.timeout * 2, outcome.wait_for(Option::is_some)).await;
        match found {
            Ok(Ok(renewal)) => renewal.clone().unwrap_or(Renewal::NotAsked),
            _ => Renewal::NotAsked,
        }
    }

    fn outcome(
        &self,
        provider: &Arc<Provider>,
        client: &Arc<Client>,
        session: &Session,
        report: &touchstone_access::Report,
    ) -> Option<Outcome> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_old_cookie = |outcome: &Outcome| match &*outcome.borrow() {
            Some(Renewal::GoesOn(renewed)) => session.renewed_s < renewed.renewed_s,
            _ => true,
        };
        if let Some((at, outcome)) = known.get(&session.id)
            && at.elapsed() < KNOWN_FOR
            && is_of_old_cookie(outcome)
        {
            return Some(outcome.clone());
        }
        if known.len() >= MOST_KNOWN {
            known.retain(|_, (at, _)| at.elapsed() < KNOWN_FOR);
            if known.len() >= MOST_KNOWN {
                return None;
            }
        }
        let metadata = provider.known()?;
        let (publish, outcome) = watch::channel(None);
        let (client, session, report) = (client.clone(), session.clone(), report.clone());
        let id = session.id;
        provider.run(move |http| async move {
            publish.send_replace(Some(ask(http, client, metadata, session, &report).await));
        })?;
        known.insert(id, (Instant::now(), outcome.clone()));
        Some(outcome)
    }
}

async fn ask(
    http: touchstone_client::HttpClient,
    client: Arc<Client>,
    known: Arc<Known>,
    session: Session,
    report: &touchstone_access::Report,
) -> Renewal {
    let refresh_token = session.refresh_token.clone();
    match flows::with_refresh_token(http, client, known, refresh_token, session.claims.clone()).await {
        Ok(granted) => {
            let now_s = now_s();
            let mut renewed = Session { renewed_s: now_s, seen_s: now_s, ..session };
            if let Some(claims) = granted.claims {
                renewed.claims = Session::kept_claims(claims);
            }
            if let Some(refresh_token) = granted.refresh_token {
                renewed.refresh_token = refresh_token;
            }
            if let Some(id_token) = granted.id_token.filter(|_| !renewed.id_token.is_empty()) {
                renewed.id_token = id_token;
            }
            Renewal::GoesOn(Arc::new(renewed))
        }
        Err(Failure::Refused(_)) => Renewal::Ended,
        Err(failure) => {
            report(&format!("a session could not be renewed: {}", failure.text()));
            Renewal::NotAsked
        }
    }
}
