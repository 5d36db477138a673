//! A virtual client and a connection, as an engine thread keeps them.
//!
//! A client has one request under way at a time. In HTTP/1 it has its own connection to each target; in
//! HTTP/2 some clients, a *group*, share one, each with its own slot.

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

/// What a client is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// No request is under way.
    Resting,
    /// The request waits for its connection: to be made, to be secured, or to take one more stream.
    Waiting,
    /// A part of the request is sent.
    Sending,
    /// The request is sent, or will be as soon as possible; the answer is awaited.
    Receiving,
}

/// One virtual client.
pub(crate) struct Client {
    /// Its number in the whole run.
    pub(crate) number: usize,
    pub(crate) state: ClientState,
    pub(crate) random: Random,
    /// The request that is under way, an index into the prepared requests, and the connection that it is on.
    pub(crate) request: usize,
    /// The page that it is of: the chosen request, and how many of its following requests were made.
    pub(crate) page: Page,
    /// The request that has arrived and will be made, if it is not chosen by weight.
    pub(crate) arrived: Option<u32>,
    pub(crate) connection: usize,
    /// How many of its bytes are sent (HTTP/1 without TLS).
    pub(crate) sent: usize,
    /// The request is the last of its connection.
    pub(crate) is_last: bool,
    /// The request was already sent once, on a kept connection that the server had closed.
    pub(crate) retried: bool,
    /// Where the latency begins: in an open load, when the request was due.
    pub(crate) started_ns: u64,
    /// The real start of the request.
    pub(crate) service_started_ns: u64,
    /// Requests of its session that are still to come.
    pub(crate) session_left: u64,
    pub(crate) answer: AnswerReader,
    /// What is kept of the answer in addition to its length, if anything.
    pub(crate) retained: Option<Box<RetainedAnswer>>,
    /// The values of its session, where the plan has any.
    pub(crate) script: Option<Box<State>>,
    /// The request as this client sends it, where it is not the same every time.
    pub(crate) written: Option<Box<WrittenRequest>>,
    /// The request under way is the one in `written`.
    pub(crate) is_written: bool,
    /// How it is written after a redirect.
    pub(crate) redirect_form: RedirectForm,
    /// How many redirects were followed for it.
    pub(crate) redirects: u32,
    /// The next request follows a redirect.
    pub(crate) is_redirected: bool,
}

impl Client {
    pub(crate) fn new(number: usize, seed: u64) -> Client {
        Client {
            number,
            state: ClientState::Resting,
            random: Random::of_client(seed, number),
            request: 0,
            page: Page::NONE,
            arrived: None,
            connection: 0,
            sent: 0,
            is_last: false,
            retried: false,
            started_ns: 0,
            service_started_ns: 0,
            session_left: 0,
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

    /// Its answer is a stream, and it has received as many messages as it wants.
    pub(crate) fn has_all_messages(&self) -> bool {
        let messages = self.retained.as_ref().and_then(|retained| retained.parts.messages.as_ref());
        messages.is_some_and(|messages| messages.is_full())
    }
}

/// How far a client is with a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// The request that was chosen.
    pub(crate) first: usize,
    /// How many of the requests after it were made.
    pub(crate) made: usize,
}

impl Page {
    /// None yet: none of its requests is left.
    pub(crate) const NONE: Page = Page { first: 0, made: usize::MAX };
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none.
    Closed,
    /// Nothing could be sent yet.
    Connecting,
    /// TLS is being agreed upon.
    Handshaking,
    /// Requests can be sent.
    Open,
}

/// One connection of a client, or of a group of them, to one target.
pub(crate) struct Connection {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) phase: Phase,
    /// The number of earlier connections in this slot, by which their users see that it is another one.
    pub(crate) generation: u64,
    pub(crate) target: usize,
    /// The first of the clients that it serves.
    pub(crate) first_client: usize,
    /// It has carried an answer before.
    pub(crate) reused: bool,
    /// An event has reported that the server closed the connection: the rest must be received now, because no
    /// other event will follow.
    pub(crate) hung_up: bool,
    /// It is in the list of unfinished ones.
    pub(crate) unfinished: bool,
    pub(crate) connect_started_ns: u64,
    pub(crate) connect_returned_ns: u64,
    /// Where HTTP/1 does not go straight to the socket: TLS, HTTP/2, or both.
    pub(crate) layers: Option<Box<Layers>>,
}

/// What lies between requests and the socket.
#[derive(Default)]
pub(crate) struct Layers {
    pub(crate) tls: Option<TlsConnection>,
    pub(crate) h2: Option<Http2>,
    /// HTTP/3, which has its own TLS and sends for itself.
    pub(crate) h3: Option<Box<Http3>>,
    /// The WebSocket that its client has on it, or had.
    pub(crate) websocket: Option<Box<WebSocket>>,
    /// The close code and reason of a server that broke off a WebSocket.
    pub(crate) last_words: Option<String>,
    /// When its timer is set to.
    pub(crate) timer_ns: u64,
    /// Frames that are to be sent, or encrypted and sent.
    pub(crate) frames: Vec<u8>,
    /// Bytes for the socket, and how many of them are sent.
    pub(crate) out: Vec<u8>,
    pub(crate) sent: usize,
    /// HTTP/1.1 with several clients: those whose requests were sent, in the order in which they are
    /// answered.
    pub(crate) pipeline: VecDeque<usize>,
    /// Clients whose requests wait for the connection.
    pub(crate) waiting: VecDeque<usize>,
    /// There may be something to send.
    pub(crate) is_dirty: bool,
    /// An event will tell when more can be sent.
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
            hung_up: false,
            unfinished: false,
            connect_started_ns: 0,
            connect_returned_ns: 0,
            layers: has_layers.then(Box::default),
        }
    }

    /// What marks the events of the socket: the number of the connection and, in the upper half, which one it
    /// is in this place, as an event of the one before may still be on its way.
    pub(crate) fn mark(&self, index: usize) -> u64 {
        (self.generation << 32) | index as u64
    }

    /// Ends the connection and resets its own state. Clients that wait for it stay.
    pub(crate) fn close(&mut self) {
        if let (Some(layers), Some(socket)) = (&mut self.layers, &self.socket) {
            if let Some(tls) = &mut layers.tls
                && layers.out.is_empty()
            {
                // The close message is sent if the socket accepts it at once.
                tls.close(&mut layers.out);
                let _ = rustix::net::send(socket, &layers.out, rustix::net::SendFlags::NOSIGNAL);
            }
            if let Some(h3) = &mut layers.h3 {
                h3.say_goodbye(socket);
            }
            layers.tls = None;
            layers.h2 = None;
            layers.h3 = None;
            layers.pipeline.clear();
            if let Some(socket) = &mut layers.websocket {
                socket.forget();
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
