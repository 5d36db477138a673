//! The scripted origin for caches and proxies: it sends for each case the answers that the case names, and
//! records every byte that it receives for the case.
//!
//! A case has its own path, `/conformance/KEY/`. Every other path is answered with the page of [`page`].

use crate::case::{Facts, bytes};
use crate::client::now;
use crate::transcript::Bytes;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use touchstone_http::chunked::{ChunkedDecoder, ChunkedLimits};

/// The maximum size of a request in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The maximum time for which a connection may be idle.
const IDLE: Duration = Duration::from_secs(20);
/// The path below which the paths of cases are.
const PREFIX: &str = "/conformance/";

/// The origin. Dropping it stops it.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    state: Arc<OriginState>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct OriginState {
    is_over: AtomicBool,
    scripts: Mutex<HashMap<String, Scripted>>,
}

/// The answers of a case, and the requests received for it.
#[derive(Debug, Default)]
struct Scripted {
    answers: Vec<String>,
    requests: Vec<Bytes>,
}

impl Origin {
    /// Starts it on a free port of this machine.
    pub fn start() -> io::Result<Origin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(OriginState::default());
        let of_thread = Arc::clone(&state);
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if of_thread.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let of_connection = Arc::clone(&of_thread);
                // The server under test causes and handles the end and the faults of a connection.
                std::thread::spawn(move || drop(serve(&stream, &of_connection)));
            }
        });
        Ok(Origin { address, state, acceptor: Some(acceptor) })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Registers these answers for the path that is returned; the last one is repeated.
    pub(crate) fn script(&self, key: &str, answers: &[String]) -> String {
        let scripted = Scripted { answers: answers.to_vec(), requests: Vec::new() };
        locked(&self.state).insert(key.to_owned(), scripted);
        format!("{PREFIX}{key}/a")
    }

    /// The requests received for a case.
    pub(crate) fn requests(&self, key: &str) -> Vec<Bytes> {
        locked(&self.state).get(key).map(|scripted| scripted.requests.clone()).unwrap_or_default()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes the acceptor, which then finds that it must stop.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            // The thread does not panic.
            let _ = acceptor.join();
        }
    }
}

fn locked(state: &OriginState) -> MutexGuard<'_, HashMap<String, Scripted>> {
    state.scripts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the requests of a connection until it ends.
fn serve(mut stream: &TcpStream, state: &OriginState) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = request(stream, &mut buffer)? {
        let line = first_line(&request);
        let scripted = key_in(&line).and_then(|key| {
            let mut scripts = locked(state);
            let scripted = scripts.get_mut(&key)?;
            scripted.requests.push(Bytes(request.clone()));
            let number = scripted.requests.len();
            let answer = scripted.answers.get(number - 1).or(scripted.answers.last())?;
            Some((answer.clone(), number))
        });
        let answer = match scripted {
            Some((text, number)) => answer(&text, number, line.starts_with("HEAD ")),
            None => page(&line),
        };
        std::thread::sleep(answer.delay);
        stream.write_all(&answer.bytes)?;
        if answer.closes || state.is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    Ok(())
}

/// The bytes of an answer, and the action on the connection.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    bytes: Vec<u8>,
    closes: bool,
    delay: Duration,
}

/// The answer to a path that belongs to no case: a page of text.
fn page(line: &str) -> Answer {
    const BODY: &str = "A page of the scripted origin.\n";
    let body = if line.starts_with("HEAD ") { "" } else { BODY };
    let text = format!(
        "HTTP/1.1 200 OK\r\nDate: {{now}}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
         Last-Modified: Tue, 01 Sep 2026 00:00:00 GMT\r\nETag: \"page\"\r\n\
         Cache-Control: no-store\r\n\r\n{body}",
        BODY.len()
    );
    let bytes = bytes(&Facts::default().fill(&text, "", now())).unwrap_or_default();
    Answer { bytes, closes: false, delay: Duration::ZERO }
}

/// Builds an answer from its text: `STATUS | Name: value | ... || body`. With `raw ` at the beginning the
/// rest is sent byte for byte, and the connection ends. `-Date` omits the date, `@delay 300` waits, `@close`
/// ends the connection, `@interim 103 | ...` is sent first.
fn answer(text: &str, number: usize, is_head: bool) -> Answer {
    let facts = Facts::default();
    let text = facts.fill(&text.replace("{number}", &number.to_string()), "", now());
    if let Some(raw) = text.strip_prefix("raw ") {
        return Answer { bytes: bytes(raw).unwrap_or_default(), closes: true, delay: Duration::ZERO };
    }
    let usual = format!("answer-{number}");
    let (head, body) = text.split_once(" || ").unwrap_or((&text, &usual));
    let mut parts = head.split(" | ");
    let status = parts.next().unwrap_or("200");
    let (mut fields, mut closes, mut delay, mut interim) = (Vec::new(), false, Duration::ZERO, String::new());
    let mut has_date = true;
    for part in parts {
        match part.split_once(' ') {
            _ if part == "-Date" => has_date = false,
            _ if part == "@close" => closes = true,
            Some(("@delay", time)) => delay = Duration::from_millis(time.parse().unwrap_or(0)),
            Some(("@interim", status)) => {
                interim = format!("HTTP/1.1 {status} Interim\r\nLink: </s>\r\n\r\n")
            }
            _ => fields.push(part.to_owned()),
        }
    }
    let has = |name: &str| fields.iter().any(|field: &String| field.to_ascii_lowercase().starts_with(name));
    let mut out = format!("{interim}HTTP/1.1 {status} Scripted\r\n");
    if has_date && !has("date:") {
        out += &facts.fill("Date: {now}\r\n", "", now());
    }
    let has_body = !matches!(status, "204" | "304");
    if has_body && !has("content-length:") && !has("transfer-encoding:") {
        out += &format!("Content-Length: {}\r\n", body.len());
    }
    for field in &fields {
        out += &format!("{field}\r\n");
    }
    out += "\r\n";
    if has_body && !is_head {
        out += body;
    }
    Answer { bytes: bytes(&out).unwrap_or_default(), closes, delay }
}

/// The next request, byte for byte; `None` at the end of the connection.
fn request(mut stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut continued = false;
    loop {
        if let Some(length) = length(buffer) {
            let rest = buffer.split_off(length);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        if buffer.len() > REQUEST_BYTES_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "the request is too long"));
        }
        let expects =
            || String::from_utf8_lossy(buffer).to_ascii_lowercase().contains("expect: 100-continue");
        if !continued && head_end(buffer).is_some() && expects() {
            continued = true;
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut more = [0; 16 * 1024];
        let count = stream.read(&mut more)?;
        if count == 0 {
            return Ok(None);
        }
        buffer.extend_from_slice(&more[..count]);
    }
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// The length of the request at the beginning of the bytes, if it is complete.
fn length(bytes: &[u8]) -> Option<usize> {
    let head = head_end(bytes)?;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::trim).map(str::to_owned));
    if field("transfer-encoding:").is_some() {
        let mut decoder = ChunkedDecoder::new(ChunkedLimits::default());
        let mut at = head;
        while at < bytes.len() {
            let decoded = decoder.decode(&bytes[at..]).ok()?;
            at += decoded.consumed;
            if decoded.done {
                return Some(at);
            }
        }
        return None;
    }
    let body = field("content-length:").and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
    let whole = head.checked_add(body)?;
    (whole <= bytes.len()).then_some(whole)
}

fn first_line(request: &[u8]) -> String {
    let end = request.iter().position(|&byte| byte == b'\r').unwrap_or(request.len());
    String::from_utf8_lossy(&request[..end]).into_owned()
}

/// The key of the case in a request line.
fn key_in(line: &str) -> Option<String> {
    let (_, after) = line.split_once(PREFIX)?;
    let end = after.find(['/', ' ', '?'])?;
    Some(after[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_date_and_a_length_unless_stated() {
        let text = String::from_utf8(answer("200 | X: a | -Date", 2, false).bytes).unwrap();
        assert_eq!(text, "HTTP/1.1 200 Scripted\r\nContent-Length: 8\r\nX: a\r\n\r\nanswer-2");
        let text = String::from_utf8(answer("304 | @close", 1, false).bytes).unwrap();
        assert!(text.starts_with("HTTP/1.1 304 Scripted\r\nDate: ") && text.ends_with("\r\n\r\n"));
        let raw = answer("raw HTTP/1.0 200\r\n\r\nx", 1, false);
        assert_eq!((&raw.bytes[..], raw.closes), (&b"HTTP/1.0 200\r\n\r\nx"[..], true));
    }

    #[test]
    fn requests_are_kept_by_their_key() {
        let origin = Origin::start().unwrap();
        let url = origin.script("k-1", &["200 || one".to_owned()]);
        let mut stream = TcpStream::connect(origin.address()).unwrap();
        let chunked = format!("POST {url} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
        stream.write_all(chunked.as_bytes()).unwrap();
        stream.write_all(b"GET /other HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"scripted origin.\n") {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..count]);
        }
        assert!(String::from_utf8(got).unwrap().contains("\r\n\r\noneHTTP/1.1 200 OK"));
        assert_eq!(origin.requests("k-1"), [Bytes(chunked.into_bytes())]);
    }
}
