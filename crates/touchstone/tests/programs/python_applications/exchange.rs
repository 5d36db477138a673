//! Requests byte for byte, and the expected answers: the rows of the tables of cases.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::{Client, parse_all, shown};

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request on its own connection, and the expected answer.
pub(crate) struct Case {
    name: &'static str,
    request: Vec<u8>,
    status: u16,
    /// Texts that the answer must have: of its head in small letters, of its body as they are.
    has: Vec<&'static str>,
    /// Texts that it must not have.
    lacks: Vec<&'static str>,
    is_cut_short: bool,
    /// It is asked again until the answer is as expected.
    is_repeated: bool,
    /// The other servers that do otherwise.
    not_on: &'static str,
}

/// A case whose answer has status 200 and is whole.
pub(crate) fn case(name: &'static str, request: impl AsRef<[u8]>) -> Case {
    Case {
        name,
        request: request.as_ref().to_vec(),
        status: 200,
        has: Vec::new(),
        lacks: Vec::new(),
        is_cut_short: false,
        is_repeated: false,
        not_on: "",
    }
}

impl Case {
    pub(crate) fn status(mut self, status: u16) -> Case {
        self.status = status;
        self
    }

    pub(crate) fn has(mut self, texts: &[&'static str]) -> Case {
        self.has.extend(texts);
        self
    }

    pub(crate) fn lacks(mut self, texts: &[&'static str]) -> Case {
        self.lacks.extend(texts);
        self
    }

    /// The connection ends before the answer does, so that the client notices.
    pub(crate) fn cut_short(mut self) -> Case {
        self.is_cut_short = true;
        self
    }

    /// What it asks about happens after an earlier answer has ended, so perhaps later than the request.
    pub(crate) fn in_the_end(mut self) -> Case {
        self.is_repeated = true;
        self
    }

    /// Another server does otherwise, so its answer is not a measure here.
    pub(crate) fn not_on(mut self, servers: &'static str) -> Case {
        self.not_on = servers;
        self
    }

    /// What is wrong with the answer, if anything.
    fn fault(&self, answer: &[u8]) -> Option<String> {
        // Each byte a character: bytes above 0x7F are of no encoding.
        let text: String = answer.iter().map(|&byte| char::from(byte)).collect();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let text = format!("{}\r\n\r\n{body}", head.to_lowercase());
        // An answer to HEAD has the length of an absent body, another protocol follows 101, and the strict
        // reader supports no trailers.
        let is_head = self.request.starts_with(b"HEAD ");
        let has_trailers = self.request.windows(13).any(|bytes| bytes == b"TE: trailers\r".as_slice());
        let is_switched = head.starts_with("HTTP/1.1 101 ");
        let plain: Vec<u8> = answer.iter().map(|byte| byte & 0x7F).collect();
        let parsed = if is_head || is_switched || has_trailers { Ok(Vec::new()) } else { parse_all(&plain) };
        let status = match &parsed {
            Ok(answers) if !answers.is_empty() => answers.last().map_or(0, |answer| answer.status),
            _ => head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0),
        };
        if status != self.status {
            return Some(format!("status {status}, not {}", self.status));
        }
        if let Some(missing) = self.has.iter().find(|one| !text.contains(**one)) {
            return Some(format!("it has no {missing:?}"));
        }
        if let Some(there) = self.lacks.iter().find(|one| text.contains(**one)) {
            return Some(format!("it has {there:?}"));
        }
        if is_head && !body.is_empty() {
            return Some("it has a body".to_string());
        }
        match (parsed, self.is_cut_short) {
            (Err(fault), false) => Some(fault),
            (Ok(_), true) => Some("it is whole".to_string()),
            _ => None,
        }
    }
}

/// A GET on a connection that ends with its answer.
pub(crate) fn get(target: &str) -> String {
    get_with(target, "")
}

/// The same with more header fields, each with its line end.
pub(crate) fn get_with(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n")
}

/// A POST of a body.
pub(crate) fn post(target: &str, body: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A POST in chunks.
pub(crate) fn post_chunks(target: &str, pieces: &[&str]) -> String {
    let chunks: String = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
    format!(
        "POST {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
         {chunks}0\r\n\r\n"
    )
}

/// Asks a server for all of these; `name` is its name where it is another one. Returns what went wrong.
pub(crate) fn faults(name: &str, address: SocketAddr, cases: &[Case]) -> Vec<String> {
    let mut faults = Vec::new();
    for case in cases.iter().filter(|case| !case.not_on.split(' ').any(|one| one == name)) {
        let ask = || {
            let mut client = Client::connect(address);
            client.set_patience(PATIENCE);
            client.send(&case.request);
            client.read_to_end().0
        };
        let (begin, mut answer) = (Instant::now(), ask());
        while case.is_repeated && case.fault(&answer).is_some() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
            answer = ask();
        }
        if let Some(fault) = case.fault(&answer) {
            faults.push(format!("{name}: {}: {fault}\n    {}", case.name, shown(&answer)));
        }
    }
    faults
}
