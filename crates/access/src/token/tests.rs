//! Tokens of each algorithm, and tokens that must not be accepted.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING};
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};
use touchstone_http::request_view::RequestView;

use super::credentials::{Credentials, credentials};
use super::verifier::{AcceptedToken, LONGEST_TOKEN_BYTES, Rejection, Rules};
use crate::token_keys::KeySet;

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn rules() -> Rules {
    use Algorithm::{ES256, ES384, EdDSA, PS256, RS256, RS512};
    Rules {
        algorithms: vec![RS256, RS512, PS256, ES256, ES384, EdDSA],
        issuer: "https://issuer.test/".to_string(),
        audience: vec!["api".to_string(), "other".to_string()],
        claims: Vec::new(),
        user_claim: "sub".to_string(),
        fields: Vec::new(),
        leeway_s: 30,
    }
}

fn claims() -> Value {
    json!({ "iss": "https://issuer.test/", "aud": "api", "sub": "alice", "exp": now_s() + 600 })
}

fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => _ = claims.as_object_mut().unwrap().remove(name),
            _ => claims[name] = value.clone(),
        }
    }
    claims
}

/// A signing key, and the set with its public half.
struct Issuer {
    key: EncodingKey,
    algorithm: Algorithm,
    set: KeySet,
    jwk: Value,
}

impl Issuer {
    fn new(key: EncodingKey, algorithm: Algorithm) -> Issuer {
        let jwk = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap();
        Issuer { key, algorithm, set: set_of(std::slice::from_ref(&jwk)).unwrap(), jwk }
    }

    fn rsa(size: KeySize, algorithm: Algorithm) -> Issuer {
        let pair = RsaKeyPair::generate(size).unwrap();
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
        // The library requires the key without its PKCS #8 wrapping, which has a fixed length.
        Issuer::new(EncodingKey::from_rsa_der(&der.as_ref()[26..]), algorithm)
    }

    fn p256() -> Issuer {
        let document = EcdsaKeyPair::generate_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &aws_lc_rs::rand::SystemRandom::new(),
        );
        Issuer::new(EncodingKey::from_ec_der(document.unwrap().as_ref()), Algorithm::ES256)
    }

    fn p384() -> Issuer {
        let document = EcdsaKeyPair::generate_pkcs8(
            &ECDSA_P384_SHA384_FIXED_SIGNING,
            &aws_lc_rs::rand::SystemRandom::new(),
        );
        Issuer::new(EncodingKey::from_ec_der(document.unwrap().as_ref()), Algorithm::ES384)
    }

    fn ed25519() -> Issuer {
        let document = Ed25519KeyPair::generate_pkcs8v1(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
        Issuer::new(EncodingKey::from_ed_der(document.as_ref()), Algorithm::EdDSA)
    }

    fn sign(&self, claims: &Value) -> String {
        encode(&Header::new(self.algorithm), claims, &self.key).unwrap()
    }

    fn verify(&self, claims: &Value) -> Result<AcceptedToken, Rejection> {
        rules().verify(self.sign(claims).as_bytes(), &self.set)
    }
}

fn set_of(keys: &[Value]) -> Result<KeySet, String> {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes())
}

fn invalid(reason: &'static str) -> Result<AcceptedToken, Rejection> {
    Err(Rejection::Invalid(reason))
}

#[test]
fn tokens_of_each_algorithm_are_accepted() {
    let issuers = [
        Issuer::rsa(KeySize::Rsa2048, Algorithm::RS256),
        Issuer::rsa(KeySize::Rsa2048, Algorithm::RS512),
        Issuer::rsa(KeySize::Rsa2048, Algorithm::PS256),
        Issuer::p256(),
        Issuer::p384(),
        Issuer::ed25519(),
    ];
    for issuer in &issuers {
        let accepted =
            issuer.verify(&claims()).unwrap_or_else(|error| panic!("{:?}: {error:?}", issuer.algorithm));
        assert_eq!(accepted.identity.user.unwrap().name(), b"alice");
    }
    // With the keys of all issuers, each token matches its own.
    let set = set_of(&issuers.iter().map(|issuer| issuer.jwk.clone()).collect::<Vec<_>>()).unwrap();
    for issuer in &issuers {
        assert!(rules().verify(issuer.sign(&claims()).as_bytes(), &set).is_ok());
    }
}

#[test]
fn times_issuer_and_audience_are_checked() {
    let issuer = Issuer::p256();
    let cases = [
        (json!({ "exp": now_s() - 31 }), "the token has expired"),
        (json!({ "exp": null }), "a claim is missing"),
        (json!({ "nbf": now_s() + 60 }), "the token is not valid yet"),
        (json!({ "iss": "https://other.test/" }), "the issuer is wrong"),
        (json!({ "iss": null }), "a claim is missing"),
        (json!({ "aud": "another" }), "the audience is wrong"),
        (json!({ "aud": null }), "a claim is missing"),
        (json!({ "sub": "a\r\nX-Admin: 1" }), "a claim cannot be the value of a header field"),
    ];
    for (changes, reason) in cases {
        assert_eq!(issuer.verify(&with(changes.clone())), invalid(reason), "{changes}");
    }
    assert!(issuer.verify(&with(json!({ "exp": now_s() - 10 }))).is_ok(), "within the leeway");
    assert!(issuer.verify(&with(json!({ "aud": ["x", "other"] }))).is_ok());
    // RFC 7519 section 4.1.3: the token was issued for another service.
    let no_audience = Rules { audience: Vec::new(), ..rules() };
    let token = issuer.sign(&claims());
    assert_eq!(no_audience.verify(token.as_bytes(), &issuer.set), invalid("the audience is wrong"));
}

/// The parts of a token, from any JSON.
fn unsigned(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

#[test]
fn a_token_without_a_signature_is_refused() {
    let issuer = Issuer::p256();
    for algorithm in ["none", "None", "NONE", "", "HS256", "RS1"] {
        let token = unsigned(&json!({ "alg": algorithm }), &claims(), "");
        assert!(rules().verify(token.as_bytes(), &issuer.set).is_err(), "{algorithm}");
    }
    let signed = issuer.sign(&claims());
    let without = &signed[..=signed.rfind('.').unwrap()];
    assert_eq!(rules().verify(without.as_bytes(), &issuer.set), invalid("the signature is wrong"));
}

#[test]
fn a_public_key_is_never_the_secret_of_an_hmac() {
    let issuer = Issuer::rsa(KeySize::Rsa2048, Algorithm::RS256);
    let everything = Rules { algorithms: vec![Algorithm::RS256, Algorithm::HS256], ..rules() };
    let modulus = issuer.jwk["n"].as_str().unwrap();
    let secrets = [
        modulus.as_bytes().to_vec(),
        URL_SAFE_NO_PAD.decode(modulus).unwrap(),
        issuer.jwk.to_string().into_bytes(),
    ];
    for secret in secrets {
        let token =
            encode(&Header::new(Algorithm::HS256), &claims(), &EncodingKey::from_secret(&secret)).unwrap();
        assert_eq!(everything.verify(token.as_bytes(), &issuer.set), Err(Rejection::UnknownKey));
    }
}

#[test]
fn keys_that_the_token_brings_are_not_used() {
    let (issuer, attacker) = (Issuer::p256(), Issuer::p256());
    let mut header = Header::new(Algorithm::ES256);
    header.jwk = serde_json::from_value(attacker.jwk.clone()).unwrap();
    header.jku = Some("https://attacker.test/keys".to_string());
    let token = encode(&header, &claims(), &attacker.key).unwrap();
    assert_eq!(rules().verify(token.as_bytes(), &issuer.set), invalid("the signature is wrong"));
}

#[test]
fn critical_extensions_and_unknown_keys_are_refused() {
    let issuer = Issuer::p256();
    let mut header = Header::new(Algorithm::ES256);
    header.crit = Some(vec!["b64".to_string()]);
    let token = encode(&header, &claims(), &issuer.key).unwrap();
    assert_eq!(rules().verify(token.as_bytes(), &issuer.set), invalid("the token has a critical extension"));
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some("unknown".to_string());
    let token = encode(&header, &claims(), &issuer.key).unwrap();
    assert_eq!(rules().verify(token.as_bytes(), &issuer.set), Err(Rejection::UnknownKey));
}

#[test]
fn a_secret_counts_only_where_its_algorithm_is_named() {
    let secret = [7; 32];
    let set = set_of(&[json!({ "kty": "oct", "k": URL_SAFE_NO_PAD.encode(secret) })]).unwrap();
    let token =
        encode(&Header::new(Algorithm::HS256), &claims(), &EncodingKey::from_secret(&secret)).unwrap();
    assert_eq!(rules().verify(token.as_bytes(), &set), invalid("the algorithm is not allowed"));
    let named = Rules { algorithms: vec![Algorithm::HS256], ..rules() };
    assert!(named.verify(token.as_bytes(), &set).is_ok());
}

#[test]
fn weak_and_foreign_keys_are_left_out() {
    let short = json!({ "kty": "oct", "k": URL_SAFE_NO_PAD.encode([7; 31]) });
    let weak = json!({ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode([0xff; 128]), "e": "AQAB" });
    let mut for_encryption = Issuer::p256().jwk;
    for_encryption["use"] = json!("enc");
    let mut of_other_algorithm = Issuer::p256().jwk;
    of_other_algorithm["alg"] = json!("RS256");
    for key in [short, weak, for_encryption, of_other_algorithm, json!({ "kty": "XYZ" }), json!(7)] {
        assert!(set_of(std::slice::from_ref(&key)).is_err(), "{key}");
    }
    for text in ["", "7", "{}", "{\"keys\":{}}", "[]", "{\"keys\":[]}"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn required_claims_and_fields() {
    let issuer = Issuer::p256();
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
    let rules = Rules {
        claims: vec![pair("scope", "orders.read"), pair("realm.roles", "admin")],
        fields: vec![("X-User".into(), "sub".to_string()), ("X-Team".into(), "team".to_string())],
        ..rules()
    };
    let verify = |claims: &Value| rules.verify(issuer.sign(claims).as_bytes(), &issuer.set);
    assert_eq!(verify(&claims()), Err(Rejection::Insufficient));
    let enough = with(json!({ "scope": "a orders.read", "realm": { "roles": ["admin"] } }));
    let fields = verify(&enough).unwrap().identity.fields;
    assert_eq!(fields, [("X-User".into(), Some("alice".to_string())), ("X-Team".into(), None)]);
}

#[test]
fn the_token_of_a_request() {
    let credentials_text = |fields: &[(&str, &str)]| {
        let request = RequestView { fields: &fields.to_vec(), ..RequestView::example("/") };
        match credentials(&request, "session") {
            Credentials::Absent => "absent".to_string(),
            Credentials::Malformed => "malformed".to_string(),
            Credentials::Token(token) => String::from_utf8_lossy(token).into_owned(),
        }
    };
    assert_eq!(credentials_text(&[]), "absent");
    assert_eq!(credentials_text(&[("Authorization", "Bearer a.b.c")]), "a.b.c");
    assert_eq!(credentials_text(&[("authorization", "bEARER  a.b.c ")]), "a.b.c");
    assert_eq!(credentials_text(&[("authorization", "Basic YTpi")]), "absent");
    assert_eq!(credentials_text(&[("authorization", "Bearer a b")]), "malformed");
    assert_eq!(credentials_text(&[("authorization", "Bearer ")]), "malformed");
    assert_eq!(
        credentials_text(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]),
        "malformed"
    );
    assert_eq!(credentials_text(&[("cookie", "x=1; session=a.b.c")]), "a.b.c");
    assert_eq!(credentials_text(&[("cookie", "session=a; session=b")]), "malformed");
    assert_eq!(credentials_text(&[("cookie", "session=a"), ("cookie", "session=b")]), "malformed");
    assert_eq!(credentials_text(&[("cookie", "session=a"), ("authorization", "Bearer b")]), "b");
}

#[test]
fn a_long_token_is_refused_before_it_is_read() {
    let token = vec![b'a'; LONGEST_TOKEN_BYTES + 1];
    assert_eq!(rules().verify(&token, &Issuer::p256().set), invalid("the token is too long"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        token in prop::collection::vec(any::<u8>(), 0..200),
        keys in "\\PC{0,200}",
    ) {
        let set = KeySet::parse(keys.as_bytes()).unwrap_or_default();
        prop_assert!(rules().verify(&token, &set).is_err());
    }

    #[test]
    fn a_changed_token_is_refused(place in 0usize..10_000, byte in any::<u8>()) {
        let issuer = Issuer::ed25519();
        let mut token = issuer.sign(&claims()).into_bytes();
        let place = place % token.len();
        prop_assume!(token[place] != byte);
        token[place] = byte;
        prop_assert!(rules().verify(&token, &issuer.set).is_err());
    }
}
