//! Attacks on logins: each is refused, and creates no session.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::browser::{Browser, CALLBACK, PAGE, SIGN_IN};
use super::provider::{MakeToken, Provider, State};
use super::start;
use crate::support::{Server, Tree};
use crate::tokens::issuer::{Issuer, now_s};

/// Signs in after a change of the provider, and returns the status of the callback.
fn callback_after(server: &Server, provider: &Provider, change: impl FnOnce(&mut State)) -> u16 {
    let mut browser = Browser::new(server);
    let location = browser.sent_away("/alphabet.txt");
    let back = provider.sign_in(&location);
    provider.set(change);
    let status = browser.come_back(&back).status;
    assert!((status == 303) != browser.sessions().is_empty(), "{status}");
    assert_eq!(browser.load("/alphabet.txt").status == 200, status == 303);
    provider.set(|state| {
        state.claims = serde_json::json!({});
        state.token = Box::new(|issuer, claims| issuer.signed(claims));
        state.answer = None;
    });
    status
}

fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

#[test]
fn id_tokens_that_are_not_right_give_no_session() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    assert_eq!(callback_after(&server, &provider, |_| ()), 303);
    let issuer = provider.issuer();
    for claims in [
        serde_json::json!({ "nonce": "another" }),
        serde_json::json!({ "nonce": null }),
        serde_json::json!({ "iss": "https://evil.example" }),
        serde_json::json!({ "iss": format!("{issuer}/") }),
        serde_json::json!({ "iss": null }),
        serde_json::json!({ "aud": "another" }),
        serde_json::json!({ "aud": null }),
        serde_json::json!({ "aud": ["site", "another"] }),
        serde_json::json!({ "azp": "another" }),
        serde_json::json!({ "exp": now_s() - 3600 }),
        serde_json::json!({ "exp": null }),
        serde_json::json!({ "iat": now_s() + 3600 }),
        serde_json::json!({ "nbf": now_s() + 3600 }),
        serde_json::json!({ "sub": null }),
        serde_json::json!({ "sub": { "a": 1 } }),
        serde_json::json!({ "huge": "x".repeat(10_000) }),
    ] {
        let told = claims.to_string();
        assert_eq!(callback_after(&server, &provider, |state| state.claims = claims), 502, "{told:.100}");
    }
    let other = Issuer::new("key").unwrap();
    let keys = other.key_set();
    let make: [MakeToken; 5] = [
        // Nothing signs it.
        Box::new(|_, claims| format!("{}.", unsigned("{\"alg\":\"none\"}", claims))),
        Box::new(|_, claims| format!("{}.", unsigned("{\"alg\":\"None\",\"kid\":\"key\"}", claims))),
        // The public key as a secret.
        Box::new(|issuer, claims| {
            let signed = unsigned("{\"alg\":\"HS256\",\"kid\":\"key\"}", claims);
            let key = issuer.key_set();
            let signature = {
                use sha2::{Digest as _, Sha256};
                // Any signature will do: the algorithm is refused before it is looked at.
                Sha256::digest(format!("{key}{signed}"))
            };
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
        }),
        // Another key with the same name, and one that the token itself brings.
        Box::new(move |_, claims| other.signed(claims)),
        Box::new(move |issuer, claims| {
            let token = issuer.signed(claims);
            let (_, rest) = token.split_once('.').unwrap();
            let key = keys.replace("{\"keys\":[", "").replace("]}", "");
            let header = format!("{{\"alg\":\"RS256\",\"kid\":\"key\",\"jwk\":{key}}}");
            format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header))
        }),
    ];
    for (number, token) in make.into_iter().enumerate() {
        assert_eq!(callback_after(&server, &provider, |state| state.token = token), 502, "token {number}");
    }
    for answer in [
        "{}".to_string(),
        "no JSON".into(),
        "{\"access_token\":\"a\",\"token_type\":\"Bearer\"}".into(),
        "{\"access_token\":\"a\",\"token_type\":\"Bearer\",\"id_token\":\"a.b.c\"}".into(),
        "x".repeat(2_000_000),
    ] {
        let told = format!("{answer:.50}");
        assert_eq!(callback_after(&server, &provider, |state| state.answer = Some(answer)), 502, "{told}");
    }
    // No part of a token or code is in the log.
    let log = server.error_text();
    assert!(log.contains("the ID token was issued for another login"), "{log}");
    assert!(!log.contains("eyJ") && !log.contains("code 1") && !log.contains("a secret"), "{log}");
}

#[test]
fn callbacks_of_others_are_refused() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    // Login cross-site request forgery: the attacker's code, brought by the victim's browser.
    let mut attacker = Browser::new(&server);
    let location = attacker.sent_away("/alphabet.txt");
    let of_attacker = provider.sign_in(&location);
    let mut victim = Browser::new(&server);
    assert_eq!(victim.come_back(&of_attacker).status, 400);
    // The victim has begun a login too: the state of the attacker does not fit its cookie.
    let location = victim.sent_away("/alphabet.txt");
    assert_eq!(victim.come_back(&of_attacker).status, 400);
    let own_state = super::provider::parameters(location.split_once('?').unwrap().1)["state"].clone();
    let name_of_own = &own_state[..8];
    let changed = format!("{name_of_own}{}", "A".repeat(24));
    assert_eq!(victim.come_back(&format!("code=code+1&state={changed}")).status, 400);
    // The attacker's code with the victim's state: the code is not for this login's verifier.
    let location = victim.sent_away("/alphabet.txt");
    let own_state = super::provider::parameters(location.split_once('?').unwrap().1)["state"].clone();
    assert_eq!(victim.come_back(&format!("code=code+1&state={own_state}")).status, 400);
    // The callback of the attacker still works in the browser that began it, but only once.
    let location = attacker.sent_away("/alphabet.txt");
    let back = provider.sign_in(&location);
    assert_eq!(attacker.come_back(&back).status, 303);
    let cookies = attacker.cookies.clone();
    assert_eq!(attacker.come_back(&back).status, 400);
    assert_eq!(attacker.cookies, cookies, "the session stays");
    assert!(victim.sessions().is_empty());
}

#[test]
fn a_code_is_good_once_even_with_its_cookie() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    let mut browser = Browser::new(&server);
    let location = browser.sent_away("/alphabet.txt");
    let kept = browser.cookies.clone();
    let back = provider.sign_in(&location);
    assert_eq!(browser.come_back(&back).status, 303);
    let mut thief = Browser::new(&server);
    thief.cookies = kept;
    assert_eq!(thief.come_back(&back).status, 400);
    assert!(thief.sessions().is_empty());
}

#[test]
fn callbacks_name_their_provider() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    provider.set(|state| {
        state.metadata = serde_json::json!({ "authorization_response_iss_parameter_supported": true });
    });
    let server = start(&tree, "", &provider.keys(""));
    let own = provider.issuer().replace(':', "%3A").replace('/', "%2F");
    for (more, status) in [
        (String::new(), 400),
        ("&iss=https%3A%2F%2Fevil.example".into(), 400),
        (format!("&iss={own}%2F"), 400),
        (format!("&iss={own}&iss={own}"), 400),
        (format!("&iss={own}"), 303),
    ] {
        let mut browser = Browser::new(&server);
        let location = browser.sent_away("/alphabet.txt");
        let back = provider.sign_in(&location);
        assert_eq!(browser.come_back(&format!("{back}{more}")).status, status, "{more}");
    }
}

#[test]
fn callbacks_with_errors_and_nonsense_are_answered() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    for (query, status) in [
        ("error=access_denied&error_description=%3Cscript%3Ealert(1)%3C%2Fscript%3E", 403),
        ("error=server_error", 502),
        ("error=a%0d%0aSet-Cookie:%20x=y", 502),
        ("code=&x=y", 400),
        ("code=a&code=b", 400),
    ] {
        let mut browser = Browser::new(&server);
        let location = browser.sent_away("/alphabet.txt");
        let state = super::provider::parameters(location.split_once('?').unwrap().1)["state"].clone();
        let answer = browser.come_back(&format!("{query}&state={state}"));
        assert_eq!(answer.status, status, "{query}");
        assert!(!String::from_utf8_lossy(&answer.raw).contains("script"));
    }
    let mut browser = Browser::new(&server);
    for target in [CALLBACK.to_string(), format!("{CALLBACK}?"), format!("{CALLBACK}?state=%00&code=a")] {
        assert_eq!(browser.load(&target).status, 400, "{target}");
    }
    assert_eq!(browser.ask("POST", CALLBACK, "Content-Length: 0\r\n").status, 405);
}

#[test]
fn no_browser_is_led_to_another_site() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    for to in [
        "https://evil.example/",
        "//evil.example/",
        "/%5Cevil.example",
        "/%09/evil.example",
        "%2F%2Fevil.example",
        "javascript:alert(1)",
        "/%0d%0aX:%20y",
        "",
    ] {
        let mut browser = Browser::new(&server);
        let location = browser.sent_away(&format!("{SIGN_IN}?to={to}"));
        let back = browser.come_back(&provider.sign_in(&location));
        assert_eq!((back.status, back.field("location")), (303, Some("/")), "{to}");
    }
    // A path with two slashes is returned to in its normal form.
    let mut browser = Browser::new(&server);
    let location = browser.sent_away("//evil.example/%2e%2e/x");
    let back = browser.come_back(&provider.sign_in(&location));
    assert_eq!(back.field("location"), Some("/x"));
}

#[test]
fn cookies_that_were_changed_or_belong_elsewhere_are_no_session() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    std::fs::write(tree.beside("keys"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let other = provider.keys(", key_file = \"keys\"").replace("\"site\"", "\"other\"");
    let other = other.replace(" }\n", ", callback = \"/c\", sign_in = \"/i\", sign_out = \"/o\" }\n");
    let route = format!("[[site.route]]\npath = \"/dir/\"\n{other}");
    let server = start(&tree, "", &format!("{}{route}", provider.keys(", key_file = \"keys\"")));
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in(&provider, "/alphabet.txt").status, 200);
    let name = browser.sessions()[0].clone();
    let value = browser.cookies[&name].clone();
    let mut status_with = |name: &str, value: &str, host: &str, target: &str| {
        browser.cookies = [(name.to_string(), value.to_string())].into();
        browser.host = host.to_string();
        browser.ask("GET", target, "").status
    };
    let host = format!("127.0.0.1:{}", server.address().port());
    assert_eq!(status_with(&name, &value, &host, "/alphabet.txt"), 200);
    // One character changed, cut, doubled, and the number of pieces.
    for position in [2, 10, 40, value.len() / 2, value.len() - 1] {
        let mut changed = value.clone().into_bytes();
        changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(status_with(&name, &changed, &host, "/alphabet.txt"), 401, "{position}");
    }
    for changed in
        [&value[..value.len() - 4], &value.replacen("1.", "2.", 1), "", "1.", &format!("{value}AAAA")]
    {
        assert_eq!(status_with(&name, changed, &host, "/alphabet.txt"), 401, "{changed}");
    }
    // The cookie of one client under the name of the other, and at another host.
    let mut seen = Browser::new(&server);
    seen.sent_away("/dir/inner.txt");
    let other = seen.cookies.keys().next().unwrap().split('-').nth(2).unwrap().to_string();
    assert_eq!(status_with(&format!("touchstone-session-{other}"), &value, &host, "/dir/inner.txt"), 401);
    let elsewhere = format!("localhost:{}", server.address().port());
    assert_eq!(status_with(&name, &value, &elsewhere, "/alphabet.txt"), 401);
    // A session is not a login that has begun, and the other way round.
    let (begun, sealed) =
        seen.cookies.iter().next().map(|(name, value)| (name.clone(), value.clone())).unwrap();
    assert_eq!(
        status_with(&format!("touchstone-session-{other}"), &format!("1.{sealed}"), &host, "/dir/inner.txt"),
        401
    );
    let mut thief = Browser::new(&server);
    thief.cookies = [(begun.clone(), value[2..].to_string())].into();
    let state = format!("{}{}", begun.rsplit_once(&format!("{other}-")).unwrap().1, "A".repeat(24));
    assert_eq!(thief.load(&format!("/c?code=a&state={state}")).status, 400);
}

#[test]
fn a_planted_session_does_not_outlive_the_login() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(", fields = { X-User = \"sub\" }"));
    let mut attacker = Browser::new(&server);
    attacker.sign_in(&provider, "/alphabet.txt");
    provider.set(|state| state.claims = serde_json::json!({ "sub": "victim" }));
    let mut victim = Browser::new(&server);
    victim.cookies = attacker.cookies.clone();
    let planted = victim.cookies.clone();
    let location = victim.ask("GET", SIGN_IN, PAGE).field("location").unwrap().to_string();
    assert_eq!(victim.come_back(&provider.sign_in(&location)).status, 303);
    assert_ne!(victim.cookies, planted, "the login replaces what was planted");
}

#[test]
fn plain_http_is_for_this_machine_only() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    let mut browser = Browser::new(&server);
    browser.host = "www.example.org".to_string();
    let refused = browser.load("/alphabet.txt");
    assert_eq!((refused.status, refused.field("set-cookie")), (403, None));
    server.wait_for_error_line("why", |line| line.contains("HTTPS only"));
}
