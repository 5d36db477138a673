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
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The most sessions with a stored outcome; others continue without a query.
const MOST_KNOWN: usize = 16_384;

/// The provider's answer about a session.
#[derive(Debug, Clone)]
pub enum Renewal {
    /// It continues, with these contents.
    GoesOn(Arc<Session>),
    /// It has ended.
    Ended,
    /// It continues unchanged: the provider could not be queried.
    NotAsked,
}

/// The answer to a question; `None`: it is on its way.
pub type Outcome = watch::Receiver<Option<Renewal>>;

/// The receiver of the answer.
pub type Question = watch::Sender<Option<Renewal>>;

/// The sessions of current and recent queries.
#[derive(Default)]
pub struct RenewalTable {
    known: Mutex<HashMap<[u8; 16], (Instant, Outcome)>>,
}

impl RenewalTable {
    /// The answer for a session, which `ask` requests if none is stored; `None`: it cannot be requested.
    pub fn outcome(&self, session: &Session, ask: impl FnOnce(Question) -> Option<()>) -> Option<Outcome> {
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
        let (question, outcome) = watch::channel(None);
        ask(question)?;
        known.insert(session.id, (Instant::now(), outcome.clone()));
        Some(outcome)
    }
}
