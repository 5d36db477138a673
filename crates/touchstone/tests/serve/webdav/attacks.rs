//! Paths that leave the root, name files that configure servers, or bypass the rules of other routes.

use std::fs;
use std::os::unix::fs::symlink;

use super::{ask, configuration, lock, put, server, status, text};
use crate::support::{Server, Tree};

#[test]
fn nothing_is_written_outside_the_root() {
    let tree = Tree::empty();
    fs::create_dir(tree.beside("outside")).expect("a directory");
    fs::write(tree.beside("outside/secret.txt"), "secret").expect("a file");
    symlink("../outside", tree.file("out")).expect("a link");
    symlink("../outside/secret.txt", tree.file("secret")).expect("a link");
    tree.write("a.txt", "a");
    let server = server(&tree, "");
    let address = server.address();
    for target in [
        "/out/new.txt",
        "/../new.txt",
        "/%2e%2e/new.txt",
        "/a%2f..%2f..%2fnew.txt",
        "/a/../../new.txt",
        "/out%00/new.txt",
        "/a.txt%00",
        "/..%5cnew.txt",
    ] {
        for method in ["PUT", "MKCOL", "DELETE", "LOCK", "PROPPATCH"] {
            let answer = ask(address, method, target, "", b"");
            assert!((400..500).contains(&answer.status), "{method} {target}: {}", answer.status);
        }
        let fields = format!("Destination: {target}\r\n");
        for method in ["COPY", "MOVE"] {
            let status = status(address, method, "/a.txt", &fields);
            assert!((400..500).contains(&status), "{method} to {target}: {status}");
        }
    }
    assert_eq!(status(address, "COPY", "/secret", "Destination: /copy\r\n"), 403);
    let listed = text(&ask(address, "PROPFIND", "/", "Depth: 1\r\n", b""));
    assert!(!listed.contains("secret") && !listed.contains("out"), "{listed}");
    assert_eq!(fs::read_dir(tree.beside("outside")).expect("it is there").count(), 1);
    // A link is replaced, and its target is not changed.
    let linked = put(address, "/secret", "new");
    assert!(matches!(linked, 204 | 403), "{linked}");
    assert_eq!(fs::read_to_string(tree.beside("outside/secret.txt")).expect("it is there"), "secret");
    assert_eq!(
        fs::read_dir(tree.around()).expect("it is there").count(),
        4,
        "root, outside, state, configuration"
    );
}

#[test]
fn a_destination_on_another_server_is_refused() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let server = server(&tree, "");
    let address = server.address();
    for (destination, expected) in [
        ("http://other.example/b.txt", 502),
        ("https://dav.example/b.txt", 502),
        ("http://dav.example:81/b.txt", 502),
        ("http://dav.example.other/b.txt", 502),
        ("http://dav.example:80/b.txt", 201),
        ("//dav.example/c.txt", 409),
        ("c.txt", 400),
        ("http://dav.example/c.txt?x", 400),
        ("http://dav.example/%zz", 400),
    ] {
        let status = status(address, "COPY", "/a.txt", &format!("Destination: {destination}\r\n"));
        assert_eq!(status, expected, "{destination}");
    }
}

#[test]
fn names_that_configure_servers_cannot_be_written() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    tree.write(".htaccess", "secret");
    tree.write("box/.git/config", "secret");
    let server = server(&tree, "");
    let address = server.address();
    for target in
        ["/.htaccess", "/.HTACCESS", "/box/.git/config", "/.user.ini", "/.well-known/acme-challenge/x"]
    {
        assert_eq!(put(address, target, "mine"), 403, "{target}");
        assert_eq!(status(address, "DELETE", target, ""), 403, "{target}");
        let fields = format!("Destination: {target}\r\n");
        assert_eq!(status(address, "COPY", "/a.txt", &fields), 403, "{target}");
        assert_eq!(status(address, "PROPFIND", target, "Depth: 0\r\n"), 404, "{target}");
    }
    assert_eq!(status(address, "COPY", "/box/", "Destination: /copy/\r\n"), 201);
    assert!(!tree.file("copy/.git").exists(), "hidden names are not copied");
    assert_eq!(fs::read_to_string(tree.file(".htaccess")).expect("it is there"), "secret");
}

#[test]
fn names_are_escaped_in_answers() {
    let tree = Tree::empty();
    tree.write("<&\"'>.txt", "a");
    tree.write("\u{e4} %41.txt", "b");
    let server = server(&tree, "");
    let listed = text(&ask(server.address(), "PROPFIND", "/", "Depth: 1\r\n", b""));
    assert!(listed.contains("<D:href>/%3C&amp;%22&apos;%3E.txt</D:href>"), "{listed}");
    assert!(listed.contains("<D:href>/%C3%A4%20%2541.txt</D:href>"), "{listed}");
}

#[test]
fn rules_of_other_routes_hold_for_both_ends_and_for_members() {
    let tree = Tree::empty();
    tree.write("box/private/secret.txt", "secret");
    tree.write("box/a.txt", "a");
    let private = "[[site.route]]\npath = \"/box/private/\"\ndeny = [\"127.0.0.1\"]\n";
    let text_of = configuration(&tree, "127.0.0.1:0", "", "");
    let text_of = text_of.replacen("[[site.route]]", &format!("{private}[[site.route]]"), 1);
    let server = Server::configured(tree.around(), &text_of);
    let address = server.address();
    assert_eq!(status(address, "GET", "/box/private/secret.txt", ""), 403);
    for (method, from, to) in [
        ("MOVE", "/box/a.txt", "/box/private/a.txt"),
        ("COPY", "/box/a.txt", "/box/private/secret.txt"),
        ("COPY", "/box/", "/copy/"),
        ("MOVE", "/box/", "/moved/"),
        ("COPY", "/box/private/secret.txt", "/mine.txt"),
    ] {
        assert_eq!(
            status(address, method, from, &format!("Destination: {to}\r\n")),
            403,
            "{method} {from} {to}"
        );
    }
    assert_eq!(status(address, "DELETE", "/box/", ""), 403);
    let listed = text(&ask(address, "PROPFIND", "/box/", "Depth: 1\r\n", b""));
    assert!(listed.contains("/box/a.txt") && !listed.contains("secret"), "{listed}");
    assert!(tree.file("box/private/secret.txt").exists() && tree.file("box/a.txt").exists());
}

#[test]
fn a_link_to_a_directory_means_the_same_locks() {
    let tree = Tree::empty();
    tree.write("real/a.txt", "a");
    symlink("real", tree.file("alias")).expect("a link");
    let server = server(&tree, "");
    let address = server.address();
    lock(address, "/real/a.txt", "");
    assert_eq!(put(address, "/alias/a.txt", "round the lock"), 423);
    assert_eq!(fs::read_to_string(tree.file("real/a.txt")).expect("it is there"), "a");
}
