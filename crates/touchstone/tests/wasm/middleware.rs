//! Components in front of a file, a program and another server. `middleware.wasm` is built from
//! `programs/wasm/middleware.c`; the variable MODE determines its action.

use std::io::Write as _;
use std::path::Path;

use super::{behaviours, text};
use crate::support::{AnswerTo, Origin, Server, Tree, read_head, write_program};

/// A route with components before it, in this order.
fn route(tree: &Tree, path: &str, modes: &[&str], keys: &str) -> String {
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasm/middleware.wasm");
    let compiled = tree.beside("compiled");
    let middleware = modes.iter().map(|mode| {
        format!(
            "[[site.route.middleware]]\ncomponent = {component:?}\ncompiled = {compiled:?}\n\
             environment = {{ MODE = \"{mode}\" }}\n"
        )
    });
    format!("[[site.route]]\npath = {path:?}\n{keys}\n{}", middleware.collect::<String>())
}

fn ask(server: &Server, target: &str, fields: &str) -> crate::support::Response {
    server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n"))
}

const TOKEN: &str = "X-Token: t\r\n";

/// Two components before a route: the first refuses requests without a token, the second adds a field.
fn assert_two_stand_before(server: &Server, target: &str, body: &str) {
    let refused = ask(server, target, "");
    assert_eq!((refused.status, text(&refused).as_str()), (403, "no token\n"), "{target}");
    assert_eq!(refused.field("x-tag"), None);
    let answer = ask(server, target, TOKEN);
    assert_eq!((answer.status, text(&answer).as_str()), (200, body), "{target}: {}", server.error_text());
    assert_eq!(answer.field("x-tag"), Some("1"), "{target}");
    assert_eq!(answer.field("touchstone-body"), None, "{target}");
}

#[test]
fn two_stand_before_a_file() {
    let tree = Tree::empty();
    tree.write("files/a.txt", "a file\n");
    let routes = route(&tree, "/files/", &["auth", "tag"], "");
    let server = Server::configured(tree.around(), &(tree.configuration("") + &routes));
    for _ in 0..3 {
        // Also once the file is in the cache.
        assert_two_stand_before(&server, "/files/a.txt", "a file\n");
    }
    assert_eq!(ask(&server, "/files/none.txt", TOKEN).status, 404);
    let part = ask(&server, "/files/a.txt", "X-Token: t\r\nRange: bytes=2-5\r\n");
    assert_eq!((part.status, text(&part).as_str()), (206, "file"));
    let mut client = server.connect();
    client.send(format!("HEAD /files/a.txt HTTP/1.1\r\nHost: a\r\n{TOKEN}Connection: close\r\n\r\n"));
    let head = client.try_answer(AnswerTo::Head).unwrap();
    assert_eq!((head.status, head.field("content-length")), (200, Some("7")));
}

#[test]
fn two_stand_before_a_program() {
    let tree = Tree::empty();
    let programs = tree.beside("cgi-bin");
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s\\n' \"$HTTP_X_USER\"\n";
    write_program(&programs.join("user"), program);
    let keys = format!("cgi = {{ directory = {programs:?} }}");
    let routes = route(&tree, "/cgi-bin/", &["auth", "tag"], &keys);
    let server = Server::configured(tree.around(), &(tree.configuration("") + &routes));
    assert_two_stand_before(&server, "/cgi-bin/user", "ada\n");
}

#[test]
fn two_stand_before_another_server() {
    let tree = Tree::empty();
    let origin = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let user = head.lines().find_map(|line| line.strip_prefix("x-user: ")).unwrap_or("-");
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{user}", user.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let keys = format!("proxy = {{ to = \"http://{}\" }}", origin.address);
    let routes = route(&tree, "/app/", &["auth", "tag"], &keys);
    let server = Server::configured(tree.around(), &(tree.configuration("") + &routes));
    assert_two_stand_before(&server, "/app/x?y=z", "ada");
}

#[test]
fn bodies_can_be_changed_both_ways() {
    let tree = Tree::empty();
    let component = behaviours();
    let compiled = tree.beside("compiled");
    let keys = format!("wasm = {{ component = {component:?}, compiled = {compiled:?} }}");
    let routes = route(&tree, "/", &["upper", "prefix"], &keys);
    let server = Server::configured(tree.around(), &(tree.configuration("") + &routes));
    let request = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    let answer = server.connect().ask(request);
    assert_eq!((answer.status, text(&answer).as_str()), (200, "SEEN: HELLO"), "{}", server.error_text());
    // A body that no component reads bypasses them.
    let routes = route(&tree, "/", &["auth", "tag"], &keys);
    let server = Server::configured(tree.around(), &(tree.configuration("") + &routes));
    let request = request.replace("Host: a\r\n", "Host: a\r\nX-Token: t\r\n");
    assert_eq!(text(&server.connect().ask(request)), "hello");
}

#[test]
fn what_was_not_judged_is_not_asked_for() {
    let tree = Tree::empty();
    tree.write("files/secret.txt", "a secret\n");
    tree.write("open/a.txt", "open\n");
    let routes = "[[site.route]]\npath = \"/files/\"\ndeny = [\"0.0.0.0/0\"]\n".to_string()
        + &route(&tree, "/open/", &["stray"], "");
    let server = Server::configured(tree.around(), &(tree.configuration("") + &routes));
    let answer = ask(&server, "/open/a.txt", "");
    assert_eq!((answer.status, text(&answer).as_str()), (502, "refused\n"));
}
