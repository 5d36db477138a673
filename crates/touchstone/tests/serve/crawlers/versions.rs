//! The check over HTTP/2 and HTTP/3.

use std::fs;

use serde_json::json;

use super::visitor::{MOZILLA, answer_to, task_of};
use crate::http3_client::Client;
use crate::support::{ALPHABET, Server, Tree, curl};

fn start(tree: &Tree) -> Server {
    let tls = "\ndevelopment_certificate = true\nhttp3 = true\nroot";
    let configuration = tree.configuration("").replacen("\nroot", tls, 1);
    let keys = "crawlers = { challenge = \"browsers\", difficulty = 8 }\n";
    Server::configured(tree.around(), &format!("{configuration}{keys}"))
}

/// What curl gets over HTTP/2: the body, and the status with the version and the target of a redirect.
fn ask(tree: &Tree, server: &Server, target: &str) -> Option<(String, String)> {
    let jar = tree.beside("cookies");
    let jar = jar.to_str().unwrap();
    let url = format!("https://{}{target}", server.address());
    let fixed = ["--insecure", "--http2", "--user-agent", MOZILLA, "--cookie", jar, "--cookie-jar", jar];
    let wanted = ["--write-out", "\n%{http_code} %{http_version} %{redirect_url}", &url];
    let output = curl(fixed.into_iter().chain(wanted))?;
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, facts) = text.rsplit_once('\n').unwrap();
    Some((body.to_string(), facts.to_string()))
}

/// The target that takes the answer to the task of a page.
fn way(page: &str) -> String {
    let task = task_of(page);
    format!("/.touchstone/check/pass?task={}&answer={}&to=/alphabet.txt", task.text, answer_to(&task))
}

#[test]
fn a_visitor_passes_over_http2() {
    let tree = Tree::standard();
    let server = start(&tree);
    let Some((page, facts)) = ask(&tree, &server, "/alphabet.txt") else { return };
    assert!(facts.starts_with("403 2 "), "{facts}");
    let (_, facts) = ask(&tree, &server, &way(&page)).unwrap();
    assert!(facts.starts_with("303 2 https://") && facts.ends_with("/alphabet.txt"), "{facts}");
    let (body, facts) = ask(&tree, &server, "/alphabet.txt").unwrap();
    assert!(facts.starts_with("200 2 ") && body == ALPHABET, "{facts}");
    let kept = fs::read_to_string(tree.beside("cookies")).unwrap();
    assert!(kept.contains("__Host-touchstone-check-") && kept.contains("#HttpOnly_"), "{kept}");
}

#[test]
fn a_visitor_passes_over_http3() {
    let Some(mut client) = Client::start() else { return };
    let tree = Tree::standard();
    let server = start(&tree);
    // The client of HTTP/3 keeps the hash of a body only, so curl reads the page.
    let Some((page, _)) = ask(&tree, &server, "/alphabet.txt") else { return };
    client.connect("browser", &server);
    let mut ask = |method: &str, path: &str, cookie: &str| {
        let mut headers = vec![["user-agent", MOZILLA]];
        if !cookie.is_empty() {
            headers.push(["cookie", cookie]);
        }
        let authority = server.address().to_string();
        let request = json!([{ "method": method, "path": path, "authority": authority, "headers": headers }]);
        client.requests("browser", request).remove(0)
    };
    let refused = ask("GET", "/alphabet.txt", "");
    assert_eq!((refused.status(), refused.field("cache-control")), (403, Some("no-store")));
    let cookie = |set: &str| set.split(';').next().unwrap_or_default().to_string();
    let probe = cookie(refused.field("set-cookie").unwrap());
    let passed = ask("GET", &way(&page), &probe);
    assert_eq!((passed.status(), passed.field("location")), (303, Some("/alphabet.txt")));
    let pass = cookie(passed.field("set-cookie").unwrap());
    assert!(pass.starts_with("__Host-touchstone-check-"), "{pass}");
    ask("GET", "/alphabet.txt", &pass).assert("the file", 200, ALPHABET.as_bytes());
    assert_eq!(ask("HEAD", "/alphabet.txt", "").status(), 403);
}
