//! A login over HTTP/3.

use std::fs;

use serde_json::json;

use super::browser::{CALLBACK, SIGN_OUT};
use super::provider::{Provider, SECRET};
use crate::http3_client::Client;
use crate::support::{ALPHABET, Server, Tree};

/// The cookies that an answer sets, as a browser sends them back.
fn cookies(set: &str) -> String {
    let pairs = set.lines().filter(|line| !line.contains("Max-Age=0"));
    pairs.map(|line| line.split(';').next().unwrap_or_default()).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_user_signs_in_over_http3() {
    let Some(provider) = Provider::start() else { return };
    let Some(mut client) = Client::start() else { return };
    let tree = Tree::standard();
    fs::write(tree.beside("secret"), SECRET).unwrap();
    let tls = "\ndevelopment_certificate = true\nhttp3 = true\nroot";
    let configuration = tree.configuration("").replacen("\nroot", tls, 1);
    let fields = "headers = { X-Who = \"$claim{sub}\" }\n";
    let text = format!("{configuration}{fields}{}", provider.keys(""));
    let server = Server::configured(tree.around(), &text);
    client.connect("browser", &server);
    let mut ask = |method: &str, path: &str, cookie: &str, mode: &str| {
        let mut headers = vec![["accept", "text/html"], ["sec-fetch-mode", mode], ["sec-fetch-site", "none"]];
        if !cookie.is_empty() {
            headers.push(["cookie", cookie]);
        }
        let request = json!([{ "method": method, "path": path, "headers": headers }]);
        client.requests("browser", request).remove(0)
    };
    assert_eq!(ask("GET", "/alphabet.txt", "", "cors").status(), 401);
    let away = ask("GET", "/alphabet.txt", "", "navigate");
    assert_eq!(away.status(), 302, "{away:?}");
    let pending = cookies(away.field("set-cookie").unwrap());
    assert!(pending.starts_with("__Host-touchstone-login-"), "{pending}");
    let query = provider.sign_in(away.field("location").unwrap());
    let back = ask("GET", &format!("{CALLBACK}?{query}"), &pending, "navigate");
    assert_eq!(
        (back.status(), back.field("location")),
        (303, Some("/alphabet.txt")),
        "{}",
        server.error_text()
    );
    let session = cookies(back.field("set-cookie").unwrap());
    assert!(session.starts_with("__Host-touchstone-session-"), "{session}");
    // The first may open the session, the second finds it opened.
    for _ in 0..2 {
        let page = ask("GET", "/alphabet.txt", &session, "cors");
        page.assert("the page", 200, ALPHABET.as_bytes());
        assert_eq!(page.field("x-who"), Some("alice"));
    }
    let again = ask("GET", &format!("{CALLBACK}?{query}"), "", "navigate");
    assert_eq!(again.status(), 400, "without the cookie of the login");
    let out = ask("POST", SIGN_OUT, &session, "navigate");
    assert_eq!(out.status(), 200, "{out:?}");
    assert!(out.field("set-cookie").unwrap().contains("Max-Age=0"));
}
