//! Logout tokens (OpenID Connect Back-Channel Logout 1.0): the form that brings one, and the rules of section
//! 2.6 for its claims. The signature, the algorithm, the issuer, the audience and the expiry have been
//! verified before, as those of an ID token.

use serde_json::Value;
use touchstone_access::Claims;

use touchstone_http::addresses::parameter;

/// The longest form: the longest token, and room for escapes.
pub const LONGEST_FORM: usize = 16 * 1024;

/// The member of `events` that makes a token a logout token.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The longest subject (OpenID Connect Core 1.0 section 2), and the longest other names.
const LONGEST_SUBJECT: usize = 255;
const LONGEST_NAME: usize = 1024;

/// How old a token may be, so that the memory for received tokens is bounded. Providers send them at once,
/// and they expire after minutes.
const OLDEST_S: u64 = 3600;

/// The contents of a logout token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutToken {
    /// The session that has ended; `None`: all of the subject.
    pub session: Option<String>,
    /// The user whose sessions have ended.
    pub subject: Option<String>,
    /// Names the token.
    pub id: String,
    /// Until when it may be received again, in seconds since 1970.
    pub until_s: u64,
}

/// The token in a form.
pub fn in_form(form: &[u8]) -> Result<String, &'static str> {
    match parameter(form, "logout_token") {
        Ok(Some(token)) if !token.is_empty() => Ok(token),
        Ok(_) => Err("the form has no logout_token"),
        Err(_) => Err("the form has two of logout_token, or is not encoded text"),
    }
}

impl LogoutToken {
    /// Reads verified claims. The error names the rule that they break, without parts of the token.
    pub fn read(claims: &Claims, now_s: u64, leeway_s: u64) -> Result<LogoutToken, &'static str> {
        let text = |name: &str, longest: usize, wrong: &'static str| match claims.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if (1..=longest).contains(&text.len()) => Ok(Some(text.clone())),
            Some(_) => Err(wrong),
        };
        let seconds = |name: &str| claims.get(name).and_then(Value::as_f64).filter(|time| *time >= 0.0);
        let issued_s = seconds("iat").ok_or("it has no time of issue")?;
        if issued_s > (now_s + leeway_s) as f64 {
            return Err("it is from the future");
        }
        let oldest_s = now_s.saturating_sub(OLDEST_S + leeway_s);
        if issued_s < oldest_s as f64 {
            return Err("it was issued more than an hour ago");
        }
        let expires_s = seconds("exp").ok_or("it has no time of expiry")?;
        let session = text("sid", LONGEST_NAME, "its 'sid' is not a name")?;
        let subject = text("sub", LONGEST_SUBJECT, "its 'sub' is not a name")?;
        if session.is_none() && subject.is_none() {
            return Err("it has neither 'sub' nor 'sid'");
        }
        let event = claims.get("events").and_then(|events| events.get(EVENT));
        if !event.is_some_and(Value::is_object) {
            return Err("its 'events' do not have the one of a logout");
        }
        if claims.contains_key("nonce") {
            return Err("it has a 'nonce', which only ID tokens have");
        }
        let id = text("jti", LONGEST_NAME, "its 'jti' is not a name")?.ok_or("it has no 'jti'")?;
        let until_s = (expires_s as u64).min(issued_s as u64 + OLDEST_S).saturating_add(leeway_s + 1);
        Ok(LogoutToken { session, subject, id, until_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(changes: &Value) -> Result<LogoutToken, &'static str> {
        let right = json!({
            "iss": "https://a.example", "aud": "site", "iat": 10_000, "exp": 10_120, "jti": "j",
            "sub": "alice", "sid": "s", "events": { EVENT: {} },
        });
        let mut claims = right.as_object().cloned().unwrap();
        claims.extend(changes.as_object().cloned().unwrap());
        claims.retain(|_, value| *value != json!("absent"));
        LogoutToken::read(&claims, 10_000, 30)
    }

    #[test]
    fn a_token_names_a_session_or_a_user() {
        let token = read(&json!({})).unwrap();
        assert_eq!((token.session.as_deref(), token.subject.as_deref()), (Some("s"), Some("alice")));
        assert_eq!((token.id.as_str(), token.until_s), ("j", 10_151));
        assert_eq!(read(&json!({ "sid": "absent" })).unwrap().session, None);
        assert_eq!(read(&json!({ "sub": "absent" })).unwrap().subject, None);
        assert_eq!(read(&json!({ "exp": 9e15, "iat": 9_000.5 })).unwrap().until_s, 12_631);
        assert!(read(&json!({ "iat": 10_030 })).is_ok());
        assert!(read(&json!({ "events": { EVENT: { "more": 1 }, "other": {} } })).is_ok());
    }

    #[test]
    fn each_rule_is_checked() {
        for (wrong, reason) in [
            (json!({ "iat": "absent" }), "time of issue"),
            (json!({ "iat": "10000" }), "time of issue"),
            (json!({ "iat": 10_031 }), "from the future"),
            (json!({ "iat": 6_000 }), "an hour ago"),
            (json!({ "exp": "absent" }), "time of expiry"),
            (json!({ "sub": "absent", "sid": "absent" }), "neither"),
            (json!({ "sub": "" }), "'sub' is not a name"),
            (json!({ "sub": 5 }), "'sub' is not a name"),
            (json!({ "sub": "a".repeat(256) }), "'sub' is not a name"),
            (json!({ "sid": null }), "'sid' is not a name"),
            (json!({ "events": "absent" }), "'events'"),
            (json!({ "events": [] }), "'events'"),
            (json!({ "events": EVENT }), "'events'"),
            (json!({ "events": { "other": {} } }), "'events'"),
            (json!({ "events": { EVENT: null } }), "'events'"),
            (json!({ "events": { EVENT: true } }), "'events'"),
            (json!({ "nonce": "n" }), "'nonce'"),
            (json!({ "nonce": null }), "'nonce'"),
            (json!({ "jti": "absent" }), "no 'jti'"),
            (json!({ "jti": "" }), "'jti' is not a name"),
            (json!({ "jti": 5 }), "'jti' is not a name"),
        ] {
            assert!(read(&wrong).unwrap_err().contains(reason), "{wrong}");
        }
    }

    #[test]
    fn a_form_has_one_token() {
        assert_eq!(in_form(b"logout_token=a.b.c").as_deref(), Ok("a.b.c"));
        assert_eq!(in_form(b"x=y&logout_token=a%2Eb").as_deref(), Ok("a.b"));
        for wrong in [&b""[..], b"logout_token=", b"token=a", b"logout_token=a&logout_token=b"] {
            assert!(in_form(wrong).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_claims_are_read_without_a_panic(
            text in "\\{(\"(iat|exp|jti|sub|sid|events|nonce)\":(\\{\\}|-?[0-9]{1,20}|\"a\"|null),?){0,7}\\}",
            now_s in any::<u32>(),
        ) {
            if let Ok(claims) = serde_json::from_str::<Claims>(&text.replace(",}", "}")) {
                let _ = LogoutToken::read(&claims, u64::from(now_s), 30);
            }
        }
    }
}
