//! `touchstone load --sessions`: a file of sessions against a shop that checks what is brought back.

use crate::support::{Origin, Server, Tree, error_lines, read_head, run};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Logins get a token and a cookie; orders must bring both back, for the user of their row.
fn shop() -> Origin {
    let logins = Arc::new(AtomicU64::new(0));
    Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            let path = head.split(' ').nth(1).unwrap_or_default().to_string();
            let bytes = match path.strip_prefix("/shop/login?user=") {
                Some(user) => login(user, logins.fetch_add(1, Ordering::Relaxed)),
                None => order(&head, &path, stream),
            };
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    })
}

fn login(user: &str, number: u64) -> Vec<u8> {
    let body = format!("{{\"user\":\"{user}\",\"token\":\"{user}-{number}\"}}");
    let fields = format!("Set-Cookie: SID={number}; Path=/shop\r\nLocation: /shop/basket/{number}\r\n");
    format!("HTTP/1.1 303 See Other\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn order(head: &str, path: &str, stream: &mut TcpStream) -> Vec<u8> {
    let field = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.and_then(|line| line.split_once(": ")).map_or("", |(_, value)| value.trim()).to_string()
    };
    let length = field("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    let _ = stream.read_exact(&mut body);
    let number = path.rsplit('/').next().unwrap_or_default();
    let token = String::from_utf8_lossy(&body).replace("token=", "");
    let is_right = field("cookie") == format!("SID={number}")
        && token.rsplit('-').next() == Some(number)
        && token.starts_with(&field("x-user"));
    let status = if is_right { "200 OK" } else { "409 Conflict" };
    format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nbuy.").into_bytes()
}

const SESSIONS: &str = r#"
cookies = true

[[data]]
file = "users.csv"

[[session]]
name = "buyer"
requests = [
  { path = "/login?user=${user}", status = [303],
    extract = { token = "json $.token", basket = "header Location" } },
  { path = "${basket}", method = "POST", body = "token=${token}", headers = ["X-User: ${user}"],
    assert = ["contains buy"] },
]
"#;

fn load(tree: &Tree, origin: &Origin, sessions: &str, more: &[&str]) -> Output {
    std::fs::write(tree.beside("users.csv"), "user\nann\nbob\ncid\n").expect("a file");
    let path = tree.beside("sessions.toml");
    std::fs::write(&path, sessions).expect("a file");
    let (url, path) = (format!("http://{}/shop/", origin.address), path.display().to_string());
    run([&["load", &url, "--sessions", &path, "--clients", "3"], more].concat())
}

#[test]
fn sessions_bring_back_what_they_were_given() {
    let (tree, origin) = (Tree::standard(), shop());
    let output = load(&tree, &origin, SESSIONS, &["--requests", "600", "--json", "--per-url"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&value["requests"], &value["errors"]), (&600.into(), &0.into()), "{value:#}");
    // Each of the three clients may have ended with a login.
    let logins = value["window"]["answers_by_status"]["303"].as_u64();
    assert!(logins.is_some_and(|logins| (300..=303).contains(&logins)), "{value:#}");
    assert_eq!(value["per_url"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_missing_value_is_told_with_the_first_answer_without_it() {
    let (tree, origin) = (Tree::standard(), shop());
    let sessions = SESSIONS.replace("json $.token", "json $.tokens");
    let output = load(&tree, &origin, &sessions, &["--requests", "6", "--fail-if", "extraction>0"]);
    assert_eq!(output.status.code(), Some(3), "{:?}", error_lines(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("extraction: there is no token: json $.tokens"), "{text}");
    assert!(text.contains(": GET /shop/login?user=") && text.contains("its answer: {\"user\":"), "{text}");
}

#[test]
fn what_is_wrong_in_the_file_is_said_with_its_place() {
    let (tree, origin) = (Tree::standard(), shop());
    for (from, to, said) in [
        ("${user}\", status", "${usr}\", status", "unknown variable \"usr\"; is \"user\" meant?"),
        ("users.csv", "user.csv", "sessions.toml:5:8: user.csv: "),
        ("${basket}", "${tokn}", "is \"token\" meant?"),
        ("json $.token", "json token", "is not a JSON path"),
    ] {
        let output = load(&tree, &origin, &SESSIONS.replace(from, to), &[]);
        let lines = error_lines(&output).join("\n");
        assert_eq!(output.status.code(), Some(2), "{lines}");
        assert!(lines.contains(said), "{lines}");
    }
}

#[test]
fn sessions_go_over_every_version_of_http() {
    let tree = Tree::standard();
    tree.write("first.json", br#"{"next":"/second.txt"}"#);
    tree.write("second.txt", b"found");
    let root = tree.root().display().to_string();
    let options = ["--listen", "127.0.0.1:0", "--development-certificate", "--http3", "--cores", "1"];
    let server = Server::start([&["--root", &root][..], &options].concat());
    let sessions = r#"
[[session]]
name = "reader"
requests = [
  { path = "/first.json", extract = { next = "json $.next", tag = "header ETag" } },
  { path = "${next}", headers = ["X-Tag: ${tag}"], assert = ["contains found"] },
]
"#;
    let path = tree.beside("sessions.toml");
    std::fs::write(&path, sessions).expect("a file");
    let (url, path) = (format!("https://{}/", server.address()), path.display().to_string());
    for version in [&[][..], &["--http2"], &["--http2", "--streams", "2"], &["--http3"]] {
        let fixed = ["load", &url, "--sessions", &path, "--insecure", "--clients", "4", "--requests", "80"];
        let output = run([&fixed[..], version, &["--json"]].concat());
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&value["requests"], &value["errors"]), (&80.into(), &0.into()), "{version:?}: {value:#}");
    }
}
