//! Answers that may wait, on an HTTP/1 connection: finds them, and writes them while the request's body is
//! still received.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use touchstone_access::MinimumRate;
use touchstone_files::cache::ConnectionForm;
use touchstone_handler::answer::{Answer, BodyPart, Framing};
use touchstone_handler::handler::PIECE_BYTES;
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::ReceivedHead;
use touchstone_http::chunked::{LAST_CHUNK, chunk_head};
use touchstone_http::request::{Expectation, Method, RequestHead, Version};
use touchstone_http::status::reason;
use touchstone_sites::site::Snapshot;

use super::body_decoder::BodyProblem;
use super::hits::GATHER_BYTES;
use super::request_body::BodyFeed;
use super::{Connection, ConnectionStep, ParsedHead, protocol_of};
use crate::accounting::{self, AnsweredRequest};
use touchstone_exchange::steps::{self, Arrival, ExchangeAnswer, Progress, RefusedRequest};

/// How many bytes of a file are sent before other connections are served.
const FILE_TURN_BYTES: usize = 256 * 1024;

/// Bodies up to this size are copied after their head: one buffer costs the kernel less than two.
const TOGETHER_BYTES: usize = 16 * 1024;

/// The status in logs for a request whose client left before its answer, as in nginx.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The result of a wait for a piece of a body.
enum BodyWait {
    /// The next piece, or the end.
    Piece(Option<io::Result<Bytes>>),
    /// No data is available yet.
    Nothing,
    /// The client left.
    Left,
}

/// An error, and how many bytes of the body were sent before it.
pub(super) type WriteFailure = (u64, io::Error);

impl Connection {
    /// Answers any request at the start of the input.
    pub(super) async fn answer_request(&mut self, parsed: ParsedHead) -> ConnectionStep {
        let started = Instant::now();
        let core = self.core.clone();
        let ParsedHead { head, length } = parsed;
        let snapshot = core.state.borrow().snapshot.clone();
        self.listener.follow_config(&core.state.borrow());
        // The head's bytes are moved out of the input, so that a body can be received while spans still refer
        // to them.
        let buffer = if self.input.len() == length {
            Bytes::from(std::mem::take(&mut self.input))
        } else {
            self.input.drain(..length).collect()
        };
        let received = Rc::new(ReceivedHead { head, buffer });
        let head = &received.head;
        let configured = &snapshot.config.limits;
        let minimum = MinimumRate::of_bodies(configured);
        let may_switch = received.values("upgrade").next().is_some();
        let (mut feed, body) = BodyFeed::new(head, may_switch, snapshot.most_body_bytes, minimum);
        let under_way = self.begin_request(&snapshot, received.method_text(), received.target());
        let progress = Progress::new(&snapshot, self.peer.address, under_way);
        let answered = match steps::refuse(&self.core.error_log, &snapshot, head, &received.buffer) {
            Some(answer) => self.refusal(&snapshot, &received, &progress, answer).await,
            None => match self.find_answer(&snapshot, &received, body, &mut feed, &progress).await {
                Some(answered) => answered,
                None => return self.note_client_left(&snapshot, &received, &progress, started),
            },
        };
        self.complete_request(&snapshot, answered, &received, feed, &progress, started).await
    }

    /// Records a request whose client left before its answer.
    pub(super) fn note_client_left(
        &mut self,
        snapshot: &Snapshot,
        received: &ReceivedHead,
        progress: &Progress,
        started: Instant,
    ) -> ConnectionStep {
        let answered = Answer::new(CLIENT_CLOSED_REQUEST).into();
        self.note_answer(snapshot, received, progress, (CLIENT_CLOSED_REQUEST, 0), started, &answered);
        ConnectionStep::Close
    }

    /// How a request arrived.
    pub(super) fn arrival(&mut self, head: &RequestHead) -> Arrival {
        Arrival {
            protocol: protocol_of(head),
            peer: self.peer_address(),
            listener: self.listener.address,
            tls: self.tls_facts(),
            connection: self.peer.number.get(),
            stream: None,
        }
    }

    /// Finds the answer; `None`: the client left before.
    async fn find_answer(
        &mut self,
        snapshot: &Arc<Snapshot>,
        received: &Rc<ReceivedHead>,
        body: Option<Receiver>,
        feed: &mut BodyFeed,
        progress: &Rc<Progress>,
    ) -> Option<ExchangeAnswer> {
        let sites = self.listener.index.and_then(|index| snapshot.listeners.get(index));
        let arrival = self.arrival(&received.head);
        let may_serve = |host: Option<&[u8]>| self.transport.may_serve(host);
        let request = match steps::make_request(snapshot, sites, arrival, received.clone(), may_serve, body) {
            Ok(request) => request,
            Err(answer) => return Some(self.refusal(snapshot, received, progress, answer).await),
        };
        let form = self.form_after_body(&received.head, true);
        let answer =
            pin!(steps::answer(self.core.clone(), snapshot.clone(), request, form, progress.clone()));
        let answered = self.drive(answer, feed, progress, received.head.version == Version::Http11).await?;
        // The connection, not the handler, has the reason why the body ended early.
        Some(match feed.problem {
            Some(BodyProblem::Gone) => return None,
            Some(problem) => {
                let answer = Answer::error(problem.status());
                self.refusal(snapshot, received, progress, answer).await
            }
            None => answered,
        })
    }

    /// A refusal, with the error page of its site if it has one.
    async fn refusal(
        &mut self,
        snapshot: &Arc<Snapshot>,
        received: &Rc<ReceivedHead>,
        progress: &Progress,
        answer: Answer,
    ) -> ExchangeAnswer {
        let arrival = self.arrival(&received.head);
        let received = Some(received.clone());
        Box::pin(self.with_error_page(snapshot, arrival, (received, None), progress, answer)).await.into()
    }

    /// A refusal of a request, of which the head or at least the host was read, with the error page of its
    /// site if it has one.
    pub(super) async fn with_error_page(
        &self,
        snapshot: &Arc<Snapshot>,
        arrival: Arrival,
        (received, host): (Option<Rc<ReceivedHead>>, Option<Bytes>),
        progress: &Progress,
        answer: Answer,
    ) -> Answer {
        let sites = self.listener.index.and_then(|index| snapshot.listeners.get(index));
        let refused = RefusedRequest { sites, arrival, received, host, progress };
        let may_serve = |host: Option<&[u8]>| self.transport.may_serve(host);
        let form = ConnectionForm::Close;
        steps::with_refusal_page(&self.core, snapshot, refused, may_serve, form, answer).await
    }

    /// Runs a handler and feeds it the body; `None` if the client leaves before the handler is done.
    pub(super) async fn drive<T>(
        &mut self,
        mut future: Pin<&mut impl Future<Output = T>>,
        feed: &mut BodyFeed,
        progress: &Progress,
        takes_interim: bool,
    ) -> Option<T> {
        poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            // Also done when the answer is ready: interim responses may have arrived with it.
            while let Some(interim) = progress.signals.interim().take() {
                // RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
                if takes_interim {
                    let line = format!("HTTP/1.1 {} {}\r\n", interim.status, reason(interim.status));
                    for piece in [line.as_bytes(), &interim.fields, b"\r\n"] {
                        self.queue(piece);
                    }
                    // If the answer is ready, both are sent in one write.
                    if polled.is_pending() {
                        self.send_queued(context);
                    }
                }
            }
            if let Poll::Ready(value) = polled {
                return Poll::Ready(Some(value));
            }
            if let Some(minimum) = progress.signals.take_receive_rate() {
                feed.set_minimum_rate(minimum);
            }
            feed.poll(self, progress.signals.is_handler_running(), context).map(|()| None)
        })
        .await
    }

    /// Writes the answer, reads the rest of the body, and returns the next step of the connection.
    pub(super) async fn complete_request(
        &mut self,
        snapshot: &Arc<Snapshot>,
        mut answered: ExchangeAnswer,
        received: &Rc<ReceivedHead>,
        mut feed: BodyFeed,
        progress: &Progress,
        started: Instant,
    ) -> ConnectionStep {
        let head = &received.head;
        self.timing.minimum = progress.signals.send_rate();
        self.migration.calls = if answered.answer.may_be_called { self.migration.calls + 1 } else { 0 };
        let is_of_handler = progress.signals.is_handler_running();
        match self.settle_body(&mut feed, &answered.answer, is_of_handler).await {
            Some(BodyProblem::Gone) => return ConnectionStep::Close,
            Some(problem) => {
                let answer = Answer::error(problem.status());
                answered = self.refusal(snapshot, received, progress, answer).await;
            }
            None => {}
        }
        let status = answered.answer.status;
        // If the answer is already an error, a client that waits for `100 Continue` gets the error at once
        // instead.
        let refused_early = head.expectation != Expectation::None && status >= 400;
        let is_unread = refused_early || status == 413 || feed.problem.is_some();
        let keeps = feed.can_be_followed(status) && !is_unread;
        feed.begin_answer();
        let switches = answered.answer.switches_protocols();
        if switches {
            feed.switch_protocols();
        }
        let framing = answered.answer.framing(head.method == Method::Head, head.version == Version::Http11);
        let ends = framing == Framing::Close || switches;
        let form = if ends { ConnectionForm::Close } else { self.form_after_body(head, keeps) };
        let parts = std::mem::take(&mut answered.answer.body);
        // The buffer that gathers answers: it is warm, and no other answer needs it before this one is
        // written.
        let mut buffer = std::mem::take(&mut self.core.state.borrow_mut().gathered);
        // Interim responses that are not sent yet are sent first.
        buffer.append(&mut self.output);
        answered.answer.append_head(&self.core.clock.second(), form, framing, &mut buffer);
        let has_body = switches || (head.method != Method::Head && framing != Framing::None);
        let parts = if has_body { parts } else { Vec::new() };
        let watch = progress.signals.is_handler_running();
        let written = self.write_answer(&mut buffer, parts, framing, &mut feed, watch).await;
        self.release_buffer(buffer);
        let body_bytes = match written {
            Ok(bytes) | Err((bytes, _)) => bytes,
        };
        let status_and_bytes = (answered.answer.status, body_bytes);
        self.note_answer(snapshot, received, progress, status_and_bytes, started, &answered);
        self.timing.minimum = None;
        self.requests += 1;
        if written.is_err() {
            return ConnectionStep::Close;
        }
        if form != ConnectionForm::Close && !feed.is_done() && !feed.discard_rest(self).await {
            return ConnectionStep::Linger;
        }
        match form {
            ConnectionForm::Close if feed.is_done() && self.input.is_empty() && !head.lacks_length => {
                ConnectionStep::Close
            }
            // More bytes may arrive: to close now would reset the connection, and the client could lose the
            // answer.
            ConnectionForm::Close => ConnectionStep::Linger,
            _ => ConnectionStep::Buffered,
        }
    }

    /// Before an answer is sent: discards the part of the body that has arrived, so that the connection can
    /// continue behind it. The answer is sent while the rest arrives, or never arrives. Only a file waits for
    /// a rest that may have an error, which is returned: the client is told it instead. `Gone`: the client
    /// has left; one that has only ended its direction within the body can still read its answer.
    async fn settle_body(
        &mut self,
        feed: &mut BodyFeed,
        answer: &Answer,
        is_of_handler: bool,
    ) -> Option<BodyProblem> {
        // The handler of a stream may still read the body.
        if feed.is_done() || feed.problem.is_some() || answer.streams() {
            return None;
        }
        let is_file = !is_of_handler && matches!(answer.status, 200..=299 | 304);
        if is_file && feed.may_change_answer() {
            return feed.drain(self).await.err();
        }
        feed.discard_received(self);
        feed.problem.filter(|problem| *problem != BodyProblem::Gone)
    }

    /// Counts and logs an answer.
    pub(super) fn note_answer(
        &mut self,
        snapshot: &Snapshot,
        received: &ReceivedHead,
        progress: &Progress,
        (status, body_bytes): (u16, u64),
        started: Instant,
        answered: &ExchangeAnswer,
    ) {
        self.tls_facts();
        let core = self.core.clone();
        let request = AnsweredRequest {
            connection: self.client_connection(protocol_of(&received.head)),
            received: Some((&received.head, &received.buffer)),
            unread_line: &[],
            table: &snapshot.route_table,
            progress,
            client: answered.client,
            user: answered.user.as_deref(),
            status,
            body_bytes,
            started,
        };
        accounting::note(&mut core.state.borrow_mut(), request);
        drop(progress.take_under_way());
    }

    // ---- writing

    /// Writes an answer after the head in `pending`. Returns the body bytes that were sent, also with an
    /// error.
    pub(super) async fn write_answer(
        &mut self,
        pending: &mut Vec<u8>,
        parts: Vec<BodyPart>,
        framing: Framing,
        feed: &mut BodyFeed,
        watch: bool,
    ) -> Result<u64, WriteFailure> {
        let mut written = 0;
        for part in parts {
            let result = match part {
                BodyPart::Bytes(bytes) if bytes.len() <= TOGETHER_BYTES => {
                    pending.extend_from_slice(&bytes);
                    let result = self.write_feeding(pending, &[], feed).await;
                    result.map(|()| bytes.len() as u64).map_err(|error| (0, error))
                }
                BodyPart::Bytes(bytes) => self
                    .write_feeding(pending, &bytes, feed)
                    .await
                    .map(|()| bytes.len() as u64)
                    .map_err(|error| (0, error)),
                BodyPart::Cached(prepared, range) => {
                    let bytes = &prepared.body()[range];
                    self.write_feeding(pending, bytes, feed)
                        .await
                        .map(|()| bytes.len() as u64)
                        .map_err(|error| (0, error))
                }
                BodyPart::File { file, offset, length } => {
                    let mut sent = 0;
                    let place = (file.as_fd(), offset, length);
                    let result = self.write_file(pending, place, feed, &mut sent).await;
                    result.map(|()| sent).map_err(|error| (sent, error))
                }
                BodyPart::Stream { body, .. } => {
                    let begin = pending.clone();
                    self.write_stream(begin, body, framing, feed, watch).await
                }
            };
            match result {
                Ok(bytes) => written += bytes,
                Err((bytes, error)) => return Err((written + bytes, error)),
            }
            pending.clear();
        }
        if !pending.is_empty() {
            self.write_feeding(pending, &[], feed).await.map_err(|error| (0, error))?;
        }
        Ok(written)
    }

    /// Returns the buffer that gathers answers.
    fn release_buffer(&self, mut buffer: Vec<u8>) {
        let gathered = &mut self.core.state.borrow_mut().gathered;
        if gathered.capacity() == 0 && buffer.capacity() <= 2 * GATHER_BYTES {
            buffer.clear();
            *gathered = buffer;
        }
    }

    /// Writes a body as its pieces arrive, after `pending`.
    async fn write_stream(
        &mut self,
        mut pending: Vec<u8>,
        mut body: Receiver,
        framing: Framing,
        feed: &mut BodyFeed,
        watch: bool,
    ) -> Result<u64, WriteFailure> {
        let mut sent = 0u64;
        let is_chunked = framing == Framing::Chunked;
        loop {
            let next = match self.next_piece(&mut body, !pending.is_empty(), feed, watch).await {
                BodyWait::Nothing => {
                    self.write_feeding(&pending, &[], feed).await.map_err(|error| (sent, error))?;
                    pending.clear();
                    continue;
                }
                BodyWait::Left => return Err((sent, io::ErrorKind::ConnectionReset.into())),
                BodyWait::Piece(next) => next,
            };
            let Some(piece) = next else { break };
            let piece = piece.map_err(|error| {
                self.core.error_log.debug(format_args!("a body broke off: {error}"));
                (sent, error)
            })?;
            if let Framing::Length(length) = framing
                && sent + piece.len() as u64 > length
            {
                let error = io::Error::other("a program sent more than its Content-Length");
                self.core.error_log.limited(touchstone_config::LogLevel::Warning, "body too long", &error);
                return Err((sent, error));
            }
            sent += piece.len() as u64;
            let mut piece = piece;
            if is_chunked {
                pending.extend_from_slice(chunk_head(piece.len() as u64, &mut [0; 18]));
                if piece.len() <= PIECE_BYTES {
                    // Copied, so that the chunk and its end, and perhaps the last chunk, are sent in one
                    // write.
                    pending.extend_from_slice(&piece);
                    pending.extend_from_slice(b"\r\n");
                    piece = Bytes::new();
                    if body.is_finished() {
                        break;
                    }
                }
            }
            let written = self.write_feeding(&pending, &piece, feed).await;
            written.map_err(|error| (sent - piece.len() as u64, error))?;
            pending.clear();
            if is_chunked && !piece.is_empty() {
                pending.extend_from_slice(b"\r\n");
            }
        }
        if let Framing::Length(length) = framing
            && sent < length
        {
            let error =
                io::Error::new(io::ErrorKind::UnexpectedEof, "a program sent less than its Content-Length");
            self.core.error_log.limited(touchstone_config::LogLevel::Warning, "body too short", &error);
            return Err((sent, error));
        }
        if is_chunked {
            match body.take_trailers() {
                trailers if trailers.is_empty() => pending.extend_from_slice(LAST_CHUNK),
                trailers => {
                    for piece in [b"0\r\n", &trailers[..], b"\r\n"] {
                        pending.extend_from_slice(piece);
                    }
                }
            }
        }
        self.write_feeding(&pending, &[], feed).await.map_err(|error| (sent, error))?;
        Ok(sent)
    }

    /// Waits for the next piece; does not wait if there are bytes to write.
    async fn next_piece(
        &mut self,
        body: &mut Receiver,
        has_pending: bool,
        feed: &mut BodyFeed,
        watch: bool,
    ) -> BodyWait {
        poll_fn(|context| {
            match body.poll_next(context) {
                Poll::Ready(next) => return Poll::Ready(BodyWait::Piece(next)),
                // There are bytes to write: they are sent before the wait.
                Poll::Pending if has_pending => return Poll::Ready(BodyWait::Nothing),
                Poll::Pending => {}
            }
            feed.poll(self, watch, context).map(|()| BodyWait::Left)
        })
        .await
    }

    /// Writes `head`, then a range of a file, and takes turns with other connections.
    async fn write_file(
        &mut self,
        head: &[u8],
        (file, offset, length): (BorrowedFd<'_>, u64, u64),
        feed: &mut BodyFeed,
        sent_bytes: &mut u64,
    ) -> io::Result<()> {
        let mut head = head;
        while !head.is_empty() {
            let sent = self.transport.try_send_more(head)?;
            head = &head[sent..];
            if !head.is_empty() {
                self.wait_sendable(feed).await?;
            }
        }
        let (mut at, end) = (offset, offset + length);
        let mut turn_bytes = 0;
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(FILE_TURN_BYTES - turn_bytes);
            match self.transport.try_send_file(file, &mut at, count)? {
                Some(0) => {
                    let shorter = "the file became shorter while it was sent";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, shorter));
                }
                Some(sent) => {
                    turn_bytes += sent;
                    *sent_bytes += sent as u64;
                    self.timing.sent_since_wait += sent as u64;
                }
                None => self.wait_sendable(feed).await?,
            }
            if turn_bytes >= FILE_TURN_BYTES {
                turn_bytes = 0;
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }
}
