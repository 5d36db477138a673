//! The counts and the log line of one connection, or of one session of datagrams.
//!
//! The line is written when the record is dropped: also when the task ends because the server does.

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use serde_json::json;
use touchstone_handler::stream_counts::End;
use touchstone_http::request_view::{UNIX_CLIENT, UNIX_CLIENT_NAME, client_name};
use touchstone_observe::log_line::LogClock;

use crate::stream_of_core::StreamOfCore;

/// One connection or session, from its begin to its end.
pub struct Record {
    stream: Rc<StreamOfCore>,
    began: Instant,
    /// The client: the peer, or the address in a PROXY header.
    pub client: Cell<SocketAddr>,
    /// The name that the client requests.
    pub server_name: RefCell<Option<Box<str>>>,
    /// The origin's name.
    pub origin: RefCell<String>,
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    received_datagrams: Cell<u64>,
    sent_datagrams: Cell<u64>,
    end: Cell<End>,
}

impl Record {
    /// Counts a connection or session that begins.
    pub fn begin(stream: &Rc<StreamOfCore>, peer: SocketAddr) -> Record {
        stream.setup.counts.accepted.add(1);
        stream.count_open(true);
        Record {
            stream: stream.clone(),
            began: Instant::now(),
            client: Cell::new(peer),
            server_name: RefCell::default(),
            origin: RefCell::default(),
            received_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
            received_datagrams: Cell::new(0),
            sent_datagrams: Cell::new(0),
            // The reason if no other one is set.
            end: Cell::new(End::Stopped),
        }
    }

    /// Ends it for this reason.
    pub fn end(self, end: End) {
        self.set_end(end);
    }

    /// The reason of an end if the record is dropped without another one.
    pub fn set_end(&self, end: End) {
        self.end.set(end);
    }

    /// Its stream.
    pub fn stream(&self) -> &StreamOfCore {
        &self.stream
    }

    /// Bytes of the client were passed on, or wait for that.
    pub fn received(&self, bytes: usize) {
        self.received_bytes.set(self.received_bytes.get() + bytes as u64);
        self.stream.setup.counts.received_bytes.add(bytes as u64);
    }

    /// Bytes of the origin.
    pub fn sent(&self, bytes: usize) {
        self.sent_bytes.set(self.sent_bytes.get() + bytes as u64);
        self.stream.setup.counts.sent_bytes.add(bytes as u64);
    }

    /// A datagram of the client was passed on.
    pub fn received_datagram(&self, bytes: usize) {
        self.received(bytes);
        self.received_datagrams.set(self.received_datagrams.get() + 1);
        self.stream.setup.counts.received_datagrams.add(1);
    }

    /// A datagram of the origin was passed on.
    pub fn sent_datagram(&self, bytes: usize) {
        self.sent(bytes);
        self.sent_datagrams.set(self.sent_datagrams.get() + 1);
        self.stream.setup.counts.sent_datagrams.add(1);
    }

    /// Datagrams in both directions.
    pub fn datagrams(&self) -> [u64; 2] {
        [self.received_datagrams.get(), self.sent_datagrams.get()]
    }

    fn append(&self, line: &mut Vec<u8>, clock: &LogClock) {
        let config = &self.stream.setup.config;
        let protocol = config.protocol();
        let time = String::from_utf8_lossy(clock.rfc3339());
        let (server_name, origin) = (self.server_name.borrow(), self.origin.borrow());
        let (seconds, end) = (self.began.elapsed().as_secs_f64(), self.end.get().label());
        let client = self.client.get();
        if config.log_is_json {
            let mut object = json!({
                "time": time,
                "stream": config.name,
                "protocol": protocol,
                "client": client_name(client.ip()),
                "client_port": client.port(),
                "server_name": server_name.as_deref(),
                "origin": (!origin.is_empty()).then_some(origin.as_str()),
                "received_bytes": self.received_bytes.get(),
                "sent_bytes": self.sent_bytes.get(),
                "duration_s": (seconds * 1000.0).round() / 1000.0,
                "end": end,
            });
            if config.is_udp {
                object["received_datagrams"] = json!(self.received_datagrams.get());
                object["sent_datagrams"] = json!(self.sent_datagrams.get());
            }
            // A write into memory does not fail.
            let _ = write!(line, "{object}");
            return;
        }
        // A server name is that of a host, and the others are words of the configuration: none needs quotes.
        let server_name = server_name.as_deref().unwrap_or("-");
        let origin = if origin.is_empty() { "-" } else { origin.as_str() };
        let (received, sent) = (self.received_bytes.get(), self.sent_bytes.get());
        let client = match client.ip() {
            UNIX_CLIENT => UNIX_CLIENT_NAME.to_string(),
            address => SocketAddr::new(address.to_canonical(), client.port()).to_string(),
        };
        let _ = write!(
            line,
            "{time} {} {protocol} {client} {server_name} {origin} {received} {sent} {seconds:.3} {end}",
            config.name
        );
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.stream.count_open(false);
        self.stream.setup.counts.ended(self.end.get());
        if let Some(log) = self.stream.log() {
            log.borrow_mut().append_line(|line, clock| self.append(line, clock));
        }
    }
}
