//! The live page: a small listener on this machine only. It serves a page and, as server-sent events (WHATWG
//! HTML, section 9.2), the state of the run at each change.
//!
//! It listens on loopback only and answers only to names of this machine, so that no page of another site can
//! read it (DNS rebinding). It has one thread for each connection, a few at most; the page loads no other
//! files.

use super::Hub;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use touchstone_http::request::{KnownField, Limits, Method, Parsed, RequestHead};

/// The page.
const PAGE: &str = include_str!("page.html");
/// The most connections at a time; more are closed.
const CONNECTIONS_MAX: usize = 16;
/// The limits of a request's head; more than its bytes are not read.
const LIMITS: Limits = Limits { request_line_bytes: 2048, header_bytes: 14 * 1024, header_fields: 100 };
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long a client may take to send its request, and to take an event.
const CLIENT_TIME_LIMIT: Duration = Duration::from_secs(5);
/// The interval at which a comment is sent without changes, so that a disconnected client is detected.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long the end waits for clients to read it.
const END_TIME_LIMIT: Duration = Duration::from_secs(1);
/// The page loads no other files; it contains all that it needs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src \
                      'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An address that is bound, and not served yet.
#[derive(Debug)]
pub struct PageListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl PageListener {
    /// Binds an address of loopback.
    pub fn to(address: SocketAddr) -> Result<PageListener, String> {
        if !address.ip().is_loopback() {
            return Err(format!(
                "the live page is for this machine alone, and {} is not of loopback; from elsewhere reach it \
                 through ssh -L",
                address.ip()
            ));
        }
        let failed = |error: io::Error| format!("the live page cannot listen on {address}: {error}");
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(PageListener { listener, address })
    }

    /// The page's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves it from separate threads.
    pub fn serve(self, hub: Arc<Hub>) -> io::Result<ServedPage> {
        let shared =
            Arc::new(Shared { hub, ended: AtomicBool::new(false), connections: AtomicUsize::new(0) });
        let accepting = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("live-page".to_owned())
            .spawn(move || accept(&self.listener, &accepting))?;
        Ok(ServedPage { shared, address: self.address, thread: Some(thread) })
    }
}

/// A page that is served, until this is dropped.
#[derive(Debug)]
pub struct ServedPage {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    hub: Arc<Hub>,
    ended: AtomicBool,
    connections: AtomicUsize,
}

impl ServedPage {
    /// Ends it when the clients have read the last state, or after a second.
    pub fn end(self) {
        let waits = END_TIME_LIMIT.as_millis() / 10;
        for _ in 0..waits {
            if self.shared.connections.load(Ordering::Acquire) == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for ServedPage {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect_timeout(&self.address, CLIENT_TIME_LIMIT);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        if shared.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let own = Arc::clone(shared);
        let started = std::thread::Builder::new().name("live-client".to_owned()).spawn(move || {
            // A client that leaves is not an error of the server.
            let _ = answer(stream, &own);
            own.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIME_LIMIT))?;
    stream.set_write_timeout(Some(CLIENT_TIME_LIMIT))?;
    stream.set_nodelay(true)?;
    match parse_request(&read_head(&mut stream)?) {
        LiveRequest::Page => whole(&mut stream, "200 OK", "text/html; charset=utf-8", PAGE),
        LiveRequest::Events => events(&mut stream, shared),
        LiveRequest::State => {
            let json = serde_json::to_string(&shared.hub.state()).map_err(io::Error::other)?;
            whole(&mut stream, "200 OK", "application/json", &json)
        }
        LiveRequest::Refused(status) => whole(&mut stream, status, "text/plain", status),
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; 2048];
    loop {
        let read = stream.read(&mut part)?;
        head.extend_from_slice(&part[..read]);
        let whole = RequestHead::new().parse(&head, &LIMITS) != Ok(Parsed::Partial);
        if whole || read == 0 || head.len() > HEAD_BYTES_MAX {
            return Ok(head);
        }
    }
}

/// The resource that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveRequest {
    /// The page.
    Page,
    /// The events.
    Events,
    /// The state, once.
    State,
    /// Another request: the status of the answer.
    Refused(&'static str),
}

/// Reads a request head.
pub fn parse_request(head: &[u8]) -> LiveRequest {
    let mut request = RequestHead::new();
    if !matches!(request.parse(head, &LIMITS), Ok(Parsed::Complete(_))) {
        return LiveRequest::Refused("400 Bad Request");
    }
    if !request.value(head, KnownField::Host).is_some_and(is_of_this_machine) {
        return LiveRequest::Refused("421 Misdirected Request");
    }
    if request.method != Method::Get {
        return LiveRequest::Refused("405 Method Not Allowed");
    }
    match request.target.of(head) {
        b"/" => LiveRequest::Page,
        b"/events" => LiveRequest::Events,
        b"/state" => LiveRequest::State,
        _ => LiveRequest::Refused("404 Not Found"),
    }
}

/// Whether a Host field is loopback's.
fn is_of_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
        _ => (host, ""),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_address = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    port.len() <= 5 && (is_address || name.eq_ignore_ascii_case("localhost"))
}

fn whole(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The state at once, then at each change, until the run is over or the client has disconnected.
fn events(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
          X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
    )?;
    let mut seen = 0;
    while !shared.ended.load(Ordering::Acquire) {
        let (version, state) = shared.hub.wait(seen, KEEP_ALIVE);
        if version == seen {
            stream.write_all(b":\n\n")?;
            continue;
        }
        seen = version;
        let json = serde_json::to_string(&state).map_err(io::Error::other)?;
        stream.write_all(format!("id: {version}\ndata: {json}\n\n").as_bytes())?;
        if state.ended {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::State;
    use proptest::prelude::*;

    fn serving() -> (Arc<Hub>, ServedPage, SocketAddr) {
        let hub = Hub::new(State::new("spice", "lab-1"));
        let bound = PageListener::to("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address();
        let serving = bound.serve(Arc::clone(&hub)).unwrap();
        (hub, serving, address)
    }

    fn get(address: SocketAddr, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_page_the_state_and_the_events_are_given() {
        let (hub, serving, address) = serving();
        let host = address.to_string();
        assert!(get(address, "/", &host).contains("<!doctype html>"));
        assert!(get(address, "/state", &host).contains("\"suite\":\"spice\""));
        let reading = std::thread::spawn(move || get(address, "/events", &host));
        hub.update(|state| state.doing = "measuring".to_owned());
        hub.update(|state| state.end("done"));
        let events = reading.join().unwrap();
        assert!(events.contains("text/event-stream") && events.contains("\"ended\":true"), "{events}");
        serving.end();
    }

    #[test]
    fn others_are_refused() {
        let (_hub, _serving, address) = serving();
        assert!(get(address, "/none", "localhost").starts_with("HTTP/1.1 404 "));
        assert!(get(address, "/", "evil.example").starts_with("HTTP/1.1 421 "));
        assert_eq!(
            parse_request(b"POST / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
            LiveRequest::Refused("405 Method Not Allowed")
        );
        assert!(PageListener::to("192.0.2.1:80".parse().unwrap()).unwrap_err().contains("loopback"));
    }

    #[test]
    fn the_page_loads_nothing() {
        for foreign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_request(&bytes);
        }

        #[test]
        fn no_foreign_name_is_taken_for_this_machine(name in "[a-z]{1,10}\\.[a-z]{2,5}(:[0-9]{1,5})?") {
            prop_assert!(!is_of_this_machine(name.as_bytes()));
        }
    }
}
