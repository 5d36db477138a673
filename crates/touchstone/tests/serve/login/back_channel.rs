//! Back-channel logout: the provider ends sessions with logout tokens.

use std::fs;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::browser::Browser;
use super::provider::Provider;
use super::start;
use crate::support::{Response, Server, Tree, curl, error_lines, free_port, run, wait_until};
use crate::tokens::issuer::{Issuer, now_s};

const BACK_CHANNEL: &str = "/.touchstone/login/back-channel";
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The claims of a right token for `sid`, with these changes; `null` removes one.
fn claims(provider: &Provider, changes: &Value) -> Value {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut claims = json!({
        "iss": provider.issuer(), "aud": "site", "iat": now_s(), "exp": now_s() + 120,
        "jti": format!("token {number}"), "sid": "session 1", "events": { EVENT: {} },
    });
    let members = claims.as_object_mut().unwrap();
    members.extend(changes.as_object().cloned().unwrap());
    members.retain(|_, value| !value.is_null());
    claims
}

fn send(server: &Server, token: &str) -> Response {
    let form = format!("logout_token={token}");
    let length = form.len();
    server.connect().ask(format!(
        "POST {BACK_CHANNEL} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
    ))
}

/// A browser that has signed in as this user with this session at the provider.
fn signed_in<'s>(server: &'s Server, provider: &Provider, user: &str, session: &str) -> Browser<'s> {
    provider.set(|state| state.claims = json!({ "sub": user, "sid": session }));
    let mut browser = Browser::new(server);
    assert_eq!(browser.sign_in(provider, "/alphabet.txt").status, 200);
    browser
}

fn status(browser: &mut Browser<'_>) -> u16 {
    browser.ask("GET", "/alphabet.txt", "").status
}

#[test]
fn a_logout_token_ends_a_session_or_all_of_a_user() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    fs::write(tree.beside("keys"), "a secret of at least thirty-two characters\n").unwrap();
    let admin = free_port();
    let before = format!("[admin]\nlisten = \"127.0.0.1:{admin}\"\n");
    let server = start(&tree, &before, &provider.keys(", key_file = \"keys\""));
    let mut one = signed_in(&server, &provider, "alice", "session 1");
    let mut other = signed_in(&server, &provider, "alice", "session 2");
    let mut bob = signed_in(&server, &provider, "bob", "session 3");
    let taken = send(&server, &provider.signed(&claims(&provider, &json!({}))));
    assert_eq!(
        (taken.status, taken.field("cache-control")),
        (200, Some("no-store")),
        "{}",
        server.error_text()
    );
    assert_eq!([status(&mut one), status(&mut other), status(&mut bob)], [401, 200, 200]);
    assert_eq!(one.load("/alphabet.txt").status, 302, "a browser signs in again");
    let all = claims(&provider, &json!({ "sid": null, "sub": "alice" }));
    assert_eq!(send(&server, &provider.signed(&all)).status, 200);
    assert_eq!([status(&mut other), status(&mut bob)], [401, 200]);
    // A reload keeps the state, also one that changes the requests to the provider.
    let keys = provider.keys(", key_file = \"keys\", refresh = \"2h\"");
    let text = format!("{before}{}{keys}", tree.configuration(""));
    fs::write(tree.beside("touchstone.toml"), text).unwrap();
    let output = run(["reload", "--config", tree.beside("touchstone.toml").to_str().unwrap()]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    assert_eq!([status(&mut one), status(&mut other), status(&mut bob)], [401, 401, 200]);
    // The user may sign in again; what has begun in the same second counts as before.
    wait_until("a new session", Duration::from_secs(60), || {
        provider.set(|state| state.claims = json!({ "sub": "alice", "sid": "session 4" }));
        let mut browser = Browser::new(&server);
        let location = browser.sent_away("/alphabet.txt");
        assert_eq!(browser.come_back(&provider.sign_in(&location)).status, 303);
        status(&mut browser) == 200
    });
    let Some(output) = curl([format!("http://127.0.0.1:{admin}/metrics")]) else { return };
    let metrics = String::from_utf8_lossy(&output.stdout).into_owned();
    let labels = format!("{{issuer=\"{}\",client=\"site\"", provider.issuer());
    let accepted = format!("touchstone_login_logout_tokens_total{labels},result=\"accepted\"}} 2");
    assert!(metrics.lines().any(|line| line == accepted), "{metrics}");
    let number = |name: &str, more: &str| {
        let begin = format!("touchstone_{name}_total{labels}{more}}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
        line.unwrap_or_else(|| panic!("{begin}: {metrics}")).parse::<u64>().unwrap()
    };
    let completed = number("logins_completed", "");
    assert!(completed >= 4 && number("logins_begun", "") > completed, "{metrics}");
    assert_eq!(number("logins_refused", ",reason=\"callback\""), 0);
}

#[test]
fn tokens_that_are_not_right_end_nothing() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    let mut browser = signed_in(&server, &provider, "alice", "session 1");
    for (changes, reason) in [
        (json!({ "iss": "https://evil.example" }), "the issuer is wrong"),
        (json!({ "iss": null }), "a claim is missing"),
        (json!({ "aud": "another" }), "the audience is wrong"),
        (json!({ "aud": null }), "a claim is missing"),
        (json!({ "exp": now_s() - 3600 }), "has expired"),
        (json!({ "exp": null }), "a claim is missing"),
        (json!({ "iat": null }), "no time of issue"),
        (json!({ "iat": now_s() + 3600 }), "from the future"),
        (json!({ "iat": now_s() - 7200 }), "more than an hour ago"),
        (json!({ "jti": null }), "no 'jti'"),
        (json!({ "sid": null }), "neither 'sub' nor 'sid'"),
        (json!({ "events": null }), "'events'"),
        (json!({ "events": { "http://schemas.openid.net/event/other": {} } }), "'events'"),
        (json!({ "nonce": "n" }), "'nonce'"),
    ] {
        // So many lines of one kind are written in a second, so it may take more than one token.
        wait_until(reason, Duration::from_secs(60), || {
            let refused = send(&server, &provider.signed(&claims(&provider, &changes)));
            assert_eq!(refused.status, 400, "{changes}");
            assert_eq!(String::from_utf8_lossy(&refused.body), "{\"error\":\"invalid_request\"}\n");
            server
                .error_text()
                .lines()
                .any(|line| line.contains("a logout token is refused") && line.contains(reason))
        });
    }
    let right = claims(&provider, &json!({})).to_string();
    let Some(stranger) = Issuer::new("key") else { return };
    let none =
        format!("{}.{}.", URL_SAFE_NO_PAD.encode("{\"alg\":\"none\"}"), URL_SAFE_NO_PAD.encode(&right));
    let large = "x".repeat(20_000);
    for token in [stranger.signed(&right), none, "a.b.c".to_string(), String::new(), large] {
        assert_eq!(send(&server, &token).status, 400, "{token:.60}");
    }
    let get = server.connect().ask(format!("GET {BACK_CHANNEL} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!((get.status, get.field("allow")), (405, Some("POST")));
    assert_eq!(status(&mut browser), 200, "the session goes on");
    // A token is good once, also for a session that has begun since.
    let once = provider.signed(&claims(&provider, &json!({ "sid": null, "sub": "alice" })));
    assert_eq!(send(&server, &once).status, 200);
    assert_eq!(status(&mut browser), 401);
    wait_until("the reason", Duration::from_secs(60), || {
        assert_eq!(send(&server, &once).status, 400);
        server.error_text().contains("it was received before")
    });
    assert!(!server.error_text().contains("eyJ"), "{}", server.error_text());
}

#[test]
fn clients_share_the_path_and_a_site_can_have_none() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let paths = ", callback = \"/b/callback\", sign_in = \"/b/in\", sign_out = \"/b/out\"";
    let other = provider.keys(paths).replace("\"site\"", "\"other\"");
    let keys = format!("{}[[site.route]]\npath = \"/dir/\"\n{other}", provider.keys(""));
    let server = start(&tree, "", &keys);
    // The metadata are there.
    signed_in(&server, &provider, "alice", "session 1");
    for (audience, expected) in [("site", 200), ("other", 200), ("third", 400)] {
        let token = provider.signed(&claims(&provider, &json!({ "aud": audience })));
        assert_eq!(send(&server, &token).status, expected, "{audience}: {}", server.error_text());
    }
    let without = Tree::standard();
    let server = start(&without, "", &provider.keys(", back_channel = \"\""));
    assert_eq!(send(&server, "x").status, 401);
}
