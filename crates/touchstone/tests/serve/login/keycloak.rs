//! A real Keycloak: signing in with its form, claims, renewal, sign-out, and its end.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::browser::{Browser, SIGN_OUT};
use super::{program, provider};
use crate::support::{Server, Tree, curl, error_lines, free_port, run, skipped, wait_until};

/// A machine that is busy with other tests may take minutes to start it.
const START: Duration = Duration::from_secs(400);

/// A running Keycloak; it ends with the test.
struct Keycloak {
    process: Child,
    base: String,
    jar: PathBuf,
}

impl Keycloak {
    /// `None`, with a visible word, where it is not installed.
    fn start(tree: &Tree) -> Option<Keycloak> {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
        let program = cache.join("touchstone/bin/kc.sh");
        if !program.exists() {
            skipped("login with Keycloak (run scripts/setup-keycloak.sh, which needs Java 17)");
            return None;
        }
        let port = free_port();
        let process = Command::new(program)
            .args(["start", "--optimized", "--http-enabled=true", "--hostname-strict=false", "--cache=local"])
            .args(["--http-host=127.0.0.1", &format!("--http-port={port}")])
            .env("KC_BOOTSTRAP_ADMIN_USERNAME", "admin")
            .env("KC_BOOTSTRAP_ADMIN_PASSWORD", "admin")
            .env("JAVA_OPTS_KC_HEAP", "-Xms64m -Xmx512m")
            // The better of the two compilers takes half of the processor time of a start.
            .env("JAVA_OPTS_APPEND", "-XX:TieredStopAtLevel=1")
            // It is a script that starts Java: both end with the group.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(fs::File::create(tree.beside("keycloak.log")).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut keycloak =
            Keycloak { process, base: format!("http://127.0.0.1:{port}"), jar: tree.beside("provider-jar") };
        let log = tree.beside("keycloak.log");
        wait_until("Keycloak answers", START, || {
            let state = keycloak.process.try_wait().unwrap();
            assert!(state.is_none(), "{state:?}: {}", fs::read_to_string(&log).unwrap());
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(keycloak)
    }

    fn end(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }

    fn issuer(&self) -> String {
        format!("{}/realms/kitchen", self.base)
    }

    /// Asks it, with its own cookies, and returns head and body.
    fn ask(&self, arguments: &[&str], path: &str) -> String {
        let url = if path.starts_with("http") { path.to_string() } else { format!("{}{path}", self.base) };
        let jar = self.jar.to_str().unwrap();
        let fixed = ["--include", "--cookie", jar, "--cookie-jar", jar];
        let output = curl(fixed.iter().chain(arguments).chain(&[url.as_str()])).expect("curl is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn administrate(&self, method: &str, path: &str, document: &serde_json::Value) -> String {
        let form = "grant_type=password&client_id=admin-cli&username=admin&password=admin";
        let answer = self.ask(&["--data", form], "/realms/master/protocol/openid-connect/token");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let tokens: serde_json::Value = serde_json::from_str(body).unwrap();
        let token = format!("Authorization: Bearer {}", tokens["access_token"].as_str().unwrap());
        let text = document.to_string();
        let kind = "Content-Type: application/json";
        let answer = self
            .ask(&["-X", method, "-H", &token, "-H", kind, "--data", &text], &format!("/admin/realms{path}"));
        assert!(answer.contains("HTTP/1.1 20"), "{method} {path}: {answer}");
        answer
    }

    /// A realm with one client and one user.
    fn make_realm(&self, host: &str) {
        let mapper = serde_json::json!({
            "name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
            "config": { "claim.name": "groups", "full.path": "false", "id.token.claim": "true" },
        });
        let client = serde_json::json!({
            "clientId": "site", "secret": "a secret of keycloak", "protocol": "openid-connect",
            "redirectUris": [format!("http://{host}/.touchstone/login/callback")],
            "attributes": {
                "pkce.code.challenge.method": "S256",
                "post.logout.redirect.uris": format!("http://{host}/goodbye.html"),
                "backchannel.logout.url": format!("http://{host}/.touchstone/login/back-channel"),
                "backchannel.logout.session.required": "true",
            },
            "protocolMappers": [mapper],
        });
        let user = serde_json::json!({
            "username": "alice", "enabled": true, "email": "alice@a.example", "emailVerified": true,
            "firstName": "Alice", "lastName": "A", "groups": ["/staff"],
            "credentials": [{ "type": "password", "value": "wonderland", "temporary": false }],
        });
        self.administrate(
            "POST",
            "",
            &serde_json::json!({
                "realm": "kitchen", "enabled": true, "sslRequired": "external",
                "groups": [{ "name": "staff" }], "clients": [client], "users": [user],
            }),
        );
    }

    /// An administrator ends all sessions of a user.
    fn end_sessions(&self, user: &str) {
        let found =
            self.administrate("GET", &format!("/kitchen/users?username={user}"), &serde_json::json!({}));
        let users: serde_json::Value = serde_json::from_str(found.split_once("\r\n\r\n").unwrap().1).unwrap();
        let id = users[0]["id"].as_str().unwrap();
        self.administrate("POST", &format!("/kitchen/users/{id}/logout"), &serde_json::json!({}));
    }

    /// Fills in the form of the page at this address; returns the query of the callback.
    fn sign_in(&self, location: &str, password: &str) -> Option<String> {
        let page = self.ask(&[], location);
        let Some((_, rest)) = page.split_once("action=\"") else {
            // The user is known already: the provider sends the browser back at once.
            return callback(&page);
        };
        let action = rest.split_once('"').unwrap().0.replace("&amp;", "&");
        let form = format!("username=alice&password={password}&credentialId=");
        callback(&self.ask(&["--data", &form], &action))
    }
}

fn callback(answer: &str) -> Option<String> {
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("location: "))?;
    Some(line.split_once('?')?.1.trim().to_string())
}

impl Drop for Keycloak {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_user_of_keycloak_signs_in_and_out() {
    let tree = Tree::standard();
    let Some(mut keycloak) = Keycloak::start(&tree) else { return };
    fs::write(tree.beside("secret"), "a secret of keycloak\n").unwrap();
    let issuer = keycloak.issuer();
    let login = |more: &str| {
        format!(
            "login = {{ issuer = \"{issuer}\", client_id = \"site\", client_secret_file = \"secret\", \
             user = \"preferred_username\", fields = {{ X-User = \"email\", X-Groups = \"groups\" }}, \
             after_sign_out = \"/goodbye.html\", renew = \"1s\", \
             timeout = \"60s\"{more} }}\n"
        )
    };
    let cgi = program(&tree);
    let admins = "[[site.route]]\npath = \"/dir/\"\n";
    let text = format!(
        "{}{}{cgi}{admins}{}",
        tree.configuration(""),
        login(""),
        login(", claims = [\"groups=admins\"]")
    );
    let server = Server::configured(tree.around(), &text);
    let mut browser = Browser::new(&server);
    keycloak.make_realm(&browser.host);
    wait_until("the metadata are fetched", Duration::from_secs(120), || {
        browser.load("/cgi/who").status == 302
    });
    browser.cookies.clear();
    let location = browser.sent_away("/cgi/who");
    assert!(keycloak.sign_in(&location, "wrong").is_none());
    let location = browser.sent_away("/cgi/who");
    let back = keycloak.sign_in(&location, "wonderland").expect("the password is right");
    let answer = browser.come_back(&back);
    assert_eq!((answer.status, answer.field("location")), (303, Some("/cgi/who")), "{}", server.error_text());
    let page = browser.load("/cgi/who");
    assert_eq!(String::from_utf8_lossy(&page.body), "alice|alice@a.example|staff|");
    assert_eq!(browser.load("/dir/inner.txt").status, 403);
    assert_eq!(browser.come_back(&back).status, 400, "a callback is good once");
    // The refresh token brings what has changed.
    let sealed = browser.cookies.clone();
    wait_until("the session is renewed", Duration::from_secs(60), || {
        assert_eq!(browser.load("/cgi/who").status, 200);
        browser.cookies != sealed
    });
    // At the sign-out Keycloak gets the user, and does not ask for a confirmation.
    let out = browser.ask("POST", SIGN_OUT, "Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n");
    assert_eq!(out.status, 303);
    let away = out.field("location").unwrap().to_string();
    let asked = provider::parameters(away.split_once('?').unwrap().1);
    let after = keycloak.ask(&[], &away);
    assert!(after.contains(&format!("ocation: {}", asked["post_logout_redirect_uri"])), "{after}");
    assert_eq!(browser.ask("GET", "/cgi/who", "").status, 401);
    let location = browser.sent_away("/cgi/who");
    assert!(keycloak.ask(&[], &location).contains("action=\""), "Keycloak asks for the password again");
    // An administrator ends the session there: the back channel reports it, long before the session is
    // renewed.
    fs::write(tree.beside("touchstone.toml"), text.replace("renew = \"1s\"", "renew = \"1h\"")).unwrap();
    let output = run(["reload", "--config", tree.beside("touchstone.toml").to_str().unwrap()]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    let location = browser.sent_away("/cgi/who");
    let back = keycloak.sign_in(&location, "wonderland").expect("the password is right");
    assert_eq!(browser.come_back(&back).status, 303);
    assert_eq!(browser.load("/cgi/who").status, 200);
    keycloak.end_sessions("alice");
    wait_until("the session ends here too", Duration::from_secs(60), || {
        browser.ask("GET", "/cgi/who", "").status == 401
    });
    assert!(!server.error_text().contains("a logout token is refused"), "{}", server.error_text());
    // While it is down, sessions continue and logins fail.
    let location = browser.sent_away("/cgi/who");
    let back = keycloak.sign_in(&location, "wonderland").expect("the password is right");
    assert_eq!(browser.come_back(&back).status, 303);
    let mut other = Browser::new(&server);
    let location = other.sent_away("/cgi/who");
    let back = keycloak.sign_in(&location, "wonderland").expect("the user is known");
    keycloak.end();
    assert_eq!(other.come_back(&back).status, 502);
    assert_eq!(browser.load("/cgi/who").status, 200);
    let log = server.error_text();
    assert!(!log.contains("a secret") && !log.contains("eyJ"), "{log}");
}
