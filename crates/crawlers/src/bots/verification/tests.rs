//! The vectors of draft-ietf-webbotauth-httpsig-protocol and of its implementations, and attacks.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::super::directories::FetchSettings;
use super::*;
use crate::signature::{Start, Target};

const EXAMPLES: &str = r#"{"keys":[
  {"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"},
  {"kty":"RSA","alg":"PS512","e":"AQAB","n":"r4tmm3r20Wd_PbqvP1s2-QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct-Lh1GH45x28Rw3Ry53mm-oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgchwuYLPL-Wokqltd11nqqzi-bJ9cvSKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4aOT9v6d-nb4bnNkQVklLQ3fVAvJm-xdDOp9LCNCN48V2pnDOkFV6-U9nV5oyc6XI2w"}]}"#;

/// The seconds at which the vectors were signed, and the life of most of them.
const SIGNED_S: u64 = 1_735_689_600;
const LIFE_S: u64 = 4_889_289_600 - SIGNED_S;

fn verifier(keys: BotKeys, longest_s: u64) -> Verifier {
    let settings = FetchSettings { ca_certificate: None, allows_private: false };
    Verifier {
        bots: vec![NamedBot { name: "bot".into(), keys }],
        directories: Arc::new(Directories::start(&settings, Arc::new(|_: &str| {})).unwrap()),
        nonces: Arc::default(),
        longest_s,
        needs_nonce: false,
        accepts_others: false,
    }
}

fn of_examples() -> Verifier {
    verifier(BotKeys::File(Arc::new(Directory::with_examples(EXAMPLES.as_bytes()))), LIFE_S)
}

fn target() -> Target<'static> {
    Target {
        method: b"GET",
        scheme: "https",
        authority: b"example.com",
        path: b"/path/to/resource",
        query: None,
        request_target: b"/path/to/resource",
    }
}

type Fields = Vec<(&'static str, String)>;

fn verify_at(verifier: &Verifier, target: Target<'_>, fields: &Fields, now_s: u64) -> Outcome {
    let message = Message { start: Start::Request(target), fields, request: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(verifier.verify(&message, SignatureContext { now_s, is_private: true }))
}

fn fields(agent: &str, input: &str, signature: &str) -> Fields {
    let agent = Some(("Signature-Agent", agent.to_string())).filter(|(_, agent)| !agent.is_empty());
    agent
        .into_iter()
        .chain([("Signature-Input", input.to_string()), ("Signature", signature.to_string())])
        .collect()
}

const RSA: &str = "keyid=\"oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA\";alg=\"rsa-pss-sha512\"";
const ED25519: &str = "keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";alg=\"ed25519\"";
const DICTIONARY: &str = "agent2=\"https://signature-agent.test\"";
const STRING: &str = "\"https://signature-agent.test\"";

/// One vector: `Signature-Agent`, the label and components, the key, when it ends, the nonce, the signature.
type Vector = (&'static str, &'static str, &'static str, u64, &'static str, &'static str);

const VECTORS: [Vector; 6] = [
    (
        DICTIONARY,
        "sig2=(\"@authority\" \"signature-agent\";key=\"agent2\")",
        RSA,
        4_889_289_600,
        "wcfPQPh7SzkvrIVvhD00vNk9PkxJNY2NVbYl2PVBB4zmUoluSwE7W6bPtF60QA3k8g06FU7PPCD+J58YofY1zg==",
        "sig2=:gHzpLNeHaHIO19NaJH9YMW5dcVSi2s0wOMBr6p18vcofS106sfC4KBIS0/szPlBBd1vIcyQ88B6CTEWIhRAiVrb9zfX0mx1aG12CSGWcYkSirHeyTxhbuJvXd27ed6skWoy4PjXItq38936ivUQjfdIwXh1aX6HxkAC3vRnEdSNfntkLWeEuIQ5BLIOBGE39fSwg27Qjq6OVWYas/9/aFUr3HA34MXWYdp+//cvlEKDp3kRoLOw9ro0AOr6srHrTeEtxon2afcws1aZVSlPdd2fZSEIGmw9HAHLDCEkFTERu1gH2k/zIEqgy7CAYXI9E5slog0cLg/Vc6+f8gih33g==:",
    ),
    (
        STRING,
        "sig2=(\"@authority\" \"signature-agent\")",
        RSA,
        1_735_693_200,
        "XSHtZVCThSIAksXsH9WBs6AtxtXC0eQGiIcUGSoJstFs8lAWakjhrfwzLhyjtme5iXMZvmFWqDEs6cT3Jf+BbQ==",
        "sig2=:I1QWNzGXdP1a4dSvOHLCVOOanEYHDk+ZsVxM9MLX/p4ko69ghKwR5EOtAD96g7g4GWP7lmpM/jFAf9q8EFRDTPLjUXySwMv4YPgabv2LQihTJG2y8a2m6IGltyruwQNiqSJVUuRaG9+b17CGmAMFZh30X6GXLdQJrCARpeTqPwp2DC+a8haDE/VE5EruqzjA5/2mKwvrkzkSqeW5tOVtFwWRRHIOidquf/8Je6kM9mhgkg4arudLA5SL4wyyYE1jURIgcOl8agrfdJ5Def23DIRtiOLRa8jT9cpTLFAuFHN+mrZA/LH9h0gSIg1cPb+0cMASee5uku1KjWcFer7jWA==:",
    ),
    (
        DICTIONARY,
        "sig2=(\"@authority\" \"signature-agent\";key=\"agent2\")",
        ED25519,
        4_889_289_600,
        "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
        "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:",
    ),
    (
        STRING,
        "sig2=(\"@authority\" \"signature-agent\")",
        ED25519,
        1_735_693_200,
        "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
        "sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:",
    ),
    // Without Signature-Agent, from the data of cloudflare/web-bot-auth: the key is in a file.
    (
        "",
        "sig1=(\"@authority\")",
        RSA,
        4_889_289_600,
        "JojDFWJ90jf+gZhdKeTyJYsu1XvNPZSFAGhvYq5SuV3gneOEUAhq+xl792WGuD1W+Dr6NRmx+m+t06NsYnL4iA==",
        "sig1=:hWPaj85MWQiRkzU4jnIKvdPQiDfMCPIoxOP8nZveNc3aFQ7r/UmXWCwGNImw588iRvTFey5TR3fVEgnXpcttlyK+u5pN831z9Wlr+IMNfub4uEM3SuO+SKFygJZyLG0pf7OAiRcU4C0gyx1BS/+z9ydQTRzDLr88wCkBBRqwGRrSi8HTwxkqg1jugobh93hcnU6gV8MK1n+VnhRprIgl2RQSO6q5cfbB4OS8C4t/8ndW0lYmP2SWzKZJXnpX5Wrj17PuLqnVW6MO8pJnLAMXNvxUdx32KHeq/cHFrzZazZsua3UOoP+k+niHwoQ8bBWj1Vi4mM1mYJK+fk366cCLsQ==:",
    ),
    (
        "",
        "sig1=(\"@authority\")",
        ED25519,
        4_889_289_600,
        "zIW8+cdmA3vdYagbxojpONwa/l0EKJ/O3/wD486VvsQjO/RxPaSt6ZxvQaMcQzNnqKN/mQ6hpGiFro2L2qkz5A==",
        "sig1=:QKN4fTdIYfh82fvoZCQiQA1weuozfCS/Led2zTMbewMMqH8PI2Wsy/5c4ao6B6D09nraNQdBNOADg8aM1MqfCg==:",
    ),
];

#[test]
fn the_vectors_of_the_drafts_verify_once_each() {
    let verifier = of_examples();
    let bot = Outcome::Verified(VerifiedBot { known: Some(0), name: "bot".into() });
    for (agent, list, key, expires, nonce, signature) in VECTORS {
        let input = format!(
            "{list};created={SIGNED_S};{key};expires={expires};nonce=\"{nonce}\";tag=\"web-bot-auth\""
        );
        let fields = fields(agent, &input, signature);
        let elsewhere = Target { authority: b"example.org", ..target() };
        let wrong = verify_at(&verifier, elsewhere, &fields, SIGNED_S + 1);
        assert_eq!(wrong, Outcome::Invalid("the signature is wrong"), "{input}");
        assert_eq!(verify_at(&verifier, target(), &fields, SIGNED_S + 1), bot, "{input}");
        let again = verify_at(&verifier, target(), &fields, SIGNED_S + 2);
        assert_eq!(again, Outcome::Invalid("the nonce was used before"));
        let late = verify_at(&verifier, target(), &fields, expires);
        assert_eq!(late, Outcome::Invalid("the signature has ended"));
        let early = verify_at(&verifier, target(), &fields, SIGNED_S - 31);
        assert_eq!(early, Outcome::Invalid("the signature was created in the future"));
    }
}

#[test]
fn the_signed_directory_of_the_draft_verifies() {
    let body = concat!(
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U","#,
        r#""x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs","use":"sig"}]}"#
    );
    let directory = Directory::with_examples(body.as_bytes());
    let key = directory.key("poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U").unwrap();
    let none: Fields = Vec::new();
    let agent_target = Target { authority: b"signature-agent.test", ..target() };
    let request = Message { start: Start::Request(agent_target), fields: &none, request: None };
    let fields: Fields = vec![
        ("Content-Digest", "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:".into()),
        (
            "Signature-Input",
            "binding=(\"@authority\";req \"content-digest\");created=1735689600;expires=4889289600\
;keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";tag=\"http-message-signatures-directory\""
                .into(),
        ),
        (
            "Signature",
            "binding=:l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/\
             UMkBxsigzChM1Gpz7gOVBg==:"
                .into(),
        ),
    ];
    let answer = Message { start: Start::Answer(200), fields: &fields, request: Some(&request) };
    let signature = signature::read(&answer).unwrap().remove(0);
    let base = signature.base(&answer).unwrap();
    assert_eq!(key.verify(None, &base, &signature.bytes), Ok(()));
}

/// A bot with its own key.
struct Signer {
    pair: Ed25519KeyPair,
    thumbprint: String,
}

impl Signer {
    fn new() -> (Signer, Arc<Directory>) {
        let pair = Ed25519KeyPair::generate().unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let jwk = serde_json::json!({ "kty": "OKP", "crv": "Ed25519", "x": x });
        let thumbprint = VerificationKey::of_jwk(&jwk).unwrap().thumbprint;
        let directory =
            Directory::parse(serde_json::json!({ "keys": [jwk] }).to_string().as_bytes()).unwrap();
        (Signer { pair, thumbprint }, Arc::new(directory))
    }

    /// Signs a GET of `/path/to/resource` with these parts of `Signature-Input`.
    fn sign(&self, agent: &str, list: &str, parameters: &str) -> Fields {
        let input = format!("a={list};keyid=\"{}\"{parameters}", self.thumbprint);
        let unsigned = fields(agent, &input, "a=:AA==:");
        let message = Message { start: Start::Request(target()), fields: &unsigned, request: None };
        let base = signature::read(&message).unwrap()[0].base(&message).unwrap();
        fields(agent, &input, &format!("a=:{}:", STANDARD.encode(self.pair.sign(&base))))
    }
}

#[test]
fn what_a_signature_must_say() {
    let (signer, directory) = Signer::new();
    let mut verifier = verifier(BotKeys::File(directory), 3600);
    let good = ";created=1000;expires=2000;tag=\"web-bot-auth\"";
    let host = "(\"@authority\")";
    let verify_signed = |verifier: &Verifier, list: &str, parameters: &str| {
        verify_at(verifier, target(), &signer.sign("", list, parameters), 1500)
    };
    assert!(matches!(verify_signed(&verifier, host, good), Outcome::Verified(_)));
    // One without a nonce may be sent again, and is then in the cache.
    assert!(matches!(verify_signed(&verifier, host, good), Outcome::Verified(_)));
    assert!(matches!(verify_signed(&verifier, "(\"@target-uri\")", good), Outcome::Verified(_)));
    for (list, parameters, outcome) in [
        ("()", good, Outcome::Invalid("the signature does not cover the host")),
        ("(\"@path\")", good, Outcome::Invalid("the signature does not cover the host")),
        (
            host,
            ";expires=2000;tag=\"web-bot-auth\"",
            Outcome::Invalid("the signature has no time of its creation"),
        ),
        (
            host,
            ";created=1000;tag=\"web-bot-auth\"",
            Outcome::Invalid("the signature has no time of its expiry"),
        ),
        (
            host,
            ";created=1000;expires=4601;tag=\"web-bot-auth\"",
            Outcome::Invalid("the life of the signature is too long"),
        ),
        (
            host,
            ";created=1600;expires=2000;tag=\"web-bot-auth\"",
            Outcome::Invalid("the signature was created in the future"),
        ),
        (host, ";created=1000;expires=2000", Outcome::Unsigned),
        (host, ";created=1000;expires=2000;tag=\"other\"", Outcome::Unsigned),
        (
            host,
            ";created=1000;expires=2000;alg=\"hmac-sha256\";tag=\"web-bot-auth\"",
            Outcome::Invalid("the algorithm does not fit the key"),
        ),
    ] {
        assert_eq!(verify_signed(&verifier, list, parameters), outcome, "{list}{parameters}");
    }
    verifier.needs_nonce = true;
    assert_eq!(verify_signed(&verifier, host, good), Outcome::Invalid("the signature has no nonce"));
    let with_nonce = format!("{good};nonce=\"n\"");
    assert!(matches!(verify_signed(&verifier, host, &with_nonce), Outcome::Verified(_)));
    assert_eq!(verify_signed(&verifier, host, &with_nonce), Outcome::Invalid("the nonce was used before"));
}

#[test]
fn one_bot_cannot_sign_for_another() {
    let (mallory, _) = Signer::new();
    let named = Agent::of_address("https://good.example").unwrap();
    let verifier = verifier(BotKeys::Agent(named), 3600);
    let good = ";created=1000;expires=2000;tag=\"web-bot-auth\"";
    // A bot that is not named, so that its keys are not fetched.
    let own =
        mallory.sign("a=\"https://mallory.example\"", "(\"@authority\" \"signature-agent\";key=\"a\")", good);
    assert_eq!(
        verify_at(&verifier, target(), &own, 1500),
        Outcome::Unverified("the bot is not one of the configuration")
    );
    // The name of another one that the signature does not cover.
    let uncovered = mallory.sign("a=\"https://good.example\"", "(\"@authority\")", good);
    let reason = "the signature does not cover its member of Signature-Agent";
    assert_eq!(verify_at(&verifier, target(), &uncovered, 1500), Outcome::Unverified(reason));
    // A member that is covered, beside one that is not.
    let beside = mallory.sign(
        "b=\"https://mallory.example\", a=\"https://good.example\"",
        "(\"@authority\" \"signature-agent\";key=\"b\")",
        good,
    );
    assert_eq!(
        verify_at(&verifier, target(), &beside, 1500),
        Outcome::Unverified("the bot is not one of the configuration")
    );
    let none = mallory.sign("", "(\"@authority\")", good);
    assert_eq!(
        verify_at(&verifier, target(), &none, 1500),
        Outcome::Unverified("there is no Signature-Agent")
    );
}

#[test]
fn a_signature_that_others_may_have_seen_proves_nothing() {
    let (signer, directory) = Signer::new();
    let verifier = verifier(BotKeys::File(directory), 3600);
    let fields = signer.sign("", "(\"@authority\")", ";created=1000;expires=2000;tag=\"web-bot-auth\"");
    let message = Message { start: Start::Request(target()), fields: &fields, request: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plain = SignatureContext { now_s: 1500, is_private: false };
    assert!(matches!(runtime.block_on(verifier.verify(&message, plain)), Outcome::Unverified(_)));
}
