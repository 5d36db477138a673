//! Login by OpenID Connect: with a provider that behaves as a test requires, and with a real Keycloak.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod attacks;
mod back_channel;
mod browser;
mod claims;
mod http3;
mod keycloak;
mod provider;
mod sessions;

use std::fs;
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{self, Origin, Server, Tree, curl, read_head, run, wait_until, write_program};
use browser::{Browser, CALLBACK, PAGE, SIGN_IN};
use provider::{Provider, SECRET};

/// A server with these keys in its site, after the provider's metadata have been fetched.
fn start(tree: &Tree, before: &str, keys: &str) -> Server {
    fs::write(tree.beside("secret"), format!("{SECRET}\n")).unwrap();
    Server::configured(tree.around(), &format!("{before}{}{keys}", tree.configuration("")))
}

/// A program that prints the information about the user that it gets.
fn program(tree: &Tree) -> &'static str {
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s|%s' \
                \"$REMOTE_USER\" \"$HTTP_X_USER\" \"$HTTP_X_GROUPS\" \"$HTTP_COOKIE\"\n";
    write_program(&tree.beside("cgi/who"), text);
    "[[site.route]]\npath = \"/cgi/\"\ncgi = { directory = \"cgi\" }\n"
}

#[test]
fn a_user_signs_in_and_programs_know_the_user() {
    let Some(provider) = Provider::start() else { return };
    provider.set(|state| state.claims = serde_json::json!({ "groups": ["staff", "cooks"] }));
    let tree = Tree::standard();
    let keys = provider.keys(", fields = { X-User = \"sub\", X-Groups = \"groups\", X-None = \"none\" }");
    let cgi = program(&tree);
    let open = "[[site.route]]\npath = \"/dir/\"\nlogin = { issuer = \"off\" }\n";
    let log = "[access_log]\npath = \"access.log\"\nformat = \"$user $status $request\"\n";
    let mut server = start(&tree, log, &format!("{keys}{open}{cgi}"));
    let mut browser = Browser::new(&server);
    let location = browser.sent_away("/cgi/who?a=b&c=%2F");
    let asked = provider::parameters(location.split_once('?').unwrap().1);
    assert_eq!(asked["redirect_uri"], format!("http://{}{CALLBACK}", browser.host));
    assert_eq!((&*asked["response_type"], &*asked["scope"]), ("code", "openid profile email"));
    let page = browser.sign_in(&provider, "/cgi/who?a=b&c=%2F");
    assert_eq!(String::from_utf8_lossy(&page.body), "alice|alice|staff,cooks|");
    assert_eq!(browser.sessions().len(), 1);
    // The client's values of these fields are dropped, and other cookies are kept.
    browser.cookies.insert("mine".into(), "1".into());
    let forged = format!("{PAGE}X-User: root\r\nx_groups: admins\r\nX-None: x\r\nRemote-User: root\r\n");
    let page = browser.ask("GET", "/cgi/who", &forged);
    assert_eq!(String::from_utf8_lossy(&page.body), "alice|alice|staff,cooks|mine=1");
    assert_eq!(page.field("cache-control"), Some("private, no-cache"));
    assert_eq!(browser.load("/alphabet.txt").body, support::ALPHABET.as_bytes());
    // On a route without a login, programs do not get the cookies either, and files are for all.
    assert_eq!(browser.load("/dir/inner.txt").status, 200);
    assert_eq!(Browser::new(&server).load("/dir/inner.txt").field("cache-control"), None);
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    assert!(log.contains("alice 200 GET /alphabet.txt HTTP/1.1"), "{log}");
    assert!(log.contains(&format!("303 GET {CALLBACK} HTTP/1.1")), "codes are not logged: {log}");
    let told = format!("{log}{}", server.error_text());
    assert!(!told.contains("a secret") && !told.contains("eyJ"), "{told}");
}

#[test]
fn only_navigations_are_redirected() {
    let Some(provider) = Provider::start() else { return };
    let (tree, site) = (Tree::standard(), provider.keys(""));
    let server = start(&tree, "", &site);
    let mut browser = Browser::new(&server);
    browser.sent_away("/alphabet.txt");
    assert_eq!(browser.ask("GET", "/alphabet.txt", "Accept: text/html\r\n").status, 302);
    for (method, fields) in [
        ("GET", ""),
        ("GET", "Accept: */*\r\n"),
        ("GET", "Accept: text/html\r\nSec-Fetch-Mode: cors\r\n"),
        ("GET", "Accept: text/html\r\nX-Requested-With: XMLHttpRequest\r\n"),
        ("POST", &format!("{PAGE}Content-Length: 0\r\n")),
        ("DELETE", PAGE),
    ] {
        let refused = browser.ask(method, "/alphabet.txt", fields);
        assert_eq!(refused.status, 401, "{method} {fields}");
        assert!(refused.field("www-authenticate").is_some() && refused.field("set-cookie").is_none());
        assert_eq!(refused.field("cache-control"), Some("no-store"));
    }
    // A script sends its user to the path that begins a login.
    let location = browser
        .ask("GET", &format!("{SIGN_IN}?to=/dir/inner.txt"), "")
        .field("location")
        .unwrap()
        .to_string();
    let back = browser.come_back(&provider.sign_in(&location));
    assert_eq!(back.field("location"), Some("/dir/inner.txt"));
    assert_eq!(browser.ask("GET", "/dir/inner.txt", "").status, 200);
    assert_eq!(browser.ask("POST", SIGN_IN, "Content-Length: 0\r\n").status, 405);
}

#[test]
fn routes_require_claims_and_share_the_session() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let route = |path: &str, claims: &str| {
        format!(
            "[[site.route]]\npath = \"{path}\"\n{}",
            provider.keys(&format!(", user_information = true{claims}"))
        )
    };
    let keys = format!(
        "{}{}{}",
        provider.keys(", user_information = true, user = \"email\""),
        route("/dir/", ", claims = [\"groups=staff\"]"),
        route("/alphabet.txt", ", claims = [\"groups=admins\"]"),
    );
    let log = "[access_log]\npath = \"access.log\"\nformat = \"$user $status $path\"\n";
    let mut server = start(&tree, log, &keys);
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in(&provider, "/second.txt").status, 200);
    assert_eq!(browser.load("/dir/inner.txt").status, 200);
    assert_eq!(browser.load("/alphabet.txt").status, 403);
    assert_eq!(provider.questions(), 1);
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    assert!(log.contains("alice@a.example 200 /second.txt"), "{log}");
}

#[test]
fn tabs_sign_in_side_by_side() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(""));
    let mut browser = Browser::new(&server);
    let first = browser.sent_away("/alphabet.txt");
    let second = browser.sent_away("/second.txt");
    let back = browser.come_back(&provider.sign_in(&first));
    assert_eq!((back.status, back.field("location")), (303, Some("/alphabet.txt")));
    let back = browser.come_back(&provider.sign_in(&second));
    assert_eq!((back.status, back.field("location")), (303, Some("/second.txt")));
    assert_eq!(browser.cookies.len(), 1, "only the session is left: {:?}", browser.cookies.keys());
    // A page that reloads itself without end does not fill the head of requests.
    browser.cookies.clear();
    for _ in 0..20 {
        browser.sent_away("/second.txt");
    }
    assert_eq!(browser.cookies.len(), 8);
}

#[test]
fn one_users_page_is_not_stored_for_another() {
    let Some(provider) = Provider::start() else { return };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heads = seen.clone();
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            let user =
                head.lines().find_map(|line| line.strip_prefix("X-User: ")).unwrap_or("no user").to_string();
            heads.lock().unwrap().push(head);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\nETag: \"1\"\r\n\
                 Content-Length: {}\r\n\r\n{user}",
                user.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let tree = Tree::standard();
    let keys = provider.keys(", fields = { X-User = \"sub\" }");
    let server = start(&tree, "", &format!("{keys}{}cache = {{}}\n", origin.keys("")));
    let mut alice = Browser::new(&server);
    assert_eq!(alice.sign_in(&provider, "/app/page").body, b"alice");
    provider.set(|state| state.claims = serde_json::json!({ "sub": "bob" }));
    let mut bob = Browser::new(&server);
    assert_eq!(bob.sign_in(&provider, "/app/page").body, b"bob");
    assert_eq!(alice.load("/app/page").body, b"alice");
    assert_eq!(Browser::new(&server).load("/app/page").status, 302);
    assert_eq!(Browser::new(&server).ask("GET", "/app/page", "").status, 401);
    let heads = seen.lock().unwrap();
    assert!(heads.iter().all(|head| !head.contains("touchstone-")), "{heads:?}");
}

#[test]
fn cookies_over_https_are_of_this_host_alone() {
    let Some(provider) = Provider::start() else { return };
    let tree = Tree::standard();
    fs::write(tree.beside("secret"), SECRET).unwrap();
    let configuration =
        tree.configuration("").replacen("\nroot", "\ndevelopment_certificate = true\nroot", 1);
    let server = Server::configured(tree.around(), &format!("{configuration}{}", provider.keys("")));
    let base = format!("https://localhost:{}", server.address().port());
    for version in ["--http1.1", "--http2"] {
        let jar = tree.beside("jar");
        let _ = fs::remove_file(&jar);
        let jar = jar.to_str().unwrap();
        let ask = |target: &str| {
            let url = format!("{base}{target}");
            let arguments = [
                "--insecure",
                version,
                "--include",
                "--cookie",
                jar,
                "--cookie-jar",
                jar,
                "-H",
                "Accept: text/html",
            ];
            let output = curl(arguments.into_iter().chain([url.as_str()]))?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let Some(away) = ask("/alphabet.txt") else { return };
        let field = |text: &str, name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(": "));
            let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
            found
                .next()
                .map(|(_, value)| value.trim().to_string())
                .unwrap_or_else(|| panic!("{name}: {text}"))
        };
        assert!(field(&away, "set-cookie").starts_with("__Host-touchstone-login-"), "{away}");
        assert!(field(&away, "set-cookie").contains("; Secure; HttpOnly; SameSite=Lax"), "{away}");
        let query = provider.sign_in(&field(&away, "location"));
        let back = ask(&format!("{CALLBACK}?{query}")).unwrap();
        assert_eq!(field(&back, "location"), "/alphabet.txt");
        assert!(back.to_lowercase().contains("__host-touchstone-session-"), "{back}");
        assert!(ask("/alphabet.txt").unwrap().ends_with(support::ALPHABET));
    }
}

#[test]
fn while_the_provider_is_down_logins_fail() {
    let Some(provider) = Provider::start() else { return };
    provider.set(|state| state.is_down = true);
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(", timeout = \"5s\""));
    let mut browser = Browser::new(&server);
    let refused = browser.load("/alphabet.txt");
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("5")));
    assert_eq!(browser.ask("GET", "/alphabet.txt", "").status, 401);
    server.wait_for_error_line("the provider is named", |line| line.contains(&provider.issuer()));
    provider.set(|state| state.is_down = false);
    wait_until("the metadata are fetched", Duration::from_secs(60), || {
        browser.load("/alphabet.txt").status == 302
    });
    assert_eq!(browser.sign_in(&provider, "/alphabet.txt").status, 200);
    // Sessions continue without it; logins do not.
    provider.set(|state| state.is_down = true);
    assert_eq!(browser.load("/alphabet.txt").status, 200);
    let mut other = Browser::new(&server);
    let location = other.sent_away("/alphabet.txt");
    assert_eq!(other.come_back(&provider.sign_in(&location)).status, 502);
    provider.set(|state| (state.is_down, state.delay) = (false, Duration::from_secs(60)));
    let location = other.sent_away("/alphabet.txt");
    assert_eq!(other.come_back(&provider.sign_in(&location)).status, 504);
    assert!(other.sessions().is_empty());
    assert_eq!(browser.load("/second.txt").status, 200);
}

#[test]
fn a_wrong_provider_is_named() {
    let Some(provider) = Provider::start() else { return };
    let issuer = format!("{}/", provider.issuer());
    provider.set(|state| state.metadata = serde_json::json!({ "issuer": issuer }));
    let tree = Tree::standard();
    let server = start(&tree, "", &provider.keys(", timeout = \"5s\""));
    assert_eq!(Browser::new(&server).load("/alphabet.txt").status, 503);
    server.wait_for_error_line("the two names", |line| line.contains("they must be equal"));
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let tree = Tree::standard();
    fs::write(tree.beside("short"), "short\n").unwrap();
    fs::write(tree.beside("secret"), "\n").unwrap();
    fs::write(tree.beside("long"), "a secret of at least thirty-two characters\n").unwrap();
    let login = |more: &str| {
        format!("login = {{ issuer = \"https://login.example.org\", client_id = \"a\"{more} }}\n")
    };
    let route = "[[site.route]]\npath = \"/dir/\"\n";
    for (keys, message) in [
        ("login = { issuer = \"https://login.example.org\" }\n".to_string(), "'client_id' is missing"),
        ("login = { issuer = \"http://login.example.org\", client_id = \"a\" }\n".into(), "https://"),
        (login(", key_file = \"none\""), "cannot be read"),
        (login(", key_file = \"short\""), "shorter than 32"),
        (login(", client_secret_file = \"secret\""), "one line"),
        (login(", scopes = [\"email\"]"), "openid"),
        (login(", sign_in = \"/a\", callback = \"/a\""), "the same path"),
        (login(", algorithms = [\"HS256\"]"), "none of RS256"),
        (login(", fields = { Cookie = \"sub\" }"), "cannot have the value of a claim"),
        (login(", parameters = { state = \"x\" }"), "itself sets"),
        (login(", idle = \"9h\""), "longer than 'lifetime'"),
        (format!("{}basic_authentication = {{ file = \"short\" }}\n", login("")), "exclude each other"),
        (format!("{}{route}{}", login(""), login("").replace("\"a\"", "\"b\"")), "a path of its own"),
        (format!("{}{route}{}", login(""), login(", key_file = \"long\"")), "give all of them the same file"),
        (
            format!("{}{route}{}", login(""), login(", key_file = \"long\", callback = \"/back\"")),
            "'key_file' is none and '",
        ),
    ] {
        let path = tree.beside("touchstone.toml");
        fs::write(&path, format!("{}{keys}", tree.configuration(""))).unwrap();
        let output = run(["check", "--config", path.to_str().unwrap()]);
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_ne!(output.status.code(), Some(0), "{keys}");
        assert!(text.contains(message), "{keys}: {text}");
    }
}
