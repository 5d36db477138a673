//! The length of a request over every version of HTTP, with a recording program of every protocol behind the
//! server: exactly one request arrives, with the body that was judged, or none does (RFC 9112 section 11.2,
//! RFC 9113 section 8.1.1, RFC 9114 section 4.1.2).

use std::time::Duration;

use serde_json::json;

use crate::readers::http2::{End, Http2, Lines, Request};
use crate::readers::http3::Client as Http3;
use crate::readers::recorders::{Recorded, Recorder};
use crate::support::{AnswerTo, Server, Tree, wait_until};

/// What a smuggler would have the program take for a second request.
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// What arrives.
#[derive(Debug, Clone, Copy)]
enum Arrives {
    /// One request with this body.
    Body(&'static [u8]),
    /// The same, or nothing: bytes beyond the stated length may arrive after the request has been passed on.
    AtMost(&'static [u8]),
    Nothing,
}

use Arrives::{AtMost, Body, Nothing};

/// Field lines of an HTTP/1.1 request, what follows the head, and what arrives.
const HTTP_1: &[(&str, &str, Arrives)] = &[
    ("Content-Length: 5\r\n", "hello", Body(b"hello")),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", Body(b"hello")),
    ("Transfer-Encoding: chunked\r\n", "3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nX: y\r\n\r\n", Body(b"hello")),
    ("Transfer-Encoding: Chunked\r\n", "0005\r\nhello\r\n000\r\n\r\n", Body(b"hello")),
    ("Content-Length: 0\r\n", "", Body(b"")),
    ("", "", Body(b"")),
    ("Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "hello", Body(b"hello")),
    ("Content_Length: 3\r\nContent-Length: 5\r\n", "hello", Body(b"hello")),
    ("X-Content-Length: 3\r\nContent-Length: 5\r\n", "hello", Body(b"hello")),
    ("Content-Length: 5\r\nConnection: content-length\r\n", "hello", Body(b"hello")),
    (
        "Transfer-Encoding: chunked\r\nConnection: transfer-encoding\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        Body(b"hello"),
    ),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nContent-Length: 90\r\n\r\n", Body(b"hello")),
    (
        "Transfer-Encoding: chunked\r\n",
        "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        Body(b"hello"),
    ),
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\nContent-Length: 40\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Content-Length: 0\r\nContent-Length: 40\r\n", "SMUGGLED", Nothing),
    ("Content-Length: 40, 0\r\n", "SMUGGLED", Nothing),
    ("Content-Length: +0\r\n", "SMUGGLED", Nothing),
    ("Content-Length: -1\r\n", "SMUGGLED", Nothing),
    ("Content-Length: 0x0\r\n", "SMUGGLED", Nothing),
    ("Content-Length: 18446744073709551616\r\n", "SMUGGLED", Nothing),
    ("Content-Length : 0\r\n", "SMUGGLED", Nothing),
    ("Content-Length:\r\n 0\r\n", "SMUGGLED", Nothing),
    ("X: y\nContent-Length: 0\r\n", "SMUGGLED", Nothing),
    ("X: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    (" Transfer-Encoding: chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding : chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding\t: chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: \u{b}chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "+5\r\nhello\r\n0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "5 \r\nhello\r\n0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhelloXX0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "5;a\nb\r\nhello\r\n0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\nhello\r\n0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "10000000000000000\r\n0\r\n\r\nSMUGGLED", Nothing),
    ("Transfer-Encoding: chunked\r\n", "0\r\nX : y\r\n\r\nSMUGGLED", Nothing),
    ("Content-Length: 9\r\n", "hello", Nothing),
    ("Transfer-Encoding: chunked\r\n", "9\r\nhello", Nothing),
    ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n", Nothing),
];

/// Fields of a request over HTTP/2 and HTTP/3, its data, and what arrives.
type Streamed = (&'static [(&'static str, &'static str)], &'static [&'static str], Arrives);

const STREAMED: &[Streamed] = &[
    (&[("content-length", "5")], &["hello"], Body(b"hello")),
    (&[], &["hel", "lo"], Body(b"hello")),
    (&[], &["0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"], Body(b"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")),
    (&[("content-length", "0")], &[], Body(b"")),
    (&[], &[], Body(b"")),
    (&[("content_length", "3")], &["hello"], Body(b"hello")),
    (&[("transfer_encoding", "chunked")], &["5\r\nhello"], Body(b"5\r\nhello")),
    (&[("x-content-length", "3")], &["hello"], Body(b"hello")),
    (&[("content-length", "3")], &["hello"], AtMost(b"hel")),
    (&[("content-length", "9")], &["hello"], Nothing),
    (&[("content-length", "0")], &["hello"], AtMost(b"")),
    (&[("content-length", "9")], &[], Nothing),
    (&[("content-length", "5"), ("content-length", "6")], &["hello"], Nothing),
    (&[("content-length", "5, 6")], &["hello"], Nothing),
    (&[("content-length", "+5")], &["hello"], Nothing),
    (&[("content-length", "0x5")], &["hello"], Nothing),
    (&[("content-length", "18446744073709551621")], &["hello"], Nothing),
    (&[("content-length", "")], &["hello"], Nothing),
    (&[("transfer-encoding", "chunked")], &["0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"], Nothing),
    (&[("transfer-encoding", "chunked"), ("content-length", "5")], &["hello"], Nothing),
    (&[("connection", "transfer-encoding")], &["hello"], Nothing),
    (&[("x", "y\r\nTransfer-Encoding: chunked")], &["0\r\n\r\n"], Nothing),
    (&[("x", "y\nContent-Length: 0")], &["hello"], Nothing),
    (&[("x", "y\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a")], &["hello"], Nothing),
    (&[("x\r\ntransfer-encoding", "chunked")], &["hello"], Nothing),
    (&[("x: y\r\ntransfer-encoding", "chunked")], &["hello"], Nothing),
    (&[("transfer-encoding ", "chunked")], &["0\r\n\r\n"], Nothing),
    (&[("Transfer-Encoding", "chunked")], &["0\r\n\r\n"], Nothing),
    (&[("content-length:", "0")], &["hello"], Nothing),
    (&[("", "chunked")], &["hello"], Nothing),
    (&[("host", "b\r\n\r\nGET /smuggled HTTP/1.1")], &["hello"], Nothing),
];

/// Pseudo-header fields that would become part of a start line.
const PSEUDO: &[(&str, &str)] = &[
    (":method", "POST /smuggled HTTP/1.1\r\nX: y\r\n\r\nPOST"),
    (":method", "POST /smuggled"),
    (":path", "/one HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: y"),
    (":path", "/one HTTP/1.1\r\n\r\nGET /smuggled"),
    (":path", "/one /smuggled"),
    (":authority", "a\r\nTransfer-Encoding: chunked"),
    (":authority", "a\r\n\r\nGET /smuggled HTTP/1.1"),
    (":scheme", "http://a/smuggled HTTP/1.1\r\nX: y"),
];

/// The server, the program that records, and the recorded requests.
struct Rig {
    recorder: Recorder,
    server: Server,
    /// What targets begin with.
    prefix: &'static str,
    /// Each case has a target of its own, with its number at the end.
    cases: Vec<(String, Arrives)>,
}

/// One for each protocol of programs. All have HTTPS, for HTTP/3, and a listener in the clear.
fn rigs(tree: &Tree) -> Vec<Rig> {
    let mut rigs: Vec<Rig> =
        Recorder::all(tree).into_iter().map(|recorder| rig(tree, recorder, "/", "/")).collect();
    rigs.push(rig(tree, Recorder::cgi(tree), "/p/", "/p/"));
    rigs
}

fn rig(tree: &Tree, recorder: Recorder, path: &str, prefix: &'static str) -> Rig {
    let route = format!("[[site.route]]\npath = \"{path}\"\n{}\n", recorder.way);
    let root = tree.root();
    let text = format!(
        "[server]\ncores = 1\n\
         [[site]]\nlisten = [\"127.0.0.2:0\"]\nroot = {root:?}\n{route}\
         [[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {root:?}\nhttp3 = true\n\
         development_certificate = true\n{route}"
    );
    Rig { recorder, server: Server::configured(tree.around(), &text), prefix, cases: Vec::new() }
}

impl Rig {
    /// The path of the next case.
    fn path(&self) -> String {
        format!("{}{}", self.prefix, self.cases.len())
    }

    /// Records a case that was answered with this status; `None`: not answered.
    fn answered(&mut self, case: &str, arrives: Arrives, status: Option<u16>) {
        let case = format!("{}: {case}", self.recorder.name);
        match arrives {
            Body(_) => assert_eq!(status, Some(200), "{case}"),
            // Some answer before they have seen the whole stream.
            AtMost(_) => {}
            Nothing => assert!(status.is_none_or(|status| status >= 400), "{case}: {status:?}"),
        }
        self.cases.push((case, arrives));
    }

    /// Checks what has been recorded of all cases. A request that is in order still arrives.
    fn check(mut self) {
        let request = format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", self.path());
        let status = self.server.connect().ask(request).status;
        self.answered("the request after all", Body(b""), Some(status));
        let mut seen = Vec::new();
        let last = self.cases.len() - 1;
        // A program may write its record after its answer.
        wait_until(self.recorder.name, Duration::from_secs(60), || {
            seen.extend(self.recorder.take());
            let is_seen = |number: usize| seen.iter().any(|request| self.number_of(request) == Some(number));
            let mut arriving = (0..=last).filter(|number| matches!(self.cases[*number].1, Body(_)));
            arriving.all(is_seen)
        });
        for (number, (case, arrives)) in self.cases.iter().enumerate() {
            let (of_it, others) =
                seen.into_iter().partition(|request| self.number_of(request) == Some(number));
            seen = others;
            check_one(case, *arrives, of_it);
        }
        assert!(seen.is_empty(), "{}: requests that were not made: {seen:?}", self.recorder.name);
    }

    /// Which case a request is.
    fn number_of(&self, request: &Recorded) -> Option<usize> {
        let target = std::str::from_utf8(&request.target).unwrap();
        target.strip_prefix(self.prefix)?.parse().ok()
    }
}

fn check_one(case: &str, arrives: Arrives, mut seen: Vec<Recorded>) {
    seen.retain(|request| request.is_whole);
    let bodies: Vec<&[u8]> = seen.iter().map(|request| &request.body[..]).collect();
    match arrives {
        Body(body) => assert_eq!(bodies, [body], "{case}"),
        AtMost(body) => assert!(bodies.is_empty() || bodies == [body], "{case}: {bodies:?}"),
        Nothing => assert!(bodies.is_empty(), "{case}: {bodies:?}"),
    }
}

#[test]
fn http_1_bodies_arrive_once_or_not_at_all() {
    let tree = Tree::empty();
    for mut rig in rigs(&tree) {
        for (lines, after, arrives) in HTTP_1 {
            let head = format!("POST {} HTTP/1.1\r\nHost: a\r\n{lines}\r\n", rig.path());
            let after = after.replace("SMUGGLED", std::str::from_utf8(SMUGGLED).unwrap());
            let mut client = rig.server.connect();
            client.try_send(&[head.as_bytes(), after.as_bytes()].concat()).unwrap();
            if matches!(arrives, Nothing) {
                // The missing bytes do not arrive.
                client.send_end();
            }
            let status = client.try_answer(AnswerTo::Other).ok().map(|answer| answer.status);
            rig.answered(&format!("{lines:?} {after:?}"), *arrives, status);
        }
        rig.check();
    }
}

#[test]
fn http_2_bodies_arrive_once_or_not_at_all() {
    let tree = Tree::empty();
    for mut rig in rigs(&tree) {
        let address = rig.server.address();
        let ask = |fields: Lines<'_>, data: Vec<&[u8]>, trailers: Lines<'_>, end: End| {
            let request = Request { fields, data, trailers, end };
            Http2::connect(address).ask(&request).map(|(status, _)| status)
        };
        for (fields, data, arrives) in STREAMED {
            let path = rig.path();
            let mut all = pseudo(&path);
            all.extend(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            let pieces = data.iter().map(|data| data.as_bytes()).collect();
            let status = ask(all, pieces, Vec::new(), End::Stream);
            rig.answered(&format!("{fields:?} {data:?}"), *arrives, status);
        }
        for (name, value) in PSEUDO {
            let path = rig.path();
            let mut fields = pseudo(&path);
            let changed = fields.iter_mut().find(|field| field.0 == name.as_bytes());
            changed.unwrap().1 = value.as_bytes();
            let status = ask(fields, vec![b"hello"], Vec::new(), End::Stream);
            rig.answered(&format!("{name} {value:?}"), Nothing, status);
        }
        for name in ["content-length", "transfer-encoding", "content_length", "host"] {
            let path = rig.path();
            let status = ask(pseudo(&path), vec![b"hello"], vec![(name.as_bytes(), b"1")], End::Stream);
            let arrives = if status == Some(200) { Body(b"hello") } else { Nothing };
            rig.answered(&format!("the trailer {name}"), arrives, status);
        }
        let path = rig.path();
        let status = ask(pseudo(&path), vec![b"hello"], Vec::new(), End::Reset);
        rig.answered("taken back", Nothing, status);
        rig.check();
    }
}

fn pseudo(path: &str) -> Lines<'_> {
    vec![(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", path.as_bytes())]
}

#[test]
fn http_3_bodies_arrive_once_or_not_at_all() {
    let Some(mut client) = Http3::start() else { return };
    let tree = Tree::empty();
    for mut rig in rigs(&tree) {
        let port = rig.server.addresses(2)[1].port();
        let mut ask = |request: serde_json::Value| {
            let name = "one";
            client.run(json!({"do": "connect", "name": name, "port": port, "server_name": "localhost"}));
            let result = client.run(json!({"do": "requests", "name": name, "requests": [request]}));
            client.run(json!({"do": "close", "name": name}));
            let answer = &result["answers"][0];
            let is_over = !answer["reset"].is_null() || !result["closed"].is_null();
            let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok());
            status.filter(|status| *status != 0 && !is_over)
        };
        for (fields, data, arrives) in STREAMED {
            if fields.iter().any(|(name, _)| name.is_empty()) {
                // The client refuses to send it.
                continue;
            }
            let request =
                json!({"method": "POST", "path": rig.path(), "headers": fields, "body": data.concat()});
            rig.answered(&format!("{fields:?} {data:?}"), *arrives, ask(request));
        }
        for (name, value) in PSEUDO.iter().filter(|(name, _)| *name != ":scheme") {
            let mut request = json!({"method": "POST", "path": rig.path(), "body": "hello"});
            request[&name[1..]] = json!(value);
            rig.answered(&format!("{name} {value:?}"), Nothing, ask(request));
        }
        rig.check();
    }
}
