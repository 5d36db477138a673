//! The form of a case, and how it is run.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    AnswerTo, Broken, Client, FIXED_TIME_TEXT, Response, SECOND, Server, Tree, parse_http_date, shown,
    unix_now,
};

/// The bytes sent on one connection, and the expected answers.
pub(crate) struct Case {
    name: &'static str,
    exchanges: Vec<Exchange>,
    after: After,
    split: bool,
}

/// Bytes, and the answers to read before more is sent.
struct Exchange {
    sent: Vec<u8>,
    answers: Vec<Answer>,
}

/// What one answer must be.
struct Answer {
    to: AnswerTo,
    statuses: Vec<u16>,
    rules: Vec<Rule>,
}

/// What else must hold for an answer.
enum Rule {
    Field(&'static str, String),
    FieldStarts(&'static str, String),
    Without(&'static str),
    Body(Vec<u8>),
    BodyWithout(&'static str),
    Holds(&'static str, fn(&Response) -> bool),
}

/// What becomes of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// Another request on it is answered.
    Kept,
    /// It ends in an orderly way, without another byte.
    Closed,
    /// The same; but a client that sends on behind its last request may be reset (RFC 9112 section 9.6).
    ClosedToMore,
    /// Either, as the answer's `Connection` field states.
    AsAnnounced,
}

/// How the bytes are cut into writes.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Whole,
    ByteByByte,
    SplitAt(usize),
}

/// Begins a case: these bytes on a new connection. `{etag}` is replaced by the entity tag of `/alphabet.txt`.
pub(crate) fn case(name: &'static str, sent: impl AsRef<[u8]>) -> Case {
    let exchange = Exchange { sent: sent.as_ref().to_vec(), answers: Vec::new() };
    Case { name, exchanges: vec![exchange], after: After::AsAnnounced, split: false }
}

/// The bytes of a GET request with these field lines (each with its CRLF) after `Host`.
pub(crate) fn get(target: &str, fields: &str) -> String {
    request("GET", target, fields)
}

/// The bytes of a request without a body, or with the body after an empty line in `fields`.
pub(crate) fn request(method: &str, target: &str, fields: &str) -> String {
    if fields.contains("\r\n\r\n") {
        return format!("{method} {target} HTTP/1.1\r\nHost: example.com\r\n{fields}");
    }
    format!("{method} {target} HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n")
}

impl Case {
    /// The next answer has this status. To a request that begins with `HEAD ` it has no body.
    pub(crate) fn answers(mut self, status: u16) -> Case {
        let exchange = self.exchanges.last_mut().expect("a case has an exchange");
        let to = match exchange.sent.trim_ascii_start().starts_with(b"HEAD ") && exchange.answers.is_empty() {
            true => AnswerTo::Head,
            false => AnswerTo::Other,
        };
        exchange.answers.push(Answer { to, statuses: vec![status], rules: Vec::new() });
        self
    }

    /// This status would be as good.
    pub(crate) fn or(mut self, status: u16) -> Case {
        self.last_answer().statuses.push(status);
        self
    }

    /// The answer is to a HEAD request among several.
    pub(crate) fn for_head(mut self) -> Case {
        self.last_answer().to = AnswerTo::Head;
        self
    }

    /// The answer has this field once, with this value.
    pub(crate) fn field(self, name: &'static str, value: impl Into<String>) -> Case {
        self.rule(Rule::Field(name, value.into()))
    }

    /// The answer has this field once, with a value that begins so.
    pub(crate) fn field_starts(self, name: &'static str, start: impl Into<String>) -> Case {
        self.rule(Rule::FieldStarts(name, start.into()))
    }

    /// The answer does not have this field.
    pub(crate) fn without(self, name: &'static str) -> Case {
        self.rule(Rule::Without(name))
    }

    /// The answer has this body.
    pub(crate) fn body(self, body: impl AsRef<[u8]>) -> Case {
        self.rule(Rule::Body(body.as_ref().to_vec()))
    }

    /// The answer's body does not have this text in it.
    pub(crate) fn body_without(self, text: &'static str) -> Case {
        self.rule(Rule::BodyWithout(text))
    }

    /// Something else holds for the answer.
    pub(crate) fn holds(self, what: &'static str, condition: fn(&Response) -> bool) -> Case {
        self.rule(Rule::Holds(what, condition))
    }

    /// After those answers, more is sent.
    pub(crate) fn then_sends(mut self, sent: impl AsRef<[u8]>) -> Case {
        self.exchanges.push(Exchange { sent: sent.as_ref().to_vec(), answers: Vec::new() });
        self
    }

    /// The connection is kept.
    pub(crate) fn kept(mut self) -> Case {
        self.after = After::Kept;
        self
    }

    /// The connection is closed.
    pub(crate) fn closed(mut self) -> Case {
        self.after = After::Closed;
        self
    }

    /// The connection ends after the exchanges, however much more the client sends.
    pub(crate) fn closed_to_more(mut self) -> Case {
        self.after = After::ClosedToMore;
        self
    }

    /// The case is also run with the bytes cut in two at every position.
    pub(crate) fn split(mut self) -> Case {
        self.split = true;
        self
    }

    fn rule(mut self, rule: Rule) -> Case {
        self.last_answer().rules.push(rule);
        self
    }

    fn last_answer(&mut self) -> &mut Answer {
        let exchange = self.exchanges.last_mut().expect("a case has an exchange");
        exchange.answers.last_mut().expect("`answers` comes first")
    }

    fn manners(&self) -> Vec<Manner> {
        let mut manners = vec![Manner::Whole, Manner::ByteByByte];
        if self.split {
            let longest = self.exchanges.iter().map(|exchange| exchange.sent.len()).max().unwrap_or(0);
            manners.extend((1..longest).map(Manner::SplitAt));
        }
        manners
    }

    /// The last request is one of HTTP/1.0, whose connection ends by default.
    fn is_http_1_0(&self) -> bool {
        let sent = &self.exchanges.last().expect("a case has an exchange").sent;
        sent.windows(11).any(|window| window == b" HTTP/1.0\r\n")
    }
}

/// The server that the cases of one table run against.
pub(crate) struct Peer {
    address: std::net::SocketAddr,
    etag: String,
    is_touchstone: bool,
    _server: Option<Server>,
    _tree: Tree,
}

impl Peer {
    /// Starts it (or takes the one that the environment names) on the standard files.
    pub(crate) fn start() -> Peer {
        let tree = Tree::standard();
        let (server, address) = match std::env::var("TOUCHSTONE_TEST_PEER") {
            Ok(peer) => {
                let (address, root) = peer.split_once(',').expect("ADDRESS,ROOT");
                copy_tree(&tree, root);
                (None, address.parse().expect("ADDRESS,ROOT"))
            }
            Err(_) => {
                let server = Server::quick(&tree.root());
                let address = server.address();
                (Some(server), address)
            }
        };
        let answer = Client::connect(address).ask(get("/alphabet.txt", ""));
        let etag = answer.field("etag").expect("a file has an ETag").to_owned();
        Peer { address, etag, is_touchstone: server.is_some(), _server: server, _tree: tree }
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}

/// Runs a table of cases, and fails with all that went wrong.
pub(crate) fn check(table: Vec<Case>) {
    // The cases mostly wait for packets; several at a time shorten the test.
    const WORKERS: usize = 8;
    let mut names = HashSet::new();
    for case in &table {
        assert!(names.insert(case.name), "two cases are named {:?}", case.name);
        assert!(
            case.exchanges.iter().any(|exchange| !exchange.answers.is_empty()),
            "{:?} checks nothing",
            case.name
        );
    }
    let peer = Peer::start();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(case) = table.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(failure) = run(&peer, case) {
                        failures.lock().expect("no worker panics").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no worker panics");
    assert!(
        failures.is_empty(),
        "{} of {} cases failed:\n\n{}",
        failures.len(),
        table.len(),
        failures.join("\n\n")
    );
}

/// Runs a case in each manner; stops at the first that fails, because the others would mostly fail in the
/// same way.
fn run(peer: &Peer, case: &Case) -> Result<(), String> {
    for manner in case.manners() {
        attempt(peer, case, manner).map_err(|why| {
            let sent: Vec<String> = case.exchanges.iter().map(|exchange| shown(&exchange.sent)).collect();
            format!("case: {}\nsent ({manner:?}): \"{}\"\n{why}", case.name, sent.join("\" then \""))
        })?;
    }
    Ok(())
}

fn attempt(peer: &Peer, case: &Case, manner: Manner) -> Result<(), String> {
    let mut client = Client::try_connect(peer.address).map_err(|error| format!("connect: {error}"))?;
    let mut last = None;
    for exchange in &case.exchanges {
        let sent = with_etag(&exchange.sent, &peer.etag);
        // The server may have answered and stopped reading before everything was sent: the answer is what
        // counts.
        let began = unix_now();
        let outcome = send(&mut client, &sent, manner);
        for answer in &exchange.answers {
            let response = client.try_answer(answer.to).map_err(|broken| match &outcome {
                Ok(()) => broken.to_string(),
                Err(error) => format!("{broken} (sending: {error})"),
            })?;
            check_answer(peer, began, answer, &response).map_err(|why| received(&why, &response))?;
            if let Some(earlier) = last.replace(response).filter(Response::says_close) {
                return Err(received("Connection: close before the last answer", &earlier));
            }
        }
    }
    let last = last.ok_or("the case checks nothing")?;
    check_connection(case, &mut client, &last).map_err(|why| received(&why, &last))
}

fn received(why: &str, response: &Response) -> String {
    format!("received: \"{}\"\nwrong: {why}", shown(&response.raw))
}

fn send(client: &mut Client, bytes: &[u8], manner: Manner) -> std::io::Result<()> {
    // Nothing outside shows when the server has read a piece, so it is given a moment, without which the
    // kernel would join most pieces again; the answer must not depend on whether it took it.
    const MOMENT: Duration = Duration::from_micros(100);
    match manner {
        Manner::Whole => client.try_send(bytes),
        Manner::ByteByByte => {
            // A megabyte byte by byte would take minutes: after the head, a body is sent in pieces of an odd
            // size.
            const BYTES: usize = 40_000;
            const MOST_MOMENTS: usize = 400;
            const PIECE: usize = 1009;
            // On a busy machine a moment may be long: all of them must end before the server's timeout.
            const ALL_MOMENTS: Duration = Duration::from_secs(3);
            let began = Instant::now();
            let (first, rest) = bytes.split_at(bytes.len().min(BYTES));
            for (count, byte) in first.iter().enumerate() {
                client.try_send(&[*byte])?;
                if count < MOST_MOMENTS && began.elapsed() < ALL_MOMENTS {
                    std::thread::sleep(MOMENT);
                }
            }
            rest.chunks(PIECE).try_for_each(|piece| client.try_send(piece))
        }
        Manner::SplitAt(position) => {
            let (first, second) = bytes.split_at(position.min(bytes.len()));
            client.try_send(first)?;
            std::thread::sleep(MOMENT * 3);
            client.try_send(second)
        }
    }
}

fn check_answer(peer: &Peer, began: i64, expected: &Answer, response: &Response) -> Result<(), String> {
    if !expected.statuses.contains(&response.status) {
        return Err(format!("status {} instead of {:?}", response.status, expected.statuses));
    }
    for rule in &expected.rules {
        check_rule(peer, rule, response)?;
    }
    check_always(peer, began, expected.to, response)
}

fn check_rule(peer: &Peer, rule: &Rule, response: &Response) -> Result<(), String> {
    let value = |name: &str| response.field(name).ok_or_else(|| format!("not exactly one {name}"));
    match rule {
        Rule::Field(name, expected) => {
            let expected = String::from_utf8_lossy(&with_etag(expected.as_bytes(), &peer.etag)).into_owned();
            let value = value(name)?;
            (value == expected)
                .then_some(())
                .ok_or_else(|| format!("{name}: {value:?} instead of {expected:?}"))
        }
        Rule::FieldStarts(name, start) => {
            let value = value(name)?;
            value
                .starts_with(&start[..])
                .then_some(())
                .ok_or_else(|| format!("{name}: {value:?}, not {start:?}..."))
        }
        Rule::Without(name) => match response.values(name).next() {
            Some(value) => Err(format!("{name}: {value:?}, which should not be there")),
            None => Ok(()),
        },
        Rule::Body(body) if response.body != *body => {
            Err(format!("body \"{}\" instead of \"{}\"", shown(&response.body), shown(body)))
        }
        Rule::BodyWithout(text) if String::from_utf8_lossy(&response.body).contains(text) => {
            Err(format!("{text:?} in the body"))
        }
        Rule::Holds(what, condition) if !condition(response) => Err(format!("not so: {what}")),
        Rule::Body(_) | Rule::BodyWithout(_) | Rule::Holds(..) => Ok(()),
    }
}

/// What holds for every answer of the server, whatever the case is about. An answer may be there long before
/// it is read; it was not made before the request `began`.
fn check_always(peer: &Peer, began: i64, to: AnswerTo, response: &Response) -> Result<(), String> {
    let has = |name: &str| response.field(name).ok_or_else(|| format!("not exactly one {name}"));
    if response.version != "HTTP/1.1" {
        // RFC 9110 section 2.5: the highest version of the same major that the server conforms to.
        return Err(format!("version {}", response.version));
    }
    if response.is_interim() {
        return Ok(());
    }
    let date = parse_http_date(has("date")?).ok_or("Date is not an IMF-fixdate")?;
    if !(began - 2..=unix_now() + 2).contains(&date) {
        return Err("Date is not now".to_owned());
    }
    if peer.is_touchstone && has("server")? != "touchstone" {
        return Err("Server is not touchstone".to_owned());
    }
    if !matches!(response.status, 204 | 304) {
        has("content-length")?;
    }
    match response.status {
        200 | 206 => {
            let etag = has("etag")?;
            if etag.len() < 3 || !etag.starts_with('"') || !etag.ends_with('"') {
                return Err(format!("ETag {etag} is not a strong quoted one"));
            }
            let modified =
                parse_http_date(has("last-modified")?).ok_or("Last-Modified is not an IMF-fixdate")?;
            if modified > date {
                return Err("Last-Modified is later than Date".to_owned()); // RFC 9110 section 8.8.2.1
            }
            (has("accept-ranges")? == "bytes").then_some(()).ok_or("Accept-Ranges is not bytes")?;
            has("content-type")?;
        }
        304 => {
            has("etag")?;
            (has("last-modified")? == FIXED_TIME_TEXT).then_some(()).ok_or("another Last-Modified")?;
        }
        405 => {
            let allow = has("allow")?;
            if peer.is_touchstone && allow != "GET, HEAD, OPTIONS" {
                return Err(format!("Allow: {allow}"));
            }
        }
        _ => {}
    }
    if response.status >= 400 {
        check_error_page(to, response)?;
    }
    Ok(())
}

/// A small page that names the status.
fn check_error_page(to: AnswerTo, response: &Response) -> Result<(), String> {
    let content_type = response.field("content-type").ok_or("an error without Content-Type")?;
    if !content_type.starts_with("text/html") {
        return Err(format!("an error page of type {content_type:?}"));
    }
    let body = String::from_utf8_lossy(&response.body);
    if to == AnswerTo::Other && !body.contains(&response.status.to_string()) {
        return Err("the error page does not name the status".to_owned());
    }
    Ok(())
}

fn check_connection(case: &Case, client: &mut Client, last: &Response) -> Result<(), String> {
    let kept = match case.after {
        After::Kept => true,
        After::Closed | After::ClosedToMore => false,
        After::AsAnnounced => !last.says_close(),
    };
    if kept {
        if last.says_close() {
            return Err("Connection: close on a connection that should be kept".to_owned());
        }
        return check_kept(client).map_err(|why| format!("the connection was not kept: {why}"));
    }
    if !last.says_close() && !case.is_http_1_0() {
        // RFC 9112 section 9.6: a server that will close announces it.
        return Err("closed without Connection: close".to_owned());
    }
    match (client.try_end(), &case.after) {
        // What was sent too late may be what the kernel answers, in place of the end.
        (Err(Broken::Reset { received }), After::ClosedToMore) if received.is_empty() => Ok(()),
        (ended, _) => ended.map_err(|broken: Broken| format!("no orderly end: {broken}")),
    }
}

fn check_kept(client: &mut Client) -> Result<(), String> {
    client
        .try_send(get("/second.txt", "Connection: close\r\n").as_bytes())
        .map_err(|error| error.to_string())?;
    let second = client.try_answer(AnswerTo::Other).map_err(|broken| broken.to_string())?;
    if second.status != 200 || second.body != SECOND.as_bytes() {
        return Err(format!("the second answer is \"{}\"", shown(&second.raw)));
    }
    client.try_end().map_err(|broken| broken.to_string())
}

fn with_etag(bytes: &[u8], etag: &str) -> Vec<u8> {
    const PLACE: &[u8] = b"{etag}";
    let mut result = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(PLACE.len()).position(|window| window == PLACE) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(etag.as_bytes());
        rest = &rest[at + PLACE.len()..];
    }
    result.extend_from_slice(rest);
    result
}

fn copy_tree(tree: &Tree, root: &str) {
    let copied = std::process::Command::new("cp").arg("-a").arg(tree.root().join(".")).arg(root).status();
    assert!(copied.expect("cp runs").success(), "cp into {root}");
}
