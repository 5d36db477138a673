//! WebAssembly components from the outside. `behaviours.wasm` is built from `programs/wasm/behaviours.c`, see
//! the makefile there, and `imports.wasm` from `programs/wasm/rust` by scripts/setup-components.sh.

#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "../support/mod.rs"]
mod support;

mod hostile;
mod imports;
mod languages;
mod middleware;
mod observed;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use support::{Origin, Response, Server, Tree, bytes_of, read_head};

/// A component that does what the path requests.
fn behaviours() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasm/behaviours.wasm")
}

/// A configuration with a component for all paths but those of files below `/files/`.
fn configuration(tree: &Tree, component: &Path, keys: &str) -> String {
    let compiled = tree.beside("compiled");
    tree.configuration("")
        + &format!(
            "[[site.route]]\npath = \"/files/\"\n\n[[site.route]]\n[site.route.wasm]\n\
             component = {component:?}\ncompiled = {compiled:?}\n{keys}\n"
        )
}

fn server(tree: &Tree, keys: &str) -> Server {
    tree.write("files/a.txt", "a file\n");
    Server::configured(tree.around(), &configuration(tree, &behaviours(), keys))
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

#[test]
fn a_component_answers() {
    let tree = Tree::empty();
    let server = server(&tree, "environment = { LEVEL = \"debug\" }");
    let hello = server.get("/");
    assert_eq!((hello.status, text(&hello).as_str()), (200, "hello\n"));
    assert_eq!(hello.field("content-type"), Some("text/plain"));
    // On a busy machine the first piece may be sent before the length is known.
    assert!(matches!(hello.field("content-length"), Some("6") | None));
    assert_eq!(text(&server.get("/page")), "x".repeat(6250));
    assert_eq!(text(&server.get("/environment")), "LEVEL=debug\n");
    assert_eq!(text(&server.get("/files/a.txt")), "a file\n");
    let head = server.connect().ask("HEAD /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
    // The same connection may have many requests.
    server.assert_serves_many("/page", "one after another");
}

#[test]
fn it_is_told_who_asks() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    let fields = text(&server.connect().ask(
        "GET /fields HTTP/1.1\r\nHost: a\r\nX-Mine: 1\r\nX-Forwarded-For: 9.9.9.9\r\nX-Remote-User: root\r\n\
         Connection: close\r\n\r\n",
    ));
    assert!(fields.contains("x-mine: 1\n"), "{fields}");
    assert!(fields.contains("x-forwarded-for: 127.0.0.1\n"), "{fields}");
    assert!(fields.contains("x-forwarded-proto: http\n"), "{fields}");
    assert!(!fields.contains("root"), "{fields}");
}

#[test]
fn bodies_go_both_ways_in_pieces() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    let body = bytes_of(900_000);
    let mut client = server.connect();
    let mut sending = client.stream().try_clone().unwrap();
    let sent = body.clone();
    let thread = std::thread::spawn(move || {
        let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len());
        sending.write_all(head.as_bytes()).unwrap();
        sending.write_all(&sent).unwrap();
    });
    let answer = client.answer();
    thread.join().unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.body == body, "another body ({} bytes)", answer.body.len());
    // Nothing of the request is left over.
    assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
}

#[test]
fn trailers_go_both_ways() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    for request in [
        "GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n5\r\nbody\n\r\n0\r\nX-Checksum: abc\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(request);
        let (bytes, _) = client.read_to_end();
        let answer = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        assert!(answer.contains("body\n"), "{answer}");
        assert!(answer.ends_with("0\r\nx-checksum: abc\r\n\r\n"), "{answer}");
    }
}

#[test]
fn each_request_has_a_fresh_instance_unless_they_are_reused() {
    let tree = Tree::empty();
    let fresh = server(&tree, "");
    let uses = |server: &Server| -> Vec<String> { (0..5).map(|_| text(&server.get("/count"))).collect() };
    assert_eq!(uses(&fresh), ["001\n"; 5]);
    let reused = server(&tree, "reuse = 3");
    let mut client = reused.connect();
    // An instance is kept when it has ended, which may be after the next request has arrived.
    let answers: Vec<String> =
        (0..100).map(|_| text(&client.ask("GET /count HTTP/1.1\r\nHost: a\r\n\r\n"))).collect();
    assert!(
        answers.iter().all(|answer| ["001\n", "002\n", "003\n"].contains(&answer.as_str())),
        "{answers:?}"
    );
    assert!(answers.iter().any(|answer| answer == "002\n"), "{answers:?}");
}

#[test]
fn requests_that_arrive_at_once_are_all_answered() {
    let tree = Tree::empty();
    // Nothing waits for an instance that is kept, so that one turn of the connection has many requests.
    let server = server(&tree, "reuse = 1000");
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(400));
    for number in 0..400 {
        assert_eq!(client.answer().status, 200, "request {number}: {}", server.error_text());
    }
}

#[test]
fn requests_go_only_where_they_may() {
    let tree = Tree::empty();
    let origin = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let body = head.lines().next().unwrap().to_string();
            let answer = format!("HTTP/1.1 203 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let allowed = origin.address;
    let server = server(&tree, &format!("outgoing = [\"http://{allowed}\"]"));
    let answer = server.get(&format!("/ask/http/{allowed}/a?b=c"));
    assert_eq!((answer.status, text(&answer).as_str()), (203, "GET /a?b=c HTTP/1.1"));
    let other = Origin::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    for refused in [
        format!("/ask/http/{}/", other.address),
        format!("/ask/https/{allowed}/"),
        format!("/ask/http/user@{allowed}/"),
        format!("/ask/http/localhost:{}/", allowed.port()),
    ] {
        let answer = server.get(&refused);
        assert_eq!((answer.status, text(&answer).as_str()), (502, "denied\n"), "{refused}");
    }
    assert_eq!(other.connections(), 0);
    // Without the key it may send none.
    let server = self::server(&tree, "");
    assert_eq!(text(&server.get(&format!("/ask/http/{allowed}/"))), "denied\n");
}

#[test]
fn an_origin_that_does_not_answer_is_an_error_of_its_request() {
    let tree = Tree::empty();
    let gone = support::free_port();
    let server = server(&tree, &format!("outgoing = [\"http://127.0.0.1:{gone}\"]"));
    let answer = server.get(&format!("/ask/http/127.0.0.1:{gone}/"));
    assert_eq!((answer.status, text(&answer).as_str()), (502, "failed\n"));
}

#[test]
fn components_are_compiled_once() {
    let tree = Tree::empty();
    let files = || -> Vec<PathBuf> {
        fs::read_dir(tree.beside("compiled")).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    drop(server(&tree, ""));
    let [file] = &files()[..] else { panic!("{:?}", files()) };
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(tree.beside("compiled")).unwrap().permissions().mode() & 0o777, 0o700);
    let written = fs::metadata(file).unwrap().modified().unwrap();
    assert_eq!(server(&tree, "").get("/").status, 200);
    assert_eq!(fs::metadata(file).unwrap().modified().unwrap(), written);
    // A file that was changed is not used.
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, &bytes).unwrap();
    let changed = server(&tree, "");
    assert_eq!(changed.get("/").status, 200);
    changed.wait_for_error_line("a note", |line| line.contains("it does not match and is written again"));
    bytes[middle] ^= 1;
    assert!(fs::read(file).unwrap() == bytes, "it is not written again");
    // Nor is a directory that others may write to.
    fs::set_permissions(tree.beside("compiled"), fs::Permissions::from_mode(0o777)).unwrap();
    let open = server(&tree, "");
    assert_eq!(open.get("/").status, 200);
    open.wait_for_error_line("a note", |line| line.contains("other users may write to it"));
}

#[test]
fn a_reload_takes_another_component() {
    let tree = Tree::empty();
    let component = tree.beside("component.wasm");
    fs::copy(behaviours(), &component).unwrap();
    let server = Server::configured(tree.around(), &configuration(&tree, &component, ""));
    assert_eq!(server.get("/").status, 200);
    fs::write(&component, b"\0asm\x01\0\0\0").unwrap();
    server.signal(Signal::HUP);
    // The old one continues.
    server.wait_for_error_line("a refusal", |line| line.contains("it is a module, not a component"));
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn what_is_no_component_is_named() {
    let tree = Tree::empty();
    for (bytes, expected) in [
        (&b"\0asm\x01\0\0\0"[..], "it is a module, not a component"),
        (b"#!/bin/sh\n", "it is not a WebAssembly component"),
        (b"\0asm\x0d\0\x01\0", "it exports neither 'wasi:http/incoming-handler' of 0.2 nor"),
        (b"\0asm\x0d\0\x01\0\xff", "failed to parse"),
    ] {
        let path = tree.beside("broken.wasm");
        fs::write(&path, bytes).unwrap();
        let file = tree.beside("touchstone.toml");
        fs::write(&file, configuration(&tree, &path, "")).unwrap();
        let output = support::run([Path::new("serve"), Path::new("--config"), &file]);
        let lines = support::error_lines(&output).join("\n");
        assert!(!output.status.success(), "{lines}");
        assert!(lines.contains(expected), "{lines}");
    }
}

#[test]
fn the_components_are_those_that_were_built() {
    use sha2::Digest as _;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for directory in [here.join("tests/wasm"), here.join("../../programs/wasm")] {
        for line in fs::read_to_string(directory.join("components.sha256")).unwrap().lines() {
            let (expected, name) = line.split_once("  ").unwrap();
            let hash = sha2::Sha256::digest(fs::read(directory.join(name)).unwrap());
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hash, expected, "{name}");
        }
    }
}
