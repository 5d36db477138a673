//! Newer standards of caching: answers to QUERY by their content (RFC 10008), `No-Vary-Search`, and
//! `Cache-Groups` (RFC 9875); in memory, and with copies on disk.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;

use crate::accelerator::origin::{Asked, Origin, answer};
use crate::accelerator::{FRESH, get, text};
use crate::support::{Response, Server, Tree};

/// A server that keeps what it stores in memory alone, and one with copies on disk.
fn on_both(origin: &Origin, check: impl Fn(&Server, &str)) {
    let tree = Tree::empty();
    let memory = Server::accelerating(origin.address, &["--cores", "2"]);
    check(&memory, "/memory");
    check(&with_disk(origin, &tree.beside("disk"), "64MiB"), "/disk");
}

fn with_disk(origin: &Origin, directory: &Path, memory: &str) -> Server {
    let directory = directory.to_str().unwrap();
    let more = ["--cores", "1", "--memory", memory, "--disk", directory, "--disk-size", "64MiB"];
    let server = Server::accelerating(origin.address, &more);
    server.wait_for_error_line("the directory is looked through", |line| line.contains("found on disk"));
    server
}

/// The body of a request.
fn content(asked: &Asked, stream: &mut TcpStream) -> String {
    let length = asked.field("content-length").map_or(0, |length| length.parse().unwrap());
    let mut content = vec![0; length];
    stream.read_exact(&mut content).unwrap();
    String::from_utf8(content).unwrap()
}

fn ask(server: &Server, method: &str, target: &str, fields: &str, content: &str) -> Response {
    let length = content.len();
    server.connect().ask(format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{fields}\r\n{content}"
    ))
}

const TYPE: &str = "Content-Type: text/query\r\n";

/// An origin that answers each request with the number of requests for the target, and with the request.
fn echo() -> Origin {
    Origin::start(|asked, stream| {
        let content = content(asked, stream);
        let method = asked.head.split(' ').next().unwrap();
        let said = format!("{method} {} {content}", asked.count);
        let fields = match asked.field("x-fields") {
            Some(said) => format!("{FRESH}{}\r\n", said.replace('|', "\r\n")),
            None => FRESH.to_string(),
        };
        answer(stream, 200, &fields, &said);
    })
}

#[test]
fn answers_to_query_are_stored_by_their_content() {
    let origin = echo();
    on_both(&origin, |server, path| {
        let query = |fields: &str, content: &str| ask(server, "QUERY", path, fields, content);
        assert_eq!(text(&get(server, path, "")), "GET 1 ");
        assert_eq!(text(&query(TYPE, "select a")), "QUERY 2 select a");
        let hit = query("content-type: Text/Query\r\n", "select a");
        assert_eq!(text(&hit), "QUERY 2 select a");
        assert!(hit.field("cache-status").unwrap().starts_with("touchstone; hit; ttl="), "{hit:?}");
        assert_eq!(text(&query(TYPE, "select b")), "QUERY 3 select b");
        assert_eq!(text(&query("Content-Type: text/other\r\n", "select a")), "QUERY 4 select a");
        // Neither has taken the other's place.
        assert_eq!(text(&get(server, path, "")), "GET 1 ");
        assert_eq!(text(&query(TYPE, "select a")), "QUERY 2 select a");
        // Without a media type, too long, and from a known user: the origin answers each time.
        for (fields, content) in [("", "x".to_string()), (TYPE, "x".repeat(64 * 1024 + 1))] {
            for _ in 0..2 {
                let answer = query(fields, &content);
                assert_eq!(answer.field("cache-status"), Some("touchstone; fwd=method"));
                assert!(text(&answer).ends_with(&content));
            }
        }
        let longest = "y".repeat(64 * 1024);
        let first = text(&query(TYPE, &longest));
        assert_eq!(text(&query(TYPE, &longest)), first);
        // An unsafe request takes all of them away.
        assert_eq!(ask(server, "POST", path, TYPE, "").status, 200);
        assert!(text(&query(TYPE, "select a")) != "QUERY 2 select a");
        assert!(text(&get(server, path, "")) != "GET 1 ");
    });
}

#[test]
fn an_answer_to_query_is_validated_and_read_in_part_by_no_one() {
    let origin = Origin::start(|asked, stream| {
        let content = content(asked, stream);
        let fields = "Cache-Control: max-age=0\r\nETag: \"v\"\r\n";
        match asked.field("if-none-match") {
            Some("\"v\"") => answer(stream, 304, fields, ""),
            _ => answer(stream, 200, fields, &format!("{} {content}", asked.count)),
        }
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    let query = |fields: &str| ask(&server, "QUERY", "/a", &format!("{TYPE}{fields}"), "q");
    assert_eq!(text(&query("")), "1 q");
    let validated = query("");
    assert_eq!(text(&validated), "1 q");
    assert_eq!(validated.field("cache-status"), Some("touchstone; fwd=stale; fwd-status=304; ttl=0; stored"));
    let whole = query("Range: bytes=0-0\r\n");
    assert_eq!((whole.status, text(&whole)), (200, "1 q".to_string()));
    assert_eq!(query("If-None-Match: \"v\"\r\n").status, 304);
}

#[test]
fn what_memory_has_no_room_for_is_found_on_disk() {
    let origin = Origin::start(|asked, stream| {
        let content = content(asked, stream);
        let fields = format!("{FRESH}No-Vary-Search: params=(\"u\")\r\nCache-Groups: \"all\"\r\n");
        answer(stream, 200, &fields, &format!("{} {content} {}", asked.count, "x".repeat(10_000)));
    });
    let tree = Tree::empty();
    let server = with_disk(&origin, &tree.beside("disk"), "1MiB");
    let query = |content: &str| text(&ask(&server, "QUERY", "/q", TYPE, content));
    let first = (query("first"), text(&get(&server, "/n?id=first&u=1", "")));
    for index in 0..300 {
        query(&index.to_string());
        get(&server, &format!("/n?id={index}"), "");
    }
    assert_eq!((query("first"), text(&get(&server, "/n?u=2&id=first", ""))), first);
    assert_eq!(origin.count("/n?u=2&id=first"), 0);
}

#[test]
fn a_query_is_the_same_where_the_response_says_so() {
    let origin = Origin::start(|asked, stream| {
        let said = match asked.target.split(['?', '/']).nth(2) {
            Some("utm") => "No-Vary-Search: params=(\"utm_source\" \"utm_medium\")\r\n",
            Some("only") => "No-Vary-Search: params, except=(\"id\")\r\n",
            Some("order") => "No-Vary-Search: key-order\r\n",
            Some("wrong") => "No-Vary-Search: params=(not-a-string)\r\n",
            Some("private") => "No-Vary-Search: params\r\nVary: X-Lang\r\nSet-Cookie: a=b\r\n",
            _ => "",
        };
        answer(stream, 200, &format!("{FRESH}{said}"), &asked.target);
    });
    on_both(&origin, |server, base| {
        let got = |target: &str, fields: &str| text(&get(server, &format!("{base}{target}"), fields));
        for (first, second, is_same) in [
            ("/utm?id=1&utm_source=a", "/utm?id=1", true),
            ("/utm?id=1&utm_source=a", "/utm?utm_medium=x&id=%31&utm_source=b", true),
            ("/utm?id=2", "/utm?id=3", false),
            ("/utm?id=4&x=1", "/utm?x=1&id=4", false),
            ("/only?id=1&a=2", "/only?b=3&id=1", true),
            ("/only?id=5", "/only", false),
            ("/order?a=1&b=2", "/order?b=2&a=1", true),
            ("/wrong?a=1", "/wrong?a=2", false),
            ("/plain?a=1", "/plain?a=2", false),
            ("/private?a=1", "/private?a=2", false),
        ] {
            assert_eq!(got(first, ""), format!("{base}{first}"));
            let second_answer = got(second, "");
            let expected = if is_same { first } else { second };
            assert_eq!(second_answer, format!("{base}{expected}"), "{first} {second}");
        }
        // A client's directives for the cache count here too.
        let target = format!("{base}/utm?id=1&utm_source=c");
        assert_eq!(got("/utm?id=1&utm_source=c", "Cache-Control: no-cache\r\n"), target);
        // A purge of one query removes it alone, and it is requested again.
        assert_eq!(ask(server, "POST", &format!("{base}/utm?id=1&utm_source=z"), "", "").status, 200);
        let other_order = "/utm?id=1&utm_source=z";
        assert_eq!(got(other_order, ""), format!("{base}{other_order}"));
    });
}

#[test]
fn groups_are_made_stale_together_within_an_origin() {
    let origin = echo();
    on_both(&origin, |server, base| {
        let path = |name: &str| format!("{base}/{name}");
        let member = |name: &str, host: &str, groups: &str| {
            let fields = if groups.is_empty() { String::new() } else { format!("X-Fields: {groups}\r\n") };
            let target = path(name);
            text(&server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")))
        };
        let groups = "Cache-Groups: \"scripts\", \"eurovision-results\"";
        member("one", "a", groups);
        member("two", "a", "Cache-Groups: \"kylie-minogue\"");
        member("three", "a", "Cache-Groups: \"other\"");
        member("four", "a", "");
        member("one", "elsewhere", groups);
        let answers = || {
            ["one", "two", "three", "four"].map(|name| member(name, "a", "")[4..5].to_string()).join(",")
                + &member("one", "elsewhere", "")[4..5]
        };
        assert_eq!(answers(), "1,1,1,12");
        let said = "Cache-Group-Invalidation: \"eurovision-results\", \"kylie-minogue\"";
        // The field is for unsafe methods alone.
        get(server, &path("safe"), &format!("X-Fields: {said}\r\n"));
        assert_eq!(answers(), "1,1,1,12");
        ask(server, "POST", &path("form"), &format!("X-Fields: {said}\r\n"), "");
        assert_eq!(answers(), "3,2,1,12");
    });
}

#[test]
fn what_shares_a_group_with_what_was_changed_goes_with_it_and_no_further() {
    let origin = echo();
    on_both(&origin, |server, base| {
        let path = |name: &str| format!("{base}/{name}");
        let count = |name: &str, groups: &str| {
            text(&get(server, &path(name), &format!("X-Fields: Cache-Groups: {groups}\r\n")))[4..5]
                .to_string()
        };
        assert_eq!([count("a", "\"x\""), count("b", "\"x\", \"y\""), count("c", "\"y\"")], ["1", "1", "1"]);
        assert_eq!(ask(server, "DELETE", &path("a"), "", "").status, 200);
        assert_eq!([count("a", "\"x\""), count("b", "\"x\", \"y\""), count("c", "\"y\"")], ["3", "2", "1"]);
    });
}

#[test]
fn a_group_that_was_made_stale_does_not_come_back_after_a_restart() {
    let origin = echo();
    let tree = Tree::empty();
    let member = |server: &Server, name: &str| text(&get(server, name, "X-Fields: Cache-Groups: \"g\"\r\n"));
    {
        let mut server = with_disk(&origin, &tree.beside("disk"), "64MiB");
        assert_eq!([member(&server, "/a"), member(&server, "/b")], ["GET 1 ", "GET 1 "]);
        server.stop();
    }
    {
        let mut server = with_disk(&origin, &tree.beside("disk"), "64MiB");
        assert_eq!(member(&server, "/a"), "GET 1 ");
        ask(&server, "POST", "/c", "X-Fields: Cache-Group-Invalidation: \"g\"\r\n", "");
        server.stop();
    }
    let server = with_disk(&origin, &tree.beside("disk"), "64MiB");
    assert_eq!([member(&server, "/a"), member(&server, "/b")], ["GET 2 ", "GET 2 "]);
}
