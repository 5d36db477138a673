//! The sessions that a provider is asked about, or was a short time ago: one question at a time for each
//! session, also when several requests with the same cookie come at once. A provider that gives a new refresh
//! token each time takes the old one for stolen when it comes again, so what was granted is known for a
//! while, for requests that were on their way with the old cookie.
//!
//! The table is that of the issuer: the logins of all sites and routes use it, before and after a reload. It
//! is of one process. Machines that share a key file may each ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

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

/// The answer to a question; `None`: it is on its way.
pub type Outcome = watch::Receiver<Option<Renewal>>;

/// Where the answer goes.
pub type Question = watch::Sender<Option<Renewal>>;

/// The sessions that are asked for, or were so a short time ago.
#[derive(Default)]
pub struct RenewalTable {
    known: Mutex<HashMap<[u8; 16], (Instant, Outcome)>>,
}

impl RenewalTable {
    /// The answer for a session, which `ask` gets if nothing is known yet; `None`: it cannot be asked.
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
