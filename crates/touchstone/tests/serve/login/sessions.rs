//! Sessions: their keys, their end, their renewal, and sign-out.

use std::fs;
use std::time::Duration;

use super::browser::{Browser, PAGE, SIGN_OUT};
use super::provider::{Provider, parameters};
use super::start;
use crate::support::{Tree, error_lines, run, wait_until};

const OLD: &str = "an old secret of thirty-two characters\n";
const NEW: &str = "a new secret of thirty-two characters\n";

#[test]
fn machines_share_sessions_and_keys_rotate() {
    let Some(provider) = Provider::start() else { return };
    let (one, other) = (Tree::standard(), Tree::standard());
    for tree in [&one, &other] {
        fs::write(tree.beside("keys"), OLD).unwrap();
    }
    let keys = provider.keys(", key_file = \"keys\", idle = \"12s\"");
    let first = start(&one, "", &keys);
    // The other machine has a new key first, and accepts the old one.
    fs::write(other.beside("keys"), format!("{NEW}{OLD}")).unwrap();
    let second = start(&other, "", &keys);
    let mut browser = Browser::new(&first);
    browser.sign_in(&provider, "/alphabet.txt");
    let mut there = Browser::new(&second);
    there.host = browser.host.clone();
    there.cookies = browser.cookies.clone();
    let status = there.ask("GET", "/alphabet.txt", "").status;
    assert_eq!(status, 200);
    // After a quarter of the idle time the cookie is sealed again, with the new key, which the first machine
    // does not have.
    let before = there.cookies.clone();
    wait_until("the cookie is sealed again", Duration::from_secs(60), || {
        if there.ask("GET", "/alphabet.txt", "").status != 200 {
            there.cookies = before.clone();
            browser.cookies.clear();
            browser.sign_in(&provider, "/alphabet.txt");
            there.cookies = browser.cookies.clone();
        }
        there.cookies != before && there.cookies != browser.cookies
    });
    browser.cookies = there.cookies.clone();
    assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, 401);
    // And they end.
    for keys in [", lifetime = \"4s\", idle = \"0s\"", ", idle = \"4s\""] {
        let tree = Tree::standard();
        let server = start(&tree, "", &provider.keys(keys));
        let mut browser = Browser::new(&server);
        browser.sign_in(&provider, "/alphabet.txt");
        let kept = browser.cookies.clone();
        wait_until("the session ends", Duration::from_secs(60), || {
            browser.cookies = kept.clone();
            browser.ask("GET", "/alphabet.txt", "").status == 401
        });
    }
}

#[test]
fn the_provider_is_asked_whether_sessions_go_on() {
    let Some(provider) = Provider::start() else { return };
    provider.set(|state| {
        state.refresh_token = "r".to_string();
        state.claims = serde_json::json!({ "groups": ["staff"] });
    });
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(", renew = \"1s\", claims = [\"groups=staff\"]"));
    let mut browser = Browser::new(&server);
    browser.sign_in(&provider, "/alphabet.txt");
    // A machine that is slow has had it renewed by now.
    let before = provider.questions();
    let old = browser.cookies.clone();
    wait_until("the session is renewed", Duration::from_secs(60), || {
        assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, 200);
        provider.questions() == before + 1
    });
    // Active requests with the old cookie do not use the provider: it would treat the old refresh token as
    // stolen.
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let ask = || {
            let mut other = Browser::new(&server);
            other.cookies = old.clone();
            other.ask("GET", "/alphabet.txt", "").status
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers, [200; 8]);
    assert_eq!(provider.questions(), before + 1);
    assert!(provider.state.lock().unwrap().asked[1].contains("grant_type=refresh_token&refresh_token=r "));
}

#[test]
fn all_logins_of_a_client_ask_once_for_a_session_also_over_reloads() {
    let Some(provider) = Provider::start() else { return };
    provider.set(|state| state.refresh_token = "r".to_string());
    let tree = Tree::standard();
    fs::write(tree.beside("keys"), NEW).unwrap();
    let keys = |more: &str| provider.keys(&format!(", key_file = \"keys\", renew = \"1s\"{more}"));
    let route = "[[site.route]]\npath = \"/dir/\"\n";
    let server = start(&tree, "", &format!("{}{route}{}", keys(""), keys("")));
    let mut browser = Browser::new(&server);
    browser.sign_in(&provider, "/alphabet.txt");
    let old = browser.cookies.clone();
    let before = provider.questions();
    wait_until("the session is renewed", Duration::from_secs(60), || {
        assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, 200);
        provider.questions() == before + 1
    });
    // The refresh token was good once. Another route, and the server after a reload, must not use it again.
    let mut ask_with_old_cookie = |target: &str| {
        browser.cookies = old.clone();
        browser.ask("GET", target, "").status
    };
    assert_eq!(ask_with_old_cookie("/dir/inner.txt"), 200);
    for more in [", timeout = \"9s\"", ", refresh = \"2h\""] {
        let text = format!("{}{}{route}{}", tree.configuration(""), keys(more), keys(more));
        fs::write(tree.beside("touchstone.toml"), text).unwrap();
        let output = run(["reload", "--config", tree.beside("touchstone.toml").to_str().unwrap()]);
        assert!(output.status.success(), "{:?}", error_lines(&output));
        assert_eq!((ask_with_old_cookie("/alphabet.txt"), ask_with_old_cookie("/dir/inner.txt")), (200, 200));
    }
    assert_eq!(provider.questions(), before + 1);
}

#[test]
fn a_session_ends_when_the_provider_says_so() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(", renew = \"1s\", claims = [\"groups=staff\"]"));
    let staff = serde_json::json!({ "groups": ["staff"] });
    // The user has left the group; is another one all at once; the refresh token is not good any more.
    let changes: [(&str, u16); 3] = [("group", 403), ("user", 200), ("token", 401)];
    for (change, expected) in changes {
        provider.set(|state| {
            state.refresh_token = "r".to_string();
            state.claims = staff.clone();
        });
        let mut browser = Browser::new(&server);
        browser.sign_in(&provider, "/alphabet.txt");
        let before = provider.questions();
        provider.set(|state| match change {
            "group" => state.claims = serde_json::json!({ "groups": [] }),
            "user" => state.claims = serde_json::json!({ "groups": ["staff"], "sub": "mallory" }),
            _ => state.refresh_token = "another".to_string(),
        });
        wait_until("the provider is asked", Duration::from_secs(60), || {
            browser.ask("GET", "/alphabet.txt", "");
            provider.questions() > before
        });
        assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, expected, "{change}");
    }
    server.wait_for_error_line("names the fault", |line| line.contains("the ID token is for another user"));
}

#[test]
fn large_sessions_have_several_cookies_up_to_a_limit() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let keys = provider.keys(", user_information = false");
    provider.set(|state| {
        state.claims = serde_json::json!({ "groups": vec!["a-group-with-a-long-name"; 180] });
        state.metadata = serde_json::json!({ "end_session_endpoint": "https://login.example.org/logout" });
    });
    let server = start(&tree, "", &keys);
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in(&provider, "/alphabet.txt").status, 200);
    assert!(browser.sessions().len() > 1, "{:?}", browser.sessions());
    // One of them is lost: there is no session.
    let last = browser.sessions().pop().unwrap();
    browser.cookies.remove(&last);
    assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, 401);
    // A shorter session removes what the longer one has left.
    provider.set(|state| state.claims = serde_json::json!({}));
    assert_eq!(browser.sign_in(&provider, "/alphabet.txt").status, 200);
    assert_eq!(browser.sessions().len(), 1);
    // With a refresh token beside it the session is too long.
    provider.set(|state| {
        state.claims = serde_json::json!({ "groups": vec!["a-group-with-a-long-name"; 205] });
        state.refresh_token = "r".repeat(4000);
    });
    let mut browser = Browser::new(&server);
    let location = browser.sent_away("/alphabet.txt");
    assert_eq!(browser.come_back(&provider.sign_in(&location)).status, 502);
    server.wait_for_error_line("what to do", |line| line.contains("request fewer scopes"));
}

#[test]
fn a_user_signs_out_here() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    let mut browser = Browser::new(&server);
    let origin = format!("http://{}", browser.host);
    browser.sign_in(&provider, "/alphabet.txt");
    // A page of another site: an image, a link, a form.
    let question = browser.ask("GET", SIGN_OUT, "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(question.status, 200);
    assert!(String::from_utf8_lossy(&question.body).contains("<form method=\"post\">"));
    assert_eq!(question.field("x-frame-options"), Some("DENY"));
    assert_eq!(browser.ask("GET", SIGN_OUT, PAGE).status, 200);
    for fields in [
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
    ] {
        assert_eq!(browser.ask("POST", SIGN_OUT, &format!("{fields}Content-Length: 0\r\n")).status, 403);
    }
    assert_eq!(browser.sessions().len(), 1, "still signed in");
    assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, 200);
    // The button of the question, and a link of the own site.
    let kept = browser.cookies.clone();
    for (method, fields) in [
        ("POST", format!("Origin: {origin}\r\nContent-Length: 0\r\n")),
        ("POST", "Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n".to_string()),
        ("GET", "Sec-Fetch-Site: same-origin\r\n".to_string()),
        ("GET", "Sec-Fetch-Site: none\r\n".to_string()),
    ] {
        browser.cookies = kept.clone();
        let out = browser.ask(method, SIGN_OUT, &fields);
        assert_eq!(out.status, 200, "{method} {fields}");
        assert!(String::from_utf8_lossy(&out.body).contains("You are signed out."));
        assert!(browser.cookies.is_empty());
        assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, 401);
    }
    assert_eq!(browser.ask("PUT", SIGN_OUT, "Content-Length: 0\r\n").status, 405);
}

#[test]
fn a_user_signs_out_at_the_provider() {
    let Some(provider) = Provider::start() else { return };
    provider.set(|state| {
        state.metadata =
            serde_json::json!({ "end_session_endpoint": "https://login.example.org/logout?a=b" });
    });
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(", after_sign_out = \"/goodbye.html\""));
    let mut browser = Browser::new(&server);
    browser.sign_in(&provider, "/alphabet.txt");
    let out = browser.ask("POST", SIGN_OUT, "Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n");
    assert_eq!(out.status, 303);
    let location = out.field("location").unwrap();
    assert!(location.starts_with("https://login.example.org/logout?a=b&id_token_hint=eyJ"), "{location}");
    let asked = parameters(location.split_once('?').unwrap().1);
    assert_eq!(asked["client_id"], "site");
    assert_eq!(asked["post_logout_redirect_uri"], format!("http://{}/goodbye.html", browser.host));
    assert!(browser.cookies.is_empty());
    // Without a session there is none to end there.
    let out = browser.ask("POST", SIGN_OUT, "Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n");
    assert_eq!((out.status, out.field("location")), (303, Some("/goodbye.html")));
}
