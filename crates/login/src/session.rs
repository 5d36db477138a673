//! A session: what the cookie of a user who has signed in contains.

use touchstone_access::Claims;

use crate::binary::{Reader, Writer};

const VERSION: u8 = 1;

/// Claims that are about the token and not about the user. They are not kept.
const OF_TOKEN: [&str; 11] =
    ["aud", "at_hash", "azp", "c_hash", "exp", "iat", "iss", "jti", "nbf", "nonce", "s_hash"];

/// The maximum length of the contents: a longer one fits into no cookies.
const LONGEST: usize = 16 * 1024;

/// A session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Names it, for as long as it lasts.
    pub id: [u8; 16],
    /// When the user signed in, in seconds since 1970.
    pub began_s: u64,
    /// When the cookie was sealed.
    pub seen_s: u64,
    /// When the provider was queried last.
    pub renewed_s: u64,
    /// The provider's claims about the user.
    pub claims: Claims,
    /// Gets new tokens; empty: the provider issued none, or it is not used.
    pub refresh_token: String,
    /// The ID token, for the sign-out at the provider; empty: it is not used.
    pub id_token: String,
}

/// How long sessions last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Since the login.
    pub total_s: u64,
    /// Without a request; 0: as long as that.
    pub idle_s: u64,
}

impl Session {
    /// The claims of an ID token, without those that are about the token.
    pub fn kept_claims(mut claims: Claims) -> Claims {
        claims.retain(|name, _| !OF_TOKEN.contains(&name.as_str()));
        claims
    }

    /// Whether it has ended.
    pub fn is_over(&self, lifetimes: Lifetimes, now_s: u64) -> bool {
        let idle_s = now_s.saturating_sub(self.seen_s);
        now_s.saturating_sub(self.began_s) >= lifetimes.total_s
            || (lifetimes.idle_s > 0 && idle_s >= lifetimes.idle_s)
    }

    /// Whether the cookie must be sealed again, so that the session of an active user does not become idle.
    /// This is not done for every request, but after a quarter of the idle time or after five minutes, the
    /// shorter of the two.
    pub fn is_to_be_sealed(&self, lifetimes: Lifetimes, now_s: u64) -> bool {
        let interval_s = (lifetimes.idle_s / 4).clamp(1, 300);
        lifetimes.idle_s > 0 && now_s.saturating_sub(self.seen_s) >= interval_s
    }

    /// As bytes, for sealing.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(vec![VERSION]);
        writer.0.extend_from_slice(&self.id);
        writer.number(self.began_s);
        writer.number(self.seen_s);
        writer.number(self.renewed_s);
        writer.bytes(&serde_json::to_vec(&self.claims).unwrap_or_default());
        writer.bytes(self.refresh_token.as_bytes());
        writer.bytes(self.id_token.as_bytes());
        writer.0
    }

    /// From the bytes of a cookie that was opened.
    pub fn decode(bytes: &[u8]) -> Option<Session> {
        if bytes.len() > LONGEST {
            return None;
        }
        let mut reader = Reader(bytes.strip_prefix(&[VERSION])?);
        let id = reader.array()?;
        let (began_s, seen_s, renewed_s) = (reader.number()?, reader.number()?, reader.number()?);
        let claims = serde_json::from_slice(reader.bytes()?).ok()?;
        let (refresh_token, id_token) = (reader.text()?, reader.text()?);
        let session = Session { id, began_s, seen_s, renewed_s, claims, refresh_token, id_token };
        reader.is_at_end().then_some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn session(claims: serde_json::Value) -> Session {
        Session {
            id: [7; 16],
            began_s: 1000,
            seen_s: 1500,
            renewed_s: 1200,
            claims: claims.as_object().cloned().unwrap(),
            refresh_token: "refresh".to_string(),
            id_token: String::new(),
        }
    }

    #[test]
    fn it_ends_after_a_time_and_without_requests() {
        let session = session(json!({}));
        let lifetimes = Lifetimes { total_s: 1000, idle_s: 100 };
        for (now_s, is_over, is_sealed) in [
            (1500, false, false),
            (1524, false, false),
            (1525, false, true),
            (1599, false, true),
            (1600, true, true),
        ] {
            assert_eq!(session.is_over(lifetimes, now_s), is_over, "{now_s}");
            assert_eq!(session.is_to_be_sealed(lifetimes, now_s), is_sealed, "{now_s}");
        }
        let always_busy = Session { seen_s: 1999, ..session.clone() };
        assert!(!always_busy.is_over(lifetimes, 1999) && always_busy.is_over(lifetimes, 2000));
        let without_idle = Lifetimes { idle_s: 0, ..lifetimes };
        assert!(!session.is_over(without_idle, 1999) && !session.is_to_be_sealed(without_idle, 1999));
    }

    #[test]
    fn claims_about_the_token_are_not_kept() {
        let claims = json!({ "iss": "a", "sub": "alice", "nonce": "n", "exp": 5, "groups": ["staff"] });
        let kept = Session::kept_claims(claims.as_object().cloned().unwrap());
        assert_eq!(serde_json::Value::Object(kept), json!({ "sub": "alice", "groups": ["staff"] }));
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let session = session(json!({ "sub": "alice", "realm_access": { "roles": ["a", "b"] } }));
        let bytes = session.encode();
        assert_eq!(Session::decode(&bytes), Some(session));
        for length in 0..bytes.len() {
            assert_eq!(Session::decode(&bytes[..length]), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Session::decode(&[&[VERSION], &bytes[..]].concat());
        }
    }
}
