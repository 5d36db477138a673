//! Requests to the provider for tokens, and the use of the answers: a code or a refresh token is exchanged
//! for tokens (OpenID Connect Core 1.0 sections 3.1.3 and 12), the ID token is verified, and further claims
//! are fetched. They run on the thread of the provider.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use touchstone_access::{Claims, TokenRejection, TokenRules};
use touchstone_client::HttpClient;
use touchstone_config::ClientAuthentication;
use touchstone_handler::login_counts::Counts;

use crate::provider::DiscoveredProvider;
use crate::tokens::{self, ExpectedClaims, TokenAnswer};
use touchstone_http::addresses::{encoded, form};

/// The data of this site as a client of the provider.
pub struct Client {
    pub id: String,
    pub secret: Option<String>,
    pub authentication: ClientAuthentication,
    pub user_information: bool,
    /// What every ID token must satisfy.
    pub rules: TokenRules,
    pub leeway_s: u64,
    pub timeout: Duration,
    pub counts: Arc<Counts>,
}

/// What a provider has granted.
#[derive(Debug)]
pub struct GrantedTokens {
    /// The claims of the ID token and of the user information; `None`: an answer to a refresh token has no
    /// new claims.
    pub claims: Option<Claims>,
    pub refresh_token: Option<String>,
    pub id_token: Option<String>,
}

/// Why there are no tokens. The texts are for the log, and contain no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The provider refuses the code or the refresh token.
    Refused(String),
    /// Its answer is wrong or an error.
    Broken(String),
    /// It is late.
    Late,
    /// Too many requests to it wait.
    Busy,
}

impl Failure {
    /// The text for the log.
    pub fn text(&self) -> &str {
        match self {
            Failure::Refused(text) | Failure::Broken(text) => text,
            Failure::Late => "the provider did not answer in time",
            Failure::Busy => "too many requests to the provider wait",
        }
    }
}

/// A code, with what belongs to its login.
pub struct Code {
    pub code: String,
    pub verifier: String,
    pub nonce: String,
    pub redirect_uri: String,
}

/// The seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Exchanges a code for tokens.
pub async fn with_code(
    http: HttpClient,
    client: Arc<Client>,
    discovered: Arc<DiscoveredProvider>,
    code: Code,
) -> Result<GrantedTokens, Failure> {
    let work = async {
        let parameters = [
            ("grant_type", "authorization_code"),
            ("code", &code.code),
            ("redirect_uri", &code.redirect_uri),
            ("code_verifier", &code.verifier),
        ];
        let answer = request_tokens(&http, &client, &discovered, &parameters).await?;
        let Some(id_token) = &answer.id_token else {
            return Err(Failure::Broken("its answer has no \"id_token\"".to_string()));
        };
        let claims = verified(&client, &discovered, id_token, Some(&code.nonce), None).await?;
        let claims = with_user_information(&http, &client, &discovered, &answer, claims).await?;
        Ok(GrantedTokens {
            claims: Some(claims),
            refresh_token: answer.refresh_token,
            id_token: answer.id_token,
        })
    };
    tokio::time::timeout(client.timeout, work).await.unwrap_or(Err(Failure::Late))
}

/// Exchanges a refresh token for new tokens of this user.
pub async fn with_refresh_token(
    http: HttpClient,
    client: Arc<Client>,
    discovered: Arc<DiscoveredProvider>,
    refresh_token: String,
    old_claims: Claims,
) -> Result<GrantedTokens, Failure> {
    let work = async {
        let parameters = [("grant_type", "refresh_token"), ("refresh_token", &*refresh_token)];
        let answer = request_tokens(&http, &client, &discovered, &parameters).await?;
        let subject = old_claims.get("sub").and_then(|subject| subject.as_str()).unwrap_or_default();
        let claims = match &answer.id_token {
            Some(id_token) => Some(verified(&client, &discovered, id_token, None, Some(subject)).await?),
            None if client.user_information => {
                // Without an ID token the subject is what stays.
                Some(old_claims.iter().filter(|(name, _)| *name == "sub").map(pair).collect())
            }
            None => None,
        };
        let claims = match claims {
            Some(claims) => Some(with_user_information(&http, &client, &discovered, &answer, claims).await?),
            None => None,
        };
        Ok(GrantedTokens { claims, refresh_token: answer.refresh_token, id_token: answer.id_token })
    };
    tokio::time::timeout(client.timeout, work).await.unwrap_or(Err(Failure::Late))
}

fn pair((name, value): (&String, &serde_json::Value)) -> (String, serde_json::Value) {
    (name.clone(), value.clone())
}

async fn request_tokens(
    http: &HttpClient,
    client: &Client,
    discovered: &DiscoveredProvider,
    parameters: &[(&str, &str)],
) -> Result<TokenAnswer, Failure> {
    let request = token_request(client, discovered, parameters).map_err(Failure::Broken)?;
    let response = http.send(request).await.map_err(|failure| Failure::Broken(failure.0))?;
    let body = response.body();
    match response.status() {
        StatusCode::OK => TokenAnswer::read(body).map_err(Failure::Broken),
        status => {
            let error = TokenAnswer::error(body);
            let text = format!("the provider's answer to the request for tokens is {status} {error}");
            let text = text.trim_end().to_string();
            Err(if error == "invalid_grant" { Failure::Refused(text) } else { Failure::Broken(text) })
        }
    }
}

/// A request for tokens, with the client's authentication (RFC 6749 section 2.3.1).
fn token_request(
    client: &Client,
    discovered: &DiscoveredProvider,
    parameters: &[(&str, &str)],
) -> Result<Request<Full<Bytes>>, String> {
    let mut parameters = parameters.to_vec();
    let mut request = Request::post(&discovered.metadata.token_endpoint)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json");
    let in_form = match client.authentication {
        ClientAuthentication::Auto => discovered.metadata.wants_secret_in_form,
        ClientAuthentication::Basic => false,
        ClientAuthentication::Post => true,
    };
    match &client.secret {
        Some(secret) if !in_form => {
            let pair = format!("{}:{}", encoded(&client.id), encoded(secret));
            request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)));
        }
        Some(secret) => parameters.extend([("client_id", &*client.id), ("client_secret", &**secret)]),
        None => parameters.push(("client_id", &client.id)),
    }
    request.body(Full::new(form(parameters).into())).map_err(|error| error.to_string())
}

/// The claims of a token of the provider for this client. New keys are fetched if none fits.
pub async fn verified_claims(
    client: &Client,
    discovered: &DiscoveredProvider,
    token: &[u8],
) -> Result<Claims, TokenRejection> {
    let keys = discovered.keys.keys();
    let mut found = match &keys.set {
        Some(set) => client.rules.verified_claims(token, set),
        None => Err(TokenRejection::UnknownKey),
    };
    if found == Err(TokenRejection::UnknownKey)
        && let Some(set) = discovered.keys.newer_than(&keys).await.and_then(|newer| newer.set)
    {
        found = client.rules.verified_claims(token, &set);
    }
    found
}

/// The claims of an ID token that is right.
async fn verified(
    client: &Client,
    discovered: &DiscoveredProvider,
    id_token: &str,
    nonce: Option<&str>,
    subject: Option<&str>,
) -> Result<Claims, Failure> {
    let found = verified_claims(client, discovered, id_token.as_bytes()).await;
    let claims = found.map_err(|rejection| {
        let reason = match rejection {
            TokenRejection::Invalid(reason) => reason,
            TokenRejection::UnknownKey => "no key of the provider matches it",
            TokenRejection::Insufficient => "it lacks a claim",
        };
        Failure::Broken(format!("the ID token is not accepted: {reason}"))
    })?;
    let expected =
        ExpectedClaims { client_id: &client.id, nonce, subject, now_s: now_s(), leeway_s: client.leeway_s };
    tokens::check_claims(&claims, &expected).map_err(|reason| Failure::Broken(reason.to_string()))?;
    Ok(claims)
}

async fn with_user_information(
    http: &HttpClient,
    client: &Client,
    discovered: &DiscoveredProvider,
    answer: &TokenAnswer,
    mut claims: Claims,
) -> Result<Claims, Failure> {
    if !client.user_information {
        return Ok(claims);
    }
    let Some(address) = &discovered.metadata.userinfo_endpoint else {
        return Err(Failure::Broken("the provider has no endpoint for user information".to_string()));
    };
    let request = Request::get(address)
        .header(AUTHORIZATION, format!("Bearer {}", answer.access_token))
        .header(ACCEPT, "application/json")
        .body(Full::new(Bytes::new()))
        .map_err(|error| Failure::Broken(error.to_string()))?;
    let response: Response<Bytes> = http.send(request).await.map_err(|failure| Failure::Broken(failure.0))?;
    if response.status() != StatusCode::OK {
        return Err(Failure::Broken(format!("the user information is answered {}", response.status())));
    }
    tokens::add_user_information(&mut claims, response.body())
        .map_err(|reason| Failure::Broken(reason.to_string()))?;
    Ok(claims)
}
