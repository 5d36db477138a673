//! The sessions of current and recent queries to a provider. Each session has one query at a time, also when
//! several requests with the same cookie arrive together. A provider that issues a new refresh token each
//! time treats the old one as stolen when it is used again. So the answer is stored for some time, for
//! requests that were sent with the old cookie before.
//!
//! The table is that of the issuer: the logins of all sites and routes use it, before and after a reload. It
//! is of one process. Machines that share a key file may each send a query.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::session::Session;

/// How long the outcome for a session is stored. After a failure there is no query for this time.
const OUTCOME_LIFETIME: Duration = Duration::from_secs(60);

/// The most sessions with a stored outcome; others continue without a query.
const MOST_OUTCOMES: usize = 16_384;

/// The provider's answer about a session.
#[derive(Debug, Clone)]
pub enum Renewal {
    /// It continues, with these contents.
    Continues(Arc<Session>),
    /// It has ended.
    Ended,
    /// It continues unchanged: the provider could not be queried.
    NotQueried,
}

/// The answer to a question; `None`: it is on its way.
pub type Outcome = watch::Receiver<Option<Renewal>>;

/// The receiver of the answer.
pub type Question = watch::Sender<Option<Renewal>>;

/// The sessions of current and recent queries.
#[derive(Default)]
pub struct RenewalTable {
    outcomes: Mutex<HashMap<[u8; 16], (Instant, Outcome)>>,
}

impl RenewalTable {
    /// The answer for a session. Without a stored answer, `start_query` requests one; `None`: it cannot be
    /// requested.
    pub fn outcome(
        &self,
        session: &Session,
        start_query: impl FnOnce(Question) -> Option<()>,
    ) -> Option<Outcome> {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_old_cookie = |outcome: &Outcome| match &*outcome.borrow() {
            Some(Renewal::Continues(renewed)) => session.renewed_s < renewed.renewed_s,
            _ => true,
        };
        if let Some((at, outcome)) = outcomes.get(&session.id)
            && at.elapsed() < OUTCOME_LIFETIME
            && is_of_old_cookie(outcome)
        {
            return Some(outcome.clone());
        }
        if outcomes.len() >= MOST_OUTCOMES {
            outcomes.retain(|_, (at, _)| at.elapsed() < OUTCOME_LIFETIME);
            if outcomes.len() >= MOST_OUTCOMES {
                return None;
            }
        }
        let (question, outcome) = watch::channel(None);
        start_query(question)?;
        outcomes.insert(session.id, (Instant::now(), outcome.clone()));
        Some(outcome)
    }
}
