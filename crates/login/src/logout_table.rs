//! The sessions that a provider has ended by its back channel, and the logout tokens that were received.
//!
//! A session is in its cookie, so each end is noted until all sessions to which it may apply have expired.
//! The table is that of the issuer, as the table of renewals is, and of one process. Its memory is bounded: a
//! logout token for which no memory is left is refused, so that the provider can report this to its
//! administrator.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use aws_lc_rs::digest;

use crate::logout_token::LogoutToken;

/// The most ended sessions and users that are noted, and the most tokens: about 4 MiB together.
const MOST: usize = 65_536;

/// The hash of a name.
type Name = [u8; 16];

/// What a session is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionNames {
    session: Option<Name>,
    subject: Option<Name>,
}

/// Why a logout token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogoutRefusal {
    /// It was received before.
    Replayed,
    /// The table is full.
    Full,
}

/// The ended sessions of the clients of an issuer.
#[derive(Default)]
pub struct LogoutTable {
    /// No end was noted so far; then the check of a session is free.
    is_used: AtomicBool,
    /// How long a session may last.
    longest_s: AtomicU64,
    noted: RwLock<LogoutNotes>,
}

#[derive(Default)]
struct LogoutNotes {
    /// When each session or user was ended, and until when that is noted.
    ended: HashMap<Name, LogoutEntry>,
    /// The tokens that were received, and when they expire.
    tokens: HashMap<Name, u64>,
}

#[derive(Clone, Copy)]
struct LogoutEntry {
    at_s: u64,
    until_s: u64,
}

impl SessionNames {
    /// What a session of a client is found by: the session at the provider and the user.
    pub fn new(client_id: &str, session: Option<&str>, subject: Option<&str>) -> SessionNames {
        SessionNames {
            session: session.map(|session| name_of("session", client_id, session)),
            subject: subject.map(|subject| name_of("user", client_id, subject)),
        }
    }
}

impl LogoutTable {
    /// A login has sessions that last so long.
    pub fn note_lifetime(&self, lifetime_s: u64) {
        self.longest_s.fetch_max(lifetime_s, Ordering::Relaxed);
    }

    /// Ends the session that a token names, or else all sessions of its user that have started until now.
    pub fn end(&self, client_id: &str, token: &LogoutToken, now_s: u64) -> Result<(), LogoutRefusal> {
        let names = SessionNames::new(client_id, token.session.as_deref(), token.subject.as_deref());
        let Some(name) = names.session.or(names.subject) else { return Ok(()) };
        let token_name = name_of("token", client_id, &token.id);
        let mut noted = self.noted.write().unwrap_or_else(PoisonError::into_inner);
        if noted.tokens.get(&token_name).is_some_and(|until_s| *until_s > now_s) {
            return Err(LogoutRefusal::Replayed);
        }
        if noted.tokens.len() >= MOST {
            noted.tokens.retain(|_, until_s| *until_s > now_s);
        }
        if noted.ended.len() >= MOST {
            noted.ended.retain(|_, ended| ended.until_s > now_s);
        }
        if noted.tokens.len() >= MOST || noted.ended.len() >= MOST {
            return Err(LogoutRefusal::Full);
        }
        let until_s = now_s.saturating_add(self.longest_s.load(Ordering::Relaxed));
        noted.tokens.insert(token_name, token.until_s);
        noted.ended.insert(name, LogoutEntry { at_s: now_s, until_s });
        self.is_used.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a session that began at this time was ended.
    pub fn has_ended(&self, names: &SessionNames, began_s: u64) -> bool {
        if !self.is_used.load(Ordering::Relaxed) {
            return false;
        }
        let noted = self.noted.read().unwrap_or_else(PoisonError::into_inner);
        let is_ended = |name: &Name| noted.ended.get(name).is_some_and(|ended| began_s <= ended.at_s);
        names.session.iter().chain(&names.subject).any(is_ended)
    }
}

fn name_of(kind: &str, client_id: &str, name: &str) -> Name {
    let hash = digest::digest(&digest::SHA256, [kind, client_id, name].join("\0").as_bytes());
    hash.as_ref().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(session: Option<&str>, subject: Option<&str>, id: &str) -> LogoutToken {
        LogoutToken {
            session: session.map(str::to_string),
            subject: subject.map(str::to_string),
            id: id.to_string(),
            until_s: 1_120,
        }
    }

    #[test]
    fn a_session_or_all_of_a_user_end() {
        let table = LogoutTable::default();
        table.note_lifetime(100);
        let session = |sid, sub| SessionNames::new("site", Some(sid), Some(sub));
        assert!(!table.has_ended(&session("1", "alice"), 900));
        table.end("site", &token(Some("1"), Some("alice"), "a"), 1_000).unwrap();
        assert!(table.has_ended(&session("1", "alice"), 900));
        assert!(!table.has_ended(&session("2", "alice"), 900), "another session of the user continues");
        assert!(!table.has_ended(&SessionNames::new("other", Some("1"), Some("alice")), 900));
        table.end("site", &token(None, Some("bob"), "b"), 1_000).unwrap();
        assert!(table.has_ended(&session("3", "bob"), 1_000));
        assert!(table.has_ended(&SessionNames::new("site", None, Some("bob")), 1_000));
        assert!(!table.has_ended(&session("4", "bob"), 1_001), "who signs in again has a session");
        assert!(!table.has_ended(&SessionNames::new("site", None, None), 0));
    }

    #[test]
    fn a_token_is_good_once() {
        let table = LogoutTable::default();
        let once = token(Some("1"), None, "a");
        table.end("site", &once, 1_000).unwrap();
        assert_eq!(table.end("site", &once, 1_119), Err(LogoutRefusal::Replayed));
        // The same name of another client's token.
        assert_eq!(table.end("other", &once, 1_000), Ok(()));
    }

    #[test]
    fn memory_is_bounded_and_freed() {
        let table = LogoutTable::default();
        table.note_lifetime(50);
        for number in 0..MOST {
            let name = number.to_string();
            table.end("site", &token(Some(&name), None, &name), 1_000).unwrap();
        }
        let more = token(Some("more"), None, "more");
        assert_eq!(table.end("site", &more, 1_049), Err(LogoutRefusal::Full));
        assert!(table.has_ended(&SessionNames::new("site", Some("0"), None), 999), "nothing is forgotten");
        // The sessions are over, and the tokens have expired.
        assert_eq!(table.end("site", &more, 1_120), Ok(()));
        assert_eq!(table.noted.read().unwrap().ended.len(), 1);
    }
}
