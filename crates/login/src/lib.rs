//! Login of a site or route by OpenID Connect (Core 1.0): the authorization code flow with PKCE (RFC 7636),
//! sessions in sealed cookies, sign-out.
//!
//! ```text
//! request -> session cookie opens -> claims satisfy the route -> passes
//!         -> none, and a browser navigates -> the provider, with a cookie for this one login
//! callback -> that cookie opens, state fits -> code for tokens -> ID token is right -> session cookie
//! ```
//!
//! The server stores no sessions: several machines with the same key file share all sessions.
//!
//! | module | |
//! |---|---|
//! | `rule` | the login of a site or route: from a request to a session or an answer |
//! | `shared` | what all logins of a server share |
//! | `endpoints` | the paths that the login answers itself: callback, sign-in, sign-out |
//! | `back_channel` | the path to which the provider sends logout tokens |
//! | `logout_token` | the required contents of a logout token |
//! | `logout_table` | the sessions that the provider has ended |
//! | `renewal` | refresh tokens: queries the provider whether a session continues |
//! | `renewal_table` | one question at a time for each session, and what was answered a short time ago |
//! | `flows` | requests to the provider for tokens, and the use of the answers |
//! | `provider` | the provider: its metadata, kept current by a thread that also runs the flows |
//! | `metadata` | the provider's metadata (OpenID Connect Discovery 1.0) |
//! | `tokens` | answers of the provider with tokens, and the required contents of an ID token |
//! | `callback` | the query that a browser brings back from the provider |
//! | `session`, `pending_login` | the contents of the two kinds of cookies |
//! | `seal` | encrypts and authenticates these contents |
//! | `cookies` | cookies in requests and answers |
//! | `binary` | fields of different lengths in one text of bytes |
//! | `browser` | the statements of a browser about the origin and the kind of a request |
//!
//! Only `provider` and `flows` do input and output.

use touchstone_http::cookie;

mod back_channel;
mod binary;
mod browser;
mod callback;
mod cookies;
mod endpoints;
mod flows;
mod logout_table;
mod logout_token;
mod metadata;
mod pending_login;
mod provider;
mod renewal;
mod renewal_table;
mod rule;
mod seal;
mod session;
mod shared;
mod tokens;

pub use cookies::is_own_cookie;
pub use endpoints::EndpointAnswer;
pub use rule::{Endpoint, Login, LoginRefusal, OpenSession, SignedInRequest};
pub use shared::LoginShared;

/// Reads bytes as each kind of input from outside, for fuzzing: a `Cookie` field, a sealed text, the contents
/// of a session and of a login, a callback's query.
#[doc(hidden)]
pub fn read_for_fuzzing(bytes: &[u8]) {
    let kept = cookie::without(bytes, is_own_cookie);
    assert!(!kept.is_some_and(|kept| cookie::has(&kept, is_own_cookie)), "a cookie of the login remained");
    for name in ["__Host-touchstone-session-00000000", "touchstone-session-00000000"] {
        let joined = cookies::joined([bytes].into_iter(), name);
        assert!(joined.is_none_or(|text| text.len() <= cookies::LONGEST_SEALED));
    }
    let keys = seal::SealingKeys::from_secrets(&["a secret that sealed no text".to_string()]);
    assert!(keys.open(bytes, b"fuzz").is_none(), "no text was sealed with this key");
    if let Some(session) = session::Session::decode(bytes) {
        _ = session::Session::decode(&session.encode());
    }
    if let Some(pending) = pending_login::PendingLogin::decode(bytes) {
        assert!(touchstone_http::addresses::is_local_path(pending.return_to.as_bytes()));
        assert_eq!(pending_login::PendingLogin::decode(&pending.encode()), Some(pending));
    }
    _ = callback::read(bytes);
    _ = metadata::Metadata::read(bytes, "https://a.example");
    _ = tokens::TokenAnswer::read(bytes);
    _ = logout_token::in_form(bytes);
    if let Ok(claims) = serde_json::from_slice(bytes) {
        _ = logout_token::LogoutToken::read(&claims, 1_800_000_000, 30);
    }
}
