//! The state of a virtual client and of a connection in an engine thread.
//!
//! A client has one active request at a time. In HTTP/1 it has its own connection to each target. In HTTP/2
//! and 3 a *group* of clients shares one, and each client has its own slot.

use crate::answer::AnswerReader;
use crate::choice::Random;
use crate::h2::Http2;
use crate::h3::Http3;
use crate::request_template::{RedirectForm, WrittenRequest};
use crate::retained_answer::RetainedAnswer;
use crate::tls::TlsConnection;
use crate::websocket::WebSocket;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use touchstone_session::State;

/// The state of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// The client has no active request.
    Idle,
    /// The request waits until its connection is established, its TLS handshake is done, or a stream is free.
    Waiting,
    /// A part of the request was sent.
    Sending,
    /// The request was sent or is in the output buffer; the client waits for the answer.
    Receiving,
}

/// One virtual client.
pub(crate) struct Client {
    /// Its number in the whole run.
    pub(crate) number: usize,
    pub(crate) state: ClientState,
    pub(crate) random: Random,
    /// The active request, an index into the prepared requests. Its connection is in `connection`.
    pub(crate) request: usize,
    /// The current page: the chosen request, and the number of its following requests that were started.
    pub(crate) page: Page,
    /// The request of a recorded arrival; `None`: the next request is chosen by weight.
    pub(crate) recorded_request: Option<u32>,
    pub(crate) connection: usize,
    /// The number of sent bytes of the request (HTTP/1 without TLS).
    pub(crate) sent: usize,
    /// The request is the last one on its connection.
    pub(crate) is_last: bool,
    /// The request was sent before, on a connection that did not answer it.
    pub(crate) retried: bool,
    /// The start of the latency: in an open load the due time of the request.
    pub(crate) started_ns: u64,
    /// The actual start of the request.
    pub(crate) service_started_ns: u64,
    /// The number of remaining requests of the session.
    pub(crate) session_requests_left: u64,
    pub(crate) answer: AnswerReader,
    /// The retained parts of the answer, if the plan requires more than its length.
    pub(crate) retained: Option<Box<RetainedAnswer>>,
    /// The values of the session, if the plan has a script.
    pub(crate) script: Option<Box<State>>,
    /// The request as this client sends it, if the request varies.
    pub(crate) written: Option<Box<WrittenRequest>>,
    /// The active request is the one in `written`.
    pub(crate) is_written: bool,
    /// The form of the request after a redirect.
    pub(crate) redirect_form: RedirectForm,
    /// The number of redirects that were followed for the request.
    pub(crate) redirects: u32,
    /// The next request follows a redirect.
    pub(crate) is_redirected: bool,
}

impl Client {
    pub(crate) fn new(number: usize, seed: u64) -> Client {
        Client {
            number,
            state: ClientState::Idle,
            random: Random::of_client(seed, number),
            request: 0,
            page: Page::NONE,
            recorded_request: None,
            connection: 0,
            sent: 0,
            is_last: false,
            retried: false,
            started_ns: 0,
            service_started_ns: 0,
            session_requests_left: 0,
            answer: AnswerReader::new(),
            retained: None,
            script: None,
            written: None,
            is_written: false,
            redirect_form: RedirectForm::None,
            redirects: 0,
            is_redirected: false,
        }
    }

    /// The answer is a stream of messages, and the client has received the planned number of them.
    pub(crate) fn has_all_messages(&self) -> bool {
        let messages = self.retained.as_ref().and_then(|retained| retained.parts.messages.as_ref());
        messages.is_some_and(|messages| messages.has_reached_limit())
    }
}

/// The progress of a client within a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// The request that was chosen.
    pub(crate) first: usize,
    /// The number of its following requests that were started.
    pub(crate) started: usize,
}

impl Page {
    /// No page: no request remains.
    pub(crate) const NONE: Page = Page { first: 0, started: usize::MAX };
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no connection.
    Closed,
    /// The connection is not established yet.
    Connecting,
    /// The TLS handshake is in progress.
    Handshaking,
    /// Requests can be sent.
    Open,
}

/// One connection of a client, or of a group of them, to one target.
pub(crate) struct Connection {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) phase: Phase,
    /// The number of earlier connections in this place. A changed number shows that the connection is a new
    /// one.
    pub(crate) generation: u64,
    pub(crate) target: usize,
    /// The first client of the group that uses the connection.
    pub(crate) first_client: usize,
    /// An answer was received on it before.
    pub(crate) reused: bool,
    /// An event has reported that the server closed the connection. The remaining bytes must be received now,
    /// because no other event will follow.
    pub(crate) peer_closed: bool,
    /// It is in the list of unfinished connections.
    pub(crate) unfinished: bool,
    pub(crate) connect_started_ns: u64,
    pub(crate) connect_returned_ns: u64,
    /// The layers between requests and the socket, such as TLS and HTTP/2. HTTP/1 without TLS has none.
    pub(crate) layers: Option<Box<Layers>>,
}

/// The layers between requests and the socket.
#[derive(Default)]
pub(crate) struct Layers {
    pub(crate) tls: Option<TlsConnection>,
    pub(crate) h2: Option<Http2>,
    /// HTTP/3, which contains its own TLS and sends its own datagrams.
    pub(crate) h3: Option<Box<Http3>>,
    /// The current or last WebSocket of the client.
    pub(crate) websocket: Option<Box<WebSocket>>,
    /// The detail of a failed WebSocket: the reason of the server's close frame, or the beginning of an
    /// invalid frame.
    pub(crate) failure_detail: Option<String>,
    /// The time of its timer.
    pub(crate) timer_ns: u64,
    /// Plaintext output, before encryption.
    pub(crate) frames: Vec<u8>,
    /// Output for the socket, and the number of sent bytes.
    pub(crate) out: Vec<u8>,
    pub(crate) sent: usize,
    /// Pipelining: the clients whose requests were sent, in the order of the answers.
    pub(crate) pipeline: VecDeque<usize>,
    /// The clients whose requests wait for the connection.
    pub(crate) waiting: VecDeque<usize>,
    /// The connection is in the list of connections that may have output.
    pub(crate) is_dirty: bool,
    /// An event will report when the socket is writable.
    pub(crate) awaits_writable: bool,
}

impl Connection {
    pub(crate) fn new(target: usize, first_client: usize, has_layers: bool) -> Connection {
        Connection {
            socket: None,
            phase: Phase::Closed,
            generation: 0,
            target,
            first_client,
            reused: false,
            peer_closed: false,
            unfinished: false,
            connect_started_ns: 0,
            connect_returned_ns: 0,
            layers: has_layers.then(Box::default),
        }
    }

    /// The token of the socket's events: the number of the connection and, in the upper half, its generation,
    /// because an event of an earlier connection may still be pending.
    pub(crate) fn event_token(&self, index: usize) -> u64 {
        (self.generation << 32) | index as u64
    }

    /// Closes the connection and resets its state. The clients that wait for it remain in the queue.
    pub(crate) fn close(&mut self) {
        if let (Some(layers), Some(socket)) = (&mut self.layers, &self.socket) {
            if let Some(tls) = &mut layers.tls
                && layers.out.is_empty()
            {
                // The close_notify alert is sent if the socket accepts it at once.
                tls.close(&mut layers.out);
                let _ = rustix::net::send(socket, &layers.out, rustix::net::SendFlags::NOSIGNAL);
            }
            if let Some(h3) = &mut layers.h3 {
                h3.send_close(socket);
            }
            layers.tls = None;
            layers.h2 = None;
            layers.h3 = None;
            layers.pipeline.clear();
            if let Some(socket) = &mut layers.websocket {
                socket.reset();
            }
            layers.frames.clear();
            layers.out.clear();
            layers.sent = 0;
            layers.awaits_writable = false;
        }
        self.socket = None;
        self.phase = Phase::Closed;
        self.generation += 1;
    }
}
