//! Sites and routes that require a JSON Web Token. The tokens are made by openssl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

pub(crate) mod issuer;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{self, Client, Origin, Response, Server, Tree, read_head, wait_until, write_program};
use issuer::{Issuer, now_s};

fn ask(client: &mut Client, path: &str, token: &str, more: &str) -> Response {
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n{more}\r\n"))
}

#[test]
fn only_requests_with_a_valid_token_are_answered() {
    let Some(issuer) = Issuer::new("first") else { return };
    let tree = Tree::standard();
    fs::write(tree.beside("keys.json"), issuer.key_set()).unwrap();
    let server = Server::configured(
        tree.around(),
        &format!(
            "{}jwt = {{ keys = \"keys.json\", issuer = \"https://issuer.test/\", audience = [\"api\"] }}\n\
             [[site.route]]\npath = \"/dir/\"\njwt = {{ keys = \"off\" }}\n\
             [[site.route]]\npath = \"/second.txt\"\n\
             jwt = {{ keys = \"keys.json\", audience = [\"api\"], claims = [\"scope=orders.read\"] }}\n",
            tree.configuration("")
        ),
    );
    let mut client = server.connect();
    let none = client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((none.status, none.field("www-authenticate")), (401, Some("Bearer realm=\"Restricted\"")));
    let token = issuer.token("alice", "");
    for _ in 0..3 {
        let answer = ask(&mut client, "/alphabet.txt", &token, "");
        assert_eq!((answer.status, &answer.body[..]), (200, support::ALPHABET.as_bytes()));
    }
    let insufficient = ask(&mut client, "/second.txt", &token, "");
    assert_eq!(insufficient.status, 403);
    assert!(insufficient.field("www-authenticate").unwrap().ends_with("error=\"insufficient_scope\""));
    let enough = issuer.token("alice", ",\"scope\":\"a orders.read\"");
    assert_eq!(ask(&mut client, "/second.txt", &enough, "").status, 200);
    let expired = issuer.token_until("alice", now_s() - 60, "");
    let answer = ask(&mut client, "/alphabet.txt", &expired, "");
    assert_eq!(answer.status, 401);
    assert!(
        answer.field("www-authenticate").unwrap().contains("error_description=\"the token has expired\"")
    );
    let other = Issuer::new("first").unwrap();
    assert_eq!(ask(&mut client, "/alphabet.txt", &other.token("alice", ""), "").status, 401);
    assert_eq!(client.ask("GET /dir/inner.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    // No part of a token is written to the log.
    assert!(!server.error_text().contains(&token[..20]), "{}", server.error_text());
}

#[test]
fn claims_reach_programs_and_origins_and_cannot_be_forged() {
    let Some(issuer) = Issuer::new("first") else { return };
    let seen = Arc::new(Mutex::new(String::new()));
    let heads = seen.clone();
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            *heads.lock().unwrap() = head;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let tree = Tree::standard();
    fs::write(tree.beside("keys.json"), issuer.key_set()).unwrap();
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s %s' \
                \"$AUTH_TYPE\" \"$REMOTE_USER\" \"$HTTP_X_USER\"\n";
    write_program(&tree.beside("cgi/who"), text);
    let server = Server::configured(
        tree.around(),
        &format!(
            "{}jwt = {{ keys = \"keys.json\", audience = [\"api\"], cookie = \"session\", \
             fields = {{ X-User = \"sub\", X-Team = \"team\", Remote-User = \"sub\" }} }}\n{}\
             [[site.route]]\npath = \"/cgi/\"\ncgi = {{ directory = \"cgi\" }}\n",
            tree.configuration(""),
            origin.keys("")
        ),
    );
    let mut client = server.connect();
    let forged = "X-User: root\r\nx_user: root\r\nX-TEAM: admins\r\nRemote-User: root\r\n";
    let token = issuer.token("alice", "");
    assert_eq!(ask(&mut client, "/app/x", &token, forged).status, 200);
    let head = seen.lock().unwrap().clone();
    assert!(head.contains("\r\nX-User: alice\r\n"), "{head}");
    // A field that clients may never set is the server's own here.
    assert!(head.contains("\r\nRemote-User: alice\r\n"), "{head}");
    assert!(!head.to_ascii_lowercase().contains("team") && !head.contains("root"), "{head}");
    let answer = ask(&mut client, "/cgi/who", &token, forged);
    assert_eq!(String::from_utf8_lossy(&answer.body), "Bearer alice alice");
    let cookie = format!("GET /app/y HTTP/1.1\r\nHost: a\r\nCookie: a=b; session={token}\r\n{forged}\r\n");
    assert_eq!(client.ask(cookie).status, 200);
    assert!(seen.lock().unwrap().contains("\r\nX-User: alice\r\n"));
}

/// Answers requests for keys with the text that is set.
fn issuer_server(text: Arc<Mutex<String>>) -> Origin {
    Origin::start(move |stream: &mut TcpStream| {
        while read_head(stream).is_some() {
            let text = text.lock().unwrap().clone();
            let status = if text.is_empty() { "503 Service Unavailable" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    })
}

#[test]
fn keys_are_fetched_and_follow_the_issuer() {
    let (Some(first), Some(second)) = (Issuer::new("first"), Issuer::new("second")) else { return };
    let text = Arc::new(Mutex::new(String::new()));
    let keys = issuer_server(text.clone());
    let tree = Tree::standard();
    let server = Server::configured(
        tree.around(),
        &format!(
            "{}jwt = {{ keys = \"http://{}/keys\", audience = [\"api\"] }}\n",
            tree.configuration(""),
            keys.address
        ),
    );
    let mut client = server.connect();
    let status = |client: &mut Client, token: &str| ask(client, "/alphabet.txt", token, "").status;
    let (of_first, of_second) = (first.token("alice", ""), second.token("bob", ""));
    // There are no keys yet: no request passes.
    assert_eq!(status(&mut client, &of_first), 503);
    *text.lock().unwrap() = first.key_set();
    wait_until("the keys are fetched", Duration::from_secs(60), || status(&mut client, &of_first) == 200);
    assert_eq!(status(&mut client, &of_second), 401);
    // The issuer changes its key: a token that names it has the keys fetched again.
    *text.lock().unwrap() = second.key_set();
    wait_until("the new key is fetched", Duration::from_secs(60), || status(&mut client, &of_second) == 200);
    assert_eq!(status(&mut client, &of_first), 401, "a key that was withdrawn counts no longer");
    // While the issuer is down, the fetched keys remain in use.
    text.lock().unwrap().clear();
    assert_eq!(status(&mut client, &of_second), 200);
}

#[test]
fn a_changed_file_of_keys_is_seen() {
    let (Some(first), Some(second)) = (Issuer::new("first"), Issuer::new("second")) else { return };
    let tree = Tree::standard();
    let file = tree.beside("keys.json");
    fs::write(&file, first.key_set()).unwrap();
    let text = format!("{}jwt = {{ keys = \"keys.json\", audience = [\"api\"] }}\n", tree.configuration(""));
    let server = Server::configured(tree.around(), &text);
    let mut client = server.connect();
    let status = |client: &mut Client, token: &str| ask(client, "/alphabet.txt", token, "").status;
    let (of_first, of_second) = (first.token("alice", ""), second.token("bob", ""));
    assert_eq!(status(&mut client, &of_first), 200);
    fs::write(&file, "{").unwrap();
    server.wait_for_error_line("the fault is told", |line| line.contains("keys.json: is not JSON"));
    assert_eq!(status(&mut client, &of_first), 200);
    fs::write(&file, second.key_set()).unwrap();
    wait_until("the new key is read", Duration::from_secs(60), || status(&mut client, &of_second) == 200);
    assert_eq!(status(&mut client, &of_first), 401);
}

#[test]
fn wrong_keys_of_the_configuration_are_named() {
    let tree = Tree::standard();
    let check = |jwt: &str| {
        let file = tree.beside("touchstone.toml");
        fs::write(&file, format!("{}{jwt}\n", tree.configuration(""))).unwrap();
        let output = support::run(["check", "--config", file.to_str().unwrap()]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let cases = [
        ("jwt = { keys = \"missing.json\" }", "missing.json: cannot be read"),
        ("jwt = { keys = \"http://issuer.test/keys\" }", "must begin with https://"),
        ("jwt = { keys = \"k\", algorithms = [\"none\"] }", "\"none\" is none of RS256"),
        ("jwt = { keys = \"k\", fields = { Connection = \"sub\" } }", "Connection"),
        ("jwt = { keys = \"k\", fields = { Cookie = \"sub\" } }", "Cookie cannot have the value of a claim"),
        ("jwt = { keys = \"k\", claims = [\"scope\"] }", "has not the form \"NAME=VALUE\""),
        ("jwt = { audience = [\"api\"] }", "needs 'keys'"),
        (
            "jwt = { keys = \"off\" }\nbasic_authentication = { file = \"off\" }",
            "'jwt' and 'basic_authentication' exclude each other",
        ),
    ];
    for (jwt, wanted) in cases {
        let (code, text) = check(jwt);
        assert!(code == Some(1) || code == Some(2), "{jwt}: {code:?}");
        assert!(text.contains(wanted), "{jwt}: {text}");
    }
}
