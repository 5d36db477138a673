//! HTTP/1.1: the connection goes on behind a short rest of a body; behind a long one it ends, and the client
//! can still read its answer. Bytes of a body are never taken for a request.

use std::fs;
use std::time::Duration;

use super::{UNREAD, configuration};
use crate::support::{ALPHABET, Client, Origin, SECOND, Server, Tree, bytes_of, wait_until};

const SECOND_REQUEST: &str = "GET /second.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// A body of requests, which must never be answered.
fn requests(bytes: usize) -> Vec<u8> {
    SECOND_REQUEST.as_bytes().iter().copied().cycle().take(bytes).collect()
}

fn server() -> (Tree, Server, Origin) {
    let tree = Tree::standard();
    let (text, origin) = configuration(&tree, "");
    let server = Server::configured(tree.around(), &text);
    // From now on there are too many requests.
    assert_eq!(server.get("/often").status, 404);
    (tree, server, origin)
}

fn head(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn assert_goes_on(client: &mut Client, what: &str) {
    let answer = client.answer();
    assert_eq!((answer.status, &answer.body[..]), (200, SECOND.as_bytes()), "{what}");
}

/// Nothing more arrives before an orderly end.
fn assert_ends(client: &mut Client, what: &str) {
    let (received, ended) = client.read_to_end();
    assert!(received.is_empty(), "{what}: {}", received.escape_ascii());
    assert!(ended.is_ok(), "{what}: {}", ended.expect_err("it is not"));
}

#[test]
fn answers_do_not_wait_for_bodies_that_they_do_not_need() {
    let (_tree, server, _origin) = server();
    for unread in UNREAD {
        let framings = [
            ("Content-Length: 10\r\n", "hello", "world"),
            ("Transfer-Encoding: chunked\r\n", "a\r\nhello", "world\r\n0\r\n\r\n"),
        ];
        let framings = if unread.without_length { &framings[..] } else { &framings[..1] };
        for (fields, begin, rest) in framings {
            let what = format!("{} {} {fields:?}", unread.method, unread.target);
            let mut client = server.connect();
            client.send(head(unread.method, unread.target, fields));
            client.send(begin);
            let answer = client.answer();
            assert_eq!(answer.status, unread.status, "{what}");
            // 413 means that no more of the body is wanted.
            assert_eq!(answer.says_close(), unread.status == 413, "{what}");
            client.send(rest);
            client.send(SECOND_REQUEST);
            match answer.says_close() {
                true => assert_ends(&mut client, &what),
                false => assert_goes_on(&mut client, &what),
            }
        }
    }
}

#[test]
fn a_body_that_is_here_changes_nothing_about_the_connection() {
    let (_tree, server, _origin) = server();
    for unread in UNREAD.iter().filter(|unread| unread.status != 413) {
        let what = format!("{} {}", unread.method, unread.target);
        let request = head(unread.method, unread.target, "Content-Length: 200\r\n");
        let mut client = server.connect();
        // Pipelined: each body ends where the next request begins.
        let both = [request.as_bytes(), &requests(200)].concat().repeat(2);
        client.send([&both[..], SECOND_REQUEST.as_bytes()].concat());
        for _ in 0..2 {
            let answer = client.answer();
            assert_eq!((answer.status, answer.says_close()), (unread.status, false), "{what}");
        }
        assert_goes_on(&mut client, &what);
    }
}

#[test]
fn a_rest_that_comes_byte_by_byte_is_passed_over() {
    let (_tree, server, _origin) = server();
    let mut client = server.connect();
    client.send(head("POST", "/alphabet.txt", "Content-Length: 300\r\n"));
    assert_eq!(client.answer().status, 405);
    for byte in requests(300) {
        client.send([byte]);
    }
    client.send(SECOND_REQUEST);
    assert_goes_on(&mut client, "Content-Length");
    client.send(head("POST", "/alphabet.txt", "Transfer-Encoding: chunked\r\n"));
    assert_eq!(client.answer().status, 405);
    for byte in [b"12c\r\n", &requests(300)[..], b"\r\n0\r\nX: y\r\n\r\n"].concat() {
        client.send([byte]);
    }
    client.send(SECOND_REQUEST);
    assert_goes_on(&mut client, "chunked");
}

#[test]
fn behind_a_long_rest_the_connection_ends() {
    let (_tree, server, _origin) = server();
    let mut longer = head("POST", "/alphabet.txt", "Transfer-Encoding: chunked\r\n");
    longer.push_str("200000\r\n");
    // Made before: the server waits two seconds for the next bytes.
    let more = requests(2 << 20);
    for (what, status, begin) in [
        ("a length", 405, head("POST", "/alphabet.txt", "Content-Length: 20000000\r\n")),
        ("a chunk", 405, longer),
        ("of an origin", 403, head("POST", "/refusing/streamed", "Content-Length: 20000000\r\n")),
        ("a file", 200, head("GET", "/alphabet.txt", "Content-Length: 20000000\r\n")),
        ("without access", 401, head("POST", "/members", "Content-Length: 20000000\r\n")),
        ("above the limit", 413, head("POST", "/alphabet.txt", "Content-Length: 200000000\r\n")),
    ] {
        let mut client = server.connect();
        client.send(begin);
        client.send(requests(1000));
        let answer = client.answer();
        assert_eq!((answer.status, answer.says_close()), (status, true), "{what}");
        // The client may send more before it notices; it gets no reset for it.
        client.send(&more);
        assert_ends(&mut client, what);
    }
}

#[test]
fn a_client_that_sends_all_of_a_long_body_before_it_reads_gets_the_answer() {
    let (_tree, server, _origin) = server();
    // Made before: the server waits two seconds for the next bytes.
    let body = requests(5_000_000);
    let mut client = server.connect();
    client.send(head("POST", "/members", "Content-Length: 5000000\r\n"));
    client.send(body);
    let answer = client.answer();
    assert_eq!((answer.status, answer.says_close()), (401, true));
    assert_ends(&mut client, "the whole body was sent");
}

#[test]
fn a_rest_that_turns_out_wrong_or_long_ends_the_connection() {
    let (_tree, server, _origin) = server();
    let small_chunks = "10000\r\n".to_owned() + &"x".repeat(0x10000) + "\r\n";
    for (what, rest) in [
        ("a broken size", format!("x\r\n{SECOND_REQUEST}")),
        ("a broken end of a chunk", format!("3\r\nabcd\r\n0\r\n\r\n{SECOND_REQUEST}")),
        ("a broken trailer", format!("0\r\nX : y\r\n\r\n{SECOND_REQUEST}")),
        ("too many chunks", format!("{}0\r\n\r\n{SECOND_REQUEST}", small_chunks.repeat(18))),
    ] {
        let mut client = server.connect();
        client.send(head("POST", "/alphabet.txt", "Transfer-Encoding: chunked\r\n"));
        assert_eq!(client.answer().status, 405, "{what}");
        client.send(rest);
        assert_ends(&mut client, what);
    }
    // The error is told if the answer has not been sent.
    let mut client = server.connect();
    client.send(head("POST", "/alphabet.txt", "Transfer-Encoding: chunked\r\n\r\nx"));
    let answer = client.answer();
    assert_eq!((answer.status, answer.says_close()), (400, true));
    assert_ends(&mut client, "a broken body with its head");
    // As many bytes as are passed over.
    let mut client = server.connect();
    client.send(head("POST", "/alphabet.txt", "Transfer-Encoding: chunked\r\n"));
    assert_eq!(client.answer().status, 405);
    client.send(small_chunks.repeat(16));
    client.send("0\r\n\r\n");
    client.send(SECOND_REQUEST);
    assert_goes_on(&mut client, "1 MiB in chunks");
}

#[test]
fn a_client_that_waits_to_be_asked_gets_one_answer() {
    let (_tree, server, _origin) = server();
    // Files, programs and origins have the client asked for its body.
    let is_asked = |target: &str| ["/refusing/", "/accepting/"].iter().any(|path| target.starts_with(path));
    for unread in UNREAD.iter().filter(|unread| unread.without_length && !is_asked(unread.target)) {
        let what = format!("{} {}", unread.method, unread.target);
        let mut client = server.connect();
        let fields = "Expect: 100-continue\r\nContent-Length: 10\r\n";
        client.send(head(unread.method, unread.target, fields));
        let answer = client.answer();
        assert_eq!((answer.status, answer.says_close()), (unread.status, true), "{what}");
        // Whether it sends the body all the same cannot be known.
        client.send(SECOND_REQUEST);
        assert_ends(&mut client, &what);
    }
}

#[test]
fn large_answers_and_long_bodies_do_not_block_each_other() {
    let (tree, server, _origin) = server();
    let body = bytes_of(30_000_000);
    tree.write("large.bin", &body);
    let mut client = Client::connect_with_small_buffer(server.address());
    client.send(head("GET", "/large.bin", "Content-Length: 1000000\r\n"));
    client.send(requests(1_000_000));
    client.send(SECOND_REQUEST);
    let answer = client.answer();
    assert!(answer.status == 200 && answer.body == body, "{} bytes", answer.body.len());
    assert_goes_on(&mut client, "behind the large answer");
}

#[test]
fn half_a_body_and_no_more_is_answered() {
    let (_tree, server, _origin) = server();
    let mut client = server.connect();
    client.send(head("POST", "/alphabet.txt", "Content-Length: 10\r\n") + "hello");
    client.send_end();
    assert_eq!(client.answer().status, 405);
    assert_ends(&mut client, "half closed");
}

#[test]
fn an_answer_before_its_body_is_logged_once() {
    let tree = Tree::standard();
    let (text, _origin) = configuration(&tree, "");
    let log = tree.beside("access.log");
    let section = format!("[access_log]\npath = {log:?}\nformat = \"common\"\n");
    let server = Server::configured(tree.around(), &(section + &text));
    let mut lengths = Vec::new();
    for fields in ["Content-Length: 10\r\n", "Content-Length: 20000000\r\n"] {
        let mut client = server.connect();
        client.send(head("POST", "/alphabet.txt", fields));
        lengths.push(client.answer().body.len());
        if fields.ends_with(" 10\r\n") {
            client.send("0123456789");
            client.send(SECOND_REQUEST);
            assert_goes_on(&mut client, fields);
        }
    }
    assert_eq!(server.get("/alphabet.txt").body, ALPHABET.as_bytes());
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    wait_until("all are logged", Duration::from_secs(60), || lines().matches('\n').count() >= 4);
    let lines = lines();
    for length in lengths {
        let line = format!("\"POST /alphabet.txt HTTP/1.1\" 405 {length}\n");
        assert_eq!(lines.matches(&line).count(), 2, "{lines}");
    }
    assert_eq!(lines.lines().count(), 4, "{lines}");
}
