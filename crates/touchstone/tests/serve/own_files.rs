//! Files of the server itself below a root: its configuration, passwords, keys, logs. No handler gives them
//! out, by no name, and no client changes them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{AnswerTo, Client, Response, Server, Tree, curl, wait_until};

/// The server looks for replaced files once a second. The rest is for a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(1 + 30);

/// The hash of a password.
const USERS: &str = "ann:$2y$05$C1fHPrLJ7SJZ0YwZ8OuBeeKq0bmZTo5yTqU2BLhGQzq7ChYb9Rk5S\n";

/// All of these say "own" in their text.
const OWN: [&str; 5] = ["touchstone.toml", "conf.d/site.toml", "users", "codes.map", "access.log"];

fn ask(server: &Server, method: &str, target: &str, fields: &str, body: &str) -> Response {
    let mut client = Client::connect(server.address());
    let length = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: own\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {fields}\r\n{body}"
    ));
    let to = if method == "HEAD" { AnswerTo::Head } else { AnswerTo::Other };
    client.try_answer(to).unwrap_or_else(|broken| panic!("{method} {target}: {broken}"))
}

fn status(server: &Server, method: &str, target: &str, fields: &str) -> u16 {
    ask(server, method, target, fields, "").status
}

/// A root with all files of the server in it, and other names of them.
fn tree() -> Tree {
    let tree = Tree::empty();
    fs::create_dir(tree.file("conf.d")).unwrap();
    fs::write(tree.file("users"), format!("# own\n{USERS}")).unwrap();
    fs::write(tree.file("codes.map"), "own 1\n").unwrap();
    fs::write(tree.file("access.log"), "own\n").unwrap();
    fs::write(tree.file("page.html"), "page").unwrap();
    fs::write(tree.file("include.shtml"), "a<!--#include file=\"users\" -->b").unwrap();
    fs::create_dir(tree.file("copies")).unwrap();
    fs::create_dir(tree.file("acme")).unwrap();
    fs::write(tree.file("acme/account.key"), "own").unwrap();
    fs::write(tree.file("copies/users"), "users of an application").unwrap();
    symlink("../users", tree.file("copies/link")).unwrap();
    symlink("conf.d", tree.file("linked")).unwrap();
    fs::hard_link(tree.file("users"), tree.file("copies/hard")).unwrap();
    tree
}

fn server(tree: &Tree) -> Server {
    let (root, state) = (tree.root(), tree.beside("state"));
    let site = format!(
        "# own\n[[site]]\nlisten = ['127.0.0.1:0']\nroot = {root:?}\nlisting = 'html'\n\
         includes = {{}}\naccess_log = {{ path = {:?} }}\n\
         [[site.route]]\npath = '/private/'\nbasic_authentication = {{ file = {:?} }}\n\
         [[site.route]]\npath = '/tried/'\ntry_files = ['/users', '/page.html']\n\
         [[site.route]]\npath = '/fallen/'\nfallback = '/users'\n\
         [[site.route]]\npath = '/alias/'\nalias = {root:?}\n\
         [[site.route]]\npath = '/dav/'\nalias = {root:?}\n\
         webdav = {{ write = true, open = true, state = {state:?} }}\n",
        tree.file("access.log"),
        tree.file("users"),
    );
    fs::write(tree.file("conf.d/site.toml"), site).unwrap();
    let text = format!(
        "# own\ninclude = ['conf.d/*.toml']\n[[map]]\nname = 'code'\nfrom = '$path'\nfile = 'codes.map'\n\
         [acme]\ndirectory = 'https://127.0.0.1:1/'\nagree_to_terms = true\nstorage = {:?}\n",
        tree.file("acme")
    );
    Server::configured(&tree.root(), &text)
}

#[test]
fn no_name_leads_to_a_file_of_the_server() {
    let tree = tree();
    let server = server(&tree);
    let mut targets: Vec<String> = OWN.iter().map(|name| format!("/{name}")).collect();
    targets.extend(OWN.iter().map(|name| format!("/alias/{name}")));
    targets.extend(OWN.iter().map(|name| format!("/dav/{name}")));
    let others = [
        "/%75sers",
        "//users",
        "/copies/../users",
        "/copies/link",
        "/copies/hard",
        "/linked/site.toml",
        "/users/",
        "/fallen/x",
        "/acme/account.key",
        "/acme/",
        "/acme",
        "/alias/acme/account.key",
        "/dav/acme/account.key",
        "/dav/copies/hard",
        "/dav/copies/link",
    ];
    targets.extend(others.map(str::to_string));
    for target in &targets {
        // More than once: the answer to a miss of the cache, and what follows.
        for method in ["GET", "GET", "HEAD"] {
            for fields in ["", "Range: bytes=0-3\r\n", "If-None-Match: \"a\"\r\n"] {
                let answer = ask(&server, method, target, fields, "");
                let body = String::from_utf8_lossy(&answer.body);
                assert!(!body.contains("own"), "{method} {target} {fields}: {body}");
                assert_eq!(answer.status, 404, "{method} {target} {fields}");
            }
        }
    }
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for target in &targets {
            let url = format!("http://{}{target}", server.address());
            let Some(output) = curl([version, "--path-as-is", "--write-out", "%{http_code}", &url]) else {
                return;
            };
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.ends_with("404") && !text.contains("own"), "{version} {target}: {text}");
        }
    }
    // Files beside them are served, and one with the same name elsewhere.
    for (target, body) in
        [("/page.html", "page"), ("/copies/users", "users of an application"), ("/tried/x", "page")]
    {
        let answer = ask(&server, "GET", target, "", "");
        assert_eq!((answer.status, &*answer.body), (200, body.as_bytes()), "{target}");
    }
    let page = ask(&server, "GET", "/include.shtml", "", "");
    assert!(!String::from_utf8_lossy(&page.body).contains("own"), "{page:?}");
}

#[test]
fn lists_do_not_name_them() {
    let tree = tree();
    let server = server(&tree);
    let lists =
        [("/", false), ("/alias/", false), ("/dav/", true), ("/copies/", false), ("/dav/copies/", true)];
    for (target, is_webdav) in lists {
        let answer = match is_webdav {
            true => ask(&server, "PROPFIND", target, "Depth: 1\r\n", ""),
            false => ask(&server, "GET", target, "", ""),
        };
        let text = String::from_utf8_lossy(&answer.body);
        assert!(matches!(answer.status, 200 | 207), "{target}: {}", answer.status);
        let is_top = !target.ends_with("copies/");
        assert!(text.contains(if is_top { "page.html" } else { "users" }), "{target}: {text}");
        let own: &[&str] =
            if is_top { &["touchstone.toml", "users", "acme", "access.log"] } else { &["hard"] };
        for name in own {
            assert!(!text.contains(name), "{target} names {name}: {text}");
        }
    }
}

#[test]
fn clients_of_webdav_do_not_change_them() {
    let tree = tree();
    let before = fs::read(tree.file("users")).unwrap();
    let server = server(&tree);
    let to = |target: &str| format!("Destination: http://own{target}\r\n");
    for (method, target, fields) in [
        ("PUT", "/dav/users", String::new()),
        ("DELETE", "/dav/users", String::new()),
        ("DELETE", "/dav/conf.d/", String::new()),
        ("DELETE", "/dav/acme/", String::new()),
        ("MOVE", "/dav/users", to("/dav/other")),
        ("MOVE", "/dav/conf.d/", to("/dav/other/")),
        ("MOVE", "/dav/acme/", to("/dav/other/")),
        ("MOVE", "/dav/page.html", to("/dav/users")),
        ("COPY", "/dav/users", to("/dav/other")),
        ("COPY", "/dav/copies/hard", to("/dav/other")),
        ("COPY", "/dav/copies/link", to("/dav/other")),
        ("COPY", "/dav/page.html", to("/dav/touchstone.toml")),
        ("COPY", "/dav/copies/", to("/dav/conf.d/")),
        ("MKCOL", "/dav/users", String::new()),
        ("LOCK", "/dav/users", String::new()),
        ("PROPPATCH", "/dav/users", String::new()),
    ] {
        let status = status(&server, method, target, &fields);
        assert!((400..500).contains(&status), "{method} {target}: {status}");
    }
    assert_eq!(fs::read(tree.file("users")).unwrap(), before);
    assert!(tree.file("conf.d/site.toml").exists() && tree.file("acme/account.key").exists());
    assert!(!tree.file("other").exists());
    // A copy of a collection has the other members.
    let copied = status(&server, "COPY", "/dav/copies/", &to("/dav/copied/"));
    assert_eq!(copied, 201);
    assert!(tree.file("copied/users").exists());
    assert!(!tree.file("copied/hard").exists());
}

#[test]
fn replaced_and_later_files_are_own_at_once() {
    let tree = tree();
    let server = server(&tree);
    assert_eq!(status(&server, "GET", "/users", ""), 404);
    // As a program does that renews a certificate.
    for turn in 0..20 {
        fs::write(tree.file("users.new"), format!("# own {turn}\n{USERS}")).unwrap();
        fs::rename(tree.file("users.new"), tree.file("users")).unwrap();
        assert_eq!(status(&server, "GET", "/users", ""), 404, "turn {turn}");
    }
    fs::remove_file(tree.file("access.log")).unwrap();
    assert_eq!(status(&server, "GET", "/access.log", ""), 404);
    fs::write(tree.file("access.log"), "own\n").unwrap();
    assert_eq!(status(&server, "GET", "/access.log", ""), 404);
    // Its old content by another name, as the cache has it.
    fs::write(tree.file("copies/later"), "own later").unwrap();
    assert_eq!(status(&server, "GET", "/copies/later", ""), 200);
    fs::remove_file(tree.file("users")).unwrap();
    symlink("copies/later", tree.file("users")).unwrap();
    wait_until("a cached file that is own now", SEEN_WITHIN, || {
        status(&server, "GET", "/copies/later", "") == 404
    });
}

#[test]
fn a_reload_changes_what_is_own() {
    let tree = tree();
    fs::write(tree.file("other"), format!("# own\n{USERS}")).unwrap();
    let server = server(&tree);
    assert_eq!(status(&server, "GET", "/other", ""), 200);
    let text = fs::read_to_string(tree.file("conf.d/site.toml")).unwrap();
    let users = format!("{:?}", tree.file("users"));
    let other = format!("{:?}", tree.file("other"));
    fs::write(tree.file("conf.d/site.toml"), text.replace(&users, &other)).unwrap();
    server.signal(Signal::HUP);
    wait_until("the new file is own", SEEN_WITHIN, || status(&server, "GET", "/other", "") == 404);
    wait_until("the old file is not", SEEN_WITHIN, || status(&server, "GET", "/users", "") == 200);
}
