//! Verifies one token with the keys of its issuer and the rules of a route.
//!
//! The rules must allow the algorithm, and the chosen key must be for it. Keys that the token itself contains
//! or refers to (`jwk`, `jku`, `x5c`, `x5u`) are not used.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};

use touchstone_handler::request::ClaimValues;

use super::claims::{self, Claims};
use crate::basic::User;
use crate::token_keys::KeySet;

/// The maximum length of a token in bytes.
pub const LONGEST_TOKEN_BYTES: usize = 8192;

/// The statements of a verified token about its bearer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: Option<User>,
    /// Header fields that programs and origins get in place of the client's fields; `None`: the token has no
    /// such claim, and the client's field is dropped anyway.
    pub fields: Vec<(Arc<str>, Option<String>)>,
    /// All its claims, for variables.
    pub claims: Claims,
}

impl ClaimValues for Identity {
    fn value(&self, name: &str) -> Option<String> {
        claims::field_value(claims::find(&self.claims, name)?)
    }
}

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// It does not satisfy the rules; the reason contains no part of the token.
    Invalid(&'static str),
    /// No key of the set matches it.
    UnknownKey,
    /// It is valid but lacks a claim that the route requires.
    Insufficient,
}

/// The requirements for a token.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The algorithms that are allowed.
    pub algorithms: Vec<Algorithm>,
    /// The required issuer; empty: any issuer with these keys.
    pub issuer: String,
    /// The audiences of which the token must name one; empty: a token with an audience is refused.
    pub audience: Vec<String>,
    /// Claims and the values that they must contain.
    pub claims: Vec<(String, String)>,
    /// The claim that names the user.
    pub user_claim: String,
    /// Names of header fields, each with the claim that provides the value.
    pub fields: Vec<(Arc<str>, String)>,
    /// The maximum difference between clocks in seconds.
    pub leeway_s: u64,
}

/// A token that was accepted.
#[derive(Debug, PartialEq, Eq)]
pub struct AcceptedToken {
    /// Its bearer.
    pub identity: Identity,
    /// When it expires, in seconds of Unix time.
    pub expires_s: u64,
}

impl Rules {
    /// Rules on claims, as they are configured: their required values, and the fields and variables that they
    /// set. The algorithms, issuer and audiences must still be set.
    pub fn of_claims<'c>(
        required: impl Iterator<Item = (&'c str, &'c str)>,
        user_claim: &str,
        fields: &BTreeMap<String, String>,
    ) -> Rules {
        Rules {
            algorithms: Vec::new(),
            issuer: String::new(),
            audience: Vec::new(),
            claims: required.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            user_claim: user_claim.to_string(),
            fields: fields.iter().map(|(name, claim)| (name.as_str().into(), claim.clone())).collect(),
            leeway_s: 0,
        }
    }

    /// The identity of a client that needs no token: it removes the client's own values of the fields.
    pub fn unknown(&self) -> Identity {
        let fields = self.fields.iter().map(|(name, _)| (name.clone(), None)).collect();
        Identity { fields, ..Identity::default() }
    }

    /// Verifies a token, and converts its claims into the fields for programs and origins.
    pub fn verify(&self, token: &[u8], keys: &KeySet) -> Result<AcceptedToken, Rejection> {
        self.accept(&self.verified_claims(token, keys)?)
    }

    /// Verifies the signature, the times, the issuer and the audience of a token, and returns its claims.
    pub fn verified_claims(&self, token: &[u8], keys: &KeySet) -> Result<Claims, Rejection> {
        if token.len() > LONGEST_TOKEN_BYTES {
            return Err(Rejection::Invalid("the token is too long"));
        }
        let header = decode_header(token).map_err(|error| reason(error.kind()))?;
        self.check_header(&header)?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = self.leeway_s;
        validation.validate_nbf = true;
        let mut required = vec!["exp"];
        if !self.issuer.is_empty() {
            validation.set_issuer(&[&self.issuer]);
            required.push("iss");
        }
        if !self.audience.is_empty() {
            validation.set_audience(&self.audience);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        let mut last = Rejection::UnknownKey;
        for key in keys.candidates(header.kid.as_deref(), header.alg) {
            match decode::<Claims>(token, &key.key, &validation) {
                Ok(data) => return Ok(data.claims),
                Err(error) => last = reason(error.kind()),
            }
        }
        Err(last)
    }

    fn check_header(&self, header: &Header) -> Result<(), Rejection> {
        if !self.algorithms.contains(&header.alg) {
            return Err(Rejection::Invalid("the algorithm is not allowed"));
        }
        // RFC 7515 section 4.1.11: an unknown critical extension.
        if header.crit.is_some() {
            return Err(Rejection::Invalid("the token has a critical extension"));
        }
        Ok(())
    }

    /// Checks the required claims, and converts claims into the fields for programs and origins.
    pub fn accept(&self, token: &Claims) -> Result<AcceptedToken, Rejection> {
        let is_met = |(name, wanted): &(String, String)| {
            claims::find(token, name).is_some_and(|claim| claims::contains(claim, wanted))
        };
        if !self.claims.iter().all(is_met) {
            return Err(Rejection::Insufficient);
        }
        let value_of = |name: &str| match claims::find(token, name) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(claim) => claims::field_value(claim)
                .map(Some)
                .ok_or(Rejection::Invalid("a claim cannot be the value of a header field")),
        };
        let user = value_of(&self.user_claim)?.map(|name| User::new(name.as_bytes()));
        let mut fields = Vec::with_capacity(self.fields.len());
        for (field, claim) in &self.fields {
            fields.push((field.clone(), value_of(claim)?));
        }
        // The library has compared it with the clock; it may be a fraction.
        let expires_s = token.get("exp").and_then(serde_json::Value::as_f64).unwrap_or(0.0) as u64;
        Ok(AcceptedToken { identity: Identity { user, fields, claims: token.clone() }, expires_s })
    }
}

/// The reason in words for the client (RFC 6750 section 3) and the log.
fn reason(error: &ErrorKind) -> Rejection {
    Rejection::Invalid(match error {
        ErrorKind::InvalidSignature => "the signature is wrong",
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidIssuer => "the issuer is wrong",
        ErrorKind::InvalidAudience => "the audience is wrong",
        ErrorKind::InvalidAlgorithm => "the algorithm is not allowed",
        ErrorKind::MissingRequiredClaim(_) => "a claim is missing",
        _ => "it is not a JSON Web Token",
    })
}
