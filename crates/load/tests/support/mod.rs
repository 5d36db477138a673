//! A small server for the tests, with one thread per connection and a script that answers the requests.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use touchstone_load::{Plan, Target};

/// The action on the connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The connection is kept.
    Keep,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
}

/// A received request.
pub struct Request {
    /// The request line.
    pub line: String,
    /// The header fields.
    pub fields: Vec<String>,
    /// The body, by its Content-Length.
    pub body: Vec<u8>,
    /// The number of earlier requests on this connection.
    pub before: u64,
}

/// A running server; its threads end with the test's process.
pub struct Server {
    /// The address of the server.
    pub address: SocketAddr,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    pub fn start(script: impl Fn(&Request, &mut TcpStream) -> After + Send + Sync + 'static) -> Server {
        Server::start_on("127.0.0.1:0", script).expect("the loopback interface is there")
    }

    /// Starts a server on the given address, if it is available.
    pub fn start_on(
        address: &str,
        script: impl Fn(&Request, &mut TcpStream) -> After + Send + Sync + 'static,
    ) -> Option<Server> {
        Server::on_listener(TcpListener::bind(address).ok()?, Duration::ZERO, script)
    }

    /// Starts a server on an existing listener, and accepts connections after a delay.
    pub fn on_listener(
        listener: TcpListener,
        pause: Duration,
        script: impl Fn(&Request, &mut TcpStream) -> After + Send + Sync + 'static,
    ) -> Option<Server> {
        let server = Server {
            address: listener.local_addr().ok()?,
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        let script = Arc::new(script);
        std::thread::spawn(move || {
            std::thread::sleep(pause);
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (requests, script) = (requests.clone(), script.clone());
                std::thread::spawn(move || serve(stream, &requests, script.as_ref()));
            }
        });
        Some(server)
    }

    /// A plan for one path of this server.
    pub fn plan(&self, path: &str) -> Plan {
        Plan::of_one(Target::plain(self.address, &self.address.to_string()), path)
    }

    /// The number of completely received requests.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// An answer with Content-Length.
pub fn answer(status: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn serve(
    stream: TcpStream,
    requests: &AtomicU64,
    script: &(impl Fn(&Request, &mut TcpStream) -> After + ?Sized),
) {
    let _ = stream.set_nodelay(true);
    let mut writer = stream.try_clone().expect("a second handle of the socket");
    let mut reader = BufReader::new(stream);
    for before in 0.. {
        let Some(request) = read_request(&mut reader, before) else { return };
        requests.fetch_add(1, Ordering::SeqCst);
        match script(&request, &mut writer) {
            After::Keep => {}
            After::Close => return,
            After::Reset => {
                let _ = rustix::net::sockopt::set_socket_linger(&writer, Some(Duration::ZERO));
                return;
            }
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>, before: u64) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_string()),
        }
    }
    let fields = lines.split_off(1);
    let length = fields.iter().find_map(|field| field.strip_prefix("Content-Length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: lines.pop()?, fields, body, before })
}

/// Writes to the client. Errors are ignored, because the client may have closed the connection.
pub fn write(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}
