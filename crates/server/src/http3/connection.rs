//! The part of a connection that its streams use. `connection_task` runs it.
//!
//! A connection whose client breaks the protocol is closed with the code of the error (RFC 9114 section 8).

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use quinn::{ReadError, RecvStream};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use touchstone_handler::request::TlsFacts;
use touchstone_http::h2::Priority;
use touchstone_http::h3::{ConnectionError, ControlEvent, CriticalStreams, ErrorCode, UnidirectionalStream};
use touchstone_tls::{QuicFacts, client_certificate, host_name};

use super::listener::Listener;
use super::stream::{RECEIVE_BYTES, code};
use super::turns::Turns;
use touchstone_exchange::connection_number::ConnectionNumber;
use touchstone_exchange::core::deadline::SessionHandle;

/// The largest difference of a client's cancelled and answered requests, before its connection is closed: a
/// cancelled request costs the server work, and the client almost none.
const MOST_CANCELLED: u32 = 200;

/// The part of a connection that its streams use.
pub struct Connection {
    /// The listener that accepted it.
    pub listener: Rc<Listener>,
    /// QUIC.
    pub quic: quinn::Connection,
    /// The settings in the client's hello.
    facts: QuicFacts,
    /// The state of the connection that is shown to operators.
    pub session: SessionHandle,
    tls_facts: OnceCell<Arc<TlsFacts>>,
    /// The host of the last request that may be answered on this connection.
    served_host: RefCell<Vec<u8>>,
    number: Cell<ConnectionNumber>,
    /// Streams that are being answered.
    open: Cell<usize>,
    /// Requests answered.
    pub requests: Cell<u64>,
    /// Woken when a stream has ended, or a request was answered.
    pub changed: Notify,
    /// How many more requests may be cancelled.
    cancellations_left: Cell<u32>,
    critical: RefCell<CriticalStreams>,
    /// Priorities for requests, some of which have not arrived yet.
    priorities: RefCell<FxHashMap<u64, Priority>>,
    /// The answers that wait for the send window.
    pub turns: Turns,
}

/// A stream that is being answered.
pub struct OpenStream {
    /// Its connection.
    pub connection: Rc<Connection>,
    /// Its identifier.
    pub id: u64,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.priorities.borrow_mut().remove(&self.id);
        connection.open.set(connection.open.get() - 1);
        connection.changed.notify_one();
    }
}

impl Connection {
    /// A connection with the facts from its handshake.
    pub fn new(
        listener: Rc<Listener>,
        quic: quinn::Connection,
        facts: QuicFacts,
        session: SessionHandle,
    ) -> Connection {
        Connection {
            listener,
            quic,
            facts,
            session,
            tls_facts: OnceCell::new(),
            served_host: RefCell::default(),
            number: Cell::default(),
            open: Cell::new(0),
            requests: Cell::new(0),
            changed: Notify::new(),
            cancellations_left: Cell::new(MOST_CANCELLED),
            critical: RefCell::default(),
            priorities: RefCell::default(),
            turns: Turns::default(),
        }
    }

    /// The number of the connection.
    pub fn number(&self) -> u64 {
        let mut number = self.number.get();
        let value = number.get();
        self.number.set(number);
        value
    }

    /// How many streams are being answered.
    pub fn open_streams(&self) -> usize {
        self.open.get()
    }

    /// Adds a stream whose request is being answered.
    pub fn open_stream(self: &Rc<Connection>, id: u64) -> OpenStream {
        self.open.set(self.open.get() + 1);
        OpenStream { connection: self.clone(), id }
    }

    // ---- for streams

    /// Ends the connection.
    pub fn close(&self, error: ErrorCode, reason: &str) {
        self.quic.close(code(error), reason.as_bytes());
    }

    /// Ends the connection because of an error of the client.
    pub fn fail(&self, error: ConnectionError) {
        self.listener.core.error_log.debug(format_args!("an HTTP/3 connection was ended: {error}"));
        self.close(error.code, error.reason);
    }

    /// Whether a request for this host may be answered on this connection. The answer is the same for as long
    /// as the connection lives, and most requests of a connection have one host.
    pub fn may_serve(&self, host: Option<&[u8]>) -> bool {
        let served = &mut *self.served_host.borrow_mut();
        if host == Some(served.as_slice()) && !served.is_empty() {
            return true;
        }
        let may_serve = host_name(host).is_some_and(|name| self.facts.may_serve(&name));
        if may_serve {
            served.clear();
            served.extend_from_slice(host.unwrap_or_default());
        }
        may_serve
    }

    /// The facts of the TLS session for handlers.
    pub fn tls_facts(&self) -> Arc<TlsFacts> {
        let read = || {
            let certificate = client_certificate(self.quic.peer_identity());
            let certificate = certificate.as_ref();
            Arc::new(TlsFacts {
                version: "TLSv1.3",
                cipher_suite: self.facts.cipher_suite,
                server_name: self.facts.server_name.clone(),
                resumed: self.facts.is_resumed,
                client_subject: certificate.map(|certificate| certificate.subject.as_str().into()),
                client_issuer: certificate.map(|certificate| certificate.issuer.as_str().into()),
                client_serial: certificate.map(|certificate| certificate.serial_number.as_str().into()),
                client_fingerprint: certificate.map(|certificate| certificate.fingerprint.as_str().into()),
                client_certificates: certificate
                    .map(|certificate| certificate.chain.as_slice().into())
                    .unwrap_or_default(),
            })
        };
        self.tls_facts.get_or_init(read).clone()
    }

    /// Counts an answered request.
    pub fn count_answer(&self) {
        self.requests.set(self.requests.get() + 1);
        self.session.session().requests.set(self.requests.get());
        self.cancellations_left.set((self.cancellations_left.get() + 1).min(MOST_CANCELLED));
    }

    /// Counts a request that its client has cancelled.
    pub fn count_cancellation(&self) {
        match self.cancellations_left.get().checked_sub(1) {
            Some(left) => self.cancellations_left.set(left),
            None => {
                let reason = "a client that cancels one request after the other";
                self.fail(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason));
            }
        }
    }

    /// The priority of a stream's answer; `requested` is the priority in the request itself. A frame takes
    /// precedence, because it is newer (RFC 9218 section 7).
    pub fn priority(&self, stream: u64, requested: Option<Priority>) -> Priority {
        self.priorities.borrow().get(&stream).copied().or(requested).unwrap_or_default()
    }

    // ---- streams in one direction

    /// Reads a stream in one direction to its end.
    pub async fn read_unidirectional(self: Rc<Connection>, mut receive: RecvStream) {
        let mut stream = UnidirectionalStream::default();
        let mut second = 0;
        loop {
            let result = match receive.read_chunk(RECEIVE_BYTES, true).await {
                Ok(Some(chunk)) => {
                    let now = self.listener.core.clock.second().unix_seconds;
                    if std::mem::replace(&mut second, now) != now {
                        stream.replenish();
                    }
                    let critical = &mut *self.critical.borrow_mut();
                    stream.receive(&chunk.bytes, critical, |event| self.handle_control(event))
                }
                Ok(None) | Err(ReadError::Reset(_)) => match stream.finish() {
                    Ok(()) => return,
                    Err(error) => Err(error),
                },
                Err(_) => return,
            };
            if let Err(error) = result {
                return self.fail(error);
            }
            if stream.is_ignored() {
                let _ = receive.stop(code(ErrorCode::STREAM_CREATION_ERROR));
                return;
            }
        }
    }

    fn handle_control(&self, event: ControlEvent) {
        // The server's sections need no table, it does not push, and a client that leaves closes the
        // connection itself.
        let ControlEvent::Priority { stream, priority } = event else { return };
        let priorities = &mut *self.priorities.borrow_mut();
        let most = self.listener.core.state.borrow().snapshot.config.limits.http3_streams as usize;
        if priorities.len() < 2 * most || priorities.contains_key(&stream) {
            priorities.insert(stream, priority);
        }
    }
}
