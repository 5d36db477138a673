//! Plain GETs on idle connections to an origin. They take a shorter way through the proxy, and must have the
//! same effect as requests that do not.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use super::{proxy, say, to};
use crate::support::{AnswerTo, Origin, Tree, read_head, shown};

/// An origin. The second request of each connection gets `second`, and the connection ends after it if
/// `ends`; others get `ok`.
fn second_gets(second: &'static [&'static [u8]], ends: bool) -> Origin {
    Origin::start(move |stream| {
        for number in 0.. {
            if read_head(stream).is_none() {
                return;
            }
            if number != 1 {
                say(stream, "ok");
                continue;
            }
            for piece in second {
                let _ = stream.write_all(piece);
            }
            if ends {
                return;
            }
        }
    })
}

/// An origin that keeps the heads of requests and answers with 204.
fn recording() -> (Origin, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            seen.lock().unwrap().push(head);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        }
    });
    (origin, heads)
}

/// The pieces of the response, whether the connection ends, the status and the body for the client, and the
/// connections to the origin after a third request.
type Case<'a> = (&'static [&'static [u8]], bool, u16, &'a [u8], usize);

#[test]
fn every_form_of_a_response_arrives() {
    let tree = Tree::standard();
    let long: &'static [u8] = {
        let mut long = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec();
        long.resize(long.len() + 100_000, b'x');
        long.leak()
    };
    let in_one_piece: &'static [&'static [u8]] = vec![long].leak();
    let cases: &[Case<'_>] = &[
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"], false, 200, b"hello", 1),
        (&[b"HTTP/1.1 404 Not here\r\nContent-Length: 5\r\n\r\nhello"], false, 404, b"hello", 1),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], false, 200, b"", 1),
        (&[b"HTTP/1.1 204 No Content\r\n\r\n"], false, 204, b"", 1),
        (&[b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"], false, 304, b"", 1),
        (&[b"HTTP/1.1 200 OK\r\nContent-", b"Length: 5\r\n\r\nhel", b"lo"], false, 200, b"hello", 1),
        (
            &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
            false,
            200,
            b"hello",
            1,
        ),
        (
            &[b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
            false,
            200,
            b"hello",
            1,
        ),
        (in_one_piece, false, 200, &long[long.len() - 100_000..], 1),
        // The origin closes after its response.
        (
            &[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"],
            true,
            200,
            b"hello",
            2,
        ),
        (&[b"HTTP/1.0 200 OK\r\n\r\nhello"], true, 200, b"hello", 2),
        (&[b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"], true, 200, b"hello", 2),
        // It closes instead of a response, each time: the requests are repeated on new connections.
        (&[], true, 200, b"ok", 3),
        // Bytes after the response are not a response.
        (
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
                HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"],
            false,
            200,
            b"hello",
            2,
        ),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"], true, 502, b"", 2),
        (&[b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello"], false, 502, b"", 2),
    ];
    for (second, ends, status, body, connections) in cases {
        let origin = second_gets(second, *ends);
        let server = proxy(&tree, &to(&[&origin], &[]), "");
        // One connection: all requests are those of one core, which has the connections to the origin.
        let mut client = server.connect();
        let case = shown(&second.concat()[..second.concat().len().min(200)]);
        for (number, status, body) in [(1, 200, &b"ok"[..]), (2, *status, body), (3, 200, b"ok")] {
            client.send("GET /app/a?b HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut answer = client.answer();
            while answer.status < 200 {
                answer = client.answer();
            }
            assert_eq!(answer.status, status, "{number}. answer: {case}");
            assert!(status >= 500 || answer.body == body, "{number}. answer: {case}");
        }
        assert_eq!(origin.connections(), *connections, "{case}");
    }
}

#[test]
fn a_request_has_the_same_head_as_one_that_takes_the_longer_way() {
    let tree = Tree::standard();
    let forwards = [
        "",
        "[site.route.proxy.forward]\nforwarded = \"set\"\nx_forwarded = \"set\"\nvia = \"edge\"\n",
        "[site.route.proxy.forward]\nforwarded = \"append\"\nx_forwarded = \"append\"\nremove = [\"X-No\"]\n",
        "[site.route.proxy.forward]\nx_forwarded = \"off\"\nset = { X-Key = \"$host\" }\n",
    ];
    let fields = [
        "",
        "Accept: text/html\r\nCookie: a=b\r\nX-No: 1\r\nVia: 1.0 fred\r\nVia: 1.1 mary\r\n",
        "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Key: mine\r\n",
        "TE: trailers\r\nConnection: TE\r\n",
        "Content-Length: 0\r\n",
        "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=192.0.2.9\r\n",
        "Range: bytes=0-1\r\nProxy-Authorization: Basic YQ==\r\nMax-Forwards: 3\r\n",
    ];
    for trusted in ["", "[proxies]\ntrusted = [\"127.0.0.1\"]\n"] {
        for forward in forwards {
            for prefix in ["", "strip_prefix = \"/app\"\n", "host = \"origin\"\n"] {
                let (origin, heads) = recording();
                let keys = format!("{}{prefix}", to(&[&origin], &[]));
                let server = proxy(&tree, &keys, &format!("{forward}{trusted}"));
                for fields in fields {
                    // The HEAD leaves an idle connection, on the core of this client.
                    let mut client = server.connect();
                    for (method, to) in [("HEAD", AnswerTo::Head), ("GET", AnswerTo::Other)] {
                        let line = format!("{method} /app/a?b=c HTTP/1.1\r\nHost: www.example:81\r\n");
                        client.send(format!("{line}{fields}\r\n"));
                        assert_eq!(client.try_answer(to).unwrap().status, 204);
                    }
                    let heads: Vec<String> = heads.lock().unwrap().drain(..).collect();
                    let [longer, shorter] = &heads[..] else { panic!("{heads:?}") };
                    let longer = longer.replacen("HEAD", "GET", 1);
                    assert_eq!(*shorter, longer, "{forward}{prefix}{trusted}{fields}");
                }
            }
        }
    }
}

#[test]
fn a_client_that_leaves_ends_its_request() {
    // The origin sees the end of the connection on which the request waits.
    let (ended, end) = std::sync::mpsc::channel();
    let origin = Origin::start(move |stream| {
        if read_head(stream).is_some() {
            say(stream, "ok");
        }
        if read_head(stream).is_some() {
            let _ = ended.send(stream.read(&mut [0]).is_ok_and(|count| count == 0));
        }
    });
    let tree = Tree::standard();
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().body, b"ok");
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(client);
    assert!(end.recv().unwrap());
}
