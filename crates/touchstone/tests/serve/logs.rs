//! The access log: each format byte for byte, hostile requests that cannot forge a line, one line for each
//! answer, and a full disk that does not stop the server.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::{
    ALPHABET, AnswerTo, Client, SECOND, Server, Tree, parse_common_log_date, parse_rfc_3339, unix_now,
    wait_until,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that logs to a file in this format.
struct Logged {
    tree: Tree,
    server: Server,
    path: PathBuf,
    started: i64,
}

impl Logged {
    fn start(format: &str) -> Logged {
        let tree = Tree::standard();
        let path = tree.beside("access.log");
        let root = tree.root();
        let started = unix_now();
        let server = Server::start([
            "--root".as_ref(),
            root.as_os_str(),
            "--listen".as_ref(),
            "127.0.0.1:0".as_ref(),
            "--access-log".as_ref(),
            path.as_os_str(),
            "--access-log-format".as_ref(),
            format.as_ref(),
        ]);
        Logged { tree, server, path, started }
    }

    /// Sends bytes on a connection of their own and reads until its end.
    fn send(&self, bytes: impl AsRef<[u8]>) {
        let mut client = self.server.connect();
        client.send(bytes);
        client.send_end();
        let (_, ended) = client.read_to_end();
        ended.unwrap_or_else(|broken| panic!("{broken}"));
    }

    /// The lines, once the server has ended.
    fn lines(mut self) -> Vec<String> {
        self.server.stop();
        let bytes = fs::read(&self.path).expect("the log is there");
        let text = String::from_utf8(bytes).expect("the log is text");
        assert!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
        assert!(
            text.bytes().all(|byte| byte == b'\n' || !byte.is_ascii_control()),
            "control bytes: {text:?}"
        );
        text.lines().map(str::to_owned).collect()
    }

    fn is_now(&self, time: i64) -> bool {
        (self.started - 1..=unix_now() + 1).contains(&time)
    }
}

/// A line of the Common or Combined format, parsed and unescaped.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    client: String,
    time: i64,
    request_line: Vec<u8>,
    status: String,
    body_bytes: String,
    /// Referer and User-Agent, in the Combined format.
    more: Option<(Vec<u8>, Vec<u8>)>,
}

/// `None` unless the line has exactly the form of the format.
fn parse_line(line: &str) -> Option<Line> {
    let (client, rest) = line.split_once(" - - [")?;
    let (time, rest) = rest.split_once("] ")?;
    let (request_line, rest) = parse_quoted(rest)?;
    let rest = rest.strip_prefix(' ')?;
    let (status, rest) = rest.split_once(' ')?;
    let (body_bytes, rest) = match rest.split_once(' ') {
        Some((body_bytes, rest)) => (body_bytes, Some(rest)),
        None => (rest, None),
    };
    let more = match rest {
        None => None,
        Some(rest) => {
            let (referer, rest) = parse_quoted(rest)?;
            let (user_agent, rest) = parse_quoted(rest.strip_prefix(' ')?)?;
            if !rest.is_empty() {
                return None;
            }
            Some((referer, user_agent))
        }
    };
    let plain = |text: &str| text.to_owned();
    let time = parse_common_log_date(time)?;
    Some(Line {
        client: plain(client),
        time,
        request_line,
        status: plain(status),
        body_bytes: plain(body_bytes),
        more,
    })
}

/// A quoted text and its rest: `\"`, `\\` and `\xHH` are escaped bytes, and there are no other escapes.
fn parse_quoted(text: &str) -> Option<(Vec<u8>, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut bytes = Vec::new();
    loop {
        let mut characters = rest.chars();
        match characters.next()? {
            '"' => return Some((bytes, characters.as_str())),
            '\\' => match characters.next()? {
                'x' => {
                    let digits = characters.as_str().get(..2)?;
                    bytes.push(u8::from_str_radix(digits, 16).ok()?);
                    rest = &characters.as_str()[2..];
                    continue;
                }
                escaped @ ('"' | '\\') => bytes.push(escaped as u8),
                _ => return None,
            },
            character @ ' '..='~' => bytes.push(character as u8),
            _ => return None,
        }
        rest = characters.as_str();
    }
}

/// Requests of many kinds, with the fields of the Common format for each: request line, status, body bytes.
const REQUESTS: &[(&str, &str, &str, &str)] = &[
    ("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n", "GET /alphabet.txt HTTP/1.1", "200", "26"),
    ("HEAD /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /alphabet.txt HTTP/1.1", "200", "-"),
    ("GET /alphabet.txt?a=b%20c HTTP/1.0\r\n\r\n", "GET /alphabet.txt?a=b%20c HTTP/1.0", "200", "26"),
    ("GET /empty.txt HTTP/1.1\r\nHost: a\r\n\r\n", "GET /empty.txt HTTP/1.1", "200", "-"),
    (
        "GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4\r\n\r\n",
        "GET /alphabet.txt HTTP/1.1",
        "206",
        "5",
    ),
    (
        "GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
        "GET /alphabet.txt HTTP/1.1",
        "304",
        "-",
    ),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.1", "204", "-"),
    ("GET /%61lphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%61lphabet.txt HTTP/1.1", "200", "26"),
    (
        "GET http://b/alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://b/alphabet.txt HTTP/1.1",
        "200",
        "26",
    ),
    ("HEAD /missing HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /missing HTTP/1.1", "404", "-"),
    (
        "GET /numbers.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "GET /numbers.txt HTTP/1.1",
        "200",
        "10000",
    ),
];

#[test]
fn common_format() {
    let log = Logged::start("common");
    for (request, ..) in REQUESTS {
        log.send(request);
    }
    let is_now = |time| log.is_now(time);
    let times_are_now =
        |lines: &[String]| lines.iter().all(|line| parse_line(line).is_some_and(|line| is_now(line.time)));
    wait_until("the lines are written", PATIENCE, || {
        fs::read_to_string(&log.path).unwrap_or_default().lines().count() == REQUESTS.len()
    });
    let text = fs::read_to_string(&log.path).expect("the log is there");
    assert!(times_are_now(&text.lines().map(str::to_owned).collect::<Vec<_>>()), "{text}");
    // The connections were served one after the other, but by several cores.
    let mut left: Vec<String> = log.lines();
    for (_, request_line, status, body_bytes) in REQUESTS {
        let (start, end) = ("127.0.0.1 - - [", format!("] \"{request_line}\" {status} {body_bytes}"));
        let position = left.iter().position(|line| line.starts_with(start) && line.ends_with(&end));
        let line = left
            .remove(position.unwrap_or_else(|| panic!("no line {start}...{end} in\n{}", left.join("\n"))));
        // Only the date is between the two.
        assert_eq!(line.len(), start.len() + "20/Nov/2026:10:00:00 +0000".len() + end.len(), "{line}");
    }
    assert!(left.is_empty(), "more lines than requests: {left:?}");
}

#[test]
fn combined_format() {
    let log = Logged::start("combined");
    let table: [(&str, &[u8], &[u8]); 4] = [
        ("", b"-", b"-"),
        (
            "Referer: http://example.com/a?b\r\nUser-Agent: Mozilla/5.0 (X11; Linux)\r\n",
            b"http://example.com/a?b",
            b"Mozilla/5.0 (X11; Linux)",
        ),
        ("User-Agent: curl/8\r\n", b"-", b"curl/8"),
        ("uSER-aGENT:\t padded \t\r\nREFERER:x\r\n", b"x", b"padded"),
    ];
    for (number, (fields, ..)) in table.iter().enumerate() {
        log.send(format!("GET /alphabet.txt?{number} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    }
    let started = log.started;
    let lines = log.lines();
    assert_eq!(lines.len(), table.len());
    for (number, (_, referer, user_agent)) in table.iter().enumerate() {
        let request_line = format!("GET /alphabet.txt?{number} HTTP/1.1").into_bytes();
        let line =
            lines.iter().filter_map(|line| parse_line(line)).find(|line| line.request_line == request_line);
        let line = line.unwrap_or_else(|| panic!("no line for request {number} in\n{}", lines.join("\n")));
        assert!((started - 1..=unix_now() + 1).contains(&line.time));
        assert_eq!((&*line.client, &*line.status, &*line.body_bytes), ("127.0.0.1", "200", "26"));
        assert_eq!(line.more, Some((referer.to_vec(), user_agent.to_vec())), "request {number}");
    }
    // One line byte for byte: only the date is not known before.
    let second = lines.iter().find(|line| line.contains("?1 ")).expect("it is there");
    let end =
        "] \"GET /alphabet.txt?1 HTTP/1.1\" 200 26 \"http://example.com/a?b\" \"Mozilla/5.0 (X11; Linux)\"";
    assert!(second.starts_with("127.0.0.1 - - [") && second.ends_with(end), "{second}");
}

#[test]
fn json_format() {
    let log = Logged::start("json");
    log.send(
        b"GET /alphabet.txt?a=b HTTP/1.1\r\nHost: example.com:80\r\nReferer: r\r\n\
               User-Agent: \"u\\\xc3\xbc\"\r\n\r\n",
    );
    log.send("GET /missing HTTP/1.0\r\n\r\n");
    let started = log.started;
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let objects: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let by_status =
        |status: u64| objects.iter().find(|object| object["status"] == status).expect("it is there");
    let first = by_status(200);
    let keys = "time client user method target version status body_bytes duration_us host referer user_agent \
                request_id site handler";
    for object in &objects {
        let mut names: Vec<&str> =
            object.as_object().expect("an object").keys().map(String::as_str).collect();
        let mut expected: Vec<&str> = keys.split(' ').collect();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let time =
            parse_rfc_3339(object["time"].as_str().expect("text")).expect("RFC 3339 with milliseconds");
        assert!((started - 1..=unix_now() + 1).contains(&time));
        assert!(object["duration_us"].as_u64().expect("a number") < 60_000_000);
        assert_eq!(object["client"], "127.0.0.1");
        assert_eq!(object["method"], "GET");
    }
    assert_eq!((&first["target"], &first["version"]), (&"/alphabet.txt?a=b".into(), &"HTTP/1.1".into()));
    assert_eq!((&first["status"], &first["body_bytes"]), (&200.into(), &26.into()));
    assert_eq!((&first["host"], &first["referer"]), (&"example.com:80".into(), &"r".into()));
    assert_eq!(first["user_agent"], "\"u\\\u{fc}\"");
    let second = by_status(404);
    assert_eq!((&second["target"], &second["version"]), (&"/missing".into(), &"HTTP/1.0".into()));
    assert_eq!((&first["handler"], &first["site"]), (&"files".into(), &"127.0.0.1:0".into()));
    for key in ["host", "referer", "user_agent"] {
        assert_eq!(second[key], Value::Null, "{key}");
    }
    // The order of the keys is part of the format: people read these lines too.
    for line in &lines {
        let positions: Vec<usize> =
            keys.split(' ').map(|key| line.find(&format!("\"{key}\":")).expect("the key")).collect();
        assert!(positions.is_sorted(), "{line}");
    }
}

/// A client that has sent many requests at once, and resets the connection while their answers wait: the line
/// of an answer that was not sent completely has fewer bytes, and none has bytes that were not sent.
#[test]
fn answers_that_a_reset_cuts_off_are_logged_with_the_bytes_that_were_sent() {
    const REQUESTS: usize = 400;
    const BODY_BYTES: u64 = 48 * 1024;
    let log = Logged::start("common");
    log.tree.write("part.bin", vec![b'x'; BODY_BYTES as usize]);
    let request = "GET /part.bin HTTP/1.1\r\nHost: a\r\n\r\n";
    for _ in 0..2 {
        log.send(request);
    }
    let mut client = Client::connect_with_small_buffer(log.server.address());
    client.send(request.repeat(REQUESTS));
    client.wait_for_bytes(1);
    client.vanish();
    let sizes: Vec<u64> = log
        .lines()
        .iter()
        .map(|line| {
            let line = parse_line(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(line.status, "200");
            line.body_bytes.parse().unwrap_or(0)
        })
        .collect();
    let whole = sizes.iter().filter(|size| **size == BODY_BYTES).count();
    // What does not fit into the buffers of the kernel cannot have been sent.
    assert!((2..REQUESTS).contains(&whole), "{whole} whole answers");
    assert!(sizes.iter().all(|size| *size <= BODY_BYTES), "{sizes:?}");
    assert!(sizes.len() > whole, "the answers of the last write are logged as sent: {whole} lines");
}

/// A client of HTTP/2 whose windows take a part of an answer, and that resets the connection then.
#[test]
fn an_answer_of_http_2_is_logged_with_the_bytes_that_the_windows_took() {
    let log = Logged::start("common");
    log.tree.write("part.bin", vec![b'x'; 1000]);
    for _ in 0..2 {
        log.send("GET /part.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut client = log.server.connect();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // SETTINGS: streams begin with a window of ten bytes.
    client.send(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\x0a");
    // HEADERS, the end of the stream and of the headers: GET /part.bin of the host `a`.
    client.send(b"\0\0\x10\x01\x05\0\0\0\x01\x82\x86\x04\x09/part.bin\x01\x01a");
    client.wait_for(b"xxxxxxxxxx");
    client.vanish();
    let lines = log.lines();
    let of_http_2: Vec<_> = lines.iter().filter(|line| line.contains("HTTP/2")).collect();
    assert_eq!(of_http_2.len(), 1, "{lines:?}");
    assert!(of_http_2[0].ends_with(" 200 10"), "{lines:?}");
}

/// Requests that try to forge a line, close a quote or control a terminal, or that are not requests.
fn hostile_requests() -> Vec<Vec<u8>> {
    let forged = "127.0.0.1 - - [20/Nov/2026:10:00:00 +0000] \"GET /forged HTTP/1.1\" 200 1";
    let mut requests: Vec<Vec<u8>> = vec![
        format!(
            "GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\
                 User-Agent: \" 200 1\" {forged}\r\n\r\n"
        )
        .into_bytes(),
        b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: ends with a backslash\\\r\n\r\n".to_vec(),
        b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: \\x22 \\n \\\\\"\r\n\
          Referer: \"\r\n\r\n"
            .to_vec(),
        b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\
          User-Agent: a\tb\x80\xff\xc3\xbc\xe2\x80\xae\r\n\r\n"
            .to_vec(),
        b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\
          User-Agent: \xc2\x85\xc2\x9b31m next line and CSI in UTF-8\r\n\r\n"
            .to_vec(),
        b"GET /\"\\x HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /%0a%22%5c HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /\x1b[31m HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /a\nb HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /\0\x01\x7f\xff HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /alphabet.txt HTTP/1.1\r\nHost: \"\\\x1b\r\n\r\n".to_vec(),
        b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: \x1b]0;title\x07\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a handshake\r\n\r\n".to_vec(),
        b"\"\" \"\" \"\"\r\n\r\n".to_vec(),
    ];
    requests.push([b"GET /", "q".repeat(9000).as_bytes(), b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    requests.push(
        [
            b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: ",
            "\\\"".repeat(10_000).as_bytes(),
            b"\r\n\r\n",
        ]
        .concat(),
    );
    requests
}

#[test]
fn hostile_requests_forge_nothing() {
    for format in ["common", "combined", "json"] {
        let log = Logged::start(format);
        let requests = hostile_requests();
        for request in &requests {
            log.send(request);
        }
        let lines = log.lines();
        assert_eq!(lines.len(), requests.len(), "{format}: one line a request:\n{}", lines.join("\n"));
        for line in &lines {
            if format == "json" {
                let object: Value =
                    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
                assert!(object["status"].is_u64(), "{line}");
                assert!(!line.contains(char::is_control), "{line:?}");
            } else {
                let parsed =
                    parse_line(line).unwrap_or_else(|| panic!("{format}: not a line of the format: {line}"));
                assert_eq!(parsed.client, "127.0.0.1", "{line}");
                assert_eq!(parsed.more.is_some(), format == "combined", "{line}");
                assert!(line.is_ascii(), "{line}");
            }
        }
        if format == "combined" {
            // The escaped text can be read back, byte for byte.
            let agents: Vec<Vec<u8>> =
                lines.iter().filter_map(|line| Some(parse_line(line)?.more?.1)).collect();
            for agent in
                [&b"ends with a backslash\\"[..], b"\\x22 \\n \\\\\"", b"a\tb\x80\xff\xc3\xbc\xe2\x80\xae"]
            {
                assert!(
                    agents.iter().any(|each| each == agent),
                    "\"{}\" is not in the log",
                    agent.escape_ascii()
                );
            }
        }
    }
}

#[test]
fn as_many_lines_as_answers_under_load() {
    const CLIENTS: usize = 8;
    const REQUESTS_EACH: usize = 400;
    for format in ["common", "json"] {
        let log = Logged::start(format);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let server = &log.server;
                scope.spawn(move || ask_many(server, client, REQUESTS_EACH));
            }
        });
        // Each target was requested once, so it is in the log once, independent of the core.
        let mut seen: HashMap<String, usize> = HashMap::new();
        for line in log.lines() {
            let target = if format == "json" {
                let object: Value =
                    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
                object["target"].as_str().expect("text").to_owned()
            } else {
                let request_line = parse_line(&line).unwrap_or_else(|| panic!("{line}")).request_line;
                let request_line = String::from_utf8(request_line).expect("ASCII");
                request_line.split(' ').nth(1).expect("a target").to_owned()
            };
            *seen.entry(target).or_default() += 1;
        }
        assert_eq!(seen.len(), CLIENTS * REQUESTS_EACH, "{format}: requests in the log");
        let repeated: Vec<_> = seen.iter().filter(|(_, count)| **count != 1).collect();
        assert!(repeated.is_empty(), "{format}: more than once in the log: {repeated:?}");
    }
}

/// Kept connections, new ones, and pipelining, in turns.
fn ask_many(server: &Server, client: usize, count: usize) {
    let target = |number: usize| format!("/alphabet.txt?{client}-{number}");
    let mut number = 0;
    while number < count {
        let batch = (count - number).min(1 + number % 7);
        let mut connection = server.connect();
        let all: String = (number..number + batch)
            .map(|number| format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", target(number)))
            .collect();
        connection.send(all);
        for _ in 0..batch {
            assert_eq!(connection.answer().status, 200);
        }
        number += batch;
    }
}

#[test]
fn the_client_that_left_early_is_logged_with_what_it_got() {
    let log = Logged::start("common");
    let large = log.tree.file("large.bin");
    fs::File::create(&large).and_then(|file| file.set_len(64 << 20)).expect("a large file of holes");
    let mut client = Client::connect_with_small_buffer(log.server.address());
    client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for_bytes(50_000);
    client.vanish();
    wait_until("the line is written", PATIENCE, || {
        fs::read_to_string(&log.path).unwrap_or_default().contains("/large.bin")
    });
    let lines = log.lines();
    let line = parse_line(&lines[0]).unwrap_or_else(|| panic!("{}", lines[0]));
    let body_bytes: u64 = line.body_bytes.parse().unwrap_or_else(|_| panic!("{}", lines[0]));
    assert_eq!(line.status, "200");
    assert!(
        (1..64 << 20).contains(&body_bytes),
        "{body_bytes} body bytes were sent to a client that left early"
    );
}

#[test]
fn a_full_disk_stops_nothing() {
    let tree = Tree::standard();
    let sections = "[access_log]\npath = \"/dev/full\"\nformat = \"common\"\n";
    let mut server = Server::configured(tree.around(), &tree.configuration(sections));
    let mut client = server.connect();
    for _ in 0..2000 {
        assert_eq!(client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    }
    server.wait_for_error_line("says that lines are lost", |line| line.contains("access log"));
    server.assert_serves("/second.txt", SECOND.as_bytes());
    server.stop();
    let complaints = server.error_text().lines().filter(|line| line.contains("access log")).count();
    assert!(complaints < 100, "{complaints} lines of complaint: that would fill another disk");
}

#[test]
fn a_reader_of_the_log_that_stops_reading_stops_nothing() {
    // A pipe without a reader is full after 64 KiB.
    let tree = Tree::standard();
    let pipe = tree.beside("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a fifo");
    // Open for both reading and writing, so that neither side waits for the other.
    let reader = fs::File::options().read(true).write(true).open(&pipe).expect("the reader's end");
    let sections = format!("[access_log]\npath = {pipe:?}\n[server]\ncores = 2\n");
    let server = Server::configured(tree.around(), &tree.configuration(&sections));
    let mut client = server.connect();
    for _ in 0..20 {
        client.send("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500));
        for _ in 0..500 {
            assert_eq!(client.answer().body, ALPHABET.as_bytes());
        }
    }
    server.assert_serves("/second.txt", SECOND.as_bytes());
    drop(reader);
}

#[test]
fn standard_output_and_error_as_destinations() {
    let tree = Tree::standard();
    let root = tree.root();
    let root = root.to_str().expect("text");
    let common = ["--access-log-format", "common", "--root", root, "--listen", "127.0.0.1:0"];
    let mut server = Server::start(["--access-log", "stdout"].into_iter().chain(common));
    server.get("/alphabet.txt");
    server.stop();
    let lines = server.output_lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        parse_line(&lines[0]).is_some_and(|line| line.request_line == b"GET /alphabet.txt HTTP/1.1"),
        "{lines:?}"
    );

    let mut server = Server::start(["--access-log", "stderr"].into_iter().chain(common));
    server.get("/alphabet.txt");
    server.stop();
    let lines = server.error_text();
    assert!(lines.lines().any(|line| parse_line(line).is_some()), "{lines}");
    assert!(server.output_lines().is_empty());

    let mut server = Server::start(["--access-log", "off"].into_iter().chain(common));
    server.get("/alphabet.txt");
    server.stop();
    assert!(
        server.output_lines().is_empty() && !server.error_text().contains("GET"),
        "{}",
        server.error_text()
    );
}

#[test]
fn a_log_is_appended_to() {
    let tree = Tree::standard();
    let path = tree.beside("access.log");
    fs::write(&path, "a line from before\n").expect("written");
    let sections = format!("[access_log]\npath = {path:?}\nformat = \"common\"\n");
    let mut server = Server::configured(tree.around(), &tree.configuration(&sections));
    let mut client = server.connect();
    client.send("HEAD /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    client.try_answer(AnswerTo::Head).unwrap_or_else(|broken| panic!("{broken}"));
    server.stop();
    let text = fs::read_to_string(&path).expect("the log is there");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0], "a line from before");
    assert!(parse_line(lines[1]).is_some(), "{text}");
}
