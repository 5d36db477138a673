//! The life of an HTTP/1 connection (RFC 9112).
//!
//! A connection moves between a few named states, [`ConnectionStep`]. The common one needs no task and no
//! allocation: received bytes are parsed in place, and each plain GET of a cached file is answered by one
//! write from the cache (`hits`). Every other request takes [`Connection::answer_request`], where every step
//! may wait. A connection begins in the accept loop, and becomes a task when it first has to wait.

pub mod parked;

mod body_decoder;
mod direct_call;
mod gathered;
mod hits;
mod http2;
mod migration;
mod outcome;
mod own_listener;
mod peer;
mod pending;
mod receiving;
mod request_body;
mod response;
mod sending;
mod timing;
mod worker_start;
mod worker_thread;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gathered::GatheredAnswers;
use http2::Http2;
use migration::Migration;
use outcome::{PendingAnswer, ReadyAnswer};
use own_listener::OwnListener;
use peer::Peer;
use request_body::BodyFeed;
use timing::Timing;
use touchstone_access::ConnectionPermit;
use touchstone_admin::connection_info::{OpeningFacts, UnderWayGuard};
use touchstone_config::ListenAddress;
use touchstone_files::cache::{ConnectionForm, PreparedResponse};
use touchstone_handler::answer::Answer;
use touchstone_handler::request::Protocol;
use touchstone_http::request::{KnownField, RequestError, RequestHead, Version};
use touchstone_observe::metrics::Timeout;
use touchstone_sites::site::Snapshot;
use touchstone_transport::Transport;

use crate::accounting::{self, AnsweredRequest};
use touchstone_exchange::core::worker::PendingCall;
use touchstone_exchange::core::{Core, CoreState};
use touchstone_exchange::steps::{self, Progress};

/// What a connection has to do next.
pub enum ConnectionStep {
    /// Wait for more bytes.
    Receive,
    /// Examine what was received already.
    Buffered,
    /// Answer the request at the start of the input, which is not a plain hit, and whose head this is.
    Answer(Box<ParsedHead>),
    /// Write the rest of a response that did not fit into one write; the input begins with its request.
    Finish {
        /// The response.
        prepared: Arc<PreparedResponse>,
        /// How many bytes of it are written.
        sent: usize,
    },
    /// Send the answer of a program to the request at the start of the input.
    SendReady(Box<ReadyAnswer>),
    /// Wait for the answer of a program that has the request at the start of the input.
    Wait(Box<PendingAnswer>),
    /// Continue with HTTP/2; the input begins with its preface.
    Http2,
    /// Refuse the start of the input.
    Refuse(Refusal),
    /// Await the result of a call; the input begins with its request.
    AwaitCall(Box<PendingCall>),
    /// Wait for bytes without a task.
    Park,
    /// No step: the connection has returned to its core from a worker.
    ConnectionReturned,
    /// Wait until the client has read the last answer, then end.
    Linger,
    /// End.
    Close,
}

/// A head and how many bytes of the input it takes.
pub struct ParsedHead {
    head: RequestHead,
    length: usize,
}

/// Why a request head does not get a normal answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It breaks the protocol or a limit.
    Head(RequestError),
    /// It was not complete in time.
    Timeout,
}

impl Refusal {
    fn status(self) -> u16 {
        match self {
            Refusal::Head(error) => error.status(),
            Refusal::Timeout => 408,
        }
    }
}

/// One connection. Each part has one owner: the module that its type is in.
pub struct Connection {
    core: Rc<Core>,
    transport: Transport,
    /// Received and not consumed.
    input: Vec<u8>,
    /// Gathered answers that did not fit into one write.
    output: Vec<u8>,
    gathered: GatheredAnswers,
    /// Requests answered.
    requests: u64,
    /// How many bytes the last attempt to receive found.
    last_received: usize,
    peer: Peer,
    listener: OwnListener,
    timing: Timing,
    migration: Migration,
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(
        core: Rc<Core>,
        transport: Transport,
        peer: Option<SocketAddr>,
        listener: ListenAddress,
        permit: Option<ConnectionPermit>,
    ) -> Connection {
        Connection {
            core,
            transport,
            input: Vec::new(),
            output: Vec::new(),
            gathered: GatheredAnswers::default(),
            requests: 0,
            last_received: 0,
            peer: Peer::new(peer, permit),
            listener: OwnListener::new(listener),
            timing: Timing::default(),
            migration: Migration::default(),
        }
    }

    /// Receives and answers what needs no wait. For a connection with one request, that is usually all.
    pub fn begin(&mut self) -> ConnectionStep {
        let core = self.core.clone();
        let state = &mut *core.state.borrow_mut();
        let mut buffer = std::mem::take(&mut state.receive_buffer);
        let next = match self.transport.try_receive(&mut buffer) {
            Ok(Some(0)) | Err(_) => ConnectionStep::Close,
            Ok(Some(received)) => {
                self.last_received = received;
                self.process_received(state, &buffer[..received])
            }
            Ok(None) => {
                self.last_received = 0;
                ConnectionStep::Receive
            }
        };
        state.receive_buffer = buffer;
        match next {
            ConnectionStep::Close if !self.transport.end() => ConnectionStep::Linger,
            next => next,
        }
    }

    /// Serves what needs no wait, and makes the rest a task.
    pub fn begin_or_start(mut self) {
        match self.begin() {
            ConnectionStep::Close => {}
            next => self.start(next),
        }
    }

    /// Continues the connection as a task, after the steps of [`Connection::begin`]. It is counted from now
    /// on.
    pub fn start(mut self, next: ConnectionStep) {
        if self.timing.deadline.is_none() {
            let deadline = self.core.deadlines.register();
            deadline.session.open(OpeningFacts {
                peer: self.peer.address,
                listener: self.listener.address,
                at: Instant::now(),
                protocol: self.transport.scheme(),
            });
            self.timing.deadline = Some(deadline);
        }
        tokio::task::spawn_local(self.run(next));
    }

    /// Runs the connection to its end.
    async fn run(mut self, mut next: ConnectionStep) {
        loop {
            if !self.output.is_empty() && self.flush_output().await.is_err() {
                return;
            }
            if matches!(next, ConnectionStep::Receive) && self.is_for_worker() {
                return self.migrate();
            }
            next = match next {
                ConnectionStep::Receive => poll_fn(|context| self.poll_receive(context)).await,
                ConnectionStep::Buffered => self.serve_buffered(),
                ConnectionStep::Answer(parsed) => Box::pin(self.answer_request(*parsed)).await,
                ConnectionStep::SendReady(ready_answer) => Box::pin(self.send_ready(*ready_answer)).await,
                ConnectionStep::AwaitCall(call) => Box::pin(self.await_call(*call)).await,
                ConnectionStep::Park => match self.park() {
                    None => return,
                    Some(connection) => {
                        self = connection;
                        ConnectionStep::Receive
                    }
                },
                ConnectionStep::ConnectionReturned => return,
                ConnectionStep::Wait(waits) => self.wait_for(waits).await,
                ConnectionStep::Finish { prepared, sent } => Box::pin(self.finish_hit(prepared, sent)).await,
                ConnectionStep::Refuse(refusal) => Box::pin(self.refuse(refusal)).await,
                ConnectionStep::Http2 => return Box::pin(Http2::new(self).run()).await,
                ConnectionStep::Close if self.transport.end() => return,
                ConnectionStep::Linger | ConnectionStep::Close => return Box::pin(self.linger()).await,
            };
        }
    }

    /// The form of head for an answer to `state.head`.
    #[inline]
    fn form(&self, state: &CoreState) -> ConnectionForm {
        self.form_for(&state.head, state.snapshot.config.limits.keep_alive_requests)
    }

    /// The form of head for an answer to `head`, on a connection that may have this many requests (0: no
    /// limit).
    #[inline]
    fn form_for(&self, head: &RequestHead, most_requests: u64) -> ConnectionForm {
        let last_request = most_requests != 0 && self.requests + 1 >= most_requests;
        if !head.persistent || last_request || self.core.draining.get() {
            ConnectionForm::Close
        } else if head.version == Version::Http10 {
            ConnectionForm::KeepAlive
        } else {
            ConnectionForm::Persistent
        }
    }

    fn form_after_body(&self, head: &RequestHead, body_is_read: bool) -> ConnectionForm {
        // After an unread body, or when a reload removed the address, the connection cannot continue.
        if !body_is_read || self.listener.index.is_none() {
            return ConnectionForm::Close;
        }
        let most_requests = self.core.state.borrow().snapshot.config.limits.keep_alive_requests;
        self.form_for(head, most_requests)
    }

    /// Answers a head that could not be read, and ends the connection.
    async fn refuse(&mut self, refusal: Refusal) -> ConnectionStep {
        let started = Instant::now();
        if let Refusal::Head(error) = refusal {
            self.core.error_log.debug(format_args!("refused a request: {}", error.explanation()));
        }
        let (mut answer, progress) = (Answer::error(refusal.status()), Progress::default());
        let (snapshot, limits) = {
            let state = self.core.state.borrow();
            self.listener.follow_config(&state);
            (state.snapshot.clone(), state.limits)
        };
        // The parts of the head before its fault.
        let mut head = RequestHead::new();
        let _ = head.parse(&self.input, &limits);
        let field = head.value(&self.input, KnownField::Host);
        let host = steps::named_host(head.target.of(&self.input), field).map(Bytes::copy_from_slice);
        let arrival = self.arrival(&head);
        answer = Box::pin(self.with_error_page(&snapshot, arrival, (None, host), &progress, answer)).await;
        let framing = answer.framing(false, false);
        let mut output = answer.head(&self.core.clock.second(), ConnectionForm::Close, framing);
        let parts = std::mem::take(&mut answer.body);
        let written = self.write_answer(&mut output, parts, framing, &mut BodyFeed::none(), false).await;
        let body_bytes = match written {
            Ok(bytes) | Err((bytes, _)) => bytes,
        };
        let core = self.core.clone();
        let state = &mut *core.state.borrow_mut();
        let input = std::mem::take(&mut self.input);
        let line_end = memchr::memchr2(b'\r', b'\n', &input).unwrap_or(input.len());
        let table = state.snapshot.route_table.clone();
        let request = AnsweredRequest {
            connection: self.client_connection(Protocol::Http11),
            received: None,
            unread_line: &input[..line_end.min(state.limits.request_line_bytes)],
            table: &table,
            progress: &progress,
            client: None,
            user: None,
            status: answer.status,
            body_bytes,
            started,
        };
        accounting::note(state, request);
        self.input = input;
        if written.is_ok() { ConnectionStep::Linger } else { ConnectionStep::Close }
    }

    /// Records a request while it is answered, if the admin listener is on.
    fn begin_request(&self, snapshot: &Snapshot, method: &[u8], target: &[u8]) -> Option<UnderWayGuard> {
        let deadline = self.timing.deadline.as_ref().filter(|_| snapshot.config.admin.is_on())?;
        Some(deadline.begin_request(method, target))
    }

    /// Resets the connection of a client that receives its answer too slowly, so that the kernel drops the
    /// rest of the answer.
    fn note_slow_reader(&self) {
        self.count_timeout(Timeout::Send);
        self.transport.socket().reset_when_closed();
    }

    /// Counts a timeout of the client, unless the connection was ended to make room for others.
    fn count_timeout(&self, kind: Timeout) {
        if self.timing.deadline.as_ref().is_none_or(|deadline| deadline.claim_timeout_count()) {
            self.core.counts.timed_out(kind);
        }
    }
}

fn protocol_of(head: &RequestHead) -> Protocol {
    match head.version {
        Version::Http10 => Protocol::Http10,
        Version::Http11 => Protocol::Http11,
    }
}
