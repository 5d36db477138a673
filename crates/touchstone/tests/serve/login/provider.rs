//! An OpenID provider that behaves as a test requires: it issues codes for users of its own choice, checks
//! what a provider must check (code, PKCE, redirect address, secret), and can lie, fail or hang.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::support::{Origin, read_head};
use crate::tokens::issuer::{Issuer, now_s};

/// Makes an ID token of claims.
pub(crate) type MakeToken = Box<dyn Fn(&Issuer, &str) -> String + Send>;

/// What the provider does.
pub(crate) struct State {
    /// Members that take the place of those of its metadata.
    pub(crate) metadata: serde_json::Value,
    /// Claims that take the place of those of ID tokens; `null` removes one.
    pub(crate) claims: serde_json::Value,
    /// Makes the ID token of its claims.
    pub(crate) token: MakeToken,
    /// Takes the place of the answer to a request for tokens.
    pub(crate) answer: Option<String>,
    /// It is down: connections are closed without an answer.
    pub(crate) is_down: bool,
    /// It waits so long before it answers a request for tokens.
    pub(crate) delay: Duration,
    /// The bodies of requests for tokens, with their `Authorization`.
    pub(crate) asked: Vec<String>,
    /// The refresh token that is good; empty: none is given.
    pub(crate) refresh_token: String,
    codes: HashMap<String, HashMap<String, String>>,
    given: usize,
}

/// A provider with one client, `site`, whose secret is `a secret`.
pub(crate) struct Provider {
    pub(crate) origin: Origin,
    pub(crate) state: Arc<Mutex<State>>,
    issuer: Arc<Mutex<Issuer>>,
}

pub(crate) const SECRET: &str = "a secret: of 100%";

/// The parameters of a query or form.
pub(crate) fn parameters(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let mut out = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                b'%' => {
                    let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                    u8::from_str_radix(&digits, 16).unwrap()
                }
                b'+' => b' ',
                other => other,
            });
        }
        String::from_utf8(out).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

impl Provider {
    /// `None`: openssl is missing, which was reported.
    pub(crate) fn start() -> Option<Provider> {
        let issuer = Issuer::new("key")?;
        let state = Arc::new(Mutex::new(State {
            metadata: serde_json::json!({}),
            claims: serde_json::json!({}),
            token: Box::new(|issuer, claims| issuer.signed(claims)),
            answer: None,
            is_down: false,
            delay: Duration::ZERO,
            asked: Vec::new(),
            refresh_token: String::new(),
            codes: HashMap::new(),
            given: 0,
        }));
        let kept = state.clone();
        let issuer = Arc::new(Mutex::new(issuer));
        let signer = issuer.clone();
        let origin = Origin::start(move |stream| {
            while let Some(head) = read_head(stream) {
                if !serve(stream, &head, &kept, &signer) {
                    return;
                }
            }
        });
        Some(Provider { origin, state, issuer })
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://{}", self.origin.address)
    }

    /// A token with these claims and a signature of the provider.
    pub(crate) fn signed(&self, claims: &serde_json::Value) -> String {
        self.issuer.lock().unwrap().signed(&claims.to_string())
    }

    /// The keys of a login at this provider.
    pub(crate) fn keys(&self, more: &str) -> String {
        format!(
            "login = {{ issuer = \"{}\", client_id = \"site\", client_secret_file = \"secret\"{more} }}\n",
            self.issuer()
        )
    }

    /// The query that a browser brings back after the user has signed in at this address.
    pub(crate) fn sign_in(&self, location: &str) -> String {
        let (address, query) = location.split_once('?').unwrap();
        assert_eq!(address, format!("{}/auth", self.issuer()));
        let asked = parameters(query);
        let mut state = self.state.lock().unwrap();
        state.given += 1;
        let code = format!("code {}", state.given);
        let back = format!("code=code+{}&state={}", state.given, asked["state"]);
        state.codes.insert(code, asked);
        back
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    pub(crate) fn questions(&self) -> usize {
        self.state.lock().unwrap().asked.len()
    }
}

fn send(stream: &mut TcpStream, status: &str, body: &str) -> bool {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).is_ok()
}

/// Answers one request; returns whether the connection continues.
fn serve(stream: &mut TcpStream, head: &str, state: &Mutex<State>, issuer: &Mutex<Issuer>) -> bool {
    let field = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_string()).next()
    };
    let path = head.split(' ').nth(1).unwrap().to_string();
    let length = field("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    let delay = {
        let state = state.lock().unwrap();
        if state.is_down {
            return false;
        }
        if path == "/token" { state.delay } else { Duration::ZERO }
    };
    std::thread::sleep(delay);
    let mut state = state.lock().unwrap();
    let own = format!("http://{}", field("host").unwrap());
    match path.as_str() {
        "/.well-known/openid-configuration" => {
            let mut document = serde_json::json!({
                "issuer": own,
                "authorization_endpoint": format!("{own}/auth"),
                "token_endpoint": format!("{own}/token"),
                "userinfo_endpoint": format!("{own}/user"),
                "jwks_uri": format!("{own}/keys"),
            });
            let changes = state.metadata.as_object().cloned().unwrap();
            document.as_object_mut().unwrap().extend(changes);
            send(stream, "200 OK", &document.to_string())
        }
        "/keys" => send(stream, "200 OK", &issuer.lock().unwrap().key_set()),
        "/user" => {
            assert_eq!(field("authorization").as_deref(), Some("Bearer an-access-token"));
            send(stream, "200 OK", "{\"sub\":\"alice\",\"email\":\"alice@a.example\",\"groups\":[\"staff\"]}")
        }
        "/token" => {
            state.asked.push(format!("{body} {}", field("authorization").unwrap_or_default()));
            let (status, answer) = tokens(&mut state, &own, &body, field("authorization"), issuer);
            send(stream, status, &answer)
        }
        _ => send(stream, "404 Not Found", "{}"),
    }
}

fn tokens(
    state: &mut State,
    own: &str,
    body: &str,
    authorization: Option<String>,
    issuer: &Mutex<Issuer>,
) -> (&'static str, String) {
    const REFUSED: (&str, &str) = ("400 Bad Request", "{\"error\":\"invalid_grant\"}");
    if let Some(answer) = &state.answer {
        return ("200 OK", answer.clone());
    }
    // RFC 6749 section 2.3.1: both are encoded as in a form before they are joined.
    let expected = STANDARD.encode("site:a%20secret%3A%20of%20100%25");
    if authorization != Some(format!("Basic {expected}")) {
        return ("401 Unauthorized", "{\"error\":\"invalid_client\"}".to_string());
    }
    let asked = parameters(body);
    let nonce = match asked["grant_type"].as_str() {
        "authorization_code" => {
            let Some(login) = state.codes.remove(&asked["code"]) else {
                return (REFUSED.0, REFUSED.1.to_string());
            };
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&asked["code_verifier"]));
            let is_same = login["redirect_uri"] == asked["redirect_uri"];
            if login["code_challenge"] != challenge || login["code_challenge_method"] != "S256" || !is_same {
                return (REFUSED.0, REFUSED.1.to_string());
            }
            format!(",\"nonce\":\"{}\"", login["nonce"])
        }
        "refresh_token" => {
            if state.refresh_token.is_empty() || asked["refresh_token"] != state.refresh_token {
                return (REFUSED.0, REFUSED.1.to_string());
            }
            // Each is good once.
            state.refresh_token.push('+');
            String::new()
        }
        other => panic!("{other}"),
    };
    let (now, until) = (now_s(), now_s() + 300);
    let text = format!(
        "{{\"iss\":\"{own}\",\"aud\":\"site\",\"sub\":\"alice\",\"iat\":{now},\"exp\":{until}{nonce}}}"
    );
    let mut claims: serde_json::Value = serde_json::from_str(&text).unwrap();
    let claims = claims.as_object_mut().unwrap();
    claims.extend(state.claims.as_object().cloned().unwrap());
    claims.retain(|_, value| !value.is_null());
    let claims = serde_json::Value::Object(claims.clone()).to_string();
    let mut answer = serde_json::json!({
        "access_token": "an-access-token",
        "token_type": "Bearer",
        "id_token": (state.token)(&issuer.lock().unwrap(), &claims),
    });
    if !state.refresh_token.is_empty() {
        answer["refresh_token"] = state.refresh_token.clone().into();
    }
    ("200 OK", answer.to_string())
}
