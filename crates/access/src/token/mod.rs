//! JSON Web Tokens (RFC 7519) as credentials: `Authorization: Bearer TOKEN` (RFC 6750), or a cookie.
//!
//! ```text
//! request -> find the token -> verified before? -> choose the key -> signature -> times, issuer, audience ->
//!         claims
//! ```
//!
//! | module | |
//! |---|---|
//! | `authentication` | the rule of a site or route: from a request to an identity or a refusal |
//! | `credentials` | finds the token in a request |
//! | `verifier` | verifies one token with keys and rules; no clock, no I/O |
//! | `claims` | values of claims, by dotted names |
//! | `seen_tokens` | tokens that were verified a short time ago |

mod authentication;
mod claims;
mod credentials;
mod seen_tokens;
#[cfg(test)]
mod tests;
mod verifier;

pub use authentication::{PendingToken, TokenAuthentication, TokenCheck};
pub use claims::Claims;
pub use verifier::{AcceptedToken, Identity, Rejection, Rules};

/// Whether a token is accepted with these keys by rules without further requirements, for fuzzing.
#[doc(hidden)]
pub fn token_is_accepted(token: &[u8], key_set: &[u8]) -> bool {
    use jsonwebtoken::Algorithm::{ES256, ES384, EdDSA, HS256, PS256, RS256};
    let rules = verifier::Rules {
        algorithms: vec![RS256, PS256, ES256, ES384, EdDSA, HS256],
        ..verifier::Rules::of_claims(
            std::iter::empty(),
            "sub",
            &[("X-User".to_string(), "sub".to_string())].into(),
        )
    };
    crate::token_keys::KeySet::parse(key_set).is_ok_and(|keys| rules.verify(token, &keys).is_ok())
}
