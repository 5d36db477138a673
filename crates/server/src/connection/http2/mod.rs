//! A connection with HTTP/2 (RFC 9113): the engine of the http crate, driven by this connection's bytes.
//!
//! Each turn processes the received bytes, answers every request in them, and writes all frames that the
//! windows allow with one write. A plain GET of a cached file is answered directly, and its header block is
//! encoded once a second for all connections of the core
//! ([`touchstone_exchange::core::encoded_responses`]); all other requests go to the same handlers as in
//! HTTP/1.

mod early_answers;
mod hits;
mod streams;
mod unnoted;
mod waiting;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use early_answers::EarlyAnswers;
use streams::{BodyRateCheck, Inbox, RequestBodyRelay, StreamAnswer, StreamTask, UnsentBody};
use touchstone_access::MinimumRate;
use touchstone_files::cache::ConnectionForm;
use touchstone_handler::answer::{Answer, BodyPart, Framing};
use touchstone_handler::pipe::pipe;
use touchstone_handler::request::{Protocol, ReceivedHead};
use touchstone_http::grammar::split_fields;
use touchstone_http::h2::{Body, Event, Events, Limits, Request, Responded, ServerConnection, StreamKey};
use touchstone_http::request::{Expectation, Method};
use unnoted::{ExchangedRequest, UnnotedAnswer};
use waiting::ClientWaits;

use super::Connection;
use crate::stream_head::{answer_fields, head_of, without_switch};
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::header_blocks::{encode_fields, field_lines};
use touchstone_exchange::steps::{self, Arrival, ExchangeAnswer, Progress, RefusedRequest};

/// The first bytes of every HTTP/2 connection (RFC 9113 section 3.4), enough to distinguish it from HTTP/1.
const PREFACE_START: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Frames are gathered up to this size before they are written.
const OUTPUT_BYTES: usize = 128 * 1024;

/// The longest DATA frame.
const DATA_BYTES: usize = 16 * 1024;

/// Whether the first bytes of a connection are HTTP/2's.
#[inline]
pub fn begins(received: &[u8]) -> bool {
    received.first() == Some(&b'P') && received.starts_with(PREFACE_START)
}

/// The most bytes of a request's body that wait for its handler; the stream's window is smaller.
const BODY_BYTES: usize = 1024 * 1024;

/// The HTTP/2 side of a connection.
pub struct Http2 {
    connection: Connection,
    engine: ServerConnection,
    events: Events,
    output: Vec<u8>,
    inbox: Rc<Inbox>,
    tasks: Vec<StreamTask>,
    incoming: Vec<RequestBodyRelay>,
    outgoing: Vec<UnsentBody>,
    /// Answers whose frames are in `output`.
    ended: Vec<UnnotedAnswer>,
    client_waits: ClientWaits,
    early_answers: EarlyAnswers,
    leaving: bool,
}

impl Http2 {
    /// Takes over a connection with its first bytes in the input.
    pub fn new(connection: Connection) -> Http2 {
        let limits = {
            let state = connection.core.state.borrow();
            Limits {
                header_list_bytes: u32::try_from(state.limits.header_bytes).unwrap_or(u32::MAX),
                header_fields: u32::try_from(state.limits.header_fields).unwrap_or(u32::MAX),
                output_bytes: OUTPUT_BYTES,
                extended_connect: true,
                awaits_requests: true,
                ..Limits::default()
            }
        };
        connection.core.counts.http2_connections.add(1);
        if let Some(deadline) = &connection.timing.deadline {
            deadline.session.set_protocol("h2");
        }
        Http2 {
            connection,
            engine: ServerConnection::new(limits),
            events: Events::new(),
            output: Vec::new(),
            inbox: Rc::default(),
            tasks: Vec::new(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            ended: Vec::new(),
            client_waits: ClientWaits::default(),
            early_answers: EarlyAnswers::default(),
            leaving: false,
        }
    }

    /// Runs the connection to its end.
    pub async fn run(mut self) {
        let mut replenished = Instant::now();
        loop {
            let understood = self.receive_frames();
            self.start_responses();
            if !understood {
                self.engine.take_output(&mut self.output);
                let _ = self.write_output().await;
                break;
            }
            if self.connection.core.draining.get() && !self.leaving {
                self.leaving = true;
                self.engine.shut_down();
            }
            if self.send().await.is_err() || self.engine.is_finished() {
                break;
            }
            if replenished.elapsed().as_secs() >= 1 {
                replenished = Instant::now();
                self.engine.replenish();
            }
            if self.wait().await.is_err() {
                break;
            }
        }
        self.note_all();
        self.connection.linger().await;
    }

    /// Passes the input to the engine; returns false if the client broke the protocol; the error was then
    /// sent to it.
    fn receive_frames(&mut self) -> bool {
        let core = self.connection.core.clone();
        let mut events = std::mem::take(&mut self.events);
        let mut input = std::mem::take(&mut self.connection.input);
        let mut at = 0;
        let (mut understood, mut has_request) = (true, false);
        while at < input.len() {
            match self.engine.receive(&input[at..], &mut events) {
                Ok(consumed) => {
                    let state = &mut *core.state.borrow_mut();
                    state.received_at = state.needs_time(self.connection.peer.address).then(Instant::now);
                    state.metrics.begin_turn();
                    for event in events.iter() {
                        has_request |= matches!(event, Event::Request(_));
                        self.handle_event(state, event, &input[at..]);
                    }
                    if consumed == 0 {
                        break;
                    }
                    at += consumed;
                }
                Err(error) => {
                    core.counts.http2_broken.add(1);
                    core.error_log.debug(format_args!("an HTTP/2 connection was ended: {error}"));
                    understood = false;
                    break;
                }
            }
        }
        input.drain(..at);
        if at > 0 {
            self.client_waits.note_frames(has_request || !self.engine.is_within_header_block());
        }
        self.connection.input = input;
        self.events = events;
        understood
    }

    fn handle_event(&mut self, state: &mut CoreState, event: Event<'_>, input: &[u8]) {
        match event {
            Event::Request(request) => {
                if !self.try_hit(state, &request) {
                    self.begin_exchange(state, &request);
                }
            }
            Event::Data { stream, range, end_of_stream } => {
                self.handle_data(state, stream, &input[range], end_of_stream);
            }
            Event::Trailers { stream, fields } => {
                let trailers = field_lines(fields);
                self.incoming
                    .extract_if(.., |incoming| incoming.stream == stream)
                    .for_each(|mut incoming| incoming.finish_with_trailers(trailers.clone()));
            }
            Event::Reset { stream, reason, .. } => {
                let counts = &self.connection.core.counts;
                let by_client = reason.is_none();
                let count = if by_client { &counts.http2_resets_received } else { &counts.http2_resets_sent };
                count.add(1);
                self.forget(stream);
            }
            Event::Refused { .. } => self.connection.core.counts.http2_resets_sent.add(1),
            Event::GoAway { .. } | Event::Pong { .. } => {}
        }
    }

    /// Starts a handler for a request that the cache cannot answer.
    fn begin_exchange(&mut self, state: &mut CoreState, request: &Request<'_>) {
        self.connection.listener.follow_config(state);
        let (stream, received_at) = (request.stream(), Instant::now());
        let (head, buffer, outcome) = head_of(request, request.end_of_stream(), state.limits).finish();
        // The engine has checked the fields; fields that HTTP/2 allows and HTTP/1 does not are refused as in
        // HTTP/1.
        let is_complete = outcome.is_ok();
        let refusal = match outcome {
            // Fields are missing, so a rule or a program would not get the whole request.
            _ if request.is_header_section_too_large() => Some(Answer::error(431)),
            // The client has already ended its direction of the tunnel; an answer like that to a GET would be
            // regarded as an open tunnel.
            _ if request.protocol().is_some() && request.end_of_stream() => Some(Answer::error(400)),
            Ok(()) => steps::refuse(&self.connection.core.error_log, &state.snapshot, &head, &buffer),
            Err(error) => Some(Answer::error(error.status())),
        };
        let received = Rc::new(ReceivedHead { head, buffer: buffer.into() });
        let under_way =
            self.connection.begin_request(&state.snapshot, received.method_text(), received.target());
        let progress = Progress::new(&state.snapshot, self.connection.peer.address, under_way);
        let prepared = match refusal {
            Some(answer) => Err(answer),
            None => self.begin(state, &received, request, &progress),
        };
        let snapshot = state.snapshot.clone();
        let request = match prepared {
            Ok(request) => request,
            Err(answer) => {
                let host = Some(Bytes::copy_from_slice(request.authority())).filter(|host| !host.is_empty());
                let answered = answer.into();
                let refusal = StreamAnswer { stream, received, received_at, answered, progress, snapshot };
                return self.refuse(refusal, is_complete, host);
            }
        };
        let core = self.connection.core.clone();
        let (inbox, exchange) = (self.inbox.clone(), (received.clone(), progress.clone()));
        let task = tokio::task::spawn_local(async move {
            let (received, progress) = exchange;
            let form = ConnectionForm::Persistent;
            let answer = steps::answer(core, snapshot.clone(), request, form, progress.clone());
            let mut answer = pin!(answer);
            let answered = poll_fn(|context| {
                let polled = answer.as_mut().poll(context);
                if polled.is_pending()
                    && let Some(hints) = progress.signals.take_early_hints()
                {
                    inbox.inform(stream, 103, hints);
                }
                // Also if the answer is ready: interim responses may have arrived with it.
                while let Some(interim) = progress.signals.interim().take() {
                    inbox.inform(stream, interim.status, interim.fields.into());
                }
                polled
            })
            .await;
            inbox.put(StreamAnswer { stream, received, received_at, answered, progress, snapshot });
        });
        let task = task.abort_handle();
        self.tasks.push(StreamTask { stream, received, received_at, progress, task });
    }

    /// Answers a request that is refused, with the error page of its site if it has one. `is_complete`: the
    /// head was read; `host` is the host that it names.
    fn refuse(&mut self, mut refusal: StreamAnswer, is_complete: bool, host: Option<Bytes>) {
        let (stream, status) = (refusal.stream, refusal.answered.answer.status);
        let (received, progress) = (refusal.received.clone(), refusal.progress.clone());
        let arrival = self.arrival(stream);
        let sites = self.connection.listener.index.and_then(|index| refusal.snapshot.listeners.get(index));
        let complete = is_complete.then(|| received.clone());
        let refused = RefusedRequest { sites, arrival, received: complete, host, progress: &progress };
        let may_serve = |host: Option<&[u8]>| self.connection.transport.may_serve(host);
        let Some(request) = refused.page_request(&refusal.snapshot, may_serve, status) else {
            return self.inbox.put(refusal);
        };
        let (core, inbox) = (self.connection.core.clone(), self.inbox.clone());
        let received_at = refusal.received_at;
        let task = tokio::task::spawn_local(async move {
            let answer = std::mem::replace(&mut refusal.answered.answer, Answer::new(status));
            let (snapshot, form) = (&refusal.snapshot, ConnectionForm::Persistent);
            refusal.answered.answer = steps::add_refusal_page(&core, snapshot, &request, form, answer).await;
            inbox.put(refusal);
        });
        let task = task.abort_handle();
        self.tasks.push(StreamTask { stream, received, received_at, progress, task });
    }

    /// How the request of a stream arrived.
    fn arrival(&mut self, stream: StreamKey) -> Arrival {
        Arrival {
            protocol: Protocol::Http2,
            peer: self.connection.peer_address(),
            listener: self.connection.listener.address,
            tls: self.connection.tls_facts(),
            connection: self.connection.peer.number.get(),
            stream: Some(u64::from(stream.id())),
        }
    }

    fn begin(
        &mut self,
        state: &CoreState,
        received: &Rc<ReceivedHead>,
        request: &Request<'_>,
        progress: &Rc<Progress>,
    ) -> Result<touchstone_handler::request::Request, Answer> {
        let body = (!request.end_of_stream()).then(|| {
            let (sender, receiver) = pipe(BODY_BYTES);
            let most_bytes = state.snapshot.most_body_bytes;
            let minimum = MinimumRate::of_bodies(&state.snapshot.config.limits);
            let rate_check = BodyRateCheck::new(minimum, progress.clone());
            self.incoming.push(match request.protocol() {
                Some(_) => RequestBodyRelay::tunnel(request.stream(), sender, rate_check),
                None => RequestBodyRelay::new(request.stream(), sender, most_bytes, rate_check),
            });
            receiver
        });
        if request.expectation() == Expectation::Continue && body.is_some() {
            self.engine.inform(request.stream(), &encode_fields(100, [].into_iter()), &mut self.output);
        }
        let arrival = self.arrival(request.stream());
        let sites = self.connection.listener.index.and_then(|index| state.snapshot.listeners.get(index));
        let may_serve = |host: Option<&[u8]>| self.connection.transport.may_serve(host);
        steps::make_request(&state.snapshot, sites, arrival, received.clone(), may_serve, body)
    }

    fn handle_data(&mut self, state: &CoreState, stream: StreamKey, piece: &[u8], end_of_stream: bool) {
        let Some(index) = self.incoming.iter().position(|incoming| incoming.stream == stream) else {
            self.engine.release(stream, piece.len());
            return;
        };
        let taken = self.incoming[index].push(&mut self.engine, piece);
        if end_of_stream {
            self.incoming.swap_remove(index).finish();
        } else if taken.is_err() {
            self.incoming.swap_remove(index);
        }
        if taken.is_err() {
            self.engine.release(stream, piece.len());
            self.refuse_body(state, stream, 413);
        }
    }

    /// Ends the exchange of a request whose body is too large or too slow, unless it is answered already.
    fn refuse_body(&mut self, state: &CoreState, stream: StreamKey, status: u16) {
        let Some(at) = self.tasks.iter().position(|task| task.stream == stream) else { return };
        let task = self.tasks.swap_remove(at);
        let (received, received_at, progress) =
            (task.received.clone(), task.received_at, task.progress.clone());
        drop(task);
        let (answered, snapshot) = (Answer::error(status).into(), state.snapshot.clone());
        let refusal = StreamAnswer { stream, received, received_at, answered, progress, snapshot };
        self.refuse(refusal, true, None);
    }

    /// Removes a stream that has ended.
    fn forget(&mut self, stream: StreamKey) {
        let removed = self.outgoing.extract_if(.., |outgoing| outgoing.stream == stream);
        self.ended.extend(removed.map(|outgoing| outgoing.answer));
        self.incoming.retain(|incoming| incoming.stream != stream);
        self.tasks.retain(|task| task.stream != stream);
    }

    /// Starts the responses that are ready.
    fn start_responses(&mut self) {
        while let Some((stream, status, fields)) = self.inbox.take_interim() {
            let block = encode_fields(status, split_fields(&fields));
            self.engine.inform(stream, &block, &mut self.output);
        }
        while let Some(answer) = self.inbox.take() {
            self.tasks.retain(|task| task.stream != answer.stream);
            self.respond(answer);
        }
    }

    fn respond(&mut self, answer: StreamAnswer) {
        let StreamAnswer { stream, received, received_at, answered, progress, snapshot } = answer;
        let ExchangeAnswer { mut answer, client, user } = answered;
        let head = &received.head;
        let core = self.connection.core.clone();
        let date = core.clock.second();
        let is_tunnel = self.incoming.iter().any(|incoming| incoming.stream == stream && incoming.is_tunnel);
        without_switch(&mut answer, is_tunnel);
        let framing = answer.framing(head.method == Method::Head, true);
        let length = answer.content_length(framing).map(|length| length.to_string());
        let block = encode_fields(answer.status, answer_fields(&answer, &date.text, length.as_deref()));
        let streams = matches!(answer.body.last(), Some(BodyPart::Stream { .. }));
        let body = match answer.body_length() {
            _ if framing == Framing::None || head.method == Method::Head => Body::Empty,
            Some(0) if !streams => Body::Empty,
            Some(length) if !streams => Body::Length(length),
            _ => Body::Stream,
        };
        let responded = self.engine.respond(stream, &block, body, &mut self.output);
        let (parts, under_way) = (std::mem::take(&mut answer.body), progress.take_under_way());
        let answered = ExchangeAnswer { answer, client, user };
        let request = ExchangedRequest { received, received_at, answered, progress, snapshot };
        let answer = UnnotedAnswer::of_exchange(request);
        self.connection.requests += 1;
        if responded != Responded::Queued {
            self.ended.push(answer);
            return;
        }
        let mut outgoing = UnsentBody::new(stream, parts, answer);
        outgoing.under_way = under_way;
        if body == Body::Stream {
            outgoing.offer_parts(&mut self.engine);
        }
        self.outgoing.push(outgoing);
    }

    /// Drops the bodies of requests whose answers are complete.
    fn note_early_answers(&mut self) {
        for stream in self.engine.take_answered_early().collect::<Vec<_>>() {
            for incoming in self.incoming.extract_if(.., |incoming| incoming.stream == stream) {
                incoming.abandon(&mut self.engine);
            }
            self.early_answers.add(stream);
        }
    }

    /// Writes all frames that the windows allow.
    async fn send(&mut self) -> io::Result<()> {
        loop {
            while let Some(frame) = self.engine.next_data(DATA_BYTES, &mut self.output) {
                let Some(index) = self.outgoing.iter().position(|outgoing| outgoing.stream == frame.stream)
                else {
                    return Err(io::Error::other("the engine requested a body that does not exist"));
                };
                self.outgoing[index].append(frame.length, &mut self.output)?;
                self.client_waits.note_sent(frame.length);
                if frame.is_last {
                    self.ended.push(self.outgoing.swap_remove(index).answer);
                }
            }
            self.note_early_answers();
            if self.output.is_empty() {
                self.note_written();
                return Ok(());
            }
            self.write_output().await?;
            tokio::task::yield_now().await;
        }
    }

    async fn write_output(&mut self) -> io::Result<()> {
        let mut output = std::mem::take(&mut self.output);
        let written = self.connection.write(&output, &[]).await;
        if written.is_ok() {
            self.note_written();
        }
        output.clear();
        // A connection that sent much once should not keep the memory.
        output.shrink_to(OUTPUT_BYTES);
        self.output = output;
        written
    }
}
