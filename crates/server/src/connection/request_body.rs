//! Receives a request's body on an HTTP/1 connection for a handler (RFC 9112 sections 6 and 7).
//!
//! [`BodyFeed`] takes the bytes of the body from the connection's input, removes the framing and puts them
//! into the handler's pipe, but only as fast as the handler reads. It is polled together with the handler and
//! with the writing of the answer. At the end, the part that no handler has read is read and discarded, so
//! that the next request begins where this one ends.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use touchstone_access::{MinimumPace, Pace};
use touchstone_handler::pipe::{Receiver, Sender, pipe};
use touchstone_http::chunked::{ChunkedDecoder, ChunkedLimits};
use touchstone_http::request::{Expectation, RequestBody, RequestHead};
use touchstone_observe::metrics::Timeout;

use super::Connection;

/// How many bytes of a body may wait for its handler.
const PIPE_BYTES: usize = 128 * 1024;

/// How many bytes that follow the request are received while a handler works.
const AHEAD_BYTES: usize = 64 * 1024;

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyProblem {
    /// It breaks the chunked coding.
    Malformed,
    /// It is longer than allowed.
    TooLarge,
    /// The client was too slow.
    Timeout,
    /// The client has disconnected.
    Gone,
}

impl BodyProblem {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            BodyProblem::Malformed | BodyProblem::Gone => 400,
            BodyProblem::TooLarge => 413,
            BodyProblem::Timeout => 408,
        }
    }

    fn error(self) -> io::Error {
        let (kind, message) = match self {
            BodyProblem::Malformed => (io::ErrorKind::InvalidData, "the request's body is not in chunks"),
            BodyProblem::TooLarge => (io::ErrorKind::FileTooLarge, "the request's body is too large"),
            BodyProblem::Timeout => (io::ErrorKind::TimedOut, "the client sent its body too slowly"),
            BodyProblem::Gone => (io::ErrorKind::ConnectionReset, "the client left while it sent its body"),
        };
        io::Error::new(kind, message)
    }
}

/// How the rest of the body is framed.
enum Rest {
    /// Nothing is left.
    Done,
    Counted(u64),
    Chunked(ChunkedDecoder),
    /// All bytes until the client's end, after a switch of protocols.
    Raw,
}

/// A body that is being received.
pub struct BodyFeed {
    rest: Rest,
    /// The field lines after the body, once its end was seen.
    trailers: Vec<u8>,
    /// The end of the pipe to the handler; `None` if no handler reads.
    sender: Option<Sender>,
    received_bytes: u64,
    most_bytes: u64,
    /// The client waits for `100 Continue`.
    waits_to_be_asked: bool,
    pace: Pace,
    /// When the current wait for the client began.
    wait_began_ms: Option<u64>,
    /// The connection waits for something else, which has its own deadline.
    pub is_beside: bool,
    /// After a switch of protocols the client has ended its direction.
    is_half_closed: bool,
    /// The error, if there was one.
    pub problem: Option<BodyProblem>,
}

/// What is at the start of the input.
enum BodyItem {
    Piece(Range<usize>, usize),
    End(usize),
    Nothing,
}

impl BodyFeed {
    /// The feed of a request's body, and the end that a handler reads; `None` if there is nothing to read. A
    /// request to switch protocols has one, for the bytes after the switch.
    pub fn new(
        head: &RequestHead,
        may_switch: bool,
        most_bytes: u64,
        minimum: MinimumPace,
    ) -> (BodyFeed, Option<Receiver>) {
        let rest = match head.body {
            RequestBody::None => Rest::Done,
            RequestBody::Length(length) => Rest::Counted(length),
            RequestBody::Chunked => Rest::Chunked(ChunkedDecoder::new(ChunkedLimits::default())),
        };
        let (sender, receiver) = match (&rest, may_switch) {
            (Rest::Done, false) => (None, None),
            _ => {
                let (sender, receiver) = pipe(PIPE_BYTES);
                (Some(sender), Some(receiver))
            }
        };
        let feed = BodyFeed {
            rest,
            trailers: Vec::new(),
            sender,
            received_bytes: 0,
            most_bytes,
            waits_to_be_asked: head.expectation == Expectation::Continue,
            pace: Pace::begin(minimum),
            wait_began_ms: None,
            is_beside: false,
            is_half_closed: false,
            problem: None,
        };
        (feed, receiver)
    }

    /// From now on, another pace is the slowest.
    pub fn begin_pace(&mut self, minimum: MinimumPace) {
        self.pace = Pace::begin(minimum);
    }

    /// The feed of a request without a body.
    pub fn none() -> BodyFeed {
        let minimum = MinimumPace { stall_timeout: Duration::ZERO, bytes_per_second: 0 };
        BodyFeed {
            rest: Rest::Done,
            trailers: Vec::new(),
            sender: None,
            received_bytes: 0,
            most_bytes: 0,
            waits_to_be_asked: false,
            pace: Pace::begin(minimum),
            wait_began_ms: None,
            is_beside: false,
            is_half_closed: false,
            problem: None,
        }
    }

    /// Whether nothing of the body is left in the connection.
    pub fn is_done(&self) -> bool {
        matches!(self.rest, Rest::Done)
    }

    /// From now on every byte goes to the handler, without framing.
    pub fn switch_protocols(&mut self) {
        self.rest = Rest::Raw;
        self.waits_to_be_asked = false;
    }

    /// Moves what the handler asks for into its pipe. `watch`: also notice that the client leaves while the
    /// handler asks for nothing. Ready only when the client has left.
    pub fn poll(&mut self, connection: &mut Connection, watch: bool, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.poll_sender(context).is_pending() {
                return if watch && !self.is_half_closed {
                    self.poll_departure(connection, context)
                } else {
                    Poll::Pending
                };
            }
            match ready!(self.poll_piece(connection, context)) {
                Ok(Some(piece)) => {
                    if let Some(sender) = &mut self.sender {
                        sender.push(piece);
                    }
                }
                Ok(None) => {
                    if let Some(sender) = self.sender.take() {
                        sender.finish_with_trailers(std::mem::take(&mut self.trailers));
                    }
                }
                Err(problem) => {
                    self.fail(problem);
                    if problem == BodyProblem::Gone {
                        return Poll::Ready(());
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Ready when the handler wants more.
    fn poll_sender(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let raw = matches!(self.rest, Rest::Raw);
        let Some(sender) = &mut self.sender else { return Poll::Pending };
        if self.problem.is_some() {
            return Poll::Pending;
        }
        if matches!(self.rest, Rest::Done) {
            // The pipe of a request that may switch protocols stays open until the answer decides it.
            return Poll::Pending;
        }
        // After a switch, the client's bytes must not wait until the handler first asks for them.
        let asked = if raw { sender.poll_ready(context) } else { sender.poll_wanted(context) };
        match asked {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(_)) => {
                self.sender = None;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// The next piece of the body; `None` at its end.
    fn poll_piece(
        &mut self,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyProblem>> {
        loop {
            match self.next_item(&connection.input) {
                Err(problem) => return Poll::Ready(Err(problem)),
                Ok(BodyItem::End(consumed)) => {
                    connection.input.drain(..consumed);
                    self.rest = Rest::Done;
                    return Poll::Ready(Ok(None));
                }
                Ok(BodyItem::Piece(data, consumed)) => {
                    let piece = Bytes::copy_from_slice(&connection.input[data]);
                    connection.input.drain(..consumed);
                    if !piece.is_empty() {
                        return Poll::Ready(Ok(Some(piece)));
                    }
                }
                Ok(BodyItem::Nothing) => {
                    self.ask(connection, context);
                    if let Err(problem) = ready!(self.poll_receive(connection, context)) {
                        if matches!(self.rest, Rest::Raw) && problem == BodyProblem::Gone {
                            // The other direction may continue for any time.
                            self.rest = Rest::Done;
                            self.is_half_closed = true;
                            return Poll::Ready(Ok(None));
                        }
                        return Poll::Ready(Err(problem));
                    }
                }
            }
        }
    }

    /// Examines the start of the input.
    fn next_item(&mut self, input: &[u8]) -> Result<BodyItem, BodyProblem> {
        match &mut self.rest {
            Rest::Done | Rest::Counted(0) => Ok(BodyItem::End(0)),
            _ if input.is_empty() => Ok(BodyItem::Nothing),
            Rest::Raw => Ok(BodyItem::Piece(0..input.len(), input.len())),
            Rest::Counted(remaining) => {
                let here = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= here as u64;
                Ok(BodyItem::Piece(0..here, here))
            }
            Rest::Chunked(decoder) => {
                let decoded = decoder.decode(input).map_err(|_| BodyProblem::Malformed)?;
                self.received_bytes = self.received_bytes.saturating_add(decoded.data.len() as u64);
                let usual = self.most_bytes;
                let most_bytes = self.sender.as_ref().map_or(usual, |sender| sender.most_bytes(usual));
                // A chunk whose size exceeds the limit is refused before it arrives.
                if self.received_bytes.saturating_add(decoder.chunk_remaining()) > most_bytes {
                    return Err(BodyProblem::TooLarge);
                }
                if decoded.done {
                    self.trailers = decoder.trailers().to_vec();
                }
                match decoded {
                    decoded if decoded.done && decoded.data.is_empty() => Ok(BodyItem::End(decoded.consumed)),
                    decoded if decoded.done => {
                        self.rest = Rest::Counted(0);
                        Ok(BodyItem::Piece(decoded.data, decoded.consumed))
                    }
                    decoded if decoded.consumed == 0 => Ok(BodyItem::Nothing),
                    decoded => Ok(BodyItem::Piece(decoded.data, decoded.consumed)),
                }
            }
        }
    }

    /// Sends `100 Continue` if the client waits for it.
    fn ask(&mut self, connection: &mut Connection, context: &mut Context<'_>) {
        if std::mem::take(&mut self.waits_to_be_asked) {
            connection.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.send_ahead(connection, context);
    }

    /// Sends what precedes the answer, as far as that is possible now.
    pub fn send_ahead(&mut self, connection: &mut Connection, context: &mut Context<'_>) {
        if !connection.output.is_empty() {
            let output = std::mem::take(&mut connection.output);
            // The error appears again when the answer is written.
            let sent = connection.transport.try_send(&output, &[]).unwrap_or(output.len());
            connection.output = output[sent..].to_vec();
            if !connection.output.is_empty() {
                let _ = connection.transport.poll_sendable(context);
            }
        }
    }

    /// Receives once and appends to the input, at the minimum pace for clients.
    fn poll_receive(
        &mut self,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), BodyProblem>> {
        let core = connection.core.clone();
        if !self.is_beside && connection.deadline_expired(context) {
            connection.count_timeout(Timeout::Body);
            return Poll::Ready(Err(BodyProblem::Timeout));
        }
        let state = &mut *core.state.borrow_mut();
        let now_ms = core.clock.coarse_ms();
        match connection.transport.poll_receive(context, &mut state.receive_buffer) {
            Poll::Pending => {
                // Counted from the start of the wait, even if other events wake the connection meanwhile.
                if !matches!(self.rest, Rest::Raw) && !self.is_beside && self.wait_began_ms.is_none() {
                    self.wait_began_ms = Some(now_ms);
                    connection.set_deadline(self.pace.allowance());
                }
                Poll::Pending
            }
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(BodyProblem::Gone)),
            Poll::Ready(Ok(count)) => {
                connection.input.extend_from_slice(&state.receive_buffer[..count]);
                if let Some(began_ms) = self.wait_began_ms.take() {
                    connection.clear_deadline();
                    let waited = Duration::from_millis(now_ms.saturating_sub(began_ms));
                    if !self.pace.record(count as u64, waited) {
                        connection.count_timeout(Timeout::Body);
                        return Poll::Ready(Err(BodyProblem::Timeout));
                    }
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Ready when the client has left. Keeps what the client sends ahead, and so can notice the departure
    /// only while the input is small.
    fn poll_departure(&mut self, connection: &mut Connection, context: &mut Context<'_>) -> Poll<()> {
        while connection.input.len() < AHEAD_BYTES {
            let core = connection.core.clone();
            let state = &mut *core.state.borrow_mut();
            match connection.transport.poll_receive(context, &mut state.receive_buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.fail(BodyProblem::Gone);
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(count)) => {
                    connection.input.extend_from_slice(&state.receive_buffer[..count]);
                }
            }
        }
        Poll::Pending
    }

    fn fail(&mut self, problem: BodyProblem) {
        self.problem = Some(problem);
        if let Some(sender) = self.sender.take() {
            sender.fail(problem.error());
        }
    }

    /// Reads the rest of the body and discards it.
    pub async fn drain(&mut self, connection: &mut Connection) -> Result<(), BodyProblem> {
        self.sender = None;
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        loop {
            let piece = poll_fn(|context| self.poll_piece(connection, context)).await;
            match piece {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(problem) => {
                    self.problem = Some(problem);
                    break;
                }
            }
        }
        if self.wait_began_ms.take().is_some() {
            connection.clear_deadline();
        }
        self.problem.map_or(Ok(()), Err)
    }
}
