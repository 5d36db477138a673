//! The life of an HTTP/1 connection (RFC 9112).
//!
//! A connection moves between a few named states, [`Next`]. The common one needs no task and no allocation: what was
//! received is parsed where it lies, each plain GET of a cached file is answered by one write from the cache
//! ([`Connection::serve_hits`]). Whatever else is asked takes [`Connection::answer_request`], where every step may
//! wait. A connection begins in the accept loop, and becomes a task when it first has to wait.

mod accelerated;
pub mod as_http1;
mod at_once;
mod begun;
mod http2;
mod request_body;
mod response;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use touchstone_files::cache::{Prepared, Variant};
use touchstone_http::request::{
    Expectation, Method, Parsed, RequestBody, RequestError, RequestHead, Version,
};
use touchstone_http::target::is_plain_path;
use touchstone_interfaces::request::{Protocol, TlsFacts};

use crate::access::{ConnectionPermit, HeadFields, MinimumPace, Pace, RequestView};
use crate::account::{self, Account, HitOf, Origin};
use crate::answer::{Answer, Part};
use crate::core::{Core, Hot};
use crate::deadline::DeadlineGuard;
use crate::exchange::Progress;
use crate::metrics::Timeout;
use crate::route::AtOnce;
use crate::session::{Opened, UnderWayGuard};
use crate::site::Snapshot;
use crate::transport::Transport;

use at_once::Made;
use begun::Waits;
use http2::Http2;
use request_body::BodyFeed;

/// Answers to pipelined requests are gathered up to this size before they are written.
const GATHER_BYTES: usize = 128 * 1024;

/// After an answer that leaves part of the request unread: how long, and for how many bytes, the connection listens
/// on so that the client can read the answer before it learns that the rest was not wanted (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1024 * 1024;

/// What a connection has to do next.
pub enum Next {
    /// Wait for more bytes.
    Receive,
    /// Look at what was received already.
    Buffered,
    /// Answer the request at the start of the input, which is not a plain hit, and whose head this is.
    Answer(Box<ParsedHead>),
    /// Write the rest of a response that did not fit at once; the input begins with its request.
    Finish {
        /// The response.
        prepared: Arc<Prepared>,
        /// Bytes of it that are written.
        sent: usize,
    },
    /// Give the answer that a program has made for the request at the start of the input.
    Give(Box<Made>),
    /// Wait for the answer of a program that has the request at the start of the input.
    Wait(Box<Waits>),
    /// Speak HTTP/2; the input begins with its preface.
    Http2,
    /// Refuse what stands at the start of the input.
    Refuse(Refusal),
    /// Let the client read the last answer, then end.
    Linger,
    /// End.
    Close,
}

/// A head and how many bytes of the input it takes.
pub struct ParsedHead {
    head: RequestHead,
    length: usize,
}

/// Why a request head is not answered as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It breaks the protocol or a limit.
    Head(RequestError),
    /// It did not become whole in time.
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

/// What the current wait for input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Nothing yet.
    Nothing,
    /// The first byte of a request.
    Idle,
    /// The rest of a head.
    Head,
}

/// One connection.
pub struct Connection {
    core: Rc<Core>,
    transport: Transport,
    /// Where the client is; absent when nobody wants to know.
    peer: Option<SocketAddr>,
    /// The peer's address as text, made for the first log line.
    peer_text: String,
    /// Counts the connection among its client's.
    _permit: Option<ConnectionPermit>,
    /// The address that it was accepted on.
    listener: SocketAddr,
    /// Which generation of the configuration `listener_index` belongs to.
    generation: u64,
    /// Index of the listener in the snapshot; `None` when a reload removed it.
    listener_index: Option<usize>,
    /// Received and not consumed.
    input: Vec<u8>,
    /// Gathered answers that did not fit at once.
    output: Vec<u8>,
    /// Requests answered.
    requests: u64,
    waiting: Waiting,
    /// Sent since the client was waited for last.
    sent_since_wait: u64,
    /// How fast the client takes the present answer; `None`: it was not waited for.
    send_pace: Option<Pace>,
    /// What is known of the TLS session, made for the first request that is not a plain hit.
    tls_facts: Option<Arc<TlsFacts>>,
    deadline: Option<DeadlineGuard>,
}

/// What came of trying to answer from the cache.
enum Hit {
    /// Answered, or gathered to be; the connection goes on, or not.
    Answered { persistent: bool },
    /// Answered in part.
    Partly { prepared: Arc<Prepared>, sent: usize },
    /// A program has made the answer, which cannot be given in passing.
    Made(Box<Made>),
    /// A program is to make the answer.
    Waits(Box<Waits>),
    /// It is not a plain hit.
    Not,
    /// The connection broke.
    Broken,
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(
        core: Rc<Core>,
        transport: Transport,
        peer: Option<SocketAddr>,
        listener: SocketAddr,
        permit: Option<ConnectionPermit>,
    ) -> Connection {
        Connection {
            core,
            transport,
            peer,
            peer_text: String::new(),
            _permit: permit,
            listener,
            generation: 0,
            listener_index: None,
            input: Vec::new(),
            output: Vec::new(),
            requests: 0,
            waiting: Waiting::Nothing,
            sent_since_wait: 0,
            send_pace: None,
            tls_facts: None,
            deadline: None,
        }
    }

    /// Receives and answers what can be without waiting: most of what a connection for one request ever does.
    pub fn begin(&mut self) -> Next {
        let core = self.core.clone();
        let hot = &mut *core.hot.borrow_mut();
        let mut buffer = std::mem::take(&mut hot.receive_buffer);
        let next = match self.transport.try_receive(&mut buffer) {
            Ok(Some(0)) | Err(_) => Next::Close,
            Ok(Some(received)) => self.take_in(hot, &buffer[..received]),
            Ok(None) => Next::Receive,
        };
        hot.receive_buffer = buffer;
        match next {
            Next::Close if !self.transport.end() => Next::Linger,
            next => next,
        }
    }

    /// Makes the connection one that waits, from where [`Connection::begin`] left it: it is counted from now on.
    pub fn start(mut self, next: Next) {
        let deadline = self.core.deadlines.register();
        deadline.session.open(Opened {
            peer: self.peer,
            listener: self.listener,
            at: Instant::now(),
            protocol: self.transport.scheme(),
        });
        self.deadline = Some(deadline);
        tokio::task::spawn_local(self.run(next));
    }

    /// Runs the connection to its end.
    async fn run(mut self, mut next: Next) {
        loop {
            if !self.output.is_empty() && self.flush_output().await.is_err() {
                return;
            }
            next = match next {
                Next::Receive => poll_fn(|context| self.poll_receive(context)).await,
                Next::Buffered => self.serve_buffered(),
                Next::Answer(parsed) => Box::pin(self.answer_request(*parsed)).await,
                Next::Give(made) => Box::pin(self.give_made(*made)).await,
                Next::Wait(waits) => self.wait_for(waits).await,
                Next::Finish { prepared, sent } => Box::pin(self.finish_hit(prepared, sent)).await,
                Next::Refuse(refusal) => Box::pin(self.refuse(refusal)).await,
                Next::Http2 => return Box::pin(Http2::new(self).run()).await,
                Next::Close if self.transport.end() => return,
                Next::Linger | Next::Close => return Box::pin(self.linger()).await,
            };
        }
    }

    // ---- receiving, and answering hits at once

    /// Waits for bytes and serves them; ready with what cannot be done in passing.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        let core = self.core.clone();
        loop {
            if self.deadline.as_ref().is_some_and(|deadline| deadline.expired()) {
                return Poll::Ready(match self.waiting {
                    Waiting::Head => {
                        self.count_timeout(Timeout::Header);
                        Next::Refuse(Refusal::Timeout)
                    }
                    _ => {
                        self.count_timeout(Timeout::Idle);
                        Next::Close
                    }
                });
            }
            let hot = &mut *core.hot.borrow_mut();
            let mut buffer = std::mem::take(&mut hot.receive_buffer);
            let received = self.transport.poll_receive(context, &mut buffer);
            let next = match received {
                Poll::Ready(Ok(0) | Err(_)) => Some(Next::Close),
                Poll::Ready(Ok(count)) => Some(self.take_in(hot, &buffer[..count])),
                Poll::Pending => None,
            };
            hot.receive_buffer = buffer;
            match next {
                None => {
                    self.arm_receive_deadline(context, hot);
                    return Poll::Pending;
                }
                // Gathered answers are written before anything more is received.
                Some(Next::Receive) if self.output.is_empty() => {}
                Some(next) => return Poll::Ready(next),
            }
        }
    }

    /// Says until when the wait that begins now may last.
    #[inline]
    fn arm_receive_deadline(&mut self, context: &mut Context<'_>, hot: &Hot) {
        let Some(deadline) = &self.deadline else { return };
        deadline.wakes(context.waker());
        deadline.session.requests.set(self.requests);
        let limits = &hot.snapshot.config.limits;
        let now_ms = self.core.clock.coarse_ms();
        if !self.input.is_empty() {
            // Counted from the first byte: a client that sends one byte now and then gains nothing by it.
            if self.waiting != Waiting::Head {
                self.waiting = Waiting::Head;
                deadline.set(now_ms, limits.header_timeout, false);
            }
        } else {
            let limit = if self.requests == 0 { limits.header_timeout } else { limits.keep_alive_timeout };
            self.waiting = Waiting::Idle;
            deadline.set(now_ms, limit, true);
        }
    }

    /// Takes in what was received: where nothing is left over from before it is served without being copied.
    #[inline]
    fn take_in(&mut self, hot: &mut Hot, received: &[u8]) -> Next {
        if self.input.is_empty() {
            if self.requests == 0 && (http2::begins(received) || self.transport.speaks_http2()) {
                self.input.extend_from_slice(received);
                return Next::Http2;
            }
            let (consumed, next) = self.serve(hot, received);
            self.input.extend_from_slice(&received[consumed..]);
            next
        } else {
            let examined = self.input.len();
            self.input.extend_from_slice(received);
            // A head that was not whole becomes so, or wrong, by a line end, or too long. Parsing again for every other
            // byte would let a slow client cost quadratic time.
            let limits = &hot.limits;
            let grown = self.input.len() > limits.request_line_bytes.min(limits.header_bytes);
            let line_ends = memchr::memchr2(b'\r', b'\n', &self.input[examined - 1..]).is_some();
            if !grown && !line_ends {
                return Next::Receive;
            }
            self.serve_input(hot)
        }
    }

    fn serve_buffered(&mut self) -> Next {
        if self.input.is_empty() {
            return Next::Receive;
        }
        let core = self.core.clone();
        self.serve_input(&mut core.hot.borrow_mut())
    }

    fn serve_input(&mut self, hot: &mut Hot) -> Next {
        let mut input = std::mem::take(&mut self.input);
        let (consumed, next) = self.serve(hot, &input);
        input.drain(..consumed);
        self.input = input;
        match next {
            // HTTP/2's preface, in pieces, looks like a head of another version until it is whole.
            Next::Refuse(_) if self.requests == 0 && http2::begins(&self.input) => Next::Http2,
            next => next,
        }
    }

    /// Serves the requests in `bytes` as far as they are plain hits; gives how many bytes that took. What was
    /// gathered is written, or in `output`, when it returns.
    fn serve(&mut self, hot: &mut Hot, bytes: &[u8]) -> (usize, Next) {
        hot.received_at = hot.log.wants_duration().then(Instant::now);
        hot.metrics.begin_turn();
        let (consumed, next) = self.serve_hits(hot, bytes);
        (consumed, self.send_gathered(hot, next))
    }

    /// Sends what was gathered, and says how the connection goes on instead of with `next`.
    fn send_gathered(&mut self, hot: &mut Hot, next: Next) -> Next {
        if !hot.gathered.is_empty() {
            let written = match next {
                Next::Close => self.transport.try_send_last(&hot.gathered, &[]),
                _ => self.transport.try_send(&hot.gathered, &[]),
            };
            if let Ok(count) = written {
                self.output.extend_from_slice(&hot.gathered[count..]);
            }
            hot.gathered.clear();
            if written.is_err() {
                return Next::Close;
            }
        }
        match next {
            // The rest of an answer must go out before the connection ends.
            Next::Close if !self.output.is_empty() => Next::Linger,
            next => next,
        }
    }

    #[inline]
    fn serve_hits(&mut self, hot: &mut Hot, bytes: &[u8]) -> (usize, Next) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = match hot.head.parse(rest, &hot.limits) {
                Ok(Parsed::Complete(length)) => length,
                Ok(Parsed::Partial) => return (at, Next::Receive),
                Err(error) => return (at, Next::Refuse(Refusal::Head(error))),
            };
            let last = at + length == bytes.len();
            match self.try_hit(hot, rest, last) {
                Hit::Answered { persistent: true } => at += length,
                Hit::Answered { persistent: false } if last => return (at + length, Next::Close),
                Hit::Answered { persistent: false } => return (at + length, Next::Linger),
                Hit::Partly { prepared, sent } => return (at, Next::Finish { prepared, sent }),
                Hit::Made(made) => return (at, Next::Give(made)),
                Hit::Waits(waits) => return (at, Next::Wait(waits)),
                Hit::Not => {
                    let parsed = ParsedHead { head: std::mem::take(&mut hot.head), length };
                    return (at, Next::Answer(Box::new(parsed)));
                }
                Hit::Broken => return (bytes.len(), Next::Close),
            }
            if hot.gathered.len() > GATHER_BYTES {
                // Written by `serve`; a client that does not read its answers is not read from meanwhile.
                return (at, Next::Buffered);
            }
        }
        (at, Next::Receive)
    }

    /// Answers the request in `hot.head` if it is a plain GET of a cached file.
    #[inline]
    fn try_hit(&mut self, hot: &mut Hot, bytes: &[u8], last: bool) -> Hit {
        let head = &hot.head;
        let plain = head.method == Method::Get
            && head.body == RequestBody::None
            && !head.conditional
            && head.expectation == Expectation::None;
        if !plain {
            return Hit::Not;
        }
        let target = head.target.of(bytes);
        let path = match memchr::memchr(b'?', target) {
            // A fragment has no place in a request (RFC 9112 section 3.2); the slow way says so.
            Some(mark) if memchr::memchr(b'#', &target[mark..]).is_some() => return Hit::Not,
            Some(mark) => &target[..mark],
            None => target,
        };
        if !is_plain_path(path) {
            return Hit::Not;
        }
        if self.generation != hot.generation {
            self.take_up(hot);
        }
        let Some(listener) = self.listener_index else { return Hit::Not };
        let host = hot.head.host.map(|host| host.of(bytes));
        let Some(site) = hot.snapshot.listeners[listener].site(host) else { return Hit::Not };
        if !self.transport.may_serve(host) {
            return Hit::Not;
        }
        // Each answer has a field of its own.
        if hot.snapshot.config.request_id.answer {
            return Hit::Not;
        }
        let variant = self.variant(hot);
        let date = self.core.clock.second();
        if hot.front.is_some()
            && let Some(hit) = self.try_accelerated(hot, bytes, site, path, last)
        {
            return hit;
        }
        let head = &hot.head;
        let cached =
            hot.caches.get_mut(site).and_then(|cache| cache.hit(path, head.accept_encoding, variant, &date));
        let Some(prepared) = cached else { return self.ask_program(hot, bytes, site, path, last) };
        let mut route = None;
        if let Some(rules) = &hot.snapshot.sites[site].rules {
            let fields = HeadFields { head: &hot.head, buffer: bytes };
            let client = self.peer.map(|peer| hot.snapshot.connection_gate.client(peer.ip(), &fields));
            let query = (path.len() < target.len()).then(|| &target[path.len() + 1..]);
            let view = RequestView { client, method: b"GET", path, query, host, fields: &fields };
            match rules.at_once(&view) {
                AtOnce::Serve(_admitted, index) => route = index,
                AtOnce::Resolve => return Hit::Not,
            }
        }

        let (first, second) = (prepared.first_buffer(), prepared.second_buffer());
        if last && hot.gathered.is_empty() {
            match self.send_answer(first, second, variant) {
                Ok(sent) if sent == first.len() + second.len() => {}
                Ok(sent) => return Hit::Partly { prepared: prepared.clone(), sent },
                Err(_) => return Hit::Broken,
            }
        } else {
            hot.gathered.extend_from_slice(first);
            hot.gathered.extend_from_slice(second);
        }
        let body_bytes = prepared.body_length() as u64;
        self.requests += 1;
        let protocol = protocol_of(&hot.head);
        if hot.log.is_on() {
            self.tls_facts();
        }
        account::note_hit(hot, self.origin(protocol), HitOf::file(site, route), body_bytes, |_| None, bytes);
        Hit::Answered { persistent: variant != Variant::Close }
    }

    /// Sends what fits now of the answer to the last request that was received.
    #[inline]
    fn send_answer(&mut self, first: &[u8], second: &[u8], variant: Variant) -> io::Result<usize> {
        match variant {
            Variant::Close => self.transport.try_send_last(first, second),
            _ => self.transport.try_send(first, second),
        }
    }

    /// Takes up a new generation of the configuration.
    #[cold]
    fn take_up(&mut self, hot: &Hot) {
        self.generation = hot.generation;
        self.listener_index =
            hot.snapshot.listeners.iter().position(|listener| listener.address == self.listener);
    }

    /// The form of head for an answer to `hot.head`.
    #[inline]
    fn variant(&self, hot: &Hot) -> Variant {
        self.variant_for(&hot.head, hot.snapshot.config.limits.keep_alive_requests)
    }

    /// The form of head for an answer to `head`, on a connection that may carry so many requests (0: no limit).
    #[inline]
    fn variant_for(&self, head: &RequestHead, most_requests: u64) -> Variant {
        let last_request = most_requests != 0 && self.requests + 1 >= most_requests;
        if !head.persistent || last_request || self.core.draining.get() {
            Variant::Close
        } else if head.version == Version::Http10 {
            Variant::KeepAlive
        } else {
            Variant::Persistent
        }
    }

    // ---- answers that may wait

    /// Writes the rest of a hit that did not fit at once.
    async fn finish_hit(&mut self, prepared: Arc<Prepared>, sent: usize) -> Next {
        let started = Instant::now();
        let (first, second) = (prepared.first_buffer(), prepared.second_buffer());
        let written = if sent < first.len() {
            self.write(&first[sent..], second).await
        } else {
            self.write(&second[sent - first.len()..], &[]).await
        };
        let whole = prepared.body_length() as u64;
        let core = self.core.clone();
        let hot = &mut *core.hot.borrow_mut();
        let input = std::mem::take(&mut self.input);
        // It was whole when the hit was found, and nothing has taken from the input since.
        let Ok(Parsed::Complete(length)) = hot.head.parse(&input, &hot.limits) else { return Next::Close };
        self.note_finished(hot, &input, if written.is_ok() { whole } else { 0 }, started);
        let variant = self.variant(hot);
        self.requests += 1;
        self.input = input;
        self.input.drain(..length);
        match written {
            Err(_) => Next::Close,
            Ok(()) if variant == Variant::Close => Next::Linger,
            Ok(()) => Next::Buffered,
        }
    }

    /// Where the client is; asked for once, where nobody wanted to know it when the connection was accepted.
    fn known_peer(&mut self) -> Option<SocketAddr> {
        self.peer = self.peer.or_else(|| self.transport.peer());
        self.peer
    }

    /// What handlers and logs may know of the TLS session.
    fn tls_facts(&mut self) -> Option<Arc<TlsFacts>> {
        if self.tls_facts.is_none() {
            self.tls_facts = self.transport.tls_facts().map(Arc::new);
        }
        self.tls_facts.clone()
    }

    fn answer_variant(&self, head: &RequestHead, body_is_read: bool) -> Variant {
        // Neither an unread body nor an address that a reload removed leaves anything to go on with.
        if !body_is_read || self.listener_index.is_none() {
            return Variant::Close;
        }
        let most_requests = self.core.hot.borrow().snapshot.config.limits.keep_alive_requests;
        self.variant_for(head, most_requests)
    }

    /// Answers a head that could not be read, and ends.
    async fn refuse(&mut self, refusal: Refusal) -> Next {
        let started = Instant::now();
        let answer = Answer::error(refusal.status());
        if let Refusal::Head(error) = refusal {
            self.core.error_log.debug(format_args!("refused a request: {}", error.explanation()));
        }
        let date = self.core.clock.second();
        let head = answer.head(&date, Variant::Close, answer.framing(false));
        let body = answer.body.iter().map(|part| if let Part::Bytes(bytes) = part { bytes } else { &[][..] });
        let body = body.collect::<Vec<&[u8]>>().concat();
        let written = self.write(&head, &body).await;
        let core = self.core.clone();
        let hot = &mut *core.hot.borrow_mut();
        let input = std::mem::take(&mut self.input);
        let line_end = memchr::memchr2(b'\r', b'\n', &input).unwrap_or(input.len());
        let table = hot.snapshot.route_table.clone();
        let account = Account {
            origin: self.origin(Protocol::Http11),
            received: None,
            unread_line: &input[..line_end.min(hot.limits.request_line_bytes)],
            table: &table,
            progress: &Progress::default(),
            client: None,
            user: None,
            status: answer.status,
            body_bytes: body.len() as u64,
            started,
        };
        account::note(hot, account);
        self.input = input;
        if written.is_ok() { Next::Linger } else { Next::Close }
    }

    /// Counts and logs a hit that did not fit at once.
    fn note_finished(&mut self, hot: &mut Hot, bytes: &[u8], body_bytes: u64, started: Instant) {
        self.tls_facts();
        let head = std::mem::take(&mut hot.head);
        let host = head.host.map(|host| host.of(bytes));
        let listener = self.listener_index.and_then(|index| hot.snapshot.listeners.get(index));
        let progress = Progress::default();
        progress.site.set(listener.and_then(|listener| listener.site(host)));
        progress.handler.set("cache");
        let fields = HeadFields { head: &head, buffer: bytes };
        let client = self.peer.map(|peer| hot.snapshot.connection_gate.client(peer.ip(), &fields));
        let table = hot.snapshot.route_table.clone();
        let account = Account {
            origin: self.origin(protocol_of(&head)),
            received: Some((&head, bytes)),
            unread_line: &[],
            table: &table,
            progress: &progress,
            client,
            user: None,
            status: 200,
            body_bytes,
            started,
        };
        account::note(hot, account);
        hot.head = head;
    }

    /// Where its requests come from.
    fn origin(&mut self, protocol: Protocol) -> Origin<'_> {
        Origin { protocol, peer: self.peer, peer_text: &mut self.peer_text, tls: self.tls_facts.as_deref() }
    }

    /// Notes a request while it is answered, where somebody may look.
    fn begin_request(&self, snapshot: &Snapshot, method: &[u8], target: &[u8]) -> Option<UnderWayGuard> {
        let deadline = self.deadline.as_ref().filter(|_| snapshot.config.admin.is_on())?;
        Some(deadline.begin_request(method, target))
    }

    /// Counts that the client was too slow; not where others needed the room.
    fn count_timeout(&self, kind: Timeout) {
        if self.deadline.as_ref().is_none_or(|deadline| deadline.settle()) {
            self.core.counts.timed_out(kind);
        }
    }

    // ---- writing

    /// Writes two buffers, waiting as needed.
    async fn write(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        self.write_feeding(first, second, &mut BodyFeed::none()).await
    }

    /// Writes two buffers, waiting as needed, and brings on the request's body meanwhile: a client that sends all of it
    /// before it reads must not wait for us while we wait for it.
    async fn write_feeding(
        &mut self,
        mut first: &[u8],
        mut second: &[u8],
        feed: &mut BodyFeed,
    ) -> io::Result<()> {
        if first.is_empty() {
            std::mem::swap(&mut first, &mut second);
        }
        while !first.is_empty() {
            let sent = self.transport.try_send(first, second)?;
            self.sent_since_wait += sent as u64;
            if sent < first.len() {
                first = &first[sent..];
            } else {
                (first, second) = (&second[sent - first.len()..], &[]);
            }
            if !first.is_empty() {
                self.wait_sendable(feed).await?;
            }
        }
        Ok(())
    }

    async fn flush_output(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        let result = self.write(&output, &[]).await;
        // The capacity is not kept: most connections never gather again.
        result
    }

    /// Waits until the client has taken some of what was sent, and brings on the request's body meanwhile. A client that
    /// takes it more slowly than it must is let go.
    async fn wait_sendable(&mut self, feed: &mut BodyFeed) -> io::Result<()> {
        let core = self.core.clone();
        let limits = &core.hot.borrow().snapshot.config.limits.clone();
        let minimum =
            MinimumPace { stall_timeout: limits.stall_timeout, bytes_per_second: limits.minimum_send_rate };
        let mut pace = self.send_pace.unwrap_or(Pace::begin(minimum));
        pace.record(std::mem::take(&mut self.sent_since_wait), Duration::ZERO);
        let began_ms = core.clock.coarse_ms();
        self.set_deadline(pace.allowance());
        self.set_writing(true);
        feed.is_beside = true;
        let result = poll_fn(|context| {
            if self.deadline_expired(context) {
                self.count_timeout(Timeout::Send);
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if let Poll::Ready(result) = self.transport.poll_sendable(context) {
                return Poll::Ready(result);
            }
            // That the client has left shows in what is sent.
            let _ = feed.poll(self, false, context);
            Poll::Pending
        })
        .await;
        feed.is_beside = false;
        self.set_writing(false);
        self.clear_deadline();
        pace.record(0, Duration::from_millis(core.clock.coarse_ms().saturating_sub(began_ms)));
        self.send_pace = Some(pace);
        result
    }

    /// Waits until everything that the transport has taken is sent, for `limits.stall_timeout` at the most.
    async fn flush_transport(&mut self) -> io::Result<()> {
        let limit = self.core.hot.borrow().snapshot.config.limits.stall_timeout;
        self.set_deadline(limit);
        let result = poll_fn(|context| {
            if self.deadline_expired(context) {
                self.count_timeout(Timeout::Send);
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.transport.poll_flush(context)
        })
        .await;
        self.clear_deadline();
        result
    }

    // ---- the end

    /// Says that nothing more comes, and listens until the client is done or too much time or data has passed.
    async fn linger(&mut self) {
        if !self.output.is_empty() && self.flush_output().await.is_err() {
            return;
        }
        if self.flush_transport().await.is_err() {
            return;
        }
        self.transport.shut_down_sending();
        self.set_deadline(LINGER);
        let core = self.core.clone();
        let mut listened = 0;
        poll_fn(|context| {
            while listened < LINGER_BYTES && !self.deadline_expired(context) {
                let hot = &mut *core.hot.borrow_mut();
                match ready!(self.transport.poll_discard(context, &mut hot.receive_buffer)) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => listened += count,
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    fn set_writing(&self, writing: bool) {
        if let Some(deadline) = &self.deadline {
            deadline.session.set_writing(writing);
        }
    }

    fn set_deadline(&mut self, limit: Duration) {
        self.waiting = Waiting::Nothing;
        if let Some(deadline) = &self.deadline {
            deadline.set(self.core.clock.coarse_ms(), limit, false);
        }
    }

    fn clear_deadline(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.clear();
        }
    }

    /// Ends a wait whose deadline says nothing of the connection.
    fn forget_deadline(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.forget();
        }
    }

    fn deadline_expired(&self, context: &mut Context<'_>) -> bool {
        self.deadline.as_ref().is_some_and(|deadline| {
            deadline.wakes(context.waker());
            deadline.expired()
        })
    }
}

fn protocol_of(head: &RequestHead) -> Protocol {
    match head.version {
        Version::Http10 => Protocol::Http10,
        Version::Http11 => Protocol::Http11,
    }
}
