//! The rule of a site or route that requires a token.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use touchstone_config::{JwtConfig, TokenKeys};
use touchstone_http::request_view::RequestView;

use super::credentials::{Credentials, credentials};
use super::seen_tokens::SeenTokens;
use super::verifier::{AcceptedToken, Identity, LONGEST_TOKEN_BYTES, Rejection, Rules};
use crate::refusal::Refusal;
use crate::shared::AccessShared;
use crate::token_keys::{KeySource, Keys, Location};

/// How long a verified token is not verified again; a token that expires sooner is removed then.
const REMEMBER: Duration = Duration::from_secs(300);

/// The authentication of a site or route.
pub struct TokenAuthentication {
    rules: Rules,
    /// Of a client without a token.
    unknown: Arc<Identity>,
    cookie: String,
    realm: String,
    source: Arc<KeySource>,
    seen: SeenTokens,
    shared: Arc<AccessShared>,
}

/// The result of a quick check of a request's token.
pub enum TokenCheck {
    /// The token was verified a short time ago.
    Verified(Arc<Identity>),
    /// The request is refused.
    Refuse(Refusal),
    /// The token must be verified.
    Verify(PendingToken),
}

/// A token to verify; its keys may have to be fetched first.
pub struct PendingToken {
    authentication: Arc<TokenAuthentication>,
    token: Box<[u8]>,
}

impl TokenAuthentication {
    /// The authentication that the keys of a site or route configure; `None`: none. The error names the file
    /// or address of the keys.
    pub fn open(
        config: &JwtConfig,
        shared: &Arc<AccessShared>,
    ) -> Result<Option<Arc<TokenAuthentication>>, String> {
        let location = match &config.keys {
            TokenKeys::Off => return Ok(None),
            TokenKeys::File(path) => Location::File(path.clone()),
            TokenKeys::Url(url) => Location::Url(url.clone(), config.ca_certificate.clone()),
        };
        let rules = Rules {
            algorithms: config.algorithms.iter().filter_map(|name| name.parse().ok()).collect(),
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            leeway_s: config.leeway.as_secs(),
            ..Rules::of_claims(config.required_claims(), &config.user, &config.fields)
        };
        Ok(Some(Arc::new(TokenAuthentication {
            unknown: Arc::new(rules.unknown()),
            rules,
            cookie: config.cookie.clone(),
            realm: config.realm.chars().filter(|&character| !matches!(character, '"' | '\\')).collect(),
            source: shared.key_source(location, config.refresh)?,
            seen: SeenTokens::default(),
            shared: shared.clone(),
        })))
    }

    /// Whether programs and origins get header fields with values of claims.
    pub fn makes_fields(&self) -> bool {
        !self.rules.fields.is_empty()
    }

    /// The identity of a client that needs no token: none, and without values in the fields.
    pub fn unknown(&self) -> Arc<Identity> {
        self.unknown.clone()
    }

    /// Checks the token of a request as far as this is quick.
    pub fn check_quickly(self: &Arc<TokenAuthentication>, request: &RequestView<'_>) -> TokenCheck {
        let token = match credentials(request, &self.cookie) {
            Credentials::Absent => return TokenCheck::Refuse(self.challenge(401, None)),
            Credentials::Malformed => {
                return TokenCheck::Refuse(self.challenge(400, Some("invalid_request")));
            }
            Credentials::Token(token) if token.len() > LONGEST_TOKEN_BYTES => {
                return TokenCheck::Refuse(self.invalid("the token is too long"));
            }
            Credentials::Token(token) => token,
        };
        let fingerprint = self.shared.successes.fingerprint([token, b"", b""]);
        let generation = self.source.keys().generation;
        match self.seen.get(&fingerprint, generation, self.shared.now_ns()) {
            Some(identity) => TokenCheck::Verified(identity),
            None => TokenCheck::Verify(PendingToken { authentication: self.clone(), token: token.into() }),
        }
    }

    fn remember(&self, token: &[u8], keys: &Keys, accepted: AcceptedToken) -> Arc<Identity> {
        let identity = Arc::new(accepted.identity);
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let left = Duration::from_secs(accepted.expires_s.saturating_sub(now_s)).min(REMEMBER);
        let until_ns = self.shared.now_ns().saturating_add(left.as_nanos() as u64);
        let fingerprint = self.shared.successes.fingerprint([token, b"", b""]);
        self.seen.remember(fingerprint, keys.generation, until_ns, identity.clone());
        identity
    }

    fn refusal(&self, rejection: &Rejection) -> Refusal {
        match rejection {
            Rejection::Invalid(reason) => self.invalid(reason),
            Rejection::UnknownKey => self.invalid("no key of the issuer matches the token"),
            Rejection::Insufficient => self.challenge(403, Some("insufficient_scope")),
        }
    }

    fn invalid(&self, reason: &str) -> Refusal {
        let realm = &self.realm;
        let value =
            format!("Bearer realm=\"{realm}\", error=\"invalid_token\", error_description=\"{reason}\"");
        Refusal::new(401).field("WWW-Authenticate", &value)
    }

    /// RFC 6750 section 3: a request without a token gets no error code.
    fn challenge(&self, status: u16, error: Option<&str>) -> Refusal {
        let error = error.map_or(String::new(), |error| format!(", error=\"{error}\""));
        Refusal::new(status).field("WWW-Authenticate", &format!("Bearer realm=\"{}\"{error}", self.realm))
    }
}

impl PendingToken {
    /// Verifies the token. Fetches the keys once if none matches. Must be called within a tokio runtime.
    pub async fn run(self) -> Result<Arc<Identity>, Refusal> {
        let PendingToken { authentication, token } = self;
        let keys = authentication.source.keys();
        let first = keys.set.as_ref().map(|set| authentication.rules.verify(&token, set));
        match first {
            Some(Ok(accepted)) => return Ok(authentication.remember(&token, &keys, accepted)),
            Some(Err(rejection)) if rejection != Rejection::UnknownKey => {
                return Err(authentication.refusal(&rejection));
            }
            // There is no key yet, or none that matches.
            None | Some(Err(_)) => {}
        }
        let newer = authentication.source.newer_than(&keys).await;
        match newer.as_ref().and_then(|keys| Some((keys, keys.set.as_ref()?))) {
            Some((keys, set)) => match authentication.rules.verify(&token, set) {
                Ok(accepted) => Ok(authentication.remember(&token, keys, accepted)),
                Err(rejection) => Err(authentication.refusal(&rejection)),
            },
            None if keys.set.is_some() => Err(authentication.refusal(&Rejection::UnknownKey)),
            None => Err(Refusal::new(503).field("Retry-After", "5")),
        }
    }
}
