//! Origins that are slow, dead, or send faulty answers: the client gets 502 or 504, the log states why, and
//! no part of one answer is in another.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{proxy, to};
use crate::support::{AnswerTo, Origin, Tree, read_head, shown, wait_until};

/// An origin that answers each request on a connection with these bytes, in order, then sends no more bytes.
fn script(answers: &'static [&'static [u8]]) -> Origin {
    Origin::start(move |stream| {
        for answer in answers {
            if read_head(stream).is_none() || stream.write_all(answer).is_err() {
                return;
            }
        }
        let _ = stream.read(&mut [0]);
    })
}

#[test]
fn what_is_no_response_is_502_and_said_in_the_log() {
    let tree = Tree::standard();
    let cases: &[(&'static [&'static [u8]], &str)] = &[
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"], "Content-Length"),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"], "Content-Length"),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello"], "Content-Length"),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"], "Content-Length"),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], "both"),
        (&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"], "Transfer-Encoding"),
        (&[b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], "Transfer-Encoding"),
        (&[b"HTTP/1.1 200 OK\r\nX-A: b\r\n folded\r\nContent-Length: 5\r\n\r\nhello"], "field name"),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello"], "field name"),
        (&[b"HTTP/1.1 200 OK\r\nX-A: b\x00c\r\n\r\n"], "control byte"),
        (&[b"HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: c\r\n\r\n"], "CRLF"),
        (&[b"HTTP/2 200\r\n\r\n"], "HTTP/1"),
        (&[b"ICY 200 OK\r\n\r\n"], "status line"),
        (&[b"HTTP/1.1 20 OK\r\n\r\n"], "status line"),
        (&[b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], "101"),
        (&[b"<html>hello</html>"], "status line"),
    ];
    for (answers, reason) in cases {
        let origin = script(answers);
        let server = proxy(&tree, &to(&[&origin], &[]), "");
        assert_eq!(server.get("/app/").status, 502, "{}", shown(answers[0]));
        let name = format!("http://{}", origin.address);
        server.wait_for_error_line(&format!("says {reason}"), |line| {
            line.contains(&name) && line.contains(reason)
        });
        // The server does not use that connection again.
        server.get("/app/");
        assert_eq!(origin.connections(), 2, "{}", shown(answers[0]));
    }
}

#[test]
fn fields_that_look_like_framing_stay_here() {
    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer_Encoding: chunked\r\ncontent_length: 1\r\nX-A_b: c\r\n\
        Content-Length: 5\r\n\r\nhello";
    let origin = script(&[ANSWER]);
    let tree = Tree::standard();
    let response = proxy(&tree, &to(&[&origin], &[]), "").get("/app/");
    assert_eq!((response.status, response.body.as_slice()), (200, b"hello".as_slice()));
    let has = |name: &str| response.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    assert!(!has("transfer_encoding") && !has("content_length") && has("x-a_b"), "{:?}", response.fields);
}

#[test]
fn a_connection_with_more_than_was_asked_for_is_not_used_again() {
    let tree = Tree::standard();
    const SMUGGLED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
    let cases: &[(&str, u16, &'static [&'static [u8]])] = &[
        // More bytes after the body, at once.
        (
            "GET",
            200,
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\
                         Content-Length: 8\r\n\r\nsmuggled"],
        ),
        (
            "GET",
            200,
            &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\
                         HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"],
        ),
        // Bodies in answers that have none.
        (
            "HEAD",
            200,
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\nHTTP/1.1 200 OK\r\n\
                          Content-Length: 8\r\n\r\nsmuggled"],
        ),
        (
            "GET",
            304,
            &[b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\nHTTP/1.1 200 OK\r\n\
                         Content-Length: 8\r\n\r\nsmuggled"],
        ),
        ("GET", 204, &[b"HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\n", SMUGGLED]),
    ];
    for (method, status, answers) in cases {
        let origin = script(answers);
        let server = proxy(&tree, &to(&[&origin], &[]), "");
        let mut client = server.connect();
        let request = format!("{method} /app/ HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\"\r\n\r\n");
        let kind = if *method == "HEAD" { AnswerTo::Head } else { AnswerTo::Other };
        for _ in 0..2 {
            client.send(&request);
            let answer =
                client.try_answer(kind).unwrap_or_else(|broken| panic!("{method} {status}: {broken}"));
            assert_eq!(answer.status, *status, "{method} {status}");
            assert!(!answer.body.ends_with(b"smuggled"), "{method} {status}");
        }
        assert_eq!(origin.connections(), 2, "{method} {status}");
    }
}

#[test]
fn what_comes_on_an_idle_connection_is_not_taken_for_an_answer() {
    let tree = Tree::standard();
    let smuggled = Arc::new(AtomicUsize::new(0));
    let counter = smuggled.clone();
    let origin = Origin::start(move |stream| {
        while read_head(stream).is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            // Long after the answer.
            thread::sleep(Duration::from_millis(100));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled");
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    for round in 1..4 {
        assert_eq!(server.get("/app/").body, b"ok");
        wait_until("it comes", Duration::from_secs(60), || smuggled.load(Ordering::SeqCst) == round);
        thread::sleep(Duration::from_millis(200));
        assert_eq!(origin.connections(), round);
    }
}

#[test]
fn heads_without_an_end_are_given_up() {
    let tree = Tree::standard();
    // Endless fields, one long field, and endless interim responses.
    let fields = Origin::start(|stream| {
        if read_head(stream).is_some() && stream.write_all(b"HTTP/1.1 200 OK\r\n").is_ok() {
            while stream.write_all(b"X-Endless: and so on\r\n").is_ok() {}
        }
    });
    let long = Origin::start(|stream| {
        if read_head(stream).is_some() && stream.write_all(b"HTTP/1.1 200 OK\r\nX-Long: ").is_ok() {
            // A hundred megabytes, if the server reads them.
            for _ in 0..1600 {
                if stream.write_all(&[b'a'; 65_536]).is_err() {
                    return;
                }
            }
        }
    });
    let interim = Origin::start(|stream| {
        if read_head(stream).is_some() {
            while stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").is_ok() {}
        }
    });
    for (origin, reason) in
        [(&fields, "too many fields"), (&long, "too long"), (&interim, "too many interim")]
    {
        let server = proxy(&tree, &to(&[origin], &[]), "");
        let mut client = server.connect();
        client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = loop {
            let answer = client.answer();
            if !answer.is_interim() {
                break answer;
            }
        };
        assert_eq!(answer.status, 502, "{reason}");
        server.wait_for_error_line(reason, |line| line.contains(reason));
    }
    let wide = proxy(&tree, &format!("{}header_bytes = \"1KiB\"\n", to(&[&super::saying("x")], &[])), "");
    assert_eq!(wide.get("/app/").status, 200);
}

#[test]
fn bodies_that_lie_or_stall_are_never_made_whole() {
    let tree = Tree::standard();
    // Invalid chunks, after enough bytes that the head has been passed on.
    let broken = Origin::answering_once(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-1\r\n\r\n0\r\n\r\n",
    );
    let server = proxy(&tree, &to(&[&broken], &[]), "");
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = client.read_to_end();
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "{}", shown(&bytes));
    server.wait_for_error_line("chunks", |line| line.contains("broke off") && line.contains("chunk"));
    // An origin that stops in the middle, of a long and of a short body.
    let stalling = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let length = if head.contains("/app/long") { 1_000_000 } else { 100 };
            // In one piece: what comes in several may pause for longer than the server waits.
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nbeginning");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let keys = format!("{}idle_timeout = \"200ms\"\n", to(&[&stalling], &[]));
    let server = proxy(&tree, &keys, "");
    for target in ["/app/short", "/app/long"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        // The received bytes are passed on; the rest is not invented.
        client.wait_for_bytes(60);
        let (bytes, _) = client.read_to_end();
        assert!(bytes.ends_with(b"\r\n\r\nbeginning"), "{}", shown(&bytes));
    }
    server.wait_for_error_line("the stall", |line| line.contains("no further bytes of its response arrived"));
}

#[test]
fn each_step_has_its_time() {
    let tree = Tree::standard();
    let silent = Origin::start(|stream| {
        let _ = read_head(stream);
        let _ = stream.read(&mut [0]);
    });
    let keys = |more: &str| format!("{}{more}\n", to(&[&silent], &[]));
    let server = proxy(&tree, &keys("response_timeout = \"100ms\""), "");
    assert_eq!(server.get("/app/").status, 504);
    server.wait_for_error_line("which step", |line| line.contains("no response was received within 0.1 s"));
    let server = proxy(&tree, &keys("total_timeout = \"100ms\""), "");
    assert_eq!(server.get("/app/").status, 504);
    // An origin that sends its head a byte at a time, each byte in time.
    let dripping = Origin::start(|stream| {
        let _ = read_head(stream);
        while stream.write_all(b"H").is_ok() && stream.write_all(b"TTP/1.1 200 OK\r\nX-A: ").is_ok() {
            while stream.write_all(b"a").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let server = proxy(&tree, &format!("{}response_timeout = \"300ms\"\n", to(&[&dripping], &[])), "");
    assert_eq!(server.get("/app/").status, 504);
    // An origin that does not read: the body is larger than all buffers between.
    let deaf = Origin::start(|_| thread::sleep(Duration::from_secs(600)));
    let server = proxy(
        &tree,
        &format!("{}send_timeout = \"100ms\"\n", to(&[&deaf], &[])),
        "[limits]\nbody_bytes = \"1GiB\"\n",
    );
    let mut client = server.connect();
    let mut sending = client.stream().try_clone().unwrap();
    thread::spawn(move || {
        let _ = sending.write_all(b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
        while sending.write_all(&[0; 65_536]).is_ok() {}
    });
    assert_eq!(client.answer().status, 504);
    // A name that does not exist.
    let nowhere = proxy(&tree, "to = \"http://unknown.invalid:80\"\n", "");
    assert_eq!(nowhere.get("/app/").status, 502);
    nowhere.wait_for_error_line("the name", |line| line.contains("cannot be resolved"));
    // A connection that is never established: the queue of the listener is full.
    let full = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let address = full.local_addr().unwrap();
    let _waiting: Vec<_> = (0..4)
        .map_while(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok())
        .collect();
    let server = proxy(&tree, &format!("to = \"http://{address}\"\nconnect_timeout = \"200ms\"\n"), "");
    assert_eq!(server.get("/app/").status, 504);
    server.wait_for_error_line("which step", |line| line.contains("the connection was not established"));
}

#[test]
fn a_request_to_switch_that_has_a_body_is_one_like_any_other() {
    let tree = Tree::standard();
    let origin = super::repeating();
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let mut client = server.connect();
    for round in 0..3 {
        let request = "POST /app/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                       Content-Length: 5\r\n\r\nhello";
        let answer = client.ask(request);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(answer.status == 200 && text.ends_with("\r\n\r\nhello"), "{round}: {text}");
        assert!(!text.contains("Upgrade"), "{text}");
    }
    // A request for an upgrade that the origin refuses is answered, too, and the connection is kept.
    for _ in 0..3 {
        let mut client = server.connect();
        let answer =
            client.ask("GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert!(answer.status == 200 && answer.body.starts_with(b"GET /app/ "));
    }
    assert_eq!(origin.connections(), 1);
}

/// An origin may refuse after the head alone, and a client may wait for that before it sends the body.
#[test]
fn an_origin_has_the_head_before_the_body() {
    let tree = Tree::standard();
    let origin = Origin::start(|stream| {
        while read_head(stream).is_some() {
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").unwrap();
        }
    });
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    for body in ["Content-Length: 5", "Content-Length: 500000", "Transfer-Encoding: chunked"] {
        let mut client = server.connect();
        let answer = client.ask(format!("POST /app/ HTTP/1.1\r\nHost: a\r\n{body}\r\n\r\n"));
        assert_eq!((answer.status, &answer.body[..]), (403, &b"no"[..]), "{body}");
    }
}

/// The received part of a body is passed on at once, with the line end of its chunk: an origin may answer
/// each part.
#[test]
fn an_origin_has_each_chunk_before_the_next() {
    let tree = Tree::standard();
    let origin = Origin::start(|stream| {
        read_head(stream).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(answer).unwrap();
        let mut chunk = [0; 6];
        while stream.read_exact(&mut chunk).is_ok() && &chunk != b"1\r\n.\r\n" {
            stream.write_all(&chunk).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let mut client = server.connect();
    client.send("POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let (mut head, mut byte) = (vec![], [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.stream().read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    for letter in ["x", "y", "z"] {
        let chunk = format!("1\r\n{letter}\r\n");
        client.send(&chunk);
        let mut back = [0; 6];
        client.stream().read_exact(&mut back).unwrap();
        assert_eq!(back, chunk.as_bytes());
    }
}

/// RFC 9112 section 2.2 lets a recipient accept LF alone as the end of a line, and old programs send it.
#[test]
fn an_origin_may_end_its_lines_in_lf() {
    let tree = Tree::standard();
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\nX-A: b\nContent-Length: 5\n\nhello";
    let origin = script(&[ANSWER, ANSWER]);
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    for _ in 0..2 {
        let answer = server.get("/app/");
        assert_eq!((answer.status, answer.field("x-a"), &answer.body[..]), (200, Some("b"), &b"hello"[..]));
    }
    assert_eq!(origin.connections(), 1);
}
