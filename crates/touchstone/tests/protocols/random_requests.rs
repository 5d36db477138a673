//! Random and mutated requests: the server neither crashes nor hangs, every answer is well-formed HTTP, and a
//! good request is answered afterwards. Random ranges are compared with slices of the file.

use std::sync::LazyLock;

use crate::support::{Client, Response, Server, Tree, numbers, parse_all, parse_multipart, shown};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::FileFailurePersistence;

fn configuration(cases: u32) -> ProptestConfig {
    let persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { cases, failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

fn start() -> (Tree, Server) {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    (tree, server)
}

#[test]
fn random_bytes() {
    let (_tree, server) = start();
    proptest!(configuration(500), |(bytes in prop::collection::vec(any::<u8>(), 0..2000))| {
        answers_and_lives(&server, &bytes)?;
    });
}

#[test]
fn random_words_of_http() {
    // Random bytes seldom get past the request line; random sequences of meaningful words reach all parts of
    // the parser.
    let (_tree, server) = start();
    proptest!(configuration(1000), |(requests in prop::collection::vec(request_of_words(), 1..4))| {
        answers_and_lives(&server, requests.concat().as_bytes())?;
    });
}

fn request_of_words() -> impl Strategy<Value = String> {
    // No HEAD: the test does not know which requests the server recognised, so it could not determine the
    // ends of answers.
    let method =
        select(vec!["GET", "GET", "GET", "POST", "PUT", "OPTIONS", "TRACE", "CONNECT", "FOO", "get", ""]);
    let targets = vec![
        "/",
        "/",
        "/",
        "dir",
        "alphabet.txt",
        "numbers.txt",
        "empty.txt",
        "missing",
        "*",
        "http://a",
        "%2e%2e",
        "%2f",
        "%00",
        "%",
        "..",
        ".",
        "?",
        "a=b",
        "#",
        "a%20b.txt",
        "escape.txt",
        ".hidden",
        "\u{fc}",
        "\\",
        "//",
    ];
    let target = prop::collection::vec(select(targets), 1..5).prop_map(|parts| parts.concat());
    let version =
        select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1", ""]);
    let lines = vec![
        "Connection: close",
        "Connection: keep-alive",
        "Content-Length: 5",
        "Content-Length: 0",
        "Content-Length: 99999999",
        "Content-Length: x",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip",
        "Range: bytes=0-4",
        "Range: bytes=-5,0-3,9-",
        "Range: bytes=99999-",
        "Range: x",
        "If-None-Match: *",
        "If-None-Match: \"a\", W/\"b\"",
        "If-Match: \"a\"",
        "If-Range: \"a\"",
        "If-Modified-Since: Fri, 02 Jan 2026 03:04:05 GMT",
        "If-Unmodified-Since: Fri, 02 Jan 1970 03:04:05 GMT",
        "Expect: 100-continue",
        "Expect: x",
        "Host: b",
        "X: y",
        "X : y",
        " folded",
        "X",
        ": y",
        "X: \u{fc}\t\"",
    ];
    let fields = prop::collection::vec(select(lines), 0..4)
        .prop_map(|lines| lines.iter().map(|line| format!("{line}\r\n")).collect::<String>());
    let host = select(vec![
        "Host: a\r\n",
        "Host: a\r\n",
        "Host: a\r\n",
        "Host: a\r\n",
        "Host: a:80\r\n",
        "Host: \r\n",
        "",
    ]);
    let bodies = vec![
        "",
        "",
        "",
        "hello",
        "5\r\nhello\r\n0\r\n\r\n",
        "0\r\n\r\n",
        "5\r\nhello",
        "FFFFFFFFFFFFFFFF\r\n",
        "\r\n",
        "x\r\n",
    ];
    (method, target, version, host, fields, select(bodies)).prop_map(
        |(method, target, version, host, fields, body)| {
            let slash = if target.starts_with(['/', '*', 'h']) { "" } else { "/" };
            format!("{method} {slash}{target} {version}\r\n{host}{fields}\r\n{body}")
        },
    )
}

#[test]
fn mutated_requests() {
    let (_tree, server) = start();
    proptest!(configuration(1500), |(
        seed in select(SEEDS.to_vec()),
        mutations in prop::collection::vec(mutation(), 1..4)
    )| {
        let mut bytes = seed.to_vec();
        for mutation in &mutations {
            mutation.apply(&mut bytes);
        }
        answers_and_lives(&server, &bytes)?;
    });
}

/// Sends the bytes and an end, reads until the server closes, and checks all answers.
fn answers_and_lives(server: &Server, bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut client = Client::connect(server.address());
    // The server may refuse and close before all was sent; its answers are checked in this case too.
    let sent = client.try_send(bytes);
    if sent.is_ok() {
        client.send_end();
    }
    let (received, ended) = client.read_to_end();
    prop_assert!(ended.is_ok(), "sent \"{}\": {}", bytes.escape_ascii(), ended.expect_err("it is not"));
    let answers = parse_all(&received);
    prop_assert!(answers.is_ok(), "sent \"{}\": {}", bytes.escape_ascii(), answers.expect_err("it is not"));
    for answer in answers.expect("checked") {
        prop_assert!(answer.status != 500, "sent \"{}\": \"{}\"", bytes.escape_ascii(), shown(&answer.raw));
    }
    let good = server.get("/second.txt");
    prop_assert_eq!(good.status, 200, "after \"{}\"", bytes.escape_ascii());
    Ok(())
}

/// Requests that are good as they are; none is a HEAD, as above.
const SEEDS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    b"GET /alphabet.txt HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive\r\nAccept: */*\r\n\r\n\
      GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /dir/../alphabet.txt?a=b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET http://example.com:80/%61lphabet.txt HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
    b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\
      Host: a\r\n\r\n",
    b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\
      X: y\r\n\r\n",
    b"POST /alphabet.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    b"GET /numbers.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4,-5,100-,7-8\r\nIf-Range: \"a\"\r\n\r\n",
    b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\", W/\"b\", *\r\n\
      If-Modified-Since: Fri, 02 Jan 2026 03:04:05 GMT\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\nTRACE / HTTP/1.1\r\nHost: a\r\n\r\nFOO / HTTP/1.1\r\n\
      Host: a\r\n\r\n",
];

/// One change to a request.
#[derive(Debug, Clone)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Cut(Index),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Mutation::Replace(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Mutation::Insert(at, inserted) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, inserted.iter().copied());
            }
            Mutation::Remove(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Mutation::Repeat(at, count, times) => {
                let at = at.index(bytes.len());
                let part = bytes[at..(at + count).min(bytes.len())].repeat(*times);
                bytes.splice(at..at, part);
            }
            Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let nasty = select(b"\0\t\n\r \"#%*+,-./0:;=?@\\_~\x7f\x80\xff".to_vec());
    let nasty_words: Vec<&[u8]> = vec![
        b"\r\n",
        b"\r\n\r\n",
        b"\n\n",
        b"\r\n ",
        b" :",
        b"Host: b\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"%00",
        b"/../",
        b"%2e%2e/",
        b"18446744073709551616",
        b"Expect: 100-continue\r\n",
        b"Range: bytes=-1\r\n",
    ];
    prop_oneof![
        4 => (any::<Index>(), prop_oneof![nasty.clone(), any::<u8>()])
            .prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        3 => (any::<Index>(), nasty).prop_map(|(at, byte)| Mutation::Insert(at, vec![byte])),
        3 => (any::<Index>(), select(nasty_words)).prop_map(|(at, word)| Mutation::Insert(at, word.to_vec())),
        3 => (any::<Index>(), 1..20_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        2 => (any::<Index>(), 1..30_usize, 1..400_usize)
            .prop_map(|(at, count, times)| Mutation::Repeat(at, count, times)),
        1 => any::<Index>().prop_map(Mutation::Cut),
    ]
}

static NUMBERS: LazyLock<String> = LazyLock::new(numbers);

/// One range as it is asked for, RFC 9110 section 14.1.2.
#[derive(Debug, Clone, Copy)]
enum Asked {
    FromTo(usize, usize),
    From(usize),
    Last(usize),
}

impl Asked {
    fn text(self) -> String {
        match self {
            Asked::FromTo(first, last) => format!("{first}-{last}"),
            Asked::From(first) => format!("{first}-"),
            Asked::Last(count) => format!("-{count}"),
        }
    }

    /// The slice of the range; `None` if it is outside the file.
    fn slice(self) -> Option<(usize, usize)> {
        let length = NUMBERS.len();
        match self {
            Asked::FromTo(first, last) if first < length => Some((first, last.min(length - 1))),
            Asked::From(first) if first < length => Some((first, length - 1)),
            Asked::Last(count) if count > 0 => Some((length - count.min(length), length - 1)),
            _ => None,
        }
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    // Small numbers, the whole file, and the surroundings of its end.
    let position = prop_oneof![0..50_usize, 0..11_000_usize, 9_990..10_010_usize];
    let length = prop_oneof![0..100_usize, 0..3_000_usize];
    prop_oneof![
        6 => (position.clone(), length.clone())
            .prop_map(|(first, length)| Asked::FromTo(first, first + length)),
        1 => position.prop_map(Asked::From),
        1 => length.prop_map(Asked::Last),
    ]
}

#[test]
fn random_ranges() {
    const MOST_RANGES: usize = 16;
    let (_tree, server) = start();
    proptest!(configuration(800), |(asked in prop::collection::vec(asked(), 1..20))| {
        let texts: Vec<String> = asked.iter().map(|asked| asked.text()).collect();
        let field = format!("Range: bytes={}\r\nConnection: close\r\n", texts.join(","));
        let request = format!("GET /numbers.txt HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        let mut client = Client::connect(server.address());
        let answer = client.ask(&request);
        client.end();
        let slices: Vec<(usize, usize)> = asked.iter().filter_map(|asked| asked.slice()).collect();
        match answer.status {
            416 => {
                prop_assert!(slices.is_empty() && asked.len() <= MOST_RANGES);
                prop_assert_eq!(answer.field("content-range"), Some("bytes */10000"));
            }
            200 => {
                // Each part has a head of about 100 bytes: with it, all parts may be more than the whole.
                let cost: usize = slices.iter().map(|(first, last)| last - first + 1 + 250).sum();
                let allowed = asked.len() > MOST_RANGES || (asked.len() > 1 && cost > NUMBERS.len());
                prop_assert!(allowed, "the whole file for {}", field);
                prop_assert_eq!(&answer.body, NUMBERS.as_bytes());
            }
            206 => {
                prop_assert!(asked.len() <= MOST_RANGES);
                let parts = parts_of(&answer).map_err(TestCaseError::fail)?;
                prop_assert_eq!(covered(&parts), covered(&slices), "{}", field);
                prop_assert_eq!(sorted_apart(&parts), true, "parts overlap or touch: {:?}", parts);
            }
            status => prop_assert!(false, "status {}", status),
        }
    });
}

/// The slices of an answer, each compared with the file.
fn parts_of(answer: &Response) -> Result<Vec<(usize, usize)>, String> {
    let parts = match answer.field("content-range") {
        Some(_) => vec![answer.clone()],
        None => parse_multipart(answer)?,
    };
    parts
        .iter()
        .map(|part| {
            let value = part.field("content-range").ok_or("a part without Content-Range")?;
            let numbers = value.strip_prefix("bytes ").and_then(|value| value.strip_suffix("/10000"));
            let (first, last) = numbers.and_then(|value| value.split_once('-')).ok_or(value)?;
            let first: usize = first.parse().map_err(|_| value)?;
            let last: usize = last.parse().map_err(|_| value)?;
            let slice = NUMBERS.as_bytes().get(first..=last).ok_or(value)?;
            if part.body != slice {
                return Err(format!("{value} is \"{}\"", shown(&part.body)));
            }
            Ok((first, last))
        })
        .collect()
}

/// Which bytes of the file the slices cover.
fn covered(slices: &[(usize, usize)]) -> Vec<bool> {
    let mut covered = vec![false; NUMBERS.len()];
    for &(first, last) in slices {
        covered[first..=last].fill(true);
    }
    covered
}

/// Whether no two slices overlap or touch, in any order.
fn sorted_apart(slices: &[(usize, usize)]) -> bool {
    let mut slices = slices.to_vec();
    slices.sort_unstable();
    slices.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0)
}
