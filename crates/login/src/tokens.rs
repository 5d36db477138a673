//! Answers of the provider with tokens (RFC 6749 section 5, OpenID Connect Core 1.0 section 3.1.3), and the
//! required contents of an ID token, in addition to those of every token (section 3.1.3.7).

use serde_json::{Map, Value};
use touchstone_access::Claims;

use crate::callback::error_code;

/// The longest refresh token that is kept.
const LONGEST_REFRESH_TOKEN: usize = 4096;

/// The longest subject (OpenID Connect Core 1.0 section 2).
const LONGEST_SUBJECT: usize = 255;

/// Tokens.
#[derive(Debug, PartialEq, Eq)]
pub struct TokenAnswer {
    /// For the endpoint of user information.
    pub access_token: String,
    /// The identity of the user; `None` in some answers to a refresh token.
    pub id_token: Option<String>,
    /// Gets new tokens; `None`: the provider issued none.
    pub refresh_token: Option<String>,
}

/// Why an ID token is not right for a login.
pub type WrongToken = &'static str;

impl TokenAnswer {
    /// Reads the body of an answer 200.
    pub fn read(body: &[u8]) -> Result<TokenAnswer, String> {
        let mut document: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| "its answer is not a JSON object".to_string())?;
        let mut text = |name: &str| match document.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{name:?} in its answer is not a string")),
        };
        let kind = text("token_type")?;
        if kind.is_none_or(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err("\"token_type\" in its answer is not \"Bearer\"".to_string());
        }
        let is_token =
            |token: &String| token.bytes().all(|byte| byte.is_ascii_graphic()) && !token.is_empty();
        let access_token =
            text("access_token")?.filter(is_token).ok_or("its answer has no \"access_token\"".to_string())?;
        let refresh_token = text("refresh_token")?.filter(|token| token.len() <= LONGEST_REFRESH_TOKEN);
        Ok(TokenAnswer { access_token, id_token: text("id_token")?, refresh_token })
    }

    /// The error code of another answer, for the log; empty: it has none.
    pub fn error(body: &[u8]) -> String {
        let document: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        document.get("error").and_then(Value::as_str).map(error_code).unwrap_or_default()
    }
}

/// The expected contents of an ID token.
pub struct ExpectedClaims<'e> {
    /// The client.
    pub client_id: &'e str,
    /// The nonce of the login; `None`: the token is not from a login (section 12.2).
    pub nonce: Option<&'e str>,
    /// The subject, if it is known already.
    pub subject: Option<&'e str>,
    /// The time, in seconds since 1970.
    pub now_s: u64,
    /// How far clocks may differ, in seconds.
    pub leeway_s: u64,
}

/// Checks the claims of a token whose signature, issuer, audience and times have been verified.
pub fn check_claims(claims: &Claims, expected: &ExpectedClaims<'_>) -> Result<(), WrongToken> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let audiences = match claims.get("aud") {
        Some(Value::Array(audiences)) => audiences.len(),
        _ => 1,
    };
    match claims.get("azp") {
        None if audiences > 1 => return Err("the ID token has several audiences, and does not name one"),
        None => {}
        Some(party) if party.as_str() == Some(expected.client_id) => {}
        Some(_) => return Err("the ID token was issued for another client"),
    }
    let issued_s = claims.get("iat").and_then(Value::as_f64).ok_or("the ID token has no time of issue")?;
    if issued_s > (expected.now_s + expected.leeway_s) as f64 {
        return Err("the ID token is from the future");
    }
    match (expected.nonce, text("nonce")) {
        (Some(nonce), Some(other)) if nonce == other => {}
        (Some(_), _) => return Err("the ID token was issued for another login"),
        (None, _) => {}
    }
    let subject = text("sub").filter(|subject| (1..=LONGEST_SUBJECT).contains(&subject.len()));
    let subject = subject.ok_or("the ID token names no user")?;
    match expected.subject {
        Some(expected_subject) if expected_subject != subject => Err("the ID token is for another user"),
        _ => Ok(()),
    }
}

/// Adds the claims of a user information answer. The subject must be the same (section 5.3.2); the claims of
/// the ID token take precedence.
pub fn add_user_information(claims: &mut Claims, body: &[u8]) -> Result<(), &'static str> {
    let document: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| "the user information is not a JSON object")?;
    let subject = document.get("sub").and_then(Value::as_str);
    if subject.is_none() || subject != claims.get("sub").and_then(Value::as_str) {
        return Err("the user information is about another user");
    }
    for (name, value) in document {
        claims.entry(name).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_are_read() {
        let answer = json!({ "access_token": "a", "token_type": "bearer", "id_token": "i", "expires_in": 5 });
        let read = TokenAnswer::read(answer.to_string().as_bytes()).unwrap();
        assert_eq!((read.access_token.as_str(), read.id_token.as_deref()), ("a", Some("i")));
        for bad in [
            json!([]),
            json!({ "access_token": "a" }),
            json!({ "access_token": "a", "token_type": "mac" }),
            json!({ "access_token": "a\r\nX: y", "token_type": "Bearer" }),
            json!({ "token_type": "Bearer" }),
            json!({ "access_token": "a", "token_type": "Bearer", "id_token": 5 }),
        ] {
            assert!(TokenAnswer::read(bad.to_string().as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(TokenAnswer::error(br#"{"error":"invalid_grant\r\n"}"#), "invalid_grant");
    }

    #[test]
    fn an_id_token_is_for_this_client_and_login() {
        let right = json!({ "sub": "alice", "aud": "site", "iat": 1000, "nonce": "n" });
        let expected =
            ExpectedClaims { client_id: "site", nonce: Some("n"), subject: None, now_s: 1000, leeway_s: 30 };
        let check = |changes: Value| {
            let mut claims = right.as_object().cloned().unwrap();
            claims.extend(changes.as_object().cloned().unwrap());
            claims.retain(|_, value| !value.is_null());
            check_claims(&claims, &expected)
        };
        assert_eq!(check(json!({})), Ok(()));
        assert_eq!(check(json!({ "aud": ["site", "b"], "azp": "site" })), Ok(()));
        assert_eq!(check(json!({ "iat": 1030 })), Ok(()));
        for wrong in [
            json!({ "aud": ["site", "b"] }),
            json!({ "azp": "b" }),
            json!({ "azp": 5 }),
            json!({ "iat": null }),
            json!({ "iat": 1031 }),
            json!({ "nonce": null }),
            json!({ "nonce": "m" }),
            json!({ "sub": null }),
            json!({ "sub": "" }),
            json!({ "sub": 5 }),
            json!({ "sub": "a".repeat(256) }),
        ] {
            assert!(check(wrong.clone()).is_err(), "{wrong}");
        }
        let renewed = ExpectedClaims { nonce: None, subject: Some("bob"), ..expected };
        assert!(check_claims(right.as_object().unwrap(), &renewed).is_err());
    }

    #[test]
    fn user_information_adds_claims_and_replaces_none() {
        let mut claims = json!({ "sub": "alice", "email": "a" }).as_object().cloned().unwrap();
        let add = |claims: &mut Claims, document: Value| {
            add_user_information(claims, document.to_string().as_bytes())
        };
        assert_eq!(add(&mut claims, json!({ "sub": "alice", "email": "b", "groups": ["c"] })), Ok(()));
        assert_eq!(Value::Object(claims.clone()), json!({ "sub": "alice", "email": "a", "groups": ["c"] }));
        for wrong in [json!({ "sub": "bob" }), json!({}), json!("a")] {
            assert!(add(&mut claims, wrong).is_err());
        }
    }
}
