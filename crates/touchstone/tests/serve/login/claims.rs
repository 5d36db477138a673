//! Claims of sessions and tokens as variables: keys of rates, logs and their conditions, fields.

use std::fs;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::browser::Browser;
use super::provider::Provider;
use super::start;
use crate::support::{Origin, Tree, read_head};
use crate::tokens::issuer::Issuer;

/// A browser of this user.
fn browser_of<'s>(
    server: &'s crate::support::Server,
    provider: &Provider,
    user: &str,
    tenant: &str,
) -> Browser<'s> {
    let claims = json!({ "sub": user, "tenant": { "name": tenant }, "groups": ["staff", "cooks"] });
    provider.set(|state| state.claims = claims);
    let mut browser = Browser::new(server);
    let location = browser.sent_away("/dir/inner.txt");
    assert_eq!(browser.come_back(&provider.sign_in(&location)).status, 303);
    browser
}

#[test]
fn rates_count_by_claims_when_the_user_is_known() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let rate = "rate_limit = { requests = 2, per = \"1h\", key = \"$claim{tenant.name}\" }\n";
    let by_user = "[[site.route]]\npath = \"/alphabet.txt\"\n\
                   rate_limit = { requests = 1, per = \"1h\", key = \"$user\" }\n";
    let server = start(&tree, "", &format!("{rate}{}{by_user}", provider.keys("")));
    let mut alice = browser_of(&server, &provider, "alice", "one");
    let mut bob = browser_of(&server, &provider, "bob", "one");
    let mut carol = browser_of(&server, &provider, "carol", "two");
    let status = |browser: &mut Browser<'_>, path: &str| browser.ask("GET", path, "").status;
    // Logins are not counted, and requests without a session neither.
    for _ in 0..5 {
        assert_eq!(status(&mut Browser::new(&server), "/dir/inner.txt"), 401);
    }
    assert_eq!(status(&mut alice, "/dir/inner.txt"), 200);
    assert_eq!(status(&mut bob, "/dir/inner.txt"), 200);
    assert_eq!(status(&mut alice, "/dir/inner.txt"), 429);
    assert_eq!(status(&mut bob, "/second.txt"), 429);
    assert_eq!(status(&mut carol, "/dir/inner.txt"), 200);
    assert_eq!([status(&mut alice, "/alphabet.txt"), status(&mut bob, "/alphabet.txt")], [200, 200]);
    assert_eq!(status(&mut alice, "/alphabet.txt"), 429);
}

#[test]
fn logs_fields_and_origins_get_claims() {
    let Some(provider) = Provider::start() else { return };
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = heads.clone();
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            kept.lock().unwrap().push(head.to_lowercase());
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    });
    let tree = Tree::standard();
    let log = "[access_log]\npath = \"access.log\"\nwhen = '$claim{groups} =~ \"staff\"'\n\
               format = \"$claim{tenant.name} $claim{none}|$claim{groups} $path\"\n";
    let fields = "headers = { X-Tenant = \"$claim{tenant.name}\", X-None = \"$claim{none}\" }\n";
    let set = ", forward = { set = { X-Tenant = \"$claim{tenant.name}\" } }";
    let mut server = start(&tree, log, &format!("{fields}{}{}", provider.keys(""), origin.keys(set)));
    let mut browser = browser_of(&server, &provider, "alice", "one");
    let page = browser.ask("GET", "/alphabet.txt", "");
    assert_eq!((page.status, page.field("x-tenant"), page.field("x-none")), (200, Some("one"), None));
    assert_eq!(browser.ask("GET", "/app/x", "X-Tenant: forged\r\n").status, 200);
    let head = heads.lock().unwrap()[0].clone();
    assert!(head.contains("\r\nx-tenant: one\r\n") && !head.contains("forged"), "{head}");
    // Without a session there are no claims, so these lines are not written.
    assert_eq!(Browser::new(&server).ask("GET", "/second.txt", "").status, 401);
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    // The cores write their lines separately.
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one -|staff,cooks /alphabet.txt", "one -|staff,cooks /app/x"]);
}

#[test]
fn tokens_have_claims_too() {
    let Some(issuer) = Issuer::new("key") else { return };
    let tree = Tree::standard();
    fs::write(tree.beside("keys.json"), issuer.key_set()).unwrap();
    let jwt = "jwt = { keys = \"keys.json\", issuer = \"https://issuer.test/\", audience = [\"api\"] }\n\
               rate_limit = { requests = 1, per = \"1h\", key = \"$claim{tenant}\" }\n\
               headers = { X-Tenant = \"$claim{tenant}\" }\n";
    let server = start(&tree, "", jwt);
    let ask = |token: &str| {
        let head = format!("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        server.connect().ask(head)
    };
    let (one, other) = (issuer.token("a", ",\"tenant\":\"t1\""), issuer.token("b", ",\"tenant\":\"t2\""));
    let answer = ask(&one);
    assert_eq!((answer.status, answer.field("x-tenant")), (200, Some("t1")));
    // The token is known now: the quick way counts as the slow one does.
    assert_eq!([ask(&one).status, ask(&other).status, ask(&other).status], [429, 200, 429]);
    // A token without the claim is not counted.
    let none = issuer.token("c", "");
    assert_eq!([ask(&none).status, ask(&none).status], [200, 200]);
}
