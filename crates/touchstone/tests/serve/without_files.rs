//! Sites without `root`: handlers answer, and there are no files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;

use super::import_nginx::ask;
use crate::support::{Client, Origin, Server, Tree, error_lines, run};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp";

#[test]
fn a_site_of_a_proxy_needs_no_directory() {
    let tree = Tree::standard();
    let origin = Origin::answering(ANSWER);
    let site = "[[site]]\nlisten = [\"127.0.0.1:0\"]\nlisting = \"html\"\n";
    let secret = "[[site.route]]\npath = \"/app/secret/\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n";
    let mut server = Server::configured(tree.around(), &format!("{site}{secret}{}", origin.keys("")));
    let address = server.address();
    let answer = ask(address, "/app/x", "");
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"app"[..]));
    assert_eq!(ask(address, "/app/secret/x", "").status, 403);
    for path in ["/", "/index.html", "/touchstone.toml", "/etc/passwd", "/dev/null", "/..%2f", "/a/../etc/"] {
        let status = ask(address, path, "").status;
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
    for method in ["HEAD", "OPTIONS", "POST", "PUT", "DELETE"] {
        let mut client = Client::connect(address);
        client.send(format!(
            "{method} /index.html HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ));
        let status = String::from_utf8_lossy(&client.read_to_end().0).into_owned();
        assert!(!status.starts_with("HTTP/1.1 20") || method == "OPTIONS", "{method}: {status}");
    }
    server.stop();
}

#[test]
fn check_asks_for_a_directory_where_files_are_served() {
    let tree = Tree::standard();
    let file = tree.beside("touchstone.toml");
    let check = |text: &str| {
        fs::write(&file, format!("[[site]]\nlisten = [\"127.0.0.1:0\"]\n{text}")).unwrap();
        run(["check", "--config", file.to_str().unwrap()])
    };
    let proxied = check("[[site.route]]\nproxy = { to = \"http://127.0.0.1:1\" }\n");
    assert_eq!(proxied.status.code(), Some(0), "{proxied:?}");
    for (text, place) in [("", ":1:1: "), ("[[site.route]]\npath = \"/a/\"\n", ":3:1: ")] {
        let refused = check(text);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        let said = error_lines(&refused).join("\n");
        assert!(said.contains(place) && said.contains("'root'"), "{said}");
    }
}

#[test]
fn check_says_what_to_do_about_usual_mistakes() {
    let tree = Tree::standard();
    let file = tree.beside("touchstone.toml");
    let site = "[[site]]\nlisten = [\"127.0.0.1:0\"]\n";
    let root = tree.root();
    let proxy = "proxy = { to = \"http://127.0.0.1:1\" }\n";
    for (text, code, expected) in [
        (format!("{site}root = \"none\"\n"), 1, &[":3:8: root '", "' does not exist; create it"][..]),
        (
            format!(
                "{site}root = {root:?}\n[[site.route]]\npath = \"/\"\n{proxy}[[site.route]]\npath = \"/a/\"\n"
            ),
            0,
            &["note: ", ":7:1: no request reaches this route", "in line 4", "put this route before it"],
        ),
    ] {
        fs::write(&file, &text).unwrap();
        let output = run(["check", "--config", file.to_str().unwrap()]);
        let said = error_lines(&output).join("\n");
        assert_eq!(output.status.code(), Some(code), "{text}{said}");
        expected.iter().for_each(|part| assert!(said.contains(part), "{part}: {said}"));
    }
}

#[test]
fn serving_an_address_uses_no_directory() {
    let origin = Origin::answering(ANSWER);
    let url = format!("http://{}", origin.address);
    let server = Server::start([url.as_str(), "--listen", "127.0.0.1:0", "--access-log", "off"]);
    assert_eq!(ask(server.address(), "/etc/passwd", "").body, b"app");
}
