//! An origin that sends exactly what a test states, and counts the requests.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// One request as the origin has read it.
pub(crate) struct Asked {
    /// The whole head.
    pub(crate) head: String,
    /// Path and query.
    pub(crate) target: String,
    /// How often this target has been requested, this time included.
    pub(crate) count: usize,
}

impl Asked {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (other, value) = line.split_once(':')?;
            other.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A running origin.
pub(crate) struct Origin {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    counts: Arc<Mutex<HashMap<String, usize>>>,
    is_down: Arc<AtomicBool>,
}

impl Origin {
    /// Starts an origin; `serve` answers each request. An answer without a length ends the connection.
    pub(crate) fn start(serve: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let is_down = Arc::new(AtomicBool::new(false));
        let (counted, down, serve) = (counts.clone(), is_down.clone(), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, serve) = (stream.unwrap(), serve.clone());
                let (counts, down) = (counted.clone(), down.clone());
                thread::spawn(move || {
                    while let Some(head) = read_head(&mut stream) {
                        if down.load(Ordering::SeqCst) {
                            return;
                        }
                        let target = head.split(' ').nth(1).unwrap_or_default().to_string();
                        let count = {
                            let mut counts = counts.lock().unwrap();
                            let count = counts.entry(target.clone()).or_default();
                            *count += 1;
                            *count
                        };
                        serve(&Asked { head, target, count }, &mut stream);
                    }
                });
            }
        });
        Origin { address, counts, is_down }
    }

    /// How often this target was requested.
    pub(crate) fn count(&self, target: &str) -> usize {
        self.counts.lock().unwrap().get(target).copied().unwrap_or(0)
    }

    /// Whether the origin closes connections instead of answering.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }
}

/// Writes an answer with its length. The client may have left.
pub(crate) fn answer(stream: &mut TcpStream, status: u16, fields: &str, body: &str) {
    let length = if status == 304 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let _ = write!(stream, "HTTP/1.1 {status} Whatever\r\n{length}{fields}\r\n{body}");
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    String::from_utf8(head).ok()
}
